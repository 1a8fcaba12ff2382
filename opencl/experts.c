/* SPDX-License-Identifier: MIT
 *
 * Layers with experts on a device: engine/infer/experts.c as launches.
 */
#include "opencl/pass.h"

void bn_cl_layer_experts(struct bn_cl_pass *p, uint32_t n)
{
    (void)p, (void)n;
}
