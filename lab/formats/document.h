/* SPDX-License-Identifier: MIT
 *
 * Stacks in files. bn-flamegraph writes documents of the schema bn.stacks/1 (docs/reference/bench.md):
 * tables of texts and frames, the tree, and a list of weights and one of samples for each run. Formats of
 * other programs are read too:
 *
 *   bn.stacks/1   JSON
 *   bn.profile/1  JSON, of bn-run --profile and bn-bench profile: its bricks (lab/stacks/bricks.h)
 *   folded        text, "a;b;c 12": what stackcollapse programs write; weights may have fractions
 *   perf script   text
 *
 * Folded text marks kinds as others do (a name that ends in _[k] is SYSTEM, _[i] INLINED), and "[name]" is
 * UNKNOWN. Lines that begin with '#' are comments; "# unit=ns what=cpu" names the unit.
 */
#ifndef BN_FORMATS_DOCUMENT_H
#define BN_FORMATS_DOCUMENT_H

#include "base/error.h"
#include "lab/stacks/stacks.h"

/* Reads any of these. name is for messages. about is what the document has, else {"format": ...}.
 * BN_ERR_FORMAT with the line or byte where it is malformed; BN_ERR_LIMIT. Text that holds no stack at all is
 * BN_ERR_FORMAT too: a profile without samples shows nothing. */
BN_MUST_CHECK bn_status bn_stacks_parse(bn_stacks **out, const char *text, size_t n, const char *name,
                                        bn_error *err);
BN_MUST_CHECK bn_status bn_stacks_read(bn_stacks **out, const char *path,
                                       bn_error *err); /* "-": standard input */

/* Formats that are written. The same stacks give the same bytes. Most formats add up all runs. */
enum bn_stacks_format {
    BN_STACKS_DOCUMENT, /* bn.stacks/1 */
    BN_STACKS_FOLDED,
    BN_STACKS_SPEEDSCOPE,
    BN_STACKS_PPROF,  /* profile.proto */
    BN_STACKS_CHROME, /* trace events */
    BN_STACKS_FORMATS,
    /* Other files that are made from stacks, but not by bn_stacks_write. */
    BN_STACKS_SVG = BN_STACKS_FORMATS,
    BN_STACKS_TEXT, /* a table */
    BN_STACKS_NO_FORMAT
};
const char *bn_stacks_format_name(enum bn_stacks_format format); /* "json", "folded", "speedscope", ... */
/* The format of a file name by its ending: .json, .folded, .speedscope.json, .pb,
 * .trace.json, .svg, .txt; BN_STACKS_NO_FORMAT for any other. */
enum bn_stacks_format bn_stacks_format_by_name(const char *path);
BN_MUST_CHECK bn_status bn_stacks_write(const bn_stacks *stacks, enum bn_stacks_format format,
                                        struct bn_buf *out, bn_error *err);

/* ---- for the readers and writers, one file each. Writers get sorted stacks with one run, unless stated otherwise ---- */

#define BN_STACKS_SCHEMA "bn.stacks/1"

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
/* Adds a weight and samples to a node; BN_ERR_LIMIT when the sum of a run would overflow. */
struct bn_tally {
    double weight;
    uint64_t samples;
};
BN_MUST_CHECK bn_status bn_formats_add(bn_stacks *stacks, struct bn_tally *tally, uint32_t node, size_t run,
                                       double weight, uint64_t samples, bn_error *err);
bool bn_formats_is_perf_script(const char *text, size_t n);

/* The self weights as whole numbers, whose sum is the rounded sum of all: out[n_nodes]. BN_ERR_LIMIT when
 * they do not fit into 63 bits. */
BN_MUST_CHECK bn_status bn_formats_whole(const bn_stacks *stacks, uint64_t *out, bn_error *err);
/* Texts of all frames, sorted, each once; the first is "". list is released by bn_free. */
struct bn_formats_texts {
    const char **list;
    size_t n;
};
BN_MUST_CHECK bn_status bn_formats_texts(struct bn_formats_texts *out, const bn_stacks *s, bool only_modules,
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
