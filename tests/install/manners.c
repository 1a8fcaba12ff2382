/* SPDX-License-Identifier: MIT
 *
 * A program that has an OpenSSL allocator of its own, or none, and uses what libbn needs digests and checksums for: a
 * generation with a chain, a saved timeline, a grammar. The allocator must be what it was, and nothing printed by libbn.
 * For tests/cli/install.sh: manners own|default MODEL FILE.
 */
#include <bn.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *own_malloc(size_t n, const char *file, int line)
{
    (void)file, (void)line;
    return malloc(n);
}

static void *own_realloc(void *p, size_t n, const char *file, int line)
{
    (void)file, (void)line;
    return realloc(p, n);
}

static void own_free(void *p, const char *file, int line)
{
    (void)file, (void)line;
    free(p);
}

static bn_status work(const char *path, const char *file, bn_error *err)
{
    static const char SCHEMA[] = "{\"type\": \"object\"}";
    const int32_t prompt[] = {1, 2, 3};
    bn_model *model = NULL;
    bn_session *session = NULL;
    bn_grammar *grammar = NULL;
    bn_query *query = NULL;
    bn_generation *generation = NULL;
    bn_status status = bn_model_open(&model, path, NULL, err);
    if (status == BN_OK) status = bn_session_open(&session, model, NULL, err);
    if (status == BN_OK) status = bn_grammar_open_json_schema(&grammar, SCHEMA, sizeof SCHEMA - 1, err);
    if (status == BN_OK) status = bn_query_open(&query, prompt, 3, err);
    if (status == BN_OK) status = bn_query_set(query, BN_SET_N_PREDICT, 4, err);
    if (status == BN_OK) status = bn_query_set(query, BN_SET_CHAIN, 1, err);
    if (status == BN_OK) status = bn_session_generate(session, NULL, query, &generation, err);
    if (status == BN_OK && strlen(bn_generation_chain(generation)) != 64) status = BN_ERR_INTERNAL;
    if (status == BN_OK) status = bn_session_save(session, 3, file, err);
    bn_generation_close(generation);
    bn_query_close(query);
    bn_grammar_close(grammar);
    bn_session_close(session);
    bn_model_close(model);
    return status;
}

int main(int argc, char **argv)
{
    CRYPTO_malloc_fn before_malloc, after_malloc;
    CRYPTO_realloc_fn before_realloc, after_realloc;
    CRYPTO_free_fn before_free, after_free;
    bn_error err = {0};
    if (argc != 4) return 2;
    if (strcmp(argv[1], "own") == 0 && CRYPTO_set_mem_functions(own_malloc, own_realloc, own_free) != 1)
        return 3;
    CRYPTO_get_mem_functions(&before_malloc, &before_realloc, &before_free);
    if (work(argv[2], argv[3], &err) != BN_OK) {
        fprintf(stderr, "%s: %s\n", err.where, err.msg);
        return 4;
    }
    CRYPTO_get_mem_functions(&after_malloc, &after_realloc, &after_free);
    if (before_malloc != after_malloc || before_realloc != after_realloc || before_free != after_free) {
        fputs("libbn changed the allocator of libcrypto\n", stderr);
        return 1;
    }
    return 0;
}
