/* SPDX-License-Identifier: MIT
 *
 * A library for LD_PRELOAD that makes calls fail, those of other libraries too. From main on the calls of each class are
 * counted. BN_FAULT names a fault (FAULTS below): with BN_FAULT_AT=N the N-th call of its class fails, with BN_FAULT_FROM=N
 * it and all after it. "short-read" and "short-write" move half of the bytes, which is not a failure. "shrink" halves a
 * file of the folder BN_FAULT_FOLDER once it is mapped, "trim" takes its last 64 bytes. "kill" ends
 * the program before the N-th call of any class but memory. Reads and writes are those of regular
 * files.
 *
 * When the program ends, BN_FAULT_REPORT=FILE gets a line: the calls of each class, in the order of enum class, then
 * how many more descriptors and pieces of memory there are than when main began. Programs that are started from there
 * run as usual.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum class { MEMORY, READ, WRITE, SYNC, NAME, OPEN, MAP, SIZE, THREAD, ANY, N_CLASSES };
enum { SHORT = -1, SHRINK = -2, TRIM = -3, KILL = -4 }; /* instead of an errno */
#define MOST_DESCRIPTORS 256

static const struct fault {
    const char *name;
    enum class class;
    int error;
} FAULTS[] = {{"memory", MEMORY, ENOMEM},
              {"read", READ, EIO},
              {"short-read", READ, SHORT},
              {"write", WRITE, EIO},
              {"full", WRITE, ENOSPC},
              {"sync", SYNC, EIO},
              {"name", NAME, EIO},
              {"descriptors", OPEN, EMFILE},
              {"short-write", WRITE, SHORT},
              {"denied", OPEN, EACCES},
              {"map", MAP, ENOMEM},
              {"size", SIZE, ENOSPC},
              {"thread", THREAD, EAGAIN},
              {"shrink", MAP, SHRINK},
              {"trim", MAP, TRIM},
              {"shrink-read", READ, SHRINK},
              {"kill", ANY, KILL}};

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *p);
typedef int main_function(int, char **, char **);
int __libc_start_main(main_function *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end);

static atomic_ulong n_calls[N_CLASSES];
static atomic_long n_pieces;
static unsigned long fail_at, fail_from;
static const struct fault *fault;
static atomic_bool armed;
static int report = -1, descriptors;
static char folder[4096];
static main_function *real_main;

/* What the call of this class gives: 0, an errno, or what a fault does instead. */
static int fails(enum class class)
{
    if (!atomic_load(&armed)) return 0;
    if (class != MEMORY && class != ANY) (void)fails(ANY);
    unsigned long n = atomic_fetch_add(&n_calls[class], 1) + 1;
    if (fault == NULL || fault->class != class || (n != fail_at && (fail_from == 0 || n < fail_from)))
        return 0;
    if (fault->error == KILL) (void)raise(SIGKILL);
    if (fault->error > 0) errno = fault->error;
    return fault->error;
}

/* Of calls on descriptors: those of regular files and, for flushing, of folders. */
static int fails_on(enum class class, int fd)
{
    struct stat st;
    int before = errno;
    bool counts = fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
    errno = before;
    return counts ? fails(class) : 0;
}

/* ---- memory ---- */

static void *counted(void *p)
{
    if (p != NULL) atomic_fetch_add(&n_pieces, 1);
    return p;
}

void *malloc(size_t n)
{
    return fails(MEMORY) ? NULL : counted(__libc_malloc(n));
}

void *calloc(size_t n, size_t each)
{
    return fails(MEMORY) ? NULL : counted(__libc_calloc(n, each));
}

void *realloc(void *p, size_t n)
{
    if (fails(MEMORY)) return NULL;
    void *moved = __libc_realloc(p, n);
    if (p == NULL) return counted(moved);
    if (n == 0 && moved == NULL) atomic_fetch_sub(&n_pieces, 1);
    return moved;
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return fails(MEMORY) ? NULL : counted(__libc_memalign(alignment, n));
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
    if (fails(MEMORY)) return ENOMEM;
    *p = counted(__libc_memalign(alignment, n));
    return *p != NULL ? 0 : ENOMEM;
}

void free(void *p)
{
    if (p != NULL) atomic_fetch_sub(&n_pieces, 1);
    __libc_free(p);
}

/* ---- reading and writing ---- */

/* A file of the folder loses its end. */
static void cut(int fd, int how)
{
    char link[64], path[4096];
    struct stat st;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    if (folder[0] == '\0' || strncmp(path, folder, strlen(folder)) != 0 || stat(path, &st) != 0) return;
    (void)!truncate(path, how == SHRINK ? st.st_size / 2 : st.st_size - 64);
}

#define HALF(how, n) ((how) == SHORT && (n) > 1 ? (n) / 2 : (n))

ssize_t read(int fd, void *to, size_t n)
{
    int how = fails_on(READ, fd);
    if (how == SHRINK) cut(fd, how);
    return how > 0 ? -1 : syscall(SYS_read, fd, to, HALF(how, n));
}

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    int how = fails_on(READ, fd);
    return how > 0 ? -1 : syscall(SYS_pread64, fd, to, HALF(how, n), at);
}

ssize_t write(int fd, const void *from, size_t n)
{
    int how = fails_on(WRITE, fd);
    return how > 0 ? -1 : syscall(SYS_write, fd, from, HALF(how, n));
}

ssize_t pwrite(int fd, const void *from, size_t n, off_t at)
{
    int how = fails_on(WRITE, fd);
    return how > 0 ? -1 : syscall(SYS_pwrite64, fd, from, HALF(how, n), at);
}

ssize_t readv(int fd, const struct iovec *parts, int n)
{
    int how = fails_on(READ, fd);
    return how > 0 ? -1 : syscall(SYS_readv, fd, parts, HALF(how, n));
}

ssize_t writev(int fd, const struct iovec *parts, int n)
{
    int how = fails_on(WRITE, fd);
    return how > 0 ? -1 : syscall(SYS_writev, fd, parts, HALF(how, n));
}

/* What the compiler makes of a call whose room it knows (-D_FORTIFY_SOURCE). */
ssize_t __read_chk(int fd, void *to, size_t n, size_t room);
ssize_t __read_chk(int fd, void *to, size_t n, size_t room)
{
    if (n > room) abort();
    return read(fd, to, n);
}

ssize_t __pread_chk(int fd, void *to, size_t n, off_t at, size_t room);
ssize_t __pread_chk(int fd, void *to, size_t n, off_t at, size_t room)
{
    if (n > room) abort();
    return pread(fd, to, n, at);
}

/* ---- flushing, naming, sizes ---- */

int fsync(int fd)
{
    return fails_on(SYNC, fd) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return fails_on(SYNC, fd) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int syncfs(int fd)
{
    return fails_on(SYNC, fd) ? -1 : (int)syscall(SYS_syncfs, fd);
}

int renameat(int from, const char *old, int to, const char *new)
{
    return fails(NAME) ? -1 : (int)syscall(SYS_renameat2, from, old, to, new, 0);
}

int rename(const char *old, const char *new)
{
    return renameat(AT_FDCWD, old, AT_FDCWD, new);
}

int linkat(int from, const char *old, int to, const char *new, int flags)
{
    return fails(NAME) ? -1 : (int)syscall(SYS_linkat, from, old, to, new, flags);
}

int link(const char *old, const char *new)
{
    return linkat(AT_FDCWD, old, AT_FDCWD, new, 0);
}

int symlink(const char *target, const char *path)
{
    return fails(NAME) ? -1 : (int)syscall(SYS_symlinkat, target, AT_FDCWD, path);
}

int ftruncate(int fd, off_t n)
{
    return fails(SIZE) ? -1 : (int)syscall(SYS_ftruncate, fd, n);
}

int fallocate(int fd, int mode, off_t at, off_t n)
{
    return fails(SIZE) ? -1 : (int)syscall(SYS_fallocate, fd, mode, at, n);
}

int posix_fallocate(int fd, off_t at, off_t n)
{
    return fallocate(fd, 0, at, n) == 0 ? 0 : errno;
}

/* ---- opening ---- */

static mode_t mode_of(int flags, va_list more)
{
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0;
}

int openat(int at, const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    return fails(OPEN) ? -1 : (int)syscall(SYS_openat, at, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    return openat(AT_FDCWD, path, flags, mode);
}

int __open_2(const char *path, int flags);
int __open_2(const char *path, int flags)
{
    return openat(AT_FDCWD, path, flags);
}

int __openat_2(int at, const char *path, int flags);
int __openat_2(int at, const char *path, int flags)
{
    return openat(at, path, flags);
}

static FILE *(*real_fopen)(const char *, const char *);
static DIR *(*real_opendir)(const char *);

FILE *fopen(const char *path, const char *mode)
{
    return fails(OPEN) ? NULL : real_fopen(path, mode);
}

DIR *opendir(const char *path)
{
    return fails(OPEN) ? NULL : real_opendir(path);
}

/* Programs with large files call these. */
int open64(const char *path, int flags, ...) __attribute__((alias("open")));
int openat64(int at, const char *path, int flags, ...) __attribute__((alias("openat")));
FILE *fopen64(const char *path, const char *mode) __attribute__((alias("fopen")));
ssize_t pread64(int fd, void *to, size_t n, off_t at) __attribute__((alias("pread")));
ssize_t pwrite64(int fd, const void *from, size_t n, off_t at) __attribute__((alias("pwrite")));
int ftruncate64(int fd, off_t n) __attribute__((alias("ftruncate")));

/* ---- maps, threads ---- */

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    int how = fails(MAP);
    if (how > 0) return MAP_FAILED;
    void *map = (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
    if (how < 0 && fd >= 0) cut(fd, how);
    return map;
}

void *mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset) __attribute__((alias("mmap")));

static int (*real_pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *of)
{
    return fails(THREAD) ? EAGAIN : real_pthread_create(thread, attributes, run, of);
}

/* ---- start and end ---- */

static int count_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < MOST_DESCRIPTORS; fd++)
        n += fd != report && fcntl(fd, F_GETFD) >= 0;
    return n;
}

static const char *take(const char *name)
{
    static char value[4096];
    const char *text = getenv(name);
    snprintf(value, sizeof value, "%s", text != NULL ? text : "");
    unsetenv(name);
    return value;
}

__attribute__((destructor)) static void write_report(void)
{
    char line[256];
    int n = 0;
    atomic_store(&armed, 0);
    if (report < 0) return;
    for (int i = 0; i < N_CLASSES; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, "%lu ", atomic_load(&n_calls[i]));
    n += snprintf(line + n, sizeof line - (size_t)n, "%d %ld\n", count_descriptors() - descriptors,
                  atomic_load(&n_pieces));
    (void)!syscall(SYS_write, report, line, n);
}

static int counted_main(int argc, char **argv, char **environment)
{
    const char *path = take("BN_FAULT_REPORT"), *name;
    if (path[0] != '\0') report = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    fail_at = strtoul(take("BN_FAULT_AT"), NULL, 10);
    fail_from = strtoul(take("BN_FAULT_FROM"), NULL, 10);
    snprintf(folder, sizeof folder, "%s", take("BN_FAULT_FOLDER"));
    name = take("BN_FAULT");
    for (size_t i = 0; i < sizeof FAULTS / sizeof *FAULTS; i++)
        if (strcmp(FAULTS[i].name, name) == 0) fault = &FAULTS[i];
    if (name[0] != '\0' && fault == NULL) abort();
    unsetenv("LD_PRELOAD");
    real_fopen = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    real_opendir = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");
    *(void **)&real_pthread_create = dlsym(RTLD_NEXT, "pthread_create");
    descriptors = count_descriptors();
    atomic_store(&n_pieces, 0);
    atomic_store(&armed, 1);
    return real_main(argc, argv, environment);
}

int __libc_start_main(main_function *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end)
{
    __typeof__(&__libc_start_main) start = dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = main;
    return start(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}
