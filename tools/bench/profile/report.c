/* SPDX-License-Identifier: MIT
 *
 * bn-bench profile: its tables and its document.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "lab/history/series.h"
#include "lab/kit/put_counts.h"
#include "lab/profile/document.h"
#include "tools/bench/profile/profile.h"
#include "tools/cli/default_model.h"
#include "tools/cli/provenance.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"

#define MAX_TEXT (1u << 20)

/* ---- tables ---- */

static void print_overhead(const struct bn_bench_profile *p)
{
    const struct bn_bench_overhead *o = &p->overhead;
    printf("\nOverhead of level %s\n", bn_prof_level_name(p->level));
    printf("one event    %.1f ns at least, %.1f ns in the median, in a loop\n", o->event_ns_min,
           o->event_ns_median);
    printf("predicted    %.2f %%: %llu event%s on the first thread in %.1f us\n", 100 * o->predicted,
           (unsigned long long)o->n_events, bn_cli_s(o->n_events), (double)p->prof->wall_ns / 1000);
    if (isfinite(o->measured.low))
        printf("measured     %+.2f %% (%+.2f to %+.2f %%), %zu pair%s with and without\n",
               100 * o->measured.change, 100 * o->measured.low, 100 * o->measured.high, o->pairs,
               bn_cli_s(o->pairs));
    else
        printf("measured     %+.2f %%, %zu pair%s with and without: too few for an interval\n",
               100 * o->measured.change, o->pairs, bn_cli_s(o->pairs));
    printf("dropped      %llu event%s\n", (unsigned long long)bn_prof_dropped(p->prof),
           bn_cli_s(bn_prof_dropped(p->prof)));
}

bn_status bn_bench_profile_print(const struct bn_bench_profile *p, bn_error *err)
{
    struct bn_buf text = {.max = MAX_TEXT};
    bn_error why = {0};
    bn_bench_print_machine(&p->machine);
    bn_bench_print_others(&p->others);
    printf("profile  %s, %s, %u thread%s; a prompt of %u token%s, then %u token%s\n\n",
           bn_cli_model_name(p->args), bn_isa_name(), bn_session_n_threads(p->session),
           bn_cli_s(bn_session_n_threads(p->session)), p->o->n_prompt, bn_cli_s(p->o->n_prompt),
           p->o->n_predict, bn_cli_s(p->o->n_predict));
    bn_status status = bn_prof_report(p->prof, &text, err);
    if (status != BN_OK) {
        bn_buf_release(&text);
        return status;
    }
    BN_TRY(bn_bench_print_text(&text, err));
    print_overhead(p);
    if (bn_prof_check(p->prof, &why) == BN_OK)
        printf("\nsums are exact, %.1f %% is accounted for\n", 100 * bn_prof_coverage(p->prof));
    else
        printf("\nthis profile is invalid: %s\n", why.msg);
    return BN_OK;
}

/* ---- the document ---- */

static void put_overhead(bn_json *doc, const struct bn_bench_profile *p)
{
    const struct bn_bench_overhead *o = &p->overhead;
    bn_json *object = bn_json_put_object(doc, "overhead");
    bn_json_put_number(object, "event_ns_min", o->event_ns_min);
    bn_json_put_number(object, "event_ns_median", o->event_ns_median);
    bn_json_put_u64(object, "events", o->n_events);
    bn_json_put_number(object, "predicted_share", o->predicted);
    bn_json *from = bn_json_put_array(object, "predicted_from");
    bn_json_add_string(from, "event_ns_median");
    bn_json_add_string(from, "events");
    bn_json_add_string(from, "wall_ns");
    bn_json_put_number(object, "measured_share", o->measured.change);
    bn_json_put_finite(object, "measured_low", o->measured.low, "too few pairs");
    bn_json_put_finite(object, "measured_high", o->measured.high, "too few pairs");
    bn_json_put_u64(object, "dropped", bn_prof_dropped(p->prof));
    bn_json_put_numbers(object, "on_ns", o->on_ns, o->pairs);
    bn_json_put_numbers(object, "off_ns", o->off_ns, o->pairs);
}

/* The time of one brick on the first thread in each pass of one token; false when a pass lacks the brick. */
static bool times_in_passes(const bn_prof *prof, unsigned brick, double *out, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < prof->n_passes; i++) {
        if (prof->passes[i].n_tokens != 1) continue;
        uint64_t sum = 0;
        for (size_t e = 0; e < prof->trails[0].n; e++) {
            const struct bn_prof_event *event = &prof->trails[0].events[e];
            if (event->pass == i && event->brick == brick && event->kernel == BN_PROF_NO_KERNEL)
                sum += bn_prof_ns(prof, event->end) - bn_prof_ns(prof, event->begin);
        }
        if (sum == 0) return false;
        out[(*n)++] = (double)sum;
    }
    return *n > 0;
}

static void times_of_passes(const bn_prof *prof, double *out, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < prof->n_passes; i++)
        if (prof->passes[i].n_tokens == 1)
            out[(*n)++] =
                (double)(bn_prof_ns(prof, prof->passes[i].end) - bn_prof_ns(prof, prof->passes[i].begin));
}

static bn_status put_series(bn_json *doc, const struct bn_bench_profile *p, bn_error *err)
{
    struct bn_series_list all = {0};
    char test[96], metric[64];
    double *samples = bn_alloc(p->prof->n_passes + 1, sizeof *samples);
    if (samples == NULL) return bn_nomem(err);
    snprintf(test, sizeof test, "profile %s p=%u n=%u t=%u", bn_prof_level_name(p->level), p->o->n_prompt,
             p->o->n_predict, bn_session_n_threads(p->session));
    struct bn_series series = {.test = test, .metric = "ns_per_token", .unit = "ns", .samples = samples};
    times_of_passes(p->prof, samples, &series.n);
    bn_status status = series.n > 0 ? bn_series_add(&all, &series, err) : BN_OK;
    series.metric = metric;
    for (unsigned b = 0; b < p->prof->n_bricks && status == BN_OK; b++) {
        if (!times_in_passes(p->prof, b, samples, &series.n)) continue;
        snprintf(metric, sizeof metric, "%s_ns_per_token", bn_prof_brick_name(p->prof, b));
        status = bn_series_add(&all, &series, err);
    }
    bn_series_put(doc, &all);
    bn_series_release(&all);
    bn_free(samples);
    return status;
}

bn_json *bn_bench_profile_begin(const struct bn_bench_profile *p)
{
    bn_json *doc = bn_bench_document("profile", &p->machine);
    (void)bn_cli_put_model(doc, p->args);
    bn_json *settings = bn_json_put_object(doc, "settings");
    bn_json_put_string(settings, "model", p->args->model);
    bn_json_put_string(settings, "isa", bn_isa_name());
    static const char *const REPACKS[] = {"auto", "never", "always"};
    bn_json_put_string(settings, "repack", REPACKS[p->args->repack]);
    BN_PUT_COUNTS(settings, {"threads", bn_session_n_threads(p->session)}, {"prompt_tokens", p->o->n_prompt},
                  {"decoded_tokens", p->o->n_predict}, {"batch", bn_session_n_batch(p->session)},
                  {"seed", p->o->seed});
    bn_json_put_string(settings, "level", bn_prof_level_name(p->level));
    bn_json_put_u64(settings, "pairs", p->overhead.pairs);
    bn_others_put(doc, &p->others);
    return doc;
}

bn_status bn_bench_profile_document(bn_json **out, const struct bn_bench_profile *p, bn_error *err)
{
    bn_json *doc = bn_bench_profile_begin(p);
    bn_json_put_string(doc, "schema", BN_PROF_SCHEMA);
    put_overhead(doc, p);
    bn_status status = put_series(doc, p, err);
    if (status == BN_OK) status = bn_prof_put(doc, p->prof, bn_model_hparams(p->model), err);
    if (status != BN_OK) {
        bn_json_free(doc);
        return status;
    }
    *out = doc;
    return BN_OK;
}
