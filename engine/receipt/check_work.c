/* SPDX-License-Identifier: MIT
 *
 * Rules about the work behind the names of kernels: how many multiply-adds, calls and bytes a generation of
 * this many tokens through a model of this shape must have cost, and whether a machine can do that in the
 * time claimed.
 *
 * P tokens of prompt and G generated ones are E = P + G - 1 evaluated tokens (the last one is not evaluated)
 * in ceil(P / batch) + G - 1 passes. A pass of one token may read packed copies of the ternary weights; the
 * best logits of the G passes that end in the head may come from a screened head.
 */
#include <math.h>
#include <stdio.h>

#include "kernels/kernels.h"
#include "receipt/checks.h"

typedef unsigned long long ull;

/* Multiply-adds per nanosecond that no core reaches with 8-bit integers: two units of 512 bits at 6 GHz do
 * 768, a matrix unit does more. */
#define MAX_OPS_PER_NS 4096.0

/* ---- the shape ---- */

struct shape {
    uint64_t n_embd, n_layer, n_ff, n_head, n_head_kv, head_dim, n_rot, n_vocab, ternary_weights,
        ternary_bytes;
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
        bn_rule_fail(out, "%s is %llu", FIELDS[i].path, (ull)*FIELDS[i].value);
        return false;
    }
    return bn_rule_u64(in, "model.ternary_weights", &s->ternary_weights, out) &&
           bn_rule_u64(in, "model.ternary_bytes", &s->ternary_bytes, out);
}

void bn_check_model_shape(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    struct shape s;
    if (!read_shape(in, &s, out)) return;
    uint64_t q_dim = s.n_head * s.head_dim, kv_dim = s.n_head_kv * s.head_dim, layer, weights;
    if (s.n_head % s.n_head_kv != 0 || s.n_rot > s.head_dim) {
        bn_rule_fail(out, "%llu heads on %llu, %llu of %llu elements rotated", (ull)s.n_head,
                     (ull)s.n_head_kv, (ull)s.n_rot, (ull)s.head_dim);
        return;
    }
    bool fits = bn_mul_ok(s.n_embd, 2 * (q_dim + kv_dim) + 3 * s.n_ff, &layer) &&
                bn_mul_ok(layer, s.n_layer, &weights);
    if (!fits || weights != s.ternary_weights)
        bn_rule_fail(out, "a model of this shape does not have %llu ternary weights", (ull)s.ternary_weights);
    else if (s.ternary_bytes < weights / 5 || s.ternary_bytes / 8 > weights)
        bn_rule_fail(out, "%llu weights in %llu bytes", (ull)weights, (ull)s.ternary_bytes);
    else
        bn_rule_pass(out, "%llu ternary weights", (ull)weights);
}

/* ---- the counters ---- */

void bn_check_kernel_stats(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const bn_json *stats = bn_rule_claim(in, "measurement.kernel_stats", out);
    if (stats == NULL) return;
    const bn_json *names = bn_json_get(in->receipt->predicate, "kernels"), *name = bn_json_first(names);
    if (bn_json_kind(stats) != BN_JSON_ARRAY || bn_json_size(stats) == 0) {
        bn_rule_fail(out, "measurement.kernel_stats is empty");
        return;
    }
    for (const bn_json *e = bn_json_first(stats); e != NULL; e = bn_json_next(e), name = bn_json_next(name)) {
        uint64_t calls, ns, bytes, ops;
        const char *counted = NULL, *listed = NULL;
        char quoted[80];
        if (!bn_json_string(bn_json_get(e, "name"), &counted) ||
            !bn_json_u64(bn_json_get(e, "calls"), &calls) || !bn_json_u64(bn_json_get(e, "ns"), &ns) ||
            !bn_json_u64(bn_json_get(e, "bytes"), &bytes) || !bn_json_u64(bn_json_get(e, "ops"), &ops)) {
            bn_rule_fail(out, "an entry of kernel_stats without name, calls, ns, bytes and ops");
            return;
        }
        if (!bn_json_string(name, &listed) || strcmp(counted, listed) != 0) {
            bn_rule_fail(out, "kernel_stats has \"%s\" where kernels has another",
                         bn_rule_quote(quoted, counted));
            return;
        }
        if (calls == 0) {
            bn_rule_fail(out, "\"%s\" is listed and was never called", bn_rule_quote(quoted, counted));
            return;
        }
    }
    if (name != NULL)
        bn_rule_fail(out, "kernels has more names than kernel_stats");
    else
        bn_rule_pass(out, "%zu kernels, each counted", bn_json_size(stats));
}

struct work {
    uint64_t calls, ns, bytes, ops;
};

/* Does name stand for slot, that is "slot_isa"? */
static bool is_slot(const char *name, enum bn_kernel slot)
{
    const char *base = bn_kernel_slot_name(slot);
    size_t n = strlen(base);
    return strncmp(name, base, n) == 0 && name[n] == '_';
}

/* The sum over the kernels of these slots; n_slots 0: over all. Sums that wrap stay at the largest number. */
static struct work sum_work(const struct bn_rules_input *in, const enum bn_kernel *slots, size_t n_slots)
{
    struct work sum = {0};
    const bn_json *stats = bn_json_path(in->receipt->predicate, "measurement.kernel_stats");
    for (const bn_json *e = bn_json_first(stats); e != NULL; e = bn_json_next(e)) {
        const char *name = "";
        bool wanted = n_slots == 0;
        (void)bn_json_string(bn_json_get(e, "name"), &name);
        for (size_t i = 0; i < n_slots; i++)
            if (is_slot(name, slots[i])) wanted = true;
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

void bn_check_kernel_time(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    uint64_t total;
    if (!bn_rule_u64(in, "measurement.total_ns", &total, out)) return;
    if (bn_rule_claim(in, "measurement.kernel_stats", out) == NULL) return;
    uint64_t ns = sum_work(in, NULL, 0).ns;
    if (ns > total)
        bn_rule_fail(out, "kernels ran for %llu ns of %llu", (ull)ns, (ull)total);
    else if (ns == 0)
        bn_rule_fail(out, "kernels took no time");
    else
        bn_rule_pass(out, "%.1f %% of the time in kernels", 100.0 * (double)ns / (double)total);
}

struct effort {
    uint64_t evaluated, passes, generated;
    uint64_t single; /* passes of one token */
};

static bool read_effort(const struct bn_rules_input *in, struct effort *e, struct bn_rule_result *out)
{
    uint64_t prompt, generated, batch;
    if (!bn_rule_u64(in, "result.prompt_tokens", &prompt, out)) return false;
    if (!bn_rule_u64(in, "tokens_generated", &generated, out)) return false;
    if (!bn_rule_u64(in, "resolved.batch", &batch, out)) return false;
    if (prompt == 0 || generated == 0 || batch == 0 || prompt >= 1u << 30 || generated >= 1u << 30) {
        bn_rule_fail(out, "%llu prompt tokens, %llu generated ones, batches of %llu", (ull)prompt,
                     (ull)generated, (ull)batch);
        return false;
    }
    e->evaluated = prompt + generated - 1;
    e->generated = generated;
    e->passes = prompt / batch + (prompt % batch != 0) + generated - 1;
    e->single = generated - 1 + (batch == 1 ? prompt : prompt % batch == 1);
    return true;
}

/* One number against what it must be; true when it agrees. */
static bool agrees(const char *what, uint64_t claimed, bool fits, uint64_t want, struct bn_rule_result *out)
{
    if (fits && claimed == want) return true;
    if (fits)
        bn_rule_fail(out, "%s: %llu are claimed, it must be %llu", what, (ull)claimed, (ull)want);
    else
        bn_rule_fail(out, "%s: more than a number can hold", what);
    return false;
}

/* Bytes of ternary weights that a pass of one token reads: of the packed copies when there are any. */
static bool read_packed(const struct bn_rules_input *in, const struct shape *s, uint64_t *bytes,
                        struct bn_rule_result *out)
{
    uint64_t packed = 0;
    *bytes = s->ternary_bytes;
    if (bn_json_path(in->receipt->predicate, "resolved.packed_bytes") == NULL) return true;
    if (!bn_rule_u64(in, "resolved.packed_bytes", &packed, out)) return false;
    if (packed == 0) return true;
    *bytes = packed;
    if (packed >= s->ternary_weights / 5) return true;
    bn_rule_fail(out, "%llu weights in %llu packed bytes", (ull)s->ternary_weights, (ull)packed);
    return false;
}

void bn_check_kernel_work(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const enum bn_kernel SLOTS[] = {BN_KERNEL_I2S_GEMV, BN_KERNEL_I2S_GEMM, BN_KERNEL_TQ2_GEMV,
                                           BN_KERNEL_TQ2_GEMM, BN_KERNEL_T5_GEMV};
    struct shape s;
    struct effort e;
    uint64_t want = 0, packed, together;
    if (bn_rule_claim(in, "measurement.kernel_stats", out) == NULL) return;
    if (!read_shape(in, &s, out) || !read_effort(in, &e, out) || !read_packed(in, &s, &packed, out)) return;
    struct work done = sum_work(in, SLOTS, BN_ARRAY_LEN(SLOTS));
    bool fits = bn_mul_ok(e.evaluated, s.ternary_weights, &want);
    if (!agrees("multiply-adds of the ternary kernels", done.ops, fits, want, out)) return;
    fits = bn_mul_ok(e.passes, 7 * s.n_layer, &want);
    if (!agrees("calls of the ternary kernels", done.calls, fits, want, out)) return;
    fits = bn_mul_ok(e.single, packed, &together) && bn_mul_ok(e.passes - e.single, s.ternary_bytes, &want) &&
           bn_add_ok(want, together, &want);
    if (!agrees("bytes of the ternary kernels", done.bytes, fits, want, out)) return;
    bn_rule_pass(out, "%llu multiply-adds for %llu tokens in %llu passes", (ull)done.ops, (ull)e.evaluated,
                 (ull)e.passes);
}

void bn_check_attention_work(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const enum bn_kernel SCORES[] = {BN_KERNEL_ATTN_SCORES}, VALUES[] = {BN_KERNEL_ATTN_VALUES};
    struct shape s;
    struct effort e;
    uint64_t want = 0;
    if (bn_rule_claim(in, "measurement.kernel_stats", out) == NULL) return;
    if (!read_shape(in, &s, out) || !read_effort(in, &e, out)) return;
    bool fits = bn_mul_ok(e.evaluated * (e.evaluated + 1) / 2, s.n_layer * s.n_head, &want) &&
                bn_mul_ok(want, s.head_dim, &want);
    if (!agrees("multiply-adds of attn_scores", sum_work(in, SCORES, 1).ops, fits, want, out)) return;
    if (!agrees("multiply-adds of attn_values", sum_work(in, VALUES, 1).ops, fits, want, out)) return;
    bn_rule_pass(out, "%llu multiply-adds each way", (ull)want);
}

/* How the logits came about; without a claim, every head was computed row by row. */
static bool read_screen(const struct bn_rules_input *in, const struct effort *e, bn_screen_stat *screen,
                        struct bn_rule_result *out)
{
    *screen = (bn_screen_stat){.full = e->generated};
    if (bn_json_path(in->receipt->predicate, "measurement.screen") == NULL) return true;
    if (!bn_rule_u64(in, "measurement.screen.screened", &screen->screened, out) ||
        !bn_rule_u64(in, "measurement.screen.full", &screen->full, out) ||
        !bn_rule_u64(in, "measurement.screen.rows", &screen->rows, out))
        return false;
    uint64_t heads;
    return agrees("heads", screen->full,
                  bn_add_ok(screen->full, screen->screened, &heads) && heads == e->generated, screen->full,
                  out);
}

void bn_check_head_work(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const enum bn_kernel FULL[] = {BN_KERNEL_F16_GEMM, BN_KERNEL_F32_GEMM},
                                SCREEN[] = {BN_KERNEL_I8_GEMV};
    struct shape s;
    struct effort e;
    bn_screen_stat screen;
    uint64_t want = 0;
    if (bn_rule_claim(in, "measurement.kernel_stats", out) == NULL) return;
    if (!read_shape(in, &s, out) || !read_effort(in, &e, out) || !read_screen(in, &e, &screen, out)) return;
    bool fits = bn_mul_ok(screen.full, s.n_vocab, &want) && bn_add_ok(want, screen.rows, &want) &&
                bn_mul_ok(want, s.n_embd, &want);
    if (!agrees("multiply-adds of the head", sum_work(in, FULL, 2).ops, fits, want, out)) return;
    fits = bn_mul_ok(screen.screened, s.n_vocab * s.n_embd, &want);
    if (!agrees("multiply-adds of i8_gemv", sum_work(in, SCREEN, 1).ops, fits, want, out)) return;
    if (screen.screened > 0)
        bn_rule_pass(out, "%llu heads screened, %llu of their rows computed, %llu heads in full",
                     (ull)screen.screened, (ull)screen.rows, (ull)screen.full);
    else
        bn_rule_pass(out, "%llu heads in full", (ull)screen.full);
}

/* ---- can a machine do that? ---- */

/* tokens/s above which a receipt that has nothing but names is not believed. */
static uint64_t limit_of(const struct bn_rules_input *in, const char *backend)
{
    const struct bn_receipt_policy *p = in->policy;
    const bn_json *list = bn_json_get(in->receipt->predicate, "kernels");
    uint64_t limit = 0;
    for (const bn_json *e = bn_json_first(list); e != NULL; e = bn_json_next(e)) {
        const char *name = "";
        (void)bn_json_string(e, &name);
        uint64_t one = strstr(name, "tl1_") != NULL   ? p->limit_tl1
                       : strstr(name, "tl2_") != NULL ? p->limit_tl2
                                                      : 0;
        if (strstr(name, "i2s_") != NULL || strstr(name, "tq2_") != NULL) one = p->limit_i2s;
        if (strcmp(backend, "cpu") != 0) one = strstr(name, "bf16") != NULL ? p->limit_bf16 : p->limit_fp16;
        if (one > limit) limit = one;
    }
    return limit;
}

void bn_check_performance_limits(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    double rate = -1;
    const char *backend = "cpu";
    if (!in->policy->validate_performance) {
        bn_rule_skip(out, "not asked for (--validate-performance)");
        return;
    }
    if (bn_json_path(in->receipt->predicate, "measurement.kernel_stats") != NULL) {
        bn_rule_skip(out, "the bytes are held against the memory's rate instead");
        return;
    }
    (void)bn_json_string(bn_json_get(in->receipt->predicate, "backend"), &backend);
    uint64_t limit = limit_of(in, backend);
    if (!bn_json_number(bn_json_get(in->receipt->predicate, "tokens_per_second"), &rate) || !(rate >= 0))
        bn_rule_fail(out, "no tokens_per_second to look at");
    else if (limit == 0)
        bn_rule_fail(out, "no kernel that a limit is known for");
    else if (rate > (double)limit)
        bn_rule_fail(out, "%.1f tokens/s are suspicious: more than %llu", rate, (ull)limit);
    else
        bn_rule_pass(out, "%.1f tokens/s, at most %llu are believed", rate, (ull)limit);
}

/* The rate to hold a receipt against, and where it comes from. Measured here counts most when the machine is
 * of the same kind; the signer's own probe is only a claim. */
static uint64_t choose_bandwidth(const struct bn_rules_input *in, const char **source)
{
    const char *cpu = NULL;
    uint64_t claimed = 0;
    (void)bn_json_string(bn_json_path(in->receipt->predicate, "machine.cpu_model"), &cpu);
    (void)bn_json_u64(bn_json_path(in->receipt->predicate, "measurement.bandwidth_probe_bytes_per_s"),
                      &claimed);
    bool same = cpu != NULL && in->cpu_model != NULL && strcmp(cpu, in->cpu_model) == 0;
    *source = "the policy's rate";
    if (in->policy->bandwidth_bytes_per_s > 0) return in->policy->bandwidth_bytes_per_s;
    *source = same ? "measured here, same CPU" : "measured here, another CPU";
    if (in->bandwidth_bytes_per_s > 0 && (same || claimed == 0)) return in->bandwidth_bytes_per_s;
    *source = "the receipt's own probe";
    return claimed;
}

void bn_check_performance_physical(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    uint64_t total = 0, threads = 0;
    const char *source;
    if (!in->policy->validate_performance) {
        bn_rule_skip(out, "not asked for (--validate-performance)");
        return;
    }
    if (in->receipt->statement == NULL &&
        bn_json_path(in->receipt->predicate, "measurement.kernel_stats") == NULL) {
        bn_rule_skip(out, "no bytes are claimed; the limits by name apply");
        return;
    }
    if (!bn_rule_u64(in, "measurement.total_ns", &total, out) ||
        !bn_rule_u64(in, "resolved.threads", &threads, out)) {
        out->verdict = BN_VERDICT_FAIL;
        return;
    }
    struct work all = sum_work(in, NULL, 0);
    uint64_t bandwidth = choose_bandwidth(in, &source);
    double limit = (double)bandwidth * (double)in->policy->bandwidth_percent / 100;
    double rate = (double)all.bytes * 1e9 / (double)(total == 0 ? 1 : total);
    if (total == 0 || threads == 0 || all.bytes == 0)
        bn_rule_fail(out, "%llu bytes in %llu ns by %llu threads", (ull)all.bytes, (ull)total, (ull)threads);
    else if ((double)all.ops > MAX_OPS_PER_NS * (double)threads * (double)total)
        bn_rule_fail(out, "%.0f multiply-adds a nanosecond and thread: no machine does that",
                     (double)all.ops / (double)total / (double)threads);
    else if (bandwidth == 0)
        bn_rule_fail(out, "no memory rate to hold the bytes against");
    else if (rate > limit)
        bn_rule_fail(out, "%.2f GB/s were read, %.2f are believed (%s)", rate / 1e9, limit / 1e9, source);
    else
        bn_rule_pass(out, "%.2f GB/s, at most %.2f are believed (%s)", rate / 1e9, limit / 1e9, source);
}
