/* SPDX-License-Identifier: MIT
 *
 * From a recording to stacks: each sample becomes a path of tags and named functions.
 */
#ifndef BN_SYMBOLS_RESOLVE_H
#define BN_SYMBOLS_RESOLVE_H

#include "lab/symbols/symbols.h"

/* A stretch of time that is one run. */
struct bn_record_window {
    uint64_t from_ns, to_ns;
};

/* Pushes tags of kinds PHASE to SLOT for a sample. */
typedef bn_status bn_record_tag_fn(void *user, const struct bn_sample *sample, bn_stacks *stacks,
                                   uint32_t *node, bn_error *err);

struct bn_resolve_options {
    /* The runs, in the order of time; samples outside of them do not count. NULL: all samples are one run. */
    const struct bn_record_window *windows;
    size_t n_windows;
    size_t first_run;      /* the stacks' run that the first window is; the others follow. They must exist */
    bn_record_tag_fn *tag; /* NULL: none */
    void *user;
};

/* How good the stacks are. */
struct bn_stack_quality {
    uint64_t samples; /* that counted */
    uint64_t outside; /* that were in no window */
    uint64_t rooted;  /* whose outermost function is one that threads begin in (_start, main, clone, ...) */
    uint64_t cut;     /* deeper than was kept */
    uint64_t unwound; /* by unwinding tables */
    uint64_t leaf_unknown; /* running in a function without a name */
};

/* PROCESS and THREAD tags come from the recording's names. quality is added to, not cleared. */
BN_MUST_CHECK bn_status bn_resolve(bn_stacks *stacks, const bn_recording *recording, bn_symbols *symbols,
                                   const struct bn_resolve_options *options, struct bn_stack_quality *quality,
                                   bn_error *err);

/* Puts the member "quality" into a document: the counts, and shares of them. */
void bn_stack_quality_put(bn_json *document, const struct bn_stack_quality *quality,
                          const struct bn_symbols_counts *symbols);

#endif
