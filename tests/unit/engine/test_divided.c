/* SPDX-License-Identifier: MIT
 *
 * A model that is divided among ranks: the bits are those of one process, each rank has its part of the weights, what
 * cannot be divided is refused, and a failure of one rank is the error of all.
 */
#include "base/error.h"
#include "gguf/types.h"
#include "infer/exchange.h"
#include "tests/unit/ranks.h"
#include "tests/unit/unit.h"
#include "tools/fixtures/fixtures.h"

#define N_TOKENS 19u
#define N_CTX 40u

/* Shares of heads and of rows that are equal for no number of ranks but one. */
static const struct bn_fixture_size FIVE = {.name = "five", /* KV heads */
                                            .n_layer = 2,
                                            .n_embd = 640,
                                            .n_head = 10,
                                            .n_head_kv = 5,
                                            .n_ff = 896,
                                            .n_vocab = 520,
                                            .n_ctx = 128},
                                    BLOCKS = {.name = "blocks", /* of 256 weights */
                                              .n_layer = 1,
                                              .n_embd = 512,
                                              .n_head = 8,
                                              .n_head_kv = 4,
                                              .n_ff = 768,
                                              .n_vocab = 331,
                                              .n_ctx = 128};

static const struct bn_fixture_spec SPECS[] = {
    {.size = &FIVE, .seed = 1, .arch = BN_FIXTURE_BITNET_B158, .format = BN_TYPE_I2_S},
    {.size = &FIVE, .seed = 2, .arch = BN_FIXTURE_LLAMA, .format = BN_TYPE_F16},
    {.size = &FIVE, .seed = 3, .arch = BN_FIXTURE_QWEN3, .format = BN_TYPE_PQ2_0, .head_width = 64},
    {.size = &FIVE, .seed = 4, .arch = BN_FIXTURE_QWEN3, .format = BN_TYPE_Q2_0, .f16_embedding = true},
    {.size = &FIVE, .seed = 5, .arch = BN_FIXTURE_QWEN3, .format = BN_TYPE_I2_S, .input_norms = true},
    {.size = &FIVE, .seed = 6, .arch = BN_FIXTURE_GEMMA3, .format = BN_TYPE_Q2_0, .window = 8, .period = 2},
    {.size = &BLOCKS,
     .seed = 7,
     .arch = BN_FIXTURE_LLAMA,
     .format = BN_TYPE_TQ2_0,
     .group = 256,
     .tied = true},
    {.size = &BLOCKS, .seed = 8, .arch = BN_FIXTURE_BITNET_B158, .format = BN_TYPE_TQ1_0},
    {.size = &BLOCKS, .seed = 9, .arch = BN_FIXTURE_QWEN3, .format = BN_TYPE_PTQ1_0, .hadamard = 64},
};

/* A generated model, in memory that is aligned as a map. */
struct file {
    unsigned char *bytes;
    size_t n;
};

static struct file make_file(const struct bn_fixture_spec *spec)
{
    bn_error err = {0};
    struct bn_buf buf = {.max = 64u << 20};
    struct bn_sink sink = {.memory = &buf, .fd = -1};
    if (bn_fixture_generate(spec, &sink, &err) != BN_OK) fail_msg("%s", err.msg);
    struct file file = {bn_alloc_aligned(buf.len, 1), buf.len};
    memcpy(file.bytes, buf.data, buf.len);
    bn_buf_release(&buf);
    return file;
}

/* What all ranks work on, and what they found. */
struct job {
    struct file file;
    bn_repack repack;
    uint32_t n_batch, n_threads;
    int32_t tokens[N_TOKENS];
    size_t n_vocab;
    float *logits; /* of one process: N_TOKENS rows */
    struct bn_generation alone;
    uint64_t alone_bytes;
    bn_status (*lead)(struct job *job, bn_session *session, bn_error *err);
    char failure[320];
    uint64_t bytes[TEST_RANKS_MAX]; /* of the weights of each rank */
    bn_status status[TEST_RANKS_MAX];
    bn_error err[TEST_RANKS_MAX];
    unsigned small; /* this rank asks for a smaller context; 0: none */
    unsigned lost;  /* this rank has another file; 0: none */
};

static bn_status open_rank(const struct job *job, const struct bn_ranks *ranks, bn_model **model,
                           bn_session **session, bn_error *err)
{
    unsigned index = ranks != NULL ? ranks->index : 0;
    bn_model_options with = {.repack = job->repack, .repack_later = true};
    bn_session_options options = {.n_ctx = index > 0 && index == job->small ? N_CTX / 2 : N_CTX,
                                  .n_batch = job->n_batch,
                                  .n_threads = job->n_threads,
                                  .exact_threads = true};
    size_t n_bytes = index > 0 && index == job->lost ? 100 : job->file.n;
    BN_TRY(bn_model_open_divided(model, "model", job->file.bytes, n_bytes, &with, ranks, err));
    return bn_session_open(session, *model, &options, err);
}

static void run_rank(const struct bn_ranks *ranks, void *arg)
{
    struct job *job = arg;
    bn_model *model = NULL;
    bn_session *session = NULL;
    bn_error *err = &job->err[ranks->index];
    bn_status status = open_rank(job, ranks, &model, &session, err);
    status = bn_session_agree(ranks, session, status, err);
    if (status == BN_OK) job->bytes[ranks->index] = bn_model_resident_bytes(model);
    if (status == BN_OK)
        status = ranks->index == 0 ? job->lead(job, session, err) : bn_session_follow(session, model, err);
    job->status[ranks->index] = status;
    bn_session_close(session);
    bn_model_close(model);
}

/* ---- what the first rank does ---- */

static bn_status differs(struct job *job, const char *what, size_t at)
{
    snprintf(job->failure, sizeof job->failure, "%s differ at %zu", what, at);
    return BN_ERR_MISMATCH;
}

/* The n best rows of logits are right, and so is each other that is not -INFINITY. */
static bool has_best(const float *got, const float *want, size_t n_vocab, size_t n_best)
{
    bn_candidate best[8], right[8];
    if (bn_best_logits(got, n_vocab, best, n_best) != bn_best_logits(want, n_vocab, right, n_best) ||
        memcmp(best, right, n_best * sizeof *best) != 0)
        return false;
    for (size_t i = 0; i < n_vocab; i++)
        if (got[i] != want[i] && got[i] > -1e30f) return false;
    return true;
}

static bn_status check_eval(struct job *job, bn_session *s, float *row, bn_error *err)
{
    size_t n = job->n_vocab;
    BN_TRY(bn_session_eval(s, job->tokens, N_TOKENS, BN_LOGITS_ALL, row, err));
    for (size_t i = 0; i < N_TOKENS * n; i++)
        if (row[i] != job->logits[i]) return differs(job, "logits", i);
    BN_TRY(bn_session_truncate(s, 2, err));
    for (size_t i = 2; i < N_TOKENS; i++) {
        BN_TRY(bn_session_eval_best(s, &job->tokens[i], 1, 1 + i % 8, row, err));
        if (!has_best(row, job->logits + i * n, n, 1 + i % 8)) return differs(job, "best logits", i);
        bn_model_repack((bn_model *)(uintptr_t)s->model);
    }
    if (s->model->head_linear.rows != 0) return BN_OK; /* it is never masked */
    uint64_t mask[32] = {0x8421, 1u << 9};
    mask[(n - 1) / 64] |= UINT64_C(1) << ((n - 1) % 64);
    bn_head_masked(s, bn_session_hidden(s), mask, row);
    const float *want = job->logits + (N_TOKENS - 1) * n;
    for (size_t i = 0; i < n; i++) {
        bool wanted = mask[i / 64] >> (i % 64) & 1;
        if (wanted ? row[i] != want[i] : row[i] > -1e30f) return differs(job, "masked logits", i);
    }
    return BN_OK;
}

/* Two sequences in one pass, of which one has its beginning from the other. */
static bn_status check_sequences(struct job *job, bn_session *s, float *row, bn_error *err)
{
    bn_sequence *other = NULL;
    BN_TRY(bn_sequence_open(&other, s, 0, err));
    bn_status status = bn_session_truncate(s, 9, err);
    if (status == BN_OK && bn_sequence_share(s, other, bn_session_sequence(s), job->tokens, 7) != 7)
        status = differs(job, "shared tokens", 7);
    const bn_batch_part parts[] = {{other, job->tokens + 7, 2, BN_LOGITS_ALL},
                                   {bn_session_sequence(s), job->tokens + 9, 1, BN_LOGITS_LAST}};
    if (status == BN_OK) status = bn_session_eval_batch(s, parts, 2, 0, row, err);
    for (size_t i = 0; status == BN_OK && i < 3; i++)
        if (memcmp(row + i * job->n_vocab, job->logits + (7 + i) * job->n_vocab,
                   job->n_vocab * sizeof *row) != 0)
            status = differs(job, "logits of two sequences", i);
    bn_sequence_close(other);
    return status;
}

static struct bn_generation request(const struct job *job)
{
    return (struct bn_generation){.prompt = job->tokens,
                                  .n_prompt = 5,
                                  .n_predict = 12,
                                  .sampling = {0, 0.8f, 20, 0.95f, 0.0f, 1.1f, 64, .seed = 7},
                                  .want_chain = true};
}

/* The same chain, and the same work. */
static bn_status check_generation(struct job *job, bn_session *s, bn_error *err)
{
    struct bn_generation gen = request(job);
    BN_TRY(bn_session_truncate(s, 0, err));
    BN_TRY(bn_generate(s, NULL, &gen, err));
    bn_status status = strcmp(gen.chain, job->alone.chain) == 0 ? BN_OK : differs(job, "chains", 0);
    if (status == BN_OK && gen.n_kernels != job->alone.n_kernels) status = differs(job, "kernels", 0);
    for (size_t i = 0; status == BN_OK && i < gen.n_kernels; i++) {
        const bn_kernel_stat *a = &gen.kernels[i], *b = &job->alone.kernels[i];
        bool in_tiles = strncmp(a->name, "attn", 4) == 0 || strncmp(a->name, "softmax", 7) == 0;
        bool same = in_tiles || (a->calls == b->calls && a->bytes == b->bytes); /* tiles depend on threads */
        if (a->name != b->name || a->ops != b->ops || !same) status = differs(job, a->name, i);
    }
    uint32_t n_ranks = s->model->ranks->count;
    if (status == BN_OK && gen.ranks.ranks != n_ranks) status = differs(job, "ranks", n_ranks);
    /* Four exchanges of rows in each layer of each pass, and one or two in the head. */
    uint64_t rows = 2u * s->model->hp.n_embd + s->model->hp.n_ff + s->model->layers[0].o.k;
    uint64_t least = gen.work.tokens * s->model->hp.n_layer * rows * sizeof(float);
    if (status == BN_OK && (gen.ranks.bytes < least || gen.ranks.bytes > least + (128u << 10)))
        status = differs(job, "bytes", (size_t)gen.ranks.bytes);
    bn_generation_release(&gen);
    return status;
}

static bn_status lead(struct job *job, bn_session *s, bn_error *err)
{
    float *rows = bn_alloc(N_TOKENS * job->n_vocab, sizeof *rows);
    if (rows == NULL) return bn_nomem(err);
    bn_status status = check_generation(job, s, err);
    if (status == BN_OK) status = bn_session_truncate(s, 0, err);
    if (status == BN_OK) status = check_eval(job, s, rows, err);
    if (status == BN_OK && job->n_batch > 2) status = check_sequences(job, s, rows, err);
    bn_free(rows);
    return status;
}

/* One process; it makes its copies as the generation of the ranks does, which is never. */
static void run_alone(struct job *job)
{
    bn_error err = {0};
    bn_model *model = NULL;
    bn_session *session = NULL;
    if (open_rank(job, NULL, &model, &session, &err) != BN_OK) fail_msg("%s: %s", err.where, err.msg);
    job->n_vocab = model->hp.n_vocab;
    for (size_t i = 0; i < N_TOKENS; i++)
        job->tokens[i] = (int32_t)((i * i * 31 + i * 7 + 3) % job->n_vocab);
    job->logits = bn_alloc(N_TOKENS * job->n_vocab, sizeof *job->logits);
    job->alone = request(job);
    assert_int_equal(bn_generate(session, NULL, &job->alone, &err), BN_OK);
    assert_int_equal(bn_session_truncate(session, 0, &err), BN_OK);
    assert_int_equal(bn_session_eval(session, job->tokens, N_TOKENS, BN_LOGITS_ALL, job->logits, &err),
                     BN_OK);
    job->alone_bytes = bn_model_resident_bytes(model);
    bn_session_close(session);
    bn_model_close(model);
}

static void release_job(struct job *job)
{
    bn_generation_release(&job->alone);
    bn_free(job->logits);
    bn_free(job->file.bytes);
}

static void check_ranks(struct job *job, unsigned n_ranks, const char *name)
{
    test_ranks_run(n_ranks, run_rank, job);
    for (unsigned i = 0; i < n_ranks; i++)
        if (job->status[i] != BN_OK)
            fail_msg("%s, rank %u of %u: %s %s", name, i, n_ranks, job->failure, job->err[i].msg);
    /* Its share of the rows is within a grain of each matrix and a head; norms and the like are small. */
    uint64_t sum = 0, most = job->alone_bytes / n_ranks * 3 / 2 + job->alone_bytes / 8;
    for (unsigned i = 0; i < n_ranks; i++) {
        sum += job->bytes[i];
        if (n_ranks > 1 && job->bytes[i] > most)
            fail_msg("%s: rank %u of %u has %llu of %llu bytes", name, i, n_ranks,
                     (unsigned long long)job->bytes[i], (unsigned long long)job->alone_bytes);
    }
    assert_true(sum >= job->alone_bytes && sum < job->alone_bytes * 5 / 4 + n_ranks * 4096);
}

TEST(the_bits_are_those_of_one_process)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(SPECS); i++) {
        const struct bn_fixture_spec *spec = &SPECS[i];
        bn_hparams hp;
        bn_fixture_hparams(spec, &hp);
        struct job job = {.file = make_file(spec), .lead = lead, .n_batch = 7, .n_threads = 1};
        job.repack = i % 2 == 0 ? BN_REPACK_ALWAYS : BN_REPACK_NEVER;
        run_alone(&job);
        for (unsigned n_ranks = 1; n_ranks <= spec->size->n_head_kv; n_ranks++) {
            job.n_threads = 3 - n_ranks % 3;
            check_ranks(&job, n_ranks, hp.arch);
        }
        release_job(&job);
    }
}

/* Opens a model on n ranks and closes it. */
static bn_status do_nothing(struct job *job, bn_session *s, bn_error *err)
{
    (void)job;
    (void)s;
    (void)err;
    return BN_OK;
}

/* All ranks return this error. */
static void expect_error(struct job *job, unsigned n_ranks, bn_status status, const char *text)
{
    job->lead = do_nothing;
    test_ranks_run(n_ranks, run_rank, job);
    for (unsigned i = 0; i < n_ranks; i++) {
        if (job->status[i] != status || strstr(job->err[i].msg, text) == NULL)
            fail_msg("rank %u of %u: %s: %s", i, n_ranks, bn_status_name(job->status[i]), job->err[i].msg);
        job->err[i] = (bn_error){0};
    }
}

TEST(what_cannot_be_divided_is_refused)
{
    const struct bn_fixture_spec hybrid = {
        .size = bn_fixture_size_find("quad"), .seed = 1, .arch = BN_FIXTURE_QWEN35, .format = BN_TYPE_Q2_0};
    struct job job = {.file = make_file(&hybrid), .n_batch = 4, .n_threads = 1};
    expect_error(&job, 2, BN_ERR_UNSUPPORTED, "recurrent layers cannot be divided");
    bn_free(job.file.bytes);
    job.file = make_file(&SPECS[6]);
    expect_error(&job, 5, BN_ERR_UNSUPPORTED, "4 KV heads, which cannot be divided among 5 ranks");
    bn_free(job.file.bytes);
}

TEST(ranks_that_differ_are_refused)
{
    struct job job = {.file = make_file(&SPECS[0]), .n_batch = 4, .n_threads = 1, .small = 2};
    expect_error(&job, 3, BN_ERR_MISMATCH, "rank 2 has a context of 20, rank 0 has 40");
    job.small = 0;
    job.lost = 1;
    expect_error(&job, 3, BN_ERR_FORMAT, "rank 1: ");
    bn_free(job.file.bytes);
}

/* An exchange fails: the pass fails with its error, and so does each one after it. */
static bn_status break_gather(void *context, void *data, const size_t *edges, bn_error *err)
{
    (void)context;
    (void)data;
    (void)edges;
    return bn_fail(err, BN_ERR_NETWORK, "a planted failure");
}

static bn_status break_broadcast(void *context, unsigned root, void *data, size_t n, bn_error *err)
{
    (void)root;
    (void)data;
    (void)n;
    return *(bool *)context ? bn_fail(err, BN_ERR_NETWORK, "another planted failure") : BN_OK;
}

TEST(a_failed_exchange_is_an_error)
{
    bool broken = false;
    struct bn_ranks ranks = {
        .count = 2, .context = &broken, .gather = break_gather, .broadcast = break_broadcast};
    struct job job = {.file = make_file(&SPECS[0]), .n_batch = 4, .n_threads = 2};
    bn_model *model = NULL;
    bn_session *session = NULL;
    bn_error err = {0};
    float *logits = bn_alloc(520, sizeof *logits);
    for (int i = 0; i < 2; i++, broken = true) {
        assert_int_equal(open_rank(&job, &ranks, &model, &session, &err), BN_OK);
        for (int k = 0; k < 2; k++) {
            err = (bn_error){0};
            assert_int_equal(bn_session_eval(session, job.tokens, 1, BN_LOGITS_LAST, logits, &err),
                             BN_ERR_NETWORK);
            assert_string_equal(err.msg, i == 0 ? "a planted failure" : "another planted failure");
            assert_int_equal(bn_session_position(session), 0);
        }
        bn_session_close(session);
        bn_model_close(model);
    }
    assert_int_equal(bn_session_agree(&ranks, NULL, BN_ERR_IO, &err), BN_ERR_NETWORK);
    bn_free(logits);
    bn_free(job.file.bytes);
}
