/* SPDX-License-Identifier: MIT
 *
 * Finds the file of the running program and programs near it.
 */
#define _POSIX_C_SOURCE 200809L
#include "lab/kit/program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void bn_program_path(char out[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = '\0';
}

bool bn_program_near(char out[PATH_MAX], const char *folder, const char *name)
{
    char own[PATH_MAX];
    bn_program_path(own);
    const char *slash = strrchr(own, '/');
    if (slash == NULL) return false;
    int n = snprintf(out, PATH_MAX, "%.*s/%s%s", (int)(slash - own), own, folder, name);
    return n > 0 && n < PATH_MAX && access(out, X_OK) == 0;
}
