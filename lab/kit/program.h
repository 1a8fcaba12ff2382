/* SPDX-License-Identifier: MIT
 *
 * Where the running program lies, and the programs next to it.
 */
#ifndef BN_KIT_PROGRAM_H
#define BN_KIT_PROGRAM_H

#include <linux/limits.h>
#include <stdbool.h>

/* The file of the running program; empty when /proc cannot be read. */
void bn_program_path(char out[PATH_MAX]);

/* The executable file `name` in `folder`, which is relative to the running program's folder: "" is that
 * folder, "crossval/" one in it. False when there is none; out is then unspecified. */
bool bn_program_near(char out[PATH_MAX], const char *folder, const char *name);

#endif
