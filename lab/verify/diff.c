/* SPDX-License-Identifier: MIT
 *
 * Compares two receipts. Objects are compared member by member by name, kernel_stats by the kernels' names;
 * everything else is compared as its canonical text.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/verify/rules.h"

#define MAX_TEXT (16u << 20)

const char *const bn_diff_groups[BN_DIFF_GROUPS] = {"identity", "result", "measurement"};

struct walk {
    bn_json *document;
    size_t n_found;
    bn_error *err;
};

static const char *group_of(const char *path)
{
    static const struct {
        const char *begin;
        unsigned group;
    } GROUPS[] = {{"result.", 1},       {"tokens_generated", 1},   {"compute_path", 1},
                  {"deterministic", 1}, {"measurement.", 2},       {"tokens_per_second", 2},
                  {"timestamp", 2},     {"machine.load_milli", 2}, {"performance_baseline", 2}};
    for (size_t i = 0; i < BN_ARRAY_LEN(GROUPS); i++)
        if (strncmp(path, GROUPS[i].begin, strlen(GROUPS[i].begin)) == 0)
            return bn_diff_groups[GROUPS[i].group];
    return bn_diff_groups[0];
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
    struct bn_buf a = {.max = MAX_TEXT}, b = a;
    char before[96], after[96], safe[200];
    double x, y;
    bn_status status = show(left, before, &a, w->err);
    if (status == BN_OK) status = show(right, after, &b, w->err);
    bool same = a.len == b.len && a.len > 0 && memcmp(a.data, b.data, a.len) == 0;
    bn_buf_release(&a);
    bn_buf_release(&b);
    if (status != BN_OK || same) return status;
    const char *group = group_of(path);
    bool has_ratio =
        strcmp(group, "measurement") == 0 && bn_json_number(left, &x) && bn_json_number(right, &y) && x > 0;
    bn_json *list = (bn_json *)(uintptr_t)bn_json_get(w->document, group);
    bn_json *entry = bn_json_add_object(list);
    bn_json_put_string(entry, "path", bn_escape(safe, sizeof safe, path, strlen(path)));
    bn_json_put_text(entry, "left", before);
    bn_json_put_text(entry, "right", after);
    bn_json_put_number(entry, "ratio", has_ratio ? y / x : (double)NAN);
    w->n_found++;
    return BN_OK;
}

/* Members of the left object, or kernels of its list, then those that only the right one has. Other lists up to their
 * first different elements. */
static bn_status walk(struct walk *w, const char *path, const bn_json *left, const bn_json *right)
{
    enum bn_json_kind kind = bn_json_kind(left);
    bool objects = kind == BN_JSON_OBJECT, named = objects || strcmp(path, "measurement.kernel_stats") == 0;
    size_t before = w->n_found;
    char longer[160];
    if (left == NULL || right == NULL || kind != bn_json_kind(right) || (!objects && kind != BN_JSON_ARRAY))
        return tell(w, path, left, right);
    for (int side = 0; side < 2 && named; side++)
        for (const bn_json *m = bn_json_first(side == 0 ? left : right); m != NULL; m = bn_json_next(m)) {
            const bn_json *in = side == 0 ? right : left;
            const char *name = objects ? bn_json_name(m) : bn_json_text_of(m, "name");
            const bn_json *other = objects ? bn_json_get(in, name) : bn_json_find(in, "name", name);
            snprintf(longer, sizeof longer, "%.90s%s%.60s", path, path[0] == '\0' ? "" : ".", name);
            if (side == 0) BN_TRY(walk(w, longer, m, other));
            if (side == 1 && other == NULL) BN_TRY(walk(w, longer, NULL, m));
        }
    const bn_json *a = named ? NULL : bn_json_first(left), *b = named ? NULL : bn_json_first(right);
    for (size_t i = 0; (a != NULL || b != NULL) && w->n_found == before; i++) {
        snprintf(longer, sizeof longer, "%.140s[%zu]", path, i);
        BN_TRY(tell(w, longer, a, b));
        a = bn_json_next(a);
        b = bn_json_next(b);
    }
    return BN_OK;
}

bn_status bn_receipt_diff(bn_json *document, const struct bn_receipt *left, const struct bn_receipt *right,
                          bn_error *err)
{
    struct walk w = {document, 0, err};
    for (size_t i = 0; i < BN_DIFF_GROUPS; i++)
        bn_json_put_array(document, bn_diff_groups[i]);
    BN_TRY(walk(&w, "", left->predicate, right->predicate));
    bn_json_put_bool(document, "same_result", bn_json_size(bn_json_get(document, "result")) == 0);
    return bn_json_is_complete(document) ? BN_OK : bn_nomem(err);
}
