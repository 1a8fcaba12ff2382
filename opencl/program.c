/* SPDX-License-Identifier: MIT
 *
 * Builds the kernels of kernels/opencl for a device, and keeps what the compiler made in the user's cache:
 * XDG_CACHE_HOME/bn/opencl/DIGEST, the digest of the device, its driver, the source and the options. In such a file a
 * line names the format and the digest of what follows. A file that is damaged, not this user's, or refused by the driver
 * is ignored, and written anew. The cache saves time; no error comes from it.
 */
#define _GNU_SOURCE
#include "opencl/driver.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/mem.h"

#define CACHE_MAGIC "bn-opencl-program/1 "
#define CHECKED ".checked"
#define MAX_PROGRAM ((size_t)64 << 20)

/* ---- the cache ---- */

/* Of the program, or of a mark that says more of it. */
static bool cache_path(char path[PATH_MAX], const struct bn_cl_device *d, const char *mark)
{
    const bn_device_info *info = &d->info;
    const char *parts[] = {info->platform, info->name,    info->vendor,
                           info->driver,   info->version, info->program};
    struct bn_sha256 sha;
    char hex[BN_SHA256_HEX], below[BN_SHA256_HEX + 32];
    bn_sha256_begin(&sha);
    for (size_t i = 0; i < BN_ARRAY_LEN(parts); i++)
        bn_sha256_update(&sha, parts[i], strlen(parts[i]) + 1);
    bn_sha256_take_hex(&sha, hex);
    snprintf(below, sizeof below, "bn/opencl/%s%s", hex, mark);
    return bn_file_user_path(path, PATH_MAX, "XDG_CACHE_HOME", ".cache", below);
}

/* PoCL compiles a kernel when it is first launched, for the size of its groups, and keeps that. For the binary of a program it
 * would compile all kernels for any size, which takes a minute and serves no launch. */
static bool driver_caches(const struct bn_cl_device *d)
{
    return strcmp(d->info.platform, "Portable Computing Language") == 0;
}

/* Builds what the cache has; false when it has nothing of use. */
static bool build_cached(struct bn_cl_device *d, const char *path, const char *options)
{
    const size_t head = strlen(CACHE_MAGIC) + BN_SHA256_HEX; /* the magic, a digest, a newline */
    struct bn_buf file = {.max = MAX_PROGRAM};
    char hex[BN_SHA256_HEX];
    bool good = false;
    if (bn_file_read_own(AT_FDCWD, path, &file, NULL) == BN_OK && file.len > head) {
        const unsigned char *code = (const unsigned char *)file.data + head;
        size_t n = file.len - head;
        bn_sha256_hex(code, n, hex);
        if (memcmp(file.data, CACHE_MAGIC, strlen(CACHE_MAGIC)) == 0 &&
            memcmp(file.data + strlen(CACHE_MAGIC), hex, sizeof hex - 1) == 0)
            d->program = d->api->CreateProgramWithBinary(d->context, 1, &d->id, &n, &code, NULL, NULL);
        good = d->program != NULL &&
               d->api->BuildProgram(d->program, 1, &d->id, options, NULL, NULL) == CL_SUCCESS;
    }
    if (!good && d->program != NULL) {
        d->api->ReleaseProgram(d->program);
        d->program = NULL;
    }
    bn_buf_release(&file);
    return good;
}

static void keep(const struct bn_cl_device *d, const char *path)
{
    size_t n = 0;
    unsigned char *code;
    char head[sizeof CACHE_MAGIC + BN_SHA256_HEX], hex[BN_SHA256_HEX];
    if (d->api->GetProgramInfo(d->program, CL_PROGRAM_BINARY_SIZES, sizeof n, &n, NULL) != CL_SUCCESS ||
        n == 0 || n > MAX_PROGRAM - sizeof head || (code = bn_alloc(n, 1)) == NULL)
        return;
    if (d->api->GetProgramInfo(d->program, CL_PROGRAM_BINARIES, sizeof code, &code, NULL) == CL_SUCCESS) {
        bn_sha256_hex(code, n, hex);
        snprintf(head, sizeof head, CACHE_MAGIC "%s\n", hex);
        const struct bn_file_part parts[] = {{head, strlen(head)}, {code, n}};
        (void)unlink(path); /* a link would be followed */
        if (bn_file_make_folders(path, NULL) == BN_OK)
            (void)!bn_file_write_parts(path, parts, BN_ARRAY_LEN(parts), NULL);
    }
    bn_free(code);
}

/* The mark has the version that tested the program: another one may know more. */
bool bn_cl_is_checked(const struct bn_cl_device *d)
{
    char path[PATH_MAX];
    struct bn_buf file = {.max = 64};
    bool is = d->may_cache && cache_path(path, d, CHECKED) &&
              bn_file_read_own(AT_FDCWD, path, &file, NULL) == BN_OK && file.len == strlen(bn_version()) &&
              memcmp(file.data, bn_version(), file.len) == 0;
    bn_buf_release(&file);
    return is;
}

void bn_cl_keep_checked(const struct bn_cl_device *d)
{
    char path[PATH_MAX];
    const struct bn_file_part part = {bn_version(), strlen(bn_version())};
    if (!d->may_cache || !cache_path(path, d, CHECKED)) return;
    (void)unlink(path); /* a link would be followed */
    if (bn_file_make_folders(path, NULL) == BN_OK) (void)!bn_file_write_parts(path, &part, 1, NULL);
}

/* ---- building ---- */

/* The compiler's first line about an error, else its first line. */
static bn_status compile_error(const struct bn_cl_device *d, cl_int code, bn_error *err)
{
    size_t n = 0;
    char *log = NULL, line[200];
    if (code == CL_OUT_OF_HOST_MEMORY || code == CL_OUT_OF_RESOURCES)
        return bn_cl_fail(err, code, "building the kernels");
    if (d->api->GetProgramBuildInfo(d->program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &n) != CL_SUCCESS)
        n = 0;
    log = bn_alloc(n + 1, 1);
    if (log == NULL) return bn_nomem(err);
    if (n > 0 &&
        d->api->GetProgramBuildInfo(d->program, d->id, CL_PROGRAM_BUILD_LOG, n, log, NULL) != CL_SUCCESS)
        log[0] = '\0';
    const char *at = strcasestr(log, "error");
    if (at == NULL) at = log + strspn(log, " \t\r\n");
    while (at > log && at[-1] != '\n')
        at--;
    bn_escape(line, sizeof line, at, strcspn(at, "\r\n"));
    bn_free(log);
    if (line[0] == '\0') return bn_cl_fail(err, code, "building the kernels");
    return bn_fail_in(err, BN_ERR_UNSUPPORTED, d->info.name, "the driver does not compile the kernels: %s",
                      line);
}

bn_status bn_cl_build(struct bn_cl_device *d, const struct bn_cl_options *o, bn_error *err)
{
    const char *source = o->source != NULL ? o->source : bn_cl_source;
    size_t n = o->source != NULL ? strlen(o->source) : (size_t)bn_cl_source_bytes;
    enum bn_cl_dot dot = o->no_dot ? BN_CL_DOT_NONE : d->dot;
    char options[256], path[PATH_MAX];
    struct bn_sha256 sha;
    cl_int code;
    /* dot() is a function of OpenCL C 3.0; the rest needs 1.2. -w: PoCL writes on standard error that it has warnings. */
    snprintf(
        options, sizeof options,
        "-w -cl-std=%s -cl-fp32-correctly-rounded-divide-sqrt -D BN_GROUP=%zu -D BN_VECTOR=%d -D BN_FP64=%d "
        "-D BN_DOT=%d",
        dot == BN_CL_DOT_KHR ? "CL3.0" : "CL1.2", d->group_size, d->is_cpu ? 16 : 1,
        d->info.has_fp64 && !o->no_fp64, (int)dot);
    bn_sha256_begin(&sha);
    bn_sha256_update(&sha, options, strlen(options) + 1);
    bn_sha256_update(&sha, source, n);
    bn_sha256_take_hex(&sha, d->info.program);
    d->may_cache = !o->no_cache && cache_path(path, d, "");
    bool cached = d->may_cache && (o->force_cache || !driver_caches(d));
    d->was_cached = cached && build_cached(d, path, options);
    if (d->was_cached) return BN_OK;
    d->program = d->api->CreateProgramWithSource(d->context, 1, &source, &n, &code);
    if (d->program == NULL) return bn_cl_fail(err, code, "building the kernels");
    code = d->api->BuildProgram(d->program, 1, &d->id, options, NULL, NULL);
    if (code != CL_SUCCESS) return compile_error(d, code, err);
    if (cached) keep(d, path);
    return BN_OK;
}
