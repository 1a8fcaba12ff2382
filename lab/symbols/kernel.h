/* SPDX-License-Identifier: MIT
 *
 * Names of kernel functions from /proc/kallsyms, for users who may see addresses.
 */
#ifndef BN_SYMBOLS_KERNEL_H
#define BN_SYMBOLS_KERNEL_H

#include "base/buf.h"

struct bn_kernel_symbol {
    uint64_t start;
    const char *name;
    const char *module; /* "" for the kernel itself */
};

/* Zeroed, it has not been read. */
struct bn_kernel_names {
    bool read;
    struct bn_buf text; /* what names point into */
    struct bn_kernel_symbol *symbols;
    size_t n;
};

/* The function at an address, NULL when it is not known. path is read at the first call: "/proc/kallsyms" for
 * NULL. One that cannot be read, or that hides its addresses, has no names. */
BN_MUST_CHECK bn_status bn_kernel_symbol(struct bn_kernel_names *kernel, const char *path, uint64_t address,
                                         const struct bn_kernel_symbol **found, bn_error *err);
void bn_kernel_release(struct bn_kernel_names *kernel);

#endif
