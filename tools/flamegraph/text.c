/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph text: a table of functions, or the call tree.
 */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "lab/kit/order.h"
#include "lab/stacks/hotspots.h"
#include "tools/cli/report.h"
#include "tools/flamegraph/flamegraph.h"

#define TOP 25u
#define LEAST_WAITING 0.005 /* of the time: is said above the table */

const struct bn_option bn_flamegraph_text_options[] = {
    BN_OPTION("top", "number of rows; 0: all", .letter = 'n', .arg = "N", .preset = "25",
              BN_TO_U32(struct bn_flamegraph_options, top, 0, UINT32_MAX)),
    BN_OPTION("sort", "order by self or total time", .arg = "self|total", .preset = "self",
              BN_TO_CHOICE(struct bn_flamegraph_options, order)),
    BN_OPTION("tree", "print the call tree instead of the table",
              BN_TO_BOOL(struct bn_flamegraph_options, tree)),
    BN_OPTION("min", "leave out calls below this percentage", .arg = "PERCENT", .preset = "1",
              BN_TO_F64(struct bn_flamegraph_options, min, 0, 100)),
    {0},
};

struct listing {
    const bn_stacks *stacks;
    struct bn_hotspots spots;
    uint32_t top;
    bool by_total, tree, inverted;
    double min;                          /* share */
    double *totals, classes[BN_CLASSES]; /* shares; none of an inverted tree, which has no self times */
    const char **names;                  /* of the rows of a table, sorted */
};

/* ---- tree ---- */

/* The nodes in depth-first order, as a view has them, that are large enough; with them all above them. */
static bool is_shown(const struct listing *l, uint32_t node)
{
    return node == BN_STACKS_ROOT || (l->totals[node] > 0 && l->totals[node] >= l->min * l->totals[0]);
}

static double percent(const struct listing *l, double weight)
{
    return l->totals[0] > 0 ? 100 * weight / l->totals[0] : 0;
}

static void print_tree(const struct listing *l, struct bn_buf *out)
{
    bn_buf_puts(out, "total %  self %  call path\n");
    for (uint32_t i = 0; i < l->stacks->n_nodes; i++) {
        if (!is_shown(l, i)) continue;
        const struct bn_frame *f = bn_stacks_frame(l->stacks, i);
        bn_buf_printf(out, "%7.2f %7.2f  ", percent(l, l->totals[i]),
                      percent(l, bn_stacks_self(l->stacks, i, BN_STACKS_ALL_RUNS)));
        for (uint32_t k = 0; k < l->stacks->nodes[i].depth; k++)
            bn_buf_puts(out, "  ");
        bn_buf_puts(out, f != NULL ? f->name : "all");
        bn_buf_putc(out, '\n');
    }
}

/* ---- table ---- */

static void print_share(struct bn_buf *out, const struct bn_interval *share)
{
    double half = (share->high - share->low) / 2;
    bn_buf_printf(out, "%7.2f", 100 * share->estimate);
    if (isfinite(half))
        bn_buf_printf(out, " %6.2f", 100 * half);
    else
        bn_buf_puts(out, "      -");
}

static size_t columns(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* The width of the column of names; the modules of longer names follow them directly. */
static size_t name_width(const struct listing *l, size_t n)
{
    size_t width = strlen("function");
    for (size_t i = 0; i < n; i++) {
        size_t c = columns(l->stacks->frames[l->spots.list[i].frame].name);
        if (c > width && c <= 48) width = c;
    }
    return width;
}

/* The names of n rows, sorted. */
static bn_status sort_names(struct listing *l, size_t n, bn_error *err)
{
    l->names = bn_alloc(n, sizeof *l->names);
    if (l->names == NULL) return bn_nomem(err);
    for (size_t i = 0; i < n; i++)
        l->names[i] = l->stacks->frames[l->spots.list[i].frame].name;
    if (n > 0) qsort(l->names, n, sizeof *l->names, bn_compare_texts);
    return BN_OK;
}

/* Whether two of the rows have this name: functions of two files, or one that is also inlined. */
static bool is_ambiguous(const struct listing *l, size_t n, const char *name)
{
    const char **found = bsearch(&name, l->names, n, sizeof *l->names, bn_compare_texts);
    if (found == NULL) return false;
    return (found > l->names && strcmp(found[-1], name) == 0) ||
           (found + 1 < l->names + n && strcmp(found[1], name) == 0);
}

/* The module in its column, and where the function is when its name does not say which one it is. */
static void print_place(struct bn_buf *out, const struct bn_frame *f, size_t width, bool ambiguous)
{
    bool with_file = ambiguous && f->file[0] != '\0';
    if (f->module[0] == '\0' && !with_file) return;
    for (size_t used = columns(f->name); used < width; used++)
        bn_buf_putc(out, ' ');
    if (f->module[0] != '\0') bn_buf_printf(out, "  %s", f->module);
    if (with_file) bn_buf_printf(out, "  %s", f->file);
    if (with_file && f->line > 0) bn_buf_printf(out, ":%lu", (unsigned long)f->line);
}

static bn_status print_table(struct listing *l, struct bn_buf *out, bn_error *err)
{
    size_t n = l->top != 0 && l->top < l->spots.n ? l->top : l->spots.n, width = name_width(l, n);
    BN_TRY(sort_names(l, n, err));
    bn_buf_printf(out, " self %%     +- total %%     +-  samples  %-*s  module\n", (int)width, "function");
    for (size_t i = 0; i < n; i++) {
        const struct bn_hotspot *h = &l->spots.list[i];
        const struct bn_frame *f = &l->stacks->frames[h->frame];
        print_share(out, &h->self_share);
        bn_buf_putc(out, ' ');
        print_share(out, &h->total_share);
        if (l->spots.samples > 0)
            bn_buf_printf(out, " %8llu  ", (unsigned long long)h->self_samples);
        else
            bn_buf_puts(out, "        -  ");
        bn_buf_puts(out, f->name);
        print_place(out, f, width, is_ambiguous(l, n, f->name));
        bn_buf_putc(out, '\n');
    }
    if (n < l->spots.n) bn_buf_printf(out, "and %zu more; --top 0 shows all\n", l->spots.n - n);
    return BN_OK;
}

static void print_head(const struct listing *l, struct bn_buf *out)
{
    const bn_stacks *s = l->stacks;
    char others[BN_FLAMEGRAPH_OTHERS_ROOM];
    bn_flamegraph_describe_others(others, s->about);
    if (strcmp(s->unit, "ns") == 0)
        bn_buf_printf(out, "%.6g s", l->spots.whole / 1e9);
    else
        bn_buf_printf(out, "%.15g %s", l->spots.whole, s->unit);
    if (s->what[0] != '\0' && strcmp(s->what, s->unit) != 0) bn_buf_printf(out, " of %s", s->what);
    if (l->spots.samples > 0 && strcmp(s->unit, "samples") != 0)
        bn_buf_printf(out, " in %llu samples", (unsigned long long)l->spots.samples);
    if (s->n_runs > 1) bn_buf_printf(out, ", %zu runs", s->n_runs);
    if (l->classes[BN_CLASS_WAIT] >= LEAST_WAITING)
        bn_buf_printf(out, "; %.2f %% of this is waiting", 100 * l->classes[BN_CLASS_WAIT]);
    if (others[0] != '\0') bn_buf_printf(out, "\nbusy machine: %s", others);
    bn_buf_puts(out, l->spots.samples > 0 || l->tree ? "\n\n"
                     : s->n_runs > 1                 ? "; +- is from the runs\n\n"
                                     : "; how many samples these are is not known, so there is no +-\n\n");
}

/* ---- document ---- */

static void put_share(bn_json *object, const char *name, const struct bn_interval *share, bool sampled)
{
    bn_json *s = bn_json_put_object(object, name);
    const char *why =
        sampled ? "the whole is nothing" : "no number of samples is known, and there is one run";
    bn_json_put_number(s, "estimate", share->estimate);
    bn_json_put_finite(s, "low", share->low, why);
    bn_json_put_finite(s, "high", share->high, why);
    bn_json_put_string(s, "method", share->method);
}

static void put_frame(bn_json *object, const struct bn_frame *f)
{
    bn_json_put_string(object, "name", f->name);
    bn_json_put_string(object, "kind", bn_frame_kind_name(f->kind));
    bn_json_put_string(object, "module", f->module);
    bn_json_put_string(object, "file", f->file);
    bn_json_put_u64(object, "line", f->line);
}

static void put_functions(bn_json *document, const struct listing *l)
{
    bn_json *list = bn_json_put_array(document, "functions");
    for (size_t i = 0; i < l->spots.n && (l->top == 0 || i < l->top); i++) {
        const struct bn_hotspot *h = &l->spots.list[i];
        bn_json *object = bn_json_add_object(list);
        put_frame(object, &l->stacks->frames[h->frame]);
        bn_json_put_number(object, "self", h->self);
        bn_json_put_number(object, "total", h->total);
        bn_json_put_u64(object, "self_samples", h->self_samples);
        bn_json_put_u64(object, "total_samples", h->total_samples);
        put_share(object, "self_share", &h->self_share, l->spots.samples > 0);
        put_share(object, "total_share", &h->total_share, l->spots.samples > 0);
    }
}

static void put_tree(bn_json *document, const struct listing *l)
{
    bn_json *list = bn_json_put_array(document, "tree");
    for (uint32_t i = 1; i < l->stacks->n_nodes; i++) {
        if (!is_shown(l, i)) continue;
        bn_json *object = bn_json_add_object(list);
        bn_json_put_u64(object, "depth", l->stacks->nodes[i].depth);
        put_frame(object, bn_stacks_frame(l->stacks, i));
        bn_json_put_number(object, "self", bn_stacks_self(l->stacks, i, BN_STACKS_ALL_RUNS));
        bn_json_put_number(object, "total", l->totals[i]);
    }
}

static bn_status write_document(const struct listing *l, struct bn_buf *out, bn_error *err)
{
    bn_json *document = bn_json_new_object();
    bn_json_put_string(document, "schema", "bn.hotspots/1");
    bn_json_put_string(document, "unit", l->stacks->unit);
    bn_json_put_string(document, "what", l->stacks->what);
    bn_json_put_number(document, "whole", l->spots.whole);
    bn_json_put_u64(document, "samples", l->spots.samples);
    bn_json_put_u64(document, "runs", l->stacks->n_runs);
    bn_json_put_copy(document, "about", l->stacks->about);
    bn_json *classes = bn_json_put_object(document, "classes");
    for (unsigned c = 0; c < BN_CLASSES; c++)
        if (l->classes[c] > 0) bn_json_put_number(classes, bn_class_name((enum bn_class)c), l->classes[c]);
    if (l->tree)
        put_tree(document, l);
    else
        put_functions(document, l);
    bn_status status = bn_json_write(document, false, out, err);
    bn_buf_putc(out, '\n');
    bn_json_free(document);
    return status;
}

/* ---- all of it ---- */

static int by_total(const void *a, const void *b)
{
    const struct bn_hotspot *x = a, *y = b;
    if (x->total != y->total) return x->total > y->total ? -1 : 1;
    if (x->self != y->self) return x->self > y->self ? -1 : 1;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static bn_status list(struct listing *l, bool json, struct bn_buf *out, bn_error *err)
{
    l->totals = bn_alloc(l->stacks->n_nodes, sizeof *l->totals);
    if (l->totals == NULL) return bn_nomem(err);
    bn_stacks_totals(l->stacks, BN_STACKS_ALL_RUNS, l->totals);
    BN_TRY(bn_hotspots(&l->spots, l->stacks, BN_FRAME_ALL, err));
    if (l->by_total && l->spots.n > 0) qsort(l->spots.list, l->spots.n, sizeof *l->spots.list, by_total);
    if (!l->inverted) BN_TRY(bn_class_shares(l->classes, l->stacks, err));
    if (json) return write_document(l, out, err);
    print_head(l, out);
    if (!l->tree) return print_table(l, out, err);
    print_tree(l, out);
    return BN_OK;
}

static void release(struct listing *l)
{
    bn_hotspots_release(&l->spots);
    bn_free(l->totals);
    bn_free(l->names);
}

bn_status bn_flamegraph_put_table(struct bn_buf *out, const bn_stacks *stacks, bn_error *err)
{
    struct listing l = {.stacks = stacks, .top = TOP};
    bn_status status = list(&l, false, out, err);
    release(&l);
    return status;
}

bn_status bn_flamegraph_text(struct bn_args *args, bn_error *err)
{
    struct bn_buf out = {.max = BN_FLAMEGRAPH_MAX_BYTES};
    const struct bn_flamegraph_options *o = args->fields;
    struct listing l = {.by_total = o->order == ORDER_TOTAL,
                        .tree = o->tree,
                        .top = o->top,
                        .min = o->min / 100,
                        .inverted = o->picture.callers};
    bn_stacks *stacks = NULL;
    BN_TRY(bn_flamegraph_check_name(args, args->json ? BN_STACKS_DOCUMENT : BN_STACKS_TEXT, err));
    if (!l.tree) BN_TRY(bn_flamegraph_check_callers(args, BN_STACKS_TEXT, err));
    BN_TRY(bn_flamegraph_open(&stacks, args, false, err));
    l.stacks = stacks;
    bn_status status = list(&l, args->json, &out, err);
    if (status == BN_OK && args->json) bn_report_json_began();
    if (status == BN_OK) status = bn_flamegraph_write(o->output, &out, err);
    release(&l);
    bn_buf_release(&out);
    bn_stacks_close(stacks);
    return status;
}
