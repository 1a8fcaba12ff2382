/* SPDX-License-Identifier: MIT
 *
 * Visits all ledgers of a folder.
 */
#define _DEFAULT_SOURCE /* scandir, alphasort */
#include "tools/bench/history/ledgers.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"

const struct bn_option bn_bench_ledger_options[] = {
    BN_OPTION("ledger", "folder of the ledgers: DIR/<machine>/<suite>.json", .rare = true, .arg = "DIR",
              .env = "BN_LEDGER", .preset = "baselines", BN_TO_TEXT(struct bn_bench_options, ledger)),
    {0},
};

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

struct walk {
    const char *folder, *machine, *suite;
    bn_bench_visit visit;
    void *arg;
    bn_error *err;
};

static bn_status visit_file(const struct walk *w, const char *machine, const char *file)
{
    char suite[256];
    size_t n = strlen(file);
    if (n < 6 || n >= sizeof suite || strcmp(file + n - 5, ".json") != 0) return BN_OK;
    snprintf(suite, sizeof suite, "%.*s", (int)(n - 5), file);
    if (w->suite != NULL && strcmp(w->suite, suite) != 0) return BN_OK;
    struct bn_ledger ledger;
    BN_TRY(bn_ledger_open(&ledger, w->folder, machine, suite, false, w->err));
    bn_status status = w->visit(w->arg, &ledger, w->err);
    bn_ledger_close(&ledger);
    return status;
}

static bn_status visit_machine(const struct walk *w, const char *machine)
{
    char path[4096];
    struct dirent **list = NULL;
    bn_status status = BN_OK;
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", w->folder, machine);
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) return BN_OK;
    int n = scandir(path, &list, visible, alphasort);
    if (n < 0) return bn_fail_errno(w->err, errno, path, "cannot list");
    for (int i = 0; i < n; i++) {
        if (status == BN_OK) status = visit_file(w, machine, list[i]->d_name);
        free(list[i]);
    }
    free(list);
    return status;
}

bn_status bn_bench_each_ledger(const char *folder, const char *machine, const char *suite,
                               bn_bench_visit visit, void *arg, bn_error *err)
{
    const struct walk w = {folder, machine, suite, visit, arg, err};
    struct dirent **list = NULL;
    bn_status status = BN_OK;
    int n = scandir(folder, &list, visible, alphasort);
    if (n < 0) return errno == ENOENT ? BN_OK : bn_fail_errno(err, errno, folder, "cannot list");
    for (int i = 0; i < n; i++) {
        if (status == BN_OK && (machine == NULL || strcmp(machine, list[i]->d_name) == 0))
            status = visit_machine(&w, list[i]->d_name);
        free(list[i]);
    }
    free(list);
    return status;
}
