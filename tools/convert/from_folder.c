/* SPDX-License-Identifier: MIT
 *
 * The plan of a conversion from a folder of the Hugging Face hub: opens its files and calls the parts that read
 * them. The safetensors are model.safetensors, or the files that model.safetensors.index.json names; index and files
 * must agree on every tensor. The files that are read are the inputs of the record, so that the same inputs give the
 * same bytes: the name of the folder is not in the result.
 */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lab/kit/order.h"
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

/* ---- safetensors ---- */

#define INDEX "model.safetensors.index.json"
#define MAX_SHARDS 4096u

static bn_status open_shard(struct bn_cv_folder *f, const char *name, bn_error *err)
{
    BN_TRY(bn_array_grow(&f->shards, &f->shards_room, f->n_shards + 1, sizeof *f->shards, err));
    struct bn_cv_shard *shard = &f->shards[f->n_shards];
    *shard = (struct bn_cv_shard){0};
    BN_TRY(bn_cv_folder_input(f, name, true, &shard->input, err));
    const struct bn_file_map *map = &f->plan->inputs[shard->input].map;
    bn_status status = bn_safetensors_open(&shard->st, map->data, map->n_bytes, err);
    if (status != BN_OK) {
        bn_error_name(err, name);
        return status;
    }
    f->n_shards++;
    shard->used = bn_alloc(shard->st.n, sizeof *shard->used);
    return shard->used != NULL ? BN_OK : bn_nomem(err);
}

/* A name in the folder itself. */
static bool is_plain(const char *name)
{
    size_t n = strlen(name);
    return n > 12 && n < 256 && name[0] != '.' && strchr(name, '/') == NULL && strchr(name, '\\') == NULL &&
           strcmp(name + n - 12, ".safetensors") == 0;
}

/* The files of the map, each once, sorted. */
static bn_status list_files(const bn_json *map, const char ***out, size_t *n, bn_error *err)
{
    const char **files = bn_alloc(bn_json_size(map) + 1, sizeof *files);
    size_t count = 0;
    *out = files;
    if (files == NULL) return bn_nomem(err);
    for (const bn_json *e = bn_json_first(map); e != NULL; e = bn_json_next(e)) {
        const char *file = "";
        (void)bn_json_string(e, &file);
        if (!is_plain(file))
            return bn_fail_in(err, BN_ERR_FORMAT, INDEX, "the file of '%.100s' is not a .safetensors name",
                              bn_json_name(e));
        files[count++] = file;
    }
    if (count > 0) qsort(files, count, sizeof *files, bn_compare_texts);
    for (size_t i = 0; i < count; i++)
        if (*n == 0 || strcmp(files[*n - 1], files[i]) != 0) files[(*n)++] = files[i];
    if (*n > 0 && *n <= MAX_SHARDS) return BN_OK;
    return bn_fail_in(err, BN_ERR_FORMAT, INDEX, "weight_map names %zu files, not 1 to %u", *n, MAX_SHARDS);
}

/* Each tensor of a shard is in the map with that shard; the counts are equal: so nothing is missing. */
static bn_status compare(const struct bn_cv_folder *f, const bn_json *map, bn_error *err)
{
    size_t n = 0, n_map = 0;
    const bn_json **sorted = bn_json_sorted(map, &n_map);
    bn_status status = sorted != NULL ? BN_OK : bn_nomem(err);
    for (size_t s = 0; s < f->n_shards && status == BN_OK; s++) {
        const struct bn_safetensors *st = &f->shards[s].st;
        const char *file = f->plan->inputs[f->shards[s].input].name;
        size_t at = 0; /* both lists are sorted by name */
        for (size_t i = 0; i < st->n && status == BN_OK; i++, n++) {
            while (at < n_map && strcmp(bn_json_name(sorted[at]), st->tensors[i].name) < 0)
                at++;
            const char *said = NULL;
            if (at < n_map && strcmp(bn_json_name(sorted[at]), st->tensors[i].name) == 0)
                (void)bn_json_string(sorted[at], &said);
            if (said == NULL || strcmp(said, file) != 0)
                status = bn_fail_in(err, BN_ERR_FORMAT, INDEX, "'%.100s' is in %.60s, the index says %.60s",
                                    st->tensors[i].name, file, said != NULL ? said : "nothing");
        }
    }
    bn_free(sorted);
    if (status != BN_OK || n == n_map) return status;
    return bn_fail_in(err, BN_ERR_FORMAT, INDEX, "it names %zu tensors, the files have %zu", n_map, n);
}

static bn_status open_shards(struct bn_cv_folder *f, bn_error *err)
{
    bn_json *index;
    const char **files = NULL;
    size_t n = 0;
    BN_TRY(bn_cv_folder_json(f, INDEX, false, &index, err));
    if (index == NULL) {
        bn_status status = open_shard(f, "model.safetensors", err);
        if (status != BN_ERR_NOT_FOUND) return status;
        return bn_hint(status, err, "the folder needs model.safetensors, or several files and " INDEX);
    }
    const bn_json *map = bn_json_get(index, "weight_map");
    bn_status status = list_files(map, &files, &n, err);
    for (size_t i = 0; i < n && status == BN_OK; i++)
        status = open_shard(f, files[i], err);
    if (status == BN_OK) status = compare(f, map, err);
    bn_free(files);
    bn_json_free(index);
    return status;
}

const struct bn_st_tensor *bn_cv_folder_take(struct bn_cv_folder *f, const char *name, size_t *input)
{
    for (size_t s = 0; s < f->n_shards; s++) {
        const struct bn_st_tensor *t = bn_safetensors_find(&f->shards[s].st, name);
        if (t == NULL) continue;
        f->shards[s].used[t - f->shards[s].st.tensors] = true;
        *input = f->shards[s].input;
        return t;
    }
    return NULL;
}

/* ---- the plan ---- */

static bn_status read_folder(struct bn_cv_folder *f, bn_error *err)
{
    BN_TRY(bn_cv_folder_json(f, "config.json", true, &f->root, err));
    BN_TRY(bn_cv_folder_json(f, "tokenizer_config.json", false, &f->settings, err));
    BN_TRY(bn_cv_folder_json(f, "hadamard_packing.json", false, &f->rotation, err));
    BN_TRY(open_shards(f, err));
    BN_TRY(bn_cv_folder_config(f, err));
    BN_TRY(bn_cv_folder_tensors(f, err));
    BN_TRY(bn_cv_folder_rotation(f, err));
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
    bn_json_free(f.root);
    bn_json_free(f.rotation);
    bn_json_free(f.settings);
    return status;
}
