/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph export: writes stacks in the formats of other programs.
 */
#include <string.h>

#include "base/error.h"
#include "tools/flamegraph/flamegraph.h"

const struct bn_option bn_flamegraph_export_options[] = {
    {.name = "format",
     .letter = 'f',
     .arg = "json|folded|speedscope|firefox|pprof|chrome|callgrind",
     .help = "output format [from FILE's name, or speedscope]"},
    {0},
};

static bool has_view(const struct bn_args *args)
{
    for (const struct bn_option *o = bn_flamegraph_view_options; o->name != NULL; o++)
        if (bn_opt_given(args, o->name)) return true;
    return false;
}

static bn_status choose(enum bn_stacks_format *out, const struct bn_args *args, bn_error *err)
{
    const char *path = bn_opt_str(args, "output");
    *out = BN_STACKS_SPEEDSCOPE;
    if (bn_opt_given(args, "format")) {
        *out = (enum bn_stacks_format)bn_opt_choice(args, "format");
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

bn_status bn_flamegraph_export(struct bn_args *args, bn_error *err)
{
    static const char *const STANDARD_INPUT[] = {"-"};
    enum bn_stacks_format format;
    struct bn_buf out = {.max = BN_FLAMEGRAPH_MAX_BYTES};
    bn_stacks *stacks = NULL;
    bool given = args->n_operands > 0;
    BN_TRY(choose(&format, args, err));
    if (format == BN_STACKS_DOCUMENT && !has_view(args))
        BN_TRY(bn_flamegraph_read(&stacks, given ? args->operands : STANDARD_INPUT,
                                  given ? args->n_operands : 1, err));
    else
        BN_TRY(bn_flamegraph_open(&stacks, args, false, err));
    bn_status status = bn_stacks_write(stacks, format, &out, err);
    if (status == BN_OK) status = bn_flamegraph_write(args, &out, err);
    bn_buf_release(&out);
    bn_stacks_close(stacks);
    return status;
}
