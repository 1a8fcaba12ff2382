/* SPDX-License-Identifier: MIT
 *
 * A refresh as lines of text. All outputs for people get their lines here: a line has at most as many
 * characters as the frame has columns. On narrow terminals columns of the table are left out.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "tools/bench/top/top.h"
#include "tools/cli/progress.h"

/* ---- numbers ---- */

/* At most 5 characters: "0.12", "41.3", "123", "12.3k", "1.2M"; "-" for a number that is not known. */
static const char *short_number(char out[16], double v)
{
    static const char *const PREFIXES[] = {"", "k", "M", "G", "T"};
    size_t p = 0;
    if (!isfinite(v) || v < 0) return "-";
    for (; v >= 999.5 && p + 1 < BN_ARRAY_LEN(PREFIXES); p++)
        v /= 1000;
    if (v >= 9999) return ">9999";
    bool is_count = p == 0 && floor(v) >= v;
    snprintf(out, 16, "%.*f%s", is_count || v >= 99.95 ? 0 : v >= 9.995 || p > 0 ? 1 : 2, v, PREFIXES[p]);
    return out;
}

/* At most 6 characters: "950ns", "12.3us", "4.56ms", "120s". */
static const char *short_time(char out[16], double ns)
{
    static const char *const UNITS[] = {"ns", "us", "ms", "s"};
    size_t u = 0;
    if (!isfinite(ns) || ns < 0) return "-";
    for (; ns >= 999.5 && u + 1 < BN_ARRAY_LEN(UNITS); u++)
        ns /= 1000;
    if (ns >= 99999) return ">1day";
    snprintf(out, 16, "%.*f%s", u == 0 || ns >= 99.95 ? 0 : ns >= 9.995 ? 1 : 2, ns, UNITS[u]);
    return out;
}

static const char *short_percent(char out[16], double share)
{
    if (!isfinite(share)) return "-";
    snprintf(out, 16, "%.1f%%", 100 * fmin(fmax(share, 0), 9.99));
    return out;
}

/* ---- columns ---- */

enum column { NAME, SHARE, BAR, TIME, COUNT, BYTES, OPS, PATH, SLACK, BUDGET, N_COLUMNS };

static const struct {
    const char *head;
    size_t width;
} COLUMNS[N_COLUMNS] = {{"brick", 22}, {"share", 6}, {"", 4},     {"time", 6},  {"count", 5},
                        {"GB/s", 5},   {"Gop/s", 5}, {"path", 5}, {"slack", 6}, {"budget", 6}};

/* Columns that are left out first come first. */
static const enum column NARROW[] = {OPS, COUNT, SLACK, BUDGET, BAR, BYTES, PATH, TIME, SHARE};

/* The widths of a table in a frame; 0: the column is left out. The bar gets what the others leave. */
static void choose_columns(size_t width[N_COLUMNS], const struct bn_top *top, size_t columns)
{
    size_t sum = 0;
    for (size_t i = 0; i < N_COLUMNS; i++) {
        width[i] = i == BUDGET && (!top->budget.given || top->view.of_pass) ? 0 : COLUMNS[i].width;
        sum += width[i] > 0 ? width[i] + 1 : 0;
    }
    if (columns >= 100) { /* the names of kernels */
        width[NAME] += 8;
        sum += 8;
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(NARROW) && sum > columns; i++) {
        sum -= width[NARROW[i]] > 0 ? width[NARROW[i]] + 1 : 0;
        width[NARROW[i]] = 0;
    }
    if (width[BAR] > 0) width[BAR] += columns - sum < 36 ? columns - sum : 36;
}

/* ---- lines ---- */

/* Cuts a line to the columns; a character is a byte that does not continue one. */
static void cut(struct bn_top_line *line, size_t columns)
{
    size_t n = 0;
    for (size_t i = 0; line->text[i] != '\0'; i++) {
        n += ((unsigned char)line->text[i] & 0xC0u) != 0x80u;
        if (n <= columns) continue;
        line->text[i] = '\0';
        return;
    }
}

static void put_line(struct bn_top_line *out, const struct bn_top_frame *frame, enum bn_top_style style,
                     const struct bn_buf *text)
{
    *out = (struct bn_top_line){.style = style};
    snprintf(out->text, sizeof out->text, "%s", bn_buf_text(text));
    for (size_t n = strlen(out->text); n > 0 && out->text[n - 1] == ' '; n--)
        out->text[n - 1] = '\0';
    cut(out, frame->columns);
}

/* A bar of `width` cells; in UTF-8 to an eighth of a cell. */
static void put_bar(struct bn_buf *out, double share, size_t width, bool utf8)
{
    static const char *const PARTS[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    share = isfinite(share) ? fmin(fmax(share, 0), 1) : 0;
    size_t eighths = (size_t)lround(share * (double)width * 8), n = 0;
    if (!utf8) eighths = (eighths + 4) / 8 * 8;
    for (; n < eighths / 8; n++)
        bn_buf_puts(out, utf8 ? "█" : "#");
    if (eighths % 8 > 0) {
        bn_buf_puts(out, PARTS[eighths % 8]);
        n++;
    }
    for (; n < width; n++)
        bn_buf_putc(out, ' ');
}

static void put_cell(struct bn_buf *out, const char *text, size_t width)
{
    if (width > 0) bn_buf_printf(out, " %*.*s", (int)width, (int)width, text);
}

/* ---- the head ---- */

static const char *state_text(const struct bn_top *top)
{
    return top->view.is_paused ? "paused" : bn_top_state_names[top->state];
}

static void put_process(struct bn_buf *out, const struct bn_top *top)
{
    const struct bn_live_snapshot *s = top->now;
    uint64_t end = s->has_ended ? s->counts.updated_ns : s->read_ns;
    uint64_t up = end > s->started_ns ? (end - s->started_ns) / 1000000000u : 0;
    const char *slash = strrchr(s->model, '/');
    char time[BN_PROGRESS_TIME_ROOM];
    bn_buf_printf(out, "%s %u  %s  %s  %s  %s x%u", s->program, s->pid, state_text(top),
                  bn_progress_time(time, up), slash != NULL ? slash + 1 : s->model, s->isa, s->n_threads);
}

static void put_rate(struct bn_buf *out, const char *name, double n, double seconds, const char *unit)
{
    double rate = seconds > 0 ? fmin(n / seconds, 9999999) : 0;
    bn_buf_printf(out, "%s%.*f %s  ", name, rate < 100 ? 1 : 0, rate, unit);
}

static void put_rates(struct bn_buf *out, const struct bn_top *top, const struct bn_top_window *w)
{
    const struct bn_live_load *load = &top->now->load;
    bool at_rest = top->state != BN_TOP_RUNNING && !top->view.since_start;
    double logits = at_rest ? 0 : (double)w->counts.n_logits,
           tokens = at_rest ? 0 : (double)w->counts.n_tokens;
    put_rate(out, "output ", logits, w->seconds, "tok/s");
    put_rate(out, "prompt ", tokens > logits ? tokens - logits : 0, w->seconds, "tok/s");
    put_rate(out, "", at_rest ? 0 : (double)w->counts.n_passes, w->seconds, "passes/s");
    if (load->n_sequences > 0)
        bn_buf_printf(out, "sequences %llu/%llu  queue %llu", (unsigned long long)load->n_running,
                      (unsigned long long)load->n_sequences, (unsigned long long)load->n_waiting);
}

static void put_times(struct bn_buf *out, const struct bn_top *top, const struct bn_top_window *w)
{
    char a[16], b[16];
    double passes = (double)w->counts.n_passes;
    bn_buf_printf(out, "busy %s  ",
                  short_percent(a, w->seconds > 0 ? (double)w->counts.passes_ns / 1e9 / w->seconds : 0));
    if (passes > 0)
        bn_buf_printf(out, "pass %s, %s tok  ", short_time(a, (double)w->counts.passes_ns / passes),
                      short_number(b, (double)w->counts.n_tokens / passes));
    bn_buf_printf(out, "waiting %s  ",
                  short_percent(a, w->bricks_ns > 0 ? (double)w->wait_ns / (double)w->bricks_ns : 0));
    if (top->pass.known)
        bn_buf_printf(out, "path %s  work/path %.2f  ", short_time(a, (double)top->pass.schedule.path_ns),
                      bn_schedule_parallelism(&top->pass.schedule));
    if (top->now->counts.dropped > 0)
        bn_buf_printf(out, "dropped %llu", (unsigned long long)top->now->counts.dropped);
}

static void put_note(struct bn_buf *out, const struct bn_top *top)
{
    if (top->trouble[0] != '\0') {
        bn_buf_printf(out, "not refreshed: %s", top->trouble);
    } else if (top->now->has_ended) {
        bn_buf_puts(out, "the process has ended; this is its last state");
    } else if (top->view.of_pass && !top->pass.known) {
        bn_buf_printf(out, "no tree: %s", top->pass.why.msg);
    } else if (top->now->counts.n_passes == 0) {
        bn_buf_puts(out, "no pass has run yet");
    } else if (top->now->counts.n_measured < top->now->counts.n_passes) {
        const struct bn_live_counts *c = &top->now->counts;
        char room[16];
        bn_buf_printf(out, "passes are short: %s of them are measured",
                      short_percent(room, (double)c->n_measured / (double)c->n_passes));
    }
}

static void put_titles(struct bn_buf *out, const struct bn_top *top, const struct bn_top_frame *frame)
{
    char name[64];
    size_t width[N_COLUMNS];
    choose_columns(width, top, frame->columns);
    if (top->view.of_pass)
        snprintf(name, sizeof name, "pass %llu", (unsigned long long)top->now->pass_number);
    else
        snprintf(name, sizeof name, "brick (%s)", top->view.since_start ? "since start" : "now");
    bn_buf_printf(out, "%-*.*s", (int)width[NAME], (int)width[NAME], name);
    put_cell(out, COLUMNS[SHARE].head, width[SHARE]);
    if (width[BAR] > 0) bn_buf_printf(out, " %*s", (int)width[BAR], "");
    for (size_t i = TIME; i < N_COLUMNS; i++)
        put_cell(out, COLUMNS[i].head, width[i]);
}

void bn_top_put_head(struct bn_top_line out[BN_TOP_HEAD_LINES], const struct bn_top *top,
                     const struct bn_top_frame *frame)
{
    struct bn_buf text[BN_TOP_HEAD_LINES];
    struct bn_top_window all;
    const struct bn_top_window *w = &top->window;
    if (top->view.since_start) {
        bn_top_window(&all, top->now, NULL);
        w = &all;
    }
    for (size_t i = 0; i < BN_TOP_HEAD_LINES; i++)
        text[i] = (struct bn_buf){.max = sizeof out->text - 1};
    put_process(&text[0], top);
    put_rates(&text[1], top, w);
    put_times(&text[2], top, w);
    put_note(&text[3], top);
    put_titles(&text[4], top, frame);
    for (size_t i = 0; i < BN_TOP_HEAD_LINES; i++) {
        put_line(&out[i], frame,
                 i == 0   ? BN_TOP_HEAD
                 : i == 3 ? BN_TOP_WARNING
                 : i == 4 ? BN_TOP_TITLE
                          : BN_TOP_PLAIN,
                 &text[i]);
        bn_buf_release(&text[i]);
    }
}

/* ---- rows ---- */

static void put_name(struct bn_buf *out, const struct bn_top_row *row, size_t width)
{
    char name[128];
    int indent = (int)(2 * row->depth);
    const char *mark = !row->has_children ? "" : row->is_folded ? "+ " : "- ";
    /* Leaves have no mark; those in a category begin where its name does. */
    snprintf(name, sizeof name, "%*s%s%s", indent, "", mark, row->name);
    bn_buf_printf(out, "%-*.*s", (int)width, (int)width, name);
}

static const char *path_text(char out[16], double share)
{
    if (!isfinite(share)) return "-";
    snprintf(out, 16, "%.0f%%%s", 100 * fmin(fmax(share, 0), 9.99), share > 0 ? "*" : " ");
    return out;
}

void bn_top_put_row(struct bn_top_line *out, const struct bn_top *top, const struct bn_top_frame *frame,
                    const struct bn_top_row *row)
{
    struct bn_buf text = {.max = sizeof out->text - 1};
    size_t width[N_COLUMNS], bar_at = 0, bar_bytes = 0;
    char room[16], budget[16] = "-";
    choose_columns(width, top, frame->columns);
    put_name(&text, row, width[NAME]);
    put_cell(&text, short_percent(room, row->share), width[SHARE]);
    if (width[BAR] > 0) {
        bn_buf_putc(&text, ' ');
        bar_at = text.len;
        put_bar(&text, row->share, width[BAR], frame->utf8);
        bar_bytes = text.len - bar_at;
    }
    put_cell(&text, short_time(room, row->ns), width[TIME]);
    put_cell(&text, short_number(room, row->count), width[COUNT]);
    put_cell(&text, short_number(room, row->bytes_per_s / 1e9), width[BYTES]);
    put_cell(&text, short_number(room, row->ops_per_s / 1e9), width[OPS]);
    put_cell(&text, path_text(room, row->path), width[PATH]);
    put_cell(&text, short_time(room, row->slack_ns), width[SLACK]);
    if (isfinite(row->budget)) snprintf(budget, sizeof budget, "x%.2f", fmin(row->budget, 99.99));
    put_cell(&text, budget, width[BUDGET]);
    put_line(out, frame, BN_TOP_PLAIN, &text);
    out->has_row = true;
    out->category = row->category;
    out->bar_at = bar_at;
    out->bar_bytes = bar_bytes;
    bn_buf_release(&text);
}

/* ---- below ---- */

const char *const bn_top_help[] = {
    "q          quit",
    "p, space   pause, and go on",
    "tab        bricks, or the tree of the last pass that was copied",
    "c          the last refresh, or all since the start",
    "s          sort by time, order, critical path, slack",
    "up, down   select a row; also page up, page down, home, end",
    "left       fold the row; right: unfold it; enter: either",
    "?          this help",
    "",
    "x2         the number of threads; output: tokens whose logits were computed",
    "busy       time in passes; waiting: of all bricks, at barriers",
    "time       of a pass, mean over the threads; count: events on all threads",
    "GB/s       weights and cache that were read, by all threads together",
    "Gop/s      multiply-adds, or elements of kernels without them",
    "path       share of the critical path of the last pass; * it is on it",
    "slack      how much longer a task could take without making the pass longer",
    "budget     measured time / time in the document of --budget",
    NULL,
};

void bn_top_put_keys(struct bn_top_line *out, const struct bn_top *top, const struct bn_top_frame *frame)
{
    struct bn_buf text = {.max = sizeof out->text - 1};
    bn_buf_printf(&text, "q quit  p %s  s sort: %s  c %s  tab %s  ? help",
                  top->view.is_paused ? "go on" : "pause", bn_top_sort_names[top->view.sort],
                  top->view.since_start ? "now" : "since start", top->view.of_pass ? "bricks" : "pass");
    put_line(out, frame, BN_TOP_TITLE, &text);
    bn_buf_release(&text);
}

void bn_top_put_frame(struct bn_buf *out, const struct bn_top *top, const struct bn_top_frame *frame)
{
    struct bn_top_line head[BN_TOP_HEAD_LINES], line;
    bn_top_put_head(head, top, frame);
    for (size_t i = 0; i < BN_TOP_HEAD_LINES; i++)
        bn_buf_printf(out, "%s\n", head[i].text);
    for (size_t i = 0; i < top->rows.n; i++) {
        bn_top_put_row(&line, top, frame, &top->rows.list[i]);
        bn_buf_printf(out, "%s\n", line.text);
    }
}
