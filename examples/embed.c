/* SPDX-License-Identifier: MIT
 *
 * Prints the cosine of two texts: the dot product of their embeddings.
 *
 *     cc embed.c $(pkg-config --cflags --libs bn) -o embed
 *     ./embed model.gguf 'Peace is near.' 'War is over.'
 */
#include <bn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bn_status embed(bn_session *session, const bn_tokenizer *tok, const char *text, float *vector,
                       bn_error *err)
{
    bn_embed_options options = {sizeof options, BN_POOLING_MEAN, false};
    int32_t *ids = NULL;
    size_t n_ids = 0;
    bn_status status = bn_tokenize(tok, text, strlen(text), BN_TOKENIZE_BOS, &ids, &n_ids, err);
    if (status == BN_OK) status = bn_session_embed(session, ids, n_ids, &options, vector, err);
    bn_free(ids);
    return status;
}

int main(int argc, char **argv)
{
    bn_error err;
    bn_model *model = NULL;
    bn_session *session = NULL;
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODEL.gguf TEXT TEXT\n", argv[0]);
        return 2;
    }
    memset(&err, 0, sizeof err);
    bn_status status = bn_model_open(&model, argv[1], NULL, &err);
    size_t n = status == BN_OK ? bn_model_get(model, BN_MODEL_N_EMBD) : 0;
    float *a = (float *)calloc(2 * n + 1, sizeof *a), *b = a + n;
    if (status == BN_OK) status = bn_session_open(&session, model, NULL, &err);
    if (status == BN_OK) status = embed(session, bn_model_tokenizer(model), argv[2], a, &err);
    if (status == BN_OK) status = embed(session, bn_model_tokenizer(model), argv[3], b, &err);
    double cosine = 0;
    for (size_t i = 0; i < n; i++)
        cosine += (double)a[i] * (double)b[i];
    if (status == BN_OK) printf("%.6f\n", cosine);
    if (status != BN_OK) fprintf(stderr, "error: %s%s%s\n", err.where, err.where[0] ? ": " : "", err.msg);
    free(a);
    bn_session_close(session);
    bn_model_close(model);
    return status != BN_OK;
}
