/* SPDX-License-Identifier: MIT
 *
 * See repository.h. The index is not refreshed on disk, so that a read-only tree can be read; libgit2's check
 * of who owns the folder stays on. With BN_NO_GIT (make GIT=0) nothing is known of any folder.
 */
#include "tools/git/repository.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef BN_NO_GIT
#include <git2.h>

static void explain(struct bn_git *git, const char *folder, int code)
{
    const git_error *error = git_error_last();
    if (code == GIT_ENOTFOUND)
        snprintf(git->why, sizeof git->why, "%s",
                 access(folder, F_OK) == 0 ? "not in a git repository" : "no such file or directory");
    else if (code == GIT_EOWNER)
        snprintf(git->why, sizeof git->why,
                 "the repository belongs to someone else (git config safe.directory)");
    else
        snprintf(git->why, sizeof git->why, "%s", error == NULL ? "git error" : error->message);
}

/* Commit and branch; a repository without a commit has neither. */
static void read_head(struct bn_git *git, git_repository *repo)
{
    git_oid id;
    git_reference *head = NULL;
    if (git_reference_name_to_id(&id, repo, "HEAD") == 0) git_oid_tostr(git->commit, sizeof git->commit, &id);
    if (git_repository_head(&head, repo) == 0 && git_reference_is_branch(head))
        snprintf(git->branch, sizeof git->branch, "%s", git_reference_shorthand(head));
    git_reference_free(head);
}

/* Whether programs are made of this file: other ones (documents, stored baselines) change no measurement. */
static bool is_relevant(const char *path)
{
    static const char *const PARTS[] = {"engine/", "kernels/", "lab/", "hub/", "tools/", "fixtures/"};
    for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++)
        if (strncmp(path, PARTS[i], strlen(PARTS[i])) == 0) return true;
    return strcmp(path, "Makefile") == 0;
}

static bool is_relevant_change(const git_status_entry *entry)
{
    const git_diff_delta *deltas[] = {entry->head_to_index, entry->index_to_workdir};
    for (size_t i = 0; i < BN_ARRAY_LEN(deltas); i++)
        if (deltas[i] != NULL &&
            (is_relevant(deltas[i]->old_file.path) || is_relevant(deltas[i]->new_file.path)))
            return true;
    return false;
}

static int count_changes(struct bn_git *git, git_repository *repo)
{
    git_status_options options;
    git_status_list *list = NULL;
    int code = git_status_options_init(&options, GIT_STATUS_OPTIONS_VERSION);
    if (code != 0) return code;
    options.show = GIT_STATUS_SHOW_INDEX_AND_WORKDIR;
    options.flags = GIT_STATUS_OPT_INCLUDE_UNTRACKED | GIT_STATUS_OPT_RECURSE_UNTRACKED_DIRS |
                    GIT_STATUS_OPT_EXCLUDE_SUBMODULES | GIT_STATUS_OPT_NO_REFRESH;
    code = git_status_list_new(&list, repo, &options);
    if (code == 0) git->n_changed = git_status_list_entrycount(list);
    for (size_t i = 0; i < git->n_changed; i++)
        if (is_relevant_change(git_status_byindex(list, i))) git->n_relevant++;
    git_status_list_free(list);
    return code;
}

void bn_repository_read(struct bn_git *git, const char *folder)
{
    *git = (struct bn_git){0};
    if (git_libgit2_init() < 0) {
        snprintf(git->why, sizeof git->why, "libgit2 does not start");
        return;
    }
    git_repository *repo = NULL;
    int code = git_repository_open_ext(&repo, folder, 0, NULL);
    if (code == 0 && !git_repository_is_bare(repo)) code = count_changes(git, repo);
    if (code == 0) {
        git->known = true;
        git->dirty = git->n_changed > 0;
        read_head(git, repo);
    } else {
        explain(git, folder, code);
    }
    git_repository_free(repo);
    git_libgit2_shutdown();
}

#else

void bn_repository_read(struct bn_git *git, const char *folder)
{
    (void)folder;
    *git = (struct bn_git){.why = "built without libgit2"};
}

#endif
