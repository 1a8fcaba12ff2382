/* SPDX-License-Identifier: MIT
 *
 * bn-convert: hostile safetensors headers with the byte offset of the fault, JSON without a tree, rows of
 * every ternary type to every other, and what a type cannot store.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "base/json.h"
#include "gguf/types.h"
#include "hub/files/safetensors.h"
#include "hub/files/vocab.h"
#include "tests/unit/folder.h"
#include "tools/convert/plan.h"

/* A file with this header and n zero bytes of data; the header's length may be wrong by `wrong`. */
static bn_status open_file(struct bn_safetensors *st, const char *header, size_t n, int64_t wrong,
                           bn_error *e)
{
    struct bn_buf file = {.max = 1u << 20};
    uint64_t length = (uint64_t)((int64_t)strlen(header) + wrong);
    bn_buf_append(&file, &length, 8);
    bn_buf_puts(&file, header);
    for (size_t i = 0; i < n; i++)
        bn_buf_putc(&file, '\0');
    *e = (bn_error){0};
    bn_status status = bn_safetensors_open(st, file.data, file.len, e);
    bn_buf_release(&file);
    return status;
}

#define T(name, type, shape, from, to) \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" from "," to "]}"

TEST(good_headers)
{
    struct bn_safetensors st;
    must(open_file(&st, "{}", 0, 0, &err));
    assert_int_equal(st.n, 0);
    bn_safetensors_close(&st);
    const char *two = "{" T("b", "F32", "2", "4", "12") ",\"__metadata__\":{\"format\":\"pt\"}," T(
        "a\\u0041", "BF16", "", "0", "2") "," T("none", "F32", "0,3", "2", "2") "," T("c", "U8", "1,2", "2",
                                                                                      "4") "}  ";
    must(open_file(&st, two, 12, 0, &err));
    assert_int_equal(st.n, 4);
    const struct bn_st_tensor *t = bn_safetensors_find(&st, "aA");
    assert_non_null(t);
    assert_int_equal(t->type, BN_ST_BF16);
    assert_int_equal(t->n_dims, 0);
    t = bn_safetensors_find(&st, "b");
    assert_non_null(t);
    assert_int_equal(t->n_bytes, 8);
    assert_int_equal(t->offset, 8 + strlen(two) + 4);
    assert_null(bn_safetensors_find(&st, "d"));
    bn_safetensors_close(&st);
}

TEST(hostile_headers)
{
    static const struct {
        const char *header;
        size_t n;      /* bytes of data */
        int64_t wrong; /* added to the length of the header */
        uint64_t offset;
        const char *says;
    } ROWS[] = {
        {"{}", 0, 1, 0, "cut off"},
        {"{}", 0, INT64_MAX - 2, 0, "cut off"},
        {"{}", 0, -2, 8, "does not begin with '{'"},
        {" {}", 0, 0, 8, "does not begin with '{'"},
        {"[]", 0, 0, 8, "does not begin with '{'"},
        {"{", 0, 0, 9, "the text ends"},
        {"{}x", 0, 0, 10, "trailing data"},
        {"{,}", 0, 0, 9, "unexpected ','"},
        {"{}", 1, 0, 10, "1 bytes at the end"},
        {"{" T("a", "F32", "1", "0", "4") "}", 3, 0, 9, "is not within the 3 bytes"},
        {"{" T("a", "F32", "1", "4", "0") "}", 4, 0, 9, "is not within"},
        {"{" T("a", "F32", "2", "0", "4") "}", 4, 0, 9, "type and shape give 8"},
        {"{" T("a", "F32", "1", "0", "4") "," T("b", "F32", "1", "0", "4") "}", 4, 0, 62, "overlap"},
        {"{" T("a", "F32", "1", "0", "4") "," T("b", "F32", "1", "2", "6") "}", 6, 0, 62, "overlap"},
        {"{" T("a", "F32", "1", "0", "4") "," T("b", "F32", "1", "5", "9") "}", 9, 0, 62,
         "1 bytes before its data"},
        {"{" T("a", "F32", "1", "4", "8") "}", 8, 0, 9, "4 bytes before its data"},
        {"{" T("a", "F32", "1", "0", "4") "," T("a", "F32", "1", "4", "8") "}", 8, 0, 62, "duplicate name"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, 0, 27, "duplicate name"},
        {"{\"__metadata__\":{\"a\":1}}", 0, 0, 29, "expected a string"},
        {"{" T("a", "F31", "1", "0", "4") "}", 4, 0, 22, "the type 'F31'"},
        {"{" T("a", "F32", "-1", "0", "4") "}", 4, 0, 37, "expected a whole number"},
        {"{" T("a", "F32", "1.5", "0", "4") "}", 4, 0, 37, "not a whole number"},
        {"{" T("a", "F32", "01", "0", "4") "}", 4, 0, 38, "a comma or a closing bracket"},
        {"{" T("a", "F32", "1e3", "0", "4") "}", 4, 0, 37, "not a whole number"},
        {"{" T("a", "F32", "99999999999999999999", "0", "4") "}", 4, 0, 37, "below 2^63"},
        {"{" T("a", "F32", "4294967296,4294967296,2", "0", "0") "}", 0, 0, 9, "overflows"},
        {"{" T("a", "F32", "1,1,1,1,1,1,1,1,1", "0", "4") "}", 4, 0, 53, "too many numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 0, 0, 9, "data_offsets is missing"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, 0, 28, "duplicate member"},
        {"{\"a\":{\"dtype\":\"F32\",\"size\":1}}", 0, 0, 28, "not dtype, shape or data_offsets"},
        {"{\"a\":{\"data_offsets\":[0,0,0]}}", 0, 0, 34, "too many numbers"},
        {"{\"a\":{\"data_offsets\":[0]}}", 0, 0, 14, "not two numbers"},
        {"{\"a\":1}", 0, 0, 13, "expected an object"},
        {"{\"\":{}}", 0, 0, 9, "1 to 512"},
        {"{\"a\\u0000\":{}}", 0, 0, 17, "NUL in a string"},
        {"{\"a\\ud800\":{}}", 0, 0, 17, "lone surrogate"},
        {"{\"\xFF\":{}}", 0, 0, 10, "invalid UTF-8"},
        {"{\"a\n\":{}}", 0, 0, 11, "control character"},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++) {
        struct bn_safetensors st;
        bn_status status = attempt(open_file(&st, ROWS[i].header, ROWS[i].n, ROWS[i].wrong, &err));
        if (status == BN_OK || strstr(err.msg, ROWS[i].says) == NULL || err.offset != ROWS[i].offset)
            fail_msg("%s: status %d, '%s' at %llu", ROWS[i].header, (int)status, err.msg,
                     (unsigned long long)err.offset);
        assert_null(st.tensors);
    }
}

TEST(short_files)
{
    struct bn_safetensors st;
    static const unsigned char BYTES[8] = {0};
    for (size_t n = 0; n <= 8; n++) {
        refused(bn_safetensors_open(&st, BYTES, n, &err), BN_ERR_FORMAT);
    }
}

TEST(strings)
{
    static const char TEXT[] =
        "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"\\ud83d\\ude00\\u00e9\", {\"a\" : [1, true, null]}]";
    struct bn_scan s = {.text = TEXT, .n = strlen(TEXT), .err = &err};
    struct bn_buf out = {.max = 100};
    bool more;
    must(bn_scan_open(&s, '['));
    must(bn_scan_more(&s, ']', &more));
    must(bn_scan_string(&s, &out));
    assert_string_equal(out.data, "\"\\/\b\f\n\r\t");
    must(bn_scan_more(&s, ']', &more));
    must(bn_scan_string(&s, &out));
    assert_string_equal(out.data, "\xF0\x9F\x98\x80\xC3\xA9");
    must(bn_scan_more(&s, ']', &more));
    assert_true(more);
    must(bn_scan_skip(&s));
    must(bn_scan_more(&s, ']', &more));
    assert_false(more);
    must(bn_scan_end(&s));
    bn_buf_release(&out);
}

static bn_status read_vocab(struct bn_hub_vocab *v, size_t n, const char *text, bn_error *e)
{
    *v = (struct bn_hub_vocab){.max = n};
    *e = (bn_error){0};
    return bn_hub_vocab_read(v, text, strlen(text), e);
}

TEST(merges)
{
    struct bn_hub_vocab v;
    static const char *const FORMS[] = {"\"a b\",\"ab \xC4\xA0\"", "[\"a\",\"b\"],[\"ab\",\" \"]"};
    for (size_t i = 0; i < 2; i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"model\":{\"vocab\":{\"a\":1,\"b\":0},\"merges\":[%s]}}", FORMS[i]);
        must(read_vocab(&v, 2, text, &err));
        assert_int_equal(v.n_merges, 2);
        assert_memory_equal(v.merges.data, "\3\0\0\0\0\0\0\0a b\5\0\0\0\0\0\0\0ab \xC4\xA0", 24);
        assert_memory_equal(v.texts.data + v.tokens[0].at, "b", 1);
        bn_hub_vocab_release(&v);
    }
}

TEST(bad_vocabularies)
{
    static const struct {
        const char *text, *says;
    } ROWS[] = {
        {"{}", "no model.vocab"},
        {"{\"model\":{\"vocab\":{\"a\":2},\"merges\":[]}}", "not below the number of tokens, 2"},
        {"{\"model\":{\"vocab\":{\"a\":1,\"b\":1},\"merges\":[]}}", "two tokens have the id 1"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", "not two parts"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"b\",\"c\"]]}}", "not two parts"},
        {"{\"model\":{\"vocab\":{},\"vocab\":{},\"merges\":[]}}", "duplicate member"},
        {"{\"model\":{\"vocab\":{},\"merges\":[]},\"model\":{}}", "duplicate member"},
        {"{\"added_tokens\":[],\"added_tokens\":[]}", "duplicate member"},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++) {
        struct bn_hub_vocab v;
        bn_status status = attempt(read_vocab(&v, 2, ROWS[i].text, &err));
        if (status == BN_OK || strstr(err.msg, ROWS[i].says) == NULL)
            fail_msg("%s: status %d, '%s'", ROWS[i].text, (int)status, err.msg);
        bn_hub_vocab_release(&v);
    }
}

#define K 512u
static const uint32_t TERNARY[] = {BN_TYPE_I2_S, BN_TYPE_TQ2_0, BN_TYPE_TQ1_0,
                                   BN_TYPE_Q2_0, BN_TYPE_PQ2_0, BN_TYPE_PTQ1_0};

struct row {
    int8_t values[K];
    float scales[K / BN_CV_GROUP], floats[K];
    struct bn_cv_scratch s;
};

static struct row *fresh(struct row *row)
{
    memset(row, 0, sizeof *row);
    row->s = (struct bn_cv_scratch){.values = row->values, .scales = row->scales, .floats = row->floats};
    for (size_t i = 0; i < K; i++)
        row->values[i] = (int8_t)((int)(i * i % 7 % 3) - 1);
    for (size_t g = 0; g < K / BN_CV_GROUP; g++)
        row->scales[g] = 0.5f;
    return row;
}

static struct bn_cv_tensor tensor_of(uint32_t to)
{
    return (struct bn_cv_tensor){.name = "blk.0.attn_q.weight",
                                 .to = to,
                                 .ne = {K, 1, 1, 1},
                                 .target_scale = 0.5f,
                                 .scale = 0.5f,
                                 .input = SIZE_MAX};
}

/* Packs the row as `to` and reads it back. */
static bool round_trip(struct row *row, uint32_t to, bool round)
{
    static unsigned char bytes[4096];
    struct bn_cv_tensor t = tensor_of(to);
    if (!bn_cv_pack_row(&t, 0, round, &row->s, bytes)) return false;
    t.kind = to == BN_TYPE_F32 || to == BN_TYPE_F16 ? BN_CV_TRITS : BN_CV_BLOCKS;
    t.from = to;
    t.data = bytes;
    memset(row->values, 99, sizeof row->values);
    return bn_cv_read_row(&t, 0, &row->s);
}

TEST(every_type)
{
    struct row a, b;
    fresh(&a);
    fresh(&b);
    for (size_t i = 0; i < BN_ARRAY_LEN(TERNARY); i++) {
        assert_true(round_trip(&b, TERNARY[i], false));
        assert_memory_equal(a.values, b.values, sizeof a.values);
        assert_memory_equal(a.scales, b.scales, sizeof a.scales);
    }
    assert_true(round_trip(&b, BN_TYPE_F16, false) && round_trip(&b, BN_TYPE_F32, false));
    assert_memory_equal(a.values, b.values, sizeof a.values);
    assert_memory_equal(a.scales, b.scales, sizeof a.scales);
}

static void refuses(struct row *row, uint32_t to, enum bn_cv_fault why)
{
    row->s.note = (struct bn_cv_note){0};
    assert_false(round_trip(row, to, false));
    assert_int_equal(row->s.note.fault, why);
    struct bn_cv_plan plan = {0};
    struct bn_cv_tensor t = tensor_of(to);
    assert_true(attempt(bn_cv_fail_note(&plan, &t, &row->s.note, &err)) != BN_OK);
    assert_has(err.where, "blk.0.attn_q.weight");
    assert_has(err.msg, "row 0");
}

TEST(two_scales)
{
    struct row row;
    fresh(&row)->scales[1] = 0.25f;
    assert_true(round_trip(&row, BN_TYPE_Q2_0, false));
    assert_true(row.scales[1] == 0.25f && row.scales[2] == 0.5f);
    const uint32_t larger[] = {BN_TYPE_I2_S, BN_TYPE_PQ2_0, BN_TYPE_PTQ1_0, BN_TYPE_TQ2_0, BN_TYPE_TQ1_0};
    for (size_t i = 0; i < BN_ARRAY_LEN(larger); i++) {
        fresh(&row)->scales[1] = 0.25f;
        refuses(&row, larger[i], BN_CV_TWO_SCALES);
    }
    fresh(&row)->scales[2] = 0.25f;
    row.scales[3] = 0.25f; /* 128 weights with one scale */
    assert_true(round_trip(&row, BN_TYPE_PQ2_0, false));
    fresh(&row)->scales[2] = 0.25f;
    row.scales[3] = 0.25f;
    refuses(&row, BN_TYPE_TQ2_0, BN_CV_TWO_SCALES);
}

/* A block of zeros takes any scale, whether its codes or its scale are zero. */
TEST(zeros)
{
    for (int by_scale = 0; by_scale < 2; by_scale++)
        for (size_t i = 0; i < BN_ARRAY_LEN(TERNARY); i++) {
            struct row row;
            fresh(&row)->scales[0] = by_scale ? 0.0f : 7.0f;
            if (!by_scale) memset(row.values, 0, BN_CV_GROUP);
            assert_true(round_trip(&row, TERNARY[i], false));
            for (size_t k = 0; k < BN_CV_GROUP; k++)
                assert_true(row.values[k] == 0 || row.scales[0] == 0.0f);
            assert_true(row.scales[1] == 0.5f);
        }
}

TEST(codes_and_scales)
{
    struct row row;
    const uint32_t with_two[] = {BN_TYPE_TQ2_0, BN_TYPE_Q2_0, BN_TYPE_PQ2_0};
    for (size_t i = 0; i < BN_ARRAY_LEN(with_two); i++) {
        fresh(&row)->values[300] = 2;
        assert_true(round_trip(&row, with_two[i], false));
        assert_int_equal(row.values[300], 2);
    }
    const uint32_t without[] = {BN_TYPE_I2_S, BN_TYPE_TQ1_0, BN_TYPE_PTQ1_0};
    for (size_t i = 0; i < BN_ARRAY_LEN(without); i++) {
        fresh(&row)->values[300] = 2;
        refuses(&row, without[i], BN_CV_TWO);
        assert_int_equal(row.s.note.column, 300);
    }
    fresh(&row)->scales[4] = 0.1f;
    refuses(&row, BN_TYPE_Q2_0, BN_CV_NOT_HALF);
    fresh(&row)->scales[4] = 0.1f;
    assert_true(round_trip(&row, BN_TYPE_Q2_0, true));
    assert_true(row.s.worst > 0 && row.s.worst < 0x1p-11);
    fresh(&row)->scales[4] = 1e30f; /* rounding would give infinity */
    assert_false(round_trip(&row, BN_TYPE_Q2_0, true));
}

/* Bytes that hold four rows: plane i is the rows i n/4 and following. */
TEST(packed_rows)
{
    struct row row;
    unsigned char bytes[2 * K];
    struct bn_cv_tensor t = {.kind = BN_CV_PACKED, .ne = {K, 8, 1, 1}, .data = bytes, .scale = 2.0f};
    for (size_t r = 0; r < 2; r++)
        memset(bytes + r * K, r == 0 ? 0x18 : 0x81, K); /* codes 0 2 1 0 and 1 0 0 2, plane 0 first */
    static const int8_t WANT[8] = {-1, 0, 1, -1, 0, -1, -1, 1};
    fresh(&row);
    for (uint64_t r = 0; r < 8; r++) {
        assert_true(bn_cv_read_row(&t, r, &row.s));
        assert_int_equal(row.values[5], WANT[r]);
    }
    bytes[K + 3] = 0xC1;
    assert_false(bn_cv_read_row(&t, 7, &row.s));
    assert_int_equal(row.s.note.fault, BN_CV_CODE_3);
    assert_int_equal(row.s.note.column, 3);
}

/* Row i of a head of the result is row i mod 2 times half a head, and i / 2, of the source. */
TEST(interleaved_heads)
{
    struct bn_cv_tensor t = {.ne = {K, 12, 1, 1}, .heads = 2};
    static const uint64_t WANT[12] = {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11};
    for (uint64_t r = 0; r < 12; r++)
        assert_int_equal(bn_cv_source_row(&t, r), WANT[r]);
}

/* Two key heads with two value heads each, of two rows: q as it is, then the values, whose heads g = 0 1 2 3 of the
 * source are wanted as 0 2 1 3. The columns of another tensor are ordered in the same way. */
TEST(value_heads)
{
    struct bn_cv_tensor t = {
        .ne = {K, 12, 1, 1},
        .rows = {{.n = 4, .size = 2, .n_key = 2, .per_key = 2},
                 {.n = 8, .size = 2, .n_key = 2, .base = 4, .per_key = 4, .per_value = 2}},
        .columns = {.n = K, .size = K / 4, .n_key = 2, .per_key = K / 2, .per_value = K / 4}};
    static const uint64_t WANT[12] = {0, 1, 2, 3, 4, 5, 8, 9, 6, 7, 10, 11};
    for (uint64_t r = 0; r < 12; r++)
        assert_int_equal(bn_cv_source_row(&t, r), WANT[r]);
    for (uint64_t head = 0; head < 4; head++)
        assert_int_equal(bn_cv_source_column(&t, head * K / 4 + 1), WANT[4 + 2 * head] * K / 8 - K / 2 + 1);
}

/* A file of floats: the layer that predicts further tokens is copied when it is not ternary, another one is refused later. */
static enum bn_cv_kind kind_of_last(uint32_t n_next)
{
    const char *path = below("model.gguf");
    struct bn_gguf_writer w = {.kv = {.max = 1u << 16}, .infos = {.max = 1u << 16}};
    struct bn_buf file = {.max = 1u << 20};
    const struct bn_cv_options options = {0};
    struct bn_cv_plan plan = {.options = &options, .target = BN_TYPE_Q2_0};
    plan.keys.kv.max = plan.keys.infos.max = 1u << 16;
    bn_gguf_put_str(&w, "general.architecture", "qwen35", 6);
    bn_gguf_put_u32(&w, "qwen35.block_count", 2);
    bn_gguf_put_u32(&w, "qwen35.nextn_predict_layers", n_next);
    bn_gguf_put_tensor(&w, "blk.0.ffn_up.weight", BN_TYPE_F32, 2, (const uint64_t[]){64, 1});
    bn_gguf_put_tensor(&w, "blk.1.ffn_up.weight", BN_TYPE_F32, 2, (const uint64_t[]){64, 1});
    must(bn_gguf_write_head(&w, &file, &err));
    for (size_t i = 0; i < 128; i++) {
        float value = i < 64 ? 1.0f : (float)i;
        bn_buf_append(&file, &value, sizeof value);
    }
    must(bn_file_write_atomic(path, file.data, file.len, &err));
    must(bn_cv_from_gguf(&plan, path, &err));
    assert_int_equal(plan.n_tensors, 2);
    assert_int_equal(plan.tensors[0].kind, BN_CV_TRITS);
    enum bn_cv_kind kind = plan.tensors[1].kind;
    bn_cv_release(&plan);
    bn_gguf_writer_release(&w);
    bn_buf_release(&file);
    return kind;
}

TEST_IN(further_tokens, make_folder, remove_folder)
{
    assert_int_equal(kind_of_last(1), BN_CV_COPY);
    assert_int_equal(kind_of_last(0), BN_CV_TRITS);
}

/* Half to even, as the models were trained: 0.5 becomes 0, 1.5 is clamped. */
TEST(masters)
{
    struct row row;
    float weights[K];
    static const float SIX[6] = {0.5f, -0.5f, 0.50000006f, -0.51f, 7.0f, -1e-20f};
    static const int8_t WANT[6] = {0, 0, 1, -1, 1, 0};
    for (size_t i = 0; i < K; i++)
        weights[i] = SIX[i % 6];
    struct bn_cv_tensor t = {.kind = BN_CV_MASTER,
                             .from = BN_TYPE_F32,
                             .ne = {K, 1, 1, 1},
                             .scale = 1.0f,
                             .data = (const unsigned char *)weights};
    fresh(&row);
    assert_true(bn_cv_read_row(&t, 0, &row.s));
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(row.values[i], WANT[i]);
    weights[9] = NAN;
    assert_false(bn_cv_read_row(&t, 0, &row.s));
}
