/* SPDX-License-Identifier: MIT
 *
 * Describes program, commit, machine and model in a document; see provenance.h.
 */
#include "tools/cli/provenance.h"
#include "lab/kit/put_counts.h"

#include <string.h>

#include "base/digest.h"
#include "build_info.h"
#include "lab/host/git.h"

void bn_cli_put_file_digest(bn_json *object, const char *name, const char *path)
{
    char hex[BN_SHA256_HEX];
    bn_error err = {0};
    if (bn_sha256_file(path, hex, &err) == BN_OK)
        bn_json_put_string(object, name, hex);
    else
        bn_json_put_unavailable(object, name, err.msg);
}

static void put_program(bn_json *doc)
{
    bn_json *program = bn_json_put_object(doc, "program");
    bn_json_put_string(program, "version", bn_version());
    bn_json_put_object(program, "unavailable");
    if (strcmp(BN_BUILD_COMMIT, "unknown") != 0) {
        BN_PUT(program, BN_STRING("commit", BN_BUILD_COMMIT), BN_FLAG("dirty", BN_BUILD_DIRTY != 0));
    } else {
        bn_json_put_unavailable(program, "commit", "built outside a repository");
        bn_json_put_unavailable(program, "dirty", "built outside a repository");
    }
    BN_PUT(program, BN_STRING("compiler", BN_BUILD_COMPILER), BN_STRING("flags", BN_BUILD_FLAGS));
    bn_cli_put_file_digest(program, "binary_sha256", "/proc/self/exe");
}

static void put_git(bn_json *doc)
{
    struct bn_git git;
    bn_json *o = bn_json_put_object(doc, "git");
    bn_git_read(&git, ".");
    bn_git_put(o, &git);
    bn_json_put_object(o, "unavailable");
    const char *why = git.known ? "no commit yet" : git.why;
    if (git.known)
        bn_json_put_u64(o, "changed_sources", git.n_relevant);
    else
        bn_json_put_unavailable(o, "changed_sources", why);
    if (git.commit[0] == '\0') bn_json_put_unavailable(o, "commit", why);
    if (git.branch[0] == '\0')
        bn_json_put_unavailable(o, "branch", git.known && git.commit[0] != '\0' ? "detached head" : why);
    if (!git.known) {
        bn_json_put_unavailable(o, "dirty", why);
        bn_json_put_unavailable(o, "changed_files", why);
    }
}

/* Says of each null why it is one. */
static void explain_nulls(bn_json *machine)
{
    static const char *const NAMES[] = {
        "os",          "kernel",     "arch",       "cpu_model",      "microcode",      "cpus_online",
        "cpus_usable", "cores",      "governor",   "cache_l2_bytes", "cache_l3_bytes", "memory_bytes",
        "page_bytes",  "hypervisor", "load_milli", "cpu_quota_us",   "cpu_period_us"};
    bn_json_put_object(machine, "unavailable");
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++) {
        const bn_json *value = bn_json_get(machine, NAMES[i]);
        if (value == NULL || bn_json_kind(value) != BN_JSON_NULL) continue;
        bool quota = strncmp(NAMES[i], "cpu_quota", 9) == 0 || strncmp(NAMES[i], "cpu_period", 10) == 0;
        bn_json_put_unavailable(machine, NAMES[i],
                                quota ? "no quota is set, or none can be read" : "not in /proc or /sys");
    }
}

/* Of the model that was opened last. */
static struct {
    bool known;
    bn_device_info info;
} device;

void bn_cli_note_device(const bn_device_info *of_model)
{
    device.known = of_model != NULL;
    if (device.known) device.info = *of_model;
}

static void put_machine(bn_json *doc, const struct bn_machine *machine)
{
    struct bn_machine with;
    struct bn_machine_id id;
    bn_error err = {0};
    bn_json *o = bn_json_put_object(doc, "machine");
    if (machine != NULL)
        with = *machine;
    else
        bn_machine_read(&with);
    if (device.known) with.device = &device.info;
    bn_machine_put(o, &with);
    explain_nulls(o);
    if (bn_machine_identify(&id, &with, &err) == BN_OK) {
        BN_PUT(o, BN_STRING("key", id.key), BN_STRING("label", id.label));
    } else {
        bn_json_put_unavailable(o, "key", err.msg);
        bn_json_put_unavailable(o, "label", err.msg);
    }
}

void bn_cli_put_device(bn_json *document, const struct bn_machine *machine)
{
    if (device.known) put_machine(document, machine);
}

void bn_cli_put_provenance(bn_json *document, const struct bn_machine *machine)
{
    put_program(document);
    put_git(document);
    put_machine(document, machine);
}
