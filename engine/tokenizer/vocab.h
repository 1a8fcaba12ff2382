/* SPDX-License-Identifier: MIT
 *
 * The vocabulary in memory, shared by the files that make up the tokenizer: tokenizer.c builds it from keys,
 * bpe.c holds what differs between the two kinds, merge.c merges symbols, encode.c turns text into
 * ids, decode.c turns ids into text. Nobody else includes this header.
 *
 * Everything is kept in the domain of raw bytes: the GPT-2 alphabet and SentencePiece's U+2581 are undone
 * while the vocabulary is read, so that text is looked up as it is. Immutable after opening.
 */
#ifndef BN_MODEL_VOCAB_H
#define BN_MODEL_VOCAB_H

#include <stdatomic.h>

#include "base/buf.h"
#include "bn.h"
#include "tokenizer/tokenizer.h"

#define BN_MAX_VOCAB (1u << 20)
#define BN_MAX_TEXT_BYTES ((size_t)1 << 30) /* of one call to bn_tokenize */
#define BN_MAX_SPECIAL_BYTES 256u           /* longer special tokens are not recognised in text */
#define BN_MAX_PROBE 1024u                  /* a vocabulary that needs more was made to be slow */
#define BN_MAX_END_IDS 16u
#define BN_NO_RANK UINT32_MAX

enum bn_vocab_kind { BN_VOCAB_GPT2, BN_VOCAB_SPM };

/* The numbers of tokenizer.ggml.token_type. */
enum bn_token_type {
    BN_TOKEN_NORMAL = 1,
    BN_TOKEN_UNKNOWN = 2,
    BN_TOKEN_CONTROL = 3,
    BN_TOKEN_USER = 4,
    BN_TOKEN_UNUSED = 5,
    BN_TOKEN_BYTE = 6
};

/* Zeroed slots are empty: ids are stored with one added. */
struct bn_token_slot {
    uint32_t tag; /* high half of the hash */
    uint32_t id1;
};
struct bn_merge_slot {
    uint32_t left1, right;
    uint32_t rank, id;
};

/* The merge of two neighbouring symbols; lower ranks come first. */
struct bn_merge_pair {
    uint32_t rank; /* BN_NO_RANK: they do not merge */
    int32_t id;
};

struct bn_tokenizer {
    enum bn_vocab_kind kind;
    struct bn_splitter *splitter; /* NULL for SPM */
    bool ignore_merges;           /* a piece that is a token is taken whole */
    bool add_bos, add_eos;
    bool add_space_prefix; /* SPM: a space is put before text at the start and after control tokens */
    bool words_split;      /* SPM: no token has a space after a non-space, so words are independent */
    int32_t bos, eos, unk; /* -1: none */
    int32_t end_ids[BN_MAX_END_IDS];
    size_t n_end_ids;
    bn_template chat; /* what BN_TEMPLATE_AUTO means */

    size_t n_vocab, n_merges;
    char *bytes; /* decoded; token id is bytes[bytes_at[id]] .. bytes[bytes_at[id + 1]] */
    uint32_t *bytes_at;
    size_t max_token_bytes; /* of tokens in the table below */
    bool has_duplicates;    /* in the table below */
    uint8_t *type;          /* enum bn_token_type */
    uint32_t *score_rank;   /* SPM: scores as ranks, highest score first; NULL for GPT-2 */
    int32_t byte_id[256];   /* the token of a single byte, -1 */

    struct bn_token_slot
        *slots; /* by bytes: ordinary tokens, lowest id of equals; GPT-2: then user-defined ones */
    uint32_t slot_shift, slot_probe;
    struct bn_merge_slot *merges; /* by (left, right); lowest rank of equals */
    uint32_t merge_shift, merge_probe;

    uint32_t *special; /* ids of control, unknown and user-defined tokens, sorted by bytes, then id */
    size_t n_special;
    uint32_t special_from[257]; /* first index of those that start with this byte or a greater one */
    bool user_first[256];       /* some user-defined one starts with this byte */

    struct bn_trie *_Atomic *trie; /* made when it is asked for: the one thing that changes */
};

/* ---- lookup ---- */

static inline uint64_t bn_load_tail(const char *p, size_t n)
{
    uint64_t x = 0;
    memcpy(&x, p, n);
    return x;
}

static inline uint64_t bn_hash_mix(uint64_t h)
{
    h *= 0x9E3779B97F4A7C15u;
    return h ^ (h >> 32);
}

/* The same on one machine only, which is enough: no order that is visible outside depends on it. */
static inline uint64_t bn_hash_bytes(const char *p, size_t n)
{
    uint64_t h = n;
    for (; n > 8; n -= 8, p += 8)
        h = bn_hash_mix(h ^ bn_load_tail(p, 8));
    return bn_hash_mix(bn_hash_mix(h ^ bn_load_tail(p, n)) + n);
}

static inline struct bn_str bn_vocab_bytes(const struct bn_tokenizer *tok, uint32_t id)
{
    return (struct bn_str){tok->bytes + tok->bytes_at[id], tok->bytes_at[id + 1] - tok->bytes_at[id]};
}

/* The ordinary token with these bytes, -1 when there is none. */
int32_t bn_vocab_find(const struct bn_tokenizer *tok, const char *bytes, size_t n);
/* The same in two steps, for callers with several lookups: hash and prefetch, then look up. */
uint64_t bn_vocab_prefetch(const struct bn_tokenizer *tok, const char *bytes, size_t n);
int32_t bn_vocab_find_hashed(const struct bn_tokenizer *tok, const char *bytes, size_t n, uint64_t hash);
/* The special token with exactly these bytes, -1 when there is none. */
int32_t bn_vocab_find_special(const struct bn_tokenizer *tok, const char *bytes, size_t n);
/* The longest special token (or user-defined one) that text starts with, -1 when there is none. */
int32_t bn_vocab_match_special(const struct bn_tokenizer *tok, const char *text, size_t n, bool user_only,
                               size_t *n_matched);
/* Builds the tables for these from tok->bytes and tok->type. */
BN_MUST_CHECK bn_status bn_vocab_index(struct bn_tokenizer *tok, bn_error *err);
BN_MUST_CHECK bn_status bn_vocab_index_special(struct bn_tokenizer *tok, bn_error *err);
/* Sorts tokens by their bytes, then by their ids. */
void bn_vocab_sort(const struct bn_tokenizer *tok, uint32_t *ids, size_t n);
static inline bool bn_type_is_hidden(uint8_t type)
{
    return type == BN_TOKEN_CONTROL || type == BN_TOKEN_UNKNOWN;
}

/* ---- what differs between the kinds ---- */

/* Decodes the GPT-2 alphabet into out (room for n bytes); false when text has other characters, and *n_out is then undefined.
 */
bool bn_alphabet_decode(const char *text, size_t n, char *out, size_t *n_out);

/* Builds tok->merges from tokenizer.ggml.merges. */
BN_MUST_CHECK bn_status bn_bpe_open(struct bn_tokenizer *tok, const struct bn_gguf_kv *merges, bn_error *err);
struct bn_merge_pair bn_bpe_pair(const struct bn_tokenizer *tok, int32_t left, int32_t right);

/* Decodes U+2581 to a space, in place of bn_alphabet_decode; always works. */
void bn_spm_decode(const char *text, size_t n, char *out, size_t *n_out);
/* Whether a text is one of the tags that mark thoughts, calls of functions and their results. */
bool bn_vocab_is_tag(struct bn_str text);
/* The value of "<0xNN>", -1 for anything else. */
int bn_spm_byte(struct bn_str text);
/* Scores to ranks, and what follows from the whole vocabulary. */
BN_MUST_CHECK bn_status bn_spm_open(struct bn_tokenizer *tok, const struct bn_gguf_kv *scores, bn_error *err);
struct bn_merge_pair bn_spm_pair(const struct bn_tokenizer *tok, const char *bytes, size_t n);

/* What BN_TEMPLATE_AUTO means, from the file's architecture, its template's text (recognised, never run) and
 * the vocabulary. */
bn_template bn_chat_recognise(const struct bn_tokenizer *tok, const char *arch, struct bn_str chat_template);

/* ---- ids ---- */

struct bn_ids {
    int32_t *data;
    size_t n, room;
};
BN_MUST_CHECK bn_status bn_ids_push(struct bn_ids *ids, int32_t id, bn_error *err);

/* ---- merging ---- */

/* Work done, for tests that compare it with the length of the text. */
struct bn_encode_stats {
    uint64_t n_pieces;
    uint64_t n_lookups;    /* of pairs */
    uint64_t n_heap_moves; /* entries moved while sifting */
};

struct bn_merge_symbol {
    uint32_t start;            /* byte offset in the piece */
    int32_t id;                /* -1: no token (SPM: falls back to bytes) */
    struct bn_merge_pair pair; /* with the next symbol; BN_NO_RANK for the last and for dead ones */
    uint32_t prev, next;
};

/* Scratch of one call, grown as needed. */
struct bn_merger {
    const struct bn_tokenizer *tok;
    const char *text;
    uint32_t n_bytes, n_symbols;
    struct bn_merge_symbol *symbols;
    size_t symbols_room;
    uint64_t *heap; /* rank << 32 | symbol: smallest first means best rank, then leftmost */
    size_t n_heap, heap_room;
    struct bn_encode_stats stats;
};

/* Merges the symbols of a piece as far as they go and appends the ids. */
BN_MUST_CHECK bn_status bn_merge_piece(struct bn_merger *m, const char *text, size_t n, struct bn_ids *ids,
                                       bn_error *err);
void bn_merger_release(struct bn_merger *m);

/* ---- encoding ---- */

#define BN_ENCODE_MESSAGE 256u /* tags of thoughts and functions stay text */
/* Appends the ids of text; flags may hold BN_TOKENIZE_SPECIAL or BN_ENCODE_MESSAGE. stats may be NULL. */
BN_MUST_CHECK bn_status bn_encode(const struct bn_tokenizer *tok, const char *text, size_t n, unsigned flags,
                                  struct bn_ids *ids, struct bn_encode_stats *stats, bn_error *err);

/* ---- the tree of tokens ---- */

/* The tokens of a vocabulary as a tree of bytes, in the order of a walk that visits parents before children. A token
 * that is not text is not in it: control tokens, tokens without bytes, and those of more than BN_TRIE_MAX_DEPTH bytes.
 */

#define BN_TRIE_MAX_DEPTH 256u

struct bn_trie_node {
    uint32_t skip; /* the first node after this one and all that begin with it */
    int32_t token; /* that ends here; -1: none */
    uint16_t depth;
    uint8_t byte;
};

struct bn_trie {
    struct bn_trie_node *nodes;
    size_t n_nodes;
    uint32_t depth; /* bytes of the longest token */
};

/* Made by the first call; it lives as long as the tokenizer. Any number of threads may call this. */
BN_MUST_CHECK bn_status bn_tokenizer_trie(const bn_tokenizer *tok, const struct bn_trie **out, bn_error *err);
/* Whether a token is in it: it is text of a length that is allowed. */
bool bn_trie_has(const bn_tokenizer *tok, int32_t id);
/* For bn_tokenizer_close. */
void bn_trie_close(struct bn_trie *trie);

/* ---- splitting ---- */

/* Splitting text into the pieces that byte-pair merging may not cross, by the regular expression that the
 * vocabulary was trained with.
 *
 * Any bytes can be split: the expression runs over the stretches that are valid UTF-8, and each byte between
 * them is a piece of its own. Pieces cover the text without gaps. Time is linear in the text: the expressions
 * hold no repeat that looks far ahead and then gives up most of what it saw. */

struct bn_split_rule {
    const char *name;
    const char *aliases; /* each with a space on both sides */
    const char *pattern;
    bool ignore_merges; /* a piece that is a token is taken whole */
    bool add_bos;       /* where tokenizer.ggml.add_bos_token is absent */
};

/* The rule of a value of tokenizer.ggml.pre, NULL when it is unknown. */
const struct bn_split_rule *bn_split_rule_find(struct bn_str name);

/* A rule ready for use; threads may share it. compile asks for machine code, which is optional: without it,
 * or where the system forbids it, the expression is interpreted with the same result. */
struct bn_splitter;
BN_MUST_CHECK bn_status bn_splitter_open(struct bn_splitter **out, const struct bn_split_rule *rule,
                                         bool compile, bn_error *err);
void bn_splitter_close(struct bn_splitter *splitter);
const struct bn_split_rule *bn_splitter_rule(const struct bn_splitter *splitter);

/* One walk over a text: bn_split_open, bn_split_text, bn_split_next until it gives an empty piece;
 * bn_split_text again for another text; bn_split_close. */
struct bn_split {
    const struct bn_splitter *splitter;
    void *match, *context; /* pcre2's */
    const char *text;
    size_t n_bytes, at;
    size_t valid; /* the stretch of valid UTF-8 that at lies in ends here */
};

BN_MUST_CHECK bn_status bn_split_open(struct bn_split *split, const struct bn_splitter *splitter,
                                      bn_error *err);
void bn_split_text(struct bn_split *split, const char *text, size_t n);
BN_MUST_CHECK bn_status bn_split_next(struct bn_split *split, struct bn_str *piece, bn_error *err);
void bn_split_close(struct bn_split *split);

#endif
