/* SPDX-License-Identifier: MIT
 *
 * The thread that generates. Between two passes it starts what waits, looks for clients that left, and hands on what has
 * ended. It never waits for a client.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "model/device.h"
#include "model/model.h"
#include "tools/cli/report.h"
#include "tools/serve/job.h"

#define PING_NS (10u * (uint64_t)SECOND) /* of silence */
#define MAX_RETRY_S 120u
#define LOST "device_lost" /* the code of such errors */

bn_status bn_engine_open(struct bn_engine *e, bn_error *err)
{
    const struct bn_serve_options *o = e->server->o;
    struct bn_args args = *e->server->args;
    bn_session_options options = {.n_ctx = o->n_ctx,
                                  .n_batch = o->n_batch,
                                  .n_threads = o->n_threads,
                                  .snapshot_bytes = o->snapshot_bytes};
    bn_session *session = NULL;
    /* Each conversation needs one; the others serve what several have in common. */
    if (options.snapshot_bytes == 0)
        options.snapshot_bytes = (o->n_sequences + 4ull) * bn_model_state_bytes(e->model);
    BN_TRY(bn_session_open(&session, e->model, &options, err));
    e->session = session;
    args.model = e->file;
    if (e->name == e->server->engines[0].name)
        BN_TRY(bn_cli_live_open(&e->live, &args, &o->live, e->session, err));
    BN_TRY(bn_lanes_open(&e->lanes, e->session, e->tok, o->n_sequences, err));
    e->lanes.slowdown = o->max_slowdown;
    return bn_sequence_open(&e->embedding, e->session, 0, err);
}

/* ---- called by the HTTP thread ---- */

/* By the mean time of a request. */
unsigned bn_engine_retry_after(const struct bn_server *s)
{
    const struct bn_histogram *h = &s->metrics.request;
    double mean = h->n > 0 ? h->sum / (double)h->n : 1.0;
    double seconds = mean * (double)(s->n_waiting + s->n_waiters) / (double)s->o->n_sequences;
    return seconds < 1.0 ? 1 : seconds > MAX_RETRY_S ? MAX_RETRY_S : (unsigned)seconds;
}

bool bn_engine_admit(struct bn_server *s, uint64_t client, size_t n, struct bn_reply *reply)
{
    if (s->stopping) {
        reply->retry_after_s = 1;
        return bn_reply_error(reply, 503, NULL, NULL, "the server is stopping");
    }
    /* The last quarter of the queue is for clients that have nothing in it. */
    uint64_t room = (uint64_t)s->o->max_queue + s->n_lanes,
             n_all = s->n_running + s->n_waiting + s->n_waiters;
    if (bn_queue_knows(s, client)) room -= s->o->max_queue / 4;
    if (n_all + n <= room && bn_queue_enter(s, client, bn_clock_ns())) return true;
    s->metrics.n_rejected++;
    reply->retry_after_s = bn_engine_retry_after(s);
    return bn_reply_error(reply, 429, NULL, "queue_full", "%zu answers are waiting already",
                          s->n_waiting + s->n_waiters);
}

static bool enter(struct bn_server *s, struct bn_job *job, struct bn_reply *reply)
{
    if (job->engine->lost)
        return bn_reply_error(reply, 503, NULL, LOST,
                              "the device that computes was lost; the server has to be started again");
    size_t most = s->o->max_queue + s->n_lanes;
    if (job->n_choices > most)
        return bn_reply_error(reply, 400, "n", NULL,
                              "the request is for %zu answers; at most %zu can run and wait (--sequences, "
                              "--max-queue)",
                              job->n_choices, most);
    if (!bn_engine_admit(s, job->client, job->n_choices, reply)) return false;
    struct bn_job **end = &s->jobs;
    while (*end != NULL)
        end = &(*end)->next;
    *end = job;
    job->n_owners++;
    job->written_ns = bn_clock_ns();
    s->n_waiting += job->n_choices;
    s->metrics.n_jobs++;
    return true;
}

bool bn_engine_submit(struct bn_server *s, struct bn_job *job, struct bn_reply *reply)
{
    uint64_t one = 1;
    if (job->stream && job->protocol->start != NULL) job->protocol->start(job);
    pthread_mutex_lock(&s->lock);
    bool entered = enter(s, job, reply);
    pthread_mutex_unlock(&s->lock);
    (void)!write(s->wake, &one, sizeof one);
    return entered;
}

/* ---- the end of a job ---- */

static void finish_job(struct bn_server *s, struct bn_job *job)
{
    if (!job->dropped) bn_answer_end(job);
    pthread_mutex_lock(&s->lock);
    struct bn_job **at = &s->jobs;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    s->metrics.n_jobs_done++;
    s->metrics.n_left += job->dropped;
    bn_status_observe(&s->metrics.request, bn_clock_ns() - job->since_ns);
    job->done = true;
    bn_listener_resume(job);
    bn_queue_leave(s, job->client);
    bn_job_release(job);
    pthread_mutex_unlock(&s->lock);
}

/* An answer of bytes that no digest names is not one. */
static void keep_receipt(struct bn_server *s, struct bn_choice *c)
{
    bn_error err = {0};
    bn_status status = bn_receipts_keep(s, c, &err);
    if (status != BN_OK) bn_report_warning("no receipt %s: %s", c->receipt, err.msg);
    if (status != BN_ERR_INTEGRITY) return;
    bn_answer_failed(c->job, 503, NULL, err.msg);
    c->job->dropped = true;
}

/* May free the job. */
static void end_choice(struct bn_server *s, struct bn_choice *c)
{
    struct bn_job *job = c->job;
    pthread_mutex_lock(&s->lock);
    c->ended = true;
    pthread_mutex_unlock(&s->lock);
    if (job->engine->embeds == job) {
        bn_embed_stop(job);
        job->engine->embeds = NULL;
    }
    if (!job->dropped && c->gen.stuck == BN_ERR_NOMEM) {
        bn_answer_failed(job, 503, NULL, "out of memory");
        job->dropped = true; /* the sweep drops the rest of it */
    }
    if (!job->dropped && job->embed == NULL) {
        if (job->replay == NULL) keep_receipt(s, c);
        if (!job->dropped) bn_answer_choice_end(c);
    }
    pthread_mutex_lock(&s->lock);
    s->n_running -= c->started;
    s->n_waiting -= !c->started;
    s->metrics.n_generations += c->started && job->embed == NULL;
    if (c->started && job->embed != NULL) s->metrics.prompt_tokens += c->gen.n_prompt;
    bn_status_end(c);
    bn_queue_charge(s, c, bn_clock_ns());
    pthread_mutex_unlock(&s->lock);
    if (++job->n_ended == job->n_choices) finish_job(s, job);
}

/* The choices that run, or those that wait. */
static size_t count(const struct bn_job *job, bool started)
{
    size_t n = 0;
    for (size_t i = 0; i < job->n_choices; i++)
        n += job->choices[i].started == started && !job->choices[i].ended;
    return n;
}

/* Ends these. May free the job. */
static void end_choices(struct bn_server *s, struct bn_job *job, bool started)
{
    struct bn_choice *c = job->choices;
    for (size_t n = count(job, started); n > 0; c++) {
        if (c->started != started || c->ended) continue;
        n--; /* the last one may free the job */
        end_choice(s, c);
    }
}

static void cancel(struct bn_job *job)
{
    for (size_t i = 0; i < job->n_choices; i++)
        if (job->choices[i].started && !job->choices[i].ended)
            bn_scheduler_cancel(job->engine->lanes.scheduler, &job->choices[i].gen);
}

/* Its client left, or it failed: what runs is cancelled, what waits is dropped. May free the job. */
static void drop_job(struct bn_server *s, struct bn_job *job)
{
    job->dropped = true;
    cancel(job);
    end_choices(s, job, false);
}

static void fail_job(struct bn_server *s, struct bn_job *job, unsigned status, const char *message)
{
    if (job->dropped) return;
    bn_answer_failed(job, status, NULL, message);
    drop_job(s, job);
}

/* ---- a pass ---- */

static bool on_token(void *user, int32_t id, const char *text, size_t n_bytes)
{
    struct bn_choice *c = user;
    struct bn_job *job = c->job;
    (void)id;
    pthread_mutex_lock(&job->server->lock);
    if (job->first_ns == 0 && c->gen.n_ids > 0) job->first_ns = bn_clock_ns();
    bn_status_tokens(c, bn_clock_ns());
    pthread_mutex_unlock(&job->server->lock);
    bn_answer_token(c, text, n_bytes);
    return true;
}

static bool may_start(struct bn_server *s, const struct bn_choice *c)
{
    const struct bn_engine *e = c->job->engine;
    (void)s;
    if (c->job->embed != NULL) return e->embeds == NULL;
    return e->lanes.n_busy < e->lanes.n && !bn_lanes_should_wait(&e->lanes, &c->gen, c->job->tenant);
}

/* The next choice that may start; it counts as running. */
static struct bn_choice *take_waiting(struct bn_server *s)
{
    uint64_t now = bn_clock_ns();
    pthread_mutex_lock(&s->lock);
    struct bn_choice *c = s->n_waiting > 0 ? bn_queue_next(s, now, may_start) : NULL;
    if (c != NULL) {
        c->started = true;
        s->n_waiting--;
        s->n_running++;
        bn_queue_account(s, c->job->client, c->job->embed != NULL ? bn_embed_n_next(c->job) : c->gen.n_prompt,
                         now);
    }
    pthread_mutex_unlock(&s->lock);
    return c;
}

static bn_status start_choice(struct bn_choice *c, bn_error *err)
{
    struct bn_engine *e = c->job->engine;
    if (c->job->embed != NULL) {
        e->embeds = c->job;
        return bn_embed_start(c->job, err);
    }
    c->gen.on_token = on_token;
    c->gen.user = c;
    return bn_lanes_start(&e->lanes, &c->gen, c->job->tenant, err);
}

static void start_waiting(struct bn_server *s)
{
    struct bn_choice *c;
    while ((c = take_waiting(s)) != NULL) {
        bn_error err = {0};
        if (start_choice(c, &err) == BN_OK) continue;
        bn_answer_failed(c->job, 500, NULL, err.msg);
        c->job->dropped = true; /* the sweep drops the rest of it */
        end_choice(s, c);
    }
}

/* The job after this one; NULL: the first. */
static struct bn_job *next_job(struct bn_server *s, const struct bn_job *job)
{
    pthread_mutex_lock(&s->lock);
    struct bn_job *next = job != NULL ? job->next : s->jobs;
    pthread_mutex_unlock(&s->lock);
    return next;
}

/* A pass failed: all that ran in it has failed. */
static void fail_all(struct bn_engine *e, unsigned status, const char *code, const char *message)
{
    struct bn_server *s = e->server;
    for (struct bn_job *job = next_job(s, NULL), *next; job != NULL; job = next) {
        next = next_job(s, job);
        if (job->engine != e || count(job, true) == 0) continue;
        if (!job->dropped) bn_answer_failed(job, status, code, message);
        job->dropped = true;
        end_choices(s, job, true);
    }
}

/* What became of the text that is being embedded. After it the job waits for its next turn. */
static void advance_embeds(struct bn_engine *e)
{
    struct bn_server *s = e->server;
    struct bn_job *job = e->embeds;
    if (job == NULL || !(bn_embed_advance(job) || job->dropped)) return;
    if (job->dropped || bn_embed_n_next(job) == 0) {
        end_choice(s, &job->choices[0]);
        return;
    }
    e->embeds = NULL;
    pthread_mutex_lock(&s->lock);
    job->choices[0].started = false;
    s->n_waiting++;
    s->n_running--;
    pthread_mutex_unlock(&s->lock);
}

/* Goes on with the CPU if that is asked for. The session that is left stays open: the other thread may look at it. */
static void leave_device(struct bn_engine *e)
{
    struct bn_server *s = e->server;
    bn_error err = {0};
    bn_status status = BN_ERR_IO;
    pthread_mutex_lock(&s->lock);
    if (s->o->device_lost == 1) {
        bn_lanes_close(&e->lanes);
        bn_sequence_close(e->embedding);
        bn_live_close(e->live);
        e->embedding = NULL;
        e->live = NULL;
        e->left = e->session;
        bn_model_leave_device(e->model);
        status = bn_engine_open(e, &err);
    }
    e->lost = status != BN_OK;
    if (e->lost) e->keep_ns = 0; /* of several models, the next request opens it again */
    pthread_mutex_unlock(&s->lock);
    if (!e->lost)
        bn_report_warning("the device is lost; the CPU goes on");
    else
        bn_report_warning("the device is lost%s%s; start the server again, or with --device-lost cpu",
                          err.msg[0] != '\0' ? ": " : "", err.msg);
}

static void pass(struct bn_engine *e)
{
    struct bn_server *s = e->server;
    bn_error err = {0};
    const bn_generation *ended;
    if (bn_lanes_step(&e->lanes, &err) != BN_OK) {
        bool lost = e->model->device != NULL && err.code == BN_ERR_IO;
        if (!e->lost) bn_report_warning("a pass failed: %s", err.msg);
        fail_all(e, lost ? 503 : 500, lost ? LOST : NULL, err.msg);
        if (lost && !e->lost) leave_device(e);
        return;
    }
    bn_model_repack(e->model);
    pthread_mutex_lock(&s->lock);
    s->metrics.n_passes++;
    bn_status_pass(e);
    pthread_mutex_unlock(&s->lock);
    while ((ended = bn_lanes_take(&e->lanes)) != NULL)
        end_choice(s, ended->user);
    advance_embeds(e);
}

/* A pass of each engine that has work; whether there was one. */
static bool pass_all(struct bn_server *s)
{
    bool any = false;
    for (size_t i = 0; i < s->n_engines; i++) {
        struct bn_engine *e = &s->engines[i];
        pthread_mutex_lock(&s->lock);
        bool busy = e->state == BN_ENGINE_OPEN && (e->lanes.n_busy > 0 || e->embeds != NULL);
        e->n_users += busy; /* the pass may end the last job */
        pthread_mutex_unlock(&s->lock);
        if (!busy) continue;
        pass(e);
        pthread_mutex_lock(&s->lock);
        bn_engine_leave(e);
        pthread_mutex_unlock(&s->lock);
        any = true;
    }
    return any;
}

/* ---- clients ---- */

/* The time of --max-time is over. What was generated is the answer, if there is a token of each choice. */
static void end_late(struct bn_server *s, struct bn_job *job)
{
    bool has_tokens = job->embed == NULL;
    for (size_t i = 0; i < job->n_choices; i++)
        has_tokens = has_tokens && job->choices[i].gen.n_ids > 0;
    if (!has_tokens) {
        fail_job(s, job, 429, "no answer within the time that this server allows (--max-time)");
        return;
    }
    cancel(job);
}

bool bn_listener_has_left(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    return fd >= 0 && poll(&p, 1, 0) > 0;
}

static void sweep(struct bn_server *s)
{
    uint64_t now = bn_clock_ns(), most = s->o->max_time_s * SECOND;
    bn_models_sweep(s, now);
    for (struct bn_job *job = next_job(s, NULL), *next; job != NULL; job = next) {
        next = next_job(s, job);
        pthread_mutex_lock(&s->lock);
        bool left = job->gone || bn_listener_has_left(job->fd);
        job->gone = left;
        if (left) bn_listener_resume(job); /* the connection ends */
        bool silent = job->stream && !left && !job->dropped && now > job->written_ns + PING_NS;
        pthread_mutex_unlock(&s->lock);
        if (silent && !job->protocol->is_lines) bn_answer_send_text(job, ": waiting\n\n");
        if (left || job->dropped)
            drop_job(s, job);
        else if (most > 0 && now > job->since_ns + most)
            end_late(s, job);
    }
}

static void publish_load(struct bn_server *s)
{
    struct bn_engine *e = &s->engines[0];
    pthread_mutex_lock(&s->lock);
    struct bn_live_load load = {e->n_lanes, s->n_running, s->n_waiting, s->metrics.n_generations};
    if (e->state == BN_ENGINE_OPEN && e->live != NULL) bn_live_set_load(e->live, &load);
    pthread_mutex_unlock(&s->lock);
}

static void wait_for_work(struct bn_server *s)
{
    struct pollfd p = {.fd = s->wake, .events = POLLIN};
    uint64_t count;
    if (poll(&p, 1, 1000) > 0) (void)!read(s->wake, &count, sizeof count);
}

/* ---- the loop ---- */

/* Refuses what waits, and when the grace period is over what runs. */
static void refuse_jobs(struct bn_server *s, bool all)
{
    for (struct bn_job *job = next_job(s, NULL), *next; job != NULL; job = next) {
        bool started = !all && bn_embed_has_begun(job);
        next = next_job(s, job);
        for (size_t i = 0; i < job->n_choices; i++)
            started = started || (!all && job->choices[i].started);
        if (!started) fail_job(s, job, 503, "the server is stopping");
    }
}

void bn_engine_run(struct bn_server *s)
{
    uint64_t stop_ns = 0, swept_ns = 0;
    while (!s->stopping || next_job(s, NULL) != NULL) {
        uint64_t now = bn_clock_ns();
        if (!s->stopping && bn_cli_interrupted() != 0) {
            pthread_mutex_lock(&s->lock);
            s->stopping = true;
            pthread_mutex_unlock(&s->lock);
            bn_listener_quiesce(s->http);
            refuse_jobs(s, false);
            bn_report_note(0, "stopping; a second signal ends the running answers");
            stop_ns = now + s->o->grace_s * SECOND;
        }
        if (s->stopping && now > stop_ns) refuse_jobs(s, true);
        start_waiting(s);
        publish_load(s);
        if (!pass_all(s) && next_job(s, NULL) == NULL && !s->stopping) wait_for_work(s);
        sweep(s);
        if (now - swept_ns < SECOND) continue;
        swept_ns = now;
        bn_listener_drop_slow(s->http);
    }
}
