/* SPDX-License-Identifier: MIT
 *
 * lab/receipt/keys.c: published vectors, strictness of key files.
 */
#include "base/digest.h"
#include "lab/receipt/open.h"
#include "tests/unit/status.h"

static size_t from_hex(unsigned char *out, const char *hex)
{
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned byte = 0;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        out[i] = (unsigned char)byte;
    }
    return n;
}

/* A key file from an RFC 8410 head and 32 bytes, both in hex. */
static void make_pem(struct bn_buf *pem, const char *label, const char *head, const char *raw)
{
    unsigned char der[80];
    size_t n = from_hex(der, head);
    n += from_hex(der + n, raw);
    bn_buf_printf(pem, "-----BEGIN %s-----\n", label);
    bn_base64_encode(pem, der, n);
    bn_buf_printf(pem, "\n-----END %s-----\n", label);
}

#define PKCS8 "302e020100300506032b657004220420"
#define SPKI "302a300506032b6570032100"

static const struct {
    const char *secret, *public, *message, *signature;
} RFC8032[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
    {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"}};

static struct bn_key *public_key(const char *raw)
{
    struct bn_buf pem = {.max = 1000};
    struct bn_key *key;
    make_pem(&pem, "PUBLIC KEY", SPKI, raw);
    must(bn_key_read(&key, false, pem.data, pem.len, NULL));
    bn_buf_release(&pem);
    return key;
}

TEST(ed25519_vectors)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(RFC8032); i++) {
        struct bn_buf pem = {.max = 1000}, again = {.max = 1000};
        struct bn_key *secret, *public = public_key(RFC8032[i].public);
        unsigned char message[8], want[64], got[64];
        size_t n = from_hex(message, RFC8032[i].message);
        from_hex(want, RFC8032[i].signature);
        make_pem(&pem, "PRIVATE KEY", PKCS8, RFC8032[i].secret);
        must(bn_key_read(&secret, true, pem.data, pem.len, NULL));
        must(bn_sign(secret, message, n, got, NULL));
        assert_memory_equal(got, want, 64);
        must(bn_verify(public, message, n, got, 64, NULL));
        must(bn_verify(secret, message, n, got, 64, NULL));
        must(bn_key_write(secret, true, &again, NULL));
        assert_string_equal(again.data, pem.data);
        refused(bn_key_write(public, true, &again, NULL), BN_ERR_ARG);
        refused(bn_sign(public, message, n, got, NULL), BN_ERR_ARG);
        bn_key_close(secret);
        bn_key_close(public);
        bn_buf_release(&pem);
        bn_buf_release(&again);
    }
}

TEST(ed25519_refuses_every_flipped_bit)
{
    struct bn_key *key = public_key(RFC8032[2].public);
    unsigned char message[2], signature[65] = {0};
    from_hex(message, RFC8032[2].message);
    from_hex(signature, RFC8032[2].signature);
    for (size_t bit = 0; bit < 512; bit++) {
        signature[bit / 8] ^= (unsigned char)(1u << bit % 8);
        refused(bn_verify(key, message, 2, signature, 64, NULL), BN_ERR_INTEGRITY);
        signature[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    for (size_t bit = 0; bit < 16; bit++) {
        message[bit / 8] ^= (unsigned char)(1u << bit % 8);
        refused(bn_verify(key, message, 2, signature, 64, NULL), BN_ERR_INTEGRITY);
        message[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    refused(bn_verify(key, message, 2, signature, 63, NULL), BN_ERR_INTEGRITY);
    refused(bn_verify(key, message, 2, signature, 65, NULL), BN_ERR_INTEGRITY);
    must(bn_verify(key, message, 2, signature, 64, NULL));
    bn_key_close(key);
}

/* S + L verifies under the equation, and has to be refused by its size (RFC 8032, 5.1.7). */
TEST(ed25519_is_not_malleable)
{
    unsigned char order[32], signature[64], message[2];
    from_hex(order, "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
    from_hex(signature, RFC8032[2].signature);
    from_hex(message, RFC8032[2].message);
    unsigned carry = 0;
    for (size_t i = 0; i < 32; i++) {
        carry += (unsigned)signature[32 + i] + order[i];
        signature[32 + i] = (unsigned char)(carry & 255);
        carry >>= 8;
    }
    struct bn_key *key = public_key(RFC8032[2].public);
    refused(bn_verify(key, message, 2, signature, 64, NULL), BN_ERR_INTEGRITY);
    bn_key_close(key);
}

TEST(generated_keys_work_and_have_an_id)
{
    struct bn_key *key, *public;
    struct bn_buf pem = {.max = 1000};
    unsigned char signature[64];
    char id[17], same[17], hex[BN_SHA256_HEX];
    must(bn_key_generate(&key, NULL));
    must(bn_key_write(key, false, &pem, NULL));
    must(bn_key_read(&public, false, pem.data, pem.len, NULL));
    must(bn_sign(key, "text", 4, signature, NULL));
    must(bn_verify(public, "text", 4, signature, 64, NULL));
    refused(bn_verify(public, "tex", 3, signature, 64, NULL), BN_ERR_INTEGRITY);
    must(bn_key_id(key, id, NULL));
    must(bn_key_id(public, same, NULL));
    assert_string_equal(id, same);
    bn_key_close(key);
    bn_key_close(public);
    bn_buf_release(&pem);
    public = public_key(RFC8032[0].public);
    unsigned char raw[32];
    from_hex(raw, RFC8032[0].public);
    bn_sha256_hex(raw, 32, hex);
    must(bn_key_id(public, id, NULL));
    assert_memory_equal(id, hex, 16);
    bn_key_close(public);
}

static void refuse_public(const char *pem, size_t n, bn_status want)
{
    struct bn_key *key;
    refused(bn_key_read(&key, false, pem, n, &err), want);
    assert_null(key);
    assert_true(err.msg[0] != '\0');
}

TEST(key_files_are_read_strictly)
{
    static const char GOOD[] =
        "-----BEGIN PUBLIC KEY-----\r\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlr\n"
        "wIaaPcHURo=\n-----END PUBLIC KEY-----\n\n";
    struct bn_key *key;
    must(bn_key_read(&key, false, GOOD, strlen(GOOD), NULL));
    bn_key_close(key);
    for (size_t n = 0; n + 3 < strlen(GOOD); n++)
        refuse_public(GOOD, n, BN_ERR_FORMAT);
    static const char *const BAD[] = {
        "text", "x-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----\n",
        "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n",
        /* one byte too few, P-256's identifier, a private key */
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHUQ==\n-----END PUBLIC KEY-----\n",
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VxAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n",
        "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n"};
    for (size_t i = 0; i < BN_ARRAY_LEN(BAD); i++)
        refuse_public(BAD[i], strlen(BAD[i]), BN_ERR_FORMAT);
    static char large[5000];
    memset(large, '\n', sizeof large);
    refuse_public(large, sizeof large, BN_ERR_LIMIT);
}

TEST(keys_of_small_order_are_refused)
{
    static const char *const POINTS[] = {"0000000000000000000000000000000000000000000000000000000000000000",
                                         "0100000000000000000000000000000000000000000000000000000000000080",
                                         "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
                                         "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
                                         "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"};
    for (size_t i = 0; i < BN_ARRAY_LEN(POINTS); i++) {
        struct bn_buf pem = {.max = 1000};
        make_pem(&pem, "PUBLIC KEY", SPKI, POINTS[i]);
        refuse_public(pem.data, pem.len, BN_ERR_FORMAT);
        bn_buf_release(&pem);
    }
}
