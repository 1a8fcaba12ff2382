/* SPDX-License-Identifier: MIT
 *
 * A batch on several ranks. Rank 0 reads the receipts' names, or their texts, and prints the results; in each round every
 * rank checks and replays its part, receipt i on rank i modulo their number. Files are read where they are checked, so all
 * ranks need them, and the models, under the same names.
 */
#include "tools/cli/ranks.h"
#include "base/error.h"
#include "tools/cli/report.h"
#include "tools/verify-receipt/verify_receipt.h"

#define ROUND_SEQUENCES 2u /* receipts of a rank in a round, for each that is replayed at a time */
#define ROUND_BYTES ((size_t)256 << 20) /* of texts that are sent in a round */

/* What rank 0 sends first. */
struct header {
    uint64_t n_items, n_bytes, ends;
};

struct round {
    const struct bn_ranks *ranks;
    struct bn_verify_item *items; /* rank 0: all; others: their part, at the same places */
    size_t n, most;
    size_t n_fed, n_done;             /* of this rank's part */
    struct bn_verify_result *results; /* of rank 0, then of rank 1, and so on */
    size_t *edges;                    /* bytes of each rank's results */
};

static void release_items(struct round *r)
{
    for (size_t i = 0; i < r->n; i++)
        bn_verify_item_release(&r->items[i]);
    r->n = r->n_fed = r->n_done = 0;
}

/* ---- sending items ---- */

static void put_item(struct bn_buf *out, const struct bn_verify_item *item)
{
    const uint64_t fields[] = {strlen(item->file), item->line, item->text.len, item->too_long};
    bn_buf_append(out, fields, sizeof fields);
    bn_buf_append(out, item->file, strlen(item->file));
    bn_buf_append(out, bn_buf_text(&item->text), item->text.len);
}

/* Reads an item, or skips it. The bytes come from rank 0 of the same program. */
static bn_status get_item(struct bn_verify_item *item, const char **at, bool skip, bn_error *err)
{
    uint64_t fields[4];
    memcpy(fields, *at, sizeof fields);
    const char *file = *at + sizeof fields, *text = file + fields[0];
    *at = text + fields[2];
    *item = (struct bn_verify_item){0};
    if (skip) return BN_OK;
    item->file = bn_strndup(file, fields[0]);
    item->line = fields[1];
    item->too_long = fields[3] != 0;
    item->text.max = BN_JSON_MAX_BYTES;
    bn_buf_append(&item->text, text, fields[2]);
    return item->file != NULL ? bn_buf_check(&item->text, err) : bn_nomem(err);
}

/* Rank 0 reads the items of a round. */
static bn_status read_round(struct round *r, struct bn_verify_source *source, struct bn_buf *out,
                            struct header *head, bn_error *err)
{
    bool more = bn_cli_interrupted() == 0 && head->ends == 0;
    while (more && r->n < r->most && out->len < ROUND_BYTES) {
        BN_TRY(bn_verify_source_next(source, &r->items[r->n], &more, err));
        if (more) put_item(out, &r->items[r->n++]);
    }
    *head = (struct header){r->n, out->len, r->n == 0};
    return bn_buf_check(out, err);
}

static bn_status share_round(struct round *r, struct bn_buf *bytes, struct header *head, bn_error *err)
{
    const struct bn_ranks *ranks = r->ranks;
    BN_TRY(ranks->broadcast(ranks->context, 0, head, sizeof *head, err));
    if (ranks->index == 0) return ranks->broadcast(ranks->context, 0, bytes->data, bytes->len, err);
    char *data = bn_alloc(head->n_bytes + 1, 1);
    if (data == NULL) return bn_nomem(err);
    bn_status status = ranks->broadcast(ranks->context, 0, data, head->n_bytes, err);
    const char *at = data;
    for (; r->n < head->n_items && status == BN_OK; r->n++)
        status = get_item(&r->items[r->n], &at, r->n % ranks->count != ranks->index, err);
    bn_free(data);
    return status;
}

/* ---- the part of this rank ---- */

static bn_status next(void *user, struct bn_verify_item *item, bool *more, bn_error *err)
{
    struct round *r = user;
    size_t i = r->n_fed * r->ranks->count + r->ranks->index;
    (void)err;
    *more = i < r->n;
    if (!*more) return BN_OK;
    r->n_fed++;
    *item = r->items[i];
    if (r->ranks->index != 0) {
        r->items[i] = (struct bn_verify_item){0};
        return BN_OK;
    }
    item->file = bn_strndup(r->items[i].file, strlen(r->items[i].file)); /* rank 0 prints the name later */
    r->items[i].text = (struct bn_buf){0};
    return item->file != NULL ? BN_OK : bn_nomem(err);
}

static bn_status done(void *user, const struct bn_verify_item *item, const struct bn_verify_result *result,
                      bn_error *err)
{
    struct round *r = user;
    (void)item;
    (void)err;
    struct bn_verify_result *mine = &r->results[r->edges[r->ranks->index] / sizeof *r->results + r->n_done++];
    *mine = *result;
    mine->present = true;
    return BN_OK;
}

static void divide(struct round *r)
{
    unsigned count = r->ranks->count;
    memset(r->results, 0, r->most * sizeof *r->results);
    for (unsigned k = 0; k < count; k++)
        r->edges[k + 1] = r->edges[k] + (r->n + count - 1 - k) / count * sizeof *r->results;
}

/* Adds the results in the order of the items, up to the first one that an interrupted rank does not have. */
static bn_status add_results(const struct round *r, struct bn_verify_results *results, struct header *head,
                             bn_error *err)
{
    for (size_t i = 0; i < r->n; i++) {
        size_t first = r->edges[i % r->ranks->count] / sizeof *r->results;
        const struct bn_verify_result *result = &r->results[first + i / r->ranks->count];
        if (!result->present) {
            head->ends = 1;
            return BN_OK;
        }
        BN_TRY(bn_verify_results_add(results, &r->items[i], result, err));
    }
    return BN_OK;
}

static bn_status one_round(struct round *r, struct bn_verify_pipeline *pipeline,
                           struct bn_verify_source *source, struct bn_verify_results *results,
                           struct header *head, bn_error *err)
{
    const struct bn_verify_feed feed = {next, done, r};
    struct bn_buf bytes = {.max = SIZE_MAX / 4};
    bn_status status = BN_OK;
    if (r->ranks->index == 0) status = read_round(r, source, &bytes, head, err);
    if (status == BN_OK) status = share_round(r, &bytes, head, err);
    bn_buf_release(&bytes);
    BN_TRY(status);
    divide(r);
    BN_TRY(bn_verify_pipeline_run(pipeline, &feed, err));
    BN_TRY(r->ranks->gather(r->ranks->context, r->results, r->edges, err));
    return r->ranks->index == 0 ? add_results(r, results, head, err) : BN_OK;
}

bn_status bn_verify_ranks_run(const struct bn_ranks *ranks, uint32_t n_sequences,
                              struct bn_verify_pipeline *pipeline, struct bn_verify_source *source,
                              struct bn_verify_results *results, bn_error *err)
{
    struct round r = {.ranks = ranks, .most = (size_t)ROUND_SEQUENCES * n_sequences * ranks->count};
    struct header head = {0};
    bool ends = false;
    r.items = bn_alloc(r.most, sizeof *r.items);
    r.results = bn_alloc(r.most, sizeof *r.results);
    r.edges = bn_alloc(ranks->count + 1, sizeof *r.edges);
    bn_status status = r.items != NULL && r.results != NULL && r.edges != NULL ? BN_OK : bn_nomem(err);
    while (status == BN_OK && !ends) {
        status = one_round(&r, pipeline, source, results, &head, err);
        ends = r.n == 0;
        release_items(&r);
    }
    bn_free(r.items);
    bn_free(r.results);
    bn_free(r.edges);
    return status;
}
