/* SPDX-License-Identifier: MIT
 *
 * The messages of a conversation: an optional system message, then turns, each of a message of the user and its
 * answer.
 */
#include "base/error.h"
#include "tools/run/chat/chat.h"

static void take_out(struct bn_turns *turns, size_t at, size_t n)
{
    for (size_t i = at; i < at + n; i++)
        bn_free((void *)(uintptr_t)turns->list[i].content);
    turns->n -= n;
    memmove(turns->list + at, turns->list + at + n, (turns->n - at) * sizeof *turns->list);
}

static bool is_user(const struct bn_turns *turns, size_t i)
{
    return strcmp(turns->list[i].role, "user") == 0;
}

void bn_turns_drop(struct bn_turns *turns, size_t n)
{
    take_out(turns, turns->n_system, n);
}

size_t bn_turns_oldest(const struct bn_turns *turns, size_t n_before)
{
    size_t first = turns->n_system + n_before, n = 1;
    while (first + n < turns->n && !is_user(turns, first + n))
        n++;
    return first + n < turns->n ? n : 0;
}

static bn_status insert(struct bn_turns *turns, size_t at, const char *role, const char *text, size_t n_bytes,
                        bn_error *err)
{
    char *copy = bn_strndup(text, n_bytes);
    if (copy == NULL) return bn_nomem(err);
    memmove(turns->list + at + 1, turns->list + at, (turns->n - at) * sizeof *turns->list);
    turns->list[at] = (bn_message){role, copy};
    turns->n++;
    return BN_OK;
}

bn_status bn_turns_add(struct bn_turns *turns, const char *role, const char *text, size_t n_bytes,
                       bn_error *err)
{
    /* One place is left for a system message. */
    if (turns->n + 1 >= BN_CHAT_MAX_MESSAGES) bn_turns_drop(turns, bn_turns_oldest(turns, 0));
    return insert(turns, turns->n, role, text, n_bytes, err);
}

bn_status bn_turns_set_system(struct bn_turns *turns, const char *text, bn_error *err)
{
    take_out(turns, 0, turns->n_system);
    turns->n_system = 0;
    if (text[0] == '\0') return BN_OK;
    BN_TRY(insert(turns, 0, "system", text, strlen(text), err));
    turns->n_system = 1;
    return BN_OK;
}

size_t bn_turns_count(const struct bn_turns *turns)
{
    size_t n = 0;
    for (size_t i = turns->n_system; i < turns->n; i++)
        n += is_user(turns, i);
    return n;
}

void bn_turns_pop(struct bn_turns *turns)
{
    take_out(turns, turns->n - 1, 1);
}

void bn_turns_clear(struct bn_turns *turns)
{
    bn_turns_drop(turns, turns->n - turns->n_system);
}

void bn_turns_release(struct bn_turns *turns)
{
    take_out(turns, 0, turns->n);
    turns->n_system = 0;
}
