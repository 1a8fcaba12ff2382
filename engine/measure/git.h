/* SPDX-License-Identifier: MIT
 *
 * Which commit a folder stands at. The only file that includes libgit2 is git.c.
 */
#ifndef BN_MEASURE_GIT_H
#define BN_MEASURE_GIT_H

#include "base/json.h"

/* Texts are empty when there is no such thing: no repository, no commit yet, a detached head. */
struct bn_git {
    bool known; /* the folder lies in a repository that could be read */
    char commit[65];
    char branch[256];
    bool dirty;         /* n_changed > 0 */
    uint64_t n_changed; /* files that differ from the commit: changed, added, deleted, untracked; ignored ones
                           and submodules do not count */
    uint64_t
        n_relevant; /* of these, files that programs are made of: engine, kernels, tools, fixtures, Makefile
                     */
    char why[160];  /* why it is not known */
};

/* Looks at the repository that holds folder. Never fails: what cannot be read is not known, and why says so.
 */
void bn_git_read(struct bn_git *git, const char *folder);
/* Appends a line to the note that the commit has under refs/notes/NAME, in the repository that holds folder.
 * BN_ERR_NOT_FOUND without such a commit, BN_ERR_UNSUPPORTED when built without libgit2. */
BN_MUST_CHECK bn_status bn_git_note(const char *folder, const char *name, const char *commit,
                                    const char *line, bn_error *err);
/* Puts commit, branch, dirty, changed_files into an object, null where unknown. */
void bn_git_put(bn_json *object, const struct bn_git *git);

#endif
