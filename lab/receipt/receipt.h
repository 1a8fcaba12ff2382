/* SPDX-License-Identifier: MIT
 *
 * Receipts: what a generation used, did and measured, as an in-toto Statement v1. Here: building one, and the
 * digest that it carries of itself. docs/reference/receipt.md describes the format field by field.
 *
 *     struct bn_receipt_input in = {
 *         .model = model, .session = session, .generation = &gen,      gen as bn_generate left it
 *         .model_name = "model.gguf", .prompt = text, .n_prompt_bytes = n,
 *     };
 *     BN_TRY(bn_receipt_write("ci/inference.json", &in, err));
 *
 * Everything in a receipt is read at its source: kernels and their numbers from the counters of the session while
 * the generation ran, tokens and times from the generation, digests from the bytes that were used. The caller passes
 * no number that the engine has.
 */
#ifndef BN_RECEIPT_RECEIPT_H
#define BN_RECEIPT_RECEIPT_H

#include "base/digest.h"
#include "base/json.h"
#include "bn.h"
#include "lab/host/git.h"
#include "lab/receipt/open.h"

#define BN_RECEIPT_STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define BN_RECEIPT_PREDICATE_TYPE "https://bn.invalid/inference-receipt/v1"
#define BN_PROVENANCE_TYPE "https://slsa.dev/provenance/v1" /* of the files of a release */
#define BN_RECEIPT_PAYLOAD_TYPE "application/vnd.in-toto+json"
#define BN_RECEIPT_SCHEMA_VERSION "1.0.0"
#define BN_RECEIPT_DEVICE_BACKEND "opencl" /* of kernels on a device; else "cpu" */
#define BN_RECEIPT_MAX_STOPS 1024u         /* each costs time with each token */

/* What stays the same while a program runs, for programs that write many receipts: hashing a model takes a second for
 * each gigabyte. Zeroed, it is read for the first receipt, or before by bn_receipt_read_facts. */
struct bn_receipt_facts {
    bool known;
    char model_sha256[BN_SHA256_HEX], program_sha256[BN_SHA256_HEX], tokenizer_sha256[BN_SHA256_HEX];
    struct bn_git git;
};

/* Borrowed. NULL and 0 mean "not asked for" or "not known" unless said otherwise. */
struct bn_receipt_input {
    /* What ran: the generation as it ended, on this session. */
    const bn_model *model;
    const bn_session *session;
    const struct bn_generation *generation;

    /* What was asked for, as far as the above cannot tell it. */
    const char *model_name; /* path, of which the base name is shown; or what the caller calls it */
    const char *prompt; /* the text whose tokens were evaluated, templates applied; NULL: tokens were given */
    size_t n_prompt_bytes;
    const char *template_name;
    bn_thinking thinking; /* of the template */
    const char *isa;      /* as asked for, "auto" */
    uint32_t n_threads, n_ctx, n_batch;

    /* What only the caller measured. */
    uint64_t load_ns;               /* opening the model and the session */
    uint64_t bandwidth_bytes_per_s; /* of bn_bandwidth_probe */

    /* What is shown. Without these a receipt has digests of texts, and base names instead of paths. Tokens
     * are always in it: replay needs them, and they can be turned back into the text. */
    bool show_text;     /* of prompt and answer */
    bool show_path;     /* of the model */
    const char *folder; /* whose git commit is stamped; NULL: the working folder */

    struct bn_receipt_facts *facts; /* NULL: all are read for this receipt; one struct for each model */
};

/* Reads them unless they are known; folder as in the input. */
BN_MUST_CHECK bn_status bn_receipt_read_facts(struct bn_receipt_facts *facts, const bn_model *model,
                                              const char *folder, bn_error *err);
/* Builds the statement; the caller frees it. BN_ERR_ARG when no kernel was counted, nothing was generated, or
 * the prompt followed other tokens: there is no receipt without evidence. */
BN_MUST_CHECK bn_status bn_receipt_build(bn_json **statement, const struct bn_receipt_input *input,
                                         bn_error *err);
/* The same, written to a file as readable JSON. */
BN_MUST_CHECK bn_status bn_receipt_write(const char *path, const struct bn_receipt_input *input,
                                         bn_error *err);

/* ---- signing ---- */

#define BN_KEY_MAX_BYTES 4096u /* of the file of a key */

/* Reads a private key; the caller closes it. BN_ERR_AUTH when others may read the file. */
BN_MUST_CHECK bn_status bn_key_read_file(struct bn_key **key, const char *path, bn_error *err);
/* Appends the envelope around the canonical text of a statement. */
BN_MUST_CHECK bn_status bn_receipt_sign(struct bn_buf *envelope, const bn_json *statement,
                                        const struct bn_key *key, bn_error *err);

/* ---- shared by building and checking ---- */

/* sha256 over the canonical text of a statement without its member receipt_sha256. */
BN_MUST_CHECK bn_status bn_receipt_self_digest(const bn_json *statement, char hex[BN_SHA256_HEX],
                                               bn_error *err);
/* Puts that digest into the statement. */
BN_MUST_CHECK bn_status bn_receipt_seal(bn_json *statement, bn_error *err);
/* What a receipt shows of a model's path: its last part, or the whole reference "hf:...". */
const char *bn_receipt_base_name(const char *path);
/* The instruction set that ends a kernel's name when it is another one than isa. NULL: none, or a kernel of a device. */
const char *bn_receipt_other_isa(const char *kernel, const char *isa);
/* Puts what a receipt says of a model itself; quantization is the type of the first layer's query matrix. */
void bn_receipt_put_shape(bn_json *object, const bn_model *model);
/* sha256 over token ids, each as u32 little endian. */
void bn_receipt_ids_digest(const int32_t *ids, size_t n, char hex[BN_SHA256_HEX]);
/* request.seed: a number, or from 2^53 on a text of digits. */
bool bn_receipt_seed(const bn_json *seed, uint64_t *value);
/* logit_bias, {"ID": VALUE, ...}, of a receipt or of another request; zeros are left out, and NULL changes nothing. *out
 * is NULL before; the caller releases it with bn_free after the generation, and after an error. */
BN_MUST_CHECK bn_status bn_receipt_bias(bn_candidate **out, bn_sampler_options *sampling,
                                        const bn_json *object, size_t n_vocab, bn_error *err);
/* n things in ns nanoseconds as thousandths of things a second, rounded; 0 when ns is 0. */
uint64_t bn_receipt_rate_milli(uint64_t n, uint64_t ns);
/* The smallest of n > 0 ascending samples that percent of all samples do not exceed (nearest rank). */
uint64_t bn_receipt_percentile(const uint64_t *sorted, size_t n, unsigned percent);
/* What a receipt says of the samples: "p50_ns" and so on. */
#define BN_RECEIPT_PERCENTILES 4u
extern const struct bn_receipt_percentile {
    const char *name;
    unsigned percent;
} bn_receipt_percentiles[BN_RECEIPT_PERCENTILES];
/* Samples of single tokens in ascending order: those after the first, which holds the prompt; the only one
 * when there is no other. *sorted is released with bn_free. */
BN_MUST_CHECK bn_status bn_receipt_sort_samples(const uint64_t *token_ns, size_t n, uint64_t **sorted,
                                                size_t *n_sorted, bn_error *err);

#endif
