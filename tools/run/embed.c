/* SPDX-License-Identifier: MIT
 *
 * bn-run embed: texts in, vectors out: as JSON Lines, as raw floats, or as a table of similarities.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "tools/cli/number.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/run/run.h"

/* All texts of a call. */
struct batch {
    const struct bn_run_options *o;
    struct bn_run_engine engine;
    const bn_tokenizer *tok;
    bn_pooling pooling; /* the file's unless the command line names one */
    size_t n_embd, n_texts;
    bool keep;             /* vectors and texts are needed at the end */
    struct bn_buf line;    /* of output */
    struct bn_buf prompt;  /* the text after the instruction */
    struct bn_buf vectors; /* floats */
    struct bn_buf texts;   /* each with its NUL */
};

/* ---- output ---- */

static bn_status print_line(struct batch *b, const char *text, size_t n_ids, const float *rows, bn_error *err)
{
    struct bn_buf *out = &b->line;
    bool each = b->pooling == BN_POOLING_NONE;
    out->len = 0;
    bn_buf_printf(out, "{\"index\":%zu,\"text\":", b->n_texts);
    bn_json_write_string(out, text);
    bn_buf_printf(out, ",\"tokens\":%zu,\"embedding\":", n_ids);
    if (each) bn_buf_putc(out, '[');
    for (size_t j = 0; j < (each ? n_ids : 1); j++) {
        if (j > 0) bn_buf_putc(out, ',');
        bn_number_put_f32s(out, rows + j * b->n_embd, b->n_embd);
    }
    bn_buf_puts(out, each ? "]}\n" : "}\n");
    BN_TRY(bn_buf_check(out, err));
    fwrite(out->data, 1, out->len, stdout);
    return BN_OK;
}

static double cosine(const float *x, const float *y, size_t n)
{
    double xy = 0.0, xx = 0.0, yy = 0.0;
    for (size_t i = 0; i < n; i++) {
        xy += (double)x[i] * (double)y[i];
        xx += (double)x[i] * (double)x[i];
        yy += (double)y[i] * (double)y[i];
    }
    return xx > 0.0 && yy > 0.0 ? xy / sqrt(xx * yy) : 0.0;
}

/* A row and a column for each text. */
static void print_similarity(const struct batch *b)
{
    const float *vectors = (const float *)(const void *)b->vectors.data;
    const char *text = b->texts.data;
    for (size_t j = 0; j < b->n_texts; j++, text += strlen(text) + 1) {
        printf("%3zu ", j + 1);
        for (size_t i = 0; i < b->n_texts; i++)
            printf(" %6.3f", cosine(vectors + j * b->n_embd, vectors + i * b->n_embd, b->n_embd));
        fputs("  ", stdout);
        bn_print_model_text(stdout, text, strlen(text));
        putchar('\n');
    }
}

/* ---- texts ---- */

static bn_status embed_ids(struct batch *b, const char *text, size_t n_bytes, const int32_t *ids,
                           size_t n_ids, bn_error *err)
{
    const bn_embed_options options = {.pooling = b->pooling, .as_is = b->o->no_normalize};
    size_t n_rows = b->pooling == BN_POOLING_NONE ? n_ids : 1;
    float *rows = bn_alloc(n_rows, b->n_embd * sizeof *rows);
    if (rows == NULL) return bn_nomem(err);
    bn_status status = bn_session_embed(b->engine.session, ids, n_ids, &options, rows, err);
    if (status == BN_OK && b->keep) {
        bn_buf_append(&b->vectors, rows, n_rows * b->n_embd * sizeof *rows);
        bn_buf_append(&b->texts, text, n_bytes + 1);
        status = bn_buf_check(b->texts.failed ? &b->texts : &b->vectors, err);
    } else if (status == BN_OK) {
        status = print_line(b, text, n_ids, rows, err);
    }
    bn_free(rows);
    return status;
}

/* One text; it is NUL-terminated besides. */
static bn_status embed_text(struct batch *b, const char *text, size_t n, bn_error *err)
{
    int32_t *ids = NULL;
    size_t n_ids = 0;
    char where[32];
    b->prompt.len = 0;
    if (b->o->instruct != NULL) bn_buf_printf(&b->prompt, "Instruct: %s\nQuery:", b->o->instruct);
    bn_buf_append(&b->prompt, text, n);
    bn_status status = bn_buf_check(&b->prompt, err);
    if (status == BN_OK)
        status =
            bn_tokenize(b->tok, bn_buf_text(&b->prompt), b->prompt.len, BN_TOKENIZE_BOS, &ids, &n_ids, err);
    if (status == BN_OK) status = embed_ids(b, text, n, ids, n_ids, err);
    bn_free(ids);
    snprintf(where, sizeof where, "text %zu", ++b->n_texts);
    if (status != BN_OK) bn_error_name(err, where);
    return status;
}

static bn_status embed_json(struct batch *b, const char *line, size_t n, bn_error *err)
{
    bn_json *value = NULL;
    const char *text = NULL;
    bn_status status = bn_run_line_text(&value, &text, line, n, err);
    if (status != BN_OK)
        (void)bn_run_at_line(b->n_texts + 1, status, err);
    else
        status = embed_text(b, text, strlen(text), err);
    bn_json_free(value);
    return status;
}

/* A plain line loses a carriage return at its end. */
static bn_status embed_lines(struct batch *b, const char *path, bn_error *err)
{
    struct bn_buf input = {.max = BN_RUN_MAX_TEXT_BYTES};
    bn_status status = bn_file_read(path, &input, err);
    char *line;
    size_t n;
    for (size_t at = 0; status == BN_OK && bn_run_next_line(&input, &at, &line, &n);) {
        if (!b->o->jsonl && n > 0 && line[n - 1] == '\r') line[--n] = '\0';
        status = b->o->jsonl ? embed_json(b, line, n, err) : embed_text(b, line, n, err);
    }
    if (status == BN_OK && b->n_texts == 0) status = bn_fail_in(err, BN_ERR_ARG, path, "holds no text");
    bn_buf_release(&input);
    return status;
}

static bn_status embed_all(struct batch *b, const struct bn_args *args, bn_error *err)
{
    bn_status status = BN_OK;
    if (args->prompt != NULL)
        status = embed_text(b, args->prompt, strlen(args->prompt), err);
    else if (args->n_operands == 0)
        status = embed_lines(b, args->file != NULL ? args->file : "-", err);
    for (size_t i = 0; status == BN_OK && i < args->n_operands; i++)
        status = embed_text(b, args->operands[i], strlen(args->operands[i]), err);
    if (status == BN_OK && b->o->raw != NULL)
        status = bn_file_write_atomic(b->o->raw, b->vectors.data, b->vectors.len, err);
    if (status == BN_OK && b->o->similarity) print_similarity(b);
    return status;
}

static bn_status check(struct bn_args *args, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    if (args->n_operands > 0 && (args->file != NULL || args->prompt != NULL))
        return bn_fail(err, BN_ERR_ARG, "%s and the arguments both give texts",
                       args->file != NULL ? "--file" : "--prompt");
    if ((args->n_operands > 0 || args->prompt != NULL) && o->jsonl)
        return bn_fail(err, BN_ERR_ARG, "--jsonl needs --file or standard input, not arguments");
    return args->n_operands > 0 ? BN_OK : bn_cli_text_check(args, NULL, err);
}

bn_status bn_run_embed(struct bn_args *args, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    const size_t most = BN_RUN_MAX_TEXT_BYTES;
    struct batch b = {.o = o, .keep = o->raw != NULL || o->similarity};
    b.line.max = b.prompt.max = b.vectors.max = b.texts.max = most;
    BN_TRY(check(args, err));
    BN_TRY(bn_run_open(&b.engine, args, err));
    bn_status status = bn_cli_tokenizer(b.engine.model, &b.tok, err);
    const bn_hparams *hp = bn_model_hparams(b.engine.model);
    b.n_embd = hp->n_embd;
    b.pooling = o->pooling != BN_POOLING_FILE ? (bn_pooling)o->pooling : hp->pooling;
    if (status == BN_OK && o->similarity && b.pooling == BN_POOLING_NONE)
        status =
            bn_hint(bn_fail(err, BN_ERR_ARG, "--similarity compares texts, and pooling none gives tokens"),
                    err, "choose one, for example --pooling mean");
    if (status == BN_OK) status = embed_all(&b, args, err);
    bn_buf_release(&b.line);
    bn_buf_release(&b.prompt);
    bn_buf_release(&b.vectors);
    bn_buf_release(&b.texts);
    bn_run_close(&b.engine);
    return status;
}
