/* SPDX-License-Identifier: MIT
 *
 * Callgrind's format, for KCachegrind and callgrind_annotate: the self weight of each function, and the
 * weight below each pair of caller and callee. Samples do not count calls: "calls=" counts call paths.
 * Weights are integers whose sum is the rounded sum. A pair that occurs twice on a path counts once, and a
 * function's calls of itself are left out, so that they do not increase its total.
 */
#include <stdlib.h>

#include "base/error.h"
#include "lab/formats/formats.h"

struct call {
    uint32_t caller, callee; /* frames */
    uint64_t weight, paths;
};

struct writing {
    struct bn_buf *out;
    const bn_stacks *s;
    struct bn_formats_texts modules, files;
    bool *said[3];      /* of modules, files, frames: was the name given? later its number is enough */
    uint64_t *total;    /* of nodes: at first what they spent themselves */
    uint64_t *below;    /* of nodes: the total of those below */
    uint64_t *of_frame; /* self weights of frames */
    struct call *calls; /* by caller, callee */
    size_t n_calls;
};

/* "fn=(7) name" the first time, "fn=(7)" from then on. */
static void put_name(struct writing *w, const char *key, unsigned table, size_t number, const char *name)
{
    bn_buf_printf(w->out, "%s=(%zu)", key, number + 1);
    if (!w->said[table][number]) {
        bn_buf_putc(w->out, ' ');
        bn_buf_puts(w->out, name[0] != '\0' ? name : "???");
    }
    w->said[table][number] = true;
    bn_buf_putc(w->out, '\n');
}

static void put_function(struct writing *w, uint32_t frame, bool called)
{
    const struct bn_frame *f = &w->s->frames[frame];
    put_name(w, called ? "cob" : "ob", 0, bn_formats_text(&w->modules, f->module), f->module);
    put_name(w, called ? "cfi" : "fl", 1, bn_formats_text(&w->files, f->file), f->file);
    put_name(w, called ? "cfn" : "fn", 2, frame, f->name);
}

/* ---- costs ---- */

/* Whether an ancestor makes the same call, or a function calls itself. */
static bool repeats(const bn_stacks *s, uint32_t node)
{
    const struct bn_stacks_node *n = &s->nodes[node];
    uint32_t caller = s->nodes[n->parent].frame;
    if (caller == n->frame) return true;
    for (uint32_t at = n->parent; s->nodes[at].parent != BN_STACKS_ROOT; at = s->nodes[at].parent)
        if (s->nodes[at].frame == n->frame && s->nodes[s->nodes[at].parent].frame == caller) return true;
    return false;
}

static int by_pair(const void *a, const void *b)
{
    const struct call *x = a, *y = b;
    if (x->caller != y->caller) return x->caller < y->caller ? -1 : 1;
    return x->callee < y->callee ? -1 : x->callee > y->callee;
}

static void merge_calls(struct writing *w)
{
    size_t kept = 0;
    if (w->n_calls > 0) qsort(w->calls, w->n_calls, sizeof *w->calls, by_pair);
    for (size_t i = 0; i < w->n_calls; i++) {
        if (kept > 0 && by_pair(&w->calls[kept - 1], &w->calls[i]) == 0)
            w->calls[kept - 1].weight += w->calls[i].weight, w->calls[kept - 1].paths++;
        else
            w->calls[kept++] = w->calls[i];
    }
    w->n_calls = kept;
}

static void sum_up(struct writing *w)
{
    const bn_stacks *s = w->s;
    for (size_t i = s->n_nodes; i-- > 1;) { /* from the leaves on */
        const struct bn_stacks_node *n = &s->nodes[i];
        w->of_frame[n->frame] += w->total[i] - w->below[i];
        w->below[n->parent] += w->total[i];
        w->total[n->parent] += w->total[i];
        if (n->parent != BN_STACKS_ROOT && w->total[i] != 0 && !repeats(s, (uint32_t)i))
            w->calls[w->n_calls++] = (struct call){s->nodes[n->parent].frame, n->frame, w->total[i], 1};
    }
    merge_calls(w);
}

static void write_all(struct writing *w)
{
    const bn_stacks *s = w->s;
    uint64_t bare = w->total[BN_STACKS_ROOT] - w->below[BN_STACKS_ROOT];
    bn_buf_printf(w->out,
                  "# callgrind format\nversion: 1\ncreator: bn-flamegraph\n"
                  "desc: calls: numbers of call paths, since samples do not count calls\npositions: line\n"
                  "event: %s : %s\nevents: %s\nsummary: %llu\n",
                  s->unit, s->what[0] != '\0' ? s->what : s->unit, s->unit,
                  (unsigned long long)w->total[BN_STACKS_ROOT]);
    if (bare > 0) bn_buf_printf(w->out, "\nfn=[no function]\n0 %llu\n", (unsigned long long)bare);
    for (uint32_t i = 0, call = 0; i < s->n_frames; i++) {
        bn_buf_putc(w->out, '\n');
        put_function(w, i, false);
        bn_buf_printf(w->out, "%u %llu\n", s->frames[i].line, (unsigned long long)w->of_frame[i]);
        for (; call < w->n_calls && w->calls[call].caller == i; call++) {
            const struct call *c = &w->calls[call];
            put_function(w, c->callee, true);
            bn_buf_printf(w->out, "calls=%llu %u\n%u %llu\n", (unsigned long long)c->paths,
                          s->frames[c->callee].line, s->frames[i].line, (unsigned long long)c->weight);
        }
    }
}

bn_status bn_formats_write_callgrind(const bn_stacks *s, struct bn_buf *out, bn_error *err)
{
    struct writing w = {.out = out, .s = s};
    bn_status status = bn_formats_texts(&w.modules, s, BN_FORMATS_MODULES, err);
    if (status == BN_OK) status = bn_formats_texts(&w.files, s, BN_FORMATS_FILES, err);
    size_t n_said = w.modules.n + w.files.n + s->n_frames;
    uint64_t *sums = bn_alloc(2 * s->n_nodes + s->n_frames, sizeof *sums);
    bool *said = bn_alloc(n_said, sizeof *said);
    w.calls = bn_alloc(s->n_nodes, sizeof *w.calls);
    if (status == BN_OK && (sums == NULL || said == NULL || w.calls == NULL)) status = bn_nomem(err);
    if (status == BN_OK) status = bn_formats_whole(s, sums, err);
    if (status == BN_OK) {
        w.total = sums;
        w.below = sums + s->n_nodes;
        w.of_frame = w.below + s->n_nodes;
        w.said[0] = said;
        w.said[1] = said + w.modules.n;
        w.said[2] = w.said[1] + w.files.n;
        sum_up(&w);
        write_all(&w);
        status = bn_buf_check(out, err);
    }
    bn_free(w.modules.list);
    bn_free(w.files.list);
    bn_free(sums);
    bn_free(said);
    bn_free(w.calls);
    return status;
}
