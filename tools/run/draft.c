/* SPDX-License-Identifier: MIT
 *
 * --speculate and --draft: what drafts tokens for generate and chat, and the note about how often it was right.
 */
#include "base/error.h"
#include "tools/cli/default_model.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/run/run.h"

static bn_status open_model(bn_model **out, const char *name, bn_error *err)
{
    const bn_model_options options = {.repack = BN_REPACK_AUTO};
    char *path = NULL;
    BN_TRY(bn_cli_model_path(&path, name, err));
    bn_status status = bn_model_open(out, path, &options, err);
    bn_free(path);
    return status;
}

bn_status bn_run_draft_open(struct bn_run_engine *engine, const struct bn_args *args, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    if (o->draft_model == NULL) return BN_OK;
    if (o->speculate != BN_DRAFT_NONE)
        return bn_fail(err, BN_ERR_ARG, "--speculate ngram and --draft exclude each other");
    BN_TRY(open_model(&engine->draft_model, o->draft_model, err));
    uint32_t n_ctx = bn_session_n_ctx(engine->session), most = bn_model_hparams(engine->draft_model)->n_ctx;
    bn_session_options options = {.n_ctx = n_ctx < most ? n_ctx : most, .n_threads = o->n_threads};
    return bn_session_open(&engine->draft, engine->draft_model, &options, err);
}

void bn_run_draft_close(struct bn_run_engine *engine)
{
    bn_session_close(engine->draft);
    bn_model_close(engine->draft_model);
}

bn_draft_options bn_run_draft(const struct bn_args *args, const struct bn_run_engine *engine)
{
    const struct bn_run_options *o = args->fields;
    return (bn_draft_options){.kind = engine->draft != NULL ? BN_DRAFT_MODEL : o->speculate,
                              .session = engine->draft,
                              .most = o->draft_max,
                              .always = o->draft_always};
}

void bn_run_note_drafts(const struct bn_generation *gen, unsigned level)
{
    const bn_draft_stat *d = &gen->drafts;
    if (gen->draft.kind == BN_DRAFT_NONE) return;
    bn_report_note(level, "drafted %llu token%s in %llu pass%s, %llu accepted",
                   (unsigned long long)d->drafted, bn_cli_s(d->drafted), (unsigned long long)d->passes,
                   d->passes == 1 ? "" : "es", (unsigned long long)d->accepted);
}
