/* SPDX-License-Identifier: MIT
 *
 * The choice of an instruction set on machines that are made up: flags of the processor, registers that the operating
 * system saves, and the permission for tile registers, which it may refuse.
 */
#include "bn.h"
#include "kernels/cpu.h"
#include "kernels/kernels.h"
#include "tests/unit/status.h"

/* A machine with everything, from which each test takes something away. */
static struct {
    struct bn_cpuid one, seven, seven_more;
    uint32_t saved;
    bool permits;
    unsigned n_asked;
} made;

static struct bn_cpuid made_cpuid(uint32_t leaf, uint32_t subleaf)
{
    static const struct bn_cpuid NONE;
    return leaf == 1 ? made.one : leaf == 7 ? subleaf == 0 ? made.seven : made.seven_more : NONE;
}

static uint32_t made_xcr0(void)
{
    return made.saved;
}

static bool made_permission(void)
{
    made.n_asked++;
    return made.permits;
}

static const struct bn_cpu CPU = {made_cpuid, made_xcr0, made_permission};

/* Bits by Intel's manual, volume 2A, CPUID. */
#define AVX512_VBMI (1u << 1)
#define AVX512_VNNI (1u << 11)
#define AVX512F (1u << 16)
#define AMX_TILE (1u << 24)
#define AMX_INT8 (1u << 25)
#define TILE_CONFIG (1u << 17)
#define TILE_DATA (1u << 18)

FIXTURE(make_all)
{
    made.one = (struct bn_cpuid){.ecx = 1u << 12 | 1u << 28 | 1u << 29}; /* FMA, AVX, F16C */
    made.seven = (struct bn_cpuid){.eax = 1,
                                   .ebx = 1u << 5 | AVX512F | 1u << 17 | 1u << 30 | 1u << 31,
                                   .ecx = AVX512_VBMI | AVX512_VNNI,
                                   .edx = AMX_TILE | AMX_INT8};
    made.seven_more = (struct bn_cpuid){.eax = 1u << 4};
    made.saved = 0xE7u | TILE_CONFIG | TILE_DATA;
    made.permits = true;
    made.n_asked = 0;
}

#if defined(__x86_64__)

static void expect(const char *isa)
{
    assert_string_equal(bn_kernels_fastest(&CPU)->isa, isa);
    assert_null(bn_cpu_lacks(&CPU, isa));
}

TEST_IN(everything_gives_amx, make_all, NULL)
{
    expect("amx");
    assert_true(made.n_asked > 0);
}

TEST_IN(a_refusal_gives_the_set_below, make_all, NULL)
{
    made.permits = false;
    expect("avx512vbmi");
    assert_int_equal(made.n_asked, 1);
    assert_string_equal(bn_cpu_lacks(&CPU, "amx"),
                        "the operating system refused the tile registers of the instruction set");
}

/* Both parts of the tile state are needed, and nothing is asked for without them. */
TEST_IN(tiles_must_be_saved, make_all, NULL)
{
    static const uint32_t MISSING[] = {TILE_CONFIG, TILE_DATA, TILE_CONFIG | TILE_DATA};
    for (size_t i = 0; i < 3; i++) {
        make_all(state);
        made.saved &= ~MISSING[i];
        expect("avx512vbmi");
        assert_int_equal(made.n_asked, 0);
        assert_string_equal(bn_cpu_lacks(&CPU, "amx"),
                            "the operating system does not save the registers of the instruction set");
    }
}

TEST_IN(both_flags_of_amx_are_needed, make_all, NULL)
{
    static const uint32_t MISSING[] = {AMX_TILE, AMX_INT8};
    for (size_t i = 0; i < 2; i++) {
        make_all(state);
        made.seven.edx &= ~MISSING[i];
        expect("avx512vbmi");
        assert_int_equal(made.n_asked, 0);
        assert_string_equal(bn_cpu_lacks(&CPU, "amx"), "this CPU does not have the instruction set");
    }
}

TEST_IN(older_processors_have_less, make_all, NULL)
{
    made.seven.ecx &= ~AVX512_VBMI;
    expect("avx512vnni"); /* also with flags of AMX: its other kernels need this */
    made.seven.ecx = 0;
    expect("avxvnni");
    made.seven.eax = 0;
    expect("avx2");
    made.one.ecx &= ~(1u << 12);
    expect("ref");
    assert_int_equal(made.n_asked, 0);
}

TEST_IN(wide_registers_must_be_saved, make_all, NULL)
{
    made.saved = 0x67; /* without the upper registers of AVX-512 */
    expect("avxvnni");
    assert_string_equal(bn_cpu_lacks(&CPU, "avx512vnni"),
                        "the operating system does not save the registers of the instruction set");
    made.saved = 0;
    expect("ref");
}

#else

TEST_IN(other_sets_are_lacking, make_all, NULL)
{
    assert_string_equal(bn_cpu_lacks(&CPU, "amx"), "this CPU does not have the instruction set");
    assert_int_equal(made.n_asked, 0);
}

#endif

/* The reason is the beginning of the error. */
TEST(the_error_names_the_reason)
{
    const struct bn_kernels *kernels = bn_kernels_find("amx");
    char want[200];
    if (kernels != NULL && bn_kernels_supported(kernels)) {
        must(bn_isa_select("amx", &err));
        return;
    }
    snprintf(want, sizeof want, "%s amx",
             kernels != NULL ? bn_kernels_lacks(kernels) : "this build does not have the instruction set");
    refused(bn_isa_select("amx", &err), BN_ERR_UNSUPPORTED);
    assert_string_equal(err.msg, want);
}
