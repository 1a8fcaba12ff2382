/* SPDX-License-Identifier: MIT
 *
 * The kernels of devices against the reference.
 */
#define _GNU_SOURCE
#include "opencl/check.h"

#include "tests/unit/folder.h"

TEST(test_self)
{
    struct bn_cl_device *device;
    for (int i = 0; i < 4; i++) {
        struct bn_cl_options options = {.no_cache = true, .no_fp64 = i % 2 != 0, .scalar_rows = i / 2 != 0};
        must(bn_cl_open(&device, 0, &options, &err));
        must(bn_cl_check(device, &err));
        bn_cl_close(device);
    }
}
