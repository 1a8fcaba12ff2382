/* SPDX-License-Identifier: MIT
 *
 * A profile as JSON, with every event, so that a reader can compute all sums again; and rules that the document
 * of a measured profile meets.
 */
#ifndef BN_PROFILE_DOCUMENT_H
#define BN_PROFILE_DOCUMENT_H

#include "base/json.h"
#include "model/hparams.h"
#include "stamp/profiler.h"

#define BN_PROF_SCHEMA "bn.profile/1"
#define BN_PROF_DOCUMENT_EVENTS 50000u /* most events in a document; it then fits what JSON is read up to */

/* Puts the member "profile" (docs/explain/profiling.md) of a finalized profile of a network. Its "summary" is made from the
 * events and from nothing else. Events that are too many, or were given in nanoseconds, are unavailable. */
BN_MUST_CHECK bn_status bn_prof_put(bn_json *document, const bn_prof *prof, const bn_hparams *hp,
                                    bn_error *err);
/* Puts the member "summary" alone. */
BN_MUST_CHECK bn_status bn_prof_put_summary(bn_json *profile, const bn_prof *prof, bn_error *err);
/* Adds what all documents say of a brick, and returns it; sum_ns: of all bricks. And of a kernel. */
bn_json *bn_prof_put_brick(bn_json *bricks, const char *name, enum bn_brick_category category,
                           const struct bn_brick_stats *stats, uint64_t sum_ns);
void bn_prof_put_kernel(bn_json *kernels, const char *name, const struct bn_prof_kernel_stats *stats);

/* Reads a document back: the clock, passes and events that it holds, finalized, as if just measured. Its
 * "summary" is ignored. n_layers may be NULL. BN_ERR_FORMAT when it is malformed or holds no events. *out is closed by
 * bn_prof_close, before the document. */
BN_MUST_CHECK bn_status bn_prof_read(bn_prof **out, uint64_t *n_layers, const bn_json *document,
                                     bn_error *err);

/* What an event costs in a loop, in nanoseconds: two readings of the clock, and the write. The least of some batches
 * is free of what the machine does besides. */
BN_MUST_CHECK bn_status bn_prof_event_cost(double *least, double *median, enum bn_prof_level level,
                                           bn_error *err);

/* ---- the rules (audit.c) ----
 *
 * They detect documents that were derived, edited or copied; they cannot detect a careful forgery of every
 * stamp. */

#define BN_PROF_RULES 9u

struct bn_prof_finding {
    const char *rule; /* "complete", "stamps", ... */
    const char *what; /* that it demands, half a line */
    bool ok;
    bn_error why; /* its msg says what is wrong */
};

struct bn_prof_audit {
    struct bn_prof_finding list[BN_PROF_RULES];
    size_t n_failed;
    double shares[BN_BRICK_MAX]; /* of each brick in the sum of all */
    double rounding;             /* what the clock's ticks can change in a share */
};

/* Judges a document by all rules. BN_ERR_FORMAT when it cannot be read at all; rules that fail are not errors. */
BN_MUST_CHECK bn_status bn_prof_audit(struct bn_prof_audit *out, const bn_json *document, bn_error *err);
/* Two measurements never divide their time alike to six digits. If they do, one is a copy of the other,
 * possibly scaled. BN_ERR_MISMATCH. */
BN_MUST_CHECK bn_status bn_prof_check_copies(const struct bn_prof_audit *a, const struct bn_prof_audit *b,
                                             bn_error *err);

#endif
