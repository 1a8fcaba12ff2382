/* SPDX-License-Identifier: MIT
 *
 * The built-in text of bn-bench run --score.
 */
#include "base/embed.h"

EMBED(bn_bench_validation, bn_bench_validation_bytes, "fixtures/validation.txt")
EMBED_END
