/* SPDX-License-Identifier: MIT
 *
 * bn-crossval bench: speed, time to open, memory and agreement compared with references. This engine runs in a process of
 * its own like the references and is asked through the same protocol, so the overhead of the protocol is in all figures.
 * Rounds go through the engines forwards and backwards in turn (A B B A): a machine that gets slower does so
 * for all. The verdict is that of bn-bench ab (lab/stats/judge.h). Agreement is that of the rungs of the ladder on a text.
 * The samples are the document's series, the verdicts its comparisons, as in documents of bn-bench.
 */
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "lab/history/series.h"
#include "lab/host/busy.h"
#include "lab/stats/comparison.h"
#include "lab/stats/summary.h"
#include "tools/cli/text.h"
#include "tools/crossval/crossval.h"

/* From this time on models are opened once. */
#define LONG_OPEN_NS 2000000000u

/* Costs, of which less is better and which are judged; then what a text shows, which is exact. */
enum figure { PROMPT, DECODE, OPEN, MEMORY, AGREEMENT, DIVERGENCE, ACCURACY, FIGURES };
#define COSTS AGREEMENT

static const struct {
    const char *name, *test, *metric, *unit;
} ABOUT[FIGURES] = {
    [PROMPT] = {"prompt", "prompt", "ns_per_token", "tok/s"},
    [DECODE] = {"decode", "decode", "ns_per_token", "tok/s"},
    [OPEN] = {"open", "open", "load_ns", "ns"},
    [MEMORY] = {"memory", "process", "peak_rss_bytes", "bytes"},
    [AGREEMENT] = {"agreement", "text", "agreement", "1"},
    [DIVERGENCE] = {"KLD", "text", "kld", "nats"},
    [ACCURACY] = {"accuracy", "text", "accuracy", "1"},
};

/* One engine: number 0 is this one. */
struct runner {
    struct bn_xref *ref;
    double *samples[FIGURES]; /* in the order of time; of speeds: nanoseconds of one token */
    size_t n[FIGURES];
    const struct bn_judgement
        *j[COSTS]; /* of this engine's costs compared with those of the reference, or NULL */
};

struct bench {
    struct bn_crossval x;
    uint32_t n_reps;
    size_t tokens[FIGURES]; /* that a figure is of; 0: none, or not only of tokens */
    char own[64];
    struct bn_xref own_ref;
    struct runner runners[BN_XREFS_MAX + 1];
    size_t n;
    struct bn_judgement judged[COSTS * BN_XREFS_MAX];
    size_t n_judged;
    struct bn_others others;
};

/* ---- measuring ---- */

static void add(struct runner *r, enum figure f, double sample)
{
    r->samples[f][r->n[f]++] = sample;
}

static bn_status start(struct bench *b, struct runner *r, bn_error *err)
{
    for (size_t f = 0; f < FIGURES; f++) {
        BN_TRY(BN_NEW(r->samples[f], b->n_reps, err));
    }
    return bn_xref_start(&b->x, r->ref, err);
}

/* A failure of the reference is recorded, and the reference is not asked again. */
static bn_status open_again(struct bench *b, struct runner *r, bool counts, bn_error *err)
{
    bn_error why = {0};
    const char *model = r->ref->model != NULL ? r->ref->model : b->x.model_path;
    if (r->ref->info.open_ns == 0) return BN_OK;
    bn_status status = bn_reference_open(r->ref->process, model, b->x.n_threads, &why);
    uint64_t ns = bn_reference_info(r->ref->process)->open_ns;
    if (status == BN_OK && counts && ns > 0) add(r, OPEN, (double)ns);
    return bn_xref_note(r->ref, status, &why, err);
}

static bn_status evaluate(struct bench *b, struct runner *r, bool counts, bn_error *err)
{
    bn_error why = {0};
    uint64_t ns[2] = {0};
    if ((r->ref->info.can & BN_CAN_BENCH) == 0) return BN_OK;
    bn_status status =
        bn_reference_bench(r->ref->process, (uint32_t)b->tokens[PROMPT], (uint32_t)b->tokens[DECODE],
                           b->x.n_threads, &ns[PROMPT], &ns[DECODE], &why);
    for (enum figure f = PROMPT; f <= DECODE && counts && status == BN_OK; f++)
        if (b->tokens[f] > 0) add(r, f, (double)ns[f] / (double)b->tokens[f]);
    r->ref->info.peak_bytes = bn_reference_info(r->ref->process)->peak_bytes;
    return bn_xref_note(r->ref, status, &why, err);
}

typedef bn_status (*take_fn)(struct bench *b, struct runner *r, bool counts, bn_error *err);

/* From round 0 on, which warms up and does not count. */
static bn_status take_rounds(struct bench *b, size_t round, take_fn take, bn_error *err)
{
    for (; round <= b->n_reps; round++)
        for (size_t i = 0; i < b->n; i++) {
            struct runner *r = &b->runners[round % 2 == 1 ? i : b->n - 1 - i];
            if (!r->ref->broken) BN_TRY(take(b, r, round > 0, err));
        }
    return BN_OK;
}

/* The models were opened once when the engines were started, which warmed up. */
static bn_status take_opens(struct bench *b, bn_error *err)
{
    bool is_long = false;
    for (size_t i = 0; i < b->n; i++)
        is_long = is_long || b->runners[i].ref->info.open_ns >= LONG_OPEN_NS;
    if (!is_long) return take_rounds(b, 1, open_again, err);
    for (size_t i = 0; i < b->n; i++)
        if (b->runners[i].ref->info.open_ns > 0)
            add(&b->runners[i], OPEN, (double)b->runners[i].ref->info.open_ns);
    return BN_OK;
}

/* The share of the text's tokens that the logits predict. */
static double accuracy_of(const struct bn_crossval *x, const float *logits)
{
    size_t n_right = 0;
    for (size_t i = 0; i + 1 < x->n_prompt; i++)
        n_right += bn_argmax(logits + i * x->n_vocab, x->n_vocab) == (size_t)x->ids[i + 1];
    return (double)n_right / (double)(x->n_prompt - 1);
}

/* The rungs that need one evaluation. */
static bn_status compare_text(struct bench *b, bn_error *err)
{
    static const enum bn_rung RUNGS[] = {BN_RUNG_TOKENS, BN_RUNG_POSITIONS, BN_RUNG_DECODE,
                                         BN_RUNG_LIKELIHOOD};
    struct bn_crossval *x = &b->x;
    if (x->n_prompt < 2) return BN_OK;
    BN_TRY(bn_crossval_evaluate(x, err));
    add(&b->runners[0], ACCURACY, accuracy_of(x, x->logits));
    for (size_t i = 1; i < b->n; i++) {
        struct runner *r = &b->runners[i];
        const struct bn_metrics_sum *sum = &r->ref->rungs[BN_RUNG_POSITIONS].sum;
        for (size_t k = 0; k < BN_ARRAY_LEN(RUNGS); k++)
            BN_TRY(bn_xref_climb(x, r->ref, RUNGS[k], err));
        if (sum->n_rows < x->n_prompt) continue;
        add(r, AGREEMENT, bn_metrics_mean(sum, BN_METRIC_ARGMAX));
        /* exp and log of other libraries may differ in the last bits of a double. */
        add(r, DIVERGENCE, round(fmax(bn_metrics_mean(sum, BN_METRIC_KL), 0) * 1e12) / 1e12);
        add(r, ACCURACY, accuracy_of(x, r->ref->logits));
    }
    return BN_OK;
}

static bn_status measure(struct bench *b, bn_error *err)
{
    struct bn_busy before, now;
    bn_busy_read(&before);
    size_t n_missing = 0;
    for (size_t i = 0; i < b->n; i++) {
        const struct bn_xref *ref = b->runners[i].ref;
        BN_TRY(start(b, &b->runners[i], err));
        n_missing += ref->broken && ref->failure.code == BN_ERR_NOT_FOUND;
    }
    if (n_missing > 0 && n_missing + 1 == b->n) { /* nothing to compare with */
        *err = b->runners[1].ref->failure;
        bn_error_name(err, b->runners[1].ref->given);
        return err->code;
    }
    BN_TRY(take_opens(b, err));
    BN_TRY(take_rounds(b, 0, evaluate, err));
    for (size_t i = 0; i < b->n; i++)
        if (b->runners[i].ref->info.peak_bytes > 0)
            add(&b->runners[i], MEMORY, (double)b->runners[i].ref->info.peak_bytes);
    BN_TRY(compare_text(b, err));
    for (size_t i = 0; i < b->n; i++)
        bn_xref_finish(b->runners[i].ref);
    if (b->own_ref.broken) *err = b->own_ref.failure;
    if (b->own_ref.broken) return err->code;
    bn_busy_read(&now); /* the engines have ended, so what they used is known */
    b->others = bn_busy_others(&before, &now);
    return BN_OK;
}

/* ---- the comparison ---- */

/* By the logarithms of the ratios, round by round. */
static bn_status judge(struct bench *b, struct runner *r, enum figure f, double *d, bn_error *err)
{
    static const struct bn_judge_rules rules = BN_JUDGE_RULES_INIT;
    const struct runner *own = &b->runners[0];
    size_t n = bn_min_size(own->n[f], r->n[f]);
    if (n == 0 || r->ref->broken) return BN_OK;
    struct bn_judgement *j = &b->judged[b->n_judged++];
    r->j[f] = j;
    for (size_t k = 0; k < n; k++)
        d[k] = log(own->samples[f][k] / r->samples[f][k]);
    if (n > 1) return bn_judge_pairs(j, d, n, NULL, 0, &rules, err);
    bn_judge_none(j, "one value of each engine has no interval");
    j->n = n;
    j->change = expm1(d[0]);
    return BN_OK;
}

/* All figures and references are one family of tests. */
static bn_status judge_all(struct bench *b, bn_error *err)
{
    static const struct bn_judge_rules rules = BN_JUDGE_RULES_INIT;
    double *d = bn_alloc(b->n_reps, sizeof *d);
    bn_status status = d != NULL ? BN_OK : bn_nomem(err);
    for (size_t i = 1; i < b->n; i++)
        for (enum figure f = PROMPT; f < COSTS && status == BN_OK; f++)
            status = judge(b, &b->runners[i], f, d, err);
    bn_free(d);
    if (status == BN_OK && b->n_judged > 0) status = bn_judge_session(b->judged, b->n_judged, &rules, err);
    return status;
}

/* How many times as good this engine is: as fast, or as small. */
static double ratio_of(double change)
{
    return 1 / (1 + change);
}

/* ---- the gate ---- */

struct gate {
    const char *status, *word; /* in the document, and for people */
};
static const struct gate PASS = {"pass", "pass"}, FAIL = {"fail", "FAIL"},
                         NO_DATA = {"no_data", "FAIL, no data"};

/* The worst of all references and speeds, by the estimated ratio; NULL: there is no gate. */
static const struct gate *gate_of(const struct bench *b)
{
    double limit = b->x.options->fail_below;
    const struct gate *worst = limit > 0 ? &PASS : NULL;
    for (size_t i = 1; i < b->n && limit > 0; i++)
        for (enum figure f = PROMPT; f <= DECODE; f++) {
            const struct bn_judgement *j = b->runners[i].j[f];
            if (b->tokens[f] == 0) continue;
            if (j == NULL || !isfinite(j->change)) return &NO_DATA;
            if (ratio_of(j->change) < limit) worst = &FAIL;
        }
    return worst;
}

/* ---- text ---- */

/* Whether the figure is asked of the engine at all. */
static bool is_asked(const struct bench *b, const struct runner *r, enum figure f)
{
    if (r->ref->broken) return f == PROMPT;
    if (f <= DECODE) return b->tokens[f] > 0;
    if (f >= COSTS && b->x.n_prompt < 2) return false;
    return r != &b->runners[0] || (f != AGREEMENT && f != DIVERGENCE);
}

/* Why there is no figure, or "". */
static const char *why_not(const struct runner *r, enum figure f)
{
    if (r->ref->broken) return r->ref->failure.msg;
    if (r->n[f] > 0) return "";
    if (f >= COSTS) return r->ref->rungs[BN_RUNG_POSITIONS].reason;
    if (f != OPEN && (r->ref->info.can & BN_CAN_BENCH) == 0)
        return "the reference does not have the capability bench";
    return "the reference cannot know it";
}

static void put_row(struct bn_table *t, const struct runner *r, enum figure f)
{
    const struct bn_judgement *j = f < COSTS ? r->j[f] : NULL;
    struct bn_summary s = {.median = (double)NAN};
    const char *why = why_not(r, f), *last = r->ref->last_words;
    if (why[0] == '\0' && !bn_summarize(&s, r->samples[f], r->n[f])) t->failed = true;
    bn_table_row(t, "");
    bn_table_text(t, ABOUT[f].name);
    bn_table_text(t, r->ref->given);
    if (f == AGREEMENT || f == ACCURACY)
        bn_table_percent(t, s.median, false);
    else
        bn_table_value(t, f <= DECODE ? 1e9 / s.median : s.median, ABOUT[f].unit);
    if (r->n[f] > 1)
        bn_table_percent(t, s.mad / s.median, false);
    else
        bn_table_text(t, "");
    if (j == NULL) bn_table_text(t, "");
    if (j != NULL) bn_table_printf(t, "%.3g", ratio_of(j->change));
    if (j != NULL && isfinite(j->low))
        bn_table_printf(t, "%.3g - %.3g", ratio_of(j->high), ratio_of(j->low));
    else
        bn_table_text(t, "");
    bn_table_text(t, j != NULL ? bn_outcome_name(j->outcome) : why[0] == '\0' ? "" : "not measured");
    if (j != NULL && !isfinite(j->low))
        bn_table_text(t, j->reason);
    else
        bn_table_printf(t, "%s%s%s", why, last[0] != '\0' ? "; its last output: " : "", last);
}

static bn_status print_text(const struct bench *b, const bn_json *doc, bn_error *err)
{
    static const char *const HEADS[] = {"figure", "engine",   "median",  "+-",
                                        "ratio",  "interval", "verdict", "note"};
    const struct gate *gate = gate_of(b);
    struct bn_buf out = {.max = 1u << 20};
    struct bn_table t = {0};
    bn_table_begin(&t, HEADS, "llrrrrln");
    for (enum figure f = PROMPT; f < FIGURES; f++)
        for (size_t i = 0; i < b->n; i++)
            if (is_asked(b, &b->runners[i], f)) put_row(&t, &b->runners[i], f);
    bn_buf_printf(&out,
                  "%zu prompt and %zu decoded tokens, %u thread%s; %u rounds in the order A B B A, after 1 "
                  "warm-up round; agreement on %zu tokens of text\n"
                  "ratio: how many times as fast bn is, or as small, with its 95 %% interval; above 1 bn is "
                  "better\n",
                  b->tokens[PROMPT], b->tokens[DECODE], b->x.n_threads, bn_cli_s(b->x.n_threads), b->n_reps,
                  b->x.n_prompt);
    bn_table_put_text(&out, &t);
    bn_table_release(&t);
    const bn_json *references = bn_json_get(doc, "references");
    for (const bn_json *r = bn_json_first(references); r != NULL && b->x.n_prompt > 0; r = bn_json_next(r))
        if (bn_json_text_is(r, "result", "differ") && bn_crossval_put_sentence(&out, r))
            bn_buf_putc(&out, '\n');
    if (gate != NULL)
        bn_buf_printf(&out, "gate: %s; bn is required to be at least %g times as fast\n", gate->word,
                      b->x.options->fail_below);
    return bn_cli_print_text(&out, err);
}

/* ---- the document ---- */

/* "decode n=32 t=2 reference llama.cpp"; the same words in every run. */
static void name_test(char out[500], const struct bench *b, const struct runner *r, enum figure f)
{
    char label[400], n[32] = "";
    const char *given = r->ref->given;
    bn_escape(label, sizeof label, given, strlen(given));
    if (b->tokens[f] > 0) snprintf(n, sizeof n, " n=%zu", b->tokens[f]);
    snprintf(out, 500, "%s%s t=%u %s%s", ABOUT[f].test, n, b->x.n_threads,
             r == &b->runners[0] ? "" : "reference ", label);
}

/* The samples of one figure of one engine, and how this engine (B) compares with it (A). */
static bn_status add_measurement(struct bn_series_list *series, struct bn_comparison *comparison,
                                 const struct bench *b, const struct runner *r, enum figure f, char test[500],
                                 bn_error *err)
{
    const char *metric = ABOUT[f].metric;
    name_test(test, b, r, f);
    /* The same reference twice is one series. */
    if (bn_series_find(series, test, metric) == NULL)
        BN_TRY(bn_metric_add(series, test, metric, r->samples[f], r->n[f], 0, err));
    if (f >= COSTS || r->j[f] == NULL) return BN_OK;
    const struct runner *first = &b->runners[0];
    *comparison = (struct bn_comparison){.test = test,
                                         .metric = metric,
                                         .unit = bn_series_find(series, test, metric)->unit,
                                         .n_a = r->n[f],
                                         .n_b = first->n[f],
                                         .median_a = bn_median(r->samples[f], r->n[f]),
                                         .median_b = bn_median(first->samples[f], first->n[f]),
                                         .j = *r->j[f]};
    return BN_OK;
}

static bn_status put_measurements(bn_json *doc, const struct bench *b, bn_error *err)
{
    struct bn_series_list series = {0};
    struct bn_comparison list[COSTS * BN_XREFS_MAX];
    char names[FIGURES * (BN_XREFS_MAX + 1)][500];
    size_t n = 0, n_tests = 0;
    bn_status status = BN_OK;
    for (size_t i = 0; i < b->n; i++)
        for (enum figure f = PROMPT; f < FIGURES && status == BN_OK; f++) {
            const struct runner *r = &b->runners[i];
            if (r->n[f] == 0 || r->ref->broken) continue;
            status = add_measurement(&series, &list[n], b, r, f, names[n_tests++], err);
            n += f < COSTS && r->j[f] != NULL;
        }
    if (status == BN_OK) bn_series_put(doc, &series);
    if (status == BN_OK) bn_comparisons_put(doc, "comparisons", list, n);
    bn_series_release(&series);
    return status;
}

/* What was not measured is null, with the reason, in the object of its reference. */
static void put_reasons(bn_json *doc, const struct bench *b)
{
    const bn_json *list = bn_json_get(doc, "references");
    for (size_t i = 1; i < b->n; i++)
        for (enum figure f = PROMPT; f < FIGURES; f++)
            if (is_asked(b, &b->runners[i], f) && why_not(&b->runners[i], f)[0] != '\0')
                bn_json_put_unavailable((bn_json *)(uintptr_t)bn_json_at(list, i - 1), ABOUT[f].metric,
                                        why_not(&b->runners[i], f));
}

static bn_status print_json(const struct bench *b, bn_json *doc, bn_error *err)
{
    bn_json *settings = (bn_json *)(uintptr_t)bn_json_get(doc, "settings");
    bn_json_put_u64(settings, "prompt_tokens", b->tokens[PROMPT]);
    bn_json_put_u64(settings, "decode_tokens", b->tokens[DECODE]);
    bn_json_put_string(settings, "text_ids_sha256", b->x.n_prompt > 0 ? b->x.prompt_sha : NULL);
    bn_json_put_u64(settings, "reps", b->n_reps);
    bn_json_put_string(doc, "engine", b->own);
    bn_others_put(doc, &b->others);
    put_reasons(doc, b);
    if (gate_of(b) != NULL) {
        bn_json *gate = bn_json_put_object(doc, "gate");
        bn_json_put_number(gate, "fail_below", b->x.options->fail_below);
        bn_json_put_string(gate, "status", gate_of(b)->status);
    }
    BN_TRY(put_measurements(doc, b, err));
    bn_json_put_u64(doc, "exit_code", (uint64_t)b->x.args->exit_code);
    return bn_cli_print_json(doc, err);
}

/* ---- the command ---- */

/* The text of --file, or the built-in one. */
static bn_status read_text(struct bench *b, bn_error *err)
{
    struct bn_crossval *x = &b->x;
    const char *path = x->args->file;
    if (x->options->positions == 0) return BN_OK;
    if (path != NULL) BN_TRY(bn_file_read(path, &x->text, err));
    if (path == NULL) bn_buf_append(&x->text, bn_validation_text, (size_t)bn_validation_text_bytes);
    BN_TRY(bn_buf_check(&x->text, err));
    BN_TRY(bn_crossval_set_prompt(x, NULL, 0, err));
    b->tokens[AGREEMENT] = b->tokens[DIVERGENCE] = b->tokens[ACCURACY] = x->n_prompt;
    return BN_OK;
}

static bn_status read_options(struct bench *b, const struct bn_args *args, bn_error *err)
{
    const char *isa = bn_args_given(args, &args->isa) ? args->isa : "";
    const struct bn_crossval_options *o = args->fields;
    b->tokens[PROMPT] = o->n_prompt;
    b->tokens[DECODE] = o->n_decode;
    b->n_reps = o->n_reps;
    BN_TRY(bn_crossval_open_model(&b->x, args, err)); /* refuses an unknown instruction set */
    BN_TRY(bn_xrefs_take(&b->x, err));
    if (o->n_prompt + o->n_decode > bn_model_hparams(b->x.model)->n_ctx)
        return bn_fail(err, BN_ERR_LIMIT, "%u prompt and %u decoded tokens do not fit into the context of %u",
                       o->n_prompt, o->n_decode, bn_model_hparams(b->x.model)->n_ctx);
    BN_TRY(read_text(b, err));
    snprintf(b->own, sizeof b->own, "bn%s%s", isa[0] != '\0' ? " --isa " : "", isa);
    b->own_ref.given = b->own;
    b->runners[b->n++].ref = &b->own_ref;
    for (size_t i = 0; i < b->x.n_refs; i++)
        b->runners[b->n++].ref = &b->x.refs[i];
    return BN_OK;
}

/* 0 only when the speed of every engine was measured, and the gate passed. */
static int exit_of(const struct bench *b)
{
    int code = gate_of(b) != NULL && gate_of(b) != &PASS ? BN_EXIT_NEGATIVE : BN_EXIT_OK;
    for (size_t i = 0; i < b->n; i++)
        if (b->runners[i].n[PROMPT] == 0 || b->runners[i].ref->broken) code = BN_EXIT_NEGATIVE;
    return code;
}

static bn_status run(struct bench *b, struct bn_args *args, bn_error *err)
{
    BN_TRY(read_options(b, args, err));
    BN_TRY(measure(b, err));
    BN_TRY(judge_all(b, err));
    args->exit_code = exit_of(b);
    bn_json *doc = bn_crossval_results(&b->x);
    bn_status status = bn_json_is_complete(doc) ? BN_OK : bn_nomem(err);
    if (status == BN_OK) status = args->json ? print_json(b, doc, err) : print_text(b, doc, err);
    bn_json_free(doc);
    return status;
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
        for (size_t f = 0; f < FIGURES; f++)
            bn_free(b->runners[i].samples[f]);
    bn_xref_end(&b->own_ref);
    bn_crossval_close(&b->x);
    bn_free(b);
    return status;
}
