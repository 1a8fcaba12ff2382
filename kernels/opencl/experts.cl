/* SPDX-License-Identifier: MIT
 *
 * Layers with experts, as engine/infer/experts.c has them: the choice of a token's experts, and the sum of what they make.
 * The products are ternary_gemv.
 */

#define LEAST_SUM 0x1p-14f /* of the probabilities that are chosen */
#define CHOSEN -1.0f       /* takes the place of a probability */

/* The better of two experts: the larger probability, of equal ones the lower number. `none` is worse than all. */
static uint better(global const float *p, uint a, uint b, uint none)
{
    if (a == none || b == none) return min(a, b);
    if (p[a] > p[b] || p[b] > p[a]) return p[a] > p[b] ? a : b;
    return min(a, b);
}

/* The logits of row r (a group) become probabilities by slot softmax; its n_used best experts, in the order of their numbers,
 * and their weights are at r * n_used: the probability divided by the sum of those chosen. */
ROWS_KERNEL void choose_experts(global float *router, uint n_experts, uint n_used, global uint *experts,
                                global float *weights)
{
    local real lane[8];
    local float floats[BN_GROUP];
    local uint best[BN_GROUP];
    const uint item = get_local_id(0), team = item / TEAM * TEAM;
    const size_t r = get_group_id(0);
    global float *p = router + r * n_experts;
    experts += r * n_used;
    weights += r * n_used;
    softmax_row(p, n_experts, lane, floats);
    for (uint n = 0; n < n_used; n++) {
        uint mine = n_experts, at = n;
        MEET_ROW;
        for (uint e = item; e < n_experts; e += BN_GROUP)
            if (p[e] != CHOSEN) mine = better(p, mine, e, n_experts);
        best[item] = mine;
        MEET_ROW;
        for (uint i = team; i < team + TEAM; i++)
            mine = better(p, mine, best[i], n_experts);
        MEET_ROW;
        best[item] = mine;
        MEET_ROW;
        if (item == 0) {
            for (uint i = 0; i < BN_GROUP; i += TEAM)
                mine = better(p, mine, best[i], n_experts);
            for (; at > 0 && experts[at - 1] > mine; at--) {
                experts[at] = experts[at - 1];
                weights[at] = weights[at - 1];
            }
            experts[at] = mine;
            weights[at] = p[mine];
            p[mine] = CHOSEN;
        }
    }
    if (item != 0) return;
    real sum = real_of(0.0f);
    for (uint i = 0; i < n_used; i++)
        sum = real_add(sum, real_of(weights[i]));
    float divisor = real_to_float(sum) > LEAST_SUM ? real_to_float(sum) : LEAST_SUM;
    for (uint i = 0; i < n_used; i++)
        weights[i] = weights[i] / divisor;
}

/* y = the sum over a token's experts, ascending, of weight * part. An item has a column of row j. */
kernel void sum_experts(global float *y, uint ldy, global const float *parts, uint ld_parts,
                        global const float *weights, uint n_used, uint width)
{
    const uint column = get_global_id(0);
    const size_t j = get_global_id(1);
    if (column >= width) return;
    float sum = 0.0f;
    for (uint i = 0; i < n_used; i++)
        sum = sum + weights[j * n_used + i] * parts[(j * n_used + i) * ld_parts + column];
    y[j * ldy + column] = sum;
}
