/* SPDX-License-Identifier: MIT
 *
 * Reads stacks, makes the view that the options select, and writes results.
 */
#include "tools/flamegraph/flamegraph.h"

#include <string.h>
#include <unistd.h>

const struct bn_option bn_flamegraph_view_options[] = {
    BN_RARE("tags", "tags to show: process, thread, phase, layer, brick, kernel, all or none [none]",
            .arg = "LIST", .group = "View", BN_TO_TEXT(struct bn_flamegraph_options, tags)),
    BN_RARE("root", "begin stacks at this function; leave out others", .arg = "NAME",
            BN_TO_TEXT(struct bn_flamegraph_options, root)),
    BN_OPTION("measured", "show the profiler's times instead of samples",
              BN_TO_BOOL(struct bn_flamegraph_options, measured)),
    BN_OPTION("callers", "invert: running functions first, then their callers",
              BN_TO_BOOL(struct bn_flamegraph_options, picture.callers)),
    BN_RARE("merge-inlined", "count inlined functions as part of their callers",
            BN_TO_BOOL(struct bn_flamegraph_options, merge_inlined)),
    {0},
};

const struct bn_option bn_flamegraph_output_option[] = {
    BN_OPTION("output", "write to FILE instead of standard output", .letter = 'o',
              BN_TO_TEXT(struct bn_flamegraph_options, output)),
    {0},
};

/* Text of perf may have several events, of which one is read. */
static bn_status read_one(bn_stacks **out, const char *path, bn_error *err)
{
    BN_TRY(bn_stacks_read(out, path, err));
    const char *event = bn_json_text_of((*out)->about, "event");
    const bn_json *left_out = bn_json_at(bn_json_get((*out)->about, "left_out"), 0);
    char escaped[120];
    if (left_out != NULL)
        bn_report_warning("%s: reading event %s; ignoring %zu samples of other events", path,
                          bn_escape(escaped, sizeof escaped, event, strlen(event)),
                          bn_json_count_of(left_out, "samples"));
    return BN_OK;
}

bn_status bn_flamegraph_read(bn_stacks **out, const char *const *paths, size_t n, bn_error *err)
{
    BN_TRY(read_one(out, paths[0], err));
    bn_status status = BN_OK;
    for (size_t i = 1; i < n && status == BN_OK; i++) {
        bn_stacks *more = NULL;
        status = read_one(&more, paths[i], err);
        if (status == BN_OK) status = bn_stacks_append(*out, more, err);
        bn_stacks_close(more);
    }
    return bn_stacks_keep(out, status);
}

/* The kinds that a list of words names. */
static bn_status read_tags(unsigned *keep, const char *list, bn_error *err)
{
    *keep = 0;
    for (const char *at = list; *at != '\0';) {
        size_t n = strcspn(at, ",");
        struct bn_str word = {at, n};
        unsigned bit = bn_str_equal(word, "all") ? BN_FRAME_TAGS : 0;
        for (unsigned kind = 0; BN_FRAME_IS_TAG(kind); kind++)
            if (bn_str_equal(word, bn_frame_kind_name((enum bn_frame_kind)kind))) bit = BN_FRAME_BIT(kind);
        if (bit == 0 && !bn_str_equal(word, "none"))
            return bn_fail(err, BN_ERR_ARG,
                           "--tags: '%.*s' is not process, thread, phase, layer, brick, kernel, all or none",
                           (int)n, at);
        *keep |= bit;
        at += n + (at[n] == ',');
    }
    return BN_OK;
}

/* The tags that are shown unless --tags selects: all of stacks of tags alone, threads in a picture of several. */
static unsigned usual_tags(const bn_stacks *stacks, bool picture)
{
    size_t n_functions = 0, n_threads = 0;
    for (size_t i = 0; i < stacks->n_frames; i++) {
        n_functions += !BN_FRAME_IS_TAG(stacks->frames[i].kind);
        n_threads += stacks->frames[i].kind == BN_FRAME_THREAD;
    }
    if (n_functions == 0) return BN_FRAME_TAGS;
    return picture && n_threads > 1 ? BN_FRAME_BIT(BN_FRAME_THREAD) : 0;
}

bn_status bn_flamegraph_view(bn_stacks **out, const bn_stacks *stacks, const struct bn_args *args,
                             bool picture, bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    const bn_json *about = stacks->about;
    if (o->measured && stacks->measured == NULL)
        return bn_fail(err, BN_ERR_NOT_FOUND, "the recording has no measured times");
    if (o->measured) stacks = stacks->measured;
    unsigned keep = usual_tags(stacks, picture);
    if (o->tags != NULL) BN_TRY(read_tags(&keep, o->tags, err));
    unsigned inlined = o->merge_inlined ? BN_FRAME_BIT(BN_FRAME_INLINED) : 0;
    struct bn_stacks_view view = {
        .drop = (BN_FRAME_TAGS & ~keep) | inlined, .root = o->root, .callers = o->picture.callers};
    BN_TRY(bn_stacks_copy(out, stacks, &view, err));
    if (o->measured) { /* they are of the same work */
        bn_json_put_copy((*out)->about, "workload", bn_json_get(about, "workload"));
        bn_json_put_copy((*out)->about, "model", bn_json_get(about, "model"));
        bn_json_put_copy((*out)->about, "created", bn_json_get(about, "created"));
        bn_json_put_copy((*out)->about, "machine", bn_json_get(about, "machine"));
    }
    if (view.root == NULL || (*out)->n_nodes > 1) return BN_OK;
    return bn_stacks_keep(out, bn_fail(err, BN_ERR_NOT_FOUND, "no stack has a frame '%s'", view.root));
}

bn_status bn_flamegraph_read_operands(bn_stacks **out, const struct bn_args *args, bn_error *err)
{
    static const char *const STANDARD_INPUT[] = {"-"};
    if (args->n_operands > 0) return bn_flamegraph_read(out, args->operands, args->n_operands, err);
    if (isatty(STDIN_FILENO) == 1) bn_report_note(0, "reading stacks from the terminal; end with Ctrl-D");
    return bn_flamegraph_read(out, STANDARD_INPUT, 1, err);
}

bn_status bn_flamegraph_open(bn_stacks **out, const struct bn_args *args, bool picture, bn_error *err)
{
    bn_stacks *stacks = NULL;
    BN_TRY(bn_flamegraph_read_operands(&stacks, args, err));
    bn_status status = bn_flamegraph_view(out, stacks, args, picture, err);
    bn_stacks_close(stacks);
    return status;
}

bn_status bn_flamegraph_check_name(const struct bn_args *args, enum bn_stacks_format written, bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    const char *path = o->output;
    enum bn_stacks_format named = path != NULL ? bn_stacks_format_by_name(path) : BN_STACKS_NO_FORMAT;
    if (named == BN_STACKS_NO_FORMAT || named == written) return BN_OK;
    if (named == BN_STACKS_TEXT && written == BN_STACKS_FOLDED) return BN_OK;
    if (named == BN_STACKS_DOCUMENT && (written == BN_STACKS_SPEEDSCOPE || written == BN_STACKS_CHROME))
        return BN_OK;
    bn_fail(err, BN_ERR_ARG, "--output: the name '%.100s' is for %s, but the output is %s", path,
            bn_stacks_format_name(named), bn_stacks_format_name(written));
    if (bn_args_given(args, &o->format))
        bn_error_hint(err, "omit --format, or use another file name");
    else if (named == BN_STACKS_SVG)
        bn_error_hint(err, "use bn-flamegraph render");
    else if (named == BN_STACKS_TEXT)
        bn_error_hint(err, "use bn-flamegraph text");
    else
        bn_error_hint(err, "use bn-flamegraph export --format %s", bn_stacks_format_name(named));
    return BN_ERR_ARG;
}

bn_status bn_flamegraph_check_callers(const struct bn_args *args, enum bn_stacks_format written,
                                      bn_error *err)
{
    if (!((const struct bn_flamegraph_options *)args->fields)->picture.callers ||
        (written != BN_STACKS_TEXT && written != BN_STACKS_PPROF))
        return BN_OK;
    return bn_hint(bn_fail(err, BN_ERR_ARG, "--callers: not possible with %s, which lists self times",
                           written == BN_STACKS_TEXT ? "the table" : bn_stacks_format_name(written)),
                   err, "use render, fold or text --tree");
}
