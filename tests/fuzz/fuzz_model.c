/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a model: opened as a whole, and when that succeeds a text is tokenized and a few tokens are
 * evaluated.
 */
#include "tests/fuzz/fuzz.h"

#include "base/mem.h"

#define MAX_LOGITS (1u << 20)

static void evaluate(const bn_model *model)
{
    const bn_session_options options = {.n_ctx = 4, .n_batch = 2, .n_threads = 1};
    bn_session *session = NULL;
    uint32_t n_vocab = bn_model_hparams(model)->n_vocab;
    float *logits = bn_alloc(n_vocab, sizeof *logits);
    if (logits != NULL && bn_session_open(&session, model, &options, NULL) == BN_OK) {
        const int32_t ids[] = {0, (int32_t)(n_vocab - 1), (int32_t)(n_vocab / 2)};
        bn_status status = bn_session_eval(session, ids, 3, BN_LOGITS_LAST, logits, NULL);
        if (status != BN_OK && status != BN_ERR_FORMAT) abort(); /* FORMAT: activations that are not finite */
    }
    bn_session_close(session);
    bn_free(logits);
}

static void tokenize(const bn_tokenizer *tok)
{
    static const char TEXT[] = "To be, or not to be: \xC3\xA9\xFF 1234\n\n<|eot_id|>";
    int32_t *ids = NULL;
    size_t n_ids = 0, n_text = 0;
    char *text = NULL;
    if (bn_tokenize(tok, TEXT, sizeof TEXT - 1, BN_TOKENIZE_BOS | BN_TOKENIZE_SPECIAL, &ids, &n_ids, NULL) ==
        BN_OK) {
        for (size_t i = 0; i < n_ids; i++)
            if (ids[i] < 0 || (size_t)ids[i] >= bn_tokenizer_n_vocab(tok)) abort();
        if (bn_detokenize(tok, ids, n_ids, true, &text, &n_text, NULL) == BN_OK) bn_free(text);
        bn_free(ids);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *copy = NULL;
    bn_model *model = NULL;
    if (posix_memalign(&copy, BN_ALIGNMENT, size > 0 ? size : 1) != 0) abort();
    if (size > 0) memcpy(copy, data, size);
    hold(succeeds(bn_model_open_memory(&model, copy, size, "fuzz", NULL, &err)) == (model != NULL));
    if (model != NULL) {
        if (bn_model_tokenizer(model) != NULL) tokenize(bn_model_tokenizer(model));
        if (bn_model_hparams(model)->n_vocab < MAX_LOGITS) evaluate(model);
    }
    bn_model_close(model);
    free(copy);
    return 0;
}
