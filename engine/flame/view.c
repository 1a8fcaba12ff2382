/* SPDX-License-Identifier: MIT
 *
 * See stacks.h: copies of stacks that leave something out or turn it around, and several made one.
 */
#include <stdlib.h>

#include "base/error.h"
#include "flame/stacks.h"

/* ---- one order, whatever the order of arrival ---- */

struct ranked {
    const struct bn_frame *frame;
    uint32_t number;
};

static int by_frame(const void *a, const void *b)
{
    const struct bn_frame *f = ((const struct ranked *)a)->frame, *g = ((const struct ranked *)b)->frame;
    if (f->kind != g->kind) return f->kind < g->kind ? -1 : 1;
    int names = strcmp(f->name, g->name);
    return names != 0 ? names : strcmp(f->module, g->module);
}

struct sibling {
    uint32_t parent, rank, node;
};

static int by_parent(const void *a, const void *b)
{
    const struct sibling *x = a, *y = b;
    if (x->parent != y->parent) return x->parent < y->parent ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* The nodes besides the root by parent, siblings in order; first[i] is where the children of i begin. */
static bn_status siblings_of(const bn_stacks *s, struct sibling **out, uint32_t **first, bn_error *err)
{
    struct ranked *frames = bn_alloc(s->n_frames, sizeof *frames);
    uint32_t *rank = bn_alloc(s->n_frames, sizeof *rank);
    *out = bn_alloc(s->n_nodes, sizeof **out);
    *first = bn_alloc(s->n_nodes + 1, sizeof **first);
    bool memory = frames != NULL && rank != NULL && *out != NULL && *first != NULL;
    for (uint32_t i = 0; memory && i < s->n_frames; i++)
        frames[i] = (struct ranked){&s->frames[i], i};
    if (memory) qsort(frames, s->n_frames, sizeof *frames, by_frame);
    for (uint32_t i = 0; memory && i < s->n_frames; i++)
        rank[frames[i].number] = i;
    for (uint32_t i = 1; memory && i < s->n_nodes; i++) {
        (*out)[i - 1] = (struct sibling){s->nodes[i].parent, rank[s->nodes[i].frame], i};
        (*first)[s->nodes[i].parent + 1]++;
    }
    if (memory) qsort(*out, s->n_nodes - 1, sizeof **out, by_parent);
    for (size_t i = 0; memory && i < s->n_nodes; i++)
        (*first)[i + 1] += (*first)[i];
    bn_free(frames);
    bn_free(rank);
    return memory ? BN_OK : bn_fail(err, BN_ERR_NOMEM, "out of memory");
}

static void add_runs(bn_stacks *to, uint32_t node, size_t first_run, const bn_stacks *from, uint32_t source,
                     bool merge)
{
    for (size_t r = 0; r < from->n_runs; r++)
        bn_stacks_add(to, node, first_run + (merge ? 0 : r), from->runs[r].self[source],
                      from->runs[r].samples[source]);
}

static bn_status make_like(bn_stacks **out, const bn_stacks *s, bool merge_runs, bn_error *err)
{
    BN_TRY(bn_stacks_open(out, s->unit, s->what, err));
    bn_json *about = bn_json_new_object();
    for (const bn_json *m = bn_json_first(s->about); m != NULL; m = bn_json_next(m))
        bn_json_put_copy(about, bn_json_name(m), m);
    bn_json_free((*out)->about);
    (*out)->about = about;
    bn_status status = about != NULL ? BN_OK : bn_fail(err, BN_ERR_NOMEM, "out of memory");
    for (size_t r = 1; r < s->n_runs && !merge_runs && status == BN_OK; r++)
        status = bn_stacks_add_run(*out, err);
    if (status != BN_OK) {
        bn_stacks_close(*out);
        *out = NULL;
    }
    return status;
}

/* Depth first: made[i] is the copy of node i, whose parent's was made before. */
static bn_status copy_sorted(bn_stacks *to, const bn_stacks *s, const struct sibling *siblings,
                             const uint32_t *first, uint32_t *next, uint32_t *made, bn_error *err)
{
    uint32_t at = BN_STACKS_ROOT;
    made[0] = BN_STACKS_ROOT;
    add_runs(to, BN_STACKS_ROOT, 0, s, BN_STACKS_ROOT, false);
    for (uint32_t i = 0; i < s->n_nodes; i++)
        next[i] = first[i];
    for (;;) {
        if (next[at] == first[at + 1]) {
            if (at == BN_STACKS_ROOT) return BN_OK;
            at = s->nodes[at].parent;
            continue;
        }
        uint32_t child = siblings[next[at]++].node;
        made[child] = made[at];
        BN_TRY(bn_stacks_push(to, &made[child], bn_stacks_frame(s, child), SIZE_MAX, err));
        add_runs(to, made[child], 0, s, child, false);
        at = child;
    }
}

static bn_status sorted(bn_stacks **out, const bn_stacks *s, bn_error *err)
{
    struct sibling *siblings = NULL;
    uint32_t *first = NULL, *work = bn_alloc(2 * s->n_nodes, sizeof *work);
    bn_status status = make_like(out, s, false, err);
    if (status == BN_OK && work == NULL) status = bn_fail(err, BN_ERR_NOMEM, "out of memory");
    if (status == BN_OK) status = siblings_of(s, &siblings, &first, err);
    if (status == BN_OK) status = copy_sorted(*out, s, siblings, first, work, work + s->n_nodes, err);
    bn_free(siblings);
    bn_free(first);
    bn_free(work);
    if (status != BN_OK) {
        bn_stacks_close(*out);
        *out = NULL;
    }
    return status;
}

/* ---- views ---- */

/* A node's frames from the root on; how many. */
static size_t path_of(const bn_stacks *s, uint32_t node, const struct bn_frame **path)
{
    size_t depth = s->nodes[node].depth;
    for (size_t i = depth; i-- > 0; node = s->nodes[node].parent)
        path[i] = bn_stacks_frame(s, node);
    return depth;
}

static size_t drop_kinds(const struct bn_frame **path, size_t n, unsigned drop)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if ((drop & BN_FRAME_BIT(path[i]->kind)) == 0) path[kept++] = path[i];
    return kept;
}

static bool same_function(const struct bn_frame *a, const struct bn_frame *b)
{
    return a->kind == b->kind && strcmp(a->name, b->name) == 0 && strcmp(a->module, b->module) == 0;
}

static size_t drop_repeats(const struct bn_frame **path, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || !same_function(path[kept - 1], path[i])) path[kept++] = path[i];
    return kept;
}

/* Functions in the order from the running one to its callers; tags stay above them. */
static void turn(const struct bn_frame **path, size_t n)
{
    size_t i = 0;
    while (i < n && BN_FRAME_IS_TAG(path[i]->kind))
        i++;
    for (size_t j = n; i + 1 < j; i++) {
        const struct bn_frame *f = path[i];
        path[i] = path[--j];
        path[j] = f;
    }
}

/* The path as the view has it, in path[*from] to path[*n - 1]; false when it is not in the view. */
static bool apply(const struct bn_stacks_view *view, const struct bn_frame **path, size_t *from, size_t *n)
{
    *from = 0;
    *n = drop_kinds(path, *n, view->drop);
    if (view->root != NULL)
        while (*from < *n && strcmp(path[*from]->name, view->root) != 0)
            ++*from;
    if (view->root != NULL && *from == *n) return false;
    if (view->merge_repeats) *n = *from + drop_repeats(path + *from, *n - *from);
    if (view->callers) turn(path + *from, *n - *from);
    return true;
}

static bn_status push_path(bn_stacks *to, uint32_t *node, const struct bn_frame *const *path, size_t n,
                           bool drop_modules, bn_error *err)
{
    for (size_t i = 0; i < n; i++) {
        struct bn_frame frame = *path[i];
        if (drop_modules) frame.module = "";
        BN_TRY(bn_stacks_push(to, node, &frame, SIZE_MAX, err));
    }
    return BN_OK;
}

static bool has_weight(const bn_stacks *s, uint32_t node)
{
    for (size_t r = 0; r < s->n_runs; r++)
        if (s->runs[r].self[node] != 0 || s->runs[r].samples[node] != 0) return true;
    return false;
}

static bn_status fill(bn_stacks *to, const bn_stacks *s, const struct bn_stacks_view *view, bn_error *err)
{
    const struct bn_frame *path[BN_STACKS_MAX_DEPTH];
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        if (!has_weight(s, i)) continue;
        size_t from, n = path_of(s, i, path);
        uint32_t node = BN_STACKS_ROOT;
        if (!apply(view, path, &from, &n)) continue;
        BN_TRY(push_path(to, &node, path + from, n - from, view->drop_modules, err));
        add_runs(to, node, 0, s, i, view->merge_runs);
    }
    return BN_OK;
}

bn_status bn_stacks_copy(bn_stacks **out, const bn_stacks *stacks, const struct bn_stacks_view *view,
                         bn_error *err)
{
    bn_stacks *filled = NULL;
    *out = NULL;
    BN_TRY(make_like(&filled, stacks, view->merge_runs, err));
    bn_status status = fill(filled, stacks, view, err);
    if (status == BN_OK) status = sorted(out, filled, err);
    bn_stacks_close(filled);
    if (status == BN_OK && stacks->measured != NULL)
        status = bn_stacks_copy(&(*out)->measured, stacks->measured, view, err);
    if (status != BN_OK) {
        bn_stacks_close(*out);
        *out = NULL;
    }
    return status;
}

/* Measured times stay only when both have them. */
static bn_status append_measured(bn_stacks *stacks, const bn_stacks *from, bn_error *err)
{
    if (stacks->measured != NULL && from->measured != NULL)
        return bn_stacks_append(stacks->measured, from->measured, err);
    bn_stacks_close(stacks->measured);
    stacks->measured = NULL;
    return BN_OK;
}

bn_status bn_stacks_append(bn_stacks *stacks, const bn_stacks *from, bn_error *err)
{
    if (strcmp(stacks->unit, from->unit) != 0)
        return bn_fail(err, BN_ERR_ARG, "stacks of %s and of %s have no common unit", stacks->unit,
                       from->unit);
    size_t first_run = stacks->n_runs;
    for (size_t r = 0; r < from->n_runs; r++)
        BN_TRY(bn_stacks_add_run(stacks, err));
    uint32_t *made = bn_alloc(from->n_nodes, sizeof *made);
    if (made == NULL) return bn_fail(err, BN_ERR_NOMEM, "out of memory");
    bn_status status = BN_OK;
    for (uint32_t i = 0; i < from->n_nodes && status == BN_OK; i++) {
        made[i] = i == BN_STACKS_ROOT ? BN_STACKS_ROOT : made[from->nodes[i].parent];
        if (i != BN_STACKS_ROOT)
            status = bn_stacks_push(stacks, &made[i], bn_stacks_frame(from, i), SIZE_MAX, err);
        if (status == BN_OK) add_runs(stacks, made[i], first_run, from, i, false);
    }
    bn_free(made);
    return status == BN_OK ? append_measured(stacks, from, err) : status;
}
