/* SPDX-License-Identifier: MIT
 *
 * bn-run inspect: what is in a model file, and the memory that the model needs. Text is printed of the document. Keys and tensors are read without building the model, so that a
 * file that is refused can be looked at too; statistics and the contract come from the weights themselves.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "gguf/gguf.h"
#include "gguf/types.h"
#include "infer/session.h"
#include "lab/kit/put_counts.h"
#include "lab/report/units.h"
#include "model/model.h"
#include "model/weights.h"
#include "tools/cli/default_model.h"
#include "tools/cli/report.h"
#include "tools/run/run.h"

#define SHOWN_VALUE_BYTES 60u

struct file {
    struct bn_file_map map;
    struct bn_gguf gguf;
};

static bn_status open_file(struct file *file, const struct bn_args *args, bn_error *err)
{
    const char *path = args->model;
    const void *data = bn_default_model_data;
    size_t n = (size_t)bn_default_model_bytes;
    *file = (struct file){0};
    if (path != NULL) {
        char *found = NULL;
        bn_status named = bn_cli_model_path(&found, path, err);
        char typed[BN_TYPED];
        if (path[0] == '\0') bn_error_name(err, bn_args_typed(args, &args->model, typed));
        BN_TRY(named);
        bn_status opened = bn_file_map_open(&file->map, found, false, err);
        bn_free(found);
        BN_TRY(opened);
        data = file->map.data;
        n = file->map.n_bytes;
    }
    bn_status status = bn_gguf_open(&file->gguf, data, n, err);
    if (status != BN_OK) {
        bn_error_name(err, bn_cli_model_name(args));
        bn_file_map_close(&file->map);
    }
    return status;
}

/* ---- keys ---- */

/* A value as text; arrays by their type and length. */
static void value_text(const struct bn_gguf_kv *kv, char *out, size_t room)
{
    const unsigned char *cursor = kv->value;
    const enum bn_gguf_type type = kv->type;
    const unsigned n_unused = 64u - 8u * (unsigned)bn_gguf_type_bytes(type); /* bits */
    uint64_t whole = 0;
    float f;
    double d;
    if (n_unused < 64) memcpy(&whole, kv->value, bn_gguf_type_bytes(type));
    memcpy(&f, &whole, sizeof f);
    memcpy(&d, &whole, sizeof d);
    if (type == BN_GGUF_STRING) {
        struct bn_str s = bn_gguf_next_str(&cursor);
        bn_escape(out, bn_min_size(room, SHOWN_VALUE_BYTES), s.ptr, s.len);
    } else if (type == BN_GGUF_ARRAY)
        snprintf(out, room, "[%llu x %s]", (unsigned long long)kv->n, bn_gguf_type_name(kv->element));
    else if (type == BN_GGUF_F32 || type == BN_GGUF_F64)
        snprintf(out, room, "%.*g", type == BN_GGUF_F32 ? 9 : 17, type == BN_GGUF_F32 ? (double)f : d);
    else if (type == BN_GGUF_BOOL)
        snprintf(out, room, "%s", whole != 0 ? "true" : "false");
    else if (type == BN_GGUF_I8 || type == BN_GGUF_I16 || type == BN_GGUF_I32 || type == BN_GGUF_I64)
        snprintf(out, room, "%lld", (long long)((int64_t)(whole << n_unused) >> n_unused));
    else
        snprintf(out, room, "%llu", (unsigned long long)whole);
}

static void put_keys(bn_json *doc, const struct bn_gguf *gguf)
{
    bn_json *list = bn_json_put_array(doc, "keys");
    for (size_t i = 0; i < gguf->n_kv; i++) {
        const struct bn_gguf_kv *kv = &gguf->kv[i];
        char key[512], value[256];
        bn_json *item = bn_json_add_object(list);
        value_text(kv, value, sizeof value);
        BN_PUT(item, BN_STRING("key", bn_escape(key, sizeof key, kv->key.ptr, kv->key.len)),
               BN_STRING("type", bn_gguf_type_name(kv->type)), BN_STRING("value", value));
    }
}

/* ---- tensors ---- */

/* How often each weight is in a ternary tensor, and its scale; size and range of a vector. */
static bn_status put_stats(bn_json *item, const struct bn_gguf_tensor *t, bn_error *err)
{
    static const char *const NAMES[4] = {"minus", "zero", "plus", "code3"};
    struct bn_run_stats s;
    bool ternary = bn_type_info(t->type)->unpack != NULL;
    if (!ternary && t->n_dims != 1) return BN_OK;
    BN_TRY(bn_run_read_stats(&s, t, 0, t->ne[1] * t->ne[2] * t->ne[3], err));
    for (unsigned i = 0; i < 4 && ternary; i++)
        bn_json_put_u64(item, NAMES[i], s.codes[i]);
    bn_json_put_number(item, ternary ? "scale" : "rms", s.size);
    if (ternary) return BN_OK;
    BN_PUT(item, BN_NUMBER("min", s.min), BN_NUMBER("max", s.max));
    return BN_OK;
}

static bn_status put_tensors(bn_json *doc, const struct bn_gguf *gguf, bn_error *err)
{
    bn_json *list = bn_json_put_array(doc, "tensors");
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        const struct bn_gguf_tensor *t = &gguf->tensors[i];
        char name[512];
        bn_json *item = bn_json_add_object(list);
        bn_json_put_string(item, "name", bn_escape(name, sizeof name, t->name.ptr, t->name.len));
        bn_json_put_string(item, "type", bn_type_info(t->type)->name);
        bn_json_put_u64s(item, "shape", t->ne, t->n_dims);
        BN_PUT(item, BN_U64("offset", t->offset), BN_U64("bytes", t->n_bytes));
        BN_TRY(put_stats(item, t, err));
    }
    return BN_OK;
}

/* ---- the model ---- */

static const char *const ACTIVATIONS[] = {
    [BN_ACTIVATION_RELU2] = "relu2", [BN_ACTIVATION_SILU] = "silu", [BN_ACTIVATION_GELU] = "gelu"};
static const char *const POOLINGS[] = {[BN_POOLING_FILE] = "",
                                       [BN_POOLING_NONE] = "none",
                                       [BN_POOLING_MEAN] = "mean",
                                       [BN_POOLING_FIRST] = "first",
                                       [BN_POOLING_LAST] = "last"};

static void put_model(bn_json *doc, const struct bn_model *m)
{
    const bn_hparams *hp = &m->hp;
    bn_json *model = bn_json_put_object(doc, "model");
    BN_PUT(model, BN_STRING("arch", hp->arch), BN_U64("layers", hp->n_layer),
           BN_U64("hidden_size", hp->n_embd), BN_U64("ff_size", hp->n_ff), BN_U64("heads", hp->n_head),
           BN_U64("kv_heads", hp->n_head_kv), BN_U64("head_dim", hp->head_dim),
           BN_U64("vocab_size", hp->n_vocab), BN_U64("context", hp->n_ctx),
           BN_STRING("activation", ACTIVATIONS[hp->activation]),
           BN_STRING("rope", hp->rope == BN_ROPE_NEOX ? "neox" : "norm"), BN_FLAG("sub_norms", hp->sub_norms),
           BN_FLAG("head_norms", hp->head_norms),
           BN_NUMBER("yarn_factor", hp->yarn.factor > 0.0f ? (double)hp->yarn.factor : 1.0),
           BN_U64("hadamard_block", m->hadamard.block), BN_FLAG("input_norms", hp->input_norms));
    if (hp->window != 0) bn_json_put_u64(model, "window", hp->window);
    if (hp->experts.n != 0) {
        BN_PUT(model, BN_U64("experts", hp->experts.n), BN_U64("experts_used", hp->experts.n_used),
               BN_U64("ternary_weights_per_token", m->ternary_weights));
    }
    if (hp->recurrence.n_taps != 0) {
        bn_json_put_u64(model, "recurrent_layers", bn_hparams_n_recurrent(hp, hp->n_layer));
        bn_json_put_u64(model, "state_bytes", bn_model_state_bytes(m));
    }
    if (hp->pooling != BN_POOLING_FILE) bn_json_put_string(model, "pooling", POOLINGS[hp->pooling]);
    bn_json_put_bool(model, "tied_head", hp->tied_head);
    char activations[BN_ACTIVATIONS_BYTES];
    bn_json_put_string(model, "activations", bn_model_activations(m, activations));
    /* bn_model counts the weights of those experts that one token uses. */
    uint64_t n_unused = hp->experts.n - hp->experts.n_used, n_each = (uint64_t)hp->n_embd * hp->n_layer;
    uint64_t routers = hp->experts.n * n_each * sizeof(float);
    bn_json_put_u64(model, "ternary_weights", m->ternary_weights + n_unused * 3 * hp->n_ff * n_each);
    bn_json_put_u64(model, "bytes_per_token", m->ternary_bytes + m->head_bytes + routers);
}

/* ---- the memory that it needs, before anything of it is taken ---- */

#define SOME_TOKENS 1000u

static const char *const VERDICTS[][2] = {
    {"no", "The context does not fit into memory: use a smaller one (--ctx)."},
    {"from-disk", "The context fits, but the weights do not stay in memory: each token reads them again "
                  "from the disk."},
    {"in-place", "The model fits without copies of its weights; its results are the same."},
    {"with-copies", "The model fits with copies of its weights, which make tokens faster."},
    {"fits", "The model fits; it needs no copies of its weights."},
};

/* Puts the figures into the document, and prints them. */
static bn_status show_memory(bn_json *doc, const bn_model *model, const struct bn_args *args, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    const bn_session_options options = {.n_ctx = o->n_ctx};
    uint32_t n_ctx;
    if (o->n_ctx > model->hp.n_ctx)
        return bn_fail(err, BN_ERR_LIMIT, "a context of %u tokens is too large, the model's is %u", o->n_ctx,
                       model->hp.n_ctx);
    struct bn_session_memory s = bn_session_plan(model, &options, &n_ctx);
    uint64_t file = model->n_bytes, copies = bn_repack_bytes(model), needed, available = bn_mem_available();
    if (!bn_add_ok(file + s.kv_bytes, s.scratch_bytes, &needed)) needed = UINT64_MAX;
    char cache[64];
    snprintf(cache, sizeof cache, "keys and values of %u tokens", n_ctx);
    const struct {
        const char *key, *text;
        uint64_t bytes; /* UINT64_MAX: unknown */
    } ROWS[] = {
        {"file_bytes", "weights, in the file", file},
        {"cache_bytes", cache, s.kv_bytes - s.state_bytes},
        {"state_bytes", "state of recurrent layers", s.state_bytes},
        {"scratch_bytes", "scratch memory", s.scratch_bytes},
        {"needed_bytes", "needed", needed},
        {"copies_bytes", "copies of weights, when there is room", copies},
        {"cache_bytes_per_1000_tokens", "each 1,000 tokens of context",
         bn_sequence_cache_bytes(model, SOME_TOKENS)},
        {"available_bytes", "available on this machine", available},
    };
    bn_json *memory = bn_json_put_object(doc, "memory");
    bn_json_put_u64(memory, "context", n_ctx);
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++) {
        char size[BN_UNITS_ROOM] = "unknown";
        bool known = ROWS[i].bytes != UINT64_MAX;
        if (known) bn_json_put_u64(memory, ROWS[i].key, ROWS[i].bytes);
        if (known) bn_units_text(size, (double)ROWS[i].bytes, "bytes");
        if (i == 0 && !args->json) printf("\n%-37s %11s\n", "memory", "size");
        if (ROWS[i].bytes != 0 && !args->json) printf("%-37s %11s\n", ROWS[i].text, size);
    }
    unsigned verdict = needed - file > available  ? 0
                       : needed > available       ? 1
                       : copies == 0              ? 4
                       : model->repacking.no_room ? 2
                                                  : 3;
    bn_json_put_string(memory, "verdict", VERDICTS[verdict][0]);
    if (!args->json) puts(VERDICTS[verdict][1]);
    return BN_OK;
}

/* ---- as text ---- */

/* A value of the document. */
static void print_value(const bn_json *value)
{
    const char *text;
    double number;
    bool flag;
    if (bn_json_string(value, &text))
        fputs(text, stdout);
    else if (bn_json_number(value, &number))
        printf("%.10g", number);
    else if (bn_json_bool(value, &flag))
        fputs(flag ? "yes" : "no", stdout);
}

static void print_model(const struct bn_model *m, const bn_json *doc)
{
    const bn_hparams *hp = &m->hp;
    printf("%s: %u layers of %u, ffn %u, %u heads of %u sharing %u, vocabulary %u, context %u\n", hp->arch,
           hp->n_layer, hp->n_embd, hp->n_ff, hp->n_head, hp->head_dim, hp->n_head_kv, hp->n_vocab,
           hp->n_ctx);
    for (const bn_json *v = bn_json_get(bn_json_get(doc, "model"), "activation"); v != NULL;
         v = bn_json_next(v)) {
        printf("%-26s ", bn_json_name(v));
        print_value(v);
        putchar('\n');
    }
}

static void print_lists(const bn_json *doc)
{
    const bn_json *keys = bn_json_get(doc, "keys"), *tensors = bn_json_get(doc, "tensors");
    printf("\n%zu keys\n", bn_json_size(keys));
    for (const bn_json *k = bn_json_first(keys); k != NULL; k = bn_json_next(k))
        printf("  %-48s %-7s %s\n", bn_json_text_of(k, "key"), bn_json_text_of(k, "type"),
               bn_json_text_of(k, "value"));
    printf("\n%zu tensors\n", bn_json_size(tensors));
    for (const bn_json *t = bn_json_first(tensors); t != NULL; t = bn_json_next(t)) {
        const bn_json *shape = bn_json_get(t, "shape"), *bytes = bn_json_get(t, "bytes");
        printf("  %-32s %-6s", bn_json_text_of(t, "name"), bn_json_text_of(t, "type"));
        for (const bn_json *ne = bn_json_first(shape); ne != NULL; ne = bn_json_next(ne)) {
            printf(ne == bn_json_first(shape) ? " " : " x ");
            print_value(ne);
        }
        for (const bn_json *v = bytes; v != NULL; v = bn_json_next(v)) {
            printf(", %s ", bn_json_name(v));
            print_value(v);
        }
        putchar('\n');
    }
}

/* ---- the command ---- */

/* What can be read is shown; then why the model does not run. */
static bn_status inspect(bn_json *doc, const struct bn_gguf *gguf, struct bn_args *args, bn_error *err)
{
    bn_model *model = NULL;
    bn_error refused = {0};
    static const bn_model_options copies = {.repack = BN_REPACK_AUTO, .repack_later = true};
    bn_status status = bn_cli_open_model(&model, args, &copies, &refused);
    bn_json_put_bool(doc, "runs_here", status == BN_OK);
    if (status == BN_OK) put_model(doc, model);
    if (status == BN_OK && !args->json) print_model(model, doc);
    if (status == BN_OK) status = show_memory(doc, model, args, &refused);
    put_keys(doc, gguf);
    bn_status shown = put_tensors(doc, gguf, err);
    if (shown == BN_OK && !bn_json_is_complete(doc)) shown = bn_nomem(err);
    if (shown == BN_OK && args->json) shown = bn_cli_print_json(doc, err);
    if (shown == BN_OK && !args->json) print_lists(doc);
    if (shown == BN_OK && status != BN_OK) *err = refused;
    bn_model_close(model);
    return shown == BN_OK ? status : shown;
}

bn_status bn_run_inspect(struct bn_args *args, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    struct file file;
    BN_TRY(open_file(&file, args, err));
    bn_json *doc = bn_json_new_object();
    BN_PUT(doc, BN_STRING("schema", BN_RUN_SCHEMA), BN_STRING("file", bn_cli_model_name(args)),
           BN_U64("gguf_version", file.gguf.version), BN_U64("bytes", file.gguf.n_bytes));
    bn_status status = (o->judge ? bn_run_judge : inspect)(doc, &file.gguf, args, err);
    if (status == BN_OK) status = bn_file_map_check(&file.map, bn_cli_model_name(args), err);
    bn_json_free(doc);
    bn_gguf_close(&file.gguf);
    bn_file_map_close(&file.map);
    return status;
}
