/* SPDX-License-Identifier: MIT
 *
 * bn-train: trains ternary models on text, with checkpoints and a record of the run; learns vocabularies; writes model
 * files from checkpoints.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/cli/programs.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/train/train.h"
#include "train/real.h"

#define OF struct bn_train_options /* whose fields most options set */
#define PRE_HELP "rule that splits text (tokenizer.ggml.pre)"

static const struct bn_option TEXTS[] = {
    BN_OPTION("text", "train on FILE; FILE:3 counts it 3 times", .group = "Text", .repeatable = true,
              BN_TO_TEXTS(OF, texts)),
    BN_OPTION("validation", "measure perplexity on FILE", .repeatable = true, BN_TO_TEXTS(OF, validations)),
    BN_RARE("late-text", "text for the end of the run, in place of --text", .repeatable = true,
            BN_TO_TEXTS(OF, late_texts)),
    BN_RARE("late", "share of the steps before --late-text", .preset = "0.8", BN_TO_F64(OF, late, 0, 1)),
    BN_OPTION("tokenizer", "take the vocabulary of a GGUF file", BN_TO_TEXT(OF, tokenizer)),
    BN_OPTION("vocab", "else learn one of N tokens from the texts", .preset = "2048",
              BN_TO_U32(OF, vocab, 258, 65536)),
    BN_RARE("pre", PRE_HELP, .arg = "NAME", .preset = "llama-bpe", BN_TO_TEXT(OF, pre)),
    {0},
};

static const struct bn_option SHAPE[] = {
    BN_RARE("arch", "architecture", .arg = "bitnet-b1.58|qwen3", .group = "Model", .preset = "bitnet-b1.58",
            BN_TO_CHOICE(OF, arch)),
    BN_RARE("group", "weights that share a scale; 0: a whole matrix", .arg = "0|64|128|256", .preset = "0",
            BN_TO_CHOICE(OF, group)),
    BN_OPTION("layers", "number of layers", .preset = "6", BN_TO_U32(OF, layers, 1, 512)),
    BN_OPTION("width", "width of the residual stream", .preset = "256", BN_TO_U32(OF, width, 64, 65536)),
    BN_OPTION("ffn", "width of the feed-forward layers [3 times --width]", BN_TO_U32(OF, ffn, 64, 262144)),
    BN_OPTION("heads", "heads of queries [one per 64 of --width]", BN_TO_U32(OF, heads, 1, 1024)),
    BN_RARE("kv-heads", "heads of keys and values [half of --heads]", BN_TO_U32(OF, kv_heads, 1, 1024)),
    BN_OPTION("context", "tokens of a training window", .preset = "256", BN_TO_U32(OF, context, 8, 65536)),
    BN_RARE("rope-base", "base of the rotary angles", .preset = "10000", BN_TO_F64(OF, rope_base, 100, 1e8)),
    {0},
};

#define OPTION_BATCH                                                                     \
    BN_OPTION("batch", "tokens of a step", .arg = "N", .group = "Run", .preset = "8192", \
              BN_TO_U32(OF, batch, 8, 1u << 30))
#define OPTION_MICRO_BATCH                                                                             \
    BN_OPTION("micro-batch", "tokens of a micro-batch, one thread's work", .arg = "N", .group = "Run", \
              .preset = "2048", .rare = true, BN_TO_U32(OF, micro_batch, 8, 1u << 30))

static const struct bn_option STEPS[] = {
    BN_OPTION("steps", "number of steps", .group = "Run", .preset = "1000",
              BN_TO_U32(OF, steps, 1, 100000000)),
    OPTION_BATCH,
    OPTION_MICRO_BATCH,
    BN_OPTION("rate", "learning rate at the beginning", .group = "Run", .preset = "0.0015",
              BN_TO_F64(OF, rate, 0, 1e30)),
    BN_RARE("rate-2", "learning rate of stage 2, if it began at once", .preset = "0.001",
            BN_TO_F64(OF, rate_2, 0, 1e30)),
    BN_RARE("stage-2", "share of the steps before stage 2", .preset = "0.5", BN_TO_F64(OF, stage_2, 0, 1)),
    BN_RARE("optimiser", "of ternary matrices; AdamW does the rest", .arg = "adamw|muon", .preset = "adamw",
            BN_TO_CHOICE(OF, optimiser)),
    BN_RARE("warm-up", "steps in which the rate rises", .preset = "100", BN_TO_U32(OF, warm_up, 0, 1000000)),
    BN_RARE("decay", "weight decay of stage 1", .preset = "0.1", BN_TO_F64(OF, decay, 0, 100)),
    BN_RARE("decay-2", "weight decay of stage 2", .preset = "0", BN_TO_F64(OF, decay_2, 0, 100)),
    BN_RARE("beta-1", "Adam's average of gradients", .preset = "0.9", BN_TO_F64(OF, beta_1, 0, 0.9999)),
    BN_RARE("beta-2", "Adam's average of squares", .preset = "0.95", BN_TO_F64(OF, beta_2, 0, 0.99999)),
    BN_RARE("clip", "largest norm of the gradient; 0: any", .preset = "1", BN_TO_F64(OF, clip, 0, 1e9)),
    BN_OPTION("seed", "seed of first weights and of the order of windows", .preset = "42",
              BN_TO_U64(OF, seed, 0, 9e15)),
    BN_RARE("save-every", "steps between checkpoints", .preset = "100",
            BN_TO_U32(OF, save_every, 1, 100000000)),
    BN_OPTION("validate-every", "steps between validations", .preset = "100",
              BN_TO_U32(OF, validate_every, 1, 100000000)),
    {0},
};

static const struct bn_option RUN[] = {
    BN_OPTION("output", "folder of checkpoint, model and record", .letter = 'o', .arg = "DIR", .group = "Run",
              BN_TO_TEXT(OF, output)),
    BN_RARE("until", "stop after step N, with a checkpoint", BN_TO_U32(OF, until, 1, 100000000)),
    BN_OPTION("time-limit", "stop after this time, with a checkpoint", BN_TO_SECONDS(OF, time_limit)),
    BN_OPTION_THREADS_TO(OF, threads),
    {0},
};

static const struct bn_option BENCH[] = {
    BN_OPTION("vocab", "number of tokens", .group = "Model", .preset = "4096",
              BN_TO_U32(OF, vocab, 2, 1u << 20)),
    OPTION_BATCH,
    OPTION_MICRO_BATCH,
    BN_OPTION("seed", "seed of weights and tokens", .group = "Run", .preset = "42",
              BN_TO_U64(OF, seed, 0, 9e15)),
    BN_OPTION_THREADS_TO(OF, threads),
    {0},
};

static const struct bn_option MODEL_FILE[] = {
    BN_OPTION("type", "type of the ternary weights", .arg = BN_TRAIN_TYPES, .group = "Model file",
              .preset = "i2_s", BN_TO_TEXT(OF, file.type)),
    BN_OPTION("embedding", "type of the embedding", .arg = BN_TRAIN_EMBEDDINGS, .preset = "f16",
              BN_TO_TEXT(OF, file.embedding)),
    BN_OPTION("name", "name of the model (general.name)", .arg = "TEXT", .preset = "bn-train",
              BN_TO_TEXT(OF, file.name)),
    BN_RARE("model-ctx", "context that the file states [that of training]",
            BN_TO_U32(OF, file.ctx, 1, 1u << 24)),
    {0},
};

static const struct bn_option EXPORT[] = {
    BN_OPTION("output", "write the model to FILE", .letter = 'o', BN_TO_TEXT(OF, output)),
    BN_OPTION("temperature", "divide the logits by T, for a model that is too sure", .arg = "T",
              .group = "Model file", .preset = "1", BN_TO_F64(OF, file.temperature, 0.1, 10)),
    {0},
};

static const struct bn_option TOKENIZER[] = {
    BN_OPTION("text", "learn from FILE; FILE:3 counts it 3 times", .repeatable = true,
              BN_TO_TEXTS(OF, texts)),
    BN_OPTION("vocab", "number of tokens", .preset = "2048", BN_TO_U32(OF, vocab, 258, 65536)),
    BN_OPTION("output", "write the vocabulary to FILE (GGUF)", .letter = 'o', BN_TO_TEXT(OF, output)),
    BN_OPTION("special", "special token; the first ends texts [<|endoftext|>]", .arg = "TEXT",
              .repeatable = true, BN_TO_TEXTS(OF, specials)),
    BN_OPTION("pre", PRE_HELP, .arg = "NAME", .preset = "llama-bpe", BN_TO_TEXT(OF, pre)),
    BN_RARE("name", "name of the vocabulary (general.name)", .arg = "TEXT", .preset = "vocabulary",
            BN_TO_TEXT(OF, name)),
    {0},
};

static bn_status missing(struct bn_args *args, const char *what, const char *hint, bn_error *err)
{
    args->want_usage = true;
    return bn_hint(bn_fail(err, BN_ERR_ARG, "no %s is given", what), err, "%s", hint);
}

/* ---- tokenizer ---- */

static bn_status tokenizer(struct bn_args *args, bn_error *err)
{
    const struct bn_train_options *o = args->fields;
    struct bn_buf file = {0};
    char hex[BN_SHA256_HEX];
    if (o->texts.n == 0) return missing(args, "text", "--text FILE", err);
    if (o->output == NULL) return missing(args, "output", "-o FILE", err);
    bn_cli_catch_interrupt();
    bn_status status = bn_train_learn(&file, o, args->quiet, err);
    if (status == BN_OK) bn_sha256_hex(file.data, file.len, hex);
    if (status == BN_OK) status = bn_file_write_atomic(o->output, file.data, file.len, err);
    if (status == BN_OK) printf("%s  %s\n", hex, o->output);
    bn_buf_release(&file);
    return status;
}

/* ---- train ---- */

static bn_status read_vocabulary(struct bn_train_run *run, bn_error *err)
{
    const struct bn_train_options *o = run->options;
    struct bn_buf *file = &run->texts.tokenizer_file;
    file->max = (size_t)1 << 32;
    if (o->tokenizer != NULL)
        BN_TRY(bn_file_read(o->tokenizer, file, err));
    else
        BN_TRY(bn_train_learn(file, o, run->args->quiet, err));
    bn_status status = bn_train_open_vocabulary(&run->texts, err);
    if (status != BN_OK && o->tokenizer != NULL) bn_error_name(err, o->tokenizer);
    return status;
}

/* What a checkpoint says about the run besides its settings. */
static bn_status describe(struct bn_train_run *run, const bn_json *data, bn_error *err)
{
    char hex[BN_SHA256_HEX];
    bn_train_put_origin(run->document);
    bn_json_put_copy(run->document, "data", data);
    bn_json *o = bn_json_put_object(run->document, "corpus");
    bn_json_put_string(o, "tokens_sha256", run->texts.main.sha256);
    bn_json_put_string(o, "late_tokens_sha256", run->texts.late.sha256);
    bn_json_put_string(o, "validation_tokens_sha256", run->texts.validation.sha256);
    bn_sha256_hex(run->texts.tokenizer_file.data, run->texts.tokenizer_file.len, hex);
    bn_json_put_string(o, "tokenizer_sha256", hex);
    bn_train_keep_file(run->document, NULL, run->args);
    bn_json_put_u64(run->document, "save_every", run->options->save_every);
    bn_json_put_u64(run->document, "validate_every", run->options->validate_every);
    return bn_json_is_complete(run->document) ? BN_OK : bn_nomem(err);
}

static void report_model(const struct bn_train_run *run)
{
    const struct bn_weights *w = &run->trainer.weights;
    char ranks[32] = "";
    if (run->ranks.count > 1) snprintf(ranks, sizeof ranks, "%u ranks, ", run->ranks.count);
    bn_report_note(
        0, "%u layer%s of %u, vocabulary %u: %.2f M ternary weights, %.2f M in the embedding; %s%u %s",
        w->hp.n_layer, bn_cli_s(w->hp.n_layer), w->hp.n_embd, w->hp.n_vocab,
        (double)bn_weights_count(w, BN_PARAM_TERNARY) * 1e-6,
        (double)bn_weights_count(w, BN_PARAM_EMBEDDING) * 1e-6, ranks, bn_team_size(run->trainer.team),
        bn_team_size(run->trainer.team) == 1 ? "thread" : "threads");
    bn_report_note(0, "%.2f M tokens of text, %.1f epochs; products by %s", (double)run->texts.main.n * 1e-6,
                   (double)run->trainer.settings.schedule.n_steps *
                       (double)bn_train_step_tokens(&run->trainer.settings) / (double)run->texts.main.n,
                   bn_blas_core());
}

static bn_status check_corpora(const struct bn_train_run *run, bn_error *err)
{
    size_t n = run->trainer.settings.hp.n_ctx;
    if (bn_corpus_windows(&run->texts.main, n) == 0 ||
        (run->texts.late.n > 0 && bn_corpus_windows(&run->texts.late, n) == 0))
        return bn_hint(bn_fail(err, BN_ERR_ARG, "a text of %zu tokens is too short for windows of %zu tokens",
                               run->texts.late.n > 0 ? run->texts.late.n : run->texts.main.n, n),
                       err, "a longer text, or a smaller --context");
    return BN_OK;
}

static bn_status start(struct bn_train_run *run, bn_error *err)
{
    struct bn_train_settings settings;
    const struct bn_train_options *o = run->options;
    BN_TRY(read_vocabulary(run, err));
    bn_json *data = bn_json_new_array();
    bn_status status = bn_train_read_texts(&run->texts, &run->texts.main, "text", &o->texts, data, err);
    if (status == BN_OK)
        status = bn_train_read_texts(&run->texts, &run->texts.late, "late", &o->late_texts, data, err);
    if (status == BN_OK)
        status = bn_train_read_texts(&run->texts, &run->texts.validation, "validation", &o->validations, data,
                                     err);
    run->document = bn_json_new_object();
    if (status == BN_OK) status = run->document != NULL ? describe(run, data, err) : bn_nomem(err);
    bn_json_free(data);
    if (status == BN_OK) status = bn_train_settings(&settings, o, run->texts.n_vocab, err);
    if (status == BN_OK)
        status = bn_trainer_open(&run->trainer, &settings, bn_cli_ranks_threads(o->threads), err);
    if (status == BN_OK) bn_train_settings_put(bn_json_put_object(run->document, "settings"), &settings);
    return status == BN_OK ? check_corpora(run, err) : status;
}

/* The run that is ready begins on all ranks. */
static bn_status begin(struct bn_train_run *run, bn_error *err)
{
    struct bn_export how = bn_train_export(&run->options->file);
    BN_TRY(bn_export_check(&run->trainer.weights, &how, err));
    report_model(run);
    BN_TRY(bn_train_lead(run, err));
    return bn_train_run(run, err);
}

/* Runs a command on rank 0, which may be the only one. */
static bn_status on_ranks(struct bn_args *args, bn_status (*command)(struct bn_train_run *run, bn_error *err),
                          bn_error *err)
{
    struct bn_train_run run = {.args = args, .options = args->fields};
    struct bn_ranks ranks;
    BN_TRY(bn_cli_ranks_open(&ranks, err));
    run.ranks = ranks;
    bn_status status = ranks.index == 0 ? command(&run, err) : bn_train_follow(&run, err);
    bn_train_run_release(&run);
    return bn_cli_ranks_close(&ranks, status, err);
}

static bn_status train_leader(struct bn_train_run *run, bn_error *err)
{
    const struct bn_train_options *o = run->options;
    struct stat st;
    char path[PATH_MAX];
    if (o->texts.n == 0) return missing(run->args, "text", "--text FILE", err);
    if (o->output == NULL) return missing(run->args, "output folder", "-o DIR", err);
    if (strstr(o->output, ".gguf") != NULL || (stat(o->output, &st) == 0 && !S_ISDIR(st.st_mode)))
        return bn_hint(bn_fail_in(err, BN_ERR_ARG, o->output, "-o is a folder, not a file"), err,
                       "the model is DIR/model.gguf; bn-train export -o FILE writes another one");
    snprintf(path, sizeof path, "%s/" BN_CHECKPOINT_NAME, o->output);
    if (access(path, F_OK) == 0)
        return bn_hint(bn_fail_in(err, BN_ERR_ARG, path, "the folder has the checkpoint of a run"), err,
                       "bn-train resume -o %s continues it; another -o starts a new run", o->output);
    BN_TRY(bn_file_make_folders(path, err));
    BN_TRY(start(run, err));
    return begin(run, err);
}

static bn_status train(struct bn_args *args, bn_error *err)
{
    return on_ranks(args, train_leader, err);
}

/* ---- resume ---- */

static bn_status continue_run(struct bn_train_run *run, const struct bn_checkpoint *c, bn_error *err)
{
    const char *core = bn_json_text_of(c->document, "library.core");
    run->texts.tokenizer_file.max = (size_t)1 << 32;
    bn_buf_append(&run->texts.tokenizer_file, c->tokenizer.ptr, c->tokenizer.len);
    BN_TRY(bn_buf_check(&run->texts.tokenizer_file, err));
    BN_TRY(bn_train_open_vocabulary(&run->texts, err));
    BN_TRY(bn_train_reread_texts(&run->texts, bn_json_get(c->document, "data"), err));
    BN_TRY(bn_trainer_open(&run->trainer, &c->settings, bn_cli_ranks_threads(run->options->threads), err));
    BN_TRY(bn_checkpoint_restore(c, &run->trainer, err));
    run->document = bn_json_new_object();
    for (const bn_json *m = bn_json_first(c->document); m != NULL; m = bn_json_next(m))
        bn_json_put_copy(run->document, bn_json_name(m), m);
    bn_train_keep_file(run->document, c->document, run->args);
    memcpy(run->sha256, c->sha256, sizeof run->sha256);
    run->saved = true;
    run->saved_step = c->step;
    if (strcmp(core, bn_blas_core()) != 0)
        bn_report_warning(
            "the run began with the products of core type %s; those of %s differ in their last bits", core,
            bn_blas_core());
    return bn_json_is_complete(run->document) ? check_corpora(run, err) : bn_nomem(err);
}

static bn_status resume_leader(struct bn_train_run *run, bn_error *err)
{
    const struct bn_train_options *o = run->options;
    struct bn_checkpoint checkpoint;
    char path[PATH_MAX];
    if (o->output == NULL) return missing(run->args, "output folder", "-o DIR", err);
    snprintf(path, sizeof path, "%s/" BN_CHECKPOINT_NAME, o->output);
    BN_TRY(bn_checkpoint_open(&checkpoint, path, err));
    bn_status status = continue_run(run, &checkpoint, err);
    bn_checkpoint_close(&checkpoint);
    return status == BN_OK ? begin(run, err) : status;
}

static bn_status resume(struct bn_args *args, bn_error *err)
{
    return on_ranks(args, resume_leader, err);
}

/* ---- export ---- */

static bn_status export(struct bn_args *args, bn_error *err)
{
    const struct bn_train_options *o = args->fields;
    struct bn_checkpoint c;
    struct bn_weights w;
    struct stat st;
    char path[PATH_MAX], hex[BN_SHA256_HEX];
    if (o->output == NULL) return missing(args, "output", "-o FILE", err);
    bool folder = stat(args->operands[0], &st) == 0 && S_ISDIR(st.st_mode);
    snprintf(path, sizeof path, "%s%s", args->operands[0], folder ? "/" BN_CHECKPOINT_NAME : "");
    BN_TRY(bn_checkpoint_open(&c, path, err));
    bn_status status = bn_weights_open(&w, &c.settings.hp, c.settings.group, err);
    if (status == BN_OK && w.n_values != c.n_values)
        status = bn_fail_in(err, BN_ERR_FORMAT, path, "the checkpoint has %zu values, its settings give %zu",
                            c.n_values, w.n_values);
    if (status == BN_OK) {
        memcpy(w.master, c.arrays, c.n_values * sizeof *w.master);
        bn_weights_ternarise(&w, NULL);
        status = bn_train_write_model(o->output, &w, c.tokenizer, &o->file, hex, err);
        bn_weights_close(&w);
    }
    if (status == BN_OK) printf("%s  %s\n", hex, o->output);
    bn_checkpoint_close(&c);
    return status;
}

/* ---- the program ---- */

static const struct bn_command COMMANDS[] = {
    {.name = "train",
     .summary = "train a model on text",
     .text =
         "Trains a ternary model from random weights: ternary weights with a scale for each matrix, activations of 8 "
         "bits, straight-through gradients (BitNet b1.58). DIR gets checkpoint.bntrain, which 'resume' continues, and "
         "at the end model.gguf and training.json (the record).\n\nThe same options, texts, program and core "
         "type of OpenBLAS give the same bits, with any number of threads and with any interruptions.\n\nUnder mpirun "
         "the processes share each step, with the same bits again. Rank 0 reads and writes all files.",
     .synopsis = "--text FILE... -o DIR [--validation FILE]",
     .options = {TEXTS, SHAPE, STEPS, RUN, MODEL_FILE},
     .json = true,
     .run = train,
     .divides = true,
     .examples = {{"bn-train train --text book.txt --steps 200 -o run", "a small model"},
                  {"bn-train train --text a.txt:2 --text b.txt --validation c.txt -o run",
                   "several texts, one twice"},
                  {"mpirun -np 4 --hostfile hosts bn-train train --text a.txt -o run", "on four machines"}}},
    {.name = "resume",
     .summary = "continue a run from its checkpoint",
     .text =
         "The texts that the checkpoint names have to be there with the same digests. The model file has the "
         "type, embedding, name and context that the run began with, unless their options are given.",
     .synopsis = "-o DIR [-t THREADS]",
     .options = {RUN, MODEL_FILE},
     .json = true,
     .run = resume,
     .divides = true,
     .examples = {{"bn-train resume -o run", "continue until the last step"}}},
    {.name = "export",
     .summary = "write a checkpoint's model as a GGUF file",
     .text =
         "CHECKPOINT is a file, or the folder of a run. All types store the same weights. A model that has read its "
         "texts several times is too sure of what comes next: --temperature divides its logits.",
     .synopsis = "CHECKPOINT -o FILE [--type TYPE]",
     .options = {EXPORT, MODEL_FILE},
     BN_OPERANDS(1, 1, "CHECKPOINT"),
     .run = export,
     .examples = {{"bn-train export run -o small.gguf --type tq1_0", "for llama.cpp too"}}},
    {.name = "bench",
     .summary = "time steps, for bn-bench train",
     .text =
         "Prints a line of JSON that describes the run. Then it does a step for each line of standard input and "
         "prints its times. At the end of the input it prints the memory and the digest of the weights. The text "
         "is random tokens. 'bn-bench train' runs this command and computes statistics.",
     .synopsis = "[--layers N] [--width N] [--batch N] [-t THREADS]",
     .options = {SHAPE, BENCH},
     .divides = true,
     .run = bn_train_bench,
     .examples = {{"yes '' | head -n 3 | bn-train bench", "the times of 3 steps"}}},
    {.name = "tokenizer",
     .summary = "learn a vocabulary from text",
     .text =
         "Byte-pair encoding over bytes. The result is a GGUF file without tensors, which 'train --tokenizer' and "
         "'bn-run tokenize' take. It depends on the texts alone, and not on their order.",
     .synopsis = "--text FILE... -o FILE [--vocab N]",
     .options = {TOKENIZER},
     .run = tokenizer,
     .examples = {{"bn-train tokenizer --text book.txt --vocab 4096 -o vocabulary.gguf", "4096 tokens"}}},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-train",
    .summary = BN_SUMMARY_TRAIN,
    .text =
        "Trains ternary (1.58-bit, BitNet) language models on the processor, and writes them as GGUF files.",
    .commands = COMMANDS,
    .bytes = sizeof(OF),
    .exits = {{"1", "the loss became infinite or not a number; the last checkpoint, if any, is kept"},
              {"3", "a text or the checkpoint does not exist"},
              {"4", "malformed checkpoint or vocabulary"},
              {"5", "the checkpoint is damaged, or a text has changed since the run began"},
              {"6", "a rank of an MPI run does not answer"},
              {"8", "the disk is full, or a file cannot be written"},
              {"9", "the type cannot store the weights; mpirun without bn-mpi.so"},
              {"130", "interrupted; a checkpoint was written"}},
    .environment = {{"OPENBLAS_CORETYPE", "code that the BLAS uses [the fastest that the processor runs]"},
                    {"BN_RANK_SILENCE", "seconds without a heartbeat that end an MPI run [7]; 0: any"},
                    {"BN_RANK_TIMEOUT", "seconds that ranks wait for a rank that is alive [600]; 0: any"}},
};

/* The BLAS starts threads of its own and chooses its code when it is loaded, and does not know newer processors. The
 * program starts again with one thread and a better choice. */
static void set_up_blas(char **argv)
{
    const char *core = getenv("OPENBLAS_CORETYPE") == NULL ? bn_blas_better_core() : NULL;
    const char *threads = getenv("OPENBLAS_NUM_THREADS");
    if (core == NULL && threads != NULL && strcmp(threads, "1") == 0) return;
    char path[PATH_MAX] = ""; /* not the link, which would name the process "exe" */
    if (readlink("/proc/self/exe", path, sizeof path - 1) > 0 &&
        (core == NULL || setenv("OPENBLAS_CORETYPE", core, 1) == 0) &&
        setenv("OPENBLAS_NUM_THREADS", "1", 1) == 0)
        execv(path, argv);
}

int main(int argc, char **argv)
{
    set_up_blas(argv);
    return bn_cli_main(&PROGRAM, argc, argv);
}
