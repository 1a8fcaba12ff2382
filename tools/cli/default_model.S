/* SPDX-License-Identifier: MIT
 *
 * The built-in model; see tools/cli/default_model.h.
 */
#include "base/embed.h"

EMBED(bn_default_model_data, bn_default_model_bytes, "fixtures/built-in-i2_s.gguf")
EMBED_END
