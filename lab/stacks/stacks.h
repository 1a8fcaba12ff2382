/* SPDX-License-Identifier: MIT
 *
 * Stacks: call paths and the time spent in each, merged into a tree. Samplers and the profiler produce
 * them, files hold them, and pictures, tables and comparisons are made from them.
 *
 * A *frame* is a function or a tag; a *node* is a call path: a parent and a frame. Node 0 is the root,
 * which has no frame. A parent always comes before its children, so one walk from the end computes totals.
 *
 * A *run* is one of several recordings of the same work. Each node has, for each run, its *self* weight (in
 * the unit of the stacks) and the number of its samples; a weight with 0 samples was
 * measured, not sampled. The *total* of a node is its self weight and that of all nodes below it; it is
 * never stored.
 *
 * Tags are frames that are not functions: the thread, the phase, the layer, the brick in which a sample was
 * taken. They are above the functions (nearer to the root), in the order of enum bn_frame_kind, so a view
 * can leave some kinds out and divide the same stacks in another way.
 */
#ifndef BN_STACKS_STACKS_H
#define BN_STACKS_STACKS_H

#include "base/error.h"
#include "base/json.h"

enum bn_frame_kind {
    /* ---- tags, outermost first ---- */
    BN_FRAME_PROCESS, /* "bn-run" */
    BN_FRAME_THREAD,  /* "bn-run 2": the second thread of this name */
    BN_FRAME_PHASE,   /* "prefill", "decode" */
    BN_FRAME_LAYER,   /* "layer 3" */
    BN_FRAME_BRICK,   /* "QkvProjection" */
    BN_FRAME_SLOT,    /* a kernel of the engine as the profiler names it: "ternary_gemv_avx2" */
    /* ---- functions ---- */
    BN_FRAME_CODE,
    BN_FRAME_INLINED, /* a function that the compiler put into its caller */
    BN_FRAME_SYSTEM,  /* of the operating system's kernel */
    BN_FRAME_UNKNOWN, /* an address without a name, called "[libc.so.6]" by its file, or "[unknown]" */
    BN_FRAME_KINDS
};
#define BN_FRAME_IS_TAG(kind) ((kind) <= BN_FRAME_SLOT)
#define BN_FRAME_BIT(kind) (1u << (kind))
#define BN_FRAME_TAGS ((1u << BN_FRAME_CODE) - 1u)
#define BN_FRAME_FUNCTIONS (((1u << BN_FRAME_KINDS) - 1u) & ~BN_FRAME_TAGS)
const char *bn_frame_kind_name(enum bn_frame_kind kind); /* "process", ..., "code", ... */

#define BN_STACKS_ROOT 0u
#define BN_STACKS_NONE UINT32_MAX
#define BN_STACKS_MAX_NODES (1u << 22)
#define BN_STACKS_MAX_DEPTH 512u /* deeper paths end there, in a frame "[deeper]" */
#define BN_STACKS_MAX_NAME 4096u /* bytes; longer names are cut there */
#define BN_STACKS_MAX_RUNS 256u
#define BN_STACKS_MAX_CELLS (1u << 25) /* nodes times runs: 16 bytes each */

/* Equal when kind, name, module and file are: functions of one name may live in several files. Texts are
 * NUL-terminated UTF-8 without control characters: others are replaced when they come in, and a name without
 * a byte by "[unknown]". */
struct bn_frame {
    const char *name;
    const char *module; /* the file that the code is from, without its folders; "" when not known */
    const char *file;   /* of the source; "" when not known */
    uint32_t line;      /* where the function begins there; 0 when not known; of several the first counts */
    enum bn_frame_kind kind;
};

struct bn_stacks_node {
    uint32_t parent; /* of the root: 0 */
    uint32_t frame;  /* of the root: BN_STACKS_NONE */
    uint32_t depth;  /* of the root: 0 */
};

struct bn_stacks_run {
    double *self;      /* [n_nodes] */
    uint64_t *samples; /* [n_nodes] */
};

struct bn_stacks_index; /* finds texts, frames and children; stacks.c */

typedef struct bn_stacks {
    char unit[16]; /* "ns", "samples", "faults", "bytes" */
    char what[16]; /* what was recorded: "cpu", "wall", "faults", "bricks"; "" when not known */
    struct bn_frame *frames;
    size_t n_frames, frames_room;
    struct bn_stacks_node *nodes;
    size_t n_nodes, nodes_room;
    struct bn_stacks_run *runs;
    size_t n_runs;
    /* The same runs as the profiler measured them (lab/stacks/bricks.h), in addition to samples; NULL: not
     * measured. Copies and appended stacks take it along. Owned. */
    struct bn_stacks *measured;
    bn_json *about; /* where it comes from, how it was recorded (docs/reference/bench.md); an object */
    struct bn_stacks_index *index;
} bn_stacks;

/* One run, and no node but the root. */
BN_MUST_CHECK bn_status bn_stacks_open(bn_stacks **out, const char *unit, const char *what, bn_error *err);
void bn_stacks_close(bn_stacks *stacks);
/* The end of a function that makes stacks: unless status is BN_OK, closes *out and sets it to NULL. Returns
 * status. */
bn_status bn_stacks_keep(bn_stacks **out, bn_status status);
/* One run more, the last. BN_ERR_LIMIT over BN_STACKS_MAX_RUNS. */
BN_MUST_CHECK bn_status bn_stacks_add_run(bn_stacks *stacks, bn_error *err);

/* ---- filling ---- */

/* Moves *node to its child with this frame, which is made when it is not there. frame's texts are copied.
 * n_name bytes of name count (SIZE_MAX: all of it). */
BN_MUST_CHECK bn_status bn_stacks_push(bn_stacks *stacks, uint32_t *node, const struct bn_frame *frame,
                                       size_t n_name, bn_error *err);
/* The same for a name and nothing else. */
BN_MUST_CHECK bn_status bn_stacks_push_name(bn_stacks *stacks, uint32_t *node, enum bn_frame_kind kind,
                                            const char *name, bn_error *err);
/* Both in two steps, for callers that push the same frames repeatedly: the number of a frame, and the child
 * with it. */
BN_MUST_CHECK bn_status bn_stacks_intern(bn_stacks *stacks, uint32_t *number, const struct bn_frame *frame,
                                         size_t n_name, bn_error *err);
BN_MUST_CHECK bn_status bn_stacks_push_frame(bn_stacks *stacks, uint32_t *node, uint32_t frame,
                                             bn_error *err);
/* Adds to a node's own weight in a run. */
void bn_stacks_add(bn_stacks *stacks, uint32_t node, size_t run, double weight, uint64_t samples);

/* ---- reading ---- */

#define BN_STACKS_ALL_RUNS SIZE_MAX
double bn_stacks_self(const bn_stacks *stacks, uint32_t node, size_t run);
uint64_t bn_stacks_samples(const bn_stacks *stacks, uint32_t node, size_t run);
/* Each node's weight with all below it, in one run or over all of them: out[n_nodes]. total[0] is the whole.
 */
void bn_stacks_totals(const bn_stacks *stacks, size_t run, double *out);
/* The number of all samples. */
uint64_t bn_stacks_count_samples(const bn_stacks *stacks);
/* The order of frames: by kind, name, module and file. */
int bn_frame_compare(const struct bn_frame *a, const struct bn_frame *b);
/* NULL for the root. */
const struct bn_frame *bn_stacks_frame(const bn_stacks *stacks, uint32_t node);

/* ---- copies and views ---- */

/* What a view keeps. Zeroed: everything as it is. */
struct bn_stacks_view {
    unsigned drop;     /* bits of kinds whose frames are left out; their children move up */
    const char *root;  /* stacks begin at the first frame with this name; those without one are left out */
    bool callers;      /* inverted: the running function is the root's child, its caller is below */
    bool merge_runs;   /* one run, the sum of all */
    bool drop_modules; /* frames are the same if kind and name are */
};
/* A copy, sorted: nodes in depth-first order, siblings by kind, name, module and file, so that the same
 * stacks are the same bytes wherever they come from. about is copied. */
BN_MUST_CHECK bn_status bn_stacks_copy(bn_stacks **out, const bn_stacks *stacks,
                                       const struct bn_stacks_view *view, bn_error *err);
/* Appends the runs of from to those of stacks; missing nodes are made. BN_ERR_ARG for another
 * unit. about stays as it is. */
BN_MUST_CHECK bn_status bn_stacks_append(bn_stacks *stacks, const bn_stacks *from, bn_error *err);

/* ---- what a recording is of: its model, work, program, settings and machine (fingerprint.c). Two recordings with the same
 * fingerprint differ only by chance. ---- */

/* Puts the digest as "fingerprint" into about. */
BN_MUST_CHECK bn_status bn_fingerprint_put(bn_json *about, bn_error *err);
/* Adds the names of all facts that both know and in which they differ to an array of texts. program: also those
 * of the program, whose change a comparison shows. */
void bn_fingerprint_differences(bn_json *names, const bn_json *before, const bn_json *after, bool program);

#endif
