/* SPDX-License-Identifier: MIT
 *
 * Any bytes as what a hub sends and as what an earlier download left: the target of a redirect, the list of
 * files of a repository, the start and the whole of a model file, the journal of pieces. The readers end with
 * a status and a message; no unsafe name is accepted, and no more bytes than there are.
 */
#include "tests/fuzz/fuzz.h"

#include "hub/names/names.h"
#include "hub/net/resolve.h"
#include "hub/net/transfer.h"

#define PART_BYTES 5000000

static void read_location(const char *text)
{
    static char url[BN_HTTP_URL_MAX];
    bn_http_show(url, sizeof url, text);
    if (succeeds(bn_http_join(url, "https://hub.example.org/a/b", text, &err)))
        hold(strncmp(url, "https://", 8) == 0);
}

static void read_listing(const char *text, size_t n)
{
    cJSON *listing;
    const cJSON *o;
    if (!succeeds(bn_hub_listing_parse(&listing, text, n, &err))) return;
    cJSON_ArrayForEach(o, bn_hub_member(listing, "siblings"))
        hold(bn_hub_safe_path(bn_hub_text_of(o, "rfilename")));
    cJSON_Delete(listing);
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
    struct bn_pieces_found found = {0};
    snprintf(path, sizeof path, "%s/m", fuzz_folder());
    snprintf(part, sizeof part, "%s.part", path);
    snprintf(journal, sizeof journal, "%s.part.json", path);
    write_file(journal, bytes, n);
    write_file(part, "", 0);
    hold(truncate(part, PART_BYTES) == 0);
    if (succeeds(bn_pieces_open(&pieces, path, &origin, &found, &err)))
        hold(found.kept <= PART_BYTES && found.lost <= PART_BYTES);
    bn_pieces_close(pieces);
    (void)unlink(part);
    (void)unlink(journal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bn_buf text = {.max = SIZE_MAX};
    bn_buf_append(&text, data, size);
    hold(!text.failed);
    read_location(text.data);
    read_listing(text.data, size);
    read_formats(text.data, size);
    read_journal(text.data, size);
    bn_buf_release(&text);
    return 0;
}
