/* SPDX-License-Identifier: MIT
 *
 * Writes HTML, SVG and XML. Texts are escaped, so that no text of a document can become markup and the result
 * is always well-formed.
 */
#ifndef BN_REPORT_HTML_H
#define BN_REPORT_HTML_H

#include "base/json.h"

/* Appends markup. The conversions are: %s, an escaped text for elements and attributes; %g or %.Ng, a number
 * with 4 or N digits, a dash when it is not finite; %.1f, %u, %zu and %%. */
void bn_html(struct bn_buf *out, const char *fmt, ...) BN_PRINTF(2, 3);
/* A JSON string for a script element: the text as %s shows it, without '<', '>' and '&'. */
void bn_html_json(struct bn_buf *out, const char *text);

#endif
