/* SPDX-License-Identifier: MIT
 *
 * Runs a fuzz target over files, without a fuzzer: for compilers that have none, and for `make check`.
 * Arguments are files or folders; without any, the fixtures and tests/fuzz/seeds/<target>. One TAP line at
 * the end.
 */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tests/fuzz/fuzz.h"

static unsigned n_inputs;

static void replay_file(const char *path)
{
    struct bn_file_map map;
    bn_error err = {0};
    if (bn_file_map_open(&map, path, true, &err) != BN_OK) {
        printf("not ok - %s: %s\n", path, err.msg);
        return;
    }
    LLVMFuzzerTestOneInput(map.data, map.n_bytes);
    bn_file_map_close(&map);
    n_inputs++;
}

static void replay(const char *path, unsigned depth)
{
    struct stat st;
    if (stat(path, &st) != 0) return;
    if (!S_ISDIR(st.st_mode)) {
        replay_file(path);
        return;
    }
    DIR *dir = depth < 4 ? opendir(path) : NULL;
    if (dir == NULL) return;
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        char below[4096];
        if (e->d_name[0] == '.') continue;
        int n = snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        if (n > 0 && (size_t)n < sizeof below) replay(below, depth + 1);
    }
    closedir(dir);
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/');
    name = name != NULL ? name + 1 : argv[0];
    if (strncmp(name, "replay_", 7) == 0) name += 7;
    char seeds[256];
    snprintf(seeds, sizeof seeds, "tests/fuzz/seeds/%s", name);
    for (int i = 1; i < argc; i++)
        replay(argv[i], 0);
    if (argc == 1) {
        replay("fixtures", 0);
        replay(seeds, 0);
    }
    printf("%sok 1 - fuzz target %s survives %u inputs\n", n_inputs > 0 ? "" : "not ", name, n_inputs);
    return n_inputs > 0 ? 0 : 1;
}
