/* SPDX-License-Identifier: MIT
 *
 * The safetensors of a folder: model.safetensors, or the files that model.safetensors.index.json names. Index
 * and files must agree on every tensor.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "tools/convert/folder.h"

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

static int by_text(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
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
    if (count > 0) qsort(files, count, sizeof *files, by_text);
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

bn_status bn_cv_folder_shards(struct bn_cv_folder *f, bn_error *err)
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
