/* SPDX-License-Identifier: MIT
 *
 * Looking at everything that bn_gguf_open accepted: each byte of each value and tensor is read, each key and
 * tensor is found by its name, and no two tensors overlap.
 */
#ifndef BN_FUZZ_WALK_H
#define BN_FUZZ_WALK_H

#include <stdlib.h>

#include "gguf/gguf.h"

static volatile unsigned bn_fuzz_sink;

static inline void bn_fuzz_walk_kv(const struct bn_gguf *gguf, const struct bn_gguf_kv *kv)
{
    size_t each = bn_gguf_type_bytes(kv->element);
    const unsigned char *at = kv->value;
    unsigned sum = 0;
    for (uint64_t k = 0; k < kv->n * each; k++)
        sum += at[k];
    for (uint64_t k = 0; each == 0 && k < kv->n; k++) {
        struct bn_str text = bn_gguf_next_str(&at);
        for (size_t b = 0; b < text.len; b++)
            sum += (unsigned char)text.ptr[b];
    }
    char key[BN_GGUF_MAX_KEY_BYTES + 1];
    if (kv->key.len > BN_GGUF_MAX_KEY_BYTES) abort();
    memcpy(key, kv->key.ptr, kv->key.len);
    key[kv->key.len] = '\0';
    if (bn_gguf_find(gguf, key) != kv) abort();
    uint32_t u;
    float f;
    bool b;
    struct bn_str s;
    const struct bn_gguf_kv *array;
    unsigned n_read = bn_gguf_u32(gguf, key, &u, NULL) == BN_OK;
    n_read += bn_gguf_f32(gguf, key, &f, NULL) == BN_OK;
    n_read += bn_gguf_bool(gguf, key, &b, NULL) == BN_OK;
    n_read += bn_gguf_str(gguf, key, &s, NULL) == BN_OK;
    n_read += bn_gguf_array(gguf, key, kv->element, &array, NULL) == BN_OK;
    if (n_read > 1) abort();
    bn_fuzz_sink += sum;
}

static inline void bn_fuzz_walk(const struct bn_gguf *gguf)
{
    unsigned sum = 0;
    for (size_t i = 0; i < gguf->n_kv; i++)
        bn_fuzz_walk_kv(gguf, &gguf->kv[i]);
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        const struct bn_gguf_tensor *t = &gguf->tensors[i];
        char name[BN_GGUF_MAX_NAME_BYTES + 1];
        uint64_t n_bytes;
        if (t->name.len > BN_GGUF_MAX_NAME_BYTES) abort();
        memcpy(name, t->name.ptr, t->name.len);
        name[t->name.len] = '\0';
        if (bn_gguf_find_tensor(gguf, name) != t) abort();
        if (!bn_type_bytes(t->type, t->ne, &n_bytes) || n_bytes != t->n_bytes) abort();
        for (uint64_t k = 0; k < t->n_bytes; k++)
            sum += t->data[k];
        for (size_t k = 0; k < i; k++) {
            const struct bn_gguf_tensor *o = &gguf->tensors[k];
            if (t->offset < o->offset + o->n_bytes && o->offset < t->offset + t->n_bytes) abort();
        }
    }
    bn_fuzz_sink += sum;
}

#endif
