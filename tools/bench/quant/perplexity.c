/* SPDX-License-Identifier: MIT
 *
 * The perplexity of the model on a text, in each format that this engine runs: its own, T5, and those that bn-convert makes of
 * the file, with the ternary layers in blocks. The text is cut into windows; each token but the first of a window is scored.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "lab/compare/metrics.h"
#include "lab/kit/process.h"
#include "model/model.h"
#include "tools/bench/quant/quant.h"
#include "tools/cli/default_model.h"
#include "tools/cli/text.h"

#define WINDOW 256u
#define TOKENS_MAX 2048u
#define BATCH 64u
#define MAX_BYTES (64u << 20) /* of a model that is converted */
#define WAIT_NS 600000000000u /* for bn-convert */

struct text {
    int32_t *ids;
    size_t n;
};

struct form {
    const char *name;
    bool packed;    /* through T5 */
    const char *to; /* of bn-convert, for the layers; NULL: as stored */
};
static const struct form FORMS[] = {
    {"file", false, NULL},       {"T5", true, NULL},      {"TQ2_0", false, "tq2_0"},
    {"TQ1_0", false, "tq1_0"},   {"Q2_0", false, "q2_0"}, {"PQ2_0", false, "pq2_0"},
    {"PTQ1_0", false, "ptq1_0"},
};

static const bn_model_options PACKED = {.repack = BN_REPACK_ALWAYS}, PLAIN = {.repack = BN_REPACK_NEVER};

/* ---- scoring ---- */

static bool ran(const bn_session *session, const char *kernel)
{
    bn_kernel_stat k;
    for (size_t i = 0; bn_session_kernel_stat(session, i, &k); i++)
        if (strncmp(k.name, kernel, strlen(kernel)) == 0) return true;
    return false;
}

/* The mean negative log likelihood. T5 is what passes of one token read. */
static bn_status score(const bn_model *m, const struct text *text, bool packed, double *nll, bn_error *err)
{
    uint32_t n_ctx = bn_model_hparams(m)->n_ctx;
    bn_session_options options = {.n_ctx = n_ctx < WINDOW ? n_ctx : WINDOW, .n_batch = packed ? 1 : BATCH};
    bn_session *session = NULL;
    struct bn_score sum;
    bn_status status = bn_session_open(&session, m, &options, err);
    if (status == BN_OK) status = bn_score_text(&sum, session, m, text->ids, text->n, NULL, NULL, err);
    if (status == BN_OK) *nll = bn_score_nll(&sum);
    if (status == BN_OK && packed && !ran(session, "t5_"))
        status = bn_fail(err, BN_ERR_INTERNAL, "no T5 kernel ran");
    bn_session_close(session);
    return status;
}

/* ---- forms ---- */

/* A folder of this process: the model as a file, its copy in another format, and the record of the copy. */
struct place {
    char folder[64], own[80], copy[80], record[96];
};

static void leave(const struct place *p)
{
    unlink(p->own);
    unlink(p->copy);
    unlink(p->record);
    rmdir(p->folder);
}

static bn_status enter(struct place *p, const bn_model *plain, bn_error *err)
{
    snprintf(p->folder, sizeof p->folder, "/tmp/bn-bench-XXXXXX");
    if (mkdtemp(p->folder) == NULL) return bn_fail_errno(err, errno, p->folder, "cannot make a folder");
    snprintf(p->own, sizeof p->own, "%s/model.gguf", p->folder);
    snprintf(p->copy, sizeof p->copy, "%s/copy.gguf", p->folder);
    snprintf(p->record, sizeof p->record, "%s.json", p->copy);
    return bn_file_write_atomic(p->own, plain->bytes, plain->n_bytes, err);
}

/* bn-convert writes the copy. BN_ERR_UNSUPPORTED, with its message, when it refuses the model. */
static bn_status convert(const struct place *p, const char *to, bn_error *err)
{
    char program[PATH_MAX], ended[100];
    const char *argv[] = {program, "-q", p->own, "--to", to, "--round-scales", "-o", p->copy, NULL};
    struct bn_buf errors = {.max = 1u << 16};
    struct bn_process_options options = {.argv = argv, .errors = &errors, .timeout_ns = WAIT_NS};
    struct bn_process process;
    if (!bn_program_near(program, "", "bn-convert"))
        return bn_fail(err, BN_ERR_UNSUPPORTED, "bn-convert is not next to this program");
    unlink(p->copy);
    unlink(p->record);
    bn_status status = bn_process_run(&process, &options, err);
    const char *message = strstr(bn_buf_text(&errors), ": model.gguf: ");
    if (status == BN_OK && (process.end != BN_PROCESS_EXITED || process.code != 0)) {
        bn_process_describe(ended, sizeof ended, &process);
        message = message != NULL ? message + strlen(": model.gguf: ") : ended;
        status = bn_fail(err, message == ended ? BN_ERR_MISMATCH : BN_ERR_UNSUPPORTED, "%.*s",
                         (int)strcspn(message, "\n"), message);
    }
    bn_buf_release(&errors);
    return status;
}

/* Opens the model in a form, scores it, closes it. *n_bytes: of its file. */
static bn_status score_form(const struct bn_harness *h, const struct form *form, const bn_model *plain,
                            const struct text *text, double *nll, size_t *n_bytes, bn_error *err)
{
    struct place place = {0};
    bn_model *m = NULL;
    bn_status status;
    *n_bytes = plain->n_bytes;
    if (form->packed) {
        status = bn_cli_open_model(&m, h->args, &PACKED, err);
        if (status == BN_OK && m->packed_bytes == 0)
            status = bn_fail(err, BN_ERR_UNSUPPORTED, "this model has no T5 form");
    } else if (form->to == NULL) {
        return score(plain, text, false, nll, err);
    } else if (plain->n_bytes > MAX_BYTES) {
        return bn_fail(err, BN_ERR_UNSUPPORTED, "models of more than %u MiB are not converted",
                       MAX_BYTES >> 20);
    } else {
        status = enter(&place, plain, err);
        if (status == BN_OK) status = convert(&place, form->to, err);
        if (status == BN_OK) status = bn_model_open(&m, place.copy, &PLAIN, err);
        if (status == BN_OK) *n_bytes = m->n_bytes;
    }
    if (status == BN_OK) status = score(m, text, form->packed, nll, err);
    bn_model_close(m);
    if (form->to != NULL) leave(&place);
    return status;
}

/* A row; why is the reason when the model cannot have this form. */
static void put_row(struct bn_table *t, const struct form *form, double nll, double own, size_t n_bytes,
                    const char *why)
{
    bn_table_row(t, "");
    bn_table_text(t, form->name);
    bn_table_value(t, isnan(nll) ? nll : (double)n_bytes, "bytes");
    bn_table_printf(t, isnan(nll) ? "-" : "%.5f", exp(nll));
    bn_table_printf(t, isnan(nll) ? "-" : "%+.4f %%", 100 * expm1(nll - own));
    if (isnan(nll)) bn_table_text(t, why);
}

static bn_status put_form(struct bn_harness *h, const struct form *form, const bn_model *plain,
                          const struct text *text, double *own, bn_error *err)
{
    char test[64];
    bn_error why = {0};
    size_t n_bytes = 0;
    double nll = (double)NAN;
    snprintf(test, sizeof test, "perplexity %s", form->name);
    bn_json *o = bn_harness_test(h, test);
    bn_json_put_string(o, "format", form->name);
    bn_json_put_u64(o, "tokens", text->n);
    bn_status status = score_form(h, form, plain, text, &nll, &n_bytes, &why);
    if (status == BN_OK && isnan(*own)) *own = nll;
    if (status == BN_OK || status == BN_ERR_UNSUPPORTED)
        put_row(&h->table, form, nll, *own, n_bytes, why.msg);
    else if (err != NULL)
        *err = why;
    if (status == BN_ERR_UNSUPPORTED) bn_harness_judge(h, o, BN_BENCH_SKIPPED, why.msg);
    if (status != BN_OK) return status == BN_ERR_UNSUPPORTED ? BN_OK : status;
    bn_json_put_u64(o, "file_bytes", n_bytes);
    if (form->packed)
        bn_harness_state(h, o, "same_as_own", !(nll < *own || nll > *own));
    else
        bn_harness_judge(h, o, BN_BENCH_VALID, NULL);
    return bn_harness_put_value(h, test, "perplexity", exp(nll), err);
}

static bn_status measure(struct bn_harness *h, const bn_model *plain, const struct text *text, bn_error *err)
{
    static const char *const HEADS[] = {"form", "file", "perplexity", "change", ""};
    double own = (double)NAN;
    BN_TRY(bn_harness_table(h, HEADS, "lrrrn", err));
    for (size_t i = 0; i < BN_ARRAY_LEN(FORMS); i++)
        BN_TRY(put_form(h, &FORMS[i], plain, text, &own, err));
    return BN_OK;
}

bn_status bn_quant_perplexity(struct bn_harness *h, bn_error *err)
{
    struct text text = {0};
    bn_model *plain = NULL;
    if (h->o->text == NULL) {
        bn_harness_skip(h, "perplexity", "no text was given (--text FILE)");
        return BN_OK;
    }
    bn_status status = bn_cli_open_model(&plain, h->args, &PLAIN, err);
    if (status == BN_OK)
        status = bn_harness_read_text(plain, h->o->text, TOKENS_MAX, &text.ids, &text.n, NULL, err);
    if (status == BN_OK) status = measure(h, plain, &text, err);
    bn_free(text.ids);
    bn_model_close(plain);
    return status;
}
