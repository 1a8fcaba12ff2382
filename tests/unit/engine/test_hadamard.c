/* SPDX-License-Identifier: MIT
 *
 * The keys of rotated files: what is read, what is refused, and the transform itself.
 */
#include "base/buf.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "tests/unit/status.h"

#define ROOM (1u << 20)

/* What a file says; each test changes one thing. */
struct keys {
    uint32_t version, block, width;
    bool tied, head; /* tied_output; the file has output.weight */
    const char *transform, *axis, *mode, *names[2], *inverse;
    int32_t sign; /* of the first value; the others are 1 */
    uint32_t n_signs;
    bool no_names;
};

static const struct keys GOOD = {
    .version = 1,
    .block = 4,
    .width = 8,
    .transform = "normalized-sylvester-walsh-hadamard",
    .axis = "input-last-dimension",
    .mode = "explicit",
    .names = {"blk.0.attn_q.weight", "output.weight"},
    .inverse = "token_embd.weight",
    .sign = -1,
    .n_signs = 8,
};

static void put_text(struct bn_gguf_writer *w, const char *key, const char *text)
{
    bn_gguf_put_str(w, key, text, strlen(text));
}

static bn_status read_keys(const struct keys *k, struct bn_hadamard *h, bn_error *e)
{
    struct bn_gguf_writer w = {.kv = {.max = ROOM}, .infos = {.max = ROOM}};
    static struct bn_buf bytes;
    static struct bn_gguf gguf;
    bn_gguf_put_u32(&w, "prism.hadamard.version", k->version);
    bn_gguf_put_u32(&w, "prism.hadamard.block_size", k->block);
    put_text(&w, "prism.hadamard.transform", k->transform);
    put_text(&w, "prism.hadamard.axis", k->axis);
    put_text(&w, "prism.hadamard.sign_mode", k->mode);
    bn_gguf_put_array(&w, "prism.hadamard.sign_widths", BN_GGUF_I32, 1);
    bn_buf_append(&w.kv, &k->width, 4);
    bn_gguf_put_array(&w, "prism.hadamard.sign_values", BN_GGUF_I32, k->n_signs);
    for (uint32_t i = 0; i < k->n_signs; i++) {
        int32_t sign = i == 0 ? k->sign : 1;
        bn_buf_append(&w.kv, &sign, 4);
    }
    if (!k->no_names) {
        bn_gguf_put_array(&w, "prism.hadamard.weight_names", BN_GGUF_STRING, 2);
        for (size_t i = 0; i < 2; i++)
            bn_gguf_put_text(&w.kv, k->names[i], strlen(k->names[i]));
    }
    bn_gguf_put_array(&w, "prism.hadamard.inverse_weight_names", BN_GGUF_STRING, 1);
    bn_gguf_put_text(&w.kv, k->inverse, strlen(k->inverse));
    if (k->tied) bn_gguf_put_bool(&w, "prism.hadamard.tied_output", true);
    if (k->head) bn_gguf_put_tensor(&w, "output.weight", BN_TYPE_F32, 1, (const uint64_t[]){8});
    bn_gguf_close(&gguf);
    bn_buf_release(&bytes);
    bytes = (struct bn_buf){.max = ROOM};
    assert_int_equal(bn_gguf_write_head(&w, &bytes, e), BN_OK);
    for (size_t i = 0; k->head && i < 32; i++)
        bn_buf_putc(&bytes, '\0'); /* its values */
    bn_gguf_writer_release(&w);
    assert_int_equal(bn_gguf_open(&gguf, bytes.data, bytes.len, e), BN_OK);
    return bn_hadamard_read(h, &gguf, e);
}

TEST(keys_are_read)
{
    struct bn_hadamard h;
    struct bn_rotation r;
    must(read_keys(&GOOD, &h, &err));
    must(bn_hadamard_of(&h, "blk.0.attn_q.weight", 8, &r, &err));
    assert_int_equal(r.block, 4);
    assert_true(r.signs[0] < 0 && r.signs[1] > 0);
    must(bn_hadamard_of(&h, "blk.0.attn_k.weight", 8, &r, &err));
    assert_int_equal(r.block, 0);
    must(bn_hadamard_of(&h, "token_embd.weight", 8, &r, &err));
    assert_int_equal(r.block, 4);
    refused(bn_hadamard_of(&h, "output.weight", 16, &r, &err), BN_ERR_FORMAT);
    refused(bn_hadamard_of(&h, "output.weight", 6, &r, &err), BN_ERR_FORMAT);
    bn_hadamard_release(&h);
}

#define REFUSED(status_, key_, ...)                \
    do {                                           \
        struct keys k = GOOD;                      \
        struct bn_hadamard h;                      \
        __VA_ARGS__;                               \
        refused(read_keys(&k, &h, &err), status_); \
        assert_has(err.where, key_);               \
        bn_hadamard_release(&h);                   \
    } while (0)

/* A rotated embedding that is the head too. */
TEST(a_tied_head)
{
    struct keys k = GOOD;
    struct bn_hadamard h;
    k.version = 2;
    k.tied = true;
    must(read_keys(&k, &h, &err));
    assert_true(h.embedding);
    bn_hadamard_release(&h);
}

TEST(the_unknown_is_refused)
{
    REFUSED(BN_ERR_UNSUPPORTED, "version", k.version = 3);
    REFUSED(BN_ERR_FORMAT, "tied_output", k.version = 2);
    REFUSED(BN_ERR_FORMAT, "tied_output", k.tied = true);
    REFUSED(BN_ERR_FORMAT, "tied_output", k.version = 2, k.tied = true, k.head = true);
    REFUSED(BN_ERR_UNSUPPORTED, "transform", k.transform = "cosine");
    REFUSED(BN_ERR_UNSUPPORTED, "axis", k.axis = "output");
    REFUSED(BN_ERR_UNSUPPORTED, "sign_mode", k.mode = "random");
    REFUSED(BN_ERR_FORMAT, "block_size", k.block = 3);
    REFUSED(BN_ERR_FORMAT, "sign_widths", k.width = 6);
    REFUSED(BN_ERR_FORMAT, "sign_values", k.sign = 2);
    REFUSED(BN_ERR_FORMAT, "sign_values", k.n_signs = 7);
    REFUSED(BN_ERR_FORMAT, "sign_values", k.n_signs = 9);
    REFUSED(BN_ERR_FORMAT, "weight_names", k.names[1] = k.names[0]);
    REFUSED(BN_ERR_UNSUPPORTED, "weight_names", k.names[1] = "blk.0.ssm_alpha.weight");
    REFUSED(BN_ERR_UNSUPPORTED, "inverse_weight_names", k.inverse = "output.weight");
    REFUSED(BN_ERR_FORMAT, "weight_names", k.no_names = true);
}

/* Row r of the matrix has the sign of popcount(r and c). The factor of a block of four is exactly 1/2. */
TEST(the_transform)
{
    static const float SIGNS[8] = {-1, 1, 1, 1, 1, 1, 1, -1};
    const struct bn_rotation rotation = {4, SIGNS};
    for (size_t c = 0; c < 8; c++) {
        float x[8] = {0};
        x[c] = 2.0f;
        bn_kernels_ref.rotate(x, rotation.signs, 8, rotation.block, false);
        for (size_t r = 0; r < 8; r++) {
            float want = r / 4 != c / 4                                       ? 0.0f
                         : __builtin_popcount((unsigned)(r & c & 3)) % 2 == 0 ? 1.0f
                                                                              : -1.0f;
            assert_true(x[r] == want * SIGNS[c]);
        }
        bn_kernels_ref.rotate(x, rotation.signs, 8, rotation.block, true);
        for (size_t r = 0; r < 8; r++)
            assert_true(x[r] == (r == c ? 2.0f : 0.0f));
    }
}
