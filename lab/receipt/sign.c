/* SPDX-License-Identifier: MIT
 *
 * Signing receipts: the file of a private key, and the envelope around a statement. The text of a private key is wiped
 * from memory after use.
 */
#define _DEFAULT_SOURCE
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/receipt/envelope.h"
#include "lab/receipt/receipt.h"

bn_status bn_key_read_file(struct bn_key **key, const char *path, bn_error *err)
{
    *key = NULL;
    BN_TRY(bn_file_check_private(path, err));
    /* The whole room at once: growing would leave copies. */
    struct bn_buf pem = {.max = BN_KEY_MAX_BYTES, .room = BN_KEY_MAX_BYTES + 1};
    pem.data = bn_alloc(pem.room, 1);
    if (pem.data == NULL) return bn_nomem(err);
    bn_status status = bn_file_read(path, &pem, err);
    if (status == BN_OK) status = bn_key_read_private(key, pem.data, pem.len, err);
    explicit_bzero(pem.data, pem.room);
    bn_buf_release(&pem);
    bn_error_name(err, path);
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
