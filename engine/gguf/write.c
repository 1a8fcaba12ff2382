/* SPDX-License-Identifier: MIT
 *
 * See gguf.h: writing GGUF version 3. Bytes go out one by one in little endian, so the same calls give the
 * same file on every machine.
 */
#include "base/error.h"
#include "gguf/gguf.h"

#define VERSION 3u

static void put_le(struct bn_buf *buf, uint64_t value, size_t n_bytes)
{
    char bytes[8];
    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = (char)(unsigned char)(value >> (8 * i));
    bn_buf_append(buf, bytes, n_bytes);
}

void bn_gguf_put_text(struct bn_buf *buf, const char *text, size_t n)
{
    put_le(buf, n, 8);
    bn_buf_append(buf, text, n);
}

static void put_key(struct bn_gguf_writer *w, const char *key, enum bn_gguf_type type)
{
    const char *arch = key[0] == '.' ? w->arch : "";
    put_le(&w->kv, strlen(arch) + strlen(key), 8);
    bn_buf_puts(&w->kv, arch);
    bn_buf_puts(&w->kv, key);
    put_le(&w->kv, (uint64_t)type, 4);
    w->n_kv++;
}

void bn_gguf_put_u32(struct bn_gguf_writer *w, const char *key, uint32_t value)
{
    put_key(w, key, BN_GGUF_U32);
    put_le(&w->kv, value, 4);
}

void bn_gguf_put_f32(struct bn_gguf_writer *w, const char *key, float value)
{
    put_key(w, key, BN_GGUF_F32);
    bn_gguf_put_element_f32(w, value);
}

void bn_gguf_put_bool(struct bn_gguf_writer *w, const char *key, bool value)
{
    put_key(w, key, BN_GGUF_BOOL);
    put_le(&w->kv, value ? 1 : 0, 1);
}

void bn_gguf_put_str(struct bn_gguf_writer *w, const char *key, const char *value, size_t n_bytes)
{
    put_key(w, key, BN_GGUF_STRING);
    bn_gguf_put_text(&w->kv, value, n_bytes);
}

void bn_gguf_put_array(struct bn_gguf_writer *w, const char *key, enum bn_gguf_type element, uint64_t n)
{
    put_key(w, key, BN_GGUF_ARRAY);
    put_le(&w->kv, (uint64_t)element, 4);
    put_le(&w->kv, n, 8);
}

void bn_gguf_put_element_i32(struct bn_gguf_writer *w, int32_t value)
{
    put_le(&w->kv, (uint32_t)value, 4);
}

void bn_gguf_put_element_f32(struct bn_gguf_writer *w, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_le(&w->kv, bits, 4);
}

uint64_t bn_gguf_padding(const struct bn_gguf_writer *w, uint64_t n)
{
    uint64_t alignment = w->alignment != 0 ? w->alignment : BN_GGUF_DEFAULT_ALIGNMENT;
    return (alignment - n % alignment) % alignment;
}

void bn_gguf_put_tensor(struct bn_gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                        const uint64_t *ne)
{
    uint64_t all[4] = {1, 1, 1, 1}, n_bytes;
    for (uint32_t d = 0; d < n_dims && d < 4; d++)
        all[d] = ne[d];
    if (n_dims < 1 || n_dims > 4 || !bn_type_bytes(type, all, &n_bytes)) {
        w->infos.failed = true;
        return;
    }
    bn_gguf_put_text(&w->infos, name, strlen(name));
    put_le(&w->infos, n_dims, 4);
    for (uint32_t d = 0; d < n_dims; d++)
        put_le(&w->infos, ne[d], 8);
    put_le(&w->infos, type, 4);
    put_le(&w->infos, w->data_bytes, 8);
    uint64_t padded = 0;
    if (!bn_add_ok(n_bytes, bn_gguf_padding(w, n_bytes), &padded) ||
        !bn_add_ok(w->data_bytes, padded, &w->data_bytes))
        w->infos.failed = true;
    w->n_tensors++;
}

bn_status bn_gguf_write_head(const struct bn_gguf_writer *w, struct bn_buf *out, bn_error *err)
{
    static const char ZEROS[64];
    uint64_t start = out->len;
    BN_TRY(bn_buf_check(&w->kv, err));
    BN_TRY(bn_buf_check(&w->infos, err));
    bn_buf_puts(out, "GGUF");
    put_le(out, VERSION, 4);
    put_le(out, w->n_tensors, 8);
    put_le(out, w->n_kv + (w->alignment != 0 ? 1 : 0), 8);
    bn_buf_append(out, w->kv.data, w->kv.len);
    if (w->alignment != 0) {
        bn_gguf_put_text(out, "general.alignment", strlen("general.alignment"));
        put_le(out, BN_GGUF_U32, 4);
        put_le(out, w->alignment, 4);
    }
    bn_buf_append(out, w->infos.data, w->infos.len);
    for (uint64_t left = bn_gguf_padding(w, out->len - start); left > 0 && !out->failed;) {
        size_t n = bn_min_size((size_t)left, sizeof ZEROS);
        bn_buf_append(out, ZEROS, n);
        left -= n;
    }
    return bn_buf_check(out, err);
}

void bn_gguf_writer_release(struct bn_gguf_writer *w)
{
    bn_buf_release(&w->kv);
    bn_buf_release(&w->infos);
}
