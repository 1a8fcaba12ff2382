/* SPDX-License-Identifier: MIT
 *
 * Making a tokenizer from the keys tokenizer.ggml.* of a GGUF file, and properties of tokens.
 *
 * What the file may do and what not:
 * - scores and token_type are as long as tokens; element types are exact; ids of special tokens lie inside.
 * - Equal tokens are allowed, encoding gives the lowest id; empty ones are allowed and never come from text.
 * - Byte tokens are spelled "<0xNN>" exactly. An SPM token spelled so is a byte token also when its type says
 *   normal.
 * - A token spelled "<|name|>" is a control token even when its type says otherwise: converters get that
 *   wrong, and text must not be able to speak for the template.
 * - The tags of thoughts and functions, such as <think>, are user-defined tokens even when their type says
 *   control: they are part of an answer's text.
 * - Merges name tokens of the vocabulary.
 */
#include "base/digest.h"
#include "base/error.h"
#include "tokenizer/vocab.h"

#define KEY "tokenizer.ggml."

/* ---- bytes and types ---- */

static uint64_t file_offset(const struct bn_gguf_kv *kv, const unsigned char *at)
{
    return kv->offset + 8 + (uint64_t)(at - (const unsigned char *)kv->key.ptr);
}

/* "<|name|>" with letters, digits and underscores between. */
static bool looks_like_control(struct bn_str text)
{
    if (text.len < 5 || text.ptr[0] != '<' || text.ptr[1] != '|' ||
        memcmp(text.ptr + text.len - 2, "|>", 2) != 0)
        return false;
    for (size_t i = 2; i < text.len - 2; i++) {
        char c = text.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'))
            return false;
    }
    return true;
}

static uint32_t stored_type(const struct bn_tokenizer *tok, const struct bn_gguf_kv *types, uint32_t id)
{
    uint32_t type = BN_TOKEN_NORMAL;
    if (types != NULL) memcpy(&type, types->value + 4 * (size_t)id, sizeof type);
    if (types == NULL && (int32_t)id == tok->unk) type = BN_TOKEN_UNKNOWN;
    if (types == NULL && ((int32_t)id == tok->bos || (int32_t)id == tok->eos)) type = BN_TOKEN_CONTROL;
    return type == 0 ? BN_TOKEN_NORMAL : type; /* 0 is "undefined" */
}

bool bn_vocab_is_tag(struct bn_str text)
{
    static const char *const TAGS[] = {"<think>",         "</think>",         "<tool_call>", "</tool_call>",
                                       "<tool_response>", "</tool_response>", "<tools>",     "</tools>"};
    for (size_t i = 0; i < BN_ARRAY_LEN(TAGS); i++)
        if (bn_str_equal(text, TAGS[i])) return true;
    return false;
}

/* Sets the type of a token and writes its bytes to out; returns how many. */
static size_t read_token(struct bn_tokenizer *tok, uint32_t id, uint32_t type, struct bn_str text, char *out)
{
    size_t n = text.len;
    bool maybe_byte = type == BN_TOKEN_BYTE || (tok->kind == BN_VOCAB_SPM && type == BN_TOKEN_NORMAL);
    int byte = maybe_byte ? bn_spm_byte(text) : -1;
    if (byte >= 0) {
        tok->type[id] = BN_TOKEN_BYTE;
        if (tok->byte_id[byte] < 0) tok->byte_id[byte] = (int32_t)id;
        out[0] = (char)byte;
        return 1;
    }
    if (type != BN_TOKEN_UNKNOWN && looks_like_control(text)) type = BN_TOKEN_CONTROL;
    if (type == BN_TOKEN_CONTROL && bn_vocab_is_tag(text)) type = BN_TOKEN_USER;
    bool hidden = bn_type_is_hidden((uint8_t)type);
    if (tok->kind == BN_VOCAB_SPM && !hidden) {
        bn_spm_decode(text.ptr, text.len, out, &n);
    } else if (hidden || type == BN_TOKEN_USER || !bn_alphabet_decode(text.ptr, text.len, out, &n)) {
        /* An ordinary token outside the alphabet is itself, and no text becomes it. */
        if (type == BN_TOKEN_NORMAL) type = BN_TOKEN_UNUSED;
        n = text.len;
        if (n > 0) memcpy(out, text.ptr, n);
    }
    tok->type[id] = (uint8_t)type;
    return n;
}

static bn_status read_tokens(struct bn_tokenizer *tok, const struct bn_gguf_kv *tokens,
                             const struct bn_gguf_kv *types, bn_error *err)
{
    const unsigned char *cursor = tokens->value;
    for (size_t i = 0; i < tok->n_vocab; i++)
        bn_gguf_next_str(&cursor);
    /* Decoding never lengthens a text, and a file's keys have fewer than 2^32 bytes. */
    tok->bytes = bn_alloc((size_t)(cursor - tokens->value), 1);
    if (tok->bytes == NULL) return bn_nomem(err);
    uint32_t used = 0;
    cursor = tokens->value;
    for (uint32_t id = 0; id < tok->n_vocab; id++) {
        const unsigned char *at = cursor;
        struct bn_str text = bn_gguf_next_str(&cursor);
        uint32_t type = stored_type(tok, types, id);
        if (type > BN_TOKEN_BYTE)
            return bn_fail_at(err, BN_ERR_FORMAT, file_offset(types, types->value + 4 * (size_t)id),
                              "key 'tokenizer.ggml.token_type'", "element %u is %u, no type of a token", id,
                              type);
        if (type == BN_TOKEN_BYTE && bn_spm_byte(text) < 0) {
            char quoted[48];
            return bn_fail_at(err, BN_ERR_FORMAT, file_offset(tokens, at), "key 'tokenizer.ggml.tokens'",
                              "element %u is a byte token but not spelled <0xNN>: '%s'", id,
                              bn_escape(quoted, sizeof quoted, text.ptr, text.len));
        }
        tok->bytes_at[id] = used;
        used += (uint32_t)read_token(tok, id, type, text, tok->bytes + used);
    }
    tok->bytes_at[tok->n_vocab] = used;
    return BN_OK;
}

/* ---- keys ---- */

/* An id inside the vocabulary; *id stays when the key is absent. */
static bn_status read_id(const struct bn_tokenizer *tok, const struct bn_gguf *gguf, const char *key,
                         int32_t *id, bn_error *err)
{
    uint32_t value = 0;
    bn_status status = bn_gguf_u32(gguf, key, &value, err);
    if (status != BN_OK) return bn_gguf_optional(status);
    if (value >= tok->n_vocab) {
        char where[BN_GGUF_NAMED_BYTES];
        const struct bn_gguf_kv *kv = bn_gguf_find(gguf, key);
        return bn_fail_at(err, BN_ERR_FORMAT, kv->offset, bn_gguf_named(where, "key", kv->key),
                          "the id %u is outside the vocabulary of %zu tokens", value, tok->n_vocab);
    }
    *id = (int32_t)value;
    return BN_OK;
}

static void add_end(struct bn_tokenizer *tok, int32_t id)
{
    if (id < 0 || tok->n_end_ids == BN_MAX_END_IDS || bn_token_is_end(tok, id)) return;
    tok->end_ids[tok->n_end_ids++] = id;
}

static bn_status read_ids(struct bn_tokenizer *tok, const struct bn_gguf *gguf, bn_error *err)
{
    static const char *const OTHERS[] = {
        KEY "seperator_token_id", /* spelled so in GGUF */
        KEY "separator_token_id", KEY "padding_token_id", KEY "cls_token_id",     KEY "mask_token_id",
        KEY "fim_pre_token_id",   KEY "fim_suf_token_id", KEY "fim_mid_token_id", KEY "prefix_token_id",
        KEY "suffix_token_id",    KEY "middle_token_id",
    };
    int32_t eot = -1, eom = -1, unused = -1;
    tok->bos = tok->eos = tok->unk = -1;
    BN_TRY(read_id(tok, gguf, KEY "bos_token_id", &tok->bos, err));
    BN_TRY(read_id(tok, gguf, KEY "eos_token_id", &tok->eos, err));
    BN_TRY(read_id(tok, gguf, KEY "unknown_token_id", &tok->unk, err));
    BN_TRY(read_id(tok, gguf, KEY "eot_token_id", &eot, err));
    BN_TRY(read_id(tok, gguf, KEY "eom_token_id", &eom, err));
    for (size_t i = 0; i < BN_ARRAY_LEN(OTHERS); i++)
        BN_TRY(read_id(tok, gguf, OTHERS[i], &unused, err));
    add_end(tok, tok->eos);
    add_end(tok, eot);
    add_end(tok, eom);
    return BN_OK;
}

static bn_status read_flags(struct bn_tokenizer *tok, const struct bn_gguf *gguf, bn_error *err)
{
    bool spm = tok->kind == BN_VOCAB_SPM;
    tok->add_bos = spm || bn_splitter_rule(tok->splitter)->add_bos;
    tok->add_space_prefix = spm;
    BN_TRY(bn_gguf_optional(bn_gguf_bool(gguf, KEY "add_bos_token", &tok->add_bos, err)));
    BN_TRY(bn_gguf_optional(bn_gguf_bool(gguf, KEY "add_eos_token", &tok->add_eos, err)));
    if (spm)
        BN_TRY(bn_gguf_optional(bn_gguf_bool(gguf, KEY "add_space_prefix", &tok->add_space_prefix, err)));
    return BN_OK;
}

static bool is_bitnet(const char *arch)
{
    return strcmp(arch, "bitnet-b1.58") == 0 || strcmp(arch, "bitnet-25") == 0 || strcmp(arch, "bitnet") == 0;
}

/* tokenizer.ggml.pre. Absent or "default", the converter did not know: then it is llama-bpe for the BitNet
 * architectures, whose published files lack the key, and gpt-2 for the others. */
static bn_status read_pre(struct bn_tokenizer *tok, const struct bn_gguf *gguf, const char *arch,
                          bn_error *err)
{
    struct bn_str name = {"default", 7};
    BN_TRY(bn_gguf_optional(bn_gguf_str(gguf, KEY "pre", &name, err)));
    if (bn_str_equal(name, "default") && is_bitnet(arch)) name = (struct bn_str){"llama-bpe", 9};
    const struct bn_split_rule *rule = bn_split_rule_find(name);
    if (rule == NULL) {
        char quoted[48];
        return bn_hint(bn_fail_at(err, BN_ERR_UNSUPPORTED, bn_gguf_find(gguf, KEY "pre")->offset,
                                  "key 'tokenizer.ggml.pre'", "unknown splitting rule '%s'",
                                  bn_escape(quoted, sizeof quoted, name.ptr, name.len)),
                       err,
                       "known are llama-bpe (llama3, falcon3, falcon-h1), qwen2, qwen35, minicpm5, "
                       "falcon_e and gpt-2 (olmo, default)");
    }
    tok->ignore_merges = rule->ignore_merges;
    return bn_splitter_open(&tok->splitter, rule, true, err);
}

/* An array as long as the vocabulary; *out is NULL when it is absent. */
static bn_status read_parallel(const struct bn_tokenizer *tok, const struct bn_gguf *gguf, const char *key,
                               enum bn_gguf_type element, const struct bn_gguf_kv **out, bn_error *err)
{
    *out = NULL;
    BN_TRY(bn_gguf_optional(bn_gguf_array(gguf, key, element, out, err)));
    if (*out == NULL || (*out)->n == tok->n_vocab) return BN_OK;
    return bn_fail_at(err, BN_ERR_FORMAT, (*out)->offset, key, "%llu elements for %zu tokens",
                      (unsigned long long)(*out)->n, tok->n_vocab);
}

static bn_status absent(bn_status status, const char *key, bn_error *err)
{
    if (status != BN_ERR_NOT_FOUND) return status;
    return bn_fail(err, BN_ERR_FORMAT, "the vocabulary has no key '%s'", key);
}

static void find_ends(struct bn_tokenizer *tok)
{
    static const char *const TEXTS[] = {"<|eot_id|>", "<|im_end|>", "<|end_of_text|>", "<|endoftext|>",
                                        "<|end|>",    "<|eom_id|>", "<end_of_turn>",   "</s>"};
    for (size_t i = 0; i < BN_ARRAY_LEN(TEXTS); i++) {
        int32_t id = bn_vocab_find_special(tok, TEXTS[i], strlen(TEXTS[i]));
        if (id >= 0 && tok->type[id] == BN_TOKEN_CONTROL) add_end(tok, id);
    }
}

/* ---- opening ---- */

static bn_status open_kind(struct bn_tokenizer *tok, const struct bn_gguf *gguf, bn_error *err)
{
    const struct bn_gguf_kv *scores, *merges = NULL;
    BN_TRY(read_parallel(tok, gguf, KEY "scores", BN_GGUF_F32, &scores, err));
    if (tok->kind == BN_VOCAB_SPM)
        return scores != NULL ? bn_spm_open(tok, scores, err) : absent(BN_ERR_NOT_FOUND, KEY "scores", err);
    BN_TRY(absent(bn_gguf_array(gguf, KEY "merges", BN_GGUF_STRING, &merges, err), KEY "merges", err));
    return bn_bpe_open(tok, merges, err);
}

static bn_status build(struct bn_tokenizer *tok, const struct bn_gguf *gguf, const struct bn_gguf_kv *tokens,
                       const char *arch, bn_error *err)
{
    const struct bn_gguf_kv *types;
    struct bn_str chat = {"", 0};
    if (tokens->n == 0 || tokens->n > BN_MAX_VOCAB)
        return bn_fail_at(err, tokens->n == 0 ? BN_ERR_FORMAT : BN_ERR_LIMIT, tokens->offset,
                          "key 'tokenizer.ggml.tokens'", "%llu tokens, from 1 to %u are allowed",
                          (unsigned long long)tokens->n, BN_MAX_VOCAB);
    tok->n_vocab = (size_t)tokens->n;
    memset(tok->byte_id, 0xFF, sizeof tok->byte_id);
    BN_TRY(BN_NEW(tok->bytes_at, tok->n_vocab + 1, err));
    BN_TRY(BN_NEW(tok->type, tok->n_vocab, err));
    BN_TRY(read_parallel(tok, gguf, KEY "token_type", BN_GGUF_I32, &types, err));
    BN_TRY(read_ids(tok, gguf, err));
    if (tok->kind == BN_VOCAB_GPT2) BN_TRY(read_pre(tok, gguf, arch, err));
    BN_TRY(read_flags(tok, gguf, err));
    BN_TRY(read_tokens(tok, tokens, types, err));
    BN_TRY(bn_vocab_index(tok, err));
    BN_TRY(bn_vocab_index_special(tok, err));
    BN_TRY(open_kind(tok, gguf, err));
    find_ends(tok);
    BN_TRY(bn_gguf_optional(bn_gguf_str(gguf, "tokenizer.chat_template", &chat, err)));
    tok->chat = bn_chat_recognise(tok, arch, chat);
    return BN_OK;
}

bn_status bn_tokenizer_open(bn_tokenizer **out, const struct bn_gguf *gguf, const char *arch, bn_error *err)
{
    struct bn_str model;
    const struct bn_gguf_kv *tokens;
    *out = NULL;
    BN_TRY(bn_gguf_str(gguf, KEY "model", &model, err));
    if (bn_str_equal(model, "none") || bn_str_equal(model, "no_vocab")) return BN_ERR_NOT_FOUND;
    BN_TRY(bn_gguf_array(gguf, KEY "tokens", BN_GGUF_STRING, &tokens, err));
    if (!bn_str_equal(model, "gpt2") && !bn_str_equal(model, "llama")) {
        char quoted[48];
        return bn_hint(bn_fail_at(err, BN_ERR_UNSUPPORTED, bn_gguf_find(gguf, KEY "model")->offset,
                                  "key 'tokenizer.ggml.model'", "unknown kind of vocabulary '%s'",
                                  bn_escape(quoted, sizeof quoted, model.ptr, model.len)),
                       err, "known are gpt2 (byte-level BPE) and llama (SentencePiece BPE)");
    }
    struct bn_tokenizer *tok = bn_alloc(1, sizeof *tok);
    if (tok == NULL) return bn_nomem(err);
    tok->kind = bn_str_equal(model, "gpt2") ? BN_VOCAB_GPT2 : BN_VOCAB_SPM;
    tok->trie = bn_alloc(1, sizeof *tok->trie);
    bn_status status =
        tok->trie != NULL ? build(tok, gguf, tokens, arch != NULL ? arch : "", err) : bn_nomem(err);
    if (status != BN_OK) {
        bn_tokenizer_close(tok);
        return status;
    }
    *out = tok;
    return BN_OK;
}

void bn_tokenizer_close(bn_tokenizer *tok)
{
    if (tok == NULL) return;
    bn_splitter_close(tok->splitter);
    bn_free(tok->bytes);
    bn_free(tok->bytes_at);
    bn_free(tok->type);
    bn_free(tok->score_rank);
    bn_free(tok->slots);
    bn_free(tok->merges);
    bn_free(tok->special);
    if (tok->trie != NULL) bn_trie_close(atomic_load(tok->trie));
    bn_free(tok->trie);
    bn_free(tok);
}

/* ---- properties of tokens ---- */

size_t bn_tokenizer_n_vocab(const bn_tokenizer *tok)
{
    return tok != NULL ? tok->n_vocab : 0;
}

int32_t bn_tokenizer_bos(const bn_tokenizer *tok)
{
    return tok != NULL ? tok->bos : -1;
}

int32_t bn_tokenizer_eos(const bn_tokenizer *tok)
{
    return tok != NULL ? tok->eos : -1;
}

bool bn_token_is_control(const bn_tokenizer *tok, int32_t id)
{
    return tok != NULL && id >= 0 && (size_t)id < tok->n_vocab && bn_type_is_hidden(tok->type[id]);
}

bool bn_token_is_end(const bn_tokenizer *tok, int32_t id)
{
    for (size_t i = 0; tok != NULL && i < tok->n_end_ids; i++)
        if (tok->end_ids[i] == id) return true;
    return false;
}

int32_t bn_token_find(const bn_tokenizer *tok, const char *bytes, size_t n_bytes)
{
    if (tok == NULL || n_bytes == 0) return -1;
    int32_t id = bn_vocab_find_special(tok, bytes, n_bytes);
    if (id < 0) id = bn_vocab_find(tok, bytes, n_bytes);
    return id < 0 && n_bytes == 1 ? tok->byte_id[(unsigned char)bytes[0]] : id;
}

/* ---- digest ---- */

/* Numbers are u32 little endian, texts their length and bytes. */
static void digest_u32(struct bn_sha256 *d, uint32_t x)
{
    bn_sha256_update(d, &x, sizeof x); /* every target is little endian */
}

static void digest_text(struct bn_sha256 *d, const char *text, size_t n)
{
    digest_u32(d, (uint32_t)n);
    bn_sha256_update(d, text, n);
}

static void digest_head(struct bn_sha256 *d, const struct bn_tokenizer *tok)
{
    const char *rule = tok->splitter != NULL ? bn_splitter_rule(tok->splitter)->name : "";
    digest_text(d, "bn.tokenizer/1", 14);
    digest_u32(d, tok->kind);
    digest_text(d, rule, strlen(rule));
    digest_u32(d,
               (uint32_t)tok->add_bos | (uint32_t)tok->add_eos << 1 | (uint32_t)tok->add_space_prefix << 2);
    digest_u32(d, (uint32_t)tok->bos);
    digest_u32(d, (uint32_t)tok->eos);
    digest_u32(d, (uint32_t)tok->unk);
    digest_u32(d, (uint32_t)tok->n_end_ids);
    for (size_t i = 0; i < tok->n_end_ids; i++)
        digest_u32(d, (uint32_t)tok->end_ids[i]);
}

/* In the order of ranks; those that the table left out are all ones. */
static bn_status digest_merges(struct bn_sha256 *d, const struct bn_tokenizer *tok, bn_error *err)
{
    uint32_t(*by_rank)[3] = bn_alloc(tok->n_merges, sizeof *by_rank);
    if (by_rank == NULL) return bn_nomem(err);
    if (tok->n_merges > 0) memset(by_rank, 0xFF, tok->n_merges * sizeof *by_rank);
    for (size_t i = 0; i <= UINT32_MAX >> (tok->merge_shift - 32); i++) {
        const struct bn_merge_slot *slot = &tok->merges[i];
        if (slot->left1 == 0) continue;
        by_rank[slot->rank][0] = slot->left1 - 1;
        by_rank[slot->rank][1] = slot->right;
        by_rank[slot->rank][2] = slot->id;
    }
    bn_sha256_update(d, by_rank, tok->n_merges * sizeof *by_rank);
    bn_free(by_rank);
    return BN_OK;
}

bn_status bn_tokenizer_digest(const bn_tokenizer *tok, char hex[65], bn_error *err)
{
    struct bn_sha256 d;
    bn_sha256_begin(&d);
    digest_head(&d, tok);
    digest_u32(&d, (uint32_t)tok->n_vocab);
    for (uint32_t id = 0; id < tok->n_vocab; id++) {
        struct bn_str bytes = bn_vocab_bytes(tok, id);
        digest_u32(&d, tok->type[id]);
        digest_u32(&d, tok->score_rank != NULL ? tok->score_rank[id] : 0);
        digest_text(&d, bytes.ptr, bytes.len);
    }
    bn_status status = BN_OK;
    if (tok->kind == BN_VOCAB_GPT2) status = digest_merges(&d, tok, err);
    bn_sha256_take_hex(&d, hex);
    return status;
}
