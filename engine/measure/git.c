/* SPDX-License-Identifier: MIT
 *
 * See git.h. The index is not refreshed on disk, so that a read-only tree can be read; libgit2's check of who
 * owns the folder stays on. With BN_NO_GIT (make GIT=0) nothing is known of any folder.
 */
#define _POSIX_C_SOURCE 200809L /* strnlen */
#include "measure/git.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/reserve.h"

#ifndef BN_NO_GIT
#include <git2.h>
#include <git2/sys/alloc.h>

#define MEMORY_TO_START ((size_t)1 << 20)

static void explain(struct bn_git *git, int code)
{
    const git_error *error = git_error_last();
    if (code == GIT_ENOTFOUND)
        snprintf(git->why, sizeof git->why, "not in a git repository");
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
    static const char *const PARTS[] = {"engine/", "kernels/", "tools/", "fixtures/"};
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

/* ---- memory of libgit2 1.5, which recurses without end, or follows NULL, when an allocation fails ---- */

static void *take(size_t n, const char *file, int line)
{
    (void)file, (void)line;
    return bn_reserve_alloc(n > 0 ? n : 1);
}

static void *take_array(size_t n, size_t each, const char *file, int line)
{
    uint64_t bytes;
    return bn_mul_ok(n, each, &bytes) ? take((size_t)bytes, file, line) : NULL;
}

static void *take_zeroed(size_t n, size_t each, const char *file, int line)
{
    void *p = take_array(n, each, file, line);
    return p != NULL ? memset(p, 0, n * each) : NULL;
}

static char *copy_bytes(const char *text, size_t n, const char *file, int line)
{
    char *copy = take(n + 1, file, line);
    if (copy == NULL) return NULL;
    copy[n] = '\0';
    return memcpy(copy, text, n);
}

static char *copy_text(const char *text, const char *file, int line)
{
    return copy_bytes(text, strlen(text), file, line);
}

static char *copy_start(const char *text, size_t n, const char *file, int line)
{
    return copy_bytes(text, strnlen(text, n), file, line);
}

static void *retake(void *p, size_t n, const char *file, int line)
{
    (void)file, (void)line;
    return bn_reserve_realloc(p, n > 0 ? n : 1);
}

static void *retake_array(void *p, size_t n, size_t each, const char *file, int line)
{
    uint64_t bytes;
    return bn_mul_ok(n, each, &bytes) ? retake(p, (size_t)bytes, file, line) : NULL;
}

/* The reserve is small: without memory to begin with, libgit2 is not asked. */
static bool start(void)
{
    static const git_allocator ALLOCATOR = {take,   take_zeroed,  copy_text,  copy_start,     copy_bytes,
                                            retake, retake_array, take_array, bn_reserve_free};
    void *spare = bn_alloc(MEMORY_TO_START, 1);
    bn_free(spare);
    return spare != NULL && git_libgit2_opts(GIT_OPT_SET_ALLOCATOR, &ALLOCATOR) == 0 &&
           git_libgit2_init() >= 0;
}

/* ---- reading ---- */

void bn_git_read(struct bn_git *git, const char *folder)
{
    *git = (struct bn_git){0};
    if (!start()) {
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
        explain(git, code);
    }
    git_repository_free(repo);
    git_libgit2_shutdown();
}

/* Takes the text of the note that is there, if any, to put the line behind it. */
static int append_note(git_repository *repo, const char *ref, const git_oid *commit, const char *line)
{
    git_note *note = NULL;
    git_signature *who = NULL;
    git_oid id;
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    int code = git_note_read(&note, repo, ref, commit);
    if (code == 0) bn_buf_puts(&text, git_note_message(note));
    if (text.len > 0 && text.data[text.len - 1] != '\n') bn_buf_putc(&text, '\n');
    bn_buf_puts(&text, line);
    bn_buf_putc(&text, '\n');
    git_note_free(note);
    if (code == GIT_ENOTFOUND) code = 0;
    if (code == 0 && text.failed) code = GIT_ERROR;
    /* Who writes is configured, or it is the program itself. */
    if (code == 0 && git_signature_default(&who, repo) != 0)
        code = git_signature_now(&who, "bn-bench", "bn-bench@localhost");
    if (code == 0) code = git_note_create(&id, repo, ref, who, who, commit, text.data, 1);
    git_signature_free(who);
    bn_buf_release(&text);
    return code;
}

bn_status bn_git_note(const char *folder, const char *name, const char *commit, const char *line,
                      bn_error *err)
{
    struct bn_git why = {0};
    char ref[128];
    git_oid id;
    git_commit *found = NULL;
    git_repository *repo = NULL;
    snprintf(ref, sizeof ref, "refs/notes/%s", name);
    if (!start()) return bn_fail(err, BN_ERR_INTERNAL, "libgit2 does not start");
    int code = git_repository_open_ext(&repo, folder, 0, NULL);
    if (code == 0) code = git_oid_fromstr(&id, commit);
    if (code == 0) code = git_commit_lookup(&found, repo, &id);
    bool missing = repo != NULL && code != 0;
    if (code == 0) code = append_note(repo, ref, &id, line);
    bn_status status = BN_OK;
    if (missing) {
        status = bn_fail(err, BN_ERR_NOT_FOUND, "no commit '%.64s' to put a note on", commit);
    } else if (code != 0) {
        explain(&why, code);
        status = bn_fail(err, repo == NULL ? BN_ERR_NOT_FOUND : BN_ERR_IO, "no note: %s", why.why);
    }
    git_commit_free(found);
    git_repository_free(repo);
    git_libgit2_shutdown();
    return status;
}

#else

bn_status bn_git_note(const char *folder, const char *name, const char *commit, const char *line,
                      bn_error *err)
{
    (void)folder, (void)name, (void)commit, (void)line;
    return bn_fail(err, BN_ERR_UNSUPPORTED, "built without libgit2: no notes");
}

void bn_git_read(struct bn_git *git, const char *folder)
{
    (void)folder;
    *git = (struct bn_git){.why = "built without libgit2"};
}

#endif

void bn_git_put(bn_json *object, const struct bn_git *git)
{
    bn_json_put_string(object, "commit", git->commit[0] == '\0' ? NULL : git->commit);
    bn_json_put_string(object, "branch", git->branch[0] == '\0' ? NULL : git->branch);
    if (git->known) {
        bn_json_put_bool(object, "dirty", git->dirty);
        bn_json_put_u64(object, "changed_files", git->n_changed);
    } else {
        bn_json_put_null(object, "dirty");
        bn_json_put_null(object, "changed_files");
    }
}
