/* SPDX-License-Identifier: MIT
 *
 * Models with recurrent layers: their keys. See test_snapshots.c for their state.
 */
#include "model/hparams.h"
#include "tests/unit/status.h"

#define N_LAYERS 8u

struct keys {
    uint32_t blocks, taps, state, key_heads, value_heads, inner, interval, next;
    const unsigned char *list; /* of flags; NULL: none */
    uint64_t n_list;
};
#define GOOD ((struct keys){N_LAYERS, 4, 64, 2, 4, 256, 0, 0, NULL, 0})

static bn_status read_keys(const struct keys *k, bn_hparams *hp, bn_error *e)
{
    const struct {
        const char *key;
        uint32_t value;
    } NUMBERS[] = {{"qwen35.context_length", 512},
                   {"qwen35.embedding_length", 128},
                   {"qwen35.block_count", k->blocks},
                   {"qwen35.feed_forward_length", 256},
                   {"qwen35.attention.head_count", 2},
                   {"qwen35.ssm.conv_kernel", k->taps},
                   {"qwen35.ssm.state_size", k->state},
                   {"qwen35.ssm.group_count", k->key_heads},
                   {"qwen35.ssm.time_step_rank", k->value_heads},
                   {"qwen35.ssm.inner_size", k->inner},
                   {"qwen35.full_attention_interval", k->interval},
                   {"qwen35.nextn_predict_layers", k->next}};
    struct bn_gguf_writer w = {.kv.max = 1 << 16, .infos.max = 1 << 16};
    struct bn_buf head = {.max = 1 << 16};
    struct bn_gguf gguf;
    bn_gguf_put_str(&w, "general.architecture", "qwen35", 6);
    bn_gguf_put_f32(&w, "qwen35.attention.layer_norm_rms_epsilon", 1e-6f);
    for (size_t i = 0; i < BN_ARRAY_LEN(NUMBERS); i++)
        if (NUMBERS[i].value != 0) bn_gguf_put_u32(&w, NUMBERS[i].key, NUMBERS[i].value);
    if (k->list != NULL) {
        bn_gguf_put_array(&w, "qwen35.attention.recurrent_layers", BN_GGUF_BOOL, k->n_list);
        bn_buf_append(&w.kv, k->list, k->n_list);
    }
    assert_int_equal(bn_gguf_write_head(&w, &head, e), BN_OK);
    assert_int_equal(bn_gguf_open(&gguf, head.data, head.len, e), BN_OK);
    bn_status status = bn_hparams_read(hp, &gguf, e);
    bn_gguf_close(&gguf);
    bn_buf_release(&head);
    bn_gguf_writer_release(&w);
    return status;
}

TEST(keys_say_which_layers_are_recurrent)
{
    static const unsigned char LIST[N_LAYERS] = {0, 1, 1, 0, 1, 0, 0, 1};
    bn_hparams hp;
    struct keys k = GOOD;
    must(read_keys(&k, &hp, &err));
    assert_int_equal(bn_hparams_n_recurrent(&hp, hp.n_layer), 6);
    assert_false(bn_hparams_is_recurrent(&hp, 3));
    assert_int_equal(bn_hparams_mixed(&hp), 512);
    assert_int_equal(bn_hparams_inner(&hp), 256);
    k.interval = 3;
    must(read_keys(&k, &hp, &err));
    for (uint32_t i = 0; i < N_LAYERS; i++)
        assert_int_equal(bn_hparams_is_recurrent(&hp, i), (i + 1) % 3 != 0);
    k.list = LIST; /* is preferred to the interval */
    k.n_list = N_LAYERS;
    must(read_keys(&k, &hp, &err));
    for (uint32_t i = 0; i < N_LAYERS; i++)
        assert_int_equal(bn_hparams_is_recurrent(&hp, i), LIST[i]);
    k.next = 1; /* the last layer predicts further tokens */
    must(read_keys(&k, &hp, &err));
    assert_int_equal(hp.n_layer, N_LAYERS - 1);
    assert_int_equal(bn_hparams_n_recurrent(&hp, hp.n_layer), 3);
}

#define REFUSED(code, key_, ...)                          \
    do {                                                  \
        struct keys k = GOOD;                             \
        bn_hparams hp;                                    \
        __VA_ARGS__;                                      \
        refused(read_keys(&k, &hp, &err), BN_ERR_##code); \
        assert_has(err.where, key_);                      \
    } while (0)

TEST(impossible_keys_are_refused)
{
    static const unsigned char LIST[N_LAYERS] = {0};
    REFUSED(FORMAT, "ssm.conv_kernel", k.taps = 0);
    REFUSED(LIMIT, "ssm.conv_kernel", k.taps = BN_MAX_TAPS + 1);
    REFUSED(FORMAT, "ssm.state_size", k.state = 0);
    REFUSED(FORMAT, "ssm.group_count", k.key_heads = 3);
    REFUSED(LIMIT, "ssm.time_step_rank", k.value_heads = 5000);
    REFUSED(FORMAT, "ssm.inner_size", k.inner = 255);
    REFUSED(LIMIT, "full_attention_interval", k.interval = BN_MAX_LAYERS + 1);
    REFUSED(LIMIT, "nextn_predict_layers", k.next = N_LAYERS);
    REFUSED(FORMAT, "attention.recurrent_layers", k.list = LIST, k.n_list = N_LAYERS - 1);
}
