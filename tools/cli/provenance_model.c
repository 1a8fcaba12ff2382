/* SPDX-License-Identifier: MIT
 *
 * Puts the model into a document; in a file of its own because a program that calls it contains a model.
 */
#include "base/digest.h"
#include "base/error.h"
#include "base/mem.h"
#include "tools/cli/default_model.h"
#include "tools/cli/provenance.h"

bn_json *bn_cli_put_model(bn_json *document, const struct bn_args *args)
{
    char hex[BN_SHA256_HEX], *path = NULL;
    bn_error err = {0};
    bn_json *model = bn_json_put_object(document, "model");
    bn_json_put_object(model, "unavailable");
    bn_json_put_string(model, "name", bn_cli_model_name(args));
    if (bn_cli_model_path(&path, args->model, &err) != BN_OK)
        bn_json_put_unavailable(model, "sha256", err.msg);
    else if (path != NULL)
        bn_cli_put_file_digest(model, "sha256", path);
    else if (bn_sha256_hex(bn_default_model_data, (size_t)bn_default_model_bytes, hex, &err) == BN_OK)
        bn_json_put_string(model, "sha256", hex);
    else
        bn_json_put_unavailable(model, "sha256", err.msg);
    bn_free(path);
    return model;
}
