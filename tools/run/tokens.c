/* SPDX-License-Identifier: MIT
 *
 * bn-run tokenize and detokenize.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "lab/kit/put_counts.h"
#include "tools/cli/default_model.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/run/run.h"

static bn_status open_vocabulary(bn_model **model, const bn_tokenizer **tok, const struct bn_args *args,
                                 bn_error *err)
{
    static const bn_model_options options = {.no_weights = true};
    BN_TRY(bn_cli_open_model(model, args, &options, err));
    bn_status status = bn_cli_tokenizer(*model, tok, err);
    if (status == BN_OK)
        bn_run_note_model(args, *model);
    else
        bn_model_close(*model);
    return status;
}

static void print_ids(const char *before, const int32_t *ids, size_t n, const char *after)
{
    fputs(before, stdout);
    for (size_t i = 0; i < n; i++)
        printf("%s%d", i > 0 ? "," : "", (int)ids[i]);
    fputs(after, stdout);
}

/* As a table, or as a document. */
static bn_status print_tokens(const bn_tokenizer *tok, const int32_t *ids, size_t n, bool json, bn_error *err)
{
    bn_json *doc = bn_json_new_object();
    BN_PUT(doc, BN_STRING("schema", BN_RUN_SCHEMA), BN_U64("n", n));
    bn_json *list = bn_json_put_array(doc, "tokens");
    for (size_t i = 0; i < n; i++) {
        const char *bytes = NULL;
        size_t n_bytes = bn_token_bytes(tok, ids[i], &bytes);
        bool control = bn_token_is_control(tok, ids[i]);
        char shown[256];
        bn_escape(shown, sizeof shown, bytes, n_bytes);
        if (!json) {
            printf("%7d  '%s'%s\n", (int)ids[i], shown, control ? "  control" : "");
            continue;
        }
        bn_json *token = bn_json_add_object(list);
        BN_PUT(token, BN_U64("id", (uint64_t)ids[i]), BN_STRING("text", shown), BN_FLAG("control", control));
    }
    bn_status status = json ? bn_cli_print_json(doc, err) : BN_OK;
    bn_json_free(doc);
    return status;
}

/* One JSON string a line in, one JSON array of ids a line out; an empty line ends nothing and gives []. */
static bn_status tokenize_line(const bn_tokenizer *tok, const char *line, size_t n, unsigned flags,
                               bn_error *err)
{
    bn_json *value = NULL;
    const char *text = "";
    int32_t *ids = NULL;
    size_t n_ids = 0;
    bn_status status = n > 0 ? bn_run_line_text(&value, &text, line, n, err) : BN_OK;
    if (status == BN_OK && n > 0) status = bn_tokenize(tok, text, strlen(text), flags, &ids, &n_ids, err);
    if (status == BN_OK) print_ids("[", ids, n_ids, "]\n");
    bn_free(ids);
    bn_json_free(value);
    return status;
}

static bn_status tokenize_lines(const bn_tokenizer *tok, unsigned flags, bn_error *err)
{
    struct bn_buf input = {.max = BN_RUN_MAX_TEXT_BYTES};
    bn_status status = bn_file_read("-", &input, err);
    size_t n;
    char *line;
    for (size_t at = 0, number = 1; status == BN_OK && bn_run_next_line(&input, &at, &line, &n); number++) {
        status = tokenize_line(tok, line, n, flags, err);
        if (status != BN_OK) (void)bn_run_at_line(number, status, err);
    }
    bn_buf_release(&input);
    return status;
}

bn_status bn_run_tokenize(struct bn_args *args, bn_error *err)
{
    bn_model *model = NULL;
    const bn_tokenizer *tok = NULL;
    const struct bn_run_options *o = args->fields;
    unsigned flags =
        (o->no_bos ? 0u : (unsigned)BN_TOKENIZE_BOS) | (o->special ? (unsigned)BN_TOKENIZE_SPECIAL : 0u);
    if (o->jsonl && (args->n_operands > 0 || args->prompt != NULL || args->file != NULL))
        return bn_hint(bn_fail(err, BN_ERR_ARG, "--jsonl reads standard input, not a text or a file"), err,
                       "bn-run tokenize --jsonl <FILE");
    if (!o->jsonl) BN_TRY(bn_cli_text_check(args, NULL, err));
    BN_TRY(open_vocabulary(&model, &tok, args, err));
    struct bn_buf text = {.max = BN_RUN_MAX_TEXT_BYTES};
    int32_t *ids = NULL;
    size_t n_ids = 0;
    bn_status status = BN_OK;
    if (o->jsonl) {
        status = tokenize_lines(tok, flags, err);
    } else {
        status = bn_cli_text(args, NULL, &text, err);
        if (status == BN_OK) status = bn_tokenize(tok, text.data, text.len, flags, &ids, &n_ids, err);
        if (status == BN_OK && o->ids && !args->json)
            print_ids("", ids, n_ids, "\n");
        else if (status == BN_OK)
            status = print_tokens(tok, ids, n_ids, args->json, err);
    }
    bn_free(ids);
    bn_buf_release(&text);
    bn_model_close(model);
    return status;
}

bn_status bn_run_detokenize(struct bn_args *args, bn_error *err)
{
    bn_model *model = NULL;
    const bn_tokenizer *tok = NULL;
    const struct bn_run_options *o = args->fields;
    size_t n_bytes = 0;
    char *text = NULL;
    if (o->tokens.n == 0)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "no tokens are given"), err, "--tokens 1,2,3");
    BN_TRY(open_vocabulary(&model, &tok, args, err));
    bn_status status = bn_detokenize(tok, o->tokens.list, o->tokens.n, o->special, &text, &n_bytes, err);
    if (status == BN_OK) bn_print_model_text(stdout, text, n_bytes);
    bn_free(text);
    bn_model_close(model);
    return status;
}
