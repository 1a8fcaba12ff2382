/* SPDX-License-Identifier: MIT
 *
 * tools/cli: reading command lines by a table, the texts of usage errors, suggestions, help.
 */
#define _GNU_SOURCE

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/suggest.h"
#include "tests/unit/status.h"
#include "tests/unit/tools/command_line.h"
#include "tools/cli/options.h"
#include "tools/cli/program/help.h"

/* ---- a program to parse for ---- */

struct made {
    uint32_t threads, count;
    struct bn_texts stops;
    int kind;
    bool offline;
    size_t apart;
};
static const struct bn_option SHARED[] = {
    {.name = "threads",
     .letter = 't',
     .arg = "N",
     .env = "BN_TEST_THREADS",
     .help = "threads",
     BN_TO_U32(struct made, threads, 1, 8)},
    {0},
};
static const struct bn_option MAKE[] = {
    {.name = "count",
     .letter = 'n',
     .arg = "N",
     .preset = "32",
     .help = "how many",
     BN_TO_U32(struct made, count, 1, 100)},
    {.name = "stop",
     .arg = "TEXT",
     .repeatable = true,
     .help = "end at this text",
     BN_TO_TEXTS(struct made, stops)},
    {.name = "kind",
     .arg = "auto|raw|chat",
     .preset = "auto",
     .env = "BN_TEST_KIND",
     .help = "kind of template",
     BN_TO_CHOICE(struct made, kind)},
    {.name = "offline",
     .letter = 'o',
     .env = "BN_TEST_OFFLINE",
     .help = "no network",
     BN_TO_BOOL(struct made, offline)},
    {0},
};
static const struct bn_option APART[] = {
    {.name = "apart", .help = "separates files", BN_TO_PLACE(struct made, apart)},
    {0},
};

static const struct bn_command COMMANDS[] = {
    {.name = "make",
     .summary = "make things",
     .synopsis = "[-n N]",
     .options = {SHARED, MAKE},
     .json = true,
     .bytes = sizeof(struct made),
     .run = nothing},
    {.name = "show",
     .summary = "show files",
     .synopsis = "FILE...",
     .options = {SHARED, APART},
     .min_operands = 1,
     .max_operands = 2,
     .operand = "FILE",
     .bytes = sizeof(struct made),
     .run = nothing},
    {0},
};
static const struct bn_program USUAL = {
    .name = "bn-test", .summary = "a test", .text = "Text.", .commands = COMMANDS, .default_command = "make"};
static const struct bn_program NAMED = {
    .name = "bn-test", .summary = "a test", .text = "Text.", .commands = COMMANDS};
static const struct bn_command SINGLE_COMMAND[] = {
    {.name = "",
     .summary = "check",
     .synopsis = "[FILE]",
     .options = {SHARED},
     .max_operands = 1,
     .operand = "FILE",
     .bytes = sizeof(struct made),
     .run = nothing},
    {0},
};
static const struct bn_program SINGLE = {
    .name = "bn-one", .summary = "a test", .text = "Text.", .commands = SINGLE_COMMAND};

TEST(options_are_read_in_every_spelling)
{
    static const char *const LINES[] = {"--threads 3",
                                        "--threads=3",
                                        "-t 3",
                                        "-t3",
                                        "-qt3",
                                        "-q -t 3",
                                        "-t 1 -t 3",
                                        "make -t 3",
                                        "-v make -t3",
                                        "--color never make -t3",
                                        "--color=never make -t3"};
    for (size_t i = 0; i < BN_ARRAY_LEN(LINES); i++) {
        struct bn_args args;
        char typed[BN_TYPED];
        accept_for(&USUAL, LINES[i], &args);
        const struct made *m = args.fields;
        assert_string_equal(args.command->name, "make");
        assert_true(bn_args_given(&args, &m->threads));
        assert_string_equal(bn_args_typed(&args, &m->threads, typed), i < 2 ? "--threads" : "-t");
        assert_int_equal(m->threads, 3);
        bn_args_release(&args);
    }
}

TEST(flags_and_presets)
{
    struct bn_args args;
    char typed[BN_TYPED];
    accept_for(&USUAL, "-vvo --json -q --verbose --color=never", &args);
    const struct made *m = args.fields;
    assert_true(args.json && args.quiet && args.color == 2);
    assert_int_equal(args.verbose, 3);
    assert_true(m->offline);
    assert_false(bn_args_given(&args, &m->count));
    assert_string_equal(bn_args_typed(&args, &m->count, typed), "--count");
    assert_int_equal(m->count, 32);
    assert_int_equal(m->threads, 0); /* nothing gave one */
    assert_int_equal(m->kind, 0);
    bn_args_release(&args);
}

TEST(repeatable_options_keep_their_order)
{
    struct bn_args args;
    accept_for(&USUAL, "--stop a+b --stop=c --stop= --count 5", &args);
    const struct made *m = args.fields;
    assert_int_equal(m->stops.n, 3);
    assert_string_equal(m->stops.list[0], "a b");
    assert_string_equal(m->stops.list[1], "c");
    assert_string_equal(m->stops.list[2], "");
    bn_args_release(&args);
}

TEST(operands_and_commands)
{
    struct bn_args args;
    accept_for(&USUAL, "show a --apart -t 2 -", &args);
    assert_string_equal(args.command->name, "show");
    assert_int_equal(args.n_operands, 2);
    assert_string_equal(args.operands[0], "a");
    assert_string_equal(args.operands[1], "-");
    assert_null(args.operands[2]);
    assert_int_equal(((const struct made *)args.fields)->apart, 1);
    bn_args_release(&args);
    accept_for(&NAMED, "show -- --threads -x", &args);
    assert_int_equal(((const struct made *)args.fields)->apart, 0); /* not given */
    assert_int_equal(args.n_operands, 2);
    assert_string_equal(args.operands[0], "--threads");
    bn_args_release(&args);
    accept_for(&SINGLE, "show", &args); /* a file, there are no commands */
    assert_string_equal(args.operands[0], "show");
    bn_args_release(&args);
    accept_for(&USUAL, "", &args);
    assert_string_equal(args.command->name, "make");
    bn_args_release(&args);
    /* A value that reads like a command is a value. */
    accept_for(&USUAL, "--stop show", &args);
    assert_string_equal(args.command->name, "make");
    bn_args_release(&args);
}

TEST(help_and_version_win_over_what_follows)
{
    static const char *const LINES[] = {
        "-h", "--help", "-q -h --nonsense", "-t 3 --help=", "show --help", "help", "help show", "-q help"};
    struct bn_args args;
    for (size_t i = 0; i < BN_ARRAY_LEN(LINES); i++) {
        bn_status status = attempt(parse_for(&USUAL, LINES[i], &args, &err));
        assert_int_equal(status, i == 3 ? BN_ERR_ARG : BN_OK);
        assert_int_equal(args.want_help, i != 3);
        bn_args_release(&args);
    }
    accept_for(&NAMED, "-V", &args);
    assert_true(args.want_version);
    bn_args_release(&args);
}

TEST(usage_errors_name_the_word_and_a_remedy)
{
    refuse_for(&USUAL, "--thread 3", "unknown option '--thread'",
               "did you mean --threads? see bn-test --help");
    refuse_for(&USUAL, "--thraeds=3", "unknown option '--thraeds'",
               "did you mean --threads? see bn-test --help");
    refuse_for(&USUAL, "show --xyzzy", "unknown option '--xyzzy'", "see bn-test show --help");
    refuse_for(&USUAL, "show --count 1 f", "unknown option '--count'", "see bn-test show --help");
    refuse_for(&USUAL, "show --json f", "unknown option '--json'", "see bn-test show --help");
    refuse_for(&USUAL, "-x", "unknown option '-x'", "see bn-test --help");
    refuse_for(&USUAL, "-stop", "unknown option '-s'", "did you mean --stop? see bn-test --help");
    refuse_for(&USUAL, "--threads", "option --threads needs a value: N", "see bn-test --help");
    refuse_for(&USUAL, "-t", "option -t needs a value: N", "see bn-test --help");
    refuse_for(&USUAL, "--quiet=1", "option --quiet takes no value", "see bn-test --help");
    refuse_for(&USUAL, "mkae", "unknown command 'mkae'", "did you mean make? see bn-test --help");
    refuse_for(&USUAL, "-t 3 extra", "unexpected argument 'extra'", "see bn-test --help");
    refuse_for(&USUAL, "show a b c", "unexpected argument 'c'", "see bn-test show --help");
    refuse_for(&USUAL, "show a --apart b --apart", "--apart given more than once", "");
    refuse_for(&USUAL, "show", "FILE is missing", "see bn-test show --help");
    refuse_for(&NAMED, "", "no command given", "see bn-test --help");
    refuse_for(&NAMED, "--cuont 1", "unknown option '--cuont'", "see bn-test --help");
    refuse_for(&USUAL, "--kind rwa", "--kind: 'rwa' is not one of auto|raw|chat", "did you mean raw?");
    refuse_for(&USUAL, "--kind=au", "--kind: 'au' is not one of auto|raw|chat", "");
    refuse_for(&USUAL, "--color=yes", "--color: 'yes' is not one of auto|always|never", "");
    refuse_for(&USUAL, "-qh", "-h cannot be combined with other options (got '-qh')", "see bn-test --help");
    refuse_for(&USUAL, "-Vq", "-V cannot be combined with other options (got '-Vq')", "see bn-test --help");
    refuse_for(&USUAL, "--\x1b[2J", "unknown option '--\\x1B[2J'", "see bn-test --help");
}

static const struct bn_option MODEL[] = {BN_OPTION_MODEL, {0}};
static const struct bn_command TEXT_COMMANDS[] = {
    {.name = "make",
     .summary = "make things",
     .synopsis = "TEXT",
     .options = {MODEL, SHARED},
     .bytes = sizeof(struct made),
     .max_operands = 1,
     .operand = "TEXT",
     .operand_is_text = true,
     .run = nothing},
    {.name = "show",
     .summary = "show",
     .synopsis = "",
     .options = {MODEL, SHARED},
     .bytes = sizeof(struct made),
     .run = nothing},
    {0},
};
static const struct bn_program TEXTS = {.name = "bn-test",
                                        .summary = "a test",
                                        .text = "Text.",
                                        .commands = TEXT_COMMANDS,
                                        .default_command = "make"};

TEST(a_text_is_not_taken_for_a_misspelt_command)
{
    static const char *const ACCEPTED[] = {"a+b",     "-t 3 a+b",       "a: -t 3", "make word",
                                           "-- shwo", "make -t 3 shwo", "word",    "-t 3 word"};
    struct bn_args args;
    for (size_t i = 0; i < BN_ARRAY_LEN(ACCEPTED); i++) {
        accept_for(&TEXTS, ACCEPTED[i], &args);
        assert_string_equal(args.command->name, "make");
        assert_int_equal(args.n_operands, 1);
        bn_args_release(&args);
    }
    accept_for(&TEXTS, "-m file.gguf", &args);
    assert_string_equal(args.model, "file.gguf");
    assert_true(bn_args_given(&args, &args.model));
    bn_args_release(&args);
    refuse_for(&TEXTS, "shwo", "unknown command 'shwo'",
               "did you mean show? a TEXT of this word needs -p; see bn-test --help");
    refuse_for(&TEXTS, "-t 3 shwo", "unknown command 'shwo'",
               "did you mean show? a TEXT of this word needs -p; see bn-test --help");
    refuse_for(&TEXTS, "-t 3 show", "the command 'show' is not the first word",
               "write bn-test show, then the options");
    refuse_for(&TEXTS, "two words", "unexpected argument 'words'", "a TEXT of several words needs quotes");
}

TEST(options_of_llama_cpp_are_explained)
{
    refuse_for(&TEXTS, "-hf owner/repo", "unknown option '-hf'", "here: bn-test -m hf:owner/repo");
    refuse_for(&TEXTS, "show -hf -t 3", "unknown option '-hf'", "here: bn-test show -m hf:...");
    refuse_for(&TEXTS, "--mlock", "unknown option '--mlock'", "it is not needed");
    refuse_for(&TEXTS, "--ctx-size 9", "unknown option '--ctx-size'", "see bn-test --help");
    refuse_for(&TEXTS, "pull", "unknown command 'pull'",
               "here: bn download; a TEXT of this word needs -p; see bn-test --help");
    refuse_for(&USUAL, "-hf owner/repo", "-h cannot be combined with other options (got '-hf')",
               "see bn-test --help");
}

TEST(the_environment_counts_when_the_line_is_silent)
{
    struct bn_args args;
    char typed[BN_TYPED];
    setenv("BN_TEST_THREADS", "5", 1);
    setenv("BN_TEST_OFFLINE", "1", 1);
    accept_for(&USUAL, "", &args);
    const struct made *m = args.fields;
    assert_int_equal(m->threads, 5);
    assert_true(m->offline && bn_args_given(&args, &m->offline));
    assert_string_equal(bn_args_typed(&args, &m->threads, typed), "BN_TEST_THREADS");
    bn_args_release(&args);
    accept_for(&USUAL, "-t 2", &args);
    m = args.fields;
    assert_int_equal(m->threads, 2);
    bn_args_release(&args);
    setenv("BN_TEST_THREADS", "9", 1);
    refuse_for(&USUAL, "", "BN_TEST_THREADS must be between 1 and 8 (got 9)", "");
    setenv("BN_TEST_THREADS", "", 1);
    setenv("BN_TEST_OFFLINE", "0", 1);
    accept_for(&USUAL, "", &args);
    m = args.fields;
    assert_false(bn_args_given(&args, &m->threads));
    assert_false(m->offline);
    bn_args_release(&args);
    setenv("BN_TEST_KIND", "x", 1);
    refuse_for(&USUAL, "", "BN_TEST_KIND: 'x' is not one of auto|raw|chat", "");
    accept_for(&USUAL, "--kind raw", &args);
    m = args.fields;
    assert_int_equal(m->kind, 1);
    bn_args_release(&args);
    unsetenv("BN_TEST_THREADS");
    unsetenv("BN_TEST_OFFLINE");
    unsetenv("BN_TEST_KIND");
}

TEST(edit_distances)
{
    static const struct {
        const char *a, *b;
        size_t distance;
    } CASES[] = {{"", "", 0},
                 {"a", "", 1},
                 {"abc", "abc", 0},
                 {"abc", "acb", 1},
                 {"thread", "threads", 1},
                 {"kitten", "sitting", 3},
                 {"ca", "abc", 3},
                 {"sotp", "stop", 1}};
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        assert_int_equal(bn_edit_distance(CASES[i].a, CASES[i].b), CASES[i].distance);
        assert_int_equal(bn_edit_distance(CASES[i].b, CASES[i].a), CASES[i].distance);
    }
    char longest[200];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(bn_edit_distance(longest, "x"), BN_SUGGEST_MAX);
}

TEST(the_nearest_word_is_suggested)
{
    struct bn_suggestion s = {.typed = "tem"};
    bn_suggest(&s, "template");
    bn_suggest(&s, "temp");
    assert_string_equal(s.best, "template"); /* both begin so: the first one */
    s = (struct bn_suggestion){.typed = "modle"};
    bn_suggest(&s, "mode");
    bn_suggest(&s, "model");
    assert_string_equal(s.best, "mode");
    s = (struct bn_suggestion){.typed = "zzz"};
    bn_suggest(&s, "model");
    bn_suggest(&s, "n");
    assert_null(s.best);
    s = (struct bn_suggestion){.typed = ""};
    bn_suggest(&s, "n");
    assert_null(s.best);
}

static char *help_text(const struct bn_program *program, const struct bn_command *command, size_t columns)
{
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    bn_help_print(out, program, command, true, columns);
    fclose(out);
    return text;
}

TEST(help_tells_everything_within_its_columns)
{
    for (size_t columns = 60; columns <= 100; columns += 10) {
        char *text = help_text(&USUAL, NULL, columns);
        for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
            assert_true(strcspn(line, "\n") <= columns);
        for (size_t i = 0; MAKE[i].name != NULL; i++)
            assert_has(text, MAKE[i].name);
        assert_has(text, "-t, --threads N");
        assert_has(text, "[$BN_TEST_THREADS]");
        assert_has(text, "how many [32]");
        assert_has(text, "bn-test [make] [-n N]");
        assert_has(text, "bn-test show FILE...");
        free(text);
    }
    char *text = help_text(&USUAL, &COMMANDS[1], 80);
    assert_has(text, "bn-test show - show files");
    assert_null(strstr(text, "--count"));
    free(text);
}

/* ---- tables that contradict themselves ---- */

/* Whether checking a program whose command has these options stops the process. */
static bool check_stops(const struct bn_option *options)
{
    struct bn_command commands[] = {
        {.name = "", .summary = "s", .synopsis = "", .options = {options}, .run = nothing}, {0}};
    struct bn_program program = {.name = "bn-test", .summary = "s", .text = "t", .commands = commands};
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        if (freopen("/dev/null", "w", stderr) == NULL) _exit(1);
        bn_program_check(&program);
        _exit(0);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

TEST(wrong_tables_are_bugs)
{
    static const struct bn_option GOOD[] = {{.name = "a", .letter = 'a', .help = "x"}, {0}};
    static const struct bn_option TWICE[] = {{.name = "a", .help = "x"}, {.name = "a", .help = "x"}, {0}};
    static const struct bn_option LETTER[] = {{.name = "a", .letter = 'q', .help = "x"}, {0}};
    static const struct bn_option TAKEN[] = {{.name = "help", .help = "x"}, {0}};
    static const struct bn_option HELPLESS[] = {{.name = "a"}, {0}};
    static const struct bn_option PRESET[] = {{.name = "a", .arg = "x|y", .preset = "z", .help = "x"}, {0}};
    static const struct bn_option FLAG[] = {{.name = "a", .preset = "1", .help = "x"}, {0}};
    static const struct bn_option HOMELESS[] = {{.name = "a", .help = "x", BN_TO_BOOL(struct made, offline)},
                                                {0}};
    assert_true(check_stops(HOMELESS)); /* the command has no struct */
    assert_false(check_stops(GOOD));
    assert_true(check_stops(TWICE));
    assert_true(check_stops(LETTER));
    assert_true(check_stops(TAKEN));
    assert_true(check_stops(HELPLESS));
    assert_true(check_stops(PRESET));
    assert_true(check_stops(FLAG));
}
