/* SPDX-License-Identifier: MIT
 *
 * bn-download doctor: checks what a download needs, and how to fix what is missing. Nothing is downloaded or
 * written.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "hub/cache/cache.h"
#include "lab/host/machine.h"
#include "tools/cli/program/doctor.h"
#include "tools/cli/program/sandbox.h"
#include "tools/download/download.h"

const struct bn_option bn_download_doctor_options[] = {
    BN_OPTION("to", "check DIR instead of the cache", .letter = 'o', .arg = "DIR",
              BN_TO_PATH(struct bn_download_options, to, BOTH)),
    BN_OPTION("offline", "check without the network (like HF_HUB_OFFLINE=1)",
              BN_TO_BOOL(struct bn_download_options, offline)),
    BN_OPTION_REQUIRE,
    {0},
};

struct job {
    struct bn_doctor rows;
    struct bn_hub_fetch fetch;
    char root[BN_HUB_PATH_MAX]; /* "": there is none */
    bool reached;               /* the endpoint */
};

/* ---- this machine ---- */

static void check_folder(struct job *j, const char *name, const char *path, enum bn_doctor_state if_not,
                         const char *hint)
{
    char there[PATH_MAX];
    bn_disk_nearest(there, path);
    bool writable = access(there, W_OK | X_OK) == 0, exists = strcmp(there, path) == 0;
    bn_doctor_put(&j->rows, writable ? BN_DOCTOR_OK : if_not, name, hint, "%s: %s%s", path,
                  !writable ? "cannot be written: "
                  : exists  ? "writable"
                            : "will be created",
                  writable ? "" : there);
}

/* Room for the wanted bytes; 0: not known. */
static void check_space(struct job *j, const char *folder, uint64_t wanted)
{
    char there[PATH_MAX], room[BN_UNITS_ROOM], size[BN_UNITS_ROOM];
    uint64_t left;
    if (!bn_disk_free(&left, there, folder)) {
        bn_doctor_put(&j->rows, BN_DOCTOR_NOTE, "space", NULL, "%s: the free space cannot be read", there);
        return;
    }
    bn_units_text(size, (double)wanted, "bytes");
    bn_doctor_put(&j->rows, left >= wanted ? BN_DOCTOR_OK : BN_DOCTOR_FAIL, "space",
                  "bn-download clean, or another disk: HF_HUB_CACHE or --to", "%s free%s%s",
                  bn_units_text(room, (double)left, "bytes"), wanted > 0 ? "; the model needs " : "",
                  wanted > 0 ? size : "");
}

static bool is_locked(const struct job *j, const struct bn_hub_cached *c)
{
    char path[BN_HUB_PATH_MAX];
    struct bn_hub_lock *lock = NULL;
    bool locked = bn_hub_cache_lock(path, j->root, c->repo, c->etag, NULL) == BN_OK &&
                  access(path, R_OK | W_OK) == 0 &&
                  bn_hub_lock_take(&lock, path, 0, NULL, NULL, NULL) == BN_ERR_IO;
    bn_hub_lock_release(lock);
    return locked;
}

/* Unfinished downloads, and those that another process works on. */
static bn_status check_locks(struct job *j, bn_error *err)
{
    struct bn_hub_walk walk;
    size_t n_parts = 0, n_locked = 0, n_files = 0;
    bn_status status = bn_hub_walk_open(&walk, j->root, err);
    for (size_t i = 0; i < walk.n && status == BN_OK; i++) {
        const struct bn_hub_cached *c = &walk.list[i];
        size_t n = strlen(c->path);
        n_files += c->kind == BN_HUB_CACHED_FILE;
        if (c->kind != BN_HUB_CACHED_PART || (n > 5 && strcmp(c->path + n - 5, ".json") == 0)) continue;
        n_parts++;
        n_locked += is_locked(j, c);
    }
    bn_hub_walk_release(&walk);
    if (status == BN_OK)
        bn_doctor_put(&j->rows, n_locked > 0 ? BN_DOCTOR_NOTE : BN_DOCTOR_OK, "downloads",
                      "wait for them: a second download of the same file waits too",
                      "%zu in progress elsewhere; %zu unfinished; %zu complete", n_locked, n_parts - n_locked,
                      n_files);
    return status;
}

/* ---- the network ---- */

/* Asks the endpoint for a path: *code is the HTTP status, 0 without an answer, and why the reason. */
static bn_status ask_endpoint(struct job *j, const char *path, long *code, bn_error *why, bn_error *err)
{
    char url[1024];
    struct bn_http_source source = {0};
    snprintf(url, sizeof url, "%s%s", j->fetch.server.endpoint, path);
    const struct bn_http_request request = {.url = url};
    bn_status status = bn_hub_ask(&source, &j->fetch.server, &request, why);
    *code = source.last.status;
    return status == BN_ERR_NOMEM || status == BN_ERR_CANCELLED ? bn_fail(err, status, "%s", why->msg)
                                                                : BN_OK;
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

static bn_status check_network(struct job *j, bn_error *err)
{
    bn_error why = {0};
    long code = 0;
    char proxy[200] = "";
    const struct bn_hub_server *s = &j->fetch.server;
    if (s->offline) {
        bn_doctor_put(&j->rows, BN_DOCTOR_NOTE, "network", NULL,
                      "off (--offline or HF_HUB_OFFLINE): only files that are here");
        return BN_OK;
    }
    if (proxy_of(s->endpoint) != NULL) bn_http_show(proxy, sizeof proxy, proxy_of(s->endpoint));
    BN_TRY(ask_endpoint(j, "/", &code, &why, err));
    j->reached = code > 0 && code < 500;
    const char *hint = strstr(why.msg, "ertificate") != NULL || strstr(why.msg, "SSL") != NULL
                           ? "SSL_CERT_FILE names the certificates to trust"
                       : proxy[0] != '\0' ? "check the proxy: https_proxy, no_proxy"
                                          : "check the connection; https_proxy names a proxy, HF_ENDPOINT a "
                                            "mirror; --offline uses files that are here";
    bn_doctor_put(
        &j->rows, j->reached ? BN_DOCTOR_OK : BN_DOCTOR_FAIL, "network", hint, "%s: %s%s%s%s", s->endpoint,
        !j->reached                                  ? why.msg
        : strncasecmp(s->endpoint, "https:", 6) == 0 ? "reached; its certificate is valid"
                                                     : "reached, without TLS (this machine)",
        proxy[0] != '\0' ? "; proxy " : "", proxy, proxy[0] != '\0' ? " (unless no_proxy excludes it)" : "");
    return BN_OK;
}

static bn_status check_token(struct job *j, bn_error *err)
{
    bn_error why = {0};
    long code = 0;
    bool none = j->fetch.server.token[0] == '\0';
    if (none || !j->reached) {
        bn_doctor_put(&j->rows, BN_DOCTOR_IF(none), "token", NULL, "%s",
                      none ? "none; public models need none" : "present; not checked without the network");
        return BN_OK;
    }
    BN_TRY(ask_endpoint(j, "/api/whoami-v2", &code, &why, err));
    if (code == 200 || code == 206)
        bn_doctor_put(&j->rows, BN_DOCTOR_OK, "token", NULL, "present, and accepted");
    else if (code == 401 || code == 403)
        bn_doctor_put(&j->rows, BN_DOCTOR_FAIL, "token",
                      "set HF_TOKEN to a valid token, or unset it for public models",
                      "present, but not accepted (HTTP %ld)", code);
    else
        bn_doctor_put(&j->rows, BN_DOCTOR_NOTE, "token", NULL,
                      "present; the endpoint cannot check it (HTTP %ld)", code);
    return BN_OK;
}

/* What get would do with the model; *wanted are the bytes that it would download. */
static bn_status check_model(struct job *j, const char *reference, uint64_t *wanted, bn_error *err)
{
    struct bn_hub_fetch *f = &j->fetch;
    bn_error why = {0};
    char size[BN_UNITS_ROOM];
    f->reference = reference;
    f->dry_run = true;
    bn_status status = bn_hub_fetch(f, &why);
    if (status == BN_ERR_NOMEM || status == BN_ERR_CANCELLED) return bn_fail(err, status, "%s", why.msg);
    if (status != BN_OK) {
        bn_doctor_put(&j->rows, BN_DOCTOR_FAIL, "model", why.hint, "%s: %s", reference, why.msg);
        return BN_OK;
    }
    if (!f->from_cache) *wanted = f->size;
    bn_doctor_put(&j->rows, BN_DOCTOR_OK, "model", NULL, "%s: %s; %s; sha256 %s", reference,
                  f->from_cache ? "already here" : "can be downloaded",
                  f->size > 0 ? bn_units_text(size, (double)f->size, "bytes") : "size not known",
                  f->sha256_source != NULL ? f->sha256_source : "not known before the download");
    return BN_OK;
}

/* ---- the command ---- */

static bn_status check_all(struct job *j, const struct bn_args *args, bn_error *err)
{
    const char *to = ((const struct bn_download_options *)args->fields)->to;
    enum bn_doctor_state cache = to != NULL ? BN_DOCTOR_NOTE : BN_DOCTOR_FAIL;
    char state[BN_HUB_PATH_MAX];
    uint64_t wanted = 0;
    bn_error why = {0};
    char sandbox[64];
    bool closed = bn_sandbox_describe(sandbox);
    bn_doctor_put(&j->rows, BN_DOCTOR_IF(closed), "sandbox", NULL, "%s",
                  closed ? sandbox : "none: no Landlock, no seccomp, or --no-sandbox");
    bn_status status = bn_hub_cache_root(j->root, &why);
    if (status != BN_OK)
        bn_doctor_put(&j->rows, cache, "cache", why.hint, "%s", why.msg);
    else
        check_folder(j, "cache", j->root, cache,
                     "set HF_HUB_CACHE to a folder of yours, or download with --to DIR");
    if (to != NULL) check_folder(j, "folder", to, BN_DOCTOR_FAIL, "give another folder with --to DIR");
    if (bn_hub_state_path(state, "digests"))
        check_folder(j, "state", state, BN_DOCTOR_NOTE,
                     "set XDG_STATE_HOME to a folder of yours: digests and versions are recorded there");
    if (j->root[0] != '\0') BN_TRY(check_locks(j, err));
    BN_TRY(check_network(j, err));
    BN_TRY(check_token(j, err));
    if (args->n_operands > 0 && (j->reached || j->fetch.server.offline))
        BN_TRY(check_model(j, args->operands[0], &wanted, err));
    if (to != NULL || j->root[0] != '\0') check_space(j, to != NULL ? to : j->root, wanted);
    return BN_OK;
}

bn_status bn_download_doctor(struct bn_args *args, bn_error *err)
{
    struct job *j = bn_alloc(1, sizeof *j);
    if (j == NULL) return bn_nomem(err);
    bn_doctor_begin(&j->rows, args, "downloads");
    bn_status status = bn_download_settings(&j->fetch, args, err);
    j->fetch.retries = j->fetch.server.patience.retries = 0;
    j->fetch.server.patience.stall_s = j->fetch.stall_s = 10;
    j->fetch.to = ((const struct bn_download_options *)args->fields)->to;
    if (status == BN_OK) status = check_all(j, args, err);
    status = bn_doctor_end(&j->rows, status, err);
    bn_free(j);
    return status;
}
