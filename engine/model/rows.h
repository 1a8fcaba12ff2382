/* SPDX-License-Identifier: MIT
 *
 * Rows of the embedding and of the head, widened from however they are stored.
 */
#ifndef BN_MODEL_ROWS_H
#define BN_MODEL_ROWS_H

#include "model/model.h"

/* The slot that widens rows of this matrix; BN_KERNEL_COUNT when no kernel does: F32 rows are
 * copied; ternary rows and those in Q4_K and Q5_K are unpacked. */
enum bn_kernel bn_matrix_slot(const struct bn_matrix *matrix);
/* Whether the rows are blocks of ternary weights. */
bool bn_matrix_is_ternary(const struct bn_matrix *matrix);
/* n values of a float type, or of a multiple of the type's block, in binary32. */
void bn_widen(const struct bn_kernels *kernels, uint32_t type, float *out, const void *data, size_t n);
/* Row r in binary32: matrix->k values. */
void bn_matrix_row(const struct bn_kernels *kernels, const struct bn_matrix *matrix, size_t r, float *out);
/* Whether n values have no infinity and no NaN: finite weights may be so large that a sum overflows. */
bool bn_all_finite(const float *x, size_t n);

#endif
