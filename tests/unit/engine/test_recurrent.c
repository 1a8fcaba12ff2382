/* SPDX-License-Identifier: MIT
 *
 * Models with recurrent layers: their keys; their state cannot be shortened, so each way to reuse a beginning gives the bits of an
 * evaluation from the start, or is refused.
 */
#define _GNU_SOURCE /* mkstemp */
#include <unistd.h>

#include "base/mem.h"
#include "infer/session.h"
#include "model/hparams.h"
#include "tests/unit/unit.h"

#define MODEL "fixtures/quad-qwen35-q2_0-v331-tied-42.gguf"
#define N_VOCAB 331u
#define N_IDS 30u

struct fixture {
    bn_model *model;
    bn_session *session, *fresh;
    int32_t ids[N_IDS];
    float want[N_VOCAB], got[N_VOCAB];
    bn_error err;
};

static bn_session *open_session(const bn_model *model, uint32_t n_batch)
{
    bn_session *s = NULL;
    bn_session_options options = {.n_ctx = 64, .n_batch = n_batch, .n_threads = 2, .exact_threads = true};
    assert_int_equal(bn_session_open(&s, model, &options, NULL), BN_OK);
    return s;
}

static int setup(void **state)
{
    struct fixture *f = bn_alloc(1, sizeof *f);
    assert_int_equal(bn_model_open(&f->model, MODEL, NULL, &f->err), BN_OK);
    f->session = open_session(f->model, 7);
    f->fresh = open_session(f->model, 64);
    for (int32_t i = 0; i < (int32_t)N_IDS; i++)
        f->ids[i] = (i * 151 + 7) % 256;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    bn_session_close(f->session);
    bn_session_close(f->fresh);
    bn_model_close(f->model);
    bn_free(f);
    return 0;
}

static void eval(bn_session *s, const int32_t *ids, size_t n, float *logits)
{
    bn_error err = {0};
    assert_int_equal(bn_session_eval(s, ids, n, BN_LOGITS_LAST, logits, &err), BN_OK);
}

/* The logits after all tokens, evaluated from the start. */
static void expect_logits(struct fixture *f, const int32_t *ids, size_t n)
{
    assert_int_equal(bn_session_truncate(f->fresh, 0, &f->err), BN_OK);
    eval(f->fresh, ids, n, f->want);
    assert_memory_equal(f->got, f->want, sizeof f->want);
}

/* Evaluates tokens of which the first n_prompt are a prompt, whose end is marked as generations do. */
static void run_prompt(struct fixture *f, size_t n_prompt, size_t n)
{
    assert_int_equal(bn_session_truncate(f->session, 0, &f->err), BN_OK);
    bn_sequence_mark(&f->session->own, (uint32_t)n_prompt - 1);
    eval(f->session, f->ids, n_prompt, f->got);
    if (n > n_prompt) eval(f->session, f->ids + n_prompt, n - n_prompt, f->got);
}

static void the_state_is_kept_before_the_last_token(void **state)
{
    struct fixture *f = *state;
    for (size_t n_prompt = 2; n_prompt < N_IDS - 1; n_prompt += 3) {
        run_prompt(f, n_prompt, N_IDS);
        expect_logits(f, f->ids, N_IDS);
        assert_int_equal(bn_session_known(f->session, N_IDS), N_IDS);
        assert_int_equal(bn_session_known(f->session, N_IDS - 1), n_prompt - 1);
        assert_int_equal(bn_session_known(f->session, (uint32_t)n_prompt - 2), 0);
        assert_int_equal(bn_session_truncate(f->session, (uint32_t)n_prompt - 1, &f->err), BN_OK);
        eval(f->session, f->ids + n_prompt - 1, 1, f->got);
        expect_logits(f, f->ids, n_prompt);
    }
}

static void other_lengths_are_refused(void **state)
{
    struct fixture *f = *state;
    run_prompt(f, 20, 25);
    for (uint32_t n = 1; n < 25; n++) {
        if (n == 19) continue;
        assert_int_equal(bn_session_truncate(f->session, n, &f->err), BN_ERR_UNSUPPORTED);
        assert_int_equal(bn_session_position(f->session), 25);
    }
    eval(f->session, f->ids + 25, 1, f->got); /* nothing was changed */
    expect_logits(f, f->ids, 26);
}

/* Beginnings that are shared are kept as far as the state is known. */
static void beginnings_are_kept_where_they_can_be(void **state)
{
    struct fixture *f = *state;
    int32_t other[N_IDS];
    for (size_t differs = 0; differs < N_IDS; differs++) {
        memcpy(other, f->ids, sizeof other);
        other[differs] = 300;
        run_prompt(f, 20, 25);
        uint32_t kept = bn_session_keep(f->session, other, N_IDS - 1);
        assert_int_equal(kept, differs >= 25 ? 25 : differs >= 19 ? 19 : 0);
        eval(f->session, other + kept, N_IDS - kept, f->got);
        expect_logits(f, other, N_IDS);
        /* What was kept of the timeline before must not come back. */
        kept = bn_session_keep(f->session, f->ids, 20);
        assert_int_equal(kept, differs >= 20 ? 19 : differs == 19 ? 19 : 0);
        eval(f->session, f->ids + kept, N_IDS - kept, f->got);
        expect_logits(f, f->ids, N_IDS);
    }
}

static void sequences_copy_a_known_state(void **state)
{
    struct fixture *f = *state;
    bn_sequence *other = NULL;
    assert_int_equal(bn_sequence_open(&other, f->session, 0, &f->err), BN_OK);
    run_prompt(f, 20, 25);
    const bn_sequence *from = bn_session_sequence(f->session);
    assert_int_equal(bn_sequence_share(f->session, other, from, f->ids, 18), 0);
    assert_int_equal(bn_sequence_share(f->session, other, from, f->ids, 22), 19);
    bn_batch_part part = {other, f->ids + 19, 3, BN_LOGITS_LAST};
    assert_int_equal(bn_session_eval_batch(f->session, &part, 1, 0, f->got, &f->err), BN_OK);
    expect_logits(f, f->ids, 22);
    assert_int_equal(bn_sequence_share(f->session, other, from, f->ids, N_IDS), 25);
    part = (bn_batch_part){other, f->ids + 25, 5, BN_LOGITS_LAST};
    assert_int_equal(bn_session_eval_batch(f->session, &part, 1, 0, f->got, &f->err), BN_OK);
    expect_logits(f, f->ids, N_IDS);
    bn_sequence_close(other);
}

/* A file has the state of all its tokens, and serves longer prompts only. */
static void files_have_the_state(void **state)
{
    struct fixture *f = *state;
    char path[] = "/tmp/bn-recurrent-XXXXXX";
    uint32_t kept = 0;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    run_prompt(f, 20, 25);
    assert_int_equal(bn_session_save(f->session, 10, path, &f->err), BN_ERR_UNSUPPORTED);
    for (uint32_t n = 19; n <= 25; n += 6) {
        assert_int_equal(bn_session_save(f->session, n, path, &f->err), BN_OK);
        bn_session *s = open_session(f->model, 5);
        assert_int_equal(bn_session_load(s, path, f->ids, n - 1, &kept, &f->err), BN_OK);
        assert_int_equal(kept, 0);
        assert_int_equal(bn_session_load(s, path, f->ids, N_IDS - 1, &kept, &f->err), BN_OK);
        assert_int_equal(kept, n);
        eval(s, f->ids + n, N_IDS - n, f->got);
        expect_logits(f, f->ids, N_IDS);
        bn_session_close(s);
    }
    (void)remove(path);
}

/* Drafts would have to be taken back. */
static void drafts_are_refused(void **state)
{
    struct fixture *f = *state;
    bn_generation gen = {.prompt = f->ids,
                         .n_prompt = 5,
                         .n_predict = 3,
                         .ignore_end = true,
                         .draft = {.kind = BN_DRAFT_NGRAM, .most = 4}};
    assert_int_equal(bn_session_truncate(f->session, 0, &f->err), BN_OK);
    assert_int_equal(bn_generate(f->session, NULL, &gen, &f->err), BN_ERR_UNSUPPORTED);
    gen.draft = (bn_draft_options){0};
    assert_int_equal(bn_generate(f->session, NULL, &gen, &f->err), BN_OK);
    assert_int_equal(bn_session_known(f->session, 5), 4);
    bn_generation_release(&gen);
}

/* ---- the keys ---- */

#define N_LAYERS 8u

struct keys {
    uint32_t blocks, taps, state, key_heads, value_heads, inner, interval, next;
    const unsigned char *list; /* of flags; NULL: none */
    uint64_t n_list;
};
#define GOOD ((struct keys){N_LAYERS, 4, 64, 2, 4, 256, 0, 0, NULL, 0})

static bn_status read_keys(const struct keys *k, bn_hparams *hp, bn_error *err)
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
    assert_int_equal(bn_gguf_write_head(&w, &head, err), BN_OK);
    assert_int_equal(bn_gguf_open(&gguf, head.data, head.len, err), BN_OK);
    bn_status status = bn_hparams_read(hp, &gguf, err);
    bn_gguf_close(&gguf);
    bn_buf_release(&head);
    bn_gguf_writer_release(&w);
    return status;
}

static void keys_say_which_layers_are_recurrent(void **state)
{
    static const unsigned char LIST[N_LAYERS] = {0, 1, 1, 0, 1, 0, 0, 1};
    bn_hparams hp;
    bn_error err = {0};
    struct keys k = GOOD;
    (void)state;
    assert_int_equal(read_keys(&k, &hp, &err), BN_OK);
    assert_int_equal(bn_hparams_n_recurrent(&hp, hp.n_layer), 6);
    assert_false(bn_hparams_is_recurrent(&hp, 3));
    assert_int_equal(bn_hparams_mixed(&hp), 512);
    assert_int_equal(bn_hparams_inner(&hp), 256);
    k.interval = 3;
    assert_int_equal(read_keys(&k, &hp, &err), BN_OK);
    for (uint32_t i = 0; i < N_LAYERS; i++)
        assert_int_equal(bn_hparams_is_recurrent(&hp, i), (i + 1) % 3 != 0);
    k.list = LIST; /* is preferred to the interval */
    k.n_list = N_LAYERS;
    assert_int_equal(read_keys(&k, &hp, &err), BN_OK);
    for (uint32_t i = 0; i < N_LAYERS; i++)
        assert_int_equal(bn_hparams_is_recurrent(&hp, i), LIST[i]);
    k.next = 1; /* the last layer predicts further tokens */
    assert_int_equal(read_keys(&k, &hp, &err), BN_OK);
    assert_int_equal(hp.n_layer, N_LAYERS - 1);
    assert_int_equal(bn_hparams_n_recurrent(&hp, hp.n_layer), 3);
}

#define REFUSED(key_, ...)                                              \
    do {                                                                \
        struct keys k = GOOD;                                           \
        bn_hparams hp;                                                  \
        bn_error err = {0};                                             \
        __VA_ARGS__;                                                    \
        assert_int_equal(read_keys(&k, &hp, &err), BN_ERR_FORMAT);      \
        if (strstr(err.where, key_) == NULL) fail_msg("%s", err.where); \
    } while (0)

static void impossible_keys_are_refused(void **state)
{
    static const unsigned char LIST[N_LAYERS] = {0};
    (void)state;
    REFUSED("ssm.conv_kernel", k.taps = 0);
    REFUSED("ssm.conv_kernel", k.taps = BN_MAX_TAPS + 1);
    REFUSED("ssm.state_size", k.state = 0);
    REFUSED("ssm.group_count", k.key_heads = 3);
    REFUSED("ssm.time_step_rank", k.value_heads = 5000);
    REFUSED("ssm.inner_size", k.inner = 255);
    REFUSED("full_attention_interval", k.interval = BN_MAX_LAYERS + 1);
    REFUSED("nextn_predict_layers", k.next = N_LAYERS);
    REFUSED("attention.recurrent_layers", k.list = LIST, k.n_list = N_LAYERS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_state_is_kept_before_the_last_token),
        cmocka_unit_test(other_lengths_are_refused),
        cmocka_unit_test(beginnings_are_kept_where_they_can_be),
        cmocka_unit_test(sequences_copy_a_known_state),
        cmocka_unit_test(files_have_the_state),
        cmocka_unit_test(drafts_are_refused),
        cmocka_unit_test(keys_say_which_layers_are_recurrent),
        cmocka_unit_test(impossible_keys_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
