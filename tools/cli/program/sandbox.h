/* SPDX-License-Identifier: MIT
 *
 * The sandbox: before a command reads anything, its process gives up what it does not need. Landlock permits the files that
 * its options and operands name (bn_option.path, bn_command.operand_path) and what every process reads. seccomp refuses
 * programs, sockets, debuggers and what else no command uses. A refused call fails with EACCES or EPERM.
 *
 * BN_SANDBOXED in the row of a command gives it this, and the option --no-sandbox; a path that no row says the use of stops
 * the program (bn_program_check). There is no sandbox under mpirun and with a device: MPI and drivers start programs and
 * open files of their own.
 */
#ifndef BN_CLI_SANDBOX_H
#define BN_CLI_SANDBOX_H

#include "tools/cli/options.h"

struct bn_sandbox_rules; /* what is permitted, while it is collected */

struct bn_sandbox {
    bn_status (*enter)(const struct bn_args *args,
                       bn_error *err); /* a program without a sandbox links none */
    void (*explain)(bn_error *err);
    bool connects; /* opens connections all the time */
    bool listens;  /* opens a socket, then calls bn_sandbox_close_sockets */
    bool secrets;  /* reads keys: no core is dumped */
    /* Adds files that no option names, and runs programs while that is possible; may be NULL. */
    void (*more)(struct bn_sandbox_rules *rules, const struct bn_args *args);
};
#define BN_SANDBOX .enter = bn_sandbox_enter, .explain = bn_sandbox_explain
BN_MUST_CHECK bn_status bn_sandbox_enter(const struct bn_args *args, bn_error *err);
/* Adds a hint to an error whose likely reason is the sandbox. */
void bn_sandbox_explain(bn_error *err);

/* For `more`. A path that is not there is not an error. The state folder of this user is made. */
void bn_sandbox_allow(struct bn_sandbox_rules *rules, enum bn_path_use use, const char *path);
void bn_sandbox_allow_state(struct bn_sandbox_rules *rules);
/* A program, next to this one or with a whole path, may be started; it inherits the sandbox. */
void bn_sandbox_allow_program(struct bn_sandbox_rules *rules, const char *name);

/* No more sockets, in all threads. Without a sandbox nothing is done. */
BN_MUST_CHECK bn_status bn_sandbox_close_sockets(bn_error *err);
/* What is active, "Landlock (ABI 7), seccomp"; false when nothing is. */
bool bn_sandbox_describe(char out[64]);

#endif
