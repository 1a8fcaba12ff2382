/* SPDX-License-Identifier: MIT
 *
 * A device beside the CPU that evaluates whole passes, with the same bits: the interface only. opencl/ implements it;
 * a build without OpenCL has functions that refuse (opencl/none.c).
 *
 * On the device: weights, keys and values, states of recurrent layers, all stages from the first norm to the logits. On
 * the CPU: rows of the embedding, tokenizer, grammar, sampler, digests. What a device does not have is refused when the
 * model is opened.
 */
#ifndef BN_MODEL_DEVICE_H
#define BN_MODEL_DEVICE_H

#include "bn.h"
#include "kernels/kernels.h"

struct bn_model;
struct bn_session;
struct bn_sequence;

/* ---- with a model ---- */

struct bn_device; /* an opened device that has the weights of one model */

/* Chooses a device ("opencl", "opencl:N", "auto"), holds its arithmetic against the reference, and uploads the weights.
 * The options of the model name it. *out is NULL for "auto" when no GPU is good enough. BN_ERR_NOT_FOUND: no such device;
 * BN_ERR_UNSUPPORTED: what the device or its driver lacks, or the model needs; BN_ERR_INTEGRITY: it computed another bit;
 * BN_ERR_NOMEM: before anything is uploaded, with both figures. */
BN_MUST_CHECK bn_status bn_device_open(struct bn_device **out, const struct bn_model *model,
                                       const char *selector, bn_error *err);
void bn_device_close(struct bn_device *device);
/* After a device is lost: sessions that are opened from now on are of the CPU. Those of the device evaluate no more, and are
 * closed before the model. */
void bn_model_leave_device(struct bn_model *model);
/* What it is; outlived by the device. */
const bn_device_info *bn_device_facts(const struct bn_device *device);
/* Bytes that it allocated there, of weights and sessions. */
uint64_t bn_device_bytes(const struct bn_device *device);

/* What it can do at most: bytes read a second of a set, bytes read and written a second by copying it, multiply-adds of
 * bytes a second, launches a second. Measured by the clock of the device, for about budget_ns; between two passes. */
enum bn_device_limit { BN_DEVICE_READ, BN_DEVICE_COPY, BN_DEVICE_INT8, BN_DEVICE_LAUNCH, BN_DEVICE_LIMITS };
BN_MUST_CHECK bn_status bn_device_measure(struct bn_device *device, enum bn_device_limit limit,
                                          size_t set_bytes, uint64_t budget_ns, double *rate, bn_error *err);

/* ---- with a session ---- */

struct bn_device_session; /* session->on_device: room for a batch there */

/* Takes the memory of a session, and of its own sequence's rows as bn_device_take does. */
BN_MUST_CHECK bn_status bn_device_session_open(struct bn_device_session **out, struct bn_session *session,
                                               bn_error *err);
void bn_device_session_close(struct bn_device_session *session);
/* Evaluates the batch of session->rows, whose embeddings are at session->x: fills session->run.logits (n_heads rows)
 * unless that is NULL, session->hidden (n_wanted rows), and run.bad_row. The trace is called as on the CPU. An error
 * means that the device is lost: the timelines are as before the pass. */
BN_MUST_CHECK bn_status bn_device_pass(struct bn_session *session, bn_error *err);
/* Kernel k ran on the device: its name there, NULL when it did not. */
const char *bn_device_kernel_name(const struct bn_session *session, enum bn_kernel k);

/* ---- with a sequence ---- */

/* Where a sequence is in the memory of a device: values of keys, and as many of values; its state of recurrent layers.
 * n is 0 when it has no room. */
struct bn_device_place {
    uint64_t at, n, state;
    uint64_t kept, n_kept;               /* the state before tokens that may be taken back, and room for it */
    uint32_t n_tried;                    /* those tokens */
    bool state_is_newer, state_is_older; /* than sequence->state; older: it comes with the next pass */
};

/* Room for the keys, values and states of a sequence: sequence->place. */
BN_MUST_CHECK bn_status bn_device_take(struct bn_sequence *sequence, bn_error *err);
void bn_device_release(struct bn_sequence *sequence);
/* As bn_sequence_copy, of keys and values. The next pass reports an error. */
void bn_device_copy(struct bn_sequence *to, const struct bn_sequence *from, size_t first, size_t end);
/* Between the device and sequence->k_cache and v_cache, which are there for that time: for saved timelines. */
BN_MUST_CHECK bn_status bn_device_move_cache(struct bn_sequence *sequence, bool to_device, bn_error *err);
/* The state becomes again what it was before the last pass, whose tokens could be taken back. */
void bn_device_restore_state(struct bn_sequence *sequence);
/* Brings the state of recurrent layers to sequence->state, when the device has a newer one. The next pass repeats an error. */
BN_MUST_CHECK bn_status bn_device_read_state(const struct bn_sequence *sequence, bn_error *err);

#endif
