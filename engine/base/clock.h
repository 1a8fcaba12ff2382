/* SPDX-License-Identifier: MIT
 *
 * Time: monotonic nanoseconds for measuring, UTC seconds for stamps.
 */
#ifndef BN_BASE_CLOCK_H
#define BN_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

uint64_t bn_clock_ns(void);
/* Seconds since 1970; SOURCE_DATE_EPOCH when that is set. */
int64_t bn_clock_utc(void);
/* "2026-11-21T05:18:56Z" and back; false when text is no such stamp. */
void bn_clock_format(int64_t utc, char out[21]);
int bn_clock_parse(const char *text, int64_t *utc);

#endif
