/* SPDX-License-Identifier: MIT
 *
 * Traces and profiles: see run.h. Files are appended to, so that the batches of a prompt and the steps after it follow
 * each other in the order of positions; a folder that holds a trace already is refused.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "infer/session.h"
#include "lab/kit/put_counts.h"
#include "lab/profile/document.h"
#include "tools/cli/provenance.h"
#include "tools/cli/report.h"
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

/* ---- --profile: when every brick of every pass of a generation began and ended, as a document ---- */

#define MAX_EVENTS (1u << 22) /* of a trail: a quarter of a gigabyte */

bn_status bn_run_profile_start(bn_prof **out, const struct bn_args *args, const struct bn_run_engine *engine,
                               const struct bn_generation *gen, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    uint64_t batch = bn_session_n_batch(engine->session);
    uint64_t n_passes = (gen->n_prompt + batch - 1) / batch + gen->n_predict;
    struct bn_prof_options options = {
        .level = (enum bn_prof_level)(BN_PROF_LAYER + o->profile_level),
        .n_threads = bn_session_n_threads(engine->session),
        .n_passes = (size_t)n_passes,
    };
    uint64_t n_rows = gen->draft.kind == BN_DRAFT_NONE ? 1 : 1 + (o->draft_max != 0 ? o->draft_max : 16);
    uint64_t n_events = bn_prof_room_for(bn_model_hparams(engine->model), options.level, n_passes,
                                         gen->n_prompt + gen->n_predict * n_rows);
    options.n_events = n_events < MAX_EVENTS ? (size_t)n_events : MAX_EVENTS;
    BN_TRY(bn_prof_open(out, &options, err));
    bn_status status = bn_session_set_profile(engine->session, *out, err);
    if (status != BN_OK) return status;
    (*out)->enabled = true;
    bn_prof_reset_epoch(*out);
    return BN_OK;
}

/* The phases of each token, and what is left of its time besides them. */
static void put_steps(bn_json *doc, const struct bn_generation *gen)
{
    static const char *const COLUMNS[] = {"token",     "embed_ns", "forward_ns", "logits_ns",
                                          "sample_ns", "other_ns", "total_ns"};
    bn_json_put_texts(doc, "step_columns", COLUMNS, BN_ARRAY_LEN(COLUMNS));
    bn_json *steps = bn_json_put_array(doc, "steps");
    for (size_t i = 0; i < gen->n_ids; i++) {
        const struct bn_step_timing *s = &gen->steps[i];
        uint64_t sum = s->embed_ns + s->forward_ns + s->head_ns + s->sample_ns;
        uint64_t other = gen->token_ns[i] > sum ? gen->token_ns[i] - sum : 0;
        const uint64_t row[] = {(uint64_t)gen->ids[i], s->embed_ns, s->forward_ns,   s->head_ns,
                                s->sample_ns,          other,       gen->token_ns[i]};
        bn_json_put_u64s(steps, NULL, row, BN_ARRAY_LEN(row));
    }
}

bn_status bn_run_profile_write(bn_prof *prof, const char *path, const struct bn_args *args,
                               const struct bn_run_engine *engine, const struct bn_generation *gen,
                               bn_error *err)
{
    struct bn_buf text = {.max = SIZE_MAX};
    bn_error why = {0};
    bn_json *doc = bn_json_new_object();
    BN_PUT(doc, BN_STRING("schema", BN_PROF_SCHEMA), BN_STRING("command", "bn-run generate"),
           BN_TIME("created", bn_clock_utc()));
    bn_cli_put_provenance(doc, NULL);
    (void)bn_cli_put_model(doc, args);
    BN_PUT(doc, BN_STRING("isa", bn_isa_name()), BN_U64("prompt_tokens", gen->n_prompt),
           BN_U64("decoded_tokens", gen->n_ids));
    put_steps(doc, gen);
    bn_status status = bn_prof_put(doc, prof, bn_model_hparams(engine->model), err);
    if (status == BN_OK) status = bn_json_write(doc, false, &text, err);
    if (status == BN_OK) status = bn_file_write_atomic(path, text.data, text.len, err);
    if (bn_prof_check(prof, &why) != BN_OK) bn_report_warning("the profile is not valid: %s", why.msg);
    bn_buf_release(&text);
    bn_json_free(doc);
    return status;
}
