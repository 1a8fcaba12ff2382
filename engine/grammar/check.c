/* SPDX-License-Identifier: MIT
 *
 * Checks a grammar that was parsed, in time linear in its size and without recursion: which nodes can reach the end
 * (live), which rules may be empty, whether a rule begins with itself, whether a body that may be empty is repeated.
 * Then bytes that all sets treat alike become classes.
 */
#include "base/error.h"
#include "grammar/grammar.h"

#define NEVER UINT8_MAX

/* A statement for each node that follows from those of at most two others. */
struct inference {
    const bn_grammar *g;
    uint8_t *missing;   /* premises that are not known; 0: the statement holds */
    uint32_t *first;    /* n_nodes + 1: the first dependent in the list */
    uint32_t *depends;  /* nodes whose premise this one is */
    uint32_t *worklist; /* nodes whose statement was found to hold */
    size_t n_work;
};

/* The premises of a node: both are needed, or one of them. A node without any holds, or never does. */
struct premises {
    uint32_t of[2];
    unsigned n;
    bool both, holds, never;
};

static struct premises premises_of(const bn_grammar *g, uint32_t i, bool empty)
{
    const struct bn_node *node = &g->nodes[i];
    struct premises p = {.of = {node->next, 0}, .n = 1};
    switch ((enum bn_grammar_node_kind)node->kind) {
    case BN_NODE_JUMP:
        break;
    case BN_NODE_SET:
        p.never = empty;
        break;
    case BN_NODE_SPLIT:
        p.of[1] = node->what;
        p.n = 2;
        break;
    case BN_NODE_CALL:
        p.of[1] = g->rules[node->what].entry;
        p.n = 2;
        p.both = true;
        break;
    case BN_NODE_LOOP:
        p.of[0] = g->loops[node->what].exit;
        p.of[1] = g->loops[node->what].body;
        p.n = g->loops[node->what].min == 0 ? 1 : 2;
        p.both = true;
        break;
    case BN_NODE_RETURN:
    case BN_NODE_AGAIN:
        p.n = 0;
        p.holds = true;
        break;
    }
    return p;
}

static void add_work(struct inference *f, uint32_t node)
{
    f->missing[node] = 0;
    f->worklist[f->n_work++] = node;
}

/* "The end of the rule or of the repeated body can be reached from this node" - at all, or without a byte (empty). */
static void infer(struct inference *f, bool empty)
{
    const bn_grammar *g = f->g;
    size_t n = g->n_nodes;
    memset(f->first, 0, (n + 1) * sizeof *f->first);
    f->n_work = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct premises p = premises_of(g, i, empty);
        f->missing[i] = p.never ? NEVER : (uint8_t)(p.both ? p.n : 1);
        if (p.holds) add_work(f, i);
        for (unsigned k = 0; k < p.n && !p.never; k++)
            f->first[p.of[k]]++;
    }
    for (size_t i = 1; i <= n; i++)
        f->first[i] += f->first[i - 1];
    for (uint32_t i = 0; i < n; i++) {
        struct premises p = premises_of(g, i, empty);
        for (unsigned k = 0; k < p.n && !p.never; k++)
            f->depends[--f->first[p.of[k]]] = i;
    }
    while (f->n_work > 0) {
        uint32_t node = f->worklist[--f->n_work];
        for (uint32_t k = f->first[node]; k < f->first[node + 1]; k++) {
            uint32_t other = f->depends[k];
            if (f->missing[other] == 0) continue;
            if (--f->missing[other] == 0) add_work(f, other);
        }
    }
}

static bn_status open_inference(struct inference *f, const bn_grammar *g, bn_error *err)
{
    *f = (struct inference){.g = g};
    f->missing = bn_alloc(g->n_nodes, sizeof *f->missing);
    f->first = bn_alloc(g->n_nodes + 1, sizeof *f->first);
    f->depends = bn_alloc(g->n_nodes, 2 * sizeof *f->depends);
    f->worklist = bn_alloc(g->n_nodes, sizeof *f->worklist);
    bool good = f->missing != NULL && f->first != NULL && f->depends != NULL && f->worklist != NULL;
    return good ? BN_OK : bn_nomem(err);
}

static void close_inference(struct inference *f)
{
    bn_free(f->missing);
    bn_free(f->first);
    bn_free(f->depends);
    bn_free(f->worklist);
}

static bn_status refuse(const bn_grammar *g, uint32_t rule, const char *what, bn_error *err)
{
    char name[80];
    const struct bn_rule_entry *r = &g->rules[rule];
    bn_escape(name, sizeof name, r->name.ptr, r->name.len);
    return bn_fail_in(err, BN_ERR_FORMAT, "grammar", "the rule %s %s", name, what);
}

/* ---- left recursion ---- */

enum { NOT_SEEN, ON_PATH, DONE, IN_CIRCLE };

/* Nodes that can follow a node before a byte is consumed; at most two. */
static unsigned followers(const bn_grammar *g, const uint8_t *empty, uint32_t i, uint32_t out[2])
{
    const struct bn_node *node = &g->nodes[i];
    unsigned n = 0;
    if (node->kind == BN_NODE_JUMP || node->kind == BN_NODE_SPLIT) out[n++] = node->next;
    if (node->kind == BN_NODE_SPLIT) out[n++] = node->what;
    if (node->kind == BN_NODE_CALL) {
        out[n++] = g->rules[node->what].entry;
        if (empty[out[0]] == 0) out[n++] = node->next;
    }
    if (node->kind == BN_NODE_LOOP) {
        out[n++] = g->loops[node->what].body;
        if (g->loops[node->what].min == 0) out[n++] = g->loops[node->what].exit;
    }
    return n;
}

/* Names a rule of the circle that leads from `start` along the path back to it. */
static bn_status refuse_circle(const bn_grammar *g, uint8_t *mark, const uint32_t *path, size_t n,
                               uint32_t start, bn_error *err)
{
    uint32_t rule = 0;
    while (n-- > 0) {
        if (mark[path[n]] == ON_PATH) mark[path[n]] = IN_CIRCLE;
        if (path[n] == start) break;
    }
    while (rule + 1 < g->n_rules && mark[g->rules[rule].entry] != IN_CIRCLE)
        rule++;
    return refuse(g, rule, "begins with itself (left recursion)", err);
}

/* Searches for a circle, depth first. */
static bn_status find_circle(const bn_grammar *g, const uint8_t *empty, uint8_t *mark, uint32_t *path,
                             bn_error *err)
{
    for (uint32_t rule = 0; rule < g->n_rules; rule++) {
        size_t n = 0;
        if (mark[g->rules[rule].entry] == NOT_SEEN) path[n++] = g->rules[rule].entry;
        while (n > 0) {
            uint32_t node = path[n - 1], out[2];
            unsigned n_out = followers(g, empty, node, out);
            if (mark[node] != NOT_SEEN) { /* its followers are done */
                mark[node] = DONE;
                n--;
                continue;
            }
            mark[node] = ON_PATH;
            for (unsigned k = 0; k < n_out; k++) {
                if (mark[out[k]] == ON_PATH) return refuse_circle(g, mark, path, n, out[k], err);
                if (mark[out[k]] == NOT_SEEN) path[n++] = out[k];
            }
        }
    }
    return BN_OK;
}

static bn_status check_circles(const bn_grammar *g, const struct inference *f, bn_error *err)
{
    uint8_t *mark = bn_alloc(g->n_nodes, sizeof *mark);
    uint32_t *path = bn_alloc(g->n_nodes, 2 * sizeof *path);
    bn_status status =
        mark == NULL || path == NULL ? bn_nomem(err) : find_circle(g, f->missing, mark, path, err);
    bn_free(mark);
    bn_free(path);
    return status;
}

/* ---- the whole ---- */

/* What a jump leads to, for all nodes. */
static void skip_jumps(bn_grammar *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        uint32_t end = i;
        while (g->nodes[end].kind == BN_NODE_JUMP)
            end = g->nodes[end].next;
        for (uint32_t at = i, next; g->nodes[at].kind == BN_NODE_JUMP; at = next) {
            next = g->nodes[at].next;
            g->nodes[at].next = end;
            if (next == end) break;
        }
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        struct bn_node *node = &g->nodes[i];
        if (g->nodes[node->next].kind == BN_NODE_JUMP) node->next = g->nodes[node->next].next;
        if (node->kind == BN_NODE_SPLIT && g->nodes[node->what].kind == BN_NODE_JUMP)
            node->what = g->nodes[node->what].next;
    }
    for (uint32_t i = 0; i < g->n_loops; i++) {
        struct bn_loop *loop = &g->loops[i];
        if (g->nodes[loop->body].kind == BN_NODE_JUMP) loop->body = g->nodes[loop->body].next;
        if (g->nodes[loop->exit].kind == BN_NODE_JUMP) loop->exit = g->nodes[loop->exit].next;
    }
    for (uint32_t i = 0; i < g->n_rules; i++)
        if (g->nodes[g->rules[i].entry].kind == BN_NODE_JUMP)
            g->rules[i].entry = g->nodes[g->rules[i].entry].next;
}

/* Splits the classes by one set after the other. */
static void find_classes(bn_grammar *g)
{
    g->n_classes = 1;
    memset(g->class_of, 0, sizeof g->class_of);
    for (size_t s = 0; s < g->n_sets && g->n_classes < 256; s++) {
        int split[256] = {0}; /* the new class of members of an old one */
        unsigned n_in[256] = {0}, n_all[256] = {0};
        for (unsigned b = 0; b < 256; b++) {
            n_all[g->class_of[b]]++;
            n_in[g->class_of[b]] += bn_byte_set_has(&g->sets[s], b);
        }
        unsigned n = g->n_classes;
        for (unsigned c = 0; c < n; c++)
            split[c] = n_in[c] > 0 && n_in[c] < n_all[c] ? (int)g->n_classes++ : -1;
        for (unsigned b = 0; b < 256; b++)
            if (split[g->class_of[b]] >= 0 && bn_byte_set_has(&g->sets[s], b))
                g->class_of[b] = (uint8_t)split[g->class_of[b]];
    }
    for (unsigned b = 256; b-- > 0;)
        g->byte_of[g->class_of[b]] = (uint8_t)b;
}

bn_status bn_grammar_check(bn_grammar *g, bn_error *err)
{
    struct inference f;
    skip_jumps(g);
    bn_status status = open_inference(&f, g, err);
    if (status == BN_OK) {
        infer(&f, true);
        for (size_t i = 0; i < g->n_loops && status == BN_OK; i++)
            if (f.missing[g->loops[i].body] == 0)
                status = refuse(g, g->loops[i].rule, "repeats something that may be empty", err);
        if (status == BN_OK) status = check_circles(g, &f, err);
    }
    if (status == BN_OK) {
        infer(&f, false);
        for (uint32_t i = 0; i < g->n_nodes; i++)
            g->nodes[i].live = f.missing[i] == 0;
        if (!g->nodes[g->rules[g->root].entry].live)
            status = refuse(g, g->root, "matches no text: it never ends", err);
    }
    close_inference(&f);
    find_classes(g);
    return status;
}
