/* SPDX-License-Identifier: MIT
 *
 * bn-verify-receipt verify: read, check every rule, replay when all else holds, report.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "lab/host/bandwidth.h"
#include "lab/host/machine.h"
#include "lab/verify/replay.h"
#include "tools/cli/default_model.h"
#include "tools/verify-receipt/verify_receipt.h"

#define MAX_KEY_BYTES 65536u
#define PROBE_NS 200000000u
#define PROBES 8u
#define MAX_PROBE_THREADS 256u

/* ---- keys and files ---- */

/* A key that is there already is not kept: a threshold counts different keys. */
static bn_status add_key(struct bn_verify_keys *keys, const char *path, bn_error *err)
{
    struct bn_buf pem = {.max = MAX_KEY_BYTES};
    struct bn_key *key = NULL;
    char id[17], other[17];
    bn_status status = bn_file_read(path, &pem, err);
    if (status == BN_OK) status = bn_key_read_public(&key, bn_buf_text(&pem), pem.len, err);
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

static void close_keys(struct bn_verify_keys *keys)
{
    for (size_t i = 0; i < keys->n; i++)
        bn_key_close(keys->list[i]);
    *keys = (struct bn_verify_keys){0};
}

static bn_status open_keys(struct bn_verify_keys *keys, const struct bn_args *args, bn_error *err)
{
    const struct bn_verify_options *o = args->fields;
    *keys = (struct bn_verify_keys){0};
    for (size_t i = 0; i < o->keys.n; i++) {
        bn_status status = add_key(keys, o->keys.list[i], err);
        if (status != BN_OK) {
            close_keys(keys);
            return status;
        }
    }
    return BN_OK;
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
    if (status == BN_OK) status = bn_receipt_open(receipt, bn_buf_text(&text), text.len, &open, err);
    bn_buf_release(&text);
    bn_error_name(err, path);
    return status;
}

/* Not merely by its environment variable, which a policy outranks. */
static bool on_command_line(const struct bn_args *args, const char *name)
{
    for (size_t i = 0; i < args->n_values; i++)
        if (strcmp(args->values[i].option->name, name) == 0 && args->values[i].env == NULL) return true;
    return false;
}

static bn_status read_policy(struct bn_receipt_policy *policy, const struct bn_args *args, bn_error *err)
{
    const struct bn_verify_options *o = args->fields;
    const char *path = o->policy;
    if (o->require_signature && o->keys.n == 0)
        return bn_fail(err, BN_ERR_ARG, "--require-signature needs --public-key FILE");
    bn_receipt_policy_defaults(policy);
    if (path != NULL) {
        struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
        bn_status status = bn_file_read(path, &text, err);
        if (status == BN_OK) status = bn_receipt_policy_read(policy, bn_buf_text(&text), text.len, err);
        bn_buf_release(&text);
        bn_error_name(err, path);
        BN_TRY(status);
    }
    policy->require_gpu_kernels |= o->require_gpu_kernels;
    policy->require_quantized_kernels |= o->require_quantized_kernels;
    policy->validate_performance |= o->validate_performance;
    policy->require_signature |= o->keys.n > 0;
    if (o->allow_corrections && (path == NULL || on_command_line(args, "allow-corrections")))
        policy->allow_corrections = true;
    if (bn_args_given(args, &o->max_age_s)) policy->max_age_s = o->max_age_s;
    return BN_OK;
}

/* ---- the verification ---- */

/* What is common to the receipts of one command. */
struct verify {
    struct bn_args *args;
    struct bn_verify_keys keys;
    struct bn_receipt_policy policy;
    struct bn_machine machine;
    struct bn_file_map
        map; /* of --model, opened once: the bytes that are hashed are those that are replayed */
    bool has_model;
    const unsigned char *model_bytes;
    size_t n_model_bytes;
    char model_sha256[BN_SHA256_HEX];
};

/* One receipt and what was found. */
struct subject {
    const char *path;
    struct bn_receipt receipt;
    struct bn_replay_result replay;
    struct bn_rules_report report;
};

/* For a replay the bytes are copied, so that nobody can write to them any more. */
static bn_status open_model(struct verify *v, bn_error *err)
{
    const struct bn_verify_options *o = v->args->fields;
    const char *path = v->args->model;
    char *file = NULL;
    if (v->has_model) return BN_OK;
    if (path == NULL) {
        v->model_bytes = bn_default_model_data;
        v->n_model_bytes = (size_t)bn_default_model_bytes;
    } else {
        BN_TRY(bn_cli_model_path(&file, path, err));
        bn_status status = bn_file_map_open(&v->map, file, o->replay, err);
        bn_free(file);
        BN_TRY(status);
        v->model_bytes = v->map.data;
        v->n_model_bytes = v->map.n_bytes;
    }
    v->has_model = true;
    return bn_sha256_hex(v->model_bytes, v->n_model_bytes, v->model_sha256, err);
}

/* Reads memory the way the receipt's run did: as many bytes at a time as one token reads, as many threads.
 * What other programs take away is gained back by trying again; the best rate counts. */
static uint64_t probe_bandwidth(const struct verify *v, const struct bn_receipt *receipt)
{
    uint64_t ternary = 0, head = 0, threads = 0, best = 0;
    if (!v->policy.validate_performance || v->policy.bandwidth_bytes_per_s > 0) return 0;
    if (!bn_json_u64(bn_json_path(receipt->predicate, "model.ternary_bytes"), &ternary) ||
        !bn_json_u64(bn_json_path(receipt->predicate, "model.head_bytes"), &head) ||
        !bn_json_u64(bn_json_path(receipt->predicate, "resolved.threads"), &threads))
        return 0;
    if (threads > MAX_PROBE_THREADS) threads = MAX_PROBE_THREADS;
    double wanted = (double)bn_rules_claimed_bandwidth(receipt) * 100;
    for (unsigned i = 0; i < PROBES && (double)best * (double)v->policy.bandwidth_percent < wanted; i++) {
        uint64_t rate = bn_bandwidth_probe((size_t)(ternary + head), (unsigned)threads, PROBE_NS);
        if (rate > best) best = rate;
    }
    return best;
}

static bool passed(const struct bn_rules_report *report, const char *id)
{
    for (size_t i = 0; bn_rules_at(i) != NULL; i++)
        if (strcmp(bn_rules_at(i)->id, id) == 0) return report->results[i].verdict == BN_VERDICT_PASS;
    return false;
}

static bn_status run_replay(const struct verify *v, struct subject *s, bn_error *err)
{
    bn_model *model = NULL;
    const struct bn_verify_options *o = v->args->fields;
    bn_error why = {0};
    BN_TRY(bn_isa_select(v->args->isa, err));
    BN_TRY(bn_model_open_memory(&model, v->model_bytes, v->n_model_bytes, bn_cli_model_name(v->args), NULL,
                                err));
    bn_status status = bn_receipt_replay(&s->receipt, model, o->n_threads, o->n_batch, &s->replay, &why);
    bn_model_close(model);
    if (status == BN_ERR_NOMEM || status == BN_ERR_INTERNAL) return bn_fail(err, status, "%s", why.msg);
    if (status != BN_OK) {
        s->replay.same = false;
        snprintf(s->replay.reason, sizeof s->replay.reason, "%.90s%s%.100s", why.where,
                 why.where[0] == '\0' ? "" : ": ", why.msg);
    }
    return BN_OK;
}

/* Everything holds but the replay itself, which a policy may demand and which has not been made yet. */
static bool rest_holds(const struct bn_rules_report *report)
{
    size_t n_replay = 0;
    for (size_t i = 0; bn_rules_at(i) != NULL; i++)
        if (strcmp(bn_rules_at(i)->id, "replay") == 0)
            n_replay += report->results[i].verdict == BN_VERDICT_FAIL;
    return report->n_failed == n_replay;
}

/* A replay is worth its time only when the rest holds. */
static bn_status replay(const struct verify *v, struct subject *s, struct bn_rules_input *in, bn_error *err)
{
    if (!((const struct bn_verify_options *)v->args->fields)->replay || !rest_holds(&s->report)) return BN_OK;
    if (s->receipt.statement == NULL)
        snprintf(s->replay.reason, sizeof s->replay.reason, "a bare predicate has no request to run again");
    else if (!passed(&s->report, "model"))
        snprintf(s->replay.reason, sizeof s->replay.reason, "there is no model to run it on (--model FILE)");
    else
        BN_TRY(run_replay(v, s, err));
    in->replay = &s->replay;
    return bn_rules_run(&s->report, in, err);
}

static bn_status check(struct verify *v, struct subject *s, bn_error *err)
{
    const struct bn_verify_options *o = v->args->fields;
    BN_TRY(bn_verify_read(&s->receipt, s->path, &v->keys, v->policy.signature_threshold, o->unverified, err));
    struct bn_rules_input in = {
        .receipt = &s->receipt,
        .policy = &v->policy,
        .now_utc = bn_clock_utc(),
        .cpu_model = v->machine.cpu_model[0] == '\0' ? NULL : v->machine.cpu_model,
    };
    if (s->receipt.root != NULL) {
        BN_TRY(open_model(v, err));
        in.model_sha256 = v->model_sha256;
        in.model_is_default = v->args->model == NULL;
        in.bandwidth_bytes_per_s = probe_bandwidth(v, &s->receipt);
    }
    BN_TRY(bn_rules_run(&s->report, &in, err));
    return replay(v, s, &in, err);
}

/* ---- the command ---- */

/* A receipt that does not hold by itself is not compared. */
static bn_status must_hold(const struct subject *s, bn_error *err)
{
    if (s->report.verified) return BN_OK;
    size_t i = bn_rules_first_bad(&s->report);
    bn_status status = s->report.exit_code == BN_EXIT_INTEGRITY  ? BN_ERR_INTEGRITY
                       : s->report.exit_code == BN_EXIT_NEGATIVE ? BN_ERR_MISMATCH
                                                                 : BN_ERR_UNSUPPORTED;
    bn_fail_in(err, status, s->path, "not compared: rule %s: %.180s", bn_rules_at(i)->id,
               s->report.results[i].reason);
    char path[120];
    bn_error_hint(err, "bn-verify-receipt %s", bn_escape(path, sizeof path, s->path, strlen(s->path)));
    return status;
}

static bn_status diff(struct verify *v, const struct subject *left, bn_error *err)
{
    struct subject right = {.path = ((const struct bn_verify_options *)v->args->fields)->other};
    bn_status status = must_hold(left, err);
    if (status == BN_OK) status = check(v, &right, err);
    if (status == BN_OK) status = must_hold(&right, err);
    if (status == BN_OK) status = bn_verify_print_diff(v->args, &left->receipt, &right.receipt, err);
    bn_receipt_release(&right.receipt);
    return status;
}

/* The operand, or --path. Whoever named neither may not know the default. */
static bn_status find_path(const struct bn_args *args, const char **path, bn_error *err)
{
    const struct bn_verify_options *o = args->fields;
    *path = args->n_operands > 0 ? args->operands[0] : o->path;
    if (args->n_operands > 0 || bn_args_given(args, &o->path) || access(*path, F_OK) == 0) return BN_OK;
    char name[96];
    snprintf(name, sizeof name, "%.60s (the default path)", *path);
    return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, name, "not found"), err, "bn-verify-receipt FILE");
}

bn_status bn_verify_verify(struct bn_args *args, bn_error *err)
{
    const struct bn_verify_options *o = args->fields;
    struct verify v = {.args = args};
    struct subject s = {0};
    BN_TRY(find_path(args, &s.path, err));
    BN_TRY(read_policy(&v.policy, args, err));
    bn_machine_read(&v.machine);
    bn_status status = open_keys(&v.keys, args, err);
    if (status == BN_OK) status = check(&v, &s, err);
    if (status == BN_OK && o->other != NULL) {
        status = diff(&v, &s, err);
    } else if (status == BN_OK) {
        args->exit_code = (int)s.report.exit_code;
        status = bn_verify_print(args, s.path, &s.receipt, &s.report, err);
    }
    bn_receipt_release(&s.receipt);
    bn_file_map_close(&v.map);
    close_keys(&v.keys);
    bn_receipt_policy_release(&v.policy);
    return status;
}
