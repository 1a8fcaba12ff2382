/* SPDX-License-Identifier: MIT
 *
 * lab/formats: folded text and perf script are read; malformed files are refused.
 */
#include "tests/unit/stacks/stacks_text.h"

TEST(folded_text_is_read)
{
    bn_stacks *s =
        parse("# unit=ns what=cpu\r\n# anything\r\na;b c 1.5\r\n\r\na;b c 2e3\r\nx_[k];y_[i];[z] 4");
    assert_string_equal(s->unit, "ns");
    assert_true(whole_of(s) == 2005.5);
    expect_folded(s, "# unit=ns what=cpu\na;b c 2001.5\nx_[k];y_[i];[z] 4\n");
    uint32_t x = bn_stacks_child(s, 0, BN_FRAME_SYSTEM, "x"),
             y = bn_stacks_child(s, x, BN_FRAME_INLINED, "y");
    assert_int_not_equal(bn_stacks_child(s, y, BN_FRAME_UNKNOWN, "[z]"), BN_STACKS_NONE);
    assert_int_equal(bn_stacks_samples(s, 2, 0), 0);
    bn_stacks_close(s);
    s = parse("# unit=samples\na 3\n");
    assert_int_equal(bn_stacks_samples(s, 1, 0), 3);
    bn_stacks_close(s);
    s = parse("a 3\n"); /* nobody said that these are samples */
    assert_string_equal(s->unit, "samples");
    assert_int_equal(bn_stacks_samples(s, 1, 0), 0);
    bn_stacks_close(s);
    s = parse("{{closure}};x 3\n[unknown];;y 1\n");
    expect_folded(s, "# unit=samples\n[unknown];[unknown];y 1\n{{closure}};x 3\n");
    bn_stacks_close(s);
}

static void refuse(const char *text, bn_status want, const char *said)
{
    bn_stacks *s = NULL;
    bn_status got = attempt(bn_stacks_parse(&s, text, strlen(text), "file", &err));
    if (got != want || strstr(err.msg, said) == NULL)
        fail_msg("%d, not %d; or '%s' is not in '%s': %.60s", got, want, said, err.msg, text);
    assert_null(s);
    assert_has(err.where, "file");
}

TEST(broken_text_is_refused)
{
    refuse("", BN_ERR_FORMAT, "empty; expected folded stacks, perf script output or JSON");
    refuse("# unit=ns\n", BN_ERR_FORMAT, "no stacks found; expected folded stacks");
    refuse("a 0\n", BN_ERR_FORMAT, "no stacks found");
    refuse("a;b 1\na;b\n", BN_ERR_FORMAT, "line 2 does not end with a weight");
    refuse("a;b 1\n\na;b x\n", BN_ERR_FORMAT, "line 3");
    refuse("a -1\n", BN_ERR_FORMAT, "line 1");
    refuse("a nan\n", BN_ERR_FORMAT, "line 1");
    refuse("a 0x10\n", BN_ERR_FORMAT, "line 1");
    refuse("a 1e999\n", BN_ERR_FORMAT, "line 1");
    refuse("a 1e299\na 9.5e299\n", BN_ERR_LIMIT, "1e300");
    refuse("# unit=ns\na 1\n# unit=bytes\na 1\n", BN_ERR_FORMAT, "line 3 changes the unit");
    refuse("# unit=a_very_long_unit_indeed\na 1\n", BN_ERR_FORMAT, "line 1 has an invalid unit");
}

TEST(perf_script_is_read)
{
    static const char TEXT[] = "# captured on    : Thu\n\n"
                               "my prog 4242/4243 [001] 33657.973070:     250000 cpu-clock:u: \n"
                               "\t           11c5 inner+0x29 (/tmp/with space/my prog)\n"
                               "\t           11c0 helper (inlined)\n"
                               "\t           11b0 main+0x13 (/tmp/with space/my prog)\n"
                               "\t   7f0000000000 [unknown] (/usr/lib/libc.so.6)\n"
                               "\t   7f0000000001 [unknown] ([unknown])\n\n"
                               "my prog 4242/4243 [001] 33657.974070:     500000 cpu-clock:u: \n"
                               "\tffffffff8175336a elf_load+0x28a ([kernel.kallsyms])\n"
                               "\tffffffffc0000000 nf_do+0x1 ([nf_tables])\n"
                               "\t           11b0 op+(int, char (*)(long))+0x1f (/tmp/x (deleted))\n"
                               "\t           11b1 (/tmp/x)\n\n"
                               "my prog 4242/4243 [001] 33657.975070:          9 page-faults: \n"
                               "\t           11c5 inner+0x29 (/tmp/my prog)\n\n"
                               "swapper     0 [000] 33657.976070:     250000 cpu-clock:u: \n\n";
    bn_stacks *s = parse(TEXT);
    assert_string_equal(s->unit, "ns");
    assert_string_equal(s->what, "cpu");
    expect_folded(s, "# unit=ns what=cpu\n"
                     "my prog;[unknown];[libc.so.6];main;helper_[i];inner 250000\n"
                     "my prog;[x];op+(int, char (*)(long));nf_do_[k];elf_load_[k] 500000\n"
                     "swapper 250000\n");
    assert_int_equal(bn_stacks_count_samples(s), 3);
    uint32_t thread = bn_stacks_child(s, 0, BN_FRAME_THREAD, "my prog");
    uint32_t unknown = bn_stacks_child(s, thread, BN_FRAME_UNKNOWN, "[unknown]");
    uint32_t libc = bn_stacks_child(s, unknown, BN_FRAME_UNKNOWN, "[libc.so.6]");
    uint32_t main_ = bn_stacks_child(s, libc, BN_FRAME_CODE, "main");
    assert_string_equal(bn_stacks_frame(s, main_)->module, "my prog");
    const char *event = "";
    uint64_t left_out = 0;
    assert_true(bn_json_string(bn_json_get(s->about, "event"), &event));
    assert_string_equal(event, "cpu-clock:u");
    assert_true(
        bn_json_u64(bn_json_get(bn_json_at(bn_json_get(s->about, "left_out"), 0), "samples"), &left_out));
    assert_int_equal(left_out, 1);
    bn_stacks_close(s);
}

TEST(perf_script_has_many_forms)
{
    /* Without period: each sample is one. */
    bn_stacks *s =
        parse("a 1 2.5: cycles: \n\t 11 f+0x1 (/x)\n\t 22 g (/x)\n\na 1 2.6: cycles: \n\t 22 g+0x8 (/x)\n");
    expect_folded(s, "# unit=samples what=cpu\na;g 1\na;g;f 1\n");
    bn_stacks_close(s);
    /* Without call chains: a line for each sample, names to the right. */
    s = parse(
        "         swapper     0 [000]  1.5:     100 cycles:  ffffffff81000000 idle+0x6 ([kernel.kallsyms])\n"
        "            perf  12 [001]  1.6:      50 cycles:      55aa work+0x1 (/usr/bin/perf)\n");
    expect_folded(s, "# unit=cycles what=cpu\nperf;work 50\nswapper;idle_[k] 100\n");
    bn_stacks_close(s);
    /* Addresses alone; lines of source; other records. */
    s = parse(
        "a 1 2.4: PERF_RECORD_COMM: x:1/1\na 1 2.5: 3 faults: \n\t 11 \n\t 22 main+0x1 (/x)\n  main.c:12\n");
    expect_folded(s, "# unit=faults what=faults\na;main;[unknown] 3\n");
    bn_stacks_close(s);
    refuse("a 1 2.5: 3 faults: \n\t 11 f (/x)\n\nwhat is this\n", BN_ERR_FORMAT, "line 4 is neither");
    refuse("a 1 2.5: 3 faults: \n\t 11 f (/x)\n\na 1 2.6: faults:\n", BN_ERR_FORMAT, "some have none");
}

TEST(broken_json_is_refused)
{
    refuse("{\"a\":", BN_ERR_FORMAT, "ends");
    refuse("{\"a\":1}", BN_ERR_FORMAT, "no stacks");
    refuse("{\"schema\":\"bn.bench/1\"}", BN_ERR_FORMAT, "bn.bench/1");
    refuse("{\"shared\":{\"frames\":[]},\"profiles\":[]}", BN_ERR_FORMAT, "no stacks");
}

#define TABLES(frames, nodes, run)                                                                           \
    "{\"schema\":\"bn.stacks/1\",\"unit\":\"ns\",\"what\":\"\",\"texts\":[\"\",\"f\"],\"kinds\":[\"code\"]," \
    "\"frames\":" frames ",\"nodes\":" nodes ",\"runs\":[" run "]}"
#define ONE_FRAME "{\"kind\":[0],\"name\":[1],\"module\":[0],\"file\":[0],\"line\":[0]}"
#define TWO_NODES "{\"depth\":[1,2],\"frame\":[0,0]}"

TEST(broken_documents_are_refused)
{
    bn_stacks *s = parse(TABLES(ONE_FRAME, TWO_NODES, "{\"node\":[2],\"self\":[1.5]}"));
    assert_int_equal(s->nodes[2].depth, 2);
    assert_true(whole_of(s) == 1.5);
    bn_stacks_close(s);
    refuse(TABLES(ONE_FRAME, TWO_NODES, ""), BN_ERR_FORMAT, "not a list of runs");
    refuse(TABLES(ONE_FRAME, TWO_NODES, "{\"node\":[3],\"self\":[1]}"), BN_ERR_FORMAT,
           "an index out of range");
    refuse(TABLES(ONE_FRAME, TWO_NODES, "{\"node\":[1],\"self\":[-1]}"), BN_ERR_FORMAT, "weight");
    refuse(TABLES(ONE_FRAME, TWO_NODES, "{\"node\":[1],\"self\":[1,2]}"), BN_ERR_FORMAT, "as long");
    refuse(TABLES(ONE_FRAME, "{\"depth\":[2],\"frame\":[0]}", "{}"), BN_ERR_FORMAT, "without a parent");
    refuse(TABLES(ONE_FRAME, "{\"depth\":[0],\"frame\":[0]}", "{}"), BN_ERR_FORMAT, "without a parent");
    refuse(TABLES(ONE_FRAME, "{\"depth\":[1],\"frame\":[1]}", "{}"), BN_ERR_FORMAT, "an index out of range");
    refuse(TABLES("{\"kind\":[1],\"name\":[1],\"module\":[0],\"file\":[0],\"line\":[0]}", TWO_NODES, "{}"),
           BN_ERR_FORMAT, "an index out of range");
    refuse(TABLES("{\"kind\":[0],\"name\":[2],\"module\":[0],\"file\":[0],\"line\":[0]}", TWO_NODES, "{}"),
           BN_ERR_FORMAT, "an index out of range");
    refuse(TABLES("{\"kind\":[0]}", TWO_NODES, "{}"), BN_ERR_FORMAT, "is not a list");
    refuse("{\"schema\":\"bn.stacks/1\",\"unit\":\"n s\"}", BN_ERR_FORMAT, "not a word");
}
