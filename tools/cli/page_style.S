/* SPDX-License-Identifier: MIT
 *
 * The style sheet of all pages; see tools/cli/page.h.
 */
#include "base/embed.h"

EMBED(bn_page_style, bn_page_style_bytes, "tools/cli/page.css")
EMBED_END
