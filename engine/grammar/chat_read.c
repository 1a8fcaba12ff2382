/* SPDX-License-Identifier: MIT
 *
 * Takes an answer apart while it comes. What is held is the part that is not known yet: a tag that has begun, with the line
 * feeds before it, or a call that has not ended. A call ends at the first closing tag that is not inside of its arguments.
 */
#define _GNU_SOURCE /* memmem */
#include "base/error.h"
#include "grammar/schema.h"
#include "tokenizer/chat.h"
#include "tokenizer/vocab.h"

#define THINK "<think>"
#define THINK_END "</think>"
#define CALL "<tool_call>"
#define CALL_END "</tool_call>"

enum { BEGIN, BEFORE_THOUGHTS, THOUGHTS, BEFORE_TEXT, TEXT, CALLS }; /* `before` passes line feeds */

/* The first place of a word from `at` on; the length of the text: there is none. */
static size_t find(struct bn_str text, size_t at, const char *word)
{
    const char *first = at < text.len ? memmem(text.ptr + at, text.len - at, word, strlen(word)) : NULL;
    return first != NULL ? (size_t)(first - text.ptr) : text.len;
}

/* ---- calls ---- */

/* A call that is read. */
struct call {
    struct bn_chat_reader *reader;
    struct bn_scan scan; /* its text */
    struct bn_buf key, name, arguments;
    bool tell; /* whoever wants the parts; else it is only checked */
};

static void put_compact(struct bn_buf *out, const char *text, size_t n)
{
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (!quoted && strchr(" \t\r\n", text[i]) != NULL) continue;
        if (text[i] == '"') quoted = !quoted;
        bn_buf_putc(out, text[i]);
        if (quoted && text[i] == '\\' && i + 1 < n) bn_buf_putc(out, text[++i]);
    }
}

static bn_status end_call(struct call *c)
{
    if (c->name.len == 0 || c->arguments.len == 0 || c->name.failed || c->arguments.failed)
        return BN_ERR_FORMAT;
    if (c->tell)
        c->reader->on_part(c->reader->user, BN_CHAT_CALL, c->name.data, c->arguments.data, c->arguments.len);
    c->name.len = c->arguments.len = 0;
    return BN_OK;
}

/* {"name": ..., "arguments": {...}} */
static bn_status take_object(struct call *c)
{
    struct bn_scan *s = &c->scan;
    BN_TRY(bn_scan_open(s, '{'));
    for (bool more;;) {
        BN_TRY(bn_scan_more(s, '}', &more));
        if (!more) return end_call(c);
        BN_TRY(bn_scan_name(s, &c->key));
        bool object = bn_scan_peek(s) == '{', name = strcmp(bn_buf_text(&c->key), "name") == 0;
        size_t begin = s->at;
        BN_TRY(name ? bn_scan_string(s, &c->name) : bn_scan_skip(s));
        if (object && strcmp(bn_buf_text(&c->key), "arguments") == 0)
            put_compact(&c->arguments, s->text + begin, s->at - begin);
    }
}

/* An object, or a list of them. */
static bn_status take_objects(struct call *c)
{
    bool list = bn_scan_peek(&c->scan) == '[', more = true;
    if (list) BN_TRY(bn_scan_open(&c->scan, '['));
    for (size_t n = 0; more; n++) {
        if (list) BN_TRY(bn_scan_more(&c->scan, ']', &more));
        if (!more && n == 0) return BN_ERR_FORMAT;
        if (more) BN_TRY(take_object(c));
        more = more && list;
    }
    return bn_scan_end(&c->scan);
}

static bool is_json(struct bn_str text)
{
    struct bn_scan s = {.text = text.ptr, .n = text.len};
    return bn_scan_skip(&s) == BN_OK && bn_scan_end(&s) == BN_OK;
}

/* A value as JSON. What the schema says is not a text may be one all the same. */
static void put_value(struct bn_buf *out, bool raw, struct bn_str text)
{
    if (!raw && is_json(text)) {
        put_compact(out, text.ptr, text.len);
        return;
    }
    char *copy = bn_strndup(text.ptr, text.len);
    if (copy != NULL) bn_json_write_string(out, copy);
    out->failed = out->failed || copy == NULL;
    bn_free(copy);
}

/* Passes a word that may be next. */
static bool pass(struct bn_scan *s, const char *word)
{
    size_t n = strlen(word);
    (void)bn_scan_peek(s); /* blanks */
    if (s->n - s->at < n || memcmp(s->text + s->at, word, n) != 0) return false;
    s->at += n;
    return true;
}

/* What is next, up to a word, which is passed. */
static bn_status take_until_word(struct bn_scan *s, const char *word, struct bn_str *out)
{
    size_t to = find((struct bn_str){s->text, s->n}, s->at, word);
    *out = (struct bn_str){s->text + s->at, to - s->at};
    s->at = to + strlen(word);
    return to < s->n ? BN_OK : BN_ERR_FORMAT;
}

/* <function=...>, its parameters, </function> */
static bn_status take_parameters(struct call *c)
{
    struct bn_scan *s = &c->scan;
    struct bn_str name, value;
    if (!pass(s, "<function=")) return BN_ERR_FORMAT;
    BN_TRY(take_until_word(s, ">", &name));
    bn_buf_append(&c->name, name.ptr, name.len);
    const bn_json *parameters = bn_chat_parameters(c->reader->tools, bn_buf_text(&c->name));
    while (pass(s, "<parameter=")) {
        c->key.len = 0;
        BN_TRY(take_until_word(s, ">", &name));
        bn_buf_append(&c->key, name.ptr, name.len);
        BN_TRY(take_until_word(s, "\n</parameter>",
                               &value)); /* the line feed before it is the first one of an empty text */
        bool line = value.len > 0 && value.ptr[0] == '\n';
        bn_buf_putc(&c->arguments, c->arguments.len == 0 ? '{' : ',');
        bn_json_write_string(&c->arguments, bn_buf_text(&c->key));
        bn_buf_putc(&c->arguments, ':');
        put_value(&c->arguments, bn_chat_value(parameters, bn_buf_text(&c->key)) != BN_VALUE_JSON,
                  (struct bn_str){value.ptr + line, value.len - line});
    }
    bn_buf_puts(&c->arguments, c->arguments.len == 0 ? "{}" : "}");
    return pass(s, "</function>") && bn_scan_peek(s) == '\0' ? end_call(c) : BN_ERR_FORMAT;
}

/* What is between the tags of a call; false: it is not one, unless it goes on after the closing tag. */
static bool take_call(struct bn_chat_reader *r, struct bn_str text, bool *open)
{
    struct call c = {
        .reader = r, .key.max = text.len, .name.max = text.len, .arguments.max = BN_MAX_TEXT_BYTES};
    bn_status status = BN_OK;
    for (int pass = 0; pass < 2 && status == BN_OK; pass++) {
        c.scan = (struct bn_scan){.text = text.ptr, .n = text.len};
        c.tell = pass == 1;
        status = bn_chat_calls(r->tmpl) == BN_CALLS_XML ? take_parameters(&c) : take_objects(&c);
    }
    *open = c.scan.at >= c.scan.n;
    bn_buf_release(&c.key);
    bn_buf_release(&c.name);
    bn_buf_release(&c.arguments);
    return status == BN_OK;
}

/* ---- answers ---- */

/* Tells of what is held from..to. */
static void tell(struct bn_chat_reader *r, enum bn_chat_part part, size_t from, size_t to)
{
    if (from >= to) return;
    char *end = r->held.data + to, kept = *end;
    *end = '\0';
    r->on_part(r->user, part, NULL, r->held.data + from, to - from);
    *end = kept;
}

/* Where the line feeds begin that end at `to`. */
static size_t before_lines(const struct bn_chat_reader *r, size_t from, size_t to)
{
    while (to > from && r->held.data[to - 1] == '\n')
        to--;
    return to;
}

/* Text or thoughts up to a tag; true: it is there, and *at is at the line feeds before it. */
static bool take_until(struct bn_chat_reader *r, size_t *at, const char *tag, bool end, size_t *tag_at)
{
    struct bn_str text = {r->held.data, r->held.len};
    enum bn_chat_part part = r->state == THOUGHTS ? BN_CHAT_THOUGHT : BN_CHAT_TEXT;
    size_t n = tag != NULL ? strlen(tag) - 1 : 0, to = tag != NULL ? find(text, *at, tag) : text.len;
    bool found = to < text.len;
    *tag_at = to;
    for (n = bn_min_size(n, to - *at); !found && n > 0 && memcmp(text.ptr + to - n, tag, n) != 0;)
        n--;
    if (!found && !end) to -= n;
    if (found || (tag != NULL && !end)) to = before_lines(r, *at, to);
    tell(r, part, *at, to);
    *at = to;
    return found;
}

/* A call from its line feeds on. False: it has not ended. */
static bool take_calls(struct bn_chat_reader *r, size_t *at, bool end)
{
    struct bn_str text = {r->held.data, r->held.len};
    size_t to = find(text, *at + r->seen, CALL_END), body = find(text, *at, CALL) + strlen(CALL);
    bool ends = to < text.len, open = true;
    bool call = ends && take_call(r, (struct bn_str){text.ptr + body, to - body}, &open);
    if (call || !open) {
        if (!call) tell(r, BN_CHAT_TEXT, *at, to + strlen(CALL_END));
        r->state = call ? BEFORE_TEXT : TEXT;
        *at = to + strlen(CALL_END);
        return true;
    }
    r->seen = bn_min_size(to + 1, text.len - bn_min_size(text.len - body, strlen(CALL_END) - 1)) - *at;
    if (end && !ends) tell(r, BN_CHAT_TEXT, *at, to);
    return ends;
}

/* The next part of what is held; false: more must come. */
static bool step(struct bn_chat_reader *r, size_t *at, bool end)
{
    struct bn_str text = {r->held.data, r->held.len};
    size_t n = bn_min_size(text.len - *at, strlen(THINK)), tag_at;
    switch (r->state) {
    case BEGIN:
        r->state = TEXT;
        if (bn_template_thinking(r->tmpl) != BN_THINKING_ON) return true;
        if (r->tmpl == BN_TEMPLATE_QWEN35) { /* the prompt has the tag */
            r->state = BEFORE_THOUGHTS;
        } else if (memcmp(text.ptr + *at, THINK, n) == 0) {
            r->state = n == strlen(THINK) ? BEFORE_THOUGHTS : end ? TEXT : BEGIN;
            *at += r->state == BEFORE_THOUGHTS ? n : 0;
        }
        return r->state != BEGIN;
    case BEFORE_THOUGHTS:
    case BEFORE_TEXT:
        while (*at < text.len && text.ptr[*at] == '\n')
            ++*at;
        r->state += *at < text.len;
        return *at < text.len;
    case THOUGHTS:
        if (!take_until(r, at, THINK_END, end, &tag_at)) return false;
        *at = tag_at + strlen(THINK_END);
        r->state = BEFORE_TEXT;
        return true;
    case TEXT:
        if (!take_until(r, at, r->tools != NULL ? CALL : NULL, end, &tag_at)) return false;
        r->state = CALLS;
        r->seen = tag_at + strlen(CALL) - *at;
        return true;
    default:
        return take_calls(r, at, end);
    }
}

static void advance(struct bn_chat_reader *r, bool end)
{
    size_t at = 0;
    if (r->held.len == 0) return;
    while (at < r->held.len && step(r, &at, end)) {
    }
    memmove(r->held.data, r->held.data + at, r->held.len - at + 1);
    r->held.len -= at;
}

void bn_chat_read(struct bn_chat_reader *reader, const char *text, size_t n_bytes)
{
    reader->held.max = BN_MAX_TEXT_BYTES;
    bn_buf_append(&reader->held, text, n_bytes);
    if (!reader->held.failed) advance(reader, false);
}

void bn_chat_read_end(struct bn_chat_reader *reader)
{
    if (!reader->held.failed) advance(reader, true);
    bn_buf_release(&reader->held);
}
