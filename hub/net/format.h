/* SPDX-License-Identifier: MIT
 *
 * The formats that a file's name promises, and whether its bytes keep the promise: at the start of a download
 * its first bytes, at the end the header and the size that the header implies.
 */
#ifndef BN_HUB_FORMAT_H
#define BN_HUB_FORMAT_H

#include "base/mem.h"

enum bn_hub_format { BN_HUB_ANY_FORMAT, BN_HUB_GGUF, BN_HUB_SAFETENSORS };

/* By the end of the name: ".gguf", ".safetensors". */
enum bn_hub_format bn_hub_format_of(const char *name);

/* BN_ERR_FORMAT when bytes that a server sends, n of them from offset at, are a git-lfs pointer, or do not
 * fit the beginning of a file of this format. */
BN_MUST_CHECK bn_status bn_hub_check_start(enum bn_hub_format format, uint64_t at, const void *bytes,
                                           size_t n, bn_error *err);

/* Whether a complete file has a valid header of this format and is as long as the header says. BN_ERR_FORMAT
 * for another kind of file and a truncated one, BN_ERR_LIMIT for counts over the limits of the GGUF reader. A
 * GGUF file with types of tensors that this engine does not run is accepted. */
BN_MUST_CHECK bn_status bn_hub_check_file(enum bn_hub_format format, const char *path, bn_error *err);

#endif
