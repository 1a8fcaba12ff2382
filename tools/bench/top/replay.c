/* SPDX-License-Identifier: MIT
 *
 * A recorded profile as a source of snapshots: what a live profile would have shown after each of its passes, by
 * the same sums.
 */
#include "base/clock.h"
#include "base/error.h"
#include "lab/profile/document.h"
#include "tools/bench/top/top.h"

static bn_status open_document(struct bn_top_replay *r, const char *path, bn_error *err)
{
    BN_TRY(bn_json_read_file(&r->document, path, err));
    BN_TRY(bn_prof_read(&r->prof, NULL, r->document, err));
    r->n_passes = r->prof->n_passes;
    r->n_events = bn_alloc(r->prof->n_threads, sizeof *r->n_events);
    if (r->n_events == NULL) return bn_nomem(err);
    for (unsigned t = 0; t < r->prof->n_threads; t++)
        r->n_events[t] = r->prof->trails[t].n;
    return r->n_passes > 0 ? BN_OK : bn_fail(err, BN_ERR_FORMAT, "no pass was recorded");
}

bn_status bn_top_replay_open(struct bn_top_replay *r, const char *path, bn_error *err)
{
    bn_status status = open_document(r, path, err);
    if (status == BN_OK) return BN_OK;
    bn_error_name(err, path);
    bn_top_replay_close(r);
    return status;
}

void bn_top_replay_close(struct bn_top_replay *r)
{
    bn_prof_close(r->prof);
    bn_json_free(r->document);
    bn_free(r->n_events);
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

/* Adds the events up to the end of a pass; what comes before the first one belongs to it. */
static void add_pass(const struct bn_top_replay *r, size_t pass)
{
    for (unsigned t = 0; t < r->prof->n_threads; t++) {
        struct bn_prof_trail *trail = &r->prof->trails[t];
        for (; trail->n < r->n_events[t] && trail->events[trail->n].pass + 1u <= pass + 1; trail->n++) {
            const struct bn_prof_event *e = &trail->events[trail->n];
            if (e->kernel != BN_PROF_NO_KERNEL && e->brick < BN_BRICK_KNOWN)
                trail->bricks[e->brick].ops += (uint64_t)e->shape.rows * e->shape.cols * e->shape.n;
        }
    }
    r->prof->n_passes = pass + 1;
    bn_prof_fold(r->prof);
}

void bn_top_replay_read(struct bn_live_snapshot *out, const struct bn_top_replay *r)
{
    uint64_t dropped = r->prof->passes_dropped;
    *out = (struct bn_live_snapshot){
        .kernel_names = r->prof->kernel_names, .pass_number = r->at, .pass = r->prof};
    fill_head(&out->head, r);
    bn_prof_reset_epoch(r->prof); /* the events stay where they are */
    r->prof->passes_dropped = dropped;
    for (size_t i = 0; i < r->at; i++) {
        add_pass(r, i);
        bn_live_count(&out->sums, r->prof, true);
    }
    out->updated_ns = out->read_ns = out->sums.wall_ns;
}
