/* SPDX-License-Identifier: MIT
 *
 * What bn-verify-receipt prints on standard output.
 */
#include <stdio.h>

#include "base/error.h"
#include "lab/verify/rules.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"
#include "tools/verify-receipt/verify_receipt.h"

typedef unsigned long long ull;

static const char *form_name(enum bn_receipt_form form)
{
    static const char *const NAMES[] = {"bare", "statement", "envelope", "training"};
    return (unsigned)form < BN_ARRAY_LEN(NAMES) ? NAMES[form] : "?";
}

enum bn_verify_outcome bn_verify_outcome(const struct bn_rules_report *report)
{
    return report->verified       ? BN_OUTCOME_VERIFIED
           : report->unbound      ? BN_OUTCOME_UNBOUND
           : report->n_failed > 0 ? BN_OUTCOME_REFUSED
                                  : BN_OUTCOME_UNDECIDED;
}

const char *bn_verify_outcome_name(enum bn_verify_outcome outcome)
{
    static const char *const NAMES[] = {"verified", "refused", "undecided", "unbound", "error"};
    return (unsigned)outcome < BN_ARRAY_LEN(NAMES) ? NAMES[outcome] : "?";
}

const char *bn_verify_outcome_text(enum bn_verify_outcome outcome)
{
    static const char *const TEXTS[] = {"verified", "REFUSED", "UNDECIDED",
                                        "consistent, PROVES NOTHING (bound to no run)", "ERROR"};
    return (unsigned)outcome < BN_ARRAY_LEN(TEXTS) ? TEXTS[outcome] : "?";
}

/* ---- verify ---- */

static bool is_bad(enum bn_receipt_verdict verdict)
{
    return verdict == BN_VERDICT_FAIL || verdict == BN_VERDICT_UNDECIDED;
}

/* What failed or is undecided; with -v every rule. */
static void print_rules(const struct bn_args *args, const struct bn_rules_report *report)
{
    bool color = bn_report_color(stdout);
    static const char *const COLORS[BN_VERDICT_COUNT] = {"\033[2m", "\033[32m", "\033[31m", "\033[33m"};
    for (size_t i = 0; i < report->n_rules; i++) {
        const struct bn_rule_result *r = &report->results[i];
        if (args->verbose == 0 && !is_bad(r->verdict)) continue;
        printf("%s%s%s  %-21s %s\n", color ? COLORS[r->verdict] : "", bn_verdict_name(r->verdict),
               color ? "\033[0m" : "", report->rules[i].id, r->reason);
    }
}

static void print_count(const char *comma, size_t n, const char *what)
{
    if (n > 0) printf("%s%zu %s", comma, n, what);
}

/* The verdict, the level that was reached, and how many rules led to it. */
static void print_verdict(const struct bn_args *args, const char *path, const struct bn_rules_report *report)
{
    char escaped[200];
    bool unbound = report->verified && !report->bound;
    printf("%s: %s, level: %s%s; ", bn_escape(escaped, sizeof escaped, path, strlen(path)),
           bn_verify_outcome_text(bn_verify_outcome(report)), bn_rules_level(report),
           unbound ? " (unbound: an edit would not be noticed)" : "");
    printf("%zu of %zu rules passed", report->n_passed,
           report->n_passed + report->n_failed + report->n_undecided + report->n_skipped);
    print_count(", ", report->n_failed, "failed");
    print_count(", ", report->n_undecided, "undecided");
    print_count(", ", report->n_skipped, "skipped");
    if (report->steps > 0)
        printf("; %llu of %llu steps repeated", (ull)report->steps, (ull)report->all_steps);
    if (bn_claimable(report)) fputs("; claimable", stdout);
    puts(args->verbose == 0 ? " (-v lists them)" : "");
}

/* What the rules show and what they do not, and what would show it. */
static void print_claims(const struct bn_rules_report *report)
{
    const struct bn_claim *c;
    for (int holds = 1; holds >= 0; holds--) {
        size_t n = 0;
        for (size_t i = 0; (c = bn_claims_at(i)) != NULL; i++) {
            if (bn_claim_holds(c, report) != (holds == 1)) continue;
            if (n++ == 0) puts(holds == 1 ? "shown:" : "not shown:");
            printf("  %-8s %s%s%s%s\n", c->id, c->text, holds == 1 ? "" : " (", holds == 1 ? "" : c->missing,
                   holds == 1 ? "" : ")");
        }
    }
}

static void print_claim(const bn_json *predicate, const char *title, const char *path)
{
    const char *text = NULL;
    char escaped[120];
    if (!bn_json_string(bn_json_path(predicate, path), &text)) return;
    printf(", %s %s", title, bn_escape(escaped, sizeof escaped, text, strlen(text)));
}

/* What a verified receipt is about, as it says. */
static void print_summary(const struct bn_receipt *receipt)
{
    const bn_json *p = receipt->predicate;
    uint64_t tokens;
    double rate;
    if (p == NULL || receipt->form == BN_RECEIPT_TRAINING) return;
    printf("%zu kernels", bn_json_size(bn_json_get(p, "kernels")));
    print_claim(p, "schema", "schema_version");
    print_claim(p, "path", "compute_path");
    print_claim(p, "backend", "backend");
    print_claim(p, "model", "model.path");
    print_claim(p, "version", "environment.BITNET_VERSION");
    print_claim(p, "on", "environment.OS");
    if (bn_json_u64(bn_json_get(p, "tokens_generated"), &tokens) &&
        bn_json_number(bn_json_get(p, "tokens_per_second"), &rate))
        printf(", %llu tokens at %.1f tok/s", (unsigned long long)tokens, rate);
    putchar('\n');
}

static bn_json *make_document(const char *path, const struct bn_receipt *receipt,
                              const struct bn_rules_report *report)
{
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", "bn.verify-receipt/1");
    bn_json_put_string(doc, "file", path);
    bn_json_put_string(doc, "form", form_name(receipt->form));
    bn_json_put_string(doc, "verdict", bn_verify_outcome_name(bn_verify_outcome(report)));
    bn_json_put_bool(doc, "verified", report->verified);
    bn_json_put_bool(doc, "bound", report->bound);
    bn_json_put_string(doc, "level", bn_rules_level(report));
    if (report->steps > 0) bn_json_put_u64(doc, "repeated_steps", report->steps);
    if (report->steps > 0) bn_json_put_u64(doc, "steps", report->all_steps);
    bn_json_put_u64(doc, "exit_code", (uint64_t)report->exit_code);
    bn_json_put_u64(doc, "passed", report->n_passed);
    bn_json_put_u64(doc, "failed", report->n_failed);
    bn_json_put_u64(doc, "skipped", report->n_skipped);
    bn_json_put_u64(doc, "undecided", report->n_undecided);
    bn_json_put_bool(doc, "claimable", bn_claimable(report));
    bn_json *claims = bn_json_put_array(doc, "claims");
    const struct bn_claim *c;
    for (size_t i = 0; receipt->form != BN_RECEIPT_TRAINING && (c = bn_claims_at(i)) != NULL; i++) {
        bn_json *claim = bn_json_add_object(claims);
        bool holds = bn_claim_holds(c, report);
        bn_json_put_string(claim, "id", c->id);
        bn_json_put_string(claim, "text", c->text);
        bn_json_put_bool(claim, "shown", holds);
        bn_json_put_text(claim, "missing", holds ? NULL : c->missing);
    }
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
    if (args->json) {
        bn_json *doc = make_document(path, receipt, report);
        bn_status status = bn_cli_print_json(doc, err);
        bn_json_free(doc);
        return status;
    }
    if (!args->quiet || !report->verified) print_verdict(args, path, report);
    print_rules(args, report);
    if (!args->quiet && report->verified) print_summary(receipt);
    if (!args->quiet && report->verified && args->verbose > 0 && receipt->form != BN_RECEIPT_TRAINING)
        print_claims(report);
    return BN_OK;
}

/* ---- diff ---- */

struct printing {
    bn_json *list; /* NULL: print as text */
    enum bn_diff_group group;
};

static void print_one(void *user, const struct bn_receipt_diff *diff)
{
    struct printing *p = user;
    char path[200];
    if (diff->group != p->group) return;
    bn_escape(path, sizeof path, diff->path, strlen(diff->path));
    if (p->list == NULL) {
        printf("  %-42s %s -> %s", path, diff->left[0] == '\0' ? "(absent)" : diff->left,
               diff->right[0] == '\0' ? "(absent)" : diff->right);
        if (diff->has_ratio) printf("  x%.3f", diff->ratio);
        putchar('\n');
        return;
    }
    bn_json *entry = bn_json_add_object(p->list);
    bn_json_put_string(entry, "path", path);
    bn_json_put_text(entry, "left", diff->left);
    bn_json_put_text(entry, "right", diff->right);
    if (diff->has_ratio)
        bn_json_put_number(entry, "ratio", diff->ratio);
    else
        bn_json_put_null(entry, "ratio");
}

static void count_only(void *user, const struct bn_receipt_diff *diff)
{
    (void)user;
    (void)diff;
}

bn_status bn_verify_print_diff(struct bn_args *args, const struct bn_receipt *left,
                               const struct bn_receipt *right, bn_error *err)
{
    size_t n[BN_DIFF_GROUP_COUNT];
    BN_TRY(bn_receipt_diff(left, right, count_only, NULL, n, err));
    bool same = n[BN_DIFF_RESULT] == 0;
    bn_json *doc = args->json ? bn_json_new_object() : NULL;
    bn_json_put_string(doc, "schema", "bn.receipt-diff/1");
    bn_json_put_bool(doc, "same_result", same);
    bn_status status = BN_OK;
    for (int g = 0; g < BN_DIFF_GROUP_COUNT && status == BN_OK; g++) {
        const char *name = bn_diff_group_name((enum bn_diff_group)g);
        struct printing p = {bn_json_put_array(doc, name), (enum bn_diff_group)g};
        if (!args->json) printf("%s: %zu %s\n", name, n[g], n[g] == 1 ? "difference" : "differences");
        status = bn_receipt_diff(left, right, print_one, &p, n, err);
    }
    if (status == BN_OK && args->json) status = bn_cli_print_json(doc, err);
    if (status == BN_OK && !args->json) puts(same ? "the results are the same" : "the results DIFFER");
    bn_json_free(doc);
    args->exit_code = same ? BN_EXIT_OK : BN_EXIT_NEGATIVE;
    return status;
}

/* ---- rules ---- */

static void put_rules(const struct bn_rule *(*at)(size_t i), bn_json *list)
{
    for (size_t i = 0; at(i) != NULL; i++) {
        const struct bn_rule *rule = at(i);
        bn_json *entry = bn_json_add_object(list);
        bn_json_put_string(entry, "id", rule->id);
        bn_json_put_string(entry, "level", bn_rule_level_name(rule->level));
        bn_json_put_string(entry, "demand", rule->demand);
        if (list == NULL) printf("%-21s %-12s %s\n", rule->id, bn_rule_level_name(rule->level), rule->demand);
    }
}

bn_status bn_verify_rules(struct bn_args *args, bn_error *err)
{
    const struct bn_verify_options *o = args->fields;
    bn_json *list = args->json ? bn_json_new_array() : NULL;
    put_rules(o->training ? bn_rules_training_at : bn_rules_at, list);
    bn_status status = args->json ? bn_cli_print_json(list, err) : BN_OK;
    bn_json_free(list);
    return status;
}
