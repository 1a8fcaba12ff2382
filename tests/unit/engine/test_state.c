/* SPDX-License-Identifier: MIT
 *
 * Saved timelines: what is evaluated after them has the same bits, every damage and every other model is refused, and
 * nothing of a refused file reaches the session. Timelines that are shortened to a common beginning.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "base/digest.h"
#include "base/mem.h"
#include "infer/session.h"
#include "tests/unit/folder.h"

#define MODEL "fixtures/shakespeare-5m-i2_s.gguf"
#define SMALL "fixtures/nano-bitnet-b1.58-i2_s-42.gguf"
#define N_VOCAB 2048u
#define N_IDS 40u

static struct {
    bn_model *model, *small;
    int32_t ids[N_IDS];
    float *want, *got; /* logits */
    char path[64];
} f;

static bn_session *open_session(const bn_model *model, uint32_t n_ctx, uint32_t n_batch)
{
    bn_session *s = NULL;
    bn_session_options options = {
        .n_ctx = n_ctx, .n_batch = n_batch, .n_threads = 1 + n_batch % 3, .exact_threads = true};
    must(bn_session_open(&s, model, &options, NULL));
    return s;
}

FIXTURE(setup)
{
    must(bn_model_open(&f.model, MODEL, NULL, &err));
    must(bn_model_open(&f.small, SMALL, NULL, &err));
    f.want = bn_alloc(N_VOCAB, sizeof *f.want);
    f.got = bn_alloc(N_VOCAB, sizeof *f.got);
    for (int32_t i = 0; i < (int32_t)N_IDS; i++)
        f.ids[i] = (i * 151 + 7) % 256;
    assert_int_equal(make_folder(NULL), 0);
    strcpy(f.path, below("state"));
}

FIXTURE(teardown)
{
    assert_int_equal(remove_folder(NULL), 0);
    bn_model_close(f.model);
    bn_model_close(f.small);
    bn_free(f.want);
    bn_free(f.got);
}

/* Evaluates the tokens from..n and returns the last logits. */
static void eval(bn_session *s, const int32_t *ids, size_t from, size_t n, float *logits)
{
    must(bn_session_eval(s, ids + from, n - from, BN_LOGITS_LAST, logits, NULL));
}

static void save(const bn_model *model, uint32_t n)
{
    bn_session *s = open_session(model, 64, 16);
    must(bn_session_eval(s, f.ids, n, BN_LOGITS_NONE, NULL, NULL));
    must(bn_session_save(s, n, f.path, &err));
    bn_session_close(s);
}

static void same_logits(void)
{
    assert_memory_equal(f.want, f.got, N_VOCAB * sizeof *f.want);
}

TEST_IN(loaded_tokens_give_the_same_bits, setup, teardown)
{
    uint32_t n_kept = 0;
    save(f.model, 30);
    for (uint32_t n_batch = 1; n_batch < 8; n_batch += 3) {
        bn_session *fresh = open_session(f.model, 48, n_batch), *loaded = open_session(f.model, 41, n_batch);
        eval(fresh, f.ids, 0, N_IDS, f.want);
        must(bn_session_load(loaded, f.path, f.ids, N_IDS - 1, &n_kept, &err));
        assert_int_equal(n_kept, 30);
        assert_int_equal(bn_session_position(loaded), 30);
        assert_null(bn_session_hidden(loaded));
        eval(loaded, f.ids, 30, N_IDS, f.got);
        same_logits();
        assert_memory_equal(bn_session_hidden(fresh), bn_session_hidden(loaded),
                            bn_model_hparams(f.model)->n_embd * sizeof(float));
        bn_session_close(fresh);
        bn_session_close(loaded);
    }
}

TEST_IN(only_the_common_beginning_is_loaded, setup, teardown)
{
    uint32_t n_kept = 0;
    save(f.model, 30);
    bn_session *fresh = open_session(f.model, 64, 16), *loaded = open_session(f.model, 20, 16);
    f.ids[12] ^= 1;
    eval(fresh, f.ids, 0, 20, f.want);
    must(bn_session_load(loaded, f.path, f.ids, 19, &n_kept, &err));
    assert_int_equal(n_kept, 12);
    eval(loaded, f.ids, 12, 20, f.got); /* the file holds more than this context */
    same_logits();
    /* What the timeline holds already counts as well; a second load takes nothing from it. */
    must(bn_session_load(loaded, f.path, f.ids, 19, &n_kept, &err));
    assert_int_equal(n_kept, 19);
    eval(loaded, f.ids, 19, 20, f.got);
    same_logits();
    f.ids[0] ^= 1;
    must(bn_session_load(loaded, f.path, f.ids, 19, &n_kept, &err));
    assert_int_equal(n_kept, 0);
    assert_int_equal(bn_session_position(loaded), 0);
    bn_session_close(fresh);
    bn_session_close(loaded);
}

/* A saved beginning of a timeline, and one that a loaded timeline saves again, is the same file. */
TEST_IN(files_depend_on_tokens_only, setup, teardown)
{
    struct bn_buf first = {.max = 1u << 24}, second = {.max = 1u << 24};
    uint32_t n_kept = 0;
    save(f.model, 30);
    must(bn_file_read(f.path, &first, NULL));
    bn_session *s = open_session(f.model, 50, 7);
    must(bn_session_load(s, f.path, f.ids, 11, &n_kept, NULL));
    must(bn_session_eval(s, f.ids + 11, N_IDS - 11, BN_LOGITS_NONE, NULL, NULL));
    must(bn_session_save(s, 30, f.path, NULL));
    must(bn_file_read(f.path, &second, NULL));
    assert_int_equal(first.len, second.len);
    assert_int_equal(first.len, 64 + 30 * bn_session_token_bytes(s) + 32);
    assert_memory_equal(first.data, second.data, first.len);
    bn_session_close(s);
    bn_buf_release(&first);
    bn_buf_release(&second);
}

/* When this digest changes, so do the keys and values of files that exist: raise BN_STATE_VERSION, which is in it. */
TEST_IN(the_version_names_the_arithmetic, setup, teardown)
{
    char hex[BN_SHA256_HEX];
    save(f.small, 30);
    must(bn_sha256_file(f.path, hex, NULL));
    assert_string_equal(hex, "e8c4f05eea491ef1c955a3ce2281c9fb2c374d668fdbf0c5c1c861cfb6ae973d");
}

TEST_IN(bad_counts_are_refused, setup, teardown)
{
    bn_session *s = open_session(f.small, 64, 16);
    refused(bn_session_save(s, 0, f.path, NULL), BN_ERR_ARG);
    must(bn_session_eval(s, f.ids, 3, BN_LOGITS_NONE, NULL, NULL));
    refused(bn_session_save(s, 4, f.path, &err), BN_ERR_ARG);
    assert_string_equal(err.msg, "cannot save 4 tokens, the timeline has 3");
    bn_session_close(s);
}

TEST_IN(sequences_share_what_one_has_evaluated, setup, teardown)
{
    bn_session *s = open_session(f.model, 64, 16);
    bn_sequence *from = bn_session_sequence(s), *to = NULL, *brief = NULL;
    must(bn_sequence_open(&to, s, 50, NULL));
    must(bn_sequence_open(&brief, s, 9, NULL));
    eval(s, f.ids, 0, N_IDS, f.want);
    assert_int_equal(bn_sequence_share(s, to, from, f.ids, 10), 10);
    assert_int_equal(bn_sequence_share(s, to, from, f.ids, N_IDS - 1), N_IDS - 1);
    const bn_batch_part last = {to, f.ids + N_IDS - 1, 1, BN_LOGITS_LAST};
    must(bn_session_eval_batch(s, &last, 1, 0, f.got, NULL));
    same_logits();
    /* What the sequence has itself counts, too, and the room that it has is the limit. */
    must(bn_sequence_truncate(from, 3, NULL));
    assert_int_equal(bn_sequence_share(s, to, from, f.ids, 20), 20);
    assert_int_equal(bn_sequence_share(s, brief, to, f.ids, 20), 9);
    f.ids[0] ^= 1;
    assert_int_equal(bn_sequence_share(s, brief, to, f.ids, 20), 0);
    bn_sequence_close(to);
    bn_sequence_close(brief);
    bn_session_close(s);
}

/* ---- files that are refused ---- */

/* A small timeline in memory, which tests spoil. */
struct spoiled {
    bn_session *s;
    unsigned char *bytes;
    size_t n;
};

static void make(struct spoiled *p)
{
    struct bn_buf file = {.max = 1u << 24};
    save(f.small, 5);
    must(bn_file_read(f.path, &file, NULL));
    p->s = open_session(f.small, 32, 8);
    p->n = file.len;
    p->bytes = (unsigned char *)bn_strndup(file.data, file.len);
    bn_buf_release(&file);
    must(bn_session_eval(p->s, f.ids + 9, 3, BN_LOGITS_NONE, NULL, NULL));
}

static void unmake(struct spoiled *p)
{
    bn_session_close(p->s);
    bn_free(p->bytes);
}

static void seal(unsigned char *bytes, size_t n)
{
    struct bn_checksum *sum;
    char hex[BN_CHECKSUM_HEX];
    must(bn_checksum_open(&sum, NULL));
    bn_checksum_update(sum, bytes, n - BN_STATE_SUM_BYTES);
    bn_checksum_take(sum, hex);
    bn_checksum_close(sum);
    memcpy(bytes + n - BN_STATE_SUM_BYTES, hex, BN_STATE_SUM_BYTES);
}

/* Reading n of the bytes fails so, and leaves the timeline. */
static void is_refused(struct spoiled *p, size_t n, bn_status status)
{
    uint32_t n_kept = 99;
    /* Of exactly this size: a sanitizer sees a byte too far. */
    unsigned char *copy = bn_alloc(n, 1);
    memcpy(copy, p->bytes, n);
    refused(bn_state_read(p->s, copy, n, "file", f.ids, N_IDS, &n_kept, &err), status);
    assert_int_equal(err.code, status);
    assert_string_equal(err.where, "file");
    assert_int_equal(n_kept, 0);
    assert_int_equal(bn_session_position(p->s), 3);
    bn_free(copy);
}

TEST_IN(every_truncation_is_refused, setup, teardown)
{
    struct spoiled p;
    make(&p);
    for (size_t n = 0; n < p.n; n += n < 200 ? 1 : 101)
        is_refused(&p, n, n < 96 ? BN_ERR_FORMAT : BN_ERR_INTEGRITY);
    unmake(&p);
}

TEST_IN(every_changed_byte_is_noticed, setup, teardown)
{
    struct spoiled p;
    make(&p);
    for (size_t i = 0; i < p.n; i += i < 200 || i + 40 > p.n ? 1 : 97) {
        p.bytes[i] ^= 0x10;
        is_refused(&p, p.n, i < 8 ? BN_ERR_FORMAT : BN_ERR_INTEGRITY);
        p.bytes[i] ^= 0x10;
    }
    unmake(&p);
}

/* Whoever writes a file can compute its checksum. */
TEST_IN(right_checksums_open_no_door, setup, teardown)
{
    static const struct {
        size_t at;
        uint32_t value;
        bn_status status;
    } EDITS[] = {
        {8, 2, BN_ERR_UNSUPPORTED},      {12, 0, BN_ERR_FORMAT},           {12, 4, BN_ERR_FORMAT},
        {12, 6, BN_ERR_FORMAT},          {12, UINT32_MAX, BN_ERR_FORMAT},  {16, 0, BN_ERR_FORMAT},
        {16, UINT32_MAX, BN_ERR_FORMAT}, {20, 77, BN_ERR_FORMAT},          {24, 1u << 31, BN_ERR_FORMAT},
        {28, 0, BN_ERR_FORMAT},          {32, 0x0A0D1B00, BN_ERR_MISMATCH}};
    struct spoiled p;
    make(&p);
    for (size_t i = 0; i < BN_ARRAY_LEN(EDITS); i++) {
        uint32_t old;
        memcpy(&old, p.bytes + EDITS[i].at, sizeof old);
        memcpy(p.bytes + EDITS[i].at, &EDITS[i].value, sizeof old);
        seal(p.bytes, p.n);
        is_refused(&p, p.n, EDITS[i].status);
        memcpy(p.bytes + EDITS[i].at, &old, sizeof old);
    }
    for (size_t n = 96; n < p.n; n += 61) {
        unsigned char *whole = p.bytes;
        p.bytes = (unsigned char *)bn_strndup((const char *)whole, n);
        seal(p.bytes, n);
        is_refused(&p, n, BN_ERR_FORMAT);
        bn_free(p.bytes);
        p.bytes = whole;
    }
    unmake(&p);
}

/* One changed weight is another model; the message has both checksums. */
TEST_IN(another_model_is_refused, setup, teardown)
{
    bn_model *other = NULL;
    size_t n = f.small->n_bytes;
    unsigned char *bytes = bn_alloc_aligned(n, 1);
    memcpy(bytes, f.small->bytes, n);
    bytes[n - 1] ^= 1;
    must(bn_model_open_memory(&other, bytes, n, "other", NULL, NULL));
    save(f.small, 5);
    bn_session *own = open_session(f.small, 32, 8), *s = open_session(other, 32, 8);
    const char *sums[2];
    uint32_t n_kept;
    must(bn_state_model_sum(own, &sums[0], NULL));
    must(bn_state_model_sum(s, &sums[1], NULL));
    assert_string_not_equal(sums[0], sums[1]);
    refused(bn_session_load(s, f.path, f.ids, 4, &n_kept, &err), BN_ERR_MISMATCH);
    assert_has(err.msg, sums[0]);
    assert_has(err.msg, sums[1]);
    bn_session_close(own);
    bn_session_close(s);
    bn_model_close(other);
    bn_free(bytes);
}

TEST_IN(no_file_and_an_empty_one_are_alike, setup, teardown)
{
    uint32_t n_kept;
    bn_session *s = open_session(f.small, 32, 8);
    refused(bn_session_load(s, f.path, f.ids, 4, &n_kept, NULL), BN_ERR_NOT_FOUND);
    must(bn_file_write_atomic(f.path, "", 0, NULL));
    refused(bn_session_load(s, f.path, f.ids, 4, &n_kept, NULL), BN_ERR_NOT_FOUND);
    refused(bn_session_load(s, SMALL, f.ids, 4, &n_kept, &err), BN_ERR_FORMAT);
    assert_string_equal(err.msg, "not a prompt cache");
    bn_session_close(s);
}

TEST_IN(short_memory_is_survived, setup, teardown)
{
    for (int load = 0; load < 2; load++) {
        bn_status status;
        bn_session *s = open_session(f.small, 32, 9); /* one thread */
        uint32_t n_kept;
        must(bn_session_eval(s, f.ids, 5, BN_LOGITS_NONE, NULL, NULL));
        SHORT_MEMORY (status)
            status = load ? bn_session_load(s, f.path, f.ids, 4, &n_kept, NULL)
                          : bn_session_save(s, 5, f.path, NULL);
        bn_session_close(s);
    }
}

/* ---- a generation on a timeline that has the beginning of the prompt ---- */

TEST_IN(cached_tokens_change_no_answer, setup, teardown)
{
    static const bn_sampler_options SAMPLED = {0, 0.9f, 40, 0.95f, 0.0f, 1.3f, 64, 7, 0.0f, 0.0f, NULL, 0, 0};
    struct bn_generation want = {.prompt = f.ids,
                                 .n_prompt = N_IDS,
                                 .n_predict = 12,
                                 .sampling = SAMPLED,
                                 .ignore_end = true,
                                 .want_chain = true};
    struct bn_generation got = want;
    bn_session *s = open_session(f.model, 64, 16);
    const bn_tokenizer *tok = bn_model_tokenizer(f.model);
    must(bn_generate(s, tok, &want, NULL));
    got.n_cached = bn_session_keep(s, f.ids, 33);
    assert_int_equal(got.n_cached, 33);
    must(bn_generate(s, tok, &got, NULL));
    assert_string_equal(want.chain, got.chain);
    assert_int_equal(want.n_ids, got.n_ids);
    bn_generation_release(&got);
    bn_generation_release(&want);
    f.ids[30] ^= 1; /* the timeline has another token there */
    assert_int_equal(bn_session_keep(s, f.ids, 33), 30);
    must(bn_session_eval(s, f.ids, 3, BN_LOGITS_NONE, NULL, NULL));
    refused(bn_generate(s, tok, &got, &err), BN_ERR_ARG);
    got.n_cached = N_IDS;
    refused(bn_generate(s, tok, &got, NULL), BN_ERR_ARG);
    bn_session_close(s);
}

TEST_IN(embeddings_share_their_beginning, setup, teardown)
{
    size_t n_bytes = bn_model_hparams(f.model)->n_embd * sizeof(float);
    static const bn_embed_options LAST = {.pooling = BN_POOLING_LAST};
    bn_session *fresh = open_session(f.model, 64, 16), *s = open_session(f.model, 64, 16);
    bn_kernel_stat before, after;
    must(bn_session_embed(s, f.ids, 30, &LAST, f.got, NULL));
    assert_true(bn_session_kernel_stat(s, 0, &before));
    f.ids[25] ^= 1;
    must(bn_session_embed(s, f.ids, 30, &LAST, f.got, NULL));
    assert_true(bn_session_kernel_stat(s, 0, &after));
    assert_int_equal((after.ops - before.ops) * 6, before.ops); /* 5 of 30 tokens */
    must(bn_session_embed(fresh, f.ids, 30, &LAST, f.want, NULL));
    assert_memory_equal(f.want, f.got, n_bytes);
    bn_session_close(fresh);
    bn_session_close(s);
}
