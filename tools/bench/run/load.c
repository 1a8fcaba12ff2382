/* SPDX-License-Identifier: MIT
 *
 * Opening the model for bn-bench run, and its memory. How long opening takes depends most on whether the file
 * is in the page cache, so that is measured before (mincore), not assumed. The model is opened several times
 * before the rounds, not in them: a second copy of it next to the first would double the memory that rounds
 * have.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "tools/bench/run/run.h"
#include "tools/cli/default_model.h"

/* The share of a mapping that is in the page cache, -1 when the system does not say. */
static double share_cached(int fd, size_t n_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (n_bytes + page - 1) / page, n_in = 0;
    void *map = mmap(NULL, n_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) return -1;
    unsigned char *in = bn_alloc(n, 1);
    bool known = in != NULL && mincore(map, n_bytes, in) == 0;
    for (size_t i = 0; known && i < n; i++)
        n_in += in[i] & 1u;
    bn_free(in);
    munmap(map, n_bytes);
    return known ? (double)n_in / (double)n : -1;
}

/* With --cold asks the system to forget the file; then looks what it holds of it. Opening the model reports
 * what is wrong with the file. */
static double look_at_cache(const char *path, bool cold)
{
    struct stat st;
    double share = -1;
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return share;
    if (cold) (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (fstat(fd, &st) == 0 && st.st_size > 0) share = share_cached(fd, (size_t)st.st_size);
    close(fd);
    return share;
}

bn_status bn_bench_open_model(struct bn_bench_plan *plan, bn_error *err)
{
    static const bn_model_options options = {.repack = BN_REPACK_AUTO};
    const char *path = bn_opt_str(plan->args, "model");
    if (plan->cold && path == NULL)
        return bn_fail(err, BN_ERR_ARG,
                       "--cold needs a file (--model): the built-in model is part of the program");
    plan->loads = bn_alloc(plan->n_loads, sizeof *plan->loads);
    if (plan->loads == NULL) return bn_nomem(err);
    for (uint32_t i = 0; i < plan->n_loads; i++) {
        bn_model_close(plan->model);
        plan->model = NULL;
        plan->loads[i].cached = look_at_cache(path, plan->cold);
        uint64_t start = bn_clock_ns();
        BN_TRY(bn_cli_open_model(&plan->model, plan->args, &options, err));
        plan->loads[i].ns = bn_clock_ns() - start;
    }
    return BN_OK;
}

static void note_peak(struct bn_bench_plan *plan)
{
    uint64_t peak = bn_machine_peak_rss_bytes();
    if (peak > plan->peak_rss) plan->peak_rss = peak;
}

void bn_bench_memory_begin(struct bn_bench_plan *plan)
{
    note_peak(plan);
    plan->peak_resets = bn_machine_reset_peak_rss() && (plan->n_rounds == 0 || plan->peak_resets);
}

bn_status bn_bench_memory_end(struct bn_bench_plan *plan, bn_error *err)
{
    note_peak(plan);
    if (!plan->peak_resets) return BN_OK;
    double *peaks = bn_realloc(plan->round_peak, plan->n_round_peak + 1, sizeof *peaks);
    if (peaks == NULL) return bn_nomem(err);
    peaks[plan->n_round_peak++] = (double)bn_machine_peak_rss_bytes();
    plan->round_peak = peaks;
    return BN_OK;
}
