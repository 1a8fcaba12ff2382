/* SPDX-License-Identifier: MIT
 *
 * What the parts of the preloaded library share: preload.c, preload_exec.c.
 */
#ifndef BN_SAMPLER_PRELOAD_H
#define BN_SAMPLER_PRELOAD_H

#include <stdbool.h>

#define BN_PRELOAD_PUBLIC __attribute__((visibility("default")))
#define BN_PRELOAD_TEXT 1024u

/* Written while the library is loaded, and only read after that. */
extern struct bn_preload {
    char library[BN_PRELOAD_TEXT]; /* its own path */
    char log[64];                  /* the log's; empty: there is none */
    bool ready;                    /* the log is mapped */
} bn_preload;

/* Whether what is started now may be recorded. Safe in a child of vfork. */
bool bn_preload_recorder_lives(void);

/* Takes the library and the log out of this process's environment, and keeps them. */
void bn_preload_take_environment(void);

#endif
