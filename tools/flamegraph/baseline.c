/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph baseline: two recordings that are always of the same work, a picture and a page of each, an
 * index of them, and an archive of earlier ones. Everything is looked at before anything is recorded, and
 * all files are put in place together, at the end.
 */
#include "tools/flamegraph/baseline.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "lab/report/html.h"
#include "lab/sampler/recorder.h"
#include "lab/stacks/svg.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"
#include "tools/flamegraph/archive.h"
#include "tools/flamegraph/discover.h"
#include "tools/flamegraph/page.h"

#define DIR_PRESET "docs/baselines/perf/flamegraphs"
#define MAX_TIMING_BYTES (1u << 20)
#define LOOK_BACK 20u /* archived recordings that are tried until one is of the same kind */

const struct bn_baseline_work bn_baseline_works[] = {
    {"phase2_1tok", "one token", "2+2=", 1},
    {"phase2_10tok", "ten tokens", "What is 2+2?", 10},
};

const struct bn_option bn_flamegraph_baseline_options[] = {
    BN_OPTION_MODEL,
    {.name = "threads",
     .letter = 't',
     .arg = "N",
     .group = "Machine",
     .env = "BN_THREADS",
     .preset = "1",
     .help = "threads to compute with"},
    BN_OPTION_ISA,
    {.name = "seed",
     .arg = "N",
     .env = "BITNET_SEED",
     .preset = "42",
     .help = "of the sampler of tokens; decoding is greedy, so that it changes nothing"},
    {.name = "deterministic",
     .arg = "1|on|true|yes",
     .env = "BITNET_DETERMINISTIC",
     .preset = "1",
     .help = "accepted and always on"},
    {.name = "timing",
     .arg = "FILE",
     .preset = "docs/baselines/perf/phase2_timing_i2s.md",
     .help = "what ci/phase2-timing.sh wrote, to compare the recordings with"},
    {.name = "archive", .help = "keep a copy in DIR/archives/<date>-<commit>/, unless it is there already"},
    {.name = "redraw", .help = "record nothing: make pictures and pages anew from the recordings in DIR"},
    {0},
};

static const char *operand(const struct bn_args *args, size_t i)
{
    const char *text = i < args->n_operands ? args->operands[i] : "-";
    return strcmp(text, "-") == 0 ? NULL : text;
}

/* ---- before anything is recorded ---- */

static bn_status check_tokenizer(const char *path, bn_error *err)
{
    if (path == NULL) return BN_OK;
    if (access(path, R_OK) != 0)
        return bn_fail_at(err, BN_ERR_NOT_FOUND, BN_NO_OFFSET, path, "there is no such tokenizer");
    bn_report_warning("%s is not used: a GGUF file has its own tokenizer, and that one is", path);
    return BN_OK;
}

/* A folder that will hold the files; made now, so that a wrong one is said before minutes of recording. */
static bn_status check_folder(const char *dir, bn_error *err)
{
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/x", dir) >= sizeof path)
        return bn_fail(err, BN_ERR_ARG, "the folder's name is too long");
    BN_TRY(bn_file_make_folders(path, err));
    if (access(dir, W_OK | X_OK) != 0)
        return bn_fail_at(err, BN_ERR_IO, BN_NO_OFFSET, dir, "cannot be written to");
    return BN_OK;
}

/* Whether anything samples here at all, as it is asked for. */
static bn_status check_recorder(const struct bn_args *args, bn_error *err)
{
    struct bn_record_options options;
    struct bn_symbols_options symbols;
    uint32_t runs;
    bn_recorder *recorder = NULL;
    BN_TRY(bn_flamegraph_read_sampler(&options, &symbols, &runs, args, err));
    bn_status status = bn_recorder_open(&recorder, &options, err);
    bn_recorder_close(recorder);
    return status;
}

/* Finds the model and gives it to --model, which recording reads. *path is freed by the caller, later. */
static bn_status preflight(struct bn_args *args, const struct bn_baseline *b, char **path, bn_error *err)
{
    char why[200];
    BN_TRY(bn_flamegraph_find_model(path, why, args, operand(args, 0), err));
    bn_report_note(0, "model: %s (%s)", *path != NULL ? *path : "the built-in model", why);
    if (*path != NULL) BN_TRY(bn_args_set(args, "model", *path, err));
    BN_TRY(check_tokenizer(operand(args, 1), err));
    BN_TRY(check_folder(b->dir, err));
    return check_recorder(args, err);
}

/* ---- recording, or reading what was recorded ---- */

/* A word as a shell reads it back. */
static void put_word(struct bn_buf *out, const char *word)
{
    if (word[0] != '\0' && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                        "._-+/:=,@%") == strlen(word)) {
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

/* The line that makes this again, with what the environment and the search for a model gave. */
static void put_command(bn_json *about, const struct bn_args *args)
{
    static const char *const NOT[] = {"archive", "redraw", "json",         "quiet",
                                      "verbose", "color",  "deterministic"};
    struct bn_buf line = {.max = 1u << 16};
    bn_buf_puts(&line, "bn-flamegraph baseline");
    for (size_t i = 0; i < args->n_values; i++) {
        const struct bn_value *v = &args->values[i];
        bool shown = true;
        for (size_t k = 0; k < BN_ARRAY_LEN(NOT); k++)
            shown = shown && strcmp(NOT[k], v->option->name) != 0;
        for (size_t k = i + 1; k < args->n_values && !v->option->repeatable; k++)
            shown = shown && args->values[k].option != v->option;
        if (!shown) continue;
        bn_buf_printf(&line, " --%s", v->option->name);
        if (v->text == NULL) continue;
        bn_buf_putc(&line, ' ');
        put_word(&line, v->text);
    }
    if (args->n_operands > 2) {
        bn_buf_puts(&line, " - - ");
        put_word(&line, args->operands[2]);
    }
    if (bn_buf_check(&line, NULL) == BN_OK) bn_json_put_string(about, "command", line.data);
    bn_buf_release(&line);
}

/* Several runs, so that comparisons know how they vary; of each as many samples as tell a percent from two.
 */
static bn_status read_workload(struct bn_flamegraph_workload *w, const struct bn_args *args,
                               const struct bn_baseline_work *work, bn_error *err)
{
    *w = (struct bn_flamegraph_workload){.prompt = work->prompt,
                                         .n_predict = work->n_predict,
                                         .n_threads = 1,
                                         .runs = 5,
                                         .seed = 42,
                                         .seconds = 20,
                                         .min_samples = 2000,
                                         .level = BN_PROF_BRICK};
    BN_TRY(bn_opt_u32(args, "threads", 1, 1024, &w->n_threads, err));
    BN_TRY(bn_opt_u64(args, "seed", 0, UINT64_MAX, &w->seed, err));
    BN_TRY(bn_opt_f64(args, "duration", 0.01, 1e6, &w->seconds, err));
    if (bn_opt_given(args, "runs")) BN_TRY(bn_opt_u32(args, "runs", 1, BN_STACKS_MAX_RUNS, &w->runs, err));
    return BN_OK;
}

static bn_status record(struct bn_baseline *b, size_t i, bn_error *err)
{
    struct bn_flamegraph_workload workload;
    struct bn_flamegraph_recorded recorded = {0};
    const struct bn_baseline_work *work = &bn_baseline_works[i];
    BN_TRY(read_workload(&workload, b->args, work, err));
    bn_report_note(0, "recording %s: %s", work->name, work->title);
    bn_status status = bn_flamegraph_record_model(&recorded, b->args, &workload, err);
    if (status == BN_OK) {
        const struct bn_stacks_view sorted = {0};
        status = bn_stacks_copy(&b->stacks[i], recorded.stacks, &sorted, err);
        if (status == BN_OK) put_command(b->stacks[i]->about, b->args);
    }
    bn_flamegraph_recorded_release(&recorded);
    return status;
}

static bn_status read_old(struct bn_baseline *b, size_t i, bn_error *err)
{
    char path[4096];
    const struct bn_stacks_view sorted = {0};
    bn_stacks *read = NULL;
    snprintf(path, sizeof path, "%s/%s.json", b->dir, bn_baseline_works[i].name);
    BN_TRY(bn_stacks_read(&read, path, err));
    bn_status status = bn_stacks_copy(&b->stacks[i], read, &sorted, err);
    bn_stacks_close(read);
    return status;
}

/* ---- pictures and pages ---- */

static bn_status draw(struct bn_baseline *b, size_t i, bn_error *err)
{
    char title[120];
    struct bn_buf subtitle = {.max = 4096};
    const struct bn_baseline_work *work = &bn_baseline_works[i];
    const struct bn_stacks_view functions = {.drop = BN_FRAME_TAGS};
    struct bn_svg_options options = BN_SVG_OPTIONS_INIT;
    bn_stacks *view = NULL;
    snprintf(title, sizeof title, "%s: \"%s\" and %s", work->name, work->prompt, work->title);
    bn_flamegraph_put_subtitle(&subtitle, b->stacks[i]);
    options.title = title;
    options.subtitle = subtitle.data;
    bn_status status = bn_stacks_copy(&view, b->stacks[i], &functions, err);
    if (status == BN_OK)
        status = bn_svg(bn_flamegraph_files_add(&b->files, b->dir, work->name, ".svg"), view, &options, err);
    if (status == BN_OK)
        status = bn_flamegraph_page_write(bn_flamegraph_files_add(&b->files, b->dir, work->name, ".md"),
                                          b->stacks[i]->about, err);
    if (status == BN_OK)
        status = bn_stacks_write(b->stacks[i], BN_STACKS_DOCUMENT,
                                 bn_flamegraph_files_add(&b->files, b->dir, work->name, ".json"), err);
    bn_stacks_close(view);
    bn_buf_release(&subtitle);
    return status;
}

/* The last archived recording of this name, of the same kind if there is one among the last. */
static void find_before(struct bn_baseline *b, size_t i, struct bn_flamegraph_beside *beside,
                        bn_stacks **found, char *why, size_t room)
{
    const char *name = bn_baseline_works[i].name;
    const bn_json *entries = bn_json_get(b->index, "entries");
    size_t tried = 0;
    snprintf(why, room, "there is no earlier one in %.100s/archives", b->dir);
    beside->before_why = why;
    for (size_t k = bn_json_size(entries); k > 0 && tried < LOOK_BACK; k--) {
        const bn_json *entry = bn_json_at(entries, k - 1);
        const char *digest = bn_flamegraph_archive_has(entry, name);
        char unlike[200];
        bn_error broken = {0};
        bn_stacks *stacks = NULL;
        if (digest == NULL || strcmp(digest, b->digests[i]) == 0) continue;
        if (bn_flamegraph_archive_open(&stacks, b->dir, entry, name, &broken) != BN_OK)
            snprintf(unlike, sizeof unlike, "%.190s", broken.msg);
        else
            bn_flamegraph_unlike(unlike, sizeof unlike, stacks->about, b->stacks[i]->about);
        if (unlike[0] == '\0') {
            beside->before_name = bn_json_text_of(entry, "folder");
            beside->before = *found = stacks;
            return;
        }
        bn_stacks_close(stacks);
        if (tried++ > 0) continue;
        beside->before_name = bn_json_text_of(entry, "folder");
        snprintf(why, room, "%s", unlike);
    }
}

static bn_status make_page(struct bn_baseline *b, size_t i, const struct bn_buf *timing, const char *why_none,
                           bn_error *err)
{
    char why[320];
    bn_stacks *before = NULL;
    struct bn_flamegraph_beside beside = {.name = bn_baseline_works[i].name,
                                          .timing_path = bn_opt_str(b->args, "timing"),
                                          .timing_text = timing->data,
                                          .timing_why = why_none};
    BN_TRY(bn_flamegraph_archive_digest(b->digests[i], b->stacks[i], err));
    find_before(b, i, &beside, &before, why, sizeof why);
    bn_status status = bn_flamegraph_page_put(b->stacks[i], &beside, err);
    bn_stacks_close(before);
    return status;
}

/* Copies what was made into the archive, with the index that has it. */
static bn_status keep(struct bn_baseline *b, bn_error *err)
{
    static const char *const EXTENSIONS[] = {".svg", ".md", ".json"};
    const char *names[BN_BASELINE_RECORDINGS];
    char folder[4096];
    size_t n = b->files.n;
    b->had_in = bn_flamegraph_archive_find(b->index, b->digests, BN_BASELINE_RECORDINGS);
    if (b->had_in != NULL) return BN_OK;
    bn_flamegraph_archive_name(b->folder, sizeof b->folder, b->index, b->stacks[0]->about);
    if ((size_t)snprintf(folder, sizeof folder, "%s/archives/%s", b->dir, b->folder) >= sizeof folder)
        return bn_fail(err, BN_ERR_ARG, "the folder's name is too long");
    for (size_t i = 0; i < n; i++)
        bn_flamegraph_files_copy(&b->files, folder, bn_baseline_works[i / 3].name, EXTENSIONS[i % 3],
                                 &b->files.list[i]->bytes);
    for (size_t i = 0; i < BN_BASELINE_RECORDINGS; i++)
        names[i] = bn_baseline_works[i].name;
    bn_flamegraph_archive_add(b->index, b->folder, b->stacks[0]->about, names, b->digests,
                              BN_BASELINE_RECORDINGS);
    snprintf(folder, sizeof folder, "%s/archives", b->dir);
    struct bn_buf *index = bn_flamegraph_files_add(&b->files, folder, "index", ".json");
    BN_TRY(bn_json_write(b->index, false, index, err));
    bn_buf_putc(index, '\n');
    return BN_OK;
}

/* ---- all ---- */

static bn_status print(const struct bn_baseline *b, bn_error *err)
{
    if (b->args->json) {
        bn_json *doc = bn_json_new_object();
        bn_json_put_string(doc, "schema", "bn.flamebaseline/1");
        bn_json_put_string(doc, "folder", b->dir);
        bn_json_put_string(doc, "archived", b->folder[0] != '\0' ? b->folder : b->had_in);
        bn_json *list = bn_json_put_array(doc, "recordings");
        for (size_t i = 0; i < BN_BASELINE_RECORDINGS; i++) {
            bn_json *o = bn_json_add_object(list);
            bn_json_put_string(o, "sha256", b->digests[i]);
            bn_json_put_copy(o, "about", b->stacks[i]->about);
        }
        bn_status status = bn_cli_print_json(doc, err);
        bn_json_free(doc);
        return status;
    }
    for (size_t i = 0; i < b->files.n; i++)
        printf("%s\n", b->files.list[i]->path);
    if (b->had_in != NULL) bn_report_note(0, "archives/%s has the same already", b->had_in);
    return BN_OK;
}

static bn_status make(struct bn_baseline *b, bn_error *err)
{
    struct bn_buf timing = {.max = MAX_TIMING_BYTES};
    bn_error why = {0};
    if (bn_file_read(bn_opt_str(b->args, "timing"), &timing, &why) != BN_OK) bn_buf_release(&timing);
    bn_status status = bn_flamegraph_archive_read(&b->index, b->dir, err);
    for (size_t i = 0; i < BN_BASELINE_RECORDINGS && status == BN_OK; i++)
        status = make_page(b, i, &timing, why.msg, err);
    bn_buf_release(&timing);
    for (size_t i = 0; i < BN_BASELINE_RECORDINGS && status == BN_OK; i++)
        status = draw(b, i, err);
    if (status == BN_OK && bn_opt_flag(b->args, "archive")) status = keep(b, err);
    if (status == BN_OK) bn_baseline_readme(b);
    if (status == BN_OK) status = bn_flamegraph_files_write(&b->files, err);
    return status == BN_OK ? print(b, err) : status;
}

bn_status bn_flamegraph_baseline(struct bn_args *args, bn_error *err)
{
    const char *dir = operand(args, 2);
    struct bn_baseline b = {.args = args, .dir = dir != NULL ? dir : DIR_PRESET};
    char *model = NULL;
    bool redraw = bn_opt_flag(args, "redraw");
    bn_status status = redraw ? BN_OK : preflight(args, &b, &model, err);
    for (size_t i = 0; i < BN_BASELINE_RECORDINGS && status == BN_OK; i++)
        status = redraw ? read_old(&b, i, err) : record(&b, i, err);
    if (status == BN_OK) status = make(&b, err);
    for (size_t i = 0; i < BN_BASELINE_RECORDINGS; i++)
        bn_stacks_close(b.stacks[i]);
    bn_flamegraph_files_release(&b.files);
    bn_json_free(b.index);
    bn_free(model);
    return status;
}
