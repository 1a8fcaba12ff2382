/* SPDX-License-Identifier: MIT
 *
 * The chain of digests of a generation, which receipts hold and replays recompute.
 *
 * It starts as sha256("bn.chain/1"). Each step hashes: the link before it (32 bytes), the position (u32
 * little endian) that the logits belong to, the hidden state that they were computed from (n_embd binary32),
 * the BN_CHAIN_TOP best logits (u32 id, binary32 value; by value descending, then id ascending), and the
 * chosen token (u32). So it fixes every step of the network and of the sampler, on any machine. The best logits are those
 * of all tokens. Under a grammar the chain starts as sha256("bn.chain/1" kind digest): "gbnf" or "json_schema", and the
 * digest of the grammar's text in hexadecimal.
 */
#ifndef BN_GENERATE_CHAIN_H
#define BN_GENERATE_CHAIN_H

#include "bn.h"

#define BN_CHAIN_TOP 32u

#endif
