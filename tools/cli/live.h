/* SPDX-License-Identifier: MIT
 *
 * --live: a program publishes the profile of its session while it runs, for bn-bench top.
 */
#ifndef BN_CLI_LIVE_H
#define BN_CLI_LIVE_H

#include "lab/profile/live.h"
#include "tools/cli/options.h"

struct bn_cli_live {
    bool on;
    const char *file; /* NULL: in the folder of this user */
    int level;        /* layer, brick, kernel */
};

/* The three options; `field` is a struct bn_cli_live. */
#define BN_OPTIONS_LIVE(type, field)                                                                       \
    BN_OPTION("live", "publish where the time goes, for 'bn-bench top'", .rare = true, .group = "Profile", \
              BN_TO_BOOL(type, field.on)),                                                                 \
        BN_OPTION("live-file", "the same, in FILE [XDG_RUNTIME_DIR/bn/PID]", .arg = "FILE", .rare = true,  \
                  .group = "Profile", BN_TO_TEXT(type, field.file)),                                       \
        BN_OPTION("live-level", "detail of --live", .arg = "layer|brick|kernel", .rare = true,             \
                  .group = "Profile", .preset = "brick", BN_TO_CHOICE(type, field.level))

/* Publishes the profile of a session when that is asked for; else *out is NULL. Closed by bn_live_close before
 * the session. */
BN_MUST_CHECK bn_status bn_cli_live_open(struct bn_live **out, const struct bn_args *args,
                                         const struct bn_cli_live *choice, bn_session *session,
                                         bn_error *err);

#endif
