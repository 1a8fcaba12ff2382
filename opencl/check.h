/* SPDX-License-Identifier: MIT
 *
 * Holds the kernels of a device against the reference in plain C: each on inputs made from a seed, all bytes of all of
 * its buffers afterwards. One table of cases is for devices that are opened; the tests have more of them.
 */
#ifndef BN_OPENCL_CHECK_H
#define BN_OPENCL_CHECK_H

#include "opencl/driver.h"

/* What fills the inputs. */
enum bn_cl_values {
    BN_CL_ORDINARY,
    BN_CL_ANY,       /* all finite bits */
    BN_CL_SUBNORMAL, /* of binary32 and binary16 */
    BN_CL_LARGEST,   /* of either sign */
    BN_CL_ZEROS,     /* of either sign */
    BN_CL_WILD,      /* ordinary ones with infinities and NaNs of either sign among them */
    BN_CL_FINE,      /* whose squares show the order of a sum in binary64 */
    BN_CL_N_VALUES
};

/* A kernel with the shape of its inputs. What a member means for a kernel is said where opencl/check_kernels.c makes its
 * arguments. */
struct bn_cl_case {
    const char *operation; /* for people */
    enum bn_cl_kernel kernel;
    enum bn_cl_values values;
    uint32_t n;     /* rows of the batch */
    uint32_t width; /* values of a row; k of a matrix; of a head */
    uint32_t rows;  /* of a matrix; positions of a sequence */
    uint32_t group, bits;
    uint32_t steps; /* bits of the enumeration below */
    uint32_t block, activation, heads, kv_heads, window, slices, seed;
};

enum {
    BN_CL_WITH_INDEX = 1, /* prepare: rows by an index */
    BN_CL_WITH_ADD = 2,
    BN_CL_WITH_ADD_NORM = 4,
    BN_CL_WITH_NORM = 8, /* also of heads */
    BN_CL_WITH_SIGNS = 16,
    BN_CL_WITH_LIMIT = 32,
    BN_CL_WITH_EXPERTS = 64, /* ternary_gemv */
    BN_CL_WITH_GATE = 128,   /* attn_values */
    BN_CL_WITH_NEOX = 256,   /* rope_store */
    BN_CL_WITH_ROPE_NORM = 512,
    BN_CL_WITH_GROUPS = 1024, /* heads of recurrent layers: those with the same key are neighbours */
};

/* Runs one case. BN_ERR_INTEGRITY names the operation, and the first value that is wrong. */
BN_MUST_CHECK bn_status bn_cl_check_case(struct bn_cl_queue *q, const struct bn_cl_case *c, bn_error *err);

/* What a device is tested with: a case for each step that has arithmetic of its own. */
extern const struct bn_cl_case bn_cl_cases[];
extern const size_t bn_cl_n_cases;

/* Runs them all, unless this user's cache remembers that it passed: the same device,
 * driver and program. */
BN_MUST_CHECK bn_status bn_cl_check(struct bn_cl_device *device, bn_error *err);

#endif
