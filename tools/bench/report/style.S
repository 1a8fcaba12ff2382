/* SPDX-License-Identifier: MIT
 *
 * Style sheet and script of bn-bench's page; see tools/bench/report/html.c.
 */
#include "base/embed.h"

EMBED(bn_bench_style, bn_bench_style_bytes, "tools/bench/report/report.css")
EMBED(bn_bench_script, bn_bench_script_bytes, "tools/bench/report/report.js")
EMBED_END
