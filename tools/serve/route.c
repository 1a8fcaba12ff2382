/* SPDX-License-Identifier: MIT
 *
 * The addresses of the server, and those that need no engine. None of them reads a file whose name a client chose.
 */
#define _DEFAULT_SOURCE /* scandir, alphasort, realpath */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "tools/cli/number.h"
#include "tools/serve/job.h"

/* ---- what is answered at once ---- */

static void health(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply)
{
    (void)request;
    pthread_mutex_lock(&s->lock);
    const char *state = bn_status_state(s);
    pthread_mutex_unlock(&s->lock);
    bn_json *document = bn_json_new_object();
    bn_json_put_string(document, "status", state);
    reply->status = strcmp(state, "ok") == 0 ? 200 : 503;
    bn_reply_json(reply, document);
}

#define MODELS "/v1/models"

static void put_model(bn_json *out, const struct bn_engine *e)
{
    BN_PUT(out, BN_STRING("id", e->id), BN_STRING("object", "model"), BN_U64("created", e->server->created_s),
           BN_STRING("owned_by", "bn"), BN_FLAG("loaded", e->state == BN_ENGINE_OPEN));
    if (e->n_ctx == 0) return;
    BN_PUT(out, BN_U64("max_model_len", e->n_ctx), BN_STRING("template", bn_template_name(e->tmpl)),
           BN_FLAG("base", e->base));
}

/* The list, or with /ID one model. */
static void models(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply)
{
    const char *id = request->path + sizeof MODELS - 1;
    const struct bn_engine *one = id[0] == '\0' ? NULL : bn_models_find(s, id + 1);
    if (id[0] != '\0' && one == NULL) {
        bn_engine_refuse(s, reply);
        return;
    }
    bn_json *document = bn_json_new_object(), *data = NULL;
    if (one == NULL) {
        bn_json_put_string(document, "object", "list");
        data = bn_json_put_array(document, "data");
    }
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n_engines && one == NULL; i++)
        put_model(bn_json_add_object(data), &s->engines[i]);
    if (one != NULL) put_model(document, one);
    pthread_mutex_unlock(&s->lock);
    bn_reply_json(reply, document);
}

/* What llama-server says of itself, as far as it is true here. */
static void props(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply)
{
    const struct bn_engine *e = &s->engines[0];
    bn_json *document = bn_json_new_object();
    (void)request;
    pthread_mutex_lock(&s->lock);
    BN_PUT(document, BN_U64("total_slots", e->n_lanes), BN_STRING("model_alias", e->id),
           BN_STRING("model_path", e->id), BN_STRING("chat_template_name", bn_template_name(e->tmpl)),
           BN_STRING("build_info", s->fingerprint));
    bn_json *settings = bn_json_put_object(document, "default_generation_settings");
    bn_json_put_u64(settings, "n_ctx", e->n_ctx);
    pthread_mutex_unlock(&s->lock);
    bn_reply_json(reply, document);
}

static void metrics(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply)
{
    (void)request;
    reply->body.max = 1u << 20;
    reply->type = "text/plain; version=0.0.4; charset=utf-8";
    reply->status = 200;
    bn_status_metrics(s, &reply->body);
}

/* A text becomes tokens, or tokens a text. */
static void recode(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply)
{
    bool encode = strcmp(request->path, "/tokenize") == 0, special = false;
    bn_json *body = NULL, *document = bn_json_new_object();
    bn_error err = {0};
    const char *content = NULL;
    int32_t *ids = NULL;
    char *text = NULL;
    size_t n = 0, n_bytes = 0;
    struct bn_engine *engine = NULL;
    bool good = bn_serve_parse(&body, request->body, request->n_bytes, reply) &&
                (engine = bn_engine_enter(s, bn_json_text_of(body, "model"), reply)) != NULL;
    if (good && encode) {
        (void)bn_json_bool(bn_json_get(body, "add_special"), &special);
        good = bn_json_string(bn_json_get(body, "content"), &content) ||
               bn_reply_refuse(reply, "content", "is not a text");
        if (good && bn_tokenize(engine->tok, content, strlen(content), special ? BN_TOKENIZE_BOS : 0, &ids,
                                &n, &err) != BN_OK)
            good = bn_reply_failed(reply, "content", &err);
        bn_json_put_ids(document, "tokens", ids, n);
    } else if (good) {
        good = bn_serve_parse_ids(engine, bn_json_get(body, "tokens"), "tokens", &ids, &n, reply);
        if (good && bn_detokenize(engine->tok, ids, n, false, &text, &n_bytes, &err) != BN_OK)
            good = bn_reply_failed(reply, "tokens", &err);
        bn_json_put_string(document, "content", text);
    }
    if (good)
        bn_reply_json(reply, document);
    else
        bn_json_free(document);
    pthread_mutex_lock(&s->lock);
    bn_engine_leave(engine);
    pthread_mutex_unlock(&s->lock);
    bn_free(ids);
    bn_free(text);
    bn_json_free(body);
}

#define RECEIPTS "/v1/receipts/"
#define REPLAY "/replay"

static void receipt(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply)
{
    reply->body.max = BN_SERVE_MAX_ANSWER_BYTES;
    if (!bn_receipts_find(s, request->path + sizeof RECEIPTS - 1, request->tenant, &reply->body)) {
        bn_reply_error(reply, 404, NULL, NULL, BN_SERVE_NO_RECEIPT);
        return;
    }
    reply->status = 200;
    reply->cache = "private, max-age=86400, immutable"; /* a receipt never changes */
}

/* POST RECEIPTS ID/replay */
static bool make_replay(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply,
                        struct bn_job **job)
{
    char id[BN_SERVE_ID + 4];
    const char *name = request->path + sizeof RECEIPTS - 1;
    size_t n = strlen(name) - (sizeof REPLAY - 1);
    if (n < sizeof id) {
        memcpy(id, name, n);
        id[n] = '\0';
        return bn_replay_job(job, s, id, request->tenant, reply);
    }
    return bn_reply_error(reply, 404, NULL, NULL, BN_SERVE_NO_RECEIPT);
}

static void status(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply)
{
    bn_reply_json(reply, bn_status_document(s, request->tenant));
}

static void send_page(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply)
{
    bool is_chat = strcmp(request->path, "/") == 0;
    const struct bn_serve_page *page = &s->pages[is_chat ? BN_SERVE_CHAT : BN_SERVE_DASHBOARD];
    reply->status = 200;
    reply->type = "text/html; charset=utf-8";
    reply->policy = page->policy;
    reply->body.max = page->html.max;
    bn_buf_append(&reply->body, bn_buf_text(&page->html), page->html.len);
}

/* ---- --dashboard: the files of a folder, such as the pages of bn-bench report. They are found by listing it, two folders
 * deep; no name comes from a client. ---- */

#define MAX_DEPTH 2u

static const char *type_of(const char *path)
{
    static const char *const TYPES[][2] = {{".html", "text/html; charset=utf-8"},
                                           {".svg", "image/svg+xml"},
                                           {".json", "application/json"},
                                           {".md", "text/plain; charset=utf-8"},
                                           {".txt", "text/plain; charset=utf-8"}};
    size_t n = strlen(path);
    for (size_t i = 0; i < BN_ARRAY_LEN(TYPES); i++) {
        size_t n_ending = strlen(TYPES[i][0]);
        if (n > n_ending && strcmp(path + n - n_ending, TYPES[i][0]) == 0) return TYPES[i][1];
    }
    return NULL;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Appends the files of a folder and of those in it. Symbolic links are not followed. */
static void add_folder(struct bn_benchmarks *b, bn_json *list, const char *path, unsigned depth)
{
    struct dirent **entries = NULL;
    struct stat st;
    int n = scandir(path, &entries, is_visible, alphasort);
    for (int i = 0; i < n; i++) {
        char inside[4096];
        int length = snprintf(inside, sizeof inside, "%s/%s", path, entries[i]->d_name);
        free(entries[i]);
        if (length >= (int)sizeof inside || lstat(inside, &st) != 0) continue;
        if (S_ISDIR(st.st_mode) && depth < MAX_DEPTH) add_folder(b, list, inside, depth + 1);
        if (!S_ISREG(st.st_mode) || type_of(inside) == NULL || b->n_files == BN_BENCHMARK_FILES) continue;
        if ((b->files[b->n_files] = bn_strndup(inside, strlen(inside))) == NULL) continue;
        bn_json *o = bn_json_add_object(list);
        bn_json_put_string(o, "name", inside + strlen(b->folder) + 1);
        bn_json_put_u64(o, "number", b->n_files++);
        bn_json_put_u64(o, "bytes", (uint64_t)st.st_size);
    }
    free(entries);
}

bn_status bn_benchmarks_open(struct bn_benchmarks *b, const char *folder, bn_error *err)
{
    struct stat st;
    char *path = realpath(folder, NULL);
    bool good = path != NULL && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (good) b->folder = bn_strndup(path, strlen(path));
    free(path);
    if (!good) return bn_fail_in(err, BN_ERR_NOT_FOUND, folder, "not a folder");
    return b->folder != NULL ? BN_OK : bn_nomem(err);
}

static void forget_files(struct bn_benchmarks *b)
{
    while (b->n_files > 0)
        bn_free(b->files[--b->n_files]);
}

void bn_benchmarks_close(struct bn_benchmarks *b)
{
    forget_files(b);
    bn_free(b->folder);
}

/* Lists the folder: the document of /v1/benchmarks. */
static bn_json *benchmarks_document(struct bn_benchmarks *b)
{
    bn_json *document = bn_json_new_object();
    bn_json_put_string(document, "object", "bn.benchmarks");
    forget_files(b);
    add_folder(b, bn_json_put_array(document, "reports"), b->folder, 0);
    return document;
}

static void benchmarks(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply)
{
    (void)request;
    if (s->benchmarks.folder == NULL)
        bn_reply_error(reply, 404, NULL, NULL,
                       "no folder of benchmarks: bn-serve --dashboard FOLDER names one");
    else
        bn_reply_json(reply, benchmarks_document(&s->benchmarks));
}

#define REPORTS "/dashboard/reports/"

/* A report is a page of others: it is shown without an origin of its own, and loads nothing. */
static void report(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply)
{
    const char *number = request->path + sizeof REPORTS - 1;
    const struct bn_benchmarks *b = &s->benchmarks;
    uint64_t at;
    reply->body.max = BN_JSON_MAX_BYTES;
    if (!bn_number_u64(number, strlen(number), &at) || at >= b->n_files ||
        bn_file_read_regular(b->files[at], &reply->body, NULL) != BN_OK) {
        reply->body.len = 0;
        bn_reply_error(reply, 404, NULL, NULL, "no such report");
        return;
    }
    reply->type = type_of(b->files[at]);
    reply->status = 200;
    reply->policy =
        "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src "
        "'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
}

/* ---- the table ---- */

static const struct route {
    const char *path, *suffix; /* suffix: a prefix, something, and this */
    bool get, removes, is_prefix, is_public;
    bool any, replays; /* any: all methods */
    const struct bn_protocol *protocol;
    void (*answer)(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply);
} ROUTES[] = {
    {.path = "/health", .get = true, .is_public = true, .answer = health},
    {.path = "/", .get = true, .is_public = true, .answer = send_page},
    {.path = "/dashboard", .get = true, .is_public = true, .answer = send_page},
    {.path = "/v1/status", .get = true, .answer = status},
    {.path = "/v1/benchmarks", .get = true, .answer = benchmarks},
    {.path = REPORTS, .get = true, .is_prefix = true, .answer = report},
    {.path = "/metrics", .get = true, .answer = metrics},
    {.path = "/props", .get = true, .answer = props},
    {.path = MODELS, .get = true, .answer = models},
    {.path = MODELS "/", .get = true, .is_prefix = true, .answer = models},
    {.path = RECEIPTS, .suffix = REPLAY, .replays = true},
    {.path = RECEIPTS, .get = true, .is_prefix = true, .answer = receipt},
    {.path = "/tokenize", .answer = recode},
    {.path = "/detokenize", .answer = recode},
    {.path = "/v1/completions", .protocol = &bn_openai_text},
    {.path = "/v1/chat/completions", .protocol = &bn_openai_chat},
    {.path = "/v1/responses", .protocol = &bn_openai_responses},
    {.path = "/v1/responses/", .get = true, .removes = true, .is_prefix = true, .answer = bn_conversations},
    {.path = "/v1/messages", .protocol = &bn_anthropic},
    {.path = "/v1/messages/count_tokens", .protocol = &bn_anthropic, .answer = bn_anthropic_count},
    {.path = "/v1/embeddings", .protocol = &bn_openai_embeddings},
    {.path = "/api/chat", .protocol = &bn_ollama_chat},
    {.path = "/api/generate", .protocol = &bn_ollama_generate},
    {.path = "/api/embed", .protocol = &bn_ollama_embed},
    {.path = "/api/embeddings", .protocol = &bn_ollama_embedding},
    {.path = "/api/version", .get = true, .protocol = &bn_ollama_chat, .answer = bn_ollama_version},
    {.path = "/api/tags", .get = true, .protocol = &bn_ollama_chat, .answer = bn_ollama_list},
    {.path = "/api/ps", .get = true, .protocol = &bn_ollama_chat, .answer = bn_ollama_list},
    {.path = "/api/show", .protocol = &bn_ollama_chat, .answer = bn_ollama_show},
    {.path = "/api/",
     .any = true,
     .is_prefix = true,
     .protocol = &bn_ollama_chat,
     .answer = bn_ollama_refuse},
};

static bool is_at(const struct route *r, const char *path)
{
    size_t n = strlen(path), n_path = strlen(r->path), n_suffix = r->suffix != NULL ? strlen(r->suffix) : 0;
    if (!r->is_prefix && r->suffix == NULL) return strcmp(path, r->path) == 0;
    if (strncmp(path, r->path, n_path) != 0) return false;
    return r->suffix == NULL || (n > n_path + n_suffix && strcmp(path + n - n_suffix, r->suffix) == 0);
}

static const struct route *find(const char *path)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(ROUTES); i++)
        if (is_at(&ROUTES[i], path)) return &ROUTES[i];
    return NULL;
}

const struct bn_protocol *bn_route_protocol(const char *path)
{
    const struct route *r = find(path);
    return r != NULL ? r->protocol : NULL;
}

bool bn_route_check(struct bn_reply *reply, const char *method, const char *path, bool *needs_key)
{
    const struct route *r = find(path);
    if (r == NULL)
        return bn_reply_error(
            reply, 404, NULL, NULL,
            "no such address; there are /v1/chat/completions, /v1/completions, /v1/responses, "
            "/v1/embeddings, /v1/models, /v1/receipts/ID, /v1/receipts/ID/replay, /v1/status, "
            "/tokenize, /detokenize, /health, /metrics");
    *needs_key = !r->is_public;
    if (r->any ||
        (r->get ? strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 : strcmp(method, "POST") == 0))
        return true;
    if (r->removes && strcmp(method, "DELETE") == 0) return true;
    reply->allow = r->removes ? "GET, HEAD, DELETE" : r->get ? "GET, HEAD" : "POST";
    return bn_reply_error(reply, 405, NULL, NULL, "%s takes %s", r->path, reply->allow);
}

void bn_route(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply,
              struct bn_job **job)
{
    const struct route *r = find(request->path);
    if (r == NULL) {
        bn_reply_error(reply, 404, NULL, NULL, "no such address");
    } else if (r->answer != NULL) {
        r->answer(s, request, reply);
    } else if (r->replays) {
        if (make_replay(s, request, reply, job)) (*job)->client = request->client;
    } else {
        (void)bn_job_parse(job, s, r->protocol, request, reply);
    }
}
