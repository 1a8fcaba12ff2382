/* SPDX-License-Identifier: MIT
 *
 * A JSON value, for the two files that make trees of them.
 */
#ifndef BN_BASE_JSON_TREE_H
#define BN_BASE_JSON_TREE_H

#include "base/json.h"

struct bn_json {
    bn_json *next;         /* in the array or object around it */
    bn_json *child, *last; /* elements or members, first and last */
    char *name;            /* of a member, else NULL */
    char *text;
    double number;
    enum bn_json_kind kind;
    bool yes;        /* of BN_JSON_BOOL */
    bool incomplete; /* memory was short for a member or an element of this value */
};

/* NULL when memory is short. */
bn_json *bn_json_new(enum bn_json_kind kind);
/* Adds value, which has its name, as the last element or member. */
void bn_json_append(bn_json *parent, bn_json *value);

#endif
