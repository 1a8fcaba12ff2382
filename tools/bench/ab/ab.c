/* SPDX-License-Identifier: MIT
 *
 * bn-bench ab: two commands, compared in turn. bn-bench cmd: one command, measured.
 */
#include "tools/bench/ab/ab.h"
#include "lab/kit/put_counts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/stats/interval.h"
#include "tools/bench/history/history.h"
#include "tools/bench/report/report.h"

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

/* ---- for people ---- */

/* "A  56.28 ms (55.90 to 56.70)  bn-run -p x": the figure of the series that the verdict is about, as the table has it;
 * the interval is that of its median. */
static bn_status print_side(struct bn_buf *out, const struct bn_ab_session *s, const struct bn_ab_commands *c,
                            enum bn_ab_side side, bn_error *err)
{
    const struct bn_comparison *of = bn_comparisons_main(s->result.list, s->result.n);
    const struct bn_series *samples =
        of != NULL ? bn_series_find(&s->sides[side], of->test, of->metric) : NULL;
    double sides[2];
    bn_buf_printf(out, "%s  ", bn_ab_side_names[side]);
    if (samples != NULL) {
        struct bn_interval median;
        BN_TRY(bn_interval_median(&median, samples->samples, samples->n, s->rules.confidence, err));
        bn_comparison_sides(of, &sides[BN_AB_A], &sides[BN_AB_B]);
        const char *unit = bn_units_of(of->metric, of->unit);
        struct bn_units_scale scale = bn_units_scale(unit, sides[side]);
        scale.factor *= median.estimate > 0 ? sides[side] / median.estimate : 1;
        bn_units_value(out, sides[side], unit);
        if (isfinite(median.low) && median.low < median.high) {
            bn_buf_puts(out, " (");
            bn_units_number(out, median.low, scale);
            bn_buf_puts(out, " to ");
            bn_units_number(out, median.high, scale);
            bn_buf_putc(out, ')');
        }
        bn_buf_puts(out, "  ");
    }
    if (c->shell[side] != NULL) bn_buf_puts(out, c->shell[side]);
    for (size_t i = 0; c->shell[side] == NULL && c->argv[side][i] != NULL; i++) {
        if (i > 0) bn_buf_putc(out, ' ');
        bn_buf_put_word(out, c->argv[side][i]);
    }
    bn_buf_putc(out, '\n');
    return BN_OK;
}

/* Three lines: A, B, and what the comparison showed. */
static bn_status print(struct bn_buf *out, const struct bn_ab_session *s, const struct bn_ab_commands *c,
                       bn_error *err)
{
    const struct bn_ab_slot *stop = bn_ab_session_stop(s);
    char what[256];
    BN_TRY(print_side(out, s, c, BN_AB_A, err));
    BN_TRY(print_side(out, s, c, BN_AB_B, err));
    if (stop != NULL) {
        bn_ab_slot_describe(what, sizeof what, stop);
        bn_buf_printf(out, "no verdict: %s\n", what);
        return BN_OK;
    }
    bn_comparisons_verdict(out, s->result.list, s->result.n);
    if (s->result.n_incomplete > 0 && s->result.n_incomplete < s->result.n)
        bn_buf_printf(out, "; %zu of %zu series could not be compared", s->result.n_incomplete, s->result.n);
    bn_buf_putc(out, '\n');
    return BN_OK;
}

/* What -v adds: all series, and what the words of the table mean. */
static void print_details(struct bn_buf *out, const struct bn_ab_session *s)
{
    uint32_t rounds = bn_ab_session_rounds(s);
    bn_buf_putc(out, '\n');
    if (s->result.n > 0) bn_comparisons_print(out, s->result.list, s->result.n);
    bn_buf_printf(
        out,
        "\nchange   of the figure from A to B; IMPROVED is better; %g %% interval; %g %% does not matter\n",
        100 * s->rules.confidence, 100 * s->rules.margin);
    bn_buf_puts(out, "MDE      smallest change detectable with 80 % power; --json has all intervals\n");
    bn_buf_printf(out, "control  %s\n",
                  s->no_control                   ? "not timed (--no-control)"
                  : s->contaminated[0] != '\0'    ? s->contaminated
                  : isfinite(s->control[0].j.low) ? "not contaminated"
                                                  : "too few rounds");
    bn_buf_puts(out,
                "decides  --metric NAME, else printed numbers, else wall_ns; of the others only critical "
                "regressions\n         count\n");
    bn_buf_printf(
        out, "session  %u round%s of A, B, A' (A again) in turn, after %u of warm-up; %.1f s; seed %llu\n",
        rounds, rounds == 1 ? "" : "s", s->warmup, (double)s->took_ns * 1e-9, (unsigned long long)s->seed);
}

/* ---- the document ---- */

static void put_command(bn_json *object, const char *const *argv)
{
    bn_json *array = bn_json_put_array(object, "command");
    for (size_t i = 0; argv[i] != NULL; i++)
        bn_json_add_string(array, argv[i]);
}

static void put_settings(bn_json *doc, const struct bn_ab_session *s, const struct bn_ab_commands *c)
{
    bn_json *o = bn_json_put_object(doc, "settings");
    BN_PUT_COUNTS(o, {"rounds", s->rounds}, {"warmup", s->warmup}, {"seed", s->seed},
                  {"timeout_seconds", c->o->timeout_seconds});
    BN_PUT(o, BN_FLAG("shell", c->shell[0] != NULL), BN_STRING("filter", c->o->filter),
           BN_NUMBER("margin", s->rules.margin), BN_NUMBER("confidence", s->rules.confidence),
           BN_NUMBER("q", s->rules.q), BN_NUMBER("agreement", s->rules.agreement));
}

static void put_slot(bn_json *array, const struct bn_ab_slot *slot)
{
    bn_json *o = bn_json_add_object(array);
    BN_PUT(o, BN_U64("round", slot->round), BN_STRING("side", bn_ab_side_names[slot->side]),
           BN_FLAG("warmup", slot->warmup));
    if (slot->failed[0] != '\0') bn_json_put_string(o, "reason", slot->failed);
    bn_json *control = bn_json_put_object(o, "control_ns");
    for (int k = 0; k < BN_AB_CONTROLS; k++) {
        double ns = slot->control_ns[k] > 0 ? slot->control_ns[k] : (double)NAN;
        bn_json_put_finite(control, bn_ab_control_names[k], ns, "--no-control");
    }
    bn_noise_put(bn_json_put_object(o, "noise"), &slot->noise);
}

static void put_control(bn_json *doc, const struct bn_ab_session *s)
{
    bn_comparisons_put(doc, "control", s->control, s->no_control ? 0 : BN_ARRAY_LEN(s->control));
    if (s->no_control)
        bn_json_put_unavailable(doc, "contaminated", "--no-control");
    else
        bn_json_put_bool(doc, "contaminated", s->contaminated[0] != '\0');
    if (s->contaminated[0] != '\0') bn_json_put_string(doc, "contaminated_reason", s->contaminated);
}

/* The values of all sides, as other commands read samples: "A: decode n=32". */
static bn_status add_sides(struct bn_series_list *all, const struct bn_ab_session *s, bn_error *err)
{
    for (int side = 0; side < BN_AB_SIDES; side++)
        for (size_t i = 0; i < s->sides[side].n; i++) {
            char test[512];
            struct bn_series one = s->sides[side].list[i];
            snprintf(test, sizeof test, "%s: %s", bn_ab_side_names[side], one.test);
            one.test = test;
            BN_TRY(bn_series_add(all, &one, err));
        }
    return BN_OK;
}

static bn_status add_controls(struct bn_series_list *all, const struct bn_ab_slot *slot, bn_error *err)
{
    static const char *const METRICS[] = {"spin_ns", "triad_ns"};
    for (int k = 0; k < BN_AB_CONTROLS; k++) {
        struct bn_series one = {
            .test = "control", .metric = METRICS[k], .unit = "ns", .samples = &slot->control_ns[k], .n = 1};
        BN_TRY(bn_series_extend(all, &one, err));
    }
    return BN_OK;
}

static bn_status put(bn_json *doc, const struct bn_ab_session *s, const struct bn_ab_commands *c,
                     bn_error *err)
{
    struct bn_series_list all = {0};
    put_command(bn_json_put_object(doc, "a"), c->argv[0]);
    put_command(bn_json_put_object(doc, "b"), c->argv[1]);
    put_settings(doc, s, c);
    bn_json_put_u64(doc, "took_ns", s->took_ns);
    bn_others_put(doc, &s->others);
    bn_json *slots = bn_json_put_array(doc, "slots");
    for (size_t i = 0; i < s->n_slots; i++)
        put_slot(slots, &s->slots[i]);
    put_control(doc, s);
    bn_comparisons_put(doc, "comparisons", s->result.list, s->result.n);
    bn_json_put_u64(doc, "incomplete", s->result.n_incomplete);
    bn_json_put_string(doc, "verdict", bn_outcome_name(bn_comparisons_worst(s->result.list, s->result.n)));
    bn_status status = add_sides(&all, s, err);
    for (size_t i = 0; i < s->n_slots && !s->no_control && status == BN_OK; i++)
        status = add_controls(&all, &s->slots[i], err);
    if (status == BN_OK) bn_series_put(doc, &all);
    bn_series_release(&all);
    return status;
}

/* The document of bn-bench cmd. BN_ERR_MISMATCH when a run exceeded --timeout, or nothing was measured. */
static bn_status put_alone(bn_json *doc, const struct bn_ab_session *s, const struct bn_ab_commands *c,
                           bn_error *err)
{
    const struct bn_ab_slot *stop = bn_ab_session_stop(s);
    const struct bn_series_list *all = &s->sides[BN_AB_ALONE];
    if (stop != NULL) return bn_fail(err, BN_ERR_MISMATCH, "the command %s", stop->failed);
    if (all->n == 0) return bn_fail(err, BN_ERR_MISMATCH, "nothing was measured: no series matches");
    bn_json *settings = bn_json_put_object(doc, "settings");
    bn_json_put_string(settings, "name", c->test);
    put_command(settings, c->argv[0]);
    bn_json_put_bool(settings, "shell", c->o->shell);
    BN_PUT_COUNTS(settings, {"reps", s->rounds}, {"warmup", s->warmup});
    bn_others_put(doc, &s->others);
    bn_series_put(doc, all);
    return BN_OK;
}

/* ---- running ---- */

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
        bn_status status = s->alone ? put_alone(doc, s, c, err) : put(doc, s, c, err);
        if (status == BN_OK && !args->json) return bn_report_print(doc, c->test, err);
        if (status == BN_OK) status = bn_cli_print_json(doc, err);
        bn_json_free(doc);
        return status;
    }
    struct bn_buf text = {.max = 64u << 20};
    bn_status status = print(&text, s, c, err);
    if (status == BN_OK && args->verbose > 0) print_details(&text, s);
    if (status == BN_OK) status = bn_cli_print_text(&text, err);
    bn_buf_release(&text);
    if (status != BN_OK || args->verbose == 0) return status;
    bn_bench_print_machine(machine);
    return BN_OK;
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

bn_status bn_bench_ab(struct bn_args *args, bn_error *err)
{
    const struct bn_bench_options *o = args->fields;
    const bool alone = strcmp(args->command->name, "cmd") == 0;
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
