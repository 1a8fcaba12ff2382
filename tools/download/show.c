/* SPDX-License-Identifier: MIT
 *
 * What is shown during a download: a bar, lines, or events.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/kit/put_counts.h"
#include "tools/cli/progress.h"
#include "tools/download/download.h"

#define SCHEMA "bn.download/1"
#define SECOND_NS UINT64_C(1000000000)
#define WINDOW_NS (3 * SECOND_NS)
#define STEP_PERCENT 10u
#define LINE_NS SECOND_NS         /* lines are this far apart, */
#define QUIET_NS (10 * SECOND_NS) /* and this far when little happens */

/* ---- events ---- */

bn_json *bn_download_document(const char *name, bn_json **list)
{
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", SCHEMA);
    *list = bn_json_put_array(doc, name);
    return doc;
}

bn_json *bn_download_event(const char *name)
{
    bn_json *event = bn_json_new_object();
    BN_PUT(event, BN_STRING("schema", SCHEMA), BN_STRING("event", name));
    return event;
}

bn_status bn_download_say(bn_json *event, bn_error *err)
{
    struct bn_buf line = {.max = 1u << 16};
    bn_status status = bn_json_write(event, true, &line, err);
    if (status == BN_OK) {
        printf("%s\n", line.data);
        fflush(stdout);
    }
    bn_json_free(event);
    bn_buf_release(&line);
    return status;
}

static void say_event(const char *name, const struct bn_transfer_event *e)
{
    bn_json *o = bn_download_event(name);
    BN_PUT(o, BN_STRING("url", e->url), BN_COUNT("size", e->size), BN_U64("have", e->have),
           BN_U64("fetched", e->fetched));
    if (e->phase == BN_TRANSFER_RETRY)
        BN_PUT(o, BN_U64("attempt", e->attempt), BN_U64("wait_ms", e->wait_ms));
    if (e->message != NULL) bn_json_put_string(o, "message", e->message);
    if (bn_download_say(o, NULL) != BN_OK) bn_report_warning("out of memory: an event is missing");
}

/* ---- the bar ---- */

void bn_download_bar(char *out, size_t room, size_t columns, const char *name, uint64_t have, uint64_t size,
                     double bytes_per_s, uint64_t eta_s)
{
    char done[BN_UNITS_ROOM], total[BN_UNITS_ROOM], rate[BN_UNITS_ROOM];
    char shown[1200], left[BN_PROGRESS_TIME_ROOM + 2] = "", time[BN_PROGRESS_TIME_ROOM], percent[16] = "";
    char tails[5][240];
    double share = size == 0 ? -1 : have < size ? (double)have / (double)size : 1;
    bn_escape(shown, sizeof shown, name, strlen(name));
    bn_units_text(done, (double)have, "bytes");
    bn_units_text(total, (double)size, "bytes");
    bn_units_text(rate, fmax(bytes_per_s, 0), "bytes/s");
    if (eta_s != UINT64_MAX) snprintf(left, sizeof left, "  %s", bn_progress_time(time, eta_s));
    if (size > 0) {
        snprintf(percent, sizeof percent, "%3u %%", (unsigned)(100 * share));
        snprintf(tails[0], sizeof tails[0], "%s  %s of %s  %s%s", percent, done, total, rate, left);
        snprintf(tails[1], sizeof tails[1], "%s  %s  %s%s", percent, done, rate, left);
        snprintf(tails[2], sizeof tails[2], "%s  %s%s", percent, rate, left);
        snprintf(tails[3], sizeof tails[3], "%s%s", percent, left);
    } else {
        snprintf(tails[0], sizeof tails[0], "%s  %s", done, rate);
        snprintf(tails[1], sizeof tails[1], "%s", done);
    }
    snprintf(tails[4], sizeof tails[4], "%s", percent);
    const char *const known[] = {tails[0], tails[1], tails[2], tails[3], tails[4], NULL};
    const char *const unknown[] = {tails[0], tails[1], NULL};
    bn_progress_fit(out, room, columns, shown, share, size > 0 ? known : unknown);
}

/* ---- lines ---- */

bool bn_download_line_due(uint64_t passed_ns, unsigned percent, unsigned last_percent)
{
    bool step = percent / STEP_PERCENT > last_percent / STEP_PERCENT;
    return passed_ns >= (step ? LINE_NS : QUIET_NS);
}

void bn_download_line(char *out, size_t room, const char *name, uint64_t have, uint64_t size,
                      double bytes_per_s, uint64_t eta_s)
{
    char done[BN_UNITS_ROOM], total[BN_UNITS_ROOM], rate[BN_UNITS_ROOM];
    char shown[1200], time[BN_PROGRESS_TIME_ROOM];
    int n = snprintf(out, room, "%s: %s", bn_escape(shown, sizeof shown, name, strlen(name)),
                     bn_units_text(done, (double)have, "bytes"));
    if (size > 0 && n > 0 && (size_t)n < room)
        n +=
            snprintf(out + n, room - (size_t)n, " of %s (%u %%)", bn_units_text(total, (double)size, "bytes"),
                     (unsigned)(100 * (have < size ? (double)have / (double)size : 1)));
    if (bytes_per_s >= 1 && n > 0 && (size_t)n < room)
        n += snprintf(out + n, room - (size_t)n, ", %s", bn_units_text(rate, bytes_per_s, "bytes/s"));
    if (size > 0 && eta_s != UINT64_MAX && n > 0 && (size_t)n < room)
        snprintf(out + n, room - (size_t)n, ", %s left", bn_progress_time(time, eta_s));
}

static const char *file_name(const struct bn_hub_fetch *f)
{
    const char *name = f->file[0] != '\0' ? f->file : f->path;
    const char *slash = strrchr(name, '/');
    return slash != NULL ? slash + 1 : name;
}

/* Bytes a second over the last three to six seconds. */
static double rate_of(struct bn_download_show *s, uint64_t now, uint64_t fetched)
{
    if (s->mid.ns == 0 || fetched < s->mid.fetched) {
        s->mid.ns = s->old.ns = now;
        s->mid.fetched = s->old.fetched = fetched;
    } else if (now - s->mid.ns > WINDOW_NS) {
        s->old = s->mid;
        s->mid.ns = now;
        s->mid.fetched = fetched;
    }
    return now > s->old.ns ? (double)(fetched - s->old.fetched) * 1e9 / (double)(now - s->old.ns) : 0;
}

void bn_download_show_end(struct bn_download_show *s)
{
    if (s->drawn) fputs("\r\033[K", stderr);
    if (s->drawn) fflush(stderr);
    s->drawn = false;
}

/* ---- events of a transfer ---- */

static void progress(struct bn_download_show *s, const struct bn_transfer_event *e)
{
    char line[1600];
    uint64_t now = bn_clock_ns(), eta = UINT64_MAX;
    unsigned percent = e->size > 0 ? (unsigned)(100 * e->have / e->size) : 0;
    double rate = rate_of(s, now, e->fetched);
    if (rate >= 1 && e->size >= e->have) eta = (uint64_t)((double)(e->size - e->have) / rate + 0.5);
    if (s->json) {
        if (now - s->told_ns < SECOND_NS) return;
        say_event("progress", e);
    } else if (s->bar) {
        bn_download_bar(line, sizeof line, bn_progress_columns(), file_name(s->fetch), e->have, e->size, rate,
                        eta);
        fprintf(stderr, "\r\033[K%s", line);
        fflush(stderr);
        s->drawn = true;
    } else {
        if (!bn_download_line_due(now - s->told_ns, percent, s->percent)) return;
        bn_download_line(line, sizeof line, file_name(s->fetch), e->have, e->size, rate, eta);
        bn_report_note(0, "%s", line);
        s->percent = percent;
    }
    s->told_ns = now;
}

static void note(struct bn_download_show *s, const struct bn_transfer_event *e)
{
    char have[BN_UNITS_ROOM];
    bn_download_show_end(s);
    if (e->phase == BN_TRANSFER_RESUME)
        bn_report_note(0, "resuming: %s already downloaded and verified",
                       bn_units_text(have, (double)e->have, "bytes"));
    else if (e->phase == BN_TRANSFER_RETRY)
        bn_report_note(0, "%s; attempt %u in %.1f s", e->message, e->attempt + 1, (double)e->wait_ms / 1e3);
    else
        bn_report_note(0, "%s; downloading again", e->message != NULL ? e->message : "the file has changed");
}

/* The start is reported once, and that another process is waited for. */
static void ask(struct bn_download_show *s, const struct bn_transfer_event *e)
{
    if (e->message == NULL && !s->started) {
        s->started = true;
        if (s->json) say_event("start", e);
    }
    if (e->message == NULL || s->waiting) return;
    s->waiting = true;
    if (s->json)
        say_event("wait", e);
    else
        bn_report_note(0, "%s", e->message);
}

bool bn_download_show_event(void *user, const struct bn_transfer_event *e)
{
    static const char *const NAMES[] = {
        [BN_TRANSFER_RESUME] = "resume",
        [BN_TRANSFER_RETRY] = "retry",
        [BN_TRANSFER_RESTART] = "restart",
        [BN_TRANSFER_REPAIR] = "repair",
    };
    struct bn_download_show *s = user;
    if (e->phase == BN_TRANSFER_ASK)
        ask(s, e);
    else if (e->phase == BN_TRANSFER_PROGRESS)
        progress(s, e);
    else if (e->phase != BN_TRANSFER_DONE && s->json)
        say_event(NAMES[e->phase], e);
    else if (e->phase != BN_TRANSFER_DONE)
        note(s, e);
    s->late = s->limit_ns > 0 && bn_clock_ns() - s->began_ns > s->limit_ns;
    return bn_cli_interrupted() == 0 && !s->late;
}

void bn_download_show_begin(struct bn_download_show *show, const struct bn_hub_fetch *fetch,
                            const struct bn_args *args)
{
    const char *term = getenv("TERM");
    bool terminal = isatty(STDERR_FILENO) == 1 && term != NULL && strcmp(term, "dumb") != 0;
    *show = (struct bn_download_show){.fetch = fetch, .json = args->json, .began_ns = bn_clock_ns()};
    show->told_ns = show->began_ns;
    show->bar = terminal && !args->quiet && !args->json;
}
