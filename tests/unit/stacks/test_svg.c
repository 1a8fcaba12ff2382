/* SPDX-License-Identifier: MIT
 *
 * lab/stacks/svg: the boxes nest and add up, the data are JSON that says the same, no name becomes markup,
 * the same stacks are the same bytes, and what cannot be drawn is refused. With the name of a folder it
 * writes pictures there instead, which tests/cli/flame_svg.sh opens in a browser.
 */
#include "tests/unit/stacks/pictures.h"
TEST(boxes_nest_and_are_as_wide_as_their_weight)
{
    bn_stacks *s = make_sampled();
    double *totals = bn_alloc(s->n_nodes, sizeof *totals);
    bn_stacks_totals(s, BN_STACKS_ALL_RUNS, totals);
    for (int width = 150; width < 3000; width += 977) {
        struct bn_svg_options o = {0};
        struct bn_buf svg;
        struct rect boxes[64];
        o.width = width;
        o.all = true;
        draw(&svg, s, &o);
        size_t n = read_boxes(boxes, 64, svg.data);
        check_nesting(boxes, n);
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
TEST(narrow_frames_are_in_the_data)
{
    bn_stacks *s = open_stacks("samples");
    put(s, "main;wide", BN_FRAME_CODE, 1e6, 0);
    put(s, "main;narrow;narrower", BN_FRAME_CODE, 1, 0);
    s = sort_stacks(s);
    struct bn_svg_options o = {0};
    struct bn_buf svg;
    struct rect boxes[8];
    draw(&svg, s, &o);
    assert_int_equal(read_boxes(boxes, 8, svg.data), 3);
    assert_null(strstr(svg.data, "<title>narrow"));
    bn_json *data = read_data(svg.data);
    assert_int_equal(bn_json_size(bn_json_get(data, "self")), 5);
    assert_has(strstr(svg.data, "id=\"data\""), "\"narrower\"");
    bn_json_free(data);
    bn_buf_release(&svg);
    o.all = true;
    o.width = 20000;
    draw(&svg, s, &o);
    assert_int_equal(read_boxes(boxes, 8, svg.data), 5);
    bn_buf_release(&svg);
    bn_stacks_close(s);
}

/* The data have every node once: walked, they give the same totals. */
TEST(data_are_the_tree)
{
    bn_stacks *s = make_sampled();
    struct bn_svg_options o = {0};
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

TEST(tooltips_say_what_was_seen)
{
    bn_stacks *s = make_sampled();
    struct bn_svg_options o = {0};
    struct bn_buf svg;
    o.all = true;
    draw(&svg, s, &o);
    static const char *const SAID[] = {
        "<title>all\ntotal 4.735 s, 100.00 %\nself 0 ns, 0.00 %",
        "<title>bn_ternary_gemv_avx2\nlibx.so, x.c:7\ntotal 3.200 s, 67.58 %",
        "self 12.12 us, &lt; 0.01 %",
        "<title>&lt;b&gt;&amp;&quot;&#39;&lt;/b&gt;\nlibx.so, x.c:7\ntotal 250 ms",
        "<g class=\"tag\"><title>@layer 3\n",
        ">matrix multiplication 83.99 %</text>"};
    for (size_t i = 0; i < BN_ARRAY_LEN(SAID); i++)
        if (strstr(svg.data, SAID[i]) == NULL) fail_msg("no %s in %s", SAID[i], strstr(svg.data, "<g id"));
    bn_buf_release(&svg);
    bn_stacks_close(s);
}

TEST(same_stacks_are_the_same_bytes)
{
    bn_stacks *s = make_sampled(), *t = make_sampled();
    struct bn_svg_options o = {0};
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
            must(bn_stacks_push(s, &node, &f, SIZE_MAX, NULL));
        bn_stacks_add(s, node, 0, 10 + (double)i, 0);
        bn_json_put_string(s->about, HOSTILE[i], HOSTILE[i]);
    }
    return sort_stacks(s);
}

static struct bn_svg_options hostile_options(void)
{
    struct bn_svg_options o = {0};
    o.title = HOSTILE[0];
    o.subtitle = HOSTILE[1];
    o.notes = HOSTILE[2];
    return o;
}

TEST(no_name_becomes_markup)
{
    bn_stacks *s = make_hostile();
    struct bn_svg_options o = hostile_options();
    struct bn_buf svg;
    draw(&svg, s, &o);
    assert_int_equal(strlen(svg.data), svg.len);
    assert_int_equal(count(svg.data, "<script"), 2);
    assert_int_equal(count(svg.data, "</script>"), 2);
    assert_int_equal(count(svg.data, "]]>"), 2); /* of the style and of the script */
    assert_int_equal(count(svg.data, "<![CDATA["), 2);
    assert_int_equal(count(svg.data, "\xE2\x80\xAE"), 0);
    bn_json *data = read_data(svg.data); /* names as they were, or as boxes show them */
    assert_string_equal(bn_json_text_of(data, "title"), HOSTILE[0]);
    bn_json_free(data);
    assert_has(svg.data, "<metadata>{&quot;");
    bn_buf_release(&svg);
    bn_stacks_close(s);
}

static void refuse(bn_stacks *s, bn_status want)
{
    struct bn_svg_options o = {0};
    struct bn_buf svg = {.max = MAX_BYTES};
    refused(bn_svg(&svg, s, NULL, &o, &err), want);
    assert_true(err.msg[0] != '\0');
    assert_int_equal(svg.len, 0);
    bn_buf_release(&svg);
    bn_stacks_close(s);
}

TEST(nothing_to_draw_is_an_error)
{
    const double weights[] = {0, (double)NAN, (double)INFINITY};
    refuse(open_stacks("ns"), BN_ERR_FORMAT);
    for (size_t i = 0; i < BN_ARRAY_LEN(weights); i++) {
        bn_stacks *s = open_stacks("ns");
        put(s, "a;b", BN_FRAME_CODE, weights[i], 0);
        refuse(s, BN_ERR_FORMAT);
    }
    for (int sorted = 0; sorted < 2; sorted++) { /* a negative weight; not in depth-first order */
        bn_stacks *s = open_stacks("ns");
        put(s, "a;b", BN_FRAME_CODE, 3, 0);
        if (!sorted) put(s, "c", BN_FRAME_CODE, 3, 0);
        put(s, "a;d", BN_FRAME_CODE, sorted ? -1 : 3, 0);
        refuse(s, sorted ? BN_ERR_FORMAT : BN_ERR_ARG);
    }
}

TEST(short_memory_is_an_error)
{
    bn_stacks *s = make_sampled();
    struct bn_svg_options o = {0};
    bn_status status;
    SHORT_MEMORY (status) {
        struct bn_buf svg = {.max = MAX_BYTES};
        status = bn_svg(&svg, s, NULL, &o, NULL);
        bn_buf_release(&svg);
    }
    struct bn_buf little = {.max = 10000};
    refused(bn_svg(&little, s, NULL, &o, NULL), BN_ERR_LIMIT);
    bn_buf_release(&little);
    bn_stacks_close(s);
}

/* A large tree stays a file that opens at once. */
TEST(large_trees_are_small_files)
{
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
    struct bn_svg_options o = {0};
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

static struct bn_buf legend_of(const bn_stacks *s, const struct bn_svg_options *o)
{
    struct bn_buf svg, text = {.max = MAX_BYTES};
    draw(&svg, s, o);
    bn_json *data = read_data(svg.data);
    must(bn_json_write(bn_json_get(data, "legend"), true, &text, NULL));
    bn_json_free(data);
    bn_buf_release(&svg);
    return text;
}

/* Callers or callees, with tags or without: the same was running. */
TEST(a_turned_picture_has_the_same_legend)
{
    for (int tags = 0; tags < 2; tags++) {
        struct bn_stacks_view view = {.callers = true, .drop = tags ? 0 : BN_FRAME_TAGS};
        struct bn_svg_options o = {0};
        bn_stacks *s = open_stacks("ns"), *turned = NULL;
        put(s, "@layer 3;run;bn_ternary_gemv_avx2", BN_FRAME_CODE, 500, 5);
        put(s, "@layer 3;run;bn_ternary_gemv_avx2;part", BN_FRAME_INLINED, 200, 2);
        put(s, "@layer 3;run;bn_quantize_avx2;part", BN_FRAME_INLINED, 100, 1);
        put(s, "@layer 4;run", BN_FRAME_CODE, 50, 1);
        put(s, "@layer 4", BN_FRAME_CODE, 50, 1);
        put(s, "@layer 4;run;malloc;page_fault", BN_FRAME_SYSTEM, 100, 1);
        s = sort_stacks(s);
        must(bn_stacks_copy(&turned, s, &view, NULL));
        view.callers = false;
        bn_stacks *straight = NULL;
        must(bn_stacks_copy(&straight, s, &view, NULL));
        struct bn_buf want = legend_of(straight, &o), wrong = legend_of(turned, &o);
        o.callers = true;
        struct bn_buf is = legend_of(turned, &o);
        assert_has(want.data, "matrix multiplication 70.00 %");
        assert_has(want.data, "memory 0.00 %"); /* it stands above the fault */
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

TEST(comparisons_have_widths_and_colours)
{
    struct bn_stacks_diff d = make_diff();
    struct bn_buf svg;
    struct rect boxes[16];
    draw_diff(&svg, &d);
    size_t n = read_boxes(boxes, 16, svg.data);
    check_nesting(boxes, n);
    assert_int_equal(n, 8);
    assert_int_equal(width_of(boxes, n, "gone"), 10000); /* half of 20 % of 1000 px */
    assert_int_equal(width_of(boxes, n, "new"), 6500);
    assert_int_equal(look_of(svg.data, "same"), 5);  /* not significant */
    assert_int_equal(look_of(svg.data, "more"), 10); /* 9 points */
    assert_int_equal(look_of(svg.data, "less"), 1);  /* 3 points */
    assert_int_equal(look_of(svg.data, "gone"), 11); /* dashed, in the colour of what was not significant */
    assert_int_equal(look_of(svg.data, "deep"), 16); /* dashed, 20 points */
    assert_int_equal(look_of(svg.data, "new"), 10);
    static const char *const SAID[] = {
        "<title>more\nlibx.so, x.c:7\nbefore 10.00 %, after 19.00 %<",
        ".b16{fill:#5e9fee;background:#5e9fee;stroke:var(--on)", /* as -5 points are */
        ".b0{fill:#5e9fee;"};
    for (size_t i = 0; i < BN_ARRAY_LEN(SAID); i++)
        if (strstr(svg.data, SAID[i]) == NULL) fail_msg("no %s in %s", SAID[i], strstr(svg.data, "<g id"));
    bn_json_free(read_data(svg.data));
    bn_buf_release(&svg);
    bn_stacks_diff_release(&d);
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
    struct bn_svg_options o = {0}, h = hostile_options();
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
    draw_diff(&svg, &d);
    failed |= save(folder, "diff.svg", &svg);
    bn_stacks_diff_release(&d);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc == 2) return write_pictures(argv[1]);
    return unit_run();
}
