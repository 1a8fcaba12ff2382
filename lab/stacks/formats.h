/* SPDX-License-Identifier: MIT
 *
 * What the readers and writers of formats share; document.h is what others call.
 *
 * Writers get stacks that are sorted and have one run, unless they say otherwise.
 */
#ifndef BN_STACKS_FORMATS_H
#define BN_STACKS_FORMATS_H

#include "lab/stacks/document.h"

/* ---- reading ---- */

/* For messages: what can be read. */
#define BN_FORMATS_READ "folded stacks, perf script output or JSON"

/* The line of text that begins at *at, without its "\n" or "\r\n"; moves *at behind it. False at the end. */
bool bn_formats_line(struct bn_str *line, const char *text, size_t n, size_t *at);
/* The bytes of a decimal number, with fraction and exponent or without, as 0 <= *value < 1e300. */
bool bn_formats_weight(struct bn_str digits, double *value);
/* Is it one that a unit may be: letters, digits, "-_.", at most 15 of them? */
bool bn_formats_is_word(const char *word, size_t n, bool empty);
/* Adds what a file says to a node; BN_ERR_LIMIT when the sum of a run would be no number any more. */
struct bn_tally {
    double weight;
    uint64_t samples;
};
BN_MUST_CHECK bn_status bn_formats_add(bn_stacks *stacks, struct bn_tally *tally, uint32_t node, size_t run,
                                       double weight, uint64_t samples, bn_error *err);
/* Whether all that was put into a reader's own small about is there: puts remember short memory only. */
BN_MUST_CHECK bn_status bn_formats_check_about(const bn_stacks *stacks, bn_error *err);
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
/* A number of a list, behind a comma unless it is the first. */
void bn_formats_number(struct bn_buf *out, double value, bool first);

/* Of a document that would not be read back. */
bn_status bn_formats_too_large(const bn_stacks *s, bn_error *err);
BN_MUST_CHECK bn_status bn_formats_write_folded(const bn_stacks *s, struct bn_buf *out, bn_error *err);
BN_MUST_CHECK bn_status bn_formats_write_speedscope(const bn_stacks *s, struct bn_buf *out, bn_error *err);
BN_MUST_CHECK bn_status bn_formats_write_firefox(const bn_stacks *s, struct bn_buf *out, bn_error *err);
BN_MUST_CHECK bn_status bn_formats_write_pprof(const bn_stacks *s, struct bn_buf *out, bn_error *err);
/* Of all runs, each as a thread. */
BN_MUST_CHECK bn_status bn_formats_write_chrome(const bn_stacks *s, struct bn_buf *out, bn_error *err);
BN_MUST_CHECK bn_status bn_formats_write_callgrind(const bn_stacks *s, struct bn_buf *out, bn_error *err);

#endif
