/* SPDX-License-Identifier: MIT
 *
 * Chat templates. A prompt is a sequence of runs of text and marks; a mark is a control token. Text between
 * two marks is encoded as one run, without looking for special tokens in it, so that no message can speak
 * for another role.
 *
 *     raw          content, several joined by a line feed
 *     instruct     [System: content\n\n] Q: content\nA: [content\n\nQ: ...]
 *     llama3-chat  <|begin_of_text|> {<|start_header_id|> role <|end_header_id|> \n\ncontent <|eot_id|>} header
 *     bitnet       {Role: content <|eot_id|>} Assistant:_         (with a space at the end)
 *     chatml       {<|im_start|> role\ncontent <|im_end|> \n} <|im_start|> assistant\n
 *     qwen3        as chatml; qwen3-no-think adds <think> \n\n </think> \n\n at the end
 *     qwen35       as chatml, then <think> \n; qwen35-no-think as qwen3-no-think
 *     falcon3      {<|role|> \ncontent [<|endoftext|> after an answer] \n} <|assistant|> \n
 *
 * An answer in the history loses its think block under the templates of Qwen. The template text in a file is
 * only searched for words that tell which of these is meant.
 */
#include <stdio.h>

#include "base/error.h"
#include "tokenizer/vocab.h"

#define EOT "<|eot_id|>"
#define HEADER "<|start_header_id|>"
#define HEADER_END "<|end_header_id|>"
#define BEGIN "<|begin_of_text|>"
#define IM_START "<|im_start|>"
#define IM_END "<|im_end|>"
#define THINK "<think>"
#define THINK_END "</think>"

static const char *const NAMES[] = {
    [BN_TEMPLATE_AUTO] = "auto",         [BN_TEMPLATE_RAW] = "raw",
    [BN_TEMPLATE_INSTRUCT] = "instruct", [BN_TEMPLATE_LLAMA3_CHAT] = "llama3-chat",
    [BN_TEMPLATE_BITNET] = "bitnet",     [BN_TEMPLATE_CHATML] = "chatml",
    [BN_TEMPLATE_QWEN3] = "qwen3",       [BN_TEMPLATE_QWEN3_NO_THINK] = "qwen3-no-think",
    [BN_TEMPLATE_QWEN35] = "qwen35",     [BN_TEMPLATE_QWEN35_NO_THINK] = "qwen35-no-think",
    [BN_TEMPLATE_FALCON3] = "falcon3",
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
    if (tmpl >= BN_TEMPLATE_CHATML && tmpl <= BN_TEMPLATE_QWEN35_NO_THINK && i == 0) return IM_END;
    if (tmpl == BN_TEMPLATE_FALCON3 && i == 0) return "<|user|>";
    return NULL;
}

bn_thinking bn_template_thinking(bn_template tmpl)
{
    if (tmpl == BN_TEMPLATE_QWEN3 || tmpl == BN_TEMPLATE_QWEN35) return BN_THINKING_ON;
    if (tmpl == BN_TEMPLATE_QWEN3_NO_THINK || tmpl == BN_TEMPLATE_QWEN35_NO_THINK) return BN_THINKING_OFF;
    return BN_THINKING_NONE;
}

bn_template bn_template_set_thinking(bn_template tmpl, bool on)
{
    if (tmpl == BN_TEMPLATE_QWEN3 || tmpl == BN_TEMPLATE_QWEN3_NO_THINK)
        return on ? BN_TEMPLATE_QWEN3 : BN_TEMPLATE_QWEN3_NO_THINK;
    if (tmpl == BN_TEMPLATE_QWEN35 || tmpl == BN_TEMPLATE_QWEN35_NO_THINK)
        return on ? BN_TEMPLATE_QWEN35 : BN_TEMPLATE_QWEN35_NO_THINK;
    return tmpl;
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

/* Which of the templates with <|im_start|> a text is. Those of Qwen have a switch for thinking. The later ones
 * open the think block in the prompt, and the small models of that family do so only on request. */
static bn_template recognise_chatml(struct bn_str text)
{
    static const char *const OPENS[] = {"'<think>\\n'", "\"<think>\\n\"", "'<think>\n'",
                                        "assistant\\n<think>\\n'"};
    if (!contains(text, THINK)) return BN_TEMPLATE_CHATML;
    bn_template tmpl = contains(text, "enable_thinking") ? BN_TEMPLATE_QWEN3 : BN_TEMPLATE_CHATML;
    for (size_t i = 0; i < BN_ARRAY_LEN(OPENS); i++)
        if (contains(text, OPENS[i])) tmpl = BN_TEMPLATE_QWEN35;
    bool asks = contains(text, "enable_thinking is defined and enable_thinking is true");
    return tmpl == BN_TEMPLATE_QWEN35 && asks ? BN_TEMPLATE_QWEN35_NO_THINK : tmpl;
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
    bool im = find_mark(tok, IM_START) >= 0 && find_mark(tok, IM_END) >= 0;
    if (im && (chat_template.len == 0 || contains(chat_template, IM_START)))
        return recognise_chatml(chat_template);
    if (headers) return BN_TEMPLATE_LLAMA3_CHAT;
    /* Other families have these marks too, and end every message with a mark. */
    if (contains(chat_template, "<|assistant|>") && contains(chat_template, "<|user|>") &&
        !contains(chat_template, "<|end|>") &&
        !contains(chat_template, "'<|user|>\\n' + message['content'] + eos_token") &&
        find_mark(tok, "<|endoftext|>") >= 0)
        return BN_TEMPLATE_FALCON3;
    return eot || chat_template.len > 0 ? BN_TEMPLATE_INSTRUCT : BN_TEMPLATE_RAW;
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
        return bn_hint(bn_fail(p->err, BN_ERR_UNSUPPORTED,
                               "the vocabulary has no token %s, which the template needs", text),
                       p->err, "use --template raw or instruct");
    }
    BN_TRY(flush(p));
    return bn_ids_push(&p->ids, id, p->err);
}

/* A mark that some vocabularies of the family spell: then it is text. */
static bn_status mark_or_text(struct prompt *p, const char *text)
{
    int32_t id = p->tok != NULL ? bn_token_find(p->tok, text, strlen(text)) : -1;
    if (id < 0) {
        say(p, text);
        return BN_OK;
    }
    BN_TRY(flush(p));
    return bn_ids_push(&p->ids, id, p->err);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct bn_str trimmed(struct bn_str text)
{
    while (text.len > 0 && is_space(text.ptr[0])) {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 && is_space(text.ptr[text.len - 1]))
        text.len--;
    return text;
}

static void say_trimmed(struct prompt *p, const char *text)
{
    struct bn_str part = trimmed((struct bn_str){text, strlen(text)});
    bn_buf_append(&p->text, part.ptr, part.len);
}

/* An answer without its think block: what follows the last </think>, less line feeds. A block that was cut off
 * is not an answer. */
static struct bn_str without_thoughts(struct bn_str text)
{
    const char *from = text.ptr, *end = text.ptr + text.len;
    for (const char *at; (at = strstr(from, THINK_END)) != NULL;)
        from = at + strlen(THINK_END);
    if (from == text.ptr) {
        size_t blank = strspn(text.ptr, " \t\r\n");
        return strncmp(text.ptr + blank, THINK, strlen(THINK)) == 0 ? (struct bn_str){end, 0} : text;
    }
    while (from < end && *from == '\n')
        from++;
    return (struct bn_str){from, from < end ? (size_t)(end - from) : 0};
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

/* Thoughts are dropped where the family's template does that; the later Qwen template trims contents too. */
static bn_status put_chatml(struct prompt *p, bn_template tmpl, const bn_message *messages, size_t n)
{
    bool qwen35 = tmpl == BN_TEMPLATE_QWEN35 || tmpl == BN_TEMPLATE_QWEN35_NO_THINK;
    for (size_t i = 0; i < n; i++) {
        struct bn_str content = {messages[i].content, strlen(messages[i].content)};
        if (qwen35) content = trimmed(content);
        if (tmpl != BN_TEMPLATE_CHATML && strcmp(messages[i].role, "assistant") == 0)
            content = without_thoughts(content);
        BN_TRY(mark(p, IM_START));
        say(p, messages[i].role);
        say(p, "\n");
        bn_buf_append(&p->text, content.ptr, content.len);
        BN_TRY(mark(p, IM_END));
        say(p, "\n");
    }
    BN_TRY(mark(p, IM_START));
    say(p, "assistant\n");
    if (tmpl == BN_TEMPLATE_CHATML || tmpl == BN_TEMPLATE_QWEN3) return BN_OK;
    BN_TRY(mark_or_text(p, THINK));
    say(p, tmpl == BN_TEMPLATE_QWEN35 ? "\n" : "\n\n");
    if (tmpl == BN_TEMPLATE_QWEN35) return BN_OK;
    BN_TRY(mark_or_text(p, THINK_END));
    say(p, "\n\n");
    return BN_OK;
}

static bn_status put_falcon3(struct prompt *p, const bn_message *messages, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char role[16]; /* check_messages knows all roles */
        bool answer = strcmp(messages[i].role, "assistant") == 0;
        snprintf(role, sizeof role, "<|%s|>", messages[i].role);
        BN_TRY(mark_or_text(p, role));
        say(p, "\n");
        say(p, messages[i].content);
        if (answer) BN_TRY(mark(p, "<|endoftext|>"));
        say(p, "\n");
    }
    BN_TRY(mark_or_text(p, "<|assistant|>"));
    say(p, "\n");
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
    case BN_TEMPLATE_CHATML:
    case BN_TEMPLATE_QWEN3:
    case BN_TEMPLATE_QWEN3_NO_THINK:
    case BN_TEMPLATE_QWEN35:
    case BN_TEMPLATE_QWEN35_NO_THINK:
        return put_chatml(p, tmpl, messages, n);
    case BN_TEMPLATE_FALCON3:
        return put_falcon3(p, messages, n);
    case BN_TEMPLATE_AUTO:
    case BN_TEMPLATE_COUNT:
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
