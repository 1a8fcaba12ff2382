/* SPDX-License-Identifier: MIT
 *
 * The states of a matcher: sets of places in the grammar, each with a stack of the rules to return to (matcher.h). A
 * stack is a chain of frames that are shared: equal stacks have the same number, so that equal sets of places are the
 * same state. A frame is a place to return to, or a repetition with its count. A call in last position leaves no frame,
 * so that a list written as a recursion does not grow.
 */
#ifndef BN_GRAMMAR_STATES_H
#define BN_GRAMMAR_STATES_H

#include "grammar/matcher.h"
#include "tokenizer/vocab.h"

#define BN_NO_FRAME 0u /* the bottom of a stack */

/* What a byte leads to: not known, no state, else a state + 2. */
#define BN_UNKNOWN 0u
#define BN_DEAD 1u

struct bn_call_frame {
    uint32_t place, count, parent;
    uint32_t near; /* the frame that no token can tell from this one */
};

struct bn_place {
    uint32_t node, frame;
};

struct bn_state {
    uint32_t first, n, mask;       /* places; the mask's number + 1, 0: none */
    uint32_t near;                 /* the state with the same mask + 1, 0: not known */
    struct bn_byte_set some, many; /* bytes of a place or more; of two or more */
    bool accepts;
};

/* A set of pairs of numbers: those that were added in this round. */
struct bn_pair {
    uint32_t a, b, round;
};
struct bn_pair_set {
    struct bn_pair *slots; /* n_slots, a power of two */
    size_t n_slots, n;
    uint32_t round;
};

/* A hash table of numbers + 1. */
struct bn_number_table {
    uint32_t *slots;
    size_t size, n;
};

/* Where a walk over the tree of tokens is: it goes on with place `k` of the state and the child `child` of a node. */
struct bn_walk {
    uint32_t state, child, end, k;
    bool many; /* other states were at this node, or will be */
};

struct bn_matcher {
    const bn_grammar *g;
    const bn_tokenizer *tok;
    const struct bn_trie *trie;
    int32_t *ends;
    size_t n_ends, n_vocab, mask_words, max_masks;

    struct bn_call_frame *frames; /* the first one is not used */
    struct bn_place *places;      /* of all states */
    struct bn_state *states;
    uint32_t *rows; /* n_classes for each state */
    uint64_t *masks;
    size_t n_frames, n_places, n_states, n_masks;
    size_t frames_room, places_room, states_room, rows_room, masks_room;
    struct bn_number_table frame_table, state_table;
    uint32_t now; /* the state of the text */

    /* While a state is made. */
    struct bn_place *work, *found;
    size_t n_work, n_found, work_room, found_room;
    struct bn_pair_set visited; /* places */
    bool accepts;

    /* While a mask is made. */
    struct bn_walk path[BN_TRIE_MAX_DEPTH + 1];
    size_t n_path;           /* 0: none is */
    struct bn_pair_set seen; /* nodes of the tree and states, where there are several */

    uint64_t most_merged; /* steps after which places are followed alone */

    uint64_t n_steps, most_steps, n_moves;
    bn_status status; /* BN_OK, or why it has failed */
};

/* Begins a state: the places that are visited, and those that follow without a byte. */
void bn_states_begin(struct bn_matcher *m);
void bn_states_visit(struct bn_matcher *m, uint32_t node, uint32_t frame);
/* What leads to the state: it + 2, BN_DEAD when it has no places. */
uint32_t bn_states_end(struct bn_matcher *m);
/* The same of a byte after a state. */
uint32_t bn_states_successor(struct bn_matcher *m, uint32_t state, unsigned char byte);
/* Keeps the current state alone, when there are many. */
void bn_states_forget(struct bn_matcher *m);

bool bn_states_make_room(struct bn_matcher *m, void *list, size_t *room, size_t n, size_t each, size_t most);
void bn_states_clear_pairs(struct bn_pair_set *pairs);
/* False: it was there, or the matcher has failed. */
bool bn_states_add_pair(struct bn_matcher *m, struct bn_pair_set *pairs, uint32_t a, uint32_t b);
/* It has failed; the first reason is kept. */
void bn_states_fail(struct bn_matcher *m, bn_status why);

#endif
