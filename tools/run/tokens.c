/* SPDX-License-Identifier: MIT
 *
 * bn-run tokenize and detokenize.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "tools/cli/default_model.h"
#include "tools/cli/print_json.h"
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

static void print_ids(const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%s%d", i > 0 ? "," : "", (int)ids[i]);
    putchar('\n');
}

static void print_table(const bn_tokenizer *tok, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *bytes = NULL;
        size_t n_bytes = bn_token_bytes(tok, ids[i], &bytes);
        char shown[256];
        printf("%7d  '%s'%s\n", (int)ids[i], bn_escape(shown, sizeof shown, bytes, n_bytes),
               bn_token_is_control(tok, ids[i]) ? "  control" : "");
    }
}

static bn_status print_document(const bn_tokenizer *tok, const int32_t *ids, size_t n, bn_error *err)
{
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", "bn.tokens/1");
    bn_json_put_u64(doc, "n", n);
    bn_json *list = bn_json_put_array(doc, "tokens");
    for (size_t i = 0; i < n; i++) {
        const char *bytes = NULL;
        char shown[256];
        size_t n_bytes = bn_token_bytes(tok, ids[i], &bytes);
        bn_json *token = bn_json_add_object(list);
        bn_json_put_u64(token, "id", (uint64_t)ids[i]);
        bn_json_put_string(token, "text", bn_escape(shown, sizeof shown, bytes, n_bytes));
        bn_json_put_bool(token, "control", bn_token_is_control(tok, ids[i]));
    }
    bn_status status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}

/* One JSON string a line in, one JSON array of ids a line out; an empty line ends nothing and gives []. */
static bn_status tokenize_line(const bn_tokenizer *tok, const char *line, size_t n, size_t number,
                               unsigned flags, bn_error *err)
{
    if (n == 0) {
        puts("[]");
        return BN_OK;
    }
    char where[32];
    snprintf(where, sizeof where, "line %zu", number);
    bn_json *value = NULL;
    const char *text = NULL;
    int32_t *ids = NULL;
    size_t n_ids = 0;
    bn_status status = bn_json_parse(&value, line, n, err);
    if (status == BN_OK && !bn_json_string(value, &text))
        status = bn_fail(err, BN_ERR_FORMAT, "not a JSON string");
    if (status == BN_OK) status = bn_tokenize(tok, text, strlen(text), flags, &ids, &n_ids, err);
    if (status == BN_OK) {
        putchar('[');
        for (size_t i = 0; i < n_ids; i++)
            printf("%s%d", i > 0 ? "," : "", (int)ids[i]);
        puts("]");
    } else {
        bn_error_name(err, where);
    }
    bn_free(ids);
    bn_json_free(value);
    return status;
}

static bn_status tokenize_lines(const bn_tokenizer *tok, unsigned flags, bn_error *err)
{
    struct bn_buf input = {.max = BN_RUN_MAX_TEXT_BYTES};
    bn_status status = bn_file_read("-", &input, err);
    size_t number = 1;
    for (size_t at = 0; status == BN_OK && at < input.len; number++) {
        const char *line = input.data + at, *end = memchr(line, '\n', input.len - at);
        size_t n = end != NULL ? (size_t)(end - line) : input.len - at;
        status = tokenize_line(tok, line, n, number, flags, err);
        at += n + 1;
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
        if (status == BN_OK && args->json)
            status = print_document(tok, ids, n_ids, err);
        else if (status == BN_OK && o->ids)
            print_ids(ids, n_ids);
        else if (status == BN_OK)
            print_table(tok, ids, n_ids);
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
