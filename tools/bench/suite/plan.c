/* SPDX-License-Identifier: MIT
 *
 * Turns a configuration file into the processes of a suite. run and profile run once for each model, the other
 * commands once, with the first model.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "tools/bench/suite/suite.h"
#include "tools/cli/fields.h"

#define BUILT_IN "built-in"

/* ---- arguments ---- */

static bn_status push(struct bn_suite_part *part, const char *text, bn_error *err)
{
    BN_TRY(bn_array_grow(&part->arguments, &part->room, part->n + 2, sizeof *part->arguments, err));
    part->arguments[part->n] = bn_strndup(text, strlen(text));
    if (part->arguments[part->n] == NULL) return bn_nomem(err);
    part->arguments[++part->n] = NULL;
    return BN_OK;
}

/* The level of intervals is a share in the file, and in per cent on the command line. */
static void put_value(struct bn_buf *list, const struct bn_suite_plan *plan, const struct bn_suite_key *key,
                      const char *value)
{
    const char *at = key->form != NULL ? strstr(key->form, "%s") : NULL;
    if (strcmp(key->pass, "confidence") == 0)
        bn_buf_printf(list, "%.12g", 100 * plan->o->confidence);
    else if (at != NULL)
        bn_buf_printf(list, "%.*s%s%s", (int)(at - key->form), key->form, value, at + 2);
    else
        bn_buf_printf(list, "%s%s", list->len > 0 ? "," : "", value);
}

/* The option of a key with its values: texts each, others in one list. */
static bn_status push_key(struct bn_suite_part *part, const struct bn_suite_plan *plan, size_t k,
                          bn_error *err)
{
    const struct bn_option *o = &plan->options[k];
    struct bn_buf list = {.max = 1u << 16}, option = {.max = 64};
    bn_status status = BN_OK;
    bn_buf_printf(&option, "--%s", bn_suite_keys[k].pass);
    for (size_t i = 0; i < plan->args.n_values && status == BN_OK; i++) {
        const struct bn_value *v = &plan->args.values[i];
        if (v->option != o) continue;
        put_value(&list, plan, &bn_suite_keys[k], v->text);
        if (o->to == BN_FIELD_LIST && i + 1 < plan->args.n_values && v[1].option == o) continue;
        status = bn_buf_check(&list, err);
        if (status == BN_OK) status = push(part, bn_buf_text(&option), err);
        if (status == BN_OK) status = push(part, list.data, err);
        list.len = 0;
    }
    bn_buf_release(&option);
    bn_buf_release(&list);
    return status;
}

/* ---- parts ---- */

/* "run" or "run shakespeare" and the file: the name of the model without folders, ".gguf" and characters that need quotes. A
 * number tells models of the same name apart. */
static void name_part(const struct bn_suite_plan *plan, struct bn_suite_part *part, bool by_model)
{
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *name = part->model == NULL ? BUILT_IN : part->model, *slash = strrchr(name, '/');
    char number[24] = "";
    size_t same = 1;
    if (slash != NULL && slash[1] != '\0') name = slash + 1;
    size_t n = strlen(name), at = strlen(part->command) + 1;
    if (n > 5 && strcmp(name + n - 5, ".gguf") == 0) n -= 5;
    snprintf(part->label, sizeof part->label, by_model ? "%s %.*s" : "%s", part->command, (int)n, name);
    for (size_t i = at; by_model && part->label[i] != '\0'; i++)
        if (strchr(PLAIN, part->label[i]) == NULL) part->label[i] = '-';
    for (const struct bn_suite_part *p = plan->parts; p < part; p++)
        same += strcmp(p->label, part->label) == 0;
    if (same > 1) snprintf(number, sizeof number, "-%zu", same);
    snprintf(part->file, sizeof part->file, "%s%s.json", part->label, number);
    if (by_model) part->file[at - 1] = '-';
}

static bn_status add_part(struct bn_suite_plan *plan, unsigned command, const char *model, bool by_model,
                          bn_error *err)
{
    BN_TRY(bn_array_grow(&plan->parts, &plan->room, plan->n_parts + 1, sizeof *plan->parts, err));
    struct bn_suite_part *part = &plan->parts[plan->n_parts++];
    *part = (struct bn_suite_part){.command = bn_suite_commands[command], .model = model};
    name_part(plan, part, by_model);
    BN_TRY(push(part, part->command, err));
    BN_TRY(push(part, "--json", err));
    if (model != NULL) BN_TRY(push(part, "--model", err));
    if (model != NULL) BN_TRY(push(part, model, err));
    for (size_t i = 0; i < BN_SUITE_KEYS; i++)
        if ((bn_suite_keys[i].commands & 1u << command) != 0) BN_TRY(push_key(part, plan, i, err));
    return BN_OK;
}

/* profile only when it is named. */
static bool wants(const struct bn_suite_plan *plan, unsigned command)
{
    const struct bn_texts *parts = &plan->o->parts;
    for (size_t i = 0; i < parts->n; i++)
        if (strcmp(parts->list[i], bn_suite_commands[command]) == 0) return true;
    return parts->n == 0 && 1u << command != BN_SUITE_PROFILE;
}

static bn_status add_parts(struct bn_suite_plan *plan, bn_error *err)
{
    static const char *built_in[] = {BUILT_IN};
    struct bn_texts models = plan->o->models;
    if (models.n == 0) models = (struct bn_texts){built_in, 1};
    for (size_t i = 0; i < models.n * models.n; i++)
        if (i / models.n < i % models.n && strcmp(models.list[i / models.n], models.list[i % models.n]) == 0)
            return bn_fail(err, BN_ERR_FORMAT, "inference.models: '%.60s' is a duplicate",
                           models.list[i % models.n]);
    for (size_t i = 0; i < plan->args.n_values && !wants(plan, 0); i++)
        if (strncmp(plan->args.values[i].option->name, "targets.", 8) == 0)
            return bn_fail(err, BN_ERR_FORMAT, "%s needs the part run", plan->args.values[i].option->name);
    for (unsigned c = 0; c < BN_SUITE_COMMANDS; c++) {
        bool by_model = (1u << c & (BN_SUITE_RUN | BN_SUITE_PROFILE)) != 0;
        for (size_t i = 0; i < (by_model ? models.n : 1) && wants(plan, c); i++) {
            const char *model = strcmp(models.list[i], BUILT_IN) != 0 ? models.list[i] : NULL;
            BN_TRY(add_part(plan, c, model, by_model, err));
        }
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
    for (size_t i = 0; i < plan->n_parts; i++) {
        struct bn_suite_part *part = &plan->parts[i];
        for (size_t k = 0; k < part->n; k++)
            bn_free(part->arguments[k]);
        bn_free(part->arguments);
    }
    bn_free(plan->parts);
    if (plan->args.fields != NULL) bn_fields_release(&plan->args);
    bn_free(plan->args.values);
    bn_free(plan->typed);
    bn_yaml_release(&plan->yaml);
}
