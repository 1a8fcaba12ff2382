/* SPDX-License-Identifier: MIT
 *
 * The keys of clients. Digests are compared, all of them each time: the time of a refusal says nothing about a key.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "tools/serve/serve.h"

#define LEAST_KEY_BYTES 16u
#define MAX_FILE_BYTES (64u << 10)

static bn_status take_key(struct bn_server *s, const char *line, size_t n, bn_error *err)
{
    while (n > 0 && (line[n - 1] == '\r' || line[n - 1] == ' ' || line[n - 1] == '\t'))
        n--;
    if (n == 0 || line[0] == '#') return BN_OK;
    if (n < LEAST_KEY_BYTES)
        return bn_hint(bn_fail(err, BN_ERR_FORMAT, "key %zu has fewer than %u characters", s->n_keys + 1,
                               LEAST_KEY_BYTES),
                       err, "openssl rand -hex 24 prints a good one");
    if (s->n_keys == BN_SERVE_MAX_KEYS)
        return bn_fail(err, BN_ERR_LIMIT, "more than %u keys", BN_SERVE_MAX_KEYS);
    bn_sha256_hex(line, n, s->keys[s->n_keys++]);
    return BN_OK;
}

bn_status bn_keys_read(struct bn_server *s, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = MAX_FILE_BYTES};
    s->keys = bn_alloc(BN_SERVE_MAX_KEYS, sizeof *s->keys);
    if (s->keys == NULL) return bn_nomem(err);
    bn_status status = bn_file_check_private(path, err);
    if (status == BN_OK) status = bn_file_read_regular(path, &text, err);
    for (size_t at = 0; status == BN_OK && at < text.len;) {
        const char *line = text.data + at, *end = memchr(line, '\n', text.len - at);
        size_t n = end != NULL ? (size_t)(end - line) : text.len - at;
        status = take_key(s, line, n, err);
        at += n + 1;
    }
    if (status == BN_OK && s->n_keys == 0) status = bn_fail(err, BN_ERR_FORMAT, "the file has no keys");
    if (status != BN_OK) bn_error_name(err, path);
    if (text.data != NULL) explicit_bzero(text.data, text.len);
    bn_buf_release(&text);
    return status;
}

uint32_t bn_keys_find(const struct bn_server *s, const char *key)
{
    char digest[BN_SHA256_HEX];
    uint32_t found = 0;
    bn_sha256_hex(key, strlen(key), digest);
    for (uint32_t i = 0; i < s->n_keys; i++) {
        unsigned differ = 0;
        for (size_t k = 0; k < BN_SHA256_HEX; k++)
            differ |= (unsigned)(digest[k] ^ s->keys[i][k]);
        uint32_t same = (differ - 1u) >> 31; /* 1 when differ is 0 */
        found |= same * (i + 1);
    }
    return found <= s->n_keys ? found : 0;
}

uint64_t bn_keys_owner(const struct bn_server *s, uint32_t tenant)
{
    char digits[17] = "0";
    if (tenant != 0) memcpy(digits, s->keys[tenant - 1], 16);
    return strtoull(digits, NULL, 16);
}
