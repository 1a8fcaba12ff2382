/* SPDX-License-Identifier: MIT
 *
 * Ed25519 by libcrypto, and the PEM forms of its keys. They are fixed bytes followed by 32 bytes of key (RFC 8410), so
 * they are read and written here, and no ASN.1 parser sees a key file.
 */
#define _DEFAULT_SOURCE
#include "lab/receipt/keys.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"

#define KEY_BYTES 32u
#define MAX_PEM_BYTES 4096u

struct bn_key {
    EVP_PKEY *pkey;
};

/* RFC 8410: SEQUENCE {version 0, {1.3.101.112}, OCTET STRING {OCTET STRING of 32 bytes}}. */
static const unsigned char PKCS8_HEAD[16] = {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
                                             0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};
/* SEQUENCE {{1.3.101.112}, BIT STRING of 32 bytes}. */
static const unsigned char SPKI_HEAD[12] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                            0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

/* Points of small order, sign bit cleared: under such a key a signature says nothing, since one fits all. */
static const unsigned char SMALL_ORDER[7][KEY_BYTES] = {
    {0},
    {1},
    {0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
     0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05},
    {0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
     0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a},
    {0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
    {0xed, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
    {0xee, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
};

static bool has_small_order(const unsigned char raw[KEY_BYTES])
{
    unsigned char point[KEY_BYTES];
    memcpy(point, raw, KEY_BYTES);
    point[KEY_BYTES - 1] &= 0x7f;
    for (size_t i = 0; i < BN_ARRAY_LEN(SMALL_ORDER); i++)
        if (memcmp(point, SMALL_ORDER[i], KEY_BYTES) == 0) return true;
    return false;
}

/* Takes pkey over; it may be NULL, when libcrypto refused. */
static bn_status wrap_key(struct bn_key **out, EVP_PKEY *pkey, bn_error *err)
{
    *out = NULL;
    struct bn_key *key = pkey == NULL ? NULL : bn_alloc(1, sizeof *key);
    if (key == NULL) {
        EVP_PKEY_free(pkey);
        return bn_fail(err, BN_ERR_NOMEM, "cannot make an Ed25519 key");
    }
    key->pkey = pkey;
    *out = key;
    return BN_OK;
}

bn_status bn_key_generate(struct bn_key **out, bn_error *err)
{
    return wrap_key(out, EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), err);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The base64 between -----BEGIN label----- and its END, without line ends, appended to body. Only white space
 * may be before and after it. */
static bn_status pem_body(const char *pem, size_t n, const char *label, struct bn_buf *body, bn_error *err)
{
    char begin[48], end[48];
    snprintf(begin, sizeof begin, "-----BEGIN %s-----", label);
    snprintf(end, sizeof end, "-----END %s-----", label);
    enum { BEFORE, INSIDE, BEHIND } state = BEFORE;
    for (size_t at = 0; at < n;) {
        size_t stop = at;
        while (stop < n && pem[stop] != '\n')
            stop++;
        struct bn_str text = {pem + at, stop - at};
        while (text.len > 0 && is_blank(text.ptr[text.len - 1]))
            text.len--;
        if (state == BEFORE && bn_str_equal(text, begin))
            state = INSIDE;
        else if (state == INSIDE && bn_str_equal(text, end))
            state = BEHIND;
        else if (state == INSIDE)
            bn_buf_append(body, text.ptr, text.len);
        else if (text.len > 0)
            return bn_fail_at(err, BN_ERR_FORMAT, at, NULL, "not a PEM file with one %s", label);
        at = stop + 1;
    }
    if (state != BEHIND) return bn_fail(err, BN_ERR_FORMAT, "not a PEM file with one %s", label);
    return bn_buf_check(body, err);
}

static bn_status pem_key(const char *pem, size_t n, const char *label, const unsigned char *head,
                         size_t n_head, unsigned char raw[KEY_BYTES], bn_error *err)
{
    if (n > MAX_PEM_BYTES)
        return bn_fail(err, BN_ERR_LIMIT, "a key file of more than %u bytes", MAX_PEM_BYTES);
    struct bn_buf body = {.max = MAX_PEM_BYTES}, der = {.max = MAX_PEM_BYTES};
    bn_status status = pem_body(pem, n, label, &body, err);
    if (status == BN_OK) status = bn_base64_decode(&der, body.data, body.len, err);
    if (status == BN_OK && (der.len != n_head + KEY_BYTES || memcmp(der.data, head, n_head) != 0))
        status = bn_fail(err, BN_ERR_FORMAT, "not an Ed25519 %s", label);
    if (status == BN_OK) memcpy(raw, der.data + n_head, KEY_BYTES);
    if (body.data != NULL) explicit_bzero(body.data, body.len);
    if (der.data != NULL) explicit_bzero(der.data, der.len);
    bn_buf_release(&body);
    bn_buf_release(&der);
    return status;
}

bn_status bn_key_read_private(struct bn_key **out, const char *pem, size_t n, bn_error *err)
{
    *out = NULL;
    unsigned char raw[KEY_BYTES] = {0};
    bn_status status = pem_key(pem, n, "PRIVATE KEY", PKCS8_HEAD, sizeof PKCS8_HEAD, raw, err);
    if (status == BN_OK)
        status = wrap_key(out, EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, raw, sizeof raw), err);
    explicit_bzero(raw, sizeof raw);
    return status;
}

bn_status bn_key_read_public(struct bn_key **out, const char *pem, size_t n, bn_error *err)
{
    *out = NULL;
    unsigned char raw[KEY_BYTES] = {0};
    BN_TRY(pem_key(pem, n, "PUBLIC KEY", SPKI_HEAD, sizeof SPKI_HEAD, raw, err));
    if (has_small_order(raw)) return bn_fail(err, BN_ERR_FORMAT, "a public key of small order");
    return wrap_key(out, EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, raw, sizeof raw), err);
}

static bn_status write_pem(struct bn_buf *pem, const char *label, const unsigned char *head, size_t n_head,
                           const unsigned char raw[KEY_BYTES], bn_error *err)
{
    unsigned char der[sizeof PKCS8_HEAD + KEY_BYTES];
    memcpy(der, head, n_head);
    memcpy(der + n_head, raw, KEY_BYTES);
    bn_buf_printf(pem, "-----BEGIN %s-----\n", label);
    bn_base64_encode(pem, der, n_head + KEY_BYTES);
    bn_buf_printf(pem, "\n-----END %s-----\n", label);
    explicit_bzero(der, sizeof der);
    return bn_buf_check(pem, err);
}

bn_status bn_key_write_private(const struct bn_key *key, struct bn_buf *pem, bn_error *err)
{
    unsigned char raw[KEY_BYTES];
    size_t n = sizeof raw;
    if (EVP_PKEY_get_raw_private_key(key->pkey, raw, &n) != 1 || n != sizeof raw)
        return bn_fail(err, BN_ERR_ARG, "not a private key");
    bn_status status = write_pem(pem, "PRIVATE KEY", PKCS8_HEAD, sizeof PKCS8_HEAD, raw, err);
    explicit_bzero(raw, sizeof raw);
    return status;
}

static bn_status raw_public(const struct bn_key *key, unsigned char raw[KEY_BYTES], bn_error *err)
{
    size_t n = KEY_BYTES;
    if (EVP_PKEY_get_raw_public_key(key->pkey, raw, &n) != 1 || n != KEY_BYTES)
        return bn_fail(err, BN_ERR_INTERNAL, "a key without a public half");
    return BN_OK;
}

bn_status bn_key_write_public(const struct bn_key *key, struct bn_buf *pem, bn_error *err)
{
    unsigned char raw[KEY_BYTES];
    BN_TRY(raw_public(key, raw, err));
    return write_pem(pem, "PUBLIC KEY", SPKI_HEAD, sizeof SPKI_HEAD, raw, err);
}

bn_status bn_key_id(const struct bn_key *key, char id[17], bn_error *err)
{
    unsigned char raw[KEY_BYTES];
    char hex[BN_SHA256_HEX];
    BN_TRY(raw_public(key, raw, err));
    bn_sha256_hex(raw, sizeof raw, hex);
    memcpy(id, hex, 16);
    id[16] = '\0';
    return BN_OK;
}

bn_status bn_sign(const struct bn_key *key, const void *bytes, size_t n, unsigned char signature[64],
                  bn_error *err)
{
    unsigned char raw[KEY_BYTES];
    size_t n_signature = 64, n_raw = sizeof raw;
    bool is_private = EVP_PKEY_get_raw_private_key(key->pkey, raw, &n_raw) == 1;
    explicit_bzero(raw, sizeof raw);
    if (!is_private) return bn_fail(err, BN_ERR_ARG, "cannot sign with a public key");
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = ctx != NULL && EVP_DigestSignInit(ctx, NULL, NULL, NULL, key->pkey) == 1 &&
              EVP_DigestSign(ctx, signature, &n_signature, bytes, n) == 1 && n_signature == 64;
    EVP_MD_CTX_free(ctx);
    return ok ? BN_OK : bn_fail(err, BN_ERR_NOMEM, "out of memory: libcrypto cannot sign");
}

bn_status bn_verify(const struct bn_key *key, const void *bytes, size_t n, const unsigned char *signature,
                    size_t n_signature, bn_error *err)
{
    if (n_signature != 64)
        return bn_fail(err, BN_ERR_INTEGRITY, "a signature of %zu bytes instead of 64", n_signature);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (ctx == NULL || EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key->pkey) != 1) {
        EVP_MD_CTX_free(ctx);
        return bn_fail(err, BN_ERR_NOMEM, "cannot start a verification");
    }
    bool ok = EVP_DigestVerify(ctx, signature, n_signature, bytes, n) == 1;
    EVP_MD_CTX_free(ctx);
    return ok ? BN_OK : bn_fail(err, BN_ERR_INTEGRITY, "the signature does not verify");
}

void bn_key_close(struct bn_key *key)
{
    if (key == NULL) return;
    EVP_PKEY_free(key->pkey); /* wipes the private half */
    bn_free(key);
}
