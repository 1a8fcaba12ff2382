/* SPDX-License-Identifier: MIT
 *
 * Drafts of tokens, by n-grams of the text itself (prompt look-up, Saxena 2023), by a smaller model (Leviathan et al.
 * 2023) or from an answer that is expected, and the rule by which drafts are made. Whether a draft is right is decided by the generator.
 */
#include "generate/generator.h"

#include "base/error.h"
#include "tokenizer/tokenizer.h"

/* ---- n-grams ---- */

#define LONGEST_MATCH 16u
#define SHORTEST_MATCH 2u

size_t bn_draft_ngram(int32_t *history, size_t n_history, size_t n)
{
    size_t best = 0, at = 0;
    for (size_t i = n_history; i-- > 1 && best < LONGEST_MATCH;) {
        /* Tokens in which history[..i] ends as the whole history does. */
        size_t same = 0;
        while (same < i && same < LONGEST_MATCH && history[i - 1 - same] == history[n_history - 1 - same])
            same++;
        if (same > best) {
            best = same;
            at = i;
        }
    }
    if (best < SHORTEST_MATCH) return 0;
    n = bn_min_size(n, best); /* a longer copy is likelier to go on */
    for (size_t k = 0; k < n; k++)
        history[n_history + k] = history[at + k]; /* may be a token of this draft: the text repeats itself */
    return n;
}

/* ---- a smaller model ---- */

struct bn_drafter {
    bn_draft_kind kind;
    const int32_t *given; /* the answer that is expected */
    size_t n_given, n_prompt;
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
    *d = (struct bn_drafter){.kind = o->kind,
                             .given = o->given,
                             .n_given = o->n_given,
                             .n_prompt = gen->n_prompt,
                             .session = o->session};
    *out = d;
    if (o->kind != BN_DRAFT_MODEL) return BN_OK;
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

/* The answer that is expected, as long as the newest token is the expected one. */
static size_t draft_given(const struct bn_drafter *d, int32_t *history, size_t n_history, size_t n)
{
    size_t done = n_history - d->n_prompt;
    if (done == 0 || done > d->n_given || history[n_history - 1] != d->given[done - 1]) return 0;
    n = bn_min_size(n, d->n_given - done);
    memcpy(history + n_history, d->given + done, n * sizeof *history);
    return n;
}

/* Where two models would choose alike, they do so with the same random number: with the sampler's own next ones, a
 * draft is right as often as it can be. A draft that cannot be made, since its context is full, is none. */
static size_t draft_by_model(struct bn_drafter *d, int32_t *history, size_t n_history, size_t n,
                             const bn_sampler *sampler)
{
    size_t done = bn_session_keep(d->session, history, n_history - 1), n_drafted = 0;
    bn_sampler_follow(d->sampler, sampler);
    bn_sequence_mark(&d->session->own, (uint32_t)n_history); /* the next draft begins there, or after it */
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
    if (d->kind == BN_DRAFT_GIVEN) return draft_given(d, history, n_history, n);
    return d->kind == BN_DRAFT_NGRAM ? bn_draft_ngram(history, n_history, n)
                                     : draft_by_model(d, history, n_history, n, sampler);
}

/* ---- when to draft ---- */

#define SHARE (1.0 / 64.0) /* of a pass of one token, which drafts may lose */
#define MOST_BUDGET 8.0    /* so that a text which cannot be drafted is noticed soon */
#define LEAST_BUDGET -32.0 /* so that drafts are tried again in any case */
#define FIRST_PLAIN 4u     /* passes of one token that are measured before the first draft */
#define MOST_DRAFTS 64u    /* passes with drafts until one of one token is measured again */
#define STEP (1.0 / 16.0)  /* by which one value moves a mean, at most */

/* The mean for drafts of n tokens. */
static size_t class_of(size_t n)
{
    size_t class = 0;
    while (n >> (class + 1) > 0 && class + 1 < BN_DRAFT_CLASSES)
        class += 1;
    return class;
}

/* What a drafted token will take: as the last time, or as in shorter drafts, or at first as a pass of its own. */
static double expected_each(const struct bn_draft_pace *pace, size_t n)
{
    for (size_t class = class_of(n) + 1; class -- > 0;)
        if (pace->each[class] > 0.0) return pace->each[class];
    return 1.0;
}

size_t bn_draft_pace_length(const struct bn_draft_pace *pace)
{
    if (pace->always) return pace->most;
    if (pace->n_plain < FIRST_PLAIN || pace->n_drafts >= MOST_DRAFTS || pace->budget < 0.0) return 0;
    size_t n = pace->length;
    while (n > 1 && expected_each(pace, n) * (double)n > pace->budget + 1.0)
        n /= 2;
    return n;
}

static double clamp(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x;
}

static void account_plain(struct bn_draft_pace *pace, double ns)
{
    double step = STEP * pace->plain_ns;
    if (pace->n_plain++ == 0)
        pace->plain_ns = ns;
    else if (pace->n_plain <= FIRST_PLAIN)
        pace->plain_ns = ns < pace->plain_ns ? ns : pace->plain_ns;
    else
        pace->plain_ns += clamp((ns - pace->plain_ns) / 4.0, -step, step);
    pace->n_drafts = 0;
    pace->budget += SHARE;
}

static void account_draft(struct bn_draft_pace *pace, size_t n_drafted, size_t n_tokens, double ns)
{
    size_t shorter = n_tokens > n_drafted / 2 ? n_tokens : n_drafted / 2;
    size_t length = n_tokens == n_drafted + 1 ? 2 * n_drafted : shorter > 0 ? shorter : 1;
    double *each = &pace->each[class_of(n_drafted)];
    if (pace->plain_ns > 0.0) {
        double now = clamp((ns / pace->plain_ns - 1.0) / (double)n_drafted, 1e-6, 4.0);
        *each += *each == 0.0 ? clamp(now, 0.0, 1.0) : clamp((now - *each) / 4.0, -STEP, STEP);
    }
    pace->budget += (double)n_tokens - 1.0 - *each * (double)n_drafted;
    pace->length = (uint32_t)(length < pace->most ? length : pace->most);
    pace->n_drafts++;
}

void bn_draft_pace_account(struct bn_draft_pace *pace, size_t n_drafted, size_t n_tokens, uint64_t ns)
{
    if (n_drafted == 0)
        account_plain(pace, (double)ns);
    else
        account_draft(pace, n_drafted, n_tokens, (double)ns);
    pace->budget = clamp(pace->budget, LEAST_BUDGET, MOST_BUDGET);
}
