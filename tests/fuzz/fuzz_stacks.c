/* SPDX-License-Identifier: MIT
 *
 * Any bytes as stacks, in whatever format they look like: read, copied, turned, appended, written in every
 * format. What is written as a document or as folded text is read back, and is then written
 * as the same bytes.
 */
#include "tests/fuzz/fuzz.h"

#include "lab/formats/document.h"
#include "lab/stacks/hotspots.h"

#define MAX_BYTES ((size_t)1 << 26)

static void write_and_read(const bn_stacks *s, enum bn_stacks_format format)
{
    struct bn_buf once = {.max = MAX_BYTES}, twice = {.max = MAX_BYTES};
    bn_stacks *back = NULL;
    bn_status status = bn_stacks_write(s, format, &once, NULL);
    hold(status == BN_OK || status == BN_ERR_LIMIT);
    bool read = format == BN_STACKS_DOCUMENT || format == BN_STACKS_FOLDED;
    /* Numbers of samples without a weight are nothing in folded text. */
    if (status == BN_OK && read && bn_stacks_parse(&back, once.data, once.len, "written", NULL) == BN_OK) {
        hold(bn_stacks_write(back, format, &twice, NULL) == BN_OK);
        hold(format != BN_STACKS_DOCUMENT ||
             (once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0));
    }
    hold(status != BN_OK || format != BN_STACKS_DOCUMENT || back != NULL);
    bn_stacks_close(back);
    bn_buf_release(&once);
    bn_buf_release(&twice);
}

static void look(const bn_stacks *s)
{
    static const struct bn_stacks_view VIEWS[] = {
        {0},
        {.callers = true},
        {.drop = BN_FRAME_TAGS, .root = "main", .merge_runs = true},
        {.drop_modules = true, .drop = BN_FRAME_BIT(BN_FRAME_UNKNOWN)},
    };
    struct bn_hotspots spots;
    for (size_t i = 0; i < BN_ARRAY_LEN(VIEWS); i++) {
        bn_stacks *copy = NULL;
        hold(bn_stacks_copy(&copy, s, &VIEWS[i], NULL) == BN_OK);
        if (i == 0) hold(copy->n_nodes <= s->n_nodes);
        hold(bn_stacks_append(copy, s, NULL) == BN_OK);
        bn_stacks_close(copy);
    }
    hold(bn_hotspots(&spots, s, NULL) == BN_OK);
    bn_hotspots_release(&spots);
    for (unsigned format = 0; format < BN_STACKS_FORMATS; format++)
        write_and_read(s, (enum bn_stacks_format)format);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bn_stacks *s = NULL;
    hold(succeeds(bn_stacks_parse(&s, (const char *)data, size, "input", &err)) == (s != NULL));
    if (s != NULL && s->n_runs <= BN_STACKS_MAX_RUNS / 2) look(s);
    bn_stacks_close(s);
    return 0;
}
