/* SPDX-License-Identifier: MIT
 *
 * bn-run logits: the network's raw output for given tokens, as a file, as a digest, as a trace of everything
 * between.
 */
#include <stdio.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "tools/cli/text.h"
#include "tools/run/run.h"

static bn_status write_out(const struct bn_args *args, const float *logits, size_t n, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    if (o->output != NULL) BN_TRY(bn_file_write_atomic(o->output, logits, n * sizeof *logits, err));
    if (!o->digest) return BN_OK;
    char hex[BN_SHA256_HEX];
    BN_TRY(bn_sha256_hex(logits, n * sizeof *logits, hex, err));
    puts(hex);
    return BN_OK;
}

static bn_status evaluate(const struct bn_args *args, struct bn_run_engine *engine,
                          const struct bn_run_prompt *prompt, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    bool all = o->all;
    size_t n_vocab = bn_model_hparams(engine->model)->n_vocab, n_rows = all ? prompt->n_ids : 1;
    const char *folder = o->trace;
    struct bn_run_trace trace;
    float *logits = bn_alloc_aligned(n_rows, n_vocab * sizeof *logits);
    if (logits == NULL) return bn_fail(err, BN_ERR_NOMEM, "no memory for %zu rows of logits", n_rows);
    bn_status status = BN_OK;
    if (folder != NULL) status = bn_run_trace_start(&trace, engine->session, folder, err);
    if (status == BN_OK)
        status = bn_session_eval(engine->session, prompt->ids, prompt->n_ids,
                                 all ? BN_LOGITS_ALL : BN_LOGITS_LAST, logits, err);
    if (status == BN_OK && folder != NULL) status = bn_run_trace_finish(&trace, engine->session, err);
    if (status == BN_OK) status = write_out(args, logits, n_rows * n_vocab, err);
    bn_free(logits);
    return status;
}

bn_status bn_run_logits(struct bn_args *args, bn_error *err)
{
    struct bn_run_engine engine;
    struct bn_run_prompt prompt;
    const struct bn_run_options *o = args->fields;
    if (o->output == NULL && !o->digest && o->trace == NULL)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "no output is named"), err,
                       "add -o FILE, --digest or --trace DIR");
    BN_TRY(bn_cli_text_check(args, &o->tokens, err));
    BN_TRY(bn_run_open(&engine, args, err));
    bn_status status = bn_run_prompt(&prompt, args, engine.model, false, err);
    if (status == BN_OK) {
        status = evaluate(args, &engine, &prompt, err);
        bn_run_prompt_release(&prompt);
    }
    bn_run_close(&engine);
    return status;
}
