/* SPDX-License-Identifier: MIT
 *
 * The commands of bn-flamegraph and what they share.
 */
#ifndef BN_FLAMEGRAPH_FLAMEGRAPH_H
#define BN_FLAMEGRAPH_FLAMEGRAPH_H

#include "base/error.h"
#include "lab/formats/document.h"
#include "lab/host/busy.h"
#include "lab/sampler/recorder.h"
#include "lab/stacks/bricks.h"
#include "lab/stacks/svg.h"
#include "lab/symbols/symbols.h"
#include "tools/cli/options.h"
#include "tools/cli/report.h"

/* A model's generation, repeated in this process until there are enough samples; workload.c. */
struct bn_flamegraph_workload {
    const char *prompt;
    uint32_t n_predict, n_threads, runs; /* n_threads 0: one per usable core */
    uint64_t seed;
    double seconds;           /* of a run, at most; 0: 10 */
    uint64_t min_samples;     /* of a run, which ends with as many or when the time is over */
    enum bn_prof_level level; /* BN_PROF_OFF: no bricks */
};

enum { ORDER_SELF, ORDER_TOTAL };

/* The options of all commands; each has some of them. */
struct bn_flamegraph_options {
    const char *output;
    struct bn_texts outputs;      /* record */
    enum bn_stacks_format format; /* export */
    /* the view */
    const char *tags, *root;
    bool measured, merge_inlined;
    /* tables: text, diff */
    uint32_t top;
    double min; /* percent */
    int order;  /* ORDER_SELF, ORDER_TOTAL */
    bool tree;
    struct bn_svg_options picture; /* its callers is an option of the view too */
    /* recording */
    enum bn_record_kind kind;
    int sampler; /* enum bn_record_tier + 1; 0: the first that works */
    double frequency;
    int unwind; /* auto, fp */
    bool no_inline, allow_empty;
    struct bn_flamegraph_workload work;
    struct {
        size_t vs;
        bool same_work, strict;
        double fail_above, level;
    } diff;
    bool check; /* bricks */
};

/* --tags, --root, --measured, --callers  --merge-inlined: which view of stacks a command
 * takes. */
extern const struct bn_option bn_flamegraph_view_options[];
/* --output: where a command's result goes. */
extern const struct bn_option bn_flamegraph_output_option[];

#define BN_FLAMEGRAPH_MAX_BYTES ((size_t)1 << 30) /* of a result */

/* Reads files in any format and appends their runs. "-" is standard input. */
BN_MUST_CHECK bn_status bn_flamegraph_read(bn_stacks **out, const char *const *paths, size_t n,
                                           bn_error *err);
/* The sorted view of these stacks that the options select. Without --tags, tags are left out; but stacks of
 * tags alone keep them, and a picture of several threads keeps the threads. BN_ERR_NOT_FOUND when no stack
 * has the function that --root names. */
BN_MUST_CHECK bn_status bn_flamegraph_view(bn_stacks **out, const bn_stacks *stacks,
                                           const struct bn_args *args, bool picture, bn_error *err);
/* Reads the command's operands, or standard input. */
BN_MUST_CHECK bn_status bn_flamegraph_read_operands(bn_stacks **out, const struct bn_args *args,
                                                    bn_error *err);
/* The same, and makes the view. */
BN_MUST_CHECK bn_status bn_flamegraph_open(bn_stacks **out, const struct bn_args *args, bool picture,
                                           bn_error *err);
/* A usage error when the ending of --output names another format than the one that is written. Folded text
 * may be named .txt, and all formats in JSON .json. */
BN_MUST_CHECK bn_status bn_flamegraph_check_name(const struct bn_args *args, enum bn_stacks_format written,
                                                 bn_error *err);
/* A usage error when --callers is given with a format that lists self times: inverted stacks end in the
 * outermost caller, which has none. */
BN_MUST_CHECK bn_status bn_flamegraph_check_callers(const struct bn_args *args, enum bn_stacks_format written,
                                                    bn_error *err);

/* ---- tables and pictures ---- */

/* --title, --width, --palette, ...: how a picture looks. */
extern const struct bn_option bn_flamegraph_picture_options[];
/* Stacks in a format or, of a view, the picture. A title that the options lack comes from about. */
BN_MUST_CHECK bn_status bn_flamegraph_write(struct bn_buf *out, enum bn_stacks_format format,
                                            const bn_stacks *stacks, struct bn_svg_options options,
                                            bn_error *err);
/* What was recorded, in one line: model, prompt and tokens, or the command of a program. */
void bn_flamegraph_put_title(struct bn_buf *out, const bn_json *about);
/* The table of functions or the tree of a view, as text, or, when document is not NULL, there: bn.hotspots/1. */
BN_MUST_CHECK bn_status bn_flamegraph_list(struct bn_buf *out, bn_json *document, const bn_stacks *stacks,
                                           const struct bn_flamegraph_options *options, bn_error *err);

/* ---- recording ---- */

/* --output, --kind, --frequency, --sampler, --unwind, --runs, --duration, ... */
extern const struct bn_option bn_flamegraph_record_options[];
/* What to record and how to find names, from the options. */
void bn_flamegraph_read_sampler(struct bn_record_options *options, struct bn_symbols_options *symbols,
                                const struct bn_flamegraph_options *o);
/* Describes what other processes used since then, in "others", and warns when it disturbed. */
void bn_flamegraph_put_others(bn_json *about, const struct bn_busy *then);
/* What a reader must know of that; "" when the machine was idle or it is not known. */
#define BN_FLAMEGRAPH_OTHERS_ROOM 160u
void bn_flamegraph_describe_others(char out[BN_FLAMEGRAPH_OTHERS_ROOM], const bn_json *about);
/* Prints warnings about samplers that were refused and samples that were lost. */
void bn_flamegraph_warn(const struct bn_delivery *delivery);
/* What is recorded when no program is named: model, prompt, tokens, threads, seed, level. */
extern const struct bn_option bn_flamegraph_workload_options[];

/* Turns the samples of a recording into stacks, of which how says the run. quality is added to. */
BN_MUST_CHECK bn_status bn_flamegraph_resolve(bn_stacks *out, bn_recording *recording,
                                              const struct bn_symbols_options *symbols,
                                              const struct bn_resolve_options *how,
                                              struct bn_stack_quality *quality, bn_error *err);
/* Puts when, where and with which program it was recorded. */
void bn_flamegraph_put_origin(bn_json *about);

/* Everything that a page says of the stacks is in their about (docs/reference/bench.md); they have what was measured too. */
BN_MUST_CHECK bn_status bn_flamegraph_record_model(bn_stacks **out, const struct bn_args *args,
                                                   bn_error *err);

/* ---- the commands, and the options that only one has ---- */

extern const struct bn_option bn_flamegraph_text_options[], bn_flamegraph_export_options[],
    bn_flamegraph_diff_options[], bn_flamegraph_bricks_options[];
bn_status bn_flamegraph_record(struct bn_args *args, bn_error *err);
bn_status bn_flamegraph_convert(struct bn_args *args, bn_error *err); /* render, fold, export */
bn_status bn_flamegraph_text(struct bn_args *args, bn_error *err);
bn_status bn_flamegraph_diff(struct bn_args *args, bn_error *err);
bn_status bn_flamegraph_bricks(struct bn_args *args, bn_error *err);
extern const struct bn_option bn_flamegraph_doctor_options[];
bn_status bn_flamegraph_doctor(struct bn_args *args, bn_error *err);

#endif
