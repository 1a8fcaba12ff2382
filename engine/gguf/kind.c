/* SPDX-License-Identifier: MIT
 *
 * Recognises files that are not GGUF files by their first bytes, for an error that says what to do.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "gguf/gguf.h"

static bool starts(const struct bn_str *c, const char *text, size_t n)
{
    return c->len >= n && memcmp(c->ptr, text, n) == 0;
}

/* True when the bytes, after white space, begin with <!doctype or <html in any case. */
static bool is_html(const struct bn_str *c)
{
    uint64_t p = starts(c, "\xEF\xBB\xBF", 3) ? 3 : 0;
    while (p < c->len && p < 256 && strchr(" \t\r\n", c->ptr[p]) != NULL && c->ptr[p] != 0)
        p++;
    static const char *const TAGS[] = {"<!doctype", "<html"};
    for (size_t t = 0; t < BN_ARRAY_LEN(TAGS); t++) {
        size_t n = strlen(TAGS[t]), i = 0;
        while (i < n && p + i < c->len && (c->ptr[p + i] | 0x20) == (TAGS[t][i] | 0x20))
            i++;
        if (i == n) return true;
    }
    return false;
}

/* The length of a JSON header in 8 bytes, then the header. */
static bool is_safetensors(const struct bn_str *c)
{
    uint64_t n = c->len > 10 ? bn_gguf_number((const unsigned char *)c->ptr, 8) : 0;
    return n >= 2 && n <= 100000000 && c->ptr[8] == '{' && (c->ptr[9] == '"' || c->ptr[9] == '}');
}

bn_status bn_gguf_fail_kind(const void *data, uint64_t n_bytes, bn_error *err)
{
    const struct bn_str text = {data, n_bytes}, *c = &text;
    static const char CONVERT[] =
        "bn reads GGUF: bn-convert makes it of safetensors; or download a GGUF file";
    static const char DOWNLOAD[] =
        "download the file itself: on Hugging Face the link has /resolve/, not /blob/";
    static const struct {
        const char *magic; /* NULL: a test of its own */
        bool (*is)(const struct bn_str *c);
        const char *what, *hint;
    } KNOWN[] = {
        {"version https://git-lfs", NULL, "a Git LFS pointer, not the model itself",
         "get the file that it points to: git lfs pull, or bn-download"},
        {NULL, is_safetensors, "safetensors", CONVERT},
        {"PK\x03\x04", NULL, "a zip archive, perhaps a PyTorch checkpoint", CONVERT},
        {"\x80\x02", NULL, "a Python pickle, perhaps a PyTorch checkpoint", CONVERT},
        {"\x1F\x8B", NULL, "a gzip file", "unpack it with gunzip"},
        {"\x28\xB5\x2F\xFD", NULL, "a zstd file", "unpack it with unzstd"},
        {"\xFD\x37zXZ", NULL, "an xz file", "unpack it with unxz"},
        {"tjgg", NULL, "a GGJT file, the format before GGUF", "get the model as GGUF"},
        {"fmgg", NULL, "a GGMF file, a format before GGUF", "get the model as GGUF"},
        {"lmgg", NULL, "a GGML file, a format before GGUF", "get the model as GGUF"},
        {"FUGG", NULL, "a big-endian GGUF file: its magic is byte-swapped",
         "convert it to little endian, or download the little-endian file"},
        {NULL, is_html, "a web page", DOWNLOAD},
        {"{", NULL, "JSON", "it may be a server's error message: open it in an editor"},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(KNOWN); i++) {
        if (KNOWN[i].magic != NULL ? !starts(c, KNOWN[i].magic, strlen(KNOWN[i].magic)) : !KNOWN[i].is(c))
            continue;
        return bn_hint(
            bn_fail_at(err, BN_ERR_FORMAT, 0, NULL, "not a GGUF file: this looks like %s", KNOWN[i].what),
            err, "%s", KNOWN[i].hint);
    }
    if (c->len == 0) return bn_fail_at(err, BN_ERR_FORMAT, 0, NULL, "not a GGUF file: it is empty");
    if (c->len < 4)
        return bn_fail_at(err, BN_ERR_FORMAT, 0, NULL, "not a GGUF file: it has only %" PRIu64 " byte%s",
                          n_bytes, n_bytes == 1 ? "" : "s");
    char magic[32];
    return bn_fail_at(err, BN_ERR_FORMAT, 0, NULL, "not a GGUF file: it starts with '%s', not 'GGUF'",
                      bn_escape(magic, sizeof magic, c->ptr, 4));
}
