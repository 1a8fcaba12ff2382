/* SPDX-License-Identifier: MIT
 *
 * Generated models: the formats hold the same matrices, decoded here by the formulas of their description;
 * the numbers are those that every machine must get; the files are what the reader expects.
 */
#include "base/error.h"
#include "gguf/gguf.h"
#include "tests/unit/unit.h"
#include "tools/fixtures/fixtures.h"
#include "tools/fixtures/random.h"

#define ROOM (16u << 20)

static struct bn_sink memory_sink(struct bn_buf *buf)
{
    *buf = (struct bn_buf){.max = ROOM};
    return (struct bn_sink){.memory = buf, .fd = -1};
}

static void random_numbers_are_fixed(void **state)
{
    (void)state;
    struct bn_random r = {0};
    assert_true(bn_random_u64(&r) == UINT64_C(0xE220A8397B1DCDAF)); /* splitmix64's first for seed 0 */
    assert_true(bn_random_u64(&r) == UINT64_C(0x6E789E6AA1B965F4));
    struct bn_random a = bn_random_named(42, "a"), again = bn_random_named(42, "a");
    struct bn_random b = bn_random_named(42, "b"), c = bn_random_named(43, "a");
    uint64_t first = bn_random_u64(&a);
    assert_true(first == bn_random_u64(&again));
    assert_true(first != bn_random_u64(&b) && first != bn_random_u64(&c));
    for (int i = 0; i < 1000; i++) {
        assert_in_range(bn_random_below(&r, 7), 0, 6);
        int32_t bell = bn_random_bell(&r);
        assert_true(bell >= -BN_RANDOM_BELL_MAX && bell <= BN_RANDOM_BELL_MAX);
    }
}

static void integer_roots(void **state)
{
    (void)state;
    static const uint64_t X[] = {0,         1, 2, 3, 4, 99, 100, UINT64_C(1) << 40, (UINT64_C(1) << 40) - 1,
                                 UINT64_MAX};
    for (size_t i = 0; i < BN_ARRAY_LEN(X); i++) {
        uint64_t r = bn_isqrt(X[i]);
        assert_true(r * r <= X[i]);
        assert_true(r == UINT32_MAX || (r + 1) * (r + 1) > X[i]);
    }
}

/* The value of a finite binary16 in units of 2^-24. */
static int64_t fixed_of_half(uint16_t half)
{
    int64_t fraction = half & 0x3FF, exponent = half >> 10 & 31;
    int64_t value = exponent == 0 ? fraction : (fraction + 1024) << (exponent - 1);
    return half & 0x8000 ? -value : value;
}

static void halves(void **state)
{
    (void)state;
    for (unsigned h = 1; h < 0x7C00; h++) {
        int64_t value = fixed_of_half((uint16_t)h), next = fixed_of_half((uint16_t)(h + 1));
        assert_int_equal(bn_half_from_fixed(value, 24), h);
        assert_int_equal(bn_half_from_fixed(-value, 24), h | 0x8000);
        assert_int_equal(bn_half_from_fixed(value * 8, 27), h);
        if (h == 0x7BFF) continue; /* the next values are not finite */
        /* Four times finer: a quarter of the way rounds down, the middle to even, three quarters up. */
        int64_t step = next - value;
        assert_int_equal(bn_half_from_fixed(4 * value + step, 26), h);
        assert_int_equal(bn_half_from_fixed(4 * value + 2 * step, 26), h + (h & 1));
        assert_int_equal(bn_half_from_fixed(4 * value + 3 * step, 26), h + 1);
    }
    assert_int_equal(bn_half_from_fixed(0, 24), 0);
    assert_int_equal(bn_half_from_fixed(1, 20), 0x0010);
}

/* The j-th value of a row-major matrix as the format's description says, in units of its scale. */
static int decode(const unsigned char *data, uint32_t type, size_t j)
{
    if (type == BN_TYPE_I2_S) return (data[j / 128 * 32 + j % 32] >> (6 - 2 * (j % 128 / 32)) & 3) - 1;
    if (type == BN_TYPE_F16) {
        unsigned half = data[2 * j] | (unsigned)data[2 * j + 1] << 8;
        return half == 0 ? 0 : half & 0x8000 ? -1 : 1;
    }
    size_t in_block = j % 256;
    if (type == BN_TYPE_TQ2_0) {
        const unsigned char *block = data + j / 256 * 66;
        return (block[in_block / 128 * 32 + in_block % 32] >> (2 * (in_block % 128 / 32)) & 3) - 1;
    }
    const unsigned char *block = data + j / 256 * 54;
    size_t byte, digit;
    if (in_block < 160) {
        byte = in_block % 32;
        digit = in_block / 32;
    } else if (in_block < 240) {
        byte = 32 + (in_block - 160) % 16;
        digit = (in_block - 160) / 16;
    } else {
        byte = 48 + (in_block - 240) % 4;
        digit = (in_block - 240) / 4;
    }
    static const unsigned POWER[] = {1, 3, 9, 27, 81};
    return (int)((block[byte] * POWER[digit] & 0xFF) * 3 >> 8) - 1;
}

static unsigned scale_half(const unsigned char *data, uint32_t type, size_t j)
{
    const unsigned char *at = type == BN_TYPE_TQ2_0 ? data + j / 256 * 66 + 64 : data + j / 256 * 54 + 52;
    return at[0] | (unsigned)at[1] << 8;
}

static void formats_hold_the_same_matrix(void **state)
{
    (void)state;
    static const uint32_t TYPES[] = {BN_TYPE_I2_S, BN_TYPE_TQ2_0, BN_TYPE_TQ1_0, BN_TYPE_F16};
    const uint64_t ne[2] = {512, 9};
    const size_t n = 512 * 9;
    struct bn_buf bytes[4];
    size_t n_zero = 0, n_plus = 0;
    for (size_t t = 0; t < 4; t++) {
        struct bn_sink sink = memory_sink(&bytes[t]);
        uint64_t expected, all[4] = {ne[0], ne[1], 1, 1};
        assert_int_equal(
            bn_weights_ternary(&sink, 42, "blk.0.x", &(struct bn_ternary_form){.type = TYPES[t]}, ne, NULL),
            BN_OK);
        assert_true(bn_type_bytes(TYPES[t], all, &expected));
        assert_int_equal(bytes[t].len, expected);
    }
    float scale;
    memcpy(&scale, bytes[0].data + n / 4, 4);
    unsigned half = bn_half_from_fixed((int64_t)(scale * 0x1p24f), 24);
    assert_true((float)fixed_of_half((uint16_t)half) * 0x1p-24f == scale);
    for (size_t j = 0; j < n; j++) {
        int value = decode((const unsigned char *)bytes[0].data, TYPES[0], j);
        assert_in_range(value + 1, 0, 2);
        n_zero += value == 0;
        n_plus += value == 1;
        for (size_t t = 1; t < 4; t++) {
            const unsigned char *data = (const unsigned char *)bytes[t].data;
            assert_int_equal(decode(data, TYPES[t], j), value);
            if (t < 3) assert_int_equal(scale_half(data, TYPES[t], j), half);
        }
    }
    assert_in_range(n_zero * 100 / n, 38, 46);
    assert_in_range(n_plus * 100 / n, 25, 33);
    for (size_t t = 0; t < 4; t++)
        bn_buf_release(&bytes[t]);
}

static void large_matrices_come_in_pieces(void **state)
{
    (void)state;
    const uint64_t ne[2] = {2560, 640}; /* more than one chunk */
    struct bn_buf a, b;
    struct bn_sink sa = memory_sink(&a), sb = memory_sink(&b);
    assert_int_equal(
        bn_weights_ternary(&sa, 1, "x", &(struct bn_ternary_form){.type = BN_TYPE_I2_S}, ne, NULL), BN_OK);
    assert_int_equal(
        bn_weights_ternary(&sb, 1, "x", &(struct bn_ternary_form){.type = BN_TYPE_TQ2_0}, ne, NULL), BN_OK);
    assert_int_equal(a.len, 2560 * 640 / 4 + 32);
    for (size_t j = 0; j < 2560 * 640; j++)
        if (decode((const unsigned char *)a.data, BN_TYPE_I2_S, j) !=
            decode((const unsigned char *)b.data, BN_TYPE_TQ2_0, j))
            fail_msg("element %zu differs", j);
    bn_buf_release(&a);
    bn_buf_release(&b);
}

/* ---- one scale for each group ---- */

static unsigned half_at(const unsigned char *at)
{
    return at[0] | (unsigned)at[1] << 8;
}

/* Blocks of n weights: the scale comes first. */
static unsigned q2_scale(const unsigned char *data, size_t n, size_t g)
{
    return half_at(data + g * (n / 4 + 2));
}

static int q2_value(const unsigned char *data, size_t n, size_t j)
{
    const unsigned char *block = data + j / n * (n / 4 + 2);
    return (block[2 + j % n / 4] >> (2 * (j % n % 4)) & 3) - 1;
}

static int ptq1_value(const unsigned char *data, size_t j)
{
    static const unsigned POWER[] = {1, 3, 9, 27, 81};
    const unsigned char *block = data + j / 128 * 28;
    size_t i = j % 128, byte, digit;
    if (i < 80) {
        byte = i % 16;
        digit = i / 16;
    } else if (i < 120) {
        byte = 16 + (i - 80) % 8;
        digit = (i - 80) / 8;
    } else {
        byte = 24 + (i - 120) % 2;
        digit = (i - 120) / 2;
    }
    return (int)((block[byte] * POWER[digit] & 0xFF) * 3 >> 8) - 1;
}

static const unsigned char *grouped(struct bn_buf *buf, uint32_t type, uint32_t group, uint32_t hadamard)
{
    const struct bn_ternary_form form = {.type = type, .group = group, .n_zero = 97, .hadamard = hadamard};
    struct bn_sink sink = memory_sink(buf);
    assert_int_equal(bn_weights_ternary(&sink, 42, "blk.0.x", &form, (const uint64_t[2]){512, 24}, NULL),
                     BN_OK);
    return (const unsigned char *)buf->data;
}

static void groups_have_scales_of_their_own(void **state)
{
    (void)state;
    const size_t n = 512 * 24;
    struct bn_buf b[5];
    const unsigned char *q2 = grouped(&b[0], BN_TYPE_Q2_0, 64, 0),
                        *pq2 = grouped(&b[1], BN_TYPE_PQ2_0, 128, 0);
    const unsigned char *ptq1 = grouped(&b[2], BN_TYPE_PTQ1_0, 128, 0),
                        *tq2 = grouped(&b[3], BN_TYPE_TQ2_0, 256, 0);
    const unsigned char *f32 = grouped(&b[4], BN_TYPE_F32, 128, 0);
    size_t n_zero = 0;
    for (size_t j = 0; j < n; j++) {
        int value = q2_value(q2, 64, j);
        float x, scale = (float)fixed_of_half((uint16_t)q2_scale(pq2, 128, j / 128)) * 0x1p-24f;
        memcpy(&x, f32 + 4 * j, 4);
        n_zero += value == 0;
        assert_int_equal(q2_value(pq2, 128, j), value);
        assert_int_equal(ptq1_value(ptq1, j), value);
        assert_int_equal(decode(tq2, BN_TYPE_TQ2_0, j), value);
        assert_true(x == (float)value * scale);
        assert_int_equal(half_at(ptq1 + j / 128 * 28 + 26), q2_scale(pq2, 128, j / 128));
    }
    assert_in_range(n_zero * 100 / n, 36, 40); /* 97 of 256 */
    for (size_t g = 1; g < n / 64; g++)
        assert_true(q2_scale(q2, 64, g) != q2_scale(q2, 64, g - 1));
    for (size_t g = 1; g < n / 256; g++)
        assert_true(scale_half(tq2, BN_TYPE_TQ2_0, 256 * g) != scale_half(tq2, BN_TYPE_TQ2_0, 256 * g - 1));
    for (size_t i = 0; i < BN_ARRAY_LEN(b); i++)
        bn_buf_release(&b[i]);
}

/* s * (H w) by its definition: entry (r, c) of H is +1 or -1 by the parity of r & c, over sqrt(64). */
static void transformed_rows(void **state)
{
    (void)state;
    struct bn_buf a, b;
    const unsigned char *plain = grouped(&a, BN_TYPE_F32, 64, 0), *turned = grouped(&b, BN_TYPE_F32, 64, 64);
    int8_t signs[512];
    size_t n_minus = 0;
    bn_weights_signs(42, signs, 512);
    for (size_t i = 0; i < 512; i++)
        n_minus += signs[i] == -1;
    assert_in_range(n_minus, 200, 312);
    for (size_t j = 0; j < 512 * 24; j++) {
        float x, found;
        double sum = 0;
        for (size_t c = 0; c < 64; c++) {
            memcpy(&x, plain + 4 * (j / 64 * 64 + c), 4);
            sum += __builtin_parityll(j % 64 & c) ? -(double)x : (double)x;
        }
        memcpy(&found, turned + 4 * j, 4);
        assert_true(found == (float)(sum / 8 * signs[j % 512]));
    }
    bn_buf_release(&a);
    bn_buf_release(&b);
}

static void norms_and_embeddings(void **state)
{
    (void)state;
    struct bn_buf buf;
    struct bn_sink sink = memory_sink(&buf);
    float low = 2, high = 0;
    assert_int_equal(bn_weights_floats(&sink, 42, "n", 1000, BN_TYPE_F32, 1 << 18, 18, NULL), BN_OK);
    assert_int_equal(buf.len, 4000);
    for (size_t i = 0; i < 1000; i++) {
        float x;
        memcpy(&x, buf.data + 4 * i, 4);
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    assert_true(low >= 0.5f && low < 0.8f && high > 1.2f && high <= 1.5f);
    bn_buf_release(&buf);

    sink = memory_sink(&buf);
    int64_t sum = 0;
    double squares = 0;
    assert_int_equal(bn_weights_floats(&sink, 42, "e", 10000, BN_TYPE_F16, 0, 19, NULL), BN_OK);
    assert_int_equal(buf.len, 20000);
    for (size_t i = 0; i < 10000; i++) {
        uint16_t half;
        memcpy(&half, buf.data + 2 * i, 2);
        sum += fixed_of_half(half);
        squares += (double)fixed_of_half(half) * (double)fixed_of_half(half) * 0x1p-48;
    }
    assert_true(sum < 10000 * (INT64_C(1) << 14) && sum > -10000 * (INT64_C(1) << 14)); /* mean below 0.001 */
    assert_true(squares > 10000 * 0.070 * 0.070 && squares < 10000 * 0.074 * 0.074);
    bn_buf_release(&buf);
}

static void vocabularies(void **state)
{
    (void)state;
    struct bn_fixture_vocab a, b;
    assert_int_equal(bn_fixture_vocab_make(&a, 1000, 42, NULL), BN_OK);
    assert_int_equal(bn_fixture_vocab_make(&b, 1000, 42, NULL), BN_OK);
    assert_int_equal(a.n_tokens, 1000);
    assert_int_equal(a.n_merges, 1000 - 262);
    assert_int_equal(a.bos, 994);
    assert_int_equal(a.tokens.len, b.tokens.len);
    assert_memory_equal(a.tokens.data, b.tokens.data, a.tokens.len);
    /* Each merge makes the next token, and no text comes twice. */
    const unsigned char *token = (const unsigned char *)a.tokens.data;
    const unsigned char *merge = (const unsigned char *)a.merges.data;
    struct bn_str texts[1000];
    for (size_t i = 0; i < 1000; i++) {
        texts[i] = bn_gguf_next_str(&token);
        for (size_t k = 0; k < i; k++)
            assert_false(texts[k].len == texts[i].len &&
                         memcmp(texts[k].ptr, texts[i].ptr, texts[i].len) == 0);
        if (i < 256 || i >= 994) continue;
        struct bn_str m = bn_gguf_next_str(&merge);
        const char *space = memchr(m.ptr, ' ', m.len);
        assert_non_null(space);
        size_t left = (size_t)(space - m.ptr);
        assert_int_equal(m.len - 1, texts[i].len);
        assert_memory_equal(m.ptr, texts[i].ptr, left);
        assert_memory_equal(space + 1, texts[i].ptr + left, texts[i].len - left);
    }
    assert_true(bn_str_equal(texts[995], "<|end_of_text|>"));
    bn_fixture_vocab_release(&a);
    bn_fixture_vocab_release(&b);
    bn_error err = {0};
    assert_int_equal(bn_fixture_vocab_make(&a, 261, 42, &err), BN_ERR_ARG);
}

static void names(void **state)
{
    (void)state;
    struct bn_fixture_spec spec = {.size = bn_fixture_size_find("tiny"), .format = BN_TYPE_I2_S, .seed = 42};
    char name[128];
    bn_fixture_file_name(&spec, name, sizeof name);
    assert_string_equal(name, "tiny-bitnet-b1.58-i2_s-42.gguf");
    spec.n_vocab = 512;
    spec.arch = BN_FIXTURE_LLAMA;
    spec.tied = true;
    bn_fixture_file_name(&spec, name, sizeof name);
    assert_string_equal(name, "tiny-llama-i2_s-v512-tied-42.gguf");
    spec.arch = BN_FIXTURE_GEMMA3;
    spec.window = 16;
    spec.input_norms = true;
    bn_fixture_file_name(&spec, name, sizeof name);
    assert_string_equal(name, "tiny-gemma3-i2_s-v512-w16-embedding-42.gguf");
    assert_null(bn_fixture_size_find("huge"));
    spec =
        (struct bn_fixture_spec){.size = bn_fixture_size_find("nano"), .arch = BN_FIXTURE_QWEN3, .seed = 7};
    spec.tied = spec.yarn = spec.f16_embedding = true;
    spec.group = 128;
    spec.n_zero = 97;
    spec.head_width = 64;
    assert_true(bn_fixture_format_find("q2_0-g128", &spec));
    bn_fixture_file_name(&spec, name, sizeof name);
    assert_string_equal(name, "nano-qwen3-q2_0-g128-group128-z38-h64-yarn-f16embd-tied-7.gguf");
    /* What a Bonsai shape has by itself is not named. */
    spec = (struct bn_fixture_spec){
        .size = bn_fixture_size_find("bonsai-4b"), .arch = BN_FIXTURE_QWEN3, .seed = 42};
    spec.tied = spec.yarn = true;
    assert_true(bn_fixture_format_find("pq2_0", &spec));
    bn_fixture_file_name(&spec, name, sizeof name);
    assert_string_equal(name, "bonsai-4b-qwen3-pq2_0-42.gguf");
}

/* Every architecture: the reader opens it, the tensors that belong there are there, and it comes out twice.
 */
static void files(void **state)
{
    (void)state;
    for (unsigned arch = 0; arch < BN_FIXTURE_ARCH_COUNT; arch++) {
        bool maple = arch == BN_FIXTURE_MAPLE; /* experts need whole blocks of groups */
        struct bn_fixture_spec spec = {.size = bn_fixture_size_find(maple ? "duo" : "nano"),
                                       .arch = (enum bn_fixture_arch)arch,
                                       .format = maple ? BN_TYPE_TQ2_0 : BN_TYPE_I2_S,
                                       .seed = 7};
        struct bn_buf a, b;
        struct bn_sink sa = memory_sink(&a), sb = memory_sink(&b);
        struct bn_gguf gguf;
        bn_error err = {0};
        assert_int_equal(bn_fixture_generate(&spec, &sa, &err), BN_OK);
        assert_int_equal(bn_fixture_generate(&spec, &sb, &err), BN_OK);
        assert_int_equal(a.len, b.len);
        assert_memory_equal(a.data, b.data, a.len);
        assert_int_equal(bn_gguf_open(&gguf, a.data, a.len, &err), BN_OK);
        bool bitnet = arch == BN_FIXTURE_BITNET || arch == BN_FIXTURE_BITNET_B158;
        bool gemma = arch == BN_FIXTURE_GEMMA3;
        bool heads = gemma || arch == BN_FIXTURE_QWEN3 || maple;
        assert_int_equal(bn_gguf_find_tensor(&gguf, "blk.0.attn_sub_norm.weight") != NULL, bitnet);
        assert_int_equal(bn_gguf_find_tensor(&gguf, "blk.0.attn_q_norm.weight") != NULL, heads);
        assert_int_equal(bn_gguf_find_tensor(&gguf, "blk.0.post_ffw_norm.weight") != NULL, gemma);
        assert_null(bn_gguf_find_tensor(&gguf, "blk.0.attn_q_norm_in.weight"));
        assert_int_equal(bn_gguf_find_tensor(&gguf, "output.weight") != NULL, !bitnet && !gemma);
        assert_non_null(bn_gguf_find_tensor(&gguf, "token_embd.weight"));
        const struct bn_gguf_tensor *last = &gguf.tensors[gguf.n_tensors - 1];
        assert_int_equal(last->offset + last->n_bytes, a.len);
        bn_gguf_close(&gguf);
        bn_buf_release(&a);
        bn_buf_release(&b);
    }
}

static void impossible_formats(void **state)
{
    (void)state;
    struct bn_fixture_spec spec = {.size = bn_fixture_size_find("nano"), .format = BN_TYPE_TQ2_0};
    struct bn_buf a;
    struct bn_sink sink = memory_sink(&a);
    bn_error err = {0};
    assert_int_equal(bn_fixture_generate(&spec, &sink, &err), BN_ERR_ARG);
    assert_int_equal(a.len, 0);
}

static void options_that_exclude_each_other(void **state)
{
    (void)state;
    const struct bn_fixture_spec good = {.size = bn_fixture_size_find("nano"),
                                         .arch = BN_FIXTURE_QWEN3,
                                         .format = BN_TYPE_PQ2_0,
                                         .hadamard = 64};
    struct bn_fixture_spec bad[7] = {good, good, good, good, good, good, good}, tied = good;
    assert_int_equal(bn_fixture_check(&good, NULL), BN_OK);
    bad[0].group = 64; /* smaller than the block */
    bad[1].hadamard = 128;
    bad[2].arch = BN_FIXTURE_GEMMA3;
    bad[3].tokenizer = "x";
    bad[4].head_width = 63;
    bad[5].period = 2;
    bad[6].long_rope = true;
    tied.tied = true; /* a rotated embedding can be the head */
    assert_int_equal(bn_fixture_check(&tied, NULL), BN_OK);
    for (size_t i = 0; i < BN_ARRAY_LEN(bad); i++)
        assert_int_equal(bn_fixture_check(&bad[i], NULL), BN_ERR_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_numbers_are_fixed),
        cmocka_unit_test(integer_roots),
        cmocka_unit_test(halves),
        cmocka_unit_test(formats_hold_the_same_matrix),
        cmocka_unit_test(large_matrices_come_in_pieces),
        cmocka_unit_test(norms_and_embeddings),
        cmocka_unit_test(vocabularies),
        cmocka_unit_test(names),
        cmocka_unit_test(files),
        cmocka_unit_test(impossible_formats),
        cmocka_unit_test(groups_have_scales_of_their_own),
        cmocka_unit_test(transformed_rows),
        cmocka_unit_test(options_that_exclude_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
