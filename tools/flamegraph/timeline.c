/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph timeline: what became of the shares of classes and functions over the recordings of an
 * archive, and which changes are more than chance.
 */
#include "tools/flamegraph/timeline.h"

#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/report/html.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"
#include "tools/flamegraph/archive.h"
#include "tools/flamegraph/flamegraph.h"
#include "tools/flamegraph/page.h"

#define DIR_PRESET "docs/baselines/perf/flamegraphs"
#define MAX_SERIES 32u

const struct bn_option bn_flamegraph_timeline_options[] = {
    {.name = "html", .help = "write a page with plots, DIR/timeline.html, too"},
    {0},
};

/* ---- the document ---- */

struct timeline {
    const char *dir;
    const bn_json *index;
    bn_json *document;
};

static bn_status put_since(bn_json *entry, const bn_stacks *before, const char *name, const bn_stacks *after,
                           bn_error *err)
{
    char why[200];
    bn_json *o = bn_json_put_object(entry, "since");
    bn_json_put_string(o, "name", name);
    bn_flamegraph_unlike(why, sizeof why, before->about, after->about);
    bn_json_put_bool(o, "compared", why[0] == '\0');
    if (why[0] == '\0') return bn_flamegraph_put_changes(o, before, after, err);
    bn_json_put_string(o, "why", why);
    return BN_OK;
}

static uint64_t samples_of(const bn_stacks *stacks)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < stacks->n_nodes; i++)
        n += bn_stacks_samples(stacks, i, BN_STACKS_ALL_RUNS);
    return n;
}

/* One recording; *before is the one before it in its series, and becomes this one. */
static bn_status put_entry(const struct timeline *t, bn_json *entries, const bn_json *kept, const char *name,
                           bn_stacks **before, const char **before_name, bn_error *err)
{
    char digest[BN_SHA256_HEX];
    bn_stacks *stacks = NULL;
    const char *folder = bn_json_text_of(kept, "folder");
    BN_TRY(bn_flamegraph_archive_open(&stacks, t->dir, kept, name, err));
    bn_status status = bn_flamegraph_archive_digest(digest, stacks, err);
    if (status == BN_OK && strcmp(digest, bn_flamegraph_archive_has(kept, name)) != 0)
        status = bn_fail(err, BN_ERR_INTEGRITY, "archives/%s/%s.json is not what was kept", folder, name);
    bn_json *o = bn_json_add_object(entries);
    bn_json_put_string(o, "folder", folder);
    bn_json_put_copy(o, "created", bn_json_get(kept, "created"));
    bn_json_put_copy(o, "commit", bn_json_get(kept, "commit"));
    bn_json_put_copy(o, "dirty", bn_json_get(kept, "dirty"));
    bn_json_put_u64(o, "samples", samples_of(stacks));
    if (status == BN_OK) status = bn_flamegraph_put_functions(o, stacks, err);
    if (status == BN_OK && *before != NULL) status = put_since(o, *before, *before_name, stacks, err);
    bn_stacks_close(*before);
    *before = stacks;
    *before_name = folder;
    return status;
}

static bn_status put_series(const struct timeline *t, bn_json *series, const char *name, bn_error *err)
{
    bn_stacks *before = NULL;
    const char *before_name = "";
    bn_status status = BN_OK;
    bn_json *o = bn_json_add_object(series);
    bn_json_put_string(o, "name", name);
    bn_json *entries = bn_json_put_array(o, "entries");
    const bn_json *all = bn_json_get(t->index, "entries");
    for (const bn_json *e = bn_json_first(all); e != NULL && status == BN_OK; e = bn_json_next(e))
        if (bn_flamegraph_archive_has(e, name) != NULL)
            status = put_entry(t, entries, e, name, &before, &before_name, err);
    bn_stacks_close(before);
    return status;
}

/* A series for each name of a recording, in the order in which they first come. */
static bn_status put_all(const struct timeline *t, bn_error *err)
{
    bn_json *series = bn_json_put_array(t->document, "series");
    const bn_json *all = bn_json_get(t->index, "entries");
    for (const bn_json *e = bn_json_first(all); e != NULL; e = bn_json_next(e)) {
        const bn_json *recordings = bn_json_get(e, "recordings");
        for (const bn_json *r = bn_json_first(recordings); r != NULL; r = bn_json_next(r)) {
            const char *name = bn_json_text_of(r, "name");
            if (bn_json_find(series, "name", name) != NULL) continue;
            if (bn_json_size(series) == MAX_SERIES)
                return bn_fail(err, BN_ERR_LIMIT, "more than %u names of recordings", MAX_SERIES);
            BN_TRY(put_series(t, series, name, err));
        }
    }
    return BN_OK;
}

/* ---- text ---- */

static void print_changes(const bn_json *since)
{
    if (since == NULL) return;
    if (!bn_json_flag_of(since, "compared")) {
        printf("    not compared with %s: %s\n", bn_json_text_of(since, "name"),
               bn_json_text_of(since, "why"));
        return;
    }
    const bn_json *changes = bn_json_get(since, "changes");
    for (const bn_json *c = bn_json_first(changes); c != NULL; c = bn_json_next(c)) {
        char name[120];
        const char *text = bn_json_text_of(c, "name");
        printf("  ! %-40s %-5s %6.2f %% -> %6.2f %%\n", bn_escape(name, sizeof name, text, strlen(text)),
               bn_json_text_of(c, "of"), 100 * bn_json_number_of(c, "before"),
               100 * bn_json_number_of(c, "after"));
    }
    if (bn_json_size(changes) == 0) printf("    no share changed significantly\n");
}

/* The functions with the most of themselves; rows are class by class. */
static void print_top(const bn_json *rows)
{
    enum { TOP = 3 };
    const bn_json *top[TOP] = {NULL};
    for (const bn_json *r = bn_json_first(rows); r != NULL; r = bn_json_next(r)) {
        const bn_json *carried = r;
        for (size_t i = 0; i < TOP && carried != NULL; i++)
            if (top[i] == NULL ||
                bn_json_number_of(top[i], "self_share") < bn_json_number_of(carried, "self_share")) {
                const bn_json *pushed = top[i];
                top[i] = carried;
                carried = pushed;
            }
    }
    for (size_t i = 0; i < TOP && top[i] != NULL; i++) {
        char name[120];
        const char *text = bn_json_text_of(top[i], "name");
        printf("    %-40s %6.2f %%\n", bn_escape(name, sizeof name, text, strlen(text)),
               100 * bn_json_number_of(top[i], "self_share"));
    }
}

static void print_entry(const bn_json *e)
{
    const char *comma = "  ";
    printf("  %s  %g samples\n", bn_json_text_of(e, "folder"), bn_json_number_of(e, "samples"));
    const bn_json *classes = bn_json_path(e, "functions.classes");
    for (const bn_json *c = bn_json_first(classes); c != NULL; c = bn_json_next(c), comma = ", ")
        printf("%s%s %.1f %%", comma[0] == ' ' ? "    " : comma, bn_json_text_of(c, "class"),
               100 * bn_json_number_of(c, "self_share"));
    printf("\n");
    print_top(bn_json_path(e, "functions.rows"));
    print_changes(bn_json_get(e, "since"));
}

void bn_timeline_print(const bn_json *document)
{
    const bn_json *series = bn_json_get(document, "series");
    for (const bn_json *s = bn_json_first(series); s != NULL; s = bn_json_next(s)) {
        printf("%s%s\n", s == bn_json_first(series) ? "" : "\n", bn_json_text_of(s, "name"));
        const bn_json *entries = bn_json_get(s, "entries");
        for (const bn_json *e = bn_json_first(entries); e != NULL; e = bn_json_next(e))
            print_entry(e);
    }
}

/* ---- the command ---- */

static bn_status write_page(const struct timeline *t, bn_error *err)
{
    char path[4096];
    struct bn_buf page = {.max = SIZE_MAX};
    snprintf(path, sizeof path, "%s/timeline.html", t->dir);
    bn_timeline_page(&page, t->document);
    bn_status status = bn_buf_check(&page, err);
    if (status == BN_OK) status = bn_file_write_atomic(path, page.data, page.len, err);
    bn_buf_release(&page);
    if (status == BN_OK) bn_report_note(0, "%s", path);
    return status;
}

bn_status bn_flamegraph_timeline(struct bn_args *args, bn_error *err)
{
    struct timeline t = {.dir = args->n_operands > 0 ? args->operands[0] : DIR_PRESET};
    bn_json *index = NULL;
    BN_TRY(bn_flamegraph_archive_read(&index, t.dir, err));
    t.index = index;
    t.document = bn_json_new_object();
    bn_json_put_string(t.document, "schema", "bn.flametimeline/1");
    bn_status status = BN_OK;
    if (bn_json_size(bn_json_get(index, "entries")) == 0) {
        status =
            bn_fail_at(err, BN_ERR_NOT_FOUND, BN_NO_OFFSET, t.dir, "no recordings are kept in its archives");
        bn_error_hint(err, "bn-flamegraph baseline --archive keeps one");
    }
    if (status == BN_OK) status = put_all(&t, err);
    if (status == BN_OK && bn_opt_flag(args, "html")) status = write_page(&t, err);
    if (status == BN_OK && args->json) status = bn_cli_print_json(t.document, err);
    if (status == BN_OK && !args->json) bn_timeline_print(t.document);
    bn_json_free(t.document);
    bn_json_free(index);
    return status;
}
