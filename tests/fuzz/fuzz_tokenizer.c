/* SPDX-License-Identifier: MIT
 *
 * Bytes -> ids -> bytes, which have to be the same, for a byte-level and a SentencePiece vocabulary, with and
 * without special tokens; every id lies in the vocabulary; without the flag none is a control token; the
 * stream decoder gives the same text as the whole one; a chat prompt holds the control tokens of its template
 * only. The first byte of the input chooses, the rest is the text.
 *
 * libFuzzer's entry point; built with clang -fsanitize=fuzzer, or with any main that calls it.
 */
#include "tests/fuzz/fuzz.h"

#include "tests/unit/engine/vocab_maker.h"

static struct maker gpt2, spm;

static void open_once(void)
{
    if (gpt2.tok != NULL) return;
    gpt2 = maker_gpt2();
    maker_marks(&gpt2);
    maker_token(&gpt2, "<|", BN_TOKEN_CONTROL, 0);
    maker_token(&gpt2, "<|im_start|>", BN_TOKEN_CONTROL, 0);
    maker_token(&gpt2, "<|im_end|>", BN_TOKEN_CONTROL, 0);
    maker_token(&gpt2, "<|endoftext|>", BN_TOKEN_CONTROL, 0);
    maker_token(&gpt2, "<think>", BN_TOKEN_USER, 0);
    spm = maker_spm();
    maker_token(&spm, "@@user@@", BN_TOKEN_USER, 0);
    maker_token(&spm, "▁▁▁", BN_TOKEN_USER, 0);
    hold(maker_open(&gpt2, "bitnet-b1.58") == BN_OK && maker_open(&spm, "bitnet") == BN_OK);
    bn_gguf_close(&gpt2.gguf); /* a tokenizer keeps nothing of it */
    bn_gguf_close(&spm.gguf);
}

static void check_stream(const bn_tokenizer *tok, const int32_t *ids, size_t n_ids, size_t n_text)
{
    bn_utf8_stream stream = {0};
    size_t total = 0;
    for (size_t i = 0; i < n_ids; i++) {
        const char *bytes;
        char out[64 + 3];
        size_t n = bn_token_bytes(tok, ids[i], &bytes);
        hold(n <= 64);
        total += bn_utf8_stream_push(&stream, bytes, n, out);
    }
    char rest[3];
    total += bn_utf8_stream_flush(&stream, rest);
    hold(total >= n_text); /* SPM puts spaces in front */
}

static void check_text(const bn_tokenizer *tok, const char *text, size_t n, unsigned flags)
{
    int32_t *ids;
    size_t n_ids, n_back;
    char *back;
    hold(bn_tokenize(tok, text, n, flags, &ids, &n_ids, NULL) == BN_OK);
    for (size_t i = 0; i < n_ids; i++) {
        hold(ids[i] >= 0 && (size_t)ids[i] < bn_tokenizer_n_vocab(tok));
        hold((flags & BN_TOKENIZE_SPECIAL) || !bn_token_is_control(tok, ids[i]));
    }
    hold(bn_detokenize(tok, ids, n_ids, true, &back, &n_back, NULL) == BN_OK);
    hold(n_back == n && (n == 0 || memcmp(back, text, n) == 0));
    check_stream(tok, ids, n_ids, n);
    bn_free(back);
    bn_free(ids);
}

static void check_chat(bn_template tmpl, const char *text, size_t n)
{
    char *copy = bn_strndup(text, n);
    hold(copy != NULL);
    const bn_message message = {"user", copy}, harmless = {"user", "x"};
    size_t control[2] = {0};
    for (int i = 0; i < 2; i++) {
        int32_t *ids;
        size_t n_ids;
        hold(bn_template_encode(tmpl, gpt2.tok, i == 0 ? &message : &harmless, 1, &ids, &n_ids, NULL) ==
             BN_OK);
        for (size_t k = 0; k < n_ids; k++)
            control[i] += bn_token_is_control(gpt2.tok, ids[k]);
        bn_free(ids);
    }
    hold(control[0] == control[1]);
    bn_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    open_once();
    if (n == 0) return 0;
    if (n > 2048) n = 2048; /* short texts reach everything, and many more of them can be tried */
    const char *text = (const char *)data + 1;
    unsigned flags = data[0] & 1 ? BN_TOKENIZE_SPECIAL : 0;
    check_text(data[0] & 2 ? spm.tok : gpt2.tok, text, n - 1, flags);
    if (data[0] & 4) check_chat((bn_template)(1 + (data[0] >> 3) % (BN_TEMPLATE_COUNT - 1)), text, n - 1);
    return 0;
}
