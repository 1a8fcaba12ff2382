/* SPDX-License-Identifier: MIT
 *
 * The document bn.stacks/1 (docs/reference/stacks.md). Columns of numbers, nodes in depth-first order with
 * their depths, and for each run only the nodes that have a weight, because JSON documents have a limit on
 * the number of values.
 */
#include <stdlib.h>

#include "base/error.h"
#include "lab/formats/formats.h"

/* ---- writing ---- */

static void put_frames(bn_json *document, const bn_stacks *s, const struct bn_formats_texts *texts)
{
    bn_json *kinds = bn_json_put_array(document, "kinds");
    for (unsigned kind = 0; kind < BN_FRAME_KINDS; kind++)
        bn_json_add_string(kinds, bn_frame_kind_name((enum bn_frame_kind)kind));
    bn_json *list = bn_json_put_array(document, "texts");
    for (size_t i = 0; i < texts->n; i++)
        bn_json_add_string(list, texts->list[i]);
    bn_json *frames = bn_json_put_object(document, "frames");
    bn_json *kind = bn_json_put_array(frames, "kind"), *name = bn_json_put_array(frames, "name");
    bn_json *module = bn_json_put_array(frames, "module"), *file = bn_json_put_array(frames, "file");
    bn_json *line = bn_json_put_array(frames, "line");
    for (size_t i = 0; i < s->n_frames; i++) {
        bn_json_add_u64(kind, s->frames[i].kind);
        bn_json_add_u64(name, bn_formats_text(texts, s->frames[i].name));
        bn_json_add_u64(module, bn_formats_text(texts, s->frames[i].module));
        bn_json_add_u64(file, bn_formats_text(texts, s->frames[i].file));
        bn_json_add_u64(line, s->frames[i].line);
    }
}

static void put_nodes(bn_json *document, const bn_stacks *s)
{
    bn_json *nodes = bn_json_put_object(document, "nodes");
    bn_json *depth = bn_json_put_array(nodes, "depth"), *frame = bn_json_put_array(nodes, "frame");
    for (size_t i = 1; i < s->n_nodes; i++) {
        bn_json_add_u64(depth, s->nodes[i].depth);
        bn_json_add_u64(frame, s->nodes[i].frame);
    }
}

static bool was_sampled(const bn_stacks *s, size_t run)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->runs[run].samples[i] != 0) return true;
    return false;
}

static void put_run(bn_json *runs, const bn_stacks *s, size_t r)
{
    bn_json *run = bn_json_add_object(runs);
    bn_json *node = bn_json_put_array(run, "node"), *self = bn_json_put_array(run, "self");
    bn_json *samples = was_sampled(s, r) ? bn_json_put_array(run, "samples") : NULL;
    for (size_t i = 0; i < s->n_nodes; i++) {
        if (s->runs[r].self[i] == 0 && s->runs[r].samples[i] == 0) continue;
        bn_json_add_u64(node, i);
        bn_json_add_number(self, s->runs[r].self[i]);
        bn_json_add_u64(samples, s->runs[r].samples[i]);
    }
}

/* Before gigabytes of values are made which would be refused in the end. */
static bn_status check_size(const bn_stacks *s, bn_error *err)
{
    size_t values = 2 * s->n_nodes + 5 * s->n_frames;
    for (size_t r = 0; r < s->n_runs; r++)
        for (size_t i = 0; i < s->n_nodes; i++)
            values += s->runs[r].self[i] != 0 || s->runs[r].samples[i] != 0 ? 2 : 0;
    return values <= BN_JSON_MAX_BYTES / 2 ? BN_OK : bn_formats_too_large(s, err);
}

static bn_status put_stacks(bn_json *document, const bn_stacks *s, bn_error *err)
{
    struct bn_formats_texts texts;
    BN_TRY(check_size(s, err));
    BN_TRY(bn_formats_texts(&texts, s, BN_FORMATS_NAMES | BN_FORMATS_MODULES | BN_FORMATS_FILES, err));
    bn_json_put_string(document, "unit", s->unit);
    bn_json_put_string(document, "what", s->what);
    bn_json_put_copy(document, "about", s->about);
    put_frames(document, s, &texts);
    put_nodes(document, s);
    bn_json *runs = bn_json_put_array(document, "runs");
    for (size_t r = 0; r < s->n_runs; r++)
        put_run(runs, s, r);
    bn_free(texts.list);
    return BN_OK;
}

static bn_status to_json(bn_json **out, const bn_stacks *stacks, bn_error *err)
{
    static const struct bn_stacks_view EVERYTHING = {0};
    bn_stacks *sorted = NULL;
    *out = NULL;
    BN_TRY(bn_stacks_copy(&sorted, stacks, &EVERYTHING, err));
    bn_json *document = bn_json_new_object();
    bn_json_put_string(document, "schema", BN_STACKS_SCHEMA);
    bn_status status = document != NULL ? put_stacks(document, sorted, err) : bn_nomem(err);
    if (status == BN_OK && sorted->measured != NULL)
        status = put_stacks(bn_json_put_object(document, "measured"), sorted->measured, err);
    bn_stacks_close(sorted);
    if (status == BN_OK)
        *out = document;
    else
        bn_json_free(document);
    return status;
}

/* ---- reading ---- */

static bn_status malformed(bn_error *err, const char *member, const char *what)
{
    return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, member, "%s", what);
}

/* Arrays of one length, walked side by side. */
#define MAX_COLUMNS 5u
struct columns {
    const bn_json *at[MAX_COLUMNS];
    size_t n;
};

static bn_status open_columns(struct columns *out, const bn_json *object, const char *where,
                              const char *const *names, size_t n, bn_error *err)
{
    size_t length = 0;
    out->n = n;
    for (size_t i = 0; i < n; i++) {
        const bn_json *column = bn_json_get(object, names[i]);
        size_t size = bn_json_size(column);
        if (column == NULL || bn_json_kind(column) != BN_JSON_ARRAY || (i > 0 && size != length))
            return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, where, "'%s' is not a list as long as '%s'",
                              names[i], names[0]);
        out->at[i] = bn_json_first(column);
        length = size;
    }
    return BN_OK;
}

static bool more(const struct columns *columns)
{
    return columns->at[0] != NULL;
}

static void step(struct columns *columns)
{
    for (size_t i = 0; i < columns->n; i++)
        columns->at[i] = bn_json_next(columns->at[i]);
}

/* A whole number below limit in a column. */
static bn_status column_number(const struct columns *columns, size_t which, uint64_t limit, uint64_t *out,
                               const char *where, bn_error *err)
{
    if (bn_json_u64(columns->at[which], out) && *out < limit) return BN_OK;
    return malformed(err, where, "an index out of range");
}

/* A document's lists, as arrays. */
struct lists {
    const char **texts;
    size_t n_texts;
    enum bn_frame_kind *kinds;
    size_t n_kinds;
    uint32_t *frames; /* numbers of frames in the stacks */
    size_t n_frames;
    uint32_t *nodes;
    size_t n_nodes;
};

static void release_lists(struct lists *lists)
{
    bn_free(lists->texts);
    bn_free(lists->kinds);
    bn_free(lists->frames);
    bn_free(lists->nodes);
}

static bn_status read_texts(struct lists *lists, const bn_json *document, bn_error *err)
{
    const bn_json *texts = bn_json_get(document, "texts"), *kinds = bn_json_get(document, "kinds");
    if (texts == NULL || bn_json_kind(texts) != BN_JSON_ARRAY) return malformed(err, "texts", "no list");
    if (kinds == NULL || bn_json_kind(kinds) != BN_JSON_ARRAY) return malformed(err, "kinds", "no list");
    lists->texts = bn_alloc(bn_json_size(texts), sizeof *lists->texts);
    lists->kinds = bn_alloc(bn_json_size(kinds), sizeof *lists->kinds);
    if (lists->texts == NULL || lists->kinds == NULL) return bn_nomem(err);
    for (const bn_json *t = bn_json_first(texts); t != NULL; t = bn_json_next(t))
        if (!bn_json_string(t, &lists->texts[lists->n_texts++])) return malformed(err, "texts", "no text");
    for (const bn_json *k = bn_json_first(kinds); k != NULL; k = bn_json_next(k)) {
        const char *name = "";
        unsigned kind = 0;
        (void)bn_json_string(k, &name);
        while (kind < BN_FRAME_KINDS && strcmp(name, bn_frame_kind_name((enum bn_frame_kind)kind)) != 0)
            kind++;
        if (kind == BN_FRAME_KINDS) return malformed(err, "kinds", "an unknown kind of frame");
        lists->kinds[lists->n_kinds++] = (enum bn_frame_kind)kind;
    }
    return BN_OK;
}

static bn_status read_frames(struct lists *lists, bn_stacks *s, const bn_json *document, bn_error *err)
{
    static const char *const NAMES[] = {"kind", "name", "module", "file", "line"};
    const bn_json *frames = bn_json_get(document, "frames");
    struct columns columns;
    BN_TRY(open_columns(&columns, frames, "frames", NAMES, BN_ARRAY_LEN(NAMES), err));
    lists->frames = bn_alloc(bn_json_size(bn_json_get(frames, "kind")), sizeof *lists->frames);
    if (lists->frames == NULL) return bn_nomem(err);
    for (; more(&columns); step(&columns)) {
        uint64_t kind, name, module, file, line;
        BN_TRY(column_number(&columns, 0, lists->n_kinds, &kind, "frames", err));
        BN_TRY(column_number(&columns, 1, lists->n_texts, &name, "frames", err));
        BN_TRY(column_number(&columns, 2, lists->n_texts, &module, "frames", err));
        BN_TRY(column_number(&columns, 3, lists->n_texts, &file, "frames", err));
        BN_TRY(column_number(&columns, 4, UINT32_MAX, &line, "frames", err));
        struct bn_frame frame = {lists->texts[name], lists->texts[module], lists->texts[file], (uint32_t)line,
                                 lists->kinds[kind]};
        BN_TRY(bn_stacks_intern(s, &lists->frames[lists->n_frames++], &frame, SIZE_MAX, err));
    }
    return BN_OK;
}

static bn_status read_nodes(struct lists *lists, bn_stacks *s, const bn_json *document, bn_error *err)
{
    static const char *const NAMES[] = {"depth", "frame"};
    const bn_json *nodes = bn_json_get(document, "nodes");
    uint32_t path[BN_STACKS_MAX_DEPTH + 1] = {BN_STACKS_ROOT}; /* the node at each depth */
    uint64_t above = 0;
    struct columns columns;
    BN_TRY(open_columns(&columns, nodes, "nodes", NAMES, BN_ARRAY_LEN(NAMES), err));
    lists->nodes = bn_alloc(bn_json_size(bn_json_get(nodes, "depth")) + 1, sizeof *lists->nodes);
    if (lists->nodes == NULL) return bn_nomem(err);
    lists->nodes[lists->n_nodes++] = BN_STACKS_ROOT;
    for (; more(&columns); step(&columns)) {
        uint64_t depth, frame;
        BN_TRY(column_number(&columns, 0, BN_STACKS_MAX_DEPTH + 1, &depth, "nodes", err));
        BN_TRY(column_number(&columns, 1, lists->n_frames, &frame, "nodes", err));
        if (depth == 0 || depth > above + 1) return malformed(err, "nodes", "a depth without a parent");
        path[depth] = path[depth - 1];
        BN_TRY(bn_stacks_push_frame(s, &path[depth], lists->frames[frame], err));
        lists->nodes[lists->n_nodes++] = path[depth];
        above = depth;
    }
    return BN_OK;
}

static bn_status read_run(const struct lists *lists, bn_stacks *s, size_t run, const bn_json *value,
                          bn_error *err)
{
    static const char *const NAMES[] = {"node", "self", "samples"};
    struct columns columns;
    struct bn_tally tally = {0};
    bool sampled = bn_json_get(value, "samples") != NULL;
    BN_TRY(open_columns(&columns, value, "runs", NAMES, sampled ? 3 : 2, err));
    for (; more(&columns); step(&columns)) {
        uint64_t node, samples = 0;
        double self;
        BN_TRY(column_number(&columns, 0, lists->n_nodes, &node, "runs", err));
        if (!bn_json_number(columns.at[1], &self) || !(self >= 0))
            return malformed(err, "runs", "an invalid weight");
        if (sampled) BN_TRY(column_number(&columns, 2, UINT64_MAX, &samples, "runs", err));
        BN_TRY(bn_formats_add(s, &tally, lists->nodes[node], run, self, samples, err));
    }
    return BN_OK;
}

static bn_status read_runs(const struct lists *lists, bn_stacks *s, const bn_json *document, bn_error *err)
{
    const bn_json *runs = bn_json_get(document, "runs");
    size_t n = 0;
    if (runs == NULL || bn_json_kind(runs) != BN_JSON_ARRAY || bn_json_size(runs) == 0)
        return malformed(err, "runs", "not a list of runs");
    for (const bn_json *run = bn_json_first(runs); run != NULL; run = bn_json_next(run), n++) {
        if (n > 0) BN_TRY(bn_stacks_add_run(s, err));
        BN_TRY(read_run(lists, s, n, run, err));
    }
    return BN_OK;
}

/* Words as unit and what are: short, without white space, so that they fit into a line of folded text. */
static bn_status read_word(char out[16], const bn_json *document, const char *member, bool empty,
                           bn_error *err)
{
    const char *word = NULL;
    if (bn_json_string(bn_json_get(document, member), &word) &&
        bn_formats_is_word(word, strlen(word), empty)) {
        memcpy(out, word, strlen(word) + 1);
        return BN_OK;
    }
    return malformed(err, member, "not a word of letters, digits, '-', '_', '.', at most 15 of them");
}

static bn_status read_about(bn_stacks *s, const bn_json *document, bn_error *err)
{
    const bn_json *about = bn_json_get(document, "about");
    if (about == NULL) return BN_OK;
    if (bn_json_kind(about) != BN_JSON_OBJECT) return malformed(err, "about", "not an object");
    for (const bn_json *m = bn_json_first(about); m != NULL; m = bn_json_next(m))
        bn_json_put_copy(s->about, bn_json_name(m), m);
    return bn_json_size(s->about) == bn_json_size(about) ? BN_OK : bn_nomem(err);
}

static bn_status read_stacks(bn_stacks **out, const bn_json *document, bn_error *err)
{
    char unit[16], what[16];
    struct lists lists = {0};
    *out = NULL;
    BN_TRY(read_word(unit, document, "unit", false, err));
    BN_TRY(read_word(what, document, "what", true, err));
    BN_TRY(bn_stacks_open(out, unit, what, err));
    bn_status status = read_about(*out, document, err);
    if (status == BN_OK) status = read_texts(&lists, document, err);
    if (status == BN_OK) status = read_frames(&lists, *out, document, err);
    if (status == BN_OK) status = read_nodes(&lists, *out, document, err);
    if (status == BN_OK) status = read_runs(&lists, *out, document, err);
    release_lists(&lists);
    return bn_stacks_keep(out, status);
}

bn_status bn_formats_read_document(bn_stacks **out, const bn_json *document, bn_error *err)
{
    const bn_json *measured = bn_json_get(document, "measured");
    const char *schema = "";
    *out = NULL;
    if (!bn_json_string(bn_json_get(document, "schema"), &schema) || strcmp(schema, BN_STACKS_SCHEMA) != 0)
        return malformed(err, "schema", "not " BN_STACKS_SCHEMA);
    BN_TRY(read_stacks(out, document, err));
    if (measured == NULL || bn_json_kind(measured) == BN_JSON_NULL) return BN_OK;
    bn_status status = read_stacks(&(*out)->measured, measured, err);
    if (status == BN_OK && (*out)->measured->n_runs != (*out)->n_runs)
        status = malformed(err, "measured", "the number of runs differs from that of the samples");
    return bn_stacks_keep(out, status);
}

bn_status bn_formats_write_document(const bn_stacks *s, struct bn_buf *out, bn_error *err)
{
    bn_json *document = NULL, *read = NULL;
    size_t before = out->len;
    BN_TRY(to_json(&document, s, err));
    bn_status status = bn_json_write(document, true, out, err);
    bn_buf_putc(out, '\n');
    if (status == BN_OK) status = bn_buf_check(out, err);
    if (status == BN_OK) status = bn_json_parse(&read, out->data + before, out->len - before, NULL);
    if (status == BN_ERR_NOMEM) status = bn_nomem(err);
    if (status == BN_ERR_LIMIT) status = bn_formats_too_large(s, err);
    bn_json_free(document);
    bn_json_free(read);
    return status;
}
