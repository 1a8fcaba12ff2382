/* SPDX-License-Identifier: MIT
 *
 * Traces: see run.h. Files are appended to, so that the batches of a prompt and the steps after it follow
 * each other in the order of positions; a folder that holds a trace already is refused.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/error.h"
#include "tools/run/run.h"

static void write_record(void *user, const bn_trace_record *record)
{
    struct bn_run_trace *trace = user;
    if (trace->err.code != BN_OK) return;
    char path[4096 + 64];
    if (record->layer < 0)
        snprintf(path, sizeof path, "%s/G.%s.f32", trace->folder, record->op);
    else
        snprintf(path, sizeof path, "%s/L%d.%s.f32", trace->folder, (int)record->layer, record->op);
    FILE *file = fopen(path, "ab");
    bool ok = file != NULL;
    size_t n = record->rows * record->cols;
    ok = ok && fwrite(record->data, sizeof(float), n, file) == n;
    if (file != NULL && fclose(file) != 0) ok = false;
    if (!ok) bn_fail_errno(&trace->err, errno, path, "cannot write");
    trace->n_records++;
}

bn_status bn_run_trace_start(struct bn_run_trace *trace, bn_session *session, const char *folder,
                             bn_error *err)
{
    *trace = (struct bn_run_trace){0};
    BN_TRY(bn_run_need_all("--trace", err));
    int n = snprintf(trace->folder, sizeof trace->folder, "%s", folder);
    if (n < 0 || (size_t)n >= sizeof trace->folder)
        return bn_fail_errno(err, ENAMETOOLONG, folder, "cannot write");
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return bn_fail_errno(err, errno, folder, "cannot create");
    char path[4096 + 64];
    struct stat st;
    snprintf(path, sizeof path, "%s/G.embd.f32", folder);
    if (stat(path, &st) == 0)
        return bn_hint(bn_fail_in(err, BN_ERR_ARG, folder, "already holds a trace"), err,
                       "name an empty folder");
    bn_session_set_trace(session, write_record, trace);
    return BN_OK;
}

bn_status bn_run_trace_finish(struct bn_run_trace *trace, bn_session *session, bn_error *err)
{
    bn_session_set_trace(session, NULL, NULL);
    if (trace->err.code != BN_OK) {
        if (err->code == BN_OK) *err = trace->err;
        return trace->err.code;
    }
    if (trace->n_records == 0) return bn_fail(err, BN_ERR_INTERNAL, "nothing was traced");
    return BN_OK;
}
