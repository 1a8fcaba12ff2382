/* SPDX-License-Identifier: MIT
 *
 * The grammar of a request: a text of GBNF, or a JSON Schema. A schema that is part of a request is written again with
 * its members in their order, which is the order of the members of the answer.
 */
#include <string.h>

#include "base/error.h"
#include "grammar/grammar.h"
#include "tools/cli/batch/lanes.h"

bn_status bn_request_schema(bn_grammar **out, const bn_json *schema, bn_error *err)
{
    struct bn_buf text = {.max = 4 * BN_GRAMMAR_MAX_BYTES};
    bn_status status = bn_json_write(schema, false, &text, err);
    if (status == BN_OK) status = bn_grammar_open_json_schema(out, bn_buf_text(&text), text.len, err);
    bn_buf_release(&text);
    return status;
}

bool bn_request_grammar(bn_grammar **out, const bn_json *member, bn_status *status, bn_error *err)
{
    const char *name = bn_json_name(member), *text;
    bool is_schema = strcmp(name, "json_schema") == 0;
    if (!is_schema && strcmp(name, "grammar") != 0) return false;
    if (*out != NULL)
        *status = bn_fail(err, BN_ERR_ARG, "grammar and json_schema are given, one is allowed");
    else if (is_schema)
        *status = bn_request_schema(out, member, err);
    else if (bn_json_string(member, &text))
        *status = bn_grammar_open_gbnf(out, text, strlen(text), err);
    else
        *status = bn_fail(err, BN_ERR_FORMAT, "grammar is not a text");
    return true;
}

const char *bn_request_stuck(const bn_generation *gen)
{
    if (gen->stuck == BN_ERR_NOMEM) return "out of memory";
    return gen->stuck == BN_ERR_LIMIT ? "the grammar is over a limit of places, states or steps"
                                      : "no token continues the text under the grammar";
}
