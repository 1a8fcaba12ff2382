/* SPDX-License-Identifier: MIT
 *
 * Finds a child of a node by kind and name, in any module.
 */
#ifndef BN_TESTS_STACKS_CHILD_H
#define BN_TESTS_STACKS_CHILD_H

#include <string.h>

#include "lab/stacks/stacks.h"

static inline uint32_t bn_stacks_child(const bn_stacks *stacks, uint32_t node, enum bn_frame_kind kind,
                                       const char *name)
{
    for (uint32_t i = node + 1; i < stacks->n_nodes; i++) {
        const struct bn_frame *f = bn_stacks_frame(stacks, i);
        if (stacks->nodes[i].parent == node && f->kind == kind && strcmp(f->name, name) == 0) return i;
    }
    return BN_STACKS_NONE;
}

#endif
