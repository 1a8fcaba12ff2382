/* SPDX-License-Identifier: MIT
 *
 * lab/stacks/svg: the boxes nest and add up, the data are JSON that says the same, no name becomes markup, the
 * same stacks are the same bytes, and what cannot be drawn is refused. With the name of a folder it writes
 * pictures there instead, which tests/cli/flame_svg.sh opens in a browser.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "lab/formats/document.h"
#include "lab/stacks/svg.h"

#define MAX_BYTES (64u << 20)

/* ---- stacks ---- */

static void put(bn_stacks *s, const char *path, enum bn_frame_kind last, double weight, uint64_t samples)
{
    uint32_t node = BN_STACKS_ROOT;
    while (*path != '\0') {
        size_t n = strcspn(path, ";");
        struct bn_frame f = {path, "libx.so", "x.c", 7, path[n] == '\0' ? last : BN_FRAME_CODE};
        if (path[0] == '@') f = (struct bn_frame){path, "", "", 0, BN_FRAME_LAYER};
        assert_int_equal(bn_stacks_push(s, &node, &f, n, NULL), BN_OK);
        path += n + (path[n] == ';');
    }
    bn_stacks_add(s, node, 0, weight, samples);
}

static bn_stacks *open_stacks(const char *unit)
{
    bn_stacks *s = NULL;
    assert_int_equal(bn_stacks_open(&s, unit, "cpu", NULL), BN_OK);
    return s;
}

static bn_stacks *sort_stacks(bn_stacks *s)
{
    struct bn_stacks_view view = {0};
    bn_stacks *out = NULL;
    assert_int_equal(bn_stacks_copy(&out, s, &view, NULL), BN_OK);
    bn_stacks_close(s);
    return out;
}

/* Sampled, with a tag, weights of every size, and names that are nearly markup. */
static bn_stacks *make_sampled(void)
{
    bn_stacks *s = open_stacks("ns");
    put(s, "@layer 3;run;linear;bn_i2s_gemv_avx2", BN_FRAME_CODE, 3.2e9, 3200);
    put(s, "@layer 3;run;linear", BN_FRAME_CODE, 12125, 1);
    put(s, "@layer 3;run;bn_quantize_avx2", BN_FRAME_INLINED, 4.1e8, 410);
    put(s, "@layer 3;run;<b>&\"'</b>", BN_FRAME_CODE, 2.5e8, 250);
    put(s, "@layer 3;run;\xE6\xBC\xA2\xE5\xAD\x97;malloc", BN_FRAME_CODE, 9.7e7, 97);
    put(s, "@layer 4;run;linear;bn_i2s_gemv_avx2", BN_FRAME_CODE, 7.77e8, 777);
    put(s, "main;do_syscall_64", BN_FRAME_SYSTEM, 1e6, 1);
    put(s, "main", BN_FRAME_CODE, 999, 0);
    return sort_stacks(s);
}

static void draw(struct bn_buf *out, const bn_stacks *s, const struct bn_svg_options *options)
{
    bn_error err = {0};
    *out = (struct bn_buf){.max = MAX_BYTES};
    if (bn_svg(out, s, options, &err) != BN_OK) fail_msg("%s", err.msg);
}

/* ---- reading pictures ---- */

struct rect {
    long long x, y, width, height; /* hundredths of a px */
    char title[200];
};

static long long number(const char *tag, const char *name)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, " %s=\"", name);
    const char *at = strstr(tag, wanted);
    assert_non_null(at);
    return llround(strtod(at + strlen(wanted), NULL) * 100);
}

/* The boxes as they are drawn without the script. */
static size_t read_boxes(struct rect *out, size_t room, const char *svg)
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

static bn_json *read_data(const char *svg)
{
    const char *from = strstr(svg, "id=\"data\">"), *to = NULL;
    assert_non_null(from);
    from += strlen("id=\"data\">");
    to = strstr(from, "</script>");
    assert_non_null(to);
    bn_json *data = NULL;
    bn_error err = {0};
    if (bn_json_parse(&data, from, (size_t)(to - from), &err) != BN_OK) fail_msg("%s", err.msg);
    return data;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

/* ---- layout ---- */

/* Every box but the root's lies on one box of the level below, and those on it are not wider than it. */
static void check_nesting(const struct rect *boxes, size_t n, bool icicle)
{
    for (size_t i = 1; i < n; i++) {
        size_t parents = 0;
        for (size_t k = 0; k < n; k++) {
            if (boxes[k].y != boxes[i].y + (icicle ? -1 : 1) * boxes[i].height) continue;
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

static void boxes_nest_and_are_as_wide_as_their_weight(void **state)
{
    (void)state;
    bn_stacks *s = make_sampled();
    double *totals = bn_alloc(s->n_nodes, sizeof *totals);
    bn_stacks_totals(s, BN_STACKS_ALL_RUNS, totals);
    for (int icicle = 0; icicle < 2; icicle++)
        for (int width = 150; width < 3000; width += 977) {
            struct bn_svg_options o = BN_SVG_OPTIONS_INIT;
            struct bn_buf svg;
            struct rect boxes[64];
            o.icicle = icicle;
            o.width = width;
            o.min_width = 0;
            draw(&svg, s, &o);
            size_t n = read_boxes(boxes, 64, svg.data);
            check_nesting(boxes, n, icicle);
            assert_int_equal(boxes[0].width, width * 100 - 2000);
            /* All whose width does not vanish are there, in the order of the tree. */
            size_t k = 0;
            for (uint32_t i = 0; i < s->n_nodes; i++) {
                double want = (width * 100 - 2000) * totals[i] / totals[0];
                if (want < 0.49) continue;
                if (k < n && fabs((double)boxes[k].width - want) <= 1.01) k++;
            }
            assert_int_equal(k, n);
            bn_buf_release(&svg);
        }
    bn_free(totals);
    bn_stacks_close(s);
}

/* What is too narrow is not drawn, and is in the data. */
static void narrow_frames_are_in_the_data(void **state)
{
    (void)state;
    bn_stacks *s = open_stacks("samples");
    put(s, "main;wide", BN_FRAME_CODE, 1e6, 0);
    put(s, "main;narrow;narrower", BN_FRAME_CODE, 1, 0);
    s = sort_stacks(s);
    struct bn_svg_options o = BN_SVG_OPTIONS_INIT;
    struct bn_buf svg;
    struct rect boxes[8];
    draw(&svg, s, &o);
    assert_int_equal(read_boxes(boxes, 8, svg.data), 3);
    assert_null(strstr(svg.data, "<title>narrow"));
    bn_json *data = read_data(svg.data);
    assert_int_equal(bn_json_size(bn_json_get(data, "self")), 5);
    assert_non_null(strstr(strstr(svg.data, "id=\"data\""), "\"narrower\""));
    bn_json_free(data);
    bn_buf_release(&svg);
    o.min_width = 0.0;
    o.width = 20000;
    draw(&svg, s, &o);
    assert_int_equal(read_boxes(boxes, 8, svg.data), 5);
    bn_buf_release(&svg);
    bn_stacks_close(s);
}

/* The data have every node once: walked, they give the same totals. */
static void data_are_the_tree(void **state)
{
    (void)state;
    bn_stacks *s = make_sampled();
    struct bn_svg_options o = BN_SVG_OPTIONS_INIT;
    struct bn_buf svg;
    draw(&svg, s, &o);
    bn_json *data = read_data(svg.data);
    static const char *const LISTS[] = {"depth", "frame", "look", "self", "samples"};
    for (size_t i = 0; i < BN_ARRAY_LEN(LISTS); i++)
        assert_int_equal(bn_json_size(bn_json_get(data, LISTS[i])), s->n_nodes);
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        double self = -1, samples = -1;
        uint64_t depth = 0, frame = 0;
        const char *name = NULL;
        assert_true(bn_json_u64(bn_json_at(bn_json_get(data, "depth"), i), &depth));
        assert_true(bn_json_u64(bn_json_at(bn_json_get(data, "frame"), i), &frame));
        assert_true(bn_json_number(bn_json_at(bn_json_get(data, "self"), i), &self));
        assert_true(bn_json_number(bn_json_at(bn_json_get(data, "samples"), i), &samples));
        assert_true(bn_json_string(bn_json_at(bn_json_at(bn_json_get(data, "frames"), frame), 0), &name));
        assert_int_equal(depth, s->nodes[i].depth);
        assert_string_equal(name, bn_stacks_frame(s, i)->name);
        assert_true(self == bn_stacks_self(s, i, BN_STACKS_ALL_RUNS));
        assert_true((uint64_t)samples == bn_stacks_samples(s, i, BN_STACKS_ALL_RUNS));
    }
    bn_json_free(data);
    bn_buf_release(&svg);
    bn_stacks_close(s);
}

static void tooltips_say_what_was_seen(void **state)
{
    (void)state;
    bn_stacks *s = make_sampled();
    struct bn_svg_options o = BN_SVG_OPTIONS_INIT;
    struct bn_buf svg;
    o.min_width = 0;
    draw(&svg, s, &o);
    static const char *const SAID[] = {
        "<title>all\ntotal 4.735 s, 100.00 % (95 %: 99.92 % to 100.00 %), 4736 samples\nself 0 ns, 0.00 %",
        "<title>bn_i2s_gemv_avx2\nlibx.so, x.c:7\ntotal 3.200 s, 67.58 % (95 %: 66.23 % to 68.90 %), 3200 ",
        "self 12.13 us, &lt; 0.01 %",
        "<title>&lt;b&gt;&amp;&quot;&#39;&lt;/b&gt;\nlibx.so, x.c:7\ntotal 250.0 ms",
        "<g class=\"tag\"><title>@layer 3\n",
        ">matrix multiplication 83.99 %</text>"};
    for (size_t i = 0; i < BN_ARRAY_LEN(SAID); i++)
        if (strstr(svg.data, SAID[i]) == NULL) fail_msg("no %s in %s", SAID[i], strstr(svg.data, "<g id"));
    bn_buf_release(&svg);
    o.count_name = "ticks";
    draw(&svg, s, &o);
    assert_non_null(strstr(svg.data, "total 250000000 ticks, 5.28 %"));
    bn_buf_release(&svg);
    bn_stacks_close(s);
}

static void same_stacks_are_the_same_bytes(void **state)
{
    (void)state;
    bn_stacks *s = make_sampled(), *t = make_sampled();
    struct bn_svg_options o = BN_SVG_OPTIONS_INIT;
    struct bn_buf a, b, c;
    draw(&a, s, &o);
    draw(&b, t, &o);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    o.palette = BN_PALETTE_SAFE;
    draw(&c, s, &o);
    assert_true(a.len != c.len || memcmp(a.data, c.data, a.len) != 0);
    bn_buf_release(&a);
    bn_buf_release(&b);
    bn_buf_release(&c);
    bn_stacks_close(s);
    bn_stacks_close(t);
}

/* ---- hostile input ---- */

static const char *const HOSTILE[] = {"</script>\"&<]]>",
                                      "--><script>window.pwned=1</script>",
                                      "]]]]><![CDATA[>",
                                      "' onload='x' \"",
                                      "\\u003c/script\\u003e\\",
                                      "a\xE2\x80\xAE!\xE2\x80\xAC\xE2\x81\xA6",
                                      "\xEF\xBF\xBE\xEF\xBB\xBF",
                                      "\xF0\x9F\x92\xA9",
                                      "&amp;&#60;&lt;",
                                      "__proto__",
                                      "constructor",
                                      "%s%n%1000000d"};

static bn_stacks *make_hostile(void)
{
    char long_name[4001];
    bn_stacks *s = open_stacks("samples");
    memset(long_name, '<', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    put(s, long_name, BN_FRAME_CODE, 3, 0);
    for (size_t i = 0; i < BN_ARRAY_LEN(HOSTILE); i++) {
        uint32_t node = BN_STACKS_ROOT;
        struct bn_frame f = {HOSTILE[i], HOSTILE[i], HOSTILE[i], 1, BN_FRAME_CODE};
        for (int k = 0; k < 3; k++)
            assert_int_equal(bn_stacks_push(s, &node, &f, SIZE_MAX, NULL), BN_OK);
        bn_stacks_add(s, node, 0, 10 + (double)i, 0);
        bn_json_put_string(s->about, HOSTILE[i], HOSTILE[i]);
    }
    return sort_stacks(s);
}

static struct bn_svg_options hostile_options(void)
{
    struct bn_svg_options o = BN_SVG_OPTIONS_INIT;
    o.title = HOSTILE[0];
    o.subtitle = HOSTILE[1];
    o.notes = HOSTILE[2];
    o.search = HOSTILE[0];
    o.count_name = HOSTILE[3];
    return o;
}

static void no_name_becomes_markup(void **state)
{
    (void)state;
    bn_stacks *s = make_hostile();
    struct bn_svg_options o = hostile_options();
    struct bn_buf svg;
    for (int cut = 0; cut < 2; cut++) {
        o.cut_left = cut;
        draw(&svg, s, &o);
        assert_int_equal(strlen(svg.data), svg.len);
        assert_int_equal(count(svg.data, "<script"), 2);
        assert_int_equal(count(svg.data, "</script>"), 2);
        assert_int_equal(count(svg.data, "]]>"), 2); /* of the style and of the script */
        assert_int_equal(count(svg.data, "<![CDATA["), 2);
        assert_int_equal(count(svg.data, "\xE2\x80\xAE"), 0);
        bn_json *data = read_data(svg.data); /* names as they were, or as boxes show them */
        const char *search = NULL;
        assert_true(bn_json_string(bn_json_get(data, "search"), &search));
        assert_string_equal(search, HOSTILE[0]);
        bn_json_free(data);
        const char *from = strstr(svg.data, "<metadata>") + strlen("<metadata>"),
                   *to = strstr(from, "</metadata>");
        bn_json *about = NULL;
        assert_int_equal(bn_json_parse(&about, from, (size_t)(to - from), NULL), BN_OK);
        for (size_t i = 0; i < BN_ARRAY_LEN(HOSTILE); i++) {
            const char *value = NULL;
            assert_true(bn_json_string(bn_json_get(about, HOSTILE[i]), &value));
            assert_string_equal(value, HOSTILE[i]);
        }
        bn_json_free(about);
        bn_buf_release(&svg);
    }
    bn_stacks_close(s);
}

static void refuse(bn_stacks *s, bn_status want)
{
    struct bn_svg_options o = BN_SVG_OPTIONS_INIT;
    struct bn_buf svg = {.max = MAX_BYTES};
    bn_error err = {0};
    assert_int_equal(bn_svg(&svg, s, &o, &err), want);
    assert_true(err.msg[0] != '\0');
    assert_int_equal(svg.len, 0);
    bn_buf_release(&svg);
    bn_stacks_close(s);
}

static void nothing_to_draw_is_an_error(void **state)
{
    (void)state;
    refuse(open_stacks("ns"), BN_ERR_FORMAT);
    bn_stacks *s = open_stacks("ns");
    put(s, "a;b", BN_FRAME_CODE, 0, 0);
    refuse(s, BN_ERR_FORMAT);
    s = open_stacks("ns");
    put(s, "a;b", BN_FRAME_CODE, (double)NAN, 0);
    refuse(s, BN_ERR_FORMAT);
    s = open_stacks("ns");
    put(s, "a;b", BN_FRAME_CODE, (double)INFINITY, 0);
    refuse(s, BN_ERR_FORMAT);
    s = open_stacks("ns");
    put(s, "a;b", BN_FRAME_CODE, 3, 0);
    put(s, "a;c", BN_FRAME_CODE, -1, 0);
    refuse(s, BN_ERR_FORMAT);
    s = open_stacks("ns");
    put(s, "a;b", BN_FRAME_CODE, 3, 0);
    put(s, "c", BN_FRAME_CODE, 3, 0);
    put(s, "a;d", BN_FRAME_CODE, 3, 0); /* behind c: not in depth-first order */
    refuse(s, BN_ERR_ARG);
}

static void short_memory_is_an_error(void **state)
{
    (void)state;
    bn_stacks *s = make_sampled();
    struct bn_svg_options o = BN_SVG_OPTIONS_INIT;
    bn_status status = BN_ERR_NOMEM;
    uint64_t before = bn_mem_stats().bytes_now;
    for (uint64_t n = 1; status != BN_OK && n < 10000; n++) {
        struct bn_buf svg = {.max = MAX_BYTES};
        bn_mem_fail_after(n);
        status = bn_svg(&svg, s, &o, NULL);
        bn_mem_fail_after(0);
        assert_true(status == BN_OK || status == BN_ERR_NOMEM);
        bn_buf_release(&svg);
        assert_int_equal(bn_mem_stats().bytes_now, before);
    }
    assert_int_equal(status, BN_OK);
    struct bn_buf little = {.max = 10000};
    assert_int_equal(bn_svg(&little, s, &o, NULL), BN_ERR_LIMIT);
    bn_buf_release(&little);
    bn_stacks_close(s);
}

/* A large tree stays a file that opens at once. */
static void large_trees_are_small_files(void **state)
{
    (void)state;
    bn_stacks *s = open_stacks("ns");
    uint32_t seed = 1;
    while (s->n_nodes < 20000) {
        char path[200];
        size_t n = 0;
        for (unsigned d = 0; d < 12; d++) {
            seed = seed * 1664525u + 1013904223u;
            n += (size_t)snprintf(path + n, sizeof path - n, "%sfunction_%u", d > 0 ? ";" : "",
                                  (seed >> 24) % 6);
        }
        put(s, path, BN_FRAME_CODE, 1000000 + seed % 1000000, 1);
    }
    s = sort_stacks(s);
    struct bn_svg_options o = BN_SVG_OPTIONS_INIT;
    struct bn_buf svg;
    draw(&svg, s, &o);
    assert_true(svg.len < 1500000);
    struct rect *boxes = bn_alloc(4000, sizeof *boxes);
    size_t n = read_boxes(boxes, 4000, svg.data);
    assert_in_range(n, 500, 2000);
    bn_free(boxes);
    bn_buf_release(&svg);
    bn_stacks_close(s);
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

static struct bn_stacks_diff make_diff(void)
{
    bn_stacks *s = open_stacks("ns");
    for (size_t i = 0; i < BN_ARRAY_LEN(COMPARED); i++)
        put(s, COMPARED[i].path, BN_FRAME_CODE, 1, 0);
    struct bn_stacks_diff d = {
        .tree = sort_stacks(s), .whole = {.before = 2e9, .after = 3e9}, .method = "by hand"};
    size_t n = d.tree->n_nodes;
    d.self = bn_alloc(n, sizeof *d.self);
    d.total = bn_alloc(n, sizeof *d.total);
    for (uint32_t i = 0; i < n; i++) {
        const struct bn_frame *f = bn_stacks_frame(d.tree, i);
        d.self[i].share.q = d.self[i].share.low = d.self[i].share.high = (double)NAN;
        for (size_t k = 0; f != NULL && k < BN_ARRAY_LEN(COMPARED); k++)
            if (strcmp(strrchr(COMPARED[k].path, ';') + 1, f->name) == 0) {
                struct bn_diff_value v = {.before = COMPARED[k].before,
                                          .after = COMPARED[k].after,
                                          .low = -0.01,
                                          .high = 0.0311,
                                          .p = 0.01,
                                          .q = 0.0123,
                                          .significant = COMPARED[k].significant};
                d.self[i].share = v;
            }
        d.total[i] = d.self[i];
    }
    for (size_t i = n; i-- > 1;) {
        struct bn_diff_value *up = &d.total[d.tree->nodes[i].parent].share;
        up->before += d.total[i].share.before;
        up->after += d.total[i].share.after;
    }
    return d;
}

static void free_diff(struct bn_stacks_diff *d)
{
    bn_stacks_close(d->tree);
    bn_free(d->self);
    bn_free(d->total);
}

static void draw_diff(struct bn_buf *out, const struct bn_stacks_diff *d, enum bn_svg_widths widths)
{
    struct bn_svg_options o = BN_SVG_OPTIONS_INIT;
    bn_error err = {0};
    *out = (struct bn_buf){.max = MAX_BYTES};
    o.widths = widths;
    o.width = 1020;
    o.title = "Before and after";
    if (bn_svg_diff(out, d, &o, &err) != BN_OK) fail_msg("%s", err.msg);
}

/* -1: there is no such box. */
static long long width_of(const struct rect *boxes, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(boxes[i].title, name) == 0) return boxes[i].width;
    return -1;
}

/* The class of the box of a name. */
static int look_of(const char *svg, const char *name)
{
    char title[64];
    snprintf(title, sizeof title, "<title>%s\n", name);
    const char *at = strstr(svg, title);
    assert_non_null(at);
    return (int)strtol(strstr(at, "class=\"b") + strlen("class=\"b"), NULL, 10);
}

static void comparisons_have_widths_and_colours(void **state)
{
    (void)state;
    struct bn_stacks_diff d = make_diff();
    struct bn_buf svg;
    struct rect boxes[16];
    draw_diff(&svg, &d, BN_SVG_UNION);
    size_t n = read_boxes(boxes, 16, svg.data);
    check_nesting(boxes, n, false);
    assert_int_equal(n, 8);
    assert_int_equal(width_of(boxes, n, "gone"), 10000); /* half of 20 % of 1000 px */
    assert_int_equal(width_of(boxes, n, "new"), 6500);
    assert_int_equal(look_of(svg.data, "same"), 5);  /* not significant */
    assert_int_equal(look_of(svg.data, "more"), 10); /* 9 points */
    assert_int_equal(look_of(svg.data, "less"), 1);  /* 3 points */
    assert_int_equal(look_of(svg.data, "gone"), 11); /* hatched, in the colour of what was not significant */
    assert_int_equal(look_of(svg.data, "deep"), 16); /* hatched, 20 points */
    assert_int_equal(look_of(svg.data, "new"), 10);
    static const char *const SAID[] = {
        "<title>more\nlibx.so, x.c:7\nbefore 10.00 % (200.0 ms), after 19.00 % (570.0 ms)\n",
        "\ndifference +9.00 points (95 %: -1.00 to +3.11), q = 0.012\nself: before 10.00 %, after 19.00 %<",
        "q = 0.012, not significant",
        "\ngone: only before<",
        "\nnew: only after<",
        "pattern id=\"gone16\"",
        "#gone16 rect{fill:#5e9fee}", /* as -5 points are */
        ".b0{fill:#5e9fee;"};
    for (size_t i = 0; i < BN_ARRAY_LEN(SAID); i++)
        if (strstr(svg.data, SAID[i]) == NULL) fail_msg("no %s in %s", SAID[i], strstr(svg.data, "<g id"));
    bn_json_free(read_data(svg.data));
    bn_buf_release(&svg);
    draw_diff(&svg, &d, BN_SVG_BEFORE);
    n = read_boxes(boxes, 16, svg.data);
    assert_int_equal(width_of(boxes, n, "gone"), 20000);
    assert_int_equal(width_of(boxes, n, "new"), -1);
    bn_buf_release(&svg);
    draw_diff(&svg, &d, BN_SVG_AFTER);
    n = read_boxes(boxes, 16, svg.data);
    assert_int_equal(width_of(boxes, n, "gone"), llround(100000 * 0.2 / 1.2)); /* beside all that is after */
    assert_int_equal(width_of(boxes, n, "new"), llround(100000 * 0.13 / 1.2));
    bn_buf_release(&svg);
    free_diff(&d);
}

/* ---- turned pictures ---- */

static struct bn_buf legend_of(const bn_stacks *s, const struct bn_svg_options *o)
{
    struct bn_buf svg, text = {.max = MAX_BYTES};
    draw(&svg, s, o);
    bn_json *data = read_data(svg.data);
    assert_int_equal(bn_json_write(bn_json_get(data, "legend"), true, &text, NULL), BN_OK);
    bn_json_free(data);
    bn_buf_release(&svg);
    return text;
}

/* Callers or callees, with tags or without: the same was running. */
static void a_turned_picture_has_the_same_legend(void **state)
{
    (void)state;
    for (int tags = 0; tags < 2; tags++) {
        struct bn_stacks_view view = {.callers = true, .drop = tags ? 0 : BN_FRAME_TAGS};
        struct bn_svg_options o = BN_SVG_OPTIONS_INIT;
        bn_stacks *s = open_stacks("ns"), *turned = NULL;
        put(s, "@layer 3;run;bn_i2s_gemv_avx2", BN_FRAME_CODE, 500, 5);
        put(s, "@layer 3;run;bn_i2s_gemv_avx2;part", BN_FRAME_INLINED, 200, 2);
        put(s, "@layer 3;run;bn_quantize_avx2;part", BN_FRAME_INLINED, 100, 1);
        put(s, "@layer 4;run", BN_FRAME_CODE, 50, 1);
        put(s, "@layer 4", BN_FRAME_CODE, 50, 1);
        put(s, "@layer 4;run;malloc;page_fault", BN_FRAME_SYSTEM, 100, 1);
        s = sort_stacks(s);
        assert_int_equal(bn_stacks_copy(&turned, s, &view, NULL), BN_OK);
        view.callers = false;
        bn_stacks *straight = NULL;
        assert_int_equal(bn_stacks_copy(&straight, s, &view, NULL), BN_OK);
        struct bn_buf want = legend_of(straight, &o), wrong = legend_of(turned, &o);
        o.callers = true;
        struct bn_buf is = legend_of(turned, &o);
        assert_non_null(strstr(want.data, "matrix multiplication 70.00 %"));
        assert_non_null(strstr(want.data, "memory 0 %")); /* it stands above the fault */
        assert_string_equal(is.data, want.data);
        assert_string_not_equal(wrong.data, want.data);
        bn_buf_release(&want);
        bn_buf_release(&wrong);
        bn_buf_release(&is);
        bn_stacks_close(straight);
        bn_stacks_close(turned);
        bn_stacks_close(s);
    }
}

/* ---- pictures for a browser ---- */

static int save(const char *folder, const char *name, struct bn_buf *svg)
{
    char path[1000];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int failed = bn_file_write_atomic(path, svg->data, svg->len, NULL) != BN_OK;
    bn_buf_release(svg);
    return failed;
}

static int write_pictures(const char *folder)
{
    struct bn_svg_options o = BN_SVG_OPTIONS_INIT, h = hostile_options();
    struct bn_buf svg;
    bn_stacks *s = make_sampled();
    struct bn_stacks_diff d = make_diff();
    o.title = "Sampled";
    o.width = 900;
    draw(&svg, s, &o);
    int failed = save(folder, "sampled.svg", &svg);
    bn_stacks_close(s);
    s = make_hostile();
    h.width = 900;
    draw(&svg, s, &h);
    failed |= save(folder, "hostile.svg", &svg);
    bn_stacks_close(s);
    draw_diff(&svg, &d, BN_SVG_UNION);
    failed |= save(folder, "diff.svg", &svg);
    free_diff(&d);
    return failed;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_nest_and_are_as_wide_as_their_weight),
        cmocka_unit_test(narrow_frames_are_in_the_data),
        cmocka_unit_test(data_are_the_tree),
        cmocka_unit_test(tooltips_say_what_was_seen),
        cmocka_unit_test(same_stacks_are_the_same_bytes),
        cmocka_unit_test(no_name_becomes_markup),
        cmocka_unit_test(nothing_to_draw_is_an_error),
        cmocka_unit_test(short_memory_is_an_error),
        cmocka_unit_test(large_trees_are_small_files),
        cmocka_unit_test(comparisons_have_widths_and_colours),
        cmocka_unit_test(a_turned_picture_has_the_same_legend),
    };
    if (argc == 2) return write_pictures(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
