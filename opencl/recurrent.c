/* SPDX-License-Identifier: MIT
 *
 * Recurrent layers on a device: engine/infer/recurrent.c as launches.
 */
#include "opencl/pass.h"

void bn_cl_layer_recurrent(struct bn_cl_pass *p, uint32_t n)
{
    (void)p, (void)n;
}
