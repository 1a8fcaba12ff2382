/* SPDX-License-Identifier: MIT
 *
 * The settings of a run from the options: shape of the model, schedule, division of a step.
 */
#include "base/error.h"
#include "tools/train/train.h"

bn_status bn_train_settings(struct bn_train_settings *s, const struct bn_train_options *o, uint32_t n_vocab,
                            bn_error *err)
{
    static const char *const ARCHS[] = {"bitnet-b1.58", "qwen3"};
    static const uint32_t GROUPS[] = {0, 64, 128, 256};
    uint32_t heads = o->heads != 0 ? o->heads : o->width >= 64 ? o->width / 64 : 1;
    *s = (struct bn_train_settings){
        .group = GROUPS[o->group], .seed = o->seed, .late = o->late_texts.n > 0 ? o->late : 1};
    s->hp = (bn_hparams){.n_vocab = n_vocab,
                         .n_ctx = o->context,
                         .n_embd = o->width,
                         .n_layer = o->layers,
                         .n_ff = o->ffn != 0 ? o->ffn : 3 * o->width,
                         .n_head = heads,
                         .n_head_kv = o->kv_heads != 0 ? o->kv_heads
                                      : heads % 2 == 0 ? heads / 2
                                                       : heads,
                         .head_dim = o->width / heads,
                         .rms_eps = 1e-5f,
                         .rope_base = (float)o->rope_base};
    s->schedule =
        (struct bn_train_schedule){o->steps,   o->warm_up, o->stage_2, o->rate, o->rate_2, o->decay,
                                   o->decay_2, o->beta_1,  o->beta_2,  1e-8,    o->clip,   o->optimiser == 1};
    /* A slice has about 512 tokens: enough for fast products, few enough for the caches. */
    uint32_t micro = o->micro_batch < o->batch ? o->micro_batch : o->batch;
    s->n_sequences = o->context < 512 && 512 % o->context == 0 && micro % 512 == 0 ? 512 / o->context : 1;
    uint32_t slice = s->n_sequences * o->context;
    if (micro % slice != 0 || o->batch % micro != 0)
        return bn_hint(bn_fail(err, BN_ERR_ARG,
                               "%u tokens a step are not whole micro-batches of %u tokens, or these not "
                               "whole windows of %u",
                               o->batch, micro, o->context),
                       err, "--batch %u --micro-batch %u", 16 * o->context, 4 * o->context);
    s->n_slices = micro / slice;
    s->n_micro = o->batch / micro;
    if (s->n_micro > 65536) /* more are refused by who repeats the run */
        return bn_fail(err, BN_ERR_ARG, "%u micro-batches in a step, at most 65536 are possible", s->n_micro);
    return bn_train_architecture(&s->hp, ARCHS[o->arch], err);
}
