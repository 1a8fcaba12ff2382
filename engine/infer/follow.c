/* SPDX-License-Identifier: MIT
 *
 * Orders between the sessions of a divided model: sending them on the first rank, obeying them on the others.
 */

#include <stdio.h>

#include "base/error.h"
#include "infer/exchange.h"

/* ---- beginning ---- */

/* What must be the same on all ranks. */
struct agreement {
    bn_error err;
    bn_status status;
    char version[16], isa[16];
    char header[BN_SHA256_HEX]; /* digest of the file's keys and list of tensors */
    uint64_t n_bytes;
    uint32_t n_ctx, n_batch, n_copies; /* n_copies: steps of bn_model_repack */
};

static void describe(const bn_session *s, struct agreement *a)
{
    const struct bn_model *m = s->model;
    snprintf(a->version, sizeof a->version, "%s", bn_version());
    snprintf(a->isa, sizeof a->isa, "%s", m->kernels->isa);
    a->n_bytes = m->n_bytes;
    a->n_ctx = s->n_ctx;
    a->n_batch = s->n_batch;
    a->n_copies = m->repacking.n_steps;
    size_t n = bn_min_size((size_t)m->gguf.data_offset, m->n_bytes);
    bn_sha256_hex(m->bytes, n, a->header);
}

static bn_status differ(unsigned rank, const char *what, const char *there, const char *here,
                        const char *hint, bn_error *err)
{
    return bn_hint(
        bn_fail(err, BN_ERR_MISMATCH, "rank %u has %s %.40s, rank 0 has %.40s", rank, what, there, here), err,
        "%s", hint);
}

/* The numbers of a rank that must be those of the first. */
static bn_status compare(const struct agreement *first, const struct agreement *a, unsigned rank,
                         bn_error *err)
{
    const char *same_file = "all ranks must open the same file";
    const struct {
        const char *what;
        uint64_t there, here;
        const char *hint;
    } NUMBERS[] = {
        {"a model file of bytes:", a->n_bytes, first->n_bytes, same_file},
        {"a context of", a->n_ctx, first->n_ctx, "set --ctx"},
        {"batches of", a->n_batch, first->n_batch, "set --batch"},
        {"packed copies:", a->n_copies, first->n_copies, "set --repack to always or never"},
    };
    char there[32], here[32];
    if (strcmp(a->version, first->version) != 0)
        return differ(rank, "version", a->version, first->version, "install one version on all machines",
                      err);
    if (strcmp(a->isa, first->isa) != 0)
        return differ(rank, "instruction set", a->isa, first->isa, "choose one with --isa", err);
    for (size_t i = 0; i < BN_ARRAY_LEN(NUMBERS); i++) {
        if (NUMBERS[i].there == NUMBERS[i].here) continue;
        snprintf(there, sizeof there, "%llu", (unsigned long long)NUMBERS[i].there);
        snprintf(here, sizeof here, "%llu", (unsigned long long)NUMBERS[i].here);
        return differ(rank, NUMBERS[i].what, there, here, NUMBERS[i].hint, err);
    }
    if (strcmp(a->header, first->header) != 0)
        return differ(rank, "a model whose header has sha256", a->header, first->header, same_file, err);
    return BN_OK;
}

/* The first failure. The rank is named unless the first rank failed. */
static bn_status judge(const struct agreement *all, unsigned n, bn_error *err)
{
    for (unsigned i = 0; i < n; i++) {
        if (all[i].status == BN_OK) continue;
        if (err != NULL) {
            *err = all[i].err;
            if (i > 0) snprintf(err->msg, sizeof err->msg, "rank %u: %.230s", i, all[i].err.msg);
        }
        return all[i].status;
    }
    for (unsigned i = 1; i < n; i++)
        BN_TRY(compare(&all[0], &all[i], i, err));
    return BN_OK;
}

bn_status bn_session_agree(const struct bn_ranks *ranks, const bn_session *session, bn_status status,
                           bn_error *err)
{
    bn_error own = {0};
    struct agreement *all = bn_alloc(ranks->count, sizeof *all);
    size_t *edges = bn_alloc(ranks->count + 1u, sizeof *edges);
    if (all == NULL || edges == NULL) { /* the others wait */
        bn_free(all);
        bn_free(edges);
        return bn_nomem(err);
    }
    struct agreement *mine = &all[ranks->index];
    if (err != NULL) mine->err = *err;
    mine->status = status;
    if (status == BN_OK) describe(session, mine);
    for (size_t i = 0; i <= ranks->count; i++)
        edges[i] = i * sizeof *all;
    status = ranks->gather(ranks->context, all, edges, &own);
    if (status == BN_OK) status = judge(all, ranks->count, &own);
    if (err != NULL && status != BN_OK) *err = own;
    if (status == BN_OK) session->link->agreed = true;
    bn_free(all);
    bn_free(edges);
    return status;
}

/* ---- orders of the first rank ---- */

static void give(const struct bn_session *s, struct bn_order order)
{
    struct bn_link *link = s->link;
    if (!link->failed) link->failed = bn_order_broadcast(s->model, &order, &link->err) != BN_OK;
}

#define ROW_WORDS (sizeof(struct bn_order_row) / sizeof(uint32_t))

bn_status bn_lead_pass(struct bn_session *s, bn_error *err)
{
    size_t n = s->run.n;
    if (!bn_model_leads(s->model)) return BN_OK;
    uint32_t *words = s->link->orders;
    for (size_t j = 0; j < n; j++) {
        struct bn_order_row row = {s->rows[j].sequence->number, s->rows[j].position, s->rows[j].token};
        memcpy(words + j * ROW_WORDS, &row, sizeof row);
    }
    memcpy(words + n * ROW_WORDS, s->wanted, s->run.n_wanted * sizeof *s->wanted);
    struct bn_order order = {.kind = BN_ORDER_PASS,
                             .pass = {.n = (uint32_t)n,
                                      .n_wanted = (uint32_t)s->run.n_wanted,
                                      .n_heads = (uint32_t)s->run.n_heads,
                                      .n_best = (uint32_t)bn_min_size(s->run.n_best, UINT32_MAX),
                                      .wants_logits = s->run.logits != NULL,
                                      .screen_off = s->screen_off}};
    memcpy(&order.pass.first, words, sizeof order.pass.first);
    give(s, order);
    if (n > 1) bn_exchange_message(s, words, (n * ROW_WORDS + s->run.n_wanted) * sizeof *words);
    return bn_session_check_link(s, err);
}

/* 64-bit words of a mask of the vocabulary. */
static size_t mask_words(const struct bn_session *s)
{
    return ((size_t)s->model->hp.n_vocab + 63) / 64;
}

void bn_lead_masked(struct bn_session *s, const float *hidden, const uint64_t *mask)
{
    size_t row = (size_t)(hidden - s->hidden) / s->model->hp.n_embd;
    give(s, (struct bn_order){.kind = BN_ORDER_MASKED, .masked = {.hidden = (uint32_t)row}});
    bn_exchange_message(s, (void *)(uintptr_t)mask, mask_words(s) * sizeof *mask);
}

uint32_t bn_lead_sequence(const struct bn_session *s, uint32_t n_ctx)
{
    if (!bn_model_leads(s->model)) return 0;
    give(s, (struct bn_order){.kind = BN_ORDER_SEQUENCE, .sequence = {.n_ctx = n_ctx}});
    return ++s->link->n_sequences;
}

void bn_lead_copy(const struct bn_session *s, const struct bn_sequence *to, const struct bn_sequence *from,
                  size_t first, size_t end)
{
    if (!bn_model_leads(s->model)) return;
    give(s, (struct bn_order){.kind = BN_ORDER_COPY,
                              .copy = {to->number, from->number, (uint32_t)first, (uint32_t)end}});
}

void bn_lead_end(struct bn_session *s)
{
    if (s->link != NULL && s->link->agreed && bn_model_leads(s->model))
        give(s, (struct bn_order){.kind = BN_ORDER_END});
}

/* ---- obeying them ---- */

/* What a session needs to obey, besides itself. */
struct follower {
    struct bn_session *s;
    struct bn_model *m;
    float *logits; /* n_rows rows */
    size_t n_rows;
    uint64_t *mask;
    bn_error *err;
};

static struct bn_sequence *sequence_of(const struct follower *f, uint32_t number)
{
    if (number == 0) return &f->s->own;
    return number <= f->s->link->n_sequences ? f->s->link->sequences[number - 1] : NULL;
}

static bn_status impossible(const struct follower *f)
{
    return bn_fail(f->err, BN_ERR_INTERNAL, "the first rank gave an order that cannot be obeyed");
}

static bn_status make_rows(struct follower *f, size_t n)
{
    if (n <= f->n_rows) return BN_OK;
    bn_free(f->logits);
    f->n_rows = 0;
    f->logits = bn_alloc_aligned(n * f->m->hp.n_vocab, sizeof *f->logits);
    if (f->logits == NULL) return bn_nomem(f->err);
    f->n_rows = n;
    return BN_OK;
}

static bn_status set_row(const struct follower *f, size_t j, struct bn_order_row row)
{
    struct bn_sequence *sequence = sequence_of(f, row.sequence);
    if (sequence == NULL || row.position >= sequence->n_ctx || row.token < 0 ||
        (uint32_t)row.token >= f->m->hp.n_vocab)
        return impossible(f);
    f->s->rows[j] = (struct bn_row){sequence, row.position, row.token};
    return BN_OK;
}

static bn_status take_rows(struct follower *f, const struct bn_order *order)
{
    struct bn_session *s = f->s;
    size_t n = order->pass.n, n_wanted = order->pass.n_wanted;
    uint32_t *words = s->link->orders;
    if (n == 0 || n > s->n_batch || n_wanted > n || order->pass.n_heads > n_wanted) return impossible(f);
    if (n == 1) {
        s->wanted[0] = 0;
        return set_row(f, 0, order->pass.first);
    }
    bn_exchange_message(s, words, (n * ROW_WORDS + n_wanted) * sizeof *words);
    BN_TRY(bn_session_check_link(s, f->err));
    for (size_t j = 0; j < n; j++) {
        struct bn_order_row row;
        memcpy(&row, words + j * ROW_WORDS, sizeof row);
        BN_TRY(set_row(f, j, row));
    }
    for (size_t i = 0; i < n_wanted; i++) {
        s->wanted[i] = words[n * ROW_WORDS + i];
        if (s->wanted[i] >= n) return impossible(f);
    }
    return BN_OK;
}

/* Rows that are not finite end the pass of the first rank with an error; here only the exchanges matter. */
static bn_status pass(struct follower *f, const struct bn_order *order)
{
    struct bn_session *s = f->s;
    float *logits = NULL;
    bn_batch_start(s);
    BN_TRY(take_rows(f, order));
    s->run.n = order->pass.n;
    s->run.n_wanted = order->pass.n_wanted;
    s->run.n_heads = order->pass.n_heads;
    s->screen_off = order->pass.screen_off != 0;
    if (order->pass.wants_logits && s->run.n_heads > 0) {
        BN_TRY(make_rows(f, s->run.n_heads));
        logits = f->logits;
    }
    bn_status status = bn_forward(s, order->pass.n_best, logits, NULL);
    if (status != BN_OK && !s->run.bad_row) return bn_session_check_link(s, f->err);
    s->n_hidden = s->run.n_wanted;
    return BN_OK;
}

static bn_status masked(struct follower *f, const struct bn_order *order)
{
    const float *hidden = bn_session_hidden_row(f->s, order->masked.hidden);
    if (hidden == NULL) return impossible(f);
    BN_TRY(make_rows(f, 1));
    bn_exchange_message(f->s, f->mask, mask_words(f->s) * sizeof *f->mask);
    bn_head_masked(f->s, hidden, f->mask, f->logits);
    return bn_session_check_link(f->s, f->err);
}

static bn_status open_sequence(struct follower *f, const struct bn_order *order)
{
    struct bn_link *link = f->s->link;
    size_t n = link->n_sequences;
    struct bn_sequence **list = bn_realloc(link->sequences, n + 1, sizeof *list);
    if (list == NULL) return bn_nomem(f->err);
    link->sequences = list;
    BN_TRY(bn_sequence_open(&list[n], f->s, order->sequence.n_ctx, f->err));
    link->n_sequences++;
    return BN_OK;
}

static bn_status copy(struct follower *f, const struct bn_order *order)
{
    struct bn_sequence *to = sequence_of(f, order->copy.to), *from = sequence_of(f, order->copy.from);
    uint32_t first = order->copy.first, end = order->copy.end;
    if (to == NULL || from == NULL || first > end || end > to->n_ctx || end > from->n_ctx)
        return impossible(f);
    bn_sequence_copy(f->s, to, from, first, end);
    return BN_OK;
}

static bn_status obey(struct follower *f, const struct bn_order *order)
{
    char hex[BN_SHA256_HEX];
    switch (order->kind) {
    case BN_ORDER_PASS:
        return pass(f, order);
    case BN_ORDER_SEQUENCE:
        return open_sequence(f, order);
    case BN_ORDER_COPY:
        return copy(f, order);
    case BN_ORDER_MASKED:
        return masked(f, order);
    case BN_ORDER_TALLY:
        bn_session_tally(f->s);
        return bn_session_check_link(f->s, f->err);
    case BN_ORDER_REPACK:
        bn_model_repack(f->m);
        return BN_OK;
    case BN_ORDER_DIGEST: /* the first rank reports a difference */
        return bn_model_digest(f->m, hex, NULL) != BN_ERR_NETWORK
                   ? BN_OK
                   : bn_fail(f->err, BN_ERR_NETWORK, "no digests");
    default:
        return impossible(f);
    }
}

bn_status bn_session_follow(bn_session *s, bn_model *model, bn_error *err)
{
    struct follower f = {.s = s, .m = model, .err = err, .mask = bn_alloc(mask_words(s), sizeof *f.mask)};
    struct bn_order order = {.kind = BN_ORDER_END};
    bn_status status = f.mask != NULL ? BN_OK : bn_nomem(err);
    while (status == BN_OK) {
        status = bn_order_broadcast(model, &order, err);
        if (status != BN_OK || order.kind == BN_ORDER_END) break;
        status = obey(&f, &order);
    }
    bn_free(f.logits);
    bn_free(f.mask);
    return status;
}
