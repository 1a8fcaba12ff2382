/* SPDX-License-Identifier: MIT
 *
 * Readers and writers of stack formats, one file each, and the helpers that they share. Other code calls
 * document.h.
 *
 * Writers get sorted stacks with one run, unless stated otherwise.
 */
#ifndef BN_FORMATS_H
#define BN_FORMATS_H

#include "base/error.h"
#include "lab/formats/document.h"

#define BN_STACKS_SCHEMA "bn.stacks/1"

/* ---- reading ---- */

BN_MUST_CHECK bn_status bn_formats_read_folded(bn_stacks **out, const char *text, size_t n, const char *name,
                                               bn_error *err);
BN_MUST_CHECK bn_status bn_formats_read_perf_script(bn_stacks **out, const char *text, size_t n,
                                                    const char *name, bn_error *err);
BN_MUST_CHECK bn_status bn_formats_read_document(bn_stacks **out, const bn_json *document, bn_error *err);

/* For messages: the formats that can be read. */
#define BN_FORMATS_READ "folded stacks, perf script output or JSON"

/* The line of text that begins at *at, without its "\n" or "\r\n"; moves *at past it. False at the end. */
bool bn_formats_line(struct bn_str *line, const char *text, size_t n, size_t *at);
/* The bytes of a decimal number, with fraction and exponent or without, as 0 <= *value < 1e300. */
bool bn_formats_weight(struct bn_str digits, double *value);
/* Whether a word can be a unit: letters, digits and "-_.", at most 15 of them. */
bool bn_formats_is_word(const char *word, size_t n, bool empty);
/* The kind of frame of this name; false for a name that none has. */
bool bn_formats_kind(enum bn_frame_kind *out, const bn_json *name);
/* Adds a weight and samples to a node; BN_ERR_LIMIT when the sum of a run would overflow. */
struct bn_tally {
    double weight;
    uint64_t samples;
};
BN_MUST_CHECK bn_status bn_formats_add(bn_stacks *stacks, struct bn_tally *tally, uint32_t node, size_t run,
                                       double weight, uint64_t samples, bn_error *err);
bool bn_formats_is_perf_script(const char *text, size_t n);

/* ---- writing ---- */

/* The self weights as whole numbers, whose sum is the rounded sum of all: out[n_nodes]. BN_ERR_LIMIT when
 * they do not fit into 63 bits. */
BN_MUST_CHECK bn_status bn_formats_whole(const bn_stacks *stacks, uint64_t *out, bn_error *err);
/* Texts of all frames, sorted, each once; the first is "". list is released by bn_free. */
struct bn_formats_texts {
    const char **list;
    size_t n;
};
#define BN_FORMATS_NAMES 1u
#define BN_FORMATS_MODULES 2u
#define BN_FORMATS_FILES 4u
BN_MUST_CHECK bn_status bn_formats_texts(struct bn_formats_texts *out, const bn_stacks *s, unsigned which,
                                         bn_error *err);
uint32_t bn_formats_text(const struct bn_formats_texts *texts, const char *text);
/* bn.stacks/1, with all runs. */
BN_MUST_CHECK bn_status bn_formats_write_document(const bn_stacks *s, struct bn_buf *out, bn_error *err);
BN_MUST_CHECK bn_status bn_formats_write_folded(const bn_stacks *s, struct bn_buf *out, bn_error *err);
BN_MUST_CHECK bn_status bn_formats_write_speedscope(const bn_stacks *s, struct bn_buf *out, bn_error *err);
BN_MUST_CHECK bn_status bn_formats_write_pprof(const bn_stacks *s, struct bn_buf *out, bn_error *err);
/* With all runs, each as a thread. */
BN_MUST_CHECK bn_status bn_formats_write_chrome(const bn_stacks *s, struct bn_buf *out, bn_error *err);

#endif
