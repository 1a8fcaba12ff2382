/* SPDX-License-Identifier: MIT
 *
 * Starts a program in each way that the C library has, one after the other.
 *
 *     start PROGRAM [ARGUMENT...]
 *
 * prints the ways, each with the status that the program ended with.
 */
#include "sampled.h"

#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const WAYS[] = {"execve",      "execv",        "execvp",  "execvpe",  "execl",
                                   "execlp",      "execle",       "fexecve", "execveat", "vfork",
                                   "posix_spawn", "posix_spawnp", "system",  "popen"};

/* As a command of the shell; its arguments have no character that means something in double quotes. */
static void put_command(char *text, size_t room, char **argv)
{
    size_t n = 0;
    for (; *argv != NULL && n < room; argv++)
        n += (size_t)snprintf(text + n, room - n, "\"%s\" ", *argv);
}

static char *argument_at(char **argv, int n)
{
    while (n > 0 && *argv != NULL)
        n--, argv++;
    return *argv;
}

static void become(const char *way, char **argv)
{
    char *a[7];
    for (int i = 0; i < 7; i++)
        a[i] = argument_at(argv, i);
    if (strcmp(way, "execve") == 0) execve(argv[0], argv, environ);
    if (strcmp(way, "execv") == 0) execv(argv[0], argv);
    if (strcmp(way, "execvp") == 0) execvp(argv[0], argv);
    if (strcmp(way, "execvpe") == 0) execvpe(argv[0], argv, environ);
    if (strcmp(way, "execl") == 0) execl(a[0], a[0], a[1], a[2], a[3], a[4], a[5], a[6], NULL);
    if (strcmp(way, "execlp") == 0) execlp(a[0], a[0], a[1], a[2], a[3], a[4], a[5], a[6], NULL);
    if (strcmp(way, "execle") == 0) execle(a[0], a[0], a[1], a[2], a[3], a[4], a[5], a[6], NULL, environ);
    if (strcmp(way, "fexecve") == 0) fexecve(open(argv[0], O_RDONLY | O_CLOEXEC), argv, environ);
    if (strcmp(way, "execveat") == 0) execveat(AT_FDCWD, argv[0], argv, environ, 0);
}

static int wait_for(pid_t pid)
{
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static int by_vfork(char **argv)
{
    pid_t pid = vfork();
    if (pid == 0) {
        execv(argv[0], argv);
        _exit(127);
    }
    return wait_for(pid);
}

static int by_popen(const char *command)
{
    char bytes[4096];
    FILE *f = popen(command, "r");
    if (f == NULL) return -1;
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, f)) > 0;)
        fwrite(bytes, 1, n, stdout);
    return pclose(f);
}

static int start(const char *way, char **argv)
{
    char command[4096];
    pid_t pid = 0;
    put_command(command, sizeof command, argv);
    if (strcmp(way, "system") == 0) return system(command);
    if (strcmp(way, "popen") == 0) return by_popen(command);
    if (strcmp(way, "vfork") == 0) return by_vfork(argv);
    if (strcmp(way, "posix_spawn") == 0)
        return posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) == 0 ? wait_for(pid) : -1;
    if (strcmp(way, "posix_spawnp") == 0)
        return posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) == 0 ? wait_for(pid) : -1;
    pid = fork();
    if (pid == 0) {
        become(way, argv);
        _exit(127);
    }
    return wait_for(pid);
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        int status = start(WAYS[i], argv + 1);
        printf("%s: %d\n", WAYS[i], WIFEXITED(status) ? WEXITSTATUS(status) : -1);
        fflush(stdout);
    }
    return 0;
}
