/* SPDX-License-Identifier: MIT
 *
 * The tokenizer: known ids, round trips, special tokens, odd vocabularies.
 */
#include "tests/unit/engine/tokenizer_maker.h"

/* ---- the default model ---- */

TEST(test_default_model)
{
    struct model m = {0};
    struct bn_file_map text;
    struct bn_buf want = {.max = 1u << 16};
    open_model(&m, "fixtures/shakespeare-5m-i2_s.gguf", "bitnet-b1.58");
    must(bn_file_map_open(&text, "fixtures/validation.txt", false, NULL));
    must(bn_file_read("fixtures/validation-ids-256.txt", &want, NULL));

    struct bn_ids ids = encode(m.tok, (const char *)text.data, text.n_bytes, BN_TOKENIZE_BOS);
    assert_int_equal(ids.n, 19450); /* the count of the engines that measured this text */
    size_t n = 0;
    for (char *at = want.data; *at != '\0'; n++) {
        assert_int_equal(ids.data[n], strtol(at, &at, 10));
        if (*at != '\0') at++;
    }
    assert_int_equal(n, 256);
    bn_free(ids.data);

    assert_int_equal(bn_tokenizer_n_vocab(m.tok), 2048);
    assert_int_equal(bn_tokenizer_bos(m.tok), 2046);
    assert_int_equal(bn_tokenizer_eos(m.tok), 2047);
    assert_true(bn_token_is_end(m.tok, 2047));
    assert_false(bn_token_is_end(m.tok, 2046));
    assert_true(bn_token_is_control(m.tok, 2046));
    assert_string_equal(bn_template_name(bn_template_resolve(BN_TEMPLATE_AUTO, m.tok)), "raw");
    assert_round_trip(m.tok, (const char *)text.data, text.n_bytes);
    round_trips(m.tok);
    char hex[65];
    must(bn_tokenizer_digest(m.tok, hex, NULL));
    assert_string_equal(hex, "5c639fca73defbc235aa0c934690a3dd56c31742c221faf8edf57326836643b3");
    bn_buf_release(&want);
    bn_file_map_close(&text);
    close_model(&m);
}

TEST(test_gpt2_merges)
{
    struct maker m = maker_gpt2();
    uint32_t bot = maker_marks(&m);
    must(maker_open(&m, "bitnet-b1.58"));
    const bn_tokenizer *t = m.tok;
    assert_int_equal(bot, 276);
    assert_ids(t, "", 0, IDS(-1));
    assert_ids(t, "hello world", 0, IDS(259, 264));
    assert_ids(t, "hellx", 0, IDS(258, 'x'));
    assert_ids(t, "aaa", 0, IDS(265, 'a')); /* the leftmost pair first */
    assert_ids(t, "aaaaaaa", 0, IDS(266, 265, 'a'));
    assert_ids(t, "1234", 0, IDS(268, '4'));                        /* groups of three */
    assert_ids(t, "orld", 0, IDS(261, 262));                        /* rank "o r" before "r l" */
    assert_ids(t, "\xE4\xBD\xA0\xE4\xBD", 0, IDS(273, 0xE4, 0xBD)); /* no merging across what is not UTF-8 */
    assert_int_equal(bn_token_find(t, "hello", 5), 259);
    assert_int_equal(bn_token_find(t, " world", 6), 264);
    assert_int_equal(bn_token_find(t, "<|eot_id|>", 10), 280);
    assert_int_equal(bn_token_find(t, "\xE4", 1), 0xE4);
    assert_int_equal(bn_token_find(t, "nothing", 7), -1);
    assert_int_equal(bn_token_find(t, "", 0), -1);
    const char *bytes;
    assert_int_equal(bn_token_bytes(t, 264, &bytes), 6);
    assert_memory_equal(bytes, " world", 6);
    assert_int_equal(bn_token_bytes(t, -1, &bytes), 0);
    assert_int_equal(bn_token_bytes(t, 282, &bytes), 0);
    round_trips(t);
    maker_release(&m);
}

TEST(test_spm_merges)
{
    struct maker m = maker_spm();
    must(maker_open(&m, "bitnet"));
    const bn_tokenizer *t = m.tok;
    assert_true(t->words_split);
    assert_ids(t, "", 0, IDS(-1));
    assert_ids(t, "hello world", 0, IDS(272, 277));
    assert_ids(t, "hello world", BN_TOKENIZE_BOS, IDS(1, 272, 277));
    assert_ids(t, " hello", 0, IDS(259, 272));
    assert_ids(t, "aaaaa", 0, IDS(259, 279, 267));
    assert_ids(t, "éA", 0, IDS(259, 281, 3 + 'A'));
    assert_ids(t, "\xFF", 0, IDS(259, 3 + 0xFF));
    assert_ids(t, "▁", 0, IDS(259, 3 + 0xE2, 3 + 0x96, 3 + 0x81)); /* not a space */
    assert_ids(t, "</s>", BN_TOKENIZE_SPECIAL, IDS(2));
    assert_ids(t, "a</s>a", BN_TOKENIZE_SPECIAL, IDS(259, 267, 2, 259, 267));
    round_trips(t);
    char *text;
    size_t n;
    must(bn_detokenize(t, IDS(1, 272, 277, 2), 4, false, &text, &n, NULL));
    assert_string_equal(text, "hello world");
    bn_free(text);
    must(bn_detokenize(t, IDS(1, 272, 277, 2), 4, true, &text, &n, NULL));
    assert_string_equal(text, "<s>hello world</s>");
    bn_free(text);
    assert_true(bn_token_is_end(t, 2));
    assert_int_equal(bn_tokenizer_bos(t), 1);
    maker_release(&m);
}

/* Cutting a text into words must not change what comes out: once more with a token that forbids it. */
TEST(test_spm_words)
{
    struct maker cut = maker_spm(), whole = maker_spm();
    maker_token(&whole, "q▁q", BN_TOKEN_NORMAL, -100);
    must(maker_open(&cut, "bitnet"));
    must(maker_open(&whole, "bitnet"));
    assert_true(cut.tok->words_split);
    assert_false(whole.tok->words_split);
    uint32_t seed = 99;
    for (int round = 0; round < 300; round++) {
        char text[200];
        size_t n = next_random(&seed) % sizeof text;
        for (size_t i = 0; i < n; i++)
            text[i] = "hello world  aa"[next_random(&seed) % 15];
        struct bn_ids a = encode(cut.tok, text, n, 0), b = encode(whole.tok, text, n, 0);
        assert_int_equal(a.n, b.n);
        if (a.n > 0) assert_memory_equal(a.data, b.data, a.n * sizeof *a.data);
        bn_free(a.data);
        bn_free(b.data);
    }
    maker_release(&cut);
    maker_release(&whole);
}

/* A user-defined token is matched in the text, before the space is put in front, and never made by merging.
 */
TEST(test_spm_user)
{
    struct maker m = maker_spm();
    int32_t three = (int32_t)m.n_tokens;
    maker_token(&m, "▁▁▁", BN_TOKEN_USER, 0);
    must(maker_open(&m, "bitnet"));
    assert_ids(m.tok, "  a", 0, IDS(280, 259, 267));
    assert_ids(m.tok, "   a", 0, IDS(three, 267));
    assert_ids(m.tok, "a   a", 0, IDS(259, 267, three, 267));
    assert_int_equal(bn_token_find(m.tok, "   ", 3), three);
    round_trips(m.tok);
    maker_release(&m);
}

TEST(test_no_space_prefix)
{
    struct maker m = maker_spm();
    bn_gguf_put_bool(&m.w, "tokenizer.ggml.add_space_prefix", false);
    must(maker_open(&m, "llama"));
    assert_ids(m.tok, "a hello", 0, IDS(267, 272));
    struct bn_ids cut = encode(m.tok, "你", 2, 0); /* a character that ends after the text */
    assert_int_equal(cut.n, 2);
    assert_int_equal(cut.data[1], 3 + 0xBD);
    bn_free(cut.data);
    assert_ids(m.tok, " hello", 0, IDS(272));
    round_trips(m.tok);
    maker_release(&m);
}

TEST(test_special_tokens)
{
    struct maker m = maker_gpt2();
    uint32_t bot = maker_marks(&m), eot = bot + 4, user = bot + 5;
    maker_token(&m, "<|eot_id|><|eot", BN_TOKEN_CONTROL, 0); /* longer than the one it starts with */
    maker_token(&m, "<|im_end|>", BN_TOKEN_NORMAL, 0);       /* a converter's mistake */
    must(maker_open(&m, "llama"));
    const bn_tokenizer *t = m.tok;
    struct bn_ids plain = encode(t, "<|eot_id|>", 10, 0);
    assert_int_equal(plain.n, 10); /* without the flag, ten ordinary bytes */
    for (size_t i = 0; i < plain.n; i++)
        assert_false(bn_token_is_control(t, plain.data[i]));
    bn_free(plain.data);
    assert_ids(t, "<|eot_id|>", BN_TOKENIZE_SPECIAL, IDS((int32_t)eot));
    assert_ids(t, "a<|eot_id|><|eota", BN_TOKENIZE_SPECIAL, IDS('a', (int32_t)user + 1, 'a'));
    assert_ids(t, "<<|eot_id|>|", BN_TOKENIZE_SPECIAL, IDS('<', (int32_t)eot, '|'));
    assert_ids(t, "x@@user@@@@user", 0,
               IDS('x', (int32_t)user, '@', '@', 'u', 's', 'e', 'r')); /* user-defined ones always */
    assert_true(bn_token_is_control(t, (int32_t)user + 2));
    assert_true(bn_token_is_end(t, (int32_t)user + 2));
    assert_true(bn_token_is_end(t, (int32_t)eot));
    assert_false(bn_token_is_control(t, (int32_t)user));
    round_trips(t);
    char *text;
    size_t n;
    const int32_t ids[] = {(int32_t)bot, 259, (int32_t)user, (int32_t)eot};
    must(bn_detokenize(t, ids, 4, false, &text, &n, NULL));
    assert_string_equal(text, "hello@@user@@");
    bn_free(text);
    must(bn_detokenize(t, ids, 4, true, &text, &n, NULL));
    assert_string_equal(text, "<|begin_of_text|>hello@@user@@<|eot_id|>");
    bn_free(text);
    refused(bn_detokenize(t, IDS(1, 5000), 2, true, &text, &n, &err), BN_ERR_ARG);
    assert_null(text);
    maker_release(&m);
}

/* A user-defined token that a control token starts with: which of them is found depends on the flag. */
TEST(test_user_within_control)
{
    struct maker m = maker_gpt2();
    int32_t eot = (int32_t)maker_marks(&m) + 4, user = (int32_t)m.n_tokens;
    maker_token(&m, "<|eot", BN_TOKEN_USER, 0);
    must(maker_open(&m, "llama"));
    assert_ids(m.tok, "<|eot_id|>", 0, IDS(user, '_', 'i', 'd', '|', '>'));
    assert_ids(m.tok, "<|eot_id|>", BN_TOKENIZE_SPECIAL, IDS(eot));
    assert_ids(m.tok, "<|eot_i", BN_TOKENIZE_SPECIAL, IDS(user, '_', 'i'));
    assert_ids(m.tok, "<|end_header_id|>", 0,
               IDS('<', '|', 'e', 'n', 'd', '_', 256, 'a', 'd', 'e', 'r', '_', 'i', 'd', '|', '>'));
    round_trips(m.tok);
    maker_release(&m);
}

/* A merge whose result is a control token never happens. */
TEST(test_merge_to_control)
{
    struct maker m = maker_gpt2();
    maker_string(&m.merges, "z z", 3);
    m.n_merges++;
    maker_token(&m, "zz", BN_TOKEN_CONTROL, 0);
    must(maker_open(&m, "llama"));
    assert_ids(m.tok, "zz", 0, IDS('z', 'z'));
    maker_release(&m);
}

TEST(test_begin_and_end)
{
    for (int bos = -1; bos < 2; bos++) {
        struct maker m = maker_gpt2();
        uint32_t bot = maker_marks(&m);
        bn_gguf_put_str(&m.w, "tokenizer.ggml.pre", "gpt-2", 5);
        if (bos >= 0) bn_gguf_put_bool(&m.w, "tokenizer.ggml.add_bos_token", bos == 1);
        if (bos >= 0) bn_gguf_put_bool(&m.w, "tokenizer.ggml.add_eos_token", bos == 1);
        must(maker_open(&m, "llama"));
        assert_ids(m.tok, "hello", 0, IDS(259));
        if (bos == 1)
            assert_ids(m.tok, "hello", BN_TOKENIZE_BOS, IDS((int32_t)bot, 259, (int32_t)bot + 1));
        else
            assert_ids(m.tok, "hello", BN_TOKENIZE_BOS, IDS(259));
        maker_release(&m);
    }
    struct maker embedding =
        maker_gpt2(); /* a rule that adds nothing, and a file that asks for the end only */
    uint32_t first = maker_marks(&embedding);
    bn_gguf_put_str(&embedding.w, "tokenizer.ggml.pre", "qwen2", 5);
    bn_gguf_put_bool(&embedding.w, "tokenizer.ggml.add_eos_token", true);
    must(maker_open(&embedding, "qwen3"));
    assert_ids(embedding.tok, "hello", BN_TOKENIZE_BOS, IDS(259, (int32_t)first + 1));
    assert_ids(embedding.tok, "hello", 0, IDS(259));
    maker_release(&embedding);
    struct maker m = maker_gpt2(); /* llama-bpe puts it where no key says otherwise */
    uint32_t bot = maker_marks(&m);
    must(maker_open(&m, "bitnet-b1.58"));
    assert_ids(m.tok, "hello", BN_TOKENIZE_BOS, IDS((int32_t)bot, 259));
    maker_release(&m);
}

/* The rule follows from the architecture where the key is absent or says that the converter did not know. */
TEST(test_default_rule)
{
    static const struct {
        const char *arch, *pre, *rule;
    } CASES[] = {{"bitnet-b1.58", NULL, "llama-bpe"}, {"bitnet-25", "default", "llama-bpe"},
                 {"bitnet", NULL, "llama-bpe"},       {"llama", NULL, "gpt-2"},
                 {"llama", "default", "gpt-2"},       {"llama", "falcon3", "llama-bpe"},
                 {"bitnet-b1.58", "gpt-2", "gpt-2"}};
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        struct maker m = maker_gpt2();
        if (CASES[i].pre != NULL)
            bn_gguf_put_str(&m.w, "tokenizer.ggml.pre", CASES[i].pre, strlen(CASES[i].pre));
        must(maker_open(&m, CASES[i].arch));
        assert_string_equal(bn_splitter_rule(m.tok->splitter)->name, CASES[i].rule);
        assert_int_equal(m.tok->ignore_merges, strcmp(CASES[i].rule, "llama-bpe") == 0);
        maker_release(&m);
    }
}

/* With llama-bpe a piece that is a token is taken whole, even when merging would not get there. */
TEST(test_ignore_merges)
{
    for (int ignore = 0; ignore < 2; ignore++) {
        struct maker m = maker_gpt2();
        maker_token(&m, "zebra", BN_TOKEN_NORMAL, 0);
        must(maker_open(&m, ignore ? "bitnet" : "llama"));
        if (ignore)
            assert_ids(m.tok, "zebra", 0, IDS(276));
        else
            assert_ids(m.tok, "zebra", 0, IDS('z', 'e', 'b', 'r', 'a'));
        maker_release(&m);
    }
}

TEST(test_odd_tokens)
{
    struct maker m = maker_gpt2();
    maker_token(&m, "hello", BN_TOKEN_NORMAL, 0);     /* a duplicate: the lower id is used */
    maker_token(&m, "", BN_TOKEN_NORMAL, 0);          /* empty: never comes from text */
    maker_token(&m, "pad", BN_TOKEN_UNUSED, 0);       /* unused: neither */
    maker_token(&m, "two words", BN_TOKEN_NORMAL, 0); /* outside the alphabet */
    maker_token(&m, "<0x41>", BN_TOKEN_BYTE, 0);
    maker_token(&m, "gap", 0, 0); /* "undefined" is normal */
    maker_token(&m, "日本", BN_TOKEN_NORMAL, 0);
    must(maker_open(&m, "bitnet"));
    assert_true(m.tok->has_duplicates);
    assert_ids(m.tok, "hello", 0, IDS(259));
    assert_ids(m.tok, "pad", 0, IDS('p', 'a', 'd'));
    assert_ids(m.tok, "two words", 0, IDS('t', 'w', 'o', 263, 'd', 's'));
    assert_ids(m.tok, "A", 0, IDS('A'));
    assert_ids(m.tok, "gap", 0, IDS(281));
    assert_ids(m.tok, "日本", 0, IDS(0xE6, 0x97, 0xA5, 0xE6, 0x9C, 0xAC));
    char *text;
    size_t n;
    must(bn_detokenize(m.tok, IDS(276, 277, 278, 279, 280), 5, false, &text, &n, NULL));
    assert_string_equal(text, "hellopadtwo wordsA");
    bn_free(text);
    round_trips(m.tok);
    maker_release(&m);
}

/* Without token_type, the ids of special tokens say what is what. */
TEST(test_absent_types)
{
    struct maker m = maker_spm();
    m.no_types = true;
    must(maker_open(&m, "bitnet"));
    assert_true(bn_token_is_control(m.tok, 0));
    assert_true(bn_token_is_control(m.tok, 1));
    assert_true(bn_token_is_control(m.tok, 2));
    assert_ids(m.tok, "A</s>", 0, IDS(259, 3 + 'A', 3 + '<', 3 + '/', 3 + 's', 3 + '>'));
    round_trips(m.tok);
    maker_release(&m);
}

TEST(test_missing_byte)
{
    for (int unk = 0; unk < 2; unk++) {
        struct maker m = maker_new("gpt2");
        int32_t *ids;
        size_t n;
        maker_token(&m, "a", BN_TOKEN_NORMAL, 0);
        maker_token(&m, "<unk>", BN_TOKEN_UNKNOWN, 0);
        if (unk) bn_gguf_put_u32(&m.w, "tokenizer.ggml.unknown_token_id", 1);
        must(maker_open(&m, "llama"));
        if (unk) {
            assert_ids(m.tok, "aba", 0, IDS(0, 1, 0));
        } else {
            refused(bn_tokenize(m.tok, "aba", 3, 0, &ids, &n, &err), BN_ERR_UNSUPPORTED);
            assert_has(err.msg, "0x62");
            assert_null(ids);
        }
        maker_release(&m);
    }
}

TEST(test_no_tokenizer)
{
    int32_t *ids;
    char *text;
    size_t n;
    refused(bn_tokenize(NULL, "a", 1, 0, &ids, &n, &err), BN_ERR_ARG);
    refused(bn_detokenize(NULL, NULL, 0, false, &text, &n, NULL), BN_ERR_ARG);
    assert_int_equal(bn_tokenizer_n_vocab(NULL), 0);
    assert_int_equal(bn_tokenizer_bos(NULL), -1);
    assert_int_equal(bn_token_find(NULL, "a", 1), -1);
    assert_false(bn_token_is_end(NULL, 0));
    bn_tokenizer_close(NULL);
    struct bn_gguf empty = {0};
    bn_tokenizer *tok;
    refused(bn_tokenizer_open(&tok, &empty, "llama", &err), BN_ERR_NOT_FOUND);
    assert_int_equal(err.code, BN_OK);
}
