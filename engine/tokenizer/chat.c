/* SPDX-License-Identifier: MIT
 *
 * Chat templates. A prompt is a sequence of runs of text and marks; a mark is a control token. Text between
 * two marks is encoded as one run, without looking for special tokens in it, so that no message can speak
 * for another role. An answer in the history loses its think block under the templates of Qwen. The template text
 * in a file is only searched for words that tell which of these is meant.
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

/* What the templates write before the first message, for one of the system, of the user and of the assistant, between two,
 * and at the end. {mark} is a control token, [mark] a token where the vocabulary has it, and text where it has not. %r is
 * the role and %c the content, %t without white space around it; %a and %b are the same without the think block. */
#define LLAMA3(role) "{" HEADER "}" role "{" HEADER_END "}\n\n"
#define LLAMA3_TURN LLAMA3("%r") "%t{" EOT "}"
#define CHATML(content) "{" IM_START "}%r\n" content "{" IM_END "}\n"
#define ANSWER "{" IM_START "}assistant\n"
#define NO_THOUGHTS "[" THINK "]\n\n[" THINK_END "]\n\n"
static const struct form {
    const char *name, *begin, *messages[3], *between, *end;
    const char *stops[2]; /* for models that spell a mark instead of giving its token, too */
} FORMS[] = {
    [BN_TEMPLATE_AUTO] = {.name = "auto"},
    [BN_TEMPLATE_RAW] = {"raw", "", {"%c", "%c", "%c"}, "\n", "", {NULL}},
    [BN_TEMPLATE_INSTRUCT] =
        {"instruct", "", {"System: %t\n\n", "Q: %t\nA:", " %t\n\n"}, "", "", {"\n\nQ:", "\n\nHuman:"}},
    [BN_TEMPLATE_LLAMA3_CHAT] = {"llama3-chat",
                                 "{" BEGIN "}",
                                 {LLAMA3_TURN, LLAMA3_TURN, LLAMA3_TURN},
                                 "",
                                 LLAMA3("assistant"),
                                 {EOT}},
    [BN_TEMPLATE_BITNET] = {"bitnet",
                            "",
                            {"System: %t{" EOT "}", "User: %t{" EOT "}", "Assistant: %t{" EOT "}"},
                            "",
                            "Assistant: ",
                            {EOT}},
    [BN_TEMPLATE_CHATML] = {"chatml", "", {CHATML("%c"), CHATML("%c"), CHATML("%c")}, "", ANSWER, {IM_END}},
    [BN_TEMPLATE_QWEN3] = {"qwen3", "", {CHATML("%c"), CHATML("%c"), CHATML("%a")}, "", ANSWER, {IM_END}},
    [BN_TEMPLATE_QWEN3_NO_THINK] =
        {"qwen3-no-think", "", {CHATML("%c"), CHATML("%c"), CHATML("%a")}, "", ANSWER NO_THOUGHTS, {IM_END}},
    [BN_TEMPLATE_QWEN35] =
        {"qwen35", "", {CHATML("%t"), CHATML("%t"), CHATML("%b")}, "", ANSWER "[" THINK "]\n", {IM_END}},
    [BN_TEMPLATE_QWEN35_NO_THINK] =
        {"qwen35-no-think", "", {CHATML("%t"), CHATML("%t"), CHATML("%b")}, "", ANSWER NO_THOUGHTS, {IM_END}},
    [BN_TEMPLATE_FALCON3] = {"falcon3",
                             "",
                             {"[<|system|>]\n%c\n", "[<|user|>]\n%c\n",
                              "[<|assistant|>]\n%c{<|endoftext|>}\n"},
                             "",
                             "[<|assistant|>]\n",
                             {"<|user|>"}},
};

bool bn_template_from_name(const char *name, bn_template *out)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(FORMS); i++) {
        if (strcmp(name, FORMS[i].name) != 0) continue;
        *out = (bn_template)i;
        return true;
    }
    return false;
}

const char *bn_template_name(bn_template tmpl)
{
    return (size_t)tmpl < BN_ARRAY_LEN(FORMS) ? FORMS[tmpl].name : "unknown";
}

static const struct form *form_of(bn_template tmpl)
{
    return &FORMS[(size_t)tmpl < BN_ARRAY_LEN(FORMS) ? tmpl : BN_TEMPLATE_AUTO];
}

const char *bn_template_stop(bn_template tmpl, size_t i)
{
    return i < BN_ARRAY_LEN(FORMS->stops) ? form_of(tmpl)->stops[i] : NULL;
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

static int32_t find_mark(const struct bn_tokenizer *tok, const char *mark, size_t n)
{
    int32_t id = bn_vocab_find_special(tok, mark, n);
    return id >= 0 && tok->type[id] == BN_TOKEN_CONTROL ? id : -1;
}

static bool has_mark(const struct bn_tokenizer *tok, const char *mark)
{
    return find_mark(tok, mark, strlen(mark)) >= 0;
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
    bool eot = has_mark(tok, EOT);
    bool headers = eot && has_mark(tok, HEADER) && has_mark(tok, HEADER_END);
    /* The published 2B-4T files have a LLaMA 3 vocabulary, marks and all, and a template of their own, which
     * is known to be wrong; what the model was taught is the bitnet form. */
    bool bitnet = strcmp(arch, "bitnet-b1.58") == 0 || strcmp(arch, "bitnet-25") == 0;
    if (headers && contains(chat_template, HEADER)) return BN_TEMPLATE_LLAMA3_CHAT;
    if (eot && (bitnet || contains(chat_template, "BITNET"))) return BN_TEMPLATE_BITNET;
    bool im = has_mark(tok, IM_START) && has_mark(tok, IM_END);
    if (im && (chat_template.len == 0 || contains(chat_template, IM_START)))
        return recognise_chatml(chat_template);
    if (headers) return BN_TEMPLATE_LLAMA3_CHAT;
    /* Other families have these marks too, and end every message with a mark. */
    if (contains(chat_template, "<|assistant|>") && contains(chat_template, "<|user|>") &&
        !contains(chat_template, "<|end|>") &&
        !contains(chat_template, "'<|user|>\\n' + message['content'] + eos_token") &&
        has_mark(tok, "<|endoftext|>"))
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

static bn_status flush(struct prompt *p)
{
    BN_TRY(bn_buf_check(&p->text, p->err));
    BN_TRY(bn_encode(p->tok, p->text.data, p->text.len, 0, &p->ids, NULL, p->err));
    p->text.len = 0;
    return BN_OK;
}

/* A mark that the template needs, or one that some vocabularies of the family spell: then it is text. */
static bn_status put_mark(struct prompt *p, const char *text, size_t n, bool needed)
{
    int32_t id = p->tok == NULL ? -1 : needed ? find_mark(p->tok, text, n) : bn_token_find(p->tok, text, n);
    if (id < 0 && needed && p->tok != NULL)
        return bn_hint(bn_fail(p->err, BN_ERR_UNSUPPORTED,
                               "the vocabulary has no token %.*s, which the template needs", (int)n, text),
                       p->err, "use --template raw or instruct");
    if (id < 0) {
        bn_buf_append(&p->text, text, n);
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

static void put_field(struct prompt *p, char field, const bn_message *message)
{
    const char *text = field == 'r' ? message->role : message->content;
    struct bn_str part = {text, strlen(text)};
    if (field == 't' || field == 'b') part = trimmed(part);
    if (field == 'a' || field == 'b') part = without_thoughts(part);
    bn_buf_append(&p->text, part.ptr, part.len);
}

/* A text of the table; message: for one that has fields. */
static bn_status put(struct prompt *p, const char *text, const bn_message *message)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "{[%");
        bn_buf_append(&p->text, text, n);
        text += n;
        if (*text == '%') {
            put_field(p, text[1], message);
            text += 2;
        } else if (*text != '\0') {
            n = strcspn(text, "}]");
            BN_TRY(put_mark(p, text + 1, n - 1, *text == '{'));
            text += n + 1;
        }
    }
    return BN_OK;
}

static const char *const ROLES[] = {"system", "user", "assistant"};

static size_t role_of(const bn_message *message)
{
    size_t i = 0;
    while (i < BN_ARRAY_LEN(ROLES) && strcmp(message->role, ROLES[i]) != 0)
        i++;
    return i;
}

static bn_status check_messages(bn_template tmpl, const bn_message *messages, size_t n, bn_error *err)
{
    if (n == 0) return bn_fail(err, BN_ERR_ARG, "there is no message");
    for (size_t i = 0; i < n; i++) {
        const char *role = messages[i].role;
        if (role == NULL || messages[i].content == NULL)
            return bn_fail(err, BN_ERR_ARG, "message %zu has no role or no content", i);
        if (role_of(&messages[i]) == BN_ARRAY_LEN(ROLES)) {
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
    const struct form *form = form_of(tmpl);
    BN_TRY(check_messages(tmpl, messages, n, p->err));
    if (form->begin == NULL)
        return bn_fail(p->err, BN_ERR_ARG, "the template %s cannot be rendered", bn_template_name(tmpl));
    BN_TRY(put(p, form->begin, NULL));
    for (size_t i = 0; i < n; i++) {
        if (i > 0) BN_TRY(put(p, form->between, NULL));
        BN_TRY(put(p, form->messages[role_of(&messages[i])], &messages[i]));
    }
    return put(p, form->end, NULL);
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
        bn_buf_puts(&p.text, ""); /* raw with empty contents still gives a text */
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
