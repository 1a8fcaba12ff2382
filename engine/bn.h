/* SPDX-License-Identifier: MIT
 *
 * bn.h - the public interface of libbn: open a ternary (1.58-bit, BitNet) language model, turn text into
 * tokens, generate text, or evaluate tokens and read the logits.
 *
 *     bn_error err = {0};
 *     bn_model *model = NULL;
 *     bn_session *session = NULL;
 *     bn_status status = bn_model_open(&model, "model.gguf", NULL, &err);
 *     if (status == BN_OK) status = bn_session_open(&session, model, NULL, &err);
 *     if (status == BN_OK) status = bn_generate(session, bn_model_tokenizer(model), &generation, &err);
 *     if (status != BN_OK) fprintf(stderr, "%s\n", err.msg);
 *     bn_session_close(session);
 *     bn_model_close(model);
 *
 * A whole program is examples/generate.c. After `make install` it is built by
 *
 *     cc generate.c $(pkg-config --cflags --libs bn) -o generate
 *
 * Promises: the library never prints, exits or aborts on input. Every function that can fail returns a
 * bn_status and takes a bn_error last, which may be NULL; the first error set is kept. Handles are released
 * by their _close function, which accepts NULL; a returned pointer to const is borrowed and lives as long as
 * its parent. A model is immutable, but for bn_model_repack, and may be used by several threads; a session by
 * one at a time. The same tokens give the same logits, bit for bit, on every instruction set, with any number
 * of threads and however the tokens are split into calls (docs/explain/numerics.md).
 *
 * State of the process, apart from handles: the chosen instruction set and what the processor can do, each
 * written once, and counters of memory, which are atomic. The library sets no signal handler, no locale, and no
 * allocator of another library.
 */
#ifndef BN_H
#define BN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default) /* exactly what this header declares is exported by libbn.so */
#endif

#if defined(__GNUC__)
#define BN_MUST_CHECK __attribute__((warn_unused_result))
#define BN_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define BN_MUST_CHECK
#define BN_PRINTF(fmt, first)
#endif

/* ---- Status, errors, exit codes ---- */

typedef enum bn_status {
    BN_OK = 0,
    BN_ERR_ARG,         /* the caller's argument is out of range */
    BN_ERR_NOT_FOUND,   /* no such file, model, revision */
    BN_ERR_FORMAT,      /* malformed input */
    BN_ERR_LIMIT,       /* well formed, but over a documented limit */
    BN_ERR_UNSUPPORTED, /* valid, but not something this build or this machine can do */
    BN_ERR_MISMATCH,    /* a comparison came out negative */
    BN_ERR_INTEGRITY,   /* a digest or a signature does not hold */
    BN_ERR_NETWORK,
    BN_ERR_AUTH,
    BN_ERR_IO,
    BN_ERR_NOMEM,
    BN_ERR_CANCELLED, /* a callback asked to stop */
    BN_ERR_INTERNAL,
    BN_STATUS_COUNT
} bn_status;

/* The exit codes of every program, the same in all of them. */
typedef enum bn_exit {
    BN_EXIT_OK = 0,
    BN_EXIT_NEGATIVE = 1, /* mismatch, divergence, regression, refused, or a gate that had no data */
    BN_EXIT_USAGE = 2,
    BN_EXIT_NOT_FOUND = 3,
    BN_EXIT_FORMAT = 4,
    BN_EXIT_INTEGRITY = 5,
    BN_EXIT_NETWORK = 6,
    BN_EXIT_AUTH = 7,
    BN_EXIT_IO = 8,
    BN_EXIT_UNSUPPORTED = 9,
    BN_EXIT_INTERNAL = 10
} bn_exit;

#define BN_NO_OFFSET UINT64_MAX

/* Where and why something failed. Allocated by the caller, zeroed before use; nothing in it is on the heap.
 */
typedef struct bn_error {
    bn_status code;
    int sys_errno;   /* errno of a system call that failed, else 0 */
    uint64_t offset; /* byte offset in the input, BN_NO_OFFSET when there is none */
    char where[96];  /* the object: file, tensor or key, with control characters escaped */
    char msg[256];   /* one line, lower case, no full stop */
    char hint[160];  /* how to fix it, empty when unknown */
} bn_error;

const char *bn_version(void);
const char *bn_status_name(bn_status status);
bn_exit bn_status_exit(bn_status status);

/* ---- Instruction sets ---- */

/* Chooses the kernels for everything opened afterwards: "auto", "ref", "avx2", "avxvnni", "avx512vnni",
 * "avx512vbmi", "amx", "neon". Called once, before models are opened; the environment variable BN_ISA is the
 * default. BN_ERR_UNSUPPORTED when this CPU lacks the set, or the operating system does not permit it: "auto" and
 * "amx" ask Linux for the tile registers, which this process keeps. */
BN_MUST_CHECK bn_status bn_isa_select(const char *name, bn_error *err);
/* The name of the chosen set. */
const char *bn_isa_name(void);
/* The i-th set that this CPU can run, slowest first, NULL past the end. */
const char *bn_isa_available(size_t i);

/* ---- Models ---- */

typedef struct bn_model bn_model;
typedef struct bn_tokenizer bn_tokenizer;

/* Copies of weights in memory that make single tokens faster, with the same bits: ternary weights in 1.6
 * bits, and a head in 8 bits that finds the few rows worth computing (docs/explain/performance.md). */
typedef enum bn_repack {
    BN_REPACK_NEVER,
    BN_REPACK_AUTO,  /* where it pays: the model is larger than the caches, the kernels are fast */
    BN_REPACK_ALWAYS /* wherever it is possible, for tests */
} bn_repack;

/* Called while a model is opened, on the calling thread: `done` of `total` steps of about the same size.
 * False cancels: opening fails with BN_ERR_CANCELLED. */
typedef bool (*bn_progress_fn)(void *user, uint32_t done, uint32_t total);

typedef struct bn_model_options {
    bn_repack repack;
    bool repack_later;       /* opening makes no copies; calls of bn_model_repack do */
    bool no_mmap;            /* read the file into memory instead of mapping it */
    bool no_weights;         /* keys and vocabulary only, as bn-run tokenize needs; evaluation is refused */
    bool skip_code_check;    /* do not scan the weights for the unused code 3 */
    bn_progress_fn progress; /* may be NULL */
    void *user;              /* handed to progress */
} bn_model_options;

typedef enum bn_activation { BN_ACTIVATION_RELU2, BN_ACTIVATION_SILU, BN_ACTIVATION_GELU } bn_activation;
typedef enum bn_rope { BN_ROPE_NEOX, BN_ROPE_NORM } bn_rope;

/* How hidden states become an embedding. */
typedef enum bn_pooling {
    BN_POOLING_FILE, /* as the model's file says */
    BN_POOLING_NONE, /* a vector for each token */
    BN_POOLING_MEAN, /* the mean over all tokens */
    BN_POOLING_FIRST,
    BN_POOLING_LAST
} bn_pooling;

/* YaRN scaling of positions (Peng et al., 2023): slow pairs turn `factor` times slower, fast ones as before. */
struct bn_yarn {
    float factor;               /* 0: the model has none */
    uint32_t n_ctx;             /* context before the scaling */
    float extrapolate;          /* share of fast pairs that is left alone, 1 as a rule */
    float magnitude;            /* multiplies cosine and sine, besides 1 + 0.1 ln factor */
    float beta_fast, beta_slow; /* turns in the context before: pairs above are fast, below slow */
};

/* Recurrent layers in place of attention (gated delta rule: Yang et al., 2024). They keep a state of a fixed size. */
struct bn_recurrence {
    uint32_t n_taps;   /* tokens that the convolution reads; 0: the model has no such layers */
    uint32_t head_dim; /* of keys and of values */
    uint32_t n_key_heads, n_value_heads; /* value head h reads key head h modulo n_key_heads */
    uint64_t layers[8];                  /* layer i is recurrent: bit i % 64 of layers[i / 64] */
};

/* Experts in place of one feed-forward part: a router chooses some of them for each token. */
struct bn_experts {
    uint32_t n, n_used; /* n is 0: the model has none */
    float limit;        /* the gate is at most this, and up is between this and its negative; INFINITY: any */
};

/* The hyper-parameters. Lengths are counts of elements. */
typedef struct bn_hparams {
    char arch[32];
    uint32_t n_vocab, n_ctx, n_embd, n_layer, n_head, n_head_kv;
    uint32_t n_ff;     /* of one expert, where the model has experts */
    uint32_t head_dim; /* n_embd / n_head unless the file says otherwise */
    uint32_t n_rot;    /* leading elements of a head that are rotated */
    float rms_eps;
    float rope_base;
    float rope_scale; /* positions are multiplied by it: 1 / the file's linear scaling factor */
    bn_activation activation;
    bn_rope rope;
    bool sub_norms;   /* attn_sub_norm and ffn_sub_norm are there */
    bool tied_head;   /* the head is the embedding matrix */
    bool head_norms;  /* attn_q_norm and attn_k_norm are there: every head of q and k is normalised */
    bool input_norms; /* attn_q_norm_in and so on are there: every linear layer has a norm of its inputs */
    bool post_norms;  /* post_attention_norm and post_ffw_norm are there: of what a half of a layer adds */
    struct bn_yarn yarn;
    float embd_scale;     /* multiplies rows of the embedding; 1 as a rule, as the next two */
    float residual_scale; /* multiplies what a half of a layer adds */
    float logit_scale;    /* multiplies logits */
    float attn_scale;     /* multiplies dot products of queries and keys: 1 / sqrt(head_dim) as a rule */
    uint32_t window; /* positions that a local layer attends to, its own included; 0: no layer is local */
    uint64_t local_layers[8]; /* with a window, layer i is local: bit i % 64 of local_layers[i / 64] */
    float local_rope_base;    /* of local layers, without scaling */
    bool rope_is_local;       /* only local layers rotate */
    bool
        gated_heads; /* attn_q has a gate for each element of a head; its sigmoid multiplies what comes out */
    struct bn_recurrence recurrence;
    struct bn_experts experts;
    bn_pooling pooling; /* how the file makes one vector of a text; BN_POOLING_FILE: it does not say */
} bn_hparams;

/* Opens a GGUF file. options may be NULL. On failure *out is NULL. */
BN_MUST_CHECK bn_status bn_model_open(bn_model **out, const char *path, const bn_model_options *options,
                                      bn_error *err);
/* The same from memory, which is borrowed, 64-byte aligned, and outlives the model; name is for messages. */
BN_MUST_CHECK bn_status bn_model_open_memory(bn_model **out, const void *data, size_t n_bytes,
                                             const char *name, const bn_model_options *options,
                                             bn_error *err);
void bn_model_close(bn_model *model);
/* After opening with repack_later: makes a part of the copies, on all cores. They are complete after 16 calls or
 * fewer; false when nothing is left to do. Call it after each token that was generated: then the first one does not
 * wait for copies. No session of the model may evaluate meanwhile. When memory is short, a copy is not made. */
bool bn_model_repack(bn_model *model);

const bn_hparams *bn_model_hparams(const bn_model *model);
/* Bytes of the state of recurrent layers of one sequence; 0: the model has none. */
uint64_t bn_model_state_bytes(const bn_model *model);
/* NULL when the file has no vocabulary. */
const bn_tokenizer *bn_model_tokenizer(const bn_model *model);

/* ---- Tokens ---- */

enum {
    BN_TOKENIZE_BOS = 1, /* add begin-of-sequence and end-of-sequence where the model's file asks for them */
    BN_TOKENIZE_SPECIAL = 2, /* text that spells a special token becomes that token */
};

/* Encodes n_bytes of text (any bytes, at most 2^30; UTF-8 is not required). Without BN_TOKENIZE_SPECIAL no
 * text becomes a control token. Decoding gives the same bytes again. *ids is allocated; release it with
 * bn_free. BN_ERR_UNSUPPORTED when a byte of the text has no token, which no usual vocabulary lacks. */
BN_MUST_CHECK bn_status bn_tokenize(const bn_tokenizer *tok, const char *text, size_t n_bytes, unsigned flags,
                                    int32_t **ids, size_t *n_ids, bn_error *err);
/* Decodes ids into *text (allocated, NUL-terminated, released with bn_free; *n_bytes excludes the NUL).
 * Control tokens give no text unless special is set. BN_ERR_ARG for an id outside the vocabulary. */
BN_MUST_CHECK bn_status bn_detokenize(const bn_tokenizer *tok, const int32_t *ids, size_t n_ids, bool special,
                                      char **text, size_t *n_bytes, bn_error *err);
/* The bytes of one token (borrowed, not NUL-terminated); 0 bytes for an id outside the vocabulary. */
size_t bn_token_bytes(const bn_tokenizer *tok, int32_t id, const char **bytes);
size_t bn_tokenizer_n_vocab(const bn_tokenizer *tok);
int32_t bn_tokenizer_bos(const bn_tokenizer *tok); /* -1 when there is none */
int32_t bn_tokenizer_eos(const bn_tokenizer *tok);
bool bn_token_is_control(const bn_tokenizer *tok, int32_t id);
/* True for tokens that end a generation: eos, and <|eot_id|> and its like. */
bool bn_token_is_end(const bn_tokenizer *tok, int32_t id);
/* The id of the token with exactly these bytes, special ones first; -1 when there is none. */
int32_t bn_token_find(const bn_tokenizer *tok, const char *bytes, size_t n_bytes);

/* Streaming decode: bytes of tokens go in, whole code points come out; a code point that is cut at a token
 * border waits for the rest. Bytes that can never become UTF-8 pass through unchanged. */
typedef struct bn_utf8_stream {
    char pending[4];
    uint8_t n_pending;
} bn_utf8_stream;

/* Appends the bytes that are complete now to out (room for n_bytes + 3) and returns how many those are. */
size_t bn_utf8_stream_push(bn_utf8_stream *stream, const char *bytes, size_t n_bytes, char *out);
/* What is left at the end (room for 3). */
size_t bn_utf8_stream_flush(bn_utf8_stream *stream, char *out);

/* Chat templates, rendered by this library; a template in the file is only recognised, never executed. */
typedef enum bn_template {
    BN_TEMPLATE_AUTO,
    BN_TEMPLATE_RAW,
    BN_TEMPLATE_INSTRUCT,
    BN_TEMPLATE_LLAMA3_CHAT,
    BN_TEMPLATE_BITNET,
    BN_TEMPLATE_CHATML,
    BN_TEMPLATE_QWEN3, /* the model opens its think block itself */
    BN_TEMPLATE_QWEN3_NO_THINK,
    BN_TEMPLATE_QWEN35, /* the prompt opens the think block: an answer begins inside it */
    BN_TEMPLATE_QWEN35_NO_THINK,
    BN_TEMPLATE_FALCON3,
    BN_TEMPLATE_COUNT
} bn_template;

/* Whether the model writes a think block, <think>...</think>, before its answer. */
typedef enum bn_thinking {
    BN_THINKING_NONE, /* the template has no such choice */
    BN_THINKING_OFF,
    BN_THINKING_ON
} bn_thinking;

typedef struct bn_message {
    const char *role; /* "system", "user", "assistant" */
    const char *content;
} bn_message;

/* BN_TEMPLATE_AUTO for "auto" and so on; false for an unknown name. */
bool bn_template_from_name(const char *name, bn_template *out);
const char *bn_template_name(bn_template tmpl);
/* What auto means for this vocabulary. */
bn_template bn_template_resolve(bn_template tmpl, const bn_tokenizer *tok);
bn_thinking bn_template_thinking(bn_template tmpl);
/* The same template with thinking on or off; tmpl itself where it has no such choice. */
bn_template bn_template_set_thinking(bn_template tmpl, bool on);
/* The prompt for an answer to the last message, which is the user's (under raw: anybody's), as ids; *ids is
 * allocated. Only the template's own marks become control tokens: what a message says stays text, whatever it
 * spells. The begin-of-sequence token comes first where the template or the file asks for it. White space
 * around contents is dropped where the family's template drops it, and think blocks are dropped from earlier
 * answers. BN_ERR_UNSUPPORTED when the vocabulary lacks a mark, BN_ERR_ARG for roles other than these three. */
BN_MUST_CHECK bn_status bn_template_encode(bn_template tmpl, const bn_tokenizer *tok,
                                           const bn_message *messages, size_t n_messages, int32_t **ids,
                                           size_t *n_ids, bn_error *err);
/* The same prompt as text, for people and for digests; *text is allocated and NUL-terminated. BN_ERR_ARG for
 * auto, which bn_template_resolve turns into one of the others. */
BN_MUST_CHECK bn_status bn_template_render(bn_template tmpl, const bn_message *messages, size_t n_messages,
                                           char **text, size_t *n_bytes, bn_error *err);
/* The i-th text at which generation ends under this template, NULL past the end. */
const char *bn_template_stop(bn_template tmpl, size_t i);

/* ---- Sessions: evaluating a timeline of tokens ---- */

typedef struct bn_session bn_session;

typedef struct bn_session_options {
    uint32_t n_ctx;     /* most tokens in the timeline; 0: the model's, at most 4096 */
    uint32_t n_batch;   /* most tokens evaluated together, of all sequences; 0: 128, at most n_ctx */
    uint32_t n_threads; /* 0, or more than there are cores that this process may use: one per core */
    /* Every evaluation runs on all n_threads, even when other processes take their cores or there are fewer
     * cores: for tests and measurements. Otherwise it runs on fewer while cores are taken, which is faster
     * then. The results are the same bits. */
    bool exact_threads;
    /* Memory for snapshots of recurrent layers, whose state cannot be shortened (bn_sequence_mark), of all sequences.
     * 0: six times bn_model_state_bytes. Less than one snapshot: none. Without recurrent layers none is taken. */
    uint64_t snapshot_bytes;
} bn_session_options;

typedef enum bn_logits {
    BN_LOGITS_NONE,
    BN_LOGITS_LAST, /* n_vocab floats: after the last token */
    BN_LOGITS_ALL   /* n_tokens x n_vocab floats, row i after token i */
} bn_logits;

/* All memory that evaluation needs is taken here; bn_session_eval allocates nothing. The model outlives it.
 */
BN_MUST_CHECK bn_status bn_session_open(bn_session **out, const bn_model *model,
                                        const bn_session_options *options, bn_error *err);
void bn_session_close(bn_session *session);
/* Appends tokens to the timeline. BN_ERR_ARG for an id outside the vocabulary, BN_ERR_LIMIT when the context
 * is full; then the timeline is as it was. */
BN_MUST_CHECK bn_status bn_session_eval(bn_session *session, const int32_t *tokens, size_t n_tokens,
                                        bn_logits which, float *logits, bn_error *err);
/* The same as BN_LOGITS_LAST for callers that look at the best n_best logits only: those are right to the
 * bit, and so is every other that is not -INFINITY. Faster when the model was opened with BN_REPACK_AUTO. */
BN_MUST_CHECK bn_status bn_session_eval_best(bn_session *session, const int32_t *tokens, size_t n_tokens,
                                             size_t n_best, float *logits, bn_error *err);
typedef struct bn_embed_options {
    bn_pooling pooling; /* 0: as the model's file says */
    bool as_is;         /* vectors keep their length; else each is divided by it */
} bn_embed_options;
/* Evaluates one text as the whole timeline and writes its embedding: n_embd floats of length 1, or
 * n_tokens times n_embd under BN_POOLING_NONE. The head is not computed. The timeline holds the text afterwards;
 * under BN_POOLING_LAST the next text is evaluated from where it differs. options may be NULL. The bits depend on
 * neither the batches nor the number of threads: means and lengths are sums in binary64 in the order of positions
 * and of elements. BN_ERR_UNSUPPORTED when neither the options nor the file name a pooling; otherwise the errors of
 * bn_session_eval. */
BN_MUST_CHECK bn_status bn_session_embed(bn_session *session, const int32_t *tokens, size_t n_tokens,
                                         const bn_embed_options *options, float *out, bn_error *err);
/* Called before each batch of n_batch tokens; true cancels: the evaluation fails with BN_ERR_CANCELLED, and
 * the timeline is as it was. NULL turns it off. */
typedef bool (*bn_cancel_fn)(void *user);
void bn_session_set_cancel(bn_session *session, bn_cancel_fn fn, void *user);
/* Tokens in the timeline. */
uint32_t bn_session_position(const bn_session *session);
uint32_t bn_session_n_ctx(const bn_session *session);
uint32_t bn_session_n_batch(const bn_session *session);
/* Threads that evaluations run on at most; fewer than asked for when the system refused some. */
uint32_t bn_session_n_threads(const bn_session *session);
/* Shortens the timeline to its first n_tokens; 0 starts afresh. With recurrent layers the tokens after the snapshot before
 * this place are evaluated again, with the errors of an evaluation; then the timeline may be shorter. */
BN_MUST_CHECK bn_status bn_session_truncate(bn_session *session, uint32_t n_tokens, bn_error *err);
/* Shortens the timeline to the longest beginning that it shares with these tokens, and returns its length. With recurrent
 * layers it is that of the snapshot before. Give a prompt without its last token, which is evaluated for the logits
 * after it. */
uint32_t bn_session_keep(bn_session *session, const int32_t *tokens, size_t n_tokens);
/* The longest beginning of at most n_tokens that is known: n_tokens, or with recurrent layers the length of a snapshot. */
uint32_t bn_session_known(const bn_session *session, uint32_t n_tokens);
/* Writes the first n_tokens of the timeline with their keys and values to a file (docs/reference/files.md),
 * atomically. The first call of a session reads the whole model to compute a checksum. BN_ERR_ARG for more tokens
 * than the timeline has, or none; BN_ERR_UNSUPPORTED when the state of recurrent layers after them is not known. */
BN_MUST_CHECK bn_status bn_session_save(bn_session *session, uint32_t n_tokens, const char *path,
                                        bn_error *err);
/* Sets the timeline to the longest beginning of these tokens that the file or the timeline itself holds; *n_kept is
 * its length. Evaluating what follows gives the same bits as evaluating all of them. On failure the timeline is as it
 * was: BN_ERR_NOT_FOUND for a file that does not exist or is empty, BN_ERR_MISMATCH for another model's,
 * BN_ERR_FORMAT, BN_ERR_INTEGRITY (damaged), BN_ERR_UNSUPPORTED (of another version). */
BN_MUST_CHECK bn_status bn_session_load(bn_session *session, const char *path, const int32_t *tokens,
                                        size_t n_tokens, uint32_t *n_kept, bn_error *err);
/* Bytes of such a file for each token. */
uint64_t bn_session_token_bytes(const bn_session *session);
/* The last evaluated position's hidden state after the final norm: n_embd floats, NULL before the first. */
const float *bn_session_hidden(const bn_session *session);

/* ---- Sequences: several timelines in one session ---- */

/* A timeline with a KV cache of its own. A session has one (bn_session_sequence), which the functions above use; more
 * are opened for it. One pass evaluates tokens of many of them and reads the weights once. Each gets the bits that it
 * would get alone. */
typedef struct bn_sequence bn_sequence;

/* An empty timeline for this session; n_ctx: most tokens, at most the session's; 0: the session's. Closed by the caller,
 * and not used after the session was closed. */
BN_MUST_CHECK bn_status bn_sequence_open(bn_sequence **out, bn_session *session, uint32_t n_ctx,
                                         bn_error *err);
void bn_sequence_close(bn_sequence *sequence);
/* The session's own, which is closed with it. */
bn_sequence *bn_session_sequence(bn_session *session);
/* Tokens in the timeline, and the most that it may have. */
uint32_t bn_sequence_position(const bn_sequence *sequence);
uint32_t bn_sequence_n_ctx(const bn_sequence *sequence);
/* As bn_session_truncate. */
BN_MUST_CHECK bn_status bn_sequence_truncate(bn_sequence *sequence, uint32_t n_tokens, bn_error *err);
/* How many tokens at the beginning it has in common with these. */
uint32_t bn_sequence_shared(const bn_sequence *sequence, const int32_t *tokens, size_t n_tokens);
/* Shortens it to those; as bn_session_keep. */
uint32_t bn_sequence_keep(bn_sequence *sequence, const int32_t *tokens, size_t n_tokens);
/* As bn_session_known. */
uint32_t bn_sequence_known(const bn_sequence *sequence, uint32_t n_tokens);
/* Asks for a snapshot of recurrent layers after n_tokens: at once when the timeline has this length, otherwise when an
 * evaluation reaches it. Call it for places where the timeline may be shortened later. Generations do this at the ends of messages and of the prompt, and
 * prompts every 256 tokens. When the memory for snapshots is full, those are dropped that save little. */
void bn_sequence_mark(bn_sequence *sequence, uint32_t n_tokens);

/* As bn_sequence_keep, and what another sequence of the same session has in addition is copied from it. */
uint32_t bn_sequence_share(const bn_session *session, bn_sequence *to, const bn_sequence *from,
                           const int32_t *tokens, size_t n_tokens);

/* Tokens that follow those of one sequence. */
typedef struct bn_batch_part {
    bn_sequence *sequence;
    const int32_t *tokens;
    size_t n_tokens; /* at least 1 */
    bn_logits which; /* rows of logits that are wanted */
} bn_batch_part;

/* Evaluates the parts in one pass; together they have at most n_batch tokens, and no sequence occurs twice. logits has
 * n_vocab floats for each row wanted, in the order of the parts; NULL: only hidden states are made. n_best as in
 * bn_session_eval_best, 0: all logits. After an error the timelines are as they were. */
BN_MUST_CHECK bn_status bn_session_eval_batch(bn_session *session, const bn_batch_part *parts, size_t n_parts,
                                              size_t n_best, float *logits, bn_error *err);
/* The hidden state after the final norm of row i of those wanted; NULL past the last one. */
const float *bn_session_hidden_row(const bn_session *session, size_t i);

/* What one kernel did since the session was opened: counted where it was called, never derived. */
typedef struct bn_kernel_stat {
    const char *name; /* the function that ran, e.g. "i2s_gemv_avx512vnni" */
    uint64_t calls;   /* operations dispatched to it */
    uint64_t ns;      /* time that the first thread spent in it */
    uint64_t bytes;   /* weight and cache bytes that all threads read through it */
    uint64_t ops;     /* multiply-adds, or elements for kernels that have none */
} bn_kernel_stat;

/* The i-th kernel that was called at least once; false past the end. */
bool bn_session_kernel_stat(const bn_session *session, size_t i, bn_kernel_stat *out);

/* How bn_session_eval_best, and passes with n_best, computed their logits since the session was opened. */
typedef struct bn_screen_stat {
    uint64_t screened; /* passes whose head was screened */
    uint64_t full;     /* passes whose head was computed row by row */
    uint64_t heads;    /* rows of logits of the screened passes */
    uint64_t rows;     /* head rows that screening left to be computed, or that were computed again */
    uint64_t
        again; /* calls that computed the rows a grammar allows, since none of the best ones was allowed */
} bn_screen_stat;

bn_screen_stat bn_session_screen_stat(const bn_session *session);

/* What passes of a session were. */
typedef struct bn_work {
    uint64_t passes;         /* over the model */
    uint64_t single;         /* of one token */
    uint64_t tokens;         /* that were evaluated */
    uint64_t head_passes;    /* that ended in the head */
    uint64_t heads;          /* rows of logits */
    uint64_t attended;       /* pairs of a token and one that it attends to, in a layer */
    uint64_t attended_local; /* the same in a local layer; 0 without such layers */
    uint64_t experts;        /* that a pass read, over all layers and passes; 0 without experts */
} bn_work;

/* What ranks exchanged while they evaluated. */
typedef struct bn_rank_stat {
    uint32_t ranks;     /* 0: the model is not divided */
    uint64_t exchanges; /* in which each rank gets what the others computed */
    uint64_t bytes;     /* that each rank has after them: its own piece and those of the others */
    uint64_t ns;        /* that the first rank spent in them, waiting included */
} bn_rank_stat;

/* One intermediate tensor, shown to a trace callback while it is alive: rows x cols floats. */
typedef struct bn_trace_record {
    const char *op;    /* "embd", "attn_norm", "q", ..., "logits" */
    int32_t layer;     /* -1 outside the layers */
    uint32_t position; /* of the first row in the timeline */
    size_t rows, cols;
    const float *data;
} bn_trace_record;

typedef void (*bn_trace_fn)(void *user, const bn_trace_record *record);
/* Calls fn for every intermediate of every evaluation; NULL turns it off. */
void bn_session_set_trace(bn_session *session, bn_trace_fn fn, void *user);

/* Nanoseconds that the last bn_session_eval spent, by phase; their sum is less than total. */
typedef struct bn_eval_timing {
    uint64_t embed_ns, layers_ns, head_ns, total_ns;
} bn_eval_timing;
bn_eval_timing bn_session_timing(const bn_session *session);

/* ---- Sampling ---- */

typedef struct bn_sampler bn_sampler;

typedef struct bn_sampler_options {
    float temperature;    /* 0: greedy: the best logit, the lowest id on ties; the rest is not used */
    uint32_t top_k;       /* 0: off */
    float top_p;          /* 1: off; 0: the best one */
    float min_p;          /* 0: off */
    float repeat_penalty; /* 1: off */
    uint32_t repeat_last; /* tokens looked back at; 0: 64 */
    uint64_t seed;
} bn_sampler_options;

#define BN_SAMPLER_OPTIONS_INIT           \
    {                                     \
        0.0f, 0, 1.0f, 0.0f, 1.0f, 64, 42 \
    }

BN_MUST_CHECK bn_status bn_sampler_open(bn_sampler **out, const bn_sampler_options *options, size_t n_vocab,
                                        bn_error *err);
void bn_sampler_close(bn_sampler *sampler);
/* How many of the best logits bn_sampler_next looks at; SIZE_MAX: all of them. */
size_t bn_sampler_reach(const bn_sampler *sampler);
/* Chooses the next token from n_vocab logits (left unchanged) and the last n_recent tokens. */
int32_t bn_sampler_next(bn_sampler *sampler, const float *logits, const int32_t *recent, size_t n_recent);

/* ---- Grammars: output of a given form ---- */

/* What a generation may say. Immutable: any number of generations may share one, and each of them applies it to its own
 * text. The logits of tokens that cannot come next are minus infinity before the sampler's penalty, temperature, top-k,
 * top-p and min-p; the chain and log-probabilities are those of all tokens. Limits: docs/howto/constrain-output.md. */
typedef struct bn_grammar bn_grammar;

/* From GBNF, llama.cpp's notation; its rule "root" is the whole text. BN_ERR_FORMAT names the line and the reason, or a
 * rule that begins with itself or repeats nothing; BN_ERR_LIMIT: it is too large. */
BN_MUST_CHECK bn_status bn_grammar_open_gbnf(bn_grammar **out, const char *text, size_t n_bytes,
                                             bn_error *err);
/* From a JSON Schema: JSON text that is valid under it, on one line. {"type": "object"} is any object.
 * BN_ERR_UNSUPPORTED names a keyword that is not supported and its place. */
BN_MUST_CHECK bn_status bn_grammar_open_json_schema(bn_grammar **out, const char *schema, size_t n_bytes,
                                                    bn_error *err);
void bn_grammar_close(bn_grammar *grammar);

/* ---- Generation ---- */

typedef enum bn_stop_reason {
    BN_STOP_LENGTH,  /* n_predict tokens were generated */
    BN_STOP_ID,      /* a token of stop_ids */
    BN_STOP_END,     /* the vocabulary's end of generation */
    BN_STOP_STRING,  /* one of stops appeared in the text */
    BN_STOP_CONTEXT, /* the timeline is full */
    BN_STOP_CALLER,  /* on_token returned false */
    BN_STOP_GRAMMAR, /* the text is complete: the grammar permits no more */
    BN_STOP_STUCK, /* no token of the vocabulary continues the text under the grammar, or a limit was reached */
    BN_STOP_REASON_COUNT
} bn_stop_reason;
/* "length", "stop_id", "end", "stop", "context", "cancelled", "grammar", "stuck". */
const char *bn_stop_reason_name(bn_stop_reason reason);

/* Nanoseconds that one generated token took, by phase. */
typedef struct bn_step_timing {
    uint64_t embed_ns, forward_ns, head_ns, sample_ns;
} bn_step_timing;

/* A token and its logit. */
typedef struct bn_candidate {
    int32_t id;
    float logit;
} bn_candidate;

/* Called for each token with the text that it completed: whole code points, without stop texts; it may be
 * empty. False stops the generation. */
typedef bool (*bn_token_fn)(void *user, int32_t id, const char *text, size_t n_bytes);

/* Speculation: tokens are drafted, and one pass evaluates several of them. Tokens, chain and all bits are those without
 * it, also with sampling. */
typedef enum bn_draft_kind {
    BN_DRAFT_NONE,
    BN_DRAFT_NGRAM, /* what followed the last few tokens where they occurred before */
    BN_DRAFT_MODEL, /* what a smaller model would choose */
    BN_DRAFT_GIVEN  /* an answer that the caller expects, such as the one of a receipt */
} bn_draft_kind;

typedef struct bn_draft_options {
    bn_draft_kind kind;
    /* BN_DRAFT_MODEL: of a model with the same vocabulary, for this generation alone. It follows the text, so it is
     * best kept from one generation to the next of a conversation. */
    bn_session *session;
    uint32_t most; /* longest draft, at most 64; 0: 16 */
    bool always;   /* for tests: draft even while drafts are measured to cost more time than they save */
    const int32_t *given; /* BN_DRAFT_GIVEN: the answer; borrowed. Several such generations share passes */
    size_t n_given;
} bn_draft_options;

typedef struct bn_draft_stat {
    uint64_t passes;   /* with drafts */
    uint64_t drafted;  /* tokens */
    uint64_t accepted; /* of them, those that the sampler chose */
} bn_draft_stat;

/* One generation: what is asked, and what was generated. Zeroed, it asks for a greedy one; a prompt and
 * n_predict are needed. */
typedef struct bn_generation {
    /* What is asked; borrowed. */
    const int32_t *prompt; /* at least one token */
    size_t n_prompt;
    size_t n_cached;    /* first tokens of the prompt that the timeline already ends with; below n_prompt */
    uint32_t n_predict; /* most tokens to generate, 1 to 2^24 */
    uint32_t n_ctx;     /* most tokens of the timeline; 0, or more than the sequence has room for: its room */
    bn_sampler_options sampling;
    const int32_t *stop_ids;
    size_t n_stop_ids;
    const char *const *stops; /* texts */
    size_t n_stops;
    const bn_grammar *grammar; /* NULL: any text */
    bool ignore_end;           /* end-of-generation tokens do not stop */
    bool want_chain;           /* compute chain, which receipts hold */
    bool want_logprobs;        /* compute logprobs; every logit is then computed */
    uint32_t n_top;            /* keep that many of the best tokens of each step in top, at most 1000 */
    bn_token_fn on_token;      /* may be NULL */
    void *user;                /* handed to on_token */
    bn_draft_options draft;

    /* What was generated; released by bn_generation_release. */
    int32_t *ids;          /* n_ids tokens, the one that stopped the generation included */
    uint64_t *token_ns;    /* n_ids wall times; the first one includes the prompt's evaluation */
    bn_step_timing *steps; /* n_ids */
    bn_candidate *top; /* n_ids times n_top, best first, ties by id; -1 for the id where there are fewer */
    double
        *logprobs; /* n_ids: logarithms of their probabilities at temperature 1; NULL unless want_logprobs */
    double
        *log_sums; /* n_ids: a token with this logit had the log-probability logit - log_sum; NULL likewise */
    size_t n_ids;
    bn_stop_reason reason;
    bn_status stuck;       /* of BN_STOP_STUCK: BN_OK: no token; BN_ERR_LIMIT, BN_ERR_NOMEM: the grammar */
    uint64_t grammar_cost; /* work on the grammar, in tokens of about the same time */
    uint64_t prefill_ns;   /* evaluating the prompt */
    uint64_t decode_ns;    /* from then to the last token */
    uint64_t total_ns;     /* of the whole call */
    char chain[65];        /* sha256 over all steps in hexadecimal; empty unless want_chain */

    /* What the session did meanwhile, for this generation and for others in the same passes. */
    uint32_t n_before;   /* tokens that the timeline had before the prompt */
    uint32_t n_together; /* most generations in one pass */
    bn_work work;
    bn_screen_stat screen;
    bn_draft_stat drafts;
    bn_rank_stat ranks;
    bn_kernel_stat *kernels; /* n_kernels that were called, in the order of bn_session_kernel_stat */
    size_t n_kernels;
} bn_generation;

/* Evaluates the prompt, or what follows its n_cached first tokens, after what the session's timeline already
 * holds, then chooses and evaluates tokens until something stops it. Tokens and chain do not depend on n_cached.
 * tok may be NULL: then there is no text, and only ids and lengths stop. A full context is the reason
 * BN_STOP_CONTEXT, not an error, unless the prompt alone is too long (BN_ERR_LIMIT). After an error there is
 * nothing to release. */
BN_MUST_CHECK bn_status bn_generate(bn_session *session, const bn_tokenizer *tok, bn_generation *generation,
                                    bn_error *err);
void bn_generation_release(bn_generation *generation);

/* ---- Several generations at once ---- */

/* Runs generations side by side, each on a sequence of its own: every pass over the model advances all of them. Each
 * gives the tokens, the logits and the chain that it would give alone. */
typedef struct bn_scheduler bn_scheduler;

/* For at most `most` generations at a time, 1 to the session's n_batch. The session, which nothing else uses meanwhile,
 * and tok, which may be NULL, outlive it. */
BN_MUST_CHECK bn_status bn_scheduler_open(bn_scheduler **out, bn_session *session, const bn_tokenizer *tok,
                                          uint32_t most, bn_error *err);
/* Ends what still runs and releases its results. */
void bn_scheduler_close(bn_scheduler *scheduler);
/* Starts a generation after what the sequence holds; both stay the caller's and live until bn_scheduler_take returns
 * the generation. BN_ERR_LIMIT when there are too many already, and the errors of bn_generate. */
BN_MUST_CHECK bn_status bn_scheduler_add(bn_scheduler *scheduler, bn_sequence *sequence,
                                         bn_generation *generation, bn_error *err);
/* Generations that were added and not taken. */
size_t bn_scheduler_n_running(const bn_scheduler *scheduler);
/* Limits the pieces of prompts, so that a pass with them takes at most this many times as long as one without, by the
 * times that were measured; 0, as at the beginning: pieces fill the batch. The results are the same. Passes in which no
 * generation has evaluated its prompt are not limited. */
void bn_scheduler_set_slowdown(bn_scheduler *scheduler, double slowdown);
/* One pass: a token for each generation that has evaluated its prompt, and pieces of the other prompts and of the text
 * that is embedded. A generation whose grammar takes much work sits out passes, so a pass may evaluate nothing. An error is
 * one of the model or a cancelled session: then all generations have failed. */
BN_MUST_CHECK bn_status bn_scheduler_step(bn_scheduler *scheduler, bn_error *err);
/* An embedding that a scheduler evaluates next to generations, in their passes. */
typedef struct bn_embedding bn_embedding;

/* Prepares to evaluate one text as the whole timeline of a sequence of its own. The results and the errors are those of
 * bn_session_embed. The tokens, the sequence and the vector, which gets the result, outlive it. */
BN_MUST_CHECK bn_status bn_embedding_open(bn_embedding **out, bn_session *session, bn_sequence *sequence,
                                          const int32_t *tokens, size_t n_tokens,
                                          const bn_embed_options *options, float *vector, bn_error *err);
void bn_embedding_close(bn_embedding *embedding);
/* The passes that follow evaluate this embedding too, in pieces as those of prompts; NULL: none any more. It belongs to
 * the caller. */
void bn_scheduler_embed(bn_scheduler *scheduler, bn_embedding *embedding);
/* Whether it has been evaluated; false when there is none. */
bool bn_scheduler_has_embedded(const bn_scheduler *scheduler);
/* Ends a generation with the reason BN_STOP_CALLER, also while its prompt is evaluated. It keeps its tokens, and
 * bn_scheduler_take returns it. A generation that has ended is left as it is. Do not call this from on_token, which returns
 * false instead. */
void bn_scheduler_cancel(bn_scheduler *scheduler, const bn_generation *generation);
/* A generation that has ended, which the scheduler forgets; NULL: none has. */
bn_generation *bn_scheduler_take(bn_scheduler *scheduler);

/* ---- Memory that the library hands out ---- */

/* Releases what a function of this header allocated; NULL is accepted. */
void bn_free(void *p);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
