/* SPDX-License-Identifier: MIT
 *
 * The fair queue: the client that got the fewest tokens is next (virtual token counter; Sheng et al., 2024). A client
 * that comes anew begins with the least count of those that wait or run, so that nobody saves up for later.
 */
#include "tools/serve/serve.h"

static struct bn_client *find(struct bn_server *s, uint64_t client)
{
    for (size_t i = 0; i < s->n_clients; i++)
        if (s->clients[i].n_jobs > 0 && s->clients[i].client == client) return &s->clients[i];
    return NULL;
}

bool bn_queue_enter(struct bn_server *s, uint64_t client)
{
    struct bn_client *known = find(s, client), *place = NULL;
    uint64_t least = UINT64_MAX;
    if (known != NULL) {
        known->n_jobs++;
        return true;
    }
    for (size_t i = 0; i < s->n_clients; i++) {
        struct bn_client *c = &s->clients[i];
        if (c->n_jobs > 0 && c->n_tokens < least) least = c->n_tokens;
        if (c->n_jobs == 0 && (place == NULL || c->client == client)) place = c;
    }
    if (place == NULL) return false;
    uint64_t before = place->client == client ? place->n_tokens : 0;
    if (least == UINT64_MAX) least = 0;
    *place = (struct bn_client){client, before > least ? before : least, 1};
    return true;
}

void bn_queue_leave(struct bn_server *s, uint64_t client)
{
    struct bn_client *c = find(s, client);
    if (c != NULL) c->n_jobs--;
}

void bn_queue_account(struct bn_server *s, uint64_t client, uint64_t n_tokens)
{
    struct bn_client *c = find(s, client);
    if (c != NULL) c->n_tokens += n_tokens;
}

struct bn_choice *bn_queue_next(struct bn_server *s)
{
    struct bn_choice *best = NULL;
    uint64_t least = UINT64_MAX;
    for (struct bn_job *job = s->jobs; job != NULL; job = job->next) {
        const struct bn_client *client = find(s, job->client);
        if (job->dropped || client == NULL || (best != NULL && client->n_tokens >= least)) continue;
        for (size_t i = 0; i < job->n_choices; i++) {
            if (job->choices[i].started || job->choices[i].ended) continue;
            best = &job->choices[i];
            least = client->n_tokens;
            break;
        }
    }
    return best;
}
