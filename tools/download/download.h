/* SPDX-License-Identifier: MIT
 *
 * The commands of bn-download, and their options.
 */
#ifndef BN_DOWNLOAD_H
#define BN_DOWNLOAD_H

#include "hub/fetch.h"
#include "tools/cli/options.h"

/* Options that several commands have. */
extern const struct bn_option bn_download_network_options[];

extern const struct bn_option bn_download_get_options[];
bn_status bn_download_get(struct bn_args *args, bn_error *err);

/* Fills what --offline, --parallel and the environment say. */
BN_MUST_CHECK bn_status bn_download_settings(struct bn_hub_fetch *fetch, const struct bn_args *args,
                                             bn_error *err);

#endif
