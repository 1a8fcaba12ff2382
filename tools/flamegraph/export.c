/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph export and fold: write stacks in the formats of other programs.
 */
#include <string.h>

#include "base/error.h"
#include "tools/flamegraph/flamegraph.h"

const struct bn_option bn_flamegraph_export_options[] = {
    BN_OPTION("format", "output format [from FILE's name, or speedscope]", .letter = 'f',
              .arg = "json|folded|speedscope|pprof|chrome",
              BN_TO_CHOICE(struct bn_flamegraph_options, format)),
    {0},
};

static bool has_view(const struct bn_flamegraph_options *o)
{
    return o->tags != NULL || o->root != NULL || o->measured || o->picture.callers || o->merge_inlined;
}

static bn_status choose(enum bn_stacks_format *out, const struct bn_args *args, bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    const char *path = o->output;
    *out = BN_STACKS_SPEEDSCOPE;
    if (bn_args_given(args, &o->format)) {
        *out = o->format;
    } else if (path != NULL && strcmp(path, "-") != 0) {
        enum bn_stacks_format named = bn_stacks_format_by_name(path);
        if (named < BN_STACKS_FORMATS) *out = named;
        if (named == BN_STACKS_NO_FORMAT) {
            bn_fail(err, BN_ERR_ARG, "--output: unknown format '%.100s'", path);
            bn_error_hint(err, "use --format");
            return BN_ERR_ARG;
        }
    }
    BN_TRY(bn_flamegraph_check_name(args, *out, err));
    return bn_flamegraph_check_callers(args, *out, err);
}

static bn_status write_and_close(const char *path, bn_stacks *stacks, enum bn_stacks_format format,
                                 bn_error *err)
{
    struct bn_buf out = {.max = BN_FLAMEGRAPH_MAX_BYTES};
    bn_status status = bn_stacks_write(stacks, format, &out, err);
    if (status == BN_OK) status = bn_flamegraph_write(path, &out, err);
    bn_buf_release(&out);
    bn_stacks_close(stacks);
    return status;
}

bn_status bn_flamegraph_fold(struct bn_args *args, bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    bn_stacks *stacks = NULL;
    BN_TRY(bn_flamegraph_check_name(args, BN_STACKS_FOLDED, err));
    BN_TRY(bn_flamegraph_open(&stacks, args, false, err));
    return write_and_close(o->output, stacks, BN_STACKS_FOLDED, err);
}

bn_status bn_flamegraph_export(struct bn_args *args, bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    enum bn_stacks_format format;
    bn_stacks *stacks = NULL;
    BN_TRY(choose(&format, args, err));
    if (format == BN_STACKS_DOCUMENT && !has_view(o))
        BN_TRY(bn_flamegraph_read_operands(&stacks, args, err));
    else
        BN_TRY(bn_flamegraph_open(&stacks, args, false, err));
    return write_and_close(o->output, stacks, format, err);
}
