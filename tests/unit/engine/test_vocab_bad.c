/* SPDX-License-Identifier: MIT
 *
 * Vocabularies that have to be refused: each fault is planted into one that opens, and the status, the key
 * and the place in the message are checked.
 */
#include "tests/unit/status.h"
#include "vocab_maker.h"

/* Opens, expects the status with the key in where or msg, an offset inside the file where one is given, and
 * nothing left behind. */
static void refuse(struct maker *m, bn_status want, const char *key, const char *what)
{
    assert_int_equal(maker_open(m, "bitnet-b1.58"), want);
    assert_null(m->tok);
    assert_int_equal(m->err.code, want);
    assert_true(strstr(m->err.where, key) != NULL || strstr(m->err.msg, key) != NULL);
    assert_has(m->err.msg, what);
    if (m->err.where[0] != '\0') assert_true(m->err.offset < m->file.len);
    maker_release(m);
}

static void put_merge(struct maker *m, const char *text)
{
    maker_string(&m->merges, text, strlen(text));
    m->n_merges++;
}

TEST(test_control)
{
    struct maker gpt2 = maker_gpt2(), spm = maker_spm();
    must(maker_open(&gpt2, "bitnet"));
    must(maker_open(&spm, "bitnet"));
    maker_release(&gpt2);
    maker_release(&spm);
}

TEST(test_kind)
{
    struct maker m = maker_gpt2();
    m.model = "rwkv\x1b[2J";
    refuse(&m, BN_ERR_UNSUPPORTED, "tokenizer.ggml.model", "'rwkv\\x1B[2J'");
    m = maker_gpt2();
    bn_gguf_put_str(&m.w, "tokenizer.ggml.pre", "qwen", 4);
    refuse(&m, BN_ERR_UNSUPPORTED, "tokenizer.ggml.pre", "'qwen'");
    static const char *const KNOWN[] = {"llama-bpe", "falcon3",  "falcon-h1", "qwen2", "qwen35",
                                        "minicpm5",  "falcon_e", "gpt-2",     "olmo"};
    for (size_t i = 0; i < BN_ARRAY_LEN(KNOWN);
         i++) { /* the hint names every rule, and each of these opens */
        m = maker_gpt2();
        bn_gguf_put_str(&m.w, "tokenizer.ggml.pre", KNOWN[i], strlen(KNOWN[i]));
        must(maker_open(&m, "llama"));
        maker_release(&m);
        m = maker_gpt2();
        bn_gguf_put_str(&m.w, "tokenizer.ggml.pre", "no-such-rule", 12);
        refused(maker_open(&m, "llama"), BN_ERR_UNSUPPORTED);
        assert_has(m.err.hint, KNOWN[i]);
        maker_release(&m);
    }
    m = maker_gpt2();
    bn_gguf_put_u32(&m.w, "tokenizer.ggml.pre", 1);
    refuse(&m, BN_ERR_FORMAT, "tokenizer.ggml.pre", "");
    m = maker_new("gpt2");
    refuse(&m, BN_ERR_FORMAT, "tokenizer.ggml.tokens", "0 tokens");
}

TEST(test_absent_arrays)
{
    struct maker m = maker_gpt2();
    m.no_merges = true;
    refuse(&m, BN_ERR_FORMAT, "tokenizer.ggml.merges", "");
    m = maker_spm();
    m.no_scores = true;
    refuse(&m, BN_ERR_FORMAT, "tokenizer.ggml.scores", "");
}

TEST(test_parallel_arrays)
{
    for (int kind = 0; kind < 2; kind++) {
        struct maker m = kind == 0 ? maker_gpt2() : maker_spm();
        maker_score(&m, 0);
        refuse(&m, BN_ERR_FORMAT, "tokenizer.ggml.scores", "elements for");
        m = kind == 0 ? maker_gpt2() : maker_spm();
        maker_type(&m, 1);
        refuse(&m, BN_ERR_FORMAT, "tokenizer.ggml.token_type", "elements for");
        m = kind == 0 ? maker_gpt2() : maker_spm();
        m.n_types = 1;
        m.types.len = 4;
        refuse(&m, BN_ERR_FORMAT, "tokenizer.ggml.token_type", "1 elements for");
        m = kind == 0 ? maker_gpt2() : maker_spm(); /* another element type */
        m.no_scores = true;
        bn_gguf_put_array(&m.w, "tokenizer.ggml.scores", BN_GGUF_U8, m.n_tokens);
        bn_buf_append(&m.w.kv, m.tokens.data, m.n_tokens);
        refuse(&m, BN_ERR_FORMAT, "tokenizer.ggml.scores", "");
        m = kind == 0 ? maker_gpt2() : maker_spm();
        m.no_types = true;
        bn_gguf_put_array(&m.w, "tokenizer.ggml.token_type", BN_GGUF_U32, m.n_types);
        bn_buf_append(&m.w.kv, m.types.data, m.types.len);
        refuse(&m, BN_ERR_FORMAT, "tokenizer.ggml.token_type", "");
    }
}

TEST(test_special_ids)
{
    static const char *const KEYS[] = {"bos",     "eos",       "unknown", "eot", "eom",
                                       "padding", "seperator", "mask",    "cls"};
    static const uint32_t VALUES[] = {276, 0x80000000u, 0xFFFFFFFFu};
    for (size_t i = 0; i < BN_ARRAY_LEN(KEYS); i++)
        for (size_t k = 0; k < BN_ARRAY_LEN(VALUES); k++) {
            char key[64];
            struct maker m = maker_gpt2();
            assert_int_equal(m.n_tokens, 276);
            snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", KEYS[i]);
            bn_gguf_put_u32(&m.w, key, VALUES[k]);
            refuse(&m, BN_ERR_FORMAT, key, "outside the vocabulary");
        }
    struct maker m = maker_gpt2();
    bn_gguf_put_str(&m.w, "tokenizer.ggml.bos_token_id", "1", 1);
    refuse(&m, BN_ERR_FORMAT, "tokenizer.ggml.bos_token_id", "");
}

TEST(test_byte_tokens)
{
    static const char *const TEXTS[] = {"<0x-1>", "<0xZZ>", "<0x100>", "<0x1>", "<0x>",
                                        "<0x 1>", "0x41",   "",        "<0X41>"};
    for (size_t i = 0; i < BN_ARRAY_LEN(TEXTS); i++)
        for (int kind = 0; kind < 2; kind++) {
            struct maker m = kind == 0 ? maker_gpt2() : maker_spm();
            maker_token(&m, TEXTS[i], BN_TOKEN_BYTE, 0);
            char element[32];
            snprintf(element, sizeof element, "element %zu ", m.n_tokens - 1);
            refuse(&m, BN_ERR_FORMAT, "tokenizer.ggml.tokens", element);
        }
}

TEST(test_types)
{
    static const uint32_t TYPES[] = {7, 0x80000000u, 0xFFFFFFFFu, 256 + 1};
    for (size_t i = 0; i < BN_ARRAY_LEN(TYPES); i++) {
        struct maker m = maker_gpt2();
        maker_token(&m, "q", TYPES[i], 0);
        refuse(&m, BN_ERR_FORMAT, "tokenizer.ggml.token_type", "element 276 ");
    }
}

TEST(test_merges)
{
    static const struct {
        const char *text, *what;
    } CASES[] = {{"ab", "two tokens"},        {"", "two tokens"},       {" ", "two tokens"},
                 {" a", "two tokens"},        {"a ", "two tokens"},     {"a b c", "two tokens"},
                 {"nope l", "its left part"}, {"l nope", "its right"},  {"q q", "its result"},
                 {"\x01 a", "two tokens"},    {"\xC3 a", "two tokens"}, {"\xC6\x80 a", "two tokens"}};
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        struct maker m = maker_gpt2();
        put_merge(&m, CASES[i].text);
        refuse(&m, BN_ERR_FORMAT, "tokenizer.ggml.merges", CASES[i].what);
        m = maker_gpt2();
        put_merge(&m, CASES[i].text);
        refuse(&m, BN_ERR_FORMAT, "tokenizer.ggml.merges", "element 20");
    }
    struct maker m = maker_gpt2(); /* far longer than any token */
    char text[2000];
    memset(text, 'a', sizeof text);
    text[1000] = ' ';
    text[1999] = '\0';
    put_merge(&m, text);
    refuse(&m, BN_ERR_FORMAT, "tokenizer.ggml.merges", "element 20");
}

/* A repeated merge is harmless, and the pair keeps its first rank. */
TEST(test_repeated_merges)
{
    struct maker m = maker_gpt2();
    maker_merge(&m, "e", "x");
    for (int i = 0; i < 100; i++)
        put_merge(&m, "h e");
    struct bn_ids ids = {0};
    must(maker_open(&m, "bitnet"));
    must(bn_tokenize(m.tok, "hex", 3, 0, &ids.data, &ids.n, NULL));
    assert_int_equal(ids.n, 2);
    assert_int_equal(ids.data[0], 256);
    bn_free(ids.data);
    maker_release(&m);
}

TEST(test_scores)
{
    static const uint32_t BITS[] = {0x7FC00000, 0x7F800000, 0xFF800000};
    for (size_t i = 0; i < BN_ARRAY_LEN(BITS); i++) {
        float score;
        struct maker m = maker_spm();
        memcpy(&score, &BITS[i], sizeof score);
        maker_token(&m, "q", BN_TOKEN_NORMAL, score);
        refuse(&m, BN_ERR_FORMAT, "tokenizer.ggml.scores", "not finite");
    }
}

/* The highest score wins, also among negative, huge and zero ones. */
TEST(test_score_order)
{
    static const float SCORES[] = {3e38f, 1e10f, 1.0f, 1e-30f, 0.0f, -1e-30f, -1.0f, -1e10f, -3e38f};
    for (size_t i = 0; i < BN_ARRAY_LEN(SCORES); i++)
        for (size_t k = 0; k < BN_ARRAY_LEN(SCORES); k++) {
            struct maker m = maker_spm();
            int32_t left = (int32_t)m.n_tokens;
            struct bn_ids ids = {0};
            maker_token(&m, "xy", BN_TOKEN_NORMAL, SCORES[i]);
            maker_token(&m, "yz", BN_TOKEN_NORMAL, SCORES[k]);
            must(maker_open(&m, "bitnet"));
            must(bn_tokenize(m.tok, "xyz", 3, 0, &ids.data, &ids.n, NULL));
            assert_int_equal(ids.n, 3); /* the space in front */
            assert_int_equal(ids.data[i <= k ? 1 : 2], i <= k ? left : left + 1);
            bn_free(ids.data);
            maker_release(&m);
        }
}

TEST(test_flags)
{
    static const char *const KEYS[] = {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token",
                                       "tokenizer.ggml.add_space_prefix", "tokenizer.chat_template"};
    for (size_t i = 0; i < BN_ARRAY_LEN(KEYS); i++) {
        struct maker m = maker_spm();
        bn_gguf_put_u32(&m.w, KEYS[i], 1);
        refuse(&m, BN_ERR_FORMAT, KEYS[i], "");
    }
}
