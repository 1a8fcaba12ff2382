/* SPDX-License-Identifier: MIT
 *
 * What the commands of bn-run share: opening what the command line names, turning its prompt into tokens, and
 * the commands themselves, one file each.
 */
#ifndef BN_RUN_RUN_H
#define BN_RUN_RUN_H

#include "base/buf.h"
#include "base/digest.h"
#include "base/json.h"
#include "bn.h"
#include "gguf/gguf.h"
#include "lab/receipt/receipt.h"
#include "stamp/profiler.h"
#include "tools/cli/batch/lanes.h"
#include "tools/cli/default_model.h"
#include "tools/cli/options.h"
#include "tools/cli/text.h"

#define BN_RUN_SCHEMA "bn.run/1"         /* of all documents of bn-run */
#define BN_RUN_MAX_TEXT_BYTES (1u << 30) /* of a prompt or text file */

/* The options of all commands; each has some of them. */
struct bn_run_options {
    uint32_t n_threads, n_ctx, n_batch; /* 0: not given */
    uint64_t snapshot_bytes;            /* 0: not given */
    struct bn_cli_live live;
    const char *prompt_cache;
    bool cache_all, cache_ro;
    bn_draft_kind speculate; /* none or ngram */
    const char *draft_model;
    uint32_t draft_max; /* 0: not given */
    bool draft_always;
    const char *system, *template_name;
    enum bn_cli_think think;
    struct bn_id_list tokens;
    uint32_t n_predict; /* UINT32_MAX: no limit; 0 (chat): not given */
    bn_sampler_options sampling;
    /* generate */
    struct bn_texts stops;
    struct bn_id_list stop_ids;
    bool ignore_end, receipt_text;
    bool assert_greedy, timing, kernels, strict;
    uint32_t n_top;
    const char *receipt, *profile;
    const char *grammar, *json_schema; /* files, or the text itself */
    const char *batch_file, *receipts; /* --batch-file: its input; the folder for receipts, also of chat */
    uint32_t n_sequences;              /* 0: not given */
    bool logprobs;
    int profile_level; /* layer, brick, kernel */
    bool no_history;   /* chat */
    /* generate, logits */
    const char *trace;
    /* tokenize, detokenize */
    bool ids, jsonl, no_bos, special;
    /* score, logits, inspect */
    bool per_token, all, digest, judge;
    const char *output;
    /* embed */
    int pooling; /* bn_pooling */
    const char *instruct, *raw;
    bool similarity, no_normalize;
};

/* A model, a session on it, and how long opening took. */
struct bn_run_engine {
    bn_model *model;
    bn_session *session;
    bn_model *draft_model; /* NULL: none is asked for */
    bn_session *draft;
    struct bn_live *live; /* NULL without --live */
    uint64_t load_ns;
    bool answering; /* the first token is there: Ctrl-C ends the answer by on_token, not the evaluation */
};

/* --model, --isa, then --threads, --ctx, --batch. The copies of BN_REPACK_AUTO, which commands that generate make, are
 * left to bn_model_repack. Under mpirun the other ranks open theirs meanwhile. */
/* What the sandbox permits besides the files of options. */
struct bn_sandbox_rules;
void bn_run_allow(struct bn_sandbox_rules *rules, const struct bn_args *args);
BN_MUST_CHECK bn_status bn_run_open(struct bn_run_engine *engine, const struct bn_args *args, bn_error *err);
/* What these do. */
bn_status bn_run_follow(struct bn_args *args, bn_error *err);
/* For options that need all rows in one process: BN_ERR_UNSUPPORTED with ranks. */
BN_MUST_CHECK bn_status bn_run_need_all(const char *option, bn_error *err);
void bn_run_close(struct bn_run_engine *engine);

/* --template and --think. BN_ERR_ARG when thinking is asked of a template that has none. */
BN_MUST_CHECK bn_status bn_run_template(bn_template *out, const struct bn_args *args, const bn_tokenizer *tok,
                                        bn_error *err);

/* Tokens from --tokens, else from the text, wrapped by --template where the command has one. trim: a text
 * from a file or from standard input loses one final newline, so that it gives what -p gives. */
struct bn_run_prompt {
    struct bn_prompt own;
    bn_template tmpl;
    uint64_t tokenize_ns; /* template and tokenizer; 0: tokens were given */
};
/* bn_cli_text_check; and a text that is the name of a model is refused where no model is given. */
BN_MUST_CHECK bn_status bn_run_check_text(struct bn_args *args, const struct bn_id_list *ids, bn_error *err);
BN_MUST_CHECK bn_status bn_run_prompt(struct bn_run_prompt *prompt, const struct bn_args *args,
                                      const bn_model *model, bool trim, bn_error *err);
/* The text becomes --system and that text under a template, and gets its tokens. */
BN_MUST_CHECK bn_status bn_run_render(struct bn_prompt *prompt, const struct bn_args *args, bn_template tmpl,
                                      const bn_tokenizer *tok, bn_error *err);
/* The stop texts of a generation: those of a request, else those given; then those of the template. *out is the list,
 * which the caller frees. */
BN_MUST_CHECK bn_status bn_run_stops(const char ***out, bn_generation *gen, const struct bn_texts *given,
                                     const bn_json *stop, bn_template tmpl, bn_error *err);

/* Makes a folder that does not exist, and reports when no file can be written in it. */
BN_MUST_CHECK bn_status bn_run_make_folder(const char *path, bn_error *err);

/* --prompt-cache, --prompt-cache-all, --prompt-cache-ro: whether they fit together; */
BN_MUST_CHECK bn_status bn_run_cache_check(const struct bn_args *args, bn_error *err);
/* the session gets the longest beginning of a prompt that the file has, *n_cached tokens; */
BN_MUST_CHECK bn_status bn_run_cache_load(const struct bn_args *args, bn_session *session, const int32_t *ids,
                                          size_t n_ids, size_t *n_cached, bn_error *err);
/* and the first n_tokens of the timeline go to the file, unless they are those that it has. */
BN_MUST_CHECK bn_status bn_run_cache_save(const struct bn_args *args, bn_session *session, size_t n_tokens,
                                          size_t n_cached, bn_error *err);

/* --speculate, --draft, --draft-max, --draft-always: what a generation is to do; */
bn_draft_options bn_run_draft(const struct bn_args *args, const struct bn_run_engine *engine);
/* and a note about what it did. */
void bn_run_note_drafts(const struct bn_generation *gen, unsigned level);

/* --grammar, --json-schema: NULL in *out when neither is given; the caller closes it. */
BN_MUST_CHECK bn_status bn_run_grammar(bn_grammar **out, const struct bn_args *args, bn_error *err);

/* --temp, --top-k, --top-p, --min-p, the penalties, --logit-bias, --seed. */
bn_sampler_options bn_run_sampling(const struct bn_args *args);

/* n_predict, or as many tokens as the context can hold at most: then the context ends the generation. */
uint32_t bn_run_at_most(uint32_t n_predict, const bn_session *session);

/* Notes on standard error: with -v the model, the session and the sampling; with -vv also the kernels, after a run. */
void bn_run_note_model(const struct bn_args *args, const bn_model *model);
void bn_run_note_sampling(bn_template tmpl, const bn_sampler_options *sampling);
void bn_run_note_kernels(const bn_session *session);

/* --kernels: which kernels ran for which tensor, and how often. Released by bn_free(list). */
struct bn_run_dispatch {
    struct bn_run_dispatched {
        const void *weights; /* a bn_linear, or the bn_matrix of head or embedding */
        enum bn_kernel kernel;
        uint64_t calls;
    } * list;
    size_t n, at; /* at: of the last call; the next one is mostly the one after it */
    bool failed;  /* memory was short */
};
void bn_run_count_dispatch(void *dispatch, const void *weights, enum bn_kernel kernel);
void bn_run_print_dispatch(const struct bn_run_dispatch *dispatch, const bn_session *session);

/* With ranks: what a token exchanged, and how long that took. */
void bn_run_note_ranks(const struct bn_generation *gen);

/* "prompt 3 tokens at 310.4 tok/s, then 1 token": a rate needs two tokens. Returns out. */
#define BN_RUN_RATES 128u
const char *bn_run_rates(char out[BN_RUN_RATES], const struct bn_generation *gen);
/* Tokens per second. */
double bn_run_rate(size_t n, uint64_t ns);

/* Prints generated text at once. A signal that is caught meanwhile loses nothing of it. */
void bn_run_print(const char *text, size_t n);

/* The same for one answer, piece by piece: on a terminal with colours its think block is dimmed. wrap: on a terminal a
 * word that passes the edge begins a new line. */
struct bn_run_answer {
    enum bn_run_place { BN_RUN_BEFORE_THOUGHTS, BN_RUN_IN_THOUGHTS, BN_RUN_AFTER_THOUGHTS } place;
    size_t n_seen;    /* characters of the tag that changes the place */
    size_t columns;   /* of the terminal; 0: nothing is wrapped */
    size_t at, start; /* columns of the line so far, and before its last word */
    char word[256];   /* that one, n_word bytes */
    size_t n_word;
};
void bn_run_answer_start(struct bn_run_answer *answer, bn_template tmpl, bool wrap);
void bn_run_answer_print(struct bn_run_answer *answer, const char *text, size_t n);
void bn_run_answer_end(struct bn_run_answer *answer);

/* Writes every intermediate of a session into a folder, one file per layer and operation: L<layer>.<op>.f32,
 * or G.<op>.f32 outside the layers; raw little-endian binary32 rows in the order of positions. */
struct bn_run_trace {
    char folder[4096];
    bn_error err; /* the first failure */
    uint64_t n_records;
};
BN_MUST_CHECK bn_status bn_run_trace_start(struct bn_run_trace *trace, bn_session *session,
                                           const char *folder, bn_error *err);
/* Says whether everything was written. */
BN_MUST_CHECK bn_status bn_run_trace_finish(struct bn_run_trace *trace, bn_session *session, bn_error *err);

/* --profile, --profile-level: attaches a profile to the session, and starts its wall time. *out is closed by
 * bn_prof_close, after the session. */
BN_MUST_CHECK bn_status bn_run_profile_start(bn_prof **out, const struct bn_args *args,
                                             const struct bn_run_engine *engine,
                                             const struct bn_generation *gen, bn_error *err);
/* Writes the document of a finalized one; warns when it does not pass its gate. */
BN_MUST_CHECK bn_status bn_run_profile_write(bn_prof *prof, const char *path, const struct bn_args *args,
                                             const struct bn_run_engine *engine,
                                             const struct bn_generation *gen, bn_error *err);

/* generate with --batch-file, batch.c. */
bn_status bn_run_batch(struct bn_args *args, bn_error *err);

/* What the documents of answers have in common: tokens and why they ended; and their times. */
void bn_run_put_answer(bn_json *o, const struct bn_generation *gen);
void bn_run_put_times(bn_json *o, const struct bn_generation *gen);
/* The receipt of a generation from this prompt. facts NULL: they are read for it. */
struct bn_receipt_input bn_run_receipt(const struct bn_args *args, const struct bn_run_engine *engine,
                                       const struct bn_generation *gen, const struct bn_prompt *prompt,
                                       bn_template tmpl, struct bn_receipt_facts *facts);

/* The next line of a text, whose line feed becomes a NUL; false at the end. */
bool bn_run_next_line(struct bn_buf *text, size_t *at, char **line, size_t *n);
/* An error of this line, "line 3: ..."; returns the status. */
bn_status bn_run_at_line(size_t number, bn_status status, bn_error *err);
/* A line that is a JSON string: *text is in *value, which the caller frees. */
BN_MUST_CHECK bn_status bn_run_line_text(bn_json **value, const char **text, const char *line, size_t n,
                                         bn_error *err);

/* What is in some rows of a tensor. */
enum bn_run_figure {
    BN_RUN_INVALID, /* not finite; scales below 0, or 0 for weights that are not; codes that the type lacks */
    BN_RUN_ZEROS,   /* the share of zeros */
    BN_RUN_PLUS,    /* of the others, the share of positive ones */
    BN_RUN_SIZE,    /* the scale, of groups their median; of floats the root mean square */
    BN_RUN_SPREAD,  /* the largest scale of a group in terms of the median */
    BN_RUN_EQUAL,   /* most weights one after the other that are all -1, or all +1, in whole blocks */
    BN_RUN_FIGURES
};
struct bn_run_stats {
    uint64_t codes[4]; /* -1, 0, +1, +2; of floats: negative, zero, positive */
    uint64_t n_invalid, n_equal, n_zero_rows;
    double size, spread, min, max; /* NaN: there is none */
};
BN_MUST_CHECK bn_status bn_run_read_stats(struct bn_run_stats *out, const struct bn_gguf_tensor *t,
                                          uint64_t first_row, uint64_t n_rows, bn_error *err);
/* inspect --judge: reads all tensors, and prints those that look damaged; the exit code is then BN_EXIT_NEGATIVE. */
BN_MUST_CHECK bn_status bn_run_judge(bn_json *doc, const struct bn_gguf *gguf, struct bn_args *args,
                                     bn_error *err);

/* The commands. */
bn_status bn_run_generate(struct bn_args *args, bn_error *err);
bn_status bn_run_chat(struct bn_args *args, bn_error *err);
bn_status bn_run_tokenize(struct bn_args *args, bn_error *err);
bn_status bn_run_detokenize(struct bn_args *args, bn_error *err);
bn_status bn_run_score(struct bn_args *args, bn_error *err);
bn_status bn_run_logits(struct bn_args *args, bn_error *err);
bn_status bn_run_embed(struct bn_args *args, bn_error *err);
bn_status bn_run_inspect(struct bn_args *args, bn_error *err);
bn_status bn_run_devices(struct bn_args *args, bn_error *err);

#endif
