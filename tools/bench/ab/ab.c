/* SPDX-License-Identifier: MIT
 *
 * bn-bench ab: two commands, compared in turn.
 */
#include "tools/bench/ab/ab.h"

#include <stdio.h>

#include "base/error.h"
#include "tools/bench/history/compare.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"

#define OUTPUT "Metrics"
#define RULES "Verdict"
const struct bn_option bn_bench_ab_options[] = {
    {.name = "rounds",
     .letter = 'r',
     .arg = "N",
     .preset = "20",
     .help = "rounds, at least 6; each runs A, B and A again"},
    {.name = "warmup",
     .rare = true,
     .arg = "N",
     .preset = "1",
     .help = "warm-up rounds before them, not counted"},
    {.name = "max-time",
     .rare = true,
     .arg = "TIME",
     .help = "start no more rounds after this time (90s, 15m)"},
    {.name = "timeout",
     .rare = true,
     .arg = "TIME",
     .help = "kill a command that runs longer; there is no verdict then"},
    {.name = "prepare",
     .rare = true,
     .arg = "LINE",
     .help = "shell command to run before each run (not timed)"},
    {.name = "input", .rare = true, .arg = "FILE", .help = "standard input of the commands [empty]"},
    {.name = "shell", .help = "run each command through the shell, its words joined by spaces"},
    {.name = "ignore-failure", .rare = true, .help = "count runs that fail, too"},
    {.name = "seed", .rare = true, .arg = "N", .preset = "1", .help = "seed for the order within the rounds"},
    {.name = "no-null", .rare = true, .help = "run A once per round; do not measure its own variation"},
    {.name = "no-control",
     .rare = true,
     .help = "do not time the control work (for numbers other than times)"},
    {.name = "extract",
     .arg = "NAME=REGEX",
     .group = OUTPUT,
     .repeatable = true,
     .help = "number in the output: the group of the last match; less is better unless "
             ":higher follows"},
    {.name = "series", .group = OUTPUT, .help = "compare the medians of the series that both print as JSON"},
    {.name = "filter",
     .rare = true,
     .arg = "PART",
     .group = OUTPUT,
     .help = "only series with this text in their test or metric"},
    {.name = "output-only",
     .rare = true,
     .group = OUTPUT,
     .help = "do not compare wall time, CPU time and memory"},
    {.name = "metric",
     .arg = "NAME",
     .group = RULES,
     .help = "the metric that decides [printed metrics, else wall_ns]"},
    {.name = "margin",
     .arg = "PERCENT",
     .group = RULES,
     .help = "a change that does not matter [2, with --self-test 1]"},
    {.name = "strict", .group = RULES, .help = "exit with 1 also when the verdict is INCONCLUSIVE"},
    {.name = "self-test",
     .group = "Self-test",
     .help = "measure how often changes are detected, and false alarms"},
    {.name = "sessions",
     .rare = true,
     .arg = "N",
     .group = "Self-test",
     .preset = "100",
     .help = "sessions of each kind"},
    {0},
};

static bn_status read_session(struct bn_ab_session *s, const struct bn_args *args, bn_error *err)
{
    double percent = bn_opt_flag(args, "self-test") ? 1 : 2;
    BN_TRY(bn_opt_u32(args, "rounds", 1, 10000, &s->rounds, err));
    BN_TRY(bn_opt_u32(args, "warmup", 0, 1000, &s->warmup, err));
    BN_TRY(bn_opt_u64(args, "seed", 0, UINT64_MAX, &s->seed, err));
    BN_TRY(bn_opt_f64(args, "margin", 0.001, 99, &percent, err));
    BN_TRY(bn_ab_duration(args, "max-time", &s->max_ns, err));
    s->null = !bn_opt_flag(args, "no-null");
    s->no_control = bn_opt_flag(args, "no-control");
    s->rules.margin = percent / 100;
    return BN_OK;
}

/* A pattern without any match is an error of the user. */
static bn_status check_extracts(const struct bn_ab_session *s, const struct bn_ab_commands *c, bn_error *err)
{
    for (size_t i = 0; i < c->n_extracts; i++) {
        bool found = false;
        for (size_t k = 0; k < s->n_comparisons && !found; k++)
            found = strcmp(s->comparisons[k].metric, c->extracts[i].name) == 0;
        if (!found && c->filter == NULL && s->n_slots > 0 && bn_ab_session_stop(s) == NULL)
            return bn_fail(err, BN_ERR_MISMATCH, "--extract: neither command printed a match for '%s'",
                           c->extracts[i].name);
    }
    return BN_OK;
}

static bn_status show(struct bn_args *args, const struct bn_ab_session *s, const struct bn_ab_commands *c,
                      const struct bn_machine *machine, bn_error *err)
{
    if (args->json) {
        bn_json *doc = bn_bench_document("ab", machine);
        bn_status status = bn_ab_put(doc, s, c, err);
        if (status == BN_OK) status = bn_cli_print_json(doc, err);
        bn_json_free(doc);
        return status;
    }
    struct bn_buf text = {.max = 64u << 20};
    bn_ab_print(&text, s, c);
    bn_status status = bn_buf_check(&text, err);
    if (status == BN_OK) {
        bn_bench_print_machine(machine);
        bn_bench_print_others(&s->others);
        fwrite(text.data, 1, text.len, stdout);
    }
    bn_buf_release(&text);
    return status;
}

/* Labels each regression with its severity (levels.h). */
static void label(struct bn_ab_session *s, const struct bn_levels *levels)
{
    for (size_t i = 0; i < s->n_comparisons; i++) {
        struct bn_comparison *c = &s->comparisons[i];
        double a, b;
        bn_comparison_sides(c, &a, &b);
        if (c->j.outcome == BN_OUTCOME_REGRESSED)
            c->severity = bn_levels_severity(levels, c->test, c->metric, c->higher, a, b);
    }
}

static bn_status compare(struct bn_args *args, struct bn_ab_session *s, struct bn_ab_commands *c,
                         bn_error *err)
{
    struct bn_machine machine;
    struct bn_levels levels;
    BN_TRY(bn_bench_levels(&levels, args, err));
    BN_TRY(bn_ab_commands_read(c, args, err));
    bn_machine_read(&machine);
    struct bn_busy before;
    bn_busy_read(&before);
    bn_cli_catch_interrupt();
    uint64_t n_slots = ((uint64_t)s->rounds + s->warmup) * (s->null ? 3 : 2);
    bn_progress_begin(&s->progress, "runs", n_slots, args->quiet);
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
    BN_TRY(bn_ab_session_judge(s, err));
    BN_TRY(check_extracts(s, c, err));
    BN_TRY(bn_ab_session_choose(s, bn_opt_str(args, "metric"), err));
    label(s, &levels);
    enum bn_outcome worst = bn_comparisons_worst(s->comparisons, s->n_comparisons);
    if (worst == BN_OUTCOME_REGRESSED || s->n_incomplete > 0 || s->n_comparisons == 0 ||
        (worst == BN_OUTCOME_INCONCLUSIVE && bn_opt_flag(args, "strict")))
        args->exit_code = BN_EXIT_NEGATIVE;
    return show(args, s, c, &machine, err);
}

bn_status bn_bench_ab(struct bn_args *args, bn_error *err)
{
    struct bn_ab_session s = {.rules = BN_JUDGE_RULES_INIT};
    struct bn_ab_commands c = {0};
    BN_TRY(read_session(&s, args, err));
    if (bn_opt_flag(args, "self-test")) return bn_ab_self_test(args, &s, err);
    bn_status status = compare(args, &s, &c, err);
    bn_ab_session_release(&s);
    bn_ab_commands_release(&c);
    return status;
}
