/* SPDX-License-Identifier: MIT
 *
 * Runs the rules of checks.h over a receipt and judges the results.
 */
#include "lab/verify/rules.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/receipt/receipt.h"
#include "lab/verify/checks.h"

#define INTEGRITY BN_LEVEL_INTEGRITY

#define X(id, name, level, demand) {id, demand, BN_LEVEL_##level, bn_check_##name},
static const struct bn_rule RULES[] = {BN_RULES(X)}, TRAINING[] = {BN_TRAINING_RULES(X)},
                            RELEASE[] = {BN_RELEASE_RULES(X)};
#undef X
_Static_assert(BN_ARRAY_LEN(RULES) <= BN_RULES_MAX, "a report has room for every rule");

const struct bn_rule *bn_rules(bool training, size_t *n)
{
    *n = training ? BN_ARRAY_LEN(TRAINING) : BN_ARRAY_LEN(RULES);
    return training ? TRAINING : RULES;
}

static const struct bn_rule *find(const struct bn_rule *rules, size_t n, const char *id)
{
    size_t i = bn_find_text(rules, n, sizeof *rules, id);
    return i < n ? &rules[i] : NULL;
}

const struct bn_rule *bn_rules_find(const char *id)
{
    const struct bn_rule *rule = find(RULES, BN_ARRAY_LEN(RULES), id);
    return rule != NULL ? rule : find(TRAINING, BN_ARRAY_LEN(TRAINING), id);
}

const struct bn_rule_result *bn_rules_result(const struct bn_rules_report *report, const char *id)
{
    static const struct bn_rule_result none = {0};
    const struct bn_rule *rule = find(report->rules, report->n_rules, id);
    return rule != NULL ? &report->results[rule - report->rules] : &none;
}

const char *bn_rule_level_name(enum bn_rule_level level)
{
    static const char *const NAMES[BN_LEVEL_COUNT] = {"integrity", "consistency", "replay"};
    return (unsigned)level < BN_LEVEL_COUNT ? NAMES[level] : "none";
}

const char *bn_rules_level(const struct bn_rules_report *report)
{
    return !report->reached                    ? "none"
           : report->steps < report->all_steps ? "partial"
                                               : bn_rule_level_name(report->level);
}

const char *bn_verdict_name(enum bn_receipt_verdict verdict)
{
    static const char *const NAMES[BN_VERDICT_COUNT] = {"skip", "pass", "FAIL", "undecided"};
    return (unsigned)verdict < BN_VERDICT_COUNT ? NAMES[verdict] : "?";
}

static void run_rule(const struct bn_rule *rule, const struct bn_check *c)
{
    struct bn_rule_result *out = c->out;
    /* Nothing but the signature speaks for what cannot be read. */
    bool off = c->in->receipt->root != NULL && bn_receipt_policy_lists(c->in->policy, "off", rule->id, NULL);
    if (off)
        SKIP(c, "switched off by the policy");
    else
        (void)rule->check(c);
    if (out->status == BN_OK && out->verdict == BN_VERDICT_SKIP &&
        (off ? bn_receipt_policy_requires(c->in->policy, rule->id)
             : bn_receipt_policy_lists(c->in->policy, "require", rule->id, NULL))) {
        char why[sizeof out->reason];
        memcpy(why, out->reason, sizeof why);
        FAIL(c, off ? "required, and %.200s" : "required by the policy: %.200s", why);
        out->no_data = true;
    }
}

/* A gate without data fails: a rule that is required, and that this kind of receipt does not have. */
static void require_rules(const struct bn_check *c, const struct bn_rules_report *report)
{
    const struct bn_rule *all[] = {RULES, TRAINING};
    const size_t n[] = {BN_ARRAY_LEN(RULES), BN_ARRAY_LEN(TRAINING)};
    for (size_t k = 0; k < BN_ARRAY_LEN(all); k++)
        for (size_t i = 0; i < n[k]; i++)
            if (bn_receipt_policy_requires(c->in->policy, all[k][i].id) &&
                find(report->rules, report->n_rules, all[k][i].id) == NULL) {
                FAIL(c, "%s is required, and this kind of receipt has no such rule", all[k][i].id);
                return;
            }
}

/* Nothing that failed: the highest level of which something passed, without a gap. */
static void judge(struct bn_rules_report *report, const struct bn_rules_input *in, const size_t *failed,
                  const size_t *passed)
{
    const struct bn_receipt *r = in->receipt;
    const struct bn_rule_result *signature = bn_rules_result(report, "signature"),
                                *self = bn_rules_result(report, "self-digest");
    /* Were the kernels of a statement compared with the table, or is that rule switched off? */
    bool unknown = r->statement != NULL && report->rules == RULES &&
                   bn_rules_result(report, "kernels-known")->verdict == BN_VERDICT_SKIP;
    report->verified = report->n_failed == 0 && report->n_undecided == 0 && r->root != NULL;
    report->unbound =
        report->n_failed == 0 && bn_rules_result(report, BN_RULE_BOUND)->verdict == BN_VERDICT_UNDECIDED;
    report->bound = r->root != NULL &&
                    (signature->verdict == BN_VERDICT_PASS || self->verdict == BN_VERDICT_PASS) &&
                    failed[INTEGRITY] == 0;
    for (int level = 0; level < BN_LEVEL_COUNT && failed[level] == 0; level++) {
        if (level != INTEGRITY && (passed[level] == 0 || unknown)) break;
        report->reached = bn_rules_result(report, BN_RULE_BOUND)->verdict == BN_VERDICT_PASS;
        report->level = (enum bn_rule_level)level;
    }
    if (r->form == BN_RECEIPT_TRAINING && in->replay != NULL && in->replay->same) {
        report->steps = in->replay->n_tokens;
        (void)bn_json_u64(bn_json_path(r->predicate, "result.step"), &report->all_steps);
    }
    bool undecided_replay = in->replay != NULL && in->replay->undecided != BN_EXIT_OK;
    report->exit_code = failed[INTEGRITY] > 0     ? BN_EXIT_INTEGRITY
                        : report->n_failed > 0    ? BN_EXIT_NEGATIVE
                        : undecided_replay        ? in->replay->undecided
                        : report->n_undecided > 0 ? BN_EXIT_UNSUPPORTED
                                                  : BN_EXIT_OK;
}

bn_status bn_rules_run(struct bn_rules_report *report, const struct bn_rules_input *in, bn_error *err)
{
    size_t failed[BN_LEVEL_COUNT] = {0}, passed[BN_LEVEL_COUNT] = {0};
    struct bn_claims claims;
    struct bn_check c = bn_check_open(&claims, in, NULL);
    *report = (struct bn_rules_report){0};
    const struct bn_rule *rules = bn_rules(in->receipt->form == BN_RECEIPT_TRAINING, &report->n_rules);
    if (in->release != NULL) rules = RELEASE, report->n_rules = BN_ARRAY_LEN(RELEASE);
    report->rules = rules;
    for (size_t i = 0; i < report->n_rules; i++) {
        struct bn_rule_result *out = c.out = &report->results[i];
        bool unread = i > 0 && in->receipt->root == NULL;
        if (unread || (rules[i].level != INTEGRITY && failed[INTEGRITY] > 0))
            SKIP(&c, "not reached");
        else
            run_rule(&rules[i], &c);
        if (strcmp(rules[i].id, BN_RULE_BOUND) == 0 && !unread && failed[INTEGRITY] == 0)
            require_rules(&c, report);
        if (out->status != BN_OK) {
            bn_status status = out->status;
            *report = (struct bn_rules_report){0};
            return bn_fail(err, status, "rule %s could not be checked: %s", rules[i].id,
                           status == BN_ERR_NOMEM ? "out of memory" : bn_status_name(status));
        }
        failed[out->no_data ? BN_LEVEL_CONSISTENCY : rules[i].level] +=
            out->verdict == BN_VERDICT_FAIL || out->verdict == BN_VERDICT_UNDECIDED;
        passed[rules[i].level] += out->verdict == BN_VERDICT_PASS;
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
    for (size_t i = 0; i < report->n_rules; i++)
        if (report->results[i].verdict == wanted) return i;
    return SIZE_MAX;
}

bool bn_claimable(const struct bn_rules_report *report)
{
    static const char *const NEEDED[] = {
        "model",     "replay",     "kernels-known",        "kernel-work",          "attention-work",
        "head-work", "layer-work", "performance-physical", "performance-measured", "signature"};
    for (size_t i = 0; i < BN_ARRAY_LEN(NEEDED); i++)
        if (bn_rules_result(report, NEEDED[i])->verdict != BN_VERDICT_PASS) return false;
    return report->verified && report->bound;
}

/* ---- what the rules share: giving a verdict, and reading claims from a receipt ---- */

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
    bool bare = in->receipt->statement == NULL;
    return (struct bn_check){
        in, p, bare, !bare && bn_json_text_is(p, "backend", BN_RECEIPT_DEVICE_BACKEND), claims, out};
}

bool bn_rule_set(const struct bn_check *c, enum bn_receipt_verdict verdict, const char *fmt, ...)
{
    va_list args;
    char raw[sizeof c->out->reason];
    va_start(args, fmt);
    c->out->verdict = verdict;
    vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    bn_escape_as(c->out->reason, sizeof c->out->reason, raw, strlen(raw), BN_ESCAPE_MESSAGE);
    return verdict == BN_VERDICT_PASS;
}

bool bn_rule_error(const struct bn_check *c, bn_status status)
{
    c->out->status = status;
    return false;
}

const bn_json *bn_rule_claim(const struct bn_check *c, const char *path)
{
    const bn_json *value = bn_json_path(c->p, path);
    if (value != NULL) return value;
    if (!c->bare)
        FAIL(c, "%s is missing", path);
    else
        SKIP(c, "%s is not claimed", path);
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
    return ok || (claim != NULL && FAIL(c, "%s is not a whole number from 0 to 2^53 - 1", path));
}

bool bn_rule_next_path(const struct bn_check *c, struct bn_rule_paths *p)
{
    while (*p->at != '\0') {
        size_t n = strcspn(p->at, " ");
        bool optional = p->at[0] == '?', is_object = p->at[n - 1] == ':';
        const char *name = p->at + optional;
        int length = (int)bn_min_size(n - optional - is_object, sizeof p->object - 1);
        if (is_object) p->object[0] = '\0';
        snprintf(p->path, sizeof p->path, "%s%s%.*s", p->object, p->object[0] == '\0' ? "" : ".", length,
                 name);
        p->at += n + (p->at[n] == ' ');
        bool absent = optional && !bn_rule_has(c, p->path);
        if (!is_object && !p->skip && !absent) return true;
        if (!is_object) continue;
        snprintf(p->object, sizeof p->object, "%.*s", length, name);
        p->skip = absent;
    }
    return false;
}

bool bn_rule_range(const struct bn_check *c, const char *paths, ull below)
{
    struct bn_rule_paths p = {.at = paths};
    ull value;
    while (bn_rule_next_path(c, &p)) {
        if (!bn_rule_u64(c, p.path, &value)) return false;
        if (below > 0 && (value == 0 || value >= below)) return FAIL(c, "%s is %llu", p.path, value);
    }
    return true;
}

bool bn_rule_cached(const struct bn_check *c)
{
    ull cached = c->k->measured.cached_tokens, prompt = c->k->result.prompt_tokens;
    if (!bn_rule_needs(c, "measurement: ?cached_tokens")) return false;
    if (cached == 0 || cached < prompt) return true;
    return FAIL(c, "%llu of %llu prompt tokens are cached; the last one is always evaluated", cached, prompt);
}

bool bn_rule_text(const struct bn_check *c, const char *path, const char **value)
{
    const bn_json *claim = bn_rule_claim(c, path);
    if (claim == NULL) return false;
    if (bn_json_string(claim, value)) return true;
    return FAIL(c, "%s is not a text", path);
}

bool bn_rule_digest(const struct bn_check *c, const char *path, const char **value)
{
    if (!bn_rule_text(c, path, value)) return false;
    if (bn_is_sha256(*value)) return true;
    return FAIL(c, "%s is not 64 hexadecimal digits in lower case", path);
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
    return FAIL(c, "%s is not a list of whole numbers", path);
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
