/* SPDX-License-Identifier: MIT
 *
 * Stacks in files: detects the format of a text and reads it; writes stacks in a format. The formats are in
 * the other files of this folder, and share the helpers at the end of this one.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "lab/formats/document.h"
#include "lab/kit/order.h"
#include "lab/profile/document.h"
#include "lab/stacks/bricks.h"

#define MAX_BYTES (256u << 20)
#define MAX_COUNT ((UINT64_C(1) << 53) - 1) /* the largest integer that JSON numbers hold exactly */

/* ---- reading ---- */

static bn_status parse_document(bn_stacks **out, const bn_json *document, bn_error *err)
{
    const char *schema = bn_json_text_of(document, "schema");
    if (strcmp(schema, BN_STACKS_SCHEMA) == 0) return bn_formats_read_document(out, document, err);
    if (strcmp(schema, BN_PROF_SCHEMA) == 0) return bn_stacks_from_profile(out, document, err);
    if (schema[0] != '\0')
        return bn_fail(err, BN_ERR_FORMAT, "a document of schema %s has no stacks", schema);
    return bn_hint(bn_fail(err, BN_ERR_FORMAT, "no stacks in this JSON document"), err,
                   "expected bn.stacks/1 or bn.profile/1");
}

static bn_status parse_json(bn_stacks **out, const char *text, size_t n, bn_error *err)
{
    bn_json *document = NULL;
    BN_TRY(bn_json_parse(&document, text, n, err));
    bn_status status = parse_document(out, document, err);
    bn_json_free(document);
    return status;
}

/* White space, a brace and the start of a member. A name in folded text may begin with a brace. */
static bool is_json(const char *text, size_t n)
{
    static const char SPACE[] = " \t\r\n";
    size_t at = 0;
    while (at < n && text[at] != '\0' && strchr(SPACE, text[at]) != NULL)
        at++;
    if (at == n || text[at++] != '{') return false;
    while (at < n && text[at] != '\0' && strchr(SPACE, text[at]) != NULL)
        at++;
    return at == n || text[at] == '"' || text[at] == '}';
}

static bool is_empty(const bn_stacks *s)
{
    for (uint32_t i = 0; s != NULL && i < s->n_nodes; i++)
        for (size_t r = 0; r < s->n_runs; r++)
            if (s->runs[r].self[i] != 0 || s->runs[r].samples[i] != 0) return false;
    return true;
}

bn_status bn_stacks_parse(bn_stacks **out, const char *text, size_t n, const char *name, bn_error *err)
{
    bn_error inner = {0};
    bn_status status = BN_OK;
    *out = NULL;
    if (n == 0)
        status = bn_fail(&inner, BN_ERR_FORMAT, "empty; expected " BN_FORMATS_READ);
    else if (is_json(text, n))
        status = parse_json(out, text, n, &inner);
    else if (bn_formats_is_perf_script(text, n))
        status = bn_formats_read_perf_script(out, text, n, name, &inner);
    else
        status = bn_formats_read_folded(out, text, n, name, &inner);
    if (status == BN_OK && is_empty(*out) && is_empty((*out)->measured))
        status = bn_fail(&inner, BN_ERR_FORMAT, "no stacks found; expected " BN_FORMATS_READ);
    if (bn_stacks_keep(out, status) == BN_OK) return BN_OK;
    bn_error_name(&inner, name);
    if (err != NULL && err->code == BN_OK) *err = inner;
    return status;
}

bn_status bn_stacks_read(bn_stacks **out, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = MAX_BYTES};
    *out = NULL;
    bn_status status = bn_file_read(path, &text, err);
    if (status == BN_OK)
        status = bn_stacks_parse(out, text.data != NULL ? text.data : "", text.len,
                                 strcmp(path, "-") == 0 ? "standard input" : path, err);
    bn_buf_release(&text);
    return status;
}

/* ---- writing ---- */

/* Longer suffixes before those that they end in. */
static const struct {
    const char *name, *suffix;
    enum bn_stacks_format format;
    bn_status (*write)(const bn_stacks *s, struct bn_buf *out, bn_error *err);
    bool all_runs; /* else their sum */
} FORMATS[] = {{"speedscope", ".speedscope.json", BN_STACKS_SPEEDSCOPE, bn_formats_write_speedscope, false},
               {"chrome", ".trace.json", BN_STACKS_CHROME, bn_formats_write_chrome, true},
               {"json", ".json", BN_STACKS_DOCUMENT, bn_formats_write_document, true},
               {"folded", ".folded", BN_STACKS_FOLDED, bn_formats_write_folded, false},
               {"pprof", ".pb", BN_STACKS_PPROF, bn_formats_write_pprof, false},
               {"svg", ".svg", BN_STACKS_SVG, NULL, false},
               {"text", ".txt", BN_STACKS_TEXT, NULL, false}};

const char *bn_stacks_format_name(enum bn_stacks_format format)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(FORMATS); i++)
        if (FORMATS[i].format == format) return FORMATS[i].name;
    return "unknown";
}

enum bn_stacks_format bn_stacks_format_by_name(const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < BN_ARRAY_LEN(FORMATS); i++) {
        size_t n_suffix = strlen(FORMATS[i].suffix);
        if (n > n_suffix && strcmp(path + n - n_suffix, FORMATS[i].suffix) == 0) return FORMATS[i].format;
    }
    return BN_STACKS_NO_FORMAT;
}

bn_status bn_stacks_write(const bn_stacks *stacks, enum bn_stacks_format format, struct bn_buf *out,
                          bn_error *err)
{
    size_t i = 0;
    while (FORMATS[i].format != format)
        i++;
    struct bn_stacks_view view = {.merge_runs = !FORMATS[i].all_runs,
                                  .drop_modules = format == BN_STACKS_FOLDED};
    bn_stacks *sorted = NULL;
    BN_TRY(bn_stacks_copy(&sorted, stacks, &view, err));
    bn_status status = FORMATS[i].write(sorted, out, err);
    bn_stacks_close(sorted);
    return status == BN_OK ? bn_buf_check(out, err) : status;
}

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

bn_status bn_formats_texts(struct bn_formats_texts *out, const bn_stacks *s, bool only_modules, bn_error *err)
{
    size_t n = 0;
    out->n = 0;
    BN_TRY(BN_NEW(out->list, 3 * s->n_frames + 1, err));
    out->list[n++] = "";
    for (size_t i = 0; i < s->n_frames; i++) {
        out->list[n++] = s->frames[i].module;
        if (only_modules) continue;
        out->list[n++] = s->frames[i].name;
        out->list[n++] = s->frames[i].file;
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
