/* SPDX-License-Identifier: MIT
 *
 * Heartbeats. Each rank sends one to the next rank twice a second and listens to the one before. A stopped process
 * sends none, a busy one does, since a thread of its own sends them.
 */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "mpi/link.h"

#define PERIOD_NS 500000000u

enum { BEAT = 1, GOODBYE = 2 };

struct beats {
    struct bn_mpi *m;
    unsigned next, previous;
    unsigned char sent, received;
    bool said_goodbye, heard_goodbye;
    uint64_t heard_ns, looked_ns;
};

static unsigned receive_slot(const struct bn_mpi *m)
{
    return 2 * m->count;
}
static unsigned send_slot(const struct bn_mpi *m)
{
    return 2 * m->count + 1;
}

/* Takes what has come. False when MPI failed. */
static bool listen_once(struct beats *b)
{
    const struct bn_mpi_plugin *p = b->m->plugin;
    while (!b->heard_goodbye) {
        int done = p->test(receive_slot(b->m), 1);
        if (done <= 0) return done == 0;
        b->heard_ns = bn_clock_ns();
        b->heard_goodbye = b->received == GOODBYE;
        if (!b->heard_goodbye &&
            p->receive(receive_slot(b->m), b->previous, BN_TAG_HEARTBEAT, &b->received, 1) != 0)
            return false;
    }
    return true;
}

/* Sends one, unless the last one is still under way. */
static bool send_once(struct beats *b)
{
    const struct bn_mpi_plugin *p = b->m->plugin;
    int done = p->test(send_slot(b->m), 1);
    if (done <= 0 || b->said_goodbye) return done >= 0;
    b->sent = b->m->heartbeat.ending ? GOODBYE : BEAT;
    b->said_goodbye = b->m->heartbeat.ending;
    return p->send(send_slot(b->m), b->next, BN_TAG_HEARTBEAT, &b->sent, 1) == 0;
}

/* A process that was stopped itself, or suspended with its machine, does not judge others by that time. */
static bool is_silent(struct beats *b)
{
    uint64_t now = bn_clock_ns();
    if (now - b->looked_ns > 4 * (uint64_t)PERIOD_NS) b->heard_ns = now;
    b->looked_ns = now;
    return !b->heard_goodbye && now - b->heard_ns > b->m->heartbeat.silence_ns;
}

static void end_all(const struct beats *b, bool silent)
{
    struct bn_mpi *m = b->m;
    bn_error err = {0};
    char reason[BN_MPI_ERROR_BYTES] = "";
    if (silent) {
        bn_fail(&err, BN_ERR_NETWORK, "rank %u does not answer: no heartbeat for %u seconds", b->previous,
                (unsigned)(m->heartbeat.silence_ns / 1000000000u));
        bn_error_hint(&err, "the process is stopped, or its machine is out of reach; BN_RANK_SILENCE=0 "
                            "turns this limit off");
    } else {
        m->plugin->reason(reason);
        bn_fail(&err, BN_ERR_NETWORK, "a heartbeat failed: %s", reason);
    }
    m->plugin->end_all(m->heartbeat.lost(&err));
}

static void wait_period(struct bn_mpi *m, bool ending)
{
    struct timespec until;
    uint64_t ns = ending ? 1000000u : PERIOD_NS;
    clock_gettime(CLOCK_MONOTONIC, &until);
    ns += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    if (ending || !m->heartbeat.ending) pthread_cond_timedwait(&m->heartbeat.wake, &m->lock, &until);
}

static void *heartbeat_main(void *arg)
{
    struct bn_mpi *m = arg;
    struct beats b = {.m = m,
                      .next = (m->index + 1) % m->count,
                      .previous = (m->index + m->count - 1) % m->count,
                      .heard_ns = bn_clock_ns(),
                      .looked_ns = bn_clock_ns()};
    pthread_mutex_lock(&m->lock);
    bool ok = m->plugin->receive(receive_slot(m), b.previous, BN_TAG_HEARTBEAT, &b.received, 1) == 0;
    for (;;) {
        ok = ok && send_once(&b) && listen_once(&b);
        bool silent = is_silent(&b);
        if (!ok || silent) end_all(&b, silent);
        if (b.said_goodbye && b.heard_goodbye && m->plugin->test(send_slot(m), 1) != 0) break;
        wait_period(m, m->heartbeat.ending);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

bn_status bn_mpi_heartbeat_begin(struct bn_mpi *m, bn_error *err)
{
    pthread_condattr_t attributes;
    if (m->heartbeat.silence_ns == 0) return BN_OK;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&m->heartbeat.wake, &attributes);
    pthread_condattr_destroy(&attributes);
    int code = pthread_create(&m->heartbeat.thread, NULL, heartbeat_main, m);
    if (code != 0) return bn_fail_errno(err, code, NULL, "the thread of heartbeats cannot start");
    m->heartbeat.running = true;
    return BN_OK;
}

void bn_mpi_heartbeat_end(struct bn_mpi *m)
{
    if (!m->heartbeat.running) return;
    pthread_mutex_lock(&m->lock);
    m->heartbeat.ending = true;
    pthread_cond_signal(&m->heartbeat.wake);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->heartbeat.thread, NULL);
    pthread_cond_destroy(&m->heartbeat.wake);
    m->heartbeat.running = false;
}
