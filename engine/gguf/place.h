/* SPDX-License-Identifier: MIT
 *
 * Where the tensors of a GGUF file lie, and which layout a type number with several meanings has in this
 * file. For the files of this folder.
 */
#ifndef BN_GGUF_PLACE_H
#define BN_GGUF_PLACE_H

#include "gguf/gguf.h"

#define BN_GGUF_NAMED_BYTES 192u

/* "key 'general.name'", for messages. Returns out. */
const char *bn_gguf_named(char out[BN_GGUF_NAMED_BYTES], const char *kind, struct bn_str name);

/* Checks that all tensors lie inside the file and that none overlaps the next, and sets their data. On entry
 * offsets count from gguf->data_offset, on return from `base`, the start of the file. by_offset: indexes of
 * the tensors in the order of their offsets. Settles the type of tensors of type 42: BN_TYPE_Q2_0 or
 * BN_TYPE_PQ2_0. BN_ERR_FORMAT, BN_ERR_UNSUPPORTED when the room for a tensor shows another layout. */
BN_MUST_CHECK bn_status bn_gguf_place(struct bn_gguf *gguf, const unsigned char *base,
                                      const uint32_t *by_offset, bn_error *err);

#endif
