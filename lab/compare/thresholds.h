/* SPDX-License-Identifier: MIT
 *
 * Thresholds: limits on the measures of metrics.h, one set for each rung of the ladder, and on
 * what an operation may add to the error of its inputs (records.h). They are read from a JSON document,
 *
 *     {"schema": "bn.crossval-thresholds/1",
 *      "rungs": {"positions": {"cosine": {"min": 0.998}, "kl": {"max": 0.01, "max_mean": 0.001}}},
 *      "trace": {"norm": {"floor": 1e-5, "gain": 8, "flip": 0}},
 *      "references": {"bn": {"positions": {"nrmse": {"max": 0}}}}}
 *
 * where "references" adds to the rungs for references of that name. Unknown names are errors, because a
 * misspelt limit would limit nothing.
 */
#ifndef BN_COMPARE_THRESHOLDS_H
#define BN_COMPARE_THRESHOLDS_H

#include "lab/compare/metrics.h"

/* The rungs of the ladder, from the ground up. */
enum bn_rung {
    BN_RUNG_TOKENS,     /* the same text becomes the same ids */
    BN_RUNG_FIRST,      /* logits of the first position: nothing to attend to, so almost nothing can drift */
    BN_RUNG_POSITIONS,  /* logits of every position, both sides given the same tokens */
    BN_RUNG_DECODE,     /* this engine's greedy continuation, judged token by token */
    BN_RUNG_LIKELIHOOD, /* mean negative log likelihood of the text */
    BN_RUNG_MASK,       /* attention is causal: other later tokens do not change earlier logits */
    BN_RUNG_COUNT
};
const char *bn_rung_name(enum bn_rung rung); /* "tokens", "first", ... */

/* A bound that is not set is an infinity, which is never exceeded. */
struct bn_limit {
    double min, max;           /* of the worst row */
    double min_mean, max_mean; /* of the mean over rows */
};

/* What operations of one kind may add: an output may be off by floor + gain * e + flip * sqrt(e), e being the
 * greatest error among the inputs, all relative (nrmse). See docs/explain/crossval.md. */
enum bn_op_kind {
    BN_OP_EMBD,
    BN_OP_NORM,
    BN_OP_LINEAR,
    BN_OP_ROPE,
    BN_OP_ATTENTION,
    BN_OP_ACT,
    BN_OP_SUM,
    BN_OP_HEAD,
    BN_OP_KIND_COUNT
};

struct bn_growth {
    double floor, gain, flip;
};

/* Of the mask rung, where a document does not limit it: nrmse of a row when later tokens change. */
#define BN_MASK_NRMSE 1e-3

struct bn_thresholds {
    double layers; /* that a model may have at most for the limits of logits to apply as they are; 0: any
                      number */
    struct bn_limit limit[BN_RUNG_COUNT][BN_METRIC_COUNT];
    double max_delta_nll; /* of the likelihood rung */
    double tie;           /* of the decode rung: a disagreement within this many times the
                             row's greatest difference is a tie */
    struct bn_growth growth[BN_OP_KIND_COUNT];
};

/* For a reference of that name; NULL: for any. BN_ERR_FORMAT names what is unknown, missing or not a number.
 * Every kind of operation must be present. */
BN_MUST_CHECK bn_status bn_thresholds_parse(struct bn_thresholds *out, const char *text, size_t n,
                                            const char *reference, bn_error *err);

/* Widens the limits of logits and likelihoods for a model of more layers than they were measured with:
 * roundings add up over layers, so distances grow with the number of layers, and squares with its square. */
void bn_thresholds_deepen(struct bn_thresholds *t, uint32_t n_layers);

/* One bound compared with what was measured. */
struct bn_threshold_verdict {
    enum bn_metric metric;
    bool is_mean, is_min;
    double bound, value;
    size_t row;    /* of the worst value */
    double margin; /* distance to the bound, negative when it is broken */
    bool holds;
};
#define BN_VERDICTS_MAX (4u * BN_METRIC_COUNT)

/* Fills the verdicts of every bound that a rung has, and returns their number. A measure that is not a number
 * breaks its bounds, and so does every bound when there are no rows. */
size_t bn_thresholds_judge(const struct bn_thresholds *t, enum bn_rung rung, const struct bn_metrics_sum *sum,
                           struct bn_threshold_verdict out[BN_VERDICTS_MAX]);

#endif
