/* SPDX-License-Identifier: MIT
 *
 * Snapshots: states of recurrent layers at earlier places of timelines, in a pool of a session. Such a state cannot be
 * shortened. So a timeline that becomes shorter takes the state of a snapshot that is not after its new end, and what
 * follows is evaluated again.
 *
 * A snapshot belongs to all timelines of one lineage that begin with its tokens, which are compared. The pool has a fixed
 * size. When it is full, the snapshot goes that saves the fewest tokens for its age.
 */
#ifndef BN_INFER_SNAPSHOTS_H
#define BN_INFER_SNAPSHOTS_H

#include "bn.h"

#define BN_SNAPSHOT_EVERY 256u /* tokens of a prompt */

struct bn_snapshot {
    bool is_reserved;  /* for the pass in flight */
    uint64_t lineage;  /* 0: empty */
    uint64_t last_use; /* by the clock of the pool */
    uint32_t n_tokens;
    int32_t *tokens;
    float *state;
};

struct bn_snapshots {
    struct bn_snapshot *list;
    size_t n;
    uint64_t clock; /* of uses */
};

/* As many states as `bytes` hold, 0: the default number; none for models without recurrent layers (n_state is 0). False when
 * there is no memory. */
bool bn_snapshots_open(struct bn_snapshots *pool, uint64_t bytes, size_t n_state, uint32_t n_ctx);
void bn_snapshots_close(struct bn_snapshots *pool);
/* Bytes that it will take. */
uint64_t bn_snapshots_plan(uint64_t bytes, size_t n_state, uint32_t n_ctx);
uint64_t bn_snapshots_bytes(const struct bn_snapshots *pool);

/* The shortest snapshot of more than `after` tokens, and of at most n_tokens, that is of the sequence; NULL: there is none. */
struct bn_snapshot *bn_snapshots_next(const struct bn_snapshots *pool, const struct bn_sequence *sequence,
                                      uint32_t after, uint32_t n_tokens);
/* The longest snapshot of at most n_tokens of the sequence; NULL: there is none. */
struct bn_snapshot *bn_snapshots_find(const struct bn_snapshots *pool, const struct bn_sequence *sequence,
                                      uint32_t n_tokens);
/* It was used just now. */
void bn_snapshots_touch(struct bn_snapshots *pool, struct bn_snapshot *snapshot);
/* Reserves one for the state after n_tokens, which the caller writes; NULL: all are reserved. */
struct bn_snapshot *bn_snapshots_reserve(struct bn_snapshots *pool, uint32_t n_tokens);
/* The state was written, and the sequence has the tokens. */
void bn_snapshots_fill(struct bn_snapshots *pool, struct bn_snapshot *snapshot,
                       const struct bn_sequence *sequence);
/* It was not. */
void bn_snapshots_drop(struct bn_snapshot *snapshot);

#endif
