/* SPDX-License-Identifier: MIT
 *
 * What the functions of the rules share: giving a verdict, and reading claims from a receipt.
 */
#ifndef BN_RECEIPT_CHECKS_H
#define BN_RECEIPT_CHECKS_H

#include "lab/receipt/rules.h"

void bn_rule_pass(struct bn_rule_result *out, const char *fmt, ...) BN_PRINTF(2, 3);
void bn_rule_fail(struct bn_rule_result *out, const char *fmt, ...) BN_PRINTF(2, 3);
void bn_rule_skip(struct bn_rule_result *out, const char *fmt, ...) BN_PRINTF(2, 3);
void bn_rule_undecided(struct bn_rule_result *out, const char *fmt, ...) BN_PRINTF(2, 3);
/* The rule could not be checked; there is no verdict. */
void bn_rule_error(struct bn_rule_result *out, bn_status status);
/* Untrusted text for a reason, shortened; buffer is the result. */
const char *bn_rule_quote(char buffer[80], const char *text);

/* A claim by its path in the predicate. When it is missing or of another kind, *out is set (a statement
 * fails, a bare predicate that does not name it skips) and the result is false. */
const bn_json *bn_rule_claim(const struct bn_rules_input *in, const char *path, struct bn_rule_result *out);
bool bn_rule_u64(const struct bn_rules_input *in, const char *path, uint64_t *value,
                 struct bn_rule_result *out);
bool bn_rule_text(const struct bn_rules_input *in, const char *path, const char **value,
                  struct bn_rule_result *out);
/* 64 hexadecimal digits in lower case. */
bool bn_rule_digest(const struct bn_rules_input *in, const char *path, const char **value,
                    struct bn_rule_result *out);
/* An array of whole numbers, released with bn_free. */
bool bn_rule_list(const struct bn_rules_input *in, const char *path, uint64_t **values, size_t *n,
                  struct bn_rule_result *out);
bool bn_rule_is_digest(const char *text);

/* ---- the functions of the table, by file ---- */

#define BN_CHECK(name) void name(const struct bn_rules_input *in, struct bn_rule_result *out)

/* check_form.c */
BN_CHECK(bn_check_signature);
BN_CHECK(bn_check_self_digest);
BN_CHECK(bn_check_subject);
BN_CHECK(bn_check_ids_digest);
BN_CHECK(bn_check_text_digests);
BN_CHECK(bn_check_model);
BN_CHECK(bn_check_form);
BN_CHECK(bn_check_schema_version);
BN_CHECK(bn_check_timestamp);
BN_CHECK(bn_check_freshness);
BN_CHECK(bn_check_request_fields);

/* check_fields.c */
BN_CHECK(bn_check_fields);

/* check_setup.c */
BN_CHECK(bn_check_deterministic);
BN_CHECK(bn_check_isa);
BN_CHECK(bn_check_resources);
BN_CHECK(bn_check_sampling);
BN_CHECK(bn_check_environment);
BN_CHECK(bn_check_machine);

/* check_kernels.c */
BN_CHECK(bn_check_compute_path);
BN_CHECK(bn_check_backend);
BN_CHECK(bn_check_backend_summary);
BN_CHECK(bn_check_kernels_present);
BN_CHECK(bn_check_kernels_blank);
BN_CHECK(bn_check_kernels_length);
BN_CHECK(bn_check_kernels_count);
BN_CHECK(bn_check_kernels_repeated);
BN_CHECK(bn_check_kernels_mock);
BN_CHECK(bn_check_kernels_known);
BN_CHECK(bn_check_gpu_kernels);
BN_CHECK(bn_check_cpu_kernels);
BN_CHECK(bn_check_quantization_claim);
BN_CHECK(bn_check_quantized_kernels);

/* check_numbers.c */
BN_CHECK(bn_check_token_counts);
BN_CHECK(bn_check_token_ids);
BN_CHECK(bn_check_stop_reason);
BN_CHECK(bn_check_rate);
BN_CHECK(bn_check_times);
BN_CHECK(bn_check_samples);
BN_CHECK(bn_check_derived_rates);
BN_CHECK(bn_check_tests);
BN_CHECK(bn_check_corrections);

/* check_parity.c */
BN_CHECK(bn_check_parity);

/* check_work.c */
BN_CHECK(bn_check_model_shape);
BN_CHECK(bn_check_kernel_stats);
BN_CHECK(bn_check_kernel_time);
BN_CHECK(bn_check_kernel_work);
BN_CHECK(bn_check_attention_work);
BN_CHECK(bn_check_head_work);
BN_CHECK(bn_check_layer_work);

/* check_speed.c */
BN_CHECK(bn_check_performance_limits);
BN_CHECK(bn_check_performance_physical);
BN_CHECK(bn_check_performance_measured);

/* check_origin.c */
BN_CHECK(bn_check_model_allowed);
BN_CHECK(bn_check_program);
BN_CHECK(bn_check_git);
BN_CHECK(bn_check_replay);

#endif
