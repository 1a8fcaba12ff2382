/* SPDX-License-Identifier: MIT
 *
 * bn-convert: converts ternary models to GGUF: from safetensors, and between the ternary types of GGUF. What a
 * type cannot store exactly is refused.
 */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "lab/report/table.h"
#include "lab/report/units.h"
#include "tools/cli/default_model.h"
#include "tools/cli/options.h"
#include "tools/cli/program/sandbox.h"
#include "tools/cli/programs.h"
#include "tools/cli/progress.h"
#include "tools/cli/report.h"
#include "tools/convert/plan.h"

#define OF struct bn_cv_options /* whose fields the options set */

static const struct bn_option OPTIONS[] = {
    BN_OPTION("to", "type of the ternary weights in the result", .arg = BN_CV_TARGETS, BN_TO_TEXT(OF, to)),
    BN_OPTION("output", "write the model to FILE, its record to FILE.json", .letter = 'o',
              BN_TO_PATH(OF, output, WRITE)),
    BN_OPTION("dry-run", "list the tensors of the result, write nothing", BN_TO_BOOL(OF, dry_run)),
    BN_OPTION("check", "compare a converted file with its record", BN_TO_BOOL(OF, check)),
    BN_OPTION("round-scales", "round scales to binary16 where the type needs it",
              BN_TO_BOOL(OF, round_scales)),
    BN_OPTION("ternarise", "round floats by their mean magnitude, as BitNet does", BN_TO_BOOL(OF, ternarise)),
    BN_RARE("weight-scale", "use of weight_scale in packed safetensors", .arg = "auto|multiply|divide",
            .preset = "auto", BN_TO_CHOICE(OF, weight_scale)),
    BN_RARE("pre", "rule that splits text (tokenizer.ggml.pre)", .arg = "NAME", BN_TO_TEXT(OF, pre)),
    BN_RARE("name", "name of the model (general.name), from safetensors", .arg = "TEXT",
            BN_TO_TEXT(OF, name)),
    BN_OPTION_THREADS_TO(OF, threads),
    {0},
};

struct convert {
    struct bn_args *args;
    const struct bn_cv_options *options;
    struct bn_cv_plan plan;
    struct bn_progress bar;
};

/* ---- the plan ---- */

/* The folder of a path that ends in .safetensors; "" for any other path. */
static void folder_of(char folder[PATH_MAX], const char *path)
{
    static const char END[] = ".safetensors";
    size_t n = strlen(path), end = sizeof END - 1;
    const char *slash = strrchr(path, '/');
    if (n < end || strcmp(path + n - end, END) != 0)
        folder[0] = '\0';
    else
        snprintf(folder, PATH_MAX, "%.*s", slash != NULL ? (int)(slash - path) + 1 : 1,
                 slash != NULL ? path : ".");
}

static bn_status plan_path(struct convert *c, const char *path, bn_error *err)
{
    char folder[PATH_MAX];
    struct stat st;
    folder_of(folder, path);
    if (folder[0] != '\0') return bn_cv_from_folder(&c->plan, folder, err);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return bn_cv_from_folder(&c->plan, path, err);
    return bn_cv_from_gguf(&c->plan, path, err);
}

static bn_status make_plan(struct convert *c, bn_error *err)
{
    const char *path = c->args->operands[0];
    char *found = NULL;
    BN_TRY(bn_cli_model_path(&found, path, err));
    c->plan.options = c->options;
    c->plan.target = bn_type_find(c->options->to);
    c->plan.keys.kv.max = c->plan.keys.infos.max = BN_GGUF_MAX_META_BYTES;
    bn_status status = plan_path(c, found, err);
    if (status == BN_OK) status = bn_cv_settle(&c->plan, err);
    if (status != BN_OK) bn_error_name(err, path);
    bn_free(found);
    return status;
}

/* "4096 x 151669" */
static const char *shape_of(char out[96], const struct bn_cv_tensor *t)
{
    size_t at = 0;
    for (uint32_t d = 0; d < t->n_dims && at < 96; d++)
        at += (size_t)snprintf(out + at, 96 - at, "%s%llu", d > 0 ? " x " : "", (unsigned long long)t->ne[d]);
    return out;
}

static bn_status list_plan(const struct convert *c, bn_error *err)
{
    static const char *const HEADS[] = {"tensor", "shape", "from", "to", "bytes"};
    struct bn_table table;
    uint64_t total = 0;
    char shape[96], size[BN_UNITS_ROOM];
    bn_table_begin(&table, HEADS, "llllr");
    for (size_t i = 0; i < c->plan.n_tensors; i++) {
        const struct bn_cv_tensor *t = &c->plan.tensors[i];
        bn_table_row(&table, "");
        bn_table_text(&table, t->name);
        bn_table_text(&table, shape_of(shape, t));
        bn_table_text(&table, t->kind == BN_CV_PACKED ? "packed" : bn_type_info(t->from)->name);
        bn_table_text(&table, bn_type_info(t->to)->name);
        bn_table_printf(&table, "%llu", (unsigned long long)t->n_bytes);
        total += t->n_bytes;
    }
    BN_TRY(bn_cli_print_table(&table, err));
    printf("%zu tensors, %s\n", c->plan.n_tensors, bn_units_text(size, (double)total, "bytes"));
    if (c->plan.n_vision + c->plan.n_next > 0)
        printf("left out: %zu tensors of the vision tower, %zu of layers that predict further tokens\n",
               c->plan.n_vision, c->plan.n_next);
    return BN_OK;
}

/* ---- writing ---- */

static bool show(void *user, size_t n_done)
{
    struct convert *c = user;
    bn_progress_show(&c->bar, n_done);
    return bn_cli_interrupted() == 0;
}

static bn_status check_output(const struct convert *c, bn_error *err)
{
    struct stat out, in;
    if (stat(c->options->output, &out) != 0) return BN_OK;
    if (!S_ISREG(out.st_mode))
        return bn_fail_in(err, BN_ERR_ARG, c->options->output, "the output exists and is not a regular file");
    for (size_t i = 0; i < c->plan.n_inputs; i++)
        if (stat(c->plan.inputs[i].path, &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return bn_fail_in(err, BN_ERR_ARG, c->options->output, "the output is also an input");
    return BN_OK;
}

static bn_status convert(struct convert *c, bn_error *err)
{
    char record[PATH_MAX];
    struct bn_cv_result result = {0};
    BN_TRY(check_output(c, err));
    BN_TRY(bn_cv_record_path(record, sizeof record, c->options->output, err));
    bn_progress_begin(&c->bar, "digests of the inputs", 0, c->args->quiet);
    bn_status status = bn_cv_digest_inputs(&c->plan, show, c, err);
    bn_progress_clear(&c->bar);
    BN_TRY(status);
    bn_progress_begin(&c->bar, "tensors", c->plan.n_tensors, c->args->quiet);
    status = bn_cv_write(&c->plan, record, &result, show, c, err);
    bn_progress_clear(&c->bar);
    BN_TRY(status);
    bn_json *doc = bn_cv_record(&c->plan, &result);
    status = doc != NULL ? bn_json_write_file(doc, record, err) : bn_nomem(err);
    if (status == BN_OK && c->args->json) status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    BN_TRY(status);
    if (!c->args->json) printf("%s  %s\n", result.sha256, c->options->output);
    if (result.worst > 0)
        bn_report_warning("scales were rounded to binary16; the largest relative change is %.2g",
                          result.worst);
    return BN_OK;
}

static bn_status dry_run(const struct convert *c, bn_error *err)
{
    if (!c->args->json) return list_plan(c, err);
    return bn_cli_flush_json(bn_cv_record(&c->plan, NULL), false, err);
}

static bn_status check(const struct convert *c, bn_error *err)
{
    bn_json *record = NULL;
    BN_TRY(bn_cv_check(&record, c->args->operands[0], err));
    bn_status status = BN_OK;
    if (c->args->json)
        status = bn_cli_print_json(record, err);
    else
        printf("%s: the digest is that of its record\n", c->args->operands[0]);
    bn_json_free(record);
    return status;
}

static bn_status run(struct bn_args *args, bn_error *err)
{
    const struct bn_cv_options *o = args->fields;
    struct convert c = {.args = args, .options = o};
    if (o->check) return check(&c, err);
    args->want_usage = o->to == NULL || (o->output == NULL && !o->dry_run);
    if (o->to == NULL)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "no type is given"), err, "--to " BN_CV_TARGETS);
    if (args->want_usage)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "no output is given"), err, "-o FILE, or --dry-run");
    bn_cli_catch_interrupt();
    bn_status status = make_plan(&c, err);
    if (status == BN_OK) status = o->dry_run ? dry_run(&c, err) : convert(&c, err);
    bn_cv_release(&c.plan);
    if (status != BN_ERR_CANCELLED || bn_cli_interrupted() == 0) return status;
    args->exit_code = 128 + bn_cli_interrupted();
    bn_report_note(0, "cancelled; nothing was written");
    return BN_OK;
}

static const struct bn_sandbox SANDBOX = {BN_SANDBOX};

static const struct bn_command COMMANDS[] = {
    {.name = "",
     .summary = BN_SUMMARY_CONVERT,
     .text =
         "MODEL is a GGUF file, the name of a downloaded one, or a folder with config.json, tokenizer.json and "
         "safetensors, as it is on the Hugging Face hub. Every weight of the result has exactly the value that it has in MODEL; a "
         "type that cannot store it is refused, with the tensor and the row. Other tensors and all keys "
         "are copied.\n\nThe file appears when it is complete. Its digest is printed. The record FILE.json "
         "names the inputs by their digests, and the options. The same MODEL and options give the "
         "same bytes.",
     .synopsis = "MODEL --to TYPE -o FILE\nMODEL --to TYPE --dry-run\nFILE --check",
     .options = {OPTIONS},
     .json = true,
     BN_PATHS(1, 1, "MODEL", BESIDE), /* shards, or the record */
     BN_SANDBOXED(SANDBOX, run),
     .examples = {{"bn-convert Ternary-Bonsai-8B-unpacked --to q2_0 -o bonsai.gguf",
                   "from safetensors, for llama.cpp too"},
                  {"bn-convert old.gguf --to ptq1_0 -o small.gguf", "the same weights in fewer bytes"},
                  {"bn-convert bitnet-2b --to i2_s --dry-run", "what would be written"}}},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-convert",
    .summary = BN_SUMMARY_CONVERT,
    .text = "Converts ternary models to GGUF without loss: from safetensors, and between ternary types.",
    .commands = COMMANDS,
    .bytes = sizeof(OF),
    .exits = {{"3", "a file of the model, or the record, does not exist"},
              {"4", "malformed GGUF, safetensors or JSON"},
              {"5", "--check: the file is not that of its record"},
              {"8", "the disk is full, or the output cannot be written"},
              {"9", "the type cannot store a weight exactly, or the model is not supported"}},
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}
