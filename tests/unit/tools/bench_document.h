/* SPDX-License-Identifier: MIT
 *
 * For tests of what bn-bench prints: runs it, parses its document, and checks what holds of every document.
 * Included by files that define _POSIX_C_SOURCE, for popen.
 */
#ifndef BN_TESTS_BENCH_DOCUMENT_H
#define BN_TESTS_BENCH_DOCUMENT_H

#include "base/json.h"
#include "tests/unit/status.h"

/* What bn-bench prints with these arguments, and how it ended, as pclose says it. */
static inline bn_json *bench_document(const char *arguments, int *status)
{
    char command[512], chunk[4096];
    const char *out = getenv("OUT");
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bn_json *doc = NULL;
    size_t n;
    snprintf(command, sizeof command, "env -u BN_MODEL -u BN_ISA -u BN_THREADS '%s/bn-bench' %s",
             out != NULL ? out : "build/gcc", arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    while ((n = fread(chunk, 1, sizeof chunk, pipe)) > 0)
        bn_buf_append(&text, chunk, n);
    *status = pclose(pipe);
    if (attempt(bn_json_parse(&doc, text.data, text.len, &err)) != BN_OK)
        fail_msg("%s: %s", arguments, err.msg);
    bn_buf_release(&text);
    return doc;
}

/* No number below zero, but of slopes; each null has its reason beside it. Settings that are not given are
 * null. */
static inline void check_values(const bn_json *value)
{
    const bn_json *why = bn_json_get(value, "unavailable");
    for (const bn_json *v = bn_json_first(value); v != NULL; v = bn_json_next(v)) {
        const char *name = bn_json_name(v), *reason = "";
        double x;
        if (name != NULL && strcmp(name, "ns_per_position") == 0) continue;
        if (bn_json_number(v, &x) && !(x >= 0)) fail_msg("%s is %g", name != NULL ? name : "an element", x);
        if (bn_json_kind(v) == BN_JSON_NULL &&
            (name == NULL || !bn_json_string(bn_json_get(why, name), &reason) || reason[0] == '\0'))
            fail_msg("%s is null without a reason", name != NULL ? name : "an element");
        if (name == NULL || strcmp(name, "settings") != 0) check_values(v);
    }
}

#endif
