/* SPDX-License-Identifier: MIT
 *
 * The page beside a picture: what was measured and when, by which program and sampler, where the time went,
 * and how that holds against the timing document and the recording before it. All of it comes from the
 * stacks and from what they say about themselves; what that lacks is a line that says so.
 *
 * First the members are made, then the text is written from them alone, so that no figure can stand on the
 * page that is not in the document. The same stacks give the same bytes.
 */
#ifndef BN_FLAMEGRAPH_PAGE_H
#define BN_FLAMEGRAPH_PAGE_H

#include "lab/stacks/stacks.h"

/* What the recording is held against. */
struct bn_flamegraph_beside {
    const char *name;        /* of this recording's files: "phase2_1tok" */
    const char *timing_path; /* of the document that ci/phase2-timing.sh writes, for people */
    const char *timing_text; /* NULL: it could not be read */
    const char *timing_why;  /* why not */
    const bn_stacks *before; /* the recording before this one; NULL: none */
    const char *before_name; /* "2026-11-20-1a2b3c4d5e6f" */
    const char *before_why;  /* why there is none */
};

/* Puts the member "page" into stacks->about: name, recorded, functions, bricks, timing,
 * before. One that is there is made anew. */
BN_MUST_CHECK bn_status bn_flamegraph_page_put(bn_stacks *stacks, const struct bn_flamegraph_beside *beside,
                                               bn_error *err);
/* Appends the Markdown text of what stacks say about themselves, their member "page" among it. */
BN_MUST_CHECK bn_status bn_flamegraph_page_write(struct bn_buf *out, const bn_json *about, bn_error *err);

/* ---- parts that other commands have too ---- */

/* Puts "functions": {"classes": [...], "rows": [...], ...}, of functions as they stand in memory: time of
 * those that the compiler put into others is theirs, so that a kernel is one function and not the
 * instructions it is made of. Modules stay: the class of a short name depends on whose it is. */
#define BN_FLAMEGRAPH_FUNCTIONS                                \
    {                                                          \
        .drop = BN_FRAME_TAGS | BN_FRAME_BIT(BN_FRAME_INLINED) \
    }
BN_MUST_CHECK bn_status bn_flamegraph_put_functions(bn_json *object, const bn_stacks *stacks, bn_error *err);
void bn_flamegraph_put_timing(bn_json *object, const bn_stacks *stacks,
                              const struct bn_flamegraph_beside *beside);
/* Puts what changed significantly since another recording; both are compared by their functions. Whether the
 * two can be compared at all is for bn_flamegraph_unlike. */
BN_MUST_CHECK bn_status bn_flamegraph_put_changes(bn_json *object, const bn_stacks *before,
                                                  const bn_stacks *after, bn_error *err);
/* Why two recordings are not of the same kind, by what they say about themselves (machine, model, kernels,
 * threads, workload, sampler); "" when they are. Returns out. */
const char *bn_flamegraph_unlike(char *out, size_t room, const bn_json *before, const bn_json *after);

/* A member that may be in one of several places, "model.sha256", "workload.model.sha256"; NULL: in none. The
 * list ends with NULL. */
const bn_json *bn_flamegraph_member(const bn_json *about, const char *const *paths);
/* The digest of the model, the kernels' instruction set, the number of threads, the program's commit. */
extern const char *const bn_flamegraph_model_digest[],
    *const bn_flamegraph_isa[], *const bn_flamegraph_threads[], *const bn_flamegraph_commit[];

/* Appends a text from anywhere as a code span: control characters as \xNN, backticks inside a longer fence,
 * bars escaped, so that a table stays one. */
void bn_markdown_code(struct bn_buf *out, const char *text);

#endif
