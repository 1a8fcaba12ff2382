/* SPDX-License-Identifier: MIT
 *
 * lab/history/ledger: saved runs are read back; every edit breaks the chain; a run that regressed is never
 * promoted; a name has one baseline for each machine, settings and model; a failed write leaves the file
 * unchanged.
 */
#define _DEFAULT_SOURCE /* mkdtemp */
#include "lab/history/ledger.h"
#include "tests/unit/folder.h"

/* Fails when a test has left anything besides the ledger. */
FIXTURE(remove_ledger)
{
    (void)unlink(below("toy/run.json"));
    (void)rmdir(below("toy"));
    bool is_empty = rmdir(folder) == 0;
    assert_int_equal(remove_folder(NULL), 0);
    assert_true(is_empty);
}

static void result(struct bn_result *r, const char *key, const char *model, unsigned threads, double base)
{
    char text[1024];
    bn_json *doc = NULL;
    snprintf(text, sizeof text,
             "{\"schema\":\"bn.bench/"
             "1\",\"command\":\"run\",\"created\":\"2026-01-02T03:04:05Z\",\"program\":{\"commit\":"
             "\"abc\",\"dirty\":false},\"settings\":{\"threads\":%u},\"model\":{\"sha256\":\"%s\"},"
             "\"machine\":{\"key\":"
             "\"%s\",\"label\":\"toy\"},\"series\":[{\"test\":\"t\",\"metric\":\"ns\",\"unit\":\"ns\","
             "\"better\":\"lower\","
             "\"exact\":false,\"warmup\":0,\"samples\":[%.17g,%.17g,0.1]}]}",
             threads, model, key, base, base + 1.0 / 3);
    must(bn_json_parse(&doc, text, strlen(text), NULL));
    if (attempt(bn_result_parse(r, doc, &err)) != BN_OK) fail_msg("%s", err.msg);
}

static bn_status open_for(struct bn_ledger *l, bool write, bn_error *e)
{
    return bn_ledger_open(l, folder, "toy", "run", write, e);
}

/* Saves one run and closes the ledger. */
static void save(const char *name, const char *model, unsigned threads, double base,
                 enum bn_entry_state entry_state)
{
    struct bn_ledger l;
    struct bn_result r;
    struct bn_ledger_note note = {
        .state = entry_state, .reason = "because", .allowed = {"dirty"}, .n_allowed = 1};
    result(&r, "key", model, threads, base);
    must(open_for(&l, true, &err));
    if (attempt(bn_ledger_add(&l, name, &r, &note, &err)) != BN_OK) fail_msg("%s", err.msg);
    must(bn_ledger_write(&l, NULL));
    bn_ledger_close(&l);
    bn_result_release(&r);
}

TEST_IN(saved_runs_are_read_back, make_folder, remove_ledger)
{
    struct bn_ledger l;
    struct bn_series_list series = {0};
    const char *text = "";
    refused(open_for(&l, false, NULL), BN_ERR_NOT_FOUND);
    save("main", "m", 1, 5, BN_ENTRY_PROMOTED);
    save("main", "m", 1, 6, BN_ENTRY_REGRESSED);
    must(open_for(&l, false, NULL));
    assert_int_equal(l.n, 2);
    assert_string_equal(l.suite, "run");
    assert_string_equal(l.machine_key, "key");
    assert_string_equal(l.entries[0].commit, "abc");
    assert_string_equal(bn_json_text_of(l.entries[0].json, "reason"), "because");
    assert_int_equal(l.entries[0].state, BN_ENTRY_PROMOTED);
    assert_int_equal(l.entries[1].state, BN_ENTRY_REGRESSED);
    assert_int_equal(bn_json_kind(bn_json_get(l.entries[0].json, "previous")), BN_JSON_NULL);
    assert_true(bn_json_string(bn_json_get(l.entries[1].json, "previous"), &text));
    assert_string_equal(text, l.entries[0].id);
    must(bn_series_read(&series, l.entries[0].json, NULL));
    assert_true(series.list[0].samples[1] == 5 + 1.0 / 3); /* to the last bit */
    bn_series_release(&series);
    bn_ledger_close(&l);
}

/* Every single byte of the file that is changed is noticed, one way or the other. */
TEST_IN(no_edit_survives, make_folder, remove_ledger)
{
    struct bn_buf text = {.max = 1u << 20};
    struct bn_ledger l;
    size_t n_integrity = 0;
    save("main", "m", 1, 5, BN_ENTRY_PROMOTED);
    save("main", "m", 1, 6, BN_ENTRY_SAVED);
    const char *path = below("toy/run.json");
    must(bn_file_read(path, &text, NULL));
    const char *records = strstr(text.data, "\"records\"");
    assert_non_null(records);
    for (size_t i = (size_t)(records - text.data); i < text.len; i += 7) {
        char was = text.data[i];
        text.data[i] = was == '7' ? '8' : '7';
        must(bn_file_write_atomic(path, text.data, text.len, NULL));
        bn_status status = open_for(&l, false, NULL);
        if (status == BN_OK) fail_msg("byte %zu, '%c', was changed unnoticed", i, was);
        assert_true(status == BN_ERR_INTEGRITY || status == BN_ERR_FORMAT);
        n_integrity += status == BN_ERR_INTEGRITY;
        text.data[i] = was;
    }
    assert_true(n_integrity > 50);
    must(bn_file_write_atomic(path, text.data, text.len, NULL));
    must(open_for(&l, false, NULL));
    bn_ledger_close(&l);
    bn_buf_release(&text);
}

TEST_IN(records_cannot_be_removed, make_folder, remove_ledger)
{
    struct bn_buf text = {.max = 1u << 20};
    struct bn_ledger l;
    for (unsigned i = 0; i < 3; i++)
        save("main", "m", 1, 5 + i, BN_ENTRY_SAVED);
    const char *path = below("toy/run.json");
    must(bn_file_read(path, &text, NULL));
    char *first = strchr(text.data, '\n') + 1, *second = strchr(first, '\n') + 1; /* a record a line */
    memmove(first, second, strlen(second) + 1);
    must(bn_file_write_atomic(path, text.data, strlen(text.data), NULL));
    refused(open_for(&l, false, &err), BN_ERR_INTEGRITY);
    assert_has(err.msg, "record 0 does not follow");
    bn_buf_release(&text);
}

static const struct bn_entry *baseline(const struct bn_ledger *l, const char *settings_of_model,
                                       unsigned threads, const struct bn_entry **unlike)
{
    struct bn_result r;
    result(&r, "key", settings_of_model, threads, 1);
    const struct bn_likeness like = {r.machine_key, r.settings_sha256, r.model_sha256};
    const struct bn_entry *e = bn_ledger_baseline(l, "main", &like, unlike);
    bn_result_release(&r);
    return e;
}

/* Of each line the run that was promoted last, not the one that was saved last. */
TEST_IN(promoted_runs_are_baselines, make_folder, remove_ledger)
{
    struct bn_ledger l;
    const struct bn_entry *e, *unlike;
    save("main", "m", 1, 5, BN_ENTRY_PROMOTED);
    save("main", "m", 1, 6, BN_ENTRY_SAVED);
    save("main", "m", 1, 7, BN_ENTRY_SAVED);
    save("main", "other", 1, 8, BN_ENTRY_PROMOTED);
    save("side", "m", 1, 9, BN_ENTRY_PROMOTED);
    save("main", "m", 1, 90, BN_ENTRY_REGRESSED);
    must(open_for(&l, true, NULL));
    assert_ptr_equal(baseline(&l, "m", 1, &unlike), &l.entries[0]);
    must(bn_ledger_promote(&l, &l.entries[2], "faster", NULL));
    assert_ptr_equal(baseline(&l, "m", 1, &unlike), &l.entries[2]);
    must(bn_ledger_promote(&l, &l.entries[0], NULL, NULL)); /* back again */
    assert_ptr_equal(baseline(&l, "m", 1, &unlike), &l.entries[0]);
    assert_ptr_equal(baseline(&l, "other", 1, &unlike), &l.entries[3]);
    assert_null(baseline(&l, "m", 2, &unlike));
    assert_non_null(unlike);
    refused(bn_ledger_promote(&l, &l.entries[5], "I want it", NULL), BN_ERR_MISMATCH);
    must(bn_ledger_find(&l, l.entries[1].id, &e, NULL));
    assert_ptr_equal(e, &l.entries[1]);
    refused(bn_ledger_find(&l, "xyz", &e, NULL), BN_ERR_NOT_FOUND);
    refused(bn_ledger_find(&l, "", &e, NULL), BN_ERR_NOT_FOUND);
    must(bn_ledger_write(&l, NULL));
    bn_ledger_close(&l);
    must(open_for(&l, false, NULL));
    assert_int_equal(l.n, 6);
    assert_int_equal(l.n_records, 8);
    assert_int_equal(l.entries[2].state, BN_ENTRY_PROMOTED);
    bn_ledger_close(&l);
}

TEST_IN(other_machines_are_refused, make_folder, remove_ledger)
{
    static const char *const NAMES[] = {"", ".", "..", "a/b", ".hidden", "a b", "\xc3\xa4"};
    struct bn_ledger l;
    struct bn_result r;
    struct bn_ledger_note note = {.state = BN_ENTRY_SAVED};
    save("main", "m", 1, 5, BN_ENTRY_PROMOTED);
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++) {
        refused(bn_ledger_open(&l, folder, NAMES[i], "run", true, NULL), BN_ERR_FORMAT);
        refused(bn_ledger_open(&l, folder, "toy", NAMES[i], true, NULL), BN_ERR_FORMAT);
    }
    must(open_for(&l, true, NULL));
    result(&r, "other key", "m", 1, 5);
    refused(bn_ledger_add(&l, "main", &r, &note, NULL), BN_ERR_UNSUPPORTED);
    bn_result_release(&r);
    result(&r, "key", "m", 1, 5);
    refused(bn_ledger_add(&l, "a/b", &r, &note, NULL), BN_ERR_ARG);
    bn_result_release(&r);
    bn_ledger_close(&l);
}

/* Short memory at any point fails, and leaves the file as it was. */
TEST_IN(memory_may_run_out_anywhere, make_folder, remove_ledger)
{
    struct bn_ledger l;
    struct bn_result r;
    struct bn_ledger_note note = {.state = BN_ENTRY_SAVED};
    bn_status status;
    save("main", "m", 1, 5, BN_ENTRY_PROMOTED);
    result(&r, "key", "m", 1, 6);
    SHORT_MEMORY (status) {
        status = open_for(&l, true, NULL);
        if (status == BN_OK) status = bn_ledger_add(&l, "main", &r, &note, NULL);
        if (status == BN_OK) status = bn_ledger_write(&l, NULL);
        bn_mem_fail_after(0);
        bn_ledger_close(&l);
        must(open_for(&l, false, NULL));
        assert_int_equal(l.n, status == BN_OK ? 2 : 1);
        bn_ledger_close(&l);
    }
    bn_result_release(&r);
}
