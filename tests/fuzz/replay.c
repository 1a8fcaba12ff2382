/* SPDX-License-Identifier: MIT
 *
 * Runs a fuzz target over files, without a fuzzer: for compilers that have none, and for `make check`.
 * Arguments are files or folders; without any, the fixtures and tests/fuzz/seeds/<target>. One TAP line at
 * the end.
 */
#include "tests/fuzz/fuzz.h"

#include <ftw.h>

#include "base/file.h"

static unsigned n_inputs;

static int replay(const char *path, const struct stat *st, int type)
{
    struct bn_file_map map;
    (void)st;
    if (type != FTW_F) return 0;
    if (succeeds(bn_file_map_open(&map, path, true, &err))) {
        LLVMFuzzerTestOneInput(map.data, map.n_bytes);
        n_inputs++;
    } else {
        printf("not ok - %s: %s\n", path, err.msg);
    }
    bn_file_map_close(&map);
    return 0;
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/');
    name = name != NULL ? name + 1 : argv[0];
    if (strncmp(name, "replay_", 7) == 0) name += 7;
    char seeds[256];
    snprintf(seeds, sizeof seeds, "tests/fuzz/seeds/%s", name);
    for (int i = 1; i < argc; i++)
        (void)ftw(argv[i], replay, 16);
    if (argc == 1) {
        (void)ftw("fixtures", replay, 16);
        (void)ftw(seeds, replay, 16);
    }
    printf("%sok 1 - fuzz target %s survives %u inputs\n", n_inputs > 0 ? "" : "not ", name, n_inputs);
    return n_inputs > 0 ? 0 : 1;
}
