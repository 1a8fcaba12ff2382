/* SPDX-License-Identifier: MIT
 *
 * States; see matcher.h.
 */
#include "grammar/matcher.h"

#include <stdlib.h>

#include "base/error.h"

/* A table is emptied between two tokens when it is over SOFT, and may grow up to HARD while one is looked for. */
#define SOFT_FRAMES (1u << 15)
#define HARD_FRAMES (1u << 19)
#define SOFT_STATES (1u << 12)
#define HARD_STATES (1u << 15)
#define SOFT_PLACES (1u << 16)
#define HARD_PLACES (1u << 20)
#define HARD_PAIRS (1u << 19)

#define LOOP_FRAME 0x80000000u

/* ---- hash tables ---- */

static uint64_t mix(uint64_t h, uint64_t x)
{
    return bn_hash_mix(h ^ x);
}

static uint64_t hash_frame(const struct bn_matcher *m, uint32_t i)
{
    const struct bn_call_frame *f = &m->frames[i];
    return mix(mix(f->place, f->count), f->parent);
}

static uint64_t hash_state(const struct bn_matcher *m, uint32_t i)
{
    const struct bn_state *s = &m->states[i];
    uint64_t h = s->accepts;
    for (uint32_t k = 0; k < s->n; k++)
        h = mix(h, (uint64_t)m->places[s->first + k].node << 32 | m->places[s->first + k].frame);
    return h;
}

static bool same_frame(const struct bn_matcher *m, uint32_t a, uint32_t b)
{
    const struct bn_call_frame *x = &m->frames[a], *y = &m->frames[b];
    return x->place == y->place && x->count == y->count && x->parent == y->parent;
}

static bool same_state(const struct bn_matcher *m, uint32_t a, uint32_t b)
{
    const struct bn_state *x = &m->states[a], *y = &m->states[b];
    return x->n == y->n && x->accepts == y->accepts &&
           (x->n == 0 || memcmp(&m->places[x->first], &m->places[y->first], x->n * sizeof *m->places) == 0);
}

typedef uint64_t (*hash_fn)(const struct bn_matcher *m, uint32_t i);
typedef bool (*same_fn)(const struct bn_matcher *m, uint32_t a, uint32_t b);

/* Makes the table twice as large. */
static bool grow_table(struct bn_matcher *m, struct bn_number_table *t, hash_fn hash)
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
static uint32_t intern(struct bn_matcher *m, struct bn_number_table *t, uint32_t i, hash_fn hash,
                       same_fn same)
{
    if (2 * (t->n + 1) > t->size && !grow_table(m, t, hash)) bn_states_fail(m, BN_ERR_NOMEM);
    if (m->status != BN_OK) return i;
    size_t at = (size_t)hash(m, i) & (t->size - 1);
    for (; t->slots[at] != 0; at = (at + 1) & (t->size - 1))
        if (same(m, t->slots[at] - 1, i)) return t->slots[at] - 1;
    t->slots[at] = i + 1;
    t->n++;
    return i;
}

static void clear_table(struct bn_number_table *t)
{
    if (t->size > 0) memset(t->slots, 0, t->size * sizeof *t->slots);
    t->n = 0;
}

void bn_states_fail(struct bn_matcher *m, bn_status why)
{
    if (m->status == BN_OK) m->status = why;
}

bool bn_states_make_room(struct bn_matcher *m, void *list, size_t *room, size_t n, size_t each, size_t most)
{
    if (n <= *room) return true;
    if (n > most)
        bn_states_fail(m, BN_ERR_LIMIT);
    else if (bn_array_grow(list, room, n, each, NULL) != BN_OK)
        bn_states_fail(m, BN_ERR_NOMEM);
    return n <= *room;
}

/* The slot of a pair, or the one where it belongs. */
static struct bn_pair *find_pair(struct bn_pair *slots, size_t n_slots, uint32_t round, uint32_t a,
                                 uint32_t b)
{
    size_t at = (size_t)mix(a, b) & (n_slots - 1);
    while (slots[at].round == round && (slots[at].a != a || slots[at].b != b))
        at = (at + 1) & (n_slots - 1);
    return &slots[at];
}

void bn_states_clear_pairs(struct bn_pair_set *p)
{
    p->n = 0;
    if (++p->round != 0 || p->n_slots == 0) return;
    memset(p->slots, 0, p->n_slots * sizeof *p->slots); /* once in 2^32 */
    p->round = 1;
}

static bool grow_pairs(struct bn_pair_set *p)
{
    size_t n_slots = p->n_slots > 0 ? 2 * p->n_slots : 64;
    struct bn_pair *slots = bn_alloc(n_slots, sizeof *slots);
    if (slots == NULL) return false;
    for (size_t i = 0; i < p->n_slots; i++) {
        struct bn_pair old = p->slots[i];
        if (old.round == p->round) *find_pair(slots, n_slots, old.round, old.a, old.b) = old;
    }
    bn_free(p->slots);
    p->slots = slots;
    p->n_slots = n_slots;
    return true;
}

bool bn_states_add_pair(struct bn_matcher *m, struct bn_pair_set *p, uint32_t a, uint32_t b)
{
    if (2 * (p->n + 1) > p->n_slots && !grow_pairs(p)) bn_states_fail(m, BN_ERR_NOMEM);
    if (p->n == HARD_PAIRS) bn_states_fail(m, BN_ERR_LIMIT);
    if (m->status != BN_OK) return false;
    struct bn_pair *slot = find_pair(p->slots, p->n_slots, p->round, a, b);
    if (slot->round == p->round) return false;
    *slot = (struct bn_pair){a, b, p->round};
    p->n++;
    return true;
}

/* ---- frames ---- */

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
    struct bn_call_frame f = m->frames[frame];
    uint32_t count = near_count(m, f.place, f.count), parent = m->frames[f.parent].near;
    bool is_near = count == f.count && parent == f.parent;
    uint32_t near = is_near ? frame : push_frame(m, f.place, count, parent);
    m->frames[frame].near = near;
}

static uint32_t push_frame(struct bn_matcher *m, uint32_t place, uint32_t count, uint32_t parent)
{
    if (!bn_states_make_room(m, &m->frames, &m->frames_room, m->n_frames + 1, sizeof *m->frames, HARD_FRAMES))
        return BN_NO_FRAME;
    uint32_t mine = (uint32_t)m->n_frames;
    m->frames[mine] = (struct bn_call_frame){place, count, parent, mine};
    uint32_t found = intern(m, &m->frame_table, mine, hash_frame, same_frame);
    if (found != mine || m->status != BN_OK) return found;
    m->n_frames++;
    find_near(m, mine);
    return mine;
}

/* ---- making a state ---- */

void bn_states_begin(struct bn_matcher *m)
{
    m->n_work = m->n_found = 0;
    m->accepts = false;
    bn_states_clear_pairs(&m->visited);
}

/* A place from which the end can be reached is looked at once. */
void bn_states_visit(struct bn_matcher *m, uint32_t node, uint32_t frame)
{
    if (!m->g->nodes[node].live || !bn_states_add_pair(m, &m->visited, node, frame)) return;
    if (m->visited.n > BN_MATCHER_MAX_PLACES || ++m->n_steps > m->most_steps) bn_states_fail(m, BN_ERR_LIMIT);
    if (!bn_states_make_room(m, &m->work, &m->work_room, m->n_work + 1, sizeof *m->work, SIZE_MAX)) return;
    m->work[m->n_work++] = (struct bn_place){node, frame};
}

/* A repetition that was done `count` times. */
static void visit_loop(struct bn_matcher *m, uint32_t number, uint32_t count, uint32_t parent)
{
    const struct bn_loop *loop = &m->g->loops[number];
    if (count >= loop->min) bn_states_visit(m, loop->exit, parent);
    if (!loop->counted) {
        bn_states_visit(m, loop->body, parent);
        return;
    }
    if (loop->max == BN_GRAMMAR_UNLIMITED && count > loop->min) count = loop->min;
    if (count < loop->max) bn_states_visit(m, loop->body, push_frame(m, number | LOOP_FRAME, count, parent));
}

/* Goes on from a place to those that consume a byte. */
static void expand(struct bn_matcher *m, struct bn_place at)
{
    const bn_grammar *g = m->g;
    const struct bn_node *node = &g->nodes[at.node];
    struct bn_call_frame top = m->frames[at.frame];
    if (node->kind == BN_NODE_SET &&
        bn_states_make_room(m, &m->found, &m->found_room, m->n_found + 1, sizeof *m->found, SIZE_MAX))
        m->found[m->n_found++] = at;
    if (node->kind == BN_NODE_JUMP || node->kind == BN_NODE_SPLIT) bn_states_visit(m, node->next, at.frame);
    if (node->kind == BN_NODE_SPLIT) bn_states_visit(m, node->what, at.frame);
    if (node->kind == BN_NODE_CALL) {
        bool is_last = g->nodes[node->next].kind == BN_NODE_RETURN;
        bn_states_visit(m, g->rules[node->what].entry,
                        is_last ? at.frame : push_frame(m, node->next, 0, at.frame));
    }
    if (node->kind == BN_NODE_RETURN && at.frame == BN_NO_FRAME) m->accepts = true;
    if (node->kind == BN_NODE_RETURN && at.frame != BN_NO_FRAME) bn_states_visit(m, top.place, top.parent);
    if (node->kind == BN_NODE_LOOP) visit_loop(m, node->what, 0, at.frame);
    if (node->kind != BN_NODE_AGAIN) return;
    if (g->loops[node->what].counted)
        visit_loop(m, node->what, top.count + 1, top.parent);
    else
        visit_loop(m, node->what, 1, at.frame);
}

static int by_place(const void *a, const void *b)
{
    const struct bn_place *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

/* Bytes that one place has, or several. */
static void put_bytes(const struct bn_matcher *m, struct bn_state *s)
{
    for (uint32_t k = 0; k < s->n; k++) {
        const struct bn_byte_set *set = &m->g->sets[m->g->nodes[m->places[s->first + k].node].what];
        for (unsigned i = 0; i < BN_ARRAY_LEN(set->bits); i++) {
            s->many.bits[i] |= s->some.bits[i] & set->bits[i];
            s->some.bits[i] |= set->bits[i];
        }
    }
}

uint32_t bn_states_end(struct bn_matcher *m)
{
    while (m->n_work > 0 && m->status == BN_OK)
        expand(m, m->work[--m->n_work]);
    if (m->status != BN_OK || (m->n_found == 0 && !m->accepts)) return BN_DEAD;
    size_t n_rows = (m->n_states + 1) * m->g->n_classes;
    if (!bn_states_make_room(m, &m->places, &m->places_room, m->n_places + m->n_found, sizeof *m->places,
                             HARD_PLACES) ||
        !bn_states_make_room(m, &m->states, &m->states_room, m->n_states + 1, sizeof *m->states,
                             HARD_STATES) ||
        !bn_states_make_room(m, &m->rows, &m->rows_room, n_rows, sizeof *m->rows, SIZE_MAX))
        return BN_DEAD;
    if (m->n_found > 0) {
        qsort(m->found, m->n_found, sizeof *m->found, by_place);
        memcpy(m->places + m->n_places, m->found, m->n_found * sizeof *m->found);
    }
    uint32_t mine = (uint32_t)m->n_states;
    m->states[mine] =
        (struct bn_state){.first = (uint32_t)m->n_places, .n = (uint32_t)m->n_found, .accepts = m->accepts};
    uint32_t state = intern(m, &m->state_table, mine, hash_state, same_state);
    if (m->status != BN_OK) return BN_DEAD;
    if (state == mine) {
        put_bytes(m, &m->states[mine]);
        m->n_states++;
        m->n_places += m->n_found;
        memset(m->rows + mine * (size_t)m->g->n_classes, 0, m->g->n_classes * sizeof *m->rows);
    }
    return state + 2;
}

uint32_t bn_states_successor(struct bn_matcher *m, uint32_t state, unsigned char byte)
{
    const bn_grammar *g = m->g;
    unsigned class = g->class_of[byte];
    uint32_t entry = m->rows[state * (size_t)g->n_classes + class];
    if (entry != BN_UNKNOWN) return entry;
    bn_states_begin(m);
    for (uint32_t k = 0; k < m->states[state].n; k++) {
        struct bn_place at = m->places[m->states[state].first + k];
        if (bn_byte_set_has(&g->sets[g->nodes[at.node].what], byte))
            bn_states_visit(m, g->nodes[at.node].next, at.frame);
    }
    entry = bn_states_end(m);
    if (m->status == BN_OK) m->rows[state * (size_t)g->n_classes + class] = entry;
    return entry;
}

/* ---- forgetting ---- */

/* The frames of the current state stay. A parent is before its children. */
void bn_states_forget(struct bn_matcher *m)
{
    if (m->n_frames <= SOFT_FRAMES && m->n_states <= SOFT_STATES && m->n_places <= SOFT_PLACES) return;
    struct bn_state now = m->states[m->now];
    uint32_t *number = bn_alloc(m->n_frames, sizeof *number);
    if (number == NULL) {
        bn_states_fail(m, BN_ERR_NOMEM);
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
    number[BN_NO_FRAME] = BN_NO_FRAME;
    for (uint32_t i = 1; i < m->n_frames; i++) {
        if (number[i] == 0) continue;
        struct bn_call_frame f = m->frames[i];
        m->frames[n] = (struct bn_call_frame){f.place, f.count, number[f.parent], f.near};
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
    m->states[0] = (struct bn_state){.n = now.n, .some = now.some, .many = now.many, .accepts = now.accepts};
    m->n_places = now.n;
    m->n_states = 1;
    m->n_masks = 0;
    clear_table(&m->state_table);
    (void)intern(m, &m->state_table, 0, hash_state, same_state);
    memset(m->rows, 0, m->g->n_classes * sizeof *m->rows);
    m->now = 0;
}
