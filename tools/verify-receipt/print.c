/* SPDX-License-Identifier: MIT
 *
 * What bn-verify-receipt prints on standard output.
 */
#include <stdio.h>

#include "lab/kit/put_counts.h"
#include "lab/receipt/receipt.h"
#include "lab/verify/rules.h"
#include "tools/verify-receipt/verify_receipt.h"

enum bn_verify_outcome bn_verify_outcome(const struct bn_rules_report *report)
{
    return report->verified       ? BN_OUTCOME_VERIFIED
           : report->unbound      ? BN_OUTCOME_UNBOUND
           : report->n_failed > 0 ? BN_OUTCOME_REFUSED
                                  : BN_OUTCOME_UNDECIDED;
}

const struct bn_verify_outcome_names bn_verify_outcomes[BN_OUTCOME_COUNT] = {
    {"verified", "verified"},
    {"refused", "REFUSED"},
    {"undecided", "UNDECIDED"},
    {"unbound", "consistent, PROVES NOTHING (bound to no run)"},
    {"error", "ERROR"}};

/* ---- verify ---- */

/* What failed or is undecided; with -v every rule. */
static void print_rules(const struct bn_args *args, const struct bn_rules_report *report)
{
    bool color = bn_report_color(stdout);
    static const char *const COLORS[BN_VERDICT_COUNT] = {"\033[2m", "\033[32m", "\033[31m", "\033[33m"};
    for (size_t i = 0; i < report->n_rules; i++) {
        const struct bn_rule_result *r = &report->results[i];
        bool bad = r->verdict == BN_VERDICT_FAIL || r->verdict == BN_VERDICT_UNDECIDED;
        if (args->verbose == 0 && !bad) continue;
        printf("%s%s%s  %-21s %s\n", color ? COLORS[r->verdict] : "", bn_verdict_name(r->verdict),
               color ? "\033[0m" : "", report->rules[i].id, r->reason);
    }
}

/* The verdict, the level that was reached, and how many rules led to it. */
static void print_verdict(const struct bn_args *args, const char *path, const struct bn_rules_report *report)
{
    char escaped[200];
    bool unbound = report->verified && !report->bound;
    printf("%s: %s, level: %s%s; ", bn_escape(escaped, sizeof escaped, path, strlen(path)),
           bn_verify_outcomes[bn_verify_outcome(report)].text, bn_rules_level(report),
           unbound ? " (unbound: an edit would not be noticed)" : "");
    printf("%zu of %zu rules passed", report->n_passed,
           report->n_passed + report->n_failed + report->n_undecided + report->n_skipped);
    if (report->n_failed > 0) printf(", %zu failed", report->n_failed);
    if (report->n_undecided > 0) printf(", %zu undecided", report->n_undecided);
    if (report->n_skipped > 0) printf(", %zu skipped", report->n_skipped);
    if (report->steps > 0)
        printf("; %llu of %llu steps repeated", (unsigned long long)report->steps,
               (unsigned long long)report->all_steps);
    if (bn_claimable(report)) fputs("; claimable", stdout);
    puts(args->verbose == 0 ? " (-v lists them)" : "");
}

/* What a verified receipt is about, as it says. */
static void print_summary(const struct bn_receipt *receipt)
{
    static const char *const PARTS[][2] = {{"schema", "schema_version"},
                                           {"path", "compute_path"},
                                           {"backend", "backend"},
                                           {"model", "model.path"},
                                           {"version", "environment.BITNET_VERSION"},
                                           {"on", "environment.OS"},
                                           {"version", "buildDefinition.externalParameters.version"},
                                           {"commit", "buildDefinition.externalParameters.commit"},
                                           {"built by", "runDetails.builder.id"}};
    const bn_json *p = receipt->predicate;
    uint64_t tokens;
    double rate;
    if (p == NULL || receipt->form == BN_RECEIPT_TRAINING) return;
    bool release = bn_json_text_is(receipt->statement, "predicateType", BN_PROVENANCE_TYPE);
    const bn_json *list = release ? bn_json_get(receipt->statement, "subject") : bn_json_get(p, "kernels");
    printf("%zu %s", bn_json_size(list), release ? "files" : "kernels");
    for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++) {
        const char *text = NULL;
        char escaped[120];
        if (bn_json_string(bn_json_path(p, PARTS[i][1]), &text))
            printf(", %s %s", PARTS[i][0], bn_escape(escaped, sizeof escaped, text, strlen(text)));
    }
    if (bn_json_u64(bn_json_get(p, "tokens_generated"), &tokens) &&
        bn_json_number(bn_json_get(p, "tokens_per_second"), &rate))
        printf(", %llu tokens at %.1f tok/s", (unsigned long long)tokens, rate);
    putchar('\n');
}

static bn_json *make_document(const char *path, const struct bn_receipt *receipt,
                              const struct bn_rules_report *report)
{
    static const char *const FORMS[] = {"bare", "statement", "envelope", "training"};
    bn_json *doc = bn_json_new_object();
    BN_PUT(doc, BN_STRING("schema", BN_VERIFY_SCHEMA), BN_STRING("file", path),
           BN_STRING("form", FORMS[receipt->form]),
           BN_STRING("verdict", bn_verify_outcomes[bn_verify_outcome(report)].json),
           BN_FLAG("verified", report->verified), BN_FLAG("bound", report->bound),
           BN_STRING("level", bn_rules_level(report)));
    if (report->steps > 0) bn_json_put_u64(doc, "repeated_steps", report->steps);
    if (report->steps > 0) bn_json_put_u64(doc, "steps", report->all_steps);
    BN_PUT(doc, BN_U64("exit_code", (uint64_t)report->exit_code), BN_U64("passed", report->n_passed),
           BN_U64("failed", report->n_failed), BN_U64("skipped", report->n_skipped),
           BN_U64("undecided", report->n_undecided), BN_FLAG("claimable", bn_claimable(report)));
    bn_json *rules = bn_json_put_array(doc, "rules");
    for (size_t i = 0; i < report->n_rules; i++) {
        bn_json *rule = bn_json_add_object(rules);
        static const char *const VERDICTS[BN_VERDICT_COUNT] = {"skip", "pass", "fail", "undecided"};
        bn_json_put_string(rule, "id", report->rules[i].id);
        bn_json_put_string(rule, "level", bn_rule_level_name(report->rules[i].level));
        bn_json_put_string(rule, "verdict", VERDICTS[report->results[i].verdict]);
        bn_json_put_string(rule, "reason", report->results[i].reason);
    }
    return doc;
}

bn_status bn_verify_print(const struct bn_args *args, const char *path, const struct bn_receipt *receipt,
                          const struct bn_rules_report *report, bn_error *err)
{
    if (args->json) return bn_cli_flush_json(make_document(path, receipt, report), false, err);
    if (!args->quiet || !report->verified) print_verdict(args, path, report);
    print_rules(args, report);
    if (!args->quiet && report->verified) print_summary(receipt);
    return BN_OK;
}

/* ---- rules ---- */

bn_status bn_verify_rules(struct bn_args *args, bn_error *err)
{
    size_t n;
    const struct bn_rule *rule = bn_rules(((const struct bn_verify_options *)args->fields)->training, &n);
    bn_json *doc = bn_json_new_object(), *list = bn_json_put_array(doc, "rules");
    bn_json_put_string(doc, "schema", BN_VERIFY_SCHEMA);
    for (const struct bn_rule *end = rule + n; rule < end; rule++) {
        const char *level = bn_rule_level_name(rule->level);
        bn_json *entry = bn_json_add_object(list);
        BN_PUT(entry, BN_STRING("id", rule->id), BN_STRING("level", level),
               BN_STRING("demand", rule->demand));
        if (!args->json) printf("%-21s %-12s %s\n", rule->id, level, rule->demand);
    }
    bn_status status = args->json ? bn_cli_print_json(doc, err) : BN_OK;
    bn_json_free(doc);
    return status;
}
