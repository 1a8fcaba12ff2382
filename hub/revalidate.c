/* SPDX-License-Identifier: MIT
 *
 * Compares a downloaded file with what its server says now: the remembered validators go into a conditional
 * request, and without them size and digest are compared.
 */
#include "hub/revalidate.h"

#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "hub/cache/validators.h"

bn_status bn_hub_revalidate(enum bn_hub_freshness *out, const struct bn_hub_server *server, const char *url,
                            uint64_t size, const char *sha256, bn_error *err)
{
    struct bn_hub_validators known;
    struct bn_http_request request = {.url = url};
    struct bn_http_source *source = NULL;
    *out = BN_HUB_CHANGED;
    BN_TRY(bn_hub_validators_find(&known, url, err));
    bool ours = strcmp(known.sha256, sha256) == 0;
    if (known.sha256[0] != '\0' && !ours) return BN_OK;
    if (ours && known.etag[0] != '\0') request.if_none_match = known.etag;
    if (ours && known.last_modified[0] != '\0') request.if_modified_since = known.last_modified;
    source = bn_alloc(1, sizeof *source);
    if (source == NULL) return bn_nomem(err);
    bn_status status = bn_hub_ask(source, server, &request, err);
    bool conditional = request.if_none_match != NULL || request.if_modified_since != NULL;
    if (status == BN_OK && source->last.status == 304)
        *out = BN_HUB_UNCHANGED;
    else if (status == BN_OK && source->sha256[0] != '\0')
        *out = strcasecmp(source->sha256, sha256) == 0 ? BN_HUB_UNCHANGED : BN_HUB_CHANGED;
    else if (status == BN_OK && !conditional && source->size == size)
        *out = BN_HUB_SAME_SIZE;
    bn_free(source);
    return status;
}
