/* SPDX-License-Identifier: MIT
 *
 * Reads JSON text from left to right, value by value, without a tree: for what is large or untrusted, such as the
 * header of a safetensors file and a tokenizer.json. Strict: RFC 8259 grammar, UTF-8, escapes, no NUL. bn_json_parse
 * makes its tree by the same scan. The caller bounds the text.
 *
 *     BN_TRY(bn_scan_open(s, '{'));
 *     for (bool more = true;;) {
 *         BN_TRY(bn_scan_more(s, '}', &more));
 *         if (!more) break;
 *         BN_TRY(bn_scan_name(s, &name));
 *         BN_TRY(bn_scan_skip(s));
 *     }
 */
#ifndef BN_BASE_JSON_SCAN_H
#define BN_BASE_JSON_SCAN_H

#include "base/buf.h"

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
