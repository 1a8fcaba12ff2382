/* SPDX-License-Identifier: MIT
 *
 * Reads the input text of a command; see text.h.
 */
#define _POSIX_C_SOURCE 200809L
#include "tools/cli/text.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "tools/cli/fields.h"

/* A terminal or /dev/null gives no text; a pipe, a file or a socket does. */
static bool input_is_piped(void)
{
    struct stat st;
    return fstat(STDIN_FILENO, &st) == 0 &&
           (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode));
}

struct source {
    const char *text, *file; /* one of them, or none */
};

static bn_status find_text(struct source *source, const struct bn_args *args, bool ids, bn_error *err)
{
    const char *argument = args->command->operand_is_text && args->n_operands > 0 ? args->operands[0] : NULL;
    *source = (struct source){args->prompt, args->file};
    if ((source->text != NULL) + (source->file != NULL) + (argument != NULL) > 1) {
        char prompt[BN_TYPED], file[BN_TYPED];
        bn_args_typed(args, &args->prompt, prompt);
        bn_args_typed(args, &args->file, file);
        if (argument == NULL) return bn_fail(err, BN_ERR_ARG, "%s and %s both give a text", prompt, file);
        return bn_fail(err, BN_ERR_ARG, "%s and the argument both give a text",
                       source->text != NULL ? prompt : file);
    }
    if (argument != NULL && access(argument, F_OK) == 0)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "'%s' is a file, not a text",
                               bn_fields_quote(argument, strlen(argument)).text),
                       err, "-m MODEL selects a model, -f FILE reads a text, -p TEXT gives one");
    if (argument != NULL) source->text = argument;
    if (source->text == NULL && source->file == NULL && input_is_piped()) source->file = "-";
    if (source->text != NULL || source->file != NULL) return BN_OK;
    return bn_hint(bn_fail(err, BN_ERR_ARG, "no text is given"), err,
                   "-p TEXT, or -f FILE (- is standard input)%s", ids ? ", or --tokens IDS" : "");
}

bn_status bn_cli_text(const struct bn_args *args, const struct bn_id_list *ids, struct bn_buf *text,
                      bn_error *err)
{
    struct source source;
    BN_TRY(find_text(&source, args, ids != NULL, err));
    if (source.file != NULL) BN_TRY(bn_file_read(source.file, text, err));
    bn_buf_puts(text, source.file != NULL ? "" : source.text); /* an empty file is a text too */
    return bn_buf_check(text, err);
}

bn_status bn_cli_text_check(struct bn_args *args, const struct bn_id_list *ids, bn_error *err)
{
    struct source source;
    if (ids != NULL && ids->n > 0) return BN_OK;
    bn_status status = find_text(&source, args, ids != NULL, err);
    args->want_usage = source.text == NULL && source.file == NULL;
    return status;
}

bn_status bn_cli_tokenizer(const bn_model *model, const bn_tokenizer **out, bn_error *err)
{
    *out = bn_model_tokenizer(model);
    if (*out != NULL) return BN_OK;
    return bn_hint(bn_fail(err, BN_ERR_UNSUPPORTED, "the model's file has no vocabulary"), err,
                   "give token ids with --tokens");
}

bn_status bn_cli_set_thinking(bn_template *tmpl, enum bn_cli_think think, bn_error *err)
{
    if (think == BN_CLI_THINK_AUTO) return BN_OK;
    *tmpl = bn_template_set_thinking(*tmpl, think == BN_CLI_THINK_ON);
    if (think == BN_CLI_THINK_OFF || bn_template_thinking(*tmpl) == BN_THINKING_ON) return BN_OK;
    bn_fail(err, BN_ERR_ARG, "--think on: the template %s has no thinking", bn_template_name(*tmpl));
    bn_error_hint(err, "the templates qwen3 and qwen35 have it; --template selects one");
    return BN_ERR_ARG;
}

const char *bn_cli_s(uint64_t n)
{
    return n == 1 ? "" : "s";
}
