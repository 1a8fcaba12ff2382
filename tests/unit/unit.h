/* SPDX-License-Identifier: MIT
 *
 * What every unit test includes: cmocka, the headers that it needs before it, and the usual ones of libc. A test is
 * TEST(name) { ... }, which adds it to the program. main.c runs the tests in the order of their lines; a program that
 * has a main of its own calls unit_run.
 */
#ifndef BN_TESTS_UNIT_H
#define BN_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEST(name) TEST_IN(name, NULL, NULL)
/* A test between a setup and a teardown of its own. */
#define TEST_IN(name, setup, teardown)                                               \
    static void name(void **state);                                                  \
    __attribute__((constructor)) static void add_##name(void)                        \
    {                                                                                \
        unit_add(__LINE__, (struct CMUnitTest){#name, name, setup, teardown, NULL}); \
    }                                                                                \
    static void name(__attribute__((unused)) void **state)
/* A setup or a teardown, which fails by its assertions. */
#define FIXTURE(name)                                     \
    static void name##_once(void);                        \
    static int name(__attribute__((unused)) void **state) \
    {                                                     \
        name##_once();                                    \
        return 0;                                         \
    }                                                     \
    static void name##_once(void)
/* Before the first test of the program, and after the last one. */
#define GROUP(setup, teardown)                                 \
    __attribute__((constructor)) static void group_tests(void) \
    {                                                          \
        unit_group(setup, teardown);                           \
    }
/* A text has a part. */
#define assert_has(text, part) unit_has(text, part, __FILE__, __LINE__)

void unit_add(int line, struct CMUnitTest test);
void unit_group(CMFixtureFunction setup, CMFixtureFunction teardown);
int unit_run(void);
void unit_has(const char *text, const char *part, const char *file, int line);

#endif
