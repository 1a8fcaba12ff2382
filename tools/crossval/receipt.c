/* SPDX-License-Identifier: MIT
 *
 * Puts the result into the receipt of a run with the same model. The receipt's own digest has to hold before,
 * and is made anew: sealing what was edited would turn a forgery into a receipt.
 */
#include "receipt/receipt.h"

#include "base/error.h"
#include "base/file.h"
#include "tools/crossval/crossval.h"

static bn_status check(const struct bn_crossval *x, const bn_json *statement, bn_error *err)
{
    const char *claimed = NULL, *model = NULL;
    char actual[BN_SHA256_HEX];
    if (!bn_json_string(bn_json_path(statement, "predicate.model.sha256"), &model) ||
        !bn_json_string(bn_json_get(statement, "receipt_sha256"), &claimed)) {
        bn_fail(err, BN_ERR_FORMAT, "is no statement with the model's digest and its own");
        bn_error_hint(err, "bn-run --receipt writes one; sign it afterwards");
        return BN_ERR_FORMAT;
    }
    BN_TRY(bn_receipt_self_digest(statement, actual, err));
    if (strcmp(claimed, actual) != 0)
        return bn_fail(err, BN_ERR_INTEGRITY, "was changed: its own digest does not hold");
    if (strcmp(model, x->model_sha) != 0)
        return bn_fail(err, BN_ERR_MISMATCH, "is about another model than the one compared");
    return BN_OK;
}

static bn_status add(const struct bn_crossval *x, bn_json *statement, const char *path, bn_error *err)
{
    struct bn_buf out = {.max = BN_JSON_MAX_BYTES};
    BN_TRY(check(x, statement, err));
    bn_crossval_put_parity(x, (bn_json *)(uintptr_t)bn_json_get(statement, "predicate"));
    BN_TRY(bn_receipt_seal(statement, err));
    bn_status status = bn_json_write(statement, false, &out, err);
    bn_buf_putc(&out, '\n');
    if (status == BN_OK) status = bn_buf_check(&out, err);
    if (status == BN_OK) status = bn_file_write_atomic(path, out.data, out.len, err);
    bn_buf_release(&out);
    return status;
}

bn_status bn_crossval_add_to_receipt(const struct bn_crossval *x, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bn_json *statement = NULL;
    bn_status status = bn_file_read(path, &text, err);
    if (status == BN_OK)
        status = bn_json_parse(&statement, text.data != NULL ? text.data : "", text.len, err);
    if (status == BN_OK) status = add(x, statement, path, err);
    if (status != BN_OK) bn_error_name(err, path);
    bn_json_free(statement);
    bn_buf_release(&text);
    return status;
}
