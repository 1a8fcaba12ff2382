/* SPDX-License-Identifier: MIT
 *
 * bn-bench baseline: save, list, show, check, promote.
 */
#include <stdio.h>
#include <string.h>

#include "lab/host/git.h"
#include "tools/bench/history/history.h"
#include "tools/bench/report/report.h"

#define SHORT_ID 12

const struct bn_option bn_bench_baseline_options[] = {
    BN_OPTION("baseline", "check: the baseline to compare the run with", .arg = "NAME", .preset = "main",
              BN_TO_TEXT(struct bn_bench_options, baseline)),
    BN_OPTION("save-baseline", "check: save the run under this name if it passes", .arg = "NAME",
              BN_TO_TEXT(struct bn_bench_options, save_baseline)),
    BN_OPTION("allow-dirty", "save even if sources differ from the commit", .group = "Saving",
              BN_TO_BOOL(struct bn_bench_options, allow_dirty)),
    BN_OPTION("allow-stale", "save even if the program is of another commit", .group = "Saving",
              BN_TO_BOOL(struct bn_bench_options, allow_stale)),
    BN_OPTION("allow-contended", "save even if other processes were busy", .group = "Saving",
              BN_TO_BOOL(struct bn_bench_options, allow_contended)),
    BN_OPTION("reason", "the reason; it is recorded, and required with --allow-...", .arg = "TEXT",
              .group = "Saving", BN_TO_TEXT(struct bn_bench_options, reason)),
    {0},
};

static bn_json *begin_document(const struct bn_args *args)
{
    return args->json ? bn_bench_document("baseline", NULL) : NULL;
}

/* ---- comparing a run with an entry ---- */

/* A run of a ledger, as it was read from its document. */
static bn_status result_of(struct bn_result *out, const struct bn_entry *e, bn_error *err)
{
    *out = (struct bn_result){.binary_sha256 = bn_json_text_of(e->json, "binary_sha256")};
    return bn_series_read(&out->series, e->json, err);
}

/* The worst verdict compared with a baseline; NULL: SAME. */
static bn_status judge(enum bn_outcome *worst, const struct bn_entry *baseline, const struct bn_result *now,
                       struct bn_bench_compare_settings *settings, bn_error *err)
{
    struct bn_history_comparison comparison = {0};
    struct bn_result before;
    *worst = BN_OUTCOME_SAME;
    if (baseline == NULL) return BN_OK;
    bn_status status = result_of(&before, baseline, err);
    if (status == BN_OK) status = bn_bench_compare_results(&comparison, &before, now, settings, err);
    *worst = comparison.worst;
    if (comparison.n_missing > 0)
        bn_report_warning("%zu series of the baseline %s missing", comparison.n_missing,
                          comparison.n_missing == 1 ? "is" : "are");
    bn_history_release(&comparison);
    bn_result_release(&before);
    return status;
}

/* ---- save ---- */

/* A reason to refuse: an error, unless its option overrides it, which is recorded. */
static bn_status refuse(bool allowed, const char *option, const char *what, struct bn_ledger_note *note,
                        bn_error *err)
{
    if (!allowed || option == NULL) {
        bn_fail(err, BN_ERR_MISMATCH, "not saved: %s", what);
        if (option != NULL) bn_error_hint(err, "use --%s --reason TEXT to save it anyway", option);
        return BN_ERR_MISMATCH;
    }
    note->allowed[note->n_allowed++] = option + strlen("allow-");
    bn_report_warning("%s", what);
    return BN_OK;
}

static bn_status check_origin(const struct bn_bench_options *o, const struct bn_result *r,
                              struct bn_ledger_note *note, bn_error *err)
{
    struct bn_git git;
    char what[256];
    bn_git_read(&git, ".");
    if (r->points) return refuse(false, NULL, "values without samples", note, err);
    if (r->invalid[0] != '\0') return refuse(false, NULL, r->invalid, note, err);
    if (r->dirty)
        BN_TRY(refuse(o->allow_dirty, "allow-dirty",
                      "the program was built from uncommitted changes (its tree differs from its commit)",
                      note, err));
    else if (r->changed_sources > 0 || git.n_relevant > 0)
        BN_TRY(refuse(o->allow_dirty, "allow-dirty",
                      "sources in the working directory differ from the commit", note, err));
    if (!git.known || git.commit[0] == '\0' || r->commit[0] == '\0') {
        snprintf(what, sizeof what,
                 "cannot tell whether the program was built from the checked-out commit: %s",
                 r->commit[0] == '\0' ? "it was built outside a repository"
                 : git.known          ? "no commit yet"
                                      : git.why);
        BN_TRY(refuse(o->allow_stale, "allow-stale", what, note, err));
    } else if (strcmp(git.commit, r->commit) != 0) {
        snprintf(what, sizeof what, "the program is of commit %.12s, and %.12s is checked out", r->commit,
                 git.commit);
        BN_TRY(refuse(o->allow_stale, "allow-stale", what, note, err));
    }
    if (r->contended[0] != '\0')
        BN_TRY(refuse(o->allow_contended, "allow-contended", r->contended, note, err));
    return BN_OK;
}

static bn_status check_reason(const struct bn_bench_options *o, bn_error *err)
{
    bool allowed = o->allow_dirty || o->allow_stale || o->allow_contended;
    if (!allowed || (o->reason != NULL && o->reason[0] != '\0')) return BN_OK;
    return bn_fail(err, BN_ERR_ARG, "--allow-%s: --reason TEXT is missing",
                   o->allow_dirty   ? "dirty"
                   : o->allow_stale ? "stale"
                                    : "contended");
}

static bn_status show_saved(struct bn_args *args, const struct bn_ledger *l, const struct bn_entry *e,
                            bn_error *err)
{
    if (e->state == BN_ENTRY_REGRESSED) args->exit_code = BN_EXIT_NEGATIVE;
    if (strcmp(args->operands[0], "check") == 0) {
        bn_report_note(0, "saved as %s: %.*s, %s", e->name, SHORT_ID, e->id, bn_entry_state_name(e->state));
        return BN_OK;
    }
    if (!args->json) {
        printf("%.*s  %s  %s  in %s\n", SHORT_ID, e->id, e->name, bn_entry_state_name(e->state), l->path);
        return BN_OK;
    }
    bn_json *doc = begin_document(args);
    bn_json_put_copy(doc, "record", e->json);
    bn_status status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}

/* Decides the state of a new run: the first of its series is its baseline. */
static bn_status decide(const struct bn_ledger *l, const char *name, const struct bn_result *r,
                        struct bn_bench_compare_settings *settings, struct bn_ledger_note *note,
                        bn_error *err)
{
    const struct bn_likeness like = bn_result_likeness(r);
    const struct bn_entry *unlike, *baseline = bn_ledger_baseline(l, name, &like, &unlike);
    note->state = BN_ENTRY_PROMOTED;
    if (baseline == NULL) return BN_OK;
    BN_TRY(judge(&note->outcome, baseline, r, settings, err));
    note->against = baseline->id;
    note->state = note->outcome == BN_OUTCOME_REGRESSED ? BN_ENTRY_REGRESSED : BN_ENTRY_SAVED;
    bn_report_note(0, "%s compared with %.*s%s", bn_outcome_name(note->outcome), SHORT_ID, baseline->id,
                   note->state == BN_ENTRY_REGRESSED ? ": it cannot become a baseline" : "");
    return BN_OK;
}

static bn_status save_result(struct bn_args *args, const char *name, const struct bn_result *r,
                             struct bn_bench_compare_settings *settings, bn_error *err)
{
    struct bn_ledger_note note = {.reason = settings->o->reason};
    struct bn_ledger l;
    char against[BN_SHA256_HEX];
    BN_TRY(check_reason(settings->o, err));
    BN_TRY(check_origin(settings->o, r, &note, err));
    BN_TRY(bn_ledger_open(&l, settings->o->ledger, r->machine_label, r->suite, true, err));
    bn_status status = decide(&l, name, r, settings, &note, err);
    if (note.against != NULL) { /* entries move */
        snprintf(against, sizeof against, "%s", note.against);
        note.against = against;
    }
    if (status == BN_OK) status = bn_ledger_add(&l, name, r, &note, err);
    if (status == BN_OK) status = bn_ledger_write(&l, err);
    if (status == BN_OK) status = show_saved(args, &l, &l.entries[l.n - 1], err);
    bn_ledger_close(&l);
    return status;
}

static bn_status save(struct bn_args *args, struct bn_bench_compare_settings *settings, bn_error *err)
{
    struct bn_result r;
    BN_TRY(bn_result_read(&r, args->operands[2], err));
    bn_status status = save_result(args, args->operands[1], &r, settings, err);
    bn_result_release(&r);
    return status;
}

/* ---- check ---- */

static bn_status no_baseline(const char *name, bn_error *err)
{
    bn_fail(err, BN_ERR_MISMATCH, "no baseline '%.64s' of this machine, suite, model and settings", name);
    bn_error_hint(err, "bn-bench baseline save %.40s FILE", name);
    return BN_ERR_MISMATCH;
}

static bn_status check_against(struct bn_args *args, const struct bn_entry *baseline,
                               const struct bn_result *r, struct bn_bench_compare_settings *settings,
                               bn_error *err)
{
    struct bn_history_comparison comparison = {0};
    struct bn_result before;
    bn_status status = result_of(&before, baseline, err);
    if (status == BN_OK) status = bn_bench_compare_results(&comparison, &before, r, settings, err);
    bn_json *doc = begin_document(args);
    if (args->json) {
        bn_json_put_string(doc, "baseline", baseline->id);
        bn_bench_put_origin(doc, "run", r);
    } else if (status == BN_OK) {
        printf("A  baseline %s, %.*s: %s, commit %.12s%s\n", baseline->name, SHORT_ID, baseline->id,
               baseline->created, baseline->commit[0] != '\0' ? baseline->commit : "unknown",
               baseline->dirty ? "+dirty" : "");
        bn_bench_print_origin("B", args->operands[1], r);
    }
    if (status == BN_OK) status = bn_bench_compare_show(args, settings, &comparison, doc, err);
    bn_json_free(doc);
    bn_history_release(&comparison);
    bn_result_release(&before);
    return status;
}

static bn_status check_in(struct bn_args *args, const struct bn_ledger *l, const struct bn_result *r,
                          struct bn_bench_compare_settings *settings, bn_error *err)
{
    const char *name = settings->o->baseline;
    const struct bn_likeness like = bn_result_likeness(r);
    const struct bn_entry *unlike, *baseline = bn_ledger_baseline(l, name, &like, &unlike);
    if (baseline == NULL && unlike != NULL) {
        if (!settings->o->unlike) return bn_result_like(&unlike->like, &like, err);
        baseline = unlike;
    }
    if (baseline == NULL) return no_baseline(name, err);
    return check_against(args, baseline, r, settings, err);
}

static bn_status check(struct bn_args *args, struct bn_bench_compare_settings *settings, bn_error *err)
{
    struct bn_result r;
    struct bn_ledger l;
    struct bn_ledgers others = {0};
    bn_error why = {0};
    const char *folder = settings->o->ledger;
    BN_TRY(bn_result_read(&r, args->operands[1], err));
    bn_status status = bn_ledger_open(&l, folder, r.machine_label, r.suite, false, &why);
    if (status == BN_OK) {
        status = check_in(args, &l, &r, settings, err);
        bn_ledger_close(&l);
    } else if (status == BN_ERR_NOT_FOUND) { /* a baseline of another machine is not used */
        status = bn_ledgers_open(&others, folder, NULL, r.suite, err);
        if (status == BN_OK && others.n > 0)
            status = bn_fail(err, BN_ERR_UNSUPPORTED, "no baseline of this machine, only of %.80s",
                             others.list[0].machine_label);
        if (status == BN_OK) status = no_baseline(settings->o->baseline, err);
        bn_ledgers_close(&others);
    } else {
        *err = why;
    }
    const char *name = settings->o->save_baseline;
    if (status == BN_OK && args->exit_code == BN_EXIT_OK && name != NULL)
        status = save_result(args, name, &r, settings, err);
    bn_result_release(&r);
    return status;
}

/* ---- list and show ---- */

struct view {
    struct bn_args *args;
    bn_json *array; /* of the document */
    size_t n;
};

static void put_entry(bn_json *array, const struct bn_ledger *l, const struct bn_entry *e, bool samples)
{
    bn_json *o = bn_json_add_object(array);
    BN_PUT_STRINGS(o, {"suite", l->suite}, {"machine", l->machine_label},
                   {"state", bn_entry_state_name(e->state)});
    bn_json_put_copy(o, "record", e->json);
    bn_json *record = (bn_json *)(uintptr_t)bn_json_get(o, "record");
    if (!samples && record != NULL) bn_json_remove(record, "series");
}

static bn_status list_ledger(struct view *v, const struct bn_ledger *l, bn_error *err)
{
    static const char *const HEADS[] = {"id", "state", "name", "date", "commit", "branch"};
    struct bn_table t;
    bn_table_begin(&t, HEADS, "llllll");
    v->n += l->n;
    for (size_t i = 0; i < l->n; i++) {
        const struct bn_entry *e = &l->entries[i];
        if (v->args->json) put_entry(v->array, l, e, false);
        bn_table_row(&t, "");
        bn_table_printf(&t, "%.*s", SHORT_ID, e->id);
        bn_table_text(&t, bn_entry_state_name(e->state));
        bn_table_text(&t, e->name);
        bn_table_printf(&t, "%.10s", e->created);
        bn_table_printf(&t, "%.12s%s", e->commit[0] != '\0' ? e->commit : "none", e->dirty ? "+dirty" : "");
        bn_table_text(&t, e->branch);
    }
    if (!v->args->json) {
        printf("%s\n", l->path);
        return bn_cli_print_table(&t, err);
    }
    bn_table_release(&t);
    return BN_OK;
}

static bn_status show_entry(struct view *v, const struct bn_ledger *l, const struct bn_entry *e,
                            bn_error *err)
{
    static const char *const FIELDS[] = {"created",         "saved",   "commit",        "branch",
                                         "compiler",        "flags",   "binary_sha256", "model_sha256",
                                         "settings_sha256", "verdict", "against",       "reason"};
    v->n++;
    if (v->args->json) {
        put_entry(v->array, l, e, true);
        return BN_OK;
    }
    printf("%s\n  %-16s %s\n  %-16s %s\n  %-16s %s\n", e->id, "name", e->name, "state",
           bn_entry_state_name(e->state), "ledger", l->path);
    for (size_t i = 0; i < BN_ARRAY_LEN(FIELDS); i++) {
        const char *text;
        if (bn_json_string(bn_json_get(e->json, FIELDS[i]), &text)) printf("  %-16s %s\n", FIELDS[i], text);
    }
    bn_json *doc = bn_bench_document("baseline", NULL);
    bn_json_put_copy(doc, "series", bn_json_get(e->json, "series"));
    return bn_report_print(doc, e->name, err);
}

static bool is_id_of(const char *text, const struct bn_entry *e)
{
    return strlen(text) >= 6 && strncmp(e->id, text, strlen(text)) == 0;
}

/* The run of that id; or the baselines of that name. */
static bn_status show_ledger(struct view *v, const struct bn_ledger *l, const char *what, bn_error *err)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct bn_entry *e = &l->entries[i], *unlike;
        bool meant = is_id_of(what, e) ||
                     (strcmp(e->name, what) == 0 && bn_ledger_baseline(l, e->name, &e->like, &unlike) == e);
        if (meant) BN_TRY(show_entry(v, l, e, err));
    }
    return BN_OK;
}

/* Without an operand: all of them, as tables. */
static bn_status look(struct bn_args *args, struct bn_bench_compare_settings *settings, bn_error *err)
{
    const char *what = args->n_operands > 1 ? args->operands[1] : NULL;
    const struct bn_bench_options *o = settings->o;
    bn_json *doc = begin_document(args);
    struct view v = {.args = args, .array = bn_json_put_array(doc, "entries")};
    struct bn_ledgers all = {0};
    bn_status status = bn_ledgers_open(&all, o->ledger, NULL, NULL, err);
    for (size_t i = 0; i < all.n && status == BN_OK; i++)
        status = what != NULL ? show_ledger(&v, &all.list[i], what, err) : list_ledger(&v, &all.list[i], err);
    bn_ledgers_close(&all);
    if (status == BN_OK && v.n == 0 && what != NULL)
        status = bn_hint(bn_fail(err, BN_ERR_NOT_FOUND, "no baseline and no run named '%.64s'", what), err,
                         "bn-bench baseline list shows the names");
    if (status == BN_OK && args->json)
        status = bn_cli_print_json(doc, err);
    else if (status == BN_OK && v.n == 0)
        printf("no run is saved in %s; bn-bench baseline save NAME RUN.json saves one\n", o->ledger);
    bn_json_free(doc);
    return status;
}

/* ---- promote ---- */

/* Compares with the current baseline, which may differ from that at the time of saving. */
static bn_status check_promotion(const struct bn_ledger *l, const struct bn_entry *e,
                                 struct bn_bench_compare_settings *settings, bn_error *err)
{
    struct bn_result now;
    enum bn_outcome worst = BN_OUTCOME_INCONCLUSIVE;
    const struct bn_entry *unlike, *baseline = bn_ledger_baseline(l, e->name, &e->like, &unlike);
    if (e->state == BN_ENTRY_REGRESSED || baseline == e) return BN_OK;
    bn_status status = result_of(&now, e, err);
    if (status == BN_OK) status = judge(&worst, baseline, &now, settings, err);
    bn_result_release(&now);
    if (status == BN_OK && worst == BN_OUTCOME_REGRESSED)
        return bn_fail(err, BN_ERR_MISMATCH,
                       "run %.12s regressed against the baseline %.12s: it cannot replace it", e->id,
                       baseline->id);
    return status;
}

/* Opens the ledger of the run whose id starts with this text. */
static bn_status open_ledger_of(struct bn_ledger *out, const struct bn_ledgers *all, const char *folder,
                                const char *id, bn_error *err)
{
    const struct bn_ledger *found = NULL;
    for (size_t i = 0; i < all->n; i++)
        for (size_t k = 0; k < all->list[i].n; k++) {
            if (!is_id_of(id, &all->list[i].entries[k])) continue;
            if (found != NULL)
                return bn_fail(err, BN_ERR_ARG, "ambiguous id: several runs start with '%.64s'", id);
            found = &all->list[i];
        }
    if (found == NULL)
        return bn_fail(err, BN_ERR_NOT_FOUND, "no run with the id '%.64s' (at least six digits)", id);
    return bn_ledger_open(out, folder, found->machine_label, found->suite, true, err);
}

static bn_status promote(struct bn_args *args, struct bn_bench_compare_settings *settings, bn_error *err)
{
    const char *folder = settings->o->ledger, *id = args->operands[1];
    struct bn_ledgers all = {0};
    struct bn_ledger l = {.lock = -1};
    const struct bn_entry *e;
    bn_status status = bn_ledgers_open(&all, folder, NULL, NULL, err);
    if (status == BN_OK) status = open_ledger_of(&l, &all, folder, id, err);
    if (status == BN_OK) status = bn_ledger_find(&l, id, &e, err);
    if (status == BN_OK) status = check_promotion(&l, e, settings, err);
    if (status == BN_OK) status = bn_ledger_promote(&l, e, settings->o->reason, err);
    if (status == BN_OK) status = bn_ledger_write(&l, err);
    if (status == BN_OK) status = bn_ledger_find(&l, id, &e, err);
    if (status == BN_OK) status = show_saved(args, &l, e, err);
    bn_ledgers_close(&all);
    bn_ledger_close(&l);
    return status;
}

bn_status bn_bench_baseline(struct bn_args *args, bn_error *err)
{
    static const struct {
        const char *verb;
        size_t n_operands;
        const char *wants;
        bn_status (*run)(struct bn_args *args, struct bn_bench_compare_settings *settings, bn_error *err);
    } VERBS[] = {{"save", 3, "NAME FILE", save},
                 {"list", 1, "no operand", look},
                 {"show", 2, "NAME", look},
                 {"check", 2, "FILE", check},
                 {"promote", 2, "ID", promote}};
    struct bn_bench_compare_settings settings;
    if (args->n_operands == 0)
        return bn_fail(err, BN_ERR_ARG, "missing action: save, list, show, check or promote");
    size_t verb = BN_FIND(VERBS, args->operands[0]);
    if (verb == BN_ARRAY_LEN(VERBS))
        return bn_fail(err, BN_ERR_ARG,
                       "baseline: unknown action '%.40s'; expected save, list, show, check or promote",
                       args->operands[0]);
    if (args->n_operands != VERBS[verb].n_operands)
        return bn_fail(err, BN_ERR_ARG, "baseline %s: expected %s", VERBS[verb].verb, VERBS[verb].wants);
    BN_TRY(bn_bench_compare_read(&settings, args->fields, err));
    return VERBS[verb].run(args, &settings, err);
}
