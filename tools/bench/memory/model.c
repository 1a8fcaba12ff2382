/* SPDX-License-Identifier: MIT
 *
 * bn-bench memory: the memory of a model and a session, by purpose; leaks; and memory pressure, which has to be an error and
 * not a crash.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "infer/session.h"
#include "tools/bench/harness.h"
#include "tools/cli/default_model.h"

#define ROUNDS 8u
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

/* ---- leaks ---- */

static bn_status open_and_close(const struct bn_harness *s, bn_error *err)
{
    bn_model *model = NULL;
    bn_session *session = NULL;
    int32_t token = 0;
    BN_TRY(bn_cli_open_model(&model, s->args, NULL, err));
    bn_status status = bn_session_open(&session, model, NULL, err);
    if (status == BN_OK) status = bn_session_eval(session, &token, 1, BN_LOGITS_NONE, NULL, err);
    bn_session_close(session);
    bn_model_close(model);
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

/* The first round makes what stays: threads, tables. */
static bn_status measure_leaks(struct bn_harness *s, bn_error *err)
{
    char why[160];
    struct bn_mem_stats before = {0};
    for (unsigned i = 0; i <= ROUNDS; i++) {
        if (i == 1) before = bn_mem_stats();
        BN_TRY(open_and_close(s, err));
    }
    struct bn_mem_stats after = bn_mem_stats();
    const char *leak = bn_memory_leak(why, &before, &after);
    bn_json *o = bn_harness_test(s, "leaks");
    BN_PUT_COUNTS(o, {"rounds", ROUNDS}, {"allocations", after.allocations - before.allocations},
                  {"bytes_before", before.bytes_now}, {"bytes_after", after.bytes_now});
    bn_harness_state(s, o, "balanced", leak == NULL);
    bn_harness_print(s, "%-32s %s\n", "leaks", leak != NULL ? leak : "none");
    return BN_OK;
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
    const struct {
        const char *metric;
        uint64_t bytes;
    } PARTS[] = {{"kv_bytes", parts.kv_bytes},
                 {"scratch_bytes", parts.scratch_bytes},
                 {"handle_bytes", parts.handle_bytes},
                 {"heap_bytes", session_heap}};
    bool equal = parts.kv_bytes + parts.scratch_bytes + parts.handle_bytes == session_heap;
    bn_json *model = bn_harness_test(s, "tags model"), *o = bn_harness_test(s, "tags session");
    BN_PUT_COUNTS(model, {"file_bytes", m->n_bytes}, {"heap_bytes", model_heap},
                  {"weight_copies_bytes", copies_of(m)});
    bn_harness_state(s, model, "copies_within_heap", copies_of(m) <= model_heap);
    for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++)
        BN_TRY(bn_harness_put_value(s, "session", PARTS[i].metric, (double)PARTS[i].bytes, err));
    bn_harness_state(s, o, "parts_equal_whole", equal);
    bn_harness_print(s, "%-14s file %.1f MiB, heap %.1f MiB (%.1f MiB are copies of weights)\n", "tags model",
                     (double)m->n_bytes / 0x1p20, (double)model_heap / 0x1p20, (double)copies_of(m) / 0x1p20);
    bn_harness_print(s, "%-14s KV %.1f MiB + scratch %.1f MiB + handle %llu B %s the %.1f MiB counted\n",
                     "tags session", (double)parts.kv_bytes / 0x1p20, (double)parts.scratch_bytes / 0x1p20,
                     (unsigned long long)parts.handle_bytes, equal ? "=" : "IS NOT",
                     (double)session_heap / 0x1p20);
    return BN_OK;
}

/* ---- what of it is used ---- */

/* Bytes of a block's pages that have been touched; adds what was asked for to *all. */
static uint64_t touched(const void *block, uint64_t *all)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (size_t)bn_mem_size(block);
    const uintptr_t first = (uintptr_t)block / page * page;
    uint64_t bytes = 0;
    *all += n;
    for (uintptr_t at = first; at < (uintptr_t)block + n; at += page) {
        unsigned char resident = 0;
        bytes += mincore((void *)at, 1, &resident) == 0 && (resident & 1) != 0 ? page : 0;
    }
    return bn_min_size(n, (size_t)bytes);
}

/* After a prompt of one batch: the share of the session's memory that it touched, and the share of the heap that was asked
 * for. The KV cache is allocated whole, and touched as the context grows. */
static bn_status put_use(struct bn_harness *s, bn_session *session, bn_error *err)
{
    const uint32_t n = (uint32_t)bn_min_size(bn_session_n_batch(session), bn_session_n_ctx(session));
    const struct bn_sequence *own = bn_session_sequence(session);
    int32_t *ids = bn_alloc(n, sizeof *ids);
    if (ids == NULL) return bn_nomem(err);
    bn_status status = bn_session_eval(session, ids, n, BN_LOGITS_NONE, NULL, err);
    bn_free(ids);
    BN_TRY(status);
    uint64_t kv = 0, scratch = 0, asked = bn_mem_stats().bytes_now, held = bn_memory_held();
    uint64_t kv_touched = touched(own->k_cache, &kv) + touched(own->v_cache, &kv),
             scratch_touched = touched(session->arena, &scratch);
    double used = (double)(kv_touched + scratch_touched) / (double)(kv + scratch);
    double efficiency = (double)asked / (double)held; /* held: 0 if unknown */
    bn_json *o = bn_harness_test(s, "tags use");
    BN_PUT_COUNTS(o, {"tokens", n}, {"kv_bytes", kv}, {"kv_touched_bytes", kv_touched},
                  {"scratch_bytes", scratch}, {"scratch_touched_bytes", scratch_touched},
                  {"asked_bytes", asked}, {"held_bytes", held});
    bn_harness_state(s, o, "touched", kv_touched > 0 && scratch_touched > 0);
    bn_harness_print(s, "%-14s %u tokens touch %.1f %% of KV, %.1f %% of scratch", "tags use", n,
                     100 * (double)kv_touched / (double)kv, 100 * (double)scratch_touched / (double)scratch);
    if (held >= asked) bn_harness_print(s, "; %.1f %% of the heap is asked for", 100 * efficiency);
    bn_harness_print(s, "\n");
    BN_TRY(bn_harness_put_value(s, "session", "memory_utilisation", used, err));
    return held < asked ? BN_OK : bn_harness_put_value(s, "session", "pool_efficiency", efficiency, err);
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
    bool ended = child > 0 && waitpid(child, &status, 0) == child;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (!ended || code == 2) {
        bn_harness_skip(s, "pressure", ended ? "no limit can be set" : "no process could be started");
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
    if (status == BN_OK && bn_harness_wants(s, "tags")) status = put_use(s, session, err);
    bn_session_close(session);
    if (status == BN_OK && bn_harness_wants(s, "pressure")) measure_pressure(s, model);
    bn_model_close(model);
    return status;
}

bn_status bn_memory_model(struct bn_harness *s, bn_error *err)
{
    bool session = (bn_harness_wants(s, "tags") + bn_harness_wants(s, "pressure")) != 0; /* both are asked */
    bool leaks = bn_harness_wants(s, "leaks");
    BN_TRY(bn_harness_flush(s, err));
    if (session || leaks) bn_harness_print(s, "\n");
    if (session) BN_TRY(measure_session(s, err));
    return leaks ? measure_leaks(s, err) : BN_OK;
}
