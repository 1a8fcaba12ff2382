/* SPDX-License-Identifier: MIT
 *
 * References that were set up on this machine: where they are, what is known of them, and the commands that
 * make, list, check and remove them.
 *
 *     <cache>/bn/reference/<name>-<first 16 digits of the digest>/
 *         reference.json     what is below; "ready" is true after the last step only
 *         tree/              the source tree, when it was downloaded
 *         build/, bridge/    what was built, and the source of the bridge
 *         bn-bridge-<name>   the bridge, which --ref <name> starts
 *         <step>.log         the output of each step
 *
 * <cache> is XDG_CACHE_HOME, else ~/.cache.
 */
#ifndef BN_CROSSVAL_SETUP_H
#define BN_CROSSVAL_SETUP_H

#include <linux/limits.h>

#include "base/digest.h"
#include "tools/cli/options.h"

#define BN_STORED_SCHEMA "bn.reference-setup/1"
#define BN_STORED_NAME_MAX 60u

/* One of them. Texts are empty where they are not known. */
struct bn_stored {
    char folder[PATH_MAX], tree[PATH_MAX];
    char name[BN_STORED_NAME_MAX + 1];
    char source[PATH_MAX]; /* URL or folder, as given */
    char commit[65], digest[BN_SHA256_HEX];
    char recipe[1024];                  /* the target and the options of cmake */
    char compiler[200];                 /* the first line of its --version */
    char engine[140];                   /* name and version, from the handshake */
    char created[21];                   /* UTC */
    char bridge_sha256[BN_SHA256_HEX];  /* of the bridge's source tree */
    char program_sha256[BN_SHA256_HEX]; /* of the bridge */
    bool ready;
    bool
        installed; /* a bridge next to the program, not in the cache: only folder, name and ready are known */
};
struct bn_stored_list {
    struct bn_stored *list;
    size_t n, room;
};

/* <cache>/bn/reference. BN_ERR_NOT_FOUND when neither XDG_CACHE_HOME nor HOME is set. */
BN_MUST_CHECK bn_status bn_stored_root(char out[PATH_MAX], bn_error *err);
/* All that have a readable reference.json, also those that are not ready, by name. Release list with
 * bn_free. */
BN_MUST_CHECK bn_status bn_stored_read(struct bn_stored_list *all, bn_error *err);
/* Adds the bridges that are installed next to the program, which --ref NAME starts, too. */
BN_MUST_CHECK bn_status bn_stored_add_bridges(struct bn_stored_list *all, bn_error *err);
/* A program next to this one, in crossval/ next to it (a build), or in libexec/bn (installed). */
bool bn_crossval_find_program(const char *program, char out[PATH_MAX]);
/* The one of this name that is ready; false when there is none. */
bool bn_stored_find(struct bn_stored *out, const char *name);
BN_MUST_CHECK bn_status bn_stored_write(const struct bn_stored *s, bn_error *err);
/* The path of its bridge. */
BN_MUST_CHECK bn_status bn_stored_program(char out[PATH_MAX], const struct bn_stored *s, bn_error *err);
/* Whether the bridge is the one that passed the handshake: BN_ERR_NOT_FOUND, BN_ERR_INTEGRITY. */
BN_MUST_CHECK bn_status bn_stored_check(const struct bn_stored *s, bn_error *err);
/* Joins two parts of a path. BN_ERR_LIMIT when it is too long. */
BN_MUST_CHECK bn_status bn_stored_join(char out[PATH_MAX], const char *folder, const char *name,
                                       bn_error *err);

/* The options of setup, refs, remove and doctor. */
struct bn_setup_options {
    const char *source, *sha256, *name, *bridge, *target;
    struct bn_texts cmake;
    uint32_t n_jobs;
    bool force;
};
extern const struct bn_option bn_crossval_setup_options[];

/* The commands. */
bn_status bn_crossval_setup(struct bn_args *args, bn_error *err);
bn_status bn_crossval_refs(struct bn_args *args, bn_error *err);
bn_status bn_crossval_remove(struct bn_args *args, bn_error *err);
extern const struct bn_option bn_crossval_doctor_options[];
bn_status bn_crossval_doctor(struct bn_args *args, bn_error *err);

#endif
