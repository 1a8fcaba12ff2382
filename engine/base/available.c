/* SPDX-License-Identifier: MIT
 *
 * How much memory this process can still take: the least of what the system has (MemAvailable, which counts the page
 * cache as available), what its control groups of either version allow, and what the user allows.
 */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_ROOM 600u

static atomic_uint_fast64_t budget; /* of the whole process */

void bn_mem_set_budget(uint64_t n_bytes)
{
    atomic_store(&budget, n_bytes);
}

/* The number after the first `key` of a file; an empty key: the first number. False when it has none, as "max". */
static bool number_in(const char *path, const char *key, uint64_t *out)
{
    char line[256];
    bool found = false;
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        char *end, *at = line + strlen(key);
        if (strncmp(line, key, strlen(key)) != 0) continue;
        *out = strtoull(at, &end, 10);
        found = end != at;
    }
    fclose(file);
    return found;
}

/* What a control group leaves: its limit less its use, of which the page cache can be given back. */
static uint64_t left_in(const char *limit, const char *used, const char *stat, const char *cache)
{
    uint64_t most, now = 0, reclaimable = 0;
    if (!number_in(limit, "", &most) || !number_in(used, "", &now)) return UINT64_MAX;
    if (number_in(stat, cache, &reclaimable)) now = now > reclaimable ? now - reclaimable : 0;
    return most > now ? most - now : 0;
}

static uint64_t left_in_group(const char *folder, bool second)
{
    char limit[PATH_ROOM + 32], used[PATH_ROOM + 32], stat[PATH_ROOM + 32];
    snprintf(limit, sizeof limit, "%s/%s", folder, second ? "memory.max" : "memory.limit_in_bytes");
    snprintf(used, sizeof used, "%s/%s", folder, second ? "memory.current" : "memory.usage_in_bytes");
    snprintf(stat, sizeof stat, "%s/memory.stat", folder);
    return left_in(limit, used, stat, second ? "file " : "total_cache ");
}

/* A limit applies to all groups below. The lines are "0::/path" (version 2) and "4:memory:/path" (version 1). */
static uint64_t left_in_groups(void)
{
    char line[400], folder[PATH_ROOM];
    uint64_t least = UINT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        bool second = strncmp(line, "0::", 3) == 0;
        char *path = strstr(line, second ? "::" : ":memory:");
        if (path == NULL) continue;
        path = strchr(path + 1, ':') + 1;
        path[strcspn(path, "\n")] = '\0';
        for (char *end = path + strlen(path);; end--) {
            if (end > path && *end != '\0' && *end != '/') continue;
            *end = '\0';
            snprintf(folder, sizeof folder, "/sys/fs/cgroup%s%s", second ? "" : "/memory", path);
            uint64_t left = left_in_group(folder, second);
            if (left < least) least = left;
            if (end == path) break;
        }
    }
    if (file != NULL) fclose(file);
    return least;
}

uint64_t bn_mem_available(void)
{
    uint64_t least = left_in_groups(), system = 0, allowed = atomic_load(&budget);
    uint64_t own = bn_mem_stats().bytes_now;
    if (number_in("/proc/meminfo", "MemAvailable:", &system) && system * 1024 < least) least = system * 1024;
    if (allowed == 0) return least;
    uint64_t left = allowed > own ? allowed - own : 0;
    return left < least ? left : least;
}
