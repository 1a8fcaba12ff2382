/* SPDX-License-Identifier: MIT
 *
 * The tokenizer: known ids, round trips, special tokens, streaming, work compared with length, and with
 * BN_TEST_DATA the LLaMA 3 and LLaMA 2 vocabularies. Bad vocabularies are in test_vocab_bad.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/utf8.h"
#include "vocab_maker.h"

#define N_BIG 10000000u

/* ---- helpers ---- */

struct model {
    struct bn_file_map map;
    struct bn_gguf gguf;
    bn_tokenizer *tok;
};

static void open_model(struct model *m, const char *path, const char *arch)
{
    bn_error err = {0};
    assert_int_equal(bn_file_map_open(&m->map, path, false, &err), BN_OK);
    assert_int_equal(bn_gguf_open(&m->gguf, m->map.data, m->map.n_bytes, &err), BN_OK);
    assert_int_equal(bn_tokenizer_open(&m->tok, &m->gguf, arch, &err), BN_OK);
}

static void close_model(struct model *m)
{
    bn_tokenizer_close(m->tok);
    bn_gguf_close(&m->gguf);
    bn_file_map_close(&m->map);
}

static struct bn_ids encode(const bn_tokenizer *tok, const char *text, size_t n, unsigned flags)
{
    struct bn_ids ids = {0};
    bn_error err = {0};
    assert_int_equal(bn_tokenize(tok, text, n, flags, &ids.data, &ids.n, &err), BN_OK);
    return ids;
}

/* want ends with -1. */
static void assert_ids(const bn_tokenizer *tok, const char *text, unsigned flags, const int32_t *want)
{
    struct bn_ids ids = encode(tok, text, strlen(text), flags);
    size_t n = 0;
    while (want[n] >= 0)
        n++;
    assert_int_equal(ids.n, n);
    if (n > 0) assert_memory_equal(ids.data, want, n * sizeof *want);
    bn_free(ids.data);
}
#define IDS(...) ((const int32_t[]){__VA_ARGS__, -1})

static void assert_round_trip(const bn_tokenizer *tok, const char *text, size_t n)
{
    for (unsigned flags = 0; flags < 4; flags++) {
        struct bn_ids ids = encode(tok, text, n, flags);
        /* The marks that the flag put around are not part of the text. */
        bool front = (flags & BN_TOKENIZE_BOS) && tok->add_bos && tok->bos >= 0;
        char *back;
        size_t n_back;
        assert_int_equal(bn_detokenize(tok, ids.data + front, ids.n - front, true, &back, &n_back, NULL),
                         BN_OK);
        assert_int_equal(n_back, n);
        if (n > 0) assert_memory_equal(back, text, n);
        bn_free(back);
        bn_free(ids.data);
    }
}

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Random bytes, and random choices of what tokenizers stumble over. */
static void round_trips(const bn_tokenizer *tok)
{
    static const char *const BITS[] = {" ",        "  ",   "hello", " world", "<|eot_id|>", "<|eot",
                                       "@@user@@", "aaaa", "\n",    "12",     "é",          "你",
                                       "\xE4",     "\xBD", "\x80",  "</s>",   "<0x41>",     "😀"};
    uint32_t seed = 12345;
    char text[400];
    assert_round_trip(tok, "", 0);
    for (int round = 0; round < 400; round++) {
        size_t n = 0, want = next_random(&seed) % 200;
        while (n < want) {
            const char *bit = BITS[next_random(&seed) % BN_ARRAY_LEN(BITS)];
            if (round % 2 == 0) {
                text[n++] = (char)next_random(&seed);
            } else {
                memcpy(text + n, bit, strlen(bit));
                n += strlen(bit);
            }
        }
        text[n] = '\0';
        assert_round_trip(tok, text, n);
    }
}

/* Every code point in order, surrogates left out. */
static struct bn_buf all_code_points(void)
{
    struct bn_buf text = {.max = 8u << 20};
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c == 0xD800) c = 0xE000;
        char b[4] = {(char)(0xF0 | c >> 18), (char)(0x80 | (c >> 12 & 63)), (char)(0x80 | (c >> 6 & 63)),
                     (char)(0x80 | (c & 63))};
        unsigned skip = c < 0x80 ? 3 : c < 0x800 ? 2 : c < 0x10000 ? 1 : 0;
        if (skip == 3) b[3] = (char)c;
        if (skip == 2) b[2] = (char)(0xC0 | c >> 6);
        if (skip == 1) b[1] = (char)(0xE0 | c >> 12);
        bn_buf_append(&text, b + skip, 4 - skip);
    }
    return text;
}

/* ---- the default model ---- */

static void test_default_model(void **state)
{
    (void)state;
    struct model m = {0};
    struct bn_file_map text;
    struct bn_buf want = {.max = 1u << 16};
    open_model(&m, "fixtures/shakespeare-5m-i2_s.gguf", "bitnet-b1.58");
    assert_int_equal(bn_file_map_open(&text, "fixtures/validation.txt", false, NULL), BN_OK);
    assert_int_equal(bn_file_read("fixtures/validation-ids-256.txt", &want, NULL), BN_OK);

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
    assert_int_equal(bn_tokenizer_digest(m.tok, hex, NULL), BN_OK);
    assert_string_equal(hex, "5c639fca73defbc235aa0c934690a3dd56c31742c221faf8edf57326836643b3");
    bn_buf_release(&want);
    bn_file_map_close(&text);
    close_model(&m);
}

/* ---- small vocabularies ---- */

static void test_gpt2_merges(void **state)
{
    (void)state;
    struct maker m = maker_gpt2();
    uint32_t bot = maker_marks(&m);
    assert_int_equal(maker_open(&m, "bitnet-b1.58"), BN_OK);
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

static void test_spm_merges(void **state)
{
    (void)state;
    struct maker m = maker_spm();
    assert_int_equal(maker_open(&m, "bitnet"), BN_OK);
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
    assert_int_equal(bn_detokenize(t, IDS(1, 272, 277, 2), 4, false, &text, &n, NULL), BN_OK);
    assert_string_equal(text, "hello world");
    bn_free(text);
    assert_int_equal(bn_detokenize(t, IDS(1, 272, 277, 2), 4, true, &text, &n, NULL), BN_OK);
    assert_string_equal(text, "<s>hello world</s>");
    bn_free(text);
    assert_true(bn_token_is_end(t, 2));
    assert_int_equal(bn_tokenizer_bos(t), 1);
    maker_release(&m);
}

/* Cutting a text into words must not change what comes out: once more with a token that forbids it. */
static void test_spm_words(void **state)
{
    (void)state;
    struct maker cut = maker_spm(), whole = maker_spm();
    maker_token(&whole, "q▁q", BN_TOKEN_NORMAL, -100);
    assert_int_equal(maker_open(&cut, "bitnet"), BN_OK);
    assert_int_equal(maker_open(&whole, "bitnet"), BN_OK);
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
static void test_spm_user(void **state)
{
    (void)state;
    struct maker m = maker_spm();
    int32_t three = (int32_t)m.n_tokens;
    maker_token(&m, "▁▁▁", BN_TOKEN_USER, 0);
    assert_int_equal(maker_open(&m, "bitnet"), BN_OK);
    assert_ids(m.tok, "  a", 0, IDS(280, 259, 267));
    assert_ids(m.tok, "   a", 0, IDS(three, 267));
    assert_ids(m.tok, "a   a", 0, IDS(259, 267, three, 267));
    assert_int_equal(bn_token_find(m.tok, "   ", 3), three);
    round_trips(m.tok);
    maker_release(&m);
}

static void test_no_space_prefix(void **state)
{
    (void)state;
    struct maker m = maker_spm();
    bn_gguf_put_bool(&m.w, "tokenizer.ggml.add_space_prefix", false);
    assert_int_equal(maker_open(&m, "llama"), BN_OK);
    assert_ids(m.tok, "a hello", 0, IDS(267, 272));
    struct bn_ids cut = encode(m.tok, "你", 2, 0); /* a character that ends after the text */
    assert_int_equal(cut.n, 2);
    assert_int_equal(cut.data[1], 3 + 0xBD);
    bn_free(cut.data);
    assert_ids(m.tok, " hello", 0, IDS(272));
    round_trips(m.tok);
    maker_release(&m);
}

static void test_special_tokens(void **state)
{
    (void)state;
    struct maker m = maker_gpt2();
    uint32_t bot = maker_marks(&m), eot = bot + 4, user = bot + 5;
    maker_token(&m, "<|eot_id|><|eot", BN_TOKEN_CONTROL, 0); /* longer than the one it starts with */
    maker_token(&m, "<|im_end|>", BN_TOKEN_NORMAL, 0);       /* a converter's mistake */
    assert_int_equal(maker_open(&m, "llama"), BN_OK);
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
    assert_int_equal(bn_detokenize(t, ids, 4, false, &text, &n, NULL), BN_OK);
    assert_string_equal(text, "hello@@user@@");
    bn_free(text);
    assert_int_equal(bn_detokenize(t, ids, 4, true, &text, &n, NULL), BN_OK);
    assert_string_equal(text, "<|begin_of_text|>hello@@user@@<|eot_id|>");
    bn_free(text);
    bn_error err = {0};
    assert_int_equal(bn_detokenize(t, IDS(1, 5000), 2, true, &text, &n, &err), BN_ERR_ARG);
    assert_null(text);
    maker_release(&m);
}

/* A user-defined token that a control token starts with: which of them is found depends on the flag. */
static void test_user_within_control(void **state)
{
    (void)state;
    struct maker m = maker_gpt2();
    int32_t eot = (int32_t)maker_marks(&m) + 4, user = (int32_t)m.n_tokens;
    maker_token(&m, "<|eot", BN_TOKEN_USER, 0);
    assert_int_equal(maker_open(&m, "llama"), BN_OK);
    assert_ids(m.tok, "<|eot_id|>", 0, IDS(user, '_', 'i', 'd', '|', '>'));
    assert_ids(m.tok, "<|eot_id|>", BN_TOKENIZE_SPECIAL, IDS(eot));
    assert_ids(m.tok, "<|eot_i", BN_TOKENIZE_SPECIAL, IDS(user, '_', 'i'));
    assert_ids(m.tok, "<|end_header_id|>", 0,
               IDS('<', '|', 'e', 'n', 'd', '_', 256, 'a', 'd', 'e', 'r', '_', 'i', 'd', '|', '>'));
    round_trips(m.tok);
    maker_release(&m);
}

/* A merge whose result is a control token never happens. */
static void test_merge_to_control(void **state)
{
    (void)state;
    struct maker m = maker_gpt2();
    maker_string(&m.merges, "z z", 3);
    m.n_merges++;
    maker_token(&m, "zz", BN_TOKEN_CONTROL, 0);
    assert_int_equal(maker_open(&m, "llama"), BN_OK);
    assert_ids(m.tok, "zz", 0, IDS('z', 'z'));
    maker_release(&m);
}

static void test_begin_and_end(void **state)
{
    (void)state;
    for (int bos = -1; bos < 2; bos++) {
        struct maker m = maker_gpt2();
        uint32_t bot = maker_marks(&m);
        bn_gguf_put_str(&m.w, "tokenizer.ggml.pre", "gpt-2", 5);
        if (bos >= 0) bn_gguf_put_bool(&m.w, "tokenizer.ggml.add_bos_token", bos == 1);
        if (bos >= 0) bn_gguf_put_bool(&m.w, "tokenizer.ggml.add_eos_token", bos == 1);
        assert_int_equal(maker_open(&m, "llama"), BN_OK);
        assert_ids(m.tok, "hello", 0, IDS(259));
        if (bos == 1)
            assert_ids(m.tok, "hello", BN_TOKENIZE_BOS, IDS((int32_t)bot, 259, (int32_t)bot + 1));
        else
            assert_ids(m.tok, "hello", BN_TOKENIZE_BOS, IDS(259));
        maker_release(&m);
    }
    struct maker m = maker_gpt2(); /* llama-bpe puts it where no key says otherwise */
    uint32_t bot = maker_marks(&m);
    assert_int_equal(maker_open(&m, "bitnet-b1.58"), BN_OK);
    assert_ids(m.tok, "hello", BN_TOKENIZE_BOS, IDS((int32_t)bot, 259));
    maker_release(&m);
}

/* The rule follows from the architecture where the key is absent or says that the converter did not know. */
static void test_default_rule(void **state)
{
    (void)state;
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
        assert_int_equal(maker_open(&m, CASES[i].arch), BN_OK);
        assert_string_equal(bn_splitter_rule(m.tok->splitter)->name, CASES[i].rule);
        assert_int_equal(m.tok->ignore_merges, strcmp(CASES[i].rule, "llama-bpe") == 0);
        maker_release(&m);
    }
}

/* With llama-bpe a piece that is a token is taken whole, even when merging would not get there. */
static void test_ignore_merges(void **state)
{
    (void)state;
    for (int ignore = 0; ignore < 2; ignore++) {
        struct maker m = maker_gpt2();
        maker_token(&m, "zebra", BN_TOKEN_NORMAL, 0);
        assert_int_equal(maker_open(&m, ignore ? "bitnet" : "llama"), BN_OK);
        if (ignore)
            assert_ids(m.tok, "zebra", 0, IDS(276));
        else
            assert_ids(m.tok, "zebra", 0, IDS('z', 'e', 'b', 'r', 'a'));
        maker_release(&m);
    }
}

static void test_odd_tokens(void **state)
{
    (void)state;
    struct maker m = maker_gpt2();
    maker_token(&m, "hello", BN_TOKEN_NORMAL, 0);     /* a duplicate: the lower id is used */
    maker_token(&m, "", BN_TOKEN_NORMAL, 0);          /* empty: never comes from text */
    maker_token(&m, "pad", BN_TOKEN_UNUSED, 0);       /* unused: neither */
    maker_token(&m, "two words", BN_TOKEN_NORMAL, 0); /* outside the alphabet */
    maker_token(&m, "<0x41>", BN_TOKEN_BYTE, 0);
    maker_token(&m, "gap", 0, 0); /* "undefined" is normal */
    maker_token(&m, "日本", BN_TOKEN_NORMAL, 0);
    assert_int_equal(maker_open(&m, "bitnet"), BN_OK);
    assert_true(m.tok->has_duplicates);
    assert_ids(m.tok, "hello", 0, IDS(259));
    assert_ids(m.tok, "pad", 0, IDS('p', 'a', 'd'));
    assert_ids(m.tok, "two words", 0, IDS('t', 'w', 'o', 263, 'd', 's'));
    assert_ids(m.tok, "A", 0, IDS('A'));
    assert_ids(m.tok, "gap", 0, IDS(281));
    assert_ids(m.tok, "日本", 0, IDS(0xE6, 0x97, 0xA5, 0xE6, 0x9C, 0xAC));
    char *text;
    size_t n;
    assert_int_equal(bn_detokenize(m.tok, IDS(276, 277, 278, 279, 280), 5, false, &text, &n, NULL), BN_OK);
    assert_string_equal(text, "hellopadtwo wordsA");
    bn_free(text);
    round_trips(m.tok);
    maker_release(&m);
}

/* Without token_type, the ids of special tokens say what is what. */
static void test_absent_types(void **state)
{
    (void)state;
    struct maker m = maker_spm();
    m.no_types = true;
    assert_int_equal(maker_open(&m, "bitnet"), BN_OK);
    assert_true(bn_token_is_control(m.tok, 0));
    assert_true(bn_token_is_control(m.tok, 1));
    assert_true(bn_token_is_control(m.tok, 2));
    assert_ids(m.tok, "A</s>", 0, IDS(259, 3 + 'A', 3 + '<', 3 + '/', 3 + 's', 3 + '>'));
    round_trips(m.tok);
    maker_release(&m);
}

static void test_missing_byte(void **state)
{
    (void)state;
    for (int unk = 0; unk < 2; unk++) {
        struct maker m = maker_new("gpt2");
        bn_error err = {0};
        int32_t *ids;
        size_t n;
        maker_token(&m, "a", BN_TOKEN_NORMAL, 0);
        maker_token(&m, "<unk>", BN_TOKEN_UNKNOWN, 0);
        if (unk) bn_gguf_put_u32(&m.w, "tokenizer.ggml.unknown_token_id", 1);
        assert_int_equal(maker_open(&m, "llama"), BN_OK);
        if (unk) {
            assert_ids(m.tok, "aba", 0, IDS(0, 1, 0));
        } else {
            assert_int_equal(bn_tokenize(m.tok, "aba", 3, 0, &ids, &n, &err), BN_ERR_UNSUPPORTED);
            assert_non_null(strstr(err.msg, "0x62"));
            assert_null(ids);
        }
        maker_release(&m);
    }
}

static void test_no_tokenizer(void **state)
{
    (void)state;
    bn_error err = {0};
    int32_t *ids;
    char *text;
    size_t n;
    assert_int_equal(bn_tokenize(NULL, "a", 1, 0, &ids, &n, &err), BN_ERR_ARG);
    assert_int_equal(bn_detokenize(NULL, NULL, 0, false, &text, &n, NULL), BN_ERR_ARG);
    assert_int_equal(bn_tokenizer_n_vocab(NULL), 0);
    assert_int_equal(bn_tokenizer_bos(NULL), -1);
    assert_int_equal(bn_token_find(NULL, "a", 1), -1);
    assert_false(bn_token_is_end(NULL, 0));
    bn_tokenizer_close(NULL);
    struct bn_gguf empty = {0};
    bn_tokenizer *tok;
    err = (bn_error){0};
    assert_int_equal(bn_tokenizer_open(&tok, &empty, "llama", &err), BN_ERR_NOT_FOUND);
    assert_int_equal(err.code, BN_OK);
}

/* ---- streaming ---- */

static void test_stream(void **state)
{
    (void)state;
    struct bn_buf text = all_code_points();
    char *out = bn_alloc(text.len + 3, 1);
    uint32_t seed = 7;
    bn_utf8_stream stream = {0};
    size_t n_out = 0;
    for (size_t at = 0; at < text.len;) {
        size_t n = bn_min_size(next_random(&seed) % 7, text.len - at);
        size_t got = bn_utf8_stream_push(&stream, text.data + at, n, out + n_out);
        assert_int_equal(bn_utf8_valid(out + n_out, got), got); /* no code point is cut */
        assert_true(got <= n + 3);
        n_out += got;
        at += n;
    }
    assert_int_equal(bn_utf8_stream_flush(&stream, out + n_out), 0);
    assert_int_equal(n_out, text.len);
    assert_memory_equal(out, text.data, text.len);
    /* Any bytes come out as they went in, and no more than three wait. */
    for (int round = 0; round < 2000; round++) {
        char bytes[32], back[64];
        size_t n = next_random(&seed) % sizeof bytes, n_back = 0;
        for (size_t i = 0; i < n; i++) {
            static const unsigned char COMMON[] = {0xE0, 0xED, 0xF0, 0xF4, 0xC2, 0x80, 0x9F, 0xA0, 0xBF, 'a'};
            bytes[i] = (char)(next_random(&seed) % 2 ? COMMON[next_random(&seed) % 10] : next_random(&seed));
            n_back += bn_utf8_stream_push(&stream, &bytes[i], 1, back + n_back);
            assert_true(n_back + 3 >= i + 1);
        }
        n_back += bn_utf8_stream_flush(&stream, back + n_back);
        assert_int_equal(n_back, n);
        if (n > 0) assert_memory_equal(back, bytes, n);
    }
    bn_free(out);
    bn_buf_release(&text);
}

/* ---- size ---- */

/* Work on one long piece is counted; it may grow with n log n, and hardly more from 1 MB to 10 MB. */
static void hold_work(const bn_tokenizer *tok, const char *unit)
{
    char *text = bn_alloc(N_BIG, 1);
    uint64_t work[2];
    for (size_t at = 0; at < N_BIG; at++)
        text[at] = unit[at % strlen(unit)];
    for (int i = 0; i < 2; i++) {
        size_t n = i == 0 ? N_BIG / 10 : N_BIG;
        struct bn_ids ids = {0};
        struct bn_encode_stats stats;
        assert_int_equal(bn_encode(tok, text, n, BN_TOKENIZE_SPECIAL, &ids, &stats, NULL), BN_OK);
        assert_true(stats.n_pieces <= 2);
        assert_true(stats.n_lookups <= 3 * n);
        assert_true(stats.n_heap_moves <=
                    3 * 2 * 13 * n); /* 3 n pushes and pops through log4(3 n) < 13 levels */
        work[i] = stats.n_lookups + stats.n_heap_moves;
        bn_free(ids.data);
    }
    assert_true(work[1] <= 13 * work[0]);
    bn_free(text);
}

static void test_no_spaces(void **state)
{
    (void)state;
    struct maker gpt2 = maker_gpt2(), spm = maker_spm();
    assert_int_equal(maker_open(&gpt2, "bitnet"), BN_OK);
    assert_int_equal(maker_open(&spm, "bitnet"), BN_OK);
    hold_work(gpt2.tok, "helloworld");
    hold_work(gpt2.tok, "a");
    hold_work(spm.tok, "helloworld");
    maker_release(&gpt2);
    maker_release(&spm);
}

static void test_all_code_points(void **state)
{
    (void)state;
    struct bn_buf text = all_code_points();
    struct maker gpt2 = maker_gpt2(), spm = maker_spm();
    assert_int_equal(maker_open(&gpt2, "bitnet"), BN_OK);
    assert_int_equal(maker_open(&spm, "bitnet"), BN_OK);
    assert_round_trip(gpt2.tok, text.data, text.len);
    assert_round_trip(spm.tok, text.data, text.len);
    maker_release(&gpt2);
    maker_release(&spm);
    bn_buf_release(&text);
}

static void test_too_long(void **state)
{
    (void)state;
    struct maker m = maker_gpt2();
    bn_error err = {0};
    int32_t *ids;
    size_t n;
    assert_int_equal(maker_open(&m, "bitnet"), BN_OK);
    bn_mem_guard(true); /* refused before anything is taken */
    bn_status status = bn_tokenize(m.tok, "x", BN_MAX_TEXT_BYTES + 1, 0, &ids, &n, &err);
    bn_mem_guard(false);
    assert_int_equal(status, BN_ERR_LIMIT);
    maker_release(&m);
}

static void test_short_memory(void **state)
{
    (void)state;
    char text[200];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "hello"[i % 5];
    for (int kind = 0; kind < 2; kind++) {
        struct maker m = kind == 0 ? maker_gpt2() : maker_spm();
        assert_int_equal(maker_open(&m, "bitnet"), BN_OK);
        bn_tokenizer_close(m.tok);
        m.tok = NULL;
        uint64_t before = bn_mem_stats().bytes_now;
        bn_status status = BN_ERR_NOMEM;
        for (uint64_t n = 1; status != BN_OK; n++) {
            int32_t *ids = NULL;
            size_t n_ids = 0;
            bn_error err = {0};
            bn_mem_fail_after(n);
            status = bn_tokenizer_open(&m.tok, &m.gguf, "bitnet", &err);
            if (status == BN_OK) status = bn_tokenize(m.tok, text, sizeof text, 0, &ids, &n_ids, &err);
            bn_mem_fail_after(0);
            assert_true(status == BN_OK || (status == BN_ERR_NOMEM && err.code == BN_ERR_NOMEM));
            bn_free(ids);
            bn_tokenizer_close(m.tok);
            m.tok = NULL;
            assert_int_equal(bn_mem_stats().bytes_now, before);
        }
        maker_release(&m);
    }
}

/* Every part that decides about ids is in the digest. */
static void test_digest(void **state)
{
    (void)state;
    char hex[8][65];
    for (int i = 0; i < 8; i++) {
        struct maker m = maker_gpt2();
        maker_marks(&m);
        if (i == 2) bn_gguf_put_str(&m.w, "tokenizer.ggml.pre", "gpt-2", 5);
        if (i == 3) maker_merge(&m, "z", "z");
        if (i == 4) maker_token(&m, "zz", BN_TOKEN_NORMAL, 0);
        if (i == 5) maker_token(&m, "zz", BN_TOKEN_USER, 0);
        if (i == 6) bn_gguf_put_bool(&m.w, "tokenizer.ggml.add_bos_token", false);
        if (i == 7) bn_gguf_put_u32(&m.w, "tokenizer.ggml.eot_token_id", 5);
        assert_int_equal(maker_open(&m, "bitnet"), BN_OK);
        assert_int_equal(bn_tokenizer_digest(m.tok, hex[i], NULL), BN_OK);
        maker_release(&m);
    }
    assert_string_equal(hex[0], hex[1]);
    for (int i = 1; i < 8; i++)
        for (int k = i + 1; k < 8; k++)
            assert_string_not_equal(hex[i], hex[k]);
}

/* ---- published vocabularies ---- */

static const char *data_file(const char *name)
{
    static char path[4096];
    const char *folder = getenv("BN_TEST_DATA");
    if (folder == NULL) {
        print_message("BN_TEST_DATA is not set\n");
        skip();
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* The ids below are those of tiktoken and llama3-tokenizer-js. */
static void test_llama3(void **state)
{
    (void)state;
    struct bn_buf text = {.max = 16u << 20};
    struct bn_rank_vocab ranks;
    assert_int_equal(bn_file_read(data_file("llama3-tokenizer.model"), &text, NULL), BN_OK);
    assert_int_equal(bn_rank_vocab_read(&ranks, text.data, text.len, NULL), BN_OK);
    struct maker m = maker_llama3(&ranks);
    assert_int_equal(maker_open(&m, "bitnet-b1.58"), BN_OK); /* no key names the splitting rule */
    const bn_tokenizer *t = m.tok;
    assert_int_equal(bn_tokenizer_n_vocab(t), 128256);
    assert_int_equal(t->n_merges, 280147);
    assert_int_equal(bn_tokenizer_bos(t), 128000);
    assert_int_equal(bn_tokenizer_eos(t), 128001);
    assert_true(bn_token_is_end(t, 128001) && bn_token_is_end(t, 128009));
    assert_string_equal(bn_template_name(bn_template_resolve(BN_TEMPLATE_AUTO, t)), "bitnet");
    assert_ids(t, "Hello world", 0, IDS(9906, 1917));
    assert_ids(t, "Hello world", BN_TOKENIZE_BOS, IDS(128000, 9906, 1917));
    assert_ids(t, "What is 2+2?", 0, IDS(3923, 374, 220, 17, 10, 17, 30));
    assert_ids(t, "I'm HE'LL we've DON'T", 0, IDS(40, 2846, 11947, 6, 4178, 584, 3077, 45373, 17773));
    assert_ids(t, "1234567890 12 3", 0, IDS(4513, 10961, 16474, 15, 220, 717, 220, 18));
    assert_ids(t, "a\n\nb\r\n  c   d\t", 0, IDS(64, 271, 65, 319, 220, 272, 256, 294, 197));
    assert_ids(t, "你好世界，我是", 0, IDS(57668, 53901, 102616, 101602, 21043));
    assert_ids(t, "😀 👩\u200d💻", 0, IDS(76460, 222, 62904, 102, 102470, 93273, 119));
    assert_ids(t, "foo(bar[0]);  // x\n    return;", 0,
               IDS(8134, 55730, 58, 15, 15328, 220, 443, 865, 198, 262, 471, 26));
    assert_ids(t, "   ", 0, IDS(262));
    assert_ids(t, "<|eot_id|>", BN_TOKENIZE_SPECIAL, IDS(128009));
    assert_ids(t, "<|reserved_special_token_250|>", BN_TOKENIZE_SPECIAL, IDS(128255));
    round_trips(t);
    struct bn_buf all = all_code_points();
    assert_round_trip(t, all.data, all.len);
    bn_buf_release(&all);
    maker_release(&m);
    bn_rank_vocab_release(&ranks);
    bn_buf_release(&text);
}

/* The ids below are those of llama-tokenizer-js. */
static void test_llama2(void **state)
{
    (void)state;
    struct model m = {0};
    open_model(&m, data_file("llama-spm-vocab.gguf"), "llama");
    const bn_tokenizer *t = m.tok;
    assert_int_equal(bn_tokenizer_n_vocab(t), 32000);
    assert_true(bn_token_is_end(t, 2));
    assert_ids(t, "Hello world", 0, IDS(15043, 3186));
    assert_ids(t, "Hello world", BN_TOKENIZE_BOS, IDS(1, 15043, 3186));
    assert_ids(t, " Hello", 0, IDS(29871, 15043));
    assert_ids(t, "What is 2+2?", 0, IDS(1724, 338, 29871, 29906, 29974, 29906, 29973));
    assert_ids(t, "a\n\nb\r\n  c   d\t", 0, IDS(263, 13, 13, 29890, 30004, 13, 29871, 274, 259, 270, 12));
    assert_ids(t, "你好世界，我是", 0, IDS(29871, 30919, 31076, 30793, 30967, 30214, 30672, 30392));
    assert_ids(t, "😀 👩\u200d💻", 0,
               IDS(29871, 243, 162, 155, 131, 29871, 243, 162, 148, 172, 30722, 243, 162, 149, 190));
    assert_ids(t, "   ", 0, IDS(268));
    round_trips(t);
    close_model(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_model),    cmocka_unit_test(test_gpt2_merges),
        cmocka_unit_test(test_spm_merges),       cmocka_unit_test(test_spm_words),
        cmocka_unit_test(test_spm_user),         cmocka_unit_test(test_no_space_prefix),
        cmocka_unit_test(test_special_tokens),   cmocka_unit_test(test_user_within_control),
        cmocka_unit_test(test_merge_to_control), cmocka_unit_test(test_begin_and_end),
        cmocka_unit_test(test_default_rule),     cmocka_unit_test(test_ignore_merges),
        cmocka_unit_test(test_odd_tokens),       cmocka_unit_test(test_absent_types),
        cmocka_unit_test(test_missing_byte),     cmocka_unit_test(test_no_tokenizer),
        cmocka_unit_test(test_stream),           cmocka_unit_test(test_no_spaces),
        cmocka_unit_test(test_all_code_points),  cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_short_memory),     cmocka_unit_test(test_digest),
        cmocka_unit_test(test_llama3),           cmocka_unit_test(test_llama2),
    };
    return cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL);
}
