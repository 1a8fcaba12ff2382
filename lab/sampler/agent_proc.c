/* SPDX-License-Identifier: MIT
 *
 * What the agent reads from /proc of its own process (see agent.c), without stdio and without allocating.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>

#include "lab/sampler/agent_inside.h"

static int open_proc(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Opens "/proc/self/task/TID/file", without stdio. */
static int open_of_thread(int tid, const char *file)
{
    char path[64], *out = path;
    char digits[12];
    size_t n = 0;
    memcpy(out, "/proc/self/task/", 16);
    out += 16;
    for (unsigned rest = (unsigned)tid; n == 0 || rest > 0; rest /= 10)
        digits[n++] = (char)('0' + rest % 10);
    while (n > 0)
        *out++ = digits[--n];
    *out++ = '/';
    memcpy(out, file, strlen(file) + 1);
    return open_proc(path);
}

bool bn_agent_read_name(int tid, char name[16])
{
    int fd = open_of_thread(tid, "comm");
    if (fd < 0) return false;
    memset(name, 0, 16);
    ssize_t got = read(fd, name, 15);
    close(fd);
    name[got > 0 ? got : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    return got > 0;
}

static const char *take_hex(const char *text, uint64_t *out)
{
    *out = 0;
    for (;; text++) {
        char c = *text;
        if (c >= '0' && c <= '9')
            *out = *out * 16 + (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            *out = *out * 16 + (uint64_t)(c - 'a' + 10);
        else
            return text;
    }
}

bool bn_agent_blocks_signal(int tid)
{
    int fd = open_of_thread(tid, "status");
    if (fd < 0) return false;
    ssize_t got = read(fd, bn_agent.bytes, BN_AGENT_READ_BYTES - 1);
    close(fd);
    bn_agent.bytes[got > 0 ? got : 0] = '\0';
    const char *line = strstr(bn_agent.bytes, "\nSigBlk:\t");
    uint64_t blocked = 0;
    if (line != NULL) take_hex(line + 9, &blocked);
    return (blocked >> (bn_agent.signal - 1) & 1) != 0;
}

/* Tells threads that asked where their stack lies. */
static void answer(uint64_t from, uint64_t to)
{
    unsigned n = atomic_load(&bn_agent.n_slots);
    for (unsigned i = 0; i < n; i++) {
        struct bn_agent_thread *slot = &bn_agent.slots[i];
        uint64_t asked = atomic_load(&slot->asked);
        if (asked < from || asked >= to) continue;
        atomic_store(&slot->stack_to, 0);
        atomic_store(&slot->stack_from, from);
        atomic_store(&slot->stack_to, to);
        atomic_store(&slot->asked, 0);
    }
}

/* A line of maps, its end included: "7f..-7f.. r-xp ...". Those of executable memory are kept. */
static size_t take_line(const char *line, size_t n, size_t n_text)
{
    uint64_t from, to;
    const char *at = take_hex(line, &from);
    if (*at != '-') return n_text;
    at = take_hex(at + 1, &to);
    if (at - line + 4 > (ptrdiff_t)n || at[0] != ' ') return n_text;
    if (at[1] == 'r' && at[2] == 'w') answer(from, to);
    if (at[3] != 'x' || n > BN_AGENT_TEXT_BYTES - n_text) return n_text;
    struct bn_agent_code *code = &bn_agent.code[!atomic_load(&bn_agent.code_turn)];
    if (code->n < BN_AGENT_CODE) {
        code->list[code->n].from = from;
        code->list[code->n].to = to;
    }
    code->n++;
    memcpy(bn_agent.text + n_text, line, n);
    return n_text + n;
}

static size_t read_maps(void)
{
    size_t n_text = 0, have = 0;
    int fd = open_proc("/proc/self/maps");
    if (fd < 0) return 0;
    unsigned other = !atomic_load(&bn_agent.code_turn);
    bn_agent.code[other].n = 0;
    for (;;) {
        ssize_t got = read(fd, bn_agent.bytes + have, BN_AGENT_READ_BYTES - have);
        if (got <= 0) break;
        have += (size_t)got;
        char *line = bn_agent.bytes, *end;
        while ((end = memchr(line, '\n', have - (size_t)(line - bn_agent.bytes))) != NULL) {
            n_text = take_line(line, (size_t)(end + 1 - line), n_text);
            line = end + 1;
        }
        have -= (size_t)(line - bn_agent.bytes);
        if (have == BN_AGENT_READ_BYTES) have = 0; /* no line is that long */
        memmove(bn_agent.bytes, line, have);
    }
    close(fd);
    if (bn_agent.code[other].n > BN_AGENT_CODE) bn_agent.code[other].n = 0;
    atomic_store(&bn_agent.code_turn, other);
    return n_text;
}

/* Into the log, when they are not as they were. */
void bn_agent_note_maps(void)
{
    uint64_t now = bn_agent_clock_ns(CLOCK_MONOTONIC), digest = 0xcbf29ce484222325u;
    size_t n = read_maps();
    for (size_t i = 0; i < n; i++)
        digest = (digest ^ (unsigned char)bn_agent.text[i]) * 0x100000001b3u;
    if (n == 0 || digest == bn_agent.text_digest) return;
    struct bn_agent_maps *maps = bn_agent_reserve(sizeof *maps + n, BN_AGENT_MAPS, now, (int)bn_agent.pid);
    if (maps == NULL) return;
    bn_agent.text_digest = digest;
    maps->n_text = n;
    memcpy(maps + 1, bn_agent.text, n);
    bn_agent_commit(&maps->record);
}
