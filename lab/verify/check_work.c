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

#include "kernels/kernels.h"
#include "lab/verify/effort.h"

/* A head of fewer than four bits a weight is ternary: the kernels of linear layers multiply it. */
static bool is_ternary_head(const struct bn_shape *s)
{
    return s->head_bytes < s->n_vocab * s->n_embd / 2; /* below 2^50 */
}

/* The head is a matrix of the file, of ternary weights or in a type of half a byte to four bytes a weight. */
static bool head_fits(const struct bn_shape *s)
{
    uint64_t weights = s->n_vocab * s->n_embd;
    return s->head_bytes % s->n_vocab == 0 && s->head_bytes >= weights / 5 && s->head_bytes <= 4 * weights;
}

bool bn_check_model_shape(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    struct bn_shape s = {0};
    if (!bn_shape_read(in, &s, out)) return false;
    uint64_t q_dim = s.n_head * s.head_dim, kv_dim = s.n_head_kv * s.head_dim, layer, weights;
    if (s.n_head % s.n_head_kv != 0 || s.n_rot > s.head_dim)
        return bn_rule_fail(out, "%llu heads on %llu, %llu of %llu elements rotated", (ull)s.n_head,
                            (ull)s.n_head_kv, (ull)s.n_rot, (ull)s.head_dim);
    uint64_t mixer =
        (s.recurrence.layers > 0 ? 3 : 2) * q_dim + 2 * kv_dim; /* recurrent models have gates besides q */
    uint64_t rows = bn_plus(bn_times(s.attention_layers, mixer),
                            bn_times(s.recurrence.layers, s.recurrence.mixed + 2 * s.recurrence.inner));
    bool fits =
        bn_mul_ok(3 * s.hidden, s.n_layer, &layer) && bn_mul_ok(s.n_embd, bn_plus(rows, layer), &weights);
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

/* Linear layers: seven in a layer, six in a recurrent one. */
static uint64_t linears(const struct bn_shape *s)
{
    return 7 * s->attention_layers + 6 * s->recurrence.layers;
}

/* Bytes of ternary weights that all passes read. The kernel for packed weights says which passes of one token had
 * them: copies can be made while tokens are generated. */
static bool ternary_bytes(const struct bn_rules_input *in, const struct bn_effort *e, uint64_t *bytes,
                          struct bn_rule_result *out)
{
    static const enum bn_kernel PACKED[] = {BN_KERNEL_T5_GEMV};
    const struct bn_shape *s = &e->shape;
    uint64_t packed = 0, calls = bn_receipt_work_sum(in, PACKED, 1).calls, each = linears(s);
    uint64_t n = each > 0 ? calls / each : 0;
    uint64_t of_experts = bn_times(s->n_layer, s->experts.used * s->experts.bytes);
    if (of_experts > s->ternary_bytes)
        return bn_rule_fail(out, "experts of %llu bytes among %llu", (ull)of_experts, (ull)s->ternary_bytes);
    *bytes = bn_plus(bn_times(e->work.passes, s->ternary_bytes - of_experts),
                     bn_times(e->work.experts, s->experts.bytes));
    if (bn_json_path(in->receipt->predicate, "resolved.packed_bytes") != NULL &&
        !bn_rule_u64(in, "resolved.packed_bytes", &packed, out))
        return false;
    if (calls == 0 && packed == 0) return true;
    if (packed < s->ternary_weights / 5)
        return bn_rule_fail(out, "%llu weights in %llu packed bytes", (ull)s->ternary_weights, (ull)packed);
    if (calls != bn_times(n, each) || n > e->work.single || (n == 0 && e->work.single > 0))
        return bn_rule_fail(out, "%llu calls of t5_gemv, not %llu for each of at most %llu tokens",
                            (ull)calls, (ull)each, (ull)e->work.single);
    *bytes = bn_plus(bn_times(n, packed), bn_times(e->work.passes - n, s->ternary_bytes));
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
    struct bn_effort e = {0};
    uint64_t bytes = 0;
    if (!bn_effort_read(in, &e, out) || !ternary_bytes(in, &e, &bytes, out)) return false;
    const struct bn_shape *s = &e.shape;
    struct bn_receipt_work done = bn_receipt_work_sum(in, SLOTS, BN_ARRAY_LEN(SLOTS));
    const bn_work *w = &e.work;
    uint64_t heads = is_ternary_head(s) ? w->heads : 0, head_passes = heads > 0 ? w->head_passes : 0;
    uint64_t ops = bn_plus(bn_times(w->tokens, s->ternary_weights), bn_times(heads, s->n_vocab * s->n_embd));
    if (!bn_agrees("multiply-adds of the ternary kernels", done.ops, ops, out) ||
        !bn_agrees("calls of the ternary kernels", done.calls,
                   bn_plus(bn_times(w->passes, linears(s)), head_passes), out) ||
        !bn_agrees("bytes of the ternary kernels", done.bytes,
                   bn_plus(bytes, bn_times(head_passes, s->head_bytes)), out) ||
        !type_fits(in, out))
        return false;
    return bn_rule_pass(out, "%llu multiply-adds for %llu tokens in %llu passes", (ull)done.ops,
                        (ull)w->tokens, (ull)w->passes);
}

bool bn_check_attention_work(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const enum bn_kernel SCORES[] = {BN_KERNEL_ATTN_SCORES}, VALUES[] = {BN_KERNEL_ATTN_VALUES};
    struct bn_effort e = {0};
    if (!bn_effort_read(in, &e, out)) return false;
    struct bn_receipt_work scores = bn_receipt_work_sum(in, SCORES, 1),
                           values = bn_receipt_work_sum(in, VALUES, 1);
    uint64_t want = bn_times(bn_attended(&e), e.shape.head_dim);
    if (!bn_agrees("multiply-adds of attn_scores", scores.ops, want, out) ||
        !bn_agrees("multiply-adds of attn_values", values.ops, want, out))
        return false;
    /* Two bytes a value, which a tile of queries may read together. */
    if (scores.bytes != values.bytes || scores.bytes / 2 > want || scores.bytes / 2 < want / BN_QUERIES)
        return bn_rule_fail(out, "%llu and %llu bytes for %llu multiply-adds", (ull)scores.bytes,
                            (ull)values.bytes, (ull)want);
    /* A call is of one KV head. Those of the first thread of the first rank are counted, which has its part of them. */
    uint64_t threads = 1, layers = bn_times(e.work.passes, e.shape.attention_layers);
    if (!bn_rule_u64(in, "resolved.threads", &threads, out)) return false;
    uint64_t parts = bn_times(bn_rules_ranks(in->receipt), threads);
    uint64_t least = bn_times(layers, e.shape.n_head_kv / (parts > 0 ? parts : 1));
    if (scores.calls != values.calls || scores.calls < least)
        return bn_rule_fail(out, "%llu and %llu calls, at least %llu are needed", (ull)scores.calls,
                            (ull)values.calls, (ull)least);
    return bn_rule_pass(out, "%llu multiply-adds each way", (ull)want);
}

/* How the logits came about; without a claim, every head was computed row by row. */
static bool read_screen(const struct bn_rules_input *in, const struct bn_effort *e, bn_screen_stat *screen,
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
    if (bn_plus(screen->full, screen->screened) == e->work.head_passes && screen->screened <= screen->heads &&
        screen->again <= screen->heads && bn_plus(screen->heads, screen->full) <= e->work.heads)
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

/* Takes from the work of the head what small matrices of layers need, which is done by the same kernel: the gates of
 * recurrent layers, or the routers of experts. */
static bool without_gates(const struct bn_effort *e, struct bn_receipt_work *full)
{
    const struct bn_shape *s = &e->shape;
    uint64_t layers = s->experts.n > 0 ? s->n_layer : s->recurrence.layers;
    uint64_t calls = bn_times(e->work.passes, layers);
    uint64_t weights = (s->experts.n > 0 ? s->experts.n : 2 * s->recurrence.value_heads) * s->n_embd;
    uint64_t ops = bn_times(bn_times(e->work.tokens, layers), weights);
    uint64_t bytes = bn_times(calls, weights * sizeof(float));
    if (full->calls < calls || full->ops < ops || full->bytes < bytes) return false;
    full->calls -= calls;
    full->ops -= ops;
    full->bytes -= bytes;
    return true;
}

bool bn_check_head_work(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const enum bn_kernel FULL[] = {BN_KERNEL_F16_GEMM, BN_KERNEL_F32_GEMM},
                                SCREEN[] = {BN_KERNEL_I8_GEMM};
    struct bn_effort e = {0};
    bn_screen_stat screen;
    if (!bn_effort_read(in, &e, out) || !read_screen(in, &e, &screen, out)) return false;
    const struct bn_shape *s = &e.shape;
    bool ternary = is_ternary_head(s);
    uint64_t in_full = ternary ? 0 : e.work.heads - screen.heads; /* heads */
    if (ternary && screen.screened > 0)
        return bn_rule_fail(out, "%llu heads screened, but a ternary head is never screened",
                            (ull)screen.screened);
    if (ternary) screen.full = 0; /* its work is that of the ternary kernels */
    struct bn_receipt_work full = bn_receipt_work_sum(in, FULL, 2),
                           screened = bn_receipt_work_sum(in, SCREEN, 1);
    if (!without_gates(&e, &full))
        return bn_rule_fail(out, "layers multiply small matrices in f32_gemm, and it did less");
    /* Many heads of one pass are screened in several calls. */
    uint64_t i8_calls = within(screened.calls, screen.screened, screen.heads);
    uint64_t head_calls =
        bn_plus(within(full.calls - screen.again, e.work.head_passes, e.work.heads), screen.again);
    const struct {
        const char *what;
        uint64_t claimed, want;
    } COUNTS[] = {
        {"multiply-adds of the head", full.ops,
         bn_times(bn_plus(bn_times(in_full, s->n_vocab), screen.rows), s->n_embd)},
        {"calls of the head", full.calls, ternary ? 0 : head_calls},
        {"bytes of the head", full.bytes,
         bn_plus(bn_times(screen.full, s->head_bytes), bn_times(screen.rows, s->head_bytes / s->n_vocab))},
        {"calls of i8_gemm", screened.calls, i8_calls},
        {"multiply-adds of i8_gemm", screened.ops, bn_times(screen.heads, s->n_vocab * s->n_embd)},
        {"bytes of i8_gemm", screened.bytes, bn_times(i8_calls, s->n_vocab * (s->n_embd + SCREEN_ROW_BYTES))},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(COUNTS); i++)
        if (!bn_agrees(COUNTS[i].what, COUNTS[i].claimed, COUNTS[i].want, out)) return false;
    if (ternary) return bn_rule_pass(out, "%llu ternary heads", (ull)e.work.heads);
    if (screen.screened > 0)
        return bn_rule_pass(out, "%llu heads screened, %llu of their rows computed, %llu heads in full",
                            (ull)screen.heads, (ull)screen.rows, (ull)in_full);
    return bn_rule_pass(out, "%llu heads in full", (ull)in_full);
}
