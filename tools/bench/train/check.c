/* SPDX-License-Identifier: MIT
 *
 * Checks of the times of training steps: sums, results, and the float peak.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/bench/train/train.h"

const char *const bn_phase_names[BN_PHASES] = {"forward", "backward", "reduce", "wait", "optimiser", "step"};

uint64_t bn_train_phase_ns(const struct bn_trainee_step *s, enum bn_train_phase phase, unsigned n_threads)
{
    uint64_t busy = s->forward_ns + s->backward_ns + s->reduce_ns, all = s->passes_ns * n_threads;
    const uint64_t NS[BN_PHASES] = {[BN_PHASE_FORWARD] = s->forward_ns / n_threads,
                                    [BN_PHASE_BACKWARD] = s->backward_ns / n_threads,
                                    [BN_PHASE_REDUCE] = s->reduce_ns / n_threads,
                                    [BN_PHASE_WAIT] = all > busy ? (all - busy) / n_threads : 0,
                                    [BN_PHASE_OPTIMISER] = s->optimiser_ns,
                                    [BN_PHASE_STEP] = s->ns};
    return NS[phase];
}

double bn_train_phase_share(enum bn_train_phase phase)
{
    static const double SHARES[BN_PHASES] = {
        [BN_PHASE_FORWARD] = 1.0 / 3, [BN_PHASE_BACKWARD] = 2.0 / 3, [BN_PHASE_STEP] = 1};
    return SHARES[phase];
}

static const char *refuses_step(char why[160], const struct bn_trainee_step *s, unsigned n_threads)
{
    uint64_t busy = s->forward_ns + s->backward_ns + s->reduce_ns;
    if (!isfinite(s->loss))
        snprintf(why, 160, "the loss is not finite");
    else if (busy > s->passes_ns * n_threads)
        snprintf(why, 160, "the phases take %llu ns, more than the %llu ns of the passes of all threads",
                 (unsigned long long)busy, (unsigned long long)s->passes_ns * n_threads);
    else if (s->passes_ns + s->optimiser_ns > s->ns)
        snprintf(why, 160, "passes and optimiser take %llu ns, the step %llu ns",
                 (unsigned long long)(s->passes_ns + s->optimiser_ns), (unsigned long long)s->ns);
    else
        return NULL;
    return why;
}

/* Whether the bits are those of another number of threads. */
static const char *differs(char why[160], const struct bn_train_result *r, const struct bn_train_result *like)
{
    for (size_t i = 0; i < r->n; i++) {
        double a = r->samples[i].step.loss, b = like->samples[i].step.loss;
        if (a == b) continue;
        snprintf(why, 160, "step %zu: the loss is %.9g, with t=%u it is %.9g", i + 1, a, like->n_threads, b);
        return why;
    }
    const char *a = bn_json_text_of(r->trainee.end, "weights_sha256");
    const char *b = bn_json_text_of(like->trainee.end, "weights_sha256");
    if (a[0] != '\0' && strcmp(a, b) == 0) return NULL;
    snprintf(why, 160, "the weights are %.12s, with t=%u they are %.12s", a, like->n_threads, b);
    return why;
}

/* The backward pass has float products only, so its rate is bounded by the peak. */
static const char *above_peak(char why[160], const struct bn_train_result *r)
{
    uint64_t best = UINT64_MAX;
    for (size_t i = 0; i < r->n; i++) {
        uint64_t ns = bn_train_phase_ns(&r->samples[i].step, BN_PHASE_BACKWARD, r->n_threads);
        if (ns < best) best = ns;
    }
    double flop = r->least_flop * bn_train_phase_share(BN_PHASE_BACKWARD) * r->batch;
    struct bn_bench_claim claim = {.rate = flop * 1e9 / (double)(best > 0 ? best : 1), .limit = r->most_peak};
    if (!bn_bench_above_limit(&claim)) return NULL;
    snprintf(why, 160, "%.4g operations a second backward are more than %.2f times the measured peak, %.4g",
             claim.rate, BN_BENCH_MOST_SHARE, claim.limit);
    return why;
}

const char *bn_train_refuses(char why[160], const struct bn_train_result *r)
{
    const char *reason = NULL;
    for (size_t i = 0; i < r->n && reason == NULL; i++)
        reason = refuses_step(why, &r->samples[i].step, r->n_threads);
    if (reason == NULL && r->like != NULL) reason = differs(why, r, r->like);
    return reason != NULL ? reason : above_peak(why, r);
}
