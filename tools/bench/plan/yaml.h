/* SPDX-License-Identifier: MIT
 *
 * Reads a configuration file in YAML: sections of keys, each with a value or a list of values. Everything else
 * of YAML is refused: anchors, aliases, tags, several documents, deeper nesting, duplicate keys. Errors name
 * the line.
 */
#ifndef BN_BENCH_YAML_H
#define BN_BENCH_YAML_H

#include "base/buf.h"

#define BN_YAML_MAX_BYTES (64u << 10)
#define BN_YAML_MAX_VALUES 256u /* of a key */

struct bn_yaml_value {
    char *text;
    bool quoted; /* a text even when it looks like a number */
};
struct bn_yaml_entry {
    char *section, *key;
    unsigned line; /* of the key, counted from 1 */
    bool list;     /* else it has one value */
    struct bn_yaml_value *values;
    size_t n, room;
};
/* Zeroed before use; released in any case. */
struct bn_yaml {
    struct bn_yaml_entry *list;
    size_t n, room;
};

/* Appends the entries of a text in their order. A list inside a list is one value: [[16, 256]] is 16x256.
 * BN_ERR_FORMAT, BN_ERR_LIMIT. */
BN_MUST_CHECK bn_status bn_yaml_parse(struct bn_yaml *out, const char *text, size_t n, bn_error *err);
void bn_yaml_release(struct bn_yaml *yaml);

#endif
