/* SPDX-License-Identifier: MIT
 *
 * tiktoken rank files: tokens and merges of a small one, of LLaMA 3's (BN_TEST_DATA), and malformed ones.
 */
#include "base/file.h"
#include "tests/unit/status.h"
#include "tokenizer/tokenizer.h"

/* The strings of an array's body, each followed by "|". */
static struct bn_buf joined(const struct bn_buf *body, size_t n)
{
    struct bn_buf out = {.max = 1u << 20};
    const unsigned char *at = (const unsigned char *)body->data;
    for (size_t i = 0; i < n; i++) {
        struct bn_str text = bn_gguf_next_str(&at);
        bn_buf_append(&out, text.ptr, text.len);
        bn_buf_putc(&out, '|');
    }
    if (n > 0) assert_ptr_equal(at, body->data + body->len);
    return out;
}

static void assert_vocab(const char *text, const char *tokens, const char *merges)
{
    struct bn_rank_vocab vocab;
    must(bn_rank_vocab_read(&vocab, text, strlen(text), NULL));
    struct bn_buf a = joined(&vocab.tokens, vocab.n_tokens), b = joined(&vocab.merges, vocab.n_merges);
    assert_string_equal(a.data, tokens);
    assert_string_equal(b.data != NULL ? b.data : "", merges);
    bn_buf_release(&a);
    bn_buf_release(&b);
    bn_rank_vocab_release(&vocab);
}

TEST(test_small)
{
    /* a b c ab bc abc, then a space and a zero byte with their combination */
    assert_vocab("YQ== 0\nYg== 1\nYw== 2\nYWI= 3\nYmM= 4\nYWJj 5\n", "a|b|c|ab|bc|abc|",
                 "a b|b c|a bc|ab c|");
    assert_vocab("IA== 0\r\nAA== 1\r\nIAA= 2", "\xC4\xA0|\xC4\x80|\xC4\xA0\xC4\x80|", "\xC4\xA0 \xC4\x80|");
    assert_vocab("YWJj 0\n", "abc|", "");
}

TEST(test_bad)
{
    static const struct {
        const char *text;
        bn_status status;
        uint64_t offset;
    } CASES[] = {
        {"", BN_ERR_FORMAT, BN_NO_OFFSET},
        {"\n\n", BN_ERR_FORMAT, BN_NO_OFFSET},
        {"YQ==\n", BN_ERR_FORMAT, 0},
        {"YQ== \n", BN_ERR_FORMAT, 0},
        {"YQ== x\n", BN_ERR_FORMAT, 0},
        {"YQ== 0x\n", BN_ERR_FORMAT, 0},
        {"YQ== -1\n", BN_ERR_FORMAT, 0},
        {"YQ== 1\n", BN_ERR_FORMAT, 0},
        {"YQ== 0 \n", BN_ERR_FORMAT, 0},
        {" 0\n", BN_ERR_FORMAT, 0},
        {"Y 0\n", BN_ERR_FORMAT, 0},
        {"Y*== 0\n", BN_ERR_FORMAT, 0},
        {"YQ== 0\nYg== 0\n", BN_ERR_FORMAT, 7},
        {"YQ== 0\nYg== 2\n", BN_ERR_FORMAT, 7},
        {"YQ== 0\nYQ== 1\n", BN_ERR_FORMAT, BN_NO_OFFSET},
        {"YQ== 0\nYg== 99999999999999999999\n", BN_ERR_FORMAT, 7},
        {"<html>\n", BN_ERR_FORMAT, 0},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        struct bn_rank_vocab vocab;
        uint64_t before = bn_mem_stats().bytes_now;
        refused(bn_rank_vocab_read(&vocab, CASES[i].text, strlen(CASES[i].text), &err), CASES[i].status);
        assert_int_equal(err.offset, CASES[i].offset);
        assert_null(vocab.tokens.data);
        assert_int_equal(bn_mem_stats().bytes_now, before);
    }
}

/* A token longer than any real one is refused before it costs time. */
TEST(test_long_token)
{
    for (size_t digits = 680; digits <= 700; digits += 20) { /* 510 and 525 bytes */
        char text[800];
        memset(text, 'Y', digits);
        memcpy(text + digits, " 0\n", 4);
        struct bn_rank_vocab vocab;
        bn_status status = bn_rank_vocab_read(&vocab, text, digits + 3, NULL);
        assert_int_equal(status, digits == 680 ? BN_OK : BN_ERR_LIMIT);
        bn_rank_vocab_release(&vocab);
    }
}

TEST(test_short_memory)
{
    static const char TEXT[] = "YQ== 0\nYg== 1\nYWI= 2\n";
    bn_status status;
    SHORT_MEMORY (status) {
        struct bn_rank_vocab vocab;
        status = bn_rank_vocab_read(&vocab, TEXT, sizeof TEXT - 1, NULL);
        assert_true(status != BN_OK || vocab.n_merges == 1);
        bn_rank_vocab_release(&vocab);
    }
}

TEST(test_llama3)
{
    const char *folder = getenv("BN_TEST_DATA");
    if (folder == NULL) {
        print_message("BN_TEST_DATA is not set\n");
        skip();
    }
    char path[4096];
    struct bn_buf text = {.max = 16u << 20};
    struct bn_rank_vocab vocab;
    snprintf(path, sizeof path, "%s/llama3-tokenizer.model", folder);
    must(bn_file_read(path, &text, NULL));
    must(bn_rank_vocab_read(&vocab, text.data, text.len, NULL));
    assert_int_equal(vocab.n_tokens, 128000);
    assert_int_equal(vocab.n_merges, 280147);
    struct bn_buf first = {.max = 1u << 20};
    const unsigned char *at = (const unsigned char *)vocab.merges.data;
    for (int i = 0; i < 3; i++) {
        struct bn_str merge = bn_gguf_next_str(&at);
        bn_buf_append(&first, merge.ptr, merge.len);
        bn_buf_putc(&first, '|');
    }
    assert_string_equal(first.data, "Ġ Ġ|Ġ ĠĠĠ|ĠĠ ĠĠ|"); /* as the published file of 2B-4T begins */
    bn_buf_release(&first);
    bn_rank_vocab_release(&vocab);
    bn_buf_release(&text);
}
