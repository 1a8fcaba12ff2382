/* SPDX-License-Identifier: MIT
 *
 * Reads a document of bn-bench, or a list of point values.
 */
#include "lab/history/result.h"

#include <stdio.h>
#include <string.h>

#include "lab/host/busy.h"

/* Settings for how often or how long something was measured, or which part of it. They do not change what was
 * measured. A model is compared by its digest, not by its path. */
static const char *const EFFORT[] = {"reps",   "warmup", "loads", "min_time_ns", "timeout_ns",
                                     "filter", "model",  "pairs", "confidence"};

static bn_status digest_settings(struct bn_result *r, bn_error *err)
{
    bn_json *o = bn_json_new_object();
    const bn_json *settings = bn_json_get(r->document, "settings");
    for (const bn_json *s = bn_json_first(settings); s != NULL; s = bn_json_next(s))
        if (!BN_HAS(EFFORT, bn_json_name(s))) bn_json_put_copy(o, bn_json_name(s), s);
    bn_status status = bn_json_digest(o, r->settings_sha256, err);
    bn_json_free(o);
    return status;
}

/* Marks of invalid measurements in the document: of the whole, of a test. */
static void find_invalid(struct bn_result *r)
{
    const char *said = bn_json_text_of(r->document, "result_class");
    if (strcmp(said, "invalid") == 0) snprintf(r->invalid, sizeof r->invalid, "the run is marked invalid");
    if (strcmp(said, "contended") == 0)
        snprintf(r->contended, sizeof r->contended, "the run is marked contended");
    const bn_json *list = bn_json_get(r->document, "tests");
    for (const bn_json *c = bn_json_first(list); c != NULL; c = bn_json_next(c)) {
        const char *verdict = bn_json_text_of(c, "verdict");
        bool bad = strcmp(verdict, "invalid") == 0 || strcmp(verdict, "timeout") == 0;
        if (bad && r->invalid[0] == '\0')
            snprintf(r->invalid, sizeof r->invalid, "the test '%.60s' is %s: %.60s",
                     bn_json_text_of(c, "name"), verdict, bn_json_text_of(c, "reason"));
    }
}

/* Older documents have no such member. */
static void find_others(struct bn_result *r)
{
    const struct bn_others others = bn_others_read(r->document);
    if (r->contended[0] == '\0' && bn_others_disturb(&others))
        bn_others_describe(r->contended, sizeof r->contended, &others);
}

static bn_status read_document(struct bn_result *r, bn_error *err)
{
    const bn_json *doc = r->document;
    bool crossval = bn_json_text_is(doc, "schema", "bn.crossval/1");
    r->suite = crossval ? "crossval" : bn_json_text_of(doc, "command");
    r->created = bn_json_text_of(doc, "created");
    r->commit = bn_json_text_of(doc, "program.commit");
    r->compiler = bn_json_text_of(doc, "program.compiler");
    r->flags = bn_json_text_of(doc, "program.flags");
    r->binary_sha256 = bn_json_text_of(doc, "program.binary_sha256");
    r->dirty = true;
    (void)bn_json_bool(bn_json_path(doc, "program.dirty"), &r->dirty);
    r->branch = bn_json_text_of(doc, "git.branch");
    (void)bn_json_u64(bn_json_path(doc, "git.changed_sources"), &r->changed_sources);
    if (strcmp(r->suite, "cmd") == 0) { /* what was measured is of the working folder, not of bn's build */
        r->commit = bn_json_text_of(doc, "git.commit");
        r->dirty = false;
        r->binary_sha256 = "";
    }
    r->model_sha256 = bn_json_text_of(doc, "model.sha256");
    r->machine_key = bn_json_text_of(doc, "machine.key");
    r->machine_label = bn_json_text_of(doc, "machine.label");
    if (r->suite[0] == '\0') return bn_fail(err, BN_ERR_FORMAT, "the document has no member 'command'");
    find_invalid(r);
    find_others(r);
    BN_TRY(digest_settings(r, err));
    return bn_series_read(&r->series, doc, err);
}

/* ---- lists of point values ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static const char *unit_of(const char *metric)
{
    static const char *const UNITS[][2] = {{"_per_second", "1/s"}, {"_ns", "ns"}, {"_us", "us"},
                                           {"_ms", "ms"},          {"_mb", "MB"}, {"_bytes", "bytes"}};
    for (size_t i = 0; i < BN_ARRAY_LEN(UNITS); i++)
        if (ends_with(metric, UNITS[i][0])) return UNITS[i][1];
    return "1";
}

static bn_status add_point(struct bn_result *r, const char *test, const bn_json *value, bn_error *err)
{
    const char *metric = bn_json_name(value);
    double x;
    if (!bn_json_number(value, &x) || !(x > 0))
        return bn_fail(err, BN_ERR_FORMAT, "'%.60s' of '%.80s' is not a positive number", metric, test);
    struct bn_series s = {.test = test, .metric = metric, .unit = unit_of(metric), .samples = &x, .n = 1};
    s.higher = ends_with(metric, "_per_second") || ends_with(metric, "_score") ||
               starts_with(metric, "throughput") || starts_with(metric, "accuracy");
    return bn_series_add(&r->series, &s, err);
}

static bn_status read_points(struct bn_result *r, bn_error *err)
{
    const bn_json *platforms = bn_json_get(r->document, "baselines");
    r->points = true;
    r->suite = "points";
    r->created = r->commit = r->compiler = r->flags = r->binary_sha256 = r->branch = "";
    r->model_sha256 = r->machine_key = r->machine_label = "";
    for (const bn_json *p = bn_json_first(platforms); p != NULL; p = bn_json_next(p))
        for (const bn_json *i = bn_json_first(p); i != NULL; i = bn_json_next(i)) {
            char test[160];
            snprintf(test, sizeof test, "%.79s %.79s", bn_json_name(p),
                     bn_json_name(i) == NULL ? "" : bn_json_name(i));
            for (const bn_json *v = bn_json_first(i); v != NULL; v = bn_json_next(v))
                BN_TRY(add_point(r, test, v, err));
        }
    return r->series.n > 0 ? BN_OK : bn_fail(err, BN_ERR_FORMAT, "the list of baselines has no values");
}

/* ---- reading ---- */

bn_status bn_result_parse(struct bn_result *out, bn_json *document, bn_error *err)
{
    *out = (struct bn_result){.document = document};
    bn_status status;
    const char *schema = bn_json_text_of(document, "schema");
    if (strcmp(schema, "bn.bench/1") == 0 || strcmp(schema, "bn.profile/1") == 0 ||
        strcmp(schema, "bn.crossval/1") == 0)
        status = read_document(out, err);
    else if (bn_json_kind(bn_json_get(document, "baselines")) == BN_JSON_OBJECT)
        status = read_points(out, err);
    else
        status = bn_fail(err, BN_ERR_FORMAT,
                         "not a bn-bench result (schema bn.bench/1 expected) nor a list of baselines");
    if (status != BN_OK) bn_result_release(out);
    return status;
}

bn_status bn_result_read(struct bn_result *out, const char *path, bn_error *err)
{
    bn_json *doc;
    *out = (struct bn_result){0};
    BN_TRY(bn_json_read_file(&doc, path, err));
    bn_status status = bn_result_parse(out, doc, err);
    if (status != BN_OK) bn_error_name(err, path);
    return status;
}

void bn_result_release(struct bn_result *result)
{
    bn_series_release(&result->series);
    bn_json_free(result->document);
    *result = (struct bn_result){0};
}

struct bn_likeness bn_result_likeness(const struct bn_result *r)
{
    return (struct bn_likeness){r->machine_key, r->settings_sha256, r->model_sha256};
}

bn_status bn_result_like(const struct bn_likeness *a, const struct bn_likeness *b, bn_error *err)
{
    const struct {
        const char *what, *a, *b;
    } PARTS[] = {{"another machine", a->machine, b->machine},
                 {"other settings", a->settings, b->settings},
                 {"another model", a->model, b->model}};
    for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++)
        if (strcmp(PARTS[i].a, PARTS[i].b) != 0)
            return bn_fail(err, BN_ERR_UNSUPPORTED, "not alike: %s (%.12s, not %.12s)", PARTS[i].what,
                           PARTS[i].b[0] != '\0' ? PARTS[i].b : "unknown",
                           PARTS[i].a[0] != '\0' ? PARTS[i].a : "unknown");
    return BN_OK;
}
