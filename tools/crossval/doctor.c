/* SPDX-License-Identifier: MIT
 *
 * bn-crossval doctor: what comparisons need on this machine, what is missing, and how to get it. It fails when no
 * reference can be used.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>

#include "base/error.h"
#include "lab/host/machine.h"
#include "lab/kit/process.h"
#include "tools/cli/program/doctor.h"
#include "tools/crossval/setup.h"

#define LEAST_DISK ((uint64_t)2 << 30) /* a tree, its build and some margin */

const struct bn_option bn_crossval_doctor_options[] = {BN_OPTION_REQUIRE, {0}};

/* A program in PATH that answers --version with status 0. */
static void check_program(struct bn_doctor *d, const char *name, const char *hint)
{
    const char *argv[] = {name, "--version", NULL};
    struct bn_buf text = {.max = 4096};
    struct bn_process_options options = {.argv = argv, .out = &text, .timeout_ns = 60ull * 1000000000u};
    struct bn_process process;
    bn_error why = {0};
    char end[64];
    bn_status status = bn_process_run(&process, &options, &why);
    bool good = status == BN_OK && process.end == BN_PROCESS_EXITED && process.code == 0;
    bn_process_describe(end, sizeof end, &process);
    if (good)
        bn_doctor_put(d, BN_DOCTOR_OK, name, NULL, "%.*s", (int)strcspn(bn_buf_text(&text), "\n"),
                      bn_buf_text(&text));
    else
        bn_doctor_put(d, BN_DOCTOR_NOTE, name, hint, "%s",
                      status == BN_OK              ? end
                      : status == BN_ERR_NOT_FOUND ? "not found"
                                                   : why.msg);
    bn_buf_release(&text);
}

/* Free space of the folder that setup builds in, or of the nearest one above it that exists. */
static void check_disk(struct bn_doctor *d)
{
    char path[PATH_MAX], there[PATH_MAX];
    uint64_t bytes = 0;
    bn_error why = {0};
    bool known = bn_stored_root(path, &why) == BN_OK && bn_disk_free(&bytes, there, path);
    if (known)
        bn_doctor_put(d, BN_DOCTOR_IF(bytes >= LEAST_DISK), "disk",
                      "free 2 GiB there, or set XDG_CACHE_HOME to another disk", "%.1f GiB free in %s",
                      (double)bytes / (1u << 30), there);
    else
        bn_doctor_put(d, BN_DOCTOR_NOTE, "disk", NULL, "%s",
                      why.msg[0] != '\0' ? why.msg : "the free space cannot be read");
}

static bn_status check_references(struct bn_doctor *d, bn_error *err)
{
    static const char HINT[] = "bn-crossval setup --source DIR builds one; --force again";
    struct bn_stored_list stored = {0};
    char path[PATH_MAX];
    bool oracle = bn_crossval_find_program("bn-reference", path);
    size_t n_usable = oracle;
    bn_doctor_put(d, BN_DOCTOR_IF(oracle), "oracle", "make reference, and make install to install it", "%s",
                  oracle ? path : "bn-reference was not found");
    bn_status status = bn_stored_read(&stored, err);
    if (status == BN_OK) status = bn_stored_add_bridges(&stored, err);
    for (size_t i = 0; i < stored.n && status == BN_OK; i++) {
        const struct bn_stored *s = &stored.list[i];
        bn_error why = {0};
        if (!s->ready) continue;
        bool good = bn_stored_check(s, &why) == BN_OK;
        n_usable += good;
        bn_doctor_put(d, BN_DOCTOR_IF(good), s->name, HINT, "%s", good ? s->folder : why.msg);
    }
    bn_free(stored.list);
    if (status == BN_OK)
        bn_doctor_put(d, n_usable > 0 ? BN_DOCTOR_OK : BN_DOCTOR_FAIL, "references", HINT,
                      n_usable > 0 ? "%zu can be used, and bn itself: --ref bn"
                                   : "%zu can be used; --ref bn compares this engine with itself only",
                      n_usable);
    return status;
}

bn_status bn_crossval_doctor(struct bn_args *args, bn_error *err)
{
    struct bn_doctor d;
    bn_doctor_begin(&d, args, "references");
    check_program(&d, "cc", "for setup: apt-get install gcc");
    check_program(&d, "c++", "for setup and the oracle: apt-get install g++");
    check_program(&d, "make", "for setup: apt-get install make");
    check_program(&d, "cmake", "for setup: apt-get install cmake");
    check_program(&d, "git", "for setup with a URL: apt-get install git");
    check_program(&d, "node", "for bridges in JavaScript: apt-get install nodejs, version 20 or later");
    check_disk(&d);
    return bn_doctor_end(&d, check_references(&d, err), err);
}
