/* SPDX-License-Identifier: MIT
 *
 * Turns the samples of a recording into paths of tags and named functions.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "lab/kit/order.h"
#include "lab/symbols/symbols.h"

/* A name of a thread from a time on, and what the thread is called in the stacks while it has it. */
struct name {
    const struct bn_thread_name *of;
    bool used; /* by a sample */
    char label[32];
};

struct resolving {
    bn_stacks *stacks;
    const bn_recording *recording;
    bn_symbols *symbols;
    const struct bn_resolve_options *options;
    struct bn_stack_quality *quality;
    struct name *names; /* by process, thread and time */
    size_t n_names;
    size_t window; /* that the next sample may lie in */
};

/* ---- threads ---- */

/* Those of one text in one process together, in the order in which they were given. */
static int names_by_text(const void *a, const void *b)
{
    const struct bn_thread_name *x = (*(struct name *const *)a)->of, *y = (*(struct name *const *)b)->of;
    int c = bn_compare_u64(x->pid, y->pid);
    if (c == 0) c = strcmp(x->name, y->name);
    if (c == 0) c = bn_compare_u64(x->time_ns, y->time_ns);
    return c != 0 ? c : bn_compare_u64(x->tid, y->tid);
}

/* The name that a thread has at a time, else its first one; NULL when it has none. */
static struct name *find_name(const struct resolving *r, uint32_t pid, uint32_t tid, uint64_t time_ns)
{
    const struct bn_thread_name key = {.time_ns = time_ns, .pid = pid, .tid = tid};
    size_t at;
    BN_SEARCH(at, r->n_names, bn_recording_name_order(r->names[at].of, &key) <= 0);
    for (size_t i = at > 0 ? at - 1 : 0; i <= at && i < r->n_names; i++)
        if (r->names[i].of->pid == pid && r->names[i].of->tid == tid) return &r->names[i];
    return NULL;
}

/* Threads of one name are numbered within their process, in the order in which they got it; those that no
 * sample saw under it do not count. */
static bn_status label_threads(struct resolving *r, bn_error *err)
{
    struct name **used = bn_alloc(r->n_names, sizeof *used);
    size_t n_used = 0, group = 0;
    unsigned n = 0; /* threads in the group of one name */
    if (used == NULL) return bn_nomem(err);
    for (size_t i = 0; i < r->n_names; i++)
        if (r->names[i].used) used[n_used++] = &r->names[i];
    if (n_used > 0) qsort(used, n_used, sizeof *used, names_by_text);
    for (size_t i = 0; i < n_used; i++) {
        const struct bn_thread_name *of = used[i]->of, *first = used[group]->of;
        if (of->pid != first->pid || strcmp(of->name, first->name) != 0) {
            group = i;
            n = 0;
        }
        size_t same = group; /* it may have had the name before */
        while (used[same]->of->tid != of->tid)
            same++;
        if (same == i) n++;
        if (same < i)
            memcpy(used[i]->label, used[same]->label, sizeof used[i]->label);
        else
            snprintf(used[i]->label, sizeof used[i]->label, n > 1 ? "%s %u" : "%s", of->name, n);
    }
    bn_free(used);
    return BN_OK;
}

static bn_status read_names(struct resolving *r, bn_error *err)
{
    const bn_recording *from = r->recording;
    BN_TRY(BN_NEW(r->names, from->n_threads, err));
    for (; r->n_names < from->n_threads; r->n_names++)
        r->names[r->n_names] = (struct name){.of = &from->threads[r->n_names]};
    for (size_t i = 0; i < from->n_samples; i++) {
        const struct bn_sample *s = &from->samples[i];
        struct name *name = find_name(r, s->pid, s->tid, s->time_ns);
        if (name != NULL) name->used = true;
    }
    return label_threads(r, err);
}

/* ---- samples ---- */

static bn_status push_tags(struct resolving *r, const struct bn_sample *sample, uint32_t *node, bn_error *err)
{
    const struct name *process = find_name(r, sample->pid, sample->pid, sample->time_ns);
    const struct name *thread = find_name(r, sample->pid, sample->tid, sample->time_ns);
    const char *of_process = process != NULL ? process->of->name : "[unknown]";
    BN_TRY(bn_stacks_push_name(r->stacks, node, BN_FRAME_PROCESS, of_process, err));
    BN_TRY(bn_stacks_push_name(r->stacks, node, BN_FRAME_THREAD, thread != NULL ? thread->label : of_process,
                               err));
    return r->options->tag == NULL ? BN_OK : r->options->tag(r->options->user, sample, r->stacks, node, err);
}

/* *shown: whether it is the program's; else it is the sampler's alone. */
static bn_status push_chain(struct resolving *r, const struct bn_sample *sample, uint32_t *node, bool *shown,
                            bn_error *err)
{
    const uint64_t *chain = r->recording->addresses + sample->chain;
    const struct bn_frame *frames = NULL, *next;
    size_t n = 0, n_next, n_chain = sample->n_chain;
    bool rooted, begun = false;
    BN_TRY(bn_symbols_chain(r->symbols, sample, chain, &n_chain, err));
    for (size_t i = n_chain; i-- > 0;) {
        BN_TRY(bn_symbols_at(r->symbols, sample->pid, chain[i], sample->time_ns,
                             BN_SAMPLE_IS_CALLER(sample, i), i < sample->n_system, &next, &n_next, err));
        frames = next;
        n = n_next;
        /* How many frames around main or a thread's function are found depends on how a stack was walked: none is
         * shown, so that paths that are the same look the same. */
        begun = begun || i <= sample->n_system || frames[0].kind != BN_FRAME_CODE ||
                bn_symbols_root(frames[0].name) != BN_ROOT_AROUND;
        if (!begun) continue;
        for (size_t k = 0; k < n; k++)
            BN_TRY(bn_stacks_push(r->stacks, node, &frames[k], SIZE_MAX, err));
    }
    *shown = frames != NULL || n_chain == 0;
    if (!*shown) return BN_OK;
    if (frames == NULL) BN_TRY(bn_stacks_push_name(r->stacks, node, BN_FRAME_UNKNOWN, "[unknown]", err));
    BN_TRY(bn_symbols_rooted(r->symbols, sample, chain, n_chain, &rooted, err));
    r->quality->rooted += rooted;
    /* A copy of the stack that ends early does no harm to one that is complete. */
    unsigned cut = BN_SAMPLE_CUT | (rooted ? 0u : BN_SAMPLE_DUMP_CUT);
    r->quality->cut += (sample->flags & cut) != 0;
    r->quality->leaf_unknown += frames == NULL || frames[n - 1].kind == BN_FRAME_UNKNOWN;
    return BN_OK;
}

/* The stacks' run that a sample belongs to; false for none. Samples come in the order of time. */
static bool find_run(struct resolving *r, const struct bn_sample *sample, size_t *run)
{
    const struct bn_resolve_options *o = r->options;
    *run = o->first_run;
    if (o->windows == NULL) return true;
    while (r->window < o->n_windows && o->windows[r->window].to_ns <= sample->time_ns)
        r->window++;
    *run += r->window;
    return r->window < o->n_windows && o->windows[r->window].from_ns <= sample->time_ns;
}

static bn_status resolve_sample(struct resolving *r, const struct bn_sample *sample, bn_error *err)
{
    uint32_t node = BN_STACKS_ROOT;
    size_t run;
    bool shown;
    if (!find_run(r, sample, &run)) {
        r->quality->outside++;
        return BN_OK;
    }
    BN_TRY(push_tags(r, sample, &node, err));
    BN_TRY(push_chain(r, sample, &node, &shown, err));
    if (!shown) return BN_OK;
    bn_stacks_add(r->stacks, node, run, (double)sample->weight, 1);
    r->quality->samples++;
    r->quality->unwound += (sample->flags & BN_SAMPLE_UNWOUND) != 0;
    return BN_OK;
}

bn_status bn_resolve(bn_stacks *stacks, const bn_recording *recording, bn_symbols *symbols,
                     const struct bn_resolve_options *options, struct bn_stack_quality *quality,
                     bn_error *err)
{
    static const struct bn_resolve_options nothing = {0};
    struct resolving r = {.stacks = stacks,
                          .recording = recording,
                          .symbols = symbols,
                          .options = options != NULL ? options : &nothing,
                          .quality = quality};
    size_t runs = r.options->first_run + (r.options->windows != NULL ? r.options->n_windows : 1);
    if (runs > stacks->n_runs)
        return bn_fail(err, BN_ERR_ARG, "the recording has %zu runs, the stacks have %zu", runs,
                       stacks->n_runs);
    bn_status status = read_names(&r, err);
    for (size_t i = 0; i < recording->n_samples && status == BN_OK; i++)
        status = resolve_sample(&r, &recording->samples[i], err);
    struct bn_symbols_counts counts = bn_symbols_counts(symbols);
    quality->symbols.addresses += counts.addresses;
    quality->symbols.unknown += counts.unknown;
    quality->symbols.other_builds += counts.other_builds;
    bn_free(r.names);
    return status;
}

/* ---- the document ---- */

static void put_count(bn_json *object, const char *name, const char *name_of_share, uint64_t part,
                      uint64_t whole, const char *no_whole)
{
    bn_json_put_u64(object, name, part);
    bn_json_put_finite(object, name_of_share, (double)part / (double)whole, no_whole);
}

void bn_stack_quality_put(bn_json *document, const struct bn_stack_quality *quality)
{
    const struct bn_symbols_counts *symbols = &quality->symbols;
    static const char no_samples[] = "there are no samples", no_addresses[] = "there are no addresses";
    bn_json *o = bn_json_put_object(document, "quality");
    bn_json_put_u64(o, "samples", quality->samples);
    bn_json_put_u64(o, "outside", quality->outside);
    put_count(o, "rooted", "rooted_share", quality->rooted, quality->samples, no_samples);
    put_count(o, "cut", "cut_share", quality->cut, quality->samples, no_samples);
    put_count(o, "unwound", "unwound_share", quality->unwound, quality->samples, no_samples);
    put_count(o, "leaf_unknown", "leaf_unknown_share", quality->leaf_unknown, quality->samples, no_samples);
    bn_json_put_u64(o, "addresses", symbols->addresses);
    put_count(o, "addresses_unknown", "addresses_unknown_share", symbols->unknown, symbols->addresses,
              no_addresses);
    put_count(o, "addresses_other_builds", "addresses_other_builds_share", symbols->other_builds,
              symbols->addresses, no_addresses);
}
