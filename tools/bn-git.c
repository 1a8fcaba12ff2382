/* SPDX-License-Identifier: MIT
 *
 * bn-git: show the git stamp that receipts, measurements and baselines carry. The other programs run it, so
 * that none of them links libgit2.
 */
#include <stdio.h>

#include "base/error.h"
#include "tools/cli/options.h"
#include "tools/cli/programs.h"
#include "tools/cli/report.h"
#include "tools/git/repository.h"

static bn_status print_json(const struct bn_git *git, bn_error *err)
{
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", BN_GIT_SCHEMA);
    bn_json_put_bool(doc, "known", git->known);
    bn_git_put(doc, git);
    bn_json_put_u64(doc, "changed_sources", git->n_relevant);
    bn_json_put_text(doc, "why", git->why);
    return bn_cli_flush_json(doc, false, err);
}

static bn_status show(struct bn_args *args, bn_error *err)
{
    struct bn_git git;
    const char *folder = args->n_operands > 0 ? args->operands[0] : ".";
    bn_repository_read(&git, folder);
    if (args->json) {
        if (!git.known) args->exit_code = BN_EXIT_NOT_FOUND;
        return print_json(&git, err);
    }
    if (!git.known) {
        bn_fail(err, BN_ERR_NOT_FOUND, "%s", git.why);
        bn_error_name(err, folder);
        return BN_ERR_NOT_FOUND;
    }
    printf("commit   %s\n", git.commit[0] == '\0' ? "none yet" : git.commit);
    printf("branch   %s\n", git.branch[0] == '\0' ? "none (detached)" : git.branch);
    printf("changes  %llu file%s, %llu of them source%s\n", (unsigned long long)git.n_changed,
           git.n_changed == 1 ? "" : "s", (unsigned long long)git.n_relevant, git.n_relevant == 1 ? "" : "s");
    return BN_OK;
}

static const struct bn_command COMMANDS[] = {
    {.name = "",
     .summary = BN_SUMMARY_GIT,
     .synopsis = "[DIR]",
     .json = true,
     .max_operands = 1,
     .operand = "DIR",
     .run = show,
     .divides = true, /* for the rank that stamps its results */
     .examples = {{"bn git", "commit, branch and changes of the current directory"},
                  {"bn git --json ~/src/bn", "the same of another repository, as JSON"}}},
    {0},
};

int main(int argc, char **argv)
{
    static const struct bn_program program = {
        .name = "bn-git",
        .summary = BN_SUMMARY_GIT,
        .text = "Prints the commit and the branch of a repository, and how many files differ from the commit "
                "(untracked files count, ignored ones do not). The other programs run bn-git to stamp what "
                "they write. It only reads: no hook, filter or fsmonitor of the repository is run.",
        .commands = COMMANDS,
        .exits = {{"3", "not in a git repository, or one that cannot be read"}},
    };
    return bn_cli_main(&program, argc, argv);
}
