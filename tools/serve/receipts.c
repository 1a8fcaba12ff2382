/* SPDX-License-Identifier: MIT
 *
 * The receipts of the last answers: in files of a folder, or in memory within a bound. A name is found in the list of
 * those that this server made; no path comes from a client.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "tools/cli/default_model.h"
#include "tools/serve/serve.h"

#define MAX_MEMORY_BYTES (64u << 20) /* of all receipts */

static bool path_of(const struct bn_server *s, const char *id, char path[4096])
{
    return (size_t)snprintf(path, 4096, "%s/%s.json", s->o->receipts, id) < 4096;
}

/* Under the lock. */
static void drop(struct bn_server *s, struct bn_receipt_entry *entry)
{
    char path[4096];
    if (entry->id[0] == '\0') return;
    if (s->o->receipts != NULL && path_of(s, entry->id, path)) (void)unlink(path);
    s->receipt_bytes -= entry->text.len;
    bn_buf_release(&entry->text);
    *entry = (struct bn_receipt_entry){0};
}

static void insert(struct bn_server *s, const struct bn_choice *c, const struct bn_buf *text)
{
    pthread_mutex_lock(&s->lock);
    struct bn_receipt_entry *entry = &s->receipts[s->next_receipt % s->o->n_receipts];
    drop(s, entry);
    entry->tenant = c->job->tenant;
    snprintf(entry->id, sizeof entry->id, "%s", c->receipt);
    entry->text = *text;
    s->receipt_bytes += text->len;
    s->next_receipt++;
    for (size_t i = 0; i + 1 < s->o->n_receipts && s->receipt_bytes > MAX_MEMORY_BYTES; i++)
        drop(s, &s->receipts[(s->next_receipt + i) % s->o->n_receipts]);
    pthread_mutex_unlock(&s->lock);
}

bn_status bn_receipts_keep(struct bn_server *s, struct bn_choice *c, bn_error *err)
{
    char path[4096];
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bn_json *statement = NULL;
    struct bn_receipt_input in = {
        .model = s->model,
        .session = s->session,
        .generation = &c->gen,
        .model_name = bn_cli_model_name(s->args),
        .prompt = c->text,
        .n_prompt_bytes = c->n_text_bytes,
        .template_name = bn_template_name(c->job->chat ? s->tmpl : BN_TEMPLATE_RAW),
        .thinking = c->job->chat ? bn_template_thinking(s->tmpl) : BN_THINKING_NONE,
        .isa = s->args->isa,
        .load_ns = s->load_ns,
        .n_threads = s->o->n_threads,
        .n_ctx = s->o->n_ctx,
        .n_batch = s->o->n_batch,
        .facts = &s->facts,
    };
    BN_TRY(bn_receipt_build(&statement, &in, err));
    bn_status status = bn_json_write(statement, false, &text, err);
    bn_json_free(statement);
    bn_buf_putc(&text, '\n');
    if (status == BN_OK) status = bn_buf_check(&text, err);
    if (status == BN_OK && s->o->receipts != NULL) {
        status = path_of(s, c->receipt, path)
                     ? bn_file_write_atomic(path, text.data, text.len, err)
                     : bn_fail(err, BN_ERR_ARG, "the name of the folder is too long");
        bn_buf_release(&text);
        text = (struct bn_buf){0};
    }
    if (status == BN_OK)
        insert(s, c, &text);
    else
        bn_buf_release(&text);
    return status;
}

bool bn_receipts_find(struct bn_server *s, const char *id, uint32_t tenant, struct bn_buf *out)
{
    char path[4096];
    bool found = false;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->o->n_receipts && id[0] != '\0' && !found; i++) {
        const struct bn_receipt_entry *entry = &s->receipts[i];
        if (entry->tenant != tenant || strcmp(entry->id, id) != 0) continue;
        found = true;
        bn_buf_append(out, bn_buf_text(&entry->text), entry->text.len);
        if (s->o->receipts != NULL)
            found = path_of(s, entry->id, path) && bn_file_read_regular(path, out, NULL) == BN_OK;
    }
    pthread_mutex_unlock(&s->lock);
    return found && !out->failed;
}

/* Files stay. */
void bn_receipts_release(struct bn_server *s)
{
    for (size_t i = 0; i < s->o->n_receipts; i++)
        bn_buf_release(&s->receipts[i].text);
    bn_free(s->receipts);
}
