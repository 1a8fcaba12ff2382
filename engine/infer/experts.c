/* SPDX-License-Identifier: MIT
 *
 * The feed-forward half of a layer with experts (Shazeer et al., "Outrageously large neural networks", 2017; the form of
 * Maple). For each token, h its normalised input:
 *
 *     p = softmax(Wrouter h);  the n_used experts of the largest p are chosen, of equal ones those of lower numbers
 *     w_e = p_e / max(the sum of the chosen p, 2^-14)
 *     x = x + the sum over the chosen e of w_e Wdown_e (silu(min(Wgate_e h, limit)) * clamp(Wup_e h, limit))
 *
 * The sum begins at 0 and adds expert after expert in the order of their numbers, whatever batch a token comes in. The
 * tokens of a batch are grouped by expert, so that each expert's weights are read once in a pass. Rows of matrices are
 * divided among the threads; every thread orders the pairs of tokens and experts for itself.
 */
#include "infer/pass.h"
#include "model/weights.h"

#define LEAST_SUM 0x1p-14f /* of the probabilities that are chosen, as in llama.cpp */

/* ---- the choice ---- */

static void multiply_router(const struct pass *p, const struct bn_layer *l, const float *inputs)
{
    size_t n = p->m->hp.experts.n, k = p->m->hp.n_embd, from, to;
    my_share(p, n, BN_ROW_GRAIN, &from, &to);
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_ROUTER);
    if (from < to)
        p->kernels->f32_gemm(p->s->router + from, n, l->router + from * k, to - from, k, inputs, k, p->n);
    stage_end(p, brick, BN_KERNEL_F32_GEMM, (to - from) * k * sizeof(float), shape(to - from, k, p->n));
}

void bn_choose_experts(const struct bn_experts *experts, float *p, uint32_t *chosen, float *weights)
{
    for (uint32_t i = 0; i < experts->n_used; i++) {
        uint32_t best = 0, at = i;
        for (uint32_t e = 1; e < experts->n; e++)
            if (p[e] > p[best] || p[best] == -1.0f) best = e;
        for (; at > 0 && chosen[at - 1] > best; at--) {
            chosen[at] = chosen[at - 1];
            weights[at] = weights[at - 1];
        }
        chosen[at] = best;
        weights[at] = p[best];
        p[best] = -1.0f;
    }
    double sum = 0.0;
    for (uint32_t i = 0; i < experts->n_used; i++)
        sum += (double)weights[i];
    float divisor = (float)sum > LEAST_SUM ? (float)sum : LEAST_SUM;
    for (uint32_t i = 0; i < experts->n_used; i++)
        weights[i] = weights[i] / divisor;
}

static void choose_experts(const struct pass *p)
{
    const struct bn_experts *experts = &p->m->hp.experts;
    struct bn_session *s = p->s;
    size_t from = 0, to = 1, own = own_row(p), k = experts->n_used;
    if (p->n > 1) my_share(p, p->n, 1, &from, &to);
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_ROUTER);
    for (size_t j = from; j < to; j++) {
        float *row = s->probabilities + (own + j) * experts->n;
        memcpy(row, s->router + j * experts->n, experts->n * sizeof *row);
        p->kernels->softmax(row, experts->n);
        bn_choose_experts(experts, row, s->pair_experts + (own + j) * k, s->pair_weights + (own + j) * k);
    }
    stage_end(p, brick, BN_KERNEL_SOFTMAX, 0,
              shape(p->n > 1 || p->thread == 0 ? to - from : 0, experts->n, 1));
}

/* Orders all pairs. */
static const struct bn_route *make_route(const struct pass *p)
{
    const struct bn_experts *experts = &p->m->hp.experts;
    size_t k = experts->n_used, n_pairs = p->n * k, read = 0;
    const uint32_t *chosen = p->s->pair_experts + own_row(p) * k;
    const float *weights = p->s->pair_weights + own_row(p) * k;
    struct bn_route *route = &p->s->routes[p->thread];
    struct bn_brick_timer brick = brick_begin(p, BN_BRICK_ROUTER);
    memset(route->first, 0, (experts->n + 1u) * sizeof *route->first);
    for (size_t i = 0; i < n_pairs; i++)
        route->first[chosen[i] + 1]++;
    for (uint32_t e = 0; e < experts->n; e++) {
        read += route->first[e + 1] > 0;
        route->first[e + 1] += route->first[e];
    }
    for (size_t i = 0; i < n_pairs; i++) {
        uint32_t at = route->first[chosen[i]]++;
        route->tokens[at] = (uint32_t)(i / k);
        route->weights[at] = weights[i];
    }
    for (uint32_t e = experts->n; e > 0; e--)
        route->first[e] = route->first[e - 1];
    route->first[0] = 0;
    if (p->thread == 0) p->s->run.n_experts += read;
    brick_end(brick, p->thread == 0 ? n_pairs : 0); /* every thread makes the same ones */
    return route;
}

/* ---- gate and up ---- */

/* The rows of gate and up of this thread: all tiles of all experts in use, a tile counted once for each of its tokens,
 * are divided evenly. */
struct walk {
    const struct bn_route *route;
    size_t from, to, at; /* of tiles */
    uint32_t expert;     /* the next one */
};

static struct walk begin_walk(const struct pass *p, const struct bn_route *route)
{
    struct walk w = {.route = route};
    size_t n_tiles = p->m->hp.n_ff / BN_TILE_ROWS;
    my_share(p, p->n * p->m->hp.experts.n_used * n_tiles, 1, &w.from, &w.to);
    return w;
}

/* Rows from..to of an expert, for the n pairs from `first` on. */
struct piece {
    uint32_t expert;
    size_t first, n, from, to;
};

/* A tile is of the thread in whose share its first count is. */
static size_t tiles_before(size_t share, size_t at, size_t n, size_t n_tiles)
{
    return share <= at ? 0 : bn_min_size((share - at + n - 1) / n, n_tiles);
}

static bool next_piece(const struct pass *p, struct walk *w, struct piece *out)
{
    size_t n_tiles = p->m->hp.n_ff / BN_TILE_ROWS;
    while (w->expert < p->m->hp.experts.n && w->at < w->to) {
        uint32_t e = w->expert++;
        size_t first = w->route->first[e], n = w->route->first[e + 1] - first, at = w->at;
        if (n == 0) continue;
        w->at += n * n_tiles;
        *out = (struct piece){e, first, n, tiles_before(w->from, at, n, n_tiles) * BN_TILE_ROWS,
                              tiles_before(w->to, at, n, n_tiles) * BN_TILE_ROWS};
        if (out->from < out->to) return true;
    }
    return false;
}

/* The inputs of an expert's tokens after each other. */
static const struct bn_act *gather(const struct pass *p, const struct bn_route *route, const struct piece *at)
{
    if (p->n == 1) return p->s->act + p->thread;
    for (size_t i = 0; i < at->n; i++)
        route->act[i] = p->s->act[route->tokens[at->first + i]];
    return route->act;
}

/* y = W h for this thread's rows: a row of n_ff for each pair. */
static void project(const struct pass *p, enum bn_brick kind, const struct bn_linear *lin,
                    const struct bn_route *route, float *y)
{
    size_t n_ff = p->m->hp.n_ff, n_rows = 0, n_made = 0;
    struct walk walk = begin_walk(p, route);
    struct piece at;
    enum bn_kernel slot = p->n == 1 ? BN_KERNEL_TERNARY_GEMV : BN_KERNEL_TERNARY_GEMM;
    struct bn_brick_timer brick = stage_begin(p, kind);
    while (next_piece(p, &walk, &at)) {
        struct bn_ternary part =
            bn_ternary_part(&lin->w, at.expert * n_ff + at.from, at.expert * n_ff + at.to);
        const struct bn_act *act = gather(p, route, &at);
        bn_multiply_ternary(p, &part, act, y + at.first * n_ff + at.from, n_ff, at.n);
        n_rows += part.rows;
        n_made += part.rows * at.n;
    }
    stage_end(p, brick, slot, n_rows * lin->row_bytes, shape(n_made, lin->k, 1));
    tell_dispatch(p, lin, slot);
}

static void limit_both(float *gate, float *up, size_t n, float limit)
{
    for (size_t i = 0; i < n; i++) {
        gate[i] = gate[i] > limit ? limit : gate[i];
        up[i] = up[i] > limit ? limit : up[i];
        up[i] = up[i] < -limit ? -limit : up[i];
    }
}

static void activate(const struct pass *p, const struct bn_route *route)
{
    size_t n_ff = p->m->hp.n_ff, n_made = 0;
    struct walk walk = begin_walk(p, route);
    struct piece at;
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_ACTIVATION);
    while (next_piece(p, &walk, &at))
        for (size_t i = at.first; i < at.first + at.n; i++) {
            float *gate = p->s->gate + i * n_ff + at.from, *up = p->s->up + i * n_ff + at.from;
            size_t n = at.to - at.from;
            limit_both(gate, up, n, p->m->hp.experts.limit);
            p->kernels->silu_mul(gate, gate, up, n);
            n_made += n;
        }
    stage_end(p, brick, BN_KERNEL_SILU_MUL, 0, shape(1, n_made, 1));
}

/* ---- down ---- */

/* The inputs of down, a row for each pair. The pairs of a single token are quantised by every thread for itself. */
static void quantize_pairs(const struct pass *p, const struct bn_linear *down)
{
    size_t k = p->m->hp.experts.n_used, n_ff = p->m->hp.n_ff, from = 0, to = k, own = own_row(p) * k;
    if (p->n > 1) my_share(p, p->n * k, 1, &from, &to);
    size_t n_counted = p->n > 1 || p->thread == 0 ? to - from : 0;
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_ACTIVATION_QUANTIZE);
    const float *inputs = p->s->gate;
    bool finite = bn_all_finite(inputs + from * n_ff, (to - from) * n_ff);
    if (!finite) p->s->run.bad_row = true;
    for (size_t i = from; i < to; i++)
        bn_quantize_row(p, own + i, inputs + i * n_ff, down, finite);
    stage_end(p, brick, p->m->wide ? BN_KERNEL_QUANTIZE16 : BN_KERNEL_QUANTIZE, 0, shape(n_counted, n_ff, 1));
    if (p->n > 1) meet(p);
}

/* y += weight x, with a rounding for the product and one for the sum. */
static void add_weighted(float *y, const float *x, float weight, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] + weight * x[i];
}

/* y = the weighted sum of what the experts of each token make, for this thread's rows. */
static void sum_experts(const struct pass *p, const struct bn_linear *down, const struct bn_route *route)
{
    size_t embd = p->m->hp.n_embd, own = own_row(p) * p->m->hp.experts.n_used, from, to, n_rows = 0,
           n_made = 0;
    enum bn_kernel slot = p->n == 1 ? BN_KERNEL_TERNARY_GEMV : BN_KERNEL_TERNARY_GEMM;
    my_share(p, embd, BN_ROW_GRAIN, &from, &to);
    size_t width = to - from;
    float *made = p->s->expert_y + p->n * from;
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_DOWN_PROJECTION);
    for (size_t j = 0; j < p->n; j++)
        memset(p->s->y + j * embd + from, 0, width * sizeof(float));
    for (uint32_t e = 0; e < p->m->hp.experts.n && width > 0; e++) {
        size_t first = route->first[e], n = route->first[e + 1] - first;
        if (n == 0) continue;
        struct bn_ternary part = bn_ternary_part(&down->w, e * embd + from, e * embd + to);
        const struct bn_act *act = p->s->act + own + first;
        bn_multiply_ternary(p, &part, act, made, width, n);
        for (size_t i = 0; i < n; i++) {
            float *y = p->s->y + route->tokens[first + i] * embd + from, weight = route->weights[first + i];
            add_weighted(y, made + i * width, weight, width);
        }
        n_rows += width;
        n_made += width * n;
    }
    stage_end(p, brick, slot, n_rows * down->row_bytes, shape(n_made, down->k, 1));
    tell_dispatch(p, down, slot);
}

/* The inputs of down, the experts of each token after each other. up, which is not read any more, takes them. */
static void trace_activation(const struct pass *p, uint32_t n, const struct bn_route *route)
{
    size_t k = p->m->hp.experts.n_used, n_ff = p->m->hp.n_ff;
    const uint32_t *chosen = p->s->pair_experts + own_row(p) * k;
    if (p->s->trace == NULL) return;
    for (uint32_t e = 0; e < p->m->hp.experts.n && p->thread == 0; e++)
        for (size_t i = route->first[e]; i < route->first[e + 1]; i++) {
            size_t to = route->tokens[i] * k;
            while (chosen[to] != e)
                to++;
            memcpy(p->s->up + to * n_ff, p->s->gate + i * n_ff, n_ff * sizeof(float));
        }
    bn_trace_layer(p, "ffn_act", n, p->s->up, k * n_ff);
}

void bn_layer_experts(const struct pass *p, uint32_t n)
{
    struct bn_session *s = p->s;
    const struct bn_layer *l = &p->m->layers[n];
    const bn_hparams *hp = &p->m->hp;
    const float *inputs = bn_norm_rows(p, "ffn_norm", n, s->x, s->norm, l->ffn_norm, hp->n_embd);
    bn_prepare_inputs(p, "ffn_gate_norm_in", n, inputs, s->norm_in, &l->gate);
    multiply_router(p, l, inputs);
    bn_trace_layer(p, "router", n, s->router, hp->experts.n);
    meet(p);
    choose_experts(p);
    bn_trace_layer(p, "expert_weights", n, s->pair_weights, hp->experts.n_used);
    if (p->n > 1) meet(p);
    const struct bn_route *route = make_route(p);
    project(p, BN_BRICK_GATE_PROJECTION, &l->gate, route, s->gate);
    project(p, BN_BRICK_UP_PROJECTION, &l->up, route, s->up);
    activate(p, route);
    meet(p);
    trace_activation(p, n, route);
    quantize_pairs(p, &l->down);
    sum_experts(p, &l->down, route);
    bn_trace_layer(p, "down", n, s->y, hp->n_embd);
    bn_add_residual(p, "post_ffw_norm", n, NULL);
    bn_trace_layer(p, "ffn_res", n, s->x, hp->n_embd);
    meet(p);
}
