/* SPDX-License-Identifier: MIT
 *
 * A shared library for test_symbols, which opens it.
 */
#include <stdint.h>

extern uintptr_t (*const library_code)(void);

static __attribute__((noinline)) uintptr_t hidden_in_library(void)
{
    return (uintptr_t)__builtin_return_address(0);
}

uintptr_t in_library(void)
{
    uintptr_t here = hidden_in_library();
    __asm__ volatile("");
    return here;
}

uintptr_t (*const library_code)(void) = hidden_in_library;
