/* SPDX-License-Identifier: MIT
 *
 * bn-bench profile --check: documents against the rules of profile/audit.c, and against each other. And --code: from the digest
 * of a kernel's machine code, as an execution graph has it, to the code.
 */
#include <stdio.h>

#include "lab/kit/process.h"
#include "lab/profile/document.h"
#include "tools/bench/profile/profile.h"

#define MAX_TEXT ((size_t)64 << 20)
#define OBJDUMP_NS 60000000000u

static bn_status audit_file(struct bn_prof_audit *out, const char *path, bn_error *err)
{
    bn_json *doc = NULL;
    BN_TRY(bn_json_read_file(&doc, path, err));
    bn_status status = bn_prof_audit(out, doc, err);
    if (status != BN_OK) bn_error_name(err, path);
    bn_json_free(doc);
    return status;
}

/* One document's findings, printed or put. */
static void show(const char *path, const struct bn_prof_audit *audit, bool json, bn_json *files)
{
    bn_json *file = bn_json_add_object(files);
    bn_json_put_string(file, "file", path);
    bn_json_put_bool(file, "ok", audit->n_failed == 0);
    bn_json *rules = bn_json_put_array(file, "rules");
    for (size_t i = 0; i < BN_PROF_RULES; i++) {
        const struct bn_prof_finding *f = &audit->list[i];
        bn_json *o = bn_json_add_object(rules);
        bn_json_put_string(o, "rule", f->rule);
        bn_json_put_bool(o, "ok", f->ok);
        bn_json_put_string(o, "why", f->ok ? NULL : f->why.msg);
        if (json) continue;
        printf("%-4s  %-10s  %s\n", f->ok ? "ok" : "FAIL", f->rule, f->ok ? f->what : f->why.msg);
    }
}

/* Each pair of documents. Returns how many are copies. */
static size_t compare(const struct bn_prof_audit *audits, size_t n, const struct bn_args *args,
                      const char *const *paths, bn_json *doc)
{
    size_t n_copies = 0;
    bn_json *array = bn_json_put_array(doc, "copies");
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++) {
            bn_error why = {0};
            if (bn_prof_check_copies(&audits[i], &audits[j], &why) == BN_OK) continue;
            bn_json *o = bn_json_add_object(array);
            BN_PUT_STRINGS(o, {"a", paths[i]}, {"b", paths[j]}, {"why", why.msg});
            if (!args->json) printf("FAIL  copies      %s and %s: %s\n", paths[i], paths[j], why.msg);
            n_copies++;
        }
    return n_copies;
}

static bn_status check_all(struct bn_args *args, struct bn_prof_audit *audits, bn_json *doc, bn_error *err)
{
    const struct bn_texts *paths = &((const struct bn_bench_options *)args->fields)->check;
    size_t n = paths->n, n_bad = 0;
    bn_json_put_string(doc, "schema", "bn.profile/1");
    bn_json *files = bn_json_put_array(doc, "files");
    for (size_t i = 0; i < n; i++) {
        const char *path = paths->list[i];
        BN_TRY(audit_file(&audits[i], path, err));
        if (!args->json && n > 1) printf("%s%s\n", i > 0 ? "\n" : "", path);
        show(path, &audits[i], args->json, files);
        n_bad += audits[i].n_failed;
    }
    n_bad += compare(audits, n, args, paths->list, doc);
    bn_json_put_bool(doc, "ok", n_bad == 0);
    if (n_bad > 0) args->exit_code = BN_EXIT_NEGATIVE;
    return args->json ? bn_cli_print_json(doc, err) : BN_OK;
}

bn_status bn_bench_profile_check(struct bn_args *args, bn_error *err)
{
    const struct bn_bench_options *o = args->fields;
    struct bn_prof_audit *audits = bn_alloc(o->check.n, sizeof *audits);
    if (audits == NULL) return bn_nomem(err);
    bn_json *doc = bn_json_new_object();
    bn_status status = check_all(args, audits, doc, err);
    bn_json_free(doc);
    bn_free(audits);
    return status;
}

/* ---- --code ---- */

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
    return bn_cli_print_text(&text, err);
}
