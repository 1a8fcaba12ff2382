/* SPDX-License-Identifier: MIT
 *
 * Reads the work that a receipt claims. What it must be follows from the numbers of tokens; see check_work.c.
 */
#include "lab/verify/effort.h"

/* Recurrent layers, which some models have in place of attention. */
static bool read_recurrence(const struct bn_rules_input *in, struct bn_shape *s, struct bn_rule_result *out)
{
    const struct {
        const char *path;
        uint64_t *value;
    } FIELDS[] = {
        {"model.recurrence.layers", &s->recurrence.layers},
        {"model.recurrence.taps", &s->recurrence.taps},
        {"model.recurrence.head_dim", &s->recurrence.head_dim},
        {"model.recurrence.key_heads", &s->recurrence.key_heads},
        {"model.recurrence.value_heads", &s->recurrence.value_heads},
    };
    s->attention_layers = s->n_layer;
    if (bn_json_path(in->receipt->predicate, "model.recurrence") == NULL) return true;
    for (size_t i = 0; i < BN_ARRAY_LEN(FIELDS); i++) {
        if (!bn_rule_u64(in, FIELDS[i].path, FIELDS[i].value, out)) return false;
        if (*FIELDS[i].value == 0 || *FIELDS[i].value >= 1u << 13)
            return bn_rule_fail(out, "%s is %llu", FIELDS[i].path, (ull)*FIELDS[i].value);
    }
    if (s->recurrence.layers > s->n_layer)
        return bn_rule_fail(out, "%llu of %llu layers are recurrent", (ull)s->recurrence.layers,
                            (ull)s->n_layer);
    s->attention_layers -= s->recurrence.layers;
    s->recurrence.inner = s->recurrence.value_heads * s->recurrence.head_dim;
    s->recurrence.mixed = s->recurrence.inner + 2 * s->recurrence.key_heads * s->recurrence.head_dim;
    return true;
}

/* Experts, which some models have in place of one feed-forward part, and layers without rotation. Numbers stay below
 * 2^32. */
static bool read_experts(const struct bn_rules_input *in, struct bn_shape *s, struct bn_rule_result *out)
{
    s->rotated_layers = s->attention_layers;
    s->hidden = s->n_ff;
    if (bn_json_path(in->receipt->predicate, "model.rotated_layers") != NULL &&
        !bn_rule_u64(in, "model.rotated_layers", &s->rotated_layers, out))
        return false;
    if (s->rotated_layers > s->attention_layers)
        return bn_rule_fail(out, "%llu of %llu layers rotate", (ull)s->rotated_layers,
                            (ull)s->attention_layers);
    if (bn_json_path(in->receipt->predicate, "model.experts") == NULL) return true;
    if (!bn_rule_u64(in, "model.experts.count", &s->experts.n, out) ||
        !bn_rule_u64(in, "model.experts.used", &s->experts.used, out) ||
        !bn_rule_u64(in, "model.experts.bytes", &s->experts.bytes, out))
        return false;
    uint64_t weights = 3 * s->n_ff * s->n_embd; /* below 2^42 */
    if (s->experts.used == 0 || s->experts.used > s->experts.n || s->experts.n > 1u << 12)
        return bn_rule_fail(out, "%llu of %llu experts are used", (ull)s->experts.used, (ull)s->experts.n);
    if (s->experts.bytes < weights / 5 || s->experts.bytes / 8 > weights)
        return bn_rule_fail(out, "experts of %llu weights in %llu bytes", (ull)weights,
                            (ull)s->experts.bytes);
    s->hidden = s->n_ff * s->experts.used;
    return true;
}

/* Every number is positive and below 2^32, products of a few of them are done in double or checked. */
bool bn_shape_read(const struct bn_rules_input *in, struct bn_shape *s, struct bn_rule_result *out)
{
    const struct {
        const char *path;
        uint64_t *value;
    } FIELDS[] = {
        {"model.n_embd", &s->n_embd}, {"model.n_layer", &s->n_layer},     {"model.n_ff", &s->n_ff},
        {"model.n_head", &s->n_head}, {"model.n_head_kv", &s->n_head_kv}, {"model.head_dim", &s->head_dim},
        {"model.n_rot", &s->n_rot},   {"model.n_vocab", &s->n_vocab},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(FIELDS); i++) {
        if (!bn_rule_u64(in, FIELDS[i].path, FIELDS[i].value, out)) return false;
        if (*FIELDS[i].value > 0 && *FIELDS[i].value < 1u << 20) continue;
        if (FIELDS[i].value == &s->n_vocab && *FIELDS[i].value > 0 && *FIELDS[i].value < 1u << 30) continue;
        return bn_rule_fail(out, "%s is %llu", FIELDS[i].path, (ull)*FIELDS[i].value);
    }
    if (bn_json_path(in->receipt->predicate, "model.window") != NULL &&
        (!bn_rule_u64(in, "model.window", &s->window, out) ||
         !bn_rule_u64(in, "model.local_layers", &s->local_layers, out)))
        return false;
    if (s->local_layers > s->n_layer || s->window > 1u << 24 || (s->local_layers > 0 && s->window == 0))
        return bn_rule_fail(out, "%llu of %llu layers attend to the last %llu tokens", (ull)s->local_layers,
                            (ull)s->n_layer, (ull)s->window);
    if (!read_recurrence(in, s, out) || !read_experts(in, s, out)) return false;
    return bn_rule_u64(in, "model.ternary_weights", &s->ternary_weights, out) &&
           bn_rule_u64(in, "model.ternary_bytes", &s->ternary_bytes, out) &&
           bn_rule_u64(in, "model.head_bytes", &s->head_bytes, out) &&
           bn_rule_u64(in, "model.bytes", &s->bytes, out);
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

bool bn_agrees(const char *what, uint64_t claimed, uint64_t want, struct bn_rule_result *out)
{
    if (want == UINT64_MAX) return bn_rule_fail(out, "%s: more than a number can hold", what);
    if (claimed == want) return true;
    return bn_rule_fail(out, "%s: %llu are claimed, it must be %llu", what, (ull)claimed, (ull)want);
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
static bool add_drafts(const struct bn_rules_input *in, const struct bn_shape *s, uint64_t prompt,
                       uint64_t end, struct bn_effort *e, bn_work *most, struct bn_rule_result *out)
{
    bn_work *least = &e->work;
    uint64_t passes, drafted, accepted, w = s->window;
    if (bn_json_path(in->receipt->predicate, "measurement.drafts") == NULL) return true;
    if (!bn_rule_u64(in, "measurement.drafts.passes", &passes, out)) return false;
    if (!bn_rule_u64(in, "measurement.drafts.drafted", &drafted, out)) return false;
    if (!bn_rule_u64(in, "measurement.drafts.accepted", &accepted, out)) return false;
    uint64_t decode = least->heads - 1; /* passes after the prompt without drafts */
    if (accepted > drafted || passes > drafted || drafted / LONGEST_DRAFT > passes || accepted > decode ||
        passes > decode - accepted || drafted - accepted >= 1u << 30)
        return bn_rule_fail(out, "%llu tokens drafted in %llu of %llu passes, %llu accepted", (ull)drafted,
                            (ull)passes, (ull)decode, (ull)accepted);
    uint64_t wrong = drafted - accepted, first = prompt + 1, last = end + LONGEST_DRAFT;
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
    if (w == 0) return true;
    least->attended_local += wrong * (first < w ? first : w);
    most->attended_local += wrong * (last < w ? last : w);
    return true;
}

/* What this generation needs by itself, at least and at most. */
static bool read_own(const struct bn_rules_input *in, struct bn_effort *e, bn_work *most,
                     struct bn_rule_result *out)
{
    const struct bn_shape *s = &e->shape;
    bn_work *own = &e->work;
    uint64_t prompt, generated, batch, cached;
    if (!bn_rule_u64(in, "result.prompt_tokens", &prompt, out)) return false;
    if (!bn_rule_u64(in, "tokens_generated", &generated, out)) return false;
    if (!bn_rule_u64(in, "resolved.batch", &batch, out)) return false;
    if (prompt == 0 || generated == 0 || batch == 0 || prompt >= 1u << 30 || generated >= 1u << 30)
        return bn_rule_fail(out, "%llu prompt tokens, %llu generated ones, batches of %llu", (ull)prompt,
                            (ull)generated, (ull)batch);
    if (!bn_rule_cached(in, prompt, &cached, out)) return false;
    /* After the last token of a stuck answer, no token could be chosen. */
    uint64_t choices = generated + bn_json_text_is(in->receipt->predicate, "result.stop_reason", "stuck");
    uint64_t fresh = prompt - cached, end = prompt + choices - 1;
    *own = (bn_work){.passes = fresh / batch + (fresh % batch != 0) + choices - 1,
                     .single = choices - 1 + (batch == 1 ? fresh : fresh % batch == 1),
                     .tokens = end - cached,
                     .head_passes = choices,
                     .heads = choices,
                     .attended = pairs(end, end) - pairs(cached, end),
                     .attended_local = s->window > 0 ? pairs(end, s->window) - pairs(cached, s->window) : 0};
    *most = *own;
    return add_drafts(in, s, prompt, end, e, most, out);
}

/* Whether the passes can be what a receipt says. */
static bool is_possible(const bn_work *w, struct bn_rule_result *out)
{
    if (w->single <= w->passes && w->passes <= w->tokens && w->head_passes <= w->passes &&
        w->head_passes <= w->heads && w->heads <= w->tokens)
        return true;
    return bn_rule_fail(out, "measurement.work: %llu tokens in %llu passes, %llu heads in %llu",
                        (ull)w->tokens, (ull)w->passes, (ull)w->heads, (ull)w->head_passes);
}

/* A token reads as many experts as it uses. Tokens of a pass may share some. */
static bool read_expert_work(const struct bn_rules_input *in, struct bn_effort *e, struct bn_rule_result *out)
{
    const struct bn_shape *s = &e->shape;
    const bn_work *w = &e->work;
    if (s->experts.n == 0) return true;
    if (!bn_rule_u64(in, "measurement.work.experts", &e->work.experts, out)) return false;
    uint64_t of_single = bn_times(w->single, s->experts.used),
             of_others = bn_times(w->tokens - w->single, s->experts.used),
             all = bn_times(w->passes - w->single, s->experts.n);
    uint64_t least = bn_times(s->n_layer, bn_times(w->passes, s->experts.used));
    uint64_t most = bn_times(s->n_layer, bn_plus(of_single, of_others < all ? of_others : all));
    if (w->experts >= least && w->experts <= most) return true;
    return bn_rule_fail(out, "measurement.work.experts is %llu, it must be from %llu to %llu",
                        (ull)w->experts, (ull)least, (ull)most);
}

bool bn_effort_read(const struct bn_rules_input *in, struct bn_effort *e, struct bn_rule_result *out)
{
    bn_work *w = &e->work, most = {0};
    uint64_t generations = 1;
    if (bn_rule_claim(in, "measurement.kernel_stats", out) == NULL) return false;
    if (!bn_shape_read(in, &e->shape, out) || !read_own(in, e, &most, out)) return false;
    if (bn_json_path(in->receipt->predicate, "measurement.work") == NULL)
        return (w->attended == most.attended && e->shape.experts.n == 0) ||
               bn_rule_fail(out, "drafts or experts, and no measurement.work");
    if (!bn_rule_u64(in, "measurement.work.generations", &generations, out)) return false;
    const struct {
        const char *path;
        uint64_t *value, most;
        bool at_least; /* also when there are other generations */
    } FIELDS[] = {
        {"measurement.work.passes", &w->passes, most.passes, false},
        {"measurement.work.single", &w->single, most.single, false},
        {"measurement.work.tokens", &w->tokens, most.tokens, true},
        {"measurement.work.head_passes", &w->head_passes, most.head_passes, true},
        {"measurement.work.heads", &w->heads, most.heads, true},
        {"measurement.work.attended", &w->attended, most.attended, true},
        {"measurement.work.attended_local", &w->attended_local, most.attended_local, true},
    };
    bool alone = generations < 2;
    for (size_t i = 0; i < BN_ARRAY_LEN(FIELDS); i++) {
        uint64_t least = *FIELDS[i].value, claimed;
        if (!bn_rule_u64(in, FIELDS[i].path, &claimed, out)) return false;
        if ((claimed < least && (alone || FIELDS[i].at_least)) || (claimed > FIELDS[i].most && alone))
            return bn_rule_fail(out, "%s is %llu, it must be %s%llu", FIELDS[i].path, (ull)claimed,
                                alone && least == FIELDS[i].most ? ""
                                : claimed < least                ? "at least "
                                                                 : "at most ",
                                claimed < least ? (ull)least : (ull)FIELDS[i].most);
        *FIELDS[i].value = claimed;
    }
    if (generations == 0 || generations > w->tokens)
        return bn_rule_fail(out, "measurement.work.generations is %llu, with %llu tokens", (ull)generations,
                            (ull)w->tokens);
    return is_possible(w, out) && read_expert_work(in, e, out);
}

uint64_t bn_attended(const struct bn_effort *e)
{
    uint64_t local = e->shape.local_layers;
    return bn_times(bn_plus(bn_times(e->work.attended, e->shape.attention_layers - local),
                            bn_times(e->work.attended_local, local)),
                    e->shape.n_head);
}
