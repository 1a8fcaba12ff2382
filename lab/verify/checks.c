/* SPDX-License-Identifier: MIT
 *
 * What the rules share: giving a verdict, and reading claims from a receipt.
 */
#include "lab/verify/checks.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"

/* The objects of BN_CLAIMS, each before its numbers. */
static const struct {
    const char *name;
    bool object;
} CLAIMS[] = {
#define G(member, path, numbers) {path, true}, numbers
#define X(number) {#number, false},
    BN_CLAIMS
#undef G
#undef X
};

struct bn_check bn_check_open(struct bn_claims *claims, const struct bn_rules_input *in,
                              struct bn_rule_result *out)
{
    const bn_json *p = in->receipt->predicate, *object = NULL;
    ull *to = (ull *)claims;
    for (size_t i = 0; i < BN_ARRAY_LEN(CLAIMS); i++) {
        uint64_t value = 0;
        if (CLAIMS[i].object) {
            object = CLAIMS[i].name[0] == '\0' ? p : bn_json_path(p, CLAIMS[i].name);
            continue;
        }
        (void)bn_json_u64(bn_json_get(object, CLAIMS[i].name), &value);
        *to++ = value;
    }
    return (struct bn_check){in, p, in->receipt->statement == NULL, claims, out};
}

bool bn_rule_set(const struct bn_check *c, enum bn_receipt_verdict verdict, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    c->out->verdict = verdict;
    vsnprintf(c->out->reason, sizeof c->out->reason, fmt, args);
    va_end(args);
    return verdict == BN_VERDICT_PASS;
}

bool bn_rule_error(const struct bn_check *c, bn_status status)
{
    c->out->status = status;
    return false;
}

const char *bn_rule_quote(char buffer[80], const char *text)
{
    return bn_escape(buffer, 80, text, strlen(text));
}

const bn_json *bn_rule_claim(const struct bn_check *c, const char *path)
{
    const bn_json *value = bn_json_path(c->p, path);
    if (value != NULL) return value;
    if (!c->bare)
        bn_rule_fail(c, "%s is missing", path);
    else
        bn_rule_skip(c, "%s is not claimed", path);
    return NULL;
}

bool bn_rule_has(const struct bn_check *c, const char *path)
{
    return bn_json_path(c->p, path) != NULL;
}

bool bn_rule_u64(const struct bn_check *c, const char *path, ull *value)
{
    uint64_t number = 0;
    const bn_json *claim = bn_rule_claim(c, path);
    bool ok = bn_json_u64(claim, &number);
    *value = number;
    return ok || (claim != NULL && bn_rule_fail(c, "%s is not a whole number from 0 to 2^53 - 1", path));
}

bool bn_rule_range(const struct bn_check *c, const char *paths, ull below)
{
    char path[80], object[80] = "";
    bool skip = false;
    ull value;
    for (size_t n; *paths != '\0'; paths += n + (paths[n] == ' ')) {
        n = strcspn(paths, " ");
        bool optional = paths[0] == '?', is_object = paths[n - 1] == ':';
        const char *name = paths + optional;
        int length = (int)(n - optional - is_object);
        snprintf(path, sizeof path, "%s%s%.*s", is_object ? "" : object,
                 is_object || object[0] == '\0' ? "" : ".", length, name);
        if (is_object) {
            snprintf(object, sizeof object, "%s", path);
            skip = optional && !bn_rule_has(c, path);
        } else if (!skip && !(optional && !bn_rule_has(c, path))) {
            if (!bn_rule_u64(c, path, &value)) return false;
            if (below > 0 && (value == 0 || value >= below))
                return bn_rule_fail(c, "%s is %llu", path, value);
        }
    }
    return true;
}

bool bn_rule_cached(const struct bn_check *c)
{
    ull cached = c->k->measured.cached_tokens, prompt = c->k->result.prompt_tokens;
    if (!bn_rule_needs(c, "measurement: ?cached_tokens")) return false;
    if (cached == 0 || cached < prompt) return true;
    return bn_rule_fail(c, "%llu of %llu prompt tokens are cached; the last one is always evaluated", cached,
                        prompt);
}

bool bn_rule_text(const struct bn_check *c, const char *path, const char **value)
{
    const bn_json *claim = bn_rule_claim(c, path);
    if (claim == NULL) return false;
    if (bn_json_string(claim, value)) return true;
    return bn_rule_fail(c, "%s is not a text", path);
}

bool bn_rule_digest(const struct bn_check *c, const char *path, const char **value)
{
    if (!bn_rule_text(c, path, value)) return false;
    if (bn_is_sha256(*value)) return true;
    return bn_rule_fail(c, "%s is not 64 hexadecimal digits in lower case", path);
}

bool bn_rule_list(const struct bn_check *c, const char *path, uint64_t **values, size_t *n)
{
    *values = NULL;
    const bn_json *claim = bn_rule_claim(c, path);
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
    if (ok) return bn_rule_error(c, BN_ERR_NOMEM);
    return bn_rule_fail(c, "%s is not a list of whole numbers", path);
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
