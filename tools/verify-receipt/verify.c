/* SPDX-License-Identifier: MIT
 *
 * bn-verify-receipt verify: one receipt and its replay.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "lab/verify/rules.h"
#include "tools/cli/ranks.h"
#include "tools/cli/report.h"
#include "tools/verify-receipt/verify_receipt.h"

/* ---- the replay ---- */

static bn_status replay(const struct bn_verify *v, struct bn_verify_subject *s, bn_error *err)
{
    bn_model *model = NULL;
    bn_error why = {0};
    BN_TRY(bn_isa_select(v->args->isa, err));
    BN_TRY(bn_model_open_memory(&model, s->model->bytes, s->model->n_bytes, s->model->name, NULL, err));
    bn_status status =
        bn_receipt_replay(&s->receipt, model, v->options->n_threads, v->options->n_batch, &s->replay, &why);
    bn_model_close(model);
    if (status == BN_ERR_NOMEM || status == BN_ERR_INTERNAL) return bn_fail(err, status, "%s", why.msg);
    if (status != BN_OK) bn_verify_refuse(s, &why);
    return bn_verify_finish(s, err);
}

static bn_status check(struct bn_verify *v, struct bn_verify_subject *s, bn_error *err)
{
    BN_TRY(bn_verify_check(v, s, NULL, err));
    return s->wants_replay ? replay(v, s, err) : BN_OK;
}

/* ---- one receipt ---- */

/* The operand, or --path. Whoever named neither may not know the default. */
static bn_status find_path(const struct bn_args *args, const char **path, bn_error *err)
{
    const struct bn_verify_options *o = args->fields;
    struct stat st;
    *path = args->n_operands > 0 ? args->operands[0] : o->path;
    if (stat(*path, &st) == 0 && S_ISDIR(st.st_mode))
        return bn_hint(bn_fail_in(err, BN_ERR_ARG, *path, "is a folder"), err,
                       "--batch FOLDER checks all receipts in it");
    if (args->n_operands > 0 || bn_args_given(args, &o->path) || access(*path, F_OK) == 0) return BN_OK;
    char name[96];
    snprintf(name, sizeof name, "%.60s (the default path)", *path);
    return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, name, "not found"), err, "bn-verify-receipt FILE");
}

/* Options that belong to a batch, and what a batch does not have. */
static bn_status check_options(struct bn_args *args, bn_error *err)
{
    const struct bn_verify_options *o = args->fields;
    char typed[BN_TYPED];
    if (args->n_operands > 1 && o->batch == NULL)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "%zu receipts are named, one is expected", args->n_operands),
                       err, "--batch FOLDER-OR-LIST checks several");
    if (o->batch == NULL) {
        const void *ALONE[] = {&o->n_sequences, &o->junit};
        for (size_t i = 0; i < BN_ARRAY_LEN(ALONE); i++)
            if (bn_args_given(args, ALONE[i]))
                return bn_fail(err, BN_ERR_ARG, "%s needs --batch", bn_args_typed(args, ALONE[i], typed));
        return BN_OK;
    }
    if (args->n_operands > 0) {
        bn_fail(err, BN_ERR_ARG, "--batch cannot be combined with the receipt %.80s", args->operands[0]);
        if (strspn(o->batch, "0123456789") == strlen(o->batch))
            bn_error_hint(err, "--prompt-batch %s sets how many tokens are evaluated together", o->batch);
        return BN_ERR_ARG;
    }
    return BN_OK;
}

/* ---- the command ---- */

static bn_status verify_one(struct bn_args *args, struct bn_verify *v, bn_error *err)
{
    struct bn_verify_subject s = {0};
    BN_TRY(find_path(args, &s.path, err));
    bn_status status = bn_verify_open(v, args, err);
    if (status == BN_OK) status = check(v, &s, err);
    args->exit_code = (int)s.report.exit_code;
    if (status == BN_OK) status = bn_verify_print(args, s.path, &s.receipt, &s.report, err);
    bn_receipt_release(&s.receipt);
    return status;
}

bn_status bn_verify_verify(struct bn_args *args, bn_error *err)
{
    const struct bn_verify_options *o = args->fields;
    struct bn_verify v = {0};
    BN_TRY(check_options(args, err));
    if (o->batch == NULL) BN_TRY(bn_cli_refuse_ranks(args, err));
    bn_status status = o->batch != NULL ? bn_verify_batch(args, &v, err) : verify_one(args, &v, err);
    bn_verify_close(&v);
    return status;
}
