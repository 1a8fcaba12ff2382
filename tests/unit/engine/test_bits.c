/* SPDX-License-Identifier: MIT
 *
 * The engine's first promise: the same tokens give the same logits, bit for bit, on every instruction set,
 * with any number of threads, however the tokens are split into calls and batches, in a fresh session or a
 * continued one. Where a bit differs, the first operation that differs is named. A planted fault shows that
 * this can fail.
 */
#include <glob.h>

#include "base/digest.h"
#include "base/mem.h"
#include "model/model.h"
#include "tests/unit/status.h"

#define N_TOKENS 67u
#define MAX_RECORDS 20000u

struct way {
    const struct bn_kernels *kernels;
    uint32_t n_threads, n_batch;
    uint32_t n_call; /* tokens a call of bn_session_eval; 0: all in one */
};

/* What one operation gave at one position. */
struct record {
    char op[24];
    int32_t layer;
    uint32_t position;
    uint64_t hash;
};

struct records {
    struct record *list;
    size_t n;
};

static uint64_t hash_bytes(const void *bytes, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return h;
}

static void record_rows(void *user, const bn_trace_record *r)
{
    struct records *records = user;
    for (size_t i = 0; i < r->rows && records->n < MAX_RECORDS; i++) {
        struct record *to = &records->list[records->n++];
        snprintf(to->op, sizeof to->op, "%s", r->op);
        to->layer = r->layer;
        to->position = r->position + (uint32_t)i;
        to->hash = hash_bytes(r->data + i * r->cols, r->cols * sizeof(float));
    }
}

static void make_tokens(int32_t *ids, uint32_t n_vocab)
{
    uint64_t state = 7;
    for (size_t i = 0; i < N_TOKENS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)((state >> 33) % n_vocab);
    }
}

/* The digest of all logits, computed one way. */
static void digest_of(bn_model *model, const struct way *way, struct records *records,
                      char hex[BN_SHA256_HEX])
{
    int32_t ids[N_TOKENS];
    size_t n_vocab = bn_model_hparams(model)->n_vocab;
    make_tokens(ids, (uint32_t)n_vocab);
    float *logits = bn_alloc(N_TOKENS * n_vocab, sizeof *logits);
    bn_session *session = NULL;
    bn_session_options options = {
        .n_threads = way->n_threads, .exact_threads = true, .n_batch = way->n_batch};
    model->kernels = way->kernels;
    must(bn_session_open(&session, model, &options, &err));
    if (records != NULL) bn_session_set_trace(session, record_rows, records);
    size_t step = way->n_call != 0 ? way->n_call : N_TOKENS;
    for (size_t at = 0; at < N_TOKENS; at += step) {
        size_t n = bn_min_size(step, N_TOKENS - at);
        must(bn_session_eval(session, ids + at, n, BN_LOGITS_ALL, logits + at * n_vocab, &err));
    }
    bn_sha256_hex(logits, N_TOKENS * n_vocab * sizeof *logits, hex);
    bn_session_close(session);
    bn_free(logits);
}

/* The first operation in the order of computing whose result at some position differs; its name goes to out.
 */
static void name_first(bn_model *model, const struct way *a, const struct way *b, char *out, size_t room)
{
    char hex[BN_SHA256_HEX];
    struct records ra = {bn_alloc(MAX_RECORDS, sizeof(struct record)), 0};
    struct records rb = {bn_alloc(MAX_RECORDS, sizeof(struct record)), 0};
    digest_of(model, a, &ra, hex);
    digest_of(model, b, &rb, hex);
    snprintf(out, room, "none");
    for (size_t i = 0; i < ra.n; i++) {
        bool found = false;
        for (size_t j = 0; j < rb.n && !found; j++)
            if (ra.list[i].layer == rb.list[j].layer && ra.list[i].position == rb.list[j].position &&
                strcmp(ra.list[i].op, rb.list[j].op) == 0) {
                found = true;
                if (ra.list[i].hash != rb.list[j].hash) {
                    snprintf(out, room, "layer %d, %s, position %u", (int)ra.list[i].layer, ra.list[i].op,
                             ra.list[i].position);
                    i = ra.n;
                }
            }
    }
    bn_free(ra.list);
    bn_free(rb.list);
}

static void compare(bn_model *model, const char *path, const struct way *base, const char *expected,
                    const struct way *way)
{
    char hex[BN_SHA256_HEX], where[96];
    digest_of(model, way, NULL, hex);
    if (strcmp(hex, expected) == 0) return;
    name_first(model, base, way, where, sizeof where);
    fail_msg("%s: %s, %u threads, batch %u, %u a call differs from %s; first: %s", path, way->kernels->isa,
             way->n_threads, way->n_batch, way->n_call, base->kernels->isa, where);
}

static void check_model(const char *path)
{
    static const uint32_t SPLITS[] = {1, 2, 3, 7, 16, 64, N_TOKENS};
    bn_model *model = NULL;
    if (bn_model_open(&model, path, NULL, &err) != BN_OK) fail_msg("%s: %s: %s", path, err.where, err.msg);
    struct way base = {&bn_kernels_ref, 1, N_TOKENS, 0};
    char expected[BN_SHA256_HEX];
    digest_of(model, &base, NULL, expected);
    for (size_t k = 0; bn_kernels_built(k) != NULL; k++) {
        const struct bn_kernels *kernels = bn_kernels_built(k);
        if (!bn_kernels_supported(kernels)) continue;
        /* Each split and each number of threads on each instruction set, and all pairs of them on some of these. */
        for (size_t s = 0; s < BN_ARRAY_LEN(SPLITS); s++) {
            if (kernels == &bn_kernels_ref) break; /* it is slow: the base, and calls of 4 + 1 rows */
            struct way way = {kernels, 1 + (uint32_t)(s + k) % 3, SPLITS[s], 0};
            compare(model, path, &base, expected, &way);
        }
        struct way calls = {kernels, 2, 4, 5};
        compare(model, path, &base, expected, &calls);
    }
    bn_model_close(model);
}

TEST(all_fixtures_agree)
{
    glob_t found;
    assert_int_equal(glob("fixtures/*.gguf", 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 1);
    for (size_t i = 0; i < found.gl_pathc; i++)
        check_model(found.gl_pathv[i]);
    globfree(&found);
}

/* The norm with its sum in one lane: right to 1e-16, and caught. */
static void plain_rmsnorm(float *y, const float *x, const float *w, size_t n, float eps)
{
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    float r = 1.0f / __builtin_sqrtf(sum / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * r * w[i];
}

TEST(another_order_is_caught_and_named)
{
    bn_model *model = NULL;
    must(bn_model_open(&model, "fixtures/shakespeare-5m-i2_s.gguf", NULL, &err));
    struct bn_kernels wrong = bn_kernels_ref;
    wrong.rmsnorm = plain_rmsnorm;
    struct way base = {&bn_kernels_ref, 1, N_TOKENS, 0}, bad = {&wrong, 1, N_TOKENS, 0};
    char a[BN_SHA256_HEX], b[BN_SHA256_HEX], where[96];
    digest_of(model, &base, NULL, a);
    digest_of(model, &bad, NULL, b);
    assert_string_not_equal(a, b);
    name_first(model, &base, &bad, where, sizeof where);
    assert_has(where, "layer 0, attn_norm");
    name_first(model, &base, &base, where, sizeof where);
    assert_string_equal(where, "none");
    bn_model_close(model);
}

TEST(truncating_is_like_starting_afresh)
{
    bn_model *model = NULL;
    bn_session *session = NULL;
    must(bn_model_open(&model, "fixtures/shakespeare-5m-i2_s.gguf", NULL, &err));
    must(bn_session_open(&session, model, NULL, &err));
    size_t n_vocab = bn_model_hparams(model)->n_vocab;
    float *a = bn_alloc(n_vocab, sizeof *a), *b = bn_alloc(n_vocab, sizeof *b);
    int32_t ids[N_TOKENS];
    make_tokens(ids, (uint32_t)n_vocab);
    must(bn_session_eval(session, ids, 20, BN_LOGITS_LAST, a, &err));
    must(bn_session_eval(session, ids + 30, 20, BN_LOGITS_LAST, b, &err));
    assert_memory_not_equal(a, b, n_vocab * sizeof *a);
    must(bn_session_truncate(session, 10, &err));
    must(bn_session_eval(session, ids + 10, 10, BN_LOGITS_LAST, b, &err));
    assert_memory_equal(a, b, n_vocab * sizeof *a);
    refused(bn_session_truncate(session, 21, &err), BN_ERR_ARG);
    bn_free(a);
    bn_free(b);
    bn_session_close(session);
    bn_model_close(model);
}
