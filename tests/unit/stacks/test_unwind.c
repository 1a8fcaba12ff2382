/* SPDX-License-Identifier: MIT
 *
 * lab/symbols/unwind: copied stacks give the chain of callers; complete chains differ from broken ones.
 */
#define _GNU_SOURCE
#include "tests/unit/stacks/known_program.h"

static void *call_chain(void *capture)
{
    struct capture *c = capture;
    c->stack_end = stack_end();
    chain_1(c, 2);
    return NULL;
}

static struct capture *in_signal;

static void on_signal(int signal)
{
    (void)signal;
    chain_capture(in_signal);
}

static void raise_inside(struct capture *capture)
{
    in_signal = capture;
    capture->inside = NULL;
    raise(SIGUSR1);
}

#if defined __x86_64__
#define PC 16
#else
#define PC 32
#endif

/* A recording of this process with one sample of a capture, of whose chain only the first address is known.
 */
static void record_capture(bn_recording *r, const struct capture *c, size_t n_dump)
{
    memset(r, 0, sizeof *r);
    struct bn_sample sample = {.time_ns = UINT64_MAX / 2,
                               .weight = 3,
                               .pid = (uint32_t)getpid(),
                               .tid = 77,
                               .n_chain = 1,
                               .n_dump = (uint32_t)n_dump};
    must(bn_recording_read_maps(r, NULL));
    must(bn_recording_add_sample(r, &sample, &c->registers[PC], c->dump, c->registers, NULL));
    bn_recording_finish(r);
}

/* The names of a sample's chain, the innermost first; without functions in libraries and of the test. */
static size_t chain_names(bn_symbols *symbols, const bn_recording *r, const char *names[], size_t room,
                          const char *prefix)
{
    const struct bn_sample *s = &r->samples[0];
    const struct bn_frame *f;
    size_t n, kept = 0;
    for (size_t i = 0; i < s->n_chain && kept < room; i++) {
        must(bn_symbols_at(symbols, s->pid, r->addresses[s->chain + i], s->time_ns, BN_SAMPLE_IS_CALLER(s, i),
                           false, &f, &n, NULL));
        if (strncmp(f[0].name, prefix, strlen(prefix)) == 0) names[kept++] = f[0].name;
    }
    return kept;
}

static void expect_chain_with(const struct capture *c, const char *debug_path)
{
    static const char *const WANTED[] = {"chain_capture", "chain_4", "chain_3", "chain_2",
                                         "chain_2",       "chain_2", "chain_1"};
    const char *names[20];
    bn_recording recording;
    bool rooted;
    record_capture(&recording, c, c->n_dump);
    bn_symbols *symbols = open_symbols(&recording, debug_path);
    must(bn_symbols_unwind(symbols, &recording, NULL));
    assert_int_equal(recording.samples[0].flags, BN_SAMPLE_UNWOUND);
    assert_int_equal(chain_names(symbols, &recording, names, 20, "chain_"), BN_ARRAY_LEN(WANTED));
    for (size_t i = 0; i < BN_ARRAY_LEN(WANTED); i++)
        assert_string_equal(names[i], WANTED[i]);
    must(bn_symbols_rooted(symbols, &recording.samples[0], recording.addresses + recording.samples[0].chain,
                           recording.samples[0].n_chain, &rooted, NULL));
    assert_true(rooted);
    /* Again: nothing gets further than the root. */
    uint16_t n = recording.samples[0].n_chain;
    must(bn_symbols_unwind(symbols, &recording, NULL));
    assert_int_equal(recording.samples[0].n_chain, n);
    bn_symbols_close(symbols);
    bn_recording_release(&recording);
}

/* Whether or not the C library has names. */
static void expect_chain(const struct capture *c)
{
    expect_chain_with(c, NULL);
    expect_chain_with(c, "/nonexistent");
}

TEST(copied_stacks_are_unwound_to_the_root)
{
    static struct capture c;
    pthread_t thread;
    call_chain(&c);
    expect_chain(&c);
    assert_int_equal(pthread_create(&thread, NULL, call_chain, &c), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect_chain(&c);
    struct sigaction action = {.sa_handler = on_signal};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    c.inside = raise_inside;
    call_chain(&c);
    expect_chain(&c);
}

TEST(a_copy_that_ends_early_is_said)
{
    static struct capture c;
    const char *names[20];
    bn_recording recording;
    bool rooted;
    call_chain(&c);
    record_capture(&recording, &c, 2600);
    bn_symbols *symbols = open_symbols(&recording, NULL);
    must(bn_symbols_unwind(symbols, &recording, NULL));
    assert_int_equal(recording.samples[0].flags, BN_SAMPLE_UNWOUND | BN_SAMPLE_DUMP_CUT);
    size_t n = chain_names(symbols, &recording, names, 20, "chain_");
    assert_true(n >= 3 && n <= 6);
    must(bn_symbols_rooted(symbols, &recording.samples[0], recording.addresses + recording.samples[0].chain,
                           recording.samples[0].n_chain, &rooted, NULL));
    assert_false(rooted);
    bn_symbols_close(symbols);
    bn_recording_release(&recording);

    /* A stack of random bytes ends somewhere. */
    uint32_t random = 1;
    for (size_t i = 0; i < c.n_dump; i++)
        c.dump[i] = (char)((random = random * 1664525u + 1013904223u) >> 24);
    record_capture(&recording, &c, c.n_dump);
    symbols = open_symbols(&recording, NULL);
    must(bn_symbols_unwind(symbols, &recording, NULL));
    bn_symbols_close(symbols);
    bn_recording_release(&recording);
}

static void *main_returns_to;

static void *thread_returns_to(void *unused)
{
    (void)unused;
    return __builtin_return_address(0);
}

TEST(complete_chains_are_told_from_broken_ones)
{
    pthread_t thread;
    void *start_thread;
    assert_int_equal(pthread_create(&thread, NULL, thread_returns_to, NULL), 0);
    assert_int_equal(pthread_join(thread, &start_thread), 0);
    const uint64_t own = (uintptr_t)stack_end, in_main = (uintptr_t)main + 1, in_qsort = (uintptr_t)qsort + 1,
                   in_libc = (uintptr_t)main_returns_to, in_thread = (uintptr_t)start_thread;
    const struct {
        uint64_t chain[4];
        size_t n, of_code;
        bool rooted;
    } cases[] = {
        {{own}, 1, 1, false},
        {{own, in_main}, 2, 2, true},
        {{own, in_main, in_libc}, 3, 3, true},
        {{own, in_main, in_libc, 5}, 4, 3, true},
        {{own, 5, in_main, in_libc}, 4, 1, false},
        {{own, in_qsort}, 2, 2, false},
        {{own, in_thread}, 2, 2, true},
        {{own, in_thread, 0x7123456789ab, in_main}, 4, 2, true},
        {{5, in_main}, 2, 1, false},
    };
    bn_recording recording = {0};
    struct bn_sample sample = {.time_ns = UINT64_MAX / 2, .pid = (uint32_t)getpid()};
    must(bn_recording_read_maps(&recording, NULL));
    bn_recording_finish(&recording);
    /* A C library may come with its debugging files: it is the one without that is hard. */
    bn_symbols *symbols = open_symbols(&recording, "/nonexistent");
    for (size_t i = 0; i < BN_ARRAY_LEN(cases); i++) {
        size_t n = cases[i].n;
        bool rooted;
        must(bn_symbols_chain(symbols, &sample, cases[i].chain, &n, NULL));
        assert_int_equal(n, cases[i].of_code);
        must(bn_symbols_rooted(symbols, &sample, cases[i].chain, n, &rooted, NULL));
        if (rooted != cases[i].rooted) fail_msg("case %zu", i);
    }
    bn_symbols_close(symbols);
    bn_recording_release(&recording);
}

TEST(short_memory_is_an_error)
{
    bn_stacks *stacks;
    static struct capture c;
    call_chain(&c);
    for (uint64_t n = 1;; n += 1 + n / 16) {
        bn_recording recording;
        bn_symbols *symbols = NULL;
        struct bn_stack_quality quality = {0};
        assert_true(n < 5000);
        record_capture(&recording, &c, c.n_dump);
        must(bn_stacks_open(&stacks, "ns", "cpu", NULL));
        bn_mem_fail_after(n);
        bn_status status = attempt(bn_symbols_open(&symbols, &recording, NULL, &err));
        if (status == BN_OK) status = attempt(bn_symbols_unwind(symbols, &recording, &err));
        if (status == BN_OK) status = attempt(bn_resolve(stacks, &recording, symbols, NULL, &quality, &err));
        bn_mem_fail_after(0);
        bn_symbols_close(symbols);
        bn_stacks_close(stacks);
        bn_recording_release(&recording);
        if (status == BN_OK) break;
        assert_int_equal(status, BN_ERR_NOMEM);
    }
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    main_returns_to = __builtin_return_address(0);
    return unit_run();
}
