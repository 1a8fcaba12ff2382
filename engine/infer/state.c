/* SPDX-License-Identifier: MIT
 *
 * Saved timelines: the tokens of a session with their keys and values, in a file that a later session of the same
 * model reads back (docs/reference/files.md). Keys and values are the bits that evaluation stored, so nothing
 * that is computed from them differs.
 *
 * A file is accepted when its checksum, its version, the model's checksum, its shape and its length are right; nothing
 * is allocated by what it says. The checksums find damage and mistakes, not forgery: whoever can write the file
 * decides what the model has read.
 */
#include "infer/session.h"

#include "base/error.h"
#include "gguf/types.h"

#define PIECE_BYTES ((size_t)4 << 20) /* of a model's file: what one thread takes at a time */

_Static_assert(sizeof(struct bn_state_header) == 64, "the header has no padding");

/* Head i of all layers: its tiles of keys, or its rows of values. */
static uint16_t *head_cache(const struct bn_session *s, size_t i, bool values)
{
    return (values ? s->own.v_cache : s->own.k_cache) +
           i * bn_cache_rows(s->own.n_ctx) * s->model->hp.head_dim;
}

/* ---- the model's checksum: of the checksums of its pieces, which threads compute side by side ---- */

struct summing {
    const struct bn_model *model;
    size_t n_pieces;
    char (*sums)[BN_CHECKSUM_HEX];
    atomic_bool failed;
};

static void sum_pieces(void *arg, unsigned thread, unsigned n_threads)
{
    struct summing *job = arg;
    struct bn_checksum *sum;
    size_t from, to;
    bn_team_share(job->n_pieces, 1, thread, n_threads, &from, &to);
    if (bn_checksum_open(&sum, NULL) != BN_OK) {
        job->failed = true;
        return;
    }
    for (size_t i = from; i < to; i++) {
        size_t at = i * PIECE_BYTES;
        bn_checksum_update(sum, job->model->bytes + at, bn_min_size(PIECE_BYTES, job->model->n_bytes - at));
        bn_checksum_take(sum, job->sums[i]);
    }
    bn_checksum_close(sum);
}

bn_status bn_state_model_sum(struct bn_session *s, const char **hex, bn_error *err)
{
    *hex = s->model_sum;
    if (s->model_sum[0] != '\0') return BN_OK;
    struct summing job = {.model = s->model, .n_pieces = (s->model->n_bytes - 1) / PIECE_BYTES + 1};
    struct bn_checksum *sum;
    BN_TRY(bn_checksum_open(&sum, err));
    job.sums = bn_alloc(job.n_pieces, sizeof *job.sums);
    if (job.sums != NULL) bn_team_run(s->team, sum_pieces, &job);
    bool ok = job.sums != NULL && !job.failed;
    for (size_t i = 0; i < job.n_pieces && ok; i++)
        bn_checksum_update(sum, job.sums[i], BN_CHECKSUM_HEX - 1);
    if (ok) bn_checksum_take(sum, s->model_sum);
    bn_checksum_close(sum);
    bn_free(job.sums);
    return ok ? BN_OK : bn_nomem(err);
}

/* ---- writing ---- */

static bn_status header_of(struct bn_session *s, uint32_t n_tokens, struct bn_state_header *header,
                           bn_error *err)
{
    const bn_hparams *hp = &s->model->hp;
    const char *model;
    BN_TRY(bn_state_model_sum(s, &model, err));
    *header = (struct bn_state_header){
        .version = bn_sequence_is_recurrent(&s->own) ? BN_STATE_RECURRENT_VERSION : BN_STATE_VERSION,
        .n_tokens = n_tokens,
        .n_layer = hp->n_layer,
        .n_head_kv = hp->n_head_kv,
        .head_dim = hp->head_dim,
        .kv_type = BN_TYPE_F16};
    memcpy(header->magic, BN_STATE_MAGIC, sizeof header->magic);
    memcpy(header->model, model, sizeof header->model);
    return BN_OK;
}

static bn_status sum_parts(const struct bn_file_part *parts, size_t n, char hex[BN_CHECKSUM_HEX],
                           bn_error *err)
{
    struct bn_checksum *sum;
    BN_TRY(bn_checksum_open(&sum, err));
    for (size_t i = 0; i < n; i++)
        bn_checksum_update(sum, parts[i].bytes, parts[i].n);
    bn_checksum_take(sum, hex);
    bn_checksum_close(sum);
    return BN_OK;
}

/* Each rank has the keys and values of its own heads. */
static bn_status refuse_ranks(const struct bn_session *s, bn_error *err)
{
    if (s->model->ranks == NULL) return BN_OK;
    return bn_fail(err, BN_ERR_UNSUPPORTED, "a prompt cache cannot be used with ranks");
}

/* The parts of a file before its checksum. */
static size_t collect(const struct bn_session *s, const struct bn_state_header *header, uint16_t *keys,
                      struct bn_file_part *parts)
{
    const struct bn_sequence *own = &s->own;
    size_t n = 0, d = s->model->hp.head_dim, n_values = header->n_tokens * d,
           row = n_values * sizeof(uint16_t), state = own->n_state * sizeof *own->state;
    parts[n++] = (struct bn_file_part){header, sizeof *header};
    parts[n++] = (struct bn_file_part){own->tokens, header->n_tokens * sizeof *own->tokens};
    for (size_t i = 0; i < bn_own_kv_heads(s->model); i++) {
        uint16_t *rows = keys + i * n_values;
        for (size_t at = 0; at < n_values; at++)
            rows[at] = head_cache(s, i, false)[bn_in_keys(at / d, at % d, d)];
        parts[n++] = (struct bn_file_part){rows, row};
        parts[n++] = (struct bn_file_part){head_cache(s, i, true), row};
    }
    if (!bn_sequence_is_recurrent(own)) return n;
    const struct bn_snapshot *at = NULL;
    bool ends = false; /* one of the snapshots has all tokens */
    while ((at = bn_snapshots_find(&s->snapshots, own, at != NULL ? at->n_tokens : 0, header->n_tokens)) !=
           NULL) {
        parts[n++] = (struct bn_file_part){&at->n_tokens, sizeof at->n_tokens};
        parts[n++] = (struct bn_file_part){at->state, state};
        ends = at->n_tokens == header->n_tokens;
    }
    if (ends) return n;
    parts[n++] = (struct bn_file_part){&header->n_tokens, sizeof header->n_tokens};
    parts[n++] = (struct bn_file_part){own->state, state};
    return n;
}

/* The caches and the state of a device come to the CPU for a while; what was changed there goes back. */
static bn_status borrow_caches(struct bn_session *s, bn_error *err)
{
    size_t n = (size_t)s->own.place.n;
    if (s->on_device == NULL) return BN_OK;
    BN_TRY(BN_NEW(s->own.k_cache, n, err));
    BN_TRY(BN_NEW(s->own.v_cache, n, err));
    BN_TRY(bn_device_move_cache(&s->own, false, err));
    return bn_device_read_state(&s->own, err);
}

static bn_status return_caches(struct bn_session *s, bn_status status, bool changed, bn_error *err)
{
    if (s->on_device == NULL) return status;
    if (status == BN_OK && changed) status = bn_device_move_cache(&s->own, true, err);
    bn_free(s->own.k_cache);
    bn_free(s->own.v_cache);
    s->own.k_cache = s->own.v_cache = NULL;
    return status;
}

bn_status bn_session_save(bn_session *s, uint32_t n_tokens, const char *path, bn_error *err)
{
    struct bn_state_header header;
    char hex[BN_CHECKSUM_HEX];
    BN_TRY(refuse_ranks(s, err));
    if (n_tokens == 0 || n_tokens > s->own.position)
        return bn_fail(err, BN_ERR_ARG, "cannot save %u tokens, the timeline has %u", n_tokens,
                       s->own.position);
    if (bn_session_known(s, n_tokens) != n_tokens)
        return bn_fail(err, BN_ERR_UNSUPPORTED,
                       "the state of recurrent layers after %u tokens is not known, only after %u", n_tokens,
                       bn_session_known(s, n_tokens));
    BN_TRY(header_of(s, n_tokens, &header, err));
    struct bn_file_part *parts =
        bn_alloc(2 * bn_own_kv_heads(s->model) + 2 * s->snapshots.n + 5, sizeof *parts);
    uint16_t *keys = bn_alloc(bn_own_kv_heads(s->model) * n_tokens,
                              s->model->hp.head_dim * sizeof *keys); /* in rows, as files have them */
    if (parts == NULL || keys == NULL) {
        bn_free(parts);
        bn_free(keys);
        return bn_nomem(err);
    }
    bn_status status = borrow_caches(s, err);
    size_t n = status == BN_OK ? collect(s, &header, keys, parts) : 0;
    if (status == BN_OK) status = sum_parts(parts, n, hex, err);
    parts[n++] = (struct bn_file_part){hex, BN_STATE_SUM_BYTES};
    if (status == BN_OK) status = bn_file_write_parts(path, parts, n, err);
    status = return_caches(s, status, false, err);
    bn_free(parts);
    bn_free(keys);
    return status;
}

uint64_t bn_session_token_bytes(const bn_session *s)
{
    return sizeof *s->own.tokens +
           (uint64_t)bn_own_kv_heads(s->model) * s->model->hp.head_dim * 2 * sizeof(uint16_t);
}

/* ---- reading ---- */

static bn_status check_sum(const unsigned char *bytes, size_t n, const char *name, bn_error *err)
{
    char hex[BN_CHECKSUM_HEX];
    const struct bn_file_part part = {bytes, n - BN_STATE_SUM_BYTES};
    BN_TRY(sum_parts(&part, 1, hex, err));
    if (memcmp(hex, bytes + part.n, BN_STATE_SUM_BYTES) == 0) return BN_OK;
    return bn_hint(bn_fail_in(err, BN_ERR_INTEGRITY, name,
                              "the prompt cache is damaged or truncated: its checksum is wrong"),
                   err, "delete the file; it is made again");
}

static bn_status check_model(const struct bn_state_header *found, const struct bn_state_header *want,
                             const char *name, bn_error *err)
{
    if (memcmp(found->model, want->model, sizeof want->model) != 0) {
        char sum[2 * sizeof found->model + 1];
        return bn_hint(bn_fail_in(err, BN_ERR_MISMATCH, name,
                                  "the prompt cache is of the model %s, this model is %.32s",
                                  bn_escape(sum, sizeof sum, found->model, sizeof found->model), want->model),
                       err, "use one file for each model");
    }
    if (found->n_layer == want->n_layer && found->n_head_kv == want->n_head_kv &&
        found->head_dim == want->head_dim && found->kv_type == want->kv_type)
        return BN_OK;
    return bn_fail_in(
        err, BN_ERR_FORMAT, name,
        "%u layers of %u heads of %u values of type %u, the model has %u of %u of %u of type %u",
        found->n_layer, found->n_head_kv, found->head_dim, found->kv_type, want->n_layer, want->n_head_kv,
        want->head_dim, want->kv_type);
}

/* Bytes of one state of recurrent layers, with the number of its tokens. */
static size_t state_bytes(const struct bn_session *s)
{
    return sizeof(uint32_t) + s->own.n_state * sizeof *s->own.state;
}

static uint32_t load_u32(const unsigned char *bytes)
{
    uint32_t x;
    memcpy(&x, bytes, sizeof x);
    return x;
}

/* Whether the tokens and the states fill the file, and each state is of some of the tokens. */
static bn_status check_size(const struct bn_session *s, const unsigned char *bytes, size_t n,
                            const struct bn_state_header *found, const char *name, bn_error *err)
{
    uint64_t each = bn_session_token_bytes(s), room = n - sizeof *found - BN_STATE_SUM_BYTES,
             tokens = each * found->n_tokens;
    bool fits = found->n_tokens > 0 && tokens <= room;
    uint64_t rest = fits ? room - tokens : 0, last = 0;
    if (bn_sequence_is_recurrent(&s->own))
        fits = fits && rest > 0 && rest % state_bytes(s) == 0;
    else
        fits = fits && rest == 0;
    if (!fits)
        return bn_fail_in(err, BN_ERR_FORMAT, name, "%llu bytes for %u tokens, each takes %llu",
                          (unsigned long long)room, found->n_tokens, (unsigned long long)each);
    for (size_t at = n - BN_STATE_SUM_BYTES - rest; at < n - BN_STATE_SUM_BYTES; at += state_bytes(s)) {
        uint32_t place = load_u32(bytes + at);
        if (place <= last || place > found->n_tokens)
            return bn_fail_in(err, BN_ERR_FORMAT, name, "a state after %u of %u tokens", place,
                              found->n_tokens);
        last = place;
    }
    return BN_OK;
}

/* Whether the bytes are a timeline of this session's model, from the outside to the inside. */
static bn_status check(struct bn_session *s, const unsigned char *bytes, size_t n, const char *name,
                       struct bn_state_header *found, bn_error *err)
{
    struct bn_state_header want;
    if (n < sizeof *found + BN_STATE_SUM_BYTES || memcmp(bytes, BN_STATE_MAGIC, sizeof found->magic) != 0)
        return bn_fail_in(err, BN_ERR_FORMAT, name, "not a prompt cache");
    memcpy(found, bytes, sizeof *found);
    BN_TRY(check_sum(bytes, n, name, err));
    BN_TRY(header_of(s, found->n_tokens, &want, err));
    bool known = found->version == BN_STATE_VERSION || found->version == BN_STATE_RECURRENT_VERSION;
    if (known) BN_TRY(check_model(found, &want, name, err));
    if (found->version != want.version) {
        return bn_hint(bn_fail_in(err, BN_ERR_UNSUPPORTED, name,
                                  "a prompt cache of version %u, this program reads version %u",
                                  found->version, want.version),
                       err, "delete the file; it is made again");
    }
    return check_size(s, bytes, n, found, name, err);
}

/* Copies the positions from..to of a file of n tokens, whose first keys are at rows, into the cache. */
static void copy_rows(struct bn_session *s, const unsigned char *rows, size_t n, size_t from, size_t to)
{
    size_t d = s->model->hp.head_dim, bytes = d * sizeof(uint16_t);
    for (size_t i = 0; i < bn_own_kv_heads(s->model); i++) {
        const unsigned char *keys = rows + 2 * i * n * bytes, *values = keys + n * bytes;
        for (size_t at = from * d; at < to * d; at++)
            memcpy(head_cache(s, i, false) + bn_in_keys(at / d, at % d, d), keys + at * sizeof(uint16_t),
                   sizeof(uint16_t));
        memcpy(head_cache(s, i, true) + from * d, values + from * bytes, (to - from) * bytes);
    }
}

/* The states of the file become snapshots, up to the last of at most n tokens, which becomes the state. */
static void take_states(struct bn_session *s, const unsigned char *states, const unsigned char *end,
                        uint32_t n)
{
    struct bn_sequence *own = &s->own;
    for (; states < end && load_u32(states) <= n; states += state_bytes(s)) {
        own->position = load_u32(states);
        memcpy(own->state, states + sizeof(uint32_t), own->n_state * sizeof *own->state);
        bn_sequence_wrote_state(own);
        bn_sequence_mark(own, own->position);
    }
}

bn_status bn_state_read(struct bn_session *s, const void *bytes, size_t n_bytes, const char *name,
                        const int32_t *tokens, size_t n_tokens, uint32_t *n_kept, bn_error *err)
{
    struct bn_state_header header;
    const unsigned char *saved = (const unsigned char *)bytes + sizeof header;
    *n_kept = 0;
    BN_TRY(check(s, bytes, n_bytes, name, &header, err));
    const unsigned char *states = saved + header.n_tokens * bn_session_token_bytes(s),
                        *end = (const unsigned char *)bytes + n_bytes - BN_STATE_SUM_BYTES;
    size_t most = bn_min_size(bn_min_size(n_tokens, header.n_tokens), s->own.n_ctx), n = 0, known = 0;
    while (n < most && memcmp(saved + n * sizeof *tokens, &tokens[n], sizeof *tokens) == 0)
        n++;
    bool is_recurrent = bn_sequence_is_recurrent(&s->own);
    for (const unsigned char *at = states; is_recurrent && at < end && load_u32(at) <= n;
         at += state_bytes(s))
        known = load_u32(at);
    if (is_recurrent) n = known; /* of the last state */
    size_t own = bn_session_keep(s, tokens, n_tokens);
    if (n > own) {
        bn_status status = borrow_caches(s, err);
        if (status == BN_OK) copy_rows(s, saved + header.n_tokens * sizeof *tokens, header.n_tokens, own, n);
        BN_TRY(return_caches(s, status, true, err));
        memcpy(s->own.tokens + own, tokens + own, (n - own) * sizeof *tokens);
        if (is_recurrent) take_states(s, states, end, (uint32_t)n);
        s->own.position = (uint32_t)n;
    }
    *n_kept = s->own.position;
    return BN_OK;
}

bn_status bn_session_load(bn_session *s, const char *path, const int32_t *tokens, size_t n_tokens,
                          uint32_t *n_kept, bn_error *err)
{
    struct bn_file_map map;
    *n_kept = 0;
    BN_TRY(refuse_ranks(s, err));
    BN_TRY(bn_model_check_file(s->model, err)); /* the cache names the model by its digest */
    BN_TRY(bn_file_map_open(&map, path, false, err));
    bn_status status = map.n_bytes > 0
                           ? bn_state_read(s, map.data, map.n_bytes, path, tokens, n_tokens, n_kept, err)
                           : bn_fail_in(err, BN_ERR_NOT_FOUND, path, "the prompt cache is empty");
    bn_file_map_close(&map);
    return status;
}
