/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph baseline: README.md, the index of a folder of recordings, from what they say.
 */
#include <stdio.h>

#include "lab/report/html.h"
#include "tools/flamegraph/baseline.h"
#include "tools/flamegraph/page.h"

static void put_cell(struct bn_buf *out, const char *text)
{
    if (text[0] != '\0')
        bn_markdown_code(out, text);
    else
        bn_buf_puts(out, "not known");
    bn_buf_puts(out, " | ");
}

static void put_value(struct bn_buf *out, const bn_json *value)
{
    const char *text = "";
    double number;
    if (bn_json_number(value, &number)) {
        bn_json_write_number(out, number);
        bn_buf_puts(out, " | ");
        return;
    }
    (void)bn_json_string(value, &text);
    put_cell(out, text);
}

/* The class with the largest share. */
static void put_first_class(struct bn_buf *out, const bn_json *page)
{
    const bn_json *first = bn_json_first(bn_json_path(page, "functions.classes"));
    if (first == NULL) {
        bn_buf_puts(out, "not known |\n");
        return;
    }
    bn_markdown_code(out, bn_json_text_of(first, "class"));
    bn_buf_printf(out, " %.2f %% |\n", 100 * bn_json_number_of(first, "self_share"));
}

static void put_row(struct bn_buf *out, const struct bn_baseline_work *work, const bn_json *about)
{
    char commit[64] = "";
    const char *text = NULL;
    bool dirty = false;
    const bn_json *page = bn_json_get(about, "page");
    static const char *const MODEL[] = {"model.name", "workload.model.name", NULL},
                             *const PROMPT[] = {"workload.prompt", NULL},
                             *const TOKENS[] = {"workload.n_predict", "workload.tokens", NULL};
    const char *model = "";
    (void)bn_json_string(bn_flamegraph_member(about, MODEL), &model);
    (void)bn_json_bool(bn_json_path(about, "program.dirty"), &dirty);
    if (bn_json_string(bn_flamegraph_member(about, bn_flamegraph_commit), &text))
        snprintf(commit, sizeof commit, "%.12s%s", text, dirty ? ", changed" : "");
    bn_buf_printf(out, "| [%s](%s.svg) | [page](%s.md) | [stacks](%s.json) | ", work->name, work->name,
                  work->name, work->name);
    put_value(out, bn_flamegraph_member(about, PROMPT));
    put_value(out, bn_flamegraph_member(about, TOKENS));
    put_cell(out, bn_json_text_of(about, "created"));
    put_cell(out, commit);
    put_cell(out, model);
    put_cell(out, bn_json_text_of(about, "machine.cpu_model"));
    put_cell(out, bn_json_text_of(about, "sampler.tier"));
    bn_json_write_number(out, bn_json_number_of(page, "recorded.samples"));
    bn_buf_puts(out, " | ");
    put_first_class(out, page);
}

static void put_archive(struct bn_buf *out, const bn_json *index)
{
    const bn_json *entries = bn_json_get(index, "entries");
    bn_buf_puts(out, "\n## Kept\n\n");
    if (bn_json_size(entries) == 0) {
        bn_buf_puts(out, "None are kept; `bn-flamegraph baseline --archive` keeps one.\n");
        return;
    }
    bn_buf_printf(out,
                  "%zu in [archives](archives/index.json); `bn-flamegraph timeline` shows what changed.\n\n",
                  bn_json_size(entries));
    for (const bn_json *e = bn_json_first(entries); e != NULL; e = bn_json_next(e)) {
        const char *folder = bn_json_text_of(e, "folder"), *comma = "";
        bn_buf_printf(out, "- %s:", folder);
        const bn_json *recordings = bn_json_get(e, "recordings");
        for (const bn_json *r = bn_json_first(recordings); r != NULL; r = bn_json_next(r), comma = ",")
            bn_buf_printf(out, "%s [%s](archives/%s/%s.md)", comma, bn_json_text_of(r, "name"), folder,
                          bn_json_text_of(r, "name"));
        bn_buf_putc(out, '\n');
    }
}

void bn_baseline_readme(struct bn_baseline *b)
{
    struct bn_buf *out = bn_flamegraph_files_add(&b->files, b->dir, "README", ".md");
    bn_buf_puts(out,
                "<!-- Written by bn-flamegraph baseline; changes by hand are lost. -->\n# Flame graphs\n\n"
                "| picture | | | prompt | tokens | recorded | commit | model | processor | sampler | "
                "samples | largest class |\n|---|---|---|---|---:|---|---|---|---|---|---:|---|\n");
    for (size_t i = 0; i < BN_BASELINE_RECORDINGS; i++)
        put_row(out, &bn_baseline_works[i], b->stacks[i]->about);
    put_archive(out, b->index);
    bn_buf_puts(out,
                "\n## How to make them again\n\n    ci/phase2-flamegraph.sh [MODEL] [TOKENIZER] [DIR]\n\n"
                "or, with programs that are built, `bn-flamegraph baseline`. Each page has the exact command "
                "of its recording.\n"
                "\n## How to read them\n\n"
                "- A picture opens in any browser. The width of a frame is the share of samples in which it "
                "was running, or waiting for what it called; left and right have no meaning.\n"
                "- A click zooms, Ctrl-F searches. Colours are classes of work; the page lists them.\n"
                "- The page says how the samples were taken and how many could not be told. Read that "
                "before the figures.\n"
                "- `bn-flamegraph diff OLD.json --vs NEW.json` compares two recordings; "
                "`bn-flamegraph text FILE.json` prints tables.\n");
}
