/* SPDX-License-Identifier: MIT
 *
 * bn-bench profile --graph: the execution graph of passes in one of six forms.
 */
#include <stdlib.h>
#include <string.h>

#include "lab/profile/graph.h"
#include "model/model.h"
#include "tools/bench/profile/profile.h"
#include "tools/cli/number.h"

#define MAX_TEXT ((size_t)256 << 20)

const struct bn_option bn_bench_profile_graph_options[] = {
    BN_OPTION(
        "graph",
        "execution graph; structure: a tree without times, the same in every run; chrome: for Perfetto; "
        "path: the critical path",
        .arg = "tree|structure|dot|json|chrome|path", .group = "Execution graph",
        BN_TO_TEXT(struct bn_bench_options, graph)),
    BN_OPTION("pass", "the pass to show: a number from 0, last, or all [last]", .rare = true, .arg = "PASS",
              .group = "Execution graph", BN_TO_TEXT(struct bn_bench_options, pass)),
    BN_OPTION("wide", "tree: also dimensions, bytes, operations, digests, threads", .rare = true,
              .group = "Execution graph", BN_TO_BOOL(struct bn_bench_options, wide)),
    BN_OPTION("ascii", "tree: only ASCII characters", .rare = true, .group = "Execution graph",
              BN_TO_BOOL(struct bn_bench_options, ascii)),
    BN_OPTION("what-if", "path: its length if a brick were FACTOR times as fast", .rare = true,
              .arg = "BRICK=FACTOR", .group = "Execution graph", .repeatable = true,
              BN_TO_TEXTS(struct bn_bench_options, what_if)),
    BN_OPTION("roofline", "measure the limits, and how close each brick comes", .group = "Execution graph",
              BN_TO_BOOL(struct bn_bench_options, roofline)),
    {0},
};

/* ---- which passes ---- */

bn_status bn_bench_profile_pass(size_t *pass, const struct bn_bench_profile *p, bn_error *err)
{
    const char *text = p->o->pass;
    uint64_t n = 0;
    if (p->prof->n_passes == 0) return bn_fail(err, BN_ERR_MISMATCH, "the profile has no passes");
    *pass = p->prof->n_passes - 1;
    if (text == NULL || strcmp(text, "last") == 0 || strcmp(text, "all") == 0) return BN_OK;
    if (!bn_number_u64(text, strlen(text), &n) || n > *pass)
        return bn_fail(err, BN_ERR_ARG,
                       "--pass must be last, all or a number between 0 and %zu (got '%.60s')", *pass, text);
    *pass = (size_t)n;
    return BN_OK;
}

/* ---- forms ---- */

/* "BRICK=FACTOR": *name is allocated. */
static bn_status read_what_if(const char *text, char **name, double *factor, bn_error *err)
{
    const char *equals = strrchr(text, '=');
    char *end = NULL;
    *factor = equals != NULL ? strtod(equals + 1, &end) : 0;
    if (equals == NULL || equals == text || end == equals + 1 || *end != '\0' || !(*factor > 0))
        return bn_fail(err, BN_ERR_ARG, "--what-if: '%.60s' is not BRICK=FACTOR", text);
    *name = bn_strndup(text, (size_t)(equals - text));
    return *name != NULL ? BN_OK : bn_nomem(err);
}

/* The graph with one brick faster, as a line, or as an element of `array` when there is one. */
static bn_status add_what_if(struct bn_buf *text, bn_json *array, const struct bn_graph *graph,
                             const struct bn_schedule *measured, const char *option, bn_error *err)
{
    struct bn_schedule changed;
    char *name = NULL;
    double factor = 0;
    BN_TRY(read_what_if(option, &name, &factor, err));
    bn_status status = bn_schedule_open(&changed, graph, &(struct bn_what_if){name, factor}, err);
    if (status == BN_OK && array != NULL) {
        bn_json *object = bn_json_add_object(array);
        bn_json_put_bool(object, "model", true);
        bn_json_put_string(object, "name", name);
        bn_json_put_number(object, "factor", factor);
        bn_json_put_u64(object, "path_ns", changed.path_ns);
    } else if (status == BN_OK) {
        double less = measured->path_ns > 0 ? 1 - (double)changed.path_ns / (double)measured->path_ns : 0;
        bn_buf_printf(text, "model: %s %g times as fast: path %.1f us, %.1f %% less\n", name, factor,
                      (double)changed.path_ns / 1e3, 100 * less);
    }
    if (status == BN_OK) bn_schedule_close(&changed);
    bn_free(name);
    return status;
}

/* The critical path as a table, or into `document` when there is one. */
static bn_status add_path(struct bn_buf *text, bn_json *document, const struct bn_bench_profile *p,
                          const struct bn_graph *graph, bn_error *err)
{
    struct bn_schedule schedule;
    BN_TRY(bn_schedule_open(&schedule, graph, NULL, err));
    bn_json *array = bn_json_put_array(document, "what_if");
    if (document != NULL)
        bn_schedule_put(bn_json_put_object(document, "schedule"), &schedule, graph);
    else
        bn_schedule_report(text, &schedule);
    bn_status status = BN_OK;
    for (size_t i = 0; i < p->o->what_if.n && status == BN_OK; i++) {
        if (i == 0 && document == NULL) bn_buf_putc(text, '\n');
        status = add_what_if(text, array, graph, &schedule, p->o->what_if.list[i], err);
    }
    bn_schedule_close(&schedule);
    return status;
}

static bn_status add_document(struct bn_buf *text, const struct bn_bench_profile *p,
                              const struct bn_graph *graph, const struct bn_codes *codes,
                              const char *no_codes, bn_error *err)
{
    bn_json *doc = p->h.doc;
    bn_graph_put(bn_json_put_object(doc, "graph"), graph);
    if (no_codes == NULL)
        bn_codes_put(bn_json_put_object(doc, "code"), codes);
    else
        bn_json_put_unavailable(doc, "code", no_codes);
    BN_TRY(add_path(NULL, doc, p, graph, err));
    return bn_json_write(doc, false, text, err);
}

static bn_status add_graph(struct bn_buf *text, const struct bn_bench_profile *p,
                           const struct bn_graph *graph, const struct bn_codes *codes, const char *no_codes,
                           bn_error *err)
{
    const char *form = p->o->graph;
    struct bn_tree_style style = {.wide = p->o->wide, .ascii = p->o->ascii, .no_times = p->is_structure};
    for (uint32_t i = graph->first_root; style.wide && i != BN_NODE_NONE; i = graph->node[i].next)
        style.wall_ns += graph->node[i].ns;
    if (strcmp(form, "json") == 0) return add_document(text, p, graph, codes, no_codes, err);
    if (strcmp(form, "path") == 0) return add_path(text, NULL, p, graph, err);
    if (strcmp(form, "tree") == 0 || style.no_times) bn_graph_tree(text, graph, &style);
    if (strcmp(form, "dot") == 0) bn_graph_dot(text, graph);
    if (strcmp(form, "chrome") != 0) return BN_OK;
    bn_json *trace = bn_graph_chrome(graph);
    bn_status status = bn_json_write(trace, false, text, err);
    bn_json_free(trace);
    return status;
}

bn_status bn_bench_profile_graph(const struct bn_bench_profile *p, bn_error *err)
{
    struct bn_codes codes = {0};
    struct bn_graph graph;
    struct bn_buf text = {.max = MAX_TEXT};
    bn_error no_codes = {0};
    bool all = p->o->pass != NULL && strcmp(p->o->pass, "all") == 0;
    size_t first = 0;
    BN_TRY(bn_bench_profile_pass(&first, p, err));
    bn_status status = bn_codes_read(&codes, p->model->kernels, NULL, &no_codes);
    if (status == BN_ERR_UNSUPPORTED) {
        bn_report_warning("no digests of kernels: %s", no_codes.msg);
        status = BN_OK;
    } else if (status != BN_OK && err != NULL) {
        *err = no_codes;
    }
    bn_graph_open(&graph);
    if (status == BN_OK)
        status =
            bn_graph_add_profile(&graph, p->prof, &codes, all ? 0 : first, all ? p->prof->n_passes : 1, err);
    if (status == BN_OK)
        status = add_graph(&text, p, &graph, &codes, no_codes.code != BN_OK ? no_codes.msg : NULL, err);
    if (status == BN_OK && text.len > 0 && text.data[text.len - 1] != '\n') bn_buf_putc(&text, '\n');
    bool json = strcmp(p->o->graph, "json") == 0 || strcmp(p->o->graph, "chrome") == 0;
    if (status == BN_OK && json) bn_report_json_began();
    if (status == BN_OK)
        status = bn_cli_print_text(&text, err);
    else
        bn_buf_release(&text);
    bn_graph_close(&graph);
    return status;
}
