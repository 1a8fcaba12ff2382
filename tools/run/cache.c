/* SPDX-License-Identifier: MIT
 *
 * --prompt-cache: the keys and values of a prompt, read before a run and written after it. A file that cannot be used
 * is an error and is never replaced: it may be something else than a prompt cache.
 */
#include "base/error.h"
#include "base/file.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/run/run.h"

bn_status bn_run_cache_check(const struct bn_args *args, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    if (o->prompt_cache == NULL && (o->cache_all || o->cache_ro))
        return bn_fail(err, BN_ERR_ARG, "%s needs --prompt-cache FILE",
                       o->cache_ro ? "--prompt-cache-ro" : "--prompt-cache-all");
    if (o->cache_all && o->cache_ro)
        return bn_fail(err, BN_ERR_ARG, "--prompt-cache-all and --prompt-cache-ro exclude each other");
    if (o->prompt_cache != NULL) BN_TRY(bn_run_need_all("--prompt-cache", err));
    return o->prompt_cache != NULL && !o->cache_ro ? bn_file_check_output(o->prompt_cache, err) : BN_OK;
}

bn_status bn_run_cache_load(const struct bn_args *args, bn_session *session, const int32_t *ids, size_t n_ids,
                            size_t *n_cached, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    uint32_t n_kept = 0;
    bn_error missing = {0};
    *n_cached = 0;
    if (o->prompt_cache == NULL || n_ids == 0) return BN_OK;
    bn_status status = bn_session_load(session, o->prompt_cache, ids, n_ids - 1, &n_kept, &missing);
    if (status == BN_ERR_NOT_FOUND && !o->cache_ro) return BN_OK; /* it is made after the run */
    if (status != BN_OK && err != NULL) *err = missing;
    BN_TRY(status);
    bn_report_note(0, "prompt cache: %u of %zu tokens reused", n_kept, n_ids);
    *n_cached = n_kept;
    return BN_OK;
}

bn_status bn_run_cache_save(const struct bn_args *args, bn_session *session, size_t n_tokens, size_t n_cached,
                            bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    n_tokens = o->cache_all ? bn_session_position(session) : bn_session_known(session, (uint32_t)n_tokens);
    /* The last token of a prompt is always evaluated, so a file that lacks only this one is as good. */
    if (o->prompt_cache == NULL || o->cache_ro || n_tokens <= n_cached + 1) return BN_OK;
    BN_TRY(bn_session_save(session, (uint32_t)n_tokens, o->prompt_cache, err));
    bn_report_note(0, "prompt cache: %zu token%s saved, %.1f MiB", n_tokens, bn_cli_s(n_tokens),
                   (double)n_tokens * (double)bn_session_token_bytes(session) / 0x1p20);
    return BN_OK;
}
