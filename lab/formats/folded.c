/* SPDX-License-Identifier: MIT
 *
 * Folded stacks: a line for each call path, "outermost;...;innermost weight", as the stackcollapse programs
 * write them. A first line "# unit=ns what=cpu" names the unit of the weights; without it they are called
 * samples, but the number of samples is not known.
 */
#define _GNU_SOURCE /* memrchr */
#include <stdlib.h>

#include "lab/formats/document.h"
#include "lab/kit/order.h"

bool bn_formats_is_word(const char *word, size_t n, bool empty)
{
    static const char OTHERS[] = "-_.";
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)word[i], lower = c | 0x20;
        bool letter = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || strchr(OTHERS, c) == NULL)) return false;
    }
    return n < sizeof((bn_stacks *)NULL)->unit && (n > 0 || empty);
}

/* ---- reading ---- */

struct reading {
    bn_stacks *stacks;
    const char *name;
    size_t line;
    bool counts; /* the unit was said to be samples, so that weights are numbers of them */
    bool begun;  /* a stack was read */
    struct bn_tally tally;
};

static bn_status malformed(const struct reading *r, const char *what, bn_error *err)
{
    return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, r->name, "line %zu %s", r->line, what);
}

static bool ends_with(struct bn_str name, const char *end)
{
    size_t n = strlen(end);
    return name.len > n && memcmp(name.ptr + name.len - n, end, n) == 0;
}

static bn_status push_name(bn_stacks *stacks, uint32_t *node, struct bn_str name, bn_error *err)
{
    struct bn_frame frame = {name.ptr, "", "", 0, BN_FRAME_CODE};
    bool brackets = name.len > 1 && name.ptr[0] == '[' && name.ptr[name.len - 1] == ']';
    if (ends_with(name, "_[k]")) frame.kind = BN_FRAME_SYSTEM;
    if (ends_with(name, "_[i]")) frame.kind = BN_FRAME_INLINED;
    if (frame.kind != BN_FRAME_CODE)
        name.len -= 4;
    else if (brackets || name.len == 0)
        frame.kind = BN_FRAME_UNKNOWN;
    return bn_stacks_push(stacks, node, &frame, name.len, err);
}

/* "# unit=ns what=cpu"; other comments say nothing. */
static bn_status take_comment(struct reading *r, struct bn_str line, bn_error *err)
{
    for (size_t i = 1; i < line.len;) {
        size_t n = 0;
        while (i + n < line.len && line.ptr[i + n] != ' ')
            n++;
        bool unit = n >= 5 && memcmp(line.ptr + i, "unit=", 5) == 0;
        bool what = n >= 5 && memcmp(line.ptr + i, "what=", 5) == 0;
        const char *word = line.ptr + i + 5;
        char *target = unit ? r->stacks->unit : r->stacks->what;
        if ((unit || what) && !bn_formats_is_word(word, n - 5, what))
            return malformed(r, unit ? "has an invalid unit" : "has an invalid name of what was recorded",
                             err);
        bool same = (unit || what) && strlen(target) == n - 5 && memcmp(target, word, n - 5) == 0;
        if (unit && r->begun && !same) return malformed(r, "changes the unit", err);
        if (unit || what) {
            memcpy(target, word, n - 5);
            target[n - 5] = '\0';
        }
        if (unit) r->counts = strcmp(target, "samples") == 0;
        i += n + 1;
    }
    return BN_OK;
}

static bn_status take_line(struct reading *r, struct bn_str line, bn_error *err)
{
    const char *space = memrchr(line.ptr, ' ', line.len), *end = line.ptr + line.len;
    double weight = 0;
    if (space == NULL || !bn_formats_weight((struct bn_str){space + 1, (size_t)(end - space) - 1}, &weight))
        return bn_hint(
            malformed(r, "does not end with a weight", err), err,
            "expected bn.stacks/1, bn.profile/1, perf script, or folded lines as \"main;work 12\"");
    uint32_t node = BN_STACKS_ROOT;
    for (const char *at = line.ptr; at <= space && space > line.ptr;) {
        const char *next = memchr(at, ';', (size_t)(space - at));
        if (next == NULL) next = space;
        BN_TRY(push_name(r->stacks, &node, (struct bn_str){at, (size_t)(next - at)}, err));
        at = next + 1;
    }
    bool whole = weight < 0x1p53 && (double)(uint64_t)weight == weight;
    r->begun = true;
    return bn_formats_add(r->stacks, &r->tally, node, 0, weight, r->counts && whole ? (uint64_t)weight : 0,
                          err);
}

bn_status bn_formats_read_folded(bn_stacks **out, const char *text, size_t n, const char *name, bn_error *err)
{
    struct reading r = {.name = name};
    struct bn_str line;
    BN_TRY(bn_stacks_open(out, "samples", "", err));
    r.stacks = *out;
    bn_json_put_string(r.stacks->about, "format", "folded");
    bn_status status = bn_json_is_complete(r.stacks->about) ? BN_OK : bn_nomem(err);
    for (size_t at = 0; status == BN_OK && bn_formats_line(&line, text, n, &at);) {
        r.line++;
        if (line.len > 0)
            status = line.ptr[0] == '#' ? take_comment(&r, line, err) : take_line(&r, line, err);
    }
    if (status == BN_OK && !r.begun)
        status =
            bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, name, "no stacks found; expected " BN_FORMATS_READ);
    return bn_stacks_keep(out, status);
}

/* ---- writing ---- */

static void write_name(struct bn_buf *out, const struct bn_frame *f)
{
    for (const char *c = f->name; *c != '\0'; c++)
        bn_buf_putc(out, *c == ';' ? ':' : *c);
    if (f->kind == BN_FRAME_SYSTEM) bn_buf_puts(out, "_[k]");
    if (f->kind == BN_FRAME_INLINED) bn_buf_puts(out, "_[i]");
}

/* The path of a node as a line begins: "a;b;c ". */
static void put_path(struct bn_buf *out, const bn_stacks *stacks, uint32_t node)
{
    uint32_t path[BN_STACKS_MAX_DEPTH];
    size_t depth = stacks->nodes[node].depth, begin = out->len;
    for (size_t i = depth; i-- > 0; node = stacks->nodes[node].parent)
        path[i] = node;
    for (size_t i = 0; i < depth; i++) {
        if (i > 0) bn_buf_putc(out, ';');
        write_name(out, bn_stacks_frame(stacks, path[i]));
    }
    /* It would be a comment. */
    if (!out->failed && out->len > begin && out->data[begin] == '#') out->data[begin] = ':';
    bn_buf_putc(out, ' ');
}

/* The lines of a text with n newlines, sorted as bytes; text loses its newlines. */
static bn_status write_sorted(struct bn_buf *out, char *text, size_t n, bn_error *err)
{
    const char **lines = bn_alloc(n, sizeof *lines);
    if (lines == NULL) return bn_nomem(err);
    for (size_t i = 0; i < n; i++) {
        char *end = strchr(text, '\n');
        lines[i] = text;
        *end = '\0';
        text = end + 1;
    }
    qsort(lines, n, sizeof *lines, bn_compare_texts);
    for (size_t i = 0; i < n; i++) {
        bn_buf_puts(out, lines[i]);
        bn_buf_putc(out, '\n');
    }
    bn_free(lines);
    return BN_OK;
}

bn_status bn_formats_write_folded(const bn_stacks *s, struct bn_buf *out, bn_error *err)
{
    struct bn_buf text = {.max = out->max};
    size_t n = 0;
    bn_buf_printf(out, s->what[0] != '\0' ? "# unit=%s what=%s\n" : "# unit=%s\n", s->unit, s->what);
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        double weight = bn_stacks_self(s, i, BN_STACKS_ALL_RUNS);
        if (weight == 0) continue;
        put_path(&text, s, i);
        bn_json_write_number(&text, weight);
        bn_buf_putc(&text, '\n');
        n++;
    }
    bn_status status = bn_buf_check(&text, err);
    if (status == BN_OK) status = write_sorted(out, text.data, n, err);
    bn_buf_release(&text);
    return status;
}
