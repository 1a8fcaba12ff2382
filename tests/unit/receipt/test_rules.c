/* SPDX-License-Identifier: MIT
 *
 * The rules of receipts: each fault fails its own rule, and nothing fails a sound receipt.
 */
#include "tests/unit/receipt/rules_maker.h"

TEST(the_fixture_verifies)
{
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

#define ENTRY(name) "{\"name\":\"" name "\",\"calls\":1,\"ns\":0,\"bytes\":0,\"ops\":0}"

/* measurement.work. */
#define WORK(generations, tokens, heads, attended)                                  \
    "{\"generations\":" generations ",\"passes\":2,\"single\":0,\"tokens\":" tokens \
    ",\"head_passes\":2,\"heads\":" heads ",\"attended\":" attended ",\"attended_local\":0}"

/* The right one, but for the generations. */
#define RIGHT_WORK(generations)                                                                  \
    "{\"generations\":" generations ",\"passes\":8,\"single\":7,\"tokens\":9,\"head_passes\":8," \
    "\"heads\":8,\"attended\":45,\"attended_local\":0}"

#define RANKS(ns) "{\"count\":2,\"exchanges\":500,\"bytes\":10000000" ns "}"

/* request.grammar; the digest is that of "abc". */
#define GRAMMAR(kind, text)                   \
    "{\"kind\":\"" kind "\",\"text\":\"" text \
    "\",\"text_sha256\":\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}"

static const struct fault FAULTS[] = {
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
    {"request-fields", P "request.logit_biases", "{}", NULL, NULL},
    {"request-fields", P "request.Seed", "42", NULL, NULL},
    {"request-fields", P "request.think", "1", NULL, NULL},
    {"request-fields", P "request.grammar", GRAMMAR("lark", "abc"), NULL, NULL},
    {"request-fields", P "request.grammar", "{\"kind\":\"gbnf\"}", NULL, NULL},
    {"text-digest", P "request.grammar", GRAMMAR("gbnf", "abd"), NULL, NULL},
    {"stop-reason", P "result.stop_reason", "\"grammar\"", NULL, NULL},
    {"timestamp", P "timestamp", "\"2025-12-31T23:59:59Z\"", NULL, NULL},
    /* fields that no other rule reads */
    {"fields", P "machine.kernel", "7", NULL, NULL},
    {"fields", P "machine.cpu_model", "\"\"", P "environment.CPU_BRAND", "\"\""},
    {"fields", P "machine.cpus_usable", "0", NULL, NULL},
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
    {"sampling", P "request.top_p", "-0.5", NULL, NULL},
    {"sampling", P "request.top_p", "1.5", NULL, NULL},
    {"sampling", P "request.min_p", "\"0\"", NULL, NULL},
    {"sampling", P "request.repeat_penalty", "0.5", NULL, NULL},
    {"sampling", P "request.presence_penalty", "2.1", NULL, NULL},
    {"sampling", P "request.frequency_penalty", "\"1\"", NULL, NULL},
    {"sampling", P "request.logit_bias", "[5, 1]", NULL, NULL},
    {"sampling", P "request.logit_bias", "{\"5\": -101}", NULL, NULL},
    {"sampling", P "request.logit_bias", "{\"05\": 1}", NULL, NULL},
    {"sampling", P "request.logit_bias", "{\"1000000\": 1}", NULL, NULL},
    {"sampling", P "request.logit_bias", "{\"5\": null}", NULL, NULL},
    {"sampling", P "request.top_k", "4294967296", NULL, NULL},
    {"sampling", P "request.repeat_last", "-1", NULL, NULL},
    {"sampling", P "request.seed", "\"18446744073709551616\"", NULL, NULL},
    {"sampling", P "request.seed", "\"1e3\"", NULL, NULL},
    {"sampling", P "request.stop_ids", "[2147483648]", NULL, NULL},
    {"sampling", P "request.stops", "[1]", NULL, NULL},
    {"sampling", P "request.ignore_end", "0", NULL, NULL},
    {"isa", P "request.isa", "\"avx2\"", NULL, NULL},
    {"fields", P "request.isa", "0", NULL, NULL},
    {"resources", P "resolved.threads", "4503599627370496", P "environment.THREADS", "\"4503599627370496\""},
    {"resources", P "resolved.threads", "3", P "environment.THREADS", "\"3\""},
    {"resources", P "resolved.threads", "1024", P "environment.THREADS", "\"1024\""},
    {"resources", P "resolved.threads", "2", P "machine.cpus_online", "1"},
    {"fields", P "request.threads", "0", NULL, NULL},
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
    {"machine", M "peak_rss_bytes", "1", NULL, NULL},
    {"machine", M "peak_rss_bytes", "1125899906842624", NULL, NULL},
    /* how it was computed */
    {"deterministic", P "deterministic", "false", NULL, NULL},
    {"deterministic", P "deterministic", "\"true\"", NULL, NULL},
    {"backend", P "backend", "\"metal\"", NULL, NULL},
    {"compute-path", P "compute_path", "\"mock\"", NULL, NULL},
    {"compute-path", P "compute_path", "\"Real\"", NULL, NULL},
    {"backend", P "backend", "\"rocm\"", NULL, NULL},
    {"backend", P "backend", "null", NULL, NULL},
    {"backend-summary", P "backend_summary", "\"requested=auto\"", NULL, NULL},
    {"kernels-known", P "resolved.fallbacks", "[{\"kernel\":\"add_avx2\",\"reason\":\"x\"}]", NULL, NULL},
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
    {"layer-work", M "ranks", "{\"count\": 3, \"exchanges\": 500, \"bytes\": 10000000}", NULL, NULL},
    {"layer-work", M "ranks", "{\"count\": 2, \"exchanges\": 500, \"bytes\": 1000}", NULL, NULL},
    {"layer-work", M "ranks", "{\"count\": 2, \"exchanges\": 5, \"bytes\": 10000000}", NULL, NULL},
    {"layer-work", M "ranks", "{\"count\": 2}", NULL, NULL},
    {"layer-work", M "ranks", RANKS(""), NULL, NULL},
    {"layer-work", M "ranks", RANKS(",\"ns\":\"x\""), NULL, NULL},
    {"layer-work", M "ranks", RANKS(",\"ns\":1000000000000000"), NULL, NULL},
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
    {"git", P "git.changed_files", "\"x\"", P "git.dirty", "null"},
};

TEST(each_fault_fails_its_own_rule)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(FAULTS); i++) {
        const struct fault *f = &FAULTS[i];
        bn_json *root = load("fixtures/receipts/statement.json");
        struct bn_rules_input in = {0};
        struct bn_rules_report report;
        check_fault(root, f, &in, &report);
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
    {"kernel-work,", M "cached_tokens", "1", NULL, NULL},
    {"kernel-work,", M "cached_tokens", "1000", NULL, NULL},
    {"kernel-work,", M "work", "{}", NULL, NULL},
    {"kernel-work,", M "work", WORK("1", "9", "9", "90"), NULL, NULL}, /* alone, and more than it needs */
    {"kernel-work,", M "work", WORK("2", "9", "9", "90"), NULL, NULL}, /* the kernels did less */
    {"kernel-work,", M "work", WORK("2", "2", "2", "3"), NULL, NULL},
    {"kernel-work,", M "work", RIGHT_WORK("0"), NULL, NULL},
    {"kernel-work,", M "work", RIGHT_WORK("1000000000000"), NULL, NULL},
    {"stop-reason,kernel-work,", P "result.stop_reason", "\"stuck\"", NULL, NULL}, /* with less work */
    {"isa,", P "machine.cpu_flags", "[]", P "resolved.isa", "\"avx512vbmi\""},
    {"kernel-work,", P "result.prompt_tokens", "1000000", P "model.ternary_weights", "9007199254740991"},
    {"attention-work", P "result.prompt_tokens", "999999999", NULL, NULL},
    {"attention-work,", P "model.window", "4", P "model.local_layers", "1"},
    {"layer-work,", P "model.window", "4", P "model.local_layers", "1"},
    {"model-shape,", P "model.window", "4", P "model.local_layers", "99"},
    {"model-shape,", P "model.window", "4", NULL, NULL},
    {"layer-work,", P "model.rotated_layers", "1", NULL, NULL},
    {"model-shape,", P "model.rotated_layers", "99", NULL, NULL},
    {"model-shape,", P "model.experts", "{\"count\":2,\"used\":4,\"bytes\":9000}", NULL, NULL},
    {"model-shape,", P "model.experts", "{\"count\":4,\"used\":2,\"bytes\":9000}", NULL, NULL},
    {"kernel-work,", P "model.experts", "{\"count\":4,\"used\":1,\"bytes\":200000}", NULL, NULL},
    {"kernels-known,", P "resolved.program", "{}", NULL, NULL},
    {"kernels-present,", P "kernels", "[]", NULL, NULL},
    {"kernels-mock,", P "kernels.+", "\"mock_add\"", NULL, NULL},
    {"kernels-present,", P "kernels.+", "\"\"", NULL, NULL},
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
    {"isa,", P "resolved.isa", "\"amx\"", P "machine.cpu_flags", "[\"avx512f\", \"avx512_vbmi\"]"},
    {"fields,", P "machine", "", NULL, NULL},
    {"environment,", P "machine", "{}", NULL, NULL},
    {"environment,", P "environment", "{}", NULL, NULL},
    {"performance-physical,", M "kernel_stats.8.ops", "9007199254740000", NULL, NULL},
    {"performance-physical,", M "kernel_stats.8.bytes", "9007199254740000", NULL, NULL},
};

TEST(faults_that_several_rules_see)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(MANY); i++) {
        bn_json *root = load("fixtures/receipts/statement.json");
        struct bn_rules_input in = {0};
        struct bn_rules_report report;
        char list[600], wanted[40];
        run_fault(root, &MANY[i], &in, &report);
        snprintf(list, sizeof list, ",%s,", failures(&report));
        snprintf(wanted, sizeof wanted, ",%.30s%s", MANY[i].rule,
                 strchr(MANY[i].rule, ',') == NULL ? "," : "");
        if (strstr(list, wanted) == NULL) print_message("%s = %s\n", MANY[i].path, MANY[i].value);
        assert_has(list, wanted);
        assert_int_equal(report.exit_code, BN_EXIT_NEGATIVE);
        bn_json_free(root);
    }
}

/* A version is a claim that anybody can write: it opens no door. */
TEST(another_version_excuses_no_unknown_kernel)
{
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
    must(bn_receipt_seal(root, NULL));
    struct bn_rules_input known = {0};
    struct bn_rules_report report;
    run_rules(root, &known, &report);
    assert_string_equal(failures(&report), ""); /* its kernels are all in the table */
    edit(root, P "kernels.+", "\"gemm_fp16\"");
    edit(root, M "kernel_stats.+", ENTRY("gemm_fp16"));
    must(bn_receipt_seal(root, NULL));
    for (size_t i = 0; i < BN_ARRAY_LEN(POLICIES); i++) {
        struct bn_receipt_policy policy = read_policy(POLICIES[i][0]);
        struct bn_rules_input in = {.policy = &policy};
        run_rules(root, &in, &report);
        assert_string_equal(failures(&report), POLICIES[i][1]);
        assert_int_equal(report.level, BN_LEVEL_INTEGRITY); /* even where nothing failed */
        bn_receipt_policy_release(&policy);
    }
    bn_json_free(root);
}

/* Receipts name kernels that later versions replaced: they verify, but for kernels that no version had. */
TEST(kernels_of_earlier_versions_are_known)
{
    static const char *const CASES[][3] = {{"tq2_gemv_ref", "tq2_gemm_ref", ""},
                                           {"i2s_gemv_ref", "grouped_gemm_ref", ""},
                                           {"tq2_gemv_ref", "tq2_gemm_avx2", "kernels-known"},
                                           {"tq2_gemv_ref", "tq3_gemm_ref", "kernels-known,kernel-work"}};
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        bn_json *root = load("fixtures/receipts/statement.json");
        struct bn_rules_input in = {0};
        struct bn_rules_report report;
        char names[400], first[40], second[40];
        snprintf(first, sizeof first, "\"%s\"", CASES[i][0]);
        snprintf(second, sizeof second, "\"%s\"", CASES[i][1]);
        snprintf(
            names, sizeof names,
            "[%s,%s,\"quantize_ref\",\"rmsnorm_ref\",\"rope_neox_ref\",\"attn_scores_ref\",\"softmax_ref\","
            "\"attn_values_ref\",\"relu2_mul_ref\",\"add_ref\",\"f16_gemm_ref\",\"f32_to_f16_ref\","
            "\"f16_to_f32_ref\"]",
            first, second);
        edit(root, P "kernels", names);
        edit(root, M "kernel_stats.0.name", first);
        edit(root, M "kernel_stats.1.name", second);
        must(bn_receipt_seal(root, NULL));
        run_rules(root, &in, &report);
        assert_string_equal(failures(&report), CASES[i][2]);
        bn_json_free(root);
    }
}

/* A gate for speed has nothing to look at in what anyone can write. */
TEST(rates_that_nothing_binds_are_refused)
{
    static const struct fault EDITS[] = {
        {"", "tokens_per_second", "", NULL, NULL},
        {"", "kernels", "[\"rope_apply\"]", NULL, NULL},
        {"", "tokens_per_second", "40.1", NULL, NULL},
        {"", "measurement", "{\"kernel_stats\":[]}", NULL, NULL},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(EDITS); i++) {
        struct bn_receipt_policy policy = read_policy("{\"validate_performance\":true}");
        struct bn_rules_report report;
        bn_json *root = load("fixtures/receipts/valid-cpu.json");
        edit(root, EDITS[i].path, EDITS[i].value);
        struct bn_rules_input in = {.policy = &policy};
        run_rules(root, &in, &report);
        assert_memory_equal(failures(&report), "bound-to-run", strlen("bound-to-run"));
        bn_receipt_policy_release(&policy);
        bn_json_free(root);
    }
}

/* Removes each member of the receipt in turn: something must notice, unless the format says that it may be
 * null or left out. */
TEST(each_missing_field_is_noticed)
{
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
            must(bn_receipt_seal(root, NULL));
            run_rules(root, &in, &report);
            if (report.verified == checked) print_message("without %s: %s\n", path, failures(&report));
            assert_int_equal(report.verified, !checked);
            bn_json_free(root);
        }
        bn_json_free(whole);
    }
}

/* Every allocation fails in turn: no verdict is made of that. */
TEST(short_memory_is_no_verdict)
{
    static const char *const FILES[] = {"fixtures/receipts/statement.json",
                                        "fixtures/receipts/valid-cpu.json",
                                        "fixtures/receipts/statement-edited-rate.json"};
    for (size_t f = 0; f < BN_ARRAY_LEN(FILES); f++) {
        struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
        struct bn_receipt_policy policy;
        bn_exit wanted = BN_EXIT_OK;
        uint64_t most = 0;
        bn_receipt_policy_defaults(&policy);
        must(bn_file_read(FILES[f], &text, NULL));
        for (uint64_t n = 0; n <= most; n++) { /* the first round only counts */
            struct bn_receipt receipt;
            struct bn_rules_report report = {.exit_code = BN_EXIT_INTERNAL};
            struct bn_rules_input in = {.receipt = &receipt, .policy = &policy, .now_utc = NOW};
            uint64_t before = bn_mem_stats().allocations;
            bn_mem_fail_after(n);
            bn_status status = attempt(bn_receipt_open(&receipt, text.data, text.len, NULL, &err));
            if (status == BN_OK) status = bn_rules_run(&report, &in, &err);
            bn_mem_fail_after(0);
            if (n == 0) wanted = report.exit_code;
            if (n == 0) most = bn_mem_stats().allocations - before;
            if (status == BN_OK) assert_int_equal(report.exit_code, wanted);
            assert_int_equal(status, err.code);
            assert_true(status == BN_OK || (n > 0 && status == BN_ERR_NOMEM));
            bn_receipt_release(&receipt);
        }
        bn_buf_release(&text);
    }
}

TEST(the_table_is_sound)
{
    size_t n;
    const struct bn_rule *rules = bn_rules(false, &n);
    enum bn_rule_level level = BN_LEVEL_INTEGRITY;
    for (const struct bn_rule *rule = rules; rule < rules + n; rule++) {
        assert_ptr_equal(bn_rules_find(rule->id), rule); /* so no id is duplicate */
        assert_true(rule->level >= level);
        assert_true(strlen(rule->id) <= 21 && rule->demand[0] != '\0' && rule->check != NULL);
        level = rule->level;
    }
    assert_true(n > 40 && n <= BN_RULES_MAX);
    assert_null(bn_rules_find("no-such-rule"));
    assert_string_equal(rules[0].id, "signature");
    assert_string_equal(rules[1].id, "self-digest");
}

/* Ten thousand kernels are the limit. */
TEST(too_many_kernels_are_refused)
{
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
    assert_string_equal(failures(&report), "kernels-present,kernels-repeated");
    bn_json_free(root);
}
