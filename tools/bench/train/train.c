/* SPDX-License-Identifier: MIT
 *
 * bn-bench train: the command. Each combination of the lists is a process of bn-train; in each round every one does a
 * step, in turn, and the float peak is measured before. So a change of the machine affects all of them.
 */
#define _POSIX_C_SOURCE 200809L
#include "tools/bench/train/train.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/kit/process.h"
#include "mpi/ranks.h"
#include "tools/cli/progress.h"

#define PEAK_NS 20000000u /* for a measurement of the float peak */
#define TOKENS_PER_THREAD 2048u
#define SCHEMA "bn.training/1"
#define WAIT_NS 600000000000u /* for one answer */

const struct bn_option bn_bench_train_options[] = {
    BN_OPTION("shape", "layers, width, feed-forward width [6x256x768]", .arg = "LxWIDTH[xFFN]",
              .group = "Model", .repeatable = true, BN_TO_TEXTS(struct bn_bench_options, shapes)),
    BN_OPTION("vocab", "number of tokens in the vocabulary", .arg = "N", .group = "Model", .preset = "4096",
              BN_TO_U32(struct bn_bench_options, vocab, 2, 1u << 20)),
    BN_OPTION("arch", "architecture", .arg = "bitnet-b1.58|qwen3", .group = "Model", .preset = "bitnet-b1.58",
              .rare = true, BN_TO_TEXT(struct bn_bench_options, arch)),
    BN_OPTION("group", "weights that share a scale; 0: a whole matrix", .arg = "0|64|128|256",
              .group = "Model", .preset = "0", .rare = true, BN_TO_TEXT(struct bn_bench_options, group)),
    BN_OPTION("context", "tokens of a training window", .arg = "LIST", .group = "Tests", .preset = "256",
              BN_TO_LIST(struct bn_bench_options, contexts, 8, 65536)),
    BN_OPTION("batch", "tokens of a step [2048 for each thread]", .arg = "LIST", .group = "Tests",
              BN_TO_LIST(struct bn_bench_options, batches, 8, 1u << 30)),
    BN_OPTION("micro-batch", "tokens of a micro-batch, one thread's work", .arg = "N", .group = "Tests",
              .preset = "2048", .rare = true, BN_TO_U32(struct bn_bench_options, micro_batch, 8, 1u << 30)),
    BN_OPTION("reps", "steps of each test that count", .letter = 'r', .arg = "N", .group = "Tests",
              .preset = "20", BN_TO_U32(struct bn_bench_options, reps, 1, 1000)),
    BN_OPTION("warmup", "steps before them", .arg = "N", .group = "Tests", .preset = "2", .rare = true,
              BN_TO_U32(struct bn_bench_options, warmup, 0, 1000)),
    BN_OPTION("seed", "seed of weights and tokens", .arg = "N", .group = "Tests", .preset = "42",
              .rare = true, BN_TO_U64(struct bn_bench_options, seed, 0, 9e15)),
    BN_BENCH_THREADS,
    {0},
};

struct job {
    struct bn_harness h;
    struct bn_train_result *list;
    size_t n;
    struct bn_progress progress;
};

/* ---- the combinations ---- */

/* "6x256", "6x256x1024". */
static bn_status read_shape(struct bn_train_result *r, const char *typed, bn_error *err)
{
    int n = 0;
    int read = sscanf(typed, "%5ux%5u%nx%5u%n", &r->layers, &r->width, &n, &r->ffn, &n);
    if (read == 2) r->ffn = 3 * r->width;
    if (read < 2 || typed[n] != '\0' || strspn(typed, "0123456789x") != strlen(typed) || r->layers == 0 ||
        r->width == 0 || r->ffn == 0)
        return bn_hint(
            bn_fail(err, BN_ERR_ARG, "--shape: '%.40s' is not LAYERSxWIDTH or LAYERSxWIDTHxFFN", typed), err,
            "--shape 6x256");
    snprintf(r->shape, sizeof r->shape, "%ux%ux%u", r->layers, r->width, r->ffn);
    return BN_OK;
}

static unsigned n_ranks(void)
{
    return bn_ranks_told() > 1 ? bn_ranks_told() : 1;
}

/* Lists that were not given. */
static bn_status preset(struct bn_bench_options *o, bn_error *err)
{
    BN_TRY(bn_bench_threads(&o->threads, err));
    if (o->shapes.n == 0) {
        BN_TRY(BN_NEW(o->shapes.list, 2, err));
        o->shapes.list[o->shapes.n++] = "6x256";
    }
    if (o->batches.n > 0) return BN_OK;
    BN_TRY(BN_NEW(o->batches.list, 1, err));
    o->batches.n = 1;
    for (size_t i = 0; i < o->threads.n; i++)
        if (TOKENS_PER_THREAD * n_ranks() * o->threads.list[i] > o->batches.list[0])
            o->batches.list[0] = TOKENS_PER_THREAD * n_ranks() * o->threads.list[i];
    return BN_OK;
}

/* The i-th combination: shapes, then contexts, batches, threads. */
static bn_status add_result(struct job *job, size_t i, bn_error *err)
{
    const struct bn_bench_options *o = job->h.o;
    struct bn_train_result *r = &job->list[job->n];
    size_t n_batches = o->batches.n * o->threads.n, n_contexts = o->contexts.n * n_batches;
    *r = (struct bn_train_result){.context = o->contexts.list[i / n_batches % o->contexts.n],
                                  .batch = o->batches.list[i / o->threads.n % o->batches.n],
                                  .n_threads = o->threads.list[i % o->threads.n],
                                  .n_ranks = n_ranks(),
                                  .n_warmup = o->warmup,
                                  .n = o->warmup + o->reps};
    BN_TRY(read_shape(r, o->shapes.list[i / n_contexts], err));
    snprintf(r->name, sizeof r->name, "%s c=%u b=%u t=%u", r->shape, r->context, r->batch, r->n_threads);
    for (size_t k = 0; k < job->n; k++) {
        const struct bn_train_result *other = &job->list[k];
        if (strcmp(other->name, r->name) == 0)
            return bn_fail(err, BN_ERR_ARG, "the test '%s' is a duplicate", r->name);
        if (r->like == NULL && other->context == r->context && other->batch == r->batch &&
            strcmp(other->shape, r->shape) == 0)
            r->like = other;
    }
    BN_TRY(BN_NEW(r->samples, r->n, err));
    job->n++;
    return BN_OK;
}

static bn_status combine(struct job *job, bn_error *err)
{
    const struct bn_bench_options *o = job->h.o;
    size_t n = o->shapes.n * o->contexts.n * o->batches.n * o->threads.n;
    BN_TRY(BN_NEW(job->list, n, err));
    for (size_t i = 0; i < n; i++)
        BN_TRY(add_result(job, i, err));
    if (n_ranks() == 1 || (n == 1 && o->batches.list[0] / o->micro_batch >= n_ranks())) return BN_OK;
    return bn_hint(
        bn_fail(err, BN_ERR_ARG, "%u ranks measure one test, with a micro-batch or more for each", n_ranks()),
        err, "one shape, context, batch and number of threads; a larger --batch, or a smaller --micro-batch");
}

/* ---- processes: a line feed asks one for a step, and each of its answers is a line of JSON ---- */

/* The next line of the process. */
static bn_status read_answer(struct bn_trainee *t, bn_json **out, bn_error *err)
{
    struct bn_buf line = {.max = 1u << 20};
    bn_status status = bn_child_read_line(t->child, &line, bn_clock_ns() + WAIT_NS, err);
    if (status == BN_OK) status = bn_json_parse(out, line.data, line.len, err);
    if (status != BN_OK && status != BN_ERR_CANCELLED) bn_error_name(err, "bn-train");
    bn_buf_release(&line);
    return status;
}

/* What the process wrote before it ended: its first line, without "bn-train: error: ". */
static bn_status refused(struct bn_trainee *t, bn_error *err)
{
    const char *text = bn_child_stderr(t->child), *message = strstr(text, "error: ");
    if (message == NULL) return BN_ERR_MISMATCH;
    message += strlen("error: ");
    *err = (bn_error){0};
    return bn_fail_in(err, BN_ERR_ARG, "bn-train", "%.*s", (int)strcspn(message, "\n"), message);
}

/* The message of a rank that ends all of them comes from bn-train. */
static void pass_on(void *user, const char *bytes, size_t n)
{
    (void)user;
    fwrite(bytes, 1, n, stderr);
}

/* On a rank after the first, this process becomes bn-train, which follows the first one's. */
static bn_status trainee_start(struct bn_trainee *t, const char *const *argv, bn_error *err)
{
    if (bn_ranks_told_index() > 0) {
        execv(argv[0], (char *const *)(uintptr_t)argv);
        return bn_fail_errno(err, errno, argv[0], "cannot start");
    }
    struct bn_child_options options = {.argv = argv, .cancelled = bn_cli_is_interrupted};
    if (bn_ranks_told() > 1) options.on_stderr = pass_on;
    BN_TRY(bn_child_start(&t->child, &options, err));
    bn_status status = read_answer(t, &t->run, err);
    if (status == BN_ERR_MISMATCH) return refused(t, err);
    if (status == BN_OK && !bn_json_text_is(t->run, "schema", SCHEMA))
        status = bn_fail_in(err, BN_ERR_FORMAT, argv[0], "the schema is '%.40s', expected " SCHEMA,
                            bn_json_text_of(t->run, "schema"));
    return status;
}

static bn_status read_step(struct bn_trainee_step *s, const bn_json *answer, bn_error *err)
{
    const struct {
        const char *name;
        uint64_t *to;
    } TIMES[] = {{"ns", &s->ns},
                 {"forward_ns", &s->forward_ns},
                 {"backward_ns", &s->backward_ns},
                 {"reduce_ns", &s->reduce_ns},
                 {"passes_ns", &s->passes_ns},
                 {"optimiser_ns", &s->optimiser_ns}};
    for (size_t i = 0; i < BN_ARRAY_LEN(TIMES); i++)
        if (!bn_json_u64(bn_json_get(answer, TIMES[i].name), TIMES[i].to))
            return bn_fail_in(err, BN_ERR_FORMAT, "bn-train", "a step has no %s", TIMES[i].name);
    s->loss = bn_json_number_of(answer, "loss");
    s->exchange_bytes = bn_json_number_of(answer, "exchange_bytes");
    s->exchange_ns = bn_json_number_of(answer, "exchange_ns");
    return BN_OK;
}

static bn_status trainee_step(struct bn_trainee *t, struct bn_trainee_step *step, bn_error *err)
{
    bn_json *answer = NULL;
    BN_TRY(bn_child_write(t->child, "\n", 1, bn_clock_ns() + WAIT_NS, err));
    bn_status status = read_answer(t, &answer, err);
    if (status == BN_OK) status = read_step(step, answer, err);
    bn_json_free(answer);
    return status;
}

/* Ends it. */
static bn_status trainee_finish(struct bn_trainee *t, bn_error *err)
{
    bn_child_end_input(t->child);
    BN_TRY(read_answer(t, &t->end, err));
    return bn_child_finish(t->child, bn_clock_ns() + WAIT_NS, err);
}

static bn_status start(struct bn_train_result *r, const struct bn_bench_options *o, bn_error *err)
{
    char program[PATH_MAX], arch[48], group[48], words[9][48];
    const char *argv[14] = {program, "bench", arch, group};
    const struct bn_named_count NUMBERS[] = {{"layers", r->layers},     {"width", r->width},
                                             {"ffn", r->ffn},           {"vocab", o->vocab},
                                             {"context", r->context},   {"batch", r->batch},
                                             {"threads", r->n_threads}, {"micro-batch", o->micro_batch},
                                             {"seed", o->seed}};
    snprintf(arch, sizeof arch, "--arch=%s", o->arch);
    snprintf(group, sizeof group, "--group=%s", o->group);
    for (size_t i = 0; i < BN_ARRAY_LEN(NUMBERS); i++) {
        snprintf(words[i], sizeof words[i], "--%s=%llu", NUMBERS[i].name,
                 (unsigned long long)NUMBERS[i].value);
        argv[i + 4] = words[i];
    }
    if (!bn_program_near(program, "", "bn-train"))
        return bn_hint(bn_fail(err, BN_ERR_UNSUPPORTED, "bn-train is not next to this program"), err,
                       "install OpenBLAS (Debian: libopenblas-dev), and build again");
    BN_TRY(trainee_start(&r->trainee, argv, err));
    const bn_json *run = r->trainee.run;
    r->flop = bn_json_number_of(run, "flop_per_token");
    double pairs = 12.0 * r->layers * r->context * bn_json_number_of(run, "settings.heads") *
                   bn_json_number_of(run, "settings.head_width");
    r->least_flop = r->flop - pairs / 2;
    if (!(r->least_flop > 0)) return bn_fail(err, BN_ERR_FORMAT, "bn-train did not describe the run");
    return BN_OK;
}

/* ---- rounds ---- */

static bn_status measure_peak(unsigned n_threads, uint64_t budget_ns, double *flop, bn_error *err)
{
    struct bn_bench_limit limit = {
        .kind = BN_LIMIT_FLOAT, .n_threads = n_threads, .kernels = bn_kernels_find("auto")};
    BN_TRY(bn_bench_limit_measure(&limit, budget_ns, err));
    *flop = 2 * limit.rate * n_ranks(); /* the others are taken to be as fast */
    return BN_OK;
}

/* The peak of each number of threads in a round. */
static bn_status measure_peaks(struct job *job, size_t round, bn_error *err)
{
    for (size_t i = 0; i < job->n; i++) {
        struct bn_train_result *r = &job->list[i];
        double peak = 0;
        for (size_t k = 0; k < i && peak <= 0; k++)
            if (job->list[k].n_threads == r->n_threads) peak = job->list[k].samples[round].peak;
        if (peak <= 0) BN_TRY(measure_peak(r->n_threads, PEAK_NS, &peak, err));
        r->samples[round].peak = peak;
        r->most_peak = fmax(r->most_peak, peak);
    }
    return BN_OK;
}

static bn_status run_rounds(struct job *job, bn_error *err)
{
    size_t n_rounds = job->list[0].n;
    for (size_t round = 0; round < n_rounds; round++) {
        BN_TRY(measure_peaks(job, round, err));
        for (size_t i = 0; i < job->n; i++) {
            struct bn_train_result *r = &job->list[round % 2 == 0 ? i : job->n - 1 - i];
            bn_progress_show(&job->progress, round * job->n + i);
            BN_TRY(trainee_step(&r->trainee, &r->samples[round].step, err));
        }
    }
    return BN_OK;
}

/* A peak that a rate exceeds was disturbed: it is measured again, longer, before a result is refused. */
static bn_status confirm_peaks(struct job *job, bn_error *err)
{
    char why[160];
    for (size_t i = 0; i < job->n; i++)
        for (unsigned k = 0; k < 3 && bn_train_refuses(why, &job->list[i]) != NULL; k++) {
            double peak = 0;
            BN_TRY(measure_peak(job->list[i].n_threads, 10 * PEAK_NS, &peak, err));
            job->list[i].most_peak = fmax(job->list[i].most_peak, peak);
        }
    return BN_OK;
}

/* ---- the command ---- */

static void put_settings(struct job *job)
{
    const struct bn_bench_options *o = job->h.o;
    bn_json *s = job->h.settings, *shapes = bn_json_put_array(s, "shapes");
    size_t n_each = job->n / o->shapes.n;
    for (size_t i = 0; i < o->shapes.n; i++)
        bn_json_add_string(shapes, job->list[i * n_each].shape);
    bn_bench_put_list(s, "context", &o->contexts);
    bn_bench_put_list(s, "batch", &o->batches);
    BN_PUT_COUNTS(s, {"vocab", o->vocab}, {"micro_batch", o->micro_batch}, {"reps", o->reps},
                  {"warmup", o->warmup}, {"seed", o->seed});
    BN_PUT_STRINGS(s, {"arch", o->arch}, {"group", o->group});
    if (n_ranks() > 1) bn_json_put_u64(s, "ranks", n_ranks());
}

static bn_status run(struct job *job, struct bn_args *args, bn_error *err)
{
    job->h.o = args->fields;
    BN_TRY(preset(job->h.o, err));
    bn_status status = combine(job, err);
    if (bn_ranks_told_index() > 0) {
        if (status == BN_OK) status = start(&job->list[0], job->h.o, err);
        sleep(1); /* what is wrong with the options is wrong on all ranks, and the first one says it */
        return status;
    }
    if (status == BN_OK) status = bn_harness_open(&job->h, args, "train", err);
    BN_TRY(status);
    job->h.matched = true;
    put_settings(job);
    bn_cli_catch_interrupt();
    for (size_t i = 0; i < job->n; i++)
        BN_TRY(start(&job->list[i], job->h.o, err));
    bn_progress_begin(&job->progress, "train", job->n * job->list[0].n, args->quiet);
    status = run_rounds(job, err);
    bn_progress_clear(&job->progress);
    for (size_t i = 0; i < job->n && status == BN_OK; i++)
        status = trainee_finish(&job->list[i].trainee, err);
    if (status == BN_OK) status = confirm_peaks(job, err);
    return status == BN_OK ? bn_train_report(&job->h, job->list, job->n, err) : status;
}

bn_status bn_bench_train(struct bn_args *args, bn_error *err)
{
    struct job job = {0};
    bn_status status = run(&job, args, err);
    for (size_t i = 0; i < job.n; i++) {
        const struct bn_train_result *r = &job.list[i];
        bn_child_close(r->trainee.child);
        bn_json_free(r->trainee.run);
        bn_json_free(r->trainee.end);
        bn_free(r->samples);
    }
    bn_free(job.list);
    return bn_harness_finish(&job.h, status, err);
}
