/* SPDX-License-Identifier: MIT
 *
 * This engine's side: the model, the prompt, the logits and the trace.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/team.h"
#include "lab/receipt/receipt.h"
#include "model/model.h"
#include "tools/cli/default_model.h"
#include "tools/cli/text.h"
#include "tools/crossval/crossval.h"

#define MAX_TEXT_BYTES (1u << 24)

/* ---- opening ---- */

static bn_status read_thresholds(struct bn_crossval *x, bn_error *err)
{
    const char *path = x->options->thresholds;
    struct bn_buf *text = &x->limits;
    text->max = BN_JSON_MAX_BYTES;
    if (path == NULL) bn_buf_append(text, bn_default_thresholds, (size_t)bn_default_thresholds_bytes);
    bn_status status = path != NULL ? bn_file_read(path, text, err) : bn_buf_check(text, err);
    bn_buf_puts(text, ""); /* an empty file has bytes too */
    if (status == BN_OK) status = bn_buf_check(text, err);
    if (status == BN_OK) status = bn_thresholds_parse(&x->thresholds, text->data, text->len, NULL, err);
    if (status == BN_OK) bn_sha256_hex(text->data, text->len, x->thresholds_sha);
    if (status != BN_OK && path != NULL) bn_error_name(err, path);
    return status;
}

/* The carried model as a file, which is all that other programs can open. */
static bn_status write_carried(struct bn_crossval *x, bn_error *err)
{
    const char *folder = getenv("TMPDIR");
    char path[sizeof x->carried - BN_TEMP_SUFFIX_BYTES];
    snprintf(path, sizeof path, "%s/bn-crossval", folder != NULL && folder[0] != '\0' ? folder : "/tmp");
    BN_TRY(bn_file_temp_name(x->carried, sizeof x->carried, path, err));
    x->model_path = x->carried;
    return bn_file_write_atomic(x->carried, bn_default_model_data, (size_t)bn_default_model_bytes, err);
}

static bn_status open_model(struct bn_crossval *x, bn_error *err)
{
    bn_model_options with = {.repack = BN_REPACK_NEVER};
    BN_TRY(bn_cli_open_model(&x->model, x->args, &with, err));
    x->n_vocab = bn_model_hparams(x->model)->n_vocab;
    bn_thresholds_deepen(&x->thresholds, bn_model_hparams(x->model)->n_layer);
    BN_TRY(bn_cli_model_path(&x->located, x->args->model, err));
    x->model_path = x->located;
    if (x->model_path == NULL) BN_TRY(write_carried(x, err));
    /* The bytes that are computed with; references open the file themselves. */
    bn_sha256_hex(x->model->bytes, x->model->n_bytes, x->model_sha);
    return BN_OK;
}

/* ---- the prompt ---- */

/* Also room for the tokens that are decoded. */
static bn_status take_ids(struct bn_crossval *x, const int32_t *ids, size_t n, bn_error *err)
{
    uint32_t most = x->options->positions;
    x->n_prompt = most != 0 && n > most ? most : n;
    if (x->n_prompt == 0) return bn_fail(err, BN_ERR_ARG, "the prompt has no tokens");
    BN_TRY(BN_NEW(x->ids, x->n_prompt + x->n_decode, err));
    memcpy(x->ids, ids, x->n_prompt * sizeof *ids);
    x->n_ids = x->n_prompt;
    bn_receipt_ids_digest(ids, x->n_prompt, x->prompt_sha);
    return BN_OK;
}

static bn_status open_session(struct bn_crossval *x, bn_error *err)
{
    bn_session_options options = {.n_threads = x->options->n_threads};
    uint32_t most = bn_model_hparams(x->model)->n_ctx;
    if (x->n_prompt > most)
        return bn_hint(
            bn_fail(err, BN_ERR_LIMIT, "%zu tokens do not fit into the context of %u", x->n_prompt, most),
            err, "--positions N takes the first N");
    if (x->n_prompt + x->n_decode > most) x->n_decode = most - (uint32_t)x->n_prompt;
    options.n_ctx = (uint32_t)x->n_prompt + x->n_decode;
    BN_TRY(bn_session_open(&x->session, x->model, &options, err));
    x->n_threads = bn_session_n_threads(x->session);
    bn_cli_warn_threads(x->session, options.n_threads);
    return BN_OK;
}

bn_status bn_crossval_set_prompt(struct bn_crossval *x, const int32_t *ids, size_t n, bn_error *err)
{
    const bn_tokenizer *tok = NULL;
    int32_t *own = NULL;
    bn_status status = BN_OK;
    x->n_decode = x->options->n_decode;
    if (ids == NULL) status = bn_cli_tokenizer(x->model, &tok, err);
    if (ids == NULL && status == BN_OK)
        status = bn_tokenize(tok, bn_buf_text(&x->text), x->text.len, BN_TOKENIZE_BOS, &own, &n, err);
    if (status == BN_OK) status = take_ids(x, ids != NULL ? ids : own, n, err);
    bn_free(own);
    return status == BN_OK ? open_session(x, err) : status;
}

bn_status bn_crossval_open_model(struct bn_crossval *x, const struct bn_args *args, bn_error *err)
{
    const struct bn_crossval_options *o = args->fields;
    *x = (struct bn_crossval){
        .args = args, .options = o, .n_threads = o->n_threads != 0 ? o->n_threads : bn_team_cores()};
    x->text.max = MAX_TEXT_BYTES;
    BN_TRY(read_thresholds(x, err));
    return open_model(x, err);
}

bn_status bn_crossval_open(struct bn_crossval *x, const struct bn_args *args, bn_error *err)
{
    BN_TRY(bn_crossval_open_model(x, args, err));
    const struct bn_id_list *given = &x->options->tokens;
    if (given->n > 0 && (args->prompt != NULL || args->file != NULL || args->n_operands > 0))
        return bn_fail(err, BN_ERR_ARG, "--tokens cannot be combined with a text");
    if (given->n == 0) BN_TRY(bn_cli_text(args, given, &x->text, err));
    return bn_crossval_set_prompt(x, given->n > 0 ? given->list : NULL, given->n, err);
}

void bn_crossval_reset(struct bn_crossval *x)
{
    for (size_t i = 0; i < x->n_refs; i++)
        bn_xref_reset(&x->refs[i]);
    x->n_refs = 0;
    bn_records_release(&x->trace);
    bn_buf_release(&x->text);
    x->text.max = MAX_TEXT_BYTES;
    bn_free(x->ids);
    bn_free(x->logits);
    bn_session_close(x->session);
    x->ids = NULL;
    x->logits = NULL;
    x->session = NULL;
    x->n_traced = 0;
    x->mask_checked = false;
}

void bn_crossval_close(struct bn_crossval *x)
{
    bn_crossval_reset(x);
    for (size_t i = 0; i < BN_XREFS_MAX; i++)
        bn_xref_end(&x->refs[i]);
    bn_buf_release(&x->limits);
    bn_free(x->located);
    bn_model_close(x->model);
    if (x->carried[0] != '\0') unlink(x->carried);
}

/* ---- evaluating ---- */

bn_status bn_crossval_evaluate(struct bn_crossval *x, bn_error *err)
{
    size_t n_rows = x->n_prompt + x->n_decode;
    x->logits = bn_alloc(n_rows, x->n_vocab * sizeof *x->logits);
    if (x->logits == NULL)
        return bn_hint(bn_fail(err, BN_ERR_NOMEM, "no memory for %zu rows of logits", n_rows), err,
                       "--positions N takes the first N tokens of the prompt");
    BN_TRY(bn_session_eval(x->session, x->ids, x->n_prompt, BN_LOGITS_ALL, x->logits, err));
    bn_sampler_options sampling = BN_SAMPLER_OPTIONS_INIT;
    bn_sampler *sampler = NULL;
    sampling.temperature = x->sampled ? 1.0f : 0.0f;
    sampling.seed = x->seed;
    BN_TRY(bn_sampler_open(&sampler, &sampling, x->n_vocab, err));
    bn_status status = BN_OK;
    for (uint32_t step = 0; step < x->n_decode && status == BN_OK; step++) {
        const float *row = x->logits + (x->n_ids - 1) * x->n_vocab;
        x->ids[x->n_ids] = bn_sampler_next(sampler, row, x->ids, x->n_ids);
        float *next = x->logits + x->n_ids * x->n_vocab;
        status = bn_session_eval(x->session, x->ids + x->n_ids, 1, BN_LOGITS_LAST, next, err);
        x->n_ids++;
    }
    bn_sampler_close(sampler);
    return status;
}

bn_status bn_crossval_trace_own(struct bn_crossval *x, size_t n, bn_error *err)
{
    if (x->n_traced == n) return BN_OK;
    bn_records_release(&x->trace);
    x->n_traced = 0;
    bn_status status = bn_records_evaluate(&x->trace, x->session, x->n_vocab, x->ids, n, err);
    if (status == BN_OK) x->n_traced = n;
    return status;
}
