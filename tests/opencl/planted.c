/* SPDX-License-Identifier: MIT
 *
 * Stands in for libOpenCL.so.1 and hands calls on to the real one, whose devices it changes: what they say of themselves, what
 * their memory is, when they are lost, what program they get. tests/opencl/plant.sh builds it. Each fault is a variable:
 *
 *   PLANT_TYPE=gpu         every device is a GPU
 *   PLANT_LACKS=1          it has no fma, and no subnormal numbers
 *   PLANT_DOT=1            it promises dot products of packed bytes
 *   PLANT_MEMORY=BYTES     the memory that it has
 *   PLANT_LOST=FILE        it is lost as soon as there is this file
 *   PLANT_EDIT=FROM=>TO    the first FROM in the source of a program becomes TO
 */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INTEGER_DOT_PRODUCT_CAPABILITIES 0x1073

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

cl_int clGetDeviceInfo(cl_device_id id, cl_device_info what, size_t room, void *out, size_t *n)
{
    const char *type = getenv("PLANT_TYPE"), *memory = getenv("PLANT_MEMORY");
    cl_int code = REAL(clGetDeviceInfo)(id, what, room, out, n);
    static const char DOT[] = " cl_khr_integer_dot_product";
    if (getenv("PLANT_DOT") != NULL && what == INTEGER_DOT_PRODUCT_CAPABILITIES && room == sizeof(cl_ulong)) {
        memset(out, 0xFF, room);
        return CL_SUCCESS;
    }
    if (getenv("PLANT_DOT") != NULL && what == CL_DEVICE_EXTENSIONS && code == CL_SUCCESS && out != NULL &&
        strlen(out) + sizeof DOT <= room)
        strcat(out, DOT);
    if (code != CL_SUCCESS || out == NULL) return code;
    if (what == CL_DEVICE_TYPE && type != NULL) *(cl_device_type *)out = CL_DEVICE_TYPE_GPU;
    if (what == CL_DEVICE_SINGLE_FP_CONFIG && getenv("PLANT_LACKS") != NULL)
        *(cl_device_fp_config *)out &= ~(cl_device_fp_config)(CL_FP_FMA | CL_FP_DENORM);
    if (what == CL_DEVICE_GLOBAL_MEM_SIZE && memory != NULL) *(cl_ulong *)out = strtoull(memory, NULL, 10);
    return code;
}

cl_int clFinish(cl_command_queue queue)
{
    const char *lost = getenv("PLANT_LOST");
    cl_int code = REAL(clFinish)(queue);
    return lost != NULL && access(lost, F_OK) == 0 ? CL_OUT_OF_RESOURCES : code;
}

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char **sources,
                                     const size_t *lengths, cl_int *code)
{
    const char *edit = getenv("PLANT_EDIT"), *to = edit != NULL ? strstr(edit, "=>") : NULL;
    if (to == NULL || count != 1 || lengths == NULL)
        return REAL(clCreateProgramWithSource)(context, count, sources, lengths, code);
    size_t n_from = (size_t)(to - edit), n_to = strlen(to + 2);
    const char *at = memmem(sources[0], lengths[0], edit, n_from);
    if (at == NULL) {
        fprintf(stderr, "PLANT_EDIT: the source has no '%.*s'\n", (int)n_from, edit);
        abort();
    }
    size_t before = (size_t)(at - sources[0]), after = lengths[0] - before - n_from;
    size_t length = before + n_to + after;
    char *text = malloc(length);
    if (text == NULL) abort();
    memcpy(text, sources[0], before);
    memcpy(text + before, to + 2, n_to);
    memcpy(text + before + n_to, at + n_from, after);
    const char *changed = text;
    cl_program program = REAL(clCreateProgramWithSource)(context, 1, &changed, &length, code);
    free(text);
    return program;
}
