/* SPDX-License-Identifier: MIT
 *
 * Computes and compares fingerprints: a table of facts, each in one part. The digest of a part is that of its
 * facts as canonical JSON, in the order of the table.
 */
#include "lab/stacks/fingerprint.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define MAX_FACT (1u << 24) /* a prompt may be long */

static const struct known {
    enum bn_fingerprint_part part;
    const char *what, *paths[3]; /* the second path is that of older documents */
} KNOWN[] = {
    {BN_FINGERPRINT_MACHINE, "machine", {"machine.key"}},
    {BN_FINGERPRINT_MODEL, "model", {"model.sha256", "workload.model.sha256"}},
    {BN_FINGERPRINT_SETTINGS, "instruction set", {"workload.isa", "isa"}},
    {BN_FINGERPRINT_SETTINGS, "number of threads", {"workload.threads", "workload.n_threads"}},
    {BN_FINGERPRINT_WORK, "prompt", {"workload.prompt"}},
    {BN_FINGERPRINT_WORK, "number of tokens", {"workload.n_predict", "workload.tokens"}},
    {BN_FINGERPRINT_WORK, "token ids", {"workload.ids_sha256"}},
    {BN_FINGERPRINT_PROGRAM, "command", {"command"}},
    {BN_FINGERPRINT_SETTINGS, "sampler", {"sampler.tier"}},
    {BN_FINGERPRINT_SETTINGS, "kind of samples", {"sampler.kind"}},
    {BN_FINGERPRINT_SETTINGS, "sampling period", {"sampler.asked_period_ns"}},
    {BN_FINGERPRINT_SETTINGS, "stack copied with each sample", {"sampler.dump_bytes"}},
    {BN_FINGERPRINT_SETTINGS, "use of kernel frames", {"sampler.system"}},
    {BN_FINGERPRINT_SETTINGS, "level of the profiler", {"workload.level"}},
    {BN_FINGERPRINT_PROGRAM, "program", {"program.binary_sha256"}},
};

const char *bn_fingerprint_part_name(enum bn_fingerprint_part part)
{
    static const char *const NAMES[BN_FINGERPRINT_PARTS] = {"model", "work", "program", "settings",
                                                            "machine"};
    return NAMES[part];
}

const bn_json *bn_about_member(const bn_json *about, const char *const *paths)
{
    for (; *paths != NULL; paths++) {
        const bn_json *found = bn_json_path(about, *paths);
        if (found != NULL && bn_json_kind(found) != BN_JSON_NULL) return found;
    }
    return NULL;
}

/* A command that is one text made the recording, as `baseline` does; one of words was recorded. */
static const bn_json *value_of(const bn_json *about, const struct known *k)
{
    const bn_json *value = bn_about_member(about, k->paths);
    bool recipe = strcmp(k->what, "command") == 0 && bn_json_kind(value) != BN_JSON_ARRAY;
    return recipe ? NULL : value;
}

static bn_status digest_part(char hex[BN_SHA256_HEX], const bn_json *about, enum bn_fingerprint_part part,
                             bn_error *err)
{
    struct bn_buf text = {.max = 4 * MAX_FACT};
    bool known = false;
    bn_status status = BN_OK;
    for (size_t i = 0; i < BN_ARRAY_LEN(KNOWN) && status == BN_OK; i++) {
        const bn_json *value = KNOWN[i].part == part ? value_of(about, &KNOWN[i]) : NULL;
        if (value == NULL) continue;
        known = true;
        bn_buf_printf(&text, "%s=", KNOWN[i].what);
        status = bn_json_write(value, true, &text, err);
        bn_buf_putc(&text, '\n');
    }
    if (status == BN_OK && known) status = bn_buf_check(&text, err);
    hex[0] = '\0';
    if (status == BN_OK && known) status = bn_sha256_hex(text.data, text.len, hex, err);
    bn_buf_release(&text);
    return status;
}

bn_status bn_fingerprint_of(struct bn_fingerprint *out, const bn_json *about, bn_error *err)
{
    char lines[BN_FINGERPRINT_PARTS * (BN_SHA256_HEX + 16)];
    size_t n = 0;
    for (unsigned p = 0; p < BN_FINGERPRINT_PARTS; p++) {
        BN_TRY(digest_part(out->parts[p], about, p, err));
        n += (size_t)snprintf(lines + n, sizeof lines - n, "%s=%s\n", bn_fingerprint_part_name(p),
                              out->parts[p]);
    }
    return bn_sha256_hex(lines, n, out->whole, err);
}

bn_status bn_fingerprint_put(bn_json *about, bn_error *err)
{
    struct bn_fingerprint fingerprint = {0};
    BN_TRY(bn_fingerprint_of(&fingerprint, about, err));
    bn_json_remove(about, "fingerprint");
    bn_json *o = bn_json_put_object(about, "fingerprint");
    bn_json_put_string(o, "sha256", fingerprint.whole);
    for (unsigned p = 0; p < BN_FINGERPRINT_PARTS; p++)
        bn_json_put_text(o, bn_fingerprint_part_name(p), fingerprint.parts[p]);
    return BN_OK;
}

/* ---- comparing ---- */

static bool same(const bn_json *x, const bn_json *y)
{
    struct bn_buf a = {.max = 2 * MAX_FACT}, b = {.max = 2 * MAX_FACT};
    bool equal = x == NULL && y == NULL;
    if (x != NULL && y != NULL && bn_json_write(x, true, &a, NULL) == BN_OK &&
        bn_json_write(y, true, &b, NULL) == BN_OK)
        equal = a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
    bn_buf_release(&a);
    bn_buf_release(&b);
    return equal;
}

const char *bn_fingerprint_unlike(char *out, size_t room, const bn_json *before, const bn_json *after,
                                  unsigned parts)
{
    out[0] = '\0';
    for (size_t i = 0; i < BN_ARRAY_LEN(KNOWN); i++) {
        const struct known *k = &KNOWN[i];
        const bn_json *x = value_of(before, k), *y = value_of(after, k);
        if ((parts & BN_FINGERPRINT_BIT(k->part)) == 0 || same(x, y)) continue;
        snprintf(out, room, x == NULL || y == NULL ? "one of them lacks its %s" : "another %s", k->what);
        break;
    }
    return out;
}

void bn_fingerprint_differences(bn_json *names, const bn_json *before, const bn_json *after, unsigned parts)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(KNOWN); i++) {
        const struct known *k = &KNOWN[i];
        const bn_json *x = value_of(before, k), *y = value_of(after, k);
        if ((parts & BN_FINGERPRINT_BIT(k->part)) != 0 && x != NULL && y != NULL && !same(x, y))
            bn_json_add_string(names, k->what);
    }
}
