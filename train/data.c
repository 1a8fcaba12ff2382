/* SPDX-License-Identifier: MIT
 *
 * Tokens of texts, and their windows in the order of a keyed permutation.
 */
#include "train/data.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"

bn_status bn_corpus_add(struct bn_corpus *c, const bn_tokenizer *tok, const char *text, size_t n_bytes,
                        uint32_t times, int32_t end, bn_error *err)
{
    int32_t *ids = NULL;
    size_t n = 0;
    BN_TRY(bn_tokenize(tok, text, n_bytes, 0, &ids, &n, err));
    size_t each = n + (end >= 0 ? 1 : 0), more = each * times;
    bn_status status = bn_array_grow(&c->ids, &c->room, c->n + more, sizeof *c->ids, err);
    for (uint32_t t = 0; t < times && status == BN_OK; t++) {
        memcpy(c->ids + c->n, ids, n * sizeof *ids);
        if (end >= 0) c->ids[c->n + n] = end;
        c->n += each;
        c->n_bytes += n_bytes;
    }
    bn_free(ids);
    return status;
}

void bn_corpus_finish(struct bn_corpus *c)
{
    bn_sha256_hex(c->ids, c->n * sizeof *c->ids, c->sha256);
}

void bn_corpus_release(struct bn_corpus *c)
{
    bn_free(c->ids);
    *c = (struct bn_corpus){0};
}

/* A Feistel network of four rounds over the next power of four; what lies outside is permuted again. */
uint64_t bn_permute(uint64_t i, uint64_t n, uint64_t key)
{
    unsigned half = 1;
    while ((UINT64_C(1) << (2 * half)) < n)
        half++;
    uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t state =
                key + round * UINT64_C(0xD1342543DE82EF95) + right * UINT64_C(0x2545F4914F6CDD1D);
            uint64_t next = left ^ (bn_splitmix64(&state) & mask);
            left = right;
            right = next;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}

/* One window less than there are, so that each epoch can begin anywhere in the first. */
size_t bn_corpus_windows(const struct bn_corpus *c, size_t n_tokens)
{
    return c->n > 2 * n_tokens ? (c->n - n_tokens - 1) / n_tokens : 0;
}

void bn_corpus_window(const struct bn_corpus *c, size_t n_tokens, uint64_t seed, uint64_t index,
                      int32_t *tokens, int32_t *targets)
{
    uint64_t n = bn_corpus_windows(c, n_tokens), epoch = index / n;
    uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15) + epoch;
    uint64_t key = bn_splitmix64(&state), shift = bn_splitmix64_below(&state, n_tokens);
    const int32_t *from = c->ids + shift + bn_permute(index % n, n, key) * n_tokens;
    memcpy(tokens, from, n_tokens * sizeof *from);
    memcpy(targets, from + 1, n_tokens * sizeof *from);
}
