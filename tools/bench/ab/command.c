/* SPDX-License-Identifier: MIT
 *
 * bn-bench ab and cmd: runs the commands and reads the values of a run: wall time, CPU time, memory, numbers in the
 * output, series of a document in the output.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/kit/process.h"
#include "tools/bench/ab/ab.h"
#include "tools/cli/number.h"

#define OUTPUT_MAX BN_JSON_MAX_BYTES

/* ---- options ---- */

static bn_status read_extract(struct bn_ab_extract *out, const char *text, bn_error *err)
{
    static const char HIGHER[] = ":higher", LOWER[] = ":lower";
    const char *equals = strchr(text, '=');
    char *pattern = NULL, why[128];
    if (equals == NULL || equals == text)
        return bn_fail(err, BN_ERR_ARG, "--extract: '%s' is not NAME=REGEX", text);
    size_t n = strlen(equals + 1);
    if (n >= sizeof HIGHER - 1 && strcmp(equals + 1 + n - (sizeof HIGHER - 1), HIGHER) == 0) {
        out->higher = true;
        n -= sizeof HIGHER - 1;
    } else if (n >= sizeof LOWER - 1 && strcmp(equals + 1 + n - (sizeof LOWER - 1), LOWER) == 0) {
        n -= sizeof LOWER - 1;
    }
    pattern = bn_strndup(equals + 1, n);
    char *name = bn_strndup(text, (size_t)(equals - text));
    if (pattern == NULL || name == NULL) {
        bn_free(pattern);
        bn_free(name);
        return bn_nomem(err);
    }
    int failed = regcomp(&out->regex, pattern, REG_EXTENDED | REG_NEWLINE);
    bn_status status = BN_OK;
    if (failed != 0) {
        regerror(failed, &out->regex, why, sizeof why);
        status = bn_fail(err, BN_ERR_ARG, "--extract: '%s': %s", pattern, why);
    } else if (out->regex.re_nsub < 1) {
        regfree(&out->regex);
        status = bn_fail(err, BN_ERR_ARG, "--extract: '%s' has no (group) around the number", pattern);
    }
    bn_free(pattern);
    if (status == BN_OK)
        out->name = name;
    else
        bn_free(name);
    return status;
}

static bn_status read_extracts(struct bn_ab_commands *c, const struct bn_texts *texts, bn_error *err)
{
    BN_TRY(BN_NEW(c->extracts, texts->n, err));
    for (; c->n_extracts < texts->n; c->n_extracts++) {
        struct bn_ab_extract *x = &c->extracts[c->n_extracts];
        BN_TRY(read_extract(x, texts->list[c->n_extracts], err));
        for (size_t i = 0; i < c->n_extracts; i++)
            if (strcmp(c->extracts[i].name, x->name) == 0) {
                c->n_extracts++;
                return bn_fail(err, BN_ERR_ARG, "--extract: duplicate name '%s'", x->name);
            }
    }
    return BN_OK;
}

/* "A... --vs B..." among the operands. */
static bn_status read_sides(struct bn_ab_commands *c, const struct bn_args *args, bn_error *err)
{
    size_t vs = args->n_operands, n_vs = 0;
    for (size_t i = 0; i < args->n_operands; i++) {
        if (strcmp(args->operands[i], "--vs") != 0) continue;
        vs = i;
        n_vs++;
    }
    if (n_vs != 1 || vs == 0 || vs + 1 == args->n_operands) {
        bn_status status = bn_fail(err, BN_ERR_ARG, "%s",
                                   n_vs > 1 ? "--vs is given more than once" : "expected two commands");
        bn_error_hint(err, "bn-bench ab [options] -- COMMAND_A ... --vs COMMAND_B ...");
        return status;
    }
    args->operands[vs] = NULL;
    c->argv[0] = args->operands;
    c->argv[1] = args->operands + vs + 1;
    return BN_OK;
}

static bn_status join(char **out, const char *const *argv, bn_error *err)
{
    struct bn_buf line = {.max = 1u << 20};
    for (size_t i = 0; argv[i] != NULL; i++)
        bn_buf_printf(&line, "%s%s", i > 0 ? " " : "", argv[i]);
    *out = line.data;
    return bn_buf_check(&line, err);
}

bn_status bn_ab_commands_read(struct bn_ab_commands *c, const struct bn_args *args, bool alone, bn_error *err)
{
    const struct bn_bench_options *o = c->o = args->fields;
    c->test = "command";
    c->argv[0] = args->operands;
    if (!alone) BN_TRY(read_sides(c, args, err));
    if (alone) c->test = o->name != NULL ? o->name : bn_bench_base_name(args->operands[0]);
    BN_TRY(read_extracts(c, &o->extract, err));
    if (o->output_only && !o->series && c->n_extracts == 0)
        return bn_fail(err, BN_ERR_ARG, "--output-only needs --extract or --series");
    for (int i = 0; i < 2 && o->shell && c->argv[i] != NULL; i++)
        BN_TRY(join(&c->shell[i], c->argv[i], err));
    return BN_OK;
}

void bn_ab_commands_release(struct bn_ab_commands *c)
{
    for (size_t i = 0; i < c->n_extracts; i++) {
        regfree(&c->extracts[i].regex);
        bn_free(c->extracts[i].name);
    }
    bn_free(c->extracts);
    bn_free(c->shell[0]);
    bn_free(c->shell[1]);
}

/* ---- the values of a run ---- */

static bn_status add(struct bn_ab_slot *slot, const struct bn_ab_commands *c, const struct bn_series *series,
                     bn_error *err)
{
    if (c->o->filter != NULL && !bn_test_has(series->test, c->o->filter) &&
        strstr(series->metric, c->o->filter) == NULL)
        return BN_OK;
    return bn_series_add(&slot->values, series, err);
}

static bn_status add_number(struct bn_ab_slot *slot, const struct bn_ab_commands *c, const char *metric,
                            const char *unit, bool higher, double value, bn_error *err)
{
    struct bn_series s = {c->test, metric, unit, higher, false, &value, 1, 0, false};
    /* A coarse clock may report 0 for a short run; that is not a measurement. */
    return value > 0 ? add(slot, c, &s, err) : BN_OK;
}

static bn_status add_usage(struct bn_ab_slot *slot, const struct bn_ab_commands *c,
                           const struct bn_process *p, bn_error *err)
{
    BN_TRY(add_number(slot, c, "wall_ns", "ns", false, (double)p->wall_ns, err));
    BN_TRY(add_number(slot, c, "cpu_ns", "ns", false, (double)bn_usage_cpu_ns(&p->usage), err));
    return add_number(slot, c, "max_rss_bytes", "bytes", false, (double)p->usage.ru_maxrss * 1024, err);
}

/* The last match counts: many programs print intermediate numbers first. */
static bool find_number(const struct bn_ab_extract *x, const struct bn_buf *text, double *out)
{
    regmatch_t m[2];
    bool found = false;
    for (const char *at = text->data; at != NULL && *at != '\0';) {
        if (regexec(&x->regex, at, 2, m, at == text->data ? 0 : REG_NOTBOL) != 0) break;
        char number[64];
        if (m[1].rm_so >= 0 && m[1].rm_eo - m[1].rm_so < (regoff_t)sizeof number) {
            size_t n = (size_t)(m[1].rm_eo - m[1].rm_so);
            memcpy(number, at + m[1].rm_so, n);
            number[n] = '\0';
            found = bn_number_f64(number, out);
        }
        at += m[0].rm_eo > m[0].rm_so ? m[0].rm_eo : m[0].rm_eo + 1;
        if (at > text->data + text->len) break;
    }
    return found;
}

static bn_status add_extracts(struct bn_ab_slot *slot, const struct bn_ab_commands *c,
                              const struct bn_buf *out, const struct bn_buf *errors, bn_error *err)
{
    for (size_t i = 0; i < c->n_extracts; i++) {
        double value;
        const struct bn_ab_extract *x = &c->extracts[i];
        if (!find_number(x, out, &value) && !find_number(x, errors, &value)) continue;
        if (!(value > 0))
            return bn_fail(err, BN_ERR_FORMAT, "%s printed %g as '%s'; a positive number is expected",
                           bn_ab_command_name(slot->side), value, x->name);
        BN_TRY(add_number(slot, c, x->name, "1", x->higher, value, err));
    }
    return BN_OK;
}

static bn_status add_series(struct bn_ab_slot *slot, const struct bn_ab_commands *c, const struct bn_buf *out,
                            bn_error *err)
{
    bn_json *doc = NULL;
    bn_error why = {0};
    struct bn_series_list all = {0}, medians = {0};
    bn_status status = bn_json_parse(&doc, out->data != NULL ? out->data : "", out->len, &why);
    if (status == BN_OK) status = bn_series_read(&all, doc, &why);
    if (status != BN_OK)
        status = bn_fail(err, status, "the output of %s is not a bn-bench document with series: %s",
                         bn_ab_command_name(slot->side), why.msg);
    if (status == BN_OK) status = bn_series_add_medians(&medians, &all, NULL, err);
    for (size_t i = 0; i < medians.n && status == BN_OK; i++)
        if (!medians.list[i].neutral) status = add(slot, c, &medians.list[i], err);
    bn_series_release(&all);
    bn_series_release(&medians);
    bn_json_free(doc);
    return status;
}

/* ---- running ---- */

/* An error that quotes the last line that the command printed on standard error. */
static bn_status refuse(const struct bn_ab_slot *slot, const struct bn_buf *errors, bn_error *err)
{
    char quoted[BN_BENCH_LINE], what[256];
    bn_bench_last_line(quoted, errors);
    bn_ab_slot_describe(what, sizeof what, slot);
    return bn_fail(err, BN_ERR_MISMATCH, "%s%s%s", what, quoted[0] != '\0' ? ": " : "", quoted);
}

static bn_status take(struct bn_ab_slot *slot, const struct bn_ab_commands *c, const struct bn_process *p,
                      const struct bn_buf *out, const struct bn_buf *errors, bn_error *err)
{
    slot->stop = p->end == BN_PROCESS_TIMEOUT;
    if (slot->stop)
        snprintf(slot->failed, sizeof slot->failed, "exceeded --timeout %llu s",
                 (unsigned long long)c->o->timeout_seconds);
    else if (p->end == BN_PROCESS_SIGNALLED || p->code != 0)
        snprintf(slot->failed, sizeof slot->failed,
                 p->end == BN_PROCESS_SIGNALLED ? "was killed by signal %d" : "failed with status %d",
                 p->code);
    if (slot->failed[0] != '\0') return slot->stop ? BN_OK : refuse(slot, errors, err);
    if (!c->o->output_only) BN_TRY(add_usage(slot, c, p, err));
    if (out->failed && (c->o->series || c->n_extracts > 0))
        return bn_fail(err, BN_ERR_LIMIT, "%s printed more than %u bytes", bn_ab_command_name(slot->side),
                       OUTPUT_MAX);
    BN_TRY(add_extracts(slot, c, out, errors, err));
    return c->o->series ? add_series(slot, c, out, err) : BN_OK;
}

bn_status bn_ab_commands_run(void *user, struct bn_ab_slot *slot, bn_error *err)
{
    const struct bn_ab_commands *c = user;
    int b = slot->side == BN_AB_B;
    const char *const shell[] = {"/bin/sh", "-c", c->shell[b], NULL};
    bool read = c->o->series || c->n_extracts > 0;
    struct bn_buf out = {.max = OUTPUT_MAX}, errors = {.max = OUTPUT_MAX};
    struct bn_process_options o = {.argv = c->shell[b] != NULL ? shell : c->argv[b],
                                   .out = read ? &out : NULL,
                                   .errors = &errors,
                                   .timeout_ns = (uint64_t)fmin((double)c->o->timeout_seconds * 1e9, 1e18),
                                   .cancelled = bn_cli_is_interrupted};
    struct bn_process p;
    /* An interrupt between two runs. */
    bn_status status =
        bn_cli_is_interrupted() ? bn_fail(err, BN_ERR_CANCELLED, "interrupted") : bn_process_run(&p, &o, err);
    if (status == BN_OK) status = take(slot, c, &p, &out, &errors, err);
    bn_buf_release(&out);
    bn_buf_release(&errors);
    return status;
}
