/* SPDX-License-Identifier: MIT
 *
 * Measures read bandwidth with the widest loop of this processor (kernels/peak.h): loads of 16 bytes are
 * enough for memory, but not for a cache.
 */
#include "lab/host/bandwidth.h"

#include <string.h>

#include "base/clock.h"
#include "base/team.h"
#include "kernels/peak.h"

#define MIN_BYTES ((size_t)16 << 10)
#define TURN_BYTES ((size_t)4 << 20) /* read at least, so that starting the threads takes a small share */
#define SUM_GAP 16u                  /* sums of two threads are on different cache lines */

struct probe {
    uint64_t (*read)(const void *data, size_t n_bytes);
    const unsigned char *data;
    size_t n_bytes, passes;
    uint64_t *sums; /* one per thread, so that the reads are not optimised away */
};

static void read_share(void *arg, unsigned thread, unsigned n_threads)
{
    struct probe *p = arg;
    size_t from, to;
    bn_team_share(p->n_bytes, BN_PEAK_READ, thread, n_threads, &from, &to);
    for (size_t i = 0; i < p->passes; i++)
        p->sums[(size_t)thread * SUM_GAP] += p->read(p->data + from, to - from);
}

uint64_t bn_bandwidth_probe(size_t n_bytes, unsigned n_threads, uint64_t budget_ns)
{
    if (n_bytes < MIN_BYTES) n_bytes = MIN_BYTES;
    if (n_bytes > BN_BANDWIDTH_MAX_BYTES) n_bytes = BN_BANDWIDTH_MAX_BYTES;
    if (n_threads == 0) n_threads = bn_team_cores();
    n_bytes = n_bytes / BN_PEAK_READ * BN_PEAK_READ;
    unsigned char *data = bn_alloc_aligned(n_bytes, 1);
    size_t passes = n_bytes < TURN_BYTES ? TURN_BYTES / n_bytes : 1;
    struct probe probe = {bn_peak_of(bn_kernels_find("auto"))->read, data, n_bytes, passes,
                          bn_alloc_aligned(n_threads, SUM_GAP * sizeof(uint64_t))};
    struct bn_team *team = bn_team_open(n_threads, true);
    uint64_t best = 0, start = bn_clock_ns(), now = start;
    if (data != NULL && probe.sums != NULL && team != NULL) {
        memset(data, 1, n_bytes); /* allocates every page */
        bn_team_run(team, read_share, &probe);
        for (unsigned turn = 0; turn < 3 || now - start < budget_ns; turn++) {
            uint64_t before = bn_clock_ns();
            /* Every other turn one thread alone: two that share a core wait for each other. */
            if (turn % 2 == 0)
                bn_team_run(team, read_share, &probe);
            else
                read_share(&probe, 0, 1);
            now = bn_clock_ns();
            double rate = (double)(n_bytes * passes) * 1e9 / (double)(now > before ? now - before : 1);
            if (rate > (double)best) best = (uint64_t)rate;
        }
    }
    bn_team_close(team);
    bn_free(data);
    bn_free(probe.sums);
    return best;
}
