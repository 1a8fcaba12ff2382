/* SPDX-License-Identifier: MIT
 *
 * Reads the energy counters of Linux powercap. A package is a folder with one colon in its name, intel-rapl:0
 * (also on AMD); its parts, intel-rapl:0:1, are included in it.
 */
#define _POSIX_C_SOURCE 200809L
#include "lab/host/energy.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/host/machine.h"

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
