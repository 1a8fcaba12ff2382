/* SPDX-License-Identifier: MIT
 *
 * bn-crossval serve: this engine as a reference (docs/explain/crossval.md), for bit-exact
 * comparison of two builds, instruction sets, or numbers of threads. One function for each operation; a
 * request that fails is answered, an input that is not a request ends the program.
 */
#include <stdio.h>

#include "base/clock.h"
#include "lab/kit/put_counts.h"
#include "tools/cli/default_model.h"
#include "tools/crossval/crossval.h"

#define MAX_LINE (16u << 20)

struct server {
    const struct bn_args *args;
    bn_model *model;
    bn_session *session;
    size_t n_vocab;
    /* The answer in the making: members, then numbers. */
    bn_json *answer;
    float *floats;
    size_t n_floats;
    struct bn_records records;
};

/* ---- requests ---- */

static bn_status needs_model(const struct server *s, bn_error *err)
{
    return s->session != NULL ? BN_OK : bn_fail(err, BN_ERR_ARG, "no model is open");
}

/* The tokens of the request; the model is open. */
static bn_status read_tokens(const struct server *s, const bn_json *request, int32_t **ids, size_t *n,
                             bn_error *err)
{
    BN_TRY(needs_model(s, err));
    bn_error why = {0};
    bn_status status = bn_json_ids(bn_json_get(request, "tokens"), ids, n, &why);
    if (status == BN_ERR_NOMEM) return bn_nomem(err);
    for (size_t i = 0; i < *n; i++)
        if ((size_t)(*ids)[i] >= s->n_vocab) *n = 0;
    return *n > 0 ? BN_OK : bn_fail(err, BN_ERR_ARG, "there are no tokens, or one is not in the vocabulary");
}

static bn_status hello(struct server *s, const bn_json *request, bn_error *err)
{
    (void)request;
    (void)err;
    BN_PUT(s->answer, BN_STRING("protocol", BN_REFERENCE_PROTOCOL), BN_STRING("name", "bn"),
           BN_STRING("version", bn_version()));
    static const char *const CAN[] = {"tokenize", "logits", "trace", "bench"};
    bn_json_put_texts(s->answer, "capabilities", CAN, BN_ARRAY_LEN(CAN));
    bn_json_put_string(bn_json_put_object(s->answer, "details"), "isa", bn_isa_name());
    return BN_OK;
}

static bn_status open_model(struct server *s, const bn_json *request, bn_error *err)
{
    const char *path = NULL;
    uint64_t n_threads = 0;
    const struct bn_crossval_options *o = s->args->fields;
    bn_model_options with = {.repack = BN_REPACK_AUTO}; /* as bn run */
    if (!bn_json_string(bn_json_get(request, "model"), &path))
        return bn_fail(err, BN_ERR_ARG, "the model is not a path");
    (void)bn_json_u64(bn_json_get(request, "threads"), &n_threads);
    bn_session_options options = {.n_threads = o->n_threads != 0 ? o->n_threads
                                                                 : (uint32_t)bn_min_size(n_threads, 1024),
                                  .n_batch = o->n_batch};
    bn_session_close(s->session);
    bn_model_close(s->model);
    s->session = NULL;
    s->model = NULL;
    BN_TRY(bn_cli_device(&with.device, s->args, err));
    BN_TRY(bn_model_open(&s->model, path, &with, err));
    BN_TRY(bn_session_open(&s->session, s->model, &options, err));
    const bn_hparams *hp = bn_model_hparams(s->model);
    s->n_vocab = hp->n_vocab;
    BN_PUT(s->answer, BN_U64("n_vocab", hp->n_vocab), BN_U64("n_ctx", bn_session_n_ctx(s->session)),
           BN_STRING("arch", hp->arch));
    return BN_OK;
}

static bn_status tokenize(struct server *s, const bn_json *request, bn_error *err)
{
    const char *text = NULL;
    bool bos = false, special = false;
    int32_t *ids = NULL;
    size_t n = 0;
    BN_TRY(needs_model(s, err));
    if (bn_model_tokenizer(s->model) == NULL)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "the model's file has no vocabulary");
    if (!bn_json_string(bn_json_get(request, "text"), &text))
        return bn_fail(err, BN_ERR_ARG, "there is no text");
    (void)bn_json_bool(bn_json_get(request, "bos"), &bos);
    (void)bn_json_bool(bn_json_get(request, "special"), &special);
    unsigned flags = (bos ? BN_TOKENIZE_BOS : 0u) | (special ? BN_TOKENIZE_SPECIAL : 0u);
    BN_TRY(bn_tokenize(bn_model_tokenizer(s->model), text, strlen(text), flags, &ids, &n, err));
    bn_json_put_ids(s->answer, "tokens", ids, n);
    bn_free(ids);
    return BN_OK;
}

static bn_status evaluate(struct server *s, const int32_t *ids, size_t n, bool last, bn_error *err)
{
    size_t rows = last ? 1 : n;
    s->floats = bn_alloc(rows, s->n_vocab * sizeof *s->floats);
    if (s->floats == NULL) return bn_fail(err, BN_ERR_NOMEM, "no memory for %zu rows of logits", rows);
    s->n_floats = rows * s->n_vocab;
    BN_TRY(bn_session_truncate(s->session, 0, err));
    return bn_session_eval(s->session, ids, n, last ? BN_LOGITS_LAST : BN_LOGITS_ALL, s->floats, err);
}

static bn_status logits(struct server *s, const bn_json *request, bn_error *err)
{
    int32_t *ids = NULL;
    size_t n = 0;
    bool last = false;
    (void)bn_json_bool(bn_json_get(request, "last"), &last);
    bn_status status = read_tokens(s, request, &ids, &n, err);
    if (status == BN_OK) status = evaluate(s, ids, n, last, err);
    bn_free(ids);
    BN_PUT(s->answer, BN_U64("rows", last ? 1 : n), BN_U64("cols", s->n_vocab));
    return status;
}

/* Lists the records that were asked for; the others are emptied. */
static void list_records(struct server *s, const bn_json *names)
{
    bn_json *list = bn_json_put_array(s->answer, "records");
    s->n_floats = 0;
    for (size_t i = 0; i < s->records.n; i++) {
        struct bn_record *r = &s->records.list[i];
        if (bn_json_kind(names) == BN_JSON_ARRAY && !bn_json_has_text(names, bn_op_name(r->op))) r->rows = 0;
        if (r->rows == 0) continue;
        bn_json *record = bn_json_add_object(list);
        BN_PUT(record, BN_STRING("op", bn_op_name(r->op)), BN_NUMBER("layer", r->layer),
               BN_U64("rows", r->rows), BN_U64("cols", r->cols));
        s->n_floats += r->rows * r->cols;
    }
}

static bn_status trace(struct server *s, const bn_json *request, bn_error *err)
{
    int32_t *ids = NULL;
    size_t n = 0;
    bn_status status = read_tokens(s, request, &ids, &n, err);
    if (status == BN_OK) status = bn_records_evaluate(&s->records, s->session, s->n_vocab, ids, n, err);
    bn_free(ids);
    if (status == BN_OK) list_records(s, bn_json_get(request, "names"));
    return status;
}

static bn_status bench(struct server *s, const bn_json *request, bn_error *err)
{
    uint64_t prompt = 0, decode = 0;
    BN_TRY(needs_model(s, err));
    if (!bn_json_u64(bn_json_get(request, "prompt"), &prompt) ||
        !bn_json_u64(bn_json_get(request, "decode"), &decode) || prompt == 0 ||
        prompt + decode > bn_session_n_ctx(s->session))
        return bn_fail(err, BN_ERR_ARG, "prompt and decode do not fit into the context");
    int32_t *ids = bn_alloc(prompt, sizeof *ids);
    s->floats = bn_alloc(s->n_vocab, sizeof *s->floats);
    bn_status status = ids != NULL && s->floats != NULL ? BN_OK : bn_nomem(err);
    for (uint64_t i = 0; i < prompt && status == BN_OK; i++)
        ids[i] = (int32_t)(i * 37 % s->n_vocab);
    if (status == BN_OK) status = bn_session_truncate(s->session, 0, err);
    uint64_t t0 = bn_clock_ns();
    if (status == BN_OK) status = bn_session_eval(s->session, ids, prompt, BN_LOGITS_LAST, s->floats, err);
    uint64_t t1 = bn_clock_ns();
    for (uint64_t i = 0; i < decode && status == BN_OK; i++)
        status = bn_session_eval(s->session, ids, 1, BN_LOGITS_LAST, s->floats, err);
    BN_PUT(s->answer, BN_U64("prompt_ns", t1 - t0), BN_U64("decode_ns", bn_clock_ns() - t1));
    bn_free(ids);
    return status;
}

/* ---- answering ---- */

static const char *kind_of(bn_status status)
{
    if (status == BN_ERR_ARG || status == BN_ERR_LIMIT) return "argument";
    if (status == BN_ERR_NOT_FOUND) return "not_found";
    if (status == BN_ERR_FORMAT) return "format";
    return status == BN_ERR_UNSUPPORTED ? "unsupported" : "internal";
}

static bn_status dispatch(struct server *s, const bn_json *request, const char *op, bn_error *err)
{
    static const struct {
        const char *op;
        bn_status (*run)(struct server *s, const bn_json *request, bn_error *err);
    } OPS[] = {{"hello", hello},   {"open", open_model}, {"tokenize", tokenize},
               {"logits", logits}, {"trace", trace},     {"bench", bench}};
    if (strcmp(op, "close") == 0) return BN_OK;
    size_t i = BN_FIND(OPS, op);
    if (i < BN_ARRAY_LEN(OPS)) return OPS[i].run(s, request, err);
    return bn_fail(err, BN_ERR_UNSUPPORTED, "this operation is not known");
}

static bn_status write_answer(struct server *s, bool ok, bn_error *err)
{
    struct bn_buf line = {.max = MAX_LINE};
    bool numbers = ok && s->n_floats > 0;
    if (numbers) bn_json_put_u64(s->answer, "floats", s->n_floats);
    bn_status status = bn_json_write_line(s->answer, true, &line, err);
    if (status == BN_OK) {
        fwrite(line.data, 1, line.len, stdout);
        for (size_t i = 0; numbers && i < s->records.n; i++) {
            const struct bn_record *r = &s->records.list[i];
            fwrite(r->data, sizeof *r->data, r->rows * r->cols, stdout);
        }
        if (numbers && s->records.n == 0) fwrite(s->floats, sizeof *s->floats, s->n_floats, stdout);
        if (fflush(stdout) != 0) status = bn_fail(err, BN_ERR_IO, "the answer could not be written");
    }
    bn_buf_release(&line);
    return status;
}

/* One request; *closed when it was the last. */
static bn_status answer(struct server *s, const char *text, size_t n, bool *closed, bn_error *err)
{
    bn_json *request = NULL;
    bn_error why = {0};
    const char *op = NULL;
    uint64_t id = 0;
    BN_TRY(bn_json_parse(&request, text, n, err));
    bn_status status = BN_OK;
    if (!bn_json_u64(bn_json_get(request, "id"), &id) || !bn_json_string(bn_json_get(request, "op"), &op))
        status = bn_fail(err, BN_ERR_FORMAT, "a request without id or op");
    if (status == BN_OK) {
        s->answer = bn_json_new_object();
        s->n_floats = 0;
        bn_status done = dispatch(s, request, op, &why);
        if (done != BN_OK) {
            bn_json_free(s->answer);
            s->answer = bn_json_new_object();
            char error[sizeof why.where + sizeof why.msg + 2];
            snprintf(error, sizeof error, "%s%s%s", why.where, why.where[0] != '\0' ? ": " : "", why.msg);
            BN_PUT(s->answer, BN_STRING("error", error), BN_STRING("kind", kind_of(done)));
        }
        BN_PUT(s->answer, BN_U64("id", id), BN_FLAG("ok", done == BN_OK));
        status = write_answer(s, done == BN_OK, err);
        *closed = strcmp(op, "close") == 0;
    }
    bn_json_free(s->answer);
    s->answer = NULL;
    bn_free(s->floats);
    s->floats = NULL;
    bn_records_release(&s->records);
    bn_json_free(request);
    return status;
}

bn_status bn_crossval_serve(struct bn_args *args, bn_error *err)
{
    struct server s = {.args = args};
    struct bn_buf line = {.max = MAX_LINE};
    bn_status status = BN_OK;
    bool closed = false;
    BN_TRY(bn_isa_select(args->isa, err));
    for (int c = 0; status == BN_OK && !closed && c != EOF;) {
        while ((c = getc(stdin)) != EOF && c != '\n')
            bn_buf_putc(&line, (char)c);
        status = bn_buf_check(&line, err);
        if (status == BN_OK && c == '\n') status = answer(&s, line.data, line.len, &closed, err);
        line.len = 0;
    }
    bn_buf_release(&line);
    bn_session_close(s.session);
    bn_model_close(s.model);
    return status;
}
