/* SPDX-License-Identifier: MIT
 *
 * A table of cells, filled once and written as text, Markdown, HTML, CSV or JSON. People read rounded numbers; the
 * HTML form has the exact one in the title of its cell.
 *
 * Filling: bn_table_begin, then for each row bn_table_row and one call for each cell, from left to right.
 * Cells that are left out are empty. A lack of memory shows when the table is written: the buffer has failed.
 */
#ifndef BN_REPORT_TABLE_H
#define BN_REPORT_TABLE_H

#include "lab/report/page.h"
#include "lab/report/units.h"

struct bn_table_cell {
    char *text;
    char *exact; /* for programs: the exact number, the key of a test; NULL: the text */
};
struct bn_table {
    const char *const *heads;
    /* For each column: 'l' text, 'r' a number, 'h' numbers only for people, 'n' a note, 'c' only for programs. These follow the others. A note
     * is the last of the others; in HTML it is a line of its own below the row. */
    const char *align;
    size_t n_cols, n_shown, n_rows, n_cells, room;
    struct bn_table_cell *cells; /* room rows */
    const char **kinds;          /* of a row: "bad", "warn", "ok", "" */
    bool
        side_by_side; /* every number is needed: first texts become lines above the rows rather than one is left out */
    bool failed;
};

void bn_table_begin(struct bn_table *table, const char *const *heads, const char *align);
void bn_table_release(struct bn_table *table);
void bn_table_row(struct bn_table *table, const char *kind);

void bn_table_text(struct bn_table *table, const char *text);
void bn_table_printf(struct bn_table *table, const char *fmt, ...) BN_PRINTF(2, 3);
/* The name of a test for people, after "before: " unless that is empty; for programs, the key. */
void bn_table_test(struct bn_table *table, const char *before, const char *key);
void bn_table_count(struct bn_table *table, size_t n);
/* "5.343 ms"; "5.301 - 5.402" in the unit of `of`; "+1.23 %"; units as in units.h */
void bn_table_value(struct bn_table *table, double value, const char *unit);
void bn_table_range(struct bn_table *table, double low, double high, double of, const char *unit);
void bn_table_percent(struct bn_table *table, double share, bool sign);
/* A number of a document with four digits, or a dash; its exact text is as bn_json_write writes it. */
void bn_table_rounded(struct bn_table *table, const bn_json *value);
/* The exact number of the cell written last; none when it is not finite. */
void bn_table_exact(struct bn_table *table, double value, const char *unit);
/* The exact number as the text: empty when it is not finite. */
void bn_table_number(struct bn_table *table, double value);

/* As many columns as fit into 80; the others are named below the table. When the columns up to the last text
 * do not fit, the first texts become lines above the rows. Notes follow the table, each once with the names of
 * its rows: the texts before the first number. Notes of rows that are "ok" are left out. Control characters
 * are written as \xNN. */
void bn_table_put_text(struct bn_buf *out, const struct bn_table *table);
void bn_table_put_markdown(struct bn_buf *out, const struct bn_table *table);
/* At most n_max rows, the rest is counted below. The class "sortable" needs the script of the page. */
void bn_table_put_html(struct bn_buf *out, const struct bn_table *table, const char *class_name,
                       size_t n_max);
/* RFC 4180. Numbers are exact, without units. A text that a spreadsheet would evaluate begins with an apostrophe. */
void bn_table_put_csv(struct bn_buf *out, const struct bn_table *table);
/* A member of an object: an array with an object for each row, whose members are the columns; exact numbers. */
void bn_table_put_json(bn_json *object, const char *name, const struct bn_table *table);

/* One text with what its form escapes, for lines that are not in a table. */
void bn_text_put(struct bn_buf *out, const char *text);
void bn_markdown_put(struct bn_buf *out, const char *text);

#endif
