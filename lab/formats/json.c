/* SPDX-License-Identifier: MIT
 *
 * The document bn.stacks/1 (docs/reference/bench.md). Columns of numbers, nodes in depth-first order with
 * their depths, and for each run only the nodes that have a weight, because JSON documents have a limit on
 * the number of values.
 */

#include "lab/formats/document.h"

/* ---- writing ---- */

/* Fails: this document would be over the limits of the reader. */
static bn_status too_large(const bn_stacks *s, bn_error *err)
{
    return bn_hint(
        bn_fail(err, BN_ERR_LIMIT, "%zu call paths in %zu runs exceed the size limit of a document",
                s->n_nodes, s->n_runs),
        err, "use --tags none or --root, or write folded text: bn-flamegraph export --format folded");
}

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

static bn_status put_stacks(bn_json *document, const bn_stacks *s, bn_error *err)
{
    struct bn_formats_texts texts;
    BN_TRY(bn_formats_texts(&texts, s, false, err));
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

bn_status bn_formats_write_document(const bn_stacks *s, struct bn_buf *out, bn_error *err)
{
    size_t before = out->len;
    if (s->n_nodes > BN_JSON_MAX_BYTES / 4) return too_large(s, err); /* before it is made */
    bn_json *document = bn_json_new_object(), *read = NULL;
    bn_json_put_string(document, "schema", BN_STACKS_SCHEMA);
    bn_status status = put_stacks(document, s, err);
    if (status == BN_OK && s->measured != NULL)
        status = put_stacks(bn_json_put_object(document, "measured"), s->measured, err);
    if (status == BN_OK) status = bn_json_write_line(document, true, out, err);
    bn_json_free(document);
    bn_status back =
        status == BN_OK ? bn_json_parse(&read, out->data + before, out->len - before, NULL) : BN_OK;
    if (back != BN_OK) status = back == BN_ERR_NOMEM ? bn_nomem(err) : too_large(s, err);
    bn_json_free(read);
    return status;
}

/* ---- reading ---- */

static bn_status malformed(bn_error *err, const char *member, const char *what)
{
    return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, member, "%s", what);
}

/* A list in a document as an array; released by bn_free. */
struct column {
    uint64_t *list;
    size_t n;
};

/* Whole numbers below a limit. as_long_as: a column that has to have the same length; NULL: any. */
static bn_status read_column(struct column *out, const bn_json *object, const char *where, const char *name,
                             uint64_t limit, const struct column *as_long_as, bn_error *err)
{
    const bn_json *column = bn_json_get(object, name);
    size_t n = bn_json_size(column);
    if (column == NULL || bn_json_kind(column) != BN_JSON_ARRAY || (as_long_as != NULL && n != as_long_as->n))
        return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, where, "'%s' is not a list as long as the others",
                          name);
    BN_TRY(BN_NEW(out->list, n + 1, err));
    for (const bn_json *value = bn_json_first(column); value != NULL; value = bn_json_next(value))
        if (!bn_json_u64(value, &out->list[out->n++]) || out->list[out->n - 1] >= limit)
            return malformed(err, where, "an index out of range");
    return BN_OK;
}

enum { KIND, NAME, MODULE, FILE_, LINE, DEPTH, FRAME, COLUMNS };

struct reading {
    bn_stacks *stacks;
    const bn_json *document;
    const char **texts;
    enum bn_frame_kind *kinds;
    size_t n_texts, n_kinds;
    struct column columns[COLUMNS];
    uint32_t *frames, *nodes; /* numbers in the stacks of the document's */
};

/* The kind of frame of this name; false for a name that none has. */
static bool read_kind(enum bn_frame_kind *out, const bn_json *name)
{
    const char *text = "";
    unsigned kind = 0;
    (void)bn_json_string(name, &text);
    while (kind < BN_FRAME_KINDS && strcmp(text, bn_frame_kind_name((enum bn_frame_kind)kind)) != 0)
        kind++;
    if (kind < BN_FRAME_KINDS) *out = (enum bn_frame_kind)kind;
    return kind < BN_FRAME_KINDS;
}

static bn_status read_texts(struct reading *r, bn_error *err)
{
    const bn_json *texts = bn_json_get(r->document, "texts"), *kinds = bn_json_get(r->document, "kinds");
    BN_TRY(BN_NEW(r->texts, bn_json_size(texts), err));
    BN_TRY(BN_NEW(r->kinds, bn_json_size(kinds), err));
    for (const bn_json *t = bn_json_first(texts); t != NULL; t = bn_json_next(t))
        if (!bn_json_string(t, &r->texts[r->n_texts++]))
            return malformed(err, "texts", "not a list of texts");
    for (const bn_json *k = bn_json_first(kinds); k != NULL; k = bn_json_next(k))
        if (!read_kind(&r->kinds[r->n_kinds++], k))
            return malformed(err, "kinds", "an unknown kind of frame");
    return BN_OK;
}

static bn_status read_frames(struct reading *r, bn_error *err)
{
    static const char *const NAMES[] = {"kind", "name", "module", "file", "line", "depth", "frame"};
    const bn_json *frames = bn_json_get(r->document, "frames"), *nodes = bn_json_get(r->document, "nodes");
    struct column *c = r->columns;
    for (unsigned i = KIND; i <= LINE; i++)
        BN_TRY(read_column(&c[i], frames, "frames", NAMES[i],
                           i == KIND   ? r->n_kinds
                           : i == LINE ? UINT32_MAX
                                       : r->n_texts,
                           i > KIND ? &c[KIND] : NULL, err));
    BN_TRY(read_column(&c[DEPTH], nodes, "nodes", NAMES[DEPTH], BN_STACKS_MAX_DEPTH + 1, NULL, err));
    BN_TRY(read_column(&c[FRAME], nodes, "nodes", NAMES[FRAME], c[KIND].n, &c[DEPTH], err));
    BN_TRY(BN_NEW(r->frames, c[KIND].n, err));
    for (size_t i = 0; i < c[KIND].n; i++) {
        struct bn_frame frame = {r->texts[c[NAME].list[i]], r->texts[c[MODULE].list[i]],
                                 r->texts[c[FILE_].list[i]], (uint32_t)c[LINE].list[i],
                                 r->kinds[c[KIND].list[i]]};
        BN_TRY(bn_stacks_intern(r->stacks, &r->frames[i], &frame, SIZE_MAX, err));
    }
    return BN_OK;
}

static bn_status read_nodes(struct reading *r, bn_error *err)
{
    const struct column *depth = &r->columns[DEPTH], *frame = &r->columns[FRAME];
    uint32_t path[BN_STACKS_MAX_DEPTH + 1] = {BN_STACKS_ROOT}; /* the node at each depth */
    BN_TRY(BN_NEW(r->nodes, depth->n + 1, err));
    r->nodes[0] = BN_STACKS_ROOT;
    for (size_t i = 0; i < depth->n; i++) {
        uint64_t d = depth->list[i];
        if (d == 0 || d > (i > 0 ? depth->list[i - 1] : 0) + 1)
            return malformed(err, "nodes", "a depth without a parent");
        path[d] = path[d - 1];
        BN_TRY(bn_stacks_push_frame(r->stacks, &path[d], r->frames[frame->list[i]], err));
        r->nodes[i + 1] = path[d];
    }
    return BN_OK;
}

static bn_status read_run(const struct reading *r, size_t run, const bn_json *value, struct column *node,
                          struct column *samples, bn_error *err)
{
    const bn_json *weights = bn_json_get(value, "self"), *weight = bn_json_first(weights);
    struct bn_tally tally = {0};
    bool sampled = bn_json_get(value, "samples") != NULL;
    BN_TRY(read_column(node, value, "runs", "node", r->columns[DEPTH].n + 1, NULL, err));
    if (sampled) BN_TRY(read_column(samples, value, "runs", "samples", UINT64_MAX, node, err));
    if (bn_json_size(weights) != node->n)
        return malformed(err, "runs", "'self' is not a list as long as 'node'");
    for (size_t i = 0; i < node->n; i++, weight = bn_json_next(weight)) {
        double self;
        if (!bn_json_number(weight, &self) || !(self >= 0))
            return malformed(err, "runs", "an invalid weight");
        BN_TRY(bn_formats_add(r->stacks, &tally, r->nodes[node->list[i]], run, self,
                              sampled ? samples->list[i] : 0, err));
    }
    return BN_OK;
}

static bn_status read_runs(const struct reading *r, bn_error *err)
{
    const bn_json *runs = bn_json_get(r->document, "runs"), *run = bn_json_first(runs);
    bn_status status = run != NULL ? BN_OK : malformed(err, "runs", "not a list of runs");
    for (size_t n = 0; run != NULL && status == BN_OK; run = bn_json_next(run), n++) {
        struct column node = {0}, samples = {0};
        if (n > 0) status = bn_stacks_add_run(r->stacks, err);
        if (status == BN_OK) status = read_run(r, n, run, &node, &samples, err);
        bn_free(node.list);
        bn_free(samples.list);
    }
    return status;
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

static bn_status read_stacks(bn_stacks **out, const bn_json *document, bn_error *err)
{
    char unit[16], what[16];
    struct reading r = {.document = document};
    *out = NULL;
    BN_TRY(read_word(unit, document, "unit", false, err));
    BN_TRY(read_word(what, document, "what", true, err));
    BN_TRY(bn_stacks_open(out, unit, what, err));
    r.stacks = *out;
    for (const bn_json *m = bn_json_first(bn_json_get(document, "about")); m != NULL; m = bn_json_next(m))
        if (bn_json_name(m) != NULL) bn_json_put_copy(r.stacks->about, bn_json_name(m), m);
    bn_status status = read_texts(&r, err);
    if (status == BN_OK) status = read_frames(&r, err);
    if (status == BN_OK) status = read_nodes(&r, err);
    if (status == BN_OK) status = read_runs(&r, err);
    if (status == BN_OK && !bn_json_is_complete(r.stacks->about)) status = bn_nomem(err);
    bn_free(r.texts);
    bn_free(r.kinds);
    for (unsigned i = 0; i < COLUMNS; i++)
        bn_free(r.columns[i].list);
    bn_free(r.frames);
    bn_free(r.nodes);
    return bn_stacks_keep(out, status);
}

bn_status bn_formats_read_document(bn_stacks **out, const bn_json *document, bn_error *err)
{
    const bn_json *measured = bn_json_get(document, "measured");
    BN_TRY(read_stacks(out, document, err));
    if (measured == NULL || bn_json_kind(measured) == BN_JSON_NULL) return BN_OK;
    bn_status status = read_stacks(&(*out)->measured, measured, err);
    if (status == BN_OK && (*out)->measured->n_runs != (*out)->n_runs)
        status = malformed(err, "measured", "the number of runs differs from that of the samples");
    return bn_stacks_keep(out, status);
}
