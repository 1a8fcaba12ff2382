/* SPDX-License-Identifier: MIT
 *
 * The client of the reference protocol.
 */
#include "lab/compare/reference.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lab/host/machine.h"
#include "lab/kit/process.h"
#include "lab/kit/put_counts.h"

#define MAX_REQUEST_BYTES (16u << 20)
#define MAX_FLOATS (UINT64_C(1) << 33) /* 32 GiB: a bound on what an answer may announce */

struct bn_reference {
    struct bn_child *child;
    uint64_t timeout_ns, next_id, deadline;
    bool broken;
    bn_json *answer; /* the last one */
    struct bn_reference_info info;
};

const struct bn_reference_info *bn_reference_info(const struct bn_reference *ref)
{
    return &ref->info;
}

const char *bn_reference_stderr(struct bn_reference *ref)
{
    return ref->child != NULL ? bn_child_stderr(ref->child) : "";
}

/* ---- one request ---- */

/* A fault of the reference: it is not asked again. */
static bn_status broken(struct bn_reference *ref, bn_error *err, const char *what)
{
    ref->broken = true;
    return bn_fail(err, BN_ERR_MISMATCH, "%s", what);
}

/* The status of an answer with "ok": false. */
static bn_status refused(struct bn_reference *ref, bn_error *err)
{
    static const struct {
        const char *kind;
        bn_status status;
    } KINDS[] = {{"unsupported", BN_ERR_UNSUPPORTED},
                 {"argument", BN_ERR_MISMATCH},
                 {"not_found", BN_ERR_NOT_FOUND},
                 {"format", BN_ERR_FORMAT},
                 {"internal", BN_ERR_MISMATCH}};
    const char *text = NULL, *kind = NULL;
    char shown[180];
    if (!bn_json_string(bn_json_get(ref->answer, "error"), &text) ||
        !bn_json_string(bn_json_get(ref->answer, "kind"), &kind))
        return broken(ref, err, "refused a request without saying why");
    for (size_t i = 0; i < BN_ARRAY_LEN(KINDS); i++)
        if (strcmp(kind, KINDS[i].kind) == 0)
            return bn_fail(err, KINDS[i].status, "refused: %s",
                           bn_escape(shown, sizeof shown, text, strlen(text)));
    return broken(ref, err, "refused a request with an error of an unknown kind");
}

/* Writes the request and reads a line; the answer is in ref. */
static bn_status exchange(struct bn_reference *ref, const bn_json *request, bn_error *err)
{
    struct bn_buf line = {.max = MAX_REQUEST_BYTES}, answer = {.max = BN_JSON_MAX_BYTES};
    bn_error why = {0};
    char shown[80];
    bn_status status = bn_json_write_line(request, true, &line, err);
    if (status == BN_OK) {
        ref->broken = true; /* until there is an answer */
        status = bn_child_write(ref->child, line.data, line.len, ref->deadline, err);
        if (status == BN_OK) status = bn_child_read_line(ref->child, &answer, ref->deadline, err);
        if (status == BN_OK) status = bn_json_parse(&ref->answer, bn_buf_text(&answer), answer.len, &why);
        if (why.code == BN_ERR_NOMEM)
            *err = why;
        else if (why.code != BN_OK || (status == BN_OK && bn_json_kind(ref->answer) != BN_JSON_OBJECT))
            status = bn_fail(err, BN_ERR_MISMATCH, "answered with something that is not a JSON object: %s",
                             bn_escape(shown, sizeof shown, bn_buf_text(&answer), answer.len));
        ref->broken = status != BN_OK;
    }
    bn_buf_release(&line);
    bn_buf_release(&answer);
    return status;
}

/* Sends the request, whose op and members are set, and frees it. */
static bn_status ask(struct bn_reference *ref, bn_json *request, bn_error *err)
{
    uint64_t id = ++ref->next_id, got = 0;
    bool ok = false;
    bn_json_free(ref->answer);
    ref->answer = NULL;
    ref->deadline = bn_clock_ns() + ref->timeout_ns;
    bn_json_put_u64(request, "id", id);
    bn_status status =
        ref->broken ? bn_fail(err, BN_ERR_MISMATCH, "failed before") : exchange(ref, request, err);
    bn_json_free(request);
    BN_TRY(status);
    if (!bn_json_u64(bn_json_get(ref->answer, "id"), &got) || got != id)
        return broken(ref, err, "answered with the wrong id");
    if (!bn_json_bool(bn_json_get(ref->answer, "ok"), &ok))
        return broken(ref, err, "answered without \"ok\"");
    return ok ? BN_OK : refused(ref, err);
}

static bn_json *new_request(const char *op)
{
    bn_json *request = bn_json_new_object();
    bn_json_put_string(request, "op", op);
    return request;
}

/* The numbers after an answer; their count must be the wanted one. */
static bn_status read_floats(struct bn_reference *ref, uint64_t wanted, float **out, bn_error *err)
{
    uint64_t n = 0;
    if (!bn_json_u64(bn_json_get(ref->answer, "floats"), &n) || n != wanted || n > MAX_FLOATS)
        return broken(ref, err, "its number of floats is not rows times columns");
    float *floats = bn_alloc(n, sizeof *floats);
    if (floats == NULL) {
        ref->broken = true; /* they are on their way, and cannot be taken */
        return bn_fail(err, BN_ERR_NOMEM, "no memory for %llu numbers", (unsigned long long)n);
    }
    bn_status status = bn_child_read(ref->child, floats, n * sizeof *floats, ref->deadline, err);
    ref->broken = status != BN_OK;
    if (status != BN_OK) bn_free(floats);
    *out = status == BN_OK ? floats : NULL;
    return status;
}

/* ---- the operations ---- */

static void copy_text(char *out, size_t room, const bn_json *value)
{
    const char *text = NULL;
    if (bn_json_string(value, &text)) bn_escape(out, room, text, strlen(text));
}

static bn_status read_hello(struct bn_reference *ref, bn_error *err)
{
    static const char *const WORDS[] = {"tokenize", "logits", "trace", "bench"};
    const bn_json *answer = ref->answer;
    struct bn_reference_info *info = &ref->info;
    if (!bn_json_text_is(answer, "protocol", BN_REFERENCE_PROTOCOL))
        return broken(ref, err, "does not speak " BN_REFERENCE_PROTOCOL);
    copy_text(info->name, sizeof info->name, bn_json_get(answer, "name"));
    copy_text(info->version, sizeof info->version, bn_json_get(answer, "version"));
    copy_text(info->commit, sizeof info->commit, bn_json_get(answer, "commit"));
    const bn_json *list = bn_json_get(answer, "capabilities");
    for (unsigned i = 0; i < BN_ARRAY_LEN(WORDS); i++)
        if (bn_json_has_text(list, WORDS[i])) info->can |= 1u << i;
    if (info->name[0] == '\0' || bn_json_kind(list) != BN_JSON_ARRAY)
        return broken(ref, err, "its hello has no name or no capabilities");
    return BN_OK;
}

bn_status bn_reference_start(struct bn_reference **out, const struct bn_reference_options *options,
                             bn_error *err)
{
    struct bn_child_options child = {
        .command = options->command, .cancelled = options->cancelled, .on_stderr = options->on_stderr};
    struct bn_reference *ref = *out = bn_alloc(1, sizeof *ref);
    if (ref == NULL) return bn_nomem(err);
    ref->timeout_ns = options->timeout_ns;
    BN_TRY(bn_child_start(&ref->child, &child, err));
    BN_TRY(ask(ref, new_request("hello"), err));
    return read_hello(ref, err);
}

/* A figure that the reference may know better: what it sent, 0 when it sent null, else what was measured here. */
static uint64_t figure_of(const struct bn_reference *ref, const char *name, uint64_t measured)
{
    const bn_json *sent = bn_json_get(ref->answer, name);
    if (sent != NULL && !bn_json_u64(sent, &measured)) return 0;
    return measured;
}

bn_status bn_reference_open(struct bn_reference *ref, const char *model, uint32_t n_threads, bn_error *err)
{
    bn_json *request = new_request("open");
    BN_PUT(request, BN_STRING("model", model), BN_U64("threads", n_threads));
    uint64_t start = bn_clock_ns();
    BN_TRY(ask(ref, request, err));
    ref->info.open_ns = figure_of(ref, "open_ns", bn_clock_ns() - start);
    if (!bn_json_u64(bn_json_get(ref->answer, "n_vocab"), &ref->info.n_vocab) ||
        !bn_json_u64(bn_json_get(ref->answer, "n_ctx"), &ref->info.n_ctx))
        return broken(ref, err, "its answer to open has no n_vocab or no n_ctx");
    copy_text(ref->info.arch, sizeof ref->info.arch, bn_json_get(ref->answer, "arch"));
    return BN_OK;
}

bn_status bn_reference_tokenize(struct bn_reference *ref, const char *text, size_t n_bytes, int32_t **ids,
                                size_t *n_ids, bn_error *err)
{
    if (strlen(text) != n_bytes)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "the protocol cannot send a text with NUL bytes");
    bn_json *request = new_request("tokenize");
    BN_PUT(request, BN_STRING("text", text), BN_FLAG("bos", true), BN_FLAG("special", false));
    BN_TRY(ask(ref, request, err));
    bn_error why = {0};
    bn_status status = bn_json_ids(bn_json_get(ref->answer, "tokens"), ids, n_ids, &why);
    if (status == BN_ERR_FORMAT) return broken(ref, err, "sent no list of token ids");
    return status == BN_OK ? BN_OK : bn_nomem(err);
}

bn_status bn_reference_logits(struct bn_reference *ref, const int32_t *ids, size_t n_ids, float **logits,
                              bn_error *err)
{
    uint64_t rows = 0, cols = 0;
    bn_json *request = new_request("logits");
    bn_json_put_ids(request, "tokens", ids, n_ids);
    bn_json_put_bool(request, "last", false);
    BN_TRY(ask(ref, request, err));
    if (!bn_json_u64(bn_json_get(ref->answer, "rows"), &rows) || rows != n_ids ||
        !bn_json_u64(bn_json_get(ref->answer, "cols"), &cols) || cols != ref->info.n_vocab)
        return broken(ref, err, "sent logits with a wrong number of rows or columns");
    return read_floats(ref, rows * cols, logits, err);
}

/* The records of a list, whose numbers follow the answer one after the other. */
static bn_status take_records(struct bn_reference *ref, struct bn_records *records, bn_error *err)
{
    const bn_json *list = bn_json_get(ref->answer, "records");
    uint64_t left = 0;
    float *floats = NULL;
    if (!bn_json_u64(bn_json_get(ref->answer, "floats"), &left) || left == 0)
        return broken(ref, err, "sent an empty trace");
    BN_TRY(read_floats(ref, left, &floats, err));
    const float *at = floats;
    bn_status status = BN_OK;
    for (const bn_json *r = bn_json_first(list); r != NULL && status == BN_OK; r = bn_json_next(r)) {
        uint64_t rows = 0, cols = 0, n = 0;
        double layer = bn_json_number_of(r, "layer");
        if (!bn_json_u64(bn_json_get(r, "rows"), &rows) || !bn_json_u64(bn_json_get(r, "cols"), &cols) ||
            !bn_mul_ok(rows, cols, &n) || n == 0 || n > left || !(layer >= -1 && layer < 65536) ||
            bn_json_kind(bn_json_get(r, "op")) != BN_JSON_STRING) {
            status = broken(ref, err, "sent a trace record without op, layer, rows, cols and its numbers");
            break;
        }
        status = bn_records_add(records, bn_json_text_of(r, "op"), (int32_t)layer, rows, cols, at, err);
        at += n;
        left -= n;
    }
    if (status == BN_OK && left > 0)
        status = broken(ref, err, "its number of floats is not rows times columns");
    if (status == BN_ERR_FORMAT) {
        ref->broken = true; /* the same operation twice, with other columns */
        status = BN_ERR_MISMATCH;
    }
    bn_free(floats);
    return status;
}

bn_status bn_reference_trace(struct bn_reference *ref, const int32_t *ids, size_t n_ids,
                             struct bn_records *records, bn_error *err)
{
    bn_json *request = new_request("trace");
    bn_json_put_ids(request, "tokens", ids, n_ids);
    bn_json_put_null(request, "names");
    BN_TRY(ask(ref, request, err));
    return take_records(ref, records, err);
}

bn_status bn_reference_bench(struct bn_reference *ref, uint32_t n_prompt, uint32_t n_decode,
                             uint32_t n_threads, uint64_t *prompt_ns, uint64_t *decode_ns, bn_error *err)
{
    bn_json *request = new_request("bench");
    BN_PUT(request, BN_U64("prompt", n_prompt), BN_U64("decode", n_decode), BN_U64("threads", n_threads));
    BN_TRY(ask(ref, request, err));
    ref->info.peak_bytes =
        figure_of(ref, "peak_bytes", bn_machine_tree_peak_rss_bytes(bn_child_pid(ref->child)));
    if (bn_json_u64(bn_json_get(ref->answer, "prompt_ns"), prompt_ns) &&
        bn_json_u64(bn_json_get(ref->answer, "decode_ns"), decode_ns) && *prompt_ns > 0 &&
        (*decode_ns > 0 || n_decode == 0))
        return BN_OK;
    return broken(ref, err, "its answer to bench has no prompt_ns or no decode_ns, or a time of 0");
}

/* ---- the end ---- */

bn_status bn_reference_finish(struct bn_reference *ref, bn_error *err)
{
    if (ref->child == NULL) return BN_OK; /* it never started */
    BN_TRY(ask(ref, new_request("close"), err));
    return bn_child_finish(ref->child, ref->deadline, err);
}

void bn_reference_close(struct bn_reference *ref)
{
    if (ref == NULL) return;
    bn_child_close(ref->child);
    bn_json_free(ref->answer);
    bn_free(ref);
}
