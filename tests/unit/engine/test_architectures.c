/* SPDX-License-Identifier: MIT
 *
 * Keys that only some architectures have, and embeddings: what follows from the keys, what is refused, and that
 * a pooled vector is what its definition says, in any batches.
 */
#include <math.h>

#include "infer/session.h"
#include "model/hparams.h"
#include "model/weights.h"
#include "tests/unit/status.h"
#include "tools/fixtures/fixtures.h"

#define WIDTH 512u
#define LAYERS 12u

static const char *rope_scaling; /* the next model has this kind of scaling */

/* The keys that each maple model has, but one. */
static const char *without;

static void put_maple(struct bn_gguf_writer *w)
{
    static const struct {
        const char *key;
        uint32_t value;
    } KEYS[] = {{"maple.expert_count", 16},
                {"maple.expert_used_count", 4},
                {"maple.expert_feed_forward_length", 64},
                {"maple.attention.sliding_window", 32}};
    static const char PATTERN[] = "maple.attention.sliding_window_pattern";
    for (size_t i = 0; i < BN_ARRAY_LEN(KEYS); i++)
        if (without == NULL || strcmp(without, KEYS[i].key) != 0)
            bn_gguf_put_u32(w, KEYS[i].key, KEYS[i].value);
    if (without != NULL && strcmp(without, PATTERN) == 0) return;
    bn_gguf_put_array(w, PATTERN, BN_GGUF_BOOL, LAYERS);
    for (uint32_t i = 0; i < LAYERS; i++)
        bn_buf_putc(&w->kv, i % 5 != 3);
}

/* Reads the keys of a model of 4 heads with one key more. */
static bn_status read_with(bn_hparams *hp, const char *arch, uint32_t head_dim, const char *suffix, float f32,
                           uint32_t u32, bn_error *e)
{
    static const struct {
        const char *suffix;
        uint32_t value;
    } KEYS[] = {{"context_length", 512},
                {"embedding_length", WIDTH},
                {"block_count", LAYERS},
                {"feed_forward_length", 256},
                {"attention.head_count", 4}};
    struct bn_gguf_writer w = {.kv.max = 1 << 16, .infos.max = 1 << 16};
    struct bn_buf head = {.max = 1 << 16};
    struct bn_gguf gguf;
    char key[96];
    bn_gguf_put_str(&w, "general.architecture", arch, strlen(arch));
    for (size_t i = 0; i < BN_ARRAY_LEN(KEYS); i++) {
        snprintf(key, sizeof key, "%s.%s", arch, KEYS[i].suffix);
        bn_gguf_put_u32(&w, key, KEYS[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.key_length", arch);
    bn_gguf_put_u32(&w, key, head_dim);
    snprintf(key, sizeof key, "%s.attention.value_length", arch);
    bn_gguf_put_u32(&w, key, head_dim);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    bn_gguf_put_f32(&w, key, 1e-6f);
    if (strcmp(arch, "maple") == 0) put_maple(&w);
    snprintf(key, sizeof key, "%s.rope.scaling.type", arch);
    if (rope_scaling != NULL) bn_gguf_put_str(&w, key, rope_scaling, strlen(rope_scaling));
    snprintf(key, sizeof key, "%s.rope.scaling.factor", arch);
    if (rope_scaling != NULL && strcmp(rope_scaling, "yarn") == 0) bn_gguf_put_f32(&w, key, 2);
    snprintf(key, sizeof key, "%s.%s", arch, suffix != NULL ? suffix : "");
    if (suffix != NULL && u32 != 0) bn_gguf_put_u32(&w, key, u32);
    if (suffix != NULL && u32 == 0) bn_gguf_put_f32(&w, key, f32);
    assert_int_equal(bn_gguf_write_head(&w, &head, e), BN_OK);
    assert_int_equal(bn_gguf_open(&gguf, head.data, head.len, e), BN_OK);
    bn_status status = bn_hparams_read(hp, &gguf, e);
    bn_gguf_close(&gguf);
    bn_buf_release(&head);
    bn_gguf_writer_release(&w);
    return status;
}

static void near(float x, double want)
{
    if (fabs((double)x - want) > 1e-6 * fabs(want)) fail_msg("%.9g, expected %.9g", (double)x, want);
}

TEST(gemma3_keys)
{
    bn_hparams hp;
    must(read_with(&hp, "gemma3", 64, NULL, 0, 0, &err));
    near(hp.embd_scale, sqrt(WIDTH));
    near(hp.attn_scale, 1 / sqrt(64.0));
    assert_true(hp.activation == BN_ACTIVATION_GELU && hp.head_norms && hp.post_norms && !hp.sub_norms);
    assert_int_equal(hp.window, 0);
    must(read_with(&hp, "gemma3", 64, "attention.sliding_window", 0, 100, &err));
    assert_int_equal(hp.window, 100);
    for (uint32_t i = 0; i < hp.n_layer; i++)
        assert_int_equal(bn_hparams_is_local(&hp, i), i % 6 != 5);
    near(hp.local_rope_base, 10000);
    must(read_with(&hp, "gemma3", 64, "attention.query_pre_attn_scalar", 64, 0, &err));
    refused(read_with(&hp, "gemma3", 64, "attention.query_pre_attn_scalar", 128, 0, &err),
            BN_ERR_UNSUPPORTED);
    assert_has(err.msg, "not 64");
    assert_string_equal(err.where, "gemma3.attention.query_pre_attn_scalar");
    must(read_with(&hp, "gemma3", 64, "query_pre_attn_scalar", 0, 64, &err));
    refused(read_with(&hp, "gemma3", 64, "query_pre_attn_scalar", 0, 32, &err), BN_ERR_UNSUPPORTED);
    must(read_with(&hp, "gemma3", 64, "attention.sliding_window_pattern", 0, 3, &err));
    for (uint32_t i = 0; i < hp.n_layer; i++)
        assert_int_equal(hp.local_layers[0] >> i & 1, i % 3 != 2);
    must(read_with(&hp, "gemma3", 64, "rope.freq_base_swa", 50000, 0, &err));
    near(hp.local_rope_base, 50000);
    must(read_with(&hp, "gemma3", 64, "final_logit_softcapping", 0, 0, &err));
    refused(read_with(&hp, "gemma3", 64, "final_logit_softcapping", 30, 0, &err), BN_ERR_UNSUPPORTED);
    assert_string_equal(err.where, "gemma3.final_logit_softcapping");
}

TEST(maple_keys)
{
    static const char *const REQUIRED[] = {
        "maple.expert_count", "maple.expert_used_count", "maple.expert_feed_forward_length",
        "maple.attention.sliding_window", "maple.attention.sliding_window_pattern"};
    static const struct {
        const char *suffix;
        uint32_t u32;
        float f32;
    } OTHERS[] = {{"expert_shared_count", 1, 0},
                  {"expert_gating_func", 2, 0},
                  {"expert_group_count", 2, 0},
                  {"expert_weights_scale", 0, 2.5f},
                  {"rope.scaling.factor", 0, 4}};
    bn_hparams hp;
    must(read_with(&hp, "maple", 64, "rope.dimension_count", 0, 32, &err));
    assert_int_equal(hp.experts.n, 16);
    assert_int_equal(hp.experts.n_used, 4);
    assert_int_equal(hp.n_ff, 64); /* of an expert, not feed_forward_length */
    assert_int_equal(hp.n_rot, 32);
    near(hp.experts.limit, 7);
    assert_true(hp.head_norms && hp.rope_is_local && !hp.sub_norms);
    for (uint32_t i = 0; i < hp.n_layer; i++)
        assert_int_equal(bn_hparams_is_local(&hp, i), i % 5 != 3);
    assert_int_equal(bn_hparams_n_local(&hp), LAYERS - 2);
    assert_int_equal(bn_hparams_n_rotated(&hp), LAYERS - 2);
    assert_int_equal(bn_hparams_hidden(&hp), 4 * 64);
    near(hp.local_rope_base, (double)hp.rope_base);
    must(read_with(&hp, "maple", 64, "rope.freq_base_swa", 500, 0, &err));
    near(hp.local_rope_base, 500);
    must(read_with(&hp, "maple", 64, "rope.dimension_count_swa", 0, 48, &err));
    assert_int_equal(hp.n_rot, 48);
    refused(read_with(&hp, "maple", 64, "rope.dimension_count_swa", 0, 47, &err), BN_ERR_FORMAT);
    must(read_with(&hp, "maple", 64, "swiglu_clamp_exp", 3, 0, &err));
    near(hp.experts.limit, 3);
    must(read_with(&hp, "maple", 64, "swiglu_clamp_exp", 0, 0, &err));
    assert_true(isinf(hp.experts.limit));
    for (size_t i = 0; i < BN_ARRAY_LEN(OTHERS); i++) {
        refused(read_with(&hp, "maple", 64, OTHERS[i].suffix, OTHERS[i].f32, OTHERS[i].u32, &err),
                BN_ERR_UNSUPPORTED);
        assert_has(err.where, OTHERS[i].suffix);
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(REQUIRED); i++) {
        without = REQUIRED[i];
        refused(read_with(&hp, "maple", 64, NULL, 0, 0, &err), BN_ERR_FORMAT);
        assert_string_equal(err.where, REQUIRED[i]);
    }
    without = NULL;
}

TEST(minicpm_keys)
{
    bn_hparams hp;
    must(read_with(&hp, "minicpm", 128, NULL, 0, 0, &err));
    near(hp.embd_scale, 12);
    near(hp.residual_scale, 1.4 / sqrt(LAYERS));
    near(hp.logit_scale, 256.0 / WIDTH);
    assert_true(hp.rope == BN_ROPE_NORM && !hp.head_norms);
    must(read_with(&hp, "minicpm", 128, "logit_scale", 4.0f, 0, &err));
    near(hp.logit_scale, 0.25);
    must(read_with(&hp, "minicpm", 128, "residual_scale", 0.5f, 0, &err));
    near(hp.residual_scale, 0.5);
    must(read_with(&hp, "minicpm", 128, "embedding_scale", 2.0f, 0, &err));
    near(hp.embd_scale, 2);
}

TEST(yarn_keys)
{
    bn_hparams hp;
    rope_scaling = "yarn";
    must(read_with(&hp, "qwen3", 64, "rope.freq_base", 1.5f, 0, &err));
    near(hp.yarn.factor, 2);
    refused(read_with(&hp, "qwen3", 64, "rope.freq_base", 1, 0, &err), BN_ERR_FORMAT);
    assert_string_equal(err.where, "qwen3.rope.freq_base");
    rope_scaling = NULL;
}

/* The length of the context that is used, and keys that would change the result. */
TEST(long_rope_keys)
{
    static const struct {
        const char *suffix;
        float f32;
        uint32_t u32, n_ctx;
        bn_status status;
    } CASES[] = {{NULL, 0, 0, 512, BN_OK},
                 {"rope.scaling.original_context_length", 0, 512, 512, BN_OK},
                 {"rope.scaling.original_context_length", 0, 128, 128, BN_OK},
                 {"rope.scaling.original_context_length", 0, 4096, 512, BN_OK},
                 {"rope.scaling.attn_factor", 1.0f, 0, 512, BN_OK},
                 {"rope.scaling.attn_factor", 1.2f, 0, 0, BN_ERR_UNSUPPORTED},
                 {"rope.scaling.factor", 4.0f, 0, 0, BN_ERR_UNSUPPORTED}};
    bn_hparams hp;
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        rope_scaling = "longrope";
        bn_status status =
            attempt(read_with(&hp, "minicpm", 128, CASES[i].suffix, CASES[i].f32, CASES[i].u32, &err));
        rope_scaling = NULL;
        assert_int_equal(status, CASES[i].status);
        if (status == BN_OK) assert_int_equal(hp.n_ctx, CASES[i].n_ctx);
    }
}

TEST(pooling_keys)
{
    static const bn_pooling WANT[] = {BN_POOLING_FILE, BN_POOLING_MEAN, BN_POOLING_FIRST, BN_POOLING_LAST,
                                      BN_POOLING_FILE};
    bn_hparams hp;
    for (uint32_t i = 1; i < BN_ARRAY_LEN(WANT); i++) {
        must(read_with(&hp, "qwen3", 128, "pooling_type", 0, i, &err));
        assert_int_equal(hp.pooling, WANT[i]);
    }
    must(read_with(&hp, "qwen3", 128, NULL, 0, 0, &err));
    assert_int_equal(hp.pooling, BN_POOLING_FILE);
    assert_int_equal(hp.embd_scale == 1.0f && hp.residual_scale == 1.0f && hp.logit_scale == 1.0f, 1);
}

/* ---- rows in Q4_K and Q5_K ---- */

/* d = 1, offset 1/2; the scales of the groups are 1, 2, 3, 4, 17, 3, 5, 7, the offsets 5, 6, 7, 8, 34, 4, 6, 8: the
 * upper bits of 17 and 34 are in the bytes of the first group. Each byte of low bits is 0xA3, each of fifth bits 0x42. */
TEST(k_rows)
{
    static const unsigned SCALE[] = {1, 2, 3, 4, 17, 3, 5, 7}, LEAST[] = {5, 6, 7, 8, 34, 4, 6, 8};
    static const uint8_t HEAD[16] = {0x00,     0x3C, 0x00, 0x38, 1 | 0x40, 2,    3,    4,
                                     5 | 0x80, 6,    7,    8,    0x21,     0x43, 0x65, 0x87};
    uint8_t block[176];
    float y[256];
    for (int five = 0; five < 2; five++) {
        memcpy(block, HEAD, sizeof HEAD);
        memset(block + 16, 0x42, 32);
        memset(block + (five ? 48 : 16), 0xA3, 128);
        bn_widen(&bn_kernels_ref, five ? BN_TYPE_Q5_K : BN_TYPE_Q4_K, y, block, 256);
        for (unsigned i = 0; i < 256; i++) {
            unsigned g = i / 32, q = g % 2 == 0 ? 3 : 10;
            if (five && (g == 1 || g == 6)) q += 16;
            float want = (float)(SCALE[g] * q) - 0.5f * (float)LEAST[g];
            if (y[i] != want)
                fail_msg("%s, value %u: %g, expected %g", five ? "Q5_K" : "Q4_K", i, (double)y[i],
                         (double)want);
        }
    }
}

#define N_IDS 11u
static const int32_t IDS[N_IDS] = {3, 141, 59, 26, 53, 58, 97, 93, 23, 84, 62};

struct fixture {
    unsigned char *bytes;
    bn_model *model;
    size_t n_embd;
};

static int open_model(void **state)
{
    static struct fixture f;
    const struct bn_fixture_spec spec = {.size = bn_fixture_size_find("nano"),
                                         .arch = BN_FIXTURE_GEMMA3,
                                         .format = BN_TYPE_I2_S,
                                         .input_norms = true,
                                         .window = 4,
                                         .seed = 7};
    struct bn_buf file = {.max = 64u << 20};
    struct bn_sink sink = {.memory = &file, .fd = -1};
    must(bn_fixture_generate(&spec, &sink, &err));
    f.bytes = bn_alloc_aligned(file.len, 1);
    memcpy(f.bytes, file.data, file.len);
    if (bn_model_open_memory(&f.model, f.bytes, file.len, "model", NULL, &err) != BN_OK)
        fail_msg("%s: %s", err.where, err.msg);
    bn_buf_release(&file);
    f.n_embd = bn_model_hparams(f.model)->n_embd;
    *state = &f;
    return 0;
}

static int close_model(void **state)
{
    struct fixture *f = *state;
    bn_model_close(f->model);
    bn_free(f->bytes);
    return 0;
}

/* The embedding of IDS; rows is room for N_IDS vectors. */
static void embed(const struct fixture *f, uint32_t n_batch, uint32_t n_threads, bn_embed_options how,
                  float *rows)
{
    bn_session_options options = {
        .n_ctx = 32, .n_batch = n_batch, .n_threads = n_threads, .exact_threads = true};
    bn_session *s = NULL;
    must(bn_session_open(&s, f->model, &options, &err));
    must(bn_session_embed(s, IDS, N_IDS, &how, rows, &err));
    assert_int_equal(bn_session_position(s), N_IDS);
    bn_session_close(s);
}

/* Rows without pooling are the hidden states that single evaluations leave. */
TEST_IN(rows_are_hidden_states, open_model, close_model)
{
    const struct fixture *f = *state;
    float *rows = bn_alloc(N_IDS * f->n_embd, sizeof *rows);
    bn_session *s = NULL;
    embed(f, 4, 1, (bn_embed_options){.pooling = BN_POOLING_NONE, .as_is = true}, rows);
    must(bn_session_open(&s, f->model, NULL, NULL));
    float *logits = bn_alloc(bn_model_hparams(f->model)->n_vocab, sizeof *logits);
    for (size_t i = 0; i < N_IDS; i++) {
        must(bn_session_eval(s, IDS + i, 1, BN_LOGITS_LAST, logits, NULL));
        assert_memory_equal(rows + i * f->n_embd, bn_session_hidden(s), f->n_embd * sizeof *rows);
    }
    bn_session_close(s);
    bn_free(logits);
    bn_free(rows);
}

TEST_IN(poolings_are_what_they_say, open_model, close_model)
{
    const struct fixture *f = *state;
    float *rows = bn_alloc(N_IDS * f->n_embd, sizeof *rows), *one = bn_alloc(f->n_embd, sizeof *one);
    embed(f, 4, 1, (bn_embed_options){.pooling = BN_POOLING_NONE, .as_is = true}, rows);
    embed(f, 4, 1, (bn_embed_options){.pooling = BN_POOLING_FIRST, .as_is = true}, one);
    assert_memory_equal(one, rows, f->n_embd * sizeof *one);
    embed(f, 4, 1, (bn_embed_options){.pooling = BN_POOLING_LAST, .as_is = true}, one);
    assert_memory_equal(one, rows + (N_IDS - 1) * f->n_embd, f->n_embd * sizeof *one);
    embed(f, 4, 1, (bn_embed_options){.pooling = BN_POOLING_MEAN, .as_is = true}, one);
    for (size_t i = 0; i < f->n_embd; i++) {
        double sum = 0;
        for (size_t j = 0; j < N_IDS; j++)
            sum += (double)rows[j * f->n_embd + i];
        assert_true(one[i] == (float)(sum / N_IDS));
    }
    float *unit = bn_alloc(f->n_embd, sizeof *unit);
    double length = 0, product = 0, size = 0;
    embed(f, 4, 1, (bn_embed_options){.pooling = BN_POOLING_MEAN, .as_is = false}, unit);
    for (size_t i = 0; i < f->n_embd; i++) {
        length += (double)unit[i] * (double)unit[i];
        product += (double)unit[i] * (double)one[i];
        size += (double)one[i] * (double)one[i];
    }
    assert_true(fabs(length - 1) < 1e-6 && fabs(product - sqrt(size)) < 1e-5 * sqrt(size));
    bn_free(unit);
    bn_free(one);
    bn_free(rows);
}

/* The file says: the last token. */
TEST_IN(batches_and_threads_change_nothing, open_model, close_model)
{
    static const uint32_t BATCHES[] = {1, 2, 5, 16};
    const struct fixture *f = *state;
    float *want = bn_alloc(N_IDS * f->n_embd, sizeof *want), *got = bn_alloc(N_IDS * f->n_embd, sizeof *got);
    for (int kind = BN_POOLING_FILE; kind <= BN_POOLING_LAST; kind++) {
        size_t n = (kind == BN_POOLING_NONE ? N_IDS : 1) * f->n_embd * sizeof *want;
        bn_embed_options how = {.pooling = (bn_pooling)kind};
        embed(f, N_IDS, 1, how, want);
        for (size_t i = 0; i < BN_ARRAY_LEN(BATCHES); i++)
            for (uint32_t threads = 1; threads <= 3; threads++) {
                embed(f, BATCHES[i], threads, how, got);
                assert_memory_equal(got, want, n);
            }
        if (kind != BN_POOLING_FILE) continue;
        embed(f, N_IDS, 1, (bn_embed_options){.pooling = BN_POOLING_LAST}, got);
        assert_memory_equal(got, want, n);
    }
    bn_free(got);
    bn_free(want);
}

TEST_IN(bad_calls, open_model, close_model)
{
    const struct fixture *f = *state;
    bn_session *s = NULL;
    float *row = bn_alloc(f->n_embd, sizeof *row);
    int32_t wrong = -1;
    must(bn_session_open(&s, f->model, NULL, NULL));
    refused(bn_session_embed(s, IDS, 0, NULL, row, &err), BN_ERR_ARG);
    refused(bn_session_embed(s, &wrong, 1, NULL, row, &err), BN_ERR_ARG);
    assert_int_equal(bn_session_position(s), 0);
    f->model->hp.pooling = BN_POOLING_FILE;
    refused(bn_session_embed(s, IDS, N_IDS, NULL, row, &err), BN_ERR_UNSUPPORTED);
    assert_has(err.msg, "gemma3.pooling_type");
    f->model->hp.pooling = BN_POOLING_LAST;
    must(bn_session_embed(s, IDS, N_IDS, NULL, row, NULL));
    bn_session_close(s);
    bn_free(row);
}
