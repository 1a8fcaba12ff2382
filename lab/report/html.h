/* SPDX-License-Identifier: MIT
 *
 * Writing HTML, SVG and XML: text goes in so that no text of a document can become markup, and so that the
 * result is well-formed whatever the text is. And values of a document that may lack or be of another kind:
 * a missing text is "", a missing number is NaN.
 */
#ifndef BN_REPORT_HTML_H
#define BN_REPORT_HTML_H

#include "base/json.h"

/* Appends markup. Of the conversions there are %s, which escapes its text, for elements and for attributes;
 * %g, a number for people, which takes "%.Ng" digits and is a dash when it is not finite; %.1f, %u, %zu and
 * %%. */
void bn_html(struct bn_buf *out, const char *fmt, ...) BN_PRINTF(2, 3);
/* A string of JSON for a script element: the text that %s shows, with no '<', '>' or '&' in it. */
void bn_html_json(struct bn_buf *out, const char *text);
/* A number for people, its exact text as the document has it in the title. */
void bn_html_number(struct bn_buf *out, const bn_json *value);

const char *bn_html_string(const bn_json *object, const char *name);
double bn_html_value(const bn_json *object, const char *name);
size_t bn_html_size(const bn_json *object, const char *name);
bool bn_html_is(const bn_json *object, const char *name, const char *text);
bool bn_html_true(const bn_json *object, const char *name);
/* The element of an array whose member has this text; NULL for none. */
const bn_json *bn_html_find(const bn_json *array, const char *member, const char *text);

#endif
