/* SPDX-License-Identifier: MIT
 *
 * Live profiles: what is published is what was measured, results keep their bits, readers see whole updates, and
 * each kind of damage in a file is an error with a name.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "lab/profile/graph.h"
#include "lab/profile/live.h"
#include "tests/unit/engine/profiler_maker.h"
#include "tests/unit/folder.h"

FIXTURE(begin)
{
    assert_int_equal(make_folder(NULL), 0);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
}

struct run {
    bn_model *model;
    bn_session *session;
    struct bn_live *live;
    float *logits;
};

static void open_run(struct run *r, unsigned n_threads)
{
    bn_session_options options = {.n_ctx = 64, .n_batch = 16, .n_threads = n_threads};
    must(bn_model_open(&r->model, NANO, NULL, NULL));
    must(bn_session_open(&r->session, r->model, &options, NULL));
    r->logits = bn_alloc(bn_model_hparams(r->model)->n_vocab, sizeof *r->logits);
    assert_non_null(r->logits);
    r->live = NULL;
}

static void publish(struct run *r, const char *path, enum bn_prof_level level)
{
    struct bn_live_options options = {path, level, "test", "nano"};
    must(bn_live_open(&r->live, r->session, &options, NULL));
}

static void close_run(struct run *r)
{
    bn_live_close(r->live);
    bn_session_close(r->session);
    bn_model_close(r->model);
    bn_free(r->logits);
}

static void evaluate(struct run *r, size_t n)
{
    static const int32_t TOKENS[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    must(bn_session_eval(r->session, TOKENS, n, BN_LOGITS_LAST, r->logits, NULL));
}

static void own_path(char path[BN_LIVE_PATH])
{
    char name[16];
    snprintf(name, sizeof name, "%u", (unsigned)getpid());
    must(bn_live_path(path, name, false, NULL));
}

static void read_now(struct bn_live_snapshot *s, const char *path)
{
    struct bn_live_reader *reader;
    must(bn_live_attach(&reader, path, &err));
    must(bn_live_read(s, reader, &err));
    bn_live_detach(reader);
}

/* ---- what is published ---- */

TEST(publishes_sums)
{
    struct run r;
    struct bn_live_snapshot s;
    char path[BN_LIVE_PATH];
    struct stat st;
    open_run(&r, 1);
    publish(&r, NULL, BN_PROF_BRICK);
    own_path(path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    read_now(&s, path);
    assert_int_equal(s.sums.n_passes, 0);
    assert_null(s.pass);
    bn_live_release(&s);

    evaluate(&r, 5);
    for (unsigned i = 0; i < 3; i++)
        evaluate(&r, 1);
    bn_live_set_load(r.live, &(struct bn_live_load){8, 3, 2, 1});
    read_now(&s, path);
    assert_int_equal(s.head.pid, getpid());
    assert_string_equal(s.head.model, "nano");
    assert_string_equal(s.head.program, "test");
    assert_false(s.has_ended);
    assert_int_equal(s.sums.n_passes, 4);
    assert_int_equal(s.sums.n_tokens, 8);
    assert_int_equal(s.sums.n_logits, 4);
    uint64_t n = s.sums.n_measured; /* of short passes not all are measured */
    assert_true(n >= 1 && n <= 4);
    assert_int_equal(s.sums.n_parts, n);
    assert_int_equal(s.sums.dropped, 0);
    assert_int_equal(s.load.n_running, 3);
    assert_int_equal(s.load.n_waiting, 2);
    assert_int_equal(s.sums.bricks[BN_BRICK_EMBEDDING].count, n);
    assert_int_equal(s.sums.bricks[BN_BRICK_LM_HEAD].count, n);
    assert_int_equal(s.sums.bricks[BN_BRICK_DOWN_PROJECTION].count, n * bn_model_hparams(r.model)->n_layer);
    assert_true(s.sums.bricks[BN_BRICK_DOWN_PROJECTION].ops > 0);
    assert_true(s.sums.bricks_ns > 0 && s.sums.bricks_ns <= s.sums.wall_ns);
    assert_true(s.sums.passes_ns <= s.sums.wall_ns);
    bn_live_release(&s);
    close_run(&r);
    assert_int_equal(access(path, F_OK), -1);
}

/* All passes are counted, although the events are forgotten. */
TEST(never_becomes_full)
{
    struct run r;
    struct bn_live_snapshot s;
    char path[BN_LIVE_PATH];
    open_run(&r, 1);
    publish(&r, NULL, BN_PROF_KERNEL);
    own_path(path);
    for (unsigned i = 0; i < 400; i++) {
        must(bn_session_truncate(r.session, 0, NULL));
        evaluate(&r, 1 + i % 12);
    }
    read_now(&s, path);
    assert_int_equal(s.sums.n_passes, 400);
    assert_int_equal(s.sums.dropped, 0);
    assert_int_equal(s.sums.bricks[BN_BRICK_LM_HEAD].count, s.sums.n_measured);
    uint64_t n_kernels = 0;
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++)
        n_kernels += s.sums.kernels[k].count;
    assert_true(n_kernels > 10 * s.sums.n_measured);
    bn_live_release(&s);
    close_run(&r);
}

TEST(keeps_the_bits)
{
    struct run plain, live;
    open_run(&plain, 2);
    open_run(&live, 2);
    publish(&live, NULL, BN_PROF_KERNEL);
    size_t n = bn_model_hparams(plain.model)->n_vocab * sizeof *plain.logits;
    for (unsigned i = 0; i < 6; i++) {
        evaluate(&plain, i % 2 == 0 ? 7 : 1);
        evaluate(&live, i % 2 == 0 ? 7 : 1);
        assert_memory_equal(plain.logits, live.logits, n);
    }
    close_run(&plain);
    close_run(&live);
}

/* The events of a pass give its graph and critical path. */
TEST(pass_has_a_graph)
{
    struct run r;
    struct bn_live_snapshot s;
    struct bn_graph graph;
    struct bn_schedule schedule;
    char path[BN_LIVE_PATH];
    open_run(&r, 2);
    publish(&r, NULL, BN_PROF_BRICK);
    own_path(path);
    evaluate(&r, 1);
    read_now(&s, path);
    assert_non_null(s.pass);
    assert_int_equal(s.pass_number, 1);
    bn_graph_open(&graph);
    must(bn_graph_add_profile(&graph, s.pass, NULL, 0, 1, NULL));
    must(bn_graph_finish(&graph, NULL));
    must(bn_schedule_open(&schedule, &graph, NULL, NULL));
    assert_true(schedule.path_ns > 0);
    assert_non_null(bn_schedule_find(&schedule, "DownProjection"));
    assert_null(bn_schedule_find(&schedule, "UpwardProjection"));
    bn_schedule_close(&schedule);
    bn_graph_close(&graph);
    bn_live_release(&s);
    close_run(&r);
}

TEST(tells_who_runs)
{
    struct run r, other;
    struct bn_live_options options = {NULL, BN_PROF_BRICK, "test", "nano"};
    char path[BN_LIVE_PATH], stale[BN_LIVE_PATH];
    uint32_t *list;
    size_t n;
    must(bn_live_list(&list, &n, NULL));
    assert_int_equal(n, 0);
    bn_free(list);
    open_run(&r, 1);
    open_run(&other, 1);
    publish(&r, NULL, BN_PROF_BRICK);
    own_path(path);
    must(bn_live_path(stale, "999999999", false, NULL));
    must(bn_file_write_atomic(stale, "old", 3, NULL));
    must(bn_live_list(&list, &n, NULL));
    assert_int_equal(n, 1); /* the writer of the other file has ended */
    assert_int_equal(list[0], getpid());
    bn_free(list);
    /* A file has one writer, and a file that is something else is not replaced. */
    options.path = path;
    refused(bn_live_open(&other.live, other.session, &options, &err), BN_ERR_ARG);
    assert_has(err.msg, "another process publishes its profile there");
    options.path = stale;
    refused(bn_live_open(&other.live, other.session, &options, &err), BN_ERR_ARG);
    assert_has(err.msg, "exists and is not a live profile");
    assert_null(other.live);
    /* The next writer removes the file of one that has ended. */
    close_run(&r);
    publish(&other, NULL, BN_PROF_BRICK);
    assert_int_equal(access(stale, F_OK), -1);
    close_run(&other);
}

TEST(needs_a_private_folder)
{
    struct run r;
    struct bn_live_options options = {NULL, BN_PROF_BRICK, "test", "nano"};
    const char *path = below("bn");
    open_run(&r, 1);
    publish(&r, NULL, BN_PROF_BRICK);
    bn_live_close(r.live);
    r.live = NULL;
    assert_int_equal(chmod(path, 0755), 0);
    refused(bn_live_open(&r.live, r.session, &options, &err), BN_ERR_IO);
    assert_has(err.msg, "mode 0700");
    assert_int_equal(chmod(path, 0700), 0);
    close_run(&r);
}

/* A process that is killed leaves its file, which keeps its last state. */
TEST(last_state_stays)
{
    struct bn_live_snapshot s;
    const char *path = below("killed");
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct run r;
        open_run(&r, 1);
        publish(&r, path, BN_PROF_BRICK);
        evaluate(&r, 1);
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WTERMSIG(status), SIGKILL);
    read_now(&s, path);
    assert_true(s.has_ended);
    assert_int_equal(s.sums.n_passes, 1);
    bn_live_release(&s);
}

#define BODY sizeof(struct bn_live_head)
#define THREAD (BODY + sizeof(struct bn_live_body))
#define EVENT (THREAD + sizeof(uint64_t))
#define AT_HEAD(member) offsetof(struct bn_live_head, member), sizeof((struct bn_live_head *)0)->member
#define AT_BODY(member) BODY + offsetof(struct bn_live_body, member), sizeof(uint64_t)
#define AT_EVENT(member) \
    EVENT + offsetof(struct bn_prof_event, member), sizeof((struct bn_prof_event *)0)->member

/* Writes `value` into these bytes of the file. */
static const struct fault {
    const char *what;
    size_t at, n;
    uint64_t value;
    bn_status status;
    const char *message;
} FAULTS[] = {
    {"magic", AT_HEAD(magic), 7, BN_ERR_FORMAT, "is not a live profile"},
    {"version", AT_HEAD(layout[0]), 99, BN_ERR_UNSUPPORTED, "another version of bn"},
    {"size of the head", AT_HEAD(layout[1]), 64, BN_ERR_UNSUPPORTED, "another version of bn"},
    {"size of the body", AT_HEAD(layout[2]), 1 << 30, BN_ERR_UNSUPPORTED, "another version of bn"},
    {"size of an event", AT_HEAD(layout[3]), 1, BN_ERR_UNSUPPORTED, "another version of bn"},
    {"number of kernels", AT_HEAD(layout[4]), 1000, BN_ERR_UNSUPPORTED, "another version of bn"},
    {"no threads", AT_HEAD(n_threads), 0, BN_ERR_FORMAT, "do not fit 0 threads"},
    {"more threads", AT_HEAD(n_threads), 2, BN_ERR_FORMAT, "do not fit 2 threads"},
    {"many threads", AT_HEAD(n_threads), UINT32_MAX, BN_ERR_FORMAT, "do not fit"},
    {"no events", AT_HEAD(max_events), 0, BN_ERR_FORMAT, "do not fit"},
    {"many events", AT_HEAD(max_events), UINT32_MAX, BN_ERR_FORMAT, "do not fit"},
    {"level", AT_HEAD(level), 9, BN_ERR_FORMAT, "head of the live profile is damaged"},
    {"no process", AT_HEAD(pid), 0, BN_ERR_FORMAT, "head of the live profile is damaged"},
    {"a rate of 0", AT_HEAD(ns_per_tick), 0, BN_ERR_FORMAT, "head of the live profile is damaged"},
    {"no rate", AT_HEAD(ns_per_tick), UINT64_MAX, BN_ERR_FORMAT, "head of the live profile is damaged"},
    {"a rate below 0", AT_HEAD(ns_per_tick), 0xbff0000000000000u, BN_ERR_FORMAT, "head of the live"},
    {"kernels that do not exist", offsetof(struct bn_live_head, isa), 1, 'x', BN_ERR_FORMAT,
     "head of the live profile is damaged"},
    {"a name without an end", AT_HEAD(program), UINT64_MAX, BN_ERR_FORMAT, "head of the live profile"},
    {"the writer was stopped", AT_BODY(sequence), 7, BN_ERR_FORMAT, "stopped in the middle of an update"},
    {"events of a thread", THREAD, 8, UINT64_MAX, BN_ERR_FORMAT, "has more events than fit"},
    {"brick of an event", AT_EVENT(brick), 200, BN_ERR_FORMAT, "events of the live profile are damaged"},
    {"kernel of an event", AT_EVENT(kernel), 200, BN_ERR_FORMAT, "events of the live profile are damaged"},
    {"depth of an event", AT_EVENT(depth), 8, BN_ERR_FORMAT, "events of the live profile are damaged"},
    {"pass of an event", AT_EVENT(pass), 5, BN_ERR_FORMAT, "events of the live profile are damaged"},
    {"layer of an event", AT_EVENT(layer), 0x8000, BN_ERR_FORMAT, "events of the live profile are damaged"},
};

static void write_file(const char *path, const char *bytes, size_t n)
{
    must(bn_file_write_atomic(path, bytes, n, NULL));
}

static bn_status try_to_read(const char *path, bn_error *e)
{
    struct bn_live_reader *reader = NULL;
    struct bn_live_snapshot s;
    *e = (bn_error){0};
    bn_status status = bn_live_attach(&reader, path, e);
    if (status == BN_OK) status = bn_live_read(&s, reader, e);
    if (status == BN_OK) bn_live_release(&s);
    bn_live_detach(reader);
    return status;
}

/* The file of a process with one thread that has run a pass. */
static void make_file(struct bn_buf *out)
{
    struct run r;
    char path[BN_LIVE_PATH];
    open_run(&r, 1);
    publish(&r, NULL, BN_PROF_KERNEL);
    evaluate(&r, 1);
    own_path(path);
    *out = (struct bn_buf){.max = SIZE_MAX};
    must(bn_file_read(path, out, NULL));
    close_run(&r);
}

TEST(detects_damage)
{
    struct bn_buf good;
    const char *path = below("damaged");
    make_file(&good);
    write_file(path, good.data, good.len);
    must(try_to_read(path, &err));
    char *bytes = bn_alloc(good.len, 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < BN_ARRAY_LEN(FAULTS); i++) {
        const struct fault *f = &FAULTS[i];
        memcpy(bytes, good.data, good.len);
        for (size_t b = 0; b < f->n; b++)
            bytes[f->at + b] = b < 8 ? (char)(f->value >> (8 * b)) : (char)0xff;
        write_file(path, bytes, good.len);
        bn_status status = attempt(try_to_read(path, &err));
        if (status != f->status || strstr(err.msg, f->message) == NULL)
            fail_msg("%s: status %d, %s", f->what, (int)status, err.msg);
    }
    for (size_t n = 0; n < good.len; n += 97) {
        write_file(path, good.data, n);
        refused(try_to_read(path, &err), BN_ERR_FORMAT);
    }
    bn_free(bytes);
    bn_buf_release(&good);
    refused(try_to_read("/dev/zero", &err), BN_ERR_FORMAT);
    refused(try_to_read(folder, &err), BN_ERR_FORMAT);
    refused(try_to_read(below("no such file"), &err), BN_ERR_NOT_FOUND);
}

/* A writer that was killed in the middle of an update has ended, as the reader reports. */
TEST(notices_a_killed_writer)
{
    struct bn_buf good;
    struct bn_live_reader *reader;
    struct bn_live_snapshot s;
    const char *path = below("odd");
    make_file(&good);
    good.data[BODY] |= 1;
    write_file(path, good.data, good.len);
    must(bn_live_attach(&reader, path, NULL));
    refused(bn_live_read(&s, reader, NULL), BN_ERR_FORMAT);
    assert_true(s.has_ended);
    bn_live_detach(reader);
    bn_buf_release(&good);
}

/* A file that becomes shorter while it is open is an error, not a signal. */
TEST(notices_a_cut)
{
    struct bn_buf good;
    struct bn_live_reader *reader;
    struct bn_live_snapshot s;
    const char *path = below("cut");
    make_file(&good);
    write_file(path, good.data, good.len);
    must(bn_live_attach(&reader, path, NULL));
    assert_int_equal(truncate(path, 5000), 0);
    refused(bn_live_read(&s, reader, &err), BN_ERR_FORMAT);
    assert_has(err.msg, "cut short");
    bn_live_detach(reader);
    bn_buf_release(&good);
}

/* ---- the sequence lock ---- */

struct writer {
    struct bn_live_body *body;
    bool locks; /* else the lock is left out */
    atomic_bool stop;
};

static void pause_ns(long ns)
{
    nanosleep(&(struct timespec){0, ns}, NULL);
}

/* Writes the same number everywhere, with a pause in the middle. */
static void *write_numbers(void *user)
{
    struct writer *w = user;
    uint64_t sequence = 0;
    for (uint64_t i = 1; !atomic_load(&w->stop); i++) {
        if (w->locks) atomic_store(&w->body->sequence, ++sequence);
        atomic_thread_fence(memory_order_release);
        for (unsigned b = 0; b < BN_BRICK_MAX; b++) {
            w->body->sums.bricks[b].count = w->body->sums.bricks[b].bytes = i;
            if (b == BN_BRICK_MAX / 2) pause_ns(20000);
        }
        if (w->locks) atomic_store_explicit(&w->body->sequence, ++sequence, memory_order_release);
        pause_ns(20000);
    }
    return NULL;
}

static bool is_whole(const struct bn_live_snapshot *s)
{
    for (unsigned b = 0; b < BN_BRICK_MAX; b++)
        if (s->sums.bricks[b].count != s->sums.bricks[0].count ||
            s->sums.bricks[b].bytes != s->sums.bricks[0].count)
            return false;
    return true;
}

/* Reads until `wanted` different states were seen, or a torn one. Returns whether all were whole. */
static bool reads_are_whole(bool locks, unsigned wanted)
{
    struct bn_buf good;
    struct bn_live_reader *reader;
    struct bn_live_snapshot s;
    struct writer w = {.locks = locks};
    const char *path = below("numbers");
    pthread_t thread;
    uint64_t last = 0;
    bool whole = true;
    make_file(&good);
    memset(good.data + BODY + offsetof(struct bn_live_body, sums), 0, sizeof(struct bn_live_sums));
    memset(good.data + BODY, 0, sizeof(uint64_t));
    write_file(path, good.data, good.len);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    char *map = mmap(NULL, good.len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    w.body = (struct bn_live_body *)(void *)(map + BODY);
    must(bn_live_attach(&reader, path, NULL));
    assert_int_equal(pthread_create(&thread, NULL, write_numbers, &w), 0);
    for (unsigned n = 0; whole && n < wanted;) {
        must(bn_live_read(&s, reader, NULL));
        whole = is_whole(&s);
        n += s.sums.bricks[0].count != last;
        last = s.sums.bricks[0].count;
        bn_live_release(&s);
    }
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    munmap(map, good.len);
    close(fd);
    bn_live_detach(reader);
    bn_buf_release(&good);
    return whole;
}

TEST(reads_whole_updates)
{
    assert_true(reads_are_whole(true, 200));
    assert_false(reads_are_whole(false, 1000000)); /* the test sees a torn update */
}

GROUP(begin, remove_folder)
