/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph baseline: records two fixed workloads in each configuration of model, instruction set and
 * threads, unless the folder has a recording with the same fingerprint. Nothing is written before all
 * recordings are complete.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/flamegraph/baseline.h"

#include "base/error.h"
#include "hub/cache/cache.h"
#include "lab/stacks/fingerprint.h"
#include "tools/cli/default_model.h"
#include "tools/cli/provenance.h"
#include "tools/cli/report.h"

#define DIR_PRESET "docs/baselines/perf/flamegraphs"
#define MODEL_NAME "bitnet-b1.58-2b-4t"
#define MAX_ISAS 8u
#define MAX_RECORDINGS 256u
#define LEVEL BN_PROF_BRICK

/* The same two workloads every time, so that recordings can be compared. */
static const struct {
    const char *name, *title, *prompt;
    uint32_t n_predict;
} WORKS[] = {
    {"phase2_1tok", "one token", "2+2=", 1},
    {"phase2_10tok", "ten tokens", "What is 2+2?", 10},
};

/* What is recorded: every combination of these. The first of each list is the default configuration. */
struct choices {
    char **models; /* paths; NULL is the built-in model */
    size_t n_models;
    char isa_text[128]; /* the list, with a NUL after each name */
    const char *isas[MAX_ISAS];
    size_t n_isas;
    struct bn_list threads;
};

const struct bn_option bn_flamegraph_baseline_options[] = {
    BN_OPTION("model", "GGUF file or downloaded model; several may be given", .letter = 'm', .arg = "MODEL",
              .group = "Configurations", .env = "BN_MODEL", .repeatable = true,
              BN_TO_TEXTS(struct bn_flamegraph_options, baseline.models)),
    BN_OPTION("threads", "numbers of compute threads, as 1,2", .letter = 't', .arg = "LIST",
              .group = "Configurations", .env = "BN_THREADS", .env_too = "RAYON_NUM_THREADS", .preset = "1",
              BN_TO_LIST(struct bn_flamegraph_options, baseline.threads, 1, 1024)),
    BN_OPTION("isa", "instruction sets, as avx2,avx512vnni", .arg = "LIST", .group = "Configurations",
              .env = "BN_ISA", .preset = "auto",
              .words = "auto ref avx2 avxvnni avx512vnni avx512vbmi amx neon",
              BN_TO_TEXT(struct bn_flamegraph_options, baseline.isas)),
    BN_OPTION("seed", "recorded; decoding is greedy", .rare = true, .arg = "N", .env = "BITNET_SEED",
              .preset = "42", BN_TO_U64(struct bn_flamegraph_options, work.seed, 0, 0)),
    BN_OPTION("deterministic", "accepted; always on", .arg = "1|on|true|yes", .env = "BITNET_DETERMINISTIC",
              .preset = "1"),
    BN_OPTION("timing", "timing document; of FILE*.md that of the same model counts", .arg = "FILE",
              .preset = "docs/baselines/perf/phase2_timing_i2s.md",
              BN_TO_TEXT(struct bn_flamegraph_options, baseline.timing)),
    BN_OPTION("archive", "keep a copy in DIR/archives/<date>-<commit>/",
              BN_TO_BOOL(struct bn_flamegraph_options, baseline.archive)),
    BN_OPTION("force", "record even if the fingerprint is the same",
              BN_TO_BOOL(struct bn_flamegraph_options, baseline.force)),
    BN_OPTION("redraw", "do not record: draw the recordings in DIR again",
              BN_TO_BOOL(struct bn_flamegraph_options, baseline.redraw)),
    {0},
};

static const char *operand(const struct bn_args *args, size_t i)
{
    const char *text = i < args->n_operands ? args->operands[i] : "-";
    return strcmp(text, "-") == 0 ? NULL : text;
}

/* Scripts for other engines name a tokenizer after the model: a file, or the second of three operands. */
static const char *tokenizer(const struct bn_args *args)
{
    struct stat st;
    const char *second = operand(args, 1);
    bool is_file = second != NULL && stat(second, &st) == 0 && S_ISREG(st.st_mode);
    return args->n_operands > 2 || is_file ? second : NULL;
}

static const char *folder(const struct bn_args *args)
{
    if (args->n_operands > 2) return operand(args, 2);
    return tokenizer(args) == NULL ? operand(args, 1) : NULL;
}

/* ---- configurations ---- */

/* The name of a model's file without its ending, of characters that need no quoting. */
static void put_model(char *out, size_t room, const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    snprintf(out, room, "%.64s", path == NULL ? "built-in" : slash != NULL ? slash + 1 : path);
    char *end = strrchr(out, '.');
    if (end != NULL && strcmp(end, ".gguf") == 0) *end = '\0';
    for (char *p = out; *p != '\0'; p++)
        if (!isalnum((unsigned char)*p) && strchr("._-", *p) == NULL) *p = '_';
}

static bn_status twice(const char *what, const char *name, bn_error *err)
{
    bn_fail(err, BN_ERR_ARG, "two %s have the name %s", what, name);
    bn_error_hint(err, "files are named after configurations; give each name once");
    return BN_ERR_ARG;
}

static bn_status take_model(struct choices *c, const char *text, const char *why, bn_error *err)
{
    char *path = NULL, name[80], other[80];
    if (text != NULL) {
        BN_TRY(bn_cli_model_path(&path, text, err));
        if (access(path, R_OK) != 0) {
            bn_free(path);
            bn_fail_at(err, BN_ERR_NOT_FOUND, BN_NO_OFFSET, text, "no such model");
            bn_error_hint(err, "bn-download " MODEL_NAME);
            return BN_ERR_NOT_FOUND;
        }
    }
    put_model(name, sizeof name, path);
    for (size_t i = 0; i < c->n_models; i++) {
        put_model(other, sizeof other, c->models[i]);
        if (strcmp(name, other) != 0) continue;
        bn_free(path);
        return twice("models", name, err);
    }
    bn_report_note(0, "model: %s (%s)", path != NULL ? path : "the built-in model", why);
    c->models[c->n_models++] = path;
    return BN_OK;
}

static bn_status find_model(struct choices *c, bn_error *err)
{
    static const char *const PLACES[] = {"models/microsoft-bitnet-b1.58-2B-4T-gguf/ggml-model-i2_s.gguf",
                                         "models/ggml-model-i2_s.gguf", "./ggml-model-i2_s.gguf"};
    bn_error nothing = {0};
    char *path = NULL;
    for (size_t i = 0; i < BN_ARRAY_LEN(PLACES); i++)
        if (access(PLACES[i], R_OK) == 0) return take_model(c, PLACES[i], "found there", err);
    if (bn_hub_locate(&path, MODEL_NAME, &nothing) != BN_OK)
        return take_model(c, NULL, "none was named or found", err);
    bn_status status = take_model(c, path, "downloaded as " MODEL_NAME, err);
    bn_free(path);
    return status;
}

static bn_status choose_models(struct choices *c, const struct bn_args *args, bn_error *err)
{
    const struct bn_texts *named = &((const struct bn_flamegraph_options *)args->fields)->baseline.models;
    c->models = bn_alloc(named->n + 1, sizeof *c->models);
    if (c->models == NULL) return bn_nomem(err);
    if (operand(args, 0) != NULL) return take_model(c, operand(args, 0), "named as MODEL", err);
    for (size_t i = 0; i < named->n; i++)
        BN_TRY(take_model(c, named->list[i], "named by --model or BN_MODEL", err));
    return named->n > 0 ? BN_OK : find_model(c, err);
}

/* Each must work here: the last one may be hours away. */
static bn_status choose_isas(struct choices *c, const char *list, bn_error *err)
{
    if ((size_t)snprintf(c->isa_text, sizeof c->isa_text, "%s", list) >= sizeof c->isa_text)
        return bn_fail(err, BN_ERR_ARG, "--isa: the list is longer than %zu bytes", sizeof c->isa_text - 1);
    for (char *name = c->isa_text; name != NULL;) {
        char *next = strchr(name, ',');
        if (next != NULL) *next++ = '\0';
        if (c->n_isas == MAX_ISAS)
            return bn_fail(err, BN_ERR_ARG, "--isa: more than %u instruction sets", MAX_ISAS);
        BN_TRY(bn_isa_select(name, err));
        for (size_t i = 0; i < c->n_isas; i++)
            if (strcmp(c->isas[i], name) == 0) return twice("instruction sets", name, err);
        c->isas[c->n_isas++] = name;
        name = next;
    }
    return BN_OK;
}

static bn_status choose(struct choices *c, const struct bn_args *args, bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    BN_TRY(choose_models(c, args, err));
    BN_TRY(choose_isas(c, o->baseline.isas, err));
    c->threads = o->baseline.threads;
    return BN_OK;
}

static void release_choices(struct choices *c)
{
    for (size_t i = 0; i < c->n_models; i++)
        bn_free(c->models[i]);
    bn_free(c->models);
}

/* The name of a workload and of each choice that is not the first of its list. */
static void name_recording(struct bn_baseline_recording *r, const struct choices *c, size_t isa,
                           size_t thread)
{
    char model[80];
    size_t room = sizeof r->name, n = (size_t)snprintf(r->name, room, "%s", WORKS[r->work].name);
    put_model(model, sizeof model, c->models[r->model]);
    if (r->model > 0) n += (size_t)snprintf(r->name + n, room - n, "-%s", model);
    if (isa > 0) n += (size_t)snprintf(r->name + n, room - n, "-%.16s", r->isa);
    if (thread > 0) snprintf(r->name + n, room - n, "-t%u", r->n_threads);
}

static struct bn_baseline_recording *find_recording(const struct bn_baseline *b, const char *name)
{
    for (size_t i = 0; i < b->n; i++)
        if (strcmp(b->list[i].name, name) == 0) return &b->list[i];
    return NULL;
}

static bn_status add_configurations(struct bn_baseline *b, const struct choices *c, bn_error *err)
{
    size_t per_model = c->n_isas * c->threads.n * BN_ARRAY_LEN(WORKS);
    if (c->n_models * per_model > MAX_RECORDINGS)
        return bn_fail(err, BN_ERR_ARG, "%zu recordings were asked for; the limit is %u",
                       c->n_models * per_model, MAX_RECORDINGS);
    for (size_t i = 0; i < c->n_models * per_model; i++) {
        size_t isa = i / BN_ARRAY_LEN(WORKS) / c->threads.n % c->n_isas,
               thread = i / BN_ARRAY_LEN(WORKS) % c->threads.n;
        struct bn_baseline_recording r = {.asked = true,
                                          .work = i % BN_ARRAY_LEN(WORKS),
                                          .model = i / per_model,
                                          .isa = c->isas[isa],
                                          .n_threads = c->threads.list[thread]};
        name_recording(&r, c, isa, thread);
        if (find_recording(b, r.name) != NULL) return twice("configurations", r.name, err);
        b->list[b->n++] = r;
    }
    return BN_OK;
}

/* ---- the recordings in the folder ---- */

static int by_place(const void *a, const void *b)
{
    const struct bn_baseline_recording *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* All that are asked for or in the folder, in the order of their names. */
static bn_status list_recordings(struct bn_baseline *b, const struct choices *c, bn_error *err)
{
    static const char *const FIRST[] = {BN_ARCHIVE_FIRST};
    struct bn_archive_names names = {0};
    bn_status status = bn_archive_find_names(&names, b->dir, err);
    b->list = bn_alloc(MAX_RECORDINGS + names.n + BN_ARRAY_LEN(FIRST), sizeof *b->list);
    if (status == BN_OK && b->list == NULL) status = bn_nomem(err);
    if (status == BN_OK) status = add_configurations(b, c, err);
    for (size_t i = 0; i < b->n && status == BN_OK; i++)
        status = bn_archive_add_name(&names, b->list[i].name, err);
    for (size_t i = 0; i < BN_ARRAY_LEN(FIRST) && status == BN_OK; i++)
        status = bn_archive_add_name(&names, FIRST[i], err);
    for (size_t i = 0; i < names.n && status == BN_OK; i++) {
        struct bn_baseline_recording *r = find_recording(b, names.list[i]);
        if (r == NULL) {
            r = &b->list[b->n++];
            snprintf(r->name, sizeof r->name, "%s", names.list[i]);
        }
        r->place = i;
    }
    if (status == BN_OK) qsort(b->list, b->n, sizeof *b->list, by_place);
    bn_free(names.list);
    return status;
}

static bn_status read_old(struct bn_baseline_recording *r, bn_error *err)
{
    const struct bn_stacks_view sorted = {0};
    bn_stacks *read = NULL;
    BN_TRY(bn_stacks_read(&read, r->files[BN_BASELINE_JSON].path, err));
    bn_json_remove(read->about, "page"); /* older versions kept their page here */
    bn_status status = bn_stacks_copy(&r->stacks, read, &sorted, err);
    bn_stacks_close(read);
    return status;
}

/* What does not depend on the configuration: program, machine, sampler. Fails when the sampler does not
 * work. */
static bn_status expect_all(bn_json *about, const struct bn_args *args, bn_error *err)
{
    struct bn_record_options options;
    struct bn_symbols_options symbols;
    struct bn_machine machine;
    bn_recorder *recorder = NULL;
    bn_recording recording = {0};
    BN_TRY(bn_flamegraph_read_sampler(&options, &symbols, args, err));
    bn_status status = bn_recorder_open(&recorder, &options, err);
    if (status == BN_OK) status = bn_recorder_stop(recorder, &recording, err);
    bn_recorder_close(recorder);
    if (status != BN_OK) return status;
    bn_machine_read(&machine);
    bn_cli_put_provenance(about, &machine);
    bn_recording_put(about, &recording);
    bn_recording_release(&recording);
    return BN_OK;
}

/* The facts of which a fingerprint is made, as this recording would have them. The token ids follow from the
 * others: those of the old recording are taken. */
static bn_status expect(bn_json *about, const struct bn_baseline_recording *r, const bn_json *old,
                        bn_error *err)
{
    bn_json_remove(about, "workload");
    bn_json *work = bn_json_put_object(about, "workload");
    bn_json_put_string(work, "prompt", WORKS[r->work].prompt);
    bn_json_put_u64(work, "n_predict", WORKS[r->work].n_predict);
    bn_json_put_copy(work, "ids_sha256", bn_json_path(old, "workload.ids_sha256"));
    bn_json_put_u64(work, "threads", r->n_threads);
    BN_TRY(bn_isa_select(r->isa, err));
    bn_json_put_string(work, "isa", bn_isa_name());
    bn_json_put_string(work, "level", bn_prof_level_name(LEVEL));
    return BN_OK;
}

/* Takes the recording in the folder, if it has the same fingerprint. One that cannot be read is replaced. */
static bn_status reuse(struct bn_baseline_recording *r, bn_json *about, bn_error *err)
{
    struct bn_fingerprint old, wanted;
    bn_error nothing = {0};
    if (read_old(r, &nothing) != BN_OK) return BN_OK;
    bn_status status = expect(about, r, r->stacks->about, err);
    if (status == BN_OK) status = bn_fingerprint_of(&old, r->stacks->about, err);
    if (status == BN_OK) status = bn_fingerprint_of(&wanted, about, err);
    if (status == BN_OK && strcmp(old.whole, wanted.whole) == 0) {
        bn_report_note(0, "%s is there with the same fingerprint; --force records it again", r->name);
        return BN_OK;
    }
    bn_stacks_close(r->stacks);
    r->stacks = NULL;
    return status;
}

/* ---- recording ---- */

/* Options that do not change what is recorded are left out of the command that makes it again. */
static bool is_shown(const struct bn_args *args, size_t i)
{
    static const char *const NOT[] = {"archive", "redraw", "json",          "quiet",
                                      "verbose", "color",  "deterministic", "force"};
    const struct bn_option *option = args->values[i].option;
    for (size_t k = 0; k < BN_ARRAY_LEN(NOT); k++)
        if (strcmp(NOT[k], option->name) == 0) return false;
    for (size_t k = i + 1; k < args->n_values && !option->repeatable; k++)
        if (args->values[k].option == option) return false;
    return strcmp(option->name, "model") != 0;
}

static void put_command(bn_json *about, const struct bn_args *args, const struct choices *c)
{
    struct bn_buf line = {.max = 1u << 16};
    bn_buf_puts(&line, "bn-flamegraph baseline");
    for (size_t i = 0; i < args->n_values; i++) {
        if (!is_shown(args, i)) continue;
        bn_buf_printf(&line, " --%s", args->values[i].option->name);
        if (args->values[i].text == NULL) continue;
        bn_buf_putc(&line, ' ');
        bn_buf_put_word(&line, args->values[i].text);
    }
    for (size_t i = 0; i < c->n_models; i++) {
        if (c->models[i] == NULL) continue;
        bn_buf_puts(&line, " --model ");
        bn_buf_put_word(&line, c->models[i]);
    }
    if (folder(args) != NULL) {
        bn_buf_puts(&line, " - ");
        bn_buf_put_word(&line, folder(args));
    }
    if (bn_buf_check(&line, NULL) == BN_OK) bn_json_put_string(about, "command", line.data);
    bn_buf_release(&line);
}

/* Five runs, so that comparisons know how runs vary, with enough samples to tell 1 % from 2 %. */
static bn_status record(struct bn_baseline_recording *r, struct bn_args *args, const struct choices *c,
                        bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    const struct bn_stacks_view sorted = {0};
    struct bn_flamegraph_recorded recorded = {0};
    struct bn_flamegraph_workload w = {.prompt = WORKS[r->work].prompt,
                                       .n_predict = WORKS[r->work].n_predict,
                                       .n_threads = r->n_threads,
                                       .runs = bn_args_given(args, &o->work.runs) ? o->work.runs : 5,
                                       .seed = o->work.seed,
                                       .seconds = o->work.seconds > 0 ? o->work.seconds : 20,
                                       .min_samples = 2000,
                                       .level = LEVEL,
                                       .limit = true};
    bn_report_note(0, "recording %s: %s", r->name, WORKS[r->work].title);
    args->model = c->models[r->model];
    args->isa = r->isa;
    bn_status status = bn_flamegraph_record_model(&recorded, args, &w, err);
    if (status == BN_OK) status = bn_stacks_copy(&r->stacks, recorded.stacks, &sorted, err);
    if (status == BN_OK) put_command(r->stacks->about, args, c);
    bn_flamegraph_recorded_release(&recorded);
    return status;
}

/* Those of the folder are read first: a malformed one ends the command before anything is recorded. */
static bn_status record_all(struct bn_baseline *b, struct bn_args *args, const struct choices *c,
                            bn_error *err)
{
    bool force = ((const struct bn_flamegraph_options *)args->fields)->baseline.force;
    size_t model = SIZE_MAX;
    bn_json *about = bn_json_new_object();
    bn_status status = c->n_models > 0 ? expect_all(about, args, err) : BN_OK;
    for (size_t i = 0; i < b->n && status == BN_OK; i++) {
        struct bn_baseline_recording *r = &b->list[i];
        if (!r->asked) {
            status = read_old(r, err);
        } else if (!force && access(r->files[BN_BASELINE_JSON].path, R_OK) == 0) {
            args->model = c->models[r->model];
            if (r->model != model) bn_json_remove(about, "model"), bn_cli_put_model(about, args);
            model = r->model;
            status = reuse(r, about, err);
        }
    }
    bn_json_free(about);
    for (size_t i = 0; i < b->n && status == BN_OK; i++)
        if (b->list[i].stacks == NULL) status = record(&b->list[i], args, c, err);
    return status;
}

bn_status bn_flamegraph_baseline(struct bn_args *args, bn_error *err)
{
    struct bn_baseline *b = bn_alloc(1, sizeof *b);
    struct choices choices = {0};
    if (b == NULL) return bn_nomem(err);
    b->args = args;
    b->dir = folder(args) != NULL ? folder(args) : DIR_PRESET;
    if (tokenizer(args) != NULL)
        bn_report_warning("ignoring %s: the tokenizer in the GGUF file is used", tokenizer(args));
    bool redraw = ((const struct bn_flamegraph_options *)args->fields)->baseline.redraw;
    bn_status status = redraw ? BN_OK : choose(&choices, args, err);
    if (status == BN_OK) status = list_recordings(b, &choices, err);
    if (status == BN_OK) status = bn_baseline_check_files(b, err);
    if (status == BN_OK) status = record_all(b, args, &choices, err);
    if (status == BN_OK) status = bn_baseline_write(b, err);
    for (size_t i = 0; i < b->n; i++) {
        bn_stacks_close(b->list[i].stacks);
        bn_buf_release(&b->list[i].shows);
        for (size_t k = 0; k < BN_BASELINE_FILES; k++)
            bn_buf_release(&b->list[i].files[k].bytes);
    }
    bn_buf_release(&b->readme.bytes);
    bn_free(b->list);
    bn_free(b);
    release_choices(&choices);
    return status;
}
