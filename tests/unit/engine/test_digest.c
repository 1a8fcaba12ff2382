/* SPDX-License-Identifier: MIT
 *
 * base/digest.h: published vectors, strictness of base64, checksums.
 */
#include "base/digest.h"
#include "tests/unit/status.h"

/* FIPS 180-4 examples, and the empty message. */
TEST(sha256_vectors)
{
    static const char *const VECTORS[][2] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(VECTORS); i++) {
        char hex[BN_SHA256_HEX];
        bn_sha256_hex(VECTORS[i][0], strlen(VECTORS[i][0]), hex);
        assert_string_equal(hex, VECTORS[i][1]);
    }
}

TEST(sha256_streams_and_starts_afresh)
{
    struct bn_sha256 sha;
    char hex[BN_SHA256_HEX], block[1000];
    memset(block, 'a', sizeof block);
    bn_sha256_begin(&sha);
    for (int i = 0; i < 1000; i++)
        bn_sha256_update(&sha, block, sizeof block);
    bn_sha256_take_hex(&sha, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    bn_sha256_update(&sha, "a", 1);
    bn_sha256_update(&sha, "bc", 2);
    bn_sha256_take_hex(&sha, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/* RFC 4648, section 10. */
TEST(base64_vectors)
{
    static const char *const VECTORS[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(VECTORS); i++) {
        struct bn_buf text = {.max = 100}, back = {.max = 100};
        bn_base64_encode(&text, VECTORS[i][0], strlen(VECTORS[i][0]));
        bn_base64_encode(&text, "", 0);
        assert_string_equal(text.data == NULL ? "" : text.data, VECTORS[i][1]);
        must(bn_base64_decode(&back, VECTORS[i][1], strlen(VECTORS[i][1]), NULL));
        assert_string_equal(back.data == NULL ? "" : back.data, VECTORS[i][0]);
        bn_buf_release(&text);
        bn_buf_release(&back);
    }
}

TEST(base64_is_strict)
{
    static const char *const BAD[] = {
        "Zg",      "Zg=",  "Zg===", "Zm8",   "Zm9vZg=",  "Zm9v\n",   "Zm9v\nZm9v", " Zm9v", "Zm 9v",
        "=m9v",    "Z===", "Z=9v",  "Zm=v",  "Zg==Zg==", "Zg==Zm9v", "Zh==",       "Zm9=",  "Zm9v!",
        "Zm9\xC3", "+_==", "====",  "Zm9v=", "+/-_",     "Zm9v====", "Zg==    ",
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(BAD); i++) {
        struct bn_buf back = {.max = 100};
        refused(bn_base64_decode(&back, BAD[i], strlen(BAD[i]), &err), BN_ERR_FORMAT);
        assert_int_equal(err.code, BN_ERR_FORMAT);
        bn_buf_release(&back);
    }
    struct bn_buf one = {.max = 100}, two = {.max = 100}, nul = {.max = 100};
    must(bn_base64_decode(&one, "+/+/", 4, NULL));
    must(bn_base64_decode(&two, "-_-_", 4, NULL));
    assert_memory_equal(one.data, two.data, 3);
    refused(bn_base64_decode(&nul, "Zm9\0", 4, NULL), BN_ERR_FORMAT);
    bn_buf_release(&one);
    bn_buf_release(&two);
    bn_buf_release(&nul);
}

/* Of nothing it is the tag of GCM's first test case (McGrew and Viega, "The Galois/Counter Mode of
 * Operation", appendix B); pieces make no difference, one bit does. */
TEST(checksums)
{
    struct bn_checksum *sum = NULL;
    char empty[BN_CHECKSUM_HEX], whole[BN_CHECKSUM_HEX], parts[BN_CHECKSUM_HEX], other[BN_CHECKSUM_HEX];
    unsigned char bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7);
    must(bn_checksum_open(&sum, NULL));
    bn_checksum_take(sum, empty);
    assert_string_equal(empty, "58e2fccefa7e3061367f1d57a4e7455a");
    bn_checksum_update(sum, bytes, sizeof bytes);
    bn_checksum_take(sum, whole);
    for (size_t at = 0; at < sizeof bytes; at += 40)
        bn_checksum_update(sum, bytes + at, 40);
    bn_checksum_take(sum, parts);
    assert_string_equal(whole, parts);
    assert_string_equal(whole, "c61336aa6615c7686079fe3ca69de2ff"); /* by AES-128-GCM of EVP */
    bytes[999] ^= 1;
    bn_checksum_update(sum, bytes, sizeof bytes);
    bn_checksum_take(sum, other);
    assert_string_not_equal(whole, other);
    bn_checksum_close(sum);
}
