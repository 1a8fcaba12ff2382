/* SPDX-License-Identifier: MIT
 *
 * The bytes drive the writer, so that files are nearly right, and then overwrite a few fields: states that
 * blind mutation of bytes seldom reaches. A file that nothing was overwritten in must open.
 */
#include "tests/fuzz/fuzz.h"

#include "tests/fuzz/walk.h"

#define ROOM (1u << 20)

struct input {
    const uint8_t *at;
    size_t left;
};

static uint64_t take(struct input *in, size_t width)
{
    uint64_t value = 0;
    for (size_t i = 0; i < width && in->left > 0; i++, in->at++, in->left--)
        value |= (uint64_t)*in->at << (8 * i);
    return value;
}

static void put_key(struct bn_gguf_writer *w, struct input *in, unsigned n)
{
    char key[32];
    snprintf(key, sizeof key, "k%u", n);
    uint64_t op = take(in, 1), count = take(in, 1) % 20;
    switch (op % 7) {
    case 0:
        bn_gguf_put_u32(w, key, (uint32_t)take(in, 4));
        break;
    case 1:
        bn_gguf_put_f32(w, key, (float)take(in, 2));
        break;
    case 2:
        bn_gguf_put_bool(w, key, take(in, 1) & 1);
        break;
    case 3:
        bn_gguf_put_str(w, key, "0123456789abcdefghij", count);
        break;
    case 4:
        bn_gguf_put_array(w, key, BN_GGUF_U16, count);
        for (uint64_t i = 0; i < count; i++)
            bn_buf_append(&w->kv, "xy", 2);
        break;
    case 5:
        bn_gguf_put_array(w, key, BN_GGUF_STRING, count);
        for (uint64_t i = 0; i < count; i++)
            bn_gguf_put_text(&w->kv, "0123456789abcdefghij", i);
        break;
    default:
        bn_gguf_put_array(w, key, BN_GGUF_BOOL, count);
        for (uint64_t i = 0; i < count; i++)
            bn_buf_putc(&w->kv, (char)(i & 1));
        break;
    }
}

static void put_tensor(struct bn_gguf_writer *w, struct input *in, unsigned n)
{
    static const uint32_t TYPES[] = {BN_TYPE_F32,  BN_TYPE_F16,   BN_TYPE_Q4_0,  BN_TYPE_Q8_0, BN_TYPE_Q6_K,
                                     BN_TYPE_BF16, BN_TYPE_TQ1_0, BN_TYPE_TQ2_0, BN_TYPE_I2_S};
    char name[32];
    snprintf(name, sizeof name, "t%u", n);
    uint32_t type = TYPES[take(in, 1) % BN_ARRAY_LEN(TYPES)], n_dims = 1 + (uint32_t)(take(in, 1) % 4);
    const uint64_t ne[4] = {bn_type_info(type)->block * (1 + take(in, 1) % 3), 1 + take(in, 1) % 3,
                            1 + take(in, 1) % 2, 1 + take(in, 1) % 2};
    bn_gguf_put_tensor(w, name, type, n_dims, ne);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct bn_gguf_writer w = {.kv.max = ROOM, .infos.max = ROOM};
    struct bn_buf file = {.max = ROOM};
    struct bn_gguf gguf;
    unsigned n_keys = (unsigned)(take(&in, 1) % 8), n_tensors = (unsigned)(take(&in, 1) % 6);
    unsigned n_pokes = (unsigned)(take(&in, 1) % 4);
    w.alignment = (uint32_t)((8u << take(&in, 1) % 5) & ~8u);
    bn_gguf_put_str(&w, "general.architecture", "bitnet", 6);
    for (unsigned i = 0; i < n_keys; i++)
        put_key(&w, &in, i);
    for (unsigned i = 0; i < n_tensors; i++)
        put_tensor(&w, &in, i);
    bool whole = bn_gguf_write_head(&w, &file, NULL) == BN_OK;
    for (uint64_t i = 0; whole && i < w.data_bytes && !file.failed; i++)
        bn_buf_putc(&file, '\x55');
    for (unsigned i = 0; whole && i < n_pokes; i++) {
        size_t at = (size_t)take(&in, 2) % file.len, width = (size_t)1 << take(&in, 1) % 4;
        uint64_t value = take(&in, width);
        for (size_t k = 0; k < width && at + k < file.len; k++)
            file.data[at + k] = (char)(unsigned char)(value >> (8 * k));
    }
    if (whole && !file.failed) {
        /* A copy of just this length, so that the sanitizer sees what is read beyond it. */
        void *exact = malloc(file.len);
        if (exact == NULL) abort();
        memcpy(exact, file.data, file.len);
        if (succeeds(bn_gguf_open(&gguf, exact, file.len, &err)))
            bn_fuzz_walk(&gguf);
        else
            hold(n_pokes != 0);
        bn_gguf_close(&gguf);
        free(exact);
    }
    bn_gguf_writer_release(&w);
    bn_buf_release(&file);
    return 0;
}
