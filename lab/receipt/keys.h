/* SPDX-License-Identifier: MIT
 *
 * Keys and signatures of receipts. libcrypto allocates here, and reports a signature that it had no memory to check as a
 * wrong one: programs give it a reserve of memory when they start (tools/cli/program/reserve.c).
 */
#ifndef BN_LAB_RECEIPT_KEYS_H
#define BN_LAB_RECEIPT_KEYS_H

#include "base/buf.h"

/* Ed25519 (RFC 8032). Keys are PEM: PKCS#8 for the private one, SubjectPublicKeyInfo for the public one. */
struct bn_key;
BN_MUST_CHECK bn_status bn_key_generate(struct bn_key **out, bn_error *err);
BN_MUST_CHECK bn_status bn_key_read(struct bn_key **out, bool private, const char *pem, size_t n,
                                    bn_error *err);
BN_MUST_CHECK bn_status bn_key_write(const struct bn_key *key, bool private, struct bn_buf *pem,
                                     bn_error *err);
/* The first 16 hex digits of sha256(raw public key), and a NUL. */
BN_MUST_CHECK bn_status bn_key_id(const struct bn_key *key, char id[17], bn_error *err);
BN_MUST_CHECK bn_status bn_sign(const struct bn_key *key, const void *bytes, size_t n,
                                unsigned char signature[64], bn_error *err);
/* BN_ERR_INTEGRITY when it does not verify. */
BN_MUST_CHECK bn_status bn_verify(const struct bn_key *key, const void *bytes, size_t n,
                                  const unsigned char *signature, size_t n_signature, bn_error *err);
void bn_key_close(struct bn_key *key);

#endif
