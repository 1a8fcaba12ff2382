/* SPDX-License-Identifier: MIT
 *
 * Reads a policy of receipts.
 */
#include "lab/verify/rules.h"

#include <stddef.h>

#include "base/error.h"

#define MEMBER(field)                                                                                   \
    {                                                                                                   \
#field, offsetof(struct bn_receipt_policy, field), sizeof((struct bn_receipt_policy *)0)->field \
    }

/* Those of one byte are flags. */
static const struct {
    const char *name;
    size_t offset, size;
} MEMBERS[] = {
    MEMBER(accept_bare),          MEMBER(accept_statement),      MEMBER(accept_envelope),
    MEMBER(require_signature),    MEMBER(require_gpu_kernels),   MEMBER(require_quantized_kernels),
    MEMBER(validate_performance), MEMBER(require_clean_program), MEMBER(require_clean_git),
    MEMBER(allow_corrections),    MEMBER(signature_threshold),   MEMBER(max_age_s),
    MEMBER(clock_skew_s),         MEMBER(rate_tolerance_milli),  MEMBER(bandwidth_bytes_per_s),
    MEMBER(bandwidth_percent),
};

static const char *const LISTS[] = {"model_sha256", "program_sha256", "off", "require"};

void bn_receipt_policy_defaults(struct bn_receipt_policy *policy)
{
    *policy = (struct bn_receipt_policy){
        .accept_bare = true,
        .accept_statement = true,
        .accept_envelope = true,
        .signature_threshold = 1,
        .clock_skew_s = 300,
        .rate_tolerance_milli = 10,
        .bandwidth_percent = 150,
    };
}

static bn_status refuse(const bn_json *member, const char *what, bn_error *err)
{
    return bn_fail_in(err, BN_ERR_FORMAT, bn_json_name(member), "%s", what);
}

static bn_status check_list(const bn_json *list, bn_error *err)
{
    bool rules = strcmp(bn_json_name(list), "off") == 0 || strcmp(bn_json_name(list), "require") == 0;
    if (bn_json_kind(list) != BN_JSON_ARRAY) return refuse(list, "a list of texts is expected", err);
    for (const bn_json *e = bn_json_first(list); e != NULL; e = bn_json_next(e)) {
        const char *text;
        if (!bn_json_string(e, &text)) return refuse(list, "a list of texts is expected", err);
        if (rules && bn_rules_find(text) == NULL) {
            return bn_fail_in(err, BN_ERR_FORMAT, text, "there is no rule of this name");
        }
        if (strcmp(bn_json_name(list), "off") == 0 && strcmp(text, BN_RULE_BOUND) == 0)
            return bn_fail_in(err, BN_ERR_FORMAT, text, "this rule cannot be switched off");
        if (!rules && !bn_is_sha256(text)) return refuse(list, "64 hex digits are expected", err);
    }
    return BN_OK;
}

static bn_status read_member(struct bn_receipt_policy *policy, const bn_json *member, bn_error *err)
{
    const char *name = bn_json_name(member);
    char *base = (char *)policy;
    size_t i = BN_FIND(MEMBERS, name);
    if (i < BN_ARRAY_LEN(MEMBERS)) {
        bool flag, is_flag = MEMBERS[i].size == sizeof flag;
        uint64_t number;
        if (is_flag && !bn_json_bool(member, &flag)) return refuse(member, "true or false is expected", err);
        if (!is_flag && !bn_json_u64(member, &number))
            return refuse(member, "a whole number is expected", err);
        memcpy(base + MEMBERS[i].offset, is_flag ? (void *)&flag : (void *)&number, MEMBERS[i].size);
        return BN_OK;
    }
    if (BN_HAS(LISTS, name)) return check_list(member, err);
    if (strcmp(name, "comment") == 0) return BN_OK;
    return refuse(member, "a policy has no such member", err);
}

/* A number of keys that must verify is a demand for signatures. */
static bn_status check_threshold(struct bn_receipt_policy *policy, bn_error *err)
{
    const bn_json *threshold = bn_json_get(policy->source, "signature_threshold");
    if (threshold == NULL) return BN_OK;
    if (policy->signature_threshold == 0) return refuse(threshold, "at least 1 key is expected", err);
    if (bn_json_get(policy->source, "require_signature") != NULL && !policy->require_signature)
        return refuse(threshold, "contradicts require_signature false", err);
    policy->require_signature = true;
    return BN_OK;
}

bn_status bn_receipt_policy_read(struct bn_receipt_policy *policy, const char *text, size_t n, bn_error *err)
{
    bn_receipt_policy_defaults(policy);
    BN_TRY(bn_json_parse(&policy->source, text, n, err));
    bn_status status = BN_OK;
    if (bn_json_kind(policy->source) != BN_JSON_OBJECT)
        status = bn_fail(err, BN_ERR_FORMAT, "a policy is an object");
    for (const bn_json *m = bn_json_first(policy->source); m != NULL && status == BN_OK; m = bn_json_next(m))
        status = read_member(policy, m, err);
    if (status == BN_OK) status = check_threshold(policy, err);
    if (status != BN_OK) bn_receipt_policy_release(policy);
    return status;
}

bool bn_receipt_policy_demands(const struct bn_receipt_policy *p)
{
    return p->source != NULL || p->require_signature || p->require_gpu_kernels ||
           p->require_quantized_kernels || p->validate_performance || p->max_age_s > 0;
}

void bn_receipt_policy_release(struct bn_receipt_policy *policy)
{
    bn_json_free(policy->source);
    bn_receipt_policy_defaults(policy);
}

bool bn_receipt_policy_lists(const struct bn_receipt_policy *policy, const char *list, const char *text,
                             size_t *n_listed)
{
    const bn_json *array = bn_json_get(policy->source, list);
    if (n_listed != NULL) *n_listed = bn_json_size(array);
    return bn_json_has_text(array, text);
}

bool bn_receipt_policy_requires(const struct bn_receipt_policy *p, const char *rule)
{
    const struct {
        const char *rule;
        bool asked;
    } RULES[] = {
        {"signature", p->require_signature},
        {"freshness", p->max_age_s > 0},
        {"gpu-kernels", p->require_gpu_kernels},
        {"quantized-kernels", p->require_quantized_kernels},
        {"performance-measured", p->validate_performance},
        {"model-allowed", bn_json_size(bn_json_get(p->source, "model_sha256")) > 0},
        {"program", p->require_clean_program || bn_json_size(bn_json_get(p->source, "program_sha256")) > 0},
        {"git", p->require_clean_git},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(RULES); i++)
        if (RULES[i].asked && strcmp(RULES[i].rule, rule) == 0) return true;
    return bn_receipt_policy_lists(p, "require", rule, NULL);
}
