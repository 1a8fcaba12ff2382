/* SPDX-License-Identifier: MIT
 *
 * A profile for pprof: the message Profile of its profile.proto, written field by field. Weights are integers whose
 * sum is the rounded sum.
 */
#include "base/error.h"
#include "lab/formats/formats.h"

/* ---- protocol buffers ---- */

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

/* ---- the profile ---- */

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
    bn_status status =
        bn_formats_texts(&w.texts, s, BN_FORMATS_NAMES | BN_FORMATS_MODULES | BN_FORMATS_FILES, err);
    if (status == BN_OK) status = bn_formats_texts(&w.modules, s, BN_FORMATS_MODULES, err);
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
