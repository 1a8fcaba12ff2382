/* SPDX-License-Identifier: MIT
 *
 * Classes of functions, and colours of classes. A kernel has the class of its slot in the engine's table of
 * kernels. Other functions have classes by rules for their names; the first matching rule decides, so special
 * names come first: "rope_and_store" is not a store. A compiler's suffix, as in "dot.constprop.0" and
 * "pass._omp_fn.0", is ignored. A function that contains several classes, such as a layer, has none of them.
 * tests/unit/stacks/test_palette.c reads the symbols of all objects of kernels/: each has a class.
 */
#include "lab/stacks/palette.h"

#include <string.h>

#include "kernels/kernels.h"

/* ---- kernels ---- */

/* Of each slot, and so of each function in it, for every instruction set. */
static const unsigned char SLOTS[BN_KERNEL_COUNT] = {
    [BN_KERNEL_T5_GEMV] = BN_CLASS_MULTIPLY,      [BN_KERNEL_T5_PACK] = BN_CLASS_QUANTIZE,
    [BN_KERNEL_I8_GEMM] = BN_CLASS_MULTIPLY,      [BN_KERNEL_QUANTIZE] = BN_CLASS_QUANTIZE,
    [BN_KERNEL_RESIDUAL] = BN_CLASS_QUANTIZE,     [BN_KERNEL_RMSNORM] = BN_CLASS_NORM,
    [BN_KERNEL_ROPE_NEOX] = BN_CLASS_ATTENTION,   [BN_KERNEL_ROPE_NORM] = BN_CLASS_ATTENTION,
    [BN_KERNEL_ATTN_SCORES] = BN_CLASS_ATTENTION, [BN_KERNEL_SOFTMAX] = BN_CLASS_ATTENTION,
    [BN_KERNEL_ATTN_VALUES] = BN_CLASS_ATTENTION, [BN_KERNEL_RELU2_MUL] = BN_CLASS_NORM,
    [BN_KERNEL_SILU_MUL] = BN_CLASS_NORM,         [BN_KERNEL_ADD] = BN_CLASS_NORM,
    [BN_KERNEL_F16_GEMM] = BN_CLASS_MULTIPLY,     [BN_KERNEL_F32_GEMM] = BN_CLASS_MULTIPLY,
    [BN_KERNEL_F32_TO_F16] = BN_CLASS_MEMORY,     [BN_KERNEL_F16_TO_F32] = BN_CLASS_MEMORY,
    [BN_KERNEL_BF16_TO_F32] = BN_CLASS_MEMORY,    [BN_KERNEL_Q8_0_TO_F32] = BN_CLASS_MEMORY,
    [BN_KERNEL_Q6_K_TO_F32] = BN_CLASS_MEMORY,    [BN_KERNEL_Q4_0_TO_F32] = BN_CLASS_MEMORY,
    [BN_KERNEL_HAS_CODE3] = BN_CLASS_QUANTIZE,    [BN_KERNEL_EXP] = BN_CLASS_NORM,
    [BN_KERNEL_TERNARY_GEMV] = BN_CLASS_MULTIPLY, [BN_KERNEL_TERNARY_GEMM] = BN_CLASS_MULTIPLY,
    [BN_KERNEL_QUANTIZE16] = BN_CLASS_QUANTIZE,   [BN_KERNEL_GELU_MUL] = BN_CLASS_NORM,
    [BN_KERNEL_TO_PLANE] = BN_CLASS_QUANTIZE,     [BN_KERNEL_ROTATE] = BN_CLASS_QUANTIZE,
    [BN_KERNEL_SIGMOID_MUL] = BN_CLASS_ATTENTION, [BN_KERNEL_CONV_SILU] = BN_CLASS_ATTENTION,
    [BN_KERNEL_DELTA] = BN_CLASS_ATTENTION,       [BN_KERNEL_TO_TILES] = BN_CLASS_QUANTIZE,
    [BN_KERNEL_COLUMNS_GEMV] = BN_CLASS_MULTIPLY,
};
_Static_assert(BN_KERNEL_COLUMNS_GEMV + 1 == BN_KERNEL_COUNT, "a slot without a class");

/* The class of "ternary_gemv_avx2", also as the function "bn_ternary_gemv_avx2". */
static bool is_kernel(enum bn_class *is, const char *name, size_t length)
{
    char text[64];
    if (length >= sizeof text) return false;
    memcpy(text, name, length);
    text[length] = '\0';
    const char *kernel = strncmp(text, "bn_", 3) == 0 ? text + 3 : text, *isa = strrchr(kernel, '_');
    if (isa == NULL || !(bn_kernels_is_set(isa + 1) || bn_kernels_set_has(isa + 1, kernel))) return false;
    for (unsigned slot = 0; slot < BN_KERNEL_COUNT; slot++)
        if (bn_kernel_is(kernel, (enum bn_kernel)slot)) {
            *is = (enum bn_class)SLOTS[slot];
            return true;
        }
    return false;
}

/* ---- rules for other names ---- */

/* Of which functions a rule is. Names so short that other programs have them for something else are of this engine's
 * own code only; there are the parts of kernels that are functions of their own in machine code. Of the operating
 * system's functions are those in which a thread waits; the functions that they call count with them. */
enum scope { ALL, OWN, SYSTEM };

struct rule {
    enum scope scope;
    enum bn_class is;
    const char *patterns; /* with blanks between them */
};

/* "*" matches any text, also none. Names are those of this engine's functions in kernels/ and engine/, of
 * its bricks and kernel slots, of the C library, of OpenMP libraries, and of Linux. */
static const struct rule RULES[] = {
    {ALL, BN_CLASS_QUANTIZE,
     "*quantize* *Quantize* *quantise* *quant_row* *t5_pack* *repack* *dequant* "
     "*to_plane* *to_tiles* *rotate*"},
    {ALL, BN_CLASS_ATTENTION,
     "attention* *attn_* *softmax* Attention* one_row_of_values *rope* Rope* "
     "*delta* DeltaRule *conv_silu* Convolution HeadGate *sigmoid*"},
    {ALL, BN_CLASS_MULTIPLY,
     "*gemv* *gemm* *vec_dot* *dot_f16* *dot_f32* *matmul* *mul_mat* *dot_product* i2s_* bn_i2s_* "
     "tq2_* tq1_* t5_* bn_t5_* i8_* bn_i8_* bn_grouped_* f16_stream *Projection Router multiply_router* LmHead HeadScreen bn_head* "
     "bn_screen_*"},
    {ALL, BN_CLASS_NORM,
     "*rmsnorm* *rms_norm* *layernorm* *layer_norm* RmsNorm LayerNorm "
     "*relu* *silu* *gelu* Activation *residual* Residual* bn_add_* bn_exp_* expf*"},
    {ALL, BN_CLASS_WAIT,
     "*barrier* Barrier* Exchange bn_exchange* Team *futex* *nanosleep* poll __poll ppoll epoll_wait epoll_pwait select pselect "
     "spin_until_changed *sched_yield* *sem_wait* *cond_wait* *cond_timedwait* *lock_wait* *pthread_join* wait4 waitpid"},
    {ALL, BN_CLASS_SYNC,
     "*GOMP_* *gomp_* *[libgomp* bn_team_* *pthread_* *mutex* *lll_lock* *clone clone3 "
     "*sem_post* start_thread"},
    {ALL, BN_CLASS_MEMORY,
     "*memcpy* *memmove* *memset* *mempcpy* *memcmp* *malloc* *calloc* *realloc* free cfree _int_free* "
     "__libc_free *mmap* *munmap* *madvise* brk __brk sbrk *page_fault* *clear_page* *copy_page* "
     "*copy_user* *handle_mm_fault* *do_anonymous_page* *alloc_pages* bn_alloc bn_free KvStore Embedding "
     "*kv_store* *_to_f32* *f32_to_f16* operator?new* operator?delete*"},
    {ALL, BN_CLASS_SYSTEM,
     "*syscall* entry_SYSCALL* __x64_sys_* __arm64_sys_* do_sys_* ksys_* vfs_* *sysenter* "
     "__GI___* read write __read __write pread64 ioctl"},
    {OWN, BN_CLASS_QUANTIZE, "tile_other_group bn_stored_code base3_code"},
    {OWN, BN_CLASS_ATTENTION, "attend scores_of* rotate"},
    {OWN, BN_CLASS_MULTIPLY,
     "linear project head head_at rescore bound_block bound_rows fold fold_one fold8 fold16 ffn_down "
     "grouped_* group_sum row_sum value_of unpack* multiply_block divide finish tokens bn_peak_fma* bn_peak_int8* bn_peak_of"},
    {OWN, BN_CLASS_NORM, "norm final_norm activate exp"},
    {OWN, BN_CLASS_MEMORY, "embed bn_peak_read* bn_peak_stream* read_plain run_stream"},
    {OWN, BN_CLASS_WAIT, "team_wait*"},
    {OWN, BN_CLASS_SYNC, "team_*"},
    {SYSTEM, BN_CLASS_WAIT,
     "*futex* *nanosleep* *sched_yield* *sys_poll* *do_poll* ep_poll *epoll_wait* *sys_select* "
     "*do_select* do_wait kernel_wait4"},
};

/* Whether text is pattern, of n bytes; "?" is a blank. */
static bool glob(const char *pattern, size_t n, const char *text, size_t length)
{
    size_t p = 0, t = 0, star = SIZE_MAX, resume = 0;
    while (t < length) {
        if (p < n && pattern[p] == '*') {
            star = p++;
            resume = t;
        } else if (p < n && (pattern[p] == text[t] || (pattern[p] == '?' && text[t] == ' '))) {
            p++;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++resume;
        } else {
            return false;
        }
    }
    while (p < n && pattern[p] == '*')
        p++;
    return p == n;
}

static bool matches_one(const char *patterns, const char *name, size_t length)
{
    while (*patterns != '\0') {
        size_t n = strcspn(patterns, " ");
        if (glob(patterns, n, name, length)) return true;
        patterns += n + (patterns[n] == ' ');
    }
    return false;
}

static bool find_rule(enum bn_class *is, enum scope scope, const char *name, size_t length)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(RULES); i++)
        if (RULES[i].scope == scope && matches_one(RULES[i].patterns, name, length)) {
            *is = RULES[i].is;
            return true;
        }
    return false;
}

static bool is_own(const struct bn_frame *frame)
{
    const char *module = frame->module;
    return strcmp(module, "bn") == 0 || strncmp(module, "bn-", 3) == 0 || strncmp(module, "bn_", 3) == 0 ||
           strncmp(module, "libbn", 5) == 0 || strncmp(module, "test_", 5) == 0;
}

enum bn_class bn_class_of(const struct bn_frame *frame)
{
    enum bn_class is = BN_CLASS_OTHER;
    if (frame->kind < BN_FRAME_BRICK) return BN_CLASS_TAG;
    if (frame->kind == BN_FRAME_SYSTEM) {
        is = BN_CLASS_SYSTEM; /* whatever its name */
        (void)find_rule(&is, SYSTEM, frame->name, strlen(frame->name));
        return is;
    }
    size_t length = 1 + strcspn(frame->name + (frame->name[0] != '\0'), ".");
    if (frame->name[0] == '[' || frame->name[0] == '\0') length = strlen(frame->name);
    if (is_kernel(&is, frame->name, length)) return is;
    if (!find_rule(&is, ALL, frame->name, length) && is_own(frame))
        (void)find_rule(&is, OWN, frame->name, length);
    return is;
}

/* Whether a frame is a part of a function, inlined or in a file of kernels/, whose name has no class: it has
 * that of its caller. */
static bool is_callers(const struct bn_frame *frame)
{
    bool part = frame->kind == BN_FRAME_INLINED ||
                (frame->kind == BN_FRAME_CODE && strncmp(frame->file, "kernels/", 8) == 0 && is_own(frame));
    return part && bn_class_of(frame) == BN_CLASS_OTHER;
}

enum bn_class bn_class_at(const bn_stacks *stacks, uint32_t node, bool inverted)
{
    const struct bn_frame *path[BN_STACKS_MAX_DEPTH]; /* the running function, its caller, ... */
    size_t n = 0, i = 0;
    for (; node != BN_STACKS_ROOT && n < BN_STACKS_MAX_DEPTH; node = stacks->nodes[node].parent)
        path[n++] = bn_stacks_frame(stacks, node);
    if (inverted) { /* tags stay nearest to the root */
        while (n > 1 && BN_FRAME_IS_TAG(path[n - 1]->kind))
            n--;
        for (size_t k = 0; k < n / 2; k++) {
            const struct bn_frame *frame = path[k];
            path[k] = path[n - 1 - k];
            path[n - 1 - k] = frame;
        }
    }
    while (i < n && is_callers(path[i]))
        i++;
    if (i == n || (i > 0 && bn_class_of(path[i]) == BN_CLASS_TAG)) return BN_CLASS_OTHER;
    enum bn_class is = bn_class_of(path[i]), around = is;
    while (around == BN_CLASS_SYSTEM && ++i < n)
        around = bn_class_of(path[i]);
    return around == BN_CLASS_WAIT ? BN_CLASS_WAIT : is;
}

const char *bn_class_name(enum bn_class which)
{
    static const char *const NAMES[] = {"quantisation", "matrix multiplication", "memory",  "system",
                                        "attention",    "norms and activations", "threads", "waiting",
                                        "other",        "thread, phase or layer"};
    _Static_assert(BN_ARRAY_LEN(NAMES) == BN_CLASSES, "a name for each");
    return (unsigned)which < BN_CLASSES ? NAMES[which] : "other";
}

/* ---- colours ---- */

#define RGB(x)                                      \
    {                                               \
        (x) >> 16 & 0xFF, (x) >> 8 & 0xFF, (x)&0xFF \
    }

/* Of each mode. The second palette is after Okabe and Ito (2008), lighter where black on it could not be
 * read; in the dark it keeps the dark ink, since dark colours are hard to tell apart for anybody. */
static const struct scheme {
    struct bn_colour ink, classes[BN_CLASSES];
    struct bn_colour none, less[2], more[2]; /* of a difference; weakest and strongest */
} SCHEMES[BN_PALETTES][2] = {
    {{.ink = RGB(0x14171A),
      .classes = {RGB(0xF0746A), RGB(0x7CC682), RGB(0x7CB4F5), RGB(0xF6A543), RGB(0xAE93EC), RGB(0xF0D95C),
                  RGB(0xE39CC0), RGB(0x8698AA), RGB(0xCDCAC2), RGB(0xE3E8ED)},
      .none = RGB(0xE6E6E3),
      .less = {RGB(0xCFE2FA), RGB(0x5E9FEE)},
      .more = {RGB(0xFAD6D1), RGB(0xEB6257)}},
     {.ink = RGB(0xF4F5F6),
      .classes = {RGB(0xA8323A), RGB(0x1F6544), RGB(0x2358A8), RGB(0x8E480A), RGB(0x66409E), RGB(0x5C5A17),
                  RGB(0x86346F), RGB(0x58697D), RGB(0x4E4C48), RGB(0x2D363F)},
      .none = RGB(0x3A3E42),
      .less = {RGB(0x32435A), RGB(0x1F5DBB)},
      .more = {RGB(0x5A3735), RGB(0xB3302D)}}},
    {{.ink = RGB(0x14171A),
      .classes = {RGB(0xEF7D33), RGB(0x2FB58C), RGB(0x8CCBF2), RGB(0xF0B429), RGB(0xDD92BD), RGB(0xF3E97A),
                  RGB(0x5B9FE0), RGB(0x7C909C), RGB(0xC6C6C6), RGB(0xE6EBEF)},
      .none = RGB(0xE6E6E3),
      .less = {RGB(0xCDE6F7), RGB(0x4AA5E2)},
      .more = {RGB(0xFCE3C2), RGB(0xEE8A24)}},
     {.ink = RGB(0x0C0E10),
      .classes = {RGB(0xDC7430), RGB(0x2AA37E), RGB(0x7EB9DE), RGB(0xDCA522), RGB(0xCB86AE), RGB(0xE0D66C),
                  RGB(0x5492CE), RGB(0xBCC8F0), RGB(0xB0B0B0), RGB(0xD3D9DE)},
      .none = RGB(0xC9C9C6),
      .less = {RGB(0xB4CFE1), RGB(0x4798D0)},
      .more = {RGB(0xE5CAA6), RGB(0xDB7F20)}}},
};

static const struct scheme *scheme_of(enum bn_palette palette, bool dark)
{
    return &SCHEMES[palette == BN_PALETTE_SAFE ? BN_PALETTE_SAFE : BN_PALETTE_BITNET][dark];
}

/* part of 100 of b, the rest of a. */
static struct bn_colour mix(struct bn_colour a, struct bn_colour b, unsigned part)
{
#define MIX(x) .x = (uint8_t)((a.x * (100u - part) + b.x * part + 50u) / 100u)
    return (struct bn_colour){MIX(r), MIX(g), MIX(b)};
#undef MIX
}

struct bn_colour bn_palette_ink(enum bn_palette palette, bool dark)
{
    return scheme_of(palette, dark)->ink;
}

struct bn_colour bn_palette_class(enum bn_palette palette, enum bn_class which, bool dark)
{
    return scheme_of(palette, dark)->classes[(unsigned)which < BN_CLASSES ? which : BN_CLASS_OTHER];
}

unsigned bn_shade_of(const struct bn_frame *frame)
{
    uint32_t h = 2166136261u; /* FNV-1a, so that it is the same everywhere */
    for (const char *c = frame->name; *c != '\0'; c++)
        h = (h ^ (unsigned char)*c) * 16777619u;
    h ^= h >> 15;
    return (unsigned)(((uint64_t)h * BN_SHADES) >> 32);
}

struct bn_colour bn_palette_shade(enum bn_palette palette, enum bn_class which, unsigned shade, bool dark)
{
    static const struct bn_colour BLACK = {0, 0, 0}, WHITE = {255, 255, 255};
    int off = (int)shade - (int)(BN_SHADES / 2);
    unsigned part = off < 0 ? (unsigned)-off * 5u : (unsigned)off * (dark ? 3u : 9u);
    return mix(bn_palette_class(palette, which, dark), off < 0 ? BLACK : WHITE, part);
}

struct bn_colour bn_palette_delta(enum bn_palette palette, int step, bool dark)
{
    const struct scheme *s = scheme_of(palette, dark);
    if (step == 0) return s->none;
    const struct bn_colour *ends = step < 0 ? s->less : s->more;
    unsigned size = (unsigned)(step < 0 ? -step : step);
    return mix(ends[0], ends[1], (size - 1) * 100u / (BN_DELTA_STEPS - 1));
}
