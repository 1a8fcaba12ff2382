/* SPDX-License-Identifier: MIT
 *
 * receipt/rules.h: each rule sees the fault that is planted for it in a good receipt
 * (fixtures/receipts/statement.json, sealed again after the change), and no other rule complains.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "lab/receipt/receipt.h"
#include "lab/receipt/rules.h"

#define NOW 1772360000 /* some minutes after the fixture's timestamp */

static bn_json *load(const char *path)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bn_json *root;
    assert_int_equal(bn_file_read(path, &text, NULL), BN_OK);
    assert_int_equal(bn_json_parse(&root, text.data, text.len, NULL), BN_OK);
    bn_buf_release(&text);
    return root;
}

/* The value at a path such as "predicate.measurement.kernel_stats.9": numbers index lists. */
static bn_json *find(bn_json *root, const char *path, size_t n)
{
    const bn_json *at = root;
    for (const char *p = path; p < path + n;) {
        char name[64];
        size_t length = strcspn(p, ".");
        if (p + length > path + n) length = (size_t)(path + n - p);
        snprintf(name, sizeof name, "%.*s", (int)length, p);
        at = bn_json_kind(at) == BN_JSON_ARRAY ? bn_json_at(at, strtoul(name, NULL, 10))
                                               : bn_json_get(at, name);
        p += length + 1;
    }
    if (at == NULL) print_message("no %.*s\n", (int)n, path);
    assert_non_null(at);
    return (bn_json *)(uintptr_t)at;
}

/* Puts the JSON text value at path; "" removes the member, and "+" for a name appends to a list. */
static void edit(bn_json *root, const char *path, const char *value)
{
    const char *dot = strrchr(path, '.');
    bn_json *parent = find(root, path, dot == NULL ? 0 : (size_t)(dot - path));
    const char *name = dot == NULL ? path : dot + 1;
    bn_json *literal;
    const char *text;
    if (value[0] == '\0') {
        bn_json_remove(parent, name);
        return;
    }
    assert_int_equal(bn_json_parse(&literal, value, strlen(value), NULL), BN_OK);
    if (strcmp(name, "+") != 0) {
        bn_json_put_copy(parent, name, literal);
    } else if (bn_json_string(literal, &text)) {
        bn_json_add_string(parent, text);
    } else {
        bn_json *object = bn_json_add_object(parent);
        for (const bn_json *m = bn_json_first(literal); m != NULL; m = bn_json_next(m))
            bn_json_put_copy(object, bn_json_name(m), m);
    }
    bn_json_free(literal);
}

static void write_text(const bn_json *root, struct bn_buf *text)
{
    *text = (struct bn_buf){.max = BN_JSON_MAX_BYTES};
    assert_int_equal(bn_json_write(root, false, text, NULL), BN_OK);
}

/* Runs the rules over a tree, as if it had been read from a file. */
static void run_rules(const bn_json *root, struct bn_rules_input *in, struct bn_rules_report *report)
{
    static struct bn_receipt_policy defaults;
    struct bn_receipt receipt;
    struct bn_buf text;
    bn_receipt_policy_defaults(&defaults);
    write_text(root, &text);
    assert_int_equal(bn_receipt_open(&receipt, text.data, text.len, NULL, NULL), BN_OK);
    bn_buf_release(&text);
    in->receipt = &receipt;
    if (in->policy == NULL) in->policy = &defaults;
    if (in->now_utc == 0) in->now_utc = NOW;
    assert_int_equal(bn_rules_run(report, in, NULL), BN_OK);
    bn_receipt_release(&receipt);
}

/* The ids of the rules that failed, joined by commas. */
static const char *failures(const struct bn_rules_report *report)
{
    static char list[512];
    list[0] = '\0';
    for (size_t i = 0; bn_rules_at(i) != NULL; i++)
        if (report->results[i].verdict == BN_VERDICT_FAIL) {
            size_t n = strlen(list);
            snprintf(list + n, sizeof list - n, "%s%s", n > 0 ? "," : "", bn_rules_at(i)->id);
        }
    return list;
}

static const char *reason_of(const struct bn_rules_report *report, const char *id)
{
    for (size_t i = 0; bn_rules_at(i) != NULL; i++)
        if (strcmp(bn_rules_at(i)->id, id) == 0) return report->results[i].reason;
    return "";
}

static void the_fixture_verifies(void **state)
{
    (void)state;
    bn_json *root = load("fixtures/receipts/statement.json");
    struct bn_rules_input in = {0};
    struct bn_rules_report report;
    run_rules(root, &in, &report);
    assert_string_equal(failures(&report), "");
    assert_true(report.verified && report.bound && report.reached);
    assert_int_equal(report.level, BN_LEVEL_CONSISTENCY);
    assert_int_equal(report.exit_code, BN_EXIT_OK);
    assert_int_equal(report.n_passed + report.n_skipped,
                     report.n_passed + report.n_failed + report.n_skipped);
    bn_json_free(root);
}

#define P "predicate."
#define M P "measurement."
#define ENTRY(name) "{\"name\":\"" name "\",\"calls\":1,\"ns\":0,\"bytes\":0,\"ops\":0}"

static const struct fault {
    const char *rule;
    const char *path, *value;
    const char *path2, *value2; /* a second edit, where one cannot do it alone */
} FAULTS[] = {
    /* subjects */
    {"subject", "subject", "[]", NULL, NULL},
    {"subject", "subject", "", NULL, NULL},
    {"subject", "subject.0.digest", "{\"sha1\":\"da39a3ee5e6b4b0d3255bfef95601890afd80709\"}", NULL, NULL},
    {"subject", "subject.0.digest.sha256",
     "\"FABCDB914A48E922468AE05FE45BB16CFBECC84DB421FBBAB966621515803228\"", NULL, NULL},
    {"subject", "subject.0.digest.sha256",
     "\"abcdb914a48e922468ae05fe45bb16cfbecc84db421fbbab966621515803228\"", NULL, NULL},
    {"subject", "subject.0.digest.sha256",
     "\"0000000000000000000000000000000000000000000000000000000000000000\"", NULL, NULL},
    {"subject", "subject.1.name", "\"text\"", NULL, NULL},
    {"subject", P "model.sha256", "\"0000000000000000000000000000000000000000000000000000000000000000\"",
     NULL, NULL},
    {"subject", "subject.+",
     "{\"name\":\"other.gguf\",\"digest\":{\"sha256\":"
     "\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\"}}",
     NULL, NULL},
    {"subject", "subject.0.name", "\"other.gguf\"", NULL, NULL},
    {"subject", "subject.0.uri", "\"https://example.org/other.gguf\"", NULL, NULL},
    {"subject", "subject.1.digest.sha512", "\"00\"", NULL, NULL},
    {"subject", P "model.path", "\"other.gguf\"", NULL, NULL},
    /* digests next to their content */
    {"ids-digest", P "result.ids", "[440,11,298,337,407,604,277,1]", NULL, NULL},
    {"ids-digest", P "request.prompt_ids_sha256",
     "\"0000000000000000000000000000000000000000000000000000000000000000\"", NULL, NULL},
    {"ids-digest", P "request.prompt_ids", "[1,-2]", NULL, NULL},
    {"ids-digest", P "request.prompt_ids", "[1,4294967296]", NULL, NULL},
    {"text-digest", P "request.prompt", "\"JULIET:\"", NULL, NULL},
    {"text-digest", P "result.text", "\"x\"", NULL, NULL},
    /* schema, time, request */
    {"schema-version", P "schema_version", "\"1.1.0\"", NULL, NULL},
    {"schema-version", P "schema_version", "1.0", NULL, NULL},
    {"timestamp", P "timestamp", "\"2026-03-01\"", NULL, NULL},
    {"timestamp", P "timestamp", "\"2026-13-01T00:00:00Z\"", NULL, NULL},
    {"timestamp", P "timestamp", "\"2026-03-01T09:30:00\"", NULL, NULL},
    {"timestamp", P "timestamp", "\"2026-03-01T09:30:00.Z\"", NULL, NULL},
    {"timestamp", P "timestamp", "\"2026-03-01T09:30:00+24:00\"", NULL, NULL},
    {"timestamp", P "timestamp", "\"2027-03-01T09:30:00Z\"", NULL, NULL},
    {"timestamp", P "timestamp", "\"2026-03-01T09:30:00-12:00\"", NULL, NULL},
    {"timestamp", P "timestamp", "1772357400", NULL, NULL},
    {"request-fields", P "request.logit_bias", "{}", NULL, NULL},
    {"request-fields", P "request.Seed", "42", NULL, NULL},
    {"timestamp", P "timestamp", "\"2025-12-31T23:59:59Z\"", NULL, NULL},
    /* fields that no other rule reads */
    {"fields", P "machine.kernel", "7", NULL, NULL},
    {"fields", P "machine.cpu_model", "\"\"", P "environment.CPU_BRAND", "\"\""},
    {"fields", P "machine.cpus_online", "0", NULL, NULL},
    {"fields", P "machine.memory_bytes", "1.5", NULL, NULL},
    {"fields", P "machine.load_milli", "[1,\"2\",3]", NULL, NULL},
    {"fields", P "machine.cpu_flags", "{}", P "resolved.isa", "\"ref\""},
    {"fields", P "model.arch", "null", NULL, NULL},
    {"fields", P "result.chain", "\"00\"", NULL, NULL},
    {"fields", P "resolved.tokenizer_sha256", "\"x\"", NULL, NULL},
    {"fields", P "resolved.program.compiler", "null", NULL, NULL},
    {"fields", M "load_ns", "0", NULL, NULL},
    {"fields", M "peak_rss_bytes", "\"much\"", NULL, NULL},
    /* settings */
    {"sampling", P "request.temperature", "-0.5", NULL, NULL},
    {"sampling", P "request.temperature", "101", NULL, NULL},
    {"sampling", P "request.top_p", "0", NULL, NULL},
    {"sampling", P "request.top_p", "1.5", NULL, NULL},
    {"sampling", P "request.min_p", "\"0\"", NULL, NULL},
    {"sampling", P "request.repeat_penalty", "0.5", NULL, NULL},
    {"sampling", P "request.top_k", "4294967296", NULL, NULL},
    {"sampling", P "request.repeat_last", "-1", NULL, NULL},
    {"sampling", P "request.seed", "\"18446744073709551616\"", NULL, NULL},
    {"sampling", P "request.seed", "\"1e3\"", NULL, NULL},
    {"sampling", P "request.stop_ids", "[2147483648]", NULL, NULL},
    {"sampling", P "request.stops", "[1]", NULL, NULL},
    {"sampling", P "request.ignore_end", "0", NULL, NULL},
    {"isa", P "request.isa", "\"avx2\"", NULL, NULL},
    {"isa", P "request.isa", "0", NULL, NULL},
    {"resources", P "resolved.threads", "4503599627370496", P "environment.THREADS", "\"4503599627370496\""},
    {"resources", P "resolved.threads", "3", P "environment.THREADS", "\"3\""},
    {"resources", P "request.threads", "0", NULL, NULL},
    {"resources", P "request.threads", "1", NULL, NULL},
    {"resources", P "request.ctx", "512", NULL, NULL},
    {"resources", P "resolved.ctx", "2048", NULL, NULL},
    {"resources", P "model.n_ctx", "1023", NULL, NULL},
    {"resources", P "request.batch", "64", NULL, NULL},
    {"resources", P "resolved.batch", "2000", NULL, NULL},
    {"environment", P "environment.THREADS", "\"64\"", NULL, NULL},
    {"environment", P "environment.CPU_BRAND", "\"Another CPU\"", NULL, NULL},
    {"environment", P "environment.OS", "", NULL, NULL},
    {"environment", P "environment.BITNET_VERSION", "\"0.2.0\"", NULL, NULL},
    {"environment", P "resolved.program.version", "\"0.2.0\"", NULL, NULL},
    {"environment", P "machine.os", "null", NULL, NULL},
    {"machine", P "resolved.program.arch", "\"aarch64\"", NULL, NULL},
    {"machine", P "machine.page_bytes", "4095", NULL, NULL},
    {"machine", P "machine.load_milli", "[1,2]", NULL, NULL},
    {"machine", P "machine.cpu_quota_us", "100000", NULL, NULL},
    {"machine", P "machine.hypervisor", "\"no\"", NULL, NULL},
    /* how it was computed */
    {"deterministic", P "deterministic", "false", NULL, NULL},
    {"deterministic", P "deterministic", "\"true\"", NULL, NULL},
    {"backend", P "backend", "\"metal\"", NULL, NULL},
    {"compute-path", P "compute_path", "\"mock\"", NULL, NULL},
    {"compute-path", P "compute_path", "\"Real\"", NULL, NULL},
    {"backend", P "backend", "\"rocm\"", NULL, NULL},
    {"backend", P "backend", "null", NULL, NULL},
    {"backend-summary", P "backend_summary", "\"requested=auto\"", NULL, NULL},
    {"kernels-known", P "kernels.+", "\"gemm_fp16\"", M "kernel_stats.+", ENTRY("gemm_fp16")},
    {"kernels-known", P "kernels.+", "\"addref\"", M "kernel_stats.+", ENTRY("addref")},
    {"kernel-stats", P "kernels.+", "\"exp_ref\"", NULL, NULL},
    {"kernel-stats", M "kernel_stats.9.ns", "1.5", NULL, NULL},
    {"kernel-stats", M "kernel_stats.9.bytes", "9007199254740992", NULL, NULL},
    /* tokens */
    {"token-counts", P "request.n_predict", "9", NULL, NULL},
    {"stop-reason", P "result.stop_reason", "\"stop_id\"", NULL, NULL},
    {"stop-reason", P "result.stop_reason", "\"context\"", NULL, NULL},
    {"stop-reason", P "result.stop_reason", "\"bored\"", NULL, NULL},
    {"stop-reason", P "result.stop_reason", "\"stop\"", P "request.stops", "[]"},
    {"stop-reason", P "tokens_requested", "9", P "request.n_predict", "9"},
    {"stop-reason", P "request.stop_ids", "[476]", NULL, NULL},
    {"stop-reason", P "result.stop_reason", "\"end\"", P "request.ignore_end", "true"},
    /* rates and times */
    {"rate", P "tokens_per_second", "176.131", NULL, NULL},
    {"rate", P "tokens_per_second", "999.9", NULL, NULL},
    {"rate", P "tokens_per_second", "0", NULL, NULL},
    {"rate", P "tokens_per_second", "-1", NULL, NULL},
    {"rate", P "tokens_per_second", "\"1\"", NULL, NULL},
    {"times", M "token_ns", "[45421081,701853,700422,700683,12745878,20740793,716216,716966]", NULL, NULL},
    {"times", M "token_ns", "[8254303,701853,700422,700683,12745878,20740793,716216,716966]", NULL, NULL},
    {"samples", M "token_ns", "[8255566,701853,700422,700683,12745878,20740793,716216]", NULL, NULL},
    {"samples", M "token_ns", "[8255566,701853,700422,700683,12745878,20740794,716216,716966]", NULL, NULL},
    {"samples", M "p50_ns", "1", NULL, NULL},
    {"samples", M "p95_ns", "1", NULL, NULL},
    {"samples", M "p99_ns", "1", NULL, NULL},
    {"samples", M "max_ns", "1", NULL, NULL},
    {"derived-rates", M "prefill_tokens_per_s_milli", "1", NULL, NULL},
    {"derived-rates", M "decode_tokens_per_s_milli", "1", NULL, NULL},
    {"derived-rates", M "decode_tokens_per_s_milli", "null", NULL, NULL},
    /* what other tools add */
    {"tests", P "test_results", "{\"total_tests\":2,\"passed\":1,\"failed\":1}", NULL, NULL},
    {"tests", P "test_results", "{\"total_tests\":2,\"passed\":1,\"failed\":0}", NULL, NULL},
    {"corrections", P "corrections", "[{}]", NULL, NULL},
    {"corrections", P "corrections", "{}", NULL, NULL},
    /* work */
    {"kernel-time", M "kernel_stats.9.ns", "900000000000000", NULL, NULL},
    {"kernel-work", M "kernel_stats.0.ops", "33030145", NULL, NULL},
    {"kernel-work", M "kernel_stats.0.calls", "295", NULL, NULL},
    {"kernel-work", M "kernel_stats.0.bytes", "8257537", NULL, NULL},
    {"attention-work", M "kernel_stats.5.ops", "69121", NULL, NULL},
    {"attention-work", M "kernel_stats.7.ops", "69119", NULL, NULL},
    {"attention-work", M "kernel_stats.7.bytes", "138242", NULL, NULL},
    {"attention-work", M "kernel_stats.5.bytes", "1", M "kernel_stats.7.bytes", "1"},
    {"layer-work", M "kernel_stats.2.calls", "191", NULL, NULL},
    {"layer-work", M "kernel_stats.2.ops", "82943", NULL, NULL},
    {"layer-work", M "kernel_stats.3.ops", "84991", NULL, NULL},
    {"layer-work", M "kernel_stats.3.bytes", "1", NULL, NULL},
    {"layer-work", M "kernel_stats.4.ops", "20737", NULL, NULL},
    {"layer-work", M "kernel_stats.6.ops", "1081", NULL, NULL},
    {"layer-work", M "kernel_stats.8.ops", "41471", NULL, NULL},
    {"layer-work", M "kernel_stats.9.calls", "97", NULL, NULL},
    {"layer-work", M "kernel_stats.11.bytes", "27647", NULL, NULL},
    {"layer-work", M "kernel_stats.12.ops", "2305", NULL, NULL},
    {"layer-work", M "kernel_stats.12.bytes", "46080", NULL, NULL},
    {"layer-work", P "kernels.+", "\"exp_ref\"", M "kernel_stats.+", ENTRY("exp_ref")},
    {"head-work", M "kernel_stats.10.calls", "9", NULL, NULL},
    {"head-work", M "kernel_stats.10.bytes", "8388609", NULL, NULL},
    {"kernel-work", P "model.quantization", "\"TQ2_0\"", NULL, NULL},
    {"model-shape", P "model.bytes", "1990000", NULL, NULL},
    {"head-work", M "screen", "{\"screened\":1,\"full\":6,\"rows\":40}", NULL, NULL},
    {"head-work", M "screen", "{\"screened\":1,\"full\":7,\"rows\":40}", NULL, NULL},
    {"head-work", M "screen", "{\"screened\":0,\"full\":8,\"rows\":1}", NULL, NULL},
    {"kernel-work", P "resolved.packed_bytes", "800000", NULL, NULL},
    {"kernel-work", P "resolved.packed_bytes", "943718", NULL, NULL},
    /* where it comes from */
    {"program", P "resolved.program.commit", "\"main\"", NULL, NULL},
    {"program", P "resolved.program.dirty", "\"no\"", NULL, NULL},
    {"git", P "git.dirty", "true", NULL, NULL},
    {"git", P "git.changed_files", "3", NULL, NULL},
    {"git", P "git.changed_files", "null", NULL, NULL},
};

static void each_fault_fails_its_own_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < BN_ARRAY_LEN(FAULTS); i++) {
        const struct fault *f = &FAULTS[i];
        bn_json *root = load("fixtures/receipts/statement.json");
        struct bn_rules_input in = {0};
        struct bn_rules_report report;
        edit(root, f->path, f->value);
        if (f->path2 != NULL) edit(root, f->path2, f->value2);
        assert_int_equal(bn_receipt_seal(root, NULL), BN_OK);
        run_rules(root, &in, &report);
        if (strcmp(failures(&report), f->rule) != 0)
            print_message("%s = %s: %s\n", f->path, f->value, failures(&report));
        assert_string_equal(failures(&report), f->rule);
        assert_false(report.verified);
        enum bn_rule_level level = bn_rules_find(f->rule)->level;
        assert_int_equal(report.exit_code,
                         level == BN_LEVEL_INTEGRITY ? BN_EXIT_INTEGRITY : BN_EXIT_NEGATIVE);
        assert_true(level == BN_LEVEL_INTEGRITY ? !report.reached : report.level == BN_LEVEL_INTEGRITY);
        bn_json_free(root);
    }
}

/* Faults that more than one rule has to see. */
static const struct fault MANY[] = {
    {"token-counts,", P "tokens_generated", "7", NULL, NULL},
    {"token-counts,", P "tokens_generated", "0", NULL, NULL},
    {"token-counts,", P "tokens_generated", "9", NULL, NULL},
    {"token-counts,", P "result.prompt_tokens", "3", NULL, NULL},
    {"times,", M "decode_ns", "99999999999", NULL, NULL},
    {"times,", M "decode_ns", "1", NULL, NULL},
    {"times,", M "total_ns", "0", NULL, NULL},
    {"rate,", M "total_ns", "0", NULL, NULL},
    {"rate,", M "total_ns", "", NULL, NULL},
    {"samples,", M "token_ns", "[]", NULL, NULL},
    {"samples,", M "token_ns", "[1,2,3,4,5,6,7,\"8\"]", NULL, NULL},
    {"model-shape,", P "model.n_ff", "0", NULL, NULL},
    {"model-shape,", P "model.n_layer", "1048576", NULL, NULL},
    {"model-shape,", P "model.n_head_kv", "3", NULL, NULL},
    {"token-ids,", P "model.n_vocab", "300", NULL, NULL},
    {"model-shape,", P "model.ternary_bytes", "1", NULL, NULL},
    {"kernel-stats,", M "kernel_stats", "[]", NULL, NULL},
    {"kernel-stats,", M "kernel_stats", "{}", NULL, NULL},
    {"kernel-time,", M "kernel_stats", "[]", NULL, NULL},
    {"kernel-work,", M "kernel_stats", "[]", NULL, NULL},
    {"kernel-work,", P "resolved.batch", "0", NULL, NULL},
    {"kernel-work,", P "result.prompt_tokens", "1000000", P "model.ternary_weights", "9007199254740991"},
    {"attention-work", P "result.prompt_tokens", "999999999", NULL, NULL},
    {"kernels-known,", P "resolved.program", "{}", NULL, NULL},
    {"kernels-present,", P "kernels", "[]", NULL, NULL},
    {"kernels-mock,", P "kernels.+", "\"mock_add\"", NULL, NULL},
    {"kernels-blank,", P "kernels.+", "\"\"", NULL, NULL},
    {"cpu-kernels,", P "kernels", "[\"add_ref\"]", NULL, NULL},
    /* A kernel that exists, in the table of another instruction set. */
    {"kernels-known,", P "kernels.+", "\"add_avx2\"", M "kernel_stats.+", ENTRY("add_avx2")},
    {"kernels-known,", P "kernels.+", "\"add_sse9\"", M "kernel_stats.+", ENTRY("add_sse9")},
    {"kernel-stats,", M "kernel_stats.+", ENTRY("exp_ref"), NULL, NULL},
    {"kernel-stats,", M "kernel_stats.9.calls", "0", NULL, NULL},
    {"kernel-stats,", M "kernel_stats.9.name", "\"exp_ref\"", NULL, NULL},
    {"kernel-stats,", M "kernel_stats.9.ops", "-1", NULL, NULL},
    {"model-shape,", P "model.n_ff", "769", NULL, NULL},
    {"kernel-work,", P "resolved.batch", "1", NULL, NULL},
    {"program,", P "resolved.program.sha256", "\"1234\"", NULL, NULL},
    {"gpu-kernels,", P "backend", "\"cuda\"", NULL, NULL},
    {"backend,", P "backend", "\"cuda\"", NULL, NULL},
    {"kernels-repeated,", P "kernels.+", "\"add_ref\"", M "kernel_stats.+", ENTRY("add_ref")},
    {"model-shape,", P "model.n_rot", "128", NULL, NULL},
    {"model-shape,", P "model.head_bytes", "1048577", NULL, NULL},
    {"model-shape,", P "model.head_bytes", "1048576000", NULL, NULL},
    {"resources,", P "resolved.ctx", "8", NULL, NULL},
    {"resources,", P "resolved.threads", "0", NULL, NULL},
    {"sampling,", P "request.n_predict", "0", NULL, NULL},
    {"isa,", P "machine.arch", "\"aarch64\"", P "resolved.isa", "\"avx2\""},
    {"isa,", P "machine.arch", "\"x86_64\"", P "resolved.isa", "\"neon\""},
    {"isa,", P "resolved.isa", "\"avx2\"", P "machine.cpu_flags", "[\"ssse3\"]"},
    {"fields,", P "machine", "", NULL, NULL},
    {"environment,", P "machine", "{}", NULL, NULL},
    {"environment,", P "environment", "{}", NULL, NULL},
    {"performance-physical,", M "kernel_stats.8.ops", "9007199254740000", NULL, NULL},
    {"performance-physical,", M "kernel_stats.8.bytes", "9007199254740000", NULL, NULL},
};

static void faults_that_several_rules_see(void **state)
{
    (void)state;
    for (size_t i = 0; i < BN_ARRAY_LEN(MANY); i++) {
        bn_json *root = load("fixtures/receipts/statement.json");
        struct bn_rules_input in = {0};
        struct bn_rules_report report;
        char list[600], wanted[40];
        edit(root, MANY[i].path, MANY[i].value);
        if (MANY[i].path2 != NULL) edit(root, MANY[i].path2, MANY[i].value2);
        assert_int_equal(bn_receipt_seal(root, NULL), BN_OK);
        run_rules(root, &in, &report);
        snprintf(list, sizeof list, ",%s,", failures(&report));
        snprintf(wanted, sizeof wanted, ",%.30s%s", MANY[i].rule,
                 strchr(MANY[i].rule, ',') == NULL ? "," : "");
        if (strstr(list, wanted) == NULL) print_message("%s = %s: %s\n", MANY[i].path, MANY[i].value, list);
        assert_non_null(strstr(list, wanted));
        assert_int_equal(report.exit_code, BN_EXIT_NEGATIVE);
        bn_json_free(root);
    }
}

/* A version is a claim that anybody can write: it opens no door. */
static void another_version_excuses_no_unknown_kernel(void **state)
{
    (void)state;
    static const char *const POLICIES[][2] = {
        {"{}", "kernels-known"},
        {"{\"require_quantized_kernels\":true}", "kernels-known,quantized-kernels"},
        {"{\"off\":[\"kernels-known\"]}", ""},
        {"{\"off\":[\"kernels-known\"],\"require_quantized_kernels\":true}", "quantized-kernels"},
        {"{\"off\":[\"kernels-known\"],\"require_gpu_kernels\":true}", "gpu-kernels"},
    };
    bn_json *root = load("fixtures/receipts/statement.json");
    edit(root, P "resolved.program.version", "\"99.0.0\"");
    edit(root, P "environment.BN_VERSION", "\"99.0.0\"");
    edit(root, P "environment.BITNET_VERSION", "\"99.0.0\"");
    assert_int_equal(bn_receipt_seal(root, NULL), BN_OK);
    struct bn_rules_input known = {0};
    struct bn_rules_report report;
    run_rules(root, &known, &report);
    assert_string_equal(failures(&report), ""); /* its kernels are all in the table */
    edit(root, P "kernels.+", "\"gemm_fp16\"");
    edit(root, M "kernel_stats.+", ENTRY("gemm_fp16"));
    assert_int_equal(bn_receipt_seal(root, NULL), BN_OK);
    for (size_t i = 0; i < BN_ARRAY_LEN(POLICIES); i++) {
        struct bn_receipt_policy policy;
        assert_int_equal(bn_receipt_policy_read(&policy, POLICIES[i][0], strlen(POLICIES[i][0]), NULL),
                         BN_OK);
        struct bn_rules_input in = {.policy = &policy};
        run_rules(root, &in, &report);
        assert_string_equal(failures(&report), POLICIES[i][1]);
        assert_int_equal(report.level, BN_LEVEL_INTEGRITY); /* even where nothing failed */
        bn_receipt_policy_release(&policy);
    }
    bn_json_free(root);
}

/* Limits by name, where there is nothing else. */
static void suspicious_rates_need_data(void **state)
{
    (void)state;
    static const char POLICY[] = "{\"validate_performance\":true}";
    static const struct fault EDITS[] = {
        {"", "tokens_per_second", "", NULL, NULL}, /* left out: that rule skips, this one does not */
        {"", "kernels", "[\"rope_apply\"]", NULL, NULL},
        {"", "tokens_per_second", "40.1", NULL, NULL},
        {"", "measurement", "{\"kernel_stats\":[]}", NULL, NULL},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(EDITS); i++) {
        struct bn_receipt_policy policy;
        struct bn_rules_report report;
        bn_json *root = load("fixtures/receipts/valid-cpu.json");
        edit(root, EDITS[i].path, EDITS[i].value);
        assert_int_equal(bn_receipt_policy_read(&policy, POLICY, strlen(POLICY), NULL), BN_OK);
        struct bn_rules_input in = {.policy = &policy};
        run_rules(root, &in, &report);
        assert_non_null(strstr(failures(&report), "performance-"));
        bn_receipt_policy_release(&policy);
        bn_json_free(root);
    }
}

/* Removes each member of the receipt in turn: something must notice, unless the format says that it may be
 * null or left out. */
static void each_missing_field_is_noticed(void **state)
{
    (void)state;
    static const char *const UNCHECKED[] = {
        "request.prompt", /* shown on request */
        "result.text",
    };
    static const char *const GROUPS[] = {"",    "model",  "request",     "resolved", "resolved.program",
                                         "git", "result", "measurement", "machine",  "environment"};
    for (size_t g = 0; g < BN_ARRAY_LEN(GROUPS); g++) {
        bn_json *whole = load("fixtures/receipts/statement.json");
        const bn_json *predicate = bn_json_get(whole, "predicate");
        const bn_json *group = GROUPS[g][0] == '\0' ? predicate : bn_json_path(predicate, GROUPS[g]);
        for (const bn_json *m = bn_json_first(group); m != NULL; m = bn_json_next(m)) {
            char path[128], full[140];
            snprintf(path, sizeof path, "%s%s%s", GROUPS[g], GROUPS[g][0] == '\0' ? "" : ".",
                     bn_json_name(m));
            snprintf(full, sizeof full, "predicate.%s", path);
            bool checked = true;
            for (size_t i = 0; i < BN_ARRAY_LEN(UNCHECKED); i++)
                if (strcmp(path, UNCHECKED[i]) == 0) checked = false;
            bn_json *root = load("fixtures/receipts/statement.json");
            struct bn_rules_input in = {0};
            struct bn_rules_report report;
            edit(root, full, "");
            assert_int_equal(bn_receipt_seal(root, NULL), BN_OK);
            run_rules(root, &in, &report);
            if (report.verified == checked) print_message("without %s: %s\n", path, failures(&report));
            assert_int_equal(report.verified, !checked);
            bn_json_free(root);
        }
        bn_json_free(whole);
    }
}

/* Demands that come from the verifier, not from the receipt. */
static void demands_are_met_or_refused(void **state)
{
    (void)state;
    bn_json *root = load("fixtures/receipts/statement.json");
    static const struct {
        const char *policy, *fails;
    } CASES[] = {
        {"{}", ""},
        {"{\"accept_statement\":false}", "form"},
        {"{\"accept_bare\":false,\"accept_envelope\":false}", ""},
        {"{\"require_signature\":true}", "signature"},
        {"{\"signature_threshold\":2}", "signature"},
        {"{\"require_gpu_kernels\":true}", "gpu-kernels"},
        {"{\"require_quantized_kernels\":true}", ""},
        {"{\"max_age_s\":3600}", ""},
        {"{\"max_age_s\":60}", "freshness"},
        {"{\"validate_performance\":true,\"bandwidth_bytes_per_s\":100000000000}", ""},
        {"{\"validate_performance\":true,\"bandwidth_bytes_per_s\":100000000}", "performance-measured"},
        {"{\"validate_performance\":true,\"bandwidth_bytes_per_s\":100000000,\"bandwidth_percent\":100000}",
         ""},
        {"{\"model_sha256\":[\"fabcdb914a48e922468ae05fe45bb16cfbecc84db421fbbab966621515803228\"]}", ""},
        {"{\"model_sha256\":[\"0000000000000000000000000000000000000000000000000000000000000000\"]}",
         "model-allowed"},
        {"{\"program_sha256\":[\"0000000000000000000000000000000000000000000000000000000000000000\"]}",
         "program"},
        {"{\"require_clean_program\":true,\"require_clean_git\":true}", ""},
        {"{\"require\":[\"text-digest\",\"rate\"]}", ""},
        {"{\"require\":[\"model\"]}", "model"},
        {"{\"require\":[\"freshness\",\"replay\"]}", "freshness,replay"},
        {"{\"off\":[\"freshness\"],\"require\":[\"freshness\"]}", ""},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        struct bn_receipt_policy policy;
        struct bn_rules_report report;
        assert_int_equal(bn_receipt_policy_read(&policy, CASES[i].policy, strlen(CASES[i].policy), NULL),
                         BN_OK);
        struct bn_rules_input in = {.policy = &policy};
        run_rules(root, &in, &report);
        if (strcmp(failures(&report), CASES[i].fails) != 0) print_message("%s\n", CASES[i].policy);
        assert_string_equal(failures(&report), CASES[i].fails);
        bool integrity = strcmp(CASES[i].fails, "signature") == 0;
        assert_int_equal(report.exit_code, CASES[i].fails[0] == '\0' ? BN_EXIT_OK
                                           : integrity               ? BN_EXIT_INTEGRITY
                                                                     : BN_EXIT_NEGATIVE);
        bn_receipt_policy_release(&policy);
    }
    bn_json_free(root);
}

static void clean_trees_can_be_demanded(void **state)
{
    (void)state;
    static const char POLICY[] = "{\"require_clean_program\":true,\"require_clean_git\":true}";
    static const struct fault EDITS[] = {
        {"program", P "resolved.program.dirty", "true", NULL, NULL},
        {"program", P "resolved.program.commit", "null", NULL, NULL},
        {"program", P "resolved.program.dirty", "null", NULL, NULL},
        {"program", P "resolved.program", "", NULL, NULL},
        {"git", P "git.dirty", "true", P "git.changed_files", "1"},
        {"git", P "git", "{\"commit\":null,\"branch\":null,\"dirty\":null,\"changed_files\":null}", NULL,
         NULL},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(EDITS); i++) {
        struct bn_receipt_policy policy;
        struct bn_rules_report report;
        bn_json *root = load("fixtures/receipts/statement.json");
        edit(root, EDITS[i].path, EDITS[i].value);
        if (EDITS[i].path2 != NULL) edit(root, EDITS[i].path2, EDITS[i].value2);
        assert_int_equal(bn_receipt_seal(root, NULL), BN_OK);
        assert_int_equal(bn_receipt_policy_read(&policy, POLICY, strlen(POLICY), NULL), BN_OK);
        struct bn_rules_input in = {.policy = &policy};
        run_rules(root, &in, &report);
        if (i != 3) /* without a program its version is missing, too */
            assert_string_equal(failures(&report), EDITS[i].rule);
        assert_non_null(strstr(failures(&report), EDITS[i].rule));
        bn_receipt_policy_release(&policy);
        bn_json_free(root);
    }
}

static void policies_are_read_strictly(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "",
        "[]",
        "{\"accept\":true}",
        "{\"require_signature\":1}",
        "{\"max_age_s\":\"1h\"}",
        "{\"max_age_s\":-1}",
        "{\"off\":\"rate\"}",
        "{\"off\":[\"no-such-rule\"]}",
        "{\"require\":[1]}",
        "{\"model_sha256\":[\"12\"]}",
        "{\"max_age_s\":1,\"max_age_s\":2}",
        "{\"signature_threshold\":0}",
        "{\"signature_threshold\":2,\"require_signature\":false}",
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(BAD); i++) {
        struct bn_receipt_policy policy;
        bn_error err = {0};
        assert_int_equal(bn_receipt_policy_read(&policy, BAD[i], strlen(BAD[i]), &err), BN_ERR_FORMAT);
        assert_true(err.msg[0] != '\0');
    }
}

/* A verifier's own knowledge: its model, its clock, its memory, its replay. */
static void what_the_verifier_knows_counts(void **state)
{
    (void)state;
    bn_json *root = load("fixtures/receipts/statement.json");
    struct bn_rules_report report;
    struct bn_replay_result replay = {.same = false, .reason = "token 3 is 7 here, the receipt has 8"};
    static const char RIGHT[] = "fabcdb914a48e922468ae05fe45bb16cfbecc84db421fbbab966621515803228";
    static const char WRONG[] = "0000000000000000000000000000000000000000000000000000000000000000";

    struct bn_rules_input in = {.model_sha256 = RIGHT};
    run_rules(root, &in, &report);
    assert_string_equal(failures(&report), "");
    in = (struct bn_rules_input){.model_sha256 = WRONG};
    run_rules(root, &in, &report);
    assert_string_equal(failures(&report), "model");
    assert_int_equal(report.exit_code, BN_EXIT_INTEGRITY);
    in = (struct bn_rules_input){.model_sha256 = WRONG, .model_is_default = true};
    run_rules(root, &in, &report);
    assert_string_equal(failures(&report), "");

    in = (struct bn_rules_input){.now_utc = 1772357400 - 300};
    run_rules(root, &in, &report);
    assert_string_equal(failures(&report), "");
    in = (struct bn_rules_input){.now_utc = 1772357400 - 301};
    run_rules(root, &in, &report);
    assert_string_equal(failures(&report), "timestamp");

    in = (struct bn_rules_input){.replay = &replay};
    run_rules(root, &in, &report);
    assert_string_equal(failures(&report), "replay");
    assert_string_equal(reason_of(&report, "replay"), replay.reason);
    assert_int_equal(report.level, BN_LEVEL_CONSISTENCY);
    assert_int_equal(report.exit_code, BN_EXIT_NEGATIVE);
    replay = (struct bn_replay_result){.same = true, .n_tokens = 8, .chain = true};
    run_rules(root, &in, &report);
    assert_true(report.verified);
    assert_int_equal(report.level, BN_LEVEL_REPLAY);
    bn_json_free(root);
}

static const char *verdict_of(const struct bn_rules_report *report, const char *id)
{
    for (size_t i = 0; bn_rules_at(i) != NULL; i++)
        if (strcmp(bn_rules_at(i)->id, id) == 0) return bn_verdict_name(report->results[i].verdict);
    return "?";
}

/* What a busy verifier measures can show that a claim is possible, and never that it is false. */
static void a_measurement_never_refuses(void **state)
{
    (void)state;
    static const char POLICY[] = "{\"validate_performance\":true}";
    static const struct {
        const char *cpu, *probe; /* in the receipt */
        uint64_t measured;
        const char *verdict;
    } CASES[] = {
        /* the fixture reads 0.4 GB/s */
        {"\"Some CPU\"", "null", 1000000000, "pass"},
        {"\"Some CPU\"", "null", 1000, "undecided"},
        {"\"Some CPU\"", "null", 0, "undecided"},
        {"\"Some CPU\"", "900000000000", 1000, "undecided"}, /* the signer's word is not needed here */
        {"\"Another CPU\"", "900000000000", 1000, "pass"},
        {"\"Another CPU\"", "null", 1000, "undecided"},
        {"\"Another CPU\"", "null", 1000000000, "pass"},
    };
    struct bn_receipt_policy policy;
    bn_json *root = load("fixtures/receipts/statement.json");
    assert_int_equal(bn_receipt_policy_read(&policy, POLICY, strlen(POLICY), NULL), BN_OK);
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        struct bn_rules_report report;
        edit(root, M "bandwidth_probe_bytes_per_s", CASES[i].probe);
        edit(root, P "machine.cpu_model", CASES[i].cpu);
        edit(root, P "environment.CPU_BRAND", CASES[i].cpu);
        assert_int_equal(bn_receipt_seal(root, NULL), BN_OK);
        struct bn_rules_input in = {
            .policy = &policy, .bandwidth_bytes_per_s = CASES[i].measured, .cpu_model = "Some CPU"};
        run_rules(root, &in, &report);
        assert_string_equal(failures(&report), "");
        assert_string_equal(verdict_of(&report, "performance-measured"), CASES[i].verdict);
        bool passed = strcmp(CASES[i].verdict, "pass") == 0;
        assert_int_equal(report.verified, passed);
        assert_int_equal(report.exit_code, passed ? BN_EXIT_OK : BN_EXIT_UNSUPPORTED);
        assert_int_equal(report.level, passed ? BN_LEVEL_CONSISTENCY : BN_LEVEL_INTEGRITY);
        assert_int_equal(bn_rules_first_bad(&report) == SIZE_MAX, passed);
    }
    bn_receipt_policy_release(&policy);
    bn_json_free(root);
}

/* 8 MACs a nanosecond and thread are usual, 4096 are impossible: by the threads that the machine can run. */
static void threads_that_a_machine_does_not_have_do_not_count(void **state)
{
    (void)state;
    bn_json *root = load("fixtures/receipts/statement.json");
    struct bn_rules_input in = {0};
    struct bn_rules_report report;
    edit(root, P "resolved.threads", "1024");
    edit(root, P "request.threads", "1024");
    edit(root, P "environment.THREADS", "\"1024\"");
    edit(root, P "machine.cpus_online", "1");
    edit(root, M "kernel_stats.8.ops", "200000000000"); /* 4400 a nanosecond */
    assert_int_equal(bn_receipt_seal(root, NULL), BN_OK);
    run_rules(root, &in, &report);
    assert_string_equal(failures(&report), "layer-work,performance-physical");
    bn_json_free(root);
}

/* The block that bn-crossval writes, and what is wrong with it. */
static void parity_is_that_of_the_receipt(void **state)
{
    (void)state;
    static const char BLOCK[] =
        "{\"schema\":\"bn.parity/1\",\"references\":[{\"name\":\"oracle\",\"version\":null,\"commit\":null,"
        "\"result\":\"agree\",\"compared\":9,\"rungs\":{\"tokens\":\"pass\",\"trace\":\"skip\"}}],"
        "\"status\":\"ok\",\"compared\":9,\"tokens\":2,"
        "\"prompt_ids_sha256\":\"e8fbc64b12dc1f3bf3ffefc5c34ed40ce4f7ea11ce1e0c92f605733be2fbf399\","
        "\"model_sha256\":\"fabcdb914a48e922468ae05fe45bb16cfbecc84db421fbbab966621515803228\","
        "\"thresholds_sha256\":\"fabcdb914a48e922468ae05fe45bb16cfbecc84db421fbbab966621515803228\"}";
    static const char OTHER[] = "\"0000000000000000000000000000000000000000000000000000000000000000\"";
    static const struct fault EDITS[] = {
        {"", P "parity.status", "\"ok\"", NULL, NULL},
        {"parity", P "parity.prompt_ids_sha256", OTHER, NULL, NULL},
        {"parity", P "parity.prompt_ids_sha256", "", NULL, NULL},
        {"parity", P "parity.model_sha256", OTHER, NULL, NULL},
        {"parity", P "parity.model_sha256", "", NULL, NULL},
        {"parity", P "parity.thresholds_sha256", "\"00\"", NULL, NULL},
        {"parity", P "parity.tokens", "1", NULL, NULL},
        {"parity", P "parity.compared", "8", NULL, NULL},
        {"parity", P "parity.references", "[]", P "parity.compared", "0"},
        {"parity", P "parity.references.0.result", "\"differ\"", NULL, NULL},
        {"parity", P "parity.references.0.compared", "0", P "parity.compared", "0"},
        {"parity", P "parity.references.0.rungs", "{\"tokens\":\"fail\"}", NULL, NULL},
        {"parity", P "parity.references.0.rungs", "", NULL, NULL},
        {"parity", P "parity.references.0.name", "null", NULL, NULL},
        {"parity", P "parity.schema", "", NULL, NULL},
        {"parity", P "parity.status", "\"warn\"", NULL, NULL},
        {"parity", P "parity.status", "\"no_data\"", NULL, NULL},
        {"parity", P "parity", "{\"status\":\"ok\"}", NULL, NULL},
        {"parity", P "parity", "{}", NULL, NULL},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(EDITS); i++) {
        bn_json *root = load("fixtures/receipts/statement.json");
        struct bn_rules_input in = {0};
        struct bn_rules_report report;
        edit(root, P "parity", BLOCK);
        edit(root, EDITS[i].path, EDITS[i].value);
        if (EDITS[i].path2 != NULL) edit(root, EDITS[i].path2, EDITS[i].value2);
        assert_int_equal(bn_receipt_seal(root, NULL), BN_OK);
        run_rules(root, &in, &report);
        if (strcmp(failures(&report), EDITS[i].rule) != 0)
            print_message("%s = %s\n", EDITS[i].path, EDITS[i].value);
        assert_string_equal(failures(&report), EDITS[i].rule);
        bn_json_free(root);
    }
}

/* Every allocation fails in turn: no verdict is made of that. */
static void short_memory_is_no_verdict(void **state)
{
    (void)state;
    static const char *const FILES[] = {"fixtures/receipts/statement.json",
                                        "fixtures/receipts/valid-cpu.json",
                                        "fixtures/receipts/statement-edited-rate.json"};
    for (size_t f = 0; f < BN_ARRAY_LEN(FILES); f++) {
        struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
        struct bn_receipt_policy policy;
        bn_exit wanted = BN_EXIT_OK;
        uint64_t most = 0;
        bn_receipt_policy_defaults(&policy);
        assert_int_equal(bn_file_read(FILES[f], &text, NULL), BN_OK);
        for (uint64_t n = 0; n <= most; n++) { /* the first round only counts */
            struct bn_receipt receipt;
            struct bn_rules_report report = {.exit_code = BN_EXIT_INTERNAL};
            struct bn_rules_input in = {.receipt = &receipt, .policy = &policy, .now_utc = NOW};
            bn_error err = {0};
            uint64_t before = bn_mem_stats().allocations;
            bn_mem_fail_after(n);
            bn_status status = bn_receipt_open(&receipt, text.data, text.len, NULL, &err);
            if (status == BN_OK) status = bn_rules_run(&report, &in, &err);
            bn_mem_fail_after(0);
            if (n == 0) wanted = report.exit_code;
            if (n == 0) most = bn_mem_stats().allocations - before;
            if (status == BN_OK) assert_int_equal(report.exit_code, wanted);
            if (status != BN_OK) assert_int_equal(status, BN_ERR_NOMEM);
            if (status != BN_OK) assert_int_equal(err.code, BN_ERR_NOMEM);
            if (n == 0) assert_int_equal(status, BN_OK);
            bn_receipt_release(&receipt);
        }
        bn_buf_release(&text);
    }
}

static void the_table_is_sound(void **state)
{
    (void)state;
    size_t n = 0;
    enum bn_rule_level level = BN_LEVEL_INTEGRITY;
    for (; bn_rules_at(n) != NULL; n++) {
        const struct bn_rule *rule = bn_rules_at(n);
        assert_ptr_equal(bn_rules_find(rule->id), rule); /* so no id is duplicate */
        assert_true(rule->level >= level);
        assert_true(strlen(rule->id) <= 21 && rule->demand[0] != '\0' && rule->check != NULL);
        level = rule->level;
    }
    assert_true(n > 40 && n <= BN_RULES_MAX);
    assert_null(bn_rules_find("no-such-rule"));
    assert_string_equal(bn_rules_at(0)->id, "signature");
    assert_string_equal(bn_rules_at(1)->id, "self-digest");
}

/* Ten thousand kernels are the limit. */
static void too_many_kernels_are_refused(void **state)
{
    (void)state;
    bn_json *root = load("fixtures/receipts/valid-cpu.json");
    struct bn_rules_input in = {0};
    struct bn_rules_report report;
    bn_json *kernels = find(root, "kernels", 7);
    for (unsigned i = 4; i < 10001; i++) {
        char name[16];
        snprintf(name, sizeof name, "k%u", i);
        bn_json_add_string(kernels, name);
    }
    run_rules(root, &in, &report);
    assert_string_equal(failures(&report), "kernels-count,kernels-repeated");
    bn_json_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fixture_verifies),
        cmocka_unit_test(each_fault_fails_its_own_rule),
        cmocka_unit_test(faults_that_several_rules_see),
        cmocka_unit_test(another_version_excuses_no_unknown_kernel),
        cmocka_unit_test(suspicious_rates_need_data),
        cmocka_unit_test(each_missing_field_is_noticed),
        cmocka_unit_test(demands_are_met_or_refused),
        cmocka_unit_test(clean_trees_can_be_demanded),
        cmocka_unit_test(policies_are_read_strictly),
        cmocka_unit_test(what_the_verifier_knows_counts),
        cmocka_unit_test(a_measurement_never_refuses),
        cmocka_unit_test(threads_that_a_machine_does_not_have_do_not_count),
        cmocka_unit_test(parity_is_that_of_the_receipt),
        cmocka_unit_test(short_memory_is_no_verdict),
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(too_many_kernels_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
