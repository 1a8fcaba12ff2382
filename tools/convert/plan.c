/* SPDX-License-Identifier: MIT
 *
 * Inputs, tensors and targets of a plan, and its record; plan.h says what they hold.
 */
#define _POSIX_C_SOURCE 200809L
#include "tools/convert/plan.h"
#include "lab/kit/put_counts.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "model/hparams.h"

bn_status bn_cv_add_input(struct bn_cv_plan *plan, const char *path, const char *name, bn_error *err)
{
    BN_TRY(bn_array_grow(&plan->inputs, &plan->inputs_room, plan->n_inputs + 1, sizeof *plan->inputs, err));
    struct bn_cv_input *input = &plan->inputs[plan->n_inputs++];
    *input =
        (struct bn_cv_input){.path = bn_strndup(path, strlen(path)), .name = bn_strndup(name, strlen(name))};
    if (input->path == NULL || input->name == NULL) return bn_nomem(err);
    return bn_file_map_open(&input->map, path, false, err);
}

bn_status bn_cv_add_tensor(struct bn_cv_plan *plan, struct bn_cv_tensor **out, bn_error *err)
{
    if (plan->n_tensors == BN_GGUF_MAX_TENSORS)
        return bn_fail(err, BN_ERR_LIMIT, "more than %u tensors", BN_GGUF_MAX_TENSORS);
    BN_TRY(
        bn_array_grow(&plan->tensors, &plan->tensors_room, plan->n_tensors + 1, sizeof *plan->tensors, err));
    *out = &plan->tensors[plan->n_tensors++];
    **out = (struct bn_cv_tensor){.n_dims = 1, .ne = {1, 1, 1, 1}, .input = SIZE_MAX};
    return BN_OK;
}

void bn_cv_release(struct bn_cv_plan *plan)
{
    for (size_t i = 0; i < plan->n_inputs; i++) {
        bn_file_map_close(&plan->inputs[i].map);
        bn_free(plan->inputs[i].path);
        bn_free(plan->inputs[i].name);
    }
    bn_free(plan->inputs);
    bn_free(plan->tensors);
    bn_free(plan->owned);
    bn_gguf_close(&plan->gguf);
    bn_gguf_writer_release(&plan->keys);
}

static bn_status settle_tensor(struct bn_cv_tensor *t, bn_error *err)
{
    const struct bn_type_info *info = bn_type_info(t->to);
    bool ternary = t->kind != BN_CV_COPY && t->kind != BN_CV_FLOATS;
    uint64_t need = info->block > BN_CV_GROUP || !ternary ? info->block : BN_CV_GROUP;
    char where[BN_GGUF_MAX_NAME_BYTES + 16];
    snprintf(where, sizeof where, "tensor '%s'", t->name);
    if (t->ne[0] % need != 0)
        return bn_hint(bn_fail_in(err, BN_ERR_UNSUPPORTED, where,
                                  "rows of %llu weights are not a multiple of %llu, as %s needs",
                                  (unsigned long long)t->ne[0], (unsigned long long)need, info->name),
                       err, "choose a type with smaller blocks: q2_0 has 64 weights");
    if (!bn_type_bytes(t->to, t->ne, &t->n_bytes))
        return bn_fail_in(err, BN_ERR_LIMIT, where, "its size in bytes overflows");
    if (t->heads != 0 && (bn_cv_n_rows(t) % t->heads != 0 || bn_cv_n_rows(t) / t->heads % 2 != 0))
        return bn_fail_in(err, BN_ERR_FORMAT, where, "%llu rows are not %u heads of an even number of rows",
                          (unsigned long long)bn_cv_n_rows(t), t->heads);
    return BN_OK;
}

bn_status bn_cv_settle(struct bn_cv_plan *plan, bn_error *err)
{
    size_t n_ternary = 0;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        BN_TRY(settle_tensor(&plan->tensors[i], err));
        n_ternary += plan->tensors[i].kind != BN_CV_FLOATS &&
                     (plan->tensors[i].kind != BN_CV_COPY || plan->tensors[i].to == plan->target);
    }
    if (n_ternary > 0) return BN_OK;
    return bn_fail(err, BN_ERR_UNSUPPORTED, "no tensor of the model is ternary");
}

bn_status bn_cv_keep_activations(struct bn_cv_plan *plan, bool wide, bn_error *err)
{
    const char *value = wide ? "int16-group" : "int8-token";
    bn_hparams hp = {0};
    snprintf(hp.arch, sizeof hp.arch, "%.31s", plan->arch);
    if (bn_hparams_wide_activations(&hp, plan->target) == wide) return BN_OK;
    if (plan->target != BN_TYPE_I2_S) {
        bn_gguf_put_str(&plan->keys, BN_ACTIVATIONS_KEY, value, strlen(value));
        return BN_OK;
    }
    return bn_hint(bn_fail(err, BN_ERR_UNSUPPORTED,
                           "a model whose activations need 16 bits cannot be stored in I2_S, which has 8"),
                   err, "choose q2_0, which is as lossless");
}

#define SCHEMA "bn.model/1"

static const char *const WEIGHT_SCALE[] = {"auto", "multiply", "divide"};
static const char *const KINDS[] = {
    [BN_CV_COPY] = "copied",       [BN_CV_BLOCKS] = "repacked", [BN_CV_TRITS] = "packed from floats",
    [BN_CV_MASTER] = "ternarised", [BN_CV_PACKED] = "repacked", [BN_CV_FLOATS] = "widened",
    [BN_CV_WORDS] = "repacked",
};

static void put_tensors(bn_json *doc, const struct bn_cv_plan *plan)
{
    bn_json *list = bn_json_put_array(doc, "tensors");
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const struct bn_cv_tensor *t = &plan->tensors[i];
        bn_json *o = bn_json_add_object(list);
        BN_PUT(o, BN_STRING("name", t->name), BN_STRING("type", bn_type_info(t->to)->name),
               BN_STRING("how", KINDS[t->kind]));
        bn_json_put_u64s(o, "shape", t->ne, t->n_dims);
        bn_json_put_u64(o, "n_bytes", t->n_bytes);
    }
}

bn_json *bn_cv_record(const struct bn_cv_plan *plan, const struct bn_cv_result *result)
{
    bn_json *doc = bn_json_new_object();
    const char *slash = strrchr(plan->options->output != NULL ? plan->options->output : "", '/');
    bn_json_put_string(doc, "schema", SCHEMA);
    bn_json *program = bn_json_put_object(doc, "program");
    BN_PUT(program, BN_STRING("name", "bn-convert"), BN_STRING("version", bn_version()));
    bn_json *inputs = bn_json_put_array(doc, "inputs");
    for (size_t i = 0; i < plan->n_inputs; i++) {
        bn_json *o = bn_json_add_object(inputs);
        BN_PUT(o, BN_STRING("file", plan->inputs[i].name), BN_U64("n_bytes", plan->inputs[i].map.n_bytes),
               BN_TEXT("sha256", plan->inputs[i].sha256));
    }
    bn_json *options = bn_json_put_object(doc, "options");
    BN_PUT(options, BN_STRING("to", bn_type_info(plan->target)->label),
           BN_FLAG("ternarise", plan->options->ternarise),
           BN_FLAG("round_scales", plan->options->round_scales),
           BN_STRING("weight_scale", WEIGHT_SCALE[plan->options->weight_scale]),
           BN_STRING("pre", plan->options->pre), BN_STRING("name", plan->options->name));
    bn_json_put_string(doc, "arch", plan->arch);
    put_tensors(doc, plan);
    bn_json *left_out = bn_json_put_object(doc, "left_out");
    BN_PUT(left_out, BN_U64("vision", plan->n_vision), BN_U64("next_tokens", plan->n_next));
    if (result == NULL) return doc;
    bn_json_put_number(doc, "largest_scale_change", result->worst);
    bn_json *output = bn_json_put_object(doc, "output");
    BN_PUT(output, BN_STRING("file", slash != NULL ? slash + 1 : plan->options->output),
           BN_U64("n_bytes", result->n_bytes), BN_STRING("sha256", result->sha256));
    return doc;
}

bn_status bn_cv_record_path(char *out, size_t room, const char *output, bn_error *err)
{
    int n = snprintf(out, room, "%s.json", output);
    if (n >= 0 && (size_t)n < room) return BN_OK;
    return bn_fail(err, BN_ERR_LIMIT, "the path is longer than %zu bytes", room - 1);
}

static bn_status compare(const bn_json *record, const char *path, bn_error *err)
{
    char hex[BN_SHA256_HEX];
    const char *wanted = bn_json_text_of(record, "output.sha256");
    if (!bn_json_text_is(record, "schema", SCHEMA) || !bn_is_sha256(wanted))
        return bn_fail_in(err, BN_ERR_FORMAT, path, "its record is not a %s document with a digest", SCHEMA);
    BN_TRY(bn_sha256_file(path, hex, err));
    if (strcmp(hex, wanted) == 0) return BN_OK;
    return bn_fail_in(err, BN_ERR_INTEGRITY, path, "its digest is %s, the record says %s", hex, wanted);
}

bn_status bn_cv_check(bn_json **record, const char *path, bn_error *err)
{
    char name[PATH_MAX];
    BN_TRY(bn_cv_record_path(name, sizeof name, path, err));
    bn_status status = bn_json_read_file(record, name, err);
    if (status == BN_ERR_NOT_FOUND)
        return bn_hint(status, err, "bn-convert writes the record next to its output");
    BN_TRY(status);
    status = compare(*record, path, err);
    if (status == BN_OK) return status;
    bn_json_free(*record);
    *record = NULL;
    return status;
}
