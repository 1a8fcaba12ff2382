/* SPDX-License-Identifier: MIT
 *
 * Chrome's trace events, for Perfetto and chrome://tracing: each run is a thread, each call path a complete
 * event ("X") as long as its weight, inside its caller's. The times of samples are not known, so siblings
 * follow each other in order, and the self time of a frame follows its callees. Times are in microseconds;
 * a weight in another unit takes one microsecond per unit.
 */
#include "base/error.h"
#include "lab/formats/formats.h"

static void put_event(struct bn_buf *out, size_t run, const char *name, const char *category, double begin,
                      double weight)
{
    bn_buf_printf(out, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%zu,\"cat\":\"%s\",\"ts\":", run + 1, category);
    bn_json_write_number(out, begin);
    bn_buf_puts(out, ",\"dur\":");
    bn_json_write_number(out, weight);
    bn_buf_puts(out, ",\"name\":");
    bn_json_write_string(out, name);
    bn_buf_putc(out, '}');
}

static void put_run(const bn_stacks *s, size_t run, double *totals, double *next, struct bn_buf *out)
{
    double scale = strcmp(s->unit, "ns") == 0 ? 1e3 : 1;
    bn_stacks_totals(s, run, totals);
    bn_buf_printf(
        out,
        "%s\n{\"ph\":\"M\",\"pid\":1,\"tid\":%zu,\"name\":\"thread_name\",\"args\":{\"name\":\"run %zu\"}}",
        run > 0 ? "," : "", run + 1, run + 1);
    put_event(out, run, "all", "all", 0, totals[BN_STACKS_ROOT] / scale);
    next[BN_STACKS_ROOT] = 0;
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        const struct bn_frame *f = bn_stacks_frame(s, i);
        double begin = next[s->nodes[i].parent];
        next[i] = begin;
        next[s->nodes[i].parent] += totals[i];
        if (totals[i] != 0)
            put_event(out, run, f->name, bn_frame_kind_name(f->kind), begin / scale, totals[i] / scale);
    }
}

bn_status bn_formats_write_chrome(const bn_stacks *s, struct bn_buf *out, bn_error *err)
{
    double *totals = bn_alloc(s->n_nodes, sizeof *totals), *next = bn_alloc(s->n_nodes, sizeof *next);
    bn_status status = totals == NULL || next == NULL ? bn_nomem(err) : BN_OK;
    if (status == BN_OK) {
        bn_buf_printf(out,
                      "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"unit\":\"%s\",\"what\":\"%s\"},"
                      "\"traceEvents\":[",
                      s->unit, s->what);
        for (size_t run = 0; run < s->n_runs; run++)
            put_run(s, run, totals, next, out);
        bn_buf_puts(out, "\n]}\n");
        status = bn_buf_check(out, err);
    }
    bn_free(totals);
    bn_free(next);
    return status;
}
