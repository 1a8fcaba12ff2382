/* SPDX-License-Identifier: MIT
 *
 * Writes HTML, SVG and XML. Texts are escaped, so that no text of a document can become markup and the result
 * is always well-formed.
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

#endif
