/* SPDX-License-Identifier: MIT
 *
 * A sample of the logits of one row, of this engine and of the reference, for a scatter plot: at most SAMPLE
 * tokens. It has the best tokens of both engines, those with the largest differences, and every n-th of the
 * others.
 */
#include <math.h>

#include "base/error.h"
#include "tools/crossval/crossval.h"

#define SAMPLE 1000u
#define FARTHEST 40u

struct row {
    const float *ours, *theirs;
    size_t n;
    unsigned char *taken; /* n flags */
};

static void take_best(struct row *row, const float *x, size_t best[BN_METRICS_K], size_t k)
{
    bn_best(x, row->n, k, best);
    for (size_t i = 0; i < k; i++)
        row->taken[best[i]] = 1;
}

static void take_farthest(struct row *row)
{
    for (unsigned i = 0; i < FARTHEST; i++) {
        size_t at = row->n;
        float most = -1;
        for (size_t v = 0; v < row->n; v++) {
            float apart = fabsf(row->ours[v] - row->theirs[v]);
            if (row->taken[v] || !(apart > most)) continue;
            most = apart;
            at = v;
        }
        if (at < row->n) row->taken[at] = 1;
    }
}

/* Every n-th of the others. */
static void take_evenly(struct row *row)
{
    size_t room = SAMPLE - FARTHEST - 2 * BN_METRICS_K, step = (row->n + room - 1) / room;
    for (size_t v = 0; v < row->n; v += step)
        row->taken[v] = 1;
}

static void put_taken(bn_json *object, const char *name, const struct row *row, const float *x)
{
    bn_json *list = bn_json_put_array(object, name);
    for (size_t v = 0; v < row->n; v++)
        if (row->taken[v]) bn_json_add_number(list, (double)x[v]);
}

static void put_best(bn_json *object, const char *name, const bn_tokenizer *tok, const size_t *best, size_t k)
{
    bn_json *list = bn_json_put_array(object, name);
    for (size_t i = 0; i < k; i++) {
        const char *bytes = NULL;
        char shown[64];
        bn_json *token = bn_json_add_object(list);
        size_t n = tok != NULL ? bn_token_bytes(tok, (int32_t)best[i], &bytes) : 0;
        bn_json_put_u64(token, "id", best[i]);
        bn_json_put_string(token, "text",
                           n > 0 ? bn_escape(shown, sizeof shown, bytes, bn_min_size(n, 15)) : NULL);
    }
}

void bn_crossval_put_scatter(const struct bn_crossval *x, const struct bn_xref *ref, bn_json *reference)
{
    size_t at = ref->rungs[BN_RUNG_POSITIONS].sum.of[BN_METRIC_COSINE].worst_row, n = x->n_vocab;
    size_t k = bn_min_size(BN_METRICS_K, n), ours[BN_METRICS_K], theirs[BN_METRICS_K];
    struct row row = {x->logits + at * n, ref->logits + at * n, n, bn_alloc(n, 1)};
    if (row.taken == NULL) return; /* the document has no scatter plot */
    memset(row.taken, 0, n);
    take_best(&row, row.ours, ours, k);
    take_best(&row, row.theirs, theirs, k);
    take_farthest(&row);
    take_evenly(&row);
    bn_json *scatter = bn_json_put_object(reference, "scatter");
    bn_json_put_u64(scatter, "position", at);
    bn_json_put_u64(scatter, "of", n);
    bn_json *ids = bn_json_put_array(scatter, "ids");
    for (size_t v = 0; v < n; v++)
        if (row.taken[v]) bn_json_add_u64(ids, v);
    put_taken(scatter, "here", &row, row.ours);
    put_taken(scatter, "there", &row, row.theirs);
    put_best(scatter, "best_here", bn_model_tokenizer(x->model), ours, k);
    put_best(scatter, "best_there", bn_model_tokenizer(x->model), theirs, k);
    bn_free(row.taken);
}
