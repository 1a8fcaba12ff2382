/* SPDX-License-Identifier: MIT
 *
 * Replies: documents, and errors in the form of the protocol. And the access log.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/serve/job.h"

const char *bn_reply_error_type(unsigned status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    default:
        return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

void bn_reply_json(struct bn_reply *reply, bn_json *document)
{
    reply->body.max = BN_SERVE_MAX_ANSWER_BYTES;
    if (reply->status == 0) reply->status = 200;
    if (bn_json_write_line(document, true, &reply->body, NULL) != BN_OK) {
        reply->status = 500;
        reply->body.len = 0;
    }
    bn_json_free(document);
}

bool bn_reply_error(struct bn_reply *reply, unsigned status, const char *param, const char *code,
                    const char *fmt, ...)
{
    char message[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    if (reply->status != 0) return false;
    reply->status = status;
    const struct bn_protocol *protocol = reply->protocol != NULL ? reply->protocol : &bn_openai_chat;
    bn_reply_json(reply, protocol->error(status, param, code, message));
    return false;
}

void bn_reply_too_large(struct bn_reply *reply, uint64_t max_bytes)
{
    bn_reply_error(reply, 413, NULL, NULL, "the body has more than %llu bytes",
                   (unsigned long long)max_bytes);
}

bool bn_reply_failed(struct bn_reply *reply, const char *param, const bn_error *err)
{
    char place[48] = "";
    bool theirs = err->code == BN_ERR_ARG || err->code == BN_ERR_FORMAT || err->code == BN_ERR_LIMIT ||
                  err->code == BN_ERR_UNSUPPORTED;
    bool at = err->code == BN_ERR_FORMAT && err->offset != BN_NO_OFFSET && err->offset != 0;
    if (at) snprintf(place, sizeof place, " (at byte %llu)", (unsigned long long)err->offset);
    return bn_reply_error(reply,
                          theirs                                                       ? 400
                          : err->code == BN_ERR_NOMEM || err->code == BN_ERR_INTEGRITY ? 503
                                                                                       : 500,
                          param, NULL, "%s%s%s%s", err->msg, place, err->hint[0] != '\0' ? "; " : "",
                          err->hint);
}

bool bn_reply_refuse(struct bn_reply *reply, const char *name, const char *what)
{
    return bn_reply_error(reply, 400, name, NULL, "%s %s", name, what);
}

bool bn_reply_no_memory(struct bn_reply *reply)
{
    return bn_reply_error(reply, 503, NULL, NULL, "out of memory");
}

/* ---- the access log: a line for each request, pairs of names and values, sizes and times, never a text ---- */

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
