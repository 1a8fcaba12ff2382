/* SPDX-License-Identifier: MIT
 *
 * The provenance of a release (packaging/provenance.py writes it): compares its subjects with files, and checks its rules.
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/error.h"
#include "lab/receipt/receipt.h"
#include "lab/verify/checks.h"

#define BUILD_TYPE "https://bn.invalid/release/v1"

static void note(struct bn_release_files *files, const char *name, const char *what)
{
    if (files->wrong[0] == '\0') snprintf(files->wrong, sizeof files->wrong, "%.120s %s", name, what);
}

static bn_status check_file(struct bn_release_files *files, const bn_json *subjects, const char *path,
                            bn_error *err)
{
    char hex[BN_SHA256_HEX];
    struct stat st;
    const char *name = bn_receipt_base_name(path);
    const bn_json *subject = bn_json_find(subjects, "name", name);
    bool there = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    if (subject != NULL && there) BN_TRY(bn_sha256_file(path, hex, err));
    files->n++;
    if (subject == NULL)
        note(files, name, "is not in the provenance");
    else if (!there)
        note(files, name, "is missing");
    else if (!bn_json_text_is(subject, "digest.sha256", hex))
        note(files, name, "has another sha256");
    return BN_OK;
}

/* The provenance, or a copy of it under the same name. */
static bool is_own(const char *path, const char *own)
{
    char a[BN_SHA256_HEX], b[BN_SHA256_HEX];
    return strcmp(bn_receipt_base_name(path), bn_receipt_base_name(own)) == 0 &&
           bn_sha256_file(path, a, NULL) == BN_OK && bn_sha256_file(own, b, NULL) == BN_OK &&
           strcmp(a, b) == 0;
}

bn_status bn_release_files_read(struct bn_release_files *files, const bn_json *statement, const char *path,
                                const char *own, bn_error *err)
{
    const bn_json *subjects = bn_json_get(statement, "subject"), *s = bn_json_first(subjects);
    char file[PATH_MAX];
    bn_status status = BN_OK;
    *files = (struct bn_release_files){0};
    DIR *dir = opendir(path);
    if (dir == NULL && errno != ENOTDIR) return bn_fail_errno(err, errno, path, "cannot open");
    if (dir == NULL) return check_file(files, subjects, path, err);
    for (; s != NULL && status == BN_OK; s = bn_json_next(s)) {
        int n = snprintf(file, sizeof file, "%s/%s", path, bn_json_text_of(s, "name"));
        if (n > 0 && (size_t)n < sizeof file) status = check_file(files, subjects, file, err);
    }
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        bool dots = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
        if (dots || bn_json_find(subjects, "name", e->d_name) != NULL) continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        if (!is_own(file, own)) note(files, e->d_name, "is not in the provenance");
    }
    closedir(dir);
    return status;
}

bool bn_check_release_files(const struct bn_check *c)
{
    if (c->in->release->wrong[0] != '\0') return FAIL(c, "%s", c->in->release->wrong);
    return c->in->release->n == 0 ? SKIP(c, "not compared") : PASS(c, "%zu compared", c->in->release->n);
}

bool bn_check_release_build(const struct bn_check *c)
{
    const char *version, *commit, *builder;
    const bn_json *sources = bn_json_first(bn_json_path(c->p, "buildDefinition.resolvedDependencies"));
    if (!bn_json_text_is(c->p, "buildDefinition.buildType", BUILD_TYPE))
        return FAIL(c, "buildDefinition.buildType is not " BUILD_TYPE);
    if (!bn_rule_text(c, "buildDefinition.externalParameters.version", &version) ||
        !bn_rule_text(c, "buildDefinition.externalParameters.commit", &commit) ||
        !bn_rule_text(c, "runDetails.builder.id", &builder))
        return false;
    if (strlen(commit) != 40 || !bn_json_text_is(sources, "digest.gitCommit", commit))
        return FAIL(c, "the first resolved dependency is not the commit %.60s", commit);
    return PASS(c, "%.20s from %.12s... by %.80s", version, commit, builder);
}
