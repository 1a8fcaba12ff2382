/* SPDX-License-Identifier: MIT
 *
 * What the functions of the rules share: giving a verdict, and reading claims from a receipt.
 */
#ifndef BN_RECEIPT_CHECKS_H
#define BN_RECEIPT_CHECKS_H

#include "kernels/kernels.h"
#include "lab/verify/rules.h"

/* Sets verdict and reason; true for a pass. */
bool bn_rule_set(struct bn_rule_result *out, enum bn_receipt_verdict verdict, const char *fmt, ...)
    BN_PRINTF(3, 4);
#define bn_rule_pass(out, ...) bn_rule_set(out, BN_VERDICT_PASS, __VA_ARGS__)
#define bn_rule_fail(out, ...) bn_rule_set(out, BN_VERDICT_FAIL, __VA_ARGS__)
#define bn_rule_skip(out, ...) bn_rule_set(out, BN_VERDICT_SKIP, __VA_ARGS__)
#define bn_rule_undecided(out, ...) bn_rule_set(out, BN_VERDICT_UNDECIDED, __VA_ARGS__)
/* The rule could not be checked; there is no verdict. Returns false. */
bool bn_rule_error(struct bn_rule_result *out, bn_status status);
/* Untrusted text for a reason, shortened; buffer is the result. */
const char *bn_rule_quote(char buffer[80], const char *text);

/* A claim by its path in the predicate. When it is missing or of another kind, *out is set (a statement
 * fails, a bare predicate that does not name it skips) and the result is false. */
const bn_json *bn_rule_claim(const struct bn_rules_input *in, const char *path, struct bn_rule_result *out);
bool bn_rule_u64(const struct bn_rules_input *in, const char *path, uint64_t *value,
                 struct bn_rule_result *out);
/* measurement.cached_tokens, the prompt tokens whose keys and values were in a file: fewer than the prompt has; 0 when
 * the claim is missing. */
bool bn_rule_cached(const struct bn_rules_input *in, uint64_t prompt, uint64_t *cached,
                    struct bn_rule_result *out);
bool bn_rule_text(const struct bn_rules_input *in, const char *path, const char **value,
                  struct bn_rule_result *out);
/* 64 hexadecimal digits in lower case. */
bool bn_rule_digest(const struct bn_rules_input *in, const char *path, const char **value,
                    struct bn_rule_result *out);
/* An array of whole numbers, released with bn_free. */
bool bn_rule_list(const struct bn_rules_input *in, const char *path, uint64_t **values, size_t *n,
                  struct bn_rule_result *out);
/* Whether a value is an array of texts, or of whole numbers. */
bool bn_rule_is_list(const bn_json *value, bool of_texts);

/* Processes that shared the work, 1 without; at most as many as one can count on. */
uint64_t bn_rules_ranks(const struct bn_receipt *receipt);

/* ---- work (check_work.c) ---- */

struct bn_receipt_work {
    uint64_t calls, ns, bytes, ops;
};

/* The sum over the kernels of these slots in measurement.kernel_stats; n_slots 0: over all. Sums that wrap
 * stay at the largest number. */
struct bn_receipt_work bn_receipt_work_sum(const struct bn_rules_input *in, const enum bn_kernel *slots,
                                           size_t n_slots);

/* ---- the table ---- */

/* The rules in the order of checking: what binds a receipt comes first.
 * X(id, function bn_check_..., level, demand) */
#define BN_RULES(X)                                                                                      \
    X("signature", signature, INTEGRITY, "enough of the given keys verify the envelope")                 \
    X("self-digest", self_digest, INTEGRITY, "receipt_sha256 is the digest of the content")              \
    X("subject", subject, INTEGRITY,                                                                     \
      "the subjects are the model and the tokens of the predicate, and no others")                       \
    X("ids-digest", ids_digest, INTEGRITY, "token ids have the claimed digests")                         \
    X("text-digest", text_digests, INTEGRITY, "texts that are shown have the claimed digests")           \
    X("model", model, INTEGRITY, "the model is the one that the verifier has")                           \
    X(BN_RULE_BOUND, bound_to_run, CONSISTENCY, "a digest, a signature or a replay binds it to a run")   \
    X("form", form, CONSISTENCY, "the policy accepts this form")                                         \
    X("schema-version", schema_version, CONSISTENCY, "schema_version is 1.0.0 or 1.0")                   \
    X("timestamp", timestamp, CONSISTENCY,                                                               \
      "timestamp is an RFC 3339 time, not in the future, not before 2026")                               \
    X("freshness", freshness, CONSISTENCY, "timestamp is not older than --max-age")                      \
    X("request-fields", request_fields, CONSISTENCY, "request has only fields that this program knows")  \
    X("fields", fields, CONSISTENCY, "every other field exists and has its type")                        \
    X("sampling", sampling, CONSISTENCY, "the sampler accepts the settings of the request")              \
    X("compute-path", compute_path, CONSISTENCY, "compute_path is real")                                 \
    X("deterministic", deterministic, CONSISTENCY, "deterministic is true")                              \
    X("isa", isa, CONSISTENCY, "the instruction set is the requested one, and the machine can have it")  \
    X("resources", resources, CONSISTENCY,                                                               \
      "threads, context and batch are within the limits and as requested")                               \
    X("environment", environment, CONSISTENCY, "environment agrees with machine and resolved")           \
    X("machine", machine, CONSISTENCY, "machine does not contradict itself or the program")              \
    X("backend", backend, CONSISTENCY, "backend is cpu; in a bare predicate also cuda, gpu or metal")    \
    X("backend-summary", backend_summary, CONSISTENCY, "backend_summary says what was selected")         \
    X("kernels-present", kernels_present, CONSISTENCY, "kernels is a list of 1 to 10000 names")          \
    X("kernels-repeated", kernels_repeated, CONSISTENCY, "no kernel is named twice")                     \
    X("kernels-mock", kernels_mock, CONSISTENCY, "no kernel has the name of a mock")                     \
    X("kernels-known", kernels_known, CONSISTENCY,                                                       \
      "every kernel is in the table of the instruction set, resolved.isa")                               \
    X("gpu-kernels", gpu_kernels, CONSISTENCY,                                                           \
      "a GPU backend, or --require-gpu-kernels, has kernels of a GPU")                                   \
    X("cpu-kernels", cpu_kernels, CONSISTENCY, "a CPU backend has ternary kernels")                      \
    X("quantization-claim", quantization_claim, CONSISTENCY,                                             \
      "not everything is a fallback to dequantised weights")                                             \
    X("quantized-kernels", quantized_kernels, CONSISTENCY,                                               \
      "--require-quantized-kernels: quantised kernels and no fallback")                                  \
    X("token-counts", token_counts, CONSISTENCY, "not more tokens than requested, and all counts agree") \
    X("token-ids", token_ids, CONSISTENCY, "every id is in the vocabulary")                              \
    X("stop-reason", stop_reason, CONSISTENCY, "the reason to stop fits the tokens")                     \
    X("rate", rate, CONSISTENCY, "tokens_per_second is tokens_generated / time")                         \
    X("times", times, CONSISTENCY, "prefill, decode and tokens fit into the total")                      \
    X("samples", samples, CONSISTENCY, "one sample a token, and the percentiles follow from them")       \
    X("derived-rates", derived_rates, CONSISTENCY,                                                       \
      "rates of prefill and decode follow from counts and times")                                        \
    X("tests", tests, CONSISTENCY, "no test of test_results failed")                                     \
    X("parity", parity, CONSISTENCY,                                                                     \
      "parity with references is that of this model and prompt, and did not fail")                       \
    X("corrections", corrections, CONSISTENCY, "no weights were corrected, unless the policy allows it") \
    X("model-shape", model_shape, CONSISTENCY,                                                           \
      "the hyper-parameters give the weights, and the file can hold them")                               \
    X("kernel-stats", kernel_stats, CONSISTENCY, "the listed kernels are the counted kernels")           \
    X("kernel-time", kernel_time, CONSISTENCY, "the kernels' time fits into the total")                  \
    X("kernel-work", kernel_work, CONSISTENCY,                                                           \
      "ternary multiply-adds, calls and bytes are those of these tokens")                                \
    X("attention-work", attention_work, CONSISTENCY,                                                     \
      "attention's multiply-adds and bytes are those of these tokens")                                   \
    X("head-work", head_work, CONSISTENCY,                                                               \
      "the head's multiply-adds, calls and bytes are those of these tokens")                             \
    X("layer-work", layer_work, CONSISTENCY,                                                             \
      "the other kernels' elements, calls and bytes are those of these tokens")                          \
    X("performance-physical", performance_physical, CONSISTENCY,                                         \
      "a processor can do the claimed work in the time")                                                 \
    X("performance-measured", performance_measured, CONSISTENCY,                                         \
      "--validate-performance: memory can deliver that many bytes in that time")                         \
    X("model-allowed", model_allowed, CONSISTENCY, "the policy lists the model")                         \
    X("program", program, CONSISTENCY, "the program's commit and digest are what the policy demands")    \
    X("git", git, CONSISTENCY, "the working tree's commit is what the policy demands")                   \
    X("replay", replay, REPLAY, "--replay: the same request gives the same tokens")

/* Whether the receipt passes; the verdict and the reason are in *out. */
#define X(id, name, level, demand) \
    bool bn_check_##name(const struct bn_rules_input *in, struct bn_rule_result *out);
BN_RULES(X)
#undef X

#endif
