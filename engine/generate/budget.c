/* SPDX-License-Identifier: MIT
 *
 * The budget of pieces of prompts. The time of a pass grows at most in proportion to its tokens, because each pass reads
 * the weights once. So a piece that is changed in the proportion of the time wanted to the time taken never makes a pass
 * too long, and comes near the time wanted after some passes.
 */
#include "generate/budget.h"

#define REFRESH 16u /* passes with pieces, after which one without them is measured */
#define FIRST 4.0   /* tokens of the first piece, whose time is unknown */

bool bn_budget_open(struct bn_budget *b, size_t most)
{
    *b = (struct bn_budget){.most = most, .passes = bn_alloc(most + 1, sizeof *b->passes)};
    return b->passes != NULL;
}

void bn_budget_close(struct bn_budget *b)
{
    bn_free(b->passes);
    *b = (struct bn_budget){0};
}

size_t bn_budget_tokens(const struct bn_budget *b, size_t n_answers, size_t room)
{
    if (b->slowdown <= 0.0 || n_answers == 0 || n_answers > b->most) return room;
    const struct bn_budget_pass *pass = &b->passes[n_answers];
    if (pass->plain_ns <= 0.0 || b->n_mixed >= REFRESH) return 0;
    double tokens = pass->tokens > 0.0 ? pass->tokens : FIRST;
    return tokens < (double)room ? (size_t)tokens : room;
}

/* A long pass, during which another program had the processor, counts as twice the mean at most. */
static void account_plain(struct bn_budget_pass *pass, double ns)
{
    if (pass->plain_ns <= 0.0)
        pass->plain_ns = ns;
    else
        pass->plain_ns += ((ns < 2.0 * pass->plain_ns ? ns : 2.0 * pass->plain_ns) - pass->plain_ns) / 4.0;
}

void bn_budget_account(struct bn_budget *b, size_t n_answers, size_t n_tokens, uint64_t ns)
{
    if (n_answers == 0 || n_answers > b->most) return;
    struct bn_budget_pass *pass = &b->passes[n_answers];
    b->n_mixed = n_tokens > 0 ? b->n_mixed + 1 : 0;
    if (n_tokens == 0) {
        account_plain(pass, (double)ns);
        return;
    }
    if (pass->plain_ns <= 0.0 || ns == 0) return;
    double wanted = pass->plain_ns * b->slowdown, tokens = (double)n_tokens * wanted / (double)ns;
    /* The end of a prompt is short, and does not show that more is too long. */
    if ((double)ns <= wanted && tokens < pass->tokens) return;
    /* Up by half of the way: a pass that was short by chance changes less. */
    if (tokens > pass->tokens && pass->tokens > 0.0) tokens = (tokens + pass->tokens) / 2.0;
    pass->tokens = tokens < 1.0 ? 1.0 : tokens;
}
