/* SPDX-License-Identifier: MIT
 *
 * base/file.h: what replacing a file keeps, and that leftovers of killed programs are in nobody's way.
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "tests/unit/folder.h"

static char file[64], other[64];

static size_t count_entries(void)
{
    size_t n = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n - 2; /* without "." and ".." */
}

FIXTURE(begin)
{
    assert_int_equal(make_folder(NULL), 0);
    strcpy(file, below("file"));
    strcpy(other, below("other"));
    umask(022);
}

FIXTURE(end)
{
    size_t n = count_entries();
    assert_int_equal(remove_folder(NULL), 0);
    assert_in_range(n, 0, 2);
}

static void put(const char *path, const char *text)
{
    must(bn_file_write_atomic(path, text, strlen(text), NULL));
}

static void has(const char *path, const char *text)
{
    struct bn_buf buf = {.max = 1000};
    must(bn_file_read(path, &buf, NULL));
    assert_string_equal(buf.data, text);
    bn_buf_release(&buf);
}

static struct stat stat_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st;
}

static unsigned mode_of(const char *path)
{
    return stat_of(path).st_mode & 07777;
}

TEST_IN(new_files_follow_the_umask, begin, end)
{
    put(file, "a");
    assert_int_equal(mode_of(file), 0644);
    umask(077);
    put(other, "b");
    assert_int_equal(mode_of(other), 0600);
}

TEST_IN(replaced_files_keep_their_rights, begin, end)
{
    static const mode_t MODES[] = {0600, 0640, 0664, 0444, 0777};
    put(file, "a");
    for (size_t i = 0; i < sizeof MODES / sizeof MODES[0]; i++) {
        assert_int_equal(chmod(file, MODES[i]), 0);
        put(file, "b");
        assert_int_equal(mode_of(file), MODES[i]);
    }
    if (getuid() != 0) return;
    assert_int_equal(chown(file, 12345, 54321), 0);
    put(file, "c");
    assert_int_equal(stat_of(file).st_uid, 12345);
    assert_int_equal(stat_of(file).st_gid, 54321);
    assert_int_equal(mode_of(file), 0777);
}

TEST_IN(links_stay, begin, end)
{
    put(file, "old");
    assert_int_equal(symlink(file, other), 0);
    put(other, "new");
    assert_true(S_ISLNK(stat_of(other).st_mode));
    has(file, "new");
    unlink(other);
    assert_int_equal(link(file, other), 0);
    put(other, "third");
    has(file, "new");
    has(other, "third");
}

TEST_IN(leftovers_do_not_block, begin, end)
{
    char left[PATH_MAX];
    snprintf(left, sizeof left, "%s.tmp-%ld", file, (long)getpid());
    FILE *f = fopen(left, "w");
    assert_non_null(f);
    fclose(f);
    put(file, "text");
    has(file, "text");
    assert_int_equal(count_entries(), 2);
}

TEST_IN(temporary_names_differ, begin, end)
{
    char first[PATH_MAX], second[PATH_MAX];
    int fd;
    must(bn_file_temp_open(&fd, first, sizeof first, file, 0600, NULL));
    close(fd);
    must(bn_file_temp_open(&fd, second, sizeof second, file, 0600, NULL));
    close(fd);
    assert_string_not_equal(first, second);
    assert_int_equal(strncmp(first, file, strlen(file)), 0);
    assert_int_equal(strncmp(first + strlen(file), ".tmp-", 5), 0);
    refused(bn_file_temp_name(first, strlen(file) + 10, file, &err), BN_ERR_NOT_FOUND);
    assert_string_equal(err.where, file);
}

/* What a killed program leaves is what is there before the file is kept. */
TEST_IN(a_new_file_has_no_name, begin, end)
{
    char temp[PATH_MAX];
    int fd, probe = open(folder, O_WRONLY | O_TMPFILE, 0600);
    for (int again = 0; again < 2; again++) { /* the second one replaces the first */
        must(bn_file_temp_open(&fd, temp, sizeof temp, file, 0600, NULL));
        assert_int_equal(write(fd, again ? "second" : "first", again ? 6 : 5), again ? 6 : 5);
        if (probe >= 0) assert_int_equal(count_entries(), again);
        must(bn_file_temp_keep(fd, temp, file, NULL));
        close(fd);
        has(file, again ? "second" : "first");
        assert_int_equal(count_entries(), 1);
    }
    if (probe >= 0) close(probe);
}

TEST_IN(failures_leave_nothing, begin, end)
{
    const char *missing = below("no/file");
    refused(bn_file_write_atomic(missing, "x", 1, &err), BN_ERR_NOT_FOUND);
    assert_string_equal(err.where, missing);
    assert_int_equal(count_entries(), 0);
}
