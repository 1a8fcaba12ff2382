/* SPDX-License-Identifier: MIT
 *
 * Records of perf_event_open, made by hand: rings that wrap, records that lie about their lengths, what is
 * lost, and what processes inherit.
 */
#include <linux/perf_event.h>

#include "lab/sampler/tier.h"
#include "tests/unit/status.h"

#define RING 4096u

/* A ring and who writes into it. */
struct world {
    unsigned char data[RING];
    struct bn_perf_ring ring;
    struct bn_perf_reader reader;
    bn_recording recording;
    unsigned char record[2048]; /* being made */
    size_t n;
};

static void put(struct world *w, const void *bytes, size_t n)
{
    assert_true(w->n + n <= sizeof w->record);
    memcpy(w->record + w->n, bytes, n);
    w->n += n;
}

static void put_u64(struct world *w, uint64_t value)
{
    put(w, &value, sizeof value);
}

static void put_u32(struct world *w, uint32_t value)
{
    put(w, &value, sizeof value);
}

static void begin(struct world *w)
{
    w->n = sizeof(struct perf_event_header);
}

/* Writes the record that was made to the ring's head, as if it had this size. */
static void end_sized(struct world *w, uint32_t type, uint16_t misc, uint16_t size)
{
    struct perf_event_header header = {.type = type, .misc = misc, .size = size};
    memcpy(w->record, &header, sizeof header);
    for (size_t i = 0; i < w->n; i++)
        w->data[(w->ring.head + i) % RING] = w->record[i];
    w->ring.head += w->n;
}

static void end(struct world *w, uint32_t type, uint16_t misc)
{
    while (w->n % 8 != 0)
        w->record[w->n++] = 0;
    end_sized(w, type, misc, (uint16_t)w->n);
}

/* What stands at the end of all but samples: process, thread, time. */
static void put_end(struct world *w, uint64_t time)
{
    while (w->n % 8 != 0)
        w->record[w->n++] = 0;
    put_u32(w, 7);
    put_u32(w, 7);
    put_u64(w, time);
}

static void sample(struct world *w, uint32_t pid, uint64_t time, const uint64_t *chain, uint64_t n)
{
    begin(w);
    put_u64(w, 0x1111);
    put_u32(w, pid);
    put_u32(w, pid);
    put_u64(w, time);
    put_u64(w, 500);
    put_u64(w, n);
    for (uint64_t i = 0; i < n; i++)
        put_u64(w, chain[i]);
    end(w, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
}

static void fork_record(struct world *w, uint32_t pid, uint32_t parent, uint32_t tid, uint32_t parent_tid,
                        uint64_t time)
{
    begin(w);
    put_u32(w, pid);
    put_u32(w, parent);
    put_u32(w, tid);
    put_u32(w, parent_tid);
    put_u64(w, time);
    put_end(w, time);
    end(w, PERF_RECORD_FORK, 0);
}

static void mapping(struct world *w, uint32_t pid, uint64_t start, uint64_t n, const char *path,
                    const char *build_id, uint64_t time)
{
    unsigned char which[24] = {0};
    begin(w);
    put_u32(w, pid);
    put_u32(w, pid);
    put_u64(w, start);
    put_u64(w, n);
    put_u64(w, 0x2000);
    if (build_id != NULL) {
        which[0] = (unsigned char)strlen(build_id);
        memcpy(which + 4, build_id, strlen(build_id));
    }
    put(w, which, sizeof which);
    put_u32(w, 5);
    put_u32(w, 2);
    put(w, path, strlen(path) + 1);
    put_end(w, time);
    end(w, PERF_RECORD_MMAP2, build_id != NULL ? PERF_RECORD_MISC_MMAP_BUILD_ID : 0);
}

static void name(struct world *w, uint32_t pid, uint32_t tid, const char *text, uint64_t time)
{
    begin(w);
    put_u32(w, pid);
    put_u32(w, tid);
    put(w, text, strlen(text) + 1);
    put_end(w, time);
    end(w, PERF_RECORD_COMM, 0);
}

static void drain(struct world *w)
{
    bn_perf_drain(&w->reader, &w->ring);
    assert_int_equal(w->ring.tail, w->ring.head);
}

static void lay_out(struct world *w, uint64_t weight, uint32_t dump_bytes)
{
    w->reader.layout = (struct bn_perf_layout){.weight = weight, .max_chain = 127, .dump_bytes = dump_bytes};
}

static void take(struct world *w, uint64_t weight, uint32_t dump_bytes)
{
    lay_out(w, weight, dump_bytes);
    drain(w);
    must(bn_perf_finish(&w->reader, &err));
}

static int set_up(void **state)
{
    static struct world world;
    world = (struct world){.reader = {.out = &world.recording}};
    lay_out(&world, 1, 0);
    world.ring.data = world.data;
    world.ring.size = RING;
    *state = &world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    bn_perf_release(&w->reader);
    bn_recording_release(&w->recording);
    assert_int_equal(bn_mem_stats().bytes_now, 0);
    return 0;
}

static const uint64_t USER = (uint64_t)PERF_CONTEXT_USER, KERNEL = (uint64_t)PERF_CONTEXT_KERNEL;

TEST_IN(test_sample, set_up, tear_down)
{
    struct world *w = *state;
    uint64_t chain[] = {USER, 0x1000, 0x2000, 0x3000};
    sample(w, 7, 90, chain, 4);
    take(w, 0, 0);
    assert_int_equal(w->recording.n_samples, 1);
    const struct bn_sample *s = &w->recording.samples[0];
    assert_int_equal(s->time_ns, 90);
    assert_int_equal(s->weight, 500); /* the record's own */
    assert_int_equal(s->n_chain, 3);
    assert_int_equal(s->n_system, 0);
    assert_int_equal(s->flags, 0);
    assert_int_equal(w->recording.addresses[s->chain + 2], 0x3000);
    assert_int_equal(w->recording.delivery.lost, 0);
}

/* Records of all sizes at all places of the ring, many times around it. */
TEST_IN(test_wrap, set_up, tear_down)
{
    struct world *w = *state;
    uint64_t chain[40] = {USER};
    lay_out(w, 1009, 0);
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t n = 2 + i % 38;
        for (uint64_t k = 1; k < n; k++)
            chain[k] = 0x10000 + i * 64 + k;
        sample(w, 7, i, chain, n);
        if (i % 5 == 0) drain(w);
    }
    take(w, 1009, 0);
    assert_true(w->ring.head > 20 * (uint64_t)RING);
    assert_int_equal(w->recording.n_samples, 1000);
    for (uint64_t i = 0; i < 1000; i++) {
        const struct bn_sample *s = &w->recording.samples[i];
        assert_int_equal(s->time_ns, i);
        assert_int_equal(s->weight, 1009);
        assert_int_equal(s->n_chain, 1 + i % 38);
        for (uint64_t k = 0; k < s->n_chain; k++)
            assert_int_equal(w->recording.addresses[s->chain + k], 0x10000 + i * 64 + k + 1);
    }
    assert_int_equal(w->recording.delivery.lost, 0);
}

TEST_IN(test_markers, set_up, tear_down)
{
    struct world *w = *state;
    uint64_t both[] = {KERNEL, 0xffffffff81000001, 0xffffffff81000002, USER, 0x1000, 0, 0x12};
    uint64_t none[] = {USER};
    uint64_t deep[128] = {USER};
    for (size_t i = 1; i < 128; i++)
        deep[i] = 0x1000 + i;
    sample(w, 7, 1, both, 7);
    sample(w, 7, 2, none, 1);
    sample(w, 7, 3, deep, 128);
    take(w, 1, 0);
    const struct bn_sample *s = w->recording.samples;
    assert_int_equal(w->recording.n_samples, 3);
    assert_int_equal(s[0].n_system, 2);
    assert_int_equal(s[0].n_chain, 3); /* no code lies at 0 and 0x12 */
    assert_int_equal(s[1].n_chain, 1); /* where it was, without callers */
    assert_int_equal(w->recording.addresses[s[1].chain], 0x1111);
    assert_int_equal(s[2].n_chain, 127);
    assert_int_equal(s[2].flags, BN_SAMPLE_CUT); /* as many as the system gives at most */
}

static void dump_sample(struct world *w, uint64_t abi, uint64_t size, uint64_t filled)
{
    begin(w);
    put_u64(w, 0x1111);
    put_u32(w, 7);
    put_u32(w, 7);
    put_u64(w, 1);
    put_u64(w, 500);
    put_u64(w, 1);
    put_u64(w, 0x1111);
    put_u64(w, abi);
    if (abi != 0)
        for (unsigned bit = 0; bit < 64; bit++)
            if (BN_PERF_REGISTERS >> bit & 1) put_u64(w, 1000 + bit);
    put_u64(w, size);
    if (size > 0) {
        for (uint64_t i = 0; i < size; i++)
            put(w, "s", 1);
        put_u64(w, filled);
    }
    end(w, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
}

TEST_IN(test_dump, set_up, tear_down)
{
    struct world *w = *state;
    dump_sample(w, PERF_SAMPLE_REGS_ABI_64, 64, 40);
    dump_sample(w, PERF_SAMPLE_REGS_ABI_64, 64, 64);
    dump_sample(w, 0, 0, 0);                         /* a thread of the system */
    dump_sample(w, PERF_SAMPLE_REGS_ABI_32, 64, 64); /* other registers */
    dump_sample(w, PERF_SAMPLE_REGS_ABI_64, 64, 65); /* more than there are */
    take(w, 1, 64);
    const struct bn_sample *s = w->recording.samples;
    assert_int_equal(w->recording.n_samples, 4);
    assert_int_equal(s[0].n_dump, 40);
    assert_int_equal(s[0].flags, 0);
    assert_int_equal(s[1].n_dump, 64);
    assert_int_equal(s[1].flags, BN_SAMPLE_DUMP_CUT);
    assert_int_equal(s[2].n_dump, 0);
    assert_int_equal(s[3].n_dump, 0);
    assert_int_equal(w->recording.delivery.lost, 1);
#if defined(__x86_64__)
    const uint64_t *r = w->recording.registers + s[0].registers;
    assert_int_equal(r[0], 1000); /* rax */
    assert_int_equal(r[1], 1003); /* rdx */
    assert_int_equal(r[3], 1001); /* rbx */
    assert_int_equal(r[6], 1006); /* rbp */
    assert_int_equal(r[7], 1007); /* rsp */
    assert_int_equal(r[8], 1016);
    assert_int_equal(r[15], 1023);
    assert_int_equal(r[16], 1008); /* rip */
#endif
}

/* What a program maps again and again ends somewhere, and that is said. */
TEST_IN(test_many_mappings, set_up, tear_down)
{
    struct world *w = *state;
    bn_recording *r = &w->recording;
    size_t n;
    for (uint32_t i = 0; i < BN_RECORDING_MAX_MAPPINGS + 3; i++) {
        struct bn_mapping m = {
            .time_ns = i, .pid = i % 3 == 0 ? UINT32_MAX : i % 3, .start = i, .end = i + 1};
        must(bn_recording_add_mapping(r, &m, "", NULL));
    }
    assert_int_equal(r->n_mappings, BN_RECORDING_MAX_MAPPINGS);
    assert_has(r->delivery.note, "more than 262144");
    bn_recording_finish(r);
    const struct bn_mapping *m = bn_recording_mappings_of(r, UINT32_MAX, &n);
    assert_int_equal(n, BN_RECORDING_MAX_MAPPINGS / 3 + 1);
    assert_ptr_equal(m + n, r->mappings + r->n_mappings);
    assert_int_equal(m->pid, UINT32_MAX);
    m = bn_recording_mappings_of(r, 1, &n);
    assert_ptr_equal(m, r->mappings);
    assert_int_equal(m[n - 1].pid, 1);
    assert_int_equal(m[n].pid, 2);
    assert_null(bn_recording_mappings_of(r, 7, &n));
    assert_int_equal(n, 0);
}

TEST_IN(test_mappings, set_up, tear_down)
{
    struct world *w = *state;
    mapping(w, 7, 0x1000, 0x1000, "/usr/bin/a", "0123456789abcdef0123", 5);
    mapping(w, 7, 0x3000, 0x1000, "//anon", NULL, 6);
    mapping(w, 7, UINT64_MAX - 4, 0x1000, "/wraps", NULL, 7);
    mapping(w, 7, 0x5000, 0, "/empty", NULL, 8);
    take(w, 1, 0);
    assert_int_equal(w->recording.n_mappings, 2);
    const struct bn_mapping *m = bn_recording_mapping(&w->recording, 7, 0x1800, 9);
    assert_non_null(m);
    assert_string_equal(m->path, "/usr/bin/a");
    assert_int_equal(m->time_ns, 5);
    assert_int_equal(m->file_offset, 0x2000);
    assert_int_equal(m->n_build_id, 20);
    assert_memory_equal(m->build_id, "0123456789abcdef0123", 20);
    m = bn_recording_mapping(&w->recording, 7, 0x3000, 9);
    assert_string_equal(m->path, "");
    assert_int_equal(m->n_build_id, 0);
    assert_int_equal(w->recording.delivery.lost, 2);
}

TEST_IN(test_losses, set_up, tear_down)
{
    struct world *w = *state;
    begin(w);
    put_u64(w, 1);
    put_u64(w, 40);
    put_end(w, 5);
    end(w, PERF_RECORD_LOST, 0);
    begin(w);
    put_u64(w, 2);
    put_end(w, 5);
    end(w, PERF_RECORD_LOST_SAMPLES, 0);
    begin(w);
    put_u64(w, 5);
    put_u64(w, 1);
    put_u64(w, 1);
    put_end(w, 5);
    end(w, PERF_RECORD_THROTTLE, 0);
    end(w, PERF_RECORD_UNTHROTTLE, 0);
    begin(w);
    put_u64(w, 99);
    end(w, 4242, 0); /* of a later kernel */
    take(w, 1, 0);
    assert_int_equal(w->recording.delivery.lost, 42);
    assert_int_equal(w->recording.delivery.throttled, 1);
}

/* Records whose contents say more than there is. */
TEST_IN(test_hostile, set_up, tear_down)
{
    struct world *w = *state;
    uint64_t chain[] = {USER, 0x1000};
    begin(w);
    put_u64(w, 1);
    end(w, PERF_RECORD_SAMPLE, 0); /* cut off */
    begin(w);
    for (int i = 0; i < 4; i++)
        put_u64(w, 1);
    put_u64(w, UINT64_MAX / 4); /* addresses that are not there */
    put_u64(w, 1);
    end(w, PERF_RECORD_SAMPLE, 0);
    begin(w);
    put_u32(w, 7);
    put_u32(w, 7);
    for (int i = 0; i < 4; i++)
        put_u64(w, 0x4141414141414141); /* a name without an end */
    end(w, PERF_RECORD_COMM, 0);
    begin(w);
    put_u32(w, 7);
    end(w, PERF_RECORD_FORK, 0);
    begin(w);
    end(w, PERF_RECORD_MMAP2, PERF_RECORD_MISC_MMAP_BUILD_ID);
    sample(w, 7, 9, chain, 2);
    take(w, 1, 0);
    assert_int_equal(w->recording.delivery.lost, 5);
    assert_int_equal(w->recording.n_samples, 1);
    assert_int_equal(w->recording.n_threads, 0);
    assert_int_equal(w->recording.n_mappings, 0);
}

/* Sizes after which nobody knows where the next record begins. */
TEST_IN(test_broken_ring, set_up, tear_down)
{
    struct world *w = *state;
    uint64_t chain[] = {USER, 0x1000};
    for (unsigned i = 0; i < 3; i++) {
        static const uint16_t SIZES[] = {0, 4, 65528};
        sample(w, 7, i, chain, 2);
        begin(w);
        put_u64(w, 1);
        end_sized(w, PERF_RECORD_SAMPLE, 0, SIZES[i]);
        sample(w, 7, 100, chain, 2);
        drain(w);
    }
    take(w, 1, 0);
    assert_int_equal(w->recording.n_samples, 3);
    assert_int_equal(w->recording.delivery.lost, 3);
}

/* A process that is forked has its parent's memory of that moment and its name; records come in any order. */
TEST_IN(test_inheritance, set_up, tear_down)
{
    struct world *w = *state;
    uint64_t chain[] = {USER, 0x1800};
    sample(w, 9, 60, chain, 2);
    fork_record(w, 9, 8, 9, 8, 50);
    fork_record(w, 8, 7, 8, 7, 30);
    mapping(w, 7, 0x1000, 0x1000, "/old", NULL, 10);
    mapping(w, 7, 0x1000, 0x1000, "/new", NULL, 40); /* after the fork */
    mapping(w, 8, 0x5000, 0x1000, "/own", NULL, 35);
    name(w, 7, 7, "parent", 5);
    name(w, 7, 7, "later", 45);
    sample(w, 7, 70, chain, 2);
    take(w, 1, 0);
    assert_string_equal(bn_recording_mapping(&w->recording, 9, 0x1800, 60)->path, "/old");
    assert_string_equal(bn_recording_mapping(&w->recording, 9, 0x5000, 60)->path, "/own");
    assert_string_equal(bn_recording_mapping(&w->recording, 7, 0x1800, 70)->path, "/new");
    bool named = false;
    for (size_t i = 0; i < w->recording.n_threads; i++) {
        const struct bn_thread_name *t = &w->recording.threads[i];
        if (t->tid != 9) continue;
        assert_string_equal(t->name, "parent");
        assert_int_equal(t->pid, 9);
        named = true;
    }
    assert_true(named);
}
