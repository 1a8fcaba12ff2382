/* SPDX-License-Identifier: MIT
 *
 * A run: its settings from the options, its ranks, and the loop: steps, validations and checkpoints at fixed step numbers, so that an interrupted run leaves the
 * same files as one that was not.
 */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/elementary.h"
#include "lab/report/units.h"
#include "tools/train/train.h"
#include "train/ranks.h"
#include "train/trainer.h"

/* ---- settings ---- */

bn_status bn_train_settings(struct bn_train_settings *s, const struct bn_train_options *o, uint32_t n_vocab,
                            bn_error *err)
{
    static const char *const ARCHS[] = {"bitnet-b1.58", "qwen3"};
    static const uint32_t GROUPS[] = {0, 64, 128, 256};
    uint32_t heads = o->heads != 0 ? o->heads : o->width >= 64 ? o->width / 64 : 1;
    *s = (struct bn_train_settings){
        .group = GROUPS[o->group], .seed = o->seed, .late = o->late_texts.n > 0 ? o->late : 1};
    s->hp = (bn_hparams){.n_vocab = n_vocab,
                         .n_ctx = o->context,
                         .n_embd = o->width,
                         .n_layer = o->layers,
                         .n_ff = o->ffn != 0 ? o->ffn : 3 * o->width,
                         .n_head = heads,
                         .n_head_kv = o->kv_heads != 0 ? o->kv_heads
                                      : heads % 2 == 0 ? heads / 2
                                                       : heads,
                         .head_dim = o->width / heads,
                         .rms_eps = 1e-5f,
                         .rope_base = (float)o->rope_base};
    s->schedule =
        (struct bn_train_schedule){o->steps,   o->warm_up, o->stage_2, o->rate, o->rate_2, o->decay,
                                   o->decay_2, o->beta_1,  o->beta_2,  1e-8,    o->clip,   o->optimiser == 1};
    /* A slice has about 512 tokens: enough for fast products, few enough for the caches. */
    uint32_t micro = o->micro_batch < o->batch ? o->micro_batch : o->batch;
    s->n_sequences = o->context < 512 && 512 % o->context == 0 && micro % 512 == 0 ? 512 / o->context : 1;
    uint32_t slice = s->n_sequences * o->context;
    if (micro % slice != 0 || o->batch % micro != 0)
        return bn_hint(bn_fail(err, BN_ERR_ARG,
                               "%u tokens a step are not whole micro-batches of %u tokens, or these not "
                               "whole windows of %u",
                               o->batch, micro, o->context),
                       err, "--batch %u --micro-batch %u", 16 * o->context, 4 * o->context);
    s->n_slices = micro / slice;
    s->n_micro = o->batch / micro;
    if (s->n_micro > 65536) /* more are refused by who repeats the run */
        return bn_fail(err, BN_ERR_ARG, "%u micro-batches in a step, at most 65536 are possible", s->n_micro);
    return bn_train_architecture(&s->hp, ARCHS[o->arch], err);
}

/* ---- ranks: rank 0 has all files; the others get settings, tokens and weights from it ---- */

static bn_status share_texts(struct bn_train_run *run, bn_error *err)
{
    BN_TRY(bn_corpus_share(&run->texts.main, &run->ranks, err));
    BN_TRY(bn_corpus_share(&run->texts.late, &run->ranks, err));
    return bn_corpus_share(&run->texts.validation, &run->ranks, err);
}

bn_status bn_train_lead(struct bn_train_run *run, bn_error *err)
{
    const struct bn_ranks *ranks = &run->ranks;
    struct bn_train_settings *s = &run->trainer.settings;
    if (ranks->count == 1) return BN_OK;
    if (ranks->count > s->n_micro)
        bn_report_warning("a step has %u micro-batches for %u ranks; the others have no work: use a smaller "
                          "--micro-batch or a larger --batch",
                          s->n_micro, ranks->count);
    BN_TRY(ranks->broadcast(ranks->context, 0, s, sizeof *s, err));
    BN_TRY(share_texts(run, err));
    return bn_trainer_join(&run->trainer, ranks, err);
}

bn_status bn_train_follow(struct bn_train_run *run, bn_error *err)
{
    const struct bn_ranks *ranks = &run->ranks;
    struct bn_train_settings settings;
    /* Rank 0 decides when an interrupted run ends. */
    bn_cli_catch_interrupt();
    BN_TRY(ranks->broadcast(ranks->context, 0, &settings, sizeof settings, err));
    BN_TRY(share_texts(run, err));
    BN_TRY(bn_trainer_open(&run->trainer, &settings, bn_cli_ranks_threads(run->options->threads), err));
    BN_TRY(bn_trainer_join(&run->trainer, ranks, err));
    return bn_trainer_follow(&run->trainer, &run->texts.main, run->texts.late.n > 0 ? &run->texts.late : NULL,
                             &run->texts.validation, err);
}

struct bn_train_shares bn_train_shares(const struct bn_trainer *t)
{
    const struct bn_train_load *load = &t->ranks->load;
    double all = (double)(t->times.passes_ns + t->times.optimiser_ns), steps = (double)load->n_steps;
    if (load->n_steps == 0 || load->mean_ns == 0) return (struct bn_train_shares){.balance = 1};
    return (struct bn_train_shares){.exchange = (double)load->exchanged_ns / all,
                                    .wait = (double)load->waited_ns / all,
                                    .balance = (double)load->longest_ns / (double)load->mean_ns,
                                    .bytes = (double)load->bytes_sent / steps,
                                    .messages = (double)load->messages_sent / steps};
}

/* ---- messages ---- */

static double rate_of(const struct bn_train_run *run)
{
    double seconds = (double)(bn_clock_ns() - run->began_ns) * 1e-9;
    uint64_t tokens = (run->trainer.step - run->began_step) * bn_train_step_tokens(&run->trainer.settings);
    return seconds > 0 ? (double)tokens / seconds : 0;
}

/* "step 120/1000  loss 3.214  5.1k tok/s  ETA 4:16" */
static void report_step(const struct bn_train_run *run, const char *what, double loss)
{
    const struct bn_trainer *t = &run->trainer;
    uint32_t n = t->settings.schedule.n_steps;
    char rate[BN_UNITS_ROOM], time[BN_PROGRESS_TIME_ROOM];
    double tokens = (double)(n - t->step) * (double)bn_train_step_tokens(&t->settings), speed = rate_of(run);
    bn_report_note(0, "step %u/%u  %s %.4f  %s  ETA %s", t->step, n, what, loss,
                   bn_units_text(rate, speed, "tok/s"),
                   bn_progress_time(time, speed > 0 ? (uint64_t)(tokens / speed) : 0));
}

static double last_loss(const struct bn_train_curve *curve)
{
    for (size_t i = curve->n; i-- > 0;)
        if (!(curve->points[i].norm < 0)) return curve->points[i].loss;
    return (double)NAN;
}

/* ---- validations and checkpoints ---- */

static bn_status validate(struct bn_train_run *run, bn_error *err)
{
    struct bn_trainer *t = &run->trainer;
    const struct bn_corpus *v = &run->texts.validation;
    struct bn_train_score score;
    if (v->n < 2) return BN_OK;
    BN_TRY(bn_trainer_score(t, v->ids, v->n, &score, err));
    double loss = score.nats / (double)score.n_scored;
    BN_TRY(bn_train_curve_add(&t->curve, (struct bn_train_point){t->step, loss, -1}, err));
    bn_report_note(0, "step %u/%u  validation %.4f  perplexity %.3f  %.4f bits per byte", t->step,
                   t->settings.schedule.n_steps, loss, bn_exp(loss), bn_train_bits_per_byte(v, loss));
    return BN_OK;
}

static bn_status save(struct bn_train_run *run, bn_error *err)
{
    char path[PATH_MAX];
    const struct bn_buf *file = &run->texts.tokenizer_file;
    if (run->saved && run->saved_step == run->trainer.step) return BN_OK;
    snprintf(path, sizeof path, "%s/" BN_CHECKPOINT_NAME, run->options->output);
    BN_TRY(bn_checkpoint_write(path, &run->trainer, run->document, (struct bn_str){file->data, file->len},
                               run->sha256, err));
    run->saved = true;
    run->saved_step = run->trainer.step;
    return BN_OK;
}

/* ---- the loop ---- */

static bool is_time(const struct bn_train_run *run, uint32_t every)
{
    return every != 0 && run->trainer.step % every == 0;
}

static bool limit_reached(const struct bn_train_run *run)
{
    const struct bn_train_options *o = run->options;
    uint64_t seconds = (bn_clock_ns() - run->began_ns) / 1000000000u;
    return (o->until != 0 && run->trainer.step >= o->until) ||
           (o->time_limit != 0 && seconds >= o->time_limit);
}

static bn_status after_step(struct bn_train_run *run, uint32_t report_every, bn_error *err)
{
    bool last = run->trainer.step == run->trainer.settings.schedule.n_steps;
    if (is_time(run, report_every) && !last) report_step(run, "loss", last_loss(&run->trainer.curve));
    if (last || is_time(run, (uint32_t)bn_json_number_of(run->document, "validate_every")))
        BN_TRY(validate(run, err));
    if (last || is_time(run, (uint32_t)bn_json_number_of(run->document, "save_every")))
        BN_TRY(save(run, err));
    return BN_OK;
}

static bn_status loop(struct bn_train_run *run, struct bn_progress *bar, bn_error *err)
{
    struct bn_trainer *t = &run->trainer;
    const uint32_t n = t->settings.schedule.n_steps;
    const struct bn_corpus *late = run->texts.late.n > 0 ? &run->texts.late : NULL;
    uint32_t report_every = bar->on ? 0 : n / 100 + 1;
    char label[96], rate[BN_UNITS_ROOM];
    while (t->step < n && bn_cli_interrupted() == 0 && !limit_reached(run)) {
        bool finite = true;
        BN_TRY(bn_trainer_step(t, &run->texts.main, late, &finite, err));
        if (!finite) {
            run->failed = true;
            return BN_OK;
        }
        snprintf(label, sizeof label, "loss %.3f  %s", last_loss(&t->curve),
                 bn_units_text(rate, rate_of(run), "tok/s"));
        bar->label = label;
        if (is_time(run, (uint32_t)bn_json_number_of(run->document, "validate_every")))
            bn_progress_clear(bar);
        BN_TRY(after_step(run, report_every, err));
        bn_progress_show(bar, t->step);
    }
    bar->label = "";
    return save(run, err);
}

static void summarise(const struct bn_train_run *run)
{
    const struct bn_trainer *t = &run->trainer;
    double flop = bn_pass_flop(&t->weights) * rate_of(run);
    const struct bn_train_times *times = &t->times;
    double all = (double)(times->passes_ns + times->optimiser_ns) * bn_team_size(t->team);
    char rate[BN_UNITS_ROOM];
    if (t->step == run->began_step || !(all > 0)) return;
    bn_report_note(0, "%s, %.1f GFLOP/s; %.1f %% forward, %.1f %% backward, %.1f %% optimiser",
                   bn_units_text(rate, rate_of(run), "tok/s"), flop * 1e-9,
                   100 * (double)times->forward_ns / all, 100 * (double)times->backward_ns / all,
                   100 * (double)times->optimiser_ns * bn_team_size(t->team) / all);
    if (t->ranks == NULL) return;
    struct bn_train_shares s = bn_train_shares(t);
    bn_report_note(0,
                   "%u ranks: %.1f %% of the time exchanging gradients, %.1f %% waiting; load %.2f (slowest "
                   "rank over mean); %s sent by a rank in a step",
                   run->ranks.count, 100 * s.exchange, 100 * s.wait, s.balance,
                   bn_units_text(rate, s.bytes, "bytes"));
}

static bn_status write_results(struct bn_train_run *run, bn_error *err)
{
    const struct bn_trainer *t = &run->trainer;
    const struct bn_buf *file = &run->texts.tokenizer_file;
    char path[PATH_MAX], hex[BN_SHA256_HEX] = "";
    if (t->step == t->settings.schedule.n_steps && !run->failed) {
        snprintf(path, sizeof path, "%s/model.gguf", run->options->output);
        BN_TRY(bn_train_write_model(path, &t->weights, (struct bn_str){file->data, file->len},
                                    &run->options->file, hex, err));
        if (!run->args->json) printf("%s  %s\n", hex, path);
    }
    return bn_train_write_record(run, hex, err);
}

bn_status bn_train_run(struct bn_train_run *run, bn_error *err)
{
    struct bn_trainer *t = &run->trainer;
    struct bn_progress bar;
    run->began_ns = bn_clock_ns();
    run->began_step = t->step;
    bn_cli_catch_interrupt();
    bn_progress_begin(&bar, "", t->settings.schedule.n_steps, run->args->quiet);
    bn_status status = loop(run, &bar, err);
    bn_progress_clear(&bar);
    BN_TRY(status);
    BN_TRY(bn_train_ranks_lead(t, BN_TRAIN_FINISH, 0, err));
    summarise(run);
    BN_TRY(write_results(run, err));
    if (run->failed) {
        run->args->exit_code = BN_EXIT_NEGATIVE;
        bn_report_note(0, "step %u: the loss is not finite (%g); the run ends. %s", t->step + 1,
                       last_loss(&t->curve),
                       run->saved ? "The last checkpoint is kept" : "There is no checkpoint");
    } else if (t->step < t->settings.schedule.n_steps) {
        if (bn_cli_interrupted() != 0) run->args->exit_code = 128 + bn_cli_interrupted();
        bn_report_note(0, "stopped after step %u of %u; continue with: bn-train resume -o %s", t->step,
                       t->settings.schedule.n_steps, run->options->output);
    }
    return BN_OK;
}

void bn_train_run_release(struct bn_train_run *run)
{
    bn_trainer_close(&run->trainer);
    bn_train_texts_release(&run->texts);
    bn_json_free(run->document);
}
