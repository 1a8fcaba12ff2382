/* SPDX-License-Identifier: MIT
 *
 * Reads regression levels and finds the severity of a change.
 */
#define _POSIX_C_SOURCE 200809L /* fnmatch */
#include "lab/stats/comparison.h"

#include <fnmatch.h>
#include <string.h>

#include "base/error.h"

static bool copy(char *out, size_t room, const bn_json *value)
{
    const char *text;
    if (!bn_json_string(value, &text) || text[0] == '\0' || strlen(text) >= room) return false;
    memcpy(out, text, strlen(text) + 1);
    return true;
}

/* The first number of a row decides whether its levels are per cent or absolute. */
static bool read_number(struct bn_level *level, const char *of, const bn_json *m, double *out)
{
    bool absolute = strcmp(of, "absolute") == 0, first = level->warning < 0 && level->critical < 0;
    if (!absolute && strcmp(of, "percent") != 0) return false;
    if (!first && absolute != level->absolute) return false;
    level->absolute = absolute;
    return bn_json_number(m, out);
}

/* Reads one member; false for an unknown name or an invalid value. */
static bool read_member(struct bn_level *level, const char *name, const bn_json *m)
{
    const char *word = "";
    (void)bn_json_string(m, &word);
    if (strcmp(name, "metric") == 0) return copy(level->metric, sizeof level->metric, m);
    if (strcmp(name, "test") == 0) return copy(level->test, sizeof level->test, m);
    if (strcmp(name, "as") == 0) return level->rate = strcmp(word, "rate") == 0;
    if (strncmp(name, "warning_", 8) == 0) return read_number(level, name + 8, m, &level->warning);
    if (strncmp(name, "critical_", 9) == 0) return read_number(level, name + 9, m, &level->critical);
    if (strcmp(name, "drift_percent") == 0) {
        bool ok = bn_json_number(m, &level->drift) && level->drift >= 0 && level->drift < 100;
        level->drift /= 100;
        return ok;
    }
    level->better = strcmp(word, "higher") == 0 ? 1 : -1;
    return strcmp(name, "better") == 0 && (level->better > 0 || strcmp(word, "lower") == 0);
}

static bn_status read_level(struct bn_levels *all, const bn_json *row, bn_error *err)
{
    struct bn_level level = {.test = "*", .warning = -1, .critical = -1};
    if (all->n == BN_LEVELS_MAX)
        return bn_fail(err, BN_ERR_LIMIT, "thresholds: more than %u levels", BN_LEVELS_MAX);
    for (const bn_json *m = bn_json_first(row); m != NULL; m = bn_json_next(m)) {
        char room[48];
        const char *name = bn_json_name(m) != NULL ? bn_json_name(m) : "";
        if (!read_member(&level, name, m))
            return bn_fail(err, BN_ERR_FORMAT, "thresholds: level %zu: unknown member or invalid value: '%s'",
                           all->n, bn_escape(room, sizeof room, name, strlen(name)));
    }
    if (level.metric[0] == '\0')
        return bn_fail(err, BN_ERR_FORMAT, "thresholds: level %zu has no metric", all->n);
    if (!(level.warning >= 0) || !(level.critical >= level.warning))
        return bn_fail(err, BN_ERR_FORMAT,
                       "thresholds: level %zu: expected 0 <= warning <= critical, both in per cent or both "
                       "absolute",
                       all->n);
    all->list[all->n++] = level;
    return BN_OK;
}

static bn_status read_levels(struct bn_levels *out, const bn_json *doc, bn_error *err)
{
    const bn_json *levels = bn_json_get(doc, "levels");
    if (!bn_json_text_is(doc, "schema", "bn.thresholds/1"))
        return bn_fail(err, BN_ERR_FORMAT, "thresholds: schema is not \"bn.thresholds/1\"");
    if (bn_json_kind(levels) != BN_JSON_ARRAY || bn_json_size(doc) != 2)
        return bn_fail(err, BN_ERR_FORMAT,
                       "thresholds: expected the members schema and levels, and no others");
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

/* How much worse, in the unit of the level; negative: better. */
static double worse(const struct bn_level *l, bool higher, double before, double after)
{
    if (l->absolute) return higher ? before - after : after - before;
    if (l->rate && !higher) return 100 * (after - before) / after;
    return 100 * (higher ? before - after : after - before) / before;
}

const struct bn_level *bn_levels_find(const struct bn_levels *levels, const char *test, const char *metric,
                                      bool higher)
{
    for (size_t i = 0; i < levels->n; i++) {
        const struct bn_level *l = &levels->list[i];
        if ((l->better == 0 || (l->better > 0) == higher) && fnmatch(l->metric, metric, 0) == 0 &&
            fnmatch(l->test, test, 0) == 0)
            return l;
    }
    return NULL;
}

enum bn_severity bn_levels_severity(const struct bn_levels *levels, const char *test, const char *metric,
                                    bool higher, double before, double after)
{
    const double exceeded = 1 + 1e-9; /* by more than rounding */
    const struct bn_level *l = bn_levels_find(levels, test, metric, higher);
    if (l == NULL) return BN_SEVERITY_NONE;
    double by = worse(l, higher, before, after);
    return by > l->critical * exceeded  ? BN_SEVERITY_CRITICAL
           : by > l->warning * exceeded ? BN_SEVERITY_WARNING
                                        : BN_SEVERITY_NONE;
}
