/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a grammar, or, when they begin with {, as a JSON Schema. What is accepted is followed for some tokens:
 * each token of a mask may come next, one that is not in it may not, and what was allowed can go on or end. A schema
 * that is accepted has a translation that parses.
 */
#include "tests/fuzz/fuzz.h"

#include "grammar/matcher.h"

#define MODEL "fixtures/shakespeare-5m-i2_s.gguf"
#define N_STEPS 12u

static const bn_tokenizer *tokenizer(void)
{
    static bn_model *model;
    const bn_model_options options = {.no_weights = true};
    if (model == NULL) hold(bn_model_open(&model, MODEL, &options, NULL) == BN_OK);
    return bn_model_tokenizer(model);
}

static bool has(const uint64_t *mask, size_t id)
{
    return (mask[id / 64] >> (id % 64) & 1) != 0;
}

/* A token of the mask that the step and the bytes choose; -1: there is none. */
static int32_t choose(const uint64_t *mask, size_t n_vocab, size_t seed)
{
    for (size_t i = 0; i < n_vocab; i++)
        if (has(mask, (i + seed) % n_vocab)) return (int32_t)((i + seed) % n_vocab);
    return -1;
}

static void follow(const bn_grammar *g, const uint8_t *data, size_t size)
{
    const bn_tokenizer *tok = tokenizer();
    size_t n_vocab = bn_tokenizer_n_vocab(tok);
    int32_t end = bn_tokenizer_eos(tok);
    struct bn_matcher *m = NULL;
    if (bn_matcher_open(&m, g, tok, n_vocab, &end, 1, NULL) != BN_OK) return;
    for (size_t step = 0; step < N_STEPS; step++) {
        size_t seed = (size_t)data[step % size] * 7919u + step * 31u;
        const uint64_t *mask = bn_matcher_mask(m, UINT64_MAX);
        if (mask == NULL) break;
        int32_t id = choose(mask, n_vocab, seed), other = (int32_t)(seed % n_vocab);
        hold(id >= 0 || !bn_matcher_accepts(m) || bn_matcher_is_complete(m));
        bool may = has(mask, (size_t)other);
        hold(bn_matcher_allows(m, other) == may || m->status != BN_OK);
        if (id < 0 || id == end) break;
        hold(bn_matcher_take(m, id) || m->status != BN_OK);
    }
    bn_matcher_close(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bn_grammar *g = NULL;
    enum bn_grammar_kind kind = size > 0 && data[0] == '{' ? BN_GRAMMAR_JSON_SCHEMA : BN_GRAMMAR_GBNF;
    if (succeeds(bn_grammar_open(&g, kind, (const char *)data, size, &err))) {
        follow(g, data, size);
    } else {
        hold(g == NULL);
        /* What a schema is translated to parses, but for a class of a pattern that excludes all characters. */
        hold(kind == BN_GRAMMAR_GBNF || strncmp(err.msg, "line ", 5) != 0 ||
             strstr(err.msg, "class") != NULL);
    }
    bn_grammar_close(g);
    return 0;
}
