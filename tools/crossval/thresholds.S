/* SPDX-License-Identifier: MIT
 *
 * The default thresholds of bn-crossval; see tools/crossval/crossval.h.
 */
#include "base/embed.h"

EMBED(bn_default_thresholds, bn_default_thresholds_bytes, "crossval/thresholds.json")
EMBED_END
