/* SPDX-License-Identifier: MIT
 *
 * Rules about what was set up for a run: the settings that were asked for and used, the instruction set, and
 * the machine, which a receipt describes in several places.
 */
#include <math.h>
#include <stdio.h>

#include "lab/receipt/receipt.h"
#include "lab/verify/checks.h"

typedef unsigned long long ull;

/* The limits of bn-run and of the engine. */
#define MAX_THREADS 1024u
#define MAX_BATCH 4096u
#define MAX_PREDICT (1u << 24)
#define LEAST_RSS (1u << 20) /* less than the C library and any model take */

static bool is_bare(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    if (in->receipt->statement != NULL) return false;
    bn_rule_skip(out, "a bare predicate does not describe it");
    return true;
}

/* A text or null; NULL for null. */
static bool text_or_null(const struct bn_rules_input *in, const char *path, const char **text,
                         struct bn_rule_result *out)
{
    *text = NULL;
    const bn_json *claim = bn_rule_claim(in, path, out);
    if (claim == NULL) return false;
    if (bn_json_kind(claim) == BN_JSON_NULL || bn_json_string(claim, text)) return true;
    return bn_rule_fail(out, "%s is not a text or null", path);
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL ? b == NULL : b != NULL && strcmp(a, b) == 0;
}

bool bn_check_deterministic(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    bool claimed = false;
    if (is_bare(in, out)) return false;
    if (bn_json_bool(bn_json_get(in->receipt->predicate, "deterministic"), &claimed) && claimed)
        return bn_rule_pass(out, "true");
    return bn_rule_fail(out, "deterministic is not true, which every run of this engine is");
}

/* ---- instruction set ---- */

static const struct {
    const char *isa, *arch, *flag; /* a flag that /proc/cpuinfo has had for longer than the kernels exist */
} SETS[] = {
    {"ref", NULL, NULL},
    {"avx2", "x86_64", "avx2"},
    {"avxvnni", "x86_64", "avx2"},
    {"avx512vnni", "x86_64", "avx512f"},
    {"avx512vbmi", "x86_64", "avx512f"},
    {"amx", "x86_64", "amx_int8"}, /* as old as the tiles in Linux */
    {"neon", "aarch64", NULL},
};

bool bn_check_isa(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const char *isa = NULL, *asked, *arch;
    char quoted[80], other[80];
    size_t i = 0;
    if (is_bare(in, out)) return false;
    if (!bn_rule_text(in, "resolved.isa", &isa, out) || !text_or_null(in, "request.isa", &asked, out) ||
        !text_or_null(in, "machine.arch", &arch, out))
        return false;
    const bn_json *flags = bn_json_path(in->receipt->predicate, "machine.cpu_flags");
    while (i < BN_ARRAY_LEN(SETS) && strcmp(SETS[i].isa, isa) != 0)
        i++;
    if (i == BN_ARRAY_LEN(SETS))
        return bn_rule_fail(out, "unknown instruction set \"%s\"", bn_rule_quote(quoted, isa));
    if (asked != NULL && strcmp(asked, "auto") != 0 && strcmp(asked, isa) != 0)
        return bn_rule_fail(out, "request.isa is \"%s\", resolved.isa is \"%s\"", bn_rule_quote(other, asked),
                            isa);
    if (SETS[i].arch != NULL && arch != NULL && strcmp(arch, SETS[i].arch) != 0)
        return bn_rule_fail(out, "%s on a machine of type \"%s\"", isa, bn_rule_quote(quoted, arch));
    bool described =
        bn_json_size(flags) > 0 || bn_json_text_of(in->receipt->predicate, "machine.cpu_model")[0] != '\0';
    if (SETS[i].flag != NULL && described && !bn_json_has_text(flags, SETS[i].flag))
        return bn_rule_fail(out, "%s on a CPU without %s", isa, SETS[i].flag);
    return bn_rule_pass(out, "%s on %s", isa, arch == NULL ? "a machine of unknown type" : arch);
}

/* ---- threads, context, batch ---- */

/* A number that was asked for, 0 for null. */
static bool asked_for(const struct bn_rules_input *in, const char *path, uint64_t *value,
                      struct bn_rule_result *out)
{
    *value = 0;
    const bn_json *claim = bn_rule_claim(in, path, out);
    if (claim == NULL) return false;
    if (bn_json_kind(claim) == BN_JSON_NULL || (bn_json_u64(claim, value) && *value > 0)) return true;
    return bn_rule_fail(out, "%s is not a whole number from 1 on or null", path);
}

bool bn_check_resources(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    uint64_t threads, ctx, batch, most, asked_threads, asked_ctx, asked_batch, online = MAX_THREADS;
    if (is_bare(in, out)) return false;
    if (!bn_rule_u64(in, "resolved.threads", &threads, out) || !bn_rule_u64(in, "resolved.ctx", &ctx, out) ||
        !bn_rule_u64(in, "resolved.batch", &batch, out) || !bn_rule_u64(in, "model.n_ctx", &most, out) ||
        !asked_for(in, "request.threads", &asked_threads, out) ||
        !asked_for(in, "request.ctx", &asked_ctx, out) || !asked_for(in, "request.batch", &asked_batch, out))
        return false;
    uint64_t wanted_batch = asked_batch < ctx ? asked_batch : ctx;
    (void)bn_json_u64(bn_json_path(in->receipt->predicate, "machine.cpus_online"), &online);
    if (threads == 0 || threads > MAX_THREADS || threads > online)
        return bn_rule_fail(out, "%llu threads, 1 to %llu are possible", (ull)threads,
                            (ull)(online < MAX_THREADS ? online : MAX_THREADS));
    if (asked_threads > 0 && threads > asked_threads)
        return bn_rule_fail(out, "%llu threads, %llu were asked for", (ull)threads, (ull)asked_threads);
    if (ctx == 0 || ctx > most)
        return bn_rule_fail(out, "a context of %llu tokens, the model has %llu", (ull)ctx, (ull)most);
    if (asked_ctx > 0 && ctx != asked_ctx)
        return bn_rule_fail(out, "a context of %llu tokens, %llu were asked for", (ull)ctx, (ull)asked_ctx);
    if (batch == 0 || batch > ctx || batch > MAX_BATCH)
        return bn_rule_fail(out, "batches of %llu tokens in a context of %llu", (ull)batch, (ull)ctx);
    if (asked_batch > 0 && batch != wanted_batch)
        return bn_rule_fail(out, "batches of %llu tokens, %llu were asked for", (ull)batch, (ull)asked_batch);
    return bn_rule_pass(out, "%llu threads, a context of %llu, batches of %llu", (ull)threads, (ull)ctx,
                        (ull)batch);
}

/* ---- sampling ---- */

static bool whole_settings(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const struct {
        const char *path;
        uint64_t least, most;
    } WHOLE[] = {{"request.n_predict", 1, MAX_PREDICT},
                 {"request.top_k", 0, UINT32_MAX},
                 {"request.repeat_last", 0, UINT32_MAX}};
    for (size_t i = 0; i < BN_ARRAY_LEN(WHOLE); i++) {
        uint64_t value;
        if (!bn_rule_u64(in, WHOLE[i].path, &value, out)) return false;
        if (value >= WHOLE[i].least && value <= WHOLE[i].most) continue;
        return bn_rule_fail(out, "%s is %llu, %llu to %llu are possible", WHOLE[i].path, (ull)value,
                            (ull)WHOLE[i].least, (ull)WHOLE[i].most);
    }
    return true;
}

/* The ranges of the sampler, which takes binary32. */
static bool real_settings(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const struct {
        const char *path;
        float least, most;
    } REAL[] = {{"request.temperature", 0, 100},
                {"request.top_p", 0, 1},
                {"request.min_p", 0, 1},
                {"request.repeat_penalty", 1, 100}};
    for (size_t i = 0; i < BN_ARRAY_LEN(REAL); i++) {
        double value = -1;
        const bn_json *claim = bn_rule_claim(in, REAL[i].path, out);
        if (claim == NULL) return false;
        if (bn_json_number(claim, &value) && (float)value >= REAL[i].least && (float)value <= REAL[i].most)
            continue;
        return bn_rule_fail(out, "%s is not a number from %g to %g", REAL[i].path, (double)REAL[i].least,
                            (double)REAL[i].most);
    }
    return true;
}

bool bn_check_sampling(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    bool flag;
    uint64_t *ids, seed;
    size_t n;
    const bn_json *request = bn_json_get(in->receipt->predicate, "request");
    if (is_bare(in, out)) return false;
    if (!whole_settings(in, out) || !real_settings(in, out)) return false;
    if (!bn_rule_list(in, "request.stop_ids", &ids, &n, out)) return false;
    uint64_t largest = 0;
    for (size_t i = 0; i < n; i++)
        if (ids[i] > largest) largest = ids[i];
    bn_free(ids);
    if (largest > INT32_MAX) return bn_rule_fail(out, "request.stop_ids has %llu", (ull)largest);
    if (!bn_receipt_seed(bn_json_get(request, "seed"), &seed))
        return bn_rule_fail(out, "request.seed is not a number below 2^64");
    const bn_json *stops = bn_json_get(request, "stops");
    if (!bn_rule_is_list(stops, true) || bn_json_size(stops) > BN_RECEIPT_MAX_STOPS)
        return bn_rule_fail(out, "request.stops is not a list of at most %u texts", BN_RECEIPT_MAX_STOPS);
    if (!bn_json_bool(bn_json_get(request, "ignore_end"), &flag))
        return bn_rule_fail(out, "request.ignore_end is not true or false");
    return bn_rule_pass(out, "every setting is one that the sampler takes");
}

/* ---- the machine ---- */

/* environment repeats other fields as texts, for readers of the older schema; null is left out. */
bool bn_check_environment(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const char *const COPIES[][2] = {{"OS", "machine.os"},
                                            {"ARCH", "machine.arch"},
                                            {"CPU_BRAND", "machine.cpu_model"},
                                            {"BN_VERSION", "resolved.program.version"},
                                            {"BITNET_VERSION", "resolved.program.version"}};
    char digits[24];
    uint64_t threads;
    if (is_bare(in, out)) return false;
    const bn_json *environment = bn_rule_claim(in, "environment", out);
    if (environment == NULL) return false;
    for (size_t i = 0; i < BN_ARRAY_LEN(COPIES); i++) {
        const char *original, *copy = NULL;
        (void)bn_json_string(bn_json_get(environment, COPIES[i][0]), &copy);
        if (!text_or_null(in, COPIES[i][1], &original, out)) return false;
        if (same_text(copy, original)) continue;
        return bn_rule_fail(out, "environment.%s is not %s", COPIES[i][0], COPIES[i][1]);
    }
    const char *copy = NULL;
    if (!bn_rule_u64(in, "resolved.threads", &threads, out)) return false;
    snprintf(digits, sizeof digits, "%llu", (ull)threads);
    (void)bn_json_string(bn_json_get(environment, "THREADS"), &copy);
    if (!same_text(copy, digits)) return bn_rule_fail(out, "environment.THREADS is not resolved.threads");
    return bn_rule_pass(out, "the same as in machine and resolved");
}

bool bn_check_machine(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const char *arch, *program;
    uint64_t page = 0, memory = UINT64_MAX, peak = LEAST_RSS;
    if (is_bare(in, out)) return false;
    (void)bn_json_u64(bn_json_path(in->receipt->predicate, "machine.memory_bytes"), &memory);
    (void)bn_json_u64(bn_json_path(in->receipt->predicate, "measurement.peak_rss_bytes"), &peak);
    if (peak < LEAST_RSS || peak > memory)
        return bn_rule_fail(out, "measurement.peak_rss_bytes is %llu, of %llu bytes of memory", (ull)peak,
                            (ull)memory);
    if (!text_or_null(in, "machine.arch", &arch, out) ||
        !text_or_null(in, "resolved.program.arch", &program, out))
        return false;
    const bn_json *machine = bn_json_get(in->receipt->predicate, "machine");
    const bn_json *load = bn_json_get(machine, "load_milli"),
                  *hypervisor = bn_json_get(machine, "hypervisor");
    bool paged = bn_json_u64(bn_json_get(machine, "page_bytes"), &page);
    bool quota = bn_json_kind(bn_json_get(machine, "cpu_quota_us")) != BN_JSON_NULL,
         period = bn_json_kind(bn_json_get(machine, "cpu_period_us")) != BN_JSON_NULL;
    if (!same_text(arch, program))
        return bn_rule_fail(out, "machine.arch and resolved.program.arch contradict each other");
    if (paged && (page & (page - 1)) != 0)
        return bn_rule_fail(out, "machine.page_bytes is %llu, not a power of two", (ull)page);
    if (bn_json_kind(load) == BN_JSON_ARRAY && bn_json_size(load) != 3)
        return bn_rule_fail(out, "machine.load_milli has %zu numbers instead of 3", bn_json_size(load));
    if (quota != period)
        return bn_rule_fail(out,
                            "machine.cpu_quota_us without machine.cpu_period_us, or the other way round");
    if (hypervisor == NULL ||
        (bn_json_kind(hypervisor) != BN_JSON_NULL && bn_json_kind(hypervisor) != BN_JSON_BOOL))
        return bn_rule_fail(out, "machine.hypervisor is not true, false or null");
    return bn_rule_pass(out, "as the signer describes it");
}
