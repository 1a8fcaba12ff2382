/* SPDX-License-Identifier: MIT
 *
 * tokenize_jsonl VOCABULARY <TEXTS >IDS: one JSON string a line in, one JSON array of ids a line out. The
 * vocabulary is a GGUF file or a LLaMA 3 rank file. No begin-of-sequence token, no special tokens. Used by
 * ci/compare-tokenizers.sh.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "model/tokenizer.h"

static void die(const char *what, const bn_error *err)
{
    fprintf(stderr, "tokenize_jsonl: %s: %s %s\n", what, err->where, err->msg);
    exit(1);
}

static bn_tokenizer *open_vocabulary(const char *path)
{
    bn_error err = {0};
    struct bn_file_map map;
    struct bn_gguf gguf;
    bn_tokenizer *tok = NULL;
    struct bn_str arch = {"", 0};
    char name[64];
    if (bn_file_map_open(&map, path, false, &err) != BN_OK) die(path, &err);
    const void *bytes = map.data;
    size_t n = map.n_bytes;
    if (n < 4 || memcmp(bytes, "GGUF", 4) != 0) {
        static struct bn_buf file = {.max = BN_GGUF_MAX_META_BYTES};
        struct bn_gguf_writer w = {.kv.max = BN_GGUF_MAX_META_BYTES, .infos.max = 16};
        struct bn_rank_vocab ranks;
        if (bn_rank_vocab_read(&ranks, bytes, n, &err) != BN_OK) die(path, &err);
        bn_rank_vocab_put_llama3(&w, &ranks);
        if (bn_gguf_write_head(&w, &file, &err) != BN_OK) die(path, &err);
        bn_gguf_writer_release(&w);
        bn_rank_vocab_release(&ranks);
        bytes = file.data;
        n = file.len;
    }
    if (bn_gguf_open(&gguf, bytes, n, &err) != BN_OK) die(path, &err);
    if (bn_gguf_str(&gguf, "general.architecture", &arch, &err) == BN_ERR_FORMAT) die(path, &err);
    snprintf(name, sizeof name, "%.*s", (int)bn_min_size(arch.len, 63), arch.ptr);
    if (bn_tokenizer_open(&tok, &gguf, name, &err) != BN_OK) die(path, &err);
    return tok;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: tokenize_jsonl VOCABULARY <TEXTS >IDS\n");
        return 2;
    }
    const bn_tokenizer *tok = open_vocabulary(argv[1]);
    struct bn_buf in = {.max = 256u << 20};
    bn_error err = {0};
    if (bn_file_read("-", &in, &err) != BN_OK) die("standard input", &err);
    for (const char *line = in.data, *end; line != NULL && *line != '\0'; line = end + 1) {
        bn_json *json;
        const char *text = NULL;
        int32_t *ids;
        size_t n_ids;
        end = strchr(line, '\n');
        if (end == NULL) break;
        if (bn_json_parse(&json, line, (size_t)(end - line), &err) != BN_OK) die(line, &err);
        if (!bn_json_string(json, &text)) die("no string", &err);
        if (bn_tokenize(tok, text, strlen(text), 0, &ids, &n_ids, &err) != BN_OK) die(text, &err);
        putchar('[');
        for (size_t i = 0; i < n_ids; i++)
            printf("%s%ld", i > 0 ? "," : "", (long)ids[i]);
        puts("]");
        bn_free(ids);
        bn_json_free(json);
    }
    return 0;
}
