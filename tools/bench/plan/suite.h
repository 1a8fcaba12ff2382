/* SPDX-License-Identifier: MIT
 *
 * bn-bench suite: the state of a suite that runs.
 */
#ifndef BN_BENCH_PLAN_SUITE_H
#define BN_BENCH_PLAN_SUITE_H

#include "base/digest.h"
#include "lab/host/machine.h"
#include "tools/bench/bench.h"
#include "tools/bench/plan/plan.h"
#include "tools/bench/report/report.h"

enum bn_part_state { BN_PART_MEASURED, BN_PART_REUSED, BN_PART_FAILED };

/* What became of a part. */
struct bn_part_result {
    enum bn_part_state state;
    char path[4096];  /* its document */
    char created[32]; /* of the document; "" without one */
    char reason[200]; /* why it failed; else "" */
    double seconds;   /* it took; 0 when reused */
    int exit_code;
    bool has_series; /* the report includes it */
};

struct bn_suite_run {
    const struct bn_args *args;
    const struct bn_bench_options *o;
    struct bn_plan plan;
    const char *dir;
    char program[4096], program_sha256[BN_SHA256_HEX];
    struct bn_machine_id machine;
    struct bn_part_result *results; /* one for each part */
    struct bn_report report;
    const char **paths; /* of the report */
};

/* part.c: measures a part, or reuses its document. A part that fails is a result, not an error; an error is
 * BN_ERR_CANCELLED, or that a file cannot be written. */
BN_MUST_CHECK bn_status bn_suite_part(struct bn_suite_run *s, size_t i, bn_error *err);

#endif
