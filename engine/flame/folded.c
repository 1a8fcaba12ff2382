/* SPDX-License-Identifier: MIT
 *
 * Folded stacks: a line for each call path, "outermost;...;innermost weight", as the stackcollapse programs
 * write them.
 */
#define _GNU_SOURCE /* memrchr */
#include <stdlib.h>

#include "base/error.h"
#include "flame/document.h"

static bool ends_with(struct bn_str name, const char *end)
{
    size_t n = strlen(end);
    return name.len > n && memcmp(name.ptr + name.len - n, end, n) == 0;
}

static bn_status push_name(bn_stacks *stacks, uint32_t *node, struct bn_str name, bn_error *err)
{
    struct bn_frame frame = {name.ptr, "", "", 0, BN_FRAME_CODE};
    if (ends_with(name, "_[k]")) frame.kind = BN_FRAME_SYSTEM;
    if (ends_with(name, "_[i]")) frame.kind = BN_FRAME_INLINED;
    if (frame.kind != BN_FRAME_CODE) name.len -= 4;
    if (name.len > 1 && name.ptr[0] == '[' && name.ptr[name.len - 1] == ']') frame.kind = BN_FRAME_UNKNOWN;
    return bn_stacks_push(stacks, node, &frame, name.len, err);
}

static bn_status take_line(bn_stacks *stacks, struct bn_str line, const char *name, size_t number,
                           bn_error *err)
{
    const char *space = memrchr(line.ptr, ' ', line.len);
    char digits[64], *end = digits;
    double weight = -1;
    if (space != NULL && (size_t)(line.ptr + line.len - space) <= sizeof digits) {
        size_t n = (size_t)(line.ptr + line.len - space) - 1;
        memcpy(digits, space + 1, n);
        digits[n] = '\0';
        weight = strtod(digits, &end);
    }
    if (space == NULL || end == digits || *end != '\0' || !(weight >= 0 && weight < 1e300))
        return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, name, "line %zu does not end in a weight",
                          number);
    uint32_t node = BN_STACKS_ROOT;
    for (const char *at = line.ptr; at <= space;) {
        const char *next = memchr(at, ';', (size_t)(space - at));
        if (next == NULL) next = space;
        BN_TRY(push_name(stacks, &node, (struct bn_str){at, (size_t)(next - at)}, err));
        at = next + 1;
    }
    bn_stacks_add(stacks, node, 0, weight, 0);
    return BN_OK;
}

bn_status bn_stacks_parse_folded(bn_stacks **out, const char *text, size_t n, const char *name, bn_error *err)
{
    BN_TRY(bn_stacks_open(out, "samples", "", err));
    bn_status status = BN_OK;
    size_t number = 1;
    for (size_t i = 0; i < n && status == BN_OK; number++) {
        const char *newline = memchr(text + i, '\n', n - i);
        struct bn_str line = {text + i, newline != NULL ? (size_t)(newline - (text + i)) : n - i};
        i += line.len + 1;
        if (line.len == 0 || line.ptr[0] == '#') continue;
        status = take_line(*out, line, name, number, err);
    }
    if (status != BN_OK) {
        bn_stacks_close(*out);
        *out = NULL;
    }
    return status;
}
