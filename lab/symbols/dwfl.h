/* SPDX-License-Identifier: MIT
 *
 * elfutils' libdwfl, which only this header includes, and what it asks of its users that is not the
 * library's way elsewhere: memory by malloc, which it gives away and takes over.
 */
#ifndef BN_SYMBOLS_DWFL_H
#define BN_SYMBOLS_DWFL_H

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <stdlib.h>

/* Of arrays and frames that libdw allocated. */
static inline void bn_dwfl_free(void *given)
{
    free(given);
}

#endif
