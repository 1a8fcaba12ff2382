/* SPDX-License-Identifier: MIT
 *
 * Names of addresses. A table keeps what was found by file and address in it, so that a function in a file that
 * many processes map is looked up once.
 */
#define _GNU_SOURCE
#include "lab/symbols/symbols.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/kit/order.h"
#include "lab/symbols/object.h"

#define MAX_KERNEL_NAMES (64u << 20) /* bytes of /proc/kallsyms */

/* What there is at one address of a file. */
struct place {
    uint64_t where, file;    /* in an open hash table that only grows */
    struct bn_frame *frames; /* then the name of the first follows; NULL: free */
    uint32_t n;
    bool unknown, begins_thread;
    bool no_code; /* nothing executable is there */
};

struct bn_symbols {
    const bn_recording *recording;
    struct bn_symbols_options options;
    struct bn_symbols_counts counts;
    struct bn_objects objects;
    struct bn_kernel_names kernel;
    struct place *places; /* [room], a power of two */
    size_t n_places, room;
    char thread_module[64]; /* the file whose code calls the functions of threads, and where it does */
    uint64_t thread_call;
};

/* Numbers that do not belong to files. */
#define NO_FILE UINT64_MAX
#define KERNEL (UINT64_MAX - 1)

/* ---- names of the kernel, from /proc/kallsyms ---- */

static int symbol_order(const void *a, const void *b)
{
    const struct bn_kernel_symbol *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    size_t n = strlen(x->name), m = strlen(y->name);
    return n != m ? (n < m ? -1 : 1) : strcmp(x->name, y->name);
}

/* "ffffffff81000000 T _stext\t[module]": ends the name and the module's name where they end. */
static bool take_name(char *line, struct bn_kernel_symbol *out)
{
    char *end;
    out->start = strtoull(line, &end, 16);
    if (out->start == 0 || end[0] != ' ' || end[1] == '\0' || strchr("tTwW", end[1]) == NULL || end[2] != ' ')
        return false;
    char *name = end + 3, *module = name + strcspn(name, " \t[");
    out->module = "";
    if (*module != '\0') {
        char *bracket = strchr(module, '[');
        *module = '\0';
        if (bracket != NULL) {
            bracket[1 + strcspn(bracket + 1, "]")] = '\0';
            out->module = bracket + 1;
        }
    }
    out->name = name;
    return name[0] != '\0';
}

static bn_status read_symbols(struct bn_kernel_names *kernel, const char *path, bn_error *err)
{
    bn_error ignored = {0};
    size_t lines = 0;
    kernel->read = true;
    kernel->text.max = MAX_KERNEL_NAMES;
    if (bn_file_read(path, &kernel->text, &ignored) != BN_OK || kernel->text.data == NULL) return BN_OK;
    for (size_t i = 0; i < kernel->text.len; i++)
        lines += kernel->text.data[i] == '\n';
    BN_TRY(BN_NEW(kernel->symbols, lines + 1, err));
    for (char *line = kernel->text.data, *next; line != NULL && *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        kernel->n += take_name(line, &kernel->symbols[kernel->n]);
    }
    if (kernel->n > 0) qsort(kernel->symbols, kernel->n, sizeof *kernel->symbols, symbol_order);
    return BN_OK;
}

bn_status bn_kernel_symbol(struct bn_kernel_names *kernel, const char *path, uint64_t address,
                           const struct bn_kernel_symbol **found, bn_error *err)
{
    *found = NULL;
    if (!kernel->read) BN_TRY(read_symbols(kernel, path != NULL ? path : "/proc/kallsyms", err));
    size_t at;
    BN_SEARCH(at, kernel->n, kernel->symbols[at].start <= address);
    if (at == 0) return BN_OK;
    const struct bn_kernel_symbol *s = &kernel->symbols[at - 1];
    while (s > kernel->symbols && s[-1].start == s->start) /* the first of aliases */
        s--;
    *found = s;
    return BN_OK;
}

void bn_kernel_release(struct bn_kernel_names *kernel)
{
    bn_buf_release(&kernel->text);
    bn_free(kernel->symbols);
    *kernel = (struct bn_kernel_names){0};
}

/* ---- where threads begin ---- */

static void *return_address(void *unused)
{
    (void)unused;
    return __builtin_return_address(0);
}

/* Stripped C libraries do not name the function that threads begin in: one is asked where it was called. */
static void learn_thread_call(bn_symbols *s)
{
    pthread_t thread;
    void *address = NULL;
    Dl_info library;
    if (pthread_create(&thread, NULL, return_address, NULL) != 0 || pthread_join(thread, &address) != 0 ||
        dladdr(address, &library) == 0)
        return;
    const char *slash = strrchr(library.dli_fname, '/');
    snprintf(s->thread_module, sizeof s->thread_module, "%s", slash == NULL ? library.dli_fname : slash + 1);
    s->thread_call = (uint64_t)((uintptr_t)address - (uintptr_t)library.dli_fbase) - 1;
}

enum bn_root bn_symbols_root(const char *name)
{
    static const char OWN[] = " main gomp_thread_start __kmp_launch_worker _dl_start_user ",
                      AROUND[] = " _start __libc_start_main __libc_start_main_impl __libc_start_call_main "
                                 "clone __clone clone3 __clone3 __clone_internal start_thread ";
    char word[64];
    snprintf(word, sizeof word, " %.60s ", name);
    return strstr(OWN, word) != NULL      ? BN_ROOT_OWN
           : strstr(AROUND, word) != NULL ? BN_ROOT_AROUND
                                          : BN_ROOT_NONE;
}

/* ---- places ---- */

/* Bytes of a symbol's name that name the function: parts of one are that one. */
static size_t function_name_bytes(const char *name)
{
    static const char *const PARTS[] = {".cold", ".part", ".constprop", ".isra", ".lto_priv"};
    size_t n = strcspn(name, "@");
    for (bool again = true; again;) {
        size_t end = n;
        again = false;
        while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9')
            end--;
        end = end < n && end > 0 && name[end - 1] == '.' ? end - 1 : n;
        for (size_t i = 0; i < BN_ARRAY_LEN(PARTS) && !again; i++) {
            size_t m = strlen(PARTS[i]);
            if (end <= m || memcmp(name + end - m, PARTS[i], m) != 0 || (end == n && i != 0)) continue;
            n = end - m;
            again = true;
        }
    }
    return n > 0 ? n : strlen(name);
}

/* Makes a place of n frames, of which the first has a name of n_name bytes. */
static bn_status make_place(struct place *place, size_t n, const char *name, size_t n_name,
                            const char *module, enum bn_frame_kind kind, bn_error *err)
{
    struct bn_frame *frames = bn_alloc(1, n * sizeof *frames + n_name + 1);
    if (frames == NULL) return bn_nomem(err);
    char *copy = (char *)(frames + n);
    memcpy(copy, name, n_name);
    copy[n_name] = '\0';
    frames[0] = (struct bn_frame){copy, module, "", 0, kind};
    *place = (struct place){.frames = frames, .n = (uint32_t)n};
    return BN_OK;
}

static bn_status unknown_place(struct place *place, const char *name, const char *module, bn_error *err)
{
    BN_TRY(make_place(place, 1, name, strlen(name), module, BN_FRAME_UNKNOWN, err));
    place->unknown = true;
    return BN_OK;
}

/* "[libc.so.6]", or the name that memory without a file has. */
static bn_status unknown_in(struct place *place, const struct bn_object *o, bn_error *err)
{
    char name[300];
    if (o->path[0] == '[') return unknown_place(place, o->path, "", err);
    if (o->path[0] == '\0' || strncmp(o->path, "//anon", 6) == 0)
        return unknown_place(place, "[unknown]", "", err);
    snprintf(name, sizeof name, "[%.255s]", o->module);
    return unknown_place(place, name, o->module, err);
}

static bn_status known_place(bn_symbols *s, struct place *place, const struct bn_object *o, uint64_t address,
                             bn_error *err)
{
    struct bn_scope scopes[BN_OBJECT_MAX_SCOPES] = {{0}};
    const char *symbol = bn_object_symbol(o, address);
    size_t n = bn_object_scopes(o, address, scopes);
    const char *name = symbol != NULL ? symbol : n > 0 ? scopes[0].name : NULL;
    if (name == NULL) {
        BN_TRY(unknown_in(place, o, err));
        place->begins_thread = bn_object_has_no_caller(o, address) ||
                               (address == s->thread_call && strcmp(o->module, s->thread_module) == 0);
        return BN_OK;
    }
    if (n == 0 || !s->options.inlined) n = 1;
    BN_TRY(make_place(place, n, name, function_name_bytes(name), o->module, BN_FRAME_CODE, err));
    scopes[0].name = place->frames[0].name;
    for (size_t i = 0; i < n; i++)
        place->frames[i] = (struct bn_frame){scopes[i].name != NULL ? scopes[i].name : "[unknown]", o->module,
                                             scopes[i].file != NULL ? scopes[i].file : "", scopes[i].line,
                                             i == 0 ? BN_FRAME_CODE : BN_FRAME_INLINED};
    place->begins_thread = bn_symbols_root(scopes[0].name) != BN_ROOT_NONE;
    return BN_OK;
}

static bn_status kernel_place(bn_symbols *s, struct place *place, uint64_t address, bn_error *err)
{
    const struct bn_kernel_symbol *symbol;
    BN_TRY(bn_kernel_symbol(&s->kernel, NULL, address, &symbol, err));
    const char *name = symbol != NULL ? symbol->name : "[kernel]";
    const char *module = symbol != NULL && symbol->module[0] != '\0' ? symbol->module : "[kernel]";
    BN_TRY(make_place(place, 1, name, function_name_bytes(name), module, BN_FRAME_SYSTEM, err));
    place->unknown = symbol == NULL;
    return BN_OK;
}

static struct place *slot_of(struct place *places, size_t room, uint64_t where, uint64_t file)
{
    uint64_t h = (where ^ (file * UINT64_C(0xC2B2AE3D27D4EB4F))) * UINT64_C(0x9E3779B97F4A7C15);
    size_t i = (size_t)(h ^ (h >> 29)) & (room - 1);
    while (places[i].frames != NULL && (places[i].where != where || places[i].file != file))
        i = (i + 1) & (room - 1);
    return &places[i];
}

static bn_status make_room(bn_symbols *s, bn_error *err)
{
    size_t room = s->room == 0 ? 1024 : 2 * s->room;
    if (2 * (s->n_places + 1) <= s->room) return BN_OK;
    struct place *places = bn_alloc(room, sizeof *places);
    if (places == NULL) return bn_nomem(err);
    for (size_t i = 0; i < s->room; i++)
        if (s->places[i].frames != NULL)
            *slot_of(places, room, s->places[i].where, s->places[i].file) = s->places[i];
    bn_free(s->places);
    s->places = places;
    s->room = room;
    return BN_OK;
}

/* The place of an address of a process at a time, or of the operating system. */
static bn_status find_at(bn_symbols *s, uint32_t pid, uint64_t address, uint64_t time_ns, bool caller,
                         bool system, struct place *place, bn_error *err)
{
    if (caller && address > 0) address--;
    const struct bn_mapping *mapping =
        system ? NULL : bn_recording_mapping(s->recording, pid, address, time_ns);
    uint64_t file = system ? KERNEL : NO_FILE, where = address;
    const struct bn_object *o = NULL;
    bool readable = false;
    if (mapping != NULL) {
        uint32_t object;
        BN_TRY(bn_objects_find(&s->objects, s->recording, mapping, &object, err));
        o = s->objects.list[object];
        readable = o->dwfl != NULL && bn_object_place(o, mapping, address, &where);
        file = readable ? 2 * (uint64_t)object + 1 : 2 * (uint64_t)object;
    }
    BN_TRY(make_room(s, err));
    struct place *slot = slot_of(s->places, s->room, where, file);
    if (slot->frames != NULL) {
        *place = *slot;
        return BN_OK;
    }
    if (system)
        BN_TRY(kernel_place(s, place, address, err));
    else if (o == NULL)
        BN_TRY(unknown_place(place, "[unknown]", "", err));
    else if (readable)
        BN_TRY(known_place(s, place, o, where, err));
    else
        BN_TRY(unknown_in(place, o, err));
    place->no_code = o == NULL && !system;
    s->counts.addresses++;
    s->counts.unknown += place->unknown;
    s->counts.other_builds += o != NULL && o->other_build;
    place->where = where;
    place->file = file;
    *slot = *place;
    s->n_places++;
    return BN_OK;
}

bn_status bn_symbols_at(bn_symbols *symbols, uint32_t pid, uint64_t address, uint64_t time_ns, bool caller,
                        bool system, const struct bn_frame **frames, size_t *n, bn_error *err)
{
    struct place place;
    BN_TRY(find_at(symbols, pid, address, time_ns, caller, system, &place, err));
    *frames = place.frames;
    *n = place.n;
    return BN_OK;
}

bn_status bn_symbols_chain(bn_symbols *symbols, const struct bn_sample *sample, const uint64_t *chain,
                           size_t *n_chain, bn_error *err)
{
    for (size_t i = sample->n_system; i < *n_chain; i++) {
        struct place place;
        BN_TRY(find_at(symbols, sample->pid, chain[i], sample->time_ns, BN_SAMPLE_IS_CALLER(sample, i), false,
                       &place, err));
        if (place.no_code) *n_chain = i > 0 ? i : 1;
    }
    return BN_OK;
}

bn_status bn_symbols_rooted(bn_symbols *symbols, const struct bn_sample *sample, const uint64_t *chain,
                            size_t n_chain, bool *rooted, bn_error *err)
{
    *rooted = false;
    /* A C library without symbols may be around main by two frames. */
    for (size_t i = n_chain, seen = 0; i-- > sample->n_system && seen < 3 && !*rooted; seen++) {
        struct place place;
        BN_TRY(find_at(symbols, sample->pid, chain[i], sample->time_ns, BN_SAMPLE_IS_CALLER(sample, i), false,
                       &place, err));
        *rooted = place.begins_thread;
        if (!place.unknown) break;
    }
    return BN_OK;
}

/* ---- opening and closing ---- */

bn_status bn_symbols_open(bn_symbols **out, const bn_recording *recording,
                          const struct bn_symbols_options *options, bn_error *err)
{
    *out = NULL;
    bn_symbols *s = bn_alloc(1, sizeof *s);
    if (s == NULL) return bn_nomem(err);
    s->recording = recording;
    if (options != NULL) s->options = *options;
    bn_status status = bn_objects_open(&s->objects, s->options.debug_path, err);
    if (status == BN_OK) {
        learn_thread_call(s);
        *out = s;
    } else {
        bn_symbols_close(s);
    }
    return status;
}

void bn_symbols_close(bn_symbols *symbols)
{
    if (symbols == NULL) return;
    bn_objects_release(&symbols->objects);
    bn_kernel_release(&symbols->kernel);
    for (size_t i = 0; i < symbols->room; i++)
        bn_free(symbols->places[i].frames);
    bn_free(symbols->places);
    bn_free(symbols);
}

struct bn_symbols_counts bn_symbols_counts(const bn_symbols *symbols)
{
    return symbols->counts;
}

struct bn_objects *bn_symbols_objects(bn_symbols *symbols)
{
    return &symbols->objects;
}
