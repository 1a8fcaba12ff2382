/* SPDX-License-Identifier: MIT
 *
 * The built-in text of bn-bench run --score and bn-crossval bench; see tools/cli/text.h.
 */
#include "base/embed.h"

EMBED(bn_validation_text, bn_validation_text_bytes, "fixtures/validation.txt")
EMBED_END
