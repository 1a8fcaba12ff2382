/* SPDX-License-Identifier: MIT
 *
 * The rungs of the ladder: what each compares, and what its failure suggests.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "tools/crossval/crossval.h"

/* Sets state and reason; BN_OK. */
static bn_status say(struct bn_xrung *rung, enum bn_xstate state, const char *fmt, ...) BN_PRINTF(3, 4);
static bn_status say(struct bn_xrung *rung, enum bn_xstate state, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(rung->reason, sizeof rung->reason, fmt, args);
    va_end(args);
    rung->state = state;
    return BN_OK;
}

/* ---- tokens ---- */

/* A few ids around at, the one at `at` in brackets. */
static void show_ids(char *out, size_t room, const int32_t *ids, size_t n, size_t at)
{
    size_t from = at > 4 ? at - 4 : 0, used = 0;
    out[0] = '\0';
    for (size_t i = from; i < n && i < at + 5 && used + 1 < room; i++) {
        int put =
            snprintf(out + used, room - used, i == at ? "%s[%d]" : "%s%d", i > from ? " " : "", (int)ids[i]);
        used += put > 0 ? (size_t)put : 0;
    }
    if (at >= n && used + 8 < room) snprintf(out + used, room - used, "%s[end]", n > from ? " " : "");
}

static void guess_token_cause(const struct bn_crossval *x, struct bn_xrung *rung)
{
    const bn_tokenizer *tok = bn_model_tokenizer(x->model);
    int32_t bos = bn_tokenizer_bos(tok);
    size_t n = x->n_prompt, m = rung->n_ids, at = rung->at;
    bool control = (at < n && bn_token_is_control(tok, x->ids[at])) ||
                   (at < m && bn_token_is_control(tok, rung->ids[at]));
    const char *cause = "another pre-tokenizer (tokenizer.ggml.pre), or merges in another order";
    if (at == 0 && bos >= 0 && n > 0 && x->ids[0] == bos && (m == 0 || rung->ids[0] != bos))
        cause = "BOS: this engine puts the begin-of-sequence token in front, the reference does not";
    else if (at == 0 && bos >= 0 && m > 0 && rung->ids[0] == bos && (n == 0 || x->ids[0] != bos))
        cause = "BOS: the reference puts the begin-of-sequence token in front, this engine does not";
    else if (at == n || at == m)
        cause = "one side goes on: an end-of-sequence token (add_eos_token), or text that was cut";
    else if (control)
        cause = "special tokens: one side reads a marker in the text as a control token";
    snprintf(rung->hint, sizeof rung->hint, "likely %s", cause);
}

static bn_status tokens(struct bn_crossval *x, struct bn_xref *ref, struct bn_xrung *rung, bn_error *err)
{
    bn_error why = {0};
    if (x->text.data == NULL) return say(rung, BN_X_SKIP, "the prompt was given as ids");
    bn_status status =
        bn_reference_tokenize(ref->process, x->text.data, x->text.len, &rung->ids, &rung->n_ids, &why);
    if (status == BN_ERR_UNSUPPORTED) return say(rung, BN_X_SKIP, "%s", why.msg);
    BN_TRY(bn_xref_note(ref, status, &why, err));
    if (ref->broken) return BN_OK;
    /* --positions may have cut this engine's list. */
    size_t m = rung->n_ids, n = x->n_prompt;
    if (x->options->positions != 0) n = m = bn_min_size(n, m);
    while (rung->at < n && rung->at < m && x->ids[rung->at] == rung->ids[rung->at])
        rung->at++;
    rung->n_compared = n > m ? n : m;
    if (rung->at == n && rung->at == m && n > 0) return say(rung, BN_X_PASS, "%s", "");
    show_ids(rung->ours, sizeof rung->ours, x->ids, x->n_prompt, rung->at);
    show_ids(rung->theirs, sizeof rung->theirs, rung->ids, rung->n_ids, rung->at);
    guess_token_cause(x, rung);
    return say(rung, BN_X_FAIL, "%zu tokens here, %zu there, different from index %zu on", x->n_prompt,
               rung->n_ids, rung->at);
}

/* ---- logits ---- */

static void judge(const struct bn_xref *ref, enum bn_rung which, struct bn_xrung *rung)
{
    size_t n_broken = 0;
    const struct bn_threshold_verdict *worst = NULL;
    rung->n_compared = rung->sum.n_values;
    rung->n_verdicts = bn_thresholds_judge(&ref->limits, which, &rung->sum, rung->verdicts);
    for (size_t i = 0; i < rung->n_verdicts; i++)
        if (!rung->verdicts[i].holds && n_broken++ == 0) worst = &rung->verdicts[i];
    if (rung->n_compared == 0)
        say(rung, BN_X_FAIL, "nothing was compared");
    else if (worst != NULL)
        say(rung, BN_X_FAIL, "%zu of %zu limits broken: %s%s %.6g, position %zu", n_broken, rung->n_verdicts,
            bn_metric_name(worst->metric), worst->is_mean ? " mean" : "", worst->value, worst->row);
    else if (rung->n_verdicts == 0)
        say(rung, BN_X_FAIL, "the thresholds set no limit for this rung");
    else
        rung->state = BN_X_PASS;
}

/* Compares n rows and judges them; the measures of each row go to `rows` where that is not NULL. A row that
 * is not one of finite numbers fails this engine, or the reference. */
static void judge_rows(const struct bn_crossval *x, struct bn_xref *ref, enum bn_rung which,
                       const float *ours, const float *theirs, size_t n, struct bn_metrics *rows)
{
    struct bn_xrung *rung = &ref->rungs[which];
    bn_error why = {.code = BN_ERR_MISMATCH, .offset = BN_NO_OFFSET};
    for (size_t r = 0; r < n; r++) {
        struct bn_metrics m;
        bn_metrics_of(&m, ours + r * x->n_vocab, theirs + r * x->n_vocab, x->n_vocab);
        if (m.bad_a < x->n_vocab) {
            say(rung, BN_X_FAIL, "this engine's logit %zu at position %zu is not finite", m.bad_a, r);
            return;
        }
        if (m.bad_b < x->n_vocab) {
            snprintf(why.msg, sizeof why.msg, "sent a logit that is not finite, %zu at position %zu", m.bad_b,
                     r);
            bn_xref_failed(ref, &why);
            return;
        }
        bn_metrics_add(&rung->sum, &m, r, x->n_vocab);
        if (rows != NULL) rows[r] = m;
    }
    judge(ref, which, rung);
}

/* The reference's logits of n ids, allocated; NULL when it failed. */
static bn_status ask_logits(struct bn_xref *ref, const int32_t *ids, size_t n, float **logits, bn_error *err)
{
    bn_error why = {0};
    return bn_xref_note(ref, bn_reference_logits(ref->process, ids, n, logits, &why), &why, err);
}

static bn_status first(struct bn_crossval *x, struct bn_xref *ref, struct bn_xrung *rung, bn_error *err)
{
    float *row = NULL;
    (void)rung;
    BN_TRY(ask_logits(ref, x->ids, 1, &row, err));
    if (row != NULL) judge_rows(x, ref, BN_RUNG_FIRST, x->logits, row, 1, NULL);
    bn_free(row);
    return BN_OK;
}

static bn_status positions(struct bn_crossval *x, struct bn_xref *ref, struct bn_xrung *rung, bn_error *err)
{
    if (ref->info.n_ctx < x->n_prompt)
        return say(rung, BN_X_SKIP, "the reference's context of %llu is shorter than the prompt",
                   (unsigned long long)ref->info.n_ctx);
    /* Nothing after the last decoded token is judged. */
    size_t n = x->n_ids > x->n_prompt ? x->n_ids - 1 : x->n_prompt;
    if (ref->info.n_ctx < n) n = (size_t)ref->info.n_ctx;
    BN_TRY(ask_logits(ref, x->ids, n, &ref->logits, err));
    if (ref->logits == NULL) return BN_OK;
    ref->n_rows = n;
    BN_TRY(BN_NEW(ref->rows, x->n_prompt, err));
    judge_rows(x, ref, BN_RUNG_POSITIONS, x->logits, ref->logits, x->n_prompt, ref->rows);
    return BN_OK;
}

/* ---- decode ---- */

/* Step i: this engine's choice x->ids[n_prompt + i], compared with the reference's row of the same tokens. A
 * difference is a tie when the reference's two candidates differ by at most the difference of the rows. */
static void judge_step(const struct bn_crossval *x, const struct bn_xref *ref, struct bn_xrung *rung,
                       size_t i)
{
    size_t row = x->n_prompt - 1 + i;
    struct bn_metrics m;
    bn_metrics_of(&m, x->logits + row * x->n_vocab, ref->logits + row * x->n_vocab, x->n_vocab);
    rung->n_steps++;
    rung->n_compared++;
    bn_metrics_add(&rung->sum, &m, row, x->n_vocab);
    if (m.bad_b < x->n_vocab || m.bad_a < x->n_vocab) {
        if (rung->state != BN_X_FAIL) say(rung, BN_X_FAIL, "step %zu has logits that are not finite", i);
        return;
    }
    if (m.argmax_a == m.argmax_b) {
        rung->n_agree++;
    } else if (m.of[BN_METRIC_TIE] <= ref->limits.limit[BN_RUNG_DECODE][BN_METRIC_TIE][BN_MAX] &&
               m.of[BN_METRIC_MAX_ABS] <= ref->limits.limit[BN_RUNG_POSITIONS][BN_METRIC_MARGIN][BN_MAX]) {
        rung->n_tied++;
    } else if (rung->state != BN_X_FAIL) {
        say(rung, BN_X_FAIL,
            "step %zu: token %zu here, %zu there, which the reference puts %.4g above ours; that is not a tie "
            "of rows that differ by up to %.4g",
            i, m.argmax_a, m.argmax_b, m.of[BN_METRIC_MARGIN], m.of[BN_METRIC_MAX_ABS]);
    }
}

static bn_status decode(struct bn_crossval *x, struct bn_xref *ref, struct bn_xrung *rung, bn_error *err)
{
    (void)err;
    if (x->n_ids == x->n_prompt)
        return say(rung, BN_X_SKIP, "no tokens were decoded (-n, or the context is full)");
    for (size_t i = 0; x->n_prompt + i < x->n_ids && x->n_prompt - 1 + i < ref->n_rows; i++)
        judge_step(x, ref, rung, i);
    if (rung->n_steps == 0) return say(rung, BN_X_SKIP, "the reference's logits end with the prompt");
    if (rung->state == BN_X_NONE) rung->state = BN_X_PASS;
    return BN_OK;
}

/* ---- likelihood ---- */

static double mean_nll(const struct bn_crossval *x, const float *logits)
{
    double sum = 0;
    for (size_t r = 0; r + 1 < x->n_prompt; r++)
        sum -= bn_log_softmax(logits + r * x->n_vocab, x->n_vocab, (size_t)x->ids[r + 1]);
    return sum / (double)(x->n_prompt - 1);
}

static bn_status likelihood(struct bn_crossval *x, struct bn_xref *ref, struct bn_xrung *rung, bn_error *err)
{
    struct bn_metrics m = {0};
    (void)err;
    if (ref->n_rows < x->n_prompt || x->n_prompt < 2)
        return say(rung, BN_X_SKIP, "%s",
                   x->n_prompt < 2 ? "a prompt of one token has no next token" : "no logits");
    rung->nll_ours = mean_nll(x, x->logits);
    rung->nll_theirs = mean_nll(x, ref->logits);
    m.of[BN_METRIC_DELTA_NLL] = fabs(rung->nll_ours - rung->nll_theirs);
    bn_metrics_add(&rung->sum, &m, 0, x->n_prompt - 1);
    judge(ref, BN_RUNG_LIKELIHOOD, rung);
    return BN_OK;
}

/* ---- mask ---- */

/* The rows that must not change: those before the tokens that are replaced. */
static size_t kept_rows(const struct bn_crossval *x)
{
    return x->n_prompt / 2;
}

/* The prompt with other tokens from kept_rows on, allocated; NULL when memory is short. */
static int32_t *replace_tail(const struct bn_crossval *x)
{
    int32_t *ids = bn_alloc(x->n_prompt, sizeof *ids);
    for (size_t i = 0; ids != NULL && i < x->n_prompt; i++)
        ids[i] = i < kept_rows(x) ? x->ids[i] : (int32_t)(((size_t)x->ids[i] + 1) % x->n_vocab);
    return ids;
}

/* Sets x->leak to the first of the kept rows whose bits change when n of these ids are evaluated. */
static bn_status find_leak(struct bn_crossval *x, const int32_t *ids, size_t n, float *logits, bn_error *err)
{
    size_t row = 0, bytes = x->n_vocab * sizeof *logits;
    BN_TRY(bn_session_truncate(x->session, 0, err));
    BN_TRY(bn_session_eval(x->session, ids, n, BN_LOGITS_ALL, logits, err));
    while (row < kept_rows(x) && memcmp(logits + row * x->n_vocab, x->logits + row * x->n_vocab, bytes) == 0)
        row++;
    if (row < kept_rows(x) && row < x->leak) x->leak = row;
    return BN_OK;
}

/* This engine: the first half of the prompt must have the same bits before other tokens, and alone. */
static bn_status check_own_mask(struct bn_crossval *x, const int32_t *changed, bn_error *err)
{
    if (x->mask_checked) return BN_OK;
    float *logits = bn_alloc(x->n_prompt, x->n_vocab * sizeof *logits);
    if (logits == NULL) return bn_nomem(err);
    x->leak = x->n_prompt;
    bn_status status = find_leak(x, changed, x->n_prompt, logits, err);
    if (status == BN_OK) status = find_leak(x, x->ids, kept_rows(x), logits, err);
    x->mask_checked = status == BN_OK;
    bn_free(logits);
    return status;
}

/* The reference's rows of the changed prompt, compared with those of the prompt. */
static bn_status compare_masked(struct bn_crossval *x, struct bn_xref *ref, struct bn_xrung *rung,
                                const int32_t *changed, bn_error *err)
{
    bn_error why = {0};
    float *logits = NULL;
    bn_status status = bn_reference_logits(ref->process, changed, x->n_prompt, &logits, &why);
    if (status == BN_ERR_UNSUPPORTED) return say(rung, BN_X_SKIP, "%s", why.msg);
    BN_TRY(bn_xref_note(ref, status, &why, err));
    if (logits != NULL) judge_rows(x, ref, BN_RUNG_MASK, ref->logits, logits, kept_rows(x), NULL);
    bn_free(logits);
    if (rung->state == BN_X_FAIL)
        snprintf(rung->hint, sizeof rung->hint,
                 "likely the attention of the reference sees later tokens: tokens from %zu on were replaced",
                 kept_rows(x));
    return BN_OK;
}

static bn_status mask(struct bn_crossval *x, struct bn_xref *ref, struct bn_xrung *rung, bn_error *err)
{
    if (x->n_prompt < 2) return say(rung, BN_X_SKIP, "a prompt of one token has no later tokens");
    if (ref->logits == NULL || ref->n_rows < x->n_prompt) return say(rung, BN_X_SKIP, "no logits");
    int32_t *changed = replace_tail(x);
    if (changed == NULL) return bn_nomem(err);
    bn_status status = check_own_mask(x, changed, err);
    if (status == BN_OK && x->leak < x->n_prompt)
        say(rung, BN_X_FAIL, "position %zu of this engine changes with later tokens", x->leak);
    else if (status == BN_OK)
        status = compare_masked(x, ref, rung, changed, err);
    bn_free(changed);
    return status;
}

/* ---- trace ---- */

/* The linear operation that added most to the error of its inputs beyond what it may amplify: that is where an
 * activation was rounded to another integer. NULL when a trace does not show that, with every operation sent. */
static const struct bn_finding *find_rounding(const struct bn_xref *ref)
{
    const struct bn_bisection *b = &ref->trace;
    const struct bn_finding *found = NULL;
    double most = 0;
    for (size_t i = 0; i < b->n; i++) {
        const struct bn_finding *f = &b->list[i];
        const struct bn_growth *g = &ref->limits.growth[bn_op_kind_of(f->op)];
        double added = f->error - g->gain * f->handed;
        if (bn_op_kind_of(f->op) != BN_OP_LINEAR || added <= most) continue;
        most = added;
        found = f;
    }
    return ref->rungs[BN_XTRACE].state == BN_X_PASS && b->n_absent == 0 ? found : NULL;
}

/* The limits for any reference hold, and none of the others requires the same bits. */
static bool may_be_rounding(const struct bn_crossval *x, const struct bn_xrung *rung)
{
    bool may = rung->state == BN_X_FAIL && bn_thresholds_hold(&x->thresholds, BN_RUNG_FIRST, &rung->sum);
    for (size_t i = 0; i < rung->n_verdicts; i++)
        may = may && (rung->verdicts[i].holds || rung->verdicts[i].bound > 0);
    return may;
}

static bool all_hold(const struct bn_xref *ref, const float *ours, const float *theirs, size_t n)
{
    struct bn_metrics m;
    struct bn_metrics_sum sum = {0};
    bn_metrics_of(&m, ours, theirs, n);
    bn_metrics_add(&sum, &m, 0, n);
    return bn_thresholds_hold(&ref->limits, BN_RUNG_FIRST, &sum);
}

/* A rounding may hide what the operations after it add, so it is believed only where most other tokens, each alone,
 * keep the limits of the rung: a rounding is a coincidence of one token, a fault is not. */
static bn_status most_others_hold(struct bn_crossval *x, struct bn_xref *ref, bool *most, bn_error *err)
{
    enum { OTHERS = 7 };
    size_t n_hold = 0;
    bn_status status = BN_OK;
    float *ours = bn_alloc(x->n_vocab, sizeof *ours);
    if (ours == NULL) return bn_nomem(err);
    for (size_t i = 1; i <= OTHERS && status == BN_OK && !ref->broken; i++) {
        int32_t id = (int32_t)(((size_t)x->ids[0] + i * x->n_vocab / (OTHERS + 1)) % x->n_vocab);
        bn_error why = {0};
        float *theirs = NULL;
        status = bn_session_truncate(x->session, 0, err);
        if (status == BN_OK) status = bn_session_eval(x->session, &id, 1, BN_LOGITS_LAST, ours, err);
        if (status != BN_OK) break;
        bn_status got = bn_reference_logits(ref->process, &id, 1, &theirs, &why);
        if (got != BN_ERR_UNSUPPORTED) status = bn_xref_note(ref, got, &why, err);
        n_hold += theirs != NULL && all_hold(ref, ours, theirs, x->n_vocab);
        bn_free(theirs);
    }
    *most = n_hold > OTHERS / 2;
    bn_free(ours);
    return status;
}

/* The first operation that fails the comparison. */
static bn_status name_first(struct bn_xrung *rung, const struct bn_bisection *b, bool exact)
{
    size_t at = exact && b->first == b->n ? b->first_bits : b->first;
    const struct bn_finding *f = &b->list[at];
    char where[60] = "outside the layers", input[80] = "";
    if (f->layer >= 0) snprintf(where, sizeof where, "of layer %d", (int)f->layer);
    /* A norm that one side leaves out shows up in the next operation. */
    if (at > 0 && b->list[at - 1].found == BN_FOUND_ABSENT_B && f->found == BN_FOUND_OUT)
        snprintf(input, sizeof input, "; its input %s was not sent", bn_op_name(b->list[at - 1].op));
    if (f->found == BN_FOUND_SHAPE || f->found == BN_FOUND_ABSENT_A || f->found == BN_FOUND_WITHIN)
        return say(rung, BN_X_FAIL, "%s %s %s", bn_op_name(f->op), where,
                   f->found == BN_FOUND_SHAPE      ? "has other rows or columns"
                   : f->found == BN_FOUND_ABSENT_A ? "is not in this engine's trace"
                                                   : "is the first whose bits differ");
    return say(rung, BN_X_FAIL,
               "%s %s is the first out of tolerance: position %zu is off by %.3g, %.3g is allowed there%s",
               bn_op_name(f->op), where, f->row, f->error, f->allowed, input);
}

static bn_status compare_traces(struct bn_crossval *x, struct bn_xref *ref, struct bn_xrung *rung,
                                bn_error *err)
{
    struct bn_records theirs = {0};
    struct bn_bisection *b = &ref->trace;
    bn_error why = {0};
    size_t n = ref->n_traced;
    bool exact = x->options->exact;
    BN_TRY(bn_crossval_trace_own(x, n, err));
    bn_status status =
        bn_xref_note(ref, bn_reference_trace(ref->process, x->ids, n, &theirs, &why), &why, err);
    if (status == BN_OK && !ref->broken) {
        bn_bisection_release(b);
        status = bn_bisect(b, &x->trace, &theirs, ref->limits.growth, err);
        if (status == BN_OK && b->n_compared == 0)
            say(rung, BN_X_FAIL, "nothing was compared");
        else if (status == BN_OK && (b->first < b->n || (exact && b->first_bits < b->n)))
            name_first(rung, b, exact);
        else
            say(rung, BN_X_PASS, "%s", "");
    }
    bn_records_release(&theirs);
    return status;
}

/* ---- all of them ---- */

static const struct {
    unsigned can; /* what the reference needs for it */
    const char *what;
    bn_status (*climb)(struct bn_crossval *x, struct bn_xref *ref, struct bn_xrung *rung, bn_error *err);
} RUNGS[BN_XTRACE + 1] = {
    [BN_RUNG_TOKENS] = {BN_CAN_TOKENIZE, "tokenize", tokens},
    [BN_RUNG_FIRST] = {BN_CAN_LOGITS, "give logits", first},
    [BN_RUNG_POSITIONS] = {BN_CAN_LOGITS, "give logits", positions},
    [BN_RUNG_DECODE] = {BN_CAN_LOGITS, "give logits", decode},
    [BN_RUNG_LIKELIHOOD] = {BN_CAN_LOGITS, "give logits", likelihood},
    [BN_RUNG_MASK] = {BN_CAN_LOGITS, "give logits", mask},
    [BN_XTRACE] = {BN_CAN_TRACE, "trace", compare_traces},
};

bn_status bn_xref_climb(struct bn_crossval *x, struct bn_xref *ref, unsigned which, bn_error *err)
{
    struct bn_xrung *rung = &ref->rungs[which];
    const char *where = ref->failure.where;
    if (!ref->broken && (ref->info.can & RUNGS[which].can) == 0)
        return say(rung, BN_X_SKIP, "the reference cannot %s", RUNGS[which].what);
    if (!ref->broken) BN_TRY(RUNGS[which].climb(x, ref, rung, err));
    if (!ref->broken) return BN_OK;
    return say(rung, BN_X_ERROR, "the reference failed: %s%s%s", where, where[0] != '\0' ? ": " : "",
               ref->failure.msg);
}

bn_status bn_xref_explain(struct bn_crossval *x, struct bn_xref *ref, bn_error *err)
{
    struct bn_xrung *rung = &ref->rungs[BN_RUNG_FIRST];
    if (!may_be_rounding(x, rung)) return BN_OK;
    ref->n_traced = 1;
    BN_TRY(bn_xref_climb(x, ref, BN_XTRACE, err));
    const struct bn_finding *f = find_rounding(ref);
    bool most = false;
    if (f != NULL) BN_TRY(most_others_hold(x, ref, &most, err));
    if (!most) return BN_OK;
    return say(rung, BN_X_PASS,
               "explained by rounding: %s of layer %d turns a difference of %.3g into %.3g; %.3g is allowed",
               bn_op_name(f->op), (int)f->layer, f->handed, f->error, f->allowed);
}
