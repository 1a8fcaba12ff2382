/* SPDX-License-Identifier: MIT
 *
 * Any bytes as each of the documents that programs read: registry, lock file, reference of the hub, ledger,
 * measurement, comparison, levels, thresholds, profile. Whoever reads them ends with a status and a message,
 * and what a reader accepted can be used and released.
 */
#define _GNU_SOURCE /* memfd_create */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "hub/cache/lockfile.h"
#include "hub/names/reference.h"
#include "hub/names/registry.h"
#include "lab/compare/metrics.h"
#include "lab/history/ledger.h"
#include "lab/history/result.h"
#include "lab/profile/document.h"
#include "lab/stats/comparison.h"
#include "stamp/profiler.h"
#include "tests/fuzz/fuzz.h"

static void hold(bool ok)
{
    if (!ok) abort();
}

/* A failure has a reason. */
static bool read_well(bn_status status, const bn_error *err)
{
    hold(status == BN_OK || (err->code == status && err->msg[0] != '\0'));
    return status == BN_OK;
}

static void read_reference(const char *text)
{
    struct bn_hub_reference ref;
    bn_error err = {0};
    (void)bn_hub_is_reference(text);
    (void)bn_hub_safe_path(text);
    (void)bn_hub_is_commit(text);
    (void)read_well(bn_hub_reference_parse(&ref, text, &err), &err);
}

static void read_registry(const char *text, size_t n)
{
    struct bn_hub_registry *registry = NULL;
    bn_error err = {0};
    if (!read_well(bn_hub_registry_parse(&registry, text, n, &err), &err)) return;
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
    struct bn_buf text = {.max = 1u << 26};
    bn_error err = {0};
    if (read_well(bn_hub_lockfile_read(&lock, path, &err), &err))
        hold(bn_hub_lockfile_write(&text, lock.list, lock.n, NULL) == BN_OK);
    bn_buf_release(&text);
    bn_hub_lockfile_release(&lock);
}

static void read_limits(const char *text, size_t n)
{
    static struct bn_levels levels;
    static struct bn_thresholds thresholds;
    bn_error err = {0};
    if (read_well(bn_levels_parse(&levels, text, n, &err), &err))
        (void)bn_levels_severity(&levels, "decode", "ns_per_token", false, 100.0, 105.0);
    err = (bn_error){0};
    if (read_well(bn_thresholds_parse(&thresholds, text, n, "oracle", &err), &err))
        bn_thresholds_deepen(&thresholds, 30);
}

static void read_comparisons(const bn_json *document)
{
    struct bn_comparison one;
    struct bn_buf text = {.max = 1u << 20};
    bn_error err = {0};
    const bn_json *e = bn_json_first(bn_json_get(document, "comparisons"));
    if (e != NULL && read_well(bn_comparison_read(&one, e, &err), &err)) bn_comparisons_print(&text, &one, 1);
    bn_buf_release(&text);
}

static void read_profile(const bn_json *document)
{
    static struct bn_prof_audit audit;
    struct bn_prof_network network;
    bn_prof *prof = NULL;
    bn_error err = {0};
    (void)read_well(bn_prof_audit(&audit, document, &err), &err);
    err = (bn_error){0};
    if (read_well(bn_prof_read(&prof, &network, document, &err), &err)) bn_prof_close(prof);
}

static void read_measurement(const char *text, size_t n)
{
    bn_json *document = NULL;
    struct bn_result result;
    bn_error err = {0};
    if (!read_well(bn_json_parse(&document, text, n, &err), &err)) return;
    read_comparisons(document);
    read_profile(document);
    (void)read_well(bn_result_parse(&result, document, &err), &err);
    bn_result_release(&result);
}

static void read_ledger(const char *text, size_t n)
{
    static char folder[64];
    char path[128];
    struct bn_ledger ledger;
    bn_error err = {0};
    if (folder[0] == '\0') {
        snprintf(folder, sizeof folder, "/tmp/bn-fuzz-XXXXXX");
        hold(mkdtemp(folder) != NULL);
    }
    snprintf(path, sizeof path, "%s/machine", folder);
    hold(access(path, F_OK) == 0 || mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/machine/run.json", folder);
    FILE *file = fopen(path, "w");
    hold(file != NULL && fwrite(text, 1, n, file) == n && fclose(file) == 0);
    if (read_well(bn_ledger_open(&ledger, folder, "machine", "run", false, &err), &err))
        bn_ledger_close(&ledger);
    hold(unlink(path) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[40];
    struct bn_buf text = {.max = SIZE_MAX};
    bn_buf_append(&text, data, size);
    hold(!text.failed);
    int fd = memfd_create("input", MFD_CLOEXEC);
    hold(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    read_reference(text.data);
    read_registry(text.data, size);
    read_lockfile(path);
    read_limits(text.data, size);
    read_measurement(text.data, size);
    read_ledger(text.data, size);
    close(fd);
    bn_buf_release(&text);
    return 0;
}
