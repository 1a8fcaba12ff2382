/* SPDX-License-Identifier: MIT
 *
 * Ranks that are threads of one process, for unit tests of code that runs on several ranks.
 */
#ifndef BN_TESTS_UNIT_RANKS_H
#define BN_TESTS_UNIT_RANKS_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/ranks.h"

#define TEST_RANKS_MAX 16u

/* What a rank offers in a call, and who has copied it. */
struct test_ranks_room {
    unsigned count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* [from][to]: the bytes that a rank waits to hand over; NULL: none */
    const void *offered[TEST_RANKS_MAX][TEST_RANKS_MAX];
};

struct test_rank {
    struct test_ranks_room *room;
    struct bn_ranks ranks;
    struct bn_ranks_traffic traffic;
    void (*fn)(const struct bn_ranks *ranks, void *arg);
    void *arg;
    pthread_t thread;
};

static inline void test_ranks_offer(struct test_rank *me, unsigned to, const void *data)
{
    struct test_ranks_room *room = me->room;
    const void **place = &room->offered[me->ranks.index][to];
    while (*place != NULL)
        pthread_cond_wait(&room->changed, &room->lock);
    *place = data;
    pthread_cond_broadcast(&room->changed);
}

static inline void test_ranks_take(struct test_rank *me, unsigned from, void *data, size_t n)
{
    struct test_ranks_room *room = me->room;
    const void **place = &room->offered[from][me->ranks.index];
    while (*place == NULL)
        pthread_cond_wait(&room->changed, &room->lock);
    memcpy(data, *place, n);
    *place = NULL;
    me->traffic.bytes_received += n;
    pthread_cond_broadcast(&room->changed);
}

/* Until it was taken. */
static inline void test_ranks_wait(struct test_rank *me, unsigned to, size_t n)
{
    while (me->room->offered[me->ranks.index][to] != NULL)
        pthread_cond_wait(&me->room->changed, &me->room->lock);
    me->traffic.bytes_sent += n;
    me->traffic.messages_sent++;
}

static inline bn_status test_ranks_gather(void *context, void *data, const size_t *edges, bn_error *err)
{
    struct test_rank *me = context;
    unsigned self = me->ranks.index, count = me->ranks.count;
    char *bytes = data;
    (void)err;
    pthread_mutex_lock(&me->room->lock);
    for (unsigned i = 0; i < count; i++)
        if (i != self) test_ranks_offer(me, i, bytes + edges[self]);
    for (unsigned i = 0; i < count; i++)
        if (i != self) test_ranks_take(me, i, bytes + edges[i], edges[i + 1] - edges[i]);
    for (unsigned i = 0; i < count; i++)
        if (i != self) test_ranks_wait(me, i, edges[self + 1] - edges[self]);
    pthread_mutex_unlock(&me->room->lock);
    return BN_OK;
}

static inline bn_status test_ranks_exchange(void *context, unsigned peer, const void *send, void *receive,
                                            size_t n, bn_error *err)
{
    struct test_rank *me = context;
    (void)err;
    pthread_mutex_lock(&me->room->lock);
    test_ranks_offer(me, peer, send);
    test_ranks_take(me, peer, receive, n);
    test_ranks_wait(me, peer, n);
    pthread_mutex_unlock(&me->room->lock);
    return BN_OK;
}

static inline bn_status test_ranks_broadcast(void *context, unsigned root, void *data, size_t n,
                                             bn_error *err)
{
    struct test_rank *me = context;
    (void)err;
    pthread_mutex_lock(&me->room->lock);
    if (me->ranks.index != root) {
        test_ranks_take(me, root, data, n);
    } else {
        for (unsigned i = 0; i < me->ranks.count; i++)
            if (i != root) test_ranks_offer(me, i, data);
        for (unsigned i = 0; i < me->ranks.count; i++)
            if (i != root) test_ranks_wait(me, i, n);
    }
    pthread_mutex_unlock(&me->room->lock);
    return BN_OK;
}

static inline void test_ranks_abort(void *context, int code)
{
    (void)context;
    exit(code != 0 ? code : 1);
}

static inline void *test_ranks_main(void *arg)
{
    struct test_rank *me = arg;
    me->fn(&me->ranks, me->arg);
    return NULL;
}

/* Runs fn on `count` ranks, each a thread, and returns when all are done. Do not use assertions of cmocka in fn: it may
 * leave its results in what arg points to. */
static inline void test_ranks_run(unsigned count, void (*fn)(const struct bn_ranks *ranks, void *arg),
                                  void *arg)
{
    struct test_ranks_room room = {
        .count = count, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    struct test_rank ranks[TEST_RANKS_MAX] = {0};
    for (unsigned i = 0; i < count; i++) {
        struct test_rank *r = &ranks[i];
        r->room = &room;
        r->fn = fn;
        r->arg = arg;
        r->ranks = (struct bn_ranks){.index = i,
                                     .count = count,
                                     .context = r,
                                     .traffic = &r->traffic,
                                     .gather = test_ranks_gather,
                                     .exchange = test_ranks_exchange,
                                     .broadcast = test_ranks_broadcast,
                                     .abort = test_ranks_abort};
        if (pthread_create(&r->thread, NULL, test_ranks_main, r) != 0) abort();
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(ranks[i].thread, NULL);
}

#endif
