/* SPDX-License-Identifier: MIT
 *
 * The library that takes samples in other programs; see lab/sampler/library.h.
 */
#include "base/embed.h"

EMBED(bn_sampler_library, bn_sampler_library_bytes, "libbn-sampler.so")
EMBED_END
