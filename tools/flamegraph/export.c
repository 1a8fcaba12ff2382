/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph export: stacks in a format that other programs show.
 */
#include "base/error.h"
#include "tools/flamegraph/flamegraph.h"

const struct bn_option bn_flamegraph_export_options[] = {
    {.name = "format",
     .letter = 'f',
     .arg = "json|folded|speedscope|firefox|pprof|chrome|callgrind",
     .preset = "speedscope",
     .help = "what to write"},
    {0},
};

static bool has_view(const struct bn_args *args)
{
    for (const struct bn_option *o = bn_flamegraph_view_options; o->name != NULL; o++)
        if (bn_opt_given(args, o->name)) return true;
    return false;
}

bn_status bn_flamegraph_export(struct bn_args *args, bn_error *err)
{
    static const char *const STANDARD_INPUT[] = {"-"};
    enum bn_stacks_format format = (enum bn_stacks_format)bn_opt_choice(args, "format");
    struct bn_buf out = {.max = BN_FLAMEGRAPH_MAX_BYTES};
    bn_stacks *stacks = NULL;
    bool given = args->n_operands > 0;
    if (format == BN_STACKS_DOCUMENT && !has_view(args))
        BN_TRY(bn_flamegraph_read(&stacks, given ? args->operands : STANDARD_INPUT,
                                  given ? args->n_operands : 1, err));
    else
        BN_TRY(bn_flamegraph_open(&stacks, args, err));
    bn_status status = bn_stacks_write(stacks, format, &out, err);
    if (status == BN_OK) status = bn_flamegraph_write(args, &out, err);
    bn_buf_release(&out);
    bn_stacks_close(stacks);
    return status;
}
