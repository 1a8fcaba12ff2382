/* SPDX-License-Identifier: MIT
 *
 * hadamard_packing.json, which is next to the safetensors of models whose weights were rotated before they were rounded
 * (Bonsai 2), to the keys prism.hadamard.* of GGUF files. model/model.h says what those mean. The file names each
 * rotated tensor of the source and its role, and has the signs of each width of inputs. What is unknown is refused:
 * without its transform such a model gives fluent nonsense.
 */
#include <stdlib.h>

#include "model/hparams.h"
#include "model/model.h"
#include "tools/convert/folder.h"

#define MANIFEST "hadamard_packing.json"
#define FAIL(code, ...) bn_fail_in(err, BN_ERR_##code, MANIFEST, __VA_ARGS__)
#define KEY(name) "prism.hadamard." name

struct width {
    uint64_t n;
    const bn_json *signs;
};

struct rotation {
    struct bn_cv_folder *f;
    uint64_t block;
    bool explicit_signs, tied;
    struct width widths[BN_HADAMARD_WIDTHS];
    size_t n_widths;
};

static bn_status refuse(bn_error *err, const char *what, const char *found)
{
    return bn_hint(FAIL(UNSUPPORTED, "%s '%.60s' is not supported", what, found), err,
                   "convert the GGUF file of the model, whose keys describe the rotation");
}

static bn_status expect(const bn_json *object, const char *name, const char *wanted, bn_error *err)
{
    return bn_json_text_is(object, name, wanted) ? BN_OK : refuse(err, name, bn_json_text_of(object, name));
}

/* ---- names ---- */

/* The record of a tensor of the source; NULL when it is not rotated. */
static const bn_json *record_of(const struct bn_cv_folder *f, const char *name)
{
    const char *plain = bn_cv_folder_plain(name);
    for (const bn_json *e = bn_json_first(bn_json_get(f->rotation, "tensors")); e != NULL;
         e = bn_json_next(e))
        if (strcmp(bn_cv_folder_plain(bn_json_text_of(e, "name")), plain) == 0) return e;
    return NULL;
}

bool bn_cv_folder_rotates(const struct bn_cv_folder *f, const char *name)
{
    return f->rotation != NULL && record_of(f, name) != NULL;
}

static bool is_inverse(const bn_json *record)
{
    return bn_json_text_is(record, "role", "inverse-after-lookup");
}

static bn_status check_tensor(const struct rotation *r, const struct bn_cv_tensor *t, const bn_json *record,
                              bn_error *err)
{
    bool known = is_inverse(record) ? strcmp(t->name, "token_embd.weight") == 0
                                    : bn_part_is_linear(t->name) || strcmp(t->name, "output.weight") == 0;
    bool ternary = t->kind != BN_CV_COPY && t->kind != BN_CV_FLOATS;
    bool covered = !r->explicit_signs;
    for (size_t i = 0; i < r->n_widths; i++)
        covered |= r->widths[i].n == t->ne[0];
    if (known && ternary && covered && t->ne[0] % r->block == 0) return BN_OK;
    return FAIL(UNSUPPORTED, "the tensor '%.100s' cannot be rotated: %s", t->source,
                !known     ? "it is not a linear layer"
                : !ternary ? "it is not ternary"
                : !covered ? "there are no signs for its width"
                           : "its rows are not whole blocks");
}

/* A role, an axis, and a tensor of the model. */
static bn_status check_record(const struct rotation *r, const bn_json *record, bn_error *err)
{
    const char *name = bn_json_text_of(record, "name"), *role = bn_json_text_of(record, "role");
    size_t n = 0;
    if (bn_json_number_of(record, "axis") != -1.0)
        return FAIL(UNSUPPORTED, "the axis of '%.100s' is not -1", name);
    if (role[0] != '\0' && strcmp(role, "fold-before-matmul") != 0 && !is_inverse(record))
        return refuse(err, "the role", role);
    if (record_of(r->f, name) != record) return FAIL(FORMAT, "the tensor '%.100s' is duplicate", name);
    for (size_t i = 0; i < r->f->plan->n_tensors; i++) {
        const struct bn_cv_tensor *t = &r->f->plan->tensors[i];
        if (t->source == NULL || strcmp(bn_cv_folder_plain(t->source), bn_cv_folder_plain(name)) != 0)
            continue;
        BN_TRY(check_tensor(r, t, record, err));
        n++;
    }
    if (n > 0) return BN_OK;
    return FAIL(UNSUPPORTED, "the model has no tensor '%.100s'", name);
}

/* The engine orders the inputs of every ssm_out or of none. */
static bn_status check_outputs(const struct rotation *r, bn_error *err)
{
    size_t n = 0, n_rotated = 0;
    for (size_t i = 0; i < r->f->plan->n_tensors; i++) {
        const struct bn_cv_tensor *t = &r->f->plan->tensors[i];
        if (strncmp(t->name, "blk.", 4) != 0 || strstr(t->name, ".ssm_out.") == NULL) continue;
        n++;
        n_rotated += bn_cv_folder_rotates(r->f, t->source);
    }
    if (n_rotated == 0 || n_rotated == n) return BN_OK;
    return FAIL(UNSUPPORTED, "%zu of %zu out_proj are rotated, expected all or none", n_rotated, n);
}

static size_t put_names(const struct rotation *r, bool inverse, bool write)
{
    struct bn_gguf_writer *w = &r->f->plan->keys;
    size_t n = 0;
    for (size_t i = 0; i < r->f->plan->n_tensors; i++) {
        const struct bn_cv_tensor *t = &r->f->plan->tensors[i];
        const bn_json *record = t->source != NULL ? record_of(r->f, t->source) : NULL;
        if (record == NULL || is_inverse(record) != inverse) continue;
        if (write) bn_gguf_put_text(&w->kv, t->name, strlen(t->name));
        n++;
    }
    return n;
}

/* ---- signs ---- */

static int by_width(const void *a, const void *b)
{
    const struct width *x = a, *y = b;
    return (x->n > y->n) - (x->n < y->n);
}

static bn_status read_signs(struct rotation *r, bn_error *err)
{
    const bn_json *table = bn_json_get(r->f->rotation, "signs");
    if (bn_json_size(table) == 0 || bn_json_size(table) > BN_HADAMARD_WIDTHS)
        return FAIL(UNSUPPORTED, "signs has %zu widths, not 1 to %u", bn_json_size(table),
                    BN_HADAMARD_WIDTHS);
    for (const bn_json *e = bn_json_first(table); e != NULL; e = bn_json_next(e)) {
        const char *name = bn_json_name(e) != NULL ? bn_json_name(e) : "";
        char *end;
        unsigned long long n = strtoull(name, &end, 10);
        bool good = *end == '\0' && n > 0 && n <= 1u << 20 && n % r->block == 0 && bn_json_size(e) == n;
        for (const bn_json *s = bn_json_first(e); good && s != NULL; s = bn_json_next(s)) {
            double sign = 0;
            good = bn_json_number(s, &sign) && (sign == 1.0 || sign == -1.0);
        }
        if (!good)
            return FAIL(FORMAT,
                        "the signs of the width '%.20s' are not as many numbers 1 and -1, in whole blocks",
                        name);
        r->widths[r->n_widths++] = (struct width){n, e};
    }
    qsort(r->widths, r->n_widths, sizeof *r->widths, by_width);
    return BN_OK;
}

static void put_signs(const struct rotation *r)
{
    struct bn_gguf_writer *w = &r->f->plan->keys;
    uint64_t n = 0;
    bn_gguf_put_array(w, KEY("sign_widths"), BN_GGUF_I32, r->n_widths);
    for (size_t i = 0; i < r->n_widths; n += r->widths[i++].n)
        bn_gguf_put_element_i32(w, (int32_t)r->widths[i].n);
    bn_gguf_put_array(w, KEY("sign_values"), BN_GGUF_I32, n);
    for (size_t i = 0; i < r->n_widths; i++)
        for (const bn_json *s = bn_json_first(r->widths[i].signs); s != NULL; s = bn_json_next(s)) {
            double sign = 1.0;
            (void)bn_json_number(s, &sign);
            bn_gguf_put_element_i32(w, (int32_t)sign);
        }
}

/* ---- the manifest ---- */

/* Versions of the file: 1 and 2, and 3 for a rotated embedding that is the head too. */
static bn_status read_manifest(struct rotation *r, bn_error *err)
{
    const bn_json *m = r->f->rotation, *transform = bn_json_get(m, "transform");
    uint64_t version = 0;
    r->tied = bn_json_flag_of(m, "tied_output");
    if (!bn_json_u64(bn_json_get(m, "schema_version"), &version) || version < 1 || version > 3)
        return FAIL(UNSUPPORTED, "schema_version is not 1, 2 or 3");
    BN_TRY(expect(m, "kind", "hadamard-weight-fold", err));
    BN_TRY(expect(m, "status", "requires-matching-runtime", err));
    BN_TRY(expect(transform, "name", "normalized-signed-sylvester-walsh-hadamard", err));
    r->explicit_signs = bn_json_text_is(transform, "sign_mode", "explicit");
    if (!r->explicit_signs) BN_TRY(expect(transform, "sign_mode", "identity", err));
    if (!bn_json_u64(bn_json_get(transform, "block_size"), &r->block) || r->block < 2 ||
        r->block > 1u << 16 || (r->block & (r->block - 1)) != 0)
        return FAIL(FORMAT, "block_size is not a power of two from 2 to 65536");
    return r->explicit_signs ? read_signs(r, err) : BN_OK;
}

static void put_keys(const struct rotation *r)
{
    static const char TRANSFORM[] = "normalized-sylvester-walsh-hadamard", AXIS[] = "input-last-dimension";
    struct bn_gguf_writer *w = &r->f->plan->keys;
    const char *mode = r->explicit_signs ? "explicit" : "identity";
    bn_gguf_put_u32(w, KEY("version"), r->tied ? 2 : 1);
    bn_gguf_put_u32(w, KEY("block_size"), (uint32_t)r->block);
    bn_gguf_put_str(w, KEY("transform"), TRANSFORM, sizeof TRANSFORM - 1);
    bn_gguf_put_str(w, KEY("axis"), AXIS, sizeof AXIS - 1);
    bn_gguf_put_str(w, KEY("sign_mode"), mode, strlen(mode));
    if (r->explicit_signs) put_signs(r);
    for (int inverse = 0; inverse < 2; inverse++) {
        size_t n = put_names(r, inverse == 1, false);
        if (inverse == 1 && n == 0) continue;
        bn_gguf_put_array(w, inverse == 1 ? KEY("inverse_weight_names") : KEY("weight_names"), BN_GGUF_STRING,
                          n);
        (void)put_names(r, inverse == 1, true);
    }
    if (r->f->grouped_out) bn_gguf_put_bool(w, KEY("gdn_v_grouped"), true);
    if (r->tied) bn_gguf_put_bool(w, KEY("tied_output"), true);
}

bn_status bn_cv_folder_rotation(struct bn_cv_folder *f, bn_error *err)
{
    struct rotation r = {.f = f};
    const bn_json *records = bn_json_get(f->rotation, "tensors");
    bool has_head = false;
    if (f->rotation == NULL) return BN_OK;
    BN_TRY(read_manifest(&r, err));
    if (bn_json_size(records) == 0) return FAIL(FORMAT, "it names no tensors");
    for (const bn_json *e = bn_json_first(records); e != NULL; e = bn_json_next(e))
        BN_TRY(check_record(&r, e, err));
    BN_TRY(check_outputs(&r, err));
    for (size_t i = 0; i < f->plan->n_tensors; i++)
        has_head |= strcmp(f->plan->tensors[i].name, "output.weight") == 0;
    if (r.tied && has_head) return FAIL(FORMAT, "tied_output is true, and the model has a head of its own");
    r.tied = put_names(&r, true, false) > 0 && !has_head;
    put_keys(&r);
    return BN_OK;
}
