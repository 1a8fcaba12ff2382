/* SPDX-License-Identifier: MIT
 *
 * See rules.h. The order of the table is the order of checking: what binds a receipt comes first.
 */
#include "lab/receipt/rules.h"

#include "base/error.h"
#include "lab/receipt/checks.h"

#define INTEGRITY BN_LEVEL_INTEGRITY
#define CONSISTENCY BN_LEVEL_CONSISTENCY

static const struct bn_rule RULES[] = {
    {"signature", "enough of the given keys verify the envelope", INTEGRITY, bn_check_signature},
    {"self-digest", "receipt_sha256 is the digest of the content", INTEGRITY, bn_check_self_digest},
    {"subject", "the subjects are the model and the tokens of the predicate, and no others", INTEGRITY,
     bn_check_subject},
    {"ids-digest", "token ids have the digests that stand beside them", INTEGRITY, bn_check_ids_digest},
    {"text-digest", "texts that are shown have the digests that stand beside them", INTEGRITY,
     bn_check_text_digests},
    {"model", "the model is the one that the verifier has", INTEGRITY, bn_check_model},

    {"form", "the policy accepts this form", CONSISTENCY, bn_check_form},
    {"schema-version", "schema_version is 1.0.0 or 1.0", CONSISTENCY, bn_check_schema_version},
    {"timestamp", "timestamp is an RFC 3339 time, not in the future, not before 2026", CONSISTENCY,
     bn_check_timestamp},
    {"freshness", "timestamp is not older than --max-age", CONSISTENCY, bn_check_freshness},
    {"request-fields", "request has only fields that this program knows", CONSISTENCY,
     bn_check_request_fields},

    {"fields", "every field that no other rule reads is there, with its type", CONSISTENCY, bn_check_fields},
    {"sampling", "the settings of the request are ones that the sampler takes", CONSISTENCY,
     bn_check_sampling},

    {"compute-path", "compute_path is real", CONSISTENCY, bn_check_compute_path},
    {"deterministic", "deterministic is true", CONSISTENCY, bn_check_deterministic},
    {"isa", "the instruction set is the one asked for, and the machine can have it", CONSISTENCY,
     bn_check_isa},
    {"resources", "threads, context and batch are within the limits and as asked for", CONSISTENCY,
     bn_check_resources},
    {"environment", "environment repeats what machine and resolved say", CONSISTENCY, bn_check_environment},
    {"machine", "machine does not contradict itself or the program", CONSISTENCY, bn_check_machine},
    {"backend", "backend is cpu; in a bare predicate also cuda, gpu or metal", CONSISTENCY, bn_check_backend},
    {"backend-summary", "backend_summary says what was selected", CONSISTENCY, bn_check_backend_summary},
    {"kernels-present", "kernels is a list of texts with at least one", CONSISTENCY,
     bn_check_kernels_present},
    {"kernels-blank", "no kernel's name is blank", CONSISTENCY, bn_check_kernels_blank},
    {"kernels-length", "no kernel's name is longer than 128 bytes", CONSISTENCY, bn_check_kernels_length},
    {"kernels-count", "there are at most 10000 kernels", CONSISTENCY, bn_check_kernels_count},
    {"kernels-repeated", "no kernel is named twice", CONSISTENCY, bn_check_kernels_repeated},
    {"kernels-mock", "no kernel's name says that it is none", CONSISTENCY, bn_check_kernels_mock},
    {"kernels-known", "every kernel is in the table of the instruction set, resolved.isa", CONSISTENCY,
     bn_check_kernels_known},
    {"gpu-kernels", "a GPU backend, or --require-gpu-kernels, has kernels of a GPU", CONSISTENCY,
     bn_check_gpu_kernels},
    {"cpu-kernels", "a CPU backend has ternary kernels", CONSISTENCY, bn_check_cpu_kernels},
    {"quantization-claim", "not everything is a fallback to dequantised weights", CONSISTENCY,
     bn_check_quantization_claim},
    {"quantized-kernels", "--require-quantized-kernels: quantised kernels and no fallback", CONSISTENCY,
     bn_check_quantized_kernels},

    {"token-counts", "no more tokens than asked for, and every count of them agrees", CONSISTENCY,
     bn_check_token_counts},
    {"token-ids", "every id is in the vocabulary", CONSISTENCY, bn_check_token_ids},
    {"stop-reason", "the reason to stop fits the tokens", CONSISTENCY, bn_check_stop_reason},
    {"rate", "tokens_per_second is tokens_generated / time", CONSISTENCY, bn_check_rate},
    {"times", "prefill, decode and tokens fit into the total", CONSISTENCY, bn_check_times},
    {"samples", "one sample a token, and the percentiles follow from them", CONSISTENCY, bn_check_samples},
    {"derived-rates", "rates of prefill and decode follow from counts and times", CONSISTENCY,
     bn_check_derived_rates},
    {"tests", "no test of test_results failed", CONSISTENCY, bn_check_tests},
    {"parity", "parity with references is that of this model and prompt, and did not fail", CONSISTENCY,
     bn_check_parity},
    {"corrections", "no weights were corrected, unless the policy allows it", CONSISTENCY,
     bn_check_corrections},

    {"model-shape", "the hyper-parameters give the weights, and the file can hold them", CONSISTENCY,
     bn_check_model_shape},
    {"kernel-stats", "every kernel listed was counted, and the other way round", CONSISTENCY,
     bn_check_kernel_stats},
    {"kernel-time", "the kernels' time fits into the total", CONSISTENCY, bn_check_kernel_time},
    {"kernel-work", "ternary multiply-adds, calls and bytes are what these tokens cost", CONSISTENCY,
     bn_check_kernel_work},
    {"attention-work", "attention's multiply-adds and bytes are what these tokens cost", CONSISTENCY,
     bn_check_attention_work},
    {"head-work", "the head's multiply-adds, calls and bytes are what these tokens cost", CONSISTENCY,
     bn_check_head_work},
    {"layer-work", "the other kernels' elements, calls and bytes are what these tokens cost", CONSISTENCY,
     bn_check_layer_work},
    {"performance-physical", "no work is claimed that no processor can do in the time", CONSISTENCY,
     bn_check_performance_physical},
    {"performance-limits", "--validate-performance: a rate without bytes is not suspicious", CONSISTENCY,
     bn_check_performance_limits},
    {"performance-measured", "--validate-performance: memory can deliver that many bytes in that time",
     CONSISTENCY, bn_check_performance_measured},

    {"model-allowed", "the policy lists the model", CONSISTENCY, bn_check_model_allowed},
    {"program", "the program's commit and digest are what the policy demands", CONSISTENCY, bn_check_program},
    {"git", "the working tree's commit is what the policy demands", CONSISTENCY, bn_check_git},

    {"replay", "--replay: the same request gives the same tokens", BN_LEVEL_REPLAY, bn_check_replay},
};
_Static_assert(BN_ARRAY_LEN(RULES) <= BN_RULES_MAX, "a report has room for every rule");

const struct bn_rule *bn_rules_at(size_t i)
{
    return i < BN_ARRAY_LEN(RULES) ? &RULES[i] : NULL;
}

const struct bn_rule *bn_rules_find(const char *id)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(RULES); i++)
        if (strcmp(RULES[i].id, id) == 0) return &RULES[i];
    return NULL;
}

const char *bn_rule_level_name(enum bn_rule_level level)
{
    static const char *const NAMES[BN_LEVEL_COUNT] = {"integrity", "consistency", "replay"};
    return (unsigned)level < BN_LEVEL_COUNT ? NAMES[level] : "none";
}

const char *bn_verdict_name(enum bn_receipt_verdict verdict)
{
    static const char *const NAMES[BN_VERDICT_COUNT] = {"skip", "pass", "FAIL", "undecided"};
    return (unsigned)verdict < BN_VERDICT_COUNT ? NAMES[verdict] : "?";
}

static void run_rule(const struct bn_rule *rule, const struct bn_rules_input *in, struct bn_rule_result *out)
{
    *out = (struct bn_rule_result){0};
    if (bn_receipt_policy_lists(in->policy, "off", rule->id, NULL)) {
        bn_rule_skip(out, "switched off by the policy");
        return;
    }
    rule->check(in, out);
    if (out->status != BN_OK) return;
    if (out->verdict == BN_VERDICT_SKIP && bn_receipt_policy_lists(in->policy, "require", rule->id, NULL)) {
        char why[sizeof out->reason];
        memcpy(why, out->reason, sizeof why);
        bn_rule_fail(out, "required by the policy: %.200s", why);
        out->no_data = true;
    }
}

/* Were the kernels of a statement compared with the table, or is that rule switched off? */
static bool kernels_unknown(const struct bn_rules_report *report, const struct bn_receipt *r)
{
    size_t i = (size_t)(bn_rules_find("kernels-known") - RULES);
    return r->statement != NULL && report->results[i].verdict == BN_VERDICT_SKIP;
}

/* Nothing that failed: the highest level of which something passed, without a gap. */
static void judge(struct bn_rules_report *report, const struct bn_rules_input *in, const size_t *failed,
                  const size_t *passed)
{
    const struct bn_receipt *r = in->receipt;
    const struct bn_rule_result *signature = &report->results[0], *self = &report->results[1];
    report->verified = report->n_failed == 0 && report->n_undecided == 0;
    report->bound = r->root != NULL &&
                    (signature->verdict == BN_VERDICT_PASS || self->verdict == BN_VERDICT_PASS) &&
                    failed[INTEGRITY] == 0;
    for (int level = 0; level < BN_LEVEL_COUNT && failed[level] == 0; level++) {
        if (level != INTEGRITY && (passed[level] == 0 || kernels_unknown(report, r))) break;
        report->reached = r->root != NULL;
        report->level = (enum bn_rule_level)level;
    }
    report->exit_code = failed[INTEGRITY] > 0     ? BN_EXIT_INTEGRITY
                        : report->n_failed > 0    ? BN_EXIT_NEGATIVE
                        : report->n_undecided > 0 ? BN_EXIT_UNSUPPORTED
                                                  : BN_EXIT_OK;
}

bn_status bn_rules_run(struct bn_rules_report *report, const struct bn_rules_input *in, bn_error *err)
{
    size_t failed[BN_LEVEL_COUNT] = {0}, passed[BN_LEVEL_COUNT] = {0};
    *report = (struct bn_rules_report){0};
    for (size_t i = 0; i < BN_ARRAY_LEN(RULES); i++) {
        struct bn_rule_result *out = &report->results[i];
        bool unread = i > 0 && in->receipt->root == NULL;
        if (unread || (RULES[i].level != INTEGRITY && failed[INTEGRITY] > 0))
            bn_rule_skip(out, "not reached");
        else
            run_rule(&RULES[i], in, out);
        if (out->status != BN_OK) {
            bn_status status = out->status;
            *report = (struct bn_rules_report){0};
            return bn_fail(err, status, "rule %s could not be checked: %s", RULES[i].id,
                           status == BN_ERR_NOMEM ? "out of memory" : bn_status_name(status));
        }
        failed[out->no_data ? CONSISTENCY : RULES[i].level] +=
            out->verdict == BN_VERDICT_FAIL || out->verdict == BN_VERDICT_UNDECIDED;
        passed[RULES[i].level] += out->verdict == BN_VERDICT_PASS;
        report->n_failed += out->verdict == BN_VERDICT_FAIL;
        report->n_passed += out->verdict == BN_VERDICT_PASS;
        report->n_skipped += out->verdict == BN_VERDICT_SKIP;
        report->n_undecided += out->verdict == BN_VERDICT_UNDECIDED;
    }
    judge(report, in, failed, passed);
    return BN_OK;
}

size_t bn_rules_first_bad(const struct bn_rules_report *report)
{
    enum bn_receipt_verdict wanted = report->n_failed > 0 ? BN_VERDICT_FAIL : BN_VERDICT_UNDECIDED;
    for (size_t i = 0; i < BN_ARRAY_LEN(RULES); i++)
        if (report->results[i].verdict == wanted) return i;
    return SIZE_MAX;
}
