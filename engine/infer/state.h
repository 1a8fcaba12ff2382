/* SPDX-License-Identifier: MIT
 *
 * Saved timelines: the inside of bn_session_save and bn_session_load, for the fuzz target.
 */
#ifndef BN_INFER_STATE_H
#define BN_INFER_STATE_H

#include "infer/session.h"

/* Raise them when the format changes, and when a change of the arithmetic gives other keys or values
 * (docs/explain/numerics.md): a file of another version is refused. */
#define BN_STATE_VERSION 1u
#define BN_STATE_RECURRENT_VERSION 2u /* of models with recurrent layers: with their states */

/* The beginning of a file. All numbers are little endian. Then come the tokens (4 bytes each), then for each head of
 * each layer the keys and then the values of all tokens (2 bytes a number), then states of recurrent layers: each is a
 * number of tokens (4 bytes) and the state after them (binary32), ascending; then a checksum of all that: 32 hexadecimal
 * digits, as the model's. */
struct bn_state_header {
    char magic[8]; /* BN_STATE_MAGIC */
    uint32_t version, n_tokens;
    uint32_t n_layer, n_head_kv, head_dim;
    uint32_t kv_type;                /* BN_TYPE_F16 */
    char model[BN_CHECKSUM_HEX - 1]; /* of the model's file, without the NUL */
};
#define BN_STATE_MAGIC "bn.state"
#define BN_STATE_SUM_BYTES (BN_CHECKSUM_HEX - 1)

/* The checksum of the model of this session, computed once by all threads of the session. */
BN_MUST_CHECK bn_status bn_state_model_sum(struct bn_session *s, const char **hex, bn_error *err);

/* bn_session_load from memory; name is for messages. The bytes need no alignment. */
BN_MUST_CHECK bn_status bn_state_read(struct bn_session *s, const void *bytes, size_t n_bytes,
                                      const char *name, const int32_t *tokens, size_t n_tokens,
                                      uint32_t *n_kept, bn_error *err);

#endif
