/* SPDX-License-Identifier: MIT
 *
 * Opening a model: map the file, parse it, read the hyper-parameters, build the tokenizer, bind the weights.
 */
#include "model/model.h"
#include "model/device.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/hparams.h"
#include "model/weights.h"
#include "tokenizer/tokenizer.h"

/* The vocabulary's length: the hyper-parameter, the token list and the embedding must agree. */
static bn_status check_vocab(struct bn_model *m, bn_error *err)
{
    const struct bn_gguf_tensor *embd = bn_gguf_find_tensor(&m->gguf, "token_embd.weight");
    size_t n_tokens = m->tokenizer != NULL ? bn_tokenizer_n_vocab(m->tokenizer) : 0;
    if (m->hp.n_vocab == 0 && n_tokens > 0) m->hp.n_vocab = (uint32_t)n_tokens;
    if (m->hp.n_vocab == 0 && embd != NULL && embd->ne[1] <= BN_MAX_VOCAB)
        m->hp.n_vocab = (uint32_t)embd->ne[1];
    if (m->hp.n_vocab == 0)
        return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, "tokenizer.ggml.tokens", "no vocabulary");
    if (n_tokens > 0 && n_tokens != m->hp.n_vocab)
        return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, "tokenizer.ggml.tokens",
                          "%zu tokens, but the model's vocabulary has %u", n_tokens, m->hp.n_vocab);
    return BN_OK;
}

/* What this rank computes, and whether the model can be divided. */
static bn_status divide(struct bn_model *m, bn_error *err)
{
    const bn_hparams *hp = &m->hp;
    const struct bn_ranks *ranks = m->ranks;
    m->kv_heads = bn_model_slice(m, hp->n_head_kv, 1);
    m->vocab = bn_model_slice(m, hp->n_vocab, BN_ROW_GRAIN);
    if (ranks == NULL) return BN_OK;
    if (hp->recurrence.n_taps != 0)
        return bn_fail(err, BN_ERR_UNSUPPORTED,
                       "a model with recurrent layers cannot be divided among ranks");
    if (hp->experts.n != 0)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "a model with experts cannot be divided among ranks");
    if (ranks->count <= hp->n_head_kv) return BN_OK;
    return bn_hint(bn_fail(err, BN_ERR_UNSUPPORTED,
                           "the model has %u KV heads, which cannot be divided among %u ranks", hp->n_head_kv,
                           ranks->count),
                   err, "use at most %u ranks", hp->n_head_kv);
}

static bn_status open_device(struct bn_model *m, const char *selector, bn_error *err)
{
    if (selector == NULL || strcmp(selector, "cpu") == 0) return BN_OK;
    if (m->ranks == NULL) return bn_device_open(&m->device, m, selector, err);
    return bn_hint(bn_fail(err, BN_ERR_UNSUPPORTED, "a model that is divided among ranks runs on CPUs only"),
                   err, "run one process, or leave --device out");
}

static bn_status open_bytes(struct bn_model *m, const bn_model_options *options, bn_error *err)
{
    BN_TRY(bn_isa_kernels(&m->kernels, err));
    BN_TRY(bn_gguf_open(&m->gguf, m->bytes, m->n_bytes, err));
    BN_TRY(bn_hparams_read(&m->hp, &m->gguf, err));
    bn_status status = bn_tokenizer_open(&m->tokenizer, &m->gguf, m->hp.arch, err);
    if (status != BN_ERR_NOT_FOUND) BN_TRY(status);
    BN_TRY(check_vocab(m, err));
    BN_TRY(divide(m, err));
    m->no_weights = options->no_weights;
    if (m->no_weights) return BN_OK;
    struct bn_loading loading = {options, 0, 3 * m->hp.n_layer + BN_LOADING_HEAD_PARTS};
    BN_TRY(bn_weights_bind(m, &loading, err));
    BN_TRY(open_device(m, options->device, err));
    if (m->device == NULL) BN_TRY(bn_repack_model(m, &loading, err));
    if (loading.done == loading.total) return BN_OK;
    loading.done = loading.total - 1; /* no copies were made */
    return bn_loading_step(&loading, err);
}

bn_status bn_model_open_divided(bn_model **out, const char *path, const void *data, size_t n_bytes,
                                const bn_model_options *given, const struct bn_ranks *ranks, bn_error *err)
{
    bn_model_options options = {0};
    *out = NULL;
    BN_TRY(bn_take_options(&options, sizeof options, given, err));
    struct bn_model *m = bn_alloc(1, sizeof *m);
    if (m == NULL) return bn_nomem(err);
    m->ranks = ranks;
    bn_status status = data != NULL ? BN_OK : bn_file_map_open(&m->map, path, options.no_mmap, err);
    m->bytes = data != NULL ? data : m->map.data;
    m->n_bytes = data != NULL ? n_bytes : m->map.n_bytes;
    if (status == BN_OK) status = open_bytes(m, &options, err);
    if (status != BN_OK) {
        bn_error_name(err, path);
        bn_model_close(m);
        return status;
    }
    *out = m;
    return BN_OK;
}

bn_status bn_model_open_memory(bn_model **out, const void *data, size_t n_bytes, const char *name,
                               const bn_model_options *options, bn_error *err)
{
    *out = NULL;
    if (data == NULL || (uintptr_t)data % BN_ALIGNMENT != 0)
        return bn_fail(err, BN_ERR_ARG, "the bytes are not 64-byte aligned");
    return bn_model_open_divided(out, name, data, n_bytes, options, NULL, err);
}

bn_status bn_model_open(bn_model **out, const char *path, const bn_model_options *options, bn_error *err)
{
    return bn_model_open_divided(out, path, NULL, 0, options, NULL, err);
}

void bn_model_leave_device(bn_model *m)
{
    m->left = m->device;
    m->device = NULL;
}

void bn_model_close(bn_model *m)
{
    if (m == NULL) return;
    bn_device_close(m->device);
    bn_device_close(m->left);
    for (size_t i = 0; i < m->n_copies; i++)
        bn_free(m->copies[i]);
    bn_free(m->copies);
    bn_free(m->layers);
    bn_hadamard_release(&m->hadamard);
    bn_tokenizer_close(m->tokenizer);
    bn_gguf_close(&m->gguf);
    bn_file_map_close(&m->map);
    bn_free(m);
}

uint64_t bn_model_resident_bytes(const bn_model *m)
{
    uint64_t bytes = m->head_linear.rows == 0 ? (uint64_t)m->vocab.n * m->head.row_bytes : 0;
    for (size_t i = 0; i < m->n_copies; i++)
        bytes += bn_mem_size(m->copies[i]);
    for (size_t i = 0; i < bn_model_n_linears(m); i++) {
        const struct bn_ternary *w = &bn_model_linear(m, i)->w;
        bool read = w->codes == NULL || bn_model_linear(m, i)->picked;
        bool in_file = read && w->stored >= m->bytes && w->stored < m->bytes + m->n_bytes;
        if (in_file) bytes += (uint64_t)w->rows * w->row_bytes;
    }
    return bytes;
}

const bn_device_info *bn_model_device(const bn_model *m)
{
    return m->device != NULL ? bn_device_facts(m->device) : NULL;
}

const bn_hparams *bn_model_hparams(const bn_model *m)
{
    return &m->hp;
}

uint64_t bn_model_get(const bn_model *m, bn_model_figure figure)
{
    const bn_hparams *hp = &m->hp;
    const uint64_t figures[] = {[BN_MODEL_N_VOCAB] = hp->n_vocab,
                                [BN_MODEL_N_CTX] = hp->n_ctx,
                                [BN_MODEL_N_EMBD] = hp->n_embd,
                                [BN_MODEL_N_LAYER] = hp->n_layer,
                                [BN_MODEL_N_HEAD] = hp->n_head,
                                [BN_MODEL_N_HEAD_KV] = hp->n_head_kv,
                                [BN_MODEL_N_FF] = hp->n_ff,
                                [BN_MODEL_HEAD_DIM] = hp->head_dim,
                                [BN_MODEL_N_EXPERTS] = hp->experts.n,
                                [BN_MODEL_STATE_BYTES] = bn_model_state_bytes(m),
                                [BN_MODEL_POOLING] = (uint64_t)hp->pooling};
    return (size_t)figure < sizeof figures / sizeof figures[0] ? figures[figure] : 0;
}

const char *bn_model_arch(const bn_model *m)
{
    return m->hp.arch;
}

const bn_tokenizer *bn_model_tokenizer(const bn_model *m)
{
    return m->tokenizer;
}

const char *bn_model_activations(const bn_model *m, char out[BN_ACTIVATIONS_BYTES])
{
    if (!m->wide)
        snprintf(out, BN_ACTIVATIONS_BYTES, "int8-token");
    else
        snprintf(out, BN_ACTIVATIONS_BYTES, "int16-g%u", (unsigned)(m->group & 511u));
    return out;
}

/* ---- what ranks do with a model as a whole ---- */

bn_status bn_order_broadcast(const struct bn_model *m, struct bn_order *order, bn_error *err)
{
    return m->ranks->broadcast(m->ranks->context, 0, order, sizeof *order, err);
}

/* Every rank has the digests of all. */
static bn_status compare(const struct bn_model *m, const char *hex, bn_error *err)
{
    const struct bn_ranks *ranks = m->ranks;
    char *all = bn_alloc(ranks->count, BN_SHA256_HEX);
    size_t *edges = bn_alloc(ranks->count + 1u, sizeof *edges);
    bn_status status = all != NULL && edges != NULL ? BN_OK : bn_nomem(err);
    if (status == BN_OK) {
        memcpy(all + (size_t)ranks->index * BN_SHA256_HEX, hex, BN_SHA256_HEX);
        for (size_t i = 0; i <= ranks->count; i++)
            edges[i] = i * BN_SHA256_HEX;
        status = ranks->gather(ranks->context, all, edges, err);
    }
    for (unsigned i = 1; status == BN_OK && i < ranks->count; i++)
        if (memcmp(all, all + (size_t)i * BN_SHA256_HEX, BN_SHA256_HEX) != 0)
            status = bn_fail(err, BN_ERR_INTEGRITY,
                             "rank %u has another model: sha256 %.16s..., rank 0 has %.16s...", i,
                             all + (size_t)i * BN_SHA256_HEX, all);
    bn_free(all);
    bn_free(edges);
    return status;
}

bn_status bn_model_check_file(const struct bn_model *m, bn_error *err)
{
    if (bn_file_map_is_same(&m->map)) return BN_OK;
    return bn_hint(bn_fail(err, BN_ERR_INTEGRITY, "the file of the model was changed while it was in use"),
                   err, "start the program again");
}

bn_status bn_model_digest(const struct bn_model *m, char hex[BN_SHA256_HEX], bn_error *err)
{
    struct bn_order order = {.kind = BN_ORDER_DIGEST};
    if (bn_model_leads(m)) BN_TRY(bn_order_broadcast(m, &order, err));
    bn_sha256_hex(m->bytes, m->n_bytes, hex);
    if (bn_model_follows(m) && !bn_file_map_is_same(&m->map))
        memcpy(hex, "changed", sizeof "changed"); /* the first rank reports it */
    return m->ranks != NULL ? compare(m, hex, err) : BN_OK;
}

/* ---- the choice of kernels, by the program's --isa, by the environment variable BN_ISA, or by what the CPU can do. It is
 * state of the process, as bn.h says; models keep theirs. ---- */

static _Atomic(const struct bn_kernels *) chosen;

bn_status bn_isa_select(const char *name, bn_error *err)
{
    const struct bn_kernels *kernels = bn_kernels_find(name);
    if (kernels != NULL && bn_kernels_supported(kernels)) {
        atomic_store(&chosen, kernels);
        return BN_OK;
    }
    bn_status status = kernels != NULL || bn_kernels_is_set(name) ? BN_ERR_UNSUPPORTED : BN_ERR_ARG;
    if (status == BN_ERR_ARG)
        bn_fail(err, status, "unknown instruction set '%.40s'", name);
    else
        bn_fail(err, status, "%s %s",
                kernels != NULL ? bn_kernels_lacks(kernels) : "this build does not have the instruction set",
                name);
    char have[128] = "";
    for (size_t i = 0, n = 0; bn_isa_available(i) != NULL && n < sizeof have; i++)
        n += (size_t)snprintf(have + n, sizeof have - n, "%s%s", i > 0 ? ", " : "", bn_isa_available(i));
    bn_error_hint(err, "available here: auto, %s", have);
    return status;
}

bn_status bn_isa_kernels(const struct bn_kernels **out, bn_error *err)
{
    *out = atomic_load(&chosen);
    if (*out != NULL) return BN_OK;
    const char *wanted = getenv("BN_ISA");
    BN_TRY(bn_isa_select(wanted != NULL && wanted[0] != '\0' ? wanted : "auto", err));
    *out = atomic_load(&chosen);
    return BN_OK;
}

const char *bn_isa_name(void)
{
    const struct bn_kernels *kernels;
    return bn_isa_kernels(&kernels, NULL) == BN_OK ? kernels->isa : "none";
}

const char *bn_isa_available(size_t i)
{
    for (size_t k = 0; bn_kernels_built(k) != NULL; k++)
        if (bn_kernels_supported(bn_kernels_built(k)) && i-- == 0) return bn_kernels_built(k)->isa;
    return NULL;
}
