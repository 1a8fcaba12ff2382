/* SPDX-License-Identifier: MIT
 *
 * Formats of other programs that are only written: Chrome's trace events, speedscope, pprof.
 */
#include "lab/formats/document.h"

/* ---- trace events ----
 *
 * Chrome's trace events, for Perfetto and chrome://tracing: each run is a thread, each call path a complete
 * event ("X") as long as its weight, inside its caller's. The times of samples are not known, so siblings
 * follow each other in order, and the self time of a frame follows its callees. Times are in microseconds;
 * a weight in another unit takes one microsecond per unit. */

static void put_event(struct bn_buf *out, size_t run, const char *name, const char *category, double begin,
                      double weight)
{
    bn_buf_printf(out, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%zu,\"cat\":\"%s\",\"ts\":", run + 1, category);
    bn_json_write_number(out, begin);
    bn_buf_puts(out, ",\"dur\":");
    bn_json_write_number(out, weight);
    bn_buf_puts(out, ",\"name\":");
    bn_json_write_string(out, name);
    bn_buf_putc(out, '}');
}

static void put_run(const bn_stacks *s, size_t run, double *totals, double *next, struct bn_buf *out)
{
    double scale = strcmp(s->unit, "ns") == 0 ? 1e3 : 1;
    bn_stacks_totals(s, run, totals);
    bn_buf_printf(
        out,
        "%s\n{\"ph\":\"M\",\"pid\":1,\"tid\":%zu,\"name\":\"thread_name\",\"args\":{\"name\":\"run %zu\"}}",
        run > 0 ? "," : "", run + 1, run + 1);
    put_event(out, run, "all", "all", 0, totals[BN_STACKS_ROOT] / scale);
    next[BN_STACKS_ROOT] = 0;
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        const struct bn_frame *f = bn_stacks_frame(s, i);
        double begin = next[s->nodes[i].parent];
        next[i] = begin;
        next[s->nodes[i].parent] += totals[i];
        if (totals[i] != 0)
            put_event(out, run, f->name, bn_frame_kind_name(f->kind), begin / scale, totals[i] / scale);
    }
}

bn_status bn_formats_write_chrome(const bn_stacks *s, struct bn_buf *out, bn_error *err)
{
    double *totals = bn_alloc(s->n_nodes, sizeof *totals), *next = bn_alloc(s->n_nodes, sizeof *next);
    bn_status status = totals == NULL || next == NULL ? bn_nomem(err) : BN_OK;
    if (status == BN_OK) {
        bn_buf_printf(out,
                      "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"unit\":\"%s\",\"what\":\"%s\"},"
                      "\"traceEvents\":[",
                      s->unit, s->what);
        for (size_t run = 0; run < s->n_runs; run++)
            put_run(s, run, totals, next, out);
        bn_buf_puts(out, "\n]}\n");
        status = bn_buf_check(out, err);
    }
    bn_free(totals);
    bn_free(next);
    return status;
}

/* ---- speedscope ----
 *
 * For speedscope (https://www.speedscope.app/file-format-schema.json): a list of frames, and a profile that is
 * "sampled", with a list of frames and a weight for each call path. */

static void write_frame(struct bn_buf *out, const struct bn_frame *f)
{
    bn_buf_puts(out, "{\"name\":");
    bn_json_write_string(out, f->name);
    if (f->file[0] != '\0') {
        bn_buf_puts(out, ",\"file\":");
        bn_json_write_string(out, f->file);
    }
    if (f->line != 0) bn_buf_printf(out, ",\"line\":%u", f->line);
    bn_buf_putc(out, '}');
}

static void write_path(struct bn_buf *out, const bn_stacks *s, uint32_t node)
{
    uint32_t path[BN_STACKS_MAX_DEPTH];
    size_t depth = s->nodes[node].depth;
    for (size_t i = depth; i-- > 0; node = s->nodes[node].parent)
        path[i] = s->nodes[node].frame;
    bn_buf_putc(out, '[');
    for (size_t i = 0; i < depth; i++)
        bn_buf_printf(out, "%s%u", i > 0 ? "," : "", path[i]);
    bn_buf_putc(out, ']');
}

/* Of each call path that has a weight: its frames, or the weight. */
static void write_list(struct bn_buf *out, const bn_stacks *s, const char *name, bool weights)
{
    bool first = true;
    bn_buf_printf(out, ",\n\"%s\":[", name);
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        if (s->runs[0].self[i] == 0) continue;
        bn_buf_puts(out, first ? "" : ",");
        first = false;
        if (weights)
            bn_json_write_number(out, s->runs[0].self[i]);
        else
            write_path(out, s, i);
    }
    bn_buf_putc(out, ']');
}

bn_status bn_formats_write_speedscope(const bn_stacks *s, struct bn_buf *out, bn_error *err)
{
    bool ns = strcmp(s->unit, "ns") == 0, bytes = strcmp(s->unit, "bytes") == 0;
    double whole = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        whole += s->runs[0].self[i];
    bn_buf_puts(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
                     "\"exporter\":\"bn-flamegraph\",\"name\":\"bn-flamegraph\",\"activeProfileIndex\":0,"
                     "\"shared\":{\"frames\":[");
    for (size_t i = 0; i < s->n_frames; i++) {
        bn_buf_puts(out, i > 0 ? ",\n" : "\n");
        write_frame(out, &s->frames[i]);
    }
    bn_buf_printf(out,
                  "]},\n\"profiles\":[{\"type\":\"sampled\",\"name\":\"%s\",\"unit\":\"%s\",\"startValue\":0,"
                  "\"endValue\":",
                  s->what[0] != '\0' ? s->what : s->unit,
                  ns      ? "nanoseconds"
                  : bytes ? "bytes"
                          : "none");
    bn_json_write_number(out, whole);
    write_list(out, s, "samples", false);
    write_list(out, s, "weights", true);
    bn_buf_puts(out, "}]}\n");
    return bn_buf_check(out, err);
}

/* ---- pprof ----
 *
 * A profile for pprof: the message Profile of its profile.proto, written field by field. Weights are integers whose
 * sum is the rounded sum. */

static void put_varint(struct bn_buf *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        bn_buf_putc(out, (char)(value | 0x80));
    bn_buf_putc(out, (char)value);
}

/* A field with a number; 0 is what it is without one. */
static void put_number(struct bn_buf *out, unsigned field, uint64_t value)
{
    if (value == 0) return;
    put_varint(out, field << 3);
    put_varint(out, value);
}

static void put_bytes(struct bn_buf *out, unsigned field, const char *bytes, size_t n)
{
    put_varint(out, field << 3 | 2);
    put_varint(out, n);
    bn_buf_append(out, bytes, n);
}

/* Moves what was written into inner to a field of out. */
static void put_message(struct bn_buf *out, unsigned field, struct bn_buf *inner)
{
    if (inner->failed) out->failed = true;
    put_bytes(out, field, inner->data != NULL ? inner->data : "", inner->len);
    inner->len = 0;
}

enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE,
    PROFILE_MAPPING,
    PROFILE_LOCATION,
    PROFILE_FUNCTION,
    PROFILE_STRING
};

struct writing {
    struct bn_buf *out;
    struct bn_buf inner, list; /* a message, a packed list in it */
    const bn_stacks *s;
    struct bn_formats_texts texts, modules;
    uint64_t *weights;
    bool sampled;
};

/* Behind the frames' texts in the table of strings. */
static const char *const WORDS[] = {"samples", "count", "nanoseconds", "bytes", "bn-flamegraph"};
enum { WORD_SAMPLES, WORD_COUNT, WORD_NANOSECONDS, WORD_BYTES, WORD_COMMENT, WORD_TYPE };

static uint64_t word(const struct writing *w, unsigned which)
{
    return w->texts.n + which;
}

static void put_types(struct writing *w)
{
    bool ns = strcmp(w->s->unit, "ns") == 0, bytes = strcmp(w->s->unit, "bytes") == 0;
    if (w->sampled) {
        put_number(&w->inner, 1, word(w, WORD_SAMPLES));
        put_number(&w->inner, 2, word(w, WORD_COUNT));
        put_message(w->out, PROFILE_SAMPLE_TYPE, &w->inner);
    }
    put_number(&w->inner, 1, word(w, WORD_TYPE));
    put_number(&w->inner, 2, word(w, ns ? WORD_NANOSECONDS : bytes ? WORD_BYTES : WORD_COUNT));
    put_message(w->out, PROFILE_SAMPLE_TYPE, &w->inner);
}

static void put_sample(struct writing *w, uint32_t node)
{
    uint64_t samples = w->s->runs[0].samples[node];
    if (w->weights[node] == 0 && samples == 0) return;
    for (uint32_t at = node; at != BN_STACKS_ROOT; at = w->s->nodes[at].parent)
        put_varint(&w->list, (uint64_t)w->s->nodes[at].frame + 1);
    put_message(&w->inner, 1, &w->list);
    if (w->sampled) put_varint(&w->list, samples);
    put_varint(&w->list, w->weights[node]);
    put_message(&w->inner, 2, &w->list);
    put_message(w->out, PROFILE_SAMPLE, &w->inner);
}

static void put_mapping(struct writing *w, size_t module)
{
    put_number(&w->inner, 1, module);
    put_number(&w->inner, 5, bn_formats_text(&w->texts, w->modules.list[module]));
    put_number(&w->inner, 7, 1); /* it has functions */
    put_message(w->out, PROFILE_MAPPING, &w->inner);
}

static void put_location(struct writing *w, size_t frame)
{
    const struct bn_frame *f = &w->s->frames[frame];
    put_number(&w->list, 1, frame + 1);
    put_number(&w->list, 2, f->line);
    put_number(&w->inner, 1, frame + 1);
    put_number(&w->inner, 2, bn_formats_text(&w->modules, f->module));
    put_message(&w->inner, 4, &w->list);
    put_message(w->out, PROFILE_LOCATION, &w->inner);
    uint64_t name = bn_formats_text(&w->texts, f->name);
    put_number(&w->inner, 1, frame + 1);
    put_number(&w->inner, 2, name);
    put_number(&w->inner, 3, name);
    put_number(&w->inner, 4, bn_formats_text(&w->texts, f->file));
    put_number(&w->inner, 5, f->line);
    put_message(w->out, PROFILE_FUNCTION, &w->inner);
}

static void put_profile(struct writing *w)
{
    bool typed = strcmp(w->s->unit, "ns") == 0 && w->s->what[0] != '\0';
    const char *type = typed ? w->s->what : w->s->unit;
    put_types(w);
    for (uint32_t i = 0; i < w->s->n_nodes; i++)
        put_sample(w, i);
    for (size_t i = 1; i < w->modules.n; i++)
        put_mapping(w, i);
    for (size_t i = 0; i < w->s->n_frames; i++)
        put_location(w, i);
    for (size_t i = 0; i < w->texts.n; i++)
        put_bytes(w->out, PROFILE_STRING, w->texts.list[i], strlen(w->texts.list[i]));
    for (size_t i = 0; i < BN_ARRAY_LEN(WORDS); i++)
        put_bytes(w->out, PROFILE_STRING, WORDS[i], strlen(WORDS[i]));
    put_bytes(w->out, PROFILE_STRING, type, strlen(type));
    put_number(w->out, 13, word(w, WORD_COMMENT));
    put_number(w->out, 14, word(w, WORD_TYPE)); /* shown by default */
}

bn_status bn_formats_write_pprof(const bn_stacks *s, struct bn_buf *out, bn_error *err)
{
    struct writing w = {.out = out, .inner = {.max = out->max}, .list = {.max = out->max}, .s = s};
    bn_status status = bn_formats_texts(&w.texts, s, false, err);
    if (status == BN_OK) status = bn_formats_texts(&w.modules, s, true, err);
    w.weights = bn_alloc(s->n_nodes, sizeof *w.weights);
    if (status == BN_OK && w.weights == NULL) status = bn_nomem(err);
    if (status == BN_OK) status = bn_formats_whole(s, w.weights, err);
    for (uint32_t i = 0; i < s->n_nodes; i++)
        w.sampled = w.sampled || s->runs[0].samples[i] != 0;
    if (strcmp(s->unit, "samples") == 0) w.sampled = false; /* it would be said twice */
    if (status == BN_OK) put_profile(&w);
    bn_buf_release(&w.inner);
    bn_buf_release(&w.list);
    bn_free(w.texts.list);
    bn_free(w.modules.list);
    bn_free(w.weights);
    return status == BN_OK ? bn_buf_check(out, err) : status;
}
