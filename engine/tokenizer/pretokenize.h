/* SPDX-License-Identifier: MIT
 *
 * Splitting text into the pieces that byte-pair merging may not cross, by the regular expression that the
 * vocabulary was trained with.
 *
 * Any bytes can be split: the expression runs over the stretches that are valid UTF-8, and each byte between
 * them is a piece of its own. Pieces cover the text without gaps. Time is linear in the text: the expressions
 * hold no repeat that looks far ahead and then gives up most of what it saw.
 */
#ifndef BN_MODEL_PRETOKENIZE_H
#define BN_MODEL_PRETOKENIZE_H

#include "base/buf.h"

struct bn_split_rule {
    const char *name;
    const char *aliases; /* each with a space on both sides */
    const char *pattern;
    bool ignore_merges; /* a piece that is a token is taken whole */
    bool add_bos;       /* where tokenizer.ggml.add_bos_token is absent */
};

/* The rule of a value of tokenizer.ggml.pre, NULL when it is unknown. */
const struct bn_split_rule *bn_split_rule_find(struct bn_str name);

/* A rule ready for use; threads may share it. compile asks for machine code, which is optional: without it,
 * or where the system forbids it, the expression is interpreted with the same result. */
struct bn_splitter;
BN_MUST_CHECK bn_status bn_splitter_open(struct bn_splitter **out, const struct bn_split_rule *rule,
                                         bool compile, bn_error *err);
void bn_splitter_close(struct bn_splitter *splitter);
const struct bn_split_rule *bn_splitter_rule(const struct bn_splitter *splitter);

/* One walk over a text: bn_split_open, bn_split_text, bn_split_next until it gives an empty piece;
 * bn_split_text again for another text; bn_split_close. */
struct bn_split {
    const struct bn_splitter *splitter;
    void *match, *context; /* pcre2's */
    const char *text;
    size_t n_bytes, at;
    size_t valid; /* the stretch of valid UTF-8 that at lies in ends here */
};

BN_MUST_CHECK bn_status bn_split_open(struct bn_split *split, const struct bn_splitter *splitter,
                                      bn_error *err);
void bn_split_text(struct bn_split *split, const char *text, size_t n);
BN_MUST_CHECK bn_status bn_split_next(struct bn_split *split, struct bn_str *piece, bn_error *err);
void bn_split_close(struct bn_split *split);

#endif
