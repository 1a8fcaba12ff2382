/* SPDX-License-Identifier: MIT
 *
 * The mask rung of bn-crossval with logits of this engine that later tokens changed, and the digest of trees.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/kit/tree.h"
#include "tests/unit/unit.h"
#include "tools/crossval/crossval.h"

/* ---- the mask ---- */

#define N 6u

/* Climbs the mask rung after one bit of this engine's logits in `row` was changed. The
 * reference is not asked when this engine's own mask is wrong. */
static enum bn_xstate mask_with_change(size_t row, size_t *leak)
{
    static const int32_t IDS[N] = {5, 42, 79, 7, 300, 11};
    static const struct bn_crossval_options OPTIONS = {.n_threads = 1};
    struct bn_crossval x = {.options = &OPTIONS};
    bn_error err = {0};
    assert_int_equal(bn_model_open(&x.model, "fixtures/nano-bitnet-b1.58-i2_s-42.gguf", NULL, &err), BN_OK);
    x.n_vocab = bn_model_hparams(x.model)->n_vocab;
    assert_int_equal(bn_crossval_set_prompt(&x, NULL, 0, IDS, N, &err), BN_OK);
    assert_int_equal(bn_crossval_evaluate(&x, &err), BN_OK);
    uint32_t bits;
    memcpy(&bits, &x.logits[row * x.n_vocab + 3], sizeof bits);
    bits ^= 1u;
    memcpy(&x.logits[row * x.n_vocab + 3], &bits, sizeof bits);
    struct bn_xref *ref = &x.refs[x.n_refs++];
    ref->info.can = BN_CAN_LOGITS;
    ref->n_rows = N;
    ref->logits = bn_alloc(N, x.n_vocab * sizeof *ref->logits);
    assert_non_null(ref->logits);
    assert_int_equal(bn_xrung_mask(&x, ref, &err), BN_OK);
    enum bn_xstate state = ref->rungs[BN_RUNG_MASK].state;
    *leak = x.leak;
    bn_crossval_close(&x);
    return state;
}

static void a_row_that_later_tokens_change_is_found(void **state)
{
    (void)state;
    size_t leak = 0;
    for (size_t row = 0; row < N / 2; row++) {
        assert_int_equal(mask_with_change(row, &leak), BN_X_FAIL);
        assert_int_equal(leak, row);
    }
}

/* ---- trees ---- */

static void put_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    bn_error err = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(bn_file_make_folders(path, &err), BN_OK);
    assert_int_equal(bn_file_write_atomic(path, text, strlen(text), &err), BN_OK);
}

static void a_tree_has_the_digest_of_sha256sum(void **state)
{
    (void)state;
    char folder[] = "/tmp/bn-tree-XXXXXX", hex[BN_SHA256_HEX], other[BN_SHA256_HEX], link[256], want[2 * 80];
    char a[BN_SHA256_HEX], b[BN_SHA256_HEX];
    size_t n = 0;
    bn_error err = {0};
    assert_non_null(mkdtemp(folder));
    assert_int_equal(bn_tree_digest(folder, hex, &n, &err), BN_ERR_FORMAT); /* no files */
    put_file(folder, "b/c", "two");
    put_file(folder, "b.c", "one");
    put_file(folder, ".git/config", "not counted");
    put_file(folder, "b/.git", "nor this");
    assert_int_equal(bn_tree_digest(folder, hex, &n, &err), BN_OK);
    assert_int_equal(n, 2);
    assert_int_equal(bn_sha256_hex("one", 3, a, &err), BN_OK);
    assert_int_equal(bn_sha256_hex("two", 3, b, &err), BN_OK);
    snprintf(want, sizeof want, "%s  ./b.c\n%s  ./b/c\n", a, b);
    assert_int_equal(bn_sha256_hex(want, strlen(want), other, &err), BN_OK);
    assert_string_equal(hex, other);
    /* The target of a link counts, not the file there. */
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink("/nonexistent", link), 0);
    assert_int_equal(bn_tree_digest(folder, hex, &n, &err), BN_OK);
    assert_int_equal(n, 3);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("b.c", link), 0);
    assert_int_equal(bn_tree_digest(folder, other, &n, &err), BN_OK);
    assert_string_not_equal(hex, other);
    put_file(folder, "line\nfeed", "");
    err = (bn_error){0};
    assert_int_equal(bn_tree_digest(folder, hex, &n, &err), BN_ERR_FORMAT);
    assert_int_equal(bn_tree_remove(folder, &err), BN_OK);
    assert_int_equal(access(folder, F_OK), -1);
    assert_int_equal(bn_tree_remove(folder, &err), BN_OK); /* not there is fine */
}

static void removal_does_not_follow_links(void **state)
{
    (void)state;
    char folder[] = "/tmp/bn-tree-XXXXXX", kept[] = "/tmp/bn-tree-XXXXXX", path[256];
    bn_error err = {0};
    assert_non_null(mkdtemp(folder));
    assert_non_null(mkdtemp(kept));
    put_file(kept, "file", "text");
    snprintf(path, sizeof path, "%s/link", folder);
    assert_int_equal(symlink(kept, path), 0);
    assert_int_equal(bn_tree_remove(folder, &err), BN_OK);
    snprintf(path, sizeof path, "%s/file", kept);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(bn_tree_remove(kept, &err), BN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_that_later_tokens_change_is_found),
        cmocka_unit_test(a_tree_has_the_digest_of_sha256sum),
        cmocka_unit_test(removal_does_not_follow_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
