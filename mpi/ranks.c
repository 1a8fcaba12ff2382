/* SPDX-License-Identifier: MIT
 *
 * Loads bn-mpi.so and makes the calls of struct bn_ranks from its messages. A call begins all of its messages, then
 * tests them until they are complete or the time limit is over; a waiting rank leaves its core to others.
 */
#define _GNU_SOURCE
#include "mpi/ranks.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "lab/kit/process.h"
#include "mpi/plugin.h"

#define CHUNK_BYTES ((size_t)256 << 20) /* the largest message */
#define YIELD_NS 10000000u              /* a rank that waits for longer sleeps between tests */

enum { BN_TAG_DATA = 1, BN_TAG_HEARTBEAT = 2 };

/* Bytes to and from a rank, a part of a call. */
struct bn_mpi_piece {
    unsigned peer;
    const char *send;
    char *receive;
    size_t n_send, n_receive;
};

struct bn_mpi_heartbeat {
    uint64_t silence_ns; /* 0: none */
    pthread_t thread;
    bool running;
    pthread_cond_t wake;
    bool ending; /* under the lock */
    int (*lost)(const bn_error *err);
};

struct bn_mpi {
    const struct bn_mpi_plugin *plugin;
    void *library;
    unsigned index, count;
    pthread_mutex_t lock;        /* of the plug-in */
    uint64_t timeout_ns;         /* 0: none */
    struct bn_mpi_piece *pieces; /* of a call; one for each rank */
    struct bn_ranks_traffic traffic;
    struct bn_mpi_heartbeat heartbeat;
};

/* ---- messages ---- */

static bn_status mpi_failed(struct bn_mpi *m, bn_error *err)
{
    char reason[BN_MPI_ERROR_BYTES] = "";
    m->plugin->reason(reason);
    return bn_fail(err, BN_ERR_NETWORK, "MPI: %s", reason);
}

/* Slot 2 i receives piece i, slot 2 i + 1 sends it. */
static bool begin_piece(struct bn_mpi *m, unsigned i, size_t at)
{
    const struct bn_mpi_piece *p = &m->pieces[i];
    size_t n_send = p->n_send > at ? bn_min_size(p->n_send - at, CHUNK_BYTES) : 0;
    size_t n_receive = p->n_receive > at ? bn_min_size(p->n_receive - at, CHUNK_BYTES) : 0;
    if (n_receive > 0 &&
        m->plugin->receive(2 * i, p->peer, BN_TAG_DATA, p->receive + at, (int)n_receive) != 0)
        return false;
    if (n_send > 0 && m->plugin->send(2 * i + 1, p->peer, BN_TAG_DATA, p->send + at, (int)n_send) != 0)
        return false;
    m->traffic.bytes_sent += n_send;
    m->traffic.bytes_received += n_receive;
    m->traffic.messages_sent += n_send > 0;
    return true;
}

static bn_status too_late(struct bn_mpi *m, unsigned n_pieces, bn_error *err)
{
    unsigned i = 0;
    while (i + 1 < n_pieces && m->plugin->test(2 * i, 2) == 1)
        i++;
    return bn_hint(
        bn_fail(err, BN_ERR_NETWORK, "rank %u is alive, but did not come to its next exchange in %u seconds",
                m->pieces[i].peer, (unsigned)(m->timeout_ns / 1000000000u)),
        err, "BN_RANK_TIMEOUT=%u gives it more time", (unsigned)(m->timeout_ns / 1000000000u) * 10);
}

/* Between two tests. */
static void rest(uint64_t waited_ns)
{
    const struct timespec nap = {.tv_nsec = 20000};
    if (waited_ns < YIELD_NS)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

static bn_status wait_pieces(struct bn_mpi *m, unsigned n_pieces, bn_error *err)
{
    const uint64_t begin = bn_clock_ns();
    for (;;) {
        pthread_mutex_lock(&m->lock);
        int done = m->plugin->test(0, 2 * n_pieces);
        uint64_t waited = done == 0 ? bn_clock_ns() - begin : 0;
        bn_status status = BN_OK;
        if (done < 0) status = mpi_failed(m, err);
        if (m->timeout_ns != 0 && waited > m->timeout_ns) status = too_late(m, n_pieces, err);
        pthread_mutex_unlock(&m->lock);
        if (done != 0 || status != BN_OK) return status;
        rest(waited);
    }
}

/* Moves m->pieces. */
static bn_status transfer(struct bn_mpi *m, unsigned n_pieces, bn_error *err)
{
    const uint64_t begin = bn_clock_ns();
    size_t most = 0;
    bn_status status = BN_OK;
    for (unsigned i = 0; i < n_pieces; i++) {
        const struct bn_mpi_piece *p = &m->pieces[i];
        most = p->n_send > most ? p->n_send : most;
        most = p->n_receive > most ? p->n_receive : most;
    }
    for (size_t at = 0; at < most && status == BN_OK; at += CHUNK_BYTES) {
        pthread_mutex_lock(&m->lock);
        for (unsigned i = 0; i < n_pieces && status == BN_OK; i++)
            if (!begin_piece(m, i, at)) status = mpi_failed(m, err);
        pthread_mutex_unlock(&m->lock);
        if (status == BN_OK) status = wait_pieces(m, n_pieces, err);
    }
    m->traffic.ns += bn_clock_ns() - begin;
    return status;
}

/* ---- the calls ---- */

static bn_status gather(void *context, void *data, const size_t *edges, bn_error *err)
{
    struct bn_mpi *m = context;
    char *bytes = data;
    unsigned n = 0;
    for (unsigned i = 0; i < m->count; i++)
        if (i != m->index)
            m->pieces[n++] =
                (struct bn_mpi_piece){i, bytes + edges[m->index], bytes + edges[i],
                                      edges[m->index + 1] - edges[m->index], edges[i + 1] - edges[i]};
    return transfer(m, n, err);
}

static bn_status exchange(void *context, unsigned peer, const void *send, void *receive, size_t n,
                          bn_error *err)
{
    struct bn_mpi *m = context;
    m->pieces[0] = (struct bn_mpi_piece){peer, send, receive, n, n};
    return transfer(m, 1, err);
}

/* A binomial tree: counted from the root, rank v receives from v without its lowest bit that is set, and sends to v plus
 * each lower bit. */
static bn_status broadcast(void *context, unsigned root, void *data, size_t n, bn_error *err)
{
    struct bn_mpi *m = context;
    unsigned v = (m->index + m->count - root) % m->count, bit = 1, n_pieces = 0;
    while (bit < m->count && (v & bit) == 0)
        bit *= 2;
    if (v != 0) {
        m->pieces[0] =
            (struct bn_mpi_piece){.peer = (v - bit + root) % m->count, .receive = data, .n_receive = n};
        BN_TRY(transfer(m, 1, err));
    }
    while ((bit /= 2) > 0)
        if (v + bit < m->count)
            m->pieces[n_pieces++] =
                (struct bn_mpi_piece){.peer = (v + bit + root) % m->count, .send = data, .n_send = n};
    return transfer(m, n_pieces, err);
}

static void end_all(void *context, int code)
{
    struct bn_mpi *m = context;
    pthread_mutex_lock(&m->lock);
    m->plugin->end_all(code);
    _Exit(code);
}

/* ---- heartbeats ----
 *
 * Each rank sends one to the next rank twice a second and listens to the one before. A stopped process
 * sends none, a busy one does, since a thread of its own sends them. */

#define PERIOD_NS 500000000u

enum { BEAT = 1, GOODBYE = 2 };

struct beats {
    struct bn_mpi *m;
    unsigned next, previous, receive_slot, send_slot;
    unsigned char sent, received;
    bool said_goodbye, heard_goodbye;
    uint64_t heard_ns, looked_ns;
};

/* Takes what has come. False when MPI failed. */
static bool listen_once(struct beats *b)
{
    const struct bn_mpi_plugin *p = b->m->plugin;
    while (!b->heard_goodbye) {
        int done = p->test(b->receive_slot, 1);
        if (done <= 0) return done == 0;
        b->heard_ns = bn_clock_ns();
        b->heard_goodbye = b->received == GOODBYE;
        if (!b->heard_goodbye &&
            p->receive(b->receive_slot, b->previous, BN_TAG_HEARTBEAT, &b->received, 1) != 0)
            return false;
    }
    return true;
}

/* Sends one, unless the last one is still under way. */
static bool send_once(struct beats *b)
{
    const struct bn_mpi_plugin *p = b->m->plugin;
    int done = p->test(b->send_slot, 1);
    if (done <= 0 || b->said_goodbye) return done >= 0;
    b->sent = b->m->heartbeat.ending ? GOODBYE : BEAT;
    b->said_goodbye = b->m->heartbeat.ending;
    return p->send(b->send_slot, b->next, BN_TAG_HEARTBEAT, &b->sent, 1) == 0;
}

/* A process that was stopped itself, or suspended with its machine, does not judge others by that time. */
static bool is_silent(struct beats *b)
{
    uint64_t now = bn_clock_ns();
    if (now - b->looked_ns > 4 * (uint64_t)PERIOD_NS) b->heard_ns = now;
    b->looked_ns = now;
    return !b->heard_goodbye && now - b->heard_ns > b->m->heartbeat.silence_ns;
}

static void end_silent(const struct beats *b, bool silent)
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
                      .receive_slot = 2 * m->count,
                      .send_slot = 2 * m->count + 1,
                      .heard_ns = bn_clock_ns(),
                      .looked_ns = bn_clock_ns()};
    pthread_mutex_lock(&m->lock);
    bool ok = m->plugin->receive(b.receive_slot, b.previous, BN_TAG_HEARTBEAT, &b.received, 1) == 0;
    for (;;) {
        ok = ok && send_once(&b) && listen_once(&b);
        bool silent = is_silent(&b);
        if (!ok || silent) end_silent(&b, silent);
        if (b.said_goodbye && b.heard_goodbye && m->plugin->test(b.send_slot, 1) != 0) break;
        wait_period(m, m->heartbeat.ending);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

static bn_status begin_heartbeats(struct bn_mpi *m, bn_error *err)
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

/* When all ranks have come to their end. */
static void end_heartbeats(struct bn_mpi *m)
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

/* ---- opening ---- */

/* The first of these variables that is set, else 0. */
static unsigned told(const char *const names[3])
{
    for (size_t i = 0; i < 3; i++)
        if (getenv(names[i]) != NULL) return (unsigned)strtoul(getenv(names[i]), NULL, 10);
    return 0;
}

unsigned bn_ranks_told(void)
{
    return told((const char *const[]){"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"});
}

unsigned bn_ranks_told_index(void)
{
    return told((const char *const[]){"OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"});
}

static bn_status load(struct bn_mpi *m, bn_error *err)
{
    char path[PATH_MAX];
    if (!bn_program_near(path, "", "bn-mpi.so") && !bn_program_near(path, "../lib/bn/", "bn-mpi.so"))
        return bn_hint(bn_fail(err, BN_ERR_UNSUPPORTED,
                               "mpirun started this program, but bn-mpi.so is not installed with it"),
                       err, "install MPI (Debian: libopenmpi-dev) and build again");
    /* Open MPI's components look for its symbols globally. */
    m->library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (m->library == NULL)
        return bn_fail_in(err, BN_ERR_UNSUPPORTED, path, "the plug-in cannot be loaded: %s", dlerror());
    m->plugin = dlsym(m->library, BN_MPI_PLUGIN_SYMBOL);
    if (m->plugin == NULL || m->plugin->version != BN_MPI_PLUGIN_VERSION)
        return bn_fail_in(err, BN_ERR_UNSUPPORTED, path, "the plug-in is of version %u, expected %u",
                          m->plugin != NULL ? m->plugin->version : 0, BN_MPI_PLUGIN_VERSION);
    return BN_OK;
}

/* Seconds of a variable. */
static bn_status read_limit(uint64_t *ns, const char *name, unsigned preset, bn_error *err)
{
    const char *value = getenv(name);
    char *end;
    *ns = preset * UINT64_C(1000000000);
    if (value == NULL || value[0] == '\0') return BN_OK;
    unsigned long seconds = strtoul(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || seconds > 1000000)
        return bn_fail(err, BN_ERR_ARG, "%s is '%.40s', expected seconds, 0 to 1000000", name, value);
    *ns = seconds * UINT64_C(1000000000);
    return BN_OK;
}

static bn_status join(struct bn_mpi *m, bn_error *err)
{
    char reason[BN_MPI_ERROR_BYTES] = "";
    int threads = 0;
    BN_TRY(read_limit(&m->timeout_ns, "BN_RANK_TIMEOUT", 600, err));
    BN_TRY(read_limit(&m->heartbeat.silence_ns, "BN_RANK_SILENCE", 7, err));
    BN_TRY(load(m, err));
    if (m->plugin->start(&m->index, &m->count, &threads, reason) != 0)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "MPI does not start: %s", reason);
    BN_TRY(BN_NEW(m->pieces, m->count, err));
    if (threads == 0 || m->count == 1) m->heartbeat.silence_ns = 0;
    /* Other machines may have other variables. */
    BN_TRY(broadcast(m, 0, &m->timeout_ns, sizeof m->timeout_ns, err));
    BN_TRY(broadcast(m, 0, &m->heartbeat.silence_ns, sizeof m->heartbeat.silence_ns, err));
    return begin_heartbeats(m, err);
}

/* MPI cannot be loaded twice in one process, so the library stays. */
static void release(struct bn_mpi *m)
{
    pthread_mutex_destroy(&m->lock);
    bn_free(m->pieces);
    bn_free(m);
}

bn_status bn_ranks_open(struct bn_ranks *ranks, int (*lost)(const bn_error *err), bn_error *err)
{
    *ranks = (struct bn_ranks){.count = 1};
    unsigned count = bn_ranks_told();
    if (count == 1 || (count == 0 && getenv("PMIX_RANK") == NULL)) return BN_OK;
    struct bn_mpi *m = bn_alloc(1, sizeof *m);
    if (m == NULL) return bn_nomem(err);
    pthread_mutex_init(&m->lock, NULL);
    m->heartbeat.lost = lost;
    bn_status status = join(m, err);
    if (status != BN_OK) {
        release(m);
        return status;
    }
    *ranks = (struct bn_ranks){m->index, m->count, m, &m->traffic, gather, exchange, broadcast, end_all};
    return BN_OK;
}

void bn_ranks_close(struct bn_ranks *ranks)
{
    struct bn_mpi *m = ranks->context;
    bn_error ignored = {0};
    char received;
    if (m == NULL) return;
    /* The others may take long, but not without heartbeats. */
    m->timeout_ns = 0;
    for (unsigned i = 0; i + 1 < m->count; i++)
        m->pieces[i] = (struct bn_mpi_piece){i < m->index ? i : i + 1, "", &received, 1, 1};
    bn_status met = transfer(m, m->count - 1, &ignored);
    if (met == BN_OK) {
        end_heartbeats(m);
        m->plugin->finish();
        release(m);
    }
    *ranks = (struct bn_ranks){.count = 1};
}
