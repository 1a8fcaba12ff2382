/* SPDX-License-Identifier: MIT
 *
 * Byte-pair learning. Pieces are kept once with their number of occurrences, as symbols; each pair knows how often it
 * occurs and in which pieces. A merge rewrites these pieces only. The best pair is found by a scan of all pairs, which
 * takes less time than the rest for vocabularies of some thousand tokens.
 */
#include "train/vocabulary.h"

#include "base/mem.h"
#include "gguf/gguf.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocab.h"
#include "train/checkpoint.h"

struct piece {
    uint32_t at, n; /* symbols; at: of the bytes too, while they are counted */
    uint64_t count;
};

struct pair {
    uint32_t left, right;
    int64_t count;
    uint32_t *pieces; /* that may have it; some lost it since */
    size_t n, room;
};

/* Open addressing: indexes plus one. */
struct index {
    uint32_t *slots;
    size_t n_slots, used;
};

struct bn_learner {
    struct bn_splitter *splitter;
    struct bn_buf bytes; /* of all different pieces */
    struct piece *pieces;
    size_t n_pieces, room_pieces;
    struct index by_bytes, by_pair;
    uint32_t *symbols;
    struct pair *pairs;
    size_t n_pairs, room_pairs;
    struct bn_merge *merges;
    size_t n_merges, room_merges;
    struct bn_buf tokens; /* the bytes of all tokens */
    uint32_t *token_at;   /* where each begins, and the end */
    size_t room_token_at;
};

/* ---- hash tables ---- */

/* Room for one more; *emptied: by twice the slots, all empty. */
static bn_status index_grow(struct index *x, bool *emptied, bn_error *err)
{
    *emptied = 2 * (x->used + 1) > x->n_slots;
    if (!*emptied) return BN_OK;
    size_t n = x->n_slots != 0 ? 2 * x->n_slots : 1024;
    bn_free(x->slots);
    x->slots = bn_alloc(n, sizeof *x->slots);
    x->n_slots = x->slots != NULL ? n : 0;
    x->used = 0;
    return x->slots != NULL ? BN_OK : bn_nomem(err);
}

static uint32_t *slot_of_piece(const struct bn_learner *l, const char *text, size_t n)
{
    const struct index *x = &l->by_bytes;
    for (size_t i = bn_hash_bytes(text, n) & (x->n_slots - 1);; i = (i + 1) & (x->n_slots - 1)) {
        const struct piece *p = x->slots[i] != 0 ? &l->pieces[x->slots[i] - 1] : NULL;
        if (p == NULL || (p->n == n && memcmp(l->bytes.data + p->at, text, n) == 0)) return &x->slots[i];
    }
}

static uint32_t *slot_of_pair(const struct bn_learner *l, uint32_t left, uint32_t right)
{
    const struct index *x = &l->by_pair;
    for (size_t i = bn_hash_mix((uint64_t)left << 32 | right) & (x->n_slots - 1);;
         i = (i + 1) & (x->n_slots - 1)) {
        const struct pair *p = x->slots[i] != 0 ? &l->pairs[x->slots[i] - 1] : NULL;
        if (p == NULL || (p->left == left && p->right == right)) return &x->slots[i];
    }
}

/* ---- pieces ---- */

bn_status bn_learner_open(struct bn_learner **out, const char *rule, bn_error *err)
{
    const struct bn_split_rule *found = bn_split_rule_find((struct bn_str){rule, strlen(rule)});
    *out = NULL;
    if (found == NULL)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "unknown splitting rule '%.40s'", rule), err,
                       "gpt-2, llama-bpe");
    struct bn_learner *l = bn_alloc(1, sizeof *l);
    if (l == NULL) return bn_nomem(err);
    l->bytes.max = l->tokens.max = UINT32_MAX;
    bn_status status = bn_splitter_open(&l->splitter, found, true, err);
    if (status == BN_OK)
        *out = l;
    else
        bn_learner_close(l);
    return status;
}

void bn_learner_close(struct bn_learner *l)
{
    if (l == NULL) return;
    for (size_t i = 0; i < l->n_pairs; i++)
        bn_free(l->pairs[i].pieces);
    bn_free(l->pairs);
    bn_free(l->pieces);
    bn_free(l->by_bytes.slots);
    bn_free(l->by_pair.slots);
    bn_free(l->symbols);
    bn_free(l->merges);
    bn_free(l->token_at);
    bn_buf_release(&l->bytes);
    bn_buf_release(&l->tokens);
    bn_splitter_close(l->splitter);
    bn_free(l);
}

static bn_status count_piece(struct bn_learner *l, struct bn_str text, bn_error *err)
{
    bool emptied;
    BN_TRY(index_grow(&l->by_bytes, &emptied, err));
    for (size_t i = 0; emptied && i < l->n_pieces; i++, l->by_bytes.used++)
        *slot_of_piece(l, l->bytes.data + l->pieces[i].at, l->pieces[i].n) = (uint32_t)i + 1;
    uint32_t *slot = slot_of_piece(l, text.ptr, text.len);
    if (*slot == 0) {
        BN_TRY(bn_array_grow(&l->pieces, &l->room_pieces, l->n_pieces + 1, sizeof *l->pieces, err));
        l->pieces[l->n_pieces] = (struct piece){.at = (uint32_t)l->bytes.len, .n = (uint32_t)text.len};
        bn_buf_append(&l->bytes, text.ptr, text.len);
        *slot = (uint32_t)++l->n_pieces;
        l->by_bytes.used++;
        BN_TRY(bn_buf_check(&l->bytes, err));
    }
    l->pieces[*slot - 1].count++;
    return BN_OK;
}

bn_status bn_learner_add(struct bn_learner *l, const char *text, size_t n_bytes, bn_error *err)
{
    struct bn_split split;
    struct bn_str piece;
    BN_TRY(bn_split_open(&split, l->splitter, err));
    bn_split_text(&split, text, n_bytes);
    bn_status status = bn_split_next(&split, &piece, err);
    while (status == BN_OK && piece.len > 0) {
        if (piece.len > 1) status = count_piece(l, piece, err);
        if (status == BN_OK) status = bn_split_next(&split, &piece, err);
    }
    bn_split_close(&split);
    return status;
}

/* ---- pairs ---- */

static bn_status add_pair(struct bn_learner *l, uint32_t left, uint32_t right, uint32_t piece, int64_t count,
                          bn_error *err)
{
    bool emptied;
    BN_TRY(index_grow(&l->by_pair, &emptied, err));
    for (size_t i = 0; emptied && i < l->n_pairs; i++, l->by_pair.used++)
        *slot_of_pair(l, l->pairs[i].left, l->pairs[i].right) = (uint32_t)i + 1;
    uint32_t *slot = slot_of_pair(l, left, right);
    if (*slot == 0) {
        BN_TRY(bn_array_grow(&l->pairs, &l->room_pairs, l->n_pairs + 1, sizeof *l->pairs, err));
        l->pairs[l->n_pairs] = (struct pair){.left = left, .right = right};
        *slot = (uint32_t)++l->n_pairs;
        l->by_pair.used++;
    }
    struct pair *p = &l->pairs[*slot - 1];
    p->count += count;
    if (p->n > 0 && p->pieces[p->n - 1] == piece) return BN_OK;
    BN_TRY(bn_array_grow(&p->pieces, &p->room, p->n + 1, sizeof *p->pieces, err));
    p->pieces[p->n++] = piece;
    return BN_OK;
}

static bn_status add_pairs(struct bn_learner *l, uint32_t piece, bn_error *err)
{
    const struct piece *p = &l->pieces[piece];
    for (uint32_t i = p->at; i + 1 < p->at + p->n; i++)
        BN_TRY(add_pair(l, l->symbols[i], l->symbols[i + 1], piece, (int64_t)p->count, err));
    return BN_OK;
}

static bn_status begin(struct bn_learner *l, bn_error *err)
{
    BN_TRY(BN_NEW(l->symbols, l->bytes.len, err));
    for (size_t i = 0; i < l->bytes.len; i++)
        l->symbols[i] = (unsigned char)l->bytes.data[i];
    BN_TRY(bn_array_grow(&l->token_at, &l->room_token_at, 257, sizeof *l->token_at, err));
    for (uint32_t i = 0; i < 256; i++) {
        l->token_at[i] = i;
        bn_buf_putc(&l->tokens, (char)(unsigned char)i);
    }
    l->token_at[256] = 256;
    for (uint32_t i = 0; i < l->n_pieces; i++)
        BN_TRY(add_pairs(l, i, err));
    return BN_OK;
}

static bool before(const struct pair *a, const struct pair *b)
{
    if (a->count != b->count) return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

/* Replaces left, right by id in a piece. */
static bn_status rewrite(struct bn_learner *l, uint32_t piece, uint32_t left, uint32_t right, uint32_t id,
                         bn_error *err)
{
    struct piece *p = &l->pieces[piece];
    uint32_t *s = l->symbols + p->at, n = 0;
    bool has = false;
    for (uint32_t i = 0; i + 1 < p->n && !has; i++)
        has = s[i] == left && s[i + 1] == right;
    if (!has) return BN_OK;
    for (uint32_t i = 0; i + 1 < p->n; i++)
        l->pairs[*slot_of_pair(l, s[i], s[i + 1]) - 1].count -= (int64_t)p->count;
    for (uint32_t i = 0; i < p->n; i++, n++) {
        bool both = i + 1 < p->n && s[i] == left && s[i + 1] == right;
        s[n] = both ? id : s[i];
        if (both) i++;
    }
    p->n = n;
    return add_pairs(l, piece, err);
}

static bn_status merge(struct bn_learner *l, size_t best, bn_error *err)
{
    struct pair pair = l->pairs[best];
    uint32_t id = 256 + (uint32_t)l->n_merges;
    BN_TRY(bn_array_grow(&l->merges, &l->room_merges, l->n_merges + 1, sizeof *l->merges, err));
    BN_TRY(bn_array_grow(&l->token_at, &l->room_token_at, id + 2, sizeof *l->token_at, err));
    l->merges[l->n_merges++] = (struct bn_merge){pair.left, pair.right, (uint64_t)pair.count};
    for (int side = 0; side < 2; side++) {
        uint32_t part = side == 0 ? pair.left : pair.right;
        for (uint32_t i = l->token_at[part]; i < l->token_at[part + 1]; i++)
            bn_buf_putc(&l->tokens, l->tokens.data[i]);
    }
    BN_TRY(bn_buf_check(&l->tokens, err));
    l->token_at[id + 1] = (uint32_t)l->tokens.len;
    /* The list is taken away: rewriting adds to the lists of other pairs only. */
    l->pairs[best].pieces = NULL;
    l->pairs[best].n = l->pairs[best].room = 0;
    bn_status status = BN_OK;
    for (size_t i = 0; i < pair.n && status == BN_OK; i++)
        status = rewrite(l, pair.pieces[i], pair.left, pair.right, id, err);
    bn_free(pair.pieces);
    return status;
}

bn_status bn_learner_run(struct bn_learner *l, size_t n, bn_learner_fn progress, void *user, bn_error *err)
{
    if (l->symbols == NULL) BN_TRY(begin(l, err));
    while (l->n_merges < n) {
        size_t best = 0;
        for (size_t i = 1; i < l->n_pairs; i++)
            if (before(&l->pairs[i], &l->pairs[best])) best = i;
        if (l->n_pairs == 0 || l->pairs[best].count < 2) return BN_OK;
        BN_TRY(merge(l, best, err));
        if (progress != NULL && !progress(user, l->n_merges))
            return bn_fail(err, BN_ERR_CANCELLED, "cancelled");
    }
    return BN_OK;
}

const struct bn_merge *bn_learner_merges(const struct bn_learner *l, size_t *n)
{
    *n = l->n_merges;
    return l->merges;
}

static struct bn_str token_of(const struct bn_learner *l, uint32_t id)
{
    return (struct bn_str){l->tokens.data + l->token_at[id], l->token_at[id + 1] - l->token_at[id]};
}

/* ---- the file ---- */

static void put_spelled(struct bn_gguf_writer *w, const struct bn_learner *l, uint32_t a, uint32_t b,
                        bool two)
{
    struct bn_buf spelled = {.max = 1u << 20};
    struct bn_str token = token_of(l, a);
    bn_alphabet_encode(&spelled, token.ptr, token.len);
    if (two) {
        token = token_of(l, b);
        bn_buf_putc(&spelled, ' ');
        bn_alphabet_encode(&spelled, token.ptr, token.len);
    }
    bn_gguf_put_text(&w->kv, bn_buf_text(&spelled), spelled.len);
    w->kv.failed = w->kv.failed || spelled.failed;
    bn_buf_release(&spelled);
}

static void put_vocabulary(struct bn_gguf_writer *w, const struct bn_learner *l, const char *const *specials,
                           size_t n)
{
    const uint32_t n_learned = 256 + (uint32_t)l->n_merges, n_all = n_learned + (uint32_t)n;
    const char *rule = bn_splitter_rule(l->splitter)->name;
    bn_gguf_put_str(w, "tokenizer.ggml.model", "gpt2", 4);
    bn_gguf_put_str(w, "tokenizer.ggml.pre", rule, strlen(rule));
    bn_gguf_put_array(w, "tokenizer.ggml.tokens", BN_GGUF_STRING, n_all);
    for (uint32_t i = 0; i < n_learned; i++)
        put_spelled(w, l, i, 0, false);
    for (size_t i = 0; i < n; i++)
        bn_gguf_put_text(&w->kv, specials[i], strlen(specials[i]));
    bn_gguf_put_array(w, "tokenizer.ggml.token_type", BN_GGUF_I32, n_all);
    for (uint32_t i = 0; i < n_all; i++)
        bn_gguf_put_element_i32(w, i < n_learned ? 1 : 3);
    bn_gguf_put_array(w, "tokenizer.ggml.merges", BN_GGUF_STRING, l->n_merges);
    for (size_t i = 0; i < l->n_merges; i++)
        put_spelled(w, l, l->merges[i].left, l->merges[i].right, true);
    bn_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", false);
    if (n == 0) return;
    bn_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", n_learned);
    bn_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", n_learned);
}

bn_status bn_learner_gguf(struct bn_buf *out, const struct bn_learner *l, const char *name,
                          const char *const *specials, size_t n, bn_error *err)
{
    struct bn_gguf_writer w = {
        .arch = "bitnet-b1.58", .kv.max = BN_GGUF_MAX_META_BYTES, .infos.max = BN_GGUF_MAX_META_BYTES};
    const bn_hparams shape = {.n_vocab =
                                  256 + (uint32_t)(l->n_merges + n), /* readers want one: the smallest */
                              .n_ctx = 128,
                              .n_embd = 128,
                              .n_layer = 1,
                              .n_ff = 128,
                              .head_dim = 64,
                              .n_head = 2,
                              .n_head_kv = 2,
                              .rms_eps = 1e-5f,
                              .rope_base = 10000};
    bn_gguf_put_str(&w, "general.architecture", "bitnet-b1.58", 12);
    bn_gguf_put_str(&w, "general.name", name, strlen(name));
    bn_train_put_hparams(&w, &shape, 0);
    put_vocabulary(&w, l, specials, n);
    bn_status status = bn_gguf_write_head(&w, out, err);
    bn_gguf_writer_release(&w);
    return status;
}
