/* SPDX-License-Identifier: MIT
 *
 * The model registry; see hub/names/registry.h.
 */
#include "base/embed.h"

EMBED(bn_hub_registry_text, bn_hub_registry_bytes, "hub/names/registry.json")
EMBED_END
