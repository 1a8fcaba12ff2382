/* SPDX-License-Identifier: MIT
 *
 * A document of bn-bench: its samples, and the facts that decide whether it can be compared with another one.
 */
#ifndef BN_HISTORY_RESULT_H
#define BN_HISTORY_RESULT_H

#include "base/digest.h"
#include "lab/history/series.h"

/* Texts point into the document; they are empty when it has no such member. */
struct bn_result {
    bn_json *document;
    bool points;         /* values without samples (the second format of bn_result_parse) */
    const char *suite;   /* the command that measured: "run", "kernels" */
    const char *created; /* RFC 3339 */
    const char *commit, *compiler, *flags, *binary_sha256; /* of the program that measured */
    bool dirty;               /* it was built from a tree that differs from its commit, or this is unknown */
    const char *branch;       /* that the working directory was on */
    uint64_t changed_sources; /* files there that programs are made of and that differ from the commit */
    const char *model_sha256;
    const char *machine_key, *machine_label;
    char settings_sha256[BN_SHA256_HEX]; /* of the settings that change what is measured */
    char contended[160];                 /* how busy other processes were; empty when they were not */
    char invalid[160];                   /* why the measurement is marked invalid; empty when it is not */
    struct bn_series_list series;
};

/* Takes the document over, also on failure. Besides documents of the schemas bn.bench/1, bn.profile/1 and
 * bn.crossval/1 (of bn-crossval bench) it understands lists of point values,
 * {"baselines": {PLATFORM: {IMPLEMENTATION: {METRIC: NUMBER}}}}, whose series have the test
 * "PLATFORM IMPLEMENTATION". BN_ERR_FORMAT for anything else. */
BN_MUST_CHECK bn_status bn_result_parse(struct bn_result *out, bn_json *document, bn_error *err);
/* The same from a file; "-" is standard input. */
BN_MUST_CHECK bn_status bn_result_read(struct bn_result *out, const char *path, bn_error *err);
void bn_result_release(struct bn_result *result);

/* BN_ERR_UNSUPPORTED, naming the difference, unless machine, settings and model are the same. Each is a
 * digest, empty when unknown. */
struct bn_likeness {
    const char *machine, *settings, *model;
};
struct bn_likeness bn_result_likeness(const struct bn_result *result);
BN_MUST_CHECK bn_status bn_result_like(const struct bn_likeness *a, const struct bn_likeness *b,
                                       bn_error *err);

#endif
