/* SPDX-License-Identifier: MIT
 *
 * The limits of this machine: reading a set of some size, dot products of bytes, fused multiply-adds; by the
 * number of threads. Each is measured at its first use and kept. A kernel cannot take less time than its
 * reads and its multiplications take at these rates.
 */
#ifndef BN_BENCH_LIMITS_H
#define BN_BENCH_LIMITS_H

#include "base/json.h"
#include "lab/report/table.h"
#include "tools/bench/work.h"

/* The last two are of devices alone, which have no limit of floats. */
enum bn_bench_limit_kind { BN_LIMIT_READ, BN_LIMIT_INT8, BN_LIMIT_FLOAT, BN_LIMIT_COPY, BN_LIMIT_LAUNCH };

struct bn_bench_limit {
    enum bn_bench_limit_kind kind;
    unsigned n_threads;
    size_t set_bytes;                 /* of reading and copying */
    const struct bn_kernels *kernels; /* of arithmetic: whose instruction set */
    const char *instruction;
    double rate; /* bytes, multiply-adds or launches a second; 0: there is no loop for it */
};

/* Zeroed before use, released by bn_bench_limits_release. */
struct bn_bench_limits {
    struct bn_bench_limit *list;
    size_t n, room;
    uint64_t budget_ns;       /* for each measurement */
    struct bn_device *device; /* whose limits these are, borrowed; NULL: those of the CPU */
};
void bn_bench_limits_release(struct bn_bench_limits *limits);

/* Measures a limit of the CPU for about budget_ns, and sets its instruction and rate. */
BN_MUST_CHECK bn_status bn_bench_limit_measure(struct bn_bench_limit *limit, uint64_t budget_ns,
                                               bn_error *err);
/* Those of a device that bound nothing: copying a set of this size, launches. */
BN_MUST_CHECK bn_status bn_bench_limits_others(struct bn_bench_limits *limits, size_t set_bytes,
                                               bn_error *err);
/* The rate at which a set of this size is read. With again, a known limit is measured once more, because
 * something exceeded it; the greater rate is kept. */
BN_MUST_CHECK bn_status bn_bench_limits_read(struct bn_bench_limits *limits, size_t set_bytes,
                                             unsigned n_threads, bool again, double *rate, bn_error *err);

/* The multiply-adds of one operation that a kernel counts: of bytes, of floats. Both are 0 for kernels without
 * multiply-adds, which count elements. */
struct bn_bench_macs {
    unsigned int8, floats;
};
struct bn_bench_macs bn_bench_macs_of(const bn_model *model, const char *name);

/* Does this kernel read the KV cache? */
bool bn_bench_reads_cache(const bn_model *model, const char *name);

/* What bounds a case. */
struct bn_bench_bound {
    const char *what;              /* "memory", "cache", "arithmetic"; NULL without a limit */
    const char *reason;            /* why not */
    double ns;                     /* the least time of a call */
    double read_ns, arithmetic_ns; /* the least time of its reads, and of its multiply-adds; 0: none */
};
/* Measures the limits of a case with these kernels. When a call took less time than they allow (ns; NaN: not known), they
 * are measured again, up to three times. */
BN_MUST_CHECK bn_status bn_bench_limits_bound(struct bn_bench_limits *limits, const struct bn_bench_case *c,
                                              const struct bn_kernels *kernels, unsigned n_threads, double ns,
                                              struct bn_bench_bound *bound, bn_error *err);
/* Puts what bounds it and the least time, or the reason. */
void bn_bench_bound_put(bn_json *object, const struct bn_bench_bound *bound);

/* Prints them as a table. */
BN_MUST_CHECK bn_status bn_bench_limits_print(struct bn_bench_limits *limits, bn_error *err);
/* Limits without a loop are left out. */
void bn_bench_limits_put(bn_json *array, const struct bn_bench_limits *limits);

#endif
