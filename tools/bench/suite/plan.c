/* SPDX-License-Identifier: MIT
 *
 * Turns a configuration file into the processes of a suite. The parts that framework.parts names are command lines with the
 * options that keys give them; cases are command lines of the file. A line with the word MODEL runs once for each of
 * inference.models, which is in its place; FIRST is the first of them. The built-in model leaves out the word, and -m before it.
 *
 * A value is checked by parsing the option that it is passed to; keys of the suite itself are the options of a command that only
 * this file has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/suggest.h"
#include "tools/bench/run/run.h"
#include "tools/bench/suite/suite.h"
#include "tools/cli/fields.h"

#define BUILT_IN "built-in"

/* ---- keys ---- */

#define FIELDS struct bn_bench_options
#define INFERS (BN_SUITE_RUN | BN_SUITE_LIMITS)
#define ROWS (BN_SUITE_KERNELS | BN_SUITE_QUANT | BN_SUITE_MEMORY)
#define ISA (BN_SUITE_RUN | BN_SUITE_SCORE | BN_SUITE_KERNELS | BN_SUITE_QUANT | BN_SUITE_PROFILE)

/* The form of a value that is a share in the file, and per cent on the command line. */
static const char PER_CENT[] = "per cent";
/* The reasons of keys of published files that select nothing here; those of one reason follow each other. */
static const char ALL[] = "every one is measured", PAGE[] = "the page always has its charts",
                  HERE[] = "a suite measures this machine, on its CPU";

static const struct bn_suite_key KEYS[] = {
    {"framework.parts", 0, "parts", NULL, BN_SUITE_EACH},
    {"framework.iterations", BN_SUITE_RUN, "reps", NULL, BN_SUITE_ONE},
    {"framework.warmup_iterations", BN_SUITE_RUN, "warmup", NULL, BN_SUITE_ONE},
    {"framework.confidence_level", BN_SUITE_RUN, "confidence", PER_CENT, BN_SUITE_ONE},
    {"framework.timeout_seconds", 0, "timeout", NULL, BN_SUITE_ONE},
    {"framework.min_time_seconds", ROWS, "min-time", NULL, BN_SUITE_ONE},
    {"framework.seed", BN_SUITE_RUN | BN_SUITE_PROFILE, "seed", NULL, BN_SUITE_ONE},
    {"memory.filter", BN_SUITE_MEMORY, "filter", NULL, BN_SUITE_ONE},
    {"quantization.filter", BN_SUITE_QUANT, "filter", NULL, BN_SUITE_ONE},
    {"quantization.text", BN_SUITE_QUANT, "text", NULL, BN_SUITE_ONE},
    {"quantization.tensor_sizes", BN_SUITE_QUANT, "shape", NULL, BN_SUITE_EACH},
    {"kernels.filter", BN_SUITE_KERNELS, "filter", NULL, BN_SUITE_ONE},
    {"inference.models", 0, "models", NULL, BN_SUITE_EACH},
    {"inference.sequence_lengths", INFERS, "n-prompt", NULL, BN_SUITE_LIST},
    {"inference.decode_lengths", INFERS, "n-predict", NULL, BN_SUITE_LIST},
    {"inference.depths", INFERS, "depth", NULL, BN_SUITE_LIST},
    {"inference.batch_sizes", BN_SUITE_RUN, "sequences", NULL, BN_SUITE_LIST},
    {"inference.concurrent", BN_SUITE_RUN, "concurrent", NULL, BN_SUITE_LIST},
    {"inference.busy_processes", BN_SUITE_RUN, "busy", NULL, BN_SUITE_LIST},
    {"hardware.threads", INFERS | ROWS | BN_SUITE_TRAIN, "threads", NULL, BN_SUITE_LIST},
    {"hardware.isa", ISA, "isa", NULL, BN_SUITE_ONE},
    {"hardware.device", INFERS | BN_SUITE_PROFILE | BN_SUITE_SCORE | BN_SUITE_CROSSVAL, "device", NULL,
     BN_SUITE_ONE},
    {"hardware.price_per_hour", BN_SUITE_RUN, "price-per-hour", NULL, BN_SUITE_ONE},
    {"reporting.directory", 0, "directory", NULL, BN_SUITE_ONE},
    {"reporting.formats", 0, "formats", NULL, BN_SUITE_EACH},
    {"targets.decode_tokens_per_second", BN_SUITE_RUN, "target", "decode fastest>=%s", BN_SUITE_ONE},
    {"targets.prompt_tokens_per_second", BN_SUITE_RUN, "target", "prompt fastest>=%s", BN_SUITE_ONE},
    {"targets.first_token_ms", BN_SUITE_RUN, "target", "first-token fastest<=%sms", BN_SUITE_ONE},
    {"targets.peak_memory_mib", BN_SUITE_RUN, "target", "memory<=%sMiB", BN_SUITE_ONE},
    {"targets.joules_per_token", BN_SUITE_RUN, "target", "energy fastest<=%sJ", BN_SUITE_ONE},
    {"targets.price_per_million_tokens", BN_SUITE_RUN, "target", "price fastest<=%s", BN_SUITE_ONE},
    {"memory.allocation_sizes", 0, NULL, ALL, BN_SUITE_EACH},
    {"memory.allocation_patterns", 0, NULL, ALL, BN_SUITE_EACH},
    {"memory.tracking_levels", 0, NULL, ALL, BN_SUITE_EACH},
    {"quantization.bit_widths", 0, NULL, ALL, BN_SUITE_EACH},
    {"quantization.calibration_samples", 0, NULL, ALL, BN_SUITE_EACH},
    {"inference.model_sizes", 0, NULL, "a size is not a model; name its file in inference.models",
     BN_SUITE_EACH},
    {"hardware.platforms", 0, NULL, HERE, BN_SUITE_EACH},
    {"hardware.devices", 0, NULL, HERE, BN_SUITE_EACH},
    {"reporting.charts", 0, NULL, PAGE, BN_SUITE_EACH},
    {"reporting.dashboard", 0, NULL, PAGE, BN_SUITE_EACH},
    {"reporting.upload_results", 0, NULL, "bn-bench opens no connection", BN_SUITE_EACH},
};

static const struct bn_option OWN[] = {
    BN_OPTION("parts", "", .arg = BN_SUITE_PARTS, .repeatable = true, BN_TO_TEXTS(FIELDS, parts)),
    BN_OPTION("timeout", "", .arg = "SECONDS", BN_TO_F64(FIELDS, timeout, 1, 1e6)),
    BN_OPTION("models", "", .arg = "MODEL", .repeatable = true, BN_TO_TEXTS(FIELDS, models)),
    BN_OPTION("directory", "", .arg = "DIR", BN_TO_TEXT(FIELDS, dir)),
    BN_OPTION("formats", "", .arg = "html|json|csv|markdown", .repeatable = true,
              BN_TO_TEXTS(FIELDS, formats)),
    {0},
};
static const struct bn_command COMMANDS[] = {
    {.name = "", .summary = "", .synopsis = "", .options = {OWN}, .run = bn_bench_suite}, {0}};
static const struct bn_program FILE_PROGRAM = {
    .name = "suite", .commands = COMMANDS, .bytes = sizeof(FIELDS)};

/* ---- arguments ---- */

static bn_status push(struct bn_suite_words *words, const char *text, bn_error *err)
{
    BN_TRY(bn_array_grow(&words->list, &words->room, words->n + 2, sizeof *words->list, err));
    words->list[words->n] = bn_strndup(text, strlen(text));
    if (words->list[words->n] == NULL) return bn_nomem(err);
    words->list[++words->n] = NULL;
    return BN_OK;
}

/* Pushes --name and its value. */
static bn_status push_option(struct bn_suite_words *words, const char *name, const char *value, bn_error *err)
{
    char option[80];
    snprintf(option, sizeof option, "--%s", name);
    BN_TRY(push(words, option, err));
    return push(words, value, err);
}

static void words_release(struct bn_suite_words *words)
{
    for (size_t i = 0; i < words->n; i++)
        bn_free(words->list[i]);
    bn_free(words->list);
    *words = (struct bn_suite_words){0};
}

/* ---- checks ---- */

static bn_status refuse_unknown(const struct bn_yaml_value *v, bn_error *err)
{
    struct bn_suggestion s = {.typed = v->key};
    for (size_t i = 0; i < BN_ARRAY_LEN(KEYS); i++)
        bn_suggest(&s, KEYS[i].name);
    bn_fail(err, BN_ERR_FORMAT, "line %u: unknown key '%s'", v->line,
            bn_fields_quote(v->key, strlen(v->key)).text);
    if (s.best != NULL) bn_error_hint(err, "did you mean %s?", s.best);
    return BN_ERR_FORMAT;
}

/* One warning for all keys that select nothing. */
static void warn_ignored(const struct bn_yaml *yaml)
{
    struct bn_buf text = {.max = 1u << 12};
    const char *why = NULL;
    for (const struct bn_suite_key *key = KEYS; key < KEYS + BN_ARRAY_LEN(KEYS); key++) {
        bool there = false;
        for (size_t i = 0; i < yaml->n && key->pass == NULL && !there; i++)
            there = strcmp(yaml->list[i].key, key->name) == 0;
        if (!there) continue;
        if (why != NULL && why != key->form) bn_buf_printf(&text, " (%s)", why);
        bn_buf_printf(&text, "%s%s", why == NULL ? "" : why == key->form ? ", " : "; ", key->name);
        why = key->form;
    }
    if (why != NULL) bn_report_warning("keys without effect: %s (%s)", bn_buf_text(&text), why);
    bn_buf_release(&text);
}

/* Parses a command line as the program would, into args that it releases before. BN_ERR_FORMAT for one that it would
 * refuse. */
static bn_status check(const struct bn_program *program, const struct bn_suite_words *words,
                       struct bn_args *args, bn_error *err)
{
    struct bn_bench_target target;
    bn_args_release(args);
    bn_status status = bn_args_parse(args, program, (int)words->n, words->list, err);
    const struct bn_bench_options *o = args->fields; /* NULL for --help */
    for (size_t i = 0; status == BN_OK && o != NULL && i < o->targets.n; i++)
        status = bn_bench_target_read(&target, o->targets.list[i], err);
    if (status == BN_ERR_ARG && err != NULL) err->code = BN_ERR_FORMAT;
    return status == BN_ERR_ARG ? BN_ERR_FORMAT : status;
}

/* Names the line and the key in an error. Returns the status. */
static bn_status name_line(const struct bn_yaml_value *v, bn_status status, bn_error *err)
{
    char where[80];
    snprintf(where, sizeof where, "line %u: %.50s", v->line, v->key);
    if (status != BN_OK) bn_error_name(err, where);
    return status;
}

/* ---- filling ---- */

/* A value in the form of its option. */
static void put_value(struct bn_buf *text, const struct bn_suite_key *key, const char *value)
{
    const char *at = key->form != NULL ? strstr(key->form, "%s") : NULL;
    if (key->form == PER_CENT)
        bn_buf_printf(text, "%.12g", 100 * strtod(value, NULL));
    else if (at != NULL)
        bn_buf_printf(text, "%.*s%s%s", (int)(at - key->form), key->form, value, at + 2);
    else
        bn_buf_printf(text, "%s%s", text->len > 0 ? "," : "", value);
}

/* A setting of a value, or of all n values of a list. */
static bn_status add_setting(struct bn_suite_plan *plan, const struct bn_suite_key *key,
                             const struct bn_yaml_value *v, size_t n, bn_error *err)
{
    struct bn_buf text = {.max = 1u << 16};
    for (size_t i = 0; i < n; i++)
        put_value(&text, key, v[i].text);
    plan->settings[plan->n_settings++] = (struct bn_suite_setting){key, v, text.data}; /* released there */
    BN_TRY(bn_buf_check(&text, err));
    if (key->parts != 0) return BN_OK; /* checked where it is passed */
    BN_TRY(push_option(&plan->own, key->pass, text.data, err));
    return check(&FILE_PROGRAM, &plan->own, &plan->args, err);
}

static bn_status add_key(struct bn_suite_plan *plan, const struct bn_yaml_value *v, size_t n, bn_error *err)
{
    const struct bn_suite_key *key = KEYS;
    bn_status status = BN_OK;
    while (key < KEYS + BN_ARRAY_LEN(KEYS) && strcmp(key->name, v->key) != 0)
        key++;
    if (key == KEYS + BN_ARRAY_LEN(KEYS)) return refuse_unknown(v, err);
    size_t step = key->many == BN_SUITE_LIST ? n : 1;
    if (v->list && key->many == BN_SUITE_ONE)
        status = bn_fail(err, BN_ERR_FORMAT, "a list: expected one value");
    for (size_t i = 0; i < n && status == BN_OK && key->pass != NULL; i += step)
        status = add_setting(plan, key, v + i, step, err);
    return name_line(v, status, err);
}

/* Checks the values of the file and fills the fields; one warning names all keys that have no effect. */
static bn_status fill(struct bn_suite_plan *plan, bn_error *err)
{
    const struct bn_yaml *yaml = &plan->yaml;
    size_t n;
    BN_TRY(BN_NEW(plan->settings, yaml->n, err));
    BN_TRY(push(&plan->own, "suite", err));
    for (size_t i = 0; i < yaml->n; i += n) {
        const struct bn_yaml_value *v = &yaml->list[i];
        for (n = 1; i + n < yaml->n && v[n].key == v->key;)
            n++;
        if (strncmp(v->key, BN_SUITE_CASES, strlen(BN_SUITE_CASES)) != 0) BN_TRY(add_key(plan, v, n, err));
    }
    warn_ignored(yaml);
    BN_TRY(check(&FILE_PROGRAM, &plan->own, &plan->args, err));
    plan->o = plan->args.fields;
    return BN_OK;
}

/* ---- command lines ---- */

/* The next word of a command line, appended to an empty buffer; *line is NULL at the end. A word ends at a space; within '...'
 * or "..." only the closing quote has a meaning. */
static bn_status next_word(const char **line, struct bn_buf *word, bn_error *err)
{
    static const char SPACE[] = " \t\n";
    const char *at = *line + strspn(*line, SPACE);
    char quote = '\0';
    *line = *at != '\0' ? at : NULL;
    for (; *at != '\0' && (quote != '\0' || strchr(SPACE, *at) == NULL); at++) {
        if (*at == quote)
            quote = '\0';
        else if (quote == '\0' && (*at == '\'' || *at == '"'))
            quote = *at;
        else
            bn_buf_putc(word, *at);
    }
    if (quote != '\0') return bn_fail(err, BN_ERR_FORMAT, "a quote (%c) is not closed", quote);
    bn_buf_puts(word, "");
    if (*line != NULL) *line = at;
    return bn_buf_check(word, err);
}

static bool is_bench(const struct bn_suite_plan *plan, const char *word)
{
    for (const struct bn_command *c = plan->program->commands; c->name != NULL; c++)
        if (strcmp(c->name, word) == 0) return true;
    return false;
}

/* The program that the first word names, and --json after its command for those whose documents have series. */
static bn_status push_first(struct bn_suite_words *words, const struct bn_suite_plan *plan, const char *word,
                            bn_error *err)
{
    char program[80];
    if (is_bench(plan, word)) {
        BN_TRY(push(words, plan->program->name, err));
        BN_TRY(push(words, word, err));
        return push(words, "--json", err);
    }
    snprintf(program, sizeof program, "%s%.70s", strncmp(word, "bn-", 3) == 0 ? "" : "bn-", word);
    return push(words, program, err);
}

/* *by_model: whether the word is MODEL. */
static bn_status push_word(struct bn_suite_words *words, const struct bn_suite_plan *plan, const char *word,
                           const struct bn_texts *models, size_t model, bool *by_model, bn_error *err)
{
    bool first = strcmp(word, "FIRST") == 0, each = strcmp(word, "MODEL") == 0;
    *by_model = *by_model || each;
    if (words->n == 0) return push_first(words, plan, word, err);
    if (first || each) word = models->list[first ? 0 : model];
    if ((first || each) && strcmp(word, BUILT_IN) == 0) {
        if (strcmp(words->list[words->n - 1], "-m") == 0) bn_free(words->list[--words->n]);
        words->list[words->n] = NULL;
        return BN_OK;
    }
    BN_TRY(push(words, word, err));
    return words->n == 2 && strcmp(words->list[0], "bn-crossval") == 0 ? push(words, "--json", err) : BN_OK;
}

static bn_status push_line(struct bn_suite_words *words, const struct bn_suite_plan *plan, const char *line,
                           const struct bn_texts *models, size_t model, bool *by_model, bn_error *err)
{
    bn_status status = BN_OK;
    while (status == BN_OK && line != NULL) {
        struct bn_buf word = {.max = 1u << 16};
        status = next_word(&line, &word, err);
        if (status == BN_OK && line != NULL)
            status = push_word(words, plan, word.data, models, model, by_model, err);
        bn_buf_release(&word);
    }
    if (status == BN_OK && words->n == 0) return bn_fail(err, BN_ERR_FORMAT, "an empty command");
    return status;
}

/* ---- parts ---- */

/* In the order of their bits. */
static const struct {
    const char *name, *line;
} PARTS[] = {{"run", "run -m MODEL"},
             {"kernels", "kernels -m FIRST"},
             {"quant", "quant -m FIRST"},
             {"memory", "memory -m FIRST"},
             {"profile", "profile -m MODEL"},
             {"limits", "limits -m MODEL"},
             {"score", "run -m MODEL -p 0 -n 8 --score validation"},
             {"serve", "serve -m FIRST"},
             {"train", "train"},
             {"crossval", "crossval bench -m FIRST"}};

/* The label, "run shakespeare" when there is a model, and the file. The name of a model is without folders and ".gguf". A
 * number tells parts of the same name apart, and from the files of the suite. */
static void name_part(const struct bn_suite_plan *plan, struct bn_suite_part *part, const char *label,
                      const char *model)
{
    static const char PLAIN[] = " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *name = model == NULL ? "" : bn_bench_base_name(model);
    char number[24] = "";
    size_t n = strlen(label), n_model = strlen(name), same = 1;
    part->optional = n > 0 && label[n - 1] == '?';
    if (n_model > 5 && strcmp(name + n_model - 5, ".gguf") == 0) n_model -= 5;
    snprintf(part->label, sizeof part->label, "%.*s%s%.*s", (int)(n - part->optional), label,
             model != NULL ? " " : "", (int)n_model, name);
    for (char *c = part->label; *c != '\0'; c++)
        if (strchr(PLAIN, *c) == NULL) *c = '-';
    snprintf(part->file, sizeof part->file, "%s", part->label);
    for (char *c = part->file; *c != '\0'; c++)
        if (*c == ' ') *c = '-';
    n = strlen(part->file);
    same += strcmp(part->file, "suite") == 0 || strcmp(part->file, "performance-report") == 0;
    for (const struct bn_suite_part *p = plan->parts; p < part; p++)
        same +=
            strncmp(p->file, part->file, n) == 0 && (p->file[n] == '~' || strcmp(p->file + n, ".json") == 0);
    if (same > 1) snprintf(number, sizeof number, "~%zu", same);
    snprintf(part->label + n, sizeof part->label - n, "%s", number);
    snprintf(part->file + n, sizeof part->file - n, "%s.json", number);
}

/* Pushes the settings of a part. A command of bn-bench is checked before anything runs, after each of them. */
static bn_status push_settings(struct bn_suite_words *words, const struct bn_suite_plan *plan, unsigned bit,
                               bn_error *err)
{
    struct bn_args args = {0};
    bool ours = strcmp(words->list[0], plan->program->name) == 0;
    bn_status status = ours ? check(plan->program, words, &args, err) : BN_OK;
    for (size_t i = 0; i < plan->n_settings && status == BN_OK; i++) {
        const struct bn_suite_setting *s = &plan->settings[i];
        if ((s->key->parts & bit) == 0) continue;
        status = push_option(words, s->key->pass, s->text, err);
        if (status == BN_OK && ours) status = check(plan->program, words, &args, err);
        (void)name_line(s->value, status, err);
    }
    bn_args_release(&args);
    return status;
}

/* A command line, once for each model when it names them; bit: the part whose keys it gets. */
static bn_status add_line(struct bn_suite_plan *plan, const char *label, const char *line, unsigned bit,
                          const struct bn_texts *models, bn_error *err)
{
    bool by_model = true;
    if (label[strspn(label, "?")] == '\0') return bn_fail(err, BN_ERR_FORMAT, "a case without a label");
    for (size_t m = 0; m < models->n && by_model; m++) {
        BN_TRY(bn_array_grow(&plan->parts, &plan->room, plan->n_parts + 1, sizeof *plan->parts, err));
        struct bn_suite_part *part = &plan->parts[plan->n_parts++];
        *part = (struct bn_suite_part){0};
        by_model = false;
        BN_TRY(push_line(&part->words, plan, line, models, m, &by_model, err));
        name_part(plan, part, label, by_model ? models->list[m] : NULL);
        BN_TRY(push_settings(&part->words, plan, bit, err));
    }
    return BN_OK;
}

/* Without framework.parts: the first four, unless there are cases. */
static bool wants(const struct bn_suite_plan *plan, size_t i, bool cases)
{
    const struct bn_texts *parts = &plan->o->parts;
    for (size_t k = 0; k < parts->n; k++)
        if (strcmp(parts->list[k], PARTS[i].name) == 0) return true;
    return parts->n == 0 && i < 4 && !cases;
}

static bn_status add_parts(struct bn_suite_plan *plan, bn_error *err)
{
    static const char *built_in[] = {BUILT_IN};
    const size_t n = strlen(BN_SUITE_CASES);
    struct bn_texts models = plan->o->models;
    bool cases = false;
    if (models.n == 0) models = (struct bn_texts){built_in, 1};
    for (size_t i = 0; i < models.n * models.n; i++)
        if (i / models.n < i % models.n && strcmp(models.list[i / models.n], models.list[i % models.n]) == 0)
            return bn_fail(err, BN_ERR_FORMAT, "inference.models: '%.60s' is a duplicate",
                           models.list[i % models.n]);
    for (size_t i = 0; i < plan->yaml.n; i++)
        cases = cases || strncmp(plan->yaml.list[i].key, BN_SUITE_CASES, n) == 0;
    for (size_t i = 0; i < plan->n_settings && !wants(plan, 0, cases); i++)
        if (strcmp(plan->settings[i].key->pass, "target") == 0)
            return bn_fail(err, BN_ERR_FORMAT, "%s needs the part run", plan->settings[i].key->name);
    for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++)
        if (wants(plan, i, cases))
            BN_TRY(add_line(plan, PARTS[i].name, PARTS[i].line, 1u << i, &models, err));
    for (size_t i = 0; i < plan->yaml.n; i++) {
        const struct bn_yaml_value *v = &plan->yaml.list[i];
        if (strncmp(v->key, BN_SUITE_CASES, n) == 0)
            BN_TRY(name_line(v, add_line(plan, v->key + n, v->text, 0, &models, err), err));
    }
    return BN_OK;
}

/* ---- the file ---- */

bn_status bn_suite_read(struct bn_suite_plan *plan, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = BN_YAML_MAX_BYTES};
    bn_status status = bn_file_read(path, &text, err);
    if (status == BN_OK) status = bn_yaml_parse(&plan->yaml, bn_buf_text(&text), text.len, err);
    if (status == BN_OK) status = fill(plan, err);
    if (status == BN_OK) status = add_parts(plan, err);
    bn_buf_release(&text);
    if (status != BN_OK) bn_error_name(err, strcmp(path, "-") == 0 ? "standard input" : path);
    return status;
}

void bn_suite_release(struct bn_suite_plan *plan)
{
    for (size_t i = 0; i < plan->n_parts; i++)
        words_release(&plan->parts[i].words);
    for (size_t i = 0; i < plan->n_settings; i++)
        bn_free(plan->settings[i].text);
    bn_free(plan->parts);
    bn_free(plan->settings);
    bn_args_release(&plan->args);
    words_release(&plan->own);
    bn_yaml_release(&plan->yaml);
}
