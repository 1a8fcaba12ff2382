/* SPDX-License-Identifier: MIT
 *
 * Programs of tests/symbols that print their addresses, for the tests of symbols.
 */
#ifndef BN_TESTS_KNOWN_PROGRAM_H
#define BN_TESTS_KNOWN_PROGRAM_H

#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/error.h"
#include "lab/symbols/object.h"
#include "lab/symbols/symbols.h"
#include "tests/symbols/chain.h"
#include "tests/unit/folder.h"
#include "tests/unit/stacks/stacks_child.h"

static char built[900]
    __attribute__((unused)); /* the folder of the files that the Makefile made for this test */

static inline void sh(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void sh(const char *format, ...)
{
    char command[4000];
    va_list list;
    va_start(list, format);
    vsnprintf(command, sizeof command, format, list);
    va_end(list);
    if (system(command) != 0) fail_msg("%s", command);
}

/* ---- a program and what it says of itself ---- */

int main(int argc, char **argv); /* its address */

struct seen {
    bn_recording recording;
    struct {
        char name[40];
        uint64_t address;
    } at[32];
    size_t n;
};

static inline void take_map(struct seen *s, const char *line, const char *build_id)
{
    unsigned long start, end, offset;
    char path[2000] = "";
    assert_true(sscanf(line, "map %lx-%lx %*s %lx %*s %*s %1999[^\n]", &start, &end, &offset, path) >= 3);
    struct bn_mapping m = {.pid = 7, .start = start, .end = end, .file_offset = offset};
    if (build_id != NULL && strncmp(path, folder, strlen(folder)) == 0)
        for (m.n_build_id = 0; m.n_build_id < 20; m.n_build_id++) {
            unsigned byte;
            assert_int_equal(sscanf(build_id + 2 * m.n_build_id, "%2x", &byte), 1);
            m.build_id[m.n_build_id] = (unsigned char)byte;
        }
    must(bn_recording_add_mapping(&s->recording, &m, path, NULL));
}

static inline void run_program(struct seen *s, const char *path, const char *build_id)
{
    char line[3000];
    memset(s, 0, sizeof *s);
    FILE *f = popen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        if (line[0] == 'm') take_map(s, line, build_id);
        if (line[0] == 'a') {
            assert_true(s->n < 32);
            assert_int_equal(sscanf(line, "at %39s %lx", s->at[s->n].name, &s->at[s->n].address), 2);
            s->n++;
        }
    }
    assert_int_equal(pclose(f), 0);
    assert_true(s->n >= 16 && s->recording.n_mappings >= 2);
    bn_recording_finish(&s->recording);
}

static inline bn_symbols *open_symbols(const bn_recording *recording, const char *debug_path)
{
    struct bn_symbols_options options = {.inlined = true, .debug_path = debug_path};
    bn_symbols *symbols;
    must(bn_symbols_open(&symbols, recording, &options, NULL));
    return symbols;
}

static const struct bn_frame *look(bn_symbols *symbols, uint32_t pid, uint64_t address, size_t *n)
{
    const struct bn_frame *frames = NULL;
    must(bn_symbols_at(symbols, pid, address, 5, false, false, &frames, n, NULL));
    assert_true(*n >= 1);
    return frames;
}

/* That all addresses have the names that they should; with what names of unknown ones are. */
static inline void expect_names(struct seen *s, const char *debug_path, const char *module, bool inlined)
{
    bn_symbols *symbols = open_symbols(&s->recording, debug_path);
    char unknown[60];
    snprintf(unknown, sizeof unknown, "[%s]", module);
    size_t n_unknown = 0;
    for (size_t i = 0; i < s->n; i++) {
        size_t n;
        const struct bn_frame *f = look(symbols, 7, s->at[i].address, &n);
        const char *name = strcmp(s->at[i].name, "[file]") == 0 ? unknown : s->at[i].name;
        bool deep = strcmp(name, "middle") == 0 || strcmp(name, "innermost") == 0;
        n_unknown += name[0] == '[';
        assert_int_equal(f->kind, name[0] == '[' ? BN_FRAME_UNKNOWN : BN_FRAME_CODE);
        assert_string_equal(f->module, strcmp(name, "[unknown]") == 0 ? "" : module);
        if (!deep) {
            assert_string_equal(f->name, name);
            continue;
        }
        assert_string_equal(f->name, "outer");
        if (!inlined) {
            assert_int_equal(n, 1);
            continue;
        }
        assert_int_equal(n, strcmp(name, "middle") == 0 ? 2 : 3);
        assert_string_equal(f[n - 1].name, name);
        assert_int_equal(f[n - 1].kind, BN_FRAME_INLINED);
        for (size_t k = 0; k < n; k++) {
            assert_has(f[k].file, "program.c");
            assert_true(f[k].line > 20 && f[k].line < 200);
        }
        assert_true(f[1].line < f[0].line);
    }
    struct bn_symbols_counts counts = bn_symbols_counts(symbols);
    assert_int_equal(counts.unknown, n_unknown);
    assert_int_equal(counts.other_builds, 0);
    bn_symbols_close(symbols);
}

static inline void *stack_end(void)
{
    pthread_attr_t attributes;
    void *start;
    size_t n;
    assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
    assert_int_equal(pthread_attr_getstack(&attributes, &start, &n), 0);
    pthread_attr_destroy(&attributes);
    return (char *)start + n;
}

#endif
