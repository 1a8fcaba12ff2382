/* SPDX-License-Identifier: MIT
 *
 * Measures read bandwidth with the widest loop of this processor (kernels/peak.h): loads of 16 bytes are
 * enough for memory, but not for a cache. Measures clocks, and reads the energy counters of Linux powercap.
 */
#define _POSIX_C_SOURCE 200809L
#include "lab/host/meters.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/team.h"
#include "kernels/peak.h"
#include "lab/host/machine.h"

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

/* ---- clocks ---- */

#define ROUNDS 50u
#define READINGS 200u /* in a round */

void bn_clock_measure(struct bn_clock_facts *out, bn_clock_fn clock, void *arg, double ns_per_unit)
{
    uint64_t readings[READINGS], step = UINT64_MAX;
    *out = (struct bn_clock_facts){.n_readings = ROUNDS * READINGS, .cost_ns = HUGE_VAL};
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t start = bn_clock_ns();
        for (unsigned i = 0; i < READINGS; i++)
            readings[i] = clock != NULL ? clock(arg) : bn_clock_ns();
        double cost = (double)(bn_clock_ns() - start) / READINGS;
        if (cost < out->cost_ns) out->cost_ns = cost;
        for (unsigned i = 1; i < READINGS; i++) {
            if (readings[i] < readings[i - 1]) out->n_backward++;
            if (readings[i] > readings[i - 1] && readings[i] - readings[i - 1] < step)
                step = readings[i] - readings[i - 1];
        }
    }
    if (step != UINT64_MAX) out->resolution_ns = (double)step * ns_per_unit;
}

/* ---- energy ----
 *
 * A package is a folder with one colon in its name, intel-rapl:0 (also on AMD); its parts, intel-rapl:0:1, are included in it. */

static bool read_number(const char *root, const char *zone, const char *name, uint64_t *out)
{
    char path[1024], text[32], *end;
    snprintf(path, sizeof path, "%s/%s/%s", root, zone, name);
    if (!bn_machine_line(path, text, sizeof text)) return false;
    *out = strtoull(text, &end, 10);
    return end != text;
}

static bool is_package(const char *name)
{
    const char *colon = strchr(name, ':');
    return colon != NULL && strchr(colon + 1, ':') == NULL;
}

static int ascending(const void *a, const void *b)
{
    return strcmp(a, b);
}

void bn_energy_read(struct bn_energy *out, const char *root)
{
    char names[BN_ENERGY_ZONES][64];
    size_t n = 0;
    *out = (struct bn_energy){.why = "no powercap folder"};
    DIR *folder = opendir(root);
    if (folder == NULL) return;
    for (struct dirent *entry; n < BN_ENERGY_ZONES && (entry = readdir(folder)) != NULL;)
        if (is_package(entry->d_name) && strlen(entry->d_name) < sizeof names[0])
            snprintf(names[n++], sizeof names[0], "%s", entry->d_name);
    closedir(folder);
    qsort(names, n, sizeof names[0], ascending); /* readdir has no order */
    snprintf(out->why, sizeof out->why, "no package has a counter");
    for (size_t i = 0; i < n; i++) {
        errno = 0;
        if (read_number(root, names[i], "energy_uj", &out->uj[out->n]))
            out->n++;
        else if (errno == EACCES)
            snprintf(out->why, sizeof out->why, "the counters are readable by root only");
    }
    if (out->n > 0) out->why[0] = '\0';
}

double bn_energy_since(const struct bn_energy *then, const struct bn_energy *now)
{
    double joules = 0;
    if (then->n == 0 || then->n != now->n) return (double)NAN;
    for (size_t i = 0; i < now->n; i++) {
        if (now->uj[i] < then->uj[i]) return (double)NAN;
        joules += (double)(now->uj[i] - then->uj[i]) / 1e6;
    }
    return joules;
}
