/* SPDX-License-Identifier: MIT
 *
 * Speed beside references. This engine is a process like every other and asked through the same protocol, so
 * that what the protocol costs is in all figures. Rounds go through the engines forwards and backwards in
 * turn (A B B A): a machine that gets slower does so for all.
 */
#include <stdio.h>

#include "base/error.h"
#include "lab/host/machine.h"
#include "lab/stats/interval.h"
#include "lab/stats/summary.h"
#include "tools/cli/default_model.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"
#include "tools/crossval/crossval.h"

#define SCHEMA "bn.crossval-bench/1"
#define RESAMPLES 2000u
#define REPS_MAX 1000u

enum phase { PROMPT, DECODE, PHASES };
static const char *const PHASE_NAMES[] = {"prompt", "decode"};

/* One engine: number 0 is this one. */
struct runner {
    struct bn_xref *ref;
    bool can;           /* has the capability */
    double *ns[PHASES]; /* n_reps samples */
    struct bn_summary of[PHASES];
};

struct bench {
    struct bn_crossval x;
    uint32_t tokens[PHASES], n_reps;
    char own[64];
    struct bn_xref own_ref;
    struct runner runners[BN_XREFS_MAX + 1];
    size_t n;
};

/* ---- measuring ---- */

static bool is_sound(const struct runner *r)
{
    return r->can && !r->ref->broken;
}

static bn_status start(struct bench *b, struct runner *r, bn_error *err)
{
    if (strncmp(r->ref->given, "dump:", 5) == 0) {
        r->ref->started = true;
        return BN_OK; /* recorded logits compute nothing */
    }
    BN_TRY(bn_xref_start(&b->x, r->ref, err));
    r->can = !r->ref->broken && (r->ref->info.can & BN_CAN_BENCH) != 0;
    for (size_t p = 0; p < PHASES; p++) {
        r->ns[p] = bn_alloc(b->n_reps, sizeof *r->ns[p]);
        if (r->ns[p] == NULL) return bn_nomem(err);
    }
    return BN_OK;
}

/* A failure is the reference's: it is noted, and it is not asked again. */
static bn_status measure(struct bench *b, struct runner *r, size_t rep, bool counts, bn_error *err)
{
    bn_error why = {0};
    uint64_t ns[PHASES] = {0};
    if (!is_sound(r)) return BN_OK;
    bn_status status = bn_reference_bench(r->ref->process, b->tokens[PROMPT], b->tokens[DECODE],
                                          b->x.n_threads, &ns[PROMPT], &ns[DECODE], &why);
    if (status == BN_ERR_NOMEM || status == BN_ERR_CANCELLED) {
        *err = why;
        return status;
    }
    if (status != BN_OK) bn_xref_failed(r->ref, &why);
    for (size_t p = 0; p < PHASES && counts && status == BN_OK; p++)
        r->ns[p][rep] = (double)ns[p];
    return BN_OK;
}

/* The first round warms up and does not count. */
static bn_status take_rounds(struct bench *b, bn_error *err)
{
    for (size_t round = 0; round <= b->n_reps; round++)
        for (size_t i = 0; i < b->n; i++)
            BN_TRY(measure(b, &b->runners[round % 2 == 1 ? i : b->n - 1 - i], round - (round > 0), round > 0,
                           err));
    for (size_t i = 0; i < b->n; i++)
        for (size_t p = 0; p < PHASES && is_sound(&b->runners[i]); p++)
            if (!bn_summarize(&b->runners[i].of[p], b->runners[i].ns[p], b->n_reps)) return bn_nomem(err);
    return BN_OK;
}

/* ---- the ratio of medians, and its interval ---- */

/* Of rows "ours, theirs"; the context is room for one column. */
static double ratio_of_medians(double *rows, size_t n, void *column)
{
    double medians[2], *values = column;
    for (size_t side = 0; side < 2; side++) {
        for (size_t i = 0; i < n; i++)
            values[i] = rows[2 * i + side];
        medians[side] = bn_median_of(values, n, NULL);
    }
    return medians[1] / medians[0];
}

/* Whole rounds are drawn, since what disturbs one engine in a round disturbs the other; the seed is fixed, so
 * that the same samples give the same interval. */
static bn_status compare(struct bn_interval *out, const struct bench *b, const struct runner *r, enum phase p,
                         bn_error *err)
{
    size_t n = b->n_reps;
    double *rows = bn_alloc(3 * n, sizeof *rows);
    if (rows == NULL) return bn_nomem(err);
    for (size_t i = 0; i < n; i++) {
        rows[2 * i] = b->runners[0].ns[p][i];
        rows[2 * i + 1] = r->ns[p][i];
    }
    struct bn_bootstrap how = {
        .of = ratio_of_medians, .context = rows + 2 * n, .width = 2, .n_draws = RESAMPLES, .seed = 1};
    bn_status status = bn_interval_bootstrap(out, rows, n, &how, err);
    bn_free(rows);
    return status;
}

/* ---- output ---- */

static const char *why_not(const struct runner *r)
{
    if (r->ref->broken) return r->ref->failure.msg;
    return r->can ? NULL : "the reference has not the capability bench";
}

static void print_line(const struct bench *b, const struct runner *r, enum phase p)
{
    const struct bn_summary *s = &r->of[p];
    double n = b->tokens[p];
    char label[400];
    bn_escape(label, sizeof label, bn_xref_label(r->ref), strlen(bn_xref_label(r->ref)));
    printf("%-7s %6u %10.1f %10.1f %10.1f %6.1f  %s\n", PHASE_NAMES[p], b->tokens[p], n * 1e9 / s->median,
           n * 1e9 / s->max, n * 1e9 / s->min, 100 * s->mad / s->median, label);
}

static bn_status print_ratio(const struct bench *b, const struct runner *r, enum phase p, bn_error *err)
{
    struct bn_interval ratio; /* time of the reference over time of this engine */
    char label[400];
    BN_TRY(compare(&ratio, b, r, p, err));
    bn_escape(label, sizeof label, bn_xref_label(r->ref), strlen(bn_xref_label(r->ref)));
    printf("%s: this engine is %.3g times as fast as %s, 95 %% interval %.3g to %.3g\n", PHASE_NAMES[p],
           ratio.estimate, label, ratio.low, ratio.high);
    return BN_OK;
}

static bn_status print_text(const struct bench *b, bn_error *err)
{
    printf("%u thread%s, %u rounds that count, A B B A, behind 1 that does not\n\n", b->x.n_threads,
           b->x.n_threads == 1 ? "" : "s", b->n_reps);
    printf("        tokens      tok/s        min        max   +- %%\n");
    for (enum phase p = PROMPT; p < PHASES; p++)
        for (size_t i = 0; i < b->n && b->tokens[p] > 0; i++)
            if (is_sound(&b->runners[i])) print_line(b, &b->runners[i], p);
    putchar('\n');
    for (size_t i = 0; i < b->n; i++) {
        const struct runner *r = &b->runners[i];
        char label[400];
        bn_escape(label, sizeof label, bn_xref_label(r->ref), strlen(bn_xref_label(r->ref)));
        if (why_not(r) != NULL) printf("%s: not measured: %s\n", label, why_not(r));
        if (r->ref->last_words[0] != '\0') printf("  its last words: %s\n", r->ref->last_words);
        for (enum phase p = PROMPT; p < PHASES && i > 0; p++)
            if (is_sound(r) && is_sound(&b->runners[0]) && b->tokens[p] > 0)
                BN_TRY(print_ratio(b, r, p, err));
    }
    return BN_OK;
}

static bn_status put_phase(bn_json *object, const struct bench *b, const struct runner *r, enum phase p,
                           bn_error *err)
{
    const struct bn_summary *s = &r->of[p];
    struct bn_interval ratio; /* time of the reference over time of this engine */
    bn_json *phase = bn_json_put_object(object, PHASE_NAMES[p]);
    bn_json *samples = bn_json_put_array(phase, "ns");
    for (size_t i = 0; i < b->n_reps; i++)
        bn_json_add_number(samples, r->ns[p][i]);
    bn_json_put_number(phase, "median_ns", s->median);
    bn_json_put_number(phase, "min_ns", s->min);
    bn_json_put_number(phase, "max_ns", s->max);
    bn_json_put_number(phase, "mad_ns", s->mad);
    bn_json_put_number(phase, "tokens_per_second", b->tokens[p] * 1e9 / s->median);
    if (r == &b->runners[0] || !is_sound(&b->runners[0])) return BN_OK;
    BN_TRY(compare(&ratio, b, r, p, err));
    bn_json *against = bn_json_put_object(phase, "ratio");
    bn_json_put_number(against, "value", ratio.estimate);
    bn_json_put_number(against, "low", ratio.low);
    bn_json_put_number(against, "high", ratio.high);
    return BN_OK;
}

static bn_status put_runner(bn_json *list, const struct bench *b, const struct runner *r, bn_error *err)
{
    const struct bn_reference_info *info = &r->ref->info;
    bn_json *o = bn_json_add_object(list);
    bn_json_put_string(o, "reference", bn_xref_label(r->ref));
    bn_json_put_string(o, "name", info->name);
    bn_json_put_string(o, "version", info->version[0] != '\0' ? info->version : NULL);
    bn_json_put_string(o, "commit", info->commit[0] != '\0' ? info->commit : NULL);
    bn_json_put_string(o, "run_as", r->ref->command);
    bn_json_put_string(o, "model", r->ref->model != b->x.model_path ? r->ref->model : NULL);
    bn_json_put_string(o, "status", r->ref->broken ? "failed" : r->can ? "measured" : "skipped");
    if (why_not(r) != NULL) bn_json_put_string(o, "reason", why_not(r));
    for (enum phase p = PROMPT; p < PHASES; p++)
        if (is_sound(r) && b->tokens[p] > 0) BN_TRY(put_phase(o, b, r, p, err));
    return BN_OK;
}

static bn_status print_json(const struct bench *b, bn_error *err)
{
    bn_json *doc = bn_crossval_document(&b->x, SCHEMA, "bench");
    bn_json *method = bn_json_put_object(doc, "method");
    bn_json_put_u64(method, "prompt_tokens", b->tokens[PROMPT]);
    bn_json_put_u64(method, "decode_tokens", b->tokens[DECODE]);
    bn_json_put_u64(method, "rounds", b->n_reps);
    bn_json_put_u64(method, "warmup", 1);
    bn_json_put_string(method, "order", "ABBA");
    bn_json_put_string(method, "ratio", "median of the reference's times over the median of this engine's");
    bn_json_put_string(method, "interval", "percentile bootstrap of whole rounds, 95 %");
    bn_json_put_u64(method, "resamples", RESAMPLES);
    bn_json *list = bn_json_put_array(doc, "engines");
    bn_status status = BN_OK;
    for (size_t i = 0; i < b->n && status == BN_OK; i++)
        status = put_runner(list, b, &b->runners[i], err);
    bn_json_put_u64(doc, "exit_code", (uint64_t)b->x.args->exit_code);
    if (status == BN_OK) status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}

/* ---- the command ---- */

static bn_status read_options(struct bench *b, const struct bn_args *args, bn_error *err)
{
    const char *isa = bn_opt_given(args, "isa") ? bn_opt_str(args, "isa") : "";
    size_t n = bn_opt_count(args, "ref");
    if (n == 0 || n > BN_XREFS_MAX) {
        bn_fail(err, BN_ERR_ARG, n == 0 ? "no reference is given" : "too many references are given");
        bn_error_hint(err, "--ref 'bn --isa ref', or --ref 'COMMAND'; at most 8");
        return BN_ERR_ARG;
    }
    BN_TRY(bn_opt_u32(args, "prompt-tokens", 1, 1u << 20, &b->tokens[PROMPT], err));
    BN_TRY(bn_opt_u32(args, "n-predict", 0, 1u << 20, &b->tokens[DECODE], err));
    BN_TRY(bn_opt_u32(args, "reps", 2, REPS_MAX, &b->n_reps, err));
    BN_TRY(bn_crossval_open_model(&b->x, args, err)); /* which refuses an unknown instruction set */
    if (b->tokens[PROMPT] + b->tokens[DECODE] > bn_model_hparams(b->x.model)->n_ctx)
        return bn_fail(err, BN_ERR_LIMIT, "prompt and decode do not fit into the context of %u",
                       bn_model_hparams(b->x.model)->n_ctx);
    snprintf(b->own, sizeof b->own, "bn%s%s", isa[0] != '\0' ? " --isa " : "", isa);
    b->own_ref.given = b->own;
    b->runners[b->n++].ref = &b->own_ref;
    for (size_t i = 0; i < n; i++) {
        b->x.refs[i].given = bn_opt_at(args, "ref", i);
        b->runners[b->n++].ref = &b->x.refs[i];
        b->x.n_refs = i + 1;
    }
    return BN_OK;
}

/* 0 only when every engine was measured. */
static int exit_of(const struct bench *b)
{
    int code = BN_EXIT_OK;
    for (size_t i = 0; i < b->n; i++)
        if (!is_sound(&b->runners[i])) code = BN_EXIT_NEGATIVE;
    return code;
}

static bn_status run(struct bench *b, struct bn_args *args, bn_error *err)
{
    BN_TRY(read_options(b, args, err));
    for (size_t i = 0; i < b->n; i++)
        BN_TRY(start(b, &b->runners[i], err));
    BN_TRY(take_rounds(b, err));
    for (size_t i = 0; i < b->n; i++)
        bn_xref_finish(b->runners[i].ref);
    args->exit_code = exit_of(b);
    return args->json ? print_json(b, err) : print_text(b, err);
}

bn_status bn_crossval_bench(struct bn_args *args, bn_error *err)
{
    struct bench *b = bn_alloc(1, sizeof *b);
    if (b == NULL) return bn_nomem(err);
    bn_cli_catch_interrupt();
    bn_status status = run(b, args, err);
    if (bn_cli_interrupted() != 0) {
        status = BN_OK;
        args->exit_code = 128 + bn_cli_interrupted();
    }
    for (size_t i = 0; i < b->n; i++)
        for (size_t p = 0; p < PHASES; p++)
            bn_free(b->runners[i].ns[p]);
    bn_xref_end(&b->own_ref);
    bn_crossval_close(&b->x);
    bn_free(b);
    return status;
}
