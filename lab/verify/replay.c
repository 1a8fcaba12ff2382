/* SPDX-License-Identifier: MIT
 *
 * Repeats the generation of a receipt. The request is read strictly: a field that is missing or malformed is
 * an error, never a default.
 */
#include "lab/verify/rules.h"

#include <stdio.h>

#include "base/error.h"
#include "grammar/grammar.h"
#include "lab/receipt/receipt.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

#define LONGEST_DRAFT 64u /* claimed tokens of one generation in one pass */

struct bn_replay {
    const bn_json *predicate;
    struct bn_generation gen;
    int32_t *prompt, *stop_ids, *want;
    const char **stops;
    bn_candidate *bias;
    bn_grammar *grammar;
    size_t n_want;
    const char *reason, *chain; /* claimed */
    bn_error *err;              /* of the call that runs */
};

static bn_status missing(const struct bn_replay *r, const char *path)
{
    return bn_fail_in(r->err, BN_ERR_FORMAT, path, "needed for a replay, and missing or malformed");
}

static bn_status read_text(const struct bn_replay *r, const char *path, const char **out)
{
    return bn_json_string(bn_json_path(r->predicate, path), out) ? BN_OK : missing(r, path);
}

static bn_status read_ids(const struct bn_replay *r, const char *path, int32_t **ids, size_t *n)
{
    bn_status status = bn_json_ids(bn_json_path(r->predicate, path), ids, n, NULL);
    if (status == BN_ERR_NOMEM) return bn_nomem(r->err);
    return status == BN_OK ? BN_OK : missing(r, path);
}

static bn_status read_stops(struct bn_replay *r)
{
    const bn_json *list = bn_json_path(r->predicate, "request.stops");
    if (bn_json_kind(list) != BN_JSON_ARRAY) return missing(r, "request.stops");
    r->gen.n_stops = bn_json_size(list);
    if (r->gen.n_stops > BN_RECEIPT_MAX_STOPS)
        return bn_fail(r->err, BN_ERR_LIMIT, "%zu stop texts are more than %u", r->gen.n_stops,
                       BN_RECEIPT_MAX_STOPS);
    BN_TRY(BN_NEW(r->stops, r->gen.n_stops, r->err));
    size_t i = 0;
    for (const bn_json *e = bn_json_first(list); e != NULL; e = bn_json_next(e))
        if (!bn_json_string(e, &r->stops[i++])) return missing(r, "request.stops");
    r->gen.stops = r->stops;
    return BN_OK;
}

static bn_status read_grammar(struct bn_replay *r)
{
    const bn_json *grammar = bn_json_path(r->predicate, "request.grammar");
    enum bn_grammar_kind kind;
    const char *text;
    if (grammar == NULL) return BN_OK;
    if (!bn_grammar_kind_from_name(bn_json_text_of(grammar, "kind"), &kind) ||
        !bn_json_string(bn_json_get(grammar, "text"), &text))
        return missing(r, "request.grammar");
    BN_TRY(bn_grammar_open(&r->grammar, kind, text, strlen(text), r->err));
    r->gen.grammar = r->grammar;
    return BN_OK;
}

static bn_status read_request(struct bn_replay *r)
{
    bn_sampler_options *s = &r->gen.sampling;
    BN_TRY(read_ids(r, "request.prompt_ids", &r->prompt, &r->gen.n_prompt));
    BN_TRY(read_ids(r, "request.stop_ids", &r->stop_ids, &r->gen.n_stop_ids));
    BN_TRY(read_ids(r, "result.ids", &r->want, &r->n_want));
    BN_TRY(read_stops(r));
    BN_TRY(read_grammar(r));
    const struct {
        const char *path;
        uint32_t *whole;
        float *real;
    } NUMBERS[] = {{"request.presence_penalty", NULL, &s->presence_penalty},
                   {"request.frequency_penalty", NULL, &s->frequency_penalty},
                   {"request.n_predict", &r->gen.n_predict, NULL},
                   {"request.top_k", &s->top_k, NULL},
                   {"request.repeat_last", &s->repeat_last, NULL},
                   {"resolved.ctx", &r->gen.n_ctx, NULL},
                   {"request.temperature", NULL, &s->temperature},
                   {"request.top_p", NULL, &s->top_p},
                   {"request.min_p", NULL, &s->min_p},
                   {"request.repeat_penalty", NULL, &s->repeat_penalty}};
    for (size_t i = 0; i < BN_ARRAY_LEN(NUMBERS); i++) {
        const bn_json *value = bn_json_path(r->predicate, NUMBERS[i].path);
        if (value == NULL && i < 2) continue; /* only what changes something is there */
        uint64_t whole = 0;
        double real = 0;
        bool ok = NUMBERS[i].whole != NULL ? bn_json_u64(value, &whole) && whole <= UINT32_MAX
                                           : bn_json_number(value, &real);
        if (!ok) return missing(r, NUMBERS[i].path);
        if (NUMBERS[i].whole != NULL)
            *NUMBERS[i].whole = (uint32_t)whole;
        else
            *NUMBERS[i].real = (float)real;
    }
    BN_TRY(bn_receipt_bias(&r->bias, s, bn_json_path(r->predicate, "request.logit_bias"), INT32_MAX, r->err));
    if (!bn_receipt_seed(bn_json_path(r->predicate, "request.seed"), &s->seed))
        return missing(r, "request.seed");
    if (!bn_json_bool(bn_json_path(r->predicate, "request.ignore_end"), &r->gen.ignore_end))
        return missing(r, "request.ignore_end");
    BN_TRY(read_text(r, "result.stop_reason", &r->reason));
    BN_TRY(read_text(r, "result.chain", &r->chain));
    r->gen.prompt = r->prompt;
    r->gen.stop_ids = r->stop_ids;
    r->gen.want_chain = true;
    return BN_OK;
}

/* Each of these sets out->reason when something differs. A claimed text next to what this model gives; NULL: the receipt
 * must have null. */
static void compare_text_claim(const struct bn_replay *r, const char *path, const char *actual,
                               struct bn_replay_result *out)
{
    const char *claimed = NULL;
    (void)bn_json_string(bn_json_path(r->predicate, path), &claimed);
    if (claimed == NULL ? actual == NULL : actual != NULL && strcmp(claimed, actual) == 0) return;
    snprintf(out->reason, sizeof out->reason, "%s is %.64s here, the receipt has another", path,
             actual == NULL ? "null" : actual);
}

static bn_status compare_answer(const struct bn_replay *r, const bn_tokenizer *tok, const bn_generation *gen,
                                struct bn_replay_result *out)
{
    char *text = NULL, hex[BN_SHA256_HEX];
    size_t n;
    if (tok != NULL) {
        BN_TRY(bn_detokenize(tok, gen->ids, gen->n_ids, false, &text, &n, r->err));
        bn_sha256_hex(text, n, hex);
        bn_free(text);
    }
    compare_text_claim(r, "result.text_sha256", tok == NULL ? NULL : hex, out);
    return BN_OK;
}

/* Whether the vocabulary gives this text back, as plain text or with special tokens. */
static bn_status gives_back(const struct bn_replay *r, const bn_tokenizer *tok, const char *text, size_t n,
                            bool *same)
{
    *same = false;
    for (unsigned flags = 0; flags <= BN_TOKENIZE_SPECIAL && !*same; flags += BN_TOKENIZE_SPECIAL) {
        int32_t *ids = NULL;
        char *back = NULL;
        size_t n_ids = 0, n_back = 0;
        bn_status status = bn_tokenize(tok, text, n, flags, &ids, &n_ids, r->err);
        if (status == BN_OK) status = bn_detokenize(tok, ids, n_ids, true, &back, &n_back, r->err);
        *same = status == BN_OK && n_back == n && memcmp(back, text, n) == 0;
        bn_free(ids);
        bn_free(back);
        if (status == BN_ERR_NOMEM) return status;
    }
    return BN_OK;
}

/* Whether the text ends as the template ends what comes before an answer. */
static bn_status check_template(const struct bn_replay *r, const char *text, size_t n, bool *fits)
{
    const bn_message message = {"user", "\1"};
    bool think = false, known = bn_json_bool(bn_json_path(r->predicate, "request.think"), &think);
    bn_template tmpl;
    char *rendered = NULL;
    size_t n_rendered = 0;
    *fits = bn_template_from_name(bn_json_text_of(r->predicate, "request.template"), &tmpl) &&
            tmpl != BN_TEMPLATE_AUTO;
    if (!*fits || tmpl == BN_TEMPLATE_RAW) return BN_OK;
    if (known) tmpl = bn_template_set_thinking(tmpl, think);
    BN_TRY(bn_template_render(tmpl, &message, 1, &rendered, &n_rendered, r->err));
    const char *end = memchr(rendered, '\1', n_rendered);
    size_t n_end = end == NULL ? 0 : n_rendered - (size_t)(end + 1 - rendered);
    *fits = end != NULL && n_end <= n && memcmp(text + n - n_end, end + 1, n_end) == 0;
    bn_free(rendered);
    return BN_OK;
}

/* The prompt's tokens as text, the first of them or not: its digest and its template must be the claimed ones. Some
 * vocabularies do not give a text back; then nothing is compared. */
static bn_status compare_prompt(const struct bn_replay *r, const bn_tokenizer *tok,
                                struct bn_replay_result *out)
{
    const char *claimed = bn_json_text_of(r->predicate, "request.prompt_sha256");
    bool found = false, faithful = false; /* tokens that were given have no template */
    const char *tmpl = bn_json_text_of(r->predicate, "request.template"); /* "": none */
    bool fits = claimed[0] != '\0' || tmpl[0] == '\0' || strcmp(tmpl, "raw") == 0;
    size_t skips = r->gen.n_prompt > 1 && r->prompt[0] == bn_tokenizer_bos(tok) ? 1 : 0;
    for (size_t skip = 0; skip <= skips && !found && claimed[0] != '\0'; skip++) {
        char *text = NULL, hex[BN_SHA256_HEX];
        size_t n = 0;
        BN_TRY(bn_detokenize(tok, r->prompt + skip, r->gen.n_prompt - skip, true, &text, &n, r->err));
        bn_status status = BN_OK;
        bn_sha256_hex(text, n, hex);
        found = strcmp(hex, claimed) == 0;
        if (found)
            status = check_template(r, text, n, &fits);
        else if (!faithful)
            status = gives_back(r, tok, text, n, &faithful);
        bn_free(text);
        BN_TRY(status);
    }
    if (!fits || (faithful && !found))
        snprintf(out->reason, sizeof out->reason, "the prompt's tokens are not those of request.%s",
                 fits ? "prompt_sha256" : "template");
    return BN_OK;
}

/* The shape that the rules about work have computed with, against the model itself. */
static bn_status compare_shape(const struct bn_replay *r, const struct bn_model *model,
                               struct bn_replay_result *out)
{
    static const char *const NAMES[] = {
        "bytes",           "arch",          "quantization", "activations",    "n_vocab",   "n_ctx",
        "n_embd",          "n_layer",       "n_ff",         "n_head",         "n_head_kv", "head_dim",
        "n_rot",           "window",        "local_layers", "rotated_layers", "experts",   "recurrence",
        "ternary_weights", "ternary_bytes", "head_bytes"};
    bn_json *own = bn_json_new_object();
    bn_receipt_put_shape(own, model);
    bn_status status = bn_json_is_complete(own) ? BN_OK : bn_nomem(r->err);
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES) && status == BN_OK && out->reason[0] == '\0'; i++) {
        const bn_json *a = bn_json_get(bn_json_get(r->predicate, "model"), NAMES[i]),
                      *b = bn_json_get(own, NAMES[i]);
        char theirs[BN_SHA256_HEX] = "", ours[BN_SHA256_HEX] = "";
        if (a == NULL && strcmp(NAMES[i], "activations") == 0)
            continue; /* receipts of before 0.3 have none */
        if (a != NULL) status = bn_json_digest(a, theirs, r->err);
        if (b != NULL && status == BN_OK) status = bn_json_digest(b, ours, r->err);
        if (strcmp(theirs, ours) != 0)
            snprintf(out->reason, sizeof out->reason, "model.%s is not that of the model", NAMES[i]);
    }
    bn_json_free(own);
    return status;
}

static bool was_cancelled(const struct bn_replay *r)
{
    return strcmp(r->reason, bn_stop_reason_name(BN_STOP_CALLER)) == 0;
}

/* Compares what was generated with what is claimed. A generation that its caller ended is compared as far as it went.
 */
static void compare(const struct bn_replay *r, const bn_generation *gen, struct bn_replay_result *out)
{
    size_t i = 0;
    while (i < gen->n_ids && i < r->n_want && gen->ids[i] == r->want[i])
        i++;
    out->n_tokens = i;
    if (i < gen->n_ids && i < r->n_want)
        snprintf(out->reason, sizeof out->reason, "token %zu is %d here, the receipt has %d", i,
                 (int)gen->ids[i], (int)r->want[i]);
    else if (gen->n_ids != r->n_want)
        snprintf(out->reason, sizeof out->reason, "%s tokens came than the %zu of the receipt",
                 gen->n_ids > r->n_want ? "more" : "fewer", r->n_want);
    else if (!was_cancelled(r) && strcmp(bn_stop_reason_name(gen->reason), r->reason) != 0)
        snprintf(out->reason, sizeof out->reason, "it stopped for \"%s\", the receipt has another reason",
                 bn_stop_reason_name(gen->reason));
    else if (strcmp(gen->chain, r->chain) != 0)
        snprintf(out->reason, sizeof out->reason,
                 "the same tokens, but the chain of digests differs: %.16s... here", gen->chain);
    else
        out->same = true;
    out->chain = true;
}

/* ---- the parts ---- */

bn_status bn_replay_open(struct bn_replay **out, const struct bn_receipt *receipt, bn_error *err)
{
    struct bn_replay *r = *out = bn_alloc(1, sizeof *r);
    if (r == NULL) return bn_nomem(err);
    *r = (struct bn_replay){.predicate = receipt->predicate, .err = err};
    BN_TRY(read_request(r));
    /* No more work than the receipt itself claims, and one token to see that it would go on. A generation that its
     * caller ended is ended at the same token. */
    size_t most = r->n_want + (was_cancelled(r) ? 0 : 1);
    if (r->gen.n_predict > most) r->gen.n_predict = (uint32_t)most;
    return BN_OK;
}

void bn_replay_close(struct bn_replay *r)
{
    if (r == NULL) return;
    bn_free(r->prompt);
    bn_free(r->stop_ids);
    bn_free(r->want);
    bn_free(r->stops);
    bn_free(r->bias);
    bn_grammar_close(r->grammar);
    bn_free(r);
}

const bn_generation *bn_replay_request(const struct bn_replay *r)
{
    return &r->gen;
}

uint32_t bn_replay_n_ctx(const struct bn_replay *r)
{
    size_t n = r->gen.n_prompt + r->gen.n_predict;
    return n < r->gen.n_ctx ? (uint32_t)n : r->gen.n_ctx;
}

bn_status bn_replay_check_model(struct bn_replay *r, const bn_model *model, const char *sha256, bool *same,
                                struct bn_replay_result *out, bn_error *err)
{
    const char *claimed = NULL;
    char hex[BN_SHA256_HEX];
    r->err = err;
    out->reason[0] = '\0';
    BN_TRY(read_text(r, "model.sha256", &claimed));
    if (strcmp(sha256, claimed) != 0)
        snprintf(out->reason, sizeof out->reason, "the model has sha256 %.16s..., the receipt's is %.16s...",
                 sha256, claimed);
    const bn_tokenizer *tok = bn_model_tokenizer(model); /* NULL: it has no vocabulary, and gives no text */
    if (tok != NULL) BN_TRY(bn_tokenizer_digest(tok, hex, err));
    if (out->reason[0] == '\0')
        compare_text_claim(r, "resolved.tokenizer_sha256", tok != NULL ? hex : NULL, out);
    if (out->reason[0] == '\0' && tok != NULL) BN_TRY(compare_prompt(r, tok, out));
    if (out->reason[0] == '\0') BN_TRY(compare_shape(r, model, out));
    *same = out->reason[0] == '\0';
    if (*same && r->gen.n_ctx > model->hp.n_ctx)
        return bn_fail(err, BN_ERR_LIMIT, "a context of %u tokens is too large, the model's is %u",
                       r->gen.n_ctx, model->hp.n_ctx);
    return BN_OK;
}

bn_status bn_replay_compare(struct bn_replay *r, const bn_model *model, const bn_generation *gen,
                            struct bn_replay_result *out, bn_error *err)
{
    r->err = err;
    compare(r, gen, out);
    if (!out->same) return BN_OK;
    BN_TRY(compare_answer(r, bn_model_tokenizer(model), gen, out));
    out->same = out->reason[0] == '\0';
    return BN_OK;
}

/* ---- the whole ---- */

void bn_replay_expect(const struct bn_replay *r, const bn_model *model, bn_generation *gen)
{
    if (model->hp.recurrence.n_taps != 0) return;
    gen->draft = (bn_draft_options){.kind = BN_DRAFT_GIVEN,
                                    .always = true,
                                    .most = LONGEST_DRAFT,
                                    .given = r->want,
                                    .n_given = r->n_want};
}

static bn_status run(struct bn_replay *r, const bn_model *model, uint32_t n_threads, uint32_t n_batch,
                     struct bn_replay_result *out, bn_error *err)
{
    bn_session *session = NULL;
    char hex[BN_SHA256_HEX];
    bool same;
    bn_sha256_hex(model->bytes, model->n_bytes, hex);
    BN_TRY(bn_replay_check_model(r, model, hex, &same, out, err));
    if (!same) return BN_OK;
    bn_session_options options = {.n_ctx = bn_replay_n_ctx(r), .n_batch = n_batch, .n_threads = n_threads};
    BN_TRY(bn_session_open(&session, model, &options, err));
    bn_replay_expect(r, model, &r->gen);
    bn_status status = bn_generate(session, bn_model_tokenizer(model), &r->gen, err);
    bn_session_close(session);
    if (status == BN_OK) status = bn_replay_compare(r, model, &r->gen, out, err);
    bn_generation_release(&r->gen);
    return status;
}

bn_status bn_receipt_replay(const struct bn_receipt *receipt, const bn_model *model, uint32_t n_threads,
                            uint32_t n_batch, struct bn_replay_result *result, bn_error *err)
{
    struct bn_replay *r = NULL;
    *result = (struct bn_replay_result){0};
    if (model->map.mapped)
        return bn_fail(err, BN_ERR_ARG, "a replay needs a model whose file is read, not mapped");
    bn_status status = bn_replay_open(&r, receipt, err);
    if (status == BN_OK) status = run(r, model, n_threads, n_batch, result, err);
    bn_replay_close(r);
    return status;
}
