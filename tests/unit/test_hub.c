/* SPDX-License-Identifier: MIT
 *
 * hub without a network: references, safe paths, the registry, the cache's layout, lock files, locks,
 * pins; and the bar of bn-download.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "hub/cache.h"
#include "hub/digests.h"
#include "hub/lock.h"
#include "hub/lockfile.h"
#include "hub/pins.h"
#include "hub/reference.h"
#include "hub/registry.h"
#include "hub/resolve.h"
#include "hub/walk.h"
#include "tools/download/download.h"

#define ONE "1111111111111111111111111111111111111111"
#define TWO "2222222222222222222222222222222222222222"
#define SHA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static char folder[64]; /* of this test, removed at its end */

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/bn-hub-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static const char *below(const char *name)
{
    static char path[4][512];
    static unsigned i;
    char *out = path[i++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

static void write_text(const char *path, const char *text)
{
    assert_int_equal(bn_file_make_folders(path, NULL), BN_OK);
    assert_int_equal(bn_file_write_atomic(path, text, strlen(text), NULL), BN_OK);
}

/* ---- references ---- */

static void test_good_references(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum bn_hub_kind kind;
        const char *name, *variant, *repo, *file, *revision;
    } GOOD[] = {
        {"BitNet-b1.58-2B-4T", BN_HUB_NAME, "bitnet-b1.58-2b-4t", "", "", "", ""},
        {"name:bf16", BN_HUB_NAME, "name", "bf16", "", "", ""},
        {"hf:a/b", BN_HUB_REPO, "", "", "a/b", "", "main"},
        {"a/b", BN_HUB_REPO, "", "", "a/b", "", "main"},
        {"microsoft/bitnet-b1.58-2B-4T-gguf", BN_HUB_REPO, "", "", "microsoft/bitnet-b1.58-2B-4T-gguf", "",
         "main"},
        {"a/b@v1.0", BN_HUB_REPO, "", "", "a/b", "", "v1.0"},
        {"a/b:dir/c.gguf@x/y", BN_HUB_REPO, "", "", "a/b", "dir/c.gguf", "x/y"},
        {"hf:a/b@v1.0", BN_HUB_REPO, "", "", "a/b", "", "v1.0"},
        {"hf:a/b:c.gguf", BN_HUB_REPO, "", "", "a/b", "c.gguf", "main"},
        {"hf:a/b:dir/c d.gguf@x/y", BN_HUB_REPO, "", "", "a/b", "dir/c d.gguf", "x/y"},
        {"hf:a/b:c@d.gguf@" ONE, BN_HUB_REPO, "", "", "a/b", "c@d.gguf", ONE},
        {"https://example.org/m.gguf?x=1", BN_HUB_URL, "", "", "", "", ""},
        {"http://127.0.0.1:80/m.gguf", BN_HUB_URL, "", "", "", "", ""},
        {"http://localhost/m.gguf", BN_HUB_URL, "", "", "", "", ""},
        {"http://[::1]:8080/m.gguf", BN_HUB_URL, "", "", "", "", ""},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(GOOD); i++) {
        struct bn_hub_reference ref;
        print_message("%s\n", GOOD[i].text);
        assert_true(bn_hub_is_reference(GOOD[i].text));
        assert_int_equal(bn_hub_reference_parse(&ref, GOOD[i].text, NULL), BN_OK);
        assert_int_equal(ref.kind, GOOD[i].kind);
        assert_string_equal(ref.name, GOOD[i].name);
        assert_string_equal(ref.variant, GOOD[i].variant);
        assert_string_equal(ref.repo, GOOD[i].repo);
        assert_string_equal(ref.file, GOOD[i].file);
        assert_string_equal(ref.revision, GOOD[i].revision);
    }
}

static void test_bad_references(void **state)
{
    (void)state;
    static const char *const BAD[] = {"",
                                      "a b",
                                      "../x",
                                      "-x",
                                      ".x",
                                      "a/",
                                      "/a",
                                      "a/b/c",
                                      "./a",
                                      "a/.b",
                                      "a/-b",
                                      "a/b:../c",
                                      "hf:",
                                      "hf:a",
                                      "hf:a/",
                                      "hf:/b",
                                      "hf:a/b/c",
                                      "hf:../b",
                                      "hf:a/..",
                                      "hf:-a/b",
                                      "hf:a/b:",
                                      "hf:a/b:/c",
                                      "hf:a/b:../c",
                                      "hf:a/b:c/../d",
                                      "hf:a/b:c//d",
                                      "hf:a/b:c\\d",
                                      "hf:a/b:c\nd",
                                      "hf:a/b:-c",
                                      "hf:a/b:c@",
                                      "hf:a/b:c@../x",
                                      "hf:a/b:c@x?y",
                                      "hf:a/b:c@x%2e",
                                      "hf:a/b@-x",
                                      "http://example.org/m.gguf",
                                      "http://localhost.example.org/x",
                                      "http://127.0.0.1.example.org/x",
                                      "https://",
                                      "https:///x",
                                      "https://user@example.org/x",
                                      "https://u:p@example.org/x",
                                      "https://example.org/a b",
                                      "https://example.org/\x01",
                                      "http://localhost@example.org/x"};
    for (size_t i = 0; i < BN_ARRAY_LEN(BAD); i++) {
        struct bn_hub_reference ref;
        bn_error err = {0};
        print_message("%s\n", BAD[i]);
        assert_int_equal(bn_hub_reference_parse(&ref, BAD[i], &err), BN_ERR_ARG);
        assert_true(err.msg[0] != '\0');
    }
    char longer[5000];
    struct bn_hub_reference ref;
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(bn_hub_reference_parse(&ref, longer, NULL), BN_ERR_ARG);
    memcpy(longer, "hf:a/b:", 7);
    assert_int_equal(bn_hub_reference_parse(&ref, longer, NULL), BN_ERR_ARG);
    memcpy(longer, "https://", 8);
    assert_int_equal(bn_hub_reference_parse(&ref, longer, NULL), BN_ERR_ARG);
}

static void test_paths_are_no_references(void **state)
{
    (void)state;
    static const char *const PATHS[] = {"model.gguf", "./model", "dir/model.gguf", "a/b/c", "/abs/model",
                                        "MODEL.GGUF", "../x"};
    for (size_t i = 0; i < BN_ARRAY_LEN(PATHS); i++)
        assert_false(bn_hub_is_reference(PATHS[i]));
}

static void test_safe_paths(void **state)
{
    (void)state;
    static const char *const SAFE[] = {"a",    "a/b",     "a.b/c-d",       "...",
                                       "a..b", ".hidden", "\xc3\xa4.gguf", "a b"};
    static const char *const UNSAFE[] = {"",
                                         "/",
                                         "/a",
                                         "a/",
                                         "a//b",
                                         ".",
                                         "..",
                                         "a/..",
                                         "./a",
                                         "../a",
                                         "a\\b",
                                         "a\nb",
                                         "a\x7f"
                                         "b",
                                         "\x1b[31m",
                                         "-a",
                                         "a/-b",
                                         "a/./b",
                                         "\xc2\x9b"
                                         "31m"};
    char name[257];
    for (size_t i = 0; i < BN_ARRAY_LEN(SAFE); i++)
        assert_true(bn_hub_safe_path(SAFE[i]));
    for (size_t i = 0; i < BN_ARRAY_LEN(UNSAFE); i++)
        assert_false(bn_hub_safe_path(UNSAFE[i]));
    memset(name, 'x', 256);
    name[256] = '\0';
    assert_false(bn_hub_safe_path(name));
    name[255] = '\0';
    assert_true(bn_hub_safe_path(name));
    assert_true(bn_hub_is_commit(ONE));
    assert_true(bn_hub_is_commit(SHA_A));
    assert_false(bn_hub_is_commit("main"));
    assert_false(bn_hub_is_commit("1111111"));
    assert_false(bn_hub_is_commit("gggggggggggggggggggggggggggggggggggggggg"));
    assert_false(bn_hub_is_commit("a-branch-with-a-name-of-more-than-40-letters"));
}

/* ---- the registry ---- */

#define FILE_OF(more) "{\"variant\": \"v\", \"repo\": \"a/b\", \"file\": \"c\", \"runs\": \"yes\"" more "}"
#define MODEL_OF(files)                                                                                     \
    "{\"name\": \"n\", \"aliases\": [\"nn\"], \"title\": \"t\", \"parameters\": \"1 B\", \"arch\": \"x\", " \
    "\"licence\": \"MIT\", \"licence_url\": \"u\", \"files\": [" files "]}"
#define REGISTRY_OF(models) "{\"schema\": \"bn.registry/1\", \"models\": [" models "]}"

static void test_registry_reads(void **state)
{
    (void)state;
    static const char TEXT[] = REGISTRY_OF(
        MODEL_OF(FILE_OF(", \"size\": 5, \"sha256\": \"" SHA_A "\"") ", {\"variant\": \"w\", \"repo\": "
                                                                     "\"a/c\", \"revision\": \"v1\", "
                                                                     "\"file\": null, \"runs\": \"no\"}"));
    struct bn_hub_registry *r;
    assert_int_equal(bn_hub_registry_parse(&r, TEXT, sizeof TEXT - 1, NULL), BN_OK);
    const struct bn_hub_model *m = bn_hub_registry_find(r, "NN");
    assert_non_null(m);
    assert_ptr_equal(m, bn_hub_registry_find(r, "n"));
    assert_ptr_equal(m, bn_hub_registry_at(r, 0));
    assert_null(bn_hub_registry_at(r, 1));
    assert_null(bn_hub_registry_find(r, "x"));
    const struct bn_hub_file *v = bn_hub_model_file(m, ""), *w = bn_hub_model_file(m, "W");
    assert_string_equal(v->sha256, SHA_A);
    assert_int_equal(v->size, 5);
    assert_string_equal(v->revision, "main");
    assert_string_equal(w->revision, "v1");
    assert_string_equal(w->file, "");
    assert_null(bn_hub_model_file(m, "x"));
    bn_hub_registry_close(r);
}

static void test_registry_suggests(void **state)
{
    (void)state;
    static const struct {
        const char *name, *variant, *hint;
    } CASES[] = {
        {"bitnet-b1.58-2b-4", "", "did you mean 'bitnet-b1.58-2b-4t'?"},
        {"bitnet-b1.58-2b4t", "", "did you mean 'bitnet-b1.58-2b-4t'?"},
        {"bitent-2b", "", "did you mean 'bitnet-2b'?"},
        {"nothing-like-it", "", "'bn-download list' shows the names"},
        {"bitnet-2b", "f16", "its variants are i2_s, packed, bf16"},
    };
    struct bn_hub_registry *r;
    unsetenv("BN_REGISTRY");
    assert_int_equal(bn_hub_registry_open(&r, NULL), BN_OK);
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        bn_error err = {0};
        const struct bn_hub_file *file;
        assert_int_equal(bn_hub_registry_look_up(NULL, &file, r, CASES[i].name, CASES[i].variant, &err),
                         BN_ERR_NOT_FOUND);
        assert_null(file);
        assert_memory_equal(err.hint, CASES[i].hint, strlen(CASES[i].hint));
    }
    bn_hub_registry_close(r);
}

static void test_registry_refuses(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "{}",
        "{\"schema\": \"bn.registry/2\", \"models\": []}",
        "{\"schema\": \"bn.registry/1\"}",
        REGISTRY_OF("{}"),
        REGISTRY_OF(MODEL_OF("")),
        REGISTRY_OF(MODEL_OF("{}")),
        REGISTRY_OF(MODEL_OF(FILE_OF(", \"size\": 0"))),
        REGISTRY_OF(MODEL_OF(FILE_OF(", \"size\": -1"))),
        REGISTRY_OF(MODEL_OF(FILE_OF(", \"sha256\": \"abc\""))),
        REGISTRY_OF(MODEL_OF(
            FILE_OF(", \"sha256\": \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\""))),
        REGISTRY_OF(MODEL_OF(FILE_OF(", \"revision\": \"../x\""))),
        REGISTRY_OF(MODEL_OF(FILE_OF(", \"revision\": \"\\u001b[31m\""))),
        REGISTRY_OF(MODEL_OF(FILE_OF(", \"revision\": 1"))),
        REGISTRY_OF(
            "{\"name\": \"n\", \"title\": \"t\", \"parameters\": \"1\", \"arch\": \"x\", \"licence\": "
            "\"\\u009b31m\", \"licence_url\": \"u\", \"files\": [" FILE_OF("") "]}"),
        REGISTRY_OF(
            MODEL_OF("{\"variant\": \"v\\u001b\", \"repo\": \"a/b\", \"file\": \"c\", \"runs\": \"yes\"}")),
        REGISTRY_OF(
            MODEL_OF("{\"variant\": \"v\", \"repo\": \"a/b\", \"file\": \"c\", \"runs\": \"no\\u0007\"}")),
        REGISTRY_OF(MODEL_OF("{\"variant\": \"v\", \"repo\": \"../b\", \"file\": \"c\", \"runs\": \"yes\"}")),
        REGISTRY_OF(MODEL_OF("{\"variant\": \"v\", \"repo\": \"a/b\", \"file\": \"/c\", \"runs\": \"yes\"}")),
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(BAD); i++) {
        struct bn_hub_registry *r;
        print_message("%s\n", BAD[i]);
        bn_error err = {0};
        assert_int_equal(bn_hub_registry_parse(&r, BAD[i], strlen(BAD[i]), &err), BN_ERR_FORMAT);
        assert_null(r);
        assert_null(strpbrk(err.where, "\x1b\x07"));
        assert_null(strpbrk(err.msg, "\x1b\x07"));
    }
}

/* The carried one: names are words, unique, each file is in a repository, and the model that the toolchain
 * was made for is pinned. */
static void test_registry_carried(void **state)
{
    (void)state;
    struct bn_hub_registry *r;
    const struct bn_hub_model *m;
    unsetenv("BN_REGISTRY");
    assert_int_equal(bn_hub_registry_open(&r, NULL), BN_OK);
    for (size_t i = 0; (m = bn_hub_registry_at(r, i)) != NULL; i++) {
        struct bn_hub_reference ref;
        assert_ptr_equal(bn_hub_registry_find(r, m->name), m);
        assert_int_equal(bn_hub_reference_parse(&ref, m->name, NULL), BN_OK);
        assert_int_equal(ref.kind, BN_HUB_NAME);
        assert_true(bn_hub_is_reference(m->name));
        for (size_t k = 0; k < m->n_files; k++) {
            assert_ptr_equal(bn_hub_model_file(m, m->files[k].variant), &m->files[k]);
            assert_non_null(strchr(m->files[k].repo, '/'));
        }
    }
    m = bn_hub_registry_find(r, "bitnet-2b");
    assert_non_null(m);
    assert_string_equal(m->files[0].sha256,
                        "4221b252fdd5fd25e15847adfeb5ee88886506ba50b8a34548374492884c2162");
    assert_int_equal(m->files[0].size, 1187801280);
    bn_hub_registry_close(r);
}

/* ---- the cache ---- */

/* A file that the cache holds at a commit. */
static void put_cached(const char *etag, const char *commit, const char *revision, const char *file,
                       const char *bytes)
{
    char *blob, *path;
    assert_int_equal(bn_hub_cache_blob(&blob, folder, "own/er.x", etag, NULL), BN_OK);
    write_text(blob, bytes);
    assert_int_equal(bn_hub_cache_link(&path, folder, "own/er.x", etag, commit, revision, file, NULL), BN_OK);
    assert_int_equal(access(path, R_OK), 0);
    bn_free(blob);
    bn_free(path);
}

static void finds(const char *file, const char *revision, const char *want)
{
    char *path;
    bn_status status = bn_hub_cache_find(&path, folder, "own/er.x", file, revision, NULL);
    if (want == NULL) {
        assert_int_equal(status, BN_ERR_NOT_FOUND);
        assert_null(path);
        return;
    }
    assert_int_equal(status, BN_OK);
    assert_string_equal(path + strlen(folder), want);
    bn_free(path);
}

static void test_cache_finds(void **state)
{
    (void)state;
    char *path;
    finds("m.gguf", "main", NULL);
    put_cached(SHA_A, ONE, "main", "m.gguf", "one");
    finds("m.gguf", "main", "/models--own--er.x/snapshots/" ONE "/m.gguf");
    finds("", "main", "/models--own--er.x/snapshots/" ONE "/m.gguf");
    finds("m.gguf", ONE, "/models--own--er.x/snapshots/" ONE "/m.gguf");
    finds("x.gguf", "main", NULL);
    finds("m.gguf", TWO, NULL);
    put_cached(SHA_B, TWO, "main", "dir/n.gguf", "two");
    finds("m.gguf", "main", NULL);
    finds("m.gguf", ONE, "/models--own--er.x/snapshots/" ONE "/m.gguf");
    finds("dir/n.gguf", "main", "/models--own--er.x/snapshots/" TWO "/dir/n.gguf");
    put_cached(SHA_A, ONE, "v/1", "other.gguf", "one");
    finds("", "v/1", NULL); /* two of them: which one? */
    assert_int_equal(unlink(below("models--own--er.x/blobs/" SHA_B)), 0);
    finds("dir/n.gguf", "main", NULL); /* a link to nothing */
    assert_int_equal(bn_hub_cache_find(&path, folder, "own/er.x", "../m.gguf", "main", NULL), BN_ERR_ARG);
    assert_int_equal(bn_hub_cache_find(&path, folder, "own", "m.gguf", "main", NULL), BN_ERR_ARG);
    assert_int_equal(bn_hub_cache_blob(&path, folder, "own/er.x", "../../../../etc/x", NULL), BN_ERR_FORMAT);
    assert_int_equal(bn_hub_cache_link(&path, folder, "own/er.x", SHA_A, "main", "main", "x", NULL),
                     BN_ERR_FORMAT);
    write_text(below("models--own--er.x/refs/bad"), "../../x");
    finds("m.gguf", "bad", NULL);
}

static const struct bn_hub_cached *item(const struct bn_hub_walk *walk, const char *file, const char *commit)
{
    for (size_t i = 0; i < walk->n; i++)
        if (strcmp(walk->list[i].file, file) == 0 && strcmp(walk->list[i].commit, commit) == 0)
            return &walk->list[i];
    return NULL;
}

static void test_cache_is_walked(void **state)
{
    (void)state;
    struct bn_hub_walk walk;
    size_t n[4] = {0};
    assert_int_equal(bn_hub_walk_open(&walk, below("none"), NULL), BN_OK);
    assert_int_equal(walk.n, 0);
    bn_hub_walk_release(&walk);
    put_cached(SHA_A, ONE, "main", "m.gguf", "one");
    put_cached(SHA_A, TWO, "main", "dir/m.gguf", "one");
    write_text(below("models--own--er.x/blobs/" SHA_B), "alone");
    write_text(below("models--own--er.x/blobs/" SHA_B ".part"), "x");
    write_text(below("models--own--er.x/blobs/" SHA_B ".part.json"), "{}");
    write_text(below("models--own--er.x/blobs/" SHA_B ".9a.incomplete"), "x");
    write_text(below("models--own--er.x/blobs/" SHA_B ".bad"), "x");
    write_text(below("models--own--er.x/snapshots/" TWO "/copy.txt"), "copied");
    write_text(below("datasets--own--er.x/blobs/x"), "not ours");
    assert_int_equal(
        link(below("models--own--er.x/blobs/" SHA_B), below("models--own--er.x/snapshots/" TWO "/hard")), 0);
    assert_int_equal(bn_hub_walk_open(&walk, folder, NULL), BN_OK);
    for (size_t i = 0; i < walk.n; i++) {
        n[walk.list[i].kind]++;
        assert_string_equal(walk.list[i].repo, "own/er.x");
    }
    assert_int_equal(n[BN_HUB_CACHED_FILE], 4);
    assert_int_equal(n[BN_HUB_CACHED_BLOB], 0); /* the hard link is one to the blob */
    assert_int_equal(n[BN_HUB_CACHED_PART], 3);
    assert_int_equal(n[BN_HUB_CACHED_BAD], 1);
    assert_true(item(&walk, "m.gguf", ONE)->old);
    assert_false(item(&walk, "dir/m.gguf", TWO)->old);
    assert_string_equal(item(&walk, "dir/m.gguf", TWO)->etag, SHA_A);
    assert_string_equal(item(&walk, "dir/m.gguf", TWO)->path, item(&walk, "m.gguf", ONE)->path);
    assert_string_equal(item(&walk, "hard", TWO)->etag, SHA_B);
    assert_string_equal(item(&walk, "copy.txt", TWO)->etag, "");
    assert_int_equal(item(&walk, "copy.txt", TWO)->size, 6);
    bn_hub_walk_release(&walk);
    assert_int_equal(unlink(below("models--own--er.x/snapshots/" TWO "/hard")), 0);
    assert_int_equal(bn_hub_walk_open(&walk, folder, NULL), BN_OK);
    assert_non_null(item(&walk, "", ""));
    bn_hub_walk_release(&walk);
}

/* What the walk of this test's folder lists. */
static size_t n_listed(void)
{
    struct bn_hub_walk walk;
    assert_int_equal(bn_hub_walk_open(&walk, folder, NULL), BN_OK);
    size_t n = walk.n;
    bn_hub_walk_release(&walk);
    return n;
}

static void test_links_lead_nowhere(void **state)
{
    (void)state;
    static const char *const FOLDERS[] = {"refs", "blobs", "snapshots"};
    char link[64], path[512];
    write_text(below("precious/" SHA_A ".part"), "mine");
    write_text(below("precious/" SHA_B), "mine");
    write_text(below("precious/" ONE "/thesis"), "mine");
    for (size_t i = 0; i < BN_ARRAY_LEN(FOLDERS); i++) {
        snprintf(link, sizeof link, "models--e--vil/%s", FOLDERS[i]);
        write_text(below("models--e--vil/x"), "");
        assert_int_equal(symlink("../precious", below(link)), 0);
    }
    assert_int_equal(symlink("precious", below("models--li--nk")), 0);
    assert_int_equal(n_listed(), 0);
    snprintf(path, sizeof path, "%s/models--e--vil/blobs/" SHA_B, folder);
    assert_int_not_equal(bn_hub_walk_remove(folder, path, false, NULL), BN_OK);
    snprintf(path, sizeof path, "%s/models--e--vil/../precious/" SHA_B, folder);
    assert_int_equal(bn_hub_walk_remove(folder, path + 1, false, NULL), BN_ERR_ARG);
    assert_int_equal(access(below("precious/" SHA_B), F_OK), 0);
    /* A file and its folder, and both once more. */
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/precious/" ONE "/thesis", folder);
        assert_int_equal(bn_hub_walk_remove(folder, path, false, NULL), BN_OK);
        *strrchr(path, '/') = '\0';
        assert_int_equal(bn_hub_walk_remove(folder, path, true, NULL), BN_OK);
        assert_int_not_equal(access(path, F_OK), 0);
    }
}

static void test_files_of_others_are_not_listed(void **state)
{
    (void)state;
    static const char *const OTHERS[] = {
        "thesis.tex",  "mymodel.part", "aaaa.part",          SHA_A ".part.json~",   SHA_A ".",
        SHA_A ".gguf", SHA_A "a",      SHA_A ".incomplete2", SHA_A ".xy.incomplete"};
    static const char *const OURS[] = {SHA_A,        SHA_A ".part",       SHA_A ".part.json",
                                       SHA_A ".bad", SHA_A ".incomplete", SHA_A ".0a1b2c3d.incomplete",
                                       ONE ".part"};
    char name[256];
    for (size_t i = 0; i < BN_ARRAY_LEN(OTHERS); i++) {
        snprintf(name, sizeof name, "models--o--r/blobs/%s", OTHERS[i]);
        write_text(below(name), "x");
    }
    assert_int_equal(n_listed(), 0);
    for (size_t i = 0; i < BN_ARRAY_LEN(OURS); i++) {
        snprintf(name, sizeof name, "models--o--r/blobs/%s", OURS[i]);
        write_text(below(name), "x");
        assert_int_equal(n_listed(), i + 1);
    }
}

/* Nobody writes to it: whoever opens it as a file waits for ever. */
static void test_a_pipe_in_refs(void **state)
{
    (void)state;
    char *path;
    put_cached(SHA_A, ONE, "main", "m.gguf", "one");
    assert_int_equal(unlink(below("models--own--er.x/refs/main")), 0);
    assert_int_equal(mkfifo(below("models--own--er.x/refs/main"), 0600), 0);
    alarm(20);
    assert_int_equal(n_listed(), 1);
    assert_int_equal(bn_hub_cache_find(&path, folder, "own/er.x", "m.gguf", "main", NULL), BN_ERR_NOT_FOUND);
    alarm(0);
}

static void test_cache_root(void **state)
{
    (void)state;
    static const char *const VARIABLES[] = {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"};
    static const char *const WANT[] = {"/a", "/b/hub", "/c/huggingface/hub", "/d/.cache/huggingface/hub"};
    static const char *const VALUES[] = {"/a", "/b", "/c", "/d"};
    char *root;
    for (size_t i = 0; i < 4; i++)
        setenv(VARIABLES[i], VALUES[i], 1);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(bn_hub_cache_root(&root, NULL), BN_OK);
        assert_string_equal(root, WANT[i]);
        bn_free(root);
        unsetenv(VARIABLES[i]);
    }
    assert_int_equal(bn_hub_cache_root(&root, NULL), BN_ERR_NOT_FOUND);
}

/* ---- lock files, locks, pins ---- */

static void test_lockfile_round_trip(void **state)
{
    (void)state;
    struct bn_hub_locked list[] = {
        {"z", "a/b", ONE, "dir/m.gguf", SHA_A, "MIT", 7, {"https://example.org/a"}, 1},
        {"a", NULL, NULL, NULL, SHA_B, NULL, 8, {"https://example.org/b", "http://localhost/b"}, 2},
    };
    struct bn_hub_locked turned[] = {list[1], list[0]};
    struct bn_buf text = {.max = 1u << 16}, again = {.max = 1u << 16};
    struct bn_hub_lockfile lock;
    assert_int_equal(bn_hub_lockfile_write(&text, list, 2, NULL), BN_OK);
    assert_int_equal(bn_hub_lockfile_write(&again, turned, 2, NULL), BN_OK);
    assert_string_equal(text.data, again.data);
    write_text(below("lock"), text.data);
    assert_int_equal(bn_hub_lockfile_read(&lock, below("lock"), NULL), BN_OK);
    assert_int_equal(lock.n, 2);
    assert_string_equal(lock.list[0].id, "a");
    assert_null(lock.list[0].repo);
    assert_int_equal(lock.list[0].n_urls, 2);
    assert_string_equal(lock.list[1].revision, ONE);
    assert_string_equal(lock.list[1].file, "dir/m.gguf");
    assert_int_equal(lock.list[1].size, 7);
    assert_string_equal(lock.list[1].licence, "MIT");
    bn_hub_lockfile_release(&lock);
    bn_buf_release(&text);
    bn_buf_release(&again);
}

#define LOCK_OF(entry) "{\"schema\": \"bn.lock/1\", \"files\": [{\"id\": \"x\", " entry "}]}"
#define GOOD_PLACE "\"repo\": \"a/b\", \"revision\": \"" ONE "\", \"file\": \"c\", "
#define GOOD_BYTES "\"sha256\": \"" SHA_A "\", \"size\": 1"

static void test_lockfile_refuses(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "[]",
        "{\"schema\": \"bn.lock/2\", \"files\": []}",
        LOCK_OF(GOOD_BYTES),
        LOCK_OF(GOOD_PLACE "\"size\": 1"),
        LOCK_OF(GOOD_PLACE "\"sha256\": \"" SHA_A "\""),
        LOCK_OF(GOOD_PLACE "\"sha256\": \"../" SHA_A "\", \"size\": 1"),
        LOCK_OF("\"repo\": \"../b\", \"revision\": \"" ONE "\", \"file\": \"c\", " GOOD_BYTES),
        LOCK_OF("\"repo\": \"a/b\", \"revision\": \"main\", \"file\": \"c\", " GOOD_BYTES),
        LOCK_OF("\"repo\": \"a/b\", \"revision\": \"" ONE "\", \"file\": \"../c\", " GOOD_BYTES),
        LOCK_OF(GOOD_BYTES ", \"urls\": [\"file:///etc/passwd\"]"),
        LOCK_OF(GOOD_BYTES ", \"urls\": [\"http://example.org/x\"]"),
        LOCK_OF(GOOD_BYTES ", \"urls\": [7]"),
    };
    struct bn_hub_lockfile lock;
    write_text(below("lock"), LOCK_OF(GOOD_PLACE GOOD_BYTES));
    assert_int_equal(bn_hub_lockfile_read(&lock, below("lock"), NULL), BN_OK);
    bn_hub_lockfile_release(&lock);
    for (size_t i = 0; i < BN_ARRAY_LEN(BAD); i++) {
        bn_error err = {0};
        print_message("%s\n", BAD[i]);
        write_text(below("lock"), BAD[i]);
        assert_int_equal(bn_hub_lockfile_read(&lock, below("lock"), &err), BN_ERR_FORMAT);
        assert_non_null(strstr(err.where, "lock"));
        bn_hub_lockfile_release(&lock);
    }
}

static bool never(void *user)
{
    ++*(unsigned *)user;
    return false;
}

static void test_locks(void **state)
{
    (void)state;
    struct bn_hub_lock *one, *two;
    unsigned n = 0;
    assert_int_equal(bn_hub_lock_take(&one, below("deep/er/x.lock"), 0, NULL, NULL, NULL), BN_OK);
    assert_int_equal(bn_hub_lock_take(&two, below("deep/er/x.lock"), 0, NULL, NULL, NULL), BN_ERR_IO);
    assert_null(two);
    assert_int_equal(bn_hub_lock_take(&two, below("deep/er/x.lock"), BN_HUB_LOCK_WAIT, never, &n, NULL),
                     BN_ERR_CANCELLED);
    assert_int_equal(n, 1);
    bn_hub_lock_release(one);
    assert_int_equal(access(below("deep/er/x.lock"), F_OK), 0);
    assert_int_equal(bn_hub_lock_take(&two, below("deep/er/x.lock"), 0, NULL, NULL, NULL), BN_OK);
    bn_hub_lock_release(two);
}

/* Releases the lock in its first tick, as another process would while this one waits, and takes a new one. */
struct swap {
    struct bn_hub_lock *held, *next;
    unsigned n;
};

static bool swap_lock(void *user)
{
    struct swap *s = user;
    if (s->n++ == 0) {
        bn_hub_lock_release(s->held);
        assert_int_equal(bn_hub_lock_take(&s->next, below("x.lock"), BN_HUB_LOCK_REMOVE, NULL, NULL, NULL),
                         BN_OK);
    }
    return s->n < 3;
}

static void test_locks_that_are_removed(void **state)
{
    (void)state;
    struct swap s = {0};
    struct bn_hub_lock *two;
    assert_int_equal(bn_hub_lock_take(&s.held, below("x.lock"), BN_HUB_LOCK_REMOVE, NULL, NULL, NULL), BN_OK);
    /* The waiting one has the old file open when the new one is made: it must not believe that it has both.
     */
    assert_int_equal(
        bn_hub_lock_take(&two, below("x.lock"), BN_HUB_LOCK_REMOVE | BN_HUB_LOCK_WAIT, swap_lock, &s, NULL),
        BN_ERR_CANCELLED);
    assert_int_equal(s.n, 3);
    bn_hub_lock_release(s.next);
    assert_int_not_equal(access(below("x.lock"), F_OK), 0);
    write_text(below("x.lock"), "a file of the user");
    assert_int_equal(bn_hub_lock_take(&two, below("x.lock"), BN_HUB_LOCK_REMOVE, NULL, NULL, NULL), BN_OK);
    bn_hub_lock_release(two);
    assert_int_equal(access(below("x.lock"), F_OK), 0);
}

static void test_pins(void **state)
{
    (void)state;
    char sha256[BN_SHA256_HEX];
    setenv("XDG_STATE_HOME", folder, 1);
    assert_int_equal(bn_hub_pin_find(sha256, "hf:a/b:c", NULL), BN_OK);
    assert_string_equal(sha256, "");
    assert_int_equal(bn_hub_pin_record("hf:a/b:c", SHA_A, NULL), BN_OK);
    assert_int_equal(bn_hub_pin_record("hf:a/b:d", SHA_B, NULL), BN_OK);
    assert_int_equal(bn_hub_pin_record("hf:a/b:c", SHA_B, NULL), BN_OK); /* the first one stays */
    assert_int_equal(bn_hub_pin_find(sha256, "hf:a/b:c", NULL), BN_OK);
    assert_string_equal(sha256, SHA_A);
    write_text(below("bn/pins.json"), "{");
    assert_int_equal(bn_hub_pin_find(sha256, "hf:a/b:c", NULL), BN_ERR_FORMAT);
    assert_int_equal(bn_hub_pin_record("hf:a/b:e", SHA_B, NULL), BN_ERR_FORMAT);
    unsetenv("XDG_STATE_HOME");
}

/* ---- digests that are remembered ---- */

static void digest_is(const char *path, const char *want)
{
    char sha256[BN_SHA256_HEX];
    assert_int_equal(bn_hub_digest(sha256, path, NULL), BN_OK);
    assert_string_equal(sha256, want);
}

/* Makes the record of the only file in the state folder say that its digest is SHA_A, or makes it look as if
 * it had been written at once after the file. */
static void edit_record(const char *digest, time_t mtime)
{
    char command[512];
    snprintf(command, sizeof command,
             "sed -i 's/^[0-9a-f]*/%s/' '%s'/bn/digests/* && touch -d @%lld '%s'/bn/digests/*", digest,
             folder, (long long)mtime, folder);
    assert_int_equal(system(command), 0);
}

#define SHA_ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define SHA_ABD "a52d159f262b2c6ddb724a61840befc36eb30c88877a4030b65cbe86298449c9"

static void test_digests_are_remembered(void **state)
{
    (void)state;
    char sha256[BN_SHA256_HEX];
    time_t later = time(NULL) + 100;
    setenv("XDG_STATE_HOME", folder, 1);
    write_text(below("m"), "abc");
    digest_is(below("m"), SHA_ABC);
    edit_record(SHA_A, later);
    digest_is(below("m"), SHA_A); /* it was not read again */
    edit_record(SHA_A, 1000000000);
    digest_is(below("m"), SHA_ABC); /* the record is not younger than the file: it may have changed since */
    edit_record("xyz", later);
    digest_is(below("m"), SHA_ABC);
    edit_record(SHA_A, later);
    write_text(below("m"), "abd"); /* replaced */
    digest_is(below("m"), SHA_ABD);
    bn_hub_digest_record(below("m"), SHA_B);
    edit_record(SHA_B, later);
    digest_is(below("m"), SHA_B);
    int fd = open(below("m"), O_WRONLY);
    assert_int_equal(pwrite(fd, "c", 1, 2), 1); /* changed in place, and its time put back */
    close(fd);
    digest_is(below("m"), SHA_ABC);
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    digest_is(below("m"), SHA_ABC);
    assert_int_equal(bn_hub_digest(sha256, below("none"), NULL), BN_ERR_NOT_FOUND);
}

/* What bn-run -m opens is what was downloaded. */
static void test_located_bytes_are_compared(void **state)
{
    (void)state;
    static const char REGISTRY[] =
        "{\"schema\": \"bn.registry/1\", \"models\": [{\"name\": \"n\", \"title\": \"t\", \"parameters\": "
        "\"1 B\", \"arch\": \"x\", \"licence\": \"MIT\", \"licence_url\": \"u\", \"files\": [{\"variant\": "
        "\"pinned\", \"repo\": \"own/er.x\", \"file\": \"m.gguf\", \"sha256\": \"" SHA_ABC
        "\", \"runs\": \"yes\"}, {\"variant\": \"free\", \"repo\": \"own/er.x\", \"file\": \"m.gguf\", "
        "\"runs\": \"yes\"}]}]}";
    static const char *const NAMES[] = {"hf:own/er.x", "n", "n:free"};
    bn_error err = {0};
    char *path;
    setenv("XDG_STATE_HOME", below("state"), 1);
    setenv("HF_HUB_CACHE", folder, 1);
    setenv("BN_REGISTRY", below("registry"), 1);
    write_text(below("registry"), REGISTRY);
    put_cached(SHA_ABC, ONE, "main", "m.gguf", "abc");
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++) {
        assert_int_equal(bn_hub_locate(&path, NAMES[i], NULL), BN_OK);
        bn_free(path);
    }
    assert_int_equal(bn_hub_pin_record("hf:own/er.x:m.gguf", SHA_B, NULL), BN_OK);
    assert_int_equal(bn_hub_locate(&path, "n:free", NULL), BN_ERR_INTEGRITY);
    write_text(below("models--own--er.x/blobs/" SHA_ABC), "abd");
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++) {
        assert_int_equal(bn_hub_locate(&path, NAMES[i], &err), BN_ERR_INTEGRITY);
        assert_null(path);
        assert_non_null(strstr(err.msg, SHA_ABD));
        assert_int_equal(bn_hub_find(&path, NAMES[i], NULL), BN_OK); /* for verify, which reports it */
        bn_free(path);
    }
    /* Another version at main, whose bytes are right: not what the registry names. */
    put_cached(SHA_ABD, TWO, "main", "m.gguf", "abd");
    assert_int_equal(bn_hub_locate(&path, "hf:own/er.x", NULL), BN_OK);
    bn_free(path);
    assert_int_equal(bn_hub_locate(&path, "n", NULL), BN_ERR_INTEGRITY);
    unsetenv("XDG_STATE_HOME");
    unsetenv("HF_HUB_CACHE");
    unsetenv("BN_REGISTRY");
}

/* ---- the server's settings ---- */

static bn_status read_server(struct bn_hub_server *server, const char *endpoint, const char *token)
{
    unsetenv("HF_ENDPOINT");
    unsetenv("HF_TOKEN");
    if (endpoint != NULL) setenv("HF_ENDPOINT", endpoint, 1);
    if (token != NULL) setenv("HF_TOKEN", token, 1);
    bn_status status = bn_hub_server_read(server, NULL);
    unsetenv("HF_ENDPOINT");
    unsetenv("HF_TOKEN");
    return status;
}

static void test_server(void **state)
{
    (void)state;
    struct bn_hub_server s;
    char url[2049];
    setenv("HF_HOME", folder, 1);
    assert_int_equal(read_server(&s, NULL, NULL), BN_OK);
    assert_string_equal(s.endpoint, "https://huggingface.co");
    assert_string_equal(s.token, "");
    write_text(below("token"), "hf_file\n");
    assert_int_equal(read_server(&s, "https://mirror.example//", NULL), BN_OK);
    assert_string_equal(s.endpoint, "https://mirror.example");
    assert_string_equal(s.token, "hf_file");
    assert_int_equal(read_server(&s, NULL, "hf_x"), BN_OK);
    assert_string_equal(s.token, "hf_x");
    assert_int_equal(read_server(&s, "http://example.org", NULL), BN_ERR_ARG);
    assert_int_equal(read_server(&s, "example.org", NULL), BN_ERR_ARG);
    assert_int_equal(read_server(&s, NULL, "a b"), BN_ERR_ARG);
    assert_int_equal(read_server(&s, NULL, "a\r\nX-Evil: 1"), BN_ERR_ARG);
    assert_int_equal(read_server(&s, NULL, NULL), BN_OK);
    assert_int_equal(bn_hub_url(url, &s, "a/b", "d r/\xc3\xa4#?.gguf", "x/y", NULL), BN_OK);
    assert_string_equal(url, "https://huggingface.co/a/b/resolve/x%2Fy/d%20r/%C3%A4%23%3F.gguf");
    assert_int_equal(bn_hub_url(url, &s, "a/b", "../c", "main", NULL), BN_ERR_ARG);
    unsetenv("HF_HOME");
}

/* ---- what is shown ---- */

static void test_bytes(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        const char *want;
    } CASES[] = {{0, "0 B"},
                 {999, "999 B"},
                 {1000, "1.00 kB"},
                 {9994, "9.99 kB"},
                 {9999, "10.0 kB"},
                 {99960, "100 kB"},
                 {999400, "999 kB"},
                 {999600, "1.00 MB"},
                 {1187801280, "1.19 GB"},
                 {UINT64_MAX, "18.4 EB"}};
    char out[BN_DOWNLOAD_BYTES_ROOM];
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++)
        assert_string_equal(bn_download_bytes(out, CASES[i].n), CASES[i].want);
}

static void test_bar(void **state)
{
    (void)state;
    char line[512];
    bn_download_bar(line, sizeof line, 99, "m.gguf", 512000000, 1024000000, 2e6, 256);
    assert_string_equal(line,
                        "m.gguf  [############            ]   50 %  512 MB of 1.02 GB  2.00 MB/s  4:16");
    bn_download_bar(line, sizeof line, 99, "m.gguf", 0, 1024, 0, UINT64_MAX);
    assert_string_equal(line, "m.gguf  [                        ]    0 %  0 B of 1.02 kB  0 B/s");
    bn_download_bar(line, sizeof line, 99, "m.gguf", 4096, 0, 1000, UINT64_MAX);
    assert_string_equal(line, "m.gguf  4.10 kB  1.00 kB/s");
    bn_download_bar(line, sizeof line, 99, "m\x1b.gguf", 10, 10, 1, 0);
    assert_null(strchr(line, '\x1b'));
    static const struct {
        size_t columns;
        const char *want;
    } NARROW[] = {
        {79, "ggml-model-i2_s.gguf  [#####       ]   47 %  564 MB of 1.19 GB  12.3 MB/s  0:50"},
        {49, "ggml-model-i2_s.gguf  [#####       ]   47 %  0:50"},
        {39, "ggml-...gguf  [####      ]   47 %  0:50"},
        {24, "[#######        ]   47 %"},
        {19, "[####      ]   47 %"},
        {10, " 47 %"},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(NARROW); i++) {
        bn_download_bar(line, sizeof line, NARROW[i].columns, "ggml-model-i2_s.gguf", 564000000, 1187801280,
                        12345678, 50);
        assert_string_equal(line, NARROW[i].want);
    }
    for (size_t columns = 0; columns <= 120; columns++)
        for (uint64_t size = 0; size < 2; size++) {
            bn_download_bar(line, sizeof line, columns,
                            "a-model-with-a-rather-long-name-that-must-be-cut.gguf", 1187801279,
                            size * 1187801280, 123456789, size > 0 ? 360000 : UINT64_MAX);
            assert_in_range(strlen(line), 0, columns);
            if (columns >= 79) assert_non_null(strstr(line, size > 0 ? "[####" : "1.19 GB"));
        }
}

static void test_lines_without_a_terminal(void **state)
{
    (void)state;
    const uint64_t second = 1000000000;
    char line[512];
    bn_download_line(line, sizeof line, "m.gguf", 512000000, 1187801280, 12.3e6, 55);
    assert_string_equal(line, "m.gguf: 512 MB of 1.19 GB (43 %), 12.3 MB/s, 0:55 left");
    bn_download_line(line, sizeof line, "m\x1b.gguf", 512000000, 0, 0, UINT64_MAX);
    assert_string_equal(line, "m\\x1B.gguf: 512 MB");
    assert_false(bn_download_line_due(9 * second, 19, 10)); /* too little happened */
    assert_true(bn_download_line_due(10 * second, 10, 10)); /* but after ten seconds even nothing is told */
    assert_true(bn_download_line_due(2 * second, 20, 19));
    assert_false(bn_download_line_due(second / 2, 90, 0)); /* a fast download needs no lines */
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_references),
        cmocka_unit_test(test_bad_references),
        cmocka_unit_test(test_paths_are_no_references),
        cmocka_unit_test(test_safe_paths),
        cmocka_unit_test(test_registry_reads),
        cmocka_unit_test(test_registry_suggests),
        cmocka_unit_test(test_registry_refuses),
        cmocka_unit_test(test_registry_carried),
        IN_FOLDER(test_cache_finds),
        IN_FOLDER(test_cache_is_walked),
        IN_FOLDER(test_links_lead_nowhere),
        IN_FOLDER(test_files_of_others_are_not_listed),
        IN_FOLDER(test_a_pipe_in_refs),
        cmocka_unit_test(test_cache_root),
        IN_FOLDER(test_lockfile_round_trip),
        IN_FOLDER(test_lockfile_refuses),
        IN_FOLDER(test_locks),
        IN_FOLDER(test_locks_that_are_removed),
        IN_FOLDER(test_pins),
        IN_FOLDER(test_digests_are_remembered),
        IN_FOLDER(test_located_bytes_are_compared),
        IN_FOLDER(test_server),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_bar),
        cmocka_unit_test(test_lines_without_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
