/* SPDX-License-Identifier: MIT
 *
 * Starting a process.
 */
#ifndef BN_KIT_SPAWN_H
#define BN_KIT_SPAWN_H

#include <sys/types.h>

/* Starts argv (ends with NULL; argv[0] is looked for in PATH) with fds as its descriptors 0 to 2, leader of a
 * process group of its own, no signal blocked or ignored. Returns 0, or the errno of what failed, ENOENT when
 * there is no such program; then there is no process.
 *
 * The process is forked, not posix_spawn'ed: that shares this process's memory until the program starts,
 * and Linux would count our peak as the new process's. */
int bn_spawn(pid_t *pid, const char *const *argv, const int fds[3]);

/* The same in two steps, for those who have something to do with a process before it becomes the program:
 * after bn_spawn_hold it is there and waits; bn_spawn_go lets it go on. Both return 0 or an errno, and after
 * an error there is no process. bn_spawn_drop ends one that waits. */
struct bn_spawned {
    pid_t pid;
    int gate, tell; /* for spawn.c */
};
int bn_spawn_hold(struct bn_spawned *spawned, const char *const *argv, const int fds[3]);
int bn_spawn_go(struct bn_spawned *spawned);
void bn_spawn_drop(struct bn_spawned *spawned);

#endif
