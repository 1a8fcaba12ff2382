/* SPDX-License-Identifier: MIT
 *
 * Which models of bn-serve are open: those that are asked for, in turn; one with users is never closed; names and times.
 */
#include "tests/unit/unit.h"
#include "tools/serve/job.h"

#define N 3u
#define SECOND 1000000000u

struct fixture {
    struct bn_serve_options options;
    struct bn_server server;
    struct bn_engine engines[N];
    struct bn_waiter waiters[4];
    size_t n_waiters;
    uint64_t until_ns;
};

/* Closed models of 100, 200 and 300 bytes, which were used in this order. */
static struct fixture *open_models(uint32_t most)
{
    static const char *const IDS[N] = {"a.gguf", "b.gguf", "folder/b.gguf"};
    struct fixture *f = test_malloc(sizeof *f);
    *f = (struct fixture){.options.n_models = most};
    f->server.o = &f->options;
    f->server.engines = f->engines;
    f->server.n_engines = N;
    for (size_t i = 0; i < N; i++) {
        f->engines[i] = (struct bn_engine){.server = &f->server,
                                           .state = BN_ENGINE_CLOSED,
                                           .n_bytes = 100 * (i + 1),
                                           .used_ns = i + 1,
                                           .keep_ns = UINT64_MAX};
        snprintf(f->engines[i].id, sizeof f->engines[i].id, "%s", IDS[i]);
    }
    return f;
}

static void put_waiter(struct fixture *f, size_t engine)
{
    struct bn_waiter *w = &f->waiters[f->n_waiters++], **end = &f->server.waiters;
    w->engine = &f->engines[engine];
    while (*end != NULL)
        end = &(*end)->next;
    *end = w;
}

/* The place of the next one, N for none. */
static size_t next(struct fixture *f, uint64_t now_ns, uint64_t memory)
{
    struct bn_engine *e = bn_models_next(&f->server, now_ns, memory, &f->until_ns);
    return e != NULL ? (size_t)(e - f->engines) : N;
}

TEST(a_model_is_opened_when_it_is_asked_for)
{
    struct fixture *f = open_models(0);
    assert_int_equal(next(f, 0, UINT64_MAX), N);
    assert_true(f->until_ns == UINT64_MAX);
    put_waiter(f, 1);
    assert_int_equal(next(f, 0, UINT64_MAX), 1);
    f->engines[1].state = BN_ENGINE_OPEN;
    assert_int_equal(next(f, 0, UINT64_MAX), N);
    test_free(f);
}

TEST(the_idle_one_that_was_used_least_recently_makes_room)
{
    struct fixture *f = open_models(2);
    f->engines[0].state = f->engines[1].state = BN_ENGINE_OPEN;
    put_waiter(f, 2);
    assert_int_equal(next(f, 0, UINT64_MAX), 0);
    f->engines[0].n_users = 1;
    assert_int_equal(next(f, 0, UINT64_MAX), 1);
    f->engines[1].state = BN_ENGINE_CLOSED;
    assert_int_equal(next(f, 0, UINT64_MAX), 2);
    test_free(f);
}

TEST(one_that_is_used_gets_no_new_users_until_it_makes_room)
{
    struct fixture *f = open_models(2);
    f->engines[0].state = f->engines[1].state = BN_ENGINE_OPEN;
    f->engines[0].n_users = f->engines[1].n_users = 1;
    put_waiter(f, 2);
    assert_int_equal(next(f, 0, UINT64_MAX), N);
    assert_ptr_equal(f->server.drained, &f->engines[0]);
    f->engines[0].used_ns = 9; /* the other one was used less recently now: still the same one */
    assert_int_equal(next(f, 0, UINT64_MAX), N);
    assert_ptr_equal(f->server.drained, &f->engines[0]);
    f->engines[1].n_users = 0; /* but one that is idle is taken */
    assert_int_equal(next(f, 0, UINT64_MAX), 1);
    assert_null(f->server.drained);
    f->engines[1].n_users = 1;
    f->server.waiters = NULL; /* nobody waits any more */
    assert_int_equal(next(f, 0, UINT64_MAX), N);
    assert_null(f->server.drained);
    test_free(f);
}

TEST(memory_limits_what_is_open)
{
    struct fixture *f = open_models(0);
    f->engines[0].state = BN_ENGINE_OPEN;
    put_waiter(f, 1);
    assert_int_equal(next(f, 0, 300), 1);
    assert_int_equal(next(f, 0, 299), 0);
    f->engines[1].crowded = 1; /* the file is not all that it takes */
    assert_int_equal(next(f, 0, 300), 0);
    f->engines[0].state = BN_ENGINE_CLOSED;
    assert_int_equal(next(f, 0, 1), 1); /* alone it is tried */
    test_free(f);
}

TEST(an_idle_one_is_closed_after_its_time)
{
    struct fixture *f = open_models(0);
    f->engines[0].state = f->engines[1].state = BN_ENGINE_OPEN;
    f->engines[1].keep_ns = SECOND;
    assert_int_equal(next(f, SECOND, UINT64_MAX), N);
    assert_true(f->until_ns == SECOND + 2);
    assert_int_equal(next(f, SECOND + 2, UINT64_MAX), 1);
    f->engines[1].n_users = 1;
    assert_int_equal(next(f, 9u * (uint64_t)SECOND, UINT64_MAX), N);
    assert_true(f->until_ns == UINT64_MAX);
    f->engines[1].n_users = 0;
    f->engines[1].keep_ns = 0;
    assert_int_equal(next(f, 2, UINT64_MAX), 1);
    test_free(f);
}

TEST(models_are_found_by_their_names)
{
    struct fixture *f = open_models(0);
    static const struct {
        const char *name;
        int engine;
    } CASES[] = {{"a.gguf", 0}, {"a", 0},        {"a:latest", 0}, {"a.gguf:latest", 0},
                 {"b", 1},      {"folder/b", 2}, {"a.ggu", -1},   {"a:7b", -1},
                 {"", -1},      {":latest", -1}, {".gguf", -1},   {"A.gguf", -1}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct bn_engine *want = CASES[i].engine < 0 ? NULL : &f->engines[CASES[i].engine];
        assert_ptr_equal(bn_models_find(&f->server, CASES[i].name), want);
    }
    test_free(f);
}

TEST(times_are_those_of_ollama)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } CASES[] = {{"0", 0},
                 {"90", 90000},
                 {"5m", 300000},
                 {"1h30m", 5400000},
                 {"1.5s", 1500},
                 {"250ms", 250},
                 {"2d", 172800000},
                 {"-1", UINT64_MAX},
                 {"-1m", UINT64_MAX},
                 {"forever", UINT64_MAX},
                 {"99999999999999999999", UINT64_MAX}};
    static const char *const WRONG[] = {"",     "m",   "5x",    "5 m", "1e5", "nan",
                                        "0x10", "--1", "1..5s", "5m ", "-"};
    uint64_t ns;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        assert_true(bn_models_time(CASES[i].text, &ns));
        assert_true(ns == (CASES[i].ms == UINT64_MAX ? UINT64_MAX : CASES[i].ms * 1000000));
    }
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++)
        assert_false(bn_models_time(WRONG[i], &ns));
}
