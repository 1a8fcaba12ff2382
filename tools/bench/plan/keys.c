/* SPDX-License-Identifier: MIT
 *
 * The keys of a suite's configuration file, and the check of their values. A value is read by the reader of
 * options, under the name "line 7: inference.depths".
 */
#include <stdio.h>

#include "base/error.h"
#include "base/suggest.h"
#include "tools/bench/plan/plan.h"
#include "tools/cli/fields.h"
#include "tools/cli/table.h"

#define MAX_TOKENS (1u << 20)
#define FIELDS struct bn_plan_fields
#define LIST(most) BN_TO_LIST(FIELDS, any_list, 0, most), .arg = "LIST", .repeatable = true
#define TEXTS(field) BN_TO_TEXTS(FIELDS, field), .repeatable = true
#define TARGET(field) BN_TO_F64(FIELDS, field, 1e-9, 1e12), .arg = "N"
#define KEY(name, what, ...) BN_OPTION(name, what, __VA_ARGS__)
#define ROWS (BN_PLAN_KERNELS | BN_PLAN_QUANT | BN_PLAN_MEMORY)

const char *const bn_plan_commands[BN_PLAN_COMMANDS] = {"run", "kernels", "quant", "memory", "profile"};

const struct bn_plan_key bn_plan_keys[] = {
    {KEY("framework.parts", "commands to run", .arg = "run|kernels|quant|memory|profile", TEXTS(parts)), 0,
     NULL, false},
    {KEY("framework.iterations", "samples", .arg = "N", BN_TO_U32_AUTO(FIELDS, any_count, 1, 10000)),
     BN_PLAN_RUN, "--reps", false},
    {KEY("framework.warmup_iterations", "warm-up", .arg = "N", BN_TO_U32_AUTO(FIELDS, any_count, 0, 1000)),
     BN_PLAN_RUN, "--warmup", false},
    {KEY("framework.confidence_level", "of intervals", .arg = "N",
         BN_TO_F64(FIELDS, confidence, 0.51, 0.9999)),
     BN_PLAN_RUN, "--confidence", false},
    {KEY("framework.timeout_seconds", "of each part", .arg = "N", BN_TO_F64(FIELDS, timeout, 1, 1e6)), 0,
     NULL, false},
    {KEY("framework.min_time_seconds", "of each row", .arg = "N", BN_TO_F64(FIELDS, any_float, 0, 3600)),
     ROWS, "--min-time", false},
    {KEY("framework.seed", "of prompts", .arg = "N", BN_TO_U64(FIELDS, any_number, 0, 9007199254740991)),
     BN_PLAN_RUN | BN_PLAN_PROFILE, "--seed", false},
    {KEY("memory.filter", "rows", .arg = "PART", BN_TO_TEXT(FIELDS, any_text)), BN_PLAN_MEMORY, "--filter",
     false},
    {KEY("memory.allocation_sizes", "measured", .arg = "64|1024|4096|1048576|16777216", TEXTS(any_texts)), 0,
     NULL, false},
    {KEY("memory.allocation_patterns", "measured", .arg = "sequential|random|mixed", TEXTS(any_texts)), 0,
     NULL, false},
    {KEY("memory.tracking_levels", "measured", .arg = "none|basic|detailed", TEXTS(any_texts)), 0, NULL,
     false},
    {KEY("quantization.filter", "rows", .arg = "PART", BN_TO_TEXT(FIELDS, any_text)), BN_PLAN_QUANT,
     "--filter", false},
    {KEY("quantization.text", "perplexity", .arg = "FILE", BN_TO_TEXT(FIELDS, any_text)), BN_PLAN_QUANT,
     "--text", false},
    {KEY("quantization.bit_widths", "measured", .arg = "1.58|2|2.0|4|4.0|8|8.0", TEXTS(any_texts)), 0, NULL,
     false},
    {KEY("quantization.tensor_sizes", "shapes", .arg = "ROWSxK", TEXTS(any_texts)), BN_PLAN_QUANT, "--shape",
     true},
    {KEY("quantization.calibration_samples", "measured", .arg = "128|512|2048", TEXTS(any_texts)), 0, NULL,
     false},
    {KEY("kernels.filter", "rows", .arg = "PART", BN_TO_TEXT(FIELDS, any_text)), BN_PLAN_KERNELS, "--filter",
     false},
    {KEY("inference.models", "files", .arg = "MODEL", TEXTS(models)), 0, NULL, false},
    {KEY("inference.model_sizes", "names", .arg = "NAME", TEXTS(sizes)), 0, NULL, false},
    {KEY("inference.sequence_lengths", "of prompts", LIST(MAX_TOKENS)), BN_PLAN_RUN, "--n-prompt", false},
    {KEY("inference.decode_lengths", "tokens", LIST(MAX_TOKENS)), BN_PLAN_RUN, "--n-predict", false},
    {KEY("inference.depths", "tokens", LIST(MAX_TOKENS)), BN_PLAN_RUN, "--depth", false},
    {KEY("inference.batch_sizes", "generations", LIST(256)), BN_PLAN_RUN, "--concurrent", false},
    {KEY("inference.sequences", "decoded together", LIST(4096)), BN_PLAN_RUN, "--sequences", false},
    {KEY("inference.busy_processes", "next to them", LIST(256)), BN_PLAN_RUN, "--busy", false},
    {KEY("hardware.threads", "counts", LIST(1024)), BN_PLAN_RUN | ROWS, "--threads", false},
    {KEY("hardware.isa", "name", .arg = BN_ISA_NAMES, BN_TO_TEXT(FIELDS, any_text)),
     BN_PLAN_RUN | BN_PLAN_KERNELS | BN_PLAN_QUANT | BN_PLAN_PROFILE, "--isa", false},
    {KEY("hardware.platforms", "names", .arg = "cpu|gpu|metal|neural_engine", TEXTS(platforms)), 0, NULL,
     false},
    {KEY("hardware.devices", "names", .arg = "NAME", TEXTS(devices)), 0, NULL, false},
    {KEY("reporting.directory", "results", .arg = "DIR", BN_TO_TEXT(FIELDS, directory)), 0, NULL, false},
    {KEY("reporting.formats", "files", .arg = "html|json|csv|markdown|junit", TEXTS(formats)), 0, NULL,
     false},
    {KEY("reporting.charts", "in the page", .arg = "true|false", BN_TO_CHOICE(FIELDS, charts)), 0, NULL,
     false},
    {KEY("reporting.dashboard", "the page", .arg = "true|false", BN_TO_CHOICE(FIELDS, any_choice)), 0, NULL,
     false},
    {KEY("reporting.upload_results", "no", .arg = "true|false", .preset = "false",
         BN_TO_CHOICE(FIELDS, upload)),
     0, NULL, false},
    {KEY("targets.decode_tokens_per_second", "at least", TARGET(decode)), 0, NULL, false},
    {KEY("targets.prompt_tokens_per_second", "at least", TARGET(prompt)), 0, NULL, false},
    {KEY("targets.first_token_ms", "at most", TARGET(first_token)), 0, NULL, false},
    {KEY("targets.peak_memory_mib", "at most", TARGET(memory)), 0, NULL, false},
};
const size_t bn_plan_n_keys = BN_ARRAY_LEN(bn_plan_keys);

static const struct bn_command COMMAND = {.name = "", .bytes = sizeof(FIELDS)};

/* ---- checks ---- */

static bn_status refuse_unknown(const struct bn_yaml_entry *e, const char *name, bn_error *err)
{
    struct bn_suggestion s = {.typed = name};
    size_t section = strlen(e->section) + 1;
    bool known = false;
    for (size_t i = 0; i < bn_plan_n_keys; i++) {
        bn_suggest(&s, bn_plan_keys[i].option.name);
        known = known || strncmp(bn_plan_keys[i].option.name, name, section) == 0;
    }
    bn_fail(err, BN_ERR_FORMAT, known ? "line %u: unknown key '%s'" : "line %u: unknown section '%s'",
            e->line, bn_fields_quote(known ? e->key : e->section, strlen(known ? e->key : e->section)).text);
    if (s.best != NULL) bn_error_hint(err, "did you mean %s?", s.best);
    return BN_ERR_FORMAT;
}

static bool is_number(const struct bn_option *o)
{
    return o->to == BN_FIELD_LIST || o->to == BN_FIELD_F64 || o->to == BN_FIELD_U64 ||
           o->to == BN_FIELD_U32_AUTO;
}

static bn_status check_value(const struct bn_option *o, const char *typed, const struct bn_yaml_value *v,
                             bn_error *err)
{
    size_t n;
    struct bn_quoted text = bn_fields_quote(v->text, strlen(v->text));
    if (is_number(o) && v->quoted)
        return bn_fail(err, BN_ERR_FORMAT, "%s: \"%s\" is text: expected a number", typed, text.text);
    if (bn_table_choice(o, 0, &n) != NULL && bn_table_chosen(o, v->text) < 0)
        return bn_fail(err, BN_ERR_FORMAT, "%s: '%s' is not one of %s", typed, text.text, o->arg);
    return BN_OK;
}

/* ---- filling ---- */

static bn_status add_entry(struct bn_plan *plan, const struct bn_yaml_entry *e, char *typed, bn_error *err)
{
    char name[BN_TYPED];
    const struct bn_option *o = NULL;
    snprintf(name, sizeof name, "%s.%s", e->section, e->key);
    snprintf(typed, BN_TYPED, "line %u: %.45s", e->line, name);
    for (size_t i = 0; i < bn_plan_n_keys; i++)
        if (strcmp(bn_plan_keys[i].option.name, name) == 0) o = &bn_plan_keys[i].option;
    if (o == NULL) return refuse_unknown(e, name, err);
    if (e->list && !o->repeatable)
        return bn_fail(err, BN_ERR_FORMAT, "%s: a list: expected one value", typed);
    for (size_t i = 0; i < e->n; i++) {
        BN_TRY(check_value(o, typed, &e->values[i], err));
        plan->args.values[plan->args.n_values++] =
            (struct bn_value){.option = o, .text = e->values[i].text, .env = typed};
    }
    return BN_OK;
}

static bn_status check_fields(const struct bn_plan *plan, bn_error *err)
{
    const FIELDS *f = plan->fields;
    char typed[BN_TYPED];
    if (f->upload == 0)
        return bn_hint(bn_fail(err, BN_ERR_FORMAT, "%s: true: bn-bench opens no connection",
                               bn_args_typed(&plan->args, &f->upload, typed)),
                       err, "upload the folder of results by the build server");
    if (f->charts == 1 && bn_args_given(&plan->args, &f->charts))
        return bn_hint(bn_fail(err, BN_ERR_FORMAT, "%s: false: the page always has its charts",
                               bn_args_typed(&plan->args, &f->charts, typed)),
                       err, "reporting.formats without html writes no page");
    return BN_OK;
}

bn_status bn_plan_fill(struct bn_plan *plan, bn_error *err)
{
    struct bn_args *args = &plan->args;
    size_t n_values = 0;
    args->command = &COMMAND;
    for (size_t i = 0; i < plan->yaml.n; i++)
        n_values += plan->yaml.list[i].n;
    args->values = bn_alloc(n_values, sizeof *args->values);
    plan->typed = bn_alloc(plan->yaml.n, BN_TYPED);
    if (args->values == NULL || plan->typed == NULL) return bn_nomem(err);
    for (size_t i = 0; i < bn_plan_n_keys; i++)
        args->options[args->n_options++] = &bn_plan_keys[i].option;
    for (size_t i = 0; i < plan->yaml.n; i++)
        BN_TRY(add_entry(plan, &plan->yaml.list[i], plan->typed + i * BN_TYPED, err));
    bn_status status = bn_fields_fill(args, err);
    if (status == BN_ERR_ARG && err != NULL) err->code = BN_ERR_FORMAT;
    if (status != BN_OK) return status == BN_ERR_ARG ? BN_ERR_FORMAT : status;
    plan->fields = args->fields;
    return check_fields(plan, err);
}

void bn_plan_empty(struct bn_plan *plan)
{
    if (plan->args.fields != NULL) bn_fields_release(&plan->args);
    bn_free(plan->args.values);
    bn_free(plan->typed);
}

/* ---- what nothing measures ---- */

static void put_unmeasured(bn_json *list, const char *key, const char *value, const char *reason)
{
    bn_json *o = bn_json_add_object(list);
    bn_json_put_string(o, "key", key);
    bn_json_put_string(o, "value", value);
    bn_json_put_string(o, "reason", reason);
}

void bn_plan_unmeasured(bn_json *list, const struct bn_plan *plan)
{
    const FIELDS *f = plan->fields;
    for (size_t i = 0; i < f->sizes.n; i++)
        put_unmeasured(list, "inference.model_sizes", f->sizes.list[i],
                       "a size is not a model; name its file in inference.models");
    for (size_t i = 0; i < f->platforms.n; i++)
        if (strcmp(f->platforms.list[i], "cpu") != 0)
            put_unmeasured(list, "hardware.platforms", f->platforms.list[i],
                           "no kernel of this program runs on it");
    for (size_t i = 0; i < f->devices.n; i++)
        if (strcmp(f->devices.list[i], "auto") != 0)
            put_unmeasured(list, "hardware.devices", f->devices.list[i],
                           "a suite measures the machine that runs it; report shows several");
}
