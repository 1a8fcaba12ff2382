/* SPDX-License-Identifier: MIT
 *
 * A recording: the samples of a program before addresses have names. Samples with their addresses, which
 * file was mapped where, the names of threads, and how many of the requested samples were delivered.
 *
 * Times are CLOCK_MONOTONIC in nanoseconds, in every process and sampler, so that samples can be compared
 * with anything else that has such times.
 */
#ifndef BN_SAMPLER_RECORDING_H
#define BN_SAMPLER_RECORDING_H

#include "base/error.h"
#include "base/json.h"

/* How samples are taken, the better ways first. */
enum bn_record_tier {
    BN_RECORD_CLOCK, /* perf_event_open(2): the operating system's clock of the thread; call chains by it */
    BN_RECORD_TIMER, /* timer_create(2) for each thread, a signal, and a walk over frame pointers */
    BN_RECORD_TIERS
};
const char *bn_record_tier_name(enum bn_record_tier tier); /* "clock", "timer" */

enum bn_record_kind {
    BN_RECORD_CPU,  /* nanoseconds on a processor */
    BN_RECORD_WALL, /* nanoseconds from begin to end, waiting included */
    BN_RECORD_KINDS
};
const char *bn_record_kind_name(enum bn_record_kind kind); /* "cpu", "wall" */

/* Registers of a sample, numbered as DWARF does on this architecture (x86-64: 0 rax, 1 rdx, 2 rcx, 3 rbx,
 * 4 rsi, 5 rdi, 6 rbp, 7 rsp, 8 to 15, 16 rip; aarch64: 0 to 30, 31 sp, 32 pc). */
#define BN_RECORD_REGISTERS 33u
#if defined(__x86_64__)
enum { BN_RECORD_FP = 6, BN_RECORD_SP = 7, BN_RECORD_PC = 16 };
#else
enum { BN_RECORD_FP = 29, BN_RECORD_SP = 31, BN_RECORD_PC = 32 };
#endif

enum bn_sample_flag {
    BN_SAMPLE_CUT = 1,      /* there were more addresses than were kept */
    BN_SAMPLE_DUMP_CUT = 2, /* the copied stack ends before the thread's does */
    BN_SAMPLE_UNWOUND = 4,  /* its addresses are from its copied stack, not from frame pointers */
};

struct bn_sample {
    uint64_t time_ns;
    uint64_t weight; /* nanoseconds */
    uint32_t pid, tid;
    size_t chain; /* index of its first address: where it was, then its callers */
    uint16_t n_chain;
    uint16_t n_system; /* of these, the first ones that are the operating system's */
    uint16_t flags;
    size_t dump;      /* where its copy of the stack begins, from the stack pointer upwards */
    uint32_t n_dump;  /* bytes; 0: none */
    size_t registers; /* index of the first of BN_RECORD_REGISTERS; only with a dump */
};

/* A part of a file that became executable memory. */
struct bn_mapping {
    uint64_t time_ns; /* from then on, until another one covers its addresses */
    uint32_t pid;
    uint64_t start, end;
    uint64_t file_offset; /* of start */
    char *path;           /* "/usr/lib/libc.so.6", "[vdso]", "" for memory without a file */
    unsigned char build_id[20];
    uint8_t n_build_id; /* 0: not known */
};

struct bn_thread_name {
    uint64_t time_ns; /* from then on */
    uint32_t pid, tid;
    char name[16];
};

/* What was requested and what was delivered. */
struct bn_delivery {
    enum bn_record_tier tier;
    enum bn_record_kind kind;
    uint64_t asked_period_ns;
    uint64_t samples; /* taken, and the sum of their weights */
    double weight;
    uint64_t lost;      /* samples that the sampler says it could not keep */
    uint64_t throttled; /* times that the operating system held the sampler back */
    uint64_t wall_ns;   /* from start to stop */
    uint64_t cpu_ns;    /* that the recorded threads used meanwhile, by the system's own account */
    bool cpu_known;
    bool system;                        /* the operating system's own time and frames are in it */
    char system_refused[200];           /* why not, when requested */
    uint64_t period_ns;                 /* the period in use; 0: it varies */
    uint32_t dump_bytes;                /* of stack copied with each sample; 0: frame pointers only */
    char note[240];                     /* what else limits what was seen, a sentence; "": nothing */
    char refused[BN_RECORD_TIERS][200]; /* why a tier was not used; "" for those not tried */
};

typedef struct bn_recording {
    struct bn_sample *samples; /* in the order of time once bn_recording_finish was called */
    size_t n_samples, samples_room;
    uint64_t *addresses;
    size_t n_addresses, addresses_room;
    unsigned char *dumps;
    size_t n_dumps, dumps_room;
    uint64_t *registers;
    size_t n_registers, registers_room;
    struct bn_mapping *mappings;
    size_t n_mappings, mappings_room;
    struct bn_thread_name *threads;
    size_t n_threads, threads_room;
    struct bn_delivery delivery;
} bn_recording;

#define BN_RECORDING_MAX_SAMPLES (1u << 24)
#define BN_RECORDING_MAX_CHAIN 512u
#define BN_RECORDING_MAX_MAPPINGS (1u << 18)     /* code in others has no name; the note says so */
#define BN_RECORDING_MAX_DUMPS ((size_t)1 << 30) /* bytes; later samples have none */

/* Zeroed, a recording is empty. */
void bn_recording_release(bn_recording *recording);
/* Each copies what it is given. dump and registers may be NULL. */
BN_MUST_CHECK bn_status bn_recording_add_sample(bn_recording *recording, const struct bn_sample *sample,
                                                const uint64_t *chain, const void *dump,
                                                const uint64_t *registers, bn_error *err);
BN_MUST_CHECK bn_status bn_recording_add_mapping(bn_recording *recording, const struct bn_mapping *mapping,
                                                 const char *path, bn_error *err);
BN_MUST_CHECK bn_status bn_recording_add_thread(bn_recording *recording, uint64_t time_ns, uint32_t pid,
                                                uint32_t tid, const char *name, bn_error *err);
/* The executable mappings of this process as they are now. Those that are known already are not added again. */
BN_MUST_CHECK bn_status bn_recording_read_maps(bn_recording *recording, bn_error *err);
/* Puts samples into the order of time; mappings by process, names by process and thread, and these by time. Sets the
 * number and weight of samples in the delivery. */
void bn_recording_finish(bn_recording *recording);
/* Those of a process, n of them, in the order of time. Finished recordings only. */
const struct bn_mapping *bn_recording_mappings_of(const bn_recording *recording, uint32_t pid, size_t *n);
int bn_recording_name_order(const void *a, const void *b); /* of struct bn_thread_name, for qsort */
/* What lay at an address of a process at a time: the latest mapping that covers it; NULL for none. Finished
 * recordings only. */
const struct bn_mapping *bn_recording_mapping(const bn_recording *recording, uint32_t pid, uint64_t address,
                                              uint64_t time_ns);

/* Makes the delivery of several recordings, zeroed for none, that of the last one with the sums of what can be added up;
 * all were taken in the same way. */
void bn_delivery_add(struct bn_delivery *sum, const struct bn_delivery *last);
/* Puts the member "sampler" into a document: tier, kind, period asked and delivered, samples, lost,
 * throttled, why better tiers were refused. A value that could not be had is null with its reason. */
void bn_delivery_put(bn_json *document, const struct bn_delivery *delivery);

#endif
