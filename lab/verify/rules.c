/* SPDX-License-Identifier: MIT
 *
 * Runs the rules of checks.h over a receipt and judges the results.
 */
#include "lab/verify/rules.h"

#include "base/error.h"
#include "lab/verify/training.h"

#define INTEGRITY BN_LEVEL_INTEGRITY

static const struct bn_rule RULES[] = {
#define X(id, name, level, demand) {id, demand, BN_LEVEL_##level, bn_check_##name},
    BN_RULES(X)
#undef X
};
static const struct bn_rule TRAINING[] = {
#define X(id, name, level, demand) {id, demand, BN_LEVEL_##level, bn_check_##name},
    BN_TRAINING_RULES(X)
#undef X
};
_Static_assert(BN_ARRAY_LEN(RULES) <= BN_RULES_MAX, "a report has room for every rule");

const struct bn_rule *bn_rules_at(size_t i)
{
    return i < BN_ARRAY_LEN(RULES) ? &RULES[i] : NULL;
}

const struct bn_rule *bn_rules_training_at(size_t i)
{
    return i < BN_ARRAY_LEN(TRAINING) ? &TRAINING[i] : NULL;
}

static const struct bn_rule *find(const struct bn_rule *rules, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(rules[i].id, id) == 0) return &rules[i];
    return NULL;
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
    if (bn_receipt_policy_lists(c->in->policy, "off", rule->id, NULL)) {
        bn_rule_skip(c, "switched off by the policy");
        return;
    }
    (void)rule->check(c);
    if (out->status == BN_OK && out->verdict == BN_VERDICT_SKIP &&
        bn_receipt_policy_lists(c->in->policy, "require", rule->id, NULL)) {
        char why[sizeof out->reason];
        memcpy(why, out->reason, sizeof why);
        bn_rule_fail(c, "required by the policy: %.200s", why);
        out->no_data = true;
    }
}

/* Were the kernels of a statement compared with the table, or is that rule switched off? */
static bool kernels_unknown(const struct bn_rules_report *report, const struct bn_receipt *r)
{
    return r->statement != NULL && bn_rules_result(report, "kernels-known")->verdict == BN_VERDICT_SKIP;
}

/* Nothing that failed: the highest level of which something passed, without a gap. */
static void judge(struct bn_rules_report *report, const struct bn_rules_input *in, const size_t *failed,
                  const size_t *passed)
{
    const struct bn_receipt *r = in->receipt;
    const struct bn_rule_result *signature = bn_rules_result(report, "signature"),
                                *self = bn_rules_result(report, "self-digest");
    report->verified = report->n_failed == 0 && report->n_undecided == 0;
    report->unbound =
        report->n_failed == 0 && bn_rules_result(report, BN_RULE_BOUND)->verdict == BN_VERDICT_UNDECIDED;
    report->bound = r->root != NULL &&
                    (signature->verdict == BN_VERDICT_PASS || self->verdict == BN_VERDICT_PASS) &&
                    failed[INTEGRITY] == 0;
    for (int level = 0; level < BN_LEVEL_COUNT && failed[level] == 0; level++) {
        if (level != INTEGRITY && (passed[level] == 0 || kernels_unknown(report, r))) break;
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
    bool training = in->receipt->form == BN_RECEIPT_TRAINING;
    struct bn_claims claims;
    struct bn_check c = bn_check_open(&claims, in, NULL);
    const struct bn_rule *rules = training ? TRAINING : RULES;
    *report = (struct bn_rules_report){.rules = rules,
                                       .n_rules = training ? BN_ARRAY_LEN(TRAINING) : BN_ARRAY_LEN(RULES)};
    for (size_t i = 0; i < report->n_rules; i++) {
        struct bn_rule_result *out = c.out = &report->results[i];
        bool unread = i > 0 && in->receipt->root == NULL;
        if (unread || (rules[i].level != INTEGRITY && failed[INTEGRITY] > 0))
            bn_rule_skip(&c, "not reached");
        else
            run_rule(&rules[i], &c);
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
