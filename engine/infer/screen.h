/* SPDX-License-Identifier: MIT
 *
 * The best logits without reading the whole head: the 8-bit copy (model/repack.h) bounds every logit from
 * both sides, and only rows that can be among the best are computed from the file's own weights. What comes
 * out is what the full product gives for those rows, bit for bit; the others are -INFINITY.
 */
#ifndef BN_INFER_SCREEN_H
#define BN_INFER_SCREEN_H

#include "infer/pass.h"

/* Whether the current evaluation can be screened, and whether that saves time. */
bool bn_screen_wanted(const struct bn_session *s);
/* Fills s->run.logits; a stage of the forward pass, called by all threads. */
void bn_screen_head(const struct pass *p);
/* After an evaluation whose best logits alone matter: counts how they were computed. */
void bn_screen_account(struct bn_session *s);

#endif
