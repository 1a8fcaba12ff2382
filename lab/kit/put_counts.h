/* SPDX-License-Identifier: MIT
 *
 * Several whole numbers of a JSON object at once: BN_PUT_COUNTS(object, {"calls", n_calls}, {"ns", ns}).
 */
#ifndef BN_KIT_PUT_COUNTS_H
#define BN_KIT_PUT_COUNTS_H

#include "base/json.h"

struct bn_named_count {
    const char *name;
    uint64_t value;
};

static inline void bn_put_counts(bn_json *object, const struct bn_named_count *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bn_json_put_u64(object, list[i].name, list[i].value);
}
#define BN_PUT_COUNTS(object, ...)                                      \
    bn_put_counts(object, (const struct bn_named_count[]){__VA_ARGS__}, \
                  sizeof((const struct bn_named_count[]){__VA_ARGS__}) / sizeof(struct bn_named_count))

#endif
