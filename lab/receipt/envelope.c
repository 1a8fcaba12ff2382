/* SPDX-License-Identifier: MIT
 *
 * Signed envelopes (DSSE). An envelope has exactly the members that DSSE names: anything more could be taken
 * for signed.
 */
#include "lab/receipt/envelope.h"

#include "base/error.h"
#include "lab/receipt/receipt.h"

#define MAX_TYPE_BYTES 256u

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

bool bn_envelope_is(const bn_json *object)
{
    return bn_json_get(object, "payload") != NULL || bn_json_get(object, "signatures") != NULL;
}

/* Every member of an object is one of these. */
static bn_status check_members(const bn_json *object, const char *const *names, size_t n, const char *what,
                               bn_error *err)
{
    if (bn_json_kind(object) != BN_JSON_OBJECT)
        return bn_fail(err, BN_ERR_FORMAT, "%s is not an object", what);
    for (const bn_json *m = bn_json_first(object); m != NULL; m = bn_json_next(m)) {
        size_t i = 0;
        while (i < n && strcmp(bn_json_name(m), names[i]) != 0)
            i++;
        if (i == n) return bn_fail_in(err, BN_ERR_FORMAT, bn_json_name(m), "not a member of %s", what);
    }
    return BN_OK;
}

struct opening {
    struct bn_envelope *envelope;
    const struct bn_key *const *keys;
    size_t n_keys;
    bool good[BN_ENVELOPE_MAX_KEYS];
    struct bn_buf pae;
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
    for (size_t i = 0; status == BN_OK && i < o->n_keys; i++) {
        if (o->good[i]) continue;
        bn_status verified = bn_verify(o->keys[i], o->pae.data, o->pae.len, (unsigned char *)signature.data,
                                       signature.len, NULL);
        if (verified == BN_ERR_INTEGRITY) continue; /* lack of memory is not a wrong signature */
        if (verified != BN_OK) {
            status = bn_fail(o->err, verified, "out of memory");
            break;
        }
        o->good[i] = true;
        if (o->envelope->n_good++ == 0) status = bn_key_id(o->keys[i], o->envelope->key_id, o->err);
    }
    bn_buf_release(&signature);
    return status;
}

static bn_status check_envelope(struct opening *o, const bn_json *object)
{
    static const char *const MEMBERS[] = {"payload", "payloadType", "signatures"};
    const char *type = NULL, *payload = NULL;
    struct bn_envelope *e = o->envelope;
    const bn_json *signatures = bn_json_get(object, "signatures");
    BN_TRY(check_members(object, MEMBERS, BN_ARRAY_LEN(MEMBERS), "an envelope", o->err));
    if (!bn_json_string(bn_json_get(object, "payloadType"), &type) || strlen(type) > MAX_TYPE_BYTES)
        return bn_fail(o->err, BN_ERR_FORMAT, "an envelope without a payloadType");
    if (!bn_json_string(bn_json_get(object, "payload"), &payload))
        return bn_fail(o->err, BN_ERR_FORMAT, "an envelope without a payload");
    e->n_signatures = bn_json_size(signatures);
    if (bn_json_kind(signatures) != BN_JSON_ARRAY || e->n_signatures == 0)
        return bn_fail(o->err, BN_ERR_FORMAT, "an envelope without signatures");
    if (e->n_signatures > BN_ENVELOPE_MAX_SIGNATURES)
        return bn_fail(o->err, BN_ERR_LIMIT, "more than %u signatures", BN_ENVELOPE_MAX_SIGNATURES);
    BN_TRY(bn_base64_decode(&e->payload, payload, strlen(payload), o->err));
    bn_envelope_pae(&o->pae, type, bn_buf_text(&e->payload), e->payload.len);
    BN_TRY(bn_buf_check(&o->pae, o->err));
    for (const bn_json *entry = bn_json_first(signatures); entry != NULL; entry = bn_json_next(entry))
        BN_TRY(check_signature(o, entry));
    if (strcmp(type, BN_RECEIPT_PAYLOAD_TYPE) != 0)
        return bn_fail_in(o->err, BN_ERR_FORMAT, type, "a payloadType that is not an in-toto statement");
    return BN_OK;
}

bn_status bn_envelope_open(struct bn_envelope *envelope, const bn_json *object,
                           const struct bn_key *const *keys, size_t n_keys, bn_error *err)
{
    *envelope = (struct bn_envelope){.payload = {.max = BN_JSON_MAX_BYTES}};
    if (n_keys > BN_ENVELOPE_MAX_KEYS)
        return bn_fail(err, BN_ERR_LIMIT, "more than %u public keys", BN_ENVELOPE_MAX_KEYS);
    struct opening o = {.envelope = envelope,
                        .keys = keys,
                        .n_keys = n_keys,
                        .pae = {.max = 2 * BN_JSON_MAX_BYTES},
                        .err = err};
    bn_status status = check_envelope(&o, object);
    bn_buf_release(&o.pae);
    if (status != BN_OK) bn_envelope_release(envelope);
    return status;
}

void bn_envelope_release(struct bn_envelope *envelope)
{
    bn_buf_release(&envelope->payload);
    *envelope = (struct bn_envelope){.payload = {.max = BN_JSON_MAX_BYTES}};
}
