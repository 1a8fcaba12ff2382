/* SPDX-License-Identifier: MIT
 *
 * Models whose weights have a scale for each group: damage is refused or not, as the activations demand, and a model may
 * have layers of one scale beside layers in tiles.
 */
#include "base/mem.h"
#include "gguf/types.h"
#include "model/model.h"
#include "model/weights.h"
#include "tests/unit/status.h"

#define BITNET "fixtures/tiny-bitnet-b1.58-tq2_0-v320-42.gguf"
#define QWEN "fixtures/micro-qwen3-tq2_0-v331-yarn-42.gguf"
#define TENSOR "blk.0.attn_k.weight"
#define N_TOKENS 7u

/* A copy of a file, and the tensor to edit in it. */
struct file {
    struct bn_buf text;
    uint8_t *bytes, *data, *type;
    size_t n_values;
};

static struct file load(const char *path)
{
    struct file f = {.text = {.max = 64u << 20}};
    bn_model *model = NULL;
    must(bn_file_read(path, &f.text, NULL));
    f.bytes = bn_alloc_aligned(f.text.len, 1);
    assert_non_null(f.bytes);
    memcpy(f.bytes, f.text.data, f.text.len);
    must(bn_model_open_memory(&model, f.bytes, f.text.len, path, NULL, NULL));
    const struct bn_gguf_tensor *t = bn_gguf_find_tensor(&model->gguf, TENSOR);
    assert_int_equal(t->type, BN_TYPE_TQ2_0);
    f.data = f.bytes + t->offset;
    f.n_values = (size_t)(t->ne[0] * t->ne[1]);
    f.type = f.bytes + t->info_offset + 8 + strlen(TENSOR) + 4 + 2 * sizeof(uint64_t);
    assert_int_equal(*f.type, BN_TYPE_TQ2_0);
    bn_model_close(model);
    return f;
}

static void release(struct file *f)
{
    bn_free(f->bytes);
    bn_buf_release(&f->text);
}

static bn_status reopen(const struct file *f, const bn_model_options *options)
{
    bn_model *model = NULL;
    bn_status status = bn_model_open_memory(&model, f->bytes, f->text.len, "model", options, &err);
    bn_model_close(model);
    return status;
}

TEST(the_code_3_is_refused_with_8_bits)
{
    const bn_model_options unchecked = {.skip_code_check = true};
    struct file f = load(BITNET);
    f.data[BN_TQ2_BLOCK_BYTES + 5] |= 0x30;
    refused(reopen(&f, NULL), BN_ERR_FORMAT);
    assert_has(err.msg, "row 1 holds the code 3");
    must(reopen(&f, &unchecked));
    release(&f);
    f = load(QWEN); /* there it is the weight +2 */
    f.data[5] |= 0x30;
    must(reopen(&f, NULL));
    release(&f);
}

TEST(scales_must_be_finite)
{
    static const char *const PATHS[] = {BITNET, QWEN};
    for (size_t i = 0; i < BN_ARRAY_LEN(PATHS); i++) {
        struct file f = load(PATHS[i]);
        f.data[64] = 0;
        f.data[65] = 0x7C;
        refused(reopen(&f, NULL), BN_ERR_FORMAT);
        assert_has(err.msg, "a scale that is not finite");
        release(&f);
    }
}

/* All logits of a few tokens, n_batch of them at once. */
static float *logits_of(bn_model *model, uint32_t n_batch)
{
    static const int32_t IDS[N_TOKENS] = {5, 9, 200, 31, 7, 7, 100};
    const bn_session_options options = {.n_threads = 2, .exact_threads = true, .n_batch = n_batch};
    bn_session *session = NULL;
    float *logits = bn_alloc(N_TOKENS * bn_model_hparams(model)->n_vocab, sizeof *logits);
    must(bn_session_open(&session, model, &options, NULL));
    must(bn_session_eval(session, IDS, N_TOKENS, BN_LOGITS_ALL, logits, NULL));
    bn_session_close(session);
    return logits;
}

/* On every instruction set, in batches of any size. */
static void same_every_way(bn_model *model, const float *want)
{
    for (size_t i = 0; bn_kernels_built(i) != NULL; i++) {
        if (!bn_kernels_supported(bn_kernels_built(i))) continue;
        model->kernels = bn_kernels_built(i);
        for (uint32_t n_batch = 1; n_batch <= N_TOKENS; n_batch += 3) {
            float *got = logits_of(model, n_batch);
            assert_memory_equal(got, want, N_TOKENS * bn_model_hparams(model)->n_vocab * sizeof *got);
            bn_free(got);
        }
    }
}

/* One matrix of the model becomes I2_S: other logits, which are the same bits every way. */
TEST(one_scale_beside_tiles)
{
    struct file f = load(BITNET);
    bn_model *model = NULL;
    must(bn_model_open_memory(&model, f.bytes, f.text.len, "model", NULL, NULL));
    size_t n_bytes = N_TOKENS * bn_model_hparams(model)->n_vocab * sizeof(float);
    float *before = logits_of(model, N_TOKENS), scale = 3.0f;
    bn_model_close(model);
    int8_t *values = bn_alloc(f.n_values, 1);
    for (size_t i = 0; i < f.n_values; i += BN_TQ2_BLOCK)
        (void)bn_unpack_tq2(values + i, f.data + i / BN_TQ2_BLOCK * BN_TQ2_BLOCK_BYTES, BN_TQ2_BLOCK);
    for (size_t i = 0; i < f.n_values; i += BN_I2S_BLOCK)
        bn_pack_i2s(f.data + i / 4, values + i, BN_I2S_BLOCK, 0);
    memcpy(f.data + f.n_values / 4, &scale, sizeof scale);
    *f.type = BN_TYPE_I2_S;
    must(bn_model_open_memory(&model, f.bytes, f.text.len, "model", NULL, NULL));
    assert_int_equal(model->layers[0].k.w.blocks, BN_BLOCKS_I2S);
    assert_int_not_equal(model->layers[0].q.w.blocks, BN_BLOCKS_I2S);
    float *mixed = logits_of(model, N_TOKENS);
    assert_int_not_equal(memcmp(mixed, before, n_bytes), 0);
    same_every_way(model, mixed);
    bn_model_close(model);
    bn_free(mixed);
    bn_free(before);
    bn_free(values);
    release(&f);
}

/* Copies in tiles, and the rows of the file: the same bits with every instruction set. */
TEST(tiles_and_rows_of_the_file)
{
    static const char *const PATHS[] = {BITNET, QWEN, "fixtures/quad-qwen35-ptq1_0-v331-hadamard64-42.gguf",
                                        "fixtures/tiny-bitnet-b1.58-tq1_0-v320-42.gguf",
                                        "fixtures/nano-qwen3-q2_0-v331-yarn-tied-42.gguf"};
    const bn_model_options copy = {.repack = BN_REPACK_ALWAYS};
    for (size_t f = 0; f < BN_ARRAY_LEN(PATHS); f++) {
        bn_model *in_file = NULL, *in_tiles = NULL;
        must(bn_model_open(&in_file, PATHS[f], NULL, NULL));
        must(bn_model_open(&in_tiles, PATHS[f], &copy, NULL));
        assert_null(bn_model_linear(in_file, 3)->w.codes);
        assert_non_null(bn_model_linear(in_tiles, 3)->w.codes);
        float *want = logits_of(in_tiles, N_TOKENS);
        same_every_way(in_file, want);
        bn_model_close(in_file);
        bn_model_close(in_tiles);
        bn_free(want);
    }
}

/* The budget is what the process may use in all. */
TEST(nothing_is_copied_when_memory_is_short)
{
    const bn_model_options now = {.repack = BN_REPACK_AUTO}, always = {.repack = BN_REPACK_ALWAYS};
    const bn_session_options context = {.n_ctx = 512};
    bn_model *model = NULL;
    bn_session *session = NULL;
    must(bn_model_open(&model, QWEN, &now, NULL));
    uint64_t copies = bn_repack_bytes(model);
    assert_true(copies > 0);
    assert_non_null(bn_model_linear(model, 2)->w.codes);
    bn_model_close(model);
    bn_mem_set_budget(bn_mem_stats().bytes_now + copies + 65536); /* and not the file */
    must(bn_model_open(&model, QWEN, &now, NULL));
    assert_int_equal(bn_repack_bytes(model), copies);
    assert_null(bn_model_linear(model, 2)->w.codes);
    assert_false(bn_model_repack(model));
    assert_null(bn_model_linear(model, 2)->w.codes);
    bn_model_close(model);
    must(bn_model_open(&model, QWEN, &always, NULL));
    assert_non_null(bn_model_linear(model, 2)->w.codes);
    bn_mem_set_budget(1000);
    refused(bn_session_open(&session, model, &context, &err), BN_ERR_NOMEM);
    assert_has(err.msg, "no memory for a context of 512 tokens: the cache takes");
    assert_has(err.hint, "--ctx");
    bn_mem_set_budget(0);
    must(bn_session_open(&session, model, &context, NULL));
    bn_session_close(session);
    bn_model_close(model);
}
