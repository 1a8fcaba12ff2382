/* SPDX-License-Identifier: MIT
 *
 * The output of bn-bench ab: tables and document of a session.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "tools/bench/ab/ab.h"

/* ---- for people ---- */

static void print_command(struct bn_buf *out, const char *side, const char *const *argv, const char *shell)
{
    bn_buf_printf(out, "%-9s", side);
    if (shell != NULL) bn_buf_puts(out, shell);
    for (size_t i = 0; shell == NULL && argv[i] != NULL; i++) {
        if (i > 0) bn_buf_putc(out, ' ');
        bn_buf_put_word(out, argv[i]);
    }
    bn_buf_putc(out, '\n');
}

static void print_session(struct bn_buf *out, const struct bn_ab_session *s)
{
    const struct bn_ab_slot *stop = bn_ab_session_stop(s);
    uint32_t rounds = bn_ab_session_rounds(s);
    char what[256];
    bn_buf_printf(
        out, "session  %u round%s of A, B, A' (A again) in turn, after %u of warm-up; %.1f s; seed %llu\n",
        rounds, rounds == 1 ? "" : "s", s->warmup, (double)s->took_ns * 1e-9, (unsigned long long)s->seed);
    if (stop == NULL) return;
    bn_ab_slot_describe(what, sizeof what, stop);
    bn_buf_printf(out, "stopped  %s: no verdict\n", what);
}

/* The metrics that decide, where not all do. */
static void print_deciding(struct bn_buf *out, const struct bn_ab_session *s)
{
    const struct bn_comparison *list = s->result.list;
    size_t n_secondary = 0;
    for (size_t i = 0; i < s->result.n; i++)
        n_secondary += list[i].secondary;
    if (n_secondary == 0) return;
    bn_buf_puts(out, "decides ");
    for (size_t i = 0; i < s->result.n; i++) {
        bool listed = list[i].secondary;
        for (size_t k = 0; k < i && !listed; k++)
            listed = !list[k].secondary && strcmp(list[k].metric, list[i].metric) == 0;
        if (!listed) bn_buf_printf(out, " %s", list[i].metric);
    }
    bn_buf_puts(out, " (--metric NAME); of the others only critical regressions count\n");
}

static void print_verdict(struct bn_buf *out, const struct bn_ab_session *s)
{
    enum bn_outcome worst = bn_comparisons_worst(s->result.list, s->result.n);
    if (bn_ab_session_stop(s) != NULL) {
        bn_buf_puts(out, "verdict  none\n");
        return;
    }
    bn_buf_printf(out, "verdict  %s", bn_outcome_name(worst));
    if (s->result.n_incomplete > 0)
        bn_buf_printf(out, "; %zu of %zu series could not be compared", s->result.n_incomplete, s->result.n);
    else if (worst == BN_OUTCOME_INCONCLUSIVE)
        bn_buf_puts(out, ": undecided; more rounds (-r) may decide");
    else if (worst == BN_OUTCOME_SAME)
        bn_buf_printf(out, ": no difference of more than %g %%", 100 * s->rules.margin);
    bn_buf_putc(out, '\n');
}

void bn_ab_print(struct bn_buf *out, const struct bn_ab_session *s, const struct bn_ab_commands *c)
{
    print_command(out, "A", c->argv[0], c->shell[0]);
    print_command(out, "B", c->argv[1], c->shell[1]);
    print_session(out, s);
    bn_buf_putc(out, '\n');
    bn_comparisons_print(out, s->result.list, s->result.n);
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
    print_deciding(out, s);
    print_verdict(out, s);
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
    bn_json_put_bool(o, "shell", c->shell[0] != NULL);
    bn_json_put_string(o, "filter", c->o->filter);
    bn_json_put_number(o, "margin", s->rules.margin);
    bn_json_put_number(o, "confidence", s->rules.confidence);
    bn_json_put_number(o, "q", s->rules.q);
    bn_json_put_number(o, "agreement", s->rules.agreement);
}

static void put_slot(bn_json *array, const struct bn_ab_slot *slot)
{
    bn_json *o = bn_json_add_object(array);
    bn_json_put_u64(o, "round", slot->round);
    bn_json_put_string(o, "side", bn_ab_side_name(slot->side));
    bn_json_put_bool(o, "warmup", slot->warmup);
    if (slot->failed[0] != '\0') bn_json_put_string(o, "reason", slot->failed);
    bn_json *control = bn_json_put_object(o, "control_ns");
    for (int k = 0; k < BN_AB_CONTROLS; k++) {
        const char *name = bn_ab_control_name((enum bn_ab_control)k);
        if (slot->control_ns[k] > 0)
            bn_json_put_number(control, name, slot->control_ns[k]);
        else
            bn_json_put_unavailable(control, name, "--no-control");
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
            snprintf(test, sizeof test, "%s: %s", bn_ab_side_name((enum bn_ab_side)side), one.test);
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

bn_status bn_ab_put(bn_json *doc, const struct bn_ab_session *s, const struct bn_ab_commands *c,
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

bn_status bn_ab_put_alone(bn_json *doc, const struct bn_ab_session *s, const struct bn_ab_commands *c,
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
