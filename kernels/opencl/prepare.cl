/* SPDX-License-Identifier: MIT
 *
 * Between two matrices: the residual sum, the activation function, the norm, the rotation, and the activations in 8 or
 * 16 bits, in one launch. A group of work-items has a row.
 */

/* Slot rotate, forward: x becomes what `from` holds, rotated. Nothing when the block is 0. */
INLINE void rotate_row(global float *x, global const float *from, global const float *signs, uint n,
                       uint block)
{
    uint log2 = block != 0 ? 31 - clz(block) : 0;
    float factor = as_float((127 - log2 / 2) << 23) * (log2 % 2 != 0 ? 0x1.6a09e6p-1f : 1.0f);
    if (block == 0) n = 0;
    for (uint i = get_local_id(0); i < n; i += BN_GROUP)
        x[i] = signs != NULL ? from[i] * signs[i] : from[i];
    for (uint reach = 1; reach < block; reach *= 2) {
        MEET_ROW;
        for (uint i = get_local_id(0); i < n / 2; i += BN_GROUP) {
            uint at = i / reach * reach * 2 + i % reach;
            float a = x[at], b = x[at + reach];
            x[at] = a + b;
            x[at + reach] = a - b;
        }
    }
    MEET_ROW;
    for (uint i = get_local_id(0); i < n; i += BN_GROUP)
        x[i] *= factor;
    MEET_ROW;
}

static uint in_plane(uint i)
{
    return i / 16 * 16 + i % 4 * 4 + i % 16 / 4;
}

/* Slot quantize, and zeros up to padded. Nothing when n is 0. */
INLINE void quantize_row(global char *q, global float *scale, global int *total, global const float *x,
                         uint n, uint padded, bool finite, local float *floats, local int *ints)
{
    uint item = get_local_id(0);
    float most = 0.0f;
    int sum = 0;
    for (uint i = item; i < n; i += BN_GROUP)
        most = fabs(x[i]) > most ? fabs(x[i]) : most;
    real amax = real_of(group_max(most, floats)), least = real_of_bits(0x3EE4F8B588E368F1ul);
    float s = real_to_float(real_div(real_of(127.0f), real_is_above(amax, least) ? amax : least)); /* 1e-5 */
    for (uint i = item; n > 0 && i < padded; i += BN_GROUP) {
        float v = finite && i < n ? rint(x[i] * s) : 0.0f;
        v = v < 127.0f ? v : 127.0f;
        v = v > -127.0f ? v : -127.0f;
        q[i] = (char)v;
        sum += (int)v;
    }
    sum = group_sum(sum, ints);
    if (item == 0 && n > 0) {
        *scale = finite ? s : 1.0f;
        *total = sum;
    }
    MEET_ROW;
}

/* Slots quantize16 (q is NULL) and to_plane. A team of items has a group of values; teams without one do as if. */
INLINE void make_planes(global char *high, global char *low, global float *step, global int *sum,
                        global const float *x, global const char *q, uint n, uint group, bool finite,
                        local float *floats, local int *ints)
{
    uint item = get_local_id(0), n_groups = group != 0 ? n / group : 0;
    for (uint first = 0; first < n_groups; first += BN_GROUP / TEAM) {
        uint g = first + item / TEAM, end = g < n_groups ? (g + 1) * group : 0,
             from = g * group + item % TEAM;
        float amax = 0x1p-100f;
        int total = 0;
        for (uint i = from; q == NULL && i < end; i += TEAM)
            amax = fabs(x[i]) > amax ? fabs(x[i]) : amax;
        float power = as_float(as_uint(team_max(amax, floats)) & INFINITE);
        for (uint i = from; i < end; i += TEAM) {
            int v = 0;
            if (q != NULL) {
                v = q[i];
            } else {
                float rounded = finite ? rint(x[i] * (8192.0f / power)) : 0.0f;
                v = (int)(rounded < 16384.0f ? rounded : 16384.0f); /* more only when it is a NaN */
                high[in_plane(i)] = (char)((v + 128) >> 8);
            }
            low[in_plane(i)] = (char)(((v + 128) & 255) - 128);
            total += v;
        }
        total = team_sum(total, ints);
        if (item % TEAM == 0 && g < n_groups) {
            sum[g] = total;
            if (q == NULL) step[g] = finite ? power / 8192.0f : 0.0f;
        }
    }
}

/* Steps that a NULL or a 0 leaves out, in this order, for row r (a group) of the batch:
 *   row i of x, i = index[r], or r; row i of add = rmsnorm of itself (add_norm); x += it, written back
 *   x = slot relu2_mul, silu_mul or gelu_mul of x and the values up_at after it, written back; both at most limit,
 *   the second at least -limit
 *   row r of out = slot rmsnorm of x
 *   row r of rotated = slot rotate of what came before
 *   the last of these as activations: bits 8 slot quantize, and to_plane with a group; bits 16 slot quantize16
 * *bad becomes 1 when what is quantised, as it is before the rotation, is not finite; then the activations are zeros.
 * With bits 0 what came out last counts. */
ROWS_KERNEL void prepare(global float *x, uint ldx, global const uint *index, global float *add, uint ld_add,
                         global const float *add_norm, uint up_at, uint activation, float limit,
                         global const float *norm, global float *out, uint ld_out, global const float *signs,
                         uint block, global float *rotated, uint ld_rotated, uint bits, global char *high,
                         global char *low, global float *step, global int *sum, global float *scale,
                         global int *total, uint width, uint padded, uint group, float eps, global int *bad)
{
    local real lane[8];
    local float floats[BN_GROUP];
    local int ints[BN_GROUP];
    const uint item = get_local_id(0);
    const size_t r = get_group_id(0);
    int not_finite = 0;
    const size_t i_x = index != NULL ? index[r] : r;
    x += i_x * ldx;
    add += add != NULL ? i_x * ld_add : 0;
    norm_row(add, add, add_norm, width, eps, lane);
    for (uint i = item; add != NULL && i < width; i += BN_GROUP)
        x[i] += add[i];
    for (uint i = item; activation != 0 && i < width; i += BN_GROUP) {
        float gate = x[i] > limit ? limit : x[i], up = x[up_at + i] > limit ? limit : x[up_at + i];
        x[i] = activate(activation, gate, up < -limit ? -limit : up);
    }
    global const float *last = x;
    norm_row(out + r * ld_out, x, norm, width, eps, lane);
    if (norm != NULL) last = out + r * ld_out;
    for (uint i = item; i < width; i += BN_GROUP)
        not_finite |= !is_finite(last[i]);
    const bool finite = group_sum(not_finite, ints) == 0;
    if (!finite && item == 0) *bad = 1;
    rotate_row(rotated + r * ld_rotated, last, signs, width, block);
    if (block != 0) last = rotated + r * ld_rotated;
    high += r * padded;
    low += r * padded;
    step += r * (padded / 64);
    sum += r * (padded / 64);
    quantize_row(high, scale + r, total + r, last, bits == 8 ? width : 0, padded, finite, floats, ints);
    make_planes(high, low, step, sum, last, bits == 8 ? high : NULL, bits == 8 ? padded : width,
                bits != 0 ? group : 0, finite, floats, ints);
    if (bits == 16 && item == 0) scale[r] = 1.0f;
}
