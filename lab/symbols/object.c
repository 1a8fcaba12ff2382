/* SPDX-License-Identifier: MIT
 *
 * Opens ELF files with elfutils, which finds their debug files and reads symbols, debug information and unwind
 * tables. Each file has a libdwfl session of its own, at its own addresses, so files with fixed addresses, or
 * broken ones, do not affect others.
 */
#define _GNU_SOURCE
#include "lab/symbols/object.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "lab/kit/order.h"

#define UNSIZED 4096u      /* bytes of a symbol that says no size, at most */
#define MAX_NESTED 64u     /* blocks that are inside others */
#define MAX_NAMESPACES 16u /* inside one another */

#if defined __x86_64__
#define NATIVE_MACHINE EM_X86_64
#elif defined __aarch64__
#define NATIVE_MACHINE EM_AARCH64
#else
#define NATIVE_MACHINE EM_NONE
#endif

/* ---- files ---- */

/* A regular ELF file; -1 for anything else. Opening a pipe does not wait. */
static int open_file(const char *path)
{
    char magic[SELFMAG];
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        pread(fd, magic, sizeof magic, 0) == (ssize_t)sizeof magic && memcmp(magic, ELFMAG, SELFMAG) == 0)
        return fd;
    if (fd >= 0) close(fd);
    return -1;
}

static bool is_vdso(const char *path)
{
    return strcmp(path, "[vdso]") == 0;
}

/* The vdso is not a file; all processes have the same. NULL when there is none. */
static Elf *open_vdso(void)
{
    uintptr_t at = (uintptr_t)getauxval(AT_SYSINFO_EHDR);
    if (at == 0) return NULL;
    Elf64_Ehdr header;
    memcpy(&header, (const void *)at, sizeof header);
    size_t n = header.e_shoff + (size_t)header.e_shnum * header.e_shentsize;
    /* libelf does not write to it: the image is opened for reading. */
    return memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64
               ? elf_memory((char *)at, n)
               : NULL;
}

static int find_elf(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base, char **path,
                    Elf **elf)
{
    (void)module, (void)user, (void)base, (void)path;
    if (is_vdso(name)) *elf = open_vdso();
    return -1;
}

/* By build id, then by name: next to the file, in .debug there, and under each folder. A server, which libdwfl
 * would ask last, is not asked. */
static int find_debug_file(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
                           const char *file, const char *link, GElf_Word crc, char **found)
{
    (void)unsetenv("DEBUGINFOD_URLS");
    return dwfl_standard_find_debuginfo(module, user, name, base, file, link, crc, found);
}

bn_status bn_objects_open(struct bn_objects *objects, const char *folders, bn_error *err)
{
    struct bn_buf path = {.max = 1u << 16};
    bn_buf_printf(&path, ":.debug:%s", folders != NULL ? folders : "/usr/lib/debug");
    BN_TRY(bn_buf_check(&path, err));
    objects->path = path.data;
    objects->callbacks = (Dwfl_Callbacks){
        .find_elf = find_elf, .find_debuginfo = find_debug_file, .debuginfo_path = &objects->path};
    return BN_OK;
}

/* ---- opening ---- */

Dwfl_Module *bn_object_report(const struct bn_object *object, Dwfl *dwfl, uint64_t bias)
{
    Dwfl_Module *module;
    if (is_vdso(object->path)) {
        const struct bn_load *load = object->loads;
        module = dwfl_report_module(dwfl, object->path, bias + load->address,
                                    bias + load->address + load->n_bytes);
    } else {
        int fd = open_file(object->path);
        if (fd < 0) return NULL;
        module = dwfl_report_elf(dwfl, object->path, object->path, fd, bias, true);
        if (module == NULL) close(fd);
    }
    return module;
}

/* Takes the parts of the file that are loaded. An empty list: nothing can be said of its addresses. */
static bn_status read_loads(struct bn_object *o, Elf *elf, bn_error *err)
{
    GElf_Ehdr header;
    GElf_Phdr part;
    size_t n = 0;
    if (gelf_getehdr(elf, &header) == NULL || (header.e_type != ET_EXEC && header.e_type != ET_DYN))
        return BN_OK;
    if (elf_getphdrnum(elf, &n) != 0 || n > UINT16_MAX) return BN_OK;
    o->native = header.e_machine == NATIVE_MACHINE;
    BN_TRY(BN_NEW(o->loads, n, err));
    for (size_t i = 0; i < n; i++)
        if (gelf_getphdr(elf, (int)i, &part) != NULL && part.p_type == PT_LOAD)
            o->loads[o->n_loads++] =
                (struct bn_load){part.p_offset, part.p_filesz, part.p_vaddr, (part.p_flags & PF_X) != 0};
    return BN_OK;
}

/* Whether the file is the one that was mapped, as far as that can be known. */
static bool is_same_build(Elf *elf, const struct bn_mapping *mapping, bool deleted)
{
    const void *id;
    if (mapping->n_build_id == 0) return !deleted;
    ssize_t n = dwelf_elf_gnu_build_id(elf, &id);
    return n >= mapping->n_build_id && memcmp(id, mapping->build_id, mapping->n_build_id) == 0;
}

static Elf *open_elf(const struct bn_object *o, int *fd)
{
    if (is_vdso(o->path)) return open_vdso();
    *fd = o->path[0] == '/' ? open_file(o->path) : -1;
    return *fd < 0 ? NULL : elf_begin(*fd, ELF_C_READ_MMAP, NULL);
}

static bn_status look_at_file(struct bn_object *o, const struct bn_mapping *mapping, bool deleted,
                              bn_error *err)
{
    int fd = -1;
    bn_status status = BN_OK;
    Elf *elf = open_elf(o, &fd);
    o->other_build = elf == NULL ? o->path[0] == '/' && (deleted || access(o->path, F_OK) != 0)
                                 : !is_same_build(elf, mapping, deleted);
    if (elf != NULL && !o->other_build) status = read_loads(o, elf, err);
    if (elf != NULL) elf_end(elf);
    if (fd >= 0) close(fd);
    return status;
}

static void begin_session(struct bn_object *o, const struct bn_objects *objects)
{
    GElf_Addr bias;
    o->dwfl = dwfl_begin(&objects->callbacks);
    if (o->dwfl == NULL) return;
    dwfl_report_begin(o->dwfl);
    o->dwfl_module = bn_object_report(o, o->dwfl, 0);
    if (dwfl_report_end(o->dwfl, NULL, NULL) == 0 && o->dwfl_module != NULL &&
        dwfl_module_getelf(o->dwfl_module, &bias) != NULL && bias == 0)
        return;
    dwfl_end(o->dwfl);
    o->dwfl = NULL;
}

/* ---- names ---- */

const char *bn_object_symbol(const struct bn_object *object, uint64_t address)
{
    GElf_Off into;
    GElf_Sym symbol;
    const char *name = dwfl_module_addrinfo(object->dwfl_module, address, &into, &symbol, NULL, NULL, NULL);
    /* A symbol without a size may be far away. */
    return name != NULL && (symbol.st_size > 0 ? into < symbol.st_size : into < UNSIZED) ? name : NULL;
}

/* The unit that an address belongs to. Not every compiler writes .debug_aranges, which libdw looks into. */
static Dwarf_Die *find_unit(const struct bn_object *o, uint64_t address, Dwarf_Addr *bias)
{
    Dwarf_Die *unit = dwfl_module_addrdie(o->dwfl_module, address, bias);
    if (unit == NULL)
        while ((unit = dwfl_module_nextcu(o->dwfl_module, unit, bias)) != NULL)
            if (dwarf_haspc(unit, address - *bias) > 0) break;
    return unit;
}

/* The file of a function. Since DWARF 5 file 0 is the unit's own, which clang uses and libdw 0.188 takes for none. */
static const char *file_of(Dwarf_Die *die)
{
    Dwarf_Attribute at;
    Dwarf_Die unit;
    Dwarf_Half version;
    Dwarf_Files *files;
    Dwarf_Word index;
    size_t n;
    const char *file = dwarf_decl_file(die);
    bool first = file == NULL &&
                 dwarf_formudata(dwarf_attr_integrate(die, DW_AT_decl_file, &at), &index) == 0 &&
                 index == 0 && dwarf_cu_die(at.cu, &unit, &version, NULL, NULL, NULL, NULL, NULL) != NULL &&
                 version >= 5 && dwarf_getsrcfiles(&unit, &files, &n) == 0 && n > 0;
    return first ? dwarf_filesrc(files, 0, NULL, NULL) : file;
}

static void take_scope(Dwarf_Die *die, struct bn_scope *scope)
{
    int line = 0;
    scope->name = dwarf_diename(die);
    scope->file = file_of(die);
    if (dwarf_decl_line(die, &line) == 0 && line > 0) scope->line = (uint32_t)line;
}

/* The function or block directly in parent that an address lies in. Namespaces, which have no addresses, are
 * looked into. */
static bool find_inside(Dwarf_Die *parent, uint64_t address, unsigned depth, Dwarf_Die *found)
{
    Dwarf_Die die;
    if (depth > MAX_NAMESPACES || dwarf_child(parent, &die) != 0) return false;
    do {
        int tag = dwarf_tag(&die);
        if (tag == DW_TAG_namespace && find_inside(&die, address, depth + 1, found)) return true;
        if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block)
            continue;
        if (dwarf_haspc(&die, address) > 0) {
            *found = die;
            return true;
        }
    } while (dwarf_siblingof(&die, &die) == 0);
    return false;
}

/* Instructions dressed as functions: the compiler's headers mark them as made up. */
static bool is_intrinsic(Dwarf_Die *die)
{
    return dwarf_tag(die) == DW_TAG_inlined_subroutine && dwarf_hasattr_integrate(die, DW_AT_artificial);
}

/* dwarf_getscopes would go through all entries of the unit, types and variables too, each time. */
size_t bn_object_scopes(const struct bn_object *object, uint64_t address, struct bn_scope *scopes)
{
    Dwarf_Addr bias;
    size_t n = 0;
    Dwarf_Die *unit = find_unit(object, address, &bias);
    if (unit == NULL) return 0;
    Dwarf_Die die = *unit;
    address -= bias;
    for (size_t depth = 0; depth < MAX_NESTED && n < BN_OBJECT_MAX_SCOPES; depth++) {
        if (!find_inside(&die, address, 0, &die)) break;
        int tag = dwarf_tag(&die);
        if (tag == DW_TAG_subprogram) n = 0; /* one inside another has a place of its own */
        if (tag == DW_TAG_lexical_block || (tag == DW_TAG_inlined_subroutine && n == 0) || is_intrinsic(&die))
            continue;
        scopes[n] = (struct bn_scope){0};
        take_scope(&die, &scopes[n++]);
    }
    return n;
}

bool bn_object_has_no_caller(const struct bn_object *object, uint64_t address)
{
    Dwarf_Addr bias, start, end;
    Dwarf_Frame *frame;
    Dwarf_Op memory[3], *ops;
    size_t n;
    bool signal;
    Dwarf_CFI *tables = object->dwfl == NULL ? NULL : dwfl_module_eh_cfi(object->dwfl_module, &bias);
    if (tables == NULL || dwarf_cfi_addrframe(tables, address - bias, &frame) != 0) return false;
    int caller = dwarf_frame_info(frame, &start, &end, &signal);
    /* No operations in memory: not defined; none at all: the same as in the caller. */
    bool none =
        caller >= 0 && dwarf_frame_register(frame, caller, memory, &ops, &n) == 0 && n == 0 && ops == memory;
    bn_dwfl_free(frame);
    return none;
}

/* Where a mapping begins in the file. Of the vdso recorders say different things; it is mapped as a whole. */
static uint64_t mapped_offset(const struct bn_object *object, const struct bn_mapping *mapping)
{
    return is_vdso(object->path) ? 0 : mapping->file_offset;
}

bool bn_object_place(const struct bn_object *object, const struct bn_mapping *mapping, uint64_t address,
                     uint64_t *place)
{
    const struct bn_load *found = NULL;
    uint64_t offset = address - mapping->start + mapped_offset(object, mapping);
    /* Pages at the border of two parts are in both: code is what is looked for. */
    for (const struct bn_load *l = object->loads; l != object->loads + object->n_loads; l++)
        if (l->offset <= offset && offset - l->offset < l->n_bytes && (found == NULL || !found->executable))
            found = l;
    if (found != NULL) *place = offset - found->offset + found->address;
    return found != NULL;
}

bool bn_object_bias(const struct bn_object *object, const struct bn_mapping *mapping, uint64_t *bias)
{
    uint64_t offset = mapped_offset(object, mapping), n = mapping->end - mapping->start;
    for (const struct bn_load *l = object->loads; l != object->loads + object->n_loads; l++) {
        /* Parts begin within pages, mappings with one: they overlap. */
        bool overlaps = l->offset < offset ? offset - l->offset < l->n_bytes : l->offset - offset < n;
        if (!l->executable || !overlaps) continue;
        *bias = mapping->start - offset + l->offset - l->address;
        return true;
    }
    return false;
}

bool bn_object_read(const struct bn_object *object, const struct bn_mapping *mapping, uint64_t address,
                    uint64_t *word)
{
    GElf_Addr bias;
    size_t n = 0;
    Elf *elf = object->dwfl == NULL ? NULL : dwfl_module_getelf(object->dwfl_module, &bias);
    const char *bytes = elf == NULL ? NULL : elf_rawfile(elf, &n);
    uint64_t offset = address - mapping->start + mapped_offset(object, mapping);
    if (bytes == NULL || n < sizeof *word || offset > n - sizeof *word) return false;
    memcpy(word, bytes + offset, sizeof *word);
    return true;
}

/* ---- opening and closing ---- */

static void close_object(struct bn_object *object)
{
    if (object == NULL) return;
    if (object->dwfl != NULL) dwfl_end(object->dwfl);
    bn_free(object->path);
    bn_free(object->loads);
    bn_free(object);
}

static bn_status open_object(struct bn_object **out, const struct bn_mapping *mapping,
                             const struct bn_objects *objects, bn_error *err)
{
    static const char DELETED[] = " (deleted)";
    size_t n = strlen(mapping->path), n_suffix = sizeof DELETED - 1;
    bool deleted = n > n_suffix && strcmp(mapping->path + n - n_suffix, DELETED) == 0;
    *out = NULL;
    struct bn_object *o = bn_alloc(1, sizeof *o);
    if (o == NULL) return bn_nomem(err);
    o->path = bn_strndup(mapping->path, deleted ? n - n_suffix : n);
    bn_status status = o->path == NULL || elf_version(EV_CURRENT) == EV_NONE
                           ? bn_nomem(err)
                           : look_at_file(o, mapping, deleted, err);
    if (status == BN_OK) {
        const char *slash = strrchr(o->path, '/');
        o->module = slash == NULL ? o->path : slash + 1;
        if (o->n_loads > 0) begin_session(o, objects);
    }
    if (status == BN_OK)
        *out = o;
    else
        close_object(o);
    return status;
}

/* ---- all of a recording ---- */

static bn_status add_object(struct bn_objects *objects, const struct bn_mapping *mapping, bn_error *err)
{
    struct bn_object **list = bn_realloc(objects->list, objects->n + 1, sizeof(struct bn_object *));
    if (list == NULL) return bn_nomem(err);
    objects->list = list;
    BN_TRY(open_object(&list[objects->n], mapping, objects, err));
    objects->n++;
    return BN_OK;
}

static bool is_same_file(const struct bn_mapping *a, const struct bn_mapping *b)
{
    return strcmp(a->path, b->path) == 0 && a->n_build_id == b->n_build_id &&
           memcmp(a->build_id, b->build_id, a->n_build_id) == 0;
}

bn_status bn_objects_find(struct bn_objects *objects, const bn_recording *recording,
                          const struct bn_mapping *mapping, uint32_t *number, bn_error *err)
{
    size_t at = (size_t)(mapping - recording->mappings);
    if (objects->of_mapping == NULL) {
        BN_TRY(BN_NEW(objects->of_mapping, recording->n_mappings, err));
        objects->n_mappings = recording->n_mappings;
    }
    if (at >= objects->n_mappings)
        return bn_fail(err, BN_ERR_INTERNAL, "internal error: the recording changed");
    for (size_t i = 0; objects->of_mapping[at] == 0 && i < objects->n_mappings; i++)
        if (objects->of_mapping[i] != 0 && is_same_file(&recording->mappings[i], mapping))
            objects->of_mapping[at] = objects->of_mapping[i];
    if (objects->of_mapping[at] == 0) {
        BN_TRY(add_object(objects, mapping, err));
        objects->of_mapping[at] = objects->n;
    }
    *number = objects->of_mapping[at] - 1;
    return BN_OK;
}

void bn_objects_release(struct bn_objects *objects)
{
    for (uint32_t i = 0; i < objects->n; i++)
        close_object(objects->list[i]);
    bn_free(objects->list);
    bn_free(objects->of_mapping);
    bn_free(objects->path);
    *objects = (struct bn_objects){0};
}
