/* SPDX-License-Identifier: MIT
 *
 * The commands of bn-download, and what they share.
 */
#ifndef BN_DOWNLOAD_H
#define BN_DOWNLOAD_H

#include "base/error.h"
#include "base/json.h"
#include "hub/fetch.h"
#include "lab/report/units.h"
#include "tools/cli/options.h"
#include "tools/cli/report.h"

/* The options of all commands; each has some of them. */
struct bn_download_options {
    bool offline, force, no_wait, dry_run, names, cached, yes, old;
    uint32_t parallel, retries;
    uint64_t stall_s, timeout_s, limit_rate;
    struct bn_texts mirrors;
    const char *to, *sha256, *lock, *output, *check;
};

/* Options that several commands have. */
extern const struct bn_option bn_download_network_options[];

extern const struct bn_option bn_download_get_options[];
extern const struct bn_option bn_download_list_options[];
extern const struct bn_option bn_download_verify_options[];
extern const struct bn_option bn_download_clean_options[];
extern const struct bn_option bn_download_lock_options[];
extern const struct bn_option bn_download_doctor_options[];
extern const struct bn_option bn_download_tokenizer_options[];
struct bn_sandbox_rules;
void bn_download_allow(struct bn_sandbox_rules *rules, const struct bn_args *args);
bn_status bn_download_get(struct bn_args *args, bn_error *err);
bn_status bn_download_list(struct bn_args *args, bn_error *err);
bn_status bn_download_path(struct bn_args *args, bn_error *err);
bn_status bn_download_verify(struct bn_args *args, bn_error *err);
bn_status bn_download_clean(struct bn_args *args, bn_error *err);
bn_status bn_download_lock(struct bn_args *args, bn_error *err);
bn_status bn_download_doctor(struct bn_args *args, bn_error *err);
bn_status bn_download_tokenizer(struct bn_args *args, bn_error *err);

/* Fills what the network options and the environment say. */
BN_MUST_CHECK bn_status bn_download_settings(struct bn_hub_fetch *fetch, const struct bn_args *args,
                                             bn_error *err);

/* ---- show.c: what is shown during a download ---- */

/* On a terminal a bar; elsewhere a line now and then; with --json events, one a line, on standard output.
 * With -q nothing but those. */
struct bn_download_show {
    const struct bn_hub_fetch *fetch; /* whose file it is */
    bool json, bar;
    bool started, waiting, drawn, late;
    uint64_t began_ns, told_ns; /* told_ns: the last line, bar or event */
    uint64_t limit_ns;          /* --timeout: after this the download is stopped, and late is set; 0: none */
    struct {
        uint64_t ns, fetched;
    } old, mid;       /* where the rate is measured from: three to six seconds ago */
    unsigned percent; /* of the last line */
};
void bn_download_show_begin(struct bn_download_show *show, const struct bn_hub_fetch *fetch,
                            const struct bn_args *args);
/* A bn_transfer_fn; user is the struct. False once the user interrupts, or limit_ns has passed. */
bool bn_download_show_event(void *user, const struct bn_transfer_event *event);
/* Clears the bar. */
void bn_download_show_end(struct bn_download_show *show);
/* The bar in at most this many columns. size 0, eta_s UINT64_MAX: not known. */
void bn_download_bar(char *out, size_t room, size_t columns, const char *name, uint64_t have, uint64_t size,
                     double bytes_per_s, uint64_t eta_s);
/* The line where there is no terminal: "m.gguf: 512 MB of 1.19 GB (43 %), 12.3 MB/s, 0:55 left". */
void bn_download_line(char *out, size_t room, const char *name, uint64_t have, uint64_t size,
                      double bytes_per_s, uint64_t eta_s);
/* Is it time for the next one? One for each 10 %, a second or more apart, or after ten seconds. */
bool bn_download_line_due(uint64_t passed_ns, unsigned percent, unsigned last_percent);
/* {"schema": "bn.download/1", name: []}, and the list; NULL when memory is short. */
bn_json *bn_download_document(const char *name, bn_json **list);
/* A new event: {"schema": "bn.download/1", "event": name}. */
bn_json *bn_download_event(const char *name);
/* Writes it as one line on standard output, flushes, frees it. */
BN_MUST_CHECK bn_status bn_download_say(bn_json *event, bn_error *err);

#endif
