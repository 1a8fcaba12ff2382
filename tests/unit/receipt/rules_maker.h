/* SPDX-License-Identifier: MIT
 *
 * A receipt that is edited and checked, for tests of rules.
 */
#ifndef BN_TESTS_RULES_MAKER_H
#define BN_TESTS_RULES_MAKER_H

#include "base/clock.h"
#include "base/file.h"
#include "lab/receipt/receipt.h"
#include "lab/verify/rules.h"
#include "tests/unit/status.h"

#define NOW 1772360000 /* some minutes after the fixture's timestamp */

static inline bn_json *load(const char *path)
{
    bn_json *root;
    must(bn_json_read_file(&root, path, NULL));
    return root;
}

/* The value at a path such as "predicate.measurement.kernel_stats.9": numbers index lists. */
static inline bn_json *find(bn_json *root, const char *path, size_t n)
{
    const bn_json *at = root;
    for (const char *p = path; p < path + n;) {
        char name[64];
        size_t length = strcspn(p, ".");
        if (p + length > path + n) length = (size_t)(path + n - p);
        snprintf(name, sizeof name, "%.*s", (int)length, p);
        at = bn_json_kind(at) == BN_JSON_ARRAY ? bn_json_at(at, strtoul(name, NULL, 10))
                                               : bn_json_get(at, name);
        p += length + 1;
    }
    if (at == NULL) print_message("no %.*s\n", (int)n, path);
    assert_non_null(at);
    return (bn_json *)(uintptr_t)at;
}

/* Puts the JSON text value at path; "" removes the member, and "+" for a name appends to a list. */
static inline void edit(bn_json *root, const char *path, const char *value)
{
    const char *dot = strrchr(path, '.');
    bn_json *parent = find(root, path, dot == NULL ? 0 : (size_t)(dot - path));
    const char *name = dot == NULL ? path : dot + 1;
    bn_json *literal;
    const char *text;
    if (value[0] == '\0') {
        bn_json_remove(parent, name);
        return;
    }
    must(bn_json_parse(&literal, value, strlen(value), NULL));
    if (strcmp(name, "+") != 0) {
        bn_json_put_copy(parent, name, literal);
    } else if (bn_json_string(literal, &text)) {
        bn_json_add_string(parent, text);
    } else {
        bn_json *object = bn_json_add_object(parent);
        for (const bn_json *m = bn_json_first(literal); m != NULL; m = bn_json_next(m))
            bn_json_put_copy(object, bn_json_name(m), m);
    }
    bn_json_free(literal);
}

static inline void write_text(const bn_json *root, struct bn_buf *text)
{
    *text = (struct bn_buf){.max = BN_JSON_MAX_BYTES};
    must(bn_json_write(root, false, text, NULL));
}

/* Runs the rules over a tree, as if it had been read from a file. */
static inline void run_rules(const bn_json *root, struct bn_rules_input *in, struct bn_rules_report *report)
{
    static struct bn_receipt_policy defaults;
    struct bn_receipt receipt;
    struct bn_buf text;
    bn_receipt_policy_defaults(&defaults);
    write_text(root, &text);
    must(bn_receipt_open(&receipt, text.data, text.len, NULL, NULL));
    bn_buf_release(&text);
    in->receipt = &receipt;
    if (in->policy == NULL) in->policy = &defaults;
    if (in->now_utc == 0) in->now_utc = NOW;
    must(bn_rules_run(report, in, NULL));
    bn_receipt_release(&receipt);
}

/* The ids of the rules that failed, joined by commas. */
static inline const char *failures(const struct bn_rules_report *report)
{
    static char list[512];
    list[0] = '\0';
    for (size_t i = 0; i < report->n_rules; i++)
        if (report->results[i].verdict == BN_VERDICT_FAIL) {
            size_t n = strlen(list);
            snprintf(list + n, sizeof list - n, "%s%s", n > 0 ? "," : "", report->rules[i].id);
        }
    return list;
}

static inline const char *reason_of(const struct bn_rules_report *report, const char *id)
{
    for (size_t i = 0; i < report->n_rules; i++)
        if (strcmp(report->rules[i].id, id) == 0) return report->results[i].reason;
    return "";
}

#define P "predicate."
#define M P "measurement."

struct fault {
    const char *rule;
    const char *path, *value;
    const char *path2, *value2; /* a second edit, where one cannot do it alone */
};

/* Makes the fault in a receipt, which is sealed again, and runs the rules. */
static inline void run_fault(bn_json *root, const struct fault *fault, struct bn_rules_input *in,
                             struct bn_rules_report *report)
{
    edit(root, fault->path, fault->value);
    if (fault->path2 != NULL) edit(root, fault->path2, fault->value2);
    must(bn_receipt_seal(root, NULL));
    run_rules(root, in, report);
}

/* Whether it fails its own rule, and that one alone. */
static inline void check_fault(bn_json *root, const struct fault *fault, struct bn_rules_input *in,
                               struct bn_rules_report *report)
{
    run_fault(root, fault, in, report);
    if (strcmp(failures(report), fault->rule) != 0) print_message("%s = %s\n", fault->path, fault->value);
    assert_string_equal(failures(report), fault->rule);
}

static inline struct bn_receipt_policy read_policy(const char *text)
{
    struct bn_receipt_policy policy;
    must(bn_receipt_policy_read(&policy, text, strlen(text), NULL));
    return policy;
}

#endif
