/* SPDX-License-Identifier: MIT
 *
 * See matcher.h for what a mask is, and what a state is.
 */
#include "grammar/matcher.h"

#include "base/error.h"

/* Units of steps: a matcher may make the first ones, and more for each token that it takes; those of a mask, after which
 * places are followed alone. */
#define FIRST_UNITS 256u
#define EACH_UNITS 4u
#define MERGED_UNITS 4u
#define MASK_BYTES (8u << 20)
#define MOVES 16u /* in the tree of tokens count as one step */

static bool is_end(const struct bn_matcher *m, int32_t id)
{
    for (size_t i = 0; i < m->n_ends; i++)
        if (m->ends[i] == id) return true;
    return false;
}

uint64_t bn_matcher_unit(const struct bn_matcher *m)
{
    return 4096 + m->n_vocab;
}

static void begin_call(struct bn_matcher *m)
{
    if (m->n_path == 0) bn_states_forget(m);
}

/* The entry of the state after these bytes. */
static uint32_t follow(struct bn_matcher *m, const char *bytes, size_t n)
{
    uint32_t entry = m->now + 2;
    for (size_t i = 0; i < n && entry != BN_DEAD; i++)
        entry = bn_states_successor(m, entry - 2, (unsigned char)bytes[i]);
    return m->status != BN_OK ? BN_DEAD : entry;
}

/* The same after a token; one that ends the text leaves the state as it is. */
static uint32_t follow_token(struct bn_matcher *m, int32_t id)
{
    const char *bytes;
    begin_call(m);
    if (is_end(m, id)) return bn_matcher_accepts(m) ? m->now + 2 : BN_DEAD;
    if (m->status != BN_OK || !bn_trie_has(m->tok, id)) return BN_DEAD;
    size_t n = bn_token_bytes(m->tok, id, &bytes);
    return follow(m, bytes, n);
}

bool bn_matcher_allows(struct bn_matcher *m, int32_t id)
{
    return follow_token(m, id) != BN_DEAD;
}

/* The text goes on to the state of this entry. */
static bool go_to(struct bn_matcher *m, uint32_t entry)
{
    if (entry == BN_DEAD) return false;
    m->now = entry - 2;
    m->n_path = 0;
    m->most_steps += EACH_UNITS * bn_matcher_unit(m);
    return true;
}

bool bn_matcher_take(struct bn_matcher *m, int32_t id)
{
    return go_to(m, follow_token(m, id));
}

bool bn_matcher_take_bytes(struct bn_matcher *m, const char *bytes, size_t n)
{
    begin_call(m);
    return go_to(m, m->status != BN_OK ? BN_DEAD : follow(m, bytes, n));
}

/* The state that has the same mask as the current one, whatever its counts are. */
static uint32_t near_state(struct bn_matcher *m)
{
    if (m->states[m->now].near != 0) return m->states[m->now].near - 1;
    struct bn_state now = m->states[m->now];
    bn_states_begin(m);
    m->accepts = now.accepts;
    for (uint32_t k = 0; k < now.n; k++)
        bn_states_visit(m, m->places[now.first + k].node, m->frames[m->places[now.first + k].frame].near);
    uint32_t entry = bn_states_end(m);
    if (entry == BN_DEAD) return m->now;
    m->states[m->now].near = entry - 1;
    return entry - 2;
}

/* Whether a mask has all tokens of the tree below a node. */
static bool is_covered(struct bn_matcher *m, const uint64_t *mask, uint32_t node)
{
    const struct bn_trie_node *nodes = m->trie->nodes;
    for (uint32_t i = node + 1; i < nodes[node].skip; i++) {
        m->n_moves++;
        if (nodes[i].token < 0 || (size_t)nodes[i].token >= m->n_vocab) continue;
        if ((mask[nodes[i].token >> 6] >> (nodes[i].token & 63) & 1) == 0) return false;
    }
    return true;
}

/* The state after the next place that has the byte of a child, where several have; BN_DEAD: there is none. A place alone
 * is a state, and its successors are kept: what is made here does not grow with the number of places that a text leads to. */
static uint32_t next_of_many(struct bn_matcher *m, struct bn_walk *w)
{
    const bn_grammar *g = m->g;
    const struct bn_place *places = m->places + m->states[w->state].first;
    unsigned char byte = m->trie->nodes[w->child].byte;
    uint32_t n = m->states[w->state].n, from = w->k;
    while (w->k < n && !bn_byte_set_has(&g->sets[g->nodes[places[w->k].node].what], byte))
        w->k++;
    m->n_moves += w->k - from;
    if (w->k == n) return BN_DEAD;
    struct bn_place place = places[w->k++];
    bn_states_begin(m);
    bn_states_visit(m, place.node, place.frame);
    uint32_t alone = bn_states_end(m);
    return alone != BN_DEAD ? bn_states_successor(m, alone - 2, byte) : BN_DEAD;
}

/* Goes on with a walk over the tree of tokens and the states that they lead to. A mask that takes many steps has texts that
 * can be read in many ways. Then each place is followed alone, and parts of the tree whose tokens are all in the mask are
 * left out. */
static void walk(struct bn_matcher *m, uint64_t *mask, uint64_t until)
{
    const struct bn_trie_node *nodes = m->trie->nodes;
    while (m->n_path > 0 && m->status == BN_OK && m->n_steps < until) {
        struct bn_walk *w = &m->path[m->n_path - 1];
        uint32_t child = w->child, next = BN_DEAD;
        m->n_steps += ++m->n_moves / MOVES;
        m->n_moves %= MOVES;
        if (m->n_steps > m->most_steps) bn_states_fail(m, BN_ERR_LIMIT);
        if (child == w->end) {
            m->n_path--;
            continue;
        }
        const struct bn_trie_node *node = &nodes[child];
        const struct bn_state *state = &m->states[w->state];
        bool here = bn_byte_set_has(&state->many, node->byte) && m->n_steps >= m->most_merged;
        bool many = here || w->many;
        bool leads = bn_byte_set_has(&state->some, node->byte);
        if (leads && node->token >= 0 && (size_t)node->token < m->n_vocab)
            mask[node->token >> 6] |= (uint64_t)1 << (node->token & 63);
        leads = leads && node->skip > child + 1 && !(many && is_covered(m, mask, child));
        if (leads) next = here ? next_of_many(m, w) : bn_states_successor(m, w->state, node->byte);
        if (!leads || !here || next == BN_DEAD) {
            w->child = node->skip;
            w->k = 0;
        }
        if (next == BN_DEAD || (many && !bn_states_add_pair(m, &m->seen, child, next - 2))) continue;
        m->path[m->n_path++] = (struct bn_walk){next - 2, child + 1, node->skip, 0, many};
    }
}

/* Begins a mask in the next slot. */
static void begin_mask(struct bn_matcher *m, uint32_t state)
{
    if (m->n_masks == m->max_masks) {
        for (size_t i = 0; i < m->n_states; i++)
            m->states[i].mask = 0;
        m->n_masks = 0;
    }
    if (!bn_states_make_room(m, &m->masks, &m->masks_room, (m->n_masks + 1) * m->mask_words, sizeof *m->masks,
                             SIZE_MAX))
        return;
    memset(m->masks + m->n_masks * m->mask_words, 0, m->mask_words * sizeof *m->masks);
    bn_states_clear_pairs(&m->seen);
    m->most_merged = m->n_steps + MERGED_UNITS * bn_matcher_unit(m);
    m->path[m->n_path++] = (struct bn_walk){state, 0, (uint32_t)m->trie->n_nodes, 0, false};
}

static void end_mask(struct bn_matcher *m, uint32_t state, uint64_t *mask)
{
    for (size_t i = 0; i < m->n_ends; i++) {
        uint64_t bit = (uint64_t)1 << (m->ends[i] & 63);
        mask[m->ends[i] >> 6] &= ~bit;
        if (m->states[state].accepts) mask[m->ends[i] >> 6] |= bit;
    }
    m->states[state].mask = (uint32_t)++m->n_masks;
}

const uint64_t *bn_matcher_mask(struct bn_matcher *m, uint64_t until)
{
    begin_call(m);
    uint32_t state = m->n_path > 0 ? m->path[0].state : near_state(m);
    if (m->status == BN_OK && m->states[state].mask == 0) {
        if (m->n_path == 0) begin_mask(m, state);
        uint64_t *mask = m->masks + m->n_masks * m->mask_words;
        if (m->status == BN_OK) walk(m, mask, until);
        if (m->status != BN_OK || m->n_path > 0) return NULL;
        end_mask(m, state, mask);
    }
    return m->status == BN_OK ? m->masks + (m->states[state].mask - 1) * m->mask_words : NULL;
}

bool bn_matcher_accepts(const struct bn_matcher *m)
{
    return m->status == BN_OK && m->states[m->now].accepts;
}

bool bn_matcher_is_complete(const struct bn_matcher *m)
{
    return bn_matcher_accepts(m) && m->states[m->now].n == 0;
}

static bn_status start(struct bn_matcher *m, bn_error *err)
{
    m->n_frames = 1; /* the bottom */
    if (!bn_states_make_room(m, &m->frames, &m->frames_room, 1, sizeof *m->frames, 1)) return bn_nomem(err);
    m->frames[0] = (struct bn_call_frame){0};
    bn_states_begin(m);
    bn_states_visit(m, m->g->rules[m->g->root].entry, BN_NO_FRAME);
    m->now = bn_states_end(m) - 2;
    if (m->status == BN_ERR_NOMEM) return bn_nomem(err);
    if (m->status != BN_OK)
        return bn_fail(err, BN_ERR_LIMIT, "the grammar has more than %u places at its beginning",
                       BN_MATCHER_MAX_PLACES);
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
    m->most_steps = FIRST_UNITS * bn_matcher_unit(m);
    m->mask_words = (n_vocab + 63) / 64;
    m->max_masks = MASK_BYTES / (8 * m->mask_words) + 1;
    m->ends = bn_alloc(n_ends, sizeof *m->ends);
    bn_status status = m->ends == NULL ? bn_nomem(err) : BN_OK;
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
    bn_free(m->visited.slots);
    bn_free(m->seen.slots);
    bn_free(m);
}
