/* SPDX-License-Identifier: MIT
 *
 * Removal of a tree of files. Symbolic links are never followed.
 */
#ifndef BN_KIT_TREE_H
#define BN_KIT_TREE_H

#include "bn.h"

/* Removes a folder and everything in it. A folder that does not exist is not an error. */
BN_MUST_CHECK bn_status bn_tree_remove(const char *folder, bn_error *err);

#endif
