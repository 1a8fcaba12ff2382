/* SPDX-License-Identifier: MIT
 *
 * bn-bench ab: two commands, compared in turn. bn-bench cmd: one command, measured.
 */
#include "tools/bench/ab/ab.h"

#include <stdio.h>

#include "base/error.h"
#include "tools/bench/history/compare.h"
#include "tools/bench/report/report.h"
#include "tools/cli/report.h"

#define RULES "Verdict"
const struct bn_option bn_bench_ab_options[] = {
    BN_OPTION("rounds", "rounds, at least 6; each runs A, B and A again", .letter = 'r', .arg = "N",
              .preset = "20", BN_TO_U32(struct bn_bench_options, rounds, 1, 10000)),
    BN_OPTION("seed", "seed for the order within the rounds", .rare = true, .arg = "N", .preset = "1",
              BN_TO_U64(struct bn_bench_options, seed, 0, 0)),
    BN_OPTION("no-control", "do not time the control work (for numbers other than times)", .rare = true,
              BN_TO_BOOL(struct bn_bench_options, no_control)),
    BN_OPTION("metric", "the metric that decides [printed metrics, else wall_ns]", .arg = "NAME",
              .group = RULES, BN_TO_TEXT(struct bn_bench_options, metric)),
    BN_OPTION("margin", "a change that does not matter", .arg = "PERCENT", .group = RULES, .preset = "2",
              BN_TO_F64(struct bn_bench_options, margin, 0.001, 99)),
    BN_BENCH_CONFIDENCE_OPTION(RULES),
    BN_OPTION("strict", "exit with 1 also when the verdict is INCONCLUSIVE", .group = RULES,
              BN_TO_BOOL(struct bn_bench_options, strict)),
    {0},
};

const struct bn_option bn_bench_cmd_options[] = {
    BN_OPTION("rounds", "runs that count", .letter = 'r', .arg = "N", .preset = "10",
              BN_TO_U32(struct bn_bench_options, rounds, 1, 10000)),
    BN_OPTION("name", "the test in the document [the program's name]", .arg = "NAME",
              BN_TO_TEXT(struct bn_bench_options, name)),
    {0},
};

/* Of both: how commands run, and which numbers are read. */
#define OUTPUT "Metrics"
const struct bn_option bn_bench_command_options[] = {
    BN_OPTION("extract",
              "number in the output: the group of the last match; less is better unless "
              ":higher follows",
              .arg = "NAME=REGEX", .group = OUTPUT, .repeatable = true,
              BN_TO_TEXTS(struct bn_bench_options, extract)),
    BN_OPTION("series", "medians of the series that the command prints as JSON", .group = OUTPUT,
              BN_TO_BOOL(struct bn_bench_options, series)),
    BN_OPTION("filter", "only series with this text in their test or metric", .rare = true, .arg = "PART",
              .group = OUTPUT, BN_TO_TEXT(struct bn_bench_options, filter)),
    BN_OPTION("output-only", "leave out wall time, CPU time and memory", .rare = true, .group = OUTPUT,
              BN_TO_BOOL(struct bn_bench_options, output_only)),
    BN_OPTION("shell", "run each command through the shell, its words joined by spaces", .group = "Running",
              BN_TO_BOOL(struct bn_bench_options, shell)),
    BN_OPTION("warmup", "warm-up rounds first, not counted", .rare = true, .arg = "N", .group = "Running",
              .preset = "1", BN_TO_U32(struct bn_bench_options, n_warmup, 0, 1000)),
    BN_OPTION("timeout", "kill a command that runs longer; there is no verdict then", .rare = true,
              .arg = "TIME", .group = "Running", BN_TO_SECONDS(struct bn_bench_options, timeout_seconds)),
    {0},
};

/* A pattern without any match is an error of the user. */
static bn_status check_extracts(const struct bn_ab_session *s, const struct bn_ab_commands *c, bn_error *err)
{
    for (size_t i = 0; i < c->n_extracts; i++) {
        bool found = false;
        for (size_t k = 0; k < BN_ARRAY_LEN(s->sides) && !found; k++)
            found = bn_series_find(&s->sides[k], c->test, c->extracts[i].name) != NULL;
        if (!found && c->o->filter == NULL && s->n_slots > 0 && bn_ab_session_stop(s) == NULL)
            return bn_fail(err, BN_ERR_MISMATCH, "--extract: %s match for '%s'",
                           s->alone ? "the command printed no" : "neither command printed a",
                           c->extracts[i].name);
    }
    return BN_OK;
}

static bn_status show(struct bn_args *args, const struct bn_ab_session *s, const struct bn_ab_commands *c,
                      const struct bn_machine *machine, bn_error *err)
{
    if (args->json || s->alone) {
        bn_json *doc = bn_bench_document(s->alone ? "cmd" : "ab", machine);
        bn_status status = s->alone ? bn_ab_put_alone(doc, s, c, err) : bn_ab_put(doc, s, c, err);
        if (status == BN_OK && !args->json) return bn_report_print(doc, c->test, err);
        if (status == BN_OK) status = bn_cli_print_json(doc, err);
        bn_json_free(doc);
        return status;
    }
    struct bn_buf text = {.max = 64u << 20};
    bn_ab_print(&text, s, c);
    bn_bench_print_machine(machine);
    bn_bench_print_others(&s->others);
    return bn_bench_print_text(&text, err);
}

static bn_status judge(struct bn_args *args, struct bn_ab_session *s, bn_error *err)
{
    const struct bn_bench_options *o = args->fields;
    BN_TRY(bn_ab_session_judge(s, err));
    BN_TRY(bn_ab_session_choose(s, o->metric, err));
    enum bn_outcome worst = bn_comparisons_worst(s->result.list, s->result.n);
    if (worst == BN_OUTCOME_REGRESSED || s->result.n_incomplete > 0 || s->result.n == 0 ||
        (worst == BN_OUTCOME_INCONCLUSIVE && o->strict))
        args->exit_code = BN_EXIT_NEGATIVE;
    return BN_OK;
}

static bn_status measure(struct bn_args *args, struct bn_ab_session *s, struct bn_ab_commands *c,
                         bn_error *err)
{
    struct bn_machine machine;
    uint64_t n_rounds = (uint64_t)s->rounds + s->warmup;
    BN_TRY(bn_ab_commands_read(c, args, s->alone, err));
    bn_machine_read(&machine);
    struct bn_busy before;
    bn_busy_read(&before);
    bn_cli_catch_interrupt();
    bn_progress_begin(&s->progress, "runs", s->alone ? n_rounds : n_rounds * BN_AB_SIDES, args->quiet);
    s->run = bn_ab_commands_run;
    s->user = c;
    bn_status status = bn_ab_session_run(s, err);
    bn_progress_clear(&s->progress);
    if (status == BN_ERR_CANCELLED && bn_cli_interrupted() != 0) {
        args->exit_code = 128 + bn_cli_interrupted();
        return BN_OK;
    }
    BN_TRY(status);
    s->others = bn_bench_others(&before);
    BN_TRY(check_extracts(s, c, err));
    if (!s->alone) BN_TRY(judge(args, s, err));
    return show(args, s, c, &machine, err);
}

static bn_status run(struct bn_args *args, bool alone, bn_error *err)
{
    const struct bn_bench_options *o = args->fields;
    struct bn_ab_session s = {.rounds = o->rounds,
                              .warmup = o->n_warmup,
                              .alone = alone,
                              .seed = o->seed,
                              .no_control = alone || o->no_control,
                              .rules = BN_JUDGE_RULES_INIT};
    struct bn_ab_commands c = {0};
    s.rules.margin = o->margin / 100;
    s.rules.confidence = o->confidence / 100;
    bn_status status = alone ? BN_OK : bn_bench_levels(&s.levels, o->thresholds, err);
    if (status == BN_OK) status = measure(args, &s, &c, err);
    bn_ab_session_release(&s);
    bn_ab_commands_release(&c);
    return status;
}

bn_status bn_bench_ab(struct bn_args *args, bn_error *err)
{
    return run(args, false, err);
}

bn_status bn_bench_cmd(struct bn_args *args, bn_error *err)
{
    return run(args, true, err);
}
