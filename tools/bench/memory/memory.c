/* SPDX-License-Identifier: MIT
 *
 * bn-bench memory: the command. Ranges that others expected are named as targets beside what is measured;
 * they are no measurements, and nothing depends on them.
 */
#include "tools/bench/memory/memory.h"

#include "base/error.h"

const struct bn_option bn_bench_memory_options[] = {
    BN_OPTION_MODEL,
    {.name = "ops",
     .arg = "N",
     .group = "Measurement",
     .preset = "10000",
     .help = "operations of one pass over a pattern of allocations"},
    {0},
};

static void put_targets(bn_json *doc)
{
    static const struct {
        const char *name;
        double low, high;
    } TARGETS[] = {{"ns_per_small_allocation", 20, 100}, {"ns_per_large_allocation", 100, 500}};
    bn_json *targets = bn_json_put_object(doc, "targets");
    bn_json_put_string(targets, "note", "expected by others, not measured");
    for (size_t i = 0; i < BN_ARRAY_LEN(TARGETS); i++) {
        bn_json *range = bn_json_put_array(targets, TARGETS[i].name);
        bn_json_add_number(range, TARGETS[i].low);
        bn_json_add_number(range, TARGETS[i].high);
    }
    bn_json *fragmentation = bn_json_put_array(targets, "fragmentation");
    bn_json_add_number(fragmentation, 0);
    bn_json_add_number(fragmentation, 0.05);
    bn_json_put_unavailable(doc, "garbage_collection", "not applicable: nothing here is collected");
    bn_json_put_unavailable(doc, "pool_efficiency",
                            "not applicable: there is no pool; a session's scratch is one block");
    bn_json_put_unavailable(doc, "gpu_memory", "no kernel of this program runs on a graphics processor");
}

static bn_status run(struct bn_suite *s, const struct bn_args *args, bn_error *err)
{
    uint32_t n_ops = 0;
    BN_TRY(bn_opt_u32(args, "ops", 100, 1000000, &n_ops, err));
    BN_TRY(bn_suite_open(s, args, "memory", err));
    bn_json_put_u64(s->settings, "ops", n_ops);
    put_targets(s->doc);
    BN_TRY(bn_memory_allocation(s, n_ops, err));
    BN_TRY(bn_memory_pages(s, err));
    BN_TRY(bn_memory_fragmentation(s, err));
    BN_TRY(bn_memory_bandwidth(s, err));
    BN_TRY(bn_memory_latency(s, err));
    return bn_memory_model(s, err);
}

bn_status bn_bench_memory(struct bn_args *args, bn_error *err)
{
    struct bn_suite *s = bn_alloc(1, sizeof *s);
    if (s == NULL) return bn_nomem(err);
    bn_status status = run(s, args, err);
    status = bn_suite_finish(s, args, status, err);
    bn_free(s);
    return status;
}
