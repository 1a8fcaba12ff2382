/* SPDX-License-Identifier: MIT
 *
 * Layers of the gated delta rule, as engine/infer/recurrent.c has them: gates, the convolution, the lengths of heads, the
 * rule, the gates of its outputs. `states` has the states of all sequences; layer_at is where a part of the layer's
 * state begins in that of a sequence. The rows of a sequence in a batch, a run, are neighbours.
 */

/* log(1 + e), 0 <= e <= 1: 2 atanh(e / (2 + e)) by its series. */
static real log_1_plus(real e)
{
    real s = real_div(e, real_add(real_of(2.0f), e)), z = real_mul(s, s), sum = real_of(0.0f);
    for (int n = 19; n > 0; n -= 2)
        sum = real_add(real_mul(sum, z), real_div(real_of(1.0f), real_of((float)n)));
    return real_mul(real_mul(real_of(2.0f), s), sum);
}

/* Row j of gates: n_heads products with alpha, which become decays: exp(a * softplus(x + dt)); and as many with beta, which
 * become 1 / (1 + exp(-x)). An item has a head of a row. */
kernel void make_gates(global float *gates, uint n, uint n_heads, global const float *a,
                       global const float *dt)
{
    const uint i = get_global_id(0), h = i % n_heads;
    if (i >= n * n_heads) return;
    global float *decay = gates + (size_t)(i / n_heads) * 2 * n_heads + h, *beta = decay + n_heads;
    float x = *decay + dt[h], e = exp_of(-fabs(x));
    float softplus = real_to_float(real_add(real_of(x > 0.0f ? x : 0.0f), log_1_plus(real_of(e))));
    *decay = exp_of(a[h] * softplus);
    *beta = sigmoid_times(1.0f, *beta);
}

/* Slot conv_silu for item (column, row j). The oldest taps of a run's first rows are in the state. */
kernel void convolve(global float *conv, uint ld_conv, global const float *mix, uint ld_mix,
                     global const float *weights, global const struct row *rows, global const float *states,
                     uint layer_at, uint taps, uint width)
{
    const uint column = get_global_id(0), j = get_global_id(1);
    if (column >= width) return;
    const struct row row = rows[j];
    global const float *state = states + row.state + layer_at;
    float c = 0.0f;
    for (uint t = 0; t < taps; t++) {
        uint at = row.before + t; /* rows of the run, after the taps - 1 of the state */
        float x = at + 1 < taps ? state[(size_t)at * width + column]
                                : mix[(size_t)(j + t + 1 - taps) * ld_mix + column];
        c = c + weights[(size_t)t * width + column] * x;
    }
    conv[(size_t)j * ld_conv + column] = sigmoid_times(c, c);
}

/* The last taps - 1 rows of each run become the state. Ascending: they may be in the state. An item has a column of the last
 * row of a run. */
kernel void keep_rows(global float *states, global const float *mix, uint ld_mix,
                      global const struct row *rows, uint layer_at, uint taps, uint width)
{
    const uint column = get_global_id(0), j = get_global_id(1);
    const struct row row = rows[j];
    if (column >= width || row.after != 0) return;
    global float *state = states + row.state + layer_at;
    for (uint i = 0; i + 1 < taps; i++) {
        uint at = row.before + 1 + i;
        state[(size_t)i * width + column] = at + 1 < taps ? state[(size_t)at * width + column]
                                                          : mix[(size_t)(j + 2 + i - taps) * ld_mix + column];
    }
}

/* x / max(|x|, eps) * factor of each head of q, whose factor is of_q, and of k, after each other. A group has a head. */
ROWS_KERNEL void normalise_heads(global float *conv, uint ld_conv, uint n_keys, uint d, float eps, float of_q)
{
    local real lane[8];
    const uint head = get_group_id(0) % (2 * n_keys);
    const float factor = head < n_keys ? of_q : 1.0f;
    conv += (size_t)(get_group_id(0) / (2 * n_keys)) * ld_conv + head * d;
    float length = sqrt(real_to_float(sum_squares(conv, d, lane)));
    float r = 1.0f / (length > eps ? length : eps);
    for (uint i = get_local_id(0); i < d; i += BN_GROUP)
        conv[i] = conv[i] * r * factor;
}

/* Where the output of a value head is among the inputs of the next matrix. */
static uint place_of(uint head, uint n_keys, uint n_heads, uint grouped)
{
    return grouped != 0 ? head % n_keys * (n_heads / n_keys) + head / n_keys : head;
}

/* Slot delta: an item has a column of a value head and walks over a run, from its first row on. */
kernel void delta(global float *states, uint layer_at, global const struct row *rows,
                  global const float *conv, uint ld_conv, global const float *gates, global float *att,
                  uint ld_att, uint n_keys, uint n_heads, uint d, uint grouped)
{
    const uint at = get_global_id(0), head = at / d, column = at % d, first = get_global_id(1);
    if (at >= n_heads * d || rows[first].before != 0) return;
    global float *state = states + rows[first].state + layer_at + (size_t)head * d * d + column;
    for (uint j = first; j <= first + rows[first].after; j++) {
        global const float *q = conv + (size_t)j * ld_conv + head % n_keys * d, *k = q + n_keys * d;
        global const float *v = conv + (size_t)j * ld_conv + (2 * n_keys + head) * d + column;
        const float decay = gates[(size_t)j * 2 * n_heads + head];
        float predicted = 0.0f, o = 0.0f;
        for (uint i = 0; i < d; i++)
            predicted = fma(state[(size_t)i * d] * decay, k[i], predicted);
        float u = gates[(size_t)j * 2 * n_heads + n_heads + head] * (*v - predicted);
        for (uint i = 0; i < d; i++) {
            float s = fma(k[i], u, state[(size_t)i * d] * decay);
            state[(size_t)i * d] = s;
            o = fma(s, q[i], o);
        }
        att[(size_t)j * ld_att + place_of(head, n_keys, n_heads, grouped) * d + column] = o;
    }
}

/* Slots rmsnorm and then silu_mul with z of the output of each value head, in place. A group has a head of a row. */
ROWS_KERNEL void gate_heads(global float *att, uint ld_att, global const float *z, uint ld_z, uint z_at,
                            global const float *norm, uint d, uint n_heads, uint n_keys, uint grouped,
                            float eps)
{
    local real lane[8];
    const uint head = get_group_id(0) % n_heads;
    const size_t r = get_group_id(0) / n_heads;
    att += r * ld_att + place_of(head, n_keys, n_heads, grouped) * d;
    z += r * ld_z + z_at + head * d;
    norm_row(att, att, norm, d, eps, lane);
    for (uint i = get_local_id(0); i < d; i += BN_GROUP)
        att[i] = activate(SILU_MUL, z[i], att[i]);
}
