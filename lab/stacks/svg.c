/* SPDX-License-Identifier: MIT
 *
 * Flame graphs of stacks, whose widths are weights and whose colours are classes, and of comparisons, whose colours
 * show how many points of the whole a frame's share changed.
 *
 * A picture contains the tree twice: as boxes with titles, for readers without scripts, and as data, from which
 * the script (flame.js) draws the visible part. Boxes are laid out in integer hundredths of a px, so that
 * children lie inside their parents exactly and the locale does not matter.
 */
#include "lab/stacks/svg.h"

#include <math.h>
#include <stdio.h>

#include "base/utf8.h"
#include "lab/report/page.h"
#include "lab/report/units.h"

extern const char bn_flame_style[], bn_flame_script[]; /* svg_parts.S */

#define MARGIN 10.0           /* px around the boxes */
#define MAX_STATIC_BOXES 2000 /* drawn without the script: some 300 bytes each */
#define NARROW 0.1            /* px: narrower boxes are drawn when they are zoomed into */
#define THIN 300              /* hundredths of a px: narrower boxes have no edge */
#define CHARACTER 0.605       /* a column of the typeface of the boxes, in its size; it is a monospaced one */
#define FRAME 16.0            /* px: height of a box */
#define FONT 11.52            /* px: of its text */
#define KEY 230.0             /* px: width of a label of the legend, of which a row has as many as fit */
#define NOTES_CHARACTER 6.6   /* px that a character of the notes takes at most, in most texts */

/* "45.23 %", "< 0.01 %", as the script writes it. */
static void put_percent(struct bn_buf *out, const char *before, double share)
{
    bn_buf_puts(out, before);
    if (share > 0 && share < 0.00005)
        bn_buf_puts(out, "&lt; 0.01 %");
    else
        bn_buf_printf(out, "%.2f %%", 100 * share);
}

/* What is drawn: a tree whose nodes have a width and a look. */
#define MAX_LOOKS (BN_CLASSES * BN_SHADES) /* a comparison has fewer */
#define MAX_LEGEND 12u

struct picture {
    const bn_stacks *tree;
    const struct bn_stacks_diff *diff; /* NULL: a picture of stacks */
    const struct bn_svg_options *options;
    double *widths, *self;                /* [n_nodes]: of the node and all below it; of the node */
    unsigned *look;                       /* [n_nodes]; not of the root */
    struct bn_colour looks[2][MAX_LOOKS]; /* of boxes: light, dark */
    unsigned n_looks;
    unsigned gone; /* this look and later ones are dashed; n_looks: none is */
    struct {
        unsigned look;
        char label[64];
    } legend[MAX_LEGEND];
    size_t n_legend;
};

/* ---- layout ---- */

struct box {
    int64_t left, right; /* hundredths of a px */
    double next;         /* where the next child begins, in the unit of the widths */
    bool drawn;
};

struct layout {
    struct box *boxes;    /* [n_nodes] */
    int64_t width;        /* of the picture */
    double floor;         /* px: narrower boxes are not drawn */
    uint32_t depth;       /* of the deepest that is drawn */
    double top, height;   /* of the boxes, px */
    size_t keys, n_drawn; /* keys: labels of the legend in a row */
};

/* A walk in depth-first order needs the path to the node before, and no more. */
static bool is_sorted(const bn_stacks *s)
{
    for (uint32_t i = 1, at = 0; i < s->n_nodes; at = i++) {
        while (at != BN_STACKS_ROOT && at != s->nodes[i].parent)
            at = s->nodes[at].parent;
        if (at != s->nodes[i].parent) return false;
    }
    return true;
}

static void place_boxes(struct layout *l, const struct picture *p)
{
    const struct bn_stacks_node *nodes = p->tree->nodes;
    double scale = ((double)l->width - 200 * MARGIN) / p->widths[0];
    int64_t margin = (int64_t)(100 * MARGIN);
    for (uint32_t i = 0; i < p->tree->n_nodes; i++) {
        struct box *b = &l->boxes[i], *parent = &l->boxes[nodes[i].parent];
        double from = i == BN_STACKS_ROOT ? 0 : parent->next;
        parent->next = from + p->widths[i];
        b->next = from;
        b->left = margin + llround(from * scale);
        b->right = margin + llround((from + p->widths[i]) * scale);
        if (i == BN_STACKS_ROOT) continue;
        if (b->right > parent->right) b->right = parent->right;
        if (b->left > b->right) b->left = b->right;
    }
}

static void choose_drawn(struct layout *l, const bn_stacks *s)
{
    do {
        l->n_drawn = 0;
        l->depth = 0;
        for (uint32_t i = 0; i < s->n_nodes; i++) {
            struct box *b = &l->boxes[i];
            double width = (double)(b->right - b->left) / 100;
            b->drawn =
                i == BN_STACKS_ROOT || (width >= l->floor && width > 0 && l->boxes[s->nodes[i].parent].drawn);
            l->n_drawn += b->drawn;
            if (b->drawn && s->nodes[i].depth > l->depth) l->depth = s->nodes[i].depth;
        }
        if (l->n_drawn > MAX_STATIC_BOXES) l->floor = l->floor < 0.05 ? 0.05 : 2 * l->floor;
    } while (l->n_drawn > MAX_STATIC_BOXES);
}

static bn_status lay_out(struct layout *l, const struct picture *p, bn_error *err)
{
    const struct bn_svg_options *o = p->options;
    size_t n = p->tree->n_nodes;
    *l =
        (struct layout){.floor = o->all ? 0 : NARROW, .width = 100 * llround(o->width > 0 ? o->width : 1200)};
    if (!is_sorted(p->tree)) return bn_fail(err, BN_ERR_ARG, "these stacks are not sorted");
    if (n < 2 || !(p->widths[0] > 0) || !isfinite(p->widths[0]))
        return bn_fail(err, BN_ERR_FORMAT, "nothing to draw: no stack has a weight");
    for (size_t i = 0; i < n; i++)
        if (!(p->widths[i] >= 0 && p->widths[i] <= p->widths[0] * 1.000001))
            return bn_fail(err, BN_ERR_FORMAT, "a stack has a negative weight");
    BN_TRY(BN_NEW(l->boxes, n, err));
    place_boxes(l, p);
    choose_drawn(l, p->tree);
    l->keys = (size_t)fmax(1, ((double)l->width / 100 - 2 * MARGIN) / KEY);
    l->top = 14 + (o->title != NULL ? 24 : 0) + (o->subtitle != NULL ? 19 : 0) +
             20 * (double)((p->n_legend + l->keys - 1) / l->keys);
    l->height = (l->depth + 1) * FRAME;
    return BN_OK;
}

/* ---- boxes ---- */

/* How many columns a character takes at most: wide ones two, and those that are shown by their number
 * (base/html.h) as many as that has. */
static unsigned columns_of(const char *c)
{
    unsigned char first = (unsigned char)*c;
    if (first < 0x80) return 1;
    return first == 0xC2 || first == 0xD8 || first == 0xE2 || first == 0xEF ? 9 : 2;
}

/* Frames' texts are valid UTF-8; the walk continues even if one is not. */
static size_t step(const char *text, size_t n)
{
    size_t length = bn_utf8_length(text, n);
    return length > 0 ? length : 1;
}

/* The name, or as much of it as fits into the columns. */
static void put_label(struct bn_buf *out, const char *name, double columns)
{
    double needs = 0, has = 1; /* the ellipsis */
    size_t n = strlen(name), to = 0;
    for (size_t i = 0; i < n && needs <= columns; i += step(name + i, n - i))
        needs += columns_of(name + i);
    if (needs <= columns) {
        bn_html(out, "%s", name);
        return;
    }
    while (to < n && (has += columns_of(name + to)) <= columns)
        to += step(name + to, n - to);
    char *part = bn_strndup(name, to);
    if (part == NULL)
        out->failed = true;
    else
        bn_html(out, "%s\xE2\x80\xA6", part);
    bn_free(part);
}

static const char *name_of(const struct picture *p, uint32_t node)
{
    const struct bn_frame *f = bn_stacks_frame(p->tree, node);
    return f == NULL ? "all" : f->name;
}

/* "libc.so.6, malloc.c:3300"; "" when neither is known. */
static const char *place_of(char out[3 * BN_STACKS_MAX_NAME], const struct bn_frame *f)
{
    char line[16] = "";
    if (f->file[0] != '\0' && f->line > 0) snprintf(line, sizeof line, ":%u", f->line);
    snprintf(out, 3 * BN_STACKS_MAX_NAME, "%s%s%s%s", f->module,
             f->module[0] != '\0' && f->file[0] != '\0' ? ", " : "", f->file, line);
    return out;
}

/* What a tooltip says without the script, which knows more. */
static void put_tip(struct bn_buf *out, const struct picture *p, uint32_t node)
{
    const struct bn_frame *f = bn_stacks_frame(p->tree, node);
    char place[3 * BN_STACKS_MAX_NAME] = "";
    bn_html(out, "%s", name_of(p, node));
    if (f != NULL && place_of(place, f)[0] != '\0') bn_html(out, "\n%s", place);
    if (p->diff != NULL) {
        put_percent(out, "\nbefore ", p->diff->paths[node].before);
        put_percent(out, ", after ", p->diff->paths[node].after);
        return;
    }
    for (int self = 0; self < 2; self++) {
        double weight = self ? p->self[node] : p->widths[node];
        char text[BN_UNITS_ROOM];
        bn_html(out, self ? "\nself %s" : "\ntotal %s", bn_units_text(text, weight, p->tree->unit));
        put_percent(out, ", ", weight / p->widths[0]);
    }
}

static void put_box(struct bn_buf *out, const struct picture *p, const struct layout *l, uint32_t node)
{
    const struct box *b = &l->boxes[node];
    const struct bn_frame *f = bn_stacks_frame(p->tree, node);
    double y = l->top + FRAME * (l->depth - p->tree->nodes[node].depth);
    bool thin = b->right - b->left < THIN, tag = f != NULL && BN_FRAME_IS_TAG(f->kind);
    bn_buf_printf(out, "<g class=\"%s%s\"><title>",
                  f == NULL ? "root"
                  : tag     ? "tag"
                            : "",
                  thin ? " thin" : "");
    put_tip(out, p, node);
    bn_buf_puts(out, "</title><rect");
    if (f != NULL) bn_buf_printf(out, " class=\"b%u\"", p->look[node]);
    double x = (double)b->left / 100, width = (double)(b->right - b->left) / 100;
    bn_buf_printf(out, " x=\"%.7g\" y=\"%.7g\" width=\"%.7g\" height=\"%.7g\"/>", x, y, width, FRAME);
    double columns = floor((width - 7) / (CHARACTER * FONT));
    if (columns >= 3) {
        bn_buf_printf(out, "<text x=\"%.7g\" y=\"%.7g\">", x + 4, y + FRAME / 2 + FONT * 0.35);
        put_label(out, name_of(p, node), columns);
        bn_buf_puts(out, "</text>");
    }
    bn_buf_puts(out, "</g>\n");
}

/* ---- the document ---- */

static void put_legend(struct bn_buf *out, const struct picture *p, const struct layout *l, double y)
{
    for (size_t i = 0; i < p->n_legend; i++) {
        double x = MARGIN + KEY * (double)(i % l->keys), top = y + 20 * (double)(i / l->keys);
        bn_buf_printf(out,
                      "<rect class=\"b%u\" x=\"%.7g\" y=\"%.7g\" width=\"12\" height=\"12\"/>"
                      "<text class=\"key\" x=\"%.7g\" y=\"%.7g\"",
                      p->legend[i].look, x, top, x + 16, top + 10);
        bn_html(out, ">%s</text>\n", p->legend[i].label);
    }
}

/* Copies the first line of a text, up to a line break or as many whole words as there is room for; returns
 * the rest. */
static const char *take_line(char out[BN_STACKS_MAX_NAME], const char *text, size_t room)
{
    size_t all = strcspn(text, "\n"), n = all < room ? all : room;
    while (n < all && n > 0 && text[n] != ' ')
        n--;
    if (n == 0) n = all;
    snprintf(out, BN_STACKS_MAX_NAME, "%.*s", (int)n, text);
    return text + n + (text[n] != '\0');
}

static void put_soft(struct bn_buf *out, double y, const char *text)
{
    bn_buf_printf(out, "<text class=\"soft\" x=\"10\" y=\"%.7g\"", y);
    bn_html(out, ">%s</text>\n", text);
}

/* The notes from y on, in lines as wide as the picture; returns where they end. out may be NULL. */
static double put_notes(struct bn_buf *out, const struct picture *p, const struct layout *l, double y)
{
    double room = ((double)l->width / 100 - 2 * MARGIN) / NOTES_CHARACTER;
    for (const char *line = p->options->notes; line != NULL && *line != '\0'; y += 18) {
        char text[BN_STACKS_MAX_NAME];
        line = take_line(text, line, (size_t)fmax(room, 20));
        if (out != NULL) put_soft(out, y, text);
    }
    return y;
}

static void put_static(struct bn_buf *out, const struct picture *p, const struct layout *l)
{
    const struct bn_svg_options *o = p->options;
    double y = 10;
    bn_buf_puts(out, "<g id=\"static\">\n");
    if (o->title != NULL) bn_html(out, "<text class=\"title\" x=\"10\" y=\"26\">%s</text>\n", o->title);
    if (o->title != NULL) y += 24;
    if (o->subtitle != NULL) put_soft(out, y + 12, o->subtitle);
    if (o->subtitle != NULL) y += 19;
    put_legend(out, p, l, y + 2);
    bn_buf_puts(out, "<g class=\"boxes\">\n");
    for (uint32_t i = 0; i < p->tree->n_nodes; i++)
        if (l->boxes[i].drawn) put_box(out, p, l, i);
    bn_buf_puts(out, "</g>\n");
    y = put_notes(out, p, l, l->top + l->height + 18);
    char text[160];
    snprintf(
        text, sizeof text,
        "%zu of %zu call paths are wide enough to be drawn here; opened in a browser, all can be found and "
        "zoomed into",
        l->n_drawn, p->tree->n_nodes);
    if (l->n_drawn < p->tree->n_nodes) put_soft(out, y, text);
    bn_buf_puts(out, "</g>\n");
}

static void put_scheme(struct bn_buf *out, const struct picture *p, bool dark)
{
    struct bn_colour ink = bn_palette_ink(p->options->palette, dark);
    bn_buf_printf(out, ":root{--on:#%02x%02x%02x}\n", ink.r, ink.g, ink.b);
    for (unsigned i = 0; i < p->n_looks; i++) {
        struct bn_colour c = p->looks[dark][i];
        bn_buf_printf(out, ".b%u{fill:#%02x%02x%02x;background:#%02x%02x%02x%s}\n", i, c.r, c.g, c.b, c.r,
                      c.g, c.b, i >= p->gone ? ";stroke:var(--on)!important;stroke-dasharray:4 3" : "");
    }
}

static void put_style(struct bn_buf *out, const struct picture *p)
{
    bn_buf_puts(out, "<style><![CDATA[\n");
    bn_buf_puts(out, bn_flame_style);
    bn_buf_printf(out, ".boxes text{font-size:%.2fpx}\n", FONT);
    put_scheme(out, p, false);
    bn_buf_puts(out, "@media screen and (prefers-color-scheme:dark){\n");
    put_scheme(out, p, true);
    bn_buf_puts(out, "}\n]]></style>\n");
}

static bn_status put_about(struct bn_buf *out, const bn_json *about, bn_error *err)
{
    struct bn_buf json = {.max = out->max};
    bn_status status = bn_json_write(about, true, &json, err);
    if (status == BN_OK) bn_html(out, "<metadata>%s</metadata>\n", json.data);
    bn_buf_release(&json);
    return status;
}

/* ---- data for the script ---- */

static void put_member(struct bn_buf *out, const char *name, const char *text)
{
    if (text == NULL) return;
    bn_buf_printf(out, "\"%s\":", name);
    bn_html_json(out, text);
    bn_buf_puts(out, ",\n");
}

static void put_columns(struct bn_buf *out, const struct picture *p)
{
    static const char *const NAMES[] = {"depth", "frame", "look", "self", "samples",    "before",
                                        "after", "low",   "high", "q",    "significant"};
    const struct bn_diff_value none = {0};
    for (unsigned c = 0; c < BN_ARRAY_LEN(NAMES); c++) {
        if (c >= 4 && (c == 4) != (p->diff == NULL))
            continue; /* samples of stacks, the rest of comparisons */
        bn_buf_printf(out, "\"%s\":", NAMES[c]);
        for (uint32_t i = 0; i < p->tree->n_nodes; i++) {
            const struct bn_diff_value *v = p->diff != NULL ? &p->diff->paths[i] : &none;
            bool root = i == BN_STACKS_ROOT;
            const double numbers[] = {p->tree->nodes[i].depth,
                                      root ? -1 : (double)p->tree->nodes[i].frame,
                                      root ? -1 : (double)p->look[i],
                                      p->diff != NULL ? round(1e9 * p->self[i]) / 1e9 : p->self[i],
                                      (double)bn_stacks_samples(p->tree, i, BN_STACKS_ALL_RUNS),
                                      round(1e6 * v->before),
                                      round(1e6 * v->after),
                                      round(1e6 * v->low),
                                      round(1e6 * v->high),
                                      round(1e3 * v->q),
                                      v->significant};
            _Static_assert(BN_ARRAY_LEN(numbers) == BN_ARRAY_LEN(NAMES), "a number for each name");
            bn_buf_putc(out, i == 0 ? '[' : ',');
            bn_json_write_number(out, numbers[c] + 0.0); /* a zero has no sign */
        }
        bn_buf_puts(out, "],\n");
    }
    if (p->diff == NULL) return;
    bn_buf_puts(out, "\"whole\":[");
    bn_json_write_number(out, p->diff->weight[0]);
    bn_buf_putc(out, ',');
    bn_json_write_number(out, p->diff->weight[1]);
    bn_buf_puts(out, "],\n");
    put_member(out, "method", p->diff->method);
}

static void put_frames(struct bn_buf *out, const struct picture *p)
{
    bn_buf_puts(out, "\"frames\":[");
    for (size_t i = 0; i < p->tree->n_frames; i++) {
        const struct bn_frame *f = &p->tree->frames[i];
        char place[3 * BN_STACKS_MAX_NAME];
        bn_buf_puts(out, i > 0 ? ",\n[" : "\n[");
        bn_html_json(out, f->name);
        bn_buf_putc(out, ',');
        bn_html_json(out, place_of(place, f));
        bn_buf_printf(out, ",%d,%u]", (int)f->kind, BN_FRAME_IS_TAG(f->kind) ? 1u : 0u);
    }
    bn_buf_puts(out, "]}\n</script>\n");
}

static void put_data(struct bn_buf *out, const struct picture *p)
{
    const struct bn_svg_options *o = p->options;
    bn_buf_puts(out, "<script type=\"application/json\" id=\"data\">\n{");
    put_member(out, "title", o->title);
    put_member(out, "subtitle", o->subtitle);
    bn_buf_puts(out, "\"notes\":[");
    for (const char *line = o->notes; line != NULL && *line != '\0';) {
        char text[BN_STACKS_MAX_NAME];
        bn_buf_puts(out, line == o->notes ? "" : ",");
        line = take_line(text, line, SIZE_MAX);
        bn_html_json(out, text);
    }
    bn_buf_puts(out, "],\n");
    put_member(out, "unit", p->tree->unit);
    bn_buf_puts(out, "\"legend\":[");
    for (size_t i = 0; i < p->n_legend; i++) {
        bn_buf_printf(out, "%s[%u,", i > 0 ? "," : "", p->legend[i].look);
        bn_html_json(out, p->legend[i].label);
        bn_buf_putc(out, ']');
    }
    bn_buf_puts(out, "],\n\"width\":");
    bn_json_write_number(out, o->width > 0 ? o->width : 0);
    bn_buf_printf(out, ",\"frameHeight\":%g,\"minWidth\":%g,\n", FRAME, NARROW);
    put_columns(out, p);
    put_frames(out, p);
}

static bn_status write_picture(struct bn_buf *out, const struct picture *picture, bn_error *err)
{
    struct layout layout;
    const struct bn_svg_options *o = picture->options;
    bn_status status = lay_out(&layout, picture, err);
    if (status == BN_OK) {
        double below =
            14 + put_notes(NULL, picture, &layout, 0) + (layout.n_drawn < picture->tree->n_nodes ? 18 : 0);
        double width = (double)layout.width / 100, height = ceil(layout.top + layout.height + below);
        bn_buf_printf(out,
                      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
                      "width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n",
                      width, height, width, height);
        bn_html(out, "<title>%s</title>\n", o->title != NULL ? o->title : "flame graph");
        status = put_about(out, picture->tree->about, err);
        put_style(out, picture);
        bn_buf_puts(out, "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n");
        put_static(out, picture, &layout);
        put_data(out, picture);
        bn_buf_puts(out, "<script><![CDATA[\n");
        bn_buf_puts(out, bn_flame_script);
        bn_buf_puts(out, "]]></script>\n</svg>\n");
    }
    bn_free(layout.boxes);
    return status == BN_OK ? bn_buf_check(out, err) : status;
}

/* ---- widths and looks of stacks: weights and classes ---- */

/* Classes that occur, and the share of time in their functions themselves. */
static void make_legend(struct picture *p)
{
    double shares[BN_CLASSES] = {0};
    bool there[BN_CLASSES] = {false};
    for (uint32_t i = 1; i < p->tree->n_nodes; i++) {
        unsigned class = p->look[i] / BN_SHADES;
        there[class] = true;
        if (p->options->callers && p->self[i] > 0) class = bn_class_at(p->tree, i, true);
        shares[class] += p->self[i] / p->widths[0];
    }
    for (unsigned c = 0; c < BN_CLASSES; c++) {
        if (!(shares[c] > 0) && (!there[c] || c == BN_CLASS_TAG)) continue;
        snprintf(p->legend[p->n_legend].label, sizeof p->legend[0].label, "%s %.2f %%",
                 bn_class_name((enum bn_class)c), 100 * shares[c]);
        p->legend[p->n_legend++].look = c * BN_SHADES + BN_SHADES / 2;
    }
}

static void show_stacks(struct picture *p)
{
    p->n_looks = p->gone = MAX_LOOKS;
    for (unsigned i = 0; i < MAX_LOOKS; i++)
        for (int dark = 0; dark < 2; dark++)
            p->looks[dark][i] =
                bn_palette_shade(p->options->palette, (enum bn_class)(i / BN_SHADES), i % BN_SHADES, dark);
    for (uint32_t i = 1; i < p->tree->n_nodes; i++) {
        const struct bn_frame *f = bn_stacks_frame(p->tree, i);
        enum bn_class class = p->options->callers ? bn_class_of(f) : bn_class_at(p->tree, i, false);
        p->look[i] = (unsigned)class * BN_SHADES + bn_shade_of(f);
    }
    for (uint32_t i = 0; i < p->tree->n_nodes; i++)
        p->self[i] = bn_stacks_self(p->tree, i, BN_STACKS_ALL_RUNS);
    bn_stacks_totals(p->tree, BN_STACKS_ALL_RUNS, p->widths);
    make_legend(p);
}

/* ---- of comparisons: by how many points of the whole a share changed ---- */

/* Looks: -5 to 5, then frames that are gone, dashed, in the colours of 0 to -5. */
#define LOOK_GONE (2u * BN_DELTA_STEPS + 1u)
#define LOOKS (LOOK_GONE + BN_DELTA_STEPS + 1u)

/* Points of the whole from which on a difference has the next colour. */
static const double STEPS[BN_DELTA_STEPS] = {0, 0.005, 0.01, 0.02, 0.05};

static unsigned look_of(const struct bn_diff_value *v)
{
    int step = 0;
    while (v->significant && step < BN_DELTA_STEPS && fabs(v->after - v->before) >= STEPS[step] - 1e-7)
        step++;
    if (v->after <= 0 && v->before > 0) return LOOK_GONE + (unsigned)step;
    return (unsigned)(BN_DELTA_STEPS + (v->after < v->before ? -step : step));
}

static void show_diff(struct picture *p)
{
    static const char *const LABELS[] = {"-5 points", "-2",   "-1", "-0.5", "less",      "not significant",
                                         "more",      "+0.5", "+1", "+2",   "+5 points", "gone"};
    _Static_assert(BN_ARRAY_LEN(LABELS) <= MAX_LEGEND, "all are shown");
    _Static_assert(LOOKS <= MAX_LOOKS, "all have a place");
    p->n_looks = LOOKS;
    p->gone = LOOK_GONE;
    for (unsigned i = 0; i < LOOKS; i++)
        for (int dark = 0; dark < 2; dark++) {
            int step = i < LOOK_GONE ? (int)i - BN_DELTA_STEPS : -(int)(i - LOOK_GONE);
            p->looks[dark][i] = bn_palette_delta(p->options->palette, step, dark);
        }
    p->n_legend = BN_ARRAY_LEN(LABELS);
    for (unsigned i = 0; i < p->n_legend; i++) {
        snprintf(p->legend[i].label, sizeof p->legend[i].label, "%s", LABELS[i]);
        p->legend[i].look = i < LOOK_GONE ? i : LOOKS - 1;
    }
    for (uint32_t i = 0; i < p->tree->n_nodes; i++) {
        const struct bn_diff_value *v = &p->diff->paths[i];
        p->look[i] = look_of(v);
        p->widths[i] = p->self[i] = (v->before + v->after) / 2;
    }
    for (uint32_t i = 1; i < p->tree->n_nodes; i++) /* what rounding leaves of a sum is nothing */
        p->self[p->tree->nodes[i].parent] -= p->widths[i];
    for (uint32_t i = 0; i < p->tree->n_nodes; i++)
        if (p->self[i] < 1e-9 && p->self[i] > -1e-9) p->self[i] = 0;
}

/* ---- both ---- */

bn_status bn_svg(struct bn_buf *out, const bn_stacks *stacks, const struct bn_stacks_diff *diff,
                 const struct bn_svg_options *options, bn_error *err)
{
    struct picture picture = {.tree = stacks,
                              .diff = diff,
                              .options = options,
                              .widths = bn_alloc(stacks->n_nodes, sizeof *picture.widths),
                              .self = bn_alloc(stacks->n_nodes, sizeof *picture.self),
                              .look = bn_alloc(stacks->n_nodes, sizeof *picture.look)};
    bn_status status =
        picture.widths == NULL || picture.self == NULL || picture.look == NULL ? bn_nomem(err) : BN_OK;
    if (status == BN_OK) {
        if (diff != NULL)
            show_diff(&picture);
        else
            show_stacks(&picture);
        status = write_picture(out, &picture, err);
    }
    bn_free(picture.widths);
    bn_free(picture.self);
    bn_free(picture.look);
    return status;
}
