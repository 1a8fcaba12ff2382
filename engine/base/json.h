/* SPDX-License-Identifier: MIT
 *
 * JSON: strict reading, and writing that gives the same bytes everywhere. Nothing here depends on the locale.
 *
 * Reading refuses what many readers accept: duplicate names, NUL in strings, invalid UTF-8, lone surrogates, nesting over
 * 64, more than 8 MiB of text, trailing data, numbers that are not finite, and a text whose tree takes more memory than a
 * limit, for example a long array of zeros. A bn_json is one value of a tree; the tree is freed through its root.
 */
#ifndef BN_BASE_JSON_H
#define BN_BASE_JSON_H

#include "base/buf.h"
#include "base/digest.h"

#define BN_JSON_MAX_BYTES (8u << 20)
#define BN_JSON_MAX_DEPTH 64u
#define BN_JSON_EXACT 0x1p53                 /* below it, every whole number is itself */
#define BN_JSON_MAX_TREE ((size_t)128 << 20) /* bytes of memory: more than 2^20 numbers */

typedef struct bn_json bn_json;

enum bn_json_kind {
    BN_JSON_NULL,
    BN_JSON_BOOL,
    BN_JSON_NUMBER,
    BN_JSON_STRING,
    BN_JSON_ARRAY,
    BN_JSON_OBJECT
};

/* Only the files of JSON read the members. */
struct bn_json {
    bn_json *next, *child, *last; /* members or elements; the last one */
    char *name;                   /* of a member */
    char *text;                   /* of a string */
    double number;                /* of a number; 0 or 1 of a bool */
    enum bn_json_kind kind;
    bool incomplete; /* memory was short for something in it */
};

/* An empty value, and one put after the others of its parent, which is returned; NULL when memory is short. */
bn_json *bn_json_new(enum bn_json_kind kind);
bn_json *bn_json_append(bn_json *parent, bn_json *value);

BN_MUST_CHECK bn_status bn_json_parse(bn_json **out, const char *text, size_t n, bn_error *err);
/* The same with a lower limit for the memory of the tree. */
BN_MUST_CHECK bn_status bn_json_parse_within(bn_json **out, const char *text, size_t n, size_t max_tree,
                                             bn_error *err);
/* The same with the text of a file, which errors name. */
BN_MUST_CHECK bn_status bn_json_read_file(bn_json **out, const char *path, bn_error *err);
void bn_json_free(bn_json *root);

enum bn_json_kind bn_json_kind(const bn_json *value);
/* A member by its exact name; NULL when value is NULL, not an object, or has none. */
const bn_json *bn_json_get(const bn_json *value, const char *name);
/* The same along a path, "model.sha256". */
const bn_json *bn_json_path(const bn_json *value, const char *path);
size_t bn_json_size(const bn_json *value); /* elements or members */
const bn_json *bn_json_at(const bn_json *value, size_t i);
/* First element or member, and the next one: for loops over long arrays. */
const bn_json *bn_json_first(const bn_json *value);
const bn_json *bn_json_next(const bn_json *value);
/* The *n members of an object by the bytes of their names; release with bn_free; NULL when memory is short.
 */
const bn_json **bn_json_sorted(const bn_json *object, size_t *n);
/* The name of a member, NULL for an array's element. */
const char *bn_json_name(const bn_json *member);

/* Values; each returns false, and leaves *out alone, when value is NULL or of another kind. The integer form
 * wants a whole number from 0 to 2^53 - 1, beyond which two texts can mean the same number. */
bool bn_json_string(const bn_json *value, const char **out);
bool bn_json_number(const bn_json *value, double *out);
bool bn_json_u64(const bn_json *value, uint64_t *out);
bool bn_json_bool(const bn_json *value, bool *out);

/* For readers of documents: the value at a path; what is missing or of another kind is "", NaN,
 * 0 or false. */
const char *bn_json_text_of(const bn_json *object, const char *path);
double bn_json_number_of(const bn_json *object, const char *path);
size_t bn_json_count_of(const bn_json *object, const char *path);
bool bn_json_flag_of(const bn_json *object, const char *path);
bool bn_json_text_is(const bn_json *object, const char *path, const char *text);
/* The first element of an array whose member is this text; NULL when there is none. */
const bn_json *bn_json_find(const bn_json *array, const char *member, const char *text);
/* Whether one of an array's elements is this text. */
bool bn_json_has_text(const bn_json *array, const char *text);
/* A list of token ids, released with bn_free. BN_ERR_FORMAT for anything else; then *ids stays. */
BN_MUST_CHECK bn_status bn_json_ids(const bn_json *list, int32_t **ids, size_t *n_ids, bn_error *err);

/* Building. A NULL parent makes a call do nothing and return NULL. A put that fails for lack of memory marks
 * its parent as incomplete, and bn_json_write of the parent or of a value around it fails: a long chain of
 * puts needs one check, at its end. Putting a name that exists replaces its value. */
#define bn_json_new_object() bn_json_new(BN_JSON_OBJECT)
#define bn_json_new_array() bn_json_new(BN_JSON_ARRAY)
bn_json *bn_json_put_new(bn_json *parent, const char *name, enum bn_json_kind kind); /* an empty value */
#define bn_json_put_object(object, name) bn_json_put_new(object, name, BN_JSON_OBJECT)
#define bn_json_put_array(object, name) bn_json_put_new(object, name, BN_JSON_ARRAY)
void bn_json_put_string(bn_json *object, const char *name, const char *value); /* NULL writes null */
void bn_json_put_u64(bn_json *object, const char *name, uint64_t value);       /* from 2^53 on, a string */
void bn_json_put_number(bn_json *object, const char *name, double value);      /* not finite writes null */
/* The shortest decimal that gives this binary32 back: 0.7 is written as 0.7. */
void bn_json_put_f32(bn_json *object, const char *name, float value);
void bn_json_put_bool(bn_json *object, const char *name, bool value);
#define bn_json_put_null(object, name) bn_json_put_string(object, name, NULL)
void bn_json_put_text(bn_json *object, const char *name, const char *text); /* NULL and "" write null */
void bn_json_put_count(bn_json *object, const char *name, uint64_t n);      /* 0 writes null */
/* Arrays of n values. */
void bn_json_put_texts(bn_json *object, const char *name, const char *const *texts, size_t n);
void bn_json_put_ids(bn_json *object, const char *name, const int32_t *ids, size_t n);
void bn_json_put_numbers(bn_json *object, const char *name, const double *numbers, size_t n);
void bn_json_put_u64s(bn_json *object, const char *name, const uint64_t *values, size_t n);
/* A number that is finite, else unavailable for the reason. A text likewise, when it is not empty. */
void bn_json_put_finite(bn_json *object, const char *name, double value, const char *reason);
void bn_json_put_known(bn_json *object, const char *name, const char *text, const char *reason);
/* A value that could not be obtained: null, and the reason under the same name in the member "unavailable" of
 * the same object, which is created when it is missing. */
void bn_json_put_unavailable(bn_json *object, const char *name, const char *reason);
/* A name that is NULL puts an element of an array. */
#define bn_json_add_object(array) bn_json_put_object(array, NULL)
#define bn_json_add_array(array) bn_json_put_array(array, NULL)
#define bn_json_add_string(array, value) bn_json_put_string(array, NULL, value)
#define bn_json_add_u64(array, value) bn_json_put_u64(array, NULL, value)
#define bn_json_add_number(array, value) bn_json_put_number(array, NULL, value)
/* A deep copy put under a name. */
void bn_json_put_copy(bn_json *object, const char *name, const bn_json *value);
void bn_json_remove(bn_json *object, const char *name);

/* Whether every put into the value and into those inside it had memory; false for NULL. */
bool bn_json_is_complete(const bn_json *value);
/* Appends the text: compact with members sorted by the bytes of their names (the canonical form, whose digest
 * is taken: RFC 8785, except that a negative zero keeps its sign), or indented by two spaces in the order of
 * building. */
BN_MUST_CHECK bn_status bn_json_write(const bn_json *value, bool canonical, struct bn_buf *out,
                                      bn_error *err);
/* The same and a line feed. */
BN_MUST_CHECK bn_status bn_json_write_line(const bn_json *value, bool canonical, struct bn_buf *out,
                                           bn_error *err);
/* Writes the indented text and a line feed to a file, by bn_file_write_atomic. */
BN_MUST_CHECK bn_status bn_json_write_file(const bn_json *value, const char *path, bn_error *err);
/* The SHA-256 of the canonical form. */
BN_MUST_CHECK bn_status bn_json_digest(const bn_json *value, char hex[BN_SHA256_HEX], bn_error *err);
/* A number as documents have it, in whatever locale: the shortest digits that read back as the same value, as
 * ECMAScript's Number.prototype.toString writes them; null when it is not finite. */
void bn_json_write_number(struct bn_buf *out, double value);
/* A string with its quotes; what is not UTF-8 becomes U+FFFD. */
void bn_json_write_string(struct bn_buf *out, const char *text);

/* ---- scanning ---- */

/* Reads JSON text from left to right, value by value, without a tree: for what is large or untrusted, such as the
 * header of a safetensors file and a tokenizer.json. Strict: RFC 8259 grammar, UTF-8, escapes, no NUL. bn_json_parse
 * makes its tree by the same scan. The caller bounds the text.
 *
 * BN_TRY(bn_scan_open(s, '{'));
 * for (bool more = true;;) {
 * BN_TRY(bn_scan_more(s, '}', &more));
 * if (!more) break;
 * BN_TRY(bn_scan_name(s, &name));
 * BN_TRY(bn_scan_skip(s));
 * } */

struct bn_scan {
    const char *text;
    size_t n, at;
    uint64_t base; /* of the text in its file: errors name the offset in the file */
    bool fresh;    /* a bracket was opened: no comma comes before the next element */
    size_t tree,
        max_tree; /* bytes that a tree of the values so far takes, and at most; max_tree 0: not counted */
    bn_error *err;
};

/* What comes next, after white space: '"', '{', '[', a digit or '-', 't', 'f', 'n'; '\0' at the end. */
char bn_scan_peek(struct bn_scan *s);
BN_MUST_CHECK bn_status bn_scan_open(struct bn_scan *s, char bracket);
/* Takes the comma before the next element, or the closing bracket: *more is false then. */
BN_MUST_CHECK bn_status bn_scan_more(struct bn_scan *s, char close, bool *more);
/* A string, decoded; out is emptied first, and may be NULL. */
BN_MUST_CHECK bn_status bn_scan_string(struct bn_scan *s, struct bn_buf *out);
/* A string and the colon after it. */
BN_MUST_CHECK bn_status bn_scan_name(struct bn_scan *s, struct bn_buf *out);
/* A whole number from 0 to 2^63 - 1. */
BN_MUST_CHECK bn_status bn_scan_u64(struct bn_scan *s, uint64_t *out);
/* Any value. */
BN_MUST_CHECK bn_status bn_scan_skip(struct bn_scan *s);
/* Only white space may be left. */
BN_MUST_CHECK bn_status bn_scan_end(struct bn_scan *s);
/* The offset in the file of what comes next. */
uint64_t bn_scan_offset(const struct bn_scan *s);

#endif
