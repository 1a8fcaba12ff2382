/* SPDX-License-Identifier: MIT
 *
 * A recorded profile as a source of snapshots: what a live profile would have shown after each of its passes, by
 * the same sums.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "lab/profile/document.h"
#include "tools/bench/top/top.h"

static bn_status read_document(struct bn_top_replay *r, const char *path, bn_error *err)
{
    struct bn_prof_network network;
    BN_TRY(bn_json_read_file(&r->document, path, err));
    return bn_prof_read(&r->prof, &network, r->document, err);
}

bn_status bn_top_replay_open(struct bn_top_replay *r, const char *path, bn_error *err)
{
    bn_status status = read_document(r, path, err);
    if (status == BN_OK && r->prof->n_passes == 0)
        status = bn_fail(err, BN_ERR_FORMAT, "no pass was recorded");
    if (status == BN_OK) return BN_OK;
    bn_error_name(err, path);
    bn_top_replay_close(r);
    return status;
}

void bn_top_replay_close(struct bn_top_replay *r)
{
    bn_prof_close(r->prof);
    bn_json_free(r->document);
    *r = (struct bn_top_replay){0};
}

static void copy_text(char *out, size_t room, const char *text)
{
    bn_escape(out, room, text, strlen(text));
}

static void fill_head(struct bn_live_head *h, const struct bn_top_replay *r)
{
    const char *command = bn_json_text_of(r->document, "command"),
               *isa = bn_json_text_of(r->document, "settings.isa"); /* bn-run has it outside */
    h->n_threads = r->prof->n_threads;
    h->level = r->prof->level;
    if (!bn_clock_parse(bn_json_text_of(r->document, "created"), &h->started_utc)) h->started_utc = 0;
    copy_text(h->program, sizeof h->program, strcmp(command, "profile") == 0 ? "bn-bench profile" : command);
    copy_text(h->model, sizeof h->model, bn_json_text_of(r->document, "model.name"));
    copy_text(h->isa, sizeof h->isa, isa[0] != '\0' ? isa : bn_json_text_of(r->document, "isa"));
}

/* Puts the events of one pass where those of the pass before were. */
static void copy_events(bn_prof *to, const bn_prof *from, size_t pass)
{
    bn_prof_forget_events(to);
    to->passes[to->n_passes++] = from->passes[pass];
    for (unsigned t = 0; t < from->n_threads; t++) {
        struct bn_prof_trail *trail = &to->trails[t];
        for (size_t i = 0; i < from->trails[t].n; i++) {
            struct bn_prof_event *e = &trail->events[trail->n];
            *e = from->trails[t].events[i];
            if (e->pass != pass && (e->pass != BN_PROF_NO_PASS || pass > 0)) continue;
            if (e->pass == pass) e->pass = 0;
            if (e->kernel != BN_PROF_NO_KERNEL && e->brick < BN_BRICK_KNOWN)
                trail->bricks[e->brick].ops += (uint64_t)e->shape.rows * e->shape.cols * e->shape.n;
            trail->n++;
        }
    }
}

bn_status bn_top_replay_read(struct bn_live_snapshot *out, const struct bn_top_replay *r, bn_error *err)
{
    const bn_prof *all = r->prof;
    struct bn_prof_options options = {.level = all->level, .n_threads = all->n_threads, .n_passes = 1};
    for (unsigned t = 0; t < all->n_threads; t++)
        if (all->trails[t].n >= options.n_events) options.n_events = all->trails[t].n + 1;
    *out = (struct bn_live_snapshot){.kernel_names = all->kernel_names, .pass_number = r->at};
    fill_head(&out->head, r);
    BN_TRY(bn_prof_open(&out->pass, &options, err));
    bn_prof *one = out->pass;
    one->clock = all->clock;
    one->epoch = all->epoch;
    one->kernel_names = all->kernel_names;
    one->passes_dropped = all->passes_dropped;
    for (size_t i = 0; i < r->at; i++) {
        copy_events(one, all, i);
        bn_prof_fold(one);
        bn_live_count(&out->sums, one, true);
    }
    bn_prof_finalize(one, out->sums.wall_ns);
    out->updated_ns = out->read_ns = out->sums.wall_ns;
    return BN_OK;
}
