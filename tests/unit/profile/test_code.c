/* SPDX-License-Identifier: MIT
 *
 * lab/profile/code: digests of machine code are those that other tools compute, differ where the code does, and
 * are refused where the file is not what runs.
 */
#define _GNU_SOURCE
#include "lab/profile/code.h"
#include "tests/unit/folder.h"

static char own_path[1000];

/* The digest of a function by readelf and sha256sum: the symbol gives address, size and section, the section
 * gives the offset in the file. */
static void digest_by_others(const char *function, char hex[BN_SHA256_HEX])
{
    char command[5000];
    snprintf(command, sizeof command,
             "set -- $(readelf -sW '%s' | awk '$8 == \"bn_%s\" {print \"0x\" $2, $3, $7; exit}'); "
             "at=$1 n=$2 section=$3; "
             "set -- $(readelf -SW '%s' | sed -nE \"s/^ *\\[ *$section\\] +[^ ]+ +[^ ]+ +([0-9a-f]+) "
             "+([0-9a-f]+) .*/0x\\1 0x\\2/p\"); "
             "tail -c +$((at - $1 + $2 + 1)) '%s' | head -c $n | sha256sum",
             own_path, function, own_path, own_path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fread(hex, 1, BN_SHA256_HEX - 1, pipe), BN_SHA256_HEX - 1);
    hex[BN_SHA256_HEX - 1] = '\0';
    pclose(pipe);
}

TEST(digests_are_those_of_other_tools)
{
    char hex[BN_SHA256_HEX];
    for (size_t i = 0; bn_kernels_built(i) != NULL; i++) {
        struct bn_codes codes;
        must(bn_codes_read(&codes, bn_kernels_built(i), NULL, NULL));
        for (size_t slot = 0; slot < BN_KERNEL_COUNT; slot += 9) {
            digest_by_others(codes.kernels->name[slot], hex);
            assert_string_equal(codes.list[slot].sha256, hex);
        }
    }
}

TEST(other_instruction_sets_are_other_code)
{
    struct bn_codes ref, other;
    must(bn_codes_read(&ref, &bn_kernels_ref, NULL, NULL));
    for (size_t i = 0; bn_kernels_built(i) != NULL; i++) {
        must(bn_codes_read(&other, bn_kernels_built(i), NULL, NULL));
        for (size_t slot = 0; slot < BN_KERNEL_COUNT; slot++)
            assert_int_equal(strcmp(ref.kernels->name[slot], other.kernels->name[slot]) == 0,
                             strcmp(ref.list[slot].sha256, other.list[slot].sha256) == 0);
    }
}

/* A copy of this program, run through a command. */
static bn_status read_changed(const char *change, bn_error *e)
{
    struct bn_codes codes = {0};
    char command[2200];
    const char *path = below("program");
    snprintf(command, sizeof command, "cp '%s' '%s' && f='%s' && %s", own_path, path, path, change);
    assert_int_equal(system(command), 0);
    return bn_codes_read(&codes, &bn_kernels_ref, path, e);
}

TEST_IN(a_stripped_program_has_no_digests, make_folder, remove_folder)
{
    must(read_changed("true", NULL));
    refused(read_changed("strip \"$f\"", &err), BN_ERR_UNSUPPORTED);
    assert_has(err.msg, "stripped");
    refused(read_changed("echo text >\"$f\"", NULL), BN_ERR_UNSUPPORTED);
    refused(read_changed("rm \"$f\"", NULL), BN_ERR_UNSUPPORTED);
}

/* One byte of a kernel in the file is not what is in memory. */
TEST_IN(changed_code_is_found, make_folder, remove_folder)
{
    struct bn_buf file = {.max = 256u << 20};
    struct bn_codes codes = {0};
    const char *path = below("program");
    unsigned char code[64];
    uintptr_t address = (uintptr_t)bn_kernels_code(&bn_kernels_ref, BN_KERNEL_TERNARY_GEMV);
    memcpy(code, (const void *)address, sizeof code);
    must(bn_file_read(own_path, &file, NULL));
    char *found = memmem(file.data, file.len, code, sizeof code);
    assert_non_null(found);
    found[sizeof code - 1] ^= 1;
    must(bn_file_write_atomic(path, file.data, file.len, NULL));
    refused(bn_codes_read(&codes, &bn_kernels_ref, path, &err), BN_ERR_INTEGRITY);
    assert_string_equal(err.where, "ternary_gemv_ref");
    bn_buf_release(&file);
}

int main(void)
{
    ssize_t n = readlink("/proc/self/exe", own_path, sizeof own_path - 1);
    if (n < 0) return 1;
    return unit_run();
}
