/* SPDX-License-Identifier: MIT
 *
 * bn-run inspect: the memory that a model needs and that this machine has, before anything of it is taken.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "infer/session.h"
#include "lab/report/table.h"
#include "lab/report/units.h"
#include "model/repack.h"
#include "tools/run/run.h"

#define SOME_TOKENS 1000u

struct memory {
    uint32_t n_ctx;
    uint64_t file, copies, some_cache, cache, state, scratch;
    uint64_t needed; /* without copies */
    uint64_t available;
    const char *verdict, *text;
};

static void judge(struct memory *m, bool copies)
{
    static const struct {
        const char *verdict, *text;
    } VERDICTS[] = {
        {"no", "The context does not fit into memory: use a smaller one (--ctx)."},
        {"from-disk", "The context fits, but the weights do not stay in memory: each token reads them again "
                      "from the disk."},
        {"in-place", "The model fits without copies of its weights; its results are the same."},
        {"with-copies", "The model fits with copies of its weights, which make tokens faster."},
        {"fits", "The model fits; it needs no copies of its weights."},
    };
    unsigned i = m->needed - m->file > m->available ? 0
                 : m->needed > m->available         ? 1
                 : m->copies == 0                   ? 4
                 : copies                           ? 3
                                                    : 2;
    m->verdict = VERDICTS[i].verdict;
    m->text = VERDICTS[i].text;
}

static struct memory measure(const bn_model *model, const struct bn_args *args)
{
    const struct bn_run_options *o = args->fields;
    struct memory m = {.file = model->n_bytes, .copies = bn_repack_bytes(model)};
    const bn_session_options options = {.n_ctx = o->n_ctx};
    struct bn_session_memory session = bn_session_plan(model, &options, &m.n_ctx);
    m.some_cache = bn_sequence_cache_bytes(model, SOME_TOKENS);
    m.cache = session.kv_bytes - session.state_bytes;
    m.state = session.state_bytes;
    m.scratch = session.scratch_bytes;
    if (!bn_add_ok(m.file + session.kv_bytes, m.scratch, &m.needed)) m.needed = UINT64_MAX;
    m.available = bn_mem_available();
    judge(&m, !model->repacking.no_room);
    return m;
}

static void row(struct bn_table *table, const char *name, uint64_t bytes)
{
    bn_table_row(table, "");
    bn_table_text(table, name);
    if (bytes == UINT64_MAX)
        bn_table_text(table, "unknown");
    else
        bn_table_value(table, (double)bytes, "bytes");
}

static bn_status print(const struct memory *m, bn_error *err)
{
    static const char *const HEADS[] = {"memory", "size"};
    char cache[64];
    struct bn_buf out = {.max = BN_RUN_MAX_TEXT_BYTES};
    struct bn_table table;
    snprintf(cache, sizeof cache, "keys and values of %u tokens", m->n_ctx);
    bn_table_begin(&table, HEADS, "lr");
    row(&table, "weights, in the file", m->file);
    row(&table, cache, m->cache);
    if (m->state > 0) row(&table, "state of recurrent layers", m->state);
    row(&table, "scratch memory", m->scratch);
    row(&table, "needed", m->needed);
    if (m->copies > 0) row(&table, "copies of weights, when there is room", m->copies);
    row(&table, "each 1,000 tokens of context", m->some_cache);
    row(&table, "available on this machine", m->available);
    bn_table_put_text(&out, &table);
    bn_table_release(&table);
    bn_status status = bn_buf_check(&out, err);
    if (status == BN_OK) printf("\n%s%s\n", out.data, m->text);
    bn_buf_release(&out);
    return status;
}

bn_status bn_run_show_memory(const bn_model *model, const struct bn_args *args, bn_json *doc, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    if (o->n_ctx > model->hp.n_ctx)
        return bn_fail(err, BN_ERR_LIMIT, "a context of %u tokens is too large, the model's is %u", o->n_ctx,
                       model->hp.n_ctx);
    struct memory m = measure(model, args);
    if (doc == NULL) return print(&m, err);
    bn_json *memory = bn_json_put_object(doc, "memory");
    bn_json_put_u64(memory, "context", m.n_ctx);
    bn_json_put_u64(memory, "file_bytes", m.file);
    bn_json_put_u64(memory, "copies_bytes", m.copies);
    bn_json_put_u64(memory, "cache_bytes", m.cache);
    bn_json_put_u64(memory, "cache_bytes_per_1000_tokens", m.some_cache);
    bn_json_put_u64(memory, "state_bytes", m.state);
    if (m.needed != UINT64_MAX) {
        bn_json_put_u64(memory, "scratch_bytes", m.scratch);
        bn_json_put_u64(memory, "needed_bytes", m.needed);
    }
    if (m.available != UINT64_MAX) bn_json_put_u64(memory, "available_bytes", m.available);
    bn_json_put_string(memory, "verdict", m.verdict);
    return BN_OK;
}
