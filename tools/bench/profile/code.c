/* SPDX-License-Identifier: MIT
 *
 * bn-bench profile --code: from the digest of a kernel's machine code, as an execution graph has it, to the code.
 */
#include <stdio.h>

#include "base/error.h"
#include "lab/kit/process.h"
#include "tools/bench/profile/profile.h"

#define MAX_TEXT ((size_t)64 << 20)
#define OBJDUMP_NS 60000000000u

/* Appends what objdump makes of the code; false with the reason when there is no objdump, or it fails. */
static bool disassemble(struct bn_buf *text, const char *program, const struct bn_code *code, bn_error *why)
{
    char from[48], to[48];
    snprintf(from, sizeof from, "--start-address=0x%llx", (unsigned long long)code->address);
    snprintf(to, sizeof to, "--stop-address=0x%llx", (unsigned long long)(code->address + code->n_bytes));
    const char *const argv[] = {"objdump", "--disassemble", "--wide", from, to, program, NULL};
    size_t before = text->len;
    struct bn_process process;
    struct bn_process_options options = {.argv = argv, .out = text, .timeout_ns = OBJDUMP_NS};
    if (bn_process_run(&process, &options, why) != BN_OK) return false;
    if (process.end == BN_PROCESS_EXITED && process.code == 0 && text->len > before) return true;
    text->len = before;
    bn_process_describe(why->msg, sizeof why->msg, &process);
    return false;
}

bn_status bn_bench_profile_code(struct bn_args *args, bn_error *err)
{
    const struct bn_bench_options *o = args->fields;
    struct bn_buf text = {.max = MAX_TEXT};
    struct bn_codes codes;
    const struct bn_code *code = NULL;
    char program[PATH_MAX];
    bn_error why = {0};
    if (args->json) return bn_fail(err, BN_ERR_ARG, "--code cannot be combined with --json");
    BN_TRY(bn_codes_find(&code, &codes, o->code, err));
    bn_program_path(program);
    bn_buf_printf(&text,
                  "symbol           %s\nkernel           %s\ninstruction set  %s\nsha256           %s\n"
                  "code             %zu bytes at 0x%llx of %s\n",
                  code->symbol, codes.kernels->name[code - codes.list], codes.kernels->isa, code->sha256,
                  code->n_bytes, (unsigned long long)code->address, program);
    if (!disassemble(&text, program, code, &why)) {
        bn_buf_printf(&text, "\nbytes in hexadecimal; not disassembled: objdump: %s\n", why.msg);
        for (size_t i = 0; i < code->n_bytes; i++)
            bn_buf_printf(&text, "%02x%s", ((const unsigned char *)code->bytes)[i], i % 32 == 31 ? "\n" : "");
        bn_buf_putc(&text, '\n');
    }
    return bn_bench_print_text(&text, err);
}
