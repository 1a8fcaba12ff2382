/* SPDX-License-Identifier: MIT
 *
 * Signing receipts: the file of a private key, and the envelope around a statement. The text of a private key is wiped
 * from memory after use.
 */
#define _DEFAULT_SOURCE
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/receipt/open.h"
#include "lab/receipt/receipt.h"

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
