/* SPDX-License-Identifier: MIT */
#include "base/error.h"
#include "tools/convert/plan.h"
bn_status bn_cv_from_folder(struct bn_cv_plan *plan, const char *path, bn_error *err)
{
    (void)plan;
    return bn_fail_in(err, BN_ERR_UNSUPPORTED, path, "folders are not supported yet");
}
