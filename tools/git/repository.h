/* SPDX-License-Identifier: MIT
 *
 * Reads a repository by libgit2; repository.c is the only file that includes it, and bn-git the only program
 * that links it. Others read the stamp by bn_git_read, which runs bn-git.
 */
#ifndef BN_GIT_REPOSITORY_H
#define BN_GIT_REPOSITORY_H

#include "lab/host/git.h"

/* Reads the repository that holds folder. Never fails: what cannot be read is not known, and why says so. */
void bn_repository_read(struct bn_git *git, const char *folder);

#endif
