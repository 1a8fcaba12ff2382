/* SPDX-License-Identifier: MIT
 *
 * The scheduler: several generations at once, each on a sequence of its own. One pass evaluates a token of each that
 * has its prompt, and pieces of the other prompts, as long as the budget allows (bn_budget_tokens). Prompts share it in equal
 * parts, so that a short one does not wait for a long one. One text may be embedded in the same passes; it counts as one
 * more prompt. A generation whose grammar takes more work than its part of a pass allows sits out passes. bn_generate is
 * the case of one generation.
 */
#include "base/clock.h"
#include "base/error.h"
#include "generate/generator.h"

struct bn_scheduler {
    bn_session *session;
    const bn_tokenizer *tok;
    struct bn_generator **generators; /* in the order of their coming */
    size_t n, most;
    /* Of the pass: the generators that take part, and their tokens. */
    struct bn_generator **running;
    bn_batch_part *parts;
    size_t n_parts;
    float *logits; /* n_rows of them: for each generation, and for the drafts of one */
    size_t n_rows;
    struct bn_budget budget; /* of pieces of prompts */
    bn_embedding *embedding; /* NULL: none */
};

/* Makes room for rows of logits, whose contents do not stay. */
static bn_status make_rows(struct bn_scheduler *sched, size_t n_rows, bn_error *err)
{
    if (n_rows <= sched->n_rows) return BN_OK;
    float *logits = bn_alloc_aligned(n_rows * sched->session->model->hp.n_vocab, sizeof *logits);
    if (logits == NULL) return bn_nomem(err); /* those that run keep theirs */
    bn_free(sched->logits);
    sched->logits = logits;
    sched->n_rows = n_rows;
    return BN_OK;
}

bn_status bn_scheduler_open(bn_scheduler **out, bn_session *session, const bn_tokenizer *tok, uint32_t most,
                            bn_error *err)
{
    *out = NULL;
    if (most == 0 || most > session->n_batch)
        return bn_fail(err, BN_ERR_ARG, "cannot run %u generations at once, the batch holds %u tokens", most,
                       session->n_batch);
    struct bn_scheduler *sched = bn_alloc(1, sizeof *sched);
    if (sched == NULL) return bn_nomem(err);
    *sched = (struct bn_scheduler){.session = session, .tok = tok, .most = most};
    sched->generators = bn_alloc(most, sizeof(struct bn_generator *));
    sched->running = bn_alloc(most, sizeof(struct bn_generator *));
    sched->parts = bn_alloc(most, sizeof *sched->parts);
    bool failed = sched->generators == NULL || sched->running == NULL || sched->parts == NULL;
    if (!bn_budget_open(&sched->budget, most) || failed || make_rows(sched, most, NULL) != BN_OK) {
        bn_scheduler_close(sched);
        return bn_nomem(err);
    }
    *out = sched;
    return BN_OK;
}

void bn_scheduler_close(bn_scheduler *sched)
{
    if (sched == NULL) return;
    for (size_t i = 0; i < sched->n; i++) {
        bn_generation *gen = sched->generators[i]->gen;
        bn_generator_close(sched->generators[i]);
        bn_generation_release(gen);
    }
    bn_free(sched->generators);
    bn_free(sched->running);
    bn_free(sched->parts);
    bn_free(sched->logits);
    bn_budget_close(&sched->budget);
    bn_free(sched);
}

void bn_scheduler_set_slowdown(bn_scheduler *sched, double slowdown)
{
    sched->budget.slowdown = slowdown;
}

/* Rows of logits that a generation needs in a pass with others. Several generations fill a pass without drafts, except
 * those that are surely right. */
static size_t rows_of(const bn_generation *gen)
{
    return gen->draft.kind == BN_DRAFT_GIVEN ? bn_draft_most(&gen->draft) + 1 : 1;
}

/* Rows for one more generation, alone or with the others. */
static size_t rows_with(const struct bn_scheduler *sched, const bn_generation *gen)
{
    size_t alone = bn_draft_most(&gen->draft) + 1, together = rows_of(gen);
    for (size_t i = 0; i < sched->n; i++)
        together += rows_of(sched->generators[i]->gen);
    together = bn_min_size(together, sched->session->n_batch);
    return alone > together ? alone : together;
}

bn_status bn_scheduler_add(bn_scheduler *sched, bn_sequence *sequence, bn_generation *gen, bn_error *err)
{
    if (sched->n == sched->most)
        return bn_fail(err, BN_ERR_LIMIT, "at most %zu generations can run at a time", sched->n);
    BN_TRY(make_rows(sched, rows_with(sched, gen), err));
    BN_TRY(bn_generator_open(&sched->generators[sched->n], sched->session, sequence, sched->tok, gen, err));
    sched->n++;
    return BN_OK;
}

size_t bn_scheduler_n_running(const bn_scheduler *sched)
{
    return sched->n;
}

void bn_scheduler_cancel(bn_scheduler *sched, const bn_generation *gen)
{
    for (size_t i = 0; i < sched->n; i++)
        if (sched->generators[i]->gen == gen) bn_generator_cancel(sched->generators[i]);
}

bn_generation *bn_scheduler_take(bn_scheduler *sched)
{
    for (size_t i = 0; i < sched->n; i++) {
        struct bn_generator *g = sched->generators[i];
        if (!g->ended) continue;
        bn_generation *gen = g->gen;
        bn_generator_close(g);
        sched->n--;
        memmove(&sched->generators[i], &sched->generators[i + 1],
                (sched->n - i) * sizeof(struct bn_generator *));
        return gen;
    }
    return NULL;
}

static void add_part(struct bn_scheduler *sched, struct bn_generator *g, size_t room)
{
    size_t drafts = sched->n == 1 ? sched->n_rows - 1 : rows_of(g->gen) - 1;
    sched->parts[sched->n_parts] = bn_generator_next(g, room, drafts);
    sched->running[sched->n_parts++] = g;
}

/* Whether it takes part in a pass, as an answer that runs or as a prompt. */
static bool takes_part(const struct bn_generator *g, bool have_prompt)
{
    return !g->ended && !g->waits && !g->owes && bn_generator_has_prompt(g) == have_prompt;
}

void bn_scheduler_embed(bn_scheduler *sched, bn_embedding *embedding)
{
    sched->embedding = embedding;
}

bool bn_scheduler_has_embedded(const bn_scheduler *sched)
{
    return sched->embedding != NULL && bn_embedding_is_done(sched->embedding);
}

/* Tokens of a pass. */
struct shares {
    size_t n_answers; /* of answers that run, with their drafts */
    size_t n_embed;   /* the most of a text to be embedded */
};

/* Chooses the parts of the next pass; false: there is nothing to do. */
static bool choose_parts(struct bn_scheduler *sched, struct shares *shares)
{
    bool embeds = sched->embedding != NULL && !bn_embedding_is_done(sched->embedding);
    size_t room = sched->session->n_batch, n_prompts = embeds, n_left = embeds;
    *shares = (struct shares){0};
    sched->n_parts = 0;
    for (size_t i = 0; i < sched->n; i++) {
        n_prompts += takes_part(sched->generators[i], false);
        n_left += takes_part(sched->generators[i], true) || takes_part(sched->generators[i], false);
    }
    for (size_t i = 0; i < sched->n; i++) {
        if (!takes_part(sched->generators[i], true)) continue;
        /* Drafts leave room for the others. */
        add_part(sched, sched->generators[i], (room - shares->n_answers + n_left - 1) / n_left);
        n_left--;
        shares->n_answers += sched->parts[sched->n_parts - 1].n_tokens;
    }
    if (n_prompts == 0) return sched->n_parts > 0;
    room = bn_budget_tokens(&sched->budget, shares->n_answers, room - shares->n_answers);
    for (size_t i = 0; i < sched->n && room > 0; i++) {
        if (!takes_part(sched->generators[i], false)) continue;
        add_part(sched, sched->generators[i], (room + n_prompts - 1) / n_prompts);
        room -= sched->parts[sched->n_parts - 1].n_tokens;
        n_prompts--;
    }
    if (embeds) shares->n_embed = room;
    return sched->n_parts > 0 || shares->n_embed > 0;
}

static bn_status evaluate(struct bn_scheduler *sched, const struct shares *shares, bn_error *err)
{
    struct bn_session *s = sched->session;
    bn_embedding *embedding = shares->n_embed > 0 ? sched->embedding : NULL;
    size_t n_best = 0;
    for (size_t i = 0; i < sched->n_parts; i++) {
        struct bn_generator *g = sched->running[i];
        uint32_t n_together = (uint32_t)sched->n_parts + (embedding != NULL);
        if (n_together > g->gen->n_together) g->gen->n_together = n_together;
        size_t wanted = g->n_best;
        if (wanted > n_best) n_best = wanted;
    }
    /* Processor time: other programs do not lengthen it. */
    uint64_t start = bn_clock_thread_cpu_ns();
    BN_TRY(bn_session_eval_parts(s, sched->parts, sched->n_parts, n_best, sched->logits, embedding,
                                 shares->n_embed, err));
    bn_budget_account(&sched->budget, shares->n_answers, s->run.n - shares->n_answers,
                      bn_clock_thread_cpu_ns() - start);
    return BN_OK;
}

/* All grammars together take a token's work of a pass. So a grammar that takes more delays its own generation alone. */
static void prepare_all(struct bn_scheduler *sched)
{
    size_t n = 0;
    for (size_t i = 0; i < sched->n; i++)
        n += sched->generators[i]->constraint != NULL;
    for (size_t i = 0; i < sched->n; i++)
        bn_generator_prepare(sched->generators[i], n);
}

bn_status bn_scheduler_step(bn_scheduler *sched, bn_error *err)
{
    struct shares shares;
    struct bn_session *s = sched->session;
    size_t row = 0, n_vocab = s->model->hp.n_vocab;
    if (s->cancel != NULL && s->cancel(s->cancel_user)) return bn_fail(err, BN_ERR_CANCELLED, "cancelled");
    prepare_all(sched);
    if (!choose_parts(sched, &shares)) return BN_OK;
    BN_TRY(evaluate(sched, &shares, err));
    for (size_t i = 0; i < sched->n_parts; i++) {
        const bn_batch_part *part = &sched->parts[i];
        bool wanted = part->which != BN_LOGITS_NONE;
        size_t n_taken =
            bn_generator_take(sched->running[i], part, wanted ? sched->logits + row * n_vocab : NULL,
                              wanted ? bn_session_hidden_row(sched->session, row) : NULL);
        if (sched->n_parts == 1) s->n_hidden = n_taken; /* without the drafts that were wrong */
        row += part->which == BN_LOGITS_ALL ? part->n_tokens : wanted;
    }
    return bn_session_check_link(sched->session, err);
}

const char *bn_stop_reason_name(bn_stop_reason reason)
{
    static const char *const NAMES[BN_STOP_REASON_COUNT] = {
        [BN_STOP_LENGTH] = "length",   [BN_STOP_ID] = "stop_id",      [BN_STOP_END] = "end",
        [BN_STOP_STRING] = "stop",     [BN_STOP_CONTEXT] = "context", [BN_STOP_CALLER] = "cancelled",
        [BN_STOP_GRAMMAR] = "grammar", [BN_STOP_STUCK] = "stuck",
    };
    return (unsigned)reason < BN_STOP_REASON_COUNT ? NAMES[reason] : "unknown";
}

bn_status bn_generate(bn_session *session, const bn_tokenizer *tok, bn_generation *gen, bn_error *err)
{
    bn_scheduler *sched = NULL;
    uint32_t before = bn_session_position(session);
    BN_TRY(bn_scheduler_open(&sched, session, tok, 1, err));
    bn_sequence_mark(&session->own, before); /* where it returns to after an error */
    bn_status status = bn_scheduler_add(sched, &session->own, gen, err);
    while (status == BN_OK && bn_scheduler_take(sched) == NULL)
        status = bn_scheduler_step(sched, err);
    if (status == BN_OK && gen->stuck == BN_ERR_NOMEM) {
        bn_generation_release(gen);
        status = bn_nomem(err);
    }
    if (status != BN_OK) bn_sequence_rewind(&session->own, before);
    bn_scheduler_close(sched);
    return status;
}

/* ---- the budget of prompts. The time of a pass grows at most in proportion to its tokens, because each pass reads the weights
 * once. So a piece that is changed in the proportion of the time wanted to the time taken never makes a pass too long, and
 * comes near the time wanted after some passes. ---- */

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
