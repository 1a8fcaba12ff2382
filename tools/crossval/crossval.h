/* SPDX-License-Identifier: MIT
 *
 * What the commands of bn-crossval share: this engine's side, the references, and one struct that holds all
 * that was found, from which text, JSON and JUnit are written.
 */
#ifndef BN_CROSSVAL_H
#define BN_CROSSVAL_H

#include "base/json.h"
#include "lab/compare/bisect.h"
#include "lab/compare/reference.h"
#include "tools/cli/options.h"

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
const char *bn_xstate_name(enum bn_xstate state);

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
    double nll_ours, nll_theirs, bound;
};

struct bn_xref {
    const char *given;  /* as on the command line */
    const char *folder; /* of dump:DIR, else NULL */
    char *command;      /* what the shell was given, allocated; NULL: nothing was started */
    const char *model;  /* the file that it was told to open, borrowed; NULL: none */
    struct bn_reference *process;
    struct bn_reference_info info;
    struct bn_thresholds limits; /* for a reference of its name */
    bool started, broken;
    bn_error failure;     /* why it is broken */
    char last_words[600]; /* of its standard error then */
    float *logits;        /* n_rows x n_vocab, of the prompt and what was decoded */
    size_t n_rows;
    struct bn_metrics *rows; /* of each position of the prompt */
    struct bn_xrung rungs[BN_RUNG_COUNT];
    struct bn_bisection trace;
    enum bn_xstate traced;
    char trace_reason[400];
    size_t n_traced; /* tokens */
};

/* What two or more references say of each other. */
struct bn_xthree {
    size_t n;                    /* participants: this engine is 0, then the references */
    size_t of[BN_XREFS_MAX + 1]; /* index into refs + 1 */
    double distance[BN_XREFS_MAX + 1][BN_XREFS_MAX + 1]; /* mean nrmse */
    bool agree[BN_XREFS_MAX + 1][BN_XREFS_MAX + 1];
    bool all_agree, has_odd;
    size_t odd; /* participant */
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
    const char *thresholds, *junit, *html, *receipt, *trace, *output;
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
    bool keep_refs; /* they go on running after a comparison, for the next prompt */
    struct bn_xthree three;
};

/* open.c: options, model, prompt, thresholds; nothing is evaluated yet. bn_crossval_close in any case. */
BN_MUST_CHECK bn_status bn_crossval_open(struct bn_crossval *x, const struct bn_args *args, bn_error *err);
void bn_crossval_close(struct bn_crossval *x);
/* The same without a prompt: nothing can be evaluated here. */
BN_MUST_CHECK bn_status bn_crossval_open_model(struct bn_crossval *x, const struct bn_args *args,
                                               bn_error *err);
/* Sets the prompt of a model that is open: n_bytes of text, or, when text is NULL, n ids. */
BN_MUST_CHECK bn_status bn_crossval_set_prompt(struct bn_crossval *x, const char *text, size_t n_bytes,
                                               const int32_t *ids, size_t n, bn_error *err);
/* Releases the prompt and all results; the model stays open. References end, unless they are kept and work. */
void bn_crossval_reset(struct bn_crossval *x);
/* Logits of the prompt, then the steps. */
BN_MUST_CHECK bn_status bn_crossval_evaluate(struct bn_crossval *x, bn_error *err);
/* This engine's trace of the first n tokens, unless it is there. */
BN_MUST_CHECK bn_status bn_crossval_trace_own(struct bn_crossval *x, size_t n, bn_error *err);

/* refs.c. A failure of a reference is noted in it (bn_xref_failed) and is not an error of this program: these return an
 * error for what is our own, such as memory. */
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
const char *bn_xref_label(const struct bn_xref *ref);
/* Its logits of the first n ids, n x n_vocab, allocated. */
BN_MUST_CHECK bn_status bn_xref_logits(struct bn_crossval *x, struct bn_xref *ref, size_t n, float **logits,
                                       bn_error *err);
BN_MUST_CHECK bn_status bn_xref_trace(struct bn_crossval *x, struct bn_xref *ref, size_t n,
                                      struct bn_records *records, bn_error *err);

/* rungs.c: each fills one rung of the reference, and trace its bisection. */
BN_MUST_CHECK bn_status bn_xrung_tokens(struct bn_crossval *x, struct bn_xref *ref, bn_error *err);
BN_MUST_CHECK bn_status bn_xrung_first(struct bn_crossval *x, struct bn_xref *ref, bn_error *err);
BN_MUST_CHECK bn_status bn_xrung_positions(struct bn_crossval *x, struct bn_xref *ref, bn_error *err);
void bn_xrung_decode(struct bn_crossval *x, struct bn_xref *ref);
void bn_xrung_likelihood(struct bn_crossval *x, struct bn_xref *ref);
BN_MUST_CHECK bn_status bn_xrung_mask(struct bn_crossval *x, struct bn_xref *ref, bn_error *err);
BN_MUST_CHECK bn_status bn_xrung_trace(struct bn_crossval *x, struct bn_xref *ref, size_t n, bool exact,
                                       bn_error *err);
/* Passes a failed rung "first" when a trace of that position shows that an activation was rounded to another integer
 * and that every operation is within its bound. The limits for any reference must hold. */
BN_MUST_CHECK bn_status bn_xrung_explain(struct bn_crossval *x, struct bn_xref *ref, bn_error *err);
/* ladder.c: all rungs against all references. */
BN_MUST_CHECK bn_status bn_crossval_compare(struct bn_crossval *x, bn_error *err);
const char *bn_crossval_participant(const struct bn_crossval *x, size_t participant);

/* The worst of what was found: 0 all compared and alike; 1 something differs, failed, or nothing was
 * compared; or the code of why no reference could be asked at all. */
int bn_crossval_exit(const struct bn_crossval *x);
/* The first rung that failed; BN_RUNG_COUNT for none. */
enum bn_rung bn_xref_parted(const struct bn_xref *ref);
size_t bn_xref_compared(const struct bn_xref *ref);

/* print.c, document.c, scatter.c, junit.c, html.c */
void bn_crossval_print(const struct bn_crossval *x);
/* document.c: "agree", "differ", "failed" or "no_data". */
const char *bn_xref_result(const struct bn_xref *ref);
/* A document with what every one begins with: command, model, engine, machine. */
bn_json *bn_crossval_document(const struct bn_crossval *x, const char *schema, const char *command);
/* All that was found; the document of --json, from which the report is made. */
#define BN_CROSSVAL_SCHEMA "bn.crossval/1"
bn_json *bn_crossval_results(const struct bn_crossval *x, const char *command);
void bn_crossval_put_scatter(const struct bn_crossval *x, const struct bn_xref *ref, bn_json *reference);
/* Writes the document as a page: the same page as of its text. */
BN_MUST_CHECK bn_status bn_crossval_write_html(const bn_json *results, const char *path, bn_error *err);
BN_MUST_CHECK bn_status bn_crossval_write_junit(const struct bn_crossval *x, const char *path, bn_error *err);
/* The block that a receipt carries; docs/reference/receipt.md. */
void bn_crossval_put_parity(const struct bn_crossval *x, bn_json *object);
/* receipt.c: puts that block into a receipt. BN_ERR_INTEGRITY for one that was edited, BN_ERR_MISMATCH for
 * one of another model or prompt. */
BN_MUST_CHECK bn_status bn_crossval_add_to_receipt(const struct bn_crossval *x, const char *path,
                                                   bn_error *err);

/* ---- the page ---- */

/* page.c: "ok", "bad" or "skip" for a state of a result: "pass", "differ", "no_data", ... */
const char *bn_crossval_kind(const char *state);
/* page_ref.c: the section of one reference, the index-th. */
void bn_crossval_put_reference(struct bn_buf *out, const bn_json *ref, size_t index);
/* plots.c, plots_trace.c: each appends nothing where the document has no data for it. */
void bn_crossval_plot_positions(struct bn_buf *out, const bn_json *ref);
void bn_crossval_plot_scatter(struct bn_buf *out, const bn_json *ref);
void bn_crossval_plot_layers(struct bn_buf *out, const bn_json *ref);
void bn_crossval_plot_path(struct bn_buf *out, const bn_json *ref);

/* The commands. */
bn_status bn_crossval_ladder(struct bn_args *args, bn_error *err);
bn_status bn_crossval_tokens(struct bn_args *args, bn_error *err);
bn_status bn_crossval_logits(struct bn_args *args, bn_error *err);
bn_status bn_crossval_trace(struct bn_args *args, bn_error *err);
bn_status bn_crossval_report(struct bn_args *args, bn_error *err);
bn_status bn_crossval_bench(struct bn_args *args, bn_error *err);
bn_status bn_crossval_sweep(struct bn_args *args, bn_error *err);
bn_status bn_crossval_serve(struct bn_args *args, bn_error *err);

#endif
