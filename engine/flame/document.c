/* SPDX-License-Identifier: MIT
 *
 * See document.h.
 */
#include "flame/document.h"

#include "base/error.h"
#include "base/file.h"

#define MAX_BYTES (256u << 20)

bn_status bn_stacks_parse(bn_stacks **out, const char *text, size_t n, const char *name, bn_error *err)
{
    return bn_stacks_parse_folded(out, text, n, name, err);
}

bn_status bn_stacks_read(bn_stacks **out, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = MAX_BYTES};
    *out = NULL;
    bn_status status = bn_file_read(path, &text, err);
    if (status == BN_OK) status = bn_stacks_parse(out, text.data, text.len, path, err);
    bn_buf_release(&text);
    return status;
}
