/* SPDX-License-Identifier: MIT
 *
 * The models that the toolchain knows by name: data (registry.json), built into the library. It has a digest
 * only where one is known from a source outside the download; for the others the first download records the
 * digest, and later ones are compared with it.
 */
#ifndef BN_HUB_REGISTRY_H
#define BN_HUB_REGISTRY_H

#include "base/json.h"

struct bn_hub_file {
    const char *variant; /* "i2_s", "bf16"; the first one of a model is its default */
    const char *file;    /* path in the repository */
    const char *repo;    /* "owner/repo" */
    const char *revision;
    const char *sha256; /* NULL: not known */
    uint64_t size;      /* 0: not known */
    const char *runs;   /* "yes", or why the toolchain cannot run it: "weights in safetensors" */
};

struct bn_hub_model {
    const char *name, *title, *licence, *licence_url, *arch;
    const char *parameters; /* "2.4 B" */
    const struct bn_hub_file *files;
    size_t n_files;
};

struct bn_hub_registry;
/* The one in the file that BN_REGISTRY names (a private one, or a test's), else the built-in one; or from
 * JSON text. Its texts have no control characters. Released by _close. */
BN_MUST_CHECK bn_status bn_hub_registry_open(struct bn_hub_registry **out, bn_error *err);
BN_MUST_CHECK bn_status bn_hub_registry_parse(struct bn_hub_registry **out, const char *text, size_t n,
                                              bn_error *err);
void bn_hub_registry_close(struct bn_hub_registry *registry);
/* The i-th model, NULL past the end. */
const struct bn_hub_model *bn_hub_registry_at(const struct bn_hub_registry *registry, size_t i);
/* A file by name or alias, in any case of letters, and variant ("": the default), and its model (may be NULL). BN_ERR_NOT_FOUND with a near name, or the variants
 * that there are, as its hint. */
BN_MUST_CHECK bn_status bn_hub_registry_look_up(const struct bn_hub_model **model,
                                                const struct bn_hub_file **file,
                                                const struct bn_hub_registry *registry, const char *name,
                                                const char *variant, bn_error *err);

#endif
