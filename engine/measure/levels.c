/* SPDX-License-Identifier: MIT
 *
 * See levels.h.
 */
#define _POSIX_C_SOURCE 200809L /* fnmatch */
#include "measure/levels.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static bool copy(char *out, size_t room, const bn_json *value)
{
    const char *text;
    if (!bn_json_string(value, &text) || text[0] == '\0' || strlen(text) >= room) return false;
    snprintf(out, room, "%s", text);
    return true;
}

/* The value of one member; false for a name that there is not, or a value that it cannot have. */
static bool read_member(struct bn_level *level, const bn_json *m)
{
    const char *name = bn_json_name(m), *word;
    if (strcmp(name, "metric") == 0) return copy(level->metric, sizeof level->metric, m);
    if (strcmp(name, "test") == 0) return copy(level->test, sizeof level->test, m);
    if (strcmp(name, "warning_percent") == 0) return bn_json_number(m, &level->warning);
    if (strcmp(name, "critical_percent") == 0) return bn_json_number(m, &level->critical);
    if (strcmp(name, "better") != 0 || !bn_json_string(m, &word)) return false;
    level->better = strcmp(word, "higher") == 0 ? 1 : -1;
    return level->better > 0 || strcmp(word, "lower") == 0;
}

static bn_status read_level(struct bn_levels *all, const bn_json *row, bn_error *err)
{
    struct bn_level level = {.test = "*", .warning = -1, .critical = -1};
    if (all->n == BN_LEVELS_MAX)
        return bn_fail(err, BN_ERR_LIMIT, "thresholds: more than %u levels", BN_LEVELS_MAX);
    for (const bn_json *m = bn_json_first(row); m != NULL; m = bn_json_next(m)) {
        char name[48];
        const char *raw = bn_json_name(m) != NULL ? bn_json_name(m) : "";
        if (bn_json_name(m) == NULL || !read_member(&level, m))
            return bn_fail(err, BN_ERR_FORMAT, "thresholds: level %zu: '%s' is unknown, or has no such value",
                           all->n, bn_escape(name, sizeof name, raw, strlen(raw)));
    }
    if (level.metric[0] == '\0')
        return bn_fail(err, BN_ERR_FORMAT, "thresholds: level %zu has no metric", all->n);
    if (!(level.warning >= 0) || !(level.critical >= level.warning))
        return bn_fail(err, BN_ERR_FORMAT,
                       "thresholds: level %zu wants 0 <= warning_percent <= critical_percent", all->n);
    all->list[all->n++] = level;
    return BN_OK;
}

static bn_status read_levels(struct bn_levels *out, const bn_json *doc, bn_error *err)
{
    const char *schema = "";
    (void)bn_json_string(bn_json_get(doc, "schema"), &schema);
    const bn_json *levels = bn_json_get(doc, "levels");
    if (strcmp(schema, "bn.thresholds/1") != 0)
        return bn_fail(err, BN_ERR_FORMAT, "thresholds: schema is not \"bn.thresholds/1\"");
    if (bn_json_kind(levels) != BN_JSON_ARRAY || bn_json_size(doc) != 2)
        return bn_fail(err, BN_ERR_FORMAT, "thresholds: wants the members schema and levels, no others");
    for (const bn_json *row = bn_json_first(levels); row != NULL; row = bn_json_next(row))
        BN_TRY(read_level(out, row, err));
    const struct bn_level *last = &out->list[out->n > 0 ? out->n - 1 : 0];
    if (strcmp(last->metric, "*") != 0 || strcmp(last->test, "*") != 0 || last->better != 0)
        return bn_fail(err, BN_ERR_FORMAT, "thresholds: the last level is not for every metric");
    return BN_OK;
}

bn_status bn_levels_parse(struct bn_levels *out, const char *text, size_t n, bn_error *err)
{
    bn_json *doc = NULL;
    *out = (struct bn_levels){0};
    BN_TRY(bn_json_parse(&doc, text, n, err));
    bn_status status = read_levels(out, doc, err);
    bn_json_free(doc);
    return status;
}

bn_status bn_levels_import(struct bn_levels *out, const bn_json *thresholds, bn_error *err)
{
    static const char *const NAMES[] = {"throughput_decrease_percent", "latency_increase_percent"};
    const bn_json *warning = bn_json_get(thresholds, "warning"),
                  *critical = bn_json_get(thresholds, "critical");
    *out = (struct bn_levels){.n = 2};
    for (size_t i = 0; i < 2; i++) {
        struct bn_level *l = &out->list[i];
        *l = (struct bn_level){.test = "*", .metric = "*", .better = i == 0 ? 1 : 0};
        if (!bn_json_number(bn_json_get(warning, NAMES[i]), &l->warning) ||
            !bn_json_number(bn_json_get(critical, NAMES[i]), &l->critical) || !(l->warning >= 0) ||
            !(l->critical >= l->warning))
            return bn_fail(err, BN_ERR_FORMAT, "thresholds: %s wants 0 <= warning <= critical", NAMES[i]);
    }
    return BN_OK;
}

double bn_worse_percent(bool higher, double change)
{
    return 100 * (higher ? change / (1 + change) : change);
}

enum bn_severity bn_levels_severity(const struct bn_levels *levels, const char *test, const char *metric,
                                    bool higher, double worse_percent)
{
    for (size_t i = 0; i < levels->n; i++) {
        const struct bn_level *l = &levels->list[i];
        if ((l->better != 0 && (l->better > 0) != higher) || fnmatch(l->metric, metric, 0) != 0 ||
            fnmatch(l->test, test, 0) != 0)
            continue;
        return worse_percent > l->critical  ? BN_SEVERITY_CRITICAL
               : worse_percent > l->warning ? BN_SEVERITY_WARNING
                                            : BN_SEVERITY_NONE;
    }
    return BN_SEVERITY_NONE;
}
