/* SPDX-License-Identifier: MIT
 *
 * Answers which process or thread created another. Only sampled ones are looked up, by binary search, so a
 * build that starts ten thousand processes stays fast.
 */
#include "lab/sampler/lineage.h"

#include <stdlib.h>

#include "base/error.h"
#include "lab/kit/order.h"

#define MAX_GENERATIONS 256u

void bn_lineage_release(struct bn_lineage *lineage)
{
    bn_free(lineage->list);
    *lineage = (struct bn_lineage){0};
}

bn_status bn_lineage_add(struct bn_lineage *lineage, const struct bn_birth *birth, bn_error *err)
{
    BN_TRY(bn_array_grow(&lineage->list, &lineage->room, lineage->n + 1, sizeof *lineage->list, err));
    lineage->list[lineage->n++] = *birth;
    return BN_OK;
}

/* ---- order ---- */

static int births_by_thread(const void *a, const void *b)
{
    const struct bn_birth *x = a, *y = b;
    int c = bn_compare_u64(x->tid, y->tid);
    return c != 0 ? c : bn_compare_u64(x->time_ns, y->time_ns);
}

static int names_by_thread(const void *a, const void *b)
{
    const struct bn_thread_name *x = a, *y = b;
    int c = bn_compare_u64(x->tid, y->tid);
    return c != 0 ? c : bn_compare_u64(x->time_ns, y->time_ns);
}

/* The latest birth of a thread that is not after a time; NULL for none. */
static const struct bn_birth *birth_of(const struct bn_lineage *lineage, uint32_t tid, uint64_t time_ns)
{
    const struct bn_birth *list = lineage->list;
    size_t at;
    BN_SEARCH(at, lineage->n, list[at].tid < tid || (list[at].tid == tid && list[at].time_ns <= time_ns));
    return at > 0 && list[at - 1].tid == tid ? &list[at - 1] : NULL;
}

/* ---- sampled threads ---- */

struct thread {
    uint32_t pid, tid;
};

struct threads {
    struct thread *list;
    size_t n;
};

static int by_process(const void *a, const void *b)
{
    const struct thread *x = a, *y = b;
    int c = bn_compare_u64(x->pid, y->pid);
    return c != 0 ? c : bn_compare_u64(x->tid, y->tid);
}

/* Each thread of which there are samples, and the first thread of its process, once. */
static bn_status find_sampled(struct threads *out, const bn_recording *r, bn_error *err)
{
    size_t n = 0, kept = 0;
    out->list = bn_alloc(r->n_samples * 2, sizeof *out->list);
    if (out->list == NULL) return bn_nomem(err);
    for (size_t i = 0; i < r->n_samples; i++) {
        const struct bn_sample *s = &r->samples[i];
        if (i > 0 && s[-1].pid == s->pid && s[-1].tid == s->tid) continue;
        out->list[n++] = (struct thread){s->pid, s->tid};
        out->list[n++] = (struct thread){s->pid, s->pid};
    }
    if (n > 0) qsort(out->list, n, sizeof *out->list, by_process);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || by_process(&out->list[kept - 1], &out->list[i]) != 0)
            out->list[kept++] = out->list[i];
    out->n = kept;
    return BN_OK;
}

/* ---- what they were born with ---- */

/* The first of the mappings, sorted by process, that is of a process. */
static size_t first_mapping(const bn_recording *r, size_t n, uint32_t pid)
{
    size_t at;
    BN_SEARCH(at, n, r->mappings[at].pid < pid);
    return at;
}

/* Adds what the processes that a process came from had mapped when it, or the one between, was forked. n:
 * mappings that were there before any was added. They keep their times, so that the process's own are later.
 */
static bn_status give_mappings(const struct bn_lineage *lineage, bn_recording *r, size_t n, uint32_t pid,
                               bn_error *err)
{
    uint64_t until = UINT64_MAX;
    uint32_t at = pid;
    for (unsigned i = 0; i < MAX_GENERATIONS; i++) {
        const struct bn_birth *birth = birth_of(lineage, at, until);
        if (birth == NULL || birth->parent_pid == at) return BN_OK;
        until = birth->time_ns;
        at = birth->parent_pid;
        for (size_t k = first_mapping(r, n, at); k < n && r->mappings[k].pid == at; k++) {
            struct bn_mapping own = r->mappings[k];
            if (own.time_ns > until) continue;
            own.pid = pid;
            BN_TRY(bn_recording_add_mapping(r, &own, own.path, err));
        }
    }
    return BN_OK;
}

static const struct bn_thread_name *name_of(const struct bn_thread_name *names, size_t n, uint32_t tid,
                                            uint64_t time_ns)
{
    size_t at;
    BN_SEARCH(at, n, names[at].tid < tid || (names[at].tid == tid && names[at].time_ns <= time_ns));
    return at > 0 && names[at - 1].tid == tid ? &names[at - 1] : NULL;
}

static bn_status give_name(const struct bn_lineage *lineage, bn_recording *r,
                           const struct bn_thread_name *names, size_t n, struct thread thread, bn_error *err)
{
    uint64_t until = UINT64_MAX, born = 0;
    uint32_t at = thread.tid;
    for (unsigned i = 0; i < MAX_GENERATIONS; i++) {
        const struct bn_thread_name *name = name_of(names, n, at, until);
        if (name != NULL)
            return i == 0 ? BN_OK : bn_recording_add_thread(r, born, thread.pid, thread.tid, name->name, err);
        const struct bn_birth *birth = birth_of(lineage, at, until);
        if (birth == NULL || birth->parent_tid == at) return BN_OK;
        until = birth->time_ns;
        if (i == 0) born = until;
        at = birth->parent_tid;
    }
    return BN_OK;
}

static bn_status give_all(const struct bn_lineage *lineage, bn_recording *r, const struct threads *sampled,
                          const struct bn_thread_name *names, size_t n_names, bn_error *err)
{
    size_t n_mappings = r->n_mappings;
    for (size_t i = 0; i < sampled->n; i++) {
        BN_TRY(give_name(lineage, r, names, n_names, sampled->list[i], err));
        if (i > 0 && sampled->list[i - 1].pid == sampled->list[i].pid) continue;
        BN_TRY(give_mappings(lineage, r, n_mappings, sampled->list[i].pid, err));
    }
    return BN_OK;
}

bn_status bn_lineage_apply(struct bn_lineage *lineage, bn_recording *r, bn_error *err)
{
    struct threads sampled = {0};
    if (lineage->n == 0 || r->n_samples == 0) return BN_OK;
    size_t n = r->n_threads;
    struct bn_thread_name *names = bn_alloc(n + 1, sizeof *names);
    if (names == NULL) return bn_nomem(err);
    if (n > 0) memcpy(names, r->threads, n * sizeof *names);
    qsort(names, n, sizeof *names, names_by_thread);
    qsort(lineage->list, lineage->n, sizeof *lineage->list, births_by_thread);
    bn_status status = find_sampled(&sampled, r, err);
    if (status == BN_OK) status = give_all(lineage, r, &sampled, names, n, err);
    bn_free(sampled.list);
    bn_free(names);
    bn_recording_finish(r);
    return status;
}
