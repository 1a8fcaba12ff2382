/* SPDX-License-Identifier: MIT
 *
 * The list of receipts: a ring, the oldest first, which go first. A receipt is found in the list, from the newest on; no
 * path comes from a client.
 *
 * With a folder, a new receipt waits in the list with its text until the writer's thread has written it: the thread that
 * generates never waits for a disk. When a disk fails, receipts wait, and the writer tries again; what waits is bounded,
 * and those that come when it is full are lost, which is counted. Only the writer removes entries then.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "tools/cli/default_model.h"
#include "tools/cli/report.h"
#include "tools/serve/serve.h"

#define MAX_WAITING 4096u
#define MAX_WAITING_BYTES (64u << 20)
#define MEMORY_BYTES ((uint64_t)64 << 20) /* of all receipts without a folder */
#define FOLDER_BYTES ((uint64_t)1 << 30)
#define RETRY_S 1  /* after a failure */
#define PATROL_S 5 /* between two looks for those that are too old */

struct bn_receipts {
    const struct bn_serve_options *o;
    uint64_t max_bytes;
    int folder; /* a descriptor; -1: there is none */
    pthread_t writer;
    bool has_writer;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t work;
    bool stopping, losing;
    struct bn_receipt_entry *ring;
    uint64_t room;
    uint64_t first, written, end; /* counted from the start: those from written on wait for the writer */
    struct bn_receipts_stats stats;
};

static struct bn_receipt_entry *at(const struct bn_receipts *r, uint64_t i)
{
    return &r->ring[i % r->room];
}

/* ---- the list, under the lock ---- */

/* There is room. */
static void append(struct bn_receipts *r, const struct bn_receipt_entry *entry)
{
    *at(r, r->end++) = *entry;
    r->stats.n_bytes += entry->n_bytes;
}

static bool is_old(const struct bn_receipts *r, const struct bn_receipt_entry *entry)
{
    return r->o->receipts_age_s != 0 && bn_clock_utc() - entry->made_s > (int64_t)r->o->receipts_age_s;
}

/* Removes those that are too old, and the oldest above the bounds. Those that wait for the writer stay. */
static void trim(struct bn_receipts *r)
{
    char path[BN_RECEIPTS_PATH];
    while (r->first < (r->has_writer ? r->written : r->end)) {
        struct bn_receipt_entry *entry = at(r, r->first);
        if (!is_old(r, entry) && r->end - r->first <= r->o->n_receipts && r->stats.n_bytes <= r->max_bytes)
            return;
        bn_receipts_path(path, entry);
        bn_buf_release(&entry->text);
        r->stats.n_bytes -= entry->n_bytes;
        *entry = (struct bn_receipt_entry){0};
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
        struct bn_receipt_entry *entry = at(r, r->written++);
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
    const struct bn_receipt_entry *entries[BN_RECEIPTS_BATCH];
    size_t n = bn_min_size((size_t)(r->end - r->written), BN_RECEIPTS_BATCH), n_done = 0;
    bn_error err = {0};
    for (size_t i = 0; i < n; i++)
        entries[i] = at(r, r->written + i);
    pthread_mutex_unlock(&r->lock);
    bn_status status = bn_receipts_folder_write(r->folder, entries, n, &n_done, &err);
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

/* Signals are for the main thread. */
static bn_status start_writer(struct bn_receipts *r, bn_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int why = pthread_create(&r->writer, NULL, write_all, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    r->has_writer = why == 0;
    return why == 0 ? BN_OK : bn_fail_errno(err, why, "thread", "cannot start");
}

/* ---- opening and closing ---- */

static bn_status read_folder(struct bn_receipts *r, const struct bn_server *s, bn_error *err)
{
    struct bn_receipt_entry *list = NULL;
    size_t n = 0;
    BN_TRY(bn_receipts_folder_open(s, &r->folder, err));
    BN_TRY(bn_receipts_folder_list(r->folder, &list, &n, err));
    for (size_t i = 0; i < n; i++) {
        append(r, &list[i]);
        r->written = r->end;
        trim(r);
    }
    bn_free(list);
    return start_writer(r, err);
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
    struct bn_receipt_input in = {
        .model = s->model,
        .session = s->session,
        .generation = &c->gen,
        .model_name = bn_cli_model_name(s->args),
        .prompt = c->text,
        .n_prompt_bytes = c->n_text_bytes,
        .template_name = bn_template_name(c->job->chat ? s->tmpl : BN_TEMPLATE_RAW),
        .thinking = c->job->chat ? bn_template_thinking(s->tmpl) : BN_THINKING_NONE,
        .isa = s->args->isa,
        .load_ns = s->load_ns,
        .n_threads = s->o->n_threads,
        .n_ctx = s->o->n_ctx,
        .n_batch = s->o->n_batch,
        .facts = &s->facts,
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
static void keep(struct bn_receipts *r, struct bn_receipt_entry *entry)
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
    struct bn_receipt_entry entry = {.made_s = bn_clock_utc(), .text.max = BN_JSON_MAX_BYTES};
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
    char path[BN_RECEIPTS_PATH] = "";
    uint64_t owner = bn_keys_owner(s, tenant);
    const struct bn_receipt_entry *entry = NULL;
    if (id[0] == '\0') return false;
    pthread_mutex_lock(&r->lock);
    for (uint64_t i = r->end; i-- > r->first && entry == NULL;)
        if (at(r, i)->owner == owner && strcmp(at(r, i)->id, id) == 0) entry = at(r, i);
    bool found = entry != NULL && !is_old(r, entry);
    if (found && entry->text.len > 0)
        bn_buf_append(out, entry->text.data, entry->text.len);
    else if (found)
        bn_receipts_path(path, entry);
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
