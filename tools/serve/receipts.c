/* SPDX-License-Identifier: MIT
 *
 * The list of receipts: a ring, the oldest first, which go first. A receipt is found in the list, from the newest on; no
 * path comes from a client.
 *
 * With a folder, a new receipt waits in the list with its text until the writer's thread has written it: the thread that
 * generates never waits for a disk. When a disk fails, receipts wait, and the writer tries again; what waits is bounded,
 * and those that come when it is full are lost, which is counted. Only the writer removes entries then.
 *
 * Receipts as files: DIR/ID.json, and with keys DIR/OWNER/ID.json, where OWNER are 16 digits that follow from the key.
 * Nobody but the server's user may read them: the tokens in a receipt are the text. Nobody else may write to the folder. A
 * file is complete or absent. Files with other names are left alone.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "tools/cli/report.h"
#include "tools/serve/job.h"

#define MAX_WAITING 4096u
#define MAX_WAITING_BYTES (64u << 20)
#define MEMORY_BYTES ((uint64_t)64 << 20) /* of all receipts without a folder */
#define FOLDER_BYTES ((uint64_t)1 << 30)
#define RETRY_S 1  /* after a failure */
#define PATROL_S 5 /* between two looks for those that are too old */

#define BATCH 64u     /* files that are written together */
#define PATH_ROOM 64u /* room for OWNER/ID.json */
#define HEX "0123456789abcdef"
#define OWNER_DIGITS 16u
#define ID_DIGITS (BN_SERVE_ID - 1)
#define SUFFIX ".json"
#define FEW_FILES 4u /* are flushed one by one */

/* One receipt. */
struct entry {
    char id[BN_SERVE_RECEIPT];
    uint64_t owner; /* of the key that asked for the answer; 0 without keys */
    uint64_t n_bytes;
    int64_t made_s;     /* UTC */
    struct bn_buf text; /* empty when it is in a file */
};

/* ---- receipts as files: names ---- */

/* The name that a file of DIR gives a receipt, "" when it is not one of ours. */
static void name_of(const char *file, char id[BN_SERVE_RECEIPT])
{
    size_t n = strspn(file, HEX), digits = 0;
    id[0] = '\0';
    if (n != ID_DIGITS) return;
    if (file[n] == '-') {
        digits = strspn(file + n + 1, "0123456789");
        if (digits == 0) return;
        n += 1 + digits;
    }
    if (n >= BN_SERVE_RECEIPT || strcmp(file + n, SUFFIX) != 0) return;
    memcpy(id, file, n);
    id[n] = '\0';
}

/* "ID.json.tmp-RANDOM": what a server that was killed left. */
static bool is_leftover(const char *file)
{
    char name[BN_SERVE_RECEIPT + sizeof SUFFIX], id[BN_SERVE_RECEIPT];
    const char *end = strstr(file, ".tmp-");
    if (end == NULL || (size_t)(end - file) >= sizeof name || strspn(end + 5, HEX) != 16 || end[21] != '\0')
        return false;
    memcpy(name, file, (size_t)(end - file));
    name[end - file] = '\0';
    name_of(name, id);
    return id[0] != '\0';
}

static void name_owner(char name[OWNER_DIGITS + 1], uint64_t owner)
{
    snprintf(name, OWNER_DIGITS + 1, "%016llx", (unsigned long long)owner);
}

/* Where it is in the folder: ID.json, with keys OWNER/ID.json. */
static void path_of(char path[PATH_ROOM], const struct entry *entry)
{
    char owner[OWNER_DIGITS + 1] = "";
    if (entry->owner != 0) name_owner(owner, entry->owner);
    snprintf(path, PATH_ROOM, "%s%s%s%s", owner, owner[0] != '\0' ? "/" : "", entry->id, SUFFIX);
}

/* ---- receipts as files: opening ---- */

/* Whoever may write there could put a link to a file of this user in the place of a receipt. */
static bn_status open_private(int at, const char *name, int follow, int *fd, bn_error *err)
{
    struct stat st;
    if (mkdirat(at, name, 0700) != 0 && errno != EEXIST)
        return bn_fail_errno(err, errno, name, "cannot make the folder");
    *fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | follow);
    if (*fd < 0 || fstat(*fd, &st) != 0) return bn_fail_errno(err, errno, name, "cannot open");
    if (st.st_uid != geteuid())
        return bn_hint(bn_fail_in(err, BN_ERR_AUTH, name,
                                  "the folder belongs to user %u, bn-serve runs as %u", (unsigned)st.st_uid,
                                  (unsigned)geteuid()),
                       err, "chown %u, or --receipts with another folder", (unsigned)geteuid());
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return bn_hint(bn_fail_in(err, BN_ERR_AUTH, name, "others may write to the folder"), err,
                       "chmod go-w");
    return faccessat(*fd, ".", W_OK | X_OK, 0) == 0 ? BN_OK
                                                    : bn_fail_errno(err, errno, name, "cannot write there");
}

/* Makes the folder and those of the owners, and locks it. The name of the folder itself may be a link. */
static bn_status open_folder(const struct bn_server *s, int *folder, bn_error *err)
{
    const char *name = s->o->receipts;
    char owner[OWNER_DIGITS + 1];
    BN_TRY(bn_file_make_folders(name, err));
    BN_TRY(open_private(AT_FDCWD, name, 0, folder, err));
    if (flock(*folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return bn_hint(bn_fail_in(err, BN_ERR_IO, name, "another bn-serve writes there"), err,
                       "give each server a folder of its own");
    for (uint32_t i = 1; i <= s->n_keys; i++) {
        int fd = -1;
        name_owner(owner, bn_keys_owner(s, i));
        bn_status status = open_private(*folder, owner, O_NOFOLLOW, &fd, err);
        if (fd >= 0) close(fd);
        BN_TRY(status);
    }
    return BN_OK;
}

/* ---- receipts as files: listing ---- */

struct listing {
    struct entry *list;
    size_t n, room;
};

static bn_status list_file(struct listing *l, int fd, const char *file, uint64_t owner, bn_error *err)
{
    struct stat st;
    struct entry entry = {.owner = owner};
    name_of(file, entry.id);
    bool leftover = entry.id[0] == '\0' && is_leftover(file);
    if ((entry.id[0] == '\0' && !leftover) || fstatat(fd, file, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return BN_OK;
    if (leftover) {
        (void)unlinkat(fd, file, 0);
        return BN_OK;
    }
    entry.n_bytes = (uint64_t)st.st_size;
    entry.made_s = st.st_mtime;
    BN_TRY(bn_array_grow(&l->list, &l->room, l->n + 1, sizeof *l->list, err));
    l->list[l->n++] = entry;
    return BN_OK;
}

/* A folder; below it, when owner is 0, those of owners. A folder that cannot be read is one without receipts. */
static bn_status list_folder(struct listing *l, int at, const char *name, uint64_t owner, bn_error *err)
{
    bn_status status = BN_OK;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL && fd >= 0) close(fd);
    if (dir == NULL) return BN_OK;
    for (struct dirent *d; status == BN_OK && (d = readdir(dir)) != NULL;) {
        bool is_owner =
            owner == 0 && strspn(d->d_name, HEX) == OWNER_DIGITS && d->d_name[OWNER_DIGITS] == '\0';
        status = is_owner ? list_folder(l, fd, d->d_name, strtoull(d->d_name, NULL, 16), err)
                          : list_file(l, fd, d->d_name, owner, err);
    }
    closedir(dir);
    return status;
}

static int by_age(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->made_s != y->made_s) return x->made_s < y->made_s ? -1 : 1;
    return strcmp(x->id, y->id);
}

/* ---- receipts as files: writing ---- */

struct writing {
    int fd; /* -1: not created */
    char path[PATH_ROOM], temp[PATH_ROOM + BN_TEMP_SUFFIX_BYTES];
};

static bn_status begin_file(struct writing *w, int folder, const struct entry *entry, bn_error *err)
{
    w->fd = -1;
    path_of(w->path, entry);
    BN_TRY(bn_file_temp_name(w->temp, sizeof w->temp, w->path, err));
    w->fd = openat(folder, w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (w->fd < 0) return bn_fail_errno(err, errno, w->path, "cannot create");
    return bn_file_write_all(w->fd, entry->text.data, entry->text.len, w->path, err);
}

static bn_status end_file(struct writing *w, int folder, bool flushed, bn_error *err)
{
    if (!flushed && fsync(w->fd) != 0) return bn_fail_errno(err, errno, w->path, "cannot flush");
    if (renameat(folder, w->temp, folder, w->path) != 0)
        return bn_fail_errno(err, errno, w->path, "cannot rename");
    return BN_OK;
}

/* So that the names survive a power failure. */
static void sync_owner(int folder, uint64_t owner)
{
    char name[OWNER_DIGITS + 1] = ".";
    if (owner != 0) name_owner(name, owner);
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

/* Writes receipts, each complete or not at all; *n_done of them were, from the first on.
 * Many files are flushed together, by flushing their file system: one at a time takes 6 ms each, 64 together 30 ms (ext4,
 * virtual disk of a Xeon). */
static bn_status write_receipts(int folder, const struct entry *const *entries, size_t n, size_t *n_done,
                                bn_error *err)
{
    bn_status status = BN_OK;
    size_t n_begun = 0;
    struct writing *files = bn_alloc(n, sizeof *files);
    *n_done = 0;
    if (files == NULL) return bn_nomem(err);
    while (n_begun < n && status == BN_OK) {
        status = begin_file(&files[n_begun], folder, entries[n_begun], err);
        n_begun++;
    }
    size_t n_good = n_begun - (status != BN_OK);
    bool flushed = n_good > FEW_FILES && syncfs(files[0].fd) == 0;
    for (size_t i = 0; i < n_begun; i++) {
        struct writing *w = &files[i];
        bn_status ended = i == *n_done && i < n_good ? end_file(w, folder, flushed, err) : BN_ERR_IO;
        if (ended == BN_OK)
            ++*n_done;
        else if (w->fd >= 0)
            (void)unlinkat(folder, w->temp, 0);
        if (w->fd >= 0) close(w->fd);
        if (status == BN_OK) status = ended;
        if (ended == BN_OK && (i + 1 == n_good || entries[i + 1]->owner != entries[i]->owner))
            sync_owner(folder, entries[i]->owner);
    }
    bn_free(files);
    return status;
}

/* ---- the list, and its writer ---- */

struct bn_receipts {
    const struct bn_serve_options *o;
    uint64_t max_bytes;
    int folder; /* a descriptor; -1: there is none */
    pthread_t writer;
    bool has_writer;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t work;
    bool stopping, losing;
    struct entry *ring;
    uint64_t room;
    uint64_t first, written, end; /* counted from the start: those from written on wait for the writer */
    struct bn_receipts_stats stats;
};

static struct entry *at(const struct bn_receipts *r, uint64_t i)
{
    return &r->ring[i % r->room];
}

/* ---- the list, under the lock ---- */

/* There is room. */
static void append(struct bn_receipts *r, const struct entry *entry)
{
    *at(r, r->end++) = *entry;
    r->stats.n_bytes += entry->n_bytes;
}

static bool is_old(const struct bn_receipts *r, const struct entry *entry)
{
    return r->o->receipts_age_s != 0 && bn_clock_utc() - entry->made_s > (int64_t)r->o->receipts_age_s;
}

/* Removes those that are too old, and the oldest above the bounds. Those that wait for the writer stay. */
static void trim(struct bn_receipts *r)
{
    char path[PATH_ROOM];
    while (r->first < (r->has_writer ? r->written : r->end)) {
        struct entry *entry = at(r, r->first);
        if (!is_old(r, entry) && r->end - r->first <= r->o->n_receipts && r->stats.n_bytes <= r->max_bytes)
            return;
        path_of(path, entry);
        bn_buf_release(&entry->text);
        r->stats.n_bytes -= entry->n_bytes;
        *entry = (struct entry){0};
        r->first++;
        if (r->folder < 0) continue;
        pthread_mutex_unlock(&r->lock);
        (void)unlinkat(r->folder, path, 0);
        pthread_mutex_lock(&r->lock);
    }
}

/* ---- the writer ---- */

/* What became of a batch. */
static void take_result(struct bn_receipts *r, size_t n_done, bn_status status, const bn_error *err)
{
    for (size_t i = 0; i < n_done; i++) {
        struct entry *entry = at(r, r->written++);
        r->stats.n_waiting_bytes -= entry->text.len;
        bn_buf_release(&entry->text);
        entry->text = (struct bn_buf){0};
    }
    if (status != BN_OK) {
        r->stats.n_failures++;
        if (!r->stats.failing) bn_report_warning("receipts wait in memory: %s: %s", err->where, err->msg);
    } else if (r->stats.failing) {
        bn_report_note(0, "receipts are written again");
    }
    r->stats.failing = status != BN_OK;
}

static void write_batch(struct bn_receipts *r)
{
    const struct entry *entries[BATCH];
    size_t n = bn_min_size((size_t)(r->end - r->written), BATCH), n_done = 0;
    bn_error err = {0};
    for (size_t i = 0; i < n; i++)
        entries[i] = at(r, r->written + i);
    pthread_mutex_unlock(&r->lock);
    bn_status status = write_receipts(r->folder, entries, n, &n_done, &err);
    pthread_mutex_lock(&r->lock);
    take_result(r, n_done, status, &err);
}

/* Until there is work, or it is time to try again or to look for those that are too old. */
static void wait_for_work(struct bn_receipts *r)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += r->stats.failing ? RETRY_S : PATROL_S;
    while (!r->stopping && (r->stats.failing || r->written == r->end))
        if (pthread_cond_timedwait(&r->work, &r->lock, &until) != 0) break;
}

/* At the end what waits is tried once more. */
static void *write_all(void *user)
{
    struct bn_receipts *r = user;
    bool last = false;
    pthread_mutex_lock(&r->lock);
    while (!last) {
        last = r->stopping;
        do {
            if (r->written < r->end) write_batch(r);
            trim(r);
        } while (r->written < r->end && !r->stats.failing);
        wait_for_work(r);
    }
    uint64_t n_left = r->end - r->written;
    pthread_mutex_unlock(&r->lock);
    if (n_left > 0) bn_report_warning("receipts that were not written: %llu", (unsigned long long)n_left);
    return NULL;
}

bn_status bn_serve_thread(pthread_t *thread, void *(*run)(void *), void *of, bn_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int why = pthread_create(thread, NULL, run, of);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return why == 0 ? BN_OK : bn_fail_errno(err, why, "thread", "cannot start");
}

/* ---- opening and closing ---- */

/* The oldest go first. */
static bn_status read_folder(struct bn_receipts *r, const struct bn_server *s, bn_error *err)
{
    struct listing l = {0};
    BN_TRY(open_folder(s, &r->folder, err));
    bn_status status = list_folder(&l, r->folder, ".", 0, err);
    if (l.n > 1) qsort(l.list, l.n, sizeof *l.list, by_age);
    for (size_t i = 0; i < l.n && status == BN_OK; i++) {
        append(r, &l.list[i]);
        r->written = r->end;
        trim(r);
    }
    bn_free(l.list);
    BN_TRY(status);
    BN_TRY(bn_serve_thread(&r->writer, write_all, r, err));
    r->has_writer = true;
    return BN_OK;
}

static bn_status allocate(struct bn_receipts *r, bn_error *err)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&r->work, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&r->lock, NULL);
    r->room = (uint64_t)r->o->n_receipts + MAX_WAITING;
    r->ring = bn_alloc(r->room, sizeof *r->ring);
    return r->ring != NULL ? BN_OK : bn_nomem(err);
}

bn_status bn_receipts_open(struct bn_server *s, bn_error *err)
{
    struct bn_receipts *r = s->receipts = bn_alloc(1, sizeof *r);
    if (r == NULL) return bn_nomem(err);
    r->o = s->o;
    r->folder = -1;
    r->max_bytes = s->o->receipts_bytes != 0 ? s->o->receipts_bytes
                   : s->o->receipts != NULL  ? FOLDER_BYTES
                                             : MEMORY_BYTES;
    BN_TRY(allocate(r, err));
    if (s->o->receipts == NULL) return BN_OK;
    pthread_mutex_lock(&r->lock);
    bn_status status = read_folder(r, s, err);
    pthread_mutex_unlock(&r->lock);
    return status;
}

/* Files stay. */
void bn_receipts_close(struct bn_server *s)
{
    struct bn_receipts *r = s->receipts;
    if (r == NULL) return;
    if (r->has_writer) {
        pthread_mutex_lock(&r->lock);
        r->stopping = true;
        pthread_cond_signal(&r->work);
        pthread_mutex_unlock(&r->lock);
        pthread_join(r->writer, NULL);
    }
    if (r->folder >= 0) close(r->folder);
    for (uint64_t i = r->first; r->ring != NULL && i < r->end; i++)
        bn_buf_release(&at(r, i)->text);
    pthread_cond_destroy(&r->work);
    pthread_mutex_destroy(&r->lock);
    bn_free(r->ring);
    bn_free(r);
}

/* ---- keeping and finding ---- */

static bn_status build(struct bn_server *s, const struct bn_choice *c, struct bn_buf *text, bn_error *err)
{
    bn_json *statement = NULL;
    struct bn_engine *engine = c->job->engine;
    bn_template tmpl = c->job->chat ? c->job->tmpl : BN_TEMPLATE_RAW;
    struct bn_receipt_input in = {
        .model = engine->model,
        .session = engine->session,
        .generation = &c->gen,
        .model_name = engine->name,
        .prompt = c->text,
        .n_prompt_bytes = c->n_text_bytes,
        .template_name = bn_template_name(tmpl),
        .thinking = bn_template_thinking(tmpl),
        .isa = s->args->isa,
        .load_ns = engine->load_ns,
        .n_threads = s->o->n_threads,
        .n_ctx = s->o->n_ctx,
        .n_batch = s->o->n_batch,
        .facts = &engine->facts,
    };
    BN_TRY(bn_receipt_build(&statement, &in, err));
    bn_status status = s->sign_key != NULL ? bn_receipt_sign(text, statement, s->sign_key, err)
                                           : bn_json_write_line(statement, false, text, err);
    bn_json_free(statement);
    return status;
}

/* Room for one more. */
static bool has_room(const struct bn_receipts *r, size_t n_bytes)
{
    return r->end - r->first < r->room && r->end - r->written < MAX_WAITING &&
           r->stats.n_waiting_bytes + n_bytes <= MAX_WAITING_BYTES;
}

/* Takes the text of the entry. The warning comes once for each time that receipts are lost. */
static void keep(struct bn_receipts *r, struct entry *entry)
{
    pthread_mutex_lock(&r->lock);
    if (!r->has_writer) r->written = r->end; /* nothing waits */
    bool fits = has_room(r, entry->text.len);
    if (fits) {
        append(r, entry);
        r->stats.n_made++;
    } else {
        bn_buf_release(&entry->text);
        r->stats.n_lost++;
    }
    if (!fits && !r->losing) bn_report_warning("receipts are lost: too many wait to be written");
    r->losing = !fits;
    if (r->has_writer) {
        r->stats.n_waiting_bytes += entry->text.len;
        pthread_cond_signal(&r->work);
    } else {
        trim(r);
    }
    pthread_mutex_unlock(&r->lock);
}

bn_status bn_receipts_keep(struct bn_server *s, struct bn_choice *c, bn_error *err)
{
    struct entry entry = {.made_s = bn_clock_utc(), .text.max = BN_JSON_MAX_BYTES};
    bn_status status = build(s, c, &entry.text, err);
    if (status != BN_OK) {
        bn_buf_release(&entry.text);
        pthread_mutex_lock(&s->receipts->lock);
        s->receipts->stats.n_lost++;
        pthread_mutex_unlock(&s->receipts->lock);
        return status;
    }
    entry.n_bytes = entry.text.len;
    entry.owner = bn_keys_owner(s, c->job->tenant);
    snprintf(entry.id, sizeof entry.id, "%s", c->receipt);
    keep(s->receipts, &entry);
    return BN_OK;
}

bool bn_receipts_find(struct bn_server *s, const char *id, uint32_t tenant, struct bn_buf *out)
{
    struct bn_receipts *r = s->receipts;
    char path[PATH_ROOM] = "";
    uint64_t owner = bn_keys_owner(s, tenant);
    const struct entry *entry = NULL;
    if (id[0] == '\0') return false;
    pthread_mutex_lock(&r->lock);
    for (uint64_t i = r->end; i-- > r->first && entry == NULL;)
        if (at(r, i)->owner == owner && strcmp(at(r, i)->id, id) == 0) entry = at(r, i);
    bool found = entry != NULL && !is_old(r, entry);
    if (found && entry->text.len > 0)
        bn_buf_append(out, entry->text.data, entry->text.len);
    else if (found)
        path_of(path, entry);
    pthread_mutex_unlock(&r->lock);
    if (found && path[0] != '\0') found = bn_file_read_own(r->folder, path, out, NULL) == BN_OK;
    return found && !out->failed;
}

struct bn_receipts_stats bn_receipts_stats(struct bn_server *s)
{
    struct bn_receipts *r = s->receipts;
    pthread_mutex_lock(&r->lock);
    struct bn_receipts_stats stats = r->stats;
    stats.n = r->end - r->first;
    stats.n_waiting = r->has_writer ? r->end - r->written : 0;
    pthread_mutex_unlock(&r->lock);
    return stats;
}
