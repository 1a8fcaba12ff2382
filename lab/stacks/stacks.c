/* SPDX-License-Identifier: MIT
 *
 * The tree of call paths. Texts, frames and children are found by one open hash table each, which holds
 * numbers only; what they refer to is looked up and compared.
 */
#include "lab/stacks/stacks.h"

#include <stdio.h>

#include "base/utf8.h"

struct table {
    uint32_t *slots;  /* number + 1; 0: free */
    uint64_t *hashes; /* [n], by number */
    size_t room;      /* of slots, a power of two */
    size_t n, hashes_room;
};

struct bn_stacks_index {
    char **texts; /* all that were given; frames point to them */
    size_t n_texts, texts_room;
    struct table tables[3];
};
enum { TEXTS, FRAMES, CHILDREN };

const char *bn_frame_kind_name(enum bn_frame_kind kind)
{
    static const char *const NAMES[] = {"process", "thread", "phase",   "layer",  "brick",
                                        "kernel",  "code",   "inlined", "system", "unknown"};
    _Static_assert(BN_ARRAY_LEN(NAMES) == BN_FRAME_KINDS, "a name for each");
    return (unsigned)kind < BN_FRAME_KINDS ? NAMES[kind] : "unknown";
}

/* ---- hash tables of numbers ---- */

static uint64_t mix(uint64_t h, uint64_t value)
{
    h = (h ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

static uint64_t hash_text(const char *text, size_t n)
{
    uint64_t h = n;
    for (size_t i = 0; i < n; i += sizeof h) {
        uint64_t part = 0;
        memcpy(&part, text + i, bn_min_size(sizeof part, n - i));
        h = mix(h, part);
    }
    return h;
}

static uint64_t hash_frame(const struct bn_frame *f)
{
    return mix(mix(mix((uintptr_t)f->name, (uintptr_t)f->module), (uintptr_t)f->file), f->kind);
}

static uint64_t hash_child(uint32_t parent, uint32_t frame)
{
    return mix(mix(1, parent), frame);
}

typedef bool same_fn(const bn_stacks *s, uint32_t number, const void *key);

/* The number of an equal one; BN_STACKS_NONE when there is none. */
static uint32_t find(const struct table *t, const bn_stacks *s, uint64_t hash, same_fn *same, const void *key)
{
    if (t->room == 0) return BN_STACKS_NONE;
    for (size_t i = (size_t)hash & (t->room - 1); t->slots[i] != 0; i = (i + 1) & (t->room - 1))
        if (same(s, t->slots[i] - 1, key)) return t->slots[i] - 1;
    return BN_STACKS_NONE;
}

static void place(struct table *t, uint64_t hash, uint32_t number)
{
    size_t i = (size_t)hash & (t->room - 1);
    while (t->slots[i] != 0)
        i = (i + 1) & (t->room - 1);
    t->slots[i] = number + 1;
}

/* Numbers 0 to n - 1 are in it; the next one is put. */
static bn_status insert(struct table *t, uint64_t hash, bn_error *err)
{
    BN_TRY(bn_array_grow(&t->hashes, &t->hashes_room, t->n + 1, sizeof *t->hashes, err));
    t->hashes[t->n] = hash;
    if (2 * (t->n + 1) > t->room) {
        size_t room = t->room == 0 ? 64 : 2 * t->room;
        uint32_t *slots = bn_alloc(room, sizeof *slots);
        if (slots == NULL) return bn_nomem(err);
        bn_free(t->slots);
        t->slots = slots;
        t->room = room;
        for (uint32_t i = 0; i < t->n; i++)
            place(t, t->hashes[i], i);
    }
    place(t, hash, (uint32_t)t->n++);
    return BN_OK;
}

/* ---- texts ---- */

static bool same_text(const bn_stacks *s, uint32_t number, const void *key)
{
    const struct bn_str *text = key;
    return bn_str_equal(*text, s->index->texts[number]);
}

/* Bytes of the character at the beginning of text, 0 when a frame's text cannot have it. */
static size_t clean_length(const char *text, size_t n)
{
    unsigned char first = (unsigned char)text[0];
    /* U+0080 to U+009F too: terminals obey them. */
    bool control = first < 0x20 || first == 0x7F || (first == 0xC2 && n > 1 && (unsigned char)text[1] < 0xA0);
    return control ? 0 : bn_utf8_length(text, n);
}

/* As frames have texts: valid UTF-8, no control characters, not too long. out has room for the longest. */
static size_t clean_text(char *out, const char *text, size_t n)
{
    static const char REPLACEMENT[] = "\xEF\xBF\xBD";
    size_t used = 0;
    for (size_t i = 0; i < n;) {
        size_t length = clean_length(text + i, n - i), wanted = length == 0 ? 3 : length;
        if (used + wanted > BN_STACKS_MAX_NAME) break;
        memcpy(out + used, length == 0 ? REPLACEMENT : text + i, wanted);
        used += wanted;
        i += length == 0 ? 1 : length;
    }
    return used;
}

static bn_status intern(bn_stacks *s, const char **out, const char *text, size_t n, bn_error *err)
{
    struct bn_stacks_index *x = s->index;
    char cleaned[BN_STACKS_MAX_NAME];
    struct bn_str key = {cleaned, clean_text(cleaned, text, n)};
    uint64_t hash = hash_text(key.ptr, key.len);
    uint32_t number = find(&x->tables[TEXTS], s, hash, same_text, &key);
    if (number == BN_STACKS_NONE) {
        BN_TRY(bn_array_grow(&x->texts, &x->texts_room, x->n_texts + 1, sizeof *x->texts, err));
        char *copy = bn_strndup(key.ptr, key.len);
        bn_status status = copy != NULL ? insert(&x->tables[TEXTS], hash, err) : bn_nomem(err);
        if (status != BN_OK) {
            bn_free(copy);
            return status;
        }
        number = (uint32_t)x->n_texts++;
        x->texts[number] = copy;
    }
    *out = x->texts[number];
    return BN_OK;
}

/* ---- frames and nodes ---- */

static bool same_frame(const bn_stacks *s, uint32_t number, const void *key)
{
    const struct bn_frame *f = key, *g = &s->frames[number];
    return f->kind == g->kind && f->name == g->name && f->module == g->module && f->file == g->file;
}

bn_status bn_stacks_intern(bn_stacks *s, uint32_t *out, const struct bn_frame *frame, size_t n_name,
                           bn_error *err)
{
    struct bn_frame own = *frame;
    size_t n = n_name == SIZE_MAX ? strlen(frame->name) : n_name;
    BN_TRY(n > 0 ? intern(s, &own.name, frame->name, n, err)
                 : intern(s, &own.name, "[unknown]", strlen("[unknown]"), err));
    BN_TRY(intern(s, &own.module, frame->module, strlen(frame->module), err));
    BN_TRY(intern(s, &own.file, frame->file, strlen(frame->file), err));
    uint64_t hash = hash_frame(&own);
    *out = find(&s->index->tables[FRAMES], s, hash, same_frame, &own);
    if (*out != BN_STACKS_NONE) {
        uint32_t *line =
            &s->frames[*out].line; /* the first one, so that the order of arrival does not matter */
        if (frame->line != 0 && (*line == 0 || frame->line < *line)) *line = frame->line;
        return BN_OK;
    }
    BN_TRY(bn_array_grow(&s->frames, &s->frames_room, s->n_frames + 1, sizeof *s->frames, err));
    s->frames[s->n_frames] = own;
    BN_TRY(insert(&s->index->tables[FRAMES], hash, err));
    *out = (uint32_t)s->n_frames++;
    return BN_OK;
}

static bool same_child(const bn_stacks *s, uint32_t number, const void *key)
{
    const struct bn_stacks_node *n = key;
    return number != BN_STACKS_ROOT && s->nodes[number].parent == n->parent &&
           s->nodes[number].frame == n->frame;
}

/* Each node costs memory in each run. */
static bn_status check_cells(size_t n_nodes, size_t n_runs, bn_error *err)
{
    if (n_nodes <= BN_STACKS_MAX_CELLS / n_runs) return BN_OK;
    return bn_fail(err, BN_ERR_LIMIT, "%zu call paths in %zu runs: their product is over the limit of %u",
                   n_nodes, n_runs, BN_STACKS_MAX_CELLS);
}

static bn_status grow_nodes(bn_stacks *s, bn_error *err)
{
    for (size_t r = 0; r < s->n_runs; r++) {
        size_t room = s->nodes_room, same = room;
        BN_TRY(bn_array_grow(&s->runs[r].self, &room, s->n_nodes + 1, sizeof *s->runs[r].self, err));
        BN_TRY(bn_array_grow(&s->runs[r].samples, &same, s->n_nodes + 1, sizeof *s->runs[r].samples, err));
    }
    return bn_array_grow(&s->nodes, &s->nodes_room, s->n_nodes + 1, sizeof *s->nodes, err);
}

static bn_status add_node(bn_stacks *s, const struct bn_stacks_node *node, bn_error *err)
{
    if (s->n_nodes >= BN_STACKS_MAX_NODES)
        return bn_fail(err, BN_ERR_LIMIT, "more than %u different call paths", BN_STACKS_MAX_NODES);
    BN_TRY(check_cells(s->n_nodes + 1, s->n_runs, err));
    BN_TRY(grow_nodes(s, err));
    s->nodes[s->n_nodes] = *node;
    for (size_t r = 0; r < s->n_runs; r++) {
        s->runs[r].self[s->n_nodes] = 0;
        s->runs[r].samples[s->n_nodes] = 0;
    }
    BN_TRY(insert(&s->index->tables[CHILDREN], hash_child(node->parent, node->frame), err));
    s->n_nodes++;
    return BN_OK;
}

bn_status bn_stacks_push_frame(bn_stacks *stacks, uint32_t *node, uint32_t frame, bn_error *err)
{
    static const struct bn_frame deeper = {"[deeper]", "", "", 0, BN_FRAME_UNKNOWN};
    uint32_t depth = stacks->nodes[*node].depth;
    if (depth >= BN_STACKS_MAX_DEPTH) return BN_OK;
    if (depth + 1 == BN_STACKS_MAX_DEPTH) BN_TRY(bn_stacks_intern(stacks, &frame, &deeper, SIZE_MAX, err));
    const struct bn_stacks_node child = {.parent = *node, .frame = frame, .depth = depth + 1};
    uint32_t number =
        find(&stacks->index->tables[CHILDREN], stacks, hash_child(*node, frame), same_child, &child);
    if (number == BN_STACKS_NONE) {
        BN_TRY(add_node(stacks, &child, err));
        number = (uint32_t)stacks->n_nodes - 1;
    }
    *node = number;
    return BN_OK;
}

bn_status bn_stacks_push(bn_stacks *stacks, uint32_t *node, const struct bn_frame *frame, size_t n_name,
                         bn_error *err)
{
    uint32_t number;
    if (stacks->nodes[*node].depth + 1 >= BN_STACKS_MAX_DEPTH)
        return bn_stacks_push_frame(stacks, node, BN_STACKS_NONE, err);
    BN_TRY(bn_stacks_intern(stacks, &number, frame, n_name, err));
    return bn_stacks_push_frame(stacks, node, number, err);
}

bn_status bn_stacks_push_name(bn_stacks *stacks, uint32_t *node, enum bn_frame_kind kind, const char *name,
                              bn_error *err)
{
    struct bn_frame frame = {name, "", "", 0, kind};
    return bn_stacks_push(stacks, node, &frame, SIZE_MAX, err);
}

void bn_stacks_add(bn_stacks *stacks, uint32_t node, size_t run, double weight, uint64_t samples)
{
    stacks->runs[run].self[node] += weight;
    stacks->runs[run].samples[node] += samples;
}

/* ---- opening and closing ---- */

bn_status bn_stacks_open(bn_stacks **out, const char *unit, const char *what, bn_error *err)
{
    static const struct bn_stacks_node root = {BN_STACKS_ROOT, BN_STACKS_NONE, 0};
    *out = NULL;
    bn_stacks *s = bn_alloc(1, sizeof *s);
    if (s == NULL) return bn_nomem(err);
    snprintf(s->unit, sizeof s->unit, "%s", unit);
    snprintf(s->what, sizeof s->what, "%s", what);
    s->index = bn_alloc(1, sizeof *s->index);
    s->about = bn_json_new_object();
    bn_status status = s->index == NULL || s->about == NULL ? bn_nomem(err) : BN_OK;
    if (status == BN_OK) status = bn_stacks_add_run(s, err);
    if (status == BN_OK) status = add_node(s, &root, err);
    if (status == BN_OK)
        *out = s;
    else
        bn_stacks_close(s);
    return status;
}

void bn_stacks_close(bn_stacks *stacks)
{
    if (stacks == NULL) return;
    for (size_t r = 0; r < stacks->n_runs; r++) {
        bn_free(stacks->runs[r].self);
        bn_free(stacks->runs[r].samples);
    }
    bn_free(stacks->runs);
    bn_free(stacks->nodes);
    bn_free(stacks->frames);
    bn_json_free(stacks->about);
    bn_stacks_close(stacks->measured);
    struct bn_stacks_index *x = stacks->index;
    if (x != NULL) {
        for (size_t i = 0; i < x->n_texts; i++)
            bn_free(x->texts[i]);
        bn_free(x->texts);
        for (size_t t = 0; t < BN_ARRAY_LEN(x->tables); t++) {
            bn_free(x->tables[t].slots);
            bn_free(x->tables[t].hashes);
        }
    }
    bn_free(x);
    bn_free(stacks);
}

bn_status bn_stacks_keep(bn_stacks **out, bn_status status)
{
    if (status == BN_OK) return BN_OK;
    bn_stacks_close(*out);
    *out = NULL;
    return status;
}

bn_status bn_stacks_add_run(bn_stacks *stacks, bn_error *err)
{
    if (stacks->n_runs == BN_STACKS_MAX_RUNS)
        return bn_fail(err, BN_ERR_LIMIT, "more than %u runs", BN_STACKS_MAX_RUNS);
    BN_TRY(check_cells(stacks->n_nodes, stacks->n_runs + 1, err));
    struct bn_stacks_run *runs = bn_realloc(stacks->runs, stacks->n_runs + 1, sizeof *runs);
    if (runs == NULL) return bn_nomem(err);
    stacks->runs = runs;
    size_t room = stacks->nodes_room == 0 ? 1 : stacks->nodes_room;
    struct bn_stacks_run run = {bn_alloc(room, sizeof *run.self), bn_alloc(room, sizeof *run.samples)};
    if (run.self == NULL || run.samples == NULL) {
        bn_free(run.self);
        bn_free(run.samples);
        return bn_nomem(err);
    }
    runs[stacks->n_runs++] = run;
    return BN_OK;
}

/* ---- asking ---- */

double bn_stacks_self(const bn_stacks *stacks, uint32_t node, size_t run)
{
    double sum = 0;
    if (run != BN_STACKS_ALL_RUNS) return stacks->runs[run].self[node];
    for (size_t r = 0; r < stacks->n_runs; r++)
        sum += stacks->runs[r].self[node];
    return sum;
}

uint64_t bn_stacks_samples(const bn_stacks *stacks, uint32_t node, size_t run)
{
    uint64_t sum = 0;
    if (run != BN_STACKS_ALL_RUNS) return stacks->runs[run].samples[node];
    for (size_t r = 0; r < stacks->n_runs; r++)
        sum += stacks->runs[r].samples[node];
    return sum;
}

void bn_stacks_totals(const bn_stacks *stacks, size_t run, double *out)
{
    for (uint32_t i = 0; i < stacks->n_nodes; i++)
        out[i] = bn_stacks_self(stacks, i, run);
    for (size_t i = stacks->n_nodes; i-- > 1;)
        out[stacks->nodes[i].parent] += out[i];
}

uint64_t bn_stacks_count_samples(const bn_stacks *stacks)
{
    uint64_t n = 0;
    for (uint32_t node = 0; node < stacks->n_nodes; node++)
        n += bn_stacks_samples(stacks, node, BN_STACKS_ALL_RUNS);
    return n;
}

int bn_frame_compare(const struct bn_frame *a, const struct bn_frame *b)
{
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    int names = strcmp(a->name, b->name);
    if (names == 0) names = strcmp(a->module, b->module);
    return names != 0 ? names : strcmp(a->file, b->file);
}

const struct bn_frame *bn_stacks_frame(const bn_stacks *stacks, uint32_t node)
{
    return node == BN_STACKS_ROOT ? NULL : &stacks->frames[stacks->nodes[node].frame];
}
