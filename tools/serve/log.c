/* SPDX-License-Identifier: MIT
 *
 * The access log: one line for each request, pairs of names and values. It has sizes and times, never a text of a request
 * or an answer; what a client chose is escaped.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/serve/serve.h"

/* Without blanks, so that a line can be split at them. */
static void set(char *out, size_t room, const char *text)
{
    bn_escape(out, room, text, strlen(text));
    for (char *at = out; *at != '\0'; at++)
        if (*at == ' ') *at = '_';
}

void bn_log_set(struct bn_log_entry *entry, const char *method, const char *path)
{
    set(entry->method, sizeof entry->method, method);
    set(entry->path, sizeof entry->path, path);
}

static void put_tokens(struct bn_buf *line, const struct bn_job *job)
{
    size_t n_prompt = 0, n_cached = 0, n_tokens = 0;
    for (size_t i = 0; i < job->n_choices; i++) {
        n_prompt += job->choices[i].gen.n_prompt;
        n_cached += job->choices[i].gen.n_cached;
        n_tokens += job->choices[i].gen.n_ids;
    }
    if (job->first_ns != 0) bn_buf_printf(line, " first=%.3f", (double)(job->first_ns - job->since_ns) / 1e9);
    bn_buf_printf(line, " prompt=%zu cached=%zu tokens=%zu receipt=%s", n_prompt, n_cached, n_tokens,
                  job->choices[0].receipt);
    if (job->n_choices > 1) bn_buf_printf(line, "..%zu", job->n_choices - 1);
}

void bn_log_write(const struct bn_log_entry *entry, const struct bn_job *job)
{
    struct bn_buf line = {.max = 2048};
    char time[21];
    bn_clock_format(bn_clock_utc(), time);
    bn_buf_printf(&line, "time=%s from=%s", time, entry->from);
    if (entry->tenant != 0) bn_buf_printf(&line, " key=%u", entry->tenant);
    bn_buf_printf(&line, " method=%s path=%s status=%u seconds=%.3f bytes=%llu id=%s", entry->method,
                  entry->path, entry->status, (double)(bn_clock_ns() - entry->since_ns) / 1e9,
                  (unsigned long long)entry->n_bytes, entry->id);
    if (job != NULL) {
        pthread_mutex_lock(&job->server->lock);
        if (job->done) put_tokens(&line, job);
        pthread_mutex_unlock(&job->server->lock);
    }
    if (entry->left) bn_buf_puts(&line, " left=1");
    bn_buf_putc(&line, '\n');
    if (bn_buf_check(&line, NULL) == BN_OK) fwrite(line.data, 1, line.len, stderr);
    bn_buf_release(&line);
}
