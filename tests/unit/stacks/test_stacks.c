/* SPDX-License-Identifier: MIT
 *
 * Stacks: merging, limits, hostile names, views against hand-made answers, sorted copies whatever the order
 * of arrival, runs behind runs, and memory that fails at every point.
 */
#include "lab/formats/document.h"
#include "lab/stacks/stacks.h"
#include "tests/unit/stacks/stacks_child.h"
#include "tests/unit/status.h"

#define OK(expr) assert_int_equal((expr), BN_OK)

static bn_stacks *folded(const char *text)
{
    bn_stacks *s = NULL;
    if (attempt(bn_stacks_parse(&s, text, strlen(text), "test", &err)) != BN_OK) fail_msg("%s", err.msg);
    return s;
}

static char *fold(const bn_stacks *s)
{
    struct bn_buf out = {.max = 1u << 20};
    OK(bn_stacks_write(s, BN_STACKS_FOLDED, &out, NULL));
    return out.data;
}

/* The view of a text is another text; both without the line that names the unit. */
static void expect_view(const char *text, const struct bn_stacks_view *view, const char *expected)
{
    bn_stacks *s = folded(text), *v = NULL;
    OK(bn_stacks_copy(&v, s, view, NULL));
    char *got = fold(v);
    assert_string_equal(strchr(got, '\n') + 1, expected);
    bn_free(got);
    bn_stacks_close(v);
    bn_stacks_close(s);
}

static uint32_t push(bn_stacks *s, uint32_t node, enum bn_frame_kind kind, const char *name)
{
    OK(bn_stacks_push_name(s, &node, kind, name, NULL));
    return node;
}

TEST(paths_merge)
{
    bn_stacks *s = NULL;
    OK(bn_stacks_open(&s, "ns", "cpu", NULL));
    assert_int_equal(s->n_nodes, 1);
    assert_int_equal(s->n_runs, 1);
    uint32_t a = push(s, BN_STACKS_ROOT, BN_FRAME_CODE, "a"), b = push(s, a, BN_FRAME_CODE, "b");
    assert_int_equal(push(s, BN_STACKS_ROOT, BN_FRAME_CODE, "a"), a);
    assert_int_equal(push(s, a, BN_FRAME_CODE, "b"), b);
    assert_int_not_equal(push(s, a, BN_FRAME_INLINED, "b"), b);
    assert_int_equal(s->n_frames, 3);
    struct bn_frame elsewhere = {"b", "libm.so", "", 0, BN_FRAME_CODE};
    uint32_t c = a;
    OK(bn_stacks_push(s, &c, &elsewhere, SIZE_MAX, NULL));
    assert_int_not_equal(c, b);
    bn_stacks_add(s, b, 0, 2, 1);
    bn_stacks_add(s, b, 0, 3, 1);
    bn_stacks_add(s, a, 0, 10, 4);
    double totals[5];
    bn_stacks_totals(s, 0, totals);
    assert_true(totals[BN_STACKS_ROOT] == 15 && totals[a] == 15 && totals[b] == 5 && totals[c] == 0);
    assert_true(bn_stacks_count_samples(s) == 6 && bn_stacks_samples(s, b, BN_STACKS_ALL_RUNS) == 2);
    assert_null(bn_stacks_frame(s, BN_STACKS_ROOT));
    assert_string_equal(bn_stacks_frame(s, c)->module, "libm.so");
    bn_stacks_close(s);
}

TEST(children_are_found)
{
    enum { N = 200000 };
    bn_stacks *s = NULL;
    char name[16];
    OK(bn_stacks_open(&s, "ns", "", NULL));
    for (unsigned turn = 0; turn < 2; turn++)
        for (unsigned i = 0; i < N; i += turn == 0 ? 1 : 1999) {
            snprintf(name, sizeof name, "f%u", i);
            assert_int_equal(push(s, i == 0 ? 0 : i / 2, BN_FRAME_CODE, name), i + 1);
        }
    assert_int_equal(s->n_nodes, N + 1);
    bn_stacks_close(s);
}

TEST(names_become_clean)
{
    static const struct {
        const char *given, *kept;
    } CASES[] = {{"plain", "plain"},
                 {"", "[unknown]"},
                 {"a\nb\tc\x7F", "a\xEF\xBF\xBD"
                                 "b\xEF\xBF\xBD"
                                 "c\xEF\xBF\xBD"},
                 {"\xC3\xA4\xFF\xC0\x80x", "\xC3\xA4\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDx"},
                 {"\xC2\x9B!\xC2\xA0", "\xEF\xBF\xBD\xEF\xBF\xBD!\xC2\xA0"}, /* C1; no-break space */
                 {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
                 {"</script>\"&<", "</script>\"&<"}};
    bn_stacks *s = NULL;
    OK(bn_stacks_open(&s, "ns", "", NULL));
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        uint32_t node = push(s, BN_STACKS_ROOT, BN_FRAME_CODE, CASES[i].given);
        assert_string_equal(bn_stacks_frame(s, node)->name, CASES[i].kept);
    }
    uint32_t part = BN_STACKS_ROOT;
    struct bn_frame cut = {"foobar", "", "", 0, BN_FRAME_CODE};
    OK(bn_stacks_push(s, &part, &cut, 3, NULL));
    assert_string_equal(bn_stacks_frame(s, part)->name, "foo");
    /* A long one is cut between characters. */
    char *text = bn_alloc(3 * BN_STACKS_MAX_NAME, 1);
    text[0] = 'x';
    for (size_t i = 1; i + 2 < 3 * BN_STACKS_MAX_NAME; i += 2)
        memcpy(text + i, "\xC3\xA4", 2);
    uint32_t node = push(s, BN_STACKS_ROOT, BN_FRAME_CODE, text);
    assert_int_equal(strlen(bn_stacks_frame(s, node)->name), BN_STACKS_MAX_NAME - 1);
    memset(text, 'y', BN_STACKS_MAX_NAME);
    text[BN_STACKS_MAX_NAME] = '\0';
    node = push(s, BN_STACKS_ROOT, BN_FRAME_CODE, text);
    assert_string_equal(bn_stacks_frame(s, node)->name, text);
    bn_free(text);
    bn_stacks_close(s);
}

TEST(depth_has_an_end)
{
    bn_stacks *s = NULL, *copy = NULL;
    uint32_t node = BN_STACKS_ROOT;
    OK(bn_stacks_open(&s, "ns", "", NULL));
    for (unsigned i = 0; i < BN_STACKS_MAX_DEPTH + 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%u", i);
        OK(bn_stacks_push_name(s, &node, BN_FRAME_CODE, name, NULL));
    }
    assert_int_equal(s->nodes[node].depth, BN_STACKS_MAX_DEPTH);
    assert_string_equal(bn_stacks_frame(s, node)->name, "[deeper]");
    assert_int_equal(s->n_nodes, BN_STACKS_MAX_DEPTH + 1);
    bn_stacks_add(s, node, 0, 7, 1);
    static const struct bn_stacks_view VIEWS[] = {{0}, {.callers = true}};
    for (size_t i = 0; i < BN_ARRAY_LEN(VIEWS); i++) {
        OK(bn_stacks_copy(&copy, s, &VIEWS[i], NULL));
        assert_int_equal(copy->n_nodes, BN_STACKS_MAX_DEPTH + 1);
        assert_true(bn_stacks_self(copy, BN_STACKS_MAX_DEPTH, 0) == 7);
        bn_stacks_close(copy);
    }
    bn_stacks_close(s);
}

TEST(runs_have_a_limit)
{
    bn_stacks *s = NULL;
    OK(bn_stacks_open(&s, "ns", "", NULL));
    uint32_t a = push(s, 0, BN_FRAME_CODE, "a");
    for (size_t r = 1; r < BN_STACKS_MAX_RUNS; r++) {
        OK(bn_stacks_add_run(s, NULL));
        bn_stacks_add(s, a, r, 1, 0);
    }
    refused(bn_stacks_add_run(s, &err), BN_ERR_LIMIT);
    assert_true(bn_stacks_self(s, a, BN_STACKS_ALL_RUNS) == BN_STACKS_MAX_RUNS - 1);
    assert_true(bn_stacks_self(s, a, 0) == 0 && bn_stacks_self(s, a, 9) == 1);
    /* Nodes that come later have all runs too. */
    for (unsigned i = 0; i < 200; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%u", i);
        uint32_t node = push(s, a, BN_FRAME_CODE, name);
        assert_true(bn_stacks_self(s, node, BN_STACKS_MAX_RUNS - 1) == 0);
    }
    bn_stacks_close(s);
}

/* 16 bytes for each: a small document could else ask for gigabytes. */
TEST(nodes_times_runs_have_a_limit)
{
    bn_stacks *s = NULL;
    OK(bn_stacks_open(&s, "ns", "", NULL));
    for (unsigned i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%u", i);
        uint32_t node = push(s, BN_STACKS_ROOT, BN_FRAME_CODE, name), frame = s->nodes[node].frame;
        for (unsigned k = 0; k < 263; k++) {
            uint32_t child = node;
            OK(bn_stacks_push_frame(s, &child, k < i ? k : frame, NULL));
        }
    }
    size_t runs = 1;
    while (attempt(bn_stacks_add_run(s, &err)) == BN_OK)
        runs++;
    assert_int_equal(err.code, BN_ERR_LIMIT);
    assert_int_equal(runs, BN_STACKS_MAX_CELLS / s->n_nodes);
    assert_true(runs < BN_STACKS_MAX_RUNS);
    bn_status status = BN_OK;
    for (uint32_t node = BN_STACKS_ROOT + 1; status == BN_OK; node++) {
        uint32_t child = node;
        status = bn_stacks_push_name(s, &child, BN_FRAME_SYSTEM, "more", NULL);
    }
    assert_int_equal(status, BN_ERR_LIMIT);
    assert_int_equal(s->n_nodes, BN_STACKS_MAX_CELLS / runs);
    bn_stacks_close(s);
}

/* A table that took modules for nothing would need minutes. */
TEST(frames_of_many_modules_are_told_apart)
{
    bn_stacks *s = NULL;
    OK(bn_stacks_open(&s, "ns", "", NULL));
    for (unsigned i = 0; i < 200000; i++) {
        char module[16];
        uint32_t number;
        snprintf(module, sizeof module, "m%u", i);
        struct bn_frame frame = {"f", module, "", 0, BN_FRAME_CODE};
        OK(bn_stacks_intern(s, &number, &frame, SIZE_MAX, NULL));
        assert_int_equal(number, i);
    }
    bn_stacks_close(s);
}

TEST(copies_are_sorted)
{
    static const char *const LINES[] = {"b;y 2\n",       "a;x;z 1.5\n", "a;x 4\n",
                                        "b;y;k_[k] 8\n", "a;[m] 16\n",  "a 32\n"};
    enum { N = BN_ARRAY_LEN(LINES) };
    char *first = NULL;
    unsigned order[N] = {0, 1, 2, 3, 4, 5};
    for (unsigned turn = 0; turn < 100; turn++) {
        char text[256] = "";
        size_t used = 0;
        for (unsigned i = N - 1; i > 0; i--) {
            unsigned k = (turn * 2654435761u >> (i + 3)) % (i + 1), moved = order[i];
            order[i] = order[k];
            order[k] = moved;
        }
        for (unsigned i = 0; i < N; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s", LINES[order[i]]);
        bn_stacks *s = folded(text);
        struct bn_buf out = {.max = 1u << 20};
        OK(bn_stacks_write(s, BN_STACKS_DOCUMENT, &out, NULL));
        bn_stacks_close(s);
        if (first == NULL) {
            first = out.data;
            continue;
        }
        assert_string_equal(out.data, first);
        bn_free(out.data);
    }
    bn_free(first);
}

TEST(places_do_not_hang_on_order)
{
    static const struct bn_frame PLACES[] = {{"f", "", "", 0, BN_FRAME_CODE},
                                             {"f", "", "b.c", 1, BN_FRAME_CODE},
                                             {"f", "", "a.c", 0, BN_FRAME_CODE},
                                             {"f", "", "a.c", 9, BN_FRAME_CODE},
                                             {"f", "", "a.c", 7, BN_FRAME_CODE}};
    enum { N = BN_ARRAY_LEN(PLACES) };
    for (unsigned begin = 0; begin < N; begin++)
        for (unsigned step = 1; step < N; step++) {
            bn_stacks *s = NULL;
            OK(bn_stacks_open(&s, "ns", "", NULL));
            for (unsigned i = 0; i < N; i++) {
                uint32_t node = 0;
                OK(bn_stacks_push(s, &node, &PLACES[(begin + i * step) % N], SIZE_MAX, NULL));
            }
            assert_int_equal(s->n_frames, 3);
            for (size_t i = 0; i < 3; i++)
                assert_int_equal(s->frames[i].line,
                                 s->frames[i].file[0] == 'a' ? 7 : s->frames[i].file[0] == 'b');
            bn_stacks_close(s);
        }
}

TEST(views_keep_what_they_say)
{
    static const char TEXT[] = "main;a;b 1\nmain;a;a;b 2\nmain;c 4\nstart;main;k_[k] 8\nother 16\n";
    expect_view(TEXT, &(struct bn_stacks_view){0},
                "main;a;a;b 2\nmain;a;b 1\nmain;c 4\nother 16\nstart;main;k_[k] 8\n");
    expect_view(TEXT, &(struct bn_stacks_view){.root = "main"},
                "main;a;a;b 2\nmain;a;b 1\nmain;c 4\nmain;k_[k] 8\n");
    expect_view(TEXT, &(struct bn_stacks_view){.root = "a"}, "a;a;b 2\na;b 1\n");
    expect_view(TEXT, &(struct bn_stacks_view){.root = "nowhere"}, "");
    expect_view(TEXT, &(struct bn_stacks_view){.drop = BN_FRAME_BIT(BN_FRAME_SYSTEM)},
                "main;a;a;b 2\nmain;a;b 1\nmain;c 4\nother 16\nstart;main 8\n");
    expect_view(TEXT, &(struct bn_stacks_view){.callers = true},
                "b;a;a;main 2\nb;a;main 1\nc;main 4\nk_[k];main;start 8\nother 16\n");
    expect_view(TEXT, &(struct bn_stacks_view){.callers = true, .root = "a"}, "b;a 1\nb;a;a 2\n");
    expect_view(TEXT, &(struct bn_stacks_view){.drop = BN_FRAME_TAGS | BN_FRAME_FUNCTIONS}, " 31\n");
}

TEST(tags_stay_on_top)
{
    bn_stacks *s = NULL, *v = NULL;
    OK(bn_stacks_open(&s, "ns", "cpu", NULL));
    uint32_t node = push(s, push(s, 0, BN_FRAME_THREAD, "t"), BN_FRAME_PHASE, "decode");
    node = push(s, push(s, node, BN_FRAME_CODE, "outer"), BN_FRAME_CODE, "inner");
    bn_stacks_add(s, node, 0, 3, 1);
    OK(bn_stacks_copy(&v, s, &(struct bn_stacks_view){.callers = true}, NULL));
    char *text = fold(v);
    assert_string_equal(text, "# unit=ns what=cpu\nt;decode;inner;outer 3\n");
    bn_free(text);
    bn_stacks_close(v);
    OK(bn_stacks_copy(&v, s, &(struct bn_stacks_view){.drop = BN_FRAME_BIT(BN_FRAME_THREAD), .root = "outer"},
                      NULL));
    assert_int_equal(v->n_nodes, 3);
    assert_string_equal(v->unit, "ns");
    bn_stacks_close(v);
    bn_stacks_close(s);
}

TEST(modules_can_be_dropped)
{
    bn_stacks *s = NULL, *v = NULL;
    OK(bn_stacks_open(&s, "ns", "cpu", NULL));
    for (unsigned i = 0; i < 2; i++) {
        struct bn_frame f = {"f", i == 0 ? "a.so" : "b.so", "", 0, BN_FRAME_CODE};
        uint32_t node = 0;
        OK(bn_stacks_push(s, &node, &f, SIZE_MAX, NULL));
        bn_stacks_add(s, node, 0, 1 + i, 1);
    }
    assert_int_equal(s->n_nodes, 3);
    OK(bn_stacks_copy(&v, s, &(struct bn_stacks_view){.drop_modules = true}, NULL));
    assert_int_equal(v->n_nodes, 2);
    assert_true(bn_stacks_self(v, 1, 0) == 3);
    bn_stacks_close(v);
    bn_stacks_close(s);
}

TEST(appended_runs_stand_behind)
{
    bn_stacks *a = folded("m;x 1\nm;y 2\n"), *b = folded("m;y 4\nm;z 8\n"), *all = NULL;
    a->measured = folded("brick 5\n");
    b->measured = folded("brick 6\nother 1\n");
    OK(bn_stacks_append(a, b, NULL));
    OK(bn_stacks_append(a, b, NULL));
    assert_int_equal(a->n_runs, 3);
    assert_int_equal(a->measured->n_runs, 3);
    uint32_t m = bn_stacks_child(a, 0, BN_FRAME_CODE, "m"), y = bn_stacks_child(a, m, BN_FRAME_CODE, "y");
    assert_true(bn_stacks_self(a, y, 0) == 2 && bn_stacks_self(a, y, 1) == 4 && bn_stacks_self(a, y, 2) == 4);
    OK(bn_stacks_copy(&all, a, &(struct bn_stacks_view){.merge_runs = true}, NULL));
    assert_int_equal(all->n_runs, 1);
    assert_int_equal(all->measured->n_runs, 1);
    double total[8];
    bn_stacks_totals(all, 0, total);
    assert_true(total[0] == 27);
    bn_stacks_totals(all->measured, 0, total);
    assert_true(total[0] == 19);
    /* What was not measured on both sides was not measured. */
    bn_stacks_close(b->measured);
    b->measured = NULL;
    OK(bn_stacks_append(a, b, NULL));
    assert_null(a->measured);
    memcpy(b->unit, "bytes", 6);
    refused(bn_stacks_append(a, b, &err), BN_ERR_ARG);
    refused(bn_stacks_append(a, a, &err), BN_ERR_ARG);
    bn_stacks_close(all);
    bn_stacks_close(a);
    bn_stacks_close(b);
}

static bn_status everything(bn_error *e)
{
    static const char TEXT[] = "# unit=ns what=cpu\nmain;a;b 1\nmain;a;a;b 2\nmain;c 4\nstart;main;k_[k] 8\n";
    bn_stacks *s = NULL, *more = NULL, *copy = NULL;
    bn_status status = bn_stacks_parse(&s, TEXT, sizeof TEXT - 1, "t", e);
    if (status == BN_OK) status = bn_stacks_parse(&more, TEXT, sizeof TEXT - 1, "t", e);
    if (status == BN_OK) status = bn_stacks_parse(&s->measured, TEXT, sizeof TEXT - 1, "t", e);
    if (status == BN_OK) status = bn_stacks_append(s, more, e);
    if (status == BN_OK) status = bn_stacks_copy(&copy, s, &(struct bn_stacks_view){.root = "main"}, e);
    for (unsigned f = 0; f < BN_STACKS_FORMATS && status == BN_OK; f++) {
        struct bn_buf out = {.max = 1u << 20};
        bn_stacks *back = NULL;
        status = bn_stacks_write(copy, (enum bn_stacks_format)f, &out, e);
        if (status == BN_OK && f <= BN_STACKS_FOLDED)
            status = bn_stacks_parse(&back, out.data, out.len, "t", e);
        bn_stacks_close(back);
        bn_buf_release(&out);
    }
    bn_stacks_close(s);
    bn_stacks_close(more);
    bn_stacks_close(copy);
    return status;
}

TEST(every_allocation_may_fail)
{
    bn_status status;
    SHORT_MEMORY (status) {
        status = attempt(everything(&err));
        assert_int_equal(err.code, status);
    }
}
