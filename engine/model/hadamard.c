/* SPDX-License-Identifier: MIT
 *
 * Reads the keys of rotated files; see model.h for what they mean.
 */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/hparams.h"

#define KEY(name) "prism.hadamard." name
#define MAX_NAMES (7u * BN_MAX_LAYERS + 1u)

static bn_status fail(const struct bn_gguf *gguf, bn_status status, const char *key, const char *what,
                      bn_error *err)
{
    const struct bn_gguf_kv *kv = bn_gguf_find(gguf, key);
    bn_fail_at(err, status, kv != NULL ? kv->offset : BN_NO_OFFSET, key, "%s", what);
    if (status == BN_ERR_UNSUPPORTED)
        bn_error_hint(err, "the weights are rotated; without the right transform the model gives nonsense");
    return status;
}

static bn_status expect_text(const struct bn_gguf *gguf, const char *key, const char *wanted, bn_error *err)
{
    struct bn_str text;
    char shown[48], what[96];
    BN_TRY(bn_gguf_required(bn_gguf_str(gguf, key, &text, err), key, err));
    if (bn_str_equal(text, wanted)) return BN_OK;
    snprintf(what, sizeof what, "'%s' is not known", bn_escape(shown, sizeof shown, text.ptr, text.len));
    return fail(gguf, BN_ERR_UNSUPPORTED, key, what, err);
}

/* Version 2 says that a rotated embedding is the head too, as it is in version 1 without output.weight. */
static bn_status check_version(const struct bn_gguf *gguf, uint32_t version, bn_error *err)
{
    bool tied = false;
    BN_TRY(bn_gguf_optional(bn_gguf_bool(gguf, KEY("tied_output"), &tied, err)));
    if (version != 1 && version != 2)
        return fail(gguf, BN_ERR_UNSUPPORTED, KEY("version"), "not version 1 or 2", err);
    if (tied != (version == 2))
        return fail(gguf, BN_ERR_FORMAT, KEY("tied_output"),
                    tied ? "needs version 2" : "missing in version 2", err);
    if (!tied || bn_gguf_find_tensor(gguf, "output.weight") == NULL) return BN_OK;
    return fail(gguf, BN_ERR_FORMAT, KEY("tied_output"), "true, and the file has output.weight", err);
}

static bn_status read_block(struct bn_hadamard *h, const struct bn_gguf *gguf, bn_error *err)
{
    uint32_t version = 0, block = 0;
    BN_TRY(bn_gguf_required(bn_gguf_u32(gguf, KEY("version"), &version, err), KEY("version"), err));
    BN_TRY(check_version(gguf, version, err));
    BN_TRY(expect_text(gguf, KEY("transform"), "normalized-sylvester-walsh-hadamard", err));
    BN_TRY(expect_text(gguf, KEY("axis"), "input-last-dimension", err));
    BN_TRY(bn_gguf_required(bn_gguf_u32(gguf, KEY("block_size"), &block, err), KEY("block_size"), err));
    if (block < 2 || block > 1u << 16 || (block & (block - 1)) != 0)
        return fail(gguf, BN_ERR_FORMAT, KEY("block_size"), "not a power of two from 2 to 65536", err);
    h->block = block;
    return BN_OK;
}

/* Element i of an array of 32-bit integers. */
static int32_t element(const struct bn_gguf_kv *kv, uint64_t i)
{
    int32_t value;
    memcpy(&value, kv->value + 4 * i, 4);
    return value;
}

static bn_status int_array(const struct bn_gguf *gguf, const char *key, const struct bn_gguf_kv **kv,
                           bn_error *err)
{
    const struct bn_gguf_kv *found = bn_gguf_find(gguf, key);
    bool is_unsigned = found != NULL && found->type == BN_GGUF_ARRAY && found->element == BN_GGUF_U32;
    return bn_gguf_required(bn_gguf_array(gguf, key, is_unsigned ? BN_GGUF_U32 : BN_GGUF_I32, kv, err), key,
                            err);
}

static bn_status read_widths(struct bn_hadamard *h, const struct bn_gguf *gguf, uint64_t *n_signs,
                             bn_error *err)
{
    const struct bn_gguf_kv *kv = NULL;
    BN_TRY(int_array(gguf, KEY("sign_widths"), &kv, err));
    if (kv->n == 0 || kv->n > BN_HADAMARD_WIDTHS)
        return fail(gguf, BN_ERR_UNSUPPORTED, KEY("sign_widths"), "not 1 to 8 widths", err);
    for (uint64_t i = 0; i < kv->n; i++) {
        int32_t width = element(kv, i);
        if (width <= 0 || width > 1 << 20 || (uint32_t)width % h->block != 0)
            return fail(gguf, BN_ERR_FORMAT, KEY("sign_widths"), "a width is not a multiple of the block",
                        err);
        for (size_t j = 0; j < h->n_widths; j++)
            if (h->widths[j] == (uint32_t)width)
                return fail(gguf, BN_ERR_FORMAT, KEY("sign_widths"), "a width appears twice", err);
        h->widths[h->n_widths] = (uint32_t)width;
        h->signs[h->n_widths] = bn_alloc((size_t)width, sizeof(float));
        if (h->signs[h->n_widths++] == NULL) return bn_nomem(err);
        *n_signs += (uint32_t)width;
    }
    return BN_OK;
}

static bn_status read_signs(struct bn_hadamard *h, const struct bn_gguf *gguf, bn_error *err)
{
    struct bn_str mode;
    const struct bn_gguf_kv *kv = NULL;
    uint64_t n_signs = 0, at = 0;
    BN_TRY(bn_gguf_required(bn_gguf_str(gguf, KEY("sign_mode"), &mode, err), KEY("sign_mode"), err));
    bool identity = bn_str_equal(mode, "identity");
    if (!identity) BN_TRY(expect_text(gguf, KEY("sign_mode"), "explicit", err));
    if (identity) return BN_OK;
    BN_TRY(read_widths(h, gguf, &n_signs, err));
    BN_TRY(int_array(gguf, KEY("sign_values"), &kv, err));
    if (kv->n != n_signs)
        return fail(gguf, BN_ERR_FORMAT, KEY("sign_values"), "not as many values as the widths have", err);
    for (size_t i = 0; i < h->n_widths; i++)
        for (uint32_t k = 0; k < h->widths[i]; k++, at++) {
            int32_t sign = element(kv, at);
            if (sign != 1 && sign != -1)
                return fail(gguf, BN_ERR_FORMAT, KEY("sign_values"), "a value is not 1 or -1", err);
            h->signs[i][k] = (float)sign;
        }
    return BN_OK;
}

static bool is_linear_name(struct bn_str name)
{
    static const char *const PARTS[] = {"attn_q", "attn_k",   "attn_v",   "attn_output", "ffn_gate",
                                        "ffn_up", "ffn_down", "attn_qkv", "attn_gate",   "ssm_out"};
    if (bn_str_equal(name, "output.weight")) return true;
    for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++) {
        char tail[32];
        size_t n = (size_t)snprintf(tail, sizeof tail, ".%s.weight", PARTS[i]);
        if (name.len > n + 4 && memcmp(name.ptr, "blk.", 4) == 0 &&
            memcmp(name.ptr + name.len - n, tail, n) == 0)
            return true;
    }
    return false;
}

static bool is_listed(const struct bn_gguf_kv *names, struct bn_str name, uint64_t before)
{
    const unsigned char *cursor = names->value;
    for (uint64_t i = 0; i < before; i++) {
        if (bn_str_compare(bn_gguf_next_str(&cursor), name) == 0) return true;
    }
    return false;
}

static bn_status read_names(struct bn_hadamard *h, const struct bn_gguf *gguf, bn_error *err)
{
    const struct bn_gguf_kv *inverse = NULL;
    char shown[64], what[128];
    BN_TRY(bn_gguf_required(bn_gguf_array(gguf, KEY("weight_names"), BN_GGUF_STRING, &h->names, err),
                            KEY("weight_names"), err));
    if (h->names->n > MAX_NAMES)
        return fail(gguf, BN_ERR_LIMIT, KEY("weight_names"), "more names than a model has layers", err);
    const unsigned char *cursor = h->names->value;
    for (uint64_t i = 0; i < h->names->n; i++) {
        struct bn_str name = bn_gguf_next_str(&cursor);
        bool known = is_linear_name(name), twice = is_listed(h->names, name, i);
        snprintf(what, sizeof what, "'%s' %s", bn_escape(shown, sizeof shown, name.ptr, name.len),
                 twice ? "appears twice" : "is not the weight of a linear layer");
        if (!known || twice)
            return fail(gguf, twice ? BN_ERR_FORMAT : BN_ERR_UNSUPPORTED, KEY("weight_names"), what, err);
    }
    bn_status status = bn_gguf_array(gguf, KEY("inverse_weight_names"), BN_GGUF_STRING, &inverse, err);
    if (status == BN_ERR_NOT_FOUND) return BN_OK;
    BN_TRY(status);
    cursor = inverse->value;
    for (uint64_t i = 0; i < inverse->n; i++)
        if (i > 0 || !bn_str_equal(bn_gguf_next_str(&cursor), "token_embd.weight"))
            return fail(gguf, BN_ERR_UNSUPPORTED, KEY("inverse_weight_names"),
                        "only token_embd.weight can be rotated back", err);
    h->embedding = inverse->n > 0;
    return BN_OK;
}

bn_status bn_hadamard_read(struct bn_hadamard *h, const struct bn_gguf *gguf, bn_error *err)
{
    static const char PREFIX[] = KEY("");
    bool found = false;
    *h = (struct bn_hadamard){0};
    for (size_t i = 0; i < gguf->n_kv; i++)
        found |=
            gguf->kv[i].key.len >= strlen(PREFIX) && memcmp(gguf->kv[i].key.ptr, PREFIX, strlen(PREFIX)) == 0;
    if (!found) return BN_OK;
    BN_TRY(read_block(h, gguf, err));
    BN_TRY(read_signs(h, gguf, err));
    BN_TRY(bn_gguf_optional(bn_gguf_bool(gguf, KEY("gdn_v_grouped"), &h->grouped_heads, err)));
    return read_names(h, gguf, err);
}

void bn_hadamard_release(struct bn_hadamard *h)
{
    for (size_t i = 0; i < BN_HADAMARD_WIDTHS; i++)
        bn_free(h->signs[i]);
    *h = (struct bn_hadamard){0};
}

bn_status bn_hadamard_of(const struct bn_hadamard *h, const char *name, size_t width, struct bn_rotation *out,
                         bn_error *err)
{
    struct bn_str text = {name, strlen(name)};
    bool rotated = strcmp(name, "token_embd.weight") == 0
                       ? h->embedding
                       : h->block != 0 && is_listed(h->names, text, h->names->n);
    *out = (struct bn_rotation){0};
    if (!rotated) return BN_OK;
    out->block = h->block;
    if (width % h->block != 0)
        return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, name,
                          "an input of %zu values is not a multiple of the Hadamard block of %u", width,
                          h->block);
    for (size_t i = 0; i < h->n_widths; i++)
        if (h->widths[i] == width) out->signs = h->signs[i];
    if (h->n_widths == 0 || out->signs != NULL) return BN_OK;
    return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, name,
                      "is rotated, and prism.hadamard.sign_widths has no signs for %zu values", width);
}
