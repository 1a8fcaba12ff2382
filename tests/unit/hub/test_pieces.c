/* SPDX-License-Identifier: MIT
 *
 * hub/pieces: what an unfinished download takes of the disk and of memory, what it leaves, and what
 * an earlier run may have left.
 */
#define _GNU_SOURCE

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "hub/net/transfer.h"
#include "tests/unit/folder.h"

static char path[64], part[96], journal[96];

FIXTURE(begin)
{
    assert_int_equal(make_folder(NULL), 0);
    strcpy(path, below("m.gguf"));
    snprintf(part, sizeof part, "%s.part", path);
    snprintf(journal, sizeof journal, "%s.part.json", path);
}

static bn_status open_pieces(struct bn_pieces **out, uint64_t size, bool reserve, bn_error *e)
{
    const struct bn_pieces_origin origin = {"id", "\"etag\"", "", size, reserve};
    struct bn_pieces_found found = {0};
    return bn_pieces_open(out, path, &origin, &found, e);
}

static uint64_t bytes_on_disk(void)
{
    struct stat st;
    assert_int_equal(stat(part, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

static void write_piece(struct bn_pieces *p, size_t i)
{
    static const char zeros[BN_PIECE_BYTES];
    must(bn_pieces_write(p, (uint64_t)i * BN_PIECE_BYTES, zeros, sizeof zeros, NULL));
    must(bn_pieces_done(p, i, NULL));
}

static void assert_nothing_left(void)
{
    assert_int_not_equal(access(part, F_OK), 0);
    assert_int_not_equal(access(journal, F_OK), 0);
}

#define EIGHT_PIECES (8u * (uint64_t)BN_PIECE_BYTES)

TEST_IN(test_a_claimed_size_takes_no_disk_space, begin, remove_folder)
{
    struct bn_pieces *p;
    must(open_pieces(&p, EIGHT_PIECES, false, NULL));
    assert_int_equal(bytes_on_disk(), 0);
    must(bn_pieces_write(p, 0, "GGUF", 4, NULL));
    bn_pieces_close(p);
    assert_nothing_left();
}

TEST_IN(test_reserved_space_is_given_back, begin, remove_folder)
{
    struct bn_pieces *p;
    must(open_pieces(&p, EIGHT_PIECES, true, NULL));
    bool reserves = bytes_on_disk() >= EIGHT_PIECES; /* not every file system does */
    write_piece(p, 0);
    bn_pieces_close(p);
    assert_in_range(bytes_on_disk(), 0, 2 * BN_PIECE_BYTES);
    assert_int_equal(access(journal, F_OK), 0);
    must(open_pieces(&p, EIGHT_PIECES, true, NULL));
    if (reserves) assert_true(bytes_on_disk() >= EIGHT_PIECES);
    assert_true(bn_pieces_has(p, 0));
    assert_false(bn_pieces_has(p, 1));
    bn_pieces_close(p);
    must(open_pieces(&p, 2 * EIGHT_PIECES, true, NULL)); /* another file */
    bn_pieces_close(p);
    assert_nothing_left();
}

TEST_IN(test_bytes_of_no_use_are_removed, begin, remove_folder)
{
    struct bn_pieces *p;
    must(open_pieces(&p, EIGHT_PIECES, false, NULL));
    write_piece(p, 3);
    bn_pieces_drop(p);
    bn_pieces_close(p);
    assert_nothing_left();
}

TEST_IN(test_a_size_beyond_the_disk, begin, remove_folder)
{
    struct bn_pieces *p;
    struct statvfs disk;
    uint64_t before = bn_mem_stats().bytes_total;
    assert_int_equal(statvfs(folder, &disk), 0);
    if ((uint64_t)disk.f_bavail * disk.f_frsize < BN_PIECES_MAX_BYTES) {
        refused(open_pieces(&p, BN_PIECES_MAX_BYTES, false, &err), BN_ERR_IO);
        assert_has(err.msg, "not enough disk space");
        assert_null(p);
        assert_nothing_left();
    }
    for (unsigned shift = 45; shift < 64; shift += 9) {
        refused(open_pieces(&p, UINT64_C(1) << shift, false, NULL), BN_ERR_LIMIT);
        refused(open_pieces(&p, UINT64_C(1) << shift, true, NULL), BN_ERR_LIMIT);
        assert_nothing_left();
    }
    refused(open_pieces(&p, UINT64_MAX, true, NULL), BN_ERR_LIMIT);
    assert_in_range(bn_mem_stats().bytes_total - before, 0, 16u << 20); /* no table for the claim */
}

TEST_IN(test_a_stream_beyond_the_limit, begin, remove_folder)
{
    struct bn_pieces *p;
    must(open_pieces(&p, 0, false, NULL));
    refused(bn_pieces_write(p, BN_PIECES_MAX_BYTES - 1, "xy", 2, NULL), BN_ERR_LIMIT);
    refused(bn_pieces_write(p, UINT64_MAX - 1, "xy", 2, NULL), BN_ERR_LIMIT);
    bn_pieces_close(p);
    assert_nothing_left();
}

/* A journal is a file that somebody may have edited: its numbers make no tables. */
TEST_IN(test_a_journal_of_pieces_that_are_not_there, begin, remove_folder)
{
    static const char *const INDEX[] = {"1", "4194303", "4294967295", "9007199254740991"};
    struct bn_pieces *p;
    char text[600];
    for (size_t i = 0; i < BN_ARRAY_LEN(INDEX); i++) {
        int n =
            snprintf(text, sizeof text,
                     "{\"schema\":\"bn.download/1\",\"identity\":\"id\",\"etag\":\"\\\"etag\\\"\",\"sha256\":"
                     "\"\",\"size\":0,\"piece_bytes\":%u}\n{\"piece\": %s, \"n\": %u, \"gmac\": "
                     "\"00112233445566778899aabbccddeeff\"}\n",
                     BN_PIECE_BYTES, INDEX[i], BN_PIECE_BYTES);
        must(bn_file_write_atomic(journal, text, (size_t)n, NULL));
        must(bn_file_write_atomic(part, "x", 1, NULL));
        uint64_t before = bn_mem_stats().bytes_total;
        must(open_pieces(&p, 0, false, NULL));
        assert_in_range(bn_mem_stats().bytes_total - before, 0, 16u << 20);
        assert_false(bn_pieces_has(p, 1));
        bn_pieces_close(p);
        assert_nothing_left();
    }
}

/* Neither waits for a writer. */
TEST_IN(test_a_pipe_in_its_place, begin, remove_folder)
{
    struct bn_pieces *p;
    const char *const PLACES[] = {part, journal};
    alarm(20);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(mkfifo(PLACES[i], 0600), 0);
        refused(open_pieces(&p, 5, false, NULL), BN_ERR_FORMAT);
        assert_int_equal(unlink(PLACES[i]), 0);
    }
    alarm(0);
}
