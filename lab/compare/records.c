/* SPDX-License-Identifier: MIT
 *
 * Traces in memory: adding, reading and finding the intermediates of an evaluation.
 */
#define _POSIX_C_SOURCE 200809L
#include "lab/compare/records.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"

/* Many norms are in some models only: such an input is, in the others, what it would have normalised. */
#define NONE BN_AT_COUNT
static const struct {
    const char *name;
    enum bn_op_kind kind;
    enum bn_op inputs[3];
} OPS[BN_AT_COUNT] = {
    [BN_AT_EMBD] = {"embd", BN_OP_EMBD, {NONE, NONE, NONE}},
    [BN_AT_ATTN_NORM] = {"attn_norm", BN_OP_NORM, {BN_AT_EMBD, NONE, NONE}},
    [BN_AT_ATTN_Q_NORM_IN] = {"attn_q_norm_in", BN_OP_NORM, {BN_AT_ATTN_NORM, NONE, NONE}},
    [BN_AT_Q] = {"q", BN_OP_LINEAR, {BN_AT_ATTN_Q_NORM_IN, NONE, NONE}},
    [BN_AT_ATTN_K_NORM_IN] = {"attn_k_norm_in", BN_OP_NORM, {BN_AT_ATTN_NORM, NONE, NONE}},
    [BN_AT_K] = {"k", BN_OP_LINEAR, {BN_AT_ATTN_K_NORM_IN, NONE, NONE}},
    [BN_AT_ATTN_V_NORM_IN] = {"attn_v_norm_in", BN_OP_NORM, {BN_AT_ATTN_NORM, NONE, NONE}},
    [BN_AT_V] = {"v", BN_OP_LINEAR, {BN_AT_ATTN_V_NORM_IN, NONE, NONE}},
    [BN_AT_MIX] = {"mix", BN_OP_LINEAR, {BN_AT_ATTN_NORM, NONE, NONE}},
    [BN_AT_Z] = {"z", BN_OP_LINEAR, {BN_AT_ATTN_NORM, NONE, NONE}},
    [BN_AT_CONV] = {"conv", BN_OP_ACT, {BN_AT_MIX, NONE, NONE}},
    [BN_AT_Q_ROPE] = {"q_rope", BN_OP_ROPE, {BN_AT_Q, NONE, NONE}},
    [BN_AT_K_ROPE] = {"k_rope", BN_OP_ROPE, {BN_AT_K, NONE, NONE}},
    [BN_AT_ATTN_OUT] = {"attn_out", BN_OP_ATTENTION, {BN_AT_Q_ROPE, BN_AT_K_ROPE, BN_AT_V}},
    [BN_AT_ATTN_SUB_NORM] = {"attn_sub_norm", BN_OP_NORM, {BN_AT_ATTN_OUT, NONE, NONE}},
    [BN_AT_ATTN_OUTPUT_NORM_IN] = {"attn_output_norm_in", BN_OP_NORM, {BN_AT_ATTN_SUB_NORM, NONE, NONE}},
    [BN_AT_ATTN_O] = {"attn_o", BN_OP_LINEAR, {BN_AT_ATTN_OUTPUT_NORM_IN, NONE, NONE}},
    [BN_AT_POST_ATTENTION_NORM] = {"post_attention_norm", BN_OP_NORM, {BN_AT_ATTN_O, NONE, NONE}},
    [BN_AT_ATTN_RES] = {"attn_res", BN_OP_SUM, {BN_AT_EMBD, BN_AT_POST_ATTENTION_NORM, NONE}},
    [BN_AT_FFN_NORM] = {"ffn_norm", BN_OP_NORM, {BN_AT_ATTN_RES, NONE, NONE}},
    [BN_AT_ROUTER] = {"router", BN_OP_LINEAR, {BN_AT_FFN_NORM, NONE, NONE}},
    [BN_AT_EXPERT_WEIGHTS] = {"expert_weights", BN_OP_ACT, {BN_AT_ROUTER, NONE, NONE}},
    [BN_AT_FFN_GATE_NORM_IN] = {"ffn_gate_norm_in", BN_OP_NORM, {BN_AT_FFN_NORM, NONE, NONE}},
    [BN_AT_GATE] = {"gate", BN_OP_LINEAR, {BN_AT_FFN_GATE_NORM_IN, NONE, NONE}},
    [BN_AT_FFN_UP_NORM_IN] = {"ffn_up_norm_in", BN_OP_NORM, {BN_AT_FFN_NORM, NONE, NONE}},
    [BN_AT_UP] = {"up", BN_OP_LINEAR, {BN_AT_FFN_UP_NORM_IN, NONE, NONE}},
    [BN_AT_FFN_ACT] = {"ffn_act", BN_OP_ACT, {BN_AT_GATE, BN_AT_UP, NONE}},
    [BN_AT_FFN_SUB_NORM] = {"ffn_sub_norm", BN_OP_NORM, {BN_AT_FFN_ACT, NONE, NONE}},
    [BN_AT_FFN_DOWN_NORM_IN] = {"ffn_down_norm_in", BN_OP_NORM, {BN_AT_FFN_SUB_NORM, NONE, NONE}},
    [BN_AT_DOWN] = {"down", BN_OP_LINEAR, {BN_AT_FFN_DOWN_NORM_IN, NONE, NONE}},
    [BN_AT_POST_FFW_NORM] = {"post_ffw_norm", BN_OP_NORM, {BN_AT_DOWN, NONE, NONE}},
    [BN_AT_FFN_RES] = {"ffn_res", BN_OP_SUM, {BN_AT_ATTN_RES, BN_AT_POST_FFW_NORM, NONE}},
    [BN_AT_OUTPUT_NORM] = {"output_norm", BN_OP_NORM, {BN_AT_EMBD, NONE, NONE}},
    [BN_AT_LOGITS] = {"logits", BN_OP_HEAD, {BN_AT_OUTPUT_NORM, NONE, NONE}},
};

const char *bn_op_name(enum bn_op op)
{
    return (unsigned)op < BN_AT_COUNT ? OPS[op].name : "?";
}

/* BN_AT_COUNT for an unknown name. */
static enum bn_op op_from_name(const char *name)
{
    unsigned i = 0;
    while (i < BN_AT_COUNT && strcmp(OPS[i].name, name) != 0)
        i++;
    return (enum bn_op)i;
}

enum bn_op_kind bn_op_kind_of(enum bn_op op)
{
    return OPS[op].kind;
}

static bool is_in_layer(enum bn_op op)
{
    return op >= BN_AT_ATTN_NORM && op <= BN_AT_FFN_RES;
}

const enum bn_op *bn_op_inputs(enum bn_op op)
{
    return OPS[op].inputs;
}

/* ---- gathering ---- */

const struct bn_record *bn_records_find(const struct bn_records *records, enum bn_op op, int32_t layer)
{
    for (size_t i = 0; i < records->n; i++)
        if (records->list[i].op == op && records->list[i].layer == layer) return &records->list[i];
    return NULL;
}

bn_status bn_records_add(struct bn_records *records, const char *name, int32_t layer, size_t rows,
                         size_t cols, const float *data, bn_error *err)
{
    enum bn_op op = op_from_name(name);
    if (op == BN_AT_COUNT || is_in_layer(op) != (layer >= 0)) return BN_OK;
    struct bn_record *r = NULL;
    for (size_t i = 0; i < records->n && r == NULL; i++)
        if (records->list[i].op == op && records->list[i].layer == layer) r = &records->list[i];
    if (r == NULL) {
        BN_TRY(bn_array_grow(&records->list, &records->room, records->n + 1, sizeof *r, err));
        r = &records->list[records->n++];
        *r = (struct bn_record){.op = op, .layer = layer, .cols = cols};
    }
    if (r->cols != cols)
        return bn_fail(err, BN_ERR_FORMAT, "%s of layer %d has rows of %zu and of %zu numbers", name,
                       (int)layer, r->cols, cols);
    uint64_t n = 0;
    float *grown = NULL;
    if (bn_mul_ok(r->rows + rows, cols, &n)) grown = bn_realloc(r->data, n, sizeof *grown);
    if (grown == NULL) return bn_fail(err, BN_ERR_NOMEM, "no memory for a trace");
    memcpy(grown + r->rows * cols, data, rows * cols * sizeof *data);
    r->data = grown;
    r->rows += rows;
    return BN_OK;
}

void bn_records_take(void *user, const bn_trace_record *record)
{
    struct bn_records *records = user;
    if (records->err.code != BN_OK) return;
    (void)!bn_records_add(records, record->op, record->layer, record->rows, record->cols, record->data,
                          &records->err);
}

void bn_records_release(struct bn_records *records)
{
    for (size_t i = 0; i < records->n; i++)
        bn_free(records->list[i].data);
    bn_free(records->list);
    *records = (struct bn_records){0};
}

/* ---- from a folder ---- */

/* "L12.q_rope.f32" or "G.embd.f32": false for any other name. */
static bool parse_name(const char *file, char op[32], int32_t *layer)
{
    const char *dot = strchr(file, '.'), *end = strrchr(file, '.');
    if (dot == NULL || end <= dot || strcmp(end, ".f32") != 0 || (size_t)(end - dot) > 31) return false;
    *layer = -1;
    if (file[0] == 'L') {
        char *stop;
        long n = strtol(file + 1, &stop, 10);
        if (stop != dot || stop == file + 1 || n < 0 || n > 65535) return false;
        *layer = (int32_t)n;
    } else if (file[0] != 'G' || dot != file + 1) {
        return false;
    }
    snprintf(op, 32, "%.*s", (int)(end - dot - 1), dot + 1);
    return op_from_name(op) != BN_AT_COUNT;
}

static bn_status read_record(struct bn_records *records, const char *path, const char *op, int32_t layer,
                             size_t n_rows, bn_error *err)
{
    struct bn_file_map map;
    BN_TRY(bn_file_map_open(&map, path, true, err));
    bn_status status = BN_OK;
    size_t row_bytes = map.n_bytes / n_rows;
    if (row_bytes == 0 || map.n_bytes % n_rows != 0 || row_bytes % sizeof(float) != 0)
        status = bn_fail_in(err, BN_ERR_FORMAT, path, "not %zu rows of binary32 numbers", n_rows);
    else
        status = bn_records_add(records, op, layer, n_rows, row_bytes / sizeof(float),
                                (const float *)(const void *)map.data, err);
    bn_file_map_close(&map);
    return status;
}

bn_status bn_records_read(struct bn_records *records, const char *folder, size_t n_rows, bn_error *err)
{
    char path[4096 + 300], op[32];
    int32_t layer;
    DIR *dir = opendir(folder);
    if (dir == NULL) return bn_fail_errno(err, errno, folder, "cannot open");
    bn_status status = BN_OK;
    for (struct dirent *e; status == BN_OK && (e = readdir(dir)) != NULL;) {
        if (!parse_name(e->d_name, op, &layer)) continue;
        int n = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (n < 0 || (size_t)n >= sizeof path)
            status = bn_fail_errno(err, ENAMETOOLONG, folder, "cannot read");
        else
            status = read_record(records, path, op, layer, n_rows, err);
    }
    closedir(dir);
    return status;
}
