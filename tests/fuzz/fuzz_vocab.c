/* SPDX-License-Identifier: MIT
 *
 * Damaged vocabularies: the input patches the bytes of a good file (first byte: which one; then three bytes
 * each: u16 place, new value). Whatever still opens has to encode, decode to the same bytes and give a
 * digest.
 */
#include "tests/fuzz/fuzz.h"

#include "tests/unit/engine/vocab_maker.h"

static struct bn_buf files[2];

static void make_once(void)
{
    if (files[0].data != NULL) return;
    for (int kind = 0; kind < 2; kind++) {
        struct maker m = kind == 0 ? maker_gpt2() : maker_spm();
        if (kind == 0) maker_marks(&m);
        maker_token(&m, "@@user@@", BN_TOKEN_USER, 0);
        bn_gguf_put_bool(&m.w, "tokenizer.ggml.add_bos_token", true);
        bn_gguf_put_str(&m.w, "tokenizer.chat_template", "{{ BITNET }}", 12);
        hold(maker_open(&m, "bitnet") == BN_OK);
        files[kind].max = m.file.max;
        bn_buf_append(&files[kind], m.file.data, m.file.len);
        maker_release(&m);
    }
}

static void use(const bn_tokenizer *tok)
{
    static const char TEXT[] =
        "hello world  aaaa @@user@@ <|eot_id|></s> 123 h\xC3\xA9 \xE4\xBD\xA0\xFF\n\n\xE2\x96\x81 "
        "helloworldhelloworldhelloworldhelloworldhelloworldhelloworld";
    char hex[65];
    for (unsigned flags = 0; flags < 4; flags++) {
        int32_t *ids;
        size_t n_ids, n_back;
        char *back;
        bn_status status = bn_tokenize(tok, TEXT, sizeof TEXT - 1, flags, &ids, &n_ids, NULL);
        if (status == BN_ERR_UNSUPPORTED) continue; /* a byte has lost its token */
        hold(status == BN_OK);
        bool exact = !(flags & BN_TOKENIZE_BOS);
        for (size_t i = 0; i < n_ids; i++)
            if (tok->type[ids[i]] == BN_TOKEN_UNKNOWN || ids[i] == tok->unk) exact = false;
        hold(bn_detokenize(tok, ids, n_ids, true, &back, &n_back, NULL) == BN_OK);
        hold(!exact || (n_back == sizeof TEXT - 1 && memcmp(back, TEXT, n_back) == 0));
        bn_free(back);
        bn_free(ids);
    }
    hold(bn_tokenizer_digest(tok, hex, NULL) == BN_OK);
    for (int32_t id = -1; id <= (int32_t)bn_tokenizer_n_vocab(tok); id++) {
        const char *bytes;
        size_t n = bn_token_bytes(tok, id, &bytes);
        int32_t found = bn_token_find(tok, bytes, n);
        hold(found < (int32_t)bn_tokenizer_n_vocab(tok));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    make_once();
    if (n == 0) return 0;
    const struct bn_buf *good = &files[data[0] & 1];
    char *bytes = bn_alloc(good->len, 1);
    hold(bytes != NULL);
    memcpy(bytes, good->data, good->len);
    for (size_t i = 1; i + 3 <= n; i += 3) {
        size_t at = (size_t)(data[i] | data[i + 1] << 8);
        if (at < good->len) bytes[at] = (char)data[i + 2];
    }
    struct bn_gguf gguf;
    bn_tokenizer *tok;
    if (succeeds(bn_gguf_open(&gguf, bytes, good->len, &err))) {
        bn_status status = bn_tokenizer_open(&tok, &gguf, data[0] & 2 ? "bitnet" : "llama", &err);
        bn_gguf_close(&gguf);
        hold((status == BN_OK) == (tok != NULL));
        hold(status == BN_OK || status == BN_ERR_NOT_FOUND || err.code == status);
        if (tok != NULL) {
            memset(bytes, 0xAA, good->len); /* a tokenizer keeps nothing of its file */
            use(tok);
        }
        bn_tokenizer_close(tok);
    }
    bn_free(bytes);
    return 0;
}
