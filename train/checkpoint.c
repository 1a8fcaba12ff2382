/* SPDX-License-Identifier: MIT
 *
 * Writes and reads checkpoints.
 *
 * Writes GGUF files. The scales of ternary weights are binary16 numbers in training already, so that all types store
 * the same model.
 */
#include "train/checkpoint.h"

#include <string.h>

#include "gguf/gguf.h"
#include "model/hparams.h"

static const char MAGIC[8] = {'B', 'N', 'T', 'R', 'A', 'I', 'N', '1'};

struct head {
    char magic[8];
    uint64_t n_document, n_tokenizer, n_curve, n_array; /* bytes; n_array: of one */
};

/* ---- settings ---- */

/* The numbers of the settings, by the names of their members. */
struct number {
    const char *name;
    enum { U32, U64, F32, F64 } type;
    size_t at;
};
#define NUMBER(name, type, field)                             \
    {                                                         \
        name, type, offsetof(struct bn_train_settings, field) \
    }
static const struct number NUMBERS[] = {
    NUMBER("vocabulary", U32, hp.n_vocab),
    NUMBER("context", U32, hp.n_ctx),
    NUMBER("width", U32, hp.n_embd),
    NUMBER("layers", U32, hp.n_layer),
    NUMBER("ffn", U32, hp.n_ff),
    NUMBER("heads", U32, hp.n_head),
    NUMBER("kv_heads", U32, hp.n_head_kv),
    NUMBER("head_width", U32, hp.head_dim),
    NUMBER("rope_base", F32, hp.rope_base),
    NUMBER("rms_eps", F32, hp.rms_eps),
    NUMBER("group", U32, group),
    NUMBER("seed", U64, seed),
    NUMBER("micro_batches", U32, n_micro),
    NUMBER("slices", U32, n_slices),
    NUMBER("windows_per_slice", U32, n_sequences),
    NUMBER("late", F64, late),
    NUMBER("steps", U32, schedule.n_steps),
    NUMBER("warm_up", U32, schedule.warm_up),
    NUMBER("stage_2", F64, schedule.stage_2),
    NUMBER("rate", F64, schedule.rate),
    NUMBER("rate_2", F64, schedule.rate_2),
    NUMBER("decay", F64, schedule.decay),
    NUMBER("decay_2", F64, schedule.decay_2),
    NUMBER("beta_1", F64, schedule.beta_1),
    NUMBER("beta_2", F64, schedule.beta_2),
    NUMBER("epsilon", F64, schedule.epsilon),
    NUMBER("clip", F64, schedule.clip),
    NUMBER("muon", U32, schedule.muon),
};

void bn_train_settings_put(bn_json *object, const struct bn_train_settings *settings)
{
    bn_json_put_string(object, "architecture", settings->hp.arch);
    for (size_t i = 0; i < BN_ARRAY_LEN(NUMBERS); i++) {
        const void *at = (const char *)settings + NUMBERS[i].at;
        if (NUMBERS[i].type == U32) bn_json_put_u64(object, NUMBERS[i].name, *(const uint32_t *)at);
        if (NUMBERS[i].type == U64) bn_json_put_u64(object, NUMBERS[i].name, *(const uint64_t *)at);
        if (NUMBERS[i].type == F32) bn_json_put_number(object, NUMBERS[i].name, (double)*(const float *)at);
        if (NUMBERS[i].type == F64) bn_json_put_number(object, NUMBERS[i].name, *(const double *)at);
    }
}

static bool get_number(struct bn_train_settings *settings, const struct number *n, const bn_json *value)
{
    void *at = (char *)settings + n->at;
    uint64_t whole = 0;
    double number = 0;
    bool is_whole = bn_json_u64(value, &whole), is_number = bn_json_number(value, &number);
    if (n->type == U32) is_whole = is_whole && whole <= UINT32_MAX;
    if (n->type == U32 || n->type == U64 ? !is_whole : !is_number) return false;
    if (n->type == U32) *(uint32_t *)at = (uint32_t)whole;
    if (n->type == U64) *(uint64_t *)at = whole;
    if (n->type == F32) *(float *)at = (float)number;
    if (n->type == F64) *(double *)at = number;
    return true;
}

bn_status bn_train_settings_get(struct bn_train_settings *settings, const bn_json *object, bn_error *err)
{
    *settings = (struct bn_train_settings){0};
    for (size_t i = 0; i < BN_ARRAY_LEN(NUMBERS); i++)
        if (!get_number(settings, &NUMBERS[i], bn_json_get(object, NUMBERS[i].name)))
            return bn_fail(err, BN_ERR_FORMAT, "the setting '%s' is missing or has the wrong type",
                           NUMBERS[i].name);
    return bn_train_architecture(&settings->hp, bn_json_text_of(object, "architecture"), err);
}

/* ---- writing ---- */

static void digest_parts(const struct bn_file_part *parts, size_t n, unsigned char digest[BN_SHA256_BYTES])
{
    struct bn_sha256 sha;
    bn_sha256_begin(&sha);
    for (size_t i = 0; i < n; i++)
        bn_sha256_update(&sha, parts[i].bytes, parts[i].n);
    bn_sha256_take(&sha, digest);
}

static bn_status write_parts(const char *path, const struct bn_trainer *t, const struct bn_buf *text,
                             struct bn_str tokenizer, char hex[BN_SHA256_HEX], bn_error *err)
{
    struct head head = {.n_document = text->len,
                        .n_tokenizer = tokenizer.len,
                        .n_curve = t->curve.n * sizeof *t->curve.points,
                        .n_array = t->weights.n_values * sizeof *t->weights.master};
    unsigned char digest[BN_SHA256_BYTES];
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    struct bn_file_part parts[] = {{&head, sizeof head},
                                   {text->data, text->len},
                                   {tokenizer.ptr, tokenizer.len},
                                   {t->curve.points, head.n_curve},
                                   {t->weights.master, head.n_array},
                                   {t->moment_1, head.n_array},
                                   {t->moment_2, head.n_array},
                                   {digest, sizeof digest}};
    digest_parts(parts, BN_ARRAY_LEN(parts) - 1, digest);
    bn_hex(hex, digest, sizeof digest);
    return bn_file_write_parts(path, parts, BN_ARRAY_LEN(parts), err);
}

bn_status bn_checkpoint_write(const char *path, const struct bn_trainer *t, bn_json *document,
                              struct bn_str tokenizer, char hex[BN_SHA256_HEX], bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bn_json_put_string(document, "schema", BN_CHECKPOINT_SCHEMA);
    bn_train_settings_put(bn_json_put_object(document, "settings"), &t->settings);
    bn_json_put_u64(document, "step", t->step);
    bn_status status = bn_json_write_line(document, true, &text, err);
    /* So that what follows is aligned. */
    while (status == BN_OK && (text.len + tokenizer.len) % 64 != 24 && !text.failed)
        bn_buf_putc(&text, ' ');
    if (status == BN_OK) status = bn_buf_check(&text, err);
    if (status == BN_OK) status = write_parts(path, t, &text, tokenizer, hex, err);
    bn_buf_release(&text);
    return status;
}

/* ---- reading ---- */

static bn_status check_sizes(const struct bn_file_map *map, const struct head *head, bn_error *err)
{
    uint64_t arrays, n = sizeof *head + BN_SHA256_BYTES;
    bool fits = bn_mul_ok(3, head->n_array, &arrays) && bn_add_ok(n, head->n_document, &n) &&
                bn_add_ok(n, head->n_tokenizer, &n) && bn_add_ok(n, head->n_curve, &n) &&
                bn_add_ok(n, arrays, &n);
    if (!fits || n != map->n_bytes || head->n_curve % sizeof(struct bn_train_point) != 0 ||
        head->n_array % 64 != 0 || (sizeof *head + head->n_document + head->n_tokenizer) % 64 != 0)
        return bn_fail(err, BN_ERR_FORMAT, "the sizes in the checkpoint's head do not match its length");
    return BN_OK;
}

static bn_status check_digest(struct bn_checkpoint *c, bn_error *err)
{
    char stored[BN_SHA256_HEX];
    size_t n = c->map.n_bytes - BN_SHA256_BYTES;
    bn_sha256_hex(c->map.data, n, c->sha256);
    bn_hex(stored, c->map.data + n, BN_SHA256_BYTES);
    if (strcmp(stored, c->sha256) != 0)
        return bn_fail(err, BN_ERR_INTEGRITY,
                       "the checkpoint is damaged: its digest is %.12s, expected %.12s", c->sha256, stored);
    return BN_OK;
}

static bn_status read_all(struct bn_checkpoint *c, bn_error *err)
{
    struct head head;
    uint64_t step = 0;
    if (c->map.n_bytes < sizeof head + BN_SHA256_BYTES || memcmp(c->map.data, MAGIC, sizeof MAGIC) != 0)
        return bn_fail(err, BN_ERR_FORMAT, "the file is not a checkpoint of bn-train");
    memcpy(&head, c->map.data, sizeof head);
    BN_TRY(check_sizes(&c->map, &head, err));
    BN_TRY(check_digest(c, err));
    const unsigned char *at = c->map.data + sizeof head;
    BN_TRY(bn_json_parse(&c->document, (const char *)at, head.n_document, err));
    if (!bn_json_text_is(c->document, "schema", BN_CHECKPOINT_SCHEMA) ||
        !bn_json_u64(bn_json_get(c->document, "step"), &step) || step > UINT32_MAX)
        return bn_fail(err, BN_ERR_FORMAT, "the checkpoint's document has another schema");
    BN_TRY(bn_train_settings_get(&c->settings, bn_json_get(c->document, "settings"), err));
    c->step = (uint32_t)step;
    at += head.n_document;
    c->tokenizer = (struct bn_str){(const char *)at, head.n_tokenizer};
    at += head.n_tokenizer;
    c->points = (const void *)at;
    c->n_points = head.n_curve / sizeof *c->points;
    c->arrays = (const void *)(at + head.n_curve);
    c->n_values = head.n_array / sizeof *c->arrays;
    return BN_OK;
}

bn_status bn_checkpoint_open(struct bn_checkpoint *c, const char *path, bn_error *err)
{
    *c = (struct bn_checkpoint){0};
    BN_TRY(bn_file_map_open(&c->map, path, false, err));
    bn_status status = read_all(c, err);
    if (status == BN_OK) return BN_OK;
    bn_error_name(err, path);
    bn_checkpoint_close(c);
    return status;
}

void bn_checkpoint_close(struct bn_checkpoint *c)
{
    bn_json_free(c->document);
    bn_file_map_close(&c->map);
    *c = (struct bn_checkpoint){0};
}

bn_status bn_checkpoint_restore(const struct bn_checkpoint *c, struct bn_trainer *t, bn_error *err)
{
    const size_t n = c->n_values, n_bytes = n * sizeof(bn_real);
    if (n != t->weights.n_values || sizeof(bn_real) != sizeof *c->arrays)
        return bn_fail(err, BN_ERR_FORMAT, "the checkpoint has %zu values, the model %zu", n,
                       t->weights.n_values);
    memcpy(t->weights.master, c->arrays, n_bytes);
    memcpy(t->moment_1, c->arrays + n, n_bytes);
    memcpy(t->moment_2, c->arrays + 2 * n, n_bytes);
    t->step = c->step;
    t->curve.n = 0;
    for (size_t i = 0; i < c->n_points; i++)
        BN_TRY(bn_train_curve_add(&t->curve, c->points[i], err));
    bn_weights_ternarise(&t->weights, t->team);
    return BN_OK;
}

#define Q8_BLOCK 32u

/* ---- keys ---- */

void bn_train_put_hparams(struct bn_gguf_writer *w, const bn_hparams *hp, uint32_t n_ctx)
{
    bn_gguf_put_u32(w, ".vocab_size", hp->n_vocab);
    bn_gguf_put_u32(w, ".context_length", n_ctx != 0 ? n_ctx : hp->n_ctx);
    bn_gguf_put_u32(w, ".embedding_length", hp->n_embd);
    bn_gguf_put_u32(w, ".block_count", hp->n_layer);
    bn_gguf_put_u32(w, ".feed_forward_length", hp->n_ff);
    bn_gguf_put_u32(w, ".rope.dimension_count", hp->head_dim);
    bn_gguf_put_u32(w, ".attention.head_count", hp->n_head);
    bn_gguf_put_u32(w, ".attention.head_count_kv", hp->n_head_kv);
    if (hp->head_dim * hp->n_head != hp->n_embd || hp->head_norms) {
        bn_gguf_put_u32(w, ".attention.key_length", hp->head_dim);
        bn_gguf_put_u32(w, ".attention.value_length", hp->head_dim);
    }
    bn_gguf_put_f32(w, ".attention.layer_norm_rms_epsilon", hp->rms_eps);
    bn_gguf_put_f32(w, ".rope.freq_base", hp->rope_base);
}

/* The keys that begin with "tokenizer.", as they are stored. */
static bn_status copy_tokenizer(struct bn_gguf_writer *w, struct bn_str file, bn_error *err)
{
    struct bn_gguf gguf;
    BN_TRY(bn_gguf_open(&gguf, file.ptr, file.len, err));
    for (size_t i = 0; i < gguf.n_kv; i++) {
        const struct bn_gguf_kv *kv = &gguf.kv[i];
        if (kv->key.len < 10 || memcmp(kv->key.ptr, "tokenizer.", 10) != 0) continue;
        const unsigned char *end = kv->value;
        if (kv->element == BN_GGUF_STRING)
            for (uint64_t n = 0; n < kv->n; n++)
                bn_gguf_next_str(&end);
        else
            end += kv->n * bn_gguf_type_bytes(kv->element);
        /* A key is u64 length, text, u32 type, value. */
        const char *begin = file.ptr + kv->offset;
        bn_buf_append(&w->kv, begin, (size_t)((const char *)end - begin));
        w->n_kv++;
    }
    bn_gguf_close(&gguf);
    return BN_OK;
}

static bn_status put_keys(struct bn_gguf_writer *w, const struct bn_weights *weights, struct bn_str tokenizer,
                          const struct bn_export *how, bn_error *err)
{
    const bn_hparams *hp = &weights->hp;
    const char *activations = weights->group == 0 ? "int8-token" : "int16-group";
    const uint32_t file_type = bn_type_info(how->type)->file_type;
    w->arch = hp->arch;
    bn_gguf_put_str(w, "general.architecture", hp->arch, strlen(hp->arch));
    bn_gguf_put_str(w, "general.name", how->name, strlen(how->name));
    bn_train_put_hparams(w, hp, how->n_ctx);
    /* The number that llama.cpp and bitnet.cpp have for a file of mostly this type; above 40 none is agreed. */
    if (file_type > 0 && file_type <= 40) bn_gguf_put_u32(w, "general.file_type", file_type);
    bn_gguf_put_u32(w, "general.quantization_version", 2);
    if (how->type != BN_TYPE_I2_S) bn_gguf_put_str(w, BN_ACTIVATIONS_KEY, activations, strlen(activations));
    return copy_tokenizer(w, tokenizer, err);
}

/* ---- tensors ---- */

static uint32_t type_of(const struct bn_param *p, const struct bn_export *how)
{
    return p->kind == BN_PARAM_NORM        ? BN_TYPE_F32
           : p->kind == BN_PARAM_EMBEDDING ? how->embedding
                                           : how->type;
}

static bn_status put_ternary(struct bn_buf *out, const struct bn_weights *w, size_t param, uint32_t type,
                             bn_error *err)
{
    const struct bn_param *p = &w->params[param];
    const struct bn_type_info *info = bn_type_info(type);
    size_t group = w->group != 0 ? w->group : p->cols;
    int8_t *values = bn_alloc(p->cols, 1);
    float *scales = bn_alloc(p->cols / group, sizeof *scales);
    bn_status status = values != NULL && scales != NULL ? BN_OK : bn_nomem(err);
    for (size_t r = 0; r < p->rows && status == BN_OK; r++) {
        bn_weights_row(w, param, r, values, scales);
        for (size_t at = 0; at < p->cols; at += info->block) {
            unsigned char block[96];
            uint16_t half;
            bn_kernels_ref.f32_to_f16(&half, &scales[at / group], 1);
            info->pack(block, values + at, info->block, half);
            bn_buf_append(out, block, info->block_bytes);
        }
    }
    if (status == BN_OK && type == BN_TYPE_I2_S) {
        unsigned char tail[BN_I2S_TAIL_BYTES] = {0};
        memcpy(tail, scales, sizeof *scales);
        bn_buf_append(out, tail, sizeof tail);
    }
    bn_free(values);
    bn_free(scales);
    return status;
}

/* Of a block of the embedding: step = the largest magnitude / 127 in binary16, values to nearest even. */
static void put_q8(struct bn_buf *out, const float *x)
{
    float most = 0, step;
    uint16_t half;
    signed char q[Q8_BLOCK];
    for (size_t i = 0; i < Q8_BLOCK; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    step = most / 127;
    bn_kernels_ref.f32_to_f16(&half, &step, 1);
    bn_kernels_ref.f16_to_f32(&step, &half, 1);
    for (size_t i = 0; i < Q8_BLOCK; i++) {
        float v = step > 0 ? rintf(x[i] / step) : 0;
        q[i] = (signed char)(v > 127 ? 127 : v < -127 ? -127 : v);
    }
    bn_buf_append(out, &half, sizeof half);
    bn_buf_append(out, q, sizeof q);
}

static void put_floats(struct bn_buf *out, const struct bn_weights *w, const struct bn_param *p,
                       const struct bn_export *how)
{
    const uint32_t type = type_of(p, how);
    const bool last_norm = strcmp(p->name, "output_norm.weight") == 0;
    const double divisor = last_norm && how->temperature > 0 ? how->temperature : 1;
    for (size_t i = 0; i < p->rows * p->cols; i += type == BN_TYPE_Q8_0 ? Q8_BLOCK : 1) {
        float block[Q8_BLOCK];
        uint16_t half;
        for (size_t j = 0; j < (type == BN_TYPE_Q8_0 ? Q8_BLOCK : 1); j++)
            block[j] = (float)((double)w->master[p->at + i + j] / divisor);
        bn_kernels_ref.f32_to_f16(&half, block, 1);
        if (type == BN_TYPE_Q8_0) put_q8(out, block);
        if (type == BN_TYPE_F16) bn_buf_append(out, &half, sizeof half);
        if (type == BN_TYPE_F32) bn_buf_append(out, block, sizeof *block);
    }
}

bn_status bn_export_check(const struct bn_weights *w, const struct bn_export *how, bn_error *err)
{
    const struct bn_type_info *info = bn_type_info(how->type);
    if (info == NULL || info->pack == NULL ||
        (how->embedding != BN_TYPE_F16 && how->embedding != BN_TYPE_Q8_0))
        return bn_fail(err, BN_ERR_UNSUPPORTED, "unknown type of the weights or the embedding");
    if (w->group != 0 && (how->type == BN_TYPE_I2_S || w->group % info->block != 0))
        return bn_hint(bn_fail(err, BN_ERR_UNSUPPORTED, "%s cannot store a scale for each %u weights",
                               info->name, w->group),
                       err, "--type q2_0");
    for (size_t i = 0; i < w->n_params; i++)
        if (w->params[i].cols % bn_type_info(type_of(&w->params[i], how))->block != 0)
            return bn_hint(bn_fail_in(err, BN_ERR_UNSUPPORTED, w->params[i].name,
                                      "rows of %zu weights do not fill the blocks of %u weights of %s",
                                      w->params[i].cols, bn_type_info(type_of(&w->params[i], how))->block,
                                      bn_type_info(type_of(&w->params[i], how))->name),
                           err, "i2_s has blocks of 128 weights, q2_0 of 64");
    return BN_OK;
}

static bn_status put_data(struct bn_buf *out, struct bn_gguf_writer *writer, const struct bn_weights *w,
                          const struct bn_export *how, bn_error *err)
{
    static const char ZEROS[64];
    bn_status status = BN_OK;
    for (size_t i = 0; i < w->n_params && status == BN_OK; i++) {
        size_t before = out->len;
        if (w->params[i].kind == BN_PARAM_TERNARY)
            status = put_ternary(out, w, i, how->type, err);
        else
            put_floats(out, w, &w->params[i], how);
        bn_buf_append(out, ZEROS, (size_t)bn_gguf_padding(writer, out->len - before));
    }
    return status;
}

bn_status bn_export_gguf(struct bn_buf *out, const struct bn_weights *w, struct bn_str tokenizer,
                         const struct bn_export *how, bn_error *err)
{
    struct bn_gguf_writer writer = {.kv.max = BN_GGUF_MAX_META_BYTES, .infos.max = BN_GGUF_MAX_META_BYTES};
    BN_TRY(bn_export_check(w, how, err));
    bn_status status = put_keys(&writer, w, tokenizer, how, err);
    for (size_t i = 0; i < w->n_params && status == BN_OK; i++) {
        const struct bn_param *p = &w->params[i];
        uint64_t ne[2] = {p->cols, p->rows};
        bn_gguf_put_tensor(&writer, p->name, type_of(p, how), p->kind == BN_PARAM_NORM ? 1 : 2, ne);
    }
    if (status == BN_OK) status = bn_gguf_write_head(&writer, out, err);
    if (status == BN_OK) status = put_data(out, &writer, w, how, err);
    bn_gguf_writer_release(&writer);
    return status == BN_OK ? bn_buf_check(out, err) : status;
}
