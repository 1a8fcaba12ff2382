/* SPDX-License-Identifier: MIT
 *
 * The client's side of the reference protocol (docs/explain/crossval.md): a reference is started,
 * asked, and ended. A fault of the reference is BN_ERR_MISMATCH, and it is not asked again: silence, an early
 * end, garbage or too few numbers are never taken for an answer.
 *
 *     BN_TRY(bn_reference_start(&ref, &options, err));
 *     BN_TRY(bn_reference_open(ref, "model.gguf", 0, err));
 *     BN_TRY(bn_reference_logits(ref, ids, n, &floats, err));      n x n_vocab
 *     BN_TRY(bn_reference_finish(ref, err));
 *     bn_reference_close(ref);
 */
#ifndef BN_COMPARE_REFERENCE_H
#define BN_COMPARE_REFERENCE_H

#include "base/json.h"
#include "lab/compare/trace.h"

#define BN_REFERENCE_PROTOCOL "bn.reference/1"

enum { BN_CAN_TOKENIZE = 1, BN_CAN_LOGITS = 2, BN_CAN_TRACE = 4, BN_CAN_BENCH = 8 };

struct bn_reference;

struct bn_reference_options {
    const char *command;                                        /* for /bin/sh -c */
    uint64_t timeout_ns;                                        /* of each request */
    bool (*cancelled)(void);                                    /* see process.h */
    void (*on_stderr)(void *user, const char *bytes, size_t n); /* see process.h */
};

/* How it describes itself; "" where it does not. The model's part is known after bn_reference_open. */
struct bn_reference_info {
    char name[64], version[64], commit[64];
    unsigned can; /* BN_CAN_... */
    uint64_t n_vocab, n_ctx;
    char arch[64];
    uint64_t open_ns;    /* of the last bn_reference_open; 0: unknown */
    uint64_t peak_bytes; /* of memory, until the last bn_reference_bench; 0: unknown */
};

/* Starts it and sends hello. After a failure *out is set too, for bn_reference_stderr, unless memory was
 * short. Close it in any case. */
BN_MUST_CHECK bn_status bn_reference_start(struct bn_reference **out,
                                           const struct bn_reference_options *options, bn_error *err);
/* May be repeated; the model that was open is closed. */
BN_MUST_CHECK bn_status bn_reference_open(struct bn_reference *ref, const char *model, uint32_t n_threads,
                                          bn_error *err);
const struct bn_reference_info *bn_reference_info(const struct bn_reference *ref);

/* An answer of the kind "unsupported" gives BN_ERR_UNSUPPORTED, and the reference can be asked other things.
 * Results are allocated, for bn_free. */
BN_MUST_CHECK bn_status bn_reference_tokenize(struct bn_reference *ref, const char *text, size_t n_bytes,
                                              int32_t **ids, size_t *n_ids, bn_error *err);
/* n_ids rows of logits. */
BN_MUST_CHECK bn_status bn_reference_logits(struct bn_reference *ref, const int32_t *ids, size_t n_ids,
                                            float **logits, bn_error *err);
/* Adds the operations that it can name to the records. */
BN_MUST_CHECK bn_status bn_reference_trace(struct bn_reference *ref, const int32_t *ids, size_t n_ids,
                                           struct bn_records *records, bn_error *err);
/* Wall times of evaluating n_prompt tokens at once, and then n_decode tokens one by one. */
BN_MUST_CHECK bn_status bn_reference_bench(struct bn_reference *ref, uint32_t n_prompt, uint32_t n_decode,
                                           uint32_t n_threads, uint64_t *prompt_ns, uint64_t *decode_ns,
                                           bn_error *err);

/* Asks it to end, and waits; it must end with status 0. */
BN_MUST_CHECK bn_status bn_reference_finish(struct bn_reference *ref, bn_error *err);
void bn_reference_close(struct bn_reference *ref);
/* The end of its standard error. */
const char *bn_reference_stderr(struct bn_reference *ref);

#endif
