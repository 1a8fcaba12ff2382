/* SPDX-License-Identifier: MIT
 *
 * Past responses and their conversations, in memory: what GET and DELETE /v1/responses/ID find, and what
 * previous_response_id goes on with. Each key sees its own, and has an equal share of the room.
 */
#include <string.h>

#include "tools/serve/job.h"

#define MAX_BYTES ((size_t)64 << 20) /* of all keys together */
#define MAX_COUNT 4096u

struct bn_response {
    struct bn_response *next; /* an older one */
    char id[BN_SERVE_ID];
    uint32_t tenant;
    struct bn_buf items, response; /* JSON: what a request goes on with, and the document */
};

static void remove_at(struct bn_response **at)
{
    struct bn_response *c = *at;
    *at = c->next;
    bn_buf_release(&c->items);
    bn_buf_release(&c->response);
    bn_free(c);
}

void bn_conversations_close(struct bn_server *s)
{
    while (s->responses != NULL)
        remove_at(&s->responses);
}

void bn_conversation_keep(struct bn_job *job, const bn_json *response)
{
    struct bn_server *s = job->server;
    struct bn_response *c = bn_alloc(1, sizeof *c), **at = &s->responses;
    size_t n_keys = s->n_keys > 0 ? s->n_keys : 1, n = 0, n_bytes = 0;
    if (c == NULL) return;
    *c = (struct bn_response){
        .tenant = job->tenant, .items = job->items, .response.max = BN_SERVE_MAX_ANSWER_BYTES};
    job->items = (struct bn_buf){0};
    memcpy(c->id, job->id, sizeof c->id);
    bn_status status = bn_json_write_line(response, true, &c->response, NULL);
    for (const bn_json *m = bn_json_first(bn_json_get(response, "output")); m != NULL && status == BN_OK;
         m = bn_json_next(m)) {
        bn_buf_putc(&c->items, ',');
        status = bn_json_write(m, true, &c->items, NULL);
    }
    bn_buf_putc(&c->items, ']');
    if (status != BN_OK || bn_buf_check(&c->items, NULL) != BN_OK) {
        remove_at(&c);
        return;
    }
    pthread_mutex_lock(&s->lock);
    c->next = s->responses;
    s->responses = c;
    while (*at != NULL) {
        bool own = (*at)->tenant == job->tenant;
        n += own;
        n_bytes += own ? (*at)->items.room + (*at)->response.room + sizeof **at : 0;
        if (own && (n > MAX_COUNT / n_keys || n_bytes > MAX_BYTES / n_keys))
            remove_at(at);
        else
            at = &(*at)->next;
    }
    pthread_mutex_unlock(&s->lock);
}

/* Under the lock; NULL: there is none. */
static struct bn_response **find(struct bn_server *s, const char *id, uint32_t tenant)
{
    struct bn_response **at = &s->responses;
    size_t n = sizeof BN_SERVE_RESPONSE - 1;
    if (strncmp(id, BN_SERVE_RESPONSE, n) != 0) return NULL;
    while (*at != NULL && ((*at)->tenant != tenant || strcmp((*at)->id, id + n) != 0))
        at = &(*at)->next;
    return *at != NULL ? at : NULL;
}

bool bn_conversation_find(struct bn_server *s, const char *id, uint32_t tenant, struct bn_buf *items)
{
    pthread_mutex_lock(&s->lock);
    struct bn_response **at = find(s, id, tenant);
    if (at != NULL) bn_buf_append(items, (*at)->items.data, (*at)->items.len);
    pthread_mutex_unlock(&s->lock);
    return at != NULL;
}

void bn_conversations(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply)
{
    const char *id = request->path + sizeof "/v1/responses/" - 1;
    bool removes = strcmp(request->method, "DELETE") == 0;
    reply->body.max = BN_SERVE_MAX_ANSWER_BYTES;
    pthread_mutex_lock(&s->lock);
    struct bn_response **at = find(s, id, request->tenant);
    if (at != NULL && !removes) bn_buf_append(&reply->body, (*at)->response.data, (*at)->response.len);
    if (at != NULL && removes) remove_at(at);
    pthread_mutex_unlock(&s->lock);
    if (at == NULL) {
        bn_reply_error(reply, 404, NULL, NULL, BN_SERVE_NO_RESPONSE);
    } else if (removes) {
        bn_json *document = bn_json_new_object();
        BN_PUT(document, BN_STRING("id", id), BN_STRING("object", "response"), BN_FLAG("deleted", true));
        bn_reply_json(reply, document);
    } else {
        reply->status = reply->body.failed ? 503 : 200;
    }
}
