/* SPDX-License-Identifier: MIT
 *
 * The ledger of saved runs. The file is JSON with one record per line, so that a saved run is one added line
 * in a diff. The lock is on the folder of the machine, because the file itself is replaced.
 */
#define _DEFAULT_SOURCE /* flock */
#include "lab/history/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "lab/kit/put_counts.h"

#define SCHEMA "bn.ledger/1"
#define LOCK_TRIES 200u
#define LOCK_PAUSE_NS 50000000L

static const char *const STATES[] = {"saved", "promoted", "regressed"};

const char *bn_entry_state_name(enum bn_entry_state state)
{
    return (unsigned)state < BN_ARRAY_LEN(STATES) ? STATES[state] : "?";
}

/* ---- the chain ---- */

/* sha256 of a record's canonical form without its id. */
static bn_status digest(const bn_json *record, char hex[BN_SHA256_HEX], bn_error *err)
{
    bn_json *holder = bn_json_new_object();
    bn_json_put_copy(holder, "record", record);
    bn_json *copy = (bn_json *)(uintptr_t)bn_json_get(holder, "record");
    if (copy != NULL) bn_json_remove(copy, "id");
    bn_status status = bn_json_digest(copy, hex, err);
    bn_json_free(holder);
    return status;
}

static bn_status check_link(const bn_json *record, size_t i, const char *previous, bn_error *err)
{
    char hex[BN_SHA256_HEX];
    BN_TRY(digest(record, hex, err));
    if (strcmp(hex, bn_json_text_of(record, "id")) != 0)
        return bn_fail(err, BN_ERR_INTEGRITY, "record %zu was changed: its id is not its digest", i);
    if (strcmp(bn_json_text_of(record, "previous"), previous) != 0)
        return bn_fail(err, BN_ERR_INTEGRITY, "record %zu does not follow the one before it", i);
    return BN_OK;
}

/* ---- reading ---- */

static struct bn_entry *entry_of(struct bn_ledger *l, const char *id)
{
    size_t i = bn_find_text(l->entries, l->n, sizeof *l->entries, id);
    return i < l->n ? &l->entries[i] : NULL;
}

static bn_status take_run(struct bn_ledger *l, const bn_json *record, size_t i, bn_error *err)
{
    struct bn_entry *e = &l->entries[l->n];
    const char *state = bn_json_text_of(record, "state");
    *e = (struct bn_entry){.json = record, .dirty = true};
    e->id = bn_json_text_of(record, "id");
    e->name = bn_json_text_of(record, "name");
    e->created = bn_json_text_of(record, "created");
    e->commit = bn_json_text_of(record, "commit");
    e->branch = bn_json_text_of(record, "branch");
    (void)bn_json_bool(bn_json_get(record, "dirty"), &e->dirty);
    e->like =
        (struct bn_likeness){bn_json_text_of(record, "machine"), bn_json_text_of(record, "settings_sha256"),
                             bn_json_text_of(record, "model_sha256")};
    unsigned s = (unsigned)BN_FIND(STATES, state);
    if (s == BN_ARRAY_LEN(STATES) || e->name[0] == '\0')
        return bn_fail(err, BN_ERR_FORMAT, "record %zu has no name or no state", i);
    if (strcmp(e->like.machine, l->machine_key) != 0)
        return bn_fail(err, BN_ERR_INTEGRITY, "record %zu is of another machine", i);
    e->state = (enum bn_entry_state)s;
    l->n++;
    return BN_OK;
}

/* Verifies record i and adds it to the entries. */
static bn_status take_record(struct bn_ledger *l, const bn_json *record, size_t i, const char *previous,
                             bn_error *err)
{
    const char *kind = bn_json_text_of(record, "kind");
    BN_TRY(check_link(record, i, previous, err));
    if (strcmp(kind, "run") == 0) return take_run(l, record, i, err);
    struct bn_entry *e = strcmp(kind, "promotion") == 0 ? entry_of(l, bn_json_text_of(record, "run")) : NULL;
    if (e == NULL || e->state == BN_ENTRY_REGRESSED)
        return bn_fail(err, BN_ERR_FORMAT, "record %zu is neither a run nor a promotion", i);
    e->state = BN_ENTRY_PROMOTED;
    e->promoted_at = i;
    return BN_OK;
}

/* Fills the entries from the document. */
static bn_status index_records(struct bn_ledger *l, bn_error *err)
{
    const bn_json *records = bn_json_get(l->document, "records");
    const char *previous = "";
    if (!bn_json_is_complete(l->document)) return bn_nomem(err);
    l->suite = bn_json_text_of(l->document, "suite");
    l->machine_key = bn_json_text_of(bn_json_get(l->document, "machine"), "key");
    l->machine_label = bn_json_text_of(bn_json_get(l->document, "machine"), "label");
    if (!bn_json_text_is(l->document, "schema", SCHEMA) || bn_json_kind(records) != BN_JSON_ARRAY)
        return bn_fail(err, BN_ERR_FORMAT, "not a ledger (schema " SCHEMA " expected)");
    bn_free(l->entries);
    l->n = 0;
    l->n_records = bn_json_size(records);
    BN_TRY(BN_NEW(l->entries, l->n_records, err));
    size_t i = 0;
    for (const bn_json *r = bn_json_first(records); r != NULL; r = bn_json_next(r)) {
        BN_TRY(take_record(l, r, i++, previous, err));
        previous = bn_json_text_of(r, "id");
    }
    return BN_OK;
}

static bn_status read_file(struct bn_ledger *l, bn_error *err)
{
    BN_TRY(bn_json_read_file(&l->document, l->path, err));
    bn_status status = index_records(l, err);
    if (status != BN_OK) bn_error_name(err, l->path);
    return status;
}

static void start_empty(struct bn_ledger *l, const char *label, const char *suite)
{
    l->document = bn_json_new_object();
    BN_PUT(l->document, BN_STRING("schema", SCHEMA), BN_STRING("suite", suite));
    bn_json *machine = bn_json_put_object(l->document, "machine");
    bn_json_put_null(machine, "key");
    bn_json_put_string(machine, "label", label);
    bn_json_put_array(l->document, "records");
    l->suite = bn_json_text_of(l->document, "suite");
    l->machine_label = bn_json_text_of(machine, "label");
    l->machine_key = "";
}

/* Names become parts of paths, and come from documents: letters, digits, ".", "_", "-", not a dot first. */
static bool is_plain(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n < 128 && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static bn_status lock_folder(struct bn_ledger *l, const char *folder, const char *label, bn_error *err)
{
    char path[4096];
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    snprintf(path, sizeof path, "%s/%s", folder, label);
    if ((mkdir(folder, 0777) != 0 && errno != EEXIST) || (mkdir(path, 0777) != 0 && errno != EEXIST))
        return bn_fail_errno(err, errno, path, "cannot create the folder");
    l->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (l->lock < 0) return bn_fail_errno(err, errno, path, "cannot open");
    for (unsigned i = 0; i < LOCK_TRIES; i++) {
        if (flock(l->lock, LOCK_EX | LOCK_NB) == 0) return BN_OK;
        if (errno != EWOULDBLOCK && errno != EINTR) return bn_fail_errno(err, errno, path, "cannot lock");
        (void)nanosleep(&pause, NULL);
    }
    return bn_fail(err, BN_ERR_IO, "another process keeps the ledger locked");
}

bn_status bn_ledger_open(struct bn_ledger *ledger, const char *folder, const char *machine_label,
                         const char *suite, bool write, bn_error *err)
{
    *ledger = (struct bn_ledger){.lock = -1};
    if (!is_plain(machine_label) || !is_plain(suite))
        return bn_fail(err, BN_ERR_FORMAT,
                       "the machine's label or the command in the document is not usable as a file name");
    int len = snprintf(ledger->path, sizeof ledger->path, "%s/%s/%s.json", folder, machine_label, suite);
    if (len < 0 || (size_t)len >= sizeof ledger->path)
        return bn_fail(err, BN_ERR_ARG, "the folder's name is too long");
    bn_error why = {0};
    bn_status status = write ? lock_folder(ledger, folder, machine_label, err) : BN_OK;
    if (status == BN_OK) {
        status = read_file(ledger, &why);
        if (status == BN_ERR_NOT_FOUND && write) {
            start_empty(ledger, machine_label, suite);
            status = BN_OK;
        } else if (status != BN_OK && err != NULL && err->code == BN_OK) {
            *err = why;
        }
    }
    if (status != BN_OK) bn_ledger_close(ledger);
    return status;
}

void bn_ledger_close(struct bn_ledger *ledger)
{
    bn_json_free(ledger->document);
    bn_free(ledger->entries);
    if (ledger->lock >= 0) close(ledger->lock); /* releases it */
    *ledger = (struct bn_ledger){.lock = -1};
}

/* ---- appending ---- */

/* Gives the last record its place in the chain. */
static bn_status seal(struct bn_ledger *l, bn_json *record, bn_error *err)
{
    char hex[BN_SHA256_HEX];
    const bn_json *records = bn_json_get(l->document, "records");
    size_t n = bn_json_size(records);
    const char *previous = n > 1 ? bn_json_text_of(bn_json_at(records, n - 2), "id") : NULL;
    bn_json_put_string(record, "previous", previous);
    BN_TRY(digest(record, hex, err));
    bn_json_put_string(record, "id", hex);
    return index_records(l, err);
}

static bn_json *new_record(struct bn_ledger *l, const char *kind, const char *name)
{
    bn_json *records = (bn_json *)(uintptr_t)bn_json_get(l->document, "records");
    bn_json *record = bn_json_add_object(records);
    BN_PUT(record, BN_STRING("kind", kind), BN_STRING("name", name), BN_TIME("saved", bn_clock_utc()));
    return record;
}

static void put_run(bn_json *r, const struct bn_result *result, const struct bn_ledger_note *note)
{
    BN_PUT(r, BN_TEXT("created", result->created), BN_TEXT("commit", result->commit),
           BN_FLAG("dirty", result->dirty || result->changed_sources > 0), BN_TEXT("branch", result->branch),
           BN_TEXT("binary_sha256", result->binary_sha256), BN_TEXT("compiler", result->compiler),
           BN_TEXT("flags", result->flags), BN_TEXT("model_sha256", result->model_sha256),
           BN_TEXT("machine", result->machine_key), BN_STRING("settings_sha256", result->settings_sha256));
    bn_json_put_copy(r, "settings", bn_json_get(result->document, "settings"));
    BN_PUT(r, BN_STRING("state", bn_entry_state_name(note->state)), BN_STRING("against", note->against),
           BN_STRING("verdict", note->against != NULL ? bn_outcome_name(note->outcome) : NULL));
    bn_json_put_texts(r, "allowed", note->allowed, note->n_allowed);
    bn_json_put_string(r, "reason", note->reason);
    bn_series_put(r, &result->series);
}

bn_status bn_ledger_add(struct bn_ledger *ledger, const char *name, const struct bn_result *result,
                        const struct bn_ledger_note *note, bn_error *err)
{
    if (!is_plain(name))
        return bn_fail(err, BN_ERR_ARG, "a name may only contain letters, digits, '.', '_' and '-'");
    if (result->machine_key[0] == '\0') return bn_fail(err, BN_ERR_FORMAT, "the document has no machine key");
    if (ledger->n_records == 0) {
        bn_json *machine = (bn_json *)(uintptr_t)bn_json_get(ledger->document, "machine");
        bn_json_put_string(machine, "key", result->machine_key);
    } else if (strcmp(ledger->machine_key, result->machine_key) != 0) {
        return bn_fail(err, BN_ERR_UNSUPPORTED, "the ledger is of another machine");
    }
    bn_json *record = new_record(ledger, "run", name);
    put_run(record, result, note);
    return seal(ledger, record, err);
}

bn_status bn_ledger_promote(struct bn_ledger *ledger, const struct bn_entry *entry, const char *reason,
                            bn_error *err)
{
    char id[BN_SHA256_HEX], name[128];
    if (entry->state == BN_ENTRY_REGRESSED)
        return bn_fail(err, BN_ERR_MISMATCH, "run %.12s regressed: it cannot become a baseline", entry->id);
    snprintf(id, sizeof id, "%s", entry->id); /* entries move */
    snprintf(name, sizeof name, "%s", entry->name);
    bn_json *record = new_record(ledger, "promotion", name);
    BN_PUT(record, BN_STRING("run", id), BN_STRING("reason", reason));
    return seal(ledger, record, err);
}

bn_status bn_ledger_write(struct bn_ledger *ledger, bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    const bn_json *machine = bn_json_get(ledger->document, "machine");
    const bn_json *records = bn_json_get(ledger->document, "records");
    bn_buf_puts(&text, "{\"schema\":\"" SCHEMA "\",\"suite\":");
    bn_status status = bn_json_write(bn_json_get(ledger->document, "suite"), true, &text, err);
    bn_buf_puts(&text, ",\"machine\":");
    if (status == BN_OK) status = bn_json_write(machine, true, &text, err);
    bn_buf_puts(&text, ",\"records\":[");
    for (const bn_json *r = bn_json_first(records); r != NULL && status == BN_OK; r = bn_json_next(r)) {
        bn_buf_puts(&text, r == bn_json_first(records) ? "\n" : ",\n");
        status = bn_json_write(r, true, &text, err);
    }
    bn_buf_puts(&text, "\n]}\n");
    if (status == BN_OK) status = bn_buf_check(&text, err);
    if (status == BN_OK) status = bn_file_write_atomic(ledger->path, text.data, text.len, err);
    if (status == BN_ERR_LIMIT)
        bn_error_hint(err,
                      "the ledger is full (%u MiB); move the file away, and the next save starts a new one",
                      BN_JSON_MAX_BYTES >> 20);
    bn_buf_release(&text);
    return status;
}

/* ---- asking ---- */

const struct bn_entry *bn_ledger_baseline(const struct bn_ledger *ledger, const char *name,
                                          const struct bn_likeness *like, const struct bn_entry **unlike)
{
    const struct bn_entry *best = NULL;
    *unlike = NULL;
    for (size_t i = 0; i < ledger->n; i++) {
        const struct bn_entry *e = &ledger->entries[i];
        if (e->state != BN_ENTRY_PROMOTED || strcmp(e->name, name) != 0) continue;
        if (bn_result_like(&e->like, like, NULL) != BN_OK)
            *unlike = e;
        else if (best == NULL || e->promoted_at >= best->promoted_at)
            best = e;
    }
    return best;
}

bn_status bn_ledger_find(const struct bn_ledger *ledger, const char *id, const struct bn_entry **out,
                         bn_error *err)
{
    *out = NULL;
    for (size_t i = 0; i < ledger->n && id[0] != '\0'; i++) {
        if (strncmp(ledger->entries[i].id, id, strlen(id)) != 0) continue;
        if (*out != NULL)
            return bn_fail(err, BN_ERR_ARG, "ambiguous id: several runs start with '%.64s'", id);
        *out = &ledger->entries[i];
    }
    return *out != NULL ? BN_OK : bn_fail(err, BN_ERR_NOT_FOUND, "no run with the id '%.64s'", id);
}
