/* SPDX-License-Identifier: MIT
 *
 * A known call chain without frame pointers, for test_symbols: chain_1 calls chain_2, and so on, and
 * chain_4 keeps its registers and its stack.
 */
#ifndef BN_TESTS_SYMBOLS_CHAIN_H
#define BN_TESTS_SYMBOLS_CHAIN_H

#include <stddef.h>
#include <stdint.h>

struct capture {
    const char *stack_end;            /* nothing is copied from here on */
    void (*inside)(struct capture *); /* NULL, or called by chain_4 */
    uint64_t registers[33];           /* as samples have them */
    size_t n_dump;
    _Alignas(16) char dump[1 << 16];
};

int chain_1(struct capture *capture, int depth);
/* Registers and stack of the caller. */
void chain_capture(struct capture *capture);

#endif
