/* SPDX-License-Identifier: MIT
 *
 * Checks a profile document. The events are read back and summed by the code that summed them when they were
 * measured; everything in the document is compared with these sums.
 */
#include "lab/profile/document.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

#define ALIKE 1e-6 /* shares that differ by less are the same to six digits */

struct audit {
    const bn_prof *prof;
    uint64_t n_layers;
    const bn_json *document;
};

static bn_status refuse(bn_error *err, unsigned thread, size_t event, const char *what)
{
    return bn_fail(err, BN_ERR_MISMATCH, "thread %u, event %zu: %s", thread, event, what);
}

/* ---- complete; sums and coverage are the profiler's own gate ---- */

static bn_status rule_complete(const struct audit *a, bn_error *err)
{
    if (a->prof->level == BN_PROF_OFF)
        return bn_fail(err, BN_ERR_MISMATCH, "it says that nothing was stamped");
    for (unsigned t = 0; t < a->prof->n_threads; t++)
        if (a->prof->trails[t].n == 0) return bn_fail(err, BN_ERR_MISMATCH, "thread %u has no events", t);
    return bn_prof_check_complete(a->prof, err);
}

/* ---- stamps ---- */

/* What is known of one depth while a trail is walked: where its last event ended, and the span of those that
 * no brick around them has taken yet. */
struct span {
    uint64_t last_end, first_begin;
    bool waiting;
};

static const char *check_event(const bn_prof *prof, const struct bn_prof_event *e,
                               struct span spans[BN_PROF_DEPTH + 2])
{
    struct span *own = &spans[e->depth], *inner = &spans[e->depth + 1u];
    if (e->end < e->begin) return "it ends before it begins";
    if (bn_prof_ns(prof, e->end) > prof->wall_ns) return "it ends after the end of the profile";
    if (e->begin < own->last_end) return "it overlaps the event before";
    if (inner->waiting && (inner->first_begin < e->begin || inner->last_end > e->end))
        return "a nested event extends beyond it";
    if (e->layer >= 0 && e->pass == BN_PROF_NO_PASS) return "it is of a layer, but of no pass";
    if (e->layer >= 0 && (e->begin < prof->passes[e->pass].begin || e->end > prof->passes[e->pass].end))
        return "it lies outside its pass";
    inner->waiting = false;
    if (!own->waiting) own->first_begin = e->begin;
    own->waiting = true;
    own->last_end = e->end;
    return NULL;
}

static bn_status rule_stamps(const struct audit *a, bn_error *err)
{
    const bn_prof *prof = a->prof;
    for (size_t i = 0; i < prof->n_passes; i++)
        if (prof->passes[i].end < prof->passes[i].begin ||
            (i > 0 && prof->passes[i].begin < prof->passes[i - 1].end))
            return bn_fail(err, BN_ERR_MISMATCH, "pass %zu ends before it begins, or overlaps", i);
    for (unsigned t = 0; t < prof->n_threads; t++) {
        struct span spans[BN_PROF_DEPTH + 2] = {0};
        for (size_t i = 0; i < prof->trails[t].n; i++) {
            const char *wrong = check_event(prof, &prof->trails[t].events[i], spans);
            if (wrong != NULL) return refuse(err, t, i, wrong);
        }
        for (unsigned d = 1; d < BN_PROF_DEPTH + 2; d++)
            if (spans[d].waiting) return bn_fail(err, BN_ERR_MISMATCH, "thread %u: a brick is missing", t);
    }
    for (size_t i = 0; i < prof->n_launches; i++) {
        const struct bn_prof_launch *l = &prof->launches[i];
        const struct bn_prof_event *e = &prof->trails[0].events[l->event];
        if (l->submitted < l->queued || l->started < l->submitted || l->ended < l->started ||
            e->begin < l->started || e->end > l->ended || (i > 0 && l->event <= l[-1].event))
            return bn_fail(err, BN_ERR_MISMATCH,
                           "launch %zu: its times are not in order, or not those of its event", i);
    }
    return BN_OK;
}

/* ---- counts ---- */

/* Counts of the first layer of one kind. */
struct kind {
    bool known;
    uint32_t counts[BN_BRICK_KNOWN];
};

/* Of a pass of a device, where a kernel does the work of several bricks, only that its layers of one kind are alike. */
static unsigned wrong_on_device(enum bn_prof_level level, const uint32_t *found, struct kind *like)
{
    if (!like->known) memcpy(like->counts, found, sizeof like->counts);
    like->known = true;
    if (level < BN_PROF_BRICK) return found[BN_BRICK_LAYER] == 0 ? BN_BRICK_LAYER : BN_BRICK_NONE;
    if (found[BN_BRICK_QKV_PROJECTION] == 0) return BN_BRICK_QKV_PROJECTION;
    if (found[BN_BRICK_DOWN_PROJECTION] == 0) return BN_BRICK_DOWN_PROJECTION;
    for (unsigned b = 0; b < BN_BRICK_KNOWN; b++)
        if (b != BN_BRICK_TEAM && found[b] != like->counts[b]) return b;
    return BN_BRICK_NONE;
}

#define ANY UINT32_MAX /* number of bricks */

/* How often a layer has a brick. All layers of one kind, with or without attention, have it as often, in each pass and on
 * each thread: how often norms and some projections occur differs from network to network. Norms are as many as the
 * document says that the network has there. */
static const struct {
    unsigned char brick, least, most;
} IN_LAYER[] = {
    {BN_BRICK_RMS_NORM, 2, 99},       {BN_BRICK_ACTIVATION_QUANTIZE, 4, 99},
    {BN_BRICK_QKV_PROJECTION, 1, 3},  {BN_BRICK_OUTPUT_PROJECTION, 1, 1},
    {BN_BRICK_GATE_PROJECTION, 1, 1}, {BN_BRICK_UP_PROJECTION, 1, 1},
    {BN_BRICK_ACTIVATION, 1, 1},      {BN_BRICK_DOWN_PROJECTION, 1, 1},
    {BN_BRICK_RESIDUAL_ADD, 2, 2},    {BN_BRICK_ROPE_EMBEDDING, 0, 1},
    {BN_BRICK_KV_STORE, 0, 1},        {BN_BRICK_ATTENTION, 0, 1},
    {BN_BRICK_CONVOLUTION, 0, 1},     {BN_BRICK_DELTA_RULE, 0, 1},
    {BN_BRICK_HEAD_GATE, 0, 1},       {BN_BRICK_ROUTER, 0, 3},
};

/* Returns the brick that is wrong; BN_BRICK_NONE. */
static unsigned wrong_in_layer(enum bn_prof_level level, const uint32_t *found, const bn_json *norms,
                               struct kind kinds[2])
{
    uint64_t n_norms;
    bool inside = level >= BN_PROF_BRICK;
    struct kind *like = &kinds[found[BN_BRICK_ATTENTION] > 0];
    if (!like->known) memcpy(like->counts, found, sizeof like->counts);
    like->known = true;
    if (found[BN_BRICK_LAYER] != !inside) return BN_BRICK_LAYER;
    if (inside && (!bn_json_u64(norms, &n_norms) || found[BN_BRICK_RMS_NORM] != n_norms))
        return BN_BRICK_RMS_NORM;
    for (size_t i = 0; i < BN_ARRAY_LEN(IN_LAYER); i++) {
        unsigned b = IN_LAYER[i].brick;
        uint32_t least = inside ? IN_LAYER[i].least : 0, most = inside ? IN_LAYER[i].most : 0;
        if (found[b] < least || found[b] > most || found[b] != like->counts[b]) return b;
    }
    if (!inside || found[BN_BRICK_KV_STORE] + found[BN_BRICK_DELTA_RULE] == 1) return BN_BRICK_NONE;
    return BN_BRICK_KV_STORE;
}

/* And outside of layers. */
static unsigned wanted_outside(const struct bn_prof_pass *pass, unsigned brick, unsigned thread)
{
    if (brick == BN_BRICK_EMBEDDING) return 1;
    if (brick == BN_BRICK_RMS_NORM || brick == BN_BRICK_LM_HEAD) return pass->n_logits > 0;
    return brick == BN_BRICK_TEAM ? (thread == 0 ? 2 : 0) : ANY;
}

static bn_status check_counts(const struct audit *a, unsigned thread, const uint32_t *counts,
                              struct kind kinds[2], bn_error *err)
{
    size_t n_rows = a->n_layers + 1u;
    bool on_device = a->prof->n_launches > 0;
    const bn_json *norms = NULL;
    for (size_t row = 0; row < a->prof->n_passes * n_rows; row++) {
        const uint32_t *found = counts + row * BN_BRICK_KNOWN;
        const struct bn_prof_pass *pass = &a->prof->passes[row / n_rows];
        size_t layer = row % n_rows;
        unsigned wrong = BN_BRICK_NONE;
        norms = layer == 0 ? bn_json_first(bn_json_path(a->document, "profile.network.norms"))
                           : bn_json_next(norms);
        if (on_device && layer == 0) memset(kinds, 0, 2 * sizeof *kinds);
        if (layer < a->n_layers && !on_device)
            wrong = wrong_in_layer(a->prof->level, found, norms, kinds);
        else if (layer < a->n_layers && thread == 0)
            wrong = wrong_on_device(a->prof->level, found, &kinds[found[BN_BRICK_ATTENTION_SCORE] > 0]);
        if (wrong != BN_BRICK_NONE)
            return bn_fail(err, BN_ERR_MISMATCH, "thread %u, pass %zu, layer %zu: %u times %s", thread,
                           row / n_rows, layer, found[wrong], bn_brick_name(wrong));
        for (unsigned b = 0; layer == a->n_layers && b < BN_BRICK_KNOWN; b++) {
            unsigned wanted = on_device && b != BN_BRICK_EMBEDDING ? ANY : wanted_outside(pass, b, thread);
            if (wanted != ANY && wanted != found[b])
                return bn_fail(err, BN_ERR_MISMATCH, "thread %u, pass %zu: %u times %s, not %u", thread,
                               row / n_rows, found[b], bn_brick_name(b), wanted);
        }
        if (found[BN_BRICK_ATTENTION_SCORE] != found[BN_BRICK_ATTENTION_SOFTMAX] ||
            found[BN_BRICK_ATTENTION_SCORE] != found[BN_BRICK_ATTENTION_OUTPUT])
            return bn_fail(err, BN_ERR_MISMATCH, "thread %u, pass %zu: scores without values", thread,
                           row / n_rows);
    }
    return BN_OK;
}

static bn_status count_events(const struct audit *a, unsigned thread, uint32_t *counts, struct kind kinds[2],
                              bn_error *err)
{
    const struct bn_prof_trail *trail = &a->prof->trails[thread];
    size_t n_rows = a->n_layers + 1u;
    for (size_t i = 0; i < trail->n; i++) {
        const struct bn_prof_event *e = &trail->events[i];
        if (e->layer >= (int)a->n_layers) return refuse(err, thread, i, "there is no such layer");
        if (e->kernel != BN_PROF_NO_KERNEL || e->pass == BN_PROF_NO_PASS || e->brick >= BN_BRICK_KNOWN)
            continue;
        size_t layer = e->layer >= 0 ? (size_t)e->layer : a->n_layers;
        counts[(e->pass * n_rows + layer) * BN_BRICK_KNOWN + e->brick]++;
    }
    return check_counts(a, thread, counts, kinds, err);
}

static bn_status rule_counts(const struct audit *a, bn_error *err)
{
    uint64_t n_layers = (uint64_t)a->prof->n_passes * a->n_layers; /* 2^32 times 2^15 at most */
    if (a->prof->n_passes == 0) return bn_fail(err, BN_ERR_MISMATCH, "there is no pass");
    /* Also keeps a document that promises layers by the million from taking memory for them. */
    if (a->prof->trails[0].n < n_layers)
        return bn_fail(err, BN_ERR_MISMATCH, "%zu events cannot be those of %llu layers",
                       a->prof->trails[0].n, (unsigned long long)n_layers);
    size_t n = (size_t)(n_layers + a->prof->n_passes) * BN_BRICK_KNOWN;
    struct kind kinds[2] = {{0}};
    uint32_t *counts = bn_alloc(n, sizeof *counts);
    bn_status status = counts != NULL ? BN_OK : bn_nomem(err);
    for (unsigned t = 0; t < a->prof->n_threads && status == BN_OK; t++) {
        memset(counts, 0, n * sizeof *counts);
        status = count_events(a, t, counts, kinds, err);
    }
    bn_free(counts);
    return status;
}

/* ---- variation: how a pass divides its time ---- */

/* Of one pass on the first thread: ticks of each brick that no other is around, all of them, the shortest
 * and the longest. */
struct division {
    uint64_t ticks[BN_BRICK_MAX], sum, shortest, longest;
    size_t n;
};

static void divide(struct division *out, const bn_prof *prof, size_t pass)
{
    const struct bn_prof_trail *trail = &prof->trails[0];
    *out = (struct division){.shortest = UINT64_MAX};
    for (size_t i = 0; i < trail->n; i++) {
        const struct bn_prof_event *e = &trail->events[i];
        if (e->pass != pass || e->depth != 0 || e->kernel != BN_PROF_NO_KERNEL) continue;
        uint64_t ticks = e->end > e->begin ? e->end - e->begin : 0;
        out->ticks[e->brick] += ticks;
        out->sum += ticks;
        out->n++;
        if (ticks < out->shortest) out->shortest = ticks;
        if (ticks > out->longest) out->longest = ticks;
    }
}

static bool divided_alike(const struct division *a, const struct division *b)
{
    /* Stamps of ticks blur a share by a tick for each event. */
    double blur = ALIKE + (double)a->n / (double)(a->sum + 1) + (double)b->n / (double)(b->sum + 1);
    for (unsigned i = 0; i < BN_BRICK_MAX; i++) {
        double x = (double)a->ticks[i] / (double)(a->sum + 1), y = (double)b->ticks[i] / (double)(b->sum + 1);
        if (fabs(x - y) > blur) return false;
    }
    return true;
}

#define UNIFORM 8u /* this many bricks in a pass do not all take the same time */

/* Passes over the same number of tokens do the same work, so each is compared with the last one like it. */
static bn_status rule_variation(const struct audit *a, bn_error *err)
{
    const struct bn_prof_pass *passes = a->prof->passes;
    struct division before, now;
    size_t n_pairs = 0, n_alike = 0;
    for (size_t i = 0; i < a->prof->n_passes; i++) {
        divide(&now, a->prof, i);
        if (now.n >= UNIFORM && now.longest - now.shortest <= 1)
            return bn_fail(err, BN_ERR_MISMATCH, "pass %zu is divided evenly", i);
        if (i > 0 && passes[i - 1].n_tokens == passes[i].n_tokens) {
            n_pairs++;
            n_alike += divided_alike(&before, &now);
        }
        before = now;
    }
    if (n_pairs == 0) return bn_fail(err, BN_ERR_MISMATCH, "no two passes can be compared with each other");
    if (n_alike < n_pairs) return BN_OK;
    return bn_fail(err, BN_ERR_MISMATCH, "every pass divides its time among the bricks alike, to six digits");
}

/* ---- quantum ---- */

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static bn_status rule_quantum(const struct audit *a, bn_error *err)
{
    uint64_t common = 0;
    for (unsigned t = 0; t < a->prof->n_threads; t++)
        for (size_t i = 0; i < a->prof->trails[t].n; i++) {
            const struct bn_prof_event *e = &a->prof->trails[t].events[i];
            if (e->end > e->begin) common = gcd(common, e->end - e->begin);
        }
    if (common == 0) return bn_fail(err, BN_ERR_MISMATCH, "no event takes any time");
    if (common <= a->prof->resolution) return BN_OK;
    return bn_fail(err, BN_ERR_MISMATCH,
                   "all durations are multiples of %llu ticks, and the clock steps by %llu",
                   (unsigned long long)common, (unsigned long long)a->prof->resolution);
}

/* ---- plausible ---- */

#define FASTEST 1000u /* bytes a nanosecond that no thread reads, not from its first cache either */
#define FASTEST_DEVICE 20000u
#define HEAVIER 64u /* a head that reads this many times a norm's bytes does not take less time */

/* Medians, since a mean tells of the one event in which the processor was taken away. */
static bn_status check_head(const bn_prof *prof, bn_error *err)
{
    struct bn_brick_stats head = bn_prof_stats_for(prof, BN_BRICK_LM_HEAD, 0);
    struct bn_brick_stats screen = bn_prof_stats_for(prof, BN_BRICK_HEAD_SCREEN, 0);
    struct bn_brick_stats norm = bn_prof_stats_for(prof, BN_BRICK_RMS_NORM, 0);
    struct bn_prof_quantiles of_head, of_screen, of_norm;
    if (head.count < 2 || norm.count < 2) return BN_OK; /* counts says whether that is right */
    BN_TRY(bn_prof_quantiles(prof, BN_BRICK_LM_HEAD, &of_head, err));
    BN_TRY(bn_prof_quantiles(prof, BN_BRICK_HEAD_SCREEN, &of_screen, err));
    BN_TRY(bn_prof_quantiles(prof, BN_BRICK_RMS_NORM, &of_norm, err));
    double head_bytes = (double)(head.bytes + screen.bytes) / (double)head.count;
    double norm_bytes = 4.0 * (double)norm.elements / (double)norm.count;
    uint64_t head_ns = of_head.median_ns + of_screen.median_ns;
    if (head_bytes < HEAVIER * norm_bytes || head_ns >= of_norm.median_ns) return BN_OK;
    return bn_fail(err, BN_ERR_MISMATCH,
                   "the head took %llu ns, less than a norm (%llu ns), and read %.0f times as much",
                   (unsigned long long)head_ns, (unsigned long long)of_norm.median_ns,
                   head_bytes / norm_bytes);
}

static bn_status rule_plausible(const struct audit *a, bn_error *err)
{
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++) {
        struct bn_brick_stats b = bn_prof_stats_for(a->prof, i, BN_PROF_ALL_THREADS);
        if (b.bytes / (a->prof->n_launches > 0 ? FASTEST_DEVICE : FASTEST) > b.inclusive_ns)
            return bn_fail(err, BN_ERR_MISMATCH, "%s read %llu bytes in %llu ns", bn_brick_name(i),
                           (unsigned long long)b.bytes, (unsigned long long)b.inclusive_ns);
    }
    return a->prof->n_launches > 0 ? BN_OK
                                   : check_head(a->prof, err); /* there the head is several launches */
}

/* ---- summary ---- */

/* The summary that the events give has the same bytes. */
static bn_status rule_summary(const struct audit *a, bn_error *err)
{
    struct bn_buf said = {.max = BN_JSON_MAX_BYTES}, made = said;
    bn_json *again = bn_json_new_object();
    const bn_json *summary = bn_json_path(a->document, "profile.summary");
    bn_status status = bn_json_kind(summary) == BN_JSON_OBJECT && summary != NULL
                           ? bn_json_write(summary, true, &said, err)
                           : bn_fail(err, BN_ERR_MISMATCH, "there is no summary");
    if (status == BN_OK) status = bn_prof_put_summary(again, a->prof, err);
    if (status == BN_OK) status = bn_json_write(bn_json_get(again, "summary"), true, &made, err);
    if (status == BN_OK && (said.len != made.len || memcmp(said.data, made.data, said.len) != 0)) {
        size_t at = 0;
        while (at < said.len && at < made.len && said.data[at] == made.data[at])
            at++;
        size_t from = at > 40 ? at - 40 : 0;
        char near[160];
        status = bn_fail(err, BN_ERR_MISMATCH, "it is not what the events give, from here on: %s",
                         bn_escape(near, sizeof near, said.data + from, bn_min_size(80, said.len - from)));
    }
    bn_json_free(again);
    bn_buf_release(&said);
    bn_buf_release(&made);
    return status;
}

/* ---- all of them ---- */

static const struct {
    const char *name, *what;
    bn_status (*fn)(const struct audit *a, bn_error *err);
    bn_status (*own)(const bn_prof *prof, bn_error *err); /* in place of fn */
} RULES[BN_PROF_RULES] = {
    {"complete", "every thread has events, and none was dropped", rule_complete, NULL},
    {"stamps", "events begin, end and nest in order, within their passes", rule_stamps, NULL},
    {"sums", "exclusive times add up to what was covered, within the wall time", NULL, bn_prof_check_sums},
    {"coverage", "bricks account for 85 % of the wall time", NULL, bn_prof_check_coverage},
    {"counts", "each pass has each brick of each layer, on each thread", rule_counts, NULL},
    {"variation", "passes differ in how they divide their time", rule_variation, NULL},
    {"quantum", "durations are not rounded to more than the clock's step", rule_quantum, NULL},
    {"plausible", "no brick is faster than its bytes allow", rule_plausible, NULL},
    {"summary", "its numbers are those that the events give, to the last digit", rule_summary, NULL},
};

static void take_shares(struct bn_prof_audit *out, const bn_prof *prof)
{
    double sum = (double)bn_prof_total_ns(prof, BN_PROF_ALL_THREADS), n = 0;
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++) {
        struct bn_brick_stats b = bn_prof_stats_for(prof, i, BN_PROF_ALL_THREADS);
        out->shares[i] = sum > 0 ? (double)b.exclusive_ns / sum : 0;
        n += (double)b.count;
    }
    /* Rounding errors of n stamps add up like a random walk. */
    out->rounding = sum > 0 ? 4 * sqrt(n) * fmax(1.0, prof->clock.ns_per_tick) / sum : 0;
}

bn_status bn_prof_audit(struct bn_prof_audit *out, const bn_json *document, bn_error *err)
{
    bn_prof *prof = NULL;
    struct audit a = {.document = document};
    *out = (struct bn_prof_audit){.n_failed = 0};
    BN_TRY(bn_prof_read(&prof, &a.n_layers, document, err));
    a.prof = prof;
    for (size_t i = 0; i < BN_PROF_RULES; i++) {
        struct bn_prof_finding *f = &out->list[i];
        f->rule = RULES[i].name;
        f->what = RULES[i].what;
        f->ok = (RULES[i].own != NULL ? RULES[i].own(prof, &f->why) : RULES[i].fn(&a, &f->why)) == BN_OK;
        out->n_failed += !f->ok;
    }
    take_shares(out, prof);
    bn_prof_close(prof);
    return BN_OK;
}

bn_status bn_prof_check_copies(const struct bn_prof_audit *a, const struct bn_prof_audit *b, bn_error *err)
{
    for (unsigned i = 0; i < BN_BRICK_MAX; i++)
        if (fabs(a->shares[i] - b->shares[i]) > ALIKE + a->rounding + b->rounding) return BN_OK;
    return bn_fail(err, BN_ERR_MISMATCH, "both divide their time among the bricks alike, to six digits");
}
