/* SPDX-License-Identifier: MIT
 *
 * Formats of stacks: what is written is read back as the same, every writer's total is the stacks' total
 * exactly, texts of others are understood, and broken ones are refused with their place.
 */
#include "lab/formats/document.h"
#include "tests/unit/stacks/stacks_text.h"
static void expect_round_trip(const bn_stacks *s, enum bn_stacks_format format)
{
    struct bn_buf once = written(s, format), twice;
    bn_stacks *back = NULL;
    OK(bn_stacks_parse(&back, once.data, once.len, "test", NULL));
    twice = written(back, format);
    assert_string_equal(once.data, twice.data);
    assert_true(fabs(whole_of(back) - whole_of(s)) < 1e-3);
    bn_stacks_close(back);
    bn_buf_release(&once);
    bn_buf_release(&twice);
}

TEST(what_is_written_is_read)
{
    bn_stacks *s = specimen();
    s->measured = specimen();
    expect_round_trip(s, BN_STACKS_DOCUMENT);
    expect_round_trip(s, BN_STACKS_FOLDED);
    bn_stacks_close(s);
    s = parse("# unit=faults what=faults\na;b 3\n 2\n");
    expect_round_trip(s, BN_STACKS_DOCUMENT);
    expect_round_trip(s, BN_STACKS_FOLDED);
    bn_stacks_close(s);
}

TEST(documents_keep_everything)
{
    bn_stacks *s = specimen(), *back = NULL, *sorted = NULL;
    s->measured = specimen();
    OK(bn_stacks_copy(&sorted, s, &(struct bn_stacks_view){0}, NULL));
    struct bn_buf out = written(s, BN_STACKS_DOCUMENT);
    OK(bn_stacks_parse(&back, out.data, out.len, "test", NULL));
    assert_string_equal(back->unit, "ns");
    assert_string_equal(back->what, "cpu");
    assert_int_equal(back->n_nodes, sorted->n_nodes);
    assert_int_equal(back->n_runs, 2);
    for (uint32_t i = 0; i < sorted->n_nodes; i++) {
        const struct bn_frame *f = bn_stacks_frame(sorted, i), *g = bn_stacks_frame(back, i);
        for (size_t r = 0; r < 2; r++) {
            assert_true(bn_stacks_self(back, i, r) == bn_stacks_self(sorted, i, r));
            assert_true(bn_stacks_samples(back, i, r) == bn_stacks_samples(sorted, i, r));
        }
        if (f == NULL) continue;
        assert_int_equal(f->kind, g->kind);
        assert_string_equal(f->name, g->name);
        assert_string_equal(f->module, g->module);
        assert_string_equal(f->file, g->file);
        assert_int_equal(f->line, g->line);
    }
    const char *note = "";
    assert_true(bn_json_string(bn_json_get(back->about, "note"), &note));
    assert_string_equal(note, "a specimen");
    assert_non_null(back->measured);
    assert_true(whole_of(back->measured) == whole_of(sorted->measured));
    bn_stacks_close(s);
    bn_stacks_close(back);
    bn_stacks_close(sorted);
    bn_buf_release(&out);
}

TEST(large_documents_are_refused)
{
    bn_stacks *s = NULL;
    struct bn_buf out = {.max = 1u << 26};
    OK(bn_stacks_open(&s, "ns", "cpu", NULL));
    for (unsigned i = 0; i < 240000; i++) {
        char name[16];
        uint32_t node = BN_STACKS_ROOT;
        snprintf(name, sizeof name, "%u", i);
        OK(bn_stacks_push_name(s, &node, BN_FRAME_CODE, name, NULL));
        bn_stacks_add(s, node, 0, 1, 1);
    }
    refused(bn_stacks_write(s, BN_STACKS_DOCUMENT, &out, &err), BN_ERR_LIMIT);
    assert_has(err.msg, "240001 call paths");
    assert_has(err.hint, "folded");
    bn_buf_release(&out);
    bn_stacks_close(s);
}

static bn_json *json_of(const bn_stacks *s, enum bn_stacks_format format)
{
    struct bn_buf out = written(s, format);
    bn_json *root = NULL;
    OK(bn_json_parse(&root, out.data, out.len, NULL));
    bn_buf_release(&out);
    return root;
}

static const char WEIGHTS[] =
    "# unit=ns what=cpu\nmain;a;b 1000003\nmain;a 7\nmain;c;k_[k] 123456789\nother 1\n";
#define WEIGHTS_TOTAL 124456800.0

TEST(chrome_has_the_total)
{
    bn_stacks *s = parse(WEIGHTS), *more = parse(WEIGHTS);
    OK(bn_stacks_append(s, more, NULL));
    bn_json *root = json_of(s, BN_STACKS_CHROME);
    double all = 0, end[3] = {0};
    for (const bn_json *e = bn_json_first(bn_json_get(root, "traceEvents")); e != NULL; e = bn_json_next(e)) {
        double ts, dur, tid;
        const char *name = "";
        if (!bn_json_number(bn_json_get(e, "dur"), &dur)) continue;
        assert_true(bn_json_number(bn_json_get(e, "ts"), &ts) && bn_json_number(bn_json_get(e, "tid"), &tid));
        assert_true(bn_json_string(bn_json_get(e, "name"), &name));
        if (strcmp(name, "all") == 0) all += dur, end[(int)tid] = ts + dur;
        assert_true(ts >= 0 && ts + dur <= end[(int)tid] + 1e-6);
    }
    assert_true(all * 1000 == 2 * WEIGHTS_TOTAL);
    bn_json_free(root);
    bn_stacks_close(s);
    bn_stacks_close(more);
}

/* ---- pprof: protocol buffers, read by other code than what wrote them ---- */

struct bytes {
    const unsigned char *at;
    size_t n;
};

static uint64_t varint(struct bytes *b)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        assert_true(b->n > 0);
        value |= (uint64_t)(*b->at & 0x7F) << shift;
        b->n--;
        if ((*b->at++ & 0x80) == 0) return value;
    }
    fail();
    return 0;
}

/* The next field: its number, and its value or its bytes. */
static unsigned field(struct bytes *b, uint64_t *value, struct bytes *inner)
{
    uint64_t key = varint(b), n;
    *inner = (struct bytes){0};
    *value = 0;
    if ((key & 7) == 0) {
        *value = varint(b);
        return (unsigned)(key >> 3);
    }
    assert_int_equal(key & 7, 2);
    n = varint(b);
    assert_true(n <= b->n);
    *inner = (struct bytes){b->at, (size_t)n};
    b->at += n;
    b->n -= (size_t)n;
    return (unsigned)(key >> 3);
}

struct pprof {
    uint64_t totals[2];
    size_t n_types, n_samples, n_locations, n_functions, n_mappings, n_strings;
    char strings[128][64]; /* their beginnings */
};

static void read_pprof(struct pprof *p, struct bytes b)
{
    *p = (struct pprof){0};
    while (b.n > 0) {
        uint64_t value;
        struct bytes inner, list;
        unsigned which = field(&b, &value, &inner);
        p->n_types += which == 1;
        p->n_mappings += which == 3;
        p->n_locations += which == 4;
        p->n_functions += which == 5;
        if (which == 2) p->n_samples++;
        while (which == 2 && inner.n > 0) {
            unsigned part = field(&inner, &value, &list);
            for (size_t i = 0; list.n > 0; i++) {
                uint64_t v = varint(&list);
                if (part == 2) p->totals[i] += v;
                if (part == 1) assert_true(v >= 1 && v <= 64);
            }
        }
        if (which != 6) continue;
        assert_true(p->n_strings < 128);
        if (inner.n > 0) memcpy(p->strings[p->n_strings], inner.at, inner.n < 63 ? inner.n : 63);
        p->n_strings++;
    }
}

TEST(pprof_has_the_total)
{
    struct pprof p;
    bn_stacks *s = specimen();
    struct bn_buf out = written(s, BN_STACKS_PPROF);
    read_pprof(&p, (struct bytes){(const unsigned char *)out.data, out.len});
    assert_int_equal(p.n_types, 2);
    assert_int_equal(p.totals[0], 1011);
    assert_true(p.totals[1] == (uint64_t)llround(whole_of(s)));
    assert_int_equal(p.n_samples, 4);
    assert_int_equal(p.n_functions, p.n_locations);
    assert_int_equal(p.n_mappings, 3);
    assert_string_equal(p.strings[0], "");
    bn_buf_release(&out);
    bn_stacks_close(s);
}

TEST(fractions_keep_their_sum)
{
    bn_stacks *s = parse("a 0.4\nb 0.4\nc 0.4\nd 0.4\ne 0.4\n"); /* each rounds to nothing, all to 2 */
    uint64_t weights[8], sum = 0;
    assert_true(s->n_nodes <= BN_ARRAY_LEN(weights));
    OK(bn_formats_whole(s, weights, NULL));
    for (size_t i = 0; i < s->n_nodes; i++)
        sum += weights[i];
    assert_int_equal(sum, 2);
    bn_stacks_close(s);
}

static const struct bn_hotspot *spot(const struct bn_hotspots *h, const char *name)
{
    for (size_t i = 0; i < h->n; i++)
        if (strcmp(h->list[i].frame->name, name) == 0) return &h->list[i];
    fail_msg("no %s", name);
    return NULL;
}

TEST(recursion_counts_once)
{
    bn_stacks *s = parse("# unit=samples\nmain;f;f;g;f 3\nmain;f 4\nmain;g 2\nmain 1\n");
    struct bn_hotspots h;
    OK(bn_hotspots(&h, s, NULL));
    assert_int_equal(h.n, 3);
    assert_true(h.whole == 10 && h.samples == 10);
    assert_string_equal(h.list[0].frame->name, "f");
    const struct bn_hotspot *f = spot(&h, "f"), *g = spot(&h, "g"), *m = spot(&h, "main");
    assert_true(f->self == 7 && f->total == 7 && f->self_samples == 7 && f->total_samples == 7);
    assert_true(g->self == 2 && g->total == 5 && g->total_samples == 5);
    assert_true(m->self == 1 && m->total == 10 && m->total_samples == 10);
    /* Wilson's interval of 7 in 10: z = 1.959964. */
    assert_true(fabs(f->self_share.estimate - 0.7) < 1e-12);
    assert_true(fabs(f->self_share.low - 0.396775) < 1e-5 && fabs(f->self_share.high - 0.892209) < 1e-5);
    bn_hotspots_release(&h);
    bn_stacks_close(s);
}

TEST(measured_shares_come_from_runs)
{
    bn_stacks *s = parse("# unit=ns\nf 10\ng 90\n"), *b = parse("# unit=ns\nf 20\ng 80\n"),
              *c = parse("# unit=ns\nf 30\ng 70\n");
    struct bn_hotspots h;
    OK(bn_hotspots(&h, s, NULL));
    assert_true(h.samples == 0 && isnan(spot(&h, "f")->self_share.low));
    assert_true(fabs(spot(&h, "f")->self_share.estimate - 0.1) < 1e-12);
    bn_hotspots_release(&h);
    OK(bn_stacks_append(s, b, NULL));
    OK(bn_stacks_append(s, c, NULL));
    OK(bn_hotspots(&h, s, NULL));
    /* Mean 0.2, standard deviation 0.1, t(0.975; 2) = 4.302653: 0.248414 to each side. */
    assert_true(fabs(spot(&h, "f")->self_share.estimate - 0.2) < 1e-12);
    assert_true(fabs(spot(&h, "f")->self_share.low + 0.0484138) < 1e-6);
    assert_true(fabs(spot(&h, "f")->self_share.high - 0.4484138) < 1e-6);
    bn_hotspots_release(&h);
    bn_stacks_close(s);
    bn_stacks_close(b);
    bn_stacks_close(c);
}

TEST(a_name_says_its_format)
{
    static const struct {
        const char *name;
        enum bn_stacks_format format;
    } NAMES[] = {{"a.json", BN_STACKS_DOCUMENT},     {"a.speedscope.json", BN_STACKS_SPEEDSCOPE},
                 {"a.trace.json", BN_STACKS_CHROME}, {"a.pb", BN_STACKS_PPROF},
                 {"a.folded", BN_STACKS_FOLDED},     {"a.svg", BN_STACKS_SVG},
                 {"a.txt", BN_STACKS_TEXT},          {".json", BN_STACKS_NO_FORMAT},
                 {"a.gz", BN_STACKS_NO_FORMAT},      {"svg", BN_STACKS_NO_FORMAT},
                 {"", BN_STACKS_NO_FORMAT}};
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++)
        assert_int_equal(bn_stacks_format_by_name(NAMES[i].name), NAMES[i].format);
    assert_string_equal(bn_stacks_format_name(BN_STACKS_TEXT), "text");
}
