/* SPDX-License-Identifier: MIT
 *
 * A model and its tokenizer, for tests of tokenizers.
 */
#ifndef BN_TESTS_TOKENIZER_MAKER_H
#define BN_TESTS_TOKENIZER_MAKER_H

#include "base/file.h"
#include "base/utf8.h"
#include "tests/unit/status.h"
#include "vocab_maker.h"

#define N_BIG 10000000u

/* ---- helpers ---- */

struct model {
    struct bn_file_map map;
    struct bn_gguf gguf;
    bn_tokenizer *tok;
};

static inline void open_model(struct model *m, const char *path, const char *arch)
{
    must(bn_file_map_open(&m->map, path, false, &err));
    must(bn_gguf_open(&m->gguf, m->map.data, m->map.n_bytes, &err));
    must(bn_tokenizer_open(&m->tok, &m->gguf, arch, &err));
}

static inline void close_model(struct model *m)
{
    bn_tokenizer_close(m->tok);
    bn_gguf_close(&m->gguf);
    bn_file_map_close(&m->map);
}

static inline struct bn_ids encode(const bn_tokenizer *tok, const char *text, size_t n, unsigned flags)
{
    struct bn_ids ids = {0};
    must(bn_tokenize(tok, text, n, flags, &ids.data, &ids.n, &err));
    return ids;
}

/* want ends with -1. */
static inline void assert_ids(const bn_tokenizer *tok, const char *text, unsigned flags, const int32_t *want)
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

static inline void assert_round_trip(const bn_tokenizer *tok, const char *text, size_t n)
{
    for (unsigned flags = 0; flags < 4; flags++) {
        struct bn_ids ids = encode(tok, text, n, flags);
        /* The marks that the flag put around are not part of the text. */
        bool front = (flags & BN_TOKENIZE_BOS) && tok->add_bos && tok->bos >= 0;
        char *back;
        size_t n_back;
        must(bn_detokenize(tok, ids.data + front, ids.n - front, true, &back, &n_back, NULL));
        assert_int_equal(n_back, n);
        if (n > 0) assert_memory_equal(back, text, n);
        bn_free(back);
        bn_free(ids.data);
    }
}

static inline uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Random bytes, and random choices of what tokenizers stumble over. */
static inline void round_trips(const bn_tokenizer *tok)
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
static inline struct bn_buf all_code_points(void)
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

#endif
