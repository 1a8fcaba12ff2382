/* SPDX-License-Identifier: MIT
 *
 * bn-crossval bench: speed compared with references. This engine runs in a process of its own like the
 * references and is asked through the same protocol, so the overhead of the protocol is in all figures.
 * Rounds go through the engines forwards and backwards in turn (A B B A): a machine that gets slower does so
 * for all. The verdict is that of bn-bench ab (lab/stats/judge.h).
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/history/series.h"
#include "lab/stats/comparison.h"
#include "lab/stats/summary.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"
#include "tools/crossval/crossval.h"

#define SCHEMA "bn.crossval-bench/1"

enum phase { PROMPT, DECODE, PHASES };
static const char *const PHASE_NAMES[] = {"prompt", "decode"};

/* One engine: number 0 is this one. */
struct runner {
    struct bn_xref *ref;
    bool can;           /* has the capability */
    double *ns[PHASES]; /* n_reps samples */
    struct bn_summary of[PHASES];
    struct bn_judgement own[PHASES]; /* of this engine's times compared with those of the reference */
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

static bool is_measured(const struct runner *r)
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
        for (size_t p = 0; p < PHASES && is_measured(&b->runners[i]); p++)
            if (!bn_summarize(&b->runners[i].of[p], b->runners[i].ns[p], b->n_reps)) return bn_nomem(err);
    return BN_OK;
}

/* ---- the comparison ---- */

/* d holds the logarithms of the ratios, round by round. */
static bn_status judge(struct bench *b, struct runner *r, enum phase p, double *d, bn_error *err)
{
    static const struct bn_judge_rules rules = BN_JUDGE_RULES_INIT;
    for (size_t i = 0; i < b->n_reps; i++)
        d[i] = log(b->runners[0].ns[p][i] / r->ns[p][i]);
    return bn_judge_pairs(&r->own[p], d, b->n_reps, NULL, 0, &rules, err);
}

/* Judges all phases and references; they are one family of tests. */
static bn_status judge_all(struct bench *b, bn_error *err)
{
    static const struct bn_judge_rules rules = BN_JUDGE_RULES_INIT;
    struct bn_judgement list[PHASES * BN_XREFS_MAX], *of[PHASES * BN_XREFS_MAX];
    size_t n = 0;
    double *d = bn_alloc(b->n_reps, sizeof *d);
    bn_status status = d != NULL ? BN_OK : bn_nomem(err);
    for (size_t i = 1; i < b->n && is_measured(&b->runners[0]); i++)
        for (enum phase p = PROMPT; p < PHASES && status == BN_OK && is_measured(&b->runners[i]); p++) {
            if (b->tokens[p] == 0) continue;
            status = judge(b, &b->runners[i], p, d, err);
            of[n] = &b->runners[i].own[p];
            list[n] = *of[n];
            n++;
        }
    bn_free(d);
    if (status == BN_OK && n > 0) status = bn_judge_session(list, n, NULL, &rules, err);
    for (size_t i = 0; i < n && status == BN_OK; i++)
        *of[i] = list[i];
    return status;
}

/* This engine's speed in times that of the reference. */
static double speedup(double change)
{
    return 1 / (1 + change);
}

/* ---- the gate ---- */

enum speed_gate { GATE_NONE, GATE_PASS, GATE_FAIL, GATE_NO_DATA };
static const char *const GATE_NAMES[] = {NULL, "pass", "fail", "no_data"};

/* Of one reference and phase, by the estimated ratio of speeds. */
static enum speed_gate gate_of(const struct bench *b, const struct runner *r, enum phase p)
{
    double limit = b->x.options->fail_below;
    if (!(limit > 0) || b->tokens[p] == 0) return GATE_NONE;
    if (!is_measured(&b->runners[0]) || !is_measured(r)) return GATE_NO_DATA;
    double ratio = speedup(r->own[p].change);
    if (!isfinite(ratio)) return GATE_NO_DATA;
    return ratio >= limit ? GATE_PASS : GATE_FAIL;
}

/* The worst of all. */
static enum speed_gate gate_of_all(const struct bench *b)
{
    enum speed_gate worst = GATE_NONE;
    for (size_t i = 1; i < b->n; i++)
        for (enum phase p = PROMPT; p < PHASES; p++)
            if (gate_of(b, &b->runners[i], p) > worst) worst = gate_of(b, &b->runners[i], p);
    return worst;
}

/* ---- output ---- */

static const char *why_not(const struct runner *r)
{
    if (r->ref->broken) return r->ref->failure.msg;
    return r->can ? NULL : "the reference does not have the capability bench";
}

static void escape_label(char out[400], const struct runner *r)
{
    const char *label = bn_xref_label(r->ref);
    bn_escape(out, 400, label, strlen(label));
}

static void print_line(const struct bench *b, const struct runner *r, enum phase p)
{
    const struct bn_summary *s = &r->of[p];
    double n = b->tokens[p];
    char label[400];
    escape_label(label, r);
    printf("%-7s %6u %10.1f %10.1f %10.1f %6.1f  %s\n", PHASE_NAMES[p], b->tokens[p], n * 1e9 / s->median,
           n * 1e9 / s->max, n * 1e9 / s->min, 100 * s->mad / s->median, label);
}

static void print_comparison(const struct runner *r, enum phase p)
{
    static const char *const WORDS[BN_OUTCOMES] = {[BN_OUTCOME_INCONCLUSIVE] = "undecided",
                                                   [BN_OUTCOME_SAME] = "the same speed",
                                                   [BN_OUTCOME_IMPROVED] = "faster",
                                                   [BN_OUTCOME_REGRESSED] = "slower",
                                                   [BN_OUTCOME_STABLE] = "the same speed"};
    const struct bn_judgement *j = &r->own[p];
    char label[400];
    escape_label(label, r);
    printf("%s: this engine is %.3g times as fast as %s", PHASE_NAMES[p], speedup(j->change), label);
    if (isfinite(j->low))
        printf(", 95 %% interval %.3g to %.3g: %s\n", speedup(j->high), speedup(j->low), WORDS[j->outcome]);
    else
        printf(": undecided, %s\n", j->reason);
}

static void print_gate(const struct bench *b)
{
    for (size_t i = 1; i < b->n; i++)
        for (enum phase p = PROMPT; p < PHASES; p++) {
            enum speed_gate gate = gate_of(b, &b->runners[i], p);
            char label[400];
            escape_label(label, &b->runners[i]);
            if (gate == GATE_NO_DATA)
                printf("gate: FAIL, no data: %s of %s was not measured\n", PHASE_NAMES[p], label);
            else if (gate != GATE_NONE)
                printf("gate: %s, %s is %.3g times as fast as %s, at least %g is required\n",
                       gate == GATE_PASS ? "pass" : "FAIL", PHASE_NAMES[p],
                       speedup(b->runners[i].own[p].change), label, b->x.options->fail_below);
        }
}

static void print_text(const struct bench *b)
{
    printf("%u thread%s; %u rounds in the order A B B A, after 1 warm-up round\n\n", b->x.n_threads,
           b->x.n_threads == 1 ? "" : "s", b->n_reps);
    printf("        tokens      tok/s        min        max   +- %%  engine\n");
    for (enum phase p = PROMPT; p < PHASES; p++)
        for (size_t i = 0; i < b->n && b->tokens[p] > 0; i++)
            if (is_measured(&b->runners[i])) print_line(b, &b->runners[i], p);
    putchar('\n');
    for (size_t i = 0; i < b->n; i++) {
        const struct runner *r = &b->runners[i];
        char label[400];
        escape_label(label, r);
        if (why_not(r) != NULL) printf("%s: not measured: %s\n", label, why_not(r));
        if (r->ref->last_words[0] != '\0') printf("  its last output: %s\n", r->ref->last_words);
        for (enum phase p = PROMPT; p < PHASES && i > 0; p++)
            if (is_measured(r) && is_measured(&b->runners[0]) && b->tokens[p] > 0) print_comparison(r, p);
    }
    print_gate(b);
}

static void put_ratio(bn_json *phase, const struct bn_judgement *j)
{
    static const char WHY[] = "too few rounds for an interval";
    bn_json *ratio = bn_json_put_object(phase, "ratio");
    bn_json_put_number(ratio, "value", speedup(j->change));
    if (isfinite(j->low)) {
        bn_json_put_number(ratio, "low", speedup(j->high));
        bn_json_put_number(ratio, "high", speedup(j->low));
    } else {
        bn_json_put_unavailable(ratio, "low", WHY);
        bn_json_put_unavailable(ratio, "high", WHY);
    }
    bn_json_put_string(ratio, "verdict", bn_outcome_name(j->outcome));
    bn_json_put_string(ratio, "reason", j->reason);
}

static void put_phase(bn_json *object, const struct bench *b, const struct runner *r, enum phase p)
{
    const struct bn_summary *s = &r->of[p];
    bn_json *phase = bn_json_put_object(object, PHASE_NAMES[p]);
    bn_json_put_numbers(phase, "ns", r->ns[p], b->n_reps);
    bn_json_put_number(phase, "median_ns", s->median);
    bn_json_put_number(phase, "min_ns", s->min);
    bn_json_put_number(phase, "max_ns", s->max);
    bn_json_put_number(phase, "mad_ns", s->mad);
    bn_json_put_number(phase, "tokens_per_second", b->tokens[p] * 1e9 / s->median);
    if (r != &b->runners[0] && is_measured(&b->runners[0])) put_ratio(phase, &r->own[p]);
    if (r != &b->runners[0] && gate_of(b, r, p) != GATE_NONE)
        bn_json_put_string(phase, "gate", GATE_NAMES[gate_of(b, r, p)]);
}

/* "decode n=32 t=2 llama.cpp"; the same words in every run. */
static void name_test(char out[500], const struct bench *b, const struct runner *r, enum phase p)
{
    char label[400];
    escape_label(label, r);
    snprintf(out, 500, "%s n=%u t=%u %s%s", PHASE_NAMES[p], b->tokens[p], b->x.n_threads,
             r == &b->runners[0] ? "" : "reference ", label);
}

/* The samples as series, for bn-bench report and the ledger: ns per token. */
static bn_status put_series(bn_json *doc, const struct bench *b, bn_error *err)
{
    struct bn_series_list all = {0};
    char test[500];
    bn_status status = BN_OK;
    double *ns = bn_alloc(b->n_reps, sizeof *ns);
    if (ns == NULL) return bn_nomem(err);
    for (size_t i = 0; i < b->n; i++)
        for (enum phase p = PROMPT; p < PHASES && status == BN_OK; p++) {
            const struct runner *r = &b->runners[i];
            if (!is_measured(r) || b->tokens[p] == 0) continue;
            for (size_t k = 0; k < b->n_reps; k++)
                ns[k] = r->ns[p][k] / b->tokens[p];
            name_test(test, b, r, p);
            struct bn_series one = {test, "ns_per_token", "ns", false, false, ns, b->n_reps, 0, false};
            /* The same reference twice is one series. */
            if (bn_series_find(&all, test, one.metric) == NULL) status = bn_series_add(&all, &one, err);
        }
    if (status == BN_OK) bn_series_put(doc, &all);
    bn_series_release(&all);
    bn_free(ns);
    return status;
}

/* The judgements as comparisons: A is the reference, B this engine. */
static void put_comparisons(bn_json *doc, const struct bench *b)
{
    struct bn_comparison list[PHASES * BN_XREFS_MAX] = {0};
    char tests[PHASES * BN_XREFS_MAX][500];
    size_t n = 0;
    for (size_t i = 1; i < b->n && is_measured(&b->runners[0]); i++)
        for (enum phase p = PROMPT; p < PHASES; p++) {
            const struct runner *r = &b->runners[i];
            if (!is_measured(r) || b->tokens[p] == 0) continue;
            name_test(tests[n], b, r, p);
            list[n] = (struct bn_comparison){.test = tests[n],
                                             .metric = "ns_per_token",
                                             .unit = "ns",
                                             .n_a = b->n_reps,
                                             .n_b = b->n_reps,
                                             .median_a = r->of[p].median / b->tokens[p],
                                             .median_b = b->runners[0].of[p].median / b->tokens[p],
                                             .j = r->own[p]};
            n++;
        }
    bn_comparisons_put(doc, list, n);
}

static void put_gate(bn_json *doc, const struct bench *b)
{
    if (gate_of_all(b) == GATE_NONE) return;
    bn_json *gate = bn_json_put_object(doc, "gate");
    bn_json_put_number(gate, "fail_below", b->x.options->fail_below);
    bn_json_put_string(gate, "status", GATE_NAMES[gate_of_all(b)]);
}

static void put_runner(bn_json *list, const struct bench *b, const struct runner *r)
{
    const struct bn_reference_info *info = &r->ref->info;
    bn_json *o = bn_json_add_object(list);
    bn_json_put_string(o, "reference", bn_xref_label(r->ref));
    bn_json_put_string(o, "name", info->name);
    bn_json_put_text(o, "version", info->version);
    bn_json_put_text(o, "commit", info->commit);
    bn_json_put_string(o, "run_as", r->ref->command);
    bn_json_put_string(o, "model", r->ref->model != b->x.model_path ? r->ref->model : NULL);
    bn_json_put_string(o, "status", r->ref->broken ? "failed" : r->can ? "measured" : "skipped");
    if (why_not(r) != NULL) bn_json_put_string(o, "reason", why_not(r));
    for (enum phase p = PROMPT; p < PHASES; p++)
        if (is_measured(r) && b->tokens[p] > 0) put_phase(o, b, r, p);
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
    bn_json_put_string(method, "ratio", "time of the reference by time of this engine, round by round");
    bn_json_put_string(method, "interval", "Wilcoxon's signed ranks inverted, 95 %");
    bn_json *list = bn_json_put_array(doc, "engines");
    for (size_t i = 0; i < b->n; i++)
        put_runner(list, b, &b->runners[i]);
    put_gate(doc, b);
    put_comparisons(doc, b);
    bn_json_put_u64(doc, "exit_code", (uint64_t)b->x.args->exit_code);
    bn_status status = put_series(doc, b, err);
    if (status == BN_OK) status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}

/* ---- the command ---- */

static bn_status read_options(struct bench *b, const struct bn_args *args, bn_error *err)
{
    const char *isa = bn_args_given(args, &args->isa) ? args->isa : "";
    const struct bn_crossval_options *o = args->fields;
    size_t n = o->refs.n;
    if (n == 0 || n > BN_XREFS_MAX)
        return bn_hint(
            bn_fail(err, BN_ERR_ARG, n == 0 ? "no reference is given" : "more than 8 references are given"),
            err, "--ref 'bn --isa ref', or --ref 'COMMAND'; at most 8");
    b->tokens[PROMPT] = o->n_prompt;
    b->tokens[DECODE] = o->n_decode;
    b->n_reps = o->n_reps;
    BN_TRY(bn_crossval_open_model(&b->x, args, err)); /* refuses an unknown instruction set */
    if (b->tokens[PROMPT] + b->tokens[DECODE] > bn_model_hparams(b->x.model)->n_ctx)
        return bn_fail(err, BN_ERR_LIMIT, "%u prompt and %u decoded tokens do not fit into the context of %u",
                       b->tokens[PROMPT], b->tokens[DECODE], bn_model_hparams(b->x.model)->n_ctx);
    snprintf(b->own, sizeof b->own, "bn%s%s", isa[0] != '\0' ? " --isa " : "", isa);
    b->own_ref.given = b->own;
    b->runners[b->n++].ref = &b->own_ref;
    for (size_t i = 0; i < n; i++) {
        b->x.refs[i].given = o->refs.list[i];
        b->runners[b->n++].ref = &b->x.refs[i];
        b->x.n_refs = i + 1;
    }
    return BN_OK;
}

/* 0 only when every engine was measured, and the gate passed. */
static int exit_of(const struct bench *b)
{
    int code = gate_of_all(b) > GATE_PASS ? BN_EXIT_NEGATIVE : BN_EXIT_OK;
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
    if (args->json) return print_json(b, err);
    print_text(b);
    return BN_OK;
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
