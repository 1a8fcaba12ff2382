/* SPDX-License-Identifier: MIT
 *
 * Drafts of tokens, by n-grams of the text itself (prompt look-up, Saxena 2023) or by a smaller model (Leviathan et
 * al. 2023), and the rule by which drafts are made. Whether a draft is right is decided by the generator.
 */
#include "infer/speculate.h"

#include "base/error.h"
#include "tokenizer/tokenizer.h"

/* ---- n-grams ---- */

#define LONGEST_MATCH 16u
#define SHORTEST_MATCH 2u

size_t bn_draft_ngram(int32_t *history, size_t n_history, size_t n)
{
    size_t best = 0, at = 0;
    for (size_t i = n_history; i-- > 1 && best < LONGEST_MATCH;) {
        /* history[..i] ends as the whole history does in so many tokens */
        size_t same = 0;
        while (same < i && same < LONGEST_MATCH && history[i - 1 - same] == history[n_history - 1 - same])
            same++;
        if (same > best) {
            best = same;
            at = i;
        }
    }
    if (best < SHORTEST_MATCH) return 0;
    for (size_t k = 0; k < n; k++)
        history[n_history + k] = history[at + k]; /* may be a token of this draft: the text repeats itself */
    return n;
}

/* ---- a smaller model ---- */

struct bn_drafter {
    bn_draft_kind kind;
    bn_session *session;
    bn_sampler *sampler; /* with the options of the generation's */
    size_t n_best;
    float *logits;
};

static bn_status check_vocabulary(const struct bn_model *draft, const struct bn_model *model, bn_error *err)
{
    char ours[BN_SHA256_HEX], theirs[BN_SHA256_HEX];
    if (draft->hp.n_vocab != model->hp.n_vocab)
        return bn_fail(err, BN_ERR_ARG, "the draft model has a vocabulary of %u tokens, the model one of %u",
                       draft->hp.n_vocab, model->hp.n_vocab);
    if (draft->tokenizer == NULL || model->tokenizer == NULL) return BN_OK;
    BN_TRY(bn_tokenizer_digest(draft->tokenizer, theirs, err));
    BN_TRY(bn_tokenizer_digest(model->tokenizer, ours, err));
    if (strcmp(ours, theirs) == 0) return BN_OK;
    return bn_fail(err, BN_ERR_ARG,
                   "the draft model has another vocabulary: sha256 %.16s..., the model's is %.16s...", theirs,
                   ours);
}

bn_status bn_drafter_open(struct bn_drafter **out, const bn_generation *gen, const struct bn_model *model,
                          bn_error *err)
{
    const bn_draft_options *o = &gen->draft;
    *out = NULL;
    if (o->most > BN_DRAFT_MOST_EVER)
        return bn_fail(err, BN_ERR_ARG, "cannot draft %u tokens, at most %u", o->most, BN_DRAFT_MOST_EVER);
    if (o->kind == BN_DRAFT_NONE) return BN_OK;
    if (o->kind == BN_DRAFT_MODEL && o->session == NULL)
        return bn_fail(err, BN_ERR_ARG, "there is no session of a draft model");
    if (o->kind == BN_DRAFT_MODEL) BN_TRY(check_vocabulary(o->session->model, model, err));
    struct bn_drafter *d = bn_alloc(1, sizeof *d);
    if (d == NULL) return bn_nomem(err);
    *d = (struct bn_drafter){.kind = o->kind, .session = o->session};
    *out = d;
    if (o->kind == BN_DRAFT_NGRAM) return BN_OK;
    d->logits = bn_alloc_aligned(model->hp.n_vocab, sizeof *d->logits);
    bn_status status = d->logits != NULL
                           ? bn_sampler_open(&d->sampler, &gen->sampling, model->hp.n_vocab, err)
                           : bn_nomem(err);
    if (status == BN_OK) {
        d->n_best = bn_sampler_reach(d->sampler);
        return BN_OK;
    }
    bn_drafter_close(d);
    *out = NULL;
    return status;
}

void bn_drafter_close(struct bn_drafter *d)
{
    if (d == NULL) return;
    bn_sampler_close(d->sampler);
    bn_free(d->logits);
    bn_free(d);
}

/* Where two models would choose alike, they do so with the same random number: with the sampler's own next ones, a
 * draft is right as often as it can be. A draft that cannot be made, since its context is full, is none. */
static size_t draft_by_model(struct bn_drafter *d, int32_t *history, size_t n_history, size_t n,
                             const bn_sampler *sampler)
{
    size_t done = bn_session_keep(d->session, history, n_history - 1), n_drafted = 0;
    bn_sampler_follow(d->sampler, sampler);
    for (; n_drafted < n; n_drafted++) {
        size_t end = n_history + n_drafted;
        if (bn_session_eval_best(d->session, history + done, end - done, d->n_best, d->logits, NULL) != BN_OK)
            break;
        history[end] = bn_sampler_next(d->sampler, d->logits, history, end);
        done = end;
    }
    return n_drafted;
}

size_t bn_drafter_draft(struct bn_drafter *d, int32_t *history, size_t n_history, size_t n,
                        const bn_sampler *sampler)
{
    if (n == 0) return 0;
    return d->kind == BN_DRAFT_NGRAM ? bn_draft_ngram(history, n_history, n)
                                     : draft_by_model(d, history, n_history, n, sampler);
}

/* ---- when to draft ---- */

#define SHARE 64.0      /* of the time of passes of one token that drafts may lose */
#define MOST_BUDGET 4.0 /* passes of one token that the budget can pay for */
#define LEAST_BUDGET (-32.0)
#define MEMORY 8.0      /* passes of one token that the mean remembers */
#define MOST_DRAFTS 64u /* passes with drafts until one of one token is measured again */

size_t bn_draft_pace_length(const struct bn_draft_pace *pace)
{
    if (pace->always) return pace->most;
    if (pace->plain_ns == 0.0 || pace->budget_ns < 0.0 || pace->n_drafts >= MOST_DRAFTS) return 0;
    return pace->length;
}

static double clamp(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x;
}

void bn_draft_pace_account(struct bn_draft_pace *pace, size_t n_drafted, size_t n_tokens, uint64_t ns)
{
    if (n_drafted == 0) {
        pace->plain_ns += ((double)ns - pace->plain_ns) / (pace->plain_ns == 0.0 ? 1.0 : MEMORY);
        pace->budget_ns += (double)ns / SHARE;
        pace->n_drafts = 0;
    } else {
        bool right = n_tokens == n_drafted + 1;
        size_t length = right ? 2 * n_drafted : n_tokens;
        pace->length = (uint32_t)(length < pace->most ? length : pace->most);
        pace->budget_ns += (double)n_tokens * pace->plain_ns - (double)ns;
        pace->n_drafts++;
    }
    pace->budget_ns = clamp(pace->budget_ns, LEAST_BUDGET * pace->plain_ns, MOST_BUDGET * pace->plain_ns);
}
