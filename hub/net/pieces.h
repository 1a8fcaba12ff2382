/* SPDX-License-Identifier: MIT
 *
 * The bytes of an unfinished download on disk: <path>.part, and the journal <path>.part.json that lists its
 * verified pieces.
 *
 * The journal is lines of JSON: the first names the file, each further one is {"piece": i, "n": bytes,
 * "gmac": hex}, a checksum (digest.h). A line is appended once its piece has been flushed, so that the
 * journal is correct whenever the process dies; an incomplete last line is ignored.
 *
 * A separate thread hashes, flushes and writes the journal, so that the network never waits for the disk. It
 * hashes each piece, and the complete file in order.
 */
#ifndef BN_HUB_PIECES_H
#define BN_HUB_PIECES_H

#include "base/digest.h"

#define BN_PIECE_BYTES (4u << 20)
/* Larger files are an error (BN_ERR_LIMIT): a size is what a server claims, and tables are made for it. */
#define BN_PIECES_MAX_BYTES (UINT64_C(16) << 40)

/* The identity of the bytes. A journal with another identity belongs to another file and is deleted. */
struct bn_pieces_origin {
    const char *identity;
    const char *etag;   /* "" when there is none */
    const char *sha256; /* wanted; "" when not known */
    uint64_t size;      /* 0: not known until the end */
    bool reserve;       /* the size does not come from the server: take the disk space now */
};

struct bn_pieces;
/* What an earlier run left. */
struct bn_pieces_found {
    bool (*progress)(void *user,
                     uint64_t bytes); /* now and then while it is verified; false stops. May be NULL */
    void *user;
    uint64_t kept, lost; /* bytes that are good, and those that were listed and are not */
    bool other;          /* a file of another version */
};
/* Opens or begins <path>.part. Pieces that the journal lists are verified (BN_ERR_CANCELLED). BN_ERR_IO when the disk
 * has less space than the size needs: nothing is allocated or reserved for a size before that. */
BN_MUST_CHECK bn_status bn_pieces_open(struct bn_pieces **out, const char *path,
                                       const struct bn_pieces_origin *origin, struct bn_pieces_found *found,
                                       bn_error *err);
/* Flushes and journals what is complete, and closes. The .part stays, without disk space that was reserved
 * for later bytes; one without a complete piece is removed with its journal. */
void bn_pieces_close(struct bn_pieces *pieces);
/* The bytes are useless: closing removes them. */
void bn_pieces_drop(struct bn_pieces *pieces);

/* Number of pieces; 0 while the size is not known. */
size_t bn_pieces_count(const struct bn_pieces *pieces);
bool bn_pieces_has(struct bn_pieces *pieces, size_t i);
/* Discards everything: the server has another version. */
BN_MUST_CHECK bn_status bn_pieces_restart(struct bn_pieces *pieces, const struct bn_pieces_origin *origin,
                                          bn_error *err);
/* Writes bytes at an offset. */
BN_MUST_CHECK bn_status bn_pieces_write(struct bn_pieces *pieces, uint64_t at, const void *bytes, size_t n,
                                        bn_error *err);
/* All bytes of piece i have been written. */
BN_MUST_CHECK bn_status bn_pieces_done(struct bn_pieces *pieces, size_t i, bn_error *err);
/* Sets the size when it becomes known. */
BN_MUST_CHECK bn_status bn_pieces_set_size(struct bn_pieces *pieces, uint64_t size, bn_error *err);

/* All pieces are done: waits for the thread, gives the digest of the file. */
BN_MUST_CHECK bn_status bn_pieces_digest(struct bn_pieces *pieces, char sha256[BN_SHA256_HEX], bn_error *err);
/* Flushes, renames to the final path, flushes the folder, removes the journal; closes. */
BN_MUST_CHECK bn_status bn_pieces_finish(struct bn_pieces *pieces, bn_error *err);
/* Renames to <path>.bad and removes the journal; closes. */
BN_MUST_CHECK bn_status bn_pieces_discard(struct bn_pieces *pieces, bn_error *err);

#endif
