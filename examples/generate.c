/* SPDX-License-Identifier: MIT
 *
 * Continues a prompt, and prints each piece of text when it is there.
 *
 *     cc generate.c $(pkg-config --cflags --libs bn) -o generate
 *     ./generate model.gguf 'ROMEO:' 32
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

static bn_status generate(const bn_model *model, const char *prompt, uint32_t n_predict, bn_error *err)
{
    const bn_tokenizer *tok = bn_model_tokenizer(model);
    bn_session *session = NULL;
    bn_generation generation;
    int32_t *ids = NULL;
    memset(&generation, 0, sizeof generation); /* greedy, no stop texts */
    bn_status status =
        bn_tokenize(tok, prompt, strlen(prompt), BN_TOKENIZE_BOS, &ids, &generation.n_prompt, err);
    if (status == BN_OK) status = bn_session_open(&session, model, NULL, err);
    if (status == BN_OK) {
        generation.prompt = ids;
        generation.n_predict = n_predict;
        generation.on_token = print_text;
        status = bn_generate(session, tok, &generation, err);
    }
    if (status == BN_OK)
        printf("\n[%zu tokens in %.0f ms; stopped: %s]\n", generation.n_ids,
               (double)generation.total_ns / 1e6, bn_stop_reason_name(generation.reason));
    bn_generation_release(&generation);
    bn_session_close(session);
    bn_free(ids);
    return status;
}

int main(int argc, char **argv)
{
    bn_error err;
    bn_model_options options;
    bn_model *model = NULL;
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODEL.gguf PROMPT N\n", argv[0]);
        return BN_EXIT_USAGE;
    }
    memset(&err, 0, sizeof err);
    memset(&options, 0, sizeof options);
    options.repack = BN_REPACK_AUTO;
    options.progress = print_progress;
    bn_status status = bn_model_open(&model, argv[1], &options, &err);
    if (status == BN_OK) status = generate(model, argv[2], (uint32_t)atoi(argv[3]), &err);
    if (status != BN_OK) fprintf(stderr, "error: %s%s%s\n", err.where, err.where[0] ? ": " : "", err.msg);
    bn_model_close(model);
    return (int)bn_status_exit(status);
}
