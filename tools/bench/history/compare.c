/* SPDX-License-Identifier: MIT
 *
 * bn-bench compare: two documents that were not measured in turn. bn-bench baseline compares by the same
 * settings and prints the same table.
 */
#include "tools/bench/history/history.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"

extern const char bn_bench_thresholds[];
extern const uint64_t bn_bench_thresholds_bytes;

const struct bn_option bn_bench_thresholds_option[] = {
    BN_OPTION("thresholds", "regression levels [built-in: baselines/thresholds.json]", .rare = true,
              .arg = "FILE", .group = "Verdict", BN_TO_TEXT(struct bn_bench_options, thresholds)),
    {0},
};

const struct bn_option bn_bench_compare_options[] = {
    BN_OPTION("drift", "drift of the machine between two sessions", .rare = true, .arg = "PERCENT",
              .group = "Verdict", .preset = "8", BN_TO_F64(struct bn_bench_options, drift, 0, 1000)),
    BN_BENCH_CONFIDENCE_OPTION("Verdict"),
    BN_OPTION("margin", "a change that does not matter", .rare = true, .arg = "PERCENT", .group = "Verdict",
              .preset = "1", BN_TO_F64(struct bn_bench_options, margin, 0, 1000)),
    BN_OPTION("fail-on", "the least severe regression that exits with 1", .arg = "any|warning|critical",
              .group = "Verdict", .preset = "any", BN_TO_CHOICE(struct bn_bench_options, fail_on)),
    BN_OPTION("strict", "fail when any series is inconclusive", .group = "Verdict",
              BN_TO_BOOL(struct bn_bench_options, strict)),
    BN_OPTION("unlike", "compare even if machine, settings or model differ", .rare = true, .group = "Verdict",
              BN_TO_BOOL(struct bn_bench_options, unlike)),
    {0},
};

bn_status bn_bench_levels(struct bn_levels *out, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = 1u << 20};
    if (path == NULL)
        return bn_levels_parse(out, bn_bench_thresholds, (size_t)bn_bench_thresholds_bytes, err);
    bn_status status = bn_file_read(path, &text, err);
    if (status == BN_OK) status = bn_levels_parse(out, text.data, text.len, err);
    if (status != BN_OK) bn_error_name(err, path);
    bn_buf_release(&text);
    return status;
}

bn_status bn_bench_compare_read(struct bn_bench_compare_settings *out, const struct bn_bench_options *o,
                                bn_error *err)
{
    *out = (struct bn_bench_compare_settings){.o = o, .rules = {.judge = BN_JUDGE_RULES_INIT}};
    out->rules.drift = o->drift / 100;
    out->rules.judge.margin = o->margin / 100;
    out->rules.judge.confidence = o->confidence / 100;
    out->rules.levels = &out->levels;
    return bn_bench_levels(&out->levels, o->thresholds, err);
}

bn_status bn_bench_compare_results(struct bn_history_comparison *out, const struct bn_result *a,
                                   const struct bn_result *b, struct bn_bench_compare_settings *settings,
                                   bn_error *err)
{
    settings->rules.contended = a->contended[0] != '\0' ? a->contended : b->contended;
    settings->rules.same_program =
        a->binary_sha256[0] != '\0' && strcmp(a->binary_sha256, b->binary_sha256) == 0;
    return bn_history_compare(out, &a->series, &b->series, &settings->rules, err);
}

/* Why this does not pass; NULL when it does. */
static const char *failure(const struct bn_bench_compare_settings *settings,
                           const struct bn_history_comparison *o)
{
    static const enum bn_severity LEAST[] = {BN_SEVERITY_NONE, BN_SEVERITY_WARNING, BN_SEVERITY_CRITICAL};
    if (o->n_missing > 0) return "B lacks series of A";
    if (o->n == o->n_extra) return "A and B have no series in common";
    if (o->worst == BN_OUTCOME_REGRESSED && o->severity >= LEAST[settings->o->fail_on]) return "B regressed";
    if (o->n_judged == 0) return "no data: every series is inconclusive";
    if (o->n_timed > 0 && o->n_timed_judged == 0) return "no data: every time and rate is inconclusive";
    if (settings->o->strict && o->n - o->n_missing - o->n_extra > o->n_judged)
        return "a series is inconclusive (--strict)";
    return NULL;
}

static void put(bn_json *doc, const struct bn_bench_compare_settings *settings,
                const struct bn_history_comparison *o, const char *why)
{
    bn_json_put_object(doc, "unavailable");
    bn_json_put_string(doc, "verdict", bn_outcome_name(o->worst));
    bn_json_put_bool(doc, "passed", why == NULL);
    bn_json_put_known(doc, "failure", why != NULL ? why : "", "it passed");
    bn_json_put_bool(doc, "in_turn", false);
    bn_json_put_bool(doc, "points", settings->rules.points);
    bn_json_put_number(doc, "drift", settings->rules.drift);
    bn_json_put_number(doc, "confidence", settings->rules.judge.confidence);
    BN_PUT_COUNTS(doc, {"missing", o->n_missing}, {"extra", o->n_extra});
    bn_comparisons_put(doc, "comparisons", o->list, o->n);
}

bn_status bn_bench_compare_show(struct bn_args *args, const struct bn_bench_compare_settings *settings,
                                const struct bn_history_comparison *comparison, bn_json *doc, bn_error *err)
{
    const char *why = failure(settings, comparison);
    args->exit_code = why != NULL ? BN_EXIT_NEGATIVE : BN_EXIT_OK;
    if (args->json) {
        put(doc, settings, comparison, why);
        return bn_cli_print_json(doc, err);
    }
    struct bn_buf text = {.max = 16u << 20};
    bn_comparisons_verdict(&text, comparison->list, comparison->n);
    if (comparison->n_missing > 0) bn_buf_printf(&text, "; %zu of A missing in B", comparison->n_missing);
    if (comparison->n_extra > 0) bn_buf_printf(&text, "; %zu only in B", comparison->n_extra);
    bn_buf_putc(&text, '\n');
    if (args->verbose > 0) {
        bn_buf_putc(&text, '\n');
        bn_comparisons_print(&text, comparison->list, comparison->n);
    }
    if (args->verbose > 0 && !settings->rules.points)
        bn_buf_printf(&text,
                      "A and B did not run in turn: changes below %g %% may be drift. bn-bench ab finds\n"
                      "smaller ones.\n",
                      100 * settings->rules.drift);
    BN_TRY(bn_cli_print_text(&text, err));
    if (why != NULL) bn_report_note(0, "failed: %s", why);
    return BN_OK;
}

void bn_bench_print_origin(const char *side, const char *name, const struct bn_result *r)
{
    printf("%s  %s", side, name);
    if (r->points)
        printf(", values without samples\n");
    else
        printf(": %s of %s, commit %.12s%s, %s\n", r->suite, r->created,
               r->commit[0] != '\0' ? r->commit : "unknown", r->dirty ? "+dirty" : "",
               r->machine_label[0] != '\0' ? r->machine_label : "unknown machine");
}

void bn_bench_put_origin(bn_json *doc, const char *side, const struct bn_result *r)
{
    const char *const MEMBERS[][2] = {{"suite", r->suite},
                                      {"created", r->created},
                                      {"commit", r->commit},
                                      {"binary_sha256", r->binary_sha256},
                                      {"model_sha256", r->model_sha256},
                                      {"machine", r->machine_key},
                                      {"settings_sha256", r->settings_sha256}};
    bn_json *o = bn_json_put_object(doc, side);
    bn_json_put_object(o, "unavailable");
    for (size_t i = 0; i < BN_ARRAY_LEN(MEMBERS); i++)
        bn_json_put_known(o, MEMBERS[i][0], MEMBERS[i][1], "the document has no such member");
}

/* ---- the command ---- */

static bn_status prepare(struct bn_bench_compare_settings *settings, const struct bn_result *a,
                         const struct bn_result *b, bn_error *err)
{
    const struct bn_likeness like_a = bn_result_likeness(a), like_b = bn_result_likeness(b);
    settings->rules.points = a->points || b->points;
    if (settings->rules.points || settings->o->unlike) return BN_OK;
    if (strcmp(a->suite, b->suite) != 0)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "not alike: %.40s and %.40s measure different things",
                       a->suite, b->suite);
    bn_status status = bn_result_like(&like_a, &like_b, err);
    if (status != BN_OK) bn_error_hint(err, "use --unlike to compare them anyway");
    return status;
}

static bn_status compare(struct bn_args *args, struct bn_bench_compare_settings *settings,
                         const struct bn_result *a, const struct bn_result *b, bn_error *err)
{
    struct bn_history_comparison comparison;
    BN_TRY(prepare(settings, a, b, err));
    BN_TRY(bn_bench_compare_results(&comparison, a, b, settings, err));
    bn_json *doc = args->json ? bn_bench_document("compare", NULL) : NULL;
    if (args->json) {
        bn_bench_put_origin(doc, "a", a);
        bn_bench_put_origin(doc, "b", b);
    } else {
        bn_bench_print_origin("A", args->operands[0], a);
        bn_bench_print_origin("B", args->operands[1], b);
    }
    bn_status status = bn_bench_compare_show(args, settings, &comparison, doc, err);
    bn_json_free(doc);
    bn_history_release(&comparison);
    return status;
}

bn_status bn_bench_compare(struct bn_args *args, bn_error *err)
{
    struct bn_bench_compare_settings settings;
    struct bn_result a = {0}, b = {0};
    bn_status status = bn_bench_compare_read(&settings, args->fields, err);
    if (status == BN_OK) status = bn_result_read(&a, args->operands[0], err);
    if (status == BN_OK) status = bn_result_read(&b, args->operands[1], err);
    if (status == BN_OK) status = compare(args, &settings, &a, &b, err);
    bn_result_release(&a);
    bn_result_release(&b);
    return status;
}
