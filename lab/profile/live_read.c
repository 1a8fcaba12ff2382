/* SPDX-License-Identifier: MIT
 *
 * Reads a live profile that another process publishes. Nothing in the file is trusted: sizes, counts, numbers
 * and texts are checked, and the file is read into memory of our own, not mapped.
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "lab/profile/live.h"

#define TRIES 2000u
#define PAUSE_NS 50000 /* between two tries: a writer needs some microseconds */

struct bn_live_reader {
    int fd;
    char path[BN_LIVE_PATH];
    struct bn_live_head head;
    size_t n_bytes;      /* of what follows the head */
    unsigned char *copy; /* of it */
};

/* ---- the head ---- */

static bn_status read_all(const struct bn_live_reader *r, void *out, size_t n, uint64_t at, bn_error *err)
{
    unsigned char *to = out;
    while (n > 0) {
        ssize_t got = pread(r->fd, to, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return bn_fail_errno(err, errno, r->path, "cannot read");
        if (got == 0) return bn_fail_in(err, BN_ERR_FORMAT, r->path, "the live profile is cut short");
        to += got;
        n -= (size_t)got;
        at += (uint64_t)got;
    }
    return BN_OK;
}

/* A text of the file, which becomes safe to print; false when it does not end. */
static bool clean(char *text, size_t room)
{
    char copy[160];
    const char *end = memchr(text, '\0', room);
    if (end == NULL) return false;
    memcpy(copy, text, (size_t)(end - text));
    bn_escape(text, room, copy, (size_t)(end - text));
    return true;
}

static bn_status check_head(struct bn_live_reader *r, uint64_t file_bytes, bn_error *err)
{
    static const uint32_t LAYOUT[] = BN_LIVE_LAYOUT;
    struct bn_live_head *h = &r->head;
    if (memcmp(h->magic, BN_LIVE_MAGIC, sizeof h->magic) != 0)
        return bn_fail_in(err, BN_ERR_FORMAT, r->path, "is not a live profile");
    if (memcmp(h->layout, LAYOUT, sizeof LAYOUT) != 0)
        return bn_hint(bn_fail_in(err, BN_ERR_UNSUPPORTED, r->path, "another version of bn wrote it"), err,
                       "use the bn-bench of the same build");
    if (h->n_threads == 0 || h->max_events == 0 || bn_live_bytes(h->n_threads, h->max_events) != file_bytes)
        return bn_fail_in(err, BN_ERR_FORMAT, r->path, "%llu bytes do not fit %u threads with %u events each",
                          (unsigned long long)file_bytes, h->n_threads, h->max_events);
    if (h->level >= BN_PROF_LEVELS || !isfinite(h->ns_per_tick) || h->ns_per_tick <= 0 ||
        h->ns_per_tick > 1e3 || h->pid == 0 || h->pid > INT32_MAX || !clean(h->program, sizeof h->program) ||
        !clean(h->model, sizeof h->model) || !clean(h->isa, sizeof h->isa) || bn_kernels_find(h->isa) == NULL)
        return bn_fail_in(err, BN_ERR_FORMAT, r->path, "the head of the live profile is damaged");
    return BN_OK;
}

static bn_status open_reader(struct bn_live_reader *r, const char *path, bn_error *err)
{
    struct stat st;
    if (strlen(path) >= sizeof r->path) return bn_fail(err, BN_ERR_ARG, "the path is too long");
    memcpy(r->path, path, strlen(path) + 1);
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (r->fd < 0) return bn_fail_errno(err, errno, path, "cannot open");
    if (fstat(r->fd, &st) != 0 || !S_ISREG(st.st_mode))
        return bn_fail_in(err, BN_ERR_FORMAT, path, "is not a regular file");
    if (st.st_size < (off_t)(sizeof r->head + sizeof(struct bn_live_body)))
        return bn_fail_in(err, BN_ERR_FORMAT, path, "is not a live profile");
    BN_TRY(read_all(r, &r->head, sizeof r->head, 0, err));
    BN_TRY(check_head(r, (uint64_t)st.st_size, err));
    r->n_bytes = (size_t)st.st_size - sizeof r->head;
    r->copy = bn_alloc_aligned(r->n_bytes, 1);
    return r->copy != NULL ? BN_OK : bn_nomem(err);
}

bn_status bn_live_attach(struct bn_live_reader **out, const char *path, bn_error *err)
{
    *out = NULL;
    struct bn_live_reader *r = bn_alloc(1, sizeof *r);
    if (r == NULL) return bn_nomem(err);
    r->fd = -1;
    bn_status status = open_reader(r, path, err);
    if (status == BN_OK)
        *out = r;
    else
        bn_live_detach(r);
    return status;
}

void bn_live_detach(struct bn_live_reader *r)
{
    if (r == NULL) return;
    if (r->fd >= 0) close(r->fd);
    bn_free(r->copy);
    bn_free(r);
}

/* ---- a consistent copy ---- */

static bn_status read_sequence(const struct bn_live_reader *r, uint64_t *sequence, bn_error *err)
{
    size_t at = sizeof r->head + offsetof(struct bn_live_body, sequence);
    bn_status status = read_all(r, sequence, sizeof *sequence, at, err);
    atomic_thread_fence(memory_order_seq_cst);
    return status;
}

static bn_status copy_consistently(struct bn_live_reader *r, bn_error *err)
{
    struct timespec pause = {0, PAUSE_NS};
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t before, after;
        BN_TRY(read_sequence(r, &before, err));
        if (before % 2 == 0) {
            BN_TRY(read_all(r, r->copy, r->n_bytes, sizeof r->head, err));
            atomic_thread_fence(memory_order_seq_cst);
            BN_TRY(read_sequence(r, &after, err));
            if (before == after) return BN_OK;
        }
        nanosleep(&pause, NULL);
    }
    return bn_fail_in(err, BN_ERR_FORMAT, r->path, "its writer was stopped in the middle of an update");
}

/* ---- the events of a pass ---- */

static bool is_valid(const struct bn_prof_event *e)
{
    bool kernel = e->kernel != BN_PROF_NO_KERNEL;
    if (kernel && e->kernel >= BN_KERNEL_COUNT) return false;
    if (e->brick >= BN_BRICK_KNOWN && !(kernel && e->brick == BN_BRICK_NONE)) return false;
    return (e->pass == 0 || e->pass == BN_PROF_NO_PASS) && e->layer >= -1 && e->depth < BN_PROF_DEPTH;
}

/* A profile of one pass, as if it had just been measured. */
static bn_status take_pass(struct bn_live_snapshot *out, const struct bn_live_reader *r,
                           const struct bn_live_body *body, bn_error *err)
{
    const struct bn_live_head *h = &out->head;
    const uint64_t *n_events = (const uint64_t *)(body + 1);
    const struct bn_prof_event *events = (const struct bn_prof_event *)(n_events + h->n_threads);
    struct bn_prof_options options = {
        .level = (enum bn_prof_level)h->level, .n_threads = h->n_threads, .n_events = 1, .n_passes = 1};
    for (unsigned t = 0; t < h->n_threads; t++) {
        if (n_events[t] > h->max_events)
            return bn_fail_in(err, BN_ERR_FORMAT, r->path, "thread %u has more events than fit", t);
        if (n_events[t] > options.n_events) options.n_events = (size_t)n_events[t];
    }
    BN_TRY(bn_prof_open(&out->pass, &options, err));
    bn_prof *prof = out->pass;
    prof->clock = (struct bn_tick_clock){true, h->ns_per_tick};
    prof->epoch = h->epoch;
    prof->kernel_names = out->kernel_names;
    prof->passes[prof->n_passes++] = body->pass;
    bool ok = true;
    for (unsigned t = 0; t < h->n_threads; t++, events += h->max_events)
        for (uint64_t i = 0; i < n_events[t] && ok; i++) {
            ok = is_valid(&events[i]);
            prof->trails[t].events[prof->trails[t].n++] = events[i];
        }
    if (!ok) return bn_fail_in(err, BN_ERR_FORMAT, r->path, "the events of the live profile are damaged");
    bn_prof_finalize(prof, bn_prof_ns(prof, body->pass.end));
    return BN_OK;
}

bn_status bn_live_read(struct bn_live_snapshot *out, struct bn_live_reader *r, bn_error *err)
{
    const struct bn_live_body *body = (const struct bn_live_body *)(const void *)r->copy;
    *out = (struct bn_live_snapshot){.has_ended = bn_live_writer_ended(r->fd)};
    BN_TRY(copy_consistently(r, err));
    out->head = r->head;
    out->updated_ns = body->updated_ns;
    out->read_ns = bn_clock_ns();
    out->load = body->load;
    out->sums = body->sums;
    out->pass_number = body->pass_number;
    out->kernel_names = bn_kernels_find(r->head.isa)->name;
    bn_status status = body->pass_number != 0 ? take_pass(out, r, body, err) : BN_OK;
    if (status != BN_OK) bn_live_release(out);
    return status;
}

void bn_live_release(struct bn_live_snapshot *snapshot)
{
    bn_prof_close(snapshot->pass);
    snapshot->pass = NULL;
}
