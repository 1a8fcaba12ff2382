/* SPDX-License-Identifier: MIT
 *
 * A build without OpenCL: every device is refused, so what follows an opened one is never called.
 */
#include "base/error.h"
#include "model/device.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* none of these functions needs what it is given */

static bn_status refuse(bn_error *err)
{
    return bn_hint(bn_fail(err, BN_ERR_UNSUPPORTED, "this build has no OpenCL"), err,
                   "install its headers (Debian: opencl-c-headers) and build again");
}

bn_status bn_devices(bn_device_info *out, size_t room, size_t *n, bn_error *err)
{
    *n = 0;
    return refuse(err);
}

bn_status bn_device_open(struct bn_device **out, const struct bn_model *model, const char *selector,
                         bn_error *err)
{
    *out = NULL;
    return refuse(err);
}

void bn_device_close(struct bn_device *device)
{
}

const bn_device_info *bn_device_facts(const struct bn_device *device)
{
    return NULL;
}

uint64_t bn_device_bytes(const struct bn_device *device)
{
    return 0;
}

bn_status bn_device_measure(struct bn_device *device, enum bn_device_limit limit, size_t set_bytes,
                            uint64_t budget_ns, double *rate, bn_error *err)
{
    *rate = 0;
    return refuse(err);
}

bn_status bn_device_session_open(struct bn_device_session **out, struct bn_session *session, bn_error *err)
{
    *out = NULL;
    return refuse(err);
}

void bn_device_session_close(struct bn_device_session *session)
{
}

bn_status bn_device_pass(struct bn_session *session, bn_error *err)
{
    return refuse(err);
}

const char *bn_device_kernel_name(const struct bn_session *session, enum bn_kernel k)
{
    return NULL;
}

bn_status bn_device_take(struct bn_sequence *sequence, bn_error *err)
{
    return refuse(err);
}

void bn_device_release(struct bn_sequence *sequence)
{
}

void bn_device_copy(struct bn_sequence *to, const struct bn_sequence *from, size_t first, size_t end)
{
}

bn_status bn_device_move_cache(struct bn_sequence *sequence, bool to_device, bn_error *err)
{
    return refuse(err);
}

void bn_device_restore_state(struct bn_sequence *sequence)
{
}

bn_status bn_device_read_state(const struct bn_sequence *sequence, bn_error *err)
{
    return refuse(err);
}
