/* SPDX-License-Identifier: MIT
 *
 * Finds the ledgers of a folder.
 */
#define _POSIX_C_SOURCE 200809L /* glob */
#include "tools/bench/history/history.h"

#include <errno.h>
#include <glob.h>
#include <string.h>

const struct bn_option bn_bench_ledger_options[] = {
    BN_OPTION("ledger", "folder of the ledgers: DIR/<machine>/<suite>.json", .rare = true, .arg = "DIR",
              .env = "BN_LEDGER", .preset = "baselines", BN_TO_TEXT(struct bn_bench_options, ledger)),
    {0},
};

static int is_error(const char *path, int sys_errno)
{
    (void)path;
    return sys_errno != ENOENT && sys_errno != ENOTDIR;
}

/* path: folder/machine/suite.json; it is cut into these. */
static bn_status add(struct bn_ledgers *all, const char *folder, char *path, bn_error *err)
{
    char *suite = strrchr(path, '/');
    BN_TRY(bn_array_grow(&all->list, &all->room, all->n + 1, sizeof *all->list, err));
    *suite++ = '\0';
    suite[strlen(suite) - strlen(".json")] = '\0';
    BN_TRY(bn_ledger_open(&all->list[all->n], folder, strrchr(path, '/') + 1, suite, false, err));
    all->n++;
    return BN_OK;
}

bn_status bn_ledgers_open(struct bn_ledgers *all, const char *folder, const char *machine, const char *suite,
                          bn_error *err)
{
    struct bn_buf pattern = {.max = 1u << 16};
    glob_t found;
    for (const char *c = folder; *c != '\0'; c++)
        bn_buf_printf(&pattern, "%s%c", strchr("*?[\\", *c) != NULL ? "\\" : "", *c);
    bn_buf_printf(&pattern, "/%s/%s.json", machine != NULL ? machine : "*", suite != NULL ? suite : "*");
    bn_status status = bn_buf_check(&pattern, err);
    int failed = status == BN_OK ? glob(pattern.data, 0, is_error, &found) : GLOB_NOMATCH;
    bn_buf_release(&pattern);
    if (failed == GLOB_ABORTED) return bn_fail_in(err, BN_ERR_IO, folder, "cannot list");
    if (failed != 0) return failed == GLOB_NOMATCH ? status : bn_nomem(err);
    for (size_t i = 0; i < found.gl_pathc && status == BN_OK; i++)
        status = add(all, folder, found.gl_pathv[i], err);
    globfree(&found);
    return status;
}

void bn_ledgers_close(struct bn_ledgers *all)
{
    for (size_t i = 0; i < all->n; i++)
        bn_ledger_close(&all->list[i]);
    bn_free(all->list);
    *all = (struct bn_ledgers){0};
}
