/* SPDX-License-Identifier: MIT
 *
 * What every fuzz target defines: libFuzzer's entry, which replay.c calls as well.
 */
#ifndef BN_FUZZ_H
#define BN_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
