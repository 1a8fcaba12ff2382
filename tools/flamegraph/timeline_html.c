/* SPDX-License-Identifier: MIT
 *
 * See timeline.h: the page. Of each series a picture of what the classes' shares became, one of each of the
 * functions that have most, and a table with links to what was kept.
 */
#include <math.h>
#include <stdio.h>

#include "lab/report/plot.h"
#include "lab/stacks/palette.h"
#include "tools/cli/page.h"
#include "tools/flamegraph/timeline.h"

#define MOST_DRAWN 60u /* of a series, the last ones */
#define FUNCTIONS 6u
#define LABEL_WIDTH 78.0 /* of a date and the space beside it */

static const char STYLE[] =
    ".bar { stroke: var(--card); stroke-width: 1; }\n"
    ".whisker { stroke: var(--blue); stroke-width: 1.5; fill: none; }\n"
    ".keys { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 10px 0 4px; padding: "
    "0; "
    "font-size: 0.88rem; }\n"
    ".keys svg { display: inline-block; width: 14px; height: 14px; vertical-align: -2px; margin-right: 6px; "
    "border-radius: 3px; min-width: 0; }\n"
    ".figure h4 { overflow-wrap: anywhere; }\n"
    "th.left { text-align: left; }\n"
    "td.left { text-align: left; white-space: normal; min-width: 16em; overflow-wrap: anywhere; }\n"
    "td p { margin: 0; }\n"
    ".start { text-anchor: start; }\n";

/* ---- classes and their colours ---- */

static void put_colours(struct bn_buf *style, bool dark)
{
    for (unsigned c = 0; c < BN_CLASSES; c++) {
        struct bn_colour colour = bn_palette_class(BN_PALETTE_BITNET, (enum bn_class)c, dark);
        bn_buf_printf(style, ".c%u { fill: #%02x%02x%02x; }\n", c, colour.r, colour.g, colour.b);
    }
}

static void make_style(struct bn_buf *style)
{
    bn_buf_puts(style, STYLE);
    put_colours(style, false);
    bn_buf_puts(style, "@media (prefers-color-scheme: dark) {\n");
    put_colours(style, true);
    bn_buf_puts(style, "}\n");
}

static double class_share(const bn_json *entry, unsigned c)
{
    const bn_json *row =
        bn_json_find(bn_json_path(entry, "functions.classes"), "class", bn_class_name((enum bn_class)c));
    return row != NULL ? bn_json_number_of(row, "self_share") : 0;
}

static void put_keys(struct bn_buf *out, const bn_json *entries)
{
    bn_html(out, "<ul class=\"keys\">");
    for (unsigned c = 0; c < BN_CLASSES; c++) {
        double most = 0;
        for (const bn_json *e = bn_json_first(entries); e != NULL; e = bn_json_next(e))
            most = fmax(most, class_share(e, c));
        if (most > 0)
            bn_html(
                out,
                "<li><svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 14 14\" aria-hidden=\"true\">"
                "<rect class=\"c%u\" width=\"14\" height=\"14\"/></svg>%s</li>",
                c, bn_class_name((enum bn_class)c));
    }
    bn_html(out, "</ul>\n");
}

/* The entry that is the first one drawn, and its number. */
static const bn_json *first_drawn(const bn_json *entries, size_t *number)
{
    size_t n = bn_json_size(entries);
    *number = n > MOST_DRAWN ? n - MOST_DRAWN : 0;
    return bn_json_at(entries, *number);
}

static struct bn_plot plot_of(const bn_json *entries, double width, double height)
{
    size_t first;
    (void)first_drawn(entries, &first);
    return (struct bn_plot){.width = width,
                            .height = height,
                            .left = 52,
                            .right = 16,
                            .top = 22,
                            .bottom = 56,
                            .x0 = (double)first + 0.5,
                            .x1 = (double)bn_json_size(entries) + 0.5,
                            .y0 = 0,
                            .y1 = 100,
                            .whole_x = true};
}

/* As much of an entry's place as fits: below each, or each second, third ..., its date and its commit. */
static void put_axis(struct bn_buf *out, const struct bn_plot *p, const bn_json *first, size_t number)
{
    double each = bn_plot_x(p, 2) - bn_plot_x(p, 1), y = p->height - p->bottom;
    size_t step = (size_t)fmax(1, ceil(LABEL_WIDTH / each)), left = 0;
    for (const bn_json *e = first; e != NULL; e = bn_json_next(e))
        left++;
    bn_html(out, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>\n", p->left, y, p->width - p->right);
    for (const bn_json *e = first; e != NULL; e = bn_json_next(e)) {
        char date[11], commit[9]; /* as much of them as these hold */
        double x = bn_plot_x(p, (double)++number);
        if (--left % step != 0) continue; /* the last one has a label */
        snprintf(date, sizeof date, "%s", bn_json_text_of(e, "created"));
        snprintf(commit, sizeof commit, "%s", bn_json_text_of(e, "commit"));
        bn_html(out,
                "<text class=\"x\" x=\"%.1f\" y=\"%.1f\">%s</text>"
                "<text class=\"x\" x=\"%.1f\" y=\"%.1f\">%s%s</text>\n",
                x, y + 16, date, x, y + 30, commit, bn_json_flag_of(e, "dirty") ? "+" : "");
    }
    bn_html(out, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\">recording</text>\n", p->width - p->right,
            p->height - 6);
}

static void draw_bar(struct bn_buf *out, const struct bn_plot *p, const bn_json *entry, double number)
{
    double left = bn_plot_x(p, number - 0.36), right = bn_plot_x(p, number + 0.36), from = 0;
    if (right - left > 90) { /* few entries: no broad slabs */
        double middle = (left + right) / 2;
        left = middle - 45;
        right = middle + 45;
    }
    for (unsigned c = 0; c < BN_CLASSES; c++) {
        double share = 100 * class_share(entry, c);
        if (!(share > 0)) continue;
        double top = bn_plot_y(p, from + share), bottom = bn_plot_y(p, from);
        bn_html(out,
                "<rect class=\"bar c%u\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>%s: %s "
                "%.1f %%</title></rect>\n",
                c, left, top, right - left, bottom - top, bn_json_text_of(entry, "folder"),
                bn_class_name((enum bn_class)c), share);
        from += share;
    }
}

static void put_classes(struct bn_buf *out, const bn_json *entries)
{
    size_t number;
    const bn_json *first = first_drawn(entries, &number);
    struct bn_plot p = plot_of(entries, 900, 302);
    bn_html(out,
            "<div class=\"figure wide\"><h4>Classes of work</h4><p class=\"what\">Share of samples, by the "
            "function that was running.</p>\n<div class=\"scroll\" tabindex=\"0\">");
    bn_plot_begin(out, &p, "shares of classes over the recordings");
    bn_plot_y_axis(out, &p);
    put_axis(out, &p, first, number);
    for (const bn_json *e = first; e != NULL; e = bn_json_next(e))
        draw_bar(out, &p, e, (double)++number);
    bn_html(out, "<text class=\"start\" x=\"4\" y=\"12\">%%</text>\n");
    bn_plot_end(out);
    bn_html(out, "</div>\n");
    put_keys(out, entries);
    bn_html(out, "</div>\n");
}

/* ---- functions ---- */

static const bn_json *row_of(const bn_json *entry, const char *name)
{
    return bn_json_find(bn_json_path(entry, "functions.rows"), "name", name);
}

static const bn_json *change_of(const bn_json *entry, const char *name)
{
    const bn_json *changes = bn_json_path(entry, "since.changes");
    for (const bn_json *c = bn_json_first(changes); c != NULL; c = bn_json_next(c))
        if (bn_json_text_is(c, "of", "self") && bn_json_text_is(c, "name", name)) return c;
    return NULL;
}

static void draw_function(struct bn_buf *out, const struct bn_plot *p, const bn_json *first, size_t number,
                          const char *name)
{
    double x = (double)number;
    const char *pen = "M";
    bn_html(out, "<path class=\"line\" d=\"");
    for (const bn_json *e = first; e != NULL; e = bn_json_next(e)) {
        const bn_json *row = row_of(e, name);
        x++;
        if (row != NULL)
            bn_html(out, "%s%.1f %.1f", pen, bn_plot_x(p, x),
                    bn_plot_y(p, 100 * bn_json_number_of(row, "self_share")));
        pen = row != NULL ? "L" : "M";
    }
    bn_html(out, "\"/>\n");
    x = (double)number;
    for (const bn_json *e = first; e != NULL; e = bn_json_next(e)) {
        const bn_json *row = row_of(e, name), *change = change_of(e, name);
        x++;
        if (row == NULL) continue;
        double at = bn_plot_x(p, x), share = 100 * bn_json_number_of(row, "self_share");
        double low = 100 * bn_json_number_of(row, "self_low"),
               high = 100 * bn_json_number_of(row, "self_high");
        if (isfinite(low) && isfinite(high))
            bn_html(out, "<path class=\"whisker\" d=\"M%.1f %.1fV%.1f\"/>", at, bn_plot_y(p, low),
                    bn_plot_y(p, high));
        double y = bn_plot_y(p, share);
        if (change != NULL)
            bn_html(out, "<path class=\"cross\" d=\"M%.1f %.1fL%.1f %.1fM%.1f %.1fL%.1f %.1f\">", at - 5,
                    y - 5, at + 5, y + 5, at - 5, y + 5, at + 5, y - 5);
        else
            bn_html(out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\">", at, y);
        bn_html(out, "<title>%s: %.1f %%</title>", bn_json_text_of(e, "folder"), share);
        bn_buf_puts(out, change != NULL ? "</path>\n" : "</circle>\n");
    }
}

static void put_function(struct bn_buf *out, const bn_json *entries, const char *name)
{
    size_t number;
    const bn_json *first = first_drawn(entries, &number);
    struct bn_plot p = plot_of(entries, 480, 252);
    double low = 0, high = 0; /* a share is seen as one only above nothing */
    for (const bn_json *e = first; e != NULL; e = bn_json_next(e)) {
        const bn_json *row = row_of(e, name);
        static const char *const ENDS[] = {"self_share", "self_low", "self_high"};
        for (size_t i = 0; row != NULL && i < 3; i++)
            bn_plot_include(&low, &high, 100 * bn_json_number_of(row, ENDS[i]));
    }
    bn_plot_round(&low, &high, 6);
    p.y0 = 0;
    p.y1 = high;
    bn_html(out, "<div class=\"figure\"><h4>%s</h4>\n", name);
    bn_plot_begin(out, &p, "share of samples over the recordings");
    bn_plot_y_axis(out, &p);
    draw_function(out, &p, first, number, name);
    put_axis(out, &p, first, number);
    bn_html(out, "<text class=\"start\" x=\"4\" y=\"12\">%%</text>\n");
    bn_plot_end(out);
    bn_html(out, "</div>\n");
}

/* Those with the largest self share in the last entry, the largest first. */
static void put_functions(struct bn_buf *out, const bn_json *entries)
{
    const bn_json *last = bn_json_at(entries, bn_json_size(entries) - 1), *drawn[FUNCTIONS] = {NULL};
    const bn_json *rows = bn_json_path(last, "functions.rows");
    for (const bn_json *r = bn_json_first(rows); r != NULL; r = bn_json_next(r)) {
        const bn_json *carried = bn_json_number_of(r, "self_share") > 0 ? r : NULL;
        for (size_t i = 0; i < FUNCTIONS && carried != NULL; i++)
            if (drawn[i] == NULL ||
                bn_json_number_of(drawn[i], "self_share") < bn_json_number_of(carried, "self_share")) {
                const bn_json *pushed = drawn[i];
                drawn[i] = carried;
                carried = pushed;
            }
    }
    bn_html(
        out,
        "<h3>Functions that have most of the last recording</h3><p class=\"what\">Share of samples in which "
        "the function itself was running; bars are 95 %% intervals as if samples were independent, crosses "
        "where it changed significantly since the recording before.</p>\n<div class=\"plots\">\n");
    for (size_t i = 0; i < FUNCTIONS && drawn[i] != NULL; i++)
        put_function(out, entries, bn_json_text_of(drawn[i], "name"));
    bn_html(out, "</div>\n");
}

/* ---- the table ---- */

static void put_since(struct bn_buf *out, const bn_json *since)
{
    const bn_json *changes = bn_json_get(since, "changes");
    bn_html(out, "<td class=\"left\">");
    if (since == NULL)
        bn_html(out, "<span class=\"hint\">the first one</span>");
    else if (!bn_json_flag_of(since, "compared"))
        bn_html(out, "<span class=\"hint\">not compared: %s</span>", bn_json_text_of(since, "why"));
    else if (bn_json_size(changes) == 0)
        bn_html(out, "<span class=\"hint\">nothing significant</span>");
    for (const bn_json *c = bn_json_first(changes); c != NULL; c = bn_json_next(c))
        bn_html(out, "<p><span class=\"mark bad\">!</span> <code>%s</code> %s %.1f %% to %.1f %%</p>",
                bn_json_text_of(c, "name"), bn_json_text_of(c, "of"), 100 * bn_json_number_of(c, "before"),
                100 * bn_json_number_of(c, "after"));
    bn_html(out, "</td>");
}

static void put_table(struct bn_buf *out, const bn_json *entries, const char *name)
{
    size_t number = 0;
    bn_html(out,
            "<h3>Recordings</h3>\n<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>recording</th>"
            "<th>picture</th><th>page</th><th>samples</th><th class=\"left\">changed "
            "significantly</th></tr></thead>\n<tbody>\n");
    for (const bn_json *e = bn_json_first(entries); e != NULL; e = bn_json_next(e)) {
        const char *folder = bn_json_text_of(e, "folder");
        bn_html(out,
                "<tr><td>%zu: %s</td><td><a href=\"archives/%s/%s.svg\">svg</a></td>"
                "<td><a href=\"archives/%s/%s.md\">md</a></td><td>%.9g</td>",
                ++number, folder, folder, name, folder, name, bn_json_number_of(e, "samples"));
        put_since(out, bn_json_get(e, "since"));
        bn_html(out, "</tr>\n");
    }
    bn_html(out, "</tbody></table></div>\n");
}

static void put_series(struct bn_buf *out, const bn_json *series)
{
    const char *name = bn_json_text_of(series, "name");
    const bn_json *entries = bn_json_get(series, "entries");
    bn_html(out, "<h2>%s</h2>\n", name);
    if (bn_json_size(entries) > MOST_DRAWN)
        bn_html(out, "<p>The plots show the last %u of %zu recordings.</p>\n", MOST_DRAWN,
                bn_json_size(entries));
    put_classes(out, entries);
    put_functions(out, entries);
    put_table(out, entries, name);
}

void bn_timeline_page(struct bn_buf *out, const bn_json *document)
{
    struct bn_buf style = {.max = 1u << 16};
    const bn_json *series = bn_json_get(document, "series");
    make_style(&style);
    bn_page_begin(out, "Flame graphs over time", style.data != NULL ? style.data : "", style.len, "");
    bn_html(out,
            "<h1>Flame graphs over time</h1>\n<p class=\"lead\">Recordings of the same work, in the order in "
            "which they were kept. Each links to its picture and its page.</p>\n");
    for (const bn_json *s = bn_json_first(series); s != NULL; s = bn_json_next(s))
        put_series(out, s);
    bn_page_end(out);
    bn_buf_release(&style);
}
