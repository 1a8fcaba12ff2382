/* SPDX-License-Identifier: MIT
 *
 * Publishes a live profile: after each pass the sums, and from time to time the events of the pass. The cost of
 * a pass grows with its events, not with the time that passed; nothing is allocated and no reader is waited
 * for. The bits of results do not depend on it.
 */
#define _DEFAULT_SOURCE /* flock */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "infer/session.h"
#include "lab/profile/live.h"

#define EVENTS_NS 20000000u   /* the events of a pass are copied this often at most */
#define MAX_ROOM (1u << 19)   /* events of a thread in memory: 28 MiB */
#define MAX_EVENTS (1u << 15) /* events of a thread in the file */
#define TOKENS_IN_FILE 8u     /* rows of a pass whose events fit into the file at the level of kernels */

/* What measuring takes: readings of the clock that take as long as an event, and what a pass takes besides. */
#define READINGS_PER_EVENT 5
#define PUBLISH_NS 400
#define MOST_OVERHEAD 0.005 /* of the time; passes that are left out take some, too */
#define MOST_SKIPPED 100

struct bn_live {
    bn_prof *prof;
    bn_session *session;
    struct bn_live_head *head;
    struct bn_live_body *body;
    uint64_t *n_events;
    struct bn_prof_event *events;
    uint64_t n_bytes;
    uint64_t copied_ns; /* when events were last copied, since the epoch */
    bool copies_next;   /* the events of the next pass */
    double median_ns;   /* of a pass, of late */
    uint32_t random;
    int fd;
    char path[BN_LIVE_PATH];
    bool named; /* the file has its name */
};

/* ---- writing ---- */

static uint64_t begin_write(struct bn_live_body *body)
{
    uint64_t sequence = atomic_load_explicit(&body->sequence, memory_order_relaxed);
    atomic_store_explicit(&body->sequence, sequence + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    return sequence + 2;
}

static void end_write(struct bn_live_body *body, uint64_t sequence)
{
    atomic_store_explicit(&body->sequence, sequence, memory_order_release);
}

/* Whether the events of all threads fit into the file. */
static bool fits(const struct bn_live *live)
{
    for (unsigned t = 0; t < live->prof->n_threads; t++)
        if (live->prof->trails[t].n > live->head->max_events) return false;
    return live->prof->n_passes == 1;
}

static void copy_events(struct bn_live *live)
{
    for (unsigned t = 0; t < live->prof->n_threads; t++) {
        const struct bn_prof_trail *trail = &live->prof->trails[t];
        memcpy(live->events + (size_t)t * live->head->max_events, trail->events,
               trail->n * sizeof *trail->events);
        live->n_events[t] = trail->n;
    }
    live->body->pass_number = live->body->sums.n_passes;
    live->body->pass = live->prof->passes[0];
}

static void sum_up(struct bn_live_sums *sums, const bn_prof *prof)
{
    sums->n_measured++;
    sums->dropped = bn_prof_dropped(prof);
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++)
        sums->bricks[i] = bn_prof_stats_for(prof, i, BN_PROF_ALL_THREADS);
    for (unsigned k = 0; prof->level == BN_PROF_KERNEL && k < BN_KERNEL_COUNT; k++)
        sums->kernels[k] = bn_prof_kernel_stats(prof, (enum bn_kernel)k, BN_PROF_ALL_THREADS);
    sums->wait_ns = sums->bricks[BN_BRICK_BARRIER_WAIT].exclusive_ns;
    sums->bricks_ns = 0;
    for (unsigned t = 0; t < prof->n_threads; t++) {
        const struct bn_prof_trail *trail = &prof->trails[t];
        sums->n_parts += trail->n > 0 && trail->events[trail->n - 1].pass + 1u == prof->n_passes;
        sums->bricks_ns += prof->trails[t].inside_ns[0]; /* what all its bricks took */
    }
}

void bn_live_count(struct bn_live_sums *sums, const bn_prof *prof, bool measured)
{
    const struct bn_prof_pass *pass = &prof->passes[prof->n_passes - 1];
    uint64_t begin = bn_prof_ns(prof, pass->begin);
    sums->wall_ns = bn_prof_ns(prof, pass->end);
    sums->n_passes++;
    sums->n_tokens += pass->n_tokens;
    sums->n_logits += pass->n_logits;
    sums->passes_ns += sums->wall_ns > begin ? sums->wall_ns - begin : 0;
    if (measured) sum_up(sums, prof);
}

/* From time to time the events of a pass that was measured. */
static void copy_pass(struct bn_live *live, uint64_t now)
{
    if (live->copies_next && fits(live)) {
        copy_events(live);
        live->copied_ns = now;
    }
    /* The one that is due is not copied but the one after it: the pass that runs at a moment is longer than
     * others in the mean. */
    live->copies_next = now - live->copied_ns > EVENTS_NS || live->body->pass_number == 0;
}

/* The median of late: one pass in which the thread did not run must not count for many. */
static void follow_median(struct bn_live *live, double pass_ns)
{
    if (live->body->sums.n_passes == 0)
        live->median_ns = pass_ns;
    else
        live->median_ns *= pass_ns > live->median_ns ? 1.125 : 0.875;
}

/* Leaves passes out when measuring all of them would take more than 1 % of the time. Their number varies, so
 * that it does not follow a rhythm of the passes. */
static void choose_skip(struct bn_live *live)
{
    const bn_prof *prof = live->prof;
    double reading = (double)prof->resolution * prof->clock.ns_per_tick;
    double cost = (double)prof->trails[0].n * READINGS_PER_EVENT * reading + PUBLISH_NS;
    double skip = cost / (MOST_OVERHEAD * live->median_ns) - 1;
    if (skip < 1) return;
    uint32_t most = skip < MOST_SKIPPED ? (uint32_t)skip : MOST_SKIPPED;
    live->random = live->random * 1664525u + 1013904223u;
    live->prof->n_skip = most / 2 + (live->random >> 16) % (most + 1);
}

/* After each pass. */
static void publish(void *user, bn_prof *prof)
{
    struct bn_live *live = user;
    if (prof->n_passes == 1) {
        uint64_t now = bn_prof_ns(prof, prof->passes[0].end), begin = bn_prof_ns(prof, prof->passes[0].begin);
        follow_median(live, (double)(now - begin));
        bn_prof_fold(prof);
        uint64_t sequence = begin_write(live->body);
        live->body->updated_ns = bn_clock_ns();
        bn_live_count(&live->body->sums, prof, !prof->rests);
        if (!prof->rests) copy_pass(live, now);
        end_write(live->body, sequence);
        if (!prof->rests) choose_skip(live);
    }
    bn_prof_forget_events(prof);
}

void bn_live_set_load(struct bn_live *live, const struct bn_live_load *load)
{
    if (live == NULL || memcmp(&live->body->load, load, sizeof *load) == 0) return;
    uint64_t sequence = begin_write(live->body);
    live->body->load = *load;
    end_write(live->body, sequence);
}

/* ---- the file ---- */

/* What is there may be replaced when it is the live profile of a process that has ended. */
static bn_status check_target(const char *path, bn_error *err)
{
    char magic[8] = {0};
    bn_status status = BN_OK;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno == ENOENT ? BN_OK : bn_fail_errno(err, errno, path, "cannot open");
    if (read(fd, magic, sizeof magic) != (ssize_t)sizeof magic || memcmp(magic, BN_LIVE_MAGIC, 8) != 0)
        status = bn_fail_in(err, BN_ERR_ARG, path, "exists and is not a live profile");
    else if (!bn_live_writer_ended(fd))
        status = bn_fail_in(err, BN_ERR_ARG, path, "another process publishes its profile there");
    close(fd);
    return status;
}

/* Makes the file under another name, locked: a reader sees it when it is complete. */
static bn_status map_file(struct bn_live *live, char temp[BN_LIVE_PATH + BN_TEMP_SUFFIX_BYTES], bn_error *err)
{
    BN_TRY(bn_file_temp_name(temp, BN_LIVE_PATH + BN_TEMP_SUFFIX_BYTES, live->path, err));
    live->fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (live->fd < 0) return bn_fail_errno(err, errno, live->path, "cannot create");
    int failed = posix_fallocate(live->fd, 0, (off_t)live->n_bytes);
    if (failed != 0) return bn_fail_errno(err, failed, live->path, "cannot reserve space");
    if (flock(live->fd, LOCK_EX | LOCK_NB) != 0) return bn_fail_errno(err, errno, live->path, "cannot lock");
    void *map = mmap(NULL, (size_t)live->n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, live->fd, 0);
    if (map == MAP_FAILED) return bn_fail_errno(err, errno, live->path, "cannot map");
    live->head = map;
    live->body = (struct bn_live_body *)(live->head + 1);
    live->n_events = (uint64_t *)(live->body + 1);
    live->events = (struct bn_prof_event *)(live->n_events + live->prof->n_threads);
    return BN_OK;
}

static void fill_head(struct bn_live *live, const struct bn_live_options *o, uint32_t max_events)
{
    struct bn_live_head *h = live->head;
    const bn_prof *prof = live->prof;
    *h = (struct bn_live_head){
        .layout = BN_LIVE_LAYOUT,
        .n_threads = prof->n_threads,
        .max_events = max_events,
        .level = prof->level,
        .pid = (uint32_t)getpid(),
        .started_utc = bn_clock_utc(),
        .started_ns = bn_clock_ns(),
        .ns_per_tick = prof->clock.ns_per_tick,
        .epoch = prof->epoch,
    };
    memcpy(h->magic, BN_LIVE_MAGIC, sizeof h->magic);
    snprintf(h->program, sizeof h->program, "%s", o->program);
    snprintf(h->model, sizeof h->model, "%s", o->model);
    snprintf(h->isa, sizeof h->isa, "%s", live->session->model->kernels->isa);
    live->body->updated_ns = bn_clock_ns();
}

static bn_status walk(uint32_t **list, size_t *n, bn_error *err);

static bn_status choose_path(struct bn_live *live, const char *path, bn_error *err)
{
    char name[16];
    snprintf(name, sizeof name, "%u", (unsigned)getpid());
    if (path == NULL) {
        BN_TRY(bn_live_path(live->path, name, true, err));
        return walk(NULL, NULL, err);
    }
    if (strlen(path) >= sizeof live->path) return bn_fail(err, BN_ERR_ARG, "the path is too long");
    snprintf(live->path, sizeof live->path, "%s", path);
    return check_target(live->path, err);
}

static bn_status make_file(struct bn_live *live, const struct bn_live_options *o, bn_error *err)
{
    char temp[BN_LIVE_PATH + BN_TEMP_SUFFIX_BYTES];
    uint64_t n_tokens = bn_min_size(live->session->n_batch, TOKENS_IN_FILE);
    uint64_t max = bn_prof_room_for(&live->session->model->hp, o->level, 1, n_tokens) + 4 * n_tokens;
    if (max > MAX_EVENTS) max = MAX_EVENTS;
    while ((live->n_bytes = bn_live_bytes(live->prof->n_threads, max)) == 0)
        max /= 2;
    BN_TRY(choose_path(live, o->path, err));
    bn_status status = map_file(live, temp, err);
    if (status == BN_OK) {
        fill_head(live, o, (uint32_t)max);
        live->named = rename(temp, live->path) == 0;
        if (!live->named) status = bn_fail_errno(err, errno, live->path, "cannot create");
    }
    if (status != BN_OK && live->fd >= 0) unlink(temp);
    return status;
}

static bn_status attach(struct bn_live *live, const struct bn_live_options *o, bn_error *err)
{
    uint64_t n_batch = live->session->n_batch;
    /* One pass, and what follows it: two events for each of its tokens. */
    uint64_t room = bn_prof_room_for(&live->session->model->hp, o->level, 1, n_batch) + 4 * n_batch + 64;
    struct bn_prof_options options = {.level = o->level,
                                      .n_threads = live->session->n_threads,
                                      .n_events = (size_t)(room < MAX_ROOM ? room : MAX_ROOM),
                                      .n_passes = 2};
    BN_TRY(bn_prof_open(&live->prof, &options, err));
    live->prof->watch = publish;
    live->prof->watch_user = live;
    BN_TRY(bn_session_set_profile(live->session, live->prof, err));
    live->prof->enabled = true;
    bn_prof_reset_epoch(live->prof);
    return make_file(live, o, err);
}

bn_status bn_live_open(struct bn_live **out, bn_session *session, const struct bn_live_options *options,
                       bn_error *err)
{
    *out = NULL;
    struct bn_live *live = bn_alloc(1, sizeof *live);
    if (live == NULL) return bn_nomem(err);
    live->fd = -1;
    live->session = session;
    live->copies_next = true;
    bn_status status = attach(live, options, err);
    if (status == BN_OK)
        *out = live;
    else
        bn_live_close(live);
    return status;
}

/* Whether the name still leads to this file. */
static bool is_ours(const struct bn_live *live)
{
    struct stat named, open_file;
    return live->named && lstat(live->path, &named) == 0 && fstat(live->fd, &open_file) == 0 &&
           named.st_dev == open_file.st_dev && named.st_ino == open_file.st_ino;
}

void bn_live_close(struct bn_live *live)
{
    if (live == NULL) return;
    bn_status detached = bn_session_set_profile(live->session, NULL, NULL); /* cannot fail */
    (void)detached;
    bn_prof_close(live->prof);
    if (is_ours(live)) unlink(live->path);
    if (live->head != NULL) munmap(live->head, (size_t)live->n_bytes);
    if (live->fd >= 0) close(live->fd);
    bn_free(live);
}

/* ---- where files are: the folder of this user, and whether their writers still run ---- */

static bool find_folder(char out[BN_LIVE_PATH])
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    int n;
    if (base != NULL && base[0] == '/')
        n = snprintf(out, BN_LIVE_PATH, "%s/bn", base);
    else if (geteuid() == 0)
        n = snprintf(out, BN_LIVE_PATH, "/run/bn");
    else
        n = snprintf(out, BN_LIVE_PATH, "/tmp/bn-%u", (unsigned)geteuid());
    return n > 0 && (size_t)n < BN_LIVE_PATH;
}

/* In /tmp, somebody else may have made a folder of this name. */
static bn_status check_private(const char *folder, bn_error *err)
{
    struct stat st;
    if (lstat(folder, &st) != 0) return bn_fail_errno(err, errno, folder, "no live profiles");
    if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 077) == 0) return BN_OK;
    return bn_hint(bn_fail_in(err, BN_ERR_IO, folder, "is not a directory of this user alone (mode 0700)"),
                   err, "set XDG_RUNTIME_DIR to such a directory");
}

bn_status bn_live_path(char out[BN_LIVE_PATH], const char *name, bool make, bn_error *err)
{
    if (!find_folder(out)) return bn_fail(err, BN_ERR_ARG, "XDG_RUNTIME_DIR is too long");
    if (make && mkdir(out, 0700) != 0 && errno != EEXIST)
        return bn_hint(bn_fail_errno(err, errno, out, "cannot create the directory"), err,
                       "set XDG_RUNTIME_DIR to a directory of mode 0700");
    BN_TRY(check_private(out, err));
    size_t used = strlen(out);
    int n = snprintf(out + used, BN_LIVE_PATH - used, "/%s", name);
    if (n < 0 || (size_t)n >= BN_LIVE_PATH - used) return bn_fail(err, BN_ERR_ARG, "the name is too long");
    return BN_OK;
}

bool bn_live_writer_ended(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) != 0) return false;
    flock(fd, LOCK_UN);
    return true;
}

/* The number that a file is named by; 0 for other names. */
static uint32_t number_of(const char *name)
{
    char *end;
    if (name[0] < '1' || name[0] > '9') return 0;
    unsigned long n = strtoul(name, &end, 10);
    return *end == '\0' && n <= INT32_MAX ? (uint32_t)n : 0;
}

static bool is_live(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    bool live = fd >= 0 && !bn_live_writer_ended(fd);
    if (fd >= 0) close(fd);
    return live;
}

/* NULL: there is no folder, or it cannot be read. */
static DIR *open_folder(bn_error *err)
{
    char path[BN_LIVE_PATH];
    return bn_live_path(path, "", false, err) == BN_OK ? opendir(path) : NULL;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Lists the processes that publish or, with list NULL, removes the files of those that have ended. */
static bn_status walk(uint32_t **list, size_t *n, bn_error *err)
{
    bn_error none = {0};
    size_t room = 0;
    bn_status status = BN_OK;
    DIR *folder = open_folder(&none);
    if (folder == NULL && none.code != BN_OK && none.code != BN_ERR_NOT_FOUND) {
        if (err != NULL) *err = none;
        return none.code;
    }
    for (struct dirent *e; status == BN_OK && folder != NULL && (e = readdir(folder)) != NULL;) {
        uint32_t pid = number_of(e->d_name);
        bool live = pid != 0 && is_live(dirfd(folder), e->d_name);
        if (list == NULL && pid != 0 && !live) unlinkat(dirfd(folder), e->d_name, 0);
        if (list == NULL || !live) continue;
        status = bn_array_grow(list, &room, *n + 1, sizeof **list, err);
        if (status == BN_OK) (*list)[(*n)++] = pid;
    }
    if (folder != NULL) closedir(folder);
    return status;
}

bn_status bn_live_list(uint32_t **list, size_t *n, bn_error *err)
{
    *list = NULL;
    *n = 0;
    bn_status status = walk(list, n, err);
    if (*n > 0) qsort(*list, *n, sizeof **list, by_number);
    return status;
}
