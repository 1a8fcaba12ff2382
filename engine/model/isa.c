/* SPDX-License-Identifier: MIT
 *
 * Which kernel table this process uses. The choice is made once, by the program's --isa, by the environment
 * variable BN_ISA, or by what the CPU can do. It is state of the process, as bn.h says; models keep theirs.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "model/model.h"

static _Atomic(const struct bn_kernels *) chosen;

static void list_available(char *out, size_t room)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; bn_isa_available(i) != NULL && used + 24 < room; i++) {
        const char *name = bn_isa_available(i);
        if (i > 0) memcpy(out + used, ", ", 3), used += 2;
        size_t n = bn_min_size(strlen(name), 20);
        memcpy(out + used, name, n);
        used += n;
        out[used] = '\0';
    }
}

bn_status bn_isa_select(const char *name, bn_error *err)
{
    const struct bn_kernels *kernels = bn_kernels_find(name);
    if (kernels != NULL && bn_kernels_supported(kernels)) {
        atomic_store(&chosen, kernels);
        return BN_OK;
    }
    bn_status status = kernels != NULL || bn_kernels_is_set(name) ? BN_ERR_UNSUPPORTED : BN_ERR_ARG;
    if (status == BN_ERR_ARG)
        bn_fail(err, status, "unknown instruction set '%.40s'", name);
    else
        bn_fail(err, status, "%s %s",
                kernels != NULL ? bn_kernels_lacks(kernels) : "this build does not have the instruction set",
                name);
    char have[128];
    list_available(have, sizeof have);
    bn_error_hint(err, "available here: auto, %s", have);
    return status;
}

bn_status bn_isa_kernels(const struct bn_kernels **out, bn_error *err)
{
    *out = atomic_load(&chosen);
    if (*out != NULL) return BN_OK;
    const char *wanted = getenv("BN_ISA");
    BN_TRY(bn_isa_select(wanted != NULL && wanted[0] != '\0' ? wanted : "auto", err));
    *out = atomic_load(&chosen);
    return BN_OK;
}

const char *bn_isa_name(void)
{
    const struct bn_kernels *kernels;
    return bn_isa_kernels(&kernels, NULL) == BN_OK ? kernels->isa : "none";
}

const char *bn_isa_available(size_t i)
{
    for (size_t k = 0; bn_kernels_built(k) != NULL; k++)
        if (bn_kernels_supported(bn_kernels_built(k)) && i-- == 0) return bn_kernels_built(k)->isa;
    return NULL;
}
