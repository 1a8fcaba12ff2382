/* SPDX-License-Identifier: MIT
 *
 * Reads a folder of bn-bench. Files are found by listing it, two folders deep; no name comes from a client. Runs with the same
 * machine, command, settings and model are one line; each of its series is a history.
 */
#define _DEFAULT_SOURCE /* scandir, alphasort, realpath */
#include "tools/serve/benchmarks.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/history/ledger.h"
#include "lab/stats/interval.h"
#include "lab/stats/summary.h"

#define MAX_DEPTH 2u
#define MAX_RUNS 2048u
#define MAX_TEXT_BYTES (32u << 20)
#define CONFIDENCE 0.95

/* ---- files ---- */

static const struct kind {
    const char *ending, *type; /* type NULL: data */
} KINDS[] = {
    {".json", NULL},
    {".html", "text/html; charset=utf-8"},
    {".svg", "image/svg+xml"},
    {".md", "text/plain; charset=utf-8"},
    {".txt", "text/plain; charset=utf-8"},
};

static const struct kind *kind_of(const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < BN_ARRAY_LEN(KINDS); i++) {
        size_t n_ending = strlen(KINDS[i].ending);
        if (n > n_ending && strcmp(path + n - n_ending, KINDS[i].ending) == 0) return &KINDS[i];
    }
    return NULL;
}

static void release_files(struct bn_benchmark_file *files, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bn_free(files[i].path);
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Symbolic links are not followed. */
static void add_file(struct bn_benchmarks *b, const char *path, unsigned depth);

static void add_folder(struct bn_benchmarks *b, const char *path, unsigned depth)
{
    struct dirent **list = NULL;
    char inside[4096];
    int n = scandir(path, &list, is_visible, alphasort);
    for (int i = 0; i < n; i++) {
        if ((size_t)snprintf(inside, sizeof inside, "%s/%s", path, list[i]->d_name) < sizeof inside)
            add_file(b, inside, depth);
        free(list[i]);
    }
    free(list);
}

static void add_file(struct bn_benchmarks *b, const char *path, unsigned depth)
{
    struct stat st;
    if (lstat(path, &st) != 0) return;
    if (S_ISDIR(st.st_mode) && depth < MAX_DEPTH) add_folder(b, path, depth + 1);
    if (!S_ISREG(st.st_mode) || kind_of(path) == NULL || st.st_size > (off_t)BN_JSON_MAX_BYTES) return;
    b->more = b->more || b->n_files == BN_BENCHMARK_FILES;
    if (b->more) return;
    char *copy = bn_strndup(path, strlen(path));
    if (copy == NULL) return;
    b->files[b->n_files++] = (struct bn_benchmark_file){
        copy, (uint64_t)st.st_size, (int64_t)st.st_mtim.tv_sec * 1000000000 + (int64_t)st.st_mtim.tv_nsec};
}

/* Lists the folder; whether it is as it was. */
static bool list_again(struct bn_benchmarks *b)
{
    struct bn_benchmarks before = *b;
    b->n_files = 0;
    b->more = false;
    add_folder(b, b->folder, 0);
    bool same = before.n_files == b->n_files;
    for (size_t i = 0; i < b->n_files && same; i++)
        same = strcmp(before.files[i].path, b->files[i].path) == 0 &&
               before.files[i].n_bytes == b->files[i].n_bytes &&
               before.files[i].changed_ns == b->files[i].changed_ns;
    release_files(before.files, before.n_files);
    return same;
}

/* ---- runs ---- */

struct saved_run {
    char machine[128], suite[64], settings[BN_SHA256_HEX], model[BN_SHA256_HEX];
    char name[80], created[40], commit[48];
    const char *state;
    struct bn_series_list series;
};

struct saved_runs {
    struct saved_run *list;
    size_t n, room;
    bn_json *skipped;
};

static void copy(char *to, size_t room, const char *from)
{
    snprintf(to, room, "%s", from);
}

static bn_status add_run(struct saved_runs *all, const char *machine, const char *suite,
                         const struct bn_likeness *like, struct saved_run **out, bn_error *err)
{
    if (all->n == MAX_RUNS) return bn_fail(err, BN_ERR_LIMIT, "more than %u runs", MAX_RUNS);
    BN_TRY(bn_array_grow(&all->list, &all->room, all->n + 1, sizeof *all->list, err));
    struct saved_run *run = *out = &all->list[all->n++];
    *run = (struct saved_run){0};
    copy(run->machine, sizeof run->machine, machine);
    copy(run->suite, sizeof run->suite, suite);
    copy(run->settings, sizeof run->settings, like->settings);
    copy(run->model, sizeof run->model, like->model);
    return BN_OK;
}

static bn_status add_entries(struct saved_runs *all, const struct bn_ledger *l, bn_error *err)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct bn_entry *e = &l->entries[i];
        struct saved_run *run = NULL;
        BN_TRY(add_run(all, l->machine_label, l->suite, &e->like, &run, err));
        copy(run->name, sizeof run->name, e->name);
        copy(run->created, sizeof run->created, e->created);
        copy(run->commit, sizeof run->commit, e->commit);
        run->state = bn_entry_state_name(e->state);
        BN_TRY(bn_series_read(&run->series, e->json, err));
    }
    return BN_OK;
}

/* FOLDER/MACHINE/SUITE.json */
static bn_status read_ledger(struct saved_runs *all, const char *path, bn_error *err)
{
    char folder[4096], *machine, *suite;
    struct bn_ledger ledger;
    copy(folder, sizeof folder, path);
    suite = strrchr(folder, '/');
    *suite++ = '\0';
    suite[strlen(suite) - 5] = '\0';
    machine = strrchr(folder, '/');
    *machine++ = '\0';
    BN_TRY(bn_ledger_open(&ledger, folder[0] != '\0' ? folder : "/", machine, suite, false, err));
    bn_status status = add_entries(all, &ledger, err);
    bn_ledger_close(&ledger);
    return status;
}

static bn_status add_result(struct saved_runs *all, struct bn_result *r, bn_error *err)
{
    const struct bn_likeness like = bn_result_likeness(r);
    struct saved_run *run = NULL;
    BN_TRY(add_run(all, r->machine_label, r->suite, &like, &run, err));
    copy(run->name, sizeof run->name, "file");
    copy(run->created, sizeof run->created, r->created);
    copy(run->commit, sizeof run->commit, r->commit);
    run->state = "file";
    run->series = r->series;
    r->series = (struct bn_series_list){0};
    return BN_OK;
}

/* Other JSON files are left out without a word. */
static bn_status read_data(struct saved_runs *all, const char *path, bn_error *err)
{
    bn_json *document = NULL;
    struct bn_result r = {0};
    BN_TRY(bn_json_read_file(&document, path, err));
    const char *schema = bn_json_text_of(document, "schema");
    bool is_ledger = strncmp(schema, "bn.ledger/", 10) == 0;
    bool is_result = strncmp(schema, "bn.bench/", 9) == 0 && bn_json_get(document, "series") != NULL;
    if (!is_result) {
        bn_json_free(document);
        return is_ledger ? read_ledger(all, path, err) : BN_OK;
    }
    BN_TRY(bn_result_parse(&r, document, err));
    bn_status status = r.points ? BN_OK : add_result(all, &r, err);
    bn_result_release(&r);
    return status;
}

static const char *name_in(const struct bn_benchmarks *b, const struct bn_benchmark_file *file)
{
    return file->path + strlen(b->folder) + 1;
}

static void read_runs(struct saved_runs *all, const struct bn_benchmarks *b)
{
    for (size_t i = 0; i < b->n_files; i++) {
        bn_error why = {0};
        if (kind_of(b->files[i].path)->type != NULL || read_data(all, b->files[i].path, &why) == BN_OK)
            continue;
        bn_json *o = bn_json_add_object(all->skipped);
        bn_json_put_string(o, "name", name_in(b, &b->files[i]));
        bn_json_put_string(o, "reason", why.msg);
    }
}

/* ---- the document ---- */

/* Lines one after the other, each in the order of time. */
static int compare_runs(const void *left, const void *right)
{
    const struct saved_run *a = left, *b = right;
    int order = strcmp(a->machine, b->machine);
    if (order == 0) order = strcmp(a->suite, b->suite);
    if (order == 0) order = strcmp(a->model, b->model);
    if (order == 0) order = strcmp(a->settings, b->settings);
    return order != 0 ? order : strcmp(a->created, b->created);
}

static bool same_line(const struct saved_run *a, const struct saved_run *b)
{
    return strcmp(a->machine, b->machine) == 0 && strcmp(a->suite, b->suite) == 0 &&
           strcmp(a->model, b->model) == 0 && strcmp(a->settings, b->settings) == 0;
}

static void put_point(bn_json *points, const struct saved_run *run, const struct bn_series *s)
{
    struct bn_interval interval = {0};
    if (bn_interval_median(&interval, s->samples, s->n, CONFIDENCE, NULL) != BN_OK) return;
    bn_json *p = bn_json_add_object(points);
    bn_json_put_string(p, "name", run->name);
    bn_json_put_text(p, "created", run->created);
    bn_json_put_text(p, "commit", run->commit);
    bn_json_put_string(p, "state", run->state);
    bn_json_put_number(p, "median", interval.estimate);
    bn_json_put_number(p, "low", interval.low);
    bn_json_put_number(p, "high", interval.high);
    bn_json_put_u64(p, "n", s->n);
}

/* The history of a series from run `first` on, which is the first that has it. */
static void put_series(bn_json *list, const struct saved_run *runs, size_t first, size_t end,
                       const struct bn_series *s)
{
    bn_json *o = bn_json_add_object(list);
    bn_json_put_string(o, "test", s->test);
    bn_json_put_string(o, "metric", s->metric);
    bn_json_put_string(o, "unit", s->unit);
    bn_json_put_string(o, "better", s->higher ? "higher" : "lower");
    bn_json *points = bn_json_put_array(o, "points");
    for (size_t i = first; i < end; i++) {
        const struct bn_series *same = bn_series_find(&runs[i].series, s->test, s->metric);
        if (same != NULL) put_point(points, &runs[i], same);
    }
}

static void put_line(bn_json *lines, const struct saved_run *runs, size_t first, size_t end)
{
    bn_json *o = bn_json_add_object(lines);
    bn_json_put_string(o, "machine", runs[first].machine);
    bn_json_put_string(o, "suite", runs[first].suite);
    bn_json_put_string(o, "model", runs[first].model);
    bn_json_put_string(o, "settings", runs[first].settings);
    bn_json *list = bn_json_put_array(o, "series");
    for (size_t i = first; i < end; i++)
        for (size_t k = 0; k < runs[i].series.n; k++) {
            const struct bn_series *s = &runs[i].series.list[k];
            bool seen = false;
            for (size_t before = first; before < i && !seen; before++)
                seen = bn_series_find(&runs[before].series, s->test, s->metric) != NULL;
            if (!seen) put_series(list, runs, i, end, s);
        }
}

static void put_reports(bn_json *d, const struct bn_benchmarks *b)
{
    bn_json *list = bn_json_put_array(d, "reports");
    for (size_t i = 0; i < b->n_files; i++) {
        if (kind_of(b->files[i].path)->type == NULL) continue;
        bn_json *o = bn_json_add_object(list);
        bn_json_put_string(o, "name", name_in(b, &b->files[i]));
        bn_json_put_u64(o, "number", i);
        bn_json_put_u64(o, "bytes", b->files[i].n_bytes);
    }
}

static bn_status read_folder(struct bn_benchmarks *b, bn_error *err)
{
    struct saved_runs all = {0};
    bn_json *d = bn_json_new_object();
    bn_json_put_string(d, "object", "bn.benchmarks");
    bn_json_put_bool(d, "more", b->more);
    bn_json *lines = bn_json_put_array(d, "lines");
    all.skipped = bn_json_put_array(d, "skipped");
    read_runs(&all, b);
    if (all.n > 0) qsort(all.list, all.n, sizeof *all.list, compare_runs);
    for (size_t i = 0, end; i < all.n; i = end) {
        for (end = i + 1; end < all.n && same_line(&all.list[i], &all.list[end]);)
            end++;
        put_line(lines, all.list, i, end);
    }
    put_reports(d, b);
    b->text.len = 0;
    bn_status status = bn_json_write_line(d, true, &b->text, err);
    bn_json_free(d);
    for (size_t i = 0; i < all.n; i++)
        bn_series_release(&all.list[i].series);
    bn_free(all.list);
    return status;
}

/* ---- for the routes ---- */

bn_status bn_benchmarks_open(struct bn_benchmarks *b, const char *folder, bn_error *err)
{
    struct stat st;
    char *path = realpath(folder, NULL);
    *b = (struct bn_benchmarks){.text.max = MAX_TEXT_BYTES};
    if (path == NULL || stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        free(path);
        return bn_fail_in(err, BN_ERR_NOT_FOUND, folder, "not a folder");
    }
    b->folder = bn_strndup(path, strlen(path));
    free(path);
    return b->folder != NULL ? BN_OK : bn_nomem(err);
}

void bn_benchmarks_close(struct bn_benchmarks *b)
{
    release_files(b->files, b->n_files);
    bn_buf_release(&b->text);
    bn_free(b->folder);
}

bn_status bn_benchmarks_write(struct bn_benchmarks *b, struct bn_buf *out, bn_error *err)
{
    if (!list_again(b) || b->text.len == 0) BN_TRY(read_folder(b, err));
    bn_buf_append(out, b->text.data, b->text.len);
    return bn_buf_check(out, err);
}

bn_status bn_benchmarks_report(const struct bn_benchmarks *b, size_t number, struct bn_buf *out,
                               const char **type, bn_error *err)
{
    if (number >= b->n_files || kind_of(b->files[number].path)->type == NULL)
        return bn_fail(err, BN_ERR_NOT_FOUND, "no such report");
    *type = kind_of(b->files[number].path)->type;
    return bn_file_read_regular(b->files[number].path, out, err);
}
