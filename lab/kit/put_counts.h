/* SPDX-License-Identifier: MIT
 *
 * Several members of a JSON object at once, in this order:
 *
 *     BN_PUT(object, BN_STRING("name", name), BN_U64("calls", n_calls), BN_FLAG("ok", ok));
 *     BN_PUT(object, BN_TIME("created", bn_clock_utc()));
 *     BN_PUT_COUNTS(object, {"calls", n_calls}, {"ns", ns});
 *     BN_PUT_STRINGS(object, {"test", test}, {"unit", unit});
 */
#ifndef BN_KIT_PUT_COUNTS_H
#define BN_KIT_PUT_COUNTS_H

#include "base/clock.h"
#include "base/json.h"

struct bn_member {
    const char *name;
    uint64_t n;
    enum { BN_AS_U64, BN_AS_COUNT, BN_AS_STR, BN_AS_TEXT, BN_AS_F64, BN_AS_F32, BN_AS_BOOL, BN_AS_TIME } as;
    const char *text;
    double number;
};
#define BN_MEMBER(...) \
    {                  \
        __VA_ARGS__    \
    }
#define BN_U64(name, value) BN_MEMBER(name, value, BN_AS_U64, NULL, 0)
#define BN_COUNT(name, value) BN_MEMBER(name, value, BN_AS_COUNT, NULL, 0)
#define BN_STRING(name, value) BN_MEMBER(name, 0, BN_AS_STR, value, 0)
#define BN_TEXT(name, value) BN_MEMBER(name, 0, BN_AS_TEXT, value, 0)
#define BN_NUMBER(name, value) BN_MEMBER(name, 0, BN_AS_F64, NULL, value)
#define BN_F32(name, value) BN_MEMBER(name, 0, BN_AS_F32, NULL, (double)(value))
#define BN_FLAG(name, value) BN_MEMBER(name, value, BN_AS_BOOL, NULL, 0)
#define BN_TIME(name, utc) BN_MEMBER(name, (uint64_t)(utc), BN_AS_TIME, NULL, 0)

static inline void bn_put_members(bn_json *object, const struct bn_member *m, size_t n)
{
    for (; n-- > 0; m++) {
        if (m->as == BN_AS_U64) bn_json_put_u64(object, m->name, m->n);
        if (m->as == BN_AS_COUNT) bn_json_put_count(object, m->name, m->n);
        if (m->as == BN_AS_STR) bn_json_put_string(object, m->name, m->text);
        if (m->as == BN_AS_TEXT) bn_json_put_text(object, m->name, m->text);
        if (m->as == BN_AS_F64) bn_json_put_number(object, m->name, m->number);
        if (m->as == BN_AS_F32) bn_json_put_f32(object, m->name, (float)m->number);
        if (m->as == BN_AS_BOOL) bn_json_put_bool(object, m->name, m->n != 0);
        if (m->as == BN_AS_TIME) {
            char time[21];
            bn_clock_format((int64_t)m->n, time);
            bn_json_put_string(object, m->name, time);
        }
    }
}
#define BN_PUT(object, ...)                                         \
    bn_put_members(object, (const struct bn_member[]){__VA_ARGS__}, \
                   sizeof((const struct bn_member[]){__VA_ARGS__}) / sizeof(struct bn_member))

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

static inline void bn_put_strings(bn_json *object, const char *const (*list)[2], size_t n)
{
    for (size_t i = 0; i < n; i++)
        bn_json_put_string(object, list[i][0], list[i][1]);
}
#define BN_PUT_STRINGS(object, ...)                               \
    bn_put_strings(object, (const char *const[][2]){__VA_ARGS__}, \
                   sizeof((const char *const[][2]){__VA_ARGS__}) / sizeof(char *[2]))

#endif
