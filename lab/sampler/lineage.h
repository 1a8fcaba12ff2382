/* SPDX-License-Identifier: MIT
 *
 * Which thread and process created which. A forked process has the memory map of its parent, and a thread
 * its parent's name, and no record repeats them: the recording gets them from here.
 */
#ifndef BN_SAMPLER_LINEAGE_H
#define BN_SAMPLER_LINEAGE_H

#include "lab/sampler/recording.h"

struct bn_birth {
    uint64_t time_ns;
    uint32_t pid, tid;               /* of the new thread */
    uint32_t parent_pid, parent_tid; /* another process: it was forked */
};

/* Zeroed, it is empty. */
struct bn_lineage {
    struct bn_birth *list;
    size_t n, room;
};

BN_MUST_CHECK bn_status bn_lineage_add(struct bn_lineage *lineage, const struct bn_birth *birth,
                                       bn_error *err);
void bn_lineage_release(struct bn_lineage *lineage);
/* Gives each process and thread of the recording, which is finished and is so again, that was sampled what it
 * was born with: the mappings of that time, and a name where it has none of its own. */
BN_MUST_CHECK bn_status bn_lineage_apply(struct bn_lineage *lineage, bn_recording *recording, bn_error *err);

#endif
