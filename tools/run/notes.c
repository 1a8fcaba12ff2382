/* SPDX-License-Identifier: MIT
 *
 * What bn-run reports about a run, on standard error and in documents: see run.h.
 */
#define _XOPEN_SOURCE 700 /* wcwidth */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/error.h"
#include "infer/session.h"
#include "lab/kit/put_counts.h"
#include "model/hparams.h"
#include "model/model.h"
#include "tools/cli/default_model.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/run/run.h"

void bn_run_note_model(const struct bn_args *args, const bn_model *model)
{
    const bn_hparams *hp = &model->hp;
    char name[200];
    const char *given = bn_cli_model_name(args);
    bn_report_note(1, "model %s: %s, %u layers of %u, vocabulary of %u, %.1f MiB",
                   bn_escape(name, sizeof name, given, strlen(given)), hp->arch, hp->n_layer, hp->n_embd,
                   hp->n_vocab, (double)model->n_bytes / 0x1p20);
    const bn_device_info *d = bn_model_device(model);
    if (d != NULL)
        bn_report_note(1, "device %s: %s, %s, driver %s; %.1f MiB of its memory in use", d->id, d->name,
                       d->platform, d->driver, (double)bn_device_bytes(model->device) / 0x1p20);
}

void bn_run_note_sampling(bn_template tmpl, const bn_sampler_options *s)
{
    if (s->temperature > 0.0f)
        bn_report_note(
            1, "template %s; temperature %g, top-k %u, top-p %g, min-p %g, repeat penalty %g, seed %llu",
            bn_template_name(tmpl), (double)s->temperature, s->top_k, (double)s->top_p, (double)s->min_p,
            (double)s->repeat_penalty, (unsigned long long)s->seed);
    else
        bn_report_note(1, "template %s; greedy: the best token each time", bn_template_name(tmpl));
}

void bn_run_note_kernels(const bn_session *session)
{
    bn_kernel_stat k;
    for (size_t i = 0; bn_session_kernel_stat(session, i, &k); i++)
        bn_report_note(2, "%-28s %8llu call%s %10.3f ms", k.name, (unsigned long long)k.calls,
                       k.calls == 1 ? " " : "s", (double)k.ns / 1e6);
}

void bn_run_note_ranks(const struct bn_generation *gen)
{
    const bn_rank_stat *r = &gen->ranks;
    if (r->ranks == 0 || gen->work.tokens == 0 || gen->total_ns == 0) return;
    double n_tokens = (double)gen->work.tokens;
    bn_report_note(0, "%u ranks: %.3g MB per token in %llu exchanges, %.1f %% of the time", r->ranks,
                   (double)r->bytes / 1e6 / n_tokens, (unsigned long long)r->exchanges,
                   100.0 * (double)r->ns / (double)gen->total_ns);
}

double bn_run_rate(size_t n, uint64_t ns)
{
    return ns > 0 ? (double)n * 1e9 / (double)ns : 0.0;
}

const char *bn_run_rates(char out[BN_RUN_RATES], const struct bn_generation *gen)
{
    char prompt[32] = "", decode[32] = "", cached[32] = "";
    size_t n_evaluated = gen->n_prompt - gen->n_cached;
    if (gen->n_cached > 0) snprintf(cached, sizeof cached, " (%zu cached)", gen->n_cached);
    if (n_evaluated > 1)
        snprintf(prompt, sizeof prompt, " at %.1f tok/s", bn_run_rate(n_evaluated, gen->prefill_ns));
    if (gen->n_ids > 1)
        snprintf(decode, sizeof decode, " at %.1f tok/s", bn_run_rate(gen->n_ids - 1, gen->decode_ns));
    snprintf(out, BN_RUN_RATES, "prompt %zu token%s%s%s, then %zu token%s%s", gen->n_prompt,
             bn_cli_s(gen->n_prompt), cached, prompt, gen->n_ids, bn_cli_s(gen->n_ids), decode);
    return out;
}

/* ---- documents ---- */

void bn_run_put_answer(bn_json *o, const struct bn_generation *gen)
{
    BN_PUT(o, BN_U64("prompt_tokens", gen->n_prompt), BN_U64("cached_tokens", gen->n_cached));
    bn_json_put_ids(o, "ids", gen->ids, gen->n_ids);
    BN_PUT(o, BN_STRING("stop", bn_stop_reason_name(gen->reason)), BN_STRING("chain", gen->chain));
    if (gen->logprobs != NULL) bn_json_put_numbers(o, "logprobs", gen->logprobs, gen->n_ids);
    /* --show-top: for each step an array of {id, logit}, best first. */
    bn_json *steps = gen->n_top > 0 ? bn_json_put_array(o, "top") : NULL;
    for (size_t i = 0; i < gen->n_ids && steps != NULL; i++) {
        const bn_candidate *row = &gen->top[i * gen->n_top];
        bn_json *step = bn_json_add_array(steps);
        for (size_t k = 0; k < gen->n_top && row[k].id >= 0; k++) {
            bn_json *one = bn_json_add_object(step);
            BN_PUT(one, BN_U64("id", (uint64_t)row[k].id), BN_NUMBER("logit", (double)row[k].logit));
        }
    }
}

void bn_run_put_times(bn_json *o, const struct bn_generation *gen)
{
    BN_PUT(
        o, BN_U64("prefill_ns", gen->prefill_ns), BN_U64("decode_ns", gen->decode_ns),
        BN_U64("total_ns", gen->total_ns),
        BN_NUMBER("prefill_tokens_per_second", bn_run_rate(gen->n_prompt - gen->n_cached, gen->prefill_ns)),
        BN_NUMBER("decode_tokens_per_second",
                  bn_run_rate(gen->n_ids > 1 ? gen->n_ids - 1 : 0, gen->decode_ns)));
}

struct bn_receipt_input bn_run_receipt(const struct bn_args *args, const struct bn_run_engine *engine,
                                       const struct bn_generation *gen, const struct bn_prompt *prompt,
                                       bn_template tmpl, struct bn_receipt_facts *facts)
{
    const struct bn_run_options *o = args->fields;
    if (prompt->text == NULL) tmpl = BN_TEMPLATE_RAW; /* tokens were given */
    return (struct bn_receipt_input){.model = engine->model,
                                     .session = engine->session,
                                     .generation = gen,
                                     .model_name = bn_cli_model_name(args),
                                     .prompt = prompt->text,
                                     .n_prompt_bytes = prompt->n_bytes,
                                     .template_name = bn_template_name(tmpl),
                                     .thinking = bn_template_thinking(tmpl),
                                     .isa = args->isa,
                                     .load_ns = engine->load_ns,
                                     .show_text = o->receipt_text,
                                     .n_threads = o->n_threads,
                                     .n_ctx = o->n_ctx,
                                     .n_batch = o->n_batch,
                                     .facts = facts};
}

/* ---- tensors ---- */

void bn_run_count_dispatch(void *user, const void *weights, enum bn_kernel kernel)
{
    struct bn_run_dispatch *d = user;
    struct bn_run_dispatched *list = d->list;
    for (size_t i = 0; i < d->n; i++) {
        d->at = (d->at + 1) % d->n;
        if (list[d->at].weights != weights || list[d->at].kernel != kernel) continue;
        list[d->at].calls++;
        return;
    }
    list = bn_realloc(list, d->n + 1, sizeof *list);
    d->failed |= list == NULL;
    if (list == NULL) return;
    d->list = list;
    d->at = d->n++;
    list[d->at] = (struct bn_run_dispatched){weights, kernel, 1};
}

static void name_weights(char name[BN_PART_NAME_ROOM], const struct bn_model *m, const void *weights)
{
    bool head = weights == &m->head && !m->hp.tied_head;
    snprintf(name, BN_PART_NAME_ROOM, "%s", head ? "output.weight" : "token_embd.weight");
    for (uint32_t l = 0; l < m->hp.n_layer; l++)
        for (const struct bn_layer_part *part = bn_parts; part->name != NULL; part++)
            if (weights == (const char *)&m->layers[l] + part->out && part->kind == BN_PART_LINEAR &&
                bn_part_is_in(part, &m->hp, l))
                bn_part_name(name, part, l);
}

void bn_run_print_dispatch(const struct bn_run_dispatch *d, const bn_session *session)
{
    const bn_model *model = session->model;
    bn_kernel_stat kernel = {.name = "none"};
    char name[BN_PART_NAME_ROOM];
    for (size_t i = 0; i < d->n; i++) {
        const struct bn_run_dispatched *one = &d->list[i];
        name_weights(name, model, one->weights);
        const struct bn_gguf_tensor *t = bn_gguf_find_tensor(&model->gguf, name);
        if (one->kernel < BN_KERNEL_COUNT) (void)bn_session_kernel_since(session, NULL, one->kernel, &kernel);
        fprintf(stderr, "quant_dispatch: tensor=%s type=%s kernel=%s calls=%llu\n", name,
                t != NULL ? bn_type_info(t->type)->name : "unknown", kernel.name,
                (unsigned long long)one->calls);
    }
    if (d->failed) bn_report_warning("--kernels: some tensors are missing, since memory was short");
}

/* ---- answers ---- */

/* A think block is at the beginning of an answer, after blanks; under some templates the prompt has opened it already.
 * Later tags are text. */

#define OPEN "<think>"
#define CLOSE "</think>"
#define DIM "\033[2m"
#define PLAIN "\033[0m"

/* By write, since stdio drops what it holds when a signal interrupts it. */
static void write_all(const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write(STDOUT_FILENO, text, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) break;
        text += done;
        n -= (size_t)done;
    }
    fwrite(text, 1, n, stdout); /* what cannot be written fails here too, and standard output remembers it */
}

void bn_run_print(const char *text, size_t n)
{
    bn_report_flush();
    if (isatty(STDOUT_FILENO) != 1) {
        write_all(text, n);
        return;
    }
    char one[5]; /* a terminal would obey control characters */
    for (size_t i = 0; i < n;) {
        i += bn_escape_char(one, text + i, n - i, BN_ESCAPE_TEXT);
        write_all(one, strlen(one));
    }
}

/* Columns of one character, as bn_escape_char wrote it. */
static size_t width_of(const char *one, size_t n)
{
    wchar_t c;
    mbstate_t state = {0};
    if ((unsigned char)one[0] < 0x80) return n;
    int width = mbrtowc(&c, one, n, &state) == n ? wcwidth(c) : 1;
    return width < 0 ? 1 : (size_t)width;
}

/* Begins a line, to which the word that does not fit moves, if it is not as long as the line. */
static void wrap_line(struct bn_run_answer *a)
{
    char clear[48] = "\n";
    bool moves = a->start > 0 && a->n_word > 0;
    if (moves) snprintf(clear, sizeof clear, "\033[%zuG\033[K\n", a->start + 1);
    write_all(clear, strlen(clear));
    if (moves) write_all(a->word, a->n_word);
    if (!moves) a->n_word = 0;
    a->at = moves ? a->at - a->start : 0;
    a->start = 0;
}

static void print_piece(struct bn_run_answer *a, const char *text, size_t n)
{
    char one[5];
    bn_report_flush();
    if (a->columns == 0) bn_run_print(text, n);
    for (size_t i = 0; i < n && a->columns > 0;) {
        i += bn_escape_char(one, text + i, n - i, BN_ESCAPE_TEXT);
        size_t length = strlen(one), width = one[0] == '\n' || one[0] == '\t' ? 0 : width_of(one, length);
        bool blank = one[0] == ' ' || (width == 0 && length == 1);
        if (blank) a->n_word = 0;
        if (a->at + width > a->columns) {
            wrap_line(a);
            if (blank) continue;
        }
        write_all(one, length);
        a->at += width;
        if (one[0] == '\n') a->at = 0;
        if (one[0] == '\t') a->at = bn_min_size((a->at | 7) + 1, a->columns);
        /* Wide characters are divided anywhere, and so is a word that is too long to be kept. */
        bool ends = blank || width > 1 || a->n_word + length > sizeof a->word;
        if (!ends) memcpy(a->word + a->n_word, one, length);
        a->n_word = ends ? 0 : a->n_word + length;
        if (ends) a->start = a->at;
    }
}

void bn_run_answer_start(struct bn_run_answer *answer, bn_template tmpl, bool wrap)
{
    struct winsize size;
    const char *term = getenv("TERM");
    *answer = (struct bn_run_answer){.place = BN_RUN_AFTER_THOUGHTS};
    bool moves = wrap && isatty(STDOUT_FILENO) == 1 && term != NULL && strcmp(term, "dumb") != 0;
    if (moves && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) answer->columns = size.ws_col;
    if (isatty(STDOUT_FILENO) != 1 || bn_template_thinking(tmpl) == BN_THINKING_NONE ||
        !bn_report_color(stdout))
        return;
    answer->place = tmpl == BN_TEMPLATE_QWEN35 ? BN_RUN_IN_THOUGHTS : BN_RUN_BEFORE_THOUGHTS;
    if (answer->place == BN_RUN_IN_THOUGHTS) write_all(DIM, strlen(DIM));
}

void bn_run_answer_print(struct bn_run_answer *a, const char *text, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i < n && a->place != BN_RUN_AFTER_THOUGHTS; i++) {
        bool before = a->place == BN_RUN_BEFORE_THOUGHTS;
        const char *tag = before ? OPEN : CLOSE;
        if (before && a->n_seen == 0 && (text[i] == ' ' || text[i] == '\n')) continue;
        a->n_seen = text[i] == tag[a->n_seen] ? a->n_seen + 1 : !before && text[i] == tag[0];
        if (before && a->n_seen == 0) a->place = BN_RUN_AFTER_THOUGHTS;
        if (tag[a->n_seen] != '\0') continue;
        print_piece(a, text + from, i + 1 - from);
        from = i + 1;
        write_all(before ? DIM : PLAIN, strlen(before ? DIM : PLAIN));
        a->place = before ? BN_RUN_IN_THOUGHTS : BN_RUN_AFTER_THOUGHTS;
        a->n_seen = 0;
    }
    print_piece(a, text + from, n - from);
}

void bn_run_answer_end(struct bn_run_answer *answer)
{
    if (answer->place == BN_RUN_IN_THOUGHTS) write_all(PLAIN, strlen(PLAIN));
    answer->place = BN_RUN_AFTER_THOUGHTS;
}
