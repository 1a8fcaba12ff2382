/* SPDX-License-Identifier: MIT
 *
 * What the device can do at most: reading, copying, products of bytes. Every result depends on all that was read or
 * multiplied, so nothing of it can be left out.
 */

#if BN_VECTOR == 16
typedef uint16 limit_words;
typedef short16 limit_sums; /* products of bytes are of pairs in 16 bits there: see sum_tokens */
#define MULTIPLY(sum, x) ((sum) * (x) + (x))
#else
typedef uint4 limit_words;
typedef int limit_sums;
static int dot4(uint codes, int values, int sum); /* ternary.cl */
#define MULTIPLY(sum, x) dot4((uint)(sum), x, x)
#endif
#define CHAINS 8

/* out[item] = the sum of turns words of n: from item * first on, step apart, again from the beginning after the last one. */
kernel void limit_read(global limit_words *out, global const limit_words *from, uint n, uint first, uint step,
                       uint turns)
{
    uint at = (uint)(get_global_id(0) * (ulong)first % n);
    limit_words sum = (limit_words)0;
    for (uint i = 0; i < turns; i++) {
        sum += from[at];
        at += step;
        at -= at >= n ? n : 0;
    }
    out[get_global_id(0)] = sum;
}

/* The same words, copied to where they lie in out. */
kernel void limit_copy(global limit_words *out, global const limit_words *from, uint n, uint first, uint step,
                       uint turns)
{
    uint at = (uint)(get_global_id(0) * (ulong)first % n);
    for (uint i = 0; i < turns; i++) {
        out[at] = from[at];
        at += step;
        at -= at >= n ? n : 0;
    }
}

/* out[item] = CHAINS chains of turns products each, combined. */
kernel void limit_dot(global limit_sums *out, uint turns)
{
    limit_sums sum[CHAINS], all = (limit_sums)0;
    for (int i = 0; i < CHAINS; i++)
        sum[i] = (limit_sums)(short)(get_global_id(0) * CHAINS + i);
    const limit_sums x = (limit_sums)(short)(turns | 0x0103);
    for (uint turn = 0; turn < turns; turn++) {
#pragma unroll
        for (int i = 0; i < CHAINS; i++)
            sum[i] = MULTIPLY(sum[i], x);
    }
    for (int i = 0; i < CHAINS; i++)
        all ^= sum[i];
    out[get_global_id(0)] = all;
}
