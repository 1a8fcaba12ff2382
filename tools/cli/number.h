/* SPDX-License-Identifier: MIT
 *
 * Numbers as people type them, read strictly: the whole text is the number, nothing before or after it, no
 * overflow, the same in every locale. And binary32 numbers as text. In fields.c.
 */
#ifndef BN_CLI_NUMBER_H
#define BN_CLI_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Decimal digits only. */
bool bn_number_u64(const char *text, size_t n, uint64_t *out);
/* The same after an optional minus. */
bool bn_number_i64(const char *text, size_t n, int64_t *out);
/* Decimal floating point; no hexadecimal, no "inf", no "nan", and nothing that rounds to infinity. */
bool bn_number_f32(const char *text, float *out);
bool bn_number_f64(const char *text, double *out);

/* Appends n numbers as an array of JSON, each in the fewest digits that read back as the same binary32. */
void bn_number_put_f32s(struct bn_buf *out, const float *x, size_t n);

#endif
