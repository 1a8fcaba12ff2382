/* SPDX-License-Identifier: MIT
 *
 * bn-verify-receipt sign and keygen. A private key is never overwritten, never readable by others, and wiped
 * from memory after use.
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "lab/receipt/receipt.h"
#include "tools/verify-receipt/verify_receipt.h"

#define MAX_PATH_BYTES 4096u

/* The integrity of what is signed has to hold; whatever else a verifier demands is up to the verifier. */
static bn_status check_integrity(const struct bn_receipt *receipt, bn_error *err)
{
    struct bn_receipt_policy policy;
    struct bn_rules_report report;
    bn_receipt_policy_defaults(&policy);
    struct bn_rules_input in = {.receipt = receipt, .policy = &policy, .now_utc = bn_clock_utc()};
    const struct bn_release_files none = {0};
    if (bn_json_text_is(receipt->statement, "predicateType", BN_PROVENANCE_TYPE)) in.release = &none;
    BN_TRY(bn_rules_run(&report, &in, err));
    for (size_t i = 0; i < report.n_rules; i++)
        if (report.rules[i].level == BN_LEVEL_INTEGRITY && report.results[i].verdict == BN_VERDICT_FAIL)
            return bn_fail(err, BN_ERR_INTEGRITY, "%s: %.200s", report.rules[i].id, report.results[i].reason);
    return BN_OK;
}

bn_status bn_verify_sign(struct bn_args *args, bn_error *err)
{
    const struct bn_receipt_keys none = {.threshold = 1, .release = true};
    const struct bn_verify_options *o = args->fields;
    const char *path = args->operands[0], *key_path = o->key, *out = o->output;
    struct bn_receipt receipt = {0};
    struct bn_key *key = NULL;
    struct bn_buf envelope = {.max = BN_JSON_MAX_BYTES};
    if (key_path == NULL) return bn_fail(err, BN_ERR_ARG, "sign needs --key FILE");
    bn_status status = bn_verify_read(&receipt, path, &none, err);
    if (status == BN_OK && receipt.form != BN_RECEIPT_STATEMENT)
        status = bn_fail(err, BN_ERR_ARG, "only an unsigned statement can be signed");
    if (status == BN_OK) status = check_integrity(&receipt, err);
    bn_error_name(err, path);
    if (status == BN_OK) status = bn_key_read_file(&key, key_path, err);
    if (status == BN_OK) status = bn_receipt_sign(&envelope, receipt.statement, key, err);
    if (status == BN_OK) status = bn_cli_write(out, &envelope, err);
    bn_buf_release(&envelope);
    bn_key_close(key);
    bn_receipt_release(&receipt);
    return status;
}

/* ---- keygen ---- */

static bn_status write_new(const char *path, mode_t mode, const struct bn_buf *text, bn_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) return bn_fail_errno(err, errno, path, "cannot create");
    bn_status status = bn_file_write_all(fd, text->data, text->len, path, err);
    if (status == BN_OK && fsync(fd) != 0) status = bn_fail_errno(err, errno, path, "cannot flush");
    if (close(fd) != 0 && status == BN_OK) status = bn_fail_errno(err, errno, path, "cannot close");
    if (status != BN_OK) (void)unlink(path);
    return status;
}

bn_status bn_verify_keygen(struct bn_args *args, bn_error *err)
{
    const char *path = ((const struct bn_verify_options *)args->fields)->output;
    char public_path[MAX_PATH_BYTES], id[17] = "";
    struct bn_key *key = NULL;
    char secret[BN_KEY_MAX_BYTES + 1]; /* growing would leave copies */
    struct bn_buf private_pem = {.data = secret, .max = BN_KEY_MAX_BYTES, .room = sizeof secret},
                  public_pem = {.max = BN_KEY_MAX_BYTES};
    if (path == NULL) return bn_fail(err, BN_ERR_ARG, "keygen needs --output NAME");
    int n = snprintf(public_path, sizeof public_path, "%s.pub", path);
    if (n < 0 || (size_t)n >= sizeof public_path) return bn_fail(err, BN_ERR_ARG, "the name is too long");
    bn_status status = bn_key_generate(&key, err);
    if (status == BN_OK) status = bn_key_write(key, true, &private_pem, err);
    if (status == BN_OK) status = bn_key_write(key, false, &public_pem, err);
    if (status == BN_OK) status = bn_key_id(key, id, err);
    if (status == BN_OK) status = write_new(public_path, 0644, &public_pem, err);
    if (status == BN_OK) {
        status = write_new(path, 0600, &private_pem, err);
        if (status != BN_OK) (void)unlink(public_path);
    }
    if (status == BN_OK && !args->json) printf("public key id: %s\n", id);
    if (status == BN_OK && args->json) {
        bn_json *doc = bn_json_new_object();
        bn_json_put_string(doc, "key_id", id);
        status = bn_cli_flush_json(doc, false, err);
    }
    explicit_bzero(secret, sizeof secret);
    bn_buf_release(&public_pem);
    bn_key_close(key);
    return status;
}
