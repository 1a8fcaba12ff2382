/* SPDX-License-Identifier: MIT
 *
 * Queries and generations of bn.h. A query owns what its setters were given, and the generations that it was used for point to
 * that.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "generate/generator.h"

#define EXACT 0x1p53 /* up to it a double has every whole number */

struct bn_query {
    bn_generation gen;
    int32_t *prompt, *stop_ids, *given;
    char **stops;
};

enum kind { FLOAT, U32, U64, SIZE, FLAG };

/* In the order of enum bn_setting. */
static const struct {
    const char *name;
    enum kind kind;
    size_t at;
    double least, most;
} SETTINGS[] = {
#define AT(name, kind, member, least, most)                      \
    {                                                            \
        name, kind, offsetof(bn_generation, member), least, most \
    }
    AT("n_predict", U32, n_predict, 1, 0x1p24),
    AT("n_ctx", U32, n_ctx, 0, UINT32_MAX),
    AT("n_cached", SIZE, n_cached, 0, EXACT),
    AT("temperature", FLOAT, sampling.temperature, 0, 100),
    AT("top-k", U32, sampling.top_k, 0, UINT32_MAX),
    AT("top-p", FLOAT, sampling.top_p, 0, 1),
    AT("min-p", FLOAT, sampling.min_p, 0, 1),
    AT("repeat penalty", FLOAT, sampling.repeat_penalty, 1, 100),
    AT("repeat_last", U32, sampling.repeat_last, 0, UINT32_MAX),
    AT("seed", U64, sampling.seed, 0, EXACT),
    AT("ignore_end", FLAG, ignore_end, 0, 1),
    AT("chain", FLAG, want_chain, 0, 1),
    AT("logprobs", FLAG, want_logprobs, 0, 1),
    AT("n_top", U32, n_top, 0, 1000),
    AT("most_drafts", U32, draft.most, 1, 64),
    AT("presence_penalty", FLOAT, sampling.presence_penalty, -2, 2),
    AT("frequency_penalty", FLOAT, sampling.frequency_penalty, -2, 2),
#undef AT
};

bn_status bn_query_open(bn_query **out, const int32_t *prompt, size_t n_prompt, bn_error *err)
{
    *out = NULL;
    if (n_prompt == 0) return bn_fail(err, BN_ERR_ARG, "the prompt has no tokens");
    bn_query *r = bn_alloc(1, sizeof *r);
    if (r == NULL) return bn_nomem(err);
    r->prompt = bn_alloc(n_prompt, sizeof *r->prompt);
    if (r->prompt == NULL) {
        bn_free(r);
        return bn_nomem(err);
    }
    memcpy(r->prompt, prompt, n_prompt * sizeof *prompt);
    r->gen = (bn_generation){
        .prompt = r->prompt, .n_prompt = n_prompt, .n_predict = 32, .sampling = BN_SAMPLER_OPTIONS_INIT};
    *out = r;
    return BN_OK;
}

void bn_query_close(bn_query *r)
{
    if (r == NULL) return;
    for (size_t i = 0; i < r->gen.n_stops; i++)
        bn_free(r->stops[i]);
    bn_free(r->stops);
    bn_free(r->stop_ids);
    bn_free(r->given);
    bn_free(r->prompt);
    bn_free(r);
}

bn_status bn_query_set(bn_query *r, bn_setting setting, double value, bn_error *err)
{
    if ((unsigned)setting >= sizeof SETTINGS / sizeof SETTINGS[0])
        return bn_fail(err, BN_ERR_ARG, "a query has no setting %u", (unsigned)setting);
    const enum kind kind = SETTINGS[setting].kind;
    const double least = SETTINGS[setting].least, most = SETTINGS[setting].most;
    if (!(value >= least && value <= most))
        return bn_fail(err, BN_ERR_ARG, "%s %g is not in %.16g..%.16g", SETTINGS[setting].name, value, least,
                       most);
    if (kind != FLOAT && value != floor(value))
        return bn_fail(err, BN_ERR_ARG, "%s cannot be %g", SETTINGS[setting].name, value);
    char *at = (char *)&r->gen + SETTINGS[setting].at;
    if (kind == FLOAT) memcpy(at, &(float){(float)value}, sizeof(float));
    if (kind == U32) memcpy(at, &(uint32_t){(uint32_t)value}, sizeof(uint32_t));
    if (kind == U64) memcpy(at, &(uint64_t){(uint64_t)value}, sizeof(uint64_t));
    if (kind == SIZE) memcpy(at, &(size_t){(size_t)value}, sizeof(size_t));
    if (kind == FLAG) memcpy(at, &(bool){value != 0}, sizeof(bool));
    return BN_OK;
}

bn_status bn_query_add_stop(bn_query *r, const char *text, bn_error *err)
{
    char **stops = bn_realloc(r->stops, r->gen.n_stops + 1, sizeof *stops);
    if (stops == NULL) return bn_nomem(err);
    r->stops = stops;
    r->gen.stops = (const char *const *)stops;
    char *copy = bn_strndup(text, strlen(text));
    if (copy == NULL) return bn_nomem(err);
    stops[r->gen.n_stops++] = copy;
    return BN_OK;
}

bn_status bn_query_add_stop_id(bn_query *r, int32_t id, bn_error *err)
{
    int32_t *ids = bn_realloc(r->stop_ids, r->gen.n_stop_ids + 1, sizeof *ids);
    if (ids == NULL) return bn_nomem(err);
    ids[r->gen.n_stop_ids++] = id;
    r->gen.stop_ids = r->stop_ids = ids;
    return BN_OK;
}

void bn_query_set_bias(bn_query *r, const bn_candidate *bias, size_t n)
{
    r->gen.sampling.bias = bias;
    r->gen.sampling.n_bias = n;
}

void bn_query_set_grammar(bn_query *r, const bn_grammar *grammar)
{
    r->gen.grammar = grammar;
}

void bn_query_set_callback(bn_query *r, bn_token_fn on_token, void *user)
{
    r->gen.on_token = on_token;
    r->gen.user = user;
}

void bn_query_set_draft(bn_query *r, bn_draft_kind kind, bn_session *draft)
{
    r->gen.draft.kind = kind;
    r->gen.draft.session = draft;
}

bn_status bn_query_expect(bn_query *r, const int32_t *ids, size_t n_ids, bn_error *err)
{
    int32_t *given = bn_alloc(n_ids, sizeof *given);
    if (given == NULL) return bn_nomem(err);
    memcpy(given, ids, n_ids * sizeof *ids);
    bn_free(r->given);
    r->gen.draft.kind = BN_DRAFT_GIVEN;
    r->gen.draft.given = r->given = given;
    r->gen.draft.n_given = n_ids;
    return BN_OK;
}

static bn_status begin(bn_generation **out, const bn_query *query, bn_error *err)
{
    BN_TRY(BN_NEW(*out, 1, err));
    **out = query->gen;
    return BN_OK;
}

/* Without a generation after an error. */
static bn_status finish(bn_generation **out, bn_status status)
{
    if (status == BN_OK) return BN_OK;
    bn_free(*out);
    *out = NULL;
    return status;
}

bn_status bn_session_generate(bn_session *session, const bn_tokenizer *tok, const bn_query *query,
                              bn_generation **out, bn_error *err)
{
    BN_TRY(begin(out, query, err));
    return finish(out, bn_generate(session, tok, *out, err));
}

bn_status bn_scheduler_start(bn_scheduler *scheduler, bn_sequence *sequence, const bn_query *query,
                             bn_generation **out, bn_error *err)
{
    BN_TRY(begin(out, query, err));
    return finish(out, bn_scheduler_add(scheduler, sequence, *out, err));
}

void bn_generation_close(bn_generation *generation)
{
    if (generation == NULL) return;
    bn_generation_release(generation);
    bn_free(generation);
}

const int32_t *bn_generation_ids(const bn_generation *generation, size_t *n_ids)
{
    *n_ids = generation->n_ids;
    return generation->ids;
}

bn_stop_reason bn_generation_reason(const bn_generation *generation)
{
    return generation->reason;
}

const char *bn_generation_chain(const bn_generation *generation)
{
    return generation->chain;
}

const double *bn_generation_logprobs(const bn_generation *generation)
{
    return generation->logprobs;
}

const bn_candidate *bn_generation_top(const bn_generation *generation, size_t i)
{
    return i < generation->n_ids && generation->n_top > 0 ? generation->top + i * generation->n_top : NULL;
}

const uint64_t *bn_generation_token_ns(const bn_generation *generation)
{
    return generation->token_ns;
}

uint64_t bn_generation_get(const bn_generation *generation, bn_generation_figure figure)
{
    const uint64_t figures[] = {[BN_GENERATION_PREFILL_NS] = generation->prefill_ns,
                                [BN_GENERATION_DECODE_NS] = generation->decode_ns,
                                [BN_GENERATION_TOTAL_NS] = generation->total_ns,
                                [BN_GENERATION_DRAFTED] = generation->drafts.drafted,
                                [BN_GENERATION_ACCEPTED] = generation->drafts.accepted};
    return (size_t)figure < sizeof figures / sizeof figures[0] ? figures[figure] : 0;
}
