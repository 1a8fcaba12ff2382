/* SPDX-License-Identifier: MIT
 *
 * Stacks from text, and written again, for the tests of formats.
 */
#ifndef BN_TESTS_STACKS_TEXT_H
#define BN_TESTS_STACKS_TEXT_H

#include <math.h>

#include "base/error.h"
#include "lab/formats/document.h"
#include "lab/stacks/hotspots.h"
#include "tests/unit/stacks/stacks_child.h"
#include "tests/unit/status.h"

#define OK(expr) assert_int_equal((expr), BN_OK)

static inline bn_stacks *parse(const char *text)
{
    bn_stacks *s = NULL;
    if (attempt(bn_stacks_parse(&s, text, strlen(text), "test", &err)) != BN_OK)
        fail_msg("%s: %s", err.msg, text);
    return s;
}

static inline struct bn_buf written(const bn_stacks *s, enum bn_stacks_format format)
{
    struct bn_buf out = {.max = 1u << 24};
    if (attempt(bn_stacks_write(s, format, &out, &err)) != BN_OK) fail_msg("%s", err.msg);
    return out;
}

static inline void expect_folded(const bn_stacks *s, const char *expected)
{
    struct bn_buf out = written(s, BN_STACKS_FOLDED);
    assert_string_equal(out.data, expected);
    bn_buf_release(&out);
}

/* Tags, kinds, modules, places, fractions, several runs, a hostile name, weight at inner nodes. */
static inline bn_stacks *specimen(void)
{
    static const struct {
        struct bn_frame path[4];
        double weight[2];
        uint64_t samples[2];
    } PATHS[] = {
        {{{"bn-run", "", "", 0, BN_FRAME_THREAD}, {"main", "bn-run", "main.c", 3, BN_FRAME_CODE}},
         {1000001, 7},
         {1, 2}},
        {{{"bn-run", "", "", 0, BN_FRAME_THREAD},
          {"main", "bn-run", "main.c", 3, BN_FRAME_CODE},
          {"dot;product", "bn-run", "dot.c", 9, BN_FRAME_INLINED}},
         {123456789.25, 0},
         {3, 0}},
        {{{"bn-run", "", "", 0, BN_FRAME_THREAD},
          {"main", "bn-run", "main.c", 3, BN_FRAME_CODE},
          {"main", "bn-run", "main.c", 3, BN_FRAME_CODE},
          {"read", "[kernel]", "", 0, BN_FRAME_SYSTEM}},
         {0.1, 5e9},
         {0, 5}},
        {{{"#\"</script>\\", "", "", 0, BN_FRAME_THREAD},
          {"[libc.so.6]", "libc.so.6", "", 0, BN_FRAME_UNKNOWN}},
         {0, 1e12},
         {0, 1000}},
    };
    bn_stacks *s = NULL;
    OK(bn_stacks_open(&s, "ns", "cpu", NULL));
    OK(bn_stacks_add_run(s, NULL));
    for (size_t i = 0; i < BN_ARRAY_LEN(PATHS); i++) {
        uint32_t node = BN_STACKS_ROOT;
        for (size_t k = 0; k < 4 && PATHS[i].path[k].name != NULL; k++)
            OK(bn_stacks_push(s, &node, &PATHS[i].path[k], SIZE_MAX, NULL));
        for (size_t r = 0; r < 2; r++)
            bn_stacks_add(s, node, r, PATHS[i].weight[r], PATHS[i].samples[r]);
    }
    bn_json_put_string(s->about, "note", "a specimen");
    return s;
}

static inline double whole_of(const bn_stacks *s)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        sum += bn_stacks_self(s, i, BN_STACKS_ALL_RUNS);
    return sum;
}

#endif
