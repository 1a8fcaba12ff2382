/* SPDX-License-Identifier: MIT
 *
 * Writes the page of a recording: a table of facts from the document, then the outputs of other commands.
 */
#include "tools/flamegraph/page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "lab/report/units.h"
#include "lab/stacks/fingerprint.h"
#include "lab/stacks/hotspots.h"
#include "tools/flamegraph/archive.h"
#include "tools/flamegraph/diff_report.h"
#include "tools/flamegraph/flamegraph.h"

#define MIN_SHARE 0.001 /* of functions in the comparison */

/* ---- text ---- */

void bn_markdown_code(struct bn_buf *out, const char *text)
{
    size_t n = strlen(text), fence = 1, room = 4 * n + 1;
    char *safe = bn_alloc(room, 1);
    if (safe == NULL) {
        out->failed = true;
        return;
    }
    bn_escape(safe, room, text, n);
    for (size_t run = 0, i = 0; safe[i] != '\0'; i++) {
        run = safe[i] == '`' ? run + 1 : 0;
        if (run >= fence) fence = run + 1;
    }
    /* Readers remove one space at each end of a span. */
    bool spaced = n == 0 || strchr(" `", safe[0]) != NULL || strchr(" `", safe[strlen(safe) - 1]) != NULL;
    for (size_t i = 0; i < fence; i++)
        bn_buf_putc(out, '`');
    if (spaced) bn_buf_putc(out, ' ');
    for (const char *p = safe; *p != '\0'; p++) {
        if (*p == '|') bn_buf_putc(out, '\\');
        bn_buf_putc(out, *p);
    }
    if (spaced) bn_buf_putc(out, ' ');
    for (size_t i = 0; i < fence; i++)
        bn_buf_putc(out, '`');
    bn_free(safe);
}

/* Lines as an indented code block, which no line can end. */
static void put_block(struct bn_buf *out, const struct bn_buf *text)
{
    for (size_t at = 0; at < text->len;) {
        const char *line = text->data + at, *end = memchr(line, '\n', text->len - at);
        size_t n = end != NULL ? (size_t)(end - line) : text->len - at;
        if (n > 0) bn_buf_puts(out, "    ");
        bn_buf_append(out, line, n);
        bn_buf_putc(out, '\n');
        at += n + 1;
    }
    out->failed = out->failed || text->failed;
}

/* ---- facts ---- */

/* A row of the table, and where its value may be. */
struct fact {
    const char *label, *paths[3];
};

static const struct fact FACTS[] = {
    {"recorded", {"created"}},
    {"model", {"model.name", "workload.model.name"}},
    {"sha256 of the model", {"model.sha256", "workload.model.sha256"}},
    {"tokenizer", {"workload.tokenizer", "model.tokenizer"}},
    {"prompt", {"workload.prompt"}},
    {"tokens of the prompt", {"workload.prompt_tokens"}},
    {"tokens generated", {"workload.n_predict", "workload.tokens"}},
    {"sha256 of the token ids", {"workload.ids_sha256"}},
    {"repetitions of each run", {"workload.repetitions"}},
    {"seed", {"workload.seed"}},
    {"threads", {"workload.threads", "workload.n_threads"}},
    {"instruction set", {"workload.isa", "isa"}},
    {"profiler", {"workload.level"}},
    {"runs cut because the profiler was full", {"workload.runs_cut_by_events"}},
    {"tokens decoded one at a time", {"phases.tokens"}},
    {"such a token: embedding", {"phases.embed_ns"}},
    {"such a token: layers and last norm", {"phases.forward_ns"}},
    {"such a token: head", {"phases.head_ns"}},
    {"such a token: sampling", {"phases.sample_ns"}},
    {"one generation", {"phases.generation_ns"}},
    {"weights and cache read for the prompt", {"reads.prompt_bytes"}},
    {"weights and cache read for such a token", {"reads.token_bytes"}},
    {"read bandwidth, measured here", {"reads.limit_bytes_per_s"}},
    {"with a set of", {"reads.limit_set_bytes"}},
    {"version", {"program.version"}},
    {"built from commit", {"program.commit"}},
    {"with changes", {"program.dirty"}},
    {"compiler", {"program.compiler"}},
    {"flags", {"program.flags"}},
    {"sha256 of the program", {"program.binary_sha256"}},
    {"repository commit", {"git.commit"}},
    {"repository branch", {"git.branch"}},
    {"processor", {"machine.cpu_model"}},
    {"usable hardware threads", {"machine.cpus_usable"}},
    {"machine", {"machine.label"}},
    {"virtual machine", {"machine.hypervisor"}},
    {"architecture", {"machine.arch"}},
    {"L2 cache", {"machine.cache_l2_bytes"}},
    {"L3 cache", {"machine.cache_l3_bytes"}},
    {"memory", {"machine.memory_bytes"}},
    {"kernel", {"machine.kernel"}},
    {"frequency governor", {"machine.governor"}},
    {"load average", {"machine.load_milli"}},
    {"CPUs used by other processes", {"others.used_cpus", "others"}},
    {"sampler", {"sampler.tier"}},
    {"sampling period, requested", {"sampler.asked_period_ns"}},
    {"sampling period, delivered", {"sampler.delivered_period_ns"}},
    {"samples delivered", {"sampler.delivered_share"}},
    {"lost samples", {"sampler.lost"}},
    {"times throttled", {"sampler.throttled"}},
    {"kernel frames", {"sampler.system"}},
    {"stack copied with each sample", {"sampler.dump_bytes"}},
    {"processor time", {"sampler.cpu_ns"}},
    {"wall-clock time", {"sampler.wall_ns"}},
    {"samples", {"quality.samples"}},
    {"samples outside the runs (not counted)", {"quality.outside"}},
    {"complete stacks", {"quality.rooted_share"}},
    {"truncated stacks", {"quality.cut_share"}},
    {"stacks unwound by tables", {"quality.unwound_share"}},
    {"samples in unknown functions", {"quality.leaf_unknown_share"}},
    {"addresses without a name", {"quality.addresses_unknown_share"}},
    {"addresses in changed files", {"quality.addresses_other_builds_share"}},
};

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* A number in the unit that the end of its name says. */
static void put_number(struct bn_buf *out, const char *name, double value)
{
    if (ends_with(name, "_ns"))
        bn_units_value(out, value, "ns");
    else if (ends_with(name, "share"))
        bn_buf_printf(out, "%.2f %%", 100 * value);
    else if (ends_with(name, "_bytes"))
        bn_units_value(out, value, "bytes");
    else if (ends_with(name, "_per_s"))
        bn_units_value(out, value, "bytes/s");
    else if (ends_with(name, "_milli"))
        bn_json_write_number(out, value / 1e3);
    else
        bn_json_write_number(out, value);
}

static void put_value(struct bn_buf *out, const char *name, const bn_json *value)
{
    const char *text = "", *comma = "";
    double number = (double)NAN;
    bool truth = false;
    if (bn_json_string(value, &text)) {
        bn_markdown_code(out, text);
    } else if (bn_json_number(value, &number)) {
        put_number(out, name, number);
    } else if (bn_json_bool(value, &truth)) {
        bn_buf_puts(out, truth ? "yes" : "no");
    } else if (bn_json_kind(value) == BN_JSON_ARRAY) {
        if (bn_json_size(value) == 0) bn_buf_puts(out, "none");
        for (const bn_json *e = bn_json_first(value); e != NULL; e = bn_json_next(e), comma = ", ") {
            bn_buf_puts(out, comma);
            put_value(out, name, e);
        }
    } else {
        bn_buf_printf(out, "%zu values", bn_json_size(value));
    }
}

/* The reason that the document gives for a missing member: "a.b" is explained by "a.unavailable.b". */
static const char *why_missing(const bn_json *about, const char *const *paths)
{
    for (; *paths != NULL; paths++) {
        char path[96];
        const char *why = NULL, *dot = strrchr(*paths, '.');
        int parent = dot != NULL ? (int)(dot + 1 - *paths) : 0;
        snprintf(path, sizeof path, "%.*sunavailable", parent, *paths);
        if (bn_json_string(bn_json_get(bn_json_path(about, path), *paths + parent), &why)) return why;
    }
    return "the recording does not say";
}

/* What must be the same for two pictures to be of the same thing. */
static bn_status put_fingerprint(struct bn_buf *out, const bn_json *about, bn_error *err)
{
    struct bn_fingerprint fingerprint;
    BN_TRY(bn_fingerprint_of(&fingerprint, about, err));
    bn_buf_printf(out, "| fingerprint | `%.12s`:", fingerprint.whole);
    for (unsigned p = 0; p < BN_FINGERPRINT_PARTS; p++)
        bn_buf_printf(out, "%s %s `%.8s`", p > 0 ? "," : "", bn_fingerprint_part_name(p),
                      fingerprint.parts[p][0] != '\0' ? fingerprint.parts[p] : "unknown");
    bn_buf_puts(out, " |\n");
    return BN_OK;
}

static bn_status put_facts(struct bn_buf *out, const bn_json *about, bn_error *err)
{
    bn_buf_puts(out, "\n## What was recorded\n\n| | |\n|---|---|\n");
    BN_TRY(put_fingerprint(out, about, err));
    for (size_t i = 0; i < BN_ARRAY_LEN(FACTS); i++) {
        const bn_json *value = bn_about_member(about, FACTS[i].paths);
        bn_buf_printf(out, "| %s | ", FACTS[i].label);
        if (value != NULL) {
            put_value(out, bn_json_name(value), value);
        } else {
            bn_buf_puts(out, "not known: ");
            bn_markdown_code(out, why_missing(about, FACTS[i].paths));
        }
        bn_buf_puts(out, " |\n");
    }
    const bn_json *refused = bn_json_path(about, "sampler.refused");
    for (const bn_json *m = bn_json_first(refused); m != NULL; m = bn_json_next(m)) {
        bn_buf_puts(out, "| unavailable: ");
        bn_markdown_code(out, bn_json_name(m));
        bn_buf_puts(out, " | ");
        put_value(out, "", m);
        bn_buf_puts(out, " |\n");
    }
    return BN_OK;
}

/* ---- where the time goes ---- */

static bn_status put_functions(struct bn_buf *out, const bn_stacks *stacks, bn_error *err)
{
    const struct bn_stacks_view view = BN_HOTSPOTS_VIEW;
    double shares[BN_CLASSES];
    struct bn_buf table = {.max = BN_FLAMEGRAPH_MAX_BYTES};
    bn_stacks *functions = NULL;
    BN_TRY(bn_class_shares(shares, stacks, err));
    BN_TRY(bn_stacks_copy(&functions, stacks, &view, err));
    bn_buf_puts(out, "\n## Functions\n\n| class | share |\n|---|---:|\n");
    for (unsigned c = 0; c < BN_CLASSES; c++)
        if (shares[c] > 0)
            bn_buf_printf(out, "| %s | %.2f %% |\n", bn_class_name((enum bn_class)c), 100 * shares[c]);
    bn_buf_puts(out,
                "\nIn the table below, inlined functions count towards their callers (`bn-flamegraph text "
                "--merge-inlined`).\n\n");
    bn_status status = bn_flamegraph_put_table(&table, functions, err);
    put_block(out, &table);
    bn_buf_release(&table);
    bn_stacks_close(functions);
    return status;
}

static bn_status put_bricks(struct bn_buf *out, const bn_stacks *stacks, bn_error *err)
{
    struct bn_buf text = {.max = BN_FLAMEGRAPH_MAX_BYTES};
    bn_buf_puts(out, "\n## Bricks\n\n");
    if (stacks->measured == NULL) {
        bn_buf_puts(out, "The profiler did not run during this recording.\n");
        return BN_OK;
    }
    bn_buf_puts(out, "As the profiler measured them, and whether the samples agree (`bn-flamegraph "
                     "bricks`).\n\n");
    bn_status status = bn_flamegraph_put_bricks(&text, stacks, err);
    put_block(out, &text);
    bn_buf_release(&text);
    return status;
}

/* ---- comparisons ---- */

/* The median of a row "| name | 12.3 | ..." of the timing document, in us; NaN when it has none. */
static double timing_of(const char *text, const char *name)
{
    char start[40], *end;
    int n = snprintf(start, sizeof start, "\n| %s | ", name);
    const char *row = strstr(text, start);
    if (row == NULL) return (double)NAN;
    double value = strtod(row + n, &end);
    return end > row + n && value >= 0 && value < 1e12 ? value : (double)NAN;
}

/* Whether a line of the timing document has this text, made of a member of the recording. */
static bool says(const char *timing, const char *fmt, const bn_json *about, const char *const *paths)
{
    char value[80] = "", wanted[120];
    const char *text = NULL;
    uint64_t number = 0;
    const bn_json *member = bn_about_member(about, paths);
    if (bn_json_string(member, &text))
        snprintf(value, sizeof value, "%s", text);
    else if (bn_json_u64(member, &number))
        snprintf(value, sizeof value, "%llu", (unsigned long long)number);
    snprintf(wanted, sizeof wanted, "%s%s", fmt, value);
    return value[0] != '\0' && strstr(timing, wanted) != NULL;
}

static const char *why_not_timed(const struct bn_flamegraph_page *page)
{
    static const char *const MODEL[] = {"model.sha256", "workload.model.sha256", NULL},
                             *const ISA[] = {"workload.isa", "isa", NULL},
                             *const THREADS[] = {"workload.threads", "workload.n_threads", NULL};
    const bn_json *about = page->stacks->about;
    if (page->timing_text == NULL) return page->timing_why;
    if (!says(page->timing_text, "sha256 ", about, MODEL)) return "it was measured with another model";
    if (!says(page->timing_text, "kernels | ", about, ISA))
        return "it was measured with another instruction set";
    if (!says(page->timing_text, "threads: ", about, THREADS))
        return "it was measured with another number of threads";
    return NULL;
}

static void put_timing(struct bn_buf *out, const struct bn_flamegraph_page *page)
{
    static const struct {
        const char *label, *rows[2], *member;
    } PARTS[] = {{"embedding", {"embed", NULL}, "embed_ns"},
                 {"layers and last norm", {"layers", "last norm"}, "forward_ns"},
                 {"head", {"head", NULL}, "head_ns"},
                 {"sampling", {"sample", NULL}, "sample_ns"}};
    const bn_json *phases = bn_json_get(page->stacks->about, "phases");
    const char *why = why_not_timed(page);
    bn_buf_puts(out, "\n## Compared with the timing document\n\n");
    bn_markdown_code(out, page->timing_path);
    if (why != NULL) {
        bn_buf_puts(out, ": not compared: ");
        bn_markdown_code(out, why);
        bn_buf_puts(out, ".\n");
        return;
    }
    bn_buf_puts(out, ": time of one token in decoding.\n\n| part | timing document | this recording "
                     "|\n|---|---:|---:|\n");
    for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++) {
        double there = timing_of(page->timing_text, PARTS[i].rows[0]), here = (double)NAN;
        if (PARTS[i].rows[1] != NULL) there += timing_of(page->timing_text, PARTS[i].rows[1]);
        (void)bn_json_number(bn_json_get(phases, PARTS[i].member), &here);
        bn_buf_printf(out, "| %s | ", PARTS[i].label);
        bn_units_value(out, there * 1e3, "ns");
        bn_buf_puts(out, " | ");
        bn_units_value(out, here, "ns");
        bn_buf_puts(out, " |\n");
    }
}

static bn_status put_before(struct bn_buf *out, const struct bn_flamegraph_page *page, bn_error *err)
{
    struct bn_stacks_diff diff = {0};
    struct bn_diff_report report = {0};
    struct bn_buf text = {.max = BN_FLAMEGRAPH_MAX_BYTES};
    bn_buf_puts(out, "\n## Compared with the recording before\n\n");
    if (page->before == NULL) {
        bn_buf_puts(out, "Not compared: ");
        bn_markdown_code(out, page->before_why);
        bn_buf_puts(out, ".\n");
        return BN_OK;
    }
    bn_buf_printf(out, "    bn-flamegraph diff archives/%s/%s.json --vs %s.json --merge-inlined\n\n",
                  page->before_name, page->name, page->name);
    BN_TRY(bn_archive_compare(&diff, page->before, page->stacks, err));
    bn_status status = bn_diff_report_make(&report, &diff, false, 20, MIN_SHARE, (double)NAN, false, err);
    report.before = page->before_name;
    report.after = "this recording";
    if (status == BN_OK) bn_diff_report_text(&text, &report, false);
    put_block(out, &text);
    bn_buf_release(&text);
    bn_diff_report_release(&report);
    bn_stacks_diff_release(&diff);
    return status;
}

/* ---- all ---- */

/* Characters that are markup in plain text are escaped. */
static void put_insights(struct bn_buf *out, const char *sentences)
{
    bn_buf_puts(out, "\n## What this shows\n\n- ");
    for (const char *c = sentences; *c != '\0'; c++)
        if (*c == '\n')
            bn_buf_puts(out, "\n- ");
        else
            bn_buf_printf(out, strchr("\\`*_{}[]<>|#", *c) != NULL ? "\\%c" : "%c", *c);
    bn_buf_putc(out, '\n');
}

static void put_again(struct bn_buf *out, const bn_json *about)
{
    const char *text = NULL;
    char line[1024] = "";
    bn_buf_puts(out, "\n## How to make it again\n\n");
    if (bn_json_string(bn_json_get(about, "command"), &text))
        bn_buf_printf(out, "    %s\n", bn_escape(line, sizeof line, text, strlen(text)));
    else
        bn_buf_puts(out, "Not known: the recording does not contain its command.\n");
}

bn_status bn_flamegraph_page(struct bn_buf *out, const struct bn_flamegraph_page *page, bn_error *err)
{
    const char *name = page->name;
    bn_buf_puts(out, "<!-- Written by bn-flamegraph baseline; manual changes are lost. -->\n"
                     "# Where the time goes: ");
    bn_markdown_code(out, name);
    bn_buf_printf(out,
                  "\n\n[![flame graph](%s.svg)](%s.svg)\n\nPicture: [%s.svg](%s.svg), stacks: "
                  "[%s.json](%s.json).\n",
                  name, name, name, name, name, name);
    put_insights(out, page->shows);
    BN_TRY(put_facts(out, page->stacks->about, err));
    BN_TRY(put_functions(out, page->stacks, err));
    BN_TRY(put_bricks(out, page->stacks, err));
    put_timing(out, page);
    BN_TRY(put_before(out, page, err));
    put_again(out, page->stacks->about);
    bn_buf_puts(out, "\n## How to read it\n\n"
                     "- The width of a frame is its share of the samples, with all functions that it "
                     "called. Left and right have no meaning.\n"
                     "- *Self* is the time in the function itself; *total* includes the functions that it "
                     "called.\n"
                     "- Click a frame to zoom in; press Ctrl-F to search. Colours are the classes of the "
                     "table above.\n");
    return bn_buf_check(out, err);
}
