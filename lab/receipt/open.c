/* SPDX-License-Identifier: MIT
 *
 * Opens a receipt: JSON, envelope, statement, predicate. An envelope has exactly the members that DSSE names: anything
 * more could be taken for signed.
 */
#define _DEFAULT_SOURCE
#include "lab/receipt/open.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/receipt/receipt.h"

/* Anybody may write a receipt, so checking one takes at most ten times its size: the text, and a tree of
 * eight times the text. A short one may take 16 MiB. */
#define SHORT_TREE ((size_t)16 << 20)
#define TREE_PER_BYTE 8u
#define MAX_TYPE_BYTES 256u

static bn_status parse(bn_json **out, const char *text, size_t n, bn_error *err)
{
    size_t most = n <= BN_JSON_MAX_BYTES ? TREE_PER_BYTE * n : 0;
    return bn_json_parse_within(out, text, n, most > SHORT_TREE ? most : SHORT_TREE, err);
}

/* root is a statement, or a predicate alone. */
static bn_status look_inside(struct bn_receipt *r, bool may_be_bare, bool may_be_release, bn_error *err)
{
    const char *type = NULL;
    if (bn_json_kind(r->root) != BN_JSON_OBJECT) return bn_fail(err, BN_ERR_FORMAT, "a receipt is an object");
    if (bn_json_get(r->root, "_type") == NULL && bn_json_get(r->root, "predicateType") == NULL &&
        may_be_bare) {
        r->predicate = r->root;
        if (bn_json_text_is(r->root, "schema", BN_TRAINING_SCHEMA)) r->form = BN_RECEIPT_TRAINING;
        return BN_OK;
    }
    if (!bn_json_string(bn_json_get(r->root, "_type"), &type) || strcmp(type, BN_RECEIPT_STATEMENT_TYPE) != 0)
        return bn_fail(err, BN_ERR_FORMAT, "_type is not %s", BN_RECEIPT_STATEMENT_TYPE);
    bool release = bn_json_text_is(r->root, "predicateType", BN_PROVENANCE_TYPE);
    if (release && !may_be_release)
        return bn_hint(bn_fail(err, BN_ERR_FORMAT, "is the provenance of a release, not a receipt"), err,
                       "bn-verify-receipt FILE --public-key KEY --files DIR");
    if (!release && !bn_json_text_is(r->root, "predicateType", BN_RECEIPT_PREDICATE_TYPE))
        return bn_fail(err, BN_ERR_FORMAT, "predicateType is not %s", BN_RECEIPT_PREDICATE_TYPE);
    r->statement = r->root;
    r->predicate = bn_json_get(r->root, "predicate");
    if (bn_json_kind(r->predicate) != BN_JSON_OBJECT)
        return bn_fail(err, BN_ERR_FORMAT, "a statement without a predicate");
    if (r->form == BN_RECEIPT_BARE) r->form = BN_RECEIPT_STATEMENT;
    return BN_OK;
}

/* ---- envelopes ---- */

/* Every member of an object is one of these. */
static bn_status check_members(const bn_json *object, const char *const *names, size_t n, const char *what,
                               bn_error *err)
{
    if (bn_json_kind(object) != BN_JSON_OBJECT)
        return bn_fail(err, BN_ERR_FORMAT, "%s is not an object", what);
    for (const bn_json *m = bn_json_first(object); m != NULL; m = bn_json_next(m))
        if (bn_find_text(names, n, sizeof *names, bn_json_name(m)) == n)
            return bn_fail_in(err, BN_ERR_FORMAT, bn_json_name(m), "not a member of %s", what);
    return BN_OK;
}

struct opening {
    struct bn_receipt *r;
    const struct bn_receipt_keys *keys;
    bool good[BN_ENVELOPE_MAX_KEYS];
    struct bn_buf pae, payload;
    bn_error *err;
};

/* One signature: every key is tried, since the keyid proves nothing. */
static bn_status check_signature(struct opening *o, const bn_json *entry)
{
    static const char *const MEMBERS[] = {"keyid", "sig"};
    const char *text = NULL;
    struct bn_buf signature = {.max = 256};
    BN_TRY(check_members(entry, MEMBERS, BN_ARRAY_LEN(MEMBERS), "a signature", o->err));
    const bn_json *key_id = bn_json_get(entry, "keyid");
    if (key_id != NULL && bn_json_kind(key_id) != BN_JSON_STRING)
        return bn_fail(o->err, BN_ERR_FORMAT, "a keyid that is not a text");
    if (!bn_json_string(bn_json_get(entry, "sig"), &text))
        return bn_fail(o->err, BN_ERR_FORMAT, "a signature without sig");
    bn_status status = bn_base64_decode(&signature, text, strlen(text), o->err);
    for (size_t i = 0; status == BN_OK && i < o->keys->n; i++) {
        const struct bn_key *key = o->keys->keys[i];
        if (o->good[i]) continue;
        bn_status verified =
            bn_verify(key, o->pae.data, o->pae.len, (unsigned char *)signature.data, signature.len, NULL);
        if (verified == BN_ERR_INTEGRITY) continue;
        if (verified != BN_OK) /* lack of memory is not a wrong signature */
            status = bn_fail(o->err, verified, "out of memory");
        else if (o->r->n_good++ == 0)
            status = bn_key_id(key, o->r->key_id, o->err);
        o->good[i] = true;
    }
    bn_buf_release(&signature);
    return status;
}

static bn_status check_envelope(struct opening *o, const bn_json *object)
{
    static const char *const MEMBERS[] = {"payload", "payloadType", "signatures"};
    const char *type = NULL, *payload = NULL;
    const bn_json *signatures = bn_json_get(object, "signatures");
    if (o->keys->n > BN_ENVELOPE_MAX_KEYS)
        return bn_fail(o->err, BN_ERR_LIMIT, "more than %u public keys", BN_ENVELOPE_MAX_KEYS);
    BN_TRY(check_members(object, MEMBERS, BN_ARRAY_LEN(MEMBERS), "an envelope", o->err));
    if (!bn_json_string(bn_json_get(object, "payloadType"), &type) || strlen(type) > MAX_TYPE_BYTES)
        return bn_fail(o->err, BN_ERR_FORMAT, "an envelope without a payloadType");
    if (!bn_json_string(bn_json_get(object, "payload"), &payload))
        return bn_fail(o->err, BN_ERR_FORMAT, "an envelope without a payload");
    o->r->n_signatures = bn_json_size(signatures);
    if (bn_json_kind(signatures) != BN_JSON_ARRAY || o->r->n_signatures == 0)
        return bn_fail(o->err, BN_ERR_FORMAT, "an envelope without signatures");
    if (o->r->n_signatures > BN_ENVELOPE_MAX_SIGNATURES)
        return bn_fail(o->err, BN_ERR_LIMIT, "more than %u signatures", BN_ENVELOPE_MAX_SIGNATURES);
    BN_TRY(bn_base64_decode(&o->payload, payload, strlen(payload), o->err));
    bn_envelope_pae(&o->pae, type, bn_buf_text(&o->payload), o->payload.len);
    BN_TRY(bn_buf_check(&o->pae, o->err));
    for (const bn_json *entry = bn_json_first(signatures); entry != NULL; entry = bn_json_next(entry))
        BN_TRY(check_signature(o, entry));
    if (strcmp(type, BN_RECEIPT_PAYLOAD_TYPE) != 0)
        return bn_fail_in(o->err, BN_ERR_FORMAT, type, "a payloadType that is not an in-toto statement");
    return BN_OK;
}

/* Replaces the envelope in root by its payload's tree, if the signatures allow it. */
static bn_status unwrap(struct bn_receipt *r, const struct bn_receipt_keys *keys, bn_error *err)
{
    struct opening o = {.r = r,
                        .keys = keys,
                        .pae = {.max = 2 * BN_JSON_MAX_BYTES},
                        .payload = {.max = BN_JSON_MAX_BYTES},
                        .err = err};
    bn_json *envelope = r->root;
    r->form = BN_RECEIPT_ENVELOPE;
    r->root = NULL;
    r->n_keys = keys->n;
    bn_status status = check_envelope(&o, envelope);
    bool enough = r->n_good >= (keys->threshold == 0 ? 1 : keys->threshold);
    r->payload_unverified = !enough && keys->unverified;
    bn_json_free(envelope);
    if (status == BN_OK && (enough || keys->unverified))
        status = parse(&r->root, bn_buf_text(&o.payload), o.payload.len, err);
    bn_buf_release(&o.pae);
    bn_buf_release(&o.payload);
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
    if (keys == NULL) keys = &none;
    BN_TRY(check_is_json(text, n, err));
    bn_status status = parse(&receipt->root, text, n, err);
    if (status == BN_OK &&
        (bn_json_get(receipt->root, "payload") != NULL || bn_json_get(receipt->root, "signatures") != NULL)) {
        status = unwrap(receipt, keys, err);
        if (status == BN_OK && receipt->root == NULL) return BN_OK;
    }
    if (status == BN_OK) status = look_inside(receipt, receipt->form == BN_RECEIPT_BARE, keys->release, err);
    if (status != BN_OK) bn_receipt_release(receipt);
    return status;
}

void bn_receipt_release(struct bn_receipt *receipt)
{
    bn_json_free(receipt->root);
    *receipt = (struct bn_receipt){0};
}

/* ---- signing ---- */

bn_status bn_key_read_file(struct bn_key **key, const char *path, bn_error *err)
{
    *key = NULL;
    BN_TRY(bn_file_check_private(path, err));
    char secret[BN_KEY_MAX_BYTES + 1]; /* growing would leave copies */
    struct bn_buf pem = {.data = secret, .max = BN_KEY_MAX_BYTES, .room = sizeof secret};
    bn_status status = bn_file_read(path, &pem, err);
    if (status == BN_OK) status = bn_key_read(key, true, pem.data, pem.len, err);
    explicit_bzero(secret, sizeof secret);
    bn_error_name(err, path);
    return status;
}

void bn_envelope_pae(struct bn_buf *out, const char *type, const void *payload, size_t n)
{
    bn_buf_printf(out, "DSSEv1 %zu %s %zu ", strlen(type), type, n);
    bn_buf_append(out, payload, n);
}

static void put_base64(bn_json *object, const char *name, const void *bytes, size_t n, struct bn_buf *text)
{
    text->len = 0;
    bn_buf_append(text, "", 0); /* terminates it */
    bn_base64_encode(text, bytes, n);
    bn_json_put_string(object, name, text->data);
}

bn_status bn_envelope_sign(struct bn_buf *out, const struct bn_key *key, const char *type,
                           const void *payload, size_t n, bn_error *err)
{
    struct bn_buf work = {.max = 2 * BN_JSON_MAX_BYTES};
    unsigned char signature[64];
    char key_id[17];
    bn_envelope_pae(&work, type, payload, n);
    bn_status status = bn_buf_check(&work, err);
    if (status == BN_OK) status = bn_sign(key, work.data, work.len, signature, err);
    if (status == BN_OK) status = bn_key_id(key, key_id, err);
    if (status == BN_OK) {
        bn_json *envelope = bn_json_new_object();
        bn_json_put_string(envelope, "payloadType", type);
        put_base64(envelope, "payload", payload, n, &work);
        bn_json *entry = bn_json_add_object(bn_json_put_array(envelope, "signatures"));
        bn_json_put_string(entry, "keyid", key_id);
        put_base64(entry, "sig", signature, sizeof signature, &work);
        status = bn_buf_check(&work, err);
        if (status == BN_OK) status = bn_json_write_line(envelope, false, out, err);
        bn_json_free(envelope);
    }
    bn_buf_release(&work);
    return status;
}

bn_status bn_receipt_sign(struct bn_buf *envelope, const bn_json *statement, const struct bn_key *key,
                          bn_error *err)
{
    struct bn_buf payload = {.max = BN_JSON_MAX_BYTES};
    bn_status status = bn_json_write(statement, true, &payload, err);
    if (status == BN_OK)
        status = bn_envelope_sign(envelope, key, BN_RECEIPT_PAYLOAD_TYPE, payload.data, payload.len, err);
    bn_buf_release(&payload);
    return status;
}
