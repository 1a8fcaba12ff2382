/* SPDX-License-Identifier: MIT
 *
 * Windows of a corpus in the order of a keyed permutation; steps and validations: threads take micro-batches, or
 * windows, in order.
 */
#include "train/trainer.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "model/hparams.h"
#include "train/ranks.h"
#include "train/real.h"

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

/* ---- opening ---- */

bn_status bn_train_architecture(bn_hparams *hp, const char *name, bn_error *err)
{
    if (strcmp(name, "bitnet-b1.58") != 0 && strcmp(name, "qwen3") != 0)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "the architecture '%.40s' cannot be trained", name), err,
                       "bitnet-b1.58, qwen3");
    (void)bn_hparams_set_arch(hp, (struct bn_str){name, strlen(name)});
    hp->tied_head = true;
    hp->n_rot = hp->head_dim;
    hp->rope_scale = hp->embd_scale = hp->residual_scale = hp->logit_scale = 1;
    return BN_OK;
}

static bn_status open_threads(struct bn_trainer *t, unsigned n_threads, bn_error *err)
{
    t->team = bn_team_open(n_threads, true);
    if (t->team == NULL) return bn_nomem(err);
    BN_TRY(BN_NEW(t->passes, bn_team_size(t->team), err));
    for (unsigned i = 0; i < bn_team_size(t->team); i++)
        BN_TRY(bn_pass_open(&t->passes[i], &t->weights, t->settings.n_sequences, true, err));
    if (t->settings.schedule.muon) {
        t->scratch = bn_muon_scratch(&t->weights, bn_team_size(t->team));
        if (t->scratch == NULL) return bn_nomem(err);
    }
    BN_TRY(bn_tree_open(&t->tree, t->settings.n_micro, t->weights.n_values, err));
    return bn_blas_start(bn_team_size(t->team), err);
}

bn_status bn_trainer_open(struct bn_trainer *t, const struct bn_train_settings *settings, unsigned n_threads,
                          bn_error *err)
{
    *t = (struct bn_trainer){.settings = *settings};
    if (settings->n_micro == 0 || settings->n_slices == 0 || settings->n_sequences == 0 ||
        settings->schedule.n_steps == 0)
        return bn_fail(err, BN_ERR_ARG, "a run needs steps of at least one window");
    BN_TRY(bn_weights_open(&t->weights, &settings->hp, settings->group, err));
    t->moment_1 = bn_alloc_aligned(t->weights.n_values, sizeof *t->moment_1);
    t->moment_2 = bn_alloc_aligned(t->weights.n_values, sizeof *t->moment_2);
    bn_status status =
        t->moment_1 != NULL && t->moment_2 != NULL ? open_threads(t, n_threads, err) : bn_nomem(err);
    if (status == BN_OK) {
        bn_mem_advise_huge(t->moment_1, t->weights.n_values * sizeof *t->moment_1);
        bn_mem_advise_huge(t->moment_2, t->weights.n_values * sizeof *t->moment_2);
        bn_weights_start(&t->weights, settings->seed);
        bn_weights_ternarise(&t->weights, t->team);
    } else {
        bn_trainer_close(t);
    }
    return status;
}

void bn_trainer_close(struct bn_trainer *t)
{
    for (unsigned i = 0; t->passes != NULL && i < bn_team_size(t->team); i++)
        bn_pass_close(t->passes[i]);
    bn_free(t->passes);
    bn_tree_close(t->tree);
    bn_train_ranks_close(t->ranks);
    bn_team_close(t->team);
    bn_free(t->moment_1);
    bn_free(t->moment_2);
    bn_free(t->scratch);
    bn_free(t->curve.points);
    bn_weights_close(&t->weights);
    *t = (struct bn_trainer){0};
}

struct bn_train_memory bn_trainer_memory(const struct bn_trainer *t)
{
    struct bn_train_memory m = {
        .masters = bn_mem_size(t->weights.master),
        .moments = bn_mem_size(t->moment_1) + bn_mem_size(t->moment_2),
        .ternary = bn_mem_size(t->weights.ternary) + bn_mem_size(t->weights.codes),
        .gradients = bn_tree_bytes(t->tree),
    };
    if (t->ranks != NULL) m.gradients += bn_tree_bytes(t->ranks->slices);
    for (unsigned i = 0; i < bn_team_size(t->team); i++)
        m.activations += bn_pass_bytes(t->passes[i]);
    return m;
}

uint64_t bn_train_step_tokens(const struct bn_train_settings *s)
{
    return (uint64_t)s->n_micro * s->n_slices * s->n_sequences * s->hp.n_ctx;
}

/* ---- a step ---- */

/* What the threads of a step share. */
struct step {
    struct bn_trainer *t;
    const struct bn_corpus *corpus;
    uint64_t first;               /* number of the step's first window */
    double *losses;               /* of each micro-batch */
    int32_t *ids;                 /* for each thread, tokens and targets of a slice */
    struct bn_train_times *times; /* of each thread */
    atomic_bool failed;
};

static double run_slice(const struct step *s, unsigned thread, uint64_t window, bn_real *grad)
{
    const struct bn_train_settings *settings = &s->t->settings;
    size_t T = settings->hp.n_ctx, n = settings->n_sequences * T;
    int32_t *tokens = s->ids + 2 * thread * n, *targets = tokens + n;
    for (size_t i = 0; i < settings->n_sequences; i++)
        bn_corpus_window(s->corpus, T, settings->seed, window + i, tokens + i * T, targets + i * T);
    double loss = bn_pass_run(s->t->passes[thread], tokens, targets, grad);
    struct bn_pass_times of = bn_pass_times(s->t->passes[thread]);
    s->times[thread].forward_ns += of.forward_ns;
    s->times[thread].backward_ns += of.backward_ns;
    return loss;
}

/* Micro-batch i; its gradient is added to those of the others. */
static void run_micro_batch(void *arg, unsigned thread, size_t i)
{
    struct step *s = arg;
    const struct bn_train_settings *settings = &s->t->settings;
    uint64_t *ns = &s->times[thread].reduce_ns, begin = bn_clock_ns();
    bn_real *grad = bn_tree_take(s->t->tree);
    if (grad == NULL) {
        atomic_store(&s->failed, true);
        return;
    }
    *ns += bn_clock_ns() - begin;
    s->losses[i] = 0;
    for (uint64_t j = 0; j < settings->n_slices; j++)
        s->losses[i] +=
            run_slice(s, thread, s->first + (i * settings->n_slices + j) * settings->n_sequences, grad);
    begin = bn_clock_ns();
    bn_tree_done(s->t->tree, i, grad);
    *ns += bn_clock_ns() - begin;
}

/* The mean loss and the sum of the gradients. */
static bn_status run_step(struct bn_trainer *t, const struct bn_corpus *corpus, uint64_t first, double *loss,
                          bn_real **grad, bn_error *err)
{
    const struct bn_train_settings *settings = &t->settings;
    size_t n = (size_t)settings->n_sequences * settings->hp.n_ctx;
    struct step s = {.t = t, .corpus = corpus, .first = first};
    size_t first_micro, end_micro;
    uint64_t begin = bn_clock_ns();
    bn_train_ranks_part(t->ranks, settings->n_micro, &first_micro, &end_micro);
    s.losses = bn_alloc(settings->n_micro, sizeof *s.losses);
    s.ids = bn_alloc(2 * bn_team_size(t->team) * n, sizeof *s.ids);
    s.times = bn_alloc(bn_team_size(t->team), sizeof *s.times);
    bn_status status = s.losses != NULL && s.ids != NULL && s.times != NULL ? BN_OK : bn_nomem(err);
    if (status == BN_OK) bn_team_each(t->team, first_micro, end_micro, run_micro_batch, &s);
    for (unsigned i = 0; i < bn_team_size(t->team) && status == BN_OK; i++) {
        t->times.forward_ns += s.times[i].forward_ns;
        t->times.backward_ns += s.times[i].backward_ns;
        t->times.reduce_ns += s.times[i].reduce_ns;
    }
    if (atomic_load(&s.failed)) status = bn_nomem(err);
    if (status == BN_OK && t->ranks != NULL) /* the losses and gradients of all ranks */
        status = bn_train_ranks_sum(t->ranks, t->tree, s.losses, settings->n_micro, bn_clock_ns() - begin,
                                    grad, err);
    else if (status == BN_OK)
        *grad = bn_tree_get(t->tree, 1);
    double sum = 0;
    for (uint32_t i = 0; i < settings->n_micro && status == BN_OK; i++)
        sum += s.losses[i];
    *loss = sum / (double)bn_train_step_tokens(settings);
    bn_free(s.losses);
    bn_free(s.ids);
    bn_free(s.times);
    return status;
}

bn_status bn_trainer_step(struct bn_trainer *t, const struct bn_corpus *main, const struct bn_corpus *late,
                          bool *finite, bn_error *err)
{
    const struct bn_train_settings *s = &t->settings;
    uint32_t late_from = s->late < 1 ? (uint32_t)(s->late * s->schedule.n_steps) : s->schedule.n_steps;
    uint32_t first = t->step >= late_from ? late_from : 0;
    const struct bn_corpus *corpus = t->step >= late_from && late != NULL ? late : main;
    double loss, factor = 1.0 / (double)bn_train_step_tokens(s);
    bn_real *grad = NULL;
    uint64_t begin = bn_clock_ns();
    BN_TRY(bn_train_ranks_lead(t, BN_TRAIN_STEP, 0, err));
    BN_TRY(run_step(t, corpus, (uint64_t)(t->step - first) * s->n_micro * s->n_slices * s->n_sequences, &loss,
                    &grad, err));
    uint64_t between = bn_clock_ns();
    double norm = bn_gradient_norm(grad, t->weights.n_values, t->team) * factor;
    *finite = isfinite(loss) && isfinite(norm);
    if (*finite) {
        if (s->schedule.muon)
            bn_muon_step(&t->weights, t->moment_1, grad, factor, &s->schedule, t->step, t->scratch, t->team);
        bn_adam_step(&t->weights, t->moment_1, t->moment_2, grad, factor, norm, &s->schedule, t->step++,
                     t->team);
    }
    bn_tree_give(t->tree, grad);
    t->times.passes_ns += between - begin;
    t->times.optimiser_ns += bn_clock_ns() - between;
    return bn_train_curve_add(&t->curve, (struct bn_train_point){t->step + (*finite ? 0 : 1), loss, norm},
                              err);
}

bn_status bn_train_curve_add(struct bn_train_curve *curve, struct bn_train_point point, bn_error *err)
{
    BN_TRY(bn_array_grow(&curve->points, &curve->room, curve->n + 1, sizeof *curve->points, err));
    curve->points[curve->n++] = point;
    return BN_OK;
}

/* ---- validation ---- */

struct scoring {
    struct bn_trainer *t;
    const int32_t *ids;
    size_t n_ids;
    double *nats;    /* of each slice */
    int32_t *inputs; /* for each thread, tokens and targets of a slice */
};

/* The windows of a slice; what is beyond the text has no target. */
static void score_slice(void *arg, unsigned thread, size_t slice)
{
    const struct scoring *s = arg;
    const struct bn_train_settings *settings = &s->t->settings;
    size_t T = settings->hp.n_ctx, n = settings->n_sequences * T, from = slice * n;
    int32_t *tokens = s->inputs + 2 * thread * n, *targets = tokens + n;
    for (size_t i = 0; i < n; i++) {
        size_t at = from + i;
        tokens[i] = at < s->n_ids ? s->ids[at] : 0;
        targets[i] = (i + 1) % T != 0 && at + 1 < s->n_ids ? s->ids[at + 1] : BN_NO_TARGET;
    }
    s->nats[slice] = bn_pass_run(s->t->passes[thread], tokens, targets, NULL);
}

bn_status bn_trainer_score(struct bn_trainer *t, const int32_t *ids, size_t n_ids, struct bn_train_score *out,
                           bn_error *err)
{
    size_t T = t->settings.hp.n_ctx, n = (size_t)t->settings.n_sequences * T, windows = (n_ids + T - 1) / T;
    size_t n_slices = (n_ids + n - 1) / n, first, end;
    struct scoring s = {.t = t, .ids = ids, .n_ids = n_ids};
    BN_TRY(bn_train_ranks_lead(t, BN_TRAIN_SCORE, n_ids, err));
    bn_train_ranks_part(t->ranks, n_slices, &first, &end);
    *out = (struct bn_train_score){.n_scored = n_ids - windows};
    s.nats = bn_alloc(n_slices, sizeof *s.nats);
    s.inputs = bn_alloc(2 * bn_team_size(t->team) * n, sizeof *s.inputs);
    bn_status status = s.nats != NULL && s.inputs != NULL ? BN_OK : bn_nomem(err);
    if (status == BN_OK) bn_team_each(t->team, first, end, score_slice, &s);
    if (status == BN_OK) status = bn_train_ranks_gather(t->ranks, s.nats, n_slices, err);
    for (size_t i = 0; i < n_slices && status == BN_OK; i++)
        out->nats += s.nats[i];
    bn_free(s.nats);
    bn_free(s.inputs);
    return status;
}
