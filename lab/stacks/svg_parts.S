/* SPDX-License-Identifier: MIT
 *
 * Style sheet and script of flame graphs; see lab/stacks/svg.c.
 */
#include "base/embed.h"

EMBED(bn_flame_style, bn_flame_style_bytes, "lab/stacks/flame.css")
EMBED(bn_flame_script, bn_flame_script_bytes, "lab/stacks/flame.js")
EMBED_END
