/* SPDX-License-Identifier: MIT
 *
 * Puts the result into the receipt of a run with the same model and prompt. The receipt's own digest has to
 * hold before, and is made anew: sealing what was edited would turn a forgery into a receipt.
 */
#include "lab/receipt/receipt.h"

#include "base/error.h"
#include "tools/crossval/crossval.h"

static bn_status check(const struct bn_crossval *x, const bn_json *statement, bn_error *err)
{
    const char *claimed = NULL, *model = NULL, *prompt = NULL;
    char actual[BN_SHA256_HEX];
    if (!bn_json_string(bn_json_path(statement, "predicate.model.sha256"), &model) ||
        !bn_json_string(bn_json_path(statement, "predicate.request.prompt_ids_sha256"), &prompt) ||
        !bn_json_string(bn_json_get(statement, "receipt_sha256"), &claimed))
        return bn_hint(bn_fail(err, BN_ERR_FORMAT,
                               "is not a statement with digests of the model, of the prompt and of itself"),
                       err, "bn-run --receipt writes one; sign it afterwards");
    BN_TRY(bn_receipt_self_digest(statement, actual, err));
    if (strcmp(claimed, actual) != 0)
        return bn_fail(err, BN_ERR_INTEGRITY, "was changed: its own digest does not hold");
    if (strcmp(model, x->model_sha) != 0)
        return bn_fail(err, BN_ERR_MISMATCH, "is about another model than the one compared");
    if (strcmp(prompt, x->prompt_sha) == 0) return BN_OK;
    return bn_hint(
        bn_fail(err, BN_ERR_MISMATCH,
                "is about another prompt than the one compared: the ids have sha256 %.16s... and %.16s...",
                prompt, x->prompt_sha),
        err, "--tokens with the ids of its request.prompt_ids");
}

static bn_status add(const struct bn_crossval *x, bn_json *statement, const char *path, bn_error *err)
{
    BN_TRY(check(x, statement, err));
    bn_crossval_put_parity(x, (bn_json *)(uintptr_t)bn_json_get(statement, "predicate"));
    BN_TRY(bn_receipt_seal(statement, err));
    return bn_json_write_file(statement, path, err);
}

bn_status bn_crossval_add_to_receipt(const struct bn_crossval *x, const char *path, bn_error *err)
{
    bn_json *statement;
    BN_TRY(bn_json_read_file(&statement, path, err));
    bn_status status = add(x, statement, path, err);
    if (status != BN_OK) bn_error_name(err, path);
    bn_json_free(statement);
    return status;
}
