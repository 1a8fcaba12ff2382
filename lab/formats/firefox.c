/* SPDX-License-Identifier: MIT
 *
 * A processed profile for https://profiler.firefox.com, version 61 (newer readers upgrade it): tables as
 * columns, which all threads share, and one thread whose samples are the call paths with their weights. The
 * times of samples are not known, so they are placed one after the other.
 */
#include <math.h>

#include "base/error.h"
#include "lab/formats/formats.h"

#define VERSION 61

struct writing {
    struct bn_buf *out;
    const bn_stacks *s;
    struct bn_formats_texts texts, modules, files;
};

/* A column of a table: the value, an expression of row, for each of n rows; NaN is null. */
#define COLUMN(name, n, value)                            \
    do {                                                  \
        bn_buf_puts(w->out, "\"" name "\":[");            \
        for (size_t row = 0; row < (n); row++)            \
            bn_formats_number(w->out, (value), row == 0); \
        bn_buf_puts(w->out, "],");                        \
    } while (0)

static void column_of(const struct writing *w, const char *name, size_t n, const char *literal)
{
    bn_buf_printf(w->out, "\"%s\":[", name);
    for (size_t i = 0; i < n; i++) {
        if (i > 0) bn_buf_putc(w->out, ',');
        bn_buf_puts(w->out, literal);
    }
    bn_buf_puts(w->out, "],");
}

static double or_null(bool known, double value)
{
    return known ? value : (double)NAN;
}

/* ---- categories ---- */

static const char CATEGORIES[] = "[{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"
                                 "{\"name\":\"User\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]},"
                                 "{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]},"
                                 "{\"name\":\"Tag\",\"color\":\"blue\",\"subcategories\":[\"Other\"]}]";

static unsigned category(enum bn_frame_kind kind)
{
    if (BN_FRAME_IS_TAG(kind)) return 3;
    return kind == BN_FRAME_SYSTEM ? 2 : kind == BN_FRAME_UNKNOWN ? 0 : 1;
}

static void end_table(const struct writing *w, size_t n)
{
    bn_buf_printf(w->out, "\"length\":%zu}", n);
}

/* ---- tables ---- */

static void write_libs(const struct writing *w)
{
    bn_buf_puts(w->out, "\"libs\":[");
    for (size_t i = 1; i < w->modules.n; i++) {
        static const char *const MEMBERS[] = {"name", "path", "debugName", "debugPath"};
        bn_buf_puts(w->out, i > 1 ? ",{" : "{");
        for (size_t k = 0; k < BN_ARRAY_LEN(MEMBERS); k++) {
            bn_buf_printf(w->out, "\"%s\":", MEMBERS[k]);
            bn_json_write_string(w->out, w->modules.list[i]);
            bn_buf_putc(w->out, ',');
        }
        bn_buf_puts(w->out, "\"arch\":\"\",\"breakpadId\":\"\",\"codeId\":null}");
    }
    bn_buf_puts(w->out, "],\n");
}

static void write_strings(const struct writing *w)
{
    bn_buf_puts(w->out, "\"stringArray\":[");
    for (size_t i = 0; i < w->texts.n; i++) {
        if (i > 0) bn_buf_putc(w->out, ',');
        bn_json_write_string(w->out, w->texts.list[i]);
    }
    bn_buf_puts(w->out, "],\n");
}

static void write_functions(const struct writing *w)
{
    const struct bn_frame *frames = w->s->frames;
    size_t n = w->s->n_frames, n_files = w->files.n - 1, n_modules = w->modules.n - 1;
    bn_buf_puts(w->out, "\"frameTable\":{");
    column_of(w, "address", n, "-1");
    column_of(w, "inlineDepth", n, "0");
    COLUMN("category", n, category(frames[row].kind));
    column_of(w, "subcategory", n, "0");
    COLUMN("func", n, (double)row);
    column_of(w, "nativeSymbol", n, "null");
    column_of(w, "innerWindowID", n, "null");
    COLUMN("line", n, or_null(frames[row].line != 0, frames[row].line));
    column_of(w, "column", n, "null");
    end_table(w, n);
    bn_buf_puts(w->out, ",\n\"funcTable\":{");
    COLUMN("name", n, bn_formats_text(&w->texts, frames[row].name));
    column_of(w, "isJS", n, "false");
    column_of(w, "relevantForJS", n, "false");
    COLUMN("resource", n, (double)bn_formats_text(&w->modules, frames[row].module) - 1);
    COLUMN("source", n,
           or_null(frames[row].file[0] != '\0', (double)bn_formats_text(&w->files, frames[row].file) - 1));
    COLUMN("lineNumber", n, or_null(frames[row].line != 0, frames[row].line));
    column_of(w, "columnNumber", n, "null");
    end_table(w, n);
    bn_buf_puts(w->out, ",\n\"resourceTable\":{");
    COLUMN("lib", n_modules, (double)row);
    COLUMN("name", n_modules, bn_formats_text(&w->texts, w->modules.list[row + 1]));
    column_of(w, "host", n_modules, "null");
    column_of(w, "type", n_modules, "1");
    end_table(w, n_modules);
    bn_buf_puts(w->out,
                ",\n\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[],"
                "\"length\":0},\n\"sources\":{");
    column_of(w, "id", n_files, "null");
    COLUMN("filename", n_files, bn_formats_text(&w->texts, w->files.list[row + 1]));
    column_of(w, "startLine", n_files, "1");
    column_of(w, "startColumn", n_files, "1");
    column_of(w, "sourceMapURL", n_files, "null");
    end_table(w, n_files);
}

/* Nanoseconds as milliseconds; others as they are, and a weight of one takes a millisecond of the time line.
 */
static void write_samples(const struct writing *w)
{
    bool ns = strcmp(w->s->unit, "ns") == 0, bytes = strcmp(w->s->unit, "bytes") == 0;
    double scale = ns ? 1e6 : 1, now = 0;
    for (unsigned which = 0; which < 3; which++) {
        static const char *const NAMES[] = {"stack", "time", "weight"};
        bool first = true;
        bn_buf_printf(w->out, "\"%s\":[", NAMES[which]);
        for (size_t i = 0; i < w->s->n_nodes; i++) {
            double self = w->s->runs[0].self[i];
            if (self == 0) continue;
            double value = which == 0   ? or_null(i > 0, (double)i - 1)
                           : which == 1 ? now / scale
                                        : self / scale;
            bn_formats_number(w->out, value, first);
            if (which == 1) now += self;
            first = false;
        }
        bn_buf_puts(w->out, "],");
    }
    size_t n = 0;
    for (size_t i = 0; i < w->s->n_nodes; i++)
        n += w->s->runs[0].self[i] != 0;
    bn_buf_printf(w->out, "\"weightType\":\"%s\",", ns ? "tracing-ms" : bytes ? "bytes" : "samples");
    end_table(w, n);
}

static void write_thread(const struct writing *w)
{
    bn_buf_puts(w->out,
                "\"threads\":[{\"processType\":\"default\",\"processStartupTime\":0,"
                "\"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,"
                "\"pausedRanges\":[],\"name\":\"all stacks\",\"isMainThread\":true,\"pid\":\"0\",\"tid\":0,\n"
                "\"samples\":{");
    write_samples(w);
    bn_buf_puts(w->out,
                ",\n\"markers\":{\"data\":[],\"name\":[],\"startTime\":[],\"endTime\":[],\"phase\":[],"
                "\"category\":[],\"length\":0}}]}\n");
}

static void write_all(const struct writing *w)
{
    const struct bn_stacks_node *nodes = w->s->nodes + 1; /* without the root */
    size_t n = w->s->n_nodes - 1;
    bn_buf_printf(
        w->out,
        "{\"meta\":{\"interval\":1,\"startTime\":0,\"processType\":0,\"product\":\"bn-flamegraph\","
        "\"stackwalk\":1,\"debug\":false,\"version\":31,\"preprocessedProfileVersion\":%d,"
        "\"symbolicated\":true,\"markerSchema\":[],\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\","
        "\"threadCPUDelta\":\"ns\"},\"importedFrom\":\"bn-flamegraph, in %s\",\"categories\":%s},\n",
        VERSION, w->s->unit, CATEGORIES);
    write_libs(w);
    bn_buf_puts(w->out, "\"shared\":{");
    write_strings(w);
    bn_buf_puts(w->out, "\"stackTable\":{");
    COLUMN("frame", n, nodes[row].frame);
    COLUMN("prefix", n, or_null(nodes[row].parent != BN_STACKS_ROOT, (double)nodes[row].parent - 1));
    end_table(w, n);
    bn_buf_puts(w->out, ",\n");
    write_functions(w);
    bn_buf_puts(w->out, "},\n");
    write_thread(w);
}

bn_status bn_formats_write_firefox(const bn_stacks *s, struct bn_buf *out, bn_error *err)
{
    struct writing w = {.out = out, .s = s};
    bn_status status =
        bn_formats_texts(&w.texts, s, BN_FORMATS_NAMES | BN_FORMATS_MODULES | BN_FORMATS_FILES, err);
    if (status == BN_OK) status = bn_formats_texts(&w.modules, s, BN_FORMATS_MODULES, err);
    if (status == BN_OK) status = bn_formats_texts(&w.files, s, BN_FORMATS_FILES, err);
    if (status == BN_OK) write_all(&w);
    bn_free(w.texts.list);
    bn_free(w.modules.list);
    bn_free(w.files.list);
    return status == BN_OK ? bn_buf_check(out, err) : status;
}
