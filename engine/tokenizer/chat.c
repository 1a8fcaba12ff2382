/* SPDX-License-Identifier: MIT
 *
 * Chat templates. A prompt is a sequence of runs of text and marks; a mark is a control token. Text between
 * two marks is encoded as one run, without looking for special tokens in it, so that no message can speak
 * for another role.
 *
 *     raw          content, several joined by a line feed
 *     instruct     [System: content\n\n] Q: content\nA: [content\n\nQ: ...]
 *     llama3-chat  <|begin_of_text|> {<|start_header_id|> role <|end_header_id|> \n\ncontent <|eot_id|>}
 * header bitnet       {Role: content <|eot_id|>} Assistant:_         (with a space at the end)
 *
 * The template text in a file is only searched for words that tell which of these is meant.
 */
#include "base/error.h"
#include "tokenizer/vocab.h"

#define EOT "<|eot_id|>"
#define HEADER "<|start_header_id|>"
#define HEADER_END "<|end_header_id|>"
#define BEGIN "<|begin_of_text|>"

static const char *const NAMES[] = {
    [BN_TEMPLATE_AUTO] = "auto",         [BN_TEMPLATE_RAW] = "raw",
    [BN_TEMPLATE_INSTRUCT] = "instruct", [BN_TEMPLATE_LLAMA3_CHAT] = "llama3-chat",
    [BN_TEMPLATE_BITNET] = "bitnet",
};

bool bn_template_from_name(const char *name, bn_template *out)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++) {
        if (strcmp(name, NAMES[i]) != 0) continue;
        *out = (bn_template)i;
        return true;
    }
    return false;
}

const char *bn_template_name(bn_template tmpl)
{
    return (size_t)tmpl < BN_ARRAY_LEN(NAMES) ? NAMES[tmpl] : "unknown";
}

const char *bn_template_stop(bn_template tmpl, size_t i)
{
    static const char *const INSTRUCT[] = {"\n\nQ:", "\n\nHuman:"};
    if (tmpl == BN_TEMPLATE_INSTRUCT && i < BN_ARRAY_LEN(INSTRUCT)) return INSTRUCT[i];
    /* For models that spell the mark instead of giving its token. */
    if ((tmpl == BN_TEMPLATE_LLAMA3_CHAT || tmpl == BN_TEMPLATE_BITNET) && i == 0) return EOT;
    return NULL;
}

/* ---- recognising ---- */

static bool contains(struct bn_str text, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = text.ptr, *end = text.ptr + text.len; (size_t)(end - at) >= n; at++) {
        at = memchr(at, word[0], (size_t)(end - at) - n + 1);
        if (at == NULL) return false;
        if (memcmp(at, word, n) == 0) return true;
    }
    return false;
}

static int32_t find_mark(const struct bn_tokenizer *tok, const char *mark)
{
    int32_t id = bn_vocab_find_special(tok, mark, strlen(mark));
    return id >= 0 && tok->type[id] == BN_TOKEN_CONTROL ? id : -1;
}

bn_template bn_chat_recognise(const struct bn_tokenizer *tok, const char *arch, struct bn_str chat_template)
{
    bool eot = find_mark(tok, EOT) >= 0;
    bool headers = eot && find_mark(tok, HEADER) >= 0 && find_mark(tok, HEADER_END) >= 0;
    /* The published 2B-4T files have a LLaMA 3 vocabulary, marks and all, and a template of their own, which
     * is known to be wrong; what the model was taught is the bitnet form. */
    bool bitnet = strcmp(arch, "bitnet-b1.58") == 0 || strcmp(arch, "bitnet-25") == 0;
    if (headers && contains(chat_template, HEADER)) return BN_TEMPLATE_LLAMA3_CHAT;
    if (eot && (bitnet || contains(chat_template, "BITNET"))) return BN_TEMPLATE_BITNET;
    if (headers) return BN_TEMPLATE_LLAMA3_CHAT;
    return eot || chat_template.len > 0 || find_mark(tok, "<|im_start|>") >= 0 ? BN_TEMPLATE_INSTRUCT
                                                                               : BN_TEMPLATE_RAW;
}

bn_template bn_template_resolve(bn_template tmpl, const bn_tokenizer *tok)
{
    if (tmpl != BN_TEMPLATE_AUTO) return tmpl;
    return tok != NULL ? tok->chat : BN_TEMPLATE_RAW;
}

/* ---- prompts ---- */

/* Where a prompt goes: into ids when tok is given, else into text alone. */
struct prompt {
    const struct bn_tokenizer *tok;
    struct bn_buf text; /* with a tokenizer: the run since the last mark */
    struct bn_ids ids;
    bn_error *err;
};

static void say(struct prompt *p, const char *text)
{
    bn_buf_puts(&p->text, text);
}

static bn_status flush(struct prompt *p)
{
    BN_TRY(bn_buf_check(&p->text, p->err));
    BN_TRY(bn_encode(p->tok, p->text.data, p->text.len, 0, &p->ids, NULL, p->err));
    p->text.len = 0;
    return BN_OK;
}

static bn_status mark(struct prompt *p, const char *text)
{
    if (p->tok == NULL) {
        say(p, text);
        return BN_OK;
    }
    int32_t id = find_mark(p->tok, text);
    if (id < 0) {
        bn_fail(p->err, BN_ERR_UNSUPPORTED, "the vocabulary has no token %s, which the template needs", text);
        bn_error_hint(p->err, "use --template raw or instruct");
        return BN_ERR_UNSUPPORTED;
    }
    BN_TRY(flush(p));
    return bn_ids_push(&p->ids, id, p->err);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void say_trimmed(struct prompt *p, const char *text)
{
    size_t from = 0, to = strlen(text);
    while (from < to && is_space(text[from]))
        from++;
    while (to > from && is_space(text[to - 1]))
        to--;
    bn_buf_append(&p->text, text + from, to - from);
}

static bn_status put_raw(struct prompt *p, const bn_message *messages, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0) say(p, "\n");
        say(p, messages[i].content);
    }
    return BN_OK;
}

static bn_status put_instruct(struct prompt *p, const bn_message *messages, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool user = strcmp(messages[i].role, "user") == 0;
        say(p, user ? "Q: " : strcmp(messages[i].role, "system") == 0 ? "System: " : " ");
        say_trimmed(p, messages[i].content);
        say(p, user ? "\nA:" : "\n\n");
    }
    return BN_OK;
}

static bn_status put_header(struct prompt *p, const char *role)
{
    BN_TRY(mark(p, HEADER));
    say(p, role);
    BN_TRY(mark(p, HEADER_END));
    say(p, "\n\n");
    return BN_OK;
}

static bn_status put_llama3(struct prompt *p, const bn_message *messages, size_t n)
{
    BN_TRY(mark(p, BEGIN));
    for (size_t i = 0; i < n; i++) {
        BN_TRY(put_header(p, messages[i].role));
        say_trimmed(p, messages[i].content);
        BN_TRY(mark(p, EOT));
    }
    return put_header(p, "assistant");
}

static bn_status put_bitnet(struct prompt *p, const bn_message *messages, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool system = strcmp(messages[i].role, "system") == 0;
        say(p, system ? "System: " : strcmp(messages[i].role, "user") == 0 ? "User: " : "Assistant: ");
        say_trimmed(p, messages[i].content);
        BN_TRY(mark(p, EOT));
    }
    say(p, "Assistant: ");
    return BN_OK;
}

static bn_status check_messages(bn_template tmpl, const bn_message *messages, size_t n, bn_error *err)
{
    if (n == 0) return bn_fail(err, BN_ERR_ARG, "there is no message");
    for (size_t i = 0; i < n; i++) {
        const char *role = messages[i].role;
        if (role == NULL || messages[i].content == NULL)
            return bn_fail(err, BN_ERR_ARG, "message %zu has no role or no content", i);
        if (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0) {
            char quoted[48];
            return bn_fail(err, BN_ERR_ARG,
                           "message %zu has the role '%s', known are system, user, assistant", i,
                           bn_escape(quoted, sizeof quoted, role, strlen(role)));
        }
    }
    if (tmpl != BN_TEMPLATE_RAW && strcmp(messages[n - 1].role, "user") != 0)
        return bn_fail(err, BN_ERR_ARG, "the last message is not the user's");
    return BN_OK;
}

static bn_status put_messages(struct prompt *p, bn_template tmpl, const bn_message *messages, size_t n)
{
    BN_TRY(check_messages(tmpl, messages, n, p->err));
    switch (tmpl) {
    case BN_TEMPLATE_RAW:
        return put_raw(p, messages, n);
    case BN_TEMPLATE_INSTRUCT:
        return put_instruct(p, messages, n);
    case BN_TEMPLATE_LLAMA3_CHAT:
        return put_llama3(p, messages, n);
    case BN_TEMPLATE_BITNET:
        return put_bitnet(p, messages, n);
    case BN_TEMPLATE_AUTO:
        break;
    }
    return bn_fail(p->err, BN_ERR_ARG, "the template %s cannot be rendered", bn_template_name(tmpl));
}

bn_status bn_template_encode(bn_template tmpl, const bn_tokenizer *tok, const bn_message *messages,
                             size_t n_messages, int32_t **ids, size_t *n_ids, bn_error *err)
{
    *ids = NULL;
    *n_ids = 0;
    if (tok == NULL) return bn_fail(err, BN_ERR_ARG, "the model has no vocabulary");
    struct prompt p = {.tok = tok, .text.max = BN_MAX_TEXT_BYTES, .err = err};
    tmpl = bn_template_resolve(tmpl, tok);
    bn_status status = BN_OK;
    if (tmpl != BN_TEMPLATE_LLAMA3_CHAT && tok->add_bos && tok->bos >= 0)
        status = bn_ids_push(&p.ids, tok->bos, err);
    if (status == BN_OK) status = put_messages(&p, tmpl, messages, n_messages);
    if (status == BN_OK) status = flush(&p);
    bn_buf_release(&p.text);
    if (status != BN_OK) {
        bn_free(p.ids.data);
        return status;
    }
    *ids = p.ids.data;
    *n_ids = p.ids.n;
    return BN_OK;
}

bn_status bn_template_render(bn_template tmpl, const bn_message *messages, size_t n_messages, char **text,
                             size_t *n_bytes, bn_error *err)
{
    struct prompt p = {.text.max = BN_MAX_TEXT_BYTES, .err = err};
    *text = NULL;
    *n_bytes = 0;
    bn_status status = put_messages(&p, tmpl, messages, n_messages);
    if (status == BN_OK) {
        say(&p, ""); /* raw with empty contents still gives a text */
        status = bn_buf_check(&p.text, err);
    }
    if (status != BN_OK) {
        bn_buf_release(&p.text);
        return status;
    }
    *text = p.text.data;
    *n_bytes = p.text.len;
    return BN_OK;
}
