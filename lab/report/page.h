/* SPDX-License-Identifier: MIT
 *
 * An HTML page that a program writes: one file that loads nothing, with a policy that forbids loading. All
 * pages share one style sheet, lab/report/page.css, for screens, phones, dark mode and print.
 */
#ifndef BN_REPORT_PAGE_H
#define BN_REPORT_PAGE_H

#include "base/json.h"

/* ---- markup: HTML, SVG and XML; texts are escaped, so that the result is always well-formed ---- */

/* Appends markup. The conversions are: %s, an escaped text for elements and attributes; %g or %.Ng, a number
 * with 4 or N digits, a dash when it is not finite; %.1f, %u, %zu and %%. */
void bn_html(struct bn_buf *out, const char *fmt, ...) BN_PRINTF(2, 3);
/* A JSON string for a script element: the text as %s shows it, without '<', '>' and '&'. */
void bn_html_json(struct bn_buf *out, const char *text);

/* ---- pages ---- */

/* Everything before the content. With `sortable` the page
 * has the script that sorts and filters tables of the class "sortable"; its digest is in the policy. */
void bn_page_begin(struct bn_buf *out, const char *title, bool sortable);
void bn_page_end(struct bn_buf *out);

/* The box at the top: the sentence that answers the reader's question. kind is "ok", "warn", "bad" or ""
 * (neutral); kicker is the small line above it. Paragraphs may follow, and then </div>. */
void bn_page_verdict(struct bn_buf *out, const char *kind, const char *kicker, const char *sentence);
/* A check mark, a cross, an exclamation mark or a dash for "ok", "bad", "warn", "skip"; nothing for other
 * kinds. */
void bn_page_mark(struct bn_buf *out, const char *kind);

/* A folded section up to </details>; its summary is the text. */
void bn_page_details(struct bn_buf *out, const char *summary, const char *note);

/* A row of a table of the class "facts": names and values. Without text it says "not known". */
void bn_page_fact(struct bn_buf *out, const char *name, const char *text);

/* A list of words and their meanings under a heading. */
void bn_page_words(struct bn_buf *out, const char *const (*words)[2], size_t n);

#endif
