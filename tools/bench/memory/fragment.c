/* SPDX-License-Identifier: MIT
 *
 * See fragment.h. glibc tells totals by mallinfo2(3), and sizes of free blocks only as the XML text of
 * malloc_info(3): lines <size from="33" to="48" total="96" count="2"/>.
 */
#define _GNU_SOURCE
#include "tools/bench/memory/fragment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

double bn_fragment_internal(uint64_t requested, uint64_t allocated)
{
    return allocated > 0 ? 1.0 - (double)requested / (double)allocated : (double)NAN;
}

double bn_fragment_external(uint64_t largest_free, uint64_t total_free)
{
    return total_free > 0 ? 1.0 - (double)largest_free / (double)total_free : (double)NAN;
}

double bn_fragment_resident(uint64_t resident, uint64_t live)
{
    return live > 0 ? (double)resident / (double)live - 1.0 : (double)NAN;
}

#ifdef __GLIBC__

static uint64_t largest_size(const char *text)
{
    uint64_t largest = 0;
    for (const char *at = text; (at = strstr(at, " to=\"")) != NULL;) {
        at += strlen(" to=\"");
        uint64_t size = strtoull(at, NULL, 10);
        if (size > largest) largest = size;
    }
    return largest;
}

bool bn_heap_read(struct bn_heap *out)
{
    char *text = NULL;
    size_t n = 0;
    struct mallinfo2 info = mallinfo2();
    *out = (struct bn_heap){.allocated = info.uordblks + info.hblkhd, .free_bytes = info.fordblks};
    FILE *stream = open_memstream(&text, &n);
    if (stream == NULL) return false;
    bool ok = malloc_info(0, stream) == 0;
    ok = fclose(stream) == 0 && ok;
    if (ok) out->largest_free = largest_size(text);
    free(text);
    if (info.keepcost > out->largest_free) out->largest_free = info.keepcost; /* the end of the heap */
    return ok;
}

#else

bool bn_heap_read(struct bn_heap *out)
{
    *out = (struct bn_heap){0};
    return false;
}

#endif
