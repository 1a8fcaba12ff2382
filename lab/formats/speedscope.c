/* SPDX-License-Identifier: MIT
 *
 * For speedscope (https://www.speedscope.app/file-format-schema.json): a list of frames, and a profile that is
 * "sampled", with a list of frames and a weight for each call path.
 */
#include "lab/formats/formats.h"

static void write_frame(struct bn_buf *out, const struct bn_frame *f)
{
    bn_buf_puts(out, "{\"name\":");
    bn_json_write_string(out, f->name);
    if (f->file[0] != '\0') {
        bn_buf_puts(out, ",\"file\":");
        bn_json_write_string(out, f->file);
    }
    if (f->line != 0) bn_buf_printf(out, ",\"line\":%u", f->line);
    bn_buf_putc(out, '}');
}

static void write_path(struct bn_buf *out, const bn_stacks *s, uint32_t node)
{
    uint32_t path[BN_STACKS_MAX_DEPTH];
    size_t depth = s->nodes[node].depth;
    for (size_t i = depth; i-- > 0; node = s->nodes[node].parent)
        path[i] = s->nodes[node].frame;
    bn_buf_putc(out, '[');
    for (size_t i = 0; i < depth; i++)
        bn_buf_printf(out, "%s%u", i > 0 ? "," : "", path[i]);
    bn_buf_putc(out, ']');
}

/* Of each call path that has a weight: its frames, or the weight. */
static void write_list(struct bn_buf *out, const bn_stacks *s, const char *name, bool weights)
{
    bool first = true;
    bn_buf_printf(out, ",\n\"%s\":[", name);
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        if (s->runs[0].self[i] == 0) continue;
        bn_buf_puts(out, first ? "" : ",");
        first = false;
        if (weights)
            bn_json_write_number(out, s->runs[0].self[i]);
        else
            write_path(out, s, i);
    }
    bn_buf_putc(out, ']');
}

bn_status bn_formats_write_speedscope(const bn_stacks *s, struct bn_buf *out, bn_error *err)
{
    bool ns = strcmp(s->unit, "ns") == 0, bytes = strcmp(s->unit, "bytes") == 0;
    double whole = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        whole += s->runs[0].self[i];
    bn_buf_puts(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
                     "\"exporter\":\"bn-flamegraph\",\"name\":\"bn-flamegraph\",\"activeProfileIndex\":0,"
                     "\"shared\":{\"frames\":[");
    for (size_t i = 0; i < s->n_frames; i++) {
        bn_buf_puts(out, i > 0 ? ",\n" : "\n");
        write_frame(out, &s->frames[i]);
    }
    bn_buf_printf(out,
                  "]},\n\"profiles\":[{\"type\":\"sampled\",\"name\":\"%s\",\"unit\":\"%s\",\"startValue\":0,"
                  "\"endValue\":",
                  s->what[0] != '\0' ? s->what : s->unit,
                  ns      ? "nanoseconds"
                  : bytes ? "bytes"
                          : "none");
    bn_json_write_number(out, whole);
    write_list(out, s, "samples", false);
    write_list(out, s, "weights", true);
    bn_buf_puts(out, "}]}\n");
    return bn_buf_check(out, err);
}
