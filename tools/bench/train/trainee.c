/* SPDX-License-Identifier: MIT
 *
 * The dialogue with bn-train: a line feed asks for a step, and each answer is a line of JSON.
 */
#include "tools/bench/train/train.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "lab/kit/child.h"
#include "lab/kit/process.h"
#include "mpi/ranks.h"
#include "tools/cli/report.h"

#define SCHEMA "bn.training/1"
#define WAIT_NS 600000000000u /* for one answer */
#define MOST_ARGUMENTS 32u

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

bn_status bn_trainee_start(struct bn_trainee *t, const char *const *arguments, bn_error *err)
{
    char program[PATH_MAX];
    const char *argv[MOST_ARGUMENTS + 3] = {program, "bench"};
    *t = (struct bn_trainee){0};
    for (size_t i = 0; i < MOST_ARGUMENTS && arguments[i] != NULL; i++)
        argv[i + 2] = arguments[i];
    if (!bn_program_near(program, "", "bn-train"))
        return bn_hint(bn_fail(err, BN_ERR_UNSUPPORTED, "bn-train is not next to this program"), err,
                       "install OpenBLAS (Debian: libopenblas-dev), and build again");
    if (bn_ranks_told_index() > 0) {
        execv(program, (char *const *)(uintptr_t)argv);
        return bn_fail_errno(err, errno, program, "cannot start");
    }
    struct bn_child_options options = {.argv = argv, .cancelled = bn_cli_is_interrupted};
    if (bn_ranks_told() > 1) options.on_stderr = pass_on;
    BN_TRY(bn_child_start(&t->child, &options, err));
    bn_status status = read_answer(t, &t->run, err);
    if (status == BN_ERR_MISMATCH) return refused(t, err);
    if (status == BN_OK && !bn_json_text_is(t->run, "schema", SCHEMA))
        status = bn_fail_in(err, BN_ERR_FORMAT, program, "the schema is '%.40s', expected " SCHEMA,
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

bn_status bn_trainee_step(struct bn_trainee *t, struct bn_trainee_step *step, bn_error *err)
{
    bn_json *answer = NULL;
    BN_TRY(bn_child_write(t->child, "\n", 1, bn_clock_ns() + WAIT_NS, err));
    bn_status status = read_answer(t, &answer, err);
    if (status == BN_OK) status = read_step(step, answer, err);
    bn_json_free(answer);
    return status;
}

bn_status bn_trainee_finish(struct bn_trainee *t, bn_error *err)
{
    bn_child_end_input(t->child);
    BN_TRY(read_answer(t, &t->end, err));
    return bn_child_finish(t->child, bn_clock_ns() + WAIT_NS, err);
}

void bn_trainee_close(struct bn_trainee *t)
{
    bn_child_close(t->child);
    bn_json_free(t->run);
    bn_json_free(t->end);
    *t = (struct bn_trainee){0};
}
