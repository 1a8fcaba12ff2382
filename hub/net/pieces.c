/* SPDX-License-Identifier: MIT
 *
 * The pieces of a download and their journal. Lines are appended without waiting for the disk: what a killed
 * process wrote is in the page cache, and after a power failure the digests show which pieces did not reach
 * the disk.
 */
#define _GNU_SOURCE
#include "hub/net/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "hub/files/document.h"

#define SCHEMA "bn.download/1"
#define MAX_PATH 4096u
#define MAX_JOURNAL_BYTES (256u << 20)
#define CHUNK_BYTES (256u << 10)
#define FLUSH_BYTES (64u << 20) /* written back at the latest after this many */

enum state { MISSING, WRITTEN, SAFE };

struct bn_pieces {
    char path[MAX_PATH], part[MAX_PATH + 16], journal[MAX_PATH + 32];
    int fd, log;
    _Atomic uint64_t size; /* 0: not known; then set once, while the thread runs */
    unsigned char *state;
    size_t n, room; /* n: 0 while the size is not known */
    size_t used;    /* pieces that state has entries for */
    size_t n_lines; /* pieces that the journal lists */
    bool loaded;    /* the journal has been read */
    bool placed;    /* the .part has its final name */
    unsigned char *chunk;
    struct bn_checksum *each; /* of one piece */
    struct bn_sha256 whole;
    size_t cursor; /* the next piece of the whole */

    /* The thread that hashes. It owns the members above except state, which the lock guards. */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running, stopping;
    bn_error failure;
};

static uint64_t piece_bytes(const struct bn_pieces *p, size_t i)
{
    uint64_t from = (uint64_t)i * BN_PIECE_BYTES, size = p->size;
    return size > 0 && size - from < BN_PIECE_BYTES ? size - from : BN_PIECE_BYTES;
}

/* Makes room for n entries; new ones are zero. */
static bn_status grow_zeros(void *list, size_t *room, size_t n, size_t each, bn_error *err)
{
    size_t before = *room;
    char *entries;
    BN_TRY(bn_array_grow(list, room, n, each, err));
    memcpy(&entries, list, sizeof entries);
    if (*room > before) memset(entries + before * each, 0, (*room - before) * each);
    return BN_OK;
}

static bn_status grow(struct bn_pieces *p, size_t used, bn_error *err)
{
    BN_TRY(grow_zeros(&p->state, &p->room, used, 1, err));
    if (used > p->used) p->used = used;
    return BN_OK;
}

/* ---- hashing ---- */

/* Reads piece i into `each`, and, with `also`, into the whole. */
static bn_status hash_piece(struct bn_pieces *p, size_t i, bool also, char hex[BN_CHECKSUM_HEX],
                            bn_error *err)
{
    uint64_t at = (uint64_t)i * BN_PIECE_BYTES, end = at + piece_bytes(p, i);
    while (at < end) {
        size_t wanted = end - at < CHUNK_BYTES ? (size_t)(end - at) : CHUNK_BYTES;
        ssize_t got = pread(p->fd, p->chunk, wanted, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return bn_fail_errno(err, errno, p->part, "cannot read");
        if (got == 0) return bn_fail_at(err, BN_ERR_IO, at, p->part, "unexpected end of the file");
        bn_checksum_update(p->each, p->chunk, (size_t)got);
        if (also) bn_sha256_update(&p->whole, p->chunk, (size_t)got);
        at += (uint64_t)got;
    }
    bn_checksum_take(p->each, hex);
    return BN_OK;
}

/* The state of the lowest piece that waits; false when there is none. Called with the lock. */
static bool next_written(const struct bn_pieces *p, size_t *i)
{
    for (*i = 0; *i < p->used; ++*i)
        if (p->state[*i] == WRITTEN) return true;
    return false;
}

/* Adds pieces that arrived out of order to the digest of the file. */
static bn_status catch_up(struct bn_pieces *p, bn_error *err)
{
    char hex[BN_CHECKSUM_HEX];
    for (;;) {
        pthread_mutex_lock(&p->lock);
        bool ready = p->cursor < p->used && p->state[p->cursor] == SAFE && !p->stopping;
        pthread_mutex_unlock(&p->lock);
        if (!ready) return BN_OK;
        BN_TRY(hash_piece(p, p->cursor, true, hex, err));
        p->cursor++;
    }
}

static bn_status take_piece(struct bn_pieces *p, size_t i, uint64_t *unflushed, bn_error *err)
{
    char hex[BN_CHECKSUM_HEX], line[160];
    bool also = i == p->cursor;
    BN_TRY(hash_piece(p, i, also, hex, err));
    if (also) p->cursor++;
    int n = snprintf(line, sizeof line, "{\"piece\": %zu, \"n\": %llu, \"gmac\": \"%s\"}\n", i,
                     (unsigned long long)piece_bytes(p, i), hex);
    p->n_lines++;
    BN_TRY(bn_file_write_all(p->log, line, (size_t)n, p->journal, err));
    *unflushed += BN_PIECE_BYTES;
    if (*unflushed >= FLUSH_BYTES) {
        *unflushed = 0;
        if (fdatasync(p->fd) != 0 || fdatasync(p->log) != 0)
            return bn_fail_errno(err, errno, p->part, "cannot flush");
    }
    pthread_mutex_lock(&p->lock);
    p->state[i] = SAFE;
    pthread_mutex_unlock(&p->lock);
    return catch_up(p, err);
}

static void *work(void *arg)
{
    struct bn_pieces *p = arg;
    uint64_t unflushed = 0;
    bn_error err = {0};
    pthread_mutex_lock(&p->lock);
    for (;;) {
        size_t i;
        while (!next_written(p, &i) && !p->stopping)
            pthread_cond_wait(&p->changed, &p->lock);
        if (i >= p->used || p->failure.code != BN_OK)
            break; /* nothing is left, or nothing more can be done */
        pthread_mutex_unlock(&p->lock);
        bn_status status = take_piece(p, i, &unflushed, &err);
        pthread_mutex_lock(&p->lock);
        if (status != BN_OK) p->failure = err;
        pthread_cond_broadcast(&p->changed);
        if (status != BN_OK) break;
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static bn_status start_thread(struct bn_pieces *p, bn_error *err)
{
    int bad = pthread_create(&p->thread, NULL, work, p);
    if (bad != 0) return bn_fail_errno(err, bad, p->part, "cannot start a thread");
    p->running = true;
    return BN_OK;
}

/* Everything that was written is hashed and in the journal afterwards, unless something failed. */
static void stop_thread(struct bn_pieces *p)
{
    if (!p->running) return;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    p->running = false;
    p->stopping = false;
}

static bn_status failure_of(struct bn_pieces *p, bn_error *err)
{
    pthread_mutex_lock(&p->lock);
    bn_error failure = p->failure;
    pthread_mutex_unlock(&p->lock);
    if (failure.code != BN_OK && err != NULL && err->code == BN_OK) *err = failure;
    return failure.code;
}

/* ---- the journal ---- */

static bn_status write_origin(struct bn_pieces *p, const struct bn_pieces_origin *origin, bn_error *err)
{
    struct bn_buf line = {.max = 1u << 16};
    const struct bn_hub_text TEXTS[] = {{"schema", SCHEMA},
                                        {"identity", origin->identity},
                                        {"etag", origin->etag},
                                        {"sha256", origin->sha256}};
    cJSON *o = bn_hub_object(TEXTS, BN_ARRAY_LEN(TEXTS));
    bool ok = cJSON_AddNumberToObject(o, "size", (double)origin->size) != NULL &&
              cJSON_AddNumberToObject(o, "piece_bytes", BN_PIECE_BYTES) != NULL;
    bn_status status = ok ? bn_hub_document_write(&line, o, false, err) : bn_nomem(err);
    cJSON_Delete(o);
    if (status == BN_OK) status = bn_file_write_all(p->log, line.data, line.len, p->journal, err);
    bn_buf_release(&line);
    return status;
}

/* Files with the same digest are the same, whatever server they come from. Without a digest, validator and
 * identity must be the same. */
static bool is_same(const cJSON *head, const struct bn_pieces_origin *origin)
{
    const char *etag = bn_hub_text_of(head, "etag"), *sha256 = bn_hub_text_of(head, "sha256");
    uint64_t size, piece;
    if (strcmp(bn_hub_text_of(head, "schema"), SCHEMA) != 0 || !bn_hub_whole(head, "size", &size) ||
        !bn_hub_whole(head, "piece_bytes", &piece) || piece != BN_PIECE_BYTES || size != origin->size)
        return false;
    if (sha256[0] != '\0' && origin->sha256[0] != '\0') return strcmp(sha256, origin->sha256) == 0;
    return etag[0] != '\0' && strcmp(etag, origin->etag) == 0 &&
           strcmp(bn_hub_text_of(head, "identity"), origin->identity) == 0;
}

/* The checksums that the journal lists, by piece; "" for a piece that it does not list. */
struct listed {
    char (*hex)[BN_CHECKSUM_HEX];
    size_t n;
    uint64_t part_bytes; /* of the .part: a piece beyond them cannot be there */
};

/* One line {"piece", "n", "gmac"}. Of several lines of one piece the last one counts. Any other line is
 * skipped. */
static bn_status read_line(struct bn_pieces *p, struct listed *listed, const cJSON *line, bn_error *err)
{
    uint64_t i, n;
    const char *gmac = bn_hub_text_of(line, "gmac");
    if (!bn_hub_whole(line, "piece", &i) || !bn_hub_whole(line, "n", &n) ||
        strlen(gmac) != BN_CHECKSUM_HEX - 1 || i >= BN_PIECES_MAX_BYTES / BN_PIECE_BYTES ||
        (p->n > 0 && i >= p->n) || n != piece_bytes(p, (size_t)i) ||
        i * BN_PIECE_BYTES + n > listed->part_bytes)
        return BN_OK;
    BN_TRY(grow(p, (size_t)i + 1, err));
    BN_TRY(grow_zeros(&listed->hex, &listed->n, (size_t)i + 1, sizeof *listed->hex, err));
    memcpy(listed->hex[i], gmac, BN_CHECKSUM_HEX);
    p->n_lines++;
    return BN_OK;
}

/* *used is where the last complete line ends. */
static bn_status read_lines(struct bn_pieces *p, struct listed *listed, const char *text, size_t *used,
                            bn_error *err)
{
    bn_status status = BN_OK;
    for (size_t n; status == BN_OK && text[*used + (n = strcspn(text + *used, "\n"))] != '\0';
         *used += n + 1) {
        cJSON *line = cJSON_ParseWithLength(text + *used, n);
        status = read_line(p, listed, line, err);
        cJSON_Delete(line);
    }
    return status;
}

/* Restarts the digest of the file: wrong bytes went into it. */
static void forget_whole(struct bn_pieces *p)
{
    bn_sha256_begin(&p->whole);
    p->cursor = 0;
}

/* Reads each listed piece and compares. One that differs is downloaded again, and then gets a new line. */
static bn_status verify(struct bn_pieces *p, const struct listed *listed, struct bn_pieces_found *found,
                        bn_error *err)
{
    char hex[BN_CHECKSUM_HEX];
    for (size_t i = 0; i < p->used && i < listed->n; i++) {
        uint64_t n = piece_bytes(p, i);
        if (listed->hex[i][0] == '\0') continue;
        bool also = i == p->cursor;
        bool good = hash_piece(p, i, also, hex, NULL) == BN_OK && strcmp(hex, listed->hex[i]) == 0;
        if (good) p->state[i] = SAFE;
        if (also && good) p->cursor++;
        if (also && !good) forget_whole(p);
        *(good ? &found->kept : &found->lost) += n;
        if (found->progress != NULL && !found->progress(found->user, good ? n : 0))
            return bn_fail(err, BN_ERR_CANCELLED, "stopped");
    }
    return BN_OK;
}

/* Begins a journal, and the part. */
static bn_status begin(struct bn_pieces *p, const struct bn_pieces_origin *origin, bn_error *err)
{
    if (ftruncate(p->log, 0) != 0 || lseek(p->log, 0, SEEK_SET) < 0)
        return bn_fail_errno(err, errno, p->journal, "cannot write");
    if (ftruncate(p->fd, 0) != 0) return bn_fail_errno(err, errno, p->part, "cannot write");
    p->n_lines = 0;
    return write_origin(p, origin, err);
}

/* ---- opening ---- */

/* A FIFO opens at once for reading and writing, and then waits for ever. */
static bn_status open_regular(int *fd, const char *path, bn_error *err)
{
    struct stat st;
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (*fd < 0) return bn_fail_errno(err, errno, path, "cannot create");
    if (fstat(*fd, &st) == 0 && S_ISREG(st.st_mode)) return BN_OK;
    close(*fd);
    *fd = -1;
    return bn_fail_in(err, BN_ERR_FORMAT, path, "not a regular file");
}

static bn_status open_files(struct bn_pieces *p, const char *path, bn_error *err)
{
    if (strlen(path) >= MAX_PATH) return bn_fail(err, BN_ERR_LIMIT, "a path is over 4095 bytes");
    snprintf(p->path, sizeof p->path, "%s", path);
    snprintf(p->part, sizeof p->part, "%s.part", path);
    snprintf(p->journal, sizeof p->journal, "%s.part.json", path);
    BN_TRY(open_regular(&p->fd, p->part, err));
    BN_TRY(open_regular(&p->log, p->journal, err));
    p->chunk = bn_alloc(CHUNK_BYTES, 1);
    if (p->chunk == NULL) return bn_nomem(err);
    bn_sha256_begin(&p->whole);
    return bn_checksum_open(&p->each, err);
}

/* Is there space for a file of this size? Asked before anything is downloaded or allocated for it. */
static bn_status check_space(const struct bn_pieces *p, uint64_t size, bn_error *err)
{
    struct statvfs disk;
    struct stat st;
    uint64_t available;
    if (size > BN_PIECES_MAX_BYTES)
        return bn_fail_in(err, BN_ERR_LIMIT, p->path, "a file of %llu bytes; the limit is 16 TiB",
                          (unsigned long long)size);
    if (fstat(p->fd, &st) != 0 || fstatvfs(p->fd, &disk) != 0 || disk.f_blocks == 0) return BN_OK;
    uint64_t have = (uint64_t)st.st_blocks * 512;
    if (size <= have || !bn_mul_ok(disk.f_bavail, disk.f_frsize, &available) || size - have <= available)
        return BN_OK;
    return bn_hint(bn_fail_in(err, BN_ERR_IO, p->part,
                              "not enough disk space: %llu bytes are needed, %llu are free",
                              (unsigned long long)(size - have), (unsigned long long)available),
                   err, "free some space or choose another folder; a later run continues from here");
}

/* Takes the disk space now, so that other programs cannot take it meanwhile. Not for a size that only the
 * server names: it could fill the disk without sending a byte. */
static bn_status reserve(struct bn_pieces *p, const struct bn_pieces_origin *origin, bn_error *err)
{
    if (!origin->reserve || p->size == 0) return BN_OK;
    if (fallocate(p->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)p->size) == 0) return BN_OK;
    int why = errno;
    if (why != EFBIG && why != ENOSPC && why != EDQUOT) return BN_OK; /* not supported here */
    BN_TRY(check_space(p, p->size, err));
    return bn_fail_errno(err, why, p->part, "cannot hold %llu bytes", (unsigned long long)p->size);
}

static bn_status set_size(struct bn_pieces *p, uint64_t size, bn_error *err)
{
    p->size = size;
    p->n = (size_t)((size + BN_PIECE_BYTES - 1) / BN_PIECE_BYTES);
    return grow(p, p->n, err);
}

/* What an earlier run left. A last line that was cut off goes, so that the next one begins on its own. */
static bn_status resume(struct bn_pieces *p, const char *text, size_t used, struct bn_pieces_found *found,
                        bn_error *err)
{
    struct listed listed = {0};
    struct stat st;
    if (fstat(p->fd, &st) == 0) listed.part_bytes = (uint64_t)st.st_size;
    bn_status status = read_lines(p, &listed, text, &used, err);
    if (status == BN_OK && (ftruncate(p->log, (off_t)used) != 0 || lseek(p->log, 0, SEEK_END) < 0))
        status = bn_fail_errno(err, errno, p->journal, "cannot write");
    if (status == BN_OK) status = verify(p, &listed, found, err);
    bn_free(listed.hex);
    return status;
}

static bn_status load(struct bn_pieces *p, const struct bn_pieces_origin *origin,
                      struct bn_pieces_found *found, bn_error *err)
{
    struct bn_buf text = {.max = MAX_JOURNAL_BYTES};
    bn_status status = bn_file_read_regular(p->journal, &text, err);
    const char *lines = bn_buf_text(&text);
    size_t n = strcspn(lines, "\n");
    cJSON *head = cJSON_ParseWithLength(lines, n);
    bool same = lines[n] == '\n' && is_same(head, origin);
    cJSON_Delete(head);
    found->other = n > 0 && !same;
    if (status == BN_OK) status = same ? resume(p, lines, n + 1, found, err) : begin(p, origin, err);
    p->loaded = status == BN_OK;
    bn_buf_release(&text);
    return status;
}

bn_status bn_pieces_open(struct bn_pieces **out, const char *path, const struct bn_pieces_origin *origin,
                         struct bn_pieces_found *found, bn_error *err)
{
    struct bn_pieces *p = bn_alloc(1, sizeof *p);
    *out = NULL;
    found->kept = found->lost = 0;
    found->other = false;
    if (p == NULL) return bn_nomem(err);
    p->fd = p->log = -1;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    bn_status status = open_files(p, path, err);
    if (status == BN_OK) status = check_space(p, origin->size, err);
    if (status == BN_OK) status = set_size(p, origin->size, err);
    if (status == BN_OK) status = load(p, origin, found, err);
    if (status == BN_OK) status = reserve(p, origin, err);
    if (status == BN_OK) status = start_thread(p, err);
    if (status == BN_OK)
        *out = p;
    else
        bn_pieces_close(p);
    return status;
}

/* What stays of a download that is not complete: the bytes that a later run can use. */
static void leave(const struct bn_pieces *p)
{
    struct stat st;
    if (p->fd < 0 || p->placed || fstat(p->fd, &st) != 0) return;
    if (p->loaded ? p->n_lines > 0 : st.st_size > 0) {
        (void)!ftruncate(p->fd, st.st_size); /* gives back what is reserved beyond the end */
        return;
    }
    (void)unlink(p->part);
    if (p->log >= 0) (void)unlink(p->journal);
}

void bn_pieces_close(struct bn_pieces *p)
{
    if (p == NULL) return;
    stop_thread(p);
    leave(p);
    if (p->fd >= 0) close(p->fd);
    if (p->log >= 0) close(p->log);
    bn_checksum_close(p->each);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
    bn_free(p->state);
    bn_free(p->chunk);
    bn_free(p);
}

void bn_pieces_drop(struct bn_pieces *p)
{
    stop_thread(p);
    p->n_lines = 0;
}

/* ---- writing ---- */

size_t bn_pieces_count(const struct bn_pieces *p)
{
    return p->n;
}

bool bn_pieces_has(struct bn_pieces *p, size_t i)
{
    pthread_mutex_lock(&p->lock);
    bool has = i < p->used && p->state[i] != MISSING;
    pthread_mutex_unlock(&p->lock);
    return has;
}

bn_status bn_pieces_restart(struct bn_pieces *p, const struct bn_pieces_origin *origin, bn_error *err)
{
    stop_thread(p);
    BN_TRY(failure_of(p, err));
    forget_whole(p);
    if (p->room > 0) memset(p->state, MISSING, p->room);
    p->used = 0;
    BN_TRY(begin(p, origin, err));
    BN_TRY(check_space(p, origin->size, err));
    BN_TRY(set_size(p, origin->size, err));
    BN_TRY(reserve(p, origin, err));
    return start_thread(p, err);
}

bn_status bn_pieces_write(struct bn_pieces *p, uint64_t at, const void *bytes, size_t n, bn_error *err)
{
    const char *from = bytes;
    if (n > BN_PIECES_MAX_BYTES || at > BN_PIECES_MAX_BYTES - n)
        return bn_fail_at(err, BN_ERR_LIMIT, at, p->path, "the file is over the limit of 16 TiB");
    while (n > 0) {
        ssize_t done = pwrite(p->fd, from, n, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return bn_fail_errno(err, errno, p->part, "cannot write");
        from += done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
    return BN_OK;
}

bn_status bn_pieces_done(struct bn_pieces *p, size_t i, bn_error *err)
{
    pthread_mutex_lock(&p->lock);
    bn_status status = grow(p, i + 1, err);
    if (status == BN_OK) p->state[i] = WRITTEN;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return status == BN_OK ? failure_of(p, err) : status;
}

bn_status bn_pieces_set_size(struct bn_pieces *p, uint64_t size, bn_error *err)
{
    pthread_mutex_lock(&p->lock);
    bn_status status = set_size(p, size, err);
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* ---- the end ---- */

bn_status bn_pieces_digest(struct bn_pieces *p, char sha256[BN_SHA256_HEX], bn_error *err)
{
    stop_thread(p);
    BN_TRY(failure_of(p, err));
    BN_TRY(catch_up(p, err));
    if (p->cursor != p->n) return bn_fail(err, BN_ERR_INTERNAL, "piece %zu is missing", p->cursor);
    bn_sha256_take_hex(&p->whole, sha256);
    return BN_OK;
}

static bn_status rename_part(struct bn_pieces *p, const char *to, bn_error *err)
{
    struct stat st;
    if (fstat(p->fd, &st) == 0 && (uint64_t)st.st_size < p->size)
        return bn_fail_in(err, BN_ERR_IO, p->part, "the file became shorter while it was downloaded");
    if (ftruncate(p->fd, (off_t)p->size) != 0 || fsync(p->fd) != 0)
        return bn_fail_errno(err, errno, p->part, "cannot flush");
    if (rename(p->part, to) != 0) return bn_fail_errno(err, errno, to, "cannot rename");
    p->placed = true;
    bn_file_sync_folder(to);
    (void)unlink(p->journal);
    return BN_OK;
}

bn_status bn_pieces_finish(struct bn_pieces *p, const char *suffix, bn_error *err)
{
    char to[MAX_PATH + 16];
    stop_thread(p);
    snprintf(to, sizeof to, "%s%s", p->path, suffix);
    bn_status status = rename_part(p, to, err);
    bn_pieces_close(p);
    return status;
}
