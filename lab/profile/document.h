/* SPDX-License-Identifier: MIT
 *
 * A profile as JSON, with every event, so that a reader can compute all sums again.
 */
#ifndef BN_PROFILE_DOCUMENT_H
#define BN_PROFILE_DOCUMENT_H

#include "base/json.h"
#include "stamp/profiler.h"

#define BN_PROF_SCHEMA "bn.profile/1"
#define BN_PROF_DOCUMENT_EVENTS 50000u /* most events in a document; it then fits what JSON is read up to */

/* Puts the member "profile" (docs/explain/profiling.md) of a finalized profile of this network. Its "summary"
 * is made from the events and from nothing else. Events that are too many, or were given in nanoseconds, are
 * unavailable. */
BN_MUST_CHECK bn_status bn_prof_put(bn_json *document, const bn_prof *prof, const bn_hparams *network,
                                    bn_error *err);
/* Puts the member "summary" alone. */
BN_MUST_CHECK bn_status bn_prof_put_summary(bn_json *profile, const bn_prof *prof, bn_error *err);

/* The network of a document. */
struct bn_prof_network {
    uint32_t n_layers;
    bool sub_norms, head_norms, input_norms, post_norms; /* as in bn_hparams */
    bool has_experts;
    bool has_recurrent;
    uint64_t recurrent[8]; /* as in struct bn_recurrence */
};

/* Reads a document back: the clock, passes and events that it holds, finalized, as if just measured. Its
 * "summary" is ignored. BN_ERR_FORMAT when it is malformed or holds no events. *out is closed by
 * bn_prof_close, before the document. */
BN_MUST_CHECK bn_status bn_prof_read(bn_prof **out, struct bn_prof_network *network, const bn_json *document,
                                     bn_error *err);

/* What an event costs in a loop, in nanoseconds: two readings of the clock, and the write. The least of some batches
 * is free of what the machine does besides. */
BN_MUST_CHECK bn_status bn_prof_event_cost(double *least, double *median, enum bn_prof_level level,
                                           bn_error *err);

#endif
