/* SPDX-License-Identifier: MIT
 *
 * The pool of snapshots of a session. See session.h.
 */
#include "infer/session.h"

#define DEFAULT_SNAPSHOTS 6u
#define MOST_SNAPSHOTS 256u

/* The tokens take little beside a state and are not counted. */
static size_t number(uint64_t bytes, size_t n_state)
{
    if (n_state == 0) return 0;
    return bytes == 0 ? DEFAULT_SNAPSHOTS : bn_min_size(bytes / (n_state * sizeof(float)), MOST_SNAPSHOTS);
}

uint64_t bn_snapshots_plan(uint64_t bytes, size_t n_state, uint32_t n_ctx)
{
    return number(bytes, n_state) * (n_state * sizeof(float) + (uint64_t)n_ctx * sizeof(int32_t));
}

bool bn_snapshots_open(struct bn_snapshots *pool, uint64_t bytes, size_t n_state, uint32_t n_ctx)
{
    *pool = (struct bn_snapshots){0};
    size_t n = number(bytes, n_state);
    if (n == 0) return true;
    pool->list = bn_alloc(n, sizeof *pool->list);
    if (pool->list == NULL) return false;
    for (pool->n = n; n > 0; n--) {
        struct bn_snapshot *s = &pool->list[n - 1];
        s->tokens = bn_alloc_aligned(n_ctx, sizeof *s->tokens);
        s->state = bn_alloc_aligned(n_state, sizeof *s->state);
        if (s->tokens == NULL || s->state == NULL) return false;
    }
    return true;
}

void bn_snapshots_close(struct bn_snapshots *pool)
{
    for (size_t i = 0; i < pool->n; i++) {
        bn_free(pool->list[i].tokens);
        bn_free(pool->list[i].state);
    }
    bn_free(pool->list);
}

uint64_t bn_snapshots_bytes(const struct bn_snapshots *pool)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < pool->n; i++)
        sum += bn_mem_size(pool->list[i].tokens) + bn_mem_size(pool->list[i].state);
    return sum;
}

/* Whether the timeline of n tokens and this lineage begins with the snapshot's. */
static bool begins(const struct bn_snapshot *s, uint64_t lineage, const int32_t *tokens, uint32_t n)
{
    return s->lineage == lineage && s->n_tokens <= n &&
           memcmp(s->tokens, tokens, s->n_tokens * sizeof *tokens) == 0;
}

struct bn_snapshot *bn_snapshots_find(const struct bn_snapshots *pool, const struct bn_sequence *sequence,
                                      uint32_t after, uint32_t n_tokens)
{
    struct bn_snapshot *best = NULL;
    for (size_t i = 0; i < pool->n; i++) {
        struct bn_snapshot *s = &pool->list[i];
        bool longest = after == BN_LONGEST, wanted = longest || s->n_tokens > after;
        if (best != NULL) wanted &= longest ? s->n_tokens > best->n_tokens : s->n_tokens < best->n_tokens;
        if (wanted && begins(s, sequence->lineage, sequence->tokens, n_tokens)) best = s;
    }
    return best;
}

/* Tokens that would be evaluated again without this one: those after the snapshot before it. */
static uint32_t saves(const struct bn_snapshots *pool, const struct bn_snapshot *s)
{
    uint32_t before = 0;
    for (size_t i = 0; i < pool->n; i++) {
        const struct bn_snapshot *other = &pool->list[i];
        if (other->n_tokens > before && other->n_tokens < s->n_tokens &&
            begins(other, s->lineage, s->tokens, s->n_tokens))
            before = other->n_tokens;
    }
    return s->n_tokens - before;
}

/* Whether a is worth less than b: fewer tokens for its age. */
static bool is_worse(const struct bn_snapshots *pool, const struct bn_snapshot *a,
                     const struct bn_snapshot *b)
{
    if (a->lineage == 0 || b->lineage == 0) return b->lineage != 0;
    uint64_t age_a = pool->clock - a->last_use + 1, age_b = pool->clock - b->last_use + 1;
    return saves(pool, a) * age_b < saves(pool, b) * age_a;
}

struct bn_snapshot *bn_snapshots_reserve(struct bn_snapshots *pool, uint32_t n_tokens)
{
    struct bn_snapshot *worst = NULL;
    for (size_t i = 0; i < pool->n; i++) {
        struct bn_snapshot *s = &pool->list[i];
        if (!s->is_reserved && (worst == NULL || is_worse(pool, s, worst))) worst = s;
    }
    if (worst == NULL) return NULL;
    worst->is_reserved = true;
    worst->lineage = 0;
    worst->n_tokens = n_tokens;
    return worst;
}

void bn_snapshots_fill(struct bn_snapshots *pool, struct bn_snapshot *snapshot,
                       const struct bn_sequence *sequence)
{
    struct bn_snapshot *same = bn_snapshots_find(pool, sequence, BN_LONGEST, snapshot->n_tokens);
    if (same != NULL && same->n_tokens == snapshot->n_tokens) same->lineage = 0;
    memcpy(snapshot->tokens, sequence->tokens, snapshot->n_tokens * sizeof *snapshot->tokens);
    snapshot->lineage = sequence->lineage;
    snapshot->is_reserved = false;
    snapshot->last_use = ++pool->clock;
}
