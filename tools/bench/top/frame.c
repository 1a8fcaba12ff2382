/* SPDX-License-Identifier: MIT
 *
 * A refresh as lines of text. All outputs for people get their lines here: a line has at most as many
 * characters as the frame has columns. On narrow terminals columns of the table are left out.
 */
#include <stdio.h>

#include "tools/bench/top/top.h"
#include "tools/cli/progress.h"
#include "tools/cli/text.h"

/* ---- numbers ---- */

/* Three digits and a prefix of thousands, "12.3k" or "4.56ms"; "-" for a number that is not known. */
static const char *shorten(char out[16], double v, const char *const prefixes[5])
{
    size_t p = 0;
    if (!isfinite(v) || v < 0) return "-";
    for (; v >= 999.5 && p < 4 && prefixes[p + 1] != NULL; p++)
        v /= 1000;
    bool is_count = p == 0 && floor(v) >= v;
    snprintf(out, 16, "%.*f%s", is_count || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2, fmin(v, 99999), prefixes[p]);
    return out;
}

static const char *short_number(char out[16], double v)
{
    static const char *const PREFIXES[5] = {"", "k", "M", "G", "T"};
    return shorten(out, v, PREFIXES);
}

static const char *short_time(char out[16], double ns)
{
    static const char *const UNITS[5] = {"ns", "us", "ms", "s"};
    return shorten(out, ns, UNITS);
}

static const char *short_percent(char out[16], double share)
{
    if (!isfinite(share)) return "-";
    snprintf(out, 16, "%.1f%%", 100 * fmin(fmax(share, 0), 9.99));
    return out;
}

/* ---- columns ---- */

enum column { NAME, SHARE, BAR, TIME, COUNT, BYTES, OPS, PATH, SLACK, BUDGET, N_COLUMNS };

#define OF(field) offsetof(struct bn_top_row, field)
static const struct {
    const char *head;
    size_t width;
    const char *(*text)(char out[16], double value);
    size_t offset; /* of the value */
    double unit;
} COLUMNS[N_COLUMNS] = {
    {"brick", 22, NULL, 0, 0},
    {"share", 6, short_percent, OF(share), 1},
    {"", 4, NULL, 0, 0},
    {"time", 6, short_time, OF(ns), 1},
    {"count", 5, short_number, OF(count), 1},
    {"GB/s", 5, short_number, OF(bytes_per_s), 1e9},
    {"Gop/s", 5, short_number, OF(ops_per_s), 1e9},
    {"path", 6, short_percent, OF(path), 1},
    {"slack", 6, short_time, OF(slack_ns), 1},
    {"budget", 6, short_number, OF(budget), 1},
};

/* Columns that are left out first come first. */
static const enum column NARROW[] = {OPS, COUNT, SLACK, BUDGET, BAR, BYTES, PATH, TIME, SHARE};

/* The widths of a table in a frame; 0: the column is left out. The bar gets what the others leave. */
static void choose_columns(size_t width[N_COLUMNS], const struct bn_top *top)
{
    size_t sum = 0, columns = top->columns;
    for (size_t i = 0; i < N_COLUMNS; i++) {
        width[i] = i == BUDGET && (!top->budget.given || top->view.of_pass) ? 0 : COLUMNS[i].width;
        if (i == NAME && columns >= 100) width[i] += 8; /* the names of kernels */
        sum += width[i] > 0 ? width[i] + 1 : 0;
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(NARROW) && sum > columns; i++) {
        sum -= width[NARROW[i]] > 0 ? width[NARROW[i]] + 1 : 0;
        width[NARROW[i]] = 0;
    }
    if (width[BAR] > 0) width[BAR] += columns - sum < 36 ? columns - sum : 36;
}

static void put_cell(struct bn_buf *out, const char *text, size_t width)
{
    if (width > 0) bn_buf_printf(out, " %*.*s", (int)width, (int)width, text);
}

/* ---- the head ---- */

static void put_process(struct bn_buf *out, const struct bn_top *top)
{
    const struct bn_live_head *h = &top->now->head;
    uint64_t end = top->now->has_ended ? top->now->updated_ns : top->now->read_ns;
    uint64_t up = end > h->started_ns ? (end - h->started_ns) / 1000000000u : 0;
    const char *slash = strrchr(h->model, '/');
    char time[BN_PROGRESS_TIME_ROOM];
    bn_buf_puts(out, h->program);
    if (h->pid != 0) bn_buf_printf(out, " %u", h->pid);
    bn_buf_printf(out, "  %s  %s  %s  %s x%u",
                  top->view.is_paused ? "paused" : bn_top_state_names[top->state], bn_progress_time(time, up),
                  slash != NULL ? slash + 1 : h->model, h->isa, h->n_threads);
}

static void put_rate(struct bn_buf *out, const char *name, double n, double seconds, const char *unit)
{
    double rate = seconds > 0 ? fmin(n / seconds, 9999999) : 0;
    bn_buf_printf(out, "%s%.*f %s  ", name, rate < 100 ? 1 : 0, rate, unit);
}

static void put_rates(struct bn_buf *out, const struct bn_top *top)
{
    const struct bn_live_load *load = &top->now->load;
    const struct bn_live_sums *w = &top->shown.sums;
    bool at_rest = top->state >= BN_TOP_IDLE && !top->view.since_start;
    double seconds = at_rest ? 0 : top->shown.seconds, logits = (double)w->n_logits,
           tokens = (double)w->n_tokens;
    put_rate(out, "output ", logits, seconds, "tok/s");
    put_rate(out, "prompt ", tokens > logits ? tokens - logits : 0, seconds, "tok/s");
    put_rate(out, "", (double)w->n_passes, seconds, "passes/s");
    if (load->n_sequences > 0)
        bn_buf_printf(out, "sequences %llu/%llu  queue %llu", (unsigned long long)load->n_running,
                      (unsigned long long)load->n_sequences, (unsigned long long)load->n_waiting);
}

/* 0 of nothing. */
static double share_of(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static void put_times(struct bn_buf *out, const struct bn_top *top)
{
    const struct bn_live_sums *w = &top->shown.sums;
    char a[16], b[16];
    double passes = (double)w->n_passes, passes_ns = (double)w->passes_ns;
    bn_buf_printf(out, "busy %s  ", short_percent(a, share_of(passes_ns / 1e9, top->shown.seconds)));
    if (passes > 0)
        bn_buf_printf(out, "pass %s, %s tok  ", short_time(a, passes_ns / passes),
                      short_number(b, (double)w->n_tokens / passes));
    bn_buf_printf(out, "waiting %s  ", short_percent(a, share_of((double)w->wait_ns, (double)w->bricks_ns)));
    if (top->pass.known)
        bn_buf_printf(out, "path %s  work/path %.2f  ", short_time(a, (double)top->pass.schedule.path_ns),
                      bn_schedule_parallelism(&top->pass.schedule));
    if (top->now->sums.dropped > 0)
        bn_buf_printf(out, "dropped %llu", (unsigned long long)top->now->sums.dropped);
}

static void put_note(struct bn_buf *out, const struct bn_top *top)
{
    const struct bn_live_sums *all = &top->now->sums;
    const struct bn_prof_pass *pass =
        top->replay.at > 0 ? &top->replay.prof->passes[top->replay.at - 1] : NULL;
    char room[16];
    if (top->trouble[0] != '\0')
        bn_buf_printf(out, "not refreshed: %s", top->trouble);
    else if (top->now->has_ended)
        bn_buf_puts(out, "the process has ended; this is its last state");
    else if (top->view.of_pass && !top->pass.known)
        bn_buf_printf(out, "no tree: %s", top->pass.why.msg);
    else if (all->n_passes == 0)
        bn_buf_puts(out, "no pass has run yet");
    else if (top->state == BN_TOP_RECORDED)
        bn_buf_printf(out, "pass %zu of %zu: %u token%s from position %u on", top->replay.at,
                      top->replay.n_passes, pass->n_tokens, bn_cli_s(pass->n_tokens), pass->position);
    else if (all->n_measured < all->n_passes)
        bn_buf_printf(out, "passes are short: %s of them are measured",
                      short_percent(room, (double)all->n_measured / (double)all->n_passes));
}

static void put_titles(struct bn_buf *out, const struct bn_top *top)
{
    char name[64];
    size_t width[N_COLUMNS];
    choose_columns(width, top);
    if (top->view.of_pass)
        snprintf(name, sizeof name, "pass %llu", (unsigned long long)top->now->pass_number);
    else
        snprintf(name, sizeof name, "brick (%s)", top->view.since_start ? "since start" : "now");
    bn_buf_printf(out, "%-*.*s", (int)width[NAME], (int)width[NAME], name);
    for (size_t i = SHARE; i < N_COLUMNS; i++)
        put_cell(out, COLUMNS[i].head, width[i]);
}

/* ---- rows ---- */

static void put_row(struct bn_top_line *line, struct bn_buf *out, const struct bn_top *top,
                    const struct bn_top_row *row)
{
    size_t width[N_COLUMNS];
    char name[128], room[16];
    const char *mark = !row->has_children ? "" : row->is_folded ? "+ " : "- ";
    choose_columns(width, top);
    /* Leaves have no mark; those in a category begin where its name does. */
    snprintf(name, sizeof name, "%*s%s%s", (int)(2 * row->depth), "", mark, row->name);
    bn_buf_printf(out, "%-*.*s", (int)width[NAME], (int)width[NAME], name);
    for (size_t i = SHARE; i < N_COLUMNS; i++) {
        double value = *(const double *)(const void *)((const char *)row + COLUMNS[i].offset);
        if (i != BAR) put_cell(out, COLUMNS[i].text(room, value / COLUMNS[i].unit), width[i]);
        double share = isfinite(row->share) ? fmin(fmax(row->share, 0), 1) : 0;
        for (size_t n = 0; i == BAR && width[BAR] > 0 && n <= width[BAR]; n++)
            bn_buf_putc(out, n > 0 && (double)n <= round(share * (double)width[BAR]) ? '#' : ' ');
    }
    line->has_row = true;
    line->category = row->category;
}

static void put_keys(struct bn_buf *out, const struct bn_top *top)
{
    static const char *const SORTS[BN_TOP_SORTS] = {"time", "order", "critical path", "slack"};
    const char *p = top->state == BN_TOP_RECORDED ? "n, b next pass, back"
                    : top->view.is_paused         ? "p go on"
                                                  : "p pause";
    bn_buf_printf(out, "q quit  %s  s sort: %s  c %s  tab %s  ? help", p, SORTS[top->view.sort],
                  top->view.since_start ? "now" : "since start", top->view.of_pass ? "bricks" : "pass");
}

/* ---- lines ---- */

void bn_top_put_line(struct bn_top_line *line, const struct bn_top *top, size_t i)
{
    static void (*const HEAD[BN_TOP_HEAD_LINES])(struct bn_buf *, const struct bn_top *) = {
        put_process, put_rates, put_times, put_note, put_titles};
    static const enum bn_top_style STYLES[BN_TOP_HEAD_LINES] = {BN_TOP_HEAD, BN_TOP_PLAIN, BN_TOP_PLAIN,
                                                                BN_TOP_WARNING, BN_TOP_TITLE};
    struct bn_buf text = {.max = sizeof line->text - 1};
    *line = (struct bn_top_line){.style = i < BN_TOP_HEAD_LINES   ? STYLES[i]
                                          : i == BN_TOP_KEYS_LINE ? BN_TOP_TITLE
                                                                  : BN_TOP_PLAIN};
    if (i < BN_TOP_HEAD_LINES)
        HEAD[i](&text, top);
    else if (i == BN_TOP_KEYS_LINE)
        put_keys(&text, top);
    else
        put_row(line, &text, top, &top->rows.list[i - BN_TOP_HEAD_LINES]);
    snprintf(line->text, sizeof line->text, "%s", bn_buf_text(&text));
    bn_buf_release(&text);
    for (size_t n = strlen(line->text); n > 0 && line->text[n - 1] == ' '; n--)
        line->text[n - 1] = '\0';
    for (size_t at = 0, n = 0; line->text[at] != '\0'; at++) { /* a byte that continues no character is one */
        n += ((unsigned char)line->text[at] & 0xC0u) != 0x80u;
        if (n > top->columns) line->text[at] = '\0';
    }
}
