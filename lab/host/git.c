/* SPDX-License-Identifier: MIT
 *
 * Runs bn-git, which is searched next to the running program, then in PATH, and reads its document.
 */
#include "lab/host/git.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "lab/kit/process.h"

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

void bn_git_read(struct bn_git *git, const char *folder)
{
    char path[PATH_MAX];
    bool near = bn_program_near(path, "", "bn-git");
    const char *argv[] = {near ? path : "bn-git", "--json", "--", folder, NULL};
    struct bn_buf text = {.max = MAX_BYTES};
    struct bn_process_options options = {.argv = argv, .out = &text, .timeout_ns = TIMEOUT_NS};
    struct bn_process process;
    bn_error err = {0};
    *git = (struct bn_git){0};
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
    bn_json_put_text(object, "commit", git->commit);
    bn_json_put_text(object, "branch", git->branch);
    if (git->known) {
        bn_json_put_bool(object, "dirty", git->dirty);
        bn_json_put_u64(object, "changed_files", git->n_changed);
    } else {
        bn_json_put_null(object, "dirty");
        bn_json_put_null(object, "changed_files");
    }
}
