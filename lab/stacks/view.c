/* SPDX-License-Identifier: MIT
 *
 * Copies of stacks that leave frames out or invert them; appending runs.
 */
#define _GNU_SOURCE /* qsort_r */
#include <stdlib.h>

#include "lab/stacks/stacks.h"

/* ---- one order, whatever the order of arrival ---- */

static int by_parent(const void *a, const void *b, void *stacks)
{
    const bn_stacks *s = stacks;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (s->nodes[x].parent != s->nodes[y].parent) return s->nodes[x].parent < s->nodes[y].parent ? -1 : 1;
    return bn_frame_compare(bn_stacks_frame(s, x), bn_stacks_frame(s, y));
}

/* All nodes but the root, by parent, siblings in order; first[i] is where the children of i begin. */
static bn_status siblings_of(const bn_stacks *s, uint32_t **out, uint32_t **first, bn_error *err)
{
    *out = bn_alloc(s->n_nodes, sizeof **out);
    *first = bn_alloc(s->n_nodes + 1, sizeof **first);
    if (*out == NULL || *first == NULL) return bn_nomem(err);
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        (*out)[i - 1] = i;
        (*first)[s->nodes[i].parent + 1]++;
    }
    qsort_r(*out, s->n_nodes - 1, sizeof **out, by_parent, (void *)(uintptr_t)s);
    for (size_t i = 0; i < s->n_nodes; i++)
        (*first)[i + 1] += (*first)[i];
    return BN_OK;
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
    bn_status status = bn_json_is_complete(about) ? BN_OK : bn_nomem(err);
    for (size_t r = 1; r < s->n_runs && !merge_runs && status == BN_OK; r++)
        status = bn_stacks_add_run(*out, err);
    return bn_stacks_keep(out, status);
}

/* The numbers of all frames of s in another one: frames[s->n_frames]. */
static bn_status copy_frames(bn_stacks *to, const bn_stacks *s, bool drop_modules, uint32_t *frames,
                             bn_error *err)
{
    for (size_t i = 0; i < s->n_frames; i++) {
        struct bn_frame frame = s->frames[i];
        if (drop_modules) frame = (struct bn_frame){frame.name, "", "", 0, frame.kind};
        BN_TRY(bn_stacks_intern(to, &frames[i], &frame, SIZE_MAX, err));
    }
    return BN_OK;
}

/* What is needed while nodes are copied in their order. */
struct sorting {
    bn_stacks *to;
    const bn_stacks *from;
    uint32_t *siblings, *first;
    uint32_t *frames; /* the number in to, which a frame gets when it is met */
};

/* Copies the children of a node and all below them; at is its copy. */
static bn_status copy_below(const struct sorting *s, uint32_t node, uint32_t at, bn_error *err)
{
    add_runs(s->to, at, 0, s->from, node, false);
    for (uint32_t i = s->first[node]; i < s->first[node + 1]; i++) {
        uint32_t child = s->siblings[i], frame = s->from->nodes[child].frame, copy = at;
        if (s->frames[frame] == BN_STACKS_NONE)
            BN_TRY(bn_stacks_intern(s->to, &s->frames[frame], &s->from->frames[frame], SIZE_MAX, err));
        BN_TRY(bn_stacks_push_frame(s->to, &copy, s->frames[frame], err));
        BN_TRY(copy_below(s, child, copy, err));
    }
    return BN_OK;
}

static bn_status sorted(bn_stacks **out, const bn_stacks *from, bn_error *err)
{
    struct sorting s = {.from = from, .frames = bn_alloc(from->n_frames, sizeof *s.frames)};
    bn_status status = make_like(out, from, false, err);
    if (status == BN_OK && s.frames == NULL) status = bn_nomem(err);
    if (status == BN_OK) status = siblings_of(from, &s.siblings, &s.first, err);
    s.to = *out;
    for (uint32_t i = 0; status == BN_OK && i < from->n_frames; i++)
        s.frames[i] = BN_STACKS_NONE;
    if (status == BN_OK) status = copy_below(&s, BN_STACKS_ROOT, BN_STACKS_ROOT, err);
    bn_free(s.siblings);
    bn_free(s.first);
    bn_free(s.frames);
    return bn_stacks_keep(out, status);
}

/* ---- views ---- */

/* What is needed while stacks go into a view. */
struct filling {
    bn_stacks *to;
    const bn_stacks *from;
    const struct bn_stacks_view *view;
    uint32_t *frames; /* of from: the number in to; of those that are left out BN_STACKS_NONE */
};

static bool has_weight(const bn_stacks *s, uint32_t node)
{
    for (size_t r = 0; r < s->n_runs; r++)
        if (s->runs[r].self[node] != 0 || s->runs[r].samples[node] != 0) return true;
    return false;
}

/* The frames of a node's path in the view, the outermost first, in path[0] to path[*n - 1]; false when it is
 * not in the view. */
static bool path_of(const struct filling *f, uint32_t node, uint32_t path[BN_STACKS_MAX_DEPTH], size_t *n)
{
    bool begun = f->view->root == NULL;
    size_t length = 0, room = BN_STACKS_MAX_DEPTH;
    for (; node != BN_STACKS_ROOT; node = f->from->nodes[node].parent) {
        uint32_t frame = f->frames[f->from->nodes[node].frame];
        if (frame == BN_STACKS_NONE) continue;
        path[--room] = frame;
        /* The outermost of that name is the last one that is met. */
        if (f->view->root != NULL && strcmp(bn_stacks_frame(f->from, node)->name, f->view->root) == 0) {
            begun = true;
            length = BN_STACKS_MAX_DEPTH - room;
        }
    }
    if (f->view->root == NULL) length = BN_STACKS_MAX_DEPTH - room;
    memmove(path, path + BN_STACKS_MAX_DEPTH - length, length * sizeof *path);
    *n = length;
    return begun;
}

/* Functions in the order from the running one to its callers; tags stay above them. */
static void turn(const bn_stacks *to, uint32_t *path, size_t n)
{
    size_t i = 0;
    while (i < n && BN_FRAME_IS_TAG(to->frames[path[i]].kind))
        i++;
    for (size_t j = n; i + 1 < j; i++) {
        uint32_t frame = path[i];
        path[i] = path[--j];
        path[j] = frame;
    }
}

static bn_status fill_paths(const struct filling *f, bn_error *err)
{
    uint32_t path[BN_STACKS_MAX_DEPTH];
    for (uint32_t i = 0; i < f->from->n_nodes; i++) {
        size_t n;
        uint32_t node = BN_STACKS_ROOT;
        if (!has_weight(f->from, i) || !path_of(f, i, path, &n)) continue;
        if (f->view->callers) turn(f->to, path, n);
        for (size_t k = 0; k < n; k++)
            BN_TRY(bn_stacks_push_frame(f->to, &node, path[k], err));
        add_runs(f->to, node, 0, f->from, i, f->view->merge_runs);
    }
    return BN_OK;
}

static bn_status fill(bn_stacks *to, const bn_stacks *s, const struct bn_stacks_view *view, bn_error *err)
{
    struct filling f = {to, s, view, bn_alloc(s->n_frames, sizeof *f.frames)};
    bn_status status =
        f.frames != NULL ? copy_frames(to, s, view->drop_modules, f.frames, err) : bn_nomem(err);
    for (size_t i = 0; i < s->n_frames && status == BN_OK; i++)
        if ((view->drop & BN_FRAME_BIT(s->frames[i].kind)) != 0) f.frames[i] = BN_STACKS_NONE;
    if (status == BN_OK) status = fill_paths(&f, err);
    bn_free(f.frames);
    return status;
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
    return bn_stacks_keep(out, status);
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

static bn_status append_nodes(bn_stacks *stacks, size_t first_run, const bn_stacks *from, uint32_t *frames,
                              uint32_t *made, bn_error *err)
{
    BN_TRY(copy_frames(stacks, from, false, frames, err));
    for (uint32_t i = 0; i < from->n_nodes; i++) {
        made[i] = i == BN_STACKS_ROOT ? BN_STACKS_ROOT : made[from->nodes[i].parent];
        if (i != BN_STACKS_ROOT)
            BN_TRY(bn_stacks_push_frame(stacks, &made[i], frames[from->nodes[i].frame], err));
        add_runs(stacks, made[i], first_run, from, i, false);
    }
    return BN_OK;
}

bn_status bn_stacks_append(bn_stacks *stacks, const bn_stacks *from, bn_error *err)
{
    if (stacks == from) return bn_fail(err, BN_ERR_ARG, "stacks cannot be appended to themselves");
    if (strcmp(stacks->unit, from->unit) != 0)
        return bn_fail(err, BN_ERR_ARG, "cannot add stacks of %s and stacks of %s", stacks->unit, from->unit);
    size_t first_run = stacks->n_runs;
    for (size_t r = 0; r < from->n_runs; r++)
        BN_TRY(bn_stacks_add_run(stacks, err));
    uint32_t *made = bn_alloc(from->n_nodes, sizeof *made);
    uint32_t *frames = bn_alloc(from->n_frames, sizeof *frames);
    bn_status status = made == NULL || frames == NULL
                           ? bn_nomem(err)
                           : append_nodes(stacks, first_run, from, frames, made, err);
    bn_free(made);
    bn_free(frames);
    return status == BN_OK ? append_measured(stacks, from, err) : status;
}
