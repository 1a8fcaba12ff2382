/* SPDX-License-Identifier: MIT
 *
 * bn-bench top without a process: the numbers of rows, differences of snapshots, folding, sorting, and lines
 * that fit into any number of columns.
 */
#include "tests/unit/unit.h"
#include "tools/bench/top/top.h"

static struct bn_top_row list[BN_TOP_ROWS];

/* Two threads, ten passes in one second: three bricks. */
static void make_snapshot(struct bn_live_snapshot *s)
{
    *s = (struct bn_live_snapshot){.head = {.pid = 42,
                                            .level = BN_PROF_BRICK,
                                            .program = "bn-run",
                                            .model = "folder/model.gguf",
                                            .isa = "ref",
                                            .started_ns = 1000000000,
                                            .n_threads = 2},
                                   .read_ns = 2000000000,
                                   .updated_ns = 1900000000};
    s->sums = (struct bn_live_sums){.wall_ns = 900000000,
                                    .n_passes = 10,
                                    .n_tokens = 25,
                                    .n_logits = 10,
                                    .n_measured = 10,
                                    .n_parts = 20,
                                    .passes_ns = 500000000,
                                    .bricks_ns = 200000};
    s->sums.bricks[BN_BRICK_UP_PROJECTION] = (struct bn_brick_stats){
        .count = 40, .inclusive_ns = 40000, .exclusive_ns = 40000, .bytes = 200000, .ops = 800000};
    s->sums.bricks[BN_BRICK_DOWN_PROJECTION] =
        (struct bn_brick_stats){.count = 20, .inclusive_ns = 20000, .exclusive_ns = 20000};
    s->sums.bricks[BN_BRICK_LM_HEAD] =
        (struct bn_brick_stats){.count = 20, .inclusive_ns = 140000, .exclusive_ns = 140000};
}

static void make_top(struct bn_top *top, struct bn_live_snapshot *s)
{
    make_snapshot(s);
    *top = (struct bn_top){.now = s, .rows = {.list = list}, .columns = 79};
    bn_top_window(&top->window, s, NULL);
    bn_top_remake(top);
}

/* The row of this name; an empty one when there is none. */
static const struct bn_top_row *row(const struct bn_top *top, const char *name)
{
    static const struct bn_top_row none;
    for (size_t i = 0; i < top->rows.n; i++)
        if (strcmp(top->rows.list[i].name, name) == 0) return &top->rows.list[i];
    return &none;
}

static void near(double got, double expected)
{
    assert_true(got > expected * (1 - 1e-12) && got < expected * (1 + 1e-12));
}

TEST(rows_have_the_numbers)
{
    struct bn_live_snapshot s;
    struct bn_top top;
    make_top(&top, &s);
    assert_int_equal(top.rows.n, 5); /* Head, LmHead, FFN, UpProjection, DownProjection */
    assert_string_equal(top.rows.list[0].name, "Head");
    const struct bn_top_row *up = row(&top, "UpProjection"), *ffn = row(&top, "FFN");
    near(up->share, 0.2);
    near(up->ns, 2000); /* 40000 ns over 20 parts */
    near(up->count, 40);
    near(up->bytes_per_s, 200000 / 40e-6 * 2); /* of both threads */
    near(up->ops_per_s, 800000 / 40e-6 * 2);
    assert_true(isnan(up->path) && isnan(up->slack_ns) && isnan(up->budget));
    near(ffn->share, 0.3);
    near(ffn->ns, 3000);
    near(ffn->count, 60);
    near(ffn->ops_per_s, up->ops_per_s); /* of the bricks that compute */
    assert_true(isnan(row(&top, "DownProjection")->bytes_per_s));
    assert_string_equal(row(&top, "RmsNorm")->name, ""); /* it did not run */
}

TEST(rows_compare_with_a_budget)
{
    struct bn_live_snapshot s;
    struct bn_top top;
    make_top(&top, &s);
    top.budget = (struct bn_top_budget){.given = true};
    top.budget.ns[BN_BRICK_UP_PROJECTION] = 800; /* now 1000 */
    bn_top_remake(&top);
    near(row(&top, "UpProjection")->budget, 1.25);
    assert_true(isnan(row(&top, "DownProjection")->budget));
}

TEST(windows_are_differences)
{
    struct bn_live_snapshot before, now;
    struct bn_top_window w;
    make_snapshot(&before);
    now = before;
    now.read_ns += 1000000000;
    now.updated_ns += 1000000000;
    now.sums.n_passes += 4;
    now.sums.n_tokens += 4;
    now.sums.passes_ns += 200000000;
    now.sums.bricks[BN_BRICK_LM_HEAD].count += 8;
    now.sums.bricks[BN_BRICK_LM_HEAD].exclusive_ns += 5000;
    now.sums.bricks[BN_BRICK_UP_PROJECTION].exclusive_ns = 7; /* a damaged file: sums cannot fall */
    bn_top_window(&w, &now, &before);
    near(w.seconds, 1);
    assert_int_equal(w.sums.n_passes, 4);
    assert_int_equal(w.sums.bricks[BN_BRICK_LM_HEAD].count, 8);
    assert_int_equal(w.sums.bricks[BN_BRICK_LM_HEAD].exclusive_ns, 5000);
    assert_int_equal(w.sums.bricks[BN_BRICK_UP_PROJECTION].exclusive_ns, 0);
    /* A pass that began before the last refresh. */
    now.sums.passes_ns = before.sums.passes_ns + 3000000000;
    bn_top_window(&w, &now, &before);
    near(w.seconds, 3);
    /* After a rest only the time since the last refresh counts. */
    now = before;
    now.read_ns += 1000000000;
    now.updated_ns += 60000000000;
    bn_top_window(&w, &now, &before);
    near(w.seconds, 1);
    /* The time of a process that has ended stops with its last pass. */
    now = before;
    now.read_ns += 60000000000;
    now.has_ended = true;
    bn_top_window(&w, &now, NULL);
    near(w.seconds, 0.9);
}

TEST(rows_fold_and_sort)
{
    struct bn_live_snapshot s;
    struct bn_top top;
    make_top(&top, &s);
    uint64_t key = row(&top, "FFN")->key;
    bn_top_toggle(&top.view, key);
    bn_top_remake(&top);
    assert_int_equal(top.rows.n, 3);
    assert_true(row(&top, "FFN")->is_folded);
    bn_top_toggle(&top.view, key);
    top.view.sort = BN_TOP_BY_ORDER;
    bn_top_remake(&top);
    assert_int_equal(top.rows.n, 5);
    assert_string_equal(top.rows.list[0].name, "FFN");
    assert_string_equal(top.rows.list[1].name, "UpProjection");
    assert_string_equal(top.rows.list[2].name, "DownProjection");
    /* More keys than there is room for change nothing. */
    for (uint64_t k = 1; k < 2 * BN_TOP_KEYS; k++)
        bn_top_toggle(&top.view, k << 32);
    assert_int_equal(top.view.n_toggled, BN_TOP_KEYS);
}

/* Characters: bytes that do not continue one. */
static size_t characters(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xC0u) != 0x80u;
    return n;
}

TEST(lines_fit)
{
    struct bn_live_snapshot s;
    struct bn_top top;
    struct bn_top_line line;
    make_top(&top, &s);
    top.budget.given = true;
    memset(s.head.model, 'm', sizeof s.head.model - 1);
    s.load = (struct bn_live_load){UINT64_MAX, UINT64_MAX, UINT64_MAX, 0};
    s.sums.dropped = UINT64_MAX;
    snprintf(top.trouble, sizeof top.trouble, "%0200d", 1);
    for (size_t i = 0; i < top.rows.n; i++) { /* numbers that a damaged file may have */
        struct bn_top_row *r = &top.rows.list[i];
        r->ns = i % 2 == 0 ? 1e300 : -1;
        r->count = r->bytes_per_s = r->ops_per_s = r->slack_ns = r->path = r->budget =
            i % 2 == 0 ? 1e300 : 1e-300;
        r->share = i % 2 == 0 ? 1e300 : -1e300;
    }
    for (top.columns = 1; top.columns <= 200; top.columns++) {
        for (size_t i = 0; i < BN_TOP_HEAD_LINES + top.rows.n; i++) {
            bn_top_put_line(&line, &top, i);
            assert_true(characters(line.text) <= top.columns);
        }
        bn_top_put_line(&line, &top, BN_TOP_KEYS_LINE);
        assert_true(characters(line.text) <= top.columns);
    }
}

TEST(lines_are_as_expected)
{
    static const char *const LINES[] = {
        "bn-run 42  running  0:01  model.gguf  ref x2",
        "output 10.0 tok/s  prompt 15.0 tok/s  10.0 passes/s",
        "busy 50.0%  pass 50.0ms, 2.50 tok  waiting 0.0%",
        "",
        "brick (now)             share             time count  GB/s Gop/s   path  slack",
        "- Head                  70.0% ######    7.00us    20     -     -      -      -",
        "  LmHead                70.0% ######    7.00us    20     -     -      -      -",
        "- FFN                   30.0% ###       3.00us    60    10    40      -      -",
        "  UpProjection          20.0% ##        2.00us    40    10    40      -      -",
    };
    struct bn_live_snapshot s;
    struct bn_top top;
    struct bn_top_line line;
    make_top(&top, &s);
    for (size_t i = 0; i < BN_ARRAY_LEN(LINES); i++) {
        bn_top_put_line(&line, &top, i);
        assert_string_equal(line.text, LINES[i]);
    }
}
