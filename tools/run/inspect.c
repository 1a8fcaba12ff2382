/* SPDX-License-Identifier: MIT
 *
 * bn-run inspect: what is in a model file. Keys and tensors are read without building the model, so that a
 * file that is refused can be looked at too; statistics and the contract come from the weights themselves.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "gguf/gguf.h"
#include "gguf/pack.h"
#include "infer/session.h"
#include "model/model.h"
#include "tools/cli/default_model.h"
#include "tools/cli/print_json.h"
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

static void close_file(struct file *file)
{
    bn_gguf_close(&file->gguf);
    bn_file_map_close(&file->map);
}

/* ---- keys ---- */

static uint64_t load_unsigned(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    memcpy(&v, p, n);
    return v;
}

static int64_t load_signed(const unsigned char *p, size_t n)
{
    unsigned unused = 64u - 8u * (unsigned)n;
    return (int64_t)(load_unsigned(p, n) << unused) >> unused;
}

/* A value as text; arrays by their type and length. */
static void value_text(const struct bn_gguf_kv *kv, char *out, size_t room)
{
    const unsigned char *cursor = kv->value;
    size_t n = bn_gguf_type_bytes(kv->type);
    float f;
    double d;
    switch (kv->type) {
    case BN_GGUF_STRING: {
        struct bn_str s = bn_gguf_next_str(&cursor);
        bn_escape(out, bn_min_size(room, SHOWN_VALUE_BYTES), s.ptr, s.len);
        return;
    }
    case BN_GGUF_ARRAY:
        snprintf(out, room, "[%llu x %s]", (unsigned long long)kv->n, bn_gguf_type_name(kv->element));
        return;
    case BN_GGUF_F32:
        memcpy(&f, kv->value, sizeof f);
        snprintf(out, room, "%.9g", (double)f);
        return;
    case BN_GGUF_F64:
        memcpy(&d, kv->value, sizeof d);
        snprintf(out, room, "%.17g", d);
        return;
    case BN_GGUF_BOOL:
        snprintf(out, room, "%s", kv->value[0] != 0 ? "true" : "false");
        return;
    case BN_GGUF_I8:
    case BN_GGUF_I16:
    case BN_GGUF_I32:
    case BN_GGUF_I64:
        snprintf(out, room, "%lld", (long long)load_signed(kv->value, n));
        return;
    case BN_GGUF_U8:
    case BN_GGUF_U16:
    case BN_GGUF_U32:
    case BN_GGUF_U64:
    case BN_GGUF_TYPE_COUNT:
    default:
        snprintf(out, room, "%llu", (unsigned long long)load_unsigned(kv->value, n));
        return;
    }
}

static void print_keys(const struct bn_gguf *gguf, bn_json *doc)
{
    bn_json *list = bn_json_put_array(doc, "keys");
    if (doc == NULL) printf("\n%zu keys\n", gguf->n_kv);
    for (size_t i = 0; i < gguf->n_kv; i++) {
        const struct bn_gguf_kv *kv = &gguf->kv[i];
        char key[512], value[256];
        bn_escape(key, sizeof key, kv->key.ptr, kv->key.len);
        value_text(kv, value, sizeof value);
        if (doc == NULL) {
            printf("  %-48s %-7s %s\n", key, bn_gguf_type_name(kv->type), value);
            continue;
        }
        bn_json *item = bn_json_add_object(list);
        bn_json_put_string(item, "key", key);
        bn_json_put_string(item, "type", bn_gguf_type_name(kv->type));
        bn_json_put_string(item, "value", value);
    }
}

/* ---- tensors ---- */

/* What there is to say about a tensor's values: shares of the codes of a ternary one, root mean square and
 * range of a vector. Empty for others. */
struct stats {
    bool ternary, vector;
    uint64_t codes[4];
    double rms, min, max, scale;
};

static void ternary_stats(const struct bn_gguf_tensor *t, struct stats *s)
{
    uint64_t n_codes = t->type == BN_TYPE_I2_S ? t->n_bytes - BN_I2S_TAIL_BYTES : t->n_bytes;
    s->ternary = true;
    for (uint64_t i = 0; i < n_codes; i++) {
        if (t->type == BN_TYPE_TQ2_0 && i % BN_TQ2_BLOCK_BYTES >= 64) continue;
        for (unsigned shift = 0; shift < 8; shift += 2)
            s->codes[t->data[i] >> shift & 3u]++;
    }
    float scale = 0.0f;
    if (t->type == BN_TYPE_I2_S) memcpy(&scale, t->data + n_codes, sizeof scale);
    s->scale = (double)scale;
}

static void vector_stats(const struct bn_gguf_tensor *t, struct stats *s)
{
    double sum = 0.0;
    s->vector = true;
    s->min = HUGE_VAL;
    s->max = -HUGE_VAL;
    for (uint64_t i = 0; i < t->ne[0]; i++) {
        float x;
        memcpy(&x, t->data + i * 4, sizeof x);
        sum += (double)x * (double)x;
        s->min = fmin(s->min, (double)x);
        s->max = fmax(s->max, (double)x);
    }
    s->rms = sqrt(sum / (double)t->ne[0]);
}

static void tensor_stats(const struct bn_gguf_tensor *t, struct stats *s)
{
    *s = (struct stats){0};
    if (t->type == BN_TYPE_I2_S || t->type == BN_TYPE_TQ2_0)
        ternary_stats(t, s);
    else if (t->type == BN_TYPE_F32 && t->n_dims == 1)
        vector_stats(t, s);
}

static void print_stats(const struct stats *s)
{
    double n = (double)(s->codes[0] + s->codes[1] + s->codes[2] + s->codes[3]);
    if (s->ternary) {
        printf("  -1 %4.1f %%  0 %4.1f %%  +1 %4.1f %%", 100.0 * (double)s->codes[0] / n,
               100.0 * (double)s->codes[1] / n, 100.0 * (double)s->codes[2] / n);
        if (s->codes[3] > 0) printf("  code 3: %llu", (unsigned long long)s->codes[3]);
        if (s->scale > 0.0) printf("  scale %.6g", s->scale);
    } else if (s->vector) {
        printf("  rms %.4g in %.4g..%.4g", s->rms, s->min, s->max);
    }
    putchar('\n');
}

static void put_stats(bn_json *item, const struct stats *s)
{
    static const char *const NAMES[4] = {"minus", "zero", "plus", "code3"};
    for (unsigned i = 0; i < 4 && s->ternary; i++)
        bn_json_put_u64(item, NAMES[i], s->codes[i]);
    if (s->scale > 0.0) bn_json_put_number(item, "scale", s->scale);
    if (!s->vector) return;
    bn_json_put_number(item, "rms", s->rms);
    bn_json_put_number(item, "min", s->min);
    bn_json_put_number(item, "max", s->max);
}

static void print_tensors(const struct bn_gguf *gguf, bn_json *doc)
{
    bn_json *list = bn_json_put_array(doc, "tensors");
    if (doc == NULL) printf("\n%zu tensors\n", gguf->n_tensors);
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        const struct bn_gguf_tensor *t = &gguf->tensors[i];
        char name[512], shape[96];
        struct stats stats;
        bn_escape(name, sizeof name, t->name.ptr, t->name.len);
        snprintf(shape, sizeof shape, "%llu x %llu", (unsigned long long)t->ne[0],
                 (unsigned long long)t->ne[1]);
        tensor_stats(t, &stats);
        if (doc == NULL) {
            printf("  %-32s %-6s %16s %12llu bytes", name, bn_type_info(t->type)->name, shape,
                   (unsigned long long)t->n_bytes);
            print_stats(&stats);
            continue;
        }
        bn_json *item = bn_json_add_object(list);
        bn_json_put_string(item, "name", name);
        bn_json_put_string(item, "type", bn_type_info(t->type)->name);
        bn_json *ne = bn_json_put_array(item, "shape");
        for (uint32_t d = 0; d < t->n_dims; d++)
            bn_json_add_u64(ne, t->ne[d]);
        bn_json_put_u64(item, "offset", t->offset);
        bn_json_put_u64(item, "bytes", t->n_bytes);
        put_stats(item, &stats);
    }
}

/* ---- the model ---- */

static const struct {
    const char *key, *name;
} ACTIVATIONS[] = {
    [BN_ACTIVATION_RELU2] = {"relu2", "squared ReLU"},
    [BN_ACTIVATION_SILU] = {"silu", "SiLU"},
    [BN_ACTIVATION_GELU] = {"gelu", "GELU"},
};
static const char *const POOLINGS[] = {[BN_POOLING_FILE] = "",
                                       [BN_POOLING_NONE] = "none",
                                       [BN_POOLING_MEAN] = "mean",
                                       [BN_POOLING_FIRST] = "first",
                                       [BN_POOLING_LAST] = "last"};

/* Of all experts, where bn_model counts those that one token uses. */
static uint64_t all_weights(const struct bn_model *m)
{
    const bn_hparams *hp = &m->hp;
    uint64_t n_unused = hp->experts.n - hp->experts.n_used;
    return m->ternary_weights + n_unused * 3 * hp->n_ff * hp->n_embd * hp->n_layer;
}

/* Ternary weights, the head, and the routers of experts. */
static uint64_t token_bytes(const struct bn_model *m)
{
    uint64_t routers = (uint64_t)m->hp.experts.n * m->hp.n_embd * m->hp.n_layer * sizeof(float);
    return m->ternary_bytes + m->head_bytes + routers;
}

static void put_model(const struct bn_model *m, bn_json *doc)
{
    const bn_hparams *hp = &m->hp;
    bn_json *model = bn_json_put_object(doc, "model");
    bn_json_put_string(model, "arch", hp->arch);
    bn_json_put_u64(model, "layers", hp->n_layer);
    bn_json_put_u64(model, "hidden_size", hp->n_embd);
    bn_json_put_u64(model, "ff_size", hp->n_ff);
    bn_json_put_u64(model, "heads", hp->n_head);
    bn_json_put_u64(model, "kv_heads", hp->n_head_kv);
    bn_json_put_u64(model, "head_dim", hp->head_dim);
    bn_json_put_u64(model, "vocab_size", hp->n_vocab);
    bn_json_put_u64(model, "context", hp->n_ctx);
    bn_json_put_string(model, "activation", ACTIVATIONS[hp->activation].key);
    bn_json_put_string(model, "rope", hp->rope == BN_ROPE_NEOX ? "neox" : "norm");
    bn_json_put_bool(model, "sub_norms", hp->sub_norms);
    bn_json_put_bool(model, "head_norms", hp->head_norms);
    bn_json_put_number(model, "yarn_factor", hp->yarn.factor > 0.0f ? (double)hp->yarn.factor : 1.0);
    bn_json_put_u64(model, "hadamard_block", m->hadamard.block);
    bn_json_put_bool(model, "input_norms", hp->input_norms);
    if (hp->window != 0) bn_json_put_u64(model, "window", hp->window);
    if (hp->experts.n != 0) {
        bn_json_put_u64(model, "experts", hp->experts.n);
        bn_json_put_u64(model, "experts_used", hp->experts.n_used);
        bn_json_put_u64(model, "ternary_weights_per_token", m->ternary_weights);
    }
    if (hp->recurrence.n_taps != 0) {
        bn_json_put_u64(model, "recurrent_layers", bn_hparams_n_recurrent(hp, hp->n_layer));
        bn_json_put_u64(model, "state_bytes", bn_model_state_bytes(m));
    }
    if (hp->pooling != BN_POOLING_FILE) bn_json_put_string(model, "pooling", POOLINGS[hp->pooling]);
    bn_json_put_bool(model, "tied_head", hp->tied_head);
    char activations[BN_ACTIVATIONS_BYTES];
    bn_json_put_string(model, "activations", bn_model_activations(m, activations));
    bn_json_put_u64(model, "ternary_weights", all_weights(m));
    bn_json_put_u64(model, "bytes_per_token", token_bytes(m));
}

static void print_model(const struct bn_model *m)
{
    const bn_hparams *hp = &m->hp;
    printf("%s: %u layers of %u, ffn %u, %u heads of %u sharing %u, vocabulary %u, context %u\n", hp->arch,
           hp->n_layer, hp->n_embd, hp->n_ff, hp->n_head, hp->head_dim, hp->n_head_kv, hp->n_vocab,
           hp->n_ctx);
    printf("%s, rope %s, %s, %s head; %.1f M ternary weights; %.1f MB are read per token\n",
           ACTIVATIONS[hp->activation].name, hp->rope == BN_ROPE_NEOX ? "neox" : "norm",
           hp->sub_norms    ? "sub-norms"
           : hp->head_norms ? "norms of heads"
                            : "no sub-norms",
           hp->tied_head ? "tied" : "own", (double)all_weights(m) / 1e6, (double)token_bytes(m) / 1e6);
    char activations[BN_ACTIVATIONS_BYTES];
    printf("activations %s", bn_model_activations(m, activations));
    if (hp->yarn.factor > 0.0f) printf(", context extended %g-fold by YaRN", (double)hp->yarn.factor);
    if (m->hadamard.block != 0) printf(", weights rotated by Hadamard blocks of %u", m->hadamard.block);
    putchar('\n');
    if (hp->input_norms) puts("a norm of the inputs of each linear layer");
    if (hp->window != 0)
        printf("%u of %u layers attend to the last %u tokens\n", bn_hparams_n_local(hp), hp->n_layer,
               hp->window);
    if (hp->experts.n != 0)
        printf("%u experts, %u for each token, which multiplies %.1f M of the weights\n", hp->experts.n,
               hp->experts.n_used, (double)m->ternary_weights / 1e6);
    if (hp->recurrence.n_taps != 0)
        printf("%u of %u layers are recurrent: %u heads of %u, a state of %.1f MiB for each sequence\n",
               bn_hparams_n_recurrent(hp, hp->n_layer), hp->n_layer, hp->recurrence.n_value_heads,
               hp->recurrence.head_dim, (double)bn_model_state_bytes(m) / 0x1p20);
    if (hp->pooling != BN_POOLING_FILE) printf("embeddings: pooling %s\n", POOLINGS[hp->pooling]);
}

static void print_limits(void)
{
    static const struct {
        const char *what;
        unsigned limit;
    } LIMITS[] = {
        {"keys", BN_GGUF_MAX_KV},
        {"tensors", BN_GGUF_MAX_TENSORS},
        {"bytes of a key", BN_GGUF_MAX_KEY_BYTES},
        {"bytes of a tensor's name", BN_GGUF_MAX_NAME_BYTES},
        {"bytes of a string", BN_GGUF_MAX_STRING_BYTES},
        {"bytes of the chat template", BN_GGUF_MAX_TEMPLATE_BYTES},
        {"elements of an array", BN_GGUF_MAX_ARRAY},
        {"bytes before the tensor data", BN_GGUF_MAX_META_BYTES},
        {"elements of one dimension", BN_GGUF_MAX_DIM},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(LIMITS); i++)
        printf("%-32s %10u\n", LIMITS[i].what, LIMITS[i].limit);
}

bn_status bn_run_inspect(struct bn_args *args, bn_error *err)
{
    if (((const struct bn_run_options *)args->fields)->limits) {
        print_limits();
        return BN_OK;
    }
    struct file file;
    BN_TRY(open_file(&file, args, err));
    bn_json *doc = args->json ? bn_json_new_object() : NULL;
    bn_json_put_string(doc, "schema", "bn.inspect/1");
    bn_json_put_string(doc, "file", bn_cli_model_name(args));
    bn_json_put_u64(doc, "gguf_version", file.gguf.version);
    bn_json_put_u64(doc, "bytes", file.gguf.n_bytes);
    bn_model *model = NULL;
    bn_error refused = {0};
    static const bn_model_options copies = {.repack = BN_REPACK_AUTO, .repack_later = true};
    bn_status status = bn_cli_open_model(&model, args, &copies, &refused);
    bn_json_put_bool(doc, "runs_here", status == BN_OK);
    if (status == BN_OK && doc != NULL)
        put_model(model, doc);
    else if (status == BN_OK)
        print_model(model);
    if (status == BN_OK) status = bn_run_show_memory(model, args, doc, &refused);
    print_keys(&file.gguf, doc);
    print_tensors(&file.gguf, doc);
    if (doc != NULL && bn_cli_print_json(doc, err) != BN_OK) status = err->code;
    if (status != BN_OK && err->code == BN_OK) *err = refused;
    bn_json_free(doc);
    bn_model_close(model);
    close_file(&file);
    return status;
}
