/* SPDX-License-Identifier: MIT
 *
 * bn-bench report: the command. It reads documents (read.c) and writes them in one format or, with --dir, as
 * the files of a build server.
 */
#include "tools/bench/report/report.h"

#include <stdio.h>

#include "base/file.h"
#include "tools/bench/bench.h"

#define MAX_OUTPUT (256u << 20)

const struct bn_option bn_bench_report_options[] = {
    BN_OPTION("format", "output format [text]",
              .arg = "text|json|csv|markdown|html|github-smaller|github-bigger",
              BN_TO_TEXT(struct bn_bench_options, format)),
    BN_OPTION("output", "output file [standard output]", .letter = 'o', .arg = "FILE",
              BN_TO_TEXT(struct bn_bench_options, output)),
    BN_OPTION("html", "write the report as a page; as --format html -o FILE",
              BN_TO_TEXT(struct bn_bench_options, html)),
    BN_OPTION("dir", "write the report in all formats into this directory", .arg = "DIR",
              BN_TO_TEXT(struct bn_bench_options, dir)),
    {0},
};

static const struct named_form {
    const char *name, *extension; /* of the file that --dir writes; NULL: none */
    bn_report_form form;
} FORMS[] = {{"text", NULL, bn_report_text},
             {"json", "json", bn_report_json},
             {"csv", "csv", bn_report_csv},
             {"markdown", "md", bn_report_markdown},
             {"html", "html", bn_report_html},
             {"github-smaller", NULL, bn_report_github_smaller},
             {"github-bigger", NULL, bn_report_github_bigger}};

/* To a file, or to standard output. */
static bn_status put(const struct bn_report *r, bn_report_form form, const char *path, bn_error *err)
{
    struct bn_buf out = {.max = MAX_OUTPUT};
    bn_status status = form(&out, r, err);
    if (status == BN_OK && out.len == 0)
        status = bn_fail(err, BN_ERR_MISMATCH, "nothing to write in this format");
    if (status == BN_OK) status = bn_cli_write(path, &out, err);
    bn_buf_release(&out);
    return status;
}

static bool is_one_of(const char *format, const struct bn_texts *formats)
{
    for (size_t i = 0; formats != NULL && i < formats->n; i++)
        if (strcmp(formats->list[i], format) == 0) return true;
    return formats == NULL || formats->n == 0;
}

bn_status bn_report_write_dir(const struct bn_report *r, const char *dir, const struct bn_texts *formats,
                              bn_error *err)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(FORMS); i++) {
        struct bn_buf path = {.max = 1u << 16};
        bool none = FORMS[i].form == bn_report_csv && r->n_comparisons + r->n_series == 0;
        if (none || FORMS[i].extension == NULL || !is_one_of(FORMS[i].name, formats)) continue;
        bn_buf_printf(&path, "%s/performance-report.%s", dir, FORMS[i].extension);
        bn_status status = bn_buf_check(&path, err);
        if (status == BN_OK) status = bn_file_make_folders(path.data, err);
        if (status == BN_OK) status = put(r, FORMS[i].form, path.data, err);
        if (status == BN_OK) bn_report_note(0, "%s", path.data);
        bn_buf_release(&path);
        BN_TRY(status);
    }
    return BN_OK;
}

bn_status bn_bench_report(struct bn_args *args, bn_error *err)
{
    struct bn_report r = {0};
    const struct bn_bench_options *o = args->fields;
    if ((o->dir != NULL || o->html != NULL) && (o->format != NULL || o->output != NULL))
        return bn_fail(err, BN_ERR_ARG, "%s cannot be combined with --format or --output",
                       o->dir != NULL ? "--dir" : "--html");
    if (o->html != NULL && (o->dir != NULL || args->json))
        return bn_fail(err, BN_ERR_ARG, "--html cannot be combined with --dir or --json");
    if (args->json && o->format != NULL && strcmp(o->format, "json") != 0)
        return bn_fail(err, BN_ERR_ARG, "--json cannot be combined with --format %s", o->format);
    const char *given = o->html != NULL ? "html" : o->format;
    const char *name = args->json ? "json" : given != NULL ? given : "text";
    const struct named_form *form = FORMS;
    while (strcmp(form->name, name) != 0)
        form++;
    bn_status status = bn_report_read(&r, args->operands, args->n_operands, err);
    if (status == BN_OK && o->dir != NULL)
        status = bn_report_write_dir(&r, o->dir, NULL, err);
    else if (status == BN_OK)
        status = put(&r, form->form, o->html != NULL ? o->html : o->output, err);
    bn_report_release(&r);
    return status;
}
