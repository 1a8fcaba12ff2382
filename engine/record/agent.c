/* SPDX-License-Identifier: MIT
 *
 * The ways by timers: not there yet.
 */
#include "base/error.h"
#include "record/tier.h"

const struct bn_record_tier_ops bn_record_timer = {0}, bn_record_itimer = {0};
