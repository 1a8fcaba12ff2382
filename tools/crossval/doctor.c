/* SPDX-License-Identifier: MIT
 *
 * bn-crossval doctor: what comparisons need on this machine, what is missing, and how to get it. The exit
 * status is 1 when no reference can be used.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "lab/host/disk.h"
#include "lab/kit/process.h"
#include "lab/report/table.h"
#include "tools/cli/print_json.h"
#include "tools/crossval/setup.h"

#define DETAIL_WIDTH 36u               /* of the table in 80 columns */
#define LEAST_DISK ((uint64_t)2 << 30) /* a tree, its build and some margin */

/* One line of the result. */
struct requirement {
    const char *name, *needed_for;
    bool good;
    char detail[300];
    const char *remedy;
};
#define CHECKS_MAX 16u

struct reference_doctor {
    struct requirement list[CHECKS_MAX];
    size_t n, n_usable; /* references that can be used */
    struct bn_stored_list stored;
};

static struct requirement *add(struct reference_doctor *d, const char *name, const char *needed_for,
                               const char *remedy)
{
    struct requirement *c = &d->list[d->n++];
    *c = (struct requirement){.name = name, .needed_for = needed_for, .remedy = remedy};
    return c;
}

/* A program in PATH that answers --version with status 0. */
static void check_program(struct reference_doctor *d, const char *name, const char *needed_for,
                          const char *remedy)
{
    const char *argv[] = {name, "--version", NULL};
    struct bn_buf text = {.max = 4096};
    struct bn_process_options options = {.argv = argv, .out = &text, .timeout_ns = 60ull * 1000000000u};
    struct bn_process process;
    bn_error why = {0};
    struct requirement *c = add(d, name, needed_for, remedy);
    bn_status status = bn_process_run(&process, &options, &why);
    c->good = status == BN_OK && process.end == BN_PROCESS_EXITED && process.code == 0;
    if (c->good)
        snprintf(c->detail, sizeof c->detail, "%.*s", (int)strcspn(bn_buf_text(&text), "\n"),
                 bn_buf_text(&text));
    else if (status == BN_OK)
        bn_process_describe(c->detail, sizeof c->detail, &process);
    else
        snprintf(c->detail, sizeof c->detail, "%s", status == BN_ERR_NOT_FOUND ? "not found" : why.msg);
    bn_buf_release(&text);
}

/* Free space of the folder that setup builds in, or of the nearest one above it that exists. */
static void check_disk(struct reference_doctor *d)
{
    char path[PATH_MAX], there[PATH_MAX];
    uint64_t bytes;
    bn_error why = {0};
    struct requirement *c =
        add(d, "disk", "setup", "free 2 GiB there, or set XDG_CACHE_HOME to another disk");
    if (bn_stored_root(path, &why) != BN_OK) {
        snprintf(c->detail, sizeof c->detail, "%s", why.msg);
        return;
    }
    if (!bn_disk_free(&bytes, there, path)) return;
    c->good = bytes >= LEAST_DISK;
    snprintf(c->detail, sizeof c->detail, "%.1f GiB free in %.150s", (double)bytes / (1u << 30), there);
}

static void check_oracle(struct reference_doctor *d)
{
    char path[PATH_MAX];
    struct requirement *c =
        add(d, "oracle", "--ref oracle", "make reference, and make install to install it");
    c->good = bn_crossval_find_program("bn-reference", path);
    snprintf(c->detail, sizeof c->detail, "%.290s", c->good ? path : "bn-reference was not found");
    d->n_usable += c->good;
}

static void check_stored(struct reference_doctor *d)
{
    bn_error why = {0};
    struct requirement *c =
        add(d, "references", "--ref NAME", "bn-crossval setup --source DIR builds one; --force again");
    size_t n_ready = 0, n_good = 0;
    if (bn_stored_read(&d->stored, &why) != BN_OK || bn_stored_add_bridges(&d->stored, &why) != BN_OK) {
        snprintf(c->detail, sizeof c->detail, "%s", why.msg);
        return;
    }
    char names[120] = "";
    for (size_t i = 0; i < d->stored.n; i++) {
        const struct bn_stored *s = &d->stored.list[i];
        if (!s->ready) continue;
        n_ready++;
        if (bn_stored_check(s, NULL) == BN_OK) {
            n_good++;
            continue;
        }
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "; unusable: ", s->name);
    }
    c->good = n_good > 0 && n_good == n_ready;
    snprintf(c->detail, sizeof c->detail, "%zu of %zu usable%s", n_good, n_ready, names);
    d->n_usable += n_good;
}

static void check_all(struct reference_doctor *d)
{
    check_program(d, "cc", "setup", "apt-get install gcc");
    check_program(d, "c++", "setup, oracle", "apt-get install g++");
    check_program(d, "make", "setup", "apt-get install make");
    check_program(d, "cmake", "setup", "apt-get install cmake");
    check_program(d, "git", "setup with a URL", "apt-get install git");
    check_program(d, "node", "bridges in JavaScript", "apt-get install nodejs, version 20 or later");
    check_disk(d);
    check_oracle(d);
    check_stored(d);
}

static bn_status print_text(const struct reference_doctor *d, bn_error *err)
{
    static const char *const HEADS[] = {"", "found", "needed for", "detail", "remedy"};
    struct bn_buf text = {.max = 1u << 16};
    struct bn_table t;
    bn_table_begin(&t, HEADS, "lllln");
    for (size_t i = 0; i < d->n; i++) {
        const struct requirement *c = &d->list[i];
        bool fits = strlen(c->detail) <= DETAIL_WIDTH; /* else it is a note */
        bn_table_row(&t, c->good && fits ? "ok" : "bad");
        bn_table_text(&t, c->name);
        bn_table_text(&t, c->good ? "yes" : "NO");
        bn_table_text(&t, c->needed_for);
        bn_table_text(&t, fits ? c->detail : "noted below");
        if (!c->good)
            bn_table_printf(&t, "%s; remedy: %s", c->detail, c->remedy);
        else if (!fits)
            bn_table_text(&t, c->detail);
    }
    bn_table_put_text(&text, &t);
    bn_table_release(&t);
    bn_status status = bn_buf_check(&text, err);
    if (status == BN_OK) fputs(bn_buf_text(&text), stdout);
    bn_buf_release(&text);
    if (d->n_usable > 0)
        printf("%zu reference%s can be used, and bn itself: --ref bn\n", d->n_usable,
               d->n_usable == 1 ? "" : "s");
    else
        puts("no reference can be used; --ref bn compares this engine with itself only");
    return status;
}

static bn_status print_json(const struct reference_doctor *d, int exit_code, bn_error *err)
{
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", "bn.crossval-doctor/1");
    bn_json *list = bn_json_put_array(doc, "checks");
    for (size_t i = 0; i < d->n; i++) {
        const struct requirement *c = &d->list[i];
        bn_json *o = bn_json_add_object(list);
        bn_json_put_string(o, "name", c->name);
        bn_json_put_bool(o, "found", c->good);
        bn_json_put_string(o, "needed_for", c->needed_for);
        bn_json_put_string(o, "detail", c->detail);
        if (!c->good) bn_json_put_string(o, "remedy", c->remedy);
    }
    bn_json_put_u64(doc, "usable_references", d->n_usable);
    bn_json_put_u64(doc, "exit_code", (uint64_t)exit_code);
    bn_status status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}

bn_status bn_crossval_doctor(struct bn_args *args, bn_error *err)
{
    struct reference_doctor *d = bn_alloc(1, sizeof *d);
    if (d == NULL) return bn_nomem(err);
    check_all(d);
    args->exit_code = d->n_usable > 0 ? BN_EXIT_OK : BN_EXIT_NEGATIVE;
    bn_status status = args->json ? print_json(d, args->exit_code, err) : print_text(d, err);
    bn_free(d->stored.list);
    bn_free(d);
    return status;
}
