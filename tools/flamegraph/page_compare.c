/* SPDX-License-Identifier: MIT
 *
 * See page.h: a recording beside the timing document, and beside the recording before it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "lab/report/html.h"
#include "lab/stacks/diff.h"
#include "tools/flamegraph/page.h"

/* ---- the tables of ci/phase2-timing.sh ---- */

/* The parts of a token as that document names them, and where the profiler has them. */
enum part { EMBED, LAYERS, LAST_NORM, HEAD, SAMPLE, PARTS };
static const struct {
    const char *name, *brick; /* brick NULL: everything that is inside layers */
} PART[PARTS] = {{"embed", "Embedding"},
                 {"layers", NULL},
                 {"last norm", "RmsNorm"},
                 {"head", "LmHead"},
                 {"sample", "Sampling"}};

/* The cell of a table's line, counted from 0, without the spaces around it. */
static struct bn_str cell(struct bn_str line, size_t which)
{
    const char *at = line.ptr, *end = line.ptr + line.len;
    for (size_t bars = 0; at < end; at++)
        if (*at == '|' && bars++ == which) break;
    if (at >= end) return (struct bn_str){"", 0};
    const char *from = ++at;
    while (at < end && *at != '|')
        at++;
    while (from < at && *from == ' ')
        from++;
    while (at > from && at[-1] == ' ')
        at--;
    return (struct bn_str){from, (size_t)(at - from)};
}

/* The line of a table whose first cell has this text; the first one counts. */
static struct bn_str row(const char *text, const char *name)
{
    while (*text != '\0') {
        struct bn_str line = {text, strcspn(text, "\n")};
        if (line.len > 0 && text[0] == '|' && bn_str_equal(cell(line, 0), name)) return line;
        text += line.len + (text[line.len] == '\n');
    }
    return (struct bn_str){"", 0};
}

/* A text of a cell behind a mark in it, up to any of the ends; "" when it has none. */
static void behind(char *out, size_t room, struct bn_str in, const char *mark, const char *ends)
{
    size_t n = strlen(mark), length = 0;
    out[0] = '\0';
    for (size_t i = 0; i + n <= in.len; i++) {
        if (memcmp(in.ptr + i, mark, n) != 0) continue;
        const char *from = in.ptr + i + n;
        size_t left = in.len - i - n;
        while (length < left && length + 1 < room && strchr(ends, from[length]) == NULL)
            length++;
        snprintf(out, room, "%.*s", (int)length, from);
        return;
    }
}

static bool number(struct bn_str text, double *out)
{
    char copy[40], *end;
    if (text.len == 0 || text.len >= sizeof copy) return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    *out = strtod(copy, &end);
    return *end == '\0' && isfinite(*out) && *out >= 0;
}

struct timing {
    char measured[40], model[80], isa[40], threads[16], machine[96];
    double us[PARTS];
};

static bool read_timing(struct timing *out, const char *text)
{
    struct bn_str when = cell(row(text, "measured"), 1), kernels = cell(row(text, "kernels"), 1);
    snprintf(out->measured, sizeof out->measured, "%.*s", (int)when.len, when.ptr);
    behind(out->model, sizeof out->model, cell(row(text, "model"), 1), "sha256 ", " ,|");
    behind(out->isa, sizeof out->isa, kernels, "", ", ");
    behind(out->threads, sizeof out->threads, kernels, "threads: ", " ,|");
    behind(out->machine, sizeof out->machine, cell(row(text, "machine"), 1), "; ", "|");
    for (unsigned p = 0; p < PARTS; p++)
        if (!number(cell(row(text, PART[p].name), 1), &out->us[p])) return false;
    return out->model[0] != '\0' && out->isa[0] != '\0' && out->threads[0] != '\0';
}

/* ---- the same parts of a recording ---- */

/* What each part of decoding took in a run, by the profiler; NaN where it has no such brick. */
static bool measure_parts(double out[PARTS], const bn_stacks *measured, size_t run, double *totals)
{
    bool decoded = false;
    bn_stacks_totals(measured, run, totals);
    for (unsigned p = 0; p < PARTS; p++)
        out[p] = (double)NAN;
    for (uint32_t i = 1; i < measured->n_nodes; i++) {
        const struct bn_frame *f = bn_stacks_frame(measured, i);
        uint32_t layer = measured->nodes[i].parent;
        uint32_t phase = measured->nodes[f->kind == BN_FRAME_LAYER ? i : layer].parent;
        const struct bn_frame *in = bn_stacks_frame(measured, phase);
        if (in == NULL || in->kind != BN_FRAME_PHASE || strcmp(in->name, "decode") != 0) continue;
        decoded = true;
        enum part part = PARTS;
        if (f->kind == BN_FRAME_LAYER && strncmp(f->name, "layer ", 6) == 0) part = LAYERS;
        for (unsigned p = 0; f->kind == BN_FRAME_BRICK && p < PARTS; p++)
            if (PART[p].brick != NULL && strcmp(PART[p].brick, f->name) == 0 &&
                strcmp(bn_stacks_frame(measured, layer)->name, "outside layers") == 0)
                part = (enum part)p;
        if (part < PARTS) out[part] = isnan(out[part]) ? totals[i] : out[part] + totals[i];
    }
    return decoded;
}

/* The share of a part in the parts that both sides have. */
static double share_of(const double *values, const bool *both, unsigned part)
{
    double sum = 0;
    for (unsigned p = 0; p < PARTS; p++)
        if (both[p]) sum += values[p];
    return sum > 0 ? values[part] / sum : (double)NAN;
}

static void put_parts(bn_json *o, const struct timing *timing, double (*runs)[PARTS], size_t n_runs)
{
    bool both[PARTS];
    bn_json *rows = bn_json_put_array(o, "rows");
    for (unsigned p = 0; p < PARTS; p++) {
        both[p] = true;
        for (size_t r = 0; r < n_runs; r++)
            both[p] = both[p] && !isnan(runs[r][p]);
    }
    for (unsigned p = 0; p < PARTS; p++) {
        double mean = 0, least = HUGE_VAL, most = -HUGE_VAL;
        bn_json *line = bn_json_add_object(rows);
        bn_json_put_string(line, "name", PART[p].name);
        bn_json_put_number(line, "timing_us", timing->us[p]);
        for (size_t r = 0; both[p] && r < n_runs; r++) {
            double share = share_of(runs[r], both, p);
            mean += share / (double)n_runs;
            least = fmin(least, share);
            most = fmax(most, share);
        }
        if (both[p]) {
            bn_json_put_number(line, "timing_share", share_of(timing->us, both, p));
            bn_json_put_number(line, "share", mean);
            bn_json_put_number(line, "least", least);
            bn_json_put_number(line, "most", most);
        } else {
            bn_json_put_unavailable(line, "share", "no such brick was measured while decoding");
        }
    }
}

/* Compares a member with a text of the document; says what differs. */
static bool same(char *why, size_t room, const bn_json *about, const char *const *paths, const char *text,
                 const char *what)
{
    char here[100] = "";
    const char *s = NULL;
    uint64_t n;
    const bn_json *member = bn_flamegraph_member(about, paths);
    if (bn_json_string(member, &s))
        bn_escape(here, sizeof here, s, strlen(s));
    else if (bn_json_u64(member, &n))
        snprintf(here, sizeof here, "%llu", (unsigned long long)n);
    if (here[0] == '\0')
        snprintf(why, room, "the recording does not say which %s it has", what);
    else if (strcmp(here, text) != 0)
        snprintf(why, room, "another %s: %.70s here, %.70s there", what, here, text);
    else
        return true;
    return false;
}

static void put_timing_of(bn_json *o, const bn_stacks *stacks, const struct timing *timing, char *why,
                          size_t room)
{
    const bn_stacks *measured = stacks->measured;
    if (measured == NULL) {
        snprintf(why, room, "the profiler did not run beside the sampler");
        return;
    }
    double(*runs)[PARTS] = bn_alloc(measured->n_runs, sizeof *runs);
    double *totals = bn_alloc(measured->n_nodes, sizeof *totals);
    bool decoded = runs != NULL && totals != NULL;
    for (size_t r = 0; decoded && r < measured->n_runs; r++)
        decoded = measure_parts(runs[r], measured, r, totals);
    if (decoded)
        put_parts(o, timing, runs, measured->n_runs);
    else
        snprintf(why, room, "nothing was decoded one token at a time here");
    bn_free(totals);
    bn_free(runs);
}

void bn_flamegraph_put_timing(bn_json *object, const bn_stacks *stacks,
                              const struct bn_flamegraph_beside *beside)
{
    struct timing timing;
    char why[320] = "";
    bn_json *o = bn_json_put_object(object, "timing");
    bn_json_put_string(o, "path", beside->timing_path);
    if (beside->timing_text == NULL) {
        snprintf(why, sizeof why, "%s", beside->timing_why);
    } else if (!read_timing(&timing, beside->timing_text)) {
        snprintf(why, sizeof why, "its tables are not those that ci/phase2-timing.sh writes");
    } else {
        bn_json_put_string(o, "measured", timing.measured);
        bn_json_put_string(o, "machine", timing.machine);
        if (same(why, sizeof why, stacks->about, bn_flamegraph_model_digest, timing.model, "model") &&
            same(why, sizeof why, stacks->about, bn_flamegraph_isa, timing.isa, "instruction set") &&
            same(why, sizeof why, stacks->about, bn_flamegraph_threads, timing.threads, "number of threads"))
            put_timing_of(o, stacks, &timing, why, sizeof why);
    }
    bn_json_put_bool(o, "compared", why[0] == '\0');
    if (why[0] != '\0') bn_json_put_string(o, "why", why);
}

/* ---- the recording before ---- */

const char *bn_flamegraph_unlike(char *out, size_t room, const bn_json *before, const bn_json *after)
{
    static const struct {
        const char *what, *paths[4];
    } MUST[] = {{"machine", {"machine.key"}},
                {"model", {"model.sha256", "workload.model.sha256"}},
                {"instruction set", {"workload.isa", "isa"}},
                {"number of threads", {"workload.threads", "workload.n_threads"}},
                {"prompt", {"workload.prompt"}},
                {"number of tokens", {"workload.n_predict", "workload.tokens"}},
                {"way of sampling", {"sampler.tier"}}};
    out[0] = '\0';
    for (size_t i = 0; i < BN_ARRAY_LEN(MUST); i++) {
        struct bn_buf a = {.max = 4096}, b = {.max = 4096};
        const bn_json *x = bn_flamegraph_member(before, MUST[i].paths);
        const bn_json *y = bn_flamegraph_member(after, MUST[i].paths);
        bool equal = x == NULL && y == NULL;
        if (x != NULL && y != NULL && bn_json_write(x, true, &a, NULL) == BN_OK &&
            bn_json_write(y, true, &b, NULL) == BN_OK)
            equal = a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
        bn_buf_release(&a);
        bn_buf_release(&b);
        if (equal) continue;
        snprintf(out, room,
                 x == NULL || y == NULL ? "one of them does not say which %s it has" : "another %s",
                 MUST[i].what);
        break;
    }
    return out;
}

static void put_change(bn_json *list, const struct bn_frame *frame, const char *which,
                       const struct bn_diff_entry *entry)
{
    const struct bn_diff_value *v = &entry->share;
    bn_json *o = bn_json_add_object(list);
    bn_json_put_string(o, "name", frame->name);
    bn_json_put_string(o, "module", frame->module);
    bn_json_put_string(o, "of", which);
    bn_json_put_number(o, "before", v->before);
    bn_json_put_number(o, "after", v->after);
    bn_json_put_number(o, "low", v->low);
    bn_json_put_number(o, "high", v->high);
    bn_json_put_number(o, "q", v->q);
}

static void put_diff(bn_json *o, const struct bn_stacks_diff *diff)
{
    bn_json_put_string(o, "method", diff->method);
    bn_json_put_bool(o, "by_runs", diff->by_runs);
    bn_json_put_u64(o, "runs_before", diff->n_before);
    bn_json_put_u64(o, "runs_after", diff->n_after);
    bn_json_put_u64(o, "functions", diff->tree->n_frames);
    bn_json *changes = bn_json_put_array(o, "changes");
    for (size_t i = 0; i < diff->tree->n_frames; i++) {
        const struct bn_frame *frame = &diff->tree->frames[i];
        if (BN_FRAME_IS_TAG(frame->kind)) continue;
        if (diff->functions_self[i].share.significant)
            put_change(changes, frame, "self", &diff->functions_self[i]);
        if (diff->functions_total[i].share.significant)
            put_change(changes, frame, "total", &diff->functions_total[i]);
    }
}

bn_status bn_flamegraph_put_changes(bn_json *object, const bn_stacks *before, const bn_stacks *after,
                                    bn_error *err)
{
    const struct bn_stacks_view view = BN_FLAMEGRAPH_FUNCTIONS;
    const struct bn_stacks_diff_options options = {0};
    bn_stacks *a = NULL, *b = NULL;
    struct bn_stacks_diff diff = {0};
    bn_status status = bn_stacks_copy(&a, before, &view, err);
    if (status == BN_OK) status = bn_stacks_copy(&b, after, &view, err);
    if (status == BN_OK) status = bn_stacks_diff(&diff, a, b, &options, err);
    if (status == BN_OK) {
        put_diff(object, &diff);
        bn_stacks_diff_release(&diff);
    }
    bn_stacks_close(a);
    bn_stacks_close(b);
    return status;
}
