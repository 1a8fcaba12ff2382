/* SPDX-License-Identifier: MIT
 *
 * Places the tensors in the data, and tells layouts apart that share a type number. Nothing in a file says
 * which layout is meant, but the room that the file gives each tensor does: its bytes and the padding to the
 * alignment end where the next tensor starts.
 *
 *     36   I2_S in BitNet files; IQ4_NL_4_4 of llama.cpp, 18 bytes for 32 weights, removed since
 *     42   Q2_0: blocks of 64 weights in llama.cpp, of 128 in files of an older fork
 *     142  PQ2_0; IQ2_TN of ik_llama.cpp, removed since
 *     143  PTQ1_0; IQ1_TN of ik_llama.cpp, removed since
 */
#include "gguf/gguf.h"

#include <inttypes.h>

#include "base/error.h"

struct places {
    struct bn_gguf *gguf;
    const uint32_t *order;
    uint64_t size; /* bytes of tensor data */
};

/* Bytes from the i'th tensor in the file to the next one, or to the end. 0 when it lies outside. */
static uint64_t room_of(const struct places *p, size_t i)
{
    const struct bn_gguf *gguf = p->gguf;
    uint64_t start = gguf->tensors[p->order[i]].offset, end = p->size;
    if (i + 1 < gguf->n_tensors && gguf->tensors[p->order[i + 1]].offset < end)
        end = gguf->tensors[p->order[i + 1]].offset;
    return start < end ? end - start : 0;
}

/* ---- type 42 ---- */

enum fit {
    FIT_NOT,   /* it overlaps the next tensor, or a row is not a whole number of blocks */
    FIT_LOOSE, /* it leaves a gap */
    FIT_EXACT, /* the next tensor starts right after it */
};

/* How the tensors of type 42 fit when all of them have this type. */
static enum fit fit_of(const struct places *p, uint32_t type)
{
    enum fit fit = FIT_EXACT;
    for (size_t i = 0; i < p->gguf->n_tensors; i++) {
        const struct bn_gguf_tensor *t = &p->gguf->tensors[p->order[i]];
        uint64_t bytes, padded, room = room_of(p, i);
        if (t->type != BN_TYPE_Q2_0) continue;
        if (!bn_type_bytes(type, t->ne, &bytes) || bytes > room) return FIT_NOT;
        bool exact = bn_round_up_ok(bytes, p->gguf->alignment, &padded) && room <= padded;
        if (!exact) fit = FIT_LOOSE;
    }
    return fit;
}

static void settle_q2(const struct places *p)
{
    enum fit of_64 = fit_of(p, BN_TYPE_Q2_0), of_128 = fit_of(p, BN_TYPE_PQ2_0);
    if (of_64 == FIT_EXACT || of_128 <= of_64) return;
    for (size_t i = 0; i < p->gguf->n_tensors; i++) {
        struct bn_gguf_tensor *t = &p->gguf->tensors[i];
        if (t->type != BN_TYPE_Q2_0) continue;
        t->type = BN_TYPE_PQ2_0;
        if (!bn_type_bytes(t->type, t->ne, &t->n_bytes)) t->n_bytes = UINT64_MAX; /* refused as too long */
    }
}

/* ---- types whose room shows another meaning ---- */

static bn_status fail_room(const struct bn_gguf_tensor *t, uint64_t room, const char *where, const char *hint,
                           bn_error *err)
{
    const struct bn_type_info *info = bn_type_info(t->type);
    return bn_hint(bn_fail_at(err, BN_ERR_UNSUPPORTED, t->info_offset, where,
                              "type %" PRIu32 " is %s here, of %" PRIu64 " bytes, but the file has %" PRIu64
                              " for it",
                              t->type, info->name, t->n_bytes, room),
                   err, "%s", hint);
}

static bn_status check_i2s_room(const struct bn_gguf *gguf, const struct bn_gguf_tensor *t, uint64_t room,
                                const char *where, bn_error *err)
{
    uint64_t codes = t->n_bytes - BN_I2S_TAIL_BYTES, other = codes, ours = t->n_bytes;
    bool ok = bn_add_ok(codes, codes, &other) && bn_add_ok(other, codes / 4, &other) &&
              bn_round_up_ok(other, gguf->alignment, &other);
    if (room >= ours && !(ok && room == other && other >= ours + gguf->alignment)) return BN_OK;
    return fail_room(t, room, where,
                     room == codes ? "the 32 bytes with the scale are missing after the codes"
                                   : "36 has another meaning in files of other programs",
                     err);
}

/* Checks the room of a tensor whose type number has another meaning elsewhere. */
static bn_status check_room(const struct bn_gguf *gguf, const struct bn_gguf_tensor *t, uint64_t room,
                            const char *where, bn_error *err)
{
    switch (t->type) {
    case BN_TYPE_I2_S:
        return check_i2s_room(gguf, t, room, where, err);
    case BN_TYPE_Q2_0:
    case BN_TYPE_PQ2_0:
    case BN_TYPE_PTQ1_0:
        if (t->n_bytes <= room) return BN_OK;
        return fail_room(
            t, room, where,
            t->type == BN_TYPE_PTQ1_0  ? "143 is also IQ1_TN of ik_llama.cpp, which bn does not read"
            : t->type == BN_TYPE_PQ2_0 ? "142 is also IQ2_TN of ik_llama.cpp, which bn does not read"
                                       : "42 is Q2_0 of 64 or of 128 weights a block: neither fits",
            err);
    default:
        return BN_OK;
    }
}

bn_status bn_gguf_place(struct bn_gguf *gguf, const unsigned char *base, const uint32_t *by_offset,
                        bn_error *err)
{
    struct places p = {gguf, by_offset, gguf->n_bytes - gguf->data_offset};
    char where[BN_GGUF_NAMED_BYTES];
    settle_q2(&p);
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        struct bn_gguf_tensor *t = &gguf->tensors[by_offset[i]];
        bn_gguf_named(where, "tensor", t->name);
        if (t->offset > p.size || t->n_bytes > p.size - t->offset) {
            return bn_hint(bn_fail_at(err, BN_ERR_FORMAT, t->info_offset, where,
                                      "its %" PRIu64 " bytes at %" PRIu64
                                      " of the data are beyond the end of the file",
                                      t->n_bytes, t->offset),
                           err, "the file is cut off or damaged: download it again");
        }
        uint64_t room = room_of(&p, i);
        if (room > 0) BN_TRY(check_room(gguf, t, room, where, err));
        if (t->n_bytes > room)
            return bn_fail_at(err, BN_ERR_FORMAT, t->info_offset, where,
                              "its data overlaps the next tensor's");
    }
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        struct bn_gguf_tensor *t = &gguf->tensors[i];
        t->offset += gguf->data_offset;
        t->data = base + t->offset;
    }
    return BN_OK;
}
