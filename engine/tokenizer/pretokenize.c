/* SPDX-License-Identifier: MIT
 *
 * Splits text by regular expressions; the only file that includes pcre2. Expressions are compiled to machine
 * code where the system allows it, and interpreted elsewhere; the pieces are the same.
 *
 * White space is the White_Space property of Unicode, spelled out: PCRE2's \s has U+180E too, which the
 * expressions' own engines do not have. Letters and numbers are those of the Unicode version that libpcre2
 * knows (14 in Debian 12).
 */
#include "tokenizer/vocab.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"
#include "base/utf8.h"

#define WS "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

/* What the rules of LLaMA 3 and of Qwen share; a letter is of class letters. White space that is not before
 * a character of class after, or at the end, is one piece; else its last character belongs to what follows. */
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define WORDS(letters) "[^\\r\\n\\p{L}\\p{N}]?" letters "++|"
#define SYMBOLS(letters) "| ?[^" WS letters "\\p{N}]++[\\r\\n]*+|"
#define BLANKS(after) "[" WS "]+(?!" after ")|[" WS "]++"
#define LINES "[" WS "]*[\\r\\n]++|"

/* Falcon splits off runs of punctuation first, then splits as GPT-2 does, then splits off ASCII digits: three
 * walks over the text, written as one expression. */
#define PUNCTUATION "\\p{P}$+<=>^~|`"

/* The classes of characters are those of the expressions that llama.cpp has for the same names. Possessive
 * repeats change no match here, since what follows them can never take from them; they keep long runs free of
 * backtracking. To add a rule: one entry, with the expression that the model's own tokenizer has, and a test.
 * falcon_e is what converters write for Falcon-E, and its rule is that of bitnet.cpp, which its makers added.
 * The GPT-2 rule also serves olmo (the vocabulary of GPT-NeoX, which TriLM has) and "default": converters
 * write that, or nothing, when they do not know the vocabulary. */
static const struct bn_split_rule RULES[] = {
    {"llama-bpe", " llama3 llama-v3 falcon3 falcon-h1 ",
     CONTRACTIONS WORDS("\\p{L}") "\\p{N}{1,3}+" SYMBOLS("\\p{L}") LINES BLANKS("[^" WS "]"), true, true},
    {"qwen2", " ", CONTRACTIONS WORDS("\\p{L}") "\\p{N}" SYMBOLS("\\p{L}") LINES BLANKS("[^" WS "]"), false,
     false},
    {"qwen35", " ",
     CONTRACTIONS WORDS("[\\p{L}\\p{M}]") "\\p{N}" SYMBOLS("\\p{L}\\p{M}") LINES BLANKS("[^" WS "]"), false,
     false},
    {"minicpm5", " ",
     CONTRACTIONS WORDS("\\p{L}") "\\p{N}{1,3}+" SYMBOLS("\\p{L}") LINES BLANKS("[^" WS "\\p{N}]"), true,
     false},
    {"falcon_e", " falcon-e ",
     "[" PUNCTUATION "]++| ?\\p{L}++|[0-9]| (?=[0-9])| ?(?:(?![0-9])\\p{N})++| ?[^" WS
     "\\p{L}\\p{N}" PUNCTUATION "]++|" BLANKS("[^" WS PUNCTUATION "]"),
     false, false},
    {"gpt-2", " gpt2 olmo default ",
     "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}++| ?\\p{N}++| ?[^" WS "\\p{L}\\p{N}]++|" BLANKS("[^" WS "]"), false,
     false},
};

struct bn_splitter {
    const struct bn_split_rule *rule;
    pcre2_general_context *general;
    pcre2_code *code;
    bool compiled;
};

const struct bn_split_rule *bn_split_rule_find(struct bn_str name)
{
    char padded[32];
    if (name.len == 0 || name.len + 3 > sizeof padded || memchr(name.ptr, ' ', name.len) != NULL ||
        memchr(name.ptr, '\0', name.len) != NULL)
        return NULL;
    padded[0] = ' ';
    memcpy(padded + 1, name.ptr, name.len);
    memcpy(padded + 1 + name.len, " ", 2);
    for (size_t i = 0; i < BN_ARRAY_LEN(RULES); i++)
        if (bn_str_equal(name, RULES[i].name) || strstr(RULES[i].aliases, padded) != NULL) return &RULES[i];
    return NULL;
}

static void *give(size_t n, void *unused)
{
    (void)unused;
    return bn_alloc(n, 1);
}

static void take(void *p, void *unused)
{
    (void)unused;
    bn_free(p);
}

bn_status bn_splitter_open(struct bn_splitter **out, const struct bn_split_rule *rule, bool compile,
                           bn_error *err)
{
    int code = 0;
    PCRE2_SIZE at = 0;
    *out = NULL;
    struct bn_splitter *splitter = bn_alloc(1, sizeof *splitter);
    if (splitter == NULL) return bn_nomem(err);
    splitter->rule = rule;
    splitter->general = pcre2_general_context_create(give, take, NULL);
    pcre2_compile_context *context =
        splitter->general != NULL ? pcre2_compile_context_create(splitter->general) : NULL;
    if (context != NULL)
        splitter->code = pcre2_compile((PCRE2_SPTR)rule->pattern, PCRE2_ZERO_TERMINATED,
                                       PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code, &at, context);
    pcre2_compile_context_free(context);
    if (splitter->code == NULL) {
        bn_splitter_close(splitter);
        if (context == NULL || code == PCRE2_ERROR_HEAP_FAILED) return bn_nomem(err);
        return bn_fail(err, BN_ERR_INTERNAL, "splitting rule %s does not compile: pcre2 error %d at %zu",
                       rule->name, code, at);
    }
    splitter->compiled = compile && pcre2_jit_compile(splitter->code, PCRE2_JIT_COMPLETE) == 0;
    *out = splitter;
    return BN_OK;
}

void bn_splitter_close(struct bn_splitter *splitter)
{
    if (splitter == NULL) return;
    pcre2_code_free(splitter->code);
    pcre2_general_context_free(splitter->general);
    bn_free(splitter);
}

const struct bn_split_rule *bn_splitter_rule(const struct bn_splitter *splitter)
{
    return splitter->rule;
}

bn_status bn_split_open(struct bn_split *split, const struct bn_splitter *splitter, bn_error *err)
{
    *split = (struct bn_split){.splitter = splitter};
    pcre2_match_data *match = pcre2_match_data_create(1, splitter->general);
    pcre2_match_context *context = pcre2_match_context_create(splitter->general);
    split->match = match;
    split->context = context;
    if (match == NULL || context == NULL) {
        bn_split_close(split);
        return bn_nomem(err);
    }
    /* The limits guard against expressions that explode; these do not, and a long text must not trip them. */
    pcre2_set_match_limit(context, UINT32_MAX);
    pcre2_set_depth_limit(context, UINT32_MAX);
    pcre2_set_heap_limit(context, UINT32_MAX);
    return BN_OK;
}

void bn_split_close(struct bn_split *split)
{
    pcre2_match_data_free(split->match);
    pcre2_match_context_free(split->context);
    *split = (struct bn_split){0};
}

void bn_split_text(struct bn_split *split, const char *text, size_t n)
{
    split->text = text;
    split->n_bytes = n;
    split->at = split->valid = 0;
}

static int match_at(const struct bn_split *split, const char *text, size_t n)
{
    const struct bn_splitter *splitter = split->splitter;
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    if (splitter->compiled) {
        int rc =
            pcre2_jit_match(splitter->code, subject, n, 0, PCRE2_NO_UTF_CHECK, split->match, split->context);
        if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
    }
    return pcre2_match(splitter->code, subject, n, 0, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, split->match,
                       split->context);
}

bn_status bn_split_next(struct bn_split *split, struct bn_str *piece, bn_error *err)
{
    const char *text = split->text + split->at;
    *piece = (struct bn_str){text, 0};
    if (split->at == split->n_bytes) return BN_OK;
    if (split->at == split->valid) {
        split->valid += bn_utf8_valid(text, split->n_bytes - split->at);
        if (split->at == split->valid) { /* a byte that is not UTF-8 */
            piece->len = 1;
            split->valid = ++split->at;
            return BN_OK;
        }
    }
    int rc = match_at(split, text, split->valid - split->at);
    if (rc >= 0) piece->len = pcre2_get_ovector_pointer(split->match)[1];
    if (rc == PCRE2_ERROR_NOMATCH || (rc >= 0 && piece->len == 0)) /* no rule above leaves anything over */
        piece->len = bn_utf8_length(text, split->valid - split->at);
    if (piece->len == 0)
        return bn_fail(err, rc == PCRE2_ERROR_NOMEMORY ? BN_ERR_NOMEM : BN_ERR_INTERNAL,
                       "splitting text failed: pcre2 error %d", rc);
    split->at += piece->len;
    return BN_OK;
}
