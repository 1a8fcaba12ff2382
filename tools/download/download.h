/* SPDX-License-Identifier: MIT
 *
 * The commands of bn-download, and what they share.
 */
#ifndef BN_DOWNLOAD_H
#define BN_DOWNLOAD_H

#include "base/json.h"
#include "hub/fetch.h"
#include "tools/cli/options.h"

/* Options that several commands have. */
extern const struct bn_option bn_download_network_options[];

extern const struct bn_option bn_download_get_options[];
extern const struct bn_option bn_download_list_options[];
extern const struct bn_option bn_download_verify_options[];
extern const struct bn_option bn_download_clean_options[];
extern const struct bn_option bn_download_lock_options[];
bn_status bn_download_get(struct bn_args *args, bn_error *err);
bn_status bn_download_list(struct bn_args *args, bn_error *err);
bn_status bn_download_path(struct bn_args *args, bn_error *err);
bn_status bn_download_verify(struct bn_args *args, bn_error *err);
bn_status bn_download_clean(struct bn_args *args, bn_error *err);
bn_status bn_download_lock(struct bn_args *args, bn_error *err);

/* Fills what the network options and the environment say. *mirrors is allocated, and what fetch->mirrors
 * points to. */
BN_MUST_CHECK bn_status bn_download_settings(struct bn_hub_fetch *fetch, const char ***mirrors,
                                             const struct bn_args *args, bn_error *err);

/* "1.19 GB", "512 MB", "0 B": decimal units, three digits. Returns out. */
#define BN_DOWNLOAD_BYTES_ROOM 16u
char *bn_download_bytes(char out[BN_DOWNLOAD_BYTES_ROOM], uint64_t n);

/* ---- show.c: what happens while a file comes ---- */

/* On a terminal a bar; with -v elsewhere a line per 5 %; with --json events, one a line, on standard output.
 */
struct bn_download_show {
    const struct bn_hub_fetch *fetch; /* whose file it is */
    bool json, bar;
    bool started, waiting, drawn;
    uint64_t began_ns, drawn_ns;
    struct {
        uint64_t ns, fetched;
    } old, mid;    /* where the rate is measured from: three to six seconds ago */
    unsigned step; /* of 5 %, the last one that was said */
};
void bn_download_show_begin(struct bn_download_show *show, const struct bn_hub_fetch *fetch,
                            const struct bn_args *args);
/* A bn_transfer_fn; user is the struct. False once the user interrupts. */
bool bn_download_show_event(void *user, const struct bn_transfer_event *event);
/* Clears the bar. */
void bn_download_show_end(struct bn_download_show *show);
/* The bar, for tests: at most columns wide. eta_s of UINT64_MAX: not known. */
void bn_download_bar(char *out, size_t room, size_t columns, const char *name, uint64_t have, uint64_t size,
                     double bytes_per_s, uint64_t eta_s);
/* A new event: {"schema": "bn.download/1", "event": name}. */
bn_json *bn_download_event(const char *name);
/* Writes it as one line on standard output, flushes, frees it. */
BN_MUST_CHECK bn_status bn_download_say(bn_json *event, bn_error *err);

#endif
