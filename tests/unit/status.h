/* SPDX-License-Identifier: MIT
 *
 * Calls that return a status and take &err, which is cleared before each: a call that ends otherwise than a test wants
 * fails the test, which prints the call and the error.
 */
#ifndef BN_TESTS_UNIT_STATUS_H
#define BN_TESTS_UNIT_STATUS_H

#include "bn.h"
#include "tests/unit/unit.h"

static bn_error err; /* of the last must or refused */

#define must(call) refused(call, BN_OK)
#define refused(call, code) \
    (err = (bn_error){0}, unit_status((call), code, #call, err.where, err.msg, __FILE__, __LINE__))

static inline void unit_status(bn_status got, bn_status want, const char *call, const char *where,
                               const char *msg, const char *file, int line)
{
    if (got == want) return;
    print_error("%s\n%s, expected %s: %s: %s\n", call, bn_status_name(got), bn_status_name(want), where, msg);
    _fail(file, line);
}

#endif
