/* SPDX-License-Identifier: MIT
 *
 * What the dashboard shows of a folder of bn-bench: the runs in its ledgers and result documents, as histories with intervals,
 * and a list of its reports. The folder is read again when a file in it has changed.
 */
#ifndef BN_SERVE_BENCHMARKS_H
#define BN_SERVE_BENCHMARKS_H

#include "base/json.h"

#define BN_BENCHMARK_FILES 256u

struct bn_benchmark_file {
    char *path; /* in the folder */
    uint64_t n_bytes;
    int64_t changed_ns;
};

struct bn_benchmarks {
    char *folder; /* absolute; NULL: none was given */
    struct bn_benchmark_file files[BN_BENCHMARK_FILES];
    size_t n_files;
    bool more;          /* the folder has more files */
    struct bn_buf text; /* the document, of these files */
};

/* BN_ERR_NOT_FOUND when it is not a folder. */
BN_MUST_CHECK bn_status bn_benchmarks_open(struct bn_benchmarks *b, const char *folder, bn_error *err);
void bn_benchmarks_close(struct bn_benchmarks *b);
/* Appends the document of /v1/benchmarks. */
BN_MUST_CHECK bn_status bn_benchmarks_write(struct bn_benchmarks *b, struct bn_buf *out, bn_error *err);
/* Appends a report; number is its place in the document. *type is its type for HTTP. */
BN_MUST_CHECK bn_status bn_benchmarks_report(const struct bn_benchmarks *b, size_t number, struct bn_buf *out,
                                             const char **type, bn_error *err);

#endif
