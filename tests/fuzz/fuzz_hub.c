/* SPDX-License-Identifier: MIT
 *
 * Any bytes as what a hub sends and as what an earlier download left: the header of an answer, the list of
 * files of a repository, the start and the whole of a model file, the journal of pieces. The readers end with
 * a status and a message; no unsafe name is accepted, and no more bytes than there are.
 */
#include "tests/fuzz/fuzz.h"

#include <sys/stat.h>

#include "hub/names/reference.h"
#include "hub/net/format.h"
#include "hub/net/pieces.h"
#include "hub/net/resolve.h"

#define PART_BYTES 5000000

static void read_header(const char *text, size_t n)
{
    static struct bn_http_answer answer;
    static char line[BN_HTTP_URL_MAX + 64], url[BN_HTTP_URL_MAX];
    answer = (struct bn_http_answer){0};
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t length = end != NULL ? (size_t)(end - text) - at : n - at;
        if (length < sizeof line && memchr(text + at, '\0', length) == NULL) {
            memcpy(line, text + at, length);
            line[length > 0 && line[length - 1] == '\r' ? length - 1 : length] = '\0';
            bn_http_read_line(&answer, line);
        }
        at += length + 1;
    }
    hold(!answer.has_range || answer.from <= answer.to);
    hold(!answer.has_range || answer.total == 0 || answer.to < answer.total);
    bn_http_show(url, sizeof url, answer.location);
    if (succeeds(bn_http_join(url, "https://hub.example.org/a/b", answer.location, &err)))
        hold(strncmp(url, "https://", 8) == 0);
}

static void read_listing(const char *text, size_t n)
{
    bn_json *listing;
    if (!succeeds(bn_hub_listing_parse(&listing, text, n, &err))) return;
    for (const bn_json *o = bn_json_first(bn_json_get(listing, "siblings")); o != NULL; o = bn_json_next(o))
        hold(bn_hub_safe_path(bn_json_text_of(o, "rfilename")));
    bn_json_free(listing);
}

static void read_formats(const void *bytes, size_t n)
{
    static const enum bn_hub_format FORMATS[] = {BN_HUB_ANY_FORMAT, BN_HUB_GGUF, BN_HUB_SAFETENSORS};
    const char *path = fuzz_file(bytes, n);
    for (size_t i = 0; i < BN_ARRAY_LEN(FORMATS); i++) {
        bool begins = succeeds(bn_hub_check_start(FORMATS[i], 0, bytes, n, &err));
        bool good = succeeds(bn_hub_check_file(FORMATS[i], path, &err));
        hold(FORMATS[i] == BN_HUB_ANY_FORMAT || begins || !good);
    }
}

static void read_journal(const void *bytes, size_t n)
{
    const struct bn_pieces_origin origin = {"id", "\"e\"", "", PART_BYTES, false};
    struct bn_pieces *pieces = NULL;
    char path[128], part[140], journal[160];
    uint64_t kept = 0, lost = 0;
    bool other;
    snprintf(path, sizeof path, "%s/m", fuzz_folder());
    snprintf(part, sizeof part, "%s.part", path);
    snprintf(journal, sizeof journal, "%s.part.json", path);
    write_file(journal, bytes, n);
    write_file(part, "", 0);
    hold(truncate(part, PART_BYTES) == 0);
    if (succeeds(bn_pieces_open(&pieces, path, &origin, NULL, NULL, &kept, &lost, &other, &err)))
        hold(kept <= PART_BYTES && lost <= PART_BYTES);
    bn_pieces_close(pieces);
    (void)unlink(part);
    (void)unlink(journal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bn_buf text = {.max = SIZE_MAX};
    bn_buf_append(&text, data, size);
    hold(!text.failed);
    read_header(text.data, size);
    read_listing(text.data, size);
    read_formats(text.data, size);
    read_journal(text.data, size);
    bn_buf_release(&text);
    return 0;
}
