/* SPDX-License-Identifier: MIT
 *
 * The settings of a conversation, /set and /show. The numbers have the names and ranges that they have in the
 * requests of bn-run --batch-file and bn-serve.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/suggest.h"
#include "lab/kit/put_counts.h"
#include "tools/cli/default_model.h"
#include "tools/cli/number.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/run/chat/chat.h"

enum setting { N_PREDICT, TEMPERATURE, TOP_K, TOP_P, MIN_P, REPEAT, PRESENCE, FREQUENCY, SEED, STATS };

static const struct {
    const char *name, *alias, *help;
} SETTINGS[] = {
    [N_PREDICT] = {"n_predict", "max_tokens", "at most N tokens per answer; -1: unlimited"},
    [TEMPERATURE] = {"temperature", "temp", "0: always the most likely token"},
    [TOP_K] = {"top_k", NULL, "sample from the K most likely tokens; 0: from all"},
    [TOP_P] = {"top_p", NULL, "sample from the top tokens of total probability P"},
    [MIN_P] = {"min_p", NULL, "drop tokens less likely than P times the best one"},
    [REPEAT] = {"repeat_penalty", NULL, "make the last 64 tokens less likely; 1: off"},
    [PRESENCE] = {"presence_penalty", NULL, "subtracted from tokens of the answer; 0: off"},
    [FREQUENCY] = {"frequency_penalty", NULL, "the same, times their number; 0: off"},
    [SEED] = {"seed", NULL, "seed for sampling"},
    [STATS] = {"stats", NULL, "a line of statistics after each answer; on or off"},
};

const char *bn_chat_setting(size_t i)
{
    return i < BN_ARRAY_LEN(SETTINGS) ? SETTINGS[i].name : NULL;
}

void bn_chat_put_numbers(bn_json *object, const struct bn_generation *asked)
{
    const bn_sampler_options *s = &asked->sampling;
    if (asked->n_predict != UINT32_MAX) bn_json_put_u64(object, "n_predict", asked->n_predict);
    BN_PUT(object, BN_F32("temperature", s->temperature), BN_U64("top_k", s->top_k),
           BN_F32("top_p", s->top_p), BN_F32("min_p", s->min_p), BN_F32("repeat_penalty", s->repeat_penalty),
           BN_F32("presence_penalty", s->presence_penalty), BN_F32("frequency_penalty", s->frequency_penalty),
           BN_U64("seed", s->seed));
}

static void print_settings(const struct bn_chat *chat)
{
    bn_json *values = bn_json_new_object();
    bn_chat_put_numbers(values, &chat->asked);
    for (size_t i = 0; i < BN_ARRAY_LEN(SETTINGS); i++) {
        double value;
        char text[32];
        if (bn_json_number(bn_json_get(values, SETTINGS[i].name), &value))
            snprintf(text, sizeof text, "%.16g", value);
        else
            snprintf(text, sizeof text, "%s", i != STATS ? "-1" : chat->show_stats ? "on" : "off");
        fprintf(stderr, "  %-17s %-8s %s\n", SETTINGS[i].name, text, SETTINGS[i].help);
    }
    bn_json_free(values);
}

/* ---- /set ---- */

/* The setting of a name, with dashes as on the command line or with underscores. */
static bn_status find(const char *typed, size_t n, size_t *out, bn_error *err)
{
    char name[40];
    struct bn_suggestion s = {.typed = bn_escape(name, sizeof name, typed, n)};
    for (size_t i = 0; name[i] != '\0'; i++)
        if (name[i] == '-') name[i] = '_';
    for (size_t i = 0; i < BN_ARRAY_LEN(SETTINGS); i++) {
        const char *alias = SETTINGS[i].alias;
        *out = i;
        if (strcmp(name, SETTINGS[i].name) == 0 || (alias != NULL && strcmp(name, alias) == 0)) return BN_OK;
        bn_suggest(&s, SETTINGS[i].name);
    }
    bn_fail(err, BN_ERR_ARG, "unknown setting '%s'; /set lists them", name);
    if (s.best != NULL) bn_error_hint(err, "did you mean /set %s?", s.best);
    return BN_ERR_ARG;
}

static bn_status set_number(struct bn_chat *chat, const char *name, const char *text, bn_error *err)
{
    double value;
    char quoted[40];
    if (!bn_number_f64(text, &value))
        return bn_fail(err, BN_ERR_ARG, "%s takes a number (got '%s')", name,
                       bn_escape(quoted, sizeof quoted, text, strlen(text)));
    bn_status status = BN_OK;
    bn_json *one = bn_json_new_object();
    bn_json_put_number(one, name, value);
    const bn_json *member = bn_json_get(one, name);
    if (member == NULL)
        status = bn_nomem(err);
    else
        (void)bn_request_number(&chat->asked, member, &status, err);
    bn_json_free(one);
    return status;
}

bn_status bn_chat_set(struct bn_chat *chat, const char *text, bn_error *err)
{
    size_t n = strcspn(text, " "), i;
    const char *value = text + n + strspn(text + n, " ");
    bool on = strcmp(value, "on") == 0;
    if (n == 0) {
        print_settings(chat);
        return BN_OK;
    }
    BN_TRY(find(text, n, &i, err));
    if (value[0] == '\0')
        return bn_hint(bn_fail(err, BN_ERR_ARG, "%s needs a value", SETTINGS[i].name), err, "%s: %s",
                       SETTINGS[i].name, SETTINGS[i].help);
    if (i == STATS) {
        if (!on && strcmp(value, "off") != 0) return bn_fail(err, BN_ERR_ARG, "stats is on or off");
        chat->show_stats = on;
    } else {
        return set_number(chat, SETTINGS[i].name, value, err);
    }
    return BN_OK;
}

/* ---- /show ---- */

static void print_message(const char *before, const char *name, const struct bn_chat_turn *m)
{
    fprintf(stderr, "%s%s: ", before, name);
    bn_print_model_text(stderr, m->content, strlen(m->content));
    fputc('\n', stderr);
}

void bn_chat_print_context(const struct bn_chat *chat)
{
    size_t n_turns = bn_turns_count(&chat->talk);
    fprintf(stderr, "%zu turn%s, %u of %u tokens of the context\n", n_turns, bn_cli_s(n_turns),
            bn_session_position(chat->engine.session), bn_session_n_ctx(chat->engine.session));
}

bn_status bn_chat_show(struct bn_chat *chat, const char *text, bn_error *err)
{
    char name[200];
    const char *model = bn_cli_model_name(chat->args);
    uint32_t n_threads = bn_session_n_threads(chat->engine.session);
    if (strcmp(text, "chat") == 0) {
        for (size_t i = 0; i < chat->talk.n_turns; i++)
            print_message(i > 0 ? "\n" : "", chat->talk.turns[i].role, &chat->talk.turns[i]);
        return BN_OK;
    }
    if (text[0] != '\0') return bn_fail(err, BN_ERR_ARG, "the command /show takes chat, or no text");
    fprintf(stderr, "model %s, template %s, %u thread%s\n",
            bn_escape(name, sizeof name, model, strlen(model)), bn_template_name(chat->tmpl), n_threads,
            bn_cli_s(n_threads));
    bn_chat_print_context(chat);
    if (bn_talk_n_system(&chat->talk) > 0) print_message("", "system message", &chat->talk.turns[0]);
    print_settings(chat);
    return BN_OK;
}
