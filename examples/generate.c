/* SPDX-License-Identifier: MIT
 *
 * Continues a prompt, and prints each piece of text when it is there. With a chain of digests, as it prints one, it verifies
 * instead: the chain covers the hidden states and the best logits of all steps, so it proves that this model made these tokens.
 *
 *     cc generate.c $(pkg-config --cflags --libs bn) -o generate
 *     ./generate model.gguf 'ROMEO:' 32 [CHAIN]
 */
#include <bn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool print_text(void *user, int32_t id, const char *text, size_t n_bytes)
{
    (void)user, (void)id;
    fwrite(text, 1, n_bytes, stdout);
    return fflush(stdout) == 0; /* false stops the generation */
}

static bool print_progress(void *user, uint32_t done, uint32_t total)
{
    (void)user;
    fprintf(stderr, "\rloading %u %%%s", done * 100 / total, done == total ? "\n" : "");
    return true; /* false cancels */
}

static bn_status generate(const bn_model *model, char **argv, bn_error *err)
{
    const bn_tokenizer *tok = bn_model_tokenizer(model);
    const char *prompt = argv[2], *chain = argv[4];
    bn_session *session = NULL;
    bn_query *query = NULL;
    bn_generation *generation = NULL;
    int32_t *ids = NULL;
    size_t n_ids = 0;
    bn_status status = bn_tokenize(tok, prompt, strlen(prompt), BN_TOKENIZE_BOS, &ids, &n_ids, err);
    if (status == BN_OK) status = bn_query_open(&query, ids, n_ids, err);
    if (status == BN_OK) status = bn_query_set(query, BN_SET_N_PREDICT, atoi(argv[3]), err);
    if (status == BN_OK) status = bn_query_set(query, BN_SET_CHAIN, 1, err);
    if (status == BN_OK) status = bn_session_open(&session, model, NULL, err);
    if (status == BN_OK) {
        if (chain == NULL) bn_query_set_callback(query, print_text, NULL);
        status = bn_session_generate(session, tok, query, &generation, err);
    }
    if (status == BN_OK && chain != NULL) {
        bool same = strcmp(bn_generation_chain(generation), chain) == 0;
        puts(same ? "verified" : "the chain differs");
        status = same ? BN_OK : BN_ERR_MISMATCH;
    } else if (status == BN_OK) {
        printf("\n[%.0f ms; stopped: %s; chain: %s]\n",
               (double)bn_generation_get(generation, BN_GENERATION_TOTAL_NS) / 1e6,
               bn_stop_reason_name(bn_generation_reason(generation)), bn_generation_chain(generation));
    }
    bn_generation_close(generation);
    bn_session_close(session);
    bn_query_close(query);
    bn_free(ids);
    return status;
}

int main(int argc, char **argv)
{
    bn_error err;
    bn_model_options options;
    bn_model *model = NULL;
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: %s MODEL.gguf PROMPT N [CHAIN]\n", argv[0]);
        return 2;
    }
    memset(&err, 0, sizeof err);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.repack = BN_REPACK_AUTO;
    options.progress = print_progress;
    bn_status status = bn_model_open(&model, argv[1], &options, &err);
    if (status == BN_OK) status = generate(model, argv, &err);
    if (err.msg[0] != '\0') fprintf(stderr, "error: %s%s%s\n", err.where, err.where[0] ? ": " : "", err.msg);
    bn_model_close(model);
    return status != BN_OK;
}
