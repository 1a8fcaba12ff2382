/* SPDX-License-Identifier: MIT
 *
 * T5, 1.6 bits a weight, for AVX-512 with VNNI and VBMI. A byte holds 84 times its last digit and 81 values
 * of the other four; since 84 is a multiple of 4, the byte's upper six bits say what the last digit is, and
 * vpermb finds 84 times that digit among 64. What is left is looked up among 128 by vpermi2b, which gives the
 * four digits as the four 2-bit fields of a byte; those are used where they are, so the sums of field p are 4^p times too
 * large until the end, and those of the last digit 84 times.
 */
#include "kernels/kernels_table.h"
#include "kernels/x86/avx512.h"

#define FIELDS(v) (uint8_t)((v) % 3 | (v) / 3 % 3 << 2 | (v) / 9 % 3 << 4 | (v) / 27 << 6)
#define LAST(v) (uint8_t)(84 * ((v) / 21))
#define TIMES_4(f, v) f(v), f((v) + 1), f((v) + 2), f((v) + 3)
#define TIMES_16(f, v) TIMES_4(f, v), TIMES_4(f, (v) + 4), TIMES_4(f, (v) + 8), TIMES_4(f, (v) + 12)
#define TIMES_64(f, v) TIMES_16(f, v), TIMES_16(f, (v) + 16), TIMES_16(f, (v) + 32), TIMES_16(f, (v) + 48)

static const _Alignas(64) uint8_t DIGITS[128] = {TIMES_64(FIELDS, 0), TIMES_64(FIELDS, 64)};
static const _Alignas(64) uint8_t LAST_84[64] = {TIMES_64(LAST, 0)};

#define STREAM_AHEAD 8192u /* bytes from where a row is read to the place to prefetch meanwhile */

#define T5_ROWS_AHEAD 16u /* the same in rows, where some are left out */

#define ONE_21ST 0x3CF3CF3D /* times 21 it is 1 modulo 2^32: it divides multiples of 21 */

struct t5_sums {
    __m512i part[5]; /* times 1, 4, 16, 64, 84 */
};

INLINE void t5_add(struct t5_sums *sums, const uint8_t *codes, const __m512i act[5])
{
    const __m512i digits[2] = {_mm512_load_si512(DIGITS), _mm512_load_si512(DIGITS + 64)};
    __m512i bytes = load512(codes);
    __m512i last_84 = _mm512_permutexvar_epi8(_mm512_srli_epi16(bytes, 2), _mm512_load_si512(LAST_84));
    __m512i fields = _mm512_permutex2var_epi8(digits[0], _mm512_sub_epi8(bytes, last_84), digits[1]);
    sums->part[0] = dot4(sums->part[0], fields & _mm512_set1_epi8(0x03), act[0]);
    sums->part[1] = dot4(sums->part[1], fields & _mm512_set1_epi8(0x0C), act[1]);
    sums->part[2] = dot4(sums->part[2], fields & _mm512_set1_epi8(0x30), act[2]);
    sums->part[3] = dot4(sums->part[3], fields & _mm512_set1_epi8((char)0xC0), act[3]);
    sums->part[4] = dot4(sums->part[4], last_84, act[4]);
}

/* Lanes that add up to the row's sum of code * q. */
INLINE __m512i t5_lanes(const struct t5_sums *sums)
{
    __m512i low = add32(sums->part[0], _mm512_srai_epi32(sums->part[1], 2));
    __m512i middle = add32(_mm512_srai_epi32(sums->part[2], 4), _mm512_srai_epi32(sums->part[3], 6));
    __m512i last = _mm512_mullo_epi32(_mm512_srai_epi32(sums->part[4], 2), _mm512_set1_epi32(ONE_21ST));
    return add32(add32(low, middle), last);
}

/* The rows of which the n'th to come are computed now, and where those lie that are prefetched meanwhile. */
struct t5_pair {
    const uint8_t *row[2], *ahead[2];
};

INLINE const uint8_t *t5_row(const struct bn_t5 *w, size_t nth)
{
    if (w->picked == NULL) return w->codes + nth * w->row_bytes;
    return w->codes + w->picked[nth < w->n_picked ? nth : w->n_picked - 1] * w->row_bytes;
}

INLINE struct t5_pair t5_pair(const struct bn_t5 *w, size_t nth)
{
    size_t ahead = nth + (w->picked == NULL ? STREAM_AHEAD / w->row_bytes : T5_ROWS_AHEAD);
    return (struct t5_pair){{t5_row(w, nth), t5_row(w, nth + 1)}, {t5_row(w, ahead), t5_row(w, ahead + 1)}};
}

/* n rows (a constant) share the activations. What is prefetched goes on from line to line, whichever row it belongs to:
 * memory likes one ascending stream better than two that alternate. */
INLINE void t5_rows(__m512i *lanes, const struct t5_pair *pair, size_t row_bytes, const int8_t *q, size_t k,
                    const size_t n)
{
    struct t5_sums sums[2] = {0};
    const uint8_t *ahead = pair->ahead[0], *end_of_row = ahead + row_bytes;
    for (size_t i = 0, at = 0; i < k; i += BN_T5_BLOCK, at += BN_T5_BLOCK_BYTES) {
        __m512i act[5];
        for (size_t d = 0; d < 5; d++)
            act[d] = load512(q + i + 64 * d);
        for (size_t r = 0; r < n; r++) {
            _mm_prefetch((const char *)ahead, _MM_HINT_T0);
            ahead += BN_T5_BLOCK_BYTES;
            if (ahead == end_of_row) ahead = pair->ahead[1];
            t5_add(&sums[r], pair->row[r] + at, act);
        }
    }
    for (size_t r = 0; r < n; r++)
        lanes[r] = t5_lanes(&sums[r]);
}

/* Sixteen rows are added up together. */
void bn_t5_gemv_avx512vbmi(float *y, const struct bn_t5 *w, const struct bn_act *x)
{
    __m512i lanes[16] = {0};
    size_t n_rows = w->picked != NULL ? w->n_picked : w->rows;
    for (size_t row = 0; row < n_rows; row += 16) {
        size_t n = n_rows - row < 16 ? n_rows - row : 16, r = 0;
        for (; r < n; r += 2) {
            struct t5_pair pair = t5_pair(w, row + r);
            if (r + 2 <= n)
                t5_rows(lanes + r, &pair, w->row_bytes, x->q, w->k, 2);
            else
                t5_rows(lanes + r, &pair, w->row_bytes, x->q, w->k, 1);
        }
        __mmask16 here = (__mmask16)((1u << n) - 1u);
        __m512 t = _mm512_cvtepi32_ps(_mm512_sub_epi32(sum_each(lanes), _mm512_set1_epi32(x->total)));
        t = _mm512_mul_ps(_mm512_div_ps(t, _mm512_set1_ps(x->scale)), _mm512_set1_ps(w->scale));
        if (w->picked == NULL)
            _mm512_mask_storeu_ps(y + row, here, t);
        else
            _mm512_mask_i32scatter_ps(y, here, _mm512_maskz_loadu_epi32(here, w->picked + row), t, 4);
    }
}

/* 64 codes from the i'th on, i a multiple of 64: two neighbouring fields of 32 bytes. */
INLINE __m512i codes_at(const uint8_t *codes, size_t i)
{
    __m256i bytes = _mm256_loadu_si256((const void *)(codes + i / 128 * 32));
    __m256i pair = i % 128 == 0 ? _mm256_srli_epi16(bytes, 4) : bytes;
    __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_srli_epi16(pair, 2)), pair, 1);
    return both & _mm512_set1_epi8(3);
}

void bn_t5_pack_avx512vbmi(uint8_t *out, const uint8_t *codes, size_t k)
{
    for (size_t i = 0; i < k; i += BN_T5_BLOCK, out += BN_T5_BLOCK_BYTES) {
        __m512i sum = _mm512_setzero_si512();
        for (size_t d = 4; d-- > 0;) {
            sum = _mm512_add_epi8(_mm512_add_epi8(sum, sum), sum);
            if (i + 64 * d < k) sum = _mm512_add_epi8(sum, codes_at(codes, i + 64 * d));
        }
        if (i + 256 < k) { /* 84 times: 4 times 21 times */
            __m512i last = codes_at(codes, i + 256), four = _mm512_slli_epi16(last, 2);
            __m512i twenty_one = _mm512_add_epi8(_mm512_slli_epi16(four, 2), _mm512_add_epi8(four, last));
            sum = _mm512_add_epi8(sum, _mm512_slli_epi16(twenty_one, 2));
        }
        _mm512_storeu_si512(out, sum);
    }
}
