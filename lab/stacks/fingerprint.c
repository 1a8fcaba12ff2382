/* SPDX-License-Identifier: MIT
 *
 * The facts of a recording ("about", docs/reference/bench.md) that another recording of the same thing has too, in
 * one table. The fingerprint is the digest of all of them as canonical JSON, in the order of the table.
 */
#include <string.h>

#include "base/digest.h"
#include "lab/stacks/stacks.h"

#define MAX_FACT (1u << 24) /* a prompt may be long */

static const struct known {
    const char *what, *path;
    bool program;
} KNOWN[] = {
    {"machine", "machine.key", false},
    {"model", "model.sha256", false},
    {"instruction set", "workload.isa", false},
    {"number of threads", "workload.threads", false},
    {"prompt", "workload.prompt", false},
    {"number of tokens", "workload.n_predict", false},
    {"token ids", "workload.ids_sha256", false},
    {"command", "command", true},
    {"sampler", "sampler.tier", false},
    {"kind of samples", "sampler.kind", false},
    {"sampling period", "sampler.asked_period_ns", false},
    {"stack copied with each sample", "sampler.dump_bytes", false},
    {"use of kernel frames", "sampler.system", false},
    {"level of the profiler", "workload.level", false},
    {"program", "program.binary_sha256", true},
};

/* Canonical text of a fact; nothing when it is not known. */
static bn_status put_fact(struct bn_buf *out, const bn_json *about, const struct known *k, bn_error *err)
{
    const bn_json *value = bn_json_path(about, k->path);
    if (value == NULL || bn_json_kind(value) == BN_JSON_NULL) return BN_OK;
    return bn_json_write(value, true, out, err);
}

bn_status bn_fingerprint_put(bn_json *about, bn_error *err)
{
    struct bn_buf text = {.max = BN_ARRAY_LEN(KNOWN) * MAX_FACT};
    char hex[BN_SHA256_HEX];
    bn_status status = BN_OK;
    for (size_t i = 0; i < BN_ARRAY_LEN(KNOWN) && status == BN_OK; i++) {
        bn_buf_printf(&text, "%s=", KNOWN[i].what);
        status = put_fact(&text, about, &KNOWN[i], err);
        bn_buf_putc(&text, '\n');
    }
    if (status == BN_OK) status = bn_buf_check(&text, err);
    if (status == BN_OK) bn_sha256_hex(text.data, text.len, hex);
    bn_buf_release(&text);
    if (status == BN_OK) bn_json_put_string(about, "fingerprint", hex);
    return status;
}

void bn_fingerprint_differences(bn_json *names, const bn_json *before, const bn_json *after, bool program)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(KNOWN); i++) {
        struct bn_buf a = {.max = MAX_FACT}, b = {.max = MAX_FACT};
        bool known = (program || !KNOWN[i].program) && put_fact(&a, before, &KNOWN[i], NULL) == BN_OK &&
                     put_fact(&b, after, &KNOWN[i], NULL) == BN_OK && a.len > 0 && b.len > 0;
        if (known && (a.len != b.len || memcmp(a.data, b.data, a.len) != 0))
            bn_json_add_string(names, KNOWN[i].what);
        bn_buf_release(&a);
        bn_buf_release(&b);
    }
}
