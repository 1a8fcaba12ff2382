/* SPDX-License-Identifier: MIT
 *
 * Measures of the difference between two rows of numbers, and their limits. a is judged, b is the reference.
 * All sums are binary64 in index order, so that the same rows give the same figures everywhere.
 *
 * Limits are read from a JSON document: one set for each rung of the ladder, and what an operation may add to
 * the error of its inputs (trace.h).
 *
 *     {"schema": "bn.thresholds/1",
 *      "rungs": {"positions": {"cosine": {"min": 0.998}, "kl": {"max": 0.01, "max_mean": 0.001}}},
 *      "trace": {"norm": {"floor": 1e-5, "gain": 8, "flip": 0}},
 *      "references": {"bn": {"positions": {"nrmse": {"max": 0}}}}}
 *
 * where "references" adds to the rungs for references of that name. Unknown names are errors, because a
 * misspelt limit would limit nothing.
 */
#ifndef BN_COMPARE_METRICS_H
#define BN_COMPARE_METRICS_H

#include "base/mem.h"
#include "infer/session.h"

/* The measures, in the order in which they are shown. */
enum bn_metric {
    BN_METRIC_COSINE,    /* sum ab / sqrt(sum aa sum bb); 1 for two rows of zeros, 0 for one */
    BN_METRIC_NRMSE,     /* rms(a - b) / rms(b): the error relative to the row's size */
    BN_METRIC_MSE,       /* mean (a - b)^2 */
    BN_METRIC_MAX_ABS,   /* max |a - b| */
    BN_METRIC_RMS,       /* rms(a) / rms(b): a wrong scale stands out */
    BN_METRIC_KL,        /* sum p (log p - log q), p = softmax(b), q = softmax(a) */
    BN_METRIC_TOP_K,     /* share of b's k best that are among a's k best */
    BN_METRIC_ARGMAX,    /* 1 when both have the same best, else 0 */
    BN_METRIC_MARGIN,    /* how much the best of b exceeds the best of a, in b; 0 when they are the same */
    BN_METRIC_TIE,       /* margin / max_abs: a margin that the difference of the rows explains is small */
    BN_METRIC_DELTA_NLL, /* of a text, not of a row: |difference of the mean negative log likelihoods| */
    BN_METRIC_COUNT
};
const char *bn_metric_name(enum bn_metric metric); /* "cosine", "nrmse", ... */

#define BN_METRICS_K 10u /* of top_k */

struct bn_metrics {
    double of[BN_METRIC_COUNT];
    size_t argmax_a, argmax_b; /* the lowest index of the greatest value */
    size_t bad_a, bad_b;       /* index of the first value that is not finite; n: all are */
    bool same_bits;
};

/* n > 0 values each. When a value is not finite, all measures but same_bits are NaN. */
void bn_metrics_of(struct bn_metrics *out, const float *a, const float *b, size_t n);

/* log of the sum of exp(x_i), without overflow; and log softmax(x)[i]. In binary64, for divergences as small as 1e-12.
 * A generation has another one, from the exp of the kernels, which gives the same bits on every machine. */
double bn_log_sum_exp(const float *x, size_t n);
double bn_log_softmax(const float *x, size_t n, size_t i);

/* Sums over rows: for each measure the mean, the worst value and its row. Worst is the smallest where more
 * is better (cosine, top_k, argmax), the farthest from 1 for rms, else the greatest. */
struct bn_metrics_sum {
    size_t n_rows, n_values;
    size_t n_same_bits; /* rows */
    struct {
        double sum, worst;
        size_t worst_row;
    } of[BN_METRIC_COUNT];
};
void bn_metrics_add(struct bn_metrics_sum *sum, const struct bn_metrics *row, size_t index, size_t n_values);
double bn_metrics_mean(const struct bn_metrics_sum *sum, enum bn_metric metric);

/* ---- limits ---- */

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

/* Of the worst row, and of the mean over rows. A bound that is not set is an infinity. */
enum bn_bound { BN_MIN, BN_MAX, BN_MIN_MEAN, BN_MAX_MEAN, BN_BOUNDS };

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
    double layers; /* that a model may have at most for the limits to apply as they are; 0: any number */
    double limit[BN_RUNG_COUNT][BN_METRIC_COUNT][BN_BOUNDS];
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
#define BN_VERDICTS_MAX ((size_t)BN_BOUNDS * BN_METRIC_COUNT)

/* Fills the verdicts of every bound that a rung has, and returns their number. A measure that is not a number
 * breaks its bounds, and so does every bound when there are no rows. */
size_t bn_thresholds_judge(const struct bn_thresholds *t, enum bn_rung rung, const struct bn_metrics_sum *sum,
                           struct bn_threshold_verdict out[BN_VERDICTS_MAX]);
/* Whether the rung has bounds, and all of them hold. */
bool bn_thresholds_hold(const struct bn_thresholds *t, enum bn_rung rung, const struct bn_metrics_sum *sum);

/* ---- scores (score.c): how well a model predicts a text ----
 *
 * The tokens are cut into windows of the context's length; in each window every token but the first is scored.
 * Likelihoods are natural logarithms, in binary64 from the exact logits. */

struct bn_score {
    size_t n;         /* tokens scored */
    size_t n_best;    /* those that were the most likely one */
    double nll, nll2; /* sums of negative log likelihoods and of their squares */
};

/* Called with each scored token and its log probability; false stops scoring. */
typedef bool (*bn_score_fn)(void *user, int32_t id, double logp);

/* Scores the tokens; the timeline of the session is lost. on_token may be NULL. */
BN_MUST_CHECK bn_status bn_score_text(struct bn_score *out, bn_session *session, const bn_model *model,
                                      const int32_t *ids, size_t n_ids, bn_score_fn on_token, void *user,
                                      bn_error *err);

/* Of a score with n > 0: the mean negative log likelihood in nats per token, its standard error, exp(mean),
 * and the share of tokens that were the most likely one. */
double bn_score_nll(const struct bn_score *score);
double bn_score_nll_error(const struct bn_score *score);
double bn_score_perplexity(const struct bn_score *score);
double bn_score_accuracy(const struct bn_score *score);

#endif
