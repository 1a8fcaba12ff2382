/* SPDX-License-Identifier: MIT
 *
 * Checks one receipt by every rule, with the keys, the policy and the models that the command line gives; and
 * bn-verify-receipt verify, which prints what was found.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/host/meters.h"
#include "lab/receipt/receipt.h"
#include "lab/verify/rules.h"
#include "tools/cli/default_model.h"
#include "tools/cli/ranks.h"
#include "tools/verify-receipt/verify_receipt.h"

#define MAX_KEY_BYTES 65536u
#define PROBE_NS 200000000u
#define PROBES 8u
#define MAX_PROBE_THREADS 256u

/* ---- keys and files ---- */

/* A key that is there already is not kept: a threshold counts different keys. */
static bn_status add_key(struct bn_verify *v, const char *path, bn_error *err)
{
    struct bn_buf pem = {.max = MAX_KEY_BYTES};
    struct bn_key *key = NULL;
    char id[17], other[17];
    bn_status status = bn_file_read(path, &pem, err);
    if (status == BN_OK) status = bn_key_read(&key, false, bn_buf_text(&pem), pem.len, err);
    bn_buf_release(&pem);
    if (status == BN_OK) status = bn_key_id(key, id, err);
    bool known = false;
    for (size_t i = 0; i < v->n_keys && status == BN_OK; i++) {
        status = bn_key_id(v->keys[i], other, err);
        if (strcmp(id, other) == 0) known = true;
    }
    if (status == BN_OK && !known && v->n_keys == BN_ENVELOPE_MAX_KEYS)
        status = bn_fail(err, BN_ERR_LIMIT, "more than %u public keys", BN_ENVELOPE_MAX_KEYS);
    if (status == BN_OK && !known)
        v->keys[v->n_keys++] = key;
    else
        bn_key_close(key);
    bn_error_name(err, path);
    return status;
}

bn_status bn_verify_read(struct bn_receipt *receipt, const char *path, const struct bn_receipt_keys *keys,
                         bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bn_status status = bn_file_read(path, &text, err);
    if (status == BN_OK) status = bn_receipt_open(receipt, bn_buf_text(&text), text.len, keys, err);
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
    if ((o->require_signature || o->files != NULL) && o->keys.n == 0)
        return bn_fail(err, BN_ERR_ARG, "--%s needs --public-key FILE",
                       o->files != NULL ? "files" : "require-signature");
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
    if (bn_args_given(args, &o->max_age_s) && o->max_age_s == 0)
        return bn_fail(err, BN_ERR_ARG, "--max-age must be more than 0");
    if (o->max_age_s > 0 && (policy->max_age_s == 0 || o->max_age_s < policy->max_age_s))
        policy->max_age_s = o->max_age_s;
    return BN_OK;
}

/* ---- models ---- */

/* For a replay the bytes are copied, so that nobody can write to them any more. */
static bn_status open_model(struct bn_verify_model *m, const char *name, bool copy, bn_error *err)
{
    char *file = NULL;
    m->name = name == NULL ? BN_DEFAULT_MODEL_NAME : name;
    m->is_default = name == NULL;
    m->bytes = bn_default_model_data;
    m->n_bytes = (size_t)bn_default_model_bytes;
    if (name != NULL) {
        BN_TRY(bn_cli_model_path(&file, name, err));
        bn_status status = bn_file_map_open(&m->map, file, copy, err);
        bn_free(file);
        BN_TRY(status);
        m->bytes = m->map.data;
        m->n_bytes = m->map.n_bytes;
    }
    bn_sha256_hex(m->bytes, m->n_bytes, m->sha256);
    return bn_file_map_check(&m->map, m->name, err);
}

bn_status bn_verify_open_models(struct bn_verify *v, bn_error *err)
{
    size_t n = v->options->models.n == 0 ? 1 : v->options->models.n;
    if (v->models != NULL) return BN_OK;
    BN_TRY(BN_NEW(v->models, n, err));
    for (; v->n_models < n; v->n_models++) {
        const char *name = v->options->models.n == 0 ? NULL : v->options->models.list[v->n_models];
        bn_status status = open_model(&v->models[v->n_models], name, v->options->replay, err);
        if (status == BN_OK) continue;
        bn_file_map_close(&v->models[v->n_models].map);
        return status;
    }
    return BN_OK;
}

/* The model that the receipt names by its digest; the first one when there is none. */
static const struct bn_verify_model *choose_model(const struct bn_verify *v, const struct bn_receipt *receipt)
{
    for (size_t i = 0; i < v->n_models; i++)
        if (bn_json_text_is(receipt->predicate, "model.sha256", v->models[i].sha256)) return &v->models[i];
    return &v->models[0];
}

/* ---- opening and closing ---- */

bn_status bn_verify_open(struct bn_verify *v, const struct bn_args *args, bn_error *err)
{
    *v = (struct bn_verify){
        .args = args, .options = args->fields, .sources = v->sources, .n_sources = v->n_sources};
    v->n_threads = v->options->n_threads;
    BN_TRY(read_policy(&v->policy, args, err));
    bn_machine_read(&v->machine);
    for (size_t i = 0; i < v->options->keys.n; i++)
        BN_TRY(add_key(v, v->options->keys.list[i], err));
    return BN_OK;
}

static void close_all(struct bn_verify *v)
{
    for (size_t i = 0; i < v->n_models; i++)
        bn_file_map_close(&v->models[i].map);
    bn_free(v->models);
    for (size_t i = 0; i < v->n_keys; i++)
        bn_key_close(v->keys[i]);
    bn_receipt_policy_release(&v->policy);
    *v = (struct bn_verify){0};
}

/* ---- the verification ---- */

/* Reads memory the way the receipt's run did: as many bytes at a time as one token reads, as many threads.
 * What other programs take away is gained back by trying again; the best rate counts, also that of earlier receipts
 * of the same kind. */
static uint64_t probe_bandwidth(struct bn_verify *v, const struct bn_receipt *receipt)
{
    uint64_t ternary = 0, head = 0, threads = 0;
    struct bn_verify_probe *probe = &v->probe;
    if (!v->policy.validate_performance || v->policy.bandwidth_bytes_per_s > 0 ||
        bn_json_path(receipt->predicate, "device") != NULL) /* its memory is another one */
        return 0;
    if (!bn_json_u64(bn_json_path(receipt->predicate, "model.ternary_bytes"), &ternary) ||
        !bn_json_u64(bn_json_path(receipt->predicate, "model.head_bytes"), &head) ||
        !bn_json_u64(bn_json_path(receipt->predicate, "resolved.threads"), &threads))
        return 0;
    if (threads > MAX_PROBE_THREADS) threads = MAX_PROBE_THREADS;
    if (probe->bytes != ternary + head || probe->threads != threads)
        *probe = (struct bn_verify_probe){ternary + head, threads, 0};
    double wanted = (double)bn_rules_claimed_bandwidth(receipt) * 100;
    for (unsigned i = 0; i < PROBES && (double)probe->best * (double)v->policy.bandwidth_percent < wanted;
         i++) {
        uint64_t rate = bn_bandwidth_probe((size_t)probe->bytes, (unsigned)threads, PROBE_NS);
        if (rate > probe->best) probe->best = rate;
    }
    return probe->best;
}

/* Everything holds but what the replay decides, which a policy may demand and which has not been made yet. */
static bool rest_holds(const struct bn_rules_report *report)
{
    const struct bn_rule_result *replay = bn_rules_result(report, "replay"),
                                *bound = bn_rules_result(report, BN_RULE_BOUND);
    return report->n_failed ==
           (size_t)(replay->verdict == BN_VERDICT_FAIL) + (size_t)(bound->verdict == BN_VERDICT_FAIL);
}

/* A replay is worth its time only when the rest holds. */
static bn_status check_replay(const struct bn_verify *v, struct bn_verify_subject *s, bn_error *err)
{
    if (!v->options->replay || !rest_holds(&s->report)) return BN_OK;
    if (s->receipt.statement == NULL)
        snprintf(s->replay.reason, sizeof s->replay.reason, "a bare predicate has no request to run again");
    else if (bn_rules_result(&s->report, "model")->verdict != BN_VERDICT_PASS)
        snprintf(s->replay.reason, sizeof s->replay.reason, "there is no model to run it on (--model FILE)");
    else {
        s->wants_replay = true;
        return BN_OK;
    }
    return bn_verify_finish(s, err);
}

/* The record of a training run: a model that was given takes the place of the one next to it. */
static bn_status check_training(struct bn_verify *v, struct bn_verify_subject *s, bn_error *err)
{
    const bn_json *record = s->receipt.predicate;
    struct bn_training_options with = {.path = s->path,
                                       .texts = v->options->texts,
                                       .n_steps = v->options->n_replay_steps,
                                       .n_threads = v->options->n_threads,
                                       .timeout_ns =
                                           bn_min_size(v->options->timeout_s, UINT32_MAX) * 1000000000u,
                                       .cancelled = bn_cli_is_interrupted};
    if (v->options->models.n > 0) BN_TRY(bn_verify_open_models(v, err));
    for (size_t i = 0; i < v->n_models && v->options->models.n > 0; i++)
        if (i == 0 || bn_json_text_is(record, "result.model_sha256", v->models[i].sha256))
            with.model_sha256 = v->models[i].sha256;
    BN_TRY(bn_training_files_read(&s->files, record, &with, err));
    s->input.files = &s->files;
    BN_TRY(bn_rules_run(&s->report, &s->input, err));
    if (!v->options->replay || !rest_holds(&s->report)) return BN_OK;
    bn_cli_catch_interrupt(); /* the run and its temporary folder are ended first */
    BN_TRY(bn_training_repeat(record, &with, &s->replay, err));
    return bn_verify_finish(s, err);
}

/* The provenance of a release: nothing is read for what is not signed. */
static bn_status check_release(const struct bn_verify *v, struct bn_verify_subject *s, bn_error *err)
{
    s->input.release = &s->release;
    const char *files = v->options->files;
    if (s->receipt.root != NULL &&
        !bn_json_text_is(s->receipt.statement, "predicateType", BN_PROVENANCE_TYPE))
        return bn_fail_in(err, BN_ERR_FORMAT, s->path, "is not the provenance of a release");
    if (s->receipt.n_good > 0)
        BN_TRY(bn_release_files_read(&s->release, s->receipt.statement, files, s->path, err));
    return bn_rules_run(&s->report, &s->input, err);
}

bn_status bn_verify_check(struct bn_verify *v, struct bn_verify_subject *s, const struct bn_str *text,
                          bn_error *err)
{
    const struct bn_receipt_keys keys = {(const struct bn_key *const *)v->keys, v->n_keys,
                                         (size_t)v->policy.signature_threshold, v->options->unverified,
                                         v->options->files != NULL};
    if (text != NULL)
        BN_TRY(bn_receipt_open(&s->receipt, text->ptr, text->len, &keys, err));
    else
        BN_TRY(bn_verify_read(&s->receipt, s->path, &keys, err));
    s->input = (struct bn_rules_input){
        .receipt = &s->receipt,
        .policy = &v->policy,
        .now_utc = bn_clock_utc(),
        .cpu_model = v->machine.cpu_model[0] == '\0' ? NULL : v->machine.cpu_model,
    };
    if (v->options->files != NULL) return check_release(v, s, err);
    if (s->receipt.form == BN_RECEIPT_TRAINING) return check_training(v, s, err);
    if (s->receipt.root != NULL) {
        BN_TRY(bn_verify_open_models(v, err));
        s->model = choose_model(v, &s->receipt);
        s->input.model_sha256 = s->model->sha256;
        s->input.model_is_default = s->model->is_default;
        s->input.bandwidth_bytes_per_s = probe_bandwidth(v, &s->receipt);
    }
    BN_TRY(bn_rules_run(&s->report, &s->input, err));
    return check_replay(v, s, err);
}

bn_status bn_verify_finish(struct bn_verify_subject *s, bn_error *err)
{
    s->input.replay = &s->replay;
    return bn_rules_run(&s->report, &s->input, err);
}

bool bn_verify_is_own(bn_status status)
{
    return status == BN_ERR_NOMEM || status == BN_ERR_INTERNAL || status == BN_ERR_IO;
}

void bn_verify_refuse(struct bn_verify_subject *s, const bn_error *why)
{
    s->replay.same = false;
    snprintf(s->replay.reason, sizeof s->replay.reason, "%.90s%s%.100s", why->where,
             why->where[0] == '\0' ? "" : ": ", why->msg);
}

/* ---- one receipt ---- */

static bn_status replay(const struct bn_verify *v, struct bn_verify_subject *s, bn_error *err)
{
    bn_model *model = NULL;
    bn_model_options with = {0};
    bn_error why = {0};
    BN_TRY(bn_isa_select(v->args->isa, err));
    BN_TRY(bn_cli_device(&with.device, v->args, err));
    BN_TRY(bn_model_open_memory(&model, s->model->bytes, s->model->n_bytes, s->model->name, &with, err));
    bn_status status =
        bn_receipt_replay(&s->receipt, model, v->options->n_threads, v->options->n_batch, &s->replay, &why);
    bn_model_close(model);
    if (bn_verify_is_own(status)) return bn_fail(err, status, "%s", why.msg);
    if (status != BN_OK) bn_verify_refuse(s, &why);
    return bn_verify_finish(s, err);
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

/* What names several receipts: --batch, two operands or more, or a folder. */
static void find_sources(struct bn_verify *v, const struct bn_args *args)
{
    const struct bn_verify_options *o = args->fields;
    struct stat st;
    v->n_sources = args->n_operands > 1 ? args->n_operands : 1;
    v->sources = o->batch != NULL ? &o->batch : args->n_operands > 0 ? args->operands : &o->path;
    bool several = o->batch != NULL || args->n_operands > 1;
    if (!several && !(stat(v->sources[0], &st) == 0 && S_ISDIR(st.st_mode))) v->sources = NULL;
}

/* Options that belong to several receipts, and what --batch does not have. */
static bn_status check_options(struct bn_args *args, bool several, bn_error *err)
{
    const struct bn_verify_options *o = args->fields;
    char typed[BN_TYPED];
    const void *SEVERAL[] = {&o->n_sequences, &o->junit};
    for (size_t i = 0; i < BN_ARRAY_LEN(SEVERAL) && !several; i++)
        if (bn_args_given(args, SEVERAL[i]))
            return bn_fail(err, BN_ERR_ARG, "%s needs several receipts, a folder or --batch",
                           bn_args_typed(args, SEVERAL[i], typed));
    if (o->files != NULL && (several || o->replay))
        return bn_fail(err, BN_ERR_ARG, "--files needs one provenance, and no replay");
    if (args->n_operands > 1 && args->meant != NULL)
        return bn_fail(err, BN_ERR_ARG, "unknown command '%.80s'", args->operands[0]);
    if (args->n_operands > 0 && o->batch != NULL) {
        bn_fail(err, BN_ERR_ARG, "--batch cannot be combined with the receipt %.80s", args->operands[0]);
        if (strspn(o->batch, "0123456789") == strlen(o->batch))
            bn_error_hint(err, "--prompt-batch %s sets how many tokens are evaluated together", o->batch);
        return BN_ERR_ARG;
    }
    return BN_OK;
}

/* The record of a training run, which no signature wraps. Nothing is parsed; who writes these words into another receipt
 * gets the same sandbox with more files. */
static bool may_be_training(const char *path)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bool good = bn_file_read_regular(path, &text, NULL) == BN_OK;
    good = good && memmem(text.data, text.len, BN_TRAINING_SCHEMA, sizeof BN_TRAINING_SCHEMA - 1) != NULL;
    bn_buf_release(&text);
    return good;
}

void bn_verify_allow(struct bn_sandbox_rules *rules, const struct bn_args *args)
{
    const struct bn_verify_options *o = args->fields;
    const char *temp = getenv("TMPDIR");
    struct bn_verify v = {0};
    find_sources(&v, args);
    const char *const *paths = v.sources != NULL      ? v.sources
                               : args->n_operands > 0 ? args->operands
                                                      : &o->path;
    bool several = v.sources != NULL, training = several;
    for (size_t i = 0; i < (several ? v.n_sources : 1); i++) {
        bool record = several || may_be_training(paths[i]);
        bn_sandbox_allow(rules, record ? BN_PATH_BESIDE : BN_PATH_READ, paths[i]);
        training = training || record;
    }
    if (o->batch != NULL) bn_sandbox_allow(rules, BN_PATH_READ, "/"); /* a list names files anywhere */
    if (!training || !o->replay) return;
    bn_sandbox_allow(rules, BN_PATH_BOTH, temp != NULL && temp[0] != '\0' ? temp : "/tmp");
    bn_sandbox_allow_program(rules, "/usr/bin/env"); /* sets a variable for it */
    bn_sandbox_allow_program(rules, "bn-train");
}

static bn_status verify_one(struct bn_args *args, struct bn_verify *v, bn_error *err)
{
    struct bn_verify_subject s = {0};
    BN_TRY(find_path(args, &s.path, err));
    bn_status status = bn_verify_open(v, args, err);
    if (status == BN_OK) status = bn_verify_check(v, &s, NULL, err);
    if (status == BN_OK && s.wants_replay) status = replay(v, &s, err);
    args->exit_code = (int)s.report.exit_code;
    if (status == BN_OK) status = bn_verify_print(args, s.path, &s.receipt, &s.report, err);
    bn_receipt_release(&s.receipt);
    return status;
}

bn_status bn_verify_verify(struct bn_args *args, bn_error *err)
{
    struct bn_verify v = {0};
    find_sources(&v, args);
    BN_TRY(check_options(args, v.sources != NULL, err));
    if (v.sources == NULL) BN_TRY(bn_cli_refuse_ranks(args, err));
    bn_status status = v.sources != NULL ? bn_verify_batch(args, &v, err) : verify_one(args, &v, err);
    close_all(&v);
    return status;
}
