/* SPDX-License-Identifier: MIT
 *
 * Rules that the document of a measured profile meets, each with a name. They detect documents that were
 * derived, edited or copied; they cannot detect a careful forgery of every stamp.
 */
#ifndef BN_PROFILE_AUDIT_H
#define BN_PROFILE_AUDIT_H

#include "lab/profile/document.h"

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

/* Judges a document by all rules. BN_ERR_FORMAT when it cannot be read at all; rules that fail are not
 * errors.
 */
BN_MUST_CHECK bn_status bn_prof_audit(struct bn_prof_audit *out, const bn_json *document, bn_error *err);

/* Two measurements never divide their time alike to six digits. If they do, one is a copy of the other,
 * possibly scaled. BN_ERR_MISMATCH. */
BN_MUST_CHECK bn_status bn_prof_check_copies(const struct bn_prof_audit *a, const struct bn_prof_audit *b,
                                             bn_error *err);

#endif
