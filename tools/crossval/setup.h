/* SPDX-License-Identifier: MIT
 *
 * References that were set up on this machine, in <cache>/bn/reference. crossval/setup.sh writes them; here
 * they are listed, found and checked.
 */
#ifndef BN_CROSSVAL_SETUP_H
#define BN_CROSSVAL_SETUP_H

#include <linux/limits.h>

#include "base/digest.h"
#include "tools/cli/options.h"

#define BN_STORED_SCHEMA "bn.reference/1"

/* One of them. Texts are empty where they are not known. */
struct bn_stored {
    char folder[PATH_MAX], name[61], commit[65], digest[BN_SHA256_HEX], created[21];
    char program_sha256[BN_SHA256_HEX]; /* of the bridge */
    bool ready;
    bool installed; /* a bridge next to the program, not in the cache: only folder and name are known */
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
/* The bridge of the reference of this name that is ready; "" when there is none. Errors are those of
 * bn_stored_check. */
BN_MUST_CHECK bn_status bn_stored_find(char out[PATH_MAX], const char *name, bn_error *err);
/* Whether the bridge is the one that passed the handshake: BN_ERR_NOT_FOUND, BN_ERR_INTEGRITY. */
BN_MUST_CHECK bn_status bn_stored_check(const struct bn_stored *s, bn_error *err);
/* A program next to this one, in crossval/ next to it (a build), or in libexec/bn (installed). */
bool bn_crossval_find_program(const char *program, char out[PATH_MAX]);

/* The commands; script is setup and remove. */
bn_status bn_crossval_script(struct bn_args *args, bn_error *err);
bn_status bn_crossval_refs(struct bn_args *args, bn_error *err);
extern const struct bn_option bn_crossval_doctor_options[];
bn_status bn_crossval_doctor(struct bn_args *args, bn_error *err);

#endif
