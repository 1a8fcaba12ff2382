/* SPDX-License-Identifier: MIT
 *
 * bn_machine_identify: the key and the label of a machine.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "lab/host/machine.h"

/* Words of a processor's name that do not identify it: trade marks, "processor", the number of cores. */
static bool is_noise(const char *word)
{
    static const char *const NOISE[] = {"r", "tm", "c", "cpu", "processor", "core", "with", "genuine"};
    for (size_t i = 0; i < BN_ARRAY_LEN(NOISE); i++)
        if (strcmp(word, NOISE[i]) == 0) return true;
    size_t digits = strspn(word, "0123456789");
    return digits > 0 && strcmp(word + digits, "-core") == 0;
}

/* "AMD EPYC 9B45 128-Core Processor" gives "amd-epyc-9b45"; what follows "@" is a clock rate. */
static void put_slug(char *out, size_t room, const char *model)
{
    size_t len = 0;
    out[0] = '\0';
    for (const char *at = model; *at != '\0' && *at != '@';) {
        char word[32];
        size_t n = 0;
        for (; isalnum((unsigned char)*at) || (*at == '-' && n > 0); at++)
            if (n < sizeof word - 1) word[n++] = (char)tolower((unsigned char)*at);
        word[n] = '\0';
        if (n == 0) at++;
        if (n == 0 || is_noise(word) || len + n + 2 > room) continue;
        len += (size_t)snprintf(out + len, room - len, "%s%s", len > 0 ? "-" : "", word);
    }
}

static void put_identity(bn_json *o, const struct bn_machine *m)
{
    bn_json_put_string(o, "arch", m->arch);
    bn_json_put_string(o, "cpu_model", m->cpu_model);
    bn_json_put_texts(o, "cpu_flags", m->flags, m->n_flags);
    bn_json_put_u64(o, "cpus_online", m->cpus_online);
    bn_json_put_u64(o, "cores", m->cores);
    /* The kernel reserves a varying part of it. */
    bn_json_put_u64(o, "memory_gib", (m->memory_bytes + (1u << 29)) >> 30);
    if (m->hypervisor_known)
        bn_json_put_bool(o, "hypervisor", m->hypervisor);
    else
        bn_json_put_null(o, "hypervisor");
}

bn_status bn_machine_identify(struct bn_machine_id *id, const struct bn_machine *machine, bn_error *err)
{
    char slug[40];
    bn_json *o = bn_json_new_object();
    put_identity(o, machine);
    bn_status status = bn_json_digest(o, id->key, err);
    bn_json_free(o);
    BN_TRY(status);
    put_slug(slug, sizeof slug, machine->cpu_model[0] != '\0' ? machine->cpu_model : machine->arch);
    snprintf(id->label, sizeof id->label, "%s%s%ucpu-%.8s", slug, slug[0] != '\0' ? "-" : "",
             machine->cpus_online, id->key);
    return BN_OK;
}
