/* SPDX-License-Identifier: MIT
 *
 * bn-verify-receipt verify: read, hold against the rules, replay when all else holds, tell.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "measure/bandwidth.h"
#include "measure/machine.h"
#include "receipt/replay.h"
#include "tools/cli/default_model.h"
#include "tools/verify-receipt/verify_receipt.h"

#define MAX_KEY_BYTES 65536u
#define PROBE_NS 200000000u
#define MAX_PROBE_THREADS 256u

/* ---- keys and files ---- */

/* A key that is there already is not kept: a threshold counts different keys. */
static bn_status add_key(struct bn_verify_keys *keys, const char *path, bn_error *err)
{
    struct bn_buf pem = {.max = MAX_KEY_BYTES};
    struct bn_key *key = NULL;
    char id[17], other[17];
    bn_status status = bn_file_read(path, &pem, err);
    if (status == BN_OK) status = bn_key_read_public(&key, pem.data == NULL ? "" : pem.data, pem.len, err);
    bn_buf_release(&pem);
    if (status == BN_OK) status = bn_key_id(key, id, err);
    bool known = false;
    for (size_t i = 0; i < keys->n && status == BN_OK; i++) {
        status = bn_key_id(keys->list[i], other, err);
        if (strcmp(id, other) == 0) known = true;
    }
    if (status == BN_OK && !known && keys->n == BN_ENVELOPE_MAX_KEYS)
        status = bn_fail(err, BN_ERR_LIMIT, "more than %u public keys", BN_ENVELOPE_MAX_KEYS);
    if (status == BN_OK && !known)
        keys->list[keys->n++] = key;
    else
        bn_key_close(key);
    bn_error_name(err, path);
    return status;
}

bn_status bn_verify_keys_open(struct bn_verify_keys *keys, const struct bn_args *args, bn_error *err)
{
    *keys = (struct bn_verify_keys){0};
    for (size_t i = 0; i < bn_opt_count(args, "public-key"); i++) {
        bn_status status = add_key(keys, bn_opt_at(args, "public-key", i), err);
        if (status != BN_OK) {
            bn_verify_keys_close(keys);
            return status;
        }
    }
    return BN_OK;
}

void bn_verify_keys_close(struct bn_verify_keys *keys)
{
    for (size_t i = 0; i < keys->n; i++)
        bn_key_close(keys->list[i]);
    *keys = (struct bn_verify_keys){0};
}

bn_status bn_verify_read(struct bn_receipt *receipt, const char *path, const struct bn_verify_keys *keys,
                         uint64_t threshold, bool unverified, bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    const struct bn_key *list[BN_ENVELOPE_MAX_KEYS] = {0};
    for (size_t i = 0; i < keys->n; i++)
        list[i] = keys->list[i];
    struct bn_receipt_keys open = {list, keys->n, (size_t)threshold, unverified};
    bn_status status = bn_file_read(path, &text, err);
    if (status == BN_OK)
        status = bn_receipt_open(receipt, text.data == NULL ? "" : text.data, text.len, &open, err);
    bn_buf_release(&text);
    bn_error_name(err, path);
    return status;
}

static bn_status read_policy(struct bn_receipt_policy *policy, const struct bn_args *args, bn_error *err)
{
    const char *path = bn_opt_str(args, "policy");
    bn_receipt_policy_defaults(policy);
    if (path != NULL) {
        struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
        bn_status status = bn_file_read(path, &text, err);
        if (status == BN_OK)
            status = bn_receipt_policy_read(policy, text.data == NULL ? "" : text.data, text.len, err);
        bn_buf_release(&text);
        bn_error_name(err, path);
        BN_TRY(status);
    }
    if (bn_opt_flag(args, "require-gpu-kernels")) policy->require_gpu_kernels = true;
    if (bn_opt_flag(args, "require-quantized-kernels")) policy->require_quantized_kernels = true;
    if (bn_opt_flag(args, "validate-performance")) policy->validate_performance = true;
    if (bn_opt_flag(args, "allow-corrections")) policy->allow_corrections = true;
    if (bn_opt_flag(args, "require-signature") || bn_opt_count(args, "public-key") > 0)
        policy->require_signature = true;
    bn_status status = bn_opt_seconds(args, "max-age", &policy->max_age_s, err);
    if (status == BN_OK && bn_opt_flag(args, "require-signature") && bn_opt_count(args, "public-key") == 0)
        status = bn_fail(err, BN_ERR_ARG, "--require-signature needs --public-key FILE");
    if (status != BN_OK) bn_receipt_policy_release(policy);
    return status;
}

/* ---- the verification ---- */

struct verify {
    struct bn_args *args;
    const char *path;
    struct bn_verify_keys keys;
    struct bn_receipt_policy policy;
    struct bn_receipt receipt;
    struct bn_rules_input in;
    struct bn_machine machine;
    char model_sha256[BN_SHA256_HEX];
    struct bn_replay_result replay;
    struct bn_rules_report report;
};

static bn_status digest_model(struct verify *v, bn_error *err)
{
    const char *path = bn_opt_str(v->args, "model");
    v->in.model_sha256 = v->model_sha256;
    v->in.model_is_default = path == NULL;
    if (path == NULL)
        return bn_sha256_hex(bn_default_model_data, (size_t)bn_default_model_bytes, v->model_sha256, err);
    char *file = NULL;
    BN_TRY(bn_cli_model_path(&file, path, err));
    bn_status status = bn_sha256_file(file, v->model_sha256, err);
    bn_free(file);
    return status;
}

/* Reads memory the way the receipt's run did: as many bytes at a time as one token reads, as many threads. */
static void probe_bandwidth(struct verify *v)
{
    uint64_t ternary = 0, head = 0, threads = 0;
    const bn_json *predicate = v->receipt.predicate;
    if (!v->policy.validate_performance || v->policy.bandwidth_bytes_per_s > 0) return;
    if (!bn_json_u64(bn_json_path(predicate, "model.ternary_bytes"), &ternary) ||
        !bn_json_u64(bn_json_path(predicate, "model.head_bytes"), &head) ||
        !bn_json_u64(bn_json_path(predicate, "resolved.threads"), &threads))
        return;
    if (threads > MAX_PROBE_THREADS) threads = MAX_PROBE_THREADS;
    v->in.bandwidth_bytes_per_s = bn_bandwidth_probe((size_t)(ternary + head), (unsigned)threads, PROBE_NS);
}

static bool passed(const struct bn_rules_report *report, const char *id)
{
    for (size_t i = 0; bn_rules_at(i) != NULL; i++)
        if (strcmp(bn_rules_at(i)->id, id) == 0) return report->results[i].verdict == BN_VERDICT_PASS;
    return false;
}

static bn_status run_replay(struct verify *v, bn_error *err)
{
    bn_model *model = NULL;
    uint32_t n_threads = 0, n_batch = 0;
    bn_error why = {0};
    BN_TRY(bn_opt_u32(v->args, "threads", 1, 1024, &n_threads, err));
    BN_TRY(bn_opt_u32(v->args, "batch", 1, 4096, &n_batch, err));
    BN_TRY(bn_cli_open_model(&model, v->args, NULL, err));
    bn_status status = bn_receipt_replay(&v->receipt, model, n_threads, n_batch, &v->replay, &why);
    bn_model_close(model);
    if (status == BN_ERR_NOMEM || status == BN_ERR_INTERNAL) return bn_fail(err, status, "%s", why.msg);
    if (status != BN_OK) {
        v->replay.same = false;
        snprintf(v->replay.reason, sizeof v->replay.reason, "%.90s%s%.100s", why.where,
                 why.where[0] == '\0' ? "" : ": ", why.msg);
    }
    return BN_OK;
}

/* Everything holds but the replay itself, which a policy may demand and which has not been yet. */
static bool rest_holds(const struct bn_rules_report *report)
{
    size_t n_replay = 0;
    for (size_t i = 0; bn_rules_at(i) != NULL; i++)
        if (strcmp(bn_rules_at(i)->id, "replay") == 0)
            n_replay += report->results[i].verdict == BN_VERDICT_FAIL;
    return report->n_failed == n_replay;
}

/* A replay is worth its time only when the rest holds. */
static bn_status replay(struct verify *v, bn_error *err)
{
    if (!bn_opt_flag(v->args, "replay") || !rest_holds(&v->report)) return BN_OK;
    if (v->receipt.statement == NULL)
        snprintf(v->replay.reason, sizeof v->replay.reason, "a bare predicate has no request to run again");
    else if (!passed(&v->report, "model"))
        snprintf(v->replay.reason, sizeof v->replay.reason, "there is no model to run it on (--model FILE)");
    else
        BN_TRY(run_replay(v, err));
    v->in.replay = &v->replay;
    bn_rules_run(&v->report, &v->in);
    return BN_OK;
}

static bn_status check(struct verify *v, bn_error *err)
{
    BN_TRY(bn_verify_read(&v->receipt, v->path, &v->keys, v->policy.signature_threshold,
                          bn_opt_flag(v->args, "unverified"), err));
    v->in.receipt = &v->receipt;
    v->in.policy = &v->policy;
    v->in.now_utc = bn_clock_utc();
    bn_machine_read(&v->machine);
    v->in.cpu_model = v->machine.cpu_model[0] == '\0' ? NULL : v->machine.cpu_model;
    if (v->receipt.root != NULL) {
        BN_TRY(digest_model(v, err));
        probe_bandwidth(v);
    }
    bn_rules_run(&v->report, &v->in);
    return replay(v, err);
}

/* Both must hold by themselves before they are compared. */
static bn_status diff(struct verify *v, bn_error *err)
{
    const char *path = bn_opt_str(v->args, "diff");
    struct bn_receipt other = {0};
    struct bn_rules_report report;
    struct bn_rules_input in = v->in;
    bn_status status = bn_verify_read(&other, path, &v->keys, v->policy.signature_threshold,
                                      bn_opt_flag(v->args, "unverified"), err);
    in.receipt = &other;
    in.replay = NULL;
    if (status == BN_OK) bn_rules_run(&report, &in);
    if (status == BN_OK && report.exit_code == BN_EXIT_INTEGRITY)
        status = bn_fail_at(err, BN_ERR_INTEGRITY, BN_NO_OFFSET, path, "its integrity does not hold");
    if (status == BN_OK) status = bn_verify_print_diff(v->args, &v->receipt, &other, err);
    bn_receipt_release(&other);
    return status;
}

bn_status bn_verify_verify(struct bn_args *args, bn_error *err)
{
    struct verify v = {.args = args, .path = bn_opt_str(args, "path")};
    if (args->n_operands > 0) v.path = args->operands[0];
    BN_TRY(read_policy(&v.policy, args, err));
    bn_status status = bn_verify_keys_open(&v.keys, args, err);
    if (status == BN_OK) status = check(&v, err);
    if (status == BN_OK && bn_opt_given(args, "diff")) {
        if (v.report.exit_code == BN_EXIT_INTEGRITY)
            status = bn_fail_at(err, BN_ERR_INTEGRITY, BN_NO_OFFSET, v.path, "its integrity does not hold");
        else
            status = diff(&v, err);
    } else if (status == BN_OK) {
        args->exit_code = (int)v.report.exit_code;
        status = bn_verify_print(args, v.path, &v.receipt, &v.report, err);
    }
    bn_receipt_release(&v.receipt);
    bn_verify_keys_close(&v.keys);
    bn_receipt_policy_release(&v.policy);
    return status;
}
