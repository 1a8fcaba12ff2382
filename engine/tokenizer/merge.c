/* SPDX-License-Identifier: MIT
 *
 * Merging the symbols of a piece: always the pair with the best rank, the leftmost of equals, until no pair
 * is in the vocabulary. Short pieces are scanned; long ones use a heap over a linked list, n log n in all.
 *
 * The heap holds (rank, symbol) and is never searched: an entry counts only while the symbol's current pair
 * still has that rank. Each merge makes at most two new pairs, so at most 3 n entries are ever pushed.
 */
#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/vocab.h"

#define SHORT_PIECE 48u
#define NONE UINT32_MAX

bn_status bn_ids_push(struct bn_ids *ids, int32_t id, bn_error *err)
{
    BN_TRY(bn_array_grow(&ids->data, &ids->room, ids->n + 1, sizeof *ids->data, err));
    ids->data[ids->n++] = id;
    return BN_OK;
}

void bn_merger_release(struct bn_merger *m)
{
    bn_free(m->symbols);
    bn_free(m->heap);
    *m = (struct bn_merger){0};
}

/* ---- symbols ---- */

/* The pair of two neighbours, the second of which ends at end. */
static struct bn_merge_pair pair_of(struct bn_merger *m, const struct bn_merge_symbol *left,
                                    const struct bn_merge_symbol *right, uint32_t end)
{
    m->stats.n_lookups++;
    if (m->tok->kind == BN_VOCAB_GPT2) return bn_bpe_pair(m->tok, left->id, right->id);
    return bn_spm_pair(m->tok, m->text + left->start, end - left->start);
}

/* One symbol per byte, or for SPM per character; invalid UTF-8 goes byte by byte. */
static uint32_t make_symbols(const struct bn_tokenizer *tok, const char *text, uint32_t n,
                             struct bn_merge_symbol *out)
{
    uint32_t count = 0;
    if (tok->kind == BN_VOCAB_GPT2) {
        for (; count < n; count++)
            out[count] =
                (struct bn_merge_symbol){.start = count, .id = tok->byte_id[(unsigned char)text[count]]};
        return n;
    }
    for (uint32_t at = 0; at < n; count++) {
        uint32_t length = (uint32_t)bn_utf8_length(text + at, n - at);
        if (length == 0) length = 1;
        out[count] = (struct bn_merge_symbol){.start = at, .id = bn_vocab_find(tok, text + at, length)};
        at += length;
    }
    return count;
}

static bn_status put_bytes(struct bn_merger *m, uint32_t from, uint32_t to, struct bn_ids *ids, bn_error *err)
{
    for (uint32_t i = from; i < to; i++) {
        int32_t id = m->tok->byte_id[(unsigned char)m->text[i]];
        if (id < 0) id = m->tok->unk;
        if (id < 0)
            return bn_fail(err, BN_ERR_UNSUPPORTED, "the vocabulary has no token for the byte 0x%02x",
                           (unsigned)(unsigned char)m->text[i]);
        BN_TRY(bn_ids_push(ids, id, err));
    }
    return BN_OK;
}

static bn_status put_symbol(struct bn_merger *m, const struct bn_merge_symbol *symbol, uint32_t end,
                            struct bn_ids *ids, bn_error *err)
{
    return symbol->id >= 0 ? bn_ids_push(ids, symbol->id, err) : put_bytes(m, symbol->start, end, ids, err);
}

/* ---- short pieces ---- */

static uint32_t end_of(const struct bn_merger *m, const struct bn_merge_symbol *s, uint32_t i, uint32_t n)
{
    return i + 1 < n ? s[i + 1].start : m->n_bytes;
}

static void scan_pair(struct bn_merger *m, struct bn_merge_symbol *s, uint32_t i, uint32_t n)
{
    s[i].pair.rank = BN_NO_RANK;
    if (i + 1 < n) s[i].pair = pair_of(m, &s[i], &s[i + 1], end_of(m, s, i + 1, n));
}

static bn_status merge_short(struct bn_merger *m, struct bn_ids *ids, bn_error *err)
{
    struct bn_merge_symbol s[SHORT_PIECE];
    uint32_t n = make_symbols(m->tok, m->text, m->n_bytes, s);
    for (uint32_t i = 0; i < n; i++)
        scan_pair(m, s, i, n);
    for (;;) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < n; i++)
            if (s[i].pair.rank < s[best].pair.rank) best = i;
        if (s[best].pair.rank == BN_NO_RANK) break;
        s[best].id = s[best].pair.id;
        n--;
        memmove(&s[best + 1], &s[best + 2], (n - best - 1) * sizeof s[0]);
        scan_pair(m, s, best, n);
        if (best > 0) scan_pair(m, s, best - 1, n);
    }
    for (uint32_t i = 0; i < n; i++)
        BN_TRY(put_symbol(m, &s[i], end_of(m, s, i, n), ids, err));
    return BN_OK;
}

/* ---- long pieces ---- */

/* Four children per entry: half the depth of a binary heap, and children lie in one cache line. */
static void sift_down(struct bn_merger *m, size_t hole, uint64_t entry)
{
    uint64_t *heap = m->heap;
    for (;;) {
        size_t child = 4 * hole + 1, best = child;
        if (child >= m->n_heap) break;
        size_t stop = bn_min_size(child + 4, m->n_heap);
        while (++child < stop)
            if (heap[child] < heap[best]) best = child;
        if (heap[best] >= entry) break;
        heap[hole] = heap[best];
        hole = best;
        m->stats.n_heap_moves++;
    }
    heap[hole] = entry;
    m->stats.n_heap_moves++;
}

static bn_status push(struct bn_merger *m, uint32_t symbol, bn_error *err)
{
    uint32_t rank = m->symbols[symbol].pair.rank;
    if (rank == BN_NO_RANK) return BN_OK;
    BN_TRY(bn_array_grow(&m->heap, &m->heap_room, m->n_heap + 1, sizeof *m->heap, err));
    uint64_t entry = (uint64_t)rank << 32 | symbol;
    size_t hole = m->n_heap++;
    for (; hole > 0 && m->heap[(hole - 1) / 4] > entry; hole = (hole - 1) / 4) {
        m->heap[hole] = m->heap[(hole - 1) / 4];
        m->stats.n_heap_moves++;
    }
    m->heap[hole] = entry;
    m->stats.n_heap_moves++;
    return BN_OK;
}

static uint64_t pop(struct bn_merger *m)
{
    uint64_t top = m->heap[0], last = m->heap[--m->n_heap];
    if (m->n_heap > 0) sift_down(m, 0, last);
    return top;
}

/* Sets the pair of symbol i with its neighbour. */
static void link_pair(struct bn_merger *m, uint32_t i)
{
    struct bn_merge_symbol *s = m->symbols, *left = &s[i];
    left->pair.rank = BN_NO_RANK;
    if (left->next == NONE) return;
    const struct bn_merge_symbol *right = &s[left->next];
    left->pair = pair_of(m, left, right, right->next == NONE ? m->n_bytes : s[right->next].start);
}

static bn_status fill_heap(struct bn_merger *m, bn_error *err)
{
    uint32_t n = m->n_symbols;
    size_t n_pairs = 0;
    for (uint32_t i = 0; i < n; i++) {
        m->symbols[i].prev = i > 0 ? i - 1 : NONE;
        m->symbols[i].next = i + 1 < n ? i + 1 : NONE;
    }
    for (uint32_t i = 0; i < n; i++) {
        link_pair(m, i);
        n_pairs += m->symbols[i].pair.rank != BN_NO_RANK;
    }
    m->n_heap = 0;
    if (m->heap_room < n_pairs) {
        bn_free(m->heap);
        m->heap_room = 0;
        BN_TRY(BN_NEW(m->heap, n_pairs, err));
        m->heap_room = n_pairs;
    }
    for (uint32_t i = 0; i < n; i++)
        if (m->symbols[i].pair.rank != BN_NO_RANK)
            m->heap[m->n_heap++] = (uint64_t)m->symbols[i].pair.rank << 32 | i;
    for (size_t i = m->n_heap / 4 + 1; i-- > 0;)
        if (i < m->n_heap) sift_down(m, i, m->heap[i]);
    return BN_OK;
}

static bn_status merge_long(struct bn_merger *m, struct bn_ids *ids, bn_error *err)
{
    if (m->symbols_room < m->n_bytes) {
        bn_free(m->symbols);
        m->symbols_room = 0;
        BN_TRY(BN_NEW(m->symbols, m->n_bytes, err));
        m->symbols_room = m->n_bytes;
    }
    struct bn_merge_symbol *s = m->symbols;
    m->n_symbols = make_symbols(m->tok, m->text, m->n_bytes, s);
    BN_TRY(fill_heap(m, err));
    while (m->n_heap > 0) {
        uint64_t entry = pop(m);
        uint32_t i = (uint32_t)entry;
        if (s[i].pair.rank != (uint32_t)(entry >> 32)) continue; /* one of the two was merged meanwhile */
        uint32_t gone = s[i].next;
        s[i].id = s[i].pair.id;
        s[i].next = s[gone].next;
        s[gone].pair.rank = BN_NO_RANK;
        if (s[i].next != NONE) s[s[i].next].prev = i;
        link_pair(m, i);
        BN_TRY(push(m, i, err));
        if (s[i].prev != NONE) {
            link_pair(m, s[i].prev);
            BN_TRY(push(m, s[i].prev, err));
        }
    }
    for (uint32_t i = 0; i != NONE; i = s[i].next)
        BN_TRY(put_symbol(m, &s[i], s[i].next == NONE ? m->n_bytes : s[s[i].next].start, ids, err));
    return BN_OK;
}

bn_status bn_merge_piece(struct bn_merger *m, const char *text, size_t n, struct bn_ids *ids, bn_error *err)
{
    m->text = text;
    m->n_bytes = (uint32_t)n; /* at most BN_MAX_TEXT_BYTES and a prefix */
    if (n == 0) return BN_OK;
    return n <= SHORT_PIECE ? merge_short(m, ids, err) : merge_long(m, ids, err);
}
