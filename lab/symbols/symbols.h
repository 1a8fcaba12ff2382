/* SPDX-License-Identifier: MIT
 *
 * Names of addresses: the functions that contain a recording's addresses, and those inlined there, from the
 * symbol tables and debug information of the mapped files (elfutils' libdwfl). And call chains from copied
 * stacks, by the unwind tables of these files.
 *
 * The files are read as they are now. A file with another build id than the mapped a frame without a names:
 * its frames are unknown. No debug information server is used. Only object.h includes libdwfl.
 *
 * A function's name is that of its symbol. Of several at one address a global one comes before a weak one before a
 * local one. The parts that compilers make of
 * one function (".cold", ".part.0", ".constprop.0", ".isra.0", ".lto_priv.0") have the name of that
 * function, and versions ("@@GLIBC_2.34") are left off.
 */
#ifndef BN_SYMBOLS_H
#define BN_SYMBOLS_H

#include "lab/sampler/recording.h"
#include "lab/stacks/stacks.h"

typedef struct bn_symbols bn_symbols;

struct bn_symbols_options {
    bool inlined;           /* functions inside others, too; needs debugging information */
    const char *debug_path; /* folders of separate debugging files, with ':' between; NULL: the usual ones */
};

struct bn_symbols_counts {
    uint64_t addresses;    /* different ones looked up */
    uint64_t unknown;      /* without a name */
    uint64_t other_builds; /* in files that are not those that ran */
};

BN_MUST_CHECK bn_status bn_symbols_open(bn_symbols **out, const bn_recording *recording,
                                        const struct bn_symbols_options *options, bn_error *err);
void bn_symbols_close(bn_symbols *symbols);
struct bn_symbols_counts bn_symbols_counts(const bn_symbols *symbols);

/* The frames at an address, the outermost first: the function that has a place in memory, then those inlined
 * into it there. caller: it is a return address, so the call before it is meant. Borrowed until
 * close. At least one frame: an unknown one is BN_FRAME_UNKNOWN. system: an address of the operating system.
 */
BN_MUST_CHECK bn_status bn_symbols_at(bn_symbols *symbols, uint32_t pid, uint64_t address, uint64_t time_ns,
                                      bool caller, bool system, const struct bn_frame **frames, size_t *n,
                                      bn_error *err);

/* How many addresses of a sample's call chain are of code, the first one in any case. A walk over frame
 * pointers ends in code that keeps none, where it takes other numbers for return addresses: from the first
 * one on that lies in no executable memory, the chain is not the thread's. */
BN_MUST_CHECK bn_status bn_symbols_chain(bn_symbols *symbols, const struct bn_sample *sample,
                                         const uint64_t *chain, size_t *n_chain, bn_error *err);
/* Whether these addresses go all the way to where threads begin: _start and what it calls to get to main,
 * main, clone and what it calls to get to a thread's own function. Where these have no names, as in a C
 * library without its symbol table: an address from which this process's C library starts threads, a function
 * without a caller by the unwinding tables. */
BN_MUST_CHECK bn_status bn_symbols_rooted(bn_symbols *symbols, const struct bn_sample *sample,
                                          const uint64_t *chain, size_t n_chain, bool *rooted, bn_error *err);

/* Functions that threads begin in, and those that are around them in every program. */
enum bn_root { BN_ROOT_NONE, BN_ROOT_OWN, BN_ROOT_AROUND };
enum bn_root bn_symbols_root(const char *name);

/* For unwind.c: the files of the mappings. */
struct bn_objects *bn_symbols_objects(bn_symbols *symbols);

/* Whether an address of a chain is a return address: all but where the thread was, in the operating system
 * and outside of it. */
#define BN_SAMPLE_IS_CALLER(sample, i) ((i) != 0 && (i) != (sample)->n_system)

/* Replaces the call chain of each sample that has a copied stack by one that the unwinding tables give, when
 * that gets further; such samples are flagged BN_SAMPLE_UNWOUND. */
BN_MUST_CHECK bn_status bn_symbols_unwind(bn_symbols *symbols, bn_recording *recording, bn_error *err);

/* ---- from a recording to stacks: each sample becomes a path of tags and named functions (resolve.c) ---- */

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
    struct bn_symbols_counts symbols;
};

/* PROCESS and THREAD tags come from the recording's names. quality is added to, not cleared. */
BN_MUST_CHECK bn_status bn_resolve(bn_stacks *stacks, const bn_recording *recording, bn_symbols *symbols,
                                   const struct bn_resolve_options *options, struct bn_stack_quality *quality,
                                   bn_error *err);

/* Puts the member "quality" into a document: the counts, and shares of them. */
void bn_stack_quality_put(bn_json *document, const struct bn_stack_quality *quality);

#endif
