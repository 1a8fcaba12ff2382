/* SPDX-License-Identifier: MIT
 *
 * The main of unit tests, and their list.
 */
#include "base/mem.h"
#include "tests/unit/status.h"

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

void unit_status(bn_status got, bn_status want, const char *call, const bn_error *at, const char *file,
                 int line)
{
    if (got == want) return;
    print_error("%s: %s, expected %s: %s: %s\n", call, bn_status_name(got), bn_status_name(want), at->where,
                at->msg);
    _fail(file, line);
}

bool unit_short_memory(uint64_t *n, uint64_t *kept, bn_status *status)
{
    bn_mem_fail_after(0);
    if (*n == 0) *kept = bn_mem_stats().bytes_now;
    if (*n > 0) {
        assert_int_equal(bn_mem_stats().bytes_now, *kept);
        assert_true(*status == BN_OK || *status == BN_ERR_NOMEM);
        assert_true(*n < 100000);
        if (*status == BN_OK) assert_true(*n > 1); /* one failed before */
        if (*status == BN_OK) return false;
    }
    bn_mem_fail_after(++*n);
    return true;
}

__attribute__((weak)) int main(void)
{
    return unit_run();
}
