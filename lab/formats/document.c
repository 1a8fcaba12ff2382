/* SPDX-License-Identifier: MIT
 *
 * Stacks in files: detects the format of a text and reads it; writes stacks in a format. The formats are in
 * the other files of this folder.
 */
#include "lab/formats/document.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/formats/formats.h"
#include "lab/profile/document.h"
#include "lab/stacks/bricks.h"

#define MAX_BYTES (256u << 20)

/* ---- reading ---- */

static bn_status parse_document(bn_stacks **out, const bn_json *document, bn_error *err)
{
    const char *schema = "";
    (void)bn_json_string(bn_json_get(document, "schema"), &schema);
    if (strcmp(schema, BN_STACKS_SCHEMA) == 0) return bn_formats_read_document(out, document, err);
    if (strcmp(schema, BN_PROF_SCHEMA) == 0) return bn_stacks_from_profile(out, document, err);
    if (bn_json_path(document, "shared.frames") != NULL)
        return bn_formats_read_speedscope(out, document, err);
    if (schema[0] != '\0')
        return bn_fail(err, BN_ERR_FORMAT, "a document of schema %s has no stacks", schema);
    bn_status status = bn_fail(err, BN_ERR_FORMAT, "no stacks in this JSON document");
    bn_error_hint(err, "expected bn.stacks/1, bn.profile/1 or speedscope");
    return status;
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

const char *bn_stacks_format_name(enum bn_stacks_format format)
{
    static const char *const NAMES[] = {"json", "folded", "speedscope", "pprof", "chrome", "svg", "text"};
    _Static_assert(BN_ARRAY_LEN(NAMES) == BN_STACKS_NO_FORMAT, "a name for each");
    return (unsigned)format < BN_STACKS_NO_FORMAT ? NAMES[format] : "unknown";
}

enum bn_stacks_format bn_stacks_format_by_name(const char *path)
{
    /* Longer ones before those that they end in. */
    static const struct {
        const char *suffix;
        enum bn_stacks_format format;
    } SUFFIXES[] = {{".speedscope.json", BN_STACKS_SPEEDSCOPE},
                    {".trace.json", BN_STACKS_CHROME},
                    {".json", BN_STACKS_DOCUMENT},
                    {".folded", BN_STACKS_FOLDED},
                    {".pb.gz", BN_STACKS_PPROF},
                    {".svg", BN_STACKS_SVG},
                    {".txt", BN_STACKS_TEXT}};
    size_t n = strlen(path);
    for (size_t i = 0; i < BN_ARRAY_LEN(SUFFIXES); i++) {
        size_t n_suffix = strlen(SUFFIXES[i].suffix);
        if (n > n_suffix && strcmp(path + n - n_suffix, SUFFIXES[i].suffix) == 0) return SUFFIXES[i].format;
    }
    return BN_STACKS_NO_FORMAT;
}

typedef bn_status writer(const bn_stacks *s, struct bn_buf *out, bn_error *err);

bn_status bn_stacks_write(const bn_stacks *stacks, enum bn_stacks_format format, struct bn_buf *out,
                          bn_error *err)
{
    static writer *const WRITERS[] = {bn_formats_write_document, bn_formats_write_folded,
                                      bn_formats_write_speedscope, bn_formats_write_pprof,
                                      bn_formats_write_chrome};
    _Static_assert(BN_ARRAY_LEN(WRITERS) == BN_STACKS_FORMATS, "a writer for each");
    struct bn_stacks_view view = {.merge_runs = format != BN_STACKS_DOCUMENT && format != BN_STACKS_CHROME,
                                  .drop_modules = format == BN_STACKS_FOLDED};
    bn_stacks *sorted = NULL;
    BN_TRY(bn_stacks_copy(&sorted, stacks, &view, err));
    bn_status status = WRITERS[format](sorted, out, err);
    bn_stacks_close(sorted);
    return status == BN_OK ? bn_buf_check(out, err) : status;
}
