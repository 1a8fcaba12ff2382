/* SPDX-License-Identifier: MIT
 *
 * Runs bn-git, which is searched next to the running program, then in PATH, and reads its document.
 */
#include "lab/host/git.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "lab/kit/process.h"
#include "lab/kit/put_counts.h"

#define TIMEOUT_NS 60000000000u
#define MAX_BYTES 65536u

static bn_status parse(struct bn_git *git, const struct bn_buf *text, bn_error *err)
{
    bn_json *doc = NULL;
    BN_TRY(bn_json_parse(&doc, text->data, text->len, err));
    if (!bn_json_text_is(doc, "schema", BN_GIT_SCHEMA) ||
        !bn_json_bool(bn_json_get(doc, "known"), &git->known)) {
        bn_json_free(doc);
        return bn_fail(err, BN_ERR_FORMAT, "bn-git printed another document than " BN_GIT_SCHEMA);
    }
    snprintf(git->commit, sizeof git->commit, "%s", bn_json_text_of(doc, "commit"));
    snprintf(git->branch, sizeof git->branch, "%s", bn_json_text_of(doc, "branch"));
    snprintf(git->why, sizeof git->why, "%s", bn_json_text_of(doc, "why"));
    (void)bn_json_u64(bn_json_get(doc, "changed_files"), &git->n_changed);
    (void)bn_json_u64(bn_json_get(doc, "changed_sources"), &git->n_relevant);
    git->dirty = git->n_changed > 0;
    bn_json_free(doc);
    return BN_OK;
}

static struct bn_git kept;
static bool is_kept;

void bn_git_keep(void)
{
    bn_git_read(&kept, ".");
    is_kept = true;
}

void bn_git_read(struct bn_git *git, const char *folder)
{
    char path[PATH_MAX];
    bool near = bn_program_near(path, "", "bn-git");
    const char *argv[] = {near ? path : "bn-git", "--json", "--", folder, NULL};
    struct bn_buf text = {.max = MAX_BYTES};
    struct bn_process_options options = {.argv = argv, .out = &text, .timeout_ns = TIMEOUT_NS};
    struct bn_process process;
    bn_error err = {0};
    bool known = is_kept && strcmp(folder, ".") == 0;
    *git = known ? kept : (struct bn_git){0};
    if (known) return;
    bn_status status = bn_process_run(&process, &options, &err);
    if (status == BN_OK && text.len == 0)
        status = bn_fail(&err, BN_ERR_IO, "bn-git printed nothing");
    else if (status == BN_OK)
        status = parse(git, &text, &err);
    if (status != BN_OK) {
        *git = (struct bn_git){0};
        snprintf(git->why, sizeof git->why, "%.*s", (int)sizeof git->why - 1, err.msg);
    }
    bn_buf_release(&text);
}

void bn_git_put(bn_json *object, const struct bn_git *git)
{
    BN_PUT(object, BN_TEXT("commit", git->commit), BN_TEXT("branch", git->branch));
    if (git->known) {
        BN_PUT(object, BN_FLAG("dirty", git->dirty), BN_U64("changed_files", git->n_changed));
    } else {
        bn_json_put_null(object, "dirty");
        bn_json_put_null(object, "changed_files");
    }
}
