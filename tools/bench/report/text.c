/* SPDX-License-Identifier: MIT
 *
 * A report as text for a terminal, and as Markdown for a comment on a change.
 */
#include "base/error.h"
#include "tools/bench/report/report.h"

typedef void (*table_of)(struct bn_report_table *t, const struct bn_report *r);
static const struct {
    const char *title;
    table_of make;
} TABLES[] = {{"Comparisons", bn_report_table_comparisons},
              {"Measurements", bn_report_table_series},
              {"Kernels and their limits", bn_report_table_points},
              {"Bricks", bn_report_table_bricks},
              {"Over time", bn_report_table_trends}};

/* ---- text ---- */

static size_t columns(const char *text)
{
    size_t n = 0;
    for (const char *c = text; *c != '\0'; c++)
        n += ((unsigned char)*c & 0xC0) != 0x80;
    return n;
}

/* Names come from files: what a terminal would act upon is shown as \xNN. */
static void put_safe(struct bn_buf *out, const char *text, size_t width, bool right)
{
    char shown[1024];
    bn_escape(shown, sizeof shown, text, strlen(text));
    size_t n = columns(shown);
    if (right && n < width) bn_buf_printf(out, "%*s", (int)(width - n), "");
    bn_buf_puts(out, shown);
    if (!right && n < width) bn_buf_printf(out, "%*s", (int)(width - n), "");
}

static void text_row(struct bn_buf *out, const struct bn_report_table *t, const size_t *width, size_t row,
                     bool head)
{
    size_t start = out->len;
    for (size_t c = 0; c < t->n_cols; c++) {
        if (c > 0) bn_buf_puts(out, "  ");
        put_safe(out, head ? t->heads[c] : t->cells[row * t->n_cols + c].text, width[c], t->align[c] == 'r');
    }
    while (!out->failed && out->len > start && out->data[out->len - 1] == ' ')
        out->data[--out->len] = '\0';
    bn_buf_putc(out, '\n');
}

static void text_table(struct bn_buf *out, const struct bn_report_table *t)
{
    size_t width[16];
    for (size_t c = 0; c < t->n_cols; c++) {
        width[c] = columns(t->heads[c]);
        for (size_t i = 0; i < t->n_rows; i++) {
            char shown[1024];
            const char *text = t->cells[i * t->n_cols + c].text;
            size_t n = columns(bn_escape(shown, sizeof shown, text, strlen(text)));
            if (n > width[c]) width[c] = n;
        }
    }
    text_row(out, t, width, 0, true);
    for (size_t i = 0; i < t->n_rows; i++)
        text_row(out, t, width, i, false);
}

static void text_findings(struct bn_buf *out, const struct bn_report *r)
{
    if (r->n_findings > 0) bn_buf_puts(out, "\nFindings\n");
    for (size_t i = 0; i < r->n_findings; i++) {
        bn_buf_printf(out, "%-5s ", r->findings[i].kind);
        put_safe(out, r->findings[i].text, 0, false);
        bn_buf_puts(out, " (");
        put_safe(out, r->findings[i].evidence, 0, false);
        bn_buf_puts(out, ")\n");
        if (r->findings[i].n_more > 0)
            bn_buf_printf(out, "      and %zu more like it\n", r->findings[i].n_more);
    }
}

typedef void (*put_table)(struct bn_buf *out, const struct bn_report_table *t);

/* Every table that has rows, under its title. */
static bn_status put_tables(struct bn_buf *out, const struct bn_report *r, const char *before,
                            const char *after, put_table put, bn_error *err)
{
    bn_status status = BN_OK;
    for (size_t i = 0; i < BN_ARRAY_LEN(TABLES) && status == BN_OK; i++) {
        struct bn_report_table t;
        TABLES[i].make(&t, r);
        if (t.failed)
            status = bn_nomem(err);
        else if (t.n_rows > 0) {
            bn_buf_printf(out, "%s%s%s", before, TABLES[i].title, after);
            put(out, &t);
        }
        bn_report_table_release(&t);
    }
    return status;
}

bn_status bn_report_text(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    bn_report_headline(out, r);
    bn_buf_putc(out, '\n');
    for (size_t i = 0; i < r->n_sources; i++) {
        struct bn_buf line = {.max = 1u << 16};
        bn_report_put_origin(&line, &r->sources[i]);
        put_safe(out, line.data != NULL ? line.data : "", 0, false);
        bn_buf_putc(out, '\n');
        bn_buf_release(&line);
    }
    BN_TRY(put_tables(out, r, "\n", "\n", text_table, err));
    text_findings(out, r);
    return bn_buf_check(out, err);
}

/* ---- Markdown ---- */

/* No text becomes markup, a link, or a new cell: what Markdown or HTML would act upon is escaped, what cannot
 * be shown is written as \xNN. */
static void put_plain(struct bn_buf *out, const char *text)
{
    char shown[1024];
    bn_escape(shown, sizeof shown, text, strlen(text));
    for (const char *c = shown; *c != '\0'; c++) {
        if (*c == '<' || *c == '>' || *c == '&')
            bn_buf_puts(out, *c == '<' ? "&lt;" : *c == '>' ? "&gt;" : "&amp;");
        else if (strchr("\\`*_[]|~#!@", *c) != NULL)
            bn_buf_printf(out, "\\%c", *c);
        else
            bn_buf_putc(out, *c);
    }
}

static void markdown_table(struct bn_buf *out, const struct bn_report_table *t)
{
    for (size_t c = 0; c < t->n_cols; c++)
        bn_buf_printf(out, "| %s ", t->heads[c]);
    bn_buf_puts(out, "|\n");
    for (size_t c = 0; c < t->n_cols; c++)
        bn_buf_puts(out, t->align[c] == 'r' ? "|---:" : "|---");
    bn_buf_puts(out, "|\n");
    for (size_t i = 0; i < t->n_rows; i++) {
        for (size_t c = 0; c < t->n_cols; c++) {
            bn_buf_puts(out, "| ");
            put_plain(out, t->cells[i * t->n_cols + c].text);
            bn_buf_putc(out, ' ');
        }
        bn_buf_puts(out, "|\n");
    }
}

bn_status bn_report_markdown(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    bn_buf_puts(out, "# ");
    bn_report_headline(out, r);
    bn_buf_puts(out, "\n\n");
    for (size_t i = 0; i < r->n_sources; i++) {
        struct bn_buf line = {.max = 1u << 16};
        bn_report_put_origin(&line, &r->sources[i]);
        bn_buf_puts(out, "- ");
        put_plain(out, line.data != NULL ? line.data : "");
        bn_buf_putc(out, '\n');
        bn_buf_release(&line);
    }
    BN_TRY(put_tables(out, r, "\n## ", "\n\n", markdown_table, err));
    if (r->n_findings > 0) bn_buf_puts(out, "\n## Findings\n\n");
    for (size_t i = 0; i < r->n_findings; i++) {
        bn_buf_printf(out, "- **%s** ", r->findings[i].kind);
        put_plain(out, r->findings[i].text);
        bn_buf_puts(out, " (");
        put_plain(out, r->findings[i].evidence);
        bn_buf_puts(out, ")");
        if (r->findings[i].n_more > 0) bn_buf_printf(out, "; and %zu more like it", r->findings[i].n_more);
        bn_buf_putc(out, '\n');
    }
    return bn_buf_check(out, err);
}
