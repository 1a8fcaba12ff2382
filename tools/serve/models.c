/* SPDX-License-Identifier: MIT
 *
 * The models of the server. The first one is opened at the start. Of several, the others are opened on their first use, by a
 * thread of its own, so that answers of other models and the HTTP thread go on; and closed when they were idle for a time, or
 * when another one needs their place. One that has users is never closed. When another one needs its place, it gets no new
 * users: their requests wait, too, until the models change places again. So no request waits forever.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "model/model.h"
#include "tools/cli/report.h"
#include "tools/serve/job.h"

#define NEVER UINT64_MAX
#define ENDING ".gguf"
#define LATEST ":latest"

/* ---- names ---- */

/* The length of a name without an ending. */
static size_t length_without(const char *name, size_t n, const char *ending)
{
    size_t n_ending = strlen(ending);
    return n > n_ending && strncmp(name + n - n_ending, ending, n_ending) == 0 ? n - n_ending : n;
}

struct bn_engine *bn_models_find(struct bn_server *s, const char *name)
{
    size_t n = length_without(name, length_without(name, strlen(name), LATEST), ENDING);
    struct bn_engine *found = NULL;
    for (size_t i = 0; i < s->n_engines; i++) {
        const char *id = s->engines[i].id;
        if (strcmp(id, name) == 0) return &s->engines[i];
        if (found == NULL && length_without(id, strlen(id), ENDING) == n && strncmp(id, name, n) == 0)
            found = &s->engines[i];
    }
    return found;
}

/* The last part of the name, and as many more as tell it from the others. */
static bn_status name_engine(struct bn_server *s, struct bn_engine *e, bn_error *err)
{
    const char *id = bn_receipt_base_name(e->name);
    for (size_t i = 0; i < s->n_engines; i++) {
        const char *other = s->engines[i].name;
        size_t n = strlen(id), n_other = strlen(other);
        bool ends = n_other >= n && strcmp(other + n_other - n, id) == 0;
        if (&s->engines[i] == e || !ends || (n_other > n && (id == e->name || other[n_other - n - 1] != '/')))
            continue;
        if (id == e->name) return bn_fail(err, BN_ERR_ARG, "the model %s is given more than once", id);
        for (id--; id > e->name && id[-1] != '/'; id--) {
        }
        i = SIZE_MAX; /* again from the first one */
    }
    bn_escape(e->id, sizeof e->id, id, strlen(id));
    return BN_OK;
}

static bn_status add(struct bn_server *s, const char *file, bn_error *err)
{
    struct bn_engine *e = &s->engines[s->n_engines];
    struct stat st = {.st_size = (off_t)bn_default_model_bytes, .st_mtim.tv_sec = (time_t)s->created_s};
    char *path = NULL;
    if (s->n_engines == BN_SERVE_MAX_MODELS)
        return bn_fail(err, BN_ERR_LIMIT, "more than %u models", BN_SERVE_MAX_MODELS);
    BN_TRY(bn_cli_model_path(&path, file, err));
    bool found = path == NULL || stat(path, &st) == 0;
    int why = errno;
    bn_free(path);
    if (!found)
        return bn_hint(bn_fail_errno(err, why, file, "cannot open"), err,
                       "leave --model out to use the built-in model");
    *e = (struct bn_engine){.server = s,
                            .name = BN_DEFAULT_MODEL_NAME,
                            .state = BN_ENGINE_CLOSED,
                            .modified_s = (int64_t)st.st_mtim.tv_sec,
                            .n_bytes = (uint64_t)st.st_size};
    if (file != NULL && (e->name = e->file = bn_strndup(file, strlen(file))) == NULL) return bn_nomem(err);
    s->n_engines++;
    return BN_OK;
}

static int is_model(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return entry->d_name[0] != '.' && length_without(entry->d_name, n, ENDING) < n;
}

static bn_status add_folder(struct bn_server *s, const char *folder, bn_error *err)
{
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, is_model, alphasort);
    bn_status status = n > 0 ? BN_OK : bn_fail_in(err, BN_ERR_NOT_FOUND, folder, "no " ENDING " file in it");
    for (int i = 0; i < n; i++) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", folder, entries[i]->d_name);
        if (status == BN_OK) status = add(s, file, err);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static bn_status list_models(struct bn_server *s, bn_error *err)
{
    const struct bn_texts *models = &s->o->models;
    struct stat st;
    BN_TRY(BN_NEW(s->engines, BN_SERVE_MAX_MODELS, err));
    if (models->n == 0) BN_TRY(add(s, NULL, err));
    for (size_t i = 0; i < models->n; i++) {
        bool is_folder = stat(models->list[i], &st) == 0 && S_ISDIR(st.st_mode);
        BN_TRY(is_folder ? add_folder(s, models->list[i], err) : add(s, models->list[i], err));
    }
    for (size_t i = 0; i < s->n_engines; i++)
        BN_TRY(name_engine(s, &s->engines[i], err));
    return BN_OK;
}

/* ---- opening and closing ---- */

/* A model without a template gets one that any vocabulary can write. A template whose marks the vocabulary lacks is refused
 * when the model is opened, not at the first chat. */
static bn_status choose_template(struct bn_engine *e, bn_error *err)
{
    const struct bn_serve_options *o = e->server->o;
    const bn_message hello = {"user", "hello"};
    int32_t *ids = NULL;
    size_t n_ids;
    (void)bn_template_from_name(o->template_name, &e->tmpl);
    e->tmpl = bn_template_resolve(e->tmpl, e->tok);
    e->base = e->tmpl == BN_TEMPLATE_RAW;
    if (e->base) e->tmpl = BN_TEMPLATE_INSTRUCT;
    BN_TRY(bn_cli_set_thinking(&e->tmpl, o->think, err));
    bn_status status = bn_template_encode(e->tmpl, e->tok, &hello, 1, &ids, &n_ids, err);
    bn_free(ids);
    return status;
}

static bn_status load(struct bn_engine *e, bn_error *err)
{
    bn_model_options with = {.repack = BN_REPACK_AUTO, .repack_later = true};
    struct bn_args args = *e->server->args;
    uint64_t start = bn_clock_ns();
    args.model = e->file;
    BN_TRY(bn_cli_open_model(&e->model, &args, &with, err));
    BN_TRY(bn_cli_tokenizer(e->model, &e->tok, err));
    BN_TRY(choose_template(e, err));
    BN_TRY(bn_engine_open(e, err));
    e->facts.known = false;
    BN_TRY(bn_receipt_read_facts(&e->facts, e->model, NULL, err));
    e->load_ns = bn_clock_ns() - start;
    e->n_bytes = e->model->n_bytes;
    e->n_ctx = bn_session_n_ctx(e->session);
    e->n_threads = bn_session_n_threads(e->session);
    e->n_lanes = (uint32_t)e->lanes.n;
    return BN_OK;
}

static void unload(struct bn_engine *e)
{
    bn_lanes_close(&e->lanes);
    bn_sequence_close(e->embedding);
    bn_live_close(e->live);
    if (e->left != e->session) bn_session_close(e->left);
    bn_session_close(e->session);
    bn_model_close(e->model);
    e->embedding = NULL;
    e->live = NULL;
    e->left = e->session = NULL;
    e->model = NULL;
    e->tok = NULL;
}

/* It is open now: all but the names, which are read without the lock. Under the lock. */
static void put_open(struct bn_engine *e, const struct bn_engine *fresh, uint64_t keep_ns)
{
    const size_t at = offsetof(struct bn_engine, n_bytes);
    memcpy((unsigned char *)e + at, (const unsigned char *)fresh + at, sizeof *e - at);
    e->state = BN_ENGINE_OPEN;
    e->lost = false;
    e->crowded = 0;
    e->keep_ns = keep_ns;
    e->used_ns = bn_clock_ns();
    e->server->n_lanes += e->n_lanes;
}

bn_status bn_models_open(struct bn_server *s, bn_error *err)
{
    BN_TRY(list_models(s, err));
    struct bn_engine fresh = s->engines[0];
    bn_status status = load(&fresh, err);
    put_open(&s->engines[0], &fresh, NEVER);
    if (status == BN_OK) bn_cli_warn_threads(fresh.session, s->o->n_threads);
    return status;
}

/* ---- users ---- */

struct bn_engine *bn_engine_enter(struct bn_server *s, const char *model, struct bn_reply *reply)
{
    bool is_first = s->n_engines == 1 || model[0] == '\0';
    struct bn_engine *e = is_first ? &s->engines[0] : bn_models_find(s, model);
    bn_error err = {0};
    if (e == NULL) {
        bn_engine_refuse(s, reply);
        return NULL;
    }
    pthread_mutex_lock(&s->lock);
    bool good = e->state == BN_ENGINE_OPEN && (e != s->drained || reply->engine == e);
    e->n_users += good;
    if (!good) reply->engine = e;
    pthread_mutex_unlock(&s->lock);
    if (!good || bn_model_check_file(e->model, &err) == BN_OK) return good ? e : NULL;
    pthread_mutex_lock(&s->lock);
    e->keep_ns = 0; /* of several, the next request finds the new file */
    bn_engine_leave(e);
    pthread_mutex_unlock(&s->lock);
    bn_reply_failed(reply, NULL, &err);
    return NULL;
}

void bn_engine_leave(struct bn_engine *e)
{
    if (e == NULL) return;
    e->used_ns = bn_clock_ns();
    if (--e->n_users == 0) pthread_cond_signal(&e->server->models);
}

void bn_engine_refuse(struct bn_server *s, struct bn_reply *reply)
{
    struct bn_buf names = {.max = 300};
    for (size_t i = 0; i < s->n_engines && !names.full; i++)
        bn_buf_printf(&names, "%s%s", i > 0 ? ", " : "", s->engines[i].id);
    bn_reply_error(reply, 404, "model", "model_not_found", "no such model; this server has %s",
                   bn_buf_text(&names));
    bn_buf_release(&names);
}

/* ---- those that wait ---- */

bool bn_models_wait(struct bn_server *s, struct bn_waiter *w, struct bn_reply *reply, uint64_t client)
{
    struct bn_waiter **end = &s->waiters;
    if (!bn_engine_admit(s, client, 1, reply)) return false;
    w->next = NULL;
    w->engine = reply->engine;
    w->reply = reply;
    w->client = client;
    if (w->since_ns == 0) w->since_ns = bn_clock_ns();
    while (*end != NULL)
        end = &(*end)->next;
    *end = w;
    s->n_waiters++;
    pthread_cond_signal(&s->models);
    return true;
}

/* It is read again. */
static void end_waiting(struct bn_server *s, struct bn_waiter *w)
{
    struct bn_waiter **at = &s->waiters;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    bn_listener_retry(w);
}

void bn_models_done(struct bn_server *s, struct bn_waiter *w)
{
    if (w->engine == NULL) return;
    pthread_mutex_lock(&s->lock);
    if (w->holds) bn_engine_leave(w->engine);
    s->n_waiters--;
    bn_queue_leave(s, w->client);
    w->engine = NULL;
    w->holds = false;
    pthread_mutex_unlock(&s->lock);
}

void bn_models_sweep(struct bn_server *s, uint64_t now_ns)
{
    uint64_t most = (s->o->max_time_s > 0 ? s->o->max_time_s : s->o->timeout_s) * SECOND;
    pthread_mutex_lock(&s->lock);
    for (struct bn_waiter *w = s->waiters, *next; w != NULL; w = next) {
        next = w->next;
        w->gone = bn_listener_has_left(w->fd);
        if (s->stopping)
            bn_reply_error(w->reply, 503, NULL, NULL, "the server is stopping");
        else if (now_ns > w->since_ns + most)
            bn_reply_error(w->reply, 503, NULL, "model_not_open", "the model %s could not be opened in time",
                           w->engine->id);
        if (w->gone || w->reply->status != 0) end_waiting(s, w);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- what to do next ---- */

/* Whether one makes room before the other: it is idle, or was used less recently. */
static bool is_before(const struct bn_engine *a, const struct bn_engine *b)
{
    if ((a->n_users == 0) != (b->n_users == 0)) return a->n_users == 0;
    return a->used_ns < b->used_ns;
}

struct bn_engine *bn_models_next(struct bn_server *s, uint64_t now_ns, uint64_t memory, uint64_t *until_ns)
{
    struct bn_engine *victim = NULL, *idle = NULL, *drained = s->drained;
    const struct bn_waiter *w = s->waiters;
    size_t n = 0;
    *until_ns = NEVER;
    for (size_t i = 0; i < s->n_engines; i++) {
        struct bn_engine *e = &s->engines[i];
        if (e->state != BN_ENGINE_OPEN) continue;
        uint64_t end_ns = e->keep_ns < NEVER - e->used_ns ? e->used_ns + e->keep_ns : NEVER;
        n++;
        memory -= e->n_bytes < memory ? e->n_bytes : memory;
        if (victim == NULL || is_before(e, victim)) victim = e;
        if (e->n_users > 0 || end_ns >= *until_ns) continue;
        idle = e;
        *until_ns = end_ns;
    }
    while (w != NULL && w->engine->state != BN_ENGINE_CLOSED)
        w = w->next;
    s->drained = NULL;
    if (w == NULL) return *until_ns <= now_ns ? idle : NULL;
    /* The first one fits in any case, or says itself why not. */
    bool has_place =
        (s->o->n_models == 0 || n < s->o->n_models) && (w->engine->crowded == 0 || n < w->engine->crowded);
    if (n == 0 || (has_place && w->engine->n_bytes <= memory)) return w->engine;
    if (victim->n_users == 0) return victim;
    /* The same one until it is idle: else several that are in use would be drained in turn, and none be idle. */
    s->drained = drained != NULL ? drained : victim;
    return NULL;
}

bool bn_models_time(const char *text, uint64_t *ns)
{
    static const struct {
        const char *unit;
        double seconds;
    } UNITS[] = {{"", 1},  {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3},
                 {"s", 1}, {"m", 60},    {"h", 3600},  {"d", 86400}};
    double sum = 0;
    *ns = NEVER;
    if (strcmp(text, "forever") == 0) return true;
    bool forever = text[0] == '-';
    text += forever;
    do {
        size_t n = strspn(text, "0123456789."), n_unit = strcspn(text + n, "0123456789."), i = 0;
        char *end;
        double number = strtod(text, &end);
        while (i < BN_ARRAY_LEN(UNITS) &&
               (strlen(UNITS[i].unit) != n_unit || strncmp(UNITS[i].unit, text + n, n_unit) != 0))
            i++;
        if (n == 0 || end != text + n || i == BN_ARRAY_LEN(UNITS)) return false;
        sum += number * UNITS[i].seconds;
        text += n + n_unit;
    } while (text[0] != '\0');
    if (!forever && sum < 1e9) *ns = (uint64_t)(sum * SECOND);
    return true;
}

/* ---- the thread ---- */

static void fail_waiters(struct bn_engine *e, const bn_error *err)
{
    bool is_file = err->code == BN_ERR_FORMAT || err->code == BN_ERR_UNSUPPORTED || err->code == BN_ERR_ARG;
    for (struct bn_waiter *w = e->server->waiters, *next; w != NULL; w = next) {
        next = w->next;
        if (w->engine != e) continue;
        bn_reply_error(w->reply, is_file ? 500 : 503, "model", "model_not_open",
                       "the model %s cannot be opened: %s", e->id, err->msg);
        end_waiting(e->server, w);
    }
}

/* Readers see the engine as it was until the new one is complete. The lock is given up meanwhile, as by the next one. */
static void open_model(struct bn_engine *e)
{
    struct bn_server *s = e->server;
    struct bn_engine fresh = *e;
    bn_error err = {0};
    uint64_t keep_ns = NEVER;
    (void)bn_models_time(s->o->keep_alive, &keep_ns);
    e->state = BN_ENGINE_OPENING;
    pthread_mutex_unlock(&s->lock);
    bn_status status = load(&fresh, &err);
    if (status != BN_OK) unload(&fresh);
    pthread_mutex_lock(&s->lock);
    e->state = BN_ENGINE_CLOSED;
    e->crowded = 0;
    for (size_t i = 0; i < s->n_engines && status == BN_ERR_NOMEM; i++)
        e->crowded += s->engines[i].state == BN_ENGINE_OPEN; /* it waits until another one is closed */
    if (status == BN_OK) {
        put_open(e, &fresh, keep_ns);
    } else if (e->crowded == 0) {
        bn_report_warning("%s cannot be opened: %s", e->id, err.msg);
        fail_waiters(e, &err);
    }
}

static void close_model(struct bn_engine *e)
{
    struct bn_server *s = e->server;
    s->n_lanes -= e->n_lanes;
    e->state = BN_ENGINE_CLOSING;
    pthread_mutex_unlock(&s->lock);
    unload(e);
    pthread_mutex_lock(&s->lock);
    e->state = BN_ENGINE_CLOSED;
}

/* Those whose model is open go on, and count as its users until they are. */
static void resume_waiters(struct bn_server *s)
{
    for (struct bn_waiter *w = s->waiters, *next; w != NULL; w = next) {
        next = w->next;
        if (w->engine->state != BN_ENGINE_OPEN || w->engine == s->drained) continue;
        w->engine->n_users++;
        w->holds = true;
        end_waiting(s, w);
    }
}

/* What the files of open models may take. Where their number is given, they may take turns in memory. */
static uint64_t available(const struct bn_server *s)
{
    bool is_given = s->o->n_models > 0 && s->args->max_memory == 0;
    return s->waiters == NULL || is_given ? UINT64_MAX : bn_mem_available();
}

static void *run(void *cls)
{
    struct bn_server *s = cls;
    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        uint64_t until_ns;
        resume_waiters(s);
        struct bn_engine *e = bn_models_next(s, bn_clock_ns(), available(s), &until_ns);
        struct timespec until = {(time_t)(until_ns / SECOND), (long)(until_ns % SECOND)};
        if (e != NULL && e->state == BN_ENGINE_OPEN) {
            close_model(e);
            continue;
        }
        resume_waiters(s); /* none may be drained any more */
        if (e != NULL)
            open_model(e);
        else
            pthread_cond_timedwait(&s->models, &s->lock, &until);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

bn_status bn_models_start(struct bn_server *s, bn_error *err)
{
    if (s->n_engines == 1) return BN_OK;
    BN_TRY(bn_serve_thread(&s->opener, run, s, err));
    s->opens = true;
    return BN_OK;
}

bool bn_models_close(struct bn_server *s)
{
    bool opening = false;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_signal(&s->models);
    for (size_t i = 0; i < s->n_engines; i++)
        opening = opening || s->engines[i].state == BN_ENGINE_OPENING;
    pthread_mutex_unlock(&s->lock);
    if (opening) return false;
    if (s->opens) pthread_join(s->opener, NULL);
    for (size_t i = 0; i < s->n_engines; i++) {
        unload(&s->engines[i]);
        bn_free(s->engines[i].file);
    }
    bn_free(s->engines);
    return true;
}
