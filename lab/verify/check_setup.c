/* SPDX-License-Identifier: MIT
 *
 * Rules about what was set up for a run: the settings that were asked for and used, the instruction set, and
 * the machine, which a receipt describes in several places.
 */
#include <stdio.h>

#include "lab/receipt/receipt.h"
#include "lab/verify/checks.h"

/* The limits of bn-run and of the engine. */
#define MAX_THREADS 1024u
#define MAX_BATCH 4096u
#define MAX_PREDICT (1u << 24)
#define LEAST_RSS (1u << 20) /* less than the C library and any model take */

static bool is_bare(const struct bn_check *c)
{
    if (!c->bare) return false;
    SKIP(c, "a bare predicate does not describe it");
    return true;
}

bool bn_check_deterministic(const struct bn_check *c)
{
    bool claimed = false;
    if (is_bare(c)) return false;
    if (bn_json_bool(bn_json_get(c->p, "deterministic"), &claimed) && claimed) return PASS(c, "true");
    return FAIL(c, "deterministic is not true, which every run of this engine is");
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

bool bn_check_isa(const struct bn_check *c)
{
    const char *isa = NULL, *asked = bn_json_text_of(c->p, "request.isa"),
               *arch = bn_json_text_of(c->p, "machine.arch");
    if (is_bare(c)) return false;
    if (!bn_rule_text(c, "resolved.isa", &isa)) return false;
    const bn_json *flags = bn_json_path(c->p, "machine.cpu_flags");
    size_t i = BN_FIND(SETS, isa);
    if (i == BN_ARRAY_LEN(SETS)) return FAIL(c, "unknown instruction set \"%s\"", isa);
    if (asked[0] != '\0' && strcmp(asked, "auto") != 0 && strcmp(asked, isa) != 0)
        return FAIL(c, "request.isa is \"%s\", resolved.isa is \"%s\"", asked, isa);
    if (SETS[i].arch != NULL && arch[0] != '\0' && strcmp(arch, SETS[i].arch) != 0)
        return FAIL(c, "%s on a machine of type \"%s\"", isa, arch);
    bool described = bn_json_size(flags) > 0 || bn_json_text_of(c->p, "machine.cpu_model")[0] != '\0';
    if (SETS[i].flag != NULL && described && !bn_json_has_text(flags, SETS[i].flag))
        return FAIL(c, "%s on a CPU without %s", isa, SETS[i].flag);
    return PASS(c, "%s on %s", isa, arch[0] == '\0' ? "a machine of unknown type" : arch);
}

/* ---- threads, context, batch ---- */

bool bn_check_resources(const struct bn_check *c)
{
    ull threads = c->k->resolved.threads, ctx = c->k->resolved.ctx, batch = c->k->resolved.batch,
        most = c->k->model.n_ctx, asked_threads = c->k->request.threads, asked_ctx = c->k->request.ctx,
        asked_batch = c->k->request.batch; /* 0 for null */
    uint64_t online = MAX_THREADS;
    if (is_bare(c)) return false;
    if (!bn_rule_needs(c, "resolved.threads resolved.ctx resolved.batch model: n_ctx")) return false;
    (void)bn_json_u64(bn_json_path(c->p, "machine.cpus_online"), &online);
    if (threads == 0 || threads > MAX_THREADS || threads > online)
        return FAIL(c, "%llu threads, 1 to %llu are possible", threads,
                    (ull)(online < MAX_THREADS ? online : MAX_THREADS));
    if (asked_threads > 0 && threads > asked_threads)
        return FAIL(c, "%llu threads, %llu were asked for", threads, asked_threads);
    if (ctx == 0 || ctx > most) return FAIL(c, "a context of %llu tokens, the model has %llu", ctx, most);
    if (asked_ctx > 0 && ctx != asked_ctx)
        return FAIL(c, "a context of %llu tokens, %llu were asked for", ctx, asked_ctx);
    if (batch == 0 || batch > ctx || batch > MAX_BATCH)
        return FAIL(c, "batches of %llu tokens in a context of %llu", batch, ctx);
    if (asked_batch > 0 && batch != (asked_batch < ctx ? asked_batch : ctx))
        return FAIL(c, "batches of %llu tokens, %llu were asked for", batch, asked_batch);
    return PASS(c, "%llu threads, a context of %llu, batches of %llu", threads, ctx, batch);
}

/* ---- the machine ---- */

/* environment repeats other fields as texts, for readers of the older schema; null is left out. */
bool bn_check_environment(const struct bn_check *c)
{
    static const char *const COPIES[][2] = {{"OS", "machine.os"},
                                            {"ARCH", "machine.arch"},
                                            {"CPU_BRAND", "machine.cpu_model"},
                                            {"BN_VERSION", "resolved.program.version"},
                                            {"BITNET_VERSION", "resolved.program.version"}};
    char digits[24];
    if (is_bare(c)) return false;
    const bn_json *environment = bn_rule_claim(c, "environment");
    if (environment == NULL) return false;
    for (size_t i = 0; i < BN_ARRAY_LEN(COPIES); i++)
        if (strcmp(bn_json_text_of(environment, COPIES[i][0]), bn_json_text_of(c->p, COPIES[i][1])) != 0)
            return FAIL(c, "environment.%s is not %s", COPIES[i][0], COPIES[i][1]);
    if (!bn_rule_needs(c, "resolved.threads")) return false;
    snprintf(digits, sizeof digits, "%llu", c->k->resolved.threads);
    if (!bn_json_text_is(environment, "THREADS", digits))
        return FAIL(c, "environment.THREADS is not resolved.threads");
    return PASS(c, "the same as in machine and resolved");
}

bool bn_check_machine(const struct bn_check *c)
{
    uint64_t page = 0, memory = UINT64_MAX, peak = LEAST_RSS;
    if (is_bare(c)) return false;
    (void)bn_json_u64(bn_json_path(c->p, "machine.memory_bytes"), &memory);
    (void)bn_json_u64(bn_json_path(c->p, "measurement.peak_rss_bytes"), &peak);
    if (peak < LEAST_RSS || peak > memory)
        return FAIL(c, "measurement.peak_rss_bytes is %llu, of %llu bytes of memory", (ull)peak, (ull)memory);
    const bn_json *machine = bn_json_get(c->p, "machine");
    const bn_json *load = bn_json_get(machine, "load_milli"),
                  *hypervisor = bn_json_get(machine, "hypervisor");
    bool paged = bn_json_u64(bn_json_get(machine, "page_bytes"), &page);
    bool quota = bn_json_kind(bn_json_get(machine, "cpu_quota_us")) != BN_JSON_NULL,
         period = bn_json_kind(bn_json_get(machine, "cpu_period_us")) != BN_JSON_NULL;
    if (strcmp(bn_json_text_of(machine, "arch"), bn_json_text_of(c->p, "resolved.program.arch")) != 0)
        return FAIL(c, "machine.arch and resolved.program.arch contradict each other");
    if (paged && (page & (page - 1)) != 0)
        return FAIL(c, "machine.page_bytes is %llu, not a power of two", (ull)page);
    if (bn_json_kind(load) == BN_JSON_ARRAY && bn_json_size(load) != 3)
        return FAIL(c, "machine.load_milli has %zu numbers instead of 3", bn_json_size(load));
    if (quota != period)
        return FAIL(c, "machine.cpu_quota_us without machine.cpu_period_us, or the other way round");
    if (hypervisor == NULL ||
        (bn_json_kind(hypervisor) != BN_JSON_NULL && bn_json_kind(hypervisor) != BN_JSON_BOOL))
        return FAIL(c, "machine.hypervisor is not true, false or null");
    return PASS(c, "as the signer describes it");
}

/* ---- fields that no other rule reads ----
 *
 * A statement of this toolchain has every one of them, with the type that docs/reference/receipt.md gives it. Fields that
 * the page does not name are left alone. */

enum kind { TEXT, DIGEST, COUNT, TEXTS, NUMBERS, WHOLE, BINARY32 };

#define NULLABLE true

struct field {
    const char *paths; /* as bn_rule_needs has them */
    enum kind kind;
    bool nullable;
    double least, most; /* of the last two kinds */
};

static const struct field FIELDS[] = {
    {"model: arch resolved.program: compiler", TEXT, false, 0, 0},
    {"model: path quantization request: isa template resolved.program: name git: branch "
     "machine: os kernel arch cpu_model microcode governor",
     TEXT, NULLABLE, 0, 0},
    {"request: prompt_sha256 resolved: tokenizer_sha256 resolved.program: sha256 result: text_sha256 chain",
     DIGEST, NULLABLE, 0, 0},
    {"request: threads ctx batch measurement: load_ns peak_rss_bytes bandwidth_probe_bytes_per_s "
     "machine: cpus_online cpus_usable cores cache_l2_bytes cache_l3_bytes memory_bytes page_bytes cpu_quota_us "
     "cpu_period_us",
     COUNT, NULLABLE, 0, 0},
    {"machine: cpu_flags", TEXTS, false, 0, 0},
    {"?device: id type", TEXT, false, 0, 0},
    {"?device: name vendor platform driver version", TEXT, NULLABLE, 0, 0},
    {"?device: program", DIGEST, false, 0, 0},
    {"?device: memory", COUNT, false, 0, 0},
    {"machine: load_milli", NUMBERS, NULLABLE, 0, 0},
};

/* The ranges of the sampler. */
static const struct field SETTINGS[] = {
    {"request: n_predict", WHOLE, false, 1, MAX_PREDICT},
    {"request: top_k repeat_last", WHOLE, false, 0, UINT32_MAX},
    {"request: temperature", BINARY32, false, 0, 100},
    {"request: top_p min_p", BINARY32, false, 0, 1},
    {"request: repeat_penalty", BINARY32, false, 1, 100},
    {"request: ?presence_penalty ?frequency_penalty", BINARY32, false, -2, 2}};

/* What cannot be read is null: a text is not empty, and a count is not 0. */
static const char *fault_of(const bn_json *value, const struct field *field)
{
    const char *text = NULL;
    uint64_t number = 0;
    double real = 0;
    switch (field->kind) {
    case TEXT:
        return bn_json_string(value, &text) && text[0] != '\0' ? NULL : "a text";
    case DIGEST:
        return bn_json_string(value, &text) && bn_is_sha256(text) ? NULL
                                                                  : "64 hexadecimal digits in lower case";
    case COUNT:
        return bn_json_u64(value, &number) && number > 0 ? NULL : "a whole number from 1 on";
    case TEXTS:
        return bn_rule_is_list(value, true) ? NULL : "a list of texts";
    case NUMBERS:
        return bn_rule_is_list(value, false) ? NULL : "a list of whole numbers";
    case WHOLE:
        return bn_json_u64(value, &number) && (double)number >= field->least && (double)number <= field->most
                   ? NULL
                   : "a whole number";
    case BINARY32:
        return bn_json_number(value, &real) && (double)(float)real >= field->least &&
                       (double)(float)real <= field->most
                   ? NULL
                   : "a number";
    }
    return "known";
}

/* *n: how many they are. */
static bool fields_fit(const struct bn_check *c, const struct field *fields, size_t n_rows, size_t *n)
{
    *n = 0;
    for (const struct field *f = fields; f < fields + n_rows; f++) {
        struct bn_rule_paths p = {.at = f->paths};
        for (; bn_rule_next_path(c, &p); ++*n) {
            const bn_json *value = bn_rule_claim(c, p.path);
            if (value == NULL) return false;
            const char *expected =
                f->nullable && bn_json_kind(value) == BN_JSON_NULL ? NULL : fault_of(value, f);
            if (expected != NULL && f->most > 0)
                return FAIL(c, "%s is not %s from %g to %g", p.path, expected, f->least, f->most);
            if (expected != NULL)
                return FAIL(c, "%s is not %s%s", p.path, expected, f->nullable ? " or null" : "");
        }
    }
    return true;
}

bool bn_check_fields(const struct bn_check *c)
{
    size_t n;
    if (c->bare) return SKIP(c, "a bare predicate may leave fields out");
    return fields_fit(c, FIELDS, BN_ARRAY_LEN(FIELDS), &n) && PASS(c, "%zu fields of the right type", n);
}

/* ---- sampling ---- */

bool bn_check_sampling(const struct bn_check *c)
{
    bool flag;
    uint64_t *ids, seed, largest = 0, n_vocab = 0;
    size_t n;
    bn_candidate *bias = NULL;
    bn_sampler_options sampling = BN_SAMPLER_OPTIONS_INIT;
    bn_error err = {0};
    const bn_json *request = bn_json_get(c->p, "request");
    if (is_bare(c) || !fields_fit(c, SETTINGS, BN_ARRAY_LEN(SETTINGS), &n) ||
        !bn_rule_list(c, "request.stop_ids", &ids, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (ids[i] > largest) largest = ids[i];
    bn_free(ids);
    if (largest > INT32_MAX) return FAIL(c, "request.stop_ids has %llu", (ull)largest);
    (void)bn_json_u64(bn_json_path(c->p, "model.n_vocab"), &n_vocab);
    bn_status status = bn_receipt_bias(&bias, &sampling, bn_json_get(request, "logit_bias"), n_vocab, &err);
    bn_free(bias);
    if (status == BN_ERR_NOMEM) return bn_rule_error(c, status);
    if (status != BN_OK) return FAIL(c, "request.%s", err.msg);
    if (!bn_receipt_seed(bn_json_get(request, "seed"), &seed))
        return FAIL(c, "request.seed is not a number below 2^64");
    const bn_json *stops = bn_json_get(request, "stops");
    if (!bn_rule_is_list(stops, true) || bn_json_size(stops) > BN_RECEIPT_MAX_STOPS)
        return FAIL(c, "request.stops is not a list of at most %u texts", BN_RECEIPT_MAX_STOPS);
    if (!bn_json_bool(bn_json_get(request, "ignore_end"), &flag))
        return FAIL(c, "request.ignore_end is not true or false");
    return PASS(c, "every setting is one that the sampler takes");
}
