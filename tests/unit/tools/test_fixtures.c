/* SPDX-License-Identifier: MIT
 *
 * Generated models: the numbers are those that every machine must get; the files are what the reader expects. That
 * formats hold the same matrices is tested by bn-convert, which turns one into the other.
 */
#include "gguf/gguf.h"
#include "tests/unit/status.h"
#include "tools/fixtures/fixtures.h"

#define ROOM (16u << 20)

static struct bn_sink memory_sink(struct bn_buf *buf)
{
    *buf = (struct bn_buf){.max = ROOM};
    return (struct bn_sink){.memory = buf, .fd = -1};
}

TEST(random_numbers_are_fixed)
{
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

/* The value of a finite binary16 in units of 2^-24. */
static int64_t fixed_of_half(uint16_t half)
{
    int64_t fraction = half & 0x3FF, exponent = half >> 10 & 31;
    int64_t value = exponent == 0 ? fraction : (fraction + 1024) << (exponent - 1);
    return half & 0x8000 ? -value : value;
}

TEST(halves)
{
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

static const unsigned char *grouped(struct bn_buf *buf, uint32_t type, uint32_t group, uint32_t hadamard)
{
    const struct bn_ternary_form form = {.type = type, .group = group, .n_zero = 97, .hadamard = hadamard};
    struct bn_sink sink = memory_sink(buf);
    must(bn_weights_ternary(&sink, 42, "blk.0.x", &form, (const uint64_t[2]){512, 24}, NULL));
    return (const unsigned char *)buf->data;
}

/* s * (H w) by its definition: entry (r, c) of H is +1 or -1 by the parity of r & c, over sqrt(64). */
TEST(transformed_rows)
{
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

TEST(vocabularies)
{
    struct bn_fixture_vocab a, b;
    must(bn_fixture_vocab_make(&a, false, 1000, 42, NULL));
    must(bn_fixture_vocab_make(&b, false, 1000, 42, NULL));
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
    refused(bn_fixture_vocab_make(&a, false, 261, 42, &err), BN_ERR_ARG);
}

TEST(names)
{
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
TEST(files)
{
    for (unsigned arch = 0; arch < BN_FIXTURE_ARCH_COUNT; arch++) {
        bool maple = arch == BN_FIXTURE_MAPLE; /* experts need whole blocks of groups */
        struct bn_fixture_spec spec = {.size = bn_fixture_size_find(maple ? "duo" : "nano"),
                                       .arch = (enum bn_fixture_arch)arch,
                                       .format = maple ? BN_TYPE_TQ2_0 : BN_TYPE_I2_S,
                                       .seed = 7};
        struct bn_buf a, b;
        struct bn_sink sa = memory_sink(&a), sb = memory_sink(&b);
        struct bn_gguf gguf;
        must(bn_fixture_generate(&spec, &sa, &err));
        must(bn_fixture_generate(&spec, &sb, &err));
        assert_int_equal(a.len, b.len);
        assert_memory_equal(a.data, b.data, a.len);
        must(bn_gguf_open(&gguf, a.data, a.len, &err));
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

TEST(impossible_formats)
{
    struct bn_fixture_spec spec = {.size = bn_fixture_size_find("nano"), .format = BN_TYPE_TQ2_0};
    struct bn_buf a;
    struct bn_sink sink = memory_sink(&a);
    refused(bn_fixture_generate(&spec, &sink, &err), BN_ERR_ARG);
    assert_int_equal(a.len, 0);
}

TEST(options_that_exclude_each_other)
{
    const struct bn_fixture_spec good = {.size = bn_fixture_size_find("nano"),
                                         .arch = BN_FIXTURE_QWEN3,
                                         .format = BN_TYPE_PQ2_0,
                                         .hadamard = 64};
    struct bn_fixture_spec bad[7] = {good, good, good, good, good, good, good}, tied = good;
    must(bn_fixture_check(&good, NULL));
    bad[0].group = 64; /* smaller than the block */
    bad[1].hadamard = 128;
    bad[2].arch = BN_FIXTURE_GEMMA3;
    bad[3].tokenizer = "x";
    bad[4].head_width = 63;
    bad[5].period = 2;
    bad[6].long_rope = true;
    tied.tied = true; /* a rotated embedding can be the head */
    must(bn_fixture_check(&tied, NULL));
    for (size_t i = 0; i < BN_ARRAY_LEN(bad); i++)
        refused(bn_fixture_check(&bad[i], NULL), BN_ERR_ARG);
}
