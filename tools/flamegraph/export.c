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

static bn_status write_as(enum bn_stacks_format format, const struct bn_args *args, bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    bool view = o->tags != NULL || o->root != NULL || o->measured || o->picture.callers || o->merge_inlined;
    struct bn_buf out = {.max = BN_FLAMEGRAPH_MAX_BYTES};
    bn_stacks *stacks = NULL;
    BN_TRY(bn_flamegraph_check_name(args, format, err));
    BN_TRY(bn_flamegraph_check_callers(args, format, err));
    if (format == BN_STACKS_DOCUMENT && !view)
        BN_TRY(bn_flamegraph_read_operands(&stacks, args, err));
    else
        BN_TRY(bn_flamegraph_open(&stacks, args, false, err));
    bn_status status = bn_stacks_write(stacks, format, &out, err);
    if (status == BN_OK) status = bn_flamegraph_write(o->output, &out, err);
    bn_buf_release(&out);
    bn_stacks_close(stacks);
    return status;
}

bn_status bn_flamegraph_fold(struct bn_args *args, bn_error *err)
{
    return write_as(BN_STACKS_FOLDED, args, err);
}

bn_status bn_flamegraph_export(struct bn_args *args, bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    enum bn_stacks_format format = BN_STACKS_SPEEDSCOPE;
    if (bn_args_given(args, &o->format)) {
        format = o->format;
    } else if (o->output != NULL && strcmp(o->output, "-") != 0) {
        enum bn_stacks_format named = bn_stacks_format_by_name(o->output);
        if (named < BN_STACKS_FORMATS) format = named;
        if (named == BN_STACKS_NO_FORMAT) {
            bn_fail(err, BN_ERR_ARG, "--output: unknown format '%.100s'", o->output);
            bn_error_hint(err, "use --format");
            return BN_ERR_ARG;
        }
    }
    return write_as(format, args, err);
}
