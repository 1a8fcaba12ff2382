/* SPDX-License-Identifier: MIT
 *
 * Starting a process.
 */
#ifndef BN_BASE_SPAWN_H
#define BN_BASE_SPAWN_H

#include <sys/types.h>

/* Starts argv (ends with NULL; argv[0] is looked for in PATH) with fds as its descriptors 0 to 2, leader of a
 * process group of its own, no signal blocked or ignored. Returns 0, or the errno of what failed, ENOENT when
 * there is no such program; then there is no process.
 *
 * The process is forked, not posix_spawn'ed: that shares this process's memory until the program starts,
 * and Linux would count our peak as the new process's. */
int bn_spawn(pid_t *pid, const char *const *argv, const int fds[3]);

#endif
