/* SPDX-License-Identifier: MIT
 *
 * Hostile files: the bad-input corpus, every truncation, single bytes overwritten, memory that runs out. Each
 * must end in the right error, with nothing leaked, little allocated, and, under the sanitizers, nothing read
 * beyond the bytes. Two openers are tried alike: the container's reader and the whole model.
 */
#define _POSIX_C_SOURCE 200809L
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "gguf/gguf.h"
#include "tests/unit/status.h"

#define ROOM (32u << 20)
#define MAX_ALLOCATED (16u << 20)
#define NEAR 16u /* bytes that an offset may be off: a field */

typedef bn_status (*open_fn)(const void *bytes, size_t n, bn_error *err);

/* Reads every byte that the reader says is there, so that the sanitizers see where they lie. */
static unsigned walk(const struct bn_gguf *gguf)
{
    unsigned sum = 0;
    for (size_t i = 0; i < gguf->n_kv; i++) {
        const struct bn_gguf_kv *kv = &gguf->kv[i];
        size_t each = bn_gguf_type_bytes(kv->element);
        const unsigned char *at = kv->value;
        for (size_t k = 0; k < kv->key.len; k++)
            sum += (unsigned char)kv->key.ptr[k];
        for (uint64_t k = 0; k < kv->n * each; k++)
            sum += at[k];
        for (uint64_t k = 0; each == 0 && k < kv->n; k++) {
            struct bn_str text = bn_gguf_next_str(&at);
            for (size_t b = 0; b < text.len; b++)
                sum += (unsigned char)text.ptr[b];
        }
    }
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        const struct bn_gguf_tensor *t = &gguf->tensors[i];
        char name[BN_GGUF_MAX_NAME_BYTES + 1];
        snprintf(name, sizeof name, "%.*s", (int)t->name.len, t->name.ptr);
        assert_ptr_equal(bn_gguf_find_tensor(gguf, name), t);
        for (uint64_t k = 0; k < t->n_bytes; k++)
            sum += t->data[k];
    }
    return sum;
}

static volatile unsigned sink;

static bn_status open_container(const void *bytes, size_t n, bn_error *e)
{
    struct bn_gguf gguf;
    bn_status status = bn_gguf_open(&gguf, bytes, n, e);
    if (status == BN_OK) sink = walk(&gguf);
    bn_gguf_close(&gguf);
    return status;
}

static bn_status open_model(const void *bytes, size_t n, bn_error *e)
{
    bn_model *model = NULL;
    bn_status status = bn_model_open_memory(&model, bytes, n, "bad input", NULL, e);
    assert_int_equal(model != NULL, status == BN_OK);
    bn_model_close(model);
    return status;
}

/* Opens a copy that ends exactly where the bytes end, and checks what holds for every input. */
static bn_status try_open(open_fn open, const char *bytes, size_t n, bn_error *e)
{
    void *copy = NULL;
    assert_int_equal(posix_memalign(&copy, BN_ALIGNMENT, n > 0 ? n : 1), 0);
    if (n > 0) memcpy(copy, bytes, n);
    struct bn_mem_stats before = bn_mem_stats();
    *e = (bn_error){0};
    bn_status status = open(copy, n, e);
    struct bn_mem_stats after = bn_mem_stats();
    free(copy);
    assert_int_equal(after.bytes_now, before.bytes_now);
    assert_int_equal(e->code, status);
    if (status != BN_OK) {
        assert_true(e->msg[0] != '\0');
        assert_null(strchr(e->msg, '\n'));
        assert_null(strchr(e->msg, '\x1B'));
        assert_null(strchr(e->where, '\x1B'));
        assert_true(after.bytes_total - before.bytes_total <= MAX_ALLOCATED);
        assert_true(e->offset == BN_NO_OFFSET || e->offset <= n);
    }
    return status;
}

static bool is_near(uint64_t a, uint64_t b)
{
    return a == b || (a != BN_NO_OFFSET && (a > b ? a - b : b - a) <= NEAR);
}

static bn_status model_without_err(const void *bytes, size_t n, bn_error *e)
{
    bn_status status = open_model(bytes, n, NULL);
    if (status != BN_OK) bn_fail(e, status, "not asked for");
    return status;
}

/* A file of the corpus, which tests/corpus/make.py writes. */
static void read_case(struct bn_buf *out, const char *name)
{
    char path[4200];
    const char *folder = getenv("OUT");
    *out = (struct bn_buf){.max = ROOM};
    snprintf(path, sizeof path, "%s/tests/corpus/%s", folder != NULL ? folder : "build/gcc", name);
    must(bn_file_read(path, out, NULL));
    bn_buf_append(out, "", 0); /* an empty file is not NULL */
}

/* Every case by one opener, which knows what values mean or not. */
static void check_corpus(open_fn open, bool whole_model)
{
    struct bn_buf cases, file;
    unsigned n = 0, n_bad = 0;
    read_case(&cases, "cases.tsv");
    for (char *line = strtok(cases.data, "\n"); line != NULL; line = strtok(NULL, "\n"), n++) {
        char name[80], status[16], place[24], level[16], path[100];
        assert_int_equal(sscanf(line, "%64s %15s %*d %23s %15s", name, status, place, level), 4);
        snprintf(path, sizeof path, "%s.gguf", name);
        read_case(&file, path);
        uint64_t want_at = place[0] == '-' ? BN_NO_OFFSET : strtoull(place, NULL, 10);
        const char *want = whole_model || strcmp(level, "container") == 0 ? status : "ok";
        const char *got = bn_status_name(attempt(try_open(open, file.data, file.len, &err)));
        if (strcmp(got, want) != 0 ||
            (open != model_without_err && place[0] != '-' && !is_near(err.offset, want_at))) {
            print_message("%s: %s at %lld, expected %s: %s: %s\n", line, got, (long long)err.offset, want,
                          err.where, err.msg);
            n_bad++;
        }
        bn_buf_release(&file);
    }
    bn_buf_release(&cases);
    assert_true(n >= 300);
    assert_int_equal(n_bad, 0);
}

TEST(corpus_container)
{
    check_corpus(open_container, false);
}

TEST(corpus_model)
{
    check_corpus(open_model, true);
}

/* The status does not depend on whether the caller wants to know why. */
TEST(corpus_without_err)
{
    check_corpus(model_without_err, true);
}

/* ---- three valid files ---- */

enum { CONTAINER, BARE_MODEL, VOCAB_MODEL, N_VALID };

static void make_valid(struct bn_buf *out, int which)
{
    static const char *const NAMES[] = {"container.gguf", "good_bare.gguf", "good_vocab.gguf"};
    read_case(out, NAMES[which]);
}

/* Where the last tensor ends: files cut after it are still complete. */
static size_t end_of_data(const struct bn_buf *file, size_t *data_offset)
{
    struct bn_gguf gguf;
    uint64_t end = 0;
    must(bn_gguf_open(&gguf, file->data, file->len, NULL));
    for (size_t i = 0; i < gguf.n_tensors; i++)
        if (gguf.tensors[i].offset + gguf.tensors[i].n_bytes > end)
            end = gguf.tensors[i].offset + gguf.tensors[i].n_bytes;
    *data_offset = (size_t)gguf.data_offset;
    bn_gguf_close(&gguf);
    return (size_t)end;
}

/* Every prefix of the head; of the data every one in small files, some in large ones. */
TEST(truncations)
{
    for (int which = 0; which < N_VALID; which++) {
        struct bn_buf file;
        size_t data_offset = 0;
        make_valid(&file, which);
        size_t end = end_of_data(&file, &data_offset);
        for (size_t n = 0; n <= file.len; n += n < data_offset + 64 || file.len - n < 64 ? 1 : 61) {
            bn_status status = attempt(try_open(open_container, file.data, n, &err));
            assert_int_equal(status, n >= end ? BN_OK : BN_ERR_FORMAT);
        }
        bn_buf_release(&file);
    }
}

TEST(truncated_models)
{
    for (int which = BARE_MODEL; which < N_VALID; which++) {
        struct bn_buf file;
        size_t data_offset = 0;
        make_valid(&file, which);
        size_t end = end_of_data(&file, &data_offset);
        for (size_t n = 0; n <= file.len; n += file.len - n < 64 ? 1 : 97) {
            bn_status status = attempt(try_open(open_model, file.data, n, &err));
            assert_int_equal(status, n >= end ? BN_OK : BN_ERR_FORMAT);
        }
        bn_buf_release(&file);
    }
}

/* Blind mutation: no crash, no leak, no silent nonsense in the error. What it means may be anything. */
TEST(bytes_overwritten)
{
    static const unsigned char VALUES[] = {0x00, 0x7F, 0x80, 0xFF};
    for (int which = 0; which < N_VALID; which++) {
        struct bn_buf file;
        unsigned n_refused = 0;
        make_valid(&file, which);
        for (size_t at = 0; at < 512 && at < file.len; at++)
            for (size_t v = 0; v < sizeof VALUES; v++) {
                char old = file.data[at];
                file.data[at] = (char)VALUES[v];
                n_refused += attempt(try_open(open_container, file.data, file.len, &err)) != BN_OK;
                if (which != CONTAINER && v % 2 == 1)
                    attempt(try_open(open_model, file.data, file.len, &err));
                file.data[at] = old;
            }
        assert_true(n_refused > 100);
        bn_buf_release(&file);
    }
}

TEST(memory_runs_out)
{
    for (int which = 0; which < N_VALID; which++) {
        struct bn_buf file;
        bn_status status;
        make_valid(&file, which);
        SHORT_MEMORY (status)
            status = attempt(try_open(open_container, file.data, file.len, &err));
        if (which != CONTAINER)
            SHORT_MEMORY (status)
                status = attempt(try_open(open_model, file.data, file.len, &err));
        bn_buf_release(&file);
    }
}

/* Weights that are finite, and so large that activations are not: an error, at every instruction set, and not
 * what kernels make of it. */
TEST(weights_that_overflow)
{
    struct bn_buf file;
    make_valid(&file, BARE_MODEL);
    struct bn_gguf gguf;
    must(bn_gguf_open(&gguf, file.data, file.len, NULL));
    const float large = 3.4e38f;
    memcpy(file.data + bn_gguf_find_tensor(&gguf, "blk.0.attn_norm.weight")->offset + 4, &large,
           sizeof large);
    bn_gguf_close(&gguf);
    void *copy = NULL;
    assert_int_equal(posix_memalign(&copy, BN_ALIGNMENT, file.len), 0);
    memcpy(copy, file.data, file.len);
    for (size_t isa = 0; bn_isa_available(isa) != NULL; isa++) {
        bn_model *model = NULL;
        bn_session *session = NULL;
        float logits[4];
        const int32_t ids[] = {1, 2, 3};
        must(bn_isa_select(bn_isa_available(isa), &err));
        must(bn_model_open_memory(&model, copy, file.len, "overflow", NULL, &err));
        must(bn_session_open(&session, model, NULL, &err));
        refused(bn_session_eval(session, ids, 3, BN_LOGITS_LAST, logits, &err), BN_ERR_FORMAT);
        assert_int_equal(bn_session_position(session), 0);
        assert_has(err.msg, "not finite");
        bn_session_close(session);
        bn_model_close(model);
    }
    must(bn_isa_select("auto", NULL));
    free(copy);
    bn_buf_release(&file);
}

/* A vocabulary as long as a real one: the reader passes over it once. */
TEST(large_arrays)
{
    struct bn_gguf_writer w = {.kv.max = ROOM, .infos.max = ROOM};
    struct bn_buf file = {.max = ROOM};
    struct bn_gguf gguf;
    const struct bn_gguf_kv *kv = NULL;
    bn_gguf_put_array(&w, "tokens", BN_GGUF_STRING, 400000);
    for (unsigned i = 0; i < 400000; i++) {
        char text[16];
        snprintf(text, sizeof text, "t%u", i);
        bn_gguf_put_text(&w.kv, text, strlen(text));
    }
    must(bn_gguf_write_head(&w, &file, &err));
    struct bn_mem_stats before = bn_mem_stats();
    must(bn_gguf_open(&gguf, file.data, file.len, &err));
    assert_true(bn_mem_stats().bytes_total - before.bytes_total < 4096);
    must(bn_gguf_array(&gguf, "tokens", BN_GGUF_STRING, &kv, &err));
    const unsigned char *cursor = kv->value;
    for (unsigned i = 0; i < 399999; i++)
        bn_gguf_next_str(&cursor);
    assert_true(bn_str_equal(bn_gguf_next_str(&cursor), "t399999"));
    bn_gguf_close(&gguf);
    bn_gguf_writer_release(&w);
    bn_buf_release(&file);
}

FIXTURE(end_endless_loops)
{
    assert_int_equal(alarm(600), 0);
}

GROUP(end_endless_loops, NULL)
