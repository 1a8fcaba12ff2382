/* SPDX-License-Identifier: MIT
 *
 * A temporary folder: TEST_IN(name, make_folder, remove_folder), or GROUP for one that all tests share.
 */
#ifndef BN_TESTS_UNIT_FOLDER_H
#define BN_TESTS_UNIT_FOLDER_H

#include <unistd.h>

#include "base/file.h"
#include "tests/unit/status.h"

static char folder[sizeof "/tmp/bn-test-XXXXXX"];

static inline int make_folder(__attribute__((unused)) void **state)
{
    strcpy(folder, "/tmp/bn-test-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static inline int remove_folder(__attribute__((unused)) void **state)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* A path in it, until the fourth call after this one. */
static inline char *below(const char *name)
{
    static char path[4][512];
    static unsigned i;
    char *out = path[i++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

static inline void write_text(const char *path, const char *text)
{
    must(bn_file_make_folders(path, NULL));
    must(bn_file_write_atomic(path, text, strlen(text), NULL));
}

#endif
