/* SPDX-License-Identifier: MIT
 *
 * The profiler: when every brick of every pass began and ended, on every thread. Nothing is derived: each
 * duration is the difference of two readings of one clock, each sum a sum of those.
 *
 * A *trail* is one thread's list of events, allocated when the profiler is opened; only its thread writes it,
 * without locks. A full trail drops events and counts them, and a profile with dropped events fails its
 * gate. An event is written when its brick ends, so bricks inside it come before it; depth tells them apart.
 *
 * Levels say what is stamped. Events are recorded, and bn_prof_finalize sums them up.
 *
 * A profile is kept or watched. A kept one holds every event from its epoch to its end. A watched one calls
 * a function after each pass, which adds the events to the sums and forgets them: it never becomes full.
 *
 *     inclusive  from begin to end
 *     exclusive  that without the bricks inside; kernels are a view of their own and take nothing away
 *     wall       from bn_prof_reset_epoch to bn_prof_finalize, the same for each thread
 *
 * On each thread the exclusive times and what is *unattributed* add up to the wall time, in whole
 * nanoseconds, exactly: readings become nanoseconds since the epoch, rounded down, before anything is
 * subtracted.
 */
#ifndef BN_STAMP_PROFILER_H
#define BN_STAMP_PROFILER_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "bn.h"
#include "kernels/kernels.h"

/* ---- bricks ---- */

/* The pieces of work that the forward pass is profiled in. A brick is one byte, so that looking one up is an array's
 * index. Numbers 0 to 14 are those of other profilers of this family and never change; after them come the bricks that
 * only a ternary network has. */
enum bn_brick_category {
    BN_CATEGORY_NORM,
    BN_CATEGORY_ATTENTION,
    BN_CATEGORY_FFN,
    BN_CATEGORY_HEAD, /* embedding and head: the two ends of the network */
    BN_CATEGORY_OTHER,
    BN_CATEGORY_COUNT
};

/* X(constant, name, category, other names that mean it) */
#define BN_BRICKS(X)                                                                             \
    X(RMS_NORM, "RmsNorm", NORM, "norm")                                                         \
    X(LAYER_NORM, "LayerNorm", NORM, "")                                                         \
    X(QKV_PROJECTION, "QkvProjection", ATTENTION, "qkv")                                         \
    X(ROPE_EMBEDDING, "RopeEmbedding", ATTENTION, "rope")                                        \
    X(ATTENTION_SCORE, "AttentionScore", ATTENTION, "score")                                     \
    X(ATTENTION_SOFTMAX, "AttentionSoftmax", ATTENTION, "softmax")                               \
    X(ATTENTION_OUTPUT, "AttentionOutput", ATTENTION, "values")                                  \
    X(OUTPUT_PROJECTION, "OutputProjection", ATTENTION, "oproj")                                 \
    X(GATE_PROJECTION, "GateProjection", FFN, "gate")                                            \
    X(UP_PROJECTION, "UpProjection", FFN, "up")                                                  \
    X(ACTIVATION, "Activation", FFN, "silu gelu relu relu2")                                     \
    X(DOWN_PROJECTION, "DownProjection", FFN, "down")                                            \
    X(EMBEDDING, "Embedding", HEAD, "embed")                                                     \
    X(LM_HEAD, "LmHead", HEAD, "head")                                                           \
    X(SAMPLING, "Sampling", OTHER, "sample")                                                     \
    /* ---- additional bricks of a ternary network and of this engine ---- */                    \
    X(ACTIVATION_QUANTIZE, "ActivationQuantize", OTHER, "quantize") /* to int8 */                \
    X(KV_STORE, "KvStore", ATTENTION, "kv")                                                      \
    X(ATTENTION, "Attention", ATTENTION, "") /* all of a thread's heads */                       \
    X(RESIDUAL_ADD, "ResidualAdd", OTHER, "residual")                                            \
    X(HEAD_SCREEN, "HeadScreen", HEAD, "screen") /* bounds of all logits */                      \
    X(BARRIER_WAIT, "BarrierWait", OTHER, "barrier")                                             \
    X(TEAM, "Team", OTHER, "")   /* starting the threads of a pass, and joining */               \
    X(LAYER, "Layer", OTHER, "") /* a whole layer; at the level of layers only */                \
    X(EMIT, "Emit", OTHER, "")   /* a token's digest and its text, to the caller */              \
    X(CONVOLUTION, "Convolution", ATTENTION, "conv")                                             \
    X(DELTA_RULE, "DeltaRule", ATTENTION, "delta")                                               \
    X(HEAD_GATE, "HeadGate", ATTENTION, "")    /* gates of heads, and norms of recurrent ones */ \
    X(ROUTER, "Router", FFN, "router experts") /* the choice of experts */                       \
    X(EXCHANGE, "Exchange", OTHER, "")         /* between ranks */

enum bn_brick {
#define X(constant, name, category, aliases) BN_BRICK_##constant,
    BN_BRICKS(X)
#undef X
        BN_BRICK_KNOWN
};

#define BN_BRICK_COUNT ((unsigned)BN_BRICK_SAMPLING + 1u) /* of those whose numbers are fixed */
#define BN_BRICK_MAX 64u                                  /* room for more */
#define BN_BRICK_NONE 255u

_Static_assert(BN_BRICK_COUNT == 15, "the bricks with fixed numbers");
_Static_assert(BN_BRICK_RMS_NORM == 0 && BN_BRICK_QKV_PROJECTION == 2 && BN_BRICK_OUTPUT_PROJECTION == 7 &&
                   BN_BRICK_DOWN_PROJECTION == 11 && BN_BRICK_SAMPLING == 14,
               "their numbers");
_Static_assert(BN_BRICK_KNOWN < BN_BRICK_MAX && BN_BRICK_MAX < BN_BRICK_NONE, "a brick is one byte");

/* Of the known ones; NULL and BN_CATEGORY_OTHER for others. */
const char *bn_brick_name(unsigned brick);
enum bn_brick_category bn_brick_category(unsigned brick);
/* "Norm", "Attention", "FFN", "Head", "Other". */
const char *bn_brick_category_name(enum bn_brick_category category);
/* By name or alias, in upper or lower case; BN_BRICK_NONE when no known brick is called that. */
unsigned bn_brick_find(const char *name);

/* ---- a profile ---- */

typedef struct bn_prof bn_prof;

enum bn_prof_level { BN_PROF_OFF, BN_PROF_LAYER, BN_PROF_BRICK, BN_PROF_KERNEL, BN_PROF_LEVELS };

const char *bn_prof_level_name(enum bn_prof_level level); /* "off", "layer", "brick", "kernel" */

#define BN_PROF_NO_KERNEL ((uint8_t)BN_KERNEL_COUNT) /* in events of bricks */
#define BN_PROF_NO_PASS UINT32_MAX
#define BN_PROF_DEPTH 8u /* bricks inside one another */

/* What one kernel call was about: rows of cols values, for n tokens or heads. rows * cols * n is its count of
 * multiply-adds (or of elements, for kernels that have none). 0 rows: work that another thread does too. */
struct bn_prof_shape {
    uint32_t rows, cols, n;
};

/* One stretch of time on one thread. A brick's, or a kernel's inside it. */
struct bn_prof_event {
    uint64_t begin, end;        /* the clock as it was read: ticks */
    uint64_t elements;          /* of a brick: values that this thread made */
    uint64_t bytes;             /* of weights and cache that were read */
    struct bn_prof_shape shape; /* of a kernel */
    uint32_t pass;              /* index into the passes, or BN_PROF_NO_PASS */
    int16_t layer;              /* -1 outside the layers */
    uint8_t brick;              /* of a kernel: the brick that it is part of */
    uint8_t kernel;             /* enum bn_kernel, or BN_PROF_NO_KERNEL */
    uint8_t depth;              /* bricks around it */
};

/* One batch of tokens through the network. What comes after it, up to the next one, still belongs to it. */
struct bn_prof_pass {
    uint64_t begin, end; /* ticks, on the first thread */
    uint32_t position;   /* of its first token in the timeline */
    uint32_t n_tokens, n_logits;
};

/* What a device says of a kernel that it ran: ticks, moved to the host's clock by one offset for each pass. */
struct bn_prof_launch {
    uint64_t queued, submitted, started, ended;
    uint32_t global[2], local[2]; /* work-items, of all and of a group */
    uint32_t event;               /* the innermost of its events on the first trail */
};

struct bn_brick_stats {
    uint64_t count;
    uint64_t inclusive_ns, exclusive_ns;
    uint64_t min_ns, max_ns; /* of one event, inclusive */
    uint64_t elements, bytes;
    uint64_t ops; /* of the kernels in it; 0 in a profile that was read from a document */
};

struct bn_prof_kernel_stats {
    uint64_t count, ns, bytes, ops;
};

/* One thread's. Cache lines are not shared with another thread's. */
struct bn_prof_trail {
    _Alignas(BN_ALIGNMENT) struct bn_prof *prof;
    struct bn_prof_event *events;
    size_t n, room;
    size_t n_folded; /* events that are in the sums below */
    uint64_t dropped;
    uint64_t bytes;        /* that kernels counted so far */
    uint64_t kernel_begin; /* of the kernel that runs, at the level of kernels */
    int16_t layer;
    uint32_t depth; /* bricks that are open; those beyond BN_PROF_DEPTH are dropped */
    struct {
        uint64_t begin, bytes; /* the clock, and what the trail had counted, when it began */
        uint8_t brick;
    } open[BN_PROF_DEPTH];
    uint64_t inside_ns[BN_PROF_DEPTH + 1u]; /* folded events of a depth that no brick around them has taken */
    struct bn_brick_stats bricks[BN_BRICK_MAX];
    struct bn_prof_kernel_stats kernels[BN_KERNEL_COUNT];
};

/* Called on the first thread after each pass, while no brick runs. */
typedef void (*bn_prof_watch_fn)(void *user, bn_prof *prof);

/* Reads a clock in place of the processor's, for tests: nanoseconds. */
typedef uint64_t (*bn_prof_clock_fn)(void *user);

struct bn_prof {
    enum bn_prof_level level;
    bool enabled;
    unsigned n_threads;
    struct bn_tick_clock clock;
    bn_prof_clock_fn fake_clock;
    void *fake_user;
    bn_prof_watch_fn watch; /* NULL: the profile is kept; set before it is attached to a session */
    void *watch_user;
    uint32_t
        n_skip; /* passes from the next one on that, with what follows each, are not measured; their begin and end
                      * are. For watchers that would cost too much of the time of short passes */
    bool rests;          /* nor is what happens now */
    uint64_t resolution; /* ticks that two readings in a row differ by, in the median */
    uint64_t epoch;      /* ticks */
    uint64_t wall_ns;    /* 0 until bn_prof_finalize */
    bool finalized;
    struct bn_prof_trail *trails;
    struct bn_prof_pass *passes;
    size_t n_passes, passes_room;
    uint64_t passes_dropped;
    struct bn_prof_launch *launches; /* in their order; none on the CPU */
    size_t n_launches, launches_room;
    const char **own_kernel_names; /* of a profile that was read from a document; else NULL */
    const char *const
        *kernel_names; /* [BN_KERNEL_COUNT], of the session that it was attached to; else NULL */
};

struct bn_prof_options {
    enum bn_prof_level level;
    unsigned n_threads; /* trails */
    size_t n_events;    /* room in each trail; 0: 2^16 */
    size_t n_passes;    /* room; 0: 2^12 */
};

/* ---- set-up ---- */

/* The most events that n_passes passes over n_tokens tokens in all can leave on one thread. */
uint64_t bn_prof_room_for(const bn_hparams *network, enum bn_prof_level level, uint64_t n_passes,
                          uint64_t n_tokens);
/* Takes all memory. Disabled until enabled is set. */
BN_MUST_CHECK bn_status bn_prof_open(bn_prof **out, const struct bn_prof_options *options, bn_error *err);
void bn_prof_close(bn_prof *prof);

/* ---- measuring: nothing here allocates or locks ---- */

static inline bool bn_prof_on(const bn_prof *prof)
{
    return prof != NULL && prof->enabled && prof->level != BN_PROF_OFF;
}

static inline uint64_t bn_prof_now(const bn_prof *prof)
{
    return prof->fake_clock != NULL ? prof->fake_clock(prof->fake_user) : bn_ticks(&prof->clock);
}

/* Forgets all events and starts the wall time. */
void bn_prof_reset_epoch(bn_prof *prof);
/* Nanoseconds since the epoch; 0 when disabled. */
uint64_t bn_prof_elapsed_ns(const bn_prof *prof);

/* Whether there is a trail. Mostly there is none, and stamping costs one branch. */
#define bn_prof_wanted(trail) __builtin_expect((trail) != NULL, 0)

/* A brick that runs. The time of its beginning is in the trail, so that a brick which is not measured costs
 * one branch. */
struct bn_brick_timer {
    struct bn_prof_trail *trail; /* NULL: it is not measured */
    unsigned brick;
};
_Static_assert(sizeof(struct bn_brick_timer) <= 32, "a timer is small");

/* A thread's trail, NULL when nothing is to be measured, which bn_prof_start and _stop accept. */
static inline struct bn_prof_trail *bn_prof_trail(bn_prof *prof, unsigned thread)
{
    return bn_prof_on(prof) && !prof->rests && thread < prof->n_threads ? &prof->trails[thread] : NULL;
}

void bn_prof_open_brick(struct bn_prof_trail *trail, unsigned brick);
void bn_prof_close_brick(struct bn_prof_trail *trail, unsigned brick, uint64_t elements);
/* Whether only whole layers are stamped, and whether kernels are. */
static inline bool bn_prof_wants_layers(const struct bn_prof_trail *trail)
{
    return trail->prof->level == BN_PROF_LAYER;
}
static inline bool bn_prof_wants_kernels(const struct bn_prof_trail *trail)
{
    return trail->prof->level == BN_PROF_KERNEL;
}
static inline void bn_prof_begin_kernel(struct bn_prof_trail *trail)
{
    trail->kernel_begin = bn_prof_now(trail->prof);
}
/* Adds the operations of a kernel to the innermost brick that is open. */
static inline void bn_prof_count_ops(struct bn_prof_trail *trail, uint64_t ops)
{
    if (trail->depth > 0 && trail->depth <= BN_PROF_DEPTH)
        trail->bricks[trail->open[trail->depth - 1].brick].ops += ops;
}
/* The kernel that began at trail->kernel_begin ends. */
void bn_prof_add_kernel(struct bn_prof_trail *trail, enum bn_kernel kernel, uint64_t bytes,
                        const struct bn_prof_shape *shape);

/* A kernel that a device ran after all events of the first thread so far: its brick, at the level of kernels the kernel
 * in it (of the event: neither times nor depth; kernel BN_PROF_NO_KERNEL or more: none), and the wait before it as the
 * brick Team. At the level of layers those of a layer are one event. Takes memory when it has to. */
void bn_prof_add_launch(bn_prof *prof, const struct bn_prof_launch *launch,
                        const struct bn_prof_event *event);

static inline struct bn_brick_timer bn_prof_start(struct bn_prof_trail *trail, unsigned brick)
{
    if (bn_prof_wanted(trail)) bn_prof_open_brick(trail, brick);
    return (struct bn_brick_timer){trail, brick};
}

static inline void bn_prof_stop(struct bn_brick_timer timer, uint64_t elements)
{
    if (bn_prof_wanted(timer.trail)) bn_prof_close_brick(timer.trail, timer.brick, elements);
}

/* A pass begins and ends, on the first thread. */
void bn_prof_begin_pass(bn_prof *prof, uint32_t position, uint32_t n_tokens, uint32_t n_logits);
void bn_prof_end_pass(bn_prof *prof);

/* ---- results; asked for while no brick runs ---- */

/* Sums up what is pending, and goes on measuring. */
void bn_prof_fold(bn_prof *prof);
/* Forgets all events and passes; the sums stay. Events until the next pass belong to none. */
void bn_prof_forget_events(bn_prof *prof);
/* Sums up what is pending; the wall time ends at end_ns. A second call changes nothing. */
void bn_prof_finalize(bn_prof *prof, uint64_t end_ns);
/* Events that are not summed up yet. */
size_t bn_prof_pending(const bn_prof *prof);
/* A reading as nanoseconds since the epoch, rounded down. */
uint64_t bn_prof_ns(const bn_prof *prof, uint64_t ticks);

/* For qsort: numbers of 64 bits, ascending. */
int bn_prof_by_value(const void *a, const void *b);
/* A thread's events in the order of their ends; borrowed. */
const struct bn_prof_event *bn_prof_events(const bn_prof *prof, unsigned thread, size_t *n);
/* "ternary_gemv_avx2"; the slot's number when it was attached to no session. */
const char *bn_prof_kernel_name(const bn_prof *prof, unsigned kernel);

/* One thread's, or with BN_PROF_ALL_THREADS the sum over them. */
#define BN_PROF_ALL_THREADS UINT32_MAX
struct bn_brick_stats bn_prof_stats_for(const bn_prof *prof, unsigned brick, unsigned thread);
struct bn_prof_kernel_stats bn_prof_kernel_stats(const bn_prof *prof, enum bn_kernel kernel, unsigned thread);
/* Sums over the bricks of each category. */
void bn_prof_category_stats(const bn_prof *prof, unsigned thread,
                            struct bn_brick_stats out[BN_CATEGORY_COUNT]);
/* Sum of all exclusive times. */
uint64_t bn_prof_total_ns(const bn_prof *prof, unsigned thread);
uint64_t bn_prof_dropped(const bn_prof *prof);
/* Share of the first thread's wall time that bricks account for. */
double bn_prof_coverage(const bn_prof *prof);
#define BN_PROF_COVERAGE 0.85 /* less makes a profile worthless: it does not say where the time went */

/* Median and tail of one brick's events, inclusive, nearest rank; 0 where there are too few (fewer than one
 * event is expected beyond it). */
struct bn_prof_quantiles {
    uint64_t median_ns, p95_ns, p99_ns;
};
BN_MUST_CHECK bn_status bn_prof_quantiles(const bn_prof *prof, unsigned brick, struct bn_prof_quantiles *out,
                                          bn_error *err);

/* The gate, and its parts: finalized, something measured, nothing dropped or left open; sums exact and within
 * the wall time; coverage reached. BN_ERR_MISMATCH says what does not hold. */
BN_MUST_CHECK bn_status bn_prof_check(const bn_prof *prof, bn_error *err);
BN_MUST_CHECK bn_status bn_prof_check_complete(const bn_prof *prof, bn_error *err);
BN_MUST_CHECK bn_status bn_prof_check_sums(const bn_prof *prof, bn_error *err);
BN_MUST_CHECK bn_status bn_prof_check_coverage(const bn_prof *prof, bn_error *err);
/* Appends the tables for people: bricks, categories, kernels, threads. */
BN_MUST_CHECK bn_status bn_prof_report(const bn_prof *prof, struct bn_buf *out, bn_error *err);

/* ---- counters ---- */

/* Counting what kernels do, where they are called. Each thread has its own counters, so that counting costs
 * no synchronisation; only the first thread reads the clock. */

struct bn_counter {
    uint64_t calls, ticks, bytes, ops;
};

/* Adds what others did of the same operations: of calls the largest, of time that of the first. */
static inline void bn_counter_join(struct bn_counter *sum, const struct bn_counter *part)
{
    if (part->calls > sum->calls) sum->calls = part->calls;
    sum->bytes += part->bytes;
    sum->ops += part->ops;
}

/* One thread's. The padding keeps two threads' counters off one cache line. */
struct bn_counters {
    struct bn_counter kernel[BN_KERNEL_COUNT];
    uint64_t since; /* when the kernel that runs was entered */
    struct bn_tick_clock clock;
    unsigned char padding[BN_ALIGNMENT - sizeof(uint64_t) - sizeof(struct bn_tick_clock)];
};

static inline void bn_counters_begin(struct bn_counters *counters, unsigned thread)
{
    if (thread == 0) counters->since = bn_ticks(&counters->clock);
}

/* bytes and ops are this thread's share. */
static inline void bn_counters_end(struct bn_counters *counters, unsigned thread, enum bn_kernel kernel,
                                   uint64_t bytes, uint64_t ops)
{
    struct bn_counter *c = &counters->kernel[kernel];
    if (thread == 0) c->ticks += bn_ticks(&counters->clock) - counters->since;
    c->calls++;
    c->bytes += bytes;
    c->ops += ops;
}

/* The sum over threads; of calls the largest, since all threads take part in one operation, and a thread
 * whose share is empty may leave it out. */
struct bn_counter bn_counters_sum(const struct bn_counters *counters, unsigned n_threads,
                                  enum bn_kernel kernel);

#endif
