/* SPDX-License-Identifier: MIT
 *
 * A program for test_symbols: says which of its memory is executable, and addresses of code of every kind
 * that has, or has not, a name. It is linked in several ways.
 */
#include <stdint.h>
#include <stdio.h>

#if defined __x86_64__
#define HERE(out) __asm__ volatile("lea 0(%%rip), %0" : "=r"(out))
#else
#define HERE(out) __asm__ volatile("adr %0, ." : "=r"(out))
#endif

/* Several names for one address, parts of functions as compilers name them, and code without a name. Each
 * body has 16 instructions. */
#if defined __x86_64__
#define BODY_BYTES 16u
#else
#define BODY_BYTES 64u
#endif
#define BODY ".rept 16\n nop\n .endr\n"
#define TYPE(name) ".type " name ", %function\n"
#define SIZE(name) ".size " name ", .-" name "\n"
#define FUNCTION(name) TYPE(name) name ":\n" BODY SIZE(name)
__asm__(".text\n .balign 16\n"
        ".globl same_aa\n .weak weak, second_weak\n"
        /* clang-format off */
        TYPE("same_longer") TYPE("same_bb") TYPE("same_aa") TYPE("weak") TYPE("loc")
        "same_longer: same_bb: same_aa: weak: loc:\n" BODY
        SIZE("same_longer") SIZE("same_bb") SIZE("same_aa") SIZE("weak") SIZE("loc")
        TYPE("second_weak") TYPE("second") "second_weak: second:\n" BODY SIZE("second_weak") SIZE("second")
        FUNCTION("whole.cold")
        FUNCTION("whole.part.0")
        FUNCTION("whole.constprop.0.isra.12")
        FUNCTION("whole.omp_fn.0")
        BODY /* no name: after the end of the function before */
        "plain_label:\n" BODY
        "next_label:\n" BODY
        ".globl with_label\n" TYPE("with_label")
        "with_label:\n" BODY "label_inside:\n" BODY SIZE("with_label")
        /* clang-format on */
);
extern const char same_aa[], second_weak[], with_label[];

static int double_of(int x)
{
    return 2 * x;
}

static int (*choose(void))(int)
{
    return double_of;
}

int chosen(int x) __attribute__((ifunc("choose")));

static uintptr_t inlined_at[2];

static inline __attribute__((always_inline)) int innermost(int x)
{
    HERE(inlined_at[1]);
    return x * 3;
}

static inline __attribute__((always_inline)) int middle(int x)
{
    HERE(inlined_at[0]);
    return innermost(x + 1) + 5;
}

__attribute__((noinline)) int outer(int x)
{
    return middle(x) ^ 7;
}

static void say_maps(void)
{
    char line[4096], may[5];
    FILE *f = fopen("/proc/self/maps", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "%*x-%*x %4s", may) == 1 && may[2] == 'x') printf("map %s", line);
    if (f != NULL) fclose(f);
}

static void say(const char *name, uintptr_t address)
{
    printf("at %s %lx\n", name, (unsigned long)address);
}

int main(int argc, char **argv)
{
    (void)argv;
    int sum = outer(argc) + chosen(argc);
    uintptr_t second = (uintptr_t)second_weak, labels = (uintptr_t)with_label, body = BODY_BYTES;
    say_maps();
    say("same_aa", (uintptr_t)same_aa + 3);
    say("second_weak", second);
    say("whole", second + body + 1);
    say("whole", second + 2 * body + 1);
    say("whole", second + 3 * body + 1);
    say("whole.omp_fn.0", second + 4 * body);
    say("[file]", second + 5 * body);
    say("plain_label", labels - 2 * body);
    say("plain_label", labels - body - 1);
    say("next_label", labels - 1);
    say("with_label", labels + body + 2);
    say("chosen", (uintptr_t)choose);
    say("main", (uintptr_t)main + 1);
    say("outer", (uintptr_t)outer);
    say("middle", inlined_at[0]);
    say("innermost", inlined_at[1]);
    say("[unknown]", 0x1000);
    return sum == 0;
}
