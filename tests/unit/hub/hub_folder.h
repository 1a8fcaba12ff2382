/* SPDX-License-Identifier: MIT
 *
 * A folder for each test of the hub, removed at its end.
 */
#ifndef BN_TESTS_HUB_FOLDER_H
#define BN_TESTS_HUB_FOLDER_H

#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "hub/cache/cache.h"
#include "hub/files/document.h"
#include "hub/names/names.h"
#include "hub/net/resolve.h"
#include "tests/unit/status.h"
#include "tools/download/download.h"

#define ONE "1111111111111111111111111111111111111111"
#define TWO "2222222222222222222222222222222222222222"
#define SHA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static char folder[64]; /* of this test, removed at its end */

static inline int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/bn-hub-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static inline const char *below(const char *name)
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
