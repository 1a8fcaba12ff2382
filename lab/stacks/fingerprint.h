/* SPDX-License-Identifier: MIT
 *
 * What a recording is of, in five digests: the model, the work that it did, the program that ran, the
 * settings of both program and sampler, and the machine. Two recordings with the same fingerprint differ only
 * by chance. It is computed from the facts of the recording ("about", docs/reference/stacks.md), so documents
 * that were written without one have it too.
 */
#ifndef BN_STACKS_FINGERPRINT_H
#define BN_STACKS_FINGERPRINT_H

#include "base/digest.h"
#include "base/json.h"

enum bn_fingerprint_part {
    BN_FINGERPRINT_MODEL,
    BN_FINGERPRINT_WORK,    /* prompt and tokens */
    BN_FINGERPRINT_PROGRAM, /* digest of bn-flamegraph, which runs models; the command of another program */
    BN_FINGERPRINT_SETTINGS,
    BN_FINGERPRINT_MACHINE,
    BN_FINGERPRINT_PARTS
};
#define BN_FINGERPRINT_BIT(part) (1u << (part))
#define BN_FINGERPRINT_ALL (BN_FINGERPRINT_BIT(BN_FINGERPRINT_PARTS) - 1)
/* What a comparison needs to be the same: all except the program, whose change it shows. */
#define BN_FINGERPRINT_COMPARED (BN_FINGERPRINT_ALL & ~BN_FINGERPRINT_BIT(BN_FINGERPRINT_PROGRAM))

const char *bn_fingerprint_part_name(enum bn_fingerprint_part part); /* "model", "work", ... */

struct bn_fingerprint {
    char whole[BN_SHA256_HEX];                       /* of all parts */
    char parts[BN_FINGERPRINT_PARTS][BN_SHA256_HEX]; /* "": no fact of it is known */
};
BN_MUST_CHECK bn_status bn_fingerprint_of(struct bn_fingerprint *out, const bn_json *about, bn_error *err);
/* Puts it as "fingerprint" into about. */
BN_MUST_CHECK bn_status bn_fingerprint_put(bn_json *about, bn_error *err);

/* The first fact of these parts in which two recordings differ: "another machine", "one of them lacks its
 * sampler"; "" when there is none. Returns out. */
const char *bn_fingerprint_unlike(char *out, size_t room, const bn_json *before, const bn_json *after,
                                  unsigned parts);
/* Puts the names of all facts that both know and in which they differ into an array of texts. */
void bn_fingerprint_differences(bn_json *names, const bn_json *before, const bn_json *after, unsigned parts);

/* The member at the first of these paths that has a value; NULL for none. The list ends with NULL. */
const bn_json *bn_about_member(const bn_json *about, const char *const *paths);

#endif
