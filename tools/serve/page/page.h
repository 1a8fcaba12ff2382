/* SPDX-License-Identifier: MIT
 *
 * The pages of bn-serve: the chat and the dashboard. Each is one file that loads nothing. Its policy permits the one
 * script and the one style sheet in it, by their digests, and requests to the server that it came from.
 */
#ifndef BN_SERVE_PAGE_H
#define BN_SERVE_PAGE_H

#include "base/buf.h"

#define BN_SERVE_POLICY_BYTES 512u

struct bn_serve_page {
    struct bn_buf html;
    char policy[BN_SERVE_POLICY_BYTES]; /* the header Content-Security-Policy */
};

enum bn_serve_page_name { BN_SERVE_CHAT, BN_SERVE_DASHBOARD, BN_SERVE_PAGES };

/* Puts a page together; bn_serve_page_release is due after an error, too. */
BN_MUST_CHECK bn_status bn_serve_page_build(struct bn_serve_page *page, enum bn_serve_page_name name,
                                            bn_error *err);
void bn_serve_page_release(struct bn_serve_page *page);

#endif
