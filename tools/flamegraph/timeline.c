/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph timeline: how the shares of classes and functions changed over the archived recordings, and
 * which changes are significant. Its document, bn.flametimeline/1, is made first; text and page are made
 * from it:
 *
 *     {"schema": ..., "series": [{"name": "phase2_1tok", "entries": [
 *       {"folder": ..., "created": ..., "commit": ..., "dirty": ..., "samples": ...,
 *        "classes": [{"class": ..., "share": ...}], "functions": [{"name": ..., "share": ...}],
 *        "since": {"name": ..., "compared": ..., "changes": [...] or "why": ...}}]}]}
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/report/page.h"
#include "lab/report/plot.h"
#include "lab/stacks/fingerprint.h"
#include "lab/stacks/hotspots.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"
#include "tools/flamegraph/archive.h"
#include "tools/flamegraph/flamegraph.h"

#define DIR_PRESET "docs/baselines/perf/flamegraphs"
#define TOP 6u

const struct bn_option bn_flamegraph_timeline_options[] = {
    BN_OPTION("html", "also write a page with plots, DIR/timeline.html",
              BN_TO_BOOL(struct bn_flamegraph_options, html)),
    {0},
};

/* ---- the document ---- */

static bn_status put_functions(bn_json *entry, const bn_stacks *stacks, bn_error *err)
{
    const struct bn_stacks_view view = BN_HOTSPOTS_VIEW;
    double shares[BN_CLASSES];
    bn_stacks *functions = NULL;
    struct bn_hotspots spots = {0};
    BN_TRY(bn_class_shares(shares, stacks, err));
    BN_TRY(bn_stacks_copy(&functions, stacks, &view, err));
    bn_json *classes = bn_json_put_array(entry, "classes");
    for (unsigned c = 0; c < BN_CLASSES; c++) {
        if (!(shares[c] > 0)) continue;
        bn_json *o = bn_json_add_object(classes);
        bn_json_put_string(o, "class", bn_class_name((enum bn_class)c));
        bn_json_put_number(o, "share", shares[c]);
    }
    bn_json *list = bn_json_put_array(entry, "functions");
    bn_status status = bn_hotspots(&spots, functions, BN_FRAME_FUNCTIONS, err);
    bn_json_put_u64(entry, "samples", spots.samples);
    for (size_t i = 0; i < spots.n && i < TOP; i++) {
        bn_json *o = bn_json_add_object(list);
        bn_json_put_string(o, "name", functions->frames[spots.list[i].frame].name);
        bn_json_put_number(o, "share", spots.list[i].self_share.estimate);
    }
    bn_hotspots_release(&spots);
    bn_stacks_close(functions);
    return status;
}

static void put_change(bn_json *list, const struct bn_frame *frame, const char *of,
                       const struct bn_diff_value *v)
{
    if (!v->significant || BN_FRAME_IS_TAG(frame->kind)) return;
    bn_json *o = bn_json_add_object(list);
    bn_json_put_string(o, "name", frame->name);
    bn_json_put_string(o, "of", of);
    bn_json_put_number(o, "before", v->before);
    bn_json_put_number(o, "after", v->after);
    bn_json_put_number(o, "low", v->low);
    bn_json_put_number(o, "high", v->high);
    bn_json_put_number(o, "q", v->q);
}

static bn_status put_since(bn_json *entry, const struct bn_archived *before, const struct bn_archived *after,
                           bn_error *err)
{
    char why[200];
    struct bn_stacks_diff diff = {0};
    bn_json *o = bn_json_put_object(entry, "since");
    bn_json_put_string(o, "name", before->folder);
    bn_fingerprint_unlike(why, sizeof why, before->stacks->about, after->stacks->about,
                          BN_FINGERPRINT_COMPARED);
    bn_json_put_bool(o, "compared", why[0] == '\0');
    if (why[0] != '\0') {
        bn_json_put_string(o, "why", why);
        return BN_OK;
    }
    BN_TRY(bn_archive_compare(&diff, before->stacks, after->stacks, err));
    bn_json_put_string(o, "method", diff.method);
    bn_json *changes = bn_json_put_array(o, "changes");
    for (size_t i = 0; i < diff.tree->n_frames; i++) {
        put_change(changes, &diff.tree->frames[i], "self", &diff.functions_self[i].share);
        put_change(changes, &diff.tree->frames[i], "total", &diff.functions_total[i].share);
    }
    bn_stacks_diff_release(&diff);
    return BN_OK;
}

static bn_status put_series(bn_json *series, const char *dir, const char *name, size_t *n, bn_error *err)
{
    struct bn_archive archive = {0};
    BN_TRY(bn_archive_read(&archive, dir, name, err));
    bn_status status = BN_OK;
    bn_json *o = bn_json_add_object(series);
    bn_json_put_string(o, "name", name);
    bn_json *entries = bn_json_put_array(o, "entries");
    for (size_t i = 0; i < archive.n && status == BN_OK; i++) {
        const struct bn_archived *a = &archive.list[i];
        bn_json *entry = bn_json_add_object(entries);
        bn_json_put_string(entry, "folder", a->folder);
        bn_json_put_copy(entry, "created", bn_json_get(a->stacks->about, "created"));
        bn_json_put_copy(entry, "commit", bn_json_path(a->stacks->about, "program.commit"));
        bn_json_put_copy(entry, "dirty", bn_json_path(a->stacks->about, "program.dirty"));
        status = put_functions(entry, a->stacks, err);
        if (status == BN_OK && i > 0) status = put_since(entry, a - 1, a, err);
    }
    *n += archive.n;
    bn_archive_release(&archive);
    return status;
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

static void print_shares(const bn_json *list, const char *member)
{
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o)) {
        char name[120];
        const char *text = bn_json_text_of(o, member);
        printf("    %-40s %6.2f %%\n", bn_escape(name, sizeof name, text, strlen(text)),
               100 * bn_json_number_of(o, "share"));
    }
}

static void print_all(const bn_json *series)
{
    for (const bn_json *s = bn_json_first(series); s != NULL; s = bn_json_next(s)) {
        const bn_json *entries = bn_json_get(s, "entries");
        printf("%s%s\n", s == bn_json_first(series) ? "" : "\n", bn_json_text_of(s, "name"));
        for (const bn_json *e = bn_json_first(entries); e != NULL; e = bn_json_next(e)) {
            printf("  %s  %g samples\n", bn_json_text_of(e, "folder"), bn_json_number_of(e, "samples"));
            print_shares(bn_json_get(e, "classes"), "class");
            printf("\n");
            print_shares(bn_json_get(e, "functions"), "name");
            print_changes(bn_json_get(e, "since"));
        }
    }
}

/* ---- page ---- */

static const char STYLE[] =
    ".bar { stroke: var(--card); }\n"
    ".keys { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 0; }\n"
    ".keys svg { display: inline-block; width: 14px; height: 14px; min-width: 0; margin-right: 6px; }\n"
    "td.left, th.left { text-align: left; white-space: normal; min-width: 16em; }\n"
    "td p { margin: 0; overflow-wrap: anywhere; }\n";

static void put_colours(struct bn_buf *style, bool dark)
{
    for (unsigned c = 0; c < BN_CLASSES; c++) {
        struct bn_colour colour = bn_palette_class(BN_PALETTE_BITNET, (enum bn_class)c, dark);
        bn_buf_printf(style, ".c%u { fill: #%02x%02x%02x; }\n", c, colour.r, colour.g, colour.b);
    }
}

static double share_of(const bn_json *entry, unsigned c)
{
    const bn_json *row =
        bn_json_find(bn_json_get(entry, "classes"), "class", bn_class_name((enum bn_class)c));
    return row != NULL ? 100 * bn_json_number_of(row, "share") : 0;
}

/* One bar for each recording, of the shares of classes. */
static void put_plot(struct bn_buf *out, const bn_json *entries)
{
    double n = (double)bn_json_size(entries), number = 0;
    struct bn_plot p = {.width = 900,
                        .height = 290,
                        .left = 52,
                        .right = 16,
                        .top = 22,
                        .bottom = 44,
                        .x0 = 0.5,
                        .x1 = fmax(n, 8) + 0.5,
                        .y1 = 100,
                        .whole_x = true};
    bn_html(out, "<div class=\"figure wide\"><h4>Classes of work, %% of the samples</h4>\n");
    bn_plot_begin(out, &p, "share of samples in each class, by recording");
    bn_plot_y_axis(out, &p);
    bn_plot_x_axis(out, &p, "recording");
    for (const bn_json *e = bn_json_first(entries); e != NULL; e = bn_json_next(e)) {
        double left = bn_plot_x(&p, ++number - 0.36), from = 0;
        for (unsigned c = 0; c < BN_CLASSES; c++) {
            double share = share_of(e, c), top = bn_plot_y(&p, from + share);
            if (!(share > 0)) continue;
            bn_html(out, "<rect class=\"bar c%u\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">", c,
                    left, top, bn_plot_x(&p, number + 0.36) - left, bn_plot_y(&p, from) - top);
            bn_html(out, "<title>%s: %s %.1f %%</title></rect>\n", bn_json_text_of(e, "folder"),
                    bn_class_name((enum bn_class)c), share);
            from += share;
        }
    }
    bn_plot_end(out);
    bn_html(out, "<ul class=\"keys\">");
    for (unsigned c = 0; c < BN_CLASSES; c++) {
        double most = 0;
        for (const bn_json *e = bn_json_first(entries); e != NULL; e = bn_json_next(e))
            most = fmax(most, share_of(e, c));
        if (most > 0)
            bn_html(out,
                    "<li><svg viewBox=\"0 0 14 14\" aria-hidden=\"true\"><rect class=\"c%u\" width=\"14\" "
                    "height=\"14\"/></svg>%s</li>",
                    c, bn_class_name((enum bn_class)c));
    }
    bn_html(out, "</ul></div>\n");
}

static void put_changes(struct bn_buf *out, const bn_json *since)
{
    const bn_json *changes = bn_json_get(since, "changes");
    if (since == NULL)
        bn_html(out, "the first one");
    else if (!bn_json_flag_of(since, "compared"))
        bn_html(out, "not compared: %s", bn_json_text_of(since, "why"));
    else if (bn_json_size(changes) == 0)
        bn_html(out, "nothing");
    for (const bn_json *c = bn_json_first(changes); c != NULL; c = bn_json_next(c))
        bn_html(out, "<p><code>%s</code> %s %.1f %% to %.1f %%</p>", bn_json_text_of(c, "name"),
                bn_json_text_of(c, "of"), 100 * bn_json_number_of(c, "before"),
                100 * bn_json_number_of(c, "after"));
}

static void put_table(struct bn_buf *out, const bn_json *entries, const char *name)
{
    size_t number = 0;
    bn_html(out, "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>recording</th><th>files</th>"
                 "<th>samples</th><th class=\"left\">changed significantly</th></tr></thead>\n<tbody>\n");
    for (const bn_json *e = bn_json_first(entries); e != NULL; e = bn_json_next(e)) {
        const char *folder = bn_json_text_of(e, "folder");
        bn_html(out,
                "<tr><td>%zu: %s</td><td><a href=\"archives/%s/%s.svg\">svg</a> "
                "<a href=\"archives/%s/%s.md\">md</a></td><td>%.9g</td><td class=\"left\">",
                ++number, folder, folder, name, folder, name, bn_json_number_of(e, "samples"));
        put_changes(out, bn_json_get(e, "since"));
        bn_html(out, "</td></tr>\n");
    }
    bn_html(out, "</tbody></table></div>\n");
}

static bn_status write_page(const char *dir, const bn_json *series, bn_error *err)
{
    char path[4096];
    struct bn_buf page = {.max = SIZE_MAX}, style = {.max = 1u << 16};
    snprintf(path, sizeof path, "%s/timeline.html", dir);
    bn_buf_puts(&style, STYLE);
    put_colours(&style, false);
    bn_buf_puts(&style, "@media (prefers-color-scheme: dark) {\n");
    put_colours(&style, true);
    bn_buf_puts(&style, "}\n");
    bn_page_begin(&page, "Flame graphs over time", style.data != NULL ? style.data : "", false);
    bn_html(&page, "<h1>Flame graphs over time</h1>\n<p class=\"lead\">Archived recordings of the same work, "
                   "oldest first.</p>\n");
    for (const bn_json *s = bn_json_first(series); s != NULL; s = bn_json_next(s)) {
        bn_html(&page, "<h2>%s</h2>\n", bn_json_text_of(s, "name"));
        put_plot(&page, bn_json_get(s, "entries"));
        put_table(&page, bn_json_get(s, "entries"), bn_json_text_of(s, "name"));
    }
    bn_page_end(&page);
    bn_status status = bn_buf_check(&page, err);
    if (status == BN_OK) status = bn_file_write_atomic(path, page.data, page.len, err);
    if (status == BN_OK) bn_report_note(0, "%s", path);
    bn_buf_release(&page);
    bn_buf_release(&style);
    return status;
}

bn_status bn_flamegraph_timeline(struct bn_args *args, bn_error *err)
{
    struct bn_archive_names names = {0};
    const char *dir = args->n_operands > 0 ? args->operands[0] : DIR_PRESET;
    size_t n = 0;
    bn_json *document = bn_json_new_object();
    bn_json_put_string(document, "schema", "bn.flametimeline/1");
    bn_json *series = bn_json_put_array(document, "series");
    bn_status status = bn_archive_find_all_names(&names, dir, err);
    for (size_t i = 0; i < names.n && status == BN_OK; i++)
        status = put_series(series, dir, names.list[i], &n, err);
    bn_free(names.list);
    if (status == BN_OK && n == 0) {
        status = bn_fail_at(err, BN_ERR_NOT_FOUND, BN_NO_OFFSET, dir, "no recordings in archives/");
        bn_error_hint(err, "bn-flamegraph baseline --archive");
    }
    if (status == BN_OK && ((const struct bn_flamegraph_options *)args->fields)->html)
        status = write_page(dir, series, err);
    if (status == BN_OK && args->json) status = bn_cli_print_json(document, err);
    if (status == BN_OK && !args->json) print_all(series);
    bn_json_free(document);
    return status;
}
