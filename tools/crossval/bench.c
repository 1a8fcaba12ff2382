/* SPDX-License-Identifier: MIT
 *
 * bn-crossval bench: speed compared with references. This engine runs in a process of its own like the
 * references and is asked through the same protocol, so the overhead of the protocol is in all figures.
 * Rounds go through the engines forwards and backwards in turn (A B B A): a machine that gets slower does so
 * for all. The verdict is that of bn-bench ab (lab/stats/judge.h). The samples are the document's series, the
 * verdicts its comparisons, as in documents of bn-bench.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/history/series.h"
#include "lab/stats/comparison.h"
#include "lab/stats/summary.h"
#include "tools/cli/report.h"
#include "tools/crossval/crossval.h"

enum phase { PROMPT, DECODE, PHASES };
static const char *const PHASE_NAMES[] = {"prompt", "decode"};

/* One engine: number 0 is this one. */
struct runner {
    struct bn_xref *ref;
    bool can;           /* has the capability */
    double *ns[PHASES]; /* n_reps samples, of one token */
    const struct bn_judgement
        *j[PHASES]; /* of this engine's times compared with those of the reference, or NULL */
};

struct bench {
    struct bn_crossval x;
    uint32_t tokens[PHASES], n_reps;
    char own[64];
    struct bn_xref own_ref;
    struct runner runners[BN_XREFS_MAX + 1];
    size_t n;
    struct bn_judgement judged[PHASES * BN_XREFS_MAX];
    size_t n_judged;
};

/* ---- measuring ---- */

static bool is_measured(const struct runner *r)
{
    return r->can && !r->ref->broken;
}

static bn_status start(struct bench *b, struct runner *r, bn_error *err)
{
    BN_TRY(bn_xref_start(&b->x, r->ref, err));
    r->can = !r->ref->broken && (r->ref->info.can & BN_CAN_BENCH) != 0;
    for (size_t p = 0; p < PHASES; p++) {
        r->ns[p] = bn_alloc(b->n_reps, sizeof *r->ns[p]);
        if (r->ns[p] == NULL) return bn_nomem(err);
    }
    return BN_OK;
}

/* A failure of the reference is recorded, and the reference is not asked again. */
static bn_status measure(struct bench *b, struct runner *r, size_t rep, bool counts, bn_error *err)
{
    bn_error why = {0};
    uint64_t ns[PHASES] = {0};
    if (!is_measured(r)) return BN_OK;
    bn_status status = bn_reference_bench(r->ref->process, b->tokens[PROMPT], b->tokens[DECODE],
                                          b->x.n_threads, &ns[PROMPT], &ns[DECODE], &why);
    BN_TRY(bn_xref_note(r->ref, status, &why, err));
    for (size_t p = 0; p < PHASES && counts && status == BN_OK; p++)
        if (b->tokens[p] > 0) r->ns[p][rep] = (double)ns[p] / b->tokens[p];
    return BN_OK;
}

/* The first round warms up and does not count. */
static bn_status take_rounds(struct bench *b, bn_error *err)
{
    for (size_t round = 0; round <= b->n_reps; round++)
        for (size_t i = 0; i < b->n; i++)
            BN_TRY(measure(b, &b->runners[round % 2 == 1 ? i : b->n - 1 - i], round - (round > 0), round > 0,
                           err));
    return BN_OK;
}

/* ---- the comparison ---- */

/* Judges all phases and references by the logarithms of the ratios, round by round; they are one family of
 * tests. */
static bn_status judge_all(struct bench *b, bn_error *err)
{
    static const struct bn_judge_rules rules = BN_JUDGE_RULES_INIT;
    const struct runner *own = &b->runners[0];
    double *d = bn_alloc(b->n_reps, sizeof *d);
    bn_status status = d != NULL ? BN_OK : bn_nomem(err);
    for (size_t i = 1; i < b->n && is_measured(own); i++)
        for (enum phase p = PROMPT; p < PHASES && status == BN_OK && is_measured(&b->runners[i]); p++) {
            struct runner *r = &b->runners[i];
            if (b->tokens[p] == 0) continue;
            for (size_t k = 0; k < b->n_reps; k++)
                d[k] = log(own->ns[p][k] / r->ns[p][k]);
            r->j[p] = &b->judged[b->n_judged];
            status = bn_judge_pairs(&b->judged[b->n_judged++], d, b->n_reps, NULL, 0, &rules, err);
        }
    bn_free(d);
    if (status == BN_OK && b->n_judged > 0) status = bn_judge_session(b->judged, b->n_judged, &rules, err);
    return status;
}

/* This engine's speed in times that of the reference. */
static double speedup(double change)
{
    return 1 / (1 + change);
}

/* ---- the gate ---- */

enum speed_gate { GATE_NONE, GATE_PASS, GATE_FAIL, GATE_NO_DATA };
static const char *const GATE_NAMES[] = {"", "pass", "fail", "no_data"};

/* The worst of all references and phases, by the estimated ratio of speeds. */
static enum speed_gate gate_of(const struct bench *b)
{
    double limit = b->x.options->fail_below;
    enum speed_gate worst = limit > 0 ? GATE_PASS : GATE_NONE;
    for (size_t i = 1; i < b->n && limit > 0; i++)
        for (enum phase p = PROMPT; p < PHASES; p++) {
            const struct bn_judgement *j = b->runners[i].j[p];
            if (b->tokens[p] == 0) continue;
            if (j == NULL || !isfinite(j->change)) return GATE_NO_DATA;
            if (speedup(j->change) < limit) worst = GATE_FAIL;
        }
    return worst;
}

/* ---- text ---- */

static const char *why_not(const struct runner *r)
{
    if (r->ref->broken) return r->ref->failure.msg;
    return r->can ? "" : "the reference does not have the capability bench";
}

static void put_row(struct bn_table *t, const struct bench *b, const struct runner *r, enum phase p)
{
    const struct bn_judgement *j = r->j[p];
    struct bn_summary s = {.median = (double)NAN};
    if (is_measured(r) && !bn_summarize(&s, r->ns[p], b->n_reps)) t->failed = true;
    bn_table_row(t, "");
    bn_table_text(t, PHASE_NAMES[p]);
    bn_table_text(t, r->ref->given);
    bn_table_printf(t, is_measured(r) ? "%.1f" : "-", 1e9 / s.median);
    bn_table_percent(t, s.mad / s.median, false);
    bn_table_printf(t, j != NULL ? "%.3g" : "", j != NULL ? speedup(j->change) : 0);
    if (j != NULL && isfinite(j->low))
        bn_table_printf(t, "%.3g - %.3g", speedup(j->high), speedup(j->low));
    else
        bn_table_text(t, "");
    bn_table_text(t, j != NULL ? bn_outcome_name(j->outcome) : is_measured(r) ? "" : "not measured");
    if (j != NULL && !isfinite(j->low))
        bn_table_text(t, j->reason);
    else
        bn_table_printf(t, "%s%s%s", why_not(r), r->ref->last_words[0] != '\0' ? "; its last output: " : "",
                        r->ref->last_words);
}

static bn_status print_text(const struct bench *b, bn_error *err)
{
    static const char *const HEADS[] = {"phase", "engine",        "tok/s",   "+-",
                                        "ratio", "95 % interval", "verdict", "note"};
    enum speed_gate gate = gate_of(b);
    struct bn_buf out = {.max = 1u << 20};
    struct bn_table t = {0};
    bn_table_begin(&t, HEADS, "llrrrrln");
    for (enum phase p = PROMPT; p < PHASES; p++)
        for (size_t i = 0; i < b->n && b->tokens[p] > 0; i++)
            put_row(&t, b, &b->runners[i], p);
    bn_buf_printf(&out,
                  "%u prompt and %u decoded tokens, %u thread%s; %u rounds in the order A B B A, after 1 "
                  "warm-up round; ratio: the speed of bn by that of the engine\n",
                  b->tokens[PROMPT], b->tokens[DECODE], b->x.n_threads, b->x.n_threads == 1 ? "" : "s",
                  b->n_reps);
    bn_table_put_text(&out, &t);
    bn_table_release(&t);
    if (gate != GATE_NONE)
        bn_buf_printf(&out, "gate: %s; bn is required to be at least %g times as fast\n",
                      gate == GATE_PASS   ? "pass"
                      : gate == GATE_FAIL ? "FAIL"
                                          : "FAIL, no data",
                      b->x.options->fail_below);
    return bn_crossval_flush(&out, err);
}

/* ---- the document ---- */

/* "decode n=32 t=2 llama.cpp"; the same words in every run. */
static void name_test(char out[500], const struct bench *b, const struct runner *r, enum phase p)
{
    char label[400];
    const char *given = r->ref->given;
    bn_escape(label, sizeof label, given, strlen(given));
    snprintf(out, 500, "%s n=%u t=%u %s%s", PHASE_NAMES[p], b->tokens[p], b->x.n_threads,
             r == &b->runners[0] ? "" : "reference ", label);
}

/* The samples of one engine in one phase, and how this engine (B) compares with it (A). */
static bn_status add_measurement(struct bn_series_list *series, struct bn_comparison *comparison,
                                 const struct bench *b, const struct runner *r, enum phase p, char test[500],
                                 bn_error *err)
{
    struct bn_summary a, own;
    name_test(test, b, r, p);
    struct bn_series one = {
        .test = test, .metric = "ns_per_token", .unit = "ns", .samples = r->ns[p], .n = b->n_reps};
    /* The same reference twice is one series. */
    if (bn_series_find(series, test, one.metric) == NULL) BN_TRY(bn_series_add(series, &one, err));
    if (r->j[p] == NULL) return BN_OK;
    if (!bn_summarize(&a, r->ns[p], b->n_reps) || !bn_summarize(&own, b->runners[0].ns[p], b->n_reps))
        return bn_nomem(err);
    *comparison = (struct bn_comparison){.test = test,
                                         .metric = "ns_per_token",
                                         .unit = "ns",
                                         .n_a = b->n_reps,
                                         .n_b = b->n_reps,
                                         .median_a = a.median,
                                         .median_b = own.median,
                                         .j = *r->j[p]};
    return BN_OK;
}

static bn_status put_measurements(bn_json *doc, const struct bench *b, bn_error *err)
{
    struct bn_series_list series = {0};
    struct bn_comparison list[PHASES * BN_XREFS_MAX];
    char names[PHASES * (BN_XREFS_MAX + 1)][500];
    size_t n = 0, n_tests = 0;
    bn_status status = BN_OK;
    for (size_t i = 0; i < b->n; i++)
        for (enum phase p = PROMPT; p < PHASES && status == BN_OK; p++) {
            const struct runner *r = &b->runners[i];
            if (!is_measured(r) || b->tokens[p] == 0) continue;
            status = add_measurement(&series, &list[n], b, r, p, names[n_tests++], err);
            n += r->j[p] != NULL;
        }
    if (status == BN_OK) bn_series_put(doc, &series);
    if (status == BN_OK) bn_comparisons_put(doc, "comparisons", list, n);
    bn_series_release(&series);
    return status;
}

static void put_runner(bn_json *list, const struct runner *r)
{
    bn_json *o = bn_crossval_put_program(list, r->ref);
    bn_json_put_string(o, "status", r->ref->broken ? "failed" : r->can ? "measured" : "skipped");
    bn_json_put_text(o, "reason", why_not(r));
}

static bn_status print_json(const struct bench *b, bn_error *err)
{
    bn_json *doc = bn_crossval_document(&b->x);
    bn_json *method = bn_json_put_object(doc, "method");
    bn_json_put_u64(method, "prompt_tokens", b->tokens[PROMPT]);
    bn_json_put_u64(method, "decode_tokens", b->tokens[DECODE]);
    bn_json_put_u64(method, "rounds", b->n_reps);
    bn_json *list = bn_json_put_array(doc, "engines");
    for (size_t i = 0; i < b->n; i++)
        put_runner(list, &b->runners[i]);
    if (gate_of(b) != GATE_NONE) {
        bn_json *gate = bn_json_put_object(doc, "gate");
        bn_json_put_number(gate, "fail_below", b->x.options->fail_below);
        bn_json_put_string(gate, "status", GATE_NAMES[gate_of(b)]);
    }
    bn_status status = put_measurements(doc, b, err);
    bn_json_put_u64(doc, "exit_code", (uint64_t)b->x.args->exit_code);
    if (status == BN_OK) status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}

/* ---- the command ---- */

static bn_status read_options(struct bench *b, const struct bn_args *args, bn_error *err)
{
    const char *isa = bn_args_given(args, &args->isa) ? args->isa : "";
    const struct bn_crossval_options *o = args->fields;
    b->tokens[PROMPT] = o->n_prompt;
    b->tokens[DECODE] = o->n_decode;
    b->n_reps = o->n_reps;
    BN_TRY(bn_crossval_open_model(&b->x, args, err)); /* refuses an unknown instruction set */
    BN_TRY(bn_xrefs_take(&b->x, err));
    if (b->tokens[PROMPT] + b->tokens[DECODE] > bn_model_hparams(b->x.model)->n_ctx)
        return bn_fail(err, BN_ERR_LIMIT, "%u prompt and %u decoded tokens do not fit into the context of %u",
                       b->tokens[PROMPT], b->tokens[DECODE], bn_model_hparams(b->x.model)->n_ctx);
    snprintf(b->own, sizeof b->own, "bn%s%s", isa[0] != '\0' ? " --isa " : "", isa);
    b->own_ref.given = b->own;
    b->runners[b->n++].ref = &b->own_ref;
    for (size_t i = 0; i < b->x.n_refs; i++)
        b->runners[b->n++].ref = &b->x.refs[i];
    return BN_OK;
}

/* 0 only when every engine was measured, and the gate passed. */
static int exit_of(const struct bench *b)
{
    int code = gate_of(b) > GATE_PASS ? BN_EXIT_NEGATIVE : BN_EXIT_OK;
    for (size_t i = 0; i < b->n; i++)
        if (!is_measured(&b->runners[i])) code = BN_EXIT_NEGATIVE;
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
    BN_TRY(judge_all(b, err));
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
