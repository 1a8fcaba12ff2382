/* SPDX-License-Identifier: MIT
 *
 * See bandwidth.h. The loop is plain C with 16-byte vectors, which every target has; two loads of 16 bytes a
 * cycle are more than any memory delivers to one core.
 */
#include "measure/bandwidth.h"

#include <string.h>

#include "base/clock.h"
#include "base/team.h"

#define MIN_BYTES ((size_t)1 << 20)
#define MAX_BYTES ((size_t)256 << 20)
#define GRAIN 128u /* bytes that one turn of the loop reads */

typedef uint64_t lanes __attribute__((vector_size(16)));

struct probe {
    const unsigned char *data;
    size_t n_bytes;
    uint64_t *sums; /* one a thread, GRAIN bytes apart, so that the reads are not left out */
};

static void read_share(void *arg, unsigned thread, unsigned n_threads)
{
    struct probe *p = arg;
    size_t from, to;
    bn_team_share(p->n_bytes, GRAIN, thread, n_threads, &from, &to);
    lanes sum[4] = {{0}};
    for (size_t at = from; at + GRAIN <= to; at += GRAIN) {
        const lanes *v = (const lanes *)(const void *)(p->data + at);
        sum[0] += v[0] ^ v[4];
        sum[1] += v[1] ^ v[5];
        sum[2] += v[2] ^ v[6];
        sum[3] += v[3] ^ v[7];
    }
    lanes all = sum[0] + sum[1] + sum[2] + sum[3];
    p->sums[thread * (GRAIN / sizeof(uint64_t))] += all[0] + all[1];
}

uint64_t bn_bandwidth_probe(size_t n_bytes, unsigned n_threads, uint64_t budget_ns)
{
    if (n_bytes < MIN_BYTES) n_bytes = MIN_BYTES;
    if (n_bytes > MAX_BYTES) n_bytes = MAX_BYTES;
    if (n_threads == 0) n_threads = bn_team_cores();
    n_bytes = n_bytes / GRAIN * GRAIN;
    unsigned char *data = bn_alloc(n_bytes, 1);
    struct probe probe = {data, n_bytes, bn_alloc(n_threads, GRAIN)};
    uint64_t best = 0, start = bn_clock_ns(), now = start;
    if (data != NULL && probe.sums != NULL) {
        memset(data, 1, n_bytes); /* every page is there */
        bn_team_run(n_threads, read_share, &probe);
        for (unsigned turn = 0; turn < 3 || now - start < budget_ns; turn++) {
            uint64_t before = bn_clock_ns();
            /* Every other turn one thread alone: two that share a core wait for each other. */
            bn_team_run(turn % 2 == 0 ? n_threads : 1, read_share, &probe);
            now = bn_clock_ns();
            double rate = (double)n_bytes * 1e9 / (double)(now > before ? now - before : 1);
            if (rate > (double)best) best = (uint64_t)rate;
        }
    }
    bn_free(data);
    bn_free(probe.sums);
    return best;
}
