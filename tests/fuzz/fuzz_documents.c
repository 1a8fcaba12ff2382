/* SPDX-License-Identifier: MIT
 *
 * Any bytes as each of the documents that programs read: registry, lock file, reference of the hub, ledger,
 * measurement, comparison, levels, thresholds, profile. Whoever reads them ends with a status and a message,
 * and what a reader accepted can be used and released.
 */
#include "tests/fuzz/fuzz.h"

#include <sys/stat.h>

#include "hub/cache/cache.h"
#include "hub/files/document.h"
#include "hub/names/names.h"
#include "lab/compare/metrics.h"
#include "lab/history/ledger.h"
#include "lab/history/result.h"
#include "lab/profile/document.h"
#include "lab/stats/comparison.h"
#include "stamp/profiler.h"

static void read_reference(const char *text)
{
    struct bn_hub_reference ref;
    (void)bn_hub_is_reference(text);
    (void)bn_hub_safe_path(text);
    (void)bn_hub_is_commit(text);
    (void)succeeds(bn_hub_reference_parse(&ref, text, &err));
}

static void read_registry(const char *text, size_t n)
{
    struct bn_hub_registry *registry = NULL;
    if (!succeeds(bn_hub_registry_parse(&registry, text, n, &err))) return;
    for (size_t i = 0; bn_hub_registry_at(registry, i) != NULL; i++) {
        const struct bn_hub_model *model = bn_hub_registry_at(registry, i);
        const struct bn_hub_file *file;
        hold(bn_hub_registry_look_up(NULL, &file, registry, model->name, "", NULL) == BN_OK);
    }
    bn_hub_registry_close(registry);
}

static void read_lockfile(const char *path)
{
    struct bn_hub_lockfile lock;
    if (succeeds(bn_hub_lockfile_read(&lock, path, &err))) {
        cJSON *again = bn_hub_lockfile_new();
        for (size_t i = 0; i < lock.n; i++)
            hold(bn_hub_lockfile_add(again, &lock.list[i], NULL) == BN_OK);
        cJSON_Delete(again);
    }
    bn_hub_lockfile_release(&lock);
}

static void read_limits(const char *text, size_t n)
{
    static struct bn_levels levels;
    static struct bn_thresholds thresholds;
    if (succeeds(bn_levels_parse(&levels, text, n, &err)))
        (void)bn_levels_severity(&levels, "decode", "ns_per_token", false, 100.0, 105.0);
    if (succeeds(bn_thresholds_parse(&thresholds, text, n, "oracle", &err)))
        bn_thresholds_deepen(&thresholds, 30);
}

static void read_comparisons(const bn_json *document)
{
    struct bn_comparison one;
    struct bn_buf text = {.max = 1u << 20};
    const bn_json *e = bn_json_first(bn_json_get(document, "comparisons"));
    if (e != NULL && succeeds(bn_comparison_read(&one, e, &err))) bn_comparisons_print(&text, &one, 1);
    bn_buf_release(&text);
}

static void read_profile(const bn_json *document)
{
    static struct bn_prof_audit audit;
    bn_prof *prof = NULL;
    (void)succeeds(bn_prof_audit(&audit, document, &err));
    if (succeeds(bn_prof_read(&prof, NULL, document, &err))) bn_prof_close(prof);
}

static void read_measurement(const char *text, size_t n)
{
    bn_json *document = NULL;
    struct bn_result result;
    if (!succeeds(bn_json_parse(&document, text, n, &err))) return;
    read_comparisons(document);
    read_profile(document);
    (void)succeeds(bn_result_parse(&result, document, &err));
    bn_result_release(&result);
}

static void read_ledger(const char *text, size_t n)
{
    char path[128];
    struct bn_ledger ledger;
    snprintf(path, sizeof path, "%s/machine", fuzz_folder());
    hold(access(path, F_OK) == 0 || mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/machine/run.json", fuzz_folder());
    write_file(path, text, n);
    if (succeeds(bn_ledger_open(&ledger, fuzz_folder(), "machine", "run", false, &err)))
        bn_ledger_close(&ledger);
    hold(unlink(path) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bn_buf text = {.max = SIZE_MAX};
    bn_buf_append(&text, data, size);
    hold(!text.failed);
    read_reference(text.data);
    read_registry(text.data, size);
    read_lockfile(fuzz_file(data, size));
    read_limits(text.data, size);
    read_measurement(text.data, size);
    read_ledger(text.data, size);
    bn_buf_release(&text);
    return 0;
}
