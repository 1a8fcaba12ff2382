/* SPDX-License-Identifier: MIT
 *
 * Signed receipts: no changed bit is accepted, envelopes are read strictly, lack of memory is reported as
 * such.
 */
#include "tests/unit/receipt/receipt_maker.h"

static struct bn_key *fresh_key(void)
{
    struct bn_key *key;
    must(bn_key_generate(&key, NULL));
    return key;
}

/* Appends the envelope of a statement by this key; *canonical is what is signed. */
static void sign(struct bn_buf *envelope, const bn_json *statement, const struct bn_key *key,
                 struct bn_buf *canonical)
{
    to_text(statement, true, canonical);
    *envelope = (struct bn_buf){.max = BN_JSON_MAX_BYTES};
    must(bn_envelope_sign(envelope, key, BN_RECEIPT_PAYLOAD_TYPE, canonical->data, canonical->len, NULL));
}

static bool same_text(const bn_json *a, const struct bn_buf *canonical)
{
    struct bn_buf text;
    to_text(a, true, &text);
    bool same = text.len == canonical->len && memcmp(text.data, canonical->data, text.len) == 0;
    bn_buf_release(&text);
    return same;
}

/* Pure PAE, from the specification's example. */
TEST(the_signed_bytes_are_those_of_dsse)
{
    struct bn_buf pae = {.max = 1000};
    bn_envelope_pae(&pae, "http://example.com/HelloWorld", "hello world", 11);
    assert_string_equal(pae.data, "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    bn_buf_release(&pae);
}

/* Every bit of a small envelope: what still opens says what was signed. */
TEST(no_changed_bit_of_an_envelope_changes_what_is_read)
{
    static const char STATEMENT[] =
        "{\"_type\":\"https://in-toto.io/Statement/v1\",\"predicate\":{\"kernels\":[\"i2s_gemv\"]},"
        "\"predicateType\":\"https://bn.invalid/inference-receipt/v1\"}";
    struct bn_key *key = fresh_key();
    struct bn_buf envelope = {.max = 10000}, canonical = {.max = 10000};
    const struct bn_key *keys[] = {key};
    struct bn_receipt_keys trusted = {keys, 1, 1, false, false};
    bn_buf_puts(&canonical, STATEMENT);
    must(bn_envelope_sign(&envelope, key, BN_RECEIPT_PAYLOAD_TYPE, STATEMENT, strlen(STATEMENT), NULL));
    size_t accepted = 0, refused = 0;
    for (size_t bit = 0; bit < envelope.len * 8; bit++) {
        struct bn_receipt receipt;
        envelope.data[bit / 8] = (char)(envelope.data[bit / 8] ^ (1 << bit % 8));
        bn_status status = bn_receipt_open(&receipt, envelope.data, envelope.len, &trusted, NULL);
        if (status == BN_OK && receipt.root != NULL) {
            accepted++;
            assert_true(same_text(receipt.root, &canonical));
        } else {
            refused++;
        }
        bn_receipt_release(&receipt);
        envelope.data[bit / 8] = (char)(envelope.data[bit / 8] ^ (1 << bit % 8));
    }
    /* What may change: the keyid, the URL alphabet of base64 in place of a single + or /, white space. */
    assert_true(accepted < 200);
    assert_true(refused > envelope.len * 7);
    bn_buf_release(&envelope);
    bn_buf_release(&canonical);
    bn_key_close(key);
}

/* Every byte of a whole signed receipt. */
TEST(no_changed_byte_of_a_signed_receipt_is_accepted)
{
    bn_json *statement = greedy_receipt(3);
    struct bn_key *key = fresh_key(), *other = fresh_key();
    struct bn_buf canonical, envelope;
    const struct bn_key *keys[] = {other, key};
    struct bn_receipt_keys trusted = {keys, 2, 1, false, false};
    sign(&envelope, statement, key, &canonical);
    for (size_t i = 0; i < envelope.len; i++) {
        struct bn_receipt receipt;
        char was = envelope.data[i];
        envelope.data[i] = (char)(was ^ (1 << (i % 7)));
        if (bn_receipt_open(&receipt, envelope.data, envelope.len, &trusted, NULL) == BN_OK &&
            receipt.root != NULL)
            assert_true(same_text(receipt.root, &canonical));
        bn_receipt_release(&receipt);
        envelope.data[i] = was;
    }
    struct bn_receipt receipt;
    must(bn_receipt_open(&receipt, envelope.data, envelope.len, &trusted, NULL));
    assert_true(receipt.root != NULL && receipt.n_good == 1 && verifies(&receipt));
    bn_receipt_release(&receipt);
    trusted.threshold = 2;
    must(bn_receipt_open(&receipt, envelope.data, envelope.len, &trusted, NULL));
    assert_null(receipt.root);
    bn_receipt_release(&receipt);
    bn_buf_release(&envelope);
    bn_buf_release(&canonical);
    bn_json_free(statement);
    bn_key_close(key);
    bn_key_close(other);
}

/* Without a signature, the receipt's own digest does the same. */
TEST(no_changed_byte_of_a_statement_is_accepted)
{
    bn_json *statement = greedy_receipt(2);
    struct bn_buf text, canonical;
    size_t accepted = 0;
    to_text(statement, false, &text);
    to_text(statement, true, &canonical);
    for (size_t i = 0; i < text.len; i++) {
        static const char FLIPS[] = {1, 0x20};
        char was = text.data[i];
        for (size_t f = 0; f < sizeof FLIPS; f++) {
            struct bn_receipt receipt;
            text.data[i] = (char)(was ^ FLIPS[f]);
            if (bn_receipt_open(&receipt, text.data, text.len, NULL, NULL) == BN_OK &&
                receipt.statement != NULL && verifies(&receipt)) {
                accepted++;
                assert_true(same_text(receipt.root, &canonical));
            }
            bn_receipt_release(&receipt);
        }
        text.data[i] = was;
    }
    assert_int_equal(accepted, 0); /* no flip of these turns one kind of white space into another */
    bn_buf_release(&text);
    bn_buf_release(&canonical);
    bn_json_free(statement);
}

/* A statement of another writer need not carry its own digest, when it is signed. */
TEST(a_signature_stands_in_for_the_own_digest)
{
    bn_json *statement = greedy_receipt(2);
    struct bn_key *key = fresh_key();
    struct bn_buf canonical, envelope;
    const struct bn_key *keys[] = {key};
    struct bn_receipt_keys trusted = {keys, 1, 1, false, false};
    struct bn_receipt receipt;
    bn_json_remove(statement, "receipt_sha256");
    assert_false(statement_verifies(statement));
    sign(&envelope, statement, key, &canonical);
    must(bn_receipt_open(&receipt, envelope.data, envelope.len, &trusted, NULL));
    assert_true(verifies(&receipt));
    bn_receipt_release(&receipt);
    bn_buf_release(&canonical);
    bn_buf_release(&envelope);
    bn_json_free(statement);
    bn_key_close(key);
}

TEST(envelopes_are_read_strictly)
{
#define ENVELOPE(signatures) \
    "{\"payload\":\"e30=\",\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":" signatures "}"
    static const char *const BAD[] = {
        "{\"payload\":\"e30=\"}",
        "{\"signatures\":[]}",
        ENVELOPE("[]"),
        ENVELOPE("{}"),
        ENVELOPE("[1]"),
        ENVELOPE("[{}]"),
        ENVELOPE("[{\"sig\":1}]"),
        ENVELOPE("[{\"sig\":\"?\"}]"),
        ENVELOPE("[{\"sig\":\"\",\"keyid\":7}]"),
        ENVELOPE("[{\"sig\":\"\",\"cert\":\"\"}]"),
        "{\"payload\":\"e30=\",\"payloadType\":1,\"signatures\":[{\"sig\":\"\"}]}",
        "{\"payload\":1,\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":[{\"sig\":\"\"}]}",
        "{\"payload\":\"e30\",\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":[{\"sig\":\"\"}]}",
        "{\"payload\":\"e30=\",\"payloadType\":\"text/plain\",\"signatures\":[{\"sig\":\"\"}]}",
        ENVELOPE("[{\"sig\":\"\"}]"), /* the last one is well formed, and nobody's */
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(BAD); i++) {
        struct bn_receipt receipt;
        bn_status got = bn_receipt_open(&receipt, BAD[i], strlen(BAD[i]), NULL, NULL),
                  want = i + 1 < BN_ARRAY_LEN(BAD) ? BN_ERR_FORMAT : BN_OK;
        if (got != want) print_message("%s\n", BAD[i]);
        assert_int_equal(got, want);
        assert_null(receipt.root);
        bn_receipt_release(&receipt);
    }
    struct bn_buf many = {.max = 10000};
    struct bn_receipt receipt;
    bn_buf_puts(&many,
                "{\"payload\":\"e30=\",\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":[");
    for (int i = 0; i < 17; i++)
        bn_buf_printf(&many, "%s{\"sig\":\"\"}", i > 0 ? "," : "");
    bn_buf_puts(&many, "]}");
    refused(bn_receipt_open(&receipt, many.data, many.len, NULL, NULL), BN_ERR_LIMIT);
    bn_receipt_release(&receipt);
    bn_buf_release(&many);
}

struct signing {
    struct bn_key *key;
    struct bn_buf plain, envelope;
};

static bn_status verify_envelope(struct signing *s, bn_error *e)
{
    const struct bn_key *keys[] = {s->key};
    struct bn_receipt_keys trusted = {keys, 1, 1, false, false};
    struct bn_receipt receipt;
    struct bn_receipt_policy policy;
    struct bn_rules_report report;
    bn_receipt_policy_defaults(&policy);
    BN_TRY(bn_receipt_open(&receipt, s->envelope.data, s->envelope.len, &trusted, e));
    struct bn_rules_input in = {.receipt = &receipt, .policy = &policy, .now_utc = bn_clock_utc()};
    bn_status status = bn_rules_run(&report, &in, e);
    if (status == BN_OK) assert_true(report.verified);
    bn_receipt_release(&receipt);
    return status;
}

static bn_status sign_again(struct signing *s, bn_error *e)
{
    struct bn_receipt receipt;
    struct bn_buf envelope = {.max = BN_JSON_MAX_BYTES};
    BN_TRY(bn_receipt_open(&receipt, s->plain.data, s->plain.len, NULL, e));
    bn_status status = bn_receipt_sign(&envelope, receipt.statement, s->key, e);
    if (status == BN_OK) assert_int_equal(envelope.len, s->envelope.len);
    if (status == BN_OK) assert_memory_equal(envelope.data, s->envelope.data, envelope.len);
    bn_buf_release(&envelope);
    bn_receipt_release(&receipt);
    return status;
}

/* Every allocation of verifying, signing and comparing fails once: the outcome is the right one, or that
 * memory is short. */
TEST(short_memory_is_reported_as_such)
{
    bn_status (*const ACTIONS[])(struct signing *, bn_error *) = {sign_again, verify_envelope};
    struct signing s = {.key = fresh_key()};
    struct bn_buf canonical;
    bn_json *statement = greedy_receipt(2);
    to_text(statement, false, &s.plain);
    sign(&s.envelope, statement, s.key, &canonical);
    for (size_t a = 0; a < BN_ARRAY_LEN(ACTIONS); a++) {
        uint64_t most = 0, failed = 0;
        for (uint64_t n = 0; n <= most; n++) { /* the first round only counts */
            uint64_t before = bn_mem_stats().allocations;
            bn_mem_fail_after(n);
            bn_status status = attempt(ACTIONS[a](&s, &err));
            bn_mem_fail_after(0);
            if (n == 0) most = bn_mem_stats().allocations - before;
            if (status == BN_OK) continue;
            assert_int_equal(status, BN_ERR_NOMEM);
            assert_true(n > 0);
            failed++;
        }
        assert_true(failed > 100);
    }
    bn_buf_release(&s.plain);
    bn_buf_release(&s.envelope);
    bn_buf_release(&canonical);
    bn_json_free(statement);
    bn_key_close(s.key);
}

GROUP(open_model, close_model)
