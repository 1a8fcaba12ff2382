/* SPDX-License-Identifier: MIT
 *
 * bn.h - the public interface of libbn: open a ternary (1.58-bit, BitNet) language model, turn text into tokens,
 * generate text, make embeddings, or evaluate tokens and read the logits. Examples, in C and Python: examples/.
 *
 *     cc generate.c $(pkg-config --cflags --libs bn) -o generate
 *
 * Errors: the library never prints, exits or aborts on input. A function that can fail returns a bn_status and takes a
 * bn_error last, which may be NULL. The first error is kept.
 * Ownership: handles are released by their _close function, which accepts NULL. A returned pointer to const is borrowed
 * and lives as long as its parent. What a function hands out is released by bn_free.
 * Threads: a model is immutable, except in bn_model_repack, and several threads may use it. A session, with all that
 * belongs to it, is used by one thread at a time.
 * Bits: the same tokens give the same logits, bit for bit, on every instruction set, with any number of threads, and
 * however the tokens are split into calls (docs/explain/numerics.md).
 * Process: apart from handles, the library keeps the chosen instruction set, what the processor can do, and counters of
 * memory. It sets no signal handler, no locale, and no allocator of another library.
 * Versions: a structure that the caller allocates begins with its size: sizeof of it, or 0 for the members of version
 * 0.1. A larger size than the library knows is BN_ERR_ARG. bn_error, bn_message, bn_candidate, bn_batch_part and
 * bn_utf8_stream never change. What follows #ifdef BN_EXPERIMENTAL may change in each version.
 */
#ifndef BN_H
#define BN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of this header; bn_version() is that of the library. */
#define BN_VERSION_MAJOR 0
#define BN_VERSION_MINOR 1
#define BN_VERSION_PATCH 0
#define BN_VERSION (BN_VERSION_MAJOR * 10000 + BN_VERSION_MINOR * 100 + BN_VERSION_PATCH)

#if defined(BN_INTERNAL) && !defined(BN_EXPERIMENTAL) /* BN_INTERNAL: only in the repository of the library */
#define BN_EXPERIMENTAL
#endif
#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default) /* exactly what this header declares is exported by libbn.so */
#define BN_MUST_CHECK __attribute__((warn_unused_result))
#else
#define BN_MUST_CHECK
#endif

/* ---- Status and errors ---- */

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

#define BN_NO_OFFSET UINT64_MAX

/* Where and why something failed. Allocated by the caller and zeroed before use; nothing in it is on the heap. */
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
void bn_free(void *p); /* what a function of this header allocated, or NULL */

/* ---- Instruction sets ---- */

/* Chooses the kernels for everything opened afterwards: "auto", "ref", "avx2", "avxvnni", "avx512vnni", "avx512vbmi",
 * "amx", "neon". Called once, before models are opened; the environment variable BN_ISA is the default.
 * BN_ERR_UNSUPPORTED when the processor or the operating system lacks the set. "auto" and "amx" ask Linux for the tile
 * registers, which this process keeps. */
BN_MUST_CHECK bn_status bn_isa_select(const char *name, bn_error *err);
const char *bn_isa_name(void);
/* The i-th set that this machine can run, slowest first, NULL past the end. */
const char *bn_isa_available(size_t i);

/* ---- Models ---- */

typedef struct bn_model bn_model;
typedef struct bn_tokenizer bn_tokenizer;

/* Copies of weights that make single tokens faster, with the same bits (docs/explain/performance.md). */
typedef enum bn_repack {
    BN_REPACK_NEVER,
    BN_REPACK_AUTO,  /* where it pays: the model is larger than the caches, the kernels are fast */
    BN_REPACK_ALWAYS /* wherever it is possible, for tests */
} bn_repack;

/* Called while a model is opened, on the calling thread: `done` of `total` steps of about the same size. False cancels:
 * opening fails with BN_ERR_CANCELLED. */
typedef bool (*bn_progress_fn)(void *user, uint32_t done, uint32_t total);

typedef struct bn_model_options {
    size_t size;
    bn_repack repack;
    bool repack_later;       /* opening makes no copies; calls of bn_model_repack do */
    bool no_mmap;            /* read the file into memory instead of mapping it */
    bool no_weights;         /* keys and vocabulary only; evaluation is refused */
    bool skip_code_check;    /* do not scan the weights for the unused code 3 */
    bn_progress_fn progress; /* may be NULL */
    void *user;              /* passed to progress */
    const char *device; /* "opencl", "opencl:N", "auto": a GPU that is good enough; NULL, "cpu": the CPU */
} bn_model_options;

/* Opens a GGUF file. options may be NULL. On failure *out is NULL. */
BN_MUST_CHECK bn_status bn_model_open(bn_model **out, const char *path, const bn_model_options *options,
                                      bn_error *err);
/* The same from memory, which is borrowed, 64-byte aligned, and outlives the model; name is for messages. */
BN_MUST_CHECK bn_status bn_model_open_memory(bn_model **out, const void *data, size_t n_bytes,
                                             const char *name, const bn_model_options *options,
                                             bn_error *err);
void bn_model_close(bn_model *model);
/* After opening with repack_later: makes a part of the copies, on all cores; false when nothing is left to do. 16 calls
 * are enough. Call it after each generated token, so that the first one does not wait. No session of the model may
 * evaluate meanwhile. When memory is short, a copy is not made. */
bool bn_model_repack(bn_model *model);

/* The hyper-parameters; lengths are counts of elements. */
typedef enum bn_model_figure {
    BN_MODEL_N_VOCAB,
    BN_MODEL_N_CTX,
    BN_MODEL_N_EMBD,
    BN_MODEL_N_LAYER,
    BN_MODEL_N_HEAD,
    BN_MODEL_N_HEAD_KV,
    BN_MODEL_N_FF, /* of one expert, where the model has experts */
    BN_MODEL_HEAD_DIM,
    BN_MODEL_N_EXPERTS,   /* 0: none */
    BN_MODEL_STATE_BYTES, /* of the recurrent layers of one sequence; 0: none */
    BN_MODEL_POOLING      /* bn_pooling; BN_POOLING_FILE: the file names none */
} bn_model_figure;
uint64_t bn_model_get(const bn_model *model, bn_model_figure figure); /* 0 for an unknown figure */
const char *bn_model_arch(const bn_model *model);
const bn_tokenizer *bn_model_tokenizer(const bn_model *model); /* NULL: the file has no vocabulary */

/* ---- Tokens ---- */

enum {
    BN_TOKENIZE_BOS = 1, /* add begin-of-sequence and end-of-sequence where the model's file asks for them */
    BN_TOKENIZE_SPECIAL = 2, /* text that spells a special token becomes that token */
};

/* Encodes n_bytes of text: any bytes, at most 2^30. Without BN_TOKENIZE_SPECIAL no text becomes a control token. Decoding
 * gives the same bytes again. *ids is allocated. A byte without a token, which no usual vocabulary lacks, becomes the
 * unknown token; BN_ERR_UNSUPPORTED when there is none. */
BN_MUST_CHECK bn_status bn_tokenize(const bn_tokenizer *tok, const char *text, size_t n_bytes, unsigned flags,
                                    int32_t **ids, size_t *n_ids, bn_error *err);
/* Decodes ids into *text: allocated, with a NUL that *n_bytes excludes. Control tokens give no text unless special is
 * set. BN_ERR_ARG for an id outside the vocabulary. */
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

/* Streaming decode: bytes of tokens go in, whole code points come out; a code point that is cut at a token border waits
 * for the rest. Bytes that can never become UTF-8 pass through unchanged. */
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

/* Whether the model writes a think block, <think>...</think>, before its answer. NONE: the template has no choice. */
typedef enum bn_thinking { BN_THINKING_NONE, BN_THINKING_OFF, BN_THINKING_ON } bn_thinking;

typedef struct bn_message {
    const char *role; /* "system", "user", "assistant", "tool" */
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
/* The prompt for an answer to the last message, which is the user's (under raw: anybody's); *ids is allocated. Only the
 * template's own marks become control tokens: what a message says stays text. The begin-of-sequence token comes first
 * where the template or the file asks for it. BN_ERR_UNSUPPORTED when the vocabulary lacks a mark, BN_ERR_ARG for other
 * roles. */
BN_MUST_CHECK bn_status bn_template_encode(bn_template tmpl, const bn_tokenizer *tok,
                                           const bn_message *messages, size_t n_messages, int32_t **ids,
                                           size_t *n_ids, bn_error *err);
/* The same prompt as text, allocated and NUL-terminated. BN_ERR_ARG for auto, which bn_template_resolve resolves. */
BN_MUST_CHECK bn_status bn_template_render(bn_template tmpl, const bn_message *messages, size_t n_messages,
                                           char **text, size_t *n_bytes, bn_error *err);
/* The i-th text at which generation ends under this template, NULL past the end. */
const char *bn_template_stop(bn_template tmpl, size_t i);

/* ---- Sessions: evaluating a timeline of tokens ---- */

typedef struct bn_session bn_session;

typedef struct bn_session_options {
    size_t size;
    uint32_t n_ctx;     /* most tokens in the timeline; 0: the model's, at most 4096 */
    uint32_t n_batch;   /* most tokens evaluated together, of all sequences; 0: 128, at most n_ctx and 4096 */
    uint32_t n_threads; /* 0, or more than there are cores that this process may use: one per core */
    bool exact_threads; /* also while other processes take their cores: for tests and measurements */
    uint64_t snapshot_bytes; /* for the states of recurrent layers; 0: six times BN_MODEL_STATE_BYTES */
} bn_session_options;

typedef enum bn_logits {
    BN_LOGITS_NONE,
    BN_LOGITS_LAST, /* n_vocab floats: after the last token */
    BN_LOGITS_ALL   /* n_tokens x n_vocab floats, row i after token i */
} bn_logits;

/* Takes all memory that evaluation needs. The model outlives the session; options may be NULL. */
BN_MUST_CHECK bn_status bn_session_open(bn_session **out, const bn_model *model,
                                        const bn_session_options *options, bn_error *err);
void bn_session_close(bn_session *session);
/* Appends tokens to the timeline. BN_ERR_ARG for an id outside the vocabulary, BN_ERR_LIMIT when the context is full;
 * then the timeline is as it was. After another error, too, unless recurrent layers had no room for a snapshot. */
BN_MUST_CHECK bn_status bn_session_eval(bn_session *session, const int32_t *tokens, size_t n_tokens,
                                        bn_logits which, float *logits, bn_error *err);
/* As BN_LOGITS_LAST, for callers that use the best n_best logits only: those are right to the bit, and so is every other
 * that is not -INFINITY. Faster when the model was opened with BN_REPACK_AUTO. */
BN_MUST_CHECK bn_status bn_session_eval_best(bn_session *session, const int32_t *tokens, size_t n_tokens,
                                             size_t n_best, float *logits, bn_error *err);

/* How hidden states become an embedding. */
typedef enum bn_pooling {
    BN_POOLING_FILE, /* as the model's file says */
    BN_POOLING_NONE, /* a vector for each token */
    BN_POOLING_MEAN, /* the mean over all tokens */
    BN_POOLING_FIRST,
    BN_POOLING_LAST
} bn_pooling;

typedef struct bn_embed_options {
    size_t size;
    bn_pooling pooling;
    bool as_is; /* vectors keep their length; else each is divided by it */
} bn_embed_options;

/* Evaluates one text as the whole timeline and writes its embedding: n_embd floats, or n_tokens times n_embd under
 * BN_POOLING_NONE. The timeline holds the text afterwards; under BN_POOLING_LAST the next text is evaluated from where it
 * differs. options may be NULL. BN_ERR_UNSUPPORTED when neither the options nor the file name a pooling; otherwise the
 * errors of bn_session_eval. When the evaluation fails or is cancelled, the timeline is empty. */
BN_MUST_CHECK bn_status bn_session_embed(bn_session *session, const int32_t *tokens, size_t n_tokens,
                                         const bn_embed_options *options, float *out, bn_error *err);
/* Called before each batch of n_batch tokens; true cancels: the evaluation fails with BN_ERR_CANCELLED, and the timeline
 * is as bn_session_eval leaves it after an error. NULL turns it off. */
typedef bool (*bn_cancel_fn)(void *user);
void bn_session_set_cancel(bn_session *session, bn_cancel_fn fn, void *user);
uint32_t bn_session_position(const bn_session *session); /* tokens in the timeline */
uint32_t bn_session_n_ctx(const bn_session *session);
uint32_t bn_session_n_batch(const bn_session *session);
/* Fewer than requested when the system refused some. */
uint32_t bn_session_n_threads(const bn_session *session);
/* After the final norm at the last position: n_embd floats; NULL when the last call made no logits and no embedding. */
const float *bn_session_hidden(const bn_session *session);

/* Shortens the timeline to its first n_tokens; 0 starts afresh. Recurrent layers have snapshots only: the tokens after one
 * are evaluated again, and after an error of this the timeline may be shorter. */
BN_MUST_CHECK bn_status bn_session_truncate(bn_session *session, uint32_t n_tokens, bn_error *err);
/* Shortens the timeline to the longest known beginning that it shares with these tokens, and returns its length. Give a
 * prompt without its last token, which is evaluated for the logits after it. */
uint32_t bn_session_keep(bn_session *session, const int32_t *tokens, size_t n_tokens);
/* Writes the first n_tokens of the timeline with their keys and values to a file (docs/reference/files.md),
 * atomically. The first call of a session reads the whole model to compute a checksum. BN_ERR_ARG for more tokens than
 * the timeline has, or none; BN_ERR_UNSUPPORTED when the state of recurrent layers after them is not known. */
BN_MUST_CHECK bn_status bn_session_save(bn_session *session, uint32_t n_tokens, const char *path,
                                        bn_error *err);
/* Sets the timeline to the longest beginning of these tokens that the file or the timeline has; *n_kept is its length.
 * On failure the timeline is as it was: BN_ERR_NOT_FOUND for a file that does not exist or is empty, BN_ERR_MISMATCH for
 * another model's, BN_ERR_FORMAT, BN_ERR_INTEGRITY (damaged), BN_ERR_UNSUPPORTED (of another version). */
BN_MUST_CHECK bn_status bn_session_load(bn_session *session, const char *path, const int32_t *tokens,
                                        size_t n_tokens, uint32_t *n_kept, bn_error *err);

/* ---- Sampling ---- */

typedef struct bn_sampler bn_sampler;

/* A token and its logit, or what is added to it. */
typedef struct bn_candidate {
    int32_t id;
    float logit;
} bn_candidate;

typedef struct bn_sampler_options {
    size_t size;
    float temperature;    /* 0: greedy: the best logit, the lowest id on ties; the next six are not used */
    uint32_t top_k;       /* 0: off */
    float top_p;          /* 1: off; 0: the best one */
    float min_p;          /* 0: off */
    float repeat_penalty; /* 1: off */
    uint32_t repeat_last; /* tokens looked back at; 0: 64 */
    uint64_t seed;
    float presence_penalty;   /* -2 to 2: subtracted from logits of tokens that were generated; 0: off */
    float frequency_penalty;  /* the same, times how often each was */
    const bn_candidate *bias; /* what is added to logits, -100 to 100, of n_bias different tokens; borrowed */
    size_t n_bias;            /* at most 1024 */
    size_t n_prompt;          /* first tokens of `recent` that were not generated; a generation sets it */
} bn_sampler_options;

#define BN_SAMPLER_OPTIONS_INIT                                                               \
    {                                                                                         \
        sizeof(bn_sampler_options), 0.0f, 0, 1.0f, 0.0f, 1.0f, 64, 42, 0.0f, 0.0f, NULL, 0, 0 \
    }

BN_MUST_CHECK bn_status bn_sampler_open(bn_sampler **out, const bn_sampler_options *options, size_t n_vocab,
                                        bn_error *err);
void bn_sampler_close(bn_sampler *sampler);
/* How many of the best logits bn_sampler_next uses; SIZE_MAX: all of them. */
size_t bn_sampler_reach(const bn_sampler *sampler);
/* Chooses the next token from n_vocab logits (left unchanged) and the last n_recent tokens. */
int32_t bn_sampler_next(bn_sampler *sampler, const float *logits, const int32_t *recent, size_t n_recent);

/* ---- Grammars: output of a given form ---- */

/* What a generation may say. Immutable: any number of generations may share one. The logits of tokens that cannot come
 * next are minus infinity before the sampler; the chain and log-probabilities are those of all tokens. Limits:
 * docs/howto/constrain-output.md. */
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

/* What is asked. A query may be used for several generations, and outlives them. */
typedef struct bn_query bn_query;
typedef struct bn_generation bn_generation; /* what was generated */

typedef enum bn_stop_reason {
    BN_STOP_LENGTH,  /* n_predict tokens were generated */
    BN_STOP_ID,      /* a token of bn_query_add_stop_id */
    BN_STOP_END,     /* the vocabulary's end of generation */
    BN_STOP_STRING,  /* a text of bn_query_add_stop */
    BN_STOP_CONTEXT, /* the timeline is full */
    BN_STOP_CALLER,  /* the callback returned false */
    BN_STOP_GRAMMAR, /* the text is complete: the grammar permits no more */
    BN_STOP_STUCK, /* no token of the vocabulary continues the text under the grammar, or a limit was reached */
    BN_STOP_REASON_COUNT
} bn_stop_reason;
/* "length", "stop_id", "end", "stop", "context", "cancelled", "grammar", "stuck". */
const char *bn_stop_reason_name(bn_stop_reason reason);

/* Called for each token with the text that it completed: whole code points, no stop texts, or nothing. False: stop. Text
 * that might have become a stop text comes at the end, with the last token once more. */
typedef bool (*bn_token_fn)(void *user, int32_t id, const char *text, size_t n_bytes);

/* Settings of a query, with their defaults. Those of the sampler: bn_sampler_options. */
typedef enum bn_setting {
    BN_SET_N_PREDICT, /* most tokens to generate, 1 to 2^24 [32] */
    BN_SET_N_CTX,     /* most tokens of the timeline [0: those that the session has room for] */
    BN_SET_N_CACHED,  /* first tokens of the prompt that the timeline already ends with [0] */
    BN_SET_TEMPERATURE,
    BN_SET_TOP_K,
    BN_SET_TOP_P,
    BN_SET_MIN_P,
    BN_SET_REPEAT_PENALTY,
    BN_SET_REPEAT_LAST,
    BN_SET_SEED,
    BN_SET_IGNORE_END,  /* 1: end-of-generation tokens do not stop [0] */
    BN_SET_CHAIN,       /* 1: compute the chain of digests [0] */
    BN_SET_LOGPROBS,    /* 1: compute log-probabilities [0] */
    BN_SET_N_TOP,       /* the best tokens of each step that are kept, at most 1000 [0] */
    BN_SET_MOST_DRAFTS, /* longest draft, 1 to 64 [16] */
    BN_SET_PRESENCE_PENALTY,
    BN_SET_FREQUENCY_PENALTY
} bn_setting;

/* Copies the prompt: at least one token. */
BN_MUST_CHECK bn_status bn_query_open(bn_query **out, const int32_t *prompt, size_t n_prompt, bn_error *err);
void bn_query_close(bn_query *query);
/* BN_ERR_ARG for a value that the setting cannot have. A seed is at most 2^53. */
BN_MUST_CHECK bn_status bn_query_set(bn_query *query, bn_setting setting, double value, bn_error *err);
/* A text, or a token, that ends the generation. */
BN_MUST_CHECK bn_status bn_query_add_stop(bn_query *query, const char *text, bn_error *err);
BN_MUST_CHECK bn_status bn_query_add_stop_id(bn_query *query, int32_t id, bn_error *err);
/* bias and n_bias of bn_sampler_options; borrowed. The chain and log-probabilities are those of logits without them. */
void bn_query_set_bias(bn_query *query, const bn_candidate *bias, size_t n_bias);
void bn_query_set_grammar(bn_query *query, const bn_grammar *grammar); /* borrowed; NULL: any text */
void bn_query_set_callback(bn_query *query, bn_token_fn on_token, void *user);
/* An answer that the caller expects: several of its tokens are evaluated in one pass. All bits are those without it. */
BN_MUST_CHECK bn_status bn_query_expect(bn_query *query, const int32_t *ids, size_t n_ids, bn_error *err);

/* Evaluates the prompt after what the session's timeline holds, then chooses and evaluates tokens until something stops
 * it. tok may be NULL: then there is no text, and only ids and lengths stop. A full context is the reason
 * BN_STOP_CONTEXT, unless the prompt alone is too long (BN_ERR_LIMIT). After errors, as bn_session_eval. */
BN_MUST_CHECK bn_status bn_session_generate(bn_session *session, const bn_tokenizer *tok,
                                            const bn_query *query, bn_generation **out, bn_error *err);
void bn_generation_close(bn_generation *generation);
/* The tokens, with the one that stopped the generation. */
const int32_t *bn_generation_ids(const bn_generation *generation, size_t *n_ids);
bn_stop_reason bn_generation_reason(const bn_generation *generation);
/* The chain of digests (docs/explain/receipts.md) in hexadecimal, the same on every machine; empty unless asked for. */
const char *bn_generation_chain(const bn_generation *generation);
/* For each token the logarithm of its probability at temperature 1; NULL unless it was asked for. */
const double *bn_generation_logprobs(const bn_generation *generation);
/* The best tokens of step i, best first, ties by id; -1 for the id where there are fewer. NULL past the end. */
const bn_candidate *bn_generation_top(const bn_generation *generation, size_t i);
/* For each token its wall time; that of the first includes the evaluation of the prompt. */
const uint64_t *bn_generation_token_ns(const bn_generation *generation);

typedef enum bn_generation_figure {
    BN_GENERATION_PREFILL_NS, /* evaluating the prompt */
    BN_GENERATION_DECODE_NS,  /* from then to the last token */
    BN_GENERATION_TOTAL_NS,
    BN_GENERATION_DRAFTED, /* tokens that were drafted, and those of them that were right */
    BN_GENERATION_ACCEPTED
} bn_generation_figure;
uint64_t bn_generation_get(const bn_generation *generation, bn_generation_figure figure);

#ifdef BN_EXPERIMENTAL
/* ---- Experimental: speculation ---- */

/* Tokens are drafted, and one pass evaluates several of them. The result and all its bits are those without drafts. */
typedef enum bn_draft_kind {
    BN_DRAFT_NONE,
    BN_DRAFT_NGRAM, /* what followed the last few tokens where they occurred before */
    BN_DRAFT_MODEL, /* what a smaller model would choose */
    BN_DRAFT_GIVEN  /* what bn_query_expect has */
} bn_draft_kind;
/* draft: for BN_DRAFT_MODEL, a session of a model with the same vocabulary, for this generation alone. */
void bn_query_set_draft(bn_query *query, bn_draft_kind kind, bn_session *draft);

/* ---- Experimental: several timelines in one session ---- */

/* A timeline with a KV cache of its own. A session has one (bn_session_sequence), which the functions above use; more are
 * opened for it. One pass evaluates tokens of many of them and reads the weights once. */
typedef struct bn_sequence bn_sequence;

/* An empty timeline for this session, closed before it; n_ctx: most tokens, at most the session's; 0: the session's. */
BN_MUST_CHECK bn_status bn_sequence_open(bn_sequence **out, bn_session *session, uint32_t n_ctx,
                                         bn_error *err);
void bn_sequence_close(bn_sequence *sequence);
bn_sequence *bn_session_sequence(bn_session *session);
uint32_t bn_sequence_position(const bn_sequence *sequence);
/* As bn_session_truncate and _keep. */
BN_MUST_CHECK bn_status bn_sequence_truncate(bn_sequence *sequence, uint32_t n_tokens, bn_error *err);
uint32_t bn_sequence_keep(bn_sequence *sequence, const int32_t *tokens, size_t n_tokens);
/* How many tokens at the beginning it has in common with these. */
uint32_t bn_sequence_shared(const bn_sequence *sequence, const int32_t *tokens, size_t n_tokens);
/* Asks for a snapshot of recurrent layers after n_tokens, now or when an evaluation reaches that place. Generations do
 * this at the ends of messages and of the prompt, and every 256 tokens of a prompt. */
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

/* Evaluates the parts in one pass: at most n_batch tokens together, and no sequence twice. logits has n_vocab floats for
 * each row wanted, in the order of the parts; NULL: only hidden states are made. n_best as in bn_session_eval_best, 0:
 * all logits. After an error the timelines are as bn_session_eval leaves them. */
BN_MUST_CHECK bn_status bn_session_eval_batch(bn_session *session, const bn_batch_part *parts, size_t n_parts,
                                              size_t n_best, float *logits, bn_error *err);
/* The hidden state after the final norm of row i of those wanted; NULL past the last one. */
const float *bn_session_hidden_row(const bn_session *session, size_t i);

/* Several generations at once, each on a sequence of its own: every pass advances all of them. */
typedef struct bn_scheduler bn_scheduler;

/* For at most `most` generations at a time, 1 to the session's n_batch. The session, which nothing else uses meanwhile,
 * and tok, which may be NULL, outlive it. */
BN_MUST_CHECK bn_status bn_scheduler_open(bn_scheduler **out, bn_session *session, const bn_tokenizer *tok,
                                          uint32_t most, bn_error *err);
/* All generations are taken before. */
void bn_scheduler_close(bn_scheduler *scheduler);
/* Starts a generation after what the sequence holds; *out is the handle by which bn_scheduler_take returns it. BN_ERR_LIMIT
 * when there are too many already, and the errors of bn_session_generate. */
BN_MUST_CHECK bn_status bn_scheduler_start(bn_scheduler *scheduler, bn_sequence *sequence,
                                           const bn_query *query, bn_generation **out, bn_error *err);
/* Generations that were started and not taken. */
size_t bn_scheduler_n_running(const bn_scheduler *scheduler);
/* Limits the pieces of prompts, so that a pass with them takes at most this many times as long as one without, by the
 * times that were measured; 0, as at the beginning: pieces fill the batch. The results are the same. */
void bn_scheduler_set_slowdown(bn_scheduler *scheduler, double slowdown);
/* One pass: a token for each generation that has evaluated its prompt, and pieces of the other prompts. A generation whose
 * grammar takes much work sits out passes. After an error all generations have failed. */
BN_MUST_CHECK bn_status bn_scheduler_step(bn_scheduler *scheduler, bn_error *err);
/* Ends a generation with the reason BN_STOP_CALLER. It keeps its tokens, and bn_scheduler_take returns it. Not to be
 * called from the callback, which returns false instead. */
void bn_scheduler_cancel(bn_scheduler *scheduler, const bn_generation *generation);
/* A generation that has ended; NULL: none has. The caller closes it. */
bn_generation *bn_scheduler_take(bn_scheduler *scheduler);

/* ---- Experimental: what an evaluation did ---- */

/* Kernels since the session was opened, counted where they were called. */
typedef enum bn_kernel_figure {
    BN_KERNEL_CALLS,
    BN_KERNEL_NS,    /* time that the first thread spent in it */
    BN_KERNEL_BYTES, /* of weights and cache that all threads read through it */
    BN_KERNEL_OPS    /* multiply-adds, or elements for kernels that have none */
} bn_kernel_figure;
/* The i-th kernel that was called, such as "ternary_gemv_avx512vnni"; NULL past the end. */
const char *bn_session_kernel_name(const bn_session *session, size_t i);
uint64_t bn_session_kernel_get(const bn_session *session, size_t i, bn_kernel_figure figure);

/* One intermediate tensor, shown to a callback while it is alive: rows x cols floats. */
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

/* The graph of the passes of a session: each contains layers, a layer bricks, a brick kernels. */
typedef enum bn_event_kind { BN_EVENT_PASS, BN_EVENT_LAYER, BN_EVENT_BRICK, BN_EVENT_KERNEL } bn_event_kind;

typedef struct bn_event {
    bn_event_kind kind;
    const char *name;     /* of a brick ("QkvProjection") or a kernel ("ternary_gemm_avx2"), else NULL */
    const char *category; /* of a brick: "Norm", "Attention", "FFN", "Head", "Other"; else NULL */
    uint32_t thread;
    int32_t index;         /* of a pass: its number; of the others the layer, -1 outside the layers */
    size_t parent;         /* the event that contains it; SIZE_MAX: none */
    uint64_t begin_ns, ns; /* measured; a layer lasts from its first brick to the end of its last */
    uint64_t elements, bytes, ops;
} bn_event;

/* Records the next n_passes passes over n_tokens tokens in all, and forgets what was recorded before; 0 passes: none. */
BN_MUST_CHECK bn_status bn_session_record(bn_session *session, uint32_t n_passes, uint64_t n_tokens,
                                          bn_error *err);
/* The i-th event that was recorded: thread by thread, the last one first, so that each comes after its parent. NULL past
 * the end, or when memory is short. It lives until the next evaluation. */
const bn_event *bn_session_event(bn_session *session, size_t i);
/* The i-th brick that the engine knows, NULL past the end. */
const char *bn_brick_at(size_t i);
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#ifdef BN_INTERNAL
#include "internal.h"
#endif
#endif
