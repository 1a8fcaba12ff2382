/* SPDX-License-Identifier: MIT
 *
 * Carries out the plan of a conversion: finds the scales that need all rows of a tensor, then writes the file.
 * Rows of a tensor are packed by several threads, a few MiB at a time; the bytes do not depend on their
 * number. The file appears under its name when it is complete. Its record, OUT.gguf.json, has the program, the inputs
 * with their digests, options, tensors, and the digest of the result; the same inputs, options and program give
 * the same record.
 */
#ifndef BN_CONVERT_WRITE_H
#define BN_CONVERT_WRITE_H

#include "tools/convert/plan.h"

struct bn_cv_result {
    char sha256[BN_SHA256_HEX];
    uint64_t n_bytes;
    double worst; /* largest relative change of a scale, 0 when all are exact */
};

/* Called now and then with the tensors that are complete; false cancels: BN_ERR_CANCELLED. */
typedef bool (*bn_cv_progress)(void *user, size_t n_done);

/* Is every weight of a float tensor -s, 0 or +s, with an s for each 64? Stops at the first that is not. */
BN_MUST_CHECK bn_status bn_cv_is_ternary(const struct bn_cv_tensor *t, bool *ternary, bn_error *err);
/* The digest of every input. */
BN_MUST_CHECK bn_status bn_cv_digest_inputs(struct bn_cv_plan *plan, bn_cv_progress progress, void *user,
                                            bn_error *err);
/* Writes the file that plan->options->output names. old_record is removed right before the file gets its name:
 * a record is never next to a file of another conversion. */
BN_MUST_CHECK bn_status bn_cv_write(struct bn_cv_plan *plan, const char *old_record,
                                    struct bn_cv_result *result, bn_cv_progress progress, void *user,
                                    bn_error *err);

/* record.c: the document, to be freed. result is NULL when nothing was written. */
bn_json *bn_cv_record(const struct bn_cv_plan *plan, const struct bn_cv_result *result);
/* FILE.json next to an output. */
BN_MUST_CHECK bn_status bn_cv_record_path(char *out, size_t room, const char *output, bn_error *err);
/* Compares a file with its record. BN_ERR_INTEGRITY when they differ. *record is to be freed; NULL on failure. */
BN_MUST_CHECK bn_status bn_cv_check(bn_json **record, const char *path, bn_error *err);

#endif
