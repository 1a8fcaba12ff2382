/* SPDX-License-Identifier: MIT
 *
 * What a recording is of: its model, work, program, settings and machine. Two recordings with the same fingerprint
 * differ only by chance.
 */
#ifndef BN_STACKS_FINGERPRINT_H
#define BN_STACKS_FINGERPRINT_H

#include "base/json.h"

/* Puts the digest as "fingerprint" into about. */
BN_MUST_CHECK bn_status bn_fingerprint_put(bn_json *about, bn_error *err);
/* Adds the names of all facts that both know and in which they differ to an array of texts. program: also those
 * of the program, whose change a comparison shows. */
void bn_fingerprint_differences(bn_json *names, const bn_json *before, const bn_json *after, bool program);

#endif
