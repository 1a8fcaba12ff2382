/* SPDX-License-Identifier: MIT
 *
 * Compiled without frame pointers, see nofp.c.
 */
#include <stdint.h>

uint64_t middle(uint64_t (*callback)(uint64_t), uint64_t ns);

uint64_t middle(uint64_t (*callback)(uint64_t), uint64_t ns)
{
#if defined(__x86_64__)
    __asm__ volatile("xor %%ebp, %%ebp" ::: "rbp");
#elif defined(__aarch64__)
    __asm__ volatile("mov x29, xzr" ::: "x29");
#endif
    return callback(ns) + 1;
}
