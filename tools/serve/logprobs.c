/* SPDX-License-Identifier: MIT
 *
 * Log-probabilities of tokens, as the chat API and the older one of OpenAI have them.
 */
#include <math.h>

#include "tools/serve/job.h"

#define LEAST_LOGPROB (-9999.0) /* JSON has no infinity */

static double at_least(double logprob)
{
    return isfinite(logprob) && logprob > LEAST_LOGPROB ? logprob : LEAST_LOGPROB;
}

/* The text of a token; half a character becomes U+FFFD when it is written. */
static void token_text(const struct bn_choice *c, int32_t id, struct bn_buf *text)
{
    const char *bytes = NULL;
    size_t n = bn_token_bytes(c->job->engine->tok, id, &bytes);
    text->len = 0;
    bn_buf_append(text, n > 0 ? bytes : "", n);
}

static void put_token(bn_json *entry, const struct bn_choice *c, int32_t id, double logprob)
{
    struct bn_buf text = {.max = 1u << 16};
    token_text(c, id, &text);
    BN_PUT(entry, BN_STRING("token", bn_buf_text(&text)), BN_NUMBER("logprob", at_least(logprob)));
    bn_json *bytes = bn_json_put_array(entry, "bytes");
    for (size_t i = 0; i < text.len; i++)
        bn_json_add_u64(bytes, (unsigned char)text.data[i]);
    bn_buf_release(&text);
}

static void put_chat_logprobs(bn_json *parent, const struct bn_choice *c, size_t from, size_t to)
{
    const bn_generation *gen = &c->gen;
    bn_json *content = bn_json_put_array(bn_json_put_object(parent, "logprobs"), "content");
    for (size_t i = from; i < to; i++) {
        bn_json *entry = bn_json_add_object(content);
        put_token(entry, c, gen->ids[i], gen->logprobs[i]);
        bn_json *top = bn_json_put_array(entry, "top_logprobs");
        for (size_t k = 0; k < gen->n_top; k++) {
            const bn_candidate *best = &gen->top[i * gen->n_top + k];
            if (best->id >= 0)
                put_token(bn_json_add_object(top), c, best->id, (double)best->logit - gen->log_sums[i]);
        }
    }
}

static void put_text_logprobs(bn_json *parent, struct bn_choice *c, size_t from, size_t to)
{
    const bn_generation *gen = &c->gen;
    bn_json *logprobs = bn_json_put_object(parent, "logprobs");
    bn_json *tokens = bn_json_put_array(logprobs, "tokens");
    bn_json *values = bn_json_put_array(logprobs, "token_logprobs");
    bn_json *tops = bn_json_put_array(logprobs, "top_logprobs");
    bn_json *offsets = bn_json_put_array(logprobs, "text_offset");
    struct bn_buf text = {.max = 1u << 16};
    for (size_t i = from; i < to; i++) {
        bn_json *top = bn_json_add_object(tops);
        for (size_t k = 0; k < gen->n_top; k++) {
            const bn_candidate *best = &gen->top[i * gen->n_top + k];
            if (best->id < 0) continue;
            token_text(c, best->id, &text);
            bn_json_put_number(top, bn_buf_text(&text), at_least((double)best->logit - gen->log_sums[i]));
        }
        token_text(c, gen->ids[i], &text);
        bn_json_add_string(tokens, bn_buf_text(&text));
        bn_json_add_number(values, at_least(gen->logprobs[i]));
        bn_json_add_u64(offsets, c->n_text);
        c->n_text += text.len;
    }
    bn_buf_release(&text);
}

/* Without the token that ended the answer. */
void bn_answer_put_logprobs(bn_json *parent, struct bn_choice *c)
{
    const bn_generation *gen = &c->gen;
    bool closed = c->ended && (gen->reason == BN_STOP_END || gen->reason == BN_STOP_ID);
    size_t to = gen->n_ids - (closed && gen->n_ids > 0);
    if (!c->job->want_logprobs) {
        bn_json_put_null(parent, "logprobs");
        return;
    }
    if (c->job->chat)
        put_chat_logprobs(parent, c, c->n_shown, to);
    else
        put_text_logprobs(parent, c, c->n_shown, to);
    c->n_shown = to;
}
