/* SPDX-License-Identifier: MIT
 *
 * What a user writes for a model: a name of the registry, a file of a repository of the Hugging Face hub, or
 * a URL.
 *
 *     bitnet-b1.58-2b-4t                                     registry, its default file
 *     bitnet-b1.58-2b-4t:bf16                                registry, another variant
 *     microsoft/bitnet-b1.58-2B-4T-gguf                      a repository; the only model file in it
 *     owner/repo:dir/model.gguf@v1.0                         one file at one revision (branch, tag, commit)
 *     hf:owner/repo                                          the same with a prefix, for clarity
 *     https://example.org/model.gguf                         any file
 */
#ifndef BN_HUB_NAMES_H
#define BN_HUB_NAMES_H

#include "base/json.h"

enum bn_hub_kind { BN_HUB_NAME, BN_HUB_REPO, BN_HUB_URL };

struct bn_hub_reference {
    enum bn_hub_kind kind;
    char name[64];      /* registry name, lower case */
    char variant[64];   /* of the name; "" for the default */
    char repo[193];     /* "owner/repo" */
    char file[1025];    /* path in the repository, "" for the only GGUF file */
    char revision[256]; /* "main" unless given */
    char url[2049];
};

/* Whether the text has one of the forms above. The caller first checks whether a file of that name exists.
 * Other texts, and those that end in ".gguf", are paths. */
bool bn_hub_is_reference(const char *text);
/* BN_ERR_ARG with what is wrong: parts that are empty, too long, absolute, "..", backslashes, control
 * characters, a leading dash. URLs are https, or http to this machine alone. */
BN_MUST_CHECK bn_status bn_hub_reference_parse(struct bn_hub_reference *out, const char *text, bn_error *err);
/* Whether a path may be created below a folder of ours (relative, no "..", no empty part, no
 * backslash, no control character, no part with a leading dash or over 255 bytes) For all names that a
 * server sends. */
bool bn_hub_safe_path(const char *path);
/* Whether the revision is a commit, not a branch or a tag (40 to 64 hex digits) */
bool bn_hub_is_commit(const char *revision);

/* Whether a host, or a text that begins with one as in a URL, is this machine. Only it may be reached by
 * http: for tests, and for mirrors through a tunnel. */
bool bn_hub_is_loopback(const char *host);

/* ---- the models that the toolchain knows by name ----
 *
 * Data (registry.json), built into the library. It has a digest only where one is known from a source outside the
 * download; for the others the first download records the digest, and later ones are compared with it. */

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
