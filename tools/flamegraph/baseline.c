/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph baseline: records two fixed workloads and writes a picture, a page and a document of each,
 * an index of them, and a copy in the archive. All files are made in memory and checked before one is
 * written.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "hub/cache/cache.h"
#include "lab/report/html.h"
#include "lab/stacks/fingerprint.h"
#include "lab/stacks/hotspots.h"
#include "tools/cli/default_model.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"
#include "tools/flamegraph/archive.h"
#include "tools/flamegraph/flamegraph.h"
#include "tools/flamegraph/page.h"

#define DIR_PRESET "docs/baselines/perf/flamegraphs"
#define MODEL_NAME "bitnet-b1.58-2b-4t"
#define MAX_TIMING_BYTES (1u << 20)
#define RECORDINGS 2u
#define FILES (3u * RECORDINGS + 1u)

/* The same two workloads every time, so that recordings can be compared. */
static const struct {
    const char *name, *title, *prompt;
    uint32_t n_predict;
} WORKS[RECORDINGS] = {
    {"phase2_1tok", "one token", "2+2=", 1},
    {"phase2_10tok", "ten tokens", "What is 2+2?", 10},
};

struct file {
    char path[4096];
    struct bn_buf bytes;
};

struct baseline {
    const struct bn_args *args;
    const char *dir;
    bn_stacks *stacks[RECORDINGS];
    struct file files[FILES]; /* picture, page and document of each recording; README.md */
    char folder[128];         /* of the archive; "" without --archive */
    bool archived;            /* before this run */
};

const struct bn_option bn_flamegraph_baseline_options[] = {
    BN_OPTION_MODEL,
    BN_OPTION("threads", "number of compute threads", .letter = 't', .arg = "N", .group = "Machine",
              .env = "BN_THREADS", .preset = "1",
              BN_TO_U32(struct bn_flamegraph_options, work.n_threads, 1, 1024)),
    BN_OPTION_ISA,
    BN_OPTION("seed", "recorded; decoding is greedy", .rare = true, .arg = "N", .env = "BITNET_SEED",
              .preset = "42", BN_TO_U64(struct bn_flamegraph_options, work.seed, 0, 0)),
    BN_OPTION("deterministic", "accepted; always on", .arg = "1|on|true|yes", .env = "BITNET_DETERMINISTIC",
              .preset = "1"),
    BN_OPTION("timing", "timing document to compare with", .arg = "FILE",
              .preset = "docs/baselines/perf/phase2_timing_i2s.md",
              BN_TO_TEXT(struct bn_flamegraph_options, baseline.timing)),
    BN_OPTION("archive", "keep a copy in DIR/archives/<date>-<commit>/",
              BN_TO_BOOL(struct bn_flamegraph_options, baseline.archive)),
    BN_OPTION("redraw", "do not record: draw the recordings in DIR again",
              BN_TO_BOOL(struct bn_flamegraph_options, baseline.redraw)),
    {0},
};

static const char *operand(const struct bn_args *args, size_t i)
{
    const char *text = i < args->n_operands ? args->operands[i] : "-";
    return strcmp(text, "-") == 0 ? NULL : text;
}

/* ---- checks before recording ---- */

static bn_status take_model(char **path, const char *text, bn_error *err)
{
    BN_TRY(bn_cli_model_path(path, text, err));
    if (access(*path, R_OK) == 0) return BN_OK;
    bn_free(*path);
    *path = NULL;
    bn_fail_at(err, BN_ERR_NOT_FOUND, BN_NO_OFFSET, text, "no such model");
    bn_error_hint(err, "bn-download " MODEL_NAME);
    return BN_ERR_NOT_FOUND;
}

/* *path stays NULL for the built-in model. */
static bn_status find_model(char **path, const char **why, const struct bn_args *args, bn_error *err)
{
    static const char *const PLACES[] = {"models/microsoft-bitnet-b1.58-2B-4T-gguf/ggml-model-i2_s.gguf",
                                         "models/ggml-model-i2_s.gguf", "./ggml-model-i2_s.gguf"};
    bn_error nothing = {0};
    *why = "named as MODEL";
    if (operand(args, 0) != NULL) return take_model(path, operand(args, 0), err);
    *why = "named by --model or BN_MODEL";
    if (args->model != NULL) return take_model(path, args->model, err);
    *why = "found there";
    for (size_t i = 0; i < BN_ARRAY_LEN(PLACES); i++)
        if (access(PLACES[i], R_OK) == 0) return take_model(path, PLACES[i], err);
    *why = "downloaded as " MODEL_NAME;
    if (bn_hub_locate(path, MODEL_NAME, &nothing) == BN_OK) return BN_OK;
    *why = "none was named or found";
    return BN_OK;
}

static bn_status check_tokenizer(const char *path, bn_error *err)
{
    if (path == NULL) return BN_OK;
    if (access(path, R_OK) != 0)
        return bn_fail_at(err, BN_ERR_NOT_FOUND, BN_NO_OFFSET, path, "no such tokenizer");
    bn_report_warning("%s is not used: the tokenizer in the GGUF file is", path);
    return BN_OK;
}

static bn_status check_files(struct baseline *b, bn_error *err)
{
    static const char *const ENDS[] = {".svg", ".md", ".json"};
    for (size_t i = 0; i < FILES; i++) {
        struct file *f = &b->files[i];
        bool last = i == FILES - 1;
        if ((size_t)snprintf(f->path, sizeof f->path, "%s/%s%s", b->dir, last ? "README" : WORKS[i / 3].name,
                             last ? ".md" : ENDS[i % 3]) >= sizeof f->path)
            return bn_fail(err, BN_ERR_ARG, "the name of the folder is too long");
        f->bytes.max = BN_FLAMEGRAPH_MAX_BYTES;
        if (i == 0) BN_TRY(bn_file_make_folders(f->path, err));
        BN_TRY(bn_flamegraph_check_file(f->path, err));
    }
    return BN_OK;
}

/* Whether the requested sampler works. */
static bn_status check_recorder(const struct bn_args *args, bn_error *err)
{
    struct bn_record_options options;
    struct bn_symbols_options symbols;
    bn_recorder *recorder = NULL;
    BN_TRY(bn_flamegraph_read_sampler(&options, &symbols, args, err));
    bn_status status = bn_recorder_open(&recorder, &options, err);
    bn_recorder_close(recorder);
    return status;
}

/* Passes the model on as the value of --model, which recording opens. The caller frees *path afterwards. */
static bn_status prepare(struct bn_args *args, char **path, bn_error *err)
{
    const char *why;
    BN_TRY(find_model(path, &why, args, err));
    bn_report_note(0, "model: %s (%s)", *path != NULL ? *path : "the built-in model", why);
    args->model = *path;
    return check_tokenizer(operand(args, 1), err);
}

/* ---- recording ---- */

/* A word quoted for a shell where needed. */
static void put_word(struct bn_buf *out, const char *word)
{
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+/:=,@%";
    if (word[0] != '\0' && strspn(word, PLAIN) == strlen(word)) {
        bn_buf_puts(out, word);
        return;
    }
    bn_buf_putc(out, '\'');
    for (; *word != '\0'; word++)
        if (*word == '\'')
            bn_buf_puts(out, "'\\''");
        else
            bn_buf_putc(out, *word);
    bn_buf_putc(out, '\'');
}

/* Options that do not change what is recorded are left out of the command that makes it again. */
static bool is_shown(const struct bn_args *args, size_t i)
{
    static const char *const NOT[] = {"archive", "redraw", "json",          "quiet",
                                      "verbose", "color",  "deterministic", "model"};
    const struct bn_option *option = args->values[i].option;
    for (size_t k = 0; k < BN_ARRAY_LEN(NOT); k++)
        if (strcmp(NOT[k], option->name) == 0) return false;
    for (size_t k = i + 1; k < args->n_values && !option->repeatable; k++)
        if (args->values[k].option == option) return false;
    return true;
}

static void put_command(bn_json *about, const struct bn_args *args)
{
    struct bn_buf line = {.max = 1u << 16};
    bn_buf_puts(&line, "bn-flamegraph baseline");
    for (size_t i = 0; i < args->n_values; i++) {
        if (!is_shown(args, i)) continue;
        bn_buf_printf(&line, " --%s", args->values[i].option->name);
        if (args->values[i].text == NULL) continue;
        bn_buf_putc(&line, ' ');
        put_word(&line, args->values[i].text);
    }
    if (args->model != NULL) {
        bn_buf_puts(&line, " --model ");
        put_word(&line, args->model);
    }
    if (args->n_operands > 2) {
        bn_buf_puts(&line, " - - ");
        put_word(&line, args->operands[2]);
    }
    if (bn_buf_check(&line, NULL) == BN_OK) bn_json_put_string(about, "command", line.data);
    bn_buf_release(&line);
}

/* Five runs, so that comparisons know how runs vary, with enough samples to tell 1 % from 2 %. */
static bn_status record(struct baseline *b, size_t i, bn_error *err)
{
    const struct bn_args *args = b->args;
    const struct bn_flamegraph_options *o = args->fields;
    const struct bn_stacks_view sorted = {0};
    struct bn_flamegraph_recorded recorded = {0};
    struct bn_flamegraph_workload w = {.prompt = WORKS[i].prompt,
                                       .n_predict = WORKS[i].n_predict,
                                       .n_threads = o->work.n_threads,
                                       .runs = bn_args_given(args, &o->work.runs) ? o->work.runs : 5,
                                       .seed = o->work.seed,
                                       .seconds = o->work.seconds > 0 ? o->work.seconds : 20,
                                       .min_samples = 2000,
                                       .level = BN_PROF_BRICK};
    bn_report_note(0, "recording %s: %s", WORKS[i].name, WORKS[i].title);
    bn_status status = bn_flamegraph_record_model(&recorded, args, &w, err);
    if (status == BN_OK) status = bn_stacks_copy(&b->stacks[i], recorded.stacks, &sorted, err);
    if (status == BN_OK) put_command(b->stacks[i]->about, args);
    bn_flamegraph_recorded_release(&recorded);
    return status;
}

static bn_status read_old(struct baseline *b, size_t i, bn_error *err)
{
    const struct bn_stacks_view sorted = {0};
    bn_stacks *read = NULL;
    BN_TRY(bn_stacks_read(&read, b->files[3 * i + 2].path, err));
    bn_json_remove(read->about, "page"); /* older versions kept their page here */
    bn_status status = bn_stacks_copy(&b->stacks[i], read, &sorted, err);
    bn_stacks_close(read);
    return status;
}

/* ---- pictures and pages ---- */

static bn_status draw(struct bn_buf *out, const bn_stacks *stacks, bn_error *err)
{
    const struct bn_stacks_view functions = {.drop = BN_FRAME_TAGS};
    bn_stacks *view = NULL;
    bn_status status = bn_stacks_copy(&view, stacks, &functions, err);
    if (status == BN_OK)
        status = bn_flamegraph_draw(out, view, (struct bn_svg_options)BN_SVG_OPTIONS_INIT, err);
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

static bn_status make_files(struct baseline *b, size_t i, const struct bn_flamegraph_page *timing,
                            bn_error *err)
{
    char why[200];
    struct file *files = &b->files[3 * i];
    struct bn_flamegraph_page page = *timing;
    struct bn_archive archive = {0};
    page.name = WORKS[i].name;
    page.stacks = b->stacks[i];
    BN_TRY(bn_archive_read(&archive, b->dir, page.name, err));
    find_before(&page, &archive, why);
    bn_status status = draw(&files[0].bytes, page.stacks, err);
    if (status == BN_OK) status = bn_flamegraph_page(&files[1].bytes, &page, err);
    if (status == BN_OK) status = bn_stacks_write(page.stacks, BN_STACKS_DOCUMENT, &files[2].bytes, err);
    bn_archive_release(&archive);
    return status;
}

static void put_cell(struct bn_buf *out, const char *text)
{
    bn_markdown_code(out, text[0] != '\0' ? text : "not known");
    bn_buf_puts(out, " | ");
}

/* The class with the largest share. */
static bn_status put_first_class(struct bn_buf *out, const bn_stacks *stacks, bn_error *err)
{
    const struct bn_stacks_view view = BN_HOTSPOTS_VIEW;
    double shares[BN_CLASSES];
    unsigned first = 0;
    bn_stacks *functions = NULL;
    BN_TRY(bn_stacks_copy(&functions, stacks, &view, err));
    bn_class_shares(shares, functions);
    bn_stacks_close(functions);
    for (unsigned c = 1; c < BN_CLASSES; c++)
        if (shares[c] > shares[first]) first = c;
    bn_buf_printf(out, "%s %.2f %% |\n", bn_class_name((enum bn_class)first), 100 * shares[first]);
    return BN_OK;
}

static bn_status put_readme(struct baseline *b, bn_error *err)
{
    struct bn_buf *out = &b->files[FILES - 1].bytes;
    bn_buf_puts(out, "<!-- Written by bn-flamegraph baseline; manual changes are lost. -->\n"
                     "# Flame graphs\n\n| picture | | | prompt | recorded | commit | model | processor | "
                     "sampler | largest class |\n|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < RECORDINGS; i++) {
        const bn_json *about = b->stacks[i]->about;
        const char *name = WORKS[i].name;
        bn_buf_printf(out, "| [%s](%s.svg) | [page](%s.md) | [stacks](%s.json) | ", name, name, name, name);
        put_cell(out, bn_json_text_of(bn_json_get(about, "workload"), "prompt"));
        put_cell(out, bn_json_text_of(about, "created"));
        put_cell(out, bn_json_text_of(bn_json_get(about, "program"), "commit"));
        put_cell(out, bn_json_text_of(bn_json_get(about, "model"), "name"));
        put_cell(out, bn_json_text_of(bn_json_get(about, "machine"), "cpu_model"));
        put_cell(out, bn_json_text_of(bn_json_get(about, "sampler"), "tier"));
        BN_TRY(put_first_class(out, b->stacks[i], err));
    }
    bn_buf_puts(out,
                "\n## Make them again\n\n    ci/phase2-flamegraph.sh [MODEL] [TOKENIZER] [DIR]\n\n"
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

/* ---- writing ---- */

static bn_status write_all(const struct baseline *b, const char *folder, bn_error *err)
{
    for (size_t i = 0; i < (folder[0] != '\0' ? FILES - 1 : FILES); i++) {
        const struct file *f = &b->files[i];
        char path[4096 + 160];
        snprintf(path, sizeof path, "%s", f->path);
        if (folder[0] != '\0')
            snprintf(path, sizeof path, "%s/archives/%s%s", b->dir, folder, strrchr(f->path, '/'));
        if (folder[0] != '\0' && i == 0) BN_TRY(bn_file_make_folders(path, err));
        bool exists = access(path, F_OK) == 0;
        BN_TRY(bn_file_write_atomic(path, f->bytes.data, f->bytes.len, err));
        if (exists) bn_report_note(0, "replaced %s", path);
        if (!b->args->json) printf("%s\n", path);
    }
    return BN_OK;
}

/* Whether a folder of the archive has the same recording. */
static bool has_same(const struct baseline *b, const char *folder)
{
    char path[4096 + 160];
    struct bn_buf old = {.max = BN_FLAMEGRAPH_MAX_BYTES};
    const struct file *f = &b->files[2];
    bn_error nothing = {0};
    snprintf(path, sizeof path, "%s/archives/%s%s", b->dir, folder, strrchr(f->path, '/'));
    bool equal = bn_file_read(path, &old, &nothing) == BN_OK && old.len == f->bytes.len &&
                 memcmp(old.data, f->bytes.data, old.len) == 0;
    bn_buf_release(&old);
    return equal;
}

static void choose_folder(struct baseline *b)
{
    for (unsigned n = 1; n < 10000; n++) {
        char path[4096 + 160];
        bn_archive_folder(b->folder, b->stacks[0]->about, n);
        snprintf(path, sizeof path, "%s/archives/%s", b->dir, b->folder);
        b->archived = has_same(b, b->folder);
        if (b->archived || access(path, F_OK) != 0) return;
    }
}

static bn_status print_document(const struct baseline *b, bn_error *err)
{
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", "bn.flamebaseline/1");
    bn_json_put_string(doc, "folder", b->dir);
    bn_json_put_string(doc, "archived", b->folder[0] != '\0' ? b->folder : NULL);
    bn_json *list = bn_json_put_array(doc, "recordings");
    for (size_t i = 0; i < RECORDINGS; i++) {
        bn_json *o = bn_json_add_object(list);
        bn_json_put_string(o, "name", WORKS[i].name);
        bn_json_put_copy(o, "about", b->stacks[i]->about);
    }
    bn_status status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}

static bn_status make(struct baseline *b, bn_error *err)
{
    struct bn_buf timing = {.max = MAX_TIMING_BYTES};
    bn_error why = {0};
    const struct bn_flamegraph_options *o = b->args->fields;
    struct bn_flamegraph_page page = {.timing_path = o->baseline.timing, .timing_why = why.msg};
    if (bn_file_read(page.timing_path, &timing, &why) != BN_OK) bn_buf_release(&timing);
    page.timing_text = timing.data;
    bn_status status = BN_OK;
    for (size_t i = 0; i < RECORDINGS && status == BN_OK; i++)
        status = make_files(b, i, &page, err);
    bn_buf_release(&timing);
    if (status == BN_OK) status = put_readme(b, err);
    if (status == BN_OK && o->baseline.archive) choose_folder(b);
    if (status == BN_OK) status = write_all(b, "", err);
    if (status == BN_OK && b->archived)
        bn_report_note(0, "archives/%s has this recording already", b->folder);
    if (status == BN_OK && b->folder[0] != '\0' && !b->archived) status = write_all(b, b->folder, err);
    return status == BN_OK && b->args->json ? print_document(b, err) : status;
}

bn_status bn_flamegraph_baseline(struct bn_args *args, bn_error *err)
{
    struct baseline *b = bn_alloc(1, sizeof *b);
    char *model = NULL;
    bool redraw = ((const struct bn_flamegraph_options *)args->fields)->baseline.redraw;
    if (b == NULL) return bn_nomem(err);
    b->args = args;
    b->dir = operand(args, 2) != NULL ? operand(args, 2) : DIR_PRESET;
    bn_status status = redraw ? BN_OK : prepare(args, &model, err);
    if (status == BN_OK) status = check_files(b, err);
    if (status == BN_OK && !redraw) status = check_recorder(args, err);
    for (size_t i = 0; i < RECORDINGS && status == BN_OK; i++)
        status = redraw ? read_old(b, i, err) : record(b, i, err);
    if (status == BN_OK) status = make(b, err);
    for (size_t i = 0; i < RECORDINGS; i++)
        bn_stacks_close(b->stacks[i]);
    for (size_t i = 0; i < FILES; i++)
        bn_buf_release(&b->files[i].bytes);
    bn_free(model);
    bn_free(b);
    return status;
}
