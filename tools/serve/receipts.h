/* SPDX-License-Identifier: MIT
 *
 * The receipts of answers, kept for a time within a number and a size: in memory, or in a folder, which a thread of its own
 * writes. receipts.c has the list of them, receipts_folder.c the files.
 */
#ifndef BN_SERVE_RECEIPTS_H
#define BN_SERVE_RECEIPTS_H

#include "tools/serve/serve.h"

#define BN_RECEIPTS_BATCH 64u /* files that are written together */
#define BN_RECEIPTS_PATH 64u  /* room for OWNER/ID.json */

/* One receipt. */
struct bn_receipt_entry {
    char id[BN_SERVE_RECEIPT]; /* empty: it was given up */
    uint64_t owner;            /* of the key that asked for the answer; 0 without keys */
    uint32_t share;            /* of the keys that are known: the number of the owner's, else 0 */
    uint64_t n_bytes;
    int64_t made_s;     /* UTC */
    struct bn_buf text; /* empty when it is in a file */
    uint32_t next;      /* the entry after it with the same hash, plus 1; 0: none */
};

/* The name that a file of DIR gives a receipt, "" when it is not one of bn-serve's. */
void bn_receipts_name(const char *file, char id[BN_SERVE_RECEIPT]);
/* Where it is in the folder: ID.json, with keys OWNER/ID.json. */
void bn_receipts_path(char path[BN_RECEIPTS_PATH], const struct bn_receipt_entry *entry);
/* Makes the folder and those of the owners, and locks it: *folder is a descriptor to close. BN_ERR_AUTH when another user
 * may write to one of them. */
BN_MUST_CHECK bn_status bn_receipts_folder_open(const char *name, const uint64_t *owners, size_t n_owners,
                                                int *folder, bn_error *err);
/* The receipts in the folder, the oldest first; *list is released with bn_free. Files that were not completed are
 * deleted. Other files, links, and files of other users are left alone. */
BN_MUST_CHECK bn_status bn_receipts_folder_list(int folder, struct bn_receipt_entry **list, size_t *n,
                                                bn_error *err);
/* Writes receipts to disk, each complete or not at all; *n_done of them were, from the first on. */
BN_MUST_CHECK bn_status bn_receipts_folder_write(int folder, const struct bn_receipt_entry *const *entries,
                                                 size_t n, size_t *n_done, bn_error *err);

#endif
