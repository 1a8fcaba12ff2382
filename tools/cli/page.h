/* SPDX-License-Identifier: MIT
 *
 * A page that a program writes: one file that loads nothing, and whose policy forbids it.
 */
#ifndef BN_CLI_PAGE_H
#define BN_CLI_PAGE_H

#include "lab/report/html.h"

/* Everything up to the content: title, the style sheet of all pages and, after it, the page's own. A script,
 * or "", is allowed by its digest, and no other; it has no '<' and no '&', since the page is XML too. */
void bn_page_begin(struct bn_buf *out, const char *title, const char *style, size_t style_bytes,
                   const char *script);
void bn_page_end(struct bn_buf *out);

#endif
