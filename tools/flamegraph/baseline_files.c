/* SPDX-License-Identifier: MIT
 *
 * The files of `bn-flamegraph baseline`: pictures, pages and documents, an index of them, and copies in the
 * archive. All are made in memory and checked before one is written.
 */
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/report/units.h"
#include "lab/stacks/fingerprint.h"
#include "lab/stacks/hotspots.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"
#include "tools/flamegraph/baseline.h"
#include "tools/flamegraph/page.h"

#define MAX_TIMING_BYTES (1u << 20)

struct timing {
    struct bn_buf text;
    glob_t found;
};

static bn_status name_file(struct bn_baseline_file *f, const struct bn_baseline *b, const char *name,
                           const char *end, bn_error *err)
{
    if ((size_t)snprintf(f->path, sizeof f->path, "%s/%s%s", b->dir, name, end) >= sizeof f->path)
        return bn_fail(err, BN_ERR_ARG, "the name of the folder is too long");
    f->bytes.max = BN_FLAMEGRAPH_MAX_BYTES;
    return bn_file_check_output(f->path, err);
}

bn_status bn_baseline_check_files(struct bn_baseline *b, bn_error *err)
{
    static const char *const ENDS[BN_BASELINE_FILES] = {".svg", ".md", ".json"};
    char in[4096];
    if ((size_t)snprintf(in, sizeof in, "%s/README.md", b->dir) >= sizeof in)
        return bn_fail(err, BN_ERR_ARG, "the name of the folder is too long");
    BN_TRY(bn_file_make_folders(in, err));
    for (size_t i = 0; i < b->n; i++)
        for (size_t k = 0; k < BN_BASELINE_FILES; k++)
            BN_TRY(name_file(&b->list[i].files[k], b, b->list[i].name, ENDS[k], err));
    return name_file(&b->readme, b, "README", ".md", err);
}

/* ---- pictures and pages ---- */

static bn_status draw(struct bn_buf *out, const struct bn_flamegraph_page *page, bn_error *err)
{
    const struct bn_stacks_view functions = {.drop = BN_FRAME_TAGS};
    struct bn_svg_options options = BN_SVG_OPTIONS_INIT;
    bn_stacks *view = NULL;
    options.notes = page->shows;
    bn_status status = bn_stacks_copy(&view, page->stacks, &functions, err);
    if (status == BN_OK) status = bn_flamegraph_draw(out, view, options, err);
    bn_stacks_close(view);
    return status;
}

/* The last archived recording that can be compared with this one; else page->before_why says why not. An
 * archived copy of this recording itself does not count. */
static void find_before(struct bn_flamegraph_page *page, const struct bn_archive *archive, char why[200])
{
    const char *created = bn_json_text_of(page->stacks->about, "created");
    snprintf(why, 200, "there is no earlier recording in archives/");
    page->before_why = why;
    for (size_t i = archive->n; i-- > 0;) {
        const struct bn_archived *a = &archive->list[i];
        char unlike[200];
        if (strcmp(bn_json_text_of(a->stacks->about, "created"), created) >= 0) continue;
        bn_fingerprint_unlike(unlike, sizeof unlike, a->stacks->about, page->stacks->about,
                              BN_FINGERPRINT_COMPARED);
        page->before_name = a->folder;
        page->before = unlike[0] == '\0' ? a->stacks : NULL;
        if (page->before != NULL) return;
        snprintf(why, 200, "%.100s: %.90s", a->folder, unlike);
    }
}

/* Of "timing.md" and "timing*.md" the text of the one that was measured with this model, or else of the first. */
static void read_timing(struct bn_flamegraph_page *page, struct timing *t, bn_error *why)
{
    const char *path = page->timing_path, *end = strrchr(path, '.');
    char sha[80], pattern[4096];
    snprintf(sha, sizeof sha, "sha256 %.64s", bn_json_text_of(page->stacks->about, "model.sha256"));
    snprintf(pattern, sizeof pattern, "%.*s*%s", (int)(end != NULL ? (size_t)(end - path) : strlen(path)),
             path, end != NULL ? end : "");
    if (glob(pattern, 0, NULL, &t->found) != 0) t->found.gl_pathc = 0;
    for (size_t i = 0; i < t->found.gl_pathc && strlen(sha) > 70; i++) {
        bn_error nothing = {0};
        bn_buf_release(&t->text);
        t->text = (struct bn_buf){.max = MAX_TIMING_BYTES};
        if (bn_file_read(t->found.gl_pathv[i], &t->text, &nothing) != BN_OK || t->text.data == NULL ||
            strstr(t->text.data, sha) == NULL)
            continue;
        page->timing_path = t->found.gl_pathv[i];
        page->timing_text = t->text.data;
        return;
    }
    bn_buf_release(&t->text);
    t->text = (struct bn_buf){.max = MAX_TIMING_BYTES};
    page->timing_text = bn_file_read(path, &t->text, why) == BN_OK ? t->text.data : NULL;
    page->timing_why = why->msg;
}

static bn_status make_files(struct bn_baseline *b, struct bn_baseline_recording *r, bn_error *err)
{
    char why[200];
    const struct bn_flamegraph_options *o = b->args->fields;
    struct bn_flamegraph_page page = {.timing_path = o->baseline.timing};
    struct timing timing = {0};
    bn_error why_not_timed = {0};
    struct bn_archive archive = {0};
    page.name = r->name;
    page.stacks = r->stacks;
    BN_TRY(bn_archive_read(&archive, b->dir, page.name, err));
    read_timing(&page, &timing, &why_not_timed);
    find_before(&page, &archive, why);
    r->shows.max = BN_FLAMEGRAPH_MAX_BYTES;
    bn_status status = bn_flamegraph_insights(&r->shows, &page, err);
    page.shows = r->shows.data;
    if (status == BN_OK) status = draw(&r->files[BN_BASELINE_SVG].bytes, &page, err);
    if (status == BN_OK) status = bn_flamegraph_page(&r->files[BN_BASELINE_MD].bytes, &page, err);
    if (status == BN_OK)
        status = bn_stacks_write(page.stacks, BN_STACKS_DOCUMENT, &r->files[BN_BASELINE_JSON].bytes, err);
    bn_archive_release(&archive);
    bn_buf_release(&timing.text);
    globfree(&timing.found);
    return status;
}

/* ---- the index ---- */

static void put_cell(struct bn_buf *out, const char *text)
{
    bn_markdown_code(out, text[0] != '\0' ? text : "not known");
    bn_buf_puts(out, " | ");
}

/* The class with the largest share. */
static bn_status put_first_class(struct bn_buf *out, const bn_stacks *stacks, bn_error *err)
{
    double shares[BN_CLASSES];
    unsigned first = 0;
    BN_TRY(bn_class_shares(shares, stacks, err));
    for (unsigned c = 1; c < BN_CLASSES; c++)
        if (shares[c] > shares[first]) first = c;
    bn_buf_printf(out, "%s %.2f %% | ", bn_class_name((enum bn_class)first), 100 * shares[first]);
    return BN_OK;
}

/* The time of one pass, and the share of the read bandwidth that it reaches. */
static void put_pass(struct bn_buf *out, const bn_json *about)
{
    double bytes = 0, ns = 0, limit = 0;
    const char *what;
    bool known = bn_flamegraph_pass(about, &bytes, &ns, &what);
    bn_units_value(out, known ? ns : (double)NAN, "ns");
    bn_buf_puts(out, " | ");
    if (known && bn_json_number(bn_json_path(about, "reads.limit_bytes_per_s"), &limit) && limit > 0)
        bn_buf_printf(out, "%.1f %% | ", 100 * bytes / (ns / 1e9) / limit);
    else
        bn_buf_puts(out, "- | ");
}

static bn_status put_row(struct bn_buf *out, const struct bn_baseline_recording *r, bn_error *err)
{
    static const char *const THREADS[] = {"workload.threads", "workload.n_threads", NULL}, *const ISA[] = {
                                                                                               "workload.isa",
                                                                                               "isa", NULL};
    const bn_json *about = r->stacks->about;
    const char *isa = "", *model = bn_json_text_of(about, "model.name"), *slash = strrchr(model, '/');
    double threads = (double)NAN;
    struct bn_fingerprint fingerprint;
    BN_TRY(bn_fingerprint_of(&fingerprint, about, err));
    (void)bn_json_string(bn_about_member(about, ISA), &isa);
    (void)bn_json_number(bn_about_member(about, THREADS), &threads);
    bn_buf_printf(out, "| [%s](%s.svg) | [page](%s.md) | [stacks](%s.json) | ", r->name, r->name, r->name,
                  r->name);
    put_cell(out, slash != NULL ? slash + 1 : model);
    put_cell(out, isa);
    bn_units_number(out, threads, (struct bn_units_scale){1, ""});
    bn_buf_puts(out, " | ");
    put_cell(out, bn_json_text_of(about, "workload.prompt"));
    put_pass(out, about);
    BN_TRY(put_first_class(out, r->stacks, err));
    put_cell(out, bn_json_text_of(about, "created"));
    put_cell(out, bn_json_text_of(about, "program.commit"));
    put_cell(out, bn_json_text_of(about, "machine.cpu_model"));
    put_cell(out, bn_json_text_of(about, "sampler.tier"));
    bn_buf_printf(out, "`%.12s` |\n", fingerprint.whole);
    return BN_OK;
}

static bn_status put_readme(struct bn_baseline *b, bn_error *err)
{
    struct bn_buf *out = &b->readme.bytes;
    bn_buf_puts(out, "<!-- Written by bn-flamegraph baseline; manual changes are lost. -->\n"
                     "# Flame graphs\n\n| picture | | | model | instruction set | threads | prompt | "
                     "one pass | of the read bandwidth | largest class | recorded | commit | processor | "
                     "sampler | fingerprint |\n"
                     "|---|---|---|---|---|---:|---|---:|---:|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < b->n; i++)
        BN_TRY(put_row(out, &b->list[i], err));
    bn_buf_puts(out,
                "\nOne pass is a token decoded alone; with one token, the pass over the prompt.\n"
                "\n## Make them again\n\n    ci/phase2-flamegraph.sh [MODEL] [DIR]\n\n"
                "or, with built programs, `bn-flamegraph baseline`. Each page has the command of its "
                "recording.\n\n"
                "## Earlier recordings\n\n`bn-flamegraph baseline --archive` keeps a copy in `archives/`; "
                "`bn-flamegraph timeline` shows what changed.\n\n"
                "## Read them\n\n"
                "- A picture opens in any browser. The width of a frame is its share of the samples, with "
                "all functions that it called. Left and right have no meaning.\n"
                "- Click a frame to zoom in; press Ctrl-F to search. Colours are classes of work; the page "
                "lists them.\n"
                "- Read on the page how the samples were taken, and how many were lost, before the figures.\n"
                "- `bn-flamegraph diff OLD.json --vs NEW.json` compares two recordings; "
                "`bn-flamegraph text FILE.json` prints tables.\n");
    return bn_buf_check(out, err);
}

/* ---- the archive ---- */

static void archive_path(char path[4096 + 160], const struct bn_baseline *b, const char *folder,
                         const struct bn_baseline_file *f)
{
    snprintf(path, 4096 + 160, "%s/archives/%s%s", b->dir, folder, strrchr(f->path, '/'));
}

/* Whether a folder of the archive has the same recording. */
static bool has_same(const struct bn_baseline *b, const struct bn_baseline_recording *r)
{
    char path[4096 + 160];
    struct bn_buf old = {.max = BN_FLAMEGRAPH_MAX_BYTES};
    const struct bn_baseline_file *f = &r->files[BN_BASELINE_JSON];
    bn_error nothing = {0};
    archive_path(path, b, r->folder, f);
    bool equal = bn_file_read(path, &old, &nothing) == BN_OK && old.len == f->bytes.len &&
                 memcmp(old.data, f->bytes.data, old.len) == 0;
    bn_buf_release(&old);
    return equal;
}

/* The folder that has this recording, else the first of its date and commit without one of its name. */
static void choose_folder(const struct bn_baseline *b, struct bn_baseline_recording *r)
{
    for (unsigned n = 1; n < 10000; n++) {
        char path[4096 + 160];
        bn_archive_folder(r->folder, r->stacks->about, n);
        archive_path(path, b, r->folder, &r->files[BN_BASELINE_JSON]);
        r->archived = has_same(b, r);
        if (r->archived || access(path, F_OK) != 0) return;
    }
}

/* ---- writing ---- */

static bn_status write_file(const struct bn_baseline *b, const char *path, const struct bn_buf *bytes,
                            bn_error *err)
{
    bool exists = access(path, F_OK) == 0;
    BN_TRY(bn_file_write_atomic(path, bytes->data, bytes->len, err));
    if (exists) bn_report_note(0, "replaced %s", path);
    if (!b->args->json) printf("%s\n", path);
    return BN_OK;
}

static bn_status write_copies(const struct bn_baseline *b, const struct bn_baseline_recording *r,
                              bn_error *err)
{
    char path[4096 + 160];
    if (r->archived) bn_report_note(0, "archives/%s has %s already", r->folder, r->name);
    for (size_t k = 0; k < BN_BASELINE_FILES && r->folder[0] != '\0' && !r->archived; k++) {
        archive_path(path, b, r->folder, &r->files[k]);
        BN_TRY(bn_file_make_folders(path, err));
        BN_TRY(write_file(b, path, &r->files[k].bytes, err));
    }
    return BN_OK;
}

static bn_status write_all(const struct bn_baseline *b, bn_error *err)
{
    for (size_t i = 0; i < b->n; i++)
        for (size_t k = 0; k < BN_BASELINE_FILES; k++)
            BN_TRY(write_file(b, b->list[i].files[k].path, &b->list[i].files[k].bytes, err));
    BN_TRY(write_file(b, b->readme.path, &b->readme.bytes, err));
    for (size_t i = 0; i < b->n; i++)
        BN_TRY(write_copies(b, &b->list[i], err));
    return BN_OK;
}

static void put_sentences(bn_json *list, const char *text)
{
    char sentence[1024];
    for (; *text != '\0'; text += strspn(text, "\n")) {
        size_t n = strcspn(text, "\n");
        snprintf(sentence, sizeof sentence, "%.*s", (int)n, text);
        bn_json_add_string(list, sentence);
        text += n;
    }
}

static bn_status print_document(const struct bn_baseline *b, bn_error *err)
{
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", "bn.flamebaseline/1");
    bn_json_put_string(doc, "folder", b->dir);
    bn_json_put_text(doc, "archived", b->list[0].folder);
    bn_json *list = bn_json_put_array(doc, "recordings");
    for (size_t i = 0; i < b->n; i++) {
        bn_json *o = bn_json_add_object(list);
        bn_json_put_string(o, "name", b->list[i].name);
        bn_json_put_text(o, "archived", b->list[i].folder);
        put_sentences(bn_json_put_array(o, "shows"), b->list[i].shows.data);
        bn_json_put_copy(o, "about", b->list[i].stacks->about);
    }
    bn_status status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}

bn_status bn_baseline_write(struct bn_baseline *b, bn_error *err)
{
    const struct bn_flamegraph_options *o = b->args->fields;
    bn_status status = BN_OK;
    for (size_t i = 0; i < b->n && status == BN_OK; i++)
        status = make_files(b, &b->list[i], err);
    if (status == BN_OK) status = put_readme(b, err);
    for (size_t i = 0; i < b->n && status == BN_OK && o->baseline.archive; i++)
        choose_folder(b, &b->list[i]);
    if (status == BN_OK) status = write_all(b, err);
    return status == BN_OK && b->args->json ? print_document(b, err) : status;
}
