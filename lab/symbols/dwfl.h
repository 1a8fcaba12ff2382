/* SPDX-License-Identifier: MIT
 *
 * elfutils' libdwfl, which only this header includes. It takes over and gives away memory of malloc, unlike
 * the rest of the library.
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
