/* SPDX-License-Identifier: MIT
 *
 * The output of `perf script`: for each sample a line "comm pid/tid [cpu] time: period event:", then its
 * frames, innermost first, "address symbol+0xoffset (module)", then an empty line. A command name may
 * contain spaces, so a line is parsed from its time on, the first part that is unambiguous.
 *
 * Only the first event is read; about has the number of samples of the others.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lab/formats/document.h"

#define MAX_FRAMES 4096u /* of a sample; more are ignored */
#define BLANKS " \t"
#define DIGITS "0123456789"

/* Texts point into the copy of the text whose lines are read. */
struct header {
    const char *comm, *event;
    char *rest; /* a frame on the same line, or nothing */
    bool periodic;
    double period;
};

struct frame {
    const char *name, *module;
    enum bn_frame_kind kind;
};

/* ---- words ---- */

static bool ends_here(const char *at)
{
    return *at == '\0' || strchr(BLANKS, *at) != NULL;
}

/* Cuts blanks off both ends. */
static char *trim(char *text)
{
    text += strspn(text, BLANKS);
    for (size_t n = strlen(text); n > 0 && ends_here(text + n - 1); n--)
        text[n - 1] = '\0';
    return text;
}

/* "123" or "123/124"; perf gives -1 for what has no number. */
static bool is_pid(const char *word)
{
    for (unsigned part = 0; part < 2; part++) {
        word += *word == '-';
        size_t digits = strspn(word, DIGITS);
        word += digits;
        if (digits == 0 || (*word != '/' && !ends_here(word))) return false;
        if (*word++ != '/') return true;
    }
    return false;
}

/* "33657.973070:" */
static bool is_time(const char *word)
{
    size_t whole = strspn(word, DIGITS), part = word[whole] == '.' ? strspn(word + whole + 1, DIGITS) : 0;
    return whole > 0 && part > 0 && word[whole + 1 + part] == ':' && ends_here(word + whole + part + 2);
}

static bool is_address(const char *word)
{
    size_t n = strspn(word, DIGITS "abcdef");
    return n > 0 && ends_here(word + n);
}

static bool is_frame_line(const char *line)
{
    return line[0] != '\0' && ends_here(line) && is_address(line + strspn(line, BLANKS));
}

/* ---- the line of a sample ---- */

/* Divides the line into its parts; leaves it alone when it is not one of a sample. */
static bool read_header(struct header *h, char *line)
{
    char *time = NULL, *pid = NULL, *first = line + strspn(line, BLANKS);
    for (char *word = first; *word != '\0' && time == NULL;) {
        if (is_time(word)) time = word;
        if (word > first && is_pid(word)) pid = word; /* the last one counts: [cpu] and flags may follow */
        word += strcspn(word, BLANKS);
        word += strspn(word, BLANKS);
    }
    if (time == NULL || pid == NULL) return false;
    *h = (struct header){.event = "", .period = 1};
    char *at = time + strcspn(time, BLANKS);
    at += strspn(at, BLANKS);
    if (strspn(at, DIGITS) > 0 && ends_here(at + strspn(at, DIGITS))) {
        h->periodic = true;
        h->period = strtod(at, &at);
        at += strspn(at, BLANKS);
    }
    size_t n = strcspn(at, BLANKS);
    if (n > 1 && at[n - 1] == ':') {
        h->event = at;
        at += n;
        at[-1] = '\0';
    }
    h->rest = trim(at);
    *pid = '\0';
    h->comm = trim(line);
    return true;
}

bool bn_formats_is_perf_script(const char *text, size_t n)
{
    char begin[1024]; /* of a line: its time is there */
    struct bn_str line;
    struct header h;
    for (size_t at = 0; bn_formats_line(&line, text, n, &at);) {
        size_t kept = bn_min_size(line.len, sizeof begin - 1);
        memcpy(begin, line.ptr, kept);
        begin[kept] = '\0';
        if (trim(begin)[0] != '\0' && line.ptr[0] != '#') return read_header(&h, begin);
    }
    return false;
}

/* ---- frames ---- */

/* Cuts " (module)" off the end of a text, and gives the module; NULL without one. A name may contain parentheses
 * and end in " (deleted)". */
static char *cut_module(char *text)
{
    static const char DELETED[] = " (deleted)";
    size_t n = strlen(text), n_deleted = sizeof DELETED - 1;
    if (n == 0 || text[n - 1] != ')') return NULL;
    size_t end = n - 1;
    if (end >= n_deleted && memcmp(text + end - n_deleted, DELETED, n_deleted) == 0) end -= n_deleted;
    for (size_t i = end; i-- > 0;) {
        if (text[i] != '(' || (i > 0 && !ends_here(text + i - 1))) continue;
        text[end] = text[i] = '\0';
        (void)trim(text);
        return text + i + 1;
    }
    return NULL;
}

/* "inner+0x29" */
static void cut_offset(char *name)
{
    char *plus = strrchr(name, '+');
    if (plus != NULL && plus > name && strncmp(plus, "+0x", 3) == 0 && is_address(plus + 3)) *plus = '\0';
}

/* The upper half of the addresses is the kernel's; so are its modules, "[kernel.kallsyms]" and "x.ko". */
static bool is_system(const char *address, const char *module)
{
    return (address[0] == 'f' && strcspn(address, BLANKS) == 16) || strncmp(module, "[kernel", 7) == 0 ||
           strncmp(module, "[guest.kernel", 13) == 0 ||
           (module[0] == '/' && strstr(module, ".ko") != NULL && strstr(module, "/modules/") != NULL);
}

static struct frame read_frame(char *line)
{
    struct frame f = {.kind = BN_FRAME_CODE};
    const char *address = line + strspn(line, BLANKS);
    char *text = trim(line + (address - line) + strcspn(address, BLANKS)), *module = cut_module(text);
    bool inlined = module != NULL && strcmp(module, "inlined") == 0;
    f.module = module == NULL || inlined || strcmp(module, "[unknown]") == 0 ? "" : module;
    bool system = is_system(address, f.module);
    if (f.module[0] == '/') f.module = strrchr(f.module, '/') + 1;
    cut_offset(text);
    f.name = text;
    if (text[0] == '\0' || strcmp(text, "[unknown]") == 0)
        f.kind = BN_FRAME_UNKNOWN;
    else if (inlined)
        f.kind = BN_FRAME_INLINED;
    else if (system)
        f.kind = BN_FRAME_SYSTEM;
    return f;
}

static bn_status push(bn_stacks *stacks, uint32_t *node, const struct frame *f, bn_error *err)
{
    char unknown[260];
    struct bn_frame frame = {f->name, f->module, "", 0, f->kind};
    if (f->kind == BN_FRAME_UNKNOWN) {
        bool bare = f->module[0] == '[';
        snprintf(unknown, sizeof unknown, bare ? "%.255s" : "[%.255s]",
                 f->module[0] != '\0' ? f->module : "unknown");
        frame.name = unknown;
    }
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
    const char *event; /* NULL before the first sample */
    bool periodic;
    uint64_t others; /* samples of other events */
    struct bn_tally tally;
};

static bn_status end_sample(struct reading *r, bn_error *err)
{
    uint32_t node = BN_STACKS_ROOT;
    bool counts = r->open && r->counts;
    r->open = false;
    if (!counts) return BN_OK;
    BN_TRY(bn_stacks_push_name(r->stacks, &node, BN_FRAME_THREAD, r->sample.comm, err));
    for (size_t i = r->n_frames; i-- > 0;)
        BN_TRY(push(r->stacks, &node, &r->frames[i], err));
    return bn_formats_add(r->stacks, &r->tally, node, 0, r->sample.period, 1, err);
}

static bn_status begin_sample(struct reading *r, bn_error *err)
{
    const struct header *h = &r->sample;
    if (r->event == NULL) {
        r->event = h->event;
        r->periodic = h->periodic;
    }
    r->open = true;
    r->n_frames = 0;
    r->counts = strcmp(h->event, r->event) == 0;
    r->others += !r->counts;
    if (r->counts && h->periodic != r->periodic)
        return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, r->name,
                          "line %zu: some samples have a period and some have none", r->line);
    /* Its only frame: nothing follows. */
    if (is_address(h->rest)) r->frames[r->n_frames++] = read_frame(h->rest);
    return BN_OK;
}

static bn_status take_line(struct reading *r, char *line, bn_error *err)
{
    struct header h;
    if (line[0] == '#') return BN_OK;
    if (line[strspn(line, BLANKS)] == '\0') return end_sample(r, err);
    if (r->open && is_frame_line(line) && r->sample.rest[0] == '\0') {
        if (r->n_frames < MAX_FRAMES) r->frames[r->n_frames++] = read_frame(line);
        return BN_OK;
    }
    bool indented = ends_here(line);
    if (read_header(&h, line)) {
        BN_TRY(end_sample(r, err));
        if (strncmp(h.event, "PERF_RECORD_", 12) == 0 || strncmp(h.rest, "PERF_RECORD_", 12) == 0)
            return BN_OK;
        r->sample = h;
        return begin_sample(r, err);
    }
    if (r->open && indented) return BN_OK; /* a line of source, an instruction */
    return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, r->name,
                      "line %zu is neither a sample of perf script nor a frame", r->line);
}

/* What an event counts, by its name without modifiers; and what was read. */
static void describe(struct reading *r)
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
    bn_json *about = r->stacks->about;
    size_t n = strcspn(r->event, ":/");
    const char *unit = r->periodic ? "events" : "samples", *what = "";
    char event[128];
    for (size_t i = 0; i < BN_ARRAY_LEN(EVENTS); i++) {
        if (strlen(EVENTS[i].event) != n || memcmp(r->event, EVENTS[i].event, n) != 0) continue;
        what = EVENTS[i].what;
        if (r->periodic) unit = EVENTS[i].unit;
    }
    memcpy(r->stacks->unit, unit, strlen(unit) + 1);
    memcpy(r->stacks->what, what, strlen(what) + 1);
    bn_json_put_string(about, "format", "perf script");
    bn_json_put_string(about, "event", bn_escape(event, sizeof event, r->event, strlen(r->event)));
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
    char *copy = bn_strndup(text, n);
    bn_status status = r.frames != NULL && copy != NULL ? BN_OK : bn_nomem(err);
    for (size_t at = 0; status == BN_OK && bn_formats_line(&line, text, n, &at);) {
        char *begin = copy + (line.ptr - text);
        begin[line.len] = '\0';
        r.line++;
        status = take_line(&r, begin, err);
    }
    if (status == BN_OK) status = end_sample(&r, err);
    if (status == BN_OK && r.event == NULL)
        status = bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, name, "no samples found");
    if (status == BN_OK) {
        describe(&r);
        status = bn_json_is_complete(r.stacks->about) ? BN_OK : bn_nomem(err);
    }
    bn_free(r.frames);
    bn_free(copy);
    return bn_stacks_keep(out, status);
}
