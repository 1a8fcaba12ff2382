/* SPDX-License-Identifier: MIT
 *
 * See peak.h: which loops belong to which table, and those that every target has.
 */
#include "kernels/peak.h"

#include <string.h>

#include "kernels/peak_stream.h"

/* With 16-byte vectors, which every target has. */
static uint64_t read_plain(const void *data, size_t n_bytes)
{
    typedef uint64_t lanes __attribute__((vector_size(16), aligned(8)));
    lanes sum[4] = {{0}};
    for (size_t at = 0; at < n_bytes; at += 128) {
        const lanes *v = (const lanes *)(const void *)((const unsigned char *)data + at);
        sum[0] += v[0] ^ v[4];
        sum[1] += v[1] ^ v[5];
        sum[2] += v[2] ^ v[6];
        sum[3] += v[3] ^ v[7];
    }
    lanes all = sum[0] + sum[1] + sum[2] + sum[3];
    return all[0] + all[1];
}

static const struct bn_peak plain = {
    .read = read_plain, .stream = run_stream, .can_store_past = STREAM_CAN_PAST};

#if defined(__x86_64__)

static const struct bn_peak avx2 = {
    "vpmaddubsw + vpaddw ymm", "vfmadd ymm", bn_peak_int8_avx2, bn_peak_fma_avx2, bn_peak_read_avx2,
    bn_peak_stream_avx2,       true};
static const struct bn_peak avxvnni = {
    "vpdpbusd ymm",      "vfmadd ymm", bn_peak_int8_avxvnni, bn_peak_fma_avx2, bn_peak_read_avx2,
    bn_peak_stream_avx2, true};
static const struct bn_peak avx512 = {
    "vpdpbusd zmm",        "vfmadd zmm", bn_peak_int8_avx512, bn_peak_fma_avx512, bn_peak_read_avx512,
    bn_peak_stream_avx512, true};
static const struct bn_peak amx = {
    "tdpbssd", "vfmadd zmm", bn_peak_int8_amx, bn_peak_fma_avx512, bn_peak_read_avx512, bn_peak_stream_avx512,
    true};

const struct bn_peak *bn_peak_of(const struct bn_kernels *kernels)
{
    if (strcmp(kernels->isa, "amx") == 0) return &amx;
    if (strncmp(kernels->isa, "avx512", 6) == 0) return &avx512;
    if (strcmp(kernels->isa, "avxvnni") == 0) return &avxvnni;
    return strcmp(kernels->isa, "avx2") == 0 ? &avx2 : &plain;
}

#elif defined(__aarch64__)

static const struct bn_peak neon = {"sdot",     "fmla", bn_peak_int8_neon, bn_peak_fma_neon, read_plain,
                                    run_stream, false};

const struct bn_peak *bn_peak_of(const struct bn_kernels *kernels)
{
    return strcmp(kernels->isa, "neon") == 0 ? &neon : &plain;
}

#else

const struct bn_peak *bn_peak_of(const struct bn_kernels *kernels)
{
    (void)kernels;
    return &plain;
}

#endif
