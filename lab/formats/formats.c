/* SPDX-License-Identifier: MIT
 *
 * Helpers that readers and writers of stack formats share: lines, weights, whole numbers, tables of texts.
 */
#include "lab/formats/formats.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "lab/kit/order.h"

#define MAX_COUNT ((UINT64_C(1) << 53) - 1) /* the largest integer that JSON numbers hold exactly */

/* ---- shared by readers ---- */

bool bn_formats_line(struct bn_str *line, const char *text, size_t n, size_t *at)
{
    if (*at >= n) return false;
    const char *newline = memchr(text + *at, '\n', n - *at);
    *line = (struct bn_str){text + *at, newline != NULL ? (size_t)(newline - text) - *at : n - *at};
    *at += line->len + 1;
    if (line->len > 0 && line->ptr[line->len - 1] == '\r') line->len--;
    return true;
}

bool bn_formats_weight(struct bn_str digits, double *value)
{
    char text[64], *end = NULL;
    if (digits.len == 0 || digits.len >= sizeof text) return false;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.ptr[i] == '\0' || strchr("0123456789.eE+-", digits.ptr[i]) == NULL) return false;
        text[i] = digits.ptr[i];
    }
    text[digits.len] = '\0';
    *value = strtod(text, &end);
    return end != text && *end == '\0' && text[0] != '-' && *value < 1e300;
}

bn_status bn_formats_add(bn_stacks *stacks, struct bn_tally *tally, uint32_t node, size_t run, double weight,
                         uint64_t samples, bn_error *err)
{
    tally->weight += weight;
    if (!(tally->weight < 1e300)) return bn_fail(err, BN_ERR_LIMIT, "weights add up to more than 1e300");
    if (samples > MAX_COUNT - tally->samples) return bn_fail(err, BN_ERR_LIMIT, "more than 2^53 - 1 samples");
    tally->samples += samples;
    bn_stacks_add(stacks, node, run, weight, samples);
    return BN_OK;
}

/* ---- shared by writers ---- */

bn_status bn_formats_whole(const bn_stacks *stacks, uint64_t *out, bn_error *err)
{
    double sum = 0;
    uint64_t given = 0;
    for (uint32_t i = 0; i < stacks->n_nodes; i++) {
        sum += bn_stacks_self(stacks, i, BN_STACKS_ALL_RUNS);
        if (!(sum < 0x1p62)) return bn_fail(err, BN_ERR_LIMIT, "weights over 2^62 %s", stacks->unit);
        uint64_t whole = (uint64_t)llround(sum);
        out[i] = whole > given ? whole - given : 0;
        given += out[i];
    }
    return BN_OK;
}

bn_status bn_formats_texts(struct bn_formats_texts *out, const bn_stacks *s, unsigned which, bn_error *err)
{
    size_t n = 0;
    out->n = 0;
    out->list = bn_alloc(3 * s->n_frames + 1, sizeof *out->list);
    if (out->list == NULL) return bn_nomem(err);
    out->list[n++] = "";
    for (size_t i = 0; i < s->n_frames; i++) {
        if ((which & BN_FORMATS_NAMES) != 0) out->list[n++] = s->frames[i].name;
        if ((which & BN_FORMATS_MODULES) != 0) out->list[n++] = s->frames[i].module;
        if ((which & BN_FORMATS_FILES) != 0) out->list[n++] = s->frames[i].file;
    }
    qsort(out->list, n, sizeof *out->list, bn_compare_texts);
    for (size_t i = 0; i < n; i++)
        if (out->n == 0 || strcmp(out->list[out->n - 1], out->list[i]) != 0)
            out->list[out->n++] = out->list[i];
    return BN_OK;
}

uint32_t bn_formats_text(const struct bn_formats_texts *texts, const char *text)
{
    const char **found = bsearch(&text, texts->list, texts->n, sizeof *texts->list, bn_compare_texts);
    return found != NULL ? (uint32_t)(found - texts->list) : 0;
}

void bn_formats_number(struct bn_buf *out, double value, bool first)
{
    if (!first) bn_buf_putc(out, ',');
    bn_json_write_number(out, value);
}

bn_status bn_formats_too_large(const bn_stacks *s, bn_error *err)
{
    bn_status status =
        bn_fail(err, BN_ERR_LIMIT, "%zu call paths in %zu runs exceed the size limit of a document",
                s->n_nodes, s->n_runs);
    bn_error_hint(err, "use --tags none or --root, or write folded text: bn-flamegraph "
                       "export --format folded");
    return status;
}
