/* SPDX-License-Identifier: MIT
 *
 * deny_perf ERRNO CALLS COMMAND ARGS...: runs a command in which these system calls, with commas between
 * (perf_event_open, timer_create, clone3), fail with this error (EPERM, EACCES, ENOSYS), as
 * containers' filters make them fail. Ends with 125 when that cannot be had.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

static const struct {
    const char *name;
    unsigned value;
} CALLS[] = {{"perf_event_open", SYS_perf_event_open},
             {"timer_create", SYS_timer_create},
             {"clone3", SYS_clone3}},
  ERRORS[] = {{"EPERM", EPERM}, {"EACCES", EACCES}, {"ENOSYS", ENOSYS}};

int main(int argc, char **argv)
{
#ifndef ARCH
    fprintf(stderr, "deny_perf: not for this architecture\n");
    return 125;
#else
    struct sock_filter code[32];
    unsigned short n = 0;
    unsigned denied = 0;
    if (argc < 4) return 125;
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (strcmp(argv[1], ERRORS[i].name) == 0) denied = ERRORS[i].value;
    if (denied == 0) return 125;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++) {
        if (strstr(argv[2], CALLS[i].name) == NULL) continue;
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALLS[i].value, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | denied);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = n, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("deny_perf");
        return 125;
    }
    execvp(argv[3], argv + 3);
    perror(argv[3]);
    return 125;
#endif
}
