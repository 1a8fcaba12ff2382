/* SPDX-License-Identifier: MIT
 *
 * The rule that turns samples into a verdict. It works on logarithms of ratios; they become changes at the
 * end.
 */
#include "lab/stats/judge.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/stats/interval.h"
#include "lab/stats/summary.h"

#define N_USEFUL_MAX 100000.0 /* more pairs than this are not recommended */

const char *bn_outcome_name(enum bn_outcome outcome)
{
    static const char *const NAMES[] = {"SAME", "STABLE", "IMPROVED", "INCONCLUSIVE", "REGRESSED"};
    return (size_t)outcome < BN_ARRAY_LEN(NAMES) ? NAMES[outcome] : "unknown";
}

static bn_status check_rules(const struct bn_judge_rules *r, bn_error *err)
{
    if (r->margin > 0 && r->margin < 1 && r->confidence > 0.5 && r->confidence < 1 && r->q > 0 && r->q < 1 &&
        r->agreement >= 0 && r->agreement <= 1)
        return BN_OK;
    return bn_fail(err, BN_ERR_ARG, "a margin, confidence, q or agreement is not between 0 and 1");
}

/* Starts a judgement of n pairs or samples. */
static bn_status begin(struct bn_judgement *out, size_t n, const struct bn_judge_rules *r, bn_error *err)
{
    const double none = (double)NAN;
    *out = (struct bn_judgement){.outcome = BN_OUTCOME_INCONCLUSIVE,
                                 .n = n,
                                 .p = 1,
                                 .q = 1,
                                 .agreement = none,
                                 .mde = none,
                                 .higher = r->higher,
                                 .reason = "not judged"};
    return check_rules(r, err);
}

/* ---- words ---- */

static void set_reason(struct bn_judgement *j, const char *fmt, ...) BN_PRINTF(2, 3);
static void set_reason(struct bn_judgement *j, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(j->reason, sizeof j->reason, fmt, args);
    va_end(args);
}

void bn_judge_none(struct bn_judgement *j, const char *fmt, ...)
{
    const double none = (double)NAN;
    va_list args;
    *j = (struct bn_judgement){.outcome = BN_OUTCOME_INCONCLUSIVE,
                               .change = none,
                               .low = none,
                               .high = none,
                               .p = none,
                               .q = none,
                               .agreement = none,
                               .mde = none};
    va_start(args, fmt);
    vsnprintf(j->reason, sizeof j->reason, fmt, args);
    va_end(args);
}

/* A share as percent: "+4.1 %", and "1 %" unsigned. */
struct percent {
    char text[32];
};

static struct percent percent(double share, bool with_sign)
{
    struct percent out;
    double value = fabs(100 * share);
    int decimals = value > 0 && value < 0.1                                  ? 2
                   : value >= 99.95 || (!with_sign && value == floor(value)) ? 0
                                                                             : 1;
    snprintf(out.text, sizeof out.text, with_sign ? "%+.*f %%" : "%.*f %%", decimals, 100 * share);
    return out;
}

double bn_judge_turn(double change, bool higher)
{
    return higher ? 1 / (1 + change) - 1 : change;
}

/* "-0.3 % .. +4.1 %", of the figure */
struct range {
    char text[80];
};

static struct range range(const struct bn_judgement *j, const char *to)
{
    struct range out;
    snprintf(out.text, sizeof out.text, "%s%s%s",
             percent(bn_judge_turn(j->higher ? j->high : j->low, j->higher), true).text, to,
             percent(bn_judge_turn(j->higher ? j->low : j->high, j->higher), true).text);
    return out;
}

static struct range enough(const struct bn_judgement *j, const char *what)
{
    struct range out = {""};
    if (j->n_needed > j->n)
        snprintf(out.text, sizeof out.text, "; about %zu more %s would decide", j->n_needed - j->n, what);
    return out;
}

/* ---- the rule ---- */

/* The input of the rule that is not part of the judgement. */
struct setting {
    const struct bn_judge_rules *rules;
    double bias, spread; /* two copies differ by up to the sum; more pairs reduce only the spread */
    double within;       /* an interval within this has the verdict: */
    enum bn_outcome unchanged;
    const char *what;  /* "pairs", "samples" */
    const char *cause; /* names the limit when it is not the margin, */
    const char *limit; /* and the same as a clause before its value */
};

/* A change counts beyond it. */
static double limit_of(const struct setting *s)
{
    return fmax(s->rules->margin, s->bias + s->spread);
}

/* A number of pairs that is worth taking, more than there are; 0 when it is not. */
static size_t useful(const struct bn_judgement *j, double n)
{
    return ceil(n) <= N_USEFUL_MAX ? (size_t)fmax(ceil(n), (double)j->n + 1) : 0;
}

/* The interval would be decisive if it were r times as wide: half of it and the spread would fit between the
 * estimate and the limit. The width shrinks with the root of n. */
static size_t needed(const struct bn_judgement *j, const struct setting *s)
{
    double half = 0.5 * (j->high - j->low), size = fabs(j->change), margin = s->rules->margin, r = 0;
    if (size > fmax(margin, s->bias))
        r = fmin((size - margin) / half, (size - s->bias) / (half + s->spread));
    else if (size < s->within)
        r = (s->within - size) / half;
    return useful(j, r > 0 ? (double)j->n / (r * r) : (double)INFINITY);
}

/* The number of pairs for which q would fall below the threshold: the distance in standard deviations grows
 * with the root of n. */
static size_t needed_for_p(const struct bn_judgement *j, double q)
{
    double now = bn_normal_quantile(0.5 * j->p), then = bn_normal_quantile(0.5 * j->p * q / j->q);
    return useful(j, (double)j->n * (then / now) * (then / now));
}

static void decide_direction(struct bn_judgement *j, const struct setting *s, enum bn_outcome outcome)
{
    const struct bn_judge_rules *r = s->rules;
    if (!(j->p < r->q)) {
        j->n_needed = needed_for_p(j, r->q);
        set_reason(j, "%s, but p is %.2g, not below %.2g%s", range(j, " .. ").text, j->p, r->q,
                   enough(j, s->what).text);
    } else if (j->agreement < r->agreement) {
        set_reason(j, "%s, but only %.0f of %zu pairs agree in sign; take longer samples, not more",
                   range(j, " .. ").text, j->agreement * (double)j->n, j->n);
    } else {
        j->outcome = outcome;
        int used = snprintf(j->reason, sizeof j->reason, "%s is beyond %s%s", range(j, " .. ").text,
                            percent(limit_of(s), false).text, limit_of(s) > r->margin ? s->cause : "");
        if (!isnan(j->agreement) && used > 0 && (size_t)used < sizeof j->reason)
            snprintf(j->reason + used, sizeof j->reason - (size_t)used, "; %.0f of %zu pairs agree in sign",
                     j->agreement * (double)j->n, j->n);
    }
}

static void decide_unclear(struct bn_judgement *j, const struct setting *s)
{
    bool margin = limit_of(s) <= s->rules->margin;
    j->n_needed = needed(j, s);
    set_reason(j, "the change is between %s, %s %s%s", range(j, " and ").text,
               margin ? "not clearly within or beyond" : s->limit, percent(limit_of(s), false).text,
               enough(j, s->what).text);
}

/* Needs n, change, low, high, p, agreement; sets outcome, reason, n_needed. */
static void decide(struct bn_judgement *j, const struct setting *s)
{
    j->outcome = BN_OUTCOME_INCONCLUSIVE;
    j->q = j->p;
    if (j->low > limit_of(s)) {
        decide_direction(j, s, BN_OUTCOME_REGRESSED);
    } else if (j->high < -limit_of(s)) {
        decide_direction(j, s, BN_OUTCOME_IMPROVED);
    } else if (j->low >= -s->within && j->high <= s->within) {
        j->outcome = s->unchanged;
        set_reason(j, "%s is within %s%s", range(j, " .. ").text, percent(s->within, false).text,
                   s->within > s->rules->margin ? s->cause : "");
    } else {
        decide_unclear(j, s);
    }
}

static void take_shift(struct bn_judgement *j, const struct bn_interval *shift)
{
    j->change = expm1(shift->estimate);
    j->low = expm1(shift->low);
    j->high = expm1(shift->high);
}

/* ---- pairs ---- */

static bn_status check_finite(const double *d, size_t n, const char *what, bn_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(d[i])) return bn_fail(err, BN_ERR_ARG, "%s %zu is not finite", what, i);
    return BN_OK;
}

/* The standard deviation, by the median distance from the median, which outliers do not move; when more
 * than half of the numbers are equal, the usual one. NaN of fewer than 2. */
static bn_status deviation(double *out, const double *d, size_t n, bn_error *err)
{
    struct bn_summary of;
    *out = (double)NAN;
    if (n < 2) return BN_OK;
    if (!bn_summarize(&of, d, n)) return bn_nomem(err);
    *out = BN_MAD_SIGMA * of.mad;
    if (of.mad <= 0) bn_mean(d, n, out);
    return BN_OK;
}

/* What is found with 80 % power, of an estimate with this standard deviation. */
static double detectable(double sd)
{
    return (bn_normal_quantile(0.975) + bn_normal_quantile(0.8)) * sd;
}

/* The least n whose signed ranks have an interval at all: 2 of 2^n ways must be rare enough. */
static size_t least_pairs(double confidence)
{
    return (size_t)ceil(1 - log2(1 - confidence) - 1e-9);
}

/* The band is the farther end of the interval of A compared with its copy (without an interval, the farthest
 * pair); the bias is its estimate. */
static bn_status measure_band(double *band, double *bias, const double *null, size_t n_null,
                              double confidence, bn_error *err)
{
    struct bn_rank_test of;
    *band = *bias = 0;
    if (n_null == 0) return BN_OK;
    BN_TRY(bn_signed_rank(&of, null, n_null, confidence, err));
    *bias = fabs(expm1(of.shift.estimate));
    if (!isnan(of.shift.low)) *band = fmax(fabs(expm1(of.shift.low)), fabs(expm1(of.shift.high)));
    for (size_t i = 0; i < n_null && isnan(of.shift.low); i++)
        *band = fmax(*band, fabs(expm1(null[i])));
    return BN_OK;
}

static double agreement_of(const double *d, size_t n, double estimate)
{
    size_t agree = 0;
    for (size_t i = 0; i < n; i++)
        agree += estimate > 0 ? d[i] > 0 : estimate < 0 ? d[i] < 0 : d[i] >= 0 && d[i] <= 0;
    return (double)agree / (double)n;
}

static void too_few(struct bn_judgement *j, double sigma, const struct bn_judge_rules *r, size_t least)
{
    double want = bn_normal_quantile(0.5 + 0.5 * r->confidence) * sigma / r->margin;
    want = isnan(want) ? 0 : ceil(want * want);
    j->q = j->p;
    if (want <= N_USEFUL_MAX) j->n_needed = (size_t)fmax(want, (double)least);
    if (j->n == 0)
        set_reason(j, "there are no pairs");
    else
        set_reason(j, "%zu pair%s too few for an interval; at least %zu are needed", j->n,
                   j->n == 1 ? " is" : "s are", least);
}

bn_status bn_judge_pairs(struct bn_judgement *out, const double *d, size_t n, const double *null,
                         size_t n_null, const struct bn_judge_rules *rules, bn_error *err)
{
    struct bn_rank_test test;
    double sigma, bias;
    BN_TRY(begin(out, n, rules, err));
    size_t least = least_pairs(rules->confidence);
    BN_TRY(check_finite(d, n, "pair", err));
    BN_TRY(check_finite(null, n_null, "pair of copies", err));
    BN_TRY(bn_signed_rank(&test, d, n, rules->confidence, err));
    BN_TRY(measure_band(&out->band, &bias, null, n_null, rules->confidence, err));
    BN_TRY(n_null >= least ? deviation(&sigma, null, n_null, err) : deviation(&sigma, d, n, err));
    take_shift(out, &test.shift);
    out->p = test.p;
    if (n > 0) {
        out->agreement = agreement_of(d, n, test.shift.estimate);
        out->mde = detectable(sigma / sqrt((double)n));
    }
    if (isnan(out->low)) {
        too_few(out, sigma, rules, least);
        return BN_OK;
    }
    struct setting setting = {rules,
                              bias,
                              out->band - bias,
                              rules->margin,
                              BN_OUTCOME_SAME,
                              "pairs",
                              ", the difference of A from itself",
                              "and A differs from itself by up to"};
    decide(out, &setting);
    return BN_OK;
}

/* ---- samples of different times ---- */

/* Logarithms of costs, for bn_free also after a failure. */
static bn_status take_logs(double **out, const double *x, size_t n, const char *side, bn_error *err)
{
    BN_TRY(BN_NEW(*out, n, err));
    for (size_t i = 0; i < n; i++) {
        if (!(x[i] > 0 && isfinite(x[i])))
            return bn_fail(err, BN_ERR_ARG, "%s sample %zu is not a positive number", side, i);
        (*out)[i] = log(x[i]);
    }
    return BN_OK;
}

static bn_status judge_logs(struct bn_judgement *out, const double *a, size_t n_a, const double *b,
                            size_t n_b, double drift, const struct bn_judge_rules *rules, bn_error *err)
{
    struct bn_rank_test test;
    double sd_a, sd_b;
    BN_TRY(bn_rank_sum(&test, a, n_a, b, n_b, rules->confidence, err));
    BN_TRY(deviation(&sd_a, a, n_a, err));
    BN_TRY(deviation(&sd_b, b, n_b, err));
    take_shift(out, &test.shift);
    out->p = out->q = test.p;
    out->mde = detectable(sqrt(sd_a * sd_a / (double)n_a + sd_b * sd_b / (double)n_b));
    if (isnan(out->low)) {
        out->n_needed = least_pairs(rules->confidence);
        set_reason(out, "%zu and %zu samples are too few for an interval; %zu on each side are needed", n_a,
                   n_b, out->n_needed);
        return BN_OK;
    }
    struct setting setting = {rules,
                              drift,
                              0,
                              fmax(drift, rules->margin),
                              drift > rules->margin ? BN_OUTCOME_STABLE : BN_OUTCOME_SAME,
                              "samples a side",
                              ", the drift allowed between two sessions",
                              "and the drift allowed between two sessions is"};
    decide(out, &setting);
    return BN_OK;
}

bn_status bn_judge_samples(struct bn_judgement *out, const double *a, size_t n_a, const double *b, size_t n_b,
                           double drift, const struct bn_judge_rules *rules, bn_error *err)
{
    BN_TRY(begin(out, bn_min_size(n_a, n_b), rules, err));
    if (!(drift >= 0)) return bn_fail(err, BN_ERR_ARG, "the drift is negative");
    double *log_a = NULL, *log_b = NULL;
    bn_status status = take_logs(&log_a, a, n_a, "earlier", err);
    if (status == BN_OK) status = take_logs(&log_b, b, n_b, "later", err);
    if (status == BN_OK) status = judge_logs(out, log_a, n_a, log_b, n_b, drift, rules, err);
    bn_free(log_a);
    bn_free(log_b);
    return status;
}

/* ---- exact values ---- */

void bn_judge_exact(struct bn_judgement *out, double a, double b, bool higher)
{
    bn_judge_none(out, "a value is missing");
    out->n = 1;
    if (!isfinite(a) || !isfinite(b)) return;
    bool same = a >= b && a <= b, worse = higher ? b < a : b > a;
    out->change = out->low = out->high = same ? 0 : higher ? a / b - 1 : b / a - 1;
    out->mde = 0;
    out->outcome = same ? BN_OUTCOME_SAME : worse ? BN_OUTCOME_REGRESSED : BN_OUTCOME_IMPROVED;
    if (same)
        set_reason(out, "the same value, %.17g", a);
    else
        set_reason(out, "%.17g became %.17g; these values have no noise", a, b);
}

/* ---- the session ---- */

static void withdraw(struct bn_judgement *j, size_t n_tests, const struct bn_judge_rules *rules)
{
    bool change = j->outcome == BN_OUTCOME_IMPROVED || j->outcome == BN_OUTCOME_REGRESSED;
    if (!change || j->q < rules->q) return;
    j->outcome = BN_OUTCOME_INCONCLUSIVE;
    j->n_needed = needed_for_p(j, rules->q);
    set_reason(j, "%s, but among %zu comparisons such a p is expected by chance (q %.2g)%s",
               range(j, " .. ").text, n_tests, j->q, enough(j, "pairs").text);
}

bn_status bn_judge_session(struct bn_judgement *list, size_t n, const struct bn_judge_rules *rules,
                           bn_error *err)
{
    size_t n_tests = 0, at = 0;
    BN_TRY(check_rules(rules, err));
    double *p = bn_alloc(n, sizeof *p);
    if (p == NULL) return bn_nomem(err);
    for (size_t i = 0; i < n; i++)
        if (!isnan(list[i].p)) p[n_tests++] = list[i].p; /* else it is of exact values */
    bn_status status = bn_false_discovery(p, p, n_tests, err);
    for (size_t i = 0; i < n && status == BN_OK; i++)
        if (!isnan(list[i].p)) {
            list[i].q = p[at++];
            withdraw(&list[i], n_tests, rules);
        }
    bn_free(p);
    return status;
}
