/* SPDX-License-Identifier: MIT
 *
 * The keys of a suite's configuration file. A value is checked by parsing the option that it is passed to; keys of the suite
 * itself are the options of a command that only this file has.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/suggest.h"
#include "tools/bench/run/run.h"
#include "tools/bench/suite/suite.h"
#include "tools/cli/fields.h"
#include "tools/cli/report.h"

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

bn_status bn_suite_check(const struct bn_program *program, const struct bn_suite_words *words,
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

bn_status bn_suite_name_line(const struct bn_yaml_value *v, bn_status status, bn_error *err)
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
    BN_TRY(bn_suite_push_option(&plan->own, key->pass, text.data, err));
    return bn_suite_check(&FILE_PROGRAM, &plan->own, &plan->args, err);
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
    return bn_suite_name_line(v, status, err);
}

bn_status bn_suite_fill(struct bn_suite_plan *plan, bn_error *err)
{
    const struct bn_yaml *yaml = &plan->yaml;
    size_t n;
    plan->settings = bn_alloc(yaml->n, sizeof *plan->settings);
    if (plan->settings == NULL) return bn_nomem(err);
    BN_TRY(bn_suite_push(&plan->own, "suite", err));
    for (size_t i = 0; i < yaml->n; i += n) {
        const struct bn_yaml_value *v = &yaml->list[i];
        for (n = 1; i + n < yaml->n && v[n].key == v->key;)
            n++;
        if (strncmp(v->key, BN_SUITE_CASES, strlen(BN_SUITE_CASES)) != 0) BN_TRY(add_key(plan, v, n, err));
    }
    warn_ignored(yaml);
    BN_TRY(bn_suite_check(&FILE_PROGRAM, &plan->own, &plan->args, err));
    plan->o = plan->args.fields;
    return BN_OK;
}
