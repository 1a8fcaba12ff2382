/* SPDX-License-Identifier: MIT
 *
 * bn-train bench: steps over random tokens, and the raw times of each. The statistics are those of bn-bench train, which
 * runs this program and so does not link the BLAS.
 *
 * Lines of JSON on standard output: the run; a step for each line of standard input; at its end memory and digest.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/random.h"
#include "lab/host/machine.h"
#include "lab/kit/put_counts.h"
#include "tools/cli/ranks.h"
#include "tools/train/train.h"
#include "train/ranks.h"
#include "train/trainer.h"

#define SCHEMA "bn.training/1"
#define MOST_STEPS 1000000u

static bn_status print_run(const struct bn_trainer *t, bn_error *err)
{
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", SCHEMA);
    bn_train_put_origin(doc);
    bn_train_settings_put(bn_json_put_object(doc, "settings"), &t->settings);
    bn_json *o = bn_json_put_object(doc, "parameters");
    BN_PUT_COUNTS(o, {"ternary", bn_weights_count(&t->weights, BN_PARAM_TERNARY)},
                  {"embedding", bn_weights_count(&t->weights, BN_PARAM_EMBEDDING)},
                  {"norms", bn_weights_count(&t->weights, BN_PARAM_NORM)});
    bn_json_put_u64(doc, "threads", bn_team_size(t->team));
    bn_json_put_number(doc, "flop_per_token", bn_pass_flop(&t->weights));
    return bn_cli_flush_json(doc, true, err);
}

/* One step. */
static bn_status print_step(struct bn_trainer *t, const struct bn_corpus *corpus, bn_error *err)
{
    const struct bn_train_times before = t->times, *now = &t->times;
    const struct bn_train_load load_before =
        t->ranks != NULL ? t->ranks->load : (struct bn_train_load){.n_steps = 0};
    bool finite = true;
    uint64_t begin = bn_clock_ns();
    BN_TRY(bn_trainer_step(t, corpus, NULL, &finite, err));
    uint64_t ns = bn_clock_ns() - begin;
    bn_json *doc = bn_json_new_object();
    BN_PUT_COUNTS(doc, {"ns", ns}, {"forward_ns", now->forward_ns - before.forward_ns},
                  {"backward_ns", now->backward_ns - before.backward_ns},
                  {"reduce_ns", now->reduce_ns - before.reduce_ns},
                  {"passes_ns", now->passes_ns - before.passes_ns},
                  {"optimiser_ns", now->optimiser_ns - before.optimiser_ns});
    if (t->ranks != NULL) {
        const struct bn_train_load *load = &t->ranks->load;
        bn_json_put_u64(doc, "exchange_bytes", load->bytes_sent - load_before.bytes_sent);
        bn_json_put_u64(doc, "exchange_ns",
                        load->exchanged_ns + load->waited_ns - load_before.exchanged_ns -
                            load_before.waited_ns);
    }
    bn_json_put_number(doc, "loss", t->curve.points[t->curve.n - 1].loss);
    return bn_cli_flush_json(doc, true, err);
}

static bn_status print_end(const struct bn_trainer *t, bn_error *err)
{
    char hex[BN_SHA256_HEX];
    struct bn_train_memory memory = bn_trainer_memory(t);
    bn_sha256_hex(t->weights.master, t->weights.n_values * sizeof *t->weights.master, hex);
    bn_json *doc = bn_json_new_object(), *o = bn_json_put_object(doc, "memory");
    BN_PUT_COUNTS(o, {"masters_bytes", memory.masters}, {"moments_bytes", memory.moments},
                  {"ternary_bytes", memory.ternary}, {"gradients_bytes", memory.gradients},
                  {"activations_bytes", memory.activations}, {"peak_rss_bytes", bn_machine_peak_rss_bytes()});
    bn_json_put_string(doc, "weights_sha256", hex);
    return bn_cli_flush_json(doc, true, err);
}

/* Random tokens for several steps. */
static bn_status make_corpus(struct bn_corpus *c, const struct bn_train_settings *s, bn_error *err)
{
    uint64_t state = s->seed;
    c->n = 4 * (size_t)bn_train_step_tokens(s) + s->hp.n_ctx + 1;
    BN_TRY(BN_NEW(c->ids, c->n, err));
    for (size_t i = 0; i < c->n; i++)
        c->ids[i] = (int32_t)(bn_splitmix64(&state) % s->hp.n_vocab);
    return BN_OK;
}

static bn_status steps(struct bn_trainer *t, const struct bn_corpus *corpus, bn_error *err)
{
    BN_TRY(print_run(t, err));
    for (int c; (c = getchar()) != EOF;)
        if (c == '\n') BN_TRY(print_step(t, corpus, err));
    BN_TRY(bn_train_ranks_lead(t, BN_TRAIN_FINISH, 0, err));
    return print_end(t, err);
}

bn_status bn_train_bench(struct bn_args *args, bn_error *err)
{
    struct bn_train_options *o = args->fields;
    struct bn_train_settings settings;
    struct bn_trainer trainer;
    struct bn_corpus corpus = {0};
    struct bn_ranks ranks;
    /* The schedule does not change the time of a step. */
    o->steps = MOST_STEPS;
    o->rate = o->rate_2 = 0.001;
    o->beta_1 = 0.9;
    o->beta_2 = 0.95;
    o->clip = 1;
    BN_TRY(bn_train_settings(&settings, o, o->vocab, err));
    BN_TRY(bn_cli_ranks_open(&ranks, err));
    bn_status status = bn_trainer_open(&trainer, &settings, bn_cli_ranks_threads(o->threads), err);
    if (status == BN_OK) status = make_corpus(&corpus, &settings, err);
    if (status == BN_OK) status = bn_trainer_join(&trainer, &ranks, err);
    if (status == BN_OK && ranks.index > 0) status = bn_trainer_follow(&trainer, &corpus, NULL, NULL, err);
    if (status == BN_OK && ranks.index == 0) status = steps(&trainer, &corpus, err);
    bn_corpus_release(&corpus);
    bn_trainer_close(&trainer);
    return bn_cli_ranks_close(&ranks, status, err);
}
