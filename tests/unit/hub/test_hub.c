/* SPDX-License-Identifier: MIT
 *
 * hub without a network: references, safe paths, the registry, the settings of a server, and the bar of
 * bn-download.
 */
#define _GNU_SOURCE
#include "tests/unit/hub/hub_folder.h"

TEST(test_good_references)
{
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
        must(bn_hub_reference_parse(&ref, GOOD[i].text, NULL));
        assert_int_equal(ref.kind, GOOD[i].kind);
        assert_string_equal(ref.name, GOOD[i].name);
        assert_string_equal(ref.variant, GOOD[i].variant);
        assert_string_equal(ref.repo, GOOD[i].repo);
        assert_string_equal(ref.file, GOOD[i].file);
        assert_string_equal(ref.revision, GOOD[i].revision);
    }
}

static const char *const BAD_REFERENCES[] = {"",
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

TEST(test_bad_references)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(BAD_REFERENCES); i++) {
        struct bn_hub_reference ref;
        print_message("%s\n", BAD_REFERENCES[i]);
        refused(bn_hub_reference_parse(&ref, BAD_REFERENCES[i], &err), BN_ERR_ARG);
        assert_true(err.msg[0] != '\0');
    }
    char longer[5000];
    struct bn_hub_reference ref;
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    refused(bn_hub_reference_parse(&ref, longer, NULL), BN_ERR_ARG);
    memcpy(longer, "hf:a/b:", 7);
    refused(bn_hub_reference_parse(&ref, longer, NULL), BN_ERR_ARG);
    memcpy(longer, "https://", 8);
    refused(bn_hub_reference_parse(&ref, longer, NULL), BN_ERR_ARG);
}

TEST(test_paths_are_no_references)
{
    static const char *const PATHS[] = {"model.gguf", "./model", "dir/model.gguf", "a/b/c", "/abs/model",
                                        "MODEL.GGUF", "../x"};
    for (size_t i = 0; i < BN_ARRAY_LEN(PATHS); i++)
        assert_false(bn_hub_is_reference(PATHS[i]));
}

TEST(test_safe_paths)
{
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

#define FILE_OF(more) "{\"variant\": \"v\", \"repo\": \"a/b\", \"file\": \"c\", \"runs\": \"yes\"" more "}"
#define MODEL_OF(files)                                                                                     \
    "{\"name\": \"n\", \"aliases\": [\"nn\"], \"title\": \"t\", \"parameters\": \"1 B\", \"arch\": \"x\", " \
    "\"licence\": \"MIT\", \"licence_url\": \"u\", \"files\": [" files "]}"
#define REGISTRY_OF(models) "{\"schema\": \"bn.registry/1\", \"models\": [" models "]}"

TEST(test_registry_reads)
{
    static const char TEXT[] = REGISTRY_OF(
        MODEL_OF(FILE_OF(", \"size\": 5, \"sha256\": \"" SHA_A "\"") ", {\"variant\": \"w\", \"repo\": "
                                                                     "\"a/c\", \"revision\": \"v1\", "
                                                                     "\"file\": null, \"runs\": \"no\"}"));
    struct bn_hub_registry *r;
    must(bn_hub_registry_parse(&r, TEXT, sizeof TEXT - 1, NULL));
    const struct bn_hub_model *m;
    const struct bn_hub_file *v, *w;
    must(bn_hub_registry_look_up(&m, &v, r, "NN", "", NULL));
    assert_ptr_equal(m, bn_hub_registry_at(r, 0));
    assert_null(bn_hub_registry_at(r, 1));
    refused(bn_hub_registry_look_up(&m, &w, r, "x", "", NULL), BN_ERR_NOT_FOUND);
    refused(bn_hub_registry_look_up(&m, &w, r, "n", "x", NULL), BN_ERR_NOT_FOUND);
    must(bn_hub_registry_look_up(&m, &w, r, "n", "W", NULL));
    assert_string_equal(v->sha256, SHA_A);
    assert_int_equal(v->size, 5);
    assert_string_equal(v->revision, "main");
    assert_string_equal(w->revision, "v1");
    assert_string_equal(w->file, "");
    bn_hub_registry_close(r);
}

TEST(test_registry_suggests)
{
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
    must(bn_hub_registry_open(&r, NULL));
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        const struct bn_hub_file *file;
        refused(bn_hub_registry_look_up(NULL, &file, r, CASES[i].name, CASES[i].variant, &err),
                BN_ERR_NOT_FOUND);
        assert_null(file);
        assert_memory_equal(err.hint, CASES[i].hint, strlen(CASES[i].hint));
    }
    bn_hub_registry_close(r);
}

TEST(test_registry_refuses)
{
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
        refused(bn_hub_registry_parse(&r, BAD[i], strlen(BAD[i]), &err), BN_ERR_FORMAT);
        assert_null(r);
        assert_null(strpbrk(err.where, "\x1b\x07"));
        assert_null(strpbrk(err.msg, "\x1b\x07"));
    }
}

/* The carried one: names are words, unique, each file is in a repository, and the model that the toolchain
 * was made for is pinned. */
TEST(test_registry_carried)
{
    struct bn_hub_registry *r;
    const struct bn_hub_model *m, *found;
    const struct bn_hub_file *file;
    unsetenv("BN_REGISTRY");
    must(bn_hub_registry_open(&r, NULL));
    for (size_t i = 0; (m = bn_hub_registry_at(r, i)) != NULL; i++) {
        struct bn_hub_reference ref;
        must(bn_hub_reference_parse(&ref, m->name, NULL));
        assert_int_equal(ref.kind, BN_HUB_NAME);
        assert_true(bn_hub_is_reference(m->name));
        for (size_t k = 0; k < m->n_files; k++) {
            must(bn_hub_registry_look_up(&found, &file, r, m->name, m->files[k].variant, NULL));
            assert_ptr_equal(found, m);
            assert_ptr_equal(file, &m->files[k]);
            assert_non_null(strchr(m->files[k].repo, '/'));
        }
    }
    must(bn_hub_registry_look_up(NULL, &file, r, "bitnet-2b", "", NULL));
    assert_string_equal(file->sha256, "4221b252fdd5fd25e15847adfeb5ee88886506ba50b8a34548374492884c2162");
    assert_int_equal(file->size, 1187801280);
    bn_hub_registry_close(r);
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

TEST_IN(test_server, make_folder, remove_folder)
{
    struct bn_hub_server s;
    char url[2049];
    setenv("HF_HOME", folder, 1);
    must(read_server(&s, NULL, NULL));
    assert_string_equal(s.endpoint, "https://huggingface.co");
    assert_string_equal(s.token, "");
    write_text(below("token"), "hf_file\n");
    must(read_server(&s, "https://mirror.example//", NULL));
    assert_string_equal(s.endpoint, "https://mirror.example");
    assert_string_equal(s.token, "hf_file");
    must(read_server(&s, NULL, "hf_x"));
    assert_string_equal(s.token, "hf_x");
    refused(read_server(&s, "http://example.org", NULL), BN_ERR_ARG);
    refused(read_server(&s, "example.org", NULL), BN_ERR_ARG);
    refused(read_server(&s, NULL, "a b"), BN_ERR_ARG);
    refused(read_server(&s, NULL, "a\r\nX-Evil: 1"), BN_ERR_ARG);
    must(read_server(&s, NULL, NULL));
    must(bn_hub_url(url, &s, "a/b", "d r/\xc3\xa4#?.gguf", "x/y", NULL));
    assert_string_equal(url, "https://huggingface.co/a/b/resolve/x%2Fy/d%20r/%C3%A4%23%3F.gguf");
    refused(bn_hub_url(url, &s, "a/b", "../c", "main", NULL), BN_ERR_ARG);
    unsetenv("HF_HOME");
}

/* ---- what is shown ---- */

TEST(test_bar)
{
    char line[512];
    bn_download_bar(line, sizeof line, 99, "m.gguf", 512000000, 1024000000, 2e6, 256);
    assert_string_equal(line,
                        "m.gguf  [############            ]   50 %  488.3 MiB of 976.6 MiB  2 MB/s  4:16");
    bn_download_bar(line, sizeof line, 99, "m.gguf", 0, 1024, 0, UINT64_MAX);
    assert_string_equal(line, "m.gguf  [                        ]    0 %  0 B of 1 KiB  0 B/s");
    bn_download_bar(line, sizeof line, 99, "m.gguf", 4096, 0, 1000, UINT64_MAX);
    assert_string_equal(line, "m.gguf  4 KiB  1 kB/s");
    bn_download_bar(line, sizeof line, 99, "m\x1b.gguf", 10, 10, 1, 0);
    assert_null(strchr(line, '\x1b'));
    static const struct {
        size_t columns;
        const char *want;
    } NARROW[] = {
        {79, "ggml-model-i2...  [####      ]   47 %  537.9 MiB of 1.106 GiB  12.35 MB/s  0:50"},
        {49, "ggml-model-i2_s.gguf  [#####       ]   47 %  0:50"},
        {39, "ggml-mode...  [####      ]   47 %  0:50"},
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
            if (columns >= 79) assert_has(line, size > 0 ? "[####" : "1.106 GiB");
        }
}

TEST(test_lines_without_a_terminal)
{
    const uint64_t second = 1000000000;
    char line[512];
    bn_download_line(line, sizeof line, "m.gguf", 512000000, 1187801280, 12.3e6, 55);
    assert_string_equal(line, "m.gguf: 488.3 MiB of 1.106 GiB (43 %), 12.30 MB/s, 0:55 left");
    bn_download_line(line, sizeof line, "m\x1b.gguf", 512000000, 0, 0, UINT64_MAX);
    assert_string_equal(line, "m\\x1B.gguf: 488.3 MiB");
    assert_false(bn_download_line_due(9 * second, 19, 10)); /* too little happened */
    assert_true(bn_download_line_due(10 * second, 10, 10)); /* but after ten seconds even nothing is told */
    assert_true(bn_download_line_due(2 * second, 20, 19));
    assert_false(bn_download_line_due(second / 2, 90, 0)); /* a fast download needs no lines */
}
