/* SPDX-License-Identifier: MIT
 *
 * Opens grammars. A grammar keeps the text that it was opened with, and its digest, for receipts.
 */
#include "grammar/grammar.h"

#include "base/error.h"

const char *bn_grammar_kind_name(enum bn_grammar_kind kind)
{
    return kind == BN_GRAMMAR_GBNF ? "gbnf" : "json_schema";
}

bool bn_grammar_kind_from_name(const char *name, enum bn_grammar_kind *out)
{
    *out = strcmp(name, "gbnf") == 0 ? BN_GRAMMAR_GBNF : BN_GRAMMAR_JSON_SCHEMA;
    return strcmp(name, bn_grammar_kind_name(*out)) == 0;
}

static bn_status build(bn_grammar *g, bn_error *err)
{
    struct bn_buf gbnf = {.max = BN_GRAMMAR_MAX_GBNF};
    const char *text = g->text;
    size_t n = g->n_text;
    if (g->kind == BN_GRAMMAR_JSON_SCHEMA) {
        bn_status status = bn_schema_translate(g->text, g->n_text, &gbnf, err);
        if (status == BN_OK) status = bn_buf_check(&gbnf, err);
        if (status != BN_OK) {
            bn_buf_release(&gbnf);
            return status;
        }
        text = g->gbnf = gbnf.data;
        n = gbnf.len;
    }
    BN_TRY(bn_grammar_parse(g, text, n, err));
    return bn_grammar_check(g, err);
}

bn_status bn_grammar_open(bn_grammar **out, enum bn_grammar_kind kind, const char *text, size_t n_bytes,
                          bn_error *err)
{
    *out = NULL;
    if (n_bytes > BN_GRAMMAR_MAX_BYTES)
        return bn_fail(err, BN_ERR_LIMIT, "a grammar of %zu bytes is too long, at most %u are allowed",
                       n_bytes, BN_GRAMMAR_MAX_BYTES);
    bn_grammar *g = bn_alloc(1, sizeof *g);
    if (g == NULL) return bn_nomem(err);
    g->kind = kind;
    g->n_text = n_bytes;
    g->text = bn_strndup(text, n_bytes);
    bn_sha256_hex(text, n_bytes, g->sha256);
    bn_status status = g->text == NULL ? bn_nomem(err) : build(g, err);
    bn_free(g->set_slots);
    bn_free(g->rule_slots);
    g->set_slots = g->rule_slots = NULL;
    if (status != BN_OK) {
        bn_grammar_close(g);
        return status;
    }
    *out = g;
    return BN_OK;
}

bn_status bn_grammar_open_gbnf(bn_grammar **out, const char *text, size_t n_bytes, bn_error *err)
{
    return bn_grammar_open(out, BN_GRAMMAR_GBNF, text, n_bytes, err);
}

bn_status bn_grammar_open_json_schema(bn_grammar **out, const char *schema, size_t n_bytes, bn_error *err)
{
    return bn_grammar_open(out, BN_GRAMMAR_JSON_SCHEMA, schema, n_bytes, err);
}

void bn_grammar_close(bn_grammar *g)
{
    if (g == NULL) return;
    bn_free(g->text);
    bn_free(g->gbnf);
    bn_free(g->nodes);
    bn_free(g->loops);
    bn_free(g->sets);
    bn_free(g->rules);
    bn_free(g->set_slots);
    bn_free(g->rule_slots);
    bn_free(g);
}
