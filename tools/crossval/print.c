/* SPDX-License-Identifier: MIT
 *
 * The result as text: a line for each rung, its limits with their margins below it, the table of the layers
 * where a trace was compared, and a last line with the verdict.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "tools/cli/default_model.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/crossval/crossval.h"

static void print_state(enum bn_xstate state)
{
    static const char *const COLORS[] = {"", "\033[32m", "\033[31m", "\033[2m", "\033[31m"};
    bool color = bn_report_color(stdout) && state != BN_X_NONE;
    static const char *const WORDS[] = {"", "pass", "FAIL", "skip", "ERROR"};
    printf("%s%-5s%s", color ? COLORS[state] : "", WORDS[state], color ? "\033[0m" : "");
}

static void print_verdict(const struct bn_threshold_verdict *v, bool passed)
{
    char where[40] = "";
    if (!v->is_mean && v->row != SIZE_MAX) snprintf(where, sizeof where, ", position %zu", v->row);
    printf("        %-9s %-5s %-11.6g %s %-8.6g margin %.3g%s%s\n", bn_metric_name(v->metric),
           v->is_mean ? "mean" : "worst", v->value, v->is_min ? ">=" : "<=", v->bound, v->margin, where,
           v->holds ? ""
           : passed ? "  explained"
                    : "  BROKEN");
}

static void print_tokens(const struct bn_xrung *r)
{
    if (r->state == BN_X_PASS) printf("%zu token%s, all equal\n", r->n_compared, bn_cli_s(r->n_compared));
    if (r->state != BN_X_FAIL) return;
    printf("        here      %s\n        there     %s\n", r->ours, r->theirs);
}

/* What follows the state and the name of a rung. */
static void print_details(const struct bn_args *args, enum bn_rung which, const struct bn_xrung *r)
{
    if (r->state != BN_X_PASS) printf("%s\n", r->reason);
    if (which == BN_RUNG_TOKENS) print_tokens(r);
    if (r->hint[0] != '\0') printf("        %s\n", r->hint);
    if (which == BN_RUNG_FIRST || which == BN_RUNG_POSITIONS || which == BN_RUNG_MASK) {
        if (r->state == BN_X_PASS)
            printf("%zu row%s, %zu logits, %zu rows equal to the bit\n", r->sum.n_rows,
                   bn_cli_s(r->sum.n_rows), r->sum.n_values, r->sum.n_same_bits);
        if (r->state == BN_X_PASS && r->reason[0] != '\0') printf("        %s\n", r->reason);
        for (size_t i = 0; i < r->n_verdicts; i++)
            if (!args->quiet || !r->verdicts[i].holds) print_verdict(&r->verdicts[i], r->state == BN_X_PASS);
    }
    if (which == BN_RUNG_DECODE) {
        if (r->state == BN_X_PASS) printf("%zu greedy step%s\n", r->n_steps, bn_cli_s(r->n_steps));
        if (r->n_steps > 0 && (r->state == BN_X_FAIL || !args->quiet))
            printf("        agree     %zu of %zu, ties %zu\n", r->n_agree, r->n_steps, r->n_tied);
    }
    if (which == BN_RUNG_LIKELIHOOD && (r->state == BN_X_PASS || r->state == BN_X_FAIL)) {
        double delta = fabs(r->nll_ours - r->nll_theirs);
        if (r->state == BN_X_PASS) printf("%zu token%s\n", r->n_compared, bn_cli_s(r->n_compared));
        printf("        nll       here %.5f, there %.5f, apart %.3g <= %.6g margin %.3g\n", r->nll_ours,
               r->nll_theirs, delta, r->bound, r->bound - delta);
    }
}

/* ---- trace ---- */

static void print_finding(const struct bn_finding *f)
{
    char layer[16] = "-";
    if (f->layer >= 0) snprintf(layer, sizeof layer, "%d", (int)f->layer);
    printf("    %-5s %-19s %-9.3g %-10.3g %-8.3g %-8zu %s\n", layer, bn_op_name(f->op), f->handed, f->error,
           f->allowed, f->row, f->same_bits ? "same bits" : bn_found_name(f->found));
}

/* One line per layer: the difference of the residual stream after it, and the wrong operation in it. */
static void print_layer(const struct bn_bisection *b, int32_t layer)
{
    const struct bn_finding *end = NULL, *bad = NULL, *near = NULL;
    for (size_t i = 0; i < b->n; i++) {
        const struct bn_finding *f = &b->list[i];
        if (f->layer != layer || f->found == BN_FOUND_ABSENT_B) continue;
        end = f;
        if (bad == NULL && f->found != BN_FOUND_WITHIN) bad = f;
        if (near == NULL || bn_finding_excess(f) > bn_finding_excess(near)) near = f;
    }
    if (end == NULL) return;
    char name[16] = "-";
    if (layer >= 0) snprintf(name, sizeof name, "%d", (int)layer);
    printf("    %-5s %-9.6f %-9.3g %-19s %-11.3g %s\n", name, end->cosine, end->nrmse, bn_op_name(near->op),
           bn_finding_excess(near), bad == NULL ? "none" : bn_op_name(bad->op));
}

static void print_trace(const struct bn_args *args, const struct bn_xref *ref)
{
    const struct bn_bisection *b = &ref->trace;
    printf("  ");
    print_state(ref->traced);
    printf(" trace       ");
    if (ref->traced == BN_X_PASS)
        printf("%zu records of %zu token%s, %zu values, %zu records equal to the bit\n", b->n_compared,
               ref->n_traced, bn_cli_s(ref->n_traced), b->n_values, b->n_same_bits);
    else
        printf("%s\n", ref->trace_reason);
    if (b->n == 0 || (args->quiet && ref->traced == BN_X_PASS)) return;
    if (b->n_absent > 0) printf("        %zu records that the reference did not send\n", b->n_absent);
    printf("    layer cosine    nrmse     closest to limit    error/limit first beyond it\n");
    for (size_t layer = 0; layer < b->n_layers; layer++)
        print_layer(b, (int32_t)layer);
    print_layer(b, -1);
    if (args->verbose == 0 && b->first == b->n) return;
    printf("    layer operation           input off output off allowed  position\n");
    size_t from = args->verbose > 0 || b->first < 3 ? 0 : b->first - 3;
    for (size_t i = from; i < b->n && (args->verbose > 0 || i < b->first + 3); i++)
        print_finding(&b->list[i]);
}

/* ---- everything ---- */

static void print_ref(const struct bn_crossval *x, const struct bn_xref *ref)
{
    const struct bn_reference_info *i = &ref->info;
    if (!ref->started) return; /* the summary says why */
    printf("reference %s", bn_xref_label(ref));
    if (i->name[0] != '\0') printf(": %s%s%s", i->name, i->version[0] != '\0' ? " " : "", i->version);
    if (i->commit[0] != '\0') printf(" (%s)", i->commit);
    putchar('\n');
    bool failed = false;
    for (unsigned r = 0; r < BN_RUNG_COUNT; r++) {
        /* After a failure of the reference every rung has its reason. */
        if (ref->rungs[r].state == BN_X_NONE || (failed && ref->rungs[r].state == BN_X_ERROR)) continue;
        failed = failed || ref->rungs[r].state == BN_X_ERROR;
        printf("  ");
        print_state(ref->rungs[r].state);
        printf(" %-11s ", bn_rung_name((enum bn_rung)r));
        print_details(x->args, (enum bn_rung)r, &ref->rungs[r]);
    }
    if (ref->traced != BN_X_NONE && !(failed && ref->traced == BN_X_ERROR)) print_trace(x->args, ref);
}

static void print_three(const struct bn_crossval *x)
{
    const struct bn_xthree *t = &x->three;
    if (t->n < 3) return;
    printf("between them (mean nrmse of the logits)\n");
    for (size_t i = 0; i < t->n; i++)
        for (size_t j = 0; j < i; j++)
            printf("  %-7s %-10.3g %s, %s\n", t->agree[i][j] ? "agree" : "DIFFER", t->distance[i][j],
                   bn_crossval_participant(x, j), bn_crossval_participant(x, i));
    if (t->has_odd)
        printf("odd one out: %s\n", bn_crossval_participant(x, t->odd));
    else if (!t->all_agree)
        printf("odd one out: none, no majority agrees\n");
}

static void print_failure(const struct bn_xref *ref)
{
    const bn_error *why = &ref->failure;
    const char *more = why->hint[0] != '\0' ? why->hint : ref->last_words;
    printf("%s: FAILED, no agreement: %s%s%s%s%s\n", bn_xref_label(ref), why->where,
           why->where[0] != '\0' ? ": " : "", why->msg,
           more == why->hint ? "; "
           : more[0] != '\0' ? "; its last words: "
                             : "",
           more);
}

static void print_summary(const struct bn_crossval *x)
{
    size_t n_agree = 0;
    for (size_t i = 0; i < x->n_refs; i++) {
        const struct bn_xref *ref = &x->refs[i];
        enum bn_rung rung = bn_xref_parted(ref);
        bool bad = ref->broken || rung != BN_RUNG_COUNT || ref->traced == BN_X_FAIL;
        if (ref->broken)
            print_failure(ref);
        else if (rung != BN_RUNG_COUNT)
            printf("%s: DIFFERS from rung %s on%s%s\n", bn_xref_label(ref), bn_rung_name(rung),
                   ref->traced == BN_X_FAIL ? "; " : "", ref->traced == BN_X_FAIL ? ref->trace_reason : "");
        else if (ref->traced == BN_X_FAIL)
            printf("%s: DIFFERS; %s\n", bn_xref_label(ref), ref->trace_reason);
        else if (bn_xref_compared(ref) == 0)
            printf("%s: NOTHING was compared\n", bn_xref_label(ref));
        n_agree += !bad && bn_xref_compared(ref) > 0;
    }
    if (n_agree == x->n_refs)
        printf("agree: %zu token%s, %zu reference%s\n", x->n_prompt, bn_cli_s(x->n_prompt), n_agree,
               bn_cli_s(n_agree));
}

void bn_crossval_print(const struct bn_crossval *x)
{
    const bn_hparams *hp = bn_model_hparams(x->model);
    char name[200];
    const char *path = bn_cli_model_name(x->args);
    bn_escape(name, sizeof name, path, strlen(path));
    if (!x->args->quiet)
        printf("model     %s: %s, %u layer%s, vocabulary %u\nprompt    %zu token%s, %zu decoded\n", name,
               hp->arch, hp->n_layer, bn_cli_s(hp->n_layer), hp->n_vocab, x->n_prompt, bn_cli_s(x->n_prompt),
               x->n_ids - x->n_prompt);
    for (size_t i = 0; i < x->n_refs; i++)
        print_ref(x, &x->refs[i]);
    print_three(x);
    print_summary(x);
}
