/* SPDX-License-Identifier: MIT
 *
 * Stacks by hand, and pictures read back, for the tests of pictures.
 */
#ifndef BN_TESTS_PICTURES_H
#define BN_TESTS_PICTURES_H

#include <math.h>

#include "base/file.h"
#include "lab/formats/document.h"
#include "lab/stacks/svg.h"
#include "tests/unit/status.h"

#define MAX_BYTES (64u << 20)

/* ---- stacks ---- */

static inline void put(bn_stacks *s, const char *path, enum bn_frame_kind last, double weight,
                       uint64_t samples)
{
    uint32_t node = BN_STACKS_ROOT;
    while (*path != '\0') {
        size_t n = strcspn(path, ";");
        struct bn_frame f = {path, "libx.so", "x.c", 7, path[n] == '\0' ? last : BN_FRAME_CODE};
        if (path[0] == '@') f = (struct bn_frame){path, "", "", 0, BN_FRAME_LAYER};
        must(bn_stacks_push(s, &node, &f, n, NULL));
        path += n + (path[n] == ';');
    }
    bn_stacks_add(s, node, 0, weight, samples);
}

static inline bn_stacks *open_stacks(const char *unit)
{
    bn_stacks *s = NULL;
    must(bn_stacks_open(&s, unit, "cpu", NULL));
    return s;
}

static inline bn_stacks *sort_stacks(bn_stacks *s)
{
    struct bn_stacks_view view = {0};
    bn_stacks *out = NULL;
    must(bn_stacks_copy(&out, s, &view, NULL));
    bn_stacks_close(s);
    return out;
}

/* Sampled, with a tag, weights of every size, and names that are nearly markup. */
static inline bn_stacks *make_sampled(void)
{
    bn_stacks *s = open_stacks("ns");
    put(s, "@layer 3;run;linear;bn_ternary_gemv_avx2", BN_FRAME_CODE, 3.2e9, 3200);
    put(s, "@layer 3;run;linear", BN_FRAME_CODE, 12125, 1);
    put(s, "@layer 3;run;bn_quantize_avx2", BN_FRAME_INLINED, 4.1e8, 410);
    put(s, "@layer 3;run;<b>&\"'</b>", BN_FRAME_CODE, 2.5e8, 250);
    put(s, "@layer 3;run;\xE6\xBC\xA2\xE5\xAD\x97;malloc", BN_FRAME_CODE, 9.7e7, 97);
    put(s, "@layer 4;run;linear;bn_ternary_gemv_avx2", BN_FRAME_CODE, 7.77e8, 777);
    put(s, "main;do_syscall_64", BN_FRAME_SYSTEM, 1e6, 1);
    put(s, "main", BN_FRAME_CODE, 999, 0);
    return sort_stacks(s);
}

static inline void draw(struct bn_buf *out, const bn_stacks *s, const struct bn_svg_options *options)
{
    *out = (struct bn_buf){.max = MAX_BYTES};
    if (attempt(bn_svg(out, s, NULL, options, &err)) != BN_OK) fail_msg("%s", err.msg);
}

/* ---- reading pictures ---- */

struct rect {
    long long x, y, width, height; /* hundredths of a px */
    char title[200];
};

static inline long long number(const char *tag, const char *name)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, " %s=\"", name);
    const char *at = strstr(tag, wanted);
    assert_non_null(at);
    return llround(strtod(at + strlen(wanted), NULL) * 100);
}

/* The boxes as they are drawn without the script. */
static inline size_t read_boxes(struct rect *out, size_t room, const char *svg)
{
    size_t n = 0;
    for (const char *at = strstr(svg, "<g class=\"boxes\">"); (at = strstr(at, "<title>")) != NULL; at++) {
        const char *tag = strstr(at, "<rect");
        assert_non_null(tag);
        assert_true(n < room);
        out[n] = (struct rect){number(tag, "x"), number(tag, "y"), number(tag, "width"),
                               number(tag, "height"), ""};
        snprintf(out[n].title, sizeof out[n].title, "%.*s", (int)strcspn(at + 7, "\n"), at + 7);
        n++;
    }
    return n;
}

static inline bn_json *read_data(const char *svg)
{
    const char *from = strstr(svg, "id=\"data\">"), *to = NULL;
    assert_non_null(from);
    from += strlen("id=\"data\">");
    to = strstr(from, "</script>");
    assert_non_null(to);
    bn_json *data = NULL;
    if (attempt(bn_json_parse(&data, from, (size_t)(to - from), &err)) != BN_OK) fail_msg("%s", err.msg);
    return data;
}

static inline size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

/* ---- layout ---- */

/* Every box but the root's lies on one box of the level below, and those on it are not wider than it. */
static inline void check_nesting(const struct rect *boxes, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        size_t parents = 0;
        for (size_t k = 0; k < n; k++) {
            if (boxes[k].y != boxes[i].y + boxes[i].height) continue;
            if (boxes[i].x >= boxes[k].x && boxes[i].x + boxes[i].width <= boxes[k].x + boxes[k].width)
                parents++;
            long long on = 0;
            for (size_t j = 0; j < n; j++)
                if (boxes[j].y == boxes[i].y && boxes[j].x >= boxes[k].x &&
                    boxes[j].x + boxes[j].width <= boxes[k].x + boxes[k].width)
                    on += boxes[j].width;
            assert_true(on <= boxes[k].width);
        }
        assert_int_equal(parents, 1);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (boxes[i].y == boxes[k].y)
                assert_true(boxes[i].x >= boxes[k].x + boxes[k].width ||
                            boxes[k].x >= boxes[i].x + boxes[i].width);
}

/* ---- comparisons ---- */

struct compared {
    const char *path;
    double before, after; /* shares of the node itself */
    bool significant;
};
static const struct compared COMPARED[] = {{"main;same", 0.40, 0.41, false},
                                           {"main;more", 0.10, 0.19, true},
                                           {"main;less", 0.30, 0.27, true},
                                           {"main;gone;deep", 0.20, 0, true},
                                           {"main;new", 0, 0.13, true}};

static inline struct bn_stacks_diff make_diff(void)
{
    bn_stacks *s = open_stacks("ns");
    for (size_t i = 0; i < BN_ARRAY_LEN(COMPARED); i++)
        put(s, COMPARED[i].path, BN_FRAME_CODE, 1, 0);
    struct bn_stacks_diff d = {.tree = sort_stacks(s), .weight = {2e9, 3e9}, .method = "by hand"};
    size_t n = d.tree->n_nodes;
    d.paths = bn_alloc(n, sizeof *d.paths);
    for (uint32_t i = 0; i < n; i++) {
        const struct bn_frame *f = bn_stacks_frame(d.tree, i);
        d.paths[i] = (struct bn_diff_value){.q = (double)NAN, .low = (double)NAN, .high = (double)NAN};
        for (size_t k = 0; f != NULL && k < BN_ARRAY_LEN(COMPARED); k++)
            if (strcmp(strrchr(COMPARED[k].path, ';') + 1, f->name) == 0)
                d.paths[i] = (struct bn_diff_value){.before = COMPARED[k].before,
                                                    .after = COMPARED[k].after,
                                                    .low = -0.01,
                                                    .high = 0.0311,
                                                    .p = 0.01,
                                                    .q = 0.0123,
                                                    .significant = COMPARED[k].significant};
    }
    for (size_t i = n; i-- > 1;) {
        struct bn_diff_value *up = &d.paths[d.tree->nodes[i].parent];
        up->before += d.paths[i].before;
        up->after += d.paths[i].after;
    }
    return d;
}

static inline void draw_diff(struct bn_buf *out, const struct bn_stacks_diff *d)
{
    struct bn_svg_options o = {0};
    *out = (struct bn_buf){.max = MAX_BYTES};
    o.width = 1020;
    o.title = "Before and after";
    if (attempt(bn_svg(out, d->tree, d, &o, &err)) != BN_OK) fail_msg("%s", err.msg);
}

/* -1: there is no such box. */
static inline long long width_of(const struct rect *boxes, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(boxes[i].title, name) == 0) return boxes[i].width;
    return -1;
}

/* The class of the box of a name. */
static inline int look_of(const char *svg, const char *name)
{
    char title[64];
    snprintf(title, sizeof title, "<title>%s\n", name);
    const char *at = strstr(svg, title);
    assert_non_null(at);
    return (int)strtol(strstr(at, "class=\"b") + strlen("class=\"b"), NULL, 10);
}

#endif
