/* SPDX-License-Identifier: MIT
 *
 * See text.h.
 */
#include "tools/cli/text.h"

#include "base/error.h"
#include "base/file.h"

bn_status bn_cli_text(const struct bn_args *args, struct bn_buf *text, bn_error *err)
{
    const char *prompt = bn_opt_str(args, "prompt"), *file = bn_opt_str(args, "file");
    if ((prompt != NULL) == (file != NULL)) {
        bn_fail(err, BN_ERR_ARG, prompt != NULL ? "both --prompt and --file are given" : "no text is given");
        bn_error_hint(err, "-p TEXT, or -f FILE (- is standard input)%s",
                      bn_opt_exists(args, "tokens") ? ", or --tokens IDS" : "");
        return BN_ERR_ARG;
    }
    if (file != NULL) BN_TRY(bn_file_read(file, text, err));
    bn_buf_puts(text, file != NULL ? "" : prompt); /* an empty file is a text too */
    return bn_buf_check(text, err);
}

bn_status bn_cli_tokenizer(const bn_model *model, const bn_tokenizer **out, bn_error *err)
{
    *out = bn_model_tokenizer(model);
    if (*out != NULL) return BN_OK;
    bn_fail(err, BN_ERR_UNSUPPORTED, "the model's file has no vocabulary");
    bn_error_hint(err, "give token ids with --tokens");
    return BN_ERR_UNSUPPORTED;
}
