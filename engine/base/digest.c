/* SPDX-License-Identifier: MIT
 *
 * SHA-256, a checksum, base64. The digests are libcrypto's functions below EVP: they search for no algorithm, allocate
 * nothing (the checksum: one block, when it is opened) and cannot fail. So they need no memory when memory is short, and
 * the library leaves the OpenSSL of the host program as it is. The SHA-256 functions are deprecated since OpenSSL 3.0,
 * which has no other ones of this kind. OpenSSL owns many names that begin with BN_: only these two headers are included.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/digest.h"

#include <openssl/modes.h>
#include <openssl/sha.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"

/* ---- SHA-256 ---- */

_Static_assert(sizeof(struct bn_sha256) == sizeof(SHA256_CTX), "the size of libcrypto's state");

void bn_sha256_begin(struct bn_sha256 *sha)
{
    SHA256_Init((SHA256_CTX *)sha->state);
}

void bn_sha256_update(struct bn_sha256 *sha, const void *bytes, size_t n)
{
    SHA256_Update((SHA256_CTX *)sha->state, bytes, n);
}

void bn_sha256_take(struct bn_sha256 *sha, unsigned char digest[BN_SHA256_BYTES])
{
    SHA256_Final(digest, (SHA256_CTX *)sha->state);
    bn_sha256_begin(sha);
}

void bn_sha256_take_hex(struct bn_sha256 *sha, char hex[BN_SHA256_HEX])
{
    unsigned char digest[BN_SHA256_BYTES];
    bn_sha256_take(sha, digest);
    bn_hex(hex, digest, sizeof digest);
}

void bn_sha256_hex(const void *bytes, size_t n, char hex[BN_SHA256_HEX])
{
    struct bn_sha256 sha;
    bn_sha256_begin(&sha);
    bn_sha256_update(&sha, bytes, n);
    bn_sha256_take_hex(&sha, hex);
}

/* ---- checksum: AES-GCM with nothing to encrypt, so that all bytes are authenticated data ---- */

struct bn_checksum {
    GCM128_CONTEXT *gcm;
};

/* AES-128 under the key 0 of the only two blocks that are encrypted: 0, and 1 as a big-endian number, which is the first
 * counter of the initialisation vector 0. */
static void two_blocks(const unsigned char in[16], unsigned char out[16], const void *key)
{
    static const unsigned char OF[2][16] = {
        {0x66, 0xe9, 0x4b, 0xd4, 0xef, 0x8a, 0x2c, 0x3b, 0x88, 0x4c, 0xfa, 0x59, 0xca, 0x34, 0x2b, 0x2e},
        {0x58, 0xe2, 0xfc, 0xce, 0xfa, 0x7e, 0x30, 0x61, 0x36, 0x7f, 0x1d, 0x57, 0xa4, 0xe7, 0x45, 0x5a}};
    (void)key;
    memcpy(out, OF[in[15] & 1], sizeof OF[0]);
}

static void begin_checksum(struct bn_checksum *sum)
{
    static const unsigned char ZEROS[12];
    CRYPTO_gcm128_setiv(sum->gcm, ZEROS, sizeof ZEROS);
}

bn_status bn_checksum_open(struct bn_checksum **out, bn_error *err)
{
    *out = NULL;
    struct bn_checksum *sum = bn_alloc(1, sizeof *sum);
    if (sum == NULL) return bn_nomem(err);
    sum->gcm = CRYPTO_gcm128_new(NULL, two_blocks);
    if (sum->gcm == NULL) {
        bn_free(sum);
        return bn_nomem(err);
    }
    begin_checksum(sum);
    *out = sum;
    return BN_OK;
}

void bn_checksum_update(struct bn_checksum *sum, const void *bytes, size_t n)
{
    (void)CRYPTO_gcm128_aad(sum->gcm, bytes, n); /* refuses more than 2^61 bytes */
}

void bn_checksum_take(struct bn_checksum *sum, char hex[BN_CHECKSUM_HEX])
{
    unsigned char tag[16];
    CRYPTO_gcm128_tag(sum->gcm, tag, sizeof tag);
    bn_hex(hex, tag, sizeof tag);
    begin_checksum(sum);
}

void bn_checksum_close(struct bn_checksum *sum)
{
    if (sum == NULL) return;
    CRYPTO_gcm128_release(sum->gcm);
    bn_free(sum);
}

bool bn_is_sha256(const char *text)
{
    return strspn(text, "0123456789abcdef") == BN_SHA256_HEX - 1 && text[BN_SHA256_HEX - 1] == '\0';
}

bn_status bn_sha256_file(const char *path, char hex[BN_SHA256_HEX], bn_error *err)
{
    struct bn_file_map map;
    hex[0] = '\0';
    BN_TRY(bn_file_map_open(&map, path, false, err));
    bn_sha256_hex(map.data, map.n_bytes, hex);
    bn_status status = bn_file_map_check(&map, path, err);
    bn_file_map_close(&map);
    return status;
}

void bn_hex(char *hex, const unsigned char *bytes, size_t n)
{
    static const char DIGITS[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        hex[2 * i] = DIGITS[bytes[i] >> 4];
        hex[2 * i + 1] = DIGITS[bytes[i] & 15];
    }
    hex[2 * n] = '\0';
}

int bn_hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20; /* lower case */
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* ---- base64 (RFC 4648) ---- */

void bn_base64_encode(struct bn_buf *out, const void *bytes, size_t n)
{
    static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = bytes;
    for (size_t i = 0; i < n; i += 3) {
        size_t have = bn_min_size(n - i, 3);
        uint32_t group = (uint32_t)in[i] << 16;
        if (have > 1) group |= (uint32_t)in[i + 1] << 8;
        if (have > 2) group |= in[i + 2];
        char four[4] = {ALPHABET[group >> 18], ALPHABET[group >> 12 & 63], '=', '='};
        if (have > 1) four[2] = ALPHABET[group >> 6 & 63];
        if (have > 2) four[3] = ALPHABET[group & 63];
        bn_buf_append(out, four, sizeof four);
    }
}

/* The six bits of a digit, -1 for any other byte. *alphabets learns what was seen: 1 standard, 2 URL. */
static int base64_digit(char c, unsigned *alphabets)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+' || c == '/') *alphabets |= 1;
    if (c == '-' || c == '_') *alphabets |= 2;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

bn_status bn_base64_decode(struct bn_buf *out, const char *text, size_t n, bn_error *err)
{
    if (n % 4 != 0) return bn_fail_at(err, BN_ERR_FORMAT, n, NULL, "base64 is not in groups of four");
    unsigned alphabets = 0;
    for (size_t i = 0; i < n; i += 4) {
        size_t digits = 4;
        if (i + 4 == n && text[i + 3] == '=') digits = text[i + 2] == '=' ? 2 : 3;
        uint32_t group = 0;
        for (size_t j = 0; j < digits; j++) {
            int digit = base64_digit(text[i + j], &alphabets);
            if (digit < 0) return bn_fail_at(err, BN_ERR_FORMAT, i + j, NULL, "not a base64 digit");
            group |= (uint32_t)digit << (18 - 6 * j);
        }
        unsigned char three[3] = {(unsigned char)(group >> 16), (unsigned char)(group >> 8 & 255),
                                  (unsigned char)(group & 255)};
        if ((digits == 2 && (group & 0xFFFF) != 0) || (digits == 3 && (group & 0xFF) != 0))
            return bn_fail_at(err, BN_ERR_FORMAT, i, NULL, "base64 ends in bits that are not zero");
        bn_buf_append(out, three, digits - 1);
    }
    if (alphabets == 3) return bn_fail(err, BN_ERR_FORMAT, "base64 mixes two alphabets");
    return bn_buf_check(out, err);
}
