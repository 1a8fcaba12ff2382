/* SPDX-License-Identifier: MIT
 *
 * Buffers between guard pages, random contents, comparison, and the catching of faults.
 */
#define _GNU_SOURCE
#include "checkkern.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CANARY 0xC5u
#define LARGE ((size_t)8 << 20)
#define FLOAT_EXPONENT 0x7F800000u

bool ck_wrong(struct ck *ck, const char *fmt, ...)
{
    if (ck->why[0] != '\0') return false;
    va_list args;
    va_start(args, fmt);
    vsnprintf(ck->why, sizeof ck->why, fmt, args);
    va_end(args);
    return false;
}

static void *must(void *p)
{
    if (p == NULL || p == MAP_FAILED) {
        fputs("checkkern: out of memory\n", stderr);
        exit(2);
    }
    return p;
}

void *ck_buffer(struct ck *ck, enum ck_role role, enum ck_kind kind, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (ck->n_regions == CK_MAX_REGIONS) abort();
    struct ck_region *r = &ck->region[ck->n_regions++];
    *r = (struct ck_region){.role = role, .kind = kind, .bytes = bytes};
    r->room = (bytes + page - 1) / page * page;
    r->map_bytes = r->room + 2 * page;
    r->map = must(mmap(NULL, r->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (r->room > 0 && mprotect(r->map + page, r->room, PROT_READ | PROT_WRITE) != 0) must(NULL);
    memset(r->map + page, (int)CANARY, r->room);
    r->data = r->map + page + (ck->guard_before ? 0 : r->room - bytes);
    if (bytes > LARGE) madvise(r->map + page, r->room, MADV_HUGEPAGE);
    for (size_t i = 0; i < bytes; i += 4) {
        uint32_t word = ck_random(ck);
        memcpy(r->data + i, &word, bytes - i < 4 ? bytes - i : 4);
    }
    return r->data;
}

void ck_clear(struct ck *ck)
{
    for (size_t i = 0; i < ck->n_regions; i++) {
        munmap(ck->region[i].map, ck->region[i].map_bytes);
        free(ck->region[i].image);
        free(ck->region[i].expect);
    }
    ck->n_regions = 0;
    ck->why[0] = '\0';
}

void ck_seal(struct ck *ck)
{
    for (size_t i = 0; i < ck->n_regions; i++) {
        struct ck_region *r = &ck->region[i];
        r->image = must(malloc(r->bytes + 1));
        memcpy(r->image, r->data, r->bytes);
    }
}

void ck_restore(struct ck *ck)
{
    for (size_t i = 0; i < ck->n_regions; i++) {
        struct ck_region *r = &ck->region[i];
        if (r->role == CK_OUT) memcpy(r->data, r->image, r->bytes);
    }
}

void ck_keep_expected(struct ck *ck)
{
    for (size_t i = 0; i < ck->n_regions; i++) {
        struct ck_region *r = &ck->region[i];
        if (r->role != CK_OUT) continue;
        r->expect = must(malloc(r->bytes + 1));
        memcpy(r->expect, r->data, r->bytes);
    }
}

bool ck_untouched(struct ck *ck)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < ck->n_regions; i++) {
        const struct ck_region *r = &ck->region[i];
        if (r->role == CK_IN && memcmp(r->data, r->image, r->bytes) != 0)
            return ck_wrong(ck, "an input changed");
        for (const uint8_t *at = r->map + page; at < r->map + page + r->room; at++) {
            if (at == r->data) at += r->bytes;
            if (at < r->map + page + r->room && *at != CANARY)
                return ck_wrong(ck, "a byte beside a buffer changed");
        }
    }
    return true;
}

static bool is_nan(uint32_t bits)
{
    return (bits & 0x7FFFFFFFu) > FLOAT_EXPONENT;
}

static uint32_t word_at(const uint8_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static float float_at(const uint8_t *at)
{
    float x;
    memcpy(&x, at, sizeof x);
    return x;
}

bool ck_as_expected(struct ck *ck)
{
    for (size_t i = 0; i < ck->n_regions; i++) {
        const struct ck_region *r = &ck->region[i];
        if (r->role != CK_OUT || memcmp(r->data, r->expect, r->bytes) == 0) continue;
        if (r->kind == CK_BYTES) {
            size_t at = 0;
            while (r->data[at] == r->expect[at])
                at++;
            return ck_wrong(ck, "output %zu byte %zu is 0x%02X, the reference has 0x%02X", i, at, r->data[at],
                            r->expect[at]);
        }
        for (size_t at = 0; at < r->bytes; at += 4) {
            uint32_t got = word_at(r->data + at), want = word_at(r->expect + at);
            if (got == want || (is_nan(got) && is_nan(want))) continue;
            return ck_wrong(ck, "output %zu value %zu is %a (%08X), the reference has %a (%08X)", i, at / 4,
                            (double)float_at(r->data + at), got, (double)float_at(r->expect + at), want);
        }
    }
    return true;
}

uint64_t ck_digest(const struct ck *ck, uint64_t digest)
{
    for (size_t i = 0; i < ck->n_regions; i++) {
        const struct ck_region *r = &ck->region[i];
        if (r->role != CK_OUT) continue;
        for (size_t at = 0; at < r->bytes; at++) {
            uint8_t byte = r->data[at];
            if (r->kind == CK_FLOATS && is_nan(word_at(r->data + at / 4 * 4))) byte = 0xFF;
            digest = (digest ^ byte) * 0x100000001B3u;
        }
    }
    return digest;
}

static sigjmp_buf fault;
static volatile sig_atomic_t armed;

static void on_fault(int sig, siginfo_t *info, void *machine)
{
    bool refused = sig == SIGILL && info->si_code > 0; /* by the processor, not by raise */
    if (armed && refused && ck_emulate(machine)) return;
    if (!armed) {
        signal(sig, SIG_DFL);
        raise(sig);
        return;
    }
    armed = 0;
    siglongjmp(fault, sig);
}

bool ck_invoke(struct ck *ck, const struct ck_slot *slot, const struct bn_kernels *kernels,
               const struct ck_call *call)
{
    static bool installed;
    if (!installed) {
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
        const int signals[] = {SIGSEGV, SIGBUS, SIGILL};
        for (size_t i = 0; i < COUNT(signals); i++)
            sigaction(signals[i], &action, NULL);
        installed = true;
    }
    int sig = sigsetjmp(fault, 1);
    if (sig != 0)
        return ck_wrong(ck, sig == SIGILL ? "illegal instruction" : "read or wrote beyond a buffer");
    armed = 1;
    slot->invoke(kernels, call);
    armed = 0;
    return true;
}

/* ---- random values ---- */

uint32_t ck_random(struct ck *ck) /* splitmix64 */
{
    uint64_t z = ck->rng += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}

uint32_t ck_below(struct ck *ck, uint32_t n)
{
    return (uint32_t)((uint64_t)ck_random(ck) * n >> 32);
}

float ck_uniform(struct ck *ck)
{
    return (float)((int32_t)ck_random(ck) >> 8) * 0x1p-23f;
}

const char *ck_values_name(enum ck_values values)
{
    static const char *const NAME[CK_N_VALUES] = {"ordinary", "zero", "-0",  "+-0",        "subnormal",
                                                  "tiny",     "huge", "max", "any finite", "one large"};
    return NAME[values];
}

static float one_value(struct ck *ck, size_t i, enum ck_values values)
{
    uint32_t bits = ck_random(ck), sign = bits & 0x80000000u;
    float x = 0.0f;
    switch (values) {
    case CK_ZERO:
    case CK_N_VALUES:
        return 0.0f;
    case CK_MINUS_ZERO:
        return -0.0f;
    case CK_BOTH_ZEROS:
        return sign != 0 ? -0.0f : 0.0f;
    case CK_ORDINARY:
        x = ck_uniform(ck); /* one statement each: the order of operands is the compiler's */
        return ldexpf(x, (int)ck_below(ck, 7) - 3);
    case CK_ONE_LARGE:
        return i == 3 ? 1000.0f : ck_uniform(ck);
    case CK_SUBNORMAL:
        bits &= 0x807FFFFFu;
        break;
    case CK_TINY:
        return ck_uniform(ck) * 1e-37f;
    case CK_HUGE:
        return ck_uniform(ck) * 1e30f;
    case CK_MAX:
        bits = sign | 0x7F7FFFFFu;
        break;
    case CK_ANY_FINITE:
        if ((bits & FLOAT_EXPONENT) == FLOAT_EXPONENT) bits ^= 0x08000000u;
        break;
    }
    memcpy(&x, &bits, sizeof x);
    return x;
}

void ck_fill_f32(struct ck *ck, void *x, size_t n, enum ck_values values)
{
    for (size_t i = 0; i < n; i++) {
        float v = one_value(ck, i, values);
        memcpy((uint8_t *)x + 4 * i, &v, sizeof v);
    }
}

void ck_make_wild(float *x, size_t n, bool infinite)
{
    for (size_t i = 0; i < n; i += 3)
        x[i] = i % 2 == 0 ? NAN : -NAN;
    for (size_t i = n / 2; infinite && i < n; i += 5)
        x[i] = i % 2 == 0 ? INFINITY : -INFINITY;
}

void ck_fill_f16(struct ck *ck, void *x, size_t n, enum ck_values values)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = ck_random(ck), sign = bits & 0x8000u;
        if (values == CK_ZERO) bits = 0;
        if (values == CK_MINUS_ZERO) bits = 0x8000u;
        if (values == CK_BOTH_ZEROS) bits = sign;
        if (values == CK_SUBNORMAL || values == CK_TINY) bits &= 0x83FFu;
        if (values == CK_MAX) bits = sign | 0x7BFFu;
        if (values == CK_HUGE) bits = sign | 0x7800u | (bits & 0x3FFu);
        if (values == CK_ORDINARY || values == CK_ONE_LARGE) /* 2^-4 .. 2^3 */
            bits = sign | (11u + ck_below(ck, 8)) << 10 | (bits & 0x3FFu);
        if ((bits & 0x7C00u) == 0x7C00u) bits ^= 0x2000u;
        uint16_t h = (uint16_t)bits;
        memcpy((uint8_t *)x + 2 * i, &h, sizeof h);
    }
}

float *ck_floats(struct ck *ck, size_t n, enum ck_values values)
{
    float *x = ck_buffer(ck, CK_IN, CK_FLOATS, n * sizeof *x);
    ck_fill_f32(ck, x, n, values);
    return x;
}

uint16_t *ck_halves(struct ck *ck, size_t n, enum ck_values values)
{
    uint16_t *x = ck_buffer(ck, CK_IN, CK_BYTES, n * sizeof *x);
    ck_fill_f16(ck, x, n, values);
    return x;
}

/* ---- judging the reference ---- */

double ck_half(const void *at)
{
    const uint8_t *byte = at;
    int h = byte[0] | byte[1] << 8, exponent = h >> 10 & 31, fraction = h & 0x3FF;
    double size = exponent == 0    ? ldexp(fraction, -24)
                  : exponent == 31 ? (fraction != 0 ? (double)NAN : (double)INFINITY)
                                   : ldexp(1024 + fraction, exponent - 25);
    return (h & 0x8000) != 0 ? -size : size;
}

bool ck_near(struct ck *ck, const char *what, size_t i, float got, double want, double tolerance)
{
    double g = (double)got;
    if (isnan(want) && isnan(g)) return true;
    if (fabs(want) > 3.4e38 && (isinf(g) || isnan(g) || fabs(g) > 3.3e38)) return true;
    if (fabs(g - want) <= tolerance) return true;
    return ck_wrong(ck, "%s %zu is %.9g, an independent computation gives %.9g +- %.2g", what, i, g, want,
                    tolerance);
}
