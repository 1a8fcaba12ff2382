/* SPDX-License-Identifier: MIT
 *
 * The text of kernels/opencl, which the Makefile puts into one file: common.cl, then the others.
 */
#include "base/embed.h"

.hidden bn_cl_source, bn_cl_source_bytes /* libbn.so does not export them */
EMBED(bn_cl_source, bn_cl_source_bytes, "kernels/opencl.cl")
EMBED_END
