/* SPDX-License-Identifier: MIT
 *
 * The record of a conversion, OUT.gguf.json: program, inputs with their digests, options, tensors, digest of
 * the result. The same inputs, options and program give the same record.
 */
#ifndef BN_CONVERT_RECORD_H
#define BN_CONVERT_RECORD_H

#include "tools/convert/write.h"

/* The document, to be freed. result is NULL when nothing was written. */
bn_json *bn_cv_record(const struct bn_cv_plan *plan, const struct bn_cv_result *result);
/* FILE.json next to an output. */
BN_MUST_CHECK bn_status bn_cv_record_path(char *out, size_t room, const char *output, bn_error *err);
/* Compares a file with its record. BN_ERR_INTEGRITY when they differ. *record is to be freed; NULL on failure. */
BN_MUST_CHECK bn_status bn_cv_check(bn_json **record, const char *path, bn_error *err);

#endif
