/* SPDX-License-Identifier: MIT
 *
 * How many tokens of prompts a pass may evaluate next to answers that run. A pass with pieces of prompts takes at most
 * `slowdown` times as long as a pass without them. Both times are measured, for each number of answers. The rule changes
 * times only, never a result.
 */
#ifndef BN_GENERATE_BUDGET_H
#define BN_GENERATE_BUDGET_H

#include "base/mem.h"

/* Passes with one number of answers. */
struct bn_budget_pass {
    double plain_ns; /* of a pass without pieces: a running mean; 0: unknown */
    double tokens;   /* that pieces may have */
};

struct bn_budget {
    double slowdown; /* 0: pieces fill the batch */
    struct bn_budget_pass *passes;
    size_t most;    /* answers */
    size_t n_mixed; /* passes with pieces since the last one without */
};

/* False when there is no memory. Released by bn_budget_close, also then. */
bool bn_budget_open(struct bn_budget *b, size_t most);
void bn_budget_close(struct bn_budget *b);
/* Tokens of prompts in the next pass, at most room; 0: none, so that a pass without pieces is measured. */
size_t bn_budget_tokens(const struct bn_budget *b, size_t n_answers, size_t room);
/* A pass of n_answers tokens of answers and n_tokens of prompts took this long. */
void bn_budget_account(struct bn_budget *b, size_t n_answers, size_t n_tokens, uint64_t ns);

#endif
