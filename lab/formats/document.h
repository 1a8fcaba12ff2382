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

#endif
