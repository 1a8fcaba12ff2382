/* SPDX-License-Identifier: MIT
 *
 * Grammars: what is parsed and what is refused; that the automaton accepts what regular expressions of the C library
 * accept; that a mask over the vocabulary is what trying every token gives.
 */
#include <regex.h>

#include "base/mem.h"
#include "grammar/matcher.h"
#include "tests/unit/status.h"
#include "tokenizer/vocab.h"

#define MODEL "fixtures/shakespeare-5m-i2_s.gguf"

static bn_model *model;
static const bn_tokenizer *tok;

static uint32_t next_random(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % below);
}

FIXTURE(open_all)
{
    const bn_model_options options = {.no_weights = true};
    must(bn_model_open(&model, MODEL, &options, NULL));
    tok = bn_model_tokenizer(model);
}

FIXTURE(close_all)
{
    bn_model_close(model);
}

static bn_grammar *open_grammar(const char *text)
{
    bn_grammar *g = NULL;
    if (attempt(bn_grammar_open_gbnf(&g, text, strlen(text), &err)) != BN_OK)
        fail_msg("%s\n%s", text, err.msg);
    return g;
}

static struct bn_matcher *open_matcher(const bn_grammar *g)
{
    struct bn_matcher *m = NULL;
    int32_t end = bn_tokenizer_eos(tok);
    must(bn_matcher_open(&m, g, tok, bn_tokenizer_n_vocab(tok), &end, 1, &err));
    return m;
}

/* 0: the text cannot begin like this; 1: it can; 2: it matches. */
static int match(const bn_grammar *g, const char *text, size_t n)
{
    struct bn_matcher *m = open_matcher(g);
    int result = n > 0 && !bn_matcher_take_bytes(m, text, n) ? 0 : bn_matcher_accepts(m) ? 2 : 1;
    bn_matcher_close(m);
    return result;
}

TEST(texts_match_or_do_not)
{
    static const struct {
        const char *grammar, *text;
        int want;
    } CASES[] = {
        {"root ::= \"ab\"", "ab", 2},
        {"root ::= \"ab\"", "a", 1},
        {"root ::= \"ab\"", "b", 0},
        {"root ::= \"ab\"", "abc", 0},
        {"root ::= \"a\" | \"bc\" # comment\n", "bc", 2},
        {"root ::= \"a\"\n  | \"bc\"\n\n# comment\nother ::= \"x\"", "bc", 2},
        {"root ::= (\n \"a\" |\n \"b\"\n) \"c\"", "bc", 2},
        {"root ::= \"a\" | # comment\n\n  \"bc\" |\n\"d\"\n", "d", 2},
        {"root ::= | \"a\"", "a", 2},
        {"root ::= \"\" \"a\" \"\"", "a", 2},
        {"root ::= [a-c]+ [^a-c]", "abcc!", 2},
        {"root ::= [a-c]+ [^a-c]", "abcc", 1},
        {"root ::= [\\x41\\u0042\\U00000043]{3}", "ABC", 2},
        {"root ::= [a\\]\\-^]*", "a]-^", 2},
        {"root ::= \"\\n\\t\\\"\\\\\"", "\n\t\"\\", 2},
        {"root ::= .{2}", "\xc3\xa9\xf0\x9f\x98\x80", 2},
        {"root ::= .{2}", "\xc3\xa9\xf0\x9f", 1},
        {"root ::= .{2}", "\xc3\xa9\xf0\x80", 0},
        {"root ::= [^\\x00-\\x7F]", "\xed\xa0\x80", 0},
        {"root ::= [\xce\xb1-\xcf\x89]+", "\xce\xbb\xcf\x87", 2},
        {"root ::= [\xce\xb1-\xcf\x89]+", "\xce\xb0", 0},
        {"root ::= \"a\"{2,4}", "a", 1},
        {"root ::= \"a\"{2,4}", "aaaa", 2},
        {"root ::= \"a\"{2,4}", "aaaaa", 0},
        {"root ::= \"a\"{3,} \"b\"", "aaaaaaab", 2},
        {"root ::= \"a\"{3,} \"b\"", "aab", 0},
        {"root ::= \"a\"{0} \"b\"", "b", 2},
        {"root ::= \"a\"{0} \"b\"", "a", 0},
        {"root ::= (\"a\" \"b\"{1,2}){2} \"c\"", "abbabc", 2},
        {"root ::= (\"a\" \"b\"{1,2}){2} \"c\"", "abc", 0},
        {"root ::= \"x\"{0,100000}", "xxxx", 2},
        {"root ::= \"(\" root \")\" | \"x\"", "(((x)))", 2},
        {"root ::= \"(\" root \")\" | \"x\"", "((x)))", 0},
        {"root ::= item (\",\" item)*\nitem ::= [0-9]+", "1,22,3", 2},
        {"root ::= \"a\" root | \"b\"", "aaaaab", 2},
        {"root ::= \"a\" never | \"b\"\nnever ::= \"x\" never", "a", 0},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        bn_grammar *g = open_grammar(CASES[i].grammar);
        int got = match(g, CASES[i].text, strlen(CASES[i].text));
        if (got != CASES[i].want) fail_msg("%s: %s gives %d", CASES[i].grammar, CASES[i].text, got);
        bn_grammar_close(g);
    }
}

TEST(bad_grammars_are_refused)
{
    static const struct {
        const char *grammar, *message;
    } CASES[] = {
        {"", "the rule root is not defined"},
        {"rule ::= \"a\"", "the rule root is not defined"},
        {"root ::= rule", "line 1: the rule rule is not defined"},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2: a rule is defined twice"},
        {"root = \"a\"", "expected ::="},
        {"root ::= \"a", "is not closed"},
        {"root ::= [a", "is not closed"},
        {"root ::= []", "a class has no characters"},
        {"root ::= [^\\x00-\\U0010FFFF]", "a class has no characters"},
        {"root ::= [b-a]", "ends before it begins"},
        {"root ::= (\"a\"", "a group is not closed"},
        {"root ::= \"a\")", "a group is closed that is not open"},
        {"root ::= *", "there is nothing to repeat"},
        {"root ::= \"a\" | +", "there is nothing to repeat"},
        {"root ::= \"a\"{3,2}", "a maximum below its minimum"},
        {"root ::= \"a\"{2000000}", "a count over 1000000"},
        {"root ::= \"a\"{x}", "has no number"},
        {"root ::= \"\\q\"", "an escape is not one of"},
        {"root ::= \"\\x4\"", "too few hexadecimal digits"},
        {"root ::= \"\\ud800\"", "not the number of a character"},
        {"root ::= \"\xff\"", "not UTF-8"},
        {"root ::= <tool>", "unexpected character"},
        {"root ::= root \"a\" | \"b\"", "the rule root begins with itself"},
        {"root ::= a\na ::= b \"x\"\nb ::= \"y\"? c\nc ::= b | \"z\"", "begins with itself"},
        {"root ::= \"x\" list\nlist ::= (\"a\"?)*", "the rule list repeats something that may be empty"},
        {"root ::= e+ \"x\"\ne ::= f f\nf ::= \"a\"*", "the rule root repeats something that may be empty"},
        {"root ::= \"a\" root", "the rule root matches no text"},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        bn_grammar *g = NULL;
        if (attempt(bn_grammar_open_gbnf(&g, CASES[i].grammar, strlen(CASES[i].grammar), &err)) == BN_OK)
            fail_msg("accepted: %s", CASES[i].grammar);
        if (strstr(err.msg, CASES[i].message) == NULL) fail_msg("%s: %s", CASES[i].grammar, err.msg);
        assert_null(g);
    }
}

/* One text is in the grammar of a schema, another is not; "": the schema is refused with this message. */
TEST(schemas_hold)
{
    static const struct {
        const char *schema, *good, *bad;
    } CASES[] = {
        {"{'type':'string','allOf':[{'title':'x'}]}", "", "allOf"},
        {"{'type':['string','null'],'allOf':[{'title':'x'}]}", "", "allOf"},
        {"{'type':['object','null'],'allOf':[{'title':'x'}]}", "{}", "null"},
        {"{'allOf':[{'$ref':'#/$defs/a','required':['b']},{}],'$defs':{'a':{}}}", "", "required"},
        {"{'properties':{'a':true,'b':false},'additionalProperties':true}", "{'a':1,'c':1}", "{'a':1,'b':1}"},
        {"{'properties':{'b':false,'d':true},'additionalProperties':{'const':4}}", "{'d':3,'bc':4}",
         "{'b':4}"},
        {"{'properties':{'x\\'y':{'const':3}},'additionalProperties':{'const':4}}", "{'x':4}", "{'x\\'y':4}"},
        {"{'const':12345678901234567891}", "", "const"},
        {"{'enum':[1,{'a':[-9007199254740992]}]}", "", "enum"},
        {"{'const':-9007199254740991}", "-9007199254740991", "9007199254740991"},
        {"{'type':'integer','const':1e20}", "", "between -2^53 and 2^53"},
        {"{'oneOf':[{'type':'integer'},{'properties':{'a':{'const':1}}}]}", "", "oneOf"},
        {"{'oneOf':[{'minLength':1},{'minimum':0}]}", "", "oneOf"},
        {"{'oneOf':[{'type':'integer'},{'enum':['a']}]}", "1", "'b'"},
        {"{'oneOf':[{'properties':{'k':{'const':1}},'required':['k']},"
         "{'properties':{'k':{'const':2}},'required':['k']}]}",
         "{'k':2}", "1"},
        {"{'pattern':'^( *[a-z]*)*$'}", "", "pattern"},
        {"{'pattern':'^(a|(b?c?){3})$'}", "", "pattern"},
        {"{'pattern':'^((a*)?(b{0,2}c)+|d+)*$'}", "'aabcbc'", "'aabb'"},
        {"{'$ref':'#/$defs/a','$defs':{'a':{'$ref':'#'}}}", "", "$ref"},
        {"{'type':'integer','maximum':-1e16}", "", "maximum"},
        {"{'type':'number','exclusiveMaximum':-1e16}", "", "exclusiveMaximum"},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        char text[3][256];
        const char *const from[] = {CASES[i].schema, CASES[i].good, CASES[i].bad};
        bn_grammar *g = NULL;
        for (size_t k = 0; k < 3; k++) {
            snprintf(text[k], sizeof text[k], "%s", from[k]);
            for (char *at = text[k]; (at = strchr(at, '\'')) != NULL;)
                *at = '"';
        }
        bn_status status = attempt(bn_grammar_open_json_schema(&g, text[0], strlen(text[0]), &err));
        bool refuse = text[1][0] == '\0';
        if (status != (refuse ? BN_ERR_UNSUPPORTED : BN_OK) || (refuse && strstr(err.msg, from[2]) == NULL))
            fail_msg("%s: %s", text[0], err.msg);
        if (refuse) continue;
        if (match(g, text[1], strlen(text[1])) != 2) fail_msg("%s without %s", text[0], text[1]);
        if (match(g, text[2], strlen(text[2])) == 2) fail_msg("%s with %s", text[0], text[2]);
        bn_grammar_close(g);
    }
}

static bn_status open_status(const struct bn_buf *text)
{
    bn_grammar *g = NULL;
    bn_status status = bn_grammar_open_gbnf(&g, bn_buf_text(text), text->len, NULL);
    bn_grammar_close(g);
    return status;
}

TEST(hostile_sizes_have_limits)
{
    struct bn_buf text = {.max = 1u << 23};
    bn_buf_puts(&text, "root ::= ");
    for (int i = 0; i < 60000; i++)
        bn_buf_putc(&text, '(');
    refused(open_status(&text), BN_ERR_FORMAT);
    text.len = 0; /* a chain of rules, defined first to last, and last to first */
    bn_buf_puts(&text, "root ::= r0\n");
    for (int i = 0; i < 5000; i++)
        bn_buf_printf(&text, "r%d ::= r%d\n", i, i + 1);
    for (int i = 9999; i >= 5000; i--)
        bn_buf_printf(&text, "r%d ::= r%d\n", i, i + 1);
    bn_buf_puts(&text, "r10000 ::= \"x\"\n");
    must(open_status(&text));
    text.len = 0; /* the same as a circle */
    bn_buf_puts(&text, "root ::= r0\n");
    for (int i = 0; i < 9999; i++)
        bn_buf_printf(&text, "r%d ::= r%d | \"x\"\n", i, (i + 1) % 9999);
    refused(open_status(&text), BN_ERR_FORMAT);
    text.len = 0;
    bn_buf_puts(&text, "root ::= ");
    for (int i = 0; i < 60000; i++)
        bn_buf_puts(&text, "[^a]");
    refused(open_status(&text), BN_ERR_LIMIT);
    text.len = 0;
    for (int i = 0; i < 5000000; i++)
        bn_buf_putc(&text, '#');
    refused(open_status(&text), BN_ERR_LIMIT);
    bn_buf_release(&text);
}

/* Texts that are ambiguous in many ways, and stacks that grow, stay within the limits or fail alone. */
TEST(hostile_texts_have_limits)
{
    static const char *const GRAMMARS[] = {
        "root ::= (\"a\" | \"aa\" | \"aaa\" | [a-b]){1,100000}",
        "root ::= \"a\" root root | \"a\"",
        "root ::= \"a\" x root | \"a\" y root | \"a\" root x | \"a\" root y | \"b\"\nx ::= \"x\"\ny ::= \"x\"",
        "root ::= \"a\" root \"b\" | \"c\"",
    };
    char text[4000];
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < BN_ARRAY_LEN(GRAMMARS); i++) {
        bn_grammar *g = open_grammar(GRAMMARS[i]);
        struct bn_matcher *m = open_matcher(g);
        size_t n = 0;
        while (n < sizeof text && bn_matcher_take_bytes(m, text, 1))
            n++;
        assert_true(n > 10);
        if (m->status == BN_OK) assert_non_null(bn_matcher_mask(m, UINT64_MAX));
        bn_matcher_close(m);
        bn_grammar_close(g);
    }
}

/* ---- against regular expressions of the C library ---- */

/* The same random expression in both notations. Nothing that may be empty is repeated. */
static void put_random(uint64_t *state, unsigned depth, struct bn_buf *gbnf, struct bn_buf *ere)
{
    static const char *const ATOMS[][2] = {
        {"\"a\"", "a"}, {"\"b\"", "b"}, {"[a-b]", "[a-b]"}, {"[^b]", "[^b]"}, {"\"ca\"", "(ca)"}};
    static const char *const REPEATS[][2] = {{"", ""},       {"", ""},           {"*", "*"},      {"+", "+"},
                                             {"{2}", "{2}"}, {"{1,3}", "{1,3}"}, {"{2,}", "{2,}"}};
    size_t n = 1 + next_random(state, 3);
    for (size_t i = 0; i < n; i++) {
        const char *const *repeat = REPEATS[next_random(state, BN_ARRAY_LEN(REPEATS))];
        if (depth == 0 || next_random(state, 2) == 0) {
            const char *const *atom = ATOMS[next_random(state, BN_ARRAY_LEN(ATOMS))];
            bn_buf_printf(gbnf, "%s%s ", atom[0], repeat[0]);
            bn_buf_printf(ere, "%s%s", atom[1], repeat[1]);
            continue;
        }
        bn_buf_puts(gbnf, "(\"a\" ");
        bn_buf_puts(ere, "(a");
        put_random(state, depth - 1, gbnf, ere);
        bn_buf_puts(gbnf, "| \"c\" ");
        bn_buf_puts(ere, "|c");
        put_random(state, depth - 1, gbnf, ere);
        bn_buf_printf(gbnf, ")%s ", repeat[0]);
        bn_buf_printf(ere, ")%s", repeat[1]);
    }
}

/* All texts of up to six of three characters. Returns how often the two disagree. */
static size_t count_differences(const bn_grammar *g, const regex_t *regex)
{
    size_t n_wrong = 0;
    for (unsigned length = 1, many = 3; length <= 6; length++, many *= 3)
        for (unsigned i = 0; i < many; i++) {
            char text[8] = {0};
            for (unsigned k = 0, rest = i; k < length; k++, rest /= 3)
                text[k] = "abc"[rest % 3];
            n_wrong += (match(g, text, length) == 2) != (regexec(regex, text, 0, NULL, 0) == 0);
        }
    return n_wrong;
}

TEST(it_accepts_what_regular_expressions_accept)
{
    uint64_t random = 7;
    size_t n_planted = 0;
    for (unsigned i = 0; i < 24; i++) {
        struct bn_buf gbnf = {.max = 1u << 16}, ere = {.max = 1u << 16};
        regex_t regex;
        bn_buf_puts(&gbnf, "root ::= ");
        bn_buf_puts(&ere, "^(");
        put_random(&random, 2, &gbnf, &ere);
        bn_buf_puts(&ere, ")$");
        assert_int_equal(regcomp(&regex, ere.data, REG_EXTENDED | REG_NOSUB), 0);
        bn_grammar *g = open_grammar(gbnf.data);
        if (count_differences(g, &regex) > 0) fail_msg("%s\n%s", gbnf.data, ere.data);
        bn_grammar_close(g);
        bn_buf_puts(&gbnf, "[ab]?"); /* a planted fault */
        g = open_grammar(gbnf.data);
        n_planted += count_differences(g, &regex) > 0;
        bn_grammar_close(g);
        regfree(&regex);
        bn_buf_release(&gbnf);
        bn_buf_release(&ere);
    }
    assert_true(n_planted > 6);
}

/* Whether a token may follow a text, by a matcher that has seen nothing else. */
static bool may_follow(const bn_grammar *g, const struct bn_buf *text, int32_t id)
{
    const char *bytes;
    size_t n = bn_token_bytes(tok, id, &bytes);
    if (id == bn_tokenizer_eos(tok)) return match(g, bn_buf_text(text), text->len) == 2;
    if (n == 0 || bn_token_is_control(tok, id)) return false;
    struct bn_buf whole = {.max = 1u << 16};
    bn_buf_append(&whole, bn_buf_text(text), text->len);
    bn_buf_append(&whole, bytes, n);
    bool may = match(g, whole.data, whole.len) != 0;
    bn_buf_release(&whole);
    return may;
}

/* Follows random tokens; every mask is compared with all tokens, tried one by one. Returns the number of differences. */
static size_t walk(const bn_grammar *g, const bn_grammar *claimed, uint64_t *random, size_t n_steps)
{
    struct bn_matcher *m = open_matcher(g);
    struct bn_buf text = {.max = 1u << 16};
    size_t n_vocab = bn_tokenizer_n_vocab(tok), n_wrong = 0;
    for (size_t step = 0; step < n_steps && !bn_matcher_is_complete(m); step++) {
        const uint64_t *mask = bn_matcher_mask(m, UINT64_MAX);
        int32_t *allowed = bn_alloc(n_vocab, sizeof *allowed);
        size_t n = 0;
        assert_non_null(mask);
        for (size_t id = 0; id < n_vocab; id++) {
            bool bit = (mask[id / 64] >> (id % 64) & 1) != 0;
            n_wrong += bit != may_follow(claimed, &text, (int32_t)id);
            if (bit && (int32_t)id != bn_tokenizer_eos(tok)) allowed[n++] = (int32_t)id;
        }
        assert_true(n > 0);
        int32_t id = allowed[next_random(random, (uint32_t)n)];
        const char *bytes;
        size_t n_bytes = bn_token_bytes(tok, id, &bytes);
        bn_buf_append(&text, bytes, n_bytes);
        assert_true(bn_matcher_allows(m, id));
        assert_true(bn_matcher_take(m, id));
        bn_free(allowed);
    }
    bn_buf_release(&text);
    bn_matcher_close(m);
    return n_wrong;
}

TEST(masks_are_those_of_trying_every_token)
{
    static const char *const GRAMMARS[] = {
        "root ::= \"{\" pair (\",\" pair)* \"}\"\npair ::= word \":\" word\nword ::= \"\\\"\" [a-zA-Z ]* \"\\\"\"",
        "root ::= (\"the \" | \"then \" | \"there\" \"fore\"? \" \"){1,3} [.!]",
        "root ::= (\"\xc3\xa9\" | \"\xc3\xa8\" | \"\xf0\x9f\x98\x80\"){2,4}",
        "root ::= .{1,12}",
        "root ::= [a-z ]{60,900} \"!\"", /* limits that are far, and near */
        "root ::= ([a-z ]{2,400} \"!\"){0,40} | ([a-e]{0,30} \" \"){200,}",
        "root ::= [a-z ]{1,14} \"!\"",
        "root ::= \"(\" root \")\" | \"[\" root \"]\" | \"to be \" root | \"x\"",
    };
    uint64_t random = 3;
    for (size_t i = 0; i < BN_ARRAY_LEN(GRAMMARS); i++) {
        bn_grammar *g = open_grammar(GRAMMARS[i]);
        for (unsigned k = 0; k < 2; k++)
            assert_int_equal(walk(g, g, &random, 5), 0);
        bn_grammar_close(g);
    }
    /* A planted fault is seen. */
    bn_grammar *g = open_grammar("root ::= [a-z]+"), *other = open_grammar("root ::= [a-y]+");
    assert_true(walk(g, other, &random, 2) > 0);
    bn_grammar_close(g);
    bn_grammar_close(other);
}

/* A text of this grammar can be read in very many ways: words of each length, each without two letters. */
static bn_grammar *open_ambiguous(unsigned n)
{
    struct bn_buf text = {.max = 1u << 16};
    bn_buf_puts(&text, "root ::= x* \"~\"\nx ::= ");
    for (unsigned i = 2; i < n + 2; i++)
        bn_buf_printf(&text, "%s[^%c%c~]{%u}", i > 2 ? " | " : "", 'a' + (int)(i % 26),
                      'a' + (int)(i * 7 % 26), i);
    bn_grammar *g = open_grammar(text.data);
    bn_buf_release(&text);
    return g;
}

/* Follows random tokens of masks, which are all taken. Returns how many there were before the matcher reported that it is over a
 * limit; *n_wrong: tokens, one of 16, of which the mask reports something else than trying them. */
static size_t follow_masks(const bn_grammar *g, uint64_t seed, size_t n_steps, size_t *n_wrong)
{
    size_t n_vocab = bn_tokenizer_n_vocab(tok), step = 0;
    int32_t taken[64], end = bn_tokenizer_eos(tok);
    struct bn_matcher *m = open_matcher(g);
    for (const uint64_t *mask; step < n_steps && (mask = bn_matcher_mask(m, UINT64_MAX)) != NULL; step++) {
        struct bn_matcher *other = open_matcher(g);
        size_t n = 0;
        for (size_t i = 0; i < step; i++)
            assert_true(bn_matcher_take(other, taken[i]));
        for (size_t id = 0; id < n_vocab; id++) {
            bool bit = (mask[id / 64] >> (id % 64) & 1) != 0;
            if (id % 16 == seed % 16 && bn_matcher_allows(other, (int32_t)id) != bit)
                *n_wrong += other->status == BN_OK;
            if (bit && (int32_t)id != end && next_random(&seed, (uint32_t)++n) == 0)
                taken[step] = (int32_t)id;
        }
        bn_matcher_close(other);
        assert_true(n > 0);
        if (bn_matcher_take(m, taken[step])) continue;
        refused(m->status, BN_ERR_LIMIT);
        break;
    }
    bn_matcher_close(m);
    return step;
}

/* Where texts can be read in many ways, a mask follows places alone, and still is what single tokens are. */
TEST(ambiguous_texts_have_masks)
{
    size_t n_wrong = 0;
    bn_grammar *g = open_grammar("root ::= (\"a\"?.| \"aa\" | [cb]){1,1000} root+| \"j\"");
    for (uint64_t seed = 1; seed < 4; seed++)
        assert_true(follow_masks(g, seed, 14, &n_wrong) >= 9);
    bn_grammar_close(g);
    g = open_ambiguous(60);
    for (uint64_t seed = 1; seed < 3; seed++)
        assert_int_equal(follow_masks(g, seed, 8, &n_wrong), 8);
    bn_grammar_close(g);
    g = open_ambiguous(25);
    assert_int_equal(follow_masks(g, 5, 20, &n_wrong), 20);
    bn_grammar_close(g);
    assert_int_equal(n_wrong, 0);
}

/* A mask that is made in parts is the same and takes the same number of steps. */
TEST(a_mask_may_pause)
{
    bn_grammar *g = open_ambiguous(40);
    struct bn_matcher *whole = open_matcher(g), *parts = open_matcher(g);
    size_t n_pauses = 0, n_words = (bn_tokenizer_n_vocab(tok) + 63) / 64;
    for (unsigned i = 0; i < 6; i++) {
        const uint64_t *want = bn_matcher_mask(whole, UINT64_MAX), *mask;
        assert_non_null(want);
        while ((mask = bn_matcher_mask(parts, parts->n_steps + 1000)) == NULL) {
            must(parts->status);
            n_pauses++;
        }
        assert_memory_equal(mask, want, n_words * sizeof *mask);
        assert_int_equal(parts->n_steps, whole->n_steps);
        assert_true(bn_matcher_take_bytes(whole, "so ", 3) && bn_matcher_take_bytes(parts, "so ", 3));
    }
    assert_true(n_pauses > 20);
    bn_matcher_close(whole);
    bn_matcher_close(parts);
    bn_grammar_close(g);
}

/* The whole work on a text has a limit, which grows with it. */
TEST(a_text_has_a_limit_of_steps)
{
    bn_grammar *g = open_ambiguous(60);
    struct bn_matcher *m = open_matcher(g);
    size_t n = 0;
    while (n < 1000 && bn_matcher_mask(m, UINT64_MAX) != NULL && bn_matcher_take_bytes(m, "another", 7))
        n++;
    refused(m->status, BN_ERR_LIMIT);
    assert_in_range(n, 4, 500);
    assert_in_range(m->n_steps, 256 * bn_matcher_unit(m), (257 + 4 * n) * bn_matcher_unit(m));
    assert_null(bn_matcher_mask(m, UINT64_MAX));
    assert_false(bn_matcher_allows(m, bn_tokenizer_eos(tok)));
    bn_matcher_close(m);
    bn_grammar_close(g);
}

/* More states than are kept: the tables are emptied, and nothing changes. */
TEST(forgetting_changes_nothing)
{
    bn_grammar *g = open_grammar("root ::= ([a-b] | \"(\" root \")\"){1,30000} \"!\"");
    struct bn_matcher *m = open_matcher(g);
    uint64_t random = 9;
    size_t open = 0;
    for (unsigned i = 0; i < 20000; i++) {
        bool down = next_random(&random, 3) == 0 && open < 50;
        const char *byte = down ? "(" : "b";
        assert_true(bn_matcher_take_bytes(m, byte, 1));
        open += down;
        assert_false(bn_matcher_take_bytes(m, "]", 1));
        if (i % 5000 != 0) continue;
        assert_non_null(bn_matcher_mask(m, UINT64_MAX));
    }
    assert_false(bn_matcher_accepts(m));
    must(m->status);
    bn_matcher_close(m);
    bn_grammar_close(g);
}

TEST(ends_and_control_tokens)
{
    bn_grammar *g = open_grammar("root ::= \"ab\" \"c\"?");
    struct bn_matcher *m = open_matcher(g);
    int32_t eos = bn_tokenizer_eos(tok);
    assert_false(bn_matcher_allows(m, eos));
    assert_false(bn_matcher_take(m, eos));
    assert_true(bn_matcher_take_bytes(m, "ab", 2));
    assert_true(bn_matcher_allows(m, eos));
    assert_false(bn_matcher_is_complete(m));
    assert_true(bn_matcher_take_bytes(m, "c", 1));
    assert_true(bn_matcher_is_complete(m));
    assert_false(bn_matcher_take_bytes(m, "c", 1));
    bn_matcher_close(m);
    bn_grammar_close(g);
    /* A control token does not match its own name. */
    for (int32_t id = 0; id < (int32_t)bn_tokenizer_n_vocab(tok); id++) {
        const char *bytes;
        size_t n = bn_token_bytes(tok, id, &bytes);
        if (!bn_token_is_control(tok, id) || id == eos || n == 0) continue;
        g = open_grammar("root ::= .+");
        m = open_matcher(g);
        assert_false(bn_matcher_allows(m, id));
        bn_matcher_close(m);
        bn_grammar_close(g);
    }
    g = open_grammar("root ::= \"\"");
    refused(bn_matcher_open(&m, g, tok, 64, NULL, 0, &err), BN_ERR_ARG);
    refused(bn_matcher_open(&m, g, NULL, 64, NULL, 0, &err), BN_ERR_ARG);
    bn_grammar_close(g);
}

/* Each allocation fails once: that is the error, and nothing is lost. */
TEST(memory_may_be_short)
{
    static const char SCHEMA[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"oneOf\":[{\"const\":1},{\"type\":\"string\",\"pattern\":"
        "\"^a{2}$\"}]},\"b\":{\"type\":\"array\",\"prefixItems\":[{\"$ref\":\"#\"}]}},\"additionalProperties\":true}";
    uint64_t before = bn_mem_stats().bytes_now;
    bool whole = false;
    unsigned n = 0;
    while (!whole && n < 5000) {
        bn_grammar *g = NULL;
        struct bn_matcher *m = NULL;
        bn_mem_fail_after(++n);
        bn_status status = bn_grammar_open_json_schema(&g, SCHEMA, strlen(SCHEMA), NULL);
        if (status == BN_OK) status = bn_matcher_open(&m, g, tok, bn_tokenizer_n_vocab(tok), NULL, 0, NULL);
        if (status == BN_OK)
            whole = bn_matcher_mask(m, UINT64_MAX) != NULL && bn_matcher_take_bytes(m, "{\"a\":", 5);
        bn_mem_fail_after(0);
        assert_true(status == BN_OK || status == BN_ERR_NOMEM);
        assert_true(status != BN_OK || whole || m->status == BN_ERR_NOMEM);
        bn_matcher_close(m);
        bn_grammar_close(g);
    }
    assert_true(whole && n > 20);
    assert_int_equal(bn_mem_stats().bytes_now, before);
}

GROUP(open_all, close_all)
