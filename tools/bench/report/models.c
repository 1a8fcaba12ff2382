/* SPDX-License-Identifier: MIT
 *
 * The models of a report, by size, and its machines side by side: two tables that compare documents.
 */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "lab/report/units.h"
#include "tools/bench/report/report.h"

/* ---- models ---- */

static double median_of(const struct bn_series_list *all, const char *test, const char *metric)
{
    struct bn_summary sum;
    const struct bn_series *s = bn_series_find(all, test, metric);
    return s != NULL && bn_summarize(&sum, s->samples, s->n) ? sum.median : (double)NAN;
}

const struct bn_report_series *bn_report_fastest(const struct bn_report *r,
                                                 const struct bn_report_source *source, const char *word,
                                                 bool busy)
{
    const struct bn_report_series *best = NULL;
    for (size_t i = 0; i < r->n_series; i++) {
        const struct bn_report_series *s = &r->series[i];
        if (s->source != source || !bn_report_is_speed(s, word) || bn_report_is_busy(s) != busy) continue;
        if (best == NULL || s->figure[BN_FIGURE_MEDIAN] < best->figure[BN_FIGURE_MEDIAN]) best = s;
    }
    return best;
}

static void read_model(struct bn_report_model *m, const struct bn_report *r,
                       const struct bn_report_source *source)
{
    *m = (struct bn_report_model){.source = source,
                                  .name = bn_json_text_of(source->doc, "model.name"),
                                  .sha256 = bn_json_text_of(source->doc, "model.sha256"),
                                  .parameters = bn_json_number_of(source->doc, "model.parameters"),
                                  .file_bytes = bn_json_number_of(source->doc, "model.file_bytes"),
                                  .decode = bn_report_fastest(r, source, "decode", false),
                                  .prompt = bn_report_fastest(r, source, "prompt", false),
                                  .busy = bn_report_fastest(r, source, "decode", true),
                                  .first_token_ns = (double)NAN,
                                  .peak_bytes = median_of(&source->series, "process", "peak_rss_bytes"),
                                  .share = (double)NAN};
    if (m->prompt != NULL)
        m->first_token_ns = median_of(&source->series, m->prompt->s->test, "first_token_ns");
    if (m->decode != NULL) m->share = median_of(&source->series, m->decode->s->test, "share_of_bandwidth");
}

static int by_size(const void *a, const void *b)
{
    const struct bn_report_model *x = a, *y = b;
    double p = isfinite(x->parameters) ? x->parameters : 0, q = isfinite(y->parameters) ? y->parameters : 0;
    return p < q ? -1 : p > q ? 1 : (x->source > y->source) - (x->source < y->source);
}

bn_status bn_report_read_models(struct bn_report *r, bn_error *err)
{
    r->models = bn_alloc(r->n_sources, sizeof *r->models);
    if (r->models == NULL) return bn_nomem(err);
    for (size_t i = 0; i < r->n_sources; i++) {
        const bn_json *doc = r->sources[i].doc;
        if (bn_json_text_is(doc, "command", "run") && bn_json_get(doc, "model") != NULL)
            read_model(&r->models[r->n_models++], r, &r->sources[i]);
    }
    qsort(r->models, r->n_models, sizeof *r->models, by_size);
    return BN_OK;
}

bool bn_report_has_models(const struct bn_report *r)
{
    for (size_t i = 1; i < r->n_models; i++)
        if (strcmp(r->models[i].sha256, r->models[0].sha256) != 0) return true;
    return false;
}

static void put_rate(struct bn_table *t, const struct bn_report_series *s)
{
    bn_table_value(t, s != NULL ? 1e9 / s->figure[BN_FIGURE_MEDIAN] : (double)NAN, "tok/s");
}

/* "2.413 G": a count with a decimal prefix. */
static void put_parameters(struct bn_table *t, double n)
{
    static const struct {
        double least;
        const char *name;
    } PREFIXES[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    for (size_t i = 0; i < BN_ARRAY_LEN(PREFIXES); i++)
        if (n >= PREFIXES[i].least) {
            bn_table_printf(t, "%.4g %s", n / PREFIXES[i].least, PREFIXES[i].name);
            bn_table_exact(t, n, "");
            return;
        }
    bn_table_value(t, n, "1");
}

void bn_report_put_model_name(struct bn_buf *out, const struct bn_report_model *m)
{
    const char *slash = strrchr(m->name, '/'), *name = slash != NULL ? slash + 1 : m->name;
    size_t n = strlen(name);
    bn_buf_append(out, name, n > 5 && strcmp(name + n - 5, ".gguf") == 0 ? n - 5 : n);
}

static void begin_row(struct bn_table *t, const struct bn_report_model *m)
{
    struct bn_buf name = {.max = 1u << 16};
    bn_report_put_model_name(&name, m);
    bn_table_row(t, "");
    bn_table_text(t, bn_buf_text(&name));
    t->failed = t->failed || name.failed;
    put_parameters(t, m->parameters);
    bn_buf_release(&name);
}

/* The column of busy processes is there when some model was measured next to them. */
void bn_report_fill_models(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"model", "params", "decode", "prompt", "first token"};
    static const char *const ALL[] = {"model", "params", "decode", "next to busy", "prompt", "first token"};
    bool busy = false;
    for (size_t i = 0; i < r->n_models; i++)
        busy = busy || r->models[i].busy != NULL;
    bn_table_begin(t, busy ? ALL : HEADS, busy ? "lrrrrr" : "lrrrr");
    for (size_t i = 0; i < r->n_models && bn_report_has_models(r); i++) {
        const struct bn_report_model *m = &r->models[i];
        begin_row(t, m);
        put_rate(t, m->decode);
        if (busy) put_rate(t, m->busy);
        put_rate(t, m->prompt);
        bn_table_value(t, m->first_token_ns, "ns");
    }
}

void bn_report_fill_model_memory(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"model", "params", "file", "peak memory", "of bandwidth"};
    bn_table_begin(t, HEADS, "lrrrr");
    for (size_t i = 0; i < r->n_models && bn_report_has_models(r); i++) {
        const struct bn_report_model *m = &r->models[i];
        begin_row(t, m);
        bn_table_value(t, m->file_bytes, "bytes");
        bn_table_value(t, m->peak_bytes, "bytes");
        bn_table_percent(t, m->share, false);
    }
}

/* ---- machines ---- */

bn_status bn_report_read_machines(struct bn_report *r, bn_error *err)
{
    r->machines = bn_alloc(r->n_sources, sizeof *r->machines);
    if (r->machines == NULL) return bn_nomem(err);
    for (size_t i = 0; i < r->n_sources; i++) {
        const char *key = bn_json_text_of(r->sources[i].doc, "machine.key"), *label;
        size_t k = 0;
        while (k < r->n_machines && strcmp(r->machines[k].key, key) != 0)
            k++;
        if (key[0] == '\0' || k < r->n_machines) continue;
        label = bn_json_text_of(r->sources[i].doc, "machine.label");
        r->machines[r->n_machines++] =
            (struct bn_report_machine){key, label[0] != '\0' ? label : key, &r->sources[i]};
    }
    return BN_OK;
}

static bool is_same(const struct bn_report_series *a, const struct bn_report_series *b)
{
    return strcmp(a->s->test, b->s->test) == 0 && strcmp(a->s->metric, b->s->metric) == 0 &&
           bn_json_text_is(a->source->doc, "model.sha256", bn_json_text_of(b->source->doc, "model.sha256"));
}

const struct bn_report_series *bn_report_on_machine(const struct bn_report *r,
                                                    const struct bn_report_series *s,
                                                    const struct bn_report_machine *machine)
{
    for (size_t i = r->n_series; i > 0; i--) {
        const struct bn_report_series *other = &r->series[i - 1];
        if (bn_json_text_is(other->source->doc, "machine.key", machine->key) && is_same(s, other))
            return other;
    }
    return NULL;
}

/* Was there a row for this series already? */
static bool is_repeated(const struct bn_report *r, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (is_same(&r->series[k], &r->series[i])) return true;
    return false;
}

/* The machines with a column. */
static size_t n_columns(const struct bn_report *r)
{
    return r->n_machines < BN_REPORT_MACHINES ? r->n_machines : BN_REPORT_MACHINES;
}

void bn_report_fill_machines(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"column", "machine", "CPUs", "memory"};
    bn_table_begin(t, HEADS, "llrr");
    for (size_t i = 0; i < n_columns(r) && r->n_machines > 1; i++) {
        const bn_json *doc = r->machines[i].source->doc;
        bn_table_row(t, "");
        bn_table_printf(t, "%c", (char)('A' + i));
        bn_table_text(t, r->machines[i].label);
        bn_table_count(t, bn_json_count_of(doc, "machine.cpus_usable"));
        bn_table_value(t, bn_json_number_of(doc, "machine.memory_bytes"), "bytes");
    }
}

/* A row for each series: the medians of all machines. Different models of one name have rows of their own. */
void bn_report_fill_medians(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"test", "metric", "A", "B", "C", "D", "E", "F", "G", "H"};
    static const char ALIGN[] = "llrrrrrrrr";
    _Static_assert(BN_ARRAY_LEN(HEADS) == BN_REPORT_MACHINES + 2, "a column for each machine");
    bn_table_begin(t, HEADS, ALIGN);
    t->n_cols = t->n_shown = 2 + n_columns(r);
    t->side_by_side = true;
    for (size_t i = 0; i < r->n_series && r->n_machines > 1; i++) {
        const struct bn_report_series *s = &r->series[i];
        const char *model = bn_json_text_of(s->source->doc, "model.name");
        if (is_repeated(r, i)) continue;
        bn_table_row(t, "");
        bn_table_printf(t, "%s%s%s", bn_report_has_models(r) ? model : "",
                        bn_report_has_models(r) ? ": " : "", s->s->test);
        bn_table_text(t, s->s->metric);
        for (size_t k = 0; k < n_columns(r); k++) {
            const struct bn_report_series *there = bn_report_on_machine(r, s, &r->machines[k]);
            bn_table_value(t, there != NULL ? there->figure[BN_FIGURE_MEDIAN] : (double)NAN,
                           bn_units_of(s->s->metric, s->s->unit));
        }
    }
}
