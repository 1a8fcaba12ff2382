/* SPDX-License-Identifier: MIT
 *
 * Which chat template a file means. Its text is only searched for words that tell the templates apart, never run.
 */
#include "tokenizer/vocab.h"

#define EOT "<|eot_id|>"
#define HEADER "<|start_header_id|>"
#define IM_START "<|im_start|>"
#define THINK "<think>"

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

static bool has_mark(const struct bn_tokenizer *tok, const char *mark)
{
    int32_t id = bn_vocab_find_special(tok, mark, strlen(mark));
    return id >= 0 && tok->type[id] == BN_TOKEN_CONTROL;
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
    bool headers = eot && has_mark(tok, HEADER) && has_mark(tok, "<|end_header_id|>");
    /* The published 2B-4T files have a LLaMA 3 vocabulary, marks and all, and a template of their own, which
     * is known to be wrong; what the model was taught is the bitnet form. */
    bool bitnet = strcmp(arch, "bitnet-b1.58") == 0 || strcmp(arch, "bitnet-25") == 0;
    if (headers && contains(chat_template, HEADER)) return BN_TEMPLATE_LLAMA3_CHAT;
    if (eot && (bitnet || contains(chat_template, "BITNET"))) return BN_TEMPLATE_BITNET;
    bool im = has_mark(tok, IM_START) && has_mark(tok, "<|im_end|>");
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
