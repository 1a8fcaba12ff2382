/* SPDX-License-Identifier: MIT
 *
 * A comparison of stacks as a document of the schema bn.stacks-diff/1 (docs/reference/stacks-diff.md).
 * Shares are fractions of 1; a value that was not tested is null.
 */
#include <math.h>

#include "base/error.h"
#include "tools/flamegraph/diff_report.h"

static void put_value(bn_json *parent, const char *name, const struct bn_diff_value *v, double level,
                      size_t n_judged)
{
    bn_json *o = bn_json_put_object(parent, name);
    bn_json_put_number(o, "before", v->before);
    bn_json_put_number(o, "after", v->after);
    bn_json_put_number(o, "difference", v->after - v->before);
    if (isnan(v->p)) {
        bn_json_put_unavailable(o, "p", "not judged: too few samples or runs, or a share under min_share");
        return;
    }
    bn_json *interval = bn_json_put_array(o, "interval");
    bn_json_add_number(interval, v->low);
    bn_json_add_number(interval, v->high);
    bn_json_put_number(o, "p", v->p);
    bn_json_put_number(o, "q", v->q);
    bn_json_put_bool(o, "significant", v->significant);
    bn_json_put_number(o, "detectable", bn_stacks_diff_detectable(v, level, n_judged));
}

static void put_entry(bn_json *parent, const char *name, const struct bn_stacks_diff *d,
                      const struct bn_diff_entry *e, size_t n_judged)
{
    bn_json *o = bn_json_put_object(parent, name);
    bn_json_put_u64(o, "before_samples", e->before_samples);
    bn_json_put_u64(o, "after_samples", e->after_samples);
    put_value(o, "share", &e->share, d->level, n_judged);
    if (d->same_work) put_value(o, "weight", &e->weight, d->level, n_judged);
    if (d->same_work) return;
    bn_json *weight = bn_json_put_object(o, "weight");
    bn_json_put_number(weight, "before", e->before);
    bn_json_put_number(weight, "after", e->after);
}

static void put_frame(bn_json *o, const struct bn_frame *frame)
{
    bn_json_put_string(o, "name", frame->name);
    bn_json_put_string(o, "kind", bn_frame_kind_name(frame->kind));
}

static const char *state_of(const struct bn_diff_entry *total)
{
    return total->before > 0 ? total->after > 0 ? "both" : "gone" : "new";
}

static void put_functions(bn_json *doc, const struct bn_diff_report *r)
{
    const struct bn_stacks_diff *d = r->diff;
    bn_json *list = bn_json_put_array(doc, "functions");
    for (size_t i = 0; i < r->n_functions; i++) {
        uint32_t frame = r->functions[i];
        bn_json *o = bn_json_add_object(list);
        put_frame(o, &d->tree->frames[frame]);
        bn_json_put_string(o, "state", state_of(&d->functions_total[frame]));
        put_entry(o, "self", d, &d->functions_self[frame], d->n_judged_functions);
        put_entry(o, "total", d, &d->functions_total[frame], d->n_judged_functions);
    }
}

static bool changed(const struct bn_stacks_diff *d, const struct bn_diff_entry *e)
{
    return d->same_work ? e->weight.significant : e->share.significant;
}

/* Those that changed: all paths are in the folded form. */
static void put_paths(bn_json *doc, const struct bn_stacks_diff *d)
{
    const bn_stacks *tree = d->tree;
    bn_json *list = bn_json_put_array(doc, "changed_paths");
    for (uint32_t i = 1; i < tree->n_nodes; i++) {
        const struct bn_frame *path[BN_STACKS_MAX_DEPTH];
        uint32_t depth = tree->nodes[i].depth, node = i;
        if (!changed(d, &d->self[i]) && !changed(d, &d->total[i])) continue;
        for (uint32_t k = depth; k-- > 0; node = tree->nodes[node].parent)
            path[k] = bn_stacks_frame(tree, node);
        bn_json *o = bn_json_add_object(list), *names = bn_json_put_array(o, "path");
        for (uint32_t k = 0; k < depth; k++)
            bn_json_add_string(names, path[k]->name);
        bn_json_put_string(o, "state", state_of(&d->total[i]));
        put_entry(o, "self", d, &d->self[i], d->n_judged);
        put_entry(o, "total", d, &d->total[i], d->n_judged);
    }
}

static void put_gate(bn_json *doc, const struct bn_diff_report *r)
{
    struct bn_buf verdict = {.max = 2 * BN_STACKS_MAX_NAME};
    bn_diff_report_verdict(&verdict, r);
    bn_json_put_u64(doc, "more", r->n_more);
    bn_json_put_u64(doc, "less", r->n_less);
    bn_json_put_string(doc, "verdict", verdict.data);
    bn_buf_release(&verdict);
    if (!r->gate) return;
    bn_json *gate = bn_json_put_object(doc, "gate");
    bn_json_put_number(gate, "fail_above", r->fail_above);
    bn_json_put_bool(gate, "failed", r->gate_failed);
}

bn_status bn_diff_report_json(struct bn_buf *out, const struct bn_diff_report *r, bn_error *err)
{
    const struct bn_stacks_diff *d = r->diff;
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", BN_STACKS_DIFF_SCHEMA);
    bn_json_put_string(doc, "unit", d->tree->unit);
    bn_json_put_string(doc, "what", d->tree->what);
    bn_json_put_u64(doc, "runs_before", d->n_before);
    bn_json_put_u64(doc, "runs_after", d->n_after);
    bn_json_put_string(doc, "method", d->method);
    bn_json_put_number(doc, "level", d->level);
    bn_json_put_bool(doc, "same_work", d->same_work);
    bn_json_put_copy(doc, "differ_in", r->differ); /* machine, model, prompt, ... */
    bn_json_put_string(doc, "weights_of", r->generations ? "generation" : "run");
    bn_json_put_string(doc, "by", r->by_total ? "total" : "self");
    bn_json_put_number(doc, "min_share", r->min);
    bn_json_put_u64(doc, "judged_functions", d->n_judged_functions);
    bn_json_put_u64(doc, "judged_paths", d->n_judged);
    put_value(doc, "whole", &d->whole, d->level, 1);
    put_functions(doc, r);
    put_paths(doc, d);
    put_gate(doc, r);
    bn_status status = bn_json_write(doc, false, out, err);
    if (status == BN_OK && (out->len == 0 || out->data[out->len - 1] != '\n')) bn_buf_putc(out, '\n');
    bn_json_free(doc);
    return status;
}
