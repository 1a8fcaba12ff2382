/* SPDX-License-Identifier: MIT
 *
 * Packed weights, rows and columns that are skipped, and the screened head change no bit: every logit that
 * bn_session_eval_best gives is the full product's, the best are all there, ties with the last of them too, and the
 * counters are the same with any number of threads. Faults planted in the copies are seen.
 */
#include <math.h>

#include "base/mem.h"
#include "infer/session.h"
#include "tests/unit/status.h"

#define MODEL "fixtures/shakespeare-5m-i2_s.gguf"
#define N_TOKENS 20u /* more than are screened at a time */

static bool unchecked; /* codes: then there is no copy in T5, and rows are picked in the file */

static bn_model *open_model(const char *path, bn_repack repack)
{
    bn_model_options options = {.repack = repack, .skip_code_check = unchecked};
    bn_model *model = NULL;
    must(bn_model_open(&model, path, &options, NULL));
    return model;
}

static int32_t token(size_t i, size_t n_vocab)
{
    return (int32_t)(i * 7919u % n_vocab);
}

/* What the last session did, and, when asked for, a hash of what it traced. */
static bn_work work;
static uint64_t traced;

static void hash_record(void *user, const bn_trace_record *r)
{
    const unsigned char *bytes = (const void *)r->data;
    for (size_t i = 0; i < r->rows * r->cols * sizeof *r->data; i++)
        *(uint64_t *)user = (*(uint64_t *)user ^ bytes[i]) * 1099511628211u;
}

/* Logits after each of N_TOKENS tokens, n_together in a pass; n_best 0: by bn_session_eval. */
static bn_screen_stat logits_together(bn_model *model, uint32_t n_threads, size_t n_together, size_t n_best,
                                      float *logits)
{
    bn_session_options options = {.n_threads = n_threads, .exact_threads = true, .n_ctx = N_TOKENS};
    bn_session *session = NULL;
    size_t n_vocab = model->hp.n_vocab;
    must(bn_session_open(&session, model, &options, NULL));
    if (traced != 0) bn_session_set_trace(session, hash_record, &traced);
    for (size_t i = 0; i < N_TOKENS; i += n_together) {
        int32_t ids[N_TOKENS];
        size_t n = bn_min_size(n_together, N_TOKENS - i);
        for (size_t k = 0; k < n; k++)
            ids[k] = token(i + k, n_vocab);
        float *to = logits + i * n_vocab;
        const bn_batch_part part = {bn_session_sequence(session), ids, n, BN_LOGITS_ALL};
        if (n_best == 0)
            must(bn_session_eval(session, ids, n, BN_LOGITS_ALL, to, NULL));
        else if (n_together == 1)
            must(bn_session_eval_best(session, ids, 1, n_best, to, NULL));
        else
            must(bn_session_eval_batch(session, &part, 1, n_best, to, NULL));
    }
    bn_screen_stat stat = bn_session_screen_stat(session);
    work = session->work;
    bn_session_close(session);
    return stat;
}

static bn_screen_stat logits_of(bn_model *model, uint32_t n_threads, size_t n_best, float *logits)
{
    return logits_together(model, n_threads, 1, n_best, logits);
}

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Rows of best that are not what the full row and n_best allow. */
static size_t count_wrong(const float *full, const float *best, size_t n, size_t n_best)
{
    size_t wrong = 0;
    float *sorted = bn_alloc(n, sizeof *sorted);
    memcpy(sorted, full, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, descending);
    for (size_t i = 0; i < n; i++) {
        bool wanted = full[i] >= sorted[n_best - 1], there = best[i] != -INFINITY;
        wrong += (wanted && !there) || (there && memcmp(&best[i], &full[i], sizeof *best) != 0);
    }
    bn_free(sorted);
    return wrong;
}

static size_t count_all_wrong(const bn_model *model, const float *full, const float *best, size_t n_best)
{
    size_t wrong = 0, n = model->hp.n_vocab;
    for (size_t i = 0; i < N_TOKENS; i++)
        wrong += count_wrong(full + i * n, best + i * n, n, n_best);
    return wrong;
}

struct pair {
    bn_model *model;
    float *full, *best;
};

static struct pair make_pair(const char *path)
{
    struct pair p = {.model = open_model(path, BN_REPACK_ALWAYS)};
    bn_model *plain = open_model(path, BN_REPACK_NEVER);
    p.full = bn_alloc((size_t)N_TOKENS * plain->hp.n_vocab, sizeof *p.full);
    p.best = bn_alloc((size_t)N_TOKENS * plain->hp.n_vocab, sizeof *p.best);
    logits_of(plain, 1, 0, p.full);
    bn_model_close(plain);
    return p;
}

static void drop_pair(struct pair *p)
{
    bn_model_close(p->model);
    bn_free(p->full);
    bn_free(p->best);
}

/* On every instruction set, with 1 and 3 threads: the bits, and the same counters. */
static void check_way(struct pair *p, size_t n_best, size_t n_together)
{
    bn_screen_stat first = {0};
    bn_work work_then = {0};
    const struct bn_layer *l = &p->model->layers[0];
    for (size_t k = 0; bn_kernels_built(k) != NULL; k++)
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            if (!bn_kernels_supported(bn_kernels_built(k))) continue;
            p->model->kernels = bn_kernels_built(k);
            bn_screen_stat stat = logits_together(p->model, threads, n_together, n_best, p->best);
            assert_int_equal(count_all_wrong(p->model, p->full, p->best, n_best), 0);
            assert_int_equal(stat.screened + stat.full, (N_TOKENS + n_together - 1) / n_together);
            if (first.screened + first.full == 0) first = stat, work_then = work;
            assert_memory_equal(&stat, &first, sizeof stat);
            assert_memory_equal(&work, &work_then, sizeof work);
            bool skips = n_together == 1 && l->down.columns.codes != NULL;
            assert_true((work.skipped_columns > 0) == skips && (work.skipped_rows > 0) == skips);
        }
}

static void check_ways(const char *path)
{
    static const struct {
        size_t n_best, n_together;
    } WAYS[] = {{1, 1}, {32, 1}, {1, 7}, {32, N_TOKENS}};
    struct pair p = make_pair(path);
    const struct bn_kernels *chosen = p.model->kernels;
    for (size_t i = 0; i < BN_ARRAY_LEN(WAYS); i++)
        check_way(&p, WAYS[i].n_best, WAYS[i].n_together);
    p.model->kernels = chosen;
    drop_pair(&p);
}

TEST(every_bit_is_the_full_products)
{
    check_ways(MODEL);
    check_ways("fixtures/tiny-bitnet-b1.58-i2_s-v320-42.gguf");
    check_ways("fixtures/tiny-bitnet-b1.58-tq2_0-v320-42.gguf");
    check_ways("fixtures/nano-llama-i2_s-42.gguf");
    unchecked = true;
    check_ways("fixtures/tiny-bitnet-b1.58-i2_s-v320-42.gguf");
    check_ways("fixtures/nano-bitnet-b1.58-i2_s-42.gguf");
    unchecked = false;
}

/* Logits of the copies, and those of the file, of one token after the other, with these factors of up. */
static void check_up(struct pair *p, bn_model *plain, float scale, float extra_scale)
{
    bn_model *both[] = {p->model, plain};
    for (size_t i = 0; i < 2 * (size_t)plain->hp.n_layer; i++) {
        struct bn_linear *up = &both[i % 2]->layers[i / 2].up;
        up->w.scale = up->packed.scale = scale;
        up->extra_scale = extra_scale;
        up->has_extra_scale = true;
    }
    uint64_t begin = traced;
    logits_of(plain, 2, 0, p->full);
    assert_int_equal(work.skipped_rows + work.skipped_columns, 0);
    uint64_t of_plain = traced;
    traced = begin;
    logits_of(p->model, 3, 0, p->best);
    assert_int_equal(traced, of_plain);
    assert_memory_equal(p->full, p->best, (size_t)N_TOKENS * plain->hp.n_vocab * sizeof *p->full);
}

TEST(rows_are_skipped_where_that_changes_nothing)
{
    static const struct {
        float scale, extra_scale;
        uint64_t trace; /* 0: none */
    } CASES[] = {{1, 1, 0}, {1e10f, 1, 0}, {1, -1e10f, 0}, {1, 1, 14695981039346656037u}};
    for (size_t i = 0; i < 2 * BN_ARRAY_LEN(CASES); i++) {
        unchecked = i % 2 == 1;
        struct pair p = make_pair(MODEL);
        bn_model *plain = open_model(MODEL, BN_REPACK_NEVER);
        bool fast = p.model->kernels != &bn_kernels_ref; /* which has no columns */
        traced = CASES[i / 2].trace;
        check_up(&p, plain, CASES[i / 2].scale, CASES[i / 2].extra_scale);
        assert_true((traced == 0) == (CASES[i / 2].trace == 0) && traced != CASES[3].trace);
        assert_true((work.skipped_rows > 0) == (fast && i < 2) && (work.skipped_columns > 0) == fast);
        assert_int_equal(bn_model_linear(p.model, 0)->packed.codes == NULL, unchecked);
        traced = 0;
        bn_model_close(plain);
        drop_pair(&p);
    }
    unchecked = false;
}

TEST(few_rows_are_computed)
{
    struct pair p = make_pair(MODEL);
    bn_screen_stat stat = logits_of(p.model, 2, 32, p.best);
    assert_int_equal(stat.screened, N_TOKENS);
    assert_true(stat.rows >= 32 * N_TOKENS);
    assert_true(stat.rows < p.model->hp.n_vocab / 8 * N_TOKENS);
    assert_non_null(bn_model_linear(p.model, 0)->packed.codes);
    drop_pair(&p);
}

TEST(larger_wishes_and_traces_take_the_full_product)
{
    struct pair p = make_pair(MODEL);
    bn_screen_stat stat = logits_of(p.model, 2, BN_SCREEN_MAX + 1, p.best);
    assert_int_equal(stat.full, N_TOKENS);
    assert_memory_equal(p.full, p.best, (size_t)N_TOKENS * p.model->hp.n_vocab * sizeof *p.full);
    stat = logits_of(p.model, 2, SIZE_MAX, p.best);
    assert_int_equal(stat.full, N_TOKENS);
    drop_pair(&p);
}

/* A head whose rows are nearly equal: screening cannot tell them apart, gives up, and stays right. */
TEST(a_head_that_cannot_be_screened)
{
    struct pair p = make_pair(MODEL);
    for (size_t r = 0; r < p.model->head.rows; r++)
        p.model->screen.rest[r] = 100.0f * p.model->screen.size[r];
    bn_screen_stat stat = logits_of(p.model, 2, 8, p.best);
    assert_int_equal(stat.screened, 1);
    assert_int_equal(stat.rows, p.model->head.rows);
    assert_int_equal(stat.full, N_TOKENS - 1);
    assert_int_equal(count_all_wrong(p.model, p.full, p.best, 8), 0);
    drop_pair(&p);
}

TEST(a_damaged_head_row_is_an_error)
{
    bn_model *model = open_model(MODEL, BN_REPACK_ALWAYS);
    uint16_t *head = bn_alloc(model->head.rows * model->head.k, sizeof *head);
    const unsigned char *was = model->head.data;
    memcpy(head, was, model->head.rows * model->head.row_bytes);
    head[777 * model->head.k + 5] = 0x7E00; /* a NaN */
    model->head.data = (const unsigned char *)head;
    model->screen.size[777] = model->screen.rest[777] = INFINITY; /* as loading marks it */
    bn_session *session = NULL;
    float *logits = bn_alloc(model->head.rows, sizeof *logits);
    int32_t id = 3;
    must(bn_session_open(&session, model, NULL, NULL));
    refused(bn_session_eval_best(session, &id, 1, 1, logits, NULL), BN_ERR_FORMAT);
    bn_session_close(session);
    bn_model_close(model);
    bn_free(head);
    bn_free(logits);
}

/* ---- copies that are made between tokens ---- */

#define N_LATER 24u

/* Evaluates N_LATER tokens and makes copies after each; compares the best logits with those of all. Returns the number
 * of calls of bn_model_repack that left something to do. */
static unsigned evaluate_and_repack(bn_model *model, bn_model *plain, bn_screen_stat *stat)
{
    bn_session_options options = {.n_threads = 2, .exact_threads = true, .n_ctx = N_LATER};
    bn_session *session = NULL, *reference = NULL;
    size_t n_vocab = model->hp.n_vocab;
    unsigned calls = 0;
    float *full = bn_alloc(n_vocab, sizeof *full), *best = bn_alloc(n_vocab, sizeof *best);
    must(bn_session_open(&session, model, &options, NULL));
    must(bn_session_open(&reference, plain, &options, NULL));
    for (size_t i = 0; i < N_LATER; i++) {
        int32_t id = token(i, n_vocab);
        must(bn_session_eval(reference, &id, 1, BN_LOGITS_LAST, full, NULL));
        must(bn_session_eval_best(session, &id, 1, 8, best, NULL));
        assert_int_equal(count_wrong(full, best, n_vocab, 8), 0);
        calls += bn_model_repack(model);
    }
    *stat = bn_session_screen_stat(session);
    bn_session_close(session);
    bn_session_close(reference);
    bn_free(full);
    bn_free(best);
    return calls;
}

static bn_model *open_for_later(void)
{
    bn_model_options options = {.repack = BN_REPACK_ALWAYS, .repack_later = true};
    bn_model *model = NULL;
    must(bn_model_open(&model, MODEL, &options, NULL));
    assert_null(model->screen.q);
    assert_null(bn_model_linear(model, 0)->packed.codes);
    return model;
}

TEST(copies_are_made_between_tokens)
{
    bn_model *model = open_for_later(), *now = open_model(MODEL, BN_REPACK_ALWAYS);
    bn_model *plain = open_model(MODEL, BN_REPACK_NEVER);
    bn_screen_stat stat;
    unsigned calls = evaluate_and_repack(model, plain, &stat);
    assert_true(calls > 0 && calls < 16);
    assert_true(stat.full > 1 && stat.full <= 16);
    assert_int_equal(stat.full + stat.screened, N_LATER);
    assert_int_equal(model->packed_bytes, now->packed_bytes);
    assert_memory_equal(model->screen.q, now->screen.q, model->head.rows * model->head.k);
    for (size_t i = 0; i < bn_model_n_linears(model); i++) {
        const struct bn_t5 *a = &bn_model_linear(model, i)->packed, *b = &bn_model_linear(now, i)->packed;
        assert_memory_equal(a->codes, b->codes, a->rows * a->row_bytes);
    }
    assert_false(bn_model_repack(model) || bn_model_repack(now) || bn_model_repack(plain));
    bn_model_close(model);
    bn_model_close(now);
    bn_model_close(plain);
}

/* When memory is short, the weights stay as they are, and no result changes. */
TEST(without_memory_there_is_no_copy)
{
    bn_model *plain = open_model(MODEL, BN_REPACK_NEVER);
    bn_screen_stat stat;
    for (uint64_t n = 1; n <= 3; n++) {
        bn_model *model = open_for_later();
        bn_mem_fail_after(n);
        assert_false(bn_model_repack(model));
        bn_mem_fail_after(0);
        assert_int_equal(evaluate_and_repack(model, plain, &stat), 0);
        assert_int_equal(stat.full, N_LATER);
        bn_model_close(model);
    }
    bn_model_close(plain);
}

/* ---- planted faults ---- */

static void rows_shifted(struct bn_model *m)
{
    memmove(m->screen.q + m->head.k, m->screen.q, (m->head.rows - 1) * m->head.k);
}

static void bounds_left_out(struct bn_model *m)
{
    memset(m->screen.size, 0, m->head.rows * sizeof(float));
    memset(m->screen.rest, 0, m->head.rows * sizeof(float));
    for (size_t r = 0; r < m->head.rows; r += 2)
        m->screen.step[r] *= 0.99f; /* the error that the bounds were for, a little larger */
}

static void codes_changed(struct bn_model *m)
{
    uint8_t *codes = (uint8_t *)(uintptr_t)m->layers[0].v.packed.codes;
    for (size_t i = 0; i < BN_T5_BLOCK_BYTES; i++)
        codes[i] = (uint8_t)(codes[i] % 84 % 3 == 2 ? codes[i] - 1 : codes[i] + 1);
}

TEST(planted_faults_are_seen)
{
    void (*const FAULTS[])(struct bn_model *) = {rows_shifted, bounds_left_out, codes_changed};
    for (size_t i = 0; i < BN_ARRAY_LEN(FAULTS); i++) {
        struct pair p = make_pair(MODEL);
        FAULTS[i](p.model);
        logits_of(p.model, 2, 32, p.best);
        if (count_all_wrong(p.model, p.full, p.best, 32) == 0) fail_msg("fault %zu was not seen", i);
        drop_pair(&p);
    }
}

TEST(reach_of_samplers)
{
    const struct {
        bn_sampler_options options;
        size_t reach;
    } CASES[] = {
        {BN_SAMPLER_OPTIONS_INIT, 1},
        {{0, 0.7f, 40, 1.0f, 0.0f, 1.0f, 64, 1, 0.0f, 0.0f, NULL, 0, 0}, 40},
        {{0, 0.7f, 40, 0.9f, 0.1f, 1.1f, 64, 1, 0.0f, 0.0f, NULL, 0, 0}, 104},
        {{0, 0.7f, 40, 0.9f, 0.1f, 1.1f, 0, 1, 0.0f, 0.0f, NULL, 0, 0}, 104},
        {{0, 0.7f, 0, 0.9f, 0.0f, 1.0f, 64, 1, 0.0f, 0.0f, NULL, 0, 0}, SIZE_MAX},
        {{0, 0.0f, 0, 1.0f, 0.0f, 1.0f, 64, 1, 0.0f, -0.1f, NULL, 0, 0}, SIZE_MAX},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        bn_sampler *sampler = NULL;
        must(bn_sampler_open(&sampler, &CASES[i].options, 2048, NULL));
        assert_int_equal(bn_sampler_reach(sampler), CASES[i].reach);
        bn_sampler_close(sampler);
    }
}

/* The sampler draws the same tokens from the best logits as from all. */
TEST(samplers_see_no_difference)
{
    bn_sampler_options options = {0, 0.9f, 20, 0.95f, 0.01f, 1.3f, 64, 5, 0.0f, 0.0f, NULL, 0, 0};
    struct pair p = make_pair(MODEL);
    bn_sampler *a = NULL, *b = NULL;
    size_t n_vocab = p.model->hp.n_vocab;
    must(bn_sampler_open(&a, &options, n_vocab, NULL));
    must(bn_sampler_open(&b, &options, n_vocab, NULL));
    logits_of(p.model, 2, bn_sampler_reach(a), p.best);
    for (size_t i = 0; i < N_TOKENS; i++) {
        int32_t recent[N_TOKENS];
        for (size_t j = 0; j <= i; j++) /* penalise what is likely: the best of the rows before */
            recent[j] = bn_sampler_next(b, p.full + j * n_vocab, NULL, 0);
        bn_sampler_close(b);
        must(bn_sampler_open(&b, &options, n_vocab, NULL));
        bn_sampler_close(a);
        must(bn_sampler_open(&a, &options, n_vocab, NULL));
        assert_int_equal(bn_sampler_next(a, p.best + i * n_vocab, recent, i + 1),
                         bn_sampler_next(b, p.full + i * n_vocab, recent, i + 1));
    }
    bn_sampler_close(a);
    bn_sampler_close(b);
    drop_pair(&p);
}
