/* SPDX-License-Identifier: MIT
 *
 * json_memory.h - lets tests count cJSON's blocks, and make its allocations fail, as those of bn_alloc. The library itself
 * leaves the hooks of cJSON alone, since they belong to the whole process.
 */
#ifndef BN_TESTS_JSON_MEMORY_H
#define BN_TESTS_JSON_MEMORY_H

#include <cjson/cJSON.h>

#include "base/mem.h"

static void *json_block(size_t n)
{
    return bn_alloc(n, 1);
}

static inline void count_json_memory(void)
{
    cJSON_Hooks hooks = {json_block, bn_free};
    cJSON_InitHooks(&hooks);
}

#endif
