/* SPDX-License-Identifier: MIT
 *
 * bn-download doctor: checks what a download needs, and how to fix what is missing. Nothing is downloaded or
 * written.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "hub/cache/cache.h"
#include "hub/cache/lock.h"
#include "hub/cache/walk.h"
#include "lab/host/disk.h"
#include "tools/cli/print_json.h"
#include "tools/cli/program/help.h"
#include "tools/cli/report.h"
#include "tools/download/download.h"

#define TEXT_COLUMN 16u
#define COLUMNS 80u

const struct bn_option bn_download_doctor_options[] = {
    BN_OPTION("to", "check DIR instead of the cache", .letter = 'o', .arg = "DIR",
              BN_TO_TEXT(struct bn_download_options, to)),
    BN_OPTION("offline", "check without the network (like HF_HUB_OFFLINE=1)",
              BN_TO_BOOL(struct bn_download_options, offline)),
    {0},
};

enum state { OK, NOTE, FAIL };

struct doctor {
    const struct bn_args *args;
    struct bn_hub_fetch fetch;
    char *root;
    bn_json *checks; /* of the document; NULL without --json */
    bool reached;    /* the endpoint */
    size_t n_failed;
};

/* ---- the rows ---- */

static void put(struct doctor *d, enum state state, const char *name, const char *fix, const char *fmt, ...)
    BN_PRINTF(5, 6);
static void put(struct doctor *d, enum state state, const char *name, const char *fix, const char *fmt, ...)
{
    static const char *const STATES[] = {"ok", "note", "FAIL"};
    char raw[1200], text[2400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    bn_escape(text, sizeof text, raw, strlen(raw));
    if (state == FAIL) d->n_failed++;
    if (d->args->json) {
        bn_json *o = bn_json_add_object(d->checks);
        bn_json_put_string(o, "name", name);
        bn_json_put_string(o, "state", STATES[state]);
        bn_json_put_string(o, "text", text);
        bn_json_put_text(o, "fix", fix);
        return;
    }
    printf("%-5s %-9s ", STATES[state], name);
    bn_help_wrap(stdout, text, TEXT_COLUMN, TEXT_COLUMN, COLUMNS);
    if (fix != NULL && fix[0] != '\0') {
        printf("%*s", (int)TEXT_COLUMN, "fix: ");
        bn_help_wrap(stdout, fix, TEXT_COLUMN, TEXT_COLUMN, COLUMNS);
    }
    fflush(stdout);
}

/* ---- this machine ---- */

static void check_folder(struct doctor *d, const char *name, const char *path, enum state if_not,
                         const char *fix)
{
    char there[PATH_MAX];
    bn_disk_nearest(there, path);
    if (access(there, W_OK | X_OK) == 0)
        put(d, OK, name, NULL, "%s: %s", path, strcmp(there, path) == 0 ? "writable" : "will be created");
    else
        put(d, if_not, name, fix, "%s: cannot be written (%s)", path, there);
}

/* Room for the wanted bytes; 0: not known. */
static void check_space(struct doctor *d, const char *folder, uint64_t wanted)
{
    char there[PATH_MAX], room[BN_UNITS_ROOM], size[BN_UNITS_ROOM];
    uint64_t left;
    if (!bn_disk_free(&left, there, folder)) {
        put(d, NOTE, "space", NULL, "%s: the free space cannot be read", there);
        return;
    }
    bn_units_text(room, (double)left, "B");
    if (wanted == 0)
        put(d, OK, "space", NULL, "%s free", room);
    else if (left >= wanted)
        put(d, OK, "space", NULL, "%s free; the model needs %s", room,
            bn_units_text(size, (double)wanted, "B"));
    else
        put(d, FAIL, "space", "bn-download clean, or another disk: HF_HUB_CACHE or --to",
            "%s free; the model needs %s", room, bn_units_text(size, (double)wanted, "B"));
}

static bool is_locked(const struct doctor *d, const struct bn_hub_cached *c)
{
    char *path = NULL;
    struct bn_hub_lock *lock = NULL;
    bool locked = bn_hub_cache_lock(&path, d->root, c->repo, c->etag, NULL) == BN_OK &&
                  access(path, R_OK | W_OK) == 0 &&
                  bn_hub_lock_take(&lock, path, 0, NULL, NULL, NULL) == BN_ERR_IO;
    bn_hub_lock_release(lock);
    bn_free(path);
    return locked;
}

/* Unfinished downloads, and those that another process works on. */
static bn_status check_locks(struct doctor *d, bn_error *err)
{
    struct bn_hub_walk walk;
    size_t n_parts = 0, n_locked = 0, n_files = 0;
    bn_status status = bn_hub_walk_open(&walk, d->root, err);
    for (size_t i = 0; i < walk.n && status == BN_OK; i++) {
        const struct bn_hub_cached *c = &walk.list[i];
        size_t n = strlen(c->path);
        n_files += c->kind == BN_HUB_CACHED_FILE;
        if (c->kind != BN_HUB_CACHED_PART || (n > 5 && strcmp(c->path + n - 5, ".json") == 0)) continue;
        n_parts++;
        n_locked += is_locked(d, c);
    }
    bn_hub_walk_release(&walk);
    BN_TRY(status);
    if (n_locked > 0)
        put(d, NOTE, "downloads", "wait for them: a second download of the same file waits too",
            "%zu in progress in other processes; %zu unfinished; %zu complete", n_locked, n_parts - n_locked,
            n_files);
    else
        put(d, OK, "downloads", NULL, "none in progress; %zu unfinished; %zu complete", n_parts, n_files);
    return BN_OK;
}

/* ---- the network ---- */

/* Asks the endpoint for a path. *code is the HTTP status, 0 without an answer. */
static bn_status ask_endpoint(struct doctor *d, const char *path, long *code, bn_error *err)
{
    char url[1024];
    struct bn_http_source *source = bn_alloc(1, sizeof *source);
    if (source == NULL) return bn_nomem(err);
    snprintf(url, sizeof url, "%s%s", d->fetch.server.endpoint, path);
    const struct bn_http_request request = {.url = url};
    bn_status status = bn_hub_ask(source, &d->fetch.server, &request, err);
    *code = source->last.status;
    bn_free(source);
    return status;
}

/* The proxy that https requests use; NULL without. */
static const char *proxy_of(const char *endpoint)
{
    static const char *const VARIABLES[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < BN_ARRAY_LEN(VARIABLES) && strncasecmp(endpoint, "https:", 6) == 0; i++) {
        const char *value = getenv(VARIABLES[i]);
        if (value != NULL && value[0] != '\0') return value;
    }
    return NULL;
}

static bn_status check_network(struct doctor *d, bn_error *err)
{
    bn_error why = {0};
    long code = 0;
    char proxy[200] = "";
    const struct bn_hub_server *s = &d->fetch.server;
    bool tls = strncasecmp(s->endpoint, "https:", 6) == 0;
    if (s->offline) {
        put(d, NOTE, "network", NULL, "off (--offline or HF_HUB_OFFLINE): only files that are here");
        return BN_OK;
    }
    if (proxy_of(s->endpoint) != NULL) bn_http_show(proxy, sizeof proxy, proxy_of(s->endpoint));
    bn_status status = ask_endpoint(d, "/", &code, &why);
    if (status == BN_ERR_NOMEM || status == BN_ERR_CANCELLED) return bn_fail(err, status, "%s", why.msg);
    d->reached = code > 0 && code < 500;
    const char *fix = strstr(why.msg, "ertificate") != NULL || strstr(why.msg, "SSL") != NULL
                          ? "SSL_CERT_FILE names the certificates to trust"
                      : proxy[0] != '\0' ? "check the proxy: https_proxy, no_proxy"
                                         : "check the connection; https_proxy names a proxy, HF_ENDPOINT a "
                                           "mirror; --offline uses files that are here";
    put(d, d->reached ? OK : FAIL, "network", d->reached ? NULL : fix, "%s: %s%s%s%s", s->endpoint,
        d->reached ? tls ? "reached; its certificate is valid" : "reached, without TLS (this machine)"
                   : why.msg,
        proxy[0] != '\0' ? "; proxy " : "", proxy, proxy[0] != '\0' ? " (unless no_proxy excludes it)" : "");
    return BN_OK;
}

static bn_status check_token(struct doctor *d, bn_error *err)
{
    bn_error why = {0};
    long code = 0;
    if (d->fetch.server.token[0] == '\0') {
        put(d, OK, "token", NULL, "none; public models need none");
        return BN_OK;
    }
    if (!d->reached) {
        put(d, NOTE, "token", NULL, "present; not checked without the network");
        return BN_OK;
    }
    bn_status status = ask_endpoint(d, "/api/whoami-v2", &code, &why);
    if (status == BN_ERR_NOMEM || status == BN_ERR_CANCELLED) return bn_fail(err, status, "%s", why.msg);
    if (code == 200 || code == 206)
        put(d, OK, "token", NULL, "present, and accepted");
    else if (code == 401 || code == 403)
        put(d, FAIL, "token", "set HF_TOKEN to a valid token, or unset it for public models",
            "present, but not accepted (HTTP %ld)", code);
    else
        put(d, NOTE, "token", NULL, "present; the endpoint cannot check it (HTTP %ld)", code);
    return BN_OK;
}

/* ---- the model ---- */

/* What get would do with it; *wanted are the bytes that it would download. */
static bn_status check_model(struct doctor *d, const char *reference, uint64_t *wanted, bn_error *err)
{
    struct bn_hub_fetch *f = &d->fetch;
    bn_error why = {0};
    char size[BN_UNITS_ROOM];
    f->reference = reference;
    f->dry_run = true;
    bn_status status = bn_hub_fetch(f, &why);
    if (status == BN_ERR_NOMEM || status == BN_ERR_CANCELLED) return bn_fail(err, status, "%s", why.msg);
    if (status != BN_OK) {
        put(d, FAIL, "model", why.hint[0] != '\0' ? why.hint : NULL, "%s: %s", reference, why.msg);
        return BN_OK;
    }
    if (!f->from_cache) *wanted = f->size;
    put(d, OK, "model", NULL, "%s: %s; %s; sha256 %s", reference,
        f->from_cache ? "already here" : "can be downloaded",
        f->size > 0 ? bn_units_text(size, (double)f->size, "B") : "size not known",
        f->sha256_source != NULL ? f->sha256_source : "not known before the download");
    return BN_OK;
}

/* ---- the command ---- */

static bn_status check_all(struct doctor *d, bn_error *err)
{
    const struct bn_download_options *o = d->args->fields;
    const char *model = d->args->n_operands > 0 ? d->args->operands[0] : NULL;
    char state[BN_HUB_PATH_MAX];
    uint64_t wanted = 0;
    bn_error why = {0};
    bn_status status = bn_hub_cache_root(&d->root, &why);
    if (status == BN_ERR_NOMEM) return bn_nomem(err);
    if (status != BN_OK)
        put(d, o->to != NULL ? NOTE : FAIL, "cache", why.hint, "%s", why.msg);
    else
        check_folder(d, "cache", d->root, o->to != NULL ? NOTE : FAIL,
                     "set HF_HUB_CACHE to a folder of yours, or download with --to DIR");
    if (o->to != NULL) check_folder(d, "folder", o->to, FAIL, "give another folder with --to DIR");
    if (bn_hub_state_path(state, "digests"))
        check_folder(d, "state", state, NOTE,
                     "set XDG_STATE_HOME to a folder of yours: digests and versions are recorded there");
    if (d->root != NULL) BN_TRY(check_locks(d, err));
    BN_TRY(check_network(d, err));
    BN_TRY(check_token(d, err));
    if (model != NULL && (d->reached || d->fetch.server.offline)) BN_TRY(check_model(d, model, &wanted, err));
    if (o->to != NULL || d->root != NULL) check_space(d, o->to != NULL ? o->to : d->root, wanted);
    return BN_OK;
}

bn_status bn_download_doctor(struct bn_args *args, bn_error *err)
{
    const struct bn_download_options *o = args->fields;
    struct doctor *d = bn_alloc(1, sizeof *d);
    if (d == NULL) return bn_nomem(err);
    bn_json *doc = args->json ? bn_json_new_object() : NULL;
    d->args = args;
    bn_json_put_string(doc, "schema", "bn.download-doctor/1");
    d->checks = bn_json_put_array(doc, "checks");
    bn_status status = bn_download_settings(&d->fetch, args, err);
    d->fetch.retries = d->fetch.server.retries = 0;
    d->fetch.server.stall_s = d->fetch.stall_s = 10;
    d->fetch.to = o->to;
    if (status == BN_OK) status = check_all(d, err);
    bn_json_put_bool(doc, "ready", d->n_failed == 0);
    if (status == BN_OK && doc != NULL) status = bn_cli_print_json(doc, err);
    if (status == BN_OK && d->n_failed > 0) {
        bn_report_note(0, "a download would fail: %zu problem%s", d->n_failed, d->n_failed == 1 ? "" : "s");
        args->exit_code = BN_EXIT_NEGATIVE;
    }
    bn_json_free(doc);
    bn_free(d->root);
    bn_free(d);
    return status;
}
