/* SPDX-License-Identifier: MIT
 *
 * Compares two receipts. Objects are compared member by member by name, kernel_stats by the kernels' names;
 * everything else is compared as its canonical text.
 */
#include "lab/verify/rules.h"

#include <stdio.h>

#include "base/error.h"

#define MAX_TEXT (16u << 20)

struct walk {
    bn_diff_fn fn;
    void *user;
    size_t *n_diffs;
    bn_error *err;
};

const char *bn_diff_group_name(enum bn_diff_group group)
{
    static const char *const NAMES[BN_DIFF_GROUP_COUNT] = {"identity", "result", "measurement"};
    return (unsigned)group < BN_DIFF_GROUP_COUNT ? NAMES[group] : "?";
}

static enum bn_diff_group group_of(const char *path)
{
    static const char *const RESULT[] = {"result.", "tokens_generated", "compute_path", "deterministic"};
    static const char *const MEASUREMENT[] = {"measurement.", "tokens_per_second", "timestamp",
                                              "machine.load_milli", "performance_baseline"};
    for (size_t i = 0; i < BN_ARRAY_LEN(RESULT); i++)
        if (strncmp(path, RESULT[i], strlen(RESULT[i])) == 0) return BN_DIFF_RESULT;
    for (size_t i = 0; i < BN_ARRAY_LEN(MEASUREMENT); i++)
        if (strncmp(path, MEASUREMENT[i], strlen(MEASUREMENT[i])) == 0) return BN_DIFF_MEASUREMENT;
    return BN_DIFF_IDENTITY;
}

/* The canonical text of a value, shortened; absent gives "". JSON has escaped the control characters of
 * ASCII; the others that terminals obey (DEL, U+0080 to U+009F) become question marks. */
static bn_status show(const bn_json *value, char out[96], struct bn_buf *text, bn_error *err)
{
    out[0] = '\0';
    text->len = 0;
    if (value == NULL) return BN_OK;
    BN_TRY(bn_json_write(value, true, text, err));
    size_t n = text->len < 96 ? text->len : 92;
    while (n > 0 && n < text->len && ((unsigned char)text->data[n] & 0xC0) == 0x80)
        n--; /* not inside a code point */
    for (size_t i = 0; i < n; i++) {
        bool c1 = (unsigned char)text->data[i] == 0xC2 && (unsigned char)text->data[i + 1] < 0xA0;
        out[i] = text->data[i] == 0x7F || c1 ? '?' : text->data[i];
        if (c1) out[++i] = '?';
    }
    snprintf(out + n, 96 - n, "%s", n < text->len ? "..." : "");
    return BN_OK;
}

static bn_status tell(struct walk *w, const char *path, const bn_json *left, const bn_json *right)
{
    struct bn_buf a = {.max = MAX_TEXT}, b = {.max = MAX_TEXT};
    struct bn_receipt_diff diff = {.group = group_of(path)};
    double x, y;
    snprintf(diff.path, sizeof diff.path, "%s", path);
    bn_status status = show(left, diff.left, &a, w->err);
    if (status == BN_OK) status = show(right, diff.right, &b, w->err);
    bool same =
        left != NULL && right != NULL && a.len == b.len && a.len > 0 && memcmp(a.data, b.data, a.len) == 0;
    bn_buf_release(&a);
    bn_buf_release(&b);
    if (status != BN_OK || same) return status;
    diff.has_ratio =
        diff.group == BN_DIFF_MEASUREMENT && bn_json_number(left, &x) && bn_json_number(right, &y) && x > 0;
    if (diff.has_ratio) diff.ratio = y / x;
    w->n_diffs[diff.group]++;
    w->fn(w->user, &diff);
    return BN_OK;
}

/* Two lists: their first different elements, with the place in the path. */
static bn_status walk_lists(struct walk *w, const char *path, const bn_json *left, const bn_json *right)
{
    const bn_json *a = bn_json_first(left), *b = bn_json_first(right);
    char longer[160];
    for (size_t i = 0; a != NULL || b != NULL; i++, a = bn_json_next(a), b = bn_json_next(b)) {
        size_t before[BN_DIFF_GROUP_COUNT];
        memcpy(before, w->n_diffs, sizeof before);
        snprintf(longer, sizeof longer, "%.140s[%zu]", path, i);
        BN_TRY(tell(w, longer, a, b));
        if (memcmp(before, w->n_diffs, sizeof before) != 0) break;
    }
    return BN_OK;
}

static bn_status walk_objects(struct walk *w, const char *path, const bn_json *left, const bn_json *right);

static bn_status walk_stats(struct walk *w, const char *path, const bn_json *left, const bn_json *right)
{
    char longer[160];
    const char *name;
    for (int side = 0; side < 2; side++) {
        for (const bn_json *e = bn_json_first(side == 0 ? left : right); e != NULL; e = bn_json_next(e)) {
            if (!bn_json_string(bn_json_get(e, "name"), &name)) continue;
            const bn_json *other = bn_json_find(side == 0 ? right : left, "name", name);
            snprintf(longer, sizeof longer, "%.100s.%.40s", path, name);
            if (other == NULL) BN_TRY(tell(w, longer, side == 0 ? e : NULL, side == 0 ? NULL : e));
            if (other != NULL && side == 0) BN_TRY(walk_objects(w, longer, e, other));
        }
    }
    return BN_OK;
}

static bn_status walk_values(struct walk *w, const char *path, const bn_json *left, const bn_json *right)
{
    enum bn_json_kind kind = bn_json_kind(left);
    if (left == NULL || right == NULL || kind != bn_json_kind(right)) return tell(w, path, left, right);
    if (kind == BN_JSON_OBJECT) return walk_objects(w, path, left, right);
    if (kind != BN_JSON_ARRAY) return tell(w, path, left, right);
    bool stats = strcmp(path, "measurement.kernel_stats") == 0;
    return stats ? walk_stats(w, path, left, right) : walk_lists(w, path, left, right);
}

/* Members of the left object, then those that only the right one has. */
static bn_status walk_objects(struct walk *w, const char *path, const bn_json *left, const bn_json *right)
{
    char longer[160];
    for (int side = 0; side < 2; side++)
        for (const bn_json *m = bn_json_first(side == 0 ? left : right); m != NULL; m = bn_json_next(m)) {
            const bn_json *other = bn_json_get(side == 0 ? right : left, bn_json_name(m));
            snprintf(longer, sizeof longer, "%.90s%s%.60s", path, path[0] == '\0' ? "" : ".",
                     bn_json_name(m));
            if (side == 0) BN_TRY(walk_values(w, longer, m, other));
            if (side == 1 && other == NULL) BN_TRY(walk_values(w, longer, NULL, m));
        }
    return BN_OK;
}

bn_status bn_receipt_diff(const struct bn_receipt *left, const struct bn_receipt *right, bn_diff_fn fn,
                          void *user, size_t n_diffs[BN_DIFF_GROUP_COUNT], bn_error *err)
{
    struct walk w = {fn, user, n_diffs, err};
    memset(n_diffs, 0, BN_DIFF_GROUP_COUNT * sizeof *n_diffs);
    return walk_objects(&w, "", left->predicate, right->predicate);
}
