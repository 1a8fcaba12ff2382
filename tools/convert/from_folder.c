/* SPDX-License-Identifier: MIT
 *
 * The plan of a conversion from a folder of the Hugging Face hub: opens its files and calls the parts that read
 * them. The files that are read are the inputs of the record, so that the same inputs give the same bytes:
 * the name of the folder is not in the result.
 */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/convert/folder.h"

bn_status bn_cv_folder_input(struct bn_cv_folder *f, const char *name, bool required, size_t *index,
                             bn_error *err)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", f->path, name);
    *index = SIZE_MAX;
    if (n < 0 || (size_t)n >= sizeof path)
        return bn_fail(err, BN_ERR_LIMIT, "the path of %s is too long", name);
    if (!required && access(path, F_OK) != 0) return BN_OK;
    *index = f->plan->n_inputs;
    return bn_cv_add_input(f->plan, path, name, err);
}

bn_status bn_cv_folder_json(struct bn_cv_folder *f, const char *name, bool required, bn_json **out,
                            bn_error *err)
{
    size_t index;
    *out = NULL;
    BN_TRY(bn_cv_folder_input(f, name, required, &index, err));
    if (index == SIZE_MAX) return BN_OK;
    const struct bn_file_map *map = &f->plan->inputs[index].map;
    bn_status status = bn_json_parse(out, (const char *)map->data, map->n_bytes, err);
    if (status != BN_OK) bn_error_name(err, name);
    return status;
}

/* Weights that are stored rotated give nonsense without keys that say so. */
static bn_status refuse_rotated(struct bn_cv_folder *f, bn_error *err)
{
    static const char MANIFEST[] = "hadamard_packing.json";
    size_t index;
    BN_TRY(bn_cv_folder_input(f, MANIFEST, false, &index, err));
    if (index == SIZE_MAX) return BN_OK;
    return bn_hint(
        bn_fail_in(err, BN_ERR_UNSUPPORTED, MANIFEST, "rotated weights are not converted from folders"), err,
        "convert the GGUF file of the model, whose keys describe the rotation");
}

static bn_status read_folder(struct bn_cv_folder *f, bn_error *err)
{
    BN_TRY(refuse_rotated(f, err));
    BN_TRY(bn_cv_folder_json(f, "config.json", true, &f->config, err));
    BN_TRY(bn_cv_folder_json(f, "tokenizer_config.json", false, &f->settings, err));
    BN_TRY(bn_cv_folder_shards(f, err));
    BN_TRY(bn_cv_folder_config(f, err));
    BN_TRY(bn_cv_folder_tensors(f, err));
    return bn_cv_folder_vocab(f, err);
}

bn_status bn_cv_from_folder(struct bn_cv_plan *plan, const char *path, bn_error *err)
{
    struct bn_cv_folder f = {.plan = plan, .path = path};
    bn_status status = read_folder(&f, err);
    if (status == BN_OK) status = bn_buf_check(&plan->keys.kv, err);
    for (size_t i = 0; i < f.n_shards; i++) {
        bn_safetensors_close(&f.shards[i].st);
        bn_free(f.shards[i].used);
    }
    bn_free(f.shards);
    bn_json_free(f.config);
    bn_json_free(f.settings);
    return status;
}
