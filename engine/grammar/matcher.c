/* SPDX-License-Identifier: MIT
 *
 * See matcher.h for what a state is. A stack is a chain of frames that are shared: equal stacks have the same number,
 * so that equal sets of places are the same state. A frame is a place to return to, or a repetition with its count. A
 * call in last position leaves no frame, so that a list written as a recursion does not grow.
 */
#include "grammar/matcher.h"

#include <stdlib.h>

#include "base/error.h"
#include "tokenizer/trie.h"

/* A table is emptied between two tokens when it is over SOFT, and may grow up to HARD while one is looked for. */
#define SOFT_FRAMES (1u << 15)
#define HARD_FRAMES (1u << 19)
#define SOFT_STATES (1u << 12)
#define HARD_STATES (1u << 15)
#define SOFT_PLACES (1u << 16)
#define HARD_PLACES (1u << 21)
#define MAX_STEPS (1u << 24) /* places visited in one call */
#define MASK_BYTES (8u << 20)

#define NO_FRAME 0u /* the bottom of a stack */
#define LOOP_FRAME 0x80000000u

/* Entries of rows: unknown, no successor, else a state + 2. */
#define UNKNOWN 0u
#define DEAD 1u

struct frame {
    uint32_t place, count, parent;
    uint32_t near; /* the frame that no token can tell from this one */
};

struct place {
    uint32_t node, frame;
};

struct state {
    uint32_t first, n, mask; /* places; the mask's number + 1, 0: none */
    uint32_t near;           /* the state with the same mask + 1, 0: not known */
    bool accepts;
};

/* A slot of the table of places that were visited. */
struct visit {
    struct place place;
    uint32_t round; /* in which it was written */
};

/* A hash table of numbers + 1. */
struct table {
    uint32_t *slots;
    size_t size, n;
};

struct bn_matcher {
    const bn_grammar *g;
    const bn_tokenizer *tok;
    const struct bn_trie *trie;
    int32_t *ends;
    size_t n_ends, n_vocab, mask_words, max_masks;

    struct frame *frames; /* the first one is not used */
    struct place *places; /* of all states */
    struct state *states;
    uint32_t *rows; /* n_classes for each state */
    uint64_t *masks;
    size_t n_frames, n_places, n_states, n_masks;
    size_t frames_room, places_room, states_room, rows_room, masks_room;
    struct table frame_table, state_table;
    uint32_t now; /* the state of the text */

    /* While a state is made. */
    struct place *work, *found; /* half as many as there are slots */
    size_t n_work, n_found, n_visited;
    struct visit *visited; /* n_slots, a power of two */
    size_t n_slots;
    uint32_t round;
    bool accepts, too_large;
    uint32_t n_steps;
    bool failed;
};

/* ---- hash tables ---- */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ (h >> 29);
}

static uint64_t hash_frame(const struct bn_matcher *m, uint32_t i)
{
    const struct frame *f = &m->frames[i];
    return mix(mix(f->place, f->count), f->parent);
}

static uint64_t hash_state(const struct bn_matcher *m, uint32_t i)
{
    const struct state *s = &m->states[i];
    uint64_t h = s->accepts;
    for (uint32_t k = 0; k < s->n; k++)
        h = mix(h, (uint64_t)m->places[s->first + k].node << 32 | m->places[s->first + k].frame);
    return h;
}

static bool same_frame(const struct bn_matcher *m, uint32_t a, uint32_t b)
{
    const struct frame *x = &m->frames[a], *y = &m->frames[b];
    return x->place == y->place && x->count == y->count && x->parent == y->parent;
}

static bool same_state(const struct bn_matcher *m, uint32_t a, uint32_t b)
{
    const struct state *x = &m->states[a], *y = &m->states[b];
    return x->n == y->n && x->accepts == y->accepts &&
           (x->n == 0 || memcmp(&m->places[x->first], &m->places[y->first], x->n * sizeof *m->places) == 0);
}

typedef uint64_t (*hash_fn)(const struct bn_matcher *m, uint32_t i);
typedef bool (*same_fn)(const struct bn_matcher *m, uint32_t a, uint32_t b);

/* Makes the table twice as large. */
static bool grow_table(struct bn_matcher *m, struct table *t, hash_fn hash)
{
    size_t size = t->size > 0 ? 2 * t->size : 256;
    uint32_t *slots = bn_alloc(size, sizeof *slots);
    if (slots == NULL) return false;
    for (size_t i = 0; i < t->size; i++) {
        if (t->slots[i] == 0) continue;
        size_t at = (size_t)hash(m, t->slots[i] - 1) & (size - 1);
        while (slots[at] != 0)
            at = (at + 1) & (size - 1);
        slots[at] = t->slots[i];
    }
    bn_free(t->slots);
    t->slots = slots;
    t->size = size;
    return true;
}

/* The number of an item that is equal to item i, which is inserted when there is none. */
static uint32_t intern(struct bn_matcher *m, struct table *t, uint32_t i, hash_fn hash, same_fn same)
{
    if (2 * (t->n + 1) > t->size && !grow_table(m, t, hash)) {
        m->failed = true;
        return i;
    }
    size_t at = (size_t)hash(m, i) & (t->size - 1);
    for (; t->slots[at] != 0; at = (at + 1) & (t->size - 1))
        if (same(m, t->slots[at] - 1, i)) return t->slots[at] - 1;
    t->slots[at] = i + 1;
    t->n++;
    return i;
}

static void clear_table(struct table *t)
{
    if (t->size > 0) memset(t->slots, 0, t->size * sizeof *t->slots);
    t->n = 0;
}

static bool make_room(struct bn_matcher *m, void *list, size_t *room, size_t n, size_t each, size_t most)
{
    if (n <= *room) return true;
    if (n <= most && bn_array_grow(list, room, n, each, NULL) == BN_OK) return true;
    m->failed = true;
    return false;
}

/* A count that is as good for the next token: one token repeats a body at most as often as it has bytes, so a limit that
 * is further away does not matter. */
static uint32_t near_count(const struct bn_matcher *m, uint32_t place, uint32_t count)
{
    uint32_t far = m->trie->depth + 2;
    if ((place & LOOP_FRAME) == 0) return count;
    const struct bn_loop *loop = &m->g->loops[place & ~LOOP_FRAME];
    if (count < loop->min) return loop->min - count > far ? loop->min - far : count;
    return loop->max != BN_GRAMMAR_UNLIMITED && loop->max - count >= far ? loop->min : count;
}

static uint32_t push_frame(struct bn_matcher *m, uint32_t place, uint32_t count, uint32_t parent);

/* For a frame that is new. The nearest frame of a nearest frame is itself. */
static void find_near(struct bn_matcher *m, uint32_t frame)
{
    struct frame f = m->frames[frame];
    uint32_t count = near_count(m, f.place, f.count), parent = m->frames[f.parent].near;
    bool is_near = count == f.count && parent == f.parent;
    uint32_t near = is_near ? frame : push_frame(m, f.place, count, parent);
    m->frames[frame].near = near;
}

static uint32_t push_frame(struct bn_matcher *m, uint32_t place, uint32_t count, uint32_t parent)
{
    if (!make_room(m, &m->frames, &m->frames_room, m->n_frames + 1, sizeof *m->frames, HARD_FRAMES))
        return NO_FRAME;
    uint32_t mine = (uint32_t)m->n_frames;
    m->frames[mine] = (struct frame){place, count, parent, mine};
    uint32_t found = intern(m, &m->frame_table, mine, hash_frame, same_frame);
    if (found != mine || m->failed) return found;
    m->n_frames++;
    find_near(m, mine);
    return mine;
}

/* ---- making a state ---- */

static void begin_state(struct bn_matcher *m)
{
    m->n_work = m->n_found = m->n_visited = 0;
    m->accepts = m->too_large = false;
    if (++m->round == 0) { /* once in 2^32 */
        memset(m->visited, 0, m->n_slots * sizeof *m->visited);
        m->round = 1;
    }
}

/* The slot of a place, or the one where it belongs. */
static struct visit *find_visit(const struct bn_matcher *m, struct visit *slots, size_t n_slots,
                                struct place place)
{
    size_t at = (size_t)mix(place.node, place.frame) & (n_slots - 1);
    for (; slots[at].round == m->round; at = (at + 1) & (n_slots - 1))
        if (slots[at].place.node == place.node && slots[at].place.frame == place.frame) break;
    return &slots[at];
}

/* Room for twice as many places. */
static bool grow_visits(struct bn_matcher *m)
{
    size_t n_slots = m->n_slots > 0 ? 2 * m->n_slots : 64;
    struct visit *slots = bn_alloc(n_slots, sizeof *slots);
    struct place *work = bn_realloc(m->work, n_slots / 2, sizeof *work);
    if (work != NULL) m->work = work;
    struct place *found = bn_realloc(m->found, n_slots / 2, sizeof *found);
    if (found != NULL) m->found = found;
    if (slots == NULL || work == NULL || found == NULL) {
        bn_free(slots);
        m->failed = true;
        return false;
    }
    for (size_t i = 0; i < m->n_slots; i++)
        if (m->visited[i].round == m->round)
            *find_visit(m, slots, n_slots, m->visited[i].place) = m->visited[i];
    bn_free(m->visited);
    m->visited = slots;
    m->n_slots = n_slots;
    return true;
}

/* A place from which the end can be reached is looked at once. */
static void visit(struct bn_matcher *m, uint32_t node, uint32_t frame)
{
    struct place place = {node, frame};
    if (!m->g->nodes[node].live || m->failed) return;
    struct visit *slot = find_visit(m, m->visited, m->n_slots, place);
    if (slot->round == m->round) return;
    if (++m->n_steps > MAX_STEPS) m->failed = true;
    if (m->n_visited == BN_MATCHER_MAX_PLACES) m->too_large = true;
    if (m->too_large || m->failed) return;
    *slot = (struct visit){place, m->round};
    m->work[m->n_work++] = place;
    if (2 * ++m->n_visited >= m->n_slots) (void)grow_visits(m);
}

/* A repetition that was done `count` times. */
static void visit_loop(struct bn_matcher *m, uint32_t number, uint32_t count, uint32_t parent)
{
    const struct bn_loop *loop = &m->g->loops[number];
    if (!loop->counted) {
        if (count >= loop->min) visit(m, loop->exit, parent);
        visit(m, loop->body, parent);
        return;
    }
    if (count >= loop->min) visit(m, loop->exit, parent);
    if (loop->max == BN_GRAMMAR_UNLIMITED && count > loop->min) count = loop->min;
    if (count < loop->max) visit(m, loop->body, push_frame(m, number | LOOP_FRAME, count, parent));
}

/* Goes on from a place to those that consume a byte. */
static void expand(struct bn_matcher *m, struct place at)
{
    const bn_grammar *g = m->g;
    const struct bn_node *node = &g->nodes[at.node];
    struct frame top = m->frames[at.frame];
    if (node->kind == BN_NODE_SET) m->found[m->n_found++] = at;
    if (node->kind == BN_NODE_JUMP || node->kind == BN_NODE_SPLIT) visit(m, node->next, at.frame);
    if (node->kind == BN_NODE_SPLIT) visit(m, node->what, at.frame);
    if (node->kind == BN_NODE_CALL) {
        bool is_last = g->nodes[node->next].kind == BN_NODE_RETURN;
        visit(m, g->rules[node->what].entry, is_last ? at.frame : push_frame(m, node->next, 0, at.frame));
    }
    if (node->kind == BN_NODE_RETURN && at.frame == NO_FRAME) m->accepts = true;
    if (node->kind == BN_NODE_RETURN && at.frame != NO_FRAME) visit(m, top.place, top.parent);
    if (node->kind == BN_NODE_LOOP) visit_loop(m, node->what, 0, at.frame);
    if (node->kind != BN_NODE_AGAIN) return;
    if (g->loops[node->what].counted)
        visit_loop(m, node->what, top.count + 1, top.parent);
    else
        visit_loop(m, node->what, 1, at.frame);
}

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

/* The state of the places that were visited; its entry in rows. */
static uint32_t end_state(struct bn_matcher *m)
{
    while (m->n_work > 0 && !m->failed && !m->too_large)
        expand(m, m->work[--m->n_work]);
    if (m->failed || m->too_large || (m->n_found == 0 && !m->accepts)) return DEAD;
    size_t n_rows = (m->n_states + 1) * m->g->n_classes;
    if (!make_room(m, &m->places, &m->places_room, m->n_places + m->n_found, sizeof *m->places,
                   HARD_PLACES) ||
        !make_room(m, &m->states, &m->states_room, m->n_states + 1, sizeof *m->states, HARD_STATES) ||
        !make_room(m, &m->rows, &m->rows_room, n_rows, sizeof *m->rows, SIZE_MAX))
        return DEAD;
    qsort(m->found, m->n_found, sizeof *m->found, by_place);
    if (m->n_found > 0) memcpy(m->places + m->n_places, m->found, m->n_found * sizeof *m->found);
    uint32_t mine = (uint32_t)m->n_states;
    m->states[mine] = (struct state){(uint32_t)m->n_places, (uint32_t)m->n_found, 0, 0, m->accepts};
    uint32_t state = intern(m, &m->state_table, mine, hash_state, same_state);
    if (m->failed) return DEAD;
    if (state == mine) {
        m->n_states++;
        m->n_places += m->n_found;
        memset(m->rows + mine * (size_t)m->g->n_classes, 0, m->g->n_classes * sizeof *m->rows);
    }
    return state + 2;
}

/* The successor of a state by a class of bytes, which is not known yet. */
static uint32_t make_successor(struct bn_matcher *m, uint32_t state, unsigned class)
{
    const bn_grammar *g = m->g;
    begin_state(m);
    for (uint32_t k = 0; k < m->states[state].n; k++) {
        struct place at = m->places[m->states[state].first + k];
        if (bn_byte_set_has(&g->sets[g->nodes[at.node].what], g->byte_of[class]))
            visit(m, g->nodes[at.node].next, at.frame);
    }
    uint32_t entry = end_state(m);
    if (!m->failed) m->rows[state * (size_t)g->n_classes + class] = entry;
    return entry;
}

static inline uint32_t successor(struct bn_matcher *m, uint32_t state, unsigned char byte)
{
    unsigned class = m->g->class_of[byte];
    uint32_t entry = m->rows[state * (size_t)m->g->n_classes + class];
    return entry != UNKNOWN ? entry : make_successor(m, state, class);
}

/* ---- forgetting ---- */

/* Keeps the current state alone, and the frames that it has. A parent is before its children. */
static void forget(struct bn_matcher *m)
{
    struct state now = m->states[m->now];
    uint32_t *number = bn_alloc(m->n_frames, sizeof *number);
    if (number == NULL) {
        m->failed = true;
        return;
    }
    for (uint32_t k = 0; k < now.n; k++)
        number[m->places[now.first + k].frame] = 1;
    for (unsigned round = 0; round < 2; round++) { /* those of the state, then those that are near */
        for (size_t i = m->n_frames; i-- > 1;)
            if (number[i] != 0) number[m->frames[i].parent] = 1;
        for (size_t i = 1; i < m->n_frames; i++)
            if (number[i] != 0) number[m->frames[i].near] = 1;
    }
    uint32_t n = 1;
    number[NO_FRAME] = NO_FRAME;
    for (uint32_t i = 1; i < m->n_frames; i++) {
        if (number[i] == 0) continue;
        struct frame f = m->frames[i];
        m->frames[n] = (struct frame){f.place, f.count, number[f.parent], f.near};
        number[i] = n++;
    }
    for (uint32_t i = 1; i < n; i++)
        m->frames[i].near = number[m->frames[i].near];
    m->n_frames = n;
    clear_table(&m->frame_table);
    for (uint32_t i = 1; i < n; i++)
        (void)intern(m, &m->frame_table, i, hash_frame, same_frame);
    memmove(m->places, m->places + now.first, now.n * sizeof *m->places);
    for (uint32_t k = 0; k < now.n; k++)
        m->places[k].frame = number[m->places[k].frame];
    qsort(m->places, now.n, sizeof *m->places, by_place);
    bn_free(number);
    m->states[0] = (struct state){0, now.n, 0, 0, now.accepts};
    m->n_places = now.n;
    m->n_states = 1;
    m->n_masks = 0;
    clear_table(&m->state_table);
    (void)intern(m, &m->state_table, 0, hash_state, same_state);
    memset(m->rows, 0, m->g->n_classes * sizeof *m->rows);
    m->now = 0;
}

static void begin_call(struct bn_matcher *m)
{
    m->n_steps = 0;
    if (m->n_frames > SOFT_FRAMES || m->n_states > SOFT_STATES || m->n_places > SOFT_PLACES) forget(m);
}

/* ---- what the header declares ---- */

static bool is_end(const struct bn_matcher *m, int32_t id)
{
    for (size_t i = 0; i < m->n_ends; i++)
        if (m->ends[i] == id) return true;
    return false;
}

/* The entry of the state after these bytes. */
static uint32_t follow(struct bn_matcher *m, const char *bytes, size_t n)
{
    uint32_t entry = m->now + 2;
    for (size_t i = 0; i < n && entry != DEAD; i++)
        entry = successor(m, entry - 2, (unsigned char)bytes[i]);
    return m->failed ? DEAD : entry;
}

/* The same after a token; one that ends the text leaves the state as it is. */
static uint32_t follow_token(struct bn_matcher *m, int32_t id)
{
    const char *bytes;
    begin_call(m);
    if (is_end(m, id)) return bn_matcher_accepts(m) ? m->now + 2 : DEAD;
    if (m->failed || !bn_trie_has(m->tok, id)) return DEAD;
    size_t n = bn_token_bytes(m->tok, id, &bytes);
    return follow(m, bytes, n);
}

bool bn_matcher_allows(struct bn_matcher *m, int32_t id)
{
    return follow_token(m, id) != DEAD;
}

bool bn_matcher_take(struct bn_matcher *m, int32_t id)
{
    uint32_t entry = follow_token(m, id);
    if (entry != DEAD) m->now = entry - 2;
    return entry != DEAD;
}

bool bn_matcher_take_bytes(struct bn_matcher *m, const char *bytes, size_t n)
{
    begin_call(m);
    uint32_t entry = m->failed ? DEAD : follow(m, bytes, n);
    if (entry != DEAD) m->now = entry - 2;
    return entry != DEAD;
}

/* The state that has the same mask as the current one, whatever its counts are. */
static uint32_t near_state(struct bn_matcher *m)
{
    if (m->states[m->now].near != 0) return m->states[m->now].near - 1;
    struct state now = m->states[m->now];
    begin_state(m);
    m->accepts = now.accepts;
    for (uint32_t k = 0; k < now.n; k++)
        visit(m, m->places[now.first + k].node, m->frames[m->places[now.first + k].frame].near);
    uint32_t entry = end_state(m);
    if (entry == DEAD) return m->now;
    m->states[m->now].near = entry - 1;
    return entry - 2;
}

/* The mask of a state. */
static void make_mask(struct bn_matcher *m, uint32_t state, uint64_t *mask)
{
    const struct bn_trie_node *nodes = m->trie->nodes;
    uint32_t path[BN_TRIE_MAX_DEPTH + 1];
    path[0] = state;
    memset(mask, 0, m->mask_words * sizeof *mask);
    for (size_t i = 0; i < m->trie->n_nodes && !m->failed;) {
        const struct bn_trie_node *node = &nodes[i];
        uint32_t entry = successor(m, path[node->depth], node->byte);
        if (entry == DEAD) {
            i = node->skip;
            continue;
        }
        path[node->depth + 1] = entry - 2;
        if (node->token >= 0 && (size_t)node->token < m->n_vocab)
            mask[node->token >> 6] |= (uint64_t)1 << (node->token & 63);
        i++;
    }
    for (size_t i = 0; i < m->n_ends; i++) {
        uint64_t bit = (uint64_t)1 << (m->ends[i] & 63);
        mask[m->ends[i] >> 6] &= ~bit;
        if (m->states[m->now].accepts) mask[m->ends[i] >> 6] |= bit;
    }
}

const uint64_t *bn_matcher_mask(struct bn_matcher *m)
{
    begin_call(m);
    if (m->failed) return NULL;
    uint32_t state = near_state(m);
    if (m->states[state].mask == 0) {
        if (m->n_masks == m->max_masks) {
            for (size_t i = 0; i < m->n_states; i++)
                m->states[i].mask = 0;
            m->n_masks = 0;
        }
        if (!make_room(m, &m->masks, &m->masks_room, (m->n_masks + 1) * m->mask_words, sizeof *m->masks,
                       SIZE_MAX))
            return NULL;
        make_mask(m, state, m->masks + m->n_masks * m->mask_words);
        m->states[state].mask = (uint32_t)++m->n_masks;
    }
    return m->failed ? NULL : m->masks + (m->states[state].mask - 1) * m->mask_words;
}

bool bn_matcher_accepts(const struct bn_matcher *m)
{
    return !m->failed && m->states[m->now].accepts;
}

bool bn_matcher_is_complete(const struct bn_matcher *m)
{
    return bn_matcher_accepts(m) && m->states[m->now].n == 0;
}

bool bn_matcher_has_failed(const struct bn_matcher *m)
{
    return m->failed;
}

static bn_status start(struct bn_matcher *m, bn_error *err)
{
    m->n_frames = 1; /* the bottom */
    if (!make_room(m, &m->frames, &m->frames_room, 1, sizeof *m->frames, 1)) return bn_nomem(err);
    m->frames[0] = (struct frame){0};
    begin_state(m);
    visit(m, m->g->rules[m->g->root].entry, NO_FRAME);
    uint32_t entry = end_state(m);
    if (m->failed || entry == DEAD)
        return bn_fail(err, BN_ERR_LIMIT, "the grammar has more than %u places at its beginning",
                       BN_MATCHER_MAX_PLACES);
    m->now = entry - 2;
    if (bn_matcher_is_complete(m)) return bn_fail(err, BN_ERR_ARG, "the grammar matches the empty text only");
    return BN_OK;
}

bn_status bn_matcher_open(struct bn_matcher **out, const bn_grammar *grammar, const bn_tokenizer *tok,
                          size_t n_vocab, const int32_t *ends, size_t n_ends, bn_error *err)
{
    *out = NULL;
    if (tok == NULL) return bn_fail(err, BN_ERR_ARG, "a grammar needs a vocabulary, and the model has none");
    struct bn_matcher *m = bn_alloc(1, sizeof *m);
    if (m == NULL) return bn_nomem(err);
    m->g = grammar;
    m->tok = tok;
    m->n_vocab = n_vocab;
    m->mask_words = (n_vocab + 63) / 64;
    m->max_masks = MASK_BYTES / (8 * m->mask_words) + 1;
    m->ends = bn_alloc(n_ends, sizeof *m->ends);
    bn_status status = m->ends == NULL || !grow_visits(m) ? bn_nomem(err) : BN_OK;
    for (size_t i = 0; i < n_ends && status == BN_OK; i++)
        if (ends[i] >= 0 && (size_t)ends[i] < n_vocab && !is_end(m, ends[i])) m->ends[m->n_ends++] = ends[i];
    if (status == BN_OK) status = bn_tokenizer_trie(tok, &m->trie, err);
    if (status == BN_OK) status = start(m, err);
    if (status != BN_OK) {
        bn_matcher_close(m);
        return status;
    }
    *out = m;
    return BN_OK;
}

void bn_matcher_close(struct bn_matcher *m)
{
    if (m == NULL) return;
    bn_free(m->ends);
    bn_free(m->frames);
    bn_free(m->places);
    bn_free(m->states);
    bn_free(m->rows);
    bn_free(m->masks);
    bn_free(m->frame_table.slots);
    bn_free(m->state_table.slots);
    bn_free(m->work);
    bn_free(m->found);
    bn_free(m->visited);
    bn_free(m);
}
