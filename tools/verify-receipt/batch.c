/* SPDX-License-Identifier: MIT
 *
 * bn-verify-receipt of several receipts: from the source through the pipeline to the results, on one rank or several.
 *
 * Results are, on standard output, a line for each receipt that was not verified and a summary, or a line of JSON for each
 * receipt; and a JUnit file at the end. A line is written at once, so that a killed program leaves complete lines.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lab/kit/put_counts.h"
#include "lab/report/page.h"
#include "tools/cli/progress.h"
#include "tools/cli/ranks.h"
#include "tools/cli/text.h"
#include "tools/verify-receipt/verify_receipt.h"

#define MAX_LINE_BYTES (1u << 20)
#define MAX_PATH_BYTES 4096u
#define DIGEST_BYTES 16u

struct results {
    const struct bn_verify *v;
    struct bn_buf seen; /* the first DIGEST_BYTES hexadecimal digits of the digest of each */
    uint64_t n[BN_OUTCOME_COUNT], n_all, n_tokens, n_replayed, began_ns;
    struct bn_buf junit; /* the cases of --junit */
    struct bn_progress bar;
    char label[64];
};

/* ---- JUnit ---- */

static void put_case(struct bn_buf *out, const char *name, const struct bn_verify_result *result)
{
    static const char *const WORDS[BN_OUTCOME_COUNT] = {"", "failure", "skipped", "failure", "error"};
    bn_html(out, "    <testcase classname=\"bn-verify-receipt\" name=\"%s\" time=\"", name);
    bn_buf_printf(out, "%.6f\"", (double)(result->check_ns + result->replay_ns) / 1e9);
    if (result->outcome == BN_OUTCOME_VERIFIED)
        bn_html(out, "/>\n");
    else
        bn_html(out, "><%s type=\"%s\" message=\"%s\"/></testcase>\n", WORDS[result->outcome],
                result->rule[0] != '\0' ? result->rule : "receipt", result->reason);
}

static bn_status write_junit(const struct results *r, bn_error *err)
{
    struct bn_buf out = {.max = SIZE_MAX / 2};
    bn_buf_printf(&out,
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"bn-verify-receipt\">\n"
                  "  <testsuite name=\"receipts\" tests=\"%llu\" failures=\"%llu\" errors=\"%llu\" "
                  "skipped=\"%llu\" time=\"%.3f\">\n",
                  (unsigned long long)r->n_all,
                  (unsigned long long)(r->n[BN_OUTCOME_REFUSED] + r->n[BN_OUTCOME_UNBOUND]),
                  (unsigned long long)r->n[BN_OUTCOME_ERROR], (unsigned long long)r->n[BN_OUTCOME_UNDECIDED],
                  (double)(bn_clock_ns() - r->began_ns) / 1e9);
    bn_buf_append(&out, r->junit.data, r->junit.len);
    bn_buf_puts(&out, "  </testsuite>\n</testsuites>\n");
    bn_status status = bn_buf_check(&out, err);
    if (status == BN_OK) status = bn_file_write_atomic(r->v->options->junit, out.data, out.len, err);
    bn_buf_release(&out);
    return status;
}

/* ---- lines ---- */

static bn_json *make_line(uint64_t index, const struct bn_verify_item *item,
                          const struct bn_verify_result *result)
{
    bn_json *line = bn_json_new_object();
    BN_PUT(line, BN_U64("index", index), BN_STRING("file", item->file));
    if (item->line > 0) bn_json_put_u64(line, "line", item->line);
    BN_PUT(line, BN_STRING("verdict", bn_verify_outcomes[result->outcome].json),
           BN_FLAG("verified", result->outcome == BN_OUTCOME_VERIFIED), BN_FLAG("bound", result->bound),
           BN_FLAG("claimable", result->claimable), BN_STRING("level", result->level),
           BN_U64("exit_code", (uint64_t)result->exit_code), BN_TEXT("rule", result->rule),
           BN_TEXT("reason", result->reason), BN_TEXT("receipt_sha256", result->receipt_sha256),
           BN_TEXT("model_sha256", result->model_sha256), BN_U64("check_ns", result->check_ns),
           BN_FLAG("replayed", result->replayed));
    if (result->replayed) bn_json_put_u64(line, "replay_ns", result->replay_ns);
    if (result->replayed) bn_json_put_u64(line, "replayed_tokens", result->n_tokens);
    return line;
}

static void put_text(struct bn_buf *out, const char *name, const struct bn_verify_result *result)
{
    bn_buf_printf(out, "%s: %s", name, bn_verify_outcomes[result->outcome].text);
    if (result->outcome == BN_OUTCOME_VERIFIED)
        bn_buf_printf(out, ", level: %s", result->level);
    else if (result->rule[0] != '\0')
        bn_buf_printf(out, ", rule %s: %s", result->rule, result->reason);
    else
        bn_buf_printf(out, ": %s", result->reason);
    bn_buf_putc(out, '\n');
}

static bn_status print(struct results *r, const struct bn_verify_item *item, const char *name,
                       const struct bn_verify_result *result, bn_error *err)
{
    const struct bn_args *args = r->v->args;
    struct bn_buf out = {.max = MAX_LINE_BYTES};
    if (!args->json && args->verbose == 0 && result->outcome == BN_OUTCOME_VERIFIED) return BN_OK;
    bn_progress_clear(&r->bar);
    if (args->json) return bn_cli_flush_json(make_line(r->n_all, item, result), true, err);
    put_text(&out, name, result);
    bn_status status = bn_cli_print_text(&out, err);
    fflush(stdout);
    return status;
}

static bn_status add_result(struct results *r, const struct bn_verify_item *item,
                            const struct bn_verify_result *result, bn_error *err)
{
    struct bn_buf name = {.max = 2 * MAX_PATH_BYTES}; /* "receipts/7.json", "all.jsonl:17" */
    char escaped[MAX_PATH_BYTES];
    bn_buf_puts(&name, bn_escape(escaped, sizeof escaped, item->file, strlen(item->file)));
    if (item->line > 0) bn_buf_printf(&name, ":%llu", (unsigned long long)item->line);
    bn_status status = bn_buf_check(&name, err);
    if (status == BN_OK) status = print(r, item, bn_buf_text(&name), result, err);
    if (status == BN_OK && r->v->options->junit != NULL) put_case(&r->junit, bn_buf_text(&name), result);
    bn_buf_release(&name);
    if (status == BN_OK) status = bn_buf_check(&r->junit, err);
    if (result->receipt_sha256[0] != '\0') bn_buf_append(&r->seen, result->receipt_sha256, DIGEST_BYTES);
    if (status == BN_OK) status = bn_buf_check(&r->seen, err);
    r->n[result->outcome]++;
    r->n_all++;
    r->n_tokens += result->n_tokens;
    r->n_replayed += result->replayed;
    snprintf(r->label, sizeof r->label, "receipts: %llu", (unsigned long long)r->n_all);
    r->bar.label = r->label;
    bn_progress_show(&r->bar, r->n_all);
    return status;
}

/* ---- the end ---- */

static void put_count(struct bn_buf *out, uint64_t n, const char *what)
{
    if (n > 0) bn_buf_printf(out, ", %llu %s", (unsigned long long)n, what);
}

static int by_value(const void *a, const void *b)
{
    return memcmp(a, b, DIGEST_BYTES);
}

static uint64_t count_duplicates(struct results *r)
{
    size_t n = r->seen.len / DIGEST_BYTES, n_same = 0;
    if (n > 1) qsort(r->seen.data, n, DIGEST_BYTES, by_value);
    for (size_t i = 1; i < n; i++)
        n_same += by_value(r->seen.data + (i - 1) * DIGEST_BYTES, r->seen.data + i * DIGEST_BYTES) == 0;
    return n_same;
}

static bn_status print_summary(struct results *r, const struct bn_verify_source *source, bn_error *err)
{
    const char *first;
    uint64_t n_skipped = bn_verify_source_skipped(source, &first);
    double seconds = (double)(bn_clock_ns() - r->began_ns) / 1e9;
    struct bn_buf out = {.max = MAX_LINE_BYTES};
    bn_buf_printf(&out, "%llu receipt%s: %llu verified", (unsigned long long)r->n_all, bn_cli_s(r->n_all),
                  (unsigned long long)r->n[BN_OUTCOME_VERIFIED]);
    put_count(&out, r->n[BN_OUTCOME_REFUSED], "refused");
    put_count(&out, r->n[BN_OUTCOME_UNDECIDED], "undecided");
    put_count(&out, r->n[BN_OUTCOME_UNBOUND], "bound to no run");
    put_count(&out, r->n[BN_OUTCOME_ERROR], "not readable as receipts");
    put_count(&out, count_duplicates(r), "duplicates of others");
    put_count(&out, n_skipped, "not looked at");
    if (n_skipped > 0) bn_report_warning("not looked at: %s%s", first, n_skipped > 1 ? " and others" : "");
    bn_buf_printf(&out, "; %.1f s, %.1f receipts/s", seconds, (double)r->n_all / seconds);
    if (r->n_replayed > 0) bn_buf_printf(&out, ", %.1f replayed tok/s", (double)r->n_tokens / seconds);
    BN_TRY(bn_buf_check(&out, err));
    if (r->v->args->json)
        bn_report_note(0, "%s", bn_buf_text(&out));
    else if (!r->v->args->quiet)
        puts(bn_buf_text(&out));
    bn_buf_release(&out);
    return BN_OK;
}

static bn_status finish(struct results *r, const struct bn_verify_source *source, int *exit_code,
                        bn_error *err)
{
    const char *first;
    bn_progress_clear(&r->bar);
    *exit_code =
        r->n[BN_OUTCOME_REFUSED] + r->n[BN_OUTCOME_ERROR] > 0 ? BN_EXIT_NEGATIVE
        : r->n[BN_OUTCOME_UNDECIDED] + r->n[BN_OUTCOME_UNBOUND] + bn_verify_source_skipped(source, &first) > 0
            ? BN_EXIT_UNSUPPORTED
            : BN_EXIT_OK;
    if (r->v->options->junit != NULL) BN_TRY(write_junit(r, err));
    return print_summary(r, source, err);
}

/* ---- ranks ----
 *
 * Rank 0 reads the receipts' names, or their texts, and prints the results; in each round every rank checks and replays its
 * part, receipt i on rank i modulo their number. Files are read where they are checked, so all ranks need them, and the
 * models, under the same names. */

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

static bn_status next_of_round(void *user, struct bn_verify_item *item, bool *more, bn_error *err)
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

static bn_status keep_result(void *user, const struct bn_verify_item *item,
                             const struct bn_verify_result *result, bn_error *err)
{
    struct round *r = user;
    (void)item;
    (void)err;
    struct bn_verify_result *mine = &r->results[r->edges[r->ranks->index] / sizeof *r->results + r->n_done++];
    *mine = *result;
    mine->present = true;
    return BN_OK;
}

/* Adds the results in the order of the items, up to the first one that an interrupted rank does not have. */
static bn_status add_results(const struct round *r, struct results *results, struct header *head,
                             bn_error *err)
{
    for (size_t i = 0; i < r->n; i++) {
        size_t first = r->edges[i % r->ranks->count] / sizeof *r->results;
        const struct bn_verify_result *result = &r->results[first + i / r->ranks->count];
        if (!result->present) {
            head->ends = 1;
            return BN_OK;
        }
        BN_TRY(add_result(results, &r->items[i], result, err));
    }
    return BN_OK;
}

static bn_status one_round(struct round *r, struct bn_verify_pipeline *pipeline,
                           struct bn_verify_source *source, struct results *results, struct header *head,
                           bn_error *err)
{
    const struct bn_verify_feed feed = {next_of_round, keep_result, r};
    const unsigned count = r->ranks->count;
    struct bn_buf bytes = {.max = SIZE_MAX / 4};
    bn_status status = BN_OK;
    if (r->ranks->index == 0) status = read_round(r, source, &bytes, head, err);
    if (status == BN_OK) status = share_round(r, &bytes, head, err);
    bn_buf_release(&bytes);
    BN_TRY(status);
    memset(r->results, 0, r->most * sizeof *r->results);
    for (unsigned k = 0; k < count; k++)
        r->edges[k + 1] = r->edges[k] + (r->n + count - 1 - k) / count * sizeof *r->results;
    BN_TRY(bn_verify_pipeline_run(pipeline, &feed, err));
    BN_TRY(r->ranks->gather(r->ranks->context, r->results, r->edges, err));
    return r->ranks->index == 0 ? add_results(r, results, head, err) : BN_OK;
}

static bn_status run_ranks(const struct bn_ranks *ranks, uint32_t n_sequences,
                           struct bn_verify_pipeline *pipeline, struct bn_verify_source *source,
                           struct results *results, bn_error *err)
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
        for (size_t i = 0; i < r.n; i++)
            bn_verify_item_release(&r.items[i]);
        r.n = r.n_fed = r.n_done = 0;
    }
    bn_free(r.items);
    bn_free(r.results);
    bn_free(r.edges);
    return status;
}

/* ---- all of it ---- */

struct batch {
    struct bn_ranks ranks;
    struct bn_verify_source *source;
    struct bn_verify_pipeline *pipeline;
    struct results results;
};

static bn_status next(void *user, struct bn_verify_item *item, bool *more, bn_error *err)
{
    struct batch *b = user;
    return bn_verify_source_next(b->source, item, more, err);
}

static bn_status done(void *user, const struct bn_verify_item *item, const struct bn_verify_result *result,
                      bn_error *err)
{
    struct batch *b = user;
    return add_result(&b->results, item, result, err);
}

static bn_status open_batch(struct batch *b, struct bn_verify *v, bn_error *err)
{
    BN_TRY(bn_verify_open_models(v, err));
    BN_TRY(bn_verify_pipeline_open(&b->pipeline, v, err));
    if (b->ranks.index != 0) return BN_OK;
    BN_TRY(bn_verify_source_open(&b->source, v->sources, v->n_sources, err));
    b->results = (struct results){
        .v = v, .seen.max = SIZE_MAX / 4, .junit.max = SIZE_MAX / 4, .began_ns = bn_clock_ns()};
    bn_progress_begin(&b->results.bar, "receipts", 0, v->args->quiet);
    return v->options->junit != NULL ? bn_file_check_output(v->options->junit, err) : BN_OK;
}

static bn_status run_batch(struct batch *b, struct bn_args *args, struct bn_verify *v, bn_error *err)
{
    const struct bn_verify_feed feed = {next, done, b};
    BN_TRY(open_batch(b, v, err));
    if (b->ranks.count > 1)
        BN_TRY(run_ranks(&b->ranks, v->options->n_sequences, b->pipeline, b->source, &b->results, err));
    else
        BN_TRY(bn_verify_pipeline_run(b->pipeline, &feed, err));
    if (b->ranks.index != 0) return BN_OK;
    if (b->results.n_all == 0 && bn_cli_interrupted() == 0)
        return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, v->sources[0], "no receipts are there"), err,
                       "a folder of *.json or *.dsse, a list of paths, or lines of JSON");
    BN_TRY(finish(&b->results, b->source, &args->exit_code, err));
    if (bn_cli_interrupted() != 0) args->exit_code = 128 + bn_cli_interrupted();
    return BN_OK;
}

bn_status bn_verify_batch(struct bn_args *args, struct bn_verify *v, bn_error *err)
{
    struct batch b = {0};
    bn_cli_catch_interrupt();
    BN_TRY(bn_cli_ranks_open(&b.ranks, err));
    bn_status status = bn_verify_open(v, args, err);
    if (b.ranks.count > 1) v->n_threads = bn_cli_ranks_threads(v->options->n_threads);
    if (status == BN_OK) status = run_batch(&b, args, v, err);
    bn_verify_pipeline_close(b.pipeline);
    if (b.ranks.index == 0) bn_progress_clear(&b.results.bar);
    bn_buf_release(&b.results.seen);
    bn_buf_release(&b.results.junit);
    bn_verify_source_close(b.source);
    return bn_cli_ranks_close(&b.ranks, status, err);
}
