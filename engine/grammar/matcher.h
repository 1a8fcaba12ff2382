/* SPDX-License-Identifier: MIT
 *
 * Follows a grammar through a text, and says which tokens may come next. A token may come when its bytes lead on from
 * what was generated; a token that ends the generation, when the text is complete.
 *
 * The network is made deterministic along the text: a state is a set of places in the grammar, each with a stack of
 * the rules to return to. States, their successors and their masks over the vocabulary are kept. A mask is made by one
 * walk over the tree of tokens. A walk that takes many steps follows each place alone from there on, so that texts which
 * can be read in many ways do not multiply states. All results are those of trying every token, which a test does.
 *
 * Limits keep a hostile grammar from taking memory and time. Over one of them, or without memory, a matcher has failed and
 * allows nothing. They count steps, not time: a text fails on all machines or on none.
 */
#ifndef BN_GRAMMAR_MATCHER_H
#define BN_GRAMMAR_MATCHER_H

#include "grammar/grammar.h"
#include "tokenizer/vocab.h"

#define BN_MATCHER_MAX_PLACES 32768u /* that are visited to make one state */

struct bn_matcher;

/* n_vocab: bits of a mask. ends: tokens that end a generation. The arguments outlive it, but for ends. BN_ERR_ARG for a
 * grammar of the empty text alone. */
BN_MUST_CHECK bn_status bn_matcher_open(struct bn_matcher **out, const bn_grammar *grammar,
                                        const bn_tokenizer *tok, size_t n_vocab, const int32_t *ends,
                                        size_t n_ends, bn_error *err);
void bn_matcher_close(struct bn_matcher *m);

/* Whether a token may come next. */
bool bn_matcher_allows(struct bn_matcher *m, int32_t id);
/* A bit for each token that may come next, until the next call of bn_matcher_take. NULL: it has failed, or has made
 * `until` steps since it was opened; then the next call goes on. */
const uint64_t *bn_matcher_mask(struct bn_matcher *m, uint64_t until);
/* The steps that count as one token of work: 4096, and one for each bit of a mask. A matcher may make 256 times as many,
 * and 4 times as many for each token that it takes. */
uint64_t bn_matcher_unit(const struct bn_matcher *m);
/* The text goes on by a token that is allowed; false: it is not, and nothing changes. */
bool bn_matcher_take(struct bn_matcher *m, int32_t id);
/* The same by bytes. */
bool bn_matcher_take_bytes(struct bn_matcher *m, const char *bytes, size_t n);
/* The text matches the grammar; and nothing can follow it. */
bool bn_matcher_accepts(const struct bn_matcher *m);
bool bn_matcher_is_complete(const struct bn_matcher *m);

/* ---- states: states.c ---- */

/* The states of a matcher: sets of places in the grammar, each with a stack of the rules to return to. A
 * stack is a chain of frames that are shared: equal stacks have the same number, so that equal sets of places are the
 * same state. A frame is a place to return to, or a repetition with its count. A call in last position leaves no frame,
 * so that a list written as a recursion does not grow. */

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

    uint64_t n_steps; /* that it has made: places that were visited, and parts of the tree of tokens */
    uint64_t most_steps, n_moves;
    bn_status status; /* BN_OK, or why it has failed: BN_ERR_LIMIT, BN_ERR_NOMEM */
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
