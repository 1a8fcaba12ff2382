/* SPDX-License-Identifier: MIT
 *
 * What a run leaves besides checkpoints: the model file, and the record (training.json).
 */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/elementary.h"
#include "lab/kit/put_counts.h"
#include "lab/receipt/open.h"
#include "tools/cli/provenance.h"
#include "tools/train/train.h"
#include "train/real.h"

double bn_train_bits_per_byte(const struct bn_corpus *validation, double loss)
{
    return loss * (double)validation->n / (double)validation->n_bytes / 0.69314718055994531;
}

/* ---- the model file ---- */

struct bn_export bn_train_export(const struct bn_train_file *file)
{
    /* Q8_0 has no label: bn_type_find does not find it. */
    bool q8 = strcmp(file->embedding, "q8_0") == 0;
    return (struct bn_export){.type = bn_type_find(file->type),
                              .embedding = q8 ? BN_TYPE_Q8_0 : bn_type_find(file->embedding),
                              .name = file->name,
                              .n_ctx = file->ctx,
                              .temperature = file->temperature};
}

void bn_train_keep_file(bn_json *document, const bn_json *before, const struct bn_args *args)
{
    struct bn_train_file *file = &((struct bn_train_options *)args->fields)->file;
    const struct {
        const char *name, **value;
    } TEXTS[] = {{"type", &file->type}, {"embedding", &file->embedding}, {"name", &file->name}};
    const bn_json *old = bn_json_get(before, "model_file");
    bn_json *o = bn_json_put_object(document, "model_file");
    for (size_t i = 0; i < BN_ARRAY_LEN(TEXTS); i++) {
        bool given = old == NULL || bn_args_given(args, TEXTS[i].value);
        bn_json_put_string(o, TEXTS[i].name, given ? *TEXTS[i].value : bn_json_text_of(old, TEXTS[i].name));
        *TEXTS[i].value = bn_json_text_of(o, TEXTS[i].name);
    }
    if (!bn_args_given(args, &file->ctx)) file->ctx = (uint32_t)bn_json_count_of(old, "context");
    bn_json_put_u64(o, "context", file->ctx);
}

bn_status bn_train_write_model(const char *path, const struct bn_weights *w, struct bn_str tokenizer,
                               const struct bn_train_file *file, char hex[BN_SHA256_HEX], bn_error *err)
{
    struct bn_export how = bn_train_export(file);
    struct bn_buf out = {.max = (size_t)1 << 36};
    bn_status status = bn_export_gguf(&out, w, tokenizer, &how, err);
    if (status == BN_OK) bn_sha256_hex(out.data, out.len, hex);
    if (status == BN_OK) status = bn_file_write_atomic(path, out.data, out.len, err);
    bn_buf_release(&out);
    return status;
}

/* ---- training.json ---- */

void bn_train_put_origin(bn_json *doc)
{
    bn_json *all = bn_json_new_object(), *library = bn_json_put_object(doc, "library");
    bn_cli_put_provenance(all, NULL);
    bn_json_put_copy(doc, "program", bn_json_get(all, "program"));
    bn_json_free(all);
    BN_PUT(library, BN_STRING("name", bn_blas_library()), BN_STRING("core", bn_blas_core()));
}

static void put_curve(bn_json *doc, const struct bn_train_run *run)
{
    bn_json *steps = bn_json_put_array(doc, "losses"), *validations = bn_json_put_array(doc, "validations");
    for (size_t i = 0; i < run->trainer.curve.n; i++) {
        const struct bn_train_point *p = &run->trainer.curve.points[i];
        bn_json *o = bn_json_add_object(p->norm < 0 ? validations : steps);
        BN_PUT(o, BN_U64("step", (uint64_t)p->step), BN_NUMBER("loss", p->loss));
        if (!(p->norm < 0)) bn_json_put_number(o, "gradient_norm", p->norm);
        if (!(p->norm < 0)) continue;
        bn_json_put_number(o, "perplexity", bn_exp(p->loss));
        bn_json_put_number(o, "bits_per_byte", bn_train_bits_per_byte(&run->texts.validation, p->loss));
    }
}

static void put_result(bn_json *doc, const struct bn_train_run *run, const char *model_sha256)
{
    const struct bn_trainer *t = &run->trainer;
    bn_json *o = bn_json_put_object(doc, "result");
    BN_PUT(o, BN_FLAG("complete", t->step == t->settings.schedule.n_steps), BN_U64("step", t->step),
           BN_U64("tokens", t->step * bn_train_step_tokens(&t->settings)),
           BN_STRING("checkpoint_sha256", run->sha256), BN_TEXT("model_sha256", model_sha256));
}

static void put_memory(bn_json *doc, const struct bn_trainer *t)
{
    struct bn_train_memory memory = bn_trainer_memory(t);
    bn_json *o = bn_json_put_object(doc, "memory");
    BN_PUT(o, BN_U64("weights_bytes", memory.masters + memory.moments + memory.ternary),
           BN_U64("gradients_bytes", memory.gradients), BN_U64("activations_bytes", memory.activations));
}

static void put_ranks(bn_json *doc, const struct bn_train_run *run)
{
    bn_json *o = bn_json_put_object(doc, "ranks");
    bn_json_put_u64(o, "count", run->ranks.count);
    if (run->trainer.ranks == NULL) return;
    struct bn_train_shares s = bn_train_shares(&run->trainer);
    BN_PUT(o, BN_NUMBER("exchange_share", s.exchange), BN_NUMBER("wait_share", s.wait),
           BN_NUMBER("load_balance", s.balance), BN_NUMBER("bytes_sent_per_step", s.bytes),
           BN_NUMBER("messages_sent_per_step", s.messages));
}

static bn_json *make_record(const struct bn_train_run *run, const char *model_sha256)
{
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", BN_TRAINING_SCHEMA);
    bn_cli_put_provenance(doc, NULL);
    static const char *const KEPT[] = {"library", "settings", "data", "corpus", "model_file"};
    for (size_t i = 0; i < BN_ARRAY_LEN(KEPT); i++)
        bn_json_put_copy(doc, KEPT[i], bn_json_get(run->document, KEPT[i]));
    bn_json_put_u64(doc, "threads", bn_team_size(run->trainer.team));
    put_ranks(doc, run);
    put_memory(doc, &run->trainer);
    put_result(doc, run, model_sha256);
    put_curve(doc, run);
    return doc;
}

bn_status bn_train_write_record(const struct bn_train_run *run, const char *model_sha256, bn_error *err)
{
    char path[PATH_MAX];
    bn_json *doc = make_record(run, model_sha256);
    if (doc == NULL) return bn_nomem(err);
    snprintf(path, sizeof path, "%s/training.json", run->options->output);
    bn_status status = bn_json_write_file(doc, path, err);
    if (status == BN_OK && run->args->json) status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}
