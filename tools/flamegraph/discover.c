/* SPDX-License-Identifier: MIT
 *
 * See discover.h.
 */
#include "tools/flamegraph/discover.h"

#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "hub/cache.h"
#include "tools/cli/default_model.h"

static const char *const PLACES[] = {
    "models/microsoft-bitnet-b1.58-2B-4T-gguf/ggml-model-i2_s.gguf",
    "models/ggml-model-i2_s.gguf",
    "./ggml-model-i2_s.gguf",
};

static bn_status take_named(char **path, const char *text, bn_error *err)
{
    BN_TRY(bn_cli_model_path(path, text, err));
    if (access(*path, R_OK) == 0) return BN_OK;
    bn_free(*path);
    *path = NULL;
    bn_fail_at(err, BN_ERR_NOT_FOUND, BN_NO_OFFSET, text, "there is no such model");
    bn_error_hint(err, "fetch one: bn-download " BN_FLAMEGRAPH_MODEL);
    return BN_ERR_NOT_FOUND;
}

static bn_status keep(char **path, const char *text, bn_error *err)
{
    *path = bn_strndup(text, strlen(text));
    return *path != NULL ? BN_OK : bn_nomem(err);
}

bn_status bn_flamegraph_find_model(char **path, char why[200], const struct bn_args *args,
                                   const char *operand, bn_error *err)
{
    const char *option = bn_opt_str(args, "model");
    bn_error nothing = {0};
    *path = NULL;
    if (operand != NULL && strcmp(operand, "-") != 0) {
        snprintf(why, 200, "it was named");
        return take_named(path, operand, err);
    }
    if (option != NULL) {
        snprintf(why, 200, "by --model or BN_MODEL");
        return take_named(path, option, err);
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(PLACES); i++) {
        if (access(PLACES[i], R_OK) != 0) continue;
        snprintf(why, 200, "none was named, and it is there");
        return keep(path, PLACES[i], err);
    }
    if (bn_hub_locate(path, BN_FLAMEGRAPH_MODEL, &nothing) == BN_OK) {
        snprintf(why, 200, "none was named, and bn-download has fetched " BN_FLAMEGRAPH_MODEL);
        return BN_OK;
    }
    snprintf(why, 200, "none was named, and none is in models/, here, or in the cache of bn-download");
    return BN_OK;
}
