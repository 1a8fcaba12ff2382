/* SPDX-License-Identifier: MIT
 *
 * A process of 'bn-train bench' that does a step when it is asked to. bn-bench does not link the BLAS, which chooses
 * its code when it is loaded: bn-train has the rule for that, and is started again if needed.
 */
#ifndef BN_BENCH_TRAINEE_H
#define BN_BENCH_TRAINEE_H

#include "base/json.h"

/* Times of a step. Those of phases are of all threads together; passes and optimiser are by the clock. */
struct bn_trainee_step {
    uint64_t ns, forward_ns, backward_ns, reduce_ns, passes_ns, optimiser_ns;
    double loss;
};

struct bn_trainee {
    struct bn_child *child;
    bn_json *run, *end; /* what it said at its start and at its end */
};

/* Starts bn-train, which is next to this program, with arguments that end with NULL. BN_ERR_UNSUPPORTED when it was not
 * built; BN_ERR_ARG with its message when it refuses the arguments. Released in any case by bn_trainee_close. */
BN_MUST_CHECK bn_status bn_trainee_start(struct bn_trainee *t, const char *const *arguments, bn_error *err);
BN_MUST_CHECK bn_status bn_trainee_step(struct bn_trainee *t, struct bn_trainee_step *step, bn_error *err);
/* Ends it. */
BN_MUST_CHECK bn_status bn_trainee_finish(struct bn_trainee *t, bn_error *err);
void bn_trainee_close(struct bn_trainee *t);

#endif
