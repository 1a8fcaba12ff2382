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
    uint32_t all = bn_ab_session_rounds(s), warm = all < s->warmup ? all : s->warmup;
    bn_buf_printf(out, "session  %u round%s of %s in turn, after %u of warm-up; %.1f s; seed %llu\n",
                  all - warm, all - warm == 1 ? "" : "s", s->null ? "A, B, A' (A again)" : "A, B", warm,
                  (double)s->took_ns * 1e-9, (unsigned long long)s->seed);
}

static void print_change(struct bn_buf *out, const struct bn_judgement *j)
{
    if (isfinite(j->change))
        bn_buf_printf(out, "%+.2f %%", 100 * j->change);
    else
        bn_buf_puts(out, "unknown");
}

static void print_control(struct bn_buf *out, const struct bn_ab_session *s)
{
    if (s->no_control) {
        bn_buf_puts(out, "control  not timed (--no-control)\n");
        return;
    }
    bn_buf_puts(out, "control ");
    for (int k = 0; k < BN_AB_CONTROLS; k++) {
        bn_buf_printf(out, " %s ", bn_ab_control_name((enum bn_ab_control)k));
        print_change(out, &s->control[k]);
        bn_buf_puts(out, " next to B, ");
        print_change(out, &s->drift[k]);
        bn_buf_printf(out, " in the second half%s", k + 1 < BN_AB_CONTROLS ? "\n        " : "");
    }
    bn_buf_printf(out, ": %s\n",
                  s->contaminated[0] != '\0'             ? "CONTAMINATED"
                  : isfinite(s->control[BN_AB_SPIN].low) ? "not contaminated"
                                                         : "too few rounds");
}

/* Disturbances during the session; they are never used to correct a number. */
static void print_noise(struct bn_buf *out, const struct bn_ab_session *s)
{
    struct bn_noise sum = {.steal_known = true, .pressure_known = true};
    for (size_t i = 0; i < s->n_slots; i++) {
        const struct bn_noise *n = &s->slots[i].noise;
        sum.steal_known = sum.steal_known && n->steal_known;
        sum.pressure_known = sum.pressure_known && n->pressure_known;
        sum.steal_ns += n->steal_ns;
        sum.cpu_us += n->cpu_us;
        sum.memory_us += n->memory_us;
        sum.io_us += n->io_us;
    }
    bn_buf_puts(out, "noise    stolen by the hypervisor: ");
    if (sum.steal_known)
        bn_buf_printf(out, "%.2f CPU s; ", (double)sum.steal_ns * 1e-9);
    else
        bn_buf_puts(out, "unknown; ");
    if (sum.pressure_known)
        bn_buf_printf(out, "waits: CPU %.2f s, memory %.2f s, I/O %.2f s\n", (double)sum.cpu_us * 1e-6,
                      (double)sum.memory_us * 1e-6, (double)sum.io_us * 1e-6);
    else
        bn_buf_puts(out, "waits: unknown\n");
}

/* The metrics that decide, and regressions of the others. */
static void print_secondary(struct bn_buf *out, const struct bn_ab_session *s)
{
    const char *comma = "decides  ";
    bool any = false;
    for (size_t i = 0; i < s->n_comparisons; i++)
        any = any || s->comparisons[i].secondary;
    if (!any) return;
    for (size_t i = 0; i < s->n_comparisons; i++) {
        const struct bn_comparison *c = &s->comparisons[i];
        bool listed = c->secondary;
        for (size_t k = 0; k < i && !listed; k++)
            listed = !s->comparisons[k].secondary && strcmp(s->comparisons[k].metric, c->metric) == 0;
        if (listed) continue;
        bn_buf_printf(out, "%s%s", comma, c->metric);
        comma = ", ";
    }
    bn_buf_puts(out, " (--metric NAME); of the others only critical regressions count\n");
    for (size_t i = 0; i < s->n_comparisons; i++) {
        const struct bn_comparison *c = &s->comparisons[i];
        if (c->secondary && c->severity != BN_SEVERITY_NONE)
            bn_buf_printf(out, "also     %s of %s regressed (%s)\n", c->metric, c->test,
                          bn_severity_name(c->severity));
    }
}

static void print_verdict(struct bn_buf *out, const struct bn_ab_session *s)
{
    enum bn_outcome worst = bn_comparisons_worst(s->comparisons, s->n_comparisons);
    if (bn_ab_session_stop(s) != NULL) {
        bn_buf_puts(out, "verdict  none\n");
        return;
    }
    bn_buf_printf(out, "verdict  %s", bn_outcome_name(worst));
    if (s->n_incomplete > 0)
        bn_buf_printf(out, "; %zu of %zu series could not be compared", s->n_incomplete, s->n_comparisons);
    else if (worst == BN_OUTCOME_INCONCLUSIVE)
        bn_buf_puts(out, ": undecided; more rounds (-r) may decide");
    else if (worst == BN_OUTCOME_SAME)
        bn_buf_printf(out, ": no difference of more than %g %%", 100 * s->rules.margin);
    bn_buf_putc(out, '\n');
}

static void print_failures(struct bn_buf *out, const struct bn_ab_session *s)
{
    const struct bn_ab_slot *stop = bn_ab_session_stop(s);
    char what[256];
    size_t n[2] = {0, 0};
    for (size_t i = 0; i < s->n_slots; i++)
        n[s->slots[i].side == BN_AB_B] += s->slots[i].failed[0] != '\0' && !s->slots[i].stop;
    if (n[0] + n[1] > 0) bn_buf_printf(out, "failures A %zu, B %zu\n", n[0], n[1]);
    if (stop == NULL) return;
    bn_ab_slot_describe(what, sizeof what, stop);
    bn_buf_printf(out, "stopped  %s: no verdict\n", what);
}

void bn_ab_print(struct bn_buf *out, const struct bn_ab_session *s, const struct bn_ab_commands *c)
{
    print_command(out, "A", c->argv[0], c->shell[0]);
    print_command(out, "B", c->argv[1], c->shell[1]);
    print_session(out, s);
    print_failures(out, s);
    bn_buf_putc(out, '\n');
    bn_comparisons_print(out, s->comparisons, s->n_comparisons);
    bn_buf_printf(
        out,
        "\nchange   of the figure from A to B; IMPROVED is better; %g %% interval; %g %% does not matter\n",
        100 * s->rules.confidence, 100 * s->rules.margin);
    bn_buf_puts(out, "MDE      smallest change detectable with 80 % power; --json has all intervals\n");
    print_control(out, s);
    print_noise(out, s);
    print_secondary(out, s);
    print_verdict(out, s);
}

/* ---- the document ---- */

static void put_command(bn_json *doc, const char *side, const char *const *argv)
{
    bn_json *array = bn_json_put_array(bn_json_put_object(doc, side), "command");
    for (size_t i = 0; argv[i] != NULL; i++)
        bn_json_add_string(array, argv[i]);
}

static void put_settings(bn_json *doc, const struct bn_ab_session *s, const struct bn_ab_commands *c)
{
    bn_json *o = bn_json_put_object(doc, "settings");
    bn_json_put_u64(o, "rounds", s->rounds);
    bn_json_put_u64(o, "warmup", s->warmup);
    bn_json_put_bool(o, "null", s->null);
    bn_json_put_u64(o, "seed", s->seed);
    bn_json_put_u64(o, "max_ns", s->max_ns);
    bn_json_put_u64(o, "timeout_ns", c->timeout_ns);
    bn_json_put_bool(o, "shell", c->shell[0] != NULL);
    bn_json_put_bool(o, "ignore_failure", c->o->ignore_failure);
    bn_json_put_string(o, "prepare", c->o->prepare);
    bn_json_put_string(o, "input", c->o->input);
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
    bn_json_put_u64(o, "place", slot->place);
    bn_json_put_string(o, "side", bn_ab_side_name(slot->side));
    bn_json_put_bool(o, "warmup", slot->warmup);
    bn_json_put_u64(o, "start_ns", slot->start_ns);
    bn_json_put_bool(o, "failed", slot->failed[0] != '\0');
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
    bn_json *values = bn_json_put_array(o, "values");
    for (size_t i = 0; i < slot->values.n; i++) {
        bn_json *v = bn_json_add_object(values);
        bn_json_put_string(v, "test", slot->values.list[i].test);
        bn_json_put_string(v, "metric", slot->values.list[i].metric);
        bn_json_put_number(v, "value", slot->values.list[i].samples[0]);
    }
}

static void put_control(bn_json *doc, const struct bn_ab_session *s)
{
    static const char *const NUMBERS[] = {"change", "low", "high"};
    bn_json *control = bn_json_put_object(doc, "control");
    for (int k = 0; k < 2 * BN_AB_CONTROLS; k++) {
        bool halves = k >= BN_AB_CONTROLS;
        const struct bn_judgement *j = halves ? &s->drift[k - BN_AB_CONTROLS] : &s->control[k];
        const double values[] = {j->change, j->low, j->high};
        char name[40];
        snprintf(name, sizeof name, "%s_%s", bn_ab_control_name((enum bn_ab_control)(k % BN_AB_CONTROLS)),
                 halves ? "second_half" : "beside_b");
        bn_json *o = bn_json_put_object(control, name);
        if (s->no_control) {
            bn_json_put_unavailable(o, "change", "--no-control");
            continue;
        }
        for (size_t i = 0; i < BN_ARRAY_LEN(values); i++)
            bn_json_put_finite(o, NUMBERS[i], values[i], "too few rounds");
        bn_json_put_string(o, "verdict", bn_outcome_name(j->outcome));
    }
    if (s->no_control)
        bn_json_put_unavailable(doc, "contaminated", "--no-control");
    else
        bn_json_put_bool(doc, "contaminated", s->contaminated[0] != '\0');
    if (s->contaminated[0] != '\0') bn_json_put_string(doc, "contaminated_reason", s->contaminated);
}

/* The values of one side, as other commands read samples: "A: decode n=32". */
static bn_status add_side(struct bn_series_list *all, const struct bn_ab_session *s,
                          const struct bn_comparison *c, enum bn_ab_side side, double *room, bn_error *err)
{
    char test[512];
    struct bn_series out = {.test = test, .metric = c->metric, .samples = room};
    snprintf(test, sizeof test, "%s: %s", bn_ab_side_name(side), c->test);
    for (size_t i = 0; i < s->n_slots; i++) {
        const struct bn_ab_slot *slot = &s->slots[i];
        if (slot->warmup || slot->side != side) continue;
        const struct bn_series *v = bn_series_find(&slot->values, c->test, c->metric);
        if (v == NULL) continue;
        out.unit = v->unit;
        out.higher = v->higher;
        out.exact = v->exact;
        room[out.n++] = v->samples[0];
    }
    return out.n > 0 ? bn_series_add(all, &out, err) : BN_OK;
}

static bn_status add_controls(struct bn_series_list *all, const struct bn_ab_session *s, double *room,
                              bn_error *err)
{
    for (int k = 0; k < BN_AB_CONTROLS && s->n_slots > 0 && !s->no_control; k++) {
        char metric[32];
        snprintf(metric, sizeof metric, "%s_ns", bn_ab_control_name((enum bn_ab_control)k));
        for (size_t i = 0; i < s->n_slots; i++)
            room[i] = s->slots[i].control_ns[k];
        struct bn_series out = {"control", metric, "ns", false, false, room, s->n_slots, 0, false};
        BN_TRY(bn_series_add(all, &out, err));
    }
    return BN_OK;
}

bn_status bn_ab_put(bn_json *doc, const struct bn_ab_session *s, const struct bn_ab_commands *c,
                    bn_error *err)
{
    struct bn_series_list all = {0};
    put_command(doc, "a", c->argv[0]);
    put_command(doc, "b", c->argv[1]);
    put_settings(doc, s, c);
    bn_json_put_u64(doc, "took_ns", s->took_ns);
    bn_others_put(doc, &s->others);
    bn_json *slots = bn_json_put_array(doc, "slots");
    for (size_t i = 0; i < s->n_slots; i++)
        put_slot(slots, &s->slots[i]);
    put_control(doc, s);
    bn_comparisons_put(doc, s->comparisons, s->n_comparisons);
    bn_json_put_u64(doc, "incomplete", s->n_incomplete);
    bn_json_put_string(doc, "verdict",
                       bn_outcome_name(bn_comparisons_worst(s->comparisons, s->n_comparisons)));
    double *room = bn_alloc(s->n_slots, sizeof *room);
    bn_status status = room != NULL ? BN_OK : bn_nomem(err);
    for (size_t i = 0; i < s->n_comparisons; i++)
        for (int side = 0; side < BN_AB_SIDES && status == BN_OK; side++)
            status = add_side(&all, s, &s->comparisons[i], (enum bn_ab_side)side, room, err);
    if (status == BN_OK) status = add_controls(&all, s, room, err);
    if (status == BN_OK) bn_series_put(doc, &all);
    bn_series_release(&all);
    bn_free(room);
    return status;
}
