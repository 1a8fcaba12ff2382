/* SPDX-License-Identifier: MIT
 *
 * Building a receipt; see receipt.h. One function per object of the predicate, in the order in which they are
 * written.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/utf8.h"
#include "build_info.h"
#include "grammar/grammar.h"
#include "lab/host/machine.h"
#include "lab/kit/process.h"
#include "lab/kit/put_counts.h"
#include "lab/receipt/receipt.h"
#include "model/hparams.h"
#include "model/model.h"
#include "stamp/profiler.h"
#include "tokenizer/tokenizer.h"

struct build {
    const struct bn_receipt_input *in;
    const struct bn_generation *gen;
    const struct bn_model *model;
    struct bn_machine machine;
    struct bn_receipt_facts *facts;
    char ids_sha256[BN_SHA256_HEX];
    bn_error *err;
};

/* A text as its digest, and as itself under the name without "_sha256" when texts are shown. */
static void put_text(struct build *b, bn_json *object, const char *name, const char *name_sha256,
                     const char *text, size_t n)
{
    char hex[BN_SHA256_HEX];
    if (text == NULL) {
        bn_json_put_null(object, name_sha256);
        return;
    }
    bn_sha256_hex(text, n, hex);
    bn_json_put_string(object, name_sha256, hex);
    /* JSON gives no NUL and no invalid UTF-8 back. */
    if (b->in->show_text && strlen(text) == n && bn_utf8_valid(text, n) == n)
        bn_json_put_string(object, name, text);
}

/* ---- the objects of the predicate ---- */

static void put_environment(struct build *b, bn_json *predicate)
{
    bn_json *env = bn_json_put_object(predicate, "environment");
    char threads[16];
    snprintf(threads, sizeof threads, "%u", bn_session_n_threads(b->in->session));
    if (b->machine.os[0] != '\0') bn_json_put_string(env, "OS", b->machine.os);
    if (b->machine.arch[0] != '\0') bn_json_put_string(env, "ARCH", b->machine.arch);
    if (b->machine.cpu_model[0] != '\0') bn_json_put_string(env, "CPU_BRAND", b->machine.cpu_model);
    BN_PUT(env, BN_STRING("BN_VERSION", bn_version()), BN_STRING("BITNET_VERSION", bn_version()),
           BN_STRING("THREADS", threads));
}

void bn_receipt_put_shape(bn_json *object, const bn_model *model)
{
    const bn_hparams *hp = &model->hp;
    char activations[BN_ACTIVATIONS_BYTES];
    const struct bn_gguf_tensor *first = bn_gguf_find_tensor(&model->gguf, "blk.0.attn_q.weight");
    const struct bn_type_info *type = first == NULL ? NULL : bn_type_info(first->type);
    BN_PUT(object, BN_U64("bytes", model->n_bytes), BN_STRING("arch", hp->arch),
           BN_STRING("quantization", type == NULL ? NULL : type->name),
           BN_STRING("activations", bn_model_activations(model, activations)));
    BN_PUT_COUNTS(object, {"n_vocab", hp->n_vocab}, {"n_ctx", hp->n_ctx}, {"n_embd", hp->n_embd},
                  {"n_layer", hp->n_layer}, {"n_ff", hp->n_ff}, {"n_head", hp->n_head},
                  {"n_head_kv", hp->n_head_kv}, {"head_dim", hp->head_dim}, {"n_rot", hp->n_rot});
    if (hp->window != 0)
        BN_PUT_COUNTS(object, {"window", hp->window}, {"local_layers", bn_hparams_n_local(hp)});
    if (hp->rope_is_local) bn_json_put_u64(object, "rotated_layers", bn_hparams_n_rotated(hp));
    if (hp->experts.n != 0)
        BN_PUT_COUNTS(bn_json_put_object(object, "experts"), {"count", hp->experts.n},
                      {"used", hp->experts.n_used}, {"bytes", model->expert_bytes});
    if (hp->recurrence.n_taps != 0)
        BN_PUT_COUNTS(bn_json_put_object(object, "recurrence"),
                      {"layers", bn_hparams_n_recurrent(hp, hp->n_layer)}, {"taps", hp->recurrence.n_taps},
                      {"head_dim", hp->recurrence.head_dim}, {"key_heads", hp->recurrence.n_key_heads},
                      {"value_heads", hp->recurrence.n_value_heads});
    BN_PUT_COUNTS(object, {"ternary_weights", model->ternary_weights},
                  {"ternary_bytes", model->ternary_bytes}, {"head_bytes", model->head_bytes});
}

static void put_model(struct build *b, bn_json *predicate)
{
    const char *name = b->in->model_name;
    bn_json *model = bn_json_put_object(predicate, "model");
    bn_json_put_string(model, "path", name == NULL || b->in->show_path ? name : bn_receipt_base_name(name));
    bn_json_put_string(model, "sha256", b->facts->model_sha256);
    bn_receipt_put_shape(model, b->model);
}

/* With its text, also when texts are not shown: a replay needs it. */
static void put_grammar(bn_json *request, const struct bn_grammar *grammar)
{
    if (grammar == NULL) return;
    bn_json *object = bn_json_put_object(request, "grammar");
    BN_PUT(object, BN_STRING("kind", bn_grammar_kind_name(grammar->kind)),
           BN_STRING("text_sha256", grammar->sha256), BN_STRING("text", grammar->text));
}

/* Settings that most requests do not have. */
static void put_changes(bn_json *request, const bn_sampler_options *s)
{
    char id[16];
    if (s->presence_penalty != 0.0f) bn_json_put_f32(request, "presence_penalty", s->presence_penalty);
    if (s->frequency_penalty != 0.0f) bn_json_put_f32(request, "frequency_penalty", s->frequency_penalty);
    bn_json *bias = s->n_bias > 0 ? bn_json_put_object(request, "logit_bias") : NULL;
    for (size_t i = 0; i < s->n_bias; i++) {
        snprintf(id, sizeof id, "%d", (int)s->bias[i].id);
        bn_json_put_f32(bias, id, s->bias[i].logit);
    }
}

static void put_request(struct build *b, bn_json *predicate)
{
    const struct bn_receipt_input *in = b->in;
    const struct bn_generation *gen = b->gen;
    bn_json *request = bn_json_put_object(predicate, "request");
    char hex[BN_SHA256_HEX];
    put_text(b, request, "prompt", "prompt_sha256", in->prompt, in->n_prompt_bytes);
    bn_json_put_ids(request, "prompt_ids", gen->prompt, gen->n_prompt);
    bn_receipt_ids_digest(gen->prompt, gen->n_prompt, hex);
    BN_PUT(request, BN_STRING("prompt_ids_sha256", hex), BN_U64("n_predict", gen->n_predict),
           BN_F32("temperature", gen->sampling.temperature), BN_U64("top_k", gen->sampling.top_k),
           BN_F32("top_p", gen->sampling.top_p), BN_F32("min_p", gen->sampling.min_p),
           BN_F32("repeat_penalty", gen->sampling.repeat_penalty),
           BN_U64("repeat_last", gen->sampling.repeat_last));
    put_changes(request, &gen->sampling);
    bn_json_put_u64(request, "seed", gen->sampling.seed);
    bn_json_put_ids(request, "stop_ids", gen->stop_ids, gen->n_stop_ids);
    bn_json_put_texts(request, "stops", gen->stops, gen->n_stops);
    bn_json_put_bool(request, "ignore_end", gen->ignore_end);
    put_grammar(request, gen->grammar);
    bn_json_put_string(request, "template", in->template_name);
    if (in->thinking != BN_THINKING_NONE) bn_json_put_bool(request, "think", in->thinking == BN_THINKING_ON);
    BN_PUT(request, BN_STRING("isa", in->isa), BN_COUNT("threads", in->n_threads), BN_COUNT("ctx", in->n_ctx),
           BN_COUNT("batch", in->n_batch));
}

/* The program that runs, from the file that it was started from. */
static void put_program(struct build *b, bn_json *resolved)
{
    bn_json *program = bn_json_put_object(resolved, "program");
    char path[PATH_MAX];
    bn_program_path(path);
    BN_PUT(program, BN_TEXT("name", bn_receipt_base_name(path)), BN_STRING("version", bn_version()),
           BN_TEXT("sha256", b->facts->program_sha256));
    bool stamped = strcmp(BN_BUILD_COMMIT, "unknown") != 0;
    bn_json_put_string(program, "commit", stamped ? BN_BUILD_COMMIT : NULL);
    if (stamped)
        bn_json_put_bool(program, "dirty", BN_BUILD_DIRTY != 0);
    else
        bn_json_put_null(program, "dirty");
    BN_PUT(program, BN_STRING("compiler", BN_BUILD_COMPILER), BN_TEXT("arch", b->machine.arch));
}

/* Kernels that the instruction set shares with a smaller one: their names end with that one's. */
static void put_fallbacks(struct build *b, bn_json *resolved)
{
    const char *isa = b->model->kernels->isa;
    bn_json *list = bn_json_put_array(resolved, "fallbacks");
    for (size_t i = 0; i < b->gen->n_kernels; i++) {
        const char *of = bn_receipt_other_isa(b->gen->kernels[i].name, isa);
        if (of == NULL) continue;
        char reason[120];
        snprintf(reason, sizeof reason, "%s has no such kernel of its own and uses that of %s", isa, of);
        bn_json *entry = bn_json_add_object(list);
        BN_PUT(entry, BN_STRING("kernel", b->gen->kernels[i].name), BN_STRING("reason", reason));
    }
}

/* Of the packed weights when a pass used them; they may have become complete too late. */
static uint64_t used_packed_bytes(const struct build *b)
{
    const char *name = b->model->kernels->name[BN_KERNEL_T5_GEMV];
    for (size_t i = 0; i < b->gen->n_kernels; i++)
        if (strcmp(b->gen->kernels[i].name, name) == 0) return b->model->packed_bytes;
    return 0;
}

static void put_resolved(struct build *b, bn_json *predicate)
{
    bn_json *resolved = bn_json_put_object(predicate, "resolved");
    bn_json_put_string(resolved, "isa", b->model->kernels->isa);
    BN_PUT_COUNTS(resolved, {"threads", bn_session_n_threads(b->in->session)},
                  {"ctx", bn_session_n_ctx(b->in->session)}, {"batch", bn_session_n_batch(b->in->session)});
    bn_json_put_text(resolved, "tokenizer_sha256", b->facts->tokenizer_sha256);
    bn_json_put_u64(resolved, "packed_bytes", used_packed_bytes(b));
    put_fallbacks(b, resolved);
    put_program(b, resolved);
}

static bn_status put_result(struct build *b, bn_json *predicate)
{
    const struct bn_generation *gen = b->gen;
    bn_json *result = bn_json_put_object(predicate, "result");
    char *text = NULL;
    size_t n_bytes = 0;
    bn_json_put_u64(result, "prompt_tokens", gen->n_prompt);
    bn_json_put_ids(result, "ids", gen->ids, gen->n_ids);
    bn_json_put_string(result, "ids_sha256", b->ids_sha256);
    const bn_tokenizer *tok = bn_model_tokenizer(b->model);
    if (tok != NULL) BN_TRY(bn_detokenize(tok, gen->ids, gen->n_ids, false, &text, &n_bytes, b->err));
    put_text(b, result, "text", "text_sha256", text, n_bytes);
    bn_free(text);
    BN_PUT(result, BN_STRING("stop_reason", bn_stop_reason_name(gen->reason)), BN_TEXT("chain", gen->chain));
    return BN_OK;
}

static bn_status put_samples(struct build *b, bn_json *measurement)
{
    const struct bn_generation *gen = b->gen;
    uint64_t *sorted;
    size_t n;
    bn_json_put_u64s(measurement, "token_ns", gen->token_ns, gen->n_ids);
    BN_TRY(bn_receipt_sort_samples(gen->token_ns, gen->n_ids, &sorted, &n, b->err));
    for (size_t i = 0; i < BN_RECEIPT_PERCENTILES; i++)
        bn_json_put_u64(measurement, bn_receipt_percentiles[i].name,
                        bn_receipt_percentile(sorted, n, bn_receipt_percentiles[i].percent));
    bn_free(sorted);
    return BN_OK;
}

static bn_status put_measurement(struct build *b, bn_json *predicate)
{
    const struct bn_generation *gen = b->gen;
    bn_json *measurement = bn_json_put_object(predicate, "measurement");
    bn_json_put_count(measurement, "load_ns", b->in->load_ns);
    BN_PUT_COUNTS(measurement, {"prefill_ns", gen->prefill_ns}, {"decode_ns", gen->decode_ns},
                  {"total_ns", gen->total_ns});
    bn_json_put_u64(measurement, "prefill_tokens_per_s_milli",
                    bn_receipt_rate_milli(gen->n_prompt - gen->n_cached, gen->prefill_ns));
    if (gen->n_cached > 0) bn_json_put_u64(measurement, "cached_tokens", gen->n_cached);
    if (gen->n_ids > 1)
        bn_json_put_u64(measurement, "decode_tokens_per_s_milli",
                        bn_receipt_rate_milli(gen->n_ids - 1, gen->decode_ns));
    else
        bn_json_put_null(measurement, "decode_tokens_per_s_milli");
    BN_TRY(put_samples(b, measurement));
    bn_json *stats = bn_json_put_array(measurement, "kernel_stats");
    for (size_t i = 0; i < gen->n_kernels; i++) {
        const bn_kernel_stat *stat = &gen->kernels[i];
        bn_json *entry = bn_json_add_object(stats);
        bn_json_put_string(entry, "name", stat->name);
        BN_PUT_COUNTS(entry, {"calls", stat->calls}, {"ns", stat->ns}, {"bytes", stat->bytes},
                      {"ops", stat->ops});
    }
    bn_json *head = bn_json_put_object(measurement, "screen");
    BN_PUT_COUNTS(head, {"screened", gen->screen.screened}, {"full", gen->screen.full},
                  {"heads", gen->screen.heads}, {"rows", gen->screen.rows});
    if (gen->screen.again > 0) bn_json_put_u64(head, "again", gen->screen.again);
    const bn_work *w = &gen->work;
    bn_json *work = bn_json_put_object(measurement, "work");
    BN_PUT_COUNTS(work, {"generations", gen->n_together}, {"passes", w->passes}, {"single", w->single},
                  {"tokens", w->tokens}, {"head_passes", w->head_passes}, {"heads", w->heads},
                  {"attended", w->attended}, {"attended_local", w->attended_local});
    if (w->skipped_rows > 0) bn_json_put_u64(work, "skipped_rows", w->skipped_rows);
    if (w->skipped_columns > 0) bn_json_put_u64(work, "skipped_columns", w->skipped_columns);
    if (b->model->hp.experts.n != 0) bn_json_put_u64(work, "experts", w->experts);
    if (gen->drafts.passes > 0)
        BN_PUT_COUNTS(bn_json_put_object(measurement, "drafts"), {"passes", gen->drafts.passes},
                      {"drafted", gen->drafts.drafted}, {"accepted", gen->drafts.accepted});
    if (gen->ranks.ranks > 0)
        BN_PUT_COUNTS(bn_json_put_object(measurement, "ranks"), {"count", gen->ranks.ranks},
                      {"exchanges", gen->ranks.exchanges}, {"bytes", gen->ranks.bytes},
                      {"ns", gen->ranks.ns});
    bn_json_put_count(measurement, "peak_rss_bytes", bn_machine_peak_rss_bytes());
    bn_json_put_count(measurement, "bandwidth_probe_bytes_per_s", b->in->bandwidth_bytes_per_s);
    return BN_OK;
}

/* ---- the whole ---- */

/* compute_path is "real" because kernels were counted: bn_receipt_build refuses otherwise. */
static bn_status put_predicate(struct build *b, bn_json *statement)
{
    const struct bn_generation *gen = b->gen;
    const bn_device_info *device = bn_model_device(b->model);
    bn_json *predicate = bn_json_put_object(statement, "predicate");
    BN_PUT(predicate, BN_STRING("schema_version", BN_RECEIPT_SCHEMA_VERSION),
           BN_TIME("timestamp", bn_clock_utc()), BN_STRING("compute_path", "real"),
           BN_STRING("backend", device != NULL ? BN_RECEIPT_DEVICE_BACKEND : "cpu"));
    if (device != NULL) bn_machine_put_device(bn_json_put_object(predicate, "device"), device);
    BN_PUT(predicate, BN_FLAG("deterministic", true), BN_U64("tokens_requested", gen->n_predict),
           BN_U64("tokens_generated", gen->n_ids),
           BN_NUMBER("tokens_per_second", (double)bn_receipt_rate_milli(gen->n_ids, gen->total_ns) / 1000));
    bn_json *kernels = bn_json_put_array(predicate, "kernels");
    for (size_t i = 0; i < gen->n_kernels; i++)
        bn_json_add_string(kernels, gen->kernels[i].name);
    put_environment(b, predicate);
    put_model(b, predicate);
    put_request(b, predicate);
    put_resolved(b, predicate);
    bn_git_put(bn_json_put_object(predicate, "git"), &b->facts->git);
    BN_TRY(put_result(b, predicate));
    BN_TRY(put_measurement(b, predicate));
    bn_machine_put(bn_json_put_object(predicate, "machine"), &b->machine);
    return BN_OK;
}

static void put_subject(bn_json *subjects, const char *name, const char *sha256)
{
    bn_json *subject = bn_json_add_object(subjects);
    bn_json_put_string(subject, "name", name);
    bn_json_put_string(bn_json_put_object(subject, "digest"), "sha256", sha256);
}

static bn_status check_input(const struct bn_receipt_input *in, bn_error *err)
{
    const struct bn_generation *gen = in->generation;
    if (gen->n_ids == 0) return bn_fail(err, BN_ERR_ARG, "no receipt: no token was generated");
    if (gen->n_kernels == 0) return bn_fail(err, BN_ERR_ARG, "no receipt: no kernel was counted");
    if (gen->n_before > 0)
        return bn_fail(err, BN_ERR_ARG, "no receipt: the timeline had %u tokens before the prompt",
                       gen->n_before);
    if (in->model->bytes == NULL) return bn_fail(err, BN_ERR_ARG, "no receipt: the model's bytes are gone");
    return BN_OK;
}

bn_status bn_receipt_read_facts(struct bn_receipt_facts *facts, const bn_model *model, const char *folder,
                                bn_error *err)
{
    const bn_tokenizer *tok = bn_model_tokenizer(model);
    if (facts->known) return BN_OK;
    BN_TRY(bn_model_digest(model, facts->model_sha256, err));
    if (bn_sha256_file("/proc/self/exe", facts->program_sha256, NULL) != BN_OK)
        facts->program_sha256[0] = '\0';
    if (tok != NULL) BN_TRY(bn_tokenizer_digest(tok, facts->tokenizer_sha256, err));
    bn_git_read(&facts->git, folder == NULL ? "." : folder);
    facts->known = true;
    return BN_OK;
}

bn_status bn_receipt_build(bn_json **statement, const struct bn_receipt_input *input, bn_error *err)
{
    *statement = NULL;
    BN_TRY(check_input(input, err));
    struct bn_receipt_facts own = {0};
    struct build b = {.in = input, .gen = input->generation, .model = input->model, .err = err};
    b.facts = input->facts != NULL ? input->facts : &own;
    bn_machine_read(&b.machine);
    BN_TRY(bn_receipt_read_facts(b.facts, b.model, input->folder, err));
    BN_TRY(bn_model_check_file(b.model, err)); /* after the digest */
    bn_receipt_ids_digest(b.gen->ids, b.gen->n_ids, b.ids_sha256);
    bn_json *root = bn_json_new_object();
    bn_json_put_string(root, "_type", BN_RECEIPT_STATEMENT_TYPE);
    bn_json *subjects = bn_json_put_array(root, "subject");
    put_subject(subjects, input->model_name == NULL ? "model" : bn_receipt_base_name(input->model_name),
                b.facts->model_sha256);
    put_subject(subjects, "tokens", b.ids_sha256);
    bn_json_put_string(root, "predicateType", BN_RECEIPT_PREDICATE_TYPE);
    bn_status status = put_predicate(&b, root);
    if (status == BN_OK) status = bn_receipt_seal(root, err);
    if (status != BN_OK) {
        bn_json_free(root);
        return status;
    }
    *statement = root;
    return BN_OK;
}

bn_status bn_receipt_write(const char *path, const struct bn_receipt_input *input, bn_error *err)
{
    bn_json *statement;
    BN_TRY(bn_receipt_build(&statement, input, err));
    bn_status status = bn_json_write_file(statement, path, err);
    bn_json_free(statement);
    return status;
}

/* ---- what building a receipt and checking one have to agree on ---- */

#define MAX_TEXT (64u << 20)

const char *bn_receipt_base_name(const char *path)
{
    if (strncmp(path, "hf:", 3) == 0) return path; /* a name of the hub, not of a folder here */
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

const char *bn_receipt_other_isa(const char *kernel, const char *isa)
{
    const char *end = strrchr(kernel, '_');
    return end != NULL && strcmp(end + 1, isa) != 0 && !bn_kernels_set_has(BN_RECEIPT_DEVICE_BACKEND, kernel)
               ? end + 1
               : NULL;
}

/* The canonical text of the statement without one member. A copy of the tree without that member would need
 * as much memory as the tree itself. */
static bn_status write_without(const bn_json *object, const char *name, struct bn_buf *text, bn_error *err)
{
    size_t n;
    bn_status status = BN_OK;
    const bn_json **members = bn_json_sorted(object, &n), *before = NULL;
    if (object == NULL || members == NULL) {
        bn_free(members);
        return bn_nomem(err);
    }
    bn_buf_putc(text, '{');
    for (size_t i = 0; i < n && status == BN_OK; i++) {
        if (strcmp(bn_json_name(members[i]), name) == 0) continue;
        if (before != NULL) bn_buf_putc(text, ',');
        before = members[i];
        bn_json_write_string(text, bn_json_name(before));
        bn_buf_putc(text, ':');
        status = bn_json_write(before, true, text, err);
    }
    bn_buf_putc(text, '}');
    bn_free(members);
    return status == BN_OK ? bn_buf_check(text, err) : status;
}

bn_status bn_receipt_self_digest(const bn_json *statement, char hex[BN_SHA256_HEX], bn_error *err)
{
    struct bn_buf text = {.max = MAX_TEXT};
    bn_status status = write_without(statement, "receipt_sha256", &text, err);
    if (status == BN_OK) bn_sha256_hex(text.data, text.len, hex);
    bn_buf_release(&text);
    return status;
}

bn_status bn_receipt_seal(bn_json *statement, bn_error *err)
{
    char hex[BN_SHA256_HEX];
    BN_TRY(bn_receipt_self_digest(statement, hex, err));
    bn_json_put_string(statement, "receipt_sha256", hex);
    return bn_json_is_complete(statement) ? BN_OK : bn_nomem(err);
}

void bn_receipt_ids_digest(const int32_t *ids, size_t n, char hex[BN_SHA256_HEX])
{
    bn_sha256_hex(ids, n * sizeof *ids, hex); /* every target is little endian */
}

bool bn_receipt_seed(const bn_json *seed, uint64_t *value)
{
    const char *digits = "";
    if (bn_json_u64(seed, value)) return true;
    if (!bn_json_string(seed, &digits) || digits[0] == '\0' || strlen(digits) > 20) return false;
    for (*value = 0; *digits >= '0' && *digits <= '9'; digits++)
        if (!bn_mul_ok(*value, 10, value) || !bn_add_ok(*value, (uint64_t)(*digits - '0'), value))
            return false;
    return *digits == '\0';
}

bn_status bn_receipt_bias(bn_candidate **out, bn_sampler_options *s, const bn_json *object, size_t n_vocab,
                          bn_error *err)
{
    bool ok = bn_json_kind(object) == BN_JSON_OBJECT;
    if (object == NULL) return BN_OK;
    s->bias = *out = bn_alloc(bn_json_size(object) + 1, sizeof **out);
    s->n_bias = 0;
    if (*out == NULL) return bn_nomem(err);
    for (const bn_json *m = bn_json_first(object); m != NULL && ok; m = bn_json_next(m)) {
        const char *id = bn_json_name(m);
        size_t n = strspn(id, "0123456789");
        double value = 0;
        ok = n > 0 && n < 10 && id[n] == '\0' && (n == 1 || id[0] != '0') && bn_json_number(m, &value);
        if (ok && (float)value != 0.0f) (*out)[s->n_bias++] = (bn_candidate){(int32_t)atol(id), (float)value};
    }
    if (!ok) return bn_fail(err, BN_ERR_FORMAT, "logit_bias is not an object of token ids and numbers");
    return bn_sampler_check(s, n_vocab, err);
}

uint64_t bn_receipt_rate_milli(uint64_t n, uint64_t ns)
{
    uint64_t scaled;
    if (ns == 0) return 0;
    if (!bn_mul_ok(n, UINT64_C(1000000000000), &scaled) || !bn_add_ok(scaled, ns / 2, &scaled)) return 0;
    return scaled / ns;
}

const struct bn_receipt_percentile bn_receipt_percentiles[BN_RECEIPT_PERCENTILES] = {
    {"p50_ns", 50}, {"p95_ns", 95}, {"p99_ns", 99}, {"max_ns", 100}};

uint64_t bn_receipt_percentile(const uint64_t *sorted, size_t n, unsigned percent)
{
    size_t rank = (n * percent + 99) / 100;
    return sorted[rank == 0 ? 0 : rank - 1];
}

bn_status bn_receipt_sort_samples(const uint64_t *token_ns, size_t n, uint64_t **sorted, size_t *n_sorted,
                                  bn_error *err)
{
    size_t skip = n > 1 ? 1 : 0;
    *n_sorted = n - skip;
    BN_TRY(BN_NEW(*sorted, *n_sorted, err));
    if (*n_sorted > 0) memcpy(*sorted, token_ns + skip, *n_sorted * sizeof **sorted);
    qsort(*sorted, *n_sorted, sizeof **sorted, bn_prof_by_value);
    return BN_OK;
}
