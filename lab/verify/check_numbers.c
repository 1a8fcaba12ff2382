/* SPDX-License-Identifier: MIT
 *
 * Rules about counts, times and rates: what is claimed twice must agree, parts must not exceed the whole, and
 * everything derived is derived again.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab/receipt/receipt.h"
#include "lab/verify/checks.h"

/* ---- tokens ---- */

bool bn_check_token_counts(const struct bn_check *c)
{
    ull generated = c->k->all.tokens_generated, requested = c->k->all.tokens_requested,
        prompt = c->k->result.prompt_tokens, n_predict = c->k->request.n_predict;
    if (!bn_rule_needs(c, "tokens_generated tokens_requested")) return false;
    if (generated > requested)
        return FAIL(c, "%llu tokens were generated, %llu asked for", generated, requested);
    if (c->bare) return PASS(c, "%llu of %llu tokens", generated, requested);
    if (!bn_rule_needs(c, "result.prompt_tokens request: n_predict")) return false;
    size_t n_ids = bn_json_size(bn_json_path(c->p, "result.ids"));
    size_t n_prompt = bn_json_size(bn_json_path(c->p, "request.prompt_ids"));
    if (generated == 0 || prompt == 0)
        return FAIL(c, "%llu prompt tokens and %llu generated ones: nothing was done", prompt, generated);
    if (n_ids != generated)
        return FAIL(c, "result.ids has %zu ids, tokens_generated says %llu", n_ids, generated);
    if (n_prompt != prompt)
        return FAIL(c, "request.prompt_ids has %zu ids, result.prompt_tokens says %llu", n_prompt, prompt);
    if (n_predict != requested)
        return FAIL(c, "request.n_predict is %llu, tokens_requested is %llu", n_predict, requested);
    return PASS(c, "%llu of %llu tokens after %llu of the prompt", generated, requested, prompt);
}

bool bn_check_token_ids(const struct bn_check *c)
{
    static const char *const LISTS[] = {"request.prompt_ids", "result.ids"};
    ull n_vocab = c->k->model.n_vocab;
    if (!bn_rule_needs(c, "model.n_vocab")) return false;
    for (size_t i = 0; i < BN_ARRAY_LEN(LISTS); i++) {
        uint64_t *ids;
        size_t n, bad = 0;
        if (!bn_rule_list(c, LISTS[i], &ids, &n)) return false;
        while (bad < n && ids[bad] < n_vocab)
            bad++;
        ull id = bad < n ? ids[bad] : 0;
        bn_free(ids);
        if (bad < n) return FAIL(c, "%s has %llu, the vocabulary ends at %llu", LISTS[i], id, n_vocab - 1);
    }
    return PASS(c, "all below %llu", n_vocab);
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Where the first generated id that is in request.stop_ids is, SIZE_MAX for nowhere. */
static bool find_stop_id(const struct bn_check *c, size_t *at)
{
    const bn_json *list = bn_json_path(c->p, "request.stop_ids"), *e;
    uint64_t id, *stops = bn_alloc(bn_json_size(list), sizeof *stops);
    size_t n = 0;
    if (stops == NULL) return bn_rule_error(c, BN_ERR_NOMEM);
    for (e = bn_json_first(list); e != NULL; e = bn_json_next(e))
        n += bn_json_u64(e, &stops[n]);
    qsort(stops, n, sizeof *stops, compare_ids);
    *at = 0;
    for (e = bn_json_first(bn_json_path(c->p, "result.ids")); e != NULL; e = bn_json_next(e), ++*at)
        if (bn_json_u64(e, &id) && bsearch(&id, stops, n, sizeof *stops, compare_ids) != NULL) break;
    if (e == NULL) *at = SIZE_MAX;
    bn_free(stops);
    return true;
}

static bool check_reason(const struct bn_check *c, enum bn_stop_reason reason)
{
    ull generated = c->k->all.tokens_generated, requested = c->k->all.tokens_requested,
        prompt = c->k->result.prompt_tokens, ctx = c->k->resolved.ctx;
    size_t stop_id;
    if (!find_stop_id(c, &stop_id)) return false;
    if (prompt + generated > ctx + 1)
        return FAIL(c, "%llu tokens of prompt and %llu generated ones do not fit the context of %llu", prompt,
                    generated, ctx);
    if (reason == BN_STOP_LENGTH && generated != requested)
        return FAIL(c, "stopped for length after %llu of %llu tokens", generated, requested);
    if (reason == BN_STOP_CONTEXT && (prompt + generated != ctx + 1 || generated == requested))
        return FAIL(c, "stopped for a full context of %llu after %llu tokens, %llu of %llu generated", ctx,
                    prompt + generated, generated, requested);
    if (reason == BN_STOP_ID && stop_id != generated - 1)
        return FAIL(c, "stopped at an id, but the last one is not the first in request.stop_ids");
    if (reason != BN_STOP_ID && stop_id != SIZE_MAX)
        return FAIL(c, "result.ids[%zu] is in request.stop_ids, and it did not stop there", stop_id);
    if (reason == BN_STOP_END && bn_json_flag_of(c->p, "request.ignore_end"))
        return FAIL(c, "stopped at an end-of-text token, which request.ignore_end rules out");
    if (reason == BN_STOP_STRING && bn_json_size(bn_json_path(c->p, "request.stops")) == 0)
        return FAIL(c, "stopped at a text, but request.stops is empty");
    if ((reason == BN_STOP_GRAMMAR || reason == BN_STOP_STUCK) && !bn_rule_has(c, "request.grammar"))
        return FAIL(c, "stopped by a grammar, but there is no request.grammar");
    return PASS(c, "%s", bn_stop_reason_name(reason));
}

bool bn_check_stop_reason(const struct bn_check *c)
{
    const char *reason = NULL;
    if (!bn_rule_text(c, "result.stop_reason", &reason) ||
        !bn_rule_needs(c, "tokens_generated tokens_requested result.prompt_tokens resolved.ctx"))
        return false;
    for (int which = 0; which < BN_STOP_REASON_COUNT; which++)
        if (strcmp(reason, bn_stop_reason_name((enum bn_stop_reason)which)) == 0)
            return check_reason(c, (enum bn_stop_reason)which);
    return FAIL(c, "unknown stop_reason \"%s\"", reason);
}

/* ---- rates and times ---- */

/* The rate within the policy's tolerance; that of a statement is computed as bn-run does it. */
static bool rate_fits(const struct bn_check *c, double rate, ull tokens, double seconds)
{
    double right = (double)tokens / seconds;
    if (!c->bare && c->k->measured.total_ns > 0)
        return fabs(rate - (double)bn_receipt_rate_milli(tokens, c->k->measured.total_ns) / 1000) < 0.0001;
    return fabs(rate - right) <= right * (double)c->in->policy->rate_tolerance_milli / 1000;
}

/* The averages of other tools: tokens x average latency is the total. */
static bool average_contradicts(const struct bn_check *c, double tokens, double seconds)
{
    double average = bn_json_number_of(c->p, "performance_baseline.average_token_latency_ms");
    if (isnan(average) || average * tokens <= seconds * 1000 * 1.01) return false;
    FAIL(c, "%.0f tokens of %.0f ms on average take longer than the total of %.0f ms", tokens, average,
         seconds * 1000);
    return true;
}

bool bn_check_rate(const struct bn_check *c)
{
    ull tokens = c->k->all.tokens_generated;
    double rate = 0;
    const bn_json *claim = bn_rule_claim(c, "tokens_per_second");
    if (claim == NULL) return false;
    if (!bn_json_number(claim, &rate) || !isfinite(rate) || rate < 0)
        return FAIL(c, "tokens_per_second is not a number from 0 on");
    if (!bn_rule_needs(c, "tokens_generated")) return false;
    /* That the tokens took: measurement.total_ns, or what other tools have. */
    uint64_t ns;
    bool own = bn_json_u64(bn_json_path(c->p, "measurement.total_ns"), &ns);
    double seconds =
        own ? (double)ns / 1e9 : bn_json_number_of(c->p, "performance_baseline.total_time_ms") / 1000;
    if ((tokens > 0) != (rate > 0)) return FAIL(c, "%llu tokens at %.3f tokens/s", tokens, rate);
    if (isnan(seconds) && !c->bare) return FAIL(c, "measurement.total_ns is missing");
    if (isnan(seconds)) return PASS(c, "%.3f tokens/s; there is no time to compare with", rate);
    if (!(seconds > 0) || !rate_fits(c, rate, tokens, seconds))
        return FAIL(c, "%llu tokens in %.6f s are not %.3f tokens/s", tokens, seconds, rate);
    return !average_contradicts(c, (double)tokens, seconds) &&
           PASS(c, "%llu tokens in %.6f s", tokens, seconds);
}

bool bn_check_times(const struct bn_check *c)
{
    ull prefill = c->k->measured.prefill_ns, decode = c->k->measured.decode_ns,
        total = c->k->measured.total_ns, sum = 0;
    uint64_t *samples;
    size_t n;
    if (!bn_rule_needs(c, "measurement: prefill_ns decode_ns total_ns") ||
        !bn_rule_list(c, "measurement.token_ns", &samples, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        sum = bn_plus(sum, samples[i]);
    ull first = n > 0 ? samples[0] : 0;
    bn_free(samples);
    if (total == 0 || prefill == 0) return FAIL(c, "a prompt in %llu ns, all in %llu ns", prefill, total);
    if (prefill + decode != total) /* decode is what follows the prompt */
        return FAIL(c, "prefill and decode take %llu ns, the total is %llu", prefill + decode, total);
    if (sum > total) return FAIL(c, "the tokens take %llu ns, the total is %llu", sum, total);
    if (first < prefill)
        return FAIL(c, "the first token takes %llu ns, the prompt in it %llu", first, prefill);
    return PASS(c, "the parts fit into %.6f s", (double)total / 1e9);
}

bool bn_check_samples(const struct bn_check *c)
{
    ull claim, tokens = c->k->all.tokens_generated;
    uint64_t *samples, *sorted = NULL;
    size_t n, n_sorted = 0;
    if (!bn_rule_needs(c, "tokens_generated") || !bn_rule_list(c, "measurement.token_ns", &samples, &n))
        return false;
    bn_status status = bn_receipt_sort_samples(samples, n, &sorted, &n_sorted, NULL);
    bn_free(samples);
    bool ok = status == BN_OK ? n > 0 && n == tokens : bn_rule_error(c, status);
    if (status == BN_OK && !ok) FAIL(c, "%zu samples for %llu tokens", n, tokens);
    for (size_t i = 0; i < BN_RECEIPT_PERCENTILES && ok; i++) {
        ull want = bn_receipt_percentile(sorted, n_sorted, bn_receipt_percentiles[i].percent);
        char path[40];
        snprintf(path, sizeof path, "measurement.%s", bn_receipt_percentiles[i].name);
        ok = bn_rule_u64(c, path, &claim);
        if (ok && claim != want) ok = FAIL(c, "%s is %llu, the samples give %llu", path, claim, want);
    }
    bn_free(sorted);
    return ok && PASS(c, "%zu samples, percentiles as claimed", n);
}

bool bn_check_derived_rates(const struct bn_check *c)
{
    const struct bn_claims *k = c->k;
    ull generated = k->all.tokens_generated, rate = k->measured.prefill_tokens_per_s_milli;
    if (!bn_rule_needs(c, "result.prompt_tokens tokens_generated "
                          "measurement: prefill_ns decode_ns prefill_tokens_per_s_milli") ||
        !bn_rule_cached(c) || (generated > 1 && !bn_rule_needs(c, "measurement.decode_tokens_per_s_milli")))
        return false;
    const struct {
        ull tokens, ns, rate;
    } RATES[] = {
        {k->result.prompt_tokens - k->measured.cached_tokens, k->measured.prefill_ns, rate},
        {generated - 1, k->measured.decode_ns, k->measured.decode_tokens_per_s_milli},
    };
    for (size_t i = 0; i < (generated > 1 ? 2 : 1); i++)
        if (RATES[i].rate != bn_receipt_rate_milli(RATES[i].tokens, RATES[i].ns))
            return FAIL(c, "%llu tokens in %llu ns are not %llu thousandths a second", RATES[i].tokens,
                        RATES[i].ns, RATES[i].rate);
    const bn_json *one = bn_json_path(c->p, "measurement.decode_tokens_per_s_milli");
    if (generated == 1 && one != NULL && bn_json_kind(one) != BN_JSON_NULL)
        return FAIL(c, "one token, which came with the prompt, has no rate of decoding");
    return PASS(c, "prefill %.3f tokens/s", (double)rate / 1000);
}

/* ---- what other tools put into their receipts ---- */

static bool accuracy_fails(const struct bn_check *c, const bn_json *tests)
{
    const bn_json *group = bn_json_get(tests, "accuracy_tests");
    for (const bn_json *t = bn_json_first(group); t != NULL; t = bn_json_next(t)) {
        bool passed = true;
        double mse = 0, tolerance = 0;
        (void)bn_json_bool(bn_json_get(t, "passed"), &passed);
        bool both = bn_json_number(bn_json_get(t, "mse"), &mse) &&
                    bn_json_number(bn_json_get(t, "tolerance"), &tolerance);
        if (passed && !(both && mse > tolerance)) continue;
        FAIL(c, "accuracy test %s did not pass", bn_json_name(t) == NULL ? "?" : bn_json_name(t));
        return true;
    }
    return false;
}

bool bn_check_tests(const struct bn_check *c)
{
    const bn_json *tests = bn_json_get(c->p, "test_results");
    uint64_t total = 0, passed = 0, failed = 0, skipped = 0;
    bool deterministic = false, identical = true;
    if (tests == NULL) return SKIP(c, "test_results is not claimed");
    bool counted = bn_json_u64(bn_json_get(tests, "total_tests"), &total) &&
                   bn_json_u64(bn_json_get(tests, "passed"), &passed);
    (void)bn_json_u64(bn_json_get(tests, "failed"), &failed);
    (void)bn_json_u64(bn_json_get(tests, "skipped"), &skipped);
    (void)bn_json_bool(bn_json_get(c->p, "deterministic"), &deterministic);
    (void)bn_json_bool(bn_json_path(tests, "determinism_tests.identical_sequences"), &identical);
    if (failed > 0) return FAIL(c, "%llu tests failed", (ull)failed);
    if (counted && passed + skipped != total)
        return FAIL(c, "%llu tests, of which %llu passed and %llu were skipped", (ull)total, (ull)passed,
                    (ull)skipped);
    if (deterministic && !identical) return FAIL(c, "deterministic is claimed, and the runs differed");
    return !accuracy_fails(c, tests) && PASS(c, "%llu passed", (ull)passed);
}

bool bn_check_corrections(const struct bn_check *c)
{
    const bn_json *list = bn_json_get(c->p, "corrections");
    size_t n = bn_json_size(list);
    if (list == NULL) return SKIP(c, "corrections are not claimed");
    if (bn_json_kind(list) != BN_JSON_ARRAY) return FAIL(c, "corrections is not a list");
    if (n > 0 && !c->in->policy->allow_corrections)
        return FAIL(c, "%zu corrections of weights, which the policy does not allow", n);
    return PASS(c, "%zu", n);
}
