/* SPDX-License-Identifier: MIT
 *
 * bn-download get: downloads files and prints their paths on standard output.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "hub/cache/cache.h"
#include "lab/kit/put_counts.h"
#include "tools/cli/program/sandbox.h"
#include "tools/download/download.h"

const struct bn_option bn_download_network_options[] = {
    BN_OPTION("offline", "use local files only (like HF_HUB_OFFLINE=1)", .group = "Network",
              BN_TO_BOOL(struct bn_download_options, offline)),
    BN_OPTION("parallel", "number of connections, 1 to 16", .arg = "N", .group = "Network", .preset = "4",
              BN_TO_U32(struct bn_download_options, parallel, 1, 16)),
    BN_OPTION("limit-rate", "maximum bytes per second, e.g. 500K or 2M", .rare = true, .arg = "BYTES",
              .group = "Network", BN_TO_BYTES(struct bn_download_options, limit_rate)),
    BN_OPTION("retries", "attempts without progress before giving up", .rare = true, .arg = "N",
              .group = "Network", .preset = "6", BN_TO_U32(struct bn_download_options, retries, 0, 1000)),
    BN_OPTION("stall", "drop a connection below 1000 bytes/s for this long", .rare = true, .arg = "SECONDS",
              .group = "Network", .preset = "30", BN_TO_SECONDS(struct bn_download_options, stall_s)),
    BN_OPTION("timeout", "give up when a file takes longer [no limit]", .rare = true, .arg = "SECONDS",
              .group = "Network", BN_TO_SECONDS(struct bn_download_options, timeout_s)),
    BN_OPTION("mirror", "endpoint to use when the first one fails", .rare = true, .arg = "URL",
              .group = "Network", .repeatable = true, BN_TO_TEXTS(struct bn_download_options, mirrors)),
    {0},
};

const struct bn_option bn_download_get_options[] = {
    BN_OPTION("to", "download to a plain file in DIR, not to the cache", .letter = 'o', .arg = "DIR",
              BN_TO_PATH(struct bn_download_options, to, BOTH)),
    BN_OPTION("sha256", "required SHA-256 of the file", .arg = "HEX",
              BN_TO_TEXT(struct bn_download_options, sha256)),
    BN_OPTION("lock", "download exactly the files of a lock file", .arg = "FILE",
              BN_TO_PATH(struct bn_download_options, lock, READ)),
    BN_OPTION("force", "download even if the file is here", BN_TO_BOOL(struct bn_download_options, force)),
    BN_OPTION("no-wait", "fail if another process downloads the same file", .rare = true,
              BN_TO_BOOL(struct bn_download_options, no_wait)),
    BN_OPTION("dry-run", "print what would be downloaded, and from where",
              BN_TO_BOOL(struct bn_download_options, dry_run)),
    {0},
};

bn_status bn_download_settings(struct bn_hub_fetch *fetch, const struct bn_args *args, bn_error *err)
{
    const struct bn_download_options *o = args->fields;
    BN_TRY(bn_hub_server_read(&fetch->server, err));
    fetch->parallel = o->parallel;
    fetch->retries = o->retries;
    fetch->limit_rate = o->limit_rate;
    fetch->stall_s = o->stall_s > 0 && o->stall_s < 86400 ? (unsigned)o->stall_s : 30;
    fetch->server.offline = fetch->server.offline || o->offline;
    fetch->mirrors = o->mirrors.list;
    fetch->n_mirrors = o->mirrors.n;
    return BN_OK;
}

/* Without --to, files of URLs go to the working folder, and a lock file may name some. */
void bn_download_allow(struct bn_sandbox_rules *rules, const struct bn_args *args)
{
    const struct bn_download_options *o = args->fields;
    char path[BN_HUB_PATH_MAX], inside[BN_HUB_PATH_MAX + 1];
    bool here = o->lock != NULL;
    for (size_t i = 0; i < args->n_operands; i++)
        here = here || strstr(args->operands[i], "://") != NULL;
    if (here && o->to == NULL) bn_sandbox_allow(rules, BN_PATH_BOTH, ".");
    if (bn_hub_token_path(path)) bn_sandbox_allow(rules, BN_PATH_READ, path);
    bool makes = args->command->run == bn_download_get || args->command->run == bn_download_tokenizer;
    if (bn_hub_cache_root(path, NULL) == BN_OK && (access(path, F_OK) == 0 || (makes && !o->dry_run))) {
        snprintf(inside, sizeof inside, "%s/", path);
        (void)!bn_file_make_folders(inside, NULL);
        bn_sandbox_allow(rules, BN_PATH_BOTH, path);
    }
    if (args->command->run != bn_download_doctor)
        bn_sandbox_allow_state(rules);
    else if (bn_hub_state_path(path, "")) /* it makes nothing */
        bn_sandbox_allow(rules, BN_PATH_READ, path);
}

/* ---- results ---- */

static bn_status say_result(const struct bn_hub_fetch *f, const char *licence, uint64_t ns, bn_error *err)
{
    bn_json *o = bn_download_event(f->dry_run ? "plan" : "done");
    BN_PUT(o, BN_STRING("path", f->path), BN_TEXT("repo", f->repo), BN_TEXT("file", f->file),
           BN_TEXT("commit", f->commit), BN_TEXT("url", f->url), BN_TEXT("licence", licence),
           BN_TEXT("runs", f->runs), BN_FLAG("cached", f->from_cache));
    if (f->dry_run) {
        BN_PUT(o, BN_COUNT("bytes", f->size), BN_TEXT("sha256", f->sha256_wanted),
               BN_TEXT("sha256_source", f->sha256_source));
        return bn_download_say(o, err);
    }
    BN_PUT(o, BN_COUNT("bytes", f->transfer.final_size), BN_TEXT("sha256", f->transfer.digest),
           BN_TEXT("sha256_source", f->sha256_source), BN_FLAG("first_use", f->first_use),
           BN_FLAG("unchanged", f->unchanged), BN_TEXT("replaced", f->replaced),
           BN_U64("fetched", f->transfer.fetched), BN_U64("resumed", f->transfer.resumed),
           BN_U64("requests", f->transfer.n_requests), BN_NUMBER("seconds", (double)ns * 1e-9));
    return bn_download_say(o, err);
}

static void print_plan(const struct bn_hub_fetch *f)
{
    char size[BN_UNITS_ROOM];
    printf("%s\n", f->path);
    printf("  from    %s\n", f->from_cache ? "already downloaded" : f->url);
    if (f->commit[0] != '\0') printf("  commit  %s\n", f->commit);
    printf("  size    %s\n", f->size > 0 ? bn_units_text(size, (double)f->size, "bytes") : "not known");
    if (f->sha256_source != NULL)
        printf("  sha256  %s (%s)\n", f->sha256_wanted, f->sha256_source);
    else
        printf("  sha256  not known before the download\n");
}

/* What became of the file of a URL that was here before. */
static void print_versions(const struct bn_hub_fetch *f)
{
    if (f->unchanged) bn_report_note(0, "%s: unchanged on the server", f->path);
    if (f->same_size)
        bn_report_note(0,
                       "%s: kept; the server names no version, and its file has the same size "
                       "(--force downloads it again)",
                       f->path);
    if (f->replaced[0] != '\0')
        bn_report_note(0, "%s: replaced sha256 %.16s... with %.16s...", f->path, f->replaced,
                       f->transfer.digest);
}

/* Notes for the user, once per file. */
static void print_notes(const struct bn_hub_fetch *f, const char *licence, uint64_t ns)
{
    char size[BN_UNITS_ROOM], rate[BN_UNITS_ROOM];
    if (licence != NULL && licence[0] != '\0')
        bn_report_note(0, "licence %s%s%s", licence, f->licence_url[0] != '\0' ? ": " : "", f->licence_url);
    if (f->runs[0] != '\0' && strcmp(f->runs, "yes") != 0)
        bn_report_note(0, "bn-run cannot run this file: %s", f->runs);
    if (f->first_use)
        bn_report_note(0, "first download: sha256 %.16s... is recorded; later downloads are compared with it",
                       f->transfer.digest);
    print_versions(f);
    if (f->transfer.fetched > 0 && ns > 0)
        bn_report_note(1, "%s in %.1f s, %s; sha256 %s (%s)",
                       bn_units_text(size, (double)f->transfer.fetched, "bytes"), (double)ns * 1e-9,
                       bn_units_text(rate, (double)f->transfer.fetched * 1e9 / (double)ns, "bytes/s"),
                       f->transfer.digest,
                       f->sha256_source != NULL ? f->sha256_source : "not compared: no digest is known");
}

/* ---- getting ---- */

struct get {
    const struct bn_args *args;
    struct bn_hub_fetch fetch;
    struct bn_download_show show;
};

static bn_status fail_late(const struct get *g, bn_error *err)
{
    const struct bn_download_options *o = g->args->fields;
    *err = (bn_error){0};
    return bn_hint(bn_fail_in(err, BN_ERR_NETWORK, g->fetch.reference,
                              "not complete after %llu s (--timeout)", (unsigned long long)o->timeout_s),
                   err, "the downloaded part is kept; run the command again to download the rest");
}

/* Downloads what g->fetch describes. licence NULL: the registry's. */
static bn_status get_one(struct get *g, const char *licence, bn_error *err)
{
    struct bn_hub_fetch *f = &g->fetch;
    uint64_t began = bn_clock_ns();
    bn_download_show_begin(&g->show, f, g->args);
    g->show.limit_ns =
        ((const struct bn_download_options *)g->args->fields)->timeout_s * UINT64_C(1000000000);
    bn_status status = bn_hub_fetch(f, err);
    bn_download_show_end(&g->show);
    if (status == BN_ERR_CANCELLED && g->show.late) status = fail_late(g, err);
    BN_TRY(status);
    uint64_t ns = bn_clock_ns() - began;
    if (licence == NULL) licence = f->licence;
    if (g->args->json) return say_result(f, licence, ns, err);
    print_notes(f, licence, ns);
    if (f->dry_run)
        print_plan(f);
    else
        printf("%s\n", f->path);
    fflush(stdout);
    return BN_OK;
}

static bn_status get_operands(struct get *g, bn_error *err)
{
    const struct bn_args *args = g->args;
    const char *sha256 = ((const struct bn_download_options *)args->fields)->sha256;
    if (sha256 != NULL && args->n_operands > 1)
        return bn_fail(err, BN_ERR_ARG, "--sha256 needs exactly one MODEL");
    if (sha256 != NULL && (strspn(sha256, "0123456789abcdefABCDEF") != 64 || sha256[64] != '\0'))
        return bn_fail(err, BN_ERR_ARG, "--sha256 must be 64 hexadecimal digits");
    g->fetch.sha256 = sha256;
    for (size_t i = 0; i < args->n_operands; i++) {
        g->fetch.reference = args->operands[i];
        BN_TRY(get_one(g, NULL, err));
    }
    return BN_OK;
}

static bn_status get_locked(struct get *g, const char *path, bn_error *err)
{
    struct bn_hub_lockfile lock;
    struct bn_hub_fetch *f = &g->fetch;
    char reference[1600];
    bn_status status = bn_hub_lockfile_read(&lock, path, err);
    for (size_t i = 0; i < lock.n && status == BN_OK; i++) {
        const struct bn_hub_locked *e = &lock.list[i];
        if (e->repo != NULL)
            snprintf(reference, sizeof reference, "hf:%s:%s@%s", e->repo, e->file, e->revision);
        f->reference = e->repo != NULL ? reference : e->urls[0];
        f->sha256 = e->sha256;
        f->size_wanted = e->size;
        f->urls = e->urls;
        f->n_urls = e->n_urls;
        status = get_one(g, e->licence != NULL ? e->licence : "", err);
    }
    bn_hub_lockfile_release(&lock);
    return status;
}

static bn_status get(struct get *g, bn_error *err)
{
    const struct bn_args *args = g->args;
    struct bn_hub_fetch *f = &g->fetch;
    const struct bn_download_options *o = args->fields;
    const char *lock = o->lock;
    if (lock == NULL && args->n_operands == 0)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "no MODEL given"), err,
                       "bn-download bitnet-2b, or --lock FILE; 'bn-download list' shows the names");
    if (lock != NULL && (args->n_operands > 0 || o->sha256 != NULL))
        return bn_fail(err, BN_ERR_ARG, "--lock names the models and digests: give no MODEL and no --sha256");
    f->to = o->to;
    f->force = o->force;
    f->no_wait = o->no_wait;
    f->dry_run = o->dry_run;
    f->fn = bn_download_show_event;
    f->user = &g->show;
    BN_TRY(bn_download_settings(f, args, err));
    if (f->force && f->server.offline)
        return bn_fail(err, BN_ERR_ARG, "--force needs the network, but --offline or HF_HUB_OFFLINE is set");
    return lock != NULL ? get_locked(g, lock, err) : get_operands(g, err);
}

bn_status bn_download_get(struct bn_args *args, bn_error *err)
{
    struct get *g = bn_alloc(1, sizeof *g);
    if (g == NULL) return bn_nomem(err);
    g->args = args;
    bn_cli_catch_interrupt();
    bn_status status = get(g, err);
    bn_free(g);
    if (bn_cli_interrupted() == 0 || status == BN_OK) return status;
    bn_report_note(0, "%s", err->msg);
    args->exit_code = 128 + bn_cli_interrupted();
    bn_error none = {0};
    return args->json ? bn_download_say(bn_download_event("interrupted"), &none) : BN_OK;
}
