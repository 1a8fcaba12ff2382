/* SPDX-License-Identifier: MIT
 *
 * Calls that return a status and take &err, and blocks that run with short memory.
 */
#ifndef BN_TESTS_UNIT_STATUS_H
#define BN_TESTS_UNIT_STATUS_H

#include "bn.h"
#include "tests/unit/unit.h"

__attribute__((unused)) static bn_error err; /* of the last must, refused or attempt */

/* The call succeeds, or fails with this status; else the call and its error are printed. */
#define must(call) refused(call, BN_OK)
#define refused(call, code) unit_status(attempt(call), code, #call, &err, __FILE__, __LINE__)
#define attempt(call) (err = (bn_error){0}, (call))

void unit_status(bn_status got, bn_status want, const char *call, const bn_error *at, const char *file,
                 int line);

/* Runs its block, which sets the status, again and again: with the first allocation failing, with the second, and so
 * on, until it succeeds. Each other run ends with BN_ERR_NOMEM and keeps no memory. */
#define SHORT_MEMORY(status) \
    for (uint64_t unit_n = 0, unit_kept = 0; unit_short_memory(&unit_n, &unit_kept, &(status));)

bool unit_short_memory(uint64_t *n, uint64_t *kept, bn_status *status);

#endif
