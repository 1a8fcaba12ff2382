/* SPDX-License-Identifier: MIT
 *
 * Evaluates a prompt, and prints how long each brick of the forward pass took on the first thread, and the tree of the pass:
 * layers, bricks, kernels.
 *
 *     cc profile.c $(pkg-config --cflags --libs bn) -o profile
 *     ./profile model.gguf 'ROMEO:'
 */
#define BN_EXPERIMENTAL
#include <bn.h>
#include <stdio.h>
#include <string.h>

static void print_bricks(bn_session *session)
{
    const bn_event *e;
    const char *name;
    for (size_t b = 0; (name = bn_brick_at(b)) != NULL; b++) {
        uint64_t n = 0, ns = 0, bytes = 0;
        for (size_t i = 0; (e = bn_session_event(session, i)) != NULL; i++) {
            if (e->thread > 0 || e->kind != BN_EVENT_BRICK || strcmp(e->name, name) != 0) continue;
            n++, ns += e->ns, bytes += e->bytes;
        }
        if (n > 0)
            printf("%-20s %5d times %10.1f us %8.2f GB/s\n", name, (int)n, (double)ns / 1e3,
                   ns > 0 ? (double)bytes / (double)ns : 0);
    }
}

/* Events are listed with the last first, each after the one that contains it. */
static void print_tree(bn_session *session, size_t parent, size_t n, int depth)
{
    for (size_t i = n; i-- > 0;) {
        const bn_event *e = bn_session_event(session, i);
        if (e->thread > 0 || e->parent != parent) continue;
        if (e->name != NULL)
            printf("%*s%s", depth, "", e->name);
        else
            printf("%*s%s %d", depth, "", e->kind == BN_EVENT_PASS ? "Pass" : "Layer", (int)e->index);
        printf("  %.1f us\n", (double)e->ns / 1e3);
        print_tree(session, i, n, depth + 2);
    }
}

int main(int argc, char **argv)
{
    bn_error err;
    bn_model *model = NULL;
    bn_session *session = NULL;
    int32_t *ids = NULL;
    size_t n_ids = 0, n = 0;
    if (argc != 3) {
        fprintf(stderr, "usage: %s MODEL.gguf PROMPT\n", argv[0]);
        return 2;
    }
    memset(&err, 0, sizeof err);
    bn_status status = bn_model_open(&model, argv[1], NULL, &err);
    if (status == BN_OK)
        status = bn_tokenize(bn_model_tokenizer(model), argv[2], strlen(argv[2]), BN_TOKENIZE_BOS, &ids,
                             &n_ids, &err);
    if (status == BN_OK) status = bn_session_open(&session, model, NULL, &err);
    if (status == BN_OK) status = bn_session_record(session, (uint32_t)n_ids, n_ids, &err);
    if (status == BN_OK) status = bn_session_eval(session, ids, n_ids, BN_LOGITS_NONE, NULL, &err);
    while (status == BN_OK && bn_session_event(session, n) != NULL)
        n++;
    if (n > 0) print_bricks(session);
    print_tree(session, SIZE_MAX, n, 0);
    if (status != BN_OK) fprintf(stderr, "error: %s%s%s\n", err.where, err.where[0] ? ": " : "", err.msg);
    bn_session_close(session);
    bn_free(ids);
    bn_model_close(model);
    return status != BN_OK;
}
