/* SPDX-License-Identifier: MIT
 *
 * The rule about fields that no other rule reads: a statement of this toolchain has every one of them, with
 * the type that docs/reference/receipt.md gives it. Fields that the page does not name are left alone.
 */
#include "lab/verify/checks.h"

enum kind { TEXT, DIGEST, COUNT, TEXTS, NUMBERS };

#define NULLABLE true

static const struct {
    const char *path;
    enum kind kind;
    bool nullable;
} FIELDS[] = {
    {"model.path", TEXT, NULLABLE},
    {"model.arch", TEXT, false},
    {"model.quantization", TEXT, NULLABLE},
    {"request.prompt_sha256", DIGEST, NULLABLE},
    {"request.template", TEXT, NULLABLE},
    {"resolved.tokenizer_sha256", DIGEST, NULLABLE},
    {"resolved.program.name", TEXT, NULLABLE},
    {"resolved.program.sha256", DIGEST, NULLABLE},
    {"resolved.program.compiler", TEXT, false},
    {"git.branch", TEXT, NULLABLE},
    {"result.text_sha256", DIGEST, NULLABLE},
    {"result.chain", DIGEST, NULLABLE},
    {"measurement.load_ns", COUNT, NULLABLE},
    {"measurement.peak_rss_bytes", COUNT, NULLABLE},
    {"measurement.bandwidth_probe_bytes_per_s", COUNT, NULLABLE},
    {"machine.os", TEXT, NULLABLE},
    {"machine.kernel", TEXT, NULLABLE},
    {"machine.arch", TEXT, NULLABLE},
    {"machine.cpu_model", TEXT, NULLABLE},
    {"machine.microcode", TEXT, NULLABLE},
    {"machine.cpu_flags", TEXTS, false},
    {"machine.cpus_online", COUNT, NULLABLE},
    {"machine.cpus_usable", COUNT, NULLABLE},
    {"machine.cores", COUNT, NULLABLE},
    {"machine.cache_l2_bytes", COUNT, NULLABLE},
    {"machine.cache_l3_bytes", COUNT, NULLABLE},
    {"machine.memory_bytes", COUNT, NULLABLE},
    {"machine.page_bytes", COUNT, NULLABLE},
    {"machine.governor", TEXT, NULLABLE},
    {"machine.load_milli", NUMBERS, NULLABLE},
    {"machine.cpu_quota_us", COUNT, NULLABLE},
    {"machine.cpu_period_us", COUNT, NULLABLE},
};

/* What cannot be read is null: a text is not empty, and a count is not 0. */
static const char *fault_of(const bn_json *value, enum kind kind)
{
    const char *text = NULL;
    uint64_t number = 0;
    switch (kind) {
    case TEXT:
        return bn_json_string(value, &text) && text[0] != '\0' ? NULL : "a text";
    case DIGEST:
        return bn_json_string(value, &text) && bn_is_sha256(text) ? NULL
                                                                  : "64 hexadecimal digits in lower case";
    case COUNT:
        return bn_json_u64(value, &number) && number > 0 ? NULL : "a whole number from 1 on";
    case TEXTS:
        return bn_rule_is_list(value, true) ? NULL : "a list of texts";
    case NUMBERS:
        return bn_rule_is_list(value, false) ? NULL : "a list of whole numbers";
    }
    return "known";
}

bool bn_check_fields(const struct bn_check *c)
{
    if (c->bare) return bn_rule_skip(c, "a bare predicate may leave fields out");
    for (size_t i = 0; i < BN_ARRAY_LEN(FIELDS); i++) {
        const bn_json *value = bn_rule_claim(c, FIELDS[i].path);
        if (value == NULL) return false;
        if (FIELDS[i].nullable && bn_json_kind(value) == BN_JSON_NULL) continue;
        const char *expected = fault_of(value, FIELDS[i].kind);
        if (expected == NULL) continue;
        return bn_rule_fail(c, "%s is not %s%s", FIELDS[i].path, expected,
                            FIELDS[i].nullable ? " or null" : "");
    }
    return bn_rule_pass(c, "%zu fields of the right type", BN_ARRAY_LEN(FIELDS));
}
