/* SPDX-License-Identifier: MIT
 *
 * Finds the file of an object and its separate debug file, by build id or checksum, for libdwfl.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "lab/symbols/object.h"

/* ---- the vdso, which is not a file: all processes have the same ---- */

Elf *bn_vdso_open(void)
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
    if (bn_object_is_vdso(name)) *elf = bn_vdso_open();
    return -1;
}

/* ---- separate debugging files ---- */

/* As in IEEE 802.3, which .gnu_debuglink has. */
static bool has_crc(int fd, uint32_t wanted)
{
    unsigned char bytes[16384];
    uint32_t table[256], crc = UINT32_MAX;
    ssize_t n;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = (table[i] >> 1) ^ ((table[i] & 1) != 0 ? UINT32_C(0xEDB88320) : 0);
    }
    for (off_t at = 0; (n = pread(fd, bytes, sizeof bytes, at)) > 0; at += n)
        for (ssize_t i = 0; i < n; i++)
            crc = table[(crc ^ bytes[i]) & 255] ^ (crc >> 8);
    return n == 0 && ~crc == wanted;
}

/* A regular ELF file; -1 for anything else. Opening a pipe does not wait. */
int bn_elf_open(const char *path)
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

static bool has_build_id(int fd, const void *id, size_t n)
{
    const void *own;
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (elf == NULL) return false;
    ssize_t n_own = dwelf_elf_gnu_build_id(elf, &own);
    bool same = n_own > 0 && (size_t)n_own >= n && memcmp(own, id, n) == 0;
    elf_end(elf);
    return same;
}

/* The debugging file of this name, if it belongs to the module: by build id, by checksum without one. */
static int try_debug_file(Dwfl_Module *module, const char *path, GElf_Word crc, char **found)
{
    const unsigned char *id;
    GElf_Addr where;
    int n_id = dwfl_module_build_id(module, &id, &where);
    int fd = bn_elf_open(path);
    if (fd < 0) return -1;
    if (n_id > 0 ? has_build_id(fd, id, (size_t)n_id) : crc != 0 && has_crc(fd, crc)) {
        *found = strdup(path); /* libdwfl frees it */
        if (*found != NULL) return fd;
    }
    close(fd);
    return -1;
}

/* What dwfl_standard_find_debuginfo does, except that no server is asked when nothing is found. By build id,
 * then by name: next to the file, in .debug there, and under each folder with the file's own folder. */
static int find_debug_file(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
                           const char *file, const char *link, GElf_Word crc, char **found)
{
    const struct bn_debug_files *files = *user;
    char path[4096];
    int fd = dwfl_build_id_find_debuginfo(module, user, name, base, file, link, crc, found);
    if (fd >= 0 || files == NULL || file == NULL || link == NULL || file[0] != '/' ||
        strchr(link, '/') != NULL)
        return fd;
    int n_folder = (int)(strrchr(file, '/') - file);
    for (int i = 0; i < 2 && fd < 0; i++)
        if (snprintf(path, sizeof path, "%.*s%s/%s", n_folder, file, i == 0 ? "" : "/.debug", link) <
                (int)sizeof path &&
            strcmp(path, file) != 0)
            fd = try_debug_file(module, path, crc, found);
    for (const char *folder = files->folders; fd < 0 && *folder != '\0';) {
        int n = (int)strcspn(folder, ":");
        if (n > 0 &&
            snprintf(path, sizeof path, "%.*s%.*s/%s", n, folder, n_folder, file, link) < (int)sizeof path)
            fd = try_debug_file(module, path, crc, found);
        folder += n + (folder[n] == ':');
    }
    return fd;
}

bn_status bn_debug_files_open(struct bn_debug_files *files, const char *folders, bn_error *err)
{
    struct bn_buf path = {.max = 1u << 16};
    if (folders == NULL) folders = "/usr/lib/debug";
    bn_buf_puts(&path, "-");
    bn_buf_puts(&path, folders);
    BN_TRY(bn_buf_check(&path, err));
    files->folders = bn_strndup(folders, strlen(folders));
    files->path = path.data;
    files->callbacks = (Dwfl_Callbacks){
        .find_elf = find_elf, .find_debuginfo = find_debug_file, .debuginfo_path = &files->path};
    return files->folders == NULL ? bn_nomem(err) : BN_OK;
}

void bn_debug_files_close(struct bn_debug_files *files)
{
    bn_free(files->folders);
    bn_free(files->path);
}
