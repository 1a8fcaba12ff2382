/* SPDX-License-Identifier: MIT
 *
 * bn-bench compare: compares two existing documents.
 */
#include <string.h>

#include "base/error.h"
#include "tools/bench/history/judging.h"

static struct bn_likeness likeness(const struct bn_result *r)
{
    return (struct bn_likeness){r->machine_key, r->settings_sha256, r->model_sha256};
}

/* given: --thresholds was, which comes before the levels that a list of values has of its own. */
static bn_status prepare(struct bn_bench_judging *judging, const struct bn_result *a,
                         const struct bn_result *b, bool given, bn_error *err)
{
    const struct bn_likeness like_a = likeness(a), like_b = likeness(b);
    const bn_json *levels = bn_levels_of(a->document);
    judging->rules.points = a->points || b->points;
    bn_bench_circumstances(judging, a->contended, b->contended, a->binary_sha256, b->binary_sha256);
    if (a->points && levels != NULL && !given) BN_TRY(bn_levels_import(&judging->levels, levels, err));
    if (judging->rules.points || judging->unlike) return BN_OK;
    if (strcmp(a->suite, b->suite) != 0)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "not alike: %.40s and %.40s measure different things",
                       a->suite, b->suite);
    bn_status status = bn_result_like(&like_a, &like_b, err);
    if (status != BN_OK) bn_error_hint(err, "use --unlike to compare them anyway");
    return status;
}

static bn_status compare(struct bn_args *args, struct bn_bench_judging *judging, const struct bn_result *a,
                         const struct bn_result *b, bn_error *err)
{
    struct bn_offline offline;
    struct bn_machine machine;
    BN_TRY(prepare(judging, a, b, bn_opt_given(args, "thresholds"), err));
    BN_TRY(bn_offline_compare(&offline, &a->series, &b->series, &judging->rules, err));
    bn_machine_read(&machine);
    bn_json *doc = args->json ? bn_bench_document("compare", &machine) : NULL;
    if (args->json) {
        bn_bench_put_origin(doc, "a", a);
        bn_bench_put_origin(doc, "b", b);
    } else {
        bn_bench_print_origin("A", args->operands[0], a);
        bn_bench_print_origin("B", args->operands[1], b);
    }
    bn_status status = bn_bench_judging_show(args, judging, &offline, doc, err);
    bn_json_free(doc);
    bn_offline_release(&offline);
    return status;
}

bn_status bn_bench_compare(struct bn_args *args, bn_error *err)
{
    struct bn_bench_judging judging;
    struct bn_result a = {0}, b = {0};
    bn_status status = bn_bench_judging_read(&judging, args, err);
    if (status == BN_OK) status = bn_result_read(&a, args->operands[0], err);
    if (status == BN_OK) status = bn_result_read(&b, args->operands[1], err);
    if (status == BN_OK) status = compare(args, &judging, &a, &b, err);
    bn_result_release(&a);
    bn_result_release(&b);
    return status;
}
