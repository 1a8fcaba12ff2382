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
 * A package is a folder with one colon in its name, intel-rapl:0 (also on AMD), whose file name says "package-0". Its parts,
 * intel-rapl:0:1, are included in it. Not counted: "psys", which includes the packages, and the same package in another
 * folder (intel-rapl-mmio:0). */

#define FOLDER "/sys/class/powercap"

const char *bn_energy_folder(void)
{
    const char *asked = getenv("BN_POWERCAP");
    return asked != NULL && asked[0] != '\0' ? asked : FOLDER;
}

struct package {
    char folder[64], name[32];
};

static bool read_line(const struct package *p, const char *name, char *out, size_t room)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s/%s", bn_energy_folder(), p->folder, name);
    return bn_machine_line(path, out, room);
}

static bool read_number(const struct package *p, const char *name, uint64_t *out)
{
    char text[32], *end;
    if (!read_line(p, name, text, sizeof text)) return false;
    *out = strtoull(text, &end, 10);
    return end != text;
}

static int descending(const void *a, const void *b)
{
    return -strcmp(a, b);
}

/* The packages, each once: intel-rapl:0 comes before intel-rapl-mmio:0. */
static size_t list_packages(struct package list[BN_ENERGY_ZONES], DIR *from)
{
    size_t n_folders = 0, n = 0;
    for (struct dirent *entry; n_folders < BN_ENERGY_ZONES && (entry = readdir(from)) != NULL;) {
        const char *colon = strchr(entry->d_name, ':');
        if (colon != NULL && strchr(colon + 1, ':') == NULL && strlen(entry->d_name) < sizeof list->folder)
            snprintf(list[n_folders++].folder, sizeof list->folder, "%s", entry->d_name);
    }
    if (n_folders > 0) qsort(list, n_folders, sizeof *list, descending); /* readdir has no order */
    for (size_t i = 0; i < n_folders; i++) {
        struct package p = list[i];
        bool counts = read_line(&p, "name", p.name, sizeof p.name) && strncmp(p.name, "package", 7) == 0;
        for (size_t k = 0; k < n; k++)
            counts = counts && strcmp(list[k].name, p.name) != 0;
        if (counts) list[n++] = p;
    }
    return n;
}

void bn_energy_read(struct bn_energy *out)
{
    struct package list[BN_ENERGY_ZONES];
    *out = (struct bn_energy){.why = "no powercap folder"};
    DIR *from = opendir(bn_energy_folder());
    if (from == NULL) return;
    size_t n = list_packages(list, from);
    closedir(from);
    snprintf(out->why, sizeof out->why, "no package has a counter");
    for (size_t i = 0; i < n; i++) {
        (void)read_number(&list[i], "max_energy_range_uj", &out->range[i]);
        errno = 0;
        if (read_number(&list[i], "energy_uj", &out->uj[i])) continue;
        if (errno == EACCES)
            snprintf(out->why, sizeof out->why,
                     "the counter of %s is readable by root only: sudo chmod a+r %.80s/*/energy_uj",
                     list[i].name, bn_energy_folder());
        return; /* the sum of the others would not be that of the machine */
    }
    out->n = n;
    if (n > 0) out->why[0] = '\0';
}

double bn_energy_since(const struct bn_energy *then, const struct bn_energy *now)
{
    uint64_t uj = 0;
    if (then->n == 0 || then->n != now->n) return (double)NAN;
    for (size_t i = 0; i < now->n; i++) {
        uint64_t a = then->uj[i], b = now->uj[i], range = now->range[i];
        if (range > 0 ? a > range || b > range : b < a) return (double)NAN;
        uj += b >= a ? b - a : range - a + b;
    }
    return (double)uj / 1e6;
}
