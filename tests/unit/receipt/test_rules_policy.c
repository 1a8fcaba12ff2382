/* SPDX-License-Identifier: MIT
 *
 * The rules of receipts that depend on the policy and on what the verifier knows.
 */
#include "tests/unit/receipt/rules_maker.h"

TEST(demands_are_met_or_refused)
{
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
        {"{\"off\":[\"freshness\"]}", ""},
        {"{\"off\":[\"freshness\"],\"require\":[\"freshness\"]}", "freshness"},
        {"{\"off\":[\"freshness\"],\"max_age_s\":3600}", "freshness"},
        {"{\"off\":[\"git\"],\"require_clean_git\":true}", "git"},
        {"{\"off\":[\"model-allowed\"],"
         "\"model_sha256\":[\"0000000000000000000000000000000000000000000000000000000000000000\"]}",
         "model-allowed"},
        {"{\"require\":[\"training-model\"]}", "bound-to-run"}, /* it has no such rule */
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        struct bn_receipt_policy policy = read_policy(CASES[i].policy);
        struct bn_rules_report report;
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

TEST(clean_trees_can_be_demanded)
{
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
        struct bn_receipt_policy policy = read_policy(POLICY);
        struct bn_rules_report report;
        bn_json *root = load("fixtures/receipts/statement.json");
        struct bn_rules_input in = {.policy = &policy};
        run_fault(root, &EDITS[i], &in, &report);
        if (i != 3) /* without a program its version is missing, too */
            assert_string_equal(failures(&report), EDITS[i].rule);
        assert_has(failures(&report), EDITS[i].rule);
        bn_receipt_policy_release(&policy);
        bn_json_free(root);
    }
}

TEST(policies_are_read_strictly)
{
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
        refused(bn_receipt_policy_read(&policy, BAD[i], strlen(BAD[i]), &err), BN_ERR_FORMAT);
        assert_true(err.msg[0] != '\0');
    }
}

/* A verifier's own knowledge: its model, its clock, its memory, its replay. */
TEST(what_the_verifier_knows_counts)
{
    bn_json *root = load("fixtures/receipts/statement.json");
    struct bn_rules_report report;
    struct bn_replay_result replay = {.same = false, .reason = "token 3 is 7 here, the receipt has 8"};
    static const char RIGHT[] = "fabcdb914a48e922468ae05fe45bb16cfbecc84db421fbbab966621515803228";
    static const char WRONG[] = "0000000000000000000000000000000000000000000000000000000000000000";

    static const struct {
        struct bn_rules_input in;
        const char *fails;
        bn_exit exit_code;
    } CASES[] = {
        {{.model_sha256 = RIGHT}, "", BN_EXIT_OK},
        {{.model_sha256 = WRONG}, "model", BN_EXIT_INTEGRITY},
        {{.model_sha256 = WRONG, .model_is_default = true}, "", BN_EXIT_OK},
        {{.now_utc = 1772357400 - 300}, "", BN_EXIT_OK},
        {{.now_utc = 1772357400 - 301}, "timestamp", BN_EXIT_NEGATIVE},
    };
    struct bn_rules_input in;
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        in = CASES[i].in;
        run_rules(root, &in, &report);
        assert_string_equal(failures(&report), CASES[i].fails);
        assert_int_equal(report.exit_code, CASES[i].exit_code);
    }

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
    return bn_verdict_name(bn_rules_result(report, id)->verdict);
}

/* What a busy verifier measures can show that a claim is possible, and never that it is false. */
TEST(a_measurement_never_refuses)
{
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
    struct bn_receipt_policy policy = read_policy("{\"validate_performance\":true}");
    bn_json *root = load("fixtures/receipts/statement.json");
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        struct bn_rules_report report;
        edit(root, M "bandwidth_probe_bytes_per_s", CASES[i].probe);
        edit(root, P "machine.cpu_model", CASES[i].cpu);
        edit(root, P "environment.CPU_BRAND", CASES[i].cpu);
        must(bn_receipt_seal(root, NULL));
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

/* 8 MACs a nanosecond and thread are usual, 4096 are impossible: more threads would allow more. */
TEST(threads_that_a_machine_does_not_have_are_refused)
{
    bn_json *root = load("fixtures/receipts/statement.json");
    struct bn_rules_input in = {0};
    struct bn_rules_report report;
    edit(root, P "resolved.threads", "1024");
    edit(root, P "request.threads", "1024");
    edit(root, P "environment.THREADS", "\"1024\"");
    edit(root, P "machine.cpus_online", "1");
    edit(root, M "kernel_stats.8.ops", "200000000000"); /* 4400 a nanosecond */
    must(bn_receipt_seal(root, NULL));
    run_rules(root, &in, &report);
    assert_string_equal(failures(&report), "resources,layer-work");
    bn_json_free(root);
}

/* The block that bn-crossval writes, and what is wrong with it. */
TEST(parity_is_that_of_the_receipt)
{
    static const char BLOCK[] =
        "{\"schema\":\"bn.crossval/1\",\"references\":[{\"name\":\"oracle\",\"version\":null,\"commit\":null,"
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
        {"parity", P "parity.references.0.rungs", "{\"tokens\":\"skip\"}", NULL, NULL},
        {"parity", P "parity.references.0.rungs", "{}", NULL, NULL},
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
        check_fault(root, &EDITS[i], &in, &report);
        bn_json_free(root);
    }
}
