/* SPDX-License-Identifier: MIT
 *
 * Finds the devices of OpenCL, what they say of themselves and what they lack; opens one; its buffers.
 *
 * A device is asked for nothing that the arithmetic does not need: each row of NEEDS is an operation whose bits would differ
 * without it. What a driver says is not believed either: whoever opens a model compares the results.
 */
#define _GNU_SOURCE
#include "opencl/driver.h"

#include <CL/cl_ext.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

#define MAX_PLATFORMS 32u
#define MAX_DEVICES 64u /* of one platform */

#define INSTALL_LOADER \
    "install ocl-icd-libopencl1 (Debian), OpenCL-ICD-Loader (Fedora) or ocl-icd (Arch), and the driver of your GPU"
#define INSTALL_DRIVER \
    "install the OpenCL driver of your GPU; for the CPU: pocl-opencl-icd (Debian), pocl (Fedora, Arch)"

/* ---- the loader ---- */

static struct {
    pthread_mutex_t lock;
    bool loaded;
    struct bn_cl_api api;
} loader = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bn_status load(struct bn_cl_api *api, bn_error *err)
{
#define NAME(name) "cl" #name,
    static const char *const NAMES[] = {BN_CL_FUNCTIONS(NAME)};
#undef NAME
    void *functions[BN_ARRAY_LEN(NAMES)], *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    _Static_assert(sizeof functions == sizeof *api, "one pointer for each function");
    if (library == NULL)
        return bn_hint(bn_fail(err, BN_ERR_UNSUPPORTED, "no OpenCL on this machine: %s", dlerror()), err,
                       INSTALL_LOADER);
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++) {
        functions[i] = dlsym(library, NAMES[i]);
        if (functions[i] == NULL) {
            dlclose(library);
            return bn_hint(bn_fail(err, BN_ERR_UNSUPPORTED, "libOpenCL.so.1 has no function %s", NAMES[i]),
                           err, INSTALL_LOADER);
        }
    }
    memcpy(api, functions, sizeof *api);
    return BN_OK;
}

/* Once for the process. BN_ERR_UNSUPPORTED with the package to install. */
static bn_status load_once(const struct bn_cl_api **out, bn_error *err)
{
    pthread_mutex_lock(&loader.lock);
    bn_status status = loader.loaded ? BN_OK : load(&loader.api, err);
    loader.loaded = status == BN_OK;
    pthread_mutex_unlock(&loader.lock);
    *out = status == BN_OK ? &loader.api : NULL;
    return status;
}

bn_status bn_cl_fail(bn_error *err, cl_int code, const char *doing)
{
    /* Drivers report a crash of a kernel or a device that is gone by one of those with BN_ERR_IO, at any later call. */
    static const struct {
        cl_int code;
        bn_status status;
        const char *what;
    } KNOWN[] = {
        {CL_MEM_OBJECT_ALLOCATION_FAILURE, BN_ERR_NOMEM, "no memory on the device"},
        {CL_OUT_OF_HOST_MEMORY, BN_ERR_NOMEM, "out of memory"},
        {CL_DEVICE_NOT_AVAILABLE, BN_ERR_IO, "the device was lost"},
        {CL_OUT_OF_RESOURCES, BN_ERR_IO, "the device was lost, or is out of resources"},
        {CL_INVALID_COMMAND_QUEUE, BN_ERR_IO, "the device was lost"},
        {CL_INVALID_CONTEXT, BN_ERR_IO, "the device was lost"},
        {CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, BN_ERR_IO, "the device was lost"},
        {CL_PROFILING_INFO_NOT_AVAILABLE, BN_ERR_IO, "the device was lost"},
        {-9999, BN_ERR_IO, "the device was lost"}, /* NVIDIA: a kernel read or wrote outside of its memory */
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(KNOWN); i++)
        if (KNOWN[i].code == code)
            return bn_fail(err, KNOWN[i].status, "%s: OpenCL error %d while %s", KNOWN[i].what, code, doing);
    return bn_fail(err, BN_ERR_INTERNAL, "OpenCL error %d while %s", code, doing);
}

/* ---- what a device says of itself ---- */

/* A question about a device; 0 when it has no answer. */
static uint64_t ask(const struct bn_cl_device *d, cl_device_info what)
{
    /* Answers are of 32 or 64 bits, or a size_t: the low ones are enough on a little-endian host. */
    uint64_t answer = 0;
    return d->api->GetDeviceInfo(d->id, what, sizeof answer, &answer, NULL) == CL_SUCCESS ? answer : 0;
}

/* A text of a driver, without the spaces around it, safe to print. */
static void take_text(char *out, size_t room, const char *text)
{
    size_t n;
    while (*text == ' ')
        text++;
    for (n = strlen(text); n > 0 && text[n - 1] == ' ';)
        n--;
    bn_escape(out, room, text, n);
}

static void ask_text(const struct bn_cl_device *d, cl_device_info what, char *out, size_t room)
{
    char text[512] = "";
    if (d->api->GetDeviceInfo(d->id, what, sizeof text - 1, text, NULL) != CL_SUCCESS) text[0] = '\0';
    take_text(out, room, text);
}

static bool has_extension(const struct bn_cl_device *d, const char *name)
{
    char list[16384] = "";
    size_t n = strlen(name);
    if (d->api->GetDeviceInfo(d->id, CL_DEVICE_EXTENSIONS, sizeof list - 1, list, NULL) != CL_SUCCESS)
        return false;
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
    return false;
}

static enum bn_cl_dot choose_dot(const struct bn_cl_device *d)
{
    if (has_extension(d, "cl_khr_integer_dot_product") &&
        (ask(d, CL_DEVICE_INTEGER_DOT_PRODUCT_CAPABILITIES_KHR) &
         CL_DEVICE_INTEGER_DOT_PRODUCT_INPUT_4x8BIT_PACKED_KHR) != 0)
        return BN_CL_DOT_KHR;
    /* dp4a came with compute capability 6.1. */
    uint64_t capability =
        ask(d, CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV) * 10 + ask(d, CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV);
    return has_extension(d, "cl_nv_device_attribute_query") && capability >= 61 ? BN_CL_DOT_NVIDIA
                                                                                : BN_CL_DOT_NONE;
}

static void add_lack(bn_device_info *info, const char *what)
{
    size_t n = strlen(info->lacks);
    snprintf(info->lacks + n, sizeof info->lacks - n, "%s%s", n > 0 ? ", " : "", what);
}

static void find_lacks(struct bn_cl_device *d)
{
    static const struct {
        uint64_t flag;
        const char *name;
    } NEEDS[] = {
        {CL_FP_FMA, "fma"},
        {CL_FP_DENORM, "subnormal numbers"},
        {CL_FP_ROUND_TO_NEAREST, "rounding to nearest"},
        {CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT, "correctly rounded division and square root"},
    };
    uint64_t single = ask(d, CL_DEVICE_SINGLE_FP_CONFIG);
    for (size_t i = 0; i < BN_ARRAY_LEN(NEEDS); i++)
        if ((single & NEEDS[i].flag) == 0) add_lack(&d->info, NEEDS[i].name);
    if (ask(d, CL_DEVICE_AVAILABLE) == 0) add_lack(&d->info, "being available");
    if (ask(d, CL_DEVICE_COMPILER_AVAILABLE) == 0) add_lack(&d->info, "a compiler");
    if (ask(d, CL_DEVICE_ENDIAN_LITTLE) == 0) add_lack(&d->info, "little-endian memory");
    if (d->info.memory > UINT32_MAX && ask(d, CL_DEVICE_ADDRESS_BITS) != 64)
        add_lack(&d->info, "64-bit addresses");
    if (ask(d, CL_DEVICE_MAX_WORK_GROUP_SIZE) < 16) add_lack(&d->info, "groups of 16");
}

static void describe(struct bn_cl_device *d, size_t n)
{
    bn_device_info *info = &d->info;
    char text[512] = "";
    uint64_t type = ask(d, CL_DEVICE_TYPE), most = ask(d, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    snprintf(info->id, sizeof info->id, "opencl:%zu", n);
    snprintf(info->type, sizeof info->type, "%s",
             (type & CL_DEVICE_TYPE_GPU) != 0   ? "GPU"
             : (type & CL_DEVICE_TYPE_CPU) != 0 ? "CPU"
                                                : "accelerator");
    ask_text(d, CL_DEVICE_NAME, info->name, sizeof info->name);
    ask_text(d, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor);
    ask_text(d, CL_DRIVER_VERSION, info->driver, sizeof info->driver);
    ask_text(d, CL_DEVICE_VERSION, info->version, sizeof info->version);
    if (d->api->GetPlatformInfo(d->platform, CL_PLATFORM_NAME, sizeof text - 1, text, NULL) != CL_SUCCESS)
        text[0] = '\0';
    take_text(info->platform, sizeof info->platform, text);
    info->memory = ask(d, CL_DEVICE_GLOBAL_MEM_SIZE);
    info->max_alloc = ask(d, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    info->units = (uint32_t)ask(d, CL_DEVICE_MAX_COMPUTE_UNITS);
    info->mhz = (uint32_t)ask(d, CL_DEVICE_MAX_CLOCK_FREQUENCY);
    info->has_fp64 = has_extension(d, "cl_khr_fp64");
    d->dot = choose_dot(d);
    info->has_dot = d->dot != BN_CL_DOT_NONE;
    d->is_cpu = strcmp(info->type, "CPU") == 0;
    /* A CPU device runs the items of a group one after the other. */
    d->group_size = d->is_cpu ? 1 : 16;
    while (!d->is_cpu && d->group_size < 256 && d->group_size * 2 <= most)
        d->group_size *= 2;
    find_lacks(d);
}

/* The n-th device of all platforms, as bn_devices lists them. *n_found: how many there are. Neither context nor program. */
static bn_status find(struct bn_cl_device *out, size_t n, size_t *n_found, bn_error *err)
{
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint n_platforms = 0;
    *n_found = 0;
    BN_TRY(load_once(&out->api, err));
    /* Without drivers the loader has an error of its own; a driver that fails has no devices. */
    if (out->api->GetPlatformIDs(MAX_PLATFORMS, platforms, &n_platforms) != CL_SUCCESS) n_platforms = 0;
    for (cl_uint p = 0; p < n_platforms && p < MAX_PLATFORMS; p++) {
        cl_device_id devices[MAX_DEVICES];
        cl_uint n_devices = 0;
        if (out->api->GetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices, &n_devices) !=
            CL_SUCCESS)
            continue;
        if (n_devices > MAX_DEVICES) n_devices = MAX_DEVICES;
        if (n >= *n_found && n - *n_found < n_devices) {
            out->platform = platforms[p];
            out->id = devices[n - *n_found];
            describe(out, n);
        }
        *n_found += n_devices;
    }
    if (*n_found == 0)
        return bn_hint(bn_fail(err, BN_ERR_NOT_FOUND, "no OpenCL device on this machine"), err,
                       INSTALL_DRIVER);
    if (n >= *n_found)
        return bn_hint(bn_fail(err, BN_ERR_NOT_FOUND, "there is no device opencl:%zu; this machine has %zu",
                               n, *n_found),
                       err, "'bn-run devices' lists them");
    return BN_OK;
}

bn_status bn_devices(bn_device_info *out, size_t room, size_t *n, bn_error *err)
{
    struct bn_cl_device device = {0};
    bn_status status = find(&device, 0, n, err);
    for (size_t i = 0; i < *n && i < room && status == BN_OK; i++) {
        device = (struct bn_cl_device){0};
        status = find(&device, i, n, err);
        out[i] = device.info;
    }
    return status;
}

/* ---- opening ---- */

/* A driver may promise dot products that it does not compile. */
static bn_status build(struct bn_cl_device *d, const struct bn_cl_options *o, bn_error *err)
{
    bn_error first = {0};
    bn_status status = bn_cl_build(d, o, &first);
    if (status == BN_ERR_UNSUPPORTED && d->dot != BN_CL_DOT_NONE) {
        if (d->program != NULL) d->api->ReleaseProgram(d->program);
        d->program = NULL;
        d->dot = BN_CL_DOT_NONE;
        d->info.has_dot = false;
        return bn_cl_build(d, o, err);
    }
    if (status != BN_OK && err != NULL && err->code == BN_OK) *err = first;
    return status;
}

bn_status bn_cl_open(struct bn_cl_device **out, size_t n, const struct bn_cl_options *options, bn_error *err)
{
    static const struct bn_cl_options NONE;
    size_t n_found;
    cl_int code;
    *out = NULL;
    struct bn_cl_device *d = bn_alloc(1, sizeof *d);
    if (d == NULL) return bn_nomem(err);
    bn_status status = find(d, n, &n_found, err);
    if (status == BN_OK && d->info.lacks[0] != '\0')
        status = bn_hint(bn_fail_in(err, BN_ERR_UNSUPPORTED, d->info.name, "the device %s lacks %s",
                                    d->info.id, d->info.lacks),
                         err, "a newer driver may have it; else another device, or --device cpu");
    if (status == BN_OK && options != NULL && options->scalar_rows) {
        d->is_cpu = false;
        d->group_size = 64;
    }
    if (status == BN_OK) {
        d->context = d->api->CreateContext(NULL, 1, &d->id, NULL, NULL, &code);
        if (d->context == NULL) status = bn_cl_fail(err, code, "opening the device");
    }
    if (status == BN_OK) status = build(d, options != NULL ? options : &NONE, err);
    if (status == BN_OK)
        *out = d;
    else
        bn_cl_close(d);
    return status;
}

void bn_cl_close(struct bn_cl_device *device)
{
    if (device == NULL) return;
    if (device->program != NULL) device->api->ReleaseProgram(device->program);
    if (device->context != NULL) device->api->ReleaseContext(device->context);
    bn_free(device);
}

/* ---- buffers ---- */

bn_status bn_cl_alloc(struct bn_cl_device *device, cl_mem *out, size_t n_bytes, const char *what,
                      bn_error *err)
{
    cl_int code;
    *out = NULL;
    if (n_bytes == 0) return BN_OK;
    if (n_bytes > device->info.max_alloc)
        return bn_fail_in(err, BN_ERR_NOMEM, device->info.id,
                          "%s: %.1f MiB in one buffer, the device allows %.1f MiB", what, MIB(n_bytes),
                          MIB(device->info.max_alloc));
    uint64_t before = atomic_fetch_add(&device->bytes, n_bytes);
    if (n_bytes <= device->info.memory && before <= device->info.memory - n_bytes) {
        *out = device->api->CreateBuffer(device->context, CL_MEM_READ_WRITE, n_bytes, NULL, &code);
        if (*out != NULL) {
            atomic_fetch_add(&device->n_buffers, 1);
            return BN_OK;
        }
        if (code != CL_MEM_OBJECT_ALLOCATION_FAILURE && code != CL_OUT_OF_RESOURCES &&
            code != CL_OUT_OF_HOST_MEMORY) {
            atomic_fetch_sub(&device->bytes, n_bytes);
            return bn_cl_fail(err, code, "taking memory");
        }
    }
    atomic_fetch_sub(&device->bytes, n_bytes);
    return bn_fail_in(err, BN_ERR_NOMEM, device->info.id,
                      "no memory on the device for %s: %.1f MiB more, and %.1f MiB of %.1f MiB are taken",
                      what, MIB(n_bytes), MIB(before), MIB(device->info.memory));
}

void bn_cl_free(struct bn_cl_device *device, cl_mem buffer, size_t n_bytes)
{
    if (buffer == NULL) return;
    device->api->ReleaseMemObject(buffer);
    atomic_fetch_sub(&device->bytes, n_bytes);
    atomic_fetch_sub(&device->n_buffers, 1);
}
