/* SPDX-License-Identifier: MIT
 *
 * The sandbox of programs that open files of others; see sandbox.h. What the kernel does not have is left out.
 */
#define _GNU_SOURCE
#include "tools/cli/program/sandbox.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifndef BN_NO_SECCOMP
#include <seccomp.h>
#endif

#include "base/error.h"
#include "base/file.h"
#include "hub/cache/cache.h"
#include "lab/kit/process.h"
#include "mpi/ranks.h"
#include "tools/cli/report.h"

static struct {
    int abi; /* of Landlock; 0: it is not active */
    bool calls;
} active;

/* ---- Landlock ---- */

/* What headers of older kernels lack. */
#define TRUNCATE (1ull << 14)
#define IOCTL_DEV (1ull << 15)
#define BIND_TCP (1ull << 0)
#define CONNECT_TCP (1ull << 1)
#define SCOPES 3ull /* abstract sockets of others, signals to others */
struct ruleset {
    uint64_t fs, net, scoped;
};
#define LEAST_ABI 2 /* the first one that can permit to move files between folders */

#define EXECUTE LANDLOCK_ACCESS_FS_EXECUTE
#define READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define ON_FILE \
    (EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE | TRUNCATE | IOCTL_DEV)
/* A folder is read, too, to make a name in it durable. */
#define WRITE                                                                                      \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR | \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |  \
     LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER | TRUNCATE | IOCTL_DEV)

struct bn_sandbox_rules {
    int fd; /* of the ruleset; -1: there is no Landlock */
    uint64_t handled;
    bool starts; /* a program */
    int failed;  /* errno of the first step that lacked descriptors or memory; 0: none */
};

static bool is_short_of_room(void)
{
    return errno == EMFILE || errno == ENFILE || errno == ENOMEM;
}

/* What is not there needs no permission; without descriptors or memory nothing is known about it. */
static void note_failure(struct bn_sandbox_rules *rules)
{
    if (is_short_of_room() && rules->failed == 0) rules->failed = errno;
}

static bn_status cannot_enter(int why, bn_error *err)
{
    return bn_fail_errno(err, why, NULL, "cannot enter the sandbox");
}

static int open_ruleset(struct bn_sandbox_rules *rules, const struct bn_sandbox *needs)
{
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    *rules = (struct bn_sandbox_rules){.fd = -1};
    if (abi < LEAST_ABI) return 0;
    rules->handled = (IOCTL_DEV * 2 - 1) & ~(abi < 5 ? IOCTL_DEV : 0) & ~(abi < 3 ? TRUNCATE : 0);
    struct ruleset all = {.fs = rules->handled,
                          .net = (needs->listens ? 0 : BIND_TCP) | (needs->connects ? 0 : CONNECT_TCP),
                          .scoped = SCOPES};
    size_t n = abi >= 6 ? sizeof all : abi >= 4 ? offsetof(struct ruleset, scoped) : sizeof all.fs;
    rules->fd = (int)syscall(SYS_landlock_create_ruleset, &all, n, 0);
    if (rules->fd < 0) note_failure(rules);
    return abi;
}

/* A path in an open folder. */
static void permit_at(struct bn_sandbox_rules *rules, int folder, const char *path, uint64_t rights)
{
    struct stat st;
    if (rules->fd < 0) return;
    int fd = openat(folder, path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        note_failure(rules);
        return;
    }
    struct landlock_path_beneath_attr rule = {.parent_fd = fd, .allowed_access = rights & rules->handled};
    if (!S_ISDIR(st.st_mode)) rule.allowed_access &= ON_FILE;
    if (syscall(SYS_landlock_add_rule, rules->fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0)
        note_failure(rules);
    /* A rule is for an inode, and /proc forgets those that nobody has open. */
    if (strncmp(path, "/proc/", 6) != 0) close(fd);
}

static void permit(struct bn_sandbox_rules *rules, const char *path, uint64_t rights)
{
    permit_at(rules, AT_FDCWD, path, rights);
}

/* Links in a folder lead elsewhere: in the cache of models, to the blobs. */
static void permit_read(struct bn_sandbox_rules *rules, const char *path)
{
    struct dirent *entry;
    permit(rules, path, READ);
    DIR *dir = opendir(path);
    if (dir == NULL) note_failure(rules);
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (entry->d_type == DT_LNK) permit_at(rules, dirfd(dir), entry->d_name, READ);
    if (dir != NULL) closedir(dir);
}

/* The folder of a path, as it is written. */
static char *cut(char path[PATH_MAX])
{
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        snprintf(path, PATH_MAX, ".");
    else
        slash[slash == path] = '\0';
    return path;
}

/* A file appears when it is complete, so it is its folder that is written to, or the nearest one that is there. What is not
 * a file is written to itself. */
static void permit_output(struct bn_sandbox_rules *rules, const char *path, uint64_t rights)
{
    char at[PATH_MAX];
    struct stat st;
    if (realpath(path, at) == NULL) snprintf(at, sizeof at, "%s", path);
    if (stat(at, &st) != 0 || S_ISREG(st.st_mode)) cut(at);
    while (access(at, F_OK) != 0 && strlen(at) > 1)
        cut(at);
    permit(rules, at, rights);
}

void bn_sandbox_allow(struct bn_sandbox_rules *rules, enum bn_path_use use, const char *path)
{
    char at[BN_HUB_PATH_MAX] = "";
    if (use == BN_PATH_UNSAID || use == BN_PATH_NONE) return;
    if (use == BN_PATH_WRITE || use == BN_PATH_BOTH) {
        permit_output(rules, path, use == BN_PATH_BOTH ? READ | WRITE : WRITE);
        return;
    }
    permit_read(rules, path);
    if (use == BN_PATH_READ) return;
    snprintf(at, sizeof at, "%s", path);
    if (access(path, F_OK) == 0) {
        if (use == BN_PATH_BESIDE) permit_read(rules, cut(at));
    } else if (bn_hub_cache_root(at, NULL) == BN_OK) {
        permit_read(rules, at);
        bn_sandbox_allow_state(rules); /* digests are remembered */
    }
}

void bn_sandbox_allow_state(struct bn_sandbox_rules *rules)
{
    char path[BN_HUB_PATH_MAX];
    if (bn_hub_state_path(path, "") && bn_file_make_folders(path, NULL) == BN_OK)
        permit(rules, path, READ | WRITE);
}

void bn_sandbox_allow_program(struct bn_sandbox_rules *rules, const char *name)
{
    char path[PATH_MAX];
    Dl_info loader; /* of this program, which starts the other one, too */
    if (name[0] == '/')
        snprintf(path, sizeof path, "%s", name);
    else if (!bn_program_near(path, "", name))
        return;
    permit(rules, path, READ | EXECUTE);
    if (dladdr((void *)(uintptr_t)getauxval(AT_BASE), &loader) != 0)
        permit(rules, loader.dli_fname, READ | EXECUTE);
    rules->starts = true;
}

/* What libraries and the engine read: nothing about a user. */
static void permit_system(struct bn_sandbox_rules *rules, bool connects)
{
    static const char *const READS[] = {
        "/usr",       "/lib",          "/lib64",     "/sys",           "/etc/ld.so.cache", "/etc/localtime",
        "/etc/ssl",   "/etc/terminfo", "/proc/self", "/proc/self/exe", "/proc/cpuinfo",    "/proc/meminfo",
        "/proc/stat", "/proc/loadavg", "/proc/sys",  "/dev/urandom"};
    static const char *const NETWORK[] = {"/etc/resolv.conf", "/etc/hosts",           "/etc/nsswitch.conf",
                                          "/etc/gai.conf",    "/etc/host.conf",       "/etc/services",
                                          "/etc/pki",         "/etc/ca-certificates", "/run/systemd/resolve"};
    static const char *const NAMED[] = {"BN_REGISTRY",   "TERMINFO",     "OPENSSL_CONF",
                                        "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"};
    for (size_t i = 0; i < BN_ARRAY_LEN(READS); i++)
        permit(rules, READS[i], READ);
    for (size_t i = 0; i < BN_ARRAY_LEN(NETWORK) && connects; i++)
        permit(rules, NETWORK[i], READ);
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMED); i++)
        if (getenv(NAMED[i]) != NULL) permit(rules, getenv(NAMED[i]), READ);
    permit(rules, "/dev/null", READ | WRITE);
    permit(rules, "/dev/tty", READ | WRITE);
#ifdef BN_COVER_FOLDER /* counts of executed lines are written at the end */
    permit(rules, BN_COVER_FOLDER, READ | WRITE);
#endif
}

/* What the command line, the environment and presets name. */
static void permit_arguments(struct bn_sandbox_rules *rules, const struct bn_args *args)
{
    for (size_t i = 0; i < args->n_options; i++)
        if (args->options[i]->preset != NULL)
            bn_sandbox_allow(rules, args->options[i]->path, args->options[i]->preset);
    for (size_t i = 0; i < args->n_values; i++)
        if (args->values[i].text != NULL)
            bn_sandbox_allow(rules, args->values[i].option->path, args->values[i].text);
    for (size_t i = 0; i < args->n_operands; i++)
        bn_sandbox_allow(rules, args->command->operand_path, args->operands[i]);
}

/* ---- seccomp ---- */

/* Names, one blank between them. */
static const char PROGRAMS[] = "execve execveat";
static const char SOCKETS[] = "socket socketpair connect bind listen";
static const char SERVERS[] = "accept accept4 listen";
static const char ALWAYS[] =
#ifndef BN_SANITIZED /* LeakSanitizer stops the threads of its program */
    "ptrace process_vm_readv "
#endif
    "process_vm_writev process_madvise pidfd_getfd kcmp mount umount umount2 pivot_root chroot move_mount "
    "open_tree fsopen fsconfig fsmount fspick mount_setattr swapon swapoff bpf perf_event_open userfaultfd "
    "kexec_load kexec_file_load init_module finit_module delete_module keyctl add_key request_key "
    "io_uring_setup io_uring_enter io_uring_register setns unshare reboot acct quotactl quotactl_fd "
    "name_to_handle_at open_by_handle_at iopl ioperm modify_ldt lookup_dcookie syslog settimeofday "
    "clock_settime clock_adjtime adjtimex sethostname setdomainname vhangup nfsservctl";

#ifndef BN_NO_SECCOMP
/* A program for the kernel. libseccomp gives the numbers of calls; its own builder of filters crashes without memory. */
struct filter {
    struct sock_filter code[512];
    unsigned short n;
};
/* Each name has two statements. */
_Static_assert((sizeof ALWAYS + sizeof PROGRAMS + sizeof SOCKETS) / sizeof "bpf" * 2 + 32 <= 512,
               "room for all names");
#define LOW_WORD(i) (offsetof(struct seccomp_data, args) + (i) * sizeof(uint64_t)) /* of an argument */

static void load(struct filter *f, size_t at)
{
    f->code[f->n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)at);
}

/* Goes on with the next statement, or, when the value is not the one (has none of the bits), behind `n` statements. */
static void unless(struct filter *f, uint16_t test, uint32_t value, uint8_t n)
{
    f->code[f->n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, value, 0, n);
}

static void end(struct filter *f, uint32_t action)
{
    f->code[f->n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
}

/* A list of names; what this machine's interface of the kernel does not have is passed over. */
static void refuse(struct filter *f, const char *names, uint32_t why)
{
    char name[32];
    for (size_t n; *names != '\0'; names += n + (names[n] == ' ')) {
        n = strcspn(names, " ");
        snprintf(name, sizeof name, "%.*s", (int)n, names);
        int call = seccomp_syscall_resolve_name(name);
        if (call < 0) continue;
        unless(f, BPF_JEQ, (uint32_t)call, 1);
        end(f, SECCOMP_RET_ERRNO | why);
    }
}

/* Typing into the terminal, which the shell would obey, and new namespaces. */
static void refuse_arguments(struct filter *f)
{
    const uint32_t spaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                            CLONE_NEWPID | CLONE_NEWNET;
    unless(f, BPF_JEQ, SYS_clone, 4);
    load(f, LOW_WORD(0));
    unless(f, BPF_JSET, spaces, 1);
    end(f, SECCOMP_RET_ERRNO | EPERM);
    end(f, SECCOMP_RET_ALLOW);
    unless(f, BPF_JEQ, SYS_ioctl, 6);
    load(f, LOW_WORD(1));
    unless(f, BPF_JEQ, TIOCSTI, 1);
    end(f, SECCOMP_RET_ERRNO | EPERM);
    unless(f, BPF_JEQ, 0x541C /* TIOCLINUX */, 1);
    end(f, SECCOMP_RET_ERRNO | EPERM);
    end(f, SECCOMP_RET_ALLOW);
}

/* Refuses lists of calls in all threads, and other interfaces of the kernel (i386, x32) as a whole. clone3 has its flags in
 * memory, where a filter cannot read them; C libraries use clone when the kernel does not have it. */
static bn_status refuse_calls(const char *a, const char *b, const char *c, bn_error *err)
{
    struct filter f = {.n = 0};
    load(&f, offsetof(struct seccomp_data, arch));
    f.code[f.n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 1, 0);
    end(&f, SECCOMP_RET_ERRNO | EPERM);
    load(&f, offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
    unless(&f, BPF_JSET, 0x40000000, 1); /* x32 */
    end(&f, SECCOMP_RET_ERRNO | EPERM);
#endif
    refuse(&f, a, EPERM);
    refuse(&f, b, EPERM);
    refuse(&f, c, EPERM);
    refuse(&f, "clone3", ENOSYS);
    refuse_arguments(&f);
    end(&f, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {f.n, f.code};
    active.calls = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
    return active.calls || !is_short_of_room() ? BN_OK : cannot_enter(errno, err);
}
#else
static bn_status refuse_calls(const char *a, const char *b, const char *c, bn_error *err)
{
    (void)a, (void)b, (void)c, (void)err;
    return BN_OK;
}
#endif

bn_status bn_sandbox_close_sockets(bn_error *err)
{
    return active.calls ? refuse_calls(SOCKETS, "", "", err) : BN_OK;
}

/* ---- entering ---- */

static bool is_impossible(const struct bn_args *args)
{
    bool device = args->device != NULL && strcmp(args->device, "cpu") != 0;
    bool ranks = bn_ranks_told() > 1 || getenv("PMIX_RANK") != NULL;
    if (device || ranks) bn_report_note(1, "no sandbox %s", device ? "with a device" : "under mpirun");
#ifdef BN_SANITIZED /* it writes reports, and reads of threads in /proc */
    return true;
#endif
    return device || ranks;
}

bn_status bn_sandbox_enter(const struct bn_args *args, bn_error *err)
{
    const struct bn_sandbox *needs = args->command->sandbox;
    const struct rlimit none = {0, 0};
    struct bn_sandbox_rules rules;
    char typed[BN_TYPED];
    if (needs->secrets && setrlimit(RLIMIT_CORE, &none) != 0)
        return bn_fail_errno(err, errno, NULL, "cannot forbid core files");
    if (args->no_sandbox)
        bn_report_warning("%s: this program keeps all rights of the user",
                          bn_args_typed(args, &args->no_sandbox, typed));
    if (args->no_sandbox || is_impossible(args)) return BN_OK;
    int abi = open_ruleset(&rules, needs);
    permit_system(&rules, needs->connects);
    permit_arguments(&rules, args);
    if (needs->more != NULL) needs->more(&rules, args);
    bool closed = prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) == 0;
    if (closed && rules.fd >= 0 && syscall(SYS_landlock_restrict_self, rules.fd, 0) == 0)
        active.abi = abi;
    else if (closed && rules.fd >= 0)
        note_failure(&rules);
    if (rules.fd >= 0) close(rules.fd);
    if (rules.failed != 0) return cannot_enter(rules.failed, err);
    const char *sockets = needs->listens ? "" : needs->connects ? SERVERS : SOCKETS;
    return closed ? refuse_calls(ALWAYS, rules.starts ? "" : PROGRAMS, sockets, err) : BN_OK;
}

void bn_sandbox_explain(bn_error *err)
{
    char folder[PATH_MAX];
    if (active.abi == 0 || err->sys_errno != EACCES) return;
    snprintf(folder, sizeof folder, "%s", err->where);
    if (access(err->where, R_OK) == 0 || (access(err->where, F_OK) != 0 && access(cut(folder), W_OK) == 0))
        bn_error_hint(err, "the sandbox permits files that the command line names; --no-sandbox permits all");
}

bool bn_sandbox_describe(char out[64])
{
    char landlock[32] = "";
    if (active.abi > 0) snprintf(landlock, sizeof landlock, "Landlock (ABI %d)", active.abi);
    snprintf(out, 64, "%s%s%s", landlock, active.abi > 0 && active.calls ? ", " : "",
             active.calls ? "seccomp" : "");
    return out[0] != '\0';
}
