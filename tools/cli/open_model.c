/* SPDX-License-Identifier: MIT
 *
 * See default_model.h. The bytes are in default_model.S.
 */
#include "tools/cli/default_model.h"

#include <string.h>

#include "base/error.h"

const char *bn_cli_model_name(const struct bn_args *args)
{
    const char *path = bn_opt_str(args, "model");
    return path != NULL ? path : BN_DEFAULT_MODEL_NAME;
}

/* --repack, for commands that have it; auto leaves the command's own choice. */
static bn_repack read_repack(const struct bn_args *args, bn_repack chosen)
{
    const char *name = bn_opt_exists(args, "repack") ? bn_opt_str(args, "repack") : "auto";
    if (strcmp(name, "auto") == 0) return chosen;
    return strcmp(name, "always") == 0 ? BN_REPACK_ALWAYS : BN_REPACK_NEVER;
}

bn_status bn_cli_open_model(bn_model **out, const struct bn_args *args, const bn_model_options *options,
                            bn_error *err)
{
    const char *path = bn_opt_str(args, "model");
    bn_model_options with = {0};
    *out = NULL;
    if (options != NULL) with = *options;
    with.repack = read_repack(args, with.repack);
    if (bn_opt_exists(args, "isa")) {
        const char *isa = bn_opt_str(args, "isa");
        if (isa != NULL) BN_TRY(bn_isa_select(isa, err));
    }
    if (path == NULL)
        return bn_model_open_memory(out, bn_default_model_data, (size_t)bn_default_model_bytes,
                                    BN_DEFAULT_MODEL_NAME, &with, err);
    bn_status status = bn_model_open(out, path, &with, err);
    if (status == BN_ERR_NOT_FOUND)
        bn_error_hint(err, "leave --model out to use the model that the program carries");
    return status;
}
