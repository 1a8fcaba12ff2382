/* SPDX-License-Identifier: MIT
 *
 * Splitting rules: the pieces of known texts, white space that engines disagree on, invalid UTF-8, long runs,
 * and the interpreter against machine code.
 */
#include "base/utf8.h"
#include "tests/unit/status.h"
#include "tokenizer/vocab.h"

static struct bn_str str(const char *text)
{
    return (struct bn_str){text, strlen(text)};
}

/* The pieces, each followed by "|". */
static struct bn_buf split(const char *rule, bool compile, struct bn_str text)
{
    struct bn_splitter *splitter;
    struct bn_split walk;
    struct bn_buf out = {.max = 64u << 20};
    must(bn_splitter_open(&splitter, bn_split_rule_find(str(rule)), compile, NULL));
    must(bn_split_open(&walk, splitter, NULL));
    bn_split_text(&walk, text.ptr, text.len);
    for (struct bn_str piece = {text.ptr, 0};;) {
        const char *end = piece.ptr + piece.len;
        must(bn_split_next(&walk, &piece, NULL));
        assert_ptr_equal(piece.ptr, end); /* no gaps */
        if (piece.len == 0) break;
        bn_buf_append(&out, piece.ptr, piece.len);
        bn_buf_putc(&out, '|');
    }
    bn_split_close(&walk);
    bn_splitter_close(splitter);
    return out;
}

static void assert_split(const char *rule, const char *text, const char *pieces)
{
    for (int compile = 0; compile < 2; compile++) {
        struct bn_buf found = split(rule, compile, str(text));
        assert_string_equal(found.data, pieces);
        bn_buf_release(&found);
    }
}

TEST(test_llama_bpe)
{
    assert_split("llama-bpe", "Hello world", "Hello| world|");
    assert_split("llama-bpe", "I'm HE'LL we've DON'T 'xy", "I|'m| HE|'LL| we|'ve| DON|'T| '|xy|");
    assert_split("llama-bpe", "1234567 12", "123|456|7| |12|");
    assert_split("llama-bpe", "foo(bar[0]);  // x\n    return;",
                 "foo|(bar|[|0|]);| | //| x|\n|   | return|;|");
    assert_split("llama-bpe", "a\n\nb \r\n  c   d\t", "a|\n\n|b| \r\n| | c|  | d|\t|");
    assert_split("llama-bpe", "!!\n\nx ?", "!!\n\n|x| ?|");
    assert_split("llama-bpe", "   ", "   |");
    assert_split("llama-bpe", "你好，世界", "你好|，世界|");
    assert_split("llama-bpe", "née Ⅻ²", "née| |Ⅻ²|");
}

/* Digits one by one; qwen35 also keeps combining marks with their letters. The pieces are those of the published
 * expressions in another engine of expressions (V8's). */
TEST(test_qwen)
{
    static const char *const BOTH[] = {"qwen2", "qwen35"};
    for (size_t i = 0; i < 2; i++) {
        assert_split(BOTH[i], "I'm HE'LL DON'T 'xy", "I|'m| HE|'LL| DON|'T| '|xy|");
        assert_split(BOTH[i], "1234 12.5", "1|2|3|4| |1|2|.|5|");
        assert_split(BOTH[i], "foo(bar[0]);  // x\n    return;",
                     "foo|(bar|[|0|]);| | //| x|\n|   | return|;|");
        assert_split(BOTH[i], "a\n\nb \r\n  c   d\t", "a|\n\n|b| \r\n| | c|  | d|\t|");
        assert_split(BOTH[i],
                     "你好，世界 n\xC3\xA9"
                     "e",
                     "你好|，世界| n\xC3\xA9"
                     "e|");
    }
    /* e and a combining acute; the Devanagari vowel sign i after ka */
    assert_split("qwen2",
                 "ne\xCC\x81"
                 "e \xE0\xA4\x95\xE0\xA4\xBF",
                 "ne|\xCC\x81"
                 "e| \xE0\xA4\x95|\xE0\xA4\xBF|");
    assert_split("qwen35",
                 "ne\xCC\x81"
                 "e \xE0\xA4\x95\xE0\xA4\xBF",
                 "ne\xCC\x81"
                 "e| \xE0\xA4\x95\xE0\xA4\xBF|");
    assert_split("qwen2", "!\xCC\x81!", "!\xCC\x81!|");
    assert_split("qwen35", "!\xCC\x81!", "!\xCC\x81|!|");
    assert_split("qwen35", "\xCC\x81!", "\xCC\x81|!|");
}

/* Numbers are split off first, so blanks before a number are one piece. The pieces are those of llama.cpp. */
TEST(test_minicpm5)
{
    assert_split("minicpm5", "Hello  world I'M", "Hello| | world| I|'M|");
    assert_split("minicpm5", "a  1234 5\n6", "a|  |123|4| |5|\n|6|");
    assert_split("llama-bpe", "a  1234 5\n6", "a| | |123|4| |5|\n|6|");
    assert_split("minicpm5", "x   ", "x|   |");
    assert_split("minicpm5", "!!\n\n1", "!!\n\n|1|");
}

/* Runs of punctuation first, then the rule of GPT-2, then ASCII digits one by one: three walks over the text.
 * The pieces are those of the three expressions of bitnet.cpp, one after the other. */
TEST(test_falcon_e)
{
    assert_split("falcon_e", "Hello world", "Hello| world|");
    assert_split("falcon_e", "I'm HE'LL", "I|'|m| HE|'|LL|");
    assert_split("falcon_e", "1234 12.5", "1|2|3|4| |1|2|.|5|");
    assert_split("falcon_e", "a  1  b", "a| | |1| | b|");
    assert_split("falcon_e", "foo(bar[0]);  // x", "foo|(|bar|[|0|]);|  |//| x|");
    assert_split("falcon_e", "a\n\nb  (c", "a|\n|\n|b|  |(|c|");
    assert_split("falcon_e", "x  ", "x|  |");
    assert_split("falcon_e", "a ²1³ ½ €5 +=`", "a| ²|1|³| ½| €|5| |+=`|");
    assert_split("falcon_e", "你好，世界", "你好|，|世界|");
}

TEST(test_gpt2)
{
    assert_split("gpt-2", "Hello world", "Hello| world|");
    assert_split("gpt-2", "I'm HE'LL", "I|'m| HE|'|LL|");
    assert_split("gpt-2", "1234567 12", "1234567| 12|");
    assert_split("gpt-2", "a\n\nb   c!?", "a|\n|\n|b|  | c|!?|");
}

/* U+0085 is white space, U+180E and U+FEFF are not: as in the engines that the vocabularies were made with.
 */
TEST(test_white_space)
{
    assert_split("llama-bpe", "!\xC2\x85!", "!|\xC2\x85|!|");
    assert_split("llama-bpe", "!\xE1\xA0\x8E!", "!\xE1\xA0\x8E!|");
    assert_split("llama-bpe", "!\xEF\xBB\xBF!", "!\xEF\xBB\xBF!|");
    assert_split("llama-bpe", "\xE3\x80\x80\xE3\x80\x80x", "\xE3\x80\x80|\xE3\x80\x80x|");
    assert_split("llama-bpe", "\x1C!", "\x1C!|");
}

TEST(test_invalid_utf8)
{
    assert_split("llama-bpe", "ab\xFF\xFE c", "ab|\xFF|\xFE| c|");
    assert_split("llama-bpe", "\xC3(", "\xC3|(|");
    assert_split("llama-bpe", "\xE4\xBD", "\xE4|\xBD|");
    assert_split("llama-bpe", "\xED\xA0\x80", "\xED|\xA0|\x80|"); /* a surrogate */
    assert_split("llama-bpe", "\xC0\x80\xF4\x90\x80\x80",
                 "\xC0|\x80|\xF4|\x90|\x80|\x80|"); /* too long, too high */
    assert_int_equal(bn_utf8_valid("abcdefgh\xC3\xA9i\x80", 12), 11);
    assert_int_equal(bn_utf8_valid("\xF0\x9F\x98\x80\xF0\x9F\x98", 7), 4);
    assert_int_equal(bn_utf8_valid("", 0), 0);
    for (uint32_t c = 0xD000; c < 0x11FFFF; c += 0x101) {
        char bytes[4] = {(char)(0xE0 | c >> 12), (char)(0x80 | (c >> 6 & 63)), (char)(0x80 | (c & 63))};
        if (c > 0xFFFF) {
            memcpy(bytes,
                   (char[]){(char)(0xF0 | c >> 18), (char)(0x80 | (c >> 12 & 63)),
                            (char)(0x80 | (c >> 6 & 63)), (char)(0x80 | (c & 63))},
                   4);
        }
        size_t n = c > 0xFFFF ? 4 : 3;
        bool good = (c < 0xD800 || c > 0xDFFF) && c < 0x110000;
        assert_int_equal(bn_utf8_valid(bytes, n), good ? n : 0);
    }
}

/* Runs that would exceed the default limits of the expression engine. */
TEST(test_long_runs)
{
    static const char *const UNITS[] = {"x", " ", "\n", "!", "\xE4\xBD\xA0", " \n"};
    enum { BYTES = 12000000 };
    char *text = bn_alloc(BYTES, 1);
    for (size_t i = 0; i < BN_ARRAY_LEN(UNITS); i++) {
        size_t unit = strlen(UNITS[i]);
        for (size_t at = 0; at < BYTES; at += unit)
            memcpy(text + at, UNITS[i], unit);
        for (int compile = 0; compile < 2; compile++) {
            struct bn_buf found = split("llama-bpe", compile, (struct bn_str){text, BYTES});
            assert_int_equal(found.len, BYTES + 1); /* one piece */
            bn_buf_release(&found);
            found = split("falcon_e", compile, (struct bn_str){text, BYTES});
            assert_int_equal(found.len, BYTES + 1);
            bn_buf_release(&found);
        }
    }
    bn_free(text);
}

TEST(test_names)
{
    static const char *const SAME[] = {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1"};
    static const char *const GPT2[] = {"default", "gpt2", "gpt-2", "olmo"};
    for (size_t i = 0; i < BN_ARRAY_LEN(SAME); i++)
        assert_string_equal(bn_split_rule_find(str(SAME[i]))->name, "llama-bpe");
    for (size_t i = 0; i < BN_ARRAY_LEN(GPT2); i++)
        assert_string_equal(bn_split_rule_find(str(GPT2[i]))->name, "gpt-2");
    static const struct {
        const char *name;
        bool ignore_merges, add_bos;
    } RULES[] = {{"llama-bpe", true, true}, {"minicpm5", true, false},  {"qwen2", false, false},
                 {"qwen35", false, false},  {"falcon_e", false, false}, {"gpt-2", false, false}};
    for (size_t i = 0; i < BN_ARRAY_LEN(RULES); i++) {
        const struct bn_split_rule *rule = bn_split_rule_find(str(RULES[i].name));
        assert_string_equal(rule->name, RULES[i].name);
        assert_int_equal(rule->ignore_merges, RULES[i].ignore_merges);
        assert_int_equal(rule->add_bos, RULES[i].add_bos);
    }
    assert_string_equal(bn_split_rule_find(str("falcon-e"))->name, "falcon_e");
    static const char *const UNKNOWN[] = {"",     " ",      "llama",    "llama3 llama-v3",
                                          "qwen", "falcon", "gpt-neox", "a name that is longer than any"};
    for (size_t i = 0; i < BN_ARRAY_LEN(UNKNOWN); i++)
        assert_null(bn_split_rule_find(str(UNKNOWN[i])));
    assert_null(bn_split_rule_find((struct bn_str){"gpt-2\0x", 7}));
}

/* Memory that is short at any point is an error, and nothing is lost. */
TEST(test_short_memory)
{
    bn_status status;
    SHORT_MEMORY (status) {
        struct bn_splitter *splitter;
        struct bn_split walk;
        status = bn_splitter_open(&splitter, bn_split_rule_find(str("gpt-2")), true, NULL);
        if (status == BN_OK) {
            status = bn_split_open(&walk, splitter, NULL);
            if (status == BN_OK) bn_split_close(&walk);
            bn_splitter_close(splitter);
        }
    }
}
