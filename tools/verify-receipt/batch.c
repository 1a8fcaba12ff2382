/* SPDX-License-Identifier: MIT
 *
 * bn-verify-receipt --batch: from the source through the pipeline to the results.
 */
#include "tools/verify-receipt/batch.h"

#include "base/error.h"
#include "tools/cli/ranks.h"
#include "tools/cli/report.h"

struct batch {
    struct bn_ranks ranks;
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

static bn_status open_all(struct batch *b, struct bn_verify *v, bn_error *err)
{
    BN_TRY(bn_verify_open_models(v, err));
    BN_TRY(bn_verify_pipeline_open(&b->pipeline, v, err));
    if (b->ranks.index != 0) return BN_OK;
    BN_TRY(bn_verify_source_open(&b->source, v->options->batch, err));
    return bn_verify_results_open(&b->results, v, err);
}

static bn_status run(struct batch *b, struct bn_args *args, struct bn_verify *v, bn_error *err)
{
    const struct bn_verify_feed feed = {next, done, b};
    BN_TRY(open_all(b, v, err));
    if (b->ranks.count > 1)
        BN_TRY(
            bn_verify_ranks_run(&b->ranks, v->options->n_sequences, b->pipeline, b->source, b->results, err));
    else
        BN_TRY(bn_verify_pipeline_run(b->pipeline, &feed, err));
    if (b->ranks.index != 0) return BN_OK;
    if (bn_verify_results_n(b->results) == 0 && bn_cli_interrupted() == 0)
        return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, v->options->batch, "no receipts are there"), err,
                       "a folder of *.json or *.dsse, a list of paths, or lines of JSON");
    BN_TRY(bn_verify_results_finish(b->results, b->source, &args->exit_code, err));
    if (bn_cli_interrupted() != 0) args->exit_code = 128 + bn_cli_interrupted();
    return BN_OK;
}

bn_status bn_verify_batch(struct bn_args *args, struct bn_verify *v, bn_error *err)
{
    struct batch b = {0};
    bn_cli_catch_interrupt();
    BN_TRY(bn_cli_ranks_open(&b.ranks, err));
    bn_status status = bn_verify_open(v, args, err);
    if (b.ranks.count > 1) v->n_threads = bn_cli_ranks_threads(v->options->n_threads);
    if (status == BN_OK) status = run(&b, args, v, err);
    bn_verify_pipeline_close(b.pipeline);
    bn_verify_results_close(b.results);
    bn_verify_source_close(b.source);
    return bn_cli_ranks_close(&b.ranks, status, err);
}
