/* SPDX-License-Identifier: MIT
 *
 * Reads records out of the ring buffers of perf events; perf_event_open(2) describes them.
 */
#include "lab/sampler/tier.h"

#include <linux/perf_event.h>
#include <stdlib.h>

#include "lab/kit/order.h"

#define LOWEST_CODE 4096u
#define MAX_GENERATIONS 256u

/* ---- out of a record ---- */

/* What is left of a record; bad once more was taken than there was. */
struct cursor {
    const unsigned char *at;
    size_t left;
    bool bad;
};

static const void *take(struct cursor *c, uint64_t n)
{
    if (c->bad || n > c->left) {
        c->bad = true;
        return NULL;
    }
    const void *at = c->at;
    c->at += n;
    c->left -= (size_t)n;
    return at;
}

/* A number of 4 or 8 bytes. */
static uint64_t take_number(struct cursor *c, size_t n)
{
    uint64_t value = 0;
    const void *at = take(c, n);
    if (at != NULL) memcpy(&value, at, n); /* all machines of bn are little endian */
    return value;
}
#define take_u64(c) take_number(c, 8)
#define take_u32(c) ((uint32_t)take_number(c, 4))

/* The time at the end of all records but samples, after process and thread, which they have at their beginning too. */
static uint64_t take_end_time(struct cursor *c)
{
    uint64_t time = 0;
    if (c->left < 2 * sizeof time) c->bad = true;
    if (c->bad) return 0;
    c->left -= 2 * sizeof time;
    memcpy(&time, c->at + c->left + sizeof time, sizeof time);
    return time;
}

/* A text that must end before the record does. */
static const char *take_text(struct cursor *c)
{
    const char *text = (const char *)c->at;
    if (c->bad || memchr(text, '\0', c->left) == NULL) {
        c->bad = true;
        return "";
    }
    return text;
}

/* ---- samples ---- */

/* A thread that another one created; in another process, it was forked. */
struct bn_perf_birth {
    uint64_t time_ns;
    uint32_t pid, tid, parent_pid, parent_tid;
};

/* Addresses without the markers between them; those of the operating system come first. */
static void take_chain(struct cursor *c, struct bn_sample *sample, uint64_t chain[BN_RECORDING_MAX_CHAIN],
                       const struct bn_perf_layout *layout, uint64_t ip, bool in_system)
{
    bool system = in_system;
    uint64_t n = take_u64(c), kept = 0, seen = 0;
    if (n > c->left / 8) c->bad = true;
    for (uint64_t i = 0; i < n && !c->bad; i++) {
        uint64_t address = take_u64(c);
        if (address >= (uint64_t)PERF_CONTEXT_MAX) {
            system = address != (uint64_t)PERF_CONTEXT_USER;
            continue;
        }
        seen++;
        /* Where frame pointers end, or lead astray: nothing is ever mapped there. */
        if (!system && kept > 0 && address < LOWEST_CODE) continue;
        if (kept == BN_RECORDING_MAX_CHAIN) continue;
        if (system) sample->n_system++;
        chain[kept++] = address;
    }
    if (kept == 0) {
        chain[kept++] = ip;
        sample->n_system = in_system;
    }
    if (seen > BN_RECORDING_MAX_CHAIN || seen >= layout->max_chain) sample->flags |= BN_SAMPLE_CUT;
    sample->n_chain = (uint16_t)kept;
}

/* From perf's order of registers to DWARF's. */
static void place_register(uint64_t registers[BN_RECORD_REGISTERS], unsigned bit, uint64_t value)
{
#if defined(__x86_64__)
    static const unsigned char DWARF[9] = {0, 3, 2, 1, 4, 5, 6, 7, 16};
    unsigned at = bit < 9 ? DWARF[bit] : bit - 8;
#else
    unsigned at = bit;
#endif
    if (at < BN_RECORD_REGISTERS) registers[at] = value;
}

/* The registers and the copied stack; NULL when the sample has none. */
static const void *take_dump(struct cursor *c, struct bn_sample *sample, uint32_t asked,
                             uint64_t registers[BN_RECORD_REGISTERS])
{
    memset(registers, 0, BN_RECORD_REGISTERS * sizeof *registers);
    uint64_t abi = take_u64(c);
    for (unsigned bit = 0; abi != PERF_SAMPLE_REGS_ABI_NONE && bit < 64; bit++)
        if (BN_PERF_REGISTERS >> bit & 1) place_register(registers, bit, take_u64(c));
    uint64_t size = take_u64(c);
    if (size == 0) return NULL;
    const void *bytes = take(c, size);
    uint64_t filled = take_u64(c);
    if (filled > size) c->bad = true;
    /* A program of 32 bits has other registers. */
    if (c->bad || filled == 0 || abi != PERF_SAMPLE_REGS_ABI_64) return NULL;
    sample->n_dump = (uint32_t)filled;
    if (filled >= asked) sample->flags |= BN_SAMPLE_DUMP_CUT;
    return bytes;
}

static bn_status read_sample(struct bn_perf_reader *r, struct cursor *c, uint16_t misc, bn_error *err)
{
    uint64_t chain[BN_RECORDING_MAX_CHAIN], registers[BN_RECORD_REGISTERS];
    struct bn_sample sample = {0};
    const void *dump = NULL;
    uint64_t ip = take_u64(c);
    sample.pid = take_u32(c);
    sample.tid = take_u32(c);
    sample.time_ns = take_u64(c);
    uint64_t period = take_u64(c);
    sample.weight = r->layout.weight != 0 ? r->layout.weight : period;
    take_chain(c, &sample, chain, &r->layout, ip,
               (misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL);
    if (r->layout.dump_bytes > 0) dump = take_dump(c, &sample, r->layout.dump_bytes, registers);
    if (c->bad) return BN_OK;
    if (r->out->n_samples == BN_RECORDING_MAX_SAMPLES) {
        r->out->delivery.lost++;
        return BN_OK;
    }
    return bn_recording_add_sample(r->out, &sample, chain, dump, dump != NULL ? registers : NULL, err);
}

/* ---- the others ---- */

static bn_status read_mapping(struct bn_perf_reader *r, struct cursor *c, uint16_t misc, bn_error *err)
{
    struct bn_mapping m = {.time_ns = take_end_time(c), .pid = take_u32(c)};
    (void)take_u32(c);
    m.start = take_u64(c);
    uint64_t n = take_u64(c);
    m.file_offset = take_u64(c);
    const unsigned char *which = take(c, 24);
    (void)take(c, 8); /* protection, which is executable, and flags */
    const char *path = take_text(c);
    if (n == 0 || !bn_add_ok(m.start, n, &m.end)) c->bad = true;
    if (c->bad) return BN_OK;
    if (misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
        m.n_build_id = which[0] <= sizeof m.build_id ? which[0] : 0;
        memcpy(m.build_id, which + 4, m.n_build_id);
    }
    return bn_recording_add_mapping(r->out, &m, strcmp(path, "//anon") == 0 ? "" : path, err);
}

static bn_status read_name(struct bn_perf_reader *r, struct cursor *c, bn_error *err)
{
    uint64_t time = take_end_time(c);
    uint32_t pid = take_u32(c), tid = take_u32(c);
    const char *name = take_text(c);
    return c->bad ? BN_OK : bn_recording_add_thread(r->out, time, pid, tid, name, err);
}

static bn_status read_fork(struct bn_perf_reader *r, struct cursor *c, bn_error *err)
{
    struct bn_perf_birth birth = {.pid = take_u32(c), .parent_pid = take_u32(c)};
    birth.tid = take_u32(c);
    birth.parent_tid = take_u32(c);
    birth.time_ns = take_u64(c);
    if (c->bad) return BN_OK;
    BN_TRY(bn_array_grow(&r->births, &r->births_room, r->n_births + 1, sizeof birth, err));
    r->births[r->n_births++] = birth;
    return BN_OK;
}

static bn_status read_record(struct bn_perf_reader *r, const unsigned char *bytes, size_t n, uint32_t type,
                             uint16_t misc, bn_error *err)
{
    struct cursor c = {bytes, n, false};
    struct bn_delivery *delivery = &r->out->delivery;
    bn_status status = BN_OK;
    switch (type) {
    case PERF_RECORD_SAMPLE:
        status = read_sample(r, &c, misc, err);
        break;
    case PERF_RECORD_MMAP2:
        status = read_mapping(r, &c, misc, err);
        break;
    case PERF_RECORD_COMM:
        status = read_name(r, &c, err);
        break;
    case PERF_RECORD_FORK:
        status = read_fork(r, &c, err);
        break;
    case PERF_RECORD_LOST:
        (void)take_u64(&c); /* of which event: there is one */
        delivery->lost += take_u64(&c);
        break;
    case PERF_RECORD_LOST_SAMPLES:
        delivery->lost += take_u64(&c);
        break;
    case PERF_RECORD_THROTTLE:
        delivery->throttled++;
        break;
    default: /* the end of a thread, the end of throttling, and what later kernels may say */
        break;
    }
    if (c.bad) delivery->lost++;
    return status;
}

/* ---- out of the ring ---- */

/* Copies n bytes from a position of the ring, over its end when they wrap. */
static void copy_out(unsigned char *to, const struct bn_perf_ring *ring, uint64_t at, size_t n)
{
    size_t begin = (size_t)(at & (ring->size - 1));
    size_t first = bn_min_size(n, (size_t)ring->size - begin);
    memcpy(to, ring->data + begin, first);
    memcpy(to + first, ring->data, n - first);
}

void bn_perf_drain(struct bn_perf_reader *reader, struct bn_perf_ring *ring)
{
    unsigned char bytes[UINT16_MAX + 1];
    while (ring->head - ring->tail >= sizeof(struct perf_event_header)) {
        struct perf_event_header header;
        copy_out((unsigned char *)&header, ring, ring->tail, sizeof header);
        if (header.size < sizeof header || header.size > ring->head - ring->tail) break;
        copy_out(bytes, ring, ring->tail, header.size);
        if (read_record(reader, bytes + sizeof header, header.size - sizeof header, header.type, header.misc,
                        NULL) != BN_OK)
            reader->out->delivery.lost++;
        ring->tail += header.size;
    }
    /* The rest is not a record, and the start of the next one is not known. */
    if (ring->tail != ring->head) reader->out->delivery.lost++;
    ring->tail = ring->head;
}

/* ---- what threads and processes were born with ---- */

/* A forked process has the memory map of its parent, and a thread its parent's name, and no record repeats them.
 * Only those that were sampled get them, so that ten thousand short processes cost little. */

static int births_by_thread(const void *a, const void *b)
{
    const struct bn_perf_birth *x = a, *y = b;
    int c = bn_compare_u64(x->tid, y->tid);
    return c != 0 ? c : bn_compare_u64(x->time_ns, y->time_ns);
}

/* The latest birth of a thread that is not after a time; NULL for none. */
static const struct bn_perf_birth *birth_of(const struct bn_perf_reader *r, uint32_t tid, uint64_t time_ns)
{
    const struct bn_perf_birth *list = r->births;
    size_t at;
    BN_SEARCH(at, r->n_births, list[at].tid < tid || (list[at].tid == tid && list[at].time_ns <= time_ns));
    return at > 0 && list[at - 1].tid == tid ? &list[at - 1] : NULL;
}

/* Adds what the processes that a process came from had mapped when it, or the one between, was forked. n:
 * mappings that were there before any was added. They keep their times, so that the process's own are later. */
static bn_status inherit_mappings(struct bn_perf_reader *r, size_t n, uint32_t pid, bn_error *err)
{
    const struct bn_perf_birth *birth = birth_of(r, pid, UINT64_MAX);
    uint32_t at = pid;
    for (unsigned i = 0; i < MAX_GENERATIONS && birth != NULL && birth->parent_pid != at; i++) {
        size_t k;
        at = birth->parent_pid;
        BN_SEARCH(k, n, r->out->mappings[k].pid < at);
        for (; k < n && r->out->mappings[k].pid == at; k++) {
            struct bn_mapping own = r->out->mappings[k];
            own.pid = pid;
            if (own.time_ns <= birth->time_ns) BN_TRY(bn_recording_add_mapping(r->out, &own, own.path, err));
        }
        birth = birth_of(r, at, birth->time_ns);
    }
    return BN_OK;
}

/* Gives a thread that has no name of its own that of the one it came from. n: as above. */
static bn_status inherit_name(struct bn_perf_reader *r, size_t n, uint32_t pid, uint32_t tid, bn_error *err)
{
    struct bn_thread_name key = {UINT64_MAX, pid, tid, ""};
    uint64_t born = 0;
    for (unsigned i = 0; i < MAX_GENERATIONS; i++) {
        const struct bn_thread_name *names = r->out->threads;
        size_t at;
        BN_SEARCH(at, n, bn_recording_name_order(&names[at], &key) <= 0);
        if (at > 0 && names[at - 1].pid == key.pid && names[at - 1].tid == key.tid)
            return i == 0 ? BN_OK : bn_recording_add_thread(r->out, born, pid, tid, names[at - 1].name, err);
        const struct bn_perf_birth *birth = birth_of(r, key.tid, key.time_ns);
        if (birth == NULL || birth->parent_tid == key.tid) return BN_OK;
        key = (struct bn_thread_name){birth->time_ns, birth->parent_pid, birth->parent_tid, ""};
        if (i == 0) born = birth->time_ns;
    }
    return BN_OK;
}

static int keys(const void *a, const void *b)
{
    return bn_compare_u64(*(const uint64_t *)a, *(const uint64_t *)b);
}

static bn_status inherit(struct bn_perf_reader *r, bn_error *err)
{
    bn_recording *out = r->out;
    size_t n = 0, n_mappings = out->n_mappings, n_names = out->n_threads;
    bn_status status = BN_OK;
    if (r->n_births == 0 || out->n_samples == 0) return BN_OK;
    qsort(r->births, r->n_births, sizeof *r->births, births_by_thread);
    /* Each thread of which there are samples, and the first thread of its process, by process. */
    uint64_t *sampled = bn_alloc(out->n_samples * 2, sizeof *sampled);
    if (sampled == NULL) return bn_nomem(err);
    for (const struct bn_sample *s = out->samples; s != out->samples + out->n_samples; s++) {
        if (s != out->samples && s[-1].pid == s->pid && s[-1].tid == s->tid) continue;
        sampled[n++] = (uint64_t)s->pid << 32 | s->tid;
        sampled[n++] = (uint64_t)s->pid << 32 | s->pid;
    }
    qsort(sampled, n, sizeof *sampled, keys);
    for (size_t i = 0; i < n && status == BN_OK; i++) {
        uint32_t pid = (uint32_t)(sampled[i] >> 32);
        if (i > 0 && sampled[i - 1] == sampled[i]) continue;
        status = inherit_name(r, n_names, pid, (uint32_t)sampled[i], err);
        if (status == BN_OK && (i == 0 || sampled[i - 1] >> 32 != pid))
            status = inherit_mappings(r, n_mappings, pid, err);
    }
    bn_free(sampled);
    bn_recording_finish(out);
    return status;
}

bn_status bn_perf_finish(struct bn_perf_reader *reader, bn_error *err)
{
    bn_recording_finish(reader->out);
    return inherit(reader, err);
}

void bn_perf_release(struct bn_perf_reader *reader)
{
    bn_free(reader->births);
    reader->births = NULL;
    reader->n_births = reader->births_room = 0;
}
