/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a receipt, a policy, a key and base64. No envelope verifies under a key that signed none; what
 * is read is written and read again as the same; every rule comes to an end on whatever was read, with every
 * demand made; a receipt does not differ from itself.
 */
#include "tests/fuzz/fuzz.h"

#include "lab/receipt/receipt.h"
#include "lab/verify/rules.h"

/* The public key of RFC 8032, 7.1, test 2. The receipts of fixtures/receipts are signed with that of test 1.
 */
static const struct bn_key *the_key(void)
{
    static const char PEM[] =
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n"
        "-----END PUBLIC KEY-----\n";
    static struct bn_key *key;
    if (key == NULL) hold(bn_key_read(&key, false, PEM, sizeof PEM - 1, NULL) == BN_OK);
    return key;
}

static void to_text(const bn_json *value, struct bn_buf *text)
{
    *text = (struct bn_buf){.max = 8 * BN_JSON_MAX_BYTES};
    hold(bn_json_write(value, true, text, NULL) == BN_OK);
}

static void check_json(const char *data, size_t n)
{
    bn_json *value, *again;
    struct bn_buf first, second;
    if (bn_json_parse(&value, data, n, NULL) != BN_OK) return;
    to_text(value, &first);
    if (first.len <= BN_JSON_MAX_BYTES) {
        hold(bn_json_parse(&again, first.data, first.len, NULL) == BN_OK);
        to_text(again, &second);
        hold(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
        bn_buf_release(&second);
        bn_json_free(again);
    }
    bn_buf_release(&first);
    bn_json_free(value);
}

static void check_policy(const char *data, size_t n)
{
    struct bn_receipt_policy policy;
    bn_receipt_policy_defaults(&policy);
    if (bn_receipt_policy_read(&policy, data, n, NULL) == BN_OK) bn_receipt_policy_release(&policy);
}

static void check_key(const char *data, size_t n)
{
    struct bn_key *key;
    struct bn_buf bytes = {.max = 1u << 20}, text = {.max = 1u << 21};
    if (bn_key_read(&key, false, data, n, NULL) == BN_OK) bn_key_close(key);
    if (bn_key_read(&key, true, data, n, NULL) == BN_OK) bn_key_close(key);
    if (bn_base64_decode(&bytes, data, n, NULL) == BN_OK) {
        bn_base64_encode(&text, bytes.data, bytes.len);
        hold(text.len == n);
        for (size_t i = 0; i < n; i++)
            hold(text.data[i] == data[i] || data[i] == '-' || data[i] == '_');
    }
    bn_buf_release(&bytes);
    bn_buf_release(&text);
}

static void run_rules(const struct bn_receipt *receipt, bool demanding)
{
    static const char ALL[] =
        "{\"require_gpu_kernels\":true,\"require_quantized_kernels\":true,\"max_age_s\":9,"
        "\"validate_performance\":true,\"bandwidth_bytes_per_s\":1000000000,"
        "\"require_clean_program\":true,\"require_clean_git\":true}";
    struct bn_receipt_policy policy;
    struct bn_rules_report report;
    bn_receipt_policy_defaults(&policy);
    if (demanding) hold(bn_receipt_policy_read(&policy, ALL, sizeof ALL - 1, NULL) == BN_OK);
    struct bn_rules_input in = {.receipt = receipt, .policy = &policy, .now_utc = 1772360000};
    hold(bn_rules_run(&report, &in, NULL) == BN_OK);
    hold(report.verified == (report.exit_code == BN_EXIT_OK));
    hold(!report.verified || receipt->root != NULL);
    bn_receipt_policy_release(&policy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const struct bn_key *keys[] = {the_key()};
    struct bn_receipt_keys trusting = {keys, 1, 1, true, false}, strict = {keys, 1, 1, false, false};
    struct bn_receipt receipt;
    check_json(text, size);
    check_policy(text, size);
    check_key(text, size);
    if (bn_receipt_open(&receipt, text, size, &strict, NULL) == BN_OK) {
        hold(receipt.form != BN_RECEIPT_ENVELOPE || (receipt.root == NULL && receipt.n_good == 0));
        run_rules(&receipt, false);
    }
    bn_receipt_release(&receipt);
    if (bn_receipt_open(&receipt, text, size, &trusting, NULL) == BN_OK) {
        run_rules(&receipt, false);
        run_rules(&receipt, true);
    }
    bn_receipt_release(&receipt);
    return 0;
}
