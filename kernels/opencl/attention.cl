/* SPDX-License-Identifier: MIT
 *
 * Attention: positions and the storing of keys and values, scores, softmax, the weighted sum of values. Queries are
 * counted token by token from the token `first` on, and within a token head by head; a query has a row of scores.
 */

/* Where head h of layer nth of a sequence begins in a cache, of which it has n heads. */
static size_t head_in_cache(struct row row, uint nth, uint n, uint h, uint d)
{
    return row.cache + ((size_t)nth * n + h) * row.cache_rows * d;
}

/* Element e of position p in tiles of keys. */
static size_t in_keys(uint p, uint e, uint d)
{
    return ((size_t)(p / 16) * d + e) * 16 + p % 16;
}

/* The first position that a token sees; the last one is its own. */
static uint first_seen(struct row row, uint window)
{
    return window != 0 && row.position + 1 > window ? row.position + 1 - window : 0;
}

enum { ROPE_NONE, ROPE_NEOX, ROPE_NORM };

/* A group has head h of row j, group id j * (n_head + n_kv) + h, the heads of k after those of q: slot rmsnorm unless the
 * norm is NULL; slot rope_neox or rope_norm; both in place; then for heads of k slot f32_to_f16 of k and v into the
 * caches. */
ROWS_KERNEL void rope_store(global float *qkv, uint ld, uint q_stride, uint k_at, uint v_at,
                            global const struct row *rows, global const float *cosines,
                            global const float *sines, global ushort *k_cache, global ushort *v_cache,
                            uint nth, uint n_head, uint n_kv, uint d, uint n_rot, uint rope,
                            global const float *q_norm, global const float *k_norm, float eps)
{
    local real lane[8];
    const uint item = get_local_id(0), j = get_group_id(0) / (n_head + n_kv);
    const uint head = get_group_id(0) % (n_head + n_kv), h = head < n_head ? head : head - n_head;
    const bool is_q = head < n_head;
    const struct row row = rows[j];
    global const float *norm = is_q ? q_norm : k_norm;
    global float *x = qkv + (size_t)j * ld + (is_q ? h * q_stride : k_at + h * d);
    norm_row(x, x, norm, d, eps, lane);
    cosines += (size_t)row.position * (n_rot / 2);
    sines += (size_t)row.position * (n_rot / 2);
    for (uint i = item; rope != ROPE_NONE && i < n_rot / 2; i += BN_GROUP) {
        uint first = rope == ROPE_NEOX ? i : 2 * i, second = rope == ROPE_NEOX ? i + n_rot / 2 : 2 * i + 1;
        float a = x[first], b = x[second];
        x[first] = a * cosines[i] - b * sines[i];
        x[second] = a * sines[i] + b * cosines[i];
    }
    MEET_ROW;
    if (is_q) return;
    global const float *v = qkv + (size_t)j * ld + v_at + h * d;
    const size_t cell = head_in_cache(row, nth, n_kv, h, d);
    for (uint e = item; e < d; e += BN_GROUP) {
        k_cache[cell + in_keys(row.position, e, d)] = narrow(x[e]);
        v_cache[cell + (size_t)row.position * d + e] = narrow(v[e]);
    }
}

/* Slot attn_scores for item (position, query), of the positions that the token of the query sees. */
kernel void attn_scores(global float *scores, uint ld_s, global const float *qkv, uint ld, uint q_stride,
                        global const struct row *rows, global const ushort *k_cache, uint nth, uint n_head,
                        uint n_kv, uint d, float factor, uint window, uint first)
{
    const uint p = get_global_id(0), query = get_global_id(1), token = first + query / n_head;
    const uint head = query % n_head;
    const struct row row = rows[token];
    if (p > row.position || p < first_seen(row, window)) return;
    global const float *q = qkv + (size_t)token * ld + head * q_stride;
    global const ushort *key =
        k_cache + head_in_cache(row, nth, n_kv, head / (n_head / n_kv), d) + in_keys(p, 0, d);
    float lane[16];
#pragma unroll
    for (uint l = 0; l < 16; l++)
        lane[l] = 0.0f;
    for (uint i = 0; i < d; i += 16)
#pragma unroll
        for (uint l = 0; l < 16; l++)
            if (i + l < d) lane[l] = fma(widen(key[(i + l) * 16]), q[i + l], lane[l]);
    scores[(size_t)query * ld_s + p] = fold16(lane) * factor;
}

/* Slot softmax over the positions that the token sees. A group has a query. */
ROWS_KERNEL void attn_softmax(global float *scores, uint ld_s, global const struct row *rows, uint n_head,
                              uint window, uint first)
{
    local real lane[8];
    local float floats[BN_GROUP];
    const uint query = get_group_id(0);
    const struct row row = rows[first + query / n_head];
    const uint from = first_seen(row, window);
    softmax_row(scores + (size_t)query * ld_s + from, row.position + 1 - from, lane, floats);
}

/* Slot attn_values from 0 for item (element, query). With gate slot sigmoid_mul after it: the gates of a head follow its
 * query in the same row. */
kernel void attn_values(global float *att, uint ld_att, global const float *scores, uint ld_s,
                        global const struct row *rows, global const ushort *v_cache, uint nth, uint n_head,
                        uint n_kv, uint d, uint window, uint first, global const float *gate, uint ld_gate,
                        uint gate_stride)
{
    const uint e = get_global_id(0), query = get_global_id(1), token = first + query / n_head;
    const uint head = query % n_head;
    const struct row row = rows[token];
    if (e >= d) return;
    global const ushort *value = v_cache + head_in_cache(row, nth, n_kv, head / (n_head / n_kv), d) + e;
    float sum = 0.0f;
#pragma unroll 8
    for (uint p = first_seen(row, window); p <= row.position; p++)
        sum = fma(scores[(size_t)query * ld_s + p], widen(value[(size_t)p * d]), sum);
    if (gate != NULL) sum = sigmoid_times(sum, gate[(size_t)token * ld_gate + head * gate_stride + d + e]);
    att[(size_t)token * ld_att + head * d + e] = sum;
}
