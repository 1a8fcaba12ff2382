/* SPDX-License-Identifier: MIT
 *
 * bn-bench memory: the memory of a model and a session, by purpose; the time to open and close them; leaks;
 * and memory pressure, which has to be an error and not a crash.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "infer/session.h"
#include "tools/bench/memory/memory.h"
#include "tools/cli/default_model.h"

#define MAX_ROUNDS 100u
#if defined(__SANITIZE_ADDRESS__)
#define HAS_SANITIZER 1 /* it ends the program when an allocation fails, and reserves terabytes */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif
#ifndef HAS_SANITIZER
#define HAS_SANITIZER 0
#endif

#define PRESSURE_SECONDS 30u
#define PRESSURE_ROOM ((size_t)1 << 20) /* address space that is left */

/* ---- opening and closing ---- */

enum opening { MODEL_OPEN, MODEL_CLOSE, SESSION_OPEN, SESSION_CLOSE, OPENINGS };
static const char *const OPENING_NAMES[] = {"model open",    "model close", "session open",
                                            "session close", "leaks",       NULL};

struct open_times {
    uint64_t ns[OPENINGS][MAX_ROUNDS], last_ns;
    size_t n;
};

/* Nanoseconds since the last call. */
static void lap(struct open_times *t, enum opening of)
{
    uint64_t now = bn_clock_ns();
    t->ns[of][t->n] = now - t->last_ns;
    t->last_ns = now;
}

/* A sample opens this many: the time of one can be too short for the clock. */
#define AT_ONCE 8u

static bn_status open_sessions(const struct bn_harness *s, struct open_times *t, bn_model **models,
                               bn_session **sessions, bn_error *err)
{
    int32_t token = 0;
    t->last_ns = bn_clock_ns();
    for (size_t i = 0; i < AT_ONCE; i++)
        BN_TRY(bn_cli_open_model(&models[i], s->args, NULL, err));
    lap(t, MODEL_OPEN);
    for (size_t i = 0; i < AT_ONCE; i++)
        BN_TRY(bn_session_open(&sessions[i], models[i], NULL, err));
    lap(t, SESSION_OPEN);
    for (size_t i = 0; i < AT_ONCE; i++)
        BN_TRY(bn_session_eval(sessions[i], &token, 1, BN_LOGITS_NONE, NULL, err));
    return BN_OK;
}

static bn_status open_round(const struct bn_harness *s, struct open_times *t, bn_error *err)
{
    bn_model *models[AT_ONCE] = {0};
    bn_session *sessions[AT_ONCE] = {0};
    bn_status status = open_sessions(s, t, models, sessions, err);
    t->last_ns = bn_clock_ns();
    for (size_t i = 0; i < AT_ONCE; i++)
        bn_session_close(sessions[i]);
    lap(t, SESSION_CLOSE);
    for (size_t i = 0; i < AT_ONCE; i++)
        bn_model_close(models[i]);
    lap(t, MODEL_CLOSE);
    t->n++;
    return status;
}

const char *bn_memory_leak(char out[160], const struct bn_mem_stats *before, const struct bn_mem_stats *after)
{
    if (after->bytes_now == before->bytes_now) return NULL;
    snprintf(out, 160, "%llu bytes were in use before, %llu after %llu allocations",
             (unsigned long long)before->bytes_now, (unsigned long long)after->bytes_now,
             (unsigned long long)(after->allocations - before->allocations));
    return out;
}

static bn_status put_calls(struct bn_harness *s, const char *name, uint64_t calls, const uint64_t *ns,
                           size_t n, bn_error *err)
{
    struct bn_harness_row row = {.test = name, .metric = "ns_per_call", .per_call = 1, .n_threads = 1};
    if (!bn_harness_wants(s, name)) return BN_OK;
    BN_TRY(bn_harness_put_samples(s, &row, calls, ns, n, bn_harness_test(s, name), err));
    bn_harness_put_row(s, &row);
    return BN_OK;
}

static bn_status measure_opening(struct bn_harness *s, bn_error *err)
{
    char why[160];
    struct open_times *t = bn_alloc(1, sizeof *t);
    if (t == NULL) return bn_nomem(err);
    bn_status status = open_round(s, t, err); /* warms up: threads, pages of the file */
    t->n = 0;
    struct bn_mem_stats before = bn_mem_stats();
    uint64_t start = bn_clock_ns();
    while (status == BN_OK && t->n < MAX_ROUNDS &&
           (t->n < BN_BENCH_MIN_SAMPLES || bn_clock_ns() - start < 4 * s->min_ns))
        status = open_round(s, t, err);
    struct bn_mem_stats after = bn_mem_stats();
    for (size_t i = 0; i < OPENINGS && status == BN_OK; i++)
        status = put_calls(s, OPENING_NAMES[i], AT_ONCE, t->ns[i], t->n, err);
    const char *leak = bn_memory_leak(why, &before, &after);
    bn_json *o = bn_harness_test(s, "leaks");
    bn_json_put_u64(o, "rounds", t->n);
    bn_json_put_u64(o, "allocations", after.allocations - before.allocations);
    bn_json_put_u64(o, "bytes_before", before.bytes_now);
    bn_json_put_u64(o, "bytes_after", after.bytes_now);
    bn_harness_state(s, o, "balanced", leak == NULL);
    bn_harness_print(s, "%-32s %s\n", "leaks", leak != NULL ? leak : "none");
    bn_free(t);
    return status;
}

/* ---- what a session holds ---- */

static uint64_t copies_of(const bn_model *m)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->n_copies; i++)
        bytes += bn_mem_size(m->copies[i]);
    return bytes;
}

/* Parts as session and model report them, the sum as the allocator counted it. */
static bn_status put_tags(struct bn_harness *s, const bn_model *m, const bn_session *session,
                          uint64_t model_heap, uint64_t session_heap, bn_error *err)
{
    struct bn_session_memory parts = bn_session_memory(session);
    uint64_t sum = parts.kv_bytes + parts.scratch_bytes + parts.handle_bytes;
    bn_json *model = bn_harness_test(s, "tags model");
    bn_json_put_u64(model, "file_bytes", m->n_bytes);
    bn_json_put_u64(model, "heap_bytes", model_heap);
    bn_json_put_u64(model, "weight_copies_bytes", copies_of(m));
    bn_harness_state(s, model, "copies_within_heap", copies_of(m) <= model_heap);
    bn_json *o = bn_harness_test(s, "tags session");
    BN_TRY(bn_harness_put_value(s, "session", "kv_bytes", (double)parts.kv_bytes, err));
    BN_TRY(bn_harness_put_value(s, "session", "scratch_bytes", (double)parts.scratch_bytes, err));
    BN_TRY(bn_harness_put_value(s, "session", "handle_bytes", (double)parts.handle_bytes, err));
    BN_TRY(bn_harness_put_value(s, "session", "heap_bytes", (double)session_heap, err));
    bn_harness_state(s, o, "parts_equal_whole", sum == session_heap);
    bn_harness_print(s, "%-14s file %.1f MiB, heap %.1f MiB (%.1f MiB are copies of weights)\n", "tags model",
                     (double)m->n_bytes / 0x1p20, (double)model_heap / 0x1p20, (double)copies_of(m) / 0x1p20);
    bn_harness_print(s, "%-14s KV %.1f MiB + scratch %.1f MiB + handle %llu B %s the %.1f MiB counted\n",
                     "tags session", (double)parts.kv_bytes / 0x1p20, (double)parts.scratch_bytes / 0x1p20,
                     (unsigned long long)parts.handle_bytes, sum == session_heap ? "=" : "IS NOT",
                     (double)session_heap / 0x1p20);
    return BN_OK;
}

/* ---- memory pressure ---- */

/* Allocates all memory that is left, large blocks first. It is freed with the process. */
static void take_the_rest(void)
{
    void *volatile last = NULL;
    for (size_t size = PRESSURE_ROOM; size >= 1024; size /= 2)
        for (void *block; (block = malloc(size)) != NULL; last = block)
            memcpy(block, (void *[]){last}, sizeof last);
}

/* In a child with almost no memory left: 0 when opening a session returns BN_ERR_NOMEM. */
static int open_under_pressure(const bn_model *model)
{
    bn_session *session = NULL;
    bn_session_options options = {.n_threads = 1};
    bn_error err = {0};
    struct rlimit limit = {0};
    uint64_t used = bn_machine_status_bytes("VmSize");
    alarm(PRESSURE_SECONDS);
    limit.rlim_cur = limit.rlim_max = (rlim_t)(used + PRESSURE_ROOM);
    if (used == 0 || HAS_SANITIZER || setrlimit(RLIMIT_AS, &limit) != 0) return 2;
    take_the_rest();
    bn_status status = bn_session_open(&session, model, &options, &err);
    return status == BN_ERR_NOMEM && session == NULL ? 0 : 1;
}

static void measure_pressure(struct bn_harness *s, const bn_model *model)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(open_under_pressure(model));
    if (child < 0 || waitpid(child, &status, 0) != child) {
        bn_harness_skip(s, "pressure", "no process could be started");
        return;
    }
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (code == 2) {
        bn_harness_skip(s, "pressure", "no limit can be set");
        return;
    }
    bn_json *o = bn_harness_test(s, "pressure");
    bn_json_put_u64(o, "room_bytes", PRESSURE_ROOM);
    bn_harness_state(s, o, "refused_with_error", code == 0);
    bn_harness_print(s, "%-32s %s\n", "pressure",
                     code == 0 ? "an error, as expected" : "FAILED: a crash, or the wrong error");
}

static bn_status measure_session(struct bn_harness *s, bn_error *err)
{
    bn_model *model = NULL;
    bn_session *session = NULL;
    uint64_t start = bn_mem_stats().bytes_now;
    BN_TRY(bn_cli_open_model(&model, s->args, NULL, err));
    uint64_t with_model = bn_mem_stats().bytes_now;
    bn_status status = bn_session_open(&session, model, NULL, err);
    uint64_t with_session = bn_mem_stats().bytes_now;
    if (status == BN_OK && bn_harness_wants(s, "tags"))
        status = put_tags(s, model, session, with_model - start, with_session - with_model, err);
    bn_session_close(session);
    if (status == BN_OK && bn_harness_wants(s, "pressure")) measure_pressure(s, model);
    bn_model_close(model);
    return status;
}

static bool wants_any(struct bn_harness *s, const char *const *names)
{
    bool any = false;
    for (size_t i = 0; names[i] != NULL; i++)
        any = bn_harness_wants(s, names[i]) || any;
    return any;
}

bn_status bn_memory_model(struct bn_harness *s, bn_error *err)
{
    static const char *const HEADS[] = {"model", "time", "spread"};
    BN_TRY(bn_harness_table(s, HEADS, "lrr", err));
    if (wants_any(s, (const char *const[]){"tags", "pressure", NULL})) BN_TRY(measure_session(s, err));
    return wants_any(s, OPENING_NAMES) ? measure_opening(s, err) : BN_OK;
}
