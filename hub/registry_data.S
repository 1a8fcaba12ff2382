/* SPDX-License-Identifier: MIT
 *
 * The model registry; see hub/registry.h.
 */
#include "base/embed.h"

EMBED(bn_hub_registry_text, bn_hub_registry_bytes, "hub/registry.json")
EMBED_END
