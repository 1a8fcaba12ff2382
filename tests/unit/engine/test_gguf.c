/* SPDX-License-Identifier: MIT
 *
 * GGUF: what is written is read back, every accessor, wrong types, limits, the rules for type 36.
 * Malformed files are the business of test_gguf_bad.c.
 */
#include "base/file.h"
#include "gguf/gguf.h"
#include "tests/unit/status.h"

#define ROOM (64u << 20)

/* A file under construction, and the reader's view of it. */
struct file {
    struct bn_gguf_writer w;
    struct bn_buf bytes;
    struct bn_gguf gguf;
};

static struct file new_file(void)
{
    return (struct file){.w = {.kv.max = ROOM, .infos.max = ROOM}, .bytes.max = ROOM};
}

/* Head plus n zero bytes of data, read back. */
static bn_status read_back(struct file *f, uint64_t n_data)
{
    must(bn_gguf_write_head(&f->w, &f->bytes, &err));
    for (uint64_t i = 0; i < n_data; i++)
        bn_buf_putc(&f->bytes, '\0');
    assert_false(f->bytes.failed);
    return bn_gguf_open(&f->gguf, f->bytes.data, f->bytes.len, &err);
}

static void release(struct file *f)
{
    bn_gguf_close(&f->gguf);
    bn_gguf_writer_release(&f->w);
    bn_buf_release(&f->bytes);
}

static void put_raw(struct file *f, const char *key, enum bn_gguf_type type, const void *bytes, size_t n)
{
    uint64_t len = strlen(key);
    uint32_t number = (uint32_t)type;
    bn_buf_append(&f->w.kv, &len, 8);
    bn_buf_puts(&f->w.kv, key);
    bn_buf_append(&f->w.kv, &number, 4);
    bn_buf_append(&f->w.kv, bytes, n);
    f->w.n_kv++;
}

static void put_strings(struct file *f)
{
    bn_gguf_put_array(&f->w, "a.strings", BN_GGUF_STRING, 3);
    bn_gguf_put_text(&f->w.kv, "one", 3);
    bn_gguf_put_text(&f->w.kv, "", 0);
    bn_gguf_put_text(&f->w.kv, "th\0ee", 5);
}

TEST(round_trip)
{
    struct file f = new_file();
    uint32_t u = 0;
    float x = 0;
    bool b = false;
    struct bn_str s;
    bn_gguf_put_str(&f.w, "general.architecture", "bitnet-b1.58", 12);
    bn_gguf_put_u32(&f.w, "a.u32", 0xFEDCBA98u);
    bn_gguf_put_f32(&f.w, "a.f32", -0.375f);
    bn_gguf_put_bool(&f.w, "a.bool", true);
    put_strings(&f);
    bn_gguf_put_tensor(&f.w, "z", BN_TYPE_F32, 1, (const uint64_t[]){5});
    bn_gguf_put_tensor(&f.w, "a", BN_TYPE_I2_S, 2, (const uint64_t[]){128, 3});
    bn_gguf_put_tensor(&f.w, "m", BN_TYPE_TQ2_0, 4, (const uint64_t[]){256, 1, 2, 1});
    assert_int_equal(f.w.data_bytes, 32 + 128 + 160);
    must(read_back(&f, f.w.data_bytes));

    assert_int_equal(f.gguf.version, 3);
    assert_int_equal(f.gguf.alignment, 32);
    assert_int_equal(f.gguf.n_kv, 5);
    assert_int_equal(f.gguf.n_tensors, 3);
    assert_int_equal(f.gguf.data_offset % 32, 0);
    assert_int_equal(f.gguf.n_bytes, f.bytes.len);
    must(bn_gguf_str(&f.gguf, "general.architecture", &s, &err));
    assert_true(bn_str_equal(s, "bitnet-b1.58"));
    must(bn_gguf_u32(&f.gguf, "a.u32", &u, &err));
    assert_int_equal(u, 0xFEDCBA98u);
    must(bn_gguf_f32(&f.gguf, "a.f32", &x, &err));
    assert_true(x == -0.375f);
    must(bn_gguf_bool(&f.gguf, "a.bool", &b, &err));
    assert_true(b);

    const struct bn_gguf_kv *kv = NULL;
    must(bn_gguf_array(&f.gguf, "a.strings", BN_GGUF_STRING, &kv, &err));
    assert_int_equal(kv->n, 3);
    const unsigned char *cursor = kv->value;
    assert_true(bn_str_equal(bn_gguf_next_str(&cursor), "one"));
    assert_int_equal(bn_gguf_next_str(&cursor).len, 0);
    s = bn_gguf_next_str(&cursor);
    assert_int_equal(s.len, 5);
    assert_memory_equal(s.ptr, "th\0ee", 5);

    const struct bn_gguf_tensor *t = bn_gguf_find_tensor(&f.gguf, "a");
    assert_ptr_equal(t, &f.gguf.tensors[1]);
    assert_int_equal(t->n_bytes, 128);
    assert_int_equal(t->offset, f.gguf.data_offset + 32);
    assert_ptr_equal(t->data, (const unsigned char *)f.bytes.data + t->offset);
    assert_ptr_equal(bn_gguf_find_tensor(&f.gguf, "m"), &f.gguf.tensors[2]);
    assert_ptr_equal(bn_gguf_find_tensor(&f.gguf, "z"), &f.gguf.tensors[0]);
    assert_int_equal(f.gguf.tensors[2].n_dims, 4);
    assert_int_equal(f.gguf.tensors[2].ne[2], 2);
    assert_null(bn_gguf_find_tensor(&f.gguf, "b"));
    assert_null(bn_gguf_find_tensor(&f.gguf, ""));
    release(&f);
}

TEST(integers_of_every_width)
{
    static const struct {
        enum bn_gguf_type type;
        unsigned char bytes[8];
        bn_status status;
        uint32_t value;
    } ROWS[] = {
        {BN_GGUF_U8, {0xFF}, BN_OK, 255},
        {BN_GGUF_I8, {0x7F}, BN_OK, 127},
        {BN_GGUF_I8, {0xFF}, BN_ERR_FORMAT, 0},
        {BN_GGUF_U16, {0x34, 0x12}, BN_OK, 0x1234},
        {BN_GGUF_I16, {0xFF, 0xFF}, BN_ERR_FORMAT, 0},
        {BN_GGUF_U32, {0xFF, 0xFF, 0xFF, 0xFF}, BN_OK, UINT32_MAX},
        {BN_GGUF_I32, {0, 0, 0, 0x80}, BN_ERR_FORMAT, 0},
        {BN_GGUF_I32, {5}, BN_OK, 5},
        {BN_GGUF_U64, {1, 0, 0, 0, 0, 0, 0, 0}, BN_OK, 1},
        {BN_GGUF_U64, {0, 0, 0, 0, 1, 0, 0, 0}, BN_ERR_FORMAT, 0},
        {BN_GGUF_I64, {7}, BN_OK, 7},
        {BN_GGUF_I64, {255, 255, 255, 255, 255, 255, 255, 255}, BN_ERR_FORMAT, 0},
        {BN_GGUF_F32, {0, 0, 0x80, 0x3F}, BN_ERR_FORMAT, 0},
        {BN_GGUF_F64, {0}, BN_ERR_FORMAT, 0},
        {BN_GGUF_BOOL, {1}, BN_ERR_FORMAT, 0},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++) {
        struct file f = new_file();
        uint32_t value = 0;
        put_raw(&f, "k", ROWS[i].type, ROWS[i].bytes, bn_gguf_type_bytes(ROWS[i].type));
        must(read_back(&f, 0));
        assert_int_equal(bn_gguf_u32(&f.gguf, "k", &value, &err), ROWS[i].status);
        assert_int_equal(value, ROWS[i].value);
        if (ROWS[i].status != BN_OK) {
            assert_int_equal(err.offset, 24);
            assert_string_equal(err.where, "key 'k'");
        }
        release(&f);
    }
}

TEST(wrong_types_and_absent_keys)
{
    struct file f = new_file();
    uint32_t u = 9;
    float x = 9;
    bool b = true;
    struct bn_str s = {"s", 1};
    const struct bn_gguf_kv *kv = NULL;
    bn_gguf_put_u32(&f.w, "u", 1);
    put_strings(&f);
    must(read_back(&f, 0));

    refused(bn_gguf_u32(&f.gguf, "none", &u, &err), BN_ERR_NOT_FOUND);
    refused(bn_gguf_f32(&f.gguf, "none", &x, &err), BN_ERR_NOT_FOUND);
    refused(bn_gguf_bool(&f.gguf, "none", &b, &err), BN_ERR_NOT_FOUND);
    refused(bn_gguf_str(&f.gguf, "none", &s, &err), BN_ERR_NOT_FOUND);
    refused(bn_gguf_array(&f.gguf, "none", BN_GGUF_STRING, &kv, &err), BN_ERR_NOT_FOUND);
    assert_int_equal(err.code, BN_OK);
    assert_int_equal(u, 9);
    assert_true(x == 9 && b && s.len == 1 && kv == NULL);

    refused(bn_gguf_f32(&f.gguf, "u", &x, &err), BN_ERR_FORMAT);
    assert_string_equal(err.where, "key 'u'");
    assert_string_equal(err.msg, "the value is uint32, not float32");
    refused(bn_gguf_bool(&f.gguf, "u", &b, NULL), BN_ERR_FORMAT);
    refused(bn_gguf_str(&f.gguf, "u", &s, NULL), BN_ERR_FORMAT);
    refused(bn_gguf_u32(&f.gguf, "a.strings", &u, NULL), BN_ERR_FORMAT);
    refused(bn_gguf_array(&f.gguf, "u", BN_GGUF_U32, &kv, NULL), BN_ERR_FORMAT);
    refused(bn_gguf_array(&f.gguf, "a.strings", BN_GGUF_F32, &kv, &err), BN_ERR_FORMAT);
    assert_string_equal(err.msg, "the value is array of string, not array of float32");
    release(&f);
}

TEST(version_two_is_read)
{
    struct file f = new_file();
    bn_gguf_put_u32(&f.w, "u", 1);
    must(bn_gguf_write_head(&f.w, &f.bytes, &err));
    f.bytes.data[4] = 2;
    must(bn_gguf_open(&f.gguf, f.bytes.data, f.bytes.len, &err));
    assert_int_equal(f.gguf.version, 2);
    release(&f);
}

TEST(alignment_key)
{
    static const struct {
        uint32_t alignment;
        bn_status status;
    } ROWS[] = {{8, BN_OK},          {64, BN_OK},        {65536, BN_OK},        {4, BN_ERR_FORMAT},
                {48, BN_ERR_FORMAT}, {0, BN_ERR_FORMAT}, {131072, BN_ERR_LIMIT}};
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++) {
        struct file f = new_file();
        if (ROWS[i].status == BN_OK)
            f.w.alignment = ROWS[i].alignment;
        else
            bn_gguf_put_u32(&f.w, "general.alignment", ROWS[i].alignment);
        bn_gguf_put_tensor(&f.w, "a", BN_TYPE_F32, 1, (const uint64_t[]){1});
        bn_gguf_put_tensor(&f.w, "b", BN_TYPE_F32, 1, (const uint64_t[]){1});
        assert_int_equal(read_back(&f, f.w.data_bytes), ROWS[i].status);
        if (ROWS[i].status == BN_OK) {
            assert_int_equal(f.gguf.alignment, ROWS[i].alignment);
            assert_int_equal(f.gguf.tensors[1].offset - f.gguf.tensors[0].offset, ROWS[i].alignment);
        }
        release(&f);
    }
}

TEST(limits_hold)
{
    static char text[BN_GGUF_MAX_STRING_BYTES + 1];
    char name[BN_GGUF_MAX_KEY_BYTES + 2];
    memset(text, 'x', sizeof text);
    memset(name, 'k', sizeof name);
    for (size_t over = 0; over <= 1; over++) {
        struct file f = new_file();
        bn_gguf_put_str(&f.w, "s", text, BN_GGUF_MAX_STRING_BYTES + over);
        assert_int_equal(read_back(&f, 0), over ? BN_ERR_LIMIT : BN_OK);
        release(&f);

        f = new_file(); /* templates may be longer */
        bn_gguf_put_str(&f.w, "tokenizer.chat_template", text, BN_GGUF_MAX_STRING_BYTES + over);
        must(read_back(&f, 0));
        release(&f);

        f = new_file();
        name[BN_GGUF_MAX_KEY_BYTES + over] = '\0';
        bn_gguf_put_u32(&f.w, name, 1);
        name[BN_GGUF_MAX_KEY_BYTES + over] = 'k';
        assert_int_equal(read_back(&f, 0), over ? BN_ERR_LIMIT : BN_OK);
        release(&f);

        f = new_file();
        name[BN_GGUF_MAX_NAME_BYTES + over] = '\0';
        bn_gguf_put_tensor(&f.w, name, BN_TYPE_F32, 1, (const uint64_t[]){1});
        name[BN_GGUF_MAX_NAME_BYTES + over] = 'k';
        assert_int_equal(read_back(&f, 32), over ? BN_ERR_LIMIT : BN_OK);
        release(&f);

        f = new_file();
        for (size_t i = 0; i < BN_GGUF_MAX_KV + over; i++) {
            char key[16];
            snprintf(key, sizeof key, "k%05zu", i);
            bn_gguf_put_u32(&f.w, key, 1);
        }
        assert_int_equal(read_back(&f, 0), over ? BN_ERR_LIMIT : BN_OK);
        release(&f);

        f = new_file();
        bn_gguf_put_array(&f.w, "a", BN_GGUF_U8, BN_GGUF_MAX_ARRAY + over);
        for (size_t i = 0; i < 5; i++)
            bn_buf_append(&f.w.kv, text, BN_GGUF_MAX_STRING_BYTES);
        assert_int_equal(read_back(&f, 0), over ? BN_ERR_LIMIT : BN_OK);
        if (over) assert_string_equal(err.where, "key 'a'");
        release(&f);
    }
}

/* What general.architecture and general.file_type say, and the room after the tensor, decide about 36. */
TEST(type_36)
{
    static const struct {
        const char *arch;
        uint32_t file_type; /* 0: no key */
        uint64_t room;      /* of a tensor of 128 x 8: I2_S needs 288, IQ4_NL_4_4 would need 576 */
        bn_status status;
    } ROWS[] = {
        {"bitnet-b1.58", 40, 288, BN_OK},
        {"bitnet-b1.58", 0, 288, BN_OK},
        {"bitnet-25", 0, 288, BN_OK},
        {"bitnet", 0, 320, BN_OK},
        {"llama", 40, 288, BN_OK},
        {"qwen3", 40, 288, BN_OK},
        {"qwen3", 0, 288, BN_OK},
        {"gemma3", 1, 288, BN_OK},
        {"qwen3", 0, 576, BN_ERR_UNSUPPORTED},
        {"llama", 0, 288, BN_ERR_UNSUPPORTED},
        {"llama", 25, 288, BN_ERR_UNSUPPORTED},
        {"bitnet-b1.58", 40, 256, BN_ERR_UNSUPPORTED},
        {"bitnet-b1.58", 40, 576, BN_ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++) {
        struct file f = new_file();
        bn_gguf_put_str(&f.w, "general.architecture", ROWS[i].arch, strlen(ROWS[i].arch));
        if (ROWS[i].file_type != 0) bn_gguf_put_u32(&f.w, "general.file_type", ROWS[i].file_type);
        bn_gguf_put_tensor(&f.w, "w", BN_TYPE_I2_S, 2, (const uint64_t[]){128, 8});
        f.w.data_bytes = ROWS[i].room;
        bn_gguf_put_tensor(&f.w, "next", BN_TYPE_F32, 1, (const uint64_t[]){8});
        assert_int_equal(read_back(&f, f.w.data_bytes), ROWS[i].status);
        if (ROWS[i].status != BN_OK) assert_string_equal(err.where, "tensor 'w'");
        release(&f);
    }
}

/* Type 42 has blocks of 64 or 128 weights, as the room for the tensors shows; 142 and 143 had other meanings. */
TEST(types_with_several_layouts)
{
    static const struct {
        uint32_t type;
        uint64_t k, room; /* of a tensor of k x 8 */
        uint32_t is;      /* 0: refused */
    } ROWS[] = {
        {42, 256, 576, BN_TYPE_Q2_0},    {42, 256, 544, BN_TYPE_PQ2_0},
        {42, 192, 448, BN_TYPE_Q2_0},    {42, 192, 416, 0},
        {42, 256, 640, BN_TYPE_Q2_0},    {42, 256, 512, 0},
        {142, 256, 544, BN_TYPE_PQ2_0},  {142, 256, 528 / 32 * 32, 0},
        {143, 256, 448, BN_TYPE_PTQ1_0}, {143, 256, 416, 0},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++) {
        struct file f = new_file();
        bn_gguf_put_str(&f.w, "general.architecture", "qwen3", 5);
        bn_gguf_put_tensor(&f.w, "w", BN_TYPE_F32, 2, (const uint64_t[]){ROWS[i].k, 8});
        memcpy(f.w.infos.data + f.w.infos.len - 12, &ROWS[i].type, 4);
        f.w.data_bytes = ROWS[i].room;
        bn_gguf_put_tensor(&f.w, "next", BN_TYPE_F32, 1, (const uint64_t[]){64});
        bn_status status = read_back(&f, f.w.data_bytes);
        assert_int_equal(status, ROWS[i].is != 0 ? BN_OK : BN_ERR_UNSUPPORTED);
        if (ROWS[i].is != 0) {
            assert_int_equal(f.gguf.tensors[0].type, ROWS[i].is);
        } else {
            assert_string_equal(err.where, "tensor 'w'");
            assert_has(err.hint, ROWS[i].type == 42 ? "128" : "ik_llama.cpp");
        }
        release(&f);
    }
}

/* The messages say what the type is in this kind of file. */
TEST(types_by_name)
{
    static const struct {
        const char *arch;
        uint32_t type;
        const char *says, *hint;
    } ROWS[] = {
        {"bitnet-b1.58", 38, "TL1", "I2_S"}, {"bitnet", 39, "TL2", "I2_S"},
        {"gpt-oss", 39, "MXFP4", "Q2_0"},    {"qwen3", 39, "MXFP4", "Q2_0"},
        {"llama", 38, "number 38", ""},      {"llama", 10, "Q2_K", ""},
        {"llama", 4, "number 4 ", ""},       {"llama", 255, "number 255", ""},
        {"llama", 40, "Q1_0", ""},           {"llama", 43, "STQ1_0", ""},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++) {
        struct file f = new_file();
        bn_gguf_put_str(&f.w, "general.architecture", ROWS[i].arch, strlen(ROWS[i].arch));
        bn_gguf_put_tensor(&f.w, "w", BN_TYPE_F32, 2, (const uint64_t[]){256, 8});
        memcpy(f.w.infos.data + f.w.infos.len - 12, &ROWS[i].type, 4);
        refused(read_back(&f, 8192), BN_ERR_UNSUPPORTED);
        assert_has(err.msg, ROWS[i].says);
        assert_has(err.hint, ROWS[i].hint);
        release(&f);
    }
}

/* What people open by mistake is named. */
TEST(other_formats_are_named)
{
#define BYTES(text) text, sizeof(text) - 1
    static const struct {
        const char *bytes;
        size_t n;
        const char *says, *hint;
    } ROWS[] = {
        {BYTES("\x10\0\0\0\0\0\0\0{\"__metadata__\":{}}"), "this looks like safetensors", "convert"},
        {BYTES("=\x1f\0\0\0\0\0\0{\"a\":"), "this looks like safetensors", "convert"},
        {BYTES("PK\3\4\24\0\0\0\10\0\0\0"), "this looks like a zip archive", "convert"},
        {BYTES("\x80\x02}q\0X\0\0\0\0\0"), "this looks like a Python pickle", "convert"},
        {BYTES("\x1f\x8b\10\0\0\0\0\0\0\3"), "this looks like a gzip file", "gunzip"},
        {BYTES("\x28\xB5\x2F\xFD\0\0"), "this looks like a zstd file", "unzstd"},
        {BYTES("\xFD\x37zXZ\0\0"), "this looks like an xz file", "unxz"},
        {BYTES("tjgg\3\0\0\0"), "this looks like a GGJT file", "GGUF"},
        {BYTES("fmgg\1\0\0\0"), "this looks like a GGMF file", "GGUF"},
        {BYTES("lmgg\1\0\0\0"), "this looks like a GGML file", "GGUF"},
        {BYTES("FUGG\0\0\0\3"), "this looks like a big-endian GGUF file", "little endian"},
        {BYTES("\n<!DOCTYPE html>"), "this looks like a web page", "/resolve/"},
        {BYTES("{\"error\": \"x\"}"), "this looks like JSON", "error message"},
        {BYTES("version https://git-lfs.github.com/spec/v1\n"), "this looks like a Git LFS pointer",
         "git lfs pull"},
        {BYTES("=\0\0\0\0\0\0\0xx the length of no header"), "it starts with '=\\x00\\x00\\x00', not 'GGUF'",
         ""},
        {BYTES("GG"), "it has only 2 bytes", ""},
        {BYTES(""), "it is empty", ""},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++) {
        struct bn_gguf gguf;
        refused(bn_gguf_open(&gguf, ROWS[i].bytes, ROWS[i].n, &err), BN_ERR_FORMAT);
        assert_memory_equal(err.msg, "not a GGUF file: ", 17);
        assert_memory_equal(err.msg + 17, ROWS[i].says, strlen(ROWS[i].says));
        assert_has(err.hint, ROWS[i].hint);
        assert_true(ROWS[i].hint[0] != '\0' || err.hint[0] == '\0');
    }
}

/* An error may be asked for or not, and a failed open leaves nothing behind. */
TEST(failure_is_clean)
{
    struct bn_gguf gguf;
    uint64_t before = bn_mem_stats().bytes_now;
    memset(&gguf, 0xAA, sizeof gguf);
    refused(bn_gguf_open(&gguf, "GGUF", 4, NULL), BN_ERR_FORMAT);
    assert_null(gguf.kv);
    refused(bn_gguf_open(&gguf, NULL, 0, &err), BN_ERR_FORMAT);
    assert_string_equal(err.msg, "not a GGUF file: it is empty");
    bn_gguf_close(&gguf);
    bn_gguf_close(NULL);
    assert_int_equal(bn_mem_stats().bytes_now, before);
}

TEST(writer_refuses_impossible_shapes)
{
    struct file f = new_file();
    bn_gguf_put_tensor(&f.w, "w", BN_TYPE_I2_S, 1, (const uint64_t[]){100});
    assert_int_not_equal(bn_gguf_write_head(&f.w, &f.bytes, &err), BN_OK);
    release(&f);
    f = new_file();
    bn_gguf_put_tensor(&f.w, "w", BN_TYPE_F32, 5, (const uint64_t[]){1, 1, 1, 1, 1});
    assert_int_not_equal(bn_gguf_write_head(&f.w, &f.bytes, &err), BN_OK);
    release(&f);
}

TEST(the_default_model)
{
    struct bn_file_map map;
    struct bn_gguf gguf;
    uint32_t n_embd = 0;
    must(bn_file_map_open(&map, "fixtures/shakespeare-5m-i2_s.gguf", false, &err));
    must(bn_gguf_open(&gguf, map.data, map.n_bytes, &err));
    assert_int_equal(gguf.n_kv, 23);
    assert_int_equal(gguf.n_tensors, 68);
    assert_int_equal(gguf.data_offset, 71456);
    must(bn_gguf_u32(&gguf, "bitnet-b1.58.embedding_length", &n_embd, &err));
    assert_int_equal(n_embd, 256);
    const struct bn_gguf_tensor *t = bn_gguf_find_tensor(&gguf, "blk.5.ffn_down.weight");
    assert_non_null(t);
    assert_int_equal(t->n_bytes, 256 * 768 / 4 + 32);
    bn_gguf_close(&gguf);
    bn_file_map_close(&map);
}
