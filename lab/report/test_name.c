/* SPDX-License-Identifier: MIT
 *
 * The names of tests as people read them, made from the fields of their keys.
 */
#include <stdio.h>
#include <string.h>

#include "lab/report/units.h"

#define MODEL "decode|prompt|generate|concurrent"
#define TRAINING "step|forward|backward|reduce|optimiser|memory"

/* A field of the tests of these kinds (the first word of a key); "" for all kinds. */
static const struct field {
    const char *kinds, *name;
    const char *before, *noun; /* around the value; of a noun, the plural appends an s */
    const char *usual;         /* with this value the field is left out */
} FIELDS[] = {
    {"", "t", "", " thread", ""},
    {MODEL "|profile|text", "n", "", " token", ""},
    {MODEL, "d", "depth ", "", "0"},
    {MODEL, "b", "batch ", "", "128"}, /* the default of --batch of bn-bench run */
    {MODEL, "k", "", " generation", ""},
    {MODEL, "seq", "", " sequence", ""},
    {MODEL, "busy", "", " busy neighbour", ""},
    {"profile", "p", "prompt ", "", ""},
    {"serve", "clients", "", " client", ""},
    {"serve", "prompt", "prompt ", "", ""},
    {"serve", "tokens", "", " token", ""},
    {TRAINING, "c", "context ", "", ""},
    {TRAINING, "b", "batch ", "", ""},
};

bool bn_has_word(const char *text, char between, const char *word, size_t n)
{
    const char ends[] = {between, '\0'};
    for (const char *at = text;; at += strcspn(at, ends) + 1) {
        size_t its = strcspn(at, ends);
        if (its == n && memcmp(at, word, n) == 0) return true;
        if (at[its] == '\0') return false;
    }
}

/* The field that a word of n bytes is, "n=16" or "n=4+3"; NULL for any other word. */
static const struct field *field_of(const char *kind, const char *word, size_t n)
{
    size_t n_name = strcspn(word, "= "), n_kind = strcspn(kind, " ");
    if (n_name + 1 >= n || n_name + 1 + strspn(word + n_name + 1, "0123456789+") != n) return NULL;
    for (size_t i = 0; i < BN_ARRAY_LEN(FIELDS); i++)
        if (bn_has_word(FIELDS[i].name, '|', word, n_name) &&
            (FIELDS[i].kinds[0] == '\0' || bn_has_word(FIELDS[i].kinds, '|', kind, n_kind)))
            return &FIELDS[i];
    return NULL;
}

static void put_field(struct bn_buf *out, const struct field *f, const char *value, size_t n)
{
    bn_buf_puts(out, f->before);
    bn_buf_append(out, value, n);
    bn_buf_puts(out, f->noun);
    if (f->noun[0] != '\0' && !(n == 1 && *value == '1')) bn_buf_putc(out, 's');
}

const char *bn_test_name(char out[BN_TEST_ROOM], const char *key)
{
    struct bn_buf text = {.max = BN_TEST_ROOM};
    const char *kind = key, *next;
    bool field_before = false;
    for (const char *word = key; *word != '\0' && !text.failed; word = next + strspn(next, " ")) {
        next = word + strcspn(word, " ");
        const struct field *f = field_of(kind, word, (size_t)(next - word));
        const char *value = f != NULL ? word + strlen(f->name) + 1 : word;
        if (f != NULL && bn_has_word(f->usual, '|', value, (size_t)(next - value))) continue;
        /* "decode 16 tokens, 1 thread": what the kind is about follows it, the rest are remarks. */
        bool about = f == NULL ? !field_before : f->kinds[0] != '\0' && word == kind + strcspn(kind, " ") + 1;
        if (text.len > 0) bn_buf_puts(&text, about ? " " : ", ");
        if (f != NULL)
            put_field(&text, f, value, (size_t)(next - value));
        else
            bn_buf_append(&text, word, (size_t)(next - word));
        field_before = f != NULL;
        if (next > word && next[-1] == ':') kind = next + strspn(next, " "); /* after the label of a suite */
    }
    snprintf(out, BN_TEST_ROOM, "%s", text.failed ? key : bn_buf_text(&text));
    bn_buf_release(&text);
    return out;
}

bool bn_test_has(const char *key, const char *part)
{
    char name[BN_TEST_ROOM];
    return strstr(key, part) != NULL || strstr(bn_test_name(name, key), part) != NULL;
}
