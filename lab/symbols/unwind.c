/* SPDX-License-Identifier: MIT
 *
 * Call chains from copied stacks: libdwfl follows the unwind tables of the files, with the registers and
 * the stack of a sample in place of those of a process. See symbols.h.
 */
#include <string.h>

#include "base/error.h"
#include "lab/symbols/object.h"
#include "lab/symbols/symbols.h"

/* How many of the numbers of a sample libdwfl takes as registers; the program counter is the last of them, or
 * comes after them. */
#define N_REGISTERS (BN_RECORD_PC == 16 ? 17u : 32u)

#define N_SESSIONS 8u             /* processes whose files are kept open */
#define LARGEST_STACK (64u << 20) /* bytes; memory further above the stack pointer is not stack */

/* The files of a process, at its addresses. */
struct session {
    uint32_t pid;
    uint64_t from_ns, to_ns; /* while its mappings are these */
    Dwfl *dwfl;              /* NULL: it cannot be unwound */
};

struct unwinding {
    bn_symbols *symbols;
    struct bn_objects *objects;
    bn_recording *recording;
    const struct bn_sample *sample; /* the one at work */
    const uint64_t *registers;
    struct session sessions[N_SESSIONS];
    size_t next_session;
    size_t n_chain;
    bool past_dump; /* the stack continues where its copy ends */
    bool deeper;
    bool no_memory;
    uint64_t chain[BN_RECORDING_MAX_CHAIN];
};

/* ---- what libdwfl asks for ---- */

static pid_t next_thread(Dwfl *dwfl, void *user, void **thread_user)
{
    (void)dwfl, (void)user, (void)thread_user;
    return 0;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *user, void **thread_user)
{
    (void)dwfl, (void)tid;
    *thread_user = user;
    return true;
}

static bool read_file(struct unwinding *u, uint64_t address, uint64_t *word)
{
    uint32_t number;
    bn_error err = {0};
    const struct bn_mapping *m =
        bn_recording_mapping(u->recording, u->sample->pid, address, u->sample->time_ns);
    if (m == NULL) return false;
    if (bn_objects_find(u->objects, u->recording, m, &number, &err) != BN_OK) {
        u->no_memory = true;
        return false;
    }
    return bn_object_read(u->objects->list[number], m, address, word);
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *word, void *user)
{
    (void)dwfl;
    struct unwinding *u = user;
    uint64_t at = address - u->registers[BN_RECORD_SP];
    /* Just below the stack lies what was taken from it last. Behind the end of a frame that is the caller's
     * frame pointer, which tables still say to be there, and which is in its register again. */
    if (at == -sizeof *word) {
        *word = u->registers[BN_RECORD_FP];
        return true;
    }
    if (at < LARGEST_STACK) {
        if (at + sizeof *word <= u->sample->n_dump) {
            memcpy(word, u->recording->dumps + u->sample->dump + at, sizeof *word);
            return true;
        }
        u->past_dump = true;
        return false;
    }
    return read_file(u, address, word);
}

static bool set_registers(Dwfl_Thread *thread, void *user)
{
    const struct unwinding *u = user;
    if (!dwfl_thread_state_registers(thread, 0, N_REGISTERS, u->registers)) return false;
    if (BN_RECORD_PC >= N_REGISTERS) dwfl_thread_state_register_pc(thread, u->registers[BN_RECORD_PC]);
    return true;
}

static const Dwfl_Thread_Callbacks CALLBACKS = {.next_thread = next_thread,
                                                .get_thread = get_thread,
                                                .memory_read = read_memory,
                                                .set_initial_registers = set_registers};

static int take_frame(Dwfl_Frame *frame, void *user)
{
    struct unwinding *u = user;
    Dwarf_Addr address;
    bool exact; /* no return address: the thread was there, or a signal met it there */
    if (!dwfl_frame_pc(frame, &address, &exact)) return DWARF_CB_ABORT;
    if (u->n_chain == BN_RECORDING_MAX_CHAIN - u->sample->n_system) {
        u->deeper = true;
        return DWARF_CB_ABORT;
    }
    /* All addresses of a chain but the first are looked up at the address before. */
    u->chain[u->n_chain] = exact && u->n_chain > 0 ? address + 1 : address;
    u->n_chain++;
    return DWARF_CB_OK;
}

/* ---- the files of a process ---- */

static bool is_reported(const struct bn_recording *r, const struct bn_mapping *mapping, uint64_t time_ns)
{
    /* A file with several executable parts is one module. */
    size_t n;
    for (const struct bn_mapping *m = bn_recording_mappings_of(r, mapping->pid, &n); m != mapping; m++)
        if (m->file_offset - m->start == mapping->file_offset - mapping->start &&
            strcmp(m->path, mapping->path) == 0 && bn_recording_mapping(r, m->pid, m->start, time_ns) == m)
            return true;
    return false;
}

static bn_status report_files(struct unwinding *u, struct session *session, uint64_t time_ns, bn_error *err)
{
    const bn_recording *r = u->recording;
    size_t n;
    for (const struct bn_mapping *m = bn_recording_mappings_of(r, session->pid, &n); n-- > 0; m++) {
        uint32_t number;
        uint64_t bias;
        if (bn_recording_mapping(r, m->pid, m->start, time_ns) != m) {
            if (m->time_ns > time_ns && m->time_ns < session->to_ns) session->to_ns = m->time_ns;
            if (m->time_ns <= time_ns && m->time_ns > session->from_ns) session->from_ns = m->time_ns;
            continue;
        }
        BN_TRY(bn_objects_find(u->objects, r, m, &number, err));
        const struct bn_object *o = u->objects->list[number];
        if (o->dwfl != NULL && o->native && bn_object_bias(o, m, &bias) && !is_reported(r, m, time_ns))
            bn_object_report(o, session->dwfl, bias);
    }
    return BN_OK;
}

static void end_session(struct session *session)
{
    if (session->dwfl != NULL) dwfl_end(session->dwfl);
    *session = (struct session){0};
}

static bn_status find_session(struct unwinding *u, struct session **out, bn_error *err)
{
    uint32_t pid = u->sample->pid;
    uint64_t now = u->sample->time_ns;
    for (size_t i = 0; i < N_SESSIONS; i++) {
        *out = &u->sessions[i];
        if ((*out)->to_ns > 0 && (*out)->pid == pid && (*out)->from_ns <= now && now < (*out)->to_ns)
            return BN_OK;
    }
    struct session *s = *out = &u->sessions[u->next_session++ % N_SESSIONS];
    end_session(s);
    *s = (struct session){.pid = pid, .to_ns = UINT64_MAX, .dwfl = dwfl_begin(&u->objects->callbacks)};
    if (s->dwfl == NULL) return bn_nomem(err);
    dwfl_report_begin(s->dwfl);
    bn_status status = report_files(u, s, now, err);
    if (dwfl_report_end(s->dwfl, NULL, NULL) != 0 ||
        !dwfl_attach_state(s->dwfl, NULL, (pid_t)pid, &CALLBACKS, u)) {
        dwfl_end(s->dwfl);
        s->dwfl = NULL;
    }
    return status;
}

/* ---- samples ---- */

static bn_status replace_chain(struct unwinding *u, struct bn_sample *sample, bn_error *err)
{
    bn_recording *r = u->recording;
    size_t n = sample->n_system + u->n_chain;
    if (n > sample->n_chain) {
        BN_TRY(
            bn_array_grow(&r->addresses, &r->addresses_room, r->n_addresses + n, sizeof *r->addresses, err));
        memcpy(r->addresses + r->n_addresses, r->addresses + sample->chain,
               sample->n_system * sizeof *r->addresses);
        sample->chain = r->n_addresses;
        r->n_addresses += n;
    }
    memcpy(r->addresses + sample->chain + sample->n_system, u->chain, u->n_chain * sizeof *u->chain);
    sample->n_chain = (uint16_t)n;
    sample->flags &= (uint16_t)~BN_SAMPLE_CUT;
    sample->flags |= BN_SAMPLE_UNWOUND;
    if (u->deeper) sample->flags |= BN_SAMPLE_CUT;
    return BN_OK;
}

/* Where the copy of the stack ended, frame pointers may have the rest: after the outermost address that both
 * chains have. */
static void splice(struct unwinding *u, const uint64_t *old, size_t n_old)
{
    for (size_t i = u->n_chain; i-- > 1;)
        for (size_t j = 1; j < n_old; j++) {
            if (old[j] != u->chain[i]) continue;
            size_t more = bn_min_size(n_old - j - 1, BN_RECORDING_MAX_CHAIN - u->sample->n_system - i - 1);
            memcpy(u->chain + i + 1, old + j + 1, more * sizeof *old);
            u->n_chain = i + 1 + more;
            return;
        }
}

static bn_status unwind_sample(struct unwinding *u, struct bn_sample *sample, bn_error *err)
{
    struct session *session;
    bool was_rooted, is_rooted;
    u->sample = sample;
    u->registers = u->recording->registers + sample->registers;
    u->n_chain = 0;
    u->past_dump = u->deeper = false;
    BN_TRY(find_session(u, &session, err));
    if (session->dwfl == NULL) return BN_OK;
    /* This fails at the start of a thread, and elsewhere. The frames up to there are kept. */
    (void)dwfl_getthread_frames(session->dwfl, (pid_t)sample->tid, take_frame, u);
    if (u->no_memory) return bn_nomem(err);
    struct bn_sample own = *sample;
    own.n_system = 0;
    const uint64_t *old = u->recording->addresses + sample->chain + sample->n_system;
    size_t n_old = (size_t)sample->n_chain - sample->n_system;
    BN_TRY(bn_symbols_chain(u->symbols, &own, old, &n_old, err));
    BN_TRY(bn_symbols_rooted(u->symbols, &own, old, n_old, &was_rooted, err));
    if (u->past_dump) splice(u, old, n_old);
    BN_TRY(bn_symbols_rooted(u->symbols, &own, u->chain, u->n_chain, &is_rooted, err));
    sample->flags &= (uint16_t)~BN_SAMPLE_DUMP_CUT;
    if (u->past_dump && !is_rooted && !was_rooted) sample->flags |= BN_SAMPLE_DUMP_CUT;
    /* Frame pointers leave out a function that has not set its own yet: of two chains to the root the longer
     * one knows more. */
    bool further = is_rooted != was_rooted ? is_rooted : u->n_chain > n_old;
    return further ? replace_chain(u, sample, err) : BN_OK;
}

bn_status bn_symbols_unwind(bn_symbols *symbols, bn_recording *recording, bn_error *err)
{
    bn_status status = BN_OK;
    struct unwinding *u = bn_alloc(1, sizeof *u);
    if (u == NULL) return bn_nomem(err);
    u->symbols = symbols;
    u->objects = bn_symbols_objects(symbols);
    u->recording = recording;
    for (size_t i = 0; i < recording->n_samples && status == BN_OK; i++)
        if (recording->samples[i].n_dump > 0) status = unwind_sample(u, &recording->samples[i], err);
    for (size_t i = 0; i < N_SESSIONS; i++)
        end_session(&u->sessions[i]);
    bn_free(u);
    return status;
}
