/* SPDX-License-Identifier: MIT
 *
 * Rules about the work of kernels: how many multiply-adds, calls and bytes a generation of
 * this many tokens through a model of this shape must have cost. Whether a machine can do that in the time
 * claimed is in check_speed.c.
 *
 * A generation by itself, of P tokens of prompt, C of them cached, and G generated ones, evaluates E = P - C + G - 1
 * tokens (the last one is not evaluated) in ceil((P - C) / batch) + G - 1 passes. A pass of one token may read packed
 * copies of the ternary weights; the best logits of the G passes that end in the head may come from a screened head.
 * Speculation replaces passes of one token by passes of several, some of which were wrong (measurement.drafts). Passes
 * that serve several generations do the work of all of them: then the receipt says what the passes were
 * (measurement.work), the kernels must have done exactly that, and it must be enough for this generation.
 */
#include <stdio.h>

#include "infer/session.h"
#include "kernels/kernels.h"
#include "lab/verify/checks.h"

typedef unsigned long long ull;

/* ---- the shape ---- */

struct shape {
    uint64_t n_embd, n_layer, n_ff, n_head, n_head_kv, head_dim, n_rot, n_vocab, ternary_weights,
        ternary_bytes, head_bytes, bytes;
    uint64_t window, local_layers; /* 0: none */
};

/* Every number is positive and below 2^32, products of a few of them are done in double or checked. */
static bool read_shape(const struct bn_rules_input *in, struct shape *s, struct bn_rule_result *out)
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
    return bn_rule_u64(in, "model.ternary_weights", &s->ternary_weights, out) &&
           bn_rule_u64(in, "model.ternary_bytes", &s->ternary_bytes, out) &&
           bn_rule_u64(in, "model.head_bytes", &s->head_bytes, out) &&
           bn_rule_u64(in, "model.bytes", &s->bytes, out);
}

/* A head of fewer than four bits a weight is ternary: the kernels of linear layers multiply it. */
static bool is_ternary_head(const struct shape *s)
{
    return s->head_bytes < s->n_vocab * s->n_embd / 2; /* below 2^50 */
}

/* The head is a matrix of the file, of ternary weights or in a type of half a byte to four bytes a weight. */
static bool head_fits(const struct shape *s)
{
    uint64_t weights = s->n_vocab * s->n_embd;
    return s->head_bytes % s->n_vocab == 0 && s->head_bytes >= weights / 5 && s->head_bytes <= 4 * weights;
}

bool bn_check_model_shape(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    struct shape s = {0};
    if (!read_shape(in, &s, out)) return false;
    uint64_t q_dim = s.n_head * s.head_dim, kv_dim = s.n_head_kv * s.head_dim, layer, weights;
    if (s.n_head % s.n_head_kv != 0 || s.n_rot > s.head_dim)
        return bn_rule_fail(out, "%llu heads on %llu, %llu of %llu elements rotated", (ull)s.n_head,
                            (ull)s.n_head_kv, (ull)s.n_rot, (ull)s.head_dim);
    bool fits = bn_mul_ok(s.n_embd, 2 * (q_dim + kv_dim) + 3 * s.n_ff, &layer) &&
                bn_mul_ok(layer, s.n_layer, &weights);
    if (!fits || weights != s.ternary_weights)
        return bn_rule_fail(out, "a model of this shape does not have %llu ternary weights",
                            (ull)s.ternary_weights);
    if (s.ternary_bytes < weights / 5 || s.ternary_bytes / 8 > weights)
        return bn_rule_fail(out, "%llu weights in %llu bytes", (ull)weights, (ull)s.ternary_bytes);
    if (!head_fits(&s))
        return bn_rule_fail(out, "a head of %llu rows with %llu weights each in %llu bytes", (ull)s.n_vocab,
                            (ull)s.n_embd, (ull)s.head_bytes);
    /* A ternary head is counted as it lies in memory, which can be more than in the file. */
    uint64_t head = is_ternary_head(&s) ? s.n_vocab * s.n_embd / 5 : s.head_bytes;
    if (s.bytes < head || s.bytes - head < weights / 5)
        return bn_rule_fail(out, "a file of %llu bytes cannot hold a head of %llu and %llu ternary weights",
                            (ull)s.bytes, (ull)s.head_bytes, (ull)weights);
    return bn_rule_pass(out, "%llu ternary weights", (ull)weights);
}

#define SCREEN_ROW_BYTES 12u /* three numbers in binary32 next to each row of the 8-bit copy */

/* ---- the counters ---- */

bool bn_check_kernel_stats(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const bn_json *stats = bn_rule_claim(in, "measurement.kernel_stats", out);
    if (stats == NULL) return false;
    const bn_json *names = bn_json_get(in->receipt->predicate, "kernels"), *name = bn_json_first(names);
    if (bn_json_kind(stats) != BN_JSON_ARRAY || bn_json_size(stats) == 0)
        return bn_rule_fail(out, "measurement.kernel_stats is empty");
    for (const bn_json *e = bn_json_first(stats); e != NULL; e = bn_json_next(e), name = bn_json_next(name)) {
        uint64_t calls, ns, bytes, ops;
        const char *counted = NULL, *listed = NULL;
        char quoted[80];
        if (!bn_json_string(bn_json_get(e, "name"), &counted) ||
            !bn_json_u64(bn_json_get(e, "calls"), &calls) || !bn_json_u64(bn_json_get(e, "ns"), &ns) ||
            !bn_json_u64(bn_json_get(e, "bytes"), &bytes) || !bn_json_u64(bn_json_get(e, "ops"), &ops))
            return bn_rule_fail(out, "an entry of kernel_stats without name, calls, ns, bytes and ops");
        if (!bn_json_string(name, &listed) || strcmp(counted, listed) != 0)
            return bn_rule_fail(out, "kernel_stats has \"%s\" where kernels has another",
                                bn_rule_quote(quoted, counted));
        if (calls == 0)
            return bn_rule_fail(out, "\"%s\" is listed and was never called", bn_rule_quote(quoted, counted));
    }
    if (name != NULL) return bn_rule_fail(out, "kernels has more names than kernel_stats");
    return bn_rule_pass(out, "%zu kernels, each counted", bn_json_size(stats));
}

struct bn_receipt_work bn_receipt_work_sum(const struct bn_rules_input *in, const enum bn_kernel *slots,
                                           size_t n_slots)
{
    struct bn_receipt_work sum = {0};
    const bn_json *stats = bn_json_path(in->receipt->predicate, "measurement.kernel_stats");
    for (const bn_json *e = bn_json_first(stats); e != NULL; e = bn_json_next(e)) {
        const char *name = "";
        bool wanted = n_slots == 0;
        (void)bn_json_string(bn_json_get(e, "name"), &name);
        for (size_t i = 0; i < n_slots; i++)
            if (bn_kernel_is(name, slots[i])) wanted = true;
        struct {
            const char *name;
            uint64_t *sum;
        } parts[] = {{"calls", &sum.calls}, {"ns", &sum.ns}, {"bytes", &sum.bytes}, {"ops", &sum.ops}};
        for (size_t i = 0; i < BN_ARRAY_LEN(parts) && wanted; i++) {
            uint64_t value = 0;
            (void)bn_json_u64(bn_json_get(e, parts[i].name), &value);
            if (!bn_add_ok(*parts[i].sum, value, parts[i].sum)) *parts[i].sum = UINT64_MAX;
        }
    }
    return sum;
}

bool bn_check_kernel_time(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    uint64_t total;
    if (!bn_rule_u64(in, "measurement.total_ns", &total, out)) return false;
    if (bn_rule_claim(in, "measurement.kernel_stats", out) == NULL) return false;
    uint64_t ns = bn_receipt_work_sum(in, NULL, 0).ns;
    if (ns > total) return bn_rule_fail(out, "kernels ran for %llu ns of %llu", (ull)ns, (ull)total);
    if (ns == 0) return bn_rule_fail(out, "kernels took no time");
    return bn_rule_pass(out, "%.1f %% of the time in kernels", 100.0 * (double)ns / (double)total);
}

/* The work that a receipt claims: on which shape, and how often. */
struct effort {
    struct shape shape;
    bn_work work;
};

/* Pairs of one of the first n tokens and one that it attends to: one of the last w, its own included. n and w are
 * below 2^31. */
static uint64_t pairs(uint64_t n, uint64_t w)
{
    return n <= w ? n * (n + 1) / 2 : w * (w + 1) / 2 + (n - w) * w;
}

#define LONGEST_DRAFT 64u

/* measurement.drafts: of D drafted tokens in N passes A were right. Each of these saved a pass, and each of the others
 * is one more token and one more row of logits, at some position after the prompt. */
static bool add_drafts(const struct bn_rules_input *in, const struct shape *s, uint64_t prompt, uint64_t end,
                       bn_work *least, bn_work *most, struct bn_rule_result *out)
{
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
static bool read_own(const struct bn_rules_input *in, const struct shape *s, bn_work *own, bn_work *most,
                     struct bn_rule_result *out)
{
    uint64_t prompt, generated, batch, cached;
    if (!bn_rule_u64(in, "result.prompt_tokens", &prompt, out)) return false;
    if (!bn_rule_u64(in, "tokens_generated", &generated, out)) return false;
    if (!bn_rule_u64(in, "resolved.batch", &batch, out)) return false;
    if (prompt == 0 || generated == 0 || batch == 0 || prompt >= 1u << 30 || generated >= 1u << 30)
        return bn_rule_fail(out, "%llu prompt tokens, %llu generated ones, batches of %llu", (ull)prompt,
                            (ull)generated, (ull)batch);
    if (!bn_rule_cached(in, prompt, &cached, out)) return false;
    uint64_t fresh = prompt - cached, end = prompt + generated - 1;
    *own = (bn_work){.passes = fresh / batch + (fresh % batch != 0) + generated - 1,
                     .single = generated - 1 + (batch == 1 ? fresh : fresh % batch == 1),
                     .tokens = end - cached,
                     .head_passes = generated,
                     .heads = generated,
                     .attended = pairs(end, end) - pairs(cached, end),
                     .attended_local = s->window > 0 ? pairs(end, s->window) - pairs(cached, s->window) : 0};
    *most = *own;
    return add_drafts(in, s, prompt, end, own, most, out);
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

/* measurement.work; a receipt without it is of a generation by itself. */
static bool read_effort(const struct bn_rules_input *in, struct effort *e, struct bn_rule_result *out)
{
    bn_work *w = &e->work, most = {0};
    uint64_t generations = 1;
    if (bn_rule_claim(in, "measurement.kernel_stats", out) == NULL) return false;
    if (!read_shape(in, &e->shape, out) || !read_own(in, &e->shape, w, &most, out)) return false;
    if (bn_json_path(in->receipt->predicate, "measurement.work") == NULL)
        return w->attended == most.attended || bn_rule_fail(out, "drafts, and no measurement.work");
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
    return is_possible(w, out);
}

/* Products and sums of claims stay at UINT64_MAX once they exceed a number. */
static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return bn_mul_ok(a, b, &product) ? product : UINT64_MAX;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return bn_add_ok(a, b, &sum) ? sum : UINT64_MAX;
}

/* Compares one number with what it must be. */
static bool agrees(const char *what, uint64_t claimed, uint64_t want, struct bn_rule_result *out)
{
    if (want == UINT64_MAX) return bn_rule_fail(out, "%s: more than a number can hold", what);
    if (claimed == want) return true;
    return bn_rule_fail(out, "%s: %llu are claimed, it must be %llu", what, (ull)claimed, (ull)want);
}

/* Bytes of ternary weights that all passes read. The kernel for packed weights says which passes of one token had
 * them: copies can be made while tokens are generated. */
static bool ternary_bytes(const struct bn_rules_input *in, const struct effort *e, uint64_t *bytes,
                          struct bn_rule_result *out)
{
    static const enum bn_kernel PACKED[] = {BN_KERNEL_T5_GEMV};
    const struct shape *s = &e->shape;
    uint64_t packed = 0, calls = bn_receipt_work_sum(in, PACKED, 1).calls, each = times(7, s->n_layer);
    uint64_t n = each > 0 ? calls / each : 0;
    *bytes = times(e->work.passes, s->ternary_bytes);
    if (bn_json_path(in->receipt->predicate, "resolved.packed_bytes") != NULL &&
        !bn_rule_u64(in, "resolved.packed_bytes", &packed, out))
        return false;
    if (calls == 0 && packed == 0) return true;
    if (packed < s->ternary_weights / 5)
        return bn_rule_fail(out, "%llu weights in %llu packed bytes", (ull)s->ternary_weights, (ull)packed);
    if (calls != times(n, each) || n > e->work.single || (n == 0 && e->work.single > 0))
        return bn_rule_fail(out, "%llu calls of t5_gemv, not %llu for each of at most %llu tokens",
                            (ull)calls, (ull)each, (ull)e->work.single);
    *bytes = plus(times(n, packed), times(e->work.passes - n, s->ternary_bytes));
    return true;
}

/* The type of the first layer's query matrix and the activations say which kernels ran: those of tiles with a
 * scale for each group for 16 bits and for the types of such groups, else those of one scale. */
static bool type_fits(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const enum bn_kernel GROUPED[] = {BN_KERNEL_GROUPED_GEMV, BN_KERNEL_GROUPED_GEMM},
                                PLAIN[] = {BN_KERNEL_I2S_GEMV, BN_KERNEL_I2S_GEMM, BN_KERNEL_T5_GEMV};
    static const char *const TYPES[] = {"TQ1_0", "TQ2_0", "Q2_0", "PQ2_0", "PTQ1_0"};
    const char *type = NULL, *activations = "int8-token";
    char quoted[80];
    if (!bn_json_string(bn_json_path(in->receipt->predicate, "model.quantization"), &type)) return true;
    (void)bn_json_string(bn_json_path(in->receipt->predicate, "model.activations"), &activations);
    bool tiled = strncmp(activations, "int16-g", 7) == 0;
    for (size_t i = 0; i < BN_ARRAY_LEN(TYPES); i++)
        tiled |= strcmp(type, TYPES[i]) == 0;
    struct bn_receipt_work done =
        tiled ? bn_receipt_work_sum(in, GROUPED, 2) : bn_receipt_work_sum(in, PLAIN, 3);
    if (done.calls > 0) return true;
    return bn_rule_fail(out, "model.quantization is \"%s\", and no kernel for it ran",
                        bn_rule_quote(quoted, type));
}

bool bn_check_kernel_work(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const enum bn_kernel SLOTS[] = {BN_KERNEL_I2S_GEMV, BN_KERNEL_I2S_GEMM, BN_KERNEL_T5_GEMV,
                                           BN_KERNEL_GROUPED_GEMV, BN_KERNEL_GROUPED_GEMM};
    struct effort e = {0};
    uint64_t bytes;
    if (!read_effort(in, &e, out) || !ternary_bytes(in, &e, &bytes, out)) return false;
    const struct shape *s = &e.shape;
    struct bn_receipt_work done = bn_receipt_work_sum(in, SLOTS, BN_ARRAY_LEN(SLOTS));
    const bn_work *w = &e.work;
    uint64_t heads = is_ternary_head(s) ? w->heads : 0, head_passes = heads > 0 ? w->head_passes : 0;
    uint64_t ops = plus(times(w->tokens, s->ternary_weights), times(heads, s->n_vocab * s->n_embd));
    if (!agrees("multiply-adds of the ternary kernels", done.ops, ops, out) ||
        !agrees("calls of the ternary kernels", done.calls,
                plus(times(w->passes, 7 * s->n_layer), head_passes), out) ||
        !agrees("bytes of the ternary kernels", done.bytes, plus(bytes, times(head_passes, s->head_bytes)),
                out) ||
        !type_fits(in, out))
        return false;
    return bn_rule_pass(out, "%llu multiply-adds for %llu tokens in %llu passes", (ull)done.ops,
                        (ull)w->tokens, (ull)w->passes);
}

/* Pairs of a token and one that it attends to, over all heads of all layers. */
static uint64_t attended(const struct effort *e)
{
    uint64_t local = e->shape.local_layers;
    return times(
        plus(times(e->work.attended, e->shape.n_layer - local), times(e->work.attended_local, local)),
        e->shape.n_head);
}

bool bn_check_attention_work(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const enum bn_kernel SCORES[] = {BN_KERNEL_ATTN_SCORES}, VALUES[] = {BN_KERNEL_ATTN_VALUES};
    struct effort e = {0};
    if (!read_effort(in, &e, out)) return false;
    struct bn_receipt_work scores = bn_receipt_work_sum(in, SCORES, 1),
                           values = bn_receipt_work_sum(in, VALUES, 1);
    uint64_t want = times(attended(&e), e.shape.head_dim);
    if (!agrees("multiply-adds of attn_scores", scores.ops, want, out) ||
        !agrees("multiply-adds of attn_values", values.ops, want, out))
        return false;
    /* Two bytes a value, which a tile of queries may read together. */
    if (scores.bytes != values.bytes || scores.bytes / 2 > want || scores.bytes / 2 < want / BN_QUERIES)
        return bn_rule_fail(out, "%llu and %llu bytes for %llu multiply-adds", (ull)scores.bytes,
                            (ull)values.bytes, (ull)want);
    return bn_rule_pass(out, "%llu multiply-adds each way", (ull)want);
}

/* How the logits came about; without a claim, every head was computed row by row. */
static bool read_screen(const struct bn_rules_input *in, const struct effort *e, bn_screen_stat *screen,
                        struct bn_rule_result *out)
{
    *screen = (bn_screen_stat){.full = e->work.head_passes};
    if (bn_json_path(in->receipt->predicate, "measurement.screen") == NULL) return true;
    if (!bn_rule_u64(in, "measurement.screen.screened", &screen->screened, out) ||
        !bn_rule_u64(in, "measurement.screen.full", &screen->full, out) ||
        !bn_rule_u64(in, "measurement.screen.rows", &screen->rows, out))
        return false;
    screen->heads = screen->screened;
    if (bn_json_path(in->receipt->predicate, "measurement.screen.heads") != NULL &&
        !bn_rule_u64(in, "measurement.screen.heads", &screen->heads, out))
        return false;
    if (bn_json_path(in->receipt->predicate, "measurement.screen.again") != NULL &&
        !bn_rule_u64(in, "measurement.screen.again", &screen->again, out))
        return false;
    if (plus(screen->full, screen->screened) == e->work.head_passes && screen->screened <= screen->heads &&
        screen->again <= screen->heads && plus(screen->heads, screen->full) <= e->work.heads)
        return true;
    return bn_rule_fail(out, "%llu passes screened (%llu heads) and %llu in full, of %llu (%llu heads)",
                        (ull)screen->screened, (ull)screen->heads, (ull)screen->full,
                        (ull)e->work.head_passes, (ull)e->work.heads);
}

/* A number between two others stays; else it must be the lower one. */
static uint64_t within(uint64_t n, uint64_t least, uint64_t most)
{
    return n >= least && n <= most ? n : least;
}

bool bn_check_head_work(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const enum bn_kernel FULL[] = {BN_KERNEL_F16_GEMM, BN_KERNEL_F32_GEMM},
                                SCREEN[] = {BN_KERNEL_I8_GEMM};
    struct effort e = {0};
    bn_screen_stat screen;
    if (!read_effort(in, &e, out) || !read_screen(in, &e, &screen, out)) return false;
    const struct shape *s = &e.shape;
    bool ternary = is_ternary_head(s);
    uint64_t in_full = ternary ? 0 : e.work.heads - screen.heads; /* heads */
    if (ternary && screen.screened > 0)
        return bn_rule_fail(out, "%llu heads screened, but a ternary head is never screened",
                            (ull)screen.screened);
    if (ternary) screen.full = 0; /* its work is that of the ternary kernels */
    struct bn_receipt_work full = bn_receipt_work_sum(in, FULL, 2),
                           screened = bn_receipt_work_sum(in, SCREEN, 1);
    /* Many heads of one pass are screened in several calls. */
    uint64_t i8_calls = within(screened.calls, screen.screened, screen.heads);
    uint64_t head_calls =
        plus(within(full.calls - screen.again, e.work.head_passes, e.work.heads), screen.again);
    const struct {
        const char *what;
        uint64_t claimed, want;
    } COUNTS[] = {
        {"multiply-adds of the head", full.ops,
         times(plus(times(in_full, s->n_vocab), screen.rows), s->n_embd)},
        {"calls of the head", full.calls, ternary ? 0 : head_calls},
        {"bytes of the head", full.bytes,
         plus(times(screen.full, s->head_bytes), times(screen.rows, s->head_bytes / s->n_vocab))},
        {"calls of i8_gemm", screened.calls, i8_calls},
        {"multiply-adds of i8_gemm", screened.ops, times(screen.heads, s->n_vocab * s->n_embd)},
        {"bytes of i8_gemm", screened.bytes, times(i8_calls, s->n_vocab * (s->n_embd + SCREEN_ROW_BYTES))},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(COUNTS); i++)
        if (!agrees(COUNTS[i].what, COUNTS[i].claimed, COUNTS[i].want, out)) return false;
    if (ternary) return bn_rule_pass(out, "%llu ternary heads", (ull)e.work.heads);
    if (screen.screened > 0)
        return bn_rule_pass(out, "%llu heads screened, %llu of their rows computed, %llu heads in full",
                            (ull)screen.heads, (ull)screen.rows, (ull)in_full);
    return bn_rule_pass(out, "%llu heads in full", (ull)in_full);
}

/* ---- everything else ---- */

/* What one kind of kernel must have done. */
struct part {
    const char *what;
    enum bn_kernel slots[3];
    size_t n_slots;
    uint64_t width;   /* elements a token and layer */
    uint64_t calls;   /* a pass and layer */
    uint64_t n_bytes; /* an element */
    uint64_t once;    /* elements of each pass that ends in the head, which is one more call */
};

static bool part_agrees(const struct bn_rules_input *in, const struct effort *e, const struct part *part,
                        struct bn_rule_result *out)
{
    char what[64];
    uint64_t n_layer = e->shape.n_layer;
    struct bn_receipt_work done = bn_receipt_work_sum(in, part->slots, part->n_slots);
    uint64_t elements =
        plus(times(times(e->work.tokens, n_layer), part->width), times(e->work.heads, part->once));
    snprintf(what, sizeof what, "elements of %s", part->what);
    if (!agrees(what, done.ops, elements, out)) return false;
    snprintf(what, sizeof what, "bytes of %s", part->what);
    if (!agrees(what, done.bytes, times(elements, part->n_bytes), out)) return false;
    snprintf(what, sizeof what, "calls of %s", part->what);
    return agrees(
        what, done.calls,
        plus(times(e->work.passes, part->calls * n_layer), part->once > 0 ? e->work.head_passes : 0), out);
}

/* The rows of the embedding are widened, unless they are stored in binary32. */
static bool embedding_agrees(const struct bn_rules_input *in, const struct effort *e,
                             struct bn_rule_result *out)
{
    static const enum bn_kernel WIDEN[] = {BN_KERNEL_F16_TO_F32, BN_KERNEL_BF16_TO_F32, BN_KERNEL_Q8_0_TO_F32,
                                           BN_KERNEL_Q6_K_TO_F32, BN_KERNEL_Q4_0_TO_F32};
    struct bn_receipt_work done = bn_receipt_work_sum(in, WIDEN, BN_ARRAY_LEN(WIDEN));
    uint64_t want = times(e->work.tokens, e->shape.n_embd);
    if (done.calls == 0) return true;
    if (!agrees("calls of the embedding", done.calls, e->work.passes, out)) return false;
    if (!agrees("elements of the embedding", done.ops, want, out)) return false;
    if (done.bytes >= want / 2 && done.bytes / 2 <= want) return true;
    return bn_rule_fail(out, "%llu elements of the embedding in %llu bytes", (ull)want, (ull)done.bytes);
}

/* The norms of a layer: calls, and elements of a token. */
struct norms {
    uint64_t calls, width;
    bool each_input; /* of each linear layer, so that each quantises its own inputs */
};

/* Two are before attention and the feed-forward part. An architecture may add: one of all heads of q and k; two
 * inside those parts, or one of the inputs of each of the seven linear layers; two of what the parts add. The number
 * of calls tells them apart; with another number the claim is compared with the first row. */
static struct norms norms_of(const struct shape *s, const struct effort *e, uint64_t calls)
{
    uint64_t q_dim = s->n_head * s->head_dim, kv_dim = s->n_head_kv * s->head_dim;
    uint64_t heads = q_dim + kv_dim, subs = q_dim + s->n_ff, inputs = 5 * s->n_embd + subs,
             post = 2 * s->n_embd;
    const struct norms ROWS[] = {
        {4, subs, false},
        {2, 0, false},
        {3, heads, false},
        {5, heads + post, false},
        {9, inputs, true},
        {10, inputs + heads, true},
        {12, inputs + heads + post, true},
    };
    struct norms norms = ROWS[0];
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++)
        if (calls == plus(times(e->work.passes, ROWS[i].calls * s->n_layer), e->work.head_passes))
            norms = ROWS[i];
    norms.width += 2 * s->n_embd;
    return norms;
}

bool bn_check_layer_work(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const enum bn_kernel NORM[] = {BN_KERNEL_RMSNORM},
                                NEVER[] = {BN_KERNEL_RESIDUAL, BN_KERNEL_T5_PACK,  BN_KERNEL_HAS_CODE3,
                                           BN_KERNEL_EXP,      BN_KERNEL_TO_PLANE, BN_KERNEL_ROTATE};
    struct effort e = {0};
    if (!read_effort(in, &e, out)) return false;
    const struct shape s = e.shape;
    uint64_t q_dim = s.n_head * s.head_dim, kv_dim = s.n_head_kv * s.head_dim;
    struct norms n = norms_of(&s, &e, bn_receipt_work_sum(in, NORM, 1).calls);
    uint64_t inputs = (n.each_input ? 5 : 2) * s.n_embd + q_dim + s.n_ff;
    const struct part PARTS[] = {
        {"quantize", {BN_KERNEL_QUANTIZE, BN_KERNEL_QUANTIZE16}, 2, inputs, n.each_input ? 7 : 4, 0, 0},
        {"rmsnorm", {BN_KERNEL_RMSNORM}, 1, n.width, n.calls, 0, s.n_embd},
        {"rope", {BN_KERNEL_ROPE_NEOX, BN_KERNEL_ROPE_NORM}, 2, (s.n_head + s.n_head_kv) * s.n_rot, 1, 0, 0},
        {"the activation", {BN_KERNEL_RELU2_MUL, BN_KERNEL_SILU_MUL, BN_KERNEL_GELU_MUL}, 3, s.n_ff, 1, 0, 0},
        {"add", {BN_KERNEL_ADD}, 1, 2 * s.n_embd, 2, 0, 0},
        {"f32_to_f16", {BN_KERNEL_F32_TO_F16}, 1, 2 * kv_dim, 1, 2, 0},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++)
        if (!part_agrees(in, &e, &PARTS[i], out)) return false;
    static const enum bn_kernel SOFTMAX[] = {BN_KERNEL_SOFTMAX};
    if (!agrees("elements of softmax", bn_receipt_work_sum(in, SOFTMAX, 1).ops, attended(&e), out))
        return false;
    if (!embedding_agrees(in, &e, out)) return false;
    if (bn_receipt_work_sum(in, NEVER, BN_ARRAY_LEN(NEVER)).calls > 0)
        return bn_rule_fail(
            out, "residual, t5_pack, has_code3, exp, to_plane and rotate are not counted in a generation");
    return bn_rule_pass(out, "norms, positions, activations and sums of %llu layers", (ull)s.n_layer);
}
