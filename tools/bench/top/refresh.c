/* SPDX-License-Identifier: MIT
 *
 * Finds the process or document that is shown, and reads it again and again: differences of two snapshots, the
 * graph of a pass, and the times of a document to compare with.
 */
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "lab/profile/document.h"
#include "tools/bench/top/top.h"

const char *const bn_top_state_names[] = {"running", "recorded", "idle", "ended"};

#define RECORD_HINT "bn-bench profile --json and bn-run --profile FILE record profiles"
#define NONE_HINT "start a program with --live, for example: bn-serve --live"

/* ---- a recorded profile: what a live one would have shown after each of its passes, by the same sums ---- */

static bn_status open_document(struct bn_top_replay *r, const char *path, bn_error *err)
{
    BN_TRY(bn_json_read_file(&r->document, path, err));
    BN_TRY(bn_prof_read(&r->prof, NULL, r->document, err));
    r->n_passes = r->prof->n_passes;
    BN_TRY(BN_NEW(r->n_events, r->prof->n_threads, err));
    for (unsigned t = 0; t < r->prof->n_threads; t++)
        r->n_events[t] = r->prof->trails[t].n;
    return r->n_passes > 0 ? BN_OK : bn_fail(err, BN_ERR_FORMAT, "no pass was recorded");
}

static void close_replay(struct bn_top_replay *r)
{
    bn_prof_close(r->prof);
    bn_json_free(r->document);
    bn_free(r->n_events);
    *r = (struct bn_top_replay){0};
}

/* BN_ERR_FORMAT when the file is not a bn.profile/1 with passes. */
static bn_status open_replay(struct bn_top_replay *r, const char *path, bn_error *err)
{
    bn_status status = open_document(r, path, err);
    if (status == BN_OK) return BN_OK;
    bn_error_name(err, path);
    close_replay(r);
    return status;
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

/* As bn_live_read, after r->at passes. The pass in it and the names are borrowed. */
static void read_replay(struct bn_live_snapshot *out, const struct bn_top_replay *r)
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

/* ---- finding it ---- */

/* The only program that publishes. */
static bn_status find_only(char path[BN_LIVE_PATH], bn_error *err)
{
    uint32_t *list = NULL;
    size_t n = 0;
    char name[16], others[128] = "";
    BN_TRY(bn_live_list(&list, &n, err));
    for (size_t i = 0, used = 0; i < n && used + 12 < sizeof others; i++)
        used += (size_t)snprintf(others + used, sizeof others - used, " %u", list[i]);
    snprintf(name, sizeof name, "%u", n == 1 ? list[0] : 0);
    bn_free(list);
    if (n == 1) return bn_live_path(path, name, false, err);
    if (n == 0)
        return bn_hint(bn_fail(err, BN_ERR_NOT_FOUND, "no running program publishes its profile"), err,
                       NONE_HINT);
    return bn_hint(bn_fail(err, BN_ERR_ARG, "%zu programs publish their profile:%s", n, others), err,
                   "bn-bench top PID; bn-bench top --list names them");
}

static bn_status find_file(char path[BN_LIVE_PATH], const char *name, bn_error *err)
{
    if (name == NULL) return find_only(path, err);
    if (name[0] != '\0' && strspn(name, "0123456789") == strlen(name))
        return bn_live_path(path, name, false, err);
    if (strlen(name) >= BN_LIVE_PATH) return bn_fail(err, BN_ERR_ARG, "the path is too long");
    memcpy(path, name, strlen(name) + 1);
    return BN_OK;
}

static bn_status read_budget(struct bn_top_budget *out, const char *path, bn_error *err)
{
    struct bn_top_replay document = {0};
    BN_TRY(open_replay(&document, path, err));
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++) {
        struct bn_brick_stats b = bn_prof_stats_for(document.prof, i, BN_PROF_ALL_THREADS);
        if (b.count > 0) out->ns[i] = (double)b.inclusive_ns / (double)b.count;
    }
    out->given = true;
    close_replay(&document);
    return BN_OK;
}

/* A document is text, and a live profile begins with its magic. */
static bool is_document(const char *path)
{
    struct stat st;
    FILE *file = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "re") : NULL;
    int c = file != NULL ? getc(file) : EOF;
    while (c == ' ' || c == '\n' || c == '\r' || c == '\t')
        c = getc(file);
    if (file != NULL) fclose(file);
    return c == '{';
}

/* Of a document the first snapshot is before all passes, and the one that is shown after them. */
static bn_status open_source(struct bn_top *top, const char *path, bn_error *err)
{
    if (!is_document(path)) {
        BN_TRY(bn_live_attach(&top->reader, path, err));
        return bn_top_refresh(top, err);
    }
    BN_TRY(open_replay(&top->replay, path, err));
    BN_TRY(bn_top_refresh(top, err));
    return bn_top_move(top, LONG_MAX, err);
}

bn_status bn_top_open(struct bn_top *top, bn_error *err)
{
    const struct bn_args *args = top->args;
    char path[BN_LIVE_PATH];
    if (top->o->budget != NULL) BN_TRY(read_budget(&top->budget, top->o->budget, err));
    BN_TRY(BN_NEW(top->now, 1, err));
    BN_TRY(BN_NEW(top->rows.list, BN_TOP_ROWS, err));
    bn_status status = find_file(path, args->n_operands > 0 ? args->operands[0] : NULL, err);
    if (status == BN_OK) status = open_source(top, path, err);
    if (status == BN_ERR_NOT_FOUND) bn_error_hint(err, NONE_HINT);
    if (status == BN_ERR_FORMAT) bn_error_hint(err, RECORD_HINT);
    return status;
}

/* ---- a refresh ---- */

/* A sum cannot fall; in a damaged file it may. */
static uint64_t rise(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

/* From the first refresh to the second one, but at least what the passes took: a long pass began earlier. The
 * time of a process that has ended stops with its last pass. */
static uint64_t length_of(const struct bn_live_snapshot *now, const struct bn_live_snapshot *before,
                          uint64_t passes_ns)
{
    if (before == NULL) return rise(now->has_ended ? now->updated_ns : now->read_ns, now->head.started_ns);
    uint64_t between = rise(now->updated_ns, before->updated_ns);
    uint64_t refresh = rise(now->read_ns, before->read_ns);
    if (between < refresh) refresh = between;
    return refresh > passes_ns ? refresh : passes_ns;
}

void bn_top_window(struct bn_top_window *out, const struct bn_live_snapshot *now,
                   const struct bn_live_snapshot *before)
{
    out->sums = now->sums;
    uint64_t *to = (uint64_t *)&out->sums; /* it is made of such numbers */
    for (size_t i = 0; before != NULL && i < sizeof out->sums / sizeof *to; i++)
        to[i] = rise(to[i], ((const uint64_t *)&before->sums)[i]);
    out->seconds = (double)length_of(now, before, out->sums.passes_ns) / 1e9;
}

static void close_pass(struct bn_top_pass *pass)
{
    bn_schedule_close(&pass->schedule);
    bn_graph_close(&pass->graph);
}

static bn_status make_pass(struct bn_top_pass *out, const struct bn_live_snapshot *s, bn_error *err)
{
    if (s->pass == NULL)
        return bn_fail(err, BN_ERR_NOT_FOUND,
                       s->sums.n_passes == 0 ? "no pass has run" : "no pass was small enough");
    BN_TRY(bn_graph_add_profile(&out->graph, s->pass, NULL, s->pass->n_passes - 1, 1, err));
    return bn_schedule_open(&out->schedule, &out->graph, NULL, err);
}

static void release(const struct bn_top *top, struct bn_live_snapshot *snapshot)
{
    if (snapshot != NULL && top->replay.document == NULL) bn_live_release(snapshot);
    bn_free(snapshot);
}

void bn_top_close(struct bn_top *top)
{
    close_pass(&top->pass);
    release(top, top->now);
    bn_free(top->rows.list);
    bn_live_detach(top->reader);
    close_replay(&top->replay);
}

#define IDLE_NS 2000000000u /* without a pass, when the program does not say whether it works */

static enum bn_top_state state_of(const struct bn_top *top, const struct bn_live_snapshot *now)
{
    if (top->replay.document != NULL) return BN_TOP_RECORDED;
    if (now->has_ended) return BN_TOP_ENDED;
    if (now->load.n_sequences > 0) return now->load.n_running > 0 ? BN_TOP_RUNNING : BN_TOP_IDLE;
    return now->read_ns > now->updated_ns + IDLE_NS ? BN_TOP_IDLE : BN_TOP_RUNNING;
}

bn_status bn_top_refresh(struct bn_top *top, bn_error *err)
{
    struct bn_live_snapshot *next = bn_alloc(1, sizeof *next);
    bn_error why = {0};
    bool is_first = top->now->head.n_threads == 0;
    if (next == NULL) return bn_nomem(err);
    if (top->reader == NULL) {
        read_replay(next, &top->replay);
    } else if (bn_live_read(next, top->reader, &why) != BN_OK) {
        top->now->has_ended = next->has_ended;
        bn_free(next);
        snprintf(top->trouble, sizeof top->trouble, "%s", why.msg);
        top->state = state_of(top, top->now);
        if (is_first && err != NULL) *err = why;
        return is_first ? why.code : BN_OK; /* what was read before is still shown */
    }
    top->trouble[0] = '\0';
    if (is_first || next->sums.n_measured != top->now->sums.n_measured)
        bn_top_window(&top->window, next, is_first ? NULL : top->now);
    close_pass(&top->pass); /* its names are in the snapshot */
    release(top, top->now);
    top->now = next;
    top->state = state_of(top, next);
    top->pass = (struct bn_top_pass){0};
    bn_graph_open(&top->pass.graph);
    top->pass.known = make_pass(&top->pass, next, &top->pass.why) == BN_OK;
    bn_top_remake(top);
    return BN_OK;
}

bn_status bn_top_move(struct bn_top *top, long by, bn_error *err)
{
    struct bn_top_replay *r = &top->replay;
    size_t n = r->n_passes;
    size_t to = by < 0 ? r->at - bn_min_size(r->at, (size_t)-by) : r->at + bn_min_size(n - r->at, (size_t)by);
    if (to == 0) to = bn_min_size(n, 1);
    if (to == r->at) return BN_OK;
    r->at = to - 1; /* what it differs from */
    BN_TRY(bn_top_refresh(top, err));
    r->at = to;
    return bn_top_refresh(top, err);
}
