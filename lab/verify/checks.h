/* SPDX-License-Identifier: MIT
 *
 * What the functions of the rules share: giving a verdict, and reading claims from a receipt.
 */
#ifndef BN_RECEIPT_CHECKS_H
#define BN_RECEIPT_CHECKS_H

#include "infer/session.h"
#include "kernels/kernels.h"
#include "lab/verify/rules.h"

typedef unsigned long long ull;

/* The whole numbers of a predicate, read once; 0 for what is missing or is none. G(member, path of the object, its
 * numbers) */
#define BN_CLAIMS                                                                                        \
    G(all, "", X(tokens_requested) X(tokens_generated))                                                  \
    G(request, "request", X(n_predict) X(threads) X(ctx) X(batch))                                       \
    G(resolved, "resolved", X(threads) X(ctx) X(batch) X(packed_bytes))                                  \
    G(result, "result", X(prompt_tokens))                                                                \
    G(measured, "measurement",                                                                           \
      X(prefill_ns) X(decode_ns) X(total_ns) X(prefill_tokens_per_s_milli) X(decode_tokens_per_s_milli)  \
          X(cached_tokens))                                                                              \
    G(model, "model",                                                                                    \
      X(n_embd) X(n_layer) X(n_ff) X(n_head) X(n_head_kv) X(head_dim) X(n_rot) X(n_vocab) X(n_ctx)       \
          X(ternary_weights) X(ternary_bytes) X(head_bytes) X(bytes) X(window) X(local_layers)           \
              X(rotated_layers))                                                                         \
    G(recurrence, "model.recurrence", X(layers) X(taps) X(head_dim) X(key_heads) X(value_heads))         \
    G(experts, "model.experts", X(count) X(used) X(bytes))                                               \
    G(screen, "measurement.screen", X(screened) X(full) X(rows) X(heads) X(again))                       \
    G(work, "measurement.work",                                                                          \
      X(generations) X(passes) X(single) X(tokens) X(head_passes) X(heads) X(attended) X(attended_local) \
          X(experts) X(skipped_rows) X(skipped_columns))                                                 \
    G(drafts, "measurement.drafts", X(passes) X(drafted) X(accepted))                                    \
    G(ranks, "measurement.ranks", X(count) X(exchanges) X(bytes) X(ns))

struct bn_claims {
#define G(member, path, numbers) \
    struct {                     \
        numbers                  \
    } member;
#define X(number) ull number;
    BN_CLAIMS
#undef G
#undef X
};

/* What a rule is given. */
struct bn_check {
    const struct bn_rules_input *in;
    const bn_json *p;          /* the predicate */
    bool bare;                 /* of another tool: it claims what it names */
    bool device;               /* a statement of a run on a device beside the CPU */
    const struct bn_claims *k; /* its numbers */
    struct bn_rule_result *out;
};
/* Reads the numbers of a receipt; out may be NULL when no rule runs. */
struct bn_check bn_check_open(struct bn_claims *claims, const struct bn_rules_input *in,
                              struct bn_rule_result *out);

/* Sets verdict and reason, which becomes safe to print; true for a pass. */
bool bn_rule_set(const struct bn_check *c, enum bn_receipt_verdict verdict, const char *fmt, ...)
    BN_PRINTF(3, 4);
#define PASS(c, ...) bn_rule_set(c, BN_VERDICT_PASS, __VA_ARGS__)
#define FAIL(c, ...) bn_rule_set(c, BN_VERDICT_FAIL, __VA_ARGS__)
#define SKIP(c, ...) bn_rule_set(c, BN_VERDICT_SKIP, __VA_ARGS__)
#define UNDECIDED(c, ...) bn_rule_set(c, BN_VERDICT_UNDECIDED, __VA_ARGS__)
/* The rule could not be checked; there is no verdict. Returns false. */
bool bn_rule_error(const struct bn_check *c, bn_status status);

/* Each of these sets the verdict and returns false when a claim is missing or of another kind: a statement fails, a
 * bare predicate that does not name it skips. Needed numbers are a list of paths: "a.b c: d ?e" are a.b, c.d, and c.e
 * if it is there; "?c: d" is c.d if c is there. */
#define bn_rule_needs(c, paths) bn_rule_range(c, paths, 0)
/* The next path of such a list, in path; false at the end. Begins with at the list, and the rest zeroed. */
struct bn_rule_paths {
    const char *at;
    char path[128], object[64];
    bool skip;
};
bool bn_rule_next_path(const struct bn_check *c, struct bn_rule_paths *paths);
/* The same, and each is above 0 and below a limit; 0: any. */
bool bn_rule_range(const struct bn_check *c, const char *paths, ull below);
const bn_json *bn_rule_claim(const struct bn_check *c, const char *path);
bool bn_rule_u64(const struct bn_check *c, const char *path, ull *value);
bool bn_rule_text(const struct bn_check *c, const char *path, const char **value);
/* 64 hexadecimal digits in lower case. */
bool bn_rule_digest(const struct bn_check *c, const char *path, const char **value);
/* An array of whole numbers, released with bn_free. */
bool bn_rule_list(const struct bn_check *c, const char *path, uint64_t **values, size_t *n);
/* Whether a value is an array of texts, or of whole numbers. */
bool bn_rule_is_list(const bn_json *value, bool of_texts);
bool bn_rule_has(const struct bn_check *c, const char *path);
/* Whether fewer prompt tokens were cached than the prompt has, when some were. */
bool bn_rule_cached(const struct bn_check *c);

/* ---- work ---- */

/* The work that a receipt claims: on which shape, and how often (effort.c). */
struct bn_effort {
    ull attention_layers; /* layers that are not recurrent */
    ull rotated_layers;   /* of these, those that rotate */
    ull hidden;           /* n_ff, of all experts that a token uses */
    ull mixed, inner;     /* elements of q, k and v of a recurrent layer together, and of its output */
    bn_work work;
    /* Passes with drafts leave the state of recurrent layers as it was; then their first token and the drafted ones that
     * were right update it. */
    ull updates, updated_tokens;
};

/* Reads the shape: false, with the reason, when a number is missing or impossible. */
bool bn_shape_read(const struct bn_check *c, struct bn_effort *e);
/* The same, and how often the model was evaluated: as the number of tokens says, or measurement.work. */
bool bn_effort_read(const struct bn_check *c, struct bn_effort *e);
/* Products and sums of claims stay at UINT64_MAX once they exceed a number. */
uint64_t bn_times(uint64_t a, uint64_t b);
uint64_t bn_plus(uint64_t a, uint64_t b);
/* Compares one number with what it must be. */
bool bn_agrees(const struct bn_check *c, const char *what, ull claimed, ull want);
/* Pairs of a token and one that it attends to, over all heads of all layers. */
ull bn_attended(const struct bn_check *c, const struct bn_effort *e);

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
    X("backend", backend, CONSISTENCY,                                                                   \
      "backend is cpu or opencl; in a bare predicate also cuda, gpu or metal")                           \
    X("device", device, CONSISTENCY, "a device is described where one computed, and holds the weights")  \
    X("backend-summary", backend_summary, CONSISTENCY, "backend_summary says what was selected")         \
    X("kernels-present", kernels_present, CONSISTENCY, "kernels is a list of 1 to 10000 names")          \
    X("kernels-repeated", kernels_repeated, CONSISTENCY, "no kernel is named twice")                     \
    X("kernels-mock", kernels_mock, CONSISTENCY, "no kernel has the name of a mock")                     \
    X("kernels-known", kernels_known, CONSISTENCY,                                                       \
      "every kernel is in the table of resolved.isa, or of the device")                                  \
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

/* Those of the record of a training run. */
#define BN_TRAINING_RULES(X)                                                                                 \
    X("signature", signature, INTEGRITY, "enough of the given keys verify the envelope")                     \
    X("training-model", training_model, INTEGRITY, "the model file has the digest of the record")            \
    X("training-checkpoint", training_checkpoint, INTEGRITY, "the checkpoint has the digest of the record")  \
    X("training-texts", training_texts, INTEGRITY, "the texts have the digests of the record")               \
    X(BN_RULE_BOUND, bound_to_run, CONSISTENCY, "a signature, a file of the run or a replay binds it")       \
    X("form", form, CONSISTENCY, "the policy accepts this form")                                             \
    X("training-settings", training_settings, CONSISTENCY, "every setting is within the limits of bn-train") \
    X("training-steps", training_steps, CONSISTENCY,                                                         \
      "settings, steps and tokens fit together, and the run is complete")                                    \
    X("training-losses", training_losses, CONSISTENCY, "each step has a finite loss and gradient norm")      \
    X("training-validations", training_validations, CONSISTENCY,                                             \
      "perplexity and bits per byte follow from the losses")                                                 \
    X("model-allowed", model_allowed, CONSISTENCY, "the policy lists the model")                             \
    X("program", program, CONSISTENCY, "the program's commit and digest are what the policy demands")        \
    X("git", git, CONSISTENCY, "the working tree's commit is what the policy demands")                       \
    X("replay", replay, REPLAY, "--replay: the first steps give the same bits")

/* Those of the provenance of a release. */
#define BN_RELEASE_RULES(X)                                                                                  \
    X("signature", signature, INTEGRITY, "enough of the given keys verify the envelope")                     \
    X("release-subjects", release_subjects, INTEGRITY, "each subject is another file name, and one sha256")  \
    X("release-files", release_files, INTEGRITY, "each file has its digest; none is missing, none is extra") \
    X(BN_RULE_BOUND, bound_to_run, CONSISTENCY, "a signature binds it")                                      \
    X("release-build", release_build, CONSISTENCY,                                                           \
      "version, commit and builder are named, and the sources are this commit")

/* Whether the receipt passes; the verdict and the reason are in its result. */
#define X(id, name, level, demand) bool bn_check_##name(const struct bn_check *c);
BN_RULES(X)
BN_TRAINING_RULES(X)
BN_RELEASE_RULES(X)
#undef X

#endif
