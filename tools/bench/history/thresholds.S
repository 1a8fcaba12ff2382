/* SPDX-License-Identifier: MIT
 *
 * The default severity levels of bn-bench.
 */
#include "base/embed.h"

EMBED(bn_bench_thresholds, bn_bench_thresholds_bytes, "baselines/thresholds.json")
EMBED_END
