/* SPDX-License-Identifier: MIT
 *
 * The kernels of devices against the reference, on ordinary and extreme values, in each form that a device can ask for;
 * and kernels with a fault each, which must be found by name. It needs a driver of OpenCL (PoCL: pocl-opencl-icd) and
 * skips without one.
 */
#define _GNU_SOURCE
#include "opencl/check.h"

#include <sys/stat.h>

#include "base/mem.h"
#include "tests/unit/folder.h"

static size_t n_devices;

static int begin(void **state)
{
    bn_device_info infos[8];
    if (make_folder(state) != 0) return -1;
    setenv("XDG_CACHE_HOME", folder, 1);
    setenv("POCL_CACHE_DIR", folder, 1);
    if (bn_devices(infos, BN_ARRAY_LEN(infos), &n_devices, NULL) != BN_OK) n_devices = 0;
    if (n_devices == 0) fputs("# no device of OpenCL: install pocl-opencl-icd\n", stderr);
    return 0;
}
GROUP(begin, remove_folder)

/* Shapes that the cases of the library do not have. Of each the values change. */
static const struct bn_cl_case SHAPES[] = {
    {"one value", BN_CL_prepare, .n = 1, .width = 1, .steps = BN_CL_WITH_NORM | BN_CL_WITH_ADD,
     .activation = 1},
    {"all steps, 8 bits", BN_CL_prepare, .n = 3, .width = 640, .activation = 1, .block = 128, .bits = 8,
     .steps = BN_CL_WITH_INDEX | BN_CL_WITH_ADD | BN_CL_WITH_ADD_NORM | BN_CL_WITH_NORM | BN_CL_WITH_SIGNS},
    {"all steps, 16 bits", BN_CL_prepare, .n = 2, .width = 768, .activation = 2, .block = 256, .bits = 16,
     .group = 256, .steps = BN_CL_WITH_INDEX | BN_CL_WITH_NORM | BN_CL_WITH_LIMIT},
    {"planes", BN_CL_prepare, .n = 2, .width = 320, .activation = 3, .bits = 8, .group = 64},
    {"quantize16", BN_CL_prepare, .n = 2, .width = 6912, .bits = 16, .group = 64},
    {"quantize", BN_CL_prepare, .n = 1, .width = 6913, .bits = 8},
    {"a row", BN_CL_ternary_gemv, .n = 2, .width = 128, .rows = 1, .bits = 8, .slices = 4},
    {"slices", BN_CL_ternary_gemv, .n = 1, .width = 6912, .rows = 33, .bits = 8, .slices = 16},
    {"groups of 64", BN_CL_ternary_gemv, .n = 1, .width = 2560, .rows = 17, .bits = 16, .group = 64,
     .slices = 16},
    {"groups of 256", BN_CL_ternary_gemv, .n = 1, .width = 1280, .rows = 31, .bits = 16, .group = 256,
     .slices = 4},
    {"8 bits in groups", BN_CL_ternary_gemv, .n = 2, .width = 512, .rows = 16, .bits = 8, .group = 256,
     .slices = 1},
    {"experts", BN_CL_ternary_gemv, .n = 3, .width = 256, .rows = 48, .bits = 8, .slices = 4,
     .steps = BN_CL_WITH_EXPERTS},
    {"experts of groups", BN_CL_ternary_gemv, .n = 2, .width = 256, .rows = 32, .bits = 16, .group = 128,
     .slices = 1, .steps = BN_CL_WITH_EXPERTS},
    {"8 tokens", BN_CL_ternary_gemm, .n = 8, .width = 384, .rows = 15, .bits = 8, .slices = 1},
    {"17 tokens", BN_CL_ternary_gemm, .n = 17, .width = 128, .rows = 49, .bits = 8, .slices = 4},
    {"9 tokens of groups", BN_CL_ternary_gemm, .n = 9, .width = 512, .rows = 20, .bits = 16, .group = 128,
     .slices = 4},
    {"8 bits of groups", BN_CL_ternary_gemm, .n = 2, .width = 512, .rows = 33, .bits = 8, .group = 256,
     .slices = 1},
    {"normed heads", BN_CL_rope_store, .n = 3, .width = 96, .rows = 40, .block = 64, .heads = 3,
     .kv_heads = 3, .steps = BN_CL_WITH_NORM | BN_CL_WITH_NEOX},
    {"heads without rotation", BN_CL_rope_store, .n = 1, .width = 128, .rows = 17, .block = 128, .heads = 4,
     .kv_heads = 2, .steps = BN_CL_WITH_NORM},
    {"pairs", BN_CL_rope_store, .n = 2, .width = 64, .rows = 3, .block = 64, .heads = 2, .kv_heads = 1,
     .steps = BN_CL_WITH_ROPE_NORM},
    {"one position", BN_CL_attn_scores, .n = 1, .width = 64, .rows = 1, .heads = 2, .kv_heads = 2},
    {"scores", BN_CL_attn_scores, .n = 5, .width = 80, .rows = 130, .heads = 6, .kv_heads = 2, .window = 16},
    {"a window of 1", BN_CL_attn_scores, .n = 3, .width = 33, .rows = 18, .heads = 2, .kv_heads = 1,
     .window = 1},
    {"one score", BN_CL_attn_softmax, .n = 1, .rows = 1, .heads = 3, .kv_heads = 1},
    {"softmax", BN_CL_attn_softmax, .n = 4, .rows = 300, .heads = 2, .kv_heads = 1},
    {"values", BN_CL_attn_values, .n = 3, .width = 72, .rows = 130, .heads = 4, .kv_heads = 1, .window = 100,
     .steps = BN_CL_WITH_GATE},
    {"17 tokens, f16", BN_CL_f16_gemm, .n = 17, .width = 130, .rows = 9},
    {"a value, f16", BN_CL_f16_gemm, .n = 1, .width = 1, .rows = 1},
    {"5 tokens, f32", BN_CL_f32_gemm, .n = 5, .width = 256, .rows = 13},
    {"finite", BN_CL_finite, .n = 3, .width = 1000},
    {"gates", BN_CL_make_gates, .n = 20, .heads = 16},
    {"a token", BN_CL_convolve, .n = 1, .width = 33, .block = 4},
    {"two taps", BN_CL_convolve, .n = 7, .width = 16, .block = 2},
    {"many rows", BN_CL_keep_rows, .n = 11, .width = 33, .block = 4},
    {"one row", BN_CL_keep_rows, .n = 1, .width = 33, .block = 4},
    {"heads", BN_CL_normalise_heads, .n = 3, .width = 129, .kv_heads = 1},
    {"columns", BN_CL_delta, .n = 1, .width = 33, .heads = 6, .kv_heads = 3},
    {"outputs", BN_CL_gate_heads, .n = 3, .width = 65, .heads = 6, .kv_heads = 3, .steps = BN_CL_WITH_GROUPS},
    {"all experts", BN_CL_choose_experts, .n = 3, .rows = 7, .heads = 7},
    {"many experts", BN_CL_choose_experts, .n = 2, .rows = 200, .heads = 8},
    {"an expert", BN_CL_sum_experts, .n = 4, .width = 65, .heads = 1},
};

static struct bn_cl_device *open_with(struct bn_cl_queue *q, const struct bn_cl_options *options)
{
    struct bn_cl_device *device;
    if (n_devices == 0) skip();
    must(bn_cl_open(&device, 0, options, &err));
    must(bn_cl_queue_open(q, device, &err));
    return device;
}

static void run_all(const struct bn_cl_options *options)
{
    struct bn_cl_queue q;
    struct bn_cl_device *device = open_with(&q, options);
    for (size_t i = 0; i < bn_cl_n_cases; i++)
        must(bn_cl_check_case(&q, &bn_cl_cases[i], &err));
    for (size_t i = 0; i < BN_ARRAY_LEN(SHAPES) * BN_CL_N_VALUES; i++) {
        struct bn_cl_case c = SHAPES[i / BN_CL_N_VALUES];
        c.values = (enum bn_cl_values)(i % BN_CL_N_VALUES);
        c.seed = (uint32_t)i;
        if (bn_cl_check_case(&q, &c, &err) != BN_OK)
            fail_msg("%s, values %d: %s", c.operation, (int)c.values, err.msg);
    }
    bn_cl_queue_close(&q);
    assert_int_equal(device->bytes, 0);
    bn_cl_close(device);
}

TEST(test_vectors)
{
    run_all(&(struct bn_cl_options){.no_cache = true});
}

TEST(test_vectors_without_binary64)
{
    run_all(&(struct bn_cl_options){.no_cache = true, .no_fp64 = true});
}

TEST(test_rows_as_on_a_gpu)
{
    run_all(&(struct bn_cl_options){.no_cache = true, .scalar_rows = true});
}

TEST(test_rows_as_on_a_gpu_without_binary64)
{
    run_all(&(struct bn_cl_options){.no_cache = true, .scalar_rows = true, .no_fp64 = true, .no_dot = true});
}

/* Sums of 2^20 products, of the largest codes and values. */
TEST(test_the_longest_rows)
{
    struct bn_cl_queue q;
    struct bn_cl_device *device = open_with(&q, &(struct bn_cl_options){.no_cache = true});
    struct bn_cl_case c = {"the longest rows", BN_CL_ternary_gemv, .n = 1,     .width = 1u << 20,
                           .rows = 2,          .bits = 8,          .slices = 1};
    must(bn_cl_check_case(&q, &c, &err));
    c.values = BN_CL_LARGEST;
    must(bn_cl_check_case(&q, &c, &err));
    bn_cl_queue_close(&q);
    bn_cl_close(device);
}

/* ---- planted faults ---- */

/* The first `from` in the kernels becomes `to`: the operation that is wrong then. */
static const struct fault {
    const char *from, *to, *operation;
} FAULTS[] = {
    /* The order of a lane sum in binary64, of a chain of fma, of the lanes of a dot product. */
    {"lane[0], lane[4]), real_add(lane[2]", "lane[0], lane[2]), real_add(lane[4]", "the length of heads"},
    {"for (uint p = first_seen(row, window); p <= row.position; p++)",
     "for (uint p = row.position + 1; p-- > first_seen(row, window);)", "attn_values"},
    {"(lane[0] + lane[2]) + (lane[1] + lane[3])", "(lane[0] + lane[1]) + (lane[2] + lane[3])", "attn_scores"},
    /* A rounding too few, and one too many. */
    {"a * cosines[i] - b * sines[i]", "fma(a, cosines[i], -(b * sines[i]))", "rope_neox"},
    {"predicted = fma(state[(size_t)i * d] * decay, k[i], predicted)",
     "predicted += state[(size_t)i * d] * decay * k[i]", "delta"},
    {"x[i] *= factor;\n}", "x[i] /= real_to_float(fold8(lane));\n}", "softmax"},
    {"c = c + weights[(size_t)t * width + column] * x", "c = fma(weights[(size_t)t * width + column], x, c)",
     "conv_silu"},
    {"p = fma(p, r, 1.0f);\n    return", "p = p * r + 1.0f;\n    return", "silu_mul"},
    /* How halves are rounded: to nearest, not to even. */
    {"size += 0xFFFu + (size >> 13 & 1u)", "size += 0x1000u", "f32_to_f16"},
    /* Constants. */
    {"1.42860677e-6f", "1.4e-6f", "silu_mul"},
    {"0.0713548163f", "0.0713548f", "gelu_mul"},
    {"0x3EE4F8B588E368F1ul", "0x3F50624DD2F1A9FCul", "quantize"},
    {"int n = 19", "int n = 9", "softplus"},
    /* Values beyond a limit. */
    {"if (x > 88.0f) x = 88.0f;", "", "silu_mul"},
    {"float gate = x[i] > limit ? limit : x[i]", "float gate = x[i]", "the limits of experts"},
    {"& INFINITE) != INFINITE", "& INFINITE) != 0", "the search for NaN"},
    /* Places. */
    {"(tile * n_groups + g) * 16", "tile * n_groups * 16", "ternary_gemv of groups"},
    {"i % 4 * 4 + i % 16 / 4", "i % 16", "to_plane"},
    {"row.position + 1 - window : 0", "row.position - window : 0", "attn_scores"},
    {"uint at = row.before + 1 + i", "uint at = row.before + i", "the rows of a convolution"},
    {"return min(a, b);\n}", "return max(a, b);\n}", "the choice of experts"},
};

/* The embedded kernels with a fault. */
static char *with_fault(const struct fault *fault)
{
    char *whole = bn_strndup(bn_cl_source, (size_t)bn_cl_source_bytes), *changed = NULL;
    char *at = strstr(whole, fault->from);
    if (at == NULL) fail_msg("no kernel has '%s'", fault->from);
    *at = '\0';
    if (asprintf(&changed, "%s%s%s", whole, fault->to, at + strlen(fault->from)) < 0) changed = NULL;
    bn_free(whole);
    assert_non_null(changed);
    return changed;
}

/* All cases of the operation: one of them sees it. */
TEST(test_faults_are_found_by_name)
{
    size_t n_missed = 0;
    for (const struct fault *f = FAULTS; f < FAULTS + BN_ARRAY_LEN(FAULTS); f++) {
        char *source = with_fault(f), expected[200];
        struct bn_cl_queue q;
        struct bn_cl_device *device =
            open_with(&q, &(struct bn_cl_options){.no_cache = true, .source = source});
        bn_status status = BN_OK;
        err = (bn_error){0};
        for (size_t i = 0; i < bn_cl_n_cases && status == BN_OK; i++)
            if (strcmp(bn_cl_cases[i].operation, f->operation) == 0)
                status = bn_cl_check_case(&q, &bn_cl_cases[i], &err);
        if (status != BN_ERR_INTEGRITY) {
            fprintf(stderr, "'%s' for '%s' was not found\n", f->to, f->from);
            n_missed++;
        }
        snprintf(expected, sizeof expected, "the device opencl:0 computes %s wrongly: value ", f->operation);
        if (status == BN_ERR_INTEGRITY) assert_has(err.msg, expected);
        bn_cl_queue_close(&q);
        bn_cl_close(device);
        free(source);
    }
    assert_int_equal(n_missed, 0);
}

/* ---- the test of a device that is opened ---- */

TEST(test_what_passed_is_remembered)
{
    const struct fault fault = FAULTS[BN_ARRAY_LEN(FAULTS) - 1];
    struct bn_cl_queue q;
    struct bn_cl_device *device = open_with(&q, NULL);
    bn_cl_queue_close(&q);
    assert_false(bn_cl_is_checked(device));
    must(bn_cl_check(device, &err));
    assert_true(bn_cl_is_checked(device));
    must(bn_cl_check(device, &err));
    bn_cl_close(device);
    /* Another program is another question, and one that fails is not remembered. */
    char *source = with_fault(&fault);
    device = open_with(&q, &(struct bn_cl_options){.source = source});
    bn_cl_queue_close(&q);
    for (int i = 0; i < 2; i++) {
        err = (bn_error){0};
        refused(bn_cl_check(device, &err), BN_ERR_INTEGRITY);
        assert_has(err.msg, fault.operation);
    }
    bn_cl_close(device);
    free(source);
}

TEST(test_memory_runs_out)
{
    struct bn_cl_queue q;
    struct bn_cl_device *device = open_with(&q, &(struct bn_cl_options){.no_cache = true});
    bn_status status = BN_ERR_NOMEM;
    for (uint64_t n = 1; n < 100 && status != BN_OK; n++) {
        err = (bn_error){0};
        bn_mem_fail_after(n);
        status = bn_cl_check_case(&q, &SHAPES[1], &err);
        bn_mem_fail_after(0);
        if (status != BN_OK) assert_int_equal(status, BN_ERR_NOMEM);
        assert_int_equal(device->bytes, 0);
    }
    assert_int_equal(status, BN_OK);
    bn_cl_queue_close(&q);
    bn_cl_close(device);
}
