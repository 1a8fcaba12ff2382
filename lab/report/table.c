/* SPDX-License-Identifier: MIT
 *
 * Tables: the cells, and the five forms that they are written in.
 */
#include "lab/report/table.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/utf8.h"
#include "lab/report/page.h"

#define CELL_MAX (1u << 16)
#define TEXT_COLUMNS 80u
#define COLUMNS_MAX 24u
#define LEAST_NAME 24u /* columns */
#define NAMES_MAX 3u   /* rows that a note names; of more, only the first */

/* ---- cells ---- */

void bn_table_begin(struct bn_table *t, const char *const *heads, const char *align)
{
    *t = (struct bn_table){
        .heads = heads, .align = align, .n_cols = strlen(align), .n_shown = strcspn(align, "c")};
}

void bn_table_release(struct bn_table *t)
{
    for (size_t i = 0; i < t->n_rows * t->n_cols; i++) {
        bn_free(t->cells[i].text);
        bn_free(t->cells[i].exact);
    }
    bn_free(t->cells);
    bn_free(t->kinds);
    *t = (struct bn_table){0};
}

void bn_table_row(struct bn_table *t, const char *kind)
{
    if (t->n_rows == t->room) {
        size_t room = t->room * 2 + 16;
        struct bn_table_cell *cells = bn_realloc(t->cells, room * t->n_cols, sizeof *cells);
        if (cells != NULL) t->cells = cells;
        const char **kinds = bn_realloc(t->kinds, room, sizeof *kinds);
        if (kinds != NULL) t->kinds = kinds;
        t->failed = t->failed || cells == NULL || kinds == NULL;
        if (!t->failed) t->room = room;
    }
    if (t->failed) return;
    for (size_t c = 0; c < t->n_cols; c++)
        t->cells[t->n_rows * t->n_cols + c] = (struct bn_table_cell){0};
    t->kinds[t->n_rows] = kind;
    t->n_cells = t->n_rows++ * t->n_cols;
}

/* Moves the text into the next cell of the row. */
static void take(struct bn_table *t, struct bn_buf *text)
{
    if (text->failed) t->failed = true;
    if (!t->failed && t->n_cells < t->n_rows * t->n_cols) {
        char *copy = bn_strndup(bn_buf_text(text), text->len);
        t->cells[t->n_cells++].text = copy;
        t->failed = copy == NULL;
    }
    bn_buf_release(text);
}

void bn_table_text(struct bn_table *t, const char *text)
{
    struct bn_buf b = {.max = CELL_MAX};
    bn_buf_puts(&b, text);
    take(t, &b);
}

void bn_table_printf(struct bn_table *t, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    bn_table_text(t, text);
}

void bn_table_test(struct bn_table *t, const char *before, const char *key)
{
    char name[BN_TEST_ROOM];
    const char *colon = before[0] != '\0' ? ": " : "";
    bn_test_name(name, key);
    bn_table_printf(t, "%s%s%s", before, colon, name);
    if (t->failed || t->n_cells == 0 || strcmp(name, key) == 0) return;
    struct bn_buf b = {.max = CELL_MAX};
    bn_buf_printf(&b, "%s%s%s", before, colon, key);
    t->failed = b.failed;
    t->cells[t->n_cells - 1].exact = b.data;
}

void bn_table_count(struct bn_table *t, size_t n)
{
    bn_table_printf(t, "%zu", n);
}

void bn_table_exact(struct bn_table *t, double value, const char *unit)
{
    struct bn_buf b = {.max = CELL_MAX};
    if (t->failed || t->n_cells == 0 || !isfinite(value)) return;
    bn_json_write_number(&b, value);
    if (strcmp(unit, "1") != 0) bn_buf_printf(&b, " %s", unit);
    char *copy = b.data != NULL ? bn_strndup(b.data, b.len) : NULL;
    t->cells[t->n_cells - 1].exact = copy;
    t->failed = copy == NULL || b.failed;
    bn_buf_release(&b);
}

void bn_table_value(struct bn_table *t, double value, const char *unit)
{
    struct bn_buf b = {.max = CELL_MAX};
    bn_units_value(&b, value, unit);
    take(t, &b);
    bn_table_exact(t, value, unit);
}

void bn_table_range(struct bn_table *t, double low, double high, double of, const char *unit)
{
    struct bn_units_scale scale = bn_units_scale(unit, of);
    struct bn_buf b = {.max = CELL_MAX};
    bn_units_number(&b, low, scale);
    if (isfinite(low) && isfinite(high)) {
        bn_buf_puts(&b, " \xE2\x80\x93 ");
        bn_units_number(&b, high, scale);
    }
    take(t, &b);
}

void bn_table_percent(struct bn_table *t, double share, bool sign)
{
    struct bn_buf b = {.max = CELL_MAX};
    bn_units_percent(&b, share, sign);
    take(t, &b);
    bn_table_exact(t, share, "1");
}

void bn_table_rounded(struct bn_table *t, const bn_json *value)
{
    struct bn_buf b = {.max = CELL_MAX};
    double number = (double)NAN;
    (void)bn_json_number(value, &number);
    /* Of a number just below 1, the distance to 1 matters. */
    bn_html(&b, fabs(number) > 0.99 && fabs(number) < 1 ? "%.7g" : "%.4g", number);
    take(t, &b);
    bn_table_exact(t, number, "1");
}

void bn_table_number(struct bn_table *t, double value)
{
    struct bn_buf b = {.max = CELL_MAX};
    if (isfinite(value)) bn_json_write_number(&b, value);
    take(t, &b);
}

/* The text of a cell; "" of one that was left out. */
static const char *text_at(const struct bn_table *t, size_t row, size_t column)
{
    const char *text = t->cells[row * t->n_cols + column].text;
    return text != NULL ? text : "";
}

static bool is_number(const struct bn_table *t, size_t column)
{
    return t->align[column] == 'r' || t->align[column] == 'h';
}

/* ---- text ---- */

static size_t width_of(const char *text)
{
    return bn_utf8_count(text, strlen(text));
}

static void put_padded(struct bn_buf *out, const char *text, size_t width, bool right)
{
    char shown[1024];
    bn_escape(shown, sizeof shown, text, strlen(text));
    int pad = (int)width - (int)width_of(shown);
    if (right && pad > 0) bn_buf_printf(out, "%*s", pad, "");
    bn_buf_puts(out, shown);
    if (!right && pad > 0) bn_buf_printf(out, "%*s", pad, "");
}

void bn_text_put(struct bn_buf *out, const char *text)
{
    put_padded(out, text, 0, false);
}

/* How a table is laid out as text: the widths, and the columns that are shown. */
struct text_layout {
    size_t width[COLUMNS_MAX];
    size_t first, end;
};

/* The columns from `first` on that fit; texts before the first number are shown in any case. */
static size_t end_of(const struct text_layout *l, const struct bn_table *t, size_t n_cols, size_t first)
{
    size_t at = 0, end = first;
    for (size_t c = first; c < n_cols; c++) {
        at += l->width[c] + (c > 0 ? 2 : 0);
        if (at <= TEXT_COLUMNS || c <= strcspn(t->align, "rh")) end = c + 1;
    }
    return end;
}

static void lay_out(struct text_layout *l, const struct bn_table *t, size_t n_cols)
{
    size_t needed = n_cols;
    *l = (struct text_layout){0};
    for (size_t c = 0; c < n_cols; c++) {
        l->width[c] = width_of(t->heads[c]);
        for (size_t i = 0; i < t->n_rows; i++) {
            char shown[1024];
            const char *text = text_at(t, i, c);
            size_t wide = width_of(bn_escape(shown, sizeof shown, text, strlen(text)));
            if (wide > l->width[c]) l->width[c] = wide;
        }
    }
    while (!t->side_by_side && needed > 0 && t->align[needed - 1] != 'l')
        needed--;
    l->end = end_of(l, t, n_cols, 0);
    if (l->end < needed && t->align[1] != 'l') { /* the longest names get lines of their own */
        size_t others = 0;
        for (size_t c = 1; c < n_cols; c++)
            others += 2 + l->width[c];
        if (others + LEAST_NAME > TEXT_COLUMNS) return;
        l->width[0] = TEXT_COLUMNS - others;
        l->end = n_cols;
    }
    while (l->end < needed && t->align[l->first] == 'l' && t->align[l->first + 1] != '\0')
        l->end = end_of(l, t, n_cols, ++l->first);
}

/* The first n texts of a row. */
static void put_name(struct bn_buf *out, const struct bn_table *t, size_t row, size_t n)
{
    for (size_t c = 0; c < n; c++) {
        if (c > 0) bn_buf_putc(out, ' ');
        put_padded(out, text_at(t, row, c), 0, false);
    }
}

static void put_text_row(struct bn_buf *out, const struct bn_table *t, const struct text_layout *l,
                         size_t row, bool head)
{
    bool same = row > 0 && !head;
    for (size_t c = 0; c < l->first && same; c++)
        same = strcmp(text_at(t, row, c), text_at(t, row - 1, c)) == 0;
    if (l->first > 0 && !head && !same) {
        put_name(out, t, row, l->first);
        bn_buf_putc(out, '\n');
    }
    size_t start = out->len;
    for (size_t c = l->first; c < l->end; c++) {
        if (c > 0) bn_buf_puts(out, "  ");
        const char *text = head ? t->heads[c] : text_at(t, row, c);
        put_padded(out, text, l->width[c], is_number(t, c));
        if (c == 0 && width_of(text) > l->width[c]) bn_buf_printf(out, "\n%*s", (int)l->width[c], "");
    }
    while (!out->failed && out->len > start && out->data[out->len - 1] == ' ')
        out->data[--out->len] = '\0';
    bn_buf_putc(out, '\n');
}

/* A note in lines of at most 80 columns. */
static void put_wrapped(struct bn_buf *out, const char *text)
{
    char shown[1024];
    bn_escape(shown, sizeof shown, text, strlen(text));
    size_t at = 0;
    for (const char *word = shown + strspn(shown, " "); *word != '\0'; word += strspn(word, " ")) {
        size_t bytes = strcspn(word, " ");
        bool fits = at > 0 && at + 1 + bytes <= TEXT_COLUMNS;
        bn_buf_puts(out, fits ? " " : at > 0 ? "\n    " : "    ");
        bn_buf_append(out, word, bytes);
        at = (fits ? at + 1 : 4) + bytes;
        word += bytes;
    }
    if (at > 0) bn_buf_putc(out, '\n');
}

/* Whether row k shows the same note as row i. */
static bool shares_note(const struct bn_table *t, size_t i, size_t k)
{
    size_t note = t->n_shown - 1;
    return strcmp(t->kinds[k], "ok") != 0 && strcmp(text_at(t, i, note), text_at(t, k, note)) == 0;
}

/* The notes below a table, each once, with the names of its rows. */
static void put_notes(struct bn_buf *out, const struct bn_table *t)
{
    size_t n_texts = strcspn(t->align, "rhn");
    for (size_t i = 0; i < t->n_rows; i++) {
        struct bn_buf line = {.max = CELL_MAX};
        size_t n = 0;
        bool first = text_at(t, i, t->n_shown - 1)[0] != '\0' && strcmp(t->kinds[i], "ok") != 0;
        for (size_t k = 0; k < i && first; k++)
            first = !shares_note(t, i, k);
        for (size_t k = i; k < t->n_rows && first; k++)
            n += shares_note(t, i, k);
        for (size_t k = i, named = 0; k < t->n_rows && named < (n > NAMES_MAX ? 1 : n); k++) {
            if (!shares_note(t, i, k)) continue;
            if (named++ > 0) bn_buf_puts(&line, ", ");
            put_name(&line, t, k, n_texts);
        }
        if (n > NAMES_MAX) bn_buf_printf(&line, " and %zu more", n - 1);
        if (first) bn_buf_printf(&line, ": %s", text_at(t, i, t->n_shown - 1));
        out->failed = out->failed || line.failed;
        if (first && !line.failed) put_wrapped(out, line.data);
        bn_buf_release(&line);
    }
}

void bn_table_put_text(struct bn_buf *out, const struct bn_table *t)
{
    bool noted = t->align[t->n_shown - 1] == 'n';
    size_t n_cols = bn_min_size(t->n_shown - noted, COLUMNS_MAX);
    struct text_layout l;
    out->failed = out->failed || t->failed;
    if (out->failed) return;
    lay_out(&l, t, n_cols);
    put_text_row(out, t, &l, 0, true);
    for (size_t i = 0; i < t->n_rows; i++)
        put_text_row(out, t, &l, i, false);
    if (l.end < n_cols) bn_buf_puts(out, "not shown:");
    for (size_t c = l.end; c < n_cols; c++)
        bn_buf_printf(out, "%s %s", c > l.end ? "," : "", t->heads[c]);
    if (l.end < n_cols) bn_buf_putc(out, '\n');
    if (noted) put_notes(out, t);
}

/* ---- Markdown ---- */

/* No text becomes markup, a link or a new cell. */
void bn_markdown_put(struct bn_buf *out, const char *text)
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

void bn_table_put_markdown(struct bn_buf *out, const struct bn_table *t)
{
    out->failed = out->failed || t->failed;
    for (size_t c = 0; c < t->n_shown; c++)
        bn_buf_printf(out, "| %s ", t->heads[c]);
    bn_buf_puts(out, "|\n");
    for (size_t c = 0; c < t->n_shown; c++)
        bn_buf_puts(out, is_number(t, c) ? "|---:" : "|---");
    bn_buf_puts(out, "|\n");
    for (size_t i = 0; i < t->n_rows && !out->failed; i++) {
        for (size_t c = 0; c < t->n_shown; c++) {
            bn_buf_puts(out, "| ");
            bn_markdown_put(out, text_at(t, i, c));
            bn_buf_putc(out, ' ');
        }
        bn_buf_puts(out, "|\n");
    }
}

/* ---- HTML ---- */

static void put_html_cell(struct bn_buf *out, const struct bn_table *t, size_t row, size_t column)
{
    const struct bn_table_cell *cell = &t->cells[row * t->n_cols + column];
    bn_html(out, column == 0 ? "<th scope=\"row\"" : "<td");
    if (t->align[column] == 'l') bn_html(out, " class=\"left\"");
    if (cell->exact != NULL) bn_html(out, " title=\"%s\"", cell->exact);
    bn_html(out, ">");
    if (column == 0) bn_page_mark(out, t->kinds[row]);
    bn_html(out, "%s</%s>", text_at(t, row, column), column == 0 ? "th" : "td");
}

void bn_table_put_html(struct bn_buf *out, const struct bn_table *t, const char *class_name, size_t n_max)
{
    bool note = t->align[t->n_shown - 1] == 'n';
    size_t n_cols = t->n_shown - note, n = bn_min_size(t->n_rows, n_max);
    out->failed = out->failed || t->failed;
    bn_html(out, "<div class=\"scroll\" tabindex=\"0\"><table class=\"figures %s %s\"><thead><tr>",
            class_name, note ? "noted" : "");
    for (size_t c = 0; c < n_cols; c++)
        bn_html(out, "<th scope=\"col\" class=\"%s\">%s</th>", t->align[c] == 'l' ? "left" : "", t->heads[c]);
    bn_html(out, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < n && !out->failed; i++) {
        const char *broken = strcmp(t->kinds[i], "bad") == 0 ? "broken" : "";
        bn_html(out, "<tr class=\"%s\">", broken);
        for (size_t c = 0; c < n_cols; c++)
            put_html_cell(out, t, i, c);
        bn_html(out, "</tr>\n");
        if (note)
            bn_html(out, "<tr class=\"why %s\"><td colspan=\"%zu\"><div>%s</div></td></tr>\n", broken, n_cols,
                    text_at(t, i, n_cols));
    }
    bn_html(out, "</tbody></table></div>\n");
    if (n < t->n_rows)
        bn_html(out, "<p class=\"what\">The first %zu of %zu rows; --format csv has all of them.</p>\n", n,
                t->n_rows);
}

/* ---- for programs ---- */

/* The text of a cell for programs: the key of a test, not its name. */
static const char *key_at(const struct bn_table *t, size_t row, size_t column)
{
    const char *exact = t->cells[row * t->n_cols + column].exact;
    return exact != NULL ? exact : text_at(t, row, column);
}

/* The exact number of a cell, which a space and its unit may follow; NULL when it has none. */
static const char *number_at(const struct bn_table *t, size_t row, size_t column)
{
    const char *exact = t->cells[row * t->n_cols + column].exact, *text = text_at(t, row, column);
    char *end;
    if (t->align[column] == 'l' || t->align[column] == 'n') return NULL;
    if (exact != NULL) return exact;
    (void)strtod(text, &end);
    return end > text && *end == '\0' ? text : NULL;
}

/* Control characters as \xNN, an apostrophe before a formula, quotes where RFC 4180 asks for them. */
static void put_csv(struct bn_buf *out, const char *text)
{
    size_t n = strlen(text), room = 4 * n + 1;
    char *shown = bn_alloc(room, 1);
    if (shown == NULL) {
        out->failed = true;
        return;
    }
    bn_escape(shown, room, text, n);
    bool formula = shown[0] != '\0' && strchr("=+-@", shown[0]) != NULL;
    bool quoted = strcspn(shown, "\",") < strlen(shown);
    if (quoted) bn_buf_putc(out, '"');
    if (formula) bn_buf_putc(out, '\'');
    for (const char *c = shown; *c != '\0'; c++) {
        if (*c == '"') bn_buf_putc(out, '"');
        bn_buf_putc(out, *c);
    }
    if (quoted) bn_buf_putc(out, '"');
    bn_free(shown);
}

/* The next column for programs from `column` on. */
static size_t next_column(const struct bn_table *t, size_t column)
{
    return column + strspn(t->align + column, "h");
}

void bn_table_put_csv(struct bn_buf *out, const struct bn_table *t)
{
    out->failed = out->failed || t->failed;
    for (size_t c = 0; c < t->n_cols; c = next_column(t, c + 1))
        bn_buf_printf(out, "%s%s", c > 0 ? "," : "", t->heads[c]);
    bn_buf_puts(out, "\r\n");
    for (size_t i = 0; i < t->n_rows && !out->failed; i++) {
        for (size_t c = 0; c < t->n_cols; c = next_column(t, c + 1)) {
            const char *number = number_at(t, i, c);
            if (c > 0) bn_buf_putc(out, ',');
            if (number != NULL)
                bn_buf_append(out, number, strcspn(number, " ")); /* -1 is not a formula */
            else if (t->align[c] != 'r')
                put_csv(out, key_at(t, i, c));
        }
        bn_buf_puts(out, "\r\n");
    }
}

void bn_table_put_json(bn_json *object, const char *name, const struct bn_table *t)
{
    bn_json *rows = bn_json_put_array(object, name);
    for (size_t i = 0; i < t->n_rows; i++) {
        bn_json *row = bn_json_add_object(rows);
        for (size_t c = 0; c < t->n_cols; c = next_column(t, c + 1)) {
            const char *number = number_at(t, i, c);
            if (number != NULL)
                bn_json_put_number(row, t->heads[c], strtod(number, NULL));
            else if (t->align[c] != 'r')
                bn_json_put_text(row, t->heads[c], key_at(t, i, c));
            else
                bn_json_put_null(row, t->heads[c]);
        }
    }
}
