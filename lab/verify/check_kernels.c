/* SPDX-License-Identifier: MIT
 *
 * Rules about the names of kernels and the way of computing. Names prove nothing by themselves; for receipts
 * of other tools they are all there is. For receipts of this toolchain, check_work.c checks their numbers
 * too.
 */
#define _POSIX_C_SOURCE 200809L /* fnmatch */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "kernels/kernels.h"
#include "lab/receipt/receipt.h"
#include "lab/verify/checks.h"

#define MAX_NAME_BYTES 128u
#define MAX_KERNELS 10000u

/* ---- classes of names ---- */

/* Whether a name fits one of these patterns. */
static bool fits(const char *name, const char *patterns)
{
    char pattern[24];
    for (size_t n; *patterns != '\0'; patterns += n + (patterns[n] == ' ')) {
        n = strcspn(patterns, " ");
        snprintf(pattern, sizeof pattern, "%.*s", (int)n, patterns);
        if (fnmatch(pattern, name, 0) == 0) return true;
    }
    return false;
}

static bool is_gpu(const char *name)
{
    return fits(name, "gemm_* wmma_* cublas_* cutlass_* cuda_* tl1_gpu_* tl2_gpu_* i2s_gpu_* i2s_quantize "
                      "i2s_dequantize");
}

/* Computing in floats on dequantised weights. */
static bool is_fallback(const char *name)
{
    return fits(name, "fp32_* fallback_* dequant_* scalar_* matmul_f32 *_dequant");
}

static bool is_ternary(const char *name)
{
    return fits(name, "ternary_* t5_* i2s_* tl1_* tl2_* tq1_* tq2_* grouped_*");
}

static bool is_cpu_ternary(const char *name)
{
    return is_ternary(name) && !is_gpu(name) && !is_fallback(name);
}

/* The engine's own, on a device. */
static bool is_of_device(const char *name)
{
    return bn_kernels_set_has(BN_RECEIPT_DEVICE_BACKEND, name);
}

static bool is_device_ternary(const char *name)
{
    return is_of_device(name) && is_ternary(name);
}

/* Works on quantised weights, on whatever device. */
static bool is_quantized(const char *name)
{
    return !is_fallback(name) && (is_ternary(name) || fits(name, "gemm_i2s_* wmma_i2s_* quantized_matmul_*"));
}

/* ---- walking the list ---- */

/* The next kernel's name after *at (NULL: the first), false at the end. Elements of another kind are
 * skipped: the rule kernels-present is about them. */
static bool next_name(const struct bn_check *c, const bn_json **at, const char **name)
{
    const bn_json *list = bn_json_get(c->p, "kernels");
    if (bn_json_kind(list) != BN_JSON_ARRAY) return false;
    do
        *at = *at == NULL ? bn_json_first(list) : bn_json_next(*at);
    while (*at != NULL && !bn_json_string(*at, name));
    return *at != NULL;
}

/* Is this kernel in the table that the receipt claims? The kernels of other tools are not known here, and
 * their names are taken as they are. Of a run on a device, only rows of the embedding are widened on the CPU. */
static bool is_known(const struct bn_check *c, const char *name)
{
    if (c->bare) return true;
    if (c->device && !fits(name, "*_to_f32_*")) return is_of_device(name);
    return bn_kernels_set_has(bn_json_text_of(c->p, "resolved.isa"), name);
}

enum known { ANY, KNOWN, UNKNOWN };

/* The first kernel of a class (NULL: of any) that is in the table, is not in it, or either; NULL when there
 * is none. */
static const char *find_kernel(const struct bn_check *c, bool (*is)(const char *), enum known known)
{
    const bn_json *at = NULL;
    const char *name = NULL;
    while (next_name(c, &at, &name))
        if ((is == NULL || is(name)) && (known == ANY || is_known(c, name) == (known == KNOWN))) return name;
    return NULL;
}

/* cpu when the receipt names none. */
static const char *backend_of(const struct bn_check *c)
{
    const char *backend = "cpu";
    (void)bn_json_string(bn_json_get(c->p, "backend"), &backend);
    return backend;
}

/* ---- how it was computed ---- */

bool bn_check_compute_path(const struct bn_check *c)
{
    const char *path = NULL;
    if (!bn_json_string(bn_json_get(c->p, "compute_path"), &path)) return FAIL(c, "compute_path is missing");
    if (strcmp(path, "real") != 0) return FAIL(c, "compute_path is \"%s\", not \"real\"", path);
    return PASS(c, "real");
}

bool bn_check_backend(const struct bn_check *c)
{
    static const char *const BACKENDS[] = {"cpu", "cuda", "gpu", "metal", BN_RECEIPT_DEVICE_BACKEND};
    const char *backend = NULL;
    if (!bn_rule_text(c, "backend", &backend)) return false;
    if (!c->bare && !c->device && strcmp(backend, "cpu") != 0)
        return FAIL(c, "\"%s\": this toolchain computes on the CPU or by OpenCL", backend);
    if (BN_HAS(BACKENDS, backend)) return PASS(c, "%s", backend);
    return FAIL(c, "unknown backend \"%s\"", backend);
}

/* What is certain. Whether there is such a device, no rule can tell. */
bool bn_check_device(const struct bn_check *c)
{
    static const char *const TYPES[] = {"GPU", "CPU", "accelerator"};
    const char *id = bn_json_text_of(c->p, "device.id"), *type = bn_json_text_of(c->p, "device.type");
    const size_t n_prefix = strlen(BN_RECEIPT_DEVICE_BACKEND ":");
    ull memory = bn_json_count_of(c->p, "device.memory"),
        weights = bn_plus(c->k->model.ternary_weights / 5, c->k->model.head_bytes); /* in the smallest form */
    if (c->bare) return SKIP(c, "a bare predicate does not describe it");
    if (c->device != bn_rule_has(c, "device"))
        return FAIL(c, c->device ? "backend is \"opencl\", and no device is described"
                                 : "a device is described, and backend is not \"opencl\"");
    if (!c->device) return SKIP(c, "the CPU computed");
    if (!BN_HAS(TYPES, type)) return FAIL(c, "device.type is \"%s\", not GPU, CPU or accelerator", type);
    if (strncmp(id, BN_RECEIPT_DEVICE_BACKEND ":", n_prefix) != 0 || id[n_prefix] == '\0' ||
        id[n_prefix + strspn(id + n_prefix, "0123456789")] != '\0')
        return FAIL(c, "device.id is \"%s\", not opencl:N", id);
    if (find_kernel(c, is_device_ternary, ANY) == NULL)
        return FAIL(c, "backend is \"opencl\", and no ternary kernel of OpenCL ran");
    if (memory < weights)
        return FAIL(c, "device.memory is %llu, and the weights take %llu bytes at least", memory, weights);
    return PASS(c, "%s, %s", type, bn_json_text_of(c->p, "device.name"));
}

bool bn_check_backend_summary(const struct bn_check *c)
{
    const char *text = NULL;
    const bn_json *summary = bn_json_get(c->p, "backend_summary");
    if (summary == NULL) return SKIP(c, "backend_summary is not claimed");
    if (!bn_json_string(summary, &text)) return FAIL(c, "backend_summary is not a text");
    if (text[0] != '\0' && strstr(text, "selected=") == NULL)
        return FAIL(c, "backend_summary does not say what was selected");
    return PASS(c, "%s", text[0] == '\0' ? "empty" : "says what was selected");
}

/* ---- the list itself ---- */

bool bn_check_kernels_present(const struct bn_check *c)
{
    const bn_json *list = bn_json_get(c->p, "kernels");
    const char *name;
    size_t n = bn_json_size(list);
    if (bn_json_kind(list) != BN_JSON_ARRAY) return FAIL(c, "kernels is not a list");
    if (n == 0) return FAIL(c, "kernels is empty: nothing was computed");
    if (n > MAX_KERNELS) return FAIL(c, "%zu kernels, at most %u are allowed", n, MAX_KERNELS);
    for (const bn_json *e = bn_json_first(list); e != NULL; e = bn_json_next(e)) {
        if (!bn_json_string(e, &name)) return FAIL(c, "kernels has an element that is not a text");
        if (name[strspn(name, " \t\r\n\v\f")] == '\0') return FAIL(c, "a kernel without a name");
        if (strlen(name) > MAX_NAME_BYTES)
            return FAIL(c, "a kernel's name of %zu bytes, at most %u are allowed", strlen(name),
                        MAX_NAME_BYTES);
    }
    return PASS(c, "%zu kernels", n);
}

/* Our dispatcher names each kernel once. Other tools may repeat: that is reported and passes. */
bool bn_check_kernels_repeated(const struct bn_check *c)
{
    size_t n = bn_json_size(bn_json_get(c->p, "kernels")), repeated = 0;
    const bn_json *at = NULL, *before = NULL;
    const char *name = NULL, *other = NULL;
    if (n > MAX_KERNELS) return FAIL(c, "%zu kernels are too many to compare", n);
    for (; next_name(c, &at, &name); before = NULL) {
        bool found = false;
        while (!found && next_name(c, &before, &other) && before != at)
            found = strcmp(name, other) == 0;
        repeated += found;
    }
    if (repeated > 0 && !c->bare) return FAIL(c, "%zu of %zu names are duplicates", repeated, n);
    if (repeated > 0) return PASS(c, "warning: %zu of %zu names are duplicates", repeated, n);
    return PASS(c, "each name once");
}

/* One of these words between underscores, or "mock" anywhere; in any case of letters. */
static bool is_mock(const char *name)
{
    static const char *const WORDS[] = {"placeholder", "fake", "dummy", "stub", "test", "simulated"};
    size_t n = strlen(name);
    for (size_t i = 0; i + 4 <= n; i++)
        if (strncasecmp(name + i, "mock", 4) == 0) return true;
    for (size_t i = 0; i < n; i += strcspn(name + i, "_-.:") + 1) {
        size_t length = strcspn(name + i, "_-.:");
        for (size_t w = 0; w < BN_ARRAY_LEN(WORDS); w++)
            if (strlen(WORDS[w]) == length && strncasecmp(name + i, WORDS[w], length) == 0) return true;
    }
    return false;
}

bool bn_check_kernels_mock(const struct bn_check *c)
{
    const char *name = find_kernel(c, is_mock, ANY);
    if (name != NULL) return FAIL(c, "\"%s\" is not a kernel of a real computation", name);
    return PASS(c, "no name says mock");
}

/* resolved.fallbacks, where a receipt has it, lists exactly the kernels of another instruction set. */
static const char *wrong_fallback(const struct bn_check *c, const char *isa)
{
    const bn_json *list = bn_json_path(c->p, "resolved.fallbacks"), *at = NULL;
    const bn_json *entry = bn_json_first(list);
    const char *name = NULL, *listed = NULL;
    if (list == NULL) return NULL;
    while (next_name(c, &at, &name)) {
        if (bn_receipt_other_isa(name, isa) == NULL) continue;
        if (entry == NULL || !bn_json_string(bn_json_get(entry, "kernel"), &listed) ||
            strcmp(listed, name) != 0)
            return name;
        entry = bn_json_next(entry);
    }
    return entry != NULL ? "one that did not run" : NULL;
}

/* Whatever version the receipt names: a version is only a claim, and a table that is not known proves
 * nothing.
 */
bool bn_check_kernels_known(const struct bn_check *c)
{
    const char *version = NULL, *isa = NULL;
    if (c->bare) return SKIP(c, "another tool's kernels are not known here");
    if (!bn_rule_text(c, "resolved.program.version", &version)) return false;
    if (!bn_rule_text(c, "resolved.isa", &isa)) return false;
    const char *name = find_kernel(c, NULL, UNKNOWN);
    const char *fallback = wrong_fallback(c, isa);
    if (name == NULL && fallback != NULL)
        return FAIL(c, "resolved.fallbacks is wrong about \"%s\"", fallback);
    if (name == NULL) return PASS(c, "all in the table of %s%s", c->device ? "opencl or " : "", isa);
    return FAIL(c, "the table of %s in version %s has no kernel \"%s\"",
                c->device ? BN_RECEIPT_DEVICE_BACKEND : isa, bn_version(), name);
}

/* ---- which kind of kernels ---- */

/* An empty list is the matter of kernels-present, not of every rule after it. */
static bool no_kernels(const struct bn_check *c)
{
    if (bn_json_size(bn_json_get(c->p, "kernels")) > 0) return false;
    SKIP(c, "there are no kernels");
    return true;
}

bool bn_check_gpu_kernels(const struct bn_check *c)
{
    if (no_kernels(c)) return false;
    bool claimed = strcasecmp(backend_of(c), "cuda") == 0 || strcasecmp(backend_of(c), "gpu") == 0;
    if (!claimed && !c->in->policy->require_gpu_kernels)
        return SKIP(c, "no GPU is claimed, nor asked for (--require-gpu-kernels)");
    /* Of a statement, the type of its device decides; what nothing binds is refused by bound-to-run. */
    const char *name = find_kernel(c, c->bare ? is_gpu : is_of_device, KNOWN);
    if (name == NULL || (c->device && strcmp(bn_json_text_of(c->p, "device.type"), "GPU") != 0))
        return FAIL(c, "%s, and %s", claimed ? "the backend is a GPU" : "a GPU is required",
                    name == NULL ? "no known kernel of a GPU ran" : "the device is not one");
    return PASS(c, "%s", name);
}

bool bn_check_cpu_kernels(const struct bn_check *c)
{
    if (no_kernels(c)) return false;
    if (strcasecmp(backend_of(c), "cpu") != 0) return SKIP(c, "the backend is not the CPU");
    const char *name = find_kernel(c, is_cpu_ternary, KNOWN);
    if (name == NULL)
        return FAIL(
            c,
            "the backend is the CPU, and no ternary kernel (ternary_, t5_, i2s_, tl1_, tl2_, tq2_, grouped_) ran");
    return PASS(c, "%s", name);
}

bool bn_check_quantization_claim(const struct bn_check *c)
{
    const char *fallback = find_kernel(c, is_fallback, ANY);
    if (fallback != NULL && find_kernel(c, is_quantized, ANY) == NULL)
        return FAIL(c, "compute_path is real, but the kernels are \"%s\" and other fallbacks", fallback);
    return PASS(c, "%s", fallback == NULL ? "no fallback kernel" : "quantised kernels and a fallback");
}

/* What --require-quantized-kernels asks: quantised ones, and no fallback. A name that is not in the table may
 * be anything. */
bool bn_check_quantized_kernels(const struct bn_check *c)
{
    const char *fallback = find_kernel(c, is_fallback, ANY), *name = find_kernel(c, is_quantized, KNOWN),
               *unknown = find_kernel(c, NULL, UNKNOWN);
    if (!c->in->policy->require_quantized_kernels)
        return SKIP(c, "not asked for (--require-quantized-kernels)");
    if (fallback != NULL) return FAIL(c, "\"%s\" computes on dequantised weights", fallback);
    if (unknown != NULL) return FAIL(c, "\"%s\" is not a known kernel", unknown);
    if (name == NULL) return FAIL(c, "no quantised kernel ran");
    return PASS(c, "%s", name);
}
