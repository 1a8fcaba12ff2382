/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a GGUF file: opened, every key and tensor looked at, closed. Nothing may crash, leak, or be
 * read beyond the bytes; what the reader accepts, it must find again.
 */
#include "tests/fuzz/fuzz.h"

#include "tests/fuzz/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bn_gguf gguf;
    if (succeeds(bn_gguf_open(&gguf, data, size, &err))) bn_fuzz_walk(&gguf);
    bn_gguf_close(&gguf);
    return 0;
}
