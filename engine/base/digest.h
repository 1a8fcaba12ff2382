/* SPDX-License-Identifier: MIT
 *
 * SHA-256, a checksum and base64, by libcrypto.
 */
#ifndef BN_BASE_DIGEST_H
#define BN_BASE_DIGEST_H

#include "base/buf.h"

#define BN_SHA256_BYTES 32u
#define BN_SHA256_HEX 65u /* with the NUL */

/* Streaming SHA-256. Nothing is to be released. */
struct bn_sha256 {
    uint64_t state[14]; /* libcrypto's */
};
void bn_sha256_begin(struct bn_sha256 *sha);
void bn_sha256_update(struct bn_sha256 *sha, const void *bytes, size_t n);
/* Write the digest and start afresh. */
void bn_sha256_take(struct bn_sha256 *sha, unsigned char digest[BN_SHA256_BYTES]);
void bn_sha256_take_hex(struct bn_sha256 *sha, char hex[BN_SHA256_HEX]);

/* A checksum against damage, ten times as fast as a digest: GMAC with a key that is not secret. Whoever wants
 * to can make other bytes with the same one. */
#define BN_CHECKSUM_HEX 33u
struct bn_checksum;
BN_MUST_CHECK bn_status bn_checksum_open(struct bn_checksum **out, bn_error *err);
void bn_checksum_update(struct bn_checksum *sum, const void *bytes, size_t n);
/* Writes it in hexadecimal and starts afresh. */
void bn_checksum_take(struct bn_checksum *sum, char hex[BN_CHECKSUM_HEX]);
void bn_checksum_close(struct bn_checksum *sum);

/* One shot. */
void bn_sha256_hex(const void *bytes, size_t n, char hex[BN_SHA256_HEX]);
/* Is this a digest as it is written everywhere here: 64 digits, lower case? */
bool bn_is_sha256(const char *text);
/* Of a whole file. */
BN_MUST_CHECK bn_status bn_sha256_file(const char *path, char hex[BN_SHA256_HEX], bn_error *err);
void bn_hex(char *hex, const unsigned char *bytes, size_t n); /* 2 n digits, lower case, and a NUL */
int bn_hex_digit(char c);                                     /* its value; -1: it is none */

/* Standard base64 with padding. Decoding is strict: no white space, the URL alphabet is accepted, unused bits
 * are zero. */
void bn_base64_encode(struct bn_buf *out, const void *bytes, size_t n);
BN_MUST_CHECK bn_status bn_base64_decode(struct bn_buf *out, const char *text, size_t n, bn_error *err);

#endif
