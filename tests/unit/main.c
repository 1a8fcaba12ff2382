/* SPDX-License-Identifier: MIT
 *
 * The main of unit tests, and their list.
 */
#include "tests/unit/unit.h"

#define MOST 64

static struct CMUnitTest list[MOST];
static int lines[MOST];
static size_t n_tests;
static CMFixtureFunction before, after;

void unit_add(int line, struct CMUnitTest test)
{
    size_t i = n_tests++;
    if (n_tests > MOST) abort();
    for (; i > 0 && lines[i - 1] > line; i--) {
        list[i] = list[i - 1];
        lines[i] = lines[i - 1];
    }
    list[i] = test;
    lines[i] = line;
}

void unit_group(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    before = setup;
    after = teardown;
}

int unit_run(void)
{
    return _cmocka_run_group_tests("tests", list, n_tests, before, after);
}

void unit_has(const char *text, const char *part, const char *file, int line)
{
    if (text != NULL && strstr(text, part) != NULL) return;
    print_error("\"%s\" is not in \"%s\"\n", part, text == NULL ? "(null)" : text);
    _fail(file, line);
}

__attribute__((weak)) int main(void)
{
    return unit_run();
}
