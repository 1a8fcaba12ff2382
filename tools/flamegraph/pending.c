/* SPDX-License-Identifier: MIT
 *
 * Stand-ins for what is being written beside this; to be deleted when that is there. Frames are files and
 * offsets, and the only formats are the folded one and the table.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "flame/hotspots.h"
#include "flame/svg.h"
#include "tools/cli/provenance.h"
#include "tools/flamegraph/flamegraph.h"

struct bn_symbols {
    int none;
};
bn_status bn_symbols_open(bn_symbols **out, const bn_recording *recording,
                          const struct bn_symbols_options *options, bn_error *err)
{
    (void)recording, (void)options;
    *out = bn_alloc(1, sizeof **out);
    return *out != NULL ? BN_OK : bn_fail(err, BN_ERR_NOMEM, "out of memory");
}
void bn_symbols_close(bn_symbols *symbols)
{
    bn_free(symbols);
}
struct bn_symbols_counts bn_symbols_counts(const bn_symbols *symbols)
{
    (void)symbols;
    return (struct bn_symbols_counts){0};
}
bn_status bn_symbols_unwind(bn_symbols *symbols, bn_recording *recording, bn_error *err)
{
    (void)symbols, (void)recording;
    return bn_fail(err, BN_ERR_UNSUPPORTED, "not there yet");
}
bn_status bn_resolve(bn_stacks *stacks, const bn_recording *r, bn_symbols *symbols,
                     const struct bn_resolve_options *options, struct bn_stack_quality *quality,
                     bn_error *err)
{
    (void)symbols;
    for (size_t i = 0; i < r->n_samples; i++) {
        const struct bn_sample *s = &r->samples[i];
        uint32_t node = BN_STACKS_ROOT;
        for (size_t k = s->n_chain; k-- > 0;) {
            uint64_t at = r->addresses[s->chain + k];
            const struct bn_mapping *m = bn_recording_mapping(r, s->pid, at, s->time_ns);
            const char *base = m == NULL ? "?" : strrchr(m->path, '/') ? strrchr(m->path, '/') + 1 : m->path;
            char name[300];
            if (m != NULL) at = at - m->start + m->file_offset;
            snprintf(name, sizeof name, "%.200s+%llx", base, (unsigned long long)at);
            BN_TRY(bn_stacks_push_name(stacks, &node, k < s->n_system ? BN_FRAME_SYSTEM : BN_FRAME_CODE, name,
                                       err));
        }
        bn_stacks_add(stacks, node, options->first_run, (double)s->weight, 1);
        quality->samples++;
    }
    return BN_OK;
}
void bn_stack_quality_put(bn_json *document, const struct bn_stack_quality *quality,
                          const struct bn_symbols_counts *symbols)
{
    (void)symbols;
    bn_json_put_u64(bn_json_put_object(document, "quality"), "samples", quality->samples);
}
bn_status bn_stacks_write(const bn_stacks *stacks, enum bn_stacks_format format, struct bn_buf *out,
                          bn_error *err)
{
    if (format == BN_STACKS_DOCUMENT) return bn_json_write(stacks->about, false, out, err);
    bn_buf_printf(out, "%zu nodes\n", stacks->n_nodes);
    return BN_OK;
}
bn_status bn_svg(struct bn_buf *out, const bn_stacks *stacks, const struct bn_svg_options *options,
                 bn_error *err)
{
    (void)out, (void)stacks, (void)options;
    return bn_fail(err, BN_ERR_UNSUPPORTED, "not there yet");
}
bn_status bn_hotspots(struct bn_hotspots *out, const bn_stacks *stacks, unsigned kinds, bn_error *err)
{
    (void)stacks, (void)kinds, (void)err;
    *out = (struct bn_hotspots){0};
    return BN_OK;
}
void bn_hotspots_release(struct bn_hotspots *hotspots)
{
    (void)hotspots;
}
void bn_cli_put_provenance(bn_json *document, const struct bn_machine *machine)
{
    (void)document, (void)machine;
}
const struct bn_option bn_flamegraph_workload_options[] = {{0}};
bn_status bn_flamegraph_read_workload(struct bn_flamegraph_workload *out, const struct bn_args *args,
                                      bn_error *err)
{
    (void)out, (void)args;
    return bn_fail(err, BN_ERR_UNSUPPORTED, "recording a model is not there yet: name a program");
}
bn_status bn_flamegraph_record_model(struct bn_flamegraph_recorded *out, const struct bn_args *args,
                                     const struct bn_flamegraph_workload *workload, bn_error *err)
{
    (void)out, (void)args, (void)workload;
    return bn_fail(err, BN_ERR_UNSUPPORTED, "not there yet");
}
