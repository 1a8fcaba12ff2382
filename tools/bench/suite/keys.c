/* SPDX-License-Identifier: MIT
 *
 * The keys of a suite's configuration file, and the check of their values. A value is read by the reader of
 * options, under the name "line 7: inference.depths".
 */
#include <stdio.h>

#include "base/error.h"
#include "base/suggest.h"
#include "tools/bench/harness.h"
#include "tools/bench/suite/suite.h"
#include "tools/cli/fields.h"
#include "tools/cli/report.h"
#include "tools/cli/table.h"

#define FIELDS struct bn_bench_options
#define INFERS (BN_SUITE_RUN | BN_SUITE_LIMITS)
#define ROWS (BN_SUITE_KERNELS | BN_SUITE_QUANT | BN_SUITE_MEMORY)
#define ISA (BN_SUITE_RUN | BN_SUITE_SCORE | BN_SUITE_KERNELS | BN_SUITE_QUANT | BN_SUITE_PROFILE)

const struct bn_suite_key bn_suite_keys[BN_SUITE_KEYS] = {
    {"framework.parts", 0, NULL, NULL},
    {"framework.iterations", BN_SUITE_RUN, "reps", NULL},
    {"framework.warmup_iterations", BN_SUITE_RUN, "warmup", NULL},
    {"framework.confidence_level", BN_SUITE_RUN, "confidence", NULL},
    {"framework.timeout_seconds", 0, NULL, NULL},
    {"framework.min_time_seconds", ROWS, "min-time", NULL},
    {"framework.seed", BN_SUITE_RUN | BN_SUITE_PROFILE, "seed", NULL},
    {"memory.filter", BN_SUITE_MEMORY, "filter", NULL},
    {"quantization.filter", BN_SUITE_QUANT, "filter", NULL},
    {"quantization.text", BN_SUITE_QUANT, "text", NULL},
    {"quantization.tensor_sizes", BN_SUITE_QUANT, "shape", NULL},
    {"kernels.filter", BN_SUITE_KERNELS, "filter", NULL},
    {"inference.models", 0, NULL, NULL},
    {"inference.sequence_lengths", INFERS, "n-prompt", NULL},
    {"inference.decode_lengths", INFERS, "n-predict", NULL},
    {"inference.depths", INFERS, "depth", NULL},
    {"inference.batch_sizes", BN_SUITE_RUN, "sequences", NULL},
    {"inference.concurrent", BN_SUITE_RUN, "concurrent", NULL},
    {"inference.busy_processes", BN_SUITE_RUN, "busy", NULL},
    {"hardware.threads", INFERS | ROWS | BN_SUITE_TRAIN, "threads", NULL},
    {"hardware.isa", ISA, "isa", NULL},
    {"hardware.price_per_hour", BN_SUITE_RUN, "price-per-hour", NULL},
    {"reporting.directory", 0, NULL, NULL},
    {"reporting.formats", 0, NULL, NULL},
    {"targets.decode_tokens_per_second", BN_SUITE_RUN, "target", "decode fastest>=%s"},
    {"targets.prompt_tokens_per_second", BN_SUITE_RUN, "target", "prompt fastest>=%s"},
    {"targets.first_token_ms", BN_SUITE_RUN, "target", "first-token fastest<=%sms"},
    {"targets.peak_memory_mib", BN_SUITE_RUN, "target", "memory<=%sMiB"},
    {"targets.joules_per_token", BN_SUITE_RUN, "target", "energy fastest<=%sJ"},
    {"targets.price_per_million_tokens", BN_SUITE_RUN, "target", "price fastest<=%s"},
};

/* Keys whose values are not those of an option. All targets are checked alike, and passed on as texts. */
static const struct bn_option OWN[] = {
    BN_OPTION("framework.parts", NULL, .arg = BN_SUITE_PARTS, BN_TO_TEXTS(FIELDS, parts)),
    BN_OPTION("framework.confidence_level", NULL, BN_TO_F64(FIELDS, confidence, 0.51, 0.9999)),
    BN_OPTION("framework.timeout_seconds", NULL, BN_TO_F64(FIELDS, timeout, 1, 1e6)),
    BN_OPTION("inference.models", NULL, BN_TO_TEXTS(FIELDS, models)),
    BN_OPTION("reporting.directory", NULL, BN_TO_TEXT(FIELDS, dir)),
    BN_OPTION("reporting.formats", NULL, .arg = "html|json|csv|markdown", BN_TO_TEXTS(FIELDS, formats)),
    BN_OPTION("targets.", NULL, BN_TO_F64(FIELDS, a_target, 1e-9, 1e12)),
    {0},
};

/* Keys of published files that select nothing here; those of one reason follow each other. */
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

/* The row that checks a key: its own, or that of the first command which has the option. */
static const struct bn_option *row_of(const struct bn_suite_key *key)
{
    static const struct bn_option *const TABLES[] = {bn_bench_run_options, bn_bench_kernels_options,
                                                     bn_bench_quant_options};
    for (const struct bn_option *o = OWN; o->name != NULL; o++)
        if (strncmp(o->name, key->name, strlen(o->name)) == 0) return o;
    for (size_t i = 0; i < BN_ARRAY_LEN(TABLES); i++)
        for (const struct bn_option *o = TABLES[i]; o->name != NULL; o++)
            if (strcmp(o->name, key->pass) == 0) return o;
    return OWN; /* not reached: each key is there */
}

/* ---- checks ---- */

static bn_status refuse_unknown(const struct bn_yaml_value *v, bn_error *err)
{
    struct bn_suggestion s = {.typed = v->key};
    for (size_t i = 0; i < BN_SUITE_KEYS; i++)
        bn_suggest(&s, bn_suite_keys[i].name);
    bn_fail(err, BN_ERR_FORMAT, "line %u: unknown key '%s'", v->line,
            bn_fields_quote(v->key, strlen(v->key)).text);
    if (s.best != NULL) bn_error_hint(err, "did you mean %s?", s.best);
    return BN_ERR_FORMAT;
}

static bn_status check_value(const struct bn_option *o, const char *typed, const struct bn_yaml_value *v,
                             bn_error *err)
{
    size_t n;
    struct bn_quoted text = bn_fields_quote(v->text, strlen(v->text));
    bool number = o->to != BN_FIELD_TEXT && o->to != BN_FIELD_TEXTS;
    if (v->list && !o->repeatable)
        return bn_fail(err, BN_ERR_FORMAT, "%s: a list: expected one value", typed);
    if (number && v->quoted)
        return bn_fail(err, BN_ERR_FORMAT, "%s: \"%s\" is text: expected a number", typed, text.text);
    if (bn_table_choice(o, 0, &n) != NULL && bn_table_chosen(o, v->text) < 0)
        return bn_fail(err, BN_ERR_FORMAT, "%s: '%s' is not one of %s", typed, text.text, o->arg);
    return BN_OK;
}

static bool is_ignored(const char *key)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(IGNORED); i++)
        if (strcmp(IGNORED[i].name, key) == 0) return true;
    return false;
}

/* One warning for all keys that select nothing. */
static void warn_ignored(const struct bn_yaml *yaml)
{
    struct bn_buf text = {.max = 1u << 12};
    const char *between = "";
    for (size_t i = 0; i < BN_ARRAY_LEN(IGNORED); i++) {
        bool there = false;
        for (size_t k = 0; k < yaml->n && !there; k++)
            there = strcmp(yaml->list[k].key, IGNORED[i].name) == 0;
        if (there) bn_buf_printf(&text, "%s%s", between, IGNORED[i].name);
        if (there) between = ", ";
        if (between[0] != ',' || (i + 1 < BN_ARRAY_LEN(IGNORED) && IGNORED[i + 1].why == IGNORED[i].why))
            continue;
        bn_buf_printf(&text, " (%s)", IGNORED[i].why);
        between = "; ";
    }
    if (text.len > 0) bn_report_warning("keys without effect: %s", text.data);
    bn_buf_release(&text);
}

/* ---- filling ---- */

static bn_status add_value(struct bn_suite_plan *plan, size_t at, bn_error *err)
{
    const struct bn_yaml_value *v = &plan->yaml.list[at];
    const struct bn_option *o = NULL;
    char *typed = plan->typed + at * BN_TYPED;
    if (is_ignored(v->key)) return BN_OK;
    snprintf(typed, BN_TYPED, "line %u: %.45s", v->line, v->key);
    if (strncmp(v->key, BN_SUITE_CASES, strlen(BN_SUITE_CASES)) == 0) return BN_OK;
    for (size_t i = 0; i < BN_SUITE_KEYS; i++)
        if (strcmp(bn_suite_keys[i].name, v->key) == 0) o = &plan->options[i];
    if (o == NULL) return refuse_unknown(v, err);
    BN_TRY(check_value(o, typed, v, err));
    plan->args.values[plan->args.n_values++] = (struct bn_value){.option = o, .text = v->text, .env = typed};
    return BN_OK;
}

bn_status bn_suite_fill(struct bn_suite_plan *plan, bn_error *err)
{
    static const struct bn_command COMMAND = {.name = "", .bytes = sizeof(FIELDS)};
    struct bn_args *args = &plan->args;
    args->command = &COMMAND;
    args->values = bn_alloc(plan->yaml.n, sizeof *args->values);
    plan->typed = bn_alloc(plan->yaml.n, BN_TYPED);
    if (args->values == NULL || plan->typed == NULL) return bn_nomem(err);
    for (size_t i = 0; i < BN_SUITE_KEYS; i++) {
        struct bn_option *o = &plan->options[i];
        *o = *row_of(&bn_suite_keys[i]);
        o->name = bn_suite_keys[i].name;
        o->preset = NULL;
        o->repeatable = o->to == BN_FIELD_LIST || o->to == BN_FIELD_TEXTS;
        args->options[args->n_options++] = o;
    }
    for (size_t i = 0; i < plan->yaml.n; i++)
        BN_TRY(add_value(plan, i, err));
    warn_ignored(&plan->yaml);
    bn_status status = bn_fields_fill(args, err);
    if (status == BN_ERR_ARG && err != NULL) err->code = BN_ERR_FORMAT;
    if (status != BN_OK) return status == BN_ERR_ARG ? BN_ERR_FORMAT : status;
    plan->o = args->fields;
    return BN_OK;
}
