/* SPDX-License-Identifier: MIT
 *
 * Makes and checks records of conversions; write.h says what they hold.
 */
#define _POSIX_C_SOURCE 200809L
#include "tools/convert/write.h"

#include <limits.h>
#include <stdio.h>

#include "base/error.h"

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
        bn_json_put_string(o, "name", t->name);
        bn_json_put_string(o, "type", bn_type_info(t->to)->name);
        bn_json_put_string(o, "how", KINDS[t->kind]);
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
    bn_json_put_string(program, "name", "bn-convert");
    bn_json_put_string(program, "version", bn_version());
    bn_json *inputs = bn_json_put_array(doc, "inputs");
    for (size_t i = 0; i < plan->n_inputs; i++) {
        bn_json *o = bn_json_add_object(inputs);
        bn_json_put_string(o, "file", plan->inputs[i].name);
        bn_json_put_u64(o, "n_bytes", plan->inputs[i].map.n_bytes);
        bn_json_put_text(o, "sha256", plan->inputs[i].sha256);
    }
    bn_json *options = bn_json_put_object(doc, "options");
    bn_json_put_string(options, "to", bn_type_info(plan->target)->label);
    bn_json_put_bool(options, "ternarise", plan->options->ternarise);
    bn_json_put_bool(options, "round_scales", plan->options->round_scales);
    bn_json_put_string(options, "weight_scale", WEIGHT_SCALE[plan->options->weight_scale]);
    bn_json_put_string(options, "pre", plan->options->pre);
    bn_json_put_string(options, "name", plan->options->name);
    bn_json_put_string(doc, "arch", plan->arch);
    put_tensors(doc, plan);
    bn_json *left_out = bn_json_put_object(doc, "left_out");
    bn_json_put_u64(left_out, "vision", plan->n_vision);
    bn_json_put_u64(left_out, "next_tokens", plan->n_next);
    if (result == NULL) return doc;
    bn_json_put_number(doc, "largest_scale_change", result->worst);
    bn_json *output = bn_json_put_object(doc, "output");
    bn_json_put_string(output, "file", slash != NULL ? slash + 1 : plan->options->output);
    bn_json_put_u64(output, "n_bytes", result->n_bytes);
    bn_json_put_string(output, "sha256", result->sha256);
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
