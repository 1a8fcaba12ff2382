/* SPDX-License-Identifier: MIT
 *
 * The tokenizer: streaming, work compared with length, lack of memory, and published vocabularies
 * (BN_TEST_DATA).
 */
#include "tests/unit/engine/tokenizer_maker.h"

TEST(test_stream)
{
    struct bn_buf text = all_code_points();
    char *out = bn_alloc(text.len + 3, 1);
    uint32_t seed = 7;
    bn_utf8_stream stream = {0};
    size_t n_out = 0;
    for (size_t at = 0; at < text.len;) {
        size_t n = bn_min_size(next_random(&seed) % 7, text.len - at);
        size_t got = bn_utf8_stream_push(&stream, text.data + at, n, out + n_out);
        assert_int_equal(bn_utf8_valid(out + n_out, got), got); /* no code point is cut */
        assert_true(got <= n + 3);
        n_out += got;
        at += n;
    }
    assert_int_equal(bn_utf8_stream_flush(&stream, out + n_out), 0);
    assert_int_equal(n_out, text.len);
    assert_memory_equal(out, text.data, text.len);
    /* Any bytes come out as they went in, and no more than three wait. */
    for (int round = 0; round < 2000; round++) {
        char bytes[32], back[64];
        size_t n = next_random(&seed) % sizeof bytes, n_back = 0;
        for (size_t i = 0; i < n; i++) {
            static const unsigned char COMMON[] = {0xE0, 0xED, 0xF0, 0xF4, 0xC2, 0x80, 0x9F, 0xA0, 0xBF, 'a'};
            bytes[i] = (char)(next_random(&seed) % 2 ? COMMON[next_random(&seed) % 10] : next_random(&seed));
            n_back += bn_utf8_stream_push(&stream, &bytes[i], 1, back + n_back);
            assert_true(n_back + 3 >= i + 1);
        }
        n_back += bn_utf8_stream_flush(&stream, back + n_back);
        assert_int_equal(n_back, n);
        if (n > 0) assert_memory_equal(back, bytes, n);
    }
    bn_free(out);
    bn_buf_release(&text);
}

/* Work on one long piece is counted; it may grow with n log n, and hardly more from 1 MB to 10 MB. */
static void hold_work(const bn_tokenizer *tok, const char *unit)
{
    char *text = bn_alloc(N_BIG, 1);
    uint64_t work[2];
    for (size_t at = 0; at < N_BIG; at++)
        text[at] = unit[at % strlen(unit)];
    for (int i = 0; i < 2; i++) {
        size_t n = i == 0 ? N_BIG / 10 : N_BIG;
        struct bn_ids ids = {0};
        struct bn_encode_stats stats;
        must(bn_encode(tok, text, n, BN_TOKENIZE_SPECIAL, &ids, &stats, NULL));
        assert_true(stats.n_pieces <= 2);
        assert_true(stats.n_lookups <= 3 * n);
        assert_true(stats.n_heap_moves <=
                    3 * 2 * 13 * n); /* 3 n pushes and pops through log4(3 n) < 13 levels */
        work[i] = stats.n_lookups + stats.n_heap_moves;
        bn_free(ids.data);
    }
    assert_true(work[1] <= 13 * work[0]);
    bn_free(text);
}

TEST(test_no_spaces)
{
    struct maker gpt2 = maker_gpt2(), spm = maker_spm();
    must(maker_open(&gpt2, "bitnet"));
    must(maker_open(&spm, "bitnet"));
    hold_work(gpt2.tok, "helloworld");
    hold_work(gpt2.tok, "a");
    hold_work(spm.tok, "helloworld");
    maker_release(&gpt2);
    maker_release(&spm);
}

TEST(test_all_code_points)
{
    struct bn_buf text = all_code_points();
    struct maker gpt2 = maker_gpt2(), spm = maker_spm();
    must(maker_open(&gpt2, "bitnet"));
    must(maker_open(&spm, "bitnet"));
    assert_round_trip(gpt2.tok, text.data, text.len);
    assert_round_trip(spm.tok, text.data, text.len);
    maker_release(&gpt2);
    maker_release(&spm);
    bn_buf_release(&text);
}

TEST(test_too_long)
{
    struct maker m = maker_gpt2();
    int32_t *ids;
    size_t n;
    must(maker_open(&m, "bitnet"));
    bn_mem_guard(true); /* refused before anything is taken */
    bn_status status = bn_tokenize(m.tok, "x", BN_MAX_TEXT_BYTES + 1, 0, &ids, &n, NULL);
    bn_mem_guard(false);
    assert_int_equal(status, BN_ERR_LIMIT);
    maker_release(&m);
}

TEST(test_short_memory)
{
    char text[200];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "hello"[i % 5];
    for (int kind = 0; kind < 2; kind++) {
        struct maker m = kind == 0 ? maker_gpt2() : maker_spm();
        must(maker_open(&m, "bitnet"));
        bn_tokenizer_close(m.tok);
        m.tok = NULL;
        bn_status status;
        SHORT_MEMORY (status) {
            int32_t *ids = NULL;
            size_t n_ids = 0;
            status = attempt(bn_tokenizer_open(&m.tok, &m.gguf, "bitnet", &err));
            if (status == BN_OK) status = bn_tokenize(m.tok, text, sizeof text, 0, &ids, &n_ids, &err);
            assert_int_equal(err.code, status);
            bn_free(ids);
            bn_tokenizer_close(m.tok);
            m.tok = NULL;
        }
        maker_release(&m);
    }
}

/* Every part that decides about ids is in the digest. */
TEST(test_digest)
{
    char hex[8][65];
    for (int i = 0; i < 8; i++) {
        struct maker m = maker_gpt2();
        maker_marks(&m);
        if (i == 2) bn_gguf_put_str(&m.w, "tokenizer.ggml.pre", "gpt-2", 5);
        if (i == 3) maker_merge(&m, "z", "z");
        if (i == 4) maker_token(&m, "zz", BN_TOKEN_NORMAL, 0);
        if (i == 5) maker_token(&m, "zz", BN_TOKEN_USER, 0);
        if (i == 6) bn_gguf_put_bool(&m.w, "tokenizer.ggml.add_bos_token", false);
        if (i == 7) bn_gguf_put_u32(&m.w, "tokenizer.ggml.eot_token_id", 5);
        must(maker_open(&m, "bitnet"));
        must(bn_tokenizer_digest(m.tok, hex[i], NULL));
        maker_release(&m);
    }
    assert_string_equal(hex[0], hex[1]);
    for (int i = 1; i < 8; i++)
        for (int k = i + 1; k < 8; k++)
            assert_string_not_equal(hex[i], hex[k]);
}

static const char *data_file(const char *name)
{
    static char path[4096];
    const char *folder = getenv("BN_TEST_DATA");
    if (folder == NULL) {
        print_message("BN_TEST_DATA is not set\n");
        skip();
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* The ids below are those of tiktoken and llama3-tokenizer-js. */
TEST(test_llama3)
{
    struct bn_buf text = {.max = 16u << 20};
    struct bn_rank_vocab ranks;
    must(bn_file_read(data_file("llama3-tokenizer.model"), &text, NULL));
    must(bn_rank_vocab_read(&ranks, text.data, text.len, NULL));
    struct maker m = maker_llama3(&ranks);
    must(maker_open(&m, "bitnet-b1.58")); /* no key names the splitting rule */
    const bn_tokenizer *t = m.tok;
    assert_int_equal(bn_tokenizer_n_vocab(t), 128256);
    assert_int_equal(t->n_merges, 280147);
    assert_int_equal(bn_tokenizer_bos(t), 128000);
    assert_int_equal(bn_tokenizer_eos(t), 128001);
    assert_true(bn_token_is_end(t, 128001) && bn_token_is_end(t, 128009));
    assert_string_equal(bn_template_name(bn_template_resolve(BN_TEMPLATE_AUTO, t)), "bitnet");
    assert_ids(t, "Hello world", 0, IDS(9906, 1917));
    assert_ids(t, "Hello world", BN_TOKENIZE_BOS, IDS(128000, 9906, 1917));
    assert_ids(t, "What is 2+2?", 0, IDS(3923, 374, 220, 17, 10, 17, 30));
    assert_ids(t, "I'm HE'LL we've DON'T", 0, IDS(40, 2846, 11947, 6, 4178, 584, 3077, 45373, 17773));
    assert_ids(t, "1234567890 12 3", 0, IDS(4513, 10961, 16474, 15, 220, 717, 220, 18));
    assert_ids(t, "a\n\nb\r\n  c   d\t", 0, IDS(64, 271, 65, 319, 220, 272, 256, 294, 197));
    assert_ids(t, "你好世界，我是", 0, IDS(57668, 53901, 102616, 101602, 21043));
    assert_ids(t, "😀 👩\u200d💻", 0, IDS(76460, 222, 62904, 102, 102470, 93273, 119));
    assert_ids(t, "foo(bar[0]);  // x\n    return;", 0,
               IDS(8134, 55730, 58, 15, 15328, 220, 443, 865, 198, 262, 471, 26));
    assert_ids(t, "   ", 0, IDS(262));
    assert_ids(t, "<|eot_id|>", BN_TOKENIZE_SPECIAL, IDS(128009));
    assert_ids(t, "<|reserved_special_token_250|>", BN_TOKENIZE_SPECIAL, IDS(128255));
    round_trips(t);
    struct bn_buf all = all_code_points();
    assert_round_trip(t, all.data, all.len);
    bn_buf_release(&all);
    maker_release(&m);
    bn_rank_vocab_release(&ranks);
    bn_buf_release(&text);
}

/* The ids below are those of llama-tokenizer-js. */
TEST(test_llama2)
{
    struct model m = {0};
    open_model(&m, data_file("llama-spm-vocab.gguf"), "llama");
    const bn_tokenizer *t = m.tok;
    assert_int_equal(bn_tokenizer_n_vocab(t), 32000);
    assert_true(bn_token_is_end(t, 2));
    assert_ids(t, "Hello world", 0, IDS(15043, 3186));
    assert_ids(t, "Hello world", BN_TOKENIZE_BOS, IDS(1, 15043, 3186));
    assert_ids(t, " Hello", 0, IDS(29871, 15043));
    assert_ids(t, "What is 2+2?", 0, IDS(1724, 338, 29871, 29906, 29974, 29906, 29973));
    assert_ids(t, "a\n\nb\r\n  c   d\t", 0, IDS(263, 13, 13, 29890, 30004, 13, 29871, 274, 259, 270, 12));
    assert_ids(t, "你好世界，我是", 0, IDS(29871, 30919, 31076, 30793, 30967, 30214, 30672, 30392));
    assert_ids(t, "😀 👩\u200d💻", 0,
               IDS(29871, 243, 162, 155, 131, 29871, 243, 162, 148, 172, 30722, 243, 162, 149, 190));
    assert_ids(t, "   ", 0, IDS(268));
    round_trips(t);
    close_model(&m);
}
