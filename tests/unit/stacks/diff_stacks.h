/* SPDX-License-Identifier: MIT
 *
 * Stacks by hand for the tests of comparisons.
 */
#ifndef BN_TESTS_DIFF_STACKS_H
#define BN_TESTS_DIFF_STACKS_H

#include <math.h>

#include "base/random.h"
#include "lab/formats/document.h"
#include "lab/stacks/diff.h"
#include "lab/stats/interval.h"
#include "tests/unit/stacks/stacks_child.h"
#include "tests/unit/status.h"

static const struct bn_stacks_diff_options PLAIN = {0}, SAME_WORK = {.same_work = true};

static inline void assert_near(double got, double want, double within)
{
    if (!(fabs(got - want) <= within)) fail_msg("%.17g, not %.17g", got, want);
}

/* ---- stacks by hand ---- */

static inline void append(bn_stacks **to, const char *folded)
{
    bn_stacks *more = NULL;
    must(bn_formats_read_folded(&more, folded, strlen(folded), "test", &err));
    if (*to == NULL) {
        *to = more;
        return;
    }
    must(bn_stacks_append(*to, more, &err));
    bn_stacks_close(more);
}

static inline void compare(struct bn_stacks_diff *d, bn_stacks *before, bn_stacks *after,
                           const struct bn_stacks_diff_options *how)
{
    must(bn_stacks_diff(d, before, after, how, &err));
    bn_stacks_close(before);
    bn_stacks_close(after);
}

/* The function's value in one of the lists. */
static inline const struct bn_diff_value *of(const struct bn_stacks_diff *d, const struct bn_diff_value *list,
                                             const char *name)
{
    for (size_t i = 0; i < d->tree->n_frames; i++)
        if (strcmp(d->tree->frames[i].name, name) == 0) return &list[i];
    fail_msg("no function %s", name);
    return list; /* not reached */
}

static inline size_t count_significant(const struct bn_diff_value *list, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += list[i].significant;
    return count;
}

static inline size_t significant_paths(const struct bn_stacks_diff *d)
{
    return count_significant(d->paths, d->tree->n_nodes);
}

static inline size_t significant_functions(const struct bn_stacks_diff *d)
{
    return count_significant(d->self, d->tree->n_frames) + count_significant(d->total, d->tree->n_frames);
}

#endif
