/* SPDX-License-Identifier: MIT
 *
 * What ranks do with a model as a whole: orders, and the comparison of their files.
 */
#include "model/divided.h"

#include <string.h>

#include "base/error.h"

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
