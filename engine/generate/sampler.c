/* SPDX-License-Identifier: MIT
 *
 * Choosing the next token. Order: biases, repetition penalty (Keskar et al., CTRL, 2019), OpenAI's presence and frequency
 * penalties, temperature, top-k, top-p (Holtzman et al., 2020) over what top-k left, min-p relative to the best. All
 * integers and the engine's own exp: the same seed gives the same tokens on every machine. Greedy means argmax, of the
 * logits that biases and OpenAI's penalties have changed, nothing else.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "generate/generator.h"
#include "model/model.h"

struct bn_sampler {
    bn_sampler_options options;
    const struct bn_kernels *kernels;
    size_t n_vocab;
    uint64_t state;     /* of splitmix64 */
    float *scaled;      /* n_vocab: penalised, over the temperature */
    float *weight;      /* n_vocab: exp(scaled - best) */
    bn_candidate *heap; /* n_vocab */
    uint32_t *count;    /* n_vocab zeros between choices; only one when no penalty counts */
};

/* Whether logits change also when the choice is greedy. */
static bool changes(const bn_sampler_options *o)
{
    return o->presence_penalty != 0.0f || o->frequency_penalty != 0.0f || o->n_bias > 0;
}

bn_status bn_sampler_check(const bn_sampler_options *o, size_t n_vocab, bn_error *err)
{
    if (!(fabsf(o->presence_penalty) <= 2.0f))
        return bn_fail(err, BN_ERR_ARG, "presence_penalty %g is not in -2..2", (double)o->presence_penalty);
    if (!(fabsf(o->frequency_penalty) <= 2.0f))
        return bn_fail(err, BN_ERR_ARG, "frequency_penalty %g is not in -2..2", (double)o->frequency_penalty);
    if (o->n_bias > 1024)
        return bn_fail(err, BN_ERR_ARG, "logit_bias has %zu tokens, at most 1024", o->n_bias);
    for (size_t i = 0; i < o->n_bias; i++) {
        const bn_candidate *b = &o->bias[i];
        if (b->id < 0 || (size_t)b->id >= n_vocab)
            return bn_fail(err, BN_ERR_ARG, "logit_bias has token %d, outside the vocabulary", (int)b->id);
        if (!(fabsf(b->logit) <= 100.0f))
            return bn_fail(err, BN_ERR_ARG, "logit_bias has %g, not in -100..100", (double)b->logit);
        for (size_t k = 0; k < i; k++)
            if (o->bias[k].id == b->id)
                return bn_fail(err, BN_ERR_ARG, "logit_bias has token %d twice", (int)b->id);
    }
    return BN_OK;
}

static bn_status check_options(const bn_sampler_options *o, size_t n_vocab, bn_error *err)
{
    BN_TRY(bn_sampler_check(o, n_vocab, err));
    if (!(o->temperature >= 0.0f && o->temperature <= 100.0f))
        return bn_fail(err, BN_ERR_ARG, "temperature %g is not in 0..100", (double)o->temperature);
    if (o->temperature == 0.0f) return BN_OK;
    if (!(o->top_p >= 0.0f && o->top_p <= 1.0f))
        return bn_fail(err, BN_ERR_ARG, "top-p %g is not in 0..1", (double)o->top_p);
    if (!(o->min_p >= 0.0f && o->min_p <= 1.0f))
        return bn_fail(err, BN_ERR_ARG, "min-p %g is not in 0..1", (double)o->min_p);
    if (!(o->repeat_penalty >= 1.0f && o->repeat_penalty <= 100.0f))
        return bn_fail(err, BN_ERR_ARG, "repeat penalty %g is not in 1..100", (double)o->repeat_penalty);
    return BN_OK;
}

bn_status bn_sampler_open(bn_sampler **out, const bn_sampler_options *given, size_t n_vocab, bn_error *err)
{
    bn_sampler_options known = BN_SAMPLER_OPTIONS_INIT, *options = &known;
    *out = NULL;
    BN_TRY(bn_take_options(options, sizeof known, given, err));
    BN_TRY(check_options(options, n_vocab, err));
    struct bn_sampler *s = bn_alloc(1, sizeof *s);
    if (s == NULL) return bn_nomem(err);
    s->options = *options;
    s->n_vocab = n_vocab;
    s->state = options->seed;
    bn_status status = bn_isa_kernels(&s->kernels, err);
    if (status == BN_OK && (options->temperature > 0.0f || changes(options))) {
        s->scaled = bn_alloc(n_vocab, sizeof *s->scaled);
        s->weight = bn_alloc(n_vocab, sizeof *s->weight);
        s->heap = bn_alloc(n_vocab, sizeof *s->heap);
        s->count = bn_alloc(changes(options) ? n_vocab : 1, sizeof *s->count);
        if (s->scaled == NULL || s->weight == NULL || s->heap == NULL || s->count == NULL)
            status = bn_nomem(err);
    }
    if (status != BN_OK) {
        bn_sampler_close(s);
        return status;
    }
    *out = s;
    return BN_OK;
}

void bn_sampler_close(bn_sampler *s)
{
    if (s == NULL) return;
    bn_free(s->scaled);
    bn_free(s->weight);
    bn_free(s->heap);
    bn_free(s->count);
    bn_free(s);
}

void bn_sampler_follow(bn_sampler *s, const bn_sampler *other)
{
    s->state = other->state;
}

static double next_unit(struct bn_sampler *s)
{
    return (double)(bn_splitmix64(&s->state) >> 11) * 0x1p-53;
}

/* Each distinct recent token once. The window is short, so looking back for an earlier copy is cheap. */
static void penalise(struct bn_sampler *s, const int32_t *recent, size_t n_recent)
{
    float penalty = s->options.repeat_penalty;
    size_t window = s->options.repeat_last != 0 ? s->options.repeat_last : 64;
    size_t from = n_recent > window ? n_recent - window : 0;
    if (penalty == 1.0f) return;
    for (size_t i = from; i < n_recent; i++) {
        bool seen = recent[i] < 0 || (size_t)recent[i] >= s->n_vocab;
        for (size_t j = from; j < i && !seen; j++)
            seen = recent[j] == recent[i];
        if (seen) continue;
        float *x = &s->scaled[recent[i]];
        *x = *x > 0.0f ? *x / penalty : *x * penalty;
    }
}

/* From the history alone, so that drafts that were wrong leave nothing behind. */
static void penalise_generated(struct bn_sampler *s, const int32_t *recent, size_t n_recent)
{
    const bn_sampler_options *o = &s->options;
    if (o->presence_penalty == 0.0f && o->frequency_penalty == 0.0f) return;
    for (size_t i = o->n_prompt; i < n_recent; i++)
        if ((size_t)recent[i] < s->n_vocab) s->count[recent[i]]++;
    for (size_t i = o->n_prompt; i < n_recent; i++) {
        if ((size_t)recent[i] >= s->n_vocab || s->count[recent[i]] == 0) continue;
        s->scaled[recent[i]] -= o->presence_penalty;
        s->scaled[recent[i]] -= o->frequency_penalty * (float)s->count[recent[i]];
        s->count[recent[i]] = 0;
    }
}

/* Higher logits first, then lower ids: a total order, so that the heap's shape cannot matter. */
static bool before(bn_candidate a, bn_candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void sift_down(bn_candidate *heap, size_t n, size_t i)
{
    bn_candidate moving = heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && before(heap[child + 1], heap[child])) child++;
        if (!before(heap[child], moving)) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moving;
}

/* Moves the best of the heap's first *n to its end and shortens it: what was popped is after it, in order.
 */
static bn_candidate pop(bn_candidate *heap, size_t *n)
{
    bn_candidate best = heap[0];
    heap[0] = heap[--*n];
    heap[*n] = best;
    sift_down(heap, *n, 0);
    return best;
}

/* Draws among all tokens. */
static int32_t draw_all(struct bn_sampler *s, double sum)
{
    double left = next_unit(s) * sum;
    size_t last = 0;
    for (size_t i = 0; i < s->n_vocab; i++) {
        if (s->weight[i] == 0.0f) continue;
        last = i;
        left -= (double)s->weight[i];
        if (left < 0.0) break;
    }
    return (int32_t)last;
}

/* Draws among the best: at most top_k of them, then the fewest that reach top_p of their weight and are at
 * least min_p times the best. */
static int32_t draw_best(struct bn_sampler *s, double sum)
{
    size_t n = s->n_vocab, top_k = s->options.top_k;
    for (size_t i = 0; i < n; i++)
        s->heap[i] = (bn_candidate){(int32_t)i, s->scaled[i]};
    for (size_t i = n / 2; i-- > 0;)
        sift_down(s->heap, n, i);
    size_t left = n;
    if (top_k > 0 && top_k < n) {
        sum = 0.0;
        while (n - left < top_k)
            sum += (double)s->weight[pop(s->heap, &left).id];
    } else {
        top_k = n;
    }
    double kept = 0.0, floor = (double)s->options.min_p, enough = (double)s->options.top_p * sum;
    size_t n_kept = 0;
    while (n_kept < top_k && (n_kept == 0 || kept < enough)) {
        /* The i-th best is at n - 1 - i after it was popped. */
        if (n - left <= n_kept) (void)pop(s->heap, &left);
        double weight = (double)s->weight[s->heap[n - 1 - n_kept].id];
        if (n_kept > 0 && (weight < floor || weight == 0.0)) break; /* 0: it cannot be drawn */
        kept += weight;
        n_kept++;
    }
    double at = next_unit(s) * kept;
    for (size_t i = 0; i < n_kept; i++) {
        at -= (double)s->weight[s->heap[n - 1 - i].id];
        if (at < 0.0) return s->heap[n - 1 - i].id;
    }
    return s->heap[n - n_kept].id;
}

/* A penalty only makes logits smaller, so the best top_k after it are among that many more before it. */
size_t bn_sampler_reach(const bn_sampler *s)
{
    const bn_sampler_options *o = &s->options;
    size_t window = o->repeat_last != 0 ? o->repeat_last : 64;
    if (changes(o)) return SIZE_MAX; /* any token may become the best */
    if (o->temperature <= 0.0f) return 1;
    if (o->top_k == 0) return SIZE_MAX;
    return o->top_k + (o->repeat_penalty != 1.0f ? window : 0);
}

int32_t bn_sampler_next(bn_sampler *s, const float *logits, const int32_t *recent, size_t n_recent)
{
    const bn_sampler_options *o = &s->options;
    bool greedy = o->temperature <= 0.0f;
    if (greedy && !changes(o)) return (int32_t)bn_argmax(logits, s->n_vocab);
    memcpy(s->scaled, logits, s->n_vocab * sizeof *logits);
    for (size_t i = 0; i < o->n_bias; i++)
        s->scaled[o->bias[i].id] += o->bias[i].logit;
    if (!greedy) penalise(s, recent, n_recent);
    penalise_generated(s, recent, n_recent);
    if (greedy) return (int32_t)bn_argmax(s->scaled, s->n_vocab);
    float best = s->scaled[bn_argmax(s->scaled, s->n_vocab)];
    float shift = isfinite(best / o->temperature) ? 0.0f : best; /* so small a temperature is nearly greedy */
    for (size_t i = 0; i < s->n_vocab; i++)
        s->scaled[i] = (s->scaled[i] - shift) / o->temperature;
    best = (best - shift) / o->temperature;
    for (size_t i = 0; i < s->n_vocab; i++)
        s->weight[i] = s->scaled[i] - best;
    s->kernels->exp(s->weight, s->weight, s->n_vocab);
    double sum = 0.0;
    for (size_t i = 0; i < s->n_vocab; i++)
        sum += (double)s->weight[i];
    bool all = (o->top_k == 0 || o->top_k >= s->n_vocab) && o->top_p >= 1.0f && o->min_p <= 0.0f;
    return all ? draw_all(s, sum) : draw_best(s, sum);
}
