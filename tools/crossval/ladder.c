/* SPDX-License-Identifier: MIT
 *
 * The commands that compare: which rungs are climbed, when traces are compared, which of three engines differs
 * from the others, and the exit status.
 */

#include "tools/crossval/crossval.h"

#define RUNGS_LOGITS (1u << BN_RUNG_FIRST | 1u << BN_RUNG_POSITIONS)

/* ---- verdicts over everything ---- */

static bool failed(const struct bn_xref *ref, unsigned rung)
{
    return ref->rungs[rung].state == BN_X_FAIL;
}

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
        n_bad += ref->broken || bn_xref_parted(ref) != BN_RUNG_COUNT || failed(ref, BN_XTRACE) ||
                 bn_xref_compared(ref) == 0;
    }
    /* No reference could be started: the exit status gives the reason. */
    if (n_broken > 0 && n_broken == x->n_refs) return (int)bn_status_exit(x->refs[0].failure.code);
    return n_bad > 0 ? BN_EXIT_NEGATIVE : BN_EXIT_OK;
}

/* ---- climbing ---- */

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

/* When the command has --trace: always, never, or when logits differ. */
static bn_status climb_trace(struct bn_crossval *x, struct bn_xref *ref, bn_error *err)
{
    static const enum bn_rung OF_LOGITS[] = {BN_RUNG_FIRST, BN_RUNG_POSITIONS, BN_RUNG_DECODE,
                                             BN_RUNG_LIKELIHOOD};
    const char *when = x->options->trace;
    bool parted = false;
    if (when == NULL || strcmp(when, "never") == 0) return BN_OK;
    BN_TRY(bn_xref_explain(x, ref, err));
    for (size_t i = 0; i < BN_ARRAY_LEN(OF_LOGITS); i++)
        parted = parted || failed(ref, OF_LOGITS[i]);
    bool always = strcmp(when, "always") == 0;
    if (!always && (ref->broken || (!parted && ref->rungs[BN_XTRACE].state == BN_X_NONE))) return BN_OK;
    ref->n_traced = always ? x->n_prompt : traced_tokens(x, ref);
    BN_TRY(bn_xref_climb(x, ref, BN_XTRACE, err));
    /* An error that appears only after that needs the whole prompt. */
    if (ref->rungs[BN_XTRACE].state != BN_X_PASS || ref->n_traced == x->n_prompt) return BN_OK;
    ref->n_traced = x->n_prompt;
    return bn_xref_climb(x, ref, BN_XTRACE, err);
}

static bn_status climb(struct bn_crossval *x, struct bn_xref *ref, unsigned rungs, bn_error *err)
{
    BN_TRY(bn_xref_start(x, ref, err));
    ref->n_traced = x->n_prompt;
    for (unsigned r = 0; r <= BN_XTRACE; r++) {
        if (r == BN_RUNG_MASK) BN_TRY(climb_trace(x, ref, err));
        if (rungs & (1u << r)) BN_TRY(bn_xref_climb(x, ref, r, err));
    }
    return BN_OK;
}

bn_status bn_crossval_compare(struct bn_crossval *x, unsigned rungs, bool keep, bn_error *err)
{
    BN_TRY(bn_xrefs_take(x, err));
    if (rungs & RUNGS_LOGITS) BN_TRY(bn_crossval_evaluate(x, err));
    for (size_t i = 0; i < x->n_refs; i++) {
        BN_TRY(climb(x, &x->refs[i], rungs, err));
        if (!keep) bn_xref_finish(&x->refs[i]); /* in good order, and before the next one needs memory */
    }
    return BN_OK;
}

/* The document as text, JSON and part of a receipt. */
static bn_status write_results(const struct bn_crossval *x, bn_error *err)
{
    const struct bn_crossval_options *o = x->options;
    bn_json *doc = bn_crossval_results(x);
    bn_status status = bn_json_is_complete(doc) ? BN_OK : bn_nomem(err);
    if (status == BN_OK)
        status = x->args->json ? bn_cli_print_json(doc, err) : bn_crossval_print(x->args, doc, err);
    if (status == BN_OK && o->receipt != NULL) status = bn_crossval_add_to_receipt(x, o->receipt, err);
    bn_json_free(doc);
    return status;
}

bn_status bn_crossval_ladder(struct bn_args *args, bn_error *err)
{
    struct bn_crossval *x = bn_alloc(1, sizeof *x);
    if (x == NULL) return bn_nomem(err);
    const char *command = args->command->name;
    unsigned rungs = strcmp(command, "tokens") == 0   ? 1u << BN_RUNG_TOKENS
                     : strcmp(command, "logits") == 0 ? RUNGS_LOGITS
                     : strcmp(command, "trace") == 0  ? 1u << BN_XTRACE
                                                      : BN_XRUNGS;
    bn_cli_catch_interrupt();
    bn_status status = bn_crossval_open(x, args, err);
    if (status == BN_OK) status = bn_crossval_compare(x, rungs, false, err);
    if (status == BN_OK) status = write_results(x, err);
    if (status == BN_OK) args->exit_code = bn_crossval_exit(x);
    if (bn_cli_interrupted() != 0) {
        status = BN_OK;
        args->exit_code = 128 + bn_cli_interrupted();
    }
    bn_crossval_close(x);
    bn_free(x);
    return status;
}
