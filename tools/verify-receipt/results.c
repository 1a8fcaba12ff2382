/* SPDX-License-Identifier: MIT
 *
 * The results of a batch: on standard output a line for each receipt that was not verified and a summary, or a line of
 * JSON for each receipt; and a JUnit file at the end. A line is written at once, so that a killed program leaves complete
 * lines.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "lab/report/page.h"
#include "tools/cli/progress.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/verify-receipt/verify_receipt.h"

#define MAX_LINE_BYTES (1u << 20)
#define MAX_PATH_BYTES 4096u
#define DIGEST_BYTES 16u

struct bn_verify_results {
    const struct bn_verify *v;
    struct bn_buf seen; /* the first DIGEST_BYTES hexadecimal digits of the digest of each */
    uint64_t n[BN_OUTCOME_COUNT], n_all, n_tokens, n_replayed, began_ns;
    struct bn_buf junit; /* the cases of --junit */
    struct bn_progress bar;
    char label[64];
};

bn_status bn_verify_results_open(struct bn_verify_results **out, const struct bn_verify *v, bn_error *err)
{
    struct bn_verify_results *r = *out = bn_alloc(1, sizeof *r);
    if (r == NULL) return bn_nomem(err);
    *r = (struct bn_verify_results){
        .v = v, .seen.max = SIZE_MAX / 4, .junit.max = SIZE_MAX / 4, .began_ns = bn_clock_ns()};
    bn_progress_begin(&r->bar, "receipts", 0, v->args->quiet);
    return v->options->junit != NULL ? bn_file_check_output(v->options->junit, err) : BN_OK;
}

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

static bn_status write_junit(const struct bn_verify_results *r, bn_error *err)
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

/* "receipts/7.json", "all.jsonl:17" */
static bn_status put_name(struct bn_buf *out, const struct bn_verify_item *item, bn_error *err)
{
    char escaped[MAX_PATH_BYTES];
    bn_buf_puts(out, bn_escape(escaped, sizeof escaped, item->file, strlen(item->file)));
    if (item->line > 0) bn_buf_printf(out, ":%llu", (unsigned long long)item->line);
    return bn_buf_check(out, err);
}

static bn_status put_json(struct bn_buf *out, uint64_t index, const struct bn_verify_item *item,
                          const struct bn_verify_result *result, bn_error *err)
{
    bn_json *line = bn_json_new_object();
    bn_json_put_u64(line, "index", index);
    bn_json_put_string(line, "file", item->file);
    if (item->line > 0) bn_json_put_u64(line, "line", item->line);
    bn_json_put_string(line, "verdict", bn_verify_outcome_name(result->outcome));
    bn_json_put_bool(line, "verified", result->outcome == BN_OUTCOME_VERIFIED);
    bn_json_put_bool(line, "bound", result->bound);
    bn_json_put_bool(line, "claimable", result->claimable);
    bn_json_put_string(line, "level", result->level);
    bn_json_put_u64(line, "exit_code", (uint64_t)result->exit_code);
    bn_json_put_text(line, "rule", result->rule);
    bn_json_put_text(line, "reason", result->reason);
    bn_json_put_text(line, "receipt_sha256", result->receipt_sha256);
    bn_json_put_text(line, "model_sha256", result->model_sha256);
    bn_json_put_u64(line, "check_ns", result->check_ns);
    bn_json_put_bool(line, "replayed", result->replayed);
    if (result->replayed) bn_json_put_u64(line, "replay_ns", result->replay_ns);
    if (result->replayed) bn_json_put_u64(line, "replayed_tokens", result->n_tokens);
    bn_status status = bn_json_write_line(line, true, out, err);
    bn_json_free(line);
    return status;
}

static void put_text(struct bn_buf *out, const char *name, const struct bn_verify_result *result)
{
    bn_buf_printf(out, "%s: %s", name, bn_verify_outcome_text(result->outcome));
    if (result->outcome == BN_OUTCOME_VERIFIED)
        bn_buf_printf(out, ", level: %s", result->level);
    else if (result->rule[0] != '\0')
        bn_buf_printf(out, ", rule %s: %s", result->rule, result->reason);
    else
        bn_buf_printf(out, ": %s", result->reason);
    bn_buf_putc(out, '\n');
}

static bn_status print(struct bn_verify_results *r, const struct bn_verify_item *item, const char *name,
                       const struct bn_verify_result *result, bn_error *err)
{
    const struct bn_args *args = r->v->args;
    struct bn_buf out = {.max = MAX_LINE_BYTES};
    bn_status status = BN_OK;
    if (args->json)
        status = put_json(&out, r->n_all, item, result, err);
    else if (args->verbose > 0 || result->outcome != BN_OUTCOME_VERIFIED)
        put_text(&out, name, result);
    if (status == BN_OK) status = bn_buf_check(&out, err);
    if (status == BN_OK && out.len > 0) {
        bn_progress_clear(&r->bar);
        bn_report_json_began();
        fwrite(out.data, 1, out.len, stdout); /* bytes that are lost are noticed when the program ends */
        fflush(stdout);
    }
    bn_buf_release(&out);
    return status;
}

bn_status bn_verify_results_add(struct bn_verify_results *r, const struct bn_verify_item *item,
                                const struct bn_verify_result *result, bn_error *err)
{
    struct bn_buf name = {.max = 2 * MAX_PATH_BYTES};
    bn_status status = put_name(&name, item, err);
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

static uint64_t count_duplicates(struct bn_verify_results *r)
{
    size_t n = r->seen.len / DIGEST_BYTES, n_same = 0;
    if (n > 1) qsort(r->seen.data, n, DIGEST_BYTES, by_value);
    for (size_t i = 1; i < n; i++)
        n_same += by_value(r->seen.data + (i - 1) * DIGEST_BYTES, r->seen.data + i * DIGEST_BYTES) == 0;
    return n_same;
}

static bn_status print_summary(struct bn_verify_results *r, const struct bn_verify_source *source,
                               bn_error *err)
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

bn_status bn_verify_results_finish(struct bn_verify_results *r, const struct bn_verify_source *source,
                                   int *exit_code, bn_error *err)
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

uint64_t bn_verify_results_n(const struct bn_verify_results *r)
{
    return r->n_all;
}

void bn_verify_results_close(struct bn_verify_results *r)
{
    if (r == NULL) return;
    bn_progress_clear(&r->bar);
    bn_buf_release(&r->seen);
    bn_buf_release(&r->junit);
    bn_free(r);
}
