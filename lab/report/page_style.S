/* SPDX-License-Identifier: MIT
 *
 * The style sheet of all pages, and the script that sorts and filters their tables; see page.c.
 */
#include "base/embed.h"

EMBED(bn_page_style, bn_page_style_bytes, "lab/report/page.css")
EMBED(bn_page_script, bn_page_script_bytes, "lab/report/page.js")
EMBED_END
