/* SPDX-License-Identifier: MIT
 *
 * What every unit test includes: cmocka, the headers that it needs before it, and the usual ones of libc.
 */
#ifndef BN_TESTS_UNIT_H
#define BN_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#endif
