/* SPDX-License-Identifier: MIT
 *
 * Rules about counts, times and rates: what is claimed twice must agree, parts must not exceed the whole, and
 * everything derived is derived again.
 */
#include <math.h>
#include <stdio.h>

#include "lab/receipt/receipt.h"
#include "lab/verify/checks.h"

typedef unsigned long long ull;

/* ---- tokens ---- */

bool bn_check_token_counts(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    uint64_t generated, requested, prompt, n_predict;
    if (!bn_rule_u64(in, "tokens_generated", &generated, out)) return false;
    if (!bn_rule_u64(in, "tokens_requested", &requested, out)) return false;
    if (generated > requested)
        return bn_rule_fail(out, "%llu tokens were generated, %llu asked for", (ull)generated,
                            (ull)requested);
    if (in->receipt->statement == NULL)
        return bn_rule_pass(out, "%llu of %llu tokens", (ull)generated, (ull)requested);
    if (!bn_rule_u64(in, "result.prompt_tokens", &prompt, out)) return false;
    if (!bn_rule_u64(in, "request.n_predict", &n_predict, out)) return false;
    size_t n_ids = bn_json_size(bn_json_path(in->receipt->predicate, "result.ids"));
    size_t n_prompt = bn_json_size(bn_json_path(in->receipt->predicate, "request.prompt_ids"));
    if (generated == 0 || prompt == 0)
        return bn_rule_fail(out, "%llu prompt tokens and %llu generated ones: nothing was done", (ull)prompt,
                            (ull)generated);
    if (n_ids != generated)
        return bn_rule_fail(out, "result.ids has %zu ids, tokens_generated says %llu", n_ids, (ull)generated);
    if (n_prompt != prompt)
        return bn_rule_fail(out, "request.prompt_ids has %zu ids, result.prompt_tokens says %llu", n_prompt,
                            (ull)prompt);
    if (n_predict != requested)
        return bn_rule_fail(out, "request.n_predict is %llu, tokens_requested is %llu", (ull)n_predict,
                            (ull)requested);
    return bn_rule_pass(out, "%llu of %llu tokens after %llu of the prompt", (ull)generated, (ull)requested,
                        (ull)prompt);
}

bool bn_check_token_ids(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const char *const LISTS[] = {"request.prompt_ids", "result.ids"};
    uint64_t n_vocab;
    if (!bn_rule_u64(in, "model.n_vocab", &n_vocab, out)) return false;
    for (size_t i = 0; i < BN_ARRAY_LEN(LISTS); i++) {
        uint64_t *ids;
        size_t n, bad = 0;
        if (!bn_rule_list(in, LISTS[i], &ids, &n, out)) return false;
        while (bad < n && ids[bad] < n_vocab)
            bad++;
        uint64_t id = bad < n ? ids[bad] : 0;
        bn_free(ids);
        if (bad < n)
            return bn_rule_fail(out, "%s has %llu, the vocabulary ends at %llu", LISTS[i], (ull)id,
                                (ull)n_vocab - 1);
    }
    return bn_rule_pass(out, "all below %llu", (ull)n_vocab);
}

/* Where the first generated id that is in request.stop_ids is, SIZE_MAX for nowhere. */
static size_t find_stop_id(const struct bn_rules_input *in)
{
    const bn_json *stops = bn_json_path(in->receipt->predicate, "request.stop_ids");
    size_t at = 0;
    uint64_t id, stop;
    for (const bn_json *e = bn_json_first(bn_json_path(in->receipt->predicate, "result.ids")); e != NULL;
         e = bn_json_next(e), at++)
        for (const bn_json *s = bn_json_first(stops); s != NULL; s = bn_json_next(s))
            if (bn_json_u64(e, &id) && bn_json_u64(s, &stop) && id == stop) return at;
    return SIZE_MAX;
}

struct stopping {
    uint64_t generated, requested, prompt, ctx;
};

static bool check_reason(const struct bn_rules_input *in, enum bn_stop_reason reason,
                         const struct stopping *s, struct bn_rule_result *out)
{
    bool ignore_end = false;
    size_t stop_id = find_stop_id(in);
    const bn_json *p = in->receipt->predicate;
    (void)bn_json_bool(bn_json_path(p, "request.ignore_end"), &ignore_end);
    if (s->prompt + s->generated > s->ctx + 1)
        return bn_rule_fail(out,
                            "%llu tokens of prompt and %llu generated ones do not fit the context of %llu",
                            (ull)s->prompt, (ull)s->generated, (ull)s->ctx);
    if (reason == BN_STOP_LENGTH && s->generated != s->requested)
        return bn_rule_fail(out, "stopped for length after %llu of %llu tokens", (ull)s->generated,
                            (ull)s->requested);
    if (reason == BN_STOP_CONTEXT && (s->prompt + s->generated != s->ctx + 1 || s->generated == s->requested))
        return bn_rule_fail(
            out, "stopped for a full context of %llu after %llu tokens, %llu of %llu generated", (ull)s->ctx,
            (ull)(s->prompt + s->generated), (ull)s->generated, (ull)s->requested);
    if (reason == BN_STOP_ID && stop_id != s->generated - 1)
        return bn_rule_fail(out, "stopped at an id, but the last one is not the first in request.stop_ids");
    if (reason != BN_STOP_ID && stop_id != SIZE_MAX)
        return bn_rule_fail(out, "result.ids[%zu] is in request.stop_ids, and it did not stop there",
                            stop_id);
    if (reason == BN_STOP_END && ignore_end)
        return bn_rule_fail(out, "stopped at an end-of-text token, which request.ignore_end rules out");
    if (reason == BN_STOP_STRING && bn_json_size(bn_json_path(p, "request.stops")) == 0)
        return bn_rule_fail(out, "stopped at a text, but request.stops is empty");
    if ((reason == BN_STOP_GRAMMAR || reason == BN_STOP_STUCK) && bn_json_path(p, "request.grammar") == NULL)
        return bn_rule_fail(out, "stopped by a grammar, but there is no request.grammar");
    return bn_rule_pass(out, "%s", bn_stop_reason_name(reason));
}

bool bn_check_stop_reason(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const char *reason = NULL;
    char quoted[80];
    struct stopping s;
    if (!bn_rule_text(in, "result.stop_reason", &reason, out)) return false;
    if (!bn_rule_u64(in, "tokens_generated", &s.generated, out)) return false;
    if (!bn_rule_u64(in, "tokens_requested", &s.requested, out)) return false;
    if (!bn_rule_u64(in, "result.prompt_tokens", &s.prompt, out)) return false;
    if (!bn_rule_u64(in, "resolved.ctx", &s.ctx, out)) return false;
    int which = 0;
    while (which < BN_STOP_REASON_COUNT &&
           strcmp(reason, bn_stop_reason_name((enum bn_stop_reason)which)) != 0)
        which++;
    if (which == BN_STOP_REASON_COUNT)
        return bn_rule_fail(out, "unknown stop_reason \"%s\"", bn_rule_quote(quoted, reason));
    return check_reason(in, (enum bn_stop_reason)which, &s, out);
}

/* ---- rates and times ---- */

/* The rate within the policy's tolerance; that of a statement is computed as bn-run does it. */
static bool rate_fits(const struct bn_rules_input *in, double rate, uint64_t tokens, double seconds)
{
    uint64_t ns;
    double right = (double)tokens / seconds;
    if (in->receipt->statement != NULL &&
        bn_json_u64(bn_json_path(in->receipt->predicate, "measurement.total_ns"), &ns))
        return fabs(rate - (double)bn_receipt_rate_milli(tokens, ns) / 1000) < 0.0001;
    return fabs(rate - right) <= right * (double)in->policy->rate_tolerance_milli / 1000;
}

static bool rate_claim(const struct bn_rules_input *in, double *rate, struct bn_rule_result *out)
{
    const bn_json *claim = bn_rule_claim(in, "tokens_per_second", out);
    if (claim == NULL) return false;
    if (bn_json_number(claim, rate) && isfinite(*rate) && *rate >= 0) return true;
    return bn_rule_fail(out, "tokens_per_second is not a number from 0 on");
}

/* Seconds that the tokens took: measurement.total_ns, or what other tools have. */
static bool total_seconds(const struct bn_rules_input *in, double *seconds)
{
    uint64_t ns;
    double ms;
    if (bn_json_u64(bn_json_path(in->receipt->predicate, "measurement.total_ns"), &ns)) {
        *seconds = (double)ns / 1e9;
        return true;
    }
    if (!bn_json_number(bn_json_path(in->receipt->predicate, "performance_baseline.total_time_ms"), &ms))
        return false;
    *seconds = ms / 1000;
    return true;
}

/* The averages of other tools: tokens x average latency is the total. */
static bool average_contradicts(const struct bn_rules_input *in, double tokens, double seconds,
                                struct bn_rule_result *out)
{
    double average;
    const bn_json *claim =
        bn_json_path(in->receipt->predicate, "performance_baseline.average_token_latency_ms");
    if (!bn_json_number(claim, &average) || average * tokens <= seconds * 1000 * 1.01) return false;
    bn_rule_fail(out, "%.0f tokens of %.0f ms on average take longer than the total of %.0f ms", tokens,
                 average, seconds * 1000);
    return true;
}

bool bn_check_rate(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    uint64_t tokens;
    double rate = 0, seconds = 0;
    if (!rate_claim(in, &rate, out) || !bn_rule_u64(in, "tokens_generated", &tokens, out)) return false;
    bool timed = total_seconds(in, &seconds);
    if ((tokens > 0) != (rate > 0))
        return bn_rule_fail(out, "%llu tokens at %.3f tokens/s", (ull)tokens, rate);
    if (!timed && in->receipt->statement != NULL) return bn_rule_fail(out, "measurement.total_ns is missing");
    if (!timed) return bn_rule_pass(out, "%.3f tokens/s; there is no time to compare with", rate);
    if (!(seconds > 0) || !rate_fits(in, rate, tokens, seconds))
        return bn_rule_fail(out, "%llu tokens in %.6f s are not %.3f tokens/s", (ull)tokens, seconds, rate);
    return !average_contradicts(in, (double)tokens, seconds, out) &&
           bn_rule_pass(out, "%llu tokens in %.6f s", (ull)tokens, seconds);
}

bool bn_check_times(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    uint64_t prefill, decode, total, *samples, sum = 0;
    size_t n;
    if (!bn_rule_u64(in, "measurement.prefill_ns", &prefill, out)) return false;
    if (!bn_rule_u64(in, "measurement.decode_ns", &decode, out)) return false;
    if (!bn_rule_u64(in, "measurement.total_ns", &total, out)) return false;
    if (!bn_rule_list(in, "measurement.token_ns", &samples, &n, out)) return false;
    for (size_t i = 0; i < n; i++)
        if (!bn_add_ok(sum, samples[i], &sum)) sum = UINT64_MAX;
    uint64_t first = n > 0 ? samples[0] : 0;
    bn_free(samples);
    if (total == 0 || prefill == 0)
        return bn_rule_fail(out, "a prompt in %llu ns, all in %llu ns", (ull)prefill, (ull)total);
    if (prefill + decode != total) /* decode is what follows the prompt */
        return bn_rule_fail(out, "prefill and decode take %llu ns, the total is %llu",
                            (ull)(prefill + decode), (ull)total);
    if (sum > total)
        return bn_rule_fail(out, "the tokens take %llu ns, the total is %llu", (ull)sum, (ull)total);
    if (first < prefill)
        return bn_rule_fail(out, "the first token takes %llu ns, the prompt in it %llu", (ull)first,
                            (ull)prefill);
    return bn_rule_pass(out, "the parts fit into %.6f s", (double)total / 1e9);
}

bool bn_check_samples(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    uint64_t tokens, claim, *samples, *sorted = NULL;
    size_t n, n_sorted = 0;
    if (!bn_rule_u64(in, "tokens_generated", &tokens, out)) return false;
    if (!bn_rule_list(in, "measurement.token_ns", &samples, &n, out)) return false;
    bn_status status = bn_receipt_sort_samples(samples, n, &sorted, &n_sorted, NULL);
    bn_free(samples);
    bool ok = status == BN_OK ? n > 0 && n == tokens : bn_rule_error(out, status);
    if (status == BN_OK && !ok) bn_rule_fail(out, "%zu samples for %llu tokens", n, (ull)tokens);
    for (size_t i = 0; i < BN_RECEIPT_PERCENTILES && ok; i++) {
        uint64_t want = bn_receipt_percentile(sorted, n_sorted, bn_receipt_percentiles[i].percent);
        char path[40];
        snprintf(path, sizeof path, "measurement.%s", bn_receipt_percentiles[i].name);
        ok = bn_rule_u64(in, path, &claim, out);
        if (ok && claim != want)
            ok = bn_rule_fail(out, "%s is %llu, the samples give %llu", path, (ull)claim, (ull)want);
    }
    bn_free(sorted);
    return ok && bn_rule_pass(out, "%zu samples, percentiles as claimed", n);
}

bool bn_check_derived_rates(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    uint64_t prompt, cached, generated, prefill_ns, decode_ns, prefill, decode;
    if (!bn_rule_u64(in, "result.prompt_tokens", &prompt, out)) return false;
    if (!bn_rule_u64(in, "tokens_generated", &generated, out)) return false;
    if (!bn_rule_u64(in, "measurement.prefill_ns", &prefill_ns, out)) return false;
    if (!bn_rule_u64(in, "measurement.decode_ns", &decode_ns, out)) return false;
    if (!bn_rule_u64(in, "measurement.prefill_tokens_per_s_milli", &prefill, out)) return false;
    if (!bn_rule_cached(in, prompt, &cached, out)) return false;
    prompt -= cached;
    if (prefill != bn_receipt_rate_milli(prompt, prefill_ns))
        return bn_rule_fail(out, "%llu tokens in %llu ns are not %llu thousandths a second", (ull)prompt,
                            (ull)prefill_ns, (ull)prefill);
    if (generated > 1) {
        if (!bn_rule_u64(in, "measurement.decode_tokens_per_s_milli", &decode, out)) return false;
        if (decode != bn_receipt_rate_milli(generated - 1, decode_ns))
            return bn_rule_fail(out, "%llu tokens in %llu ns are not %llu thousandths a second",
                                (ull)generated - 1, (ull)decode_ns, (ull)decode);
    }
    const bn_json *one = bn_json_path(in->receipt->predicate, "measurement.decode_tokens_per_s_milli");
    if (generated == 1 && one != NULL && bn_json_kind(one) != BN_JSON_NULL)
        return bn_rule_fail(out, "one token, which came with the prompt, has no rate of decoding");
    return bn_rule_pass(out, "prefill %.3f tokens/s", (double)prefill / 1000);
}

/* ---- what other tools put into their receipts ---- */

static bool accuracy_fails(const bn_json *tests, struct bn_rule_result *out)
{
    char quoted[80];
    const bn_json *group = bn_json_get(tests, "accuracy_tests");
    for (const bn_json *t = bn_json_first(group); t != NULL; t = bn_json_next(t)) {
        bool passed = true;
        double mse = 0, tolerance = 0;
        (void)bn_json_bool(bn_json_get(t, "passed"), &passed);
        bool both = bn_json_number(bn_json_get(t, "mse"), &mse) &&
                    bn_json_number(bn_json_get(t, "tolerance"), &tolerance);
        if (passed && !(both && mse > tolerance)) continue;
        bn_rule_fail(out, "accuracy test %s did not pass",
                     bn_json_name(t) == NULL ? "?" : bn_rule_quote(quoted, bn_json_name(t)));
        return true;
    }
    return false;
}

bool bn_check_tests(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const bn_json *tests = bn_json_get(in->receipt->predicate, "test_results");
    uint64_t total = 0, passed = 0, failed = 0, skipped = 0;
    bool deterministic = false, identical = true;
    if (tests == NULL) return bn_rule_skip(out, "test_results is not claimed");
    bool counted = bn_json_u64(bn_json_get(tests, "total_tests"), &total) &&
                   bn_json_u64(bn_json_get(tests, "passed"), &passed);
    (void)bn_json_u64(bn_json_get(tests, "failed"), &failed);
    (void)bn_json_u64(bn_json_get(tests, "skipped"), &skipped);
    (void)bn_json_bool(bn_json_get(in->receipt->predicate, "deterministic"), &deterministic);
    (void)bn_json_bool(bn_json_path(tests, "determinism_tests.identical_sequences"), &identical);
    if (failed > 0) return bn_rule_fail(out, "%llu tests failed", (ull)failed);
    if (counted && passed + skipped != total)
        return bn_rule_fail(out, "%llu tests, of which %llu passed and %llu were skipped", (ull)total,
                            (ull)passed, (ull)skipped);
    if (deterministic && !identical)
        return bn_rule_fail(out, "deterministic is claimed, and the runs differed");
    return !accuracy_fails(tests, out) && bn_rule_pass(out, "%llu passed", (ull)passed);
}

bool bn_check_corrections(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const bn_json *list = bn_json_get(in->receipt->predicate, "corrections");
    size_t n = bn_json_size(list);
    if (list == NULL) return bn_rule_skip(out, "corrections are not claimed");
    if (bn_json_kind(list) != BN_JSON_ARRAY) return bn_rule_fail(out, "corrections is not a list");
    if (n > 0 && !in->policy->allow_corrections)
        return bn_rule_fail(out, "%zu corrections of weights, which the policy does not allow", n);
    return bn_rule_pass(out, "%zu", n);
}
