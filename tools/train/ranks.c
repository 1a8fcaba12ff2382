/* SPDX-License-Identifier: MIT
 *
 * A run on several ranks. Rank 0 reads options, texts and checkpoint, and writes all files; the other ranks get
 * settings, tokens and weights from it, so they need no files.
 */
#include "train/ranks.h"
#include "base/error.h"
#include "tools/cli/report.h"
#include "tools/train/train.h"

static bn_status share_texts(struct bn_train_run *run, bn_error *err)
{
    BN_TRY(bn_corpus_share(&run->texts.main, &run->ranks, err));
    BN_TRY(bn_corpus_share(&run->texts.late, &run->ranks, err));
    return bn_corpus_share(&run->texts.validation, &run->ranks, err);
}

bn_status bn_train_lead(struct bn_train_run *run, bn_error *err)
{
    const struct bn_ranks *ranks = &run->ranks;
    struct bn_train_settings *s = &run->trainer.settings;
    if (ranks->count == 1) return BN_OK;
    if (ranks->count > s->n_micro)
        bn_report_warning("a step has %u micro-batches for %u ranks; the others have no work: use a smaller "
                          "--micro-batch or a larger --batch",
                          s->n_micro, ranks->count);
    BN_TRY(ranks->broadcast(ranks->context, 0, s, sizeof *s, err));
    BN_TRY(share_texts(run, err));
    return bn_trainer_join(&run->trainer, ranks, err);
}

bn_status bn_train_follow(struct bn_train_run *run, bn_error *err)
{
    const struct bn_ranks *ranks = &run->ranks;
    struct bn_train_settings settings;
    /* Rank 0 decides when an interrupted run ends. */
    bn_cli_catch_interrupt();
    BN_TRY(ranks->broadcast(ranks->context, 0, &settings, sizeof settings, err));
    BN_TRY(share_texts(run, err));
    BN_TRY(bn_trainer_open(&run->trainer, &settings, bn_cli_ranks_threads(run->options->threads), err));
    BN_TRY(bn_trainer_join(&run->trainer, ranks, err));
    return bn_trainer_follow(&run->trainer, &run->texts.main, run->texts.late.n > 0 ? &run->texts.late : NULL,
                             &run->texts.validation, err);
}

struct bn_train_shares bn_train_shares(const struct bn_trainer *t)
{
    const struct bn_train_load *load = &t->ranks->load;
    double all = (double)(t->times.passes_ns + t->times.optimiser_ns), steps = (double)load->n_steps;
    if (load->n_steps == 0 || load->mean_ns == 0) return (struct bn_train_shares){.balance = 1};
    return (struct bn_train_shares){.exchange = (double)load->exchanged_ns / all,
                                    .wait = (double)load->waited_ns / all,
                                    .balance = (double)load->longest_ns / (double)load->mean_ns,
                                    .bytes = (double)load->bytes_sent / steps,
                                    .messages = (double)load->messages_sent / steps};
}
