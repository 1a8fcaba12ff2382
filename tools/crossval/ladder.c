/* SPDX-License-Identifier: MIT
 *
 * The commands that compare: which rungs are climbed, when traces are compared, which of three engines differs
 * from the others, and the exit status.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"
#include "tools/crossval/crossval.h"

enum { CLIMB_TOKENS = 1, CLIMB_LOGITS = 2, CLIMB_ALL = 4, CLIMB_TRACE = 8 };

/* ---- verdicts over everything ---- */

enum bn_rung bn_xref_parted(const struct bn_xref *ref)
{
    unsigned r = 0;
    while (r < BN_RUNG_COUNT && ref->rungs[r].state != BN_X_FAIL && ref->rungs[r].state != BN_X_ERROR)
        r++;
    return (enum bn_rung)r;
}

size_t bn_xref_compared(const struct bn_xref *ref)
{
    size_t n = ref->trace.n_values;
    for (size_t r = 0; r < BN_RUNG_COUNT; r++)
        if (ref->rungs[r].state == BN_X_PASS || ref->rungs[r].state == BN_X_FAIL)
            n += ref->rungs[r].n_compared;
    return n;
}

int bn_crossval_exit(const struct bn_crossval *x)
{
    size_t n_broken = 0, n_bad = 0;
    for (size_t i = 0; i < x->n_refs; i++) {
        const struct bn_xref *ref = &x->refs[i];
        if (ref->failure.code == BN_ERR_NOMEM) return BN_EXIT_INTERNAL; /* ours: nothing was found out */
        n_broken += !ref->started;
        n_bad += ref->broken || bn_xref_parted(ref) != BN_RUNG_COUNT || ref->traced == BN_X_FAIL ||
                 bn_xref_compared(ref) == 0;
    }
    /* No reference could be started: the exit status gives the reason. */
    if (n_broken > 0 && n_broken == x->n_refs) return (int)bn_status_exit(x->refs[0].failure.code);
    return n_bad > 0 ? BN_EXIT_NEGATIVE : BN_EXIT_OK;
}

/* ---- three and more ---- */

const char *bn_crossval_participant(const struct bn_crossval *x, size_t participant)
{
    size_t of = x->three.of[participant];
    return of == 0 ? "this engine" : bn_xref_label(&x->refs[of - 1]);
}

static const float *logits_of(const struct bn_crossval *x, size_t of)
{
    return of == 0 ? x->logits : x->refs[of - 1].logits;
}

static void compare_two(struct bn_crossval *x, size_t i, size_t j)
{
    struct bn_xthree *t = &x->three;
    struct bn_metrics m;
    struct bn_metrics_sum sum = {0};
    struct bn_threshold_verdict verdicts[BN_VERDICTS_MAX];
    const float *a = logits_of(x, t->of[i]), *b = logits_of(x, t->of[j]);
    for (size_t r = 0; r < x->n_prompt; r++) {
        bn_metrics_of(&m, a + r * x->n_vocab, b + r * x->n_vocab, x->n_vocab);
        bn_metrics_add(&sum, &m, r, x->n_vocab);
    }
    size_t n = bn_thresholds_judge(&x->thresholds, BN_RUNG_POSITIONS, &sum, verdicts);
    bool agree = n > 0;
    for (size_t v = 0; v < n; v++)
        agree = agree && verdicts[v].holds;
    t->agree[i][j] = t->agree[j][i] = agree;
    t->distance[i][j] = t->distance[j][i] = bn_metrics_mean(&sum, BN_METRIC_NRMSE);
}

/* The odd one out agrees with no other, while all others agree with each other. */
static bool is_odd(const struct bn_xthree *t, size_t who)
{
    for (size_t i = 0; i < t->n; i++)
        for (size_t j = 0; j < i; j++)
            if (t->agree[i][j] == (i == who || j == who)) return false;
    return true;
}

/* Compares all pairs of engines, when two references or more sent logits. */
static void compare_all(struct bn_crossval *x)
{
    struct bn_xthree *t = &x->three;
    *t = (struct bn_xthree){.n = 1, .all_agree = true};
    for (size_t i = 0; i < x->n_refs; i++)
        if (!x->refs[i].broken && x->refs[i].logits != NULL && x->refs[i].n_rows >= x->n_prompt)
            t->of[t->n++] = i + 1;
    if (t->n < 3) {
        t->n = 0;
        return;
    }
    for (size_t i = 0; i < t->n; i++) {
        for (size_t j = 0; j < i; j++) {
            compare_two(x, i, j);
            t->all_agree = t->all_agree && t->agree[i][j];
        }
    }
    for (size_t i = 0; i < t->n && !t->has_odd; i++) {
        t->has_odd = is_odd(t, i);
        t->odd = i;
    }
}

/* ---- climbing ---- */

static bool failed(const struct bn_xref *ref, enum bn_rung rung)
{
    return ref->rungs[rung].state == BN_X_FAIL;
}

/* Tokens of the trace that explains a failure: up to the one after the first position that breaks a limit,
 * which a mask that is off by one would see. */
static size_t traced_tokens(const struct bn_crossval *x, const struct bn_xref *ref)
{
    if (failed(ref, BN_RUNG_FIRST)) return 1;
    const struct bn_xrung *rung = &ref->rungs[BN_RUNG_POSITIONS];
    for (size_t r = 0; ref->rows != NULL && r < x->n_prompt; r++) {
        struct bn_metrics_sum one = {0};
        struct bn_threshold_verdict verdicts[BN_VERDICTS_MAX];
        bn_metrics_add(&one, &ref->rows[r], r, x->n_vocab);
        size_t n = bn_thresholds_judge(&ref->limits, BN_RUNG_POSITIONS, &one, verdicts);
        for (size_t v = 0; v < n && rung->state == BN_X_FAIL; v++)
            if (!verdicts[v].is_mean && !verdicts[v].holds) return bn_min_size(r + 2, x->n_prompt);
    }
    return x->n_prompt;
}

static bn_status climb_rungs(struct bn_crossval *x, struct bn_xref *ref, unsigned what, bn_error *err)
{
    BN_TRY(bn_xref_start(x, ref, err));
    if (what & (CLIMB_TOKENS | CLIMB_ALL)) BN_TRY(bn_xrung_tokens(x, ref, err));
    if (what & (CLIMB_LOGITS | CLIMB_ALL)) {
        BN_TRY(bn_xrung_first(x, ref, err));
        BN_TRY(bn_xrung_positions(x, ref, err));
    }
    if (what & CLIMB_ALL) {
        bn_xrung_decode(x, ref);
        bn_xrung_likelihood(x, ref);
    }
    return BN_OK;
}

static bn_status climb_trace(struct bn_crossval *x, struct bn_xref *ref, unsigned what, bn_error *err)
{
    const char *when = x->options->trace;
    if (what & CLIMB_TRACE) return bn_xrung_trace(x, ref, x->n_prompt, x->options->exact, err);
    if (when == NULL) return BN_OK; /* the command has no --trace */
    bool never = strcmp(when, "never") == 0;
    if (!never) BN_TRY(bn_xrung_explain(x, ref, err));
    bool parted = failed(ref, BN_RUNG_FIRST) || failed(ref, BN_RUNG_POSITIONS) ||
                  failed(ref, BN_RUNG_DECODE) || failed(ref, BN_RUNG_LIKELIHOOD);
    if (strcmp(when, "always") == 0) return bn_xrung_trace(x, ref, x->n_prompt, false, err);
    if (never || ref->broken || (!parted && ref->traced == BN_X_NONE)) return BN_OK;
    /* A dump was recorded for the whole prompt. */
    size_t n = ref->folder != NULL ? x->n_prompt : traced_tokens(x, ref);
    BN_TRY(bn_xrung_trace(x, ref, n, false, err));
    /* An error that appears only after that needs the whole prompt. */
    if (ref->traced != BN_X_PASS || n == x->n_prompt) return BN_OK;
    return bn_xrung_trace(x, ref, x->n_prompt, false, err);
}

static bn_status climb(struct bn_crossval *x, struct bn_xref *ref, unsigned what, bn_error *err)
{
    BN_TRY(climb_rungs(x, ref, what, err));
    BN_TRY(climb_trace(x, ref, what, err));
    return what & CLIMB_ALL ? bn_xrung_mask(x, ref, err) : BN_OK;
}

static bn_status compare(struct bn_crossval *x, unsigned what, bn_error *err)
{
    size_t n = x->options->refs.n;
    if (n == 0)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "no reference is given"), err,
                       "--ref oracle, --ref bn, --ref 'COMMAND', or --ref dump:DIR");
    if (n > BN_XREFS_MAX) return bn_fail(err, BN_ERR_ARG, "at most %u references are compared", BN_XREFS_MAX);
    if (what & (CLIMB_LOGITS | CLIMB_ALL)) BN_TRY(bn_crossval_evaluate(x, err));
    for (size_t i = 0; i < n; i++) {
        x->refs[i].given = x->options->refs.list[i];
        x->n_refs = i + 1;
        BN_TRY(climb(x, &x->refs[i], what, err));
        /* It has to end in good order. */
        if (!x->refs[i].broken && !x->keep_refs) bn_xref_finish(&x->refs[i]);
    }
    if (x->logits != NULL) compare_all(x);
    return BN_OK;
}

bn_status bn_crossval_compare(struct bn_crossval *x, bn_error *err)
{
    return compare(x, CLIMB_ALL, err);
}

static bn_status write_results(const struct bn_crossval *x, const char *command, bn_error *err)
{
    const char *html = x->options->html, *junit = x->options->junit;
    bn_json *results = x->args->json || html != NULL ? bn_crossval_results(x, command) : NULL;
    bn_status status = BN_OK;
    if (x->args->json)
        status = bn_cli_print_json(results, err);
    else
        bn_crossval_print(x);
    if (status == BN_OK && html != NULL) status = bn_crossval_write_html(results, html, err);
    if (status == BN_OK && junit != NULL) status = bn_crossval_write_junit(x, junit, err);
    bn_json_free(results);
    return status;
}

static bn_status run(struct bn_args *args, const char *command, unsigned what, bn_error *err)
{
    struct bn_crossval *x = bn_alloc(1, sizeof *x);
    if (x == NULL) return bn_nomem(err);
    bn_cli_catch_interrupt();
    bn_status status = bn_crossval_open(x, args, err);
    if (status == BN_OK) status = compare(x, what, err);
    if (status == BN_OK) status = write_results(x, command, err);
    if (status == BN_OK && x->options->receipt != NULL)
        status = bn_crossval_add_to_receipt(x, x->options->receipt, err);
    if (status == BN_OK) args->exit_code = bn_crossval_exit(x);
    if (bn_cli_interrupted() != 0) {
        status = BN_OK;
        args->exit_code = 128 + bn_cli_interrupted();
    }
    bn_crossval_close(x);
    bn_free(x);
    return status;
}

bn_status bn_crossval_ladder(struct bn_args *args, bn_error *err)
{
    return run(args, "ladder", CLIMB_ALL, err);
}

bn_status bn_crossval_tokens(struct bn_args *args, bn_error *err)
{
    return run(args, "tokens", CLIMB_TOKENS, err);
}

bn_status bn_crossval_logits(struct bn_args *args, bn_error *err)
{
    return run(args, "logits", CLIMB_LOGITS, err);
}

bn_status bn_crossval_trace(struct bn_args *args, bn_error *err)
{
    return run(args, "trace", CLIMB_TRACE, err);
}
