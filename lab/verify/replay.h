/* SPDX-License-Identifier: MIT
 *
 * Replay: the request of a receipt is run again, and must give the same tokens and the same chain of digests.
 * Any instruction set, thread count and batch can be used, because the engine's results do not depend on
 * them.
 */
#ifndef BN_RECEIPT_REPLAY_H
#define BN_RECEIPT_REPLAY_H

#include "lab/verify/rules.h"

/* Runs the request of a statement on a model that the caller has opened, from memory or with no_mmap, so that
 * no other program can write to its bytes (else BN_ERR_ARG). The digest of these very bytes is compared with
 * model.sha256. n_threads and n_batch 0 are the engine's defaults. When something differs the result is BN_OK
 * with result->same false; an error means that the replay was not possible. */
BN_MUST_CHECK bn_status bn_receipt_replay(const struct bn_receipt *receipt, const bn_model *model,
                                          uint32_t n_threads, uint32_t n_batch,
                                          struct bn_replay_result *result, bn_error *err);

/* ---- the parts, for a caller that generates itself ---- */

/* The request of a receipt, which outlives it. Closed by bn_replay_close, after an error too. */
struct bn_replay;
BN_MUST_CHECK bn_status bn_replay_open(struct bn_replay **out, const struct bn_receipt *receipt,
                                       bn_error *err);
void bn_replay_close(struct bn_replay *replay);
/* What is to be generated; its texts and tokens are the replay's. */
const bn_generation *bn_replay_request(const struct bn_replay *replay);
/* The tokens that its timeline needs room for: fewer than the receipt's context when it did not fill that. */
uint32_t bn_replay_n_ctx(const struct bn_replay *replay);
/* Makes the claimed tokens the drafts of a generation of that request, so that one pass evaluates many of them. They are
 * compared as they would be one after the other. Nothing for a model that cannot take back a token. */
void bn_replay_expect(const struct bn_replay *replay, const bn_model *model, bn_generation *generation);
/* Whether the receipt names this model, whose digest is given, with its tokenizer and shape; result->reason says what
 * differs. */
BN_MUST_CHECK bn_status bn_replay_check_model(struct bn_replay *replay, const bn_model *model,
                                              const char *sha256, bool *same, struct bn_replay_result *result,
                                              bn_error *err);
/* Compares a generation that has ended with the receipt. */
BN_MUST_CHECK bn_status bn_replay_compare(struct bn_replay *replay, const bn_model *model,
                                          const bn_generation *gen, struct bn_replay_result *result,
                                          bn_error *err);

#endif
