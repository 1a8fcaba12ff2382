/* SPDX-License-Identifier: MIT
 *
 * bn-bench run --target: targets, such as "decode>=30" and "first-token<=200ms". A target names a quantity, which is the
 * median of one metric of some tests, or its 95 % quantile. Every test that has it must meet the target; words after the name
 * restrict the tests ("decode t=2>=30"); with "fastest" only the best one must ("decode fastest>=30"). Tests next to busy
 * processes count only when they are named ("decode busy=1>=20"). A target without data is missed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/stats/summary.h"
#include "tools/bench/run/run.h"

static const struct bn_bench_quantity QUANTITIES[] = {
    {"decode", "decode", "ns_per_token", "tok/s", false},
    {"prompt", "prompt", "ns_per_token", "tok/s", false},
    {"generate", "generate", "ns_per_token", "tok/s", false},
    {"first-token", "prompt|generate", "first_token_ns", "ns", false},
    {"token", "decode|generate", "token_ns", "ns", false},
    {"token-p95", "decode|generate", "token_ns", "ns", true},
    {"token-jitter", "decode|generate", "token_jitter_ns", "ns", false},
    {"token-spread", "decode|generate", "token_spread_ns", "ns", false},
    {"tokenize", "tokenize", "tokenize_ns_per_token", "tok/s", false},
    {"load", "load", "load_ns", "ns", false},
    {"memory", "process", "peak_rss_bytes", "bytes", false},
    {"energy", "decode|prompt|generate", "joules_per_token", "J", false},
    {"price", "decode|prompt|generate|concurrent", "price_per_million_tokens", "price", false},
    {"accuracy", "score", "accuracy", "1", false},
    {"perplexity", "score", "perplexity", "1", false},
    {"nll", "score", "nll", "nats/token", false},
};

static const struct {
    const char *unit, *written;
    double factor;
} UNITS[] = {
    {"tok/s", "", 1},         {"tok/s", "tok/s", 1}, {"ns", "ns", 1},          {"ns", "us", 1e3},
    {"ns", "ms", 1e6},        {"ns", "s", 1e9},      {"bytes", "B", 1},        {"bytes", "kB", 1e3},
    {"bytes", "MB", 1e6},     {"bytes", "GB", 1e9},  {"bytes", "KiB", 0x1p10}, {"bytes", "MiB", 0x1p20},
    {"bytes", "GiB", 0x1p30}, {"J", "J", 1},         {"J", "mJ", 1e-3},        {"1", "", 1},
    {"1", "%", 0.01},         {"nats/token", "", 1}, {"price", "", 1},
};

/* ---- reading ---- */

static bool read_amount(const char *text, const char *unit, double *out)
{
    char *end;
    double x = strtod(text, &end);
    if (end == text || !isfinite(x) || x < 0) return false;
    end += strspn(end, " ");
    for (size_t i = 0; i < BN_ARRAY_LEN(UNITS); i++) {
        if (strcmp(UNITS[i].unit, unit) != 0 || strcmp(UNITS[i].written, end) != 0) continue;
        *out = x * UNITS[i].factor;
        return true;
    }
    return false;
}

static bn_status unknown(const char *text, bn_error *err)
{
    char names[256] = "";
    size_t len = 0;
    for (size_t i = 0; i < BN_ARRAY_LEN(QUANTITIES); i++)
        len +=
            (size_t)snprintf(names + len, sizeof names - len, "%s%s", i > 0 ? ", " : "", QUANTITIES[i].name);
    bn_fail(err, BN_ERR_ARG, "--target '%.60s': unknown name", text);
    bn_error_hint(err, "names: %s", names);
    return BN_ERR_ARG;
}

static void hint_units(const struct bn_bench_quantity *q, bn_error *err)
{
    char units[96] = "";
    size_t len = 0;
    for (size_t i = 0; i < BN_ARRAY_LEN(UNITS); i++)
        if (strcmp(UNITS[i].unit, q->unit) == 0 && UNITS[i].written[0] != '\0')
            len += (size_t)snprintf(units + len, sizeof units - len, "%s%s", len > 0 ? ", " : "",
                                    UNITS[i].written);
    bn_error_hint(err, units[0] != '\0' ? "units of %s: %s" : "%s has no unit%s", q->name, units);
}

bn_status bn_bench_target_read(struct bn_bench_target *t, const char *text, bn_error *err)
{
    size_t n_left = strcspn(text, "<>"), n_name = strcspn(text, " <>"), q = 0;
    const char *sign = text + n_left;
    *t = (struct bn_bench_target){.text = text, .least = *sign == '>', .found = (double)NAN};
    if (*sign == '\0' || sign[1] != '=')
        return bn_fail(err, BN_ERR_ARG, "--target '%.60s': expected NAME>=VALUE or NAME<=VALUE", text);
    while (q < BN_ARRAY_LEN(QUANTITIES) &&
           (strncmp(QUANTITIES[q].name, text, n_name) != 0 || QUANTITIES[q].name[n_name] != '\0'))
        q++;
    if (q == BN_ARRAY_LEN(QUANTITIES)) return unknown(text, err);
    t->quantity = &QUANTITIES[q];
    if (n_left - n_name >= sizeof t->words)
        return bn_fail(err, BN_ERR_ARG, "--target '%.60s': the name is too long", text);
    snprintf(t->words, sizeof t->words, "%.*s", (int)(n_left - n_name), text + n_name);
    if (read_amount(sign + 2, QUANTITIES[q].unit, &t->wanted)) return BN_OK;
    bn_fail(err, BN_ERR_ARG, "--target '%.60s': '%.40s' is not an amount with its unit", text, sign + 2);
    hint_units(&QUANTITIES[q], err);
    return BN_ERR_ARG;
}

/* ---- judging ---- */

static bool is_meant(const struct bn_bench_target *t, const struct bn_series *s)
{
    if (strcmp(s->metric, t->quantity->metric) != 0 ||
        !bn_has_word(t->quantity->tests, '|', s->test, strcspn(s->test, " ")))
        return false;
    if (strstr(s->test, " busy=") != NULL && strstr(t->words, "busy=") == NULL) return false;
    for (const char *at = t->words + strspn(t->words, " "); *at != '\0'; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        if (!bn_has_word("fastest", ' ', at, n) && !bn_has_word(s->test, ' ', at, n)) return false;
        at += n;
    }
    return true;
}

/* The value of a series in the unit of the quantity; NaN when there are too few samples for the quantile. */
static bn_status measure(double *out, const struct bn_bench_quantity *q, const struct bn_series *s,
                         bn_error *err)
{
    double x = (double)NAN;
    if (q->p95)
        (void)bn_quantile(&x, s->samples, s->n, 0.95);
    else if (isnan(x = bn_median(s->samples, s->n)))
        return bn_nomem(err); /* every series has a median */
    *out = strcmp(q->unit, "tok/s") == 0 ? 1e9 / x : x;
    return BN_OK;
}

bn_status bn_bench_target_judge(struct bn_bench_target *t, const struct bn_series_list *all, bn_error *err)
{
    bool fastest = bn_has_word(t->words, ' ', "fastest", strlen("fastest"));
    t->found = (double)NAN;
    t->test[0] = '\0';
    for (size_t k = 0; k < all->n; k++) {
        double x;
        if (!is_meant(t, &all->list[k])) continue;
        BN_TRY(measure(&x, t->quantity, &all->list[k], err));
        bool first = t->test[0] == '\0', better = t->least ? x > t->found : x < t->found;
        if (!first && !isnan(x) && better != fastest) continue;
        t->found = x;
        snprintf(t->test, sizeof t->test, "%.79s", all->list[k].test);
        if (isnan(x)) break;
    }
    t->met = t->least ? t->found >= t->wanted : t->found <= t->wanted; /* NaN does not */
    return BN_OK;
}

/* ---- of a run ---- */

bn_status bn_bench_targets_read(struct bn_bench_measurement *m, bn_error *err)
{
    const struct bn_texts *texts = &m->o->targets;
    BN_TRY(BN_NEW(m->targets, texts->n + 1, err));
    for (size_t i = 0; i < texts->n; i++)
        BN_TRY(bn_bench_target_read(&m->targets[m->n_targets++], texts->list[i], err));
    return BN_OK;
}

bn_status bn_bench_targets_judge(struct bn_bench_measurement *m, bn_error *err)
{
    bn_json *array = bn_json_put_array(m->h.doc, "targets");
    for (size_t i = 0; i < m->n_targets; i++) {
        struct bn_bench_target *t = &m->targets[i];
        BN_TRY(bn_bench_target_judge(t, &m->h.series, err));
        bn_json *o = bn_json_add_object(array);
        bn_json_put_string(o, "target", t->text);
        bn_json_put_bool(o, "met", t->met);
        bn_json_put_finite(o, "found", t->found, "the run has no data for it");
        bn_json_put_number(o, "wanted", t->wanted);
        BN_PUT_STRINGS(o, {"wanted_at", t->least ? "least" : "most"}, {"unit", t->quantity->unit});
        bn_json_put_known(o, "test", t->test, "the run has no such test");
        if (!t->met) m->h.args->exit_code = BN_EXIT_NEGATIVE;
    }
    return BN_OK;
}

void bn_bench_targets_print(const struct bn_bench_measurement *m)
{
    for (size_t i = 0; i < m->n_targets; i++) {
        const struct bn_bench_target *t = &m->targets[i];
        char found[BN_UNITS_ROOM], name[BN_TEST_ROOM], line[320];
        const char *unit = strcmp(t->quantity->unit, "nats/token") == 0 ? "1" : t->quantity->unit;
        snprintf(line, sizeof line, "%-6s  %.80s: found %s%s%.120s", t->met ? "met" : "missed", t->text,
                 isnan(t->found) ? "no data" : bn_units_text(found, t->found, unit),
                 t->test[0] != '\0' ? ", " : "", bn_test_name(name, t->test));
        if (!m->h.args->json)
            printf("target   %s\n", line);
        else if (!t->met)
            bn_report_warning("target %s", line);
    }
}
