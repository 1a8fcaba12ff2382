/* SPDX-License-Identifier: MIT
 *
 * What the commands of bn-crossval share: this engine's side, the references, and one struct that holds all
 * that was found. It becomes a document, which is printed, or drawn as text.
 */
#ifndef BN_CROSSVAL_H
#define BN_CROSSVAL_H

#include <linux/limits.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "lab/compare/reference.h"
#include "lab/compare/trace.h"
#include "tools/cli/options.h"
#include "tools/cli/report.h"

#define BN_XREFS_MAX 8u

/* crossval/thresholds.json, carried by the program. */
extern const char bn_default_thresholds[];
extern const uint64_t bn_default_thresholds_bytes;

enum bn_xstate {
    BN_X_NONE, /* not asked for */
    BN_X_PASS,
    BN_X_FAIL,
    BN_X_SKIP, /* the reference cannot, and the reason is said */
    BN_X_ERROR /* the reference failed */
};

/* One rung of the ladder against one reference. */
struct bn_xrung {
    enum bn_xstate state;
    char reason[400];  /* of anything but a pass; of a pass beyond limits: what explains it */
    char hint[300];    /* likely causes */
    size_t n_compared; /* values, tokens; 0 is never a pass */
    struct bn_metrics_sum sum;
    struct bn_threshold_verdict verdicts[BN_VERDICTS_MAX];
    size_t n_verdicts;
    /* tokens: the reference's ids (owned), where they part, the texts around it */
    int32_t *ids;
    size_t n_ids, at;
    char ours[160], theirs[160];
    /* decode */
    size_t n_steps, n_agree, n_tied;
    /* likelihood: mean negative log likelihoods */
    double nll_ours, nll_theirs;
};

/* The comparison of traces, which is judged like a rung. */
#define BN_XTRACE BN_RUNG_COUNT

struct bn_xref {
    const char *given; /* as on the command line */
    char *command;     /* what the shell was given, allocated; NULL: nothing was started */
    const char *model; /* the file of --ref-model, borrowed; NULL: this engine's */
    struct bn_reference *process;
    struct bn_reference_info info;
    struct bn_thresholds limits; /* for a reference of its name */
    bool started, broken;
    bn_error failure;     /* why it is broken */
    char last_words[600]; /* of its standard error then */
    float *logits;        /* n_rows x n_vocab, of the prompt and what was decoded */
    size_t n_rows;
    struct bn_metrics *rows; /* of each position of the prompt */
    struct bn_xrung rungs[BN_XTRACE + 1];
    struct bn_bisection trace;
    size_t n_traced; /* tokens that are compared in a trace */
};

#define BN_CROSSVAL_MAX_REPS 1000u

/* The options of all commands; each has some of them. */
struct bn_crossval_options {
    struct bn_texts refs, ref_models;
    uint64_t timeout_s;
    struct bn_id_list tokens;
    uint32_t positions, n_threads, n_batch; /* 0: not given */
    uint32_t n_prompt, n_decode, n_reps;
    double fail_below; /* 0: not given */
    bool exact;
    const char *thresholds, *receipt, *trace;
    const char *prompts, *record;
    struct bn_list seeds;
};

struct bn_crossval {
    const struct bn_args *args;
    const struct bn_crossval_options *options; /* of args */
    bn_model *model;
    bn_session *session;
    const char *model_path; /* what references open */
    char *located;          /* the file that --model names; NULL without */
    char carried[4096];     /* the carried model as a file, removed at the end; else "" */
    char model_sha[BN_SHA256_HEX], prompt_sha[BN_SHA256_HEX]; /* of the file's bytes; of the prompt's ids */
    struct bn_buf text; /* the prompt as text; data NULL when ids were given */
    int32_t *ids;       /* the prompt, then what was decoded */
    size_t n_prompt, n_ids;
    uint32_t n_decode; /* steps asked for */
    bool sampled;      /* the steps are sampled with this seed; else they are greedy */
    uint32_t seed;
    uint32_t n_threads; /* of this engine, and asked of references */
    float *logits;      /* of this engine: n_ids x n_vocab */
    size_t n_vocab;
    bool mask_checked;       /* this engine's own mask was, and */
    size_t leak;             /* the first row that later tokens changed; n_prompt: none */
    struct bn_records trace; /* of this engine, of n_traced tokens */
    size_t n_traced;
    struct bn_buf limits;            /* the document of thresholds */
    struct bn_thresholds thresholds; /* for any reference */
    char thresholds_sha[BN_SHA256_HEX];
    struct bn_xref refs[BN_XREFS_MAX];
    size_t n_refs;
};

/* open.c: options, model, prompt, thresholds; nothing is evaluated yet. bn_crossval_close in any case. */
BN_MUST_CHECK bn_status bn_crossval_open(struct bn_crossval *x, const struct bn_args *args, bn_error *err);
void bn_crossval_close(struct bn_crossval *x);
/* The same without a prompt: nothing can be evaluated here. */
BN_MUST_CHECK bn_status bn_crossval_open_model(struct bn_crossval *x, const struct bn_args *args,
                                               bn_error *err);
/* Sets the prompt of a model that is open: n ids, or, when ids is NULL, those of the text in x->text. */
BN_MUST_CHECK bn_status bn_crossval_set_prompt(struct bn_crossval *x, const int32_t *ids, size_t n,
                                               bn_error *err);
/* Releases the prompt and all results; the model stays open, and references that work go on running. */
void bn_crossval_reset(struct bn_crossval *x);
/* Logits of the prompt, then the steps. */
BN_MUST_CHECK bn_status bn_crossval_evaluate(struct bn_crossval *x, bn_error *err);
/* This engine's trace of the first n tokens, unless it is there. */
BN_MUST_CHECK bn_status bn_crossval_trace_own(struct bn_crossval *x, size_t n, bn_error *err);

/* refs.c. A failure of a reference is noted in it (bn_xref_failed) and is not an error of this program: these return an
 * error for what is our own, such as memory. */
/* The references that the options name, which are then in x->refs. */
BN_MUST_CHECK bn_status bn_xrefs_take(struct bn_crossval *x, bn_error *err);
BN_MUST_CHECK bn_status bn_xref_start(struct bn_crossval *x, struct bn_xref *ref, bn_error *err);
/* Notes what status and err say, as the reference's failure. */
void bn_xref_failed(struct bn_xref *ref, const bn_error *why);
/* What the status of a call means: a reference's own failure is noted and forgiven, ours is passed on. */
BN_MUST_CHECK bn_status bn_xref_note(struct bn_xref *ref, bn_status status, const bn_error *why,
                                     bn_error *err);
/* Asks it to end; a failure there is one. */
void bn_xref_finish(struct bn_xref *ref);
void bn_xref_end(struct bn_xref *ref);
/* Releases its results. A process that works goes on running, and bn_xref_start uses it again. */
void bn_xref_reset(struct bn_xref *ref);
/* rungs.c: climbs one rung, or compares traces (BN_XTRACE) of n_traced tokens. */
BN_MUST_CHECK bn_status bn_xref_climb(struct bn_crossval *x, struct bn_xref *ref, unsigned which,
                                      bn_error *err);
/* Passes a failed rung "first" when a trace of that position shows that an activation was rounded to another integer
 * and that every operation is within its bound. The limits for any reference must hold. */
BN_MUST_CHECK bn_status bn_xref_explain(struct bn_crossval *x, struct bn_xref *ref, bn_error *err);
/* ladder.c: a set of rungs, as bits, against all references; keep: they go on running after it. */
#define BN_XRUNGS ((1u << BN_RUNG_COUNT) - 1)
BN_MUST_CHECK bn_status bn_crossval_compare(struct bn_crossval *x, unsigned rungs, bool keep, bn_error *err);

/* The worst of what was found: 0 all compared and alike; 1 something differs, failed, or nothing was
 * compared; or the code of why no reference could be asked at all. */
int bn_crossval_exit(const struct bn_crossval *x);
/* The first rung that failed; BN_RUNG_COUNT for none. */
enum bn_rung bn_xref_parted(const struct bn_xref *ref);
size_t bn_xref_compared(const struct bn_xref *ref);

#define BN_CROSSVAL_SCHEMA "bn.crossval/1"
/* A document with what every one begins with: command, model, engine, machine. */
bn_json *bn_crossval_document(const struct bn_crossval *x);
/* Adds the results of a reference; brief: without limits, operations and positions. */
void bn_crossval_put_reference(bn_json *list, const struct bn_crossval *x, const struct bn_xref *ref,
                               bool brief);
/* All that was found; the document of --json. */
bn_json *bn_crossval_results(const struct bn_crossval *x);
/* view.c: that document as text on standard output. */
BN_MUST_CHECK bn_status bn_crossval_print(const struct bn_args *args, const bn_json *doc, bn_error *err);
/* Appends what is wrong with a reference of a document; false when it agrees. */
bool bn_crossval_put_sentence(struct bn_buf *out, const bn_json *reference);
/* Puts the block of docs/reference/receipt.md into a receipt. BN_ERR_INTEGRITY for one that was edited, BN_ERR_MISMATCH for
 * one of another model or prompt. */
BN_MUST_CHECK bn_status bn_crossval_add_to_receipt(const struct bn_crossval *x, const char *path,
                                                   bn_error *err);

/* ---- store.c: references that were set up on this machine, in <cache>/bn/reference ----
 *
 * crossval/setup.sh writes them; here they are listed, found and checked. */

/* The bridge of the reference of this name that is ready; "" when there is none. BN_ERR_NOT_FOUND, BN_ERR_INTEGRITY:
 * it is not the one that passed the handshake. */
BN_MUST_CHECK bn_status bn_stored_find(char out[PATH_MAX], const char *name, bn_error *err);
/* A program next to this one, in crossval/ next to it (a build), or in libexec/bn (installed). */
bool bn_crossval_find_program(const char *program, char out[PATH_MAX]);

bn_status bn_crossval_script(struct bn_args *args, bn_error *err);
bn_status bn_crossval_refs(struct bn_args *args, bn_error *err);
extern const struct bn_option bn_crossval_doctor_options[];
bn_status bn_crossval_doctor(struct bn_args *args, bn_error *err);

/* The commands. */
bn_status bn_crossval_ladder(struct bn_args *args, bn_error *err); /* and tokens, logits, trace */
bn_status bn_crossval_bench(struct bn_args *args, bn_error *err);
bn_status bn_crossval_sweep(struct bn_args *args, bn_error *err);
bn_status bn_crossval_serve(struct bn_args *args, bn_error *err);

#endif
