/* SPDX-License-Identifier: MIT
 *
 * Reads the work that a receipt claims. What it must be follows from the numbers of tokens; see check_work.c.
 */
#include "lab/verify/checks.h"

/* Recurrent layers, which some models have in place of attention. */
static bool read_recurrence(const struct bn_check *c, struct bn_effort *e)
{
    const struct bn_claims *k = c->k;
    e->attention_layers = k->model.n_layer - k->recurrence.layers;
    e->inner = k->recurrence.value_heads * k->recurrence.head_dim;
    e->mixed = e->inner + 2 * k->recurrence.key_heads * k->recurrence.head_dim;
    if (!bn_rule_range(c, "?model.recurrence: layers taps head_dim key_heads value_heads", 1u << 13))
        return false;
    return k->recurrence.layers <= k->model.n_layer ||
           FAIL(c, "%llu of %llu layers are recurrent", k->recurrence.layers, k->model.n_layer);
}

/* Experts, which some models have in place of one feed-forward part, and layers without rotation. */
static bool read_experts(const struct bn_check *c, struct bn_effort *e)
{
    const struct bn_claims *k = c->k;
    ull weights = 3 * k->model.n_ff * k->model.n_embd; /* below 2^42 */
    e->rotated_layers =
        bn_rule_has(c, "model.rotated_layers") ? k->model.rotated_layers : e->attention_layers;
    e->hidden = k->model.n_ff;
    if (e->rotated_layers > e->attention_layers)
        return FAIL(c, "%llu of %llu layers rotate", e->rotated_layers, e->attention_layers);
    if (!bn_rule_has(c, "model.experts")) return true;
    if (k->experts.used == 0 || k->experts.used > k->experts.count || k->experts.count > 1u << 12)
        return FAIL(c, "%llu of %llu experts are used", k->experts.used, k->experts.count);
    if (k->experts.bytes < weights / 5 || k->experts.bytes / 8 > weights)
        return FAIL(c, "experts of %llu weights in %llu bytes", weights, k->experts.bytes);
    e->hidden = k->model.n_ff * k->experts.used;
    return true;
}

bool bn_shape_read(const struct bn_check *c, struct bn_effort *e)
{
    const struct bn_claims *k = c->k;
    /* Products of a few numbers of this size are done in double or checked. */
    if (!bn_rule_range(c, "model: n_embd n_layer n_ff n_head n_head_kv head_dim n_rot", 1u << 20) ||
        !bn_rule_range(c, "model.n_vocab", 1u << 30) ||
        !bn_rule_needs(c, "model: ternary_weights ternary_bytes head_bytes bytes ?rotated_layers ?window "
                          "?model.experts: count used bytes") ||
        (bn_rule_has(c, "model.window") && !bn_rule_needs(c, "model.local_layers")))
        return false;
    if (k->model.local_layers > k->model.n_layer || k->model.window > 1u << 24 ||
        (k->model.local_layers > 0 && k->model.window == 0))
        return FAIL(c, "%llu of %llu layers attend to the last %llu tokens", k->model.local_layers,
                    k->model.n_layer, k->model.window);
    return read_recurrence(c, e) && read_experts(c, e);
}

uint64_t bn_times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return bn_mul_ok(a, b, &product) ? product : UINT64_MAX;
}

uint64_t bn_plus(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return bn_add_ok(a, b, &sum) ? sum : UINT64_MAX;
}

bool bn_agrees(const struct bn_check *c, const char *what, ull claimed, ull want)
{
    if (want == UINT64_MAX) return FAIL(c, "%s: more than a number can hold", what);
    if (claimed == want) return true;
    return FAIL(c, "%s: %llu are claimed, it must be %llu", what, claimed, want);
}

/* Pairs of one of the first n tokens and one that it attends to: one of the last w, its own included. n and w are
 * below 2^31. */
static uint64_t pairs(uint64_t n, uint64_t w)
{
    return n <= w ? n * (n + 1) / 2 : w * (w + 1) / 2 + (n - w) * w;
}

#define LONGEST_DRAFT 64u

/* measurement.drafts: of D drafted tokens in N passes A were right. Each of these saved a pass, and each of the others
 * is one more token and one more row of logits, at some position after the prompt. */
static bool add_drafts(const struct bn_check *c, ull end, struct bn_effort *e, bn_work *most)
{
    bn_work *least = &e->work;
    ull passes = c->k->drafts.passes, drafted = c->k->drafts.drafted, accepted = c->k->drafts.accepted;
    ull decode = least->heads - 1; /* passes after the prompt without drafts */
    if (accepted > drafted || passes > drafted || drafted / LONGEST_DRAFT > passes || accepted > decode ||
        passes > decode - accepted || drafted - accepted >= 1u << 30)
        return FAIL(c, "%llu tokens drafted in %llu of %llu passes, %llu accepted", drafted, passes, decode,
                    accepted);
    ull wrong = drafted - accepted, first = c->k->result.prompt_tokens + 1, last = end + LONGEST_DRAFT,
        w = c->k->model.window;
    e->updates = passes;
    e->updated_tokens = passes + accepted;
    least->passes -= accepted;
    least->head_passes -= accepted;
    least->single -= accepted + passes;
    least->tokens += wrong;
    least->heads += wrong;
    *most = *least;
    least->attended += wrong * first; /* below 2^62 */
    most->attended += wrong * last;
    least->attended_local += wrong * (first < w ? first : w);
    most->attended_local += wrong * (last < w ? last : w);
    return true;
}

/* What this generation needs by itself, at least and at most. */
static bool read_own(const struct bn_check *c, struct bn_effort *e, bn_work *most)
{
    ull prompt = c->k->result.prompt_tokens, generated = c->k->all.tokens_generated,
        batch = c->k->resolved.batch, cached = c->k->measured.cached_tokens, w = c->k->model.window;
    if (!bn_rule_needs(c, "result.prompt_tokens tokens_generated resolved.batch measurement: ?cached_tokens "
                          "?measurement.drafts: passes drafted accepted"))
        return false;
    if (prompt == 0 || generated == 0 || batch == 0 || prompt >= 1u << 30 || generated >= 1u << 30)
        return FAIL(c, "%llu prompt tokens, %llu generated ones, batches of %llu", prompt, generated, batch);
    if (!bn_rule_cached(c)) return false;
    /* After the last token of a stuck answer, no token could be chosen. */
    ull choices = generated + bn_json_text_is(c->p, "result.stop_reason", "stuck");
    ull fresh = prompt - cached, end = prompt + choices - 1;
    e->work = (bn_work){.passes = fresh / batch + (fresh % batch != 0) + choices - 1,
                        .single = choices - 1 + (batch == 1 ? fresh : fresh % batch == 1),
                        .tokens = end - cached,
                        .head_passes = choices,
                        .heads = choices,
                        .attended = pairs(end, end) - pairs(cached, end),
                        .attended_local = pairs(end, w) - pairs(cached, w)};
    *most = e->work;
    return !bn_rule_has(c, "measurement.drafts") || add_drafts(c, end, e, most);
}

/* A token reads as many experts as it uses. Tokens of a pass may share some. */
static bool read_expert_work(const struct bn_check *c, struct bn_effort *e)
{
    const struct bn_claims *k = c->k;
    const bn_work *w = &e->work;
    if (k->experts.count == 0) return true;
    if (!bn_rule_needs(c, "measurement.work.experts")) return false;
    ull of_others = bn_times(w->tokens - w->single, k->experts.used),
        all = bn_times(w->passes - w->single, k->experts.count),
        most = bn_plus(bn_times(w->single, k->experts.used), of_others < all ? of_others : all);
    ull least = bn_times(k->model.n_layer, bn_times(w->passes, k->experts.used));
    e->work.experts = k->work.experts;
    most = bn_times(k->model.n_layer, most);
    return (w->experts >= least && w->experts <= most) ||
           FAIL(c, "measurement.work.experts is %llu, it must be from %llu to %llu", k->work.experts, least,
                most);
}

bool bn_effort_read(const struct bn_check *c, struct bn_effort *e)
{
    const struct bn_claims *k = c->k;
    bn_work *w = &e->work, most = {0};
    ull generations = k->work.generations;
    if (bn_rule_claim(c, "measurement.kernel_stats") == NULL) return false;
    if (!bn_shape_read(c, e) || !read_own(c, e, &most)) return false;
    if (!bn_rule_has(c, "measurement.work"))
        return (w->attended == most.attended && c->k->experts.count == 0) ||
               FAIL(c, "drafts or experts, and no measurement.work");
    if (!bn_rule_needs(
            c,
            "measurement.work: generations passes single tokens head_passes heads attended attended_local"))
        return false;
    const struct {
        const char *name;
        uint64_t *value, most, claimed;
        bool at_least; /* also when there are other generations */
    } FIELDS[] = {
        {"passes", &w->passes, most.passes, k->work.passes, false},
        {"single", &w->single, most.single, k->work.single, false},
        {"tokens", &w->tokens, most.tokens, k->work.tokens, true},
        {"head_passes", &w->head_passes, most.head_passes, k->work.head_passes, true},
        {"heads", &w->heads, most.heads, k->work.heads, true},
        {"attended", &w->attended, most.attended, k->work.attended, true},
        {"attended_local", &w->attended_local, most.attended_local, k->work.attended_local, true},
    };
    bool alone = generations < 2;
    for (size_t i = 0; i < BN_ARRAY_LEN(FIELDS); i++) {
        ull least = *FIELDS[i].value, claimed = FIELDS[i].claimed;
        bool low = claimed < least && (alone || FIELDS[i].at_least), exact = alone && least == FIELDS[i].most;
        if (low || (claimed > FIELDS[i].most && alone))
            return FAIL(c, "measurement.work.%s is %llu, it must be %s%llu", FIELDS[i].name, claimed,
                        exact ? ""
                        : low ? "at least "
                              : "at most ",
                        low ? least : FIELDS[i].most);
        *FIELDS[i].value = claimed;
    }
    if (generations == 0 || generations > w->tokens)
        return FAIL(c, "measurement.work.generations is %llu, with %llu tokens", generations, (ull)w->tokens);
    if (w->single > w->passes || w->passes > w->tokens || w->head_passes > w->passes ||
        w->head_passes > w->heads || w->heads > w->tokens)
        return FAIL(c, "measurement.work: %llu tokens in %llu passes, %llu heads in %llu", (ull)w->tokens,
                    (ull)w->passes, (ull)w->heads, (ull)w->head_passes);
    return read_expert_work(c, e);
}

ull bn_attended(const struct bn_check *c, const struct bn_effort *e)
{
    ull local = c->k->model.local_layers;
    return bn_times(bn_plus(bn_times(e->work.attended, e->attention_layers - local),
                            bn_times(e->work.attended_local, local)),
                    c->k->model.n_head);
}
