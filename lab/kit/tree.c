/* SPDX-License-Identifier: MIT
 *
 * Walks a tree of files with fts(3), without following symbolic links and without changing the folder of the
 * process.
 */
#define _GNU_SOURCE
#include "lab/kit/tree.h"

#include <errno.h>
#include <fts.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"

bn_status bn_tree_remove(const char *folder, bn_error *err)
{
    char *roots[] = {(char *)(uintptr_t)folder, NULL};
    if (access(folder, F_OK) != 0 && errno == ENOENT) return BN_OK;
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    if (tree == NULL) return bn_fail_errno(err, errno, folder, "cannot open");
    bn_status status = BN_OK;
    for (FTSENT *e; status == BN_OK && (e = fts_read(tree)) != NULL;)
        if (e->fts_info != FTS_D && remove(e->fts_path) != 0)
            status = bn_fail_errno(err, errno, e->fts_path, "cannot remove");
    fts_close(tree);
    return status;
}
