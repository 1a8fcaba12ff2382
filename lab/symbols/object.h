/* SPDX-License-Identifier: MIT
 *
 * An object: an ELF file that was mapped, and what its symbol table, its debug information and its unwind
 * tables say about addresses in it. Addresses here are those of the file, as its symbols have them.
 *
 * Only this header includes elfutils.
 *
 * A missing, replaced or malformed file is not an error: it has no names. Only lack of memory is an error.
 */
#ifndef BN_SYMBOLS_OBJECT_H
#define BN_SYMBOLS_OBJECT_H

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <stdlib.h>

#include "base/mem.h"
#include "lab/sampler/recording.h"
/* What libdw allocated, by malloc. */
static inline void bn_dwfl_free(void *given)
{
    free(given);
}

struct bn_load {
    uint64_t offset, n_bytes, address;
    bool executable;
};

struct bn_object {
    char *path;         /* without " (deleted)" */
    const char *module; /* its last part; in path */
    bool other_build;   /* the file is not there any more, or another one */
    bool native;        /* of this architecture */
    Dwfl *dwfl;         /* NULL: there is nothing to read */
    Dwfl_Module *dwfl_module;
    struct bn_load *loads;
    size_t n_loads;
};

/* All files of a recording. Zeroed, it is empty. */
struct bn_objects {
    char *path; /* where separate debug files are looked for, in the form of libdwfl */
    Dwfl_Callbacks callbacks;
    struct bn_object **list;
    uint32_t n;
    uint32_t *of_mapping; /* + 1 for each mapping of the recording; 0: not read yet */
    size_t n_mappings;
};
/* folders: with ':' between; NULL: the usual one. The objects are not moved afterwards. */
BN_MUST_CHECK bn_status bn_objects_open(struct bn_objects *objects, const char *folders, bn_error *err);
void bn_objects_release(struct bn_objects *objects);
/* The number in the list of the file of a mapping of the recording. */
BN_MUST_CHECK bn_status bn_objects_find(struct bn_objects *objects, const bn_recording *recording,
                                        const struct bn_mapping *mapping, uint32_t *number, bn_error *err);
/* Where an address in a mapping is in the file; false when that is not known. */
bool bn_object_place(const struct bn_object *object, const struct bn_mapping *mapping, uint64_t address,
                     uint64_t *place);

/* How far a mapping lies above the addresses of the file; false when that is not known. */
bool bn_object_bias(const struct bn_object *object, const struct bn_mapping *mapping, uint64_t *bias);
/* Eight bytes of the file at an address in a mapping; false when they are not there.
 */
bool bn_object_read(const struct bn_object *object, const struct bn_mapping *mapping, uint64_t address,
                    uint64_t *word);

/* NULL when no symbol covers the address. */
const char *bn_object_symbol(const struct bn_object *object, uint64_t address);

#define BN_OBJECT_MAX_SCOPES 64u
struct bn_scope {
    const char *name; /* NULL: none */
    const char *file;
    uint32_t line;
};
/* The functions at an address by the debugging information: the one that has a place in memory first, then
 * those inlined into it. At most BN_OBJECT_MAX_SCOPES; 0 when nothing is known. */
size_t bn_object_scopes(const struct bn_object *object, uint64_t address, struct bn_scope *scopes);
/* Whether the unwinding tables say that there is no caller at an address: a thread begins there. */
bool bn_object_has_no_caller(const struct bn_object *object, uint64_t address);

/* Adds the object's file to a process that is unwound, displaced by bias against its own addresses. NULL
 * when it cannot be. */
Dwfl_Module *bn_object_report(const struct bn_object *object, Dwfl *dwfl, uint64_t bias);

/* ---- names from /proc/kallsyms, for users who may see addresses ---- */

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
