/* SPDX-License-Identifier: MIT
 *
 * The style sheet of bn-crossval's page; see tools/crossval/page.h.
 */
#include "base/embed.h"

EMBED(bn_report_style, bn_report_style_bytes, "tools/crossval/report.css")
EMBED_END
