/* SPDX-License-Identifier: MIT
 *
 * What was found, as the document of --json, and its block for receipts, which goes into the receipt of a run with the
 * same model and prompt. The receipt's own digest has to hold before, and is made anew: sealing what was edited would
 * turn a forgery into a receipt.
 */
#include <math.h>

#include "base/clock.h"
#include "lab/kit/put_counts.h"
#include "lab/receipt/receipt.h"
#include "tools/cli/default_model.h"
#include "tools/cli/provenance.h"
#include "tools/crossval/crossval.h"

static const char *const STATES[] = {[BN_X_NONE] = "none",
                                     [BN_X_PASS] = "pass",
                                     [BN_X_FAIL] = "fail",
                                     [BN_X_SKIP] = "skip",
                                     [BN_X_ERROR] = "error"};

static void put_limits(bn_json *rung, const struct bn_xrung *r)
{
    bn_json *list = bn_json_put_array(rung, "limits");
    for (size_t i = 0; i < r->n_verdicts; i++) {
        const struct bn_threshold_verdict *v = &r->verdicts[i];
        bn_json *limit = bn_json_add_object(list);
        BN_PUT(limit, BN_STRING("metric", bn_metric_name(v->metric)),
               BN_STRING("of", v->is_mean ? "mean" : "worst"), BN_NUMBER("value", v->value));
        bn_json_put_number(limit, v->is_min ? "min" : "max", v->bound);
        bn_json_put_number(limit, "margin", v->margin);
        if (!v->is_mean) bn_json_put_u64(limit, "position", v->row);
        bn_json_put_bool(limit, "holds", v->holds);
    }
}

static void put_rung(bn_json *list, enum bn_rung which, const struct bn_xrung *r, bool brief)
{
    bn_json *rung = bn_json_add_object(list);
    BN_PUT(rung, BN_STRING("rung", bn_rung_name(which)), BN_STRING("status", STATES[r->state]));
    if (r->reason[0] != '\0') bn_json_put_string(rung, "reason", r->reason);
    if (r->hint[0] != '\0') bn_json_put_string(rung, "hint", r->hint);
    bn_json_put_u64(rung, "compared", r->n_compared);
    if (which == BN_RUNG_TOKENS && r->state == BN_X_FAIL) bn_json_put_u64(rung, "index", r->at);
    if (which == BN_RUNG_POSITIONS && r->sum.n_rows > 0) {
        bn_json_put_number(rung, "kl_mean", bn_metrics_mean(&r->sum, BN_METRIC_KL));
        bn_json_put_number(rung, "max_abs", r->sum.of[BN_METRIC_MAX_ABS].worst);
    }
    if (brief) return;
    if (which == BN_RUNG_TOKENS && r->state == BN_X_FAIL) {
        BN_PUT(rung, BN_STRING("here", r->ours), BN_STRING("there", r->theirs));
    }
    if (r->sum.n_rows > 0 && which != BN_RUNG_LIKELIHOOD) {
        BN_PUT(rung, BN_U64("rows", r->sum.n_rows), BN_U64("rows_same_bits", r->sum.n_same_bits));
    }
    if (r->n_verdicts > 0) put_limits(rung, r);
    if (r->n_steps > 0) {
        BN_PUT(rung, BN_U64("steps", r->n_steps), BN_U64("agree", r->n_agree), BN_U64("ties", r->n_tied));
    }
    if (which == BN_RUNG_LIKELIHOOD && r->n_compared > 0) {
        BN_PUT(rung, BN_NUMBER("nll_here", r->nll_ours), BN_NUMBER("nll_there", r->nll_theirs));
    }
}

/* ---- trace ---- */

static void put_finding(bn_json *list, const struct bn_finding *f)
{
    bn_json *o = bn_json_add_object(list);
    BN_PUT(o, BN_STRING("op", bn_op_name(f->op)), BN_NUMBER("layer", f->layer),
           BN_STRING("found", bn_found_name(f->found)), BN_U64("rows", f->rows), BN_U64("cols", f->cols),
           BN_FLAG("same_bits", f->same_bits));
    if (f->found == BN_FOUND_ABSENT_A || f->found == BN_FOUND_ABSENT_B || f->found == BN_FOUND_SHAPE) return;
    BN_PUT(o, BN_NUMBER("nrmse", f->nrmse), BN_NUMBER("cosine", f->cosine), BN_U64("position", f->row),
           BN_NUMBER("handed", f->handed), BN_NUMBER("error", f->error), BN_NUMBER("allowed", f->allowed));
}

static void put_trace(bn_json *reference, const struct bn_xref *ref, bool brief)
{
    const struct bn_bisection *b = &ref->trace;
    const struct bn_xrung *traced = &ref->rungs[BN_XTRACE];
    bn_json *trace = bn_json_put_object(reference, "trace");
    bn_json_put_string(trace, "status", STATES[traced->state]);
    if (traced->reason[0] != '\0') bn_json_put_string(trace, "reason", traced->reason);
    if (brief) return;
    BN_PUT(trace, BN_U64("tokens", ref->n_traced), BN_U64("records", b->n_compared),
           BN_U64("values", b->n_values), BN_U64("same_bits", b->n_same_bits), BN_U64("absent", b->n_absent));
    if (b->first < b->n) {
        bn_json *first = bn_json_put_object(trace, "first");
        BN_PUT(first, BN_STRING("op", bn_op_name(b->list[b->first].op)),
               BN_NUMBER("layer", b->list[b->first].layer), BN_U64("index", b->first));
    }
    bn_json *list = bn_json_put_array(trace, "operations");
    for (size_t i = 0; i < b->n; i++)
        put_finding(list, &b->list[i]);
}

/* ---- references ---- */

static void put_positions(bn_json *reference, const struct bn_crossval *x, const struct bn_xref *ref)
{
    static const enum bn_metric SHOWN[] = {BN_METRIC_COSINE, BN_METRIC_MAX_ABS};
    bn_json *positions = bn_json_put_object(reference, "positions");
    for (size_t m = 0; m < BN_ARRAY_LEN(SHOWN); m++) {
        bn_json *list = bn_json_put_array(positions, bn_metric_name(SHOWN[m]));
        for (size_t r = 0; r < x->n_prompt; r++)
            bn_json_add_number(list, ref->rows[r].of[SHOWN[m]]);
    }
}

/* "agree", "differ", "failed" or "no_data". */
static const char *result_of(const struct bn_xref *ref)
{
    if (ref->broken) return "failed";
    if (bn_xref_parted(ref) != BN_RUNG_COUNT || ref->rungs[BN_XTRACE].state == BN_X_FAIL) return "differ";
    return bn_xref_compared(ref) > 0 ? "agree" : "no_data";
}

static void put_program(bn_json *o, const struct bn_reference_info *info)
{
    BN_PUT(o, BN_STRING("name", info->name), BN_TEXT("version", info->version),
           BN_TEXT("commit", info->commit));
}

void bn_crossval_put_reference(bn_json *list, const struct bn_crossval *x, const struct bn_xref *ref,
                               bool brief)
{
    bn_json *o = bn_json_add_object(list);
    bn_json_put_string(o, "reference", ref->given);
    put_program(o, &ref->info);
    BN_PUT(o, BN_TEXT("arch", ref->info.arch), BN_STRING("run_as", ref->command));
    bn_json_put_string(o, "model", ref->model); /* null: the model above, or none */
    BN_PUT(o, BN_FLAG("started", ref->started), BN_STRING("result", result_of(ref)));
    enum bn_rung parted = bn_xref_parted(ref);
    bn_json_put_string(o, "parted_at", parted != BN_RUNG_COUNT ? bn_rung_name(parted) : NULL);
    if (ref->broken) {
        bn_json *failure = bn_json_put_object(o, "failure");
        bn_json_put_string(failure, "status", bn_status_name(ref->failure.code));
        if (ref->failure.where[0] != '\0') bn_json_put_string(failure, "where", ref->failure.where);
        bn_json_put_string(failure, "message", ref->failure.msg);
        if (ref->failure.hint[0] != '\0') bn_json_put_string(failure, "hint", ref->failure.hint);
        bn_json_put_string(failure, "stderr", ref->last_words);
    }
    bn_json *rungs = bn_json_put_array(o, "rungs");
    for (unsigned r = 0; r < BN_RUNG_COUNT; r++)
        if (ref->rungs[r].state != BN_X_NONE) put_rung(rungs, (enum bn_rung)r, &ref->rungs[r], brief);
    if (ref->rungs[BN_XTRACE].state != BN_X_NONE) put_trace(o, ref, brief);
    if (!brief && ref->rows != NULL && ref->rungs[BN_RUNG_POSITIONS].sum.n_rows == x->n_prompt)
        put_positions(o, x, ref);
}

/* ---- three engines and more ---- */

/* The engines that sent logits; this one is the first. */
struct engines {
    size_t n;
    const char *names[BN_XREFS_MAX + 1];
    const float *logits[BN_XREFS_MAX + 1];
    bool agree[BN_XREFS_MAX + 1][BN_XREFS_MAX + 1];
};

static void put_pair(bn_json *pairs, const struct bn_crossval *x, struct engines *e, size_t i, size_t j)
{
    struct bn_metrics m;
    struct bn_metrics_sum sum = {0};
    bn_json *pair = bn_json_add_object(pairs);
    for (size_t r = 0; r < x->n_prompt; r++) {
        bn_metrics_of(&m, e->logits[i] + r * x->n_vocab, e->logits[j] + r * x->n_vocab, x->n_vocab);
        bn_metrics_add(&sum, &m, r, x->n_vocab);
    }
    e->agree[i][j] = bn_thresholds_hold(&x->thresholds, BN_RUNG_POSITIONS, &sum);
    BN_PUT(pair, BN_STRING("a", e->names[j]), BN_STRING("b", e->names[i]),
           BN_NUMBER("nrmse_mean", bn_metrics_mean(&sum, BN_METRIC_NRMSE)), BN_FLAG("agree", e->agree[i][j]));
}

/* The odd one out agrees with no other, while all others agree with each other. */
static bool is_odd(const struct engines *e, size_t who)
{
    for (size_t i = 0; i < e->n; i++)
        for (size_t j = 0; j < i; j++)
            if (e->agree[i][j] == (i == who || j == who)) return false;
    return true;
}

static void put_between(bn_json *doc, const struct bn_crossval *x)
{
    struct engines e = {.n = 1, .names = {"this engine"}, .logits = {x->logits}};
    size_t odd = 0;
    for (size_t i = 0; i < x->n_refs; i++) {
        const struct bn_xref *ref = &x->refs[i];
        if (ref->broken || ref->logits == NULL || ref->n_rows < x->n_prompt) continue;
        e.names[e.n] = ref->given;
        e.logits[e.n++] = ref->logits;
    }
    if (e.n < 3) return;
    bn_json *between = bn_json_put_object(doc, "between"), *pairs = bn_json_put_array(between, "pairs");
    for (size_t i = 0; i < e.n; i++)
        for (size_t j = 0; j < i; j++)
            put_pair(pairs, x, &e, i, j);
    while (odd < e.n && !is_odd(&e, odd))
        odd++;
    bn_json_put_string(between, "odd_one_out", odd < e.n ? e.names[odd] : NULL);
}

/* ---- the block for receipts ---- */

static void put_parity(const struct bn_crossval *x, bn_json *object)
{
    int code = bn_crossval_exit(x);
    size_t compared = 0;
    bn_json *parity = bn_json_put_object(object, "parity");
    bn_json_put_string(parity, "schema", BN_CROSSVAL_SCHEMA);
    bn_json *list = bn_json_put_array(parity, "references");
    for (size_t i = 0; i < x->n_refs; i++) {
        const struct bn_xref *ref = &x->refs[i];
        bn_json *o = bn_json_add_object(list);
        put_program(o, &ref->info);
        BN_PUT(o, BN_STRING("result", result_of(ref)), BN_U64("compared", bn_xref_compared(ref)));
        bn_json *rungs = bn_json_put_object(o, "rungs");
        for (unsigned r = 0; r < BN_RUNG_COUNT; r++)
            if (ref->rungs[r].state != BN_X_NONE)
                bn_json_put_string(rungs, bn_rung_name((enum bn_rung)r), STATES[ref->rungs[r].state]);
        compared += bn_xref_compared(ref);
    }
    bn_json_put_string(parity, "status", code == BN_EXIT_OK ? "ok" : compared > 0 ? "diverged" : "no_data");
    BN_PUT(parity, BN_U64("compared", compared), BN_U64("tokens", x->n_prompt),
           BN_STRING("prompt_ids_sha256", x->prompt_sha), BN_STRING("model_sha256", x->model_sha),
           BN_STRING("thresholds_sha256", x->thresholds_sha));
}

/* ---- provenance ---- */

bn_json *bn_crossval_document(const struct bn_crossval *x)
{
    const bn_hparams *hp = bn_model_hparams(x->model);
    bn_json *doc = bn_json_new_object();
    BN_PUT(doc, BN_STRING("schema", BN_CROSSVAL_SCHEMA), BN_STRING("command", x->args->command->name),
           BN_TIME("created", bn_clock_utc()));
    bn_json *model = bn_json_put_object(doc, "model");
    BN_PUT(model, BN_STRING("name", bn_cli_model_name(x->args)), BN_STRING("sha256", x->model_sha),
           BN_STRING("arch", hp->arch), BN_U64("layers", hp->n_layer), BN_U64("vocabulary", hp->n_vocab));
    bn_json *settings = bn_json_put_object(doc, "settings");
    BN_PUT(settings, BN_STRING("isa", bn_isa_name()), BN_U64("threads", x->n_threads));
    if (!x->args->json) return doc; /* people see results */
    bn_cli_put_provenance(doc, NULL);
    return doc;
}

bn_json *bn_crossval_results(const struct bn_crossval *x)
{
    bn_json *doc = bn_crossval_document(x);
    bn_json_put_ids(doc, "tokens", x->ids, x->n_prompt);
    bn_json_put_ids(doc, "decoded", x->ids != NULL ? x->ids + x->n_prompt : NULL, x->n_ids - x->n_prompt);
    bn_json *list = bn_json_put_array(doc, "references");
    for (size_t i = 0; i < x->n_refs; i++)
        bn_crossval_put_reference(list, x, &x->refs[i], false);
    put_between(doc, x);
    put_parity(x, doc);
    bn_json_put_u64(doc, "exit_code", (uint64_t)bn_crossval_exit(x));
    return doc;
}

static bn_status check(const struct bn_crossval *x, const bn_json *statement, bn_error *err)
{
    const char *claimed = NULL, *model = NULL, *prompt = NULL;
    char actual[BN_SHA256_HEX];
    if (!bn_json_string(bn_json_path(statement, "predicate.model.sha256"), &model) ||
        !bn_json_string(bn_json_path(statement, "predicate.request.prompt_ids_sha256"), &prompt) ||
        !bn_json_string(bn_json_get(statement, "receipt_sha256"), &claimed))
        return bn_hint(bn_fail(err, BN_ERR_FORMAT,
                               "is not a statement with digests of the model, of the prompt and of itself"),
                       err, "bn-run --receipt writes one; sign it afterwards");
    BN_TRY(bn_receipt_self_digest(statement, actual, err));
    if (strcmp(claimed, actual) != 0)
        return bn_fail(err, BN_ERR_INTEGRITY, "was changed: its own digest does not hold");
    if (strcmp(model, x->model_sha) != 0)
        return bn_fail(err, BN_ERR_MISMATCH, "is about another model than the one compared");
    if (strcmp(prompt, x->prompt_sha) == 0) return BN_OK;
    return bn_hint(
        bn_fail(err, BN_ERR_MISMATCH,
                "is about another prompt than the one compared: the ids have sha256 %.16s... and %.16s...",
                prompt, x->prompt_sha),
        err, "--tokens with the ids of its request.prompt_ids");
}

static bn_status add(const struct bn_crossval *x, bn_json *statement, const char *path, bn_error *err)
{
    BN_TRY(check(x, statement, err));
    put_parity(x, (bn_json *)(uintptr_t)bn_json_get(statement, "predicate"));
    BN_TRY(bn_receipt_seal(statement, err));
    return bn_json_write_file(statement, path, err);
}

bn_status bn_crossval_add_to_receipt(const struct bn_crossval *x, const char *path, bn_error *err)
{
    bn_json *statement;
    BN_TRY(bn_json_read_file(&statement, path, err));
    bn_status status = add(x, statement, path, err);
    if (status != BN_OK) bn_error_name(err, path);
    bn_json_free(statement);
    return status;
}
