/* SPDX-License-Identifier: MIT
 *
 * The cache of the hub: its layout, lock files, locks, pins, remembered digests.
 */
#define _GNU_SOURCE
#include "tests/unit/hub/hub_folder.h"

/* A file that the cache holds at a commit. */
static void put_cached(const char *etag, const char *commit, const char *revision, const char *file,
                       const char *bytes)
{
    char blob[BN_HUB_PATH_MAX], path[BN_HUB_PATH_MAX];
    must(bn_hub_cache_blob(blob, folder, "own/er.x", etag, NULL));
    write_text(blob, bytes);
    must(bn_hub_cache_link(path, folder, "own/er.x", etag, commit, revision, file, NULL));
    assert_int_equal(access(path, R_OK), 0);
}

static void finds(const char *file, const char *revision, const char *want)
{
    char path[BN_HUB_PATH_MAX];
    bn_status status = bn_hub_cache_find(path, folder, "own/er.x", file, revision, NULL);
    if (want == NULL) {
        assert_int_equal(status, BN_ERR_NOT_FOUND);
        assert_string_equal(path, "");
        return;
    }
    assert_int_equal(status, BN_OK);
    assert_string_equal(path + strlen(folder), want);
}

TEST_IN(test_cache_finds, make_folder, remove_folder)
{
    char path[BN_HUB_PATH_MAX];
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
    refused(bn_hub_cache_find(path, folder, "own/er.x", "../m.gguf", "main", NULL), BN_ERR_ARG);
    refused(bn_hub_cache_find(path, folder, "own", "m.gguf", "main", NULL), BN_ERR_ARG);
    refused(bn_hub_cache_blob(path, folder, "own/er.x", "../../../../etc/x", NULL), BN_ERR_FORMAT);
    refused(bn_hub_cache_link(path, folder, "own/er.x", SHA_A, "main", "main", "x", NULL), BN_ERR_FORMAT);
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

TEST_IN(test_cache_is_walked, make_folder, remove_folder)
{
    struct bn_hub_walk walk;
    size_t n[4] = {0};
    must(bn_hub_walk_open(&walk, below("none"), NULL));
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
    must(bn_hub_walk_open(&walk, folder, NULL));
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
    must(bn_hub_walk_open(&walk, folder, NULL));
    assert_non_null(item(&walk, "", ""));
    bn_hub_walk_release(&walk);
}

/* What the walk of this test's folder lists. */
static size_t n_listed(void)
{
    struct bn_hub_walk walk;
    must(bn_hub_walk_open(&walk, folder, NULL));
    size_t n = walk.n;
    bn_hub_walk_release(&walk);
    return n;
}

TEST_IN(test_links_lead_nowhere, make_folder, remove_folder)
{
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
    refused(bn_hub_walk_remove(folder, path + 1, false, NULL), BN_ERR_ARG);
    assert_int_equal(access(below("precious/" SHA_B), F_OK), 0);
    /* A file and its folder, and both once more. */
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/precious/" ONE "/thesis", folder);
        must(bn_hub_walk_remove(folder, path, false, NULL));
        *strrchr(path, '/') = '\0';
        must(bn_hub_walk_remove(folder, path, true, NULL));
        assert_int_not_equal(access(path, F_OK), 0);
    }
}

TEST_IN(test_files_of_others_are_not_listed, make_folder, remove_folder)
{
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
TEST_IN(test_a_pipe_in_refs, make_folder, remove_folder)
{
    char path[BN_HUB_PATH_MAX];
    put_cached(SHA_A, ONE, "main", "m.gguf", "one");
    assert_int_equal(unlink(below("models--own--er.x/refs/main")), 0);
    assert_int_equal(mkfifo(below("models--own--er.x/refs/main"), 0600), 0);
    alarm(20);
    assert_int_equal(n_listed(), 1);
    refused(bn_hub_cache_find(path, folder, "own/er.x", "m.gguf", "main", NULL), BN_ERR_NOT_FOUND);
    alarm(0);
}

TEST(test_cache_root)
{
    static const char *const VARIABLES[] = {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"};
    static const char *const WANT[] = {"/a", "/b/hub", "/c/huggingface/hub", "/d/.cache/huggingface/hub"};
    static const char *const VALUES[] = {"/a", "/b", "/c", "/d"};
    char root[BN_HUB_PATH_MAX];
    for (size_t i = 0; i < 4; i++)
        setenv(VARIABLES[i], VALUES[i], 1);
    for (size_t i = 0; i < 4; i++) {
        must(bn_hub_cache_root(root, NULL));
        assert_string_equal(root, WANT[i]);
        unsetenv(VARIABLES[i]);
    }
    refused(bn_hub_cache_root(root, NULL), BN_ERR_NOT_FOUND);
    setenv("XDG_CACHE_HOME", "relative", 1); /* ignored, as its specification says */
    refused(bn_hub_cache_root(root, NULL), BN_ERR_NOT_FOUND);
    setenv("HOME", "/d", 1);
    must(bn_hub_cache_root(root, NULL));
    assert_string_equal(root, WANT[3]);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
}

/* ---- lock files, locks, pins ---- */

static void write_lock(struct bn_buf *out, const struct bn_hub_locked *list, const size_t order[2])
{
    cJSON *lock = bn_hub_lockfile_new();
    for (size_t i = 0; i < 2; i++)
        must(bn_hub_lockfile_add(lock, &list[order[i]], NULL));
    must(bn_hub_document_write(out, lock, true, NULL));
    cJSON_Delete(lock);
}

TEST_IN(test_lockfile_round_trip, make_folder, remove_folder)
{
    static const struct bn_hub_locked LIST[] = {
        {"z", "a/b", ONE, "dir/m.gguf", SHA_A, "MIT", SHA_B, 999999999999999, {"https://example.org/a"}, 1},
        {"a", NULL, NULL, NULL, SHA_B, NULL, NULL, 8, {"https://example.org/b", "http://localhost/b"}, 2},
    };
    struct bn_buf text = {.max = 1u << 16}, again = {.max = 1u << 16};
    struct bn_hub_lockfile lock;
    write_lock(&text, LIST, (const size_t[]){0, 1});
    write_lock(&again, LIST, (const size_t[]){1, 0});
    assert_string_equal(text.data, again.data);
    write_text(below("lock"), text.data);
    must(bn_hub_lockfile_read(&lock, below("lock"), NULL));
    assert_int_equal(lock.n, 2);
    assert_string_equal(lock.list[0].id, "a");
    assert_null(lock.list[0].repo);
    assert_int_equal(lock.list[0].n_urls, 2);
    assert_string_equal(lock.list[1].revision, ONE);
    assert_string_equal(lock.list[1].file, "dir/m.gguf");
    assert_int_equal(lock.list[1].size, 999999999999999);
    assert_string_equal(lock.list[1].licence, "MIT");
    assert_string_equal(lock.list[1].tokenizer_sha256, SHA_B);
    assert_null(lock.list[0].tokenizer_sha256);
    bn_hub_lockfile_release(&lock);
    bn_buf_release(&text);
    bn_buf_release(&again);
}

#define LOCK_OF(entry) "{\"schema\": \"bn.lock/1\", \"files\": [{\"id\": \"x\", " entry "}]}"
#define GOOD_PLACE "\"repo\": \"a/b\", \"revision\": \"" ONE "\", \"file\": \"c\", "
#define GOOD_BYTES "\"sha256\": \"" SHA_A "\", \"size\": 1"

TEST_IN(test_lockfile_refuses, make_folder, remove_folder)
{
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
        LOCK_OF(GOOD_PLACE GOOD_BYTES) "x",
        LOCK_OF(GOOD_PLACE GOOD_BYTES ", \"size\": 1"),
        LOCK_OF(GOOD_PLACE GOOD_BYTES ", \"sha256\": \"" SHA_B "\""),
        LOCK_OF(GOOD_PLACE "\"sha256\": \"" SHA_A "\", \"size\": 1000000000000000"),
        LOCK_OF(GOOD_PLACE "\"sha256\": \"" SHA_A "\", \"size\": 1.5"),
        LOCK_OF(GOOD_PLACE "\"sha256\": \"" SHA_A "\", \"size\": -1"),
    };
    struct bn_hub_lockfile lock;
    char deep[3000];
    write_text(below("lock"), LOCK_OF(GOOD_PLACE GOOD_BYTES));
    must(bn_hub_lockfile_read(&lock, below("lock"), NULL));
    bn_hub_lockfile_release(&lock);
    for (size_t i = 0; i < BN_ARRAY_LEN(BAD); i++) {
        print_message("%s\n", BAD[i]);
        write_text(below("lock"), BAD[i]);
        refused(bn_hub_lockfile_read(&lock, below("lock"), &err), BN_ERR_FORMAT);
        assert_has(err.where, "lock");
        bn_hub_lockfile_release(&lock);
    }
    memset(deep, '[', sizeof deep - 1); /* deeper than any stack should have to be */
    deep[sizeof deep - 1] = '\0';
    write_text(below("lock"), deep);
    refused(bn_hub_lockfile_read(&lock, below("lock"), NULL), BN_ERR_FORMAT);
}

static bool never(void *user)
{
    ++*(unsigned *)user;
    return false;
}

TEST_IN(test_locks, make_folder, remove_folder)
{
    struct bn_hub_lock *one, *two;
    unsigned n = 0;
    must(bn_hub_lock_take(&one, below("deep/er/x.lock"), 0, NULL, NULL, NULL));
    refused(bn_hub_lock_take(&two, below("deep/er/x.lock"), 0, NULL, NULL, NULL), BN_ERR_IO);
    assert_null(two);
    refused(bn_hub_lock_take(&two, below("deep/er/x.lock"), BN_HUB_LOCK_WAIT, never, &n, NULL),
            BN_ERR_CANCELLED);
    assert_int_equal(n, 1);
    bn_hub_lock_release(one);
    assert_int_equal(access(below("deep/er/x.lock"), F_OK), 0);
    must(bn_hub_lock_take(&two, below("deep/er/x.lock"), 0, NULL, NULL, NULL));
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
        must(bn_hub_lock_take(&s->next, below("x.lock"), BN_HUB_LOCK_REMOVE, NULL, NULL, NULL));
    }
    return s->n < 3;
}

TEST_IN(test_locks_that_are_removed, make_folder, remove_folder)
{
    struct swap s = {0};
    struct bn_hub_lock *two;
    must(bn_hub_lock_take(&s.held, below("x.lock"), BN_HUB_LOCK_REMOVE, NULL, NULL, NULL));
    /* The waiting one has the old file open when the new one is made: it must not believe that it has both.
     */
    refused(
        bn_hub_lock_take(&two, below("x.lock"), BN_HUB_LOCK_REMOVE | BN_HUB_LOCK_WAIT, swap_lock, &s, NULL),
        BN_ERR_CANCELLED);
    assert_int_equal(s.n, 3);
    bn_hub_lock_release(s.next);
    assert_int_not_equal(access(below("x.lock"), F_OK), 0);
    write_text(below("x.lock"), "a file of the user");
    must(bn_hub_lock_take(&two, below("x.lock"), BN_HUB_LOCK_REMOVE, NULL, NULL, NULL));
    bn_hub_lock_release(two);
    assert_int_equal(access(below("x.lock"), F_OK), 0);
}

TEST_IN(test_pins, make_folder, remove_folder)
{
    char sha256[BN_SHA256_HEX];
    setenv("XDG_STATE_HOME", folder, 1);
    must(bn_hub_pin_find(sha256, "hf:a/b:c", NULL));
    assert_string_equal(sha256, "");
    must(bn_hub_pin_record("hf:a/b:c", SHA_A, NULL));
    must(bn_hub_pin_record("hf:a/b:d", SHA_B, NULL));
    must(bn_hub_pin_record("hf:a/b:c", SHA_B, NULL)); /* the first one stays */
    must(bn_hub_pin_find(sha256, "hf:a/b:c", NULL));
    assert_string_equal(sha256, SHA_A);
    write_text(below("bn/pins.json"), "{");
    refused(bn_hub_pin_find(sha256, "hf:a/b:c", NULL), BN_ERR_FORMAT);
    refused(bn_hub_pin_record("hf:a/b:e", SHA_B, NULL), BN_ERR_FORMAT);
    unsetenv("XDG_STATE_HOME");
}

/* ---- digests that are remembered ---- */

static void digest_is(const char *path, const char *want)
{
    char sha256[BN_SHA256_HEX];
    must(bn_hub_digest(sha256, path, NULL));
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

TEST_IN(test_digests_are_remembered, make_folder, remove_folder)
{
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
    refused(bn_hub_digest(sha256, below("none"), NULL), BN_ERR_NOT_FOUND);
}

/* What bn-run -m opens is what was downloaded. */
TEST_IN(test_located_bytes_are_compared, make_folder, remove_folder)
{
    static const char REGISTRY[] =
        "{\"schema\": \"bn.registry/1\", \"models\": [{\"name\": \"n\", \"title\": \"t\", \"parameters\": "
        "\"1 B\", \"arch\": \"x\", \"licence\": \"MIT\", \"licence_url\": \"u\", \"files\": [{\"variant\": "
        "\"pinned\", \"repo\": \"own/er.x\", \"file\": \"m.gguf\", \"sha256\": \"" SHA_ABC
        "\", \"runs\": \"yes\"}, {\"variant\": \"free\", \"repo\": \"own/er.x\", \"file\": \"m.gguf\", "
        "\"runs\": \"yes\"}]}]}";
    static const char *const NAMES[] = {"hf:own/er.x", "n", "n:free"};
    char path[BN_HUB_PATH_MAX];
    setenv("XDG_STATE_HOME", below("state"), 1);
    setenv("HF_HUB_CACHE", folder, 1);
    setenv("BN_REGISTRY", below("registry"), 1);
    write_text(below("registry"), REGISTRY);
    put_cached(SHA_ABC, ONE, "main", "m.gguf", "abc");
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++)
        must(bn_hub_locate(path, NAMES[i], NULL));
    must(bn_hub_pin_record("hf:own/er.x:m.gguf", SHA_B, NULL));
    refused(bn_hub_locate(path, "n:free", NULL), BN_ERR_INTEGRITY);
    write_text(below("models--own--er.x/blobs/" SHA_ABC), "abd");
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++) {
        refused(bn_hub_locate(path, NAMES[i], &err), BN_ERR_INTEGRITY);
        assert_has(err.msg, SHA_ABD);
        must(bn_hub_find(path, NAMES[i], NULL)); /* for verify, which reports it */
    }
    /* Another version at main, whose bytes are right: not what the registry names. */
    put_cached(SHA_ABD, TWO, "main", "m.gguf", "abd");
    must(bn_hub_locate(path, "hf:own/er.x", NULL));
    refused(bn_hub_locate(path, "n", NULL), BN_ERR_INTEGRITY);
    unsetenv("XDG_STATE_HOME");
    unsetenv("HF_HUB_CACHE");
    unsetenv("BN_REGISTRY");
}
