/* SPDX-License-Identifier: MIT
 *
 * What happens while a file comes: a bar, lines, or events.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/cli/report.h"
#include "tools/download/download.h"

#define SECOND_NS UINT64_C(1000000000)
#define WINDOW_NS (3 * SECOND_NS)
#define BAR_CELLS 24u
#define STEP_PERCENT 5u

char *bn_download_bytes(char out[BN_DOWNLOAD_BYTES_ROOM], uint64_t n)
{
    static const char *const UNITS[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)n / 1e3;
    size_t i = 0;
    if (n < 1000) {
        snprintf(out, BN_DOWNLOAD_BYTES_ROOM, "%u B", (unsigned)n);
        return out;
    }
    while (value >= 999.5 && i + 1 < BN_ARRAY_LEN(UNITS)) {
        value /= 1e3;
        i++;
    }
    int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    snprintf(out, BN_DOWNLOAD_BYTES_ROOM, "%.*f %s", digits, value, UNITS[i]);
    return out;
}

/* ---- events ---- */

bn_json *bn_download_event(const char *name)
{
    bn_json *event = bn_json_new_object();
    bn_json_put_string(event, "schema", "bn.download/1");
    bn_json_put_string(event, "event", name);
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
    bn_json_put_string(o, "url", e->url);
    if (e->size > 0)
        bn_json_put_u64(o, "size", e->size);
    else
        bn_json_put_null(o, "size");
    bn_json_put_u64(o, "have", e->have);
    bn_json_put_u64(o, "fetched", e->fetched);
    if (e->phase == BN_TRANSFER_RETRY) {
        bn_json_put_u64(o, "attempt", e->attempt);
        bn_json_put_u64(o, "wait_ms", e->wait_ms);
    }
    if (e->message != NULL) bn_json_put_string(o, "message", e->message);
    if (bn_download_say(o, NULL) != BN_OK) bn_report_warning("out of memory: an event is missing");
}

/* ---- the bar ---- */

static void put_time(char *out, size_t room, uint64_t s)
{
    unsigned long long t = s;
    if (s == UINT64_MAX)
        out[0] = '\0';
    else if (t >= 3600)
        snprintf(out, room, "  %llu:%02llu:%02llu", t / 3600, t / 60 % 60, t % 60);
    else
        snprintf(out, room, "  %llu:%02llu", t / 60, t % 60);
}

void bn_download_bar(char *out, size_t room, size_t columns, const char *name, uint64_t have, uint64_t size,
                     double bytes_per_s, uint64_t eta_s)
{
    char done[BN_DOWNLOAD_BYTES_ROOM], total[BN_DOWNLOAD_BYTES_ROOM], rate[BN_DOWNLOAD_BYTES_ROOM];
    char tail[128], left[32], shown[200], cells[BAR_CELLS + 1];
    double share = size > 0 ? (double)have / (double)size : 0;
    size_t full = (size_t)(share * BAR_CELLS);
    bn_escape(shown, sizeof shown, name, strlen(name));
    put_time(left, sizeof left, eta_s);
    bn_download_bytes(rate, bytes_per_s > 0 ? (uint64_t)bytes_per_s : 0);
    bn_download_bytes(done, have);
    int n = size > 0 ? snprintf(tail, sizeof tail, "%3.0f %%  %s of %s  %s/s%s", 100 * share, done,
                                bn_download_bytes(total, size), rate, left)
                     : snprintf(tail, sizeof tail, "%s  %s/s", done, rate);
    size_t rest = columns > (size_t)n + 2 ? columns - (size_t)n - 2 : 0; /* for the name, and the bar */
    bool bar = size > 0 && rest >= BAR_CELLS + 4 + 12;
    if (bar) rest -= BAR_CELLS + 4;
    memset(cells, ' ', BAR_CELLS);
    memset(cells, '#', full < BAR_CELLS ? full : BAR_CELLS);
    cells[BAR_CELLS] = '\0';
    snprintf(out, room, "%.*s  %s%s%s%s", (int)rest, shown, bar ? "[" : "", bar ? cells : "",
             bar ? "]  " : "", tail);
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

static void draw(struct bn_download_show *s, const struct bn_transfer_event *e, uint64_t now)
{
    char line[512];
    double rate = rate_of(s, now, e->fetched);
    uint64_t eta = UINT64_MAX;
    if (rate >= 1 && e->size >= e->have) eta = (uint64_t)((double)(e->size - e->have) / rate + 0.5);
    bn_download_bar(line, sizeof line, bn_report_columns(stderr) - 1, file_name(s->fetch), e->have, e->size,
                    rate, eta);
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
    s->drawn = true;
}

static void clear(struct bn_download_show *s)
{
    if (s->drawn) fputs("\r\033[K", stderr);
    if (s->drawn) fflush(stderr);
    s->drawn = false;
}

void bn_download_show_end(struct bn_download_show *show)
{
    clear(show);
}

/* ---- what is told ---- */

static void progress(struct bn_download_show *s, const struct bn_transfer_event *e)
{
    uint64_t now = bn_clock_ns();
    unsigned step = e->size > 0 ? (unsigned)(100 * e->have / e->size) / STEP_PERCENT : 0;
    if (s->bar) draw(s, e, now);
    if (s->json && now - s->drawn_ns >= SECOND_NS) {
        s->drawn_ns = now;
        say_event("progress", e);
    }
    if (!s->json && !s->bar && step > s->step) {
        char have[BN_DOWNLOAD_BYTES_ROOM], size[BN_DOWNLOAD_BYTES_ROOM], rate[BN_DOWNLOAD_BYTES_ROOM];
        double speed = rate_of(s, now, e->fetched);
        bn_download_bytes(rate, (uint64_t)speed);
        bn_report_note(1, "%u %%, %s of %s%s%s%s", step * STEP_PERCENT, bn_download_bytes(have, e->have),
                       bn_download_bytes(size, e->size), speed > 0 ? ", " : "", speed > 0 ? rate : "",
                       speed > 0 ? "/s" : "");
        s->step = step;
    }
}

static void note(struct bn_download_show *s, const struct bn_transfer_event *e)
{
    char have[BN_DOWNLOAD_BYTES_ROOM];
    clear(s);
    if (e->phase == BN_TRANSFER_RESUME)
        bn_report_note(0, "%s are here already and hold; the rest is fetched",
                       bn_download_bytes(have, e->have));
    else if (e->phase == BN_TRANSFER_RETRY)
        bn_report_note(0, "%s; attempt %u in %.1f s", e->message, e->attempt + 1, (double)e->wait_ms / 1e3);
    else
        bn_report_note(0, "%s; fetched again",
                       e->message != NULL ? e->message : "what is here does not hold");
}

/* Asking is told once, and that another process is waited for. */
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
    return bn_cli_interrupted() == 0;
}

void bn_download_show_begin(struct bn_download_show *show, const struct bn_hub_fetch *fetch,
                            const struct bn_args *args)
{
    const char *term = getenv("TERM");
    bool terminal = isatty(STDERR_FILENO) == 1 && term != NULL && strcmp(term, "dumb") != 0;
    *show = (struct bn_download_show){.fetch = fetch, .json = args->json, .began_ns = bn_clock_ns()};
    show->bar = terminal && !args->quiet && !args->json;
}
