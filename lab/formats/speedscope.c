/* SPDX-License-Identifier: MIT
 *
 * speedscope files (https://www.speedscope.app/file-format-schema.json). A list of frames, and profiles that are
 * "sampled", with a list of frames and a weight for each sample; "evented" ones are not read. What the format
 * cannot express (kinds and modules of frames, other units, numbers of samples) is in members "bn", which other
 * programs ignore.
 */
#include <stdlib.h>

#include "base/error.h"
#include "lab/formats/formats.h"

static const struct {
    const char *name, *unit;
    double factor; /* one of these in our unit */
} UNITS[] = {
    {"nanoseconds", "ns", 1}, {"microseconds", "ns", 1e3}, {"milliseconds", "ns", 1e6},
    {"seconds", "ns", 1e9},   {"bytes", "bytes", 1},       {"none", "samples", 1},
};

/* ---- writing ---- */

static void write_frame(struct bn_buf *out, const struct bn_frame *f)
{
    bn_buf_puts(out, "{\"name\":");
    bn_json_write_string(out, f->name);
    if (f->file[0] != '\0') {
        bn_buf_puts(out, ",\"file\":");
        bn_json_write_string(out, f->file);
    }
    if (f->line != 0) bn_buf_printf(out, ",\"line\":%u", f->line);
    bn_buf_printf(out, ",\"bn\":{\"kind\":\"%s\",\"module\":", bn_frame_kind_name(f->kind));
    bn_json_write_string(out, f->module);
    bn_buf_puts(out, "}}");
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

static bool is_listed(const bn_stacks *s, uint32_t node)
{
    return s->runs[0].self[node] != 0 || s->runs[0].samples[node] != 0;
}

static void write_numbers(struct bn_buf *out, const bn_stacks *s, bool samples)
{
    bool first = true;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        if (!is_listed(s, i)) continue;
        if (!first) bn_buf_putc(out, ',');
        bn_json_write_number(out, samples ? (double)s->runs[0].samples[i] : s->runs[0].self[i]);
        first = false;
    }
}

bn_status bn_formats_write_speedscope(const bn_stacks *s, struct bn_buf *out, bn_error *err)
{
    const char *unit = "none";
    double whole = 0;
    bool first = true;
    for (size_t i = 0; i < BN_ARRAY_LEN(UNITS); i++)
        if (UNITS[i].factor == 1 && strcmp(UNITS[i].unit, s->unit) == 0) unit = UNITS[i].name;
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
                  s->what[0] != '\0' ? s->what : s->unit, unit);
    bn_json_write_number(out, whole);
    bn_buf_puts(out, ",\n\"samples\":[");
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        if (!is_listed(s, i)) continue;
        bn_buf_puts(out, first ? "\n" : ",\n");
        write_path(out, s, i);
        first = false;
    }
    bn_buf_puts(out, "],\n\"weights\":[");
    write_numbers(out, s, false);
    bn_buf_printf(out, "],\n\"bn\":{\"unit\":\"%s\",\"what\":\"%s\",\"samples\":[", s->unit, s->what);
    write_numbers(out, s, true);
    bn_buf_puts(out, "]}}]}\n");
    return bn_buf_check(out, err);
}

/* ---- reading ---- */

struct reading {
    bn_stacks *stacks;
    uint32_t *frames; /* numbers of the document's frames in the stacks */
    size_t n_frames;
    char unit[16], what[16];
    double factor;
    size_t n_profiles;
    struct bn_tally tally;
};

static bn_status malformed(bn_error *err, const char *member, const char *what)
{
    return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, member, "%s", what);
}

static bn_status read_frame(struct reading *r, const bn_json *value, bn_error *err)
{
    const char *name = NULL;
    uint64_t line = 0;
    const bn_json *ours = bn_json_get(value, "bn");
    if (!bn_json_string(bn_json_get(value, "name"), &name))
        return malformed(err, "frames", "a frame without a name");
    if (!bn_json_u64(bn_json_get(value, "line"), &line) || line > UINT32_MAX) line = 0;
    struct bn_frame frame = {name, bn_json_text_of(ours, "module"), bn_json_text_of(value, "file"),
                             (uint32_t)line, BN_FRAME_CODE};
    (void)bn_formats_kind(&frame.kind, bn_json_get(ours, "kind"));
    return bn_stacks_intern(r->stacks, &r->frames[r->n_frames++], &frame, SIZE_MAX, err);
}

static bn_status read_frames(struct reading *r, const bn_json *document, bn_error *err)
{
    const bn_json *frames = bn_json_path(document, "shared.frames");
    if (frames == NULL || bn_json_kind(frames) != BN_JSON_ARRAY) return malformed(err, "frames", "no list");
    r->frames = bn_alloc(bn_json_size(frames), sizeof *r->frames);
    if (r->frames == NULL) return bn_nomem(err);
    for (const bn_json *f = bn_json_first(frames); f != NULL; f = bn_json_next(f))
        BN_TRY(read_frame(r, f, err));
    return BN_OK;
}

/* All profiles are one run, so they must have one unit. */
static bn_status read_unit(struct reading *r, const bn_json *profile, bn_error *err)
{
    const char *name = bn_json_text_of(profile, "unit"), *unit = NULL;
    const char *ours = bn_json_text_of(bn_json_get(profile, "bn"), "unit");
    const char *what = bn_json_text_of(bn_json_get(profile, "bn"), "what");
    for (size_t i = 0; i < BN_ARRAY_LEN(UNITS); i++) {
        if (strcmp(UNITS[i].name, name) != 0) continue;
        unit = UNITS[i].unit;
        r->factor = UNITS[i].factor;
    }
    if (unit == NULL) return malformed(err, "unit", "unknown");
    if (bn_formats_is_word(ours, strlen(ours), false)) unit = ours;
    if (!bn_formats_is_word(what, strlen(what), true)) what = "";
    if (r->n_profiles++ > 0 && strcmp(unit, r->unit) != 0)
        return malformed(err, "profiles", "profiles of different units");
    memcpy(r->unit, unit, strlen(unit) + 1);
    memcpy(r->what, what, strlen(what) + 1);
    return BN_OK;
}

static bn_status frame_number(const struct reading *r, const bn_json *value, uint32_t *out, bn_error *err)
{
    uint64_t number;
    if (!bn_json_u64(value, &number) || number >= r->n_frames)
        return malformed(err, "profiles", "a frame index out of range");
    *out = r->frames[number];
    return BN_OK;
}

static bn_status read_sampled(struct reading *r, const bn_json *profile, bn_error *err)
{
    const bn_json *samples = bn_json_get(profile, "samples"), *weights = bn_json_get(profile, "weights");
    const bn_json *sample = bn_json_first(samples), *weight = bn_json_first(weights);
    const bn_json *counts = bn_json_path(profile, "bn.samples"), *count = bn_json_first(counts);
    if (samples == NULL || weights == NULL || bn_json_kind(samples) != BN_JSON_ARRAY ||
        bn_json_kind(weights) != BN_JSON_ARRAY || bn_json_size(samples) != bn_json_size(weights))
        return malformed(err, "samples", "not as many as weights");
    for (; sample != NULL; sample = bn_json_next(sample), weight = bn_json_next(weight)) {
        double value;
        uint64_t n = 0;
        uint32_t node = BN_STACKS_ROOT, frame = 0;
        if (bn_json_kind(sample) != BN_JSON_ARRAY) return malformed(err, "samples", "a sample is not a list");
        if (!bn_json_number(weight, &value) || !(value >= 0))
            return malformed(err, "weights", "an invalid weight");
        for (const bn_json *f = bn_json_first(sample); f != NULL; f = bn_json_next(f)) {
            BN_TRY(frame_number(r, f, &frame, err));
            BN_TRY(bn_stacks_push_frame(r->stacks, &node, frame, err));
        }
        (void)bn_json_u64(count, &n);
        count = bn_json_next(count);
        BN_TRY(bn_formats_add(r->stacks, &r->tally, node, 0, value * r->factor, n, err));
    }
    return BN_OK;
}

static bn_status read_profiles(struct reading *r, const bn_json *document, bn_error *err)
{
    const bn_json *profiles = bn_json_get(document, "profiles");
    if (profiles == NULL || bn_json_kind(profiles) != BN_JSON_ARRAY || bn_json_size(profiles) == 0)
        return malformed(err, "profiles", "none found");
    for (const bn_json *p = bn_json_first(profiles); p != NULL; p = bn_json_next(p)) {
        if (strcmp(bn_json_text_of(p, "type"), "sampled") != 0)
            return malformed(err, "type", "not sampled: profiles of events are not read");
        BN_TRY(read_unit(r, p, err));
        BN_TRY(read_sampled(r, p, err));
    }
    memcpy(r->stacks->unit, r->unit, sizeof r->unit);
    memcpy(r->stacks->what, r->what, sizeof r->what);
    return BN_OK;
}

bn_status bn_formats_read_speedscope(bn_stacks **out, const bn_json *document, bn_error *err)
{
    struct reading r = {0};
    BN_TRY(bn_stacks_open(out, "samples", "", err));
    r.stacks = *out;
    bn_json_put_string(r.stacks->about, "format", "speedscope");
    bn_status status = bn_json_is_complete(r.stacks->about) ? BN_OK : bn_nomem(err);
    if (status == BN_OK) status = read_frames(&r, document, err);
    if (status == BN_OK) status = read_profiles(&r, document, err);
    bn_free(r.frames);
    return bn_stacks_keep(out, status);
}
