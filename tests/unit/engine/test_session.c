/* SPDX-License-Identifier: MIT
 *
 * Sessions: bad calls change nothing, the token loop allocates nothing, counters count what ran.
 */
#include "base/mem.h"
#include "infer/session.h"
#include "tests/unit/status.h"

#define MODEL "fixtures/shakespeare-5m-i2_s.gguf"
#define N_VOCAB 2048u

/* ---- every allocation of the process is counted while watched is set: ours and those of libraries ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAN_WATCH 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CAN_WATCH 0
#endif
#endif
#ifndef CAN_WATCH
#define CAN_WATCH 1
#endif

static volatile int watched, n_watched;

#if CAN_WATCH
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

void *malloc(size_t n)
{
    n_watched += watched;
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t each)
{
    n_watched += watched;
    return __libc_calloc(n, each);
}

void *realloc(void *p, size_t n)
{
    n_watched += watched;
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    n_watched += watched;
    return __libc_memalign(alignment, n);
}
#endif

static struct {
    bn_model *model;
    bn_session *session;
    float *logits;
} f;

FIXTURE(setup)
{
    bn_session_options options = {.n_ctx = 64, .n_batch = 16, .n_threads = 2, .exact_threads = true};
    must(bn_model_open(&f.model, MODEL, NULL, &err));
    must(bn_session_open(&f.session, f.model, &options, &err));
    f.logits = bn_alloc(64 * N_VOCAB, sizeof *f.logits);
}

FIXTURE(teardown)
{
    bn_session_close(f.session);
    bn_model_close(f.model);
    bn_free(f.logits);
}

TEST_IN(the_token_loop_allocates_nothing, setup, teardown)
{
    int32_t ids[20];
    for (int i = 0; i < 20; i++)
        ids[i] = i * 90;
    /* The team's threads start with the first evaluation. */
    must(bn_session_eval(f.session, ids, 1, BN_LOGITS_LAST, f.logits, &err));
    n_watched = 0;
    watched = 1;
    bn_mem_guard(true);
    uint64_t hits = bn_mem_guard_hits();
    bn_status prompt = bn_session_eval(f.session, ids, 20, BN_LOGITS_ALL, f.logits, &err);
    bn_status token = bn_session_eval(f.session, ids, 1, BN_LOGITS_LAST, f.logits, &err);
    bn_mem_guard(false);
    watched = 0;
    assert_int_equal(prompt, BN_OK);
    assert_int_equal(token, BN_OK);
    assert_int_equal(bn_mem_guard_hits(), hits);
    assert_int_equal(n_watched, 0);
}

TEST_IN(the_guard_sees_an_allocation, setup, teardown)
{
    uint64_t hits = bn_mem_guard_hits();
    bn_mem_guard(true);
    watched = 1;
    n_watched = 0;
    void *refused = bn_alloc(1, 1);
    void *volatile taken = malloc(1); /* volatile: a compiler may leave out an unused block */
    watched = 0;
    bn_mem_guard(false);
    free(taken);
    assert_null(refused);
    assert_int_equal(bn_mem_guard_hits(), hits + 1);
    if (CAN_WATCH) assert_int_equal(n_watched, 1);
}

TEST_IN(bad_calls_leave_the_timeline, setup, teardown)
{
    int32_t good[64] = {1, 2, 3}, bad[2] = {5, N_VOCAB}, negative[1] = {-1};
    must(bn_session_eval(f.session, good, 3, BN_LOGITS_NONE, NULL, &err));
    refused(bn_session_eval(f.session, bad, 2, BN_LOGITS_NONE, NULL, &err), BN_ERR_ARG);
    assert_string_equal(err.msg, "token 1 is 2048; the vocabulary has ids 0 to 2047");
    refused(bn_session_eval(f.session, negative, 1, BN_LOGITS_NONE, NULL, NULL), BN_ERR_ARG);
    refused(bn_session_eval(f.session, good, 0, BN_LOGITS_NONE, NULL, NULL), BN_ERR_ARG);
    refused(bn_session_eval(f.session, good, 62, BN_LOGITS_NONE, NULL, NULL), BN_ERR_LIMIT);
    assert_int_equal(bn_session_position(f.session), 3);
    must(bn_session_eval(f.session, good, 61, BN_LOGITS_NONE, NULL, NULL));
    refused(bn_session_eval(f.session, good, 1, BN_LOGITS_NONE, NULL, NULL), BN_ERR_LIMIT);
}

TEST_IN(a_context_over_the_models_is_refused, setup, teardown)
{
    bn_session *session = NULL;
    bn_session_options options = {.n_ctx = 1025};
    refused(bn_session_open(&session, f.model, &options, &err), BN_ERR_LIMIT);
    assert_null(session);
}

static uint64_t ops_of(const bn_session *session, const char *prefix, uint64_t *calls)
{
    bn_kernel_stat stat;
    uint64_t ops = 0;
    *calls = 0;
    for (size_t i = 0; bn_session_kernel_stat(session, i, &stat); i++)
        if (strncmp(stat.name, prefix, strlen(prefix)) == 0) {
            ops += stat.ops;
            *calls += stat.calls;
        }
    return ops;
}

/* 20 tokens in batches of 16 and 4: two passes of 7 linear layers in each of 6 layers. */
TEST_IN(counters_count_what_ran, setup, teardown)
{
    int32_t ids[20] = {0};
    uint64_t calls;
    assert_int_equal(ops_of(f.session, "ternary_gem", &calls), 0);
    must(bn_session_eval(f.session, ids, 20, BN_LOGITS_LAST, f.logits, &err));
    assert_int_equal(ops_of(f.session, "ternary_gem", &calls), 20 * f.model->ternary_weights);
    assert_int_equal(calls, 2 * 7 * 6);
    assert_int_equal(ops_of(f.session, "f16_gemm", &calls), (uint64_t)N_VOCAB * 256);
    assert_int_equal(calls, 1);
    must(bn_session_eval(f.session, ids, 1, BN_LOGITS_LAST, f.logits, &err));
    assert_int_equal(ops_of(f.session, "ternary_gemv", &calls), f.model->ternary_weights);
    assert_int_equal(calls, 7 * 6);
}

/* Every way in which memory can be short while a session opens ends in BN_ERR_NOMEM, with nothing lost. */
TEST_IN(short_memory_is_survived, setup, teardown)
{
    bn_status status;
    SHORT_MEMORY (status) {
        bn_session *session = NULL;
        status = bn_session_open(&session, f.model, NULL, NULL);
        assert_true(status == BN_OK || session == NULL);
        bn_session_close(session);
    }
}

/* A NaN in an embedding row is an error that names the place, not a NaN in the output. */
TEST_IN(damaged_weights_are_an_error, setup, teardown)
{
    struct bn_matrix good = f.model->embd;
    uint16_t *copy = bn_alloc(good.rows * good.k, sizeof *copy);
    memcpy(copy, good.data, good.rows * good.k * sizeof *copy);
    copy[7 * good.k + 3] = 0x7E00;
    f.model->embd.data = (const unsigned char *)copy;
    int32_t ids[2] = {6, 7};
    must(bn_session_eval(f.session, ids, 1, BN_LOGITS_LAST, f.logits, &err));
    refused(bn_session_eval(f.session, ids, 2, BN_LOGITS_LAST, f.logits, &err), BN_ERR_FORMAT);
    assert_int_equal(bn_session_position(f.session), 1);
    f.model->embd = good;
    f.model->head.data = (const unsigned char *)copy; /* a row that no token looked up shows in the logits */
    must(bn_session_eval(f.session, ids, 1, BN_LOGITS_NONE, NULL, &err));
    refused(bn_session_eval(f.session, ids, 1, BN_LOGITS_LAST, f.logits, &err), BN_ERR_FORMAT);
    f.model->head = good;
    bn_free(copy);
}

/* ---- progress and cancellation ---- */

struct steps {
    uint32_t n_seen, last, total, cancel_at;
    bool in_order;
};

static bool count_steps(void *user, uint32_t done, uint32_t total)
{
    struct steps *steps = user;
    steps->in_order = steps->in_order && done > steps->last && done <= total;
    steps->last = done;
    steps->total = total;
    return ++steps->n_seen != steps->cancel_at;
}

TEST(opening_reports_progress)
{
    for (int repack = BN_REPACK_NEVER; repack <= BN_REPACK_ALWAYS; repack++) {
        struct steps steps = {.in_order = true};
        bn_model_options options = {.repack = (bn_repack)repack, .progress = count_steps, .user = &steps};
        bn_model *model = NULL;
        must(bn_model_open(&model, MODEL, &options, NULL));
        assert_true(steps.in_order && steps.n_seen > 5);
        assert_int_equal(steps.last, steps.total);
        bn_model_close(model);
    }
}

TEST(opening_can_be_cancelled_at_any_step)
{
    for (uint32_t at = 1;; at++) {
        struct steps steps = {.cancel_at = at, .in_order = true};
        bn_model_options options = {.repack = BN_REPACK_ALWAYS, .progress = count_steps, .user = &steps};
        bn_model *model = NULL;
        bn_status status = bn_model_open(&model, MODEL, &options, NULL);
        bn_model_close(model);
        if (status == BN_OK) {
            assert_int_equal(steps.n_seen, at - 1);
            assert_true(at > 10);
            return;
        }
        assert_int_equal(status, BN_ERR_CANCELLED);
        assert_null(model);
        assert_int_equal(steps.n_seen, at);
    }
}

static bool cancel_third(void *user)
{
    unsigned *asked = user;
    return ++*asked == 3;
}

TEST_IN(an_evaluation_can_be_cancelled, setup, teardown)
{
    bn_session_options options = {.n_ctx = 128, .n_batch = 8};
    bn_session *s = NULL;
    int32_t tokens[100];
    unsigned asked = 0;
    for (int i = 0; i < 100; i++)
        tokens[i] = i;
    must(bn_session_open(&s, f.model, &options, &err));
    must(bn_session_eval(s, tokens, 9, BN_LOGITS_NONE, NULL, NULL));
    bn_session_set_cancel(s, cancel_third, &asked);
    refused(bn_session_eval(s, tokens, 100, BN_LOGITS_NONE, NULL, NULL), BN_ERR_CANCELLED);
    assert_int_equal(bn_session_position(s), 9);
    assert_int_equal(asked, 3);
    must(bn_session_eval(s, tokens, 100, BN_LOGITS_NONE, NULL, NULL));
    assert_int_equal(asked, 16); /* of 13 batches each was asked about */
    bn_session_close(s);
}
