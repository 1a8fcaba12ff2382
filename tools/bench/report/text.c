/* SPDX-License-Identifier: MIT
 *
 * A report as text for a terminal, and as Markdown for a comment on a change.
 */
#include "base/error.h"
#include "tools/bench/report/report.h"

/* What the two forms have in common, and what differs. */
struct form {
    const char *head, *origin, *section, *end, *before_kind, *after_kind, *more;
    void (*text)(struct bn_buf *out, const char *text);
    void (*table)(struct bn_buf *out, const struct bn_table *table);
};

/* A line that may be long: names come from files, so what the form acts upon is escaped. */
static void put_line(struct bn_buf *out, const struct form *form, const char *before, struct bn_buf *line)
{
    bn_buf_puts(out, before);
    form->text(out, line->data != NULL ? line->data : "");
    bn_buf_putc(out, '\n');
    out->failed = out->failed || line->failed;
    bn_buf_release(line);
}

static bn_status write_form(struct bn_buf *out, const struct bn_report *r, const struct form *form,
                            bn_error *err)
{
    struct bn_buf line = {.max = 1u << 16};
    bn_report_headline(&line, r);
    put_line(out, form, form->head, &line);
    line = (struct bn_buf){.max = 1u << 16};
    if (bn_report_put_speeds(&line, r)) put_line(out, form, form->end, &line);
    bn_buf_puts(out, form->end);
    for (size_t i = 0; i < r->n_sources; i++) {
        line = (struct bn_buf){.max = 1u << 16};
        bn_report_put_origin(&line, &r->sources[i]);
        put_line(out, form, form->origin, &line);
    }
    for (size_t i = 0; i < BN_REPORT_PARTS; i++) {
        struct bn_table t;
        bn_report_parts[i].fill(&t, r);
        if (t.n_rows > 0 || t.failed) {
            bn_buf_printf(out, "\n%s%s\n%s", form->section, bn_report_parts[i].title, form->end);
            form->table(out, &t);
        }
        bn_table_release(&t);
    }
    if (r->n_findings > 0) bn_buf_printf(out, "\n%sFindings\n%s", form->section, form->end);
    for (size_t i = 0; i < r->n_findings; i++) {
        const struct bn_report_finding *f = &r->findings[i];
        bn_buf_printf(out, "%s%s%s", form->before_kind, f->kind, form->after_kind);
        form->text(out, f->text);
        bn_buf_puts(out, " (");
        form->text(out, f->evidence);
        bn_buf_puts(out, ")");
        if (f->n_more > 0) bn_buf_printf(out, "%sand %zu more like it", form->more, f->n_more);
        bn_buf_putc(out, '\n');
    }
    return bn_buf_check(out, err);
}

bn_status bn_report_text(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    static const struct form TEXT = {"", "", "", "", "", ": ", "; ", bn_text_put, bn_table_put_text};
    return write_form(out, r, &TEXT, err);
}

bn_status bn_report_markdown(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    static const struct form MARKDOWN = {
        "# ", "- ", "## ", "\n", "- **", "** ", "; ", bn_markdown_put, bn_table_put_markdown};
    return write_form(out, r, &MARKDOWN, err);
}
