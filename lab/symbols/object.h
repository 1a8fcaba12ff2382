/* SPDX-License-Identifier: MIT
 *
 * An object: an ELF file that was mapped, and what its symbol table, its debug information and its unwind
 * tables say about addresses in it. Addresses here are those of the file, as its symbols have them.
 *
 * A missing, replaced or malformed file is not an error: it has no names. Only lack of memory is an error.
 */
#ifndef BN_SYMBOLS_OBJECT_H
#define BN_SYMBOLS_OBJECT_H

#include <string.h>

#include "base/mem.h"
#include "lab/sampler/recording.h"
#include "lab/symbols/dwfl.h"

/* Where separate debugging files are looked for; it outlives the objects. */
struct bn_debug_files {
    char *folders; /* "/usr/lib/debug:/home/me/debug" */
    char *path;    /* the same in the form of libdwfl */
    Dwfl_Callbacks callbacks;
};
BN_MUST_CHECK bn_status bn_debug_files_open(struct bn_debug_files *files, const char *folders, bn_error *err);
void bn_debug_files_close(struct bn_debug_files *files);
static inline bool bn_object_is_vdso(const char *path)
{
    return strcmp(path, "[vdso]") == 0;
}
Elf *bn_vdso_open(void);           /* NULL when there is none */
int bn_elf_open(const char *path); /* a descriptor of a regular file; -1 */

struct bn_object_symbol {
    uint64_t start, end;
    const char *name;
    uint32_t rank; /* among those at one address, the lowest has the name */
};

struct bn_object_unit {
    uint64_t start, end;
    Dwarf_Off offset; /* of its entry in the debugging information */
};

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
    struct bn_object_symbol *symbols; /* by start, each start once */
    uint64_t *reach;                  /* the highest end of the symbols up to this one */
    size_t n_symbols;
    struct bn_object_unit *units; /* by start */
    size_t n_units;
    Dwarf *dwarf; /* NULL: there is none */
    Dwarf_Addr dwarf_bias;
};

/* All files of a recording. Zeroed, it is empty. */
struct bn_objects {
    struct bn_debug_files files;
    struct bn_object **list;
    uint32_t n;
    uint32_t *of_mapping; /* + 1 for each mapping of the recording; 0: not read yet */
    size_t n_mappings;
};
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
const struct bn_object_symbol *bn_object_symbol(const struct bn_object *object, uint64_t address);

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

/* Adds the object's file to a process that is unwound, displaced by bias against its own addresses. false
 * when it cannot be. */
bool bn_object_report(const struct bn_object *object, Dwfl *dwfl, uint64_t bias,
                      struct bn_debug_files *files);

#endif
