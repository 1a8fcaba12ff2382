/* SPDX-License-Identifier: MIT
 *
 * The mask rung of bn-crossval with logits of this engine that later tokens changed.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/status.h"
#include "tools/crossval/crossval.h"

#define N 6u

/* Climbs the mask rung after one bit of this engine's logits in `row` was changed. The
 * reference is not asked when this engine's own mask is wrong. */
static enum bn_xstate mask_with_change(size_t row, size_t *leak)
{
    static const int32_t IDS[N] = {5, 42, 79, 7, 300, 11};
    static const struct bn_crossval_options OPTIONS = {.n_threads = 1};
    struct bn_crossval x = {.options = &OPTIONS};
    must(bn_model_open(&x.model, "fixtures/nano-bitnet-b1.58-i2_s-42.gguf", NULL, &err));
    x.n_vocab = bn_model_hparams(x.model)->n_vocab;
    must(bn_crossval_set_prompt(&x, IDS, N, &err));
    must(bn_crossval_evaluate(&x, &err));
    uint32_t bits;
    memcpy(&bits, &x.logits[row * x.n_vocab + 3], sizeof bits);
    bits ^= 1u;
    memcpy(&x.logits[row * x.n_vocab + 3], &bits, sizeof bits);
    struct bn_xref *ref = &x.refs[x.n_refs++];
    ref->info.can = BN_CAN_LOGITS;
    ref->n_rows = N;
    ref->logits = bn_alloc(N, x.n_vocab * sizeof *ref->logits);
    assert_non_null(ref->logits);
    must(bn_xref_climb(&x, ref, BN_RUNG_MASK, &err));
    enum bn_xstate state = ref->rungs[BN_RUNG_MASK].state;
    *leak = x.leak;
    bn_crossval_close(&x);
    return state;
}

TEST(a_row_that_later_tokens_change_is_found)
{
    size_t leak = 0;
    for (size_t row = 0; row < N / 2; row++) {
        assert_int_equal(mask_with_change(row, &leak), BN_X_FAIL);
        assert_int_equal(leak, row);
    }
}
