/* SPDX-License-Identifier: MIT
 *
 * What the rules share: giving a verdict, and reading claims from a receipt.
 */
#include "lab/verify/checks.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"

bool bn_rule_set(struct bn_rule_result *out, enum bn_receipt_verdict verdict, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    out->verdict = verdict;
    vsnprintf(out->reason, sizeof out->reason, fmt, args);
    va_end(args);
    return verdict == BN_VERDICT_PASS;
}

bool bn_rule_error(struct bn_rule_result *out, bn_status status)
{
    out->status = status;
    return false;
}

const char *bn_rule_quote(char buffer[80], const char *text)
{
    return bn_escape(buffer, 80, text, strlen(text));
}

const bn_json *bn_rule_claim(const struct bn_rules_input *in, const char *path, struct bn_rule_result *out)
{
    const bn_json *value = bn_json_path(in->receipt->predicate, path);
    if (value != NULL) return value;
    if (in->receipt->statement != NULL)
        bn_rule_fail(out, "%s is missing", path);
    else
        bn_rule_skip(out, "%s is not claimed", path);
    return NULL;
}

bool bn_rule_u64(const struct bn_rules_input *in, const char *path, uint64_t *value,
                 struct bn_rule_result *out)
{
    const bn_json *claim = bn_rule_claim(in, path, out);
    if (claim == NULL) return false;
    if (bn_json_u64(claim, value)) return true;
    return bn_rule_fail(out, "%s is not a whole number from 0 to 2^53 - 1", path);
}

bool bn_rule_cached(const struct bn_rules_input *in, uint64_t prompt, uint64_t *cached,
                    struct bn_rule_result *out)
{
    static const char PATH[] = "measurement.cached_tokens";
    *cached = 0;
    if (bn_json_path(in->receipt->predicate, PATH) == NULL) return true;
    if (!bn_rule_u64(in, PATH, cached, out)) return false;
    if (*cached < prompt) return true;
    return bn_rule_fail(out, "%llu of %llu prompt tokens are cached; the last one is always evaluated",
                        (unsigned long long)*cached, (unsigned long long)prompt);
}

bool bn_rule_text(const struct bn_rules_input *in, const char *path, const char **value,
                  struct bn_rule_result *out)
{
    const bn_json *claim = bn_rule_claim(in, path, out);
    if (claim == NULL) return false;
    if (bn_json_string(claim, value)) return true;
    return bn_rule_fail(out, "%s is not a text", path);
}

bool bn_rule_digest(const struct bn_rules_input *in, const char *path, const char **value,
                    struct bn_rule_result *out)
{
    if (!bn_rule_text(in, path, value, out)) return false;
    if (bn_is_sha256(*value)) return true;
    return bn_rule_fail(out, "%s is not 64 hexadecimal digits in lower case", path);
}

bool bn_rule_list(const struct bn_rules_input *in, const char *path, uint64_t **values, size_t *n,
                  struct bn_rule_result *out)
{
    *values = NULL;
    const bn_json *claim = bn_rule_claim(in, path, out);
    if (claim == NULL) return false;
    *n = bn_json_size(claim);
    bool ok = bn_json_kind(claim) == BN_JSON_ARRAY;
    if (ok) *values = bn_alloc(*n, sizeof **values);
    size_t i = 0;
    for (const bn_json *e = bn_json_first(claim); e != NULL && ok && *values != NULL; e = bn_json_next(e))
        ok = bn_json_u64(e, &(*values)[i++]);
    if (ok && *values != NULL) return true;
    bn_free(*values);
    *values = NULL;
    if (ok) return bn_rule_error(out, BN_ERR_NOMEM);
    return bn_rule_fail(out, "%s is not a list of whole numbers", path);
}

bool bn_rule_is_list(const bn_json *value, bool of_texts)
{
    const char *text;
    uint64_t number;
    if (bn_json_kind(value) != BN_JSON_ARRAY) return false;
    for (const bn_json *e = bn_json_first(value); e != NULL; e = bn_json_next(e))
        if (of_texts ? !bn_json_string(e, &text) : !bn_json_u64(e, &number)) return false;
    return true;
}
