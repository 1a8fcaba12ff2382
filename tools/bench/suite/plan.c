/* SPDX-License-Identifier: MIT
 *
 * Turns a configuration file into the processes of a suite. The parts that framework.parts names are command lines with the
 * options that keys give them; cases are command lines of the file. A line with the word MODEL runs once for each of
 * inference.models, which is in its place; FIRST is the first of them. The built-in model leaves out the word, and -m before it.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "tools/bench/suite/suite.h"

#define BUILT_IN "built-in"

/* ---- arguments ---- */

bn_status bn_suite_push(struct bn_suite_words *words, const char *text, bn_error *err)
{
    BN_TRY(bn_array_grow(&words->list, &words->room, words->n + 2, sizeof *words->list, err));
    words->list[words->n] = bn_strndup(text, strlen(text));
    if (words->list[words->n] == NULL) return bn_nomem(err);
    words->list[++words->n] = NULL;
    return BN_OK;
}

bn_status bn_suite_push_option(struct bn_suite_words *words, const char *name, const char *value,
                               bn_error *err)
{
    char option[80];
    snprintf(option, sizeof option, "--%s", name);
    BN_TRY(bn_suite_push(words, option, err));
    return bn_suite_push(words, value, err);
}

void bn_suite_words_release(struct bn_suite_words *words)
{
    for (size_t i = 0; i < words->n; i++)
        bn_free(words->list[i]);
    bn_free(words->list);
    *words = (struct bn_suite_words){0};
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
        BN_TRY(bn_suite_push(words, plan->program->name, err));
        BN_TRY(bn_suite_push(words, word, err));
        return bn_suite_push(words, "--json", err);
    }
    snprintf(program, sizeof program, "%s%.70s", strncmp(word, "bn-", 3) == 0 ? "" : "bn-", word);
    return bn_suite_push(words, program, err);
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
    BN_TRY(bn_suite_push(words, word, err));
    return words->n == 2 && strcmp(words->list[0], "bn-crossval") == 0 ? bn_suite_push(words, "--json", err)
                                                                       : BN_OK;
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
    bn_status status = ours ? bn_suite_check(plan->program, words, &args, err) : BN_OK;
    for (size_t i = 0; i < plan->n_settings && status == BN_OK; i++) {
        const struct bn_suite_setting *s = &plan->settings[i];
        if ((s->key->parts & bit) == 0) continue;
        status = bn_suite_push_option(words, s->key->pass, s->text, err);
        if (status == BN_OK && ours) status = bn_suite_check(plan->program, words, &args, err);
        (void)bn_suite_name_line(s->value, status, err);
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
            BN_TRY(bn_suite_name_line(v, add_line(plan, v->key + n, v->text, 0, &models, err), err));
    }
    return BN_OK;
}

/* ---- the file ---- */

bn_status bn_suite_read(struct bn_suite_plan *plan, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = BN_YAML_MAX_BYTES};
    bn_status status = bn_file_read(path, &text, err);
    if (status == BN_OK) status = bn_yaml_parse(&plan->yaml, bn_buf_text(&text), text.len, err);
    if (status == BN_OK) status = bn_suite_fill(plan, err);
    if (status == BN_OK) status = add_parts(plan, err);
    bn_buf_release(&text);
    if (status != BN_OK) bn_error_name(err, strcmp(path, "-") == 0 ? "standard input" : path);
    return status;
}

void bn_suite_release(struct bn_suite_plan *plan)
{
    for (size_t i = 0; i < plan->n_parts; i++)
        bn_suite_words_release(&plan->parts[i].words);
    for (size_t i = 0; i < plan->n_settings; i++)
        bn_free(plan->settings[i].text);
    bn_free(plan->parts);
    bn_free(plan->settings);
    bn_args_release(&plan->args);
    bn_suite_words_release(&plan->own);
    bn_yaml_release(&plan->yaml);
}
