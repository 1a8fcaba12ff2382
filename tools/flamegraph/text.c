/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph text: a table of functions, or the call tree. Other commands print the same table and tree.
 */
#include <math.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "lab/kit/order.h"
#include "lab/kit/put_counts.h"
#include "lab/report/units.h"
#include "lab/stacks/hotspots.h"
#include "tools/flamegraph/flamegraph.h"

#define LEAST_WAITING 0.005 /* of the time: is said above the table */

const struct bn_option bn_flamegraph_text_options[] = {
    BN_OPTION("top", "number of rows; 0: all", .letter = 'n', .preset = "25",
              BN_TO_U32(struct bn_flamegraph_options, top, 0, UINT32_MAX)),
    BN_OPTION("sort", "order by self or total time", .arg = "self|total", .preset = "self",
              BN_TO_CHOICE(struct bn_flamegraph_options, order)),
    BN_OPTION("tree", "print the call tree instead of the table",
              BN_TO_BOOL(struct bn_flamegraph_options, tree)),
    BN_OPTION("min", "leave out calls below this percentage", .arg = "PERCENT", .preset = "1",
              BN_TO_F64(struct bn_flamegraph_options, min, 0, 100)),
    {0},
};

/* A call path of the tree; those that are below it follow. */
struct branch {
    uint32_t parent, node;
    double total;
};

struct listing {
    const bn_stacks *stacks;
    const struct bn_flamegraph_options *o;
    struct bn_hotspots spots;
    double classes[BN_CLASSES]; /* shares; none of an inverted tree, which has no self times */
    struct branch *tree;        /* in the order in which they are printed */
    size_t n_tree;
};

/* ---- tree ---- */

static int by_parent(const void *a, const void *b)
{
    const struct branch *x = a, *y = b;
    if (x->parent != y->parent) return x->parent < y->parent ? -1 : 1;
    if (x->total < y->total || x->total > y->total) return x->total > y->total ? -1 : 1;
    return x->node < y->node ? -1 : 1;
}

/* Appends what is below a node: siblings by their totals. */
static void climb(struct listing *l, const struct branch *all, size_t n, uint32_t parent, double least)
{
    size_t at;
    BN_SEARCH(at, n, all[at].parent < parent);
    for (; at < n && all[at].parent == parent && all[at].total > 0 && all[at].total >= least; at++) {
        l->tree[l->n_tree++] = all[at];
        climb(l, all, n, all[at].node, least);
    }
}

static bn_status grow_tree(struct listing *l, bn_error *err)
{
    size_t n = l->stacks->n_nodes;
    struct branch *all = bn_alloc(n, sizeof *all);
    double *totals = bn_alloc(n, sizeof *totals);
    l->tree = bn_alloc(n, sizeof *l->tree);
    bn_status status = all != NULL && totals != NULL && l->tree != NULL ? BN_OK : bn_nomem(err);
    if (status == BN_OK) {
        bn_stacks_totals(l->stacks, BN_STACKS_ALL_RUNS, totals);
        for (uint32_t i = 1; i < n; i++)
            all[i - 1] = (struct branch){l->stacks->nodes[i].parent, i, totals[i]};
        qsort(all, n - 1, sizeof *all, by_parent);
        l->tree[l->n_tree++] = (struct branch){BN_STACKS_ROOT, BN_STACKS_ROOT, totals[0]};
        climb(l, all, n - 1, BN_STACKS_ROOT, l->o->min / 100 * totals[0]);
    }
    bn_free(all);
    bn_free(totals);
    return status;
}

static void print_tree(const struct listing *l, struct bn_buf *out)
{
    double scale = l->tree[0].total > 0 ? 100 / l->tree[0].total : 0;
    bn_buf_puts(out, "     total  total %  self %  call path\n");
    for (size_t i = 0; i < l->n_tree; i++) {
        uint32_t node = l->tree[i].node, depth = l->stacks->nodes[node].depth;
        char total[BN_UNITS_ROOM];
        bn_buf_printf(out, "%10s  %7.2f %7.2f  %*s%s\n",
                      bn_units_text(total, l->tree[i].total, l->stacks->unit), scale * l->tree[i].total,
                      scale * bn_stacks_self(l->stacks, node, BN_STACKS_ALL_RUNS), 2 * (int)depth, "",
                      node == BN_STACKS_ROOT ? "all" : bn_stacks_frame(l->stacks, node)->name);
    }
}

/* ---- table ---- */

static void print_share(struct bn_buf *out, const struct bn_interval *share)
{
    double half = (share->high - share->low) / 2;
    bn_buf_printf(out, "%7.2f", 100 * share->estimate);
    if (isfinite(half))
        bn_buf_printf(out, " %6.2f ", 100 * half);
    else
        bn_buf_puts(out, "      - ");
}

static const struct bn_frame *frame_of(const struct listing *l, size_t row)
{
    return l->spots.list[row].frame;
}

/* The module in its column, and where the function is when another row has the same name: functions of two files, or
 * one that is also inlined. Equal names of stacks are one text. */
static void print_place(struct bn_buf *out, const struct listing *l, size_t n, size_t row, size_t width)
{
    const struct bn_frame *f = frame_of(l, row);
    bool with_file = false;
    for (size_t i = 0; i < n && f->file[0] != '\0'; i++)
        with_file = with_file || (i != row && frame_of(l, i)->name == f->name);
    if (f->module[0] == '\0' && !with_file) return;
    for (size_t used = bn_utf8_count(f->name, strlen(f->name)); used < width; used++)
        bn_buf_putc(out, ' ');
    if (f->module[0] != '\0') bn_buf_printf(out, "  %s", f->module);
    if (with_file) bn_buf_printf(out, "  %s", f->file);
    if (with_file && f->line > 0) bn_buf_printf(out, ":%lu", (unsigned long)f->line);
}

static size_t n_rows(const struct listing *l)
{
    return l->o->top != 0 && l->o->top < l->spots.n ? l->o->top : l->spots.n;
}

static void print_table(const struct listing *l, struct bn_buf *out)
{
    size_t n = n_rows(l), width = strlen("function");
    for (size_t i = 0; i < n; i++) { /* the modules of longer names follow them directly */
        const char *name = frame_of(l, i)->name;
        size_t c = bn_utf8_count(name, strlen(name));
        if (c > width && c <= 48) width = c;
    }
    bn_buf_printf(out, " self %%     +- total %%     +-  samples  %-*s  module\n", (int)width, "function");
    for (size_t i = 0; i < n; i++) {
        const struct bn_hotspot *h = &l->spots.list[i];
        print_share(out, &h->self_share);
        print_share(out, &h->total_share);
        if (l->spots.samples > 0)
            bn_buf_printf(out, "%8llu  ", (unsigned long long)h->self_samples);
        else
            bn_buf_puts(out, "       -  ");
        bn_buf_puts(out, frame_of(l, i)->name);
        print_place(out, l, n, i, width);
        bn_buf_putc(out, '\n');
    }
    if (n < l->spots.n) bn_buf_printf(out, "and %zu more; --top 0 shows all\n", l->spots.n - n);
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
    bn_buf_puts(out, l->spots.samples > 0 || l->o->tree ? "\n\n"
                     : s->n_runs > 1                    ? "; +- is from the runs\n\n"
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

static void put_frame(bn_json *object, const struct bn_frame *f, double self, double total)
{
    BN_PUT(object, BN_STRING("name", f->name), BN_STRING("kind", bn_frame_kind_name(f->kind)),
           BN_STRING("module", f->module), BN_STRING("file", f->file), BN_U64("line", f->line),
           BN_NUMBER("self", self), BN_NUMBER("total", total));
}

static void put_functions(bn_json *document, const struct listing *l)
{
    bn_json *list = bn_json_put_array(document, "functions");
    for (size_t i = 0; i < n_rows(l); i++) {
        const struct bn_hotspot *h = &l->spots.list[i];
        bn_json *object = bn_json_add_object(list);
        put_frame(object, frame_of(l, i), h->self, h->total);
        BN_PUT(object, BN_U64("self_samples", h->self_samples), BN_U64("total_samples", h->total_samples));
        put_share(object, "self_share", &h->self_share, l->spots.samples > 0);
        put_share(object, "total_share", &h->total_share, l->spots.samples > 0);
    }
}

static void put_document(bn_json *document, const struct listing *l)
{
    BN_PUT(document, BN_STRING("schema", "bn.hotspots/1"), BN_STRING("unit", l->stacks->unit),
           BN_STRING("what", l->stacks->what), BN_NUMBER("whole", l->spots.whole),
           BN_U64("samples", l->spots.samples), BN_U64("runs", l->stacks->n_runs));
    bn_json_put_copy(document, "about", l->stacks->about);
    bn_json *classes = bn_json_put_object(document, "classes");
    for (unsigned c = 0; c < BN_CLASSES; c++)
        if (l->classes[c] > 0) bn_json_put_number(classes, bn_class_name((enum bn_class)c), l->classes[c]);
    if (!l->o->tree) put_functions(document, l);
    bn_json *list = l->o->tree ? bn_json_put_array(document, "tree") : NULL;
    for (size_t i = 1; i < l->n_tree; i++) {
        uint32_t node = l->tree[i].node;
        bn_json *object = bn_json_add_object(list);
        bn_json_put_u64(object, "depth", l->stacks->nodes[node].depth);
        put_frame(object, bn_stacks_frame(l->stacks, node),
                  bn_stacks_self(l->stacks, node, BN_STACKS_ALL_RUNS), l->tree[i].total);
    }
}

/* ---- all of it ---- */

static int by_total(const void *a, const void *b)
{
    const struct bn_hotspot *x = a, *y = b;
    if (x->total != y->total) return x->total > y->total ? -1 : 1;
    if (x->self != y->self) return x->self > y->self ? -1 : 1;
    return bn_frame_compare(x->frame, y->frame);
}

bn_status bn_flamegraph_list(struct bn_buf *out, bn_json *document, const bn_stacks *stacks,
                             const struct bn_flamegraph_options *options, bn_error *err)
{
    struct listing l = {.stacks = stacks, .o = options};
    bn_status status = bn_hotspots(&l.spots, stacks, err);
    if (status == BN_OK && options->order == ORDER_TOTAL && l.spots.n > 0)
        qsort(l.spots.list, l.spots.n, sizeof *l.spots.list, by_total);
    if (status == BN_OK && !options->picture.callers) status = bn_class_shares(l.classes, stacks, err);
    if (status == BN_OK && options->tree) status = grow_tree(&l, err);
    if (status == BN_OK && document != NULL) {
        put_document(document, &l);
    } else if (status == BN_OK) {
        print_head(&l, out);
        if (options->tree)
            print_tree(&l, out);
        else
            print_table(&l, out);
    }
    bn_hotspots_release(&l.spots);
    bn_free(l.tree);
    return status;
}

/* ---- bricks: what the profiler measured, and whether the samples agree ---- */

const struct bn_option bn_flamegraph_bricks_options[] = {
    BN_OPTION("check", "exit 1 unless samples and measured times agree", .group = "Check",
              BN_TO_BOOL(struct bn_flamegraph_options, check)),
    {0},
};

static void put_row(struct bn_buf *out, const struct bn_agreement_row *r, bool verdict)
{
    bn_buf_printf(out, "%8.2f %9.2f %9llu", 100 * r->measured, 100 * r->sampled,
                  (unsigned long long)r->samples);
    if (r->compared)
        bn_buf_printf(out, "  %6.2f to %6.2f  %-7s", 100 * r->low, 100 * r->high,
                      !verdict    ? "-"
                      : r->agrees ? "agrees"
                                  : "DIFFERS");
    else
        bn_buf_printf(out, "  %16s  %-7s", "", "-");
    bn_buf_printf(out, "  %s%s", r->name, r->kind == BN_FRAME_SLOT ? " (by its function)" : "");
    bn_buf_putc(out, '\n');
}

static void put_agreement(struct bn_buf *out, const struct bn_agreement *a)
{
    bool waits = false;
    bn_buf_puts(out, "\nshares of the compared time in %\n");
    bn_buf_printf(out, "%8s %9s %9s  %16s\n", "measured", "sampled", "samples", "95 %, all rows");
    for (size_t i = 0; i < a->n; i++) {
        put_row(out, &a->rows[i], a->why[0] == '\0');
        waits = waits || !a->rows[i].compared;
    }
    if (waits) bn_buf_puts(out, "-: waiting, which samples of processor time may miss, or too few samples\n");
    if (a->both > 0)
        bn_buf_printf(out, "kernels: in %llu of %llu samples the profiler names another function\n",
                      (unsigned long long)a->other, (unsigned long long)a->both);
    if (a->busy_runs > 0 && a->why[0] == '\0')
        bn_buf_printf(out, "ignored: %zu runs on a busy machine\n", a->busy_runs);
    if (a->why[0] != '\0')
        bn_buf_printf(out, "not compared: %s\n", a->why);
    else
        bn_buf_printf(out, "%s: %llu samples in bricks, runs vary %.1f times as much as samples explain\n",
                      a->agrees ? "they agree" : "they do not agree", (unsigned long long)a->samples,
                      a->dispersion);
}

/* ---- the commands ---- */

/* The listing of a view, and the agreement unless it is NULL. */
static bn_status show(const struct bn_args *args, const bn_stacks *view,
                      const struct bn_flamegraph_options *how, const struct bn_agreement *agreement,
                      bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    struct bn_buf out = {.max = BN_FLAMEGRAPH_MAX_BYTES};
    bn_json *document = args->json ? bn_json_new_object() : NULL;
    bn_status status = bn_flamegraph_list(&out, document, view, how, err);
    if (status == BN_OK && agreement != NULL && args->json) bn_agreement_put(document, agreement);
    if (status == BN_OK && agreement != NULL && !args->json) put_agreement(&out, agreement);
    if (status == BN_OK && args->json) {
        status = bn_json_write_line(document, false, &out, err);
        bn_report_json_began();
    }
    if (status == BN_OK) status = bn_cli_write(o->output, &out, err);
    bn_json_free(document);
    bn_buf_release(&out);
    return status;
}

bn_status bn_flamegraph_text(struct bn_args *args, bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    bn_stacks *stacks = NULL;
    BN_TRY(bn_flamegraph_check_name(args, args->json ? BN_STACKS_DOCUMENT : BN_STACKS_TEXT, err));
    if (!o->tree) BN_TRY(bn_flamegraph_check_callers(args, BN_STACKS_TEXT, err));
    BN_TRY(bn_flamegraph_open(&stacks, args, false, err));
    bn_status status = show(args, stacks, o, NULL, err);
    bn_stacks_close(stacks);
    return status;
}

/* The measured times as a tree, and the comparison. */
static bn_status report(struct bn_args *args, const bn_stacks *stacks, bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields, tree = {.tree = true};
    const struct bn_stacks_view how = {.drop = BN_FRAME_FUNCTIONS | BN_FRAME_BIT(BN_FRAME_PROCESS) |
                                               BN_FRAME_BIT(BN_FRAME_LAYER) | BN_FRAME_BIT(BN_FRAME_THREAD)};
    const bn_stacks *measured = strcmp(stacks->what, "bricks") == 0 ? stacks : stacks->measured;
    bn_stacks *view = NULL;
    struct bn_agreement agreement = {0};
    if (measured == NULL)
        return bn_hint(bn_fail(err, BN_ERR_NOT_FOUND, "the recording has no measured times"), err,
                       "bn-flamegraph record without a program, or bn-run --profile, measures them");
    bool sampled = measured != stacks;
    bn_status status = sampled ? bn_agreement(&agreement, stacks, measured, err) : BN_OK;
    if (status == BN_OK) status = bn_stacks_copy(&view, measured, &how, err);
    if (status == BN_OK) status = show(args, view, &tree, sampled ? &agreement : NULL, err);
    /* A difference is a negative result; so is, with --check, that nothing could be compared. */
    bool agrees = sampled && agreement.agrees, differs = sampled && agreement.why[0] == '\0' && !agrees;
    if (differs || (o->check && !agrees)) args->exit_code = BN_EXIT_NEGATIVE;
    bn_agreement_release(&agreement);
    bn_stacks_close(view);
    return status;
}

bn_status bn_flamegraph_bricks(struct bn_args *args, bn_error *err)
{
    bn_stacks *stacks = NULL;
    BN_TRY(bn_flamegraph_read_operands(&stacks, args, err));
    bn_status status = report(args, stacks, err);
    bn_stacks_close(stacks);
    return status;
}
