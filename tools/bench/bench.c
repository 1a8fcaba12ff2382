/* SPDX-License-Identifier: MIT
 *
 * What the commands of bn-bench share: options, the common part of documents, values of documents.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/team.h"
#include "mpi/ranks.h"
#include "tools/bench/bench.h"
#include "tools/cli/provenance.h"
#include "tools/cli/ranks.h"
#include "tools/cli/text.h"

bn_status bn_bench_threads(struct bn_list *threads, bn_error *err)
{
    if (threads->n == 0) {
        BN_TRY(BN_NEW(threads->list, 2, err));
        bool ranks = bn_ranks_told() > 1;
        threads->list[threads->n++] = ranks ? bn_cli_ranks_threads(0) : 1;
        if (!ranks && bn_team_cores() > 1) threads->list[threads->n++] = bn_team_cores();
    }
    for (size_t i = 0; i < threads->n; i++) {
        unsigned n = threads->list[i];
        if (n == 0) return bn_fail(err, BN_ERR_ARG, "--threads: must be at least 1");
        struct bn_team *team = bn_team_open(n, true);
        unsigned got = team != NULL ? bn_team_size(team) : 0;
        bn_team_close(team);
        if (got != n)
            return bn_fail(err, BN_ERR_UNSUPPORTED, "asked for %u thread%s, got %u", n, bn_cli_s(n), got);
    }
    return BN_OK;
}

/* ---- documents ---- */

bn_json *bn_bench_document(const char *command, const struct bn_machine *machine)
{
    bn_json *doc = bn_json_new_object();
    BN_PUT(doc, BN_STRING("schema", "bn.bench/1"), BN_STRING("command", command),
           BN_TIME("created", bn_clock_utc()));
    bn_cli_put_provenance(doc, machine);
    return doc;
}

struct bn_others bn_bench_others(const struct bn_busy *then)
{
    char text[160];
    struct bn_busy now;
    bn_busy_read(&now);
    struct bn_others others = bn_busy_others(then, &now);
    bn_others_describe(text, sizeof text, &others);
    if (bn_others_disturb(&others)) bn_report_warning("%s; the results are unreliable", text);
    return others;
}

void bn_bench_print_machine(const struct bn_machine *m)
{
    printf("machine  %s, %u of %u CPUs, %s %s, %s\n", m->cpu_model[0] != '\0' ? m->cpu_model : m->arch,
           m->cpus_usable, m->cpus_online, m->os, m->kernel,
           !m->hypervisor_known ? "unknown whether virtual"
           : m->hypervisor      ? "virtual"
                                : "not virtual");
}

bn_status bn_bench_print_rows(struct bn_table *table, bn_error *err)
{
    if (table->n_rows == 0 && !table->failed) {
        bn_table_release(table);
        return BN_OK;
    }
    putchar('\n');
    return bn_cli_print_table(table, err);
}

/* ---- values ---- */

const char *bn_bench_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

const char *bn_bench_last_line(char out[BN_BENCH_LINE], const struct bn_buf *text)
{
    size_t from = text->len, end;
    do {
        for (end = from; end > 0 && text->data[end - 1] == '\n';)
            end--;
        for (from = end; from > 0 && text->data[from - 1] != '\n';)
            from--;
    } while (end > from && strncmp(text->data + from, "hint: ", 6) == 0);
    return bn_escape(out, BN_BENCH_LINE, end > from ? text->data + from : "", end - from);
}

void bn_bench_put_list(bn_json *object, const char *name, const struct bn_list *list)
{
    bn_json *array = bn_json_put_array(object, name);
    for (size_t i = 0; i < list->n; i++)
        bn_json_add_u64(array, list->list[i]);
}
