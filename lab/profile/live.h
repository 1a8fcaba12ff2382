/* SPDX-License-Identifier: MIT
 *
 * A live profile: a process publishes what its profiler measures, and another one shows it while it runs.
 *
 * The process writes to a small file that is mapped into its memory, FOLDER/PID, where FOLDER is
 * XDG_RUNTIME_DIR/bn, else /run/bn for root and /tmp/bn-UID for others. Only this user can read it. The file
 * holds sums since the process was opened, and the events of one recent pass. It is locked (flock) for as long
 * as the process runs, and removed when the process closes it.
 *
 * Readers do not trust the file: everything in it is checked before it is used, and it is read, not mapped,
 * so that a file which becomes shorter is an error and not a signal.
 */
#ifndef BN_PROFILE_LIVE_H
#define BN_PROFILE_LIVE_H

#include <stdatomic.h>

#include "stamp/profiler.h"

#define BN_LIVE_PATH 4096u /* room for a path */

/* Sums over the passes since the profile was opened: numbers that only rise, of 64 bits each. */
struct bn_live_sums {
    uint64_t wall_ns; /* since the profile was opened */
    uint64_t n_passes, n_tokens, n_logits;
    uint64_t n_measured;         /* passes whose bricks were measured; of short passes not all are */
    uint64_t n_parts;            /* threads that took part, added up over these passes */
    uint64_t passes_ns;          /* inside passes */
    uint64_t dropped;            /* events that were not measured */
    uint64_t bricks_ns, wait_ns; /* of all threads */
    struct bn_brick_stats bricks[BN_BRICK_MAX];
    struct bn_prof_kernel_stats kernels[BN_KERNEL_COUNT];
};

/* What a program that runs several sequences does besides passes. 0 sequences: it does not say. */
struct bn_live_load {
    uint64_t n_sequences, n_running, n_waiting;
    uint64_t n_answers; /* that have ended */
};

/* ---- the file, as it is in memory ----
 *
 * A head that does not change, a body that is rewritten after each pass, the number of events of each thread, and
 * max_events events for each thread. Only programs of the same version and the same machine exchange it.
 *
 * A sequence lock guards the body and what follows it. The writer makes `sequence` odd, writes, and makes it
 * even; it never waits. A reader that finds it odd, or changed when it has read, reads again. */

#define BN_LIVE_MAGIC "bn.live\n"
#define BN_LIVE_MAX_THREADS 1024u
#define BN_LIVE_MAX_BYTES ((uint64_t)64 << 20) /* of a file */

struct bn_live_head {
    char magic[8];
    uint32_t layout[5]; /* BN_LIVE_LAYOUT of the writer */
    uint32_t n_threads, max_events;
    uint32_t level; /* enum bn_prof_level */
    uint32_t pid;
    int64_t started_utc;
    uint64_t started_ns; /* CLOCK_MONOTONIC */
    double ns_per_tick;
    uint64_t epoch;                        /* ticks */
    char program[32], model[160], isa[24]; /* isa: of the kernels */
};

struct bn_live_body {
    _Atomic uint64_t sequence; /* odd: it is being written */
    uint64_t updated_ns;       /* CLOCK_MONOTONIC */
    struct bn_live_load load;
    struct bn_live_sums sums;
    uint64_t pass_number;     /* of the pass whose events follow, from 1 on; 0: there are none */
    struct bn_prof_pass pass; /* it */
};

/* A version, and the sizes of the parts. */
#define BN_LIVE_LAYOUT                                                                             \
    {                                                                                              \
        3, sizeof(struct bn_live_head), sizeof(struct bn_live_body), sizeof(struct bn_prof_event), \
            BN_KERNEL_COUNT                                                                        \
    }

_Static_assert(sizeof(struct bn_live_head) % 8 == 0 && sizeof(struct bn_live_body) % 8 == 0,
               "the parts follow one another without gaps");

/* Bytes of a file; 0 for more than BN_LIVE_MAX_BYTES. */
static inline uint64_t bn_live_bytes(uint64_t n_threads, uint64_t max_events)
{
    uint64_t each = max_events <= BN_LIVE_MAX_BYTES ? max_events * sizeof(struct bn_prof_event) + 8 : 0;
    if (n_threads > BN_LIVE_MAX_THREADS || each == 0) return 0;
    uint64_t bytes = each * n_threads + sizeof(struct bn_live_head) + sizeof(struct bn_live_body);
    return bytes <= BN_LIVE_MAX_BYTES ? bytes : 0;
}

/* ---- publishing (live_write.c) ---- */

struct bn_live;

struct bn_live_options {
    const char *path; /* NULL: FOLDER/PID */
    enum bn_prof_level level;
    const char *program, *model;
};

/* Attaches a watched profile to a session and publishes it after each pass; the bits of the results do not
 * change. A live profile of a process that has ended is replaced. BN_ERR_ARG when the file is another one, or
 * when a process publishes there. */
BN_MUST_CHECK bn_status bn_live_open(struct bn_live **out, bn_session *session,
                                     const struct bn_live_options *options, bn_error *err);
/* Detaches the profile and removes the file; before the session is closed. NULL is accepted. */
void bn_live_close(struct bn_live *live);
/* Adds the last pass of a profile to the sums; measured: and what its bricks and kernels, folded, add up to. */
void bn_live_count(struct bn_live_sums *sums, const bn_prof *prof, bool measured);
/* Publishes the load; by the thread that runs passes, while none runs. NULL is accepted. */
void bn_live_set_load(struct bn_live *live, const struct bn_live_load *load);

/* ---- reading (live_read.c) ---- */

struct bn_live_snapshot {
    struct bn_live_head head;        /* its texts are on one line */
    const char *const *kernel_names; /* of its isa */
    bool has_ended;                  /* the process has ended, or has closed the file */
    uint64_t updated_ns, read_ns;    /* CLOCK_MONOTONIC: by the process, and by this one */
    struct bn_live_load load;
    struct bn_live_sums sums;
    uint64_t pass_number; /* of the pass in `pass`, from 1 on */
    bn_prof *pass;        /* a finalized profile of one pass; NULL: there is none yet */
};

struct bn_live_reader;

/* Opens a file. BN_ERR_NOT_FOUND when there is none, BN_ERR_FORMAT when it is not a live profile,
 * BN_ERR_UNSUPPORTED when another version of bn wrote it. */
BN_MUST_CHECK bn_status bn_live_attach(struct bn_live_reader **out, const char *path, bn_error *err);
void bn_live_detach(struct bn_live_reader *reader);
/* A consistent snapshot, which stays where it is until it is released by bn_live_release. BN_ERR_FORMAT when the file is damaged, or its writer
 * was killed while it wrote; then only has_ended holds. */
BN_MUST_CHECK bn_status bn_live_read(struct bn_live_snapshot *out, struct bn_live_reader *reader,
                                     bn_error *err);
void bn_live_release(struct bn_live_snapshot *snapshot);

/* ---- where files are (live_write.c) ---- */

/* FOLDER/name; with make, the folder is made if it is not there. BN_ERR_IO when it is not private to this
 * user. */
BN_MUST_CHECK bn_status bn_live_path(char out[BN_LIVE_PATH], const char *name, bool make, bn_error *err);
/* The process numbers of the programs that publish now, in increasing order; *list is freed by bn_free. Files
 * of processes that have ended are left out. */
BN_MUST_CHECK bn_status bn_live_list(uint32_t **list, size_t *n, bn_error *err);
/* Whether the writer of an open file has ended. */
bool bn_live_writer_ended(int fd);

#endif
