/* SPDX-License-Identifier: MIT
 *
 * lab/stacks/palette: which names are of which class; that text on every colour can be read; that classes can
 * be told apart, in the palette for colour-blind eyes also by them.
 */
#define _GNU_SOURCE /* popen */
#include <math.h>
#include <stdio.h>

#include "kernels/kernels.h"
#include "lab/stacks/palette.h"
#include "stamp/profiler.h"
#include "tests/unit/status.h"

static enum bn_class class_of(enum bn_frame_kind kind, const char *name)
{
    struct bn_frame frame = {name, "", "", 0, kind};
    return bn_class_of(&frame);
}

TEST(names_have_classes)
{
    static const struct {
        enum bn_frame_kind kind;
        const char *name;
        enum bn_class is;
    } CASES[] = {
        {BN_FRAME_CODE, "bn_quantize_avx512vnni", BN_CLASS_QUANTIZE},
        {BN_FRAME_INLINED, "quantize_row", BN_CLASS_QUANTIZE},
        {BN_FRAME_BRICK, "ActivationQuantize", BN_CLASS_QUANTIZE},
        {BN_FRAME_CODE, "bn_ternary_gemv_avx2", BN_CLASS_MULTIPLY},
        {BN_FRAME_CODE, "bn_t5_gemv_avx512vbmi", BN_CLASS_MULTIPLY},
        {BN_FRAME_CODE, "i2s_stream.constprop.0", BN_CLASS_MULTIPLY},
        {BN_FRAME_INLINED, "i2s_eight", BN_CLASS_MULTIPLY},
        {BN_FRAME_SLOT, "ternary_gemv_avx2", BN_CLASS_MULTIPLY},
        {BN_FRAME_SLOT, "f16_gemm_opencl", BN_CLASS_MULTIPLY},
        {BN_FRAME_CODE, "ggml_vec_dot_i2_i8_s", BN_CLASS_MULTIPLY},
        {BN_FRAME_BRICK, "QkvProjection", BN_CLASS_MULTIPLY},
        {BN_FRAME_BRICK, "LmHead", BN_CLASS_MULTIPLY},
        {BN_FRAME_CODE, "__memmove_evex_unaligned_erms", BN_CLASS_MEMORY},
        {BN_FRAME_CODE, "malloc", BN_CLASS_MEMORY},
        {BN_FRAME_CODE, "_int_free", BN_CLASS_MEMORY},
        {BN_FRAME_SYSTEM, "asm_exc_page_fault", BN_CLASS_SYSTEM}, /* as all that stands on it */
        {BN_FRAME_SYSTEM, "handle_mm_fault", BN_CLASS_SYSTEM},
        {BN_FRAME_SYSTEM, "do_futex", BN_CLASS_WAIT},
        {BN_FRAME_SYSTEM, "memset_orig", BN_CLASS_SYSTEM},
        {BN_FRAME_BRICK, "KvStore", BN_CLASS_MEMORY},
        {BN_FRAME_SYSTEM, "do_syscall_64", BN_CLASS_SYSTEM},
        {BN_FRAME_SYSTEM, "anything at all", BN_CLASS_SYSTEM},
        {BN_FRAME_CODE, "bn_attn_scores_avx2", BN_CLASS_ATTENTION},
        {BN_FRAME_CODE, "rope_and_store", BN_CLASS_ATTENTION},
        {BN_FRAME_BRICK, "AttentionSoftmax", BN_CLASS_ATTENTION},
        {BN_FRAME_CODE, "bn_rmsnorm_neon", BN_CLASS_NORM},
        {BN_FRAME_BRICK, "ResidualAdd", BN_CLASS_NORM},
        {BN_FRAME_CODE, "gomp_team_barrier_wait_end", BN_CLASS_WAIT},
        {BN_FRAME_UNKNOWN, "[libgomp.so.1.0.0]", BN_CLASS_SYNC},
        {BN_FRAME_BRICK, "BarrierWait", BN_CLASS_WAIT},
        {BN_FRAME_CODE, "bn_team_barrier", BN_CLASS_WAIT},
        {BN_FRAME_CODE, "futex_wait", BN_CLASS_WAIT},
        {BN_FRAME_CODE, "spin_until_changed", BN_CLASS_WAIT},
        {BN_FRAME_CODE, "__sched_yield", BN_CLASS_WAIT}, /* a thread that has nothing to do but wait */
        {BN_FRAME_CODE, "clock_nanosleep", BN_CLASS_WAIT},
        {BN_FRAME_CODE, "poll", BN_CLASS_WAIT},
        {BN_FRAME_BRICK, "Team", BN_CLASS_WAIT},
        {BN_FRAME_SYSTEM, "__x64_sys_sched_yield", BN_CLASS_WAIT},
        {BN_FRAME_CODE, "GOMP_parallel", BN_CLASS_SYNC},
        {BN_FRAME_CODE, "main", BN_CLASS_OTHER},
        {BN_FRAME_UNKNOWN, "[unknown]", BN_CLASS_OTHER},
        {BN_FRAME_CODE, "", BN_CLASS_OTHER},
        {BN_FRAME_CODE, ".", BN_CLASS_OTHER},
        {BN_FRAME_THREAD, "malloc", BN_CLASS_TAG}, /* a thread that is called so is still a thread */
        {BN_FRAME_LAYER, "layer 3", BN_CLASS_TAG},
        {BN_FRAME_BRICK, "(unattributed)", BN_CLASS_OTHER},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++)
        if (class_of(CASES[i].kind, CASES[i].name) != CASES[i].is)
            fail_msg("%s is %s, not %s", CASES[i].name, bn_class_name(class_of(CASES[i].kind, CASES[i].name)),
                     bn_class_name(CASES[i].is));
}

/* Names that are common words mean something in this project's own code only. */
TEST(short_names_are_of_this_project_only)
{
    static const struct {
        const char *name;
        enum bn_class is;
    } CASES[] = {{"head", BN_CLASS_MULTIPLY},    {"fold", BN_CLASS_MULTIPLY},
                 {"linear", BN_CLASS_MULTIPLY},  {"project", BN_CLASS_MULTIPLY},
                 {"norm", BN_CLASS_NORM},        {"exp", BN_CLASS_NORM},
                 {"attend", BN_CLASS_ATTENTION}, {"embed", BN_CLASS_MEMORY},
                 {"team_worker", BN_CLASS_SYNC}, {"new", BN_CLASS_OTHER},
                 {"run", BN_CLASS_OTHER},        {"layer_ffn", BN_CLASS_OTHER},
                 {"bn_forward", BN_CLASS_OTHER}, {"layer_attention", BN_CLASS_OTHER}};
    static const char *const OWN[] = {"bn", "bn-flamegraph", "bn_bench", "test_forward"}, *const FOREIGN[] = {
                                                                                              "", "coreutils",
                                                                                              "bnx",
                                                                                              "libm.so.6",
                                                                                              "a-bn-b"};
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        struct bn_frame frame = {CASES[i].name, "", "", 0, BN_FRAME_CODE};
        for (size_t m = 0; m < BN_ARRAY_LEN(OWN); m++) {
            frame.module = OWN[m];
            if (bn_class_of(&frame) != CASES[i].is) fail_msg("%s of %s", frame.name, OWN[m]);
        }
        for (size_t m = 0; m < BN_ARRAY_LEN(FOREIGN); m++) {
            frame.module = FOREIGN[m];
            if (bn_class_of(&frame) != BN_CLASS_OTHER) fail_msg("%s of %s", frame.name, FOREIGN[m]);
        }
    }
}

static enum bn_class class_in_program(const char *name)
{
    struct bn_frame frame = {name, "bn-run", "", 0, BN_FRAME_CODE};
    return bn_class_of(&frame);
}

/* Every function of kernels/ that is one in machine code: kernels and their parts, for all instruction sets. */
TEST(every_function_of_kernels_has_a_class)
{
    char name[256];
    size_t n = 0, kernels = 0;
    assert_int_equal(class_in_program("a_new_part"), BN_CLASS_OTHER); /* what a missing rule looks like */
    FILE *names = popen("bash tests/symbols/kernels.sh", "r");
    assert_non_null(names);
    while (fgets(name, sizeof name, names) != NULL) {
        name[strcspn(name, "\n")] = '\0';
        n++;
        kernels += strcmp(name, "bn_ternary_gemm_ref") == 0;
        if (class_in_program(name) == BN_CLASS_OTHER) fail_msg("%s of kernels/ has no class", name);
    }
    int status = pclose(names);
    if (status == 77 << 8) skip();
    assert_int_equal(status, 0);
    assert_true(kernels > 0 && n > BN_KERNEL_COUNT);
}

/* The class is that of the slot for every instruction set of this build, also as the profiler names it. */
TEST(kernels_have_the_class_of_their_slot)
{
    const struct bn_kernels *set;
    for (size_t i = 0; (set = bn_kernels_built(i)) != NULL; i++)
        for (unsigned slot = 0; slot < BN_KERNEL_COUNT; slot++) {
            char function[80];
            const char *bare = bn_kernel_slot_name((enum bn_kernel)slot);
            snprintf(function, sizeof function, "bn_%s", set->name[slot]);
            enum bn_class is = class_of(BN_FRAME_CODE, function);
            if (is == BN_CLASS_OTHER || is != class_of(BN_FRAME_SLOT, set->name[slot]))
                fail_msg("%s is %s", function, bn_class_name(is));
            size_t n = strlen(bare);
            bool multiplies =
                n > 5 && (strcmp(bare + n - 5, "_gemm") == 0 || strcmp(bare + n - 5, "_gemv") == 0);
            if (multiplies != (is == BN_CLASS_MULTIPLY)) fail_msg("%s is %s", function, bn_class_name(is));
        }
    assert_int_equal(class_of(BN_FRAME_CODE, "exp_of_others"), BN_CLASS_OTHER); /* not a kernel */
    assert_int_equal(class_of(BN_FRAME_CODE, "add_codes"), BN_CLASS_OTHER);
}

/* A function that was inlined is of the class that it has where it stands alone. */
TEST(inlined_functions_keep_their_class)
{
    static const char *const NAMES[] = {"bn_quantize_ref", "fold", "malloc",
                                        "softmax",         "main", "bn_add_avx2"};
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++)
        assert_int_equal(class_of(BN_FRAME_CODE, NAMES[i]), class_of(BN_FRAME_INLINED, NAMES[i]));
}

/* The class of the last of a path's frames. */
TEST(frames_do_what_their_callers_do)
{
    static const struct {
        enum bn_class is;
        struct bn_frame path[3];
    } CASES[] = {
        /* Kernel frames under a function that waits are waiting; under any other function they are the kernel's. */
        {BN_CLASS_WAIT,
         {{"__sched_yield", "", "", 0, BN_FRAME_CODE}, {"schedule", "", "", 0, BN_FRAME_SYSTEM}}},
        {BN_CLASS_SYSTEM, {{"read", "", "", 0, BN_FRAME_CODE}, {"schedule", "", "", 0, BN_FRAME_SYSTEM}}},
        /* A part without a class of its own has that of the function that it is inlined into. */
        {BN_CLASS_MULTIPLY,
         {{"bn_ternary_gemv_avx2", "", "", 0, BN_FRAME_CODE},
          {"widen", "", "", 0, BN_FRAME_INLINED},
          {"widen_more", "", "", 0, BN_FRAME_INLINED}}},
        {BN_CLASS_OTHER, {{"main", "", "", 0, BN_FRAME_CODE}, {"widen", "", "", 0, BN_FRAME_INLINED}}},
        /* A part of a kernel that the rules do not know has the class of the kernel that called it. */
        {BN_CLASS_MULTIPLY,
         {{"bn_ternary_gemm_avx2", "bn-run", "kernels/x86/avx2_ternary.c", 1, BN_FRAME_CODE},
          {"a_new_part", "bn-run", "kernels/x86/avx2_few.c", 1, BN_FRAME_CODE}}},
        {BN_CLASS_OTHER,
         {{"bn_ternary_gemm_avx2", "bn-run", "kernels/x86/avx2_ternary.c", 1, BN_FRAME_CODE},
          {"a_new_part", "other", "kernels/x86/avx2_few.c", 1, BN_FRAME_CODE}}},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        bn_stacks *s = NULL;
        uint32_t node = BN_STACKS_ROOT;
        must(bn_stacks_open(&s, "ns", "cpu", NULL));
        for (size_t k = 0; k < 3 && CASES[i].path[k].name != NULL; k++)
            must(bn_stacks_push(s, &node, &CASES[i].path[k], SIZE_MAX, NULL));
        assert_int_equal(bn_class_at(s, node, false), CASES[i].is);
        bn_stacks_close(s);
    }
}

/* Bricks that compute have a class; those that contain others, and those after the pass, have none. */
TEST(every_brick_that_computes_has_a_class)
{
    for (unsigned b = 0; b < BN_BRICK_KNOWN; b++) {
        bool holds = b == BN_BRICK_LAYER || b == BN_BRICK_EMIT || b == BN_BRICK_SAMPLING;
        enum bn_class is = class_of(BN_FRAME_BRICK, bn_brick_name((enum bn_brick)b));
        if ((is == BN_CLASS_OTHER) != holds)
            fail_msg("%s is %s", bn_brick_name((enum bn_brick)b), bn_class_name(is));
    }
}

struct light {
    double r, g, b;
};

static double linear(uint8_t v)
{
    double c = v / 255.0;
    return c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
}
static struct light light_of(struct bn_colour c)
{
    return (struct light){linear(c.r), linear(c.g), linear(c.b)};
}

static double contrast(struct bn_colour a, struct bn_colour b)
{
    struct light x = light_of(a), y = light_of(b);
    double p = 0.2126 * x.r + 0.7152 * x.g + 0.0722 * x.b, q = 0.2126 * y.r + 0.7152 * y.g + 0.0722 * y.b;
    return (fmax(p, q) + 0.05) / (fmin(p, q) + 0.05);
}

TEST(contrast_is_as_defined)
{
    struct bn_colour black = {0, 0, 0}, white = {255, 255, 255}, grey = {0x76, 0x76, 0x76};
    assert_true(fabs(contrast(black, white) - 21) < 1e-9);
    assert_true(fabs(contrast(grey, white) - 4.54) < 0.01); /* the lightest grey that passes on white */
    struct bn_colour red = {255, 0, 0};
    assert_true(contrast(red, white) < 4.5);
}

TEST(text_can_be_read_on_every_colour)
{
    for (int p = 0; p < BN_PALETTES; p++)
        for (int dark = 0; dark < 2; dark++) {
            struct bn_colour ink = bn_palette_ink((enum bn_palette)p, dark);
            for (int c = 0; c < BN_CLASSES; c++)
                for (unsigned s = 0; s < BN_SHADES; s++) {
                    struct bn_colour on = bn_palette_shade((enum bn_palette)p, (enum bn_class)c, s, dark);
                    if (contrast(ink, on) < 4.5)
                        fail_msg("%s%s, %s, shade %u: %.2f", p == BN_PALETTE_SAFE ? "safe" : "bitnet",
                                 dark ? " dark" : "", bn_class_name((enum bn_class)c), s, contrast(ink, on));
                }
            for (int d = -BN_DELTA_STEPS; d <= BN_DELTA_STEPS; d++)
                if (contrast(ink, bn_palette_delta((enum bn_palette)p, d, dark)) < 4.5)
                    fail_msg("%s%s, difference %d: %.2f", p == BN_PALETTE_SAFE ? "safe" : "bitnet",
                             dark ? " dark" : "", d,
                             contrast(ink, bn_palette_delta((enum bn_palette)p, d, dark)));
        }
}

/* How eyes without one kind of cone see it, in linear light (Machado, Oliveira and Fernandes, 2009). */
static struct light seen_by(struct light c, int eyes)
{
    static const double M[3][9] = {
        {1, 0, 0, 0, 1, 0, 0, 0, 1},
        {0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998},
        {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881}};
    const double *m = M[eyes];
    struct light out = {m[0] * c.r + m[1] * c.g + m[2] * c.b, m[3] * c.r + m[4] * c.g + m[5] * c.b,
                        m[6] * c.r + m[7] * c.g + m[8] * c.b};
    return (struct light){fmax(0, out.r), fmax(0, out.g), fmax(0, out.b)};
}

/* Distance in Oklab (Ottosson, 2020), where 0.02 is about what can just be told apart. */
static double distance(struct light a, struct light b)
{
    double lab[2][3];
    struct light both[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        struct light c = both[i];
        double l = cbrt(0.4122214708 * c.r + 0.5363325363 * c.g + 0.0514459929 * c.b);
        double m = cbrt(0.2119034982 * c.r + 0.6806995451 * c.g + 0.1073969566 * c.b);
        double s = cbrt(0.0883024619 * c.r + 0.2817188376 * c.g + 0.6299787005 * c.b);
        lab[i][0] = 0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s;
        lab[i][1] = 1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s;
        lab[i][2] = 0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s;
    }
    return hypot(lab[0][0] - lab[1][0], hypot(lab[0][1] - lab[1][1], lab[0][2] - lab[1][2]));
}

/* The smallest distance between two classes for these eyes. */
static double nearest(enum bn_palette palette, bool dark, int eyes)
{
    double least = 9;
    for (int a = 0; a < BN_CLASSES; a++)
        for (int b = 0; b < a; b++)
            least = fmin(
                least, distance(seen_by(light_of(bn_palette_class(palette, (enum bn_class)a, dark)), eyes),
                                seen_by(light_of(bn_palette_class(palette, (enum bn_class)b, dark)), eyes)));
    return least;
}

TEST(classes_can_be_told_apart)
{
    for (int dark = 0; dark < 2; dark++) {
        if (nearest(BN_PALETTE_BITNET, dark, 0) < 0.05)
            fail_msg("bitnet%s: %.3f", dark ? " dark" : "", nearest(BN_PALETTE_BITNET, dark, 0));
        for (int eyes = 0; eyes < 3; eyes++)
            if (nearest(BN_PALETTE_SAFE, dark, eyes) < 0.05)
                fail_msg("safe%s, eyes %d: %.3f", dark ? " dark" : "", eyes,
                         nearest(BN_PALETTE_SAFE, dark, eyes));
    }
    /* The measure can fail: red and green of the other palette are near to each other for some. */
    assert_true(nearest(BN_PALETTE_BITNET, false, 2) < 0.05);
}

/* More and less, at equal strength, for all eyes. */
TEST(more_and_less_can_be_told_apart)
{
    for (int dark = 0; dark < 2; dark++)
        for (int size = 1; size <= BN_DELTA_STEPS; size++)
            for (int eyes = 0; eyes < 3; eyes++) {
                struct light more = light_of(bn_palette_delta(BN_PALETTE_SAFE, size, dark)),
                             less = light_of(bn_palette_delta(BN_PALETTE_SAFE, -size, dark));
                if (distance(seen_by(more, eyes), seen_by(less, eyes)) < 0.04)
                    fail_msg("dark %d, size %d", dark, size);
            }
    struct bn_colour red = bn_palette_delta(BN_PALETTE_BITNET, 5, false),
                     blue = bn_palette_delta(BN_PALETTE_BITNET, -5, false);
    assert_true(red.r > red.b + 80 && blue.b > blue.r + 80);
}

/* Shades are all used, and the same name has the same one. */
TEST(shades_follow_names)
{
    unsigned seen[BN_SHADES] = {0};
    for (int i = 0; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof name, "function_%d", i);
        struct bn_frame f = {name, "a.so", "", 0, BN_FRAME_CODE},
                        g = {name, "b.so", "x.c", 3, BN_FRAME_INLINED};
        assert_int_equal(bn_shade_of(&f), bn_shade_of(&g));
        seen[bn_shade_of(&f)]++;
    }
    for (unsigned s = 0; s < BN_SHADES; s++)
        assert_in_range(seen[s], 120, 280);
    struct bn_frame known = {"bn_ternary_gemv_avx2", "", "", 0, BN_FRAME_CODE};
    assert_int_equal(bn_shade_of(&known), 2); /* the same on every machine */
}
