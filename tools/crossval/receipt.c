/* SPDX-License-Identifier: MIT
 *
 * Puts the result into the receipt of a run with the same model and prompt. The receipt's own digest has to
 * hold before, and is made anew: sealing what was edited would turn a forgery into a receipt.
 */
#include "lab/receipt/receipt.h"

#include "base/error.h"
#include "tools/crossval/crossval.h"

/* The prompt of the receipt as an option, where that fits into a hint. */
static void hint_tokens(const bn_json *ids, bn_error *err)
{
    struct bn_buf text = {.max = 130};
    uint64_t id;
    for (const bn_json *e = bn_json_first(ids); e != NULL; e = bn_json_next(e))
        if (bn_json_u64(e, &id))
            bn_buf_printf(&text, "%s%llu", text.len > 0 ? "," : "", (unsigned long long)id);
    if (text.len > 0 && !text.failed)
        bn_error_hint(err, "--tokens %s", text.data);
    else
        bn_error_hint(err, "--tokens with the ids of its request.prompt_ids");
    bn_buf_release(&text);
}

static bn_status check(const struct bn_crossval *x, const bn_json *statement, bn_error *err)
{
    const char *claimed = NULL, *model = NULL, *prompt = NULL;
    const bn_json *ids = bn_json_path(statement, "predicate.request.prompt_ids");
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
    bn_fail(err, BN_ERR_MISMATCH,
            "is about another prompt than the one compared: the ids have sha256 %.16s... and %.16s...",
            prompt, x->prompt_sha);
    hint_tokens(ids, err);
    return BN_ERR_MISMATCH;
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
