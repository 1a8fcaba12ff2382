/* SPDX-License-Identifier: MIT
 *
 * Opens a receipt: JSON, envelope, statement, predicate.
 */
#include "lab/receipt/open.h"

#include "base/error.h"
#include "lab/receipt/receipt.h"

/* Anybody may write a receipt, so checking one takes at most ten times its size: the text, and a tree of
 * eight times the text. A short one may take 16 MiB. */
#define SHORT_TREE ((size_t)16 << 20)
#define TREE_PER_BYTE 8u

static bn_status parse(bn_json **out, const char *text, size_t n, bn_error *err)
{
    size_t most = n <= BN_JSON_MAX_BYTES ? TREE_PER_BYTE * n : 0;
    return bn_json_parse_within(out, text, n, most > SHORT_TREE ? most : SHORT_TREE, err);
}

/* root is a statement, or a predicate alone. */
static bn_status look_inside(struct bn_receipt *r, bool may_be_bare, bn_error *err)
{
    const char *type = NULL, *predicate_type = NULL;
    if (bn_json_kind(r->root) != BN_JSON_OBJECT) return bn_fail(err, BN_ERR_FORMAT, "a receipt is an object");
    if (bn_json_get(r->root, "_type") == NULL && bn_json_get(r->root, "predicateType") == NULL &&
        may_be_bare) {
        r->predicate = r->root;
        if (bn_json_text_is(r->root, "schema", BN_TRAINING_SCHEMA)) r->form = BN_RECEIPT_TRAINING;
        return BN_OK;
    }
    if (!bn_json_string(bn_json_get(r->root, "_type"), &type) || strcmp(type, BN_RECEIPT_STATEMENT_TYPE) != 0)
        return bn_fail(err, BN_ERR_FORMAT, "_type is not %s", BN_RECEIPT_STATEMENT_TYPE);
    if (!bn_json_string(bn_json_get(r->root, "predicateType"), &predicate_type) ||
        strcmp(predicate_type, BN_RECEIPT_PREDICATE_TYPE) != 0)
        return bn_fail(err, BN_ERR_FORMAT, "predicateType is not %s", BN_RECEIPT_PREDICATE_TYPE);
    r->statement = r->root;
    r->predicate = bn_json_get(r->root, "predicate");
    if (bn_json_kind(r->predicate) != BN_JSON_OBJECT)
        return bn_fail(err, BN_ERR_FORMAT, "a statement without a predicate");
    if (r->form == BN_RECEIPT_BARE) r->form = BN_RECEIPT_STATEMENT;
    return BN_OK;
}

/* Replaces the envelope in root by its payload's tree, if the signatures allow it. */
static bn_status unwrap(struct bn_receipt *r, const struct bn_receipt_keys *keys, bn_error *err)
{
    struct bn_envelope envelope;
    size_t threshold = keys->threshold == 0 ? 1 : keys->threshold;
    r->form = BN_RECEIPT_ENVELOPE;
    BN_TRY(bn_envelope_open(&envelope, r->root, keys->keys, keys->n, err));
    bn_json_free(r->root);
    r->root = NULL;
    r->n_keys = keys->n;
    r->n_signatures = envelope.n_signatures;
    r->n_good = envelope.n_good;
    memcpy(r->key_id, envelope.key_id, sizeof r->key_id);
    r->payload_unverified = r->n_good < threshold && keys->unverified;
    bn_status status = BN_OK;
    if (r->n_good >= threshold || keys->unverified)
        status = parse(&r->root, bn_buf_text(&envelope.payload), envelope.payload.len, err);
    bn_envelope_release(&envelope);
    return status;
}

/* A file that does not even begin like JSON is a mix-up of files: the parser's message about byte 0 would not
 * say so. */
static bn_status check_is_json(const char *text, size_t n, bn_error *err)
{
    size_t at = 0;
    while (at < n && strchr(" \t\r\n", text[at]) != NULL && text[at] != '\0')
        at++;
    if (at == n) return bn_fail(err, BN_ERR_FORMAT, "is empty; a receipt is a JSON object");
    if (text[at] != '{' && text[at] != '[')
        return bn_fail_at(err, BN_ERR_FORMAT, at, NULL, "is not JSON; a receipt is a JSON object");
    return BN_OK;
}

bn_status bn_receipt_open(struct bn_receipt *receipt, const char *text, size_t n,
                          const struct bn_receipt_keys *keys, bn_error *err)
{
    static const struct bn_receipt_keys none = {0};
    *receipt = (struct bn_receipt){0};
    BN_TRY(check_is_json(text, n, err));
    bn_status status = parse(&receipt->root, text, n, err);
    if (status == BN_OK && bn_envelope_is(receipt->root)) {
        status = unwrap(receipt, keys == NULL ? &none : keys, err);
        if (status == BN_OK && receipt->root == NULL) return BN_OK;
    }
    if (status == BN_OK) status = look_inside(receipt, receipt->form == BN_RECEIPT_BARE, err);
    if (status != BN_OK) bn_receipt_release(receipt);
    return status;
}

void bn_receipt_release(struct bn_receipt *receipt)
{
    bn_json_free(receipt->root);
    *receipt = (struct bn_receipt){0};
}
