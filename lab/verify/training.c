/* SPDX-License-Identifier: MIT
 *
 * The record of a training run: finds its files, checks its rules, and repeats its first steps by starting bn-train.
 */
#define _XOPEN_SOURCE 700

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/elementary.h"
#include "base/error.h"
#include "base/file.h"
#include "lab/kit/process.h"
#include "lab/verify/checks.h"

#define MAX_ARGUMENTS 4096u
#define MAX_OUTPUT (1u << 16)

/* ---- files ---- */

/* The file `name` below a folder, however links and ".." lead there; its path without them. */
static bool find_below(char out[PATH_MAX], const char *folder, const char *name, uint64_t *n_bytes)
{
    char root[PATH_MAX], joined[PATH_MAX];
    struct stat st;
    int n = snprintf(joined, sizeof joined, "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= sizeof joined || realpath(folder, root) == NULL ||
        realpath(joined, out) == NULL)
        return false;
    size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(out, root, length) != 0 || out[length] != '/') return false;
    if (stat(out, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    *n_bytes = (uint64_t)st.st_size;
    return true;
}

static bool find_beside(char out[PATH_MAX], const struct bn_training_options *o, const char *name,
                        uint64_t *n_bytes)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(o->path, '/');
    int n = snprintf(folder, sizeof folder, "%.*s", slash == NULL ? 1 : (int)(slash - o->path) + 1,
                     slash == NULL ? "." : o->path);
    return n >= 0 && (size_t)n < sizeof folder && find_below(out, folder, name, n_bytes);
}

/* A text has its path, or only its name, below the folder of texts, or below that of the record. */
static bool find_text(char out[PATH_MAX], const struct bn_training_options *o, const char *named,
                      uint64_t *n_bytes)
{
    const char *names[] = {named, strrchr(named, '/') == NULL ? named : strrchr(named, '/') + 1};
    for (size_t i = 0; i < BN_ARRAY_LEN(names); i++)
        if (o->texts != NULL ? find_below(out, o->texts, names[i], n_bytes)
                             : find_beside(out, o, names[i], n_bytes))
            return true;
    return false;
}

/* known: digests of files by their paths, so that a file is read once however often the record names it. */
static bn_status check_text(struct bn_training_files *files, const bn_json *text,
                            const struct bn_training_options *o, bn_json *known, bn_error *err)
{
    char path[PATH_MAX], hex[BN_SHA256_HEX], name[80];
    uint64_t n_bytes = 0, claimed = 0;
    const char *named = bn_json_text_of(text, "path");
    files->n_texts++;
    if (!find_text(path, o, named, &n_bytes)) return BN_OK;
    files->n_texts_here++;
    bn_escape(name, sizeof name, named, strlen(named));
    /* Another length is another text: nothing needs to be read. */
    if (!bn_json_u64(bn_json_get(text, "bytes"), &claimed) || claimed != n_bytes) {
        snprintf(files->changed, sizeof files->changed, "%s has another length than in the record", name);
        return BN_OK;
    }
    const char *digest = hex;
    if (!bn_json_string(bn_json_get(known, path), &digest)) {
        BN_TRY(bn_sha256_file(path, hex, err));
        bn_json_put_string(known, path, hex);
    }
    if (!bn_json_text_is(text, "sha256", digest))
        snprintf(files->changed, sizeof files->changed, "%s has another sha256 than in the record", name);
    return BN_OK;
}

/* The digest of a checkpoint is that of all before its last 32 bytes, which are the digest. */
static bn_status read_checkpoint(struct bn_training_files *files, const char *path, bn_error *err)
{
    struct bn_file_map map;
    BN_TRY(bn_file_map_open(&map, path, false, err));
    if (map.n_bytes > BN_SHA256_BYTES)
        bn_sha256_hex(map.data, map.n_bytes - BN_SHA256_BYTES, files->checkpoint_sha256);
    bn_file_map_close(&map);
    return BN_OK;
}

bn_status bn_training_files_read(struct bn_training_files *files, const bn_json *record,
                                 const struct bn_training_options *options, bn_error *err)
{
    char file[PATH_MAX];
    uint64_t n_bytes;
    *files = (struct bn_training_files){0};
    if (options->model_sha256 != NULL)
        memcpy(files->model_sha256, options->model_sha256, sizeof files->model_sha256);
    else if (find_beside(file, options, "model.gguf", &n_bytes))
        BN_TRY(bn_sha256_file(file, files->model_sha256, err));
    if (find_beside(file, options, "checkpoint.bntrain", &n_bytes)) BN_TRY(read_checkpoint(files, file, err));
    bn_json *known = bn_json_new_object();
    bn_status status = BN_OK;
    const bn_json *o = bn_json_first(bn_json_get(record, "data"));
    for (; o != NULL && status == BN_OK && files->changed[0] == '\0'; o = bn_json_next(o))
        status = check_text(files, o, options, known, err);
    bn_json_free(known);
    return status;
}

/* ---- rules about files ---- */

/* A claimed digest next to the one that was found. */
static bool same_digest(const struct bn_check *c, const char *what, const char *path, const char *found)
{
    const char *claimed = NULL;
    const bn_json *value = bn_json_path(c->p, path);
    (void)bn_json_string(value, &claimed);
    if (value != NULL && (bn_json_kind(value) == BN_JSON_NULL || (claimed != NULL && claimed[0] == '\0')))
        return SKIP(c, "the run wrote no %s", what);
    if (claimed == NULL || !bn_is_sha256(claimed))
        return FAIL(c, "%s is not 64 hexadecimal digits in lower case", path);
    if (found[0] == '\0') return SKIP(c, "the %s is not at hand", what);
    if (strcmp(found, claimed) != 0)
        return FAIL(c, "the %s has another sha256 than %.16s... of the record", what, claimed);
    return PASS(c, "%.16s...", found);
}

bool bn_check_training_model(const struct bn_check *c)
{
    const char *found = c->in->files != NULL ? c->in->files->model_sha256 : "";
    return same_digest(c, "model", "result.model_sha256", found);
}

bool bn_check_training_checkpoint(const struct bn_check *c)
{
    const char *found = c->in->files != NULL ? c->in->files->checkpoint_sha256 : "";
    return same_digest(c, "checkpoint", "result.checkpoint_sha256", found);
}

bool bn_check_training_texts(const struct bn_check *c)
{
    const bn_json *data = bn_json_get(c->p, "data");
    if (bn_json_kind(data) != BN_JSON_ARRAY || bn_json_find(data, "role", "text") == NULL)
        return FAIL(c, "data names no text");
    for (const bn_json *o = bn_json_first(data); o != NULL; o = bn_json_next(o))
        if (!bn_is_sha256(bn_json_text_of(o, "sha256")) || bn_json_text_of(o, "path")[0] == '\0')
            return FAIL(c, "data has a text without path or sha256");
    if (c->in->files == NULL || c->in->files->n_texts_here == 0)
        return SKIP(c, "none of %zu texts is at hand", bn_json_size(data));
    if (c->in->files->changed[0] != '\0') return FAIL(c, "%s", c->in->files->changed);
    return PASS(c, "%zu of %zu texts are at hand", c->in->files->n_texts_here, c->in->files->n_texts);
}

/* ---- rules about numbers ---- */

static bool number(const struct bn_check *c, const char *path, ull *value)
{
    uint64_t number = 0;
    bool ok = bn_json_u64(bn_json_path(c->p, path), &number);
    *value = number;
    return ok || FAIL(c, "%s is missing, or not a whole number", path);
}

/* The settings of a record with the limits of bn-train's options; option NULL: it follows from others. */
static const struct {
    const char *option, *name;
    double least, most;
} SETTINGS[] = {{"--group", "group", 0, 256},       {"--layers", "layers", 1, 512},
                {"--width", "width", 64, 65536},    {"--ffn", "ffn", 64, 262144},
                {"--heads", "heads", 1, 1024},      {"--kv-heads", "kv_heads", 1, 1024},
                {"--context", "context", 8, 65536}, {"--rope-base", "rope_base", 100, 1e8},
                {"--steps", "steps", 1, 1e8},       {"--rate", "rate", 0, 1e30},
                {"--rate-2", "rate_2", 0, 1e30},    {"--stage-2", "stage_2", 0, 1},
                {"--warm-up", "warm_up", 0, 1e6},   {"--decay", "decay", 0, 100},
                {"--decay-2", "decay_2", 0, 100},   {"--beta-1", "beta_1", 0, 0.9999},
                {"--beta-2", "beta_2", 0, 0.99999}, {"--clip", "clip", 0, 1e9},
                {"--seed", "seed", 0, 9e15},        {"--late", "late", 0, 1},
                {NULL, "vocabulary", 2, 1 << 24},   {NULL, "micro_batches", 1, 65536},
                {NULL, "slices", 1, 1 << 24},       {NULL, "windows_per_slice", 1, 64}};

bool bn_check_training_settings(const struct bn_check *c)
{
    const bn_json *settings = bn_json_get(c->p, "settings");
    for (size_t i = 0; i < BN_ARRAY_LEN(SETTINGS); i++) {
        double value;
        if (bn_json_number(bn_json_get(settings, SETTINGS[i].name), &value) && value >= SETTINGS[i].least &&
            value <= SETTINGS[i].most)
            continue;
        return FAIL(c, "settings.%s is not a number from %.6g to %.6g", SETTINGS[i].name, SETTINGS[i].least,
                    SETTINGS[i].most);
    }
    return PASS(c, "%zu settings", BN_ARRAY_LEN(SETTINGS));
}

bool bn_check_training_steps(const struct bn_check *c)
{
    static const char *const FACTORS[] = {"settings.micro_batches", "settings.slices",
                                          "settings.windows_per_slice", "settings.context"};
    ull steps, step, tokens, factor, width, heads, head_width;
    uint64_t each = 1;
    bool complete = false;
    if (!number(c, "settings.steps", &steps) || !number(c, "result.step", &step) ||
        !number(c, "result.tokens", &tokens) || !number(c, "settings.width", &width) ||
        !number(c, "settings.heads", &heads) || !number(c, "settings.head_width", &head_width))
        return false;
    for (size_t i = 0; i < BN_ARRAY_LEN(FACTORS); i++) {
        if (!number(c, FACTORS[i], &factor)) return false;
        if (!bn_mul_ok(each, factor, &each)) return FAIL(c, "%s is %llu", FACTORS[i], factor);
    }
    if (!bn_mul_ok(each, step, &each) || each != tokens)
        return FAIL(c, "result.tokens is %llu, %llu steps have another number", tokens, step);
    if (width == 0 || heads == 0 || width / heads != head_width)
        return FAIL(c, "%llu heads of %llu in a width of %llu", heads, head_width, width);
    bool known = bn_json_bool(bn_json_path(c->p, "result.complete"), &complete);
    if (!known || step > steps || complete != (step == steps))
        return FAIL(c, "result.complete contradicts step %llu of %llu", step, steps);
    if (!complete) return FAIL(c, "the run ended after step %llu of %llu", step, steps);
    return PASS(c, "%llu steps, %llu tokens", steps, tokens);
}

/* The step of an element; 0 when it has none. */
static ull step_of(const bn_json *element)
{
    return bn_json_count_of(element, "step");
}

bool bn_check_training_losses(const struct bn_check *c)
{
    const bn_json *losses = bn_json_get(c->p, "losses");
    ull step = 0, last;
    double loss = (double)NAN;
    if (!number(c, "result.step", &last)) return false;
    if (bn_json_kind(losses) != BN_JSON_ARRAY) return FAIL(c, "losses is missing");
    for (const bn_json *o = bn_json_first(losses); o != NULL; o = bn_json_next(o)) {
        double norm = bn_json_number_of(o, "gradient_norm");
        loss = bn_json_number_of(o, "loss");
        if (step_of(o) != ++step) return FAIL(c, "losses has no step %llu where it should be", step);
        if (!(loss > 0) || !isfinite(loss))
            return FAIL(c, "the loss of step %llu is not a positive number", step);
        if (!(norm >= 0) || !isfinite(norm))
            return FAIL(c, "the gradient norm of step %llu is not a number", step);
    }
    if (step != last) return FAIL(c, "losses has %llu steps, result.step is %llu", step, last);
    return PASS(c, "%llu steps, the last loss is %.4f", step, loss);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

/* Tokens and bytes of the validation texts. */
static void validation_size(const bn_json *data, double *tokens, double *bytes)
{
    *tokens = *bytes = 0;
    for (const bn_json *o = bn_json_first(data); o != NULL; o = bn_json_next(o)) {
        if (!bn_json_text_is(o, "role", "validation")) continue;
        *tokens += bn_json_number_of(o, "times") * bn_json_number_of(o, "tokens");
        *bytes += bn_json_number_of(o, "times") * bn_json_number_of(o, "bytes");
    }
}

bool bn_check_training_validations(const struct bn_check *c)
{
    const bn_json *list = bn_json_get(c->p, "validations");
    double tokens, bytes, bits = 0;
    ull last, before = 0;
    if (!number(c, "result.step", &last)) return false;
    validation_size(bn_json_get(c->p, "data"), &tokens, &bytes);
    if (bn_json_size(list) == 0 && bytes == 0) return SKIP(c, "the run had no validation text");
    if (bn_json_size(list) == 0) return FAIL(c, "validations is missing or empty");
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o)) {
        double loss = bn_json_number_of(o, "loss");
        ull step;
        bits = bn_json_number_of(o, "bits_per_byte");
        step = step_of(o);
        if (bn_json_kind(bn_json_get(o, "step")) != BN_JSON_NUMBER || step > last ||
            (before > 0 && step <= before))
            return FAIL(c, "validations are not in the order of steps");
        before = step;
        if (!(loss > 0) || !near(bn_json_number_of(o, "perplexity"), bn_exp(loss)))
            return FAIL(c, "the perplexity after step %llu does not follow from the loss", step);
        if (!near(bits, loss * tokens / bytes / bn_log(2.0)))
            return FAIL(c, "the bits per byte after step %llu do not follow from the loss", step);
    }
    return PASS(c, "%zu validations, the last one %.4f bits per byte", bn_json_size(list), bits);
}

/* ---- the command of the first steps ---- */

struct repeat {
    const bn_json *record;
    const struct bn_training_options *options;
    char folder[PATH_MAX]; /* temporary */
    struct bn_buf arguments;
    struct bn_replay_result *result;
};

/* Arguments one after the other, each with a NUL; a lack of memory is found at the end. */
static void add(struct repeat *r, const char *argument)
{
    bn_buf_append(&r->arguments, argument, strlen(argument) + 1);
}

static void add_option(struct repeat *r, const char *option, const char *value)
{
    add(r, option);
    add(r, value);
}

static void add_number(struct repeat *r, const char *option, double value)
{
    add(r, option);
    bn_json_write_number(&r->arguments, value);
    bn_buf_append(&r->arguments, "", 1);
}

static void add_settings(struct repeat *r)
{
    const bn_json *s = bn_json_get(r->record, "settings");
    add_option(r, "--arch", bn_json_text_of(s, "architecture"));
    for (size_t i = 0; i < BN_ARRAY_LEN(SETTINGS); i++)
        if (SETTINGS[i].option != NULL)
            add_number(r, SETTINGS[i].option, bn_json_number_of(s, SETTINGS[i].name));
    if (bn_json_number_of(s, "muon") != 0) add_option(r, "--optimiser", "muon");
    double micro = bn_json_number_of(s, "slices") * bn_json_number_of(s, "windows_per_slice") *
                   bn_json_number_of(s, "context");
    add_number(r, "--micro-batch", micro);
    add_number(r, "--batch", micro * bn_json_number_of(s, "micro_batches"));
}

/* An older record names no type. The default one cannot store scales of groups. */
static void add_model_file(struct repeat *r)
{
    const bn_json *file = bn_json_get(r->record, "model_file");
    double context = bn_json_number_of(file, "context");
    if (file == NULL && bn_json_number_of(r->record, "settings.group") != 0) add_option(r, "--type", "q2_0");
    if (file == NULL) return;
    add_option(r, "--type", bn_json_text_of(file, "type"));
    add_option(r, "--embedding", bn_json_text_of(file, "embedding"));
    add_option(r, "--name", bn_json_text_of(file, "name"));
    if (context > 0) add_number(r, "--model-ctx", context);
}

/* Whether the repetition makes a model. */
static bool repeats_all(const struct repeat *r)
{
    return r->options->n_steps >= bn_json_number_of(r->record, "settings.steps");
}

/* The texts, in their order. Validations change no step: only a repetition of all steps makes them. */
static bn_status add_texts(struct repeat *r, bn_error *err)
{
    const bn_json *data = bn_json_get(r->record, "data");
    for (const bn_json *o = bn_json_first(data); o != NULL; o = bn_json_next(o)) {
        char path[PATH_MAX], text[PATH_MAX + 32];
        uint64_t n_bytes;
        const char *named = bn_json_text_of(o, "path");
        bool validates = bn_json_text_is(o, "role", "validation");
        if (validates && !repeats_all(r)) continue;
        if (!find_text(path, r->options, named, &n_bytes))
            return bn_fail_in(err, BN_ERR_NOT_FOUND, named,
                              "the text is not below the folder of the record (--texts FOLDER)");
        snprintf(text, sizeof text, "%s:%.0f", path, bn_json_number_of(o, "times"));
        add_option(r,
                   validates                            ? "--validation"
                   : bn_json_text_is(o, "role", "late") ? "--late-text"
                                                        : "--text",
                   text);
    }
    ull every = step_of(bn_json_first(bn_json_get(r->record, "validations")));
    if (repeats_all(r) && every > 0) add_number(r, "--validate-every", (double)every);
    return BN_OK;
}

static bn_status make_command(struct repeat *r, const char *argv[MAX_ARGUMENTS], bn_error *err)
{
    char program[PATH_MAX], text[PATH_MAX];
    const char *core = bn_json_text_of(r->record, "library.core");
    uint64_t n_bytes;
    size_t n = 0;
    if (!bn_program_near(program, "", "bn-train"))
        return bn_hint(bn_fail(err, BN_ERR_NOT_FOUND, "bn-train is not next to this program"), err,
                       "build it where OpenBLAS is");
    add(r, "env");
    snprintf(text, sizeof text, "OPENBLAS_CORETYPE=%.64s", core);
    if (core[0] != '\0') add(r, text);
    add(r, program);
    add_option(r, "train", "-q");
    BN_TRY(add_texts(r, err));
    add_settings(r);
    add_model_file(r);
    if (find_beside(text, r->options, "model.gguf", &n_bytes))
        add_option(r, "--tokenizer", text);
    else
        add_number(r, "--vocab", bn_json_number_of(r->record, "settings.vocabulary"));
    add_number(r, "--until", r->options->n_steps);
    if (r->options->n_threads != 0) add_number(r, "--threads", r->options->n_threads);
    add_option(r, "-o", r->folder);
    BN_TRY(bn_buf_check(&r->arguments, err));
    for (size_t at = 0; at < r->arguments.len && n + 1 < MAX_ARGUMENTS; at += strlen(argv[n++]) + 1)
        argv[n] = r->arguments.data + at;
    return n + 1 < MAX_ARGUMENTS ? BN_OK : bn_fail(err, BN_ERR_LIMIT, "the record names too many texts");
}

/* ---- the comparison ---- */

/* Numbers are written with the digits that give their bits back, so equal numbers are equal bits. */
static bn_status compare_members(struct repeat *r, const bn_json *again, bool at_end, bn_error *err)
{
    static const struct {
        const char *path, *otherwise;
        bool at_end; /* of a run that was repeated to its end */
    } SAME[] = {{"settings", "this bn-train cannot run the settings of the record", false},
                {"corpus.tokens_sha256", "the texts gave other tokens", false},
                {"validations", "the validations are not those of the record", true},
                {"result.model_sha256", "the steps gave a model with another sha256", true}};
    for (size_t i = 0; i < BN_ARRAY_LEN(SAME); i++) {
        if (SAME[i].at_end != at_end) continue;
        char ours[BN_SHA256_HEX] = "", theirs[BN_SHA256_HEX] = "?";
        const bn_json *x = bn_json_path(r->record, SAME[i].path), *y = bn_json_path(again, SAME[i].path);
        if (x != NULL) BN_TRY(bn_json_digest(x, ours, err));
        if (y != NULL) BN_TRY(bn_json_digest(y, theirs, err));
        if (strcmp(ours, theirs) == 0) continue;
        snprintf(r->result->reason, sizeof r->result->reason, "%s", SAME[i].otherwise);
        return BN_OK;
    }
    return BN_OK;
}

static bn_status compare(struct repeat *r, const bn_json *again, bn_error *err)
{
    BN_TRY(compare_members(r, again, false, err));
    if (r->result->reason[0] != '\0') return BN_OK;
    const bn_json *theirs = bn_json_first(bn_json_get(r->record, "losses"));
    const bn_json *ours = bn_json_first(bn_json_get(again, "losses"));
    for (; ours != NULL; ours = bn_json_next(ours), theirs = bn_json_next(theirs)) {
        double a = bn_json_number_of(ours, "loss"), b = bn_json_number_of(theirs, "loss");
        double x = bn_json_number_of(ours, "gradient_norm"), y = bn_json_number_of(theirs, "gradient_norm");
        if (!(a == b && x == y)) {
            snprintf(r->result->reason, sizeof r->result->reason,
                     "step %zu has loss %.17g and gradient norm %.17g here, the record %.17g and %.17g",
                     r->result->n_tokens + 1, a, x, b, y);
            return BN_OK;
        }
        r->result->n_tokens++;
    }
    if (r->result->n_tokens == 0)
        snprintf(r->result->reason, sizeof r->result->reason, "bn-train made no step");
    else if (repeats_all(r))
        BN_TRY(compare_members(r, again, true, err));
    r->result->same = r->result->reason[0] == '\0';
    return BN_OK;
}

/* What the end of bn-train means, when it made no record. A lack of time, memory or disk is not a verdict. */
static bn_status judge_end(struct repeat *r, const struct bn_process *process, const char *errors,
                           bn_error *err)
{
    char how[96];
    bool resource = process->code >= BN_EXIT_IO && process->code <= BN_EXIT_INTERNAL;
    if (process->end == BN_PROCESS_EXITED && process->code == 0) return BN_OK;
    bn_process_describe(how, sizeof how, process);
    if (process->end != BN_PROCESS_EXITED)
        r->result->undecided = BN_EXIT_UNSUPPORTED;
    else if (resource)
        r->result->undecided = (bn_exit)process->code;
    return bn_fail(err, BN_ERR_MISMATCH, "bn-train %s%s%.*s", how,
                   process->end == BN_PROCESS_TIMEOUT ? " (--timeout)" : ": ",
                   (int)bn_min_size(strcspn(errors, "\n"), 120), errors);
}

static bn_status run(struct repeat *r, bn_error *err)
{
    struct bn_buf errors = {.max = MAX_OUTPUT};
    struct bn_process process;
    struct bn_process_options with = {
        .errors = &errors, .timeout_ns = r->options->timeout_ns, .cancelled = r->options->cancelled};
    char path[PATH_MAX];
    bn_json *again = NULL;
    const char *argv[MAX_ARGUMENTS] = {0};
    with.argv = argv;
    bn_status status = make_command(r, argv, err);
    if (status == BN_OK) status = bn_process_run(&process, &with, err);
    if (status == BN_OK) status = judge_end(r, &process, bn_buf_text(&errors), err);
    bn_buf_release(&errors);
    if (status == BN_OK && snprintf(path, sizeof path, "%s/training.json", r->folder) >= (int)sizeof path)
        status = bn_fail(err, BN_ERR_LIMIT, "the name of the temporary folder is too long");
    if (status == BN_OK) status = bn_json_read_file(&again, path, err);
    if (status == BN_OK) status = compare(r, again, err);
    bn_json_free(again);
    return status;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

bn_status bn_training_repeat(const bn_json *record, const struct bn_training_options *options,
                             struct bn_replay_result *result, bn_error *err)
{
    const char *temp = getenv("TMPDIR");
    struct repeat r = {.record = record, .options = options, .arguments.max = SIZE_MAX / 4, .result = result};
    bn_error why = {0};
    *result = (struct bn_replay_result){0};
    snprintf(r.folder, sizeof r.folder, "%s/bn-repeat-XXXXXX",
             temp != NULL && temp[0] != '\0' ? temp : "/tmp");
    bool made = mkdtemp(r.folder) != NULL;
    bn_status status = made ? run(&r, &why) : bn_fail(&why, BN_ERR_IO, "cannot make a temporary folder");
    bool left = made && nftw(r.folder, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0;
    if (status == BN_OK && left) status = bn_fail_errno(&why, errno, r.folder, "cannot remove");
    bn_buf_release(&r.arguments);
    if (status == BN_ERR_NOMEM || status == BN_ERR_CANCELLED) return bn_fail(err, status, "%s", why.msg);
    if (status != BN_OK)
        snprintf(result->reason, sizeof result->reason, "%.60s%s%.130s", why.where,
                 why.where[0] == '\0' ? "" : ": ", why.msg);
    return BN_OK;
}
