/* SPDX-License-Identifier: MIT
 *
 * Repeats a generation and compares its chain of digests with the one that somebody reports, as generate.c prints it. The
 * chain covers the hidden states and the best logits of all steps, so it proves that this model made these tokens.
 *
 *     cc verify.c $(pkg-config --cflags --libs bn) -o verify
 *     ./verify model.gguf 'ROMEO:' 32 CHAIN
 */
#include <bn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bn_status repeat(const bn_model *model, char **argv, bool *same, bn_error *err)
{
    const bn_tokenizer *tok = bn_model_tokenizer(model);
    bn_session *session = NULL;
    bn_query *query = NULL;
    bn_generation *generation = NULL;
    int32_t *ids = NULL;
    size_t n_ids = 0;
    bn_status status = bn_tokenize(tok, argv[2], strlen(argv[2]), BN_TOKENIZE_BOS, &ids, &n_ids, err);
    if (status == BN_OK) status = bn_query_open(&query, ids, n_ids, err);
    if (status == BN_OK) status = bn_query_set(query, BN_SET_N_PREDICT, atoi(argv[3]), err);
    if (status == BN_OK) status = bn_query_set(query, BN_SET_CHAIN, 1, err);
    if (status == BN_OK) status = bn_session_open(&session, model, NULL, err);
    if (status == BN_OK) status = bn_session_generate(session, tok, query, &generation, err);
    if (status == BN_OK) *same = strcmp(bn_generation_chain(generation), argv[4]) == 0;
    bn_generation_close(generation);
    bn_session_close(session);
    bn_query_close(query);
    bn_free(ids);
    return status;
}

int main(int argc, char **argv)
{
    bn_error err;
    bn_model *model = NULL;
    bool same = false;
    if (argc != 5) {
        fprintf(stderr, "usage: %s MODEL.gguf PROMPT N CHAIN\n", argv[0]);
        return 2;
    }
    memset(&err, 0, sizeof err);
    bn_status status = bn_model_open(&model, argv[1], NULL, &err);
    if (status == BN_OK) status = repeat(model, argv, &same, &err);
    if (status != BN_OK) fprintf(stderr, "error: %s%s%s\n", err.where, err.where[0] ? ": " : "", err.msg);
    if (status == BN_OK) puts(same ? "verified" : "the chain differs");
    bn_model_close(model);
    return !same;
}
