/* SPDX-License-Identifier: MIT
 *
 * bn-crossval setup: obtains the source tree of an engine, builds it with its own cmake, builds the bridge with
 * it, checks the bridge, and remembers it. Each step is one line; its output is in a log. reference.json says
 * "ready" after the last step only, so an interrupted or failed setup is never used.
 */
#define _GNU_SOURCE
#include "tools/crossval/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/team.h"
#include "lab/compare/reference.h"
#include "lab/host/git.h"
#include "lab/kit/process.h"
#include "lab/kit/tree.h"
#include "tools/cli/report.h"
#include "tools/crossval/crossval.h"

#define MAX_ARGUMENTS 64u

const struct bn_option bn_crossval_setup_options[] = {
    BN_OPTION("source", "source tree: a folder, or URL@COMMIT of a git repository", .arg = "SOURCE",
              .group = "Source", BN_TO_TEXT(struct bn_setup_options, source)),
    BN_OPTION("sha256", "expected digest of the tree", .arg = "DIGEST", .group = "Source",
              BN_TO_TEXT(struct bn_setup_options, sha256)),
    BN_OPTION("name", "name for --ref [last part of the source]", .arg = "NAME", .group = "Source",
              BN_TO_TEXT(struct bn_setup_options, name)),
    BN_OPTION("cmake", "option for cmake, e.g. -DGGML_NATIVE=ON", .arg = "OPTION", .group = "Build",
              .repeatable = true, BN_TO_TEXTS(struct bn_setup_options, cmake)),
    BN_OPTION("target", "target of the tree to build", .arg = "TARGET", .group = "Build", .preset = "llama",
              BN_TO_TEXT(struct bn_setup_options, target)),
    BN_OPTION("jobs", "compilers that run at a time [one per usable core]", .letter = 'j', .arg = "N",
              .group = "Build", BN_TO_U32(struct bn_setup_options, n_jobs, 1, 1024)),
    BN_OPTION("force", "build again, and replace a reference of this name", .group = "Build",
              BN_TO_BOOL(struct bn_setup_options, force)),
    BN_OPTION("bridge", "folder with the source of another bridge", .rare = true, .arg = "DIR",
              .group = "Build", BN_TO_TEXT(struct bn_setup_options, bridge)),
    {0},
};

struct setup {
    const struct bn_setup_options *o;
    bool is_url;
    int lock;
    char root[PATH_MAX], bridge[PATH_MAX];
    struct bn_stored s;   /* what is being made */
    struct bn_stored old; /* of the same name; ready is false when there is none */
};

/* ---- the command line ---- */

static bool is_hex(const char *text, size_t n)
{
    return strlen(text) == n && strspn(text, "0123456789abcdef") == n;
}

static bn_status parse_source(struct setup *job, bn_error *err)
{
    const char *given = job->o->source, *at = given != NULL ? strrchr(given, '@') : NULL;
    struct stat st;
    if (given == NULL)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "no source tree is given"), err,
                       "--source DIR, or --source URL@COMMIT");
    if (stat(given, &st) == 0 && S_ISDIR(st.st_mode)) {
        struct bn_git git;
        if (realpath(given, job->s.tree) == NULL) return bn_fail_errno(err, errno, given, "cannot open");
        memcpy(job->s.source, job->s.tree, sizeof job->s.source);
        char dot_git[PATH_MAX];
        BN_TRY(bn_stored_join(dot_git, job->s.tree, ".git", err));
        if (access(dot_git, F_OK) != 0) return BN_OK;
        bn_git_read(&git, job->s.tree);
        if (!git.dirty) memcpy(job->s.commit, git.commit, sizeof job->s.commit);
        return BN_OK;
    }
    if (at == NULL && strstr(given, "://") == NULL)
        return bn_fail_in(err, BN_ERR_NOT_FOUND, given, "no such folder");
    if (at == NULL || at == given || given[0] == '-' || (!is_hex(at + 1, 40) && !is_hex(at + 1, 64)))
        return bn_hint(
            bn_fail_in(err, BN_ERR_ARG, given,
                       "the source is not URL@COMMIT with a commit of 40 or 64 hexadecimal digits"),
            err, "git ls-remote URL lists the commits of branches and tags");
    if ((size_t)(at - given) >= sizeof job->s.source)
        return bn_fail(err, BN_ERR_LIMIT, "the URL is too long");
    snprintf(job->s.source, sizeof job->s.source, "%.*s", (int)(at - given), given);
    snprintf(job->s.commit, sizeof job->s.commit, "%s", at + 1);
    job->is_url = true;
    return BN_OK;
}

static bn_status choose_name(struct setup *job, bn_error *err)
{
    static const char ALLOWED[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *from = job->o->name != NULL ? job->o->name : job->s.source;
    size_t n = strlen(from);
    while (job->o->name == NULL && n > 0 && from[n - 1] == '/')
        n--;
    if (job->o->name == NULL && n > 4 && strncmp(from + n - 4, ".git", 4) == 0) n -= 4;
    size_t begin = n;
    while (job->o->name == NULL && begin > 0 && strchr("/:", from[begin - 1]) == NULL)
        begin--;
    if (job->o->name != NULL) begin = 0;
    size_t length = n - begin;
    snprintf(job->s.name, sizeof job->s.name, "%.*s", (int)bn_min_size(length, BN_STORED_NAME_MAX),
             from + begin);
    const char *name = job->s.name;
    if (length > 0 && length <= BN_STORED_NAME_MAX && strspn(name, ALLOWED) == length && name[0] != '.' &&
        name[0] != '-' && strcmp(name, "oracle") != 0 && strcmp(name, "bn") != 0)
        return BN_OK;
    return bn_hint(bn_fail(err, BN_ERR_ARG, "'%s' cannot be the name of a reference", name), err,
                   "--name NAME: letters, digits, '.', '_' and '-', at most %u; not oracle or bn",
                   BN_STORED_NAME_MAX);
}

static bn_status write_recipe(struct setup *job, bn_error *err)
{
    struct bn_buf text = {.max = sizeof job->s.recipe - 1};
    bn_buf_puts(&text, job->o->target);
    for (size_t i = 0; i < job->o->cmake.n; i++)
        bn_buf_printf(&text, " %s", job->o->cmake.list[i]);
    bn_status status = bn_buf_check(&text, err);
    if (status == BN_OK) memcpy(job->s.recipe, text.data, text.len + 1);
    bn_buf_release(&text);
    if (job->o->cmake.n + 20 > MAX_ARGUMENTS) return bn_fail(err, BN_ERR_LIMIT, "too many options for cmake");
    return status;
}

static bn_status open_root(struct setup *job, bn_error *err)
{
    char path[PATH_MAX];
    BN_TRY(bn_stored_root(job->root, err));
    BN_TRY(bn_stored_join(path, job->root, ".lock", err));
    /* make cannot handle such paths */
    if (strpbrk(job->root, " \t\n'\"$#:;=\\%") != NULL || strpbrk(job->s.tree, " \t\n'\"$#:;=\\%") != NULL)
        return bn_hint(bn_fail_in(err, BN_ERR_ARG, job->s.tree[0] != '\0' ? job->s.tree : job->root,
                                  "the path of the cache or of the tree has a character that make cannot "
                                  "handle, such as a space"),
                       err, "set XDG_CACHE_HOME to another folder, or move the tree");
    BN_TRY(bn_file_make_folders(path, err));
    job->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (job->lock < 0) return bn_fail_errno(err, errno, path, "cannot open");
    if (flock(job->lock, LOCK_EX | LOCK_NB) == 0) return BN_OK;
    return bn_fail_in(err, BN_ERR_IO, path, "another bn-crossval setup is running");
}

/* ---- steps ---- */

static bool is_cancelled(void)
{
    return bn_cli_interrupted() != 0;
}

static void begin_step(const char *step)
{
    printf("%-11s", step);
    fflush(stdout);
}

/* Runs argv with its output in <folder>/<step>.log. */
static bn_status run_step(const char *folder, const char *step, bn_status failure, const char *const *argv,
                          bn_error *err)
{
    char log[PATH_MAX], name[32], how[80];
    const char *full[MAX_ARGUMENTS + 8] = {"/bin/sh", "-c", "log=$1; shift; exec \"$@\" >>\"$log\" 2>&1",
                                           "sh", log};
    const char *program = strcmp(argv[0], "sh") != 0 ? argv[0] : "git"; /* the only script runs git */
    size_t n = 5;
    for (size_t i = 0; argv[i] != NULL && n + 1 < BN_ARRAY_LEN(full); i++)
        full[n++] = argv[i];
    snprintf(name, sizeof name, "%s.log", step);
    BN_TRY(bn_stored_join(log, folder, name, err));
    struct bn_process_options options = {.argv = full, .cancelled = is_cancelled};
    struct bn_process process;
    begin_step(step);
    bn_status status = bn_process_run(&process, &options, err);
    bool good = status == BN_OK && process.end == BN_PROCESS_EXITED && process.code == 0;
    if (good)
        printf("ok, %.1f s\n", (double)process.wall_ns / 1e9);
    else
        printf("%s\n", status == BN_ERR_CANCELLED ? "interrupted" : "FAILED");
    if (good || status != BN_OK) return status;
    if (process.end == BN_PROCESS_EXITED && process.code == 127)
        return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, log, "%s failed: %s was not found", step, program),
                       err, "bn-crossval doctor lists what is missing");
    bn_process_describe(how, sizeof how, &process);
    return bn_hint(bn_fail_in(err, failure, log, "%s failed: %s %s", step, program, how), err,
                   "the output of the step is in that file");
}

/* ---- the source tree ---- */

/* An earlier download of the same commit whose files are unchanged. */
static bool find_download(struct setup *job)
{
    struct bn_stored_list all;
    char hex[BN_SHA256_HEX];
    size_t n_files;
    bool found = false;
    if (bn_stored_read(&all, NULL) == BN_OK)
        for (size_t i = 0; i < all.n && !found; i++) {
            const struct bn_stored *s = &all.list[i];
            if (strcmp(s->name, job->s.name) != 0 || strcmp(s->source, job->s.source) != 0 ||
                strcmp(s->commit, job->s.commit) != 0 ||
                bn_tree_digest(s->tree, hex, &n_files, NULL) != BN_OK || strcmp(hex, s->digest) != 0)
                continue;
            memcpy(job->s.tree, s->tree, sizeof job->s.tree);
            found = true;
        }
    bn_free(all.list);
    return found;
}

static bn_status download(struct setup *job, const char *folder, bn_error *err)
{
    bn_status failure = strstr(job->s.source, "://") != NULL && strncmp(job->s.source, "file:", 5) != 0
                            ? BN_ERR_NETWORK
                            : BN_ERR_NOT_FOUND;
    char tree[PATH_MAX];
    BN_TRY(bn_tree_remove(folder, err));
    BN_TRY(bn_stored_join(tree, folder, "tree", err));
    BN_TRY(bn_stored_join(job->s.tree, tree, "", err));
    BN_TRY(bn_file_make_folders(job->s.tree, err));
    static const char FETCH[] =
        "git init -q \"$1\" && cd \"$1\" && git fetch -q --depth 1 -- \"$2\" \"$3\" && "
        "git -c advice.detachedHead=false checkout -q FETCH_HEAD && test \"$(git rev-parse HEAD)\" = \"$3\" && "
        "git -c protocol.ext.allow=never submodule -q update --init --recursive --depth 1";
    const char *argv[] = {"sh", "-c", FETCH, "git", tree, job->s.source, job->s.commit, NULL};
    return run_step(folder, "fetch", failure, argv, err);
}

static bn_status check_digest(struct setup *job, bn_error *err)
{
    size_t n_files = 0;
    begin_step("digest");
    bn_status status = bn_tree_digest(job->s.tree, job->s.digest, &n_files, err);
    if (status != BN_OK) {
        puts("FAILED");
        return status;
    }
    printf("%s, %zu files\n", job->s.digest, n_files);
    if (job->o->sha256 == NULL || strcmp(job->o->sha256, job->s.digest) == 0) return BN_OK;
    return bn_fail_in(err, BN_ERR_INTEGRITY, job->o->source,
                      "the tree has the digest %.16s..., --sha256 is %.16s...", job->s.digest,
                      job->o->sha256);
}

/* Sets tree, digest and folder. A tree whose digest is wrong is not kept. */
static bn_status obtain_tree(struct setup *job, bn_error *err)
{
    char incoming[PATH_MAX], name[BN_STORED_NAME_MAX + 20];
    BN_TRY(bn_stored_join(incoming, job->root, ".incoming", err));
    bool fetched = job->is_url && !find_download(job);
    bn_status status = fetched ? download(job, incoming, err) : BN_OK;
    if (status == BN_OK) status = check_digest(job, err);
    if (status == BN_OK) {
        snprintf(name, sizeof name, "%s-%.16s", job->s.name, job->s.digest);
        status = bn_stored_join(job->s.folder, job->root, name, err);
    }
    if (status == BN_OK && fetched) {
        status = bn_tree_remove(job->s.folder, err);
        if (status == BN_OK && rename(incoming, job->s.folder) != 0)
            status = bn_fail_errno(err, errno, job->s.folder, "cannot rename the download to");
        if (status == BN_OK) status = bn_stored_join(job->s.tree, job->s.folder, "tree", err);
    }
    /* The log of a download that failed stays. */
    if (status == BN_ERR_INTEGRITY && fetched && bn_tree_remove(incoming, NULL) != BN_OK)
        bn_report_warning("%s could not be removed", incoming);
    return status;
}

/* ---- the bridge ---- */

/* tools/crossval/bridge.S */
extern const char bn_bridge_makefile[], bn_bridge_compat[], bn_bridge_engine[], bn_bridge_engine_h[],
    bn_bridge_json[], bn_bridge_json_h[], bn_bridge_main[], bn_bridge_trace[], bn_bridge_trace_h[];
extern const uint64_t bn_bridge_makefile_bytes, bn_bridge_compat_bytes, bn_bridge_engine_bytes,
    bn_bridge_engine_h_bytes, bn_bridge_json_bytes, bn_bridge_json_h_bytes, bn_bridge_main_bytes,
    bn_bridge_trace_bytes, bn_bridge_trace_h_bytes;

/* The source of the bridge, as a folder for make. */
static bn_status write_bridge(struct setup *job, bn_error *err)
{
    const struct {
        const char *name, *text;
        uint64_t n;
    } files[] = {{"Makefile", bn_bridge_makefile, bn_bridge_makefile_bytes},
                 {"compat.hpp", bn_bridge_compat, bn_bridge_compat_bytes},
                 {"engine.cpp", bn_bridge_engine, bn_bridge_engine_bytes},
                 {"engine.hpp", bn_bridge_engine_h, bn_bridge_engine_h_bytes},
                 {"json.cpp", bn_bridge_json, bn_bridge_json_bytes},
                 {"json.hpp", bn_bridge_json_h, bn_bridge_json_h_bytes},
                 {"main.cpp", bn_bridge_main, bn_bridge_main_bytes},
                 {"trace.cpp", bn_bridge_trace, bn_bridge_trace_bytes},
                 {"trace.hpp", bn_bridge_trace_h, bn_bridge_trace_h_bytes}};
    size_t n_files;
    char path[PATH_MAX];
    if (job->o->bridge != NULL) {
        if (realpath(job->o->bridge, job->bridge) == NULL)
            return bn_fail_errno(err, errno, job->o->bridge, "cannot open");
        return bn_tree_digest(job->bridge, job->s.bridge_sha256, &n_files, err);
    }
    BN_TRY(bn_stored_join(job->bridge, job->root, ".bridge", err));
    BN_TRY(bn_tree_remove(job->bridge, err));
    for (size_t i = 0; i < BN_ARRAY_LEN(files); i++) {
        BN_TRY(bn_stored_join(path, job->bridge, files[i].name, err));
        BN_TRY(bn_file_make_folders(path, err));
        BN_TRY(bn_file_write_atomic(path, files[i].text, (size_t)files[i].n, err));
    }
    return bn_tree_digest(job->bridge, job->s.bridge_sha256, &n_files, err);
}

/* Starts the bridge and asks for its name; the answer says that the libraries load and the protocol fits. */
static bn_status shake_hands(struct setup *job, const char *program, bn_error *err)
{
    char command[PATH_MAX + 2];
    snprintf(command, sizeof command, "'%s'", program);
    struct bn_reference_options options = {
        .command = command, .timeout_ns = 120ull * 1000000000u, .cancelled = is_cancelled};
    struct bn_reference *ref = NULL;
    begin_step("handshake");
    bn_status status = bn_reference_start(&ref, &options, err);
    if (status == BN_OK) {
        const struct bn_reference_info *info = bn_reference_info(ref);
        snprintf(job->s.engine, sizeof job->s.engine, "%s%s%s", info->name,
                 info->version[0] != '\0' ? " " : "", info->version);
        status = bn_reference_finish(ref, err);
    }
    if (status == BN_OK)
        printf("ok, %s\n", job->s.engine);
    else
        puts(status == BN_ERR_CANCELLED ? "interrupted" : "FAILED");
    if (status != BN_OK && ref != NULL && bn_reference_stderr(ref)[0] != '\0')
        bn_report_note(0, "its last output: %s", bn_reference_stderr(ref));
    if (status != BN_OK) bn_error_name(err, program);
    bn_reference_close(ref);
    return status;
}

/* ---- building ---- */

/* The first line of `compiler --version`, for the compiler that cmake chose. */
static bn_status name_compiler(struct setup *job, const char *build, bn_error *err)
{
    static const char ASK[] =
        "c=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p; s/^CMAKE_C_COMPILER:[A-Z]*=//p' \"$1/CMakeCache.txt\" | "
        "head -n 1) && test -n \"$c\" && \"$c\" --version | head -n 1";
    const char *argv[] = {"/bin/sh", "-c", ASK, "sh", build, NULL};
    struct bn_buf text = {.max = sizeof job->s.compiler - 1};
    struct bn_process_options options = {.argv = argv, .out = &text, .cancelled = is_cancelled};
    struct bn_process process;
    bn_status status = bn_process_run(&process, &options, err);
    if (status == BN_OK) snprintf(job->s.compiler, sizeof job->s.compiler, "%s", bn_buf_text(&text));
    job->s.compiler[strcspn(job->s.compiler, "\n")] = '\0';
    bn_buf_release(&text);
    return status;
}

static bn_status configure(struct setup *job, const char *build, bn_error *err)
{
    const char *argv[MAX_ARGUMENTS] = {
        "cmake", "-S", job->s.tree, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF"};
    size_t n = 7;
    for (size_t i = 0; i < job->o->cmake.n; i++)
        argv[n++] = job->o->cmake.list[i];
    return run_step(job->s.folder, "configure", BN_ERR_MISMATCH, argv, err);
}

static bn_status compile(struct setup *job, const char *build, bn_error *err)
{
    char jobs[16];
    snprintf(jobs, sizeof jobs, "%u", job->o->n_jobs != 0 ? job->o->n_jobs : bn_team_cores());
    const char *argv[] = {"cmake", "--build", build, "--target", job->o->target, "--parallel", jobs, NULL};
    return run_step(job->s.folder, "build", BN_ERR_MISMATCH, argv, err);
}

static bn_status compile_bridge(struct setup *job, const char *build, const char *program, bn_error *err)
{
    char tree[PATH_MAX + 16], where[PATH_MAX + 16], out[PATH_MAX + 16], name[BN_STORED_NAME_MAX + 8];
    snprintf(tree, sizeof tree, "LLAMA_DIR=%s", job->s.tree);
    snprintf(where, sizeof where, "BUILD_DIR=%s", build);
    snprintf(out, sizeof out, "OUT=%s", job->s.folder);
    snprintf(name, sizeof name, "NAME=%s", job->s.name);
    const char *argv[] = {"make", "-C", job->bridge, tree, where, out, name, NULL};
    if (unlink(program) != 0 && errno != ENOENT) return bn_fail_errno(err, errno, program, "cannot remove");
    BN_TRY(run_step(job->s.folder, "bridge", BN_ERR_MISMATCH, argv, err));
    if (access(program, X_OK) == 0) return BN_OK;
    return bn_fail_in(err, BN_ERR_MISMATCH, program, "make ended with status 0 and did not write the bridge");
}

static void remove_logs(const struct setup *job)
{
    static const char *const LOGS[] = {"configure.log", "build.log", "bridge.log"};
    char path[PATH_MAX];
    for (size_t i = 0; i < BN_ARRAY_LEN(LOGS); i++)
        if (bn_stored_join(path, job->s.folder, LOGS[i], NULL) == BN_OK) (void)unlink(path);
}

/* Everything after the source tree. */
static bn_status build(struct setup *job, bn_error *err)
{
    struct bn_stored *s = &job->s;
    char folder[PATH_MAX], program[PATH_MAX];
    bool only_bridge = job->old.ready && !job->o->force && strcmp(job->old.digest, s->digest) == 0 &&
                       strcmp(job->old.recipe, s->recipe) == 0;
    BN_TRY(bn_stored_join(folder, s->folder, "build", err));
    BN_TRY(bn_stored_program(program, s, err));
    BN_TRY(bn_file_make_folders(program, err));
    BN_TRY(bn_stored_write(s, err)); /* from here until the end it is not ready */
    if (!only_bridge) BN_TRY(bn_tree_remove(folder, err));
    remove_logs(job);
    BN_TRY(configure(job, folder, err));
    BN_TRY(compile(job, folder, err));
    BN_TRY(compile_bridge(job, folder, program, err));
    BN_TRY(shake_hands(job, program, err));
    BN_TRY(name_compiler(job, folder, err));
    BN_TRY(bn_sha256_file(program, s->program_sha256, err));
    bn_clock_format(bn_clock_utc(), s->created);
    s->ready = true;
    return bn_stored_write(s, err);
}

/* ---- the command ---- */

static bool is_same(const struct setup *job)
{
    const struct bn_stored *a = &job->old, *b = &job->s;
    return a->ready && strcmp(a->digest, b->digest) == 0 && strcmp(a->recipe, b->recipe) == 0 &&
           strcmp(a->bridge_sha256, b->bridge_sha256) == 0 && bn_stored_check(a, NULL) == BN_OK;
}

static bn_status run(struct setup *job, bn_error *err)
{
    struct bn_stored *s = &job->s;
    BN_TRY(parse_source(job, err));
    BN_TRY(choose_name(job, err));
    if (job->o->sha256 != NULL && !bn_is_sha256(job->o->sha256))
        return bn_fail(err, BN_ERR_ARG, "--sha256: '%.70s' is not a digest of 64 hexadecimal digits",
                       job->o->sha256);
    BN_TRY(write_recipe(job, err));
    BN_TRY(open_root(job, err));
    BN_TRY(write_bridge(job, err));
    (void)bn_stored_find(&job->old, s->name);
    printf("%-11s%s%s%s\n", "source", s->source, s->commit[0] != '\0' ? " at commit " : "", s->commit);
    BN_TRY(obtain_tree(job, err));
    if (is_same(job) && !job->o->force) {
        printf("%-11s%s is already set up, nothing to do; --force builds it again\n", "reference", s->name);
        return BN_OK;
    }
    bool other = job->old.ready && strcmp(job->old.digest, s->digest) != 0;
    if (other && !job->o->force)
        return bn_hint(
            bn_fail_in(err, BN_ERR_ARG, s->name,
                       "a reference of this name was set up from a tree with another digest, %.16s...",
                       job->old.digest),
            err, "--force replaces it; --name NAME keeps both");
    BN_TRY(build(job, err));
    if (other) BN_TRY(bn_tree_remove(job->old.folder, err));
    printf("%-11s%s is set up: bn-crossval ladder --ref %s\n", "reference", s->name, s->name);
    return BN_OK;
}

bn_status bn_crossval_setup(struct bn_args *args, bn_error *err)
{
    /* Of a make that started this program; and git must not wait for a password. */
    static const char *const INHERITED[] = {"MAKEFLAGS", "MFLAGS",        "MAKELEVEL",
                                            "GIT_DIR",   "GIT_WORK_TREE", "GIT_INDEX_FILE"};
    struct setup *job = bn_alloc(1, sizeof *job);
    if (job == NULL) return bn_nomem(err);
    job->o = args->fields;
    job->lock = -1;
    for (size_t i = 0; i < BN_ARRAY_LEN(INHERITED); i++)
        unsetenv(INHERITED[i]);
    setenv("GIT_TERMINAL_PROMPT", "0", 1);
    bn_cli_catch_interrupt();
    bn_status status = run(job, err);
    if (bn_cli_interrupted() != 0) {
        status = BN_OK;
        args->exit_code = 128 + bn_cli_interrupted();
    }
    if (job->lock >= 0) close(job->lock);
    bn_free(job);
    return status;
}
