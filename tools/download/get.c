/* SPDX-License-Identifier: MIT
 *
 * bn-download get: one file, whole; its path on standard output.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "tools/cli/report.h"
#include "tools/download/download.h"

const struct bn_option bn_download_network_options[] = {
    {.name = "offline", .group = "Network", .help = "use what is here; HF_HUB_OFFLINE=1 says the same"},
    {.name = "parallel",
     .arg = "N",
     .group = "Network",
     .preset = "4",
     .help = "connections at once, 1 to 16"},
    {.name = "limit-rate", .arg = "BYTES", .group = "Network", .help = "most bytes a second: 500K, 2M"},
    {.name = "retries",
     .arg = "N",
     .group = "Network",
     .preset = "6",
     .help = "attempts in a row without progress before giving up"},
    {.name = "stall",
     .arg = "SECONDS",
     .group = "Network",
     .preset = "30",
     .help = "give a connection up that brings less than 1000 bytes a second for so long"},
    {.name = "mirror",
     .arg = "URL",
     .group = "Network",
     .repeatable = true,
     .help = "another endpoint with the same files, used when the first one fails"},
    {0},
};

const struct bn_option bn_download_get_options[] = {
    {.name = "to", .letter = 'o', .arg = "DIR", .help = "a plain file in this folder, in place of the cache"},
    {.name = "sha256", .arg = "HEX", .help = "the digest that the file must have"},
    {.name = "force", .help = "fetch it even when it is here"},
    {.name = "no-wait", .help = "fail when another process is fetching the same file"},
    {.name = "dry-run", .help = "say what would be fetched, and from where"},
    {0},
};

bn_status bn_download_settings(struct bn_hub_fetch *fetch, const struct bn_args *args, bn_error *err)
{
    uint32_t parallel = 4, retries = 6;
    uint64_t stall = 30;
    BN_TRY(bn_opt_u32(args, "parallel", 1, 16, &parallel, err));
    BN_TRY(bn_opt_u32(args, "retries", 0, 1000, &retries, err));
    BN_TRY(bn_opt_seconds(args, "stall", &stall, err));
    BN_TRY(bn_opt_bytes(args, "limit-rate", &fetch->limit_rate, err));
    BN_TRY(bn_hub_server_read(&fetch->server, err));
    fetch->parallel = parallel;
    fetch->retries = retries;
    fetch->stall_s = stall > 0 && stall < 86400 ? (unsigned)stall : 30;
    fetch->server.offline = fetch->server.offline || bn_opt_flag(args, "offline");
    return BN_OK;
}

static bool show(void *user, const struct bn_transfer_event *e)
{
    (void)user;
    static const char *const NAMES[] = {"ask", "resume", "progress", "retry", "restart", "repair", "done"};
    fprintf(stderr, "%s %s have=%llu/%llu fetched=%llu %s\n", NAMES[e->phase], e->url,
            (unsigned long long)e->have, (unsigned long long)e->size, (unsigned long long)e->fetched,
            e->message != NULL ? e->message : "");
    return bn_cli_interrupted() == 0;
}

bn_status bn_download_get(struct bn_args *args, bn_error *err)
{
    struct bn_hub_fetch *fetch = bn_alloc(1, sizeof *fetch);
    if (fetch == NULL) return bn_fail(err, BN_ERR_NOMEM, "out of memory");
    fetch->reference = args->operands[0];
    fetch->to = bn_opt_str(args, "to");
    fetch->sha256 = bn_opt_str(args, "sha256");
    fetch->force = bn_opt_flag(args, "force");
    fetch->no_wait = bn_opt_flag(args, "no-wait");
    fetch->dry_run = bn_opt_flag(args, "dry-run");
    fetch->fn = show;
    bn_cli_catch_interrupt();
    bn_status status = bn_download_settings(fetch, args, err);
    if (status == BN_OK) status = bn_hub_fetch(fetch, err);
    if (bn_cli_interrupted() != 0) {
        bn_report_note(0, "%s", err->msg);
        args->exit_code = 128 + bn_cli_interrupted();
        bn_free(fetch);
        return BN_OK;
    }
    if (status == BN_OK) printf("%s\n", fetch->path);
    bn_free(fetch);
    return status;
}
