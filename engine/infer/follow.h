/* SPDX-License-Identifier: MIT
 *
 * The sessions of a divided model: how they begin together, and how those of the ranks after the first follow it.
 *
 *     every rank:       bn_model_open_divided, open a session with the same sizes,
 *                       bn_session_agree
 *     the first rank:   use the session as always, close it
 *     the other ranks:  bn_session_follow, close it
 *
 * Not divided: traces and saved timelines, which are refused, and models that draft, which the first rank runs alone.
 */
#ifndef BN_INFER_FOLLOW_H
#define BN_INFER_FOLLOW_H

#include "infer/session.h"

/* All ranks call it once, whether or not they could open model and session: status and err are what came out, session
 * is NULL after a failure. All return the same: BN_OK, or the error of the first rank that failed, or
 * BN_ERR_MISMATCH when their programs, instruction sets, models or sizes differ. */
BN_MUST_CHECK bn_status bn_session_agree(const struct bn_ranks *ranks, const bn_session *session,
                                         bn_status status, bn_error *err);

/* On every rank but the first: evaluates what the first one does, until that one closes its session. The model is that
 * of the session. */
BN_MUST_CHECK bn_status bn_session_follow(bn_session *session, bn_model *model, bn_error *err);

#endif
