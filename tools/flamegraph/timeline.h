/* SPDX-License-Identifier: MIT
 *
 * The parts of the command timeline. Its document, bn.flametimeline/1, is made first; text and page are
 * written from it alone:
 *
 *     {"schema": ..., "series": [{"name": "phase2_1tok", "entries": [
 *       {"folder": ..., "created": ..., "commit": ..., "dirty": ..., "samples": ..., "functions": {...},
 *        "since": {"name": ..., "compared": ..., "changes": [...] or "why": ...}}]}]}
 *
 * functions is what a page has under that name; since holds the entry against the one before it.
 */
#ifndef BN_FLAMEGRAPH_TIMELINE_H
#define BN_FLAMEGRAPH_TIMELINE_H

#include "base/json.h"

void bn_timeline_print(const bn_json *document);
/* The page; it lies in the folder whose archives it shows, since its links begin there. */
void bn_timeline_page(struct bn_buf *out, const bn_json *document);

#endif
