/* SPDX-License-Identifier: MIT
 *
 * Rules about the work of kernels: how many multiply-adds, calls and bytes a generation of
 * this many tokens through a model of this shape must have cost. Whether a machine can do that in the time
 * claimed is at the end.
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
#include "lab/verify/checks.h"

/* A head of fewer than four bits a weight is ternary: the kernels of linear layers multiply it. */
static bool is_ternary_head(const struct bn_claims *k)
{
    return k->model.head_bytes < k->model.n_vocab * k->model.n_embd / 2; /* below 2^50 */
}

bool bn_check_model_shape(const struct bn_check *c)
{
    struct bn_effort e = {0};
    const struct bn_claims *k = c->k;
    if (!bn_shape_read(c, &e)) return false;
    ull q_dim = k->model.n_head * k->model.head_dim, kv_dim = k->model.n_head_kv * k->model.head_dim;
    ull bytes = k->model.ternary_bytes, head = k->model.head_bytes;
    uint64_t layer, weights, head_weights = k->model.n_vocab * k->model.n_embd;
    if (k->model.n_head % k->model.n_head_kv != 0 || k->model.n_rot > k->model.head_dim)
        return FAIL(c, "%llu heads on %llu, %llu of %llu elements rotated", k->model.n_head,
                    k->model.n_head_kv, k->model.n_rot, k->model.head_dim);
    /* Recurrent models have gates besides q. */
    ull mixer = (k->recurrence.layers > 0 ? 3 : 2) * q_dim + 2 * kv_dim;
    ull rows =
        bn_plus(bn_times(e.attention_layers, mixer), bn_times(k->recurrence.layers, e.mixed + 2 * e.inner));
    bool fits = bn_mul_ok(3 * e.hidden, k->model.n_layer, &layer) &&
                bn_mul_ok(k->model.n_embd, bn_plus(rows, layer), &weights);
    if (!fits || weights != k->model.ternary_weights)
        return FAIL(c, "a model of this shape does not have %llu ternary weights", k->model.ternary_weights);
    if (bytes < weights / 5 || bytes / 8 > weights)
        return FAIL(c, "%llu weights in %llu bytes", (ull)weights, bytes);
    /* It is a matrix of the file, of ternary weights or in a type of half a byte to four bytes a weight. */
    if (head % k->model.n_vocab != 0 || head < head_weights / 5 || head > 4 * head_weights)
        return FAIL(c, "a head of %llu rows with %llu weights each in %llu bytes", k->model.n_vocab,
                    k->model.n_embd, head);
    /* A ternary head is counted as it lies in memory, which can be more than in the file. */
    ull least = is_ternary_head(k) ? head_weights / 5 : head;
    if (k->model.bytes < least || k->model.bytes - least < weights / 5)
        return FAIL(c, "a file of %llu bytes cannot hold a head of %llu and %llu ternary weights",
                    k->model.bytes, head, (ull)weights);
    return PASS(c, "%llu ternary weights", (ull)weights);
}

#define SCREEN_ROW_BYTES 12u /* three numbers in binary32 next to each row of the 8-bit copy */

/* ---- the counters ---- */

struct counted {
    uint64_t calls, ns, bytes, ops;
};
static const char *const COUNTERS[] = {"calls", "ns", "bytes", "ops"};

bool bn_check_kernel_stats(const struct bn_check *c)
{
    const bn_json *stats = bn_rule_claim(c, "measurement.kernel_stats");
    if (stats == NULL) return false;
    const bn_json *name = bn_json_first(bn_json_get(c->p, "kernels"));
    if (bn_json_kind(stats) != BN_JSON_ARRAY || bn_json_size(stats) == 0)
        return FAIL(c, "measurement.kernel_stats is empty");
    for (const bn_json *e = bn_json_first(stats); e != NULL; e = bn_json_next(e), name = bn_json_next(name)) {
        const char *counted = NULL, *listed = NULL;
        uint64_t number;
        bool ok = bn_json_string(bn_json_get(e, "name"), &counted);
        for (size_t i = 0; i < BN_ARRAY_LEN(COUNTERS); i++)
            ok = ok && bn_json_u64(bn_json_get(e, COUNTERS[i]), &number);
        if (!ok) return FAIL(c, "an entry of kernel_stats without name, calls, ns, bytes and ops");
        if (!bn_json_string(name, &listed) || strcmp(counted, listed) != 0)
            return FAIL(c, "kernel_stats has \"%s\" where kernels has another", counted);
        if (bn_json_count_of(e, "calls") == 0)
            return FAIL(c, "\"%s\" is listed and was never called", counted);
    }
    if (name != NULL) return FAIL(c, "kernels has more names than kernel_stats");
    return PASS(c, "%zu kernels, each counted", bn_json_size(stats));
}

/* The sum over the kernels of these slots in measurement.kernel_stats; none: over all. Sums that wrap stay at the
 * largest number. */
static struct counted work_sum(const struct bn_check *c, const enum bn_kernel *slots, size_t n_slots)
{
    struct counted sum = {0};
    uint64_t *const sums[] = {&sum.calls, &sum.ns, &sum.bytes, &sum.ops};
    const bn_json *stats = bn_json_path(c->p, "measurement.kernel_stats");
    for (const bn_json *e = bn_json_first(stats); e != NULL; e = bn_json_next(e)) {
        const char *name = bn_json_text_of(e, "name");
        bool wanted = n_slots == 0;
        for (size_t i = 0; i < n_slots; i++)
            if (bn_kernel_is(name, slots[i])) wanted = true;
        for (size_t i = 0; i < BN_ARRAY_LEN(COUNTERS) && wanted; i++) {
            uint64_t value = 0;
            (void)bn_json_u64(bn_json_get(e, COUNTERS[i]), &value);
            *sums[i] = bn_plus(*sums[i], value);
        }
    }
    return sum;
}

#define WORK(c, ...)                                   \
    work_sum(c, (const enum bn_kernel[]){__VA_ARGS__}, \
             sizeof((const enum bn_kernel[]){__VA_ARGS__}) / sizeof(enum bn_kernel))

/* The clocks of a device and of the CPU differ by less than one part in this. */
#define CLOCKS_DIFFER 1000u
/* What a device computes in launches that end with it, so that it has their time. */
static const enum bn_kernel OWN_LAUNCHES[] = {BN_KERNEL_T5_GEMV, BN_KERNEL_TERNARY_GEMV,
                                              BN_KERNEL_TERNARY_GEMM, BN_KERNEL_F16_GEMM, BN_KERNEL_F32_GEMM};

bool bn_check_kernel_time(const struct bn_check *c)
{
    ull total = c->k->measured.total_ns, ns = work_sum(c, NULL, 0).ns;
    if (!bn_rule_needs(c, "measurement.total_ns") || bn_rule_claim(c, "measurement.kernel_stats") == NULL)
        return false;
    if (ns > bn_plus(total, c->device ? total / CLOCKS_DIFFER : 0))
        return FAIL(c, "kernels ran for %llu ns of %llu", ns, total);
    if (ns == 0) return FAIL(c, "kernels took no time");
    for (size_t i = 0; i < BN_ARRAY_LEN(OWN_LAUNCHES) && c->device; i++) {
        struct counted one = work_sum(c, &OWN_LAUNCHES[i], 1);
        if (one.calls > 0 && one.ns == 0)
            return FAIL(c, "%llu calls of %s took no time", (ull)one.calls,
                        bn_kernel_slot_name(OWN_LAUNCHES[i]));
    }
    return PASS(c, "%.1f %% of the time in kernels", 100.0 * (double)ns / (double)total);
}

/* Processes that shared the work, 1 without; at most as many as one can count on. */
static ull ranks(const struct bn_check *c)
{
    ull n = c->k->ranks.count;
    return n > 1 && n <= 4096 ? n : 1;
}

/* Linear layers: seven in a layer, six in a recurrent one. */
static ull linears(const struct bn_check *c, const struct bn_effort *e)
{
    return 7 * e->attention_layers + 6 * c->k->recurrence.layers;
}

/* What passes of one token left out: columns of down and rows of up. */
static bool without_skipped(const struct bn_check *c, ull columns_calls, ull n_single, ull *bytes)
{
    const struct bn_claims *k = c->k;
    ull n_ff = k->model.n_ff, n_embd = k->model.n_embd, calls = columns_calls;
    ull rows = k->work.skipped_rows, columns = k->work.skipped_columns, all = bn_times(calls, n_ff);
    if (!bn_rule_needs(c, "measurement: ?work.skipped_rows ?work.skipped_columns")) return false;
    if (c->device && columns + rows > 0)
        return FAIL(c, "%llu columns and %llu rows skipped: a device skips none", columns, rows);
    if (columns > all || rows > bn_times(bn_times(n_single, k->model.n_layer), n_ff))
        return FAIL(c, "%llu columns and %llu rows skipped, more than there are", columns, rows);
    ull block = BN_I2S_BLOCK, block_bytes = BN_I2S_BLOCK / 4;
    if (k->resolved.packed_bytes > 0) block = BN_T5_BLOCK, block_bytes = BN_T5_BLOCK_BYTES;
    ull down = n_embd * ((n_ff + block - 1) / block * block_bytes),
        row = (n_embd + block - 1) / block * block_bytes;
    ull less = bn_plus(bn_times(calls, down), bn_times(rows, row));
    if (less > *bytes) return FAIL(c, "%llu bytes skipped of %llu", less, *bytes);
    *bytes = bn_plus(*bytes - less, bn_times(all - columns, (n_embd + 3) / 4));
    return true;
}

/* Bytes of ternary weights that all passes read. The kernel for packed weights says which passes of one token had
 * them: copies can be made while tokens are generated. */
static bool ternary_bytes(const struct bn_check *c, const struct bn_effort *e, ull *bytes)
{
    const struct bn_claims *k = c->k;
    ull packed = k->resolved.packed_bytes, calls = WORK(c, BN_KERNEL_T5_GEMV).calls, each = linears(c, e);
    ull columns = WORK(c, BN_KERNEL_COLUMNS_GEMV).calls, all = k->model.ternary_bytes;
    ull of_experts = bn_times(k->model.n_layer, k->experts.used * k->experts.bytes);
    if (of_experts > all) return FAIL(c, "experts of %llu bytes among %llu", of_experts, all);
    *bytes = bn_plus(bn_times(e->work.passes, all - of_experts), bn_times(e->work.experts, k->experts.bytes));
    if (!bn_rule_needs(c, "resolved: ?packed_bytes")) return false;
    if (columns > bn_times(e->work.single, k->model.n_layer))
        return FAIL(c, "%llu calls of columns_gemv for %llu single tokens", columns, (ull)e->work.single);
    if (calls == 0 && packed == 0) return without_skipped(c, columns, e->work.single, bytes);
    calls = bn_plus(calls, columns);
    ull n = each > 0 ? calls / each : 0;
    if (packed < k->model.ternary_weights / 5)
        return FAIL(c, "%llu weights in %llu packed bytes", k->model.ternary_weights, packed);
    if (calls != bn_times(n, each) || n > e->work.single || (n == 0 && e->work.single > 0))
        return FAIL(c, "%llu calls of t5_gemv and columns_gemv, not %llu for each of at most %llu tokens",
                    calls, each, (ull)e->work.single);
    *bytes = bn_plus(bn_times(n, packed), bn_times(e->work.passes - n, all));
    return without_skipped(c, columns, n, bytes);
}

/* The type of the first layer's query matrix and the activations say which kernels ran, and whether groups of at most
 * 256 weights have scales of two bytes. */
static bool type_fits(const struct bn_check *c)
{
    static const char *const TYPES[] = {"TQ1_0", "TQ2_0", "Q2_0", "PQ2_0", "PTQ1_0"};
    const char *type = bn_json_text_of(c->p, "model.quantization");
    ull weights = c->k->model.ternary_weights, bytes = c->k->model.ternary_bytes;
    if (!bn_json_string(bn_json_path(c->p, "model.quantization"), &type)) return true;
    bool groups =
        strncmp(bn_json_text_of(c->p, "model.activations"), "int16-g", 7) == 0 || BN_HAS(TYPES, type);
    if (groups && bytes < weights / 4 + weights / 128)
        return FAIL(c, "model.quantization is \"%s\", whose weights take more than %llu bytes", type, bytes);
    struct counted done = WORK(c, BN_KERNEL_TERNARY_GEMV, BN_KERNEL_TERNARY_GEMM),
                   packed = WORK(c, BN_KERNEL_T5_GEMV);
    return done.calls > 0 || (packed.calls > 0 && !groups) ||
           FAIL(c, "model.quantization is \"%s\", and no kernel for it ran", type);
}

bool bn_check_kernel_work(const struct bn_check *c)
{
    struct bn_effort e = {0};
    const struct bn_claims *k = c->k;
    ull bytes = 0;
    if (!bn_effort_read(c, &e) || !ternary_bytes(c, &e, &bytes)) return false;
    struct counted done =
        WORK(c, BN_KERNEL_T5_GEMV, BN_KERNEL_TERNARY_GEMV, BN_KERNEL_TERNARY_GEMM, BN_KERNEL_COLUMNS_GEMV);
    const bn_work *w = &e.work;
    ull heads = is_ternary_head(k) ? w->heads : 0, head_passes = heads > 0 ? w->head_passes : 0;
    ull skipped =
        bn_plus(k->work.skipped_rows, k->work.skipped_columns); /* each is a row or column of n_embd */
    if (!bn_agrees(c, "multiply-adds of the ternary kernels",
                   bn_plus(done.ops, bn_times(skipped, k->model.n_embd)),
                   bn_plus(bn_times(w->tokens, k->model.ternary_weights),
                           bn_times(heads, k->model.n_vocab * k->model.n_embd))) ||
        !bn_agrees(c, "calls of the ternary kernels", done.calls,
                   bn_plus(bn_times(w->passes, linears(c, &e)), head_passes)) ||
        !bn_agrees(c, "bytes of the ternary kernels", done.bytes,
                   bn_plus(bytes, bn_times(head_passes, k->model.head_bytes))) ||
        !type_fits(c))
        return false;
    if (skipped > 0)
        return PASS(c, "%llu multiply-adds for %llu tokens, %llu rows and %llu columns skipped",
                    (ull)done.ops, (ull)w->tokens, (ull)k->work.skipped_rows, (ull)k->work.skipped_columns);
    return PASS(c, "%llu multiply-adds for %llu tokens in %llu passes", (ull)done.ops, (ull)w->tokens,
                (ull)w->passes);
}

bool bn_check_attention_work(const struct bn_check *c)
{
    struct bn_effort e = {0};
    if (!bn_effort_read(c, &e)) return false;
    struct counted scores = WORK(c, BN_KERNEL_ATTN_SCORES), values = WORK(c, BN_KERNEL_ATTN_VALUES);
    ull want = bn_times(bn_attended(c, &e), c->k->model.head_dim);
    if (!bn_agrees(c, "multiply-adds of attn_scores", scores.ops, want) ||
        !bn_agrees(c, "multiply-adds of attn_values", values.ops, want))
        return false;
    /* Two bytes a value, which a tile of queries may read together. */
    if (scores.bytes != values.bytes || scores.bytes / 2 > want || scores.bytes / 2 < want / BN_QUERIES)
        return FAIL(c, "%llu and %llu bytes for %llu multiply-adds", (ull)scores.bytes, (ull)values.bytes,
                    want);
    /* A call is of one KV head. Those of the first thread of the first rank are counted, which has its part of them. On
     * a device it may be of all heads. */
    if (!bn_rule_needs(c, "resolved.threads")) return false;
    ull parts = c->device ? c->k->model.n_head_kv : bn_times(ranks(c), c->k->resolved.threads);
    ull least = bn_times(bn_times(e.work.passes, e.attention_layers),
                         c->k->model.n_head_kv / (parts > 0 ? parts : 1));
    if (scores.calls != values.calls || scores.calls < least)
        return FAIL(c, "%llu and %llu calls, at least %llu are needed", (ull)scores.calls, (ull)values.calls,
                    least);
    return PASS(c, "%llu multiply-adds each way", want);
}

/* How the logits came about; without a claim, every head was computed row by row. */
static bool read_screen(const struct bn_check *c, const struct bn_effort *e, bn_screen_stat *s)
{
    const struct bn_claims *k = c->k;
    *s = (bn_screen_stat){.full = e->work.head_passes};
    if (!bn_rule_has(c, "measurement.screen")) return true;
    if (!bn_rule_needs(c, "measurement.screen: screened full rows ?heads ?again")) return false;
    *s = (bn_screen_stat){.screened = k->screen.screened,
                          .full = k->screen.full,
                          .rows = k->screen.rows,
                          .heads = bn_rule_has(c, "measurement.screen.heads") ? k->screen.heads
                                                                              : k->screen.screened,
                          .again = k->screen.again};
    if (bn_plus(s->full, s->screened) == e->work.head_passes && s->screened <= s->heads &&
        s->again <= s->heads && bn_plus(s->heads, s->full) <= e->work.heads)
        return true;
    return FAIL(c, "%llu passes screened (%llu heads) and %llu in full, of %llu (%llu heads)",
                (ull)s->screened, (ull)s->heads, (ull)s->full, (ull)e->work.head_passes, (ull)e->work.heads);
}

/* A number between two others stays; else it must be the lower one. */
static ull within(ull n, ull least, ull most)
{
    return n >= least && n <= most ? n : least;
}

/* Takes from the work of the head what small matrices of layers need, which is done by the same kernel: the gates of
 * recurrent layers, or the routers of experts. */
static bool without_gates(const struct bn_claims *k, const struct bn_effort *e, struct counted *full)
{
    ull layers = k->experts.count > 0 ? k->model.n_layer : k->recurrence.layers;
    ull calls = bn_times(e->work.passes, layers);
    ull weights = (k->experts.count > 0 ? k->experts.count : 2 * k->recurrence.value_heads) * k->model.n_embd;
    ull ops = bn_times(bn_times(e->work.tokens, layers), weights);
    ull bytes = bn_times(calls, weights * sizeof(float));
    if (full->calls < calls || full->ops < ops || full->bytes < bytes) return false;
    full->calls -= calls;
    full->ops -= ops;
    full->bytes -= bytes;
    return true;
}

bool bn_check_head_work(const struct bn_check *c)
{
    struct bn_effort e = {0};
    bn_screen_stat screen;
    const struct bn_claims *k = c->k;
    if (!bn_effort_read(c, &e) || !read_screen(c, &e, &screen)) return false;
    ull n_vocab = k->model.n_vocab, n_embd = k->model.n_embd, head_bytes = k->model.head_bytes;
    bool ternary = is_ternary_head(k);
    ull in_full = ternary ? 0 : e.work.heads - screen.heads; /* heads */
    if (c->device && screen.screened + screen.again > 0)
        return FAIL(c, "a device computes all rows of the head, and %llu heads were screened",
                    (ull)screen.heads);
    if (ternary && screen.screened > 0)
        return FAIL(c, "%llu heads screened, but a ternary head is never screened", (ull)screen.screened);
    if (ternary) screen.full = 0; /* its work is that of the ternary kernels */
    struct counted full = WORK(c, BN_KERNEL_F16_GEMM, BN_KERNEL_F32_GEMM),
                   screened = WORK(c, BN_KERNEL_I8_GEMM);
    if (!without_gates(k, &e, &full))
        return FAIL(c, "layers multiply small matrices in f32_gemm, and it did less");
    /* Many heads of one pass are screened in several calls. */
    ull i8_calls = within(screened.calls, screen.screened, screen.heads);
    ull head_calls =
        bn_plus(within(full.calls - screen.again, e.work.head_passes, e.work.heads), screen.again);
    if (!bn_agrees(c, "multiply-adds of the head", full.ops,
                   bn_times(bn_plus(bn_times(in_full, n_vocab), screen.rows), n_embd)) ||
        !bn_agrees(c, "calls of the head", full.calls, ternary ? 0 : head_calls) ||
        !bn_agrees(c, "bytes of the head", full.bytes,
                   bn_plus(bn_times(screen.full, head_bytes), bn_times(screen.rows, head_bytes / n_vocab))) ||
        !bn_agrees(c, "calls of i8_gemm", screened.calls, i8_calls) ||
        !bn_agrees(c, "multiply-adds of i8_gemm", screened.ops, bn_times(screen.heads, n_vocab * n_embd)) ||
        !bn_agrees(c, "bytes of i8_gemm", screened.bytes,
                   bn_times(i8_calls, n_vocab * (n_embd + SCREEN_ROW_BYTES))))
        return false;
    if (ternary) return PASS(c, "%llu ternary heads", (ull)e.work.heads);
    if (screen.screened > 0)
        return PASS(c, "%llu heads screened, %llu of their rows computed, %llu heads in full",
                    (ull)screen.heads, (ull)screen.rows, in_full);
    return PASS(c, "%llu heads in full", in_full);
}

/* ---- the small kernels: norms, positions, activations, sums ---- */

/* What one kind of kernel must have done. */
struct part {
    const char *what;
    struct counted done;
    ull width;   /* elements of a token, in all layers */
    ull calls;   /* of a pass */
    ull n_bytes; /* an element */
    ull once;    /* elements of each pass that ends in the head, which is one more call */
};

static bool part_agrees(const struct bn_check *c, const struct bn_effort *e, const struct part *part)
{
    ull elements = bn_plus(bn_times(e->work.tokens, part->width), bn_times(e->work.heads, part->once));
    const struct {
        const char *of;
        ull claimed, want;
    } COUNTS[] = {{"elements", part->done.ops, elements},
                  {"bytes", part->done.bytes, bn_times(elements, part->n_bytes)},
                  {"calls", part->done.calls,
                   bn_plus(bn_times(e->work.passes, part->calls), part->once > 0 ? e->work.head_passes : 0)}};
    for (size_t i = 0; i < BN_ARRAY_LEN(COUNTS); i++) {
        char what[64];
        snprintf(what, sizeof what, "%s of %s", COUNTS[i].of, part->what);
        if (!bn_agrees(c, what, COUNTS[i].claimed, COUNTS[i].want)) return false;
    }
    return true;
}

/* The rows of the embedding are widened, unless they are stored in binary32. */
static bool embedding_agrees(const struct bn_check *c, const struct bn_effort *e)
{
    struct counted done = WORK(c, BN_KERNEL_F16_TO_F32, BN_KERNEL_BF16_TO_F32, BN_KERNEL_Q8_0_TO_F32,
                               BN_KERNEL_Q6_K_TO_F32, BN_KERNEL_Q4_0_TO_F32);
    ull want = bn_times(e->work.tokens, c->k->model.n_embd);
    if (done.calls == 0) return true;
    if (!bn_agrees(c, "calls of the embedding", done.calls, e->work.passes)) return false;
    if (!bn_agrees(c, "elements of the embedding", done.ops, want)) return false;
    if (done.bytes >= want / 2 && done.bytes / 2 <= want) return true;
    return FAIL(c, "%llu elements of the embedding in %llu bytes", want, (ull)done.bytes);
}

/* The norms of all layers: calls, and elements of a token. */
struct norms {
    ull calls, width;
    bool each_input; /* of each linear layer, so that each quantises its own inputs */
};

/* Two are before attention and the feed-forward part. An architecture may add: one of all heads of q and k; two
 * inside those parts, or one of the inputs of each of the seven linear layers; two of what the parts add. The number
 * of calls tells them apart; with another number the claim is compared with the first row. */
static struct norms norms_of(const struct bn_claims *k, const struct bn_effort *e, ull calls)
{
    ull q_dim = k->model.n_head * k->model.head_dim, kv_dim = k->model.n_head_kv * k->model.head_dim;
    ull heads = q_dim + kv_dim, subs = q_dim + k->model.n_ff, n_embd = k->model.n_embd,
        inputs = 5 * n_embd + subs, post = 2 * n_embd, n_layer = k->model.n_layer;
    const struct norms ROWS[] = {
        {4, subs, false},
        {2, 0, false},
        {3, heads, false},
        {5, heads + post, false},
        {9, inputs, true},
        {10, inputs + heads, true},
        {12, inputs + heads + post, true},
    };
    if (k->recurrence.layers > 0) /* of the heads of both kinds of layers, besides the two */
        return (struct norms){
            3 * n_layer, n_layer * 2 * n_embd + e->attention_layers * heads + k->recurrence.layers * e->inner,
            false};
    struct norms norms = ROWS[0];
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++)
        if (calls == bn_plus(bn_times(e->work.passes, ROWS[i].calls * n_layer), e->work.head_passes))
            norms = ROWS[i];
    norms.width = (norms.width + 2 * n_embd) * n_layer;
    norms.calls *= n_layer;
    return norms;
}

/* The stages of recurrent layers that update their state: the convolution, and three multiply-adds of the gated delta rule
 * for each element of the state and each token. The state is read and written once for each sequence of a pass, so at most
 * once for each token. */
static bool updates_agree(const struct bn_check *c, const struct bn_effort *e)
{
    struct counted delta = WORK(c, BN_KERNEL_DELTA), conv = WORK(c, BN_KERNEL_CONV_SILU);
    /* What speculation repeats, a device does in passes that are not counted. */
    ull passes = bn_plus(e->work.passes, c->device ? 0 : e->updates),
        tokens = bn_plus(e->work.tokens, c->device ? 0 : e->updated_tokens);
    ull n_layers = c->k->recurrence.layers, calls = bn_times(passes, n_layers);
    ull state = bn_times(n_layers, e->inner * c->k->recurrence.head_dim);
    ull taps = bn_times(n_layers, e->mixed * c->k->recurrence.taps);
    if (!bn_agrees(c, "multiply-adds of delta", delta.ops, bn_times(tokens, 3 * state)) ||
        !bn_agrees(c, "calls of delta", delta.calls, calls) ||
        !bn_agrees(c, "elements of conv_silu", conv.ops, bn_times(tokens, taps)) ||
        !bn_agrees(c, "calls of conv_silu", conv.calls, calls) ||
        !bn_agrees(c, "bytes of conv_silu", conv.bytes, 0))
        return false;
    if (delta.bytes >= bn_times(passes, 8 * state) && delta.bytes <= bn_times(tokens, 8 * state)) return true;
    return FAIL(c, "delta: %llu bytes for %llu passes", (ull)delta.bytes, passes);
}

/* Ranks have whole KV heads, and exchange four rows in each layer of each pass: those of attention, of its output, of the
 * activation, of the down projection. */
static bool ranks_agree(const struct bn_check *c, const struct bn_effort *e)
{
    const struct bn_claims *k = c->k;
    ull n_layer = k->model.n_layer,
        row = k->model.n_head * k->model.head_dim + 2 * k->model.n_embd + k->model.n_ff;
    if (!bn_rule_has(c, "measurement.ranks")) return true;
    if (!bn_rule_needs(c, "measurement: total_ns measurement.ranks: count exchanges bytes ns")) return false;
    if (k->ranks.ns > k->measured.total_ns)
        return FAIL(c, "ranks exchanged for %llu ns of %llu", k->ranks.ns, k->measured.total_ns);
    if (k->ranks.count == 0 || k->ranks.count > k->model.n_head_kv || k->recurrence.layers > 0)
        return FAIL(c, "%llu KV heads cannot be divided among %llu ranks", k->model.n_head_kv,
                    k->ranks.count);
    if (k->ranks.exchanges >= bn_times(e->work.passes, 4 * n_layer) &&
        k->ranks.bytes >= bn_times(bn_times(e->work.tokens, n_layer), row * sizeof(float)))
        return true;
    return FAIL(c, "%llu bytes in %llu exchanges are too few for ranks", k->ranks.bytes, k->ranks.exchanges);
}

bool bn_check_layer_work(const struct bn_check *c)
{
    struct bn_effort e = {0};
    const struct bn_claims *k = c->k;
    if (!bn_effort_read(c, &e)) return false;
    ull n_embd = k->model.n_embd, q_dim = k->model.n_head * k->model.head_dim,
        kv_dim = k->model.n_head_kv * k->model.head_dim;
    struct norms n = norms_of(k, &e, WORK(c, BN_KERNEL_RMSNORM).calls);
    ull n_all = k->model.n_layer, n_attend = e.attention_layers, n_recur = k->recurrence.layers;
    ull inputs = n_all * ((n.each_input ? 5 : 2) * n_embd + e.hidden) + n_attend * q_dim + n_recur * e.inner;
    ull rotated = e.rotated_layers * (k->model.n_head + k->model.n_head_kv) * k->model.n_rot;
    ull gated = n_recur > 0 ? n_attend : 0;
    const struct part PARTS[] = {
        {"quantize", WORK(c, BN_KERNEL_QUANTIZE, BN_KERNEL_QUANTIZE16), inputs,
         n_all * (n.each_input ? 7 : 4), 0, 0},
        {"rmsnorm", WORK(c, BN_KERNEL_RMSNORM), n.width, n.calls, 0, n_embd},
        {"rope", WORK(c, BN_KERNEL_ROPE_NEOX, BN_KERNEL_ROPE_NORM), rotated, n_attend, 0, 0},
        {"the activation", WORK(c, BN_KERNEL_RELU2_MUL, BN_KERNEL_SILU_MUL, BN_KERNEL_GELU_MUL),
         n_all * e.hidden + n_recur * e.inner, n_all + n_recur, 0, 0},
        {"add", WORK(c, BN_KERNEL_ADD), n_all * 2 * n_embd, n_all * 2, 0, 0},
        {"f32_to_f16", WORK(c, BN_KERNEL_F32_TO_F16), n_attend * 2 * kv_dim, n_attend, 2, 0},
        {"sigmoid_mul", WORK(c, BN_KERNEL_SIGMOID_MUL), gated * q_dim, gated, 0, 0},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++)
        if (!part_agrees(c, &e, &PARTS[i])) return false;
    /* Those of attention, and probabilities of experts. */
    ull softmax = bn_plus(bn_attended(c, &e), bn_times(e.work.tokens, n_all * k->experts.count));
    if (!bn_agrees(c, "elements of softmax", WORK(c, BN_KERNEL_SOFTMAX).ops, softmax) ||
        !embedding_agrees(c, &e) || !updates_agree(c, &e) || !ranks_agree(c, &e))
        return false;
    if (WORK(c, BN_KERNEL_RESIDUAL, BN_KERNEL_T5_PACK, BN_KERNEL_HAS_CODE3, BN_KERNEL_EXP, BN_KERNEL_TO_PLANE,
             BN_KERNEL_ROTATE, BN_KERNEL_TO_TILES)
            .calls > 0)
        return FAIL(
            c,
            "residual, t5_pack, has_code3, exp, to_plane, to_tiles and rotate are not counted in a generation");
    return PASS(c, "norms, positions, activations and sums of %llu layers", n_all);
}

/* ---- speed ----
 *
 * What no processor can do fails always; what is too fast for a stated or measured rate of memory is a matter of
 * --validate-performance. A rate that is measured here is a lower bound of what this machine can do: other programs may
 * have slowed the measurement down. So it can show that a claim is possible, never that it is false; what it cannot show
 * is undecided. */

/* Per nanosecond and hardware thread, far above any processor. Two units of 512 bits at 6 GHz do 768
 * multiply-adds of 8-bit integers a nanosecond, a matrix unit does more; three loads of 64 bytes a cycle from
 * the first cache at 6 GHz are 1152 bytes. */
#define MAX_OPS_PER_NS 4096.0
#define MAX_BYTES_PER_NS 2048.0
#define DEVICE_THREADS 4096.0 /* no device does more than this many of these threads */

bool bn_check_performance_physical(const struct bn_check *c)
{
    ull total = c->k->measured.total_ns, threads = c->k->resolved.threads;
    if (bn_rule_claim(c, "measurement.kernel_stats") == NULL ||
        !bn_rule_needs(c, "measurement.total_ns resolved: threads"))
        return false;
    struct counted all = work_sum(c, NULL, 0);
    double time = (double)total * (c->device ? DEVICE_THREADS : (double)threads * (double)ranks(c));
    double ops = (double)all.ops / time, bytes = (double)all.bytes / time;
    if (total == 0 || threads == 0 || all.bytes == 0)
        return FAIL(c, "%llu bytes in %llu ns by %llu threads", (ull)all.bytes, total, threads);
    if (ops > MAX_OPS_PER_NS)
        return FAIL(c, "%.0f multiply-adds a nanosecond and thread: no machine does that", ops);
    if (bytes > MAX_BYTES_PER_NS)
        return FAIL(c, "%.0f bytes a nanosecond and thread: no machine reads that", bytes);
    if (c->device)
        return PASS(c, "%.2f bytes and %.2f multiply-adds a nanosecond", bytes * DEVICE_THREADS,
                    ops * DEVICE_THREADS);
    return PASS(c, "%.2f bytes and %.2f multiply-adds a nanosecond and thread", bytes, ops);
}

uint64_t bn_rules_claimed_bandwidth(const struct bn_receipt *receipt)
{
    struct bn_claims claims;
    struct bn_rules_input in = {.receipt = receipt};
    struct bn_check c = bn_check_open(&claims, &in, NULL);
    double total = (double)claims.measured.total_ns;
    double rate = total > 0 ? (double)work_sum(&c, NULL, 0).bytes * 1e9 / total : 0;
    return rate < 9e18 ? (uint64_t)rate : UINT64_MAX;
}

/* The rate to compare with, and where it comes from. On another CPU the measurement says little, and the
 * signer's own probe counts if there is one. Neither is of the memory of a device. */
static uint64_t choose_bandwidth(const struct bn_check *c, const char **source)
{
    uint64_t claimed = bn_json_count_of(c->p, "measurement.bandwidth_probe_bytes_per_s");
    *source = "the memory of a device is not measured";
    if (c->device) return 0;
    bool same = c->in->cpu_model != NULL && bn_json_text_is(c->p, "machine.cpu_model", c->in->cpu_model);
    *source = same ? "measured here, same CPU" : "measured here, another CPU";
    if (same || claimed <= c->in->bandwidth_bytes_per_s) return c->in->bandwidth_bytes_per_s;
    *source = "the receipt's own probe";
    return claimed;
}

bool bn_check_performance_measured(const struct bn_check *c)
{
    const char *source = "the policy's rate";
    if (!c->in->policy->validate_performance) return SKIP(c, "not asked for (--validate-performance)");
    if (c->bare && bn_json_path(c->p, "measurement.kernel_stats") == NULL)
        return SKIP(c, "no bytes are claimed");
    uint64_t stated = c->in->policy->bandwidth_bytes_per_s,
             bandwidth = stated > 0 ? stated : choose_bandwidth(c, &source);
    double limit =
        (double)bandwidth * (double)c->in->policy->bandwidth_percent / 100 / 1e9 * (double)ranks(c);
    double rate = (double)bn_rules_claimed_bandwidth(c->in->receipt) / 1e9;
    if (!(rate > 0)) return FAIL(c, "no bytes are claimed");
    if (rate <= limit) return PASS(c, "%.2f GB/s, at most %.2f are believed (%s)", rate, limit, source);
    if (stated > 0)
        return FAIL(c, "%.2f GB/s were read, at most %.2f are believed (%s)", rate, limit, source);
    return UNDECIDED(c,
                     "%.2f GB/s were read, %.2f can be shown to be possible (%s); "
                     "bandwidth_bytes_per_s in a policy decides",
                     rate, limit, source);
}
