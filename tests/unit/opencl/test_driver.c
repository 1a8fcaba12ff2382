/* SPDX-License-Identifier: MIT
 *
 * The driver of devices: facts, the cache of programs, faults that are planted, buffers, queues. It needs a driver of
 * OpenCL (PoCL: pocl-opencl-icd) and skips without one.
 */
#define _GNU_SOURCE
#include "opencl/driver.h"

#include <dirent.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "tests/unit/folder.h"

/* Each kernel of the program: adds to a number, by an argument of each kind. */
#define ADD_ARGS "(global uint *out, uint n, float x, global uint *none, local uint *room) {\n"
#define ADDER(name) "kernel void " #name ADD_ARGS "add(out, n, x, none, room); }\n"
static const char ADDERS[] =
    "void add" ADD_ARGS "    size_t i = get_local_id(0);\n"
    "    room[i] = n; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    out[get_global_id(0) + 32 * get_global_id(1)] += room[get_local_size(0) - 1 - i] + (uint)x + (none != 0);\n"
    "}\n" BN_CL_KERNELS(ADDER);

static const struct bn_cl_options PLAIN = {.source = ADDERS, .force_cache = true},
                                  NO_CACHE = {.source = ADDERS, .no_cache = true};
static size_t n_devices;

static int begin(void **state)
{
    bn_device_info infos[8];
    if (make_folder(state) != 0) return -1;
    setenv("XDG_CACHE_HOME", folder, 1);
    setenv("POCL_CACHE_DIR", folder, 1);
    if (bn_devices(infos, BN_ARRAY_LEN(infos), &n_devices, NULL) != BN_OK) n_devices = 0;
    return 0;
}
GROUP(begin, remove_folder)

static struct bn_cl_device *open_first(const struct bn_cl_options *options)
{
    struct bn_cl_device *device;
    if (n_devices == 0) skip();
    must(bn_cl_open(&device, 0, options, &err));
    return device;
}

TEST(test_facts)
{
    bn_device_info infos[2] = {{.id = "untouched"}, {.id = "untouched"}};
    size_t n;
    if (n_devices == 0) skip();
    must(bn_devices(infos, 1, &n, &err));
    assert_int_equal(n, n_devices);
    assert_string_equal(infos[0].id, "opencl:0");
    assert_string_equal(infos[1].id, "untouched");
    assert_true(infos[0].name[0] != '\0' && infos[0].driver[0] != '\0' && infos[0].platform[0] != '\0');
    assert_has(infos[0].version, "OpenCL");
    assert_true(infos[0].memory > 0 && infos[0].max_alloc > 0 && infos[0].units > 0);
    assert_string_equal(infos[0].program, "");
    if (strcmp(infos[0].platform, "Portable Computing Language") == 0) {
        assert_string_equal(infos[0].lacks, "");
        assert_string_equal(infos[0].type, "CPU");
    }
}

TEST(test_a_number_that_is_too_large)
{
    struct bn_cl_device *device;
    char what[64];
    if (n_devices == 0) skip();
    refused(bn_cl_open(&device, n_devices, &PLAIN, &err), BN_ERR_NOT_FOUND);
    snprintf(what, sizeof what, "no device opencl:%zu; this machine has %zu", n_devices, n_devices);
    assert_has(err.msg, what);
    assert_null(device);
}

/* ---- programs ---- */

/* The one file of the cache. */
static char *cached_file(void)
{
    static char path[512];
    struct dirent *entry;
    size_t n = 0;
    DIR *list = opendir(below("bn/opencl"));
    assert_non_null(list);
    while ((entry = readdir(list)) != NULL) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/bn/opencl/%s", folder, entry->d_name);
        n++;
    }
    closedir(list);
    assert_int_equal(n, 1);
    return path;
}

/* Opens the device, whose program comes from the cache or not, and runs a kernel. */
static void open_and_run(bool cached)
{
    struct bn_cl_queue q;
    uint32_t got = 0;
    cl_mem out;
    struct bn_cl_device *device = open_first(&PLAIN);
    assert_int_equal(device->was_cached, cached);
    assert_true(bn_is_sha256(device->info.program));
    must(bn_cl_queue_open(&q, device, &err));
    must(bn_cl_alloc(device, &out, sizeof got, "a number", &err));
    const struct bn_cl_arg args[] = {BN_CL_MEM(out), BN_CL_U32(7), BN_CL_F32(2.0f), BN_CL_MEM(NULL),
                                     BN_CL_LOCAL(4)};
    bn_cl_zero(&q, out, 0, sizeof got);
    bn_cl_run(&q, BN_CL_finite, (size_t[2]){1, 1}, (size_t[2]){1, 1}, args, BN_ARRAY_LEN(args),
              (struct bn_cl_work){.slot = BN_KERNEL_COUNT});
    bn_cl_read(&q, &got, out, 0, sizeof got);
    must(bn_cl_finish(&q, &err));
    assert_int_equal(got, 9);
    bn_cl_free(device, out, sizeof got);
    bn_cl_queue_close(&q);
    bn_cl_close(device);
}

TEST(test_the_cache_of_programs)
{
    struct bn_buf file = {.max = (size_t)64 << 20};
    char text[128], hex[BN_SHA256_HEX];
    open_and_run(false);
    open_and_run(true);
    /* A byte of the program; a file of another kind; a sound file with no program in it. */
    must(bn_file_read(cached_file(), &file, &err));
    file.data[file.len / 2] ^= 1;
    must(bn_file_write_atomic(cached_file(), file.data, file.len, &err));
    open_and_run(false);
    open_and_run(true);
    write_text(cached_file(), "");
    open_and_run(false);
    write_text(cached_file(), "not a program");
    open_and_run(false);
    bn_sha256_hex("no code", 7, hex);
    snprintf(text, sizeof text, "bn-opencl-program/1 %s\nno code", hex);
    write_text(cached_file(), text);
    open_and_run(false);
    open_and_run(true);
    /* A link, to a file that is sound. */
    const char *path = cached_file();
    assert_int_equal(rename(path, below("sound")), 0);
    assert_int_equal(symlink(below("sound"), path), 0);
    open_and_run(false);
    open_and_run(true);
    bn_buf_release(&file);
}

TEST(test_no_folder_for_the_cache)
{
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    open_and_run(false);
    setenv("XDG_CACHE_HOME", folder, 1);
}

TEST(test_options_change_the_digest)
{
    struct bn_cl_device *plain = open_first(&NO_CACHE);
    struct bn_cl_options other = NO_CACHE;
    struct bn_cl_device *changed;
    other.no_fp64 = true;
    must(bn_cl_open(&changed, 0, &other, &err));
    if (plain->info.has_fp64) assert_string_not_equal(plain->info.program, changed->info.program);
    assert_false(plain->was_cached);
    bn_cl_close(plain);
    bn_cl_close(changed);
}

TEST(test_a_fault_in_a_program)
{
    static const struct bn_cl_options BROKEN = {.source = "kernel void prepare(void) { nonsense(; }\n",
                                                .no_cache = true},
                                      EMPTY = {.source = "kernel void prepare(void) {}\n", .no_cache = true};
    struct bn_cl_device *device;
    struct bn_cl_queue q;
    if (n_devices == 0) skip();
    refused(bn_cl_open(&device, 0, &BROKEN, &err), BN_ERR_UNSUPPORTED);
    assert_has(err.msg, "the driver does not compile the kernels");
    assert_has(err.msg, "error");
    assert_null(device);
    device = open_first(&EMPTY);
    refused(bn_cl_queue_open(&q, device, &err), BN_ERR_INTERNAL);
    assert_string_equal(err.where, "ternary_gemv");
    bn_cl_close(device);
}

/* What is in the repository, in each form. */
TEST(test_the_kernels_build)
{
    struct bn_cl_device *device;
    struct bn_cl_queue q;
    if (n_devices == 0 || bn_cl_source_bytes == 0) skip();
    for (unsigned form = 0; form < 2; form++) {
        const struct bn_cl_options options = {.no_fp64 = form != 0, .no_dot = form != 0, .no_cache = true};
        must(bn_cl_open(&device, 0, &options, &err));
        must(bn_cl_queue_open(&q, device, &err));
        bn_cl_queue_close(&q);
        bn_cl_close(device);
    }
}

/* ---- buffers ---- */

TEST(test_buffers_are_counted)
{
    struct bn_cl_device *device = open_first(&NO_CACHE);
    struct bn_cl_queue q;
    unsigned char bytes[512] = {0};
    cl_mem kept[8] = {0}, none;
    size_t n_kept = 0;
    must(bn_cl_queue_open(&q, device, &err));
    for (size_t i = 0; i < 10000; i++) {
        cl_mem *slot = &kept[i % BN_ARRAY_LEN(kept)];
        if (*slot != NULL) bn_cl_free(device, *slot, sizeof bytes);
        n_kept += *slot == NULL;
        must(bn_cl_alloc(device, slot, sizeof bytes, "rows", &err));
        bn_cl_write(&q, *slot, 0, bytes, sizeof bytes);
        must(bn_cl_finish(&q, &err));
        assert_int_equal(device->n_buffers, n_kept);
        assert_int_equal(device->bytes, n_kept * sizeof bytes);
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(kept); i++)
        bn_cl_free(device, kept[i], sizeof bytes);
    must(bn_cl_alloc(device, &none, 0, "nothing", &err));
    assert_null(none);
    bn_cl_free(device, none, 0);
    assert_int_equal(device->n_buffers, 0);
    assert_int_equal(device->bytes, 0);
    bn_cl_queue_close(&q);
    bn_cl_close(device);
}

TEST(test_too_little_memory)
{
    struct bn_cl_device *device = open_first(&NO_CACHE);
    cl_mem first, second;
    device->info.memory = 8 << 20;
    device->info.max_alloc = 6 << 20;
    refused(bn_cl_alloc(device, &first, 7 << 20, "the weights", &err), BN_ERR_NOMEM);
    assert_string_equal(err.msg, "the weights: 7.0 MiB in one buffer, the device allows 6.0 MiB");
    must(bn_cl_alloc(device, &first, 5 << 20, "the weights", &err));
    refused(bn_cl_alloc(device, &second, 4 << 20, "keys and values", &err), BN_ERR_NOMEM);
    assert_string_equal(
        err.msg,
        "no memory on the device for keys and values: 4.0 MiB more, and 5.0 MiB of 8.0 MiB are taken");
    assert_null(second);
    assert_int_equal(device->bytes, 5 << 20);
    bn_cl_free(device, first, 5 << 20);
    assert_int_equal(device->n_buffers, 0);
    bn_cl_close(device);
}

TEST(test_short_memory_of_the_host)
{
    bn_status status;
    if (n_devices == 0) skip();
    SHORT_MEMORY (status) {
        struct bn_cl_device *device;
        struct bn_cl_queue q = {0};
        cl_mem out = NULL;
        status = bn_cl_open(&device, 0, &NO_CACHE, NULL);
        if (status == BN_OK) status = bn_cl_queue_open(&q, device, NULL);
        if (status == BN_OK) status = bn_cl_alloc(device, &out, 4, "a number", NULL);
        if (status == BN_OK) {
            const struct bn_cl_arg args[] = {BN_CL_MEM(out), BN_CL_U32(7), BN_CL_F32(2.0f), BN_CL_MEM(NULL),
                                             BN_CL_LOCAL(4)};
            bn_cl_run(&q, BN_CL_prepare, (size_t[2]){1, 1}, (size_t[2]){1, 1}, args, BN_ARRAY_LEN(args),
                      (struct bn_cl_work){.slot = BN_KERNEL_COUNT});
            status = bn_cl_finish(&q, NULL);
        }
        if (device != NULL) bn_cl_free(device, out, 4);
        bn_cl_queue_close(&q);
        bn_cl_close(device);
    }
}

/* ---- queues ---- */

TEST(test_launches)
{
    static const size_t GLOBAL[2] = {32, 2}, LOCAL[2] = {16, 1};
    struct bn_cl_device *device = open_first(&NO_CACHE);
    struct bn_cl_queue q;
    uint32_t values[64], got[64], part[3] = {0};
    cl_mem a, b;
    for (uint32_t i = 0; i < BN_ARRAY_LEN(values); i++)
        values[i] = i;
    must(bn_cl_queue_open(&q, device, &err));
    must(bn_cl_alloc(device, &a, sizeof values, "a", &err));
    must(bn_cl_alloc(device, &b, sizeof values, "b", &err));
    const struct bn_cl_arg args[] = {BN_CL_MEM(a), BN_CL_U32(1), BN_CL_F32(3.0f), BN_CL_MEM(b),
                                     BN_CL_LOCAL(64)};
    bn_cl_begin(&q);
    bn_cl_write(&q, a, 0, values, sizeof values);
    q.layer = 3;
    for (size_t i = 0; i < 100; i++)
        bn_cl_run(&q, BN_CL_attn_scores, GLOBAL, LOCAL, args, BN_ARRAY_LEN(args),
                  (struct bn_cl_work){.slot = BN_KERNEL_ATTN_SCORES, .bytes = 10, .ops = 20});
    bn_cl_zero(&q, b, 0, sizeof values);
    bn_cl_copy(&q, b, 4, a, 8, 8);
    bn_cl_zero(&q, a, 5, 2);
    bn_cl_read(&q, got, a, 0, sizeof got);
    bn_cl_read(&q, part, b, 0, sizeof part);
    must(bn_cl_finish(&q, &err));
    for (uint32_t i = 0; i < BN_ARRAY_LEN(values); i++)
        assert_int_equal(got[i], i == 1 ? (501 & 0xff0000ff) : i + 500);
    assert_true(part[0] == 0 && part[1] == 502 && part[2] == 503);
    const struct bn_cl_counter *c = &q.counters[BN_KERNEL_ATTN_SCORES];
    assert_int_equal(q.n_launches, 100);
    assert_true(c->calls == 100 && c->bytes == 1000 && c->ops == 2000 && c->ns > 0);
    const struct bn_cl_launch *l = &q.launches[99];
    assert_true(l->kernel == BN_CL_attn_scores && l->slot == BN_KERNEL_ATTN_SCORES && l->layer == 3);
    assert_true(l->global[0] == 32 && l->global[1] == 2 && l->local[0] == 16 && l->local[1] == 1);
    assert_true(l->queued <= l->submitted && l->submitted <= l->started && l->started <= l->ended);
    /* Another pass begins without launches; the counters stay. */
    bn_cl_begin(&q);
    must(bn_cl_finish(&q, &err));
    assert_true(q.n_launches == 0 && c->calls == 100);
    bn_cl_free(device, a, sizeof values);
    bn_cl_free(device, b, sizeof values);
    bn_cl_queue_close(&q);
    bn_cl_close(device);
}

TEST(test_the_first_error_stays)
{
    static const size_t GLOBAL[2] = {32, 1}, BAD[2] = {SIZE_MAX / 2, 1};
    struct bn_cl_device *device = open_first(&NO_CACHE);
    struct bn_cl_queue q;
    uint32_t got = 5;
    cl_mem a;
    must(bn_cl_queue_open(&q, device, &err));
    must(bn_cl_alloc(device, &a, 128, "a", &err));
    const struct bn_cl_arg args[] = {BN_CL_MEM(a), BN_CL_U32(1), BN_CL_F32(3.0f), BN_CL_MEM(NULL),
                                     BN_CL_LOCAL(128)};
    bn_cl_begin(&q);
    bn_cl_run(&q, BN_CL_prepare, GLOBAL, BAD, args, BN_ARRAY_LEN(args),
              (struct bn_cl_work){.slot = BN_KERNEL_COUNT});
    bn_cl_read(&q, &got, a, 1000, 4); /* would be an error too */
    refused(bn_cl_finish(&q, &err), BN_ERR_INTERNAL);
    assert_has(err.msg, "while prepare");
    assert_string_equal(err.where, "opencl:0");
    assert_int_equal(got, 5);
    refused(bn_cl_finish(&q, &err), BN_ERR_INTERNAL);
    bn_cl_begin(&q);
    bn_cl_zero(&q, a, 0, 128);
    bn_cl_read(&q, &got, a, 0, 4);
    must(bn_cl_finish(&q, &err));
    assert_int_equal(got, 0);
    bn_cl_free(device, a, 128);
    bn_cl_queue_close(&q);
    bn_cl_close(device);
}

/* Drivers say it in several ways. Here a driver stands in that says so at the end of a pass. */
static cl_int lost(cl_command_queue queue)
{
    (void)queue;
    return CL_OUT_OF_RESOURCES;
}

TEST(test_a_device_that_is_lost)
{
    struct bn_cl_device *device = open_first(&NO_CACHE);
    const struct bn_cl_api *real = device->api;
    struct bn_cl_api broken = *real;
    struct bn_cl_queue q;
    must(bn_cl_queue_open(&q, device, &err));
    broken.Finish = lost;
    device->api = &broken;
    refused(bn_cl_finish(&q, &err), BN_ERR_IO);
    assert_has(err.msg, "the device was lost");
    assert_int_equal(bn_cl_fail(NULL, CL_DEVICE_NOT_AVAILABLE, "testing"), BN_ERR_IO);
    assert_int_equal(bn_cl_fail(NULL, CL_MEM_OBJECT_ALLOCATION_FAILURE, "testing"), BN_ERR_NOMEM);
    assert_int_equal(bn_cl_fail(NULL, CL_INVALID_VALUE, "testing"), BN_ERR_INTERNAL);
    device->api = real;
    bn_cl_queue_close(&q);
    bn_cl_close(device);
}
