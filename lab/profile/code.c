/* SPDX-License-Identifier: MIT
 *
 * Finds the machine code of kernels in the program's own file and hashes it; finds a kernel by its digest.
 */
#define _GNU_SOURCE
#include "lab/profile/code.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

void bn_codes_put(bn_json *object, const struct bn_codes *codes)
{
    for (unsigned k = 0; k < BN_KERNEL_COUNT && codes->kernels != NULL; k++) {
        bn_json *code = bn_json_put_object(object, codes->kernels->name[k]);
        bn_json_put_string(code, "sha256", codes->list[k].sha256);
        bn_json_put_u64(code, "bytes", codes->list[k].n_bytes);
    }
}

/* ---- the program's own file ---- */

struct program {
    Elf *elf;
    Elf_Data *symbols;
    size_t n_symbols, names; /* names: the section of the symbols' names */
    uint64_t bias;           /* of an address in memory over the one in the file */
};

/* The program itself is the first object that is listed. */
static int take_bias(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    *(uint64_t *)user = info->dlpi_addr;
    return 1;
}

static bn_status find_symbols(struct program *program, bn_error *err)
{
    GElf_Shdr header;
    for (Elf_Scn *s = elf_nextscn(program->elf, NULL); s != NULL; s = elf_nextscn(program->elf, s)) {
        if (gelf_getshdr(s, &header) == NULL || header.sh_type != SHT_SYMTAB || header.sh_entsize == 0)
            continue;
        program->symbols = elf_getdata(s, NULL);
        program->n_symbols = header.sh_size / header.sh_entsize;
        program->names = header.sh_link;
        if (program->symbols != NULL) return BN_OK;
    }
    return bn_fail(err, BN_ERR_UNSUPPORTED, "the program has no symbol table: it was stripped");
}

/* The bytes in the file of the function at out->bytes in memory; NULL when no symbol begins there. */
static const void *find_function(struct bn_code *out, const struct program *program)
{
    GElf_Sym symbol;
    GElf_Shdr header;
    out->address = (uintptr_t)out->bytes - program->bias;
    for (size_t i = 0; i < program->n_symbols && i < INT32_MAX; i++) {
        if (gelf_getsym(program->symbols, (int)i, &symbol) == NULL) return NULL;
        if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_size == 0 ||
            symbol.st_value != out->address)
            continue;
        Elf_Scn *section = elf_getscn(program->elf, symbol.st_shndx);
        if (section == NULL || gelf_getshdr(section, &header) == NULL) return NULL;
        Elf_Data *data = elf_rawdata(section, NULL);
        uint64_t at = symbol.st_value - header.sh_addr;
        if (data == NULL || data->d_buf == NULL || at > data->d_size || symbol.st_size > data->d_size - at)
            return NULL;
        const char *name = elf_strptr(program->elf, program->names, symbol.st_name);
        snprintf(out->symbol, sizeof out->symbol, "%s", name != NULL ? name : "");
        out->n_bytes = symbol.st_size;
        return (const char *)data->d_buf + at;
    }
    return NULL;
}

static bn_status read_kernels(struct bn_codes *codes, const struct program *program,
                              const struct bn_kernels *kernels, bn_error *err)
{
    for (unsigned slot = 0; slot < BN_KERNEL_COUNT; slot++) {
        struct bn_code *code = &codes->list[slot];
        code->bytes = (const void *)(uintptr_t)bn_kernels_code(kernels, (enum bn_kernel)slot);
        const void *bytes = find_function(code, program);
        if (bytes == NULL)
            return bn_fail_in(err, BN_ERR_UNSUPPORTED, kernels->name[slot],
                              "the program's symbol table has no function at its address");
        if (memcmp(bytes, code->bytes, code->n_bytes) != 0)
            return bn_fail_in(err, BN_ERR_INTEGRITY, kernels->name[slot],
                              "the code in memory is not the code in the program's file");
        bn_sha256_hex(bytes, code->n_bytes, code->sha256);
    }
    codes->kernels = kernels;
    return BN_OK;
}

bn_status bn_codes_read(struct bn_codes *codes, const struct bn_kernels *kernels, const char *path,
                        bn_error *err)
{
    struct program program = {0};
    codes->kernels = NULL;
    if (path == NULL) path = "/proc/self/exe";
    dl_iterate_phdr(take_bias, &program.bias);
    if (elf_version(EV_CURRENT) == EV_NONE)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "this libelf does not know the current ELF version");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return bn_fail(err, BN_ERR_UNSUPPORTED, "the program's own file cannot be opened");
    program.elf = elf_begin(fd, ELF_C_READ, NULL);
    bn_status status = program.elf != NULL && elf_kind(program.elf) == ELF_K_ELF
                           ? find_symbols(&program, err)
                           : bn_fail(err, BN_ERR_UNSUPPORTED, "the program's own file is not an ELF file");
    if (status == BN_OK) status = read_kernels(codes, &program, kernels, err);
    if (program.elf != NULL) elf_end(program.elf);
    close(fd);
    return status;
}

bn_status bn_codes_find(const struct bn_code **out, struct bn_codes *codes, const char *digits, bn_error *err)
{
    size_t n = strlen(digits);
    if (n < 8 || n > BN_SHA256_HEX - 1 || strspn(digits, "0123456789abcdef") != n)
        return bn_fail(err, BN_ERR_ARG, "a digest has 8 to 64 hexadecimal digits (got '%.70s')", digits);
    for (size_t i = 0; bn_kernels_built(i) != NULL; i++) {
        BN_TRY(bn_codes_read(codes, bn_kernels_built(i), NULL, err));
        for (*out = codes->list; *out < codes->list + BN_KERNEL_COUNT; ++*out)
            if (strncmp((*out)->sha256, digits, n) == 0) return BN_OK;
    }
    return bn_hint(
        bn_fail(err, BN_ERR_NOT_FOUND, "no kernel of this program has code with the digest %s", digits), err,
        "use the build that measured: program.commit and program.binary_sha256 in the document name it");
}
