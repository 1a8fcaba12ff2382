/* SPDX-License-Identifier: MIT
 *
 * "What this shows": at most five sentences, derived by fixed rules from the figures of one recording. Each
 * names its figures. What was not measured is not estimated; the sentence gives the reason instead.
 */
#include <math.h>

#include "base/error.h"
#include "lab/profile/roofline.h"
#include "lab/report/units.h"
#include "lab/stacks/hotspots.h"
#include "tools/flamegraph/archive.h"
#include "tools/flamegraph/page.h"

/* Shares of the read bandwidth from which memory is the limit, or part of it. */
#define IS_LIMIT 0.7
#define IS_PART 0.4
/* Share of their time for which threads waited for a processor: above it, times say nothing of limits. */
#define IS_BUSY 0.1
/* Share of waiting from which the shares of the rest are given too. */
#define MUCH_WAITING 0.05

/* A sentence with a reason, which may come from a document: control characters are escaped. */
static void put_reason(struct bn_buf *out, const char *before, const char *text)
{
    char safe[400];
    bn_buf_printf(out, "%s: %s.\n", before, bn_escape(safe, sizeof safe, text, strlen(text)));
}

static void put_percent(struct bn_buf *out, double share)
{
    bn_buf_printf(out, "%.1f %%", 100 * share);
}

/* ---- classes ---- */

/* Whether a class is work that could take less time. Functions without a class may be of any. */
static bool is_work(unsigned class)
{
    return class != BN_CLASS_WAIT && class != BN_CLASS_OTHER && class != BN_CLASS_TAG;
}

static void put_classes(struct bn_buf *out, const double shares[BN_CLASSES])
{
    double work = 1 - shares[BN_CLASS_WAIT];
    bn_buf_puts(out, "Matrix multiplication takes ");
    put_percent(out, shares[BN_CLASS_MULTIPLY]);
    bn_buf_puts(out, " of the samples, attention ");
    put_percent(out, shares[BN_CLASS_ATTENTION]);
    bn_buf_puts(out, ", memory (copies and allocation) ");
    put_percent(out, shares[BN_CLASS_MEMORY]);
    bn_buf_puts(out, ", functions of no class ");
    put_percent(out, shares[BN_CLASS_OTHER]);
    bn_buf_puts(out, ", waiting ");
    put_percent(out, shares[BN_CLASS_WAIT]);
    if (shares[BN_CLASS_WAIT] > MUCH_WAITING && work > 0) {
        bn_buf_puts(out, "; without waiting, matrix multiplication takes ");
        put_percent(out, shares[BN_CLASS_MULTIPLY] / work);
    }
    bn_buf_puts(out, ".\n");
}

/* The class of work with the largest share, and not except. */
static unsigned largest(const double shares[BN_CLASSES], unsigned except)
{
    unsigned most = BN_CLASSES;
    for (unsigned c = 0; c < BN_CLASSES; c++)
        if (is_work(c) && c != except && (most == BN_CLASSES || shares[c] > shares[most])) most = c;
    return most;
}

/* Amdahl: what takes a share s of the time gives 1 / (1 - s) at most. */
static void put_next(struct bn_buf *out, const double shares[BN_CLASSES])
{
    unsigned first = largest(shares, BN_CLASSES), second = largest(shares, first);
    unsigned none = shares[BN_CLASS_OTHER] > shares[BN_CLASS_WAIT] ? BN_CLASS_OTHER : BN_CLASS_WAIT;
    if (shares[none] >= shares[first] && shares[none] > 0) {
        bn_buf_puts(out, none == BN_CLASS_WAIT ? "Waiting takes " : "Functions of no class take ");
        put_percent(out, shares[none]);
        bn_buf_printf(out, ", more than any class of work, so these shares do not show what to improve%s.\n",
                      none == BN_CLASS_WAIT ? "; record with --threads 1" : "");
        return;
    }
    if (!(shares[first] > 0)) return;
    bn_buf_printf(out, "Without %s, the largest class, the same work would take ", bn_class_name(first));
    put_percent(out, 1 - shares[first]);
    bn_buf_puts(out, " of its processor time");
    if (shares[first] < 1) bn_buf_printf(out, " (at most %.1f times as fast)", 1 / (1 - shares[first]));
    if (shares[second] > 0) {
        bn_buf_printf(out, "; the next limit is %s with ", bn_class_name(second));
        put_percent(out, shares[second]);
        bn_buf_printf(out, " (at most %.2f times as fast)", 1 / (1 - shares[second]));
    }
    bn_buf_puts(out, ".\n");
}

/* ---- memory ---- */

bool bn_flamegraph_pass(const bn_json *about, double *bytes, double *ns, const char **what)
{
    static const char *const PARTS[] = {"phases.embed_ns", "phases.forward_ns", "phases.head_ns",
                                        "phases.sample_ns"};
    *what = "a decoded token";
    if (bn_json_number(bn_json_path(about, "reads.token_bytes"), bytes)) {
        *ns = 0;
        for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++) {
            double part = (double)NAN;
            (void)bn_json_number(bn_json_path(about, PARTS[i]), &part);
            *ns += part;
        }
        return *bytes > 0 && *ns > 0;
    }
    *what = "one pass over the prompt";
    return bn_json_number(bn_json_path(about, "reads.prompt_bytes"), bytes) &&
           bn_json_number(bn_json_path(about, "phases.generation_ns"), ns) && *bytes > 0 && *ns > 0;
}

static double sum_of(const bn_json *list)
{
    double sum = 0, each;
    for (const bn_json *e = bn_json_first(list); e != NULL; e = bn_json_next(e))
        if (bn_json_number(e, &each)) sum += each;
    return sum;
}

/* The share of their time for which threads waited for a processor; 0 when it is not known. */
static double busy_share(const bn_stacks *stacks)
{
    const bn_json *about = stacks->measured != NULL ? stacks->measured->about : NULL;
    double cpu = sum_of(bn_json_path(about, "scheduling.cpu_ns")),
           waited = sum_of(bn_json_path(about, "scheduling.waited_ns"));
    return waited > 0 ? waited / (cpu + waited) : 0;
}

static const char *bound_of(const struct bn_roofline *r, const double shares[BN_CLASSES])
{
    bool waits = true;
    for (unsigned c = 0; c < BN_CLASSES; c++)
        waits = waits && shares[c] <= shares[BN_CLASS_WAIT];
    if (waits) return "Waiting for other threads limits this work";
    if (r->invalid) return "The limit is not known, because one of two measurements was disturbed";
    if (r->distance.mid <= 1 - IS_LIMIT) return "Memory bandwidth limits this work";
    if (r->distance.mid <= 1 - IS_PART) return "Memory bandwidth and computing together limit this work";
    return "Computing limits this work, not memory bandwidth";
}

static void put_memory(struct bn_buf *out, const bn_stacks *stacks, const double shares[BN_CLASSES])
{
    const bn_json *about = stacks->about;
    double bytes = 0, ns = 0, limit = 0;
    const char *what, *why = NULL;
    char text[3][BN_UNITS_ROOM];
    bool pass = bn_flamegraph_pass(about, &bytes, &ns, &what);
    if (!pass || !bn_json_number(bn_json_path(about, "reads.limit_bytes_per_s"), &limit)) {
        if (pass) (void)bn_json_string(bn_json_path(about, "reads.unavailable.limit_bytes_per_s"), &why);
        put_reason(out, "The distance from the memory limit is not known",
                   why != NULL ? why
                   : pass      ? "the read bandwidth was not measured"
                               : "the bytes read were not counted");
        return;
    }
    struct bn_roofline_work work = {.bytes = bytes, .seconds = {ns / 1e9, ns / 1e9, ns / 1e9}};
    struct bn_roofline place;
    bn_roofline_place(&place, &work, 0, limit);
    if (!place.known) {
        put_reason(out, "The distance from the memory limit is not known", place.reason);
        return;
    }
    double busy = busy_share(stacks);
    if (busy > IS_BUSY) {
        bn_buf_puts(out, "The limit is not known, because the threads waited for a processor for ");
        put_percent(out, busy);
        bn_buf_puts(out, " of their time");
    } else {
        bn_buf_puts(out, bound_of(&place, shares));
    }
    bn_buf_printf(out, ": %s reads %s of weights and cache in %s, ", what,
                  bn_units_text(text[0], bytes, "bytes"), bn_units_text(text[1], ns, "ns"));
    bn_buf_printf(out, "%s, which is ", bn_units_text(text[2], place.achieved, "bytes/s"));
    put_percent(out, place.achieved / place.roof);
    bn_buf_printf(out, " of the %s measured on this machine.\n",
                  bn_units_text(text[2], place.roof, "bytes/s"));
}

/* ---- changes and trust ---- */

/* The function whose share changed most of those that changed significantly; NULL for none. */
static const struct bn_diff_value *largest_change(const struct bn_stacks_diff *diff, const char **name)
{
    const struct bn_diff_value *most = NULL;
    for (size_t i = 0; i < diff->tree->n_frames; i++) {
        const struct bn_diff_value *v = &diff->functions_self[i].share;
        if (!v->significant || BN_FRAME_IS_TAG(diff->tree->frames[i].kind)) continue;
        if (most != NULL && fabs(v->after - v->before) <= fabs(most->after - most->before)) continue;
        most = v;
        *name = diff->tree->frames[i].name;
    }
    return most;
}

static bn_status put_change(struct bn_buf *out, const struct bn_flamegraph_page *page, bn_error *err)
{
    struct bn_stacks_diff diff = {0};
    const char *name = "";
    char safe[200];
    if (page->before == NULL) {
        put_reason(out, "Not compared with an earlier recording", page->before_why);
        return BN_OK;
    }
    BN_TRY(bn_archive_compare(&diff, page->before, page->stacks, err));
    const struct bn_diff_value *v = largest_change(&diff, &name);
    bn_buf_printf(out, "Since %s, ", page->before_name);
    if (v == NULL) {
        bn_buf_puts(out, "the share of no function changed significantly.\n");
    } else {
        bn_buf_printf(out, "the largest significant change is %s, from ",
                      bn_escape(safe, sizeof safe, name, strlen(name)));
        put_percent(out, v->before);
        bn_buf_puts(out, " to ");
        put_percent(out, v->after);
        bn_buf_puts(out, " of the time.\n");
    }
    bn_stacks_diff_release(&diff);
    return BN_OK;
}

static void put_trust(struct bn_buf *out, const bn_json *about)
{
    const bn_json *agreement = bn_json_get(about, "agreement");
    bool agrees = false;
    if (agreement == NULL) return;
    if (!bn_json_bool(bn_json_get(agreement, "agrees"), &agrees)) {
        put_reason(out, "The samples were not compared with the profiler", bn_json_text_of(agreement, "why"));
        return;
    }
    bn_buf_printf(out, "The samples %s the profiler's times (%.0f samples, p = %.3g)%s.\n",
                  agrees ? "agree with" : "disagree with", bn_json_number_of(agreement, "samples"),
                  bn_json_number_of(agreement, "p"), agrees ? "" : ", so do not rely on these shares");
}

bn_status bn_flamegraph_insights(struct bn_buf *out, const struct bn_flamegraph_page *page, bn_error *err)
{
    double shares[BN_CLASSES];
    BN_TRY(bn_class_shares(shares, page->stacks, err));
    put_classes(out, shares);
    put_memory(out, page->stacks, shares);
    put_next(out, shares);
    BN_TRY(put_change(out, page, err));
    put_trust(out, page->stacks->about);
    BN_TRY(bn_buf_check(out, err));
    out->data[--out->len] = '\0'; /* the last line break */
    return BN_OK;
}
