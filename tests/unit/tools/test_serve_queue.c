/* SPDX-License-Identifier: MIT
 *
 * The fair queue of bn-serve: a client that asks much does not delay one that asks little, and nobody saves up.
 */
#include "tests/unit/unit.h"
#include "tools/serve/job.h"

#define N_CLIENTS 3u

struct fixture {
    struct bn_server server;
    struct bn_client clients[N_CLIENTS];
    struct bn_job jobs[40];
    size_t n_jobs;
    uint64_t now_ns;
    bool (*may_start)(struct bn_server *s, const struct bn_choice *choice);
};

static void open_queue(struct fixture *f)
{
    *f = (struct fixture){0};
    f->server.clients = f->clients;
    f->server.n_clients = N_CLIENTS;
}

/* A job with a number of choices at the end of the queue. */
static struct bn_job *add(struct fixture *f, uint64_t client, size_t n_choices)
{
    struct bn_job *job = &f->jobs[f->n_jobs++], **end = &f->server.jobs;
    *job = (struct bn_job){.client = client, .n_choices = n_choices};
    for (size_t i = 0; i < n_choices; i++)
        job->choices[i].job = job;
    assert_true(bn_queue_enter(&f->server, client, f->now_ns));
    while (*end != NULL)
        end = &(*end)->next;
    *end = job;
    return job;
}

/* Starts the next choice, which gets this many tokens; returns its client, 0 for none. */
static uint64_t start(struct fixture *f, uint64_t n_tokens)
{
    struct bn_choice *c = bn_queue_next(&f->server, f->now_ns, f->may_start);
    if (c == NULL) return 0;
    c->started = true;
    bn_queue_account(&f->server, c->job->client, n_tokens, f->now_ns);
    return c->job->client;
}

TEST(the_client_with_the_fewest_tokens_is_next)
{
    struct fixture *f = test_malloc(sizeof *f);
    open_queue(f);
    assert_int_equal(start(f, 1), 0);
    add(f, 7, 4);
    assert_int_equal(start(f, 100), 7);
    add(f, 8, 2); /* begins with the count of 7 */
    assert_int_equal(start(f, 100), 7);
    assert_int_equal(start(f, 10), 8);
    assert_int_equal(start(f, 10), 8);
    assert_int_equal(start(f, 10), 7);
    test_free(f);
}

TEST(a_client_that_paused_has_saved_nothing)
{
    struct fixture *f = test_malloc(sizeof *f);
    open_queue(f);
    add(f, 7, 1);
    assert_int_equal(start(f, 5), 7);
    bn_queue_leave(&f->server, 7);
    add(f, 8, 4);
    assert_int_equal(start(f, 1000), 8);
    add(f, 7, 3); /* as much as 8 has: the order of their coming decides */
    assert_int_equal(start(f, 1), 8);
    assert_int_equal(start(f, 2), 7);
    assert_int_equal(start(f, 2), 8);
    test_free(f);
}

TEST(jobs_that_were_dropped_do_not_start)
{
    struct fixture *f = test_malloc(sizeof *f);
    open_queue(f);
    add(f, 7, 2)->dropped = true;
    add(f, 8, 1)->choices[0].ended = true;
    assert_int_equal(start(f, 1), 0);
    add(f, 9, 1);
    assert_int_equal(start(f, 1), 9);
    test_free(f);
}

TEST(the_table_of_clients_has_an_end)
{
    struct fixture *f = test_malloc(sizeof *f);
    open_queue(f);
    for (uint64_t client = 1; client <= N_CLIENTS; client++)
        add(f, client, 1);
    assert_false(bn_queue_enter(&f->server, 99, 0));
    assert_true(bn_queue_enter(&f->server, 2, 0)); /* it is known */
    bn_queue_leave(&f->server, 1);
    assert_true(bn_queue_enter(&f->server, 99, 0));
    test_free(f);
}

#define SECOND 1000000000u

/* New clients come without end, each with the least count; the old one, which got many tokens, waits as long as its lead
 * is worth, and no longer. */
TEST(an_old_client_is_not_passed_by_new_ones_forever)
{
    struct fixture *f = test_malloc(sizeof *f);
    open_queue(f);
    add(f, 7, 2);
    add(f, 8, 1);
    assert_int_equal(start(f, 1000), 7); /* 10 s ahead of 8 */
    assert_int_equal(start(f, 0), 8);
    bn_queue_leave(&f->server, 8);
    add(f, 9, 1)->choices[0].started = true; /* begins with the count of 7: lower it */
    f->clients[1].n_tokens = 0;
    size_t n_new = 0;
    for (uint64_t client = 10; client < 30; client++) {
        f->now_ns += SECOND;
        struct bn_job *job = add(f, client, 1);
        uint64_t first = start(f, 0);
        if (first == 7) break;
        assert_int_equal(first, client);
        n_new++;
        bn_queue_leave(&f->server, client);
        f->server.jobs = &f->jobs[0];
        job->choices[0].ended = true;
    }
    assert_in_range(n_new, 5, 10);
    test_free(f);
}

/* A client with many jobs is served again and again, so that it does not age. */
TEST(a_flood_does_not_delay_a_newcomer)
{
    struct fixture *f = test_malloc(sizeof *f);
    open_queue(f);
    for (size_t i = 0; i < 30; i++)
        add(f, 7, 1);
    for (size_t i = 0; i < 10; i++) {
        f->now_ns += SECOND;
        assert_int_equal(start(f, 300), 7);
    }
    add(f, 8, 2);
    assert_int_equal(start(f, 300), 7); /* it came first, and both have the same count */
    assert_int_equal(start(f, 300), 8);
    test_free(f);
}

static bool not_of_7(struct bn_server *s, const struct bn_choice *choice)
{
    (void)s;
    return choice->job->client != 7;
}

TEST(what_may_not_start_is_passed_over)
{
    struct fixture *f = test_malloc(sizeof *f);
    open_queue(f);
    add(f, 7, 1);
    f->may_start = not_of_7;
    assert_int_equal(start(f, 1), 0);
    add(f, 8, 1);
    assert_int_equal(start(f, 1), 8);
    f->may_start = NULL;
    assert_int_equal(start(f, 1), 7);
    test_free(f);
}

/* A client whose grammar takes much work gets no token for it, and waits as if it had. */
TEST(work_on_a_grammar_counts)
{
    struct fixture *f = test_malloc(sizeof *f);
    open_queue(f);
    struct bn_job *dear = add(f, 7, 3);
    add(f, 8, 3);
    assert_int_equal(start(f, 2), 7);
    assert_int_equal(start(f, 2), 8);
    dear->choices[0].gen = (bn_generation){.n_ids = 1, .grammar_cost = 100};
    bn_queue_charge(&f->server, &dear->choices[0], f->now_ns);
    assert_int_equal(start(f, 60), 8);
    assert_int_equal(start(f, 60), 8);
    assert_int_equal(start(f, 1), 7);
    test_free(f);
}
