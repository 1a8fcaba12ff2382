/* SPDX-License-Identifier: MIT
 *
 * See page.h: the page as Markdown, from members alone.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/report/html.h"
#include "tools/flamegraph/page.h"

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
    /* A span that begins or ends with a space or a backtick needs a space there, which readers take off. */
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

/* ---- values ---- */

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static void put_ns(struct bn_buf *out, double ns)
{
    double size = fabs(ns);
    if (size >= 1e9)
        bn_buf_printf(out, "%.3f s", ns / 1e9);
    else if (size >= 1e6)
        bn_buf_printf(out, "%.3f ms", ns / 1e6);
    else if (size >= 1e3)
        bn_buf_printf(out, "%.3f us", ns / 1e3);
    else
        bn_buf_printf(out, "%.0f ns", ns);
}

static void put_weight(struct bn_buf *out, double weight, const char *unit)
{
    if (strcmp(unit, "ns") == 0) {
        put_ns(out, weight);
        return;
    }
    bn_json_write_number(out, weight);
    bn_buf_printf(out, " ");
    bn_markdown_code(out, unit);
}

static void put_percent(struct bn_buf *out, double share)
{
    if (isfinite(share))
        bn_buf_printf(out, "%.2f %%", 100 * share);
    else
        bn_buf_puts(out, "-");
}

static void put_range(struct bn_buf *out, double low, double high)
{
    if (isfinite(low) && isfinite(high))
        bn_buf_printf(out, "%.2f to %.2f", 100 * low, 100 * high);
    else
        bn_buf_puts(out, "-");
}

static void put_bytes(struct bn_buf *out, double bytes)
{
    static const char *const UNITS[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    unsigned i = 0;
    for (; bytes >= 1024 && i + 1 < BN_ARRAY_LEN(UNITS); i++)
        bytes /= 1024;
    bn_buf_printf(out, bytes == floor(bytes) ? "%.0f %s" : "%.2f %s", bytes, UNITS[i]);
}

/* A number as its name says what it is: a time, a share, bytes. */
static void put_number(struct bn_buf *out, const char *name, double value)
{
    if (ends_with(name, "_ns"))
        put_ns(out, value);
    else if (ends_with(name, "_us"))
        put_ns(out, value * 1e3);
    else if (ends_with(name, "share"))
        put_percent(out, value);
    else if (ends_with(name, "_bytes"))
        put_bytes(out, value);
    else if (ends_with(name, "_milli"))
        bn_json_write_number(out, value / 1e3);
    else
        bn_json_write_number(out, value);
}

static void put_value(struct bn_buf *out, const char *name, const bn_json *value)
{
    const char *text = "";
    double number = (double)NAN;
    bool truth = false;
    if (bn_json_string(value, &text)) {
        bn_markdown_code(out, text);
    } else if (bn_json_number(value, &number)) {
        put_number(out, name, number);
    } else if (bn_json_bool(value, &truth)) {
        bn_buf_puts(out, truth ? "yes" : "no");
    } else if (bn_json_kind(value) == BN_JSON_ARRAY) {
        const char *comma = bn_json_size(value) == 0 ? "none" : "";
        bn_buf_puts(out, comma);
        comma = "";
        for (const bn_json *e = bn_json_first(value); e != NULL; e = bn_json_next(e), comma = ", ") {
            bn_buf_puts(out, comma);
            put_value(out, name, e);
        }
    } else {
        bn_buf_printf(out, "%zu values", bn_json_size(value));
    }
}

/* ---- tables of facts ---- */

/* A fact that a page has in any case, and where it may be. The rest is in the document only. */
struct fact {
    const char *label, *paths[3];
};

/* Why a member is not there: what its object says, else that nobody said anything. */
static void put_missing(struct bn_buf *out, const bn_json *about, const char *const *paths)
{
    const char *why = NULL;
    for (; *paths != NULL && why == NULL; paths++) {
        char path[96];
        const char *dot = strrchr(*paths, '.');
        if (dot == NULL) {
            snprintf(path, sizeof path, "unavailable");
            dot = *paths - 1;
        } else {
            snprintf(path, sizeof path, "%.*s.unavailable", (int)(dot - *paths), *paths);
        }
        if (!bn_json_string(bn_json_get(bn_json_path(about, path), dot + 1), &why)) why = NULL;
    }
    bn_buf_puts(out, "not known: ");
    if (why != NULL)
        bn_markdown_code(out, why);
    else
        bn_buf_puts(out, "the recording does not say");
}

static void put_fact(struct bn_buf *out, const bn_json *about, const struct fact *fact)
{
    const bn_json *value = bn_flamegraph_member(about, fact->paths);
    bn_buf_printf(out, "| %s | ", fact->label);
    if (value == NULL)
        put_missing(out, about, fact->paths);
    else
        put_value(out, bn_json_name(value), value);
    bn_buf_puts(out, " |\n");
}

static void put_facts(struct bn_buf *out, const bn_json *about, const char *title, const struct fact *facts)
{
    bn_buf_printf(out, "\n## %s\n\n| | |\n|---|---|\n", title);
    for (; facts->label != NULL; facts++)
        put_fact(out, about, facts);
}

/* Why better ways of sampling were not taken; they are rows of the table before. */
static void put_refused(struct bn_buf *out, const bn_json *refused)
{
    for (const bn_json *m = bn_json_first(refused); m != NULL; m = bn_json_next(m)) {
        bn_buf_puts(out, "| not possible: ");
        bn_markdown_code(out, bn_json_name(m));
        bn_buf_puts(out, " | ");
        put_value(out, "", m);
        bn_buf_puts(out, " |\n");
    }
}

static void put_what(struct bn_buf *out, const bn_json *about)
{
    static const struct fact RECORDED[] = {{"when", {"created"}},
                                           {"what", {"page.recorded.what"}},
                                           {"unit", {"page.recorded.unit"}},
                                           {"runs", {"page.recorded.runs"}},
                                           {"samples", {"page.recorded.samples"}},
                                           {0}};
    static const struct fact PROGRAM[] = {{"version", {"program.version"}},
                                          {"built from commit", {"program.commit"}},
                                          {"differing from it", {"program.dirty"}},
                                          {"compiler", {"program.compiler"}},
                                          {"flags", {"program.flags"}},
                                          {"sha256 of the program", {"program.binary_sha256"}},
                                          {"repository: commit", {"git.commit"}},
                                          {"repository: branch", {"git.branch"}},
                                          {0}};
    static const struct fact WORK[] = {
        {"model", {"model.name", "workload.model.name"}},
        {"sha256 of the model", {"model.sha256", "workload.model.sha256"}},
        {"tokenizer", {"workload.tokenizer", "model.tokenizer"}},
        {"prompt", {"workload.prompt"}},
        {"tokens of the prompt", {"workload.prompt_tokens"}},
        {"tokens generated", {"workload.n_predict", "workload.tokens"}},
        {"sha256 of the tokens' numbers", {"workload.ids_sha256"}},
        {"repetitions, of each run", {"workload.repetitions"}},
        {"seed", {"workload.seed"}},
        {"threads", {"workload.threads", "workload.n_threads"}},
        {"instruction set", {"workload.isa", "isa"}},
        {"what the profiler measured beside it", {"workload.level"}},
        {"runs that ended early, the profiler's room being full", {"workload.runs_cut_by_events"}},
        {"tokens decoded one at a time", {"phases.tokens"}},
        {"of such a token, mean: embedding", {"phases.embed_ns"}},
        {"of such a token, mean: layers", {"phases.forward_ns"}},
        {"of such a token, mean: head", {"phases.head_ns"}},
        {"of such a token, mean: sampling", {"phases.sample_ns"}},
        {0}};
    static const struct fact MACHINE[] = {{"processor", {"machine.cpu_model"}},
                                          {"hardware threads that may be used", {"machine.cpus_usable"}},
                                          {"name of this machine", {"machine.label"}},
                                          {"virtual", {"machine.hypervisor"}},
                                          {"architecture", {"machine.arch"}},
                                          {"cache of the second level", {"machine.cache_l2_bytes"}},
                                          {"cache of the third level", {"machine.cache_l3_bytes"}},
                                          {"memory", {"machine.memory_bytes"}},
                                          {"kernel", {"machine.kernel"}},
                                          {"frequency governor", {"machine.governor"}},
                                          {"load of one, five and fifteen minutes", {"machine.load_milli"}},
                                          {0}};
    static const struct fact SAMPLER[] = {{"way", {"sampler.tier"}},
                                          {"period asked for", {"sampler.asked_period_ns"}},
                                          {"period delivered", {"sampler.delivered_period_ns"}},
                                          {"of the samples asked for, came", {"sampler.delivered_share"}},
                                          {"lost samples", {"sampler.lost"}},
                                          {"times held back", {"sampler.throttled"}},
                                          {"frames of the operating system", {"sampler.system"}},
                                          {"copied of the stack with each sample", {"sampler.dump_bytes"}},
                                          {"processor time while it ran", {"sampler.cpu_ns"}},
                                          {"time while it ran", {"sampler.wall_ns"}},
                                          {0}};
    static const struct fact QUALITY[] = {
        {"samples that count", {"quality.samples"}},
        {"samples outside the runs, which do not count", {"quality.outside"}},
        {"traced to where their thread began", {"quality.rooted_share"}},
        {"cut off", {"quality.cut_share"}},
        {"callers found by unwinding tables", {"quality.unwound_share"}},
        {"running in a function without a name", {"quality.leaf_unknown_share"}},
        {"addresses without a name", {"quality.addresses_unknown_share"}},
        {"addresses in files that have changed since", {"quality.addresses_other_builds_share"}},
        {0}};
    put_facts(out, about, "What was measured", RECORDED);
    put_facts(out, about, "The work", WORK);
    put_facts(out, about, "The program", PROGRAM);
    put_facts(out, about, "The machine", MACHINE);
    put_facts(out, about, "The sampler", SAMPLER);
    put_refused(out, bn_json_path(about, "sampler.refused"));
    put_facts(out, about, "The stacks", QUALITY);
}

/* ---- hotspots ---- */

static void put_class_table(struct bn_buf *out, const bn_json *classes, const char *things)
{
    bn_buf_printf(out, "| class | %s | self | 95 %% |\n|---|---:|---:|---|\n", things);
    for (const bn_json *c = bn_json_first(classes); c != NULL; c = bn_json_next(c)) {
        bn_buf_puts(out, "| ");
        bn_markdown_code(out, bn_json_text_of(c, "class"));
        bn_buf_puts(out, " | ");
        bn_json_write_number(out, bn_json_number_of(c, "functions"));
        bn_buf_puts(out, " | ");
        put_percent(out, bn_json_number_of(c, "self_share"));
        bn_buf_puts(out, " | ");
        put_range(out, bn_json_number_of(c, "self_low"), bn_json_number_of(c, "self_high"));
        bn_buf_puts(out, " |\n");
    }
}

static void put_spot(struct bn_buf *out, const bn_json *row, const char *unit, bool sampled)
{
    bn_buf_puts(out, "| ");
    bn_markdown_code(out, bn_json_text_of(row, "class"));
    bn_buf_puts(out, " | ");
    bn_markdown_code(out, bn_json_text_of(row, "name"));
    bn_buf_puts(out, " | ");
    put_percent(out, bn_json_number_of(row, "self_share"));
    bn_buf_puts(out, " | ");
    put_range(out, bn_json_number_of(row, "self_low"), bn_json_number_of(row, "self_high"));
    bn_buf_puts(out, " | ");
    put_weight(out, bn_json_number_of(row, "self"), unit);
    bn_buf_puts(out, " | ");
    put_percent(out, bn_json_number_of(row, "total_share"));
    bn_buf_puts(out, " | ");
    put_range(out, bn_json_number_of(row, "total_low"), bn_json_number_of(row, "total_high"));
    if (sampled) {
        bn_buf_puts(out, " | ");
        bn_json_write_number(out, bn_json_number_of(row, "self_samples"));
    }
    bn_buf_puts(out, " |\n");
}

static void put_spots(struct bn_buf *out, const bn_json *spots, const char *unit, const char *thing,
                      const char *things)
{
    bool sampled = bn_json_number_of(spots, "samples") > 0;
    const char *method = bn_json_text_of(spots, "intervals");
    bn_buf_puts(out, "Intervals of 95 %: ");
    if (method[0] != '\0')
        bn_markdown_code(out, method);
    else
        bn_buf_printf(out, "none, %s", bn_json_text_of(spots, "unavailable.intervals"));
    bn_buf_printf(out, ".%s\n\n", sampled ? " They take each sample as independent of the others." : "");
    put_class_table(out, bn_json_get(spots, "classes"), things);
    bn_buf_printf(
        out, "\n| class | %s | self | 95 %% | self | total | 95 %% |%s\n|---|---|---:|---|---:|---:|---|%s\n",
        thing, sampled ? " samples |" : "", sampled ? "---:|" : "");
    const bn_json *rows = bn_json_get(spots, "rows");
    for (const bn_json *r = bn_json_first(rows); r != NULL; r = bn_json_next(r))
        put_spot(out, r, unit, sampled);
    bn_buf_puts(out, "\nNot listed: ");
    bn_json_write_number(out, bn_json_number_of(spots, "rows_left_out"));
    bn_buf_printf(out, " %s with ", things);
    put_percent(out, bn_json_number_of(spots, "left_out_share"));
    bn_buf_puts(out, " of the whole.\n");
}

/* The profiler runs beside the sampler, and is sampled like the rest. */
static void put_profiler(struct bn_buf *out, const bn_json *functions)
{
    double share = bn_json_number_of(functions, "profiler_share");
    if (!(share > 0)) return;
    bn_buf_puts(out, "\nThe profiler that measures bricks (`bn_prof_...` and what they call): ");
    put_percent(out, share);
    bn_buf_puts(out, " of the whole, which is its own cost and not the work's.\n");
}

/* What makes measured times longer than the work is. */
static void put_waits(struct bn_buf *out, const bn_json *bricks)
{
    bn_buf_puts(
        out, "Time that its threads had to wait for a processor meanwhile, which is in these times, of all "
             "runs together: ");
    if (bn_json_kind(bn_json_get(bricks, "waited_ns")) != BN_JSON_NUMBER) {
        static const char *const WAITED[] = {"waited_ns", NULL};
        put_missing(out, bricks, WAITED);
    } else {
        put_ns(out, bn_json_number_of(bricks, "waited_ns"));
        bn_buf_puts(out, ", beside ");
        put_ns(out, bn_json_number_of(bricks, "cpu_ns"));
        bn_buf_puts(out, " on one");
    }
    bn_buf_puts(out, ".\n\n");
}

static void put_bricks(struct bn_buf *out, const bn_json *page)
{
    const bn_json *bricks = bn_json_get(page, "bricks");
    bn_buf_puts(out, "\n## Bricks, as the profiler measured them\n\n");
    if (bn_json_kind(bricks) == BN_JSON_OBJECT) {
        put_waits(out, bricks);
        put_spots(out, bricks, "ns", "brick or kernel", "bricks and kernels");
        bn_buf_puts(out,
                    "\n`(unattributed)` is the time of a thread in no brick: between two of them, before "
                    "the first, behind the last.\n");
        return;
    }
    bn_buf_puts(out, "Not known: ");
    bn_markdown_code(out, bn_json_text_of(page, "unavailable.bricks"));
    bn_buf_puts(out, ".\n");
}

static void put_agreement_row(struct bn_buf *out, const bn_json *r)
{
    static const char *const SHARES[] = {"measured", "sampled"};
    bool agrees;
    bn_buf_puts(out, "| ");
    bn_markdown_code(out, bn_json_text_of(r, "name"));
    for (size_t i = 0; i < BN_ARRAY_LEN(SHARES); i++) {
        bn_buf_puts(out, " | ");
        put_percent(out, bn_json_number_of(r, SHARES[i]));
    }
    bn_buf_puts(out, " | ");
    put_range(out, bn_json_number_of(r, "low"), bn_json_number_of(r, "high"));
    bn_buf_puts(out, " | ");
    bn_json_write_number(out, bn_json_number_of(r, "samples"));
    bn_buf_puts(out, " | ");
    if (bn_json_bool(bn_json_get(r, "agrees"), &agrees)) {
        bn_buf_puts(out, agrees ? "agrees" : "**differs**");
    } else {
        bn_buf_puts(out, "not compared: ");
        bn_markdown_code(out, bn_json_text_of(r, "unavailable.agrees"));
    }
    bn_buf_puts(out, " |\n");
}

static void put_agreement(struct bn_buf *out, const bn_json *about)
{
    static const char *const AGREES[] = {"agreement.agrees", "agreement", NULL};
    const bn_json *a = bn_json_get(about, "agreement"), *rows = bn_json_get(a, "rows");
    bool agrees;
    bn_buf_puts(out, "\n## Do samples and measured times agree?\n\n");
    if (!bn_json_bool(bn_json_get(a, "agrees"), &agrees)) {
        put_missing(out, about, AGREES);
        bn_buf_puts(out, ".\n");
        return;
    }
    bn_buf_printf(out, "%s, by ", agrees ? "They do" : "**They do not**");
    bn_json_write_number(out, bn_json_number_of(a, "samples"));
    bn_buf_printf(out, " samples inside bricks. Of all bricks together p = %.3g; ",
                  bn_json_number_of(a, "p"));
    bn_buf_puts(out, "samples whose kernel is known by the profiler and by their own functions: ");
    bn_json_write_number(out, bn_json_number_of(a, "kernels_by_both"));
    bn_buf_puts(out, ", of which differ: ");
    bn_json_write_number(out, bn_json_number_of(a, "kernels_that_differ"));
    bn_buf_puts(out, ".\n\n| | measured | sampled | 95 %, all rows together | samples | "
                     "|\n|---|---:|---:|---|---:|---|\n");
    for (const bn_json *r = bn_json_first(rows); r != NULL; r = bn_json_next(r))
        put_agreement_row(out, r);
}

/* ---- comparisons ---- */

static void put_refusal(struct bn_buf *out, const bn_json *o)
{
    bn_buf_puts(out, "Not compared: ");
    bn_markdown_code(out, bn_json_text_of(o, "why"));
    bn_buf_puts(out, ".\n");
}

static void put_timing(struct bn_buf *out, const bn_json *timing)
{
    bn_buf_puts(out, "\n## Beside the timing document\n\n");
    bn_markdown_code(out, bn_json_text_of(timing, "path"));
    bn_buf_puts(out, ". ");
    if (!bn_json_flag_of(timing, "compared")) {
        put_refusal(out, timing);
        return;
    }
    bn_buf_puts(out, "It was measured ");
    bn_markdown_code(out, bn_json_text_of(timing, "measured"));
    bn_buf_puts(out, " on ");
    bn_markdown_code(out, bn_json_text_of(timing, "machine"));
    bn_buf_puts(out, ". Shares of decoding one token at a time, of the parts that both have; here by the "
                     "profiler, the mean of the runs.\n\n"
                     "| part | there, median | there, share | here, share | here, least | here, most "
                     "|\n|---|---:|---:|---:|---:|---:|\n");
    const bn_json *rows = bn_json_get(timing, "rows");
    for (const bn_json *r = bn_json_first(rows); r != NULL; r = bn_json_next(r)) {
        bn_buf_puts(out, "| ");
        bn_markdown_code(out, bn_json_text_of(r, "name"));
        bn_buf_puts(out, " | ");
        bn_json_write_number(out, bn_json_number_of(r, "timing_us"));
        bn_buf_puts(out, " us");
        static const char *const SHARES[] = {"timing_share", "share", "least", "most"};
        for (size_t i = 0; i < BN_ARRAY_LEN(SHARES); i++) {
            bn_buf_puts(out, " | ");
            put_percent(out, bn_json_number_of(r, SHARES[i]));
        }
        bn_buf_puts(out, " |\n");
    }
}

static void put_before(struct bn_buf *out, const bn_json *before)
{
    bn_buf_puts(out, "\n## Beside the recording before it\n\n");
    if (bn_json_text_of(before, "name")[0] != '\0') {
        bn_markdown_code(out, bn_json_text_of(before, "name"));
        bn_buf_puts(out, ". ");
    }
    if (!bn_json_flag_of(before, "compared")) {
        put_refusal(out, before);
        return;
    }
    const bn_json *changes = bn_json_get(before, "changes");
    bn_buf_puts(out, "Method: ");
    bn_markdown_code(out, bn_json_text_of(before, "method"));
    if (bn_json_size(changes) == 0) {
        bn_buf_puts(out, ". No function's share changed significantly.\n");
        return;
    }
    bn_buf_puts(out,
                ". Shares that changed significantly (q below 0.05):\n\n"
                "| function | | before | after | 95 % of the change | q |\n|---|---|---:|---:|---|---:|\n");
    for (const bn_json *c = bn_json_first(changes); c != NULL; c = bn_json_next(c)) {
        bn_buf_puts(out, "| ");
        bn_markdown_code(out, bn_json_text_of(c, "name"));
        bn_buf_printf(out, " | %s | ", bn_json_text_is(c, "of", "self") ? "self" : "total");
        put_percent(out, bn_json_number_of(c, "before"));
        bn_buf_puts(out, " | ");
        put_percent(out, bn_json_number_of(c, "after"));
        bn_buf_puts(out, " | ");
        put_range(out, bn_json_number_of(c, "low"), bn_json_number_of(c, "high"));
        bn_buf_printf(out, " | %.2g |\n", bn_json_number_of(c, "q"));
    }
}

/* ---- all ---- */

static void put_again(struct bn_buf *out, const bn_json *about)
{
    const bn_json *command = bn_json_get(about, "command");
    const char *text = NULL;
    char line[1024] = "";
    bn_buf_puts(out, "\n## How to make it again\n\n");
    if (!bn_json_string(command, &text)) {
        bn_buf_puts(out, "Not known: the recording does not say which command made it.\n");
        return;
    }
    bn_buf_printf(out, "    %s\n", bn_escape(line, sizeof line, text, strlen(text)));
}

static void put_page(struct bn_buf *out, const bn_json *about)
{
    const bn_json *page = bn_json_get(about, "page");
    const char *name = bn_json_text_of(page, "name");
    const char *unit = bn_json_text_of(page, "recorded.unit");
    bn_buf_puts(out, "<!-- Written by bn-flamegraph; changes by hand are lost. -->\n# Where the time goes: ");
    bn_markdown_code(out, name);
    bn_buf_printf(out,
                  "\n\n[![flame graph](%s.svg)](%s.svg)\n\nThe picture: [%s.svg](%s.svg); its stacks: "
                  "[%s.json](%s.json).\n",
                  name, name, name, name, name, name);
    put_what(out, about);
    bn_buf_puts(out, "\n## Functions, as they were sampled\n\nFunctions that the compiler put into others "
                     "count to these; the picture shows them apart. ");
    put_spots(out, bn_json_get(page, "functions"), unit, "function", "functions");
    put_profiler(out, bn_json_get(page, "functions"));
    put_bricks(out, page);
    put_agreement(out, about);
    put_timing(out, bn_json_get(page, "timing"));
    put_before(out, bn_json_get(page, "before"));
    put_again(out, about);
    bn_buf_puts(
        out, "\n## How to read it\n\n"
             "- The width of a frame is the share of samples in which it was running or waiting for what it "
             "called; left and right have no meaning.\n"
             "- *Self* is what a function did itself, *total* what it called as well; a function that calls "
             "itself counts once.\n"
             "- A click zooms, Ctrl-F searches; the colours are the classes of the table above.\n");
}

bn_status bn_flamegraph_page_write(struct bn_buf *out, const bn_json *about, bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bn_json *sorted = NULL;
    /* Members come in the order in which they were put, and from a file in that of their names. */
    bn_status status = bn_json_write(about, true, &text, err);
    if (status == BN_OK) status = bn_json_parse(&sorted, text.data, text.len, err);
    if (status == BN_OK) {
        put_page(out, sorted);
        status = bn_buf_check(out, err);
    }
    bn_json_free(sorted);
    bn_buf_release(&text);
    return status;
}
