/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph fold: writes stacks as folded text.
 */
#include "base/error.h"
#include "tools/flamegraph/flamegraph.h"

bn_status bn_flamegraph_fold(struct bn_args *args, bn_error *err)
{
    struct bn_buf out = {.max = BN_FLAMEGRAPH_MAX_BYTES};
    bn_stacks *stacks = NULL;
    BN_TRY(bn_flamegraph_check_name(args, BN_STACKS_FOLDED, err));
    BN_TRY(bn_flamegraph_open(&stacks, args, false, err));
    bn_status status = bn_stacks_write(stacks, BN_STACKS_FOLDED, &out, err);
    if (status == BN_OK) status = bn_flamegraph_write(args, &out, err);
    bn_buf_release(&out);
    bn_stacks_close(stacks);
    return status;
}
