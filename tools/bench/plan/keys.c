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
#include "tools/cli/report.h"
#include "tools/cli/table.h"

#define MAX_TOKENS (1u << 20)
#define FIELDS struct bn_plan_fields
#define LIST(most) BN_TO_LIST(FIELDS, any_list, 0, most), .arg = "LIST", .repeatable = true
#define TEXT(field) BN_TO_TEXT(FIELDS, field)
#define TEXTS(field) BN_TO_TEXTS(FIELDS, field), .repeatable = true
#define TARGET BN_TO_F64(FIELDS, any_float, 1e-9, 1e12), .arg = "N"
#define KEY(the_name, ...) .option = {.name = the_name, __VA_ARGS__}
#define PASS(the_commands, the_option) .commands = the_commands, .pass = the_option
#define ROWS (BN_PLAN_KERNELS | BN_PLAN_QUANT | BN_PLAN_MEMORY)
#define ISA (BN_PLAN_RUN | BN_PLAN_KERNELS | BN_PLAN_QUANT | BN_PLAN_PROFILE)

const char *const bn_plan_commands[BN_PLAN_COMMANDS] = {"run", "kernels", "quant", "memory", "profile"};

const struct bn_plan_key bn_plan_keys[] = {
    {KEY("framework.parts", .arg = "run|kernels|quant|memory|profile", TEXTS(parts))},
    {KEY("framework.iterations", .arg = "N", BN_TO_U32(FIELDS, any_count, 1, 10000)),
     PASS(BN_PLAN_RUN, "--reps")},
    {KEY("framework.warmup_iterations", .arg = "N", BN_TO_U32_AUTO(FIELDS, any_count, 0, 1000)),
     PASS(BN_PLAN_RUN, "--warmup")},
    {KEY("framework.confidence_level", .arg = "N", BN_TO_F64(FIELDS, confidence, 0.51, 0.9999)),
     PASS(BN_PLAN_RUN, "--confidence")},
    {KEY("framework.timeout_seconds", .arg = "N", BN_TO_F64(FIELDS, timeout, 1, 1e6))},
    {KEY("framework.min_time_seconds", .arg = "N", BN_TO_F64(FIELDS, any_float, 0, 3600)),
     PASS(ROWS, "--min-time")},
    {KEY("framework.seed", .arg = "N", BN_TO_U64(FIELDS, any_number, 0, 9007199254740991)),
     PASS(BN_PLAN_RUN | BN_PLAN_PROFILE, "--seed")},
    {KEY("memory.filter", .arg = "PART", TEXT(any_text)), PASS(BN_PLAN_MEMORY, "--filter")},
    {KEY("quantization.filter", .arg = "PART", TEXT(any_text)), PASS(BN_PLAN_QUANT, "--filter")},
    {KEY("quantization.text", .arg = "FILE", TEXT(any_text)), PASS(BN_PLAN_QUANT, "--text")},
    {KEY("quantization.tensor_sizes", .arg = "ROWSxK", TEXTS(any_texts)), PASS(BN_PLAN_QUANT, "--shape"),
     .each = true},
    {KEY("kernels.filter", .arg = "PART", TEXT(any_text)), PASS(BN_PLAN_KERNELS, "--filter")},
    {KEY("inference.models", .arg = "MODEL", TEXTS(models))},
    {KEY("inference.sequence_lengths", LIST(MAX_TOKENS)), PASS(BN_PLAN_RUN, "--n-prompt")},
    {KEY("inference.decode_lengths", LIST(MAX_TOKENS)), PASS(BN_PLAN_RUN, "--n-predict")},
    {KEY("inference.depths", LIST(MAX_TOKENS)), PASS(BN_PLAN_RUN, "--depth")},
    {KEY("inference.batch_sizes", LIST(256)), PASS(BN_PLAN_RUN, "--concurrent")},
    {KEY("inference.sequences", LIST(4096)), PASS(BN_PLAN_RUN, "--sequences")},
    {KEY("inference.busy_processes", LIST(256)), PASS(BN_PLAN_RUN, "--busy")},
    {KEY("hardware.threads", LIST(1024)), PASS(BN_PLAN_RUN | ROWS, "--threads")},
    {KEY("hardware.isa", .arg = BN_ISA_NAMES, TEXT(any_text)), PASS(ISA, "--isa")},
    {KEY("reporting.directory", .arg = "DIR", TEXT(directory))},
    {KEY("reporting.formats", .arg = "html|json|csv|markdown", TEXTS(formats))},
    {KEY("targets.decode_tokens_per_second", TARGET), PASS(BN_PLAN_RUN, "--target"),
     .form = "decode fastest>=%s"},
    {KEY("targets.prompt_tokens_per_second", TARGET), PASS(BN_PLAN_RUN, "--target"),
     .form = "prompt fastest>=%s"},
    {KEY("targets.first_token_ms", TARGET), PASS(BN_PLAN_RUN, "--target"),
     .form = "first-token fastest<=%sms"},
    {KEY("targets.peak_memory_mib", TARGET), PASS(BN_PLAN_RUN, "--target"), .form = "memory<=%sMiB"},
};
const size_t bn_plan_n_keys = BN_ARRAY_LEN(bn_plan_keys);

/* Keys of published files that select nothing here: each is accepted with a warning. */
static const char ALL[] = "every one is measured", PAGE[] = "the page always has its charts",
                  HERE[] = "a suite measures this machine, on its CPU";
static const struct {
    const char *name, *why;
} IGNORED[] = {
    {"memory.allocation_sizes", ALL},
    {"memory.allocation_patterns", ALL},
    {"memory.tracking_levels", ALL},
    {"quantization.bit_widths", ALL},
    {"quantization.calibration_samples", ALL},
    {"inference.model_sizes", "a size is not a model; name its file in inference.models"},
    {"hardware.platforms", HERE},
    {"hardware.devices", HERE},
    {"reporting.charts", PAGE},
    {"reporting.dashboard", PAGE},
    {"reporting.upload_results", "bn-bench opens no connection"},
};

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
           o->to == BN_FIELD_U32 || o->to == BN_FIELD_U32_AUTO;
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

static bool is_ignored(const char *name, unsigned line)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(IGNORED); i++)
        if (strcmp(IGNORED[i].name, name) == 0) {
            bn_report_warning("line %u: %s has no effect: %s", line, name, IGNORED[i].why);
            return true;
        }
    return false;
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
    if (is_ignored(name, e->line)) return BN_OK;
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
    return BN_OK;
}

void bn_plan_empty(struct bn_plan *plan)
{
    if (plan->args.fields != NULL) bn_fields_release(&plan->args);
    bn_free(plan->args.values);
    bn_free(plan->typed);
}
