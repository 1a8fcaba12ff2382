/* SPDX-License-Identifier: MIT
 *
 * Turns a configuration file into the processes of a suite. run and profile run once for each model, the other
 * commands once, with the first model.
 */
#include "tools/bench/plan/plan.h"

#include "base/error.h"
#include "base/file.h"

#define BUILT_IN "built-in"
#define BUILT_IN_LABEL "built-in"

/* ---- arguments ---- */

static bn_status push(struct bn_plan_part *part, const char *text, bn_error *err)
{
    BN_TRY(bn_array_grow(&part->arguments, &part->room, part->n + 2, sizeof *part->arguments, err));
    part->arguments[part->n] = bn_strndup(text, strlen(text));
    if (part->arguments[part->n] == NULL) return bn_nomem(err);
    part->arguments[++part->n] = NULL;
    return BN_OK;
}

/* The level of intervals is a share in the file, and in per cent on the command line. */
static void put_value(struct bn_buf *list, const struct bn_plan *plan, const struct bn_plan_key *key,
                      const struct bn_value *v)
{
    const char *at = key->form != NULL ? strstr(key->form, "%s") : NULL;
    if (strcmp(v->option->name, "framework.confidence_level") == 0)
        bn_buf_printf(list, "%.12g", 100 * plan->fields->confidence);
    else if (at != NULL)
        bn_buf_printf(list, "%.*s%s%s", (int)(at - key->form), key->form, v->text, at + 2);
    else
        bn_buf_printf(list, "%s%s", list->len > 0 ? "," : "", v->text);
}

/* The option of a key with its values: each, or all in one list. */
static bn_status push_key(struct bn_plan_part *part, const struct bn_plan *plan,
                          const struct bn_plan_key *key, bn_error *err)
{
    struct bn_buf list = {.max = 1u << 16};
    bn_status status = BN_OK;
    for (size_t i = 0; i < plan->args.n_values && status == BN_OK; i++) {
        const struct bn_value *v = &plan->args.values[i];
        if (v->option != &key->option) continue;
        put_value(&list, plan, key, v);
        bool last = key->each || i + 1 == plan->args.n_values || plan->args.values[i + 1].option != v->option;
        if (!last) continue;
        status = bn_buf_check(&list, err);
        if (status == BN_OK) status = push(part, key->pass, err);
        if (status == BN_OK) status = push(part, list.data, err);
        list.len = 0;
    }
    bn_buf_release(&list);
    return status;
}

static bn_status push_all(struct bn_plan_part *part, const struct bn_plan *plan, unsigned bit, bn_error *err)
{
    BN_TRY(push(part, part->command, err));
    BN_TRY(push(part, "--json", err));
    if (part->model != NULL) {
        BN_TRY(push(part, "--model", err));
        BN_TRY(push(part, part->model, err));
    }
    for (size_t i = 0; i < bn_plan_n_keys; i++)
        if ((bn_plan_keys[i].commands & bit) != 0) BN_TRY(push_key(part, plan, &bn_plan_keys[i], err));
    return BN_OK;
}

/* ---- parts ---- */

/* The name of a model as part of a file name: without folders, ".gguf" and characters that need quotes. */
static char *label_of(const char *model)
{
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *name = model == NULL ? BUILT_IN_LABEL : model, *slash = strrchr(name, '/');
    if (slash != NULL && slash[1] != '\0') name = slash + 1;
    size_t n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, ".gguf") == 0) n -= 5;
    char *label = bn_strndup(name, n);
    for (char *c = label; c != NULL && *c != '\0'; c++)
        if (strchr(PLAIN, *c) == NULL) *c = '-';
    return label;
}

/* "run", "run shakespeare" and the file. A number tells models of the same name apart. */
static bn_status name_part(struct bn_plan *plan, struct bn_plan_part *part, bool by_model, bn_error *err)
{
    struct bn_buf label = {.max = 1u << 13}, file = {.max = 1u << 13};
    char *model = by_model ? label_of(part->model) : NULL;
    size_t same = 0;
    bn_buf_printf(&label, "%s%s%s", part->command, model != NULL ? " " : "", model != NULL ? model : "");
    bn_buf_printf(&file, "%s%s%s", part->command, model != NULL ? "-" : "", model != NULL ? model : "");
    for (size_t i = 0; i + 1 < plan->n_parts; i++)
        same += strcmp(plan->parts[i].label, bn_buf_text(&label)) == 0;
    bn_free(model);
    if (same > 0) bn_buf_printf(&file, "-%zu", same + 1);
    bn_buf_puts(&file, ".json");
    bn_status status = bn_buf_check(&label, err);
    if (status == BN_OK) status = bn_buf_check(&file, err);
    if (status != BN_OK) {
        bn_buf_release(&label);
        bn_buf_release(&file);
        return status;
    }
    part->label = label.data;
    part->file = file.data;
    return BN_OK;
}

static bn_status add_part(struct bn_plan *plan, unsigned bit, const char *model, bool by_model, bn_error *err)
{
    BN_TRY(bn_array_grow(&plan->parts, &plan->room, plan->n_parts + 1, sizeof *plan->parts, err));
    struct bn_plan_part *part = &plan->parts[plan->n_parts];
    *part = (struct bn_plan_part){.model = model};
    for (unsigned i = 0; i < BN_PLAN_COMMANDS; i++)
        if (1u << i == bit) part->command = bn_plan_commands[i];
    plan->n_parts++;
    bn_status status = name_part(plan, part, by_model, err);
    return status == BN_OK ? push_all(part, plan, bit, err) : status;
}

static const char *model_at(const struct bn_plan *plan, size_t i)
{
    const struct bn_texts *models = &plan->fields->models;
    return models->n == 0 || strcmp(models->list[i], BUILT_IN) == 0 ? NULL : models->list[i];
}

static bool wants(const struct bn_plan *plan, unsigned bit)
{
    const struct bn_texts *parts = &plan->fields->parts;
    for (size_t i = 0; i < parts->n; i++)
        for (unsigned k = 0; k < BN_PLAN_COMMANDS; k++)
            if (1u << k == bit && strcmp(parts->list[i], bn_plan_commands[k]) == 0) return true;
    return parts->n == 0 && bit != BN_PLAN_PROFILE;
}

static bn_status add_parts(struct bn_plan *plan, bn_error *err)
{
    size_t n_models = plan->fields->models.n > 0 ? plan->fields->models.n : 1;
    for (size_t i = 0; i < n_models; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(plan->fields->models.list[i], plan->fields->models.list[k]) == 0)
                return bn_fail(err, BN_ERR_FORMAT, "inference.models: '%.60s' is a duplicate",
                               plan->fields->models.list[i]);
    for (size_t i = 0; i < plan->args.n_values && !wants(plan, BN_PLAN_RUN); i++)
        if (strncmp(plan->args.values[i].option->name, "targets.", 8) == 0)
            return bn_fail(err, BN_ERR_FORMAT, "%s needs the part run", plan->args.values[i].option->name);
    for (unsigned bit = 1; bit < 1u << BN_PLAN_COMMANDS; bit <<= 1) {
        bool by_model = bit == BN_PLAN_RUN || bit == BN_PLAN_PROFILE;
        if (!wants(plan, bit)) continue;
        for (size_t i = 0; i < (by_model ? n_models : 1); i++)
            BN_TRY(add_part(plan, bit, model_at(plan, i), by_model, err));
    }
    return BN_OK;
}

/* ---- the file ---- */

bn_status bn_plan_read(struct bn_plan *plan, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = BN_YAML_MAX_BYTES};
    bn_status status = bn_file_read(path, &text, err);
    if (status == BN_OK) status = bn_yaml_parse(&plan->yaml, bn_buf_text(&text), text.len, err);
    if (status == BN_OK) status = bn_plan_fill(plan, err);
    if (status == BN_OK) status = add_parts(plan, err);
    bn_buf_release(&text);
    if (status != BN_OK) bn_error_name(err, strcmp(path, "-") == 0 ? "standard input" : path);
    return status;
}

void bn_plan_release(struct bn_plan *plan)
{
    for (size_t i = 0; i < plan->n_parts; i++) {
        struct bn_plan_part *part = &plan->parts[i];
        for (size_t k = 0; k < part->n; k++)
            bn_free(part->arguments[k]);
        bn_free(part->arguments);
        bn_free(part->label);
        bn_free(part->file);
    }
    bn_free(plan->parts);
    bn_plan_empty(plan);
    bn_yaml_release(&plan->yaml);
}
