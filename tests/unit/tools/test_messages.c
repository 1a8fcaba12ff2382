/* SPDX-License-Identifier: MIT
 *
 * tools/cli/report.h and main: what programs print about errors, and how they end. Each case runs in a child
 * process with both streams in files.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "tests/unit/folder.h"
#include "tools/cli/options.h"
#include "tools/cli/report.h"

static char out[4096], err_text[4096]; /* what the last child printed */

static void read_back(int fd, char *text, size_t room)
{
    ssize_t n = pread(fd, text, room - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
}

/* Runs child() in a process of its own and returns its wait status. stdout_path NULL: a file. */
static int run(int (*child)(void), const char *stdout_path)
{
    int out_fd = memfd_create("out", 0), err_fd = memfd_create("err", 0);
    assert_true(out_fd >= 0 && err_fd >= 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int to = stdout_path != NULL ? open(stdout_path, O_WRONLY) : out_fd;
        if (dup2(to, STDOUT_FILENO) < 0 || dup2(err_fd, STDERR_FILENO) < 0) _exit(99);
        _exit(child());
    }
    int status = 0;
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    read_back(out_fd, out, sizeof out);
    read_back(err_fd, err_text, sizeof err_text);
    close(out_fd);
    close(err_fd);
    return status;
}

static void exits(int (*child)(void), int code)
{
    int status = run(child, NULL);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

/* ---- a program whose commands end in every way ---- */

static bn_status succeed(struct bn_args *args, bn_error *e)
{
    (void)args;
    (void)e;
    puts("result");
    return BN_OK;
}

static bn_status refuse(struct bn_args *args, bn_error *e)
{
    (void)e;
    args->exit_code = BN_EXIT_NEGATIVE;
    return BN_OK;
}

static bn_status fail_format(struct bn_args *args, bn_error *e)
{
    (void)args;
    bn_fail_at(e, BN_ERR_FORMAT, 123, "a\x1b.gguf", "tensor 'x\"y': cut \\ short");
    bn_error_hint(e, "fetch it again");
    return BN_ERR_FORMAT;
}

static bn_status fail_late(struct bn_args *args, bn_error *e)
{
    bn_json *document = bn_json_new_object();
    bn_json_put_string(document, "schema", "bn.test/1");
    BN_TRY(bn_cli_print_json(document, e));
    bn_json_free(document);
    return fail_format(args, e);
}

static bn_status fail_bare(struct bn_args *args, bn_error *e)
{
    (void)args;
    (void)e;
    return BN_ERR_NOMEM;
}

/* Names that went into messages as they are. */
static bn_status fail_hostile(struct bn_args *args, bn_error *e)
{
    (void)args;
    bn_report_warning("%s\n%s", "\033[31m",
                      "a\xE2\x80\xAE"
                      "b\\x1B");
    bn_report_note(0, "%s",
                   "\xC2\x9B"
                   "31m");
    bn_fail(e, BN_ERR_FORMAT, "%s: \xC3\xA4 \x7F",
            "\033[31m\xE2\x80\xAE"
            "fdg");
    bn_error_hint(e, "not \xFF %s",
                  "\xE2\x81\xA6"
                  "c\t");
    return BN_ERR_FORMAT;
}

static bn_status write_too_much(struct bn_args *args, bn_error *e)
{
    (void)args;
    struct rlimit limit = {0}, before;
    getrlimit(RLIMIT_FSIZE, &before);
    limit.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    bn_status status = bn_file_write_atomic(below("file"), "text", 4, e);
    setrlimit(RLIMIT_FSIZE, &before);
    return status;
}

static bn_status exclude(struct bn_args *args, bn_error *e)
{
    (void)args;
    return bn_fail(e, BN_ERR_ARG, "--a and --b exclude each other");
}

static const struct bn_command COMMANDS[] = {
    {.name = "succeed", .summary = "s", .synopsis = "", .json = true, .run = succeed},
    {.name = "refuse", .summary = "s", .synopsis = "", .json = true, .run = refuse},
    {.name = "fail", .summary = "s", .synopsis = "", .json = true, .run = fail_format},
    {.name = "late", .summary = "s", .synopsis = "", .json = true, .run = fail_late},
    {.name = "bare", .summary = "s", .synopsis = "", .run = fail_bare},
    {.name = "hostile", .summary = "s", .synopsis = "", .json = true, .run = fail_hostile},
    {.name = "large", .summary = "s", .synopsis = "", .run = write_too_much},
    {.name = "exclude", .summary = "s", .synopsis = "", .json = true, .run = exclude},
    {0},
};
static const struct bn_program PROGRAM = {
    .name = "bn-test", .summary = "a test", .text = "Text.", .commands = COMMANDS};

static char words[4][32];

static int child_main(void)
{
    char *argv[] = {words[0], words[1], words[2], words[3], NULL};
    int argc = 1;
    while (argc < 4 && words[argc][0] != '\0')
        argc++;
    argv[argc] = NULL;
    return bn_cli_main(&PROGRAM, argc, argv);
}

/* Runs `bn-test a b c`. */
static void program_exits(const char *a, const char *b, const char *c, int code)
{
    snprintf(words[0], sizeof words[0], "bn-test");
    snprintf(words[1], sizeof words[1], "%s", a);
    snprintf(words[2], sizeof words[2], "%s", b);
    snprintf(words[3], sizeof words[3], "%s", c);
    exits(child_main, code);
}

TEST(errors_are_one_line_and_a_hint)
{
    program_exits("fail", "", "", BN_EXIT_FORMAT);
    assert_string_equal(out, "");
    assert_string_equal(err_text, "bn-test: error: a\\x1B.gguf: tensor 'x\"y': cut \\ short (at byte 123)\n"
                                  "hint: fetch it again\n");
    program_exits("fail", "--color", "always", BN_EXIT_FORMAT);
    assert_has(err_text, "\033[1;31merror:\033[0m a\\x1B.gguf");
    program_exits("bare", "", "", BN_EXIT_INTERNAL);
    assert_string_equal(err_text, "bn-test: error: out of memory\n");
    program_exits("exclude", "", "", BN_EXIT_USAGE);
    assert_string_equal(err_text, "bn-test: error: --a and --b exclude each other\n"
                                  "hint: see bn-test exclude --help\n");
}

TEST(control_characters_do_not_reach_the_terminal)
{
    program_exits("hostile", "", "", BN_EXIT_FORMAT);
    assert_string_equal(err_text, "bn-test: warning: \\x1B[31m\\x0Aa\\xE2\\x80\\xAEb\\x1B\n"
                                  "bn-test: \\xC2\\x9B31m\n"
                                  "bn-test: error: \\x1B[31m\\xE2\\x80\\xAEfdg: \xC3\xA4 \\x7F\n"
                                  "hint: not \\xFF \\xE2\\x81\\xA6c\\x09\n");
    program_exits("hostile", "--json", "", BN_EXIT_FORMAT);
    assert_null(strstr(out, "\xE2\x80\xAE"));
}

TEST_IN(a_limit_of_file_sizes_is_an_error, make_folder, remove_folder)
{
    program_exits("large", "", "", BN_EXIT_IO);
    assert_has(err_text, "File too large");
}

TEST(exit_codes_of_results)
{
    program_exits("succeed", "", "", BN_EXIT_OK);
    assert_string_equal(out, "result\n");
    assert_string_equal(err_text, "");
    program_exits("refuse", "", "", BN_EXIT_NEGATIVE);
    assert_string_equal(err_text, "");
}

TEST(json_errors_are_one_document)
{
    program_exits("fail", "--json", "", BN_EXIT_FORMAT);
    bn_json *document = NULL;
    const char *text = NULL;
    uint64_t number = 0;
    must(bn_json_parse(&document, out, strlen(out), NULL));
    assert_true(bn_json_string(bn_json_get(document, "schema"), &text));
    assert_string_equal(text, "bn.error/1");
    assert_true(bn_json_string(bn_json_get(document, "message"), &text));
    assert_string_equal(text, "tensor 'x\"y': cut \\ short");
    assert_true(bn_json_string(bn_json_get(document, "where"), &text));
    assert_string_equal(text, "a\\x1B.gguf");
    assert_true(bn_json_u64(bn_json_get(document, "exit"), &number) && number == BN_EXIT_FORMAT);
    assert_true(bn_json_u64(bn_json_get(document, "offset"), &number) && number == 123);
    bn_json_free(document);

    program_exits("late", "--json", "", BN_EXIT_FORMAT);
    must(bn_json_parse(&document, out, strlen(out), NULL));
    assert_true(bn_json_string(bn_json_get(document, "schema"), &text));
    assert_string_equal(text, "bn.test/1");
    bn_json_free(document);

    program_exits("fail", "--json", "--nonsense", BN_EXIT_USAGE);
    assert_string_equal(out, "");
}

TEST(lost_output_overrides_the_result)
{
    snprintf(words[1], sizeof words[1], "succeed");
    words[2][0] = words[3][0] = '\0';
    int status = run(child_main, "/dev/full");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), BN_EXIT_IO);
    assert_string_equal(err_text,
                        "bn-test: error: standard output: could not be written: No space left on device\n");
}

static int child_messages(void)
{
    bn_report_start("bn-test");
    bn_report_set(BN_COLOR_NEVER, false, 1, false);
    bn_report_warning("w%d", 1);
    bn_report_note(0, "n%d", 0);
    bn_report_note(1, "n%d", 1);
    bn_report_note(2, "n%d", 2);
    bn_report_set(BN_COLOR_NEVER, true, 0, false);
    bn_report_warning("w%d", 2);
    bn_report_note(0, "n%d", 3);
    return bn_report_finish(5);
}

TEST(quiet_and_verbose)
{
    exits(child_messages, 5);
    assert_string_equal(err_text, "bn-test: warning: w1\nbn-test: n0\nbn-test: n1\n");
}

static int child_closed(void)
{
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    bn_report_start("bn-test");
    int fd = open("/dev/null", O_WRONLY); /* stands for a model file */
    if (fd <= STDERR_FILENO) return 99;
    char byte;
    if (read(STDIN_FILENO, &byte, 1) >= 0) return 98;
    puts("lost");
    return bn_report_finish(0);
}

TEST(closed_descriptors_are_not_given_to_files)
{
    exits(child_closed, BN_EXIT_IO);
}

/* Reads a page that the file no longer has. */
static int child_shrunk(void)
{
    bn_report_start("bn-test");
    int fd = memfd_create("model", 0);
    if (fd < 0 || ftruncate(fd, 1 << 16) != 0) return 99;
    volatile const char *bytes = mmap(NULL, 1 << 16, PROT_READ, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED || ftruncate(fd, 0) != 0) return 99;
    return bytes[1 << 15];
}

TEST(a_file_that_shrinks_gives_a_message)
{
    exits(child_shrunk, BN_EXIT_IO);
    assert_has(err_text, "bn-test: error: a file in use became shorter");
}

static int child_interrupted_once(void)
{
    bn_cli_catch_interrupt();
    if (bn_cli_interrupted() != 0) return 99;
    raise(SIGINT);
    return bn_cli_interrupted() == SIGINT ? 0 : 98;
}

static int child_interrupted_twice(void)
{
    bn_cli_catch_interrupt();
    raise(SIGTERM);
    raise(SIGINT);
    return 99;
}

TEST(the_second_interrupt_ends_the_process)
{
    exits(child_interrupted_once, 0);
    int status = run(child_interrupted_twice, NULL);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGINT);
}

static int child_last_words(void)
{
    bn_cli_catch_interrupt();
    bn_cli_last_words("plain again\n");
    raise(SIGINT);
    if (bn_cli_interrupted() != SIGINT) return 99;
    raise(SIGINT);
    return 98;
}

static int child_forgets(void)
{
    bn_cli_catch_interrupt();
    bn_cli_last_words("too early\n");
    for (int i = 0; i < 3; i++) {
        raise(SIGINT);
        if (bn_cli_interrupted() != SIGINT) return 99;
        bn_cli_forget_interrupt();
    }
    return bn_cli_interrupted();
}

TEST(last_words_come_before_the_end_only)
{
    int status = run(child_last_words, NULL);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGINT);
    assert_string_equal(err_text, "plain again\n");
    exits(child_forgets, 0);
    assert_string_equal(err_text, "");
}

static int child_colors(void)
{
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    bn_report_set(BN_COLOR_AUTO, false, 0, false);
    if (bn_report_color(stderr)) return 99; /* a file is not a terminal */
    bn_report_set(BN_COLOR_ALWAYS, false, 0, false);
    if (!bn_report_color(stderr)) return 98;
    return (int)bn_report_columns(stdout);
}

TEST(colours_and_columns_of_a_file)
{
    exits(child_colors, 80);
}
