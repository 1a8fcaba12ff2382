/* SPDX-License-Identifier: MIT
 *
 * Do samples and measured times agree? Samples are drawn here at random times over made-up events, so they
 * do; then something is wrong with the clock, the bricks or the sampler, and they do not. Seeds are fixed.
 */
#include <math.h>

#include "tests/unit/stacks/brick_maker.h"
#include "tests/unit/status.h"

static const uint32_t TIDS[] = {21, 22};

/* What is wrong with the samples. */
struct fault {
    int64_t shift_ns;           /* their times are off by this */
    double rate;                /* of the clock that tags are found by; 0: right */
    const char *renamed, *into; /* a brick in place of another */
    const char *kernel;         /* a kernel's function runs under another name */
    const char *biased;         /* of this brick every third sample is lost */
    double clumped;             /* share of samples that are the one before, again */
    const char *what;           /* what was sampled; NULL: "wall" */
};

struct views {
    bn_stacks *sampled, *measured;
};

/* The innermost frame of a kind on a path; NULL for none. */
static const char *innermost(const bn_stacks *s, uint32_t node, enum bn_frame_kind kind)
{
    for (; node != BN_STACKS_ROOT; node = s->nodes[node].parent)
        if (bn_stacks_frame(s, node)->kind == kind) return bn_stacks_frame(s, node)->name;
    return NULL;
}

static bool is(const char *name, const char *other)
{
    return name != NULL && other != NULL && strcmp(name, other) == 0;
}

/* Copies a path of tags, one brick renamed. */
static void push_tags(bn_stacks *to, uint32_t *node, const bn_stacks *from, uint32_t at,
                      const struct fault *fault)
{
    if (at == BN_STACKS_ROOT) return;
    push_tags(to, node, from, from->nodes[at].parent, fault);
    const struct bn_frame *f = bn_stacks_frame(from, at);
    const char *name = f->kind == BN_FRAME_BRICK && is(f->name, fault->renamed) ? fault->into : f->name;
    must(bn_stacks_push_name(to, node, f->kind, name, &err));
}

static void take_samples(struct views *v, size_t run, const struct maker *m, bool functions, uint64_t seed,
                         size_t n, const struct fault *fault)
{
    struct bn_clock_pair right[2] = {{1000, 7000000}, {m->now, 7000000 + m->now - 1000}}, wrong[2];
    bn_brick_clock *truth = NULL, *clock = NULL;
    bn_stacks *scratch = NULL;
    uint64_t at = 0, thread = 0;
    memcpy(wrong, right, sizeof wrong);
    if (fault->rate > 0)
        wrong[1].ns = wrong[0].ns + (uint64_t)((double)(wrong[1].ns - wrong[0].ns) * fault->rate);
    must(bn_stacks_open(&scratch, "ns", "wall", &err));
    must(bn_brick_clock_open(&truth, m->prof, TIDS, right, &err));
    must(bn_brick_clock_open(&clock, m->prof, TIDS, wrong, &err));
    for (size_t i = 0; i < n; i++) {
        uint32_t node = BN_STACKS_ROOT, tags = BN_STACKS_ROOT, really = BN_STACKS_ROOT;
        char function[64] = "bn_session_eval";
        bool again = i > 0 && (double)bn_splitmix64_below(&seed, 1000) < 1000 * fault->clumped;
        if (!again) {
            at = 7000000 + bn_splitmix64_below(&seed, m->now - 1000);
            thread = bn_splitmix64_below(&seed, MAKER_THREADS);
        }
        must(bn_brick_clock_push(truth, TIDS[thread], at, scratch, &really, &err));
        uint64_t seen = at + (uint64_t)fault->shift_ns;
        must(bn_brick_clock_push(clock, TIDS[thread], seen, scratch, &tags, &err));
        if (is(innermost(scratch, really, BN_FRAME_BRICK), fault->biased) &&
            bn_splitmix64_below(&seed, 3) == 0)
            continue;
        const char *kernel = innermost(scratch, really, BN_FRAME_SLOT);
        if (kernel != NULL)
            snprintf(function, sizeof function, "bn_%s", is(kernel, fault->kernel) ? "add_ref" : kernel);
        push_tags(v->sampled, &node, scratch, tags, fault);
        if (functions) {
            must(bn_stacks_push_name(v->sampled, &node, BN_FRAME_CODE, "main", &err));
            must(bn_stacks_push_name(v->sampled, &node, BN_FRAME_CODE, function, &err));
        }
        bn_stacks_add(v->sampled, node, run, 1009000, 1);
    }
    bn_brick_clock_close(truth);
    bn_brick_clock_close(clock);
    bn_stacks_close(scratch);
}

static void open_views(struct views *v, const char *what, size_t n_runs)
{
    must(bn_stacks_open(&v->sampled, "ns", what != NULL ? what : "wall", &err));
    must(bn_stacks_open(&v->measured, "ns", "bricks", &err));
    for (size_t r = 1; r < n_runs; r++) {
        must(bn_stacks_add_run(v->sampled, &err));
        must(bn_stacks_add_run(v->measured, &err));
    }
}

static void close_views(struct views *v)
{
    bn_stacks_close(v->sampled);
    bn_stacks_close(v->measured);
}

static void make_views(struct views *v, enum bn_prof_level level, uint64_t seed, size_t n_runs,
                       size_t n_samples, const struct fault *fault)
{
    open_views(v, fault->what, n_runs);
    for (size_t r = 0; r < n_runs; r++) {
        struct maker m;
        maker_open(&m, level, seed * 1000 + r, 40 + (uint32_t)r);
        must(bn_bricks_add(v->measured, r, m.prof, &err));
        take_samples(v, r, &m, level == BN_PROF_KERNEL, seed * 77777 + r, n_samples, fault);
        bn_prof_close(m.prof);
    }
}

static struct bn_agreement agreement_of(const struct views *v)
{
    struct bn_agreement a;
    must(bn_agreement(&a, v->sampled, v->measured, &err));
    return a;
}

static struct bn_agreement make(enum bn_prof_level level, uint64_t seed, size_t n_runs, size_t n_samples,
                                const struct fault *fault)
{
    struct views v;
    make_views(&v, level, seed, n_runs, n_samples, fault);
    struct bn_agreement a = agreement_of(&v);
    close_views(&v);
    return a;
}

static const struct bn_agreement_row *row(const struct bn_agreement *a, enum bn_frame_kind kind,
                                          const char *name)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->rows[i].kind == kind && strcmp(a->rows[i].name, name) == 0) return &a->rows[i];
    fail_msg("no row %s", name);
    return NULL;
}

static const struct fault HONEST = {0};

TEST(honest_samples_agree)
{
    size_t agreed = 0, n = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        size_t runs = 1 + seed % 4;
        struct bn_agreement a =
            make(seed % 2 ? BN_PROF_KERNEL : BN_PROF_BRICK, seed, runs, 3000 / runs, &HONEST);
        assert_string_equal(a.why, "");
        assert_true(a.samples > 500 && a.dispersion >= 1);
        agreed += a.agrees;
        n++;
        bn_agreement_release(&a);
    }
    assert_true(agreed * 100 >= n * 95);
}

TEST(rows_say_what_was_seen)
{
    struct bn_agreement a = make(BN_PROF_KERNEL, 50, 2, 4000, &HONEST);
    double bricks = 0, kernels = 0, sampled = 0;
    for (size_t i = 0; i < a.n; i++) {
        const struct bn_agreement_row *r = &a.rows[i];
        assert_true(r->low <= r->sampled && r->sampled <= r->high);
        *(r->kind == BN_FRAME_BRICK ? &bricks : &kernels) += r->measured;
        if (r->kind == BN_FRAME_BRICK) sampled += r->sampled;
        if (i > 0 && a.rows[i - 1].kind == r->kind) assert_true(a.rows[i - 1].measured >= r->measured);
    }
    assert_true(fabs(bricks - 1) < 1e-9 && fabs(kernels - 1) < 1e-9 && fabs(sampled - 1) < 1e-9);
    assert_string_equal(a.rows[0].name, "UpProjection");
    assert_true(a.both > 1000 && a.other == 0);
    assert_true(row(&a, BN_FRAME_SLOT, "ternary_gemv_ref")->samples > 1000);
    bn_json *doc = bn_json_new_object();
    bool agrees;
    bn_agreement_put(doc, &a);
    assert_true(bn_json_bool(bn_json_path(doc, "agreement.agrees"), &agrees) && agrees);
    assert_int_equal(bn_json_size(bn_json_path(doc, "agreement.rows")), a.n);
    bn_json_free(doc);
    bn_agreement_release(&a);
}

/* Found with every seed. */
static void check_found(enum bn_prof_level level, const struct fault *fault)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct bn_agreement a = make(level, seed, 2, 4000, fault);
        assert_string_equal(a.why, "");
        assert_false(a.agrees);
        bn_agreement_release(&a);
    }
}

TEST(faults_are_found)
{
    check_found(BN_PROF_BRICK, &(struct fault){.renamed = "RmsNorm", .into = "LmHead"});
    check_found(BN_PROF_BRICK, &(struct fault){.renamed = "RmsNorm", .into = "NoSuchBrick"});
    check_found(BN_PROF_BRICK, &(struct fault){.biased = "UpProjection"});
    check_found(BN_PROF_KERNEL, &(struct fault){.biased = "UpProjection"});
    check_found(BN_PROF_KERNEL, &(struct fault){.shift_ns = 1000});
    check_found(BN_PROF_KERNEL, &(struct fault){.shift_ns = -300});
    check_found(BN_PROF_KERNEL, &(struct fault){.rate = 1.001});
    check_found(BN_PROF_KERNEL, &(struct fault){.kernel = "attn_values_ref"});
}

/* Half of the functions that run as "ternary_gemv" are attributed to another kernel by the profiler. */
TEST(kernels_are_held_against_functions)
{
    struct views v;
    make_views(&v, BN_PROF_KERNEL, 3, 1, 6000, &HONEST);
    for (size_t i = 0; i < v.measured->n_frames; i++)
        if (strcmp(v.measured->frames[i].name, "softmax_ref") == 0)
            v.measured->frames[i].name = "softmax_avx2";
    struct bn_agreement a = agreement_of(&v);
    assert_false(a.agrees);
    assert_false(row(&a, BN_FRAME_SLOT, "softmax_avx2")->agrees);
    assert_true(row(&a, BN_FRAME_BRICK, "AttentionSoftmax")->agrees);
    bn_agreement_release(&a);
    close_views(&v);
}

TEST(readings_of_the_clock_are_allowed_for)
{
    struct views v;
    make_views(&v, BN_PROF_KERNEL, 4, 1, 20000, &HONEST);
    /* Softmax looks twice as long as its function: as if that much were its stamps. */
    double own = 0;
    for (uint32_t i = 1; i < v.measured->n_nodes; i++)
        if (is(bn_stacks_frame(v.measured, i)->name, "softmax_ref")) {
            own += bn_stacks_self(v.measured, i, 0);
            bn_stacks_add(v.measured, i, 0, bn_stacks_self(v.measured, i, 0), 0);
        }
    struct bn_agreement a = agreement_of(&v);
    assert_false(row(&a, BN_FRAME_SLOT, "softmax_ref")->agrees);
    bn_agreement_release(&a);
    bn_json *stamps = bn_json_put_object(v.sampled->about, "stamps");
    bn_json_put_number(stamps, "ns_each", own / 100);
    bn_json_put_u64(bn_json_put_object(stamps, "events"), "softmax_ref", 100);
    a = agreement_of(&v);
    const struct bn_agreement_row *r = row(&a, BN_FRAME_SLOT, "softmax_ref");
    assert_true(r->agrees && r->measured_low < 0.6 * r->measured);
    bn_agreement_release(&a);
    close_views(&v);
}

TEST(waits_are_not_compared_with_processor_time)
{
    struct fault cpu = {.what = "cpu", .biased = "BarrierWait"}, wall = {.biased = "BarrierWait"};
    struct bn_agreement a = make(BN_PROF_BRICK, 6, 2, 30000, &cpu);
    assert_true(a.agrees);
    assert_false(row(&a, BN_FRAME_BRICK, "BarrierWait")->compared);
    double sum = 0;
    for (size_t i = 0; i < a.n; i++)
        if (a.rows[i].compared) sum += a.rows[i].measured;
    assert_true(fabs(sum - 1) < 1e-9);
    bn_agreement_release(&a);
    a = make(BN_PROF_BRICK, 6, 2, 30000, &wall);
    assert_false(a.agrees);
    assert_false(row(&a, BN_FRAME_BRICK, "BarrierWait")->agrees);
    bn_agreement_release(&a);
}

/* Samples that come in clumps of ten are worth a tenth: alone they look like faults, runs tell. */
TEST(runs_that_vary_widen_the_intervals)
{
    struct fault clumped = {.clumped = 0.9};
    size_t wider = 0, agreed = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct bn_agreement a = make(BN_PROF_BRICK, seed, 8, 600, &clumped);
        wider += a.dispersion > 4;
        agreed += a.agrees;
        bn_agreement_release(&a);
    }
    assert_int_equal(wider, 60);
    assert_true(agreed >= 51);
}

static void put_scheduling(struct views *v, uint64_t first_ns, uint64_t second_ns)
{
    bn_json *scheduling = bn_json_put_object(v->sampled->about, "scheduling");
    bn_json *cpu = bn_json_put_array(scheduling, "cpu_ns"),
            *waited = bn_json_put_array(scheduling, "waited_ns");
    bn_json_add_u64(cpu, 1000000);
    bn_json_add_u64(cpu, 1000000);
    bn_json_add_u64(waited, first_ns);
    bn_json_add_u64(waited, second_ns);
}

TEST(what_cannot_be_compared_says_why)
{
    struct views v;
    struct bn_agreement a = make(BN_PROF_BRICK, 1, 1, 100, &HONEST);
    assert_false(a.agrees);
    assert_has(a.why, "samples lie in bricks");
    bn_agreement_release(&a);

    make_views(&v, BN_PROF_BRICK, 2, 2, 3000, &HONEST);
    put_scheduling(&v, 1000, 1000);
    a = agreement_of(&v);
    assert_true(a.agrees && a.busy_runs == 0);
    bn_agreement_release(&a);
    put_scheduling(&v, 1000, 50000); /* the other run is enough */
    a = agreement_of(&v);
    assert_true(a.agrees && a.busy_runs == 1 && a.samples < 3000);
    bn_agreement_release(&a);
    put_scheduling(&v, 50000, 60000);
    a = agreement_of(&v);
    assert_false(a.agrees);
    assert_has(a.why, "too busy");
    bn_json *doc = bn_json_new_object();
    bn_agreement_put(doc, &a);
    assert_int_equal(bn_json_kind(bn_json_path(doc, "agreement.agrees")), BN_JSON_NULL);
    assert_non_null(bn_json_path(doc, "agreement.unavailable.agrees"));
    bn_json_free(doc);
    bn_agreement_release(&a);
    close_views(&v);

    open_views(&v, NULL, 1);
    a = agreement_of(&v);
    assert_false(a.agrees);
    assert_string_equal(a.why, "no brick was measured");
    bn_agreement_release(&a);
    close_views(&v);
}
