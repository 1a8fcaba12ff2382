/* SPDX-License-Identifier: MIT
 *
 * Which commit a folder is at: the stamp of receipts, measurements and baselines. It is read by the program
 * bn-git, so that programs that open models do not link libgit2.
 */
#ifndef BN_HOST_GIT_H
#define BN_HOST_GIT_H

#include "base/json.h"

#define BN_GIT_SCHEMA "bn.git/1" /* of the document that bn-git prints */

/* Texts are empty without a repository, before the first commit, or with a detached head. */
struct bn_git {
    bool known; /* the folder is in a repository that could be read */
    char commit[65];
    char branch[256];
    bool dirty;         /* n_changed > 0 */
    uint64_t n_changed; /* files that differ from the commit: changed, added, deleted, untracked; ignored ones
                           and submodules do not count */
    uint64_t n_relevant; /* of these, files that programs are built from: sources, fixtures, Makefile */
    char why[160];       /* why it is unknown */
};

/* Runs bn-git on the repository that holds folder. Never fails: facts that cannot be read are unknown, with
 * the reason in why. */
void bn_git_read(struct bn_git *git, const char *folder);
/* Reads the working folder now; later bn_git_read gives this: for programs that cannot start others any more. */
void bn_git_keep(void);
/* Puts commit, branch, dirty, changed_files into an object, null where unknown. */
void bn_git_put(bn_json *object, const struct bn_git *git);

#endif
