/* SPDX-License-Identifier: MIT
 *
 * Ed25519 by libcrypto, and the PEM forms of its keys. They are fixed bytes followed by 32 bytes of key (RFC 8410), so
 * no ASN.1 parser sees a key file.
 */
#define _GNU_SOURCE /* memmem */
#include "lab/receipt/open.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"

#define KEY_BYTES 32u
#define MAX_PEM_BYTES 4096u
#define BEGIN "-----BEGIN "

struct bn_key {
    EVP_PKEY *pkey;
};

/* RFC 8410: SEQUENCE {{1.3.101.112}, BIT STRING of 32 bytes}, and SEQUENCE {version 0, {1.3.101.112}, OCTET STRING {OCTET
 * STRING of 32 bytes}}. */
static const struct form {
    const char *label;
    size_t n;
    unsigned char head[16];
} FORMS[] = {
    {"PUBLIC KEY", 12, {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00}},
    {"PRIVATE KEY",
     16,
     {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20}}};

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
    struct bn_key *key = *out = pkey == NULL ? NULL : bn_alloc(1, sizeof *key);
    if (key != NULL) key->pkey = pkey;
    if (key == NULL) EVP_PKEY_free(pkey);
    return key != NULL ? BN_OK : bn_fail(err, BN_ERR_NOMEM, "cannot make an Ed25519 key");
}

bn_status bn_key_generate(struct bn_key **out, bn_error *err)
{
    return wrap_key(out, EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), err);
}

bn_status bn_key_read(struct bn_key **out, bool private, const char *pem, size_t n, bn_error *err)
{
    const struct form *form = &FORMS[private];
    char *name = NULL, *header = NULL;
    unsigned char *der = NULL, raw[KEY_BYTES];
    long n_der = 0;
    *out = NULL;
    if (n > MAX_PEM_BYTES)
        return bn_fail(err, BN_ERR_LIMIT, "a key file of more than %u bytes", MAX_PEM_BYTES);
    BIO *bio = BIO_new_mem_buf(pem, (int)n);
    const char *first = memmem(pem, n, BEGIN, strlen(BEGIN));
    bool ok = first != NULL &&
              memmem(first + 1, n - (size_t)(first + 1 - pem), BEGIN, strlen(BEGIN)) == NULL && bio != NULL &&
              PEM_read_bio_ex(bio, &name, &header, &der, &n_der, PEM_FLAG_SECURE) == 1 &&
              strcmp(name, form->label) == 0 && (size_t)n_der == form->n + KEY_BYTES &&
              memcmp(der, form->head, form->n) == 0;
    if (ok) memcpy(raw, der + form->n, KEY_BYTES);
    OPENSSL_secure_free(name);
    OPENSSL_secure_free(header);
    OPENSSL_secure_clear_free(der, (size_t)n_der);
    BIO_free(bio);
    if (!ok) return bn_fail(err, BN_ERR_FORMAT, "not a PEM file with one Ed25519 %s", form->label);
    if (!private && has_small_order(raw)) return bn_fail(err, BN_ERR_FORMAT, "a public key of small order");
    bn_status status = wrap_key(out,
                                (private ? EVP_PKEY_new_raw_private_key : EVP_PKEY_new_raw_public_key)(
                                    EVP_PKEY_ED25519, NULL, raw, sizeof raw),
                                err);
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

bn_status bn_key_write(const struct bn_key *key, bool private, struct bn_buf *pem, bn_error *err)
{
    const struct form *form = &FORMS[private];
    unsigned char der[sizeof form->head + KEY_BYTES];
    size_t n = KEY_BYTES;
    memcpy(der, form->head, form->n);
    if (!private) BN_TRY(raw_public(key, der + form->n, err));
    if (private && EVP_PKEY_get_raw_private_key(key->pkey, der + form->n, &n) != 1)
        return bn_fail(err, BN_ERR_ARG, "not a private key");
    bn_buf_printf(pem, "-----BEGIN %s-----\n", form->label);
    bn_base64_encode(pem, der, form->n + KEY_BYTES);
    bn_buf_printf(pem, "\n-----END %s-----\n", form->label);
    explicit_bzero(der, sizeof der);
    return bn_buf_check(pem, err);
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
