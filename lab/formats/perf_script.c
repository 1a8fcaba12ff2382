/* SPDX-License-Identifier: MIT
 *
 * The output of `perf script`: for each sample a line "comm pid/tid [cpu] time: period event:", then its
 * frames, innermost first, "address symbol+0xoffset (module)", then an empty line. A command name may
 * contain spaces, so a line is parsed from its time on, the first part that is unambiguous.
 *
 * Only the first event is read; about has the number of samples of the others.
 */
#define _GNU_SOURCE /* memmem, memrchr */
#include <stdlib.h>

#include "base/error.h"
#include "lab/formats/formats.h"

#define MAX_FRAMES 4096u /* of a sample; more are ignored */

struct header {
    struct bn_str comm, event, rest; /* rest: a frame on the same line, or nothing */
    bool periodic;
    double period;
};

/* ---- words ---- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* The next word of text from *at on. */
static struct bn_str next_word(struct bn_str text, size_t *at)
{
    while (*at < text.len && is_space(text.ptr[*at]))
        ++*at;
    struct bn_str word = {text.ptr + *at, 0};
    while (*at < text.len && !is_space(text.ptr[*at]))
        ++*at, word.len++;
    return word;
}

static bool same_text(struct bn_str a, struct bn_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static struct bn_str trim(struct bn_str text)
{
    while (text.len > 0 && is_space(text.ptr[0]))
        text.ptr++, text.len--;
    while (text.len > 0 && is_space(text.ptr[text.len - 1]))
        text.len--;
    return text;
}

static size_t digits_at(struct bn_str word, size_t at)
{
    size_t n = 0;
    while (at + n < word.len && word.ptr[at + n] >= '0' && word.ptr[at + n] <= '9')
        n++;
    return n;
}

/* "123" or "123/124"; perf gives -1 for what has no number. */
static bool is_pid(struct bn_str word)
{
    size_t n = 0;
    for (unsigned part = 0; part < 2; part++) {
        size_t minus = n < word.len && word.ptr[n] == '-', digits = digits_at(word, n + minus);
        n += minus + digits;
        if (digits == 0) return false;
        if (n == word.len) return true;
        if (word.ptr[n++] != '/') return false;
    }
    return false;
}

/* "33657.973070:" */
static bool is_time(struct bn_str word)
{
    size_t whole = digits_at(word, 0), part = whole > 0 ? digits_at(word, whole + 1) : 0;
    return part > 0 && word.ptr[whole] == '.' && whole + part + 2 == word.len &&
           word.ptr[word.len - 1] == ':';
}

static bool is_address(struct bn_str word)
{
    for (size_t i = 0; i < word.len; i++)
        if (word.ptr[i] == '\0' || strchr("0123456789abcdef", word.ptr[i]) == NULL) return false;
    return word.len > 0;
}

/* ---- the line of a sample ---- */

/* The position of the process id, before the time: [cpu] and flags may be between them. */
static bool find_comm(struct bn_str line, size_t end, struct bn_str *comm)
{
    for (size_t i = 0; i < end;) {
        struct bn_str word = next_word(line, &i);
        size_t begin = (size_t)(word.ptr - line.ptr);
        struct bn_str before = trim((struct bn_str){line.ptr, begin});
        if (word.len > 0 && before.len > 0 && is_pid(word)) *comm = before; /* the last one counts */
    }
    return comm->ptr != NULL;
}

/* "period event:" and the rest of the line. */
static void read_event(struct header *h, struct bn_str line, size_t at)
{
    size_t after = at;
    struct bn_str word = next_word(line, &at);
    if (word.len > 0 && digits_at(word, 0) == word.len) {
        h->periodic = bn_formats_weight(word, &h->period);
        after = at;
        word = next_word(line, &at);
    }
    if (word.len > 1 && word.ptr[word.len - 1] == ':') {
        h->event = (struct bn_str){word.ptr, word.len - 1};
        after = at;
    }
    h->rest = trim((struct bn_str){line.ptr + after, line.len - after});
}

static bool read_header(struct header *h, struct bn_str line)
{
    *h = (struct header){.event = {"", 0}, .period = 1};
    for (size_t at = 0; at < line.len;) {
        struct bn_str word = next_word(line, &at);
        size_t begin = (size_t)(word.ptr - line.ptr);
        if (!is_time(word) || !find_comm(line, begin, &h->comm)) continue;
        read_event(h, line, at);
        return true;
    }
    return false;
}

static bool is_frame_line(struct bn_str line)
{
    size_t at = 0;
    return line.len > 0 && is_space(line.ptr[0]) && is_address(next_word(line, &at));
}

bool bn_formats_is_perf_script(const char *text, size_t n)
{
    struct bn_str line;
    struct header h;
    for (size_t at = 0; bn_formats_line(&line, text, n, &at);)
        if (trim(line).len > 0 && line.ptr[0] != '#') return read_header(&h, line);
    return false;
}

/* ---- frames ---- */

struct frame {
    struct bn_str name, module;
    enum bn_frame_kind kind;
};

/* Cuts " (module)" off the end of a text. A name may contain parentheses and end in " (deleted)". */
static bool cut_module(struct bn_str *text, struct bn_str *module)
{
    static const char DELETED[] = " (deleted))";
    size_t n = sizeof DELETED - 1, end = text->len;
    if (end == 0 || text->ptr[end - 1] != ')') return false;
    if (end > n && memcmp(text->ptr + end - n, DELETED, n) == 0) end -= n;
    for (size_t i = end; i-- > 0;) {
        if (text->ptr[i] != '(' || (i > 0 && !is_space(text->ptr[i - 1]))) continue;
        *module = (struct bn_str){text->ptr + i + 1, (end < text->len ? end : end - 1) - i - 1};
        *text = trim((struct bn_str){text->ptr, i});
        return true;
    }
    return false;
}

static struct bn_str cut_offset(struct bn_str name)
{
    const char *plus = memrchr(name.ptr, '+', name.len);
    if (plus == NULL || plus == name.ptr) return name;
    struct bn_str offset = {plus + 1, name.len - (size_t)(plus - name.ptr) - 1};
    if (offset.len < 3 || offset.ptr[0] != '0' || offset.ptr[1] != 'x' ||
        !is_address((struct bn_str){offset.ptr + 2, offset.len - 2}))
        return name;
    return (struct bn_str){name.ptr, (size_t)(plus - name.ptr)};
}

static bool begins_with(struct bn_str text, const char *begin)
{
    return text.len >= strlen(begin) && memcmp(text.ptr, begin, strlen(begin)) == 0;
}

/* The upper half of the addresses is the kernel's; so are its modules, "[kernel.kallsyms]" and "x.ko". */
static bool is_system(struct bn_str address, struct bn_str module)
{
    bool upper = address.len == 16 && address.ptr[0] == 'f';
    return upper || begins_with(module, "[kernel") || begins_with(module, "[guest.kernel") ||
           (module.len > 3 && memmem(module.ptr, module.len, ".ko", 3) != NULL && module.ptr[0] == '/' &&
            memmem(module.ptr, module.len, "/modules/", 9) != NULL);
}

static struct frame read_frame(struct bn_str line)
{
    struct frame f = {.kind = BN_FRAME_CODE};
    size_t at = 0;
    struct bn_str address = next_word(line, &at);
    struct bn_str text = trim((struct bn_str){line.ptr + at, line.len - at}), module = {"", 0};
    bool known = cut_module(&text, &module);
    bool inlined = known && bn_str_equal(module, "inlined");
    if (!known || inlined || bn_str_equal(module, "[unknown]")) module = (struct bn_str){"", 0};
    bool system = is_system(address, module);
    const char *slash = module.len > 0 ? memrchr(module.ptr, '/', module.len) : NULL;
    if (slash != NULL && module.ptr[0] == '/')
        module = (struct bn_str){slash + 1, (size_t)(module.ptr + module.len - slash) - 1};
    f.name = cut_offset(text);
    f.module = module;
    if (f.name.len == 0 || bn_str_equal(f.name, "[unknown]")) {
        f.kind = BN_FRAME_UNKNOWN;
        f.name = module;
    } else if (inlined) {
        f.kind = BN_FRAME_INLINED;
    } else if (system) {
        f.kind = BN_FRAME_SYSTEM;
    }
    return f;
}

/* Module and name are not terminated: both are copied to a buffer. */
static bn_status push(bn_stacks *stacks, uint32_t *node, const struct frame *f, bn_error *err)
{
    char module[256], unknown[BN_ARRAY_LEN(module) + 2];
    size_t n = bn_min_size(f->module.len, sizeof module - 1);
    memcpy(module, f->module.ptr, n);
    module[n] = '\0';
    struct bn_frame frame = {f->name.ptr, module, "", 0, f->kind};
    if (f->kind != BN_FRAME_UNKNOWN) return bn_stacks_push(stacks, node, &frame, f->name.len, err);
    bool bare = n == 0 || module[0] == '[';
    memcpy(unknown + !bare, module, n + 1);
    if (!bare) unknown[0] = '[', unknown[n + 1] = ']', unknown[n + 2] = '\0';
    frame.name = n == 0 ? "[unknown]" : unknown;
    return bn_stacks_push(stacks, node, &frame, SIZE_MAX, err);
}

/* ---- all of it ---- */

struct reading {
    bn_stacks *stacks;
    const char *name;
    size_t line;
    struct header sample;
    bool open, counts; /* inside a sample; of the event that is read */
    struct frame *frames;
    size_t n_frames;
    struct bn_str event;
    bool begun, periodic;
    uint64_t others; /* samples of other events */
    struct bn_tally tally;
};

static bn_status end_sample(struct reading *r, bn_error *err)
{
    uint32_t node = BN_STACKS_ROOT;
    if (!r->open) return BN_OK;
    r->open = false;
    if (!r->counts) return BN_OK;
    struct bn_frame thread = {r->sample.comm.ptr, "", "", 0, BN_FRAME_THREAD};
    BN_TRY(bn_stacks_push(r->stacks, &node, &thread, r->sample.comm.len, err));
    for (size_t i = r->n_frames; i-- > 0;)
        BN_TRY(push(r->stacks, &node, &r->frames[i], err));
    return bn_formats_add(r->stacks, &r->tally, node, 0, r->sample.period, 1, err);
}

static bn_status begin_sample(struct reading *r, bn_error *err)
{
    const struct header *h = &r->sample;
    if (!r->begun) {
        r->event = h->event;
        r->periodic = h->periodic;
        r->begun = true;
    }
    r->open = true;
    r->n_frames = 0;
    r->counts = same_text(h->event, r->event);
    r->others += !r->counts;
    if (r->counts && h->periodic != r->periodic)
        return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, r->name,
                          "line %zu: some samples have a period and some have none", r->line);
    if (h->rest.len > 0) { /* its only frame: nothing follows */
        size_t at = 0;
        if (is_address(next_word(h->rest, &at))) r->frames[r->n_frames++] = read_frame(h->rest);
    }
    return BN_OK;
}

static bn_status take_line(struct reading *r, struct bn_str line, bn_error *err)
{
    struct header h;
    if (trim(line).len == 0) return end_sample(r, err);
    if (line.ptr[0] == '#') return BN_OK;
    if (r->open && is_frame_line(line) && r->sample.rest.len == 0) {
        if (r->n_frames < MAX_FRAMES) r->frames[r->n_frames++] = read_frame(line);
        return BN_OK;
    }
    if (read_header(&h, line)) {
        BN_TRY(end_sample(r, err));
        if (begins_with(h.event, "PERF_RECORD_") || begins_with(h.rest, "PERF_RECORD_")) return BN_OK;
        r->sample = h;
        return begin_sample(r, err);
    }
    if (r->open && is_space(line.ptr[0])) return BN_OK; /* a line of source, an instruction */
    return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, r->name,
                      "line %zu is neither a sample of perf script nor a frame", r->line);
}

/* What an event counts, by its name without modifiers. */
static void name_unit(struct reading *r)
{
    static const struct {
        const char *event, *unit, *what;
    } EVENTS[] = {
        {"cpu-clock", "ns", "cpu"},
        {"task-clock", "ns", "cpu"},
        {"page-faults", "faults", "faults"},
        {"faults", "faults", "faults"},
        {"minor-faults", "faults", "faults"},
        {"major-faults", "faults", "faults"},
        {"cycles", "cycles", "cpu"},
        {"cpu-cycles", "cycles", "cpu"},
        {"instructions", "instructions", "cpu"},
    };
    size_t n = 0;
    while (n < r->event.len && r->event.ptr[n] != ':' && r->event.ptr[n] != '/')
        n++;
    const char *unit = r->periodic ? "events" : "samples", *what = "";
    for (size_t i = 0; i < BN_ARRAY_LEN(EVENTS); i++) {
        if (!bn_str_equal((struct bn_str){r->event.ptr, n}, EVENTS[i].event)) continue;
        what = EVENTS[i].what;
        if (r->periodic) unit = EVENTS[i].unit;
    }
    memcpy(r->stacks->unit, unit, strlen(unit) + 1);
    memcpy(r->stacks->what, what, strlen(what) + 1);
}

static void describe(struct reading *r)
{
    bn_json *about = r->stacks->about;
    char event[128];
    bn_json_put_string(about, "format", "perf script");
    bn_json_put_string(about, "event", bn_escape(event, sizeof event, r->event.ptr, r->event.len));
    if (r->others > 0)
        bn_json_put_u64(bn_json_add_object(bn_json_put_array(about, "left_out")), "samples", r->others);
}

bn_status bn_formats_read_perf_script(bn_stacks **out, const char *text, size_t n, const char *name,
                                      bn_error *err)
{
    struct reading r = {.name = name};
    struct bn_str line;
    BN_TRY(bn_stacks_open(out, "samples", "", err));
    r.stacks = *out;
    r.frames = bn_alloc(MAX_FRAMES, sizeof *r.frames);
    bn_status status = r.frames != NULL ? BN_OK : bn_nomem(err);
    for (size_t at = 0; status == BN_OK && bn_formats_line(&line, text, n, &at);) {
        r.line++;
        status = take_line(&r, line, err);
    }
    if (status == BN_OK) status = end_sample(&r, err);
    if (status == BN_OK && !r.begun)
        status = bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, name, "no samples found");
    if (status == BN_OK) {
        name_unit(&r);
        describe(&r);
        status = bn_json_is_complete(r.stacks->about) ? BN_OK : bn_nomem(err);
    }
    bn_free(r.frames);
    return bn_stacks_keep(out, status);
}
