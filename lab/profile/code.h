/* SPDX-License-Identifier: MIT
 *
 * Code objects: the machine code of a kernel. A kernel is identified by the SHA-256 of the bytes
 * of its function in the program's own file, found by the address in the dispatch table and the range that
 * the symbol table gives it.
 *
 * The program is position-independent and its code has no relocations, so the bytes in the file are those
 * that run; reading them compares both. A digest covers the function itself, not constants that it loads
 * and functions that it calls. Only code.c includes libelf.
 */
#ifndef BN_PROFILE_CODE_H
#define BN_PROFILE_CODE_H

#include "base/digest.h"
#include "base/json.h"
#include "kernels/kernels.h"

struct bn_codes {
    const struct bn_kernels *kernels; /* NULL: nothing was read */
    struct bn_code {
        char symbol[64];
        uint64_t address;  /* in the file's own numbering, as objdump prints it */
        const void *bytes; /* in memory */
        size_t n_bytes;
        char sha256[BN_SHA256_HEX];
    } list[BN_KERNEL_COUNT];
};

/* Reads all kernels of a table. path is the file that this program was started from, NULL to have it
 * found. BN_ERR_UNSUPPORTED when it has no symbols (it was stripped), BN_ERR_INTEGRITY when the code in the
 * file is not what is in memory. */
BN_MUST_CHECK bn_status bn_codes_read(struct bn_codes *codes, const struct bn_kernels *kernels,
                                      const char *path, bn_error *err);
/* The code of a kernel of any instruction set of this program, also of those that the machine lacks, by the first
 * digits of its digest; *codes holds it. BN_ERR_ARG for fewer than 8 digits, BN_ERR_NOT_FOUND, and the errors above. */
BN_MUST_CHECK bn_status bn_codes_find(const struct bn_code **out, struct bn_codes *codes, const char *digits,
                                      bn_error *err);
/* Puts a member for each kernel: its sha256 and bytes. */
void bn_codes_put(bn_json *object, const struct bn_codes *codes);

#endif
