/* SPDX-License-Identifier: MIT
 *
 * What storm loads and unloads.
 */
#define SAMPLED_LIBRARY
#include "sampled.h"

uint64_t storm_work(uint64_t turns);

OWN_FRAME uint64_t storm_work(uint64_t turns)
{
    return turn(1, turns);
}
