/* SPDX-License-Identifier: MIT
 *
 * bn-verify-receipt --batch: from the source through the pipeline to the results.
 */
#include "tools/verify-receipt/batch.h"

#include "base/error.h"
#include "tools/cli/report.h"

struct batch {
    struct bn_verify_source *source;
    struct bn_verify_pipeline *pipeline;
    struct bn_verify_results *results;
};

static bn_status next(void *user, struct bn_verify_item *item, bool *more, bn_error *err)
{
    struct batch *b = user;
    return bn_verify_source_next(b->source, item, more, err);
}

static bn_status done(void *user, const struct bn_verify_item *item, const struct bn_verify_result *result,
                      bn_error *err)
{
    struct batch *b = user;
    return bn_verify_results_add(b->results, item, result, err);
}

static bn_status run(struct batch *b, struct bn_args *args, struct bn_verify *v, bn_error *err)
{
    const struct bn_verify_feed feed = {next, done, b};
    BN_TRY(bn_verify_open_models(v, err));
    BN_TRY(bn_verify_source_open(&b->source, v->options->batch, err));
    BN_TRY(bn_verify_pipeline_open(&b->pipeline, v, err));
    BN_TRY(bn_verify_results_open(&b->results, v, err));
    BN_TRY(bn_verify_pipeline_run(b->pipeline, &feed, err));
    if (bn_verify_results_n(b->results) == 0 && bn_cli_interrupted() == 0)
        return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, v->options->batch, "no receipts are there"), err,
                       "a folder of *.json, a list of paths, or lines of JSON");
    BN_TRY(bn_verify_results_finish(b->results, &args->exit_code, err));
    if (bn_cli_interrupted() != 0) args->exit_code = 128 + bn_cli_interrupted();
    return BN_OK;
}

bn_status bn_verify_batch(struct bn_args *args, struct bn_verify *v, bn_error *err)
{
    struct batch b = {0};
    bn_cli_catch_interrupt();
    bn_status status = bn_verify_open(v, args, err);
    if (status == BN_OK) status = run(&b, args, v, err);
    bn_verify_pipeline_close(b.pipeline);
    bn_verify_results_close(b.results);
    bn_verify_source_close(b.source);
    return status;
}
