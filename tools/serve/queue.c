/* SPDX-License-Identifier: MIT
 *
 * The fair queue: the client that got the fewest tokens is next (virtual token counter; Sheng et al., 2024). A client
 * that comes anew begins with the least count of those that wait or run, so that nobody saves up for later. A client
 * ages while it waits: each BN_SERVE_TOKEN_NS count as one token less. So many new clients do not delay an old one
 * forever. Another request of the same client does not age it: a flood gains nothing.
 */
#include "tools/serve/job.h"

static struct bn_client *find(struct bn_server *s, uint64_t client)
{
    for (size_t i = 0; i < s->n_clients; i++)
        if (s->clients[i].n_jobs > 0 && s->clients[i].client == client) return &s->clients[i];
    return NULL;
}

bool bn_queue_enter(struct bn_server *s, uint64_t client, uint64_t now_ns)
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
    *place = (struct bn_client){client, before > least ? before : least, now_ns, 1};
    return true;
}

void bn_queue_leave(struct bn_server *s, uint64_t client)
{
    struct bn_client *c = find(s, client);
    if (c != NULL) c->n_jobs--;
}

bool bn_queue_knows(struct bn_server *s, uint64_t client)
{
    return find(s, client) != NULL;
}

void bn_queue_account(struct bn_server *s, uint64_t client, uint64_t n_tokens, uint64_t now_ns)
{
    struct bn_client *c = find(s, client);
    if (c == NULL) return;
    c->n_tokens += n_tokens;
    c->served_ns = now_ns;
}

void bn_queue_charge(struct bn_server *s, const struct bn_choice *c, uint64_t now_ns)
{
    bn_queue_account(s, c->job->client, c->gen.n_ids + c->gen.grammar_cost, now_ns);
}

/* What a client has got, less what it is owed for waiting. */
static uint64_t count_of(const struct bn_client *c, uint64_t now_ns)
{
    uint64_t waited = now_ns > c->served_ns ? (now_ns - c->served_ns) / BN_SERVE_TOKEN_NS : 0;
    return c->n_tokens > waited ? c->n_tokens - waited : 0;
}

struct bn_choice *bn_queue_next(struct bn_server *s, uint64_t now_ns,
                                bool (*may_start)(struct bn_server *s, const struct bn_choice *choice))
{
    struct bn_choice *best = NULL;
    uint64_t least = UINT64_MAX;
    for (struct bn_job *job = s->jobs; job != NULL; job = job->next) {
        const struct bn_client *client = find(s, job->client);
        if (job->dropped || client == NULL) continue;
        uint64_t count = count_of(client, now_ns);
        if (best != NULL && count >= least) continue;
        for (size_t i = 0; i < job->n_choices; i++) {
            struct bn_choice *c = &job->choices[i];
            if (c->started || c->ended || (may_start != NULL && !may_start(s, c))) continue;
            best = c;
            least = count;
            break;
        }
    }
    return best;
}
