/* SPDX-License-Identifier: MIT
 *
 * One file from one or more URLs to one path, atomically: only a complete, verified file appears there.
 *
 * What arrives is written to <path>.part, in pieces of 4 MiB that a journal, <path>.part.json, lists
 * (below); so a process that dies loses only the pieces in flight. A later run verifies each
 * piece and downloads only the missing and damaged ones. SHA-256 is computed as the bytes arrive. When the
 * file is complete and its digest right, it is flushed and renamed, and its folder is flushed.
 *
 * Bytes of different versions never mix: ranges are requested with If-Range and their Content-Range is
 * checked; an answer of another version starts afresh, and so does each one when neither a validator nor a
 * digest is known.
 */
#ifndef BN_HUB_TRANSFER_H
#define BN_HUB_TRANSFER_H

#include "base/digest.h"
#include "base/mem.h"

/* ---- check.c: the format that a file's name promises, and whether its bytes keep the promise ---- */

enum bn_hub_format { BN_HUB_ANY_FORMAT, BN_HUB_GGUF, BN_HUB_SAFETENSORS };

/* By the end of the name: ".gguf", ".safetensors". */
enum bn_hub_format bn_hub_format_of(const char *name);

/* BN_ERR_FORMAT when bytes that a server sends, n of them from offset at, are a git-lfs pointer, or do not
 * fit the beginning of a file of this format. */
BN_MUST_CHECK bn_status bn_hub_check_start(enum bn_hub_format format, uint64_t at, const void *bytes,
                                           size_t n, bn_error *err);

/* Whether a complete file has a valid header of this format and is as long as the header says. BN_ERR_FORMAT
 * for another kind of file and a truncated one, BN_ERR_LIMIT for counts over the limits of the GGUF reader. A
 * GGUF file with types of tensors that this engine does not run is accepted. */
BN_MUST_CHECK bn_status bn_hub_check_file(enum bn_hub_format format, const char *path, bn_error *err);

/* ---- transfer.c ---- */

enum bn_transfer_phase {
    BN_TRANSFER_ASK,      /* headers are requested */
    BN_TRANSFER_RESUME,   /* have bytes were downloaded before and are verified */
    BN_TRANSFER_PROGRESS, /* at most ten times a second */
    BN_TRANSFER_RETRY,    /* message says why, wait_ms how long */
    BN_TRANSFER_RESTART,  /* the unfinished download is of another version */
    BN_TRANSFER_REPAIR,   /* pieces are downloaded again */
    BN_TRANSFER_DONE
};

struct bn_transfer_event {
    enum bn_transfer_phase phase;
    const char *url;     /* without credentials and query */
    uint64_t have, size; /* bytes that are safe or in flight; size 0: not known */
    uint64_t fetched;    /* body bytes received in this run, discarded ones included */
    uint64_t wait_ms;
    unsigned attempt;
    const char *message; /* may be NULL */
};
/* Returning false stops the transfer (BN_ERR_CANCELLED); the downloaded part stays for the next run. */
typedef bool (*bn_transfer_fn)(void *user, const struct bn_transfer_event *event);

struct bn_transfer {
    const char *const *urls; /* the same bytes; the next one is tried when one fails for good */
    size_t n_urls;
    const char *path;     /* of the finished file; its folder exists */
    const char *identity; /* what this is, for the journal: "hf:owner/repo:file@commit", or the URL */
    uint64_t size;        /* 0: not known beforehand */
    const char *sha256;   /* 64 hex digits in any case, NULL: not known; then the digest is reported only */
    const char *token;    /* bearer token, NULL: none; sent to the origin of the first URL alone */
    unsigned parallel;    /* connections, 1 to 16 */
    uint64_t limit_rate;  /* bytes a second over all of them; 0: none */
    unsigned retries;     /* of a request without progress (1000 * stall_s bytes), before it fails for good */
    unsigned stall_s;     /* http.h; 0: 30 */
    bool force;           /* download even when path is there */
    bool offline;         /* use the file at path, or fail */
    enum bn_hub_format format; /* of the file; other bytes are refused */
    bn_transfer_fn fn;         /* may be NULL */
    void *user;

    /* Results, set on success and on failure. */
    char digest[BN_SHA256_HEX]; /* of the finished file */
    uint64_t final_size, fetched, resumed;
    unsigned n_requests;
    char etag[256], last_modified[64]; /* of the server's last answer */
};

/* BN_ERR_NETWORK after the retries; BN_ERR_NOT_FOUND, BN_ERR_AUTH as the server says; BN_ERR_FORMAT
 * when the server sends something else; BN_ERR_INTEGRITY when the digest is
 * wrong (the .part is kept as .bad); BN_ERR_IO for the disk: too little space is reported before the
 * download; BN_ERR_CANCELLED. On any failure an old file at path is untouched. */
BN_MUST_CHECK bn_status bn_transfer_run(struct bn_transfer *transfer, bn_error *err);

/* Whether the file at path is complete and the right one: BN_ERR_NOT_FOUND, BN_ERR_INTEGRITY with both digests. Sets
 * digest and final_size. Nothing is downloaded. */
BN_MUST_CHECK bn_status bn_transfer_here(struct bn_transfer *transfer, bn_error *err);

/* Whether a server has the expected file, before the download. Sets sha256 from the hub's when it is "". */
struct bn_http_source;
BN_MUST_CHECK bn_status bn_transfer_check_source(const struct bn_transfer *t,
                                                 const struct bn_http_source *source,
                                                 char sha256[BN_SHA256_HEX], bn_error *err);
/* Whether the complete <path>.part may get its name: the header of its format. */
BN_MUST_CHECK bn_status bn_transfer_check_part(const struct bn_transfer *t, uint64_t size, bn_error *err);

/* ---- pieces.c ----
 *
 * The bytes of an unfinished download on disk: <path>.part, and the journal <path>.part.json that lists its
 * verified pieces.
 *
 * The journal is lines of JSON: the first names the file, each further one is {"piece": i, "n": bytes,
 * "gmac": hex}, a checksum (base/digest.h). A line is appended once its piece has been flushed, so that the
 * journal is correct whenever the process dies; an incomplete last line is ignored.
 *
 * A separate thread hashes, flushes and writes the journal, so that the network never waits for the disk. It
 * hashes each piece, and the complete file in order. */

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
/* Flushes, renames to <path><suffix>, which is "" for the final path, flushes the folder, removes the journal; closes. */
BN_MUST_CHECK bn_status bn_pieces_finish(struct bn_pieces *pieces, const char *suffix, bn_error *err);

#endif
