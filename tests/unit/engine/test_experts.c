/* SPDX-License-Identifier: MIT
 *
 * Models with experts: of equal probabilities the experts of lower numbers are chosen, the others are not computed, the
 * experts that passes read are counted, and several sequences in one pass give the bits of each by itself.
 */
#include "base/file.h"
#include "infer/session.h"
#include "tests/unit/status.h"

#define MODEL "fixtures/duo-maple-tq2_0-v331-42.gguf"
#define N_VOCAB 331u
#define N_IDS 24u

static int32_t ids[N_IDS];

/* A copy of the model's file, which tests change. */
struct copy {
    unsigned char *bytes;
    size_t n;
    struct bn_gguf gguf;
};

static void open_copy(struct copy *c)
{
    struct bn_file_map map;
    must(bn_file_map_open(&map, MODEL, false, NULL));
    c->n = map.n_bytes;
    c->bytes = bn_alloc_aligned(c->n, 1);
    assert_non_null(c->bytes);
    memcpy(c->bytes, map.data, c->n);
    bn_file_map_close(&map);
    must(bn_gguf_open(&c->gguf, c->bytes, c->n, NULL));
}

static void close_copy(struct copy *c)
{
    bn_gguf_close(&c->gguf);
    bn_free(c->bytes);
}

/* Parts first ... end - 1 of the n of a tensor become bytes of one value. */
static void fill(struct copy *c, const char *name, size_t first, size_t end, size_t n, int value)
{
    const struct bn_gguf_tensor *t = bn_gguf_find_tensor(&c->gguf, name);
    assert_non_null(t);
    size_t each = (size_t)t->n_bytes / n;
    memset(c->bytes + (t->data - c->bytes) + first * each, value, (end - first) * each);
}

static void logits_of(const struct copy *c, float *logits)
{
    bn_model *m = NULL;
    bn_session *s = NULL;
    bn_session_options options = {.n_ctx = 64, .n_batch = 7, .n_threads = 2, .exact_threads = true};
    must(bn_model_open_memory(&m, c->bytes, c->n, "copy", NULL, NULL));
    must(bn_session_open(&s, m, &options, NULL));
    must(bn_session_eval(s, ids, N_IDS, BN_LOGITS_LAST, logits, NULL));
    bn_session_close(s);
    bn_model_close(m);
}

TEST(equal_probabilities_choose_lower_numbers)
{
    static const char *const PARTS[] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};
    struct copy c;
    float want[N_VOCAB], got[N_VOCAB];
    char name[64];
    open_copy(&c);
    for (unsigned layer = 0; layer < 2; layer++) {
        snprintf(name, sizeof name, "blk.%u.ffn_gate_inp.weight", layer);
        fill(&c, name, 0, 6, 6, 0);
    }
    logits_of(&c, want);
    for (unsigned layer = 0; layer < 2; layer++)
        for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++) {
            snprintf(name, sizeof name, "blk.%u.%s.weight", layer, PARTS[i]);
            fill(&c, name, 2, 6, 6, 0x11); /* scales of 0x1111 are finite */
        }
    logits_of(&c, got);
    assert_memory_equal(got, want, sizeof want);
    fill(&c, "blk.1.ffn_down_exps.weight", 1, 2, 6, 0x11);
    logits_of(&c, got);
    assert_memory_not_equal(got, want, sizeof want);
    close_copy(&c);
}

/* Two layers, two experts of six for a token. */
TEST(experts_that_are_read_are_counted)
{
    bn_model *m = NULL;
    bn_session *s = NULL;
    bn_session_options options = {.n_ctx = 64, .n_batch = 16, .n_threads = 2, .exact_threads = true};
    float logits[N_VOCAB];
    must(bn_model_open(&m, MODEL, NULL, NULL));
    must(bn_session_open(&s, m, &options, NULL));
    must(bn_session_eval(s, ids, 1, BN_LOGITS_LAST, logits, NULL));
    assert_int_equal(s->work.experts, 2 * 2);
    must(bn_session_eval(s, ids + 1, 16, BN_LOGITS_LAST, logits, NULL));
    assert_in_range(s->work.experts, 2 * 2 + 2 * 3, 2 * 2 + 2 * 6);
    uint64_t before = s->work.experts;
    for (size_t i = 17; i < N_IDS; i++)
        must(bn_session_eval(s, ids + i, 1, BN_LOGITS_LAST, logits, NULL));
    assert_int_equal(s->work.experts - before, (N_IDS - 17) * 2 * 2);
    bn_session_close(s);
    bn_model_close(m);
}

/* More threads than tiles of an expert, and than tokens. */
TEST(threads_change_nothing)
{
    bn_model *m = NULL;
    float want[N_VOCAB], got[N_VOCAB];
    must(bn_model_open(&m, MODEL, NULL, NULL));
    for (uint32_t n_threads = 1; n_threads <= 40; n_threads += 13)
        for (uint32_t n_batch = 1; n_batch <= N_IDS; n_batch += 11) {
            bn_session *s = NULL;
            bn_session_options options = {
                .n_ctx = 64, .n_batch = n_batch, .n_threads = n_threads, .exact_threads = true};
            bool first = n_threads == 1 && n_batch == 1;
            must(bn_session_open(&s, m, &options, NULL));
            must(bn_session_eval(s, ids, N_IDS, BN_LOGITS_LAST, first ? want : got, NULL));
            if (!first) assert_memory_equal(got, want, sizeof want);
            bn_session_close(s);
        }
    bn_model_close(m);
}

/* The number of experts in the keys is that of the tensors. */
TEST(another_number_of_experts_is_refused)
{
    struct copy c;
    bn_model *m = NULL;
    open_copy(&c);
    const struct bn_gguf_kv *count = bn_gguf_find(&c.gguf, "maple.expert_count");
    assert_non_null(count);
    c.bytes[count->value - c.bytes] = 5;
    refused(bn_model_open_memory(&m, c.bytes, c.n, "copy", NULL, &err), BN_ERR_FORMAT);
    assert_has(err.where, "blk.0.ffn_gate_inp.weight");
    c.bytes[count->value - c.bytes] = 1;
    refused(bn_model_open_memory(&m, c.bytes, c.n, "copy", NULL, &err), BN_ERR_FORMAT);
    assert_has(err.where, "maple.expert_used_count");
    assert_has(err.msg, "2 of 1 experts");
    close_copy(&c);
}

FIXTURE(make_ids)
{
    for (int32_t i = 0; i < (int32_t)N_IDS; i++)
        ids[i] = (i * 151 + 7) % 256;
}

GROUP(make_ids, NULL)
